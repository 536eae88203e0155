//! float8e4m3fn, float8e4m3fnuz, float8e5m2 and float8e5m2fnuz: the two tables of ONNX's Cast, and the versions where
//! they begin.

use crate::runner::*;
use onnx_cast::DataType::{self, *};
use std::ops::RangeInclusive;

/// The columns of ONNX's float8 tables.
const FLOAT8: [DataType; 4] = [Float8E4M3FN, Float8E4M3FNUZ, Float8E5M2, Float8E5M2FNUZ];

/// Checks rows of a float8 table, from float and from double.
fn check_float8_rows(versions: RangeInclusive<i64>, attributes: Attributes, rows: &[(f64, [u64; 4])]) {
    for &(x, wants) in rows {
        for (to, want) in FLOAT8.into_iter().zip(wants) {
            cast_bits(versions.clone(), attributes, Double, d(x), to, want);
            if let Some(narrow) = exact_float(x) {
                cast_bits(versions.clone(), attributes, Float, narrow, to, want);
            }
        }
    }
}

#[test]
fn float8_saturating_table() {
    for attributes in [DEFAULT, SATURATE] {
        check_float8_rows(
            19..=28,
            attributes,
            &[
                (0.0, [0x00, 0x00, 0x00, 0x00]),
                (-0.0, [0x80, 0x00, 0x80, 0x00]),
                (NAN, [0x7F, 0x80, 0x7E, 0x80]),
                (MINUS_NAN, [0xFF, 0x80, 0xFE, 0x80]),
                // [x] > FLT_MAX: 448, 240, 57344, 57344
                (1e6, [0x7E, 0x7F, 0x7B, 0x7F]),
                (1e300, [0x7E, 0x7F, 0x7B, 0x7F]),
                (-1e6, [0xFE, 0xFF, 0xFB, 0xFF]),
                (-1e300, [0xFE, 0xFF, 0xFB, 0xFF]),
                // else RNE
                (1.0, [0x38, 0x40, 0x3C, 0x40]),
                (-1.0, [0xB8, 0xC0, 0xBC, 0xC0]),
                (240.0, [0x77, 0x7F, 0x5C, 0x60]),
                (p(-20), [0x00, 0x00, 0x00, 0x00]),
                (-p(-20), [0x80, 0x00, 0x80, 0x00]),
                (5e-324, [0x00, 0x00, 0x00, 0x00]),
                (-5e-324, [0x80, 0x00, 0x80, 0x00]),
            ],
        );
        check_float8_rows(24..=28, attributes, &[(INF, [0x7E, 0x7F, 0x7B, 0x7F]), (-INF, [0xFE, 0xFF, 0xFB, 0xFF])]);
        // Before version 24, the table has NaN for the formats without infinity and -0.
        check_float8_rows(19..=23, attributes, &[(INF, [0x7E, 0x80, 0x7B, 0x80]), (-INF, [0xFE, 0x80, 0xFB, 0x80])]);
    }
}

#[test]
fn float8_not_saturating_table() {
    check_float8_rows(
        19..=28,
        NO_SATURATE,
        &[
            (0.0, [0x00, 0x00, 0x00, 0x00]),
            (-0.0, [0x80, 0x00, 0x80, 0x00]),
            (NAN, [0x7F, 0x80, 0x7E, 0x80]),
            (MINUS_NAN, [0xFF, 0x80, 0xFE, 0x80]),
            (INF, [0x7F, 0x80, 0x7C, 0x80]),
            (-INF, [0xFF, 0x80, 0xFC, 0x80]),
            // [x] > FLT_MAX
            (1e6, [0x7F, 0x80, 0x7C, 0x80]),
            (1e300, [0x7F, 0x80, 0x7C, 0x80]),
            (-1e6, [0xFF, 0x80, 0xFC, 0x80]),
            (-1e300, [0xFF, 0x80, 0xFC, 0x80]),
            // else RNE
            (1.0, [0x38, 0x40, 0x3C, 0x40]),
            (-1.0, [0xB8, 0xC0, 0xBC, 0xC0]),
            (240.0, [0x77, 0x7F, 0x5C, 0x60]),
            (p(-20), [0x00, 0x00, 0x00, 0x00]),
            (-p(-20), [0x80, 0x00, 0x80, 0x00]),
        ],
    );
}

#[test]
fn float8_overflows_where_the_rounded_value_does() {
    const E4M3FN: [(f64, u64, u64); 6] = [
        // value, saturate=1, saturate=0
        (448.0, 0x7E, 0x7E),
        (464.0, 0x7E, 0x7E), // halfway to 480; 448 is even
        (464.01, 0x7E, 0x7F),
        (480.0, 0x7E, 0x7F),
        (495.0, 0x7E, 0x7F),
        (464.0 + p(-40), 0x7E, 0x7F),
    ];
    const E4M3FNUZ: [(f64, u64, u64); 4] = [
        (240.0, 0x7F, 0x7F),
        (247.9, 0x7F, 0x7F),
        (248.0, 0x7F, 0x80), // halfway to 256; 256 is even
        (248.0 - p(-44), 0x7F, 0x7F),
    ];
    const E5M2: [(f64, u64, u64); 5] = [
        (57344.0, 0x7B, 0x7B),
        (61439.0, 0x7B, 0x7B),
        (61440.0, 0x7B, 0x7C), // halfway to 65536; 65536 is even
        (65504.0, 0x7B, 0x7C),
        (61440.0 - p(-36), 0x7B, 0x7B),
    ];
    const E5M2FNUZ: [(f64, u64, u64); 4] =
        [(57344.0, 0x7F, 0x7F), (61439.0, 0x7F, 0x7F), (61440.0, 0x7F, 0x80), (61440.0 - p(-36), 0x7F, 0x7F)];
    let minus = |to: DataType, bits: u64| if to != Float8E5M2 && bits == 0x80 { 0x80 } else { bits | 0x80 };
    for (to, rows) in FLOAT8.into_iter().zip([&E4M3FN[..], &E4M3FNUZ, &E5M2, &E5M2FNUZ]) {
        for &(x, saturated, not) in rows {
            cast_bits(ALL, DEFAULT, Double, d(x), to, saturated);
            cast_bits(ALL, NO_SATURATE, Double, d(x), to, not);
            cast_bits(ALL, DEFAULT, Double, d(-x), to, minus(to, saturated));
            cast_bits(ALL, NO_SATURATE, Double, d(-x), to, minus(to, not));
        }
    }
}

#[test]
fn float8_from_other_sources_obeys_the_same_tables() {
    check(
        ALL,
        DEFAULT,
        &[
            (Float16, 0x7BFF, Float8E4M3FN, 0x7E), // 65504
            (Float16, 0x7BFF, Float8E5M2, 0x7B),
            (Float16, 0x8000, Float8E4M3FN, 0x80),
            (Float16, 0x8000, Float8E4M3FNUZ, 0x00),
            (Float16, 0x7E00, Float8E4M3FN, 0x7F),
            (Float16, 0xFE00, Float8E5M2, 0xFE),
            (Float16, 0x7E00, Float8E5M2FNUZ, 0x80),
            (Float16, 0x0001, Float8E5M2, 0x00), // 2^-24
            (BFloat16, 0x7F7F, Float8E4M3FN, 0x7E),
            (BFloat16, 0xFF7F, Float8E5M2FNUZ, 0xFF),
            (BFloat16, 0x8000, Float8E5M2FNUZ, 0x00),
            (BFloat16, 0x7FC0, Float8E4M3FNUZ, 0x80),
            (Float8E5M2, 0x7B, Float8E4M3FN, 0x7E), // 57344
            (Float8E5M2, 0x80, Float8E4M3FN, 0x80),
            (Float8E5M2, 0x80, Float8E4M3FNUZ, 0x00),
            (Float8E5M2, 0x7E, Float8E4M3FN, 0x7F),
            (Float8E4M3FNUZ, 0x80, Float8E4M3FNUZ, 0x80),
            (Float8E4M3FNUZ, 0x7F, Float8E4M3FN, 0x77), // 240
            (Float8E4M3FN, 0x7E, Float8E4M3FNUZ, 0x7F), // 448
            (Float4E2M1, 0x8, Float8E4M3FNUZ, 0x00),
            (Float4E2M1, 0x8, Float8E4M3FN, 0x80),
            (Float4E2M1, 0xF, Float8E4M3FN, 0xCC),
            (Int32, 464, Float8E4M3FN, 0x7E),
            (Int32, 465, Float8E4M3FN, 0x7E),
            (Int32, i(-465), Float8E4M3FN, 0xFE),
            (Int64, i(i64::MIN), Float8E4M3FNUZ, 0xFF),
            (Uint64, u64::MAX, Float8E5M2, 0x7B),
            (Int8, 0, Float8E4M3FNUZ, 0x00),
            (Int8, i(-128), Float8E4M3FN, 0xF0),
            (Bool, 1, Float8E4M3FN, 0x38),
            (Bool, 0, Float8E5M2FNUZ, 0x00),
        ],
    );
    check(
        ALL,
        NO_SATURATE,
        &[
            (Float16, 0x7BFF, Float8E4M3FN, 0x7F),
            (Float16, 0xFBFF, Float8E5M2, 0xFC),
            (Float16, 0xFC00, Float8E4M3FN, 0xFF),
            (Float16, 0xFC00, Float8E5M2, 0xFC),
            (Float16, 0xFC00, Float8E5M2FNUZ, 0x80),
            (BFloat16, 0xFF80, Float8E4M3FN, 0xFF),
            (Float8E5M2, 0x7C, Float8E4M3FN, 0x7F),
            (Float8E5M2, 0xFC, Float8E4M3FNUZ, 0x80),
            (Float8E4M3FN, 0x7E, Float8E4M3FNUZ, 0x80),
            (Int32, 464, Float8E4M3FN, 0x7E),
            (Int32, 465, Float8E4M3FN, 0x7F),
            (Int32, i(-465), Float8E4M3FN, 0xFF),
            (Int32, 247, Float8E4M3FNUZ, 0x7F),
            (Int32, i(-248), Float8E4M3FNUZ, 0x80),
            (Uint64, u64::MAX, Float8E5M2, 0x7C),
            (Int64, i(i64::MIN), Float8E5M2, 0xFC),
            (Int64, i(i64::MIN), Float8E5M2FNUZ, 0x80),
        ],
    );
    // Infinities of narrow sources, before and after the table was corrected.
    for (versions, fnuz) in [(19..=23, [0x80, 0x80]), (24..=28, [0x7F, 0xFF])] {
        check(
            versions,
            DEFAULT,
            &[
                (Float16, 0x7C00, Float8E4M3FNUZ, fnuz[0]),
                (BFloat16, 0xFF80, Float8E5M2FNUZ, fnuz[1]),
                (Float8E5M2, 0xFC, Float8E4M3FNUZ, fnuz[1]),
                (Float8E5M2, 0xFC, Float8E4M3FN, 0xFE),
                (Float16, 0x7C00, Float8E5M2, 0x7B),
            ],
        );
    }
}

#[test]
fn float8_to_wider_floats_is_exact() {
    check(
        ALL,
        DEFAULT,
        &[
            (Float8E4M3FN, 0x7E, Float, f(448.0)),
            (Float8E4M3FN, 0x01, Float, f(0.001953125)),
            (Float8E4M3FN, 0x80, Float, f(-0.0)),
            (Float8E4M3FNUZ, 0x7F, Float, f(240.0)),
            (Float8E4M3FNUZ, 0x01, Float, f(0.0009765625)),
            (Float8E4M3FNUZ, 0xFF, Double, d(-240.0)),
            (Float8E5M2, 0x7B, Float, f(57344.0)),
            (Float8E5M2, 0x7C, Float, f(f32::INFINITY)),
            (Float8E5M2, 0xFC, Double, d(-INF)),
            (Float8E5M2, 0x01, Double, d(p(-16))),
            (Float8E5M2FNUZ, 0x7F, Float, f(57344.0)),
            (Float8E5M2FNUZ, 0x01, Double, d(p(-17))),
            (Float8E5M2, 0x01, Float16, 0x0100),
            (Float8E5M2FNUZ, 0x01, Float16, 0x0080),
            (Float8E4M3FN, 0x01, BFloat16, 0x3B00),
        ],
    );
}
