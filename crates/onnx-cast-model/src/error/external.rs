//! What can be wrong with external data (onnx.proto, `TensorProto.external_data`).

use onnx_cast::DataType;
use onnx_cast_file::text::Short;
use thiserror::Error;

/// What is wrong with a tensor's external data.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[allow(missing_docs, reason = "each text shows what its fields are")]
#[non_exhaustive]
pub enum ExternalProblem {
    /// No `location`.
    #[error("external data without a location")]
    NoLocation,
    /// A location that is not a relative path without `..`.
    #[error("external data at `{}` (want a path relative to the model's folder, without `..`)", Short(location))]
    Path { location: String },
    /// A link that leads out of the model's folder.
    #[error(
        "external data at `{}`, a link out of the model's folder (put the file itself beside the model)",
        Short(location)
    )]
    Link { location: String },
    /// A location that cannot be read.
    #[error("external data at `{}` cannot be read: {error}", Short(location))]
    Open { location: String, error: String },
    /// An offset or a length that is not a number.
    #[error("{key} `{}` of external data is not a number", Short(value))]
    Number { key: &'static str, value: String },
    /// A length that type and shape do not ask for.
    #[error("{got} bytes of external data for {data_type} (type and shape want {want})")]
    Length { data_type: DataType, got: u64, want: u64 },
    /// Elements past the end of the file.
    #[error("external data at `{}` has {size} bytes (want {want} from {offset} on)", Short(location))]
    End { location: String, size: u64, offset: u64, want: u64 },
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
