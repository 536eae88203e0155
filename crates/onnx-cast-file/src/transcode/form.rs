//! What the weights of a checkpoint are, in the words of those that are written: their format, and what has a scale.

use crate::layouts::{Encoding, Granularity, Grid, QuantizedFormat, Weight};
use DataType::{Float8E4M3FN, Float8E5M2, Int4, Int8};
use onnx_cast::DataType;
use onnx_cast::scaled::BlockFormat;

/// The format of a weight, and what has a scale; `None` of what is not transcoded. `block` is that of the
/// configuration, which may be larger than the weight.
pub(super) fn form_of(weight: &Weight, block: Option<[usize; 2]>) -> Option<(QuantizedFormat, Granularity)> {
    if !matches!(weight.values.len(), 2 | 3) || weight.are_swizzled || weight.grid_order != Grid::Blocks {
        return None;
    }
    let format = match weight.elements {
        Encoding::Plain(Int8) if weight.globals.is_empty() => QuantizedFormat::Elements(Int8),
        Encoding::Plain(element) => match block_format(weight, element) {
            Some(format) => return Some((QuantizedFormat::Block(format), Granularity::Block(weight.block))),
            None => QuantizedFormat::Elements(element),
        },
        Encoding::TwoRows(Int4) => return None,
        Encoding::TwoRows(_) => {
            return Some((QuantizedFormat::Block(BlockFormat::NvFp4), Granularity::Block([1, weight.block[0]])));
        }
        Encoding::HighFirst | Encoding::Coded(_) | Encoding::Parts(_) => return None,
        Encoding::Words { bits: ..=4, .. } => QuantizedFormat::Elements(Int4),
        Encoding::Words { .. } => QuantizedFormat::Elements(Int8),
        Encoding::Columns { .. } => return None,
    };
    let are_integers = format == QuantizedFormat::Elements(Int8) || format == QuantizedFormat::Elements(Int4);
    let are_floats = [Float8E4M3FN, Float8E5M2].map(QuantizedFormat::Elements).contains(&format);
    let is_known = are_integers && weight.values.len() == 2
        || are_floats && !weight.transposed && weight.zero_points.is_none() && weight.groups.is_none();
    is_known.then(|| (format, granularity(weight, block)))
}

/// The block format with such elements, scales and blocks.
fn block_format(weight: &Weight, element: DataType) -> Option<BlockFormat> {
    let is_format = |format: &&BlockFormat| {
        (format.element(), format.scale()) == (element, weight.scale_type) && weight.block == [1, format.block()]
    };
    BlockFormat::ALL.iter().find(is_format).copied()
}

/// What has a scale of float.
fn granularity(weight: &Weight, block: Option<[usize; 2]>) -> Granularity {
    let [rows, columns] = weight.matrix();
    let inside = |block: &[usize; 2]| [block[0].min(rows.max(1)), block[1].min(columns.max(1))] == weight.block;
    let are_experts = weight.values.len() == 3;
    match (weight.block, block.filter(inside)) {
        (_, Some(block)) => Granularity::Block(block),
        (block, _) if block == [rows.max(1), columns.max(1)] => Granularity::Tensor,
        ([1, block], _) if block == columns => Granularity::Row,
        // Experts have rows and columns the other way round.
        ([block, 1], _) if are_experts && block == rows => Granularity::Row,
        (block, _) => Granularity::Block(block),
    }
}
