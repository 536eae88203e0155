//! The C interface: `include/onnx_cast.h`, which cbindgen writes from these files, so that their comments are the
//! manual that C programmers read. `docs/c.md` is the guide to it.
//!
//! Every function that can fail returns an `onnx_cast_status` as an `int` and leaves a text for `onnx_cast_last_error`.
//! The library does the work. This crate checks pointers and makes slices of them (`edge.rs`), reads options up to the
//! size that the caller sets (`options.rs`), and lets no panic out.
#![allow(non_camel_case_types, reason = "these are the names that C has")]
#![cfg_attr(not(test), deny(clippy::too_many_lines))]

// In the order that the header has them.
mod abi;
mod edge;
mod status;

mod types;

mod options;

mod cast;
mod plan;

mod blocks;
mod scaled;

mod strings;

mod dlpack;

// Only for what onnxruntime looks for in the library: `RegisterCustomOps`.
#[cfg(feature = "onnxruntime")]
use onnx_cast_ort as _;

pub use abi::*;
pub use blocks::*;
pub use cast::*;
pub use dlpack::*;
pub use edge::onnx_cast_last_error;
pub use options::{onnx_cast_options, onnx_cast_round_mode, onnx_cast_saturate};
pub use plan::*;
pub use scaled::*;
pub use status::*;
pub use strings::*;
pub use types::*;
