//! What can be wrong with a file of tensors. Every text starts with the file's path and names the tensor; texts are
//! complete, so no error here has a `source` that would say the same again.

use crate::formats::format::{Format, TORCH, TORCH_BEGINNING, UNSEEN, is_unseen};
use crate::formats::protobuf::wire::WireError;
use crate::io::error::IoError;
use crate::io::fs;
use crate::io::positional::InputFile;
use crate::text::{PathText, ShapeText, Short, TensorText, Wording};
use onnx_cast::CastError;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// A file that could not be read or written as its format.
#[derive(Debug, Error)]
#[error("{}", self.wording())]
#[non_exhaustive]
pub enum FormatError {
    /// The system refused.
    Io(IoError),
    /// A file that is not valid, that cannot be written, or that does not fit what was asked for. Of a checkpoint in
    /// several files the path may be that of its index or its folder.
    #[allow(missing_docs)]
    Invalid { path: PathBuf, error: Box<Invalid> },
    /// A tensor that could not be cast.
    #[allow(missing_docs)]
    Cast { path: PathBuf, tensor: String, error: CastError },
}

/// What is wrong with a file, with a tensor of it, or with what was asked for.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{}", self.wording())]
#[non_exhaustive]
pub struct Invalid {
    /// Which kind of error it is.
    pub kind: InvalidKind,
    /// The tensor, where it is about one and its name is known.
    pub tensor: String,
    /// What is wrong, and what is wanted.
    pub what: Wording,
}

/// Kinds of [`Invalid`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvalidKind {
    /// Bytes that do not follow the format, or end too early.
    Syntax,
    /// A valid feature of the format, or of a layout, that is not supported here.
    Unsupported,
    /// An element type or a type of metadata that is unknown, unexpected, or that the format cannot hold.
    Type,
    /// The file leaves the element type open.
    Ambiguous,
    /// A size, shape or place that does not match type and shape or the file's length, overlaps another, or overflows.
    Size,
    /// A name that is missing, invalid, reserved or used twice.
    Name,
    /// A value that is not allowed.
    Value,
    /// Files of a checkpoint that do not fit together.
    Files,
    /// Quantized weights where plain ones are wanted.
    Quantized,
    /// Nothing quantized where quantized weights are wanted.
    NotQuantized,
    /// No weight in the layout that was named, or none that can be quantized.
    NoWeights,
    /// A part of a quantized weight that is missing.
    Missing,
    /// A weight of another format than the configuration claims.
    Contradiction,
    /// Tensors or a configuration that change weights or their inputs, as a rotation does, which is not applied here.
    Transformed,
    /// Values that would change where none may.
    Changes,
    /// A request that the file does not fit: a field, a pattern or a format.
    Request,
    /// An output that exists, and that the request neither replaces nor continues.
    Exists,
}

impl Invalid {
    pub(crate) fn new(kind: InvalidKind, what: impl Into<Wording>) -> Invalid {
        Invalid { kind, tensor: String::new(), what: what.into() }
    }

    /// A size that overflows, or that does not fit in memory.
    pub fn too_large(data_type: impl fmt::Display, shape: &[usize]) -> Invalid {
        Invalid::new(InvalidKind::Size, format!("{} {data_type} is too large", ShapeText(shape)))
    }

    /// A part of a quantized weight that is missing, and where it would be.
    pub(crate) fn missing(tensor: &str, what: &str, want: &str) -> Invalid {
        Invalid::new(InvalidKind::Missing, format!("{what} is missing (want `{}`)", Short(want))).of_tensor(tensor)
    }

    /// Weights of a kind that is not read, as something at a place says.
    pub(crate) fn variant(place: &str, what: &str, want: impl Into<Wording>) -> Invalid {
        let what = format!("{}: {what} (want ", Short(place));
        Invalid::new(InvalidKind::Unsupported, want.into().after(what).then(")"))
    }

    /// Two tensors of the output with one name.
    pub(crate) fn twice(name: &str) -> Invalid {
        Invalid::new(InvalidKind::Name, format!("two tensors would be named `{}`", Short(name)))
    }

    /// The same error, which names the tensor.
    pub fn of_tensor(self, tensor: &str) -> Invalid {
        Invalid { tensor: tensor.to_owned(), ..self }
    }

    /// What a type or a shape should be, of an error that says it in brackets.
    pub(crate) fn want(&self) -> Option<&str> {
        let (_, want) = self.what.start().split_once("(want ")?;
        want.split([';', ')']).next()
    }

    /// The text, with fields of requests apart.
    pub fn wording(&self) -> Wording {
        self.what.after(TensorText(&self.tensor))
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

    /// A file that does not fit what was asked for.
    pub(crate) fn request(path: &Path, what: impl Into<Wording>) -> FormatError {
        FormatError::invalid(path, Invalid::new(InvalidKind::Request, what))
    }

    /// A format that a job does not take, with what to do in its place.
    pub(crate) fn format(path: &Path, job: &str, format: Format, hint: &str) -> FormatError {
        let hint = if hint.is_empty() { String::new() } else { format!(" ({hint})") };
        FormatError::request(path, format!("{job} does not take {format} files{hint}"))
    }

    /// A file of several tensors, or of none, where a job takes one.
    pub(crate) fn not_one(path: &Path, count: usize, job: &str) -> FormatError {
        FormatError::request(path, format!("{count} tensors, where {job} takes one"))
    }

    pub(crate) fn cast(path: &Path, tensor: &str, error: CastError) -> FormatError {
        FormatError::Cast { path: path.to_owned(), tensor: tensor.to_owned(), error }
    }

    /// The text, with fields of requests apart.
    pub fn wording(&self) -> Wording {
        match self {
            FormatError::Io(error) => error.to_string().into(),
            FormatError::Invalid { path, error } => error.wording().after(format_args!("{}: ", PathText(path))),
            FormatError::Cast { path, tensor, error } => {
                format!("{}: {}{error}", PathText(path), TensorText(tensor)).into()
            }
        }
    }
}

impl From<IoError> for FormatError {
    fn from(error: IoError) -> Self {
        FormatError::Io(error)
    }
}

impl Format {
    /// As [`Format::from_path`], of a file that is to be read.
    ///
    /// # Errors
    /// As there; but where there is no file, that is the error.
    pub fn of_input(path: impl AsRef<Path>) -> Result<Format, FormatError> {
        let path = path.as_ref();
        let format = Format::from_path(path);
        if matches!(format, Ok(Format::Raw)) && Format::is_torch(path) {
            return Ok(Format::Torch);
        }
        format.map_err(|error| match fs::metadata(path) {
            Err(missing) if missing.kind() == io::ErrorKind::NotFound => FormatError::io(path, "open", missing),
            _ => Format::unread(path).map_or(error, |what| FormatError::request(path, what)),
        })
    }

    /// The format of a path, by its extension in any case.
    ///
    /// # Errors
    /// If the extension is not in [`Format::ALL`].
    pub fn from_path(path: impl AsRef<Path>) -> Result<Format, FormatError> {
        let path = path.as_ref();
        let extension = path.extension().map(|extension| extension.to_string_lossy().to_ascii_lowercase());
        let known = Format::ALL.iter().copied().find(|format| extension.as_deref() == Some(format.extension()));
        let is = |others: &[&str]| extension.as_deref().is_some_and(|extension| others.contains(&extension));
        let known = known.or(is(&[UNSEEN]).then_some(Format::Raw)).or(is(&TORCH).then_some(Format::Torch));
        known.ok_or_else(|| {
            if fs::is_dir(path) {
                return FormatError::request(path, "a folder (want the name of a file)");
            }
            let known: Vec<String> = Format::ALL.iter().map(ToString::to_string).collect();
            FormatError::request(path, format!("unknown file extension (want {}, .{UNSEEN})", known.join(", ")))
        })
    }

    /// Whether a path without the extension of a format is that of a pipe or a device, as `/dev/null`.
    pub fn is_of_device(path: &Path) -> bool {
        let is_other = |metadata: fs::Metadata| !metadata.is_file() && !metadata.is_dir();
        Format::from_path(path).is_err() && fs::metadata(path).is_ok_and(is_other)
    }

    /// The extensions of files of tensors that are written.
    pub(crate) fn tensors() -> String {
        let formats = [Format::TensorProto, Format::Npy, Format::Npz, Format::Safetensors, Format::Raw];
        let names: Vec<String> = formats.iter().map(ToString::to_string).collect();
        format!("{} or .{UNSEEN}", names.join(", "))
    }

    /// Returns the format of a weight file in a folder, by its extension.
    pub(crate) fn of_weights(path: &Path) -> Format {
        let format = Format::from_path(path);
        if matches!(format, Ok(Format::Raw | Format::Torch)) { Format::Torch } else { Format::Safetensors }
    }

    /// Returns whether a file with an extension of raw bytes begins like a file of `torch.save`. Any zip archive
    /// counts, because no archive is raw bytes.
    pub(crate) fn is_torch(path: &Path) -> bool {
        let beginning = InputFile::open(path).and_then(|file| file.prefix(TORCH_BEGINNING));
        let found = |bytes: Vec<u8>| Format::by_content(&bytes);
        !is_unseen(path) && matches!(beginning.map(found), Ok(Some(Format::Torch | Format::Npz)))
    }

    /// What to do about an input in a format that is not read.
    fn unread(path: &Path) -> Option<&'static str> {
        let extension = path.extension()?.to_string_lossy().to_ascii_lowercase();
        match &*extension {
            "pkl" => Some("a pickle, which is not read (save its tensors by torch.save as .pt)"),
            "h5" | "hdf5" | "keras" | "tflite" => {
                Some("a Keras or TensorFlow file, which is not read (save its arrays as .npz, or export to .onnx)")
            }
            _ => None,
        }
    }
}
