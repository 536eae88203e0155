//! The tensors of a quantized weight, computed part by part: elements, and the scales of their blocks beside them.

use super::QuantizeRequest;
use super::losses::Losses;
use super::numbers::Numbers;
use super::turned::Turned;
use crate::io::memory::resize;
use crate::io::positional::InputFile;
use crate::layouts::{Checkpoint, Granularity, Order, QuantizedFormat, TensorRef, WrittenWeight, exchange};
use crate::pipeline::{Compute, Scratch, Trouble};
use crate::rewrite::{Computed, Greatest, Origin, Row};
use crate::summary::TensorSummary;
use onnx_cast::{BlockPlan, BlockQuantize, CastError, DataType, OpError, Tensor, TensorView, greatest_magnitudes};
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

/// The rows of a weight: its elements, their scales, and what goes with them.
pub(super) fn rows<'a>(
    checkpoint: &'a Checkpoint,
    tensor: TensorRef,
    chosen: &WrittenWeight,
    how: &QuantizeRequest,
    greatest: Option<Arc<Greatest>>,
) -> Result<Vec<Row<'a>>, OpError> {
    let stored = checkpoint.stored(tensor);
    let weight = Arc::new(Weight::new(checkpoint, tensor, chosen, how, greatest)?);
    let summary = |name: &str, shape: Vec<usize>, to: DataType| {
        let len = onnx_cast::element_count(&shape).and_then(|len| to.byte_len(len)).unwrap_or(0);
        let cast = TensorSummary { cast: true, ..TensorSummary::kept(name, shape, stored.data_type, 0) };
        TensorSummary { to, bytes_after: len as u64, ..cast }
    };
    let computed = |source: Box<dyn Compute + 'a>, data_type, counter| {
        Origin::Computed(Box::new(Computed { source, data_type, cast: None, counter }))
    };
    let bits = weight.element_type().bits().unwrap_or(8);
    let elements = TensorSummary {
        bytes_before: checkpoint.byte_len(tensor),
        ..summary(&chosen.elements, chosen.elements_shape(bits), chosen.container)
    };
    let counter = Some(weight.losses.counter());
    let source = Elements { weight: Arc::clone(&weight) };
    let origin = computed(Box::new(source), chosen.container, counter);
    let mut all = vec![Row { summary: elements, tensor, origin }];
    let origin = if weight.is_whole {
        computed(Box::new(TensorScale { weight: Arc::clone(&weight) }), chosen.scale_type, None)
    } else {
        Origin::Beside
    };
    all.push(Row {
        summary: summary(&chosen.scales, chosen.scales_shape.clone(), chosen.scale_container),
        tensor,
        origin,
    });
    if let Some((name, shape)) = &chosen.global {
        let origin = computed(Box::new(TensorScale { weight }), DataType::Float, None);
        all.push(Row { summary: summary(name, shape.clone(), DataType::Float), tensor, origin });
    }
    if let Some(name) = &chosen.shape {
        let [_, rows, columns] = chosen.matrices;
        let bytes = [rows as u64, columns as u64].map(u64::to_le_bytes).concat();
        all.push(Row { summary: summary(name, vec![2], DataType::Int64), tensor, origin: Origin::Bytes(bytes) });
    }
    Ok(all)
}

/// A matrix that is quantized, or experts: as one matrix above the other, unless blocks of several rows cut each.
#[derive(Debug)]
struct Weight<'a> {
    file: &'a InputFile,
    at: u64,
    from: DataType,
    shape: [usize; 2],
    /// Where rows are stored as columns: what has been read of them.
    turned: Option<Turned>,
    /// Where columns have scales: those of a matrix.
    by_column: Option<ByColumn>,
    /// Whether blocks go down the rows, two of which are in a byte.
    is_down: bool,
    to: QuantizedFormat,
    block: [usize; 2],
    /// Whether one scale is for all elements.
    is_whole: bool,
    container: DataType,
    scale_type: DataType,
    quantize: Option<BlockQuantize>,
    numbers: Numbers,
    greatest: Option<Arc<Greatest>>,
    /// Reads the weight back and compares.
    losses: Losses,
}

impl<'a> Weight<'a> {
    fn new(
        checkpoint: &'a Checkpoint,
        tensor: TensorRef,
        chosen: &WrittenWeight,
        how: &QuantizeRequest,
        greatest: Option<Arc<Greatest>>,
    ) -> Result<Weight<'a>, OpError> {
        let (file, at) = checkpoint.place(tensor);
        let [count, rows, columns] = chosen.matrices;
        let from = checkpoint.stored(tensor).data_type;
        let numbers = Numbers::new(chosen.arithmetic, chosen.to, chosen.granularity, from);
        let quantize = match chosen.to {
            QuantizedFormat::Block(format) => Some(numbers.blocks(format, how.rule)),
            QuantizedFormat::Elements(_) => None,
        };
        let counts = how.run.counts();
        let shape = if chosen.is_cut_by_matrix() { [rows, columns] } else { [count * rows, columns] };
        let has_columns = chosen.is_cut_by_matrix() && chosen.granularity == Granularity::Axis;
        Ok(Weight {
            file,
            at,
            from,
            shape,
            turned: (chosen.order == Order::Exchanged).then(|| Turned::new([rows, columns])),
            by_column: has_columns.then(ByColumn::default),
            is_down: chosen.order == Order::Down,
            to: chosen.to,
            block: chosen.block,
            is_whole: chosen.granularity == Granularity::Tensor,
            container: chosen.container,
            scale_type: chosen.scale_type,
            quantize,
            numbers,
            greatest,
            losses: Losses::new(from, chosen, counts)?,
        })
    }

    /// The type of the elements as they are computed: in words, integers plus half their range.
    fn element_type(&self) -> DataType {
        match (self.to, self.container) {
            (QuantizedFormat::Block(format), _) => format.element(),
            (QuantizedFormat::Elements(DataType::Int4), DataType::Int32) => DataType::Uint4,
            (QuantizedFormat::Elements(DataType::Int8), DataType::Int32) => DataType::Uint8,
            (QuantizedFormat::Elements(data_type), _) => data_type,
        }
    }

    /// Elements that are computed together, because they share a scale or a row of scales.
    fn unit(&self) -> usize {
        let [rows, columns] = self.shape;
        match self.block {
            _ if self.is_whole => 8,
            _ if self.turned.is_some() || self.by_column.is_some() => columns,
            [1, block] if columns.is_multiple_of(block) => block,
            [block, _] => block.min(rows) * columns,
        }
    }

    /// Reads values of whole units, in the order of the rows.
    fn read(&self, begin: usize, count: usize, values: &mut Vec<u8>) -> Result<(), Trouble> {
        let size = |len| self.from.byte_len(len).ok_or_else(no_room);
        resize(values, size(count)?).ok_or_else(no_room)?;
        match &self.turned {
            None => self.file.read_at(self.at + size(begin)? as u64, values).map_err(Trouble::Read),
            Some(turned) => turned.read(self.file, self.at, size(1)?, begin, values),
        }
    }

    /// Exchanges rows and columns of bands of so many rows.
    fn exchange(&self, values: &[u8], rows: usize, turned: &mut Vec<u8>) -> Result<(), Trouble> {
        let (columns, size) = (self.shape[1], self.from.byte_len(1).unwrap_or(1));
        resize(turned, values.len()).ok_or_else(no_room)?;
        let band = (rows * columns * size).max(1);
        for (band, turned) in values.chunks_exact(band).zip(turned.chunks_exact_mut(band)) {
            match size {
                2 => exchange::<2>(band, columns, columns, turned, rows),
                _ => exchange::<4>(band, columns, columns, turned, rows),
            }
        }
        Ok(())
    }

    /// Quantizes whole units, and returns their scales; `scales` are those of columns, which are known already.
    fn quantize(&self, src: &[u8], len: usize, scales: Option<&Tensor>, out: &mut [u8]) -> Result<Vec<u8>, CastError> {
        let [_, columns] = self.shape;
        if let Some(quantize) = self.quantize {
            let block = self.block[0].max(self.block[1]);
            let shape = [len / block, block];
            let x = TensorView::new(self.from, &shape, src)?;
            let mut scales = vec![0; len / block];
            let greatest = self.greatest.as_ref().map(|greatest| greatest.value());
            let quantize = quantize.greatest(greatest);
            let global = quantize.run_into(&x, out, &mut scales)?;
            if self.losses.are_in_blocks(&scales, greatest) {
                self.losses.of_blocks(self.from, src, out, &scales, global)?;
            }
            return Ok(scales);
        }
        // Blocks within rows make a matrix of their own; blocks of several rows are those of whole rows.
        let (shape, block) = match self.block {
            _ if self.is_whole => ([1, len], [1, len.max(1)]),
            // With rows and columns exchanged.
            _ if scales.is_some() => ([columns, len / columns.max(1)], [1, (len / columns.max(1)).max(1)]),
            [1, block] if columns.is_multiple_of(block) => ([len / block, block], [1, block]),
            block => ([len / columns.max(1), columns], block),
        };
        let x = TensorView::new(self.from, &shape, src)?;
        let grid = [shape[0].div_ceil(block[0]), shape[1].div_ceil(block[1])];
        let scales = match (scales, &self.greatest) {
            (Some(scales), _) => scales.clone(),
            (None, Some(greatest)) => self.numbers.scales(&[greatest.value()], &grid)?,
            (None, None) => self.numbers.scales(&greatest_magnitudes(&x, block)?, &grid)?,
        };
        let to = self.element_type();
        let plan = self.numbers.plan(self.from, to, block)?;
        let middle = match to {
            DataType::Uint4 => Some(vec![0x88; (grid[0] * grid[1]).div_ceil(2)]),
            DataType::Uint8 => Some(vec![0x80; grid[0] * grid[1]]),
            _ => None,
        };
        let zero_points = middle.as_deref().map(|middle| TensorView::new(to, &grid, middle)).transpose()?;
        let bound = plan.bind(&shape, &scales.view(), zero_points.as_ref())?;
        bound.run_part(0, len, src, out)?;
        if self.losses.are_in(self.from, src) {
            let back = BlockPlan::dequantize(to, self.scale_type, DataType::Float, block)?;
            let back = back.bind(&shape, &scales.view(), zero_points.as_ref())?;
            self.losses.of_elements(&back, [self.from, to], src, out)?;
        }
        Ok(scales.bytes().unwrap_or_default().to_vec())
    }
}

fn no_room() -> Trouble {
    Trouble::Read(io::ErrorKind::OutOfMemory.into())
}

/// The elements of a weight, in what holds them.
struct Elements<'a> {
    weight: Arc<Weight<'a>>,
}

impl Elements<'_> {
    /// How many elements so many items hold.
    fn elements(&self, items: usize) -> usize {
        let weight = &self.weight;
        let bits = weight.element_type().bits().unwrap_or(8);
        items * weight.container.bits().unwrap_or(8) / bits
    }
}

impl Elements<'_> {
    /// Computes elements of a matrix, which have these indices within it.
    fn of_matrix(
        &self,
        matrix: usize,
        elements: Range<usize>,
        scratch: &mut Scratch,
        out: &mut [u8],
    ) -> Result<(), Trouble> {
        let weight = &*self.weight;
        let [rows, columns] = weight.shape;
        let unit = weight.unit();
        // Units that begin before the part, or end behind it, are computed again with the next one.
        let begin = elements.start / unit * unit;
        let stop = elements.end.div_ceil(unit).saturating_mul(unit).min(rows * columns);
        let size = |data_type: DataType, len| data_type.byte_len(len).ok_or_else(no_room);
        let count = stop - begin;
        weight.read(matrix * rows * columns + begin, count, &mut scratch.elements)?;
        let to = weight.element_type();
        let scales = if (begin, stop) == (elements.start, elements.end) {
            self.quantize(matrix, count, scratch, out)?
        } else {
            let mut codes = std::mem::take(&mut scratch.codes);
            resize(&mut codes, size(to, count)?).ok_or_else(no_room)?;
            let scales = self.quantize(matrix, count, scratch, &mut codes)?;
            let skipped = size(to, elements.start - begin)?;
            out.copy_from_slice(codes.get(skipped..skipped + out.len()).ok_or_else(no_room)?);
            scratch.codes = codes;
            scales
        };
        if !weight.is_whole {
            // Scales go by rows of blocks, as units do.
            let [down, across] = weight.block;
            let before = match weight.block {
                _ if weight.by_column.is_some() => matrix * columns,
                [1, block] if columns.is_multiple_of(block) => begin / block,
                _ => {
                    let bands = matrix * rows.div_ceil(down) + begin / columns.max(1) / down;
                    bands * columns.div_ceil(across)
                }
            };
            let width = weight.scale_type.byte_len(1).unwrap_or(1);
            scratch.beside.push(((before * width) as u64, scales));
        }
        Ok(())
    }

    /// Quantizes the elements that have been read.
    fn quantize(&self, matrix: usize, count: usize, scratch: &mut Scratch, out: &mut [u8]) -> Result<Vec<u8>, Trouble> {
        let weight = &*self.weight;
        let Scratch { elements, results, .. } = scratch;
        let columns = weight.shape[1];
        let (rows, scales) = match &weight.by_column {
            Some(by_column) => (count / columns, Some(by_column.scales(weight, matrix)?)),
            None if weight.is_down => (weight.block[0], None),
            None => return weight.quantize(elements, count, None, out).map_err(Trouble::Cast),
        };
        // Scales go down the rows: each band of as many rows is quantized with rows and columns exchanged.
        weight.exchange(elements, rows, results)?;
        let mut codes = vec![];
        resize(&mut codes, out.len()).ok_or_else(no_room)?;
        let scales = weight.quantize(results, count, scales.as_deref(), &mut codes).map_err(Trouble::Cast)?;
        // What holds the codes of a band.
        let band = (codes.len() * rows / (count / columns)).max(1);
        for (codes, out) in codes.chunks_exact(band).zip(out.chunks_exact_mut(band)) {
            exchange::<1>(codes, band / columns, band / columns, out, columns);
        }
        Ok(scales)
    }
}

impl Compute for Elements<'_> {
    fn compute(&self, start: usize, len: usize, scratch: &mut Scratch, out: &mut [u8]) -> Result<(), Trouble> {
        let [rows, columns] = self.weight.shape;
        let (mut at, end, mut out) = (self.elements(start), self.elements(start + len), out);
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
        /// The least elements of a part, and of one whose rows are stored as columns: of those it reads stretches.
        const LEAST: [usize; 2] = [1 << 18, 1 << 20];
        let weight = &self.weight;
        let least = LEAST[usize::from(weight.turned.is_some())];
        let bits = [weight.element_type(), weight.container].map(|data_type| data_type.bits().unwrap_or(8));
        // A part is whole units, and eight items where those hold several elements.
        let step = if bits[0] == bits[1] { 1 } else { 64 >> weight.unit().trailing_zeros().min(6) };
        let unit = weight.unit() * step;
        least.div_ceil(unit) * unit * bits[0] / bits[1]
    }
}

/// The scales of the columns of a matrix, found when the first of its elements are needed.
#[derive(Debug, Default)]
struct ByColumn(Mutex<Option<(usize, Arc<Tensor>)>>);

impl ByColumn {
    fn scales(&self, weight: &Weight<'_>, matrix: usize) -> Result<Arc<Tensor>, Trouble> {
        /// Elements that are looked at together.
        const PART: usize = 1 << 18;
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, scales)) = last.as_ref().filter(|(held, _)| *held == matrix) {
            return Ok(Arc::clone(scales));
        }
        let [rows, columns] = weight.shape;
        let step = (PART / columns.max(1)).max(1);
        let (mut greatest, mut values, mut turned) = (vec![0f32; columns], Vec::new(), Vec::new());
        for row in (0..rows).step_by(step) {
            let count = step.min(rows - row);
            weight.read((matrix * rows + row) * columns, count * columns, &mut values)?;
            weight.exchange(&values, count, &mut turned)?;
            let shape = [columns, count];
            let view = TensorView::new(weight.from, &shape, &turned).map_err(|error| Trouble::Cast(error.into()))?;
            let found = greatest_magnitudes(&view, [1, count]).map_err(Trouble::Cast)?;
            greatest.iter_mut().zip(found).for_each(|(greatest, found)| *greatest = greatest.max(found));
        }
        let scales = Arc::new(weight.numbers.scales(&greatest, &[columns, 1]).map_err(Trouble::Cast)?);
        *last = Some((matrix, Arc::clone(&scales)));
        Ok(scales)
    }
}

/// The scale of a tensor, once its greatest magnitude is known: of all elements, or NVFP4's for its scales.
struct TensorScale<'a> {
    weight: Arc<Weight<'a>>,
}

impl Compute for TensorScale<'_> {
    fn compute(&self, _: usize, _: usize, _: &mut Scratch, out: &mut [u8]) -> Result<(), Trouble> {
        let weight = &*self.weight;
        let greatest = weight.greatest.as_ref().map_or(0.0, |greatest| greatest.value());
        let bytes = match weight.quantize.and_then(|quantize| quantize.global_scale(greatest)) {
            Some(global) => global.to_le_bytes().to_vec(),
            None => {
                let scale = weight.numbers.scales(&[greatest], &[1]).map_err(Trouble::Cast)?;
                scale.bytes().unwrap_or_default().to_vec()
            }
        };
        out.copy_from_slice(&bytes);
        Ok(())
    }
}
