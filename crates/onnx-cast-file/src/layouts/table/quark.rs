//! The configuration of Quark: the settings of all layers, and of those that differ.

use crate::layouts::claims::Claims;
use crate::layouts::format::{Activations, Granularity, QuantizedFormat};
use crate::layouts::row::{ColumnsOfWords, Configuration, KeptNames};
use crate::layouts::weight::{ColumnOrder, WeightFormat};
use crate::layouts::written::WrittenWeight;
use serde_json::{Map, Value, json};

pub(super) const CONFIGURATION: Configuration = Configuration {
    methods: &["quark"],
    kept: KeptNames::Expressions,
    claims,
    write: Some(write),
    ..Configuration::BASE
};

/// Integers of 4 bits in groups, in AWQ's order unless `pack_method` says `order`.
pub(super) const WORDS: ColumnsOfWords = ColumnsOfWords {
    order: ColumnOrder::Interleaved,
    zero_points: super::ZERO_POINTS,
    groups: super::GROUPS,
    is_auto_gptq: false,
};

pub(super) const FLOAT8: &[Activations] = &[Activations::Dynamic, Activations::Static];

/// The types of weights. Others than float4e2m1, float8e4m3fn and integers of 4 and 8 bits are not read: the tensors
/// contradict the claim.
fn claims(claims: &mut Claims, quantization: &Map<String, Value>) {
    let object = |key: &str| quantization.get(key).and_then(Value::as_object);
    let layers = ["layer_quant_config", "layer_type_quant_config"].into_iter().filter_map(object);
    let all = quantization.get("global_quant_config").into_iter().chain(layers.flat_map(Map::values));
    let weights: Vec<&Value> = all.filter_map(|settings| settings.get("weight")).collect();
    let types: Vec<&str> = weights.iter().filter_map(|weight| weight.get("dtype")?.as_str()).collect();
    let format = |data_type: &&str| match *data_type {
        "fp8_e4m3" => WeightFormat::Fp8,
        "int4" | "uint4" => WeightFormat::Int(4),
        "int8" | "uint8" => WeightFormat::Int(8),
        _ => WeightFormat::MxFp4,
    };
    let formats: Vec<WeightFormat> = types.iter().map(format).collect();
    claims.add(if formats.is_empty() { &[WeightFormat::MxFp4] } else { &formats }, "quark");
    let sizes = weights.iter().filter_map(|weight| weight.get("group_size")?.as_u64());
    claims.groups.extend(sizes.map(|size| size as usize));
    if let Some(what) = weights.iter().find_map(|weight| unknown(weight)) {
        return claims.refuse(what, "int4 or uint4 in groups, int8 with a scale for each tensor or row");
    }
    if types.contains(&"int4") && types.contains(&"uint4") {
        return claims.refuse("some layers are int4 and others uint4".to_owned(), "one of them");
    }
    claims.is_signed = types.contains(&"int4");
    let packing = object("export").and_then(|export| export.get("pack_method")?.as_str());
    claims.order = (packing == Some("order")).then_some(ColumnOrder::Across);
}

/// Integers that are not read: the others are in another order of rows and columns, or of words.
fn unknown(weight: &Value) -> Option<String> {
    let text = |key: &str| weight.get(key).and_then(Value::as_str).unwrap_or_default();
    match (text("dtype"), text("qscheme")) {
        ("int4" | "uint4", "per_group") | ("int8", "per_tensor" | "per_channel") => None,
        (data_type @ ("int2" | "uint2" | "int3" | "int4" | "uint4" | "int8" | "uint8"), scheme) => {
            Some(format!("weights are {data_type} with the `qscheme` {scheme}"))
        }
        _ => None,
    }
}

/// vLLM wants every key here, an empty one too.
fn write(written: &[WrittenWeight], kept: &[String]) -> Value {
    let all = written.first().map(settings);
    let differ = written.iter().map(|weight| (weight.module.clone(), settings(weight)));
    let layers: Map<String, Value> = differ.filter(|(_, settings)| Some(settings) != all.as_ref()).collect();
    json!({
        "exclude": kept,
        "export": { "kv_cache_group": [], "pack_method": "reorder", "weight_format": "real_quantized" },
        "global_quant_config": all,
        "layer_quant_config": layers,
        "layer_type_quant_config": {},
        "quant_method": "quark",
    })
}

fn settings(written: &WrittenWeight) -> Value {
    let scheme = match (written.to, written.granularity) {
        (QuantizedFormat::Block(_), _) => {
            return json!({ "weight": {
                "ch_axis": -1, "dtype": "fp4", "group_size": 32, "is_dynamic": false, "qscheme": "per_group",
                "scale_format": "e8m0", "symmetric": null,
            }});
        }
        (_, Granularity::Tensor) => "per_tensor",
        _ => "per_channel",
    };
    let axis = if scheme == "per_channel" { json!(0) } else { json!(null) };
    // vLLM reads float8 only where activations are float8 too (quark.py, `_is_fp8_w8a8`). Those with a scale for each
    // token need no `input_scale`.
    let is_dynamic = written.activations != Activations::Static;
    let (inputs, axis_of_inputs) = if is_dynamic { ("per_channel", json!(1)) } else { ("per_tensor", json!(null)) };
    json!({
        "input_tensors": {
            "ch_axis": axis_of_inputs, "dtype": "fp8_e4m3", "is_dynamic": is_dynamic, "qscheme": inputs,
            "symmetric": true,
        },
        "weight": {
            "ch_axis": axis, "dtype": "fp8_e4m3", "is_dynamic": false, "qscheme": scheme, "symmetric": true,
        },
    })
}
