//! The configuration of compressed-tensors: groups of modules, each with the settings of its weights.

use crate::layouts::claims::{Claims, pair};
use crate::layouts::format::{Granularity, QuantizedFormat};
use crate::layouts::row::Configuration;
use crate::layouts::weight::WeightFormat;
use crate::layouts::written::WrittenWeight;
use DataType::{Float8E4M3FN, Float8E8M0, Int4, Int8};
use onnx_cast::{BlockFormat, DataType};
use serde_json::{Map, Value, json};

pub(super) const CONFIGURATION: Configuration =
    Configuration { method: "compressed-tensors", key: Some("config_groups"), claims, write, own_file: None };

/// Bits, kind and granularity of the weights of each group.
fn claims(claims: &mut Claims, quantization: &Map<String, Value>) {
    let groups = quantization.get("config_groups").and_then(Value::as_object);
    for weights in groups.into_iter().flat_map(Map::values).filter_map(|group| group.get("weights")) {
        let number = |key: &str| weights.get(key).and_then(Value::as_u64);
        let (bits, size) = (number("num_bits").unwrap_or(0) as u32, number("group_size").unwrap_or(0) as usize);
        let is_float = weights.get("type").and_then(Value::as_str) == Some("float");
        let has_power_of_two_scales = weights.get("scale_dtype").and_then(Value::as_str) == Some("torch.uint8");
        let format = match (is_float, bits, size) {
            (true, 4, 16) => WeightFormat::NvFp4,
            (true, 4, _) => WeightFormat::MxFp4,
            (true, 6, _) => WeightFormat::MxFp6,
            (true, _, 32) if has_power_of_two_scales => WeightFormat::MxFp8,
            (true, ..) => WeightFormat::Fp8,
            (false, ..) => WeightFormat::Int(bits),
        };
        if size > 0 {
            claims.groups.push(size);
        }
        claims.block = claims.block.or(weights.get("block_structure").and_then(pair));
        claims.add(&[format], &format.to_string());
        if format == WeightFormat::Fp8 && size == 32 {
            claims.add(&[WeightFormat::MxFp8], "MXFP8");
        }
    }
}

/// The groups: the weights of each format.
fn write(written: &[WrittenWeight], kept: &[String]) -> Value {
    let mut groups: Vec<(Value, &'static str, Vec<&str>)> = Vec::new();
    for one in written {
        let (weights, format) = weights(one);
        match groups.iter_mut().find(|(known, ..)| *known == weights) {
            Some((.., modules)) => modules.push(&one.module),
            None => groups.push((weights, format, vec![&one.module])),
        }
    }
    let format = match &groups[..] {
        [(_, format, _)] => *format,
        _ => "mixed-precision",
    };
    let is_single = groups.len() == 1;
    let group = |(index, (weights, format, modules)): (usize, (Value, &str, Vec<&str>))| {
        // Of one format all Linear layers are meant that are not ignored.
        let targets = if is_single { json!(["Linear"]) } else { json!(modules) };
        let group = json!({
            "format": format, "input_activations": null, "output_activations": null, "targets": targets,
            "weights": weights,
        });
        (format!("group_{index}"), group)
    };
    let groups: Map<String, Value> = groups.into_iter().enumerate().map(group).collect();
    json!({
        "config_groups": groups,
        "format": format,
        "global_compression_ratio": null,
        "ignore": kept,
        "kv_cache_scheme": null,
        "quant_method": "compressed-tensors",
        "quantization_status": "compressed",
    })
}

/// The settings of a group's weights, and the name of its format.
fn weights(written: &WrittenWeight) -> (Value, &'static str) {
    let (kind, bits, format) = match written.to {
        QuantizedFormat::Block(BlockFormat::NvFp4) => ("float", 4, "nvfp4-pack-quantized"),
        QuantizedFormat::Block(BlockFormat::MxFp4) => ("float", 4, "mxfp4-pack-quantized"),
        QuantizedFormat::Block(BlockFormat::MxFp6E2M3 | BlockFormat::MxFp6E3M2) => ("float", 6, "mxfp6-pack-quantized"),
        QuantizedFormat::Block(_) => ("float", 8, "mxfp8-quantized"),
        QuantizedFormat::Elements(Int4 | Int8) => ("int", written.integers.bits, "pack-quantized"),
        QuantizedFormat::Elements(_) => ("float", 8, "float-quantized"),
    };
    let (strategy, group, structure) = match (written.to, written.granularity) {
        (QuantizedFormat::Block(BlockFormat::NvFp4), _) => ("tensor_group", json!(16), json!(null)),
        (QuantizedFormat::Block(_), _) => ("group", json!(32), json!(null)),
        (_, Granularity::Tensor) => ("tensor", json!(null), json!(null)),
        (_, Granularity::Axis) => ("channel", json!(null), json!(null)),
        (_, Granularity::Block([1, columns])) => ("group", json!(columns), json!(null)),
        (_, Granularity::Block(block)) => ("block", json!(null), json!(block)),
    };
    let scale_dtype = match written.scale_type {
        Float8E8M0 => json!("torch.uint8"),
        Float8E4M3FN => json!("torch.float8_e4m3fn"),
        _ => json!(null),
    };
    let actorder = if written.integers.have_groups { json!("group") } else { json!(null) };
    let weights = json!({
        "actorder": actorder, "block_structure": structure, "dynamic": false, "group_size": group, "num_bits": bits,
        "observer": "minmax", "observer_kwargs": {}, "scale_dtype": scale_dtype, "strategy": strategy,
        "symmetric": written.integers.are_symmetric, "type": kind, "zp_dtype": null,
    });
    (weights, format)
}
