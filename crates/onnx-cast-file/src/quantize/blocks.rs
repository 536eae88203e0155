//! The tensors of a quantized weight, computed part by part: elements, and the scales of their blocks beside them.

use super::QuantizeRequest;
use super::scaling::{Blocks, How, Scaling};
use super::weight::{Walk, Weight};
use crate::checkpoint::{Checkpoint, TensorRef};
use crate::engine::{Computed, OutputTensor, Source};
use crate::formats::strided::columns::{copy_stretches, parts};
use crate::formats::strided::transpose::transpose;
use crate::io::memory::resize;
use crate::layouts::{WrittenWeight, in_panels, panel_at};
use crate::pipeline::{Amax, CHUNK, Compute, PipelineError, Scratch};
use crate::summary::TensorSummary;
use onnx_cast::DataType;
use onnx_cast::ops::OpError;
use std::ops::Range;
use std::sync::Arc;

/// The rows of a weight: its elements, their scales, and what goes with them.
pub(super) fn rows<'a>(
    checkpoint: &'a Checkpoint,
    tensor: TensorRef,
    chosen: &WrittenWeight,
    how: &QuantizeRequest,
    amax: Option<Arc<Amax>>,
) -> Result<Vec<OutputTensor<'a>>, OpError> {
    let stored = checkpoint.stored(tensor);
    let weight = Arc::new(Weight::new(checkpoint, tensor, chosen, how, amax)?);
    let summary = |name: &str, shape: Vec<usize>, to: DataType| {
        let len = onnx_cast::tensor::element_count(&shape).and_then(|len| to.byte_len(len)).unwrap_or(0);
        let cast = TensorSummary { cast: true, ..TensorSummary::kept(name, shape, stored.data_type, 0) };
        TensorSummary { to, bytes_after: len as u64, ..cast }
    };
    let computed = |source: Box<dyn Compute + 'a>, data_type, counter| {
        Source::Computed(Box::new(Computed { source, data_type, cast: None, counter }))
    };
    let bits = weight.element.bits().unwrap_or(8);
    let elements = TensorSummary {
        bytes_before: checkpoint.byte_len(tensor),
        quantized: Some(chosen.format()),
        ..summary(&chosen.elements, chosen.elements_shape(bits), chosen.container)
    };
    let counter = Some(weight.losses.counter());
    let source = ElementSource { weight: Arc::clone(&weight) };
    let source = computed(Box::new(source), chosen.container, counter);
    let mut all = vec![OutputTensor { summary: elements, tensor, source }];
    let source = match weight.how {
        How::Scaled(scaling) if weight.is_ahead => {
            computed(Box::new(ScaleSource { weight: Arc::clone(&weight), scaling }), chosen.scale_type, None)
        }
        _ => Source::WithPrevious,
    };
    all.push(OutputTensor {
        summary: summary(&chosen.scales, chosen.scales_shape.clone(), chosen.scale_container),
        tensor,
        source,
    });
    if let Some((name, shape)) = &chosen.global {
        let source = computed(Box::new(GlobalScaleSource { weight }), DataType::Float, None);
        all.push(OutputTensor { summary: summary(name, shape.clone(), DataType::Float), tensor, source });
    }
    if let Some(name) = &chosen.shape {
        let [_, rows, columns] = chosen.matrices;
        let bytes = [rows as u64, columns as u64].map(u64::to_le_bytes).concat();
        all.push(OutputTensor {
            summary: summary(name, vec![2], DataType::Int64),
            tensor,
            source: Source::Bytes(bytes),
        });
    }
    Ok(all)
}

/// The elements of a weight, in what holds them.
pub(super) struct ElementSource<'a> {
    pub(super) weight: Arc<Weight<'a>>,
}

impl ElementSource<'_> {
    /// How many elements so many items hold.
    fn elements(&self, items: usize) -> usize {
        let weight = &self.weight;
        let bits = weight.element.bits().unwrap_or(8);
        items * weight.container.bits().unwrap_or(8) / bits
    }

    /// Computes elements of a matrix, which have these indices within it.
    fn of_matrix(
        &self,
        matrix: usize,
        elements: Range<usize>,
        scratch: &mut Scratch,
        out: &mut [u8],
    ) -> Result<(), PipelineError> {
        let weight = &*self.weight;
        let [_, rows, columns] = weight.matrices;
        let unit = weight.unit();
        // Units that begin before the part, or end behind it, are computed again with the next one.
        let begin = elements.start / unit * unit;
        let stop = elements.end.div_ceil(unit).saturating_mul(unit).min(rows * columns);
        let size = |len| weight.element.byte_len(len).ok_or_else(PipelineError::out_of_memory);
        let (first, count) = (matrix * rows * columns + begin, stop - begin);
        let scales = if (begin, stop) == (elements.start, elements.end) {
            self.units(first, count, scratch, out)?
        } else {
            let mut codes = std::mem::take(&mut scratch.scales);
            resize(&mut codes, size(count)?).ok_or_else(PipelineError::out_of_memory)?;
            let scales = self.units(first, count, scratch, &mut codes)?;
            let skipped = size(elements.start - begin)?;
            out.copy_from_slice(codes.get(skipped..skipped + out.len()).ok_or_else(PipelineError::out_of_memory)?);
            scratch.scales = codes;
            scales
        };
        if weight.has_scales_beside && !scales.is_empty() {
            // Scales go by rows of blocks, as units do.
            let [down, across] = weight.block;
            let before = match weight.block {
                [1, block] if columns.is_multiple_of(block) => first / block,
                _ => (matrix * rows.div_ceil(down) + begin / columns.max(1) / down) * columns.div_ceil(across),
            };
            let width = weight.scale_type.byte_len(1).unwrap_or(1);
            let (at, scales) = match weight.is_in_tiles {
                true => {
                    let across = columns / across;
                    (panel_at(before / across, across), in_panels(&scales, across))
                }
                false => (before * width, scales),
            };
            scratch.beside.push((at as u64, scales));
        }
        if weight.is_in_tiles && weight.element.is_packed() {
            out.iter_mut().for_each(|byte| *byte = byte.rotate_left(4));
        }
        Ok(())
    }

    /// Computes whole units, and returns the scales of their blocks.
    fn units(
        &self,
        first: usize,
        count: usize,
        scratch: &mut Scratch,
        out: &mut [u8],
    ) -> Result<Vec<u8>, PipelineError> {
        let weight = &*self.weight;
        let Scratch { elements, results, codes, .. } = scratch;
        if let Walk::Transposed(stored) = weight.walk {
            return self.tiles(stored, first..first + count, scratch, out);
        }
        resize(elements, weight.bytes(count)?).ok_or_else(PipelineError::out_of_memory)?;
        weight.read(first, elements)?;
        if weight.walk != Walk::Columns {
            return weight.quantize(first, count, elements, out).map_err(PipelineError::Cast);
        }
        let columns = weight.matrices[2];
        resize(results, elements.len()).ok_or_else(PipelineError::out_of_memory)?;
        weight.transpose(elements, columns, results, count / columns);
        resize(codes, out.len()).ok_or_else(PipelineError::out_of_memory)?;
        let scales = weight.quantize(first, count, results, codes).map_err(PipelineError::Cast)?;
        transpose::<1>(codes, count / columns, count / columns, out, columns);
        Ok(scales)
    }

    /// Computes elements of bands, whose values go band after band, and within each column after column.
    fn bands(
        &self,
        pairs_rows: bool,
        values: Range<usize>,
        scratch: &mut Scratch,
        mut out: &mut [u8],
    ) -> Result<(), PipelineError> {
        let weight = &*self.weight;
        let [_, rows, columns] = weight.matrices;
        let bits = weight.element.bits().unwrap_or(8);
        let mut at = values.start;
        while at < values.end {
            let band = weight.band(at);
            let column = (at - band.row * columns) / band.rows;
            let width = ((values.end - at) / band.rows).min(columns - column);
            let (lines, line) = if pairs_rows { (band.rows / 2, width) } else { (band.rows, width * bits / 8) };
            let part = out
                .split_off_mut(..lines * line)
                .filter(|part| !part.is_empty())
                .ok_or_else(PipelineError::out_of_memory)?;
            let scales = self.tile([band.row, column], [band.rows, width], pairs_rows, scratch, part)?;
            if weight.has_scales_beside {
                let place = (band.row / rows * rows.div_ceil(weight.block[0]) + band.row % rows / weight.block[0])
                    * columns
                    + column;
                let size = weight.scale_type.byte_len(1).unwrap_or(1);
                scratch.beside.push(((place * size) as u64, scales));
            }
            let place = |row: usize| match pairs_rows {
                true => (row / 2 * columns + column) as u64,
                false => ((row * columns + column) * bits / 8) as u64,
            };
            if width == columns {
                scratch.stretches.push((place(band.row), lines * line));
            } else {
                let rows = (band.row..band.row + band.rows).step_by(band.rows / lines);
                scratch.stretches.extend(rows.map(|row| (place(row), line)));
            }
            at += width * band.rows;
        }
        Ok(())
    }

    /// Quantizes some columns of a band, and returns their scales.
    fn tile(
        &self,
        [row, column]: [usize; 2],
        [rows, columns]: [usize; 2],
        pairs_rows: bool,
        scratch: &mut Scratch,
        out: &mut [u8],
    ) -> Result<Vec<u8>, PipelineError> {
        let weight = &*self.weight;
        let Scratch { elements, results, codes, .. } = scratch;
        let width = weight.matrices[2];
        let first = row * width + column;
        match &weight.how {
            How::Scaled(scaling) if !pairs_rows => {
                weight.read_rows(first, width, [rows, columns], elements)?;
                let found = weight.found(scaling, (&[rows, columns], [rows, 1]), elements, out);
                found.map_err(PipelineError::Cast)
            }
            _ => {
                weight.read_columns(first, width, [rows, columns], elements, results)?;
                resize(codes, out.len()).ok_or_else(PipelineError::out_of_memory)?;
                let scales = weight.quantize(first, rows * columns, results, codes).map_err(PipelineError::Cast)?;
                let size = codes.len() / columns;
                transpose::<1>(codes, size, size, out, columns);
                Ok(scales)
            }
        }
    }

    /// Quantizes values of transposed matrices, tile by tile: each is read, transposed and quantized within the nearer
    /// caches.
    fn tiles(
        &self,
        [height, width]: [usize; 2],
        values: Range<usize>,
        scratch: &mut Scratch,
        out: &mut [u8],
    ) -> Result<Vec<u8>, PipelineError> {
        const DOWN: usize = 128;
        const ACROSS: usize = 3072;
        let weight = &*self.weight;
        let Scratch { elements, results, codes, .. } = scratch;
        let (block, bits) = (weight.block[1], weight.element.bits().unwrap_or(8));
        let mut scales = vec![0; values.len() / block];
        let (mut out, mut rest) = (out, &mut scales[..]);
        for part in parts([height, width], values.start, values.len()) {
            let (out_now, scales_now);
            (out_now, out) = std::mem::take(&mut out).split_at_mut(part.len() * bits / 8);
            (scales_now, rest) = std::mem::take(&mut rest).split_at_mut(part.len() / block);
            for column in part.columns.clone().step_by(ACROSS) {
                for row in part.rows.clone().step_by(DOWN) {
                    let (down, across) = (DOWN.min(part.rows.end - row), ACROSS.min(part.columns.end - column));
                    let first = (part.matrix * height + row) * width + column;
                    weight.read_columns(first, width, [down, across], elements, results)?;
                    resize(codes, down * across * bits / 8).ok_or_else(PipelineError::out_of_memory)?;
                    let found = weight.quantize(first, down * across, results, codes).map_err(PipelineError::Cast)?;
                    let at = (column - part.columns.start) * part.rows.len() + row - part.rows.start;
                    let stretch = |len: usize| [len * bits / 8, len / block];
                    let [pitches, begins, lens] = [part.rows.len(), at, down].map(stretch);
                    copy_stretches(lens[0], codes, lens[0], &mut out_now[begins[0]..], pitches[0]);
                    copy_stretches(lens[1], &found, lens[1], &mut scales_now[begins[1]..], pitches[1]);
                }
            }
        }
        Ok(scales)
    }
}

impl Compute for ElementSource<'_> {
    fn compute(&self, start: usize, len: usize, scratch: &mut Scratch, out: &mut [u8]) -> Result<(), PipelineError> {
        let [_, rows, columns] = self.weight.matrices;
        let (mut at, end, mut out) = (self.elements(start), self.elements(start + len), out);
        if let Walk::Bands { pairs_rows } = self.weight.walk {
            return self.bands(pairs_rows, at..end, scratch, out);
        }
        if self.weight.is_ahead && self.weight.walk == Walk::Rows {
            // Elements of several matrices are computed at once, and packed ones need not end with a matrix.
            return self.units(at, end - at, scratch, out).map(drop);
        }
        while at < end {
            let matrix = at / (rows * columns);
            let first = matrix * rows * columns;
            let stop = end.min(first + rows * columns);
            // Where there are several matrices an element is a byte; all else is one matrix.
            let bytes = if (at, stop) == (self.elements(start), end) { out.len() } else { stop - at };
            let (part, behind) = std::mem::take(&mut out).split_at_mut(bytes);
            self.of_matrix(matrix, at - first..stop - first, scratch, part)?;
            (at, out) = (stop, behind);
        }
        Ok(())
    }

    fn chunk(&self) -> usize {
        /// Values of transposed matrices, whose elements are a few MiB: the more columns, the longer the stretches that
        /// are read of each row.
        const LARGE_PART: usize = 1 << 23;
        let weight = &self.weight;
        let bits = [weight.element, weight.container].map(|data_type| data_type.bits().unwrap_or(8));
        let len = match weight.walk {
            Walk::Transposed([rows, _]) if (1..=LARGE_PART / 64).contains(&rows) => {
                LARGE_PART / (64 * rows) * 64 * rows
            }
            _ => {
                // A part is whole units, and eight items where those hold several elements.
                let step =
                    if bits[0] == bits[1] && bits[0] >= 8 { 1 } else { 64 >> weight.unit().trailing_zeros().min(6) };
                CHUNK.next_multiple_of(weight.unit() * step)
            }
        };
        len * bits[0] / bits[1]
    }

    fn chunk_at(&self, start: usize) -> usize {
        let weight = &*self.weight;
        let Walk::Bands { pairs_rows } = weight.walk else { return self.chunk() };
        let ([count, rows, columns], down) = (weight.matrices, weight.block[0]);
        let at = self.elements(start);
        let (band, matrix) = (weight.band(at), rows * columns);
        let len = if matrix <= CHUNK {
            // Whole matrices.
            (CHUNK / matrix * matrix).min(count * matrix - at)
        } else if down * columns <= CHUNK {
            (CHUNK / (down * columns) * down * columns).min(matrix - at % matrix)
        } else {
            let column = (at - band.row * columns) / band.rows;
            band.rows * (CHUNK / down).next_multiple_of(64).min(columns - column)
        };
        if pairs_rows { len / 2 } else { len }
    }
}

/// The scales of a weight.
pub(super) struct ScaleSource<'a> {
    pub(super) weight: Arc<Weight<'a>>,
    pub(super) scaling: Scaling,
}

impl Compute for ScaleSource<'_> {
    fn compute(&self, start: usize, len: usize, scratch: &mut Scratch, out: &mut [u8]) -> Result<(), PipelineError> {
        let Self { weight, scaling } = self;
        if !weight.is_ahead {
            return weight.find_scales(scaling, start..start + len, &mut scratch.elements, out);
        }
        let scales = weight.known_scales(scaling).map_err(PipelineError::Cast)?.bytes().unwrap_or_default();
        let begin = weight.scale_type.byte_len(start).unwrap_or(0);
        out.copy_from_slice(scales.get(begin..begin + out.len()).ok_or_else(PipelineError::out_of_memory)?);
        Ok(())
    }

    fn chunk(&self) -> usize {
        let [down, across] = self.weight.block;
        (CHUNK / down.saturating_mul(across).max(1)).max(1).next_multiple_of(8)
    }
}

/// Computes NVFP4's global scale from the amax of the tensor.
pub(super) struct GlobalScaleSource<'a> {
    pub(super) weight: Arc<Weight<'a>>,
}

impl Compute for GlobalScaleSource<'_> {
    fn compute(&self, _: usize, _: usize, _: &mut Scratch, out: &mut [u8]) -> Result<(), PipelineError> {
        let weight = &*self.weight;
        let (How::Blocks(Blocks { quantize, .. }) | How::Scaled(Scaling::Codes(_, quantize))) = weight.how else {
            return Ok(());
        };
        let global = quantize.global_scale(weight.all().unwrap_or(0.0));
        out.copy_from_slice(&global.unwrap_or(1.0).to_le_bytes());
        Ok(())
    }
}
