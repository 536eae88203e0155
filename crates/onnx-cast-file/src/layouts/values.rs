//! The values of a weight, computed part by part in the memory of a part.
//!
//! The scales of a part are read with it: they follow each other in their tensor, because rows of blocks do.

mod arithmetic;
mod by_columns;
mod by_groups;
mod coded;
mod parted;
mod swizzled;
mod transposed;

use super::packed_ints::{code_down, unpack_row, words};
use super::weight::{Encoding, Grid, Weight};
use crate::checkpoint::{Checkpoint, TensorRef};
use crate::io::memory::resize;
use crate::io::positional::InputFile;
use crate::pipeline::{CHUNK, Compute, PipelineError, Scratch, columns_at_once};
use by_columns::ByColumns;
use coded::Coded;
use onnx_cast::packing::pack;
use onnx_cast::scaled::BlockPlan;
use onnx_cast::tensor::TensorError;
use onnx_cast::{CastError, DataType, TensorView};
use parted::Parted;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use swizzled::Swizzled;
use transposed::TransposedColumns;

/// The values of a weight, as float, float16 or bfloat16.
#[derive(Debug)]
pub(crate) struct WeightValues<'a> {
    pub(super) weight: Arc<Weight>,
    pub(super) to: DataType,
    elements: TensorBytes<'a>,
    scales: TensorBytes<'a>,
    zero_points: Option<TensorBytes<'a>>,
    /// The group of each column.
    groups: Vec<u32>,
    /// Where the values are transposed.
    transposed: Option<Box<TransposedColumns>>,
    /// Where all tensors have rows and columns exchanged.
    by_columns: Option<Box<ByColumns>>,
    /// Where the scales are in cuBLAS's order.
    swizzled: Option<Swizzled>,
    /// Where elements have arithmetic of their own.
    coded: Option<Coded<'a>>,
    /// Where words have elements of several parts.
    parted: Option<Parted<'a>>,
    /// How many values were computed.
    done: AtomicUsize,
}

/// Where bytes of a tensor are.
#[derive(Clone, Copy, Debug)]
struct TensorBytes<'a> {
    file: &'a InputFile,
    at: u64,
}

impl TensorBytes<'_> {
    /// Reads bytes from a place of the tensor.
    fn read(&self, at: usize, len: usize, bytes: &mut Vec<u8>) -> Result<(), PipelineError> {
        resize(bytes, len).ok_or_else(PipelineError::out_of_memory)?;
        self.read_into(at, bytes)
    }

    fn read_into(&self, at: usize, bytes: &mut [u8]) -> Result<(), PipelineError> {
        self.file.read_at(self.at + at as u64, bytes).map_err(PipelineError::Read)
    }
}

/// Rows of a matrix from the first of a block, and a stretch of their elements.
pub(super) struct Stretch {
    /// Which matrix.
    matrix: usize,
    /// The first row, which begins a block.
    row: usize,
    rows: usize,
    /// The elements behind the first row's first one.
    pub(super) elements: Range<usize>,
}

impl<'a> WeightValues<'a> {
    pub(crate) fn new(checkpoint: &'a Checkpoint, weight: &Arc<Weight>, to: DataType) -> Result<Self, PipelineError> {
        let place = |tensor: TensorRef| {
            let (file, at) = checkpoint.place(tensor);
            TensorBytes { file, at }
        };
        let groups = weight.groups.map(|groups| groups.numbers(checkpoint, weight)).transpose();
        let groups = groups.map_err(PipelineError::Read)?.unwrap_or_default();
        let (elements, scales) = (place(weight.codes.tensor), place(weight.scales.tensor));
        let zero_points = weight.zero_points.and_then(|zero_points| zero_points.tensor()).map(place);
        let transposed = weight.codes.transposed.then(|| Box::new(TransposedColumns::new(weight)));
        let swizzled = (weight.scales.order == Grid::Tiles).then(|| Swizzled::new(weight));
        let coded = match weight.codes.encoding {
            Encoding::Coded(coding) => {
                let nested = weight.scales.nested.as_ref().map(|nested| place(nested.scales));
                Some(Coded::new(weight, coding, to, scales, weight.scales.biases.map(place), nested))
            }
            _ => None,
        };
        let parted = match weight.codes.encoding {
            Encoding::Parts(parts) => Some(Parted::new(weight, parts, to, scales, weight.scales.biases.map(place))),
            _ => None,
        };
        let by_columns = ByColumns::of(weight).map(Box::new);
        let done = AtomicUsize::new(0);
        Ok(WeightValues {
            weight: Arc::clone(weight),
            to,
            elements,
            scales,
            zero_points,
            groups,
            transposed,
            by_columns,
            swizzled,
            coded,
            parted,
            done,
        })
    }

    /// Computes values from one on, which belong to stretches of matrices.
    fn stretches(&self, start: usize, len: usize, scratch: &mut Scratch, out: &mut [u8]) -> Result<(), PipelineError> {
        let [rows, columns] = self.weight.matrix();
        let size = self.to.byte_len(1).unwrap_or(1);
        let (mut at, end) = (start, start + len);
        let mut out = out;
        while at < end {
            let matrix = at / (rows * columns);
            let first = matrix * rows * columns;
            let stop = end.min(first + rows * columns);
            // Rows are counted from one that begins a block.
            let row = (at - first) / columns / self.weight.scales.block[0] * self.weight.scales.block[0];
            let base = first + row * columns;
            let stretch =
                Stretch { matrix, row, rows: (stop - base).div_ceil(columns), elements: at - base..stop - base };
            let (part, rest) = std::mem::take(&mut out).split_at_mut((stop - at) * size);
            self.stretch(&stretch, scratch, part)?;
            (at, out) = (stop, rest);
        }
        Ok(())
    }

    /// Computes a stretch of a matrix.
    pub(super) fn stretch(
        &self,
        stretch: &Stretch,
        scratch: &mut Scratch,
        out: &mut [u8],
    ) -> Result<(), PipelineError> {
        let weight = &*self.weight;
        let [_, columns] = weight.matrix();
        let [_, across] = weight.grid();
        let size = scale_size(weight);
        let scale_rows = stretch.rows.div_ceil(weight.scales.block[0]);
        let first = self.first_scale(stretch);
        self.read_scales(first..first + scale_rows, &mut scratch.scales)?;
        let from = self.read_elements(stretch, scratch)?;
        self.read_zero_points(stretch, scale_rows, scratch)?;
        if self.has_tables() {
            return self.by_groups(stretch, from, scratch, out);
        }
        let (mut block, mut grid) = (weight.scales.block, [scale_rows, across]);
        if !self.groups.is_empty() {
            // Each column has its own group, so that each element has its own scale.
            (block, grid) = ([1, 1], [scale_rows, columns]);
            self.by_column(size, &mut scratch.scales, &mut scratch.results)?;
            if !scratch.zero_points.is_empty() {
                self.by_column(1, &mut scratch.zero_points, &mut scratch.results)?;
            }
        }
        let bytes = if from == weight.element_type() { &scratch.elements } else { &scratch.codes };
        let failed = |error: CastError| PipelineError::Cast(error);
        let tensor = |error: TensorError| PipelineError::Cast(error.into());
        let plan = self.plan(stretch, from, block)?;
        let scale = TensorView::new(weight.scales.data_type, &grid, &scratch.scales).map_err(tensor)?;
        let zero_points = match &scratch.zero_points[..] {
            [] => None,
            bytes => Some(TensorView::new(from, &grid, bytes).map_err(tensor)?),
        };
        let bound = plan.bind(&[stretch.rows, columns], &scale, zero_points.as_ref()).map_err(failed)?;
        bound.run_part(stretch.elements.start, stretch.elements.len(), bytes, out).map_err(failed)
    }

    /// How elements and scales become values, in blocks.
    fn plan(&self, stretch: &Stretch, from: DataType, block: [usize; 2]) -> Result<BlockPlan, PipelineError> {
        let weight = &*self.weight;
        let plan = BlockPlan::dequantize(from, weight.scales.data_type, self.to, block);
        let plan = plan.map_err(|error| PipelineError::Cast(error.into()))?;
        Ok(plan.global_scale(weight.scales.globals.get(stretch.matrix).or(weight.scales.globals.first()).copied()))
    }

    /// Reads some rows of scales.
    fn read_scales(&self, rows: Range<usize>, scales: &mut Vec<u8>) -> Result<(), PipelineError> {
        let ([_, across], size) = (self.weight.grid(), scale_size(&self.weight));
        if let Some(swizzled) = &self.swizzled {
            return swizzled.read(rows, self.scales, scales);
        }
        match (&self.by_columns, self.weight.scales.order) {
            (Some(stored), _) => self.scales_by_columns(stored, rows, scales),
            (None, Grid::Padded(padded)) => {
                self.scales.read(rows.start * padded * size, rows.len() * padded * size, scales)?;
                for row in 0..rows.len() {
                    let from = row * padded * size;
                    scales.copy_within(from..from + across * size, row * across * size);
                }
                scales.truncate(rows.len() * across * size);
                Ok(())
            }
            (None, Grid::Joined(ends)) => {
                let (mut each, [all, _]) = (Vec::new(), self.weight.matrix());
                let parts = ends.iter().take_while(|&&end| end < all).count() + 1;
                self.scales.read(0, parts * size, &mut each)?;
                scales.clear();
                scales.try_reserve_exact(rows.len() * size).map_err(|_| PipelineError::out_of_memory())?;
                for row in rows {
                    let part = ends.iter().position(|&end| row < end).unwrap_or(0);
                    scales.extend_from_slice(&each[part * size..][..size]);
                }
                Ok(())
            }
            (None, _) => self.scales.read(rows.start * across * size, rows.len() * across * size, scales),
        }
    }

    /// The row of scales at which a stretch begins.
    fn first_scale(&self, stretch: &Stretch) -> usize {
        stretch.matrix * self.weight.grid()[0] + stretch.row / self.weight.scales.block[0]
    }

    /// Reads the elements of a stretch, and returns the type that they are read as.
    fn read_elements(&self, stretch: &Stretch, scratch: &mut Scratch) -> Result<DataType, PipelineError> {
        let [rows, columns] = self.weight.matrix();
        let start = (stretch.matrix * rows + stretch.row) * columns + stretch.elements.start;
        match self.weight.codes.encoding {
            Encoding::Plain(data_type) => {
                let at = data_type.byte_len(start).unwrap_or(0);
                let len = data_type.byte_len(stretch.elements.len()).unwrap_or(0);
                self.elements.read(at, len, &mut scratch.elements)?;
                Ok(data_type)
            }
            // Rows are whole blocks, and parts begin at even elements.
            Encoding::HighFirst => {
                self.elements.read(start / 2, stretch.elements.len().div_ceil(2), &mut scratch.elements)?;
                scratch.elements.iter_mut().for_each(|byte| *byte = byte.rotate_left(4));
                Ok(DataType::Float4E2M1)
            }
            // Computed elsewhere: these have no elements without their scales.
            Encoding::Coded(_) | Encoding::Parts(_) => Ok(self.weight.element_type()),
            Encoding::TwoRows(data_type) => {
                let lines = start / columns / 2..(start + stretch.elements.len()).div_ceil(columns).div_ceil(2);
                self.elements.read(lines.start * columns, lines.len() * columns, &mut scratch.codes)?;
                resize(&mut scratch.results, 2 * lines.len() * columns).ok_or_else(PipelineError::out_of_memory)?;
                let pairs = scratch.results.chunks_exact_mut(2 * columns);
                for (codes, pair) in scratch.codes.chunks_exact(columns).zip(pairs) {
                    let (upper, lower) = pair.split_at_mut(columns);
                    upper.iter_mut().zip(codes).for_each(|(code, byte)| *code = byte & 15);
                    lower.iter_mut().zip(codes).for_each(|(code, byte)| *code = byte >> 4);
                }
                let skipped = start - 2 * lines.start * columns;
                let codes = &scratch.results[skipped..skipped + stretch.elements.len()];
                resize(&mut scratch.elements, data_type.byte_len(codes.len()).unwrap_or(0))
                    .ok_or_else(PipelineError::out_of_memory)?;
                pack(data_type, codes, &mut scratch.elements).map_err(|_| PipelineError::out_of_memory())?;
                Ok(data_type)
            }
            Encoding::Columns { .. } => {
                if let Some(stored) = &self.by_columns {
                    self.elements_by_columns(stored, start, stretch.elements.len(), scratch)?;
                }
                Ok(DataType::Uint8)
            }
            Encoding::Words { bits, straddle } => {
                let row_bytes = 4 * words(columns, bits, straddle);
                let lines = start / columns..(start + stretch.elements.len()).div_ceil(columns);
                self.elements.read(lines.start * row_bytes, lines.len() * row_bytes, &mut scratch.elements)?;
                resize(&mut scratch.codes, stretch.elements.len()).ok_or_else(PipelineError::out_of_memory)?;
                let mut rest = &mut scratch.codes[..];
                let mut column = start % columns;
                for row in scratch.elements.chunks_exact(row_bytes) {
                    let (codes, behind) = rest.split_at_mut((columns - column).min(rest.len()));
                    unpack_row(row, column, bits, straddle, codes);
                    (rest, column) = (behind, 0);
                }
                Ok(DataType::Uint8)
            }
        }
    }

    /// Reads the zero points of a stretch, one for each scale; none where they are all 0.
    fn read_zero_points(
        &self,
        stretch: &Stretch,
        scale_rows: usize,
        scratch: &mut Scratch,
    ) -> Result<(), PipelineError> {
        let [_, across] = self.weight.grid();
        let count = scale_rows * across;
        let first = self.first_scale(stretch);
        scratch.zero_points.clear();
        if let (Grid::Padded(padded), Some(place)) = (self.weight.scales.order, self.zero_points) {
            return self.padded_zero_points(place, first..first + scale_rows, padded, scratch);
        }
        let constant = self.weight.zero_points.and_then(|zero_points| zero_points.constant());
        match (self.weight.codes.encoding, self.zero_points) {
            (Encoding::Coded(_) | Encoding::Parts(_), _) => Ok(()),
            (Encoding::Plain(data_type), None) if let Some(code) = constant => {
                let (codes, len) = (vec![code; count], data_type.byte_len(count).unwrap_or(0));
                resize(&mut scratch.zero_points, len).ok_or_else(PipelineError::out_of_memory)?;
                pack(data_type, &codes, &mut scratch.zero_points).map_err(|_| PipelineError::out_of_memory())
            }
            (Encoding::Plain(_) | Encoding::TwoRows(_) | Encoding::HighFirst, None) => Ok(()),
            (Encoding::Plain(_) | Encoding::TwoRows(_) | Encoding::HighFirst, Some(place)) => {
                place.read(first * across, count, &mut scratch.zero_points)
            }
            (Encoding::Columns { .. }, _) => match &self.by_columns {
                Some(stored) => self.zero_points_by_columns(stored, first..first + scale_rows, scratch),
                None => Ok(()),
            },
            (Encoding::Words { bits, .. }, None) => {
                resize(&mut scratch.zero_points, count).ok_or_else(PipelineError::out_of_memory)?;
                scratch.zero_points.fill(1 << (bits - 1));
                Ok(())
            }
            (Encoding::Words { bits, straddle }, Some(place)) => {
                // Packed down the rows: a row of words holds the zero points of several rows.
                let each = 32 / bits as usize;
                let passed = if straddle { 0 } else { first / each };
                let all = words(first + scale_rows, bits, straddle);
                let mut packed = Vec::new();
                place.read(4 * passed * across, 4 * (all - passed) * across, &mut packed)?;
                resize(&mut scratch.zero_points, count).ok_or_else(PipelineError::out_of_memory)?;
                for (row, line) in scratch.zero_points.chunks_exact_mut(across.max(1)).enumerate() {
                    for (column, zero_point) in line.iter_mut().enumerate() {
                        *zero_point = code_down(&packed, across, column, first + row - passed * each, bits, straddle);
                    }
                }
                Ok(())
            }
        }
    }

    /// The elements of a weight of integers as int8, from one on.
    pub(crate) fn integers(
        &self,
        start: usize,
        len: usize,
        scratch: &mut Scratch,
        out: &mut [u8],
    ) -> Result<(), PipelineError> {
        let [rows, columns] = self.weight.matrix();
        let row = start / columns.max(1);
        let begin = start - row * columns;
        let stretch = Stretch { matrix: 0, row, rows: rows - row, elements: begin..begin + len };
        match self.read_elements(&stretch, scratch)? {
            DataType::Uint8 => subtract(self.middle(), &scratch.codes, out),
            _ => out.copy_from_slice(&scratch.elements),
        }
        Ok(())
    }

    /// The zero points of a weight of integers as int8, from one on.
    pub(crate) fn zero_points(
        &self,
        start: usize,
        len: usize,
        scratch: &mut Scratch,
        out: &mut [u8],
    ) -> Result<(), PipelineError> {
        let [_, across] = self.grid();
        let (first, end) = (start / across.max(1), (start + len).div_ceil(across.max(1)));
        let [down, _] = self.weight.scales.block;
        let stretch = Stretch { matrix: 0, row: first * down, rows: (end - first) * down, elements: 0..0 };
        self.read_zero_points(&stretch, end - first, scratch)?;
        let skipped = start - first * across;
        subtract(self.middle(), &scratch.zero_points[skipped..skipped + len], out);
        Ok(())
    }

    /// How many scales a matrix has down and across.
    pub(crate) fn grid(&self) -> [usize; 2] {
        self.weight.grid()
    }

    /// What integers in words have more than those that they stand for.
    fn middle(&self) -> u8 {
        match self.weight.codes.encoding {
            Encoding::Words { bits, .. } => 1 << (bits - 1),
            _ => 0,
        }
    }
}

/// Integers less the middle of their range, as int8.
fn subtract(middle: u8, codes: &[u8], out: &mut [u8]) {
    out.iter_mut().zip(codes).for_each(|(out, code)| *out = code.wrapping_sub(middle));
}

/// Bytes of a scale.
pub(super) fn scale_size(weight: &Weight) -> usize {
    weight.scales.data_type.byte_len(1).unwrap_or(1)
}

impl Compute for WeightValues<'_> {
    fn compute(&self, start: usize, len: usize, scratch: &mut Scratch, out: &mut [u8]) -> Result<(), PipelineError> {
        match (&self.transposed, &self.coded, &self.parted) {
            (Some(stored), ..) => self.transpose(stored, start, scratch, out)?,
            (None, Some(coded), _) => coded.compute(self.elements, start, scratch, out)?,
            (None, None, Some(parted)) => parted.compute(self.elements, start, scratch, out)?,
            (None, None, None) => self.stretches(start, len, scratch, out)?,
        }
        let done = self.done.fetch_add(len, Ordering::Relaxed) + len;
        // Every weight of a checkpoint has its own reader, which stays to the end.
        if done.is_multiple_of(self.weight.len().max(1)) {
            self.transposed.iter().for_each(|stored| stored.forget());
            self.by_columns.iter().for_each(|stored| stored.forget());
            self.coded.iter().for_each(Coded::forget);
            self.parted.iter().for_each(Parted::forget);
        }
        Ok(())
    }

    fn chunk(&self) -> usize {
        let [rows, columns] = self.weight.matrix();
        match (&self.transposed, &self.by_columns) {
            (Some(_), _) => columns_at_once(rows),
            (_, Some(_)) => columns_at_once(columns),
            _ => CHUNK,
        }
    }
}
