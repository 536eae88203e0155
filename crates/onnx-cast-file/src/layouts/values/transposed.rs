//! Weights whose values have rows and columns exchanged: experts of gpt-oss.
//!
//! A part of the values is some columns of a matrix as it is stored. Reading those alone would read a few bytes of each
//! row, so that a whole matrix is read and kept for the parts that follow.

use super::{Values, scale_size};
use crate::io::memory::resize;
use crate::layouts::exchange::exchange;
use crate::pipeline::{Scratch, Trouble};
use onnx_cast::{BlockPlan, TensorView};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

/// The matrix that was read last.
#[derive(Debug, Default)]
pub(super) struct Slab(Mutex<Option<Arc<Matrix>>>);

/// Elements and scales of one matrix, as they are stored.
#[derive(Debug, Default)]
struct Matrix {
    index: usize,
    elements: Vec<u8>,
    scales: Vec<u8>,
}

/// Columns of a block.
const BLOCK: usize = 32;
/// Blocks that are computed together: their elements are a line of the cache.
const BLOCKS: usize = 4;
/// Columns that are computed together.
const BAND: usize = BLOCK * BLOCKS;
/// Rows that are computed together: their values stay in the caches until they are exchanged.
const ROWS: usize = 256;
/// The most elements of a part.
const MOST: usize = 1 << 21;

impl Values<'_> {
    /// Whole bands of columns, so that none is computed twice.
    pub(super) fn transposed_chunk(&self) -> usize {
        let [rows, columns] = self.weight.matrix();
        let band = rows.saturating_mul(BAND.min(columns));
        if band == 0 || band > MOST { MOST } else { (MOST / 8).div_ceil(band) * band }
    }

    /// Computes values in the order of the columns.
    pub(super) fn transpose(
        &self,
        start: usize,
        len: usize,
        scratch: &mut Scratch,
        out: &mut [u8],
    ) -> Result<(), Trouble> {
        let [rows, columns] = self.weight.matrix();
        let size = self.to.byte_len(1).unwrap_or(1);
        let (mut at, end, mut out) = (start, start + len, out);
        while at < end {
            let matrix = self.matrix(at / (rows * columns))?;
            let first = at % (rows * columns);
            let stop = (first + (end - at)).min(rows * columns);
            // At most one band of columns at a time.
            let band = first / rows / BAND * BAND;
            let width = BAND.min(columns - band);
            let stop = stop.min((band + width) * rows);
            let (part, rest) = std::mem::take(&mut out).split_at_mut((stop - first) * size);
            let skipped = first - band * rows;
            if skipped == 0 && part.len() == width * rows * size {
                self.band(&matrix, band, width, scratch, part)?;
            } else {
                let mut all = std::mem::take(&mut scratch.codes);
                resize(&mut all, width * rows * size).ok_or_else(no_room)?;
                self.band(&matrix, band, width, scratch, &mut all)?;
                part.copy_from_slice(&all[skipped * size..][..part.len()]);
                scratch.codes = all;
            }
            (at, out) = (at + (stop - first), rest);
        }
        Ok(())
    }

    /// Computes a band of columns of all rows, some rows after the others.
    fn band(
        &self,
        matrix: &Matrix,
        band: usize,
        width: usize,
        scratch: &mut Scratch,
        out: &mut [u8],
    ) -> Result<(), Trouble> {
        let [rows, _] = self.weight.matrix();
        let size = self.to.byte_len(1).unwrap_or(1);
        for row in (0..rows).step_by(ROWS) {
            let count = ROWS.min(rows - row);
            self.rows(matrix, [row, count], [band, width], scratch)?;
            let out = &mut out[row * size..];
            match size {
                2 => exchange::<2>(&scratch.results, width, width, out, rows),
                _ => exchange::<4>(&scratch.results, width, width, out, rows),
            }
        }
        Ok(())
    }

    /// Computes a band of columns of some rows, in the order of the rows.
    fn rows(
        &self,
        matrix: &Matrix,
        [row, rows]: [usize; 2],
        [band, width]: [usize; 2],
        scratch: &mut Scratch,
    ) -> Result<(), Trouble> {
        let [_, columns] = self.weight.matrix();
        let (row_bytes, bytes) = (columns / 2, width / 2);
        let (row_scales, count) = (columns / BLOCK, width / BLOCK);
        let Scratch { elements, scales, results, .. } = scratch;
        resize(elements, rows * bytes).ok_or_else(no_room)?;
        resize(scales, rows * count).ok_or_else(no_room)?;
        resize(results, self.to.byte_len(rows * width).unwrap_or(0)).ok_or_else(no_room)?;
        let stored = matrix.elements[row * row_bytes..].chunks_exact(row_bytes);
        for (out, stored) in elements.chunks_exact_mut(bytes).zip(stored) {
            out.copy_from_slice(&stored[band / 2..][..bytes]);
        }
        let stored = matrix.scales[row * row_scales..].chunks_exact(row_scales);
        for (out, stored) in scales.chunks_exact_mut(count).zip(stored) {
            out.copy_from_slice(&stored[band / BLOCK..][..count]);
        }
        let (from, scale) = (self.weight.element_type(), self.weight.scale_type);
        let failed = |error: onnx_cast::CastError| Trouble::Cast(error);
        let plan = BlockPlan::dequantize(from, scale, self.to, [1, BLOCK]).map_err(|error| failed(error.into()))?;
        let shape = [rows, count];
        let scales = TensorView::new(scale, &shape, scales).map_err(|error| failed(error.into()))?;
        let bound = plan.bind(&[rows, width], &scales, None).map_err(failed)?;
        bound.run_part(0, rows * width, elements, results).map_err(failed)
    }

    /// A matrix as it is stored.
    fn matrix(&self, index: usize) -> Result<Arc<Matrix>, Trouble> {
        let mut slab = self.slab.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(matrix) = slab.as_ref().filter(|matrix| matrix.index == index) {
            return Ok(Arc::clone(matrix));
        }
        let [rows, columns] = self.weight.matrix();
        let (bytes, count) = (rows * columns / 2, rows * (columns / BLOCK) * scale_size(self.weight));
        // The memory of the matrix before is used again, or given back first where another part still needs it.
        let mut matrix = slab.take().and_then(Arc::into_inner).unwrap_or_default();
        matrix.index = index;
        self.read_stored(index * bytes, bytes, &mut matrix.elements)?;
        self.read_scales(index * count, count, &mut matrix.scales)?;
        let matrix = Arc::new(matrix);
        *slab = Some(Arc::clone(&matrix));
        Ok(matrix)
    }
}

fn no_room() -> Trouble {
    Trouble::Read(io::ErrorKind::OutOfMemory.into())
}
