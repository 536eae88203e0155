//! What can be wrong with a `.safetensors` file.

use crate::formats::limits::{MAX_HEADER, METADATA};
use crate::text::{ShapeText, Short, TensorText};
use onnx_cast::DataType;
use thiserror::Error;

/// Bytes that are no valid `.safetensors` file, or a tensor that none can hold.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SafetensorsError {
    /// Shorter than the eight bytes of the header's length.
    #[error("{len} bytes are no .safetensors file (want at least 8)")]
    Short {
        /// The file's length.
        len: usize,
    },
    /// A header that is longer than the format allows.
    #[error("a header of {len} bytes (want at most {MAX_HEADER})")]
    HeaderTooLarge {
        /// The length claimed.
        len: u64,
    },
    /// A header that is longer than the file.
    #[error("a header of {len} bytes in a file of {file}")]
    HeaderTruncated {
        /// The length claimed.
        len: u64,
        /// The file's length.
        file: usize,
    },
    /// A header that is not JSON of the format's form.
    #[error("the header is not valid: {what}")]
    Header {
        /// What the JSON reader says.
        what: String,
    },
    /// A type that ONNX does not have.
    #[error("{}type `{}` is none that ONNX has", TensorText(tensor), Short(dtype))]
    Dtype {
        /// The tensor.
        tensor: String,
        /// The type's name in the file.
        dtype: String,
    },
    /// Offsets that are out of order, leave a gap, overlap, or lead out of the file.
    #[error(
        "{}data_offsets {start} to {end} (want to start at {want}, and to end within the {data} bytes of data)",
        TensorText(tensor)
    )]
    Offsets {
        /// The tensor.
        tensor: String,
        /// Where it starts.
        start: u64,
        /// Where it ends.
        end: u64,
        /// Where the tensor before it ends.
        want: u64,
        /// Bytes of data in the file.
        data: u64,
    },
    /// A tensor of another size than type and shape ask for.
    #[error("{}{got} bytes for {} {data_type} (want {want})", TensorText(tensor), ShapeText(shape))]
    Len {
        /// The tensor.
        tensor: String,
        /// Its type.
        data_type: DataType,
        /// Its shape.
        shape: Vec<usize>,
        /// Bytes that there are.
        got: u64,
        /// Bytes that type and shape ask for.
        want: usize,
    },
    /// A size that overflows.
    #[error("{}{} {data_type} is too large", TensorText(tensor), ShapeText(shape))]
    TooLarge {
        /// The tensor.
        tensor: String,
        /// Its type.
        data_type: DataType,
        /// Its shape.
        shape: Vec<usize>,
    },
    /// Bytes behind the last tensor.
    #[error("{got} bytes of data where the tensors take {want}")]
    Trailing {
        /// Bytes that there are.
        got: u64,
        /// Bytes that the tensors take.
        want: u64,
    },
    /// A type that the format has no name for.
    #[error("{}the .safetensors format has no name for {data_type}", TensorText(tensor))]
    NoName {
        /// The tensor; empty where it is any.
        tensor: String,
        /// The type.
        data_type: DataType,
    },
    /// Elements that do not fill whole bytes.
    #[error(
        "{}{elements} elements of {data_type} do not fill whole bytes, which the .safetensors format asks for",
        TensorText(tensor)
    )]
    Partial {
        /// The tensor.
        tensor: String,
        /// Its type.
        data_type: DataType,
        /// Its elements.
        elements: usize,
    },
    /// A tensor without a name.
    #[error("a tensor in a .safetensors file needs a name")]
    Unnamed,
    /// The name that the format keeps for itself.
    #[error("no tensor in a .safetensors file may have the name `{METADATA}`")]
    ReservedName,
}
