//! Experts whose elements have rows and columns exchanged: MXFP4 of gpt-oss, as ModelOpt has NVFP4.
//!
//! Both have two codes in a byte, next to each other along the axis of the blocks, so that bytes go to other places and
//! stay what they are. A part of the result is a stretch of every row that is stored, so that the bytes of a whole
//! matrix are kept for the parts that follow.

use crate::io::memory::resize;
use crate::layouts::exchange;
use crate::pipeline::{Compute, Scratch, Trouble};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

/// Matrices of bytes with rows and columns exchanged.
pub(super) struct Exchanged<C> {
    source: C,
    /// Of the source.
    rows: usize,
    columns: usize,
    /// The matrix of the source that was computed last.
    last: Mutex<Option<(usize, Arc<Vec<u8>>)>>,
}

impl<C: Compute> Exchanged<C> {
    pub(super) fn new(source: C, [rows, columns]: [usize; 2]) -> Exchanged<C> {
        Exchanged { source, rows, columns, last: Mutex::new(None) }
    }

    /// A matrix of the source.
    fn matrix(&self, index: usize, scratch: &mut Scratch) -> Result<Arc<Vec<u8>>, Trouble> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, matrix)) = last.as_ref().filter(|(held, _)| *held == index) {
            return Ok(Arc::clone(matrix));
        }
        let len = self.rows * self.columns;
        let mut matrix = last.take().and_then(|(_, matrix)| Arc::into_inner(matrix)).unwrap_or_default();
        resize(&mut matrix, len).ok_or_else(no_room)?;
        self.source.compute(index * len, len, scratch, &mut matrix)?;
        let matrix = Arc::new(matrix);
        *last = Some((index, Arc::clone(&matrix)));
        Ok(matrix)
    }
}

impl<C: Compute> Compute for Exchanged<C> {
    fn compute(&self, start: usize, len: usize, scratch: &mut Scratch, out: &mut [u8]) -> Result<(), Trouble> {
        let (rows, columns) = (self.rows, self.columns);
        let (mut at, end, mut out) = (start, start + len, out);
        while at < end {
            let (index, first) = (at / (rows * columns), at % (rows * columns));
            let matrix = self.matrix(index, scratch)?;
            let (column, skipped) = (first / rows, first % rows);
            let most = (end - at).min(rows * columns - first);
            // Columns of the source that are asked for from end to end, or else a part of one.
            let (whole, bytes) = match most / rows {
                0 => (1, most.min(rows - skipped)),
                _ if skipped > 0 => (1, rows - skipped),
                whole => (whole, whole * rows),
            };
            let (part, behind) = std::mem::take(&mut out).split_at_mut(bytes);
            if bytes == whole * rows {
                exchange::<1>(&matrix[column..], columns, whole, part, rows);
            } else {
                let bytes = matrix[column..].iter().step_by(columns).skip(skipped);
                part.iter_mut().zip(bytes).for_each(|(out, byte)| *out = *byte);
            }
            (at, out) = (at + bytes, behind);
        }
        Ok(())
    }

    fn chunk(&self) -> usize {
        /// The least bytes of a part.
        const LEAST: usize = 1 << 18;
        LEAST.div_ceil(self.rows.max(1)) * self.rows.max(1)
    }
}

fn no_room() -> Trouble {
    Trouble::Read(io::ErrorKind::OutOfMemory.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that tell their places.
    struct Counted;

    impl Compute for Counted {
        fn compute(&self, start: usize, len: usize, _: &mut Scratch, out: &mut [u8]) -> Result<(), Trouble> {
            assert_eq!(len, out.len());
            (start..).zip(out).for_each(|(at, out)| *out = (at * 7 % 251) as u8);
            Ok(())
        }
    }

    #[test]
    fn any_part_is_a_part_of_the_exchanged_matrices() {
        let (rows, columns) = (5, 3);
        let want: Vec<u8> = (0..2 * rows * columns)
            .map(|at| {
                let (matrix, column, row) = (at / 15, at % 15 / rows, at % rows);
                ((matrix * 15 + row * columns + column) * 7 % 251) as u8
            })
            .collect();
        for start in 0..want.len() {
            for end in start..=want.len() {
                let mut out = vec![0; end - start];
                let exchanged = Exchanged::new(Counted, [rows, columns]);
                exchanged.compute(start, end - start, &mut Scratch::default(), &mut out).expect("computed");
                assert_eq!(out, want[start..end], "{start} to {end}");
            }
        }
    }
}
