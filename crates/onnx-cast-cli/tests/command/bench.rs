//! `bench`: what it prints and refuses. How fast anything is, no test says.

use crate::common::{done, refused, run};
use onnx_cast::DataType;
use onnx_cast::backend::{self, Backend};
use onnx_cast::ops::Operator;
use onnx_cast::ops::Role;
use serde_json::Value;

#[test]
fn json() {
    let pairs = "float:float8e4m3fn,int4:double,bool:uint2,Float16:F32,double:double";
    let printed = done(&run(&format!("bench --pairs {pairs} --elements 100 --json")));
    let value: Value = serde_json::from_str(&printed).expect("JSON");
    let keys = |value: &Value| value.as_object().expect("an object").keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&value), ["geometric_mean", "last_cache_bytes", "pairs"]);
    assert!(value["geometric_mean"].as_f64().expect("a number") > 0.0);
    let rows = value["pairs"].as_array().expect("a list");
    let names =
        [("float", "float8e4m3fn"), ("int4", "double"), ("bool", "uint2"), ("float16", "float"), ("double", "double")];
    assert_eq!(rows.len(), names.len());
    for (row, (from, to)) in rows.iter().zip(names) {
        let fields = [
            "algorithm",
            "elements",
            "fits_last_cache",
            "from",
            "gb_per_s",
            "isa",
            "memcpy_gb_per_s",
            "ratio",
            "threads",
            "to",
        ];
        assert_eq!(keys(row), fields);
        assert_eq!((&row["from"], &row["to"]), (&Value::from(from), &Value::from(to)));
        assert_eq!((&row["elements"], &row["threads"]), (&Value::from(100), &Value::from(1)));
        assert_eq!(row["isa"], Backend::best().name());
        let algorithm = row["algorithm"].as_str().expect("a text");
        assert_eq!(algorithm == "staged by int8", from == "int4", "{row}");
        assert_eq!(algorithm == "copy", from == to, "{row}");
        for speed in ["gb_per_s", "memcpy_gb_per_s", "ratio"] {
            assert!(row[speed].as_f64().expect("a number") > 0.0, "{row}");
        }
    }
}

#[test]
fn a_table_with_the_mean() {
    let printed = done(&run("bench --pairs float:float16,uint2:int2 --elements 1 --isa portable"));
    let lines: Vec<&str> = printed.lines().collect();
    // The line about the last cache is left out where the system does not tell its size.
    assert!(matches!(lines.len(), 5 | 6), "{printed}");
    assert!(lines[0].starts_with("1 element, 1 thread, portable"), "{printed}");
    assert!(lines[2].starts_with("float           float16 "), "{printed}");
    assert!(lines[3].starts_with("uint2           int2 ") && lines[3].ends_with("  copy"), "{printed}");
    assert!(lines[4].starts_with("2 pairs: geometric mean "), "{printed}");
    let fitting =
        lines.get(5).is_none_or(|line| line.starts_with("fit the last cache") && line.ends_with("every pair"));
    assert!(fitting, "{printed}");
}

#[test]
fn scaled_casts() {
    let line = "bench --op quantize --pairs float:int8,bfloat16:float4e2m1 --elements 8200";
    let value: Value = serde_json::from_str(&done(&run(&format!("{line} --json")))).expect("JSON");
    let rows = value["pairs"].as_array().expect("a list");
    let granularities: Vec<&str> = rows.iter().filter_map(|row| row["granularity"].as_str()).collect();
    assert_eq!(granularities, ["tensor", "row", "32", "tensor", "row", "32"]);
    for row in rows {
        assert_eq!((&row["op"], &row["elements"]), (&Value::from("quantize"), &Value::from(8200)));
        assert!(row["ratio"].as_f64().expect("a number") > 0.0, "{row}");
    }
    let printed = done(&run("bench --op dequantize --pairs int4:float16 --elements 64 --granularity 32,tensor"));
    let lines: Vec<&str> = printed.lines().collect();
    assert!(lines[2].starts_with("int4/32               float16    "), "{printed}");
    assert!(lines[3].starts_with("int4/tensor           float16    "), "{printed}");
    assert!(lines[4].starts_with("2 pairs: geometric mean ") && lines[4].contains("(int4/"), "{printed}");
    // The pair itself says what has a scale, and so what is done.
    let line = "bench --pairs float:int8/row,int4/32:float16,float:int8 --elements 64 --json";
    let value: Value = serde_json::from_str(&done(&run(line))).expect("JSON");
    let op = |row: usize| value["pairs"][row]["op"].as_str().map(str::to_owned);
    assert_eq!([op(0), op(1), op(2)], [Some("quantize".to_owned()), Some("dequantize".to_owned()), None]);
    assert_eq!((&value["pairs"][0]["granularity"], &value["pairs"][1]["granularity"]), (&"row".into(), &"32".into()));
    for (op, operator) in [("quantize", Operator::QuantizeLinear), ("dequantize", Operator::DequantizeLinear)] {
        let count = |role| DataType::ALL.iter().filter(|ty| operator.since_as(role, **ty).is_some()).count();
        let rows = count(Role::Values) * count(Role::Quantized);
        let printed = done(&run(&format!("bench --op {op} --pairs all --elements 99 --granularity 32")));
        assert!(printed.contains(&format!("{rows} pairs: ")), "{printed}");
    }
}

#[test]
fn the_usual_pairs_are_the_default() {
    let printed = done(&run("bench --elements 64"));
    assert!(printed.lines().count() > 20 && printed.contains("float8e8m0"), "{printed}");
    for op in ["quantize", "dequantize"] {
        let printed = done(&run(&format!("bench --op {op} --elements 64 --granularity tensor")));
        assert!(printed.lines().count() > 10 && printed.contains("float4e2m1"), "{printed}");
    }
}

#[test]
fn every_backend_is_listed_and_runs() {
    let names: Vec<&str> = backend::available().map(|backend| backend.name()).collect();
    for line in ["bench --isa", "bench --isa list"] {
        let printed = done(&run(line));
        let listed: Vec<&str> = printed.lines().filter_map(|line| line.split(' ').next()).collect();
        assert_eq!(listed, names);
    }
    let value: Value = serde_json::from_str(&done(&run("bench --isa list --json"))).expect("JSON");
    assert_eq!(value["isa"], Value::from(names.clone()));
    for name in names {
        let printed = done(&run(&format!("bench --pairs float:bfloat16 --elements 77 --isa {name} --json")));
        let value: Value = serde_json::from_str(&printed).expect("JSON");
        assert_eq!(value["pairs"][0]["isa"], name);
    }
}

#[test]
fn mistakes() {
    let unknown = refused(&run("bench --isa abacus"));
    assert!(unknown.contains("abacus") && unknown.contains("portable"), "{unknown}");
    for (line, word) in [
        ("bench --pairs float", "`float` is not a pair (want FROM:TO)"),
        ("bench --pairs float:string", "string is not a numeric type"),
        ("bench --pairs float:floaty", "`floaty` is not an element type"),
        ("bench --op quantize --pairs float:float16", "QuantizeLinear-28 does not take float16 as quantized elements"),
        ("bench --op dequantize --pairs int64:float", "DequantizeLinear-28 does not take int64 as quantized elements"),
        ("bench --op divide", "invalid value 'divide' for '--op <OP>'"),
        ("bench --granularity block", "`block` has no scales (want tensor, row, a block as 32 or 128x128)"),
        ("bench --op quantize --granularity 8x8", "QuantizeLinear has no scales by 8x8 (want tensor, row, or a block"),
        ("bench --granularity row", "--granularity needs --op quantize or --op dequantize"),
        ("bench --granularity row --pairs float:int8/row", "--granularity needs --op quantize or --op dequantize"),
        ("bench --op cast --pairs float:int8/row", "float:int8/row: it is for --op quantize"),
        ("bench --pairs float/row:int8/row", "has scales on both sides"),
        ("bench --isa --elements 3", "--isa without a name lists instruction sets"),
        ("bench --elements 0", "want 1 or more"),
        ("bench --threads 0", "want 1 or more"),
        ("bench --elements many", "invalid digit"),
        (&format!("bench --elements {}", usize::MAX), "too many"),
    ] {
        let said = refused(&run(line));
        assert!(said.contains(word), "{line}: {said}");
    }
}
