//! The library for WebAssembly, behind functions that JavaScript calls with numbers alone. There are no bindings to
//! generate: `npm/src/module.js` is all of the other side.
//!
//! Bytes go through numbered *slots*, buffers of this module: JavaScript reserves a slot, writes to it, calls, and
//! reads the slots that the function fills ([`slots`]). Casts of numbers have functions of their own ([`cast`]),
//! because their calls are many and short. Everything else is a request as JSON, answered as JSON ([`requests`]). Files
//! are the host's: it lends their bytes range by range, and takes outputs piece by piece (`host`).
//!
//! A module is built with one of the features `values` and `files`.
#![deny(unsafe_code)]

#[cfg(feature = "values")]
pub mod cast;
#[cfg(all(target_family = "wasm", target_os = "unknown"))]
mod exports;
mod fields;
#[cfg(feature = "files")]
mod files;
#[cfg(all(feature = "files", target_family = "wasm", target_os = "unknown"))]
mod host;
pub mod requests;
pub mod slots;
#[cfg(feature = "values")]
mod tensors;
#[cfg(feature = "values")]
mod values;
