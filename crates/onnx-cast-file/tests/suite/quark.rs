//! Does the configuration that is written for Quark have what its own package reads? Its loader fails on any key that is
//! missing (amd-quark 0.13: quark/torch/quantization/config/config.py), and runs in scripts/checks/loaders where the
//! package is installed.

use crate::common::families;
use crate::common::replacing::quantize_file;

use families::{families, quantized};
use onnx_cast_file::{Layout, QuantizeRequest, WeightFormat};
use regex::Regex;
use safetensors::Dtype;
use safetensors::tensor::TensorView;
use serde_json::{Value, json};
use std::fs;

/// The settings of all layers.
fn settings(to: &str) -> Value {
    let folder = tempfile::tempdir().expect("a folder");
    let (plain, out) = (folder.path().join("plain"), folder.path().join("out"));
    fs::create_dir(&plain).expect("a folder");
    fs::write(plain.join("config.json"), r#"{"model_type":"llama"}"#).expect("a file");
    let bytes: Vec<u8> = (0..64 * 64).flat_map(|at| ((at % 17) as f32 - 8.0).to_le_bytes()).collect();
    let view = TensorView::new(Dtype::F32, vec![64, 64], &bytes).expect("a tensor");
    let file = safetensors::serialize([("model.layers.0.mlp.up_proj.weight", view)], None).expect("bytes");
    fs::write(plain.join("model.safetensors"), file).expect("a file");
    let request = QuantizeRequest::new(to.parse::<WeightFormat>().expect("a format"));
    quantize_file(&plain, &out, &request.layout(Some(Layout::Quark))).expect("a checkpoint");
    let config = fs::read(out.join("config.json")).expect("a file");
    let config: Value = serde_json::from_slice(&config).expect("JSON");
    config["quantization_config"]["global_quant_config"].clone()
}

#[test]
fn every_key_that_its_package_reads_is_written() {
    let settings = |to: &str| {
        let found = settings(to);
        for key in ["bias", "input_tensors", "output_tensors", "weight"] {
            assert!(found.get(key).is_some(), "{to}: {key}");
        }
        let tensors = [&found["weight"], &found["input_tensors"]];
        for tensors in tensors.into_iter().filter(|tensors| !tensors.is_null()) {
            for key in ["ch_axis", "dtype", "group_size", "is_dynamic", "observer_cls", "qscheme", "symmetric"] {
                assert!(tensors.get(key).is_some(), "{to}: {key}");
            }
        }
        found
    };
    // Each scheme has observers of its own, and others are an error.
    let observers =
        |found: &Value| [found["weight"]["observer_cls"].clone(), found["input_tensors"]["observer_cls"].clone()];
    let rows = "PerChannelMinMaxObserver";
    assert_eq!(observers(&settings("float8e4m3fn/row")), [json!(rows), json!(rows)]);
    let one = settings("float8e4m3fn");
    assert_eq!(observers(&one), [json!("PerTensorMinMaxObserver"), json!(rows)]);
    let blocks = settings("mxfp4");
    assert_eq!(observers(&blocks), [json!("PerBlockMXObserver"), json!(null)]);
    assert_eq!((&blocks["weight"]["group_size"], &blocks["input_tensors"]), (&json!(32), &json!(null)));
}

/// The patterns of a list as Python's `fnmatch` reads them, which Quark's package calls; they have no brackets or question
/// marks.
fn globs(list: &[String]) -> Regex {
    let patterns: Vec<String> = list.iter().map(|entry| regex::escape(entry).replace(r"\*", ".*")).collect();
    Regex::new(&format!("^(?:{})$", patterns.join("|"))).expect("an expression")
}

/// The names of a list, and its expressions, which match the start: as vLLM and SGLang read it.
fn expressions(list: &[String]) -> Regex {
    let pattern = |entry: &String| match entry.strip_prefix("re:") {
        Some(expression) => expression.to_owned(),
        None => format!("{}$", regex::escape(entry)),
    };
    let patterns: Vec<String> = list.iter().map(pattern).collect();
    Regex::new(&format!("^(?:{})", patterns.join("|"))).expect("an expression")
}

/// Quark's package makes every Linear layer of transformers that no pattern of `exclude` matches a quantized one, and
/// others read expressions there: both must find the layers that are kept, and none else.
#[test]
fn exclude_names_the_layers_that_are_kept_for_all_loaders() {
    let mut tried = 0;
    for family in families() {
        for to in ["mxfp4", "float8e4m3fn"] {
            let Some(written) = quantized(&family, to, Layout::Quark, None) else { continue };
            let exclude = written.ignore();
            let lists = [("fnmatch", globs(&exclude)), ("expressions", expressions(&exclude))];
            for (module, stored) in &family.linears {
                let is_quantized = stored.as_ref().is_some_and(|stored| written.is_quantized(stored));
                for (how, list) in &lists {
                    let place = format!("{}, {to}, by {how}: {module}, exclude {exclude:?}", family.name);
                    assert_ne!(is_quantized, list.is_match(module), "{place}");
                }
            }
            tried += 1;
        }
    }
    assert!(tried > 40, "{tried} checkpoints");
}
