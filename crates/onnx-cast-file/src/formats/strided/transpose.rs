//! Transposes matrices of values of 1, 2, 4 and 8 bytes.
//!
//! Experts are stored with the axis of their blocks first or last, and the other way round where they are plain. Tiles
//! are copied to contiguous memory first: rows that are a power of two apart would evict each other from the nearest
//! cache. Interleaving the two halves of a tile moves the upper bit of the row to the end of the column; as many
//! rounds as a row number has bits transpose the tile. The compiler vectorises each round.

use crate::level::level;
use fearless_simd::dispatch;

/// Rows and columns of a tile: what is read of each row, and written of each column, is one line of the cache or more.
const TILE: usize = 64;

/// Columns that are copied value by value.
const FEW: usize = 8;

/// Tiles whose columns are written together: lines that lie a power of two apart, and are written in part, would be
/// evicted before the rest.
const TILES: usize = 4;

/// A tile of values of so many bytes.
type Tile<const SIZE: usize> = [[u8; SIZE]; TILE * TILE];

/// Transposes values. Those of `from` are in rows of `width` values, the first `columns` of which are written to `out`,
/// in rows of `height` values.
pub(crate) fn transpose<const SIZE: usize>(from: &[u8], width: usize, columns: usize, out: &mut [u8], height: usize) {
    let (from, out) = (from.as_chunks::<SIZE>().0, out.as_chunks_mut::<SIZE>().0);
    if columns == 0 || height == 0 {
        return;
    }
    if columns <= FEW {
        return transpose_few(from, width, columns, out, height);
    }
    let level = level();
    let mut tiles = [[[0; SIZE]; TILE * TILE]; TILES];
    let mut other = [[0; SIZE]; TILE * TILE];
    for (first, rows) in (0..).step_by(TILES * TILE).zip(from.chunks(TILES * TILE * width)) {
        for begin in (0..columns).step_by(TILE) {
            let across = TILE.min(columns - begin);
            let mut down = 0;
            for (rows, tile) in rows.chunks(TILE * width).zip(&mut tiles) {
                let rows = rows.chunks(width).map_while(|row| row.get(begin..begin + across));
                down += dispatch!(level, _simd => transpose_tile(rows, tile, &mut other));
            }
            let columns = out[begin * height + first..].chunks_mut(height).take(across);
            for (column, out) in columns.enumerate() {
                for (out, tile) in out[..down].chunks_mut(TILE).zip(&tiles) {
                    let tile = &tile.as_chunks::<TILE>().0[column];
                    match out.first_chunk_mut() {
                        Some(out) => *out = *tile,
                        None => out.copy_from_slice(&tile[..out.len()]),
                    }
                }
            }
        }
    }
}

/// Transposes so few columns that tiles would be almost empty.
fn transpose_few<const SIZE: usize>(
    from: &[[u8; SIZE]],
    width: usize,
    columns: usize,
    out: &mut [[u8; SIZE]],
    height: usize,
) {
    for (first, rows) in (0..).step_by(TILE).zip(from.chunks(TILE * width)) {
        for column in 0..columns {
            let out = &mut out[column * height + first..];
            let values = rows.get(column..).unwrap_or_default().iter().step_by(width);
            out.iter_mut().zip(values).for_each(|(out, value)| *out = *value);
        }
    }
}

/// Transposes one tile, and returns how many rows it has.
#[inline(always)]
fn transpose_tile<'r, const SIZE: usize>(
    rows: impl Iterator<Item = &'r [[u8; SIZE]]>,
    tile: &mut Tile<SIZE>,
    other: &mut Tile<SIZE>,
) -> usize {
    let mut down = 0;
    for (row, tile) in rows.zip(tile.as_chunks_mut::<TILE>().0) {
        // Copies of a known length need no call.
        match row.first_chunk::<TILE>() {
            Some(row) => *tile = *row,
            None => tile[..row.len()].copy_from_slice(row),
        }
        down += 1;
    }
    for _ in 0..TILE.ilog2() / 2 {
        interleave(tile, other);
        interleave(other, tile);
    }
    down
}

/// Alternates the values of the first and the second half of a tile.
#[inline(always)]
fn interleave<const SIZE: usize>(from: &Tile<SIZE>, to: &mut Tile<SIZE>) {
    let (first, second) = from.split_at(from.len() / 2);
    for ((to, first), second) in to.as_chunks_mut::<2>().0.iter_mut().zip(first).zip(second) {
        *to = [*first, *second];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<const SIZE: usize>(rows: usize, width: usize, columns: usize, height: usize) {
        let from: Vec<u8> = (0..rows * width * SIZE).map(|at| (at * 151 % 251) as u8).collect();
        let mut out = vec![0xee; columns * height * SIZE];
        transpose::<SIZE>(&from, width, columns, &mut out, height);
        for column in 0..columns {
            for row in 0..height {
                let got = &out[(column * height + row) * SIZE..][..SIZE];
                let want = from.get((row * width + column) * SIZE..(row * width + column + 1) * SIZE);
                let want = want.filter(|_| row < rows).unwrap_or(&[0xee; SIZE]);
                assert_eq!(got, want, "{rows} rows of {width}, {columns} columns: value {row}, {column} of {SIZE}");
            }
        }
    }

    #[test]
    fn every_value_goes_to_its_place() {
        for (rows, width, columns, height) in
            [(1, 1, 1, 1), (3, 5, 5, 3), (64, 64, 64, 64), (65, 130, 130, 65), (200, 96, 70, 200), (7, 300, 129, 64)]
        {
            check::<1>(rows, width, columns, height);
            check::<2>(rows, width, columns, height);
            check::<8>(rows, width, columns, height);
            check::<4>(rows, width, columns, height);
        }
        transpose::<2>(&[], 0, 0, &mut [], 0);
    }
}
