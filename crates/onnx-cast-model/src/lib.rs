//! ONNX models around the `onnx-cast` library, and the jobs of `onnx-cast-file` for files of every kind: [`cast`],
//! [`bit_cast`], [`inspect`], [`diff`] and [`report`] take models, files, archives and checkpoints. [`fold`] computes a
//! model's Casts of constants, [`upgrade`] changes its opset, and [`Model`] evaluates models of casts.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::too_many_lines, clippy::disallowed_methods))]

mod compare;
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
#[cfg(test)]
mod next_opset;
mod operators;
mod paths;
mod precision;
mod quantize;
mod record;
mod requests;
mod rewrite;
mod rope;
mod source;
mod tree;
mod types;
mod upgrade;
mod weights;

pub use contents::{CastInfo, ModelInfo, ValueInfo};
pub use error::{Error, ModelError, ModelErrorKind};
pub use evaluate::{Model, ValueDecl};
pub use fold::{FoldOutcome, FoldRequest, FoldSummary, Folded, fold, fold_of};
pub use precision::{
    ConvertRequest, ConvertSummary, Interface, Keep, NodeDecision, ValueDecision, convert, convert_of, read_ranges,
};
pub use record::{RECORD_PREFIX, RECORDED_NUMBERS, RecordRequest, RecordSummary, RecordedValue, record, record_of};
pub use requests::{
    Inspection, bit_cast, cast, cast_model, cast_of, dequantize, dequantize_of, diff, diff_of, inspect, inspect_model,
    inspect_of, is_model, is_of_models, quantize, quantize_model, quantize_of, report, report_model, report_of,
    transcode,
};
pub use source::{ModelBytes, ModelSource};
pub use upgrade::{DEFAULT_OPSET, UpgradeRequest, UpgradeSummary, Upgraded, upgrade, upgrade_of};
