//! The file formats, and how a path tells which one it is.

use crate::formats::error::FormatError;
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
    /// Named numpy arrays in a zip archive: `.npz`.
    Npz,
    /// Named tensors: `.safetensors`.
    Safetensors,
    /// An ONNX `ModelProto`: `.onnx`.
    Onnx,
    /// The bytes of one tensor's elements and nothing else: `.bin`.
    Raw,
}

impl Format {
    /// Every format.
    pub const ALL: &'static [Format] =
        &[Format::TensorProto, Format::Npy, Format::Npz, Format::Safetensors, Format::Onnx, Format::Raw];

    /// The extension that stands for the format, without the point.
    pub const fn extension(self) -> &'static str {
        match self {
            Format::TensorProto => "pb",
            Format::Npy => "npy",
            Format::Npz => "npz",
            Format::Safetensors => "safetensors",
            Format::Onnx => "onnx",
            Format::Raw => "bin",
        }
    }

    /// Whether a file of the format holds any number of tensors, with names.
    pub(crate) const fn holds_many(self) -> bool {
        matches!(self, Format::Safetensors | Format::Npz)
    }

    /// The format of a file by its first bytes, of those that can be told so.
    pub(crate) fn by_content(bytes: &[u8]) -> Option<Format> {
        if bytes.starts_with(b"\x93NUMPY") {
            return Some(Format::Npy);
        }
        // An archive's first member, or the end of an empty one.
        if bytes.starts_with(b"PK\x03\x04") || bytes.starts_with(b"PK\x05\x06") {
            return Some(Format::Npz);
        }
        (bytes.get(8) == Some(&b'{')).then_some(Format::Safetensors)
    }

    /// The format of a path, by its extension in any case.
    ///
    /// # Errors
    /// [`FormatError::Extension`] where the extension is none of [`Format::ALL`].
    pub fn from_path(path: impl AsRef<Path>) -> Result<Format, FormatError> {
        let path = path.as_ref();
        let extension = path.extension().map(|extension| extension.to_string_lossy().to_ascii_lowercase());
        let known = Format::ALL.iter().copied().find(|format| extension.as_deref() == Some(format.extension()));
        known.ok_or_else(|| FormatError::Extension { path: path.to_owned() })
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, ".{}", self.extension())
    }
}
