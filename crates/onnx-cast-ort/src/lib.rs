//! onnxruntime with the library's casts, in two ways. An execution provider takes the nodes of a model as they are
//! (`provider.rs`). Custom operators stand in the model: ONNX's Cast, CastLike, BitCast, QuantizeLinear and
//! DequantizeLinear as `ExactCast`, `ExactCastLike`, `ExactBitCast`, `ExactQuantizeLinear` and `ExactDequantizeLinear`
//! in the domain `onnx-cast`, with all types that onnxruntime can hold, each value rounded once.
//!
//! A library that links this crate exports the function that onnxruntime looks for, [`RegisterCustomOps`]; the C
//! library and the Python package do. `abi.rs` declares the used part of onnxruntime's C interface, `api.rs` calls it,
//! `operator.rs` describes the operators to onnxruntime, and `kernel.rs` runs them.
#![cfg_attr(not(test), deny(clippy::too_many_lines))]

mod abi;
mod api;
mod kernel;
mod operator;
mod provider;
mod tensors;
mod types;

use abi::{API_VERSION, ApiBase};
use api::{Api, Failure};
use std::ffi::{CStr, c_char, c_void};
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

/// Gives onnxruntime the factory of the execution provider: what `register_execution_provider_library` calls.
///
/// # Safety
/// onnxruntime calls it, with its own pointers.
#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "onnxruntime looks for this name")]
pub unsafe extern "system" fn CreateEpFactories(
    _registered_name: *const c_char,
    base: *const c_void,
    _logger: *const c_void,
    factories: *mut *mut c_void,
    room: usize,
    made: *mut usize,
) -> *mut c_void {
    let base = base.cast::<ApiBase>();
    // SAFETY: onnxruntime's promise; every version has the function that reports a failure.
    unsafe {
        match provider::Host::new(base) {
            Some(host) => host.status(|| {
                if room == 0 {
                    return Err(Failure::node("no room for a factory"));
                }
                let version = CStr::from_ptr(((*base).get_version)()).to_string_lossy();
                factories.write(provider::create(host, &version).cast());
                made.write(1);
                Ok(())
            }),
            None => Api::new(base, 1).map_or(ptr::null_mut(), |api| {
                api.status(|| Err(Failure::node("onnx-cast's execution provider requires onnxruntime 1.23 or newer")))
            }),
        }
    }
    .cast()
}

/// Releases a factory: what onnxruntime calls when the library is unregistered. Factories live as long as the process,
/// because sessions can outlive the registration.
///
/// # Safety
/// onnxruntime calls it, with a pointer from [`CreateEpFactories`].
#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "onnxruntime looks for this name")]
pub unsafe extern "system" fn ReleaseEpFactory(_factory: *mut c_void) -> *mut c_void {
    ptr::null_mut()
}
