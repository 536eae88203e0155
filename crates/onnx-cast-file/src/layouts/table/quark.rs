//! The configuration of Quark: the settings of all layers, and of those that differ.

use crate::layouts::claims::Claims;
use crate::layouts::format::{Activations, Granularity, QuantizedFormat};
use crate::layouts::row::{Configuration, KeptNames};
use crate::layouts::weight::WeightFormat;
use crate::layouts::written::WrittenWeight;
use serde_json::{Map, Value, json};

pub(super) const CONFIGURATION: Configuration = Configuration {
    methods: &["quark"],
    kept: KeptNames::Expressions,
    claims,
    write: Some(write),
    ..Configuration::BASE
};

pub(super) const FLOAT8: &[Activations] = &[Activations::Dynamic, Activations::Static];

/// The types of weights. Others than float4e2m1 and float8e4m3fn are not read: the tensors contradict the claim.
fn claims(claims: &mut Claims, quantization: &Map<String, Value>) {
    let object = |key: &str| quantization.get(key).and_then(Value::as_object);
    let layers = ["layer_quant_config", "layer_type_quant_config"].into_iter().filter_map(object);
    let all = quantization.get("global_quant_config").into_iter().chain(layers.flat_map(Map::values));
    let types: Vec<&str> = all.filter_map(|settings| settings.get("weight")?.get("dtype")?.as_str()).collect();
    let has_float8 = types.contains(&"fp8_e4m3");
    if !has_float8 || types.iter().any(|data_type| *data_type != "fp8_e4m3") {
        claims.add(&[WeightFormat::MxFp4], "quark");
    }
    if has_float8 {
        claims.add(&[WeightFormat::Fp8], "quark");
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
