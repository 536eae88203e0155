//! Weights whose values have rows and columns exchanged: experts of gpt-oss.
//!
//! A part of the values is some columns of a matrix as it is stored. Reading those alone would read a few bytes of each
//! row, so that a whole matrix is read and kept for the parts that follow.

use super::{Values, scale_size};
use crate::io::memory::resize;
use crate::pipeline::{Scratch, Trouble};
use onnx_cast::{BlockPlan, TensorView};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

/// The matrix that was read last.
#[derive(Debug, Default)]
pub(super) struct Slab(Mutex<Option<Arc<Matrix>>>);

/// Elements and scales of one matrix, as they are stored.
#[derive(Debug)]
struct Matrix {
    index: usize,
    elements: Vec<u8>,
    scales: Vec<u8>,
}

/// Columns of a block.
const BLOCK: usize = 32;
/// Bytes of a block's elements.
const BLOCK_BYTES: usize = BLOCK / 2;
/// The most elements of a part.
const MOST: usize = 1 << 21;

impl Values<'_> {
    /// Whole blocks of columns, so that none is computed twice.
    pub(super) fn transposed_chunk(&self) -> usize {
        let [rows, _] = self.weight.matrix();
        let block = rows.saturating_mul(BLOCK);
        if block == 0 || block > MOST { MOST } else { (MOST / 8).div_ceil(block) * block }
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
            // At most one block of columns at a time.
            let block = first / rows / BLOCK;
            let stop = stop.min((block + 1) * BLOCK * rows);
            self.block(&matrix, block, scratch)?;
            let (part, rest) = std::mem::take(&mut out).split_at_mut((stop - first) * size);
            let skipped = first - block * BLOCK * rows;
            match size {
                2 => exchange::<2>(&scratch.results, rows, skipped, part),
                _ => exchange::<4>(&scratch.results, rows, skipped, part),
            }
            (at, out) = (at + (stop - first), rest);
        }
        Ok(())
    }

    /// Computes a block of columns of all rows, in the order of the rows.
    fn block(&self, matrix: &Matrix, block: usize, scratch: &mut Scratch) -> Result<(), Trouble> {
        let [rows, columns] = self.weight.matrix();
        let blocks = columns / BLOCK;
        let no_room = || Trouble::Read(io::ErrorKind::OutOfMemory.into());
        let Scratch { elements, scales, results, .. } = scratch;
        resize(elements, rows * BLOCK_BYTES).ok_or_else(no_room)?;
        resize(scales, rows).ok_or_else(no_room)?;
        resize(results, self.to.byte_len(rows * BLOCK).unwrap_or(0)).ok_or_else(no_room)?;
        for (row, bytes) in elements.chunks_exact_mut(BLOCK_BYTES).enumerate() {
            bytes.copy_from_slice(&matrix.elements[(row * blocks + block) * BLOCK_BYTES..][..BLOCK_BYTES]);
        }
        for (row, scale) in scales.iter_mut().enumerate() {
            *scale = matrix.scales[row * blocks + block];
        }
        let (from, scale) = (self.weight.element_type(), self.weight.scale_type);
        let failed = |error: onnx_cast::CastError| Trouble::Cast(error);
        let plan = BlockPlan::dequantize(from, scale, self.to, [1, BLOCK]).map_err(|error| failed(error.into()))?;
        let shape = [rows, 1];
        let scales = TensorView::new(scale, &shape, scales).map_err(|error| failed(error.into()))?;
        let bound = plan.bind(&[rows, BLOCK], &scales, None).map_err(failed)?;
        bound.run_part(0, rows * BLOCK, elements, results).map_err(failed)
    }

    /// A matrix as it is stored.
    fn matrix(&self, index: usize) -> Result<Arc<Matrix>, Trouble> {
        let mut slab = self.slab.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(matrix) = slab.as_ref().filter(|matrix| matrix.index == index) {
            return Ok(Arc::clone(matrix));
        }
        let [rows, columns] = self.weight.matrix();
        let (bytes, count) = (rows * columns / 2, rows * (columns / BLOCK) * scale_size(self.weight));
        // The memory of the matrix before is given back first.
        *slab = None;
        let mut matrix = Matrix { index, elements: Vec::new(), scales: Vec::new() };
        self.read_stored(index * bytes, bytes, &mut matrix.elements)?;
        self.read_scales(index * count, count, &mut matrix.scales)?;
        let matrix = Arc::new(matrix);
        *slab = Some(Arc::clone(&matrix));
        Ok(matrix)
    }
}

/// Writes values that stand in rows of a block in the order of the columns, from one of them on.
fn exchange<const SIZE: usize>(values: &[u8], rows: usize, skipped: usize, out: &mut [u8]) {
    /// Rows whose blocks stay in the nearest cache.
    const TILE: usize = 64;
    let (values, out) = (values.as_chunks::<SIZE>().0, out.as_chunks_mut::<SIZE>().0);
    let end = skipped + out.len();
    for tile in (0..rows).step_by(TILE) {
        for column in skipped / rows..end.div_ceil(rows) {
            let from = (column * rows + tile).max(skipped);
            let to = (column * rows + rows.min(tile + TILE)).min(end);
            if from < to {
                let first = from - column * rows;
                let sources = values[first * BLOCK + column..].iter().step_by(BLOCK);
                out[from - skipped..to - skipped].iter_mut().zip(sources).for_each(|(out, value)| *out = *value);
            }
        }
    }
}
