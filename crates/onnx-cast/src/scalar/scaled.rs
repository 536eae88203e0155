//! Scaled casts of one element: the specification of QuantizeLinear and DequantizeLinear.
//!
//! Between widening and narrowing stands one operation: a quotient, or a difference and a product. Each is rounded
//! once.

use super::Rules;
use super::fused::Fused;
use crate::element::{BFloat16, DataType, Float16};

/// The type that a quotient is rounded to before it is cast: QuantizeLinear's `precision`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Precision {
    Float,
    Float16,
    BFloat16,
}

impl Precision {
    /// The precision that a type names.
    pub(crate) const fn of(data_type: DataType) -> Option<Precision> {
        Some(match data_type {
            DataType::Float => Precision::Float,
            DataType::Float16 => Precision::Float16,
            DataType::BFloat16 => Precision::BFloat16,
            _ => return None,
        })
    }
}

/// NaN with the sign of `value` where that is NaN; else the NaN arose here, and is positive.
#[inline(always)]
fn nan_of(value: f32) -> f32 {
    f32::from_bits(f32::NAN.to_bits() | if value.is_nan() { value.to_bits() & 1 << 31 } else { 0 })
}

/// `x / scale`, rounded once.
#[inline(always)]
pub(crate) fn quotient(x: f32, scale: f32) -> f32 {
    let quotient = x / scale;
    if quotient.is_nan() { nan_of(x) } else { quotient }
}

/// `x / scale` by its reciprocal, rounded once, or any number of the same sign below 2^-40 in place of one.
///
/// The first estimate is off by less than 1.5 units in the last place, and the fused operations correct it; the test
/// below tries every divisor with each dividend that could round otherwise. Beyond 2^30 the result is as far beyond;
/// infinity would have no remainder. No target tells such numbers apart, unless a zero point is added before: that
/// makes 0 of -0, and leaves every other number negative.
#[inline(always)]
pub(crate) fn quotient_by_reciprocal(x: f32, scale: f32, reciprocal: f32) -> f32 {
    const SIGN: u32 = 1 << 31;
    const MAX: f32 = (1u32 << 30) as f32;
    let estimate = x * reciprocal;
    // Not `clamp`, so that it is one instruction each; NaN stays.
    let near = if estimate > MAX { MAX } else { estimate };
    let near = if near < -MAX { -MAX } else { near };
    let remainder = (-near).fused(scale, x);
    let corrected = remainder.fused(reciprocal, near);
    // The correction of -0 is +0, and that of NaN may have another sign.
    f32::from_bits(corrected.to_bits() & !SIGN | estimate.to_bits() & SIGN)
}

/// As [`quotient_by_reciprocal`], to be rounded to an integer of 16 bits or fewer: a zero may have another sign, and
/// NaN and what is beyond -2^128 is NaN.
#[inline(always)]
pub(crate) fn quotient_to_round(x: f32, scale: f32, reciprocal: f32) -> f32 {
    const MAX: f32 = (1u32 << 30) as f32;
    let estimate = x * reciprocal;
    // NaN, too, is cut to the largest; its remainder is NaN.
    let near = if estimate < MAX { estimate } else { MAX };
    let remainder = (-near).fused(scale, x);
    remainder.fused(reciprocal, near)
}

/// Whether [`quotient_by_reciprocal`] is exact for a scale.
#[inline(always)]
pub(crate) fn is_moderate(scale: f32) -> bool {
    const MAX: f32 = (1u64 << 60) as f32;
    (1.0 / MAX..=MAX).contains(&scale.abs())
}

/// Whether a scale is a power of two with a reciprocal: quotients by it are products with that.
#[inline(always)]
pub(crate) fn is_power_of_two(scale: f32) -> bool {
    let magnitude = scale.to_bits() & (u32::MAX >> 1);
    let (exponent, fraction) = (magnitude >> 23, magnitude & ((1 << 23) - 1));
    // The reciprocal of 2^-127 is the largest power.
    (fraction == 0) & (exponent != 0) & (exponent != 255) | (magnitude == 1 << 22)
}

/// `x / scale`, rounded once to a precision, of values that `f32` may not represent: integers of 32 bits, or floats.
///
/// The double is rounded to odd, so the second rounding gives what one rounding gives.
#[inline(always)]
pub(crate) fn wide_quotient(x: f64, scale: f64, precision: Precision) -> f32 {
    let nearest = x / scale;
    if nearest.is_nan() {
        return nan_of(x as f32);
    }
    // The remainder is exact, and its sign tells on which side of `nearest` the quotient is. (By infinity it is NaN.)
    let remainder = (-nearest).fused(scale, x);
    let is_even = nearest.to_bits() & 1 == 0;
    let quotient = if is_even && remainder.abs() > 0.0 && nearest.is_finite() {
        if (remainder > 0.0) == (scale > 0.0) { nearest.next_up() } else { nearest.next_down() }
    } else {
        nearest
    };
    match precision {
        Precision::Float => super::cast_one::<f64, f32>(quotient, &Rules::NONE),
        Precision::Float16 => super::cast_one::<f64, Float16>(quotient, &Rules::NONE).to_f32(),
        Precision::BFloat16 => super::cast_one::<f64, BFloat16>(quotient, &Rules::NONE).to_f32(),
    }
}

/// A quotient as an integer of a range: rounded to nearest even, with the zero point added, and saturated. NaN gives
/// the lowest. The bounds are those of the type less the zero point; all three are integers below 2^17.
#[inline(always)]
pub(crate) fn round_to_int(quotient: f32, zero_point: f32, low: f32, high: f32) -> i32 {
    /// Adding 1.5 * 2^23 rounds to an integer, in the low bits of the sum.
    const SHIFT: f32 = 12_582_912.0;
    let (low, high) = (low - zero_point, high - zero_point);
    // Not `clamp`, which keeps NaN.
    let value = if quotient > low { quotient } else { low };
    let value = if value < high { value } else { high };
    ((value + SHIFT).to_bits() as i32).wrapping_sub(SHIFT.to_bits() as i32).wrapping_add(zero_point as i32)
}

/// As [`round_to_int`]; of the result only the low 16 bits count, to which the constant of that function adds nothing.
#[inline(always)]
pub(crate) fn round_to_low_bits(quotient: f32, low: f32, high: f32) -> u32 {
    const SHIFT: f32 = 12_582_912.0;
    let value = if quotient > low { quotient } else { low };
    let value = if value < high { value } else { high };
    (value + SHIFT).to_bits()
}

/// The bits of a float that is rounded to bfloat16, as `narrow` rounds.
#[inline(always)]
pub(crate) fn round_to_bfloat16(value: f32) -> u32 {
    const KEPT: u32 = 0xffff_0000;
    const QUIET: u32 = 1 << 22;
    let bits = value.to_bits();
    let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1));
    (if value.is_nan() { bits | QUIET } else { rounded }) & KEPT
}

/// `(x - zero_point) * scale`, rounded once. The difference is exact: both are integers of 16 bits or fewer, or the
/// zero point is 0.
#[inline(always)]
pub(crate) fn product(x: f32, zero_point: f32, scale: f32) -> f32 {
    let product = (x - zero_point) * scale;
    if product.is_nan() { nan_of(x) } else { product }
}

/// The scale and the zero point that map the range from `low` to `high`, 0 included, to the integers from `min` to
/// `max`: the formulas of DynamicQuantizeLinear, each operation rounded once. 1 and 0 where the range is 0.
pub(crate) fn linear_scale([low, high]: [f32; 2], [min, max]: [f32; 2]) -> (f32, i32) {
    if low == 0.0 && high == 0.0 {
        return (1.0, 0);
    }
    let scale = (high - low) / (max - min);
    // For -infinity the quotient is that of two infinities; the zero point is saturated.
    let zero_point = if low == f32::NEG_INFINITY { max } else { min - low / scale };
    (scale, round_to_int(zero_point, 0.0, min, max))
}

/// [`linear_scale`] of a finite range, for callers that need not follow ONNX's formulas. If the width of the range
/// overflows, the scale is the difference of two quotients. If the scale underflows to 0 (0 / 0 would be NaN), the
/// scale is 1 and the zero point is 0, as for a range of 0. For other ranges, the bits are those of ONNX's formulas.
pub(crate) fn finite_linear_scale([low, high]: [f32; 2], [min, max]: [f32; 2]) -> (f32, i32) {
    if (high - low).is_finite() {
        let (scale, zero_point) = linear_scale([low, high], [min, max]);
        return if scale == 0.0 { (1.0, 0) } else { (scale, zero_point) };
    }
    let scale = high / (max - min) - low / (max - min);
    (scale, round_to_int(min - low / scale, 0.0, min, max))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_round_to_bfloat16_as_in_a_cast() {
        for upper in 0..=u16::MAX {
            for lower in [0, 1, 0x7fff, 0x8000, 0x8001, 0xffff] {
                let value = f32::from_bits(u32::from(upper) << 16 | lower);
                let want = super::super::cast_one::<f32, BFloat16>(value, &Rules::NONE).to_f32();
                assert_eq!(round_to_bfloat16(value), want.to_bits(), "{:#x}", value.to_bits());
            }
        }
    }

    /// A quotient can be wrong only within 1.75 * 2^-47 of the middle between two floats, by the errors of the
    /// operations. Dividend and divisor are integers of 24 bits; with quotients below 1, a middle is N / 2^25 for an
    /// odd N, so `A * 2^25 - N * B` is a small number. (Where the quotient is 1 or more, the estimate is within one
    /// unit, for which the correction is known to be exact.) This tries every divisor with every such dividend.
    #[test]
    fn every_dividend_that_a_reciprocal_could_round_wrong() {
        let mut tried = 0u64;
        for divisor in 1u64 << 23..1 << 24 {
            let scale = divisor as f32;
            let reciprocal = 1.0 / scale;
            let zeros = divisor.trailing_zeros();
            let odd = divisor >> zeros;
            // The inverse modulo 2^64, by Newton's iteration.
            let inverse =
                (0..6).fold(odd, |inverse, _| inverse.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(inverse))));
            for difference in -7i64..=7 {
                if difference == 0 || difference.trailing_zeros() < zeros {
                    continue;
                }
                // N * odd = -difference / 2^zeros, modulo 2^(25 - zeros).
                let modulus = 1u64 << (25 - zeros);
                let residue = inverse.wrapping_mul((-(difference >> zeros)) as u64) & (modulus - 1);
                for middle in (0..1u64 << zeros).map(|k| residue + k * modulus) {
                    let product = (middle * divisor) as i64 + difference;
                    if middle < 1 << 24 || middle & 1 == 0 || product & ((1 << 25) - 1) != 0 {
                        continue;
                    }
                    let x = (product >> 25) as f32;
                    for (x, scale, reciprocal) in [(x, scale, reciprocal), (x * 2.0, scale, reciprocal)] {
                        tried += 1;
                        assert_eq!(quotient_by_reciprocal(x, scale, reciprocal), x / scale, "{x} / {scale}");
                    }
                }
            }
        }
        assert!(tried > 1 << 24);
    }
}
