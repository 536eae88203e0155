//! Widening: every source type to a hub that holds all its values. Nothing here rounds.

use super::narrow::FloatElement;
use super::{Narrow, Rules, Widen};
use crate::element::{Float8E8M0, Int2, Int4, Uint2, Uint4, Word};
use crate::format::{FloatFormat, Nan};

/// The value of a code of a float format of 16 bits or fewer, which `f32` holds exactly. NaN keeps its sign, where the
/// format has one (the one NaN of the FNUZ types has its sign bit set), and its payload, and comes out quiet.
#[inline(always)]
pub(crate) const fn widen_code(format: FloatFormat, code: u32) -> f32 {
    const SIGNIFICAND: u32 = 23;
    const QUIET_NAN: u32 = 0x7fc0_0000;
    let sign_bit = format.sign_bit() as u32;
    let sign = if format.signed { (code & sign_bit) << (32 - format.bits) } else { 0 };
    let magnitude = code & !sign_bit & format.code_mask() as u32;
    let shift = SIGNIFICAND - format.significand_bits;
    let is_nan = match format.nan {
        Nan::None => false,
        Nan::MinusZero => code & format.code_mask() as u32 == sign_bit,
        Nan::AllOnes | Nan::AboveInfinity | Nan::Top => format.is_nan(magnitude as u64),
    };
    let nan = match format.nan {
        // The only format whose significand is a payload.
        Nan::AboveInfinity => sign | QUIET_NAN | magnitude << shift & 0x7f_ffff,
        Nan::AllOnes | Nan::MinusZero => sign | QUIET_NAN,
        Nan::None | Nan::Top => QUIET_NAN,
    };
    if format.bias == 127 {
        // The exponent field of f32 itself: the code is its upper part, subnormals too.
        return f32::from_bits(if is_nan { nan } else { sign | magnitude << shift });
    }
    let rebias = (127 - format.bias) as u32;
    let normal = (magnitude << shift) + (rebias << SIGNIFICAND);
    // A subnormal is its significand times a power of two; the integer is exact in f32, and the scaling an exponent.
    let scale = (format.bias as u32 + format.significand_bits - 1) << SIGNIFICAND;
    let subnormal = ((magnitude as i32 as f32).to_bits()).wrapping_sub(scale);
    let value = if magnitude >> format.significand_bits != 0 {
        normal
    } else if magnitude != 0 {
        subnormal
    } else {
        0
    };
    let infinite = format.infinity && magnitude == format.infinity_code() as u32;
    let value = if infinite { 0x7f80_0000 } else { value };
    f32::from_bits(if is_nan { nan } else { sign | value })
}

impl<T: FloatElement> Widen for T {
    #[inline(always)]
    fn widen_to<D: Narrow>(self, rules: &Rules) -> D {
        D::from_f32(widen_code(T::FORMAT, self.to_bits().to_u64() as u32), rules)
    }
}

impl Widen for Float8E8M0 {
    #[inline(always)]
    fn widen_to<D: Narrow>(self, rules: &Rules) -> D {
        D::from_f32(super::e8m0::widen(self), rules)
    }
}

impl Widen for f32 {
    #[inline(always)]
    fn widen_to<D: Narrow>(self, rules: &Rules) -> D {
        D::from_f32(self, rules)
    }
}

impl Widen for f64 {
    #[inline(always)]
    fn widen_to<D: Narrow>(self, rules: &Rules) -> D {
        D::from_f64(self, rules)
    }
}

/// Integers that both `i32` and `f32` hold: integer targets take the low bits, float targets the value.
macro_rules! small_integer {
    ($($int:ty, $value:expr;)*) => {$(
        impl Widen for $int {
            #[inline(always)]
            fn widen_to<D: Narrow>(self, rules: &Rules) -> D {
                let value: i32 = $value(self);
                if D::WRAPS { D::from_i32(value, rules) } else { D::from_f32(value as f32, rules) }
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
    fn widen_to<D: Narrow>(self, rules: &Rules) -> D {
        D::from_i32(self, rules)
    }
}

impl Widen for u32 {
    #[inline(always)]
    fn widen_to<D: Narrow>(self, rules: &Rules) -> D {
        D::from_i64(i64::from(self), rules)
    }
}

impl Widen for i64 {
    #[inline(always)]
    fn widen_to<D: Narrow>(self, rules: &Rules) -> D {
        D::from_i64(self, rules)
    }
}

impl Widen for u64 {
    #[inline(always)]
    fn widen_to<D: Narrow>(self, rules: &Rules) -> D {
        D::from_u64(self, rules)
    }
}
