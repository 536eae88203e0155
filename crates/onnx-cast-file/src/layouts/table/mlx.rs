//! The configuration of MLX: `quantization` of config.json, which has the width, the group and the mode of integers,
//! also of single layers.

use super::{BASE, Layout, ROWS, names};
use crate::layouts::claims::{Claims, Packing};
use crate::layouts::spec::{Composition, Configuration, LayoutSpec};
use serde_json::{Map, Value};

pub(super) const ROW: LayoutSpec = LayoutSpec {
    name: "mlx",
    names: &[names("weight", "scales", "weight")],
    configuration: Some(CONFIGURATION),
    composition: Composition::WithBiases,
    beside: &["biases"],
    own_key: Some(KEY),
    ..BASE
};

impl Layout {
    /// The layouts whose claims are under a key of their own in `config.json`.
    pub(in crate::layouts) fn own_keys() -> impl Iterator<Item = (Layout, &'static str)> {
        ROWS.iter().filter_map(|(layout, row)| Some((*layout, row.own_key?)))
    }
}

const CONFIGURATION: Configuration = Configuration { methods: &["mlx"], claims, ..Configuration::BASE };

/// The key of config.json.
const KEY: &str = "quantization";

fn claims(claims: &mut Claims, quantization: &Map<String, Value>) {
    let packing = |settings: &Map<String, Value>| {
        let number = |key: &str| settings.get(key).and_then(Value::as_u64);
        let mode = settings.get("mode").and_then(Value::as_str).unwrap_or("affine").to_owned();
        Some(Packing { bits: number("bits")?, group: number("group_size")?, mode })
    };
    claims.packing = packing(quantization);
    for (layer, settings) in quantization {
        match settings {
            Value::Object(settings) => claims.packings.insert(layer.clone(), packing(settings)),
            Value::Bool(false) => claims.packings.insert(layer.clone(), None),
            _ => None,
        };
    }
}
