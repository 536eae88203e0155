//! Integers to small floats that end below 256, by a table over the magnitude. The addition of [`super::small_float`]
//! would do, but in lanes of 32 bits, at a third of the speed or less (records/kernels.md).
//!
//! Every `unsafe fn` here asks of its caller that the processor has the instructions of `L` and that pointers are valid
//! for a step's bytes.
#![allow(unsafe_op_in_unsafe_fn, reason = "each line is a method of `Lanes`, which asks for no more")]

use super::small_float::sign_of;
use super::step::{Task, both, parts, steps};
use super::wide::{saturated_ints, store_codes};
use crate::element::{Class, Element, class};
use crate::format::FloatFormat;
use crate::kernel::lanes::Lanes;
use crate::kernel::lookup_tables::Table;
use crate::packed::bits;

/// The last entry of the table of an integer's magnitudes that is needed: from there on all results are the same.
/// `None` where the format goes on beyond a byte.
const fn last_magnitude(format: FloatFormat) -> Option<u8> {
    // The exponent of the largest number; beyond twice as much everything overflows.
    let top = (format.max_code() >> format.significand_bits) as i32 - format.bias + 1;
    match top {
        ..=6 => Some(63),
        7..=8 => Some(255),
        9.. => None,
    }
}

/// How many vectors of 16 entries the table of a pair has; `None` where a pair takes another way.
pub(crate) const fn vectors<L: Lanes, S: Element, D: Element>() -> Option<usize> {
    match (class::<S>(), class::<D>()) {
        (Class::Int { .. }, Class::SmallFloat(format)) => match last_magnitude(format) {
            Some(63) => Some(4),
            Some(_) if L::WIDE_LOOK_UP => Some(16),
            _ => None,
        },
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
            let signed = const { matches!(class::<S>(), Class::Int { signed: true, .. }) };
            let (magnitude, top) = match const { bits::<S>() } {
                8 => (up_to::<L, 8>(L::load(src), signed, last), L::load(src)),
                16 => {
                    let value = [L::load(src), L::load(src.add(L::BYTES))];
                    let within = both!(value, value => up_to::<L, 16>(value, signed, last));
                    (L::low_halves::<16>(within), L::high_bytes(value))
                }
                32 | 64 => {
                    let value = parts!(i => saturated_ints::<L, S>(src, i));
                    (L::low_bytes(parts!(i => up_to::<L, 32>(value[i], signed, last))), L::top_bits(value))
                }
                _ => unreachable!("integers of fewer bits are looked up"),
            };
            let code = L::look_up::<N>(&entries, magnitude);
            // Only 0 has the code 0, and its sign bit is clear.
            store_codes::<L, D>(dst, if signed { L::or(code, sign_of::<L>(format, top)) } else { code });
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
