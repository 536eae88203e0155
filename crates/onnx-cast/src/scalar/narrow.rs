//! Narrowing to float types: one rounding, to nearest, ties to even, written once over the format's constants.
//!
//! The target's code is found by integer arithmetic alone. Codes of one sign are ordered as their values are, so the
//! rounded significand, added to the exponent field, carries into the exponent by itself, the first normal number
//! follows the last subnormal one, and overflow is a code above the largest.

use super::{Narrow, Rules};
use crate::element::{
    BFloat16, Element, Float4E2M1, Float6E2M3, Float6E3M2, Float8E4M3FN, Float8E4M3FNUZ, Float8E5M2, Float8E5M2FNUZ,
    Float16, Word,
};
use crate::format::{FloatFormat, Nan};

/// A float type of 16 bits or fewer with a sign and a significand: all but `float`, `double` and `float8e8m0`.
pub trait FloatElement: Element {
    /// The format's constants.
    const FORMAT: FloatFormat;
}

macro_rules! float_element {
    ($($ty:ty),*) => {$(
        impl FloatElement for $ty {
            const FORMAT: FloatFormat = <$ty>::FORMAT;
        }
    )*};
}
float_element!(Float16, BFloat16, Float8E4M3FN, Float8E4M3FNUZ, Float8E5M2, Float8E5M2FNUZ);
float_element!(Float6E2M3, Float6E3M2, Float4E2M1);

/// Defines the narrowing from one hub float to any [`FloatElement`]. The two hubs differ in constants alone.
macro_rules! narrow_from {
    ($name:ident, $float:ty, $bits:ty, $significand:literal) => {
        #[inline(always)]
        fn $name<T: FloatElement>(value: $float, rules: &Rules) -> T {
            const WIDTH: u32 = <$bits>::BITS;
            const SIGNIFICAND: u32 = $significand;
            const INFINITY: $bits = <$float>::INFINITY.to_bits();
            let format = const { T::FORMAT };
            let bits = value.to_bits();
            let magnitude = bits & (<$bits>::MAX >> 1);
            let sign = bits >> (WIDTH - 1) << (format.bits - 1);

            // value = significand * 2^(exponent - bias of the hub - SIGNIFICAND), subnormals of the hub included.
            let field = magnitude >> SIGNIFICAND;
            let significand = (magnitude & ((1 << SIGNIFICAND) - 1)) | <$bits>::from(field != 0) << SIGNIFICAND;
            let exponent = field.max(1);
            // The exponent field in the target, 1 for its subnormals, which lose a bit more for each step below 1.
            let rebias = const { ((<$float>::MAX_EXP - 1) - T::FORMAT.bias) as $bits };
            let target_exponent = exponent.max(rebias + 1) - rebias;
            let shift = SIGNIFICAND - format.significand_bits + (target_exponent + rebias - exponent) as u32;
            // Past the hub's width the value is far below half of the smallest subnormal.
            let shift = shift.min(WIDTH - 1);
            let odd = significand >> shift & 1;
            let rounded = (significand + (1 << (shift - 1)) - 1 + odd) >> shift;
            let code = rounded + ((target_exponent - 1) << format.significand_bits);

            let (overflow, infinity) = if format.bits == 16 {
                let infinity = format.infinity_code() as $bits;
                (infinity, infinity)
            } else {
                (<$bits>::from(rules.overflow), <$bits>::from(rules.infinity))
            };
            let code = if code > format.max_code() as $bits { overflow } else { code };
            let code = if magnitude == INFINITY { infinity } else { code };
            let sign = if !format.negative_zero && code == 0 { 0 } else { sign };
            let nan = if format.bits == 16 {
                // The payload's upper bits, and the quiet bit, without which a cut payload could read as infinity.
                let payload = magnitude >> (SIGNIFICAND - format.significand_bits);
                let payload = payload & ((1 << format.significand_bits) - 1);
                sign | format.infinity_code() as $bits | 1 << (format.significand_bits - 1) | payload
            } else if matches!(format.nan, Nan::AllOnes | Nan::AboveInfinity) {
                sign | <$bits>::from(rules.nan)
            } else {
                <$bits>::from(rules.nan)
            };
            let code = if magnitude > INFINITY { nan } else { sign | code };
            T::from_bits(T::Bits::from_u64(code as u64))
        }
    };
}
narrow_from!(narrow_f32, f32, u32, 23);
narrow_from!(narrow_f64, f64, u64, 52);

/// An integer's magnitude as a double, rounded to odd where 53 bits do not hold it: the lowest bit kept says that there
/// was more below. A further rounding to 51 bits or fewer then gives what rounding the integer itself would have.
#[inline(always)]
pub(super) fn to_odd(magnitude: u64) -> f64 {
    const DROPPED: u64 = (1 << 11) - 1;
    let sticky = (magnitude & DROPPED).wrapping_add(DROPPED) & (DROPPED + 1);
    let odd = magnitude & !DROPPED | sticky;
    (if magnitude >> 53 == 0 { magnitude } else { odd }) as f64
}

/// [`to_odd`] with the sign.
#[inline(always)]
pub(super) fn to_odd_signed(value: i64) -> f64 {
    let magnitude = to_odd(value.unsigned_abs());
    if value < 0 { -magnitude } else { magnitude }
}

impl<T: FloatElement> Narrow for T {
    const WRAPS: bool = false;
    #[inline(always)]
    fn from_f32(value: f32, rules: &Rules) -> Self {
        narrow_f32(value, rules)
    }
    #[inline(always)]
    fn from_f64(value: f64, rules: &Rules) -> Self {
        narrow_f64(value, rules)
    }
    #[inline(always)]
    fn from_i32(value: i32, rules: &Rules) -> Self {
        narrow_f64(f64::from(value), rules)
    }
    #[inline(always)]
    fn from_i64(value: i64, rules: &Rules) -> Self {
        narrow_f64(to_odd_signed(value), rules)
    }
    #[inline(always)]
    fn from_u64(value: u64, rules: &Rules) -> Self {
        narrow_f64(to_odd(value), rules)
    }
}

// `as` rounds to nearest, ties to even, and gives infinity beyond the largest; which NaN it gives is left open by Rust,
// so NaN is built by hand: sign kept, quiet bit set, payload cut or filled with zeros.
impl Narrow for f32 {
    const WRAPS: bool = false;
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
    const WRAPS: bool = false;
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
