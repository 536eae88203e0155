//! What can go wrong with ranges: with a model that is to record them, and with a file of them.

use onnx_cast_file::text::{ShapeText, Short};
use thiserror::Error;

/// A model whose ranges cannot be recorded, or a file of ranges that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RangesError {
    /// A model from before the operators that are needed.
    #[error("values are recorded from opset {needs} on, and the model imports {opset}")]
    Opset {
        /// The model's opset.
        opset: i64,
        /// The first opset with the operators.
        needs: i64,
    },
    /// A model with the outputs already.
    #[error("the model has a value `{}` already: it is a model that `record` has written", Short(name))]
    Recorded {
        /// The value.
        name: String,
    },
    /// A file of another kind.
    #[error("not a file of ranges (want .npz, or .json)")]
    Kind,
    /// A file that is not JSON, or no JSON of ranges.
    #[error("not valid JSON: {what}")]
    Json {
        /// What is wrong, and where.
        what: String,
    },
    /// A value without a range that could be read.
    #[error("value `{}`: {what}", Short(name))]
    Value {
        /// The value.
        name: String,
        /// What is wrong, and what was expected.
        what: String,
    },
    /// An output of `record` that is none.
    #[error("output `{}`: shape {} (want [5], or runs of it: [N,5])", Short(name), ShapeText(shape))]
    Shape {
        /// The output.
        name: String,
        /// Its shape.
        shape: Vec<usize>,
    },
    /// A margin that is not a positive number.
    #[error("margin {margin}: want a finite number above 0")]
    Margin {
        /// As it was given.
        margin: String,
    },
}
