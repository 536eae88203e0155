//! What can be wrong with a file of tensors. Every text starts with the file's path and names the tensor; texts are
//! complete, so no error here has a `source` that would say the same again.

pub(crate) mod checkpoint;
pub(crate) mod gguf;
pub(crate) mod npy;
pub(crate) mod npz;
pub(crate) mod pb;
pub(crate) mod safetensors;

use crate::formats::format::{Format, UNSEEN};
use crate::io::error::IoError;
use crate::io::fs;
use crate::text::{PathText, ShapeText, TensorText};
use checkpoint::ShardError;
use gguf::GgufError;
use npy::NpyError;
use npz::NpzError;
use onnx_cast::{CastError, DataType};
use pb::PbError;
use safetensors::SafetensorsError;
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// A file that could not be read or written as its format.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum FormatError {
    /// The system refused.
    #[error("{0}")]
    Io(IoError),
    /// An extension that stands for no format.
    #[error("{}: unknown file extension (want {})", PathText(path), extensions())]
    Extension {
        /// The file.
        path: PathBuf,
    },
    /// A format that what was asked for does not do.
    #[error("{}: {what} does not take {format} files{}", PathText(path), in_brackets(hint))]
    Format {
        /// The file.
        path: PathBuf,
        /// What was asked for.
        what: &'static str,
        /// The format.
        format: Format,
        /// What to do in its place, where there is something.
        hint: &'static str,
    },
    /// Bytes that do not tell what they are.
    #[error(
        "{}: neither .npy, .npz, .safetensors nor .gguf by its first bytes (`from` gives the type of raw bytes)",
        PathText(path)
    )]
    Content {
        /// The file.
        path: PathBuf,
    },
    /// Raw bytes that begin as another format.
    #[error("{}: {what}, not raw bytes ({todo})", PathText(path))]
    NotRaw {
        /// The file.
        path: PathBuf,
        /// What it is.
        what: &'static str,
        /// What to do with it.
        todo: &'static str,
    },
    /// Raw bytes without a type.
    #[error("{}: raw bytes do not tell their element type (`from` gives it)", PathText(path))]
    RawType {
        /// The file.
        path: PathBuf,
    },
    /// Another number of raw bytes than type and shape ask for.
    #[error("{}: {len} bytes of {}{data_type}{}", PathText(path), raw_shape(shape), wanted(*want))]
    RawLen {
        /// The file.
        path: PathBuf,
        /// Bytes that there are.
        len: u64,
        /// The type.
        data_type: DataType,
        /// The shape, where it is given.
        shape: Option<Vec<usize>>,
        /// Bytes that type and shape ask for, where that is a number.
        want: Option<usize>,
    },
    /// A shape for a file that tells its own.
    #[error("{}: {format} files tell their shape (a shape is for raw bytes)", PathText(path))]
    Shape {
        /// The file.
        path: PathBuf,
        /// Its format.
        format: Format,
    },
    /// A file that is not valid as its format, or that cannot be written so.
    #[error("{}: {error}", PathText(path))]
    Invalid {
        /// The file; of a checkpoint in several files, its index or its folder.
        path: PathBuf,
        /// What is wrong.
        error: Box<Invalid>,
    },
    /// A file of several tensors, or of none, where one is wanted.
    #[error("{}: {count} tensors, where {what} takes one", PathText(path))]
    TensorCount {
        /// The file.
        path: PathBuf,
        /// How many it holds.
        count: usize,
        /// What was asked for.
        what: &'static str,
    },
    /// A type that the caller gave for the input, which is of another.
    #[error("{}: {}{got}, not {want} as asked", PathText(path), TensorText(tensor))]
    InputType {
        /// The file.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// The file's type.
        got: DataType,
        /// The caller's type.
        want: DataType,
    },
    /// A tensor that could not be cast.
    #[error("{}: {}{error}", PathText(path), TensorText(tensor))]
    Cast {
        /// The file.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// What is wrong.
        error: Box<CastError>,
    },
}

/// What is wrong with a file, by its format.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Invalid {
    /// Of a `.pb` file.
    #[error(transparent)]
    Pb(#[from] PbError),
    /// Of a `.npy` file.
    #[error(transparent)]
    Npy(#[from] NpyError),
    /// Of a `.npz` file.
    #[error(transparent)]
    Npz(#[from] NpzError),
    /// Of a `.safetensors` file.
    #[error(transparent)]
    Safetensors(#[from] SafetensorsError),
    /// Of a `.gguf` file.
    #[error(transparent)]
    Gguf(#[from] GgufError),
    /// Of a checkpoint in several files, whose parts do not fit together.
    #[error(transparent)]
    Shards(#[from] ShardError),
}

impl FormatError {
    pub(crate) fn io(path: &Path, action: &'static str, error: io::Error) -> FormatError {
        IoError::new(path, action, error).into()
    }

    pub(crate) fn invalid(path: &Path, error: impl Into<Invalid>) -> FormatError {
        FormatError::Invalid { path: path.to_owned(), error: Box::new(error.into()) }
    }

    pub(crate) fn cast(path: &Path, tensor: &str, error: CastError) -> FormatError {
        FormatError::Cast { path: path.to_owned(), tensor: tensor.to_owned(), error: Box::new(error) }
    }
}

impl From<IoError> for FormatError {
    fn from(error: IoError) -> Self {
        FormatError::Io(error)
    }
}

fn raw_shape(shape: &Option<Vec<usize>>) -> String {
    shape.as_ref().map_or(String::new(), |shape| format!("{} ", ShapeText(shape)))
}

fn wanted(bytes: Option<usize>) -> String {
    bytes.map_or(", which do not come out even".to_owned(), |bytes| format!(" (want {bytes})"))
}

fn extensions() -> String {
    let known: Vec<String> = Format::ALL.iter().map(ToString::to_string).collect();
    format!("{}, .{UNSEEN}", known.join(", "))
}

fn in_brackets(hint: &str) -> String {
    if hint.is_empty() { String::new() } else { format!(" ({hint})") }
}

impl Format {
    /// As [`Format::from_path`], of a file that is to be read.
    ///
    /// # Errors
    /// As there; but where there is no file, that is the error.
    pub fn of_input(path: impl AsRef<Path>) -> Result<Format, FormatError> {
        let path = path.as_ref();
        Format::from_path(path).map_err(|error| match fs::metadata(path) {
            Err(missing) if missing.kind() == io::ErrorKind::NotFound => FormatError::io(path, "open", missing),
            _ => error,
        })
    }

    /// The format of a path, by its extension in any case.
    ///
    /// # Errors
    /// [`FormatError::Extension`] where the extension is none of [`Format::ALL`].
    pub fn from_path(path: impl AsRef<Path>) -> Result<Format, FormatError> {
        let path = path.as_ref();
        let extension = path.extension().map(|extension| extension.to_string_lossy().to_ascii_lowercase());
        let known = Format::ALL.iter().copied().find(|format| extension.as_deref() == Some(format.extension()));
        let known = known.or((extension.as_deref() == Some(UNSEEN)).then_some(Format::Raw));
        known.ok_or_else(|| FormatError::Extension { path: path.to_owned() })
    }
}
