//! Where the values of a model come from and go, and what opsets are.

pub(crate) mod opsets;
pub(crate) mod values;
