//! Is a checkpoint that is quantized already refused where its codes and scales would part: by a second quantization,
//! and by a cast?

use crate::common::replacing::{cast_file, quantize_file};
use onnx_cast::{DataType, Tensor};
use onnx_cast_file::{
    CandidateFormat, CastRequest, HeldTensor, Layout, NamedTensor, Pattern, QuantizeRequest, QuantizedFormat,
    ReportRequest, TensorsInMemory, quantize_tensors, report, safetensors,
};
use std::fs;
use std::path::Path;

fn zeros(data_type: DataType, shape: &[usize]) -> Tensor {
    let len = shape.iter().product();
    Tensor::new(data_type, shape.to_vec(), vec![0; data_type.byte_len(len).expect("a size")]).expect("a tensor")
}

fn write(path: &Path, tensors: &[(&str, Tensor)]) {
    let views: Vec<_> = tensors.iter().map(|(name, tensor)| (*name, tensor.view())).collect();
    fs::write(path, safetensors::write(None, &views).expect("bytes")).expect("a file");
}

fn format(name: &str) -> QuantizedFormat {
    name.parse().expect("a format")
}

fn patterns(texts: &[&str]) -> Vec<Pattern> {
    texts.iter().map(|text| text.parse().expect("a pattern")).collect()
}

/// Weights of a layer, and a norm that loaders keep.
fn plain() -> Vec<(&'static str, Tensor)> {
    let values: Vec<f32> = (0..128 * 128).map(|index| (index % 251) as f32 * 0.01 - 1.0).collect();
    let weight = Tensor::from_slice(vec![128, 128], &values).expect("a tensor");
    vec![("l.0.up_proj.weight", weight), ("l.0.norm.weight", zeros(DataType::Float, &[128]))]
}

#[test]
fn what_quantize_writes_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    write(&path("plain.safetensors"), &plain());
    for (layout, to) in [
        (Layout::CompressedTensors, "nvfp4"),
        (Layout::CompressedTensors, "mxfp8"),
        (Layout::CompressedTensors, "int8"),
        (Layout::CompressedTensors, "float8e4m3fn"),
        (Layout::DeepSeek, "float8e4m3fn"),
        (Layout::ModelOpt, "nvfp4"),
        (Layout::Fbgemm, "float8e4m3fn"),
        (Layout::Quark, "mxfp4"),
        (Layout::ComfyUi, "float8e4m3fn"),
        (Layout::Plain, "int8"),
        (Layout::Plain, "mxfp4"),
    ] {
        let how = QuantizeRequest::new(format(to)).layout(Some(layout));
        quantize_file(path("plain.safetensors"), path("once.safetensors"), &how).expect("quantized");
        let said = quantize_file(path("once.safetensors"), path("twice.safetensors"), &how).expect_err("refused");
        let said = said.to_string();
        assert!(said.contains("quantized already") && said.contains("dequantize it first"), "{layout:?} {to}: {said}");
        assert!(!path("twice.safetensors").exists());
        let request = CastRequest::new(DataType::Float16);
        let said = cast_file(path("once.safetensors"), path("cast.safetensors"), &request);
        // Scales of powers of two are no floats that a cast without rules takes; codes of float8 are.
        let is_untouched = to == "mxfp4" && layout == Layout::Quark;
        match said {
            Ok(_) => assert!(is_untouched, "{layout:?} {to}: cast"),
            Err(error) => {
                assert!(!is_untouched, "{error}");
                let said = error.to_string();
                assert!(said.contains("a part of a quantized weight"), "{layout:?} {to}: {said}");
                assert!(!path("cast.safetensors").exists());
            }
        }
        drop(fs::remove_file(path("cast.safetensors")));
        // What is beside the weights may be cast.
        let mut request = CastRequest::new(DataType::Float16);
        request.selection.include = patterns(&["*norm*"]);
        let done = cast_file(path("once.safetensors"), path("norm.safetensors"), &request).expect("cast");
        assert_eq!(done.tensors.iter().filter(|row| row.cast).count(), 1);
    }
}

#[test]
fn layouts_of_others_are_refused() {
    use DataType::{Float, Float16, Int8, Int32, Uint8, Uint32};
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let how = QuantizeRequest::new(format("nvfp4"));
    for (parts, layout) in [
        (&[("qweight", Int32), ("qzeros", Int32), ("scales", Float16)][..], "GPTQ or AWQ"),
        (&[("weight", Uint8), ("weight.absmax", Float)], "bitsandbytes"),
        (&[("weight", Int8), ("SCB", Float)], "bitsandbytes"),
        (&[("weight", Uint32), ("scales", Float16), ("biases", Float16)], "mlx"),
    ] {
        let mut tensors = plain();
        let names: Vec<String> = parts.iter().map(|(name, _)| format!("l.1.up_proj.{name}")).collect();
        tensors.extend(names.iter().zip(parts).map(|(name, (_, to))| (name.as_str(), zeros(*to, &[64, 8]))));
        write(&path("in.safetensors"), &tensors);
        let said = quantize_file(path("in.safetensors"), path("out.safetensors"), &how).expect_err("refused");
        assert!(said.to_string().contains(&format!("quantized already ({layout}, by `l.1.up_proj.")), "{said}");
        let said = cast_file(path("in.safetensors"), path("out.safetensors"), &CastRequest::new(DataType::BFloat16));
        let said = said.expect_err("refused").to_string();
        assert!(said.contains(&format!("a part of a quantized weight ({layout})")), "{said}");
        assert!(!path("out.safetensors").exists());
        // A report of that cast fails in the same way, unless it excludes the companions. If the names identify the
        // layout, a report without a selection is an error.
        let bfloat16: CandidateFormat = "bfloat16".parse().expect("a type");
        let request = ReportRequest::default().to(vec![bfloat16]);
        let forecast = |request: &ReportRequest| {
            report(path("in.safetensors"), request).expect("a report").forecast(bfloat16).cloned()
        };
        let all = request.clone().include(patterns(&["*"]));
        assert_eq!(forecast(&all).and_then(|forecast| forecast.refused), Some(said.clone()), "{layout}");
        assert_eq!(forecast(&request.clone().include(patterns(&["*norm*"]))), None, "{layout}");
        match report(path("in.safetensors"), &request) {
            Ok(_) => assert_eq!(forecast(&request).and_then(|forecast| forecast.refused), Some(said), "{layout}"),
            Err(error) => assert!(layout != "GPTQ or AWQ" && error.to_string().contains("l.1.up_proj."), "{error}"),
        }
        let held = |(name, tensor): &(&str, Tensor)| {
            HeldTensor::from(NamedTensor { name: (*name).to_owned(), tensor: tensor.clone() })
        };
        let held = TensorsInMemory::new(tensors.iter().map(held).collect(), None).expect("tensors");
        let said = quantize_tensors(held, &how).expect_err("refused").to_string();
        assert!(said.contains("quantized already"), "{said}");
    }
}

#[test]
fn configurations_are_believed_where_there_may_be_codes() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    fs::create_dir(path("in")).expect("a folder");
    let how = QuantizeRequest::new(format("nvfp4"));
    let mut codes = plain();
    codes.push(("l.1.up_proj.codes", zeros(DataType::Uint8, &[64, 8])));
    for (name, text) in [
        ("config.json", r#"{"quantization_config": {"quant_method": "eetq"}}"#),
        ("config.json", r#"{"quantization": {"group_size": 64, "bits": 4}}"#),
        ("quantize_config.json", r#"{"bits": 4, "group_size": 128}"#),
        ("hf_quant_config.json", r#"{"quantization": {"quant_algo": "W4A8_AWQ"}}"#),
    ] {
        fs::write(path("in").join(name), text).expect("a configuration");
        write(&path("in/model.safetensors"), &codes);
        let said = quantize_file(path("in"), path("out"), &how).expect_err("refused").to_string();
        assert!(said.contains("`l.1.up_proj.codes`") && said.contains("of the configuration"), "{name}: {said}");
        // The weights of such a configuration may have been dequantized since.
        write(&path("in/model.safetensors"), &plain());
        quantize_file(path("in"), path("out"), &how).unwrap_or_else(|error| panic!("{name}: {error}"));
        fs::remove_dir_all(path("out")).expect("removed");
        fs::remove_file(path("in").join(name)).expect("removed");
    }
    // Without a claim, masks and tables of bytes are no codes.
    write(&path("in/model.safetensors"), &codes);
    quantize_file(path("in"), path("out"), &how).expect("quantized");
}

#[test]
fn scales_in_another_file_are_found() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let one = zeros(DataType::Int32, &[64, 8]);
    write(&path("a.safetensors"), &[("l.qweight", one)]);
    write(&path("b.safetensors"), &[("l.scales", zeros(DataType::Float, &[1, 8]))]);
    let index = r#"{"metadata": {}, "weight_map": {"l.qweight": "a.safetensors", "l.scales": "b.safetensors"}}"#;
    fs::write(path("model.safetensors.index.json"), index).expect("an index");
    let said = cast_file(folder.path(), path("out"), &CastRequest::new(DataType::Float16)).expect_err("refused");
    assert!(said.to_string().contains("tensor `l.scales`: a part of a quantized weight"), "{said}");
    assert!(!path("out").exists());
}
