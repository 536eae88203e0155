//! What the configurations of each layout say of the weights.

use super::format::{Granularity, QuantizedFormat};
use super::layout::{Chosen, Plan};
use crate::layouts::Scheme;
use DataType::{Float8E4M3FN, Float8E8M0, Int4, Int8};
use onnx_cast::{BlockFormat, DataType};
use serde_json::{Value, json};

impl Plan<'_> {
    /// What `config.json` says under `quantization_config`; `None` of layouts that say nothing.
    pub(crate) fn configuration(&self, chosen: &[Chosen], kept: &[String]) -> Option<Value> {
        let first = chosen.first()?;
        match self.layout {
            Scheme::DeepSeek => {
                let block = first.block;
                Some(json!({
                    "activation_scheme": "dynamic",
                    "fmt": "e4m3",
                    "modules_to_not_convert": kept,
                    "quant_method": "fp8",
                    "weight_block_size": block,
                }))
            }
            Scheme::GptOss => Some(json!({ "modules_to_not_convert": kept, "quant_method": "mxfp4" })),
            Scheme::Fbgemm => Some(json!({
                "activation_scale_ub": 1200.0,
                "modules_to_not_convert": kept,
                "quant_method": "fbgemm_fp8",
            })),
            Scheme::CompressedTensors => Some(groups(chosen, kept)),
            Scheme::ModelOpt => {
                let (all, layers) = algorithms(chosen);
                let mut config = json!({ "ignore": kept, "quant_algo": all, "quant_method": "modelopt" });
                if let Some(layers) = layers {
                    config["quantized_layers"] = layers;
                }
                Some(config)
            }
            Scheme::Quark => Some(json!({
                "exclude": kept,
                "export": { "pack_method": "reorder", "weight_format": "real_quantized" },
                "global_quant_config": { "weight": {
                    "ch_axis": -1, "dtype": "fp4", "group_size": 32, "is_dynamic": false, "qscheme": "per_group",
                    "scale_format": "e8m0", "symmetric": null,
                }},
                "quant_method": "quark",
            })),
            _ => None,
        }
    }

    /// The text of ModelOpt's own file.
    pub(crate) fn own_file(&self, chosen: &[Chosen], kept: &[String]) -> Option<String> {
        if self.layout != Scheme::ModelOpt {
            return None;
        }
        let (all, layers) = algorithms(chosen);
        let mut quantization = json!({ "exclude_modules": kept, "kv_cache_quant_algo": null, "quant_algo": all });
        if let Some(QuantizedFormat::Block(format)) = chosen.first().map(|chosen| chosen.to) {
            quantization["group_size"] = format.block().into();
        }
        if let Some(layers) = layers {
            quantization["quantized_layers"] = layers;
        }
        let file = json!({ "producer": { "name": "modelopt" }, "quantization": quantization });
        Some(format!("{file:#}\n"))
    }
}

/// ModelOpt's name for the format of a weight.
fn algorithm(chosen: &Chosen) -> &'static str {
    match (chosen.to, chosen.granularity) {
        (QuantizedFormat::Block(BlockFormat::NvFp4), _) => "W4A16_NVFP4",
        (QuantizedFormat::Block(BlockFormat::MxFp4), _) => "W4A16_MXFP4",
        (QuantizedFormat::Block(_), _) => "MXFP8",
        (_, Granularity::Tensor) => "FP8",
        (_, Granularity::Axis) => "FP8_PER_CHANNEL_PER_TOKEN",
        (_, Granularity::Block(_)) => "FP8_PB_WO",
    }
}

/// The algorithm of all weights, or that they differ and that of each.
fn algorithms(chosen: &[Chosen]) -> (&'static str, Option<Value>) {
    let first = chosen.first().map_or("", algorithm);
    if chosen.iter().all(|chosen| algorithm(chosen) == first) {
        return (first, None);
    }
    let layer = |chosen: &Chosen| (chosen.module.clone(), json!({ "quant_algo": algorithm(chosen) }));
    ("MIXED_PRECISION", Some(Value::Object(chosen.iter().map(layer).collect())))
}

/// The groups of compressed-tensors: the weights of each format.
fn groups(chosen: &[Chosen], kept: &[String]) -> Value {
    let mut groups: Vec<(Value, &'static str, Vec<&str>)> = Vec::new();
    for one in chosen {
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
    let groups: serde_json::Map<String, Value> = groups.into_iter().enumerate().map(group).collect();
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
fn weights(chosen: &Chosen) -> (Value, &'static str) {
    let (kind, bits, format) = match chosen.to {
        QuantizedFormat::Block(BlockFormat::NvFp4) => ("float", 4, "nvfp4-pack-quantized"),
        QuantizedFormat::Block(BlockFormat::MxFp4) => ("float", 4, "mxfp4-pack-quantized"),
        QuantizedFormat::Block(BlockFormat::MxFp6E2M3 | BlockFormat::MxFp6E3M2) => ("float", 6, "mxfp6-pack-quantized"),
        QuantizedFormat::Block(_) => ("float", 8, "mxfp8-quantized"),
        QuantizedFormat::Elements(Int4 | Int8) => ("int", chosen.integers.bits, "pack-quantized"),
        QuantizedFormat::Elements(_) => ("float", 8, "float-quantized"),
    };
    let (strategy, group, structure) = match (chosen.to, chosen.granularity) {
        (QuantizedFormat::Block(BlockFormat::NvFp4), _) => ("tensor_group", json!(16), json!(null)),
        (QuantizedFormat::Block(_), _) => ("group", json!(32), json!(null)),
        (_, Granularity::Tensor) => ("tensor", json!(null), json!(null)),
        (_, Granularity::Axis) => ("channel", json!(null), json!(null)),
        (_, Granularity::Block([1, columns])) => ("group", json!(columns), json!(null)),
        (_, Granularity::Block(block)) => ("block", json!(null), json!(block)),
    };
    let scale_dtype = match chosen.scale_type {
        Float8E8M0 => json!("torch.uint8"),
        Float8E4M3FN => json!("torch.float8_e4m3fn"),
        _ => json!(null),
    };
    let actorder = if chosen.integers.have_groups { json!("group") } else { json!(null) };
    let weights = json!({
        "actorder": actorder, "block_structure": structure, "dynamic": false, "group_size": group, "num_bits": bits,
        "observer": "minmax", "observer_kwargs": {}, "scale_dtype": scale_dtype, "strategy": strategy,
        "symmetric": chosen.integers.are_symmetric, "type": kind, "zp_dtype": null,
    });
    (weights, format)
}
