//! Casts to and from integers and bool, and casts to the same type.

use crate::runner::*;
use onnx_cast::DataType::{self, *};

#[test]
fn float_to_integers_truncates_and_saturates() {
    check(
        ALL,
        DEFAULT,
        &[
            (Float, f(1.9), Int8, 1),
            (Float, f(-1.9), Int8, i(-1)),
            (Float, f(-0.9), Uint8, 0),
            (Float, f(127.9), Int8, 127),
            (Float, f(128.0), Int8, 127),
            (Float, f(-128.9), Int8, i(-128)),
            (Float, f(-129.0), Int8, i(-128)),
            (Float, f(255.9), Uint8, 255),
            (Float, f(256.0), Uint8, 255),
            (Float, f(-1.0), Uint8, 0),
            (Float, f(300.0), Int16, 300),
            (Float, f(32768.0), Int16, 32767),
            (Float, f(-1e9), Int16, i(-32768)),
            (Float, f(65535.9), Uint16, 65535),
            (Float, f(65536.0), Uint16, 65535),
            (Float, f(2147483648.0), Int32, i32::MAX as u64),
            (Float, f(2147483520.0), Int32, 2147483520),
            (Float, f(-2147483648.0), Int32, i(i32::MIN as i64)),
            (Float, f(-3e9), Int32, i(i32::MIN as i64)),
            (Float, f(3e9), Uint32, 3_000_000_000),
            (Float, f(4294967296.0), Uint32, u32::MAX as u64),
            (Float, f(9223372036854775808.0), Int64, i64::MAX as u64),
            (Float, f(-9223372036854775808.0), Int64, i(i64::MIN)),
            (Float, f(1e30), Uint64, u64::MAX),
            (Double, d(2147483647.9), Int32, i32::MAX as u64),
            (Double, d(4294967295.9), Uint32, u32::MAX as u64),
            (Double, d(9223372036854774784.0), Int64, 9223372036854774784),
            (Double, d(18446744073709549568.0), Uint64, 18446744073709549568),
            (Double, d(18446744073709551616.0), Uint64, u64::MAX),
            (Double, d(-5e-324), Int64, 0),
            (Double, d(0.9999999999999999), Uint64, 0),
            (Float16, 0x7BFF, Int16, 32767),
            (Float16, 0x7BFF, Uint16, 65504),
            (Float16, 0xBC00, Uint8, 0),
            (BFloat16, 0x7F7F, Int64, i64::MAX as u64),
            (Float8E4M3FN, 0x7E, Uint8, 255),
            (Float8E4M3FN, 0x7E, Int16, 448),
            (Float8E4M3FN, 0x81, Int8, 0),
            (Float8E5M2FNUZ, 0x80, Int8, 0),
            (Float6E3M2, 0x3F, Int8, i(-28)),
            (Float6E3M2, 0x3F, Uint8, 0),
            (Float4E2M1, 0xB, Int32, i(-1)),
        ],
    );
    for to in [Int8, Int16, Int32, Int64, Uint8, Uint16, Uint32, Uint64] {
        let bits = to.bits().expect("a number");
        let signed = to.name().starts_with("int");
        let largest = if signed { (1u64 << (bits - 1)) - 1 } else { u64::MAX >> (64 - bits) };
        let smallest = if signed { i(-1 << (bits - 1)) } else { 0 };
        check(
            ALL,
            DEFAULT,
            &[
                (Float, 0x7FC0_0000, to, 0),
                (Float, 0xFFC0_0000, to, 0),
                (Float, 0x7F80_0001, to, 0),
                (Double, d(NAN), to, 0),
                (Float16, 0xFE00, to, 0),
                (BFloat16, 0x7F81, to, 0),
                (Float8E4M3FN, 0x7F, to, 0),
                (Float8E4M3FNUZ, 0x80, to, 0),
                (Float8E5M2, 0xFD, to, 0),
                (Float, f(f32::INFINITY), to, largest),
                (Float, f(f32::NEG_INFINITY), to, smallest),
                (Double, d(INF), to, largest),
                (Double, d(-1e300), to, smallest),
                (Float16, 0x7C00, to, largest),
                (BFloat16, 0xFF80, to, smallest),
                (Float8E5M2, 0x7C, to, largest),
                (Float8E5M2, 0xFC, to, smallest),
                (Float, f(-0.0), to, 0),
            ],
        );
    }
}

#[test]
fn float_to_narrow_integers_rounds_and_keeps_the_low_bits() {
    // Value; int4, uint4, int2, uint2.
    const ROWS: &[(f64, [u64; 4])] = &[
        (0.5, [0, 0, 0, 0]),
        (1.5, [2, 2, 2, 2]),
        (2.5, [2, 2, 2, 2]),
        (3.5, [4, 4, 0, 0]),
        (-0.5, [0, 0, 0, 0]),
        (-1.5, [14, 14, 2, 2]),
        (-2.5, [14, 14, 2, 2]),
        (-3.5, [12, 12, 0, 0]),
        (0.75, [1, 1, 1, 1]),
        (2.25, [2, 2, 2, 2]),
        (7.0, [7, 7, 3, 3]),
        (8.0, [8, 8, 0, 0]),
        (-9.0, [7, 7, 3, 3]),
        (15.0, [15, 15, 3, 3]),
        (16.0, [0, 0, 0, 0]),
        (100.0, [4, 4, 0, 0]),
        (-8.0, [8, 8, 0, 0]),
        (-1.0, [15, 15, 3, 3]),
        (8388607.5, [0, 0, 0, 0]),
        (16777215.0, [15, 15, 3, 3]),
        (2147483649.0, [1, 1, 1, 1]),
        (9007199254740991.0, [15, 15, 3, 3]),
        (-9007199254740991.0, [1, 1, 1, 1]),
        (2251799813685249.5, [2, 2, 2, 2]),
        (1e20, [0, 0, 0, 0]),
        (-1e300, [0, 0, 0, 0]),
        (5e-324, [0, 0, 0, 0]),
        (-0.0, [0, 0, 0, 0]),
        (NAN, [0, 0, 0, 0]),
        (MINUS_NAN, [0, 0, 0, 0]),
        (INF, [0, 0, 0, 0]),
        (-INF, [0, 0, 0, 0]),
    ];
    for &(x, wants) in ROWS {
        for (to, want) in [Int4, Uint4, Int2, Uint2].into_iter().zip(wants) {
            cast_bits(ALL, DEFAULT, Double, d(x), to, want);
            if let Some(narrow) = exact_float(x) {
                cast_bits(ALL, DEFAULT, Float, narrow, to, want);
            }
        }
    }
    check(
        ALL,
        DEFAULT,
        &[
            (Float16, 0x3E00, Int4, 2),   // 1.5
            (Float16, 0x7BFF, Uint4, 0),  // 65504
            (Float16, 0x67FF, Uint4, 15), // 2047
            (Float16, 0xFC00, Int4, 0),
            (BFloat16, 0x4020, Int4, 2),    // 2.5
            (BFloat16, 0xC020, Uint2, 2),   // -2.5
            (Float8E4M3FN, 0x7E, Uint4, 0), // 448
            (Float8E4M3FN, 0x7F, Uint4, 0),
            (Float8E5M2, 0x42, Int4, 3),   // 3
            (Float8E5M2, 0x41, Int4, 2),   // 2.5
            (Float4E2M1, 0xF, Int4, 10),   // -6
            (Float4E2M1, 0x3, Int2, 2),    // 1.5
            (Float6E2M3, 0x1F, Int4, 8),   // 7.5
            (Float6E3M2, 0x1F, Uint4, 12), // 28
            (Float8E8M0, 0x82, Uint4, 8),
            (Float8E8M0, 0x7E, Uint4, 0), // 0.5
            (Float8E8M0, 0xFF, Uint4, 0),
        ],
    );
}

#[test]
fn integers_wrap_among_themselves() {
    check(
        ALL,
        DEFAULT,
        &[
            (Int16, 200, Int8, i(-56)),
            (Int32, 65536 + 7, Uint16, 7),
            (Int64, i(-1), Uint8, 255),
            (Int64, i(-1), Uint64, u64::MAX),
            (Uint64, u64::MAX, Int8, i(-1)),
            (Uint64, 1 << 63, Int64, i(i64::MIN)),
            (Uint64, 1 << 63, Int32, 0),
            (Uint8, 200, Int8, i(-56)),
            (Int8, i(-56), Uint8, 200),
            (Int8, i(-1), Int64, i(-1)),
            (Int8, i(-1), Uint32, u32::MAX as u64),
            (Uint32, u32::MAX as u64, Int64, u32::MAX as u64),
            (Int32, 8, Int4, 8),
            (Int32, i(-9), Int4, 7),
            (Int64, 100, Uint4, 4),
            (Int4, 8, Int8, i(-8)),
            (Int4, 15, Uint16, 0xFFFF),
            (Int4, 15, Uint4, 15),
            (Uint4, 15, Int8, 15),
            (Uint4, 8, Int4, 8),
            (Int4, 9, Int2, 1),
            (Int2, 2, Int8, i(-2)),
            (Int2, 3, Int64, i(-1)),
            (Uint2, 3, Int64, 3),
            (Uint2, 3, Int2, 3),
            (Int2, 2, Uint4, 14),
            (Uint8, 0xFE, Uint2, 2),
        ],
    );
}

#[test]
fn integers_to_floats_round_once() {
    check(
        ALL,
        DEFAULT,
        &[
            (Int32, 1077936129, BFloat16, 0x4E81),
            (Int32, 1077936128, BFloat16, 0x4E80),
            (Int64, (1 << 40) + (1 << 32) + 1, BFloat16, 0x5381),
            (Uint64, (1 << 63) + (1 << 39) + 1, Float, 0x5F00_0001),
            (Uint64, (1 << 63) + (1 << 39), Float, 0x5F00_0000),
            (Uint64, (1 << 63) + (1 << 55) + 1, BFloat16, 0x5F01), // a double would lose the last bit
            (Int64, i(-(1 << 62) - (1 << 54) - 1), BFloat16, 0xDE81),
            (Int32, 16777217, Float, f(16777216.0)),
            (Int32, 16777219, Float, f(16777220.0)),
            (Uint32, u32::MAX as u64, Float, f(4294967296.0)),
            (Int64, i64::MAX as u64, Float, 0x5F00_0000),
            (Int64, i(i64::MIN), Float, 0xDF00_0000),
            (Int64, (1 << 53) + 1, Double, d(9007199254740992.0)),
            (Int64, (1 << 53) + 3, Double, d(9007199254740996.0)),
            (Uint64, u64::MAX, Double, d(18446744073709551616.0)),
            (Uint64, 65519, Float16, 0x7BFF),
            (Uint64, 65520, Float16, 0x7C00),
            (Int64, i(-65520), Float16, 0xFC00),
            (Int64, i(i64::MIN), Float16, 0xFC00),
            (Uint64, u64::MAX, BFloat16, 0x5F80),
            (Int32, 2049, Float16, 0x6800),
            (Int32, 2051, Float16, 0x6802),
            (Int16, i(-32768), Float16, 0xF800),
            (Uint16, 65535, Float16, 0x7C00),
            (Int64, (1 << 60) + (1 << 56), Float8E5M2, 0x7B),
            (Int32, 17, Float8E4M3FN, 0x58), // between 16 and 18
            (Int32, 19, Float8E4M3FN, 0x5A), // between 18 and 20
            (Int4, 8, Float, f(-8.0)),
            (Int4, 15, Float16, 0xBC00),
            (Uint4, 15, BFloat16, 0x4170),
            (Int2, 2, Float, f(-2.0)),
            (Uint2, 3, Double, d(3.0)),
            (Int8, 0, Float, 0),
            (Int8, i(-1), Float4E2M1, 0xA),
        ],
    );
}

#[test]
fn to_bool_only_zero_is_false() {
    check(
        ALL,
        DEFAULT,
        &[
            (Float, f(0.0), Bool, 0),
            (Float, f(-0.0), Bool, 0),
            (Float, 0x0000_0001, Bool, 1),
            (Float, 0x8000_0001, Bool, 1),
            (Float, f(0.5), Bool, 1),
            (Float, 0x7FC0_0000, Bool, 1),
            (Float, f(f32::NEG_INFINITY), Bool, 1),
            (Double, d(5e-324), Bool, 1),
            (Double, d(-0.0), Bool, 0),
            (Float16, 0x0001, Bool, 1),
            (Float16, 0x8000, Bool, 0),
            (BFloat16, 0x8000, Bool, 0),
            (BFloat16, 0x7FC0, Bool, 1),
            (Float8E4M3FN, 0x80, Bool, 0),
            (Float8E5M2, 0x80, Bool, 0),
            (Float8E4M3FNUZ, 0x80, Bool, 1), // NaN
            (Float8E5M2FNUZ, 0x80, Bool, 1),
            (Float8E4M3FN, 0x01, Bool, 1),
            (Float8E8M0, 0x00, Bool, 1),
            (Float4E2M1, 0x8, Bool, 0),
            (Float4E2M1, 0x1, Bool, 1),
            (Float6E2M3, 0x20, Bool, 0),
            (Float6E3M2, 0x21, Bool, 1),
            (Int32, 0, Bool, 0),
            (Int32, 36, Bool, 1),
            (Int32, 256, Bool, 1),
            (Int64, i(i64::MIN), Bool, 1),
            (Uint64, 1 << 32, Bool, 1),
            (Int4, 8, Bool, 1),
            (Uint2, 2, Bool, 1),
            (Uint2, 0, Bool, 0),
            // "bool: no change", except that true is stored as 1
            (Bool, 0, Bool, 0),
            (Bool, 1, Bool, 1),
            (Bool, 2, Bool, 1),
            (Bool, 0x80, Bool, 1),
        ],
    );
}

#[test]
fn from_bool_is_zero_or_one() {
    const ONES: &[(DataType, u64)] = &[
        (Float, 0x3F80_0000),
        (Double, 0x3FF0 << 48),
        (Float16, 0x3C00),
        (BFloat16, 0x3F80),
        (Float8E4M3FN, 0x38),
        (Float8E4M3FNUZ, 0x40),
        (Float8E5M2, 0x3C),
        (Float8E5M2FNUZ, 0x40),
        (Float8E8M0, 0x7F),
        (Float6E2M3, 0x08),
        (Float6E3M2, 0x0C),
        (Float4E2M1, 0x2),
        (Int2, 1),
        (Int4, 1),
        (Int8, 1),
        (Int16, 1),
        (Int32, 1),
        (Int64, 1),
        (Uint2, 1),
        (Uint4, 1),
        (Uint8, 1),
        (Uint16, 1),
        (Uint32, 1),
        (Uint64, 1),
    ];
    for &(to, one) in ONES {
        check(ALL, DEFAULT, &[(Bool, 1, to, one), (Bool, 0, to, 0), (Bool, 2, to, one), (Bool, 0xFF, to, one)]);
    }
}

#[test]
fn same_type_keeps_the_bits() {
    check(
        ALL,
        DEFAULT,
        &[
            (Float, 0x7F80_0001, Float, 0x7F80_0001), // even a signalling NaN
            (Double, 0xFFF0_0000_0000_0001, Double, 0xFFF0_0000_0000_0001),
            (Float16, 0x7C01, Float16, 0x7C01),
            (BFloat16, 0xFF81, BFloat16, 0xFF81),
            (Float8E4M3FN, 0xFF, Float8E4M3FN, 0xFF),
            (Float8E5M2, 0x7D, Float8E5M2, 0x7D),
            (Float8E5M2, 0x7C, Float8E5M2, 0x7C), // an infinity is not saturated
            (Float8E8M0, 0x00, Float8E8M0, 0x00),
            (Float6E2M3, 0x3F, Float6E2M3, 0x3F),
            (Float6E3M2, 0x20, Float6E3M2, 0x20),
            (Float4E2M1, 0x8, Float4E2M1, 0x8),
            (Int2, 2, Int2, 2),
            (Uint4, 15, Uint4, 15),
            (Int64, i(i64::MIN), Int64, i(i64::MIN)),
        ],
    );
}
