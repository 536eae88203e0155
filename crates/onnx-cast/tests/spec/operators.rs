//! The operators: attributes of a node, rejected nodes and inputs, inference, and error texts.

use onnx_cast::DataType::{self, *};
use onnx_cast::ops::{Attribute, AttributeValue, Dim, ValueInfo};
use onnx_cast::ops::{CastErrorKind, OpError, OpErrorKind};
use onnx_cast::tensor::Strings;
use onnx_cast::{BitCast, Cast, CastLike, CastOptions, Tensor};

fn int(name: &str, value: i64) -> Attribute<'_> {
    Attribute { name, value: AttributeValue::Int(value) }
}

fn string<'a>(name: &'a str, value: &'a str) -> Attribute<'a> {
    Attribute { name, value: AttributeValue::String(value.as_bytes()) }
}

/// The bytes that a Cast node writes for one double.
fn cast_node(opset: i64, attributes: &[Attribute<'_>], x: f64) -> Vec<u8> {
    let cast = Cast::from_node(opset, attributes).unwrap_or_else(|error| panic!("{attributes:?}: {error}"));
    let input = Tensor::from_slice(vec![1], &[x]).expect("one element");
    cast.run(&input.view()).expect("a double").bytes().expect("not strings").to_vec()
}

#[test]
fn attributes_have_the_kinds_and_defaults_of_the_version() {
    assert_eq!(cast_node(1, &[string("to", "FLOAT")], 1.0), [0, 0, 0x80, 0x3F], "Cast-1 has a name");
    assert_eq!(cast_node(5, &[string("to", "INT8")], 1.0), [1], "opset 5 has Cast-1");
    assert_eq!(cast_node(6, &[int("to", 3)], 1.0), [1], "Cast-6 has a number");
    assert_eq!(cast_node(28, &[int("to", 17)], 1e6), [0x7E], "saturate is true by default");
    assert_eq!(cast_node(28, &[int("to", 17), int("saturate", 1)], 1e6), [0x7E]);
    assert_eq!(cast_node(28, &[int("to", 17), int("saturate", -2)], 1e6), [0x7E], "any number but 0 is true");
    assert_eq!(cast_node(28, &[int("saturate", 0), int("to", 17)], 1e6), [0x7F]);
    assert_eq!(cast_node(28, &[int("to", 24)], 1.25), [0x80], "round_mode is up by default");
    assert_eq!(cast_node(28, &[int("to", 24), string("round_mode", "up")], 1.25), [0x80]);
    assert_eq!(cast_node(28, &[int("to", 24), string("round_mode", "down")], 1.25), [0x7F]);
    assert_eq!(cast_node(28, &[int("to", 24), string("round_mode", "nearest")], 1.25), [0x7F]);
    let like = CastLike::from_node(25, &[int("saturate", 0), string("round_mode", "down")]).expect("CastLike-25");
    let input = Tensor::from_slice(vec![2], &[1.25f64, 1e300]).expect("two elements");
    let got = like.run(&input.view(), Float8E8M0).expect("a double");
    assert_eq!(got.bytes(), Some(&[0x7F, 0xFF][..]), "CastLike obeys both attributes");
}

#[test]
fn the_version_is_the_newest_that_the_opset_has() {
    for (opset, want) in
        [(1, 1), (5, 1), (6, 6), (8, 6), (12, 9), (18, 13), (20, 19), (22, 21), (23, 23), (27, 25), (28, 28)]
    {
        let options = CastOptions::new().opset(opset);
        assert_eq!(Cast::new(Float, &options).map(|cast| cast.version()), Ok(want), "Cast at opset {opset}");
    }
    for (opset, want) in [(15, 15), (18, 15), (19, 19), (22, 21), (28, 25)] {
        let options = CastOptions::new().opset(opset);
        assert_eq!(CastLike::new(&options).map(|like| like.version()), Ok(want), "CastLike at opset {opset}");
    }
    for opset in [26, 28] {
        assert_eq!(BitCast::new(Float, opset).map(|cast| cast.version()), Ok(26), "BitCast at opset {opset}");
    }
    for opset in [i64::MIN, -1, 0, 29, i64::MAX] {
        let options = CastOptions::new().opset(opset);
        assert!(
            matches!(Cast::new(Float, &options).as_ref().map_err(OpError::kind), Err(OpErrorKind::Opset { .. })),
            "Cast at opset {opset}"
        );
    }
    assert!(matches!(
        CastLike::new(&CastOptions::new().opset(14)).as_ref().map_err(OpError::kind),
        Err(OpErrorKind::Opset { .. })
    ));
    assert!(matches!(BitCast::new(Float, 25).as_ref().map_err(OpError::kind), Err(OpErrorKind::Opset { .. })));
}

#[test]
fn a_wrong_node_is_refused_by_name() {
    let cast =
        |opset, attributes: &[Attribute<'_>]| Cast::from_node(opset, attributes).expect_err("a wrong node").to_string();
    let next = i64::from(DataType::ALL.last().expect("types").onnx()) + 1;
    let next_text = next.to_string();
    let cases: &[(std::string::String, &[&str])] = &[
        (cast(28, &[]), &["Cast-28", "`to`"]),
        (cast(1, &[int("to", 1)]), &["Cast-1", "`to`", "STRING"]),
        (cast(6, &[string("to", "FLOAT")]), &["Cast-6", "`to`", "INT"]),
        (cast(1, &[string("to", "FLOAT33")]), &["Cast-1", "FLOAT33"]),
        (cast(28, &[int("to", 0)]), &["`to`", "0"]),
        (cast(28, &[int("to", next)]), &["`to`", &next_text]),
        (cast(28, &[int("to", -1)]), &["`to`", "-1"]),
        (cast(28, &[int("to", i64::MAX)]), &["`to`", "9223372036854775807"]),
        (cast(28, &[int("to", 14)]), &["Cast", "complex64"]),
        (cast(18, &[int("to", 17)]), &["Cast-13", "float8e4m3fn", "Cast-19"]),
        (cast(25, &[int("to", 27)]), &["Cast-25", "float6e2m3", "Cast-28"]),
        (cast(1, &[string("to", "BFLOAT16")]), &["Cast-1", "bfloat16", "Cast-13"]),
        (cast(13, &[int("to", 1), int("saturate", 1)]), &["Cast-13", "`saturate`", "Cast-19"]),
        (cast(23, &[int("to", 1), string("round_mode", "up")]), &["Cast-23", "`round_mode`", "Cast-24"]),
        (cast(28, &[int("to", 1), string("round_mode", "Up")]), &["round_mode", "Up", "nearest"]),
        (cast(28, &[int("to", 1), string("round_mode", "")]), &["round_mode"]),
        (cast(28, &[int("to", 1), int("round_mode", 1)]), &["`round_mode`", "STRING"]),
        (cast(28, &[int("to", 1), string("saturate", "1")]), &["`saturate`", "INT"]),
        (cast(28, &[int("to", 1), int("axis", 1)]), &["Cast-28", "`axis`"]),
        (cast(28, &[int("to", 1), int("to", 1)]), &["`to`", "twice"]),
        (cast(29, &[int("to", 1)]), &["29", "Cast", "28"]),
        (BitCast::from_node(26, &[]).expect_err("no to").to_string(), &["BitCast-26", "`to`"]),
        (BitCast::from_node(26, &[int("to", 8)]).expect_err("string").to_string(), &["BitCast", "string"]),
        (
            BitCast::from_node(26, &[int("to", 1), int("saturate", 1)]).expect_err("saturate").to_string(),
            &["BitCast-26", "`saturate`"],
        ),
        (BitCast::from_node(25, &[int("to", 1)]).expect_err("opset 25").to_string(), &["BitCast", "25", "26"]),
        (CastLike::from_node(25, &[int("to", 1)]).expect_err("to").to_string(), &["CastLike-25", "`to`"]),
        (
            CastLike::from_node(15, &[int("saturate", 1)]).expect_err("saturate").to_string(),
            &["CastLike-15", "`saturate`", "CastLike-19"],
        ),
        (CastLike::from_node(14, &[]).expect_err("opset 14").to_string(), &["CastLike", "14", "15"]),
    ];
    for (text, words) in cases {
        for word in *words {
            assert!(text.contains(word), "`{text}` does not name `{word}`");
        }
        assert!(!text.ends_with('.'), "`{text}` ends with a full stop");
    }
}

#[test]
fn an_input_that_the_version_lacks_is_refused() {
    let cast = Cast::new(Float, &CastOptions::new().opset(13)).expect("Cast-13");
    assert_eq!(
        cast.plan(Float8E4M3FN).expect_err("not in Cast-13").to_string(),
        "Cast-13 does not take float8e4m3fn (Cast-19 is the first that does)"
    );
    for complex in [Complex64, Complex128] {
        let error = Cast::new(Float, &CastOptions::default()).expect("Cast-28").plan(complex).expect_err("complex");
        assert!(matches!(error.kind(), OpErrorKind::Type { since: None, .. }), "{complex}: {error}");
    }
    let bit_cast = BitCast::new(Int8, 26).expect("BitCast-26");
    assert_eq!(bit_cast.plan(Int16).expect_err("16 bits"), OpErrorKind::BitWidth { from: Int16, to: Int8 }.into());
}

#[test]
fn inference_keeps_what_is_unknown() {
    let info = |data_type: DataType, shape: &Option<Vec<Dim>>| ValueInfo { data_type, shape: shape.clone() };
    let shapes = [
        None,
        Some(vec![]),
        Some(vec![Dim::Known(0)]),
        Some(vec![Dim::Known(2), Dim::Symbol("batch".to_owned()), Dim::Unknown]),
    ];
    for shape in &shapes {
        let cast = |opset| Cast::new(Float16, &CastOptions::new().opset(opset)).expect("float16");
        for opset in [1, 6, 28] {
            let got = cast(opset).infer(&info(Float, shape));
            assert_eq!(got, Ok(info(Float16, shape)), "Cast at opset {opset} of {shape:?}");
        }
        let like = CastLike::new(&CastOptions::new().opset(25)).expect("CastLike-25");
        let target = info(Float16, &Some(vec![Dim::Known(7)]));
        assert_eq!(like.infer(&info(Float, shape), &target), Ok(info(Float16, shape)), "CastLike of {shape:?}");
        let bit_cast = BitCast::new(Float16, 26).expect("float16");
        assert_eq!(bit_cast.infer(&info(Int16, shape)), Ok(info(Float16, shape)), "BitCast of {shape:?}");
        assert!(bit_cast.infer(&info(Int32, shape)).is_err(), "BitCast of {shape:?}, 32 bits");
        assert!(cast(13).infer(&info(Int4, shape)).is_err(), "Cast-13 of {shape:?}, int4");
    }
}

#[test]
fn a_string_that_is_no_number_is_named_by_index_and_quoted() {
    let long = format!("{}{}", "x".repeat(64), "y".repeat(1000));
    let strings: Strings = ["1", "2", "12abc", long.as_str()].iter().collect();
    let tensor = Tensor::strings(vec![2, 2], strings).expect("four strings");
    let error = Cast::new(Float, &CastOptions::default()).expect("float").run(&tensor.view()).expect_err("12abc");
    let text = error.to_string();
    assert!(matches!(error.kind(), CastErrorKind::Text { index: 2, to: Float, .. }), "{text}");
    assert!(text.contains("12abc") && text.contains('2') && text.contains("float"), "{text}");
    let strings: Strings = [long.as_str()].iter().collect();
    let tensor = Tensor::strings(vec![], strings).expect("one string");
    let error = Cast::new(Int8, &CastOptions::default()).expect("int8").run(&tensor.view()).expect_err("no number");
    let text = error.to_string();
    assert!(text.contains(&"x".repeat(64)) && !text.contains('y'), "{text}");
}
