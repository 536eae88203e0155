//! What can be wrong with external data (onnx.proto, `TensorProto.external_data`).

use onnx_cast::DataType;
use onnx_cast_file::text::Short;
use thiserror::Error;

/// What is wrong with a tensor's external data.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ExternalProblem {
    /// No `location`.
    #[error("external data without a location")]
    NoLocation,
    /// A location that is not a relative path without `..`.
    #[error("external data at `{}` (want a path relative to the model's folder, without `..`)", Short(location))]
    Path {
        /// The location.
        location: String,
    },
    /// A link that leads out of the model's folder.
    #[error(
        "external data at `{}`, a link out of the model's folder (put the file itself beside the model)",
        Short(location)
    )]
    Link {
        /// The location.
        location: String,
    },
    /// A location that cannot be read.
    #[error("external data at `{}` cannot be read: {error}", Short(location))]
    Open {
        /// The location.
        location: String,
        /// What the system says.
        error: String,
    },
    /// An offset or a length that is not a number.
    #[error("{key} `{}` of external data is not a number", Short(value))]
    Number {
        /// `offset` or `length`.
        key: &'static str,
        /// Its value.
        value: String,
    },
    /// A length that type and shape do not ask for.
    #[error("{got} bytes of external data for {data_type} (type and shape want {want})")]
    Length {
        /// The type.
        data_type: DataType,
        /// The length that is stated.
        got: u64,
        /// Bytes that type and shape ask for.
        want: u64,
    },
    /// Elements past the end of the file.
    #[error("external data at `{}` has {size} bytes (want {want} from {offset} on)", Short(location))]
    End {
        /// The location.
        location: String,
        /// Bytes of the file.
        size: u64,
        /// Where the elements start.
        offset: u64,
        /// Bytes of the elements.
        want: u64,
    },
    /// Strings, which have no size.
    #[error("strings in external data")]
    Strings,
    /// External data of a model in memory, which has no folder.
    #[error("its elements are in another file, for which a model in memory names no folder (load them first)")]
    InMemory,
    /// A part of a sparse tensor.
    #[error("a sparse tensor in external data, which is not supported")]
    Sparse,
}
