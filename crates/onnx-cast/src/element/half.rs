//! The 16-bit floats: `float16` (IEEE 754 binary16) and `bfloat16` (the upper half of a binary32).

use super::{bit_pattern_type, float_constants};
use crate::format::FloatFormat;

bit_pattern_type! {
    /// ONNX `float16`: 5 exponent bits, 10 of significand, largest 65504.
    Float16, u16
}

float_constants!(Float16, u16, FloatFormat::ieee(5, 10), ZERO NAN INFINITY);

bit_pattern_type! {
    /// ONNX `bfloat16`: 8 exponent bits, 7 of significand, the range of `float`.
    BFloat16, u16
}

float_constants!(BFloat16, u16, FloatFormat::ieee(8, 7), ZERO NAN INFINITY);
