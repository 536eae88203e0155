//! The backends for AArch64.

pub(crate) mod neon;
