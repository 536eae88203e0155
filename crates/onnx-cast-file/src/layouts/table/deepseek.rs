//! DeepSeek's float8 in blocks, and experts in float4e2m1. MiniMax-M3's MXFP8 has the same names, and NVIDIA's form of
//! DeepSeek-V4 has experts of NVFP4.

use super::{ALL_THREE, AS_MATRICES, BASE, DYNAMIC, FP8, SQUARES, TRANSFORMERS, VLLM, WEIGHT, held, names};
use crate::layouts::claims::Claims;
use crate::layouts::format::Activations;
use crate::layouts::group::Group;
use crate::layouts::spec::{Configuration, EXPERTS, Experts, LayoutSpec, Loaders, Scales};
use crate::layouts::weight::WeightFormat;
use serde_json::{Map, Value, json};

pub(super) const SPEC: LayoutSpec = LayoutSpec {
    name: "deepseek",
    signs: &["weight_scale_inv"],
    names: &[names("weight", "weight_scale_inv", "weight"), WEIGHT, names("weight", "scale", "weight")],
    experts: Some(Experts {
        names: &[
            names(EXPERTS[0], "gate_up_proj_scale_inv", EXPERTS[0]),
            names(EXPERTS[1], "down_proj_scale_inv", EXPERTS[1]),
        ],
        // Its loaders expect the inputs on the last axis, which cannot be verified by the shape.
        by_default: false,
        ..AS_MATRICES
    }),
    configuration: Some(Configuration {
        methods: &["fp8", "auto_round:fp8", MXFP8],
        lists: &["modules_to_not_convert", "ignored_layers"],
        claims,
        groups: Some(groups),
        write: Some(|weights, kept| {
            json!({
                "activation_scheme": "dynamic",
                "fmt": "e4m3",
                "modules_to_not_convert": kept,
                "quant_method": "fp8",
                "weight_block_size": weights.first().map(|weight| weight.block),
            })
        }),
        ..Configuration::BASE
    }),
    held: &[
        held(&[FP8], &[SQUARES, Scales::Blocks], ALL_THREE, DYNAMIC)
            .experts(&[(VLLM, DYNAMIC), (TRANSFORMERS, DYNAMIC)]),
        held(&[FP8], &[Scales::Groups], Loaders::Are(&[TRANSFORMERS]), DYNAMIC),
    ],
    has_large_blocks: true,
    has_other_bytes: true,
    ..BASE
};

/// MiniMax-M3's `quant_method`.
const MXFP8: &str = "mxfp8";

/// Reads how activations are quantized.
fn groups(quantization: &Map<String, Value>) -> Vec<Group> {
    let activations = match quantization.get("activation_scheme").and_then(Value::as_str) {
        Some("dynamic") => Activations::Dynamic,
        Some("static") => Activations::Static,
        _ => return Vec::new(),
    };
    vec![Group { targets: None, format: None, stored_as: None, block: None, activations: Some(activations) }]
}

fn claims(claims: &mut Claims, quantization: &Map<String, Value>) {
    let text = |key: &str| quantization.get(key).and_then(Value::as_str).unwrap_or_default();
    if text("quant_method") == MXFP8 {
        return claims.add(&[WeightFormat::MxFp8], MXFP8);
    }
    claims.add(&[WeightFormat::Fp8, WeightFormat::MxFp4], "fp8");
    if text(EXPERTS_ALGORITHM).eq_ignore_ascii_case("nvfp4") {
        claims.add(&[WeightFormat::NvFp4], "NVFP4 experts");
    }
}

/// Key by which NVIDIA's checkpoints of DeepSeek-V4 declare that experts are NVFP4. They also contain ModelOpt's own
/// file.
pub(super) const EXPERTS_ALGORITHM: &str = "moe_quant_algo";
