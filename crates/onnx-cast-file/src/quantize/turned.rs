//! Matrices whose rows are stored as columns: experts of the plain gpt-oss, which its quantized layout has the other
//! way.
//!
//! A few rows are a few bytes of each row that is stored, so that a whole matrix is read and kept for the parts that
//! follow.

use crate::io::memory::resize;
use crate::io::positional::InputFile;
use crate::pipeline::Trouble;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

/// Matrices of one shape, and the one that was read last.
#[derive(Debug)]
pub(super) struct Turned {
    /// As they are quantized.
    rows: usize,
    columns: usize,
    last: Mutex<Option<(usize, Arc<Vec<u8>>)>>,
}

impl Turned {
    pub(super) fn new([rows, columns]: [usize; 2]) -> Turned {
        Turned { rows, columns, last: Mutex::new(None) }
    }

    /// Reads values of whole rows, from an element on, as they follow each other in the rows of all matrices. The
    /// matrices begin at a place of a file, and a value has `size` bytes.
    pub(super) fn read(
        &self,
        file: &InputFile,
        at: u64,
        size: usize,
        begin: usize,
        values: &mut [u8],
    ) -> Result<(), Trouble> {
        let (mut row, mut values) = (begin / self.columns, values);
        while !values.is_empty() {
            let (index, first) = (row / self.rows, row % self.rows);
            let matrix = self.matrix(file, at, size, index)?;
            let count = (self.rows - first).min(values.len() / (self.columns * size));
            let (now, later) = std::mem::take(&mut values).split_at_mut(count * self.columns * size);
            match size {
                2 => self.turn::<2>(&matrix, first, now),
                _ => self.turn::<4>(&matrix, first, now),
            }
            (row, values) = (row + count, later);
        }
        Ok(())
    }

    /// A matrix as it is stored.
    fn matrix(&self, file: &InputFile, at: u64, size: usize, index: usize) -> Result<Arc<Vec<u8>>, Trouble> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, matrix)) = last.as_ref().filter(|(held, _)| *held == index) {
            return Ok(Arc::clone(matrix));
        }
        // The memory of the matrix before is given back first.
        *last = None;
        let len = self.rows * self.columns * size;
        let mut matrix = Vec::new();
        resize(&mut matrix, len).ok_or_else(|| Trouble::Read(io::ErrorKind::OutOfMemory.into()))?;
        file.read_at(at + (index * len) as u64, &mut matrix).map_err(Trouble::Read)?;
        let matrix = Arc::new(matrix);
        *last = Some((index, Arc::clone(&matrix)));
        Ok(matrix)
    }

    /// Writes some rows, from one of them on.
    fn turn<const SIZE: usize>(&self, matrix: &[u8], first: usize, out: &mut [u8]) {
        /// Rows that are turned together: what is read for them of each column is a line of the cache.
        const ROWS: usize = 32;
        /// Columns that are turned together, in memory of their own: rows that are a power of two apart would drive
        /// each other out of the nearest cache.
        const COLUMNS: usize = 64;
        let (matrix, out) = (matrix.as_chunks::<SIZE>().0, out.as_chunks_mut::<SIZE>().0);
        let mut tile = [[[0; SIZE]; COLUMNS]; ROWS];
        for (index, out) in out.chunks_mut(ROWS * self.columns).enumerate() {
            let first = first + index * ROWS;
            for (begin, stored) in (0..).step_by(COLUMNS).zip(matrix.chunks(COLUMNS * self.rows)) {
                let columns = stored.chunks_exact(self.rows);
                let width = columns.len();
                for (column, stored) in columns.enumerate() {
                    tile.iter_mut().zip(&stored[first..]).for_each(|(row, value)| row[column] = *value);
                }
                for (row, out) in tile.iter().zip(out.chunks_exact_mut(self.columns)) {
                    out[begin..begin + width].copy_from_slice(&row[..width]);
                }
            }
        }
    }
}
