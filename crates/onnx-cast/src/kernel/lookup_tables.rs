//! What a cast makes of each code of a source of 8 bits or fewer: the tables of the backends that look such sources up.

pub(crate) mod fold;

use super::{Context, cast_code};
use crate::element::{Class, DataType, NUMBERS};
use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::ops::Deref;
use core::sync::atomic::{AtomicU8, Ordering};
use fold::Fold;

/// The result of every code, split into planes: all low bytes, then all high bytes. Results have 16 bits or fewer; for
/// `float`, the entries are the upper 16 bits. For sources of fewer than 8 bits, the entries repeat.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(crate) struct Table {
    pub(crate) planes: [[u8; 256]; 2],
    /// The bits that a negative code's entry has besides those of its magnitude's, if all codes of 6 or 8 bits follow
    /// this rule. (With 8 bits, 0x80 may have any entry.)
    pub(crate) sign: Option<[u8; 2]>,
    /// How the entries of codes of 6 or 8 bits with the top bit set follow from the others, in tables to integers and
    /// from int8, if they do.
    pub(crate) upper: Option<Upper>,
    /// Whether entries of 16 bits have the 8-bit codes above a byte of zeros, those of NaN made quiet: `float8e5m2` as
    /// `float16`.
    pub(crate) has_upper_bytes: bool,
    /// Which entries are needed, of tables of 8-bit codes that are kept.
    pub(crate) fold: Option<Fold>,
}

/// How the entries of codes with the top bit set follow from those without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Upper {
    /// All are 0.
    Zero,
    /// They are negated as integers of the target's width.
    Negated,
    /// Likewise, of 8 bits: the largest magnitude is 128, of which positive numbers have 127.
    NegatedTo128,
    /// Those of int8 to a float of 8 bits: the entries of the integers' magnitudes with the sign; -128 has that of
    /// -127.
    Signed,
}

impl Table {
    /// The table of a cast whose source has 8 bits or fewer, and whose target 16 or fewer or a [`hub`].
    #[cold]
    #[inline(never)]
    pub(crate) fn new(context: &Context) -> Self {
        let mut planes = [[0; 256]; 2];
        let [low, high] = &mut planes;
        let dropped = context.to.info().bits.saturating_sub(MAX_TARGET_BITS);
        for (code, (low, high)) in low.iter_mut().zip(high).take(1 << context.from.info().bits).enumerate() {
            let entry = cast_code(context.from, context.to, code as u8, &context.rules) >> dropped;
            (*low, *high) = (entry as u8, (entry >> 8) as u8);
        }
        for plane in &mut planes {
            repeat(plane, 1 << context.from.info().bits);
        }
        let mut table = Table { planes, sign: None, upper: None, has_upper_bytes: false, fold: None };
        let bits = context.from.info().bits;
        if matches!(bits, 6 | 8) {
            let half = 1 << (bits - 1);
            let sign = planes.each_ref().map(|plane| plane[half + 1] ^ plane[1]);
            let has_sign =
                |code: usize| planes.iter().zip(sign).all(|(plane, sign)| plane[code + half] == plane[code] | sign);
            table.sign = (usize::from(bits == 8)..half).all(has_sign).then_some(sign);
            table.upper = match Class::of(context.to) {
                Some(Class::Int { bits, .. }) if bits <= 16 => table.upper_half(half, bits),
                Some(Class::SmallFloat(format)) if bits == 8 && format.bits == 8 => {
                    table.is_of_int8().then_some(Upper::Signed)
                }
                _ => None,
            };
            table.has_upper_bytes = bits == 8 && context.to.info().bits == 16 && table.are_upper_bytes();
        }
        table
    }

    /// How the upper half of the entries, of so many bits, follows from the lower.
    fn upper_half(&self, half: usize, bits: u32) -> Option<Upper> {
        let word = |code: usize| u16::from_le_bytes(self.planes.map(|plane| plane[code]));
        let mask = u16::MAX >> (16 - bits);
        let all = |follows: &dyn Fn(u16, u16) -> bool| (0..half).all(|code| follows(word(code), word(code + half)));
        if all(&|_, upper| upper == 0) {
            Some(Upper::Zero)
        } else if all(&|lower, upper| upper == lower.wrapping_neg() & mask) {
            Some(Upper::Negated)
        } else if bits == 8 && all(&|lower, upper| lower == (upper.wrapping_neg() & 0xff).min(0x7f)) {
            Some(Upper::NegatedTo128)
        } else {
            None
        }
    }

    /// Whether the entries of integers, to a float of 8 bits, are those of their magnitudes with the sign.
    fn is_of_int8(&self) -> bool {
        let entries = &self.planes[0];
        (0x80..256).all(|code| entries[code] == entries[(256 - code).min(0x7f)] | 0x80)
    }

    /// [`Table::has_upper_bytes`].
    fn are_upper_bytes(&self) -> bool {
        let [low, high] = &self.planes;
        *low == [0; 256]
            && (0..=u8::MAX).all(|code| {
                let quiet = if code & 0x7f > UPPER_INFINITY { UPPER_QUIET } else { 0 };
                high[usize::from(code)] == code | quiet
            })
    }

    /// Folds the table of a cast, if the source has 8 bits, the target has 16 bits or fewer, and the build has kernels
    /// for folded tables: those of AVX2, and in tests those over plain lanes.
    #[cold]
    pub(crate) fn folded(&self, context: &Context) -> Option<Fold> {
        let has_kernels = cfg!(any(simd = "x86_64", all(test, optimized), miri));
        let is_folded = context.from.info().bits == 8 && context.to.info().bits <= MAX_TARGET_BITS;
        if has_kernels && is_folded { Fold::new(self, context.from, context.to) } else { None }
    }
}

/// The upper byte of infinity as `float16`, and the bit in it that makes NaN quiet.
pub(crate) const UPPER_INFINITY: u8 = 0x7c;
pub(crate) const UPPER_QUIET: u8 = 0x02;

/// Repeats the first entries of a table to its end.
pub(crate) fn repeat(entries: &mut [u8; 256], count: usize) {
    let (first, others) = entries.split_at_mut(count);
    others.chunks_mut(count).for_each(|chunk| chunk.copy_from_slice(first));
}

/// Bits of the widest results in a table.
const MAX_TARGET_BITS: u32 = 16;

/// Sources that are looked up, and their targets: pairs that have a place for a table.
const SOURCE_INDICES: ([Option<u8>; NUMBERS], usize) = indices(8, DataType::Uint8);
const TARGET_INDICES: ([Option<u8>; NUMBERS], usize) = indices(MAX_TARGET_BITS, DataType::Float);

/// Index of each type among the types of at most `bits` bits and one other type, by ONNX's number, and the number of
/// these types.
const fn indices(bits: u32, other: DataType) -> ([Option<u8>; NUMBERS], usize) {
    let mut indices = [None; NUMBERS];
    let (mut i, mut count) = (0, 0);
    while i < DataType::NUMERIC.len() {
        let data_type = DataType::NUMERIC[i];
        if data_type.info().bits <= bits || data_type as usize == other as usize {
            indices[data_type as usize] = Some(count);
            count += 1;
        }
        i += 1;
    }
    (indices, count as usize)
}

/// The tables of the default rules. Making one costs as much as casting hundreds of elements, so they are kept.
static TABLES: [[OnceTable; TARGET_INDICES.1]; SOURCE_INDICES.1] =
    [const { [const { OnceTable::new() }; TARGET_INDICES.1] }; SOURCE_INDICES.1];

/// The table of a cast under the default rules, which is made when it is first asked for and kept; `None` under others.
#[inline]
pub(crate) fn kept(context: &Context) -> Option<&'static Table> {
    if context.rules != Context::plain(context.from, context.to).rules {
        return None;
    }
    let source = SOURCE_INDICES.0[context.from as usize]?;
    let target = TARGET_INDICES.0[context.to as usize]?;
    TABLES[usize::from(source)][usize::from(target)].get_or_make(context)
}

/// A table that is kept, or one that was made for this cast alone.
#[expect(clippy::large_enum_variant, reason = "it lives on the stack during a cast, and a box would allocate")]
pub(crate) enum KeptOrMade {
    Kept(&'static Table),
    Made(Table),
}

impl KeptOrMade {
    /// The table of a cast.
    #[inline]
    pub(crate) fn new(context: &Context) -> Self {
        kept(context).map_or_else(|| KeptOrMade::Made(Table::new(context)), KeptOrMade::Kept)
    }
}

impl Deref for KeptOrMade {
    type Target = Table;

    #[inline]
    fn deref(&self) -> &Table {
        match self {
            KeptOrMade::Kept(table) => table,
            KeptOrMade::Made(table) => table,
        }
    }
}

/// Type of the entries in the table of a [fused](super::algorithm::Algorithm::Fused) cast that looks its source up:
/// `int8` or `bfloat16`, which represent every value of the source, or `float`, whose lower 16 bits are zero and not
/// stored.
pub(crate) const fn hub(from: DataType, to: DataType, is_wide: bool) -> DataType {
    match to {
        DataType::Float if is_wide || from.is_float() => to,
        _ if from.is_float() => DataType::BFloat16,
        _ => DataType::Int8,
    }
}

/// A table, once it is made. All zeros before that, so that the hundreds of these take no room in a file; those of a
/// `OnceLock` would.
struct OnceTable {
    state: AtomicU8,
    table: UnsafeCell<MaybeUninit<Table>>,
}

const EMPTY: u8 = 0;
const TAKEN: u8 = 1;
const MADE: u8 = 2;

// SAFETY: the table is written by one thread, the one that took the state from EMPTY, and only read once the state is
// MADE, which that thread sets afterwards; from then on it is shared.
unsafe impl Sync for OnceTable {}

impl OnceTable {
    const fn new() -> Self {
        OnceTable { state: AtomicU8::new(EMPTY), table: UnsafeCell::new(MaybeUninit::uninit()) }
    }

    /// Lock-free: a thread that finds the table under construction gets `None`.
    #[inline]
    fn get_or_make(&'static self, context: &Context) -> Option<&'static Table> {
        if self.state.load(Ordering::Acquire) != MADE {
            self.make(context)?;
        }
        // SAFETY: the state says that the table was written, and nothing writes to it any more.
        Some(unsafe { (*self.table.get()).assume_init_ref() })
    }

    #[cold]
    #[inline(never)]
    fn make(&self, context: &Context) -> Option<()> {
        self.state.compare_exchange(EMPTY, TAKEN, Ordering::Relaxed, Ordering::Relaxed).ok()?;
        let mut table = Table::new(context);
        table.fold = table.folded(context);
        // SAFETY: only the thread that takes the state from EMPTY comes here, once, and none reads before MADE.
        unsafe { (*self.table.get()).write(table) };
        self.state.store(MADE, Ordering::Release);
        Some(())
    }
}
