//! The backends for WebAssembly.

pub(crate) mod simd128;
