//! `--stats` and `--fail-on`: are losses seen whatever the input is, in a dry run too?

use crate::checkpoints::shards;
use crate::common::{done, stderr};
use crate::files::{Folder, floats};
use crate::proto::{Message, model, node, tensor};
use onnx_cast_file::{npy, pb, safetensors};
use serde_json::Value;
use std::io::Write;
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
    folder.write("x.npy", npy::write(&weights.view(), false).expect("bytes"));
    folder.write("x.pb", pb::write("x", &weights.view()).expect("bytes"));
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
        let line = format!("cast {input} {output} --to float16 --min-size 1");
        counted.push(tensors(&format!("{line} --dry-run --stats --json")));
        let failed = folder.run(&format!("{line} --dry-run --fail-on overflow"));
        assert_eq!(failed.status.code(), Some(1), "{line}: {}", stderr(&failed));
        assert!(stderr(&failed).contains("overflow in 1 value cast to float16"), "{line}: {}", stderr(&failed));
        done(&folder.run(&format!("{line} --dry-run --fail-on nan")));
        assert_eq!(folder.names(), names, "{line}");
    }
    for ((input, output), counted) in inputs.iter().zip(counted) {
        let line = format!("cast {input} {output} --to float16 --min-size 1 --stats --json");
        assert_eq!(tensors(&line), counted, "{line}");
        let overflowed = |row: &Value| row["counts"]["overflowed"].as_u64().unwrap_or(0);
        assert_ne!(counted.as_array().expect("rows").iter().map(overflowed).sum::<u64>(), 0, "{line}");
    }
}
