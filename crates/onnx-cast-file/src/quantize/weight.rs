//! A weight that is quantized: which of its values share a scale, how they are read, and the arithmetic of a part.

use super::QuantizeRequest;
use super::losses::Losses;
use super::scaling::{How, Scaling};
use super::values::StoredValues;
use crate::checkpoint::{Checkpoint, TensorRef};
use crate::formats::strided::transpose::transpose;
use crate::io::memory::resize;
use crate::layouts::{Granularity, Order, PANEL, QuantizedFormat, WrittenWeight};
use crate::pipeline::{Amax, CHUNK, PipelineError};
use onnx_cast::ops::OpError;
use onnx_cast::scaled::{BlockFormat, BlockQuantize};
use onnx_cast::{CastError, DataType, Tensor, TensorView};
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// A matrix that is quantized, or experts.
#[derive(Debug)]
pub(super) struct Weight<'a> {
    pub(super) values: StoredValues<'a>,
    pub(super) from: DataType,
    /// How many matrices there are, their rows and their columns. Experts are one matrix above the other, unless blocks
    /// of several rows divide each; with one scale all values are one row.
    pub(super) matrices: [usize; 3],
    pub(super) walk: Walk,
    /// The type of the elements as they are computed: in words, integers plus half their range.
    pub(super) element: DataType,
    pub(super) block: [usize; 2],
    pub(super) container: DataType,
    pub(super) scale_type: DataType,
    pub(super) how: How,
    /// The amax of each block, if a separate pass measures it.
    pub(super) amax: Option<Arc<Amax>>,
    /// Whether the scales come from those, so that they are known before the first element.
    pub(super) is_ahead: bool,
    /// Whether all matrices have the same scales.
    pub(super) shares_scales: bool,
    /// Whether scales are written beside the elements.
    pub(super) has_scales_beside: bool,
    /// Whether these scales are in tiles, and the first of two elements is in the upper half of a byte.
    pub(super) is_in_tiles: bool,
    /// The scales that are known before.
    pub(super) scales: OnceLock<Tensor>,
    /// Whether any of these scales is NaN.
    pub(super) has_nan_scales: OnceLock<bool>,
    /// Reads the weight back and compares.
    pub(super) losses: Losses,
}

/// How blocks lie among the stored values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Walk {
    /// Along the rows, or over several of them.
    Rows,
    /// Down the rows of bands.
    Bands {
        /// Whether a byte holds the elements of two rows; else elements lie as the values do.
        pairs_rows: bool,
    },
    /// Down whole columns, which are transposed to be quantized.
    Columns,
    /// Along the columns of stored matrices of these rows and columns, which are the rows of the result.
    Transposed([usize; 2]),
}

/// Rows of a matrix that share scales: the first among those of all matrices, and how many there are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Band {
    pub(super) row: usize,
    pub(super) rows: usize,
}

/// Returns the measurement that must precede quantization, for scales that cover more values than are read at once.
pub(super) fn amax(written: &WrittenWeight, from: DataType) -> Option<Amax> {
    const MOST: usize = 1 << 20;
    let [down, across] = written.block;
    match written.to {
        QuantizedFormat::Block(BlockFormat::NvFp4) => Some(Amax::of_all(from)),
        QuantizedFormat::Block(_) | QuantizedFormat::Gguf(_) => None,
        QuantizedFormat::Elements(_) if written.granularity == Granularity::Tensor => Some(Amax::of_all(from)),
        QuantizedFormat::Elements(_) => {
            let values = if down == 1 { across } else { down.saturating_mul(written.matrices[2]) };
            let is_ahead = values > MOST || written.has_scales_of_columns();
            is_ahead.then(|| Amax::of_blocks(from, written.matrices, written.block))
        }
    }
}

impl<'a> Weight<'a> {
    pub(super) fn new(
        checkpoint: &'a Checkpoint,
        tensor: TensorRef,
        written: &WrittenWeight,
        how: &QuantizeRequest,
        amax: Option<Arc<Amax>>,
    ) -> Result<Weight<'a>, OpError> {
        let (file, at) = checkpoint.place(tensor);
        let element = match (written.to, written.container) {
            (QuantizedFormat::Block(format), _) => format.element(),
            (QuantizedFormat::Elements(DataType::Int4), DataType::Int32) => DataType::Uint4,
            (QuantizedFormat::Elements(DataType::Int8), DataType::Int32) => DataType::Uint8,
            (to, _) => to.element(),
        };
        let [count, rows, columns] = written.matrices;
        let from = checkpoint.stored(tensor).data_type;
        let (rule, counts) = (how.scale_rule.unwrap_or_default(), how.run.counts());
        let how = How::new(written.arithmetic, written.to, from, rule);
        let blocks = match how {
            How::Blocks(blocks) => Some((blocks.format, blocks.recipe)),
            How::Scaled(_) => None,
        };
        let is_whole = written.granularity == Granularity::Tensor;
        let all = count * rows * columns;
        Ok(Weight {
            values: StoredValues::File(file, at),
            from,
            matrices: match written.order {
                _ if is_whole => [1, 1, all],
                Order::Same => written.matrices,
                _ => [1, count * rows, columns],
            },
            walk: match written.order {
                Order::Exchanged => Walk::Transposed([columns, rows]),
                Order::Down => Walk::Bands { pairs_rows: true },
                Order::Same if written.has_scales_of_columns() && columns <= CHUNK => Walk::Columns,
                Order::Same => Walk::Rows,
            },
            element,
            block: if is_whole { [1, all.max(1)] } else { written.block },
            container: written.container,
            scale_type: written.scale_type,
            how,
            is_ahead: amax.is_some() && matches!(how, How::Scaled(_)),
            amax,
            shares_scales: false,
            has_scales_beside: true,
            is_in_tiles: written.is_in_tiles,
            scales: OnceLock::new(),
            has_nan_scales: OnceLock::new(),
            losses: Losses::new(from, blocks, counts)?,
        })
    }

    /// Elements that are computed together, because they share a scale or a row of scales.
    pub(super) fn unit(&self) -> usize {
        let [_, rows, columns] = self.matrices;
        match (self.walk, self.block) {
            (Walk::Columns, _) => columns,
            // Scales are stored by panels of rows.
            _ if self.is_in_tiles => PANEL * columns,
            _ if self.is_ahead => 8,
            (Walk::Transposed(_), [_, block]) => block,
            (_, [1, block]) if columns.is_multiple_of(block) => block,
            (_, [block, _]) => block.min(rows) * columns,
        }
    }

    /// Bytes of so many values.
    pub(super) fn bytes(&self, len: usize) -> Result<usize, PipelineError> {
        self.from.byte_len(len).ok_or_else(PipelineError::out_of_memory)
    }

    /// Reads values from one on.
    pub(super) fn read(&self, begin: usize, values: &mut [u8]) -> Result<(), PipelineError> {
        self.values.read(self.bytes(begin)? as u64, values).map_err(PipelineError::Read)
    }

    /// Reads some rows and columns of a matrix with rows of `width` values, whose first value is `first`.
    pub(super) fn read_rows(
        &self,
        first: usize,
        width: usize,
        [rows, columns]: [usize; 2],
        values: &mut Vec<u8>,
    ) -> Result<(), PipelineError> {
        resize(values, self.bytes(rows * columns)?).ok_or_else(PipelineError::out_of_memory)?;
        // Whole rows follow each other.
        let (lines, len) = if columns == width { (1, rows * columns) } else { (rows, columns) };
        let lines = (first..).step_by(width.max(1)).take(lines);
        lines.zip(values.chunks_exact_mut(self.bytes(len)?.max(1))).try_for_each(|(at, line)| self.read(at, line))
    }

    /// The band of a value.
    pub(super) fn band(&self, at: usize) -> Band {
        let ([_, rows, columns], down) = (self.matrices, self.block[0]);
        let (matrix, row) = (at / (rows * columns), at / columns % rows);
        let begin = row / down * down;
        Band { row: matrix * rows + begin, rows: down.min(rows - begin) }
    }

    /// The same, transposed.
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
        resize(transposed, self.bytes(rows * columns)?).ok_or_else(PipelineError::out_of_memory)?;
        for row in (0..rows).step_by(ROWS) {
            self.read_rows(first + row * width, width, [ROWS.min(rows - row), columns], read)?;
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

    /// Returns the amax of the tensor, if measured.
    pub(super) fn all(&self) -> Option<f32> {
        self.amax.as_ref().map(|amax| amax.most())
    }

    /// Returns the scales that are computed from the measured amax of each block.
    pub(super) fn known_scales(&self, scaling: &Scaling) -> Result<&Tensor, CastError> {
        if let Some(scales) = self.scales.get() {
            return Ok(scales);
        }
        let amax = self.amax.as_ref().map_or(&[][..], |amax| amax.values());
        let (grid, shared);
        let amax = if self.shares_scales {
            grid = self.grid();
            let of_matrix = grid[1] * grid[2];
            let most = |at| amax[at..].iter().step_by(of_matrix).copied().fold(0.0, f32::max);
            shared = (0..of_matrix).map(most).collect::<Vec<f32>>().repeat(grid[0]);
            &shared
        } else {
            amax
        };
        let scales = scaling.scales(amax, &self.grid(), self.all())?;
        Ok(self.scales.get_or_init(|| scales))
    }

    /// Finds scales from one on, of blocks whose values it reads.
    pub(super) fn find_scales(
        &self,
        scaling: &Scaling,
        range: Range<usize>,
        values: &mut Vec<u8>,
        mut out: &mut [u8],
    ) -> Result<(), PipelineError> {
        let ([_, rows, columns], [down, across], [_, bands, blocks]) = (self.matrices, self.block, self.grid());
        let mut at = range.start;
        while at < range.end {
            let (line, block, left) = (at / blocks, at % blocks, range.end - at);
            let row = line / bands * rows + line % bands * down;
            // Rows that are bands follow each other.
            let (lines, count) = if down == 1 && block == 0 && left >= blocks {
                (left / blocks, blocks)
            } else {
                (1, left.min(blocks - block))
            };
            let column = block * across;
            let height = if down == 1 { lines } else { down.min(rows - line % bands * down) };
            let shape = [height, (count * across).min(columns - column)];
            self.read_rows(row * columns + column, columns, shape, values)?;
            let found = || {
                let x = TensorView::new(self.from, &shape, values)?;
                let amax = scaling.amax(&x, self.block, &self.losses)?;
                scaling.scales(&amax, &[lines * count], self.all())
            };
            let scales = found().map_err(PipelineError::Cast)?;
            let scales = scales.bytes().unwrap_or_default();
            out.split_off_mut(..scales.len()).ok_or_else(PipelineError::out_of_memory)?.copy_from_slice(scales);
            at += lines * count;
        }
        Ok(())
    }

    /// How many scales there are: of matrices, down and across.
    fn grid(&self) -> [usize; 3] {
        let ([count, rows, columns], [down, across]) = (self.matrices, self.block);
        [count, rows.div_ceil(down), columns.div_ceil(across)]
    }

    /// Quantizes values, of which the first is the tensor's value `first`, and returns the scales of their blocks
    /// unless they are known.
    pub(super) fn quantize(&self, first: usize, len: usize, src: &[u8], out: &mut [u8]) -> Result<Vec<u8>, CastError> {
        let scaling = match &self.how {
            How::Blocks(blocks) => return self.blocks(&blocks.quantize, len, src, out),
            How::Scaled(scaling) => scaling,
        };
        let [_, _, columns] = self.matrices;
        if self.walk == Walk::Columns {
            let rows = len / columns;
            let matrix = first / (self.matrices[1] * columns);
            let width = self.scale_type.byte_len(columns).unwrap_or(0);
            let scales = self.known_scales(scaling)?.bytes().unwrap_or_default();
            let scales = scales.get(matrix * width..(matrix + 1) * width).unwrap_or_default();
            let grid = [columns, 1];
            let scales = TensorView::new(self.scale_type, &grid, scales)?;
            self.linear(scaling, (&[columns, rows], [1, rows.max(1)]), &scales, 0..len, src, out)?;
            return Ok(Vec::new());
        }
        if self.is_ahead {
            let scales = self.known_scales(scaling)?.view();
            let part = first..first + len;
            self.linear(scaling, (&self.matrices, self.block), &scales, part.clone(), src, out)?;
            if *self.has_nan_scales.get_or_init(|| scaling.has_nan_scales(scales.bytes().unwrap_or_default())) {
                self.clear_nan(scaling, &scales, (&self.matrices, self.block), part, out);
            }
            return Ok(Vec::new());
        }
        // Blocks within rows make a matrix of their own; blocks of several rows are those of whole rows.
        let (shape, block) = match self.block {
            [1, block] if columns.is_multiple_of(block) => ([len / block, block], [1, block]),
            block => ([len / columns.max(1), columns], block),
        };
        self.found(scaling, (&shape, block), src, out)
    }

    /// Quantizes whole blocks by the scales that it finds and returns.
    pub(super) fn found(
        &self,
        scaling: &Scaling,
        (shape, block): (&[usize; 2], [usize; 2]),
        src: &[u8],
        out: &mut [u8],
    ) -> Result<Vec<u8>, CastError> {
        let amax = scaling.amax(&TensorView::new(self.from, shape, src)?, block, &self.losses)?;
        let grid = [shape[0].div_ceil(block[0]), shape[1].div_ceil(block[1])];
        let scales = scaling.scales(&amax, &grid, self.all())?;
        let part = 0..shape[0] * shape[1];
        self.linear(scaling, (shape, block), &scales.view(), part.clone(), src, out)?;
        if scaling.has_nan_scales(scales.bytes().unwrap_or_default()) {
            self.clear_nan(scaling, &scales.view(), (shape, block), part, out);
        }
        Ok(scales.bytes().unwrap_or_default().to_vec())
    }

    /// Quantizes whole blocks of a block format, and returns their scales.
    fn blocks(&self, quantize: &BlockQuantize, len: usize, src: &[u8], out: &mut [u8]) -> Result<Vec<u8>, CastError> {
        let block = self.block[0].max(self.block[1]);
        let shape = [len / block, block];
        let x = TensorView::new(self.from, &shape, src)?;
        let mut scales = vec![0; len / block];
        let amax = self.all();
        let global = quantize.amax(amax).run_into(&x, out, &mut scales)?;
        if self.losses.are_in_blocks(&scales, amax) {
            self.losses.of_blocks(self.from, src, out, &scales, global)?;
        }
        Ok(scales)
    }

    /// Quantizes a part of a tensor by scales of its blocks.
    fn linear(
        &self,
        scaling: &Scaling,
        (shape, block): (&[usize], [usize; 2]),
        scales: &TensorView<'_>,
        part: Range<usize>,
        src: &[u8],
        out: &mut [u8],
    ) -> Result<(), CastError> {
        let to = self.element;
        let [plan, back] = scaling.plans([self.from, to], block, self.all())?;
        let middle = match to {
            DataType::Uint4 => Some(vec![0x88; scales.len().div_ceil(2)]),
            DataType::Uint8 => Some(vec![0x80; scales.len()]),
            _ => None,
        };
        let zero_points = middle.as_deref().map(|middle| TensorView::new(to, scales.shape(), middle)).transpose()?;
        let bound = plan.bind(shape, scales, zero_points.as_ref())?;
        bound.run_part(part.start, part.len(), src, out)?;
        if self.losses.are_in(self.from, src) {
            let back = back.bind(shape, scales, zero_points.as_ref())?;
            self.losses.of_elements(&back, part.start, [self.from, to], src, out)?;
        }
        Ok(())
    }

    /// Sets the elements of blocks with NaN scales to 0.
    fn clear_nan(
        &self,
        scaling: &Scaling,
        scales: &TensorView<'_>,
        (shape, block): (&[usize], [usize; 2]),
        part: Range<usize>,
        out: &mut [u8],
    ) {
        let (Some(codes), &[.., rows, columns]) = (scales.bytes(), shape) else { return };
        let [bands, blocks] = [rows.div_ceil(block[0]), columns.div_ceil(block[1])];
        for (at, value) in part.enumerate() {
            let (matrix, row, column) = (value / columns / rows, value / columns % rows, value % columns);
            let place = (matrix * bands + row / block[0]) * blocks + column / block[1];
            if codes.get(place) == Some(&scaling.nan_scale()) {
                match self.element.bits() {
                    Some(4) => out[at / 2] &= if at % 2 == 0 { 0xf0 } else { 0x0f },
                    _ => out[at] = 0,
                }
            }
        }
    }
}
