//! What can be wrong with a TensorProto.

use crate::formats::limits::MAX_RANK;
use crate::formats::protobuf::wire::WireError;
use crate::text::{ShapeText, TensorText};
use onnx_cast::DataType;
use std::fmt;
use thiserror::Error;

/// Bytes that are no valid TensorProto, or a tensor that none can hold: which tensor, and what is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PbError {
    /// The tensor's name, as far as it could be read.
    pub tensor: String,
    /// What is wrong.
    pub problem: PbProblem,
}

impl fmt::Display for PbError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", TensorText(&self.tensor), self.problem)
    }
}

impl std::error::Error for PbError {}

/// What is wrong with a TensorProto.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PbProblem {
    /// Not a protobuf message.
    #[error("not a valid TensorProto: {0}")]
    Wire(WireError),
    /// An empty file.
    #[error("empty, where a TensorProto should be")]
    Empty,
    /// A name that is not UTF-8.
    #[error("the name is not UTF-8")]
    Name,
    /// No type: `data_type` is missing or 0.
    #[error("data_type is UNDEFINED")]
    Undefined,
    /// A type number that ONNX does not have.
    #[error("data_type is {number}, which is not an element type (want 1 to {})", DataType::ALL.len())]
    DataType {
        /// The number.
        number: i64,
    },
    /// A negative dimension, or one that a size of this machine does not hold.
    #[error("dimension {index} is {dim}{}", if *dim < 0 { "" } else { ", more than a size of this machine holds" })]
    Dim {
        /// Which dimension.
        index: usize,
        /// Its value.
        dim: i64,
    },
    /// More dimensions than are read here.
    #[error("more than {MAX_RANK} dimensions")]
    Rank,
    /// A size that overflows, or that there is no memory for.
    #[error("{} {data_type} is too large", ShapeText(shape))]
    TooLarge {
        /// The type.
        data_type: DataType,
        /// The shape.
        shape: Vec<usize>,
    },
    /// `raw_data` of another size than type and shape ask for.
    #[error("{got} bytes of raw_data for {} {data_type} (want {want})", ShapeText(shape))]
    RawLen {
        /// The type.
        data_type: DataType,
        /// The shape.
        shape: Vec<usize>,
        /// Bytes that there are.
        got: usize,
        /// Bytes that type and shape ask for.
        want: usize,
    },
    /// Another number of entries than type and shape ask for.
    #[error("{got} entries of {field} for {} {data_type} (want {want})", ShapeText(shape))]
    Entries {
        /// The storage field.
        field: &'static str,
        /// The type.
        data_type: DataType,
        /// The shape.
        shape: Vec<usize>,
        /// Entries that there are.
        got: usize,
        /// Entries that type and shape ask for.
        want: usize,
    },
    /// A storage field that is not for the type.
    #[error("{field} for elements of {data_type} (want {want})")]
    Field {
        /// The storage field.
        field: &'static str,
        /// The type.
        data_type: DataType,
        /// The fields that hold the type.
        want: String,
    },
    /// Elements in two storage fields at once.
    #[error("elements in both {first} and {second}")]
    SeveralFields {
        /// One field.
        first: &'static str,
        /// Another.
        second: &'static str,
    },
    /// A tensor in segments.
    #[error("a segment of a tensor, which is not supported")]
    Segment,
    /// Elements in another file.
    #[error("the elements are in another file (external data), which is not supported")]
    External,
    /// A `data_location` that ONNX does not have.
    #[error("data_location is {number}, which ONNX does not have")]
    Location {
        /// The number.
        number: u64,
    },
    /// Past what protobuf allows a message.
    #[error("{bytes} bytes of elements are more than a protobuf message may hold (2 GiB)")]
    MessageSize {
        /// Bytes of the elements.
        bytes: u64,
    },
}

impl From<WireError> for PbProblem {
    fn from(error: WireError) -> Self {
        PbProblem::Wire(error)
    }
}
