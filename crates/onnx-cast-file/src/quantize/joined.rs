//! Matrices that loaders join: they are quantized together, or not at all, and share the scale of a tensor.

use crate::layouts::Layout;

/// Names of modules beside each other that loaders make one matrix of (vLLM 0.33: `packed_modules_mapping`, and the
/// mappings of weights).
const TOGETHER: &[&[&str]] = &[
    &["q_proj", "k_proj", "v_proj"],
    &["gate_proj", "up_proj"],
    &["w1", "w3"],
    &["query", "key", "value"],
    &["wq", "wk", "wv"],
    &["q_a_proj", "kv_a_proj_with_mqa"],
    &["wq_a", "wkv"],
    &["in_proj_qkv", "in_proj_z"],
    &["in_proj_b", "in_proj_a"],
    &["c_fc_0", "c_fc_1"],
];

/// The name of the matrix that loaders make of a module and its neighbours; `None` of a module that stays alone.
pub(crate) fn joined(module: &str) -> Option<String> {
    let (parent, last) = module.rsplit_once('.').unwrap_or(("", module));
    let together = TOGETHER.iter().find(|together| together.contains(&last))?;
    Some(format!("{parent}.{}", together.join("+")))
}

impl Layout {
    /// Whether loaders of the layout join matrices: those that a configuration tells of quantization do.
    pub(crate) fn is_joined(self) -> bool {
        self.spec().configuration.is_some()
    }
}
