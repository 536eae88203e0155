//! The backend for AArch64.

pub(super) mod neon;
