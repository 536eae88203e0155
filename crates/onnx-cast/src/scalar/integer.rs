//! Narrowing to integers and bool. Integers keep the low bits; floats go toward zero and saturate, but to the 4- and
//! 2-bit types they go to the nearest even and keep the low bits, as ONNX's note on those types asks.

use super::{Narrow, Rules};
use crate::element::{Int2, Int4, Uint2, Uint4};

macro_rules! wide_integer {
    ($($int:ty),*) => {$(
        impl Narrow for $int {
            const WRAPS: bool = true;
            // `as` from a float is just the rule: toward zero, saturating, NaN to 0.
            #[inline(always)]
            fn from_f32(value: f32, _: &Rules) -> Self {
                value as $int
            }
            #[inline(always)]
            fn from_f64(value: f64, _: &Rules) -> Self {
                value as $int
            }
            #[inline(always)]
            fn from_i32(value: i32, _: &Rules) -> Self {
                value as $int
            }
            #[inline(always)]
            fn from_i64(value: i64, _: &Rules) -> Self {
                value as $int
            }
            #[inline(always)]
            fn from_u64(value: u64, _: &Rules) -> Self {
                value as $int
            }
        }
    )*};
}
wide_integer!(i8, i16, i32, i64, u8, u16, u32, u64);

/// The low 8 bits of the integer nearest to `value`, ties to even, for any magnitude; 0 for NaN and the infinities.
#[inline(always)]
fn nearest_low_bits(value: f64) -> u8 {
    const SIGNIFICAND: u32 = 52;
    /// The exponent field at which the significand, as an integer, is the value itself.
    const UNIT: u64 = 1023 + SIGNIFICAND as u64;
    let bits = value.to_bits();
    let field = bits >> SIGNIFICAND & 0x7ff;
    let significand = bits & ((1 << SIGNIFICAND) - 1) | 1 << SIGNIFICAND;
    // A fraction to round away. Below 2^-2 everything is 0, zero and the subnormals too, whatever bit is implied.
    let right = UNIT.saturating_sub(field).clamp(1, SIGNIFICAND as u64 + 2);
    let odd = significand >> right & 1;
    let rounded = (significand + (1 << (right - 1)) - 1 + odd) >> right;
    // Or a whole number already, whose low bits are zeros from 2^60 on.
    let left = field.saturating_sub(UNIT).min(8);
    let whole = significand << left;
    let magnitude = if field < UNIT { rounded } else { whole } as u8;
    let magnitude = if field == 0x7ff { 0 } else { magnitude };
    if value.is_sign_negative() { magnitude.wrapping_neg() } else { magnitude }
}

macro_rules! narrow_integer {
    ($($int:ty),*) => {$(
        impl Narrow for $int {
            const WRAPS: bool = true;
            #[inline(always)]
            fn from_f32(value: f32, _: &Rules) -> Self {
                <$int>::from_bits(nearest_low_bits(f64::from(value)))
            }
            #[inline(always)]
            fn from_f64(value: f64, _: &Rules) -> Self {
                <$int>::from_bits(nearest_low_bits(value))
            }
            #[inline(always)]
            fn from_i32(value: i32, _: &Rules) -> Self {
                <$int>::from_bits(value as u8)
            }
            #[inline(always)]
            fn from_i64(value: i64, _: &Rules) -> Self {
                <$int>::from_bits(value as u8)
            }
            #[inline(always)]
            fn from_u64(value: u64, _: &Rules) -> Self {
                <$int>::from_bits(value as u8)
            }
        }
    )*};
}
narrow_integer!(Int4, Uint4, Int2, Uint2);

impl Narrow for bool {
    const WRAPS: bool = true;
    // The bits, not a comparison: a processor told to read subnormals as zero would compare them equal to it.
    #[inline(always)]
    fn from_f32(value: f32, _: &Rules) -> Self {
        value.to_bits() << 1 != 0
    }
    #[inline(always)]
    fn from_f64(value: f64, _: &Rules) -> Self {
        value.to_bits() << 1 != 0
    }
    #[inline(always)]
    fn from_i32(value: i32, _: &Rules) -> Self {
        value != 0
    }
    #[inline(always)]
    fn from_i64(value: i64, _: &Rules) -> Self {
        value != 0
    }
    #[inline(always)]
    fn from_u64(value: u64, _: &Rules) -> Self {
        value != 0
    }
}
