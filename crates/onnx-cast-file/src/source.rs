//! One tensor of a file, its elements borrowed from the file's bytes wherever they lie there as the library wants them.

use crate::tensor::NamedTensor;
use onnx_cast::{DataType, Strings, Tensor, TensorError, TensorView, pack};
use std::borrow::Cow;

#[derive(Debug)]
pub(crate) struct Source<'a> {
    pub(crate) name: String,
    pub(crate) data_type: DataType,
    pub(crate) shape: Vec<usize>,
    pub(crate) data: SourceData<'a>,
}

/// How elements stand in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Items {
    /// Bytes of the words that are big endian; 1 where there are none.
    pub(crate) swap: usize,
    /// Whether elements narrower than a byte stand one to a byte.
    pub(crate) unpacked: bool,
}

impl Items {
    /// As ONNX and this library have them: little endian and packed.
    pub(crate) const PLAIN: Items = Items { swap: 1, unpacked: false };

    /// Bytes that elements take.
    pub(crate) fn byte_len(self, data_type: DataType, len: usize) -> Option<usize> {
        if self.unpacked { Some(len) } else { data_type.byte_len(len) }
    }

    /// Turns items into elements as this library has them: in `bytes`, or of unpacked items, in `packed`.
    ///
    /// `None` where there is no memory for them.
    pub(crate) fn decode(self, data_type: DataType, len: usize, bytes: &mut [u8], packed: &mut Vec<u8>) -> Option<()> {
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

#[derive(Debug)]
pub(crate) enum SourceData<'a> {
    Bytes(Cow<'a, [u8]>),
    Strings(Strings),
}

impl Source<'_> {
    pub(crate) fn view(&self) -> Result<TensorView<'_>, TensorError> {
        match &self.data {
            SourceData::Bytes(bytes) => TensorView::new(self.data_type, &self.shape, bytes),
            SourceData::Strings(strings) => TensorView::strings(&self.shape, strings.view()),
        }
    }

    pub(crate) fn into_named(self) -> Result<NamedTensor, TensorError> {
        let tensor = match self.data {
            SourceData::Bytes(bytes) => Tensor::new(self.data_type, self.shape, bytes.into_owned())?,
            SourceData::Strings(strings) => Tensor::strings(self.shape, strings)?,
        };
        Ok(NamedTensor { name: self.name, tensor })
    }
}

/// A buffer of zeros; `None` where the memory is not there.
pub(crate) fn zeros(len: usize) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    resize(&mut bytes, len)?;
    Some(bytes)
}

/// Gives a buffer a length, whatever it then holds; `None` where the memory is not there.
pub(crate) fn resize(bytes: &mut Vec<u8>, len: usize) -> Option<()> {
    bytes.try_reserve_exact(len.saturating_sub(bytes.len())).ok()?;
    bytes.resize(len, 0);
    Some(())
}
