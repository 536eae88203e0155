//! Are integers compared and shown as integers, those of 64 bits too, which no double holds?

use crate::common::{done, npy, stdout};
use crate::files::Folder;
use onnx_cast::{DataType, Tensor};
use onnx_cast_file::safetensors;
use serde_json::{Value, json};

const LARGE: i64 = 1 << 53;

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn integers_beyond_doubles_differ() {
    let folder = Folder::new();
    folder.write("a.npy", npy(&Tensor::from_slice(vec![3], &[1, LARGE + 1, i64::MIN]).expect("a tensor")));
    folder.write("b.npy", npy(&Tensor::from_slice(vec![3], &[1, LARGE, i64::MIN]).expect("a tensor")));
    for options in ["", " --tolerance 0", " --tolerance 0.5", " --values"] {
        let output = folder.run(&format!("diff a.npy b.npy{options}"));
        assert_eq!(output.status.code(), Some(1), "{options}");
        assert_eq!(stdout(&output), "(no name): 1 of 3 elements differ, the first is 1, by at most 1\n", "{options}");
    }
    for options in [" --tolerance 1", " --values --tolerance 1"] {
        assert_eq!(folder.run(&format!("diff a.npy b.npy{options}")).status.code(), Some(0), "{options}");
    }
    let output = folder.run("diff a.npy b.npy --json");
    assert_eq!(json(&stdout(&output))["differences"][0]["largest"], json!(1));
    // The whole range: more than a signed integer of 64 bits, and less than an unsigned one.
    folder.write("c.npy", npy(&Tensor::from_slice(vec![3], &[1, LARGE, i64::MAX]).expect("a tensor")));
    let output = folder.run("diff b.npy c.npy --json");
    assert_eq!(json(&stdout(&output))["differences"][0]["largest"], json!(u64::MAX));
}

#[test]
fn integers_beside_numbers_of_other_types() {
    let folder = Folder::new();
    let write = |name: &str, tensor: &Tensor| {
        folder.write(name, safetensors::write(None, &[("w", tensor.view())]).expect("bytes"));
    };
    let signed = |values: &[i64]| Tensor::from_slice(vec![values.len()], values).expect("a tensor");
    write("i64.safetensors", &signed(&[LARGE + 1, 7]));
    write("u64.safetensors", &Tensor::from_slice(vec![2], &[LARGE as u64, 7]).expect("a tensor"));
    write("f64.safetensors", &Tensor::from_slice(vec![2], &[LARGE as f64, 7.0]).expect("a tensor"));
    write("half.safetensors", &Tensor::from_slice(vec![2], &[(LARGE + 2) as f64, 7.25]).expect("a tensor"));
    for (a, b, largest) in
        [("i64", "u64", "1"), ("u64", "i64", "1"), ("i64", "f64", "1e0"), ("f64", "i64", "1e0"), ("i64", "half", "1e0")]
    {
        let line = format!("diff {a}.safetensors {b}.safetensors --values");
        let output = folder.run(&line);
        let count = if b == "half" { 2 } else { 1 };
        let want = format!("w: {count} of 2 elements differ, the first is 0, by at most {largest}\n");
        assert_eq!((output.status.code(), stdout(&output)), (Some(1), want), "{line}");
        assert_eq!(folder.run(&format!("{line} --tolerance 1")).status.code(), Some(0), "{line}");
        assert_eq!(folder.run(&format!("{line} --tolerance 0.999")).status.code(), Some(1), "{line}");
    }
    // What is no integer of JSON is text.
    write("least.safetensors", &signed(&[i64::MIN]));
    write("most.safetensors", &Tensor::from_slice(vec![1], &[u64::MAX]).expect("a tensor"));
    let output = folder.run("diff least.safetensors most.safetensors --values --json");
    assert_eq!(json(&stdout(&output))["differences"][0]["largest"], json!("27670116110564327423"));
}

#[test]
fn statistics_of_integers() {
    let folder = Folder::new();
    let stats = |tensor: &Tensor| {
        folder.write("x.npy", npy(tensor));
        let text = done(&folder.run("info x.npy --stats"));
        let line = text.lines().find(|line| line.trim_start().starts_with("min")).expect("a line").trim().to_owned();
        (line, json(&done(&folder.run("info x.npy --stats --json")))["tensors"][0]["values"].clone())
    };
    let (text, values) = stats(&Tensor::from_slice(vec![3], &[LARGE + 1, i64::MAX, -LARGE - 1]).expect("a tensor"));
    assert_eq!(
        text,
        "min -9007199254740993, max 9223372036854775807, mean 3.0744573456182584e18, 0 zeros, 0 NaN, 0 infinities"
    );
    assert_eq!((&values["min"], &values["max"]), (&json!(-LARGE - 1), &json!(i64::MAX)));
    let (_, values) = stats(&Tensor::from_slice(vec![2], &[u64::MAX, 0]).expect("a tensor"));
    assert_eq!((&values["min"], &values["max"], &values["zeros"]), (&json!(0), &json!(u64::MAX), &json!(1)));
    let narrow = Tensor::new(DataType::Int8, vec![3], vec![0xff, 5, 0]).expect("a tensor");
    assert_eq!(stats(&narrow).0, "min -1, max 5, mean 1.3333333333333333e0, 1 zeros, 0 NaN, 0 infinities");
    assert_eq!(stats(&narrow).1["max"].to_string(), "5");
    let (text, values) = stats(&Tensor::new(DataType::Int64, vec![0], Vec::new()).expect("a tensor"));
    assert_eq!(text, "min none, max none, mean none, 0 zeros, 0 NaN, 0 infinities");
    assert_eq!((&values["min"], &values["mean"]), (&Value::Null, &Value::Null));
    let floats = Tensor::from_slice(vec![2], &[0.5f32, f32::INFINITY]).expect("a tensor");
    assert_eq!(stats(&floats).0, "min 5e-1, max inf, mean 5e-1, 0 zeros, 0 NaN, 1 infinities");
}

#[test]
fn losses_of_integers() {
    let folder = Folder::new();
    folder.write("x.npy", npy(&Tensor::from_slice(vec![2], &[LARGE + 1, 3]).expect("a tensor")));
    let output = folder.run("cast x.npy y.npy --to double --losses --json");
    let counts = json(&done(&output))["tensors"][0]["counts"].clone();
    assert_eq!((&counts["max_error"], &counts["overflowed"]), (&json!(1.0), &json!(0)));
    // 2^63 - 1 has its place in int64, though the next double has not.
    folder.write("u.npy", npy(&Tensor::from_slice(vec![1], &[i64::MAX as u64]).expect("a tensor")));
    done(&folder.run("cast u.npy v.npy --to int64 --fail-on overflow"));
}

/// A file of one tensor may give it any name; names in other files tell tensors apart.
#[test]
fn tensors_of_other_names_are_not_the_same() {
    let folder = Folder::new();
    let tensor = Tensor::from_slice(vec![2], &[1f32, 2.0]).expect("a tensor");
    folder.write("x.npy", npy(&tensor));
    for name in ["q", "k"] {
        let file = format!("{name}.safetensors");
        folder.write(&file, safetensors::write(None, &[(name, tensor.view())]).expect("bytes"));
        done(&folder.run(&format!("diff {file} x.npy")));
    }
    let output = folder.run("diff q.safetensors k.safetensors");
    let want = "q: only in q.safetensors\nk: only in k.safetensors\n";
    assert_eq!((output.status.code(), &*stdout(&output)), (Some(1), want));
}

#[test]
fn nan_is_at_no_distance() {
    let folder = Folder::new();
    for (name, value) in [("nan.safetensors", f32::NAN), ("one.safetensors", 1.0)] {
        let tensor = Tensor::from_slice(vec![1], &[value]).expect("a tensor");
        folder.write(name, safetensors::write(None, &[("w", tensor.view())]).expect("bytes"));
    }
    let output = folder.run("diff nan.safetensors one.safetensors --values");
    let want = "w: 1 of 1 elements differ, the first is 0 (text, complex numbers, NaN or the signs of zeros)\n";
    assert_eq!((output.status.code(), &*stdout(&output)), (Some(1), want));
}
