//! Where the range of a type ends, as doubles.

use onnx_cast::types::Kind;
use onnx_cast::{CastError, DataType};
use onnx_cast_file::__private::value_of;

/// The smallest subnormal number of a float type (if it has subnormals), its smallest normal number and its largest;
/// `None` for other types.
pub(crate) fn float_limits(data_type: DataType) -> Result<Option<(Option<f64>, f64, f64)>, CastError> {
    let Kind::Float(format) = data_type.info().kind else { return Ok(None) };
    let number = |code| value_of(data_type, code);
    let subnormal = format.min_subnormal_code().map(number).transpose()?;
    Ok(Some((subnormal, number(format.min_normal_code())?, number(format.max_code())?)))
}

/// The largest number of an integer type; 1 of booleans.
pub(crate) fn largest_integer(data_type: DataType) -> f64 {
    let bits = data_type.bits().unwrap_or(1) as i32;
    match data_type.info().kind {
        Kind::Int => 2f64.powi(bits - 1) - 1.0,
        Kind::Uint => 2f64.powi(bits) - 1.0,
        _ => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_types() {
        let limits = |data_type| float_limits(data_type).expect("a cast to double");
        assert_eq!(limits(DataType::Float8E4M3FN), Some((Some(2f64.powi(-9)), 2f64.powi(-6), 448.0)));
        assert_eq!(limits(DataType::Float8E8M0), Some((None, 2f64.powi(-127), 2f64.powi(127))));
        assert_eq!(limits(DataType::Double), Some((Some(5e-324), f64::MIN_POSITIVE, f64::MAX)));
        assert_eq!(limits(DataType::Int8), None);
        let integers =
            [(DataType::Int4, 7.0), (DataType::Uint2, 3.0), (DataType::Bool, 1.0), (DataType::Uint32, 4294967295.0)];
        integers.into_iter().for_each(|(data_type, want)| assert_eq!(largest_integer(data_type), want, "{data_type}"));
    }
}
