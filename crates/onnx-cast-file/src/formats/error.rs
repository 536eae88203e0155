//! What can be wrong with a file of tensors. Every text starts with the file's path and names the tensor; texts are
//! complete, so no error here has a `source` that would say the same again.

use crate::formats::format::{Format, UNSEEN};
use crate::formats::protobuf::wire::WireError;
use crate::io::error::IoError;
use crate::io::fs;
use crate::text::{PathText, ShapeText, TensorText};
use onnx_cast::{CastError, DataType};
use std::fmt;
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

/// What is wrong with a file, or with a tensor of it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{}{what}", TensorText(tensor))]
#[non_exhaustive]
pub struct Invalid {
    /// Which kind of error it is.
    pub kind: InvalidKind,
    /// The tensor, where it is about one and its name is known.
    pub tensor: String,
    /// What is wrong, and what is wanted.
    pub what: String,
}

/// Kinds of [`Invalid`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvalidKind {
    /// Bytes that do not follow the format, or end too early.
    Syntax,
    /// A valid feature of the format that is not supported here.
    Unsupported,
    /// An element type or a type of metadata that is unknown, or that the format cannot hold.
    Type,
    /// The file leaves the element type open.
    Ambiguous,
    /// A size or place that does not match type and shape or the file's length, overlaps another, or overflows.
    Size,
    /// A name that is missing, invalid, reserved or used twice.
    Name,
    /// A value that is not allowed.
    Value,
    /// Files of a checkpoint that do not fit together.
    Files,
}

impl Invalid {
    pub(crate) fn new(kind: InvalidKind, what: impl Into<String>) -> Invalid {
        Invalid { kind, tensor: String::new(), what: what.into() }
    }

    /// A size that overflows, or that does not fit in memory.
    pub fn too_large(data_type: impl fmt::Display, shape: &[usize]) -> Invalid {
        Invalid::new(InvalidKind::Size, format!("{} {data_type} is too large", ShapeText(shape)))
    }

    /// The same error, which names the tensor.
    pub fn of_tensor(self, tensor: &str) -> Invalid {
        Invalid { tensor: tensor.to_owned(), ..self }
    }
}

impl From<WireError> for Invalid {
    fn from(error: WireError) -> Self {
        Invalid::new(InvalidKind::Syntax, format!("not a valid TensorProto: {error}"))
    }
}

impl FormatError {
    pub(crate) fn io(path: &Path, action: &'static str, error: io::Error) -> FormatError {
        IoError::new(path, action, error).into()
    }

    pub(crate) fn invalid(path: &Path, error: Invalid) -> FormatError {
        FormatError::Invalid { path: path.to_owned(), error: Box::new(error) }
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
