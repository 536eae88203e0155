//! What can be wrong with a `.gguf` file.

use crate::formats::limits::MAX_HEADER;
use crate::text::{ShapeText, Short};
use onnx_cast::DataType;
use thiserror::Error;

/// Bytes that are no valid `.gguf` file, or a tensor of one that cannot be read here.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum GgufError {
    /// Another beginning than the format's.
    #[error("it does not begin with `GGUF`")]
    Magic,
    /// A file for big-endian machines.
    #[error("a big-endian file (only little-endian ones are read)")]
    BigEndian,
    /// A version that is not known.
    #[error("version {got} (want 2 or 3)")]
    Version {
        /// The version.
        got: u32,
    },
    /// A part of the header that is longer than what is left of the file.
    #[error("{what} of {bytes} bytes at byte {at} of a file of {len}")]
    Truncated {
        /// The part.
        what: &'static str,
        /// Its bytes.
        bytes: u64,
        /// Where it begins.
        at: u64,
        /// The file's length.
        len: u64,
    },
    /// More tensors, entries or values than the rest of the file could hold.
    #[error("the number of {what} is {count}, in a file of {len} bytes")]
    Count {
        /// What is counted.
        what: &'static str,
        /// The number claimed.
        count: u64,
        /// The file's length.
        len: u64,
    },
    /// A header that is longer than any.
    #[error("a header of more than {MAX_HEADER} bytes")]
    HeaderTooLarge,
    /// A name or key that is longer than the format allows.
    #[error("{what} of {len} bytes at byte {at} (want at most {most})")]
    Name {
        /// Of a tensor or of an entry.
        what: &'static str,
        /// The length claimed.
        len: u64,
        /// Where it begins.
        at: u64,
        /// The most bytes.
        most: u64,
    },
    /// A name or key that is not UTF-8.
    #[error("{what} at byte {at} is not UTF-8")]
    Utf8 {
        /// Of a tensor or of an entry.
        what: &'static str,
        /// Where it begins.
        at: u64,
    },
    /// A key that stands twice.
    #[error("metadata `{}` stands twice", Short(key))]
    Key {
        /// The key.
        key: String,
    },
    /// A value of a type that is not known, or of a type that the key does not take.
    #[error("metadata `{}`: a value of type {got} (want {want})", Short(key))]
    Value {
        /// The key.
        key: String,
        /// The type's number.
        got: u32,
        /// What is allowed.
        want: &'static str,
    },
    /// An alignment that is none.
    #[error("an alignment of {got} (want a power of two)")]
    Alignment {
        /// The alignment.
        got: u32,
    },
    /// A tensor without a name.
    #[error("tensor {index} has no name")]
    Unnamed {
        /// Its place in the file.
        index: u64,
    },
    /// Two tensors of one name.
    #[error("tensor `{}` stands twice", Short(tensor))]
    Twice {
        /// The tensor.
        tensor: String,
    },
    /// More dimensions than the format allows.
    #[error("tensor `{}`: {got} dimensions (want at most {most})", Short(tensor))]
    Rank {
        /// The tensor.
        tensor: String,
        /// Its dimensions.
        got: u32,
        /// The most dimensions.
        most: u32,
    },
    /// A type that is not known.
    #[error("tensor `{}`: type {got} is not known", Short(tensor))]
    Type {
        /// The tensor.
        tensor: String,
        /// The type's number.
        got: u32,
    },
    /// Rows that are not whole blocks.
    #[error(
        "tensor `{}`: rows of {columns} elements are not whole blocks of {kind} (want a multiple of {block})",
        Short(tensor)
    )]
    Row {
        /// The tensor.
        tensor: String,
        /// Elements of a row.
        columns: u64,
        /// The type's name.
        kind: &'static str,
        /// Elements of a block.
        block: usize,
    },
    /// A size that overflows.
    #[error("tensor `{}`: {} {kind} is too large", Short(tensor), ShapeText(shape))]
    TooLarge {
        /// The tensor.
        tensor: String,
        /// Its shape.
        shape: Vec<usize>,
        /// The type's name.
        kind: &'static str,
    },
    /// An offset between the places where tensors may begin.
    #[error("tensor `{}`: offset {offset} is not a multiple of the alignment {alignment}", Short(tensor))]
    Offset {
        /// The tensor.
        tensor: String,
        /// Its offset.
        offset: u64,
        /// The alignment.
        alignment: u32,
    },
    /// A tensor that does not lie in the file's data.
    #[error("tensor `{}`: {bytes} bytes at offset {offset} of {data} bytes of data", Short(tensor))]
    Behind {
        /// The tensor.
        tensor: String,
        /// Where it begins in the data.
        offset: u64,
        /// Its bytes.
        bytes: u64,
        /// Bytes of data in the file.
        data: u64,
    },
    /// Two tensors that share bytes.
    #[error("tensor `{}` begins at offset {offset}, within `{}`, which ends at {end}", Short(tensor), Short(other))]
    Overlap {
        /// The tensor.
        tensor: String,
        /// Where it begins in the data.
        offset: u64,
        /// The tensor before it.
        other: String,
        /// Where that one ends.
        end: u64,
    },
    /// The scale of a weight that is of another type or shape.
    #[error(
        "tensor `{}`: {} {data_type} as the scale of `{}` (want float, one element or one for each matrix)",
        Short(tensor),
        ShapeText(shape),
        Short(weight)
    )]
    Scale {
        /// The scale.
        tensor: String,
        /// Its type.
        data_type: DataType,
        /// Its shape.
        shape: Vec<usize>,
        /// The weight.
        weight: String,
    },
    /// A type that is known but not read here.
    #[error("tensor `{}`: {kind} is not read here", Short(tensor))]
    Unread {
        /// The tensor.
        tensor: String,
        /// The type's name.
        kind: &'static str,
    },
    /// Blocks where elements are wanted.
    #[error("tensor `{}`: {kind} is quantized (dequantize it first)", Short(tensor))]
    Quantized {
        /// The tensor.
        tensor: String,
        /// The type's name.
        kind: &'static str,
    },
    /// Blocks that would have to stay as they are.
    #[error("tensor `{}`: a .safetensors file cannot hold {kind}, so that the tensor needs a type", Short(tensor))]
    Excluded {
        /// The tensor.
        tensor: String,
        /// The type's name.
        kind: &'static str,
    },
    /// A scale that is NaN.
    #[error("tensor `{}`: a scale of block {block} is NaN (--allow-nan gives NaN for its elements)", Short(tensor))]
    NanScale {
        /// The tensor.
        tensor: String,
        /// The block.
        block: u64,
    },
}
