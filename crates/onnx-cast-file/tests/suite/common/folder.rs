//! Quantized checkpoints of tensors that the `safetensors` crate writes, and what becomes of them.

use super::replacing::{dequantize_file, transcode_file};
use onnx_cast::DataType;
use onnx_cast_file::{
    CandidateFormat, DequantizeRequest, DiffRequest, InspectRequest, Layout, ReportRequest, TranscodeRequest, diff,
    inspect, report,
};
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// A tensor: name, type, shape and bytes.
pub(crate) type Stored = (String, Dtype, Vec<usize>, Vec<u8>);

pub(crate) fn floats(name: &str, shape: &[usize], values: &[f32]) -> Stored {
    (name.to_owned(), Dtype::F32, shape.to_vec(), values.iter().flat_map(|value| value.to_le_bytes()).collect())
}

pub(crate) fn codes(name: &str, shape: &[usize]) -> Stored {
    (name.to_owned(), Dtype::F8_E4M3, shape.to_vec(), vec![0x38; shape.iter().product()])
}

/// The files of a folder, by their paths in it.
pub(crate) fn files(root: &Path) -> Vec<String> {
    let (mut found, mut folders) = (Vec::new(), vec![root.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("the folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.push(path.strip_prefix(root).expect("within").display().to_string());
            }
        }
    }
    found.sort();
    found
}

/// A folder of its own with a checkpoint in it.
pub(crate) struct Folder(pub(crate) tempfile::TempDir);

impl Folder {
    pub(crate) fn new(config: &str, tensors: &[Stored]) -> Folder {
        Folder::with_metadata(config, tensors, None)
    }

    pub(crate) fn with_metadata(config: &str, tensors: &[Stored], metadata: Option<(&str, &str)>) -> Folder {
        let folder = Folder(tempfile::tempdir().expect("a folder"));
        fs::create_dir(folder.path("in")).expect("a folder");
        let views = tensors.iter().map(|(name, data_type, shape, bytes)| {
            (name.clone(), TensorView::new(*data_type, shape.clone(), bytes).expect("a tensor"))
        });
        let metadata = metadata.map(|(key, value)| [(key.to_owned(), value.to_owned())].into());
        safetensors::serialize_to_file(views, metadata, &folder.path("in/model.safetensors")).expect("written");
        fs::write(folder.path("in/config.json"), config).expect("written");
        folder
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

/// The tensors of a file: types, shapes and bytes.
pub(crate) fn read(path: &Path) -> BTreeMap<String, (Dtype, Vec<usize>, Vec<u8>)> {
    let bytes = fs::read(path).expect("a file");
    let tensors = SafeTensors::deserialize(&bytes).expect("a checkpoint");
    let tensors = tensors.tensors().into_iter();
    tensors.map(|(name, view)| (name, (view.dtype(), view.shape().to_vec(), view.data().to_vec()))).collect()
}

pub(crate) const FP8: &str =
    r#"{"torch_dtype": "bfloat16", "quantization_config": {"quant_method": "modelopt", "quant_algo": "FP8"}}"#;

pub(crate) fn weight() -> Vec<Stored> {
    vec![codes("m.weight", &[4, 4]), floats("m.weight_scale", &[], &[0.5])]
}

/// Asserts that each job that reads weights refuses them with the same words.
#[track_caller]
pub(crate) fn refused(folder: &Folder, want: &str) {
    let (input, output) = (folder.path("in"), folder.path("out"));
    let to = vec![CandidateFormat::Bare(DataType::Float16)];
    let by_value = DiffRequest::default().values(true);
    let failures = [
        ("dequantize", dequantize_file(&input, &output, &DequantizeRequest::new(DataType::Float)).map(drop)),
        ("transcode", transcode_file(&input, &output, &TranscodeRequest::new(Layout::Plain)).map(drop)),
        ("report", report(&input, &ReportRequest::default().to(to)).map(drop)),
        ("diff", diff(&input, &input, &by_value).map(drop)),
    ];
    for (job, done) in failures {
        let error = done.expect_err(want).to_string();
        assert!(error.contains(want) && !output.exists(), "{job}: {error}");
    }
    let found = inspect(&input, &InspectRequest::default()).expect("listed").quantized.expect("quantized weights");
    assert!(found.warning.is_some_and(|warning| warning.to_string().contains(want)), "info: {want}");
}

/// The tensors of all files of a folder.
pub(crate) fn all(folder: &Path) -> BTreeMap<String, (Dtype, Vec<usize>, Vec<u8>)> {
    let files = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    files.filter(|path| path.extension().is_some_and(|end| end == "safetensors")).flat_map(|path| read(&path)).collect()
}

pub(crate) fn json(path: &Path) -> serde_json::Value {
    serde_json::from_slice(&fs::read(path).expect("a file")).expect("JSON")
}

/// Values of a weight, of several magnitudes.
pub(crate) fn values(name: &str, shape: &[usize]) -> Stored {
    let len: usize = shape.iter().product();
    let value = |index: usize| ((index * 37 % 101) as f32 - 50.0) * 2f32.powi((index * 7 % 9) as i32 - 8);
    floats(name, shape, &(0..len).map(value).collect::<Vec<_>>())
}

pub(crate) fn float(tensors: &BTreeMap<String, (Dtype, Vec<usize>, Vec<u8>)>, name: &str) -> f32 {
    let (data_type, _, bytes) = tensors.get(name).unwrap_or_else(|| panic!("{name} in {:?}", tensors.keys()));
    match data_type {
        Dtype::F32 => f32::from_le_bytes(bytes[..].try_into().expect("one number")),
        _ => f32::from_bits(u32::from(u16::from_le_bytes(bytes[..].try_into().expect("one number"))) << 16),
    }
}
