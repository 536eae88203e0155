//! ModelOpt: one algorithm for all layers or one per layer, specified in `config.json` and in a file of its own.

use super::deepseek::EXPERTS_ALGORITHM;
use super::{
    AS_MATRICES, BASE, DYNAMIC, FP8, KEPT, KEPT_OR_STATIC, MXFP4, MXFP8, NVFP4, ROWS_OR_COLUMNS, SGLANG, SQUARES,
    TENSOR, VLLM, held, names,
};
use crate::glob::{self, Regex};
use crate::layouts::claims::{Claims, KeyValueCache};
use crate::layouts::format::{Activations, Granularity, QuantizedFormat};
use crate::layouts::group::{Group, ModuleName};
use crate::layouts::spec::{Calibration, Configuration, EXPERTS, Experts, KeptNames, LayoutSpec, Loaders, OwnFile};
use crate::layouts::weight::WeightFormat;
use crate::layouts::written::{Order, WrittenWeight};
use onnx_cast::scaled::BlockFormat;
use serde_json::{Map, Value, json};

pub(super) const SPEC: LayoutSpec = LayoutSpec {
    name: "modelopt",
    signs: &["weight_scale_2"],
    experts: Some(Experts {
        names: &[
            names(EXPERTS[0], "gate_up_proj_weight_scale", EXPERTS[0]),
            names(EXPERTS[1], "down_proj_weight_scale", EXPERTS[1]),
        ],
        order: Order::Down,
        only: Some((
            &[held(&[NVFP4], &[], LOADERS, KEPT_OR_STATIC), held(&[FP8], &[TENSOR], LOADERS, CALIBRATED)],
            "experts in one tensor have nvfp4, or float8e4m3fn with a scale for the tensor",
        )),
        ..AS_MATRICES
    }),
    configuration: Some(CONFIGURATION),
    held: &[
        held(
            &[MXFP4],
            &[],
            Loaders::None("vLLM and SGLang refuse it (want the layout compressed-tensors or quark)"),
            KEPT,
        ),
        held(&[NVFP4], &[], LOADERS, KEPT_OR_STATIC).experts(&[(VLLM, KEPT_OR_STATIC)]),
        held(&[MXFP8], &[], LOADERS, DYNAMIC).experts(&[(VLLM, DYNAMIC)]),
        held(&[FP8], &[ROWS_OR_COLUMNS, SQUARES], Loaders::Are(&[VLLM]), DYNAMIC).experts(&[(VLLM, &[])]),
        held(&[FP8], &[TENSOR], LOADERS, CALIBRATED),
    ],
    tensor_scale: &[],
    has_column_of_scales: false,
    has_axes_between: true,
    has_short_columns: false,
    calibration: Some(Calibration {
        input: "input_scale",
        nvfp4: Some(("input_scale", false)),
        cache: Some(["k_proj.k_scale", "v_proj.v_scale"]),
    }),
    ..BASE
};

const CONFIGURATION: Configuration = Configuration {
    methods: &["modelopt*"],
    key: Some("quant_algo"),
    lists: LISTS,
    kept: KeptNames::Globs,
    claims,
    groups: Some(groups),
    write: Some(write),
    cache: Some(cache),
    own_files: &[OwnFile {
        name: "hf_quant_config.json",
        key: "quantization",
        has_model: false,
        write: Some(own_file),
        cache: Some(cache_of_own),
        contradiction: Some(contradiction),
    }],
};

/// Keys of the list of kept modules: those of ModelOpt's files, and that of edited files.
const LISTS: &[&str] = &["ignore", "exclude_modules", "modules_to_not_convert"];

const LOADERS: Loaders = Loaders::Are(&[VLLM, SGLANG]);
/// If `input_scale` is missing, loaders use the smallest float instead.
const CALIBRATED: &[Activations] = &[Activations::Static];

/// Reads the algorithm of all layers or of each layer.
fn claims(claims: &mut Claims, quantization: &Map<String, Value>) {
    let Some(algorithm) = quantization.get("quant_algo").and_then(Value::as_str) else { return };
    if let Some(size) = quantization.get("group_size").and_then(Value::as_u64) {
        claims.groups.push(size as usize);
    }
    if let Some(format) = format_of(algorithm, claims) {
        claims.add(&[format], algorithm);
        if algorithm.to_ascii_uppercase().contains("A16") {
            claims.activations.push((format, None));
        }
    }
    let cache = ["kv_cache_scheme", "kv_cache_quant_algo"].iter().find_map(|key| quantization.get(*key));
    claims.cache = claims.cache.take().or(KeyValueCache::of(cache));
    let layers = quantization.get("quantized_layers").and_then(Value::as_object);
    let has_zero_points = |settings: &Value| settings.get("has_zero_point") == Some(&Value::Bool(true));
    if quantization.get("has_zero_point") == Some(&Value::Bool(true))
        || layers.is_some_and(|layers| layers.values().any(has_zero_points))
    {
        return claims.refuse("`has_zero_point` is true".to_owned(), "false: no tensor of zero points is known");
    }
    for (name, layer) in layers.into_iter().flatten() {
        let algorithm = layer.get("quant_algo").and_then(Value::as_str).unwrap_or_default();
        if let Some(format) = format_of(algorithm, claims) {
            claims.layers.insert(name.clone(), format);
        }
    }
}

/// Reads how the algorithm, or that of each layer, quantizes activations.
fn groups(quantization: &Map<String, Value>) -> Vec<Group> {
    let group = |algorithm: &Value, targets| {
        let activations = match &*algorithm.as_str()?.to_ascii_uppercase() {
            "NVFP4" | "FP8" => Activations::Static,
            "FP8_PER_CHANNEL_PER_TOKEN" | "MXFP8" => Activations::Dynamic,
            algorithm if algorithm.contains("A16") => Activations::Kept,
            _ => return None,
        };
        Some(Group { targets, format: None, stored_as: None, block: None, activations: Some(activations) })
    };
    let layers = quantization.get("quantized_layers").and_then(Value::as_object);
    let layers = layers
        .into_iter()
        .flatten()
        .filter_map(|(name, layer)| group(layer.get("quant_algo")?, Some(vec![ModuleName::Name(name.clone())])));
    let all = quantization.get("quant_algo").and_then(|algorithm| group(algorithm, None));
    layers.chain(all).collect()
}

/// Finds a contradiction between `quantization_config` and ModelOpt's own file.
fn contradiction(config: &Map<String, Value>, own: &Map<String, Value>) -> Option<[String; 3]> {
    let differ =
        |key: &str, first: &Value, second: &Value| Some([key.to_owned(), first.to_string(), second.to_string()]);
    let text = |object: &Map<String, Value>, key: &str| Some(object.get(key)?.as_str()?.to_ascii_uppercase());
    match text(config, "quant_method") {
        // Both files describe the experts; `quant_method` describes the other weights.
        Some(_) if config.contains_key(EXPERTS_ALGORITHM) => return None,
        Some(method) if !method.starts_with("MODELOPT") => {
            return own.get("quant_algo").and_then(|algorithm| {
                differ("quant_algo", &format!("{} (quant_method)", method.to_lowercase()).into(), algorithm)
            });
        }
        _ => {}
    }
    for key in ["quant_algo", "group_size"] {
        let (first, second) = (value_of(config, key), value_of(own, key));
        if let (Some(first), Some(second)) = (first, second)
            && !first.to_string().eq_ignore_ascii_case(&second.to_string())
        {
            return differ(key, first, second);
        }
    }
    let caches = [config.get("kv_cache_scheme"), own.get("kv_cache_quant_algo")];
    if let [Some(first), Some(second)] = caches.map(KeyValueCache::of)
        && (first == KeyValueCache::Float8) != (second == KeyValueCache::Float8)
    {
        let [first, second] = caches.map(|value| value.cloned().unwrap_or_default());
        return differ("kv_cache_quant_algo", &first, &second);
    }
    if let [Some((_, first)), Some((key, second))] = [config, own].map(kept_by) {
        let is_known = |name: &str, others: &[&str]| others.iter().any(|other| fits(name, other) || fits(other, name));
        if let Some(name) = second.iter().find(|name| !is_known(name, &first)) {
            return Some([key.to_owned(), format!("without `{name}`"), format!("with `{name}`")]);
        }
        if let Some(name) = first.iter().find(|name| !is_known(name, &second)) {
            return Some([key.to_owned(), format!("with `{name}`"), format!("without `{name}`")]);
        }
    }
    let layers = |object: &'_ Map<String, Value>| object.get("quantized_layers")?.as_object().cloned();
    let (first, second) = (layers(config)?, layers(own)?);
    first.iter().find_map(|(name, layer)| {
        let [first, second] = [layer, second.get(name)?].map(|layer| layer.get("quant_algo").cloned());
        let (first, second) = (first?, second?);
        (first != second).then(|| differ(name, &first, &second))?
    })
}

/// Returns the list of kept modules.
fn kept_by(object: &Map<String, Value>) -> Option<(&'static str, Vec<&str>)> {
    let (key, list) = LISTS.iter().find_map(|key| Some((*key, object.get(*key)?.as_array()?)))?;
    Some((key, list.iter().filter_map(Value::as_str).collect()))
}

/// Returns whether a name equals an entry of the list or matches its pattern.
fn fits(name: &str, pattern: &str) -> bool {
    let expression = || Regex::new(&glob::to_regex(pattern).ok()?).ok();
    name == pattern || pattern.contains('*') && expression().is_some_and(|expression| expression.is_match(name))
}

/// Returns a value other than null. The group size may be that of the only group.
fn value_of<'o>(object: &'o Map<String, Value>, key: &str) -> Option<&'o Value> {
    let only = || {
        let groups = object.get("config_groups")?.as_object()?;
        groups.values().next().filter(|_| groups.len() == 1)?.get("weights")?.get(key)
    };
    object.get(key).or_else(only).filter(|value| !value.is_null())
}

fn format_of(algorithm: &str, claims: &mut Claims) -> Option<WeightFormat> {
    let algorithm = &*algorithm.to_ascii_uppercase();
    if algorithm.starts_with("FP8_PB") {
        // The name implies this block size, which the configuration does not repeat.
        claims.block = claims.block.or(Some([128, 128]));
    }
    Some(match algorithm {
        _ if algorithm.contains("NVFP4") => WeightFormat::NvFp4,
        _ if algorithm.contains("MXFP4") => WeightFormat::MxFp4,
        "MXFP8" => WeightFormat::MxFp8,
        _ if algorithm.starts_with("FP8") => WeightFormat::Fp8,
        "W4A16_AWQ" | "W4A8_AWQ" | "INT4_AWQ" | "W4A16" | "INT4" => WeightFormat::Int(4),
        _ => return None,
    })
}

fn write(written: &[WrittenWeight], kept: &[String]) -> Value {
    let mut config = json!({ "ignore": excluded(written, kept), "quant_method": "modelopt" });
    describe(&mut config, written);
    config
}

fn own_file(written: &[WrittenWeight], kept: &[String]) -> Value {
    let mut quantization = json!({ "exclude_modules": excluded(written, kept), "kv_cache_quant_algo": null });
    describe(&mut quantization, written);
    json!({ "producer": { "name": "modelopt" }, "quantization": quantization })
}

fn cache(config: &mut Value, cache: &KeyValueCache) {
    config["kv_cache_scheme"] = match cache {
        KeyValueCache::Float8 => json!({ "dynamic": false, "num_bits": 8, "type": "float" }),
        KeyValueCache::Other(value) => value.clone(),
    };
}

fn cache_of_own(file: &mut Value, cache: &KeyValueCache) {
    let algorithm = match cache {
        KeyValueCache::Float8 => json!("FP8"),
        KeyValueCache::Other(value) if value["num_bits"] == 4 => json!("NVFP4"),
        KeyValueCache::Other(value) => value.clone(),
    };
    file["quantization"]["kv_cache_quant_algo"] = algorithm;
}

/// Adds the algorithm, the group size, and the entries of layers that differ.
fn describe(config: &mut Value, written: &[WrittenWeight]) {
    let (all, layers) = algorithms(written);
    config["quant_algo"] = all.into();
    match (layers, written.first().and_then(group_size)) {
        (Some(layers), _) => config["quantized_layers"] = layers,
        (None, Some(size)) => config["group_size"] = size.into(),
        _ => {}
    }
}

/// Returns the number of columns of a group, for MX and NVFP4.
fn group_size(written: &WrittenWeight) -> Option<usize> {
    match written.to {
        QuantizedFormat::Block(format) => Some(format.block()),
        QuantizedFormat::Elements(_) | QuantizedFormat::Gguf(_) => None,
    }
}

/// The names of modules that are kept, as patterns that mean no other module. vLLM also excludes each module whose name
/// contains one of these, and both loaders take brackets: `mlp.gat[e]` is the router, and not `mlp.gate_up_proj`, which
/// vLLM makes of `gate_proj` and `up_proj`.
fn excluded(written: &[WrittenWeight], kept: &[String]) -> Vec<String> {
    let mut others: Vec<&str> = written.iter().map(|weight| &*weight.module).collect();
    let joined: Vec<String> = others.iter().map(|module| module.replace("gate_proj", "gate_up_proj")).collect();
    others.extend(joined.iter().map(String::as_str));
    let pattern = |name: &String| match name.char_indices().last() {
        Some((last, letter))
            if letter.is_ascii_alphanumeric() && others.iter().any(|other| other.contains(&**name)) =>
        {
            format!("{}[{letter}]", &name[..last])
        }
        _ => name.clone(),
    };
    kept.iter().map(pattern).collect()
}

/// Returns the algorithm of all weights, or, if they differ, the algorithm of each.
fn algorithms(written: &[WrittenWeight]) -> (&'static str, Option<Value>) {
    let first = written.first().map_or("", algorithm);
    if written.iter().all(|weight| algorithm(weight) == first) {
        return (first, None);
    }
    let layer = |weight: &WrittenWeight| {
        let mut settings = json!({ "quant_algo": algorithm(weight) });
        if let Some(size) = group_size(weight) {
            settings["group_size"] = size.into();
        }
        (weight.module.clone(), settings)
    };
    ("MIXED_PRECISION", Some(Value::Object(written.iter().map(layer).collect())))
}

/// ModelOpt's name for the format of a weight.
fn algorithm(written: &WrittenWeight) -> &'static str {
    match (written.to, written.granularity) {
        (QuantizedFormat::Block(BlockFormat::NvFp4), _) if written.activations == Activations::Static => "NVFP4",
        (QuantizedFormat::Block(BlockFormat::NvFp4), _) => "W4A16_NVFP4",
        (QuantizedFormat::Block(_), _) => "MXFP8",
        (_, Granularity::Tensor) => "FP8",
        (_, Granularity::Row) => "FP8_PER_CHANNEL_PER_TOKEN",
        (_, Granularity::Block(_)) => "FP8_PB_WO",
    }
}
