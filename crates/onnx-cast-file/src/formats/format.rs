//! The file formats, and how a path tells which one it is.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

/// The first bytes of a `.gguf` file.
pub(crate) const GGUF_MAGIC: &[u8] = b"GGUF";

/// Extensions of [`Format::Torch`], apart from `.bin`, which raw bytes also use.
pub(crate) const TORCH: [&str; 3] = ["pt", "pth", "ckpt"];

/// What writes `.gguf` files, as errors of other jobs say.
pub(crate) const GGUF_WRITER: &str = "`quantize` writes it, in the layout gguf";

/// Advice in errors about writing a file of torch.
pub(crate) const TORCH_WRITER: &str = "files of torch.save are only read (want .safetensors)";

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
    /// Named tensors of a checkpoint that `torch.save` wrote: `.pt`, `.pth`, `.ckpt`, and `.bin` if its contents match.
    /// Files of this format are only read.
    Torch,
    /// An ONNX `ModelProto`: `.onnx`.
    Onnx,
    /// The bytes of one tensor's elements and nothing else: `.bin`, or `.raw`, whose beginning is not looked at.
    Raw,
}

impl Format {
    /// Every format.
    pub const ALL: &'static [Format] = &[
        Format::TensorProto,
        Format::Npy,
        Format::Npz,
        Format::Safetensors,
        Format::Gguf,
        Format::Torch,
        Format::Onnx,
        Format::Raw,
    ];

    /// The extension that stands for the format, without the point.
    pub const fn extension(self) -> &'static str {
        match self {
            Format::TensorProto => "pb",
            Format::Npy => "npy",
            Format::Npz => "npz",
            Format::Safetensors => "safetensors",
            Format::Gguf => "gguf",
            Format::Torch => "pt",
            Format::Onnx => "onnx",
            Format::Raw => "bin",
        }
    }

    /// Whether a file of the format holds any number of tensors, with names.
    pub(crate) const fn holds_many(self) -> bool {
        matches!(self, Format::Safetensors | Format::Npz | Format::Torch)
    }

    /// The format of a file by its first bytes, of those that can be told so.
    pub(crate) fn by_content(bytes: &[u8]) -> Option<Format> {
        if bytes.starts_with(b"\x93NUMPY") {
            return Some(Format::Npy);
        }
        if is_torch(bytes) {
            return Some(Format::Torch);
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

/// Number of bytes that [`Format::by_content`] needs to recognize every format.
pub(crate) const TORCH_BEGINNING: usize = 256;
/// Name of the member with the pickle in an archive of torch, relative to the folder that contains all members.
pub(crate) const TORCH_PICKLE: &str = "data.pkl";

/// Returns whether a file begins like one that `torch.save` wrote. This is an archive whose first member is the pickle
/// or, in older versions, a pickle of a magic number after the protocol version and an optional frame. Before protocol
/// 2 the number is decimal.
fn is_torch(bytes: &[u8]) -> bool {
    /// The magic number, with its opcode and length.
    const MAGIC: &[u8] = b"\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19";
    const BEFORE: [usize; 2] = [2, 11];
    let len = bytes.get(26).map_or(0, |&len| usize::from(len));
    let name = bytes.get(30..30 + len).unwrap_or_default();
    let is_archive = bytes.starts_with(b"PK\x03\x04") && name.ends_with(TORCH_PICKLE.as_bytes());
    let is_old = |&at: &usize| bytes.get(at..).is_some_and(|bytes| bytes.starts_with(MAGIC));
    let is_decimal = bytes.starts_with(b"L119547037146038801333356L\n.");
    is_archive || is_decimal || bytes.starts_with(b"\x80") && BEFORE.iter().any(is_old)
}

/// The extension of raw bytes that begin as another format does.
pub(crate) const UNSEEN: &str = "raw";

/// Returns whether a file has that extension.
pub(crate) fn is_unseen(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case(UNSEEN))
}

impl FromStr for Format {
    type Err = String;

    /// Parses the extension, without the point, of a format that is supported for standard input or output.
    fn from_str(name: &str) -> Result<Self, String> {
        let formats = [Format::TensorProto, Format::Npy, Format::Npz, Format::Safetensors, Format::Torch, Format::Raw];
        let found = formats.into_iter().find(|format| format.extension() == name);
        found.ok_or_else(|| format!("want {}", formats.map(Format::extension).join(", ")))
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, ".{}", self.extension())
    }
}
