//! Quark: global settings, and the settings of layers that differ from them.

use super::{ALL_THREE, BASE, FP8, KEPT, MXFP4, ROWS_OR_COLUMNS, TENSOR, TRANSFORMERS, VLLM, held};
use crate::error::FileError;
use crate::layouts::claims::{Claims, Symmetry, pair};
use crate::layouts::describe::scaled;
use crate::layouts::format::{Activations, Granularity, QuantizedFormat};
use crate::layouts::spec::{
    Calibration, ColumnsOfWords, Configuration, Finder, KeptNames, LayoutSpec, Loaders, ZERO_POINTS,
};
use crate::layouts::weight::{ColumnOrder, Weight, WeightFormat};
use crate::layouts::written::WrittenWeight;
use onnx_cast::DataType;
use serde_json::{Map, Value, json};

pub(super) const SPEC: LayoutSpec = LayoutSpec {
    name: "quark",
    configuration: Some(CONFIGURATION),
    beside: &[ZERO_POINTS],
    held: &[
        // SGLang requires float4 activations with it.
        held(&[MXFP4], &[], Loaders::Are(&[VLLM, TRANSFORMERS]), KEPT).experts(&[(TRANSFORMERS, &[])]),
        held(&[FP8], &[TENSOR, ROWS_OR_COLUMNS], ALL_THREE, FLOAT8).experts(&[(TRANSFORMERS, &[])]),
    ],
    describe,
    columns: Some(WORDS),
    has_large_blocks: true,
    tensor_scale: &[],
    has_column_of_scales: false,
    calibration: Some(Calibration { input: "input_scale", nvfp4: None, cache: None }),
    ..BASE
};

/// Describes a weight: integers packed in words, or any other elements with scales.
fn describe(finder: &Finder<'_>, weight: Weight, start: &str) -> Result<Option<Weight>, FileError> {
    match finder.checkpoint.stored(weight.codes.tensor).data_type {
        DataType::Int32 => finder.describe_columns(weight, start, WORDS).map(Some),
        _ => scaled(finder, weight, start),
    }
}

const CONFIGURATION: Configuration = Configuration {
    methods: &["quark"],
    // Quark's own package matches with fnmatch (quark/torch/export/main_export/quant_config_parser.py in amd-quark
    // 0.13), vLLM and SGLang by name or regular expression (quark/utils.py).
    lists: &["exclude"],
    kept: KeptNames::ExpressionsAndGlobs,
    claims,
    write: Some(write),
    ..Configuration::BASE
};

/// 4-bit integers in groups, in AWQ's order unless `pack_method` is `order`.
const WORDS: ColumnsOfWords =
    ColumnsOfWords { order: ColumnOrder::Interleaved, zero_points: ZERO_POINTS, groups: None, is_auto_gptq: false };

const FLOAT8: &[Activations] = &[Activations::Dynamic, Activations::Static];

/// Reads the types of weights. Types other than float4e2m1, float8e4m3fn and integers of 4 and 8 bits are claimed as
/// MXFP4, so they are rejected when the tensors contradict the claim.
fn claims(claims: &mut Claims, quantization: &Map<String, Value>) {
    let object = |key: &str| quantization.get(key).and_then(Value::as_object);
    let layers = ["layer_quant_config", "layer_type_quant_config"].into_iter().filter_map(object);
    let all = quantization.get("global_quant_config").map(|settings| ("", settings)).into_iter();
    let all = all.chain(layers.flatten().map(|(name, settings)| (name.as_str(), settings)));
    let named: Vec<(&str, &Value)> = all.filter_map(|(name, all)| Some((name, specification(all)?))).collect();
    let weights: Vec<&Value> = named.iter().map(|(_, weight)| *weight).collect();
    let types: Vec<&str> = weights.iter().filter_map(|weight| weight.get("dtype")?.as_str()).collect();
    let formats: Vec<WeightFormat> = weights.iter().filter_map(|weight| format(weight)).collect();
    claims.add(if formats.is_empty() { &[WeightFormat::MxFp4] } else { &formats }, "quark");
    let sizes = weights.iter().filter_map(|weight| weight.get("group_size")?.as_u64());
    claims.groups.extend(sizes.map(|size| size as usize));
    claims.blocks.extend(weights.iter().filter_map(|weight| pair(weight.get("block_size")?)));
    if let Some(what) = weights.iter().find_map(|weight| unknown(weight)) {
        return claims.refuse(what, "int4 or uint4 in groups, int8 with a scale for each tensor or row");
    }
    if types.contains(&"int4") && types.contains(&"uint4") {
        return claims.refuse("some layers are int4 and others uint4".to_owned(), "one of them");
    }
    claims.is_signed = types.contains(&"int4");
    claims.symmetry.extend(named.iter().filter_map(|(name, weight)| {
        let format = format(weight)?;
        let is_symmetric = weight.get("symmetric").and_then(Value::as_bool);
        matches!(format, WeightFormat::Int(_)).then(|| Symmetry {
            format,
            layers: vec![(*name).to_owned()],
            is_symmetric,
        })
    }));
    let packing = object("export").and_then(|export| export.get("pack_method")?.as_str());
    claims.order = (packing == Some("order")).then_some(ColumnOrder::Across);
}

/// Returns the settings of a layer's weights. NVFP4 has separate settings for elements and scales; those of the
/// elements are returned.
fn specification(layer: &Value) -> Option<&Value> {
    let weight = layer.get("weight")?;
    let is_of_scales = |settings: &&Value| settings.get("is_scale_quant") == Some(&Value::Bool(true));
    weight.as_array().map_or(Some(weight), |all| all.iter().find(|settings| !is_of_scales(settings)))
}

/// Returns the format of weights with these settings.
fn format(weight: &Value) -> Option<WeightFormat> {
    let (group, scales) = (weight.get("group_size").and_then(Value::as_u64), weight.get("scale_format"));
    let has_powers = scales.and_then(Value::as_str).is_some_and(|scales| scales.contains("e8m0"));
    Some(match weight.get("dtype")?.as_str()? {
        "fp8_e4m3" if group == Some(32) && has_powers => WeightFormat::MxFp8,
        "fp8_e4m3" => WeightFormat::Fp8,
        "int4" | "uint4" => WeightFormat::Int(4),
        "int8" | "uint8" => WeightFormat::Int(8),
        "fp4" if group == Some(16) => WeightFormat::NvFp4,
        _ => WeightFormat::MxFp4,
    })
}

/// Describes unsupported integers, which have another order of rows and columns, or of words.
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

/// Creates the description. vLLM requires all of these keys, even if they are empty.
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

/// Creates the settings of a layer. Quark's own package requires all of these keys, even if they are null, and an
/// observer that fits the granularity.
fn settings(written: &WrittenWeight) -> Value {
    let tensors = |data_type: &str, scheme: &str, axis: Value, is_dynamic: bool| {
        let (group, format, observer) = match scheme {
            "per_group" => (json!(32), json!("e8m0"), "PerBlockMXObserver"),
            "per_channel" => (json!(null), json!(null), "PerChannelMinMaxObserver"),
            _ => (json!(null), json!(null), "PerTensorMinMaxObserver"),
        };
        let symmetric = if scheme == "per_group" { json!(null) } else { json!(true) };
        json!({
            "ch_axis": axis, "dtype": data_type, "group_size": group, "is_dynamic": is_dynamic,
            "observer_cls": observer, "qscheme": scheme, "round_method": "half_even", "scale_format": format,
            "scale_type": "float", "symmetric": symmetric,
        })
    };
    let (inputs, weight) = match (written.to, written.granularity) {
        (QuantizedFormat::Block(_), _) => (json!(null), tensors("fp4", "per_group", json!(-1), false)),
        (_, granularity) => {
            // vLLM reads float8 weights only with float8 activations (quark.py, `_is_fp8_w8a8`). Activations with a
            // scale per token need no `input_scale`.
            let inputs = match written.activations {
                Activations::Static => tensors("fp8_e4m3", "per_tensor", json!(null), false),
                _ => tensors("fp8_e4m3", "per_channel", json!(1), true),
            };
            let weight = match granularity {
                Granularity::Tensor => tensors("fp8_e4m3", "per_tensor", json!(null), false),
                _ => tensors("fp8_e4m3", "per_channel", json!(0), false),
            };
            (inputs, weight)
        }
    };
    json!({ "bias": null, "input_tensors": inputs, "output_tensors": null, "weight": weight })
}
