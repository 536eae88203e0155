//! Matrices whose rows are stored as columns: experts of the plain gpt-oss, which its quantized layout has the other
//! way.
//!
//! A few rows are a few bytes of each row that is stored, so that a whole matrix is read and kept for the parts that
//! follow.

use crate::io::memory::resize;
use crate::io::positional::InputFile;
use crate::layouts::exchange;
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
            let stored = &matrix[first * size..];
            match size {
                2 => exchange::<2>(stored, self.rows, count, now, self.columns),
                _ => exchange::<4>(stored, self.rows, count, now, self.columns),
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
        // The memory of the matrix before is used again, or given back first where another part still needs it.
        let before = last.take().and_then(|(_, matrix)| Arc::into_inner(matrix));
        let len = self.rows * self.columns * size;
        let mut matrix = before.unwrap_or_default();
        resize(&mut matrix, len).ok_or_else(|| Trouble::Read(io::ErrorKind::OutOfMemory.into()))?;
        file.read_at(at + (index * len) as u64, &mut matrix).map_err(Trouble::Read)?;
        let matrix = Arc::new(matrix);
        *last = Some((index, Arc::clone(&matrix)));
        Ok(matrix)
    }
}
