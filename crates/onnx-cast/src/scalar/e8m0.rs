//! `float8e8m0`: only powers of two. It has no sign, no zero and no infinity, and its own rounding (`round_mode`).

use super::narrow::{to_odd, to_odd_signed};
use super::{Narrow, RoundMode, Rules};
use crate::element::Float8E8M0;

const NAN: u8 = 0xff;

/// 2^(code - 127). Code 0 is a subnormal `f32`.
#[inline(always)]
pub(super) const fn widen(value: Float8E8M0) -> f32 {
    f32::from_bits(match value.to_bits() {
        0 => 0x0040_0000,
        NAN => 0x7fc0_0000,
        code => (code as u32) << 23,
    })
}

/// From a double, which may be an integer rounded to odd. The result depends only on the exponent, on whether the
/// fraction is zero, and on whether it is at least a half; rounding to odd preserves all three.
#[inline(always)]
fn narrow(value: f64, rules: &Rules) -> Float8E8M0 {
    const SIGNIFICAND: u32 = 52;
    const FRACTION: u64 = (1 << SIGNIFICAND) - 1;
    /// Exponent fields of 2^-127 and 2^127 in a double.
    const SMALLEST: u64 = 1023 - 127;
    const LARGEST: u64 = 1023 + 127;
    let bits = value.to_bits();
    let exponent = bits >> SIGNIFICAND & 0x7ff;
    let fraction = bits & FRACTION;
    let up = match rules.round_mode {
        RoundMode::Up => fraction != 0,
        RoundMode::Down => false,
        RoundMode::Nearest => fraction >= 1 << (SIGNIFICAND - 1),
    };
    let code = exponent.wrapping_sub(SMALLEST).wrapping_add(u64::from(up)) as u8;
    let code = if exponent > LARGEST || (exponent == LARGEST && fraction != 0) { rules.overflow } else { code };
    let code = if exponent < SMALLEST || value.is_sign_negative() { rules.underflow } else { code };
    Float8E8M0::from_bits(if value.is_nan() { NAN } else { code })
}

impl Narrow for Float8E8M0 {
    const INT_WRAPS: bool = false;
    #[inline(always)]
    fn from_f32(value: f32, rules: &Rules) -> Self {
        narrow(f64::from(value), rules)
    }
    #[inline(always)]
    fn from_f64(value: f64, rules: &Rules) -> Self {
        narrow(value, rules)
    }
    #[inline(always)]
    fn from_i32(value: i32, rules: &Rules) -> Self {
        narrow(f64::from(value), rules)
    }
    #[inline(always)]
    fn from_i64(value: i64, rules: &Rules) -> Self {
        narrow(to_odd_signed(value), rules)
    }
    #[inline(always)]
    fn from_u64(value: u64, rules: &Rules) -> Self {
        narrow(to_odd(value), rules)
    }
}
