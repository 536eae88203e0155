//! Floats among themselves: one rounding, overflow, subnormals, NaN.

use crate::runner::*;
use onnx_cast::DataType::*;

#[test]
fn float_to_wider_floats_rounds_once() {
    check(
        ALL,
        DEFAULT,
        &[
            (Double, d(1.0 + p(-11) + p(-40)), Float16, 0x3C01),
            (Double, d(1.0 + p(-11)), Float16, 0x3C00),
            (Double, d(65519.999999999), Float16, 0x7BFF),
            (Double, d(65520.0), Float16, 0x7C00),
            (Double, d(-65520.0), Float16, 0xFC00),
            (Double, d(p(-25)), Float16, 0x0000),
            (Double, d(-p(-25)), Float16, 0x8000),
            (Double, d(p(-25) * (1.0 + p(-50))), Float16, 0x0001),
            (Double, d(1.0 + p(-8) + p(-40)), BFloat16, 0x3F81),
            (Double, d(p(-134) * (1.0 + p(-50))), BFloat16, 0x0001),
            (Double, d(p(-134)), BFloat16, 0x0000),
            (Double, 0x47EF_EFFF_FFFF_FFFF, BFloat16, 0x7F7F),
            (Double, 0x47EF_F000_0000_0000, BFloat16, 0x7F80),
            (Double, d(1.0 + p(-4) + p(-40)), Float8E4M3FN, 0x39),
            (Double, d(1.0 + p(-3) + p(-40)), Float8E5M2, 0x3D),
            (Double, d(1.0 + p(-4) + p(-40)), Float8E4M3FNUZ, 0x41),
            (Double, d(p(-18) * (1.0 + p(-40))), Float8E5M2FNUZ, 0x01),
            (Double, d(p(-18)), Float8E5M2FNUZ, 0x00),
            (Double, d(-p(-18)), Float8E5M2FNUZ, 0x00),
            (Double, d(p(-10)), Float8E4M3FN, 0x00),
            (Double, d(p(-10) + p(-50)), Float8E4M3FN, 0x01),
            (Float, f(65519.996), Float16, 0x7BFF),
            (Float, f(65520.0), Float16, 0x7C00),
            (Float, 0x0000_0001, Float16, 0x0000),
            (Float, 0x8000_0001, Float16, 0x8000),
            (Float, 0x3380_0000, Float16, 0x0001), // 2^-24
            (Float, 0x3300_0000, Float16, 0x0000), // 2^-25
            (Float, 0x3300_0001, Float16, 0x0001),
            (Float, 0x3F80_8000, BFloat16, 0x3F80),
            (Float, 0x3F80_8001, BFloat16, 0x3F81),
            (Float, 0x3F81_8000, BFloat16, 0x3F82),
            (Float, 0x0000_8000, BFloat16, 0x0000),
            (Float, 0x0000_8001, BFloat16, 0x0001), // subnormals are kept
            (Float, 0x7F7F_7FFF, BFloat16, 0x7F7F),
            (Float, 0x7F7F_8000, BFloat16, 0x7F80),
            (Float, f(f32::NEG_INFINITY), Float16, 0xFC00),
            (Float, f(f32::INFINITY), BFloat16, 0x7F80),
            (Float, f(f32::INFINITY), Double, d(INF)),
            (Double, d(-INF), Float, f(f32::NEG_INFINITY)),
            (Double, d(f64::MAX), Float, f(f32::INFINITY)),
            (Double, 0x47EF_FFFF_EFFF_FFFF, Float, f(f32::MAX)),
            (Double, 0x47EF_FFFF_F000_0000, Float, f(f32::INFINITY)),
            (Double, d(p(-150)), Float, 0x0000_0000),
            (Double, d(p(-150) + p(-202)), Float, 0x0000_0001),
            (Double, d(-5e-324), Float, 0x8000_0000),
            (Float, 0x0000_0001, Double, d(p(-149))),
            (Float16, 0x0001, Float, 0x3380_0000),
            (Float16, 0x03FF, Double, d(1023.0 * p(-24))),
            (Float16, 0x7BFF, BFloat16, 0x4780), // 65504 -> 65536
            (Float16, 0x0001, BFloat16, 0x3380),
            (BFloat16, 0x7F7F, Float16, 0x7C00),
            (BFloat16, 0x0001, Float16, 0x0000),
            (BFloat16, 0x0001, Float, 0x0001_0000),
            (BFloat16, 0x8000, Float16, 0x8000),
            (BFloat16, 0x3380, Float16, 0x0001),
            (BFloat16, 0x3300, Float16, 0x0000),
            (BFloat16, 0x3301, Float16, 0x0001),
        ],
    );
}

#[test]
fn nan_keeps_its_sign_is_quiet_and_never_an_infinity() {
    check(
        ALL,
        DEFAULT,
        &[
            (Float, 0x7FC0_0000, Float16, 0x7E00),
            (Float, 0xFFC0_0000, Float16, 0xFE00),
            (Float, 0x7F80_0001, Float16, 0x7E00), // a payload that the target cannot represent
            (Float, 0xFF80_0001, BFloat16, 0xFFC0),
            (Float, 0x7F81_2345, Float16, 0x7E09),
            (Float, 0x7FFF_FFFF, Float16, 0x7FFF),
            (Float, 0x7FFF_FFFF, BFloat16, 0x7FFF),
            (Float, 0x7F81_0000, BFloat16, 0x7FC1),
            (Float, 0x7F80_0001, Double, 0x7FF8_0000_2000_0000),
            (Float, 0xFFC0_0000, Double, d(MINUS_NAN)),
            (Double, 0x7FF0_0000_0000_0001, Float, 0x7FC0_0000),
            (Double, 0x7FF0_0000_0000_0001, Float16, 0x7E00),
            (Double, 0x7FF0_0000_0000_0001, BFloat16, 0x7FC0),
            (Double, 0xFFF0_0000_0000_0001, Float8E4M3FN, 0xFF),
            (Double, 0x7FF0_0000_0000_0001, Float8E4M3FNUZ, 0x80),
            (Double, 0xFFF0_0000_0000_0001, Float8E5M2, 0xFE),
            (Double, 0x7FF0_0000_0000_0001, Float8E5M2FNUZ, 0x80),
            (Double, 0x7FF0_0000_0000_0001, Float8E8M0, 0xFF),
            (Double, 0x7FF0_0000_2000_0000, Float, 0x7FC0_0001),
            (Float16, 0x7C01, Float, 0x7FC0_2000),
            (Float16, 0xFC01, Double, 0xFFF8_0400_0000_0000),
            (Float16, 0x7C01, BFloat16, 0x7FC0),
            (BFloat16, 0x7F81, Float, 0x7FC1_0000),
            (BFloat16, 0xFF81, Float16, 0xFE08),
            (Float8E4M3FN, 0xFF, Float8E5M2, 0xFE),
            (Float8E4M3FN, 0xFF, Float, 0xFFC0_0000),
            (Float8E5M2, 0x7D, Float, 0x7FE0_0000),
            (Float8E5M2, 0xFE, Float16, 0xFE00),
            (Float8E4M3FNUZ, 0x80, Float, 0xFFC0_0000), // the only NaN has its sign bit set
            (Float8E5M2FNUZ, 0x80, Double, 0xFFF8 << 48),
            (Float8E4M3FNUZ, 0x80, Float8E4M3FN, 0xFF),
            (Float8E4M3FNUZ, 0x80, Float8E5M2FNUZ, 0x80),
            (Float8E5M2, 0x7D, Float8E4M3FN, 0x7F),
            (Float8E5M2, 0xFD, Float8E4M3FN, 0xFF),
            (Float8E5M2, 0x7F, Float8E5M2FNUZ, 0x80),
        ],
    );
}
