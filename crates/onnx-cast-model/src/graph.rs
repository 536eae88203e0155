//! What the nodes of a model mean: where values come from and go, which types operators take, what opsets change.

pub(crate) mod opsets;
pub(crate) mod types;
pub(crate) mod values;
