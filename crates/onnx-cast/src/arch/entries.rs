//! What a cast makes of each code of a source of 8 bits or fewer: the tables of the backends that look such sources up.

use super::portable;
use crate::element::{DataType, Element};
use crate::kernel::{Kernel, Store};
use crate::packed::{pack, unpack};
use crate::scalar::{RoundMode, Rules};
use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU8, Ordering};

/// Entries of the largest table.
pub(crate) const MOST: usize = 256;

/// Codes of the largest type that is not of 8 bits.
const PACKED: usize = 64;

/// Every byte, in order.
const BYTES: [u8; MOST] = {
    let mut bytes = [0; MOST];
    let mut byte = 0;
    while byte < MOST {
        bytes[byte] = byte as u8;
        byte += 1;
    }
    bytes
};

/// Whether half a byte is mapped to half a byte: as many elements in it on both sides.
pub(crate) const fn half_bytes(from_bits: usize, to_bits: usize) -> bool {
    from_bits == to_bits && from_bits < 8 && 4 % from_bits == 0
}

/// What the portable kernel makes of every code; where half a byte is mapped, of every byte.
pub(crate) fn of_pair(from: DataType, to: DataType, kernel: Kernel, rules: &Rules) -> [u64; MOST] {
    if half_bytes(from.info().bits as usize, to.info().bits as usize) {
        of_bytes(from, to, kernel, rules)
    } else {
        of_codes(from, to, kernel, rules)
    }
}

/// What the portable kernel makes of the two or four elements in every byte, both types being of 4 or 2 bits.
pub(crate) fn of_bytes(from: DataType, to: DataType, kernel: Kernel, rules: &Rules) -> [u64; MOST] {
    let elements = 8 / from.info().bits as usize;
    let bits = elements * to.info().bits as usize;
    let mut results = [0u8; MOST * 2];
    let results = &mut results[..MOST * bits / 8];
    // SAFETY: the portable kernel needs nothing of the processor; 256 bytes are this many elements, whose results have
    // these bits for each byte.
    unsafe { kernel(&BYTES, results, MOST * elements, rules, Store::Cached) };
    std::array::from_fn(|byte| match bits {
        4 => (results[byte / 2] >> (4 * (byte % 2)) & 15).into(),
        8 => results[byte].into(),
        _ => u16::from_le_bytes([results[2 * byte], results[2 * byte + 1]]).into(),
    })
}

/// What the portable kernel makes of every code.
pub(crate) fn of_codes(from: DataType, to: DataType, kernel: Kernel, rules: &Rules) -> [u64; MOST] {
    let (from_bits, to_bits) = (from.info().bits as usize, to.info().bits as usize);
    let count = if from_bits == 8 { MOST } else { PACKED };
    let mut codes = BYTES;
    let codes = &mut codes[..count * from_bits / 8];
    if from.is_packed() {
        pack(from, &BYTES[..count], codes);
    }
    let mut results = [0u8; MOST * 8];
    let results = &mut results[..count * to_bits / 8];
    // SAFETY: the portable kernel needs nothing of the processor; both slices are `count` elements.
    unsafe { kernel(codes, results, count, rules, Store::Cached) };
    let mut entries = [0; MOST];
    if to.is_packed() {
        let mut elements = [0; MOST];
        unpack(to, results, &mut elements[..count]);
        return elements.map(u64::from);
    }
    for (entry, result) in entries.iter_mut().zip(results.chunks_exact(to_bits / 8)) {
        *entry = result.iter().rev().fold(0, |entry, &byte| entry << 8 | u64::from(byte));
    }
    entries
}

/// The tables of a backend for the default settings, by source and target; made when they are first wanted, since making
/// one costs as much as casting a few thousand elements, and kept.
pub(crate) struct Tables<T>([[Kept<T>; 25]; 25]);

impl<T: Copy> Tables<T> {
    pub(crate) const fn new() -> Self {
        Tables([const { [const { Kept::new() }; 25] }; 25])
    }

    /// The place of a pair's table, if the rules are the default ones.
    #[inline]
    fn place<S: Element, D: Element>(&self, rules: &Rules) -> Option<&Kept<T>> {
        let pair = const { (S::DATA_TYPE.numeric_index(), D::DATA_TYPE.numeric_index()) };
        let (Some(from), Some(to)) = pair else { return None };
        let is_default = *rules == const { Rules::new(D::DATA_TYPE, 28, true, RoundMode::Up) };
        is_default.then_some(&self.0[from][to])
    }

    /// The table of a pair under these rules, if it has been made and kept.
    #[inline]
    pub(crate) fn kept<S: Element, D: Element>(&self, rules: &Rules) -> Option<&T> {
        self.place::<S, D>(rules).and_then(Kept::get)
    }

    /// Makes the table of a pair. `None` if it would not be kept and `len` is less than `worth`, for which it costs more
    /// than it saves.
    #[cold]
    #[inline(never)]
    pub(crate) fn make<S: Element, D: Element>(
        &self,
        rules: &Rules,
        len: usize,
        worth: usize,
        make: impl FnOnce(Kernel) -> T,
    ) -> Option<T> {
        let place = self.place::<S, D>(rules);
        if place.is_none() && len < worth {
            return None;
        }
        let table = make(portable::TABLE.get(S::DATA_TYPE, D::DATA_TYPE)?);
        if let Some(place) = place {
            place.keep(table);
        }
        Some(table)
    }
}

/// A table, once it is made. Nobody waits: who comes while it is being made makes one for itself. All zeros before that,
/// so that the hundreds of these take no room in a file; those of a `OnceLock` would.
struct Kept<T> {
    state: AtomicU8,
    table: UnsafeCell<MaybeUninit<T>>,
}

const EMPTY: u8 = 0;
const TAKEN: u8 = 1;
const MADE: u8 = 2;

// SAFETY: the table is written by one thread, the one that took the state from EMPTY, and only read once the state is
// MADE, which that thread sets afterwards; from then on it is shared, which `T` allows.
unsafe impl<T: Send + Sync> Sync for Kept<T> {}

impl<T> Kept<T> {
    const fn new() -> Self {
        Kept { state: AtomicU8::new(EMPTY), table: UnsafeCell::new(MaybeUninit::uninit()) }
    }

    #[inline]
    fn get(&self) -> Option<&T> {
        if self.state.load(Ordering::Acquire) != MADE {
            return None;
        }
        // SAFETY: the state says that the table was written, and nothing writes to it any more.
        Some(unsafe { (*self.table.get()).assume_init_ref() })
    }

    fn keep(&self, table: T) {
        if self.state.compare_exchange(EMPTY, TAKEN, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            // SAFETY: only the thread that takes the state from EMPTY comes here, once, and none reads before MADE.
            unsafe { (*self.table.get()).write(table) };
            self.state.store(MADE, Ordering::Release);
        }
    }
}
