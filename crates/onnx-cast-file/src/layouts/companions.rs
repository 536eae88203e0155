//! The names of tensors beside quantized weights that belong to none of them.

use super::row::before;
use super::table::{COMFY_QUANT, SHAPE};

/// Scales and zero points of activations, which data has told. The first two may end names of experts.
const CALIBRATIONS: &[&str] = &[
    "input_scale",
    "activation_scale",
    "input_global_scale",
    "input_zero_point",
    "scale_input",
    "qscale_act",
    "output_scale",
    "input_activation_scale",
    "output_activation_scale",
    "k_cache_scale",
    "v_cache_scale",
    "prob_output_scale",
    "q_scale",
    "k_scale",
    "v_scale",
    "kv_scale",
    "q_zero_point",
    "k_zero_point",
    "v_zero_point",
    "k_cache.scale",
    "v_cache.scale",
    "_weight_act_quant_scale",
    "_weight_act_quant_zero_point",
];

/// Other tensors that go with quantized weights, and that no model without them has.
const LEFTOVERS: &[&str] = &[SHAPE, "scaled_fp8", COMFY_QUANT, "weight_format"];

/// What weights of one layout or another are made of, beside names that begin with `weight_`.
pub(super) const UNREAD: &[&str] =
    &["qzeros", "scales", "absmax", "SCB", "g_idx", "scale_weight", "smooth_scale", "bias_scale", "zero_point"];

/// Such names that no other tensor has.
pub(super) const ORPHANS: &[&str] = &["weight_scale", "weight_scale_inv", "weight_scale_2", "weight_global_scale"];

/// Tensors that change the weight beside them, or its inputs; another part of the name may follow.
pub(super) const CHANGES: &[&str] = &[
    "pre_quant_scale",
    "act_pre_scale",
    "_weight_act_pre_scale",
    "act_scales",
    "act.scales",
    "smooth_factor",
    "smooth_factor_orig",
    "svdquant_lora_a",
    "svdquant_lora_b",
    "forward_hadamard_matrix",
    "backward_hadamard_matrix",
];

/// Factors of a product that is added to the weight beside it; another part of the name may follow.
pub(super) const FACTORS: &[&str] = &["lora_A", "lora_B", "lora_up", "lora_down"];

/// Keys of configurations that do.
pub(super) const CHANGING_KEYS: &[&str] = &["transform_config", "rotation_config", "convrot"];

/// Whether a tensor is a scale or a zero point of activations.
pub(super) fn is_calibration(name: &str) -> bool {
    let is_of_experts = || CALIBRATIONS[..2].iter().any(|end| before(name, &format!("_proj_{end}")).is_some());
    CALIBRATIONS.iter().any(|end| before(name, end).is_some()) || is_of_experts()
}

/// Whether a tensor is of no use without quantized weights.
pub(super) fn is_leftover(name: &str) -> bool {
    LEFTOVERS.iter().any(|end| before(name, end).is_some())
}
