//! Input of a report: stored tensors, and quantized weights, which are dequantized.

use super::survey::Facts;
use crate::error::FileError;
use crate::formats::input::{Input, Location, StoredTensor};
use crate::formats::source::Items;
use crate::inspect::{Entry, PlainView};
use crate::layouts::{Layout, Weight, WeightValues};
use crate::opened::{of_stored, with_task};
use crate::pipeline::{Task, TaskInput};
use onnx_cast::DataType;

/// A file, and its tensors, with quantized weights as `dequantize` would write them.
pub(super) struct FileSource<'a> {
    pub(super) input: &'a Input,
    pub(super) tensors: Vec<TensorSource<'a>>,
    /// The layout of the quantized weights.
    layout: Option<Layout>,
}

/// A tensor to report on.
pub(super) enum TensorSource<'a> {
    /// A stored tensor, with its index in the file.
    Stored(usize, &'a StoredTensor),
    /// A quantized weight, the tensor with its elements, and its dequantized values in float.
    Weight(&'a Weight, &'a StoredTensor, Box<WeightValues<'a>>),
}

impl<'a> FileSource<'a> {
    /// Creates the source of a file whose tensors are all read as they are stored.
    pub(super) fn stored(input: &'a Input) -> FileSource<'a> {
        let stored = input.tensors.iter().enumerate().map(|(index, stored)| TensorSource::Stored(index, stored));
        FileSource { input, tensors: stored.collect(), layout: None }
    }

    /// Creates the sources of the files of a checkpoint.
    pub(super) fn of_view(view: &'a PlainView<'a>) -> Result<Vec<FileSource<'a>>, FileError> {
        let source = |input| FileSource { input, tensors: Vec::new(), layout: view.layout() };
        let mut sources: Vec<_> = view.files().iter().map(source).collect();
        for (_, entry) in view.entries()? {
            let tensor = view.tensor(entry);
            let stored = &view.input(tensor).tensors[tensor.tensor];
            sources[tensor.file].tensors.push(match entry {
                Entry::StoredTensor(tensor) => TensorSource::Stored(tensor.tensor, stored),
                Entry::Weight(weight) => {
                    TensorSource::Weight(weight, stored, Box::new(view.values(weight, DataType::Float)?))
                }
            });
        }
        Ok(sources)
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> + Clone {
        self.tensors.iter().map(|tensor| tensor.facts().name)
    }

    /// Returns the layout of a tensor, if it is a quantized weight.
    pub(super) fn layout_of(&self, index: usize) -> Option<Layout> {
        match self.tensors.get(index)? {
            TensorSource::Weight(..) => self.layout,
            TensorSource::Stored(_, stored) => matches!(stored.place, Location::Blocks(_)).then_some(Layout::Gguf),
        }
    }

    /// Returns whether the file's checkpoint contains quantized weights.
    pub(super) fn is_quantized(&self) -> bool {
        self.layout.is_some()
    }
}

impl TensorSource<'_> {
    pub(super) fn facts(&self) -> Facts<'_> {
        match self {
            TensorSource::Stored(_, stored) => {
                let StoredTensor { name, data_type, shape, len, .. } = stored;
                Facts { name, data_type: *data_type, shape, len: *len }
            }
            TensorSource::Weight(weight, ..) => {
                Facts { name: &weight.name, data_type: DataType::Float, shape: &weight.values, len: weight.len() }
            }
        }
    }

    /// Returns the tensor that errors mention.
    pub(super) fn stored(&self) -> &StoredTensor {
        match self {
            TensorSource::Stored(_, stored) | TensorSource::Weight(_, stored, _) => stored,
        }
    }

    /// Returns the task that reads the tensor, if its elements can be read at an arbitrary offset.
    pub(super) fn task<'s>(&'s self, input: &'s Input) -> Option<Task<'s>> {
        match self {
            TensorSource::Stored(_, stored) => of_stored(input, stored),
            TensorSource::Weight(weight, _, values) => {
                let elements = TaskInput::Computed(&**values, 0);
                Some(Task::keeping(elements, weight.len(), DataType::Float, Items::PLAIN))
            }
        }
    }

    /// Calls a function with the task that reads the tensor.
    pub(super) fn with_task(
        &self,
        input: &Input,
        run: impl FnOnce(Task<'_>) -> Result<(), FileError>,
    ) -> Result<(), FileError> {
        match self {
            TensorSource::Stored(index, _) => with_task(input, *index, run),
            TensorSource::Weight(..) => self.task(input).map_or(Ok(()), run),
        }
    }
}
