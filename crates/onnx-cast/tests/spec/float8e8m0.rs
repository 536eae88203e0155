//! float8e8m0: ONNX's table, and the cases that it leaves open, for every mode and both values of `saturate`.

use crate::runner::*;
use onnx_cast::DataType::*;

#[test]
fn float8e8m0_table() {
    const MODES: [Option<&str>; 4] = [Some("up"), Some("down"), Some("nearest"), None];
    // Value; up, down, nearest with saturate=1; the same with saturate=0.
    type Row = (f64, [u64; 3], [u64; 3]);
    const ROWS: &[Row] = &[
        (0.0, [0x00; 3], [0xFF; 3]),
        (-0.0, [0x00; 3], [0xFF; 3]),
        (NAN, [0xFF; 3], [0xFF; 3]),
        (MINUS_NAN, [0xFF; 3], [0xFF; 3]),
        (INF, [0xFE; 3], [0xFF; 3]),
        (-INF, [0x00; 3], [0xFF; 3]),
        (-1.0, [0x00; 3], [0xFF; 3]),
        (-1e300, [0x00; 3], [0xFF; 3]),
        // Powers of two are exact, from the smallest to the largest.
        (p(-127), [0x00; 3], [0x00; 3]),
        (p(-126), [0x01; 3], [0x01; 3]),
        (0.5, [0x7E; 3], [0x7E; 3]),
        (1.0, [0x7F; 3], [0x7F; 3]),
        (2.0, [0x80; 3], [0x80; 3]),
        (p(127), [0xFE; 3], [0xFE; 3]),
        // Between two powers.
        (1.0 + p(-52), [0x80, 0x7F, 0x7F], [0x80, 0x7F, 0x7F]),
        (1.25, [0x80, 0x7F, 0x7F], [0x80, 0x7F, 0x7F]),
        (1.4999999999999998, [0x80, 0x7F, 0x7F], [0x80, 0x7F, 0x7F]),
        (1.5, [0x80, 0x7F, 0x80], [0x80, 0x7F, 0x80]),
        (1.75, [0x80, 0x7F, 0x80], [0x80, 0x7F, 0x80]),
        (2.0 - p(-52), [0x80, 0x7F, 0x80], [0x80, 0x7F, 0x80]),
        (3.0, [0x81, 0x80, 0x81], [0x81, 0x80, 0x81]),
        (1.1 * p(-127), [0x01, 0x00, 0x00], [0x01, 0x00, 0x00]),
        (1.5 * p(-127), [0x01, 0x00, 0x01], [0x01, 0x00, 0x01]),
        (p(127) - p(74), [0xFE, 0xFD, 0xFE], [0xFE, 0xFD, 0xFE]),
        // x < E8M0_MIN
        (p(-127) - p(-180), [0x00; 3], [0xFF; 3]),
        (p(-128), [0x00; 3], [0xFF; 3]),
        (p(-149), [0x00; 3], [0xFF; 3]),
        (5e-324, [0x00; 3], [0xFF; 3]),
        // x > E8M0_MAX
        (p(127) + p(75), [0xFE; 3], [0xFF; 3]),
        (1.5 * p(127), [0xFE; 3], [0xFF; 3]),
        (p(128), [0xFE; 3], [0xFF; 3]),
        (1e300, [0xFE; 3], [0xFF; 3]),
    ];
    for &(x, saturated, not) in ROWS {
        for (column, round_mode) in MODES.into_iter().enumerate() {
            let column = column % 3; // the default mode is "up"
            for (saturate, wants) in [(None, saturated), (Some(1), saturated), (Some(0), not)] {
                let attributes = Attributes { saturate, round_mode };
                cast_bits(ALL, attributes, Double, d(x), Float8E8M0, wants[column]);
                if let Some(narrow) = exact_float(x) {
                    cast_bits(ALL, attributes, Float, narrow, Float8E8M0, wants[column]);
                }
            }
        }
    }
}

#[test]
fn float8e8m0_from_other_sources() {
    let with = |saturate, round_mode, cases: &[Case]| {
        check(ALL, Attributes { saturate: Some(saturate), round_mode: Some(round_mode) }, cases);
    };
    for round_mode in ["up", "down", "nearest"] {
        with(
            1,
            round_mode,
            &[
                (Bool, 0, Float8E8M0, 0x00),
                (Bool, 1, Float8E8M0, 0x7F),
                (Int32, 0, Float8E8M0, 0x00),
                (Int8, i(-1), Float8E8M0, 0x00),
                (Int64, i(i64::MIN), Float8E8M0, 0x00),
                (Int64, 1 << 62, Float8E8M0, 0xBD),
                (Uint64, 1 << 63, Float8E8M0, 0xBE),
                (Float16, 0x0001, Float8E8M0, 0x67), // 2^-24
                (Float16, 0x7C00, Float8E8M0, 0xFE),
                (Float16, 0x7E00, Float8E8M0, 0xFF),
                (Float16, 0x8000, Float8E8M0, 0x00),
                (BFloat16, 0x0040, Float8E8M0, 0x00), // 2^-127
                (BFloat16, 0x0001, Float8E8M0, 0x00), // 2^-133
                (Float8E5M2, 0x01, Float8E8M0, 0x6F),
                (Float4E2M1, 0x1, Float8E8M0, 0x7E),
                (Float4E2M1, 0x9, Float8E8M0, 0x00),
            ],
        );
        with(
            0,
            round_mode,
            &[
                (Bool, 0, Float8E8M0, 0xFF),
                (Bool, 1, Float8E8M0, 0x7F),
                (Int32, 0, Float8E8M0, 0xFF),
                (Int8, i(-1), Float8E8M0, 0xFF),
                (Float16, 0x7C00, Float8E8M0, 0xFF),
                (Float16, 0x8000, Float8E8M0, 0xFF),
                (BFloat16, 0x0040, Float8E8M0, 0x00),
                (BFloat16, 0x0001, Float8E8M0, 0xFF),
                (Float4E2M1, 0x0, Float8E8M0, 0xFF),
            ],
        );
    }
    with(
        1,
        "up",
        &[
            (Float, 0x0046_6666, Float8E8M0, 0x01), // 1.1 * 2^-127
            (Int64, (1 << 24) + 1, Float8E8M0, 0x98),
            (Uint64, (1 << 63) + 1, Float8E8M0, 0xBF),
            (Uint64, u64::MAX, Float8E8M0, 0xBF),
            (Int64, i64::MAX as u64, Float8E8M0, 0xBE),
            (Uint4, 9, Float8E8M0, 0x83),
        ],
    );
    with(
        1,
        "down",
        &[
            (Float, 0x0046_6666, Float8E8M0, 0x00),
            (Int64, (1 << 31) - 1, Float8E8M0, 0x9D),
            (Uint64, u64::MAX, Float8E8M0, 0xBE),
            (Int64, i64::MAX as u64, Float8E8M0, 0xBD),
            (Uint4, 15, Float8E8M0, 0x82),
        ],
    );
    with(
        1,
        "nearest",
        &[
            (Float, 0x0046_6666, Float8E8M0, 0x00),
            (Int64, 3, Float8E8M0, 0x81), // a tie goes up
            (Int64, (3 << 61) - 1, Float8E8M0, 0xBD),
            (Int64, 3 << 61, Float8E8M0, 0xBE),
            (Uint64, (3 << 62) - 1, Float8E8M0, 0xBE),
            (Uint64, 3 << 62, Float8E8M0, 0xBF),
        ],
    );
}

#[test]
fn float8e8m0_to_other_types() {
    check(
        ALL,
        DEFAULT,
        &[
            (Float8E8M0, 0x00, Float, 0x0040_0000), // 2^-127, a subnormal
            (Float8E8M0, 0x01, Float, 0x0080_0000),
            (Float8E8M0, 0x7F, Float, f(1.0)),
            (Float8E8M0, 0xFE, Float, 0x7F00_0000),
            (Float8E8M0, 0xFF, Float, 0x7FC0_0000),
            (Float8E8M0, 0x00, Double, d(p(-127))),
            (Float8E8M0, 0xFF, Double, 0x7FF8 << 48),
            (Float8E8M0, 0x00, BFloat16, 0x0040),
            (Float8E8M0, 0xFF, BFloat16, 0x7FC0),
            (Float8E8M0, 0x00, Float16, 0x0000),
            (Float8E8M0, 0x67, Float16, 0x0001), // 2^-24
            (Float8E8M0, 0x66, Float16, 0x0000), // 2^-25, a tie with zero
            (Float8E8M0, 0x8E, Float16, 0x7800),
            (Float8E8M0, 0x8F, Float16, 0x7C00),
            (Float8E8M0, 0xFE, Float8E4M3FN, 0x7E),
            (Float8E8M0, 0xFF, Float8E4M3FN, 0x7F),
            (Float8E8M0, 0x00, Float4E2M1, 0x0),
            (Float8E8M0, 0xFF, Float4E2M1, 0x8),
            (Float8E8M0, 0xFE, Int32, i32::MAX as u64),
            (Float8E8M0, 0xFF, Int32, 0),
            (Float8E8M0, 0xBE, Uint64, 1 << 63),
            (Float8E8M0, 0x7E, Uint8, 0),
            (Float8E8M0, 0x00, Bool, 1),
            (Float8E8M0, 0xFF, Bool, 1),
        ],
    );
}
