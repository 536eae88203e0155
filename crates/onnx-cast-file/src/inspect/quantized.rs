//! The quantized weights of a checkpoint: what each is, and what is wrong with the claims of the configuration.

use crate::checkpoint::{Checkpoint, TensorRef};
use crate::error::FileError;
use crate::formats::error::InvalidKind;
use crate::io::positional::is_stream;
use crate::layouts::{self, Config, Grid, Layout, SHAPE, Weight, Weights};
use crate::text::Wording;
use onnx_cast::DataType;
use std::path::Path;

/// The quantized weights of a checkpoint.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Quantized {
    /// The layout, where the configuration or the names of tensors tell it.
    pub layout: Option<Layout>,
    /// In the order of their elements; none where the checkpoint contradicts itself.
    pub weights: Vec<QuantizedWeight>,
    /// What the checkpoint claims, and is not so.
    pub warning: Option<Wording>,
}

/// A quantized weight.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct QuantizedWeight {
    /// The name of the values.
    pub name: String,
    /// The shape of the values.
    pub shape: Vec<usize>,
    /// The format, as configurations name it: `NVFP4`, `FP8`, `INT4`.
    pub format: String,
    /// The type of the elements. Integers of 3, 5, 6 and 7 bits have no type of their own: it is the next wider.
    pub elements: DataType,
    /// The type of the scales.
    pub scales: DataType,
    /// Rows and columns that share a scale.
    pub block: [usize; 2],
    /// Whether blocks are all of a matrix, rows of it, or smaller.
    pub extent: ScaleExtent,
    /// Bits of storage for each value: elements, scales, zero points and all else that goes with them.
    pub bits: f64,
    /// The names of its tensors, with what each is: `elements`, `scales`, `global_scale`, `zero_points`, `groups`,
    /// `shape`, `settings`.
    pub tensors: Vec<(&'static str, String)>,
}

/// What shares a scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ScaleExtent {
    /// All elements of a tensor.
    Tensor,
    /// A matrix of a tensor of several.
    Matrix,
    /// A part of the rows, of a matrix that was joined.
    Part,
    /// A row.
    Row,
    /// A column.
    Column,
    /// A block of rows and columns.
    Block,
}

impl ScaleExtent {
    /// The name: `tensor`, `row`, `block` and so on.
    pub fn name(self) -> &'static str {
        match self {
            ScaleExtent::Tensor => "tensor",
            ScaleExtent::Matrix => "matrix",
            ScaleExtent::Part => "part",
            ScaleExtent::Row => "row",
            ScaleExtent::Column => "column",
            ScaleExtent::Block => "block",
        }
    }
}

/// What is quantized in a checkpoint; nothing where neither configuration nor names tell of it. Scales are read where
/// that is asked for.
pub(super) fn quantized(path: &Path, checkpoint: &Checkpoint, reads_scales: bool) -> Option<Quantized> {
    let (layout, found) = find(path, checkpoint)?;
    let warned =
        |layout, error: FileError| Some(Quantized { layout, weights: Vec::new(), warning: Some(error.wording()) });
    let weights = match found {
        Ok(weights) => weights,
        Err(error) => return warned(layout, error),
    };
    let warning = verify(checkpoint, &weights, reads_scales).err().map(|error| error.wording());
    Some(Quantized { warning, ..list(checkpoint, &weights) })
}

/// Adds the weights of another checkpoint, under other names.
pub(super) fn join(all: &mut Option<Quantized>, found: Quantized, named: impl Fn(&str) -> String) {
    let weights = found.weights.into_iter().map(|mut weight| {
        weight.name = named(&weight.name);
        weight.tensors.iter_mut().for_each(|(_, name)| *name = named(name));
        weight
    });
    match all {
        None => *all = Some(Quantized { layout: found.layout, weights: weights.collect(), warning: found.warning }),
        Some(all) => {
            all.weights.extend(weights);
            all.layout = all.layout.filter(|layout| found.layout == Some(*layout));
            all.warning = all.warning.take().or(found.warning);
        }
    }
}

/// The quantized weights of a checkpoint, which must not contradict itself; none where neither configuration nor names
/// tell of any.
pub(crate) fn consistent(checkpoint: &Checkpoint, config: &Config) -> Result<Quantized, FileError> {
    match Weights::find(checkpoint, config) {
        Err(error) if is_not_quantized(&error) => Ok(Quantized { layout: None, weights: Vec::new(), warning: None }),
        found => {
            let weights = found?;
            verify(checkpoint, &weights, true)?;
            Ok(list(checkpoint, &weights))
        }
    }
}

fn is_not_quantized(error: &FileError) -> bool {
    error.kind() == Some(InvalidKind::NotQuantized)
}

pub(super) fn verify(checkpoint: &Checkpoint, weights: &Weights, reads_scales: bool) -> Result<(), FileError> {
    let scales = layouts::scales_of(checkpoint, weights, &vec![true; weights.list.len()])?;
    if reads_scales { layouts::find_nan(checkpoint, &scales, None, None) } else { Ok(()) }
}

fn list(checkpoint: &Checkpoint, weights: &Weights) -> Quantized {
    let list = weights.list.iter().map(|weight| describe(checkpoint, weight)).collect();
    Quantized { layout: Some(weights.layout), weights: list, warning: None }
}

/// The quantized weights of a checkpoint, or what contradicts itself there, and the layout that is claimed; nothing
/// where nothing is quantized.
fn find(path: &Path, checkpoint: &Checkpoint) -> Option<(Option<Layout>, Result<Weights, FileError>)> {
    find_but(path, checkpoint, |_, _| false)
}

/// Like [`find`], but elements without scales are accepted if `keeps` returns true for their name and length.
pub(super) fn find_but(
    path: &Path,
    checkpoint: &Checkpoint,
    keeps: impl Fn(&str, u64) -> bool,
) -> Option<(Option<Layout>, Result<Weights, FileError>)> {
    if is_stream(path) || !checkpoint.holds_weights() {
        return None;
    }
    let config = match checkpoint.config(None) {
        Ok(config) => config,
        Err(error) => return Some((None, Err(error))),
    };
    match Weights::find_but(checkpoint, &config, keeps) {
        Err(error) if is_not_quantized(&error) => None,
        found => Some((config.layout, found)),
    }
}

fn describe(checkpoint: &Checkpoint, weight: &Weight) -> QuantizedWeight {
    let bytes: u64 = weight.parts().map(|part| checkpoint.stored(part).bytes()).sum();
    let [rows, columns] = weight.matrix();
    let is_single = weight.codes.shape.len() <= 2;
    let extent = match weight.scales.block {
        // MX and NVFP4 have blocks, even where a row is a single one.
        _ if weight.scales.global.is_some()
            || weight.scales.data_type == DataType::Float8E8M0 && weight.scales.block == [1, 32] =>
        {
            ScaleExtent::Block
        }
        [down, across] if down >= rows && across >= columns && (is_single || weight.values.len() == 2) => {
            ScaleExtent::Tensor
        }
        [down, across] if down >= rows && across >= columns => ScaleExtent::Matrix,
        _ if matches!(weight.scales.order, Grid::Joined(_)) => ScaleExtent::Part,
        [1, across] if across >= columns => ScaleExtent::Row,
        [down, 1] if down >= rows => ScaleExtent::Column,
        _ => ScaleExtent::Block,
    };
    QuantizedWeight {
        name: weight.name.clone(),
        shape: weight.values.clone(),
        format: weight.format().name(),
        elements: weight.element_type(),
        scales: weight.scales.data_type,
        block: weight.scales.block,
        extent,
        bits: if weight.len() == 0 { 0.0 } else { bytes as f64 * 8.0 / weight.len() as f64 },
        tensors: tensors(checkpoint, weight),
    }
}

/// The names of a weight's tensors.
fn tensors(checkpoint: &Checkpoint, weight: &Weight) -> Vec<(&'static str, String)> {
    let single = [
        ("elements", Some(weight.codes.tensor)),
        ("scales", Some(weight.scales.tensor)),
        ("global_scale", weight.scales.global),
        ("zero_points", weight.zero_points.and_then(|zero_points| zero_points.tensor())),
        ("groups", weight.groups.map(|groups| groups.tensor())),
    ];
    let single = single.into_iter().filter_map(|(role, tensor)| Some((role, tensor?)));
    let role = |tensor: &TensorRef| match checkpoint.stored(*tensor).name.ends_with(SHAPE) {
        true => "shape",
        false => "settings",
    };
    let others = weight.others.iter().map(|tensor| (role(tensor), *tensor));
    single.chain(others).map(|(role, tensor)| (role, checkpoint.stored(tensor).name.clone())).collect()
}
