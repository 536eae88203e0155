//! FBGEMM's float8 with a scale for each row, and experts with one for each column.

use super::{AS_MATRICES, BASE, DYNAMIC, FP8, ROWS_OR_COLUMNS, TRANSFORMERS, VLLM, held, names};
use crate::layouts::spec::{Configuration, EXPERTS, Experts, LayoutSpec, Loaders};
use crate::layouts::weight::WeightFormat;
use serde_json::json;

pub(super) const SPEC: LayoutSpec = LayoutSpec {
    name: "fbgemm",
    signs: &["gate_up_proj_scale"],
    experts: Some(Experts {
        names: &[names(EXPERTS[0], "gate_up_proj_scale", EXPERTS[0]), names(EXPERTS[1], "down_proj_scale", EXPERTS[1])],
        have_scales_of_columns: true,
        ..AS_MATRICES
    }),
    configuration: Some(Configuration {
        methods: &["fbgemm_fp8"],
        claims: |claims, _| claims.add(&[WeightFormat::Fp8], "fbgemm_fp8"),
        write: Some(|_, kept| {
            json!({
                "activation_scale_ub": 1200.0,
                "modules_to_not_convert": kept,
                "quant_method": "fbgemm_fp8",
            })
        }),
        ..Configuration::BASE
    }),
    held: &[held(&[FP8], &[ROWS_OR_COLUMNS], Loaders::Are(&[VLLM, TRANSFORMERS]), DYNAMIC)],
    ..BASE
};
