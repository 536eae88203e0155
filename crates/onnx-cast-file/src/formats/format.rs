//! The file formats, and how a path tells which one it is.

use crate::formats::limits::MAX_HEADER;
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

/// What the first bytes of a file are known to begin, and what to do with it in place of taking it for raw bytes.
pub(crate) fn foreign(bytes: &[u8]) -> Option<(&'static str, &'static str)> {
    const SAVE: &str = "save its tensors as .safetensors, or name raw bytes .raw";
    const PULL: &str = "run `git lfs pull`, or name raw bytes .raw";
    let known: [(&[u8], _, _); 7] = [
        (b"version https://", "a Git LFS pointer", PULL),
        (b"PK\x03\x04", "a zip archive, as torch.save writes", "save its tensors as .safetensors, or name arrays .npz"),
        (b"PK\x05\x06", "a zip archive without a member", SAVE),
        (b"\x89HDF\r\n\x1a\n", "an HDF5 file", SAVE),
        (GGUF_MAGIC, "a GGUF file", "name it .gguf, or raw bytes .raw"),
        (b"\x93NUMPY", "a numpy array", "name it .npy, or raw bytes .raw"),
        (b"\x08", "an ONNX model", "name it .onnx, or raw bytes .raw"),
    ];
    let fits = |magic: &[u8]| bytes.starts_with(magic) && (magic != b"\x08" || is_model(bytes));
    if let Some((_, what, todo)) = known.into_iter().find(|(magic, ..)| fits(magic)) {
        return Some((what, todo));
    }
    // The protocol, then a frame, or one of the opcodes that a pickle of an object, a number or a container begins
    // with.
    if let [0x80, 2..=5, 0x95 | b'}' | b']' | b'(' | b')' | b'c' | b'X' | b'\x8a' | b'\x8c' | b'K' | b'N', ..] = bytes {
        return Some(("a pickle, as older versions of torch.save write", SAVE));
    }
    let header = bytes.first_chunk().map(|len| u64::from_le_bytes(*len));
    let plausible = header.is_some_and(|len| len <= MAX_HEADER);
    let named = bytes.get(8..10).is_some_and(|start| matches!(start, [b'{', b'"' | b'}' | b' ' | b'\n']));
    (plausible && named).then_some(("a .safetensors file", "name it .safetensors, or raw bytes .raw"))
}

/// Whether bytes begin as a ModelProto does: the version of the format, then the graph, or the name of a producer.
fn is_model(bytes: &[u8]) -> bool {
    if let [0x08, 1..=31, 0x3a, ..] = bytes {
        return true;
    }
    let [0x08, 1..=31, 0x12, len @ 1..=64, rest @ ..] = bytes else { return false };
    let name = rest.get(..usize::from(*len).min(rest.len())).unwrap_or_default();
    !name.is_empty() && name.iter().all(|c| c.is_ascii_graphic() || *c == b' ')
}

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
