//! Fuzz targets: functions of bytes that panic if a property is violated. They can be called without a fuzzer.
//!
//! There are two kinds. Targets for readers take the bytes of a file, so that any real file is an input. Targets for
//! arithmetic take a plan of a case from the first bytes and values from the others. Input that parses must give the
//! same from memory and from a file, and survive a round trip; a result must equal that of a second algorithm.
//!
//! `docs/fuzzing.md` has the commands, and the defects found.
#![forbid(unsafe_code)]

mod casts;
#[cfg(unix)]
mod command;
#[path = "../../onnx-cast/tests/common/mod.rs"]
mod common;
mod files;
mod index;
mod models;
#[path = "../../onnx-cast-cli/tests/command/proto.rs"]
#[allow(dead_code, reason = "the tests of the command use more of it")]
mod proto;
#[cfg(unix)]
mod quiet;
mod round_trip;
mod rules;
#[path = "../../onnx-cast/tests/common/scalar.rs"]
mod scalar;
mod scratch;
mod texts;

pub use casts::casts;
#[cfg(unix)]
pub use command::command;
pub use files::{npy, npz, safetensors, tensor_proto};
pub use index::index;
pub use models::{graph, model_proto};
pub use round_trip::round_trip;
pub use rules::rules;
pub use scratch::remove_folder;
pub use texts::texts;

/// A function that panics where an input shows something wrong.
pub type Target = fn(&[u8]);

/// The targets by name, as cargo-fuzz has them.
pub const TARGETS: &[(&str, Target)] = &[
    ("casts", casts),
    #[cfg(unix)]
    ("command", command),
    ("graph", graph),
    ("index", index),
    ("model_proto", model_proto),
    ("npy", npy),
    ("npz", npz),
    ("round_trip", round_trip),
    ("rules", rules),
    ("safetensors", safetensors),
    ("tensor_proto", tensor_proto),
    ("texts", texts),
];
