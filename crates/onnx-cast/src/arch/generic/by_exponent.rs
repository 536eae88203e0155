//! Floats of 16 bits to float4 and to float6 with two bits of significand, by tables over the exponent: the code of the
//! power of two, and what the significand has to exceed for the next codes. The exponent, the first seven bits of the
//! significand and the sign are bytes of their own, so that all this is done once for a step, where the addition of
//! [`super::by_words`] takes four vectors. Types without NaN and infinity have few exponents, and a code above the
//! largest for NaN.
//!
//! Every `unsafe fn` here asks of its caller that the processor has the instructions of `L` and that pointers are valid
//! for a step's bytes.
#![allow(unsafe_op_in_unsafe_fn, reason = "each line is a method of `Lanes`, which asks for no more")]

use super::by_upper_byte::{formats, rounded};
use super::small_float::with_sign;
use super::step::{Walk, both, walk};
use super::wide::store_codes;
use crate::element::{Class, Element, class};
use crate::format::{FloatFormat, Nan};
use crate::kernel::Task;
use crate::kernel::lanes::{Lanes, looks_up_upper_bytes};

/// Bits of the significand that are compared: all of bfloat16's. In the last of float16's seven, the three below count.
const SIGNIFICAND: u32 = 7;
/// A limit that no significand exceeds.
const NONE: u8 = (1 << SIGNIFICAND) - 1;
/// The rows of what is beyond the largest number, and of infinity and NaN.
const BEYOND: usize = 14;
const NAN: usize = 15;

/// Codes from one power of two to the next of a pair that is cast here, 2 or 4.
pub(super) const fn codes<L: Lanes, S: Element, D: Element>() -> Option<usize> {
    let Some([from, to]) = formats::<S, D>() else { return None };
    let is_finite = matches!(to.nan, Nan::None) && from.bias > to.bias + to.significand_bits as i32;
    if looks_up_upper_bytes::<L, S>()
        || !is_finite
        || to.significand_bits > 2
        || Tables::<1>::first(from, to) + BEYOND < last(from, to)
    {
        return None;
    }
    Some(1 << to.significand_bits)
}

/// The first exponent, as a field of the source, of which all numbers are beyond the largest.
const fn last(from: FloatFormat, to: FloatFormat) -> usize {
    ((to.max_code() >> to.significand_bits) as i32 + 1 - to.bias + from.bias) as usize
}

/// Tables over the exponent, less [`Tables::first`].
struct Tables<const K: usize> {
    /// The code of a number whose significand is zero.
    codes: [u8; 16],
    /// What the significand has to exceed for the next code, the one after, and so on.
    limits: [[u8; 16]; K],
}

impl<const K: usize> Tables<K> {
    /// The largest exponent, as a field of the source, of which all numbers round to zero.
    const fn first(from: FloatFormat, to: FloatFormat) -> usize {
        (from.bias - to.bias - to.significand_bits as i32 - 1) as usize
    }

    /// Those of a pair. The compiler evaluates constants for every pair that `cast` names: others have empty tables.
    const fn of_pair<L: Lanes, S: Element, D: Element>() -> Self {
        match (formats::<S, D>(), codes::<L, S, D>()) {
            (Some([from, to]), Some(count)) if count == K => Self::new(from, to),
            _ => Tables { codes: [0; 16], limits: [[NONE; 16]; K] },
        }
    }

    const fn new(from: FloatFormat, to: FloatFormat) -> Self {
        let largest = to.max_code() as u8;
        let mut tables = Tables { codes: [largest; 16], limits: [[NONE; 16]; K] };
        tables.codes[0] = 0;
        let mut row = 1;
        while row < last(from, to) - Self::first(from, to) {
            let exponent = (Self::first(from, to) + row) as i32 - from.bias;
            let first = code(to, exponent, 0);
            tables.codes[row] = first;
            let mut significand = 1;
            while significand <= NONE as u32 {
                let mut above = code(to, exponent, significand - 1) - first;
                while first + above < code(to, exponent, significand) {
                    tables.limits[above as usize][row] = significand as u8 - 1;
                    above += 1;
                }
                significand += 1;
            }
            row += 1;
        }
        // NaN has the code above the largest.
        tables.limits[0][NAN] = 0;
        tables
    }
}

/// The code of a magnitude of this exponent, at least that of half the smallest subnormal number.
const fn code(to: FloatFormat, exponent: i32, significand: u32) -> u8 {
    let code = rounded(to, exponent + to.bias, 1 << SIGNIFICAND | significand, SIGNIFICAND);
    if code < to.max_code() as u32 { code as u8 } else { to.max_code() as u8 }
}

/// Casts a tensor of a pair with `K` [`codes`] from one power of two to the next.
///
/// # Safety
/// As [`crate::kernel::Kernel`], of the instructions of `L`.
#[inline(always)]
pub(super) unsafe fn cast<L: Lanes, S: Element, D: Element, const K: usize>(task: &Task<'_>) {
    let Some([from, to]) = (const { formats::<S, D>() }) else { unreachable!("not from 16 bits to a small float") };
    let tables = const { &Tables::<K>::of_pair::<L, S, D>() };
    let codes = L::table_of_16(&tables.codes);
    let mut limits = [codes; K];
    for (limits, entries) in limits.iter_mut().zip(&tables.limits) {
        *limits = L::table_of_16(entries);
    }
    let (words, byte) = (|value: u32| L::splat::<16>(value.into()), |value: usize| L::splat::<8>(value as u64));
    let (first, beyond) = (byte(Tables::<K>::first(from, to)), byte(BEYOND));
    let last_number = byte((1 << from.exponent_bits) - 2);
    walk::<L>(
        task,
        Walk::of::<S, D>(),
        #[inline(always)]
        |src, dst, _| {
            let value = [L::load(src), L::load(src.add(L::BYTES))];
            let significand = both!(value, value => if const { matches!(class::<S>(), Class::F16) } {
                let below = L::add::<16>(L::and(value, words(7)), words(7));
                L::and(L::shr::<16, 3>(L::or(value, below)), words(NONE.into()))
            } else {
                L::and(value, words(NONE.into()))
            });
            let exponent = both!(value, value => {
                let without_sign = L::add::<16>(value, value);
                if const { matches!(class::<S>(), Class::F16) } {
                    L::shr::<16, 11>(without_sign)
                } else {
                    L::shr::<16, 8>(without_sign)
                }
            });
            let (significand, exponent) = (L::narrow_words::<false>(significand), L::narrow_words::<false>(exponent));
            // Subtractions that stop at 0. The lowest bit tells the two last rows apart.
            let number = L::min_u::<8>(L::sub::<8>(L::max_u::<8>(exponent, first), first), beyond);
            let row = L::or(number, L::sub::<8>(L::max_u::<8>(exponent, last_number), last_number));
            let mut code = L::look_up_nibble(&codes, row);
            for limits in &limits {
                let is_above = L::gt::<8>(significand, L::look_up_nibble(limits, row));
                code = L::sub::<8>(code, L::select::<8>(is_above, byte(0xff), byte(0)));
            }
            let code = with_sign::<L>(to, code, L::narrow_words::<true>(value));
            store_codes::<L, D>(dst, L::in_order_of_words(code));
        },
    );
}
