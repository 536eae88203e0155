//! The error of taking a value apart.

use onnx_cast::CastError;
use onnx_cast::ops::{CastErrorKind, OpError};
use onnx_cast::tensor::TensorError;
use std::fmt;

/// Why a value cannot be taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExplainError {
    /// The library refuses the operator, the types or the value.
    Cast(CastError),
    /// The parts of the request do not belong together, or a text is not a value of its type. The text says which.
    Request(String),
}

pub(crate) type Result<T> = std::result::Result<T, ExplainError>;

impl ExplainError {
    pub(crate) fn request(text: impl fmt::Display) -> Self {
        ExplainError::Request(text.to_string())
    }

    /// What the library says of a value, if that is the error.
    pub(crate) fn cast(&self) -> Option<&CastErrorKind> {
        match self {
            ExplainError::Cast(error) => Some(error.kind()),
            ExplainError::Request(_) => None,
        }
    }
}

impl fmt::Display for ExplainError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExplainError::Cast(error) => error.fmt(f),
            ExplainError::Request(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for ExplainError {}

impl From<CastError> for ExplainError {
    fn from(error: CastError) -> Self {
        ExplainError::Cast(error)
    }
}

impl From<OpError> for ExplainError {
    fn from(error: OpError) -> Self {
        ExplainError::Cast(error.into())
    }
}

impl From<TensorError> for ExplainError {
    fn from(error: TensorError) -> Self {
        ExplainError::Cast(error.into())
    }
}

/// For `write!` to a `String`, which does not fail.
impl From<fmt::Error> for ExplainError {
    fn from(error: fmt::Error) -> Self {
        ExplainError::request(error)
    }
}
