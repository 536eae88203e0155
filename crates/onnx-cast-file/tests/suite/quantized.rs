//! Quantized checkpoints as their owners' packages wrote them, against the weights that the owners' code reads:
//! `crates/testkit/data/checkpoints`.

use crate::common::replacing::{dequantize_file, quantize_file, transcode_file};
use onnx_cast::scaled::{BlockFormat, ScaleRule};
use onnx_cast::{Cast, CastOptions, DataType};
use onnx_cast_file::{
    Activations, DequantizeRequest, Format, Granularity, InputFile, Layout, NamedTensor, QuantizeRequest,
    QuantizedFormat, Rule, Selection, TranscodeRequest, WeightFormat, read_tensors_from,
};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

fn checkpoints() -> Vec<PathBuf> {
    testkit::checkpoints::all(env!("CARGO_TARGET_TMPDIR"))
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
        if path.file_name().is_some_and(|name| name != "expected.safetensors" && name != "original.safetensors") {
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

fn checkpoint(name: &str) -> PathBuf {
    testkit::checkpoints::folder(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// The bytes of a tensor with -0 as 0: the owners lose the sign.
fn without_negative_zero(tensor: &NamedTensor) -> Vec<u8> {
    let mut bytes = tensor.tensor.bytes().unwrap_or_default().to_vec();
    match tensor.tensor.data_type() {
        DataType::Float8E4M3FN => bytes.iter_mut().filter(|byte| **byte == 0x80).for_each(|byte| *byte = 0),
        DataType::Uint8 if !tensor.name.ends_with("scale") => {
            for byte in &mut bytes {
                *byte = if *byte & 0x0f == 0x08 { *byte & 0xf0 } else { *byte };
                *byte = if *byte & 0xf0 == 0x80 { *byte & 0x0f } else { *byte };
            }
        }
        _ => {}
    }
    bytes
}

/// A folder with the weights of a stored checkpoint before they were quantized.
fn original(name: &str, folder: &Path) -> PathBuf {
    let input = folder.join(format!("{name}-original"));
    fs::create_dir_all(&input).expect("a folder");
    fs::copy(checkpoint(name).join("original.safetensors"), input.join("model.safetensors")).expect("copied");
    fs::write(input.join("config.json"), "{\"torch_dtype\": \"bfloat16\"}").expect("written");
    input
}

#[test]
fn quantized_weights_are_those_of_the_owner() {
    let folder = tempfile::tempdir().expect("a folder");
    let fp8 = QuantizedFormat::Elements(DataType::Float8E4M3FN);
    let block = QuantizedFormat::Block;
    let (ct, modelopt) = (Layout::CompressedTensors, Layout::ModelOpt);
    let cases = [
        ("ct-fp8-tensor", fp8, ct, Some(Granularity::Tensor), None),
        ("ct-fp8-block", fp8, ct, Some(Granularity::Block([24, 20])), None),
        ("ct-nvfp4", block(BlockFormat::NvFp4), ct, None, None),
        ("ct-mxfp4", block(BlockFormat::MxFp4), ct, None, Some(ScaleRule::Even)),
        ("ct-int4", QuantizedFormat::Elements(DataType::Int4), ct, None, None),
        ("ct-int8", QuantizedFormat::Elements(DataType::Int8), ct, None, None),
        ("modelopt-nvfp4", block(BlockFormat::NvFp4), modelopt, None, None),
        ("modelopt-mxfp8", block(BlockFormat::MxFp8), modelopt, None, Some(ScaleRule::Rceil)),
    ];
    let mut wrong = Vec::new();
    for (name, to, layout, granularity, rule) in cases {
        let (input, output) = (original(name, folder.path()), folder.path().join(name));
        let request = QuantizeRequest::new(to.by(granularity)).layout(Some(layout)).scale_rule(rule);
        quantize_file(&input, &output, &request).unwrap_or_else(|error| panic!("{name}: {error}"));
        let mut owners = weights_of(&checkpoint(name));
        owners.retain(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("model")));
        let (got, want) = (tensors(&weights_of(&output)), tensors(&owners));
        // Here, joined matrices share the scale of the one with the largest amax.
        let smaller: &[&str] = match name {
            "ct-nvfp4" => &["k_proj", "v_proj", "gate_proj"],
            "ct-fp8-tensor" | "modelopt-fp8" => &["k_proj", "v_proj", "up_proj"],
            _ => &[],
        };
        for (tensor, got) in &got {
            if smaller.iter().any(|module| tensor.contains(module)) {
                continue;
            }
            let Some(want) = want.get(tensor) else {
                wrong.push(format!("{name}: the owner has no {tensor}"));
                continue;
            };
            let is_same = got.tensor.data_type() == want.tensor.data_type();
            if !is_same || without_negative_zero(got) != without_negative_zero(want) {
                wrong.push(format!("{name}: {tensor} differs"));
            }
        }
        let config = fs::read_to_string(output.join("config.json")).expect("a configuration");
        assert!(got.len() > 15 && config.contains("quantization_config"), "{name}: {config}");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn floats(tensor: &NamedTensor) -> Vec<f32> {
    let cast = Cast::new(DataType::Float, &CastOptions::new()).expect("a cast");
    cast.run(&tensor.tensor.view()).expect("cast").to_vec().expect("floats")
}

/// Every format in every layout that has it is read back, with no more error than its elements have.
#[test]
fn what_is_quantized_is_read_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let input = original("ct-int8", folder.path());
    let plain = tensors(&weights_of(&input));
    let energy = |list: &[f32]| list.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>().sqrt();
    let mut count = 0;
    for (layout, layout_name) in Layout::ALL {
        for to in QuantizedFormat::all() {
            for granularity in [None, Some(Granularity::Block([16, 8])), Some(Granularity::Row)] {
                let output = folder.path().join(format!("{layout_name}-{to}-{count}"));
                let request = QuantizeRequest::new(to.by(granularity)).layout(Some(*layout));
                let Ok(done) = quantize_file(&input, &output, &request) else {
                    assert!(!output.exists(), "{layout_name} {to}: a part of an output");
                    continue;
                };
                count += 1;
                assert!(done.tensors.iter().any(|row| row.cast));
                let (back, told) = (folder.path().join("back"), (*layout == Layout::Plain).then_some(Layout::Plain));
                let request = DequantizeRequest::new(DataType::Float).layout(told);
                dequantize_file(&output, &back, &request).unwrap_or_else(|error| panic!("{layout_name} {to}: {error}"));
                let values = tensors(&weights_of(&back));
                assert_eq!(values.len(), plain.len(), "{layout_name} {to}");
                // The weights have outliers, beside which blocks of few bits lose the others.
                let limit = if to.name().contains("fp4") || to.name() == "int4" { 0.3 } else { 0.1 };
                for (name, plain) in &plain {
                    let want = floats(plain);
                    let error: Vec<f32> =
                        floats(&values[name]).iter().zip(&want).map(|(got, want)| got - want).collect();
                    let (error, all) = (energy(&error), energy(&want));
                    assert!(error <= limit * all, "{layout_name} {to} {granularity:?}: {name}: {error} of {all}");
                }
            }
        }
    }
    assert!(count > 30, "{count} of formats and layouts");
}

/// Experts that have been read back are values of float4e2m1 times powers of two, which quantizing does not change.
#[test]
fn experts_are_quantized_as_gpt_oss_has_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let [plain, again, back] = ["plain", "again", "back"].map(|name| folder.path().join(name));
    let to_plain = DequantizeRequest::new(DataType::BFloat16);
    dequantize_file(checkpoint("gpt-oss"), &plain, &to_plain).expect("plain");
    let mxfp4 = QuantizedFormat::Block(BlockFormat::MxFp4);
    let request = QuantizeRequest::new(mxfp4).layout(Some(Layout::GptOss));
    let done = quantize_file(&plain, &again, &request).expect("quantized");
    assert_eq!(done.tensors.iter().filter(|row| row.cast).count(), 4, "two weights, each elements and scales");
    let mut owners = weights_of(&checkpoint("gpt-oss"));
    owners.retain(|path| path.file_name().is_some_and(|name| name != "expected.safetensors"));
    let (got, owners) = (tensors(&weights_of(&again)), tensors(&owners));
    for (name, owner) in &owners {
        let got = &got[name].tensor;
        assert_eq!((got.data_type(), got.shape()), (owner.tensor.data_type(), owner.tensor.shape()), "{name}");
    }
    assert_eq!(got.len(), owners.len());
    let config = fs::read_to_string(again.join("config.json")).expect("a configuration");
    assert!(config.contains("\"quant_method\": \"mxfp4\""), "{config}");
    assert!(!config.contains("mlp.experts\""), "quantized modules are not among those that stay: {config}");
    dequantize_file(&again, &back, &to_plain).expect("read back");
    let (got, want) = (tensors(&weights_of(&back)), tensors(&weights_of(&plain)));
    for (name, want) in &want {
        assert!(got[name].tensor == want.tensor, "{name}");
    }
    let rule: Rule<WeightFormat> = "*.router.weight=mxfp4".parse().expect("a rule");
    let selection = Selection { rules: vec![rule], ..Selection::new(mxfp4.into()) };
    let error = quantize_file(&plain, folder.path().join("no"), &request.selection(selection));
    let said = error.expect_err("a matrix").to_string();
    assert!(said.contains("router.weight") && said.contains("want the matrices of all experts"), "{said}");
}

#[test]
fn transcoded_weights_keep_their_values() {
    let folder = tempfile::tempdir().expect("a folder");
    let (fp8, nvfp4) = (QuantizedFormat::Elements(DataType::Float8E4M3FN), QuantizedFormat::Block(BlockFormat::NvFp4));
    let cases = [
        ("ct-nvfp4", Layout::ModelOpt, None),
        ("modelopt-nvfp4", Layout::CompressedTensors, None),
        ("ct-mxfp4", Layout::Quark, None),
        ("ct-mxfp8", Layout::Plain, None),
        ("ct-mxfp6", Layout::Plain, None),
        ("quark", Layout::CompressedTensors, None),
        ("quark-fp8", Layout::Quark, None),
        ("quark-fp8", Layout::CompressedTensors, None),
        ("quark-fp8-channel", Layout::Fbgemm, None),
        ("ct-fp8-channel", Layout::Quark, None),
        ("modelopt-fp8", Layout::Quark, None),
        ("ct-fp8-tensor", Layout::Fbgemm, None),
        ("ct-fp8-tensor", Layout::DeepSeek, None),
        ("ct-fp8-channel", Layout::ModelOpt, None),
        ("deepseek-e8m0", Layout::DeepSeek, None),
        ("ct-mxfp4", Layout::CompressedTensors, Some(nvfp4)),
        ("modelopt-mxfp4", Layout::ModelOpt, Some(nvfp4)),
        ("ct-mxfp4", Layout::DeepSeek, Some(fp8)),
        // Experts in one tensor.
        ("gpt-oss", Layout::GptOss, None),
        ("modelopt-nvfp4-experts", Layout::ModelOpt, None),
        ("fbgemm", Layout::Fbgemm, None),
        // Integers, in words and as int8.
        ("ct-int4", Layout::Plain, None),
        ("ct-int4", Layout::CompressedTensors, None),
        ("ct-int4-asymmetric", Layout::Plain, None),
        ("ct-int4-asymmetric", Layout::CompressedTensors, None),
        ("ct-int4-channel", Layout::Plain, None),
        ("ct-int4-channel", Layout::CompressedTensors, None),
        ("ct-int4-g-idx", Layout::CompressedTensors, None),
        ("ct-int3", Layout::Plain, None),
        ("ct-int3-words", Layout::Plain, None),
        ("ct-int3-words", Layout::CompressedTensors, None),
        ("ct-int8", Layout::Plain, None),
        ("ct-int8-asymmetric", Layout::Plain, None),
        ("ct-int-quantized", Layout::Plain, None),
        ("ct-int-quantized", Layout::CompressedTensors, None),
        ("ct-mixed", Layout::CompressedTensors, None),
    ];
    let mut wrong = Vec::new();
    for (name, layout, to) in cases {
        let (input, output) = (folder.path().join(name), folder.path().join(format!("{name}-{}", layout.name())));
        let back = folder.path().join("back");
        copy(&checkpoint(name), &input);
        // These layouts have no place for scales of activations, or of what is cached.
        let activations = match (name, layout) {
            ("modelopt-fp8", Layout::Quark) | ("ct-fp8-tensor", _) => Some(Activations::Dynamic),
            _ => None,
        };
        let request = TranscodeRequest::new(layout).to(to).activations(activations);
        let what = format!("{name} to {} {to:?}", layout.name());
        let told = (layout == Layout::Plain).then_some(Layout::Plain);
        let request_back = DequantizeRequest::new(DataType::BFloat16).layout(told);
        let done = transcode_file(&input, &output, &request).map(drop);
        if let Err(error) = done.and_then(|()| dequantize_file(&output, &back, &request_back).map(drop)) {
            wrong.push(format!("{what}: {error}"));
            continue;
        }
        let (got, want) = (tensors(&weights_of(&back)), tensors(&[checkpoint(name).join("expected.safetensors")]));
        if got.keys().ne(want.keys()) {
            wrong.push(format!("{what}: {:?}, not {:?}", got.keys(), want.keys()));
        }
        for (tensor, want) in &want {
            if got.get(tensor).is_none_or(|got| got.tensor.bytes() != want.tensor.bytes()) {
                wrong.push(format!("{what}: {tensor} differs"));
            }
        }
        fs::remove_dir_all(&back).expect("removed");
        fs::remove_dir_all(&output).expect("removed");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Experts of gpt-oss, whose scales have every power of two, as NVFP4: first refused, then with scales near each other.
#[test]
fn experts_of_gpt_oss_become_nvfp4() {
    let folder = tempfile::tempdir().expect("a folder");
    let [input, output, plain, back] = ["in", "out", "plain", "back"].map(|part| folder.path().join(part));
    copy(&checkpoint("gpt-oss"), &input);
    let nvfp4 = Some(QuantizedFormat::Block(BlockFormat::NvFp4));
    let request = TranscodeRequest::new(Layout::ModelOpt).to(nvfp4);
    let error = transcode_file(&input, &output, &request).expect_err("scales far apart").to_string();
    assert!(error.contains("_blocks`: as nvfp4") && !output.exists(), "{error}");
    for path in weights_of(&input) {
        let mut bytes = fs::read(&path).expect("a file");
        let (len, stored) = safetensors::SafeTensors::read_metadata(&bytes).expect("a header");
        for (name, tensor) in stored.tensors().into_iter().filter(|(name, _)| name.ends_with("_scales")) {
            let (start, end) = tensor.data_offsets;
            for (index, scale) in bytes[8 + len + start..8 + len + end].iter_mut().enumerate() {
                *scale = 112 + (index * 7 % 16) as u8;
            }
            assert!(end > start, "{name}");
        }
        fs::write(path, bytes).expect("written");
    }
    transcode_file(&input, &output, &request).expect("nvfp4");
    let to_plain = DequantizeRequest::new(DataType::BFloat16);
    dequantize_file(&input, &plain, &to_plain).expect("plain");
    dequantize_file(&output, &back, &to_plain).expect("read back");
    let (got, want) = (tensors(&weights_of(&back)), tensors(&weights_of(&plain)));
    assert!(got.keys().eq(want.keys()), "{:?}", got.keys());
    for (name, want) in &want {
        assert!(got[name].tensor == want.tensor, "{name}");
    }
    let stored = tensors(&weights_of(&output));
    let shape = |name: &str| stored[&format!("model.layers.0.mlp.experts.{name}")].tensor.shape().to_vec();
    assert_eq!(shape("gate_up_proj"), [2, 32, 64]);
    assert_eq!(shape("gate_up_proj_weight_scale"), [2, 4, 64]);
    assert_eq!(shape("down_proj_weight_scale_2"), [0usize; 0]);
}

/// Integers of 8 bits go from words to int8 and back to the owner's bytes.
#[test]
fn words_come_back_as_they_were() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["ct-int8", "ct-int8-asymmetric"] {
        let [input, plain, back] = ["in", "plain", "back"].map(|part| folder.path().join(format!("{name}-{part}")));
        copy(&checkpoint(name), &input);
        transcode_file(&input, &plain, &TranscodeRequest::new(Layout::Plain)).expect("int8");
        let request = TranscodeRequest::new(Layout::CompressedTensors).from_layout(Some(Layout::Plain));
        transcode_file(&plain, &back, &request).expect("words");
        let (got, want) = (tensors(&weights_of(&back)), tensors(&weights_of(&input)));
        assert!(got.keys().eq(want.keys()), "{name}: {:?}", got.keys());
        for (tensor, want) in &want {
            // Scales of float are those of bfloat16, widened.
            let is_same = if tensor.ends_with("_scale") {
                floats(&got[tensor]) == floats(want)
            } else {
                got[tensor].tensor == want.tensor
            };
            assert!(is_same, "{name}: {tensor}");
        }
        let config = fs::read_to_string(back.join("config.json")).expect("a configuration");
        let symmetric = format!("\"symmetric\": {}", !name.ends_with("asymmetric"));
        assert!(config.contains(&symmetric) && config.contains("pack-quantized"), "{name}: {config}");
    }
}

#[test]
fn what_no_layout_has_is_not_transcoded() {
    let folder = tempfile::tempdir().expect("a folder");
    let (fp8, nvfp4) = (QuantizedFormat::Elements(DataType::Float8E4M3FN), QuantizedFormat::Block(BlockFormat::NvFp4));
    for (name, layout, to, want) in [
        ("gpt-oss", Layout::CompressedTensors, None, "each is a weight of its own"),
        ("gpt-oss", Layout::Plain, None, "plain has no experts in one tensor"),
        ("gpt-oss", Layout::ModelOpt, None, "modelopt does not support mxfp4"),
        ("gpt-oss", Layout::DeepSeek, Some(fp8), "rows and columns the other way round"),
        ("modelopt-nvfp4-experts", Layout::CompressedTensors, None, "each is a weight of its own"),
        ("ct-mxfp4", Layout::GptOss, None, "want the matrices of all experts"),
        ("ct-int4", Layout::ModelOpt, None, "modelopt does not support int4"),
        ("ct-mxfp4", Layout::ModelOpt, None, "modelopt does not support mxfp4: vLLM and SGLang refuse it"),
        ("deepseek", Layout::ModelOpt, None, "columns in blocks of 128 for float8e4m3fn"),
        ("modelopt-fp8", Layout::Quark, None, "k_scale`: quark cannot store it"),
        (
            "modelopt-fp8",
            Layout::DeepSeek,
            None,
            "loaders of its float8e4m3fn/128x128 have activations dynamic, not static",
        ),
        ("ct-int4-g-idx", Layout::Plain, None, "weight_g_idx"),
        ("ct-mxfp4", Layout::Quark, Some(nvfp4), "quark does not support nvfp4"),
        ("gptq", Layout::CompressedTensors, None, "can only be read (dequantize"),
        ("awq", Layout::Plain, None, "can only be read (dequantize"),
        ("awq-gemv", Layout::CompressedTensors, None, "can only be read (dequantize"),
        ("ct-int4", Layout::Gptq, None, "the layout can only be read"),
    ] {
        let (input, output) = (folder.path().join(name), folder.path().join("out"));
        copy(&checkpoint(name), &input);
        let request = TranscodeRequest::new(layout).to(to);
        let error = transcode_file(&input, &output, &request).expect_err(name).to_string();
        assert!(error.contains(want) && !output.exists(), "{name} to {}: {error}", layout.name());
    }
}

/// A checkpoint of bfloat16 tensors.
fn write_plain(path: &Path, weights: &[(&str, Vec<usize>, Vec<u8>)]) {
    fs::create_dir_all(path).expect("a folder");
    let views = weights.iter().map(|(name, shape, bytes)| {
        let view = safetensors::tensor::TensorView::new(safetensors::Dtype::BF16, shape.clone(), bytes);
        (name.to_string(), view.expect("a tensor"))
    });
    safetensors::serialize_to_file(views, None, &path.join("model.safetensors")).expect("written");
    fs::write(path.join("config.json"), "{\"torch_dtype\": \"bfloat16\"}").expect("written");
}

/// Rows and columns of each matrix exchanged, of values of so many bytes.
fn exchanged(bytes: &[u8], [count, rows, columns]: [usize; 3], size: usize) -> Vec<u8> {
    let mut out = Vec::new();
    for matrix in 0..count {
        for column in 0..columns {
            for row in 0..rows {
                let at = ((matrix * rows + row) * columns + column) * size;
                out.extend_from_slice(&bytes[at..at + size]);
            }
        }
    }
    out
}

#[test]
fn experts_in_one_tensor_are_quantized_as_their_matrices_are() {
    check_experts([2, 48, 80]);
}

/// Sixteen rows are more than are read at once, so that some of their columns are.
#[test]
fn experts_with_long_rows_are_quantized_as_their_matrices_are() {
    check_experts([2, 32, 16_464]);
}

/// Experts in one tensor have the bytes that their matrices have one by one, which are the owners'.
fn check_experts([count, rows, columns]: [usize; 3]) {
    let folder = tempfile::tempdir().expect("a folder");
    let mut state = 7u64;
    let values: Vec<u8> = (0..count * rows * columns)
        .flat_map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            // Signs and magnitudes from 2^-12 to 2.
            ((state >> 48) as u16 & 0x87ff | 0x3980).to_le_bytes()
        })
        .collect();
    let turned = exchanged(&values, [count, rows, columns], 2);
    let name = "model.layers.0.mlp.experts.gate_up_proj";
    let [experts, matrices, as_stored] = ["experts", "matrices", "stored"].map(|part| folder.path().join(part));
    write_plain(&experts, &[(name, vec![count, rows, columns], values.clone())]);
    // Matrices of these names have one global scale, as experts have.
    let half = turned.len() / 2;
    let pair = |values: &[u8], shape: Vec<usize>| {
        let (first, second) = values.split_at(half);
        [("0.q_proj.weight", shape.clone(), first.to_vec()), ("0.k_proj.weight", shape, second.to_vec())]
    };
    write_plain(&matrices, &pair(&turned, vec![columns, rows]));
    write_plain(&as_stored, &pair(&values, vec![rows, columns]));
    let (fp8, nvfp4) = (QuantizedFormat::Elements(DataType::Float8E4M3FN), QuantizedFormat::Block(BlockFormat::NvFp4));
    let run = |input: &Path, request: &QuantizeRequest| {
        let output = folder.path().join("out");
        quantize_file(input, &output, request).expect("quantized");
        let (got, back) = (tensors(&weights_of(&output)), folder.path().join("back"));
        dequantize_file(&output, &back, &DequantizeRequest::new(DataType::BFloat16)).expect("read back");
        let plain = tensors(&weights_of(&back));
        for folder in [output, back] {
            fs::remove_dir_all(folder).expect("removed");
        }
        (got, plain)
    };
    let bytes = |tensors: &BTreeMap<String, NamedTensor>, name: &str| {
        tensors
            .get(name)
            .unwrap_or_else(|| panic!("{name} in {:?}", tensors.keys()))
            .tensor
            .bytes()
            .expect("bytes")
            .to_vec()
    };
    for (layout, to, granularity, scales, is_turned) in [
        (Layout::ModelOpt, nvfp4, None, ["_weight_scale", "weight_scale"], true),
        (Layout::Fbgemm, fp8, None, ["_scale", "weight_scale"], true),
        (Layout::DeepSeek, fp8, Some(Granularity::Block([32, 32])), ["_scale_inv", "weight_scale_inv"], false),
    ] {
        let what = layout.name();
        let to = to.by(granularity);
        let rule: Rule<WeightFormat> = format!("*={to}").parse().expect("a rule");
        let selection = Selection { rules: vec![rule], ..Selection::new(to) };
        let request = QuantizeRequest::default().selection(selection).layout(Some(layout));
        let (got, back) = run(&experts, &request);
        let (want, want_back) = run(if is_turned { &matrices } else { &as_stored }, &request);
        let joined = |tensors: &BTreeMap<String, NamedTensor>, part: &str| {
            [bytes(tensors, &format!("0.q_proj.{part}")), bytes(tensors, &format!("0.k_proj.{part}"))].concat()
        };
        let turn = |bytes: Vec<u8>, rows: usize, size: usize| {
            let across = bytes.len() / (count * rows * size);
            if is_turned { exchanged(&bytes, [count, rows, across], size) } else { bytes }
        };
        assert!(bytes(&got, name) == turn(joined(&want, "weight"), columns, 1), "{what}: elements");
        let size = if to.format == nvfp4 { 1 } else { 4 };
        let want_scales = turn(joined(&want, scales[1]), columns, size);
        assert!(bytes(&got, &format!("{name}{}", scales[0])) == want_scales, "{what}: scales");
        assert_eq!(back[name].tensor.shape(), [count, rows, columns], "{what}");
        assert!(bytes(&back, name) == turn(joined(&want_back, "weight"), columns, 2), "{what}: read back");
        if to.format == nvfp4 {
            let global = bytes(&got, &format!("{name}_weight_scale_2"));
            assert_eq!(global, bytes(&want, "0.q_proj.weight_scale_2"), "{what}: the global scale");
        }
    }
    // ModelOpt's loaders want scales of activations beside experts of float8.
    for (layout, to) in [(Layout::ModelOpt, fp8), (Layout::CompressedTensors, nvfp4)] {
        let request = QuantizeRequest::new(to).layout(Some(layout));
        let error = quantize_file(&experts, folder.path().join("no"), &request).expect_err("no matrix").to_string();
        assert!(error.contains("no weight to quantize"), "{error}");
    }
}
