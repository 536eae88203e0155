//! The two 6-bit floats, finite only.

use super::{bit_pattern_type, float_constants};
use crate::format::FloatFormat;

bit_pattern_type! {
    /// ONNX `float6e2m3`: largest 7.5, smallest subnormal 0.125.
    Float6E2M3, u8, 0x3f
}

float_constants!(Float6E2M3, u8, FloatFormat::finite(2, 3), ZERO);

bit_pattern_type! {
    /// ONNX `float6e3m2`: largest 28, smallest subnormal 0.0625.
    Float6E3M2, u8, 0x3f
}

float_constants!(Float6E3M2, u8, FloatFormat::finite(3, 2), ZERO);
