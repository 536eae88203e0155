//! The names of tensors beside quantized weights that belong to none of them.

use super::spec::COMFY_QUANT;
use super::spec::before;
use std::collections::HashSet;

/// Scales and zero points of activations, which data has told. The first two may end names of experts.
const CALIBRATIONS: &[&str] = &[
    "input_scale",
    "activation_scale",
    "input_global_scale",
    "input_zero_point",
    "input_scale_2",
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
const LEFTOVERS: &[&str] = &["scaled_fp8", COMFY_QUANT, "weight_format"];

/// Name suffixes of companions in one layout or another, besides those that begin with `weight_`.
const UNREAD: &[&str] = &[
    "qzeros",
    "scales",
    "biases",
    "absmax",
    "SCB",
    "g_idx",
    "zero",
    "zeros",
    "zero_point",
    "zero_points",
    "scaled_zeros",
    "scale_weight",
    "smooth_scale",
    "bias_scale",
];

/// Such names that no other tensor has.
const ORPHANS: &[&str] = &["weight_scale", "weight_scale_inv", "weight_scale_2", "weight_global_scale"];

/// Tensors that change the weight beside them, or its inputs; another part of the name may follow. Factors of LoRA are
/// not among them: loaders add their product to a weight, quantized or not, and jobs keep them beside it.
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

/// Keys of configurations that do.
pub(super) const CHANGING_KEYS: &[&str] = &["transform_config", "rotation_config", "convrot"];

/// Whether a tensor that belongs to no weight may be a companion of a weight of these modules, such as a second scale.
/// Modules include the names of weights without `.weight`, such as experts in one tensor.
pub(super) fn may_be_companion(name: &str, modules: &HashSet<&str>) -> bool {
    // Without weights, the layout is another.
    if modules.is_empty() {
        return false;
    }
    let is_companion =
        |suffix: &str| suffix.strip_prefix('_').unwrap_or(suffix).starts_with("weight_") || UNREAD.contains(&suffix);
    let (module, leaf) = name.rsplit_once('.').unwrap_or(("", name));
    let of_weight = module.strip_suffix(".weight").is_some_and(|module| modules.contains(module));
    let mut of_experts = leaf.match_indices('_').filter(|(at, _)| is_companion(&leaf[at + 1..]));
    ORPHANS.contains(&leaf)
        || of_weight
        || modules.contains(module) && is_companion(leaf)
        || of_experts.any(|(at, _)| modules.contains(&name[..name.len() - leaf.len() + at]))
}

/// Whether a tensor is a scale or a zero point of activations.
pub(super) fn is_calibration(name: &str) -> bool {
    let is_of_experts = || CALIBRATIONS[..2].iter().any(|end| before(name, &format!("_proj_{end}")).is_some());
    CALIBRATIONS.iter().any(|end| before(name, end).is_some()) || is_of_experts()
}

/// Whether a tensor is of no use without quantized weights.
pub(super) fn is_leftover(name: &str) -> bool {
    LEFTOVERS.iter().any(|end| before(name, end).is_some())
}
