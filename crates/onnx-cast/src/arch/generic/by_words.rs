//! Floats of 16 bits to floats of 8 bits or fewer, by the addition of [`super::small_float`] in lanes of 32 bits and
//! everything else in lanes of 16: half the instructions where tables over the upper byte
//! ([`super::by_upper_byte`]) take long.
//!
//! The two words of a 32-bit lane are added separately. Each word is first moved to where it reads as a float: bfloat16
//! is the upper half of `f32`; float16 is shifted until the exponent fields align, and then reads as a multiple of its
//! value. The rounded significands are in the low words of the sums.
//!
//! Every `unsafe fn` here asks of its caller that the processor has the instructions of `L` and that pointers are valid
//! for a step's bytes.
#![allow(unsafe_op_in_unsafe_fn, reason = "each line is a method of `Lanes`, which asks for no more")]

use super::small_float::{infinity_is_nan, with_sign};
use super::step::{Walk, both, walk};
use super::wide::store_codes;
use crate::element::{Class, Element, class};
use crate::kernel::Task;
use crate::kernel::lanes::{Lanes, looks_up_upper_bytes};
use crate::scalar::Rules;

/// Bits of the significand of `f32`, and its bias.
const SIGNIFICAND: u32 = 23;
const BIAS: i32 = 127;

/// The top bit of words of float16: it makes a normal float of every word, whose other fields then count as beside an
/// exponent of 32 more. Subnormal ones, and 0, become numbers below 2^-14, which must be rounded to 0.
const TOP: u32 = 0x8000;

/// Whether a pair is cast here.
pub(super) const fn applies<L: Lanes, S: Element, D: Element>() -> bool {
    let (Class::SmallFloat(to), Some(from)) = (class::<D>(), S::DATA_TYPE.float_format()) else { return false };
    let tie = from.bias - to.bias - to.significand_bits as i32;
    !looks_up_upper_bytes::<L, S>() && matches!(class::<S>(), Class::F16 | Class::BF16) && tie >= 1
}

/// Casts a tensor.
///
/// # Safety
/// As [`crate::kernel::Kernel`], of the instructions of `L`.
#[inline(always)]
pub(super) unsafe fn cast<L: Lanes, S: Element, D: Element>(task: &Task<'_>, rules: &Rules) {
    let (Class::SmallFloat(to), Some(from)) = (const { (class::<D>(), S::DATA_TYPE.float_format()) }) else {
        unreachable!("not from 16 bits to a small float")
    };
    let is_half = const { matches!(class::<S>(), Class::F16) };
    let (words, lanes) = (|value: u32| L::splat::<16>(value.into()), |value: u32| L::splat::<32>(value.into()));
    let top = if is_half { TOP } else { 0 };
    let infinity = from.infinity_code() as u32;
    // The number that rounds to the code for overflow. Its lower bits are zero.
    let highest = (rules.highest(to).to_bits() >> (SIGNIFICAND - from.significand_bits))
        - (((BIAS - from.bias) as u32) << from.significand_bits);
    let limit = words(top | highest);
    let last_number = words(top | (infinity - u32::from(infinity_is_nan(to, rules))));
    let min_normal = ((from.bias - to.bias + 1) as u32) << from.significand_bits;
    // As in `small_float`: the exponent field is added from the word's own bits, and this takes off what is too much.
    let dropped = from.significand_bits - to.significand_bits;
    let rebias = ((min_normal | top) >> dropped).wrapping_neg() & 0xffff;
    let unit = lanes(((BIAS as u32 + SIGNIFICAND - to.significand_bits) << SIGNIFICAND) + rebias);
    let nan = L::splat::<8>(rules.nan.into());
    walk::<L>(
        task,
        Walk::of::<S, D>(),
        #[inline(always)]
        |src, dst, _| {
            let value = [L::load(src), L::load(src.add(L::BYTES))];
            let magnitude =
                both!(value, value => if is_half { L::or(value, words(TOP)) } else { L::and(value, words(0x7fff)) });
            let code = both!(magnitude, magnitude => {
                let within = L::min_u::<16>(magnitude, limit);
                let exponent = L::max_u::<16>(L::and(within, words(top | infinity)), words(top | min_normal));
                let sum = L::merge_words(
                    L::mul_add_f32(lower_float::<L>(is_half, exponent), unit, lower_float::<L>(is_half, within)),
                    L::mul_add_f32(upper_float::<L>(is_half, exponent), unit, upper_float::<L>(is_half, within)),
                );
                L::add::<16>(sum, field::<L>(dropped, exponent))
            });
            let is_nan = both!(magnitude, magnitude => {
                L::select::<16>(L::gt::<16>(magnitude, last_number), words(0xffff), words(0))
            });
            // The code of NaN is above all others.
            let nan = L::and(L::narrow_words::<true>(is_nan), nan);
            let code = L::max_u::<8>(L::narrow_words::<false>(code), nan);
            let code = with_sign::<L>(to, code, L::narrow_words::<true>(value));
            store_codes::<L, D>(dst, L::in_order_of_words(code));
        },
    );
}

/// The lower words of lanes of 32 bits as floats.
#[inline(always)]
unsafe fn lower_float<L: Lanes>(is_half: bool, words: L::V) -> L::V {
    if is_half { L::shl::<32, 13>(L::and(words, L::splat::<32>(0xffff))) } else { L::shl::<32, 16>(words) }
}

/// The upper ones.
#[inline(always)]
unsafe fn upper_float<L: Lanes>(is_half: bool, words: L::V) -> L::V {
    let upper = L::and(words, L::splat::<32>(0xffff_0000));
    if is_half { L::shr::<32, 3>(upper) } else { upper }
}

/// The exponent field of words, in its place among the bits of a code.
#[inline(always)]
unsafe fn field<L: Lanes>(dropped: u32, exponent: L::V) -> L::V {
    match dropped {
        3 => L::shr::<16, 3>(exponent),
        4 => L::shr::<16, 4>(exponent),
        5 => L::shr::<16, 5>(exponent),
        6 => L::shr::<16, 6>(exponent),
        7 => L::shr::<16, 7>(exponent),
        8 => L::shr::<16, 8>(exponent),
        9 => L::shr::<16, 9>(exponent),
        _ => unreachable!("no significand of this width"),
    }
}
