//! A weight as com.microsoft's MatMulNBits reads it, in blocks of 4 or 8 bits: the nodes that multiply by it become
//! MatMulNBits.
//!
//! The arithmetic is that of onnxruntime's own quantizer (`quantize_matmul_4bits`), so that the bits are the same:
//! without zero points the value of the greatest magnitude becomes the lowest code, and so the scale has a sign; with
//! them the range of a block, 0 included, becomes that of the codes. Codes are rounded half away from zero, of products
//! with the reciprocal of the scale. Of a matrix with an odd number of rows the last code of 4 bits has no neighbour;
//! it is 0 here.

use super::ChosenWeight;
use super::readings::{perm, site};
use crate::constant::Site;
use crate::edits::{Content, Edits, Home, NewAttribute, NewNode, NewTensor};
use crate::error::ModelError;
use crate::graph::values::{Flow, Id};
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

/// The nodes that multiply by a weight, by their graphs and places, and what they read and give.
pub(super) struct Products {
    nodes: Vec<Product>,
    /// Transposes between, which are not needed any more.
    transposes: Vec<(usize, usize)>,
}

struct Product {
    graph: usize,
    index: usize,
    name: String,
    input: String,
    output: String,
}

/// The nodes that read a constant, where all of them multiply by it as a right operand.
pub(super) fn products(flow: &Flow<'_, '_>, graph: usize, place: Site) -> Option<Products> {
    let value = (0..flow.values.len()).find(|&value| site(flow, value) == Some((graph, place)))?;
    let mut products = Products { nodes: Vec::new(), transposes: Vec::new() };
    let is_turned = flow.values[value].reads.iter().any(|read| flow.steps[read.step].node.is("Transpose"));
    if !is_turned {
        return products.add(flow, value).then_some(products);
    }
    if flow.values[value].outputs > 0 {
        return None;
    }
    for read in &flow.values[value].reads {
        let step = &flow.steps[read.step];
        let turns =
            step.node.is("Transpose") && perm(step.node).is_ok_and(|perm| perm.is_none_or(|perm| perm == [1, 0]));
        let output = step.outputs.first().copied().flatten().filter(|_| turns)?;
        products.transposes.push((step.graph.id, step.index));
        if !products.add(flow, output) {
            return None;
        }
    }
    Some(products)
}

impl Products {
    /// Adds the nodes that read a value; whether all of them are products.
    fn add(&mut self, flow: &Flow<'_, '_>, value: Id) -> bool {
        let mut reads: Vec<_> = flow.values[value].reads.iter().collect();
        reads.sort_by_key(|read| read.step);
        for read in &reads {
            let step = &flow.steps[read.step];
            let (true, 1, Some(output)) = (step.node.is("MatMul"), read.input, step.node.output()) else {
                return false;
            };
            self.nodes.push(Product {
                graph: step.graph.id,
                index: step.index,
                name: step.node.name.to_owned(),
                input: step.node.inputs[0].to_owned(),
                output: output.to_owned(),
            });
        }
        !reads.is_empty() && flow.values[value].outputs == 0
    }

    /// Replaces the nodes with MatMulNBits.
    fn replace(self, operands: &[String], ints: &[(&str, usize)], edits: &mut Edits<'_>) {
        for (graph, index) in self.transposes {
            edits.graphs.entry(graph).or_default().nodes.entry(index).or_default().drop = true;
        }
        for Product { graph, index, name, input, output } in self.nodes {
            let inputs = std::iter::once(input).chain(operands.iter().cloned()).collect();
            let attributes = ints.iter().map(|(name, value)| NewAttribute::int(name, *value as i64)).collect();
            let (op_type, domain) = ("MatMulNBits".to_owned(), MICROSOFT.to_owned());
            let outputs = vec![output];
            let new = NewNode { name, op_type, domain, inputs, outputs, attributes, value: None };
            let node = edits.graphs.entry(graph).or_default().nodes.entry(index).or_default();
            node.drop = true;
            node.after.push(new);
        }
    }

    /// Whether the weight is stored transposed.
    fn is_turned(&self) -> bool {
        !self.transposes.is_empty()
    }
}

/// A matrix by which MatMulNBits multiplies, and one of the tensors that it reads of it.
#[derive(Clone)]
struct NBits<'a> {
    values: StoredValues<'a>,
    /// From its type to float, and from float to that of the scales.
    widen: Plan,
    narrow: Plan,
    /// The rows, along which products are added up, and the columns.
    rows: usize,
    columns: usize,
    /// Whether a column's values follow each other.
    is_turned: bool,
    bits: u32,
    block: usize,
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
        self.rows.div_ceil(self.block)
    }

    /// Items of a column.
    fn items(&self) -> usize {
        let bits = self.bits as usize;
        match self.tensor {
            Tensor::Elements => self.blocks() * self.block * bits / 8,
            Tensor::Scales => self.blocks(),
            Tensor::ZeroPoints => (self.blocks() * bits).div_ceil(8),
        }
    }

    /// Reads values of columns, as floats, column after column.
    fn read(&self, columns: Range<usize>, rows: Range<usize>, scratch: &mut Scratch) -> Result<(), PipelineError> {
        let no_room = || PipelineError::Read(io::ErrorKind::OutOfMemory.into());
        let width = self.widen.source_type().byte_len(1).unwrap_or(4);
        let (lines, len, pitch, first) = match self.is_turned {
            true => (columns.len(), rows.len(), self.rows, columns.start * self.rows + rows.start),
            false => (rows.len(), columns.len(), self.columns, rows.start * self.columns + columns.start),
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
        let [full, middle] = [((1u32 << self.bits) - 1) as f32, (1u32 << (self.bits - 1)) as f32];
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
            Tensor::ZeroPoints if self.bits == 8 => out[index] = zero_point as u8,
            Tensor::ZeroPoints => {
                // The last of an odd number has the middle beside it.
                let beside = if index.is_multiple_of(2) && index + 1 == self.blocks() { 0x80 } else { 0 };
                out[index / 2] |= (zero_point as u8) << (index % 2 * 4) | beside;
            }
            Tensor::Elements => {
                let size = self.block * self.bits as usize / 8;
                let out = &mut out[index * size..][..size];
                let (reciprocal, most) = (if used == 0.0 { 0.0 } else { 1.0 / used }, ((1u32 << self.bits) - 1) as f32);
                let code =
                    |value: &[u8; 4]| rounded((f32::from_le_bytes(*value) * reciprocal + zero_point).clamp(0.0, most));
                if self.bits == 8 {
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
        let rows = (PART.max(self.block) / self.block * self.block).min(self.rows);
        let step = if rows < self.rows { 1 } else { columns };
        for first in (0..columns).step_by(step.max(1)) {
            let columns = first..(first + step).min(columns);
            for row in (0..self.rows).step_by(rows.max(1)) {
                let part = row..(row + rows).min(self.rows);
                self.read(column + columns.start..column + columns.end, part.clone(), scratch)?;
                let values = scratch.results.as_chunks::<4>().0;
                let are_counted =
                    self.tensor == Tensor::Elements && self.counter.is_interested(values.as_flattened(), values.len());
                for (index, values) in columns.clone().zip(values.chunks(part.len())) {
                    let out = &mut out[index * items * width..][..items * width];
                    for (block, x) in (row / self.block..blocks).zip(values.chunks(self.block)) {
                        self.block(block, x, out, are_counted.then_some(&mut sides)).map_err(PipelineError::Cast)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn chunk(&self) -> usize {
        let most = (16 * PART / self.rows.max(1)).max(1);
        (PART / self.rows.max(1)).max(COLUMNS).min(most) * self.items()
    }
}

impl<'a> ChosenWeight<'a> {
    /// Why MatMulNBits cannot read a weight, or would not make it smaller.
    pub(super) fn not_for_nbits(
        &self,
        products: Option<&Products>,
        has_zero_points: bool,
    ) -> Result<Option<String>, ModelError> {
        let because = |reason: &str| Ok(Some(reason.to_owned()));
        let (bits, block) = self.bits_and_block()?;
        match products {
            _ if self.is_in_function => because("MatMulNBits is unsupported in functions"),
            _ if self.constant.shape.len() != 2 => because("MatMulNBits takes matrices"),
            None => because("it is an output, or another operator than MatMul, or its left operand, reads it"),
            Some(products) => {
                let shapes = self.nbits_shapes(products, bits, block)?;
                let width = self.constant.data_type.byte_len(1).unwrap_or(4);
                let [packed, scales, zero_points] = shapes.tensors().map(|shape| element_count(&shape));
                let zero_points = if has_zero_points { zero_points } else { Some(0) };
                let all = || packed?.checked_add(scales?.checked_mul(width)?)?.checked_add(zero_points?);
                Ok(self.not_smaller(all().map(|bytes| bytes as u64)))
            }
        }
    }

    /// The sizes of the tensors of a weight.
    fn nbits_shapes(&self, products: &Products, bits: u32, block: usize) -> Result<Shapes, ModelError> {
        let [rows, columns] = match self.constant.shape[..] {
            [columns, rows] if products.is_turned() => [rows, columns],
            [rows, columns] => [rows, columns],
            _ => return Err(ModelError::constant(self.constant.name, "MatMulNBits takes matrices")),
        };
        Ok(Shapes { bits, block, rows, columns })
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
        [rows, columns]: [usize; 2],
        is_turned: bool,
        (bits, block): (u32, usize),
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
            rows,
            columns,
            is_turned,
            bits,
            block,
            has_zero_points: request.zero_points,
            tensor: Tensor::Elements,
            counter: Arc::new(Counter::of_quantized(to, request.run.counts()).map_err(wrong)?),
        })
    }

    /// As [`ChosenWeight::edit`], with MatMulNBits instead of the products.
    pub(super) fn edit_products(
        self,
        products: Products,
        edits: &mut Edits<'a>,
        names: &mut Names,
        request: &QuantizeRequest,
        last: &Arc<Mutex<LastDecoded>>,
    ) -> Result<(TensorSummary, Arc<Counter>), ModelError> {
        let ChosenWeight { constant, to: format, graph, site, input, .. } = &self;
        let refuse = |what: String| ModelError::constant(constant.name, what);
        let (bits, block) = self.bits_and_block()?;
        let shapes = self.nbits_shapes(&products, bits, block)?;
        let (Shapes { rows, columns, .. }, from) = (shapes, constant.data_type);
        let source = self.source([rows, columns], products.is_turned(), (bits, block), request, last)?;
        let counter = Arc::clone(&source.counter);
        let [packed, scales, zero_points] = shapes.tensors();
        let mut bytes_after = 0;
        let mut tensor = |kind, end: &str, data_type, shape: Vec<usize>| -> Result<_, ModelError> {
            let source = NBits { tensor: kind, ..source.clone() };
            let len = element_count(&shape).ok_or_else(|| refuse("too large".to_owned()))?;
            let elements = CastElements::new(ElementSource::Computed(Computed(Arc::new(source))), data_type, len);
            bytes_after += elements.byte_len().unwrap_or(0);
            let name = names.fresh(format!("{}_{end}", constant.name));
            let content = Content::Elements(elements);
            let home = match (kind, constant.message) {
                (Tensor::Elements, message) => Home::of(message),
                (_, message) => message.map_or(Home::Model, Home::LargeLike),
            };
            Ok(NewTensor { message: None, name: Some(name), shape, home, content })
        };
        let packed = tensor(Tensor::Elements, &format!("Q{bits}"), DataType::Uint8, packed)?;
        let mut tensors = vec![packed, tensor(Tensor::Scales, "scales", from, scales)?];
        if request.zero_points {
            tensors.push(tensor(Tensor::ZeroPoints, "zero_points", DataType::Uint8, zero_points)?);
        }
        let operands: Vec<String> = tensors.iter().filter_map(|tensor| tensor.name.clone()).collect();
        let edit = edits.graphs.entry(*graph).or_default();
        edit.added_initializers.extend(tensors);
        match site {
            Site::Initializer(index, _) => drop(edit.initializers.insert(*index, None)),
            Site::Node(index) => edit.nodes.entry(*index).or_default().drop = true,
        }
        input.iter().for_each(|input| drop(edit.inputs.insert(*input, None)));
        let ints = [("K", rows), ("N", columns), ("bits", bits as usize), ("block_size", block), LEVEL];
        products.replace(&operands, &ints, edits);
        let mut summary = TensorSummary::kept(constant.name, constant.shape.clone(), from, constant.bytes());
        let to = if bits == 4 { DataType::Uint4 } else { DataType::Uint8 };
        (summary.to, summary.bytes_after, summary.cast) = (to, bytes_after, true);
        summary.quantized = Some(*format);
        Ok((summary, counter))
    }
}

/// Sizes of a matrix for MatMulNBits.
#[derive(Clone, Copy)]
struct Shapes {
    bits: u32,
    block: usize,
    rows: usize,
    columns: usize,
}

impl Shapes {
    /// The shapes of elements, scales and zero points.
    fn tensors(self) -> [Vec<usize>; 3] {
        let Shapes { bits, block, rows, columns } = self;
        let (bits, blocks) = (bits as usize, rows.div_ceil(block));
        [vec![columns, blocks, block * bits / 8], vec![columns, blocks], vec![columns, (blocks * bits).div_ceil(8)]]
    }
}

/// Lets onnxruntime quantize inputs to 8 bits: with floats it takes longer than MatMul does, by 8 bits twenty times.
const LEVEL: (&str, usize) = ("accuracy_level", 4);

/// The domain of MatMulNBits.
pub(crate) const MICROSOFT: &str = "com.microsoft";

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
