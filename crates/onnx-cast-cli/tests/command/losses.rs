//! `--losses` and `--fail-on`: are losses seen whatever the input is, in a dry run too?

use crate::checkpoints::shards;
use crate::common::{done, npy, pb, stderr};
use crate::files::{Folder, floats};
use onnx_cast_file::safetensors;
use serde_json::Value;
use std::io::Write;
use testkit::proto::{Message, model, node, strings, tensor};
use zip::write::SimpleFileOptions;

const VALUES: [f32; 4] = [1.0, 1e9, 0.5, 1e-9];

/// An archive of a weight, in Fortran order and big endian, and an array of text, which is kept.
fn archive() -> Vec<u8> {
    let items: Vec<u8> = VALUES.iter().flat_map(|value| value.to_be_bytes()).collect();
    let array = |descr: &str, shape: &str, items: &[u8]| {
        let header = format!("{{'descr': '{descr}', 'fortran_order': True, 'shape': {shape}, }}\n");
        [b"\x93NUMPY\x01\x00", &(header.len() as u16).to_le_bytes()[..], header.as_bytes(), items].concat()
    };
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, bytes) in [("w.npy", array(">f4", "(2, 2)", &items)), ("t.npy", array("<U1", "(1,)", b"a\0\0\0"))] {
        zip.start_file(name, SimpleFileOptions::default()).expect("a member");
        zip.write_all(&bytes).expect("written");
    }
    zip.finish().expect("finished").into_inner()
}

/// One of each kind of input, and the output of its cast.
fn inputs(folder: &Folder) -> Vec<(&'static str, &'static str)> {
    let weights = floats(&VALUES);
    folder.write("x.npy", npy(&weights));
    folder.write("x.pb", pb("x", &weights));
    let tensors = [("w", weights.view()), ("v", weights.view())];
    folder.write("x.safetensors", safetensors::write(None, &tensors).expect("bytes"));
    folder.write("x.npz", archive());
    shards(folder, "several");
    let raw: Vec<u8> = VALUES.iter().flat_map(|value| value.to_le_bytes()).collect();
    let value = Message::new().bytes(1, "value").message(5, tensor(&[4], 1, &raw)).int(20, 4);
    let nodes = vec![node("Constant", &[], "w", vec![value]), node("Add", &["x", "w"], "y", vec![])];
    folder.write("x.onnx", model(21, nodes, &[("x", 1)], &[("y", 1)]));
    vec![
        ("x.npy", "y.npz"),
        ("x.pb", "y.npy"),
        ("x.safetensors", "y.safetensors"),
        ("x.npz", "y.npz"),
        ("several", "out"),
        ("x.onnx", "y.onnx"),
        ("x.onnx", "z.onnx --external-data z.bin --external-threshold 1"),
    ]
}

/// A dry run writes nothing, counts what a run counts, and fails where that would.
#[test]
fn dry_runs_count() {
    let folder = Folder::new();
    let inputs = inputs(&folder);
    let names = folder.names();
    let tensors = |line: &str| -> Value {
        let json: Value = serde_json::from_str(&done(&folder.run(line))).expect("JSON");
        json["tensors"].clone()
    };
    let mut counted = Vec::new();
    for (input, output) in &inputs {
        let line = format!("cast {input} {output} --to float16 --min-elements 1 -f");
        counted.push(tensors(&format!("{line} --dry-run --losses --json")));
        let failed = folder.run(&format!("{line} --dry-run --fail-on overflow"));
        assert_eq!(failed.status.code(), Some(1), "{line}: {}", stderr(&failed));
        assert!(stderr(&failed).contains("overflow in 1 value cast to float16"), "{line}: {}", stderr(&failed));
        done(&folder.run(&format!("{line} --dry-run --fail-on nan")));
        assert_eq!(folder.names(), names, "{line}");
    }
    for ((input, output), counted) in inputs.iter().zip(counted) {
        let line = format!("cast {input} {output} --to float16 --min-elements 1 --losses --json -f");
        assert_eq!(tensors(&line), counted, "{line}");
        let overflowed = |row: &Value| row["counts"]["overflowed"].as_u64().unwrap_or(0);
        assert_ne!(counted.as_array().expect("rows").iter().map(overflowed).sum::<u64>(), 0, "{line}");
    }
}

/// Texts are counted as the nearest doubles: against limits, and against what became of them.
#[test]
fn texts_count() {
    let folder = Folder::new();
    folder.write("out.npy", "old");
    for (texts, to, loss, counted) in [
        (["1", "65504.00000000001"], "float16", "overflow", Some("overflow in 1 value")),
        (["1e400", "nan"], "double", "overflow", Some("overflow in 1 value")),
        (["448.5", "-1e9"], "float8e4m3fn", "overflow", Some("overflow in 2 values")),
        (["1e-400", "0"], "double", "underflow", Some("underflow in 1 value")),
        (["0.9", "-2.5"], "int32", "underflow", Some("underflow in 1 value")),
        (["6e-8", "1"], "float16", "subnormal", Some("subnormal in 1 value")),
        (["NaN", "inf"], "float", "nan", Some("nan in 1 value")),
        (["65504", "0.1"], "float16", "overflow,underflow,nan,subnormal", None),
    ] {
        folder.write("x.pb", strings(&texts).into_bytes());
        for dry in ["", " --dry-run"] {
            let line = format!("cast x.pb out.npy --to {to} --fail-on {loss}{dry} -f");
            let output = folder.run(&line);
            let Some(counted) = counted else {
                done(&output);
                continue;
            };
            let said = format!("onnx-cast: x.pb: {counted} cast to {to} (nothing is written)\n");
            assert_eq!((output.status.code(), stderr(&output)), (Some(1), said), "{texts:?} {line}");
            assert_eq!(folder.read("out.npy"), b"old", "{line}");
        }
    }
    folder.write("x.pb", strings(&["0.1", "16777217"]).into_bytes());
    let said = stderr(&folder.run("cast x.pb out.npy --to float --losses -q -f"));
    assert_eq!(said, "");
    let said = stderr(&folder.run("cast x.pb out.npy --to float --losses -f"));
    assert!(said.ends_with("2 values, error at most 1.000000e0, relative 5.960464e-8\n"), "{said}");
    // What is printed reads as the same, but a NaN stays one.
    folder.write("n.npy", npy(&floats(&[0.5, f32::NAN])));
    let output = folder.run("cast n.npy out.pb --to string --fail-on nan -f");
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
}

/// Weights with NaN, infinity and a number beyond float16.
fn odd_weights(folder: &Folder) {
    let mut values: Vec<f32> = (0..128).map(|index| index as f32 * 0.01).collect();
    let plain = onnx_cast::Tensor::from_slice(vec![4, 32], &values).expect("a tensor");
    (values[35], values[69], values[103]) = (f32::NAN, f32::NEG_INFINITY, 7e4);
    let odd = onnx_cast::Tensor::from_slice(vec![4, 32], &values).expect("a tensor");
    let tensors = [("a.weight", plain.view()), ("b.weight", odd.view())];
    folder.write("w.safetensors", safetensors::write(None, &tensors).expect("bytes"));
}

/// Without being asked, the summary names what overflowed, and NaN.
#[test]
fn overflow_and_nan_are_said_by_default() {
    let folder = Folder::new();
    for (input, output) in inputs(&folder) {
        if input.ends_with("onnx") {
            continue;
        }
        let line = format!("cast {input} {output} --to float16 --min-elements 1 -f");
        let said = stderr(&folder.run(&line));
        let want = format!("onnx-cast: warning: {input}: ");
        assert!(said.contains(&want) && said.contains("overflowed (first in tensor `"), "{line}: {said}");
        assert!(!stderr(&folder.run(&format!("{line} -q"))).contains("warning"), "{line}");
        let json: Value = serde_json::from_str(&done(&folder.run(&format!("{line} --json")))).expect("JSON");
        assert!(json["warning"].as_str().is_some_and(|text| text.contains("overflowed")), "{json}");
        let alarms = json["tensors"].as_array().expect("rows").iter().map(|row| &row["alarms"]);
        assert_ne!(alarms.map(|alarms| alarms["overflowed"].as_u64().unwrap_or(0)).sum::<u64>(), 0, "{json}");
        // Nothing is lost to bfloat16, and nothing is said.
        let said = stderr(&folder.run(&format!("cast {input} {output} --to bfloat16 --min-elements 1 -f")));
        assert!(!said.contains("warning"), "{said}");
    }
    odd_weights(&folder);
    let warned = |line: &str| {
        let said = stderr(&folder.run(line));
        said.lines().find_map(|line| line.strip_prefix("onnx-cast: warning: w.safetensors: ")).map(str::to_owned)
    };
    for (line, want) in [
        (
            "cast w.safetensors o.npz --to float16 -f",
            "1 value overflowed, 1 value was NaN (first in tensor `b.weight`)",
        ),
        (
            "cast w.safetensors o.npz --to int8 -f",
            "2 values were saturated, 1 value was NaN (first in tensor `b.weight`)",
        ),
        (
            "cast w.safetensors o.npz --to float8e4m3fn --saturate false -f",
            "2 values became NaN, 1 value was NaN (first in tensor `b.weight`)",
        ),
        (
            "quantize w.safetensors o.safetensors --to int8 -f",
            "1 value overflowed, 1 value was NaN (first in tensor `b.weight_packed`)",
        ),
        (
            "quantize w.safetensors o.safetensors --to float8e4m3fn --layout comfyui -f",
            "1 value overflowed, 1 value was NaN (first in tensor `b.weight`)",
        ),
        (
            "quantize w.safetensors o.safetensors --to nvfp4 -f",
            "31 values became NaN, 1 value was NaN (first in tensor `b.weight_packed`); 2 blocks have NaN scales, which are \
             read back with `dequantize --allow-nan` alone",
        ),
        (
            "quantize w.safetensors o.safetensors --to mxfp8 -f",
            "63 values became NaN, 1 value was NaN (first in tensor `b.weight`); 2 blocks have NaN scales, which are \
             read back with `dequantize --allow-nan` alone",
        ),
    ] {
        assert_eq!(warned(line).as_deref(), Some(want), "{line}");
        assert_eq!(warned(&format!("{line} --losses")).as_deref(), Some(want), "{line}");
    }
    // Bits that are reinterpreted are no values that overflow.
    folder.write("x.npy", npy(&floats(&[1e30, f32::NAN])));
    assert!(!stderr(&folder.run("bitcast x.npy y.npy --to int32 -f")).contains("warning"));
    folder.run("bitcast x.npy y.npy --to uint32 -f");
    assert!(!stderr(&folder.run("bitcast y.npy z.npy --to float -f")).contains("warning"));
    let excluded = "quantize w.safetensors o.safetensors --to nvfp4 --exclude b.weight -f";
    assert_eq!(warned(excluded), None);
}

/// `--fail-on` sees what becomes NaN, and works for quantized weights.
#[test]
fn nan_and_overflow_fail_on_request() {
    let folder = Folder::new();
    folder.write("x.npy", npy(&floats(&[1.0, 1e6])));
    let line = "cast x.npy y.npy --to float8e4m3fn --saturate false --fail-on nan -f";
    let output = folder.run(line);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("nan in 1 value cast to float8e4m3fn"), "{}", stderr(&output));
    done(&folder.run("cast x.npy y.npy --to float8e4m3fn --fail-on nan -f"));
    odd_weights(&folder);
    for to in ["int8", "int4", "float8e4m3fn", "nvfp4", "mxfp4"] {
        for loss in ["nan", "overflow"] {
            let output = folder.run(&format!("quantize w.safetensors q.safetensors --to {to} --fail-on {loss} -f"));
            assert_eq!(output.status.code(), Some(1), "{to} {loss}: {}", stderr(&output));
            assert!(stderr(&output).contains("tensor `b.weight"), "{to} {loss}: {}", stderr(&output));
            assert!(!folder.names().contains(&"q.safetensors".to_owned()), "{to} {loss}");
        }
        let line =
            format!("quantize w.safetensors ok.safetensors --to {to} --exclude b.weight --fail-on nan,overflow -f");
        done(&folder.run(&line));
    }
}
