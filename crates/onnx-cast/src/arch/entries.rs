//! What a cast makes of each code of a source of 8 bits or fewer: the tables of the backends that look such sources up.

use crate::element::DataType;
use crate::kernel::{Kernel, Store};
use crate::packed::{pack, unpack};
use crate::scalar::Rules;

/// Entries of the largest table.
pub(crate) const MOST: usize = 256;

/// Codes of the largest type that is not of 8 bits.
const PACKED: usize = 64;

/// Whether half a byte is mapped to half a byte: as many elements in it on both sides.
pub(crate) const fn half_bytes(from_bits: usize, to_bits: usize) -> bool {
    from_bits == to_bits && from_bits < 8 && 4 % from_bits == 0
}

/// What the portable kernel makes of every code; where half a byte is mapped, of every byte.
pub(crate) fn of_pair(from: DataType, to: DataType, kernel: Kernel, rules: &Rules) -> [u64; MOST] {
    let (from_bits, to_bits) = (from.info().bits as usize, to.info().bits as usize);
    let every_byte: [u8; MOST] = std::array::from_fn(|byte| byte as u8);
    let mut results = [0u8; MOST * 8];
    if half_bytes(from_bits, to_bits) {
        let results = &mut results[..MOST];
        // SAFETY: the portable kernel needs nothing of the processor; 256 bytes are this many elements on both sides.
        unsafe { kernel(&every_byte, results, MOST * 8 / from_bits, rules, Store::Cached) };
        return std::array::from_fn(|byte| results[byte].into());
    }
    let count = if from_bits == 8 { MOST } else { PACKED };
    let mut codes = every_byte;
    let codes = &mut codes[..count * from_bits / 8];
    if from.is_packed() {
        pack(from, &every_byte[..count], codes);
    }
    let results = &mut results[..count * to_bits / 8];
    // SAFETY: as above, for `count` elements.
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
