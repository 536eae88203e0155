//! The index of a checkpoint in several files: the input is the index, beside files that fit one.

use crate::scratch;
use onnx_cast::{DataType, Tensor};
use onnx_cast_file::parts::{self, FileJob, Part};
use onnx_cast_file::{CastRequest, InspectRequest, cast_file, inspect, safetensors};
use std::fs;

/// The files, with their tensors.
const SHARDS: [(&str, &[&str]); 2] = [("a.safetensors", &["x", "y"]), ("b.safetensors", &["z"])];

const INDEX: &str = "model.safetensors.index.json";

/// An index; what it gives, cast at once and in parts, is the same to the byte.
pub fn index(data: &[u8]) {
    scratch::clear();
    for (file, tensors) in SHARDS {
        let tensor = Tensor::from_slice(vec![3], &[1.0f32, -0.3, 1000.0]).expect("a tensor");
        let tensors: Vec<_> = tensors.iter().map(|name| (*name, tensor.view())).collect();
        scratch::write(file, &safetensors::write(None, &tensors).expect("a file"));
    }
    let index = scratch::write(INDEX, data);
    let info = inspect(&index, &InspectRequest::default());
    let request = CastRequest::new(DataType::Float8E4M3FN);
    let done = cast_file(&index, scratch::path("out"), &request);
    let Ok(done) = done else {
        assert!(!scratch::path("out").join(INDEX).exists(), "refused, with an index");
        return;
    };
    let info = info.expect("an index that was cast");
    assert_eq!(info.tensors.len(), done.tensors.len(), "tensors");
    check_parts(&index, &request);
}

/// Casts the checkpoint in parts beside the one that was cast at once.
fn check_parts(index: &std::path::Path, request: &CastRequest) {
    let (output, job) = (scratch::path("parts"), FileJob::Cast(request));
    let shards = parts::files(index, &output, job).expect("a checkpoint that was cast");
    for shard in &shards {
        let temporary = shard.output.with_extension("part");
        parts::lay_out(&shard.input, &shard.output, 0, &temporary, job).expect("laid out");
        for index in [1, 0, 2] {
            let part = Part { index, of: 3 };
            parts::write_part(&shard.input, &shard.output, 0, part, &temporary, job).expect("cast");
        }
        parts::name_whole(&temporary, &shard.output).expect("named");
    }
    parts::write_side_files(index, &output, job).expect("an index");
    for name in SHARDS.iter().map(|(name, _)| *name).chain([INDEX]) {
        let read = |folder: &str| fs::read(scratch::path(folder).join(name)).ok();
        assert_eq!(read("parts"), read("out"), "{name} in parts, and at once");
    }
}
