//! The configuration of Quark: the settings of all layers.

use crate::layouts::claims::Claims;
use crate::layouts::row::Configuration;
use crate::layouts::weight::WeightFormat;
use crate::layouts::written::WrittenWeight;
use serde_json::{Map, Value, json};

pub(super) const CONFIGURATION: Configuration =
    Configuration { method: "quark", key: None, claims, write, own_file: None };

fn claims(claims: &mut Claims, _: &Map<String, Value>) {
    claims.add(&[WeightFormat::MxFp4], "quark");
}

fn write(_: &[WrittenWeight], kept: &[String]) -> Value {
    json!({
        "exclude": kept,
        "export": { "pack_method": "reorder", "weight_format": "real_quantized" },
        "global_quant_config": { "weight": {
            "ch_axis": -1, "dtype": "fp4", "group_size": 32, "is_dynamic": false, "qscheme": "per_group",
            "scale_format": "e8m0", "symmetric": null,
        }},
        "quant_method": "quark",
    })
}
