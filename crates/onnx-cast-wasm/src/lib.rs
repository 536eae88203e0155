//! The library for WebAssembly, behind functions that JavaScript calls with numbers alone. There are no bindings to
//! generate: `npm/src/module.js` is all of the other side.
//!
//! Bytes go through numbered *slots*, buffers of this module: JavaScript reserves a slot, writes to it, calls, and
//! reads the slots that the function fills ([`slots`]). Casts of numbers have functions of their own ([`cast`]),
//! because their calls are many and short. Everything else is a request as JSON, answered as JSON ([`requests`]). Files
//! are the host's: it lends their bytes range by range, and takes outputs piece by piece (`host`).
//!
//! A module is built with one of the features `values`, `files` and `models`.
#![deny(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::too_many_lines))]

#[cfg(feature = "values")]
pub mod cast;
#[cfg(all(target_family = "wasm", target_os = "unknown"))]
mod exports;
mod fields;
#[cfg(feature = "lent")]
mod files;
#[cfg(all(feature = "lent", target_family = "wasm", target_os = "unknown"))]
mod host;
pub mod requests;
pub mod slots;
#[cfg(feature = "values")]
mod tensors;
#[cfg(feature = "values")]
mod values;

use std::fmt::Display;

/// Why something failed: the text that JavaScript gets. An error that was kept would bring its `Debug` and its backtrace
/// into the module, which nobody here reads.
#[derive(Debug)]
pub struct Failure(pub String);

/// What a function gives, or why it failed.
pub type Result<T> = std::result::Result<T, Failure>;

impl<E: Display> From<E> for Failure {
    fn from(error: E) -> Failure {
        Failure(format!("{error:#}"))
    }
}
