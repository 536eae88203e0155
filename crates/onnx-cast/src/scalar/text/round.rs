//! A decimal of 19 digits or so as a float, rounded once: its digits times 128 bits of the power of ten, as in Daniel
//! Lemire's "Number parsing at a gigabyte per second" (2021). The product's upper bits are rounded to odd, from where the
//! processor rounds them to what is wanted.

use super::power::{LOWEST, floor_log2, power_of_ten};
use super::shortest::Decimal;

/// `odd * 2^exponent`, `odd` at least 2^62: a number's upper bits, the lowest set if anything was cut.
#[derive(Clone, Copy)]
struct Odd {
    odd: u64,
    exponent: i32,
}

/// The decimal, not zero, rounded to odd; `None` where 128 bits of the power do not tell on which side of a number of
/// so many bits it lies.
#[inline(always)]
fn round_to_odd(decimal: Decimal) -> Option<Odd> {
    /// Beyond this every double is infinite.
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
    let (upper, rest) = ((high >> 64) as u64, high as u64);
    // The power is too large by less than 1, so the product is by less than the digits, which are less than 1 in `rest`:
    // unless that is 0, something is cut, and `upper` is right.
    if rest == 0 {
        return exactly(decimal, upper, low as u64);
    }
    Some(Odd { odd: upper | 1, exponent: floor_log2(exponent) + 1 - zeros as i32 })
}

/// As [`round_to_odd`], of numbers with few bits.
#[cold]
fn exactly(decimal: Decimal, upper: u64, lowest: u64) -> Option<Odd> {
    /// Powers of ten that are exact with 128 bits.
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
    /// Without the highest bit, so that it is a signed integer, which processors make floats of.
    #[inline(always)]
    fn halved(self) -> (i64, i32) {
        ((self.odd >> 1 | self.odd & 1) as i64, self.exponent + 1)
    }
}

/// The double nearest to the decimal; `None` where that is not normal, but for a decimal that is zero, or is not clear.
#[inline(always)]
pub(super) fn to_f64(decimal: Decimal) -> Option<f64> {
    if decimal.digits == 0 {
        return Some(0.0);
    }
    let (odd, exponent) = round_to_odd(decimal)?.halved();
    scale_f64(odd as f64, exponent)
}

/// The decimal rounded to odd with 52 bits or more, as a double; `None` as of [`to_f64`].
#[inline(always)]
pub(super) fn to_odd_f64(decimal: Decimal) -> Option<f64> {
    /// 63 bits less 53.
    const CUT: i64 = (1 << 10) - 1;
    if decimal.digits == 0 {
        return Some(0.0);
    }
    let (odd, exponent) = round_to_odd(decimal)?.halved();
    let odd = odd & !CUT | i64::from(odd & CUT != 0) << 10;
    scale_f64(odd as f64, exponent)
}

/// The `f32` nearest to the decimal; `None` as of [`to_f64`].
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

/// A power of two times a normal double, if the product is normal too.
#[inline(always)]
fn scale_f64(value: f64, exponent: i32) -> Option<f64> {
    let bits = value.to_bits();
    let field = (bits >> 52) as i32 + exponent;
    (1..2047).contains(&field).then(|| f64::from_bits(bits & ((1 << 52) - 1) | (field as u64) << 52))
}
