//! What can be wrong with a `.safetensors` file.

use crate::formats::limits::{MAX_HEADER, METADATA};
use crate::text::{ShapeText, Short, TensorText};
use onnx_cast::DataType;
use thiserror::Error;

/// Bytes that are no valid `.safetensors` file, or a tensor that none can hold.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[allow(missing_docs, reason = "each text shows what its fields are")]
#[non_exhaustive]
pub enum SafetensorsError {
    /// Shorter than the eight bytes of the header's length.
    #[error("{len} bytes are no .safetensors file (want at least 8)")]
    Short { len: usize },
    /// A header that is longer than the format allows.
    #[error("a header of {len} bytes (want at most {MAX_HEADER})")]
    HeaderTooLarge { len: u64 },
    /// A header that is longer than the file.
    #[error("a header of {len} bytes in a file of {file}")]
    HeaderTruncated { len: u64, file: usize },
    /// A header that is not JSON of the format's form.
    #[error("the header is not valid: {what}")]
    Header { what: String },
    /// A type that ONNX does not have.
    #[error("{}type `{}` is none that ONNX has", TensorText(tensor), Short(dtype))]
    Dtype { tensor: String, dtype: String },
    /// Offsets that are out of order, leave a gap, overlap, or lead out of the file.
    #[error(
        "{}data_offsets {start} to {end} (want to start at {want}, and to end within the {data} bytes of data)",
        TensorText(tensor)
    )]
    Offsets { tensor: String, start: u64, end: u64, want: u64, data: u64 },
    /// A tensor of another size than type and shape ask for.
    #[error("{}{got} bytes for {} {data_type} (want {want})", TensorText(tensor), ShapeText(shape))]
    Len { tensor: String, data_type: DataType, shape: Vec<usize>, got: u64, want: usize },
    /// A size that overflows.
    #[error("{}{} {data_type} is too large", TensorText(tensor), ShapeText(shape))]
    TooLarge { tensor: String, data_type: DataType, shape: Vec<usize> },
    /// Bytes behind the last tensor.
    #[error("{got} bytes of data where the tensors take {want}")]
    Trailing { got: u64, want: u64 },
    /// A type that the format has no name for.
    #[error("{}the .safetensors format has no name for {data_type}", TensorText(tensor))]
    NoName { tensor: String, data_type: DataType },
    /// Elements that do not fill whole bytes.
    #[error(
        "{}{elements} elements of {data_type} do not fill whole bytes, which the .safetensors format asks for",
        TensorText(tensor)
    )]
    Partial { tensor: String, data_type: DataType, elements: usize },
    /// A tensor without a name.
    #[error("a tensor in a .safetensors file needs a name")]
    Unnamed,
    /// The name that the format keeps for itself.
    #[error("no tensor in a .safetensors file may have the name `{METADATA}`")]
    ReservedName,
}
