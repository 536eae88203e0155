//! The configuration of ModelOpt: an algorithm for all layers or one for each, in `config.json` and a file of its own.

use crate::layouts::claims::Claims;
use crate::layouts::format::{Granularity, QuantizedFormat};
use crate::layouts::row::{Configuration, OwnFile};
use crate::layouts::weight::WeightFormat;
use crate::layouts::written::WrittenWeight;
use onnx_cast::BlockFormat;
use serde_json::{Map, Value, json};

pub(super) const CONFIGURATION: Configuration = Configuration {
    method: "modelopt*",
    key: Some("quant_algo"),
    claims,
    write,
    own_file: Some(OwnFile { name: "hf_quant_config.json", key: "quantization", write: own_file }),
};

/// The algorithm, of all layers or of each.
fn claims(claims: &mut Claims, quantization: &Map<String, Value>) {
    let Some(algorithm) = quantization.get("quant_algo").and_then(Value::as_str) else { return };
    if let Some(size) = quantization.get("group_size").and_then(Value::as_u64) {
        claims.groups.push(size as usize);
    }
    if let Some(format) = format_of(algorithm, claims) {
        claims.add(&[format], algorithm);
    }
    let layers = quantization.get("quantized_layers").and_then(Value::as_object);
    for (name, layer) in layers.into_iter().flatten() {
        let algorithm = layer.get("quant_algo").and_then(Value::as_str).unwrap_or_default();
        if let Some(format) = format_of(algorithm, claims) {
            claims.layers.insert(name.clone(), format);
        }
    }
}

fn format_of(algorithm: &str, claims: &mut Claims) -> Option<WeightFormat> {
    let algorithm = &*algorithm.to_ascii_uppercase();
    if algorithm.starts_with("FP8_PB") {
        // The name stands for blocks of this size; the configuration does not repeat it.
        claims.block = claims.block.or(Some([128, 128]));
    }
    Some(match algorithm {
        _ if algorithm.contains("NVFP4") => WeightFormat::NvFp4,
        _ if algorithm.contains("MXFP4") => WeightFormat::MxFp4,
        "MXFP8" => WeightFormat::MxFp8,
        _ if algorithm.starts_with("FP8") => WeightFormat::Fp8,
        _ => return None,
    })
}

fn write(written: &[WrittenWeight], kept: &[String]) -> Value {
    let (all, layers) = algorithms(written);
    let mut config = json!({ "ignore": kept, "quant_algo": all, "quant_method": "modelopt" });
    if let Some(layers) = layers {
        config["quantized_layers"] = layers;
    }
    config
}

fn own_file(written: &[WrittenWeight], kept: &[String]) -> String {
    let (all, layers) = algorithms(written);
    let mut quantization = json!({ "exclude_modules": kept, "kv_cache_quant_algo": null, "quant_algo": all });
    if let Some(QuantizedFormat::Block(format)) = written.first().map(|weight| weight.to) {
        quantization["group_size"] = format.block().into();
    }
    if let Some(layers) = layers {
        quantization["quantized_layers"] = layers;
    }
    let file = json!({ "producer": { "name": "modelopt" }, "quantization": quantization });
    format!("{file:#}\n")
}

/// The algorithm of all weights, or that they differ and that of each.
fn algorithms(written: &[WrittenWeight]) -> (&'static str, Option<Value>) {
    let first = written.first().map_or("", algorithm);
    if written.iter().all(|weight| algorithm(weight) == first) {
        return (first, None);
    }
    let layer = |weight: &WrittenWeight| (weight.module.clone(), json!({ "quant_algo": algorithm(weight) }));
    ("MIXED_PRECISION", Some(Value::Object(written.iter().map(layer).collect())))
}

/// ModelOpt's name for the format of a weight.
fn algorithm(written: &WrittenWeight) -> &'static str {
    match (written.to, written.granularity) {
        (QuantizedFormat::Block(BlockFormat::NvFp4), _) => "W4A16_NVFP4",
        (QuantizedFormat::Block(BlockFormat::MxFp4), _) => "W4A16_MXFP4",
        (QuantizedFormat::Block(_), _) => "MXFP8",
        (_, Granularity::Tensor) => "FP8",
        (_, Granularity::Axis) => "FP8_PER_CHANNEL_PER_TOKEN",
        (_, Granularity::Block(_)) => "FP8_PB_WO",
    }
}
