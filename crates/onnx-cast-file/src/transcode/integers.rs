//! Integers in words of 32 bits as plain int8, and int8 in words: the codes differ by half their range.

use crate::io::memory::resize;
use crate::layouts::WeightValues;
use crate::pipeline::{Compute, PipelineError, Scratch};

/// What is done with the integers of a weight: its elements, or its zero points.
pub(super) enum Integers {
    /// Words become int8.
    ToBytes,
    /// Zero points in words become int8.
    ZeroPointsToBytes,
    /// Elements of int8 become words of four.
    ToWords,
    /// Zero points of int8 become words of four rows.
    ZeroPointsToWords,
}

/// The integers of a weight in another form.
pub(super) struct RepackedIntegers<'a> {
    pub(super) values: WeightValues<'a>,
    pub(super) how: Integers,
}

/// What int8 is in a word: half the range more.
const HALF: u8 = 0x80;

impl Compute for RepackedIntegers<'_> {
    fn compute(&self, start: usize, len: usize, scratch: &mut Scratch, out: &mut [u8]) -> Result<(), PipelineError> {
        let values = &self.values;
        match self.how {
            Integers::ToBytes => values.integers(start, len, scratch, out),
            Integers::ZeroPointsToBytes => values.zero_points(start, len, scratch, out),
            Integers::ToWords => {
                // Rows fill their words, and each word has its integers in order.
                values.integers(4 * start, 4 * len, scratch, out)?;
                out.iter_mut().for_each(|byte| *byte ^= HALF);
                Ok(())
            }
            Integers::ZeroPointsToWords => {
                let [rows, columns] = values.grid();
                let (first, end) = (start / columns, (start + len).div_ceil(columns));
                let last = (4 * end).min(rows);
                let mut bytes = std::mem::take(&mut scratch.codes);
                resize(&mut bytes, (last - 4 * first) * columns).ok_or_else(PipelineError::out_of_memory)?;
                values.zero_points(4 * first * columns, bytes.len(), scratch, &mut bytes)?;
                for (index, word) in (start..).zip(out.as_chunks_mut::<4>().0) {
                    let (row, column) = (4 * (index / columns - first), index % columns);
                    let code = |below: usize| bytes.get((row + below) * columns + column).map_or(0, |byte| byte ^ HALF);
                    *word = [0, 1, 2, 3].map(code);
                }
                scratch.codes = bytes;
                Ok(())
            }
        }
    }
}
