//! Experts whose elements have rows and columns exchanged: MXFP4 of gpt-oss, as ModelOpt has NVFP4.
//!
//! Both have two codes in a byte, next to each other along the axis of the blocks, so that bytes go to other places and
//! stay what they are.

use crate::formats::strided::columns::Columns;
use crate::pipeline::{Compute, PipelineError, Scratch, columns_at_once};

/// Transposed matrices of bytes.
pub(super) struct Transposed<C> {
    source: C,
    /// Of the source.
    rows: usize,
    columns: Columns,
}

impl<C: Compute> Transposed<C> {
    pub(super) fn new(source: C, [rows, columns]: [usize; 2]) -> Transposed<C> {
        Transposed { source, rows, columns: Columns::new([rows, columns], 1) }
    }
}

impl<C: Compute> Compute for Transposed<C> {
    fn compute(&self, start: usize, _: usize, scratch: &mut Scratch, out: &mut [u8]) -> Result<(), PipelineError> {
        self.columns.read(start, out, |at, bytes| self.source.compute(at, bytes.len(), scratch, bytes))
    }

    fn chunk(&self) -> usize {
        columns_at_once(self.rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that tell their places.
    struct Counted;

    impl Compute for Counted {
        fn compute(&self, start: usize, len: usize, _: &mut Scratch, out: &mut [u8]) -> Result<(), PipelineError> {
            assert_eq!(len, out.len());
            (start..).zip(out).for_each(|(at, out)| *out = (at * 7 % 251) as u8);
            Ok(())
        }
    }

    #[test]
    fn any_part_is_a_part_of_the_transposed_matrices() {
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
                let transposed = Transposed::new(Counted, [rows, columns]);
                transposed.compute(start, end - start, &mut Scratch::default(), &mut out).expect("computed");
                assert_eq!(out, want[start..end], "{start} to {end}");
            }
        }
    }
}
