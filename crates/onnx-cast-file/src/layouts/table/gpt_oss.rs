//! gpt-oss: experts in MXFP4, transposed.

use super::{ALL_THREE, AS_MATRICES, BASE, KEPT, MXFP4, held, names};
use crate::layouts::spec::{Configuration, Experts, LayoutSpec};
use crate::layouts::weight::WeightFormat;
use crate::layouts::written::Order;
use serde_json::json;

pub(super) const SPEC: LayoutSpec = LayoutSpec {
    name: "gpt-oss",
    signs: &["gate_up_proj_blocks"],
    names: &[],
    experts: Some(Experts { names: &[names("_blocks", "_scales", "")], order: Order::Exchanged, ..AS_MATRICES }),
    configuration: Some(Configuration {
        methods: &["mxfp4"],
        claims: |claims, _| claims.add(&[WeightFormat::MxFp4], "mxfp4"),
        write: Some(|_, kept| json!({ "modules_to_not_convert": kept, "quant_method": "mxfp4" })),
        ..Configuration::BASE
    }),
    held: &[held(&[MXFP4], &[], ALL_THREE, KEPT)],
    has_axis_of_blocks: true,
    ..BASE
};
