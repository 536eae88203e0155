//! The configuration of bitsandbytes, which tells nothing of single weights: their tensors do.

use super::{BASE, names};
use crate::layouts::spec::{Composition, Configuration, LayoutSpec};

pub(super) const ROW: LayoutSpec = LayoutSpec {
    name: "bitsandbytes",
    signs: &["weight.absmax", "SCB"],
    names: &[names("weight", "weight.absmax", "weight"), names("weight", "SCB", "weight")],
    configuration: Some(CONFIGURATION),
    composition: Composition::WithState,
    beside: BESIDE,
    has_any_type: true,
    ..BASE
};

const CONFIGURATION: Configuration =
    Configuration { methods: &["bitsandbytes"], key: Some("load_in_4bit"), ..Configuration::BASE };

/// The tensors beside the codes, apart from the scales.
const BESIDE: &[&str] = &[
    "weight.quant_map",
    "weight.nested_absmax",
    "weight.nested_quant_map",
    "weight.quant_state.bitsandbytes__nf4",
    "weight.quant_state.bitsandbytes__fp4",
    "weight_format",
];
