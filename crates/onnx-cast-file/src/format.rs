//! The file formats, and how a path tells which one it is.

use crate::error::FileError;
use std::fmt;
use std::path::Path;

/// A file format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// One ONNX `TensorProto`: `.pb`.
    TensorProto,
    /// One numpy array: `.npy`.
    Npy,
    /// Named tensors: `.safetensors`.
    Safetensors,
    /// An ONNX `ModelProto`: `.onnx`.
    Onnx,
}

impl Format {
    /// Every format.
    pub const ALL: &'static [Format] = &[Format::TensorProto, Format::Npy, Format::Safetensors, Format::Onnx];

    /// The extension that stands for the format, without the point.
    pub const fn extension(self) -> &'static str {
        match self {
            Format::TensorProto => "pb",
            Format::Npy => "npy",
            Format::Safetensors => "safetensors",
            Format::Onnx => "onnx",
        }
    }

    /// Whether a file of the format holds any number of tensors, with names.
    pub(crate) const fn holds_many(self) -> bool {
        matches!(self, Format::Safetensors)
    }

    /// The format of a path, by its extension in any case.
    ///
    /// # Errors
    /// [`FileError::Extension`] where the extension is none of [`Format::ALL`].
    pub fn from_path(path: impl AsRef<Path>) -> Result<Format, FileError> {
        let path = path.as_ref();
        let extension = path.extension().map(|extension| extension.to_string_lossy().to_ascii_lowercase());
        let known = Format::ALL.iter().copied().find(|format| extension.as_deref() == Some(format.extension()));
        known.ok_or_else(|| FileError::Extension { path: path.to_owned() })
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, ".{}", self.extension())
    }
}
