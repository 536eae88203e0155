//! A weight as com.microsoft's MatMulNBits and GatherBlockQuantized read it, in blocks of 4 or 8 bits: these operators
//! take the place of MatMul, Gemm and Gather.
//!
//! The arithmetic is that of onnxruntime's own quantizer (`quantize_matmul_4bits`), so that the bits are the same:
//! without zero points the value of the greatest magnitude becomes the lowest code, and so the scale has a sign; with
//! them the range of a block, 0 included, becomes that of the codes. Codes are rounded half away from zero, of products
//! with the reciprocal of the scale. Of a matrix with an odd number of rows the last code of 4 bits has no neighbour;
//! it is 0 here.

use super::ChosenWeight;
use super::counterparts::Operator;
use super::readers::{Reader, Readers, input, output, replace, with_bias};
use crate::edits::{Content, Edits, Home, NewAttribute, NewNode, NewTensor};
use crate::error::ModelError;
use crate::graph::values::{Flow, Step};
use crate::operators::MICROSOFT;
use crate::rope::{CastElements, Computed, ElementSource, LastDecoded};
use crate::tree::Names;
use onnx_cast::tensor::element_count;
use onnx_cast::{Cast, CastOptions, DataType, Plan, TensorView};
use onnx_cast_file::__private::pipeline::{Compute, PipelineError, Scratch};
use onnx_cast_file::__private::{Counter, Sides};
use onnx_cast_file::{Granularity, QuantizeRequest, QuantizedFormat, StoredValues, TensorSummary};
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex};

/// A packed matrix, and one of its tensors.
#[derive(Clone)]
struct NBits<'a> {
    values: StoredValues<'a>,
    /// From its type to float, and from float to that of the scales.
    widen: Plan,
    narrow: Plan,
    shapes: Shapes,
    /// Whether a column's values follow each other.
    is_turned: bool,
    has_zero_points: bool,
    tensor: Tensor,
    counter: Arc<Counter>,
}

#[derive(Clone, Copy, PartialEq)]
enum Tensor {
    Elements,
    Scales,
    ZeroPoints,
}

/// Values that are read at once, and columns, where these are short.
const PART: usize = 1 << 18;
const COLUMNS: usize = 64;

impl NBits<'_> {
    /// Blocks of a column.
    fn blocks(&self) -> usize {
        self.shapes.rows.div_ceil(self.shapes.block)
    }

    /// Items of a column.
    fn items(&self) -> usize {
        let bits = self.shapes.bits as usize;
        match self.tensor {
            Tensor::Elements => self.blocks() * self.shapes.block * bits / 8,
            Tensor::Scales => self.blocks(),
            Tensor::ZeroPoints => (self.blocks() * bits).div_ceil(8),
        }
    }

    /// Reads values of columns, as floats, column after column.
    fn read(&self, columns: Range<usize>, rows: Range<usize>, scratch: &mut Scratch) -> Result<(), PipelineError> {
        let no_room = || PipelineError::Read(io::ErrorKind::OutOfMemory.into());
        let width = self.widen.source_type().byte_len(1).unwrap_or(4);
        let (lines, len, pitch, first) = match self.is_turned {
            true => (columns.len(), rows.len(), self.shapes.rows, columns.start * self.shapes.rows + rows.start),
            false => (rows.len(), columns.len(), self.shapes.columns, rows.start * self.shapes.columns + columns.start),
        };
        let count = lines * len;
        let Scratch { elements, codes, results, .. } = scratch;
        resize(elements, count * width).ok_or_else(no_room)?;
        let lines = (first..).step_by(pitch.max(1)).zip(elements.chunks_exact_mut((len * width).max(1)));
        for (at, line) in lines {
            self.values.read((at * width) as u64, line).map_err(PipelineError::Read)?;
        }
        let floats = if self.is_turned { results } else { codes };
        resize(floats, 4 * count).ok_or_else(no_room)?;
        let shape = [count];
        let view = TensorView::new(self.widen.source_type(), &shape, elements);
        let widened = view.map_err(Into::into).and_then(|view| self.widen.run_into(&view, floats));
        widened.map_err(PipelineError::Cast)?;
        if !self.is_turned {
            resize(&mut scratch.results, 4 * count).ok_or_else(no_room)?;
            let (from, to) = (scratch.codes.as_chunks::<4>().0, scratch.results.as_chunks_mut::<4>().0);
            for (column, to) in to.chunks_exact_mut(rows.len()).enumerate() {
                to.iter_mut().zip(from[column..].iter().step_by(len)).for_each(|(to, from)| *to = *from);
            }
        }
        Ok(())
    }

    /// The scale, what values are multiplied with, and the zero point of a block.
    fn scale(&self, x: &[[u8; 4]]) -> Result<(f32, f32), onnx_cast::CastError> {
        let [full, middle] = [((1u32 << self.shapes.bits) - 1) as f32, (1u32 << (self.shapes.bits - 1)) as f32];
        let (mut low, mut high) = (f32::MAX, f32::MIN);
        for value in x {
            let value = f32::from_le_bytes(*value);
            low = if value < low { value } else { low };
            high = if value > high { value } else { high };
        }
        if !self.has_zero_points {
            let most = if high.abs() > low.abs() { high } else { low };
            return Ok((-most / middle, middle));
        }
        let (low, high) = (low.min(0.0), high.max(0.0));
        let scale = (high - low) / full;
        // The width of a finite range may overflow.
        let scale = if scale.is_finite() { scale } else { high / full - low / full };
        let zero_point = if scale == 0.0 { low } else { 0.0 - low / scale };
        Ok((scale, zero_point.clamp(0.0, full).round()))
    }

    /// A scale as it is stored, and as it is used: of float16 the stored one, of bfloat16 the float.
    fn stored(&self, scale: f32, out: &mut [u8]) -> Result<f32, onnx_cast::CastError> {
        let bytes = scale.to_le_bytes();
        if self.narrow.target_type() == DataType::Float {
            out.copy_from_slice(&bytes);
            return Ok(scale);
        }
        self.narrow.run_into(&TensorView::new(DataType::Float, &[1], &bytes)?, out)?;
        if self.narrow.target_type() != DataType::Float16 {
            return Ok(scale);
        }
        let mut used = [0; 4];
        self.widen.run_into(&TensorView::new(DataType::Float16, &[1], out)?, &mut used)?;
        Ok(f32::from_le_bytes(used))
    }

    /// Computes the items of a block, of which zero points may share a byte with those before.
    fn block(
        &self,
        index: usize,
        x: &[[u8; 4]],
        out: &mut [u8],
        sides: Option<&mut Sides>,
    ) -> Result<(), onnx_cast::CastError> {
        let (scale, zero_point) = self.scale(x)?;
        let width = self.narrow.target_type().byte_len(1).unwrap_or(4);
        let mut held = [0; 4];
        let used = self.stored(scale, &mut held[..width])?;
        match self.tensor {
            Tensor::Scales => out[index * width..][..width].copy_from_slice(&held[..width]),
            Tensor::ZeroPoints if self.shapes.bits == 8 => out[index] = zero_point as u8,
            Tensor::ZeroPoints => {
                // The last of an odd number has the middle beside it.
                let beside = if index.is_multiple_of(2) && index + 1 == self.blocks() { 0x80 } else { 0 };
                out[index / 2] |= (zero_point as u8) << (index % 2 * 4) | beside;
            }
            Tensor::Elements => {
                let size = self.shapes.block * self.shapes.bits as usize / 8;
                let out = &mut out[index * size..][..size];
                let (reciprocal, most) =
                    (if used == 0.0 { 0.0 } else { 1.0 / used }, ((1u32 << self.shapes.bits) - 1) as f32);
                let code =
                    |value: &[u8; 4]| rounded((f32::from_le_bytes(*value) * reciprocal + zero_point).clamp(0.0, most));
                if self.shapes.bits == 8 {
                    x.iter().zip(&mut *out).for_each(|(value, out)| *out = code(value));
                } else {
                    let (pairs, last) = x.as_chunks::<2>();
                    pairs.iter().zip(&mut *out).for_each(|([low, high], out)| *out = code(low) | code(high) << 4);
                    last.iter().zip(&mut out[pairs.len()..]).for_each(|(value, out)| *out = code(value));
                }
                if let Some(sides) = sides {
                    let back = |value: &[u8; 4]| ((f32::from(code(value)) - zero_point) * used).to_le_bytes();
                    let back: Vec<[u8; 4]> = x.iter().map(back).collect();
                    self.counter.add(x.as_flattened(), back.as_flattened(), x.len(), sides)?;
                }
            }
        }
        Ok(())
    }
}

/// A number from 0 to 255 as an integer, half of one up. Every step is exact but the sum, which rounds to even.
#[inline(always)]
fn rounded(value: f32) -> u8 {
    const SHIFT: f32 = (1u32 << 23) as f32;
    let sum = value + SHIFT;
    (sum.to_bits() as u8).wrapping_add(u8::from(value - (sum - SHIFT) >= 0.5))
}

impl Compute for NBits<'_> {
    fn compute(&self, start: usize, len: usize, scratch: &mut Scratch, out: &mut [u8]) -> Result<(), PipelineError> {
        let (items, blocks) = (self.items(), self.blocks());
        let (column, columns) = (start / items, len / items);
        let width = if self.tensor == Tensor::Scales { self.narrow.target_type().byte_len(1).unwrap_or(4) } else { 1 };
        out.fill(0);
        let mut sides = Sides::default();
        // Long columns are read in parts.
        let rows = (PART.max(self.shapes.block) / self.shapes.block * self.shapes.block).min(self.shapes.rows);
        let step = if rows < self.shapes.rows { 1 } else { columns };
        for first in (0..columns).step_by(step.max(1)) {
            let columns = first..(first + step).min(columns);
            for row in (0..self.shapes.rows).step_by(rows.max(1)) {
                let part = row..(row + rows).min(self.shapes.rows);
                self.read(column + columns.start..column + columns.end, part.clone(), scratch)?;
                let values = scratch.results.as_chunks::<4>().0;
                let are_counted =
                    self.tensor == Tensor::Elements && self.counter.is_interested(values.as_flattened(), values.len());
                for (index, values) in columns.clone().zip(values.chunks(part.len())) {
                    let out = &mut out[index * items * width..][..items * width];
                    for (block, x) in (row / self.shapes.block..blocks).zip(values.chunks(self.shapes.block)) {
                        self.block(block, x, out, are_counted.then_some(&mut sides)).map_err(PipelineError::Cast)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn chunk(&self) -> usize {
        let most = (16 * PART / self.shapes.rows.max(1)).max(1);
        (PART / self.shapes.rows.max(1)).max(COLUMNS).min(most) * self.items()
    }
}

/// The operators that have a counterpart with packed weights.
pub(super) const OPERATORS: &[Operator] = &[Operator::MatMul, Operator::Gemm, Operator::Gather];

impl Reader {
    /// Whether the sums of the product, or the rows that Gather takes, run along the last axis of the weight.
    fn is_along_rows(&self) -> bool {
        self.is_turned != (self.operator == Operator::Gather)
    }
}

impl<'a> ChosenWeight<'a> {
    /// The readers of a weight, all of which have a counterpart with packed weights.
    ///
    /// # Errors
    /// The inner error is the reason why the weight is kept.
    pub(super) fn nbits_readers(
        &self,
        flow: &Flow<'_, '_>,
        has_zero_points: bool,
    ) -> Result<Result<Readers, String>, ModelError> {
        let (bits, block) = self.bits_and_block()?;
        Ok(Readers::of(flow, self, OPERATORS).and_then(|readers| {
            let [first, second] = self.constant.shape[..] else {
                return Err("MatMulNBits and GatherBlockQuantized take matrices".to_owned());
            };
            let width = self.constant.data_type.byte_len(1).unwrap_or(4);
            let mut bytes = Some(0usize);
            for along_rows in sides(&readers) {
                let shapes = Shapes::of([first, second], along_rows, bits, block);
                let mut of_side = readers.all.iter().filter(|reader| reader.is_along_rows() == along_rows);
                if of_side.any(|reader| reader.operator == Operator::Gather) && !shapes.rows.is_multiple_of(block) {
                    return Err(format!("Gather reads it, and rows of {} are not whole blocks", shapes.rows));
                }
                let [packed, scales, zero_points] = shapes.tensors().map(|shape| element_count(&shape));
                let zero_points = if has_zero_points { zero_points } else { Some(0) };
                let all = || packed?.checked_add(scales?.checked_mul(width)?)?.checked_add(zero_points?);
                bytes = bytes.and_then(|bytes| all()?.checked_add(bytes));
            }
            self.not_smaller(bytes.map(|bytes| bytes as u64)).map_or(Ok(readers), Err)
        }))
    }

    /// The bits of an element, and the values of a block.
    fn bits_and_block(&self) -> Result<(u32, usize), ModelError> {
        let refuse = |what: String| ModelError::constant(self.constant.name, what);
        let bits = match self.to.format {
            QuantizedFormat::Elements(DataType::Int4) => 4,
            QuantizedFormat::Elements(DataType::Int8) => 8,
            _ => {
                return Err(refuse(format!("MatMulNBits has no {} (want int4 or int8)", self.to)));
            }
        };
        let block = match self.to.granularity.unwrap_or(Granularity::Block([1, 32])) {
            Granularity::Block([1, block]) if block.is_power_of_two() && (16..=256).contains(&block) => block,
            other => {
                let to = self.to.format;
                let what = format!("MatMulNBits has no {to}/{other} (want {to}/16, 32, 64, 128 or 256)");
                return Err(refuse(what));
            }
        };
        Ok((bits, block))
    }

    /// What computes the tensors of a weight.
    fn source(
        &self,
        shapes: Shapes,
        is_turned: bool,
        request: &QuantizeRequest,
        last: &Arc<Mutex<LastDecoded>>,
    ) -> Result<NBits<'a>, ModelError> {
        let ChosenWeight { constant, .. } = self;
        let (from, to) = (constant.data_type, DataType::Float);
        let plan = |from, to| Cast::new(to, &CastOptions::new().threads(1)).and_then(|cast| cast.plan(from));
        let wrong = |error: onnx_cast::ops::OpError| ModelError::constant(constant.name, error);
        let values = constant.elements.as_ref().and_then(|elements| elements.values(last));
        Ok(NBits {
            values: values.ok_or_else(|| ModelError::constant(constant.name, "its elements cannot be read"))?,
            widen: plan(from, to).map_err(wrong)?,
            narrow: plan(to, from).map_err(wrong)?,
            shapes,
            is_turned,
            has_zero_points: request.zero_points,
            tensor: Tensor::Elements,
            counter: Arc::new(Counter::of_quantized(to, request.run.counts()).map_err(wrong)?),
        })
    }

    /// Replaces a weight with packed tensors, and its readers with operators that read these: one set of tensors, or
    /// two if readers sum along both axes. No opset is needed for onnxruntime's own operators.
    pub(super) fn edit_nbits(
        &self,
        flow: &Flow<'_, 'a>,
        edits: &mut Edits<'a>,
        names: &mut Names,
        request: &QuantizeRequest,
        last: &Arc<Mutex<LastDecoded>>,
    ) -> Result<(TensorSummary, i64, Arc<Counter>), ModelError> {
        let ChosenWeight { constant, to: format, readers, .. } = self;
        let (bits, block) = self.bits_and_block()?;
        let [first, second] = constant.shape[..] else {
            return Err(ModelError::constant(constant.name, "want a matrix"));
        };
        let (mut tensors, mut counter) = (Vec::new(), None);
        for along_rows in sides(readers) {
            let shapes = Shapes::of([first, second], along_rows, bits, block);
            let source = self.source(shapes, along_rows, request, last)?;
            // Both sets hold the same values, which are counted once.
            counter.get_or_insert_with(|| Arc::clone(&source.counter));
            let first = tensors.len();
            tensors.push(self.packed(&source, Tensor::Elements, names)?);
            tensors.push(self.packed(&source, Tensor::Scales, names)?);
            if request.zero_points {
                tensors.push(self.packed(&source, Tensor::ZeroPoints, names)?);
            }
            let operands: Vec<String> = tensors[first..].iter().filter_map(|tensor| tensor.name.clone()).collect();
            let of_side: Vec<&Reader> = readers.all.iter().filter(|one| one.is_along_rows() == along_rows).collect();
            let table = self.table(&of_side, shapes, &mut tensors[first..], edits, names);
            for reader in of_side {
                let step = &flow.steps[reader.step];
                replace(step, shapes.nodes(step, reader.operator, &operands, &table, names), edits);
            }
        }
        let counter = counter.ok_or_else(|| ModelError::constant(constant.name, "nothing reads it"))?;
        readers.drop_between(edits);
        edits.import_microsoft = true;
        let bytes_after = tensors.iter().map(NewTensor::byte_len).sum();
        self.replace_constant(tensors, edits);
        let mut summary =
            TensorSummary::kept(constant.name, constant.shape.clone(), constant.data_type, constant.bytes());
        let to = if bits == 4 { DataType::Uint4 } else { DataType::Uint8 };
        (summary.to, summary.bytes_after, summary.cast) = (to, bytes_after, true);
        summary.quantized = Some(*format);
        Ok((summary, 0, counter))
    }

    /// One of the tensors of a packed weight.
    fn packed(&self, source: &NBits<'a>, tensor: Tensor, names: &mut Names) -> Result<NewTensor<'a>, ModelError> {
        let Shapes { bits, .. } = source.shapes;
        let [elements, scales, zero_points] = source.shapes.tensors();
        let (suffix, data_type, shape) = match tensor {
            Tensor::Elements => (format!("Q{bits}"), DataType::Uint8, elements),
            Tensor::Scales => ("scales".to_owned(), self.constant.data_type, scales),
            Tensor::ZeroPoints => ("zero_points".to_owned(), DataType::Uint8, zero_points),
        };
        let source = Computed(Arc::new(NBits { tensor, ..source.clone() }));
        let len = element_count(&shape).ok_or_else(|| ModelError::constant(self.constant.name, "too large"))?;
        let elements = CastElements::new(ElementSource::Computed(source), data_type, len);
        let home = match (tensor, self.constant.message) {
            (Tensor::Elements, message) => Home::of(message),
            (_, message) => message.map_or(Home::Model, Home::LargeLike),
        };
        let name = Some(names.fresh(format!("{}_{suffix}", self.constant.name)));
        Ok(NewTensor { message: None, name, shape, home, content: Content::Elements(elements) })
    }

    /// The name of the packed elements as GatherBlockQuantized reads them, as a matrix of bytes. MatMulNBits reads
    /// them by blocks, so that a table with readers of both kinds needs a Reshape, which onnxruntime computes once.
    fn table(
        &self,
        readers: &[&Reader],
        shapes: Shapes,
        tensors: &mut [NewTensor<'a>],
        edits: &mut Edits<'a>,
        names: &mut Names,
    ) -> String {
        let Some(elements) = tensors.first_mut() else { return String::new() };
        let name = elements.name.clone().unwrap_or_default();
        if readers.iter().all(|reader| reader.operator == Operator::Gather) {
            elements.shape = shapes.table();
        } else if readers.iter().any(|reader| reader.operator == Operator::Gather) {
            return self.reshaped(&name, &shapes.table(), edits, names);
        }
        name
    }
}

/// What to know before onnxruntime runs products of packed weights.
pub(super) fn note(weights: &[ChosenWeight<'_>]) -> Option<String> {
    weights.iter().any(|one| one.constant.data_type == DataType::Float16).then(|| {
        "on a CPU, onnxruntime 1.31 may give zeros for MatMulNBits of float16 below the graph optimization level all"
            .to_owned()
    })
}

/// Whether readers sum along the first axis of a weight (false), the last one (true), or both.
fn sides(readers: &Readers) -> impl Iterator<Item = bool> + '_ {
    let has = |side: &bool| readers.all.iter().any(|reader| reader.is_along_rows() == *side);
    [false, true].into_iter().filter(has)
}

/// Sizes of a packed matrix.
#[derive(Clone, Copy)]
struct Shapes {
    bits: u32,
    block: usize,
    /// The length of the sums.
    rows: usize,
    /// The number of sums.
    columns: usize,
}

impl Shapes {
    fn of([first, second]: [usize; 2], along_rows: bool, bits: u32, block: usize) -> Shapes {
        let [rows, columns] = if along_rows { [second, first] } else { [first, second] };
        Shapes { bits, block, rows, columns }
    }

    /// The shapes of elements, scales and zero points.
    fn tensors(self) -> [Vec<usize>; 3] {
        let Shapes { bits, block, rows, columns } = self;
        let (bits, blocks) = (bits as usize, rows.div_ceil(block));
        [vec![columns, blocks, block * bits / 8], vec![columns, blocks], vec![columns, (blocks * bits).div_ceil(8)]]
    }

    /// The shape of elements that GatherBlockQuantized reads.
    fn table(self) -> Vec<usize> {
        vec![self.columns, self.rows * self.bits as usize / 8]
    }

    /// The nodes in place of a reader of the weight.
    fn nodes<'a>(
        self,
        step: &Step<'_, 'a>,
        operator: Operator,
        operands: &[String],
        table: &str,
        names: &mut Names,
    ) -> Vec<NewNode<'a>> {
        let Shapes { bits, block, rows, columns } = self;
        let node = step.node;
        let [bits, block_size] = [("bits", bits as usize), ("block_size", block)];
        if operator == Operator::Gather {
            let inputs = [vec![table.to_owned(), input(node, 1)], operands[1..].to_vec()].concat();
            let ints = [bits, block_size, ("gather_axis", 0), ("quantize_axis", 1)];
            return vec![microsoft("GatherBlockQuantized", node.name, inputs, output(node), &ints)];
        }
        let (product, add) = with_bias(input(node, 2), output(node), names);
        let inputs = [vec![input(node, 0)], operands.to_vec()].concat();
        let ints = [("K", rows), ("N", columns), bits, block_size, LEVEL];
        let mut nodes = vec![microsoft("MatMulNBits", node.name, inputs, product, &ints)];
        nodes.extend(add);
        nodes
    }
}

/// A node of onnxruntime's own domain.
fn microsoft<'a>(
    op_type: &str,
    name: &str,
    inputs: Vec<String>,
    output: String,
    ints: &[(&str, usize)],
) -> NewNode<'a> {
    let attributes = ints.iter().map(|(name, value)| NewAttribute::int(name, *value as i64)).collect();
    let node = NewNode::new(op_type, name.to_owned(), inputs, output);
    NewNode { domain: MICROSOFT.to_owned(), attributes, ..node }
}

/// Lets onnxruntime quantize inputs to 8 bits: with floats it takes longer than MatMul does, by 8 bits twenty times.
const LEVEL: (&str, usize) = ("accuracy_level", 4);

/// Makes a buffer so long; `None` where there is no memory.
fn resize(bytes: &mut Vec<u8>, len: usize) -> Option<()> {
    onnx_cast_file::__private::memory::resize(bytes, len)
}

#[cfg(test)]
mod tests {
    use super::rounded;

    #[test]
    fn halves_are_rounded_up() {
        let halves = (0..512).map(|half| half as f32 / 2.0).filter(|half| *half <= 255.0);
        for value in halves.flat_map(|half| [half.next_down(), half, half.next_up()]).filter(|one| *one >= 0.0) {
            let value = value.min(255.0);
            assert_eq!(rounded(value), value.round() as u8, "{value:?}");
        }
    }
}
