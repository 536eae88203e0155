//! Measures the amax of a tensor's blocks in a pass before its elements are quantized.

use crate::pipeline::Transform;
use onnx_cast::scaled::block_amax;
use onnx_cast::{CastError, DataType, TensorView};
use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// The largest finite magnitude of each block of a tensor's matrices, or of several tensors that share a scale.
#[derive(Debug)]
pub struct Amax {
    from: DataType,
    /// Rows and columns of a matrix, and of a block.
    matrix: [usize; 2],
    block: [usize; 2],
    /// Bits of each amax. Non-negative floats are ordered like their bits.
    bits: Vec<AtomicU32>,
    found: OnceLock<Vec<f32>>,
    most: AtomicU32,
    marks_nan: bool,
}

impl Amax {
    /// Measures each block of `count` matrices.
    pub fn of_blocks(from: DataType, [count, rows, columns]: [usize; 3], block: [usize; 2]) -> Amax {
        let block = block.map(|size| size.max(1));
        let blocks = count * rows.div_ceil(block[0]) * columns.div_ceil(block[1]);
        let bits = (0..blocks).map(|_| AtomicU32::new(0)).collect();
        let (found, most) = (OnceLock::new(), AtomicU32::new(0));
        Amax { from, matrix: [rows, columns], block, bits, found, most, marks_nan: false }
    }

    /// Sets whether a block with NaN or an infinity has the magnitude NaN. By default, such values are skipped.
    pub fn marks_nan(self, marks_nan: bool) -> Amax {
        Amax { marks_nan, ..self }
    }

    /// Measures all values as one block.
    pub fn of_all(from: DataType) -> Amax {
        Amax::of_blocks(from, [1, 1, usize::MAX], [1, usize::MAX])
    }

    /// Returns the amax of each block, in the order of the scales. The pass must be complete.
    pub fn values(&self) -> &[f32] {
        let value = |bits: &AtomicU32| f32::from_bits(bits.load(Ordering::Relaxed));
        self.found.get_or_init(|| self.bits.iter().map(value).collect())
    }

    /// Returns the max over all blocks.
    pub(crate) fn most(&self) -> f32 {
        f32::from_bits(self.most.load(Ordering::Relaxed))
    }

    /// Raises the magnitudes of the blocks from `first` on to those of `x`, a matrix.
    fn raise(&self, first: usize, x: &TensorView<'_>, block: [usize; 2]) -> Result<(), CastError> {
        // Most values change nothing, and a load is cheaper than `fetch_max`.
        let raise = |bits: &AtomicU32, amax: f32| {
            if bits.load(Ordering::Relaxed) < amax.to_bits() {
                bits.fetch_max(amax.to_bits(), Ordering::Relaxed);
            }
        };
        let mut amax = block_amax(x, block)?;
        raise(&self.most, amax.iter().copied().fold(0.0, f32::max));
        if self.marks_nan {
            mark_nan(&mut amax, x, block);
        }
        self.bits.iter().skip(first).zip(amax).for_each(|(bits, amax)| raise(bits, amax));
        Ok(())
    }

    /// Takes elements, the first of which is the tensor's element `start`: whole rows of a row of blocks at once, and
    /// of other rows the rest of the first block, and then the others.
    pub(crate) fn see(&self, start: usize, len: usize, elements: &[u8]) -> Result<(), CastError> {
        let ([rows, columns], [down, across]) = (self.matrix, self.block);
        let width = self.from.bits().unwrap_or(8) / 8;
        let bytes = |range: Range<usize>| elements.get(range.start * width..range.end * width).unwrap_or_default();
        let mut done = 0;
        while done < len {
            let (row, column) = ((start + done) / columns, (start + done) % columns);
            let (matrix, row) = (row / rows, row % rows);
            let mut first = (matrix * rows.div_ceil(down) + row / down) * columns.div_ceil(across) + column / across;
            let whole = ((len - done) / columns).min(down - row % down).min(rows - row);
            let shape = if column == 0 && whole > 0 {
                [whole, columns]
            } else {
                let rest = (len - done).min(columns - column);
                let end = done + rest.min(across - column % across);
                let of_first = [1, end - done];
                self.raise(first, &TensorView::new(self.from, &of_first, bytes(done..end))?, of_first)?;
                first += 1;
                let shape = [1, done + rest - end];
                done = end;
                shape
            };
            let end = done + shape[0] * shape[1];
            let view = TensorView::new(self.from, &shape, bytes(done..end))?;
            self.raise(first, &view, [shape[0].max(1), across])?;
            done = end;
        }
        Ok(())
    }
}

/// Sets the magnitudes of blocks that hold NaN or an infinity to NaN.
pub(crate) fn mark_nan(amax: &mut [f32], x: &TensorView<'_>, block: [usize; 2]) {
    let (Some(bytes), &[.., columns]) = (x.bytes(), x.shape()) else { return };
    let exponent: u32 = match x.data_type() {
        DataType::Float => 0x7f80_0000,
        DataType::Float16 => 0x7c00,
        _ => 0x7f80,
    };
    let (width, across) = (x.data_type().bits().unwrap_or(8) / 8, columns.div_ceil(block[1]));
    for (at, bytes) in bytes.chunks_exact(width).enumerate() {
        let bits = bytes.iter().rev().fold(0, |bits, byte| bits << 8 | u32::from(*byte));
        if bits & exponent == exponent {
            amax[at / columns / block[0] * across + at % columns / block[1]] = f32::NAN;
        }
    }
}

impl Transform for Amax {
    fn target_type(&self) -> DataType {
        self.from
    }

    fn run(&self, start: usize, len: usize, elements: &[u8], _: &mut [u8]) -> Result<(), CastError> {
        self.see(start, len, elements)
    }
}
