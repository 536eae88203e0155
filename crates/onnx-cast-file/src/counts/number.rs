//! Numbers as files hold them. No float holds the integers of 64 bits, so these are compared and shown as integers; all
//! other types fit into doubles.

use crate::counts::widen::Widening;
use onnx_cast::__private::with_default_float_environment;
use onnx_cast::ops::OpError;
use onnx_cast::types::Kind;
use onnx_cast::{CastError, DataType};
use std::fmt;
use std::ops::Range;

/// A real number, exactly: an integer of an integer type, or a float of any width.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// Of an integer type, or of bool.
    Integer(i128),
    /// Of a floating type.
    Float(f64),
}

impl Number {
    /// The nearest double.
    pub fn to_f64(self) -> f64 {
        match self {
            Number::Integer(integer) => with_default_float_environment(|| integer as f64),
            Number::Float(float) => float,
        }
    }

    /// The number that a double is in a type.
    pub(crate) fn of(data_type: DataType, double: f64) -> Number {
        if is_integer(data_type) { Number::Integer(double as i128) } else { Number::Float(double) }
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Number::Integer(integer) => write!(f, "{integer}"),
            Number::Float(float) => write!(f, "{float:e}"),
        }
    }
}

/// Whether the values of a type are integers, or true and false.
pub(crate) fn is_integer(data_type: DataType) -> bool {
    matches!(data_type.info().kind, Kind::Int | Kind::Uint | Kind::Bool)
}

/// Whether a type has values that a double does not have.
pub(crate) fn exceeds_doubles(data_type: DataType) -> bool {
    matches!(data_type, DataType::Int64 | DataType::Uint64)
}

/// Reads elements of a type of real numbers one by one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Numbers {
    data_type: DataType,
    doubles: Widening,
}

impl Numbers {
    pub(crate) fn new(data_type: DataType) -> Result<Numbers, OpError> {
        Ok(Numbers { data_type, doubles: Widening::new(data_type, DataType::Double)? })
    }

    /// Hands over each element of a range that starts at a block, with its index.
    pub(crate) fn each(
        &self,
        bytes: &[u8],
        range: Range<usize>,
        out: &mut Vec<u8>,
        mut see: impl FnMut(usize, Number),
    ) -> Result<(), CastError> {
        let is_signed = self.data_type == DataType::Int64;
        if is_signed || self.data_type == DataType::Uint64 {
            let words = bytes.as_chunks::<8>().0.get(range.clone()).unwrap_or_default();
            for (word, at) in words.iter().zip(range) {
                let integer =
                    if is_signed { i64::from_le_bytes(*word).into() } else { u64::from_le_bytes(*word).into() };
                see(at, Number::Integer(integer));
            }
            return Ok(());
        }
        let doubles = self.doubles.block(bytes, range.clone(), out)?;
        for (word, at) in doubles.as_chunks::<8>().0.iter().zip(range) {
            see(at, Number::of(self.data_type, f64::from_le_bytes(*word)));
        }
        Ok(())
    }
}

/// How far two numbers are apart, exactly: a whole number, and a fraction of 1. From 2^120 on, the fraction is all of
/// it.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub(crate) struct Distance {
    whole: u128,
    fraction: f64,
}

/// Doubles from here on are no distance that integers of 64 bits add to.
const HUGE: f64 = (1u128 << 120) as f64;

impl Distance {
    /// `None` where one of the two is NaN.
    pub(crate) fn between(a: Number, b: Number) -> Option<Distance> {
        let whole = |whole| Distance { whole, fraction: 0.0 };
        Some(match (a, b) {
            (Number::Integer(a), Number::Integer(b)) => whole(a.abs_diff(b)),
            (Number::Integer(integer), Number::Float(float)) | (Number::Float(float), Number::Integer(integer)) => {
                if float.is_nan() {
                    return None;
                }
                if float.abs() >= HUGE {
                    return Some(Distance { whole: u128::MAX, fraction: float.abs() });
                }
                let (apart, fraction) = (integer - float.trunc() as i128, float.fract());
                let (size, part) = (apart.unsigned_abs(), fraction.abs());
                // The fraction leads toward the integer, or away from it.
                if part > 0.0 && size > 0 && (apart > 0) == (fraction > 0.0) {
                    Distance { whole: size - 1, fraction: 1.0 - part }
                } else {
                    Distance { whole: size, fraction: part }
                }
            }
            (Number::Float(a), Number::Float(b)) if a.is_nan() || b.is_nan() => return None,
            // Equal infinities are not apart.
            (Number::Float(a), Number::Float(b)) if a == b => whole(0),
            (Number::Float(a), Number::Float(b)) => Distance { whole: u128::MAX, fraction: (a - b).abs() },
        })
    }

    pub(crate) fn to_f64(self) -> f64 {
        if self.whole == u128::MAX { self.fraction } else { self.whole as f64 + self.fraction }
    }

    /// Between numbers of two types.
    pub(crate) fn number(self, types: [DataType; 2]) -> Number {
        if types.into_iter().all(is_integer) {
            Number::Integer(self.whole as i128)
        } else {
            Number::Float(self.to_f64())
        }
    }

    pub(crate) fn is_within(self, tolerance: f64) -> bool {
        if self.whole == u128::MAX || tolerance >= HUGE {
            return self.to_f64() <= tolerance;
        }
        let whole = tolerance as u128;
        self.whole < whole || self.whole == whole && self.fraction <= tolerance.fract()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_exact() {
        use Number::{Float, Integer};
        let large = 1i128 << 53;
        // Two numbers, the distance as a double, and the largest of some tolerances that is too small.
        for (a, b, want, too_small) in [
            (Integer(large + 1), Integer(large), 1.0, 0.999),
            (Integer(large + 1), Float(large as f64), 1.0, 0.999),
            (Integer(i64::MIN.into()), Integer(u64::MAX.into()), 2f64.powi(64) + 2f64.powi(63), 2f64.powi(64)),
            (Integer(3), Float(3.25), 0.25, 0.2499),
            (Integer(3), Float(2.75), 0.25, 0.2499),
            (Integer(-3), Float(-4.5), 1.5, 1.4),
            (Integer(5), Float(-0.5), 5.5, 5.4),
            // As doubles the two are 2^62 apart.
            (Integer(1 << 62), Float(-0.5), 2f64.powi(62), 2f64.powi(62)),
            (Integer(7), Float(f64::INFINITY), f64::INFINITY, f64::MAX),
            (Integer(7), Float(1e300), 1e300, 9.9e299),
        ] {
            for (a, b) in [(a, b), (b, a)] {
                let distance = Distance::between(a, b).expect("numbers");
                assert_eq!(distance.to_f64().to_bits(), want.to_bits(), "{a} {b}");
                assert!(!distance.is_within(too_small) && distance.is_within(want.next_up()), "{a} {b}");
            }
        }
        for (a, b) in
            [(Integer(0), Float(-0.0)), (Float(f64::INFINITY), Float(f64::INFINITY)), (Integer(9), Integer(9))]
        {
            assert!(Distance::between(a, b).expect("numbers") == Distance::default(), "{a} {b}");
        }
        assert_eq!(Distance::between(Integer(1), Float(f64::NAN)), None);
    }
}
