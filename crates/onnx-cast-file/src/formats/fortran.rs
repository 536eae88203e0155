//! From Fortran order to C order, tile by tile: an array may be larger than the memory.
//!
//! The input's fastest index is the first, the output's the last. For each index in between, the plane of those two is
//! gone through in tiles, each read in columns and written in rows, so that both files are touched in stretches.

use crate::io::memory::zeros;
use crate::io::positional::InputFile;
use std::io;

/// Items of a tile's side: with floats, stretches of a page.
const TILE: usize = 1024;
/// Bytes of a tile, unless one item is larger: strings may be long.
const TILE_BYTES: usize = 16 << 20;

/// Reads an array of items from a place of a file, and writes it in C order, row by row, each at its place. The sizes
/// fit, and no dimension is 0.
pub(crate) fn to_c_order(
    input: &InputFile,
    at: u64,
    shape: &[usize],
    size: usize,
    mut write: impl FnMut(u64, &[u8]) -> io::Result<()>,
) -> io::Result<()> {
    // A dimension of 1 moves nothing.
    let shape: Vec<u64> = shape.iter().filter(|&&dim| dim != 1).map(|&dim| dim as u64).collect();
    let tile = (TILE_BYTES / size.max(1)).isqrt().clamp(1, TILE);
    let size = size as u64;
    let &[first, .., last] = &shape[..] else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let middle = &shape[1..shape.len() - 1];
    let plane: u64 = middle.iter().product();
    let side = |dim: u64| dim.min(tile as u64) as usize;
    let memory = || zeros(side(first) * side(last) * size as usize).ok_or(io::ErrorKind::OutOfMemory);
    let (mut columns, mut rows) = (memory()?, memory()?);
    let mut index = vec![0; middle.len()];
    loop {
        let (from, to) = places(&index, middle);
        for i in (0..first).step_by(tile) {
            for j in (0..last).step_by(tile) {
                let (height, width) = (side(first - i), side(last - j));
                let (tall, wide) = (height * size as usize, width * size as usize);
                for (k, column) in columns.chunks_exact_mut(tall).take(width).enumerate() {
                    let place = i + first * (from + plane * (j + k as u64));
                    input.read_at(at + place * size, column)?;
                }
                transpose(&columns[..width * tall], &mut rows[..height * wide], width, height, size as usize);
                for (k, row) in rows.chunks_exact(wide).take(height).enumerate() {
                    let place = ((i + k as u64) * plane + to) * last + j;
                    write(place * size, row)?;
                }
            }
        }
        if !advance(&mut index, middle) {
            return Ok(());
        }
    }
}

/// Where an index lies among those of its shape, in Fortran order and in C order.
fn places(index: &[u64], shape: &[u64]) -> (u64, u64) {
    let fold = |place: u64, (index, dim): (&u64, &u64)| place * dim + index;
    (index.iter().zip(shape).rev().fold(0, fold), index.iter().zip(shape).fold(0, fold))
}

/// The next index, if there is one.
fn advance(index: &mut [u64], shape: &[u64]) -> bool {
    for (i, dim) in index.iter_mut().zip(shape).rev() {
        *i += 1;
        if *i < *dim {
            return true;
        }
        *i = 0;
    }
    false
}

/// Rows of items from columns of them.
fn transpose(columns: &[u8], rows: &mut [u8], width: usize, height: usize, size: usize) {
    for (j, column) in columns.chunks_exact(height * size).enumerate() {
        for (i, item) in column.chunks_exact(size).enumerate() {
            let at = (i * width + j) * size;
            rows[at..at + size].copy_from_slice(item);
        }
    }
}
