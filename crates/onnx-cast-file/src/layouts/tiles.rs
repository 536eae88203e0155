//! Scales in cuBLAS's order, in whole tiles: ComfyUI's and torchao's.

use super::weight::Weight;
use crate::formats::error::{Invalid, InvalidKind};
use crate::formats::input::StoredTensor;
use crate::text::ShapeText;

/// The shape of scales in whole tiles of 128x4, where it is not too large.
pub(super) fn tiles(weight: &Weight) -> Option<[usize; 2]> {
    let ([rows, _], [_, across]) = (weight.matrix(), weight.grid());
    Some([rows.checked_next_multiple_of(128)?, across.checked_next_multiple_of(4)?])
}

/// The same as torchao writes it: 32x16 for each tile.
pub(super) fn tiles_of_torchao(weight: &Weight) -> Option<[usize; 2]> {
    tiles(weight).and_then(|[down, across]| Some([down / 4, across.checked_mul(4)?]))
}

/// Compares the shape of scales in cuBLAS's order with that of whole tiles.
pub(super) fn fit_swizzled(
    weight: &Weight,
    scale: &StoredTensor,
    tiles: fn(&Weight) -> Option<[usize; 2]>,
) -> Result<(), Invalid> {
    let [_, columns] = weight.matrix();
    let tiles = tiles(weight);
    let is_matrix = weight.codes.shape.len() == 2 && columns.is_multiple_of(weight.scales.block[1]);
    if is_matrix && tiles.is_some_and(|shape| scale.shape == shape) {
        return Ok(());
    }
    let want = match tiles {
        Some(shape) if is_matrix => {
            let shape = ShapeText(&shape);
            format!("want one for each {} columns in tiles of 128x4, {shape}", weight.scales.block[1])
        }
        _ => format!("want a matrix of whole blocks of {} columns", weight.scales.block[1]),
    };
    let (scales, shape) = (ShapeText(&scale.shape), ShapeText(&weight.codes.shape));
    let what = format!("scales of shape {scales} for a weight of shape {shape} ({want})");
    Err(Invalid::new(InvalidKind::Size, what).of_tensor(&scale.name))
}
