//! Scales in cuBLAS's order, padded to whole tiles, as in ComfyUI and torchao.
//!
//! Each scale is one byte. A panel is 128 rows of scales, and consists of tiles of 4 columns. A tile has 512 bytes, and
//! its row `r` begins at byte `16 * (r % 32) + 4 * (r / 32)`. The matrix of scales is padded to whole panels and tiles.

use super::weight::Weight;
use crate::formats::error::{Invalid, InvalidKind};
use crate::formats::input::StoredTensor;
use crate::text::ShapeText;

/// Rows of a panel, columns of a tile, and bytes of a tile.
pub(crate) const ROWS: usize = 128;
pub(super) const COLUMNS: usize = 4;
pub(super) const TILE: usize = ROWS * COLUMNS;

/// Offset of a row in a tile.
pub(super) fn row_in_tile(row: usize) -> usize {
    16 * (row % 32) + COLUMNS * (row % ROWS / 32)
}

/// Offset of the panel whose first row is `row`, in a matrix with `across` scales per row.
pub(crate) fn panel_at(row: usize, across: usize) -> usize {
    row * across.next_multiple_of(COLUMNS)
}

/// Reorders rows of `across` scales into whole panels, padded with 0. The first row must begin a panel.
pub(crate) fn in_panels(scales: &[u8], across: usize) -> Vec<u8> {
    let padded = across.next_multiple_of(COLUMNS);
    let rows = scales.len() / across.max(1);
    let mut panels = vec![0; rows.next_multiple_of(ROWS) * padded];
    for (row, scales) in scales.chunks_exact(across.max(1)).enumerate() {
        let tiles = panels[row / ROWS * ROWS * padded..].chunks_exact_mut(TILE);
        for (scales, tile) in scales.chunks(COLUMNS).zip(tiles) {
            tile[row_in_tile(row)..][..scales.len()].copy_from_slice(scales);
        }
    }
    panels
}

/// Shape of a weight's scales, padded to whole tiles of 128x4; `None` if it overflows.
pub(super) fn tiles(weight: &Weight) -> Option<[usize; 2]> {
    let ([rows, _], [_, across]) = (weight.matrix(), weight.grid());
    Some([rows.checked_next_multiple_of(128)?, across.checked_next_multiple_of(4)?])
}

/// Shape of a grid of scales, padded to whole tiles of 128x4.
pub(super) fn tiled(grid: &[usize]) -> Vec<usize> {
    grid.iter().zip([ROWS, COLUMNS]).map(|(size, whole)| size.next_multiple_of(whole)).collect()
}

/// Padded shape of a weight's scales in torchao, which stores each tile as 32x16; `None` if it overflows.
pub(super) fn tiles_of_torchao(weight: &Weight) -> Option<[usize; 2]> {
    tiles(weight).and_then(|[down, across]| Some([down / 4, across.checked_mul(4)?]))
}

/// Checks that scales in cuBLAS's order fill whole tiles.
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
