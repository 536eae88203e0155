//! Weights whose values are transposed: experts of gpt-oss. A part of the values is some columns of a stored matrix.

use super::{TensorBytes, WeightValues};
use crate::formats::strided::columns::{Columns, Part, ROWS, parts};
use crate::formats::strided::transpose::transpose;
use crate::io::memory::resize;
use crate::layouts::weight::Weight;
use crate::pipeline::{PipelineError, Scratch};
use onnx_cast::scaled::BlockPlan;
use onnx_cast::{CastError, TensorView};
use std::ops::Range;

/// The columns of the elements, two of which share a byte, and those of the scales.
#[derive(Debug)]
pub(super) struct TransposedColumns {
    elements: Columns,
    scales: Columns,
}

/// Columns of a block.
const BLOCK: usize = 32;
/// Columns that are computed together: a tile of the transposition is as wide.
const BAND: usize = 2 * BLOCK;

impl TransposedColumns {
    pub(super) fn new(weight: &Weight) -> TransposedColumns {
        let [rows, columns] = weight.matrix();
        let scale = super::scale_size(weight);
        let (elements, scales) = (Columns::new([rows, columns / 2], 1), Columns::new([rows, columns / BLOCK], scale));
        TransposedColumns { elements, scales }
    }

    /// Frees what was read: nothing of it is needed again.
    pub(super) fn forget(&self) {
        [&self.elements, &self.scales].into_iter().for_each(Columns::forget);
    }
}

impl WeightValues<'_> {
    /// Computes values in the order of the columns.
    pub(super) fn transpose(
        &self,
        stored: &TransposedColumns,
        start: usize,
        scratch: &mut Scratch,
        out: &mut [u8],
    ) -> Result<(), PipelineError> {
        let size = self.to.byte_len(1).unwrap_or(1);
        let mut out = out;
        for part in parts(self.weight.matrix(), start, out.len() / size) {
            let (now, later) = std::mem::take(&mut out).split_at_mut(part.len() * size);
            out = later;
            let Part { matrix, rows, columns } = part;
            let mut column = columns.start;
            while column < columns.end {
                let end = columns.end.min(column / BAND * BAND + BAND);
                let blocks = column / BLOCK * BLOCK..end.div_ceil(BLOCK) * BLOCK;
                let mut row = rows.start;
                while row < rows.end {
                    let next = rows.end.min(row / ROWS * ROWS + ROWS);
                    self.tile(stored, &Part { matrix, rows: row..next, columns: blocks.clone() }, scratch)?;
                    let tile = &scratch.results[(column - blocks.start) * size..];
                    let out = &mut now[((column - columns.start) * rows.len() + row - rows.start) * size..];
                    match size {
                        2 => transpose::<2>(tile, blocks.len(), end - column, out, rows.len()),
                        _ => transpose::<4>(tile, blocks.len(), end - column, out, rows.len()),
                    }
                    row = next;
                }
                column = end;
            }
        }
        Ok(())
    }

    /// Computes some blocks of some rows, in the order of the rows.
    fn tile(&self, stored: &TransposedColumns, part: &Part, scratch: &mut Scratch) -> Result<(), PipelineError> {
        let (rows, columns) = (&part.rows, &part.columns);
        let Scratch { elements, scales, results, .. } = scratch;
        let copy = |from: &Columns, place: TensorBytes<'_>, each: usize, out: &mut Vec<u8>| {
            let columns: Range<usize> = columns.start / each..columns.end / each;
            let mut read = |at: usize, bytes: &mut [u8]| place.read_into(at, bytes);
            let slab = from.slab(part.matrix, [rows.start, columns.start], &mut read)?;
            slab.copy(rows.clone(), columns, out).map_err(PipelineError::Read)
        };
        copy(&stored.elements, self.elements, 2, elements)?;
        copy(&stored.scales, self.scales, BLOCK, scales)?;
        resize(results, self.to.byte_len(part.len()).unwrap_or(0)).ok_or_else(PipelineError::out_of_memory)?;
        let mut run = || -> Result<(), CastError> {
            let (from, scale) = (self.weight.element_type(), self.weight.scales.data_type);
            let plan = BlockPlan::dequantize(from, scale, self.to, [1, BLOCK])?;
            let shape = [rows.len(), columns.len() / BLOCK];
            let scales = TensorView::new(scale, &shape, scales)?;
            plan.bind(&[rows.len(), columns.len()], &scales, None)?.run_part(0, part.len(), elements, results)
        };
        run().map_err(PipelineError::Cast)
    }
}
