//! Expresses the format and granularity of existing weights in the terms that are used for writing.

use super::encoding::{Encoding, Grid};
use super::format::{Granularity, QuantizedFormat};
use super::weight::Weight;
use DataType::{Float8E4M3FN, Float8E5M2, Int4, Int8};
use onnx_cast::DataType;
use onnx_cast::scaled::BlockFormat;

/// Returns the format of a weight and the granularity of its scales. `block` is the block of the configuration, which
/// may be larger than the weight. Weights with scales in tiles can only stay in their layout.
///
/// # Errors
/// Fails with a property of the weight that no other layout supports.
pub(crate) fn form_of(
    weight: &Weight,
    block: Option<[usize; 2]>,
    stays: bool,
) -> Result<(QuantizedFormat, Granularity), &'static str> {
    match weight.values.len() {
        2 | 3 => {}
        1 => return Err("it has one axis"),
        _ => return Err("it has more than three axes"),
    }
    match weight.scales.order {
        Grid::Blocks => {}
        Grid::Tiles if stays => {}
        Grid::Tiles => return Err("its scales are in tiles of 128x4"),
        _ => return Err("its scales are not in the order of its rows and blocks"),
    }
    let format = match weight.codes.encoding {
        Encoding::Plain(Int8) if weight.scales.globals.is_empty() => QuantizedFormat::Elements(Int8),
        Encoding::Plain(element) => match block_format(weight, element) {
            Some(format) => return Ok((QuantizedFormat::Block(format), Granularity::Block(weight.scales.block))),
            None => QuantizedFormat::Elements(element),
        },
        Encoding::TwoRows(Int4) => return Err("its integers of 4 bits are packed down the columns"),
        Encoding::TwoRows(_) => {
            return Ok((QuantizedFormat::Block(BlockFormat::NvFp4), Granularity::Block([1, weight.scales.block[0]])));
        }
        Encoding::HighFirst if stays => {
            return Ok((QuantizedFormat::Block(BlockFormat::NvFp4), Granularity::Block(weight.scales.block)));
        }
        Encoding::HighFirst | Encoding::Coded(_) | Encoding::Parts(_) | Encoding::Columns { .. } => {
            return Err("its elements are packed in an order of their own");
        }
        Encoding::Words { bits: ..=4, .. } => QuantizedFormat::Elements(Int4),
        Encoding::Words { .. } => QuantizedFormat::Elements(Int8),
    };
    let are_integers = format == QuantizedFormat::Elements(Int8) || format == QuantizedFormat::Elements(Int4);
    let are_floats = [Float8E4M3FN, Float8E5M2].map(QuantizedFormat::Elements).contains(&format);
    let missing = [
        (are_integers && weight.values.len() == 3, "it holds integers in three axes"),
        (are_floats && weight.zero_points.is_some(), "it holds floats with zero points"),
        (are_floats && weight.groups.is_some(), "it holds floats whose columns have groups of their own"),
        (are_floats && weight.codes.transposed, "it holds floats with rows and columns transposed"),
        (!are_integers && !are_floats, "its elements have a type of their own"),
    ];
    match missing.into_iter().find(|(is_missing, _)| *is_missing) {
        Some((_, reason)) => Err(reason),
        None => Ok((format, granularity(weight, block))),
    }
}

/// The block format with such elements, scales and blocks.
fn block_format(weight: &Weight, element: DataType) -> Option<BlockFormat> {
    let is_format = |format: &&BlockFormat| {
        (format.element(), format.scale()) == (element, weight.scales.data_type)
            && weight.scales.block == [1, format.block()]
    };
    BlockFormat::ALL.iter().find(is_format).copied()
}

/// What has a scale of float.
fn granularity(weight: &Weight, block: Option<[usize; 2]>) -> Granularity {
    let [rows, columns] = weight.matrix();
    let inside = |block: &[usize; 2]| [block[0].min(rows.max(1)), block[1].min(columns.max(1))] == weight.scales.block;
    let are_experts = weight.values.len() == 3;
    match (weight.scales.block, block.filter(inside)) {
        (_, Some(block)) => Granularity::Block(block),
        (block, _) if block == [rows.max(1), columns.max(1)] => Granularity::Tensor,
        ([1, block], _) if block == columns => Granularity::Row,
        // Experts have rows and columns the other way round.
        ([block, 1], _) if are_experts && block == rows => Granularity::Row,
        (block, _) => Granularity::Block(block),
    }
}
