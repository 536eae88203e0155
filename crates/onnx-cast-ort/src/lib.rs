//! Custom operators for onnxruntime: ONNX's Cast, CastLike, BitCast, QuantizeLinear and DequantizeLinear as
//! `ExactCast`, `ExactCastLike`, `ExactBitCast`, `ExactQuantizeLinear` and `ExactDequantizeLinear` in the domain
//! `ai.onnx-cast`, with all types that onnxruntime can hold, each value rounded once.
//!
//! A library that links this crate exports the function that onnxruntime looks for, [`RegisterCustomOps`]; the C
//! library and the Python package do. `abi.rs` declares the used part of onnxruntime's C interface, `api.rs` calls it,
//! `operator.rs` describes the operators to onnxruntime, and `kernel.rs` runs them.

mod abi;
mod api;
mod kernel;
mod operator;
mod types;

use abi::{API_VERSION, ApiBase};
use api::{Api, Failure};
use std::ffi::{CStr, c_void};
use std::ptr;
use types::newest_number;

/// Gives onnxruntime the operators: what `SessionOptions.register_custom_ops_library` calls.
///
/// # Safety
/// onnxruntime calls it, with its own pointers.
#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "onnxruntime looks for this name")]
pub unsafe extern "system" fn RegisterCustomOps(options: *mut c_void, base: *const c_void) -> *mut c_void {
    let base = base.cast::<ApiBase>();
    // SAFETY: onnxruntime's promise.
    unsafe {
        match Api::new(base, API_VERSION) {
            Some(api) => api.status(|| {
                let version = CStr::from_ptr(((*base).get_version)()).to_string_lossy();
                operator::register(api, newest_number(&version), options.cast())
            }),
            // Every version has the function that tells of a failure.
            None => Api::new(base, 1).map_or(ptr::null_mut(), |api| {
                api.status(|| Err(Failure::run("onnx-cast's operators want onnxruntime 1.17 or newer")))
            }),
        }
    }
    .cast()
}
