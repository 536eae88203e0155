//! `types`: the table is whole, fits a terminal, and agrees with the library.

use crate::common::{done, run};
use onnx_cast::DataType;
use onnx_cast::ops::Operator;
use serde_json::Value;

#[test]
fn fits_eighty_columns_and_lists_every_type() {
    let text = done(&run("types"));
    assert!(text.lines().all(|line| line.chars().count() < 80), "{text}");
    for data_type in DataType::ALL {
        assert!(text.lines().any(|line| line.split(' ').next() == Some(data_type.name())), "{data_type}");
    }
}

#[test]
fn rows() {
    let text = done(&run("types"));
    for row in [
        "float8e4m3fn   17    8   19       19      26    19  f8e4m3fn, fp8e4m3fn, e4m3fn",
        "string          8    -    9       15       -     -  str, utf8",
        "complex128     15  128    -        -      26     -  c128",
        "float8e4m3fnuz   4+3    8                    240    2^-7   2^-10 no  0x80 no",
        "double         11+52 1023 1.7976931348623157e308 2^-1022 2^-1074 yes yes  yes",
        "float8e8m0       8+0  127           1.7014118e38  2^-127       - no  0xff no",
        "int64          -9223372036854775808  9223372036854775807",
    ] {
        assert!(text.lines().any(|line| line == row), "{row}");
    }
}

#[test]
fn json() {
    let table: Value = serde_json::from_str(&done(&run("types --json"))).expect("JSON");
    let rows = table["types"].as_array().expect("a list");
    assert_eq!(rows.len(), DataType::ALL.len());
    for (row, &data_type) in rows.iter().zip(DataType::ALL) {
        assert_eq!(row["name"], data_type.name());
        assert_eq!(row["code"], data_type.onnx());
        assert_eq!(row["bits"].as_u64(), data_type.bits().map(|bits| bits as u64));
        for (key, operator) in ["cast_since", "cast_like_since", "bit_cast_since"].iter().zip(Operator::CASTS) {
            assert_eq!(row[*key].as_i64(), operator.since(data_type), "{data_type} {key}");
        }
        assert_eq!(row["float"].is_object(), data_type.is_float(), "{data_type}");
    }
    let float8 = rows.iter().find(|row| row["name"] == "float8e4m3fn").expect("the row");
    assert_eq!(float8["float"]["largest"]["value"], "448");
    assert_eq!(float8["float"]["largest"]["bits"], "0x7e");
    assert_eq!(float8["float"]["smallest_subnormal"]["value"], "0.001953125");
    assert_eq!(float8["float"]["nan"], "0x7f");
    assert_eq!(float8["float"]["infinity"], Value::Null);
    assert_eq!(float8["float"]["negative_zero"], "0x80");
    let double = rows.iter().find(|row| row["name"] == "double").expect("the row");
    let smallest = double["float"]["smallest_subnormal"]["value"].as_str().expect("digits");
    assert_eq!(smallest.len(), 2 + 1074, "every digit of 2^-1074");
}
