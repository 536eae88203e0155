//! Quantized checkpoints of a few tensors that a test writes, and what becomes of them.

use super::replacing::dequantize_file;
use onnx_cast::DataType;
use onnx_cast_file::{DequantizeRequest, FileError, Format, InputFile, NamedTensor, Summary, read_tensors_from};
use std::fs;
use std::path::{Path, PathBuf};

/// A tensor of a checkpoint: name, type as `.safetensors` has it, shape, bytes.
#[derive(Clone)]
pub(crate) struct Tensor(pub(crate) &'static str, pub(crate) &'static str, pub(crate) Vec<usize>, pub(crate) Vec<u8>);

/// Elements of one byte each, all of them 1 in float8e4m3fn.
pub(crate) fn codes(name: &'static str, data_type: &'static str, shape: &[usize]) -> Tensor {
    Tensor(name, data_type, shape.to_vec(), vec![0x38; shape.iter().product()])
}

pub(crate) fn floats(name: &'static str, shape: &[usize], values: &[f32]) -> Tensor {
    let every = values.iter().cycle().take(shape.iter().product());
    Tensor(name, "F32", shape.to_vec(), every.flat_map(|value| value.to_le_bytes()).collect())
}

pub(crate) fn ints(name: &'static str, shape: &[usize], values: &[i32]) -> Tensor {
    let every = values.iter().cycle().take(shape.iter().product());
    Tensor(name, "I32", shape.to_vec(), every.flat_map(|value| value.to_le_bytes()).collect())
}

pub(crate) fn longs(name: &'static str, values: &[i64]) -> Tensor {
    Tensor(name, "I64", vec![values.len()], values.iter().flat_map(|value| value.to_le_bytes()).collect())
}

/// The bytes of a `.safetensors` file.
pub(crate) fn file(tensors: &[Tensor]) -> Vec<u8> {
    let (mut entries, mut data) = (Vec::new(), Vec::new());
    for Tensor(name, data_type, shape, bytes) in tensors {
        let span = [data.len(), data.len() + bytes.len()];
        entries.push(format!(r#""{name}":{{"dtype":"{data_type}","shape":{shape:?},"data_offsets":{span:?}}}"#));
        data.extend_from_slice(bytes);
    }
    let header = format!("{{{}}}", entries.join(","));
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &data].concat()
}

/// A checkpoint in a folder of its own.
pub(crate) struct Checkpoint(pub(crate) tempfile::TempDir);

impl Checkpoint {
    /// Of one file, with a configuration where the text is not empty.
    pub(crate) fn new(config: &str, tensors: &[Tensor]) -> Self {
        let checkpoint = Checkpoint(tempfile::tempdir().expect("a folder"));
        fs::create_dir(checkpoint.input()).expect("a folder");
        checkpoint.write("model.safetensors", &file(tensors));
        if !config.is_empty() {
            checkpoint.write("config.json", config.as_bytes());
        }
        checkpoint
    }

    /// Of several files, with the index.
    pub(crate) fn sharded(config: &str, index: &str, shards: &[(&str, &[Tensor])]) -> Self {
        let checkpoint = Checkpoint::new(config, &[]);
        fs::remove_file(checkpoint.input().join("model.safetensors")).expect("removed");
        checkpoint.write("model.safetensors.index.json", format!(r#"{{"weight_map":{index}}}"#).as_bytes());
        for (name, tensors) in shards {
            checkpoint.write(name, &file(tensors));
        }
        checkpoint
    }

    pub(crate) fn input(&self) -> PathBuf {
        self.0.path().join("in")
    }

    pub(crate) fn output(&self) -> PathBuf {
        self.0.path().join("out")
    }

    pub(crate) fn write(&self, name: &str, bytes: &[u8]) {
        fs::write(self.input().join(name), bytes).expect("a file");
    }

    pub(crate) fn run(&self, request: &DequantizeRequest) -> Result<Summary, FileError> {
        dequantize_file(self.input(), self.output(), request)
    }

    /// Asserts the text of the error, and that nothing is written.
    #[track_caller]
    pub(crate) fn refuses(&self, want: &str) {
        self.refuses_with(&DequantizeRequest::new(DataType::BFloat16), want);
    }

    #[track_caller]
    pub(crate) fn refuses_with(&self, request: &DequantizeRequest, want: &str) {
        for dry_run in [true, false] {
            let done = self.run(&request.clone().run(request.run.clone().dry_run(dry_run)));
            assert_eq!(testkit::fixtures::text_without(&self.input(), done.expect_err(want)), want);
            assert!(is_empty(&self.output()), "{want}: something is written");
        }
    }

    /// The tensors of the output's only file.
    #[track_caller]
    pub(crate) fn gives(&self, request: &DequantizeRequest) -> Vec<NamedTensor> {
        self.run(request).expect("a good checkpoint");
        let file = InputFile::open(&self.output().join("model.safetensors")).expect("the output");
        read_tensors_from(file, Format::Safetensors, None).expect("tensors")
    }
}

pub(crate) fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).map_or(true, |mut entries| entries.next().is_none())
}

pub(crate) fn to(data_type: DataType) -> DequantizeRequest {
    DequantizeRequest::new(data_type)
}

pub(crate) fn bits(tensor: &NamedTensor) -> Vec<u32> {
    let bytes = tensor.tensor.bytes().expect("numbers");
    bytes.as_chunks().0.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect()
}
