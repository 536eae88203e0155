//! Quantized checkpoints as their owners' packages wrote them, against the weights that the owners' code reads:
//! `crates/testkit/data/checkpoints`.

use onnx_cast::DataType;
use onnx_cast_file::formats::tensor::read_tensors_from;
use onnx_cast_file::io::positional::InputFile;
use onnx_cast_file::{DequantizeRequest, Format, NamedTensor, dequantize_file};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

fn checkpoints() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testkit/data/checkpoints");
    let mut found: Vec<PathBuf> =
        fs::read_dir(folder).expect("the checkpoints").map(|entry| entry.expect("an entry").path()).collect();
    found.retain(|path| path.is_dir());
    found.sort();
    assert!(found.len() > 20);
    found
}

/// The tensors of all files of a folder but `expected.safetensors`.
fn tensors(paths: &[PathBuf]) -> BTreeMap<String, NamedTensor> {
    let mut all = BTreeMap::new();
    for path in paths {
        let file = InputFile::open(path).expect("a file");
        for tensor in read_tensors_from(file, Format::Safetensors, None).expect("tensors") {
            all.insert(tensor.name.clone(), tensor);
        }
    }
    all
}

/// A copy of a checkpoint without what it is expected to be.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.file_name().is_some_and(|name| name != "expected.safetensors") {
            fs::copy(&path, to.join(path.file_name().expect("a name"))).expect("copied");
        }
    }
}

fn weights_of(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("it").path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "safetensors"));
    files
}

#[test]
fn every_layout_gives_the_values_of_its_owner() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut wrong = Vec::new();
    for checkpoint in checkpoints() {
        let name = checkpoint.file_name().expect("a name").to_string_lossy().into_owned();
        let (input, output) = (folder.path().join(&name), folder.path().join(format!("{name}-plain")));
        copy(&checkpoint, &input);
        if !checkpoint.join("expected.safetensors").exists() {
            let error = dequantize_file(&input, &output, &DequantizeRequest::new(DataType::BFloat16));
            assert!(error.is_err() && !output.exists(), "{name} must be refused");
            continue;
        }
        if let Err(error) = dequantize_file(&input, &output, &DequantizeRequest::new(DataType::BFloat16)) {
            wrong.push(format!("{name}: {error}"));
            continue;
        }
        let want = tensors(&[checkpoint.join("expected.safetensors")]);
        let got = tensors(&weights_of(&output));
        let names = |tensors: &BTreeMap<String, NamedTensor>| tensors.keys().cloned().collect::<Vec<_>>();
        if names(&got) != names(&want) {
            wrong.push(format!("{name}: tensors {:?}, not {:?}", names(&got), names(&want)));
        }
        for (tensor, want) in &want {
            let Some(got) = got.get(tensor) else { continue };
            if (got.tensor.data_type(), got.tensor.shape()) != (want.tensor.data_type(), want.tensor.shape()) {
                wrong.push(format!(
                    "{name}: {tensor} is {} {:?}, not {} {:?}",
                    got.tensor.data_type(),
                    got.tensor.shape(),
                    want.tensor.data_type(),
                    want.tensor.shape()
                ));
            } else if got.tensor.bytes() != want.tensor.bytes() {
                let (got, want) = (got.tensor.bytes().unwrap_or_default(), want.tensor.bytes().unwrap_or_default());
                let first = got.iter().zip(want).position(|(got, want)| got != want).expect("a difference") / 2;
                let count = got.chunks(2).zip(want.chunks(2)).filter(|(got, want)| got != want).count();
                wrong.push(format!("{name}: {tensor}: {count} values differ, first {first}"));
            }
        }
        let config = fs::read_to_string(output.join("config.json")).unwrap_or_default();
        if config.contains("quantization_config") || output.join("hf_quant_config.json").exists() {
            wrong.push(format!("{name}: the configuration still tells of quantization"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
