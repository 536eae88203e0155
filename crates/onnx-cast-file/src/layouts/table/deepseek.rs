//! DeepSeek's float8 in blocks, and experts in float4e2m1.

use super::{ALL_THREE, AS_MATRICES, BASE, DYNAMIC, EXPERTS, FP8, SQUARES, TRANSFORMERS, WEIGHT, held, names};
use crate::layouts::row::{Configuration, Experts, Loaders, Row, Scales};
use crate::layouts::weight::WeightFormat;
use serde_json::json;

pub(super) const ROW: Row = Row {
    name: "deepseek",
    signs: &["weight_scale_inv"],
    names: &[names("weight", "weight_scale_inv", "weight"), WEIGHT, names("weight", "scale", "weight")],
    experts: Some(Experts {
        names: &[
            names(EXPERTS[0], "gate_up_proj_scale_inv", EXPERTS[0]),
            names(EXPERTS[1], "down_proj_scale_inv", EXPERTS[1]),
        ],
        // Its loaders want inputs as the last axis, which the shape does not tell.
        by_default: false,
        ..AS_MATRICES
    }),
    configuration: Some(Configuration {
        methods: &["fp8", "auto_round:fp8"],
        claims: |claims, _| claims.add(&[WeightFormat::Fp8, WeightFormat::MxFp4], "fp8"),
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
        held(&[FP8], &[SQUARES, Scales::Blocks], ALL_THREE, DYNAMIC),
        held(&[FP8], &[Scales::Groups], Loaders::Are(&[TRANSFORMERS]), DYNAMIC),
    ],
    has_large_blocks: true,
    has_other_bytes: true,
    ..BASE
};
