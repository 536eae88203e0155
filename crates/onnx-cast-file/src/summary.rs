//! What a cast did, tensor by tensor.

use crate::counts::Counts;
use onnx_cast::DataType;

/// What was done with a file.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Summary {
    /// The tensors, in the order of the output file.
    pub tensors: Vec<TensorSummary>,
    /// Files that were there already, with the content that they were to get: see
    /// [`CastRequest::resume`](crate::CastRequest::resume).
    pub already_there: usize,
    /// Other files of the checkpoint's folder that were copied, or would be.
    pub copied: usize,
}

impl Summary {
    /// Of these tensors.
    pub fn new(tensors: Vec<TensorSummary>) -> Self {
        Summary { tensors, ..Summary::default() }
    }

    /// Bytes of all elements in the input.
    pub fn bytes_before(&self) -> u64 {
        self.tensors.iter().map(|row| row.bytes_before).sum()
    }
}

/// What was done with a tensor.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct TensorSummary {
    /// Its name; empty where there is none.
    pub name: String,
    /// Its shape.
    pub shape: Vec<usize>,
    /// The type that it had.
    pub from: DataType,
    /// The type that it has.
    pub to: DataType,
    /// Bytes of its elements in the input, packed as ONNX packs them; of strings, the bytes of their text.
    pub bytes_before: u64,
    /// Bytes of its elements in the output.
    pub bytes_after: u64,
    /// Whether it was cast, or only kept.
    pub cast: bool,
    /// What became of its values, where it was cast and that was to be counted.
    pub counts: Option<Counts>,
}

impl TensorSummary {
    /// Of a tensor that is kept, with elements of so many bytes.
    pub fn kept(name: &str, shape: Vec<usize>, data_type: DataType, bytes: u64) -> Self {
        let (name, from, to) = (name.to_owned(), data_type, data_type);
        TensorSummary { name, shape, from, to, bytes_before: bytes, bytes_after: bytes, cast: false, counts: None }
    }
}
