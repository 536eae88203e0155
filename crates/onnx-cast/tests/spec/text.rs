//! Casts to and from strings.

use crate::runner::*;
use onnx_cast::DataType::{self, *};

#[test]
fn numbers_to_strings() {
    let cases: &[(DataType, u64, &str)] = &[
        (Float, f(1.0), "1"),
        (Float, f(-1.0), "-1"),
        (Float, f(0.0), "0"),
        (Float, f(-0.0), "-0"),
        (Float, f(0.1), "0.1"),
        (Float, 0x4049_0FDB, "3.1415927"),
        (Float, f(314.15926), "314.15927"),
        (Float, f(1e8), "100000000"),
        (Float, f(1e20), "100000000000000000000"),
        (Float, f(1e-7), "0.0000001"),
        (Float, f(f32::MAX), "340282350000000000000000000000000000000"),
        (Float, 0x3980_0000, "0.00024414062"), // 2^-12: 0.00024414063 is equally near, but odd
        (Float, 0x0000_0001, "0.000000000000000000000000000000000000000000001"),
        (Float, f(f32::INFINITY), "INF"),
        (Float, f(f32::NEG_INFINITY), "-INF"),
        (Float, 0x7FC0_0000, "NaN"),
        (Float, 0xFFC0_0001, "NaN"),
        (Double, d(1.0), "1"),
        (Double, d(0.1), "0.1"),
        (Double, d(1.0 / 3.0), "0.3333333333333333"),
        (Double, d(3.1415926459), "3.1415926459"),
        (Double, d(0.30000000000000004), "0.30000000000000004"),
        (Double, d(1e23), "100000000000000000000000"),
        (Double, d(-0.0), "-0"),
        (Double, d(-INF), "-INF"),
        (Double, d(MINUS_NAN), "NaN"),
        (Float16, 0x2E66, "0.099975586"),
        (Float16, 0x7BFF, "65504"),
        (Float16, 0x7C00, "INF"),
        (Float16, 0xFE00, "NaN"),
        (Float16, 0x0001, "0.000000059604645"),
        (BFloat16, 0x3DCD, "0.100097656"),
        (BFloat16, 0x8000, "-0"),
        (Float8E4M3FN, 0x7E, "448"),
        (Float8E4M3FN, 0xFF, "NaN"),
        (Float8E4M3FNUZ, 0x80, "NaN"),
        (Float8E4M3FNUZ, 0xFF, "-240"),
        (Float8E5M2, 0xFC, "-INF"),
        (Float8E5M2, 0x01, "0.000015258789"),
        (Float8E5M2FNUZ, 0x7F, "57344"),
        (Float8E8M0, 0x7F, "1"),
        (Float8E8M0, 0x7E, "0.5"),
        (Float8E8M0, 0xFF, "NaN"),
        (Float6E2M3, 0x3F, "-7.5"),
        (Float6E3M2, 0x01, "0.0625"),
        (Float4E2M1, 0x8, "-0"),
        (Float4E2M1, 0x3, "1.5"),
        (Int8, i(-128), "-128"),
        (Int16, i(-1), "-1"),
        (Int32, i(i32::MIN as i64), "-2147483648"),
        (Int64, i(i64::MIN), "-9223372036854775808"),
        (Uint8, 255, "255"),
        (Uint16, 65535, "65535"),
        (Uint32, u32::MAX as u64, "4294967295"),
        (Uint64, u64::MAX, "18446744073709551615"),
        (Int4, 8, "-8"),
        (Uint4, 15, "15"),
        (Int2, 2, "-2"),
        (Uint2, 3, "3"),
        (Bool, 1, "1"),
        (Bool, 0, "0"),
        (Bool, 2, "1"),
    ];
    for &(from, bits, want) in cases {
        text_of(from, bits, want);
    }
}

/// Text, target, bits.
fn check_texts(attributes: Attributes, cases: &[(&str, DataType, u64)]) {
    for &(text, to, want) in cases {
        cast_text(ALL, attributes, text, to, Outcome::Bits(want));
    }
}

#[test]
fn strings_to_floats() {
    check_texts(
        DEFAULT,
        &[
            // plain and scientific
            ("3.14", Float, 0x4048_F5C3),
            ("1000", Float, f(1000.0)),
            ("1e-5", Float, f(1e-5)),
            ("1E8", Float, f(1e8)),
            ("1e+8", Double, d(1e8)),
            ("100.5", Double, d(100.5)),
            ("-2.718", Double, 0xC005_BE76_C8B4_3958),
            ("5.", Float, f(5.0)),
            (".5", Float, f(0.5)),
            ("-.5e1", Float, f(-5.0)),
            ("+5", Float, f(5.0)),
            ("00012", Float, f(12.0)),
            ("  7.5\t", Float, f(7.5)),
            ("\n\r\x0b\x0c 7.5", Double, d(7.5)),
            ("0", Float, f(0.0)),
            ("-0", Float, f(-0.0)),
            ("-0.0e99999999999999999999", Double, d(-0.0)),
            // the reserved words
            ("+INF", Float, f(f32::INFINITY)),
            ("INF", Float, f(f32::INFINITY)),
            ("-INF", Float, f(f32::NEG_INFINITY)),
            ("inf", Double, d(INF)),
            ("+iNf", Double, d(INF)),
            ("-inf", Float16, 0xFC00),
            ("Infinity", Float, f(f32::INFINITY)),
            ("-INFINITY", BFloat16, 0xFF80),
            ("NaN", Float, 0x7FC0_0000),
            ("nan", Double, 0x7FF8 << 48),
            ("NAN", Float16, 0x7E00),
            ("+nan", BFloat16, 0x7FC0),
            ("-nan", Float, 0xFFC0_0000),
            ("-nan", Double, 0xFFF8 << 48),
            ("-NaN", Float16, 0xFE00),
            (" nan ", Float8E4M3FN, 0x7F),
            ("nan", Float8E4M3FNUZ, 0x80),
            ("-nan", Float8E5M2, 0xFE),
            ("nan", Float8E8M0, 0xFF),
            ("nan", Float6E2M3, 0x20),
            // one rounding
            ("1.00000017881393432617187499", Float, 0x3F80_0001),
            ("1.000000178813934326171875", Float, 0x3F80_0002),
            ("1.00048828126", Float16, 0x3C01),
            ("1.00048828125", Float16, 0x3C00),
            ("1.00048828125000000000000000000000000000000000000000000000000000001", Float16, 0x3C01),
            ("1.00048828124999999999999999999999999999999999999999999999999999999", Float16, 0x3C00),
            ("65519.999999999999999", Float16, 0x7BFF),
            ("65520", Float16, 0x7C00),
            ("1.00390626", BFloat16, 0x3F81),
            ("1.00390625", BFloat16, 0x3F80),
            ("1.06250000000001", Float8E4M3FN, 0x39),
            ("1.0625", Float8E4M3FN, 0x38),
            ("0.25000000000000000000000000000000000001", Float4E2M1, 0x1),
            ("0.25", Float4E2M1, 0x0),
            ("5.00000000000000000000000000000000000001", Float4E2M1, 0x7),
            ("7.24999999999999999999999999999999999999", Float6E2M3, 0x1E),
            ("1.00000000000000000000000000000000000001", Float8E8M0, 0x80),
            // subnormal, too small, too large
            ("1e-310", Double, 0x0000_1268_8B70_E62B),
            ("5e-324", Double, 1),
            ("2e-324", Double, 0),
            ("1e-45", Float, 1),
            ("7e-46", Float, 0),
            ("-1e-400", Float, f(-0.0)),
            ("1e-400", Float16, 0),
            ("-1e-400", Float8E4M3FN, 0x80),
            ("-1e-400", Float8E4M3FNUZ, 0x00),
            ("2.98023223876953125e-8", Float16, 0x0000), // 2^-25
            ("2.98023223876953125000000000000000000000000001e-8", Float16, 0x0001),
            ("1e400", Float, f(f32::INFINITY)),
            ("1e400", Double, d(INF)),
            ("-1e99999999999999999999", Double, d(-INF)),
            ("1e400", Float16, 0x7C00),
            ("1e400", Float8E4M3FN, 0x7E),
            ("1e400", Float8E4M3FNUZ, 0x7F),
            ("-1e400", Float4E2M1, 0xF),
            ("1e400", Float8E8M0, 0xFE),
            ("464", Float8E4M3FN, 0x7E),
            ("0", Float8E8M0, 0x00),
            ("-1", Float8E8M0, 0x00),
            ("1e-400", Float8E8M0, 0x00),
        ],
    );
    check_texts(
        NO_SATURATE,
        &[
            ("464", Float8E4M3FN, 0x7E),
            ("464.0000000000000000000000000000001", Float8E4M3FN, 0x7F),
            ("-1e400", Float8E4M3FN, 0xFF),
            ("1e400", Float8E5M2, 0x7C),
            ("-inf", Float8E5M2, 0xFC),
            ("inf", Float8E4M3FN, 0x7F),
            ("248", Float8E4M3FNUZ, 0x80),
            ("-inf", Float8E5M2FNUZ, 0x80),
            ("0", Float8E8M0, 0xFF),
            ("1e-400", Float8E8M0, 0xFF),
            ("1e400", Float8E8M0, 0xFF),
            ("inf", Float8E8M0, 0xFF),
        ],
    );
    cast_text(19..=23, DEFAULT, "inf", Float8E4M3FNUZ, Outcome::Bits(0x80));
    cast_text(24..=28, DEFAULT, "inf", Float8E4M3FNUZ, Outcome::Bits(0x7F));
    // A number that is too large is not an infinity.
    cast_text(19..=23, DEFAULT, "1e400", Float8E4M3FNUZ, Outcome::Bits(0x7F));
    cast_text(23..=23, DEFAULT, "nan", Float4E2M1, Outcome::Bits(0x7));
    cast_text(24..=28, DEFAULT, "nan", Float4E2M1, Outcome::Bits(0x8));
}

#[test]
fn strings_to_integers() {
    check_texts(
        DEFAULT,
        &[
            ("100.5", Int32, 100),
            ("-100.5", Int32, i(-100)),
            ("2.718", Int64, 2),
            ("1e3", Int16, 1000),
            ("+5", Int8, 5),
            ("00012", Int8, 12),
            (" 12 ", Uint8, 12),
            ("0.9999999999999999999999999", Int8, 0),
            ("-0.9", Uint8, 0),
            ("-0", Uint64, 0),
            ("127.99", Int8, 127),
            ("-128.99", Int8, i(-128)),
            ("255.99", Uint8, 255),
            ("12345e-2", Int8, 123),
            ("9223372036854775807", Int64, i64::MAX as u64),
            ("9223372036854775807.9", Int64, i64::MAX as u64),
            ("-9223372036854775808", Int64, i(i64::MIN)),
            ("18446744073709551615", Uint64, u64::MAX),
            ("1844674407370955161.5e1", Uint64, u64::MAX),
            ("4294967295", Uint32, u32::MAX as u64),
            ("0e99999999999999999999", Int8, 0),
            ("5e-99999999999999999999", Int8, 0),
            // to nearest even
            ("2.5", Int4, 2),
            ("3.5", Int4, 4),
            ("2.50000000000000000000000000000000000001", Int4, 3),
            ("-8.5", Int4, 8),
            ("-0.5", Uint4, 0),
            ("15.4", Uint4, 15),
            ("0.5", Int2, 0),
            ("1.4", Int2, 1),
            ("-2", Int2, 2),
            ("2.5", Uint2, 2),
            // to bool
            ("0", Bool, 0),
            ("-0.0", Bool, 0),
            ("0e5", Bool, 0),
            ("36", Bool, 1),
            (".5", Bool, 1),
            ("1e-400", Bool, 1),
            ("nan", Bool, 1),
            ("-inf", Bool, 1),
            ("true", Bool, 1),
            ("TRUE", Bool, 1),
            (" False ", Bool, 0),
        ],
    );
}

#[test]
fn strings_that_are_no_numbers_are_errors() {
    const TEXTS: &[&str] = &[
        "",
        " ",
        "Hello World!",
        "12abc",
        "0x10",
        "1_000",
        "1,000",
        "\u{0663}",
        "\u{FF11}",
        "\u{a0}1",
        ".",
        "+",
        "-",
        "e5",
        ".e5",
        "1e",
        "1e+",
        "1e5.0",
        "1.2.3",
        "1 2",
        "--1",
        "+-1",
        "- 1",
        "infi",
        "infinit",
        "nano",
        "nan(1)",
        "1f",
        "1d",
        "1\0",
        "\u{221e}",
    ];
    for &to in DataType::NUMERIC {
        for &text in TEXTS {
            cast_text(ALL, DEFAULT, text, to, Outcome::Error);
        }
        if to != Bool {
            cast_text(ALL, DEFAULT, "true", to, Outcome::Error);
        }
    }
    let integers = [Int2, Int4, Int8, Int16, Int32, Int64, Uint2, Uint4, Uint8, Uint16, Uint32, Uint64];
    for to in integers {
        for text in ["inf", "-INF", "nan", "Infinity", "1e20", "-1e20", "1e99999999999999999999"] {
            cast_text(ALL, DEFAULT, text, to, Outcome::Error);
        }
    }
    for (text, to) in [
        ("128", Int8),
        ("-129", Int8),
        ("256", Uint8),
        ("-1", Uint8),
        ("300", Int8),
        ("32768", Int16),
        ("65536", Uint16),
        ("2147483648", Int32),
        ("4294967296", Uint32),
        ("9223372036854775808", Int64),
        ("-9223372036854775809", Int64),
        ("18446744073709551616", Uint64),
        ("-1", Uint64),
        ("7.5", Int4), // rounds to 8, out of range
        ("-8.6", Int4),
        ("15.5", Uint4),
        ("-0.6", Uint4),
        ("1.5", Int2),
        ("-2.6", Int2),
        ("3.5", Uint2),
    ] {
        cast_text(ALL, DEFAULT, text, to, Outcome::Error);
    }
}
