//! The file formats, and how a path tells which one it is.

use std::fmt;
use std::str::FromStr;

/// The first bytes of a `.gguf` file.
pub(crate) const GGUF_MAGIC: &[u8] = b"GGUF";

/// What writes `.gguf` files, as errors of other jobs say.
pub(crate) const GGUF_WRITER: &str = "`quantize` writes it, in the layout gguf";

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
    /// Tensors of a model for llama.cpp, quantized or not: `.gguf`. `quantize` writes it.
    Gguf,
    /// An ONNX `ModelProto`: `.onnx`.
    Onnx,
    /// The bytes of one tensor's elements and nothing else: `.bin`, or `.raw`, whose beginning is not looked at.
    Raw,
}

impl Format {
    /// Every format.
    pub const ALL: &'static [Format] =
        &[Format::TensorProto, Format::Npy, Format::Npz, Format::Safetensors, Format::Gguf, Format::Onnx, Format::Raw];

    /// The extension that stands for the format, without the point.
    pub const fn extension(self) -> &'static str {
        match self {
            Format::TensorProto => "pb",
            Format::Npy => "npy",
            Format::Npz => "npz",
            Format::Safetensors => "safetensors",
            Format::Gguf => "gguf",
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
        if bytes.starts_with(GGUF_MAGIC) {
            return Some(Format::Gguf);
        }
        (bytes.get(8) == Some(&b'{')).then_some(Format::Safetensors)
    }
}

/// The extension of raw bytes that begin as another format does.
pub(crate) const UNSEEN: &str = "raw";

impl FromStr for Format {
    type Err = String;

    /// Parses the extension, without the point, of a format that standard input and output have.
    fn from_str(name: &str) -> Result<Self, String> {
        let formats = [Format::TensorProto, Format::Npy, Format::Npz, Format::Safetensors, Format::Raw];
        let found = formats.into_iter().find(|format| format.extension() == name);
        found.ok_or_else(|| format!("want {}", formats.map(Format::extension).join(", ")))
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, ".{}", self.extension())
    }
}
