//! Narrowing to float types: one rounding to nearest, ties to even, written once over the format's constants.
//!
//! Codes of one sign are in the order of their values. So a rounded significand that overflows carries into the
//! exponent field correctly, the smallest normal number follows the largest subnormal, and overflow is a code above the
//! largest.

use super::{Narrow, Rules};
use crate::element::{
    BFloat16, Element, Float4E2M1, Float6E2M3, Float6E3M2, Float8E4M3FN, Float8E4M3FNUZ, Float8E5M2, Float8E5M2FNUZ,
    Float16, Word,
};
use crate::format::{FloatFormat, Nan};

/// A float type of 16 bits or fewer with a sign and a significand: every float type except `float`, `double` and
/// `float8e8m0`.
#[doc(hidden)]
pub trait FloatElement: Element {
    /// The format's constants.
    const FORMAT: FloatFormat;
}

macro_rules! float_element {
    ($($ty:ty)*) => {$(
        impl FloatElement for $ty {
            const FORMAT: FloatFormat = <$ty>::FORMAT;
        }
    )*};
}

/// Passes the float types of 16 bits or fewer with a sign and a significand to a macro. Exported for this crate's own
/// tests.
#[doc(hidden)]
#[macro_export]
macro_rules! with_float_elements {
    ($callback:ident) => {
        $callback! {
            Float16 BFloat16 Float8E4M3FN Float8E4M3FNUZ Float8E5M2 Float8E5M2FNUZ Float6E2M3 Float6E3M2 Float4E2M1
        }
    };
}
with_float_elements!(float_element);
pub(super) use with_float_elements;

/// Narrows a float. There are no branches and no shifts by a variable count, which the oldest vector instructions lack,
/// so the compiler can vectorise a loop over this function for any processor.
#[inline(always)]
fn narrow<T: FloatElement>(value: f32, rules: &Rules) -> T {
    const SIGNIFICAND: u32 = 23;
    const INFINITY: u32 = f32::INFINITY.to_bits();
    let format = const { T::FORMAT };
    let dropped = const { SIGNIFICAND - T::FORMAT.significand_bits };
    // The difference of the exponent biases, in the exponent field of f32.
    let rebias = const { ((127 - T::FORMAT.bias) as u32) << SIGNIFICAND };
    // Adding this and the lowest kept bit carries into that bit if the dropped bits are more than a half, or exactly a
    // half and the kept bit is 1.
    let half = const { (1 << (SIGNIFICAND - T::FORMAT.significand_bits - 1)) - 1 };
    let bits = value.to_bits();
    let magnitude = bits & (u32::MAX >> 1);
    if rebias == 0 {
        // bfloat16 is the upper half of f32, for subnormals and infinity too.
        let rounded = bits.wrapping_add(half + (bits >> dropped & 1)) >> dropped;
        let nan = bits >> dropped | 1 << (format.significand_bits - 1);
        let code = if magnitude > INFINITY { nan } else { rounded };
        return T::from_bits(T::Bits::from_u64(code.into()));
    }
    let code = magnitude.wrapping_sub(rebias).wrapping_add(half + (magnitude >> dropped & 1)) >> dropped;
    // Subnormals are multiples of one power of two. Adding a float whose unit in the last place is that power makes the
    // processor's addition round to a multiple of it.
    let base = const { ((127 + 24 - T::FORMAT.bias) as u32 - T::FORMAT.significand_bits) << SIGNIFICAND };
    let sum = f32::from_bits(magnitude) + f32::from_bits(base);
    let subnormal = sum.to_bits().wrapping_sub(base);
    let code = if magnitude < rebias + (1 << SIGNIFICAND) { subnormal } else { code };
    let code = if format.bits == 16 {
        code.min(format.infinity_code() as u32)
    } else {
        let code = if code > format.max_code() as u32 { u32::from(rules.overflow) } else { code };
        if magnitude == INFINITY { u32::from(rules.infinity) } else { code }
    };
    let sign = bits >> 31 << (format.bits - 1);
    let sign = if !format.negative_zero && code == 0 { 0 } else { sign };
    let nan = if format.bits == 16 {
        // The payload's upper bits, and the quiet bit: without it, a truncated payload of zero would read as infinity.
        let payload = magnitude >> dropped & ((1 << format.significand_bits) - 1);
        sign | format.infinity_code() as u32 | 1 << (format.significand_bits - 1) | payload
    } else if matches!(format.nan, Nan::AllOnes | Nan::AboveInfinity) {
        sign | u32::from(rules.nan)
    } else {
        u32::from(rules.nan)
    };
    let code = if magnitude > INFINITY { nan } else { sign | code };
    T::from_bits(T::Bits::from_u64(code.into()))
}

/// Rounds the bits of a double to odd, to the bits of an `f32` magnitude. The double must be in the range of normal
/// `f32` values.
#[inline(always)]
fn magnitude_to_odd(bits: u64) -> u32 {
    /// Significand bits that a double has and `f32` lacks.
    const CUT: u32 = 29;
    const BELOW: u32 = (1 << CUT) - 1;
    let sticky = ((bits as u32 & BELOW) + BELOW) >> CUT;
    ((bits >> CUT) as u32 | sticky).wrapping_sub((1023 - 127) << 23) & (u32::MAX >> 1)
}

/// As [`to_odd_float`], for a double that holds an integer.
#[inline(always)]
pub(super) fn integer_to_odd_float(value: f64) -> f32 {
    let bits = value.to_bits();
    let upper = (bits >> 32) as u32;
    f32::from_bits(if upper == 0 { 0 } else { upper & !(u32::MAX >> 1) | magnitude_to_odd(bits) })
}

/// Converts a double to a float, *rounded to odd*: truncated, with the lowest kept bit set if any dropped bit was set.
/// A second rounding to 22 bits or fewer then gives the same result as rounding the double itself.
#[inline(always)]
pub(super) fn to_odd_float(value: f64) -> f32 {
    /// The upper halves of three doubles: the smallest in the normal range of `f32`, the smallest too large for `f32`,
    /// and infinity.
    const NORMAL: u32 = (1023 - 126) << 20;
    const LARGE: u32 = (1023 + 128) << 20;
    const INFINITE: u32 = 0x7ff << 20;
    /// A double whose unit in the last place is the smallest subnormal of `f32`, 2^-149.
    const BASE: u64 = (1023 - 149 + 52) << 52;
    let bits = value.to_bits();
    let (upper, lower) = ((bits >> 32) as u32 & (u32::MAX >> 1), bits as u32);
    let sign = (bits >> 32) as u32 & !(u32::MAX >> 1);
    let number = magnitude_to_odd(bits);
    // Round to the nearest multiple of 2^-149. If that is inexact, take the odd one of the two neighbouring multiples.
    let sum = value.abs() + f64::from_bits(BASE);
    let nearest = sum - f64::from_bits(BASE);
    let below = (sum.to_bits().wrapping_sub(BASE) as u32).wrapping_sub(u32::from(nearest > value.abs()));
    let subnormal = below | u32::from(nearest != value.abs());
    let number = if upper < NORMAL { subnormal } else { number };
    let special = if upper < INFINITE {
        f32::MAX.to_bits()
    } else if upper == INFINITE && lower == 0 {
        f32::INFINITY.to_bits()
    } else {
        // The payload's upper bits, with the quiet bit set.
        0x7fc0_0000 | (bits >> 29) as u32 & 0x3f_ffff
    };
    f32::from_bits(sign | if upper < LARGE { number } else { special })
}

/// An integer's magnitude as a double, rounded to odd where it needs more than 53 bits: the lowest kept bit is set if
/// any dropped bit was set. A second rounding to 51 bits or fewer then gives the same as rounding the integer itself.
#[inline(always)]
pub(super) fn to_odd(magnitude: u64) -> f64 {
    const DROPPED: u64 = (1 << 11) - 1;
    let sticky = (magnitude & DROPPED).wrapping_add(DROPPED) & (DROPPED + 1);
    let odd = magnitude & !DROPPED | sticky;
    (if magnitude >> 53 == 0 { magnitude } else { odd }) as f64
}

/// As [`to_odd`], for a signed integer.
#[inline(always)]
pub(super) fn to_odd_signed(value: i64) -> f64 {
    let magnitude = to_odd(value.unsigned_abs());
    if value < 0 { -magnitude } else { magnitude }
}

impl<T: FloatElement> Narrow for T {
    const INT_WRAPS: bool = false;
    #[inline(always)]
    fn from_f32(value: f32, rules: &Rules) -> Self {
        narrow(value, rules)
    }
    #[inline(always)]
    fn from_f64(value: f64, rules: &Rules) -> Self {
        narrow(to_odd_float(value), rules)
    }
    #[inline(always)]
    fn from_i32(value: i32, rules: &Rules) -> Self {
        narrow(integer_to_odd_float(f64::from(value)), rules)
    }
    #[inline(always)]
    fn from_i64(value: i64, rules: &Rules) -> Self {
        narrow(integer_to_odd_float(to_odd_signed(value)), rules)
    }
    #[inline(always)]
    fn from_u64(value: u64, rules: &Rules) -> Self {
        narrow(integer_to_odd_float(to_odd(value)), rules)
    }
}

// `as` rounds to nearest, ties to even, and overflows to infinity. Rust does not specify which NaN it returns, so NaN
// is built here: the sign is kept, the quiet bit is set, and the payload is truncated or extended with zeros.
impl Narrow for f32 {
    const INT_WRAPS: bool = false;
    #[inline(always)]
    fn from_f32(value: f32, _: &Rules) -> Self {
        value
    }
    #[inline(always)]
    fn from_f64(value: f64, _: &Rules) -> Self {
        let bits = value.to_bits();
        let nan = (bits >> 32 & 0x8000_0000) as u32 | 0x7fc0_0000 | (bits >> 29 & 0x3f_ffff) as u32;
        let rounded = (value as f32).to_bits();
        f32::from_bits(if value.is_nan() { nan } else { rounded })
    }
    #[inline(always)]
    fn from_i32(value: i32, _: &Rules) -> Self {
        value as f32
    }
    #[inline(always)]
    fn from_i64(value: i64, _: &Rules) -> Self {
        value as f32
    }
    #[inline(always)]
    fn from_u64(value: u64, _: &Rules) -> Self {
        value as f32
    }
}

impl Narrow for f64 {
    const INT_WRAPS: bool = false;
    #[inline(always)]
    fn from_f32(value: f32, _: &Rules) -> Self {
        let bits = u64::from(value.to_bits());
        let nan = (bits & 0x8000_0000) << 32 | 0x7ff8_0000_0000_0000 | (bits & 0x3f_ffff) << 29;
        let widened = f64::from(value).to_bits();
        f64::from_bits(if value.is_nan() { nan } else { widened })
    }
    #[inline(always)]
    fn from_f64(value: f64, _: &Rules) -> Self {
        value
    }
    #[inline(always)]
    fn from_i32(value: i32, _: &Rules) -> Self {
        f64::from(value)
    }
    #[inline(always)]
    fn from_i64(value: i64, _: &Rules) -> Self {
        value as f64
    }
    #[inline(always)]
    fn from_u64(value: u64, _: &Rules) -> Self {
        value as f64
    }
}
