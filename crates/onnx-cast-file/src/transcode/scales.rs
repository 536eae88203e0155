//! The scales of a weight for blocks as large, or smaller, in another type that holds them.

use crate::checkpoint::Checkpoint;
use crate::io::memory::resize;
use crate::io::positional::InputFile;
use crate::layouts::{Weight, WrittenWeight};
use crate::pipeline::{Compute, PipelineError, Scratch};
use onnx_cast::{Cast, CastError, CastOptions, DataType, TensorView};

/// Scales of a grid, for another grid.
pub(super) struct Scales<'a> {
    file: &'a InputFile,
    at: u64,
    from: DataType,
    to: DataType,
    old: Grid,
    new: Grid,
}

/// Where the scales of matrices are that stand one above the other.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Grid {
    /// Rows of a matrix.
    rows: usize,
    /// Rows and columns of a block.
    block: [usize; 2],
    /// How many scales a matrix has down and across.
    size: [usize; 2],
    /// How many matrices there are.
    count: usize,
}

impl Grid {
    fn new([count, rows, columns]: [usize; 3], block: [usize; 2]) -> Grid {
        let size = [rows.div_ceil(block[0]), columns.div_ceil(block[1])];
        Grid { rows, block, size, count }
    }

    /// The row of all matrices, and the column, at which the block of a scale begins.
    fn begin(&self, index: usize) -> [usize; 2] {
        let [down, across] = self.size;
        let (matrix, row, column) = (index / (down * across), index / across % down, index % across);
        [matrix * self.rows + row * self.block[0], column * self.block[1]]
    }

    /// The scale of an element.
    fn index(&self, [row, column]: [usize; 2]) -> usize {
        let [down, across] = self.size;
        (row / self.rows * down + row % self.rows / self.block[0]) * across + column / self.block[1]
    }
}

impl<'a> Scales<'a> {
    pub(super) fn new(
        checkpoint: &'a Checkpoint,
        weight: &Weight,
        written: &WrittenWeight,
        to: DataType,
    ) -> Scales<'a> {
        let (file, at) = checkpoint.place(weight.scales.tensor);
        let [rows, columns] = weight.matrix();
        let count = weight.codes.shape.iter().rev().skip(2).product();
        let (old, new) =
            (Grid::new([count, rows, columns], weight.scales.block), Grid::new(written.matrices, written.block));
        Scales { file, at, from: weight.scales.data_type, to, old, new }
    }

    /// Whether each block keeps its scale.
    pub(super) fn is_same_grid(&self) -> bool {
        (self.old.size, self.old.count) == (self.new.size, self.new.count)
    }
}

impl Compute for Scales<'_> {
    fn compute(&self, start: usize, len: usize, scratch: &mut Scratch, out: &mut [u8]) -> Result<(), PipelineError> {
        let size = self.from.byte_len(1).unwrap_or(1);
        resize(&mut scratch.scales, len * size).ok_or_else(PipelineError::out_of_memory)?;
        if self.is_same_grid() {
            self.file.read_at(self.at + (start * size) as u64, &mut scratch.scales)?;
            return cast(self.from, &scratch.scales, self.to, len, out).map_err(PipelineError::Cast);
        }
        for (index, bytes) in (start..).zip(scratch.scales.chunks_exact_mut(size)) {
            let place = self.old.index(self.new.begin(index));
            self.file.read_at(self.at + (place * size) as u64, bytes).map_err(PipelineError::Read)?;
        }
        cast(self.from, &scratch.scales, self.to, len, out).map_err(PipelineError::Cast)
    }
}

/// Casts elements without loss.
fn cast(from: DataType, bytes: &[u8], to: DataType, len: usize, out: &mut [u8]) -> Result<(), CastError> {
    if from == to || to == DataType::Uint8 {
        out.copy_from_slice(bytes);
        return Ok(());
    }
    let plan = Cast::new(to, &CastOptions::new().threads(1))?.plan(from)?;
    plan.run_into(&TensorView::new(from, &[len], bytes)?, out)
}
