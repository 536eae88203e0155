//! A weight that is quantized: which of its values share a scale, how they are read, and the arithmetic of a part.

use super::QuantizeRequest;
use super::losses::Losses;
use super::numbers::Numbers;
use crate::io::memory::resize;
use crate::io::positional::InputFile;
use crate::layouts::{Checkpoint, Granularity, Order, QuantizedFormat, TensorRef, WrittenWeight, transpose};
use crate::pipeline::{Greatest, PipelineError};
use onnx_cast::{
    BlockFormat, BlockPlan, BlockQuantize, CastError, DataType, OpError, SymmetricScale, Tensor, TensorView,
    greatest_magnitudes,
};
use std::io;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// Values that are read at once.
pub(super) const PART: usize = 1 << 18;

/// A matrix that is quantized, or experts.
#[derive(Debug)]
pub(super) struct Weight<'a> {
    file: &'a InputFile,
    at: u64,
    from: DataType,
    /// How many matrices there are, their rows and their columns. Experts are one matrix above the other, unless blocks
    /// of several rows divide each; with one scale all values are one row.
    pub(super) matrices: [usize; 3],
    pub(super) walk: Walk,
    to: QuantizedFormat,
    pub(super) block: [usize; 2],
    pub(super) container: DataType,
    pub(super) scale_type: DataType,
    pub(super) how: How,
    /// The greatest magnitudes, where a pass over the tensor finds them first.
    pub(super) greatest: Option<Arc<Greatest>>,
    /// The scales, where they come from those.
    scales: OnceLock<Tensor>,
    /// Reads the weight back and compares.
    pub(super) losses: Losses,
}

/// How values are quantized.
#[derive(Clone, Copy, Debug)]
pub(super) enum How {
    /// To a block format.
    Blocks(BlockQuantize),
    /// By scales of float, or of the weight's type.
    Linear(SymmetricScale),
}

/// How blocks lie among the stored values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Walk {
    /// Along the rows, or over several of them.
    Rows,
    /// Down so many rows, which are transposed to be quantized.
    Bands(usize),
    /// Down whole columns, likewise.
    Columns,
    /// Along the columns of stored matrices of these rows and columns, which are the rows of the result.
    Transposed([usize; 2]),
}

/// The greatest magnitudes that have to be known before the first element of a weight: where a scale is for more values
/// than are read at once.
pub(super) fn greatest(written: &WrittenWeight, from: DataType) -> Option<Greatest> {
    const MOST: usize = 1 << 20;
    let [down, across] = written.block;
    match written.to {
        QuantizedFormat::Block(BlockFormat::NvFp4) => Some(Greatest::of_all(from)),
        QuantizedFormat::Block(_) | QuantizedFormat::Gguf(_) => None,
        QuantizedFormat::Elements(_) if written.granularity == Granularity::Tensor => Some(Greatest::of_all(from)),
        QuantizedFormat::Elements(_) => {
            let values = if down == 1 { across } else { down.saturating_mul(written.matrices[2]) };
            let is_ahead = values > MOST || written.has_scales_of_columns();
            is_ahead.then(|| Greatest::of_blocks(from, written.matrices, written.block))
        }
    }
}

impl<'a> Weight<'a> {
    pub(super) fn new(
        checkpoint: &'a Checkpoint,
        tensor: TensorRef,
        written: &WrittenWeight,
        how: &QuantizeRequest,
        greatest: Option<Arc<Greatest>>,
    ) -> Result<Weight<'a>, OpError> {
        let (file, at) = checkpoint.place(tensor);
        let [count, rows, columns] = written.matrices;
        let from = checkpoint.stored(tensor).data_type;
        let (rule, counts) = (how.rule, how.run.counts());
        let (how, blocks) = match Numbers::new(written.arithmetic, written.to, from) {
            Numbers::Blocks(format, recipe) => {
                let quantize = BlockQuantize::new(format).rule(rule).recipe(recipe).threads(1);
                (How::Blocks(quantize), Some((format, recipe)))
            }
            Numbers::Linear(scale) => (How::Linear(scale), None),
        };
        let is_whole = written.granularity == Granularity::Tensor;
        let all = count * rows * columns;
        Ok(Weight {
            file,
            at,
            from,
            matrices: match written.order {
                _ if is_whole => [1, 1, all],
                Order::Same => written.matrices,
                _ => [1, count * rows, columns],
            },
            walk: match written.order {
                Order::Exchanged => Walk::Transposed([columns, rows]),
                Order::Down => Walk::Bands(written.block[0]),
                Order::Same if written.has_scales_of_columns() && columns <= PART => Walk::Columns,
                Order::Same => Walk::Rows,
            },
            to: written.to,
            block: if is_whole { [1, all.max(1)] } else { written.block },
            container: written.container,
            scale_type: written.scale_type,
            how,
            greatest,
            scales: OnceLock::new(),
            losses: Losses::new(from, blocks, counts)?,
        })
    }

    /// The type of the elements as they are computed: in words, integers plus half their range.
    pub(super) fn element_type(&self) -> DataType {
        match (self.to, self.container) {
            (QuantizedFormat::Block(format), _) => format.element(),
            (QuantizedFormat::Elements(DataType::Int4), DataType::Int32) => DataType::Uint4,
            (QuantizedFormat::Elements(DataType::Int8), DataType::Int32) => DataType::Uint8,
            (QuantizedFormat::Elements(data_type), _) => data_type,
            (QuantizedFormat::Gguf(_), _) => self.to.element(),
        }
    }

    /// Whether the scales are known before the first element.
    pub(super) fn is_ahead(&self) -> bool {
        self.greatest.is_some() && matches!(self.how, How::Linear(_))
    }

    /// Elements that are computed together, because they share a scale or a row of scales.
    pub(super) fn unit(&self) -> usize {
        let [_, rows, columns] = self.matrices;
        match (self.walk, self.block) {
            (Walk::Columns, _) => columns,
            _ if self.is_ahead() => 8,
            (Walk::Transposed(_), [_, block]) => block,
            (_, [1, block]) if columns.is_multiple_of(block) => block,
            (_, [block, _]) => block.min(rows) * columns,
        }
    }

    /// Bytes of so many values.
    pub(super) fn bytes(&self, len: usize) -> Result<usize, PipelineError> {
        self.from.byte_len(len).ok_or_else(no_room)
    }

    /// Reads values from one on.
    pub(super) fn read(&self, begin: usize, values: &mut [u8]) -> Result<(), PipelineError> {
        self.file.read_at(self.at + self.bytes(begin)? as u64, values).map_err(PipelineError::Read)
    }

    /// Reads some rows and columns of a matrix with rows of `width` values, whose first value is `first`, transposed.
    pub(super) fn read_columns(
        &self,
        first: usize,
        width: usize,
        [rows, columns]: [usize; 2],
        read: &mut Vec<u8>,
        transposed: &mut Vec<u8>,
    ) -> Result<(), PipelineError> {
        /// Rows that are read before they are transposed, within the nearer caches.
        const ROWS: usize = 64;
        resize(transposed, self.bytes(rows * columns)?).ok_or_else(no_room)?;
        for row in (0..rows).step_by(ROWS) {
            let count = ROWS.min(rows - row);
            resize(read, self.bytes(count * columns)?).ok_or_else(no_room)?;
            // Whole rows follow each other.
            let (lines, len) = if columns == width { (1, count * columns) } else { (count, columns) };
            let lines = (first + row * width..).step_by(width).take(lines);
            for (at, line) in lines.zip(read.chunks_exact_mut(self.bytes(len)?)) {
                self.read(at, line)?;
            }
            self.transpose(read, columns, &mut transposed[self.bytes(row)?..], rows);
        }
        Ok(())
    }

    /// Transposes rows of so many values into rows of `height` values.
    pub(super) fn transpose(&self, values: &[u8], columns: usize, out: &mut [u8], height: usize) {
        match self.from.bits() {
            Some(16) => transpose::<2>(values, columns, columns, out, height),
            _ => transpose::<4>(values, columns, columns, out, height),
        }
    }

    /// The scales that come from greatest magnitudes that are known.
    pub(super) fn known_scales(&self, scale: &SymmetricScale) -> Result<&Tensor, CastError> {
        if let Some(scales) = self.scales.get() {
            return Ok(scales);
        }
        let greatest = self.greatest.as_ref().map_or(&[][..], |greatest| greatest.values());
        let scales = scale.scales(greatest, &self.grid())?;
        Ok(self.scales.get_or_init(|| scales))
    }

    /// How many scales there are: of matrices, down and across.
    fn grid(&self) -> [usize; 3] {
        let ([count, rows, columns], [down, across]) = (self.matrices, self.block);
        [count, rows.div_ceil(down), columns.div_ceil(across)]
    }

    /// Quantizes values, of which the first is the tensor's value `first`, and returns the scales of their blocks
    /// unless they are known.
    pub(super) fn quantize(&self, first: usize, len: usize, src: &[u8], out: &mut [u8]) -> Result<Vec<u8>, CastError> {
        let scale = match &self.how {
            How::Blocks(quantize) => return self.blocks(quantize, len, src, out),
            How::Linear(scale) => scale,
        };
        let [_, _, columns] = self.matrices;
        if self.walk == Walk::Columns {
            let rows = len / columns;
            let matrix = first / (self.matrices[1] * columns);
            let width = self.scale_type.byte_len(columns).unwrap_or(0);
            let scales = self.known_scales(scale)?.bytes().unwrap_or_default();
            let scales = scales.get(matrix * width..(matrix + 1) * width).unwrap_or_default();
            let grid = [columns, 1];
            let scales = TensorView::new(self.scale_type, &grid, scales)?;
            self.linear(scale, (&[columns, rows], [1, rows.max(1)]), &scales, 0..len, src, out)?;
            return Ok(Vec::new());
        }
        if self.is_ahead() {
            let scales = self.known_scales(scale)?.view();
            self.linear(scale, (&self.matrices, self.block), &scales, first..first + len, src, out)?;
            return Ok(Vec::new());
        }
        // Blocks within rows make a matrix of their own; blocks of several rows are those of whole rows.
        let (shape, block) = match self.block {
            [1, block] if columns.is_multiple_of(block) => ([len / block, block], [1, block]),
            block => ([len / columns.max(1), columns], block),
        };
        let greatest = greatest_magnitudes(&TensorView::new(self.from, &shape, src)?, block)?;
        let scales = scale.scales(&greatest, &[shape[0].div_ceil(block[0]), shape[1].div_ceil(block[1])])?;
        self.linear(scale, (&shape, block), &scales.view(), 0..len, src, out)?;
        Ok(scales.bytes().unwrap_or_default().to_vec())
    }

    /// Quantizes whole blocks of a block format, and returns their scales.
    fn blocks(&self, quantize: &BlockQuantize, len: usize, src: &[u8], out: &mut [u8]) -> Result<Vec<u8>, CastError> {
        let block = self.block[0].max(self.block[1]);
        let shape = [len / block, block];
        let x = TensorView::new(self.from, &shape, src)?;
        let mut scales = vec![0; len / block];
        let greatest = self.greatest.as_ref().map(|greatest| greatest.first());
        let global = quantize.greatest(greatest).run_into(&x, out, &mut scales)?;
        if self.losses.are_in_blocks(&scales, greatest) {
            self.losses.of_blocks(self.from, src, out, &scales, global)?;
        }
        Ok(scales)
    }

    /// Quantizes a part of a tensor by scales of its blocks.
    fn linear(
        &self,
        scale: &SymmetricScale,
        (shape, block): (&[usize], [usize; 2]),
        scales: &TensorView<'_>,
        part: Range<usize>,
        src: &[u8],
        out: &mut [u8],
    ) -> Result<(), CastError> {
        let to = self.element_type();
        let plan = scale.plan(self.from, to, block)?;
        let middle = match to {
            DataType::Uint4 => Some(vec![0x88; scales.len().div_ceil(2)]),
            DataType::Uint8 => Some(vec![0x80; scales.len()]),
            _ => None,
        };
        let zero_points = middle.as_deref().map(|middle| TensorView::new(to, scales.shape(), middle)).transpose()?;
        let bound = plan.bind(shape, scales, zero_points.as_ref())?;
        bound.run_part(part.start, part.len(), src, out)?;
        if self.losses.are_in(self.from, src) {
            let back = BlockPlan::dequantize(to, self.scale_type, DataType::Float, block)?;
            let back = back.bind(shape, scales, zero_points.as_ref())?;
            self.losses.of_elements(&back, part.start, [self.from, to], src, out)?;
        }
        Ok(())
    }
}

pub(super) fn no_room() -> PipelineError {
    PipelineError::Read(io::ErrorKind::OutOfMemory.into())
}
