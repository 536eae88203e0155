//! The shortest decimal of a float, by Raffaello Giulietti's Schubfach ("The Schubfach way to render doubles", 2021):
//! the candidates are multiples of the largest power of ten not above the width of the interval that rounds to the
//! float, or of ten times that power if the interval contains one. The nearest candidate is chosen; of two equally
//! near, the one whose last digit is even.

use super::power::{floor_log2, power_of_ten};

/// `digits * 10^exponent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Decimal {
    pub(super) digits: u64,
    pub(super) exponent: i32,
}

impl Decimal {
    pub(super) const ONE: Decimal = Decimal { digits: 1, exponent: 0 };
}

/// The shortest decimal that rounds to `significand * 2^exponent`, which is not zero and has at most 53 bits. The
/// decimal may have trailing zeros. `narrow_below`: the next float below is half as far away as the next above.
#[inline(always)]
pub(super) fn shortest(significand: u64, exponent: i32, narrow_below: bool) -> Decimal {
    if !narrow_below && let Some(decimal) = unless_close(significand, exponent) {
        return decimal;
    }
    exactly(significand, exponent, narrow_below)
}

/// As [`exactly`], for an interval that is equally wide on both sides. `None` if an end or midpoint is so close to a
/// decimal that 60 bits after the point do not determine on which side of it the decimal lies.
#[inline(always)]
fn unless_close(significand: u64, exponent: i32) -> Option<Decimal> {
    /// 1.0 in the fixed-point format used below.
    const ONE: u64 = 1 << 60;
    /// An upper bound of the joint error of the value and half the width.
    const CLOSE: u64 = 8;
    let last_digit = floor_log10_of_width(exponent, false);
    let shift = (exponent + floor_log2(-last_digit) + 1) as u32;
    let power = power_of_ten(-last_digit);
    // value = (below + fraction / 2^64) * 10^place
    let value = significand << shift;
    let low = u128::from(power as u64) * u128::from(value);
    let high = u128::from((power >> 64) as u64) * u128::from(value) + (low >> 64);
    let (below, fraction) = ((high >> 64) as u64, high as u64 >> 4);
    // Half the width of the interval, from 1/2 to 5.
    let reach = (power >> 64) as u64 >> (5 - shift);
    let ones = below % 10;
    let above_tens = ones * ONE + fraction;
    let is_close = |a: u64, b: u64| a.wrapping_sub(b).wrapping_add(CLOSE) <= 2 * CLOSE;
    if is_close(above_tens, reach) | is_close(above_tens + reach, 10 * ONE) | is_close(fraction, ONE / 2) {
        return None;
    }
    let (tens_below, tens_above) = (above_tens < reach, above_tens + reach > 10 * ONE);
    let tens = below - ones + if tens_above { 10 } else { 0 };
    let fine = below + u64::from(fraction > ONE / 2);
    Some(Decimal { digits: if tens_below | tens_above { tens } else { fine }, exponent: last_digit })
}

/// The shortest decimal, from both ends of the interval rounded to odd.
#[inline(never)]
fn exactly(significand: u64, exponent: i32, narrow_below: bool) -> Decimal {
    let even = significand & 1 == 0;
    // The exponent of the largest power of ten of which the interval certainly contains a multiple.
    let last_digit = floor_log10_of_width(exponent, narrow_below);
    let shift = exponent + floor_log2(-last_digit) + 1;
    let power = power_of_ten(-last_digit);
    // The value and the ends of the interval in quarters of that power, rounded to odd.
    let quarters = |value: u64| multiply(power, value << shift);
    let value = quarters(4 * significand);
    let low = quarters(4 * significand - 2 + u64::from(narrow_below)) + u64::from(!even);
    let high = quarters(4 * significand + 2) - u64::from(!even);

    let below = value / 4;
    // One digit fewer: the interval contains at most one such multiple.
    let tens = below / 10 * 10;
    let (tens_below, tens_above) = (low <= 4 * tens, 4 * tens + 40 <= high);
    if tens_below != tens_above {
        return Decimal { digits: if tens_above { tens + 10 } else { tens }, exponent: last_digit };
    }
    let (is_below, is_above) = (low <= 4 * below, 4 * below + 4 <= high);
    let half = 4 * below + 2;
    let nearer_above = value > half || (value == half && below & 1 == 1);
    let above = if is_below != is_above { is_above } else { nearer_above };
    Decimal { digits: below + u64::from(above), exponent: last_digit }
}

/// The upper 64 bits of a product, rounded to odd. The power may be too large by less than 1, so the lowest of the 64
/// dropped bits is ignored.
fn multiply(power: u128, value: u64) -> u64 {
    let low = (power & u128::from(u64::MAX)) * u128::from(value);
    let high = (power >> 64) * u128::from(value) + (low >> 64);
    (high >> 64) as u64 | u64::from(high as u64 > 1)
}

/// The largest `n` with `10^n` not above the width of the interval, which is `2^exponent` or three quarters of that.
#[inline(always)]
fn floor_log10_of_width(exponent: i32, three_quarters: bool) -> i32 {
    /// log10(2) * 2^32
    const LOG10_2: i64 = 1_292_913_986;
    /// log10(3/4) * 2^32
    const LOG10_3_4: i64 = -536_607_787;
    ((i64::from(exponent) * LOG10_2 + if three_quarters { LOG10_3_4 } else { 0 }) >> 32) as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every exponent of both types, with significands of many bits, of few, and at the ends of the range.
    #[test]
    fn what_is_not_close_is_as_exact() {
        let mut state = 1u64;
        let (mut fast, mut all) = (0, 0);
        for (bits, exponents) in [(24, -149..=104), (53, -1074..=971)] {
            for exponent in exponents {
                let top = 1u64 << (bits - 1);
                for i in 0..300 {
                    state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
                    let significand = match i {
                        0..20 => top + i,
                        20..40 => 2 * top - 1 - (i - 20),
                        40..100 => top | (state >> 54) << (bits - 11),
                        100..120 => state >> 60 | 1,
                        _ => top | state >> (65 - bits),
                    };
                    all += 1;
                    if let Some(decimal) = unless_close(significand, exponent) {
                        fast += 1;
                        let exact = exactly(significand, exponent, false);
                        assert_eq!(decimal, exact, "{significand} * 2^{exponent}");
                    }
                }
            }
        }
        assert!(fast > all / 10 * 9, "{fast} of {all}");
    }
}
