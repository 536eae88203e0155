//! The header of a `.gguf` file that is written.

use super::{GgufType, STRING, UINT32};
use crate::formats::error::{Invalid, InvalidKind};

/// Where tensors begin is a multiple of this, as in files that say nothing of it.
pub(crate) const ALIGNMENT: u64 = super::ALIGNMENT as u64;

/// Bytes of a name, with the zero that ends it in llama.cpp.
const MAX_NAME: usize = 64;

/// A value of metadata.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum MetadataValue {
    Uint32(u32),
    Float(f32),
    String(String),
}

/// Metadata, as the bytes of its entries.
#[derive(Clone, Debug, Default)]
pub(crate) struct Metadata {
    count: u64,
    bytes: Vec<u8>,
}

impl Metadata {
    /// Adds an entry.
    pub(crate) fn add(&mut self, key: &str, value: &MetadataValue) {
        let (kind, value) = match value {
            MetadataValue::Uint32(value) => (UINT32, value.to_le_bytes().to_vec()),
            MetadataValue::Float(value) => (super::FLOAT32, value.to_le_bytes().to_vec()),
            MetadataValue::String(text) => (STRING, string(text)),
        };
        self.add_entry(&[string(key), kind.to_le_bytes().to_vec(), value].concat());
    }

    /// Adds an entry of another file.
    pub(crate) fn add_entry(&mut self, entry: &[u8]) {
        self.count += 1;
        self.bytes.extend(entry);
    }
}

/// A tensor as a header has it.
pub(crate) struct Described<'a> {
    pub(crate) name: &'a str,
    /// Outer axes first.
    pub(crate) shape: &'a [usize],
    pub(crate) kind: &'static GgufType,
    pub(crate) bytes: u64,
}

/// Everything before the elements.
pub(crate) fn header(metadata: &Metadata, tensors: &[Described<'_>]) -> Result<Vec<u8>, Invalid> {
    let mut bytes = [super::GGUF_MAGIC, &3u32.to_le_bytes()].concat();
    bytes.extend((tensors.len() as u64).to_le_bytes());
    bytes.extend(metadata.count.to_le_bytes());
    bytes.extend(&metadata.bytes);
    let mut offset = 0;
    for Described { name, shape, kind, bytes: len } in tensors {
        let wrong = |kind, what| Err(Invalid::new(kind, what).of_tensor(name));
        if name.len() >= MAX_NAME {
            let what = format!("a name of {} bytes (llama.cpp reads at most {})", name.len(), MAX_NAME - 1);
            return wrong(InvalidKind::Name, what);
        }
        // A scalar has a dimension there.
        let dims = if shape.is_empty() { &[1][..] } else { shape };
        if dims.len() > super::MAX_DIMS as usize {
            let what = format!("{} dimensions (want at most {})", dims.len(), super::MAX_DIMS);
            return wrong(InvalidKind::Unsupported, what);
        }
        bytes.extend(string(name));
        bytes.extend((dims.len() as u32).to_le_bytes());
        dims.iter().rev().for_each(|dim| bytes.extend((*dim as u64).to_le_bytes()));
        bytes.extend(kind.id.to_le_bytes());
        bytes.extend(u64::to_le_bytes(offset));
        offset = (offset + len).next_multiple_of(ALIGNMENT);
    }
    bytes.resize(bytes.len().next_multiple_of(ALIGNMENT as usize), 0);
    Ok(bytes)
}

/// A string with its length.
fn string(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat()
}
