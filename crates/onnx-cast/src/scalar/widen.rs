//! Widening: every source type to a hub that holds all its values, without rounding.

use super::narrow::{FloatElement, integer_to_odd_float, to_odd, to_odd_float, to_odd_signed};
use super::{Rules, Widen};
use crate::element::Element;
use crate::element::{Float8E8M0, Int2, Int4, Uint2, Uint4, Word};
use crate::format::{FloatFormat, Nan};

/// The value of a code of a float format of 16 bits or fewer, which `f32` represents exactly. NaN keeps its payload
/// and, where the format's NaN is signed, its sign; the result is always quiet. (The only NaN of the FNUZ types has its
/// sign bit set.)
#[inline(always)]
pub(crate) const fn widen_code(format: FloatFormat, code: u32) -> f32 {
    const SIGNIFICAND: u32 = 23;
    const INFINITY: u32 = f32::INFINITY.to_bits();
    const QUIET: u32 = 1 << (SIGNIFICAND - 1);
    let sign_bit = format.sign_bit() as u32;
    let sign = if format.signed { (code & sign_bit) << (32 - format.bits) } else { 0 };
    let magnitude = code & !sign_bit & format.code_mask() as u32;
    let shift = SIGNIFICAND - format.significand_bits;
    let infinity = format.infinity_code() as u32;
    if format.bias == 127 {
        // bfloat16 is the upper half of f32. Comparing 16-bit codes handles twice as many per vector.
        let quiet = if code as u16 & 0x7fff > infinity as u16 { (QUIET >> shift) as u16 } else { 0 };
        return f32::from_bits(((code as u16 | quiet) as u32) << shift);
    }
    // Shift the code into f32's fields and rebias the exponent. A subnormal is an integer times a power of two: its
    // exponent is lowered, and zero stays. Nothing here rounds or is a subnormal of f32, so that the control register
    // changes nothing. (Multiplication by a power of two would serve both, but is slow for subnormals on some
    // processors.)
    let normal = (magnitude << shift) + (((127 - format.bias) as u32) << SIGNIFICAND);
    let lowered = (format.bias as u32 - 1 + format.significand_bits) << SIGNIFICAND;
    let subnormal = (magnitude as i32 as f32).to_bits().saturating_sub(lowered);
    let number = if magnitude >> format.significand_bits == 0 { subnormal } else { normal };
    let is_nan = match format.nan {
        Nan::None => false,
        Nan::AboveInfinity => magnitude > infinity,
        Nan::AllOnes | Nan::Top => magnitude == (format.code_mask() & !format.sign_bit()) as u32,
        Nan::MinusZero => code & format.code_mask() as u32 == sign_bit,
    };
    let value = match format.nan {
        // Only here does the significand of NaN hold a payload.
        Nan::AboveInfinity => {
            let special = if magnitude >= infinity { INFINITY } else { 0 };
            number | special | if is_nan { QUIET } else { 0 }
        }
        _ if is_nan => INFINITY | QUIET,
        _ => number,
    };
    f32::from_bits(sign | value)
}

impl<T: FloatElement> Widen for T {
    #[inline(always)]
    fn cast_to<D: Element>(self, rules: &Rules) -> D {
        D::from_f32(self.to_f32_round_to_odd(), rules)
    }
    #[inline(always)]
    fn to_f32_round_to_odd(self) -> f32 {
        widen_code(T::FORMAT, self.to_bits().to_u64() as u32)
    }
}

impl Widen for Float8E8M0 {
    #[inline(always)]
    fn cast_to<D: Element>(self, rules: &Rules) -> D {
        D::from_f32(self.to_f32_round_to_odd(), rules)
    }
    #[inline(always)]
    fn to_f32_round_to_odd(self) -> f32 {
        super::e8m0::widen(self)
    }
}

impl Widen for f32 {
    #[inline(always)]
    fn cast_to<D: Element>(self, rules: &Rules) -> D {
        D::from_f32(self, rules)
    }
    #[inline(always)]
    fn to_f32_round_to_odd(self) -> f32 {
        self
    }
}

impl Widen for f64 {
    #[inline(always)]
    fn cast_to<D: Element>(self, rules: &Rules) -> D {
        D::from_f64(self, rules)
    }
    #[inline(always)]
    fn to_f32_round_to_odd(self) -> f32 {
        to_odd_float(self)
    }
}

/// Integers that both `i32` and `f32` represent exactly: integer targets take the low bits, float targets the value.
macro_rules! small_integer {
    ($($int:ty, $value:expr;)*) => {$(
        impl Widen for $int {
            #[inline(always)]
            fn cast_to<D: Element>(self, rules: &Rules) -> D {
                let value: i32 = $value(self);
                if D::INT_WRAPS { D::from_i32(value, rules) } else { D::from_f32(value as f32, rules) }
            }
            #[inline(always)]
            fn to_f32_round_to_odd(self) -> f32 {
                let value: i32 = $value(self);
                value as f32
            }
        }
    )*};
}
small_integer! {
    bool, i32::from;
    i8, i32::from;
    u8, i32::from;
    i16, i32::from;
    u16, i32::from;
    Int2, |x: Int2| i32::from(x.value());
    Uint2, |x: Uint2| i32::from(x.value());
    Int4, |x: Int4| i32::from(x.value());
    Uint4, |x: Uint4| i32::from(x.value());
}

impl Widen for i32 {
    #[inline(always)]
    fn cast_to<D: Element>(self, rules: &Rules) -> D {
        D::from_i32(self, rules)
    }
    #[inline(always)]
    fn to_f32_round_to_odd(self) -> f32 {
        integer_to_odd_float(f64::from(self))
    }
}

impl Widen for u32 {
    #[inline(always)]
    fn cast_to<D: Element>(self, rules: &Rules) -> D {
        if D::INT_WRAPS { D::from_i64(i64::from(self), rules) } else { D::from_f64(f64::from(self), rules) }
    }
    #[inline(always)]
    fn to_f32_round_to_odd(self) -> f32 {
        integer_to_odd_float(f64::from(self))
    }
}

impl Widen for i64 {
    #[inline(always)]
    fn cast_to<D: Element>(self, rules: &Rules) -> D {
        D::from_i64(self, rules)
    }
    #[inline(always)]
    fn to_f32_round_to_odd(self) -> f32 {
        integer_to_odd_float(to_odd_signed(self))
    }
}

impl Widen for u64 {
    #[inline(always)]
    fn cast_to<D: Element>(self, rules: &Rules) -> D {
        D::from_u64(self, rules)
    }
    #[inline(always)]
    fn to_f32_round_to_odd(self) -> f32 {
        integer_to_odd_float(to_odd(self))
    }
}
