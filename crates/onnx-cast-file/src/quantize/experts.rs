//! Splits a three-dimensional tensor with all experts of a layer into one weight per expert, as the loaders of some
//! layouts require. The new tensors are views of the old one (contiguous ranges, or transposed matrices), so nothing is
//! copied.

use super::QuantizeRequest;
use super::choice::{SMALLEST, is_float};
use crate::checkpoint::{Checkpoint, TensorRef};
use crate::error::FileError;
use crate::formats::input::{Input, Location, StoredTensor};
use crate::formats::source::Items;
use crate::formats::strided::Strided;
use crate::layouts::Layout;
use crate::selection::Chosen;
use std::collections::HashMap;
use std::sync::Arc;

/// Models that store the experts of a layer in one tensor, and whose loaders also read the weights of single experts.
struct Family {
    /// Values of `model_type`, of the model or of its text part.
    kinds: &'static [&'static str],
    /// Name suffixes of the two tensors. The first contains the gate and up projections one after the other, the second
    /// the down projections.
    joined: [&'static str; 2],
    /// Whether the last axis is the input axis, as in a Linear layer. Otherwise the matrices are stored transposed.
    has_inputs_last: bool,
}

/// Name suffixes of the weights of one expert: gate, up and down.
const PROJECTIONS: [&str; 3] = ["gate_proj.weight", "up_proj.weight", "down_proj.weight"];
const NAMES: [&str; 2] = ["experts.gate_up_proj", "experts.down_proj"];

/// The families were collected from the parameters of transformers 5.24 (`modeling_*.py`) and the names that vLLM 0.33
/// looks up (`load_weights`). gpt-oss is missing because its loaders do not read single experts.
const FAMILIES: &[Family] = &[
    Family {
        kinds: &["qwen3_5_moe", "qwen3_5_moe_text", "gemma4", "gemma4_text", "ernie4_5_moe"],
        joined: NAMES,
        has_inputs_last: true,
    },
    Family {
        kinds: &["granitemoe", "granitemoeshared", "granitemoehybrid"],
        joined: ["input_linear.weight", "output_linear.weight"],
        has_inputs_last: true,
    },
    Family { kinds: &["llama4", "llama4_text"], joined: NAMES, has_inputs_last: false },
];

/// A checkpoint in which some tensors are replaced by single experts.
pub(super) struct Split {
    pub(super) checkpoint: Checkpoint,
    /// For each file, the index of the original tensor of each new tensor.
    pub(super) origins: Vec<Vec<usize>>,
}

impl Split {
    /// Returns the tensor of the original checkpoint that contains a new tensor.
    pub(super) fn origin(&self, tensor: TensorRef) -> TensorRef {
        TensorRef { tensor: self.origins[tensor.file][tensor.tensor], ..tensor }
    }
}

/// Splits the experts of a checkpoint if the loaders of the layout read them one by one. Tensors that a pattern or rule
/// of the request matches are not split. Returns `None` if there is nothing to split.
pub(super) fn split(checkpoint: &Checkpoint, request: &QuantizeRequest) -> Result<Option<Split>, FileError> {
    let (model, layout) = (checkpoint.model()?, request.layout_or_default());
    let is_split = |family: &&Family| {
        // ModelOpt's own checkpoints of Llama 4 keep the experts in one tensor.
        let is_read = layout == Layout::CompressedTensors || layout == Layout::ModelOpt && family.has_inputs_last;
        is_read && model.is_any(family.kinds)
    };
    let Some(family) = FAMILIES.iter().find(is_split) else { return Ok(None) };
    let mut parts = HashMap::new();
    for (tensor, stored) in checkpoint.tensors() {
        if let Some(pair) = family.pair(checkpoint, tensor, request) {
            parts.extend(
                pair.into_iter()
                    .enumerate()
                    .filter_map(|(which, tensor)| Some((tensor, family.experts(checkpoint, tensor, which)?))),
            );
        } else if shared(stored, 0).is_none() {
            return Ok(None);
        }
    }
    if parts.is_empty() {
        return Ok(None);
    }
    let (mut files, mut origins) = (Vec::new(), Vec::new());
    for (file, input) in checkpoint.files.iter().enumerate() {
        let (mut tensors, mut origin) = (Vec::new(), Vec::new());
        for (tensor, stored) in input.tensors.iter().enumerate() {
            match parts.remove(&TensorRef { file, tensor }) {
                Some(experts) => tensors.extend(experts),
                None => tensors.extend(shared(stored, 0).map(|place| {
                    let StoredTensor { name, data_type, shape, len, .. } = stored;
                    StoredTensor { name: name.clone(), data_type: *data_type, shape: shape.clone(), len: *len, place }
                })),
            }
            origin.resize(tensors.len(), tensor);
        }
        files.push(Input {
            file: input.file.clone(),
            format: input.format,
            tensors,
            metadata: input.metadata.clone(),
            message: None,
            members: Vec::new(),
            left_out: input.left_out.clone(),
        });
        origins.push(origin);
    }
    let checkpoint = Checkpoint::with(files, checkpoint.configuration.clone());
    Ok(Some(Split { checkpoint, origins }))
}

impl Family {
    /// Returns both expert tensors of a layer, given the first. Returns `None` if their shapes do not fit the family,
    /// or if a pattern or rule of the request matches one of them.
    fn pair(&self, checkpoint: &Checkpoint, tensor: TensorRef, request: &QuantizeRequest) -> Option<[TensorRef; 2]> {
        let start = self.start(&checkpoint.stored(tensor).name, 0)?;
        let pair = [tensor, checkpoint.find(&format!("{start}{}", self.joined[1]))?];
        let stored = pair.map(|tensor| checkpoint.stored(tensor));
        let is_default = |stored: &StoredTensor| {
            let chosen = request.selection.choose(&stored.name, stored.len as u64);
            is_float(stored) && matches!(chosen, Chosen::Default(Some(_)))
        };
        let (&[count, rows, columns], &[others, down, across]) = (&stored[0].shape[..], &stored[1].shape[..]) else {
            return None;
        };
        let fits = match self.has_inputs_last {
            true => across.checked_mul(2) == Some(rows) && columns == down,
            false => down.checked_mul(2) == Some(columns) && rows == across,
        };
        // Smaller matrices are never quantized. The minimum also bounds the number of experts that a file can define.
        let are_large = [rows, columns, down, across].iter().all(|&size| size >= SMALLEST);
        (fits && are_large && count == others && stored.into_iter().all(is_default)).then_some(pair)
    }

    /// Returns the part of a tensor's name before the suffix; `which` selects one of the two tensors.
    fn start<'n>(&self, name: &'n str, which: usize) -> Option<&'n str> {
        name.strip_suffix(self.joined[which]).filter(|start| start.is_empty() || start.ends_with('.'))
    }

    /// Returns the single experts in one of the two tensors.
    fn experts(&self, checkpoint: &Checkpoint, tensor: TensorRef, which: usize) -> Option<Vec<StoredTensor>> {
        let stored = checkpoint.stored(tensor);
        let (start, &[count, rows, columns]) = (self.start(&stored.name, which)?, &stored.shape[..]) else {
            return None;
        };
        let size = stored.data_type.byte_len(1)?;
        let transposed;
        let (stored, [rows, columns]) = match self.has_inputs_last {
            true => (stored, [rows, columns]),
            false => {
                let (file, at) = checkpoint.place(tensor);
                let sizes = [count, columns, rows].map(|size| size as u64);
                let strides = [(rows * columns) as u64, 1, columns as u64];
                let file = Arc::new(Strided::new(file.clone(), at, size, 1, &sizes, &strides).into_file()?);
                let (name, shape) = (stored.name.clone(), vec![count, columns, rows]);
                let place = Location::Other(file, 0, Items::PLAIN);
                transposed = StoredTensor { name, data_type: stored.data_type, shape, len: stored.len, place };
                (&transposed, [columns, rows])
            }
        };
        let names = if which == 0 { &PROJECTIONS[..2] } else { &PROJECTIONS[2..] };
        let height = rows / names.len();
        let parts = (0..count).flat_map(|expert| names.iter().enumerate().map(move |(at, name)| (expert, at, name)));
        let part = |(expert, at, name): (usize, usize, &&str)| {
            Some(StoredTensor {
                name: format!("{start}experts.{expert}.{name}"),
                data_type: stored.data_type,
                shape: vec![height, columns],
                len: height * columns,
                place: shared(stored, ((expert * rows + at * height) * columns * size) as u64)?,
            })
        };
        parts.map(part).collect()
    }
}

/// Returns the location `skipped` bytes after the start of a tensor's elements; `None` if the elements cannot be read
/// at an arbitrary offset.
fn shared(stored: &StoredTensor, skipped: u64) -> Option<Location> {
    match &stored.place {
        Location::File(at, items) => Some(Location::File(at + skipped, *items)),
        Location::Other(file, at, items) => Some(Location::Other(Arc::clone(file), at + skipped, *items)),
        // Empty placeholder: only names and shapes are used.
        Location::Memory(bytes) if bytes.is_empty() => Some(Location::Memory(Vec::new())),
        _ => None,
    }
}
