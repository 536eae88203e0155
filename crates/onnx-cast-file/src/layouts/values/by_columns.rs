//! Integers in words whose matrix has rows and columns exchanged, with their scales and zero points: GPTQ, AWQ and
//! Quark.

use super::{TensorBytes, WeightValues, scale_size};
use crate::formats::strided::columns::Columns;
use crate::io::memory::resize;
use crate::layouts::packed_ints::{codes_across, unpack_row, words};
use crate::layouts::weight::{ColumnOrder, Encoding, Weight};
use crate::pipeline::{PipelineError, Scratch};
use std::ops::Range;

/// The columns of each tensor, which are rows of the weight.
#[derive(Debug)]
pub(super) struct ByColumns {
    bits: u32,
    order: ColumnOrder,
    /// The sign bit of integers that are signed: with it flipped they are unsigned, and as far from their zero points.
    sign: u8,
    elements: Columns,
    scales: Columns,
    zero_points: Columns,
}

/// Columns whose integers of any width end with a word.
const PERIOD: usize = 32;

impl ByColumns {
    /// Those of a weight that has rows and columns exchanged.
    pub(super) fn of(weight: &Weight) -> Option<ByColumns> {
        let Encoding::Columns { bits, order, is_signed } = weight.codes.encoding else { return None };
        let ([rows, columns], [_, groups]) = (weight.matrix(), weight.grid());
        let elements = match order {
            ColumnOrder::Down => Columns::new([words(columns, bits, true), rows], 4),
            // A word has eight rows.
            ColumnOrder::Interleaved | ColumnOrder::Across => Columns::exchanged([columns, rows.div_ceil(8)], 4),
        };
        Some(ByColumns {
            bits,
            order,
            sign: u8::from(is_signed) << (bits - 1),
            elements,
            scales: Columns::new([groups, rows], scale_size(weight)),
            zero_points: Columns::new([groups, words(rows, bits, true)], 4),
        })
    }

    /// Frees what was read: nothing of it is needed again.
    pub(super) fn forget(&self) {
        [&self.elements, &self.scales, &self.zero_points].into_iter().for_each(Columns::forget);
    }
}

impl WeightValues<'_> {
    /// Reads the scales of some rows.
    pub(super) fn scales_by_columns(
        &self,
        stored: &ByColumns,
        rows: Range<usize>,
        scales: &mut Vec<u8>,
    ) -> Result<(), PipelineError> {
        let across = self.grid()[1];
        resize(scales, rows.len() * across * scale_size(&self.weight)).ok_or_else(PipelineError::out_of_memory)?;
        stored.scales.read(rows.start * across, scales, |at, bytes| self.scales.read_into(at, bytes))
    }

    /// Reads the elements from one on, as codes of a byte each.
    pub(super) fn elements_by_columns(
        &self,
        stored: &ByColumns,
        start: usize,
        len: usize,
        scratch: &mut Scratch,
    ) -> Result<(), PipelineError> {
        let Scratch { elements: packed, codes, .. } = scratch;
        let [_, columns] = self.weight.matrix();
        resize(codes, len).ok_or_else(PipelineError::out_of_memory)?;
        let (mut at, mut codes) = (start, &mut codes[..]);
        while !codes.is_empty() {
            let (row, column) = (at / columns, at % columns);
            // Whole rows are read together.
            let (rows, width) = match codes.len() / columns {
                whole if column == 0 && whole > 0 => (whole, columns),
                _ => (1, codes.len().min(columns - column)),
            };
            let (now, later) = std::mem::take(&mut codes).split_at_mut(rows * width);
            match stored.order {
                ColumnOrder::Down => self.down(stored, row, column..column + width, packed, now)?,
                ColumnOrder::Interleaved | ColumnOrder::Across => {
                    self.across(stored, row, column..column + width, packed, now)?
                }
            }
            (at, codes) = (at + rows * width, later);
        }
        Ok(())
    }

    /// Some columns of rows from one on: a stream of words for each row.
    fn down(
        &self,
        stored: &ByColumns,
        row: usize,
        columns: Range<usize>,
        packed: &mut Vec<u8>,
        codes: &mut [u8],
    ) -> Result<(), PipelineError> {
        let (bits, all) = (stored.bits, words(self.weight.matrix()[1], stored.bits, true));
        if bits == 8 && columns.len() == 4 * all {
            // The bytes of words are the codes.
            return stored.elements.read(row * all, codes, |at, bytes| self.elements.read_into(at, bytes));
        }
        let first = columns.start / PERIOD * bits as usize;
        let (rows, last) = (codes.len() / columns.len(), words(columns.end, bits, true));
        resize(packed, rows * (last - first) * 4).ok_or_else(PipelineError::out_of_memory)?;
        stored.elements.read(row * all + first, packed, |at, bytes| self.elements.read_into(at, bytes))?;
        for (words, codes) in packed.chunks_exact((last - first) * 4).zip(codes.chunks_exact_mut(columns.len())) {
            unpack_row(words, columns.start % PERIOD, bits, true, codes);
        }
        Ok(())
    }

    /// Some columns of rows from one on: each word has eight rows.
    fn across(
        &self,
        stored: &ByColumns,
        row: usize,
        columns: Range<usize>,
        packed: &mut Vec<u8>,
        codes: &mut [u8],
    ) -> Result<(), PipelineError> {
        let all = self.weight.matrix()[1];
        let rows = row..row + codes.len() / columns.len();
        let lines = rows.start / 8..rows.end.div_ceil(8);
        resize(packed, lines.len() * columns.len() * 4).ok_or_else(PipelineError::out_of_memory)?;
        let start = lines.start * all + columns.start;
        stored.elements.read(start, packed, |at, bytes| self.elements.read_into(at, bytes))?;
        for (row, codes) in rows.zip(codes.chunks_exact_mut(columns.len())) {
            let line = &packed[(row / 8 - lines.start) * columns.len() * 4..][..columns.len() * 4];
            codes_across([line, &[]], stored.order.place(row % 8), stored.bits, codes);
            if stored.sign != 0 {
                codes.iter_mut().for_each(|code| *code ^= stored.sign);
            }
        }
        Ok(())
    }

    /// Reads the zero points of some rows, one for each scale.
    pub(super) fn zero_points_by_columns(
        &self,
        stored: &ByColumns,
        rows: Range<usize>,
        scratch: &mut Scratch,
    ) -> Result<(), PipelineError> {
        let Scratch { zero_points, results: packed, .. } = scratch;
        let (bits, across) = (stored.bits, self.grid()[1]);
        resize(zero_points, rows.len() * across).ok_or_else(PipelineError::out_of_memory)?;
        let Some(tensor) = self.zero_points else {
            zero_points.fill(1 << (bits - 1));
            return Ok(());
        };
        // A period of rows ends with a word, whatever their order in it.
        let first = rows.start / PERIOD;
        let last = words(self.weight.matrix()[0].min(rows.end.next_multiple_of(PERIOD)), bits, true);
        let passed = first * bits as usize;
        resize(packed, (last - passed) * across * 4).ok_or_else(PipelineError::out_of_memory)?;
        stored.zero_points.read(passed * across, packed, |at, bytes| tensor.read_into(at, bytes))?;
        for (row, line) in rows.zip(zero_points.chunks_exact_mut(across.max(1))) {
            let place = stored.order.place(row) - first * PERIOD;
            let word = place * bits as usize / 32;
            let lines = [word, word + 1].map(|word| packed.get(word * across * 4..).unwrap_or_default());
            codes_across(lines, place, bits, line);
            let offset = self.weight.zero_points.map_or(0, |zero_points| zero_points.offset());
            let sign = stored.sign;
            line.iter_mut().for_each(|zero_point| *zero_point = (*zero_point ^ sign).wrapping_add(offset));
        }
        Ok(())
    }

    /// Reads zero points of 4 bits in rows of words, of which the last are not used.
    pub(super) fn padded_zero_points(
        &self,
        place: TensorBytes<'_>,
        rows: Range<usize>,
        padded: usize,
        scratch: &mut Scratch,
    ) -> Result<(), PipelineError> {
        let Scratch { zero_points, results: packed, .. } = scratch;
        let (across, row) = (self.grid()[1], padded / 8 * 4);
        place.read(rows.start * row, rows.len() * row, packed)?;
        resize(zero_points, rows.len() * across).ok_or_else(PipelineError::out_of_memory)?;
        let lines = zero_points.chunks_exact_mut(across.max(1));
        packed.chunks_exact(row.max(1)).zip(lines).for_each(|(row, line)| unpack_row(row, 0, 4, false, line));
        Ok(())
    }
}
