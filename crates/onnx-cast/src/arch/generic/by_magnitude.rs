//! Small floats by tables over the magnitude of the source, where a table of a few vectors decides: integers to types that
//! end below 256, and floats of 16 bits to types of 6 bits and fewer. The addition of [`super::small_float`] would do, but
//! in lanes of 32 bits, at a third of the speed or less (records/kernels.md).
//!
//! Every `unsafe fn` here asks of its caller that the processor has the instructions of `L` and that pointers are valid for
//! a step's bytes.
#![allow(unsafe_op_in_unsafe_fn, reason = "each line is a method of `Lanes`, which asks for no more")]

use super::lanes::Lanes;
use super::small_float::sign_of;
use super::step::{Task, both, parts, steps};
use super::wide::store_codes;
use crate::element::{Class, Element, class};
use crate::format::FloatFormat;
use crate::kernel::lookup_tables::Table;
use crate::packed::bits;
use crate::scalar::Rules;

/// The last entry of the table of an integer's magnitudes that is needed: from there on all results are the same. `None`
/// where the format goes on beyond a byte.
pub(crate) const fn last_magnitude(format: FloatFormat) -> Option<u8> {
    // The exponent of the largest number; beyond twice as much everything overflows.
    let top = (format.max_code() >> format.significand_bits) as i32 - format.bias + 1;
    match top {
        ..=6 => Some(63),
        7..=8 => Some(255),
        _ => None,
    }
}

/// Casts integers by the table of uint8 to the same target.
///
/// # Safety
/// As [`crate::kernel::Kernel`], of the instructions of `L`.
#[inline(always)]
pub(crate) unsafe fn cast_integers<L: Lanes, S: Element, D: Element, const N: usize>(task: Task<'_>, table: &Table) {
    let Class::SmallFloat(format) = (const { class::<D>() }) else { unreachable!("not a small float") };
    let entries = L::table::<N>(&table.planes[0]);
    let last = const { 16 * N as u64 - 1 };
    steps::<L, S, D>(
        task,
        #[inline(always)]
        |src, dst| {
            let (magnitude, top) = match const { class::<S>() } {
                Class::Int { bits: 16, signed } => {
                    let [a, b] = [L::load(src), L::load(src.add(L::BYTES))];
                    let within = [up_to::<L, 16>(a, signed, last), up_to::<L, 16>(b, signed, last)];
                    (L::low_halves::<16>(within), if signed { L::high_bytes([a, b]) } else { a })
                }
                Class::Int { bits: 8, signed } => (up_to::<L, 8>(L::load(src), signed, last), L::load(src)),
                _ => {
                    let value = parts!(i => super::wide::saturated_ints::<L, S>(src, i));
                    let within = parts!(i => {
                        up_to::<L, 32>(
                            value[i],
                            const { matches!(class::<S>(), Class::Int { signed: true, .. }) },
                            last,
                        )
                    });
                    (L::low_bytes(within), L::top_bits(value))
                }
            };
            let code = L::look_up::<N>(&entries, magnitude);
            if const { matches!(class::<S>(), Class::Int { signed: false, .. }) } {
                return store_codes::<L, D>(dst, code);
            }
            // Only 0 has the code 0, and its sign bit is clear.
            store_codes::<L, D>(dst, L::or(code, sign_of::<L>(format, top)));
        },
    );
}

/// The magnitudes of integers, cut off.
#[inline(always)]
unsafe fn up_to<L: Lanes, const W: usize>(value: L::V, signed: bool, last: u64) -> L::V {
    let last = L::splat::<W>(last);
    if !signed {
        return L::min_u::<W>(value, last);
    }
    // Of a number and its negative, the one without a sign is the smaller as an unsigned number.
    L::min_u::<W>(L::min_u::<W>(value, L::sub::<W>(L::splat::<W>(0), value)), last)
}

/// The codes of a finite format of 6 bits or fewer, by the magnitude of a float of 16: from the tie below the smallest
/// subnormal on, by exponent, as many bits of the significand as decide, and whether there is more below.
struct ByMagnitude {
    codes: [u8; 256],
    /// The magnitude at which the table begins. Below it everything rounds to zero, as it itself does.
    first: u16,
    /// How many bits of the magnitude are below the ones that decide.
    shift: u32,
    /// Entries that are in use.
    entries: u32,
}

impl ByMagnitude {
    const fn new(from: &FloatFormat, to: &FloatFormat) -> Self {
        let tie = from.bias - to.bias - to.significand_bits as i32;
        let first = (tie << from.significand_bits) as u16;
        let shift = from.significand_bits - to.significand_bits - 1;
        // Eight exponents of 8 entries each, or 256: the last of them is beyond the largest number either way.
        let entries = if to.significand_bits == 1 { 64 } else { 256 };
        let mut codes = [0; 256];
        let mut i = 0;
        while i < entries {
            let magnitude = first as u32 + ((i as u32 >> 1) << shift);
            let field = (magnitude >> from.significand_bits) as i32;
            let fraction = magnitude & ((1 << from.significand_bits) - 1);
            // Twice the significand, and one more where there is something below.
            let significand = (fraction | 1 << from.significand_bits) << 1 | (i as u32 & 1);
            let target = field - from.bias + to.bias;
            let below = if target < 1 { 1 - target } else { 0 };
            let lost = from.significand_bits as i32 - to.significand_bits as i32 + below + 1;
            let odd = significand >> lost & 1;
            let rounded = (significand + (1 << (lost - 1)) - 1 + odd) >> lost;
            let base = if target < 1 { 0 } else { (target as u32 - 1) << to.significand_bits };
            let largest = to.max_code() as u32;
            codes[i] = if rounded + base > largest { largest } else { rounded + base } as u8;
            i += 1;
        }
        ByMagnitude { codes, first, shift, entries: entries as u32 }
    }
}

/// The format of a float of 16 bits; one is given for other types too, whose tables are made and never used.
const fn format_of<T: Element>() -> FloatFormat {
    match T::DATA_TYPE.float_format() {
        Some(format) if format.bits == 16 => format,
        _ => crate::element::BFloat16::FORMAT,
    }
}

/// The same for a small float.
const fn small_format_of<T: Element>() -> FloatFormat {
    match class::<T>() {
        Class::SmallFloat(format) if format.bits <= 6 => format,
        _ => crate::element::Float4E2M1::FORMAT,
    }
}

/// Casts floats of 16 bits to a finite type of 6 bits or fewer.
///
/// # Safety
/// As [`crate::kernel::Kernel`], of the instructions of `L`.
#[inline(always)]
pub(crate) unsafe fn cast_floats<L: Lanes, S: Element, D: Element>(task: Task<'_>, rules: &Rules) {
    let (from, to) = const { (format_of::<S>(), small_format_of::<D>()) };
    let table = const { &ByMagnitude::new(&format_of::<S>(), &small_format_of::<D>()) };
    let lanes = |value: u32| L::splat::<16>(value.into());
    let (few, many) = (L::table::<4>(&table.codes), L::table::<16>(&table.codes));
    let nan = L::splat::<8>(rules.nan.into());
    // One, which the compiler does not know to be one: it would turn the cheap minimum with it into a comparison.
    let one = lanes(std::hint::black_box(1));
    let last = ((table.entries / 2) << table.shift) - 1;
    steps::<L, S, D>(
        task,
        #[inline(always)]
        |src, dst| {
            let value = [L::load(src), L::load(src.add(L::BYTES))];
            let magnitude = both!(value, value => L::and(value, lanes(0x7fff)));
            let index = both!(magnitude, magnitude => {
                let from_first = L::sub::<16>(
                    L::max_u::<16>(magnitude, lanes(table.first.into())),
                    lanes(table.first.into()),
                );
                let within = L::min_u::<16>(from_first, lanes(last));
                let more = L::min_u::<16>(L::and(within, lanes((1 << table.shift) - 1)), one);
                // The bits that decide, and below them whether there is more.
                let deciding = match table.shift {
                    1 => within,
                    3 => L::shr::<16, 2>(within),
                    4 => L::shr::<16, 3>(within),
                    5 => L::shr::<16, 4>(within),
                    6 => L::shr::<16, 5>(within),
                    7 => L::shr::<16, 6>(within),
                    _ => L::shr::<16, 7>(within),
                };
                L::or(L::and(deciding, lanes(0xfe)), more)
            });
            let index = L::low_halves::<16>(index);
            let code = if table.entries == 64 { L::look_up::<4>(&few, index) } else { L::look_up::<16>(&many, index) };
            let code = L::or(code, sign_of::<L>(to, L::high_bytes(value)));
            let infinity = lanes(from.infinity_code() as u32);
            let is_nan =
                both!(magnitude, magnitude => L::select::<16>(L::gt::<16>(magnitude, infinity), lanes(0xff), lanes(0)));
            let is_nan = L::eq::<8>(L::low_halves::<16>(is_nan), L::splat::<8>(0xff));
            store_codes::<L, D>(dst, L::select::<8>(is_nan, nan, code));
        },
    );
}

/// Whether [`cast_floats`] is the way of a pair.
pub(crate) const fn is_by_float_magnitude<S: Element, D: Element>() -> bool {
    matches!(class::<S>(), Class::F16 | Class::BF16)
        && matches!(class::<D>(), Class::SmallFloat(FloatFormat { nan: crate::format::Nan::None, .. }))
        && bits::<D>() <= 6
}
