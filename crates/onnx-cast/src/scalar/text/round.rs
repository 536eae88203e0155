//! A decimal of about 19 digits as a float, rounded once: its digits times 128 bits of the power of ten, as in Daniel
//! Lemire's "Number parsing at a gigabyte per second" (2021). The product's upper bits are rounded to odd, and the
//! processor rounds them to the target.

use super::power::{LOWEST, floor_log2, power_of_ten};
use super::shortest::Decimal;

/// `odd * 2^exponent`, with `odd` at least 2^62: a number's upper bits, the lowest set if any dropped bit was set.
#[derive(Clone, Copy)]
struct Odd {
    odd: u64,
    exponent: i32,
}

/// A nonzero decimal, rounded to odd. `None` where 128 bits of the power do not determine on which side of a 64-bit
/// number it lies.
#[inline(always)]
fn round_to_odd(decimal: Decimal) -> Option<Odd> {
    /// Beyond this exponent the result overflows every double.
    const HIGHEST: i32 = 308;
    let Decimal { digits, exponent } = decimal;
    if !(LOWEST..=HIGHEST).contains(&exponent) {
        return None;
    }
    let zeros = digits.leading_zeros();
    let digits = digits << zeros;
    let power = power_of_ten(exponent);
    let low = u128::from(power as u64) * u128::from(digits);
    let high = u128::from((power >> 64) as u64) * u128::from(digits) + (low >> 64);
    let (upper, dropped) = ((high >> 64) as u64, high as u64);
    // The power is too large by less than 1, so the product is too large by less than `digits`, which is less than 1 in
    // the last place of `dropped`. Unless `dropped` is 0, nonzero bits are dropped and `upper` is right.
    if dropped == 0 {
        return exactly(decimal, upper, low as u64);
    }
    Some(Odd { odd: upper | 1, exponent: floor_log2(exponent) + 1 - zeros as i32 })
}

/// As [`round_to_odd`], for numbers with few significant bits.
#[cold]
fn exactly(decimal: Decimal, upper: u64, lowest: u64) -> Option<Odd> {
    /// Powers of ten up to this exponent are exact with 128 bits.
    const EXACT: i32 = 55;
    /// 5^27 is the largest power of 5 below 2^64.
    const FIVES: i32 = 27;
    let Decimal { digits, exponent } = decimal;
    if (0..=EXACT).contains(&exponent) {
        let zeros = digits.leading_zeros() as i32;
        let exponent = floor_log2(exponent) + 1 - zeros;
        return Some(Odd { odd: upper | u64::from(lowest != 0), exponent });
    }
    // digits / 10^n = (digits / 5^n) / 2^n
    let fives = 5u64.pow((-FIVES..0).contains(&exponent).then_some(exponent.unsigned_abs())?);
    if digits % fives != 0 {
        return None;
    }
    let digits = digits / fives;
    let zeros = digits.leading_zeros();
    Some(Odd { odd: digits << zeros, exponent: exponent - zeros as i32 })
}

impl Odd {
    /// Halved and rounded to odd, so that it fits a signed integer, which processors convert to floats.
    #[inline(always)]
    fn halved(self) -> (i64, i32) {
        ((self.odd >> 1 | self.odd & 1) as i64, self.exponent + 1)
    }
}

/// The double nearest to the decimal. `None` where that is neither normal nor an exact zero, or cannot be determined
/// here.
#[inline(always)]
pub(super) fn to_f64(decimal: Decimal) -> Option<f64> {
    if decimal.digits == 0 {
        return Some(0.0);
    }
    let (odd, exponent) = round_to_odd(decimal)?.halved();
    scale_f64(odd as f64, exponent)
}

/// The decimal rounded to odd to 52 bits or more, as a double. `None` as for [`to_f64`].
#[inline(always)]
pub(super) fn to_odd_f64(decimal: Decimal) -> Option<f64> {
    /// The bits dropped from 63 to 53.
    const CUT: i64 = (1 << 10) - 1;
    if decimal.digits == 0 {
        return Some(0.0);
    }
    let (odd, exponent) = round_to_odd(decimal)?.halved();
    let odd = odd & !CUT | i64::from(odd & CUT != 0) << 10;
    scale_f64(odd as f64, exponent)
}

/// The `f32` nearest to the decimal. `None` as for [`to_f64`].
#[inline(always)]
pub(super) fn to_f32(decimal: Decimal) -> Option<f32> {
    if decimal.digits == 0 {
        return Some(0.0);
    }
    let (odd, exponent) = round_to_odd(decimal)?.halved();
    let rounded = (odd as f32).to_bits();
    let field = (rounded >> 23) as i32 + exponent;
    (1..255).contains(&field).then(|| f32::from_bits(rounded & 0x7f_ffff | (field as u32) << 23))
}

/// The product of a normal double and a power of two, if it is normal.
#[inline(always)]
fn scale_f64(value: f64, exponent: i32) -> Option<f64> {
    let bits = value.to_bits();
    let field = (bits >> 52) as i32 + exponent;
    (1..2047).contains(&field).then(|| f64::from_bits(bits & ((1 << 52) - 1) | (field as u64) << 52))
}
