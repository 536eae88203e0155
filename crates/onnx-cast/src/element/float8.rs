//! The five 8-bit floats.

use super::{bit_pattern_type, float_constants};
use crate::format::FloatFormat;

bit_pattern_type! {
    /// ONNX `float8e4m3fn`: no infinity, NaN is 0x7F and 0xFF, largest 448.
    Float8E4M3FN, u8
}

float_constants!(Float8E4M3FN, u8, FloatFormat::finite_with_nan(4, 3), ZERO NAN);

bit_pattern_type! {
    /// ONNX `float8e4m3fnuz`: no infinity, no -0, NaN is 0x80, largest 240.
    Float8E4M3FNUZ, u8
}

float_constants!(Float8E4M3FNUZ, u8, FloatFormat::finite_unsigned_zero(4, 3), ZERO NAN);

bit_pattern_type! {
    /// ONNX `float8e5m2`: the structure of IEEE 754, with infinities, largest 57344.
    Float8E5M2, u8
}

float_constants!(Float8E5M2, u8, FloatFormat::ieee(5, 2), ZERO NAN INFINITY);

bit_pattern_type! {
    /// ONNX `float8e5m2fnuz`: no infinity, no -0, NaN is 0x80, largest 57344.
    Float8E5M2FNUZ, u8
}

float_constants!(Float8E5M2FNUZ, u8, FloatFormat::finite_unsigned_zero(5, 2), ZERO NAN);

bit_pattern_type! {
    /// ONNX `float8e8m0`: 2^-127 to 2^127 and NaN (0xFF); no sign, no zero, no infinity.
    Float8E8M0, u8
}

float_constants!(Float8E8M0, u8, FloatFormat::exponent_only(8), NAN);
