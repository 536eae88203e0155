//! One tensor of a file, its elements borrowed from the file's bytes wherever they lie there as the library wants them.

use crate::tensor::NamedTensor;
use onnx_cast::{DataType, Strings, Tensor, TensorError, TensorView};
use std::borrow::Cow;

#[derive(Debug)]
pub(crate) struct Source<'a> {
    pub(crate) name: String,
    pub(crate) data_type: DataType,
    pub(crate) shape: Vec<usize>,
    pub(crate) data: SourceData<'a>,
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
    bytes.try_reserve_exact(len).ok()?;
    bytes.resize(len, 0);
    Some(bytes)
}
