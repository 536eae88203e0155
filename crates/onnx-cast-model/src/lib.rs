//! ONNX models around the `onnx-cast` library: constants stored in other types ([`cast_model`]), Casts of constants
//! computed ([`fold_model`]), models of casts evaluated ([`Model`]).
#![forbid(unsafe_code)]

mod constant;
mod contents;
mod emit;
mod error;
mod evaluate;
mod exchange;
mod external;
mod fold;
mod graph;
mod inputs;
mod messages;
mod rewrite;
mod rope;
mod tree;
mod weights;

pub use contents::{CastInfo, ModelInfo};
pub use error::external::ExternalProblem;
pub use error::{Error, ModelError};
pub use evaluate::{Model, ValueDecl};
pub use fold::{FoldOutcome, FoldSummary, Folded, ModelFold, fold_model};
pub use inputs::{Inspection, diff, inspect, report};
pub use weights::{ModelCast, cast_model};
