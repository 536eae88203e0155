//! ONNX models around the `onnx-cast` library, and the jobs of `onnx-cast-file` for files of every kind: [`cast`],
//! [`bit_cast`], [`inspect`], [`diff`] and [`report`] take models, files, archives and checkpoints. [`fold`] computes a
//! model's Casts of constants, [`upgrade`] raises its opset, and [`Model`] evaluates models of casts.
#![forbid(unsafe_code)]

mod constant;
mod contents;
mod dequantize;
mod edits;
mod emit;
mod error;
mod evaluate;
mod exchange;
mod external;
mod fold;
mod graph;
mod messages;
mod quantize;
mod requests;
mod rewrite;
mod rope;
mod tree;
mod upgrade;
mod weights;

pub use contents::{CastInfo, ModelInfo};
pub use error::external::ExternalProblem;
pub use error::{Error, ModelError};
pub use evaluate::{Model, ValueDecl};
pub use fold::{FoldOutcome, FoldRequest, FoldSummary, Folded, fold};
pub use requests::{Inspection, bit_cast, cast, dequantize, diff, inspect, is_model, quantize, report, transcode};
pub use upgrade::{DEFAULT_OPSET, UpgradeRequest, UpgradeSummary, Upgraded, upgrade};
