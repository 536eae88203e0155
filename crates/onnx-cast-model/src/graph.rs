//! Where the values of a model come from and go, which functions its nodes call, and what opsets are.

pub(crate) mod dataflow;
pub(crate) mod functions;
pub(crate) mod opsets;
pub(crate) mod values;
