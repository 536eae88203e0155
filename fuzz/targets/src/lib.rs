//! What is fuzzed, as functions of bytes that panic where something is wrong: no fuzzer is needed to call them.
//!
//! Two kinds: what reads files takes the bytes of one, so that a file that somebody has is an input; what computes
//! takes a plan of a case from its first bytes and values from the rest. Whatever is read must give the same in memory
//! and from a file, and survive being written; whatever is computed must be what another way gives.
//!
//! `docs/dev/fuzzing.md` has the commands.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::too_many_lines))]

mod casts;
mod checkpoint;
#[cfg(unix)]
mod command;
mod files;
mod index;
mod models;
#[cfg(unix)]
mod quiet;
mod round_trip;
mod rules;
mod scaled;
mod scratch;
mod texts;

pub use casts::casts;
pub use checkpoint::checkpoint;
#[cfg(unix)]
pub use command::command;
pub use files::{gguf, npy, npz, safetensors, tensor_proto, torch};
pub use index::index;
pub use models::{graph, model_proto};
pub use round_trip::round_trip;
pub use rules::rules;
pub use scaled::{dequantize, quantize};
pub use scratch::remove_folder;
pub use texts::texts;

/// A function that panics where an input shows something wrong.
pub type Target = fn(&[u8]);

/// The targets by name, as cargo-fuzz has them.
pub const TARGETS: &[(&str, Target)] = &[
    ("casts", casts),
    ("checkpoint", checkpoint),
    #[cfg(unix)]
    ("command", command),
    ("dequantize", dequantize),
    ("gguf", gguf),
    ("graph", graph),
    ("index", index),
    ("model_proto", model_proto),
    ("npy", npy),
    ("npz", npz),
    ("quantize", quantize),
    ("round_trip", round_trip),
    ("rules", rules),
    ("safetensors", safetensors),
    ("tensor_proto", tensor_proto),
    ("texts", texts),
    ("torch", torch),
];
