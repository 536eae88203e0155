//! Do models as people have them get the layers, lists and configurations that loaders need?
//!
//! `testkit/data/loaders.json` has tiny models as names and shapes, and what transformers' loader found right
//! (`scripts/checks/loaders/fixtures.py`). The rules of compressed-tensors 0.20 and of vLLM 0.33, which do not run here,
//! are assertions over what is written. Sources: compressed_tensors/utils/match.py; in vLLM
//! model_executor/layers/quantization, compressed_tensors/ and modelopt.py.

use crate::common::families;

use families::{Family, Parts, Written, families, quantized};
use onnx_cast_file::{Granularity, Layout};
use regex::Regex;
use safetensors::Dtype;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

/// Whether a list of compressed-tensors has a module: by its name, or by an expression that matches its start.
fn is_listed(list: &[String], module: &str) -> bool {
    list.iter().any(|entry| match entry.strip_prefix("re:") {
        Some(expression) => Regex::new(&format!("^(?:{expression})")).expect("an expression").is_match(module),
        None => entry == module,
    })
}

const COMPRESSED_TENSORS: &[(&str, Option<Granularity>)] = &[
    ("nvfp4", None),
    ("mxfp4", None),
    ("mxfp8", None),
    ("int4", None),
    ("int8", None),
    ("float8e4m3fn", None),
    ("float8e4m3fn", Some(Granularity::Tensor)),
    ("float8e4m3fn", Some(Granularity::Block([128, 128]))),
];

/// A family, a type and its granularity, and what is written of it.
type Case = (Family, &'static str, Option<Granularity>, Written);

/// Each family in each type of these, made once for all tests.
static WRITTEN: LazyLock<Vec<Case>> = LazyLock::new(|| {
    let each = |family: Family| {
        COMPRESSED_TENSORS.iter().filter_map(move |(to, granularity)| {
            let written = quantized(&family, to, Layout::CompressedTensors, *granularity)?;
            Some((family.clone(), *to, *granularity, written))
        })
    };
    families().into_iter().flat_map(each).collect()
});

/// Returns whether a module is an expert that the checkpoint stores in one tensor with its siblings.
fn is_split(family: &Family, module: &str) -> bool {
    let joined = module.split_once(".experts.").map(|(layer, _)| format!("{layer}.experts.gate_up_proj"));
    joined.is_some_and(|joined| family.tensors.iter().any(|(name, _)| *name == joined))
}

#[test]
fn no_module_of_a_whole_model_is_missing() {
    for (family, to, _, written) in WRITTEN.iter() {
        assert_eq!(written.missing, [""; 0], "{}, {to}", family.name);
    }
}

#[test]
fn each_family_gets_the_layers_that_transformers_found_right() {
    for family in families() {
        if family.to.is_empty() {
            for (to, granularity) in COMPRESSED_TENSORS {
                let written = quantized(&family, to, Layout::CompressedTensors, *granularity);
                assert!(written.is_none(), "{}, {to}", family.name);
            }
            continue;
        }
        let written = quantized(&family, &family.to, Layout::CompressedTensors, None).expect("quantized layers");
        let (split, found): (BTreeSet<String>, BTreeSet<String>) =
            written.quantized().map(|(module, _)| module.clone()).partition(|module| is_split(&family, module));
        assert_eq!(found, family.quantized, "{}", family.name);
        let ignore: BTreeSet<String> = written.ignore().into_iter().collect();
        // The list was made when joined experts were not yet quantized.
        let is_meant = |entry: &&String| split.is_empty() || !entry.contains("experts");
        let want: BTreeSet<String> = family.ignore.iter().filter(is_meant).cloned().collect();
        assert_eq!(ignore, want, "{}", family.name);
    }
}

/// transformers makes every Linear layer that no entry of `ignore` names a quantized one: its tensors must be there,
/// and those of a layer that is named must be plain.
#[test]
fn ignore_names_the_linear_layers_that_are_kept() {
    for (family, to, _, written) in WRITTEN.iter() {
        let ignore = written.ignore();
        for (module, stored) in &family.linears {
            let is_quantized = stored.as_ref().is_some_and(|stored| written.is_quantized(stored));
            let is_ignored = is_listed(&ignore, module);
            assert_ne!(is_quantized, is_ignored, "{}, {to}: {module}, ignore {ignore:?}", family.name);
        }
        let linears: BTreeSet<_> = family.linears.iter().filter_map(|(_, stored)| stored.as_ref()).collect();
        let others = written.quantized().map(|(module, _)| module);
        let others = others.filter(|module| !is_split(family, module));
        let others: Vec<_> =
            others.filter(|module| !linears.contains(module) && !family.merged.contains(*module)).collect();
        assert!(others.is_empty(), "{}, {to}: {others:?} are no Linear layers", family.name);
    }
}

/// What is written of a model of a type, in FP8 by rows, whose matrices all have the same shape.
fn written(model: &str, modules: &[&str]) -> Written {
    let names = modules.iter().map(|module| (format!("{module}.weight"), vec![64, 64]));
    let family = Family {
        name: model.to_owned(),
        config: json!({"model_type": model}),
        tensors: names.collect(),
        linears: Vec::new(),
        to: String::new(),
        quantized: BTreeSet::new(),
        merged: BTreeSet::new(),
        ignore: BTreeSet::new(),
    };
    quantized(&family, "float8e4m3fn", Layout::CompressedTensors, None).expect("quantized layers")
}

/// Modules that are kept are named as loaders know them: with another beginning, where the model has parts that are
/// renamed, by an expression that matches nothing that is quantized; and copies that have no tensor.
#[test]
fn ignore_names_what_loaders_rename() {
    let quantized = ["decoder.mlps.0.layers.0", "decoder.layers.0.fc1"];
    let kept = ["vision_encoder.blocks.0.proj", "decoder.box_head.layers.0", "encoder.out"];
    let found = written("some", &[&quantized[..], &kept[..]].concat());
    let ignore = found.ignore();
    for module in quantized {
        assert!(found.is_quantized(module), "{module}");
        assert!(!is_listed(&ignore, module), "{module}, ignore {ignore:?}");
    }
    for module in kept.iter().flat_map(|module| [(*module).to_owned(), format!("model.{module}")]) {
        assert!(!found.is_quantized(&module) && is_listed(&ignore, &module), "{module}, ignore {ignore:?}");
    }
    let norm = "model.layers.0.input_layernorm";
    let ignore = written("axk2", &["model.layers.0.mlp.fc", &format!("{norm}.W_down")]).ignore();
    for module in ["W_down", "mlp.fc1"].map(|last| format!("{norm}.{last}")) {
        assert!(is_listed(&ignore, &module), "{module}, ignore {ignore:?}");
    }
    let ignore = written("hy_v4_vl", &["model.layers.0.mlp.up_proj", "vit.layers.0.mlp.fc"]).ignore();
    assert!(is_listed(&ignore, "model.vision_tower.layers.0.mlp.fc1"), "{ignore:?}");
    let ignore =
        written("bark", &["fine_acoustics.layers.0.mlp.in_proj", "fine_acoustics.input_embeds_layers.1"]).ignore();
    assert!(is_listed(&ignore, "fine_acoustics.lm_heads.0"), "{ignore:?}");
    let ignore = written("some", &["model.layers.0.fc1", "model.decoder.bbox_embed.0.layers.0"]).ignore();
    for module in ["bbox_embed.1.layers.2", "model.decoder.bbox_embed.0.layers.0"] {
        assert!(is_listed(&ignore, module), "{module}, ignore {ignore:?}");
    }
}

/// Matrices that vLLM joins, from `packed_modules_mapping` of its models.
const JOINED: &[&[&str]] = &[
    &["q_proj", "k_proj", "v_proj"],
    &["gate_proj", "up_proj"],
    &["w1", "w3"],
    &["q_a_proj", "kv_a_proj_with_mqa"],
    &["query", "key", "value"],
    &["in_proj_qkv", "in_proj_z"],
    &["in_proj_b", "in_proj_a"],
];

/// `should_ignore_layer`: the shards of a joined matrix are all quantized or none, or vLLM stops. They have one global
/// scale in NVFP4, and one per-tensor scale in FP8, because it keeps the largest and drops the others.
#[test]
fn joined_matrices_are_quantized_together_with_one_scale() {
    for (family, to, granularity, written) in WRITTEN.iter() {
        let ignore = written.ignore();
        for (module, shards) in written.modules.keys().filter_map(|module| {
            let (parent, last) = module.rsplit_once('.')?;
            let shards = JOINED.iter().find(|shards| shards[0] == last)?;
            Some((module, shards.iter().map(|shard| format!("{parent}.{shard}")).collect::<Vec<_>>()))
        }) {
            let shards: Vec<_> = shards.into_iter().filter(|shard| written.modules.contains_key(shard)).collect();
            let place = format!("{}, {to}: {module}", family.name);
            let states: BTreeSet<_> = shards.iter().map(|shard| written.is_quantized(shard)).collect();
            assert_eq!(states.len(), 1, "{place}: some shards are quantized");
            let listed: BTreeSet<_> = shards.iter().map(|shard| is_listed(&ignore, shard)).collect();
            assert_eq!(listed.len(), 1, "{place}: some shards are ignored");
            let part = match (*to, granularity) {
                ("nvfp4", _) => "weight_global_scale",
                ("float8e4m3fn", Some(Granularity::Tensor)) => "weight_scale",
                _ => continue,
            };
            let scales: BTreeSet<_> =
                shards.iter().filter_map(|shard| written.modules[shard].get(part)).map(|part| &part.2).collect();
            assert!(scales.len() < 2, "{place}: {} scales", scales.len());
        }
    }
}

/// The parameters that vLLM's schemes create for a matrix of `n` rows and `k` columns, and what it asks of the
/// configuration to choose the scheme. It copies scales of bfloat16 into its own of float, without a loss.
#[test]
fn compressed_tensors_are_what_vllm_creates() {
    for (family, to, granularity, written) in WRITTEN.iter() {
        let config = &written.config;
        assert_eq!(config["quant_method"], "compressed-tensors");
        let groups: Vec<&Value> = config["config_groups"].as_object().expect("groups").values().collect();
        assert_eq!(groups.len(), 1);
        let (weights, wanted) = scheme(to, *granularity);
        for (key, value) in weights.as_object().expect("an object") {
            assert_eq!(&groups[0]["weights"][key], value, "{}, {to}: {key}", family.name);
        }
        assert_eq!(groups[0]["targets"], json!(["Linear"]));
        assert_eq!(config["format"], groups[0]["format"]);
        let shapes: BTreeMap<_, _> = family.tensors.iter().map(|(name, shape)| (name.as_str(), shape)).collect();
        for (module, parts) in written.quantized().filter(|(module, _)| !is_split(family, module)) {
            let shape = shapes[format!("{module}.weight").as_str()];
            let wanted: BTreeMap<_, _> = wanted(shape[0], shape[1]).into_iter().collect();
            assert_eq!(created(parts), wanted, "{}, {to}: {module} of {shape:?}", family.name);
        }
    }
}

/// Whether vLLM and SGLang leave a module as it is: by its name, a part of it, or a pattern of fnmatch.
fn is_excluded(list: &[String], module: &str) -> bool {
    list.iter().any(|entry| {
        let pattern = entry.replace('.', "\\.").replace('*', ".*");
        module.contains(&**entry) || Regex::new(&format!("^(?:{pattern})$")).expect("an expression").is_match(module)
    })
}

/// `LINEAR_ALGOS` of vLLM's modelopt.py, and the parameters that it creates for each.
#[test]
fn modelopt_is_what_vllm_creates() {
    let blocks = Some(Granularity::Block([128, 128]));
    let formats: [(&str, Option<Granularity>, &str, Parameters); 4] = [
        ("nvfp4", None, "W4A16_NVFP4", |n, k| {
            vec![
                ("weight", (Dtype::U8, vec![n, k / 2])),
                ("weight_scale", (Dtype::F8_E4M3, vec![n, k / 16])),
                ("weight_scale_2", (Dtype::F32, vec![])),
            ]
        }),
        ("mxfp8", None, "MXFP8", |n, k| {
            vec![("weight", (Dtype::F8_E4M3, vec![n, k])), ("weight_scale", (Dtype::U8, vec![n, k / 32]))]
        }),
        ("float8e4m3fn", None, "FP8_PER_CHANNEL_PER_TOKEN", |n, k| {
            vec![("weight", (Dtype::F8_E4M3, vec![n, k])), ("weight_scale", (Dtype::F32, vec![n]))]
        }),
        ("float8e4m3fn", blocks, "FP8_PB_WO", |n, k| {
            let scales = vec![n.div_ceil(128), 1, k / 128, 1];
            vec![("weight", (Dtype::F8_E4M3, vec![n, k])), ("weight_scale", (Dtype::F32, scales))]
        }),
    ];
    for family in families().iter().filter(|family| family.config["model_type"] == "llama" || is_of_experts(family)) {
        let shapes: BTreeMap<_, _> = family.tensors.iter().map(|(name, shape)| (name.as_str(), shape)).collect();
        for (to, granularity, algorithm, wanted) in &formats {
            let columns = |module: &String| shapes[format!("{module}.weight").as_str()][1];
            if *granularity == blocks && !family.quantized.iter().all(|module| columns(module).is_multiple_of(128)) {
                continue;
            }
            let written = quantized(family, to, Layout::ModelOpt, *granularity).expect("quantized layers");
            let place = format!("{}, {algorithm}", family.name);
            assert_eq!(written.config["quant_algo"], *algorithm, "{place}");
            assert_eq!(written.config["quant_method"], "modelopt", "{place}");
            let excluded = written.ignore();
            for (module, parts) in written.quantized() {
                let shape = shapes[format!("{module}.weight").as_str()];
                assert_eq!(created(parts), wanted(shape[0], shape[1]).into_iter().collect(), "{place}: {module}");
                assert!(!is_excluded(&excluded, module), "{place}: {module} is excluded by {excluded:?}");
            }
            let kept = family.linears.iter().filter_map(|(_, stored)| stored.as_ref());
            for module in kept.filter(|module| !written.is_quantized(module)) {
                assert!(is_excluded(&excluded, module), "{place}: {module} is kept, and not in {excluded:?}");
            }
        }
    }
}

fn is_of_experts(family: &Family) -> bool {
    family.quantized.iter().any(|module| module.contains(".experts."))
}

/// Types and shapes of what is written for a module.
fn created(parts: &Parts) -> BTreeMap<&str, (Dtype, Vec<usize>)> {
    let parts = parts.iter().filter(|(part, _)| *part != "bias");
    parts.map(|(part, (kind, shape, _))| (part.as_str(), (*kind, shape.clone()))).collect()
}

/// The parameters of a matrix of so many rows and columns.
type Parameters = fn(usize, usize) -> Created;

type Created = Vec<(&'static str, (Dtype, Vec<usize>))>;

/// The fields of `weights` by which vLLM tells a scheme, and the parameters of the scheme.
fn scheme(to: &str, granularity: Option<Granularity>) -> (Value, Parameters) {
    match (to, granularity) {
        ("nvfp4", _) => (
            json!({"type": "float", "num_bits": 4, "strategy": "tensor_group", "group_size": 16, "symmetric": true}),
            |n, k| {
                vec![
                    ("weight_packed", (Dtype::U8, vec![n, k / 2])),
                    ("weight_scale", (Dtype::F8_E4M3, vec![n, k / 16])),
                    ("weight_global_scale", (Dtype::F32, vec![1])),
                ]
            },
        ),
        ("mxfp4", _) => (
            json!({"type": "float", "num_bits": 4, "strategy": "group", "group_size": 32, "symmetric": true}),
            |n, k| vec![("weight_packed", (Dtype::U8, vec![n, k / 2])), ("weight_scale", (Dtype::U8, vec![n, k / 32]))],
        ),
        ("mxfp8", _) => (
            json!({
                "type": "float", "num_bits": 8, "strategy": "group", "group_size": 32, "symmetric": true,
                "scale_dtype": "torch.uint8",
            }),
            |n, k| vec![("weight", (Dtype::F8_E4M3, vec![n, k])), ("weight_scale", (Dtype::U8, vec![n, k / 32]))],
        ),
        ("int4", _) => {
            (json!({"type": "int", "num_bits": 4, "strategy": "group", "symmetric": true, "dynamic": false}), |n, k| {
                vec![
                    ("weight_packed", (Dtype::I32, vec![n, k / 8])),
                    ("weight_scale", (Dtype::BF16, vec![n, k / 32])),
                    ("weight_shape", (Dtype::I64, vec![2])),
                ]
            })
        }
        ("int8", _) => (
            json!({"type": "int", "num_bits": 8, "strategy": "channel", "symmetric": true, "dynamic": false}),
            |n, k| {
                vec![
                    ("weight_packed", (Dtype::I32, vec![n, k.div_ceil(4)])),
                    ("weight_scale", (Dtype::BF16, vec![n, 1])),
                    ("weight_shape", (Dtype::I64, vec![2])),
                ]
            },
        ),
        (_, None) => (json!({"type": "float", "num_bits": 8, "strategy": "channel", "dynamic": false}), |n, k| {
            vec![("weight", (Dtype::F8_E4M3, vec![n, k])), ("weight_scale", (Dtype::BF16, vec![n, 1]))]
        }),
        (_, Some(Granularity::Tensor)) => (json!({"strategy": "tensor", "dynamic": false}), |n, k| {
            vec![("weight", (Dtype::F8_E4M3, vec![n, k])), ("weight_scale", (Dtype::BF16, vec![1]))]
        }),
        (_, Some(_)) => (json!({"strategy": "block", "block_structure": [128, 128]}), |n, k| {
            let scales = vec![n.div_ceil(128), k.div_ceil(128)];
            vec![("weight", (Dtype::F8_E4M3, vec![n, k])), ("weight_scale", (Dtype::BF16, scales))]
        }),
    }
}
