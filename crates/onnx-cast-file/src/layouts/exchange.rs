//! Rows and columns of a matrix exchanged, for values of 1, 2 and 4 bytes.
//!
//! Experts are stored with the axis of their blocks first or last, and the other way round where they are plain. Tiles
//! go through memory of their own: rows that are a power of two apart would drive each other out of the nearest cache.
//! Within a tile words of 64 bits hold several values of a row, and squares of as many rows are exchanged by shifts,
//! which the compiler vectorises.

use fearless_simd::{Level, dispatch};

/// Rows and columns of a tile: what is read of each row, and written of each column, is one line of the cache or more.
const TILE: usize = 64;

/// A tile of values of so many bytes.
type Tile<const SIZE: usize> = [[[u8; SIZE]; TILE]; TILE];

/// Exchanges rows and columns. The values of `from` stand in rows of `width` values, the first `columns` of which are
/// written to `out`, in rows of `height` values.
pub(crate) fn exchange<const SIZE: usize>(from: &[u8], width: usize, columns: usize, out: &mut [u8], height: usize) {
    let (from, out) = (from.as_chunks::<SIZE>().0, out.as_chunks_mut::<SIZE>().0);
    if columns == 0 || height == 0 {
        return;
    }
    let level = Level::new();
    let mut tile: Tile<SIZE> = [[[0; SIZE]; TILE]; TILE];
    let mut turned = tile;
    for (first, rows) in (0..).step_by(TILE).zip(from.chunks(TILE * width)) {
        for begin in (0..columns).step_by(TILE) {
            let across = TILE.min(columns - begin);
            let mut down = 0;
            for (row, tile) in rows.chunks(width).zip(&mut tile) {
                if let Some(row) = row.get(begin..begin + across) {
                    tile[..across].copy_from_slice(row);
                    down += 1;
                }
            }
            dispatch!(level, _simd => exchange_tile(&tile, &mut turned));
            for (column, turned) in turned[..across].iter().enumerate() {
                let at = (begin + column) * height + first;
                if let Some(out) = out.get_mut(at..at + down) {
                    out.copy_from_slice(&turned[..down]);
                }
            }
        }
    }
}

/// Exchanges rows and columns of a tile.
#[inline(always)]
fn exchange_tile<const SIZE: usize>(tile: &Tile<SIZE>, turned: &mut Tile<SIZE>) {
    match SIZE {
        1 => by_words::<SIZE, 8>(tile, turned, bytes),
        2 => by_words::<SIZE, 4>(tile, turned, halves),
        _ => {
            for (column, turned) in turned.iter_mut().enumerate() {
                turned.iter_mut().zip(tile).for_each(|(turned, row)| *turned = row[column]);
            }
        }
    }
}

/// Exchanges squares of `EACH` values, of which a word holds a row.
#[inline(always)]
fn by_words<const SIZE: usize, const EACH: usize>(
    tile: &Tile<SIZE>,
    turned: &mut Tile<SIZE>,
    square: impl Fn([u64; EACH]) -> [u64; EACH],
) {
    for row in (0..TILE).step_by(EACH) {
        for column in (0..TILE).step_by(EACH) {
            let mut words = [0; EACH];
            for (word, row) in words.iter_mut().zip(&tile[row..]) {
                let bytes = row[column..column + EACH].as_flattened();
                *word = bytes.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
            }
            for (word, turned) in square(words).into_iter().zip(&mut turned[column..]) {
                turned[row..row + EACH].as_flattened_mut().copy_from_slice(&word.to_le_bytes());
            }
        }
    }
}

/// Exchanges the values of two words: those of `mask` in the second, and their neighbours, so many bits up, in the
/// first.
#[inline(always)]
fn swap(words: [u64; 2], mask: u64, bits: u32) -> [u64; 2] {
    let [first, second] = words;
    [first & mask | (second & mask) << bits, first >> bits & mask | second & !mask]
}

/// A square of four values of two bytes.
#[inline(always)]
fn halves([a, b, c, d]: [u64; 4]) -> [u64; 4] {
    const SINGLE: u64 = 0x0000_ffff_0000_ffff;
    const PAIRS: u64 = 0x0000_0000_ffff_ffff;
    let ([a, b], [c, d]) = (swap([a, b], SINGLE, 16), swap([c, d], SINGLE, 16));
    let ([a, c], [b, d]) = (swap([a, c], PAIRS, 32), swap([b, d], PAIRS, 32));
    [a, b, c, d]
}

/// A square of eight values of one byte.
#[inline(always)]
fn bytes(words: [u64; 8]) -> [u64; 8] {
    const MASKS: [u64; 3] = [0x00ff_00ff_00ff_00ff, 0x0000_ffff_0000_ffff, 0x0000_0000_ffff_ffff];
    let mut words = words;
    for (step, mask) in [1, 2, 4].into_iter().zip(MASKS) {
        for row in (0..8).filter(|row| row & step == 0) {
            let pair = swap([words[row], words[row + step]], mask, 8 * step as u32);
            [words[row], words[row + step]] = pair;
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<const SIZE: usize>(rows: usize, width: usize, columns: usize, height: usize) {
        let from: Vec<u8> = (0..rows * width * SIZE).map(|at| (at * 151 % 251) as u8).collect();
        let mut out = vec![0xee; columns * height * SIZE];
        exchange::<SIZE>(&from, width, columns, &mut out, height);
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
            check::<4>(rows, width, columns, height);
        }
        exchange::<2>(&[], 0, 0, &mut [], 0);
    }
}
