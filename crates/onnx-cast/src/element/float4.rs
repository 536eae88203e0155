//! The 4-bit float, finite only: 0, 0.5, 1, 1.5, 2, 3, 4, 6, and the same values negated.

use super::{bit_pattern_type, float_constants};
use crate::format::FloatFormat;

bit_pattern_type! {
    /// ONNX `float4e2m1`: largest 6, smallest subnormal 0.5.
    Float4E2M1, u8, 0x0f
}

float_constants!(Float4E2M1, u8, FloatFormat::finite(2, 1), ZERO);
