//! Stored matrices that are read by columns, such as transposed weights and arrays in Fortran order.
//!
//! A part of the result is a few bytes of each stored row. A slab of columns, of bounded size, is therefore read and
//! cached for the parts that follow.

use super::transpose::transpose;
use crate::io::memory::resize;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of a slab; up to eight times as many if the stretches of rows would be short. Each stretch is a system call.
const SLAB: usize = 8 << 20;
/// Bytes of a stretch below which it is short.
const SHORT: usize = 2 << 10;
/// Bytes of a row that a slab has at least.
const LEAST: usize = 64;
/// Slabs of some of the rows begin at a multiple of these.
pub(crate) const ROWS: usize = 256;
/// Max length of a row in bytes for which whole rows are read instead of stretches of them, and max length of such a
/// read.
const WHOLE: usize = 4 << 10;
const SPAN: usize = 1 << 20;
/// Rows that are exchanged at once: they stay in the nearer caches.
const STRIP: usize = 64;

/// Matrices of one shape, and the slab that was read last.
#[derive(Debug)]
pub(crate) struct Columns {
    rows: usize,
    /// Values of a row, and bytes of a value.
    columns: usize,
    size: usize,
    /// Rows and columns of a slab.
    slab: [usize; 2],
    /// Whether slabs have rows and columns exchanged.
    is_exchanged: bool,
    /// Whether the rows are apart in the file, so that reading several of them at once gains nothing.
    are_apart: bool,
    last: Mutex<Option<Arc<Slab>>>,
}

/// Some columns of a matrix: those of all its rows, if these are not too many.
#[derive(Debug, Default)]
pub(crate) struct Slab {
    matrix: usize,
    rows: Range<usize>,
    columns: Range<usize>,
    size: usize,
    bytes: Vec<u8>,
}

/// A part of a transposed tensor that is whole columns of a matrix, or a part of one.
pub(crate) struct Part {
    pub(crate) matrix: usize,
    pub(crate) rows: Range<usize>,
    pub(crate) columns: Range<usize>,
}

impl Part {
    /// How many values it has.
    pub(crate) fn len(&self) -> usize {
        self.rows.len() * self.columns.len()
    }
}

/// The parts of transposed matrices that so many values consist of, from one on.
pub(crate) fn parts([rows, columns]: [usize; 2], start: usize, len: usize) -> impl Iterator<Item = Part> {
    let (mut at, end) = (start, start + len);
    std::iter::from_fn(move || {
        let (column, row) = ((at / rows.max(1)) % columns.max(1), at % rows.max(1));
        let left = end.checked_sub(at).filter(|&left| left > 0)?;
        let (count, stop) = match left / rows {
            whole if row == 0 && whole > 0 => (whole.min(columns - column), rows),
            _ => (1, rows.min(row + left)),
        };
        let part = Part { matrix: at / (rows * columns), rows: row..stop, columns: column..column + count };
        at += part.len();
        Some(part)
    })
}

impl Columns {
    /// Matrices of values of so many bytes.
    pub(crate) fn new([rows, columns]: [usize; 2], size: usize) -> Columns {
        let least = rows.saturating_mul(LEAST.max(size));
        let slab = if rows.saturating_mul(SHORT) <= SLAB { SLAB } else { least.clamp(2 * SLAB, 8 * SLAB) };
        let down = if least <= slab { rows } else { (slab / LEAST.max(size) / ROWS * ROWS).max(1) };
        let most = slab / down.max(1) / size;
        let step = if most < LEAST { (LEAST / size).max(1) } else { LEAST };
        let across = if most < columns { (most / step * step).max(1) } else { columns };
        Columns {
            rows,
            columns,
            size,
            slab: [down, across],
            is_exchanged: false,
            are_apart: false,
            last: Mutex::new(None),
        }
    }

    /// Matrices of which few columns are read at once, so that every line of a slab would be needed several times: rows
    /// and columns are exchanged while they are read.
    pub(crate) fn exchanged(shape: [usize; 2], size: usize) -> Columns {
        Columns { is_exchanged: true, ..Columns::new(shape, size) }
    }

    /// Matrices whose rows are not consecutive in the file.
    pub(super) fn with_rows_apart(self, are_apart: bool) -> Columns {
        Columns { are_apart, ..self }
    }

    /// Reads values of the transposed matrices, from one on. `read` reads bytes of the tensor from a place.
    pub(crate) fn read<E: From<io::Error>>(
        &self,
        start: usize,
        values: &mut [u8],
        read: impl FnMut(usize, &mut [u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let (mut read, mut values) = (read, values);
        for part in parts([self.rows, self.columns], start, values.len() / self.size) {
            let (now, later) = std::mem::take(&mut values).split_at_mut(part.len() * self.size);
            values = later;
            let height = part.rows.len();
            let mut column = part.columns.start;
            while column < part.columns.end {
                let (mut row, mut end) = (part.rows.start, column);
                while row < part.rows.end {
                    let slab = self.slab(part.matrix, [row, column], &mut read)?;
                    end = slab.columns.end.min(part.columns.end);
                    let at = (column - part.columns.start) * height + row - part.rows.start;
                    let out = &mut now[at * self.size..];
                    if self.is_exchanged {
                        let down = slab.rows.len();
                        let first = (column - slab.columns.start) * down + row - slab.rows.start;
                        let last = (end - slab.columns.start) * down;
                        let from = &slab.bytes[first * self.size..last * self.size];
                        let count = slab.rows.end.min(part.rows.end) - row;
                        copy_stretches(count * self.size, from, down * self.size, out, height * self.size);
                    } else {
                        let from = &slab.bytes[slab.place([row, column])..slab.place([part.rows.end, 0])];
                        exchange(self.size, from, slab.columns.len(), end - column, out, height);
                    }
                    row = slab.rows.end;
                }
                column = end;
            }
        }
        Ok(())
    }

    /// Frees the slab that was read last.
    pub(crate) fn forget(&self) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// The slab that holds a value of a matrix.
    pub(crate) fn slab<E: From<io::Error>>(
        &self,
        matrix: usize,
        [row, column]: [usize; 2],
        read: &mut impl FnMut(usize, &mut [u8]) -> Result<(), E>,
    ) -> Result<Arc<Slab>, E> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let holds = |slab: &Slab| slab.matrix == matrix && slab.rows.contains(&row) && slab.columns.contains(&column);
        if let Some(slab) = last.as_ref().filter(|slab| holds(slab)) {
            return Ok(Arc::clone(slab));
        }
        // The memory of the last one is used again, or freed first if another thread still needs it.
        let mut slab = last.take().and_then(Arc::into_inner).unwrap_or_default();
        let [down, across] = self.slab;
        let range = |at: usize, step: usize, end: usize| at / step * step..end.min(at / step * step + step);
        (slab.matrix, slab.size) = (matrix, self.size);
        (slab.rows, slab.columns) = (range(row, down, self.rows), range(column, across, self.columns));
        let [width, pitch] = [slab.columns.len() * self.size, self.columns * self.size];
        resize(&mut slab.bytes, slab.rows.len() * width).ok_or_else(out_of_memory)?;
        let first = (matrix * self.rows + slab.rows.start) * pitch + slab.columns.start * self.size;
        let mut rows = |at: usize, bytes: &mut [u8]| {
            if width == pitch {
                return read(at, bytes);
            }
            if pitch > WHOLE || self.are_apart {
                let mut stretches = (at..).step_by(pitch).zip(bytes.chunks_exact_mut(width));
                return stretches.try_for_each(|(at, bytes)| read(at, bytes));
            }
            let mut span = Vec::new();
            let together = SPAN / pitch;
            for (at, stretches) in (at..).step_by(together * pitch).zip(bytes.chunks_mut(together * width)) {
                let len = (stretches.len() / width - 1) * pitch + width;
                resize(&mut span, len).ok_or_else(out_of_memory)?;
                read(at, &mut span)?;
                copy_stretches(width, &span, pitch, stretches, width);
            }
            Ok(())
        };
        if self.is_exchanged {
            let (height, mut strip) = (slab.rows.len(), Vec::new());
            for row in (0..height).step_by(STRIP) {
                resize(&mut strip, STRIP.min(height - row) * width).ok_or_else(out_of_memory)?;
                rows(first + row * pitch, &mut strip)?;
                let (out, columns) = (&mut slab.bytes[row * self.size..], slab.columns.len());
                exchange(self.size, &strip, columns, columns, out, height);
            }
        } else {
            rows(first, &mut slab.bytes)?;
        }
        let slab = Arc::new(slab);
        *last = Some(Arc::clone(&slab));
        Ok(slab)
    }
}

impl Slab {
    /// The place of a value; of one behind the last row, the end.
    fn place(&self, [row, column]: [usize; 2]) -> usize {
        let (row, column) = (row.min(self.rows.end) - self.rows.start, column.max(self.columns.start));
        (row * self.columns.len() + column - self.columns.start) * self.size
    }

    /// The bytes of a row from a value on, before a column or the end of the slab.
    pub(crate) fn row(&self, [row, column]: [usize; 2], end: usize) -> &[u8] {
        let end = end.min(self.columns.end);
        &self.bytes[self.place([row, column])..][..end.saturating_sub(column) * self.size]
    }

    /// Copies some columns of some rows.
    pub(crate) fn copy(&self, rows: Range<usize>, columns: Range<usize>, out: &mut Vec<u8>) -> io::Result<()> {
        let (pitch, width) = (self.columns.len() * self.size, columns.len() * self.size);
        resize(out, rows.len() * width).ok_or_else(out_of_memory)?;
        copy_stretches(width, &self.bytes[self.place([rows.start, columns.start])..], pitch, out, width);
        Ok(())
    }
}

fn out_of_memory() -> io::Error {
    io::ErrorKind::OutOfMemory.into()
}

/// Transposes values of `size` bytes, as [`transpose`] does.
fn exchange(size: usize, from: &[u8], width: usize, columns: usize, out: &mut [u8], height: usize) {
    match size {
        1 => transpose::<1>(from, width, columns, out, height),
        2 => transpose::<2>(from, width, columns, out, height),
        4 => transpose::<4>(from, width, columns, out, height),
        8 => transpose::<8>(from, width, columns, out, height),
        _ => {
            for (row, values) in from.chunks(width * size).enumerate() {
                for (column, value) in values.chunks_exact(size).take(columns).enumerate() {
                    out[(column * height + row) * size..][..size].copy_from_slice(value);
                }
            }
        }
    }
}

/// Copies so many bytes of each row to the row of the result, for rows of these lengths.
pub(crate) fn copy_stretches(width: usize, from: &[u8], from_row: usize, out: &mut [u8], out_row: usize) {
    fn each<'r, const N: usize>(rows: impl Iterator<Item = (&'r [u8], &'r mut [u8])>) {
        rows.for_each(|(from, out)| {
            if let (Some(from), Some(out)) = (from.first_chunk::<N>(), out.first_chunk_mut()) {
                *out = *from;
            }
        });
    }
    let rows = from.chunks(from_row.max(1)).zip(out.chunks_mut(out_row.max(1)));
    match width {
        // Copies of a known length need no call.
        2 => each::<2>(rows),
        4 => each::<4>(rows),
        32 => each::<32>(rows),
        64 => each::<64>(rows),
        _ => rows.for_each(|(from, out)| out[..width].copy_from_slice(&from[..width])),
    }
}
