//! What can be wrong with a `.npy` file.

use crate::text::{ShapeText, Short, TensorText};
use onnx_cast::DataType;
use thiserror::Error;

/// Bytes that are no `.npy` file that can be read here, or a tensor that none can hold.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NpyError {
    /// No `.npy` file: it does not start as one.
    #[error("not a .npy file")]
    Magic,
    /// A version that numpy does not have.
    #[error("version {major}.{minor} of the .npy format is not known (want 1.0, 2.0 or 3.0)")]
    Version {
        /// The major version.
        major: u8,
        /// The minor version.
        minor: u8,
    },
    /// The bytes end inside the header.
    #[error("the file ends inside the header")]
    Truncated,
    /// A header that is not a dictionary of `descr`, `fortran_order` and `shape`.
    #[error("the header is not valid: {what}")]
    Header {
        /// What is wrong.
        what: &'static str,
    },
    /// An element type that no ONNX type is equal to.
    #[error("elements of `{}` {why}", Short(descr))]
    Descr {
        /// The type as the file gives it.
        descr: String,
        /// Why it cannot be read.
        why: &'static str,
    },
    /// An element type that does not tell which ONNX type it is.
    #[error(
        "elements of `{}` may be any type of {bits} bits or fewer, which the file does not tell (`from` gives the type, such as {example})",
        Short(descr)
    )]
    Ambiguous {
        /// The type as the file gives it.
        descr: String,
        /// Its bits.
        bits: usize,
        /// A type that it may be.
        example: DataType,
    },
    /// A type that the caller gave, which the file contradicts.
    #[error("elements of `{}` are not {want}", Short(descr))]
    AsType {
        /// The type as the file gives it.
        descr: String,
        /// The caller's type.
        want: DataType,
    },
    /// A size that overflows, or that there is no memory for.
    #[error("{} {descr} is too large", ShapeText(shape))]
    TooLarge {
        /// The type.
        descr: String,
        /// The shape.
        shape: Vec<usize>,
    },
    /// Another number of bytes behind the header than type and shape ask for.
    #[error("{got} bytes behind the header for {} `{}` (want {want})", ShapeText(shape), Short(descr))]
    Len {
        /// The type.
        descr: String,
        /// The shape.
        shape: Vec<usize>,
        /// Bytes that there are.
        got: usize,
        /// Bytes that type and shape ask for.
        want: usize,
    },
    /// A tensor of more dimensions than an array has.
    #[error("{rank} dimensions, where numpy has at most {most} (reshape it, or write another format)")]
    Rank {
        /// Its dimensions.
        rank: usize,
        /// The most that an array has.
        most: usize,
    },
    /// A string with a code point that Unicode does not have.
    #[error("element {index}: {code:#x} is not a Unicode character")]
    Character {
        /// Index of the string.
        index: usize,
        /// The code point.
        code: u32,
    },
    /// A string that cannot be written: not UTF-8.
    #[error("{}element {index}: not UTF-8, which numpy's strings need", TensorText(tensor))]
    Utf8 {
        /// The tensor.
        tensor: String,
        /// Index of the string.
        index: usize,
    },
    /// A string that cannot be written: numpy would take its end for padding.
    #[error("{}element {index}: ends in a NUL, which numpy would drop", TensorText(tensor))]
    TrailingNul {
        /// The tensor.
        tensor: String,
        /// Index of the string.
        index: usize,
    },
}
