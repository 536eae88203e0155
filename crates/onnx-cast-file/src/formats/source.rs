//! One tensor of a file, its elements borrowed from the file's bytes wherever they lie there as the library wants them.

use crate::io::memory::resize;
use onnx_cast::packing::pack;
use onnx_cast::tensor::{Strings, TensorError};
use onnx_cast::{DataType, Tensor, TensorView};
use std::borrow::Cow;

/// A tensor and its name in the file; empty where the format has no names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedTensor {
    /// The name.
    pub name: String,
    /// The tensor.
    pub tensor: Tensor,
}

/// A tensor of a file.
#[derive(Debug)]
pub struct ParsedTensor<'a> {
    /// The name; empty where the format has none.
    pub name: String,
    /// The element type.
    pub data_type: DataType,
    /// The shape.
    pub shape: Vec<usize>,
    /// The elements.
    pub data: ParsedData<'a>,
}

/// How elements stand in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Items {
    /// Bytes of the words that are big endian; 1 without any.
    pub swap: usize,
    /// Whether elements narrower than a byte stand one to a byte.
    pub unpacked: bool,
}

impl Items {
    /// As ONNX and this library have them: little endian and packed.
    pub const PLAIN: Items = Items { swap: 1, unpacked: false };

    /// Bytes that elements take.
    pub fn byte_len(self, data_type: DataType, len: usize) -> Option<usize> {
        if self.unpacked { Some(len) } else { data_type.byte_len(len) }
    }

    /// Turns items into elements as this library has them: in `bytes`, or of unpacked items, in `packed`.
    ///
    /// `None` where there is no memory for them.
    pub fn decode(self, data_type: DataType, len: usize, bytes: &mut [u8], packed: &mut Vec<u8>) -> Option<()> {
        if self.swap > 1 {
            bytes.chunks_exact_mut(self.swap).for_each(<[u8]>::reverse);
        }
        if self.unpacked {
            resize(packed, data_type.byte_len(len)?)?;
            pack(data_type, bytes, packed).ok()?;
        }
        Some(())
    }
}

/// The elements of a tensor of a file.
#[derive(Debug)]
pub enum ParsedData<'a> {
    /// Packed and little endian.
    Bytes(Cow<'a, [u8]>),
    /// Strings.
    Strings(Strings),
}

impl ParsedTensor<'_> {
    /// The tensor.
    ///
    /// # Errors
    /// Where the bytes are not as many as type and shape ask for.
    pub fn view(&self) -> Result<TensorView<'_>, TensorError> {
        match &self.data {
            ParsedData::Bytes(bytes) => TensorView::new(self.data_type, &self.shape, bytes),
            ParsedData::Strings(strings) => TensorView::strings(&self.shape, strings.view()),
        }
    }

    /// The tensor with its name.
    ///
    /// # Errors
    /// Like [`ParsedTensor::view`].
    pub fn into_named(self) -> Result<NamedTensor, TensorError> {
        let tensor = match self.data {
            ParsedData::Bytes(bytes) => Tensor::new(self.data_type, self.shape, bytes.into_owned())?,
            ParsedData::Strings(strings) => Tensor::strings(self.shape, strings)?,
        };
        Ok(NamedTensor { name: self.name, tensor })
    }
}

/// Bytes of a tensor's elements, packed as ONNX packs them; of strings, the bytes of their text.
pub fn byte_len(tensor: &TensorView<'_>) -> u64 {
    let bytes = tensor.as_strings().map_or(tensor.bytes().unwrap_or_default(), |strings| strings.bytes());
    bytes.len() as u64
}
