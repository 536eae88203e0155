//! compressed-tensors, the layout of llm-compressor: groups of modules, each with the settings of its weights.

use super::{
    ALL_THREE, BASE, DYNAMIC, FP8, INT4, INT8, KEPT, KEPT_OR_STATIC, MXFP4, MXFP6, MXFP8, NVFP4, ROWS_OR_COLUMNS,
    TENSOR, TRANSFORMERS, VLLM, WEIGHT, held, names,
};
use crate::layouts::claims::{Claims, KeyValueCache, Symmetry, pair};
use crate::layouts::format::{Activations, Granularity, QuantizedFormat};
use crate::layouts::group::{Group, ModuleName};
use crate::layouts::spec::{
    Calibration, Configuration, GROUPS, GlobalScaleOf, KeptNames, LayoutSpec, Loaders, SHAPE, Scales, ZERO_POINTS,
};
use crate::layouts::weight::{Weight, WeightFormat};
use crate::layouts::written::{Arithmetic, WrittenWeight};
use DataType::{Float8E4M3FN, Float8E8M0, Int4, Int8};
use onnx_cast::DataType;
use onnx_cast::scaled::{BlockFormat, Recipe};
use serde_json::{Map, Value, json};

pub(super) const SPEC: LayoutSpec = LayoutSpec {
    name: "compressed-tensors",
    signs: &["weight_packed"],
    names: &[names("weight_packed", "weight_scale", "weight"), WEIGHT],
    configuration: Some(CONFIGURATION),
    beside: &[ZERO_POINTS, GROUPS, SHAPE],
    held: &[
        // transformers ignores the global scale of experts.
        held(&[NVFP4], &[], ALL_THREE, KEPT_OR_STATIC).experts(&[(VLLM, KEPT_OR_STATIC), (TRANSFORMERS, &[])]),
        // SGLang reads MXFP4 only for experts.
        held(&[MXFP4], &[], Loaders::Are(&[VLLM, TRANSFORMERS]), KEPT).experts(&[(VLLM, KEPT), (TRANSFORMERS, KEPT)]),
        held(&[MXFP8], &[], Loaders::Are(&[VLLM, TRANSFORMERS]), KEPT).experts(&[(VLLM, KEPT), (TRANSFORMERS, &[])]),
        held(&[MXFP6], &[], Loaders::Are(&[TRANSFORMERS]), KEPT),
        // SGLang does not support blocks if activations are not quantized.
        held(&[FP8], &[ROWS_OR_COLUMNS], ALL_THREE, FLOAT8_ACTIVATIONS)
            .experts(&[(VLLM, DYNAMIC), (TRANSFORMERS, FLOAT8_BLOCK_ACTIVATIONS)]),
        held(&[FP8], &[TENSOR], ALL_THREE, FLOAT8_ACTIVATIONS)
            .experts(&[(VLLM, &[Activations::Static]), (TRANSFORMERS, FLOAT8_BLOCK_ACTIVATIONS)]),
        held(&[FP8], &[Scales::Blocks], ALL_THREE, FLOAT8_BLOCK_ACTIVATIONS)
            .experts(&[(VLLM, DYNAMIC), (TRANSFORMERS, &[])]),
        held(&[INT8], &[ROWS_OR_COLUMNS], ALL_THREE, INT8_ACTIVATIONS)
            .experts(&[(VLLM, DYNAMIC), (TRANSFORMERS, KEPT)]),
        held(&[INT8], &[Scales::Groups], ALL_THREE, KEPT).experts(&[(VLLM, KEPT), (TRANSFORMERS, KEPT)]),
        // vLLM and SGLang support a per-tensor scale only if activations are quantized.
        held(&[INT8], &[TENSOR], ALL_THREE, INT8_TENSOR_ACTIVATIONS).experts(&[(VLLM, &[])]),
        held(&[INT4], &[Scales::One(Granularity::Block([1, 32])), Scales::Groups], ALL_THREE, KEPT)
            .experts(&[(VLLM, KEPT), (TRANSFORMERS, KEPT)]),
        held(&[INT4], &[ROWS_OR_COLUMNS], ALL_THREE, KEPT).experts(&[(VLLM, &[])]),
        held(&[INT4], &[TENSOR], Loaders::Are(&[TRANSFORMERS]), KEPT),
    ],
    calibration: Some(Calibration {
        input: "input_scale",
        nvfp4: Some(("input_global_scale", true)),
        cache: Some(["k_scale", "v_scale"]),
    }),
    global: GlobalScaleOf { ending: "weight_global_scale", is_own: true, divides: true, shape: &[1] },
    packs_integers: true,
    keeps_scale_type: true,
    arithmetic: Arithmetic { recipe: Recipe::CompressedTensors, in_weight_type: true },
    counts_scales: true,
    ..BASE
};

const CONFIGURATION: Configuration = Configuration {
    methods: &["compressed-tensors", "auto_round:llm_compressor"],
    key: Some("config_groups"),
    lists: &["ignore"],
    kept: KeptNames::Expressions,
    claims,
    groups: Some(groups),
    write: Some(write),
    cache: Some(cache),
    own_files: &[],
};

/// vLLM and SGLang load each of these. Weights with dynamic activations also load on GPUs without float8, where
/// activations are then not quantized. The default is dynamic, because SGLang loads experts and blocks only with
/// dynamic activations.
const FLOAT8_ACTIVATIONS: &[Activations] = &[Activations::Dynamic, Activations::Kept, Activations::Static];
const FLOAT8_BLOCK_ACTIVATIONS: &[Activations] = &[Activations::Dynamic, Activations::Kept];
/// The default is kept, which loads on every GPU and rounds only the weights.
const INT8_ACTIVATIONS: &[Activations] = &[Activations::Kept, Activations::Dynamic, Activations::Static];
const INT8_TENSOR_ACTIVATIONS: &[Activations] = &[Activations::Dynamic, Activations::Kept, Activations::Static];

/// Reads the bits, kind and granularity of the weights of each group.
fn claims(claims: &mut Claims, quantization: &Map<String, Value>) {
    let groups = quantization.get("config_groups").and_then(Value::as_object);
    for group in groups.into_iter().flat_map(Map::values) {
        let Some(weights) = group.get("weights") else { continue };
        let size = group_size(weights);
        let format = format_of(weights);
        if size > 0 {
            claims.groups.push(size);
        }
        claims.block = claims.block.or(weights.get("block_structure").and_then(pair));
        claims.add(&[format], &format.to_string());
        let targets = group.get("targets").and_then(Value::as_array).into_iter().flatten();
        claims.symmetry.push(Symmetry {
            format,
            layers: targets.filter_map(|name| Some(name.as_str()?.to_owned())).collect(),
            is_symmetric: weights.get("symmetric").and_then(Value::as_bool),
        });
        let activations = group.get("input_activations").filter(|settings| !settings.is_null());
        claims.activations.push((format, activations.cloned()));
        if format == WeightFormat::Fp8 && size == 32 {
            claims.add(&[WeightFormat::MxFp8], "MXFP8");
        }
    }
    claims.cache = KeyValueCache::of(quantization.get("kv_cache_scheme"));
}

/// Returns the format of weights with these settings.
fn format_of(weights: &Value) -> WeightFormat {
    let text = |key: &str| weights.get(key).and_then(Value::as_str);
    let bits = weights.get("num_bits").and_then(Value::as_u64).and_then(|bits| u32::try_from(bits).ok()).unwrap_or(0);
    match (text("type") == Some("float"), bits, group_size(weights)) {
        (true, 4, 16) => WeightFormat::NvFp4,
        (true, 4, _) => WeightFormat::MxFp4,
        (true, 6, _) => WeightFormat::MxFp6,
        (true, _, 32) if text("scale_dtype") == Some("torch.uint8") => WeightFormat::MxFp8,
        (true, ..) => WeightFormat::Fp8,
        (false, ..) => WeightFormat::Int(bits),
    }
}

/// Returns the number of columns of a group; 0 if the settings specify none.
fn group_size(weights: &Value) -> usize {
    weights.get("group_size").and_then(Value::as_u64).unwrap_or(0) as usize
}

/// Reads the modules of each group, the storage format and the activations.
fn groups(quantization: &Map<String, Value>) -> Vec<Group> {
    let of_all = quantization.get("format").and_then(Value::as_str);
    let groups = quantization.get("config_groups").and_then(Value::as_object).into_iter().flat_map(Map::values);
    let group = |group: &Value| {
        let weights = group.get("weights").filter(|weights| !weights.is_null())?;
        let targets = group.get("targets").and_then(Value::as_array)?;
        let targets: Vec<&str> = targets.iter().filter_map(Value::as_str).collect();
        let is_all = targets.contains(&LINEAR);
        let format = group.get("format").and_then(Value::as_str).or(of_all).filter(|format| *format != MIXED);
        let block = match weights.get("strategy").and_then(Value::as_str) {
            Some("tensor") => Some([0, 0]),
            Some("channel") => Some([1, 0]),
            Some("group" | "tensor_group") => Some([1, group_size(weights)]),
            Some("block") => weights.get("block_structure").and_then(pair),
            _ => None,
        };
        let activations = match group.get("input_activations").filter(|settings| !settings.is_null()) {
            None => Activations::Kept,
            Some(settings) if settings.get("dynamic") == Some(&Value::Bool(true)) => Activations::Dynamic,
            Some(_) => Activations::Static,
        };
        Some(Group {
            targets: (!is_all).then(|| targets.into_iter().filter_map(ModuleName::of).collect()),
            format: Some(format_of(weights)),
            stored_as: format.map(|format| (format.to_owned(), names_of as fn(&Weight, bool) -> _)),
            block,
            activations: Some(activations),
        })
    };
    groups.filter_map(group).collect()
}

/// Class of the modules that a group targets, in configurations for all linear layers.
const LINEAR: &str = "Linear";
/// Format of checkpoints whose groups have formats of their own.
const MIXED: &str = "mixed-precision";

/// Returns the names of formats whose weights have tensors like those of a weight.
fn names_of(weight: &Weight, is_packed: bool) -> &'static [&'static str] {
    match (weight.format(), is_packed) {
        (WeightFormat::NvFp4, _) => &["nvfp4-pack-quantized"],
        (WeightFormat::MxFp4, _) => &["mxfp4-pack-quantized"],
        (WeightFormat::MxFp6, _) => &["mxfp6-pack-quantized"],
        (WeightFormat::MxFp8, _) => &["mxfp8-quantized"],
        (WeightFormat::Fp8, _) => &["float-quantized", "naive-quantized"],
        (WeightFormat::Int(_), true) => &["pack-quantized"],
        (WeightFormat::Int(_), false) => &["int-quantized", "naive-quantized"],
        _ => &[],
    }
}

fn cache(config: &mut Value, cache: &KeyValueCache) {
    config["kv_cache_scheme"] = match cache {
        KeyValueCache::Float8 => json!({
            "dynamic": false, "group_size": null, "num_bits": 8, "observer": "minmax", "observer_kwargs": {},
            "strategy": "tensor", "symmetric": true, "type": "float",
        }),
        KeyValueCache::Other(value) => value.clone(),
    };
}

/// Creates the groups, one per format.
fn write(written: &[WrittenWeight], kept: &[String]) -> Value {
    let mut groups: Vec<([Value; 2], &'static str, Vec<&str>)> = Vec::new();
    for one in written {
        let (weights, format) = weights(one);
        let settings = [weights, one.settings.clone().unwrap_or_else(|| input_activations(one))];
        match groups.iter_mut().find(|(known, ..)| *known == settings) {
            Some((.., modules)) => modules.push(&one.module),
            None => groups.push((settings, format, vec![&one.module])),
        }
    }
    let format = match &groups[..] {
        [(_, format, _)] => *format,
        _ => MIXED,
    };
    let is_single = groups.len() == 1;
    let group = |(index, ([weights, inputs], format, modules)): (usize, ([Value; 2], &str, Vec<&str>))| {
        // With a single format, the group targets all Linear layers that are not ignored.
        let targets = if is_single { json!([LINEAR]) } else { json!(modules) };
        let group = json!({
            "format": format, "input_activations": inputs, "output_activations": null, "targets": targets,
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
        QuantizedFormat::Elements(Int8) if written.activations != Activations::Kept => ("int", 8, "int-quantized"),
        QuantizedFormat::Elements(Int4 | Int8) => ("int", written.integers.bits, "pack-quantized"),
        _ => ("float", 8, "float-quantized"),
    };
    let (strategy, group, structure) = match (written.to, written.granularity) {
        (QuantizedFormat::Block(BlockFormat::NvFp4), _) => ("tensor_group", json!(16), json!(null)),
        (QuantizedFormat::Block(_), _) => ("group", json!(32), json!(null)),
        (_, Granularity::Tensor) => ("tensor", json!(null), json!(null)),
        (_, Granularity::Row) => ("channel", json!(null), json!(null)),
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

/// The settings of a group's activations.
fn input_activations(written: &WrittenWeight) -> Value {
    let is_dynamic = match written.activations {
        Activations::Kept => return json!(null),
        activations => activations == Activations::Dynamic,
    };
    let kind = if written.to == QuantizedFormat::Elements(Int8) { "int" } else { "float" };
    let (bits, strategy, group, dynamic, scales) = match (written.to, written.granularity) {
        (QuantizedFormat::Block(_), _) => (4, "tensor_group", json!(16), json!("local"), json!("torch.float8_e4m3fn")),
        _ if !is_dynamic => (8, "tensor", json!(null), json!(false), json!(null)),
        (_, Granularity::Block([_, columns])) => (8, "group", json!(columns), json!(true), json!(null)),
        _ => (8, "token", json!(null), json!(true), json!(null)),
    };
    // What is found while a model runs has no observer.
    let observer = if dynamic == json!(true) { json!(null) } else { json!("minmax") };
    json!({
        "actorder": null, "block_structure": null, "dynamic": dynamic, "group_size": group, "num_bits": bits,
        "observer": observer, "observer_kwargs": {}, "scale_dtype": scales, "strategy": strategy, "symmetric": true,
        "type": kind, "zp_dtype": null,
    })
}
