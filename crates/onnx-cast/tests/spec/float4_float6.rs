//! float4e2m1, float6e2m3 and float6e3m2: the tables of ONNX's pages on these types.

use crate::runner::*;
use onnx_cast::DataType::*;

#[test]
fn float4_table() {
    check(
        ALL,
        DEFAULT,
        &[
            // -6 <= x <= 6: to nearest even
            (Float, f(0.25), Float4E2M1, 0x0),
            (Float, f(0.26), Float4E2M1, 0x1),
            (Float, f(0.5), Float4E2M1, 0x1),
            (Float, f(0.75), Float4E2M1, 0x2),
            (Float, f(1.0), Float4E2M1, 0x2),
            (Float, f(1.25), Float4E2M1, 0x2),
            (Float, f(1.5), Float4E2M1, 0x3),
            (Float, f(1.75), Float4E2M1, 0x4),
            (Float, f(2.0), Float4E2M1, 0x4),
            (Float, f(2.5), Float4E2M1, 0x4),
            (Float, f(3.0), Float4E2M1, 0x5),
            (Float, f(3.5), Float4E2M1, 0x6),
            (Float, f(4.0), Float4E2M1, 0x6),
            (Float, f(5.0), Float4E2M1, 0x6),
            (Float, f(5.1), Float4E2M1, 0x7),
            (Float, f(6.0), Float4E2M1, 0x7),
            (Float, f(-3.5), Float4E2M1, 0xE),
            (Float, f(-0.75), Float4E2M1, 0xA),
            // x = +-0, and values that round to it
            (Float, f(0.0), Float4E2M1, 0x0),
            (Float, f(-0.0), Float4E2M1, 0x8),
            (Float, f(-0.25), Float4E2M1, 0x8),
            (Float, 0x8000_0001, Float4E2M1, 0x8),
            // x > 6, x < -6, infinities
            (Float, f(6.1), Float4E2M1, 0x7),
            (Float, f(7.0), Float4E2M1, 0x7),
            (Float, f(1e30), Float4E2M1, 0x7),
            (Float, f(-1e30), Float4E2M1, 0xF),
            (Float, f(f32::INFINITY), Float4E2M1, 0x7),
            (Float, f(f32::NEG_INFINITY), Float4E2M1, 0xF),
            // other sources
            (Double, d(0.25 + p(-40)), Float4E2M1, 0x1),
            (Double, d(5.0 + p(-40)), Float4E2M1, 0x7),
            (Double, d(-INF), Float4E2M1, 0xF),
            (Float16, 0x7C00, Float4E2M1, 0x7),
            (Int64, 5, Float4E2M1, 0x6),
            (Int64, i(-7), Float4E2M1, 0xF),
            (Uint64, u64::MAX, Float4E2M1, 0x7),
            (Bool, 1, Float4E2M1, 0x2),
        ],
    );
    for (versions, nan) in [(23..=23, 0x7), (24..=28, 0x8)] {
        check(
            versions,
            DEFAULT,
            &[
                (Float, 0x7FC0_0000, Float4E2M1, nan),
                (Float, 0xFFC0_0000, Float4E2M1, nan),
                (Double, d(MINUS_NAN), Float4E2M1, nan),
                (Float16, 0x7E00, Float4E2M1, nan),
                (Float8E4M3FN, 0xFF, Float4E2M1, nan),
            ],
        );
    }
    // `saturate` affects only float8.
    check(
        ALL,
        NO_SATURATE,
        &[
            (Float, f(7.0), Float4E2M1, 0x7),
            (Float, f(f32::NEG_INFINITY), Float4E2M1, 0xF),
            (Float, f(f32::INFINITY), Float6E2M3, 0x1F),
            (Float, f(f32::INFINITY), Float16, 0x7C00),
        ],
    );
    // Upcasting is exact.
    for (bits, x) in [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0].into_iter().enumerate() {
        let bits = bits as u64;
        check(
            ALL,
            DEFAULT,
            &[
                (Float4E2M1, bits, Float, f(x)),
                (Float4E2M1, bits | 8, Float, f(-x)),
                (Float4E2M1, bits | 8, Double, d(-f64::from(x))),
            ],
        );
    }
}

#[test]
fn float6_examples() {
    check(
        ALL,
        DEFAULT,
        &[
            (Float, f(25.0), Float6E2M3, 0x1F),
            (Float, f(-0.0), Float6E2M3, 0x20),
            (Float, f(f32::INFINITY), Float6E2M3, 0x1F),
            (Float, f(f32::NEG_INFINITY), Float6E2M3, 0x3F),
            (Float, 0x7FC0_0000, Float6E2M3, 0x20),
            (Float, 0xFFC0_0000, Float6E2M3, 0x20),
            (Float, f(7.75), Float6E2M3, 0x1F),
            (Float, f(7.25), Float6E2M3, 0x1E), // between 7 and 7.5
            (Float, f(0.0625), Float6E2M3, 0x00),
            (Float, f(0.0626), Float6E2M3, 0x01),
            (Float, f(-0.0625), Float6E2M3, 0x20),
            (Float, f(1.0), Float6E2M3, 0x08),
            (Float, f(0.9375), Float6E2M3, 0x08), // between the largest subnormal and 1
            (Float, f(25.0), Float6E3M2, 0x1E),
            (Float, f(-0.0), Float6E3M2, 0x20),
            (Float, f(f32::INFINITY), Float6E3M2, 0x1F),
            (Float, f(f32::NEG_INFINITY), Float6E3M2, 0x3F),
            (Float, 0x7FC0_0000, Float6E3M2, 0x20),
            (Float, 0xFFC0_0000, Float6E3M2, 0x20),
            (Float, f(26.0), Float6E3M2, 0x1E), // between 24 and 28
            (Float, f(27.0), Float6E3M2, 0x1F),
            (Float, f(30.0), Float6E3M2, 0x1F),
            (Float, f(0.03125), Float6E3M2, 0x00),
            (Float, f(0.0313), Float6E3M2, 0x01),
            (Float, f(1.0), Float6E3M2, 0x0C),
            (Double, d(1.0 + p(-4) + p(-40)), Float6E2M3, 0x09),
            (Double, d(1.0 + p(-3) + p(-40)), Float6E3M2, 0x0D),
            (Double, d(NAN), Float6E3M2, 0x20),
            (Int64, i(-100), Float6E2M3, 0x3F),
            (Uint8, 26, Float6E3M2, 0x1E),
            (Float6E2M3, 0x1F, Float, f(7.5)),
            (Float6E2M3, 0x01, Float, f(0.125)),
            (Float6E2M3, 0x20, Float, f(-0.0)),
            (Float6E2M3, 0x08, Float, f(1.0)),
            (Float6E3M2, 0x1F, Float, f(28.0)),
            (Float6E3M2, 0x01, Float, f(0.0625)),
            (Float6E3M2, 0x04, Float, f(0.25)),
            (Float6E3M2, 0x3F, Double, d(-28.0)),
            (Float6E3M2, 0x1F, Float6E2M3, 0x1F),
            (Float6E2M3, 0x1F, Float6E3M2, 0x18), // 7.5, between 7 and 8
        ],
    );
}
