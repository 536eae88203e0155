//! A view of a checkpoint as `dequantize` would write it: quantized weights appear under the names of the dequantized
//! weights, without their scales. Values are computed when they are read.

use super::{failed, quantized};
use crate::checkpoint::{Checkpoint, TensorRef};
use crate::error::FileError;
use crate::formats::error::Invalid;
use crate::formats::input::Input;
use crate::layouts::{Layout, Role, Weight, WeightValues, Weights};
use crate::pipeline::PipelineError;
use onnx_cast::DataType;
use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

/// A checkpoint and its quantized weights.
pub(crate) struct PlainView<'a> {
    checkpoint: &'a Checkpoint,
    weights: Option<Weights>,
    /// Whether all tensors appear as they are stored.
    is_stored: bool,
}

/// A tensor of the model: stored, or dequantized from a weight.
#[derive(Clone, Copy)]
pub(crate) enum Entry<'s> {
    StoredTensor(TensorRef),
    Weight(&'s Arc<Weight>),
}

impl<'a> PlainView<'a> {
    pub(crate) fn new(path: &Path, checkpoint: &'a Checkpoint) -> Result<Self, FileError> {
        PlainView::new_but(path, checkpoint, |_, _| false)
    }

    /// Like [`PlainView::new`], but elements without scales are accepted if `keeps` returns true for their name and
    /// length.
    pub(crate) fn new_but(
        path: &Path,
        checkpoint: &'a Checkpoint,
        keeps: impl Fn(&str, u64) -> bool,
    ) -> Result<Self, FileError> {
        let weights = quantized::find_but(path, checkpoint, keeps).map(|(_, found)| found).transpose()?;
        Ok(PlainView { checkpoint, weights, is_stored: false })
    }

    /// Creates a view of all tensors as they are stored.
    pub(crate) fn stored(checkpoint: &'a Checkpoint) -> Self {
        PlainView { checkpoint, weights: None, is_stored: true }
    }

    /// Rejects global scales that look inverted, like `dequantize`.
    pub(crate) fn verify(&self) -> Result<(), FileError> {
        let verify = |weights| quantized::verify(self.checkpoint, weights, false);
        self.weights.as_ref().map_or(Ok(()), verify)
    }

    /// Returns the layout of the quantized weights, if there are any.
    pub(crate) fn layout(&self) -> Option<Layout> {
        self.weights.as_ref().map(|weights| weights.layout)
    }

    /// Returns quantized weights under their dequantized names, and all other tensors except companions of quantized
    /// weights. Duplicate names are an error, as in `dequantize`, because either tensor might be the intended one.
    pub(crate) fn entries(&self) -> Result<Vec<(&str, Entry<'_>)>, FileError> {
        let mut entries = Vec::new();
        let files = self.checkpoint.files.iter().filter(|_| !self.is_stored);
        let companions: HashSet<String> = files.flat_map(Input::companions).collect();
        for (tensor, stored) in self.checkpoint.tensors().filter(|(_, stored)| !companions.contains(&stored.name)) {
            match self.weights.as_ref().and_then(|weights| Some((weights, weights.roles.get(&tensor)?))) {
                None => entries.push((&*stored.name, Entry::StoredTensor(tensor))),
                Some((weights, &Role::Elements(index))) => {
                    entries.extend(weights.list.get(index).map(|weight| (&*weight.name, Entry::Weight(weight))));
                }
                Some(_) => {}
            }
        }
        let mut names = HashSet::with_capacity(entries.len());
        let mut twice = entries.iter().filter(|(name, _)| self.weights.is_some() && !names.insert(*name));
        match twice.next() {
            Some((name, entry)) => Err(self.checkpoint.error(Some(self.tensor(*entry)), Invalid::twice(name))),
            None => Ok(entries),
        }
    }

    /// Returns the tensor with an entry's elements.
    pub(crate) fn tensor(&self, entry: Entry<'_>) -> TensorRef {
        match entry {
            Entry::StoredTensor(tensor) => tensor,
            Entry::Weight(weight) => weight.codes.tensor,
        }
    }

    pub(crate) fn shape<'s>(&'s self, entry: Entry<'s>) -> &'s [usize] {
        match entry {
            Entry::StoredTensor(tensor) => &self.checkpoint.stored(tensor).shape,
            Entry::Weight(weight) => &weight.values,
        }
    }

    /// Returns the type of an entry; `None` if it is quantized.
    pub(crate) fn data_type(&self, entry: Entry<'_>) -> Option<DataType> {
        match entry {
            Entry::StoredTensor(tensor) => Some(self.checkpoint.stored(tensor).data_type),
            Entry::Weight(_) => None,
        }
    }

    /// Returns the name of an entry's type, as its file or ONNX has it.
    pub(crate) fn type_name<'s>(&'s self, entry: Entry<'s>) -> &'s str {
        self.foreign(entry).unwrap_or_else(|| self.data_type(entry).map_or("quantized", DataType::name))
    }

    /// Returns numpy's name for the type of an array whose elements this library cannot read.
    pub(crate) fn foreign<'s>(&'s self, entry: Entry<'s>) -> Option<&'s str> {
        match entry {
            Entry::StoredTensor(tensor) => self.checkpoint.stored(tensor).foreign().map(|(descr, _)| descr),
            Entry::Weight(_) => None,
        }
    }

    pub(crate) fn files(&self) -> &'a [Input] {
        &self.checkpoint.files
    }

    pub(crate) fn input(&self, tensor: TensorRef) -> &Input {
        &self.checkpoint.files[tensor.file]
    }

    pub(crate) fn bytes(&self, entry: Entry<'_>, data_type: DataType) -> u64 {
        match entry {
            Entry::StoredTensor(tensor) => self.checkpoint.stored(tensor).work(),
            Entry::Weight(weight) => data_type.byte_len(weight.len()).unwrap_or(0) as u64,
        }
    }

    pub(crate) fn values<'s>(&'s self, weight: &Arc<Weight>, to: DataType) -> Result<WeightValues<'s>, FileError> {
        WeightValues::new(self.checkpoint, weight, to).map_err(|error| self.error(weight, error))
    }

    pub(crate) fn error(&self, weight: &Weight, error: PipelineError) -> FileError {
        failed(self.input(weight.codes.tensor), self.checkpoint.stored(weight.codes.tensor), error)
    }
}
