//! What packages of torch write: HQQ, torchao, quanto and BitNet.

use super::{BASE, WEIGHT, names};
use crate::layouts::claims::Claims;
use crate::layouts::spec::{Composition, Configuration, LayoutSpec};
use serde_json::{Map, Value};

/// The settings of each weight are tensors beside it, so that the configuration tells nothing of it.
pub(super) const HQQ: LayoutSpec = LayoutSpec {
    name: "hqq",
    signs: &["W_q"],
    names: &[names("W_q", "scale", "weight")],
    configuration: Some(Configuration { methods: &["hqq"], ..Configuration::BASE }),
    composition: Composition::WithSettings,
    beside: HQQ_SETTINGS,
    // `view_as_float` stores codes under a type of float.
    has_any_type: true,
    ..BASE
};

/// `HQQLinear.state_dict_keys`, but for the tensors of numbers and the bias.
const HQQ_SETTINGS: &[&str] = &[
    "nbits",
    "group_size",
    "shape",
    "axis",
    "packing",
    "unpack_view_dtype",
    "view_as_float",
    "quant_scale",
    "quant_zero",
    "compute_dtype",
    "offload_meta",
    "encoded_state_dict",
    "stores_quant_config",
    "channel_wise",
    "optimize",
    "round_zero",
];

/// The file's metadata describes each weight.
pub(super) const TORCHAO: LayoutSpec = LayoutSpec {
    name: "torchao",
    signs: &["_weight_qdata"],
    names: &[
        names("_weight_qdata", "_weight_scale", "weight"),
        // Tiles of a GPU, which are refused.
        names("_weight_qdata", "_weight_scale_and_zero", "weight"),
    ],
    configuration: Some(Configuration { methods: &["torchao"], ..Configuration::BASE }),
    composition: Composition::WithMetadata,
    ..BASE
};

pub(super) const QUANTO: LayoutSpec = LayoutSpec {
    name: "quanto",
    signs: &["weight._data", "weight._data._data"],
    names: &[names("weight._data", "weight._scale", "weight"), names("weight._data._data", "weight._scale", "weight")],
    beside: &["weight._shift"],
    configuration: Some(Configuration { methods: &["quanto"], ..Configuration::BASE }),
    composition: Composition::OfModel,
    ..BASE
};

pub(super) const BITNET: LayoutSpec = LayoutSpec {
    name: "bitnet",
    names: &[WEIGHT],
    configuration: Some(Configuration { methods: &["bitnet"], claims: bitnet, ..Configuration::BASE }),
    composition: Composition::InQuarters,
    ..BASE
};

/// Layouts that are not read, by the starts of `quant_method`, and why.
pub(in crate::layouts) const UNREAD: &[(&str, &str)] = &[
    ("eetq", "EETQ's int8 is in the order of one kind of GPU"),
    ("fp_quant", "FP-Quant rotates weights"),
    ("exl", "ExLlama's codes are rotated, and their order is that of its kernels"),
    ("nunchaku", "nunchaku's tensors are in the order of its kernels, with low-rank factors"),
    ("svdquant", "SVDQuant adds low-rank factors to the weights"),
    ("aqlm", "AQLM's codes are indices into a codebook of vectors"),
    ("quip", "QuIP rotates weights"),
    ("higgs", "HIGGS rotates weights"),
    ("vptq", "VPTQ's codes are indices into a codebook of vectors"),
    ("spqr", "SpQR stores outliers separately"),
];

/// How layers have scales: `BitLinear` divides by them, and `AutoBitLinear` multiplies.
fn bitnet(claims: &mut Claims, quantization: &Map<String, Value>) {
    let class = quantization.get("linear_class").and_then(Value::as_str);
    claims.are_factors = class == Some("autobitlinear");
}
