//! Scaled casts of one element: the specification of QuantizeLinear and DequantizeLinear.
//!
//! Between widening and narrowing stands one operation: a quotient, or a difference and a product. Each is rounded once.

use super::Rules;
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

    pub(crate) const fn data_type(self) -> DataType {
        match self {
            Precision::Float => DataType::Float,
            Precision::Float16 => DataType::Float16,
            Precision::BFloat16 => DataType::BFloat16,
        }
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
    let remainder = (-nearest).mul_add(scale, x);
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

/// A quotient as an integer of a range: rounded to nearest even, with the zero point added, and saturated. NaN gives the
/// lowest. The bounds are those of the type less the zero point; all three are integers below 2^17.
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

/// `(x - zero_point) * scale`, rounded once. The difference is exact: both are integers of 16 bits or fewer, or the zero
/// point is 0.
#[inline(always)]
pub(crate) fn product(x: f32, zero_point: f32, scale: f32) -> f32 {
    let product = (x - zero_point) * scale;
    if product.is_nan() { nan_of(x) } else { product }
}
