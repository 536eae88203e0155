//! What can go wrong with a file. Every text starts with the file's path and names the tensor; texts are complete, so no
//! error here has a `source` that would say the same again.

use crate::cast::Summary;
use crate::counts::Loss;
use crate::format::{Format, UNSEEN};
use crate::model::ModelError;
use crate::npy::NpyError;
use crate::npz::NpzError;
use crate::pb::PbError;
use crate::safetensors::SafetensorsError;
use crate::sharded::ShardError;
use onnx_cast::{CastError, DataType, OpError};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// A file that could not be read, cast or written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum FileError {
    /// The system refused.
    #[error("{}: cannot {action}: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What was tried: `open`, `read`, `write`, ...
        action: &'static str,
        /// What the system says.
        error: io::Error,
    },
    /// An extension that stands for no format.
    #[error("{}: unknown file extension (want {})", path.display(), Extensions)]
    Extension {
        /// The file.
        path: PathBuf,
    },
    /// A format that what was asked for does not do.
    #[error("{}: {what} does not take {format} files{}", path.display(), Hint(hint))]
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
    /// A `.pb` file that is no valid TensorProto.
    #[error("{}: {error}", path.display())]
    Pb {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        error: Box<PbError>,
    },
    /// A `.npy` file that is not valid, or that cannot be written.
    #[error("{}: {error}", path.display())]
    Npy {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        error: Box<NpyError>,
    },
    /// A `.npz` file that is not valid, or that cannot be written.
    #[error("{}: {error}", path.display())]
    Npz {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        error: Box<NpzError>,
    },
    /// Bytes that do not tell what they are.
    #[error("{}: neither .npy, .npz nor .safetensors by its first bytes (give the type, and the shape, of raw bytes)", path.display())]
    Content {
        /// The file.
        path: PathBuf,
    },
    /// A file that is no raw bytes by its beginning.
    #[error("{}: {what}, not raw bytes ({todo})", path.display())]
    NotRaw {
        /// The file.
        path: PathBuf,
        /// What it is.
        what: &'static str,
        /// What to do with it.
        todo: &'static str,
    },
    /// Raw bytes without a type.
    #[error("{}: raw bytes do not tell their element type (give it)", path.display())]
    RawType {
        /// The file.
        path: PathBuf,
    },
    /// Another number of raw bytes than type and shape ask for.
    #[error("{}: {len} bytes of {}{data_type}{}", path.display(), RawShape(shape), Want(*want))]
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
    #[error("{}: {format} files tell their shape (a shape is for raw bytes)", path.display())]
    Shape {
        /// The file.
        path: PathBuf,
        /// Its format.
        format: Format,
    },
    /// A candidate of a report that is no type of numbers.
    #[error("{to} is no type of real numbers: there are no errors to report")]
    Candidate {
        /// The type.
        to: DataType,
    },
    /// A cast from or to strings in a file of several tensors.
    #[error("{}: {}strings are cast only in a file of one tensor", path.display(), TensorText(tensor))]
    Strings {
        /// The file.
        path: PathBuf,
        /// The tensor.
        tensor: String,
    },
    /// A cast that loses what the caller does not want to lose.
    #[error(
        "{}: {}{loss} in {count} value{} cast to {to} (nothing is written)",
        path.display(),
        TensorText(tensor),
        if *count == 1 { "" } else { "s" }
    )]
    Loss {
        /// The file.
        path: PathBuf,
        /// The first tensor with such a loss.
        tensor: String,
        /// What is lost.
        loss: Loss,
        /// How many of its values.
        count: u64,
        /// The target type.
        to: DataType,
        /// What the cast would have done.
        summary: Box<Summary>,
    },
    /// A `.safetensors` file that is not valid, or that cannot be written.
    #[error("{}: {error}", path.display())]
    Safetensors {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        error: Box<SafetensorsError>,
    },
    /// A checkpoint in several files whose parts do not fit together.
    #[error("{}: {error}", path.display())]
    Shards {
        /// The index, or the folder.
        path: PathBuf,
        /// What is wrong.
        error: Box<ShardError>,
    },
    /// A `.onnx` file that is not valid or that cannot be evaluated.
    #[error("{}: {error}", path.display())]
    Model {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        error: Box<ModelError>,
    },
    /// A file of several tensors, or of none, where one is wanted.
    #[error("{}: {count} tensors, where {what} takes one", path.display())]
    TensorCount {
        /// The file.
        path: PathBuf,
        /// How many it holds.
        count: usize,
        /// What was asked for.
        what: &'static str,
    },
    /// A type that the caller gave for the input, which is of another.
    #[error("{}: {}{got}, not {want} as asked", path.display(), TensorText(tensor))]
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
    /// Options that no operator has, whatever the file.
    #[error("{error}")]
    Operator {
        /// What is wrong.
        error: OpError,
    },
    /// The caller's [`Watch`](crate::Watch) has ended the work.
    #[error("{}: stopped before it was complete", path.display())]
    Stopped {
        /// The output, which is as it was before.
        path: PathBuf,
    },
    /// A tensor that could not be cast.
    #[error("{}: {}{error}", path.display(), TensorText(tensor))]
    Cast {
        /// The file.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// What is wrong.
        error: Box<CastError>,
    },
}

impl FileError {
    pub(crate) fn io(path: &Path, action: &'static str, error: io::Error) -> FileError {
        FileError::Io { path: path.to_owned(), action, error }
    }

    pub(crate) fn pb(path: &Path, error: PbError) -> FileError {
        FileError::Pb { path: path.to_owned(), error: Box::new(error) }
    }

    pub(crate) fn npy(path: &Path, error: NpyError) -> FileError {
        FileError::Npy { path: path.to_owned(), error: Box::new(error) }
    }

    pub(crate) fn safetensors(path: &Path, error: SafetensorsError) -> FileError {
        FileError::Safetensors { path: path.to_owned(), error: Box::new(error) }
    }

    pub(crate) fn npz(path: &Path, error: NpzError) -> FileError {
        FileError::Npz { path: path.to_owned(), error: Box::new(error) }
    }

    pub(crate) fn shards(path: &Path, error: ShardError) -> FileError {
        FileError::Shards { path: path.to_owned(), error: Box::new(error) }
    }

    pub(crate) fn model(path: &Path, error: ModelError) -> FileError {
        FileError::Model { path: path.to_owned(), error: Box::new(error) }
    }

    pub(crate) fn cast(path: &Path, tensor: &str, error: CastError) -> FileError {
        FileError::Cast { path: path.to_owned(), tensor: tensor.to_owned(), error: Box::new(error) }
    }
}

/// ``tensor `w1`: ``, or nothing where the tensor has no name.
pub(crate) struct TensorText<'a>(pub(crate) &'a str);

impl fmt::Display for TensorText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(f, "tensor `{}`: ", Short(self.0)) }
    }
}

/// Text of the file's in an error: what cannot be printed is escaped, and past 64 characters it is cut.
pub(crate) struct Short<'a>(pub(crate) &'a str);

impl fmt::Display for Short<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const LIMIT: usize = 64;
        for c in self.0.chars().take(LIMIT).flat_map(char::escape_debug) {
            write!(f, "{c}")?;
        }
        if self.0.chars().nth(LIMIT).is_some() { f.write_str("...") } else { Ok(()) }
    }
}

/// A shape as people read it: `2x3`, or `scalar`; cut past 16 dimensions.
pub(crate) struct ShapeText<'a, T>(pub(crate) &'a [T]);

impl<T: fmt::Display> fmt::Display for ShapeText<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const LIMIT: usize = 16;
        if self.0.is_empty() {
            return f.write_str("scalar");
        }
        for (i, dim) in self.0.iter().take(LIMIT).enumerate() {
            write!(f, "{}{dim}", if i == 0 { "" } else { "x" })?;
        }
        if self.0.len() > LIMIT { f.write_str("x...") } else { Ok(()) }
    }
}

struct RawShape<'a>(&'a Option<Vec<usize>>);

impl fmt::Display for RawShape<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_ref().map_or(Ok(()), |shape| write!(f, "{} ", ShapeText(shape)))
    }
}

struct Want(Option<usize>);

impl fmt::Display for Want {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(want) => write!(f, " (want {want})"),
            None => f.write_str(", which do not come out even"),
        }
    }
}

struct Extensions;

impl fmt::Display for Extensions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, format) in Format::ALL.iter().enumerate() {
            write!(f, "{}{format}", if i == 0 { "" } else { ", " })?;
        }
        write!(f, ", .{UNSEEN}")
    }
}

struct Hint<'a>(&'a str);

impl fmt::Display for Hint<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(f, " ({})", self.0) }
    }
}
