//! int8 weights by which integers are multiplied. Inputs are quantized to uint8 whenever the model runs, as by
//! onnxruntime's `quantize_dynamic`: MatMul and Gemm become DynamicQuantizeLinear, MatMulInteger and products with the
//! scales, Conv likewise with ConvInteger, and LSTM becomes DynamicQuantizeLSTM (com.microsoft). Gather takes rows of
//! int8, which are multiplied by their scales.
//!
//! The ranges of weights are symmetric, so their zero points are 0.

use super::ChosenWeight;
use super::counterparts::Operator;
use super::dequantize_linear::{Form, Quantized};
use super::readers::{Reader, Readers, input, output, replace, reshape, with_bias};
use crate::edits::{Content, Edits, Home, NewAttribute, NewNode, NewTensor};
use crate::error::ModelError;
use crate::graph::values::{Flow, Id, Step};
use crate::operators::MICROSOFT;
use crate::rope::{CastElements, ElementSource, LastDecoded};
use crate::tree::Names;
use onnx_cast::DataType;
use onnx_cast_file::__private::Counter;
use onnx_cast_file::{Granularity, QuantizeRequest, QuantizedFormat, Scaled, TensorSummary};
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

/// The operators that have a counterpart for integers.
const OPERATORS: &[Operator] = &[Operator::MatMul, Operator::Gemm, Operator::Conv, Operator::Lstm, Operator::Gather];

/// A node that reads a quantized weight, and the names of what it reads instead.
pub(super) struct Replacement {
    body: usize,
    reader: Reader,
    /// The number of axes of the weight.
    rank: usize,
    by_row: bool,
    elements: String,
    scale: String,
    zero_point: String,
}

/// The axis with the outputs of a weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Outputs {
    First,
    Last,
    /// The first two, directions and gates.
    Lstm,
}

impl Outputs {
    fn of(reader: &Reader) -> Outputs {
        match reader.operator {
            Operator::Lstm => Outputs::Lstm,
            Operator::MatMul | Operator::Gemm if !reader.is_turned => Outputs::Last,
            _ => Outputs::First,
        }
    }
}

impl<'a> ChosenWeight<'a> {
    /// The readers of a weight, all of which have a counterpart for integers.
    ///
    /// # Errors
    /// The inner error is the reason why the weight is kept.
    pub(super) fn dynamic_readers(&self, flow: &Flow<'_, '_>) -> Result<Result<Readers, String>, ModelError> {
        let by_row = self.has_scale_per_row()?;
        if self.constant.data_type != DataType::Float {
            return Ok(Err(format!("{}, and DynamicQuantizeLinear takes float", self.constant.data_type)));
        }
        Ok(Readers::of(flow, self, OPERATORS).and_then(|readers| {
            let outputs: HashSet<Outputs> = readers.all.iter().map(Outputs::of).collect();
            match outputs.len() {
                1 => {}
                _ if outputs.contains(&Outputs::Lstm) => return Err("LSTM and other operators read it".to_owned()),
                _ if by_row => return Err("its outputs are on different axes (int8/tensor fits)".to_owned()),
                _ => {}
            }
            let form = self.integer_form(&readers, by_row);
            self.not_smaller(form.bytes(self.constant.len)).map_or(Ok(readers), Err)
        }))
    }

    /// Whether each output has a scale, or the tensor has one.
    fn has_scale_per_row(&self) -> Result<bool, ModelError> {
        match (self.to.format, self.to.granularity.unwrap_or(Granularity::Row)) {
            (QuantizedFormat::Elements(DataType::Int8), Granularity::Row) => Ok(true),
            (QuantizedFormat::Elements(DataType::Int8), Granularity::Tensor) => Ok(false),
            _ => {
                let what = format!("the form dynamic has no {} (want int8, int8/row or int8/tensor)", self.to);
                Err(ModelError::constant(self.constant.name, what))
            }
        }
    }

    /// The types and shapes of a weight and its scales.
    fn integer_form(&self, readers: &Readers, by_row: bool) -> Form {
        let shape = readers.all.first().map_or_else(Vec::new, |reader| self.scale_shape(reader, by_row));
        Form::plain(DataType::Int8, DataType::Float, shape)
    }

    /// The shape in which a node reads the scales: one that broadcasts to its results, or to the rows that it gives.
    fn scale_shape(&self, reader: &Reader, by_row: bool) -> Vec<usize> {
        let shape = &self.constant.shape;
        let ones = |count| vec![1; count];
        match (reader.operator, Outputs::of(reader)) {
            (Operator::Lstm, _) => shape[..if by_row { 2 } else { 1 }].to_vec(),
            _ if !by_row => Vec::new(),
            (_, Outputs::Last) => vec![shape[shape.len() - 1]],
            (Operator::Conv, _) => [vec![shape[0]], ones(shape.len() - 2)].concat(),
            (Operator::Gather, _) => [vec![shape[0]], ones(shape.len() - 1)].concat(),
            _ => vec![shape[0]],
        }
    }

    /// The sizes before the axis that has scales, of the axis, and behind it.
    fn scaled_axis(&self, reader: &Reader, by_row: bool) -> [usize; 3] {
        let shape = &self.constant.shape;
        let axes = match Outputs::of(reader) {
            Outputs::Lstm => 0..if by_row { 2 } else { 1 },
            Outputs::First => 0..1,
            Outputs::Last => shape.len() - 1..shape.len(),
        };
        [&shape[..axes.start], &shape[axes.clone()], &shape[axes.end..]].map(|sizes| sizes.iter().product())
    }

    /// Quantizes a weight. Adds what each of its readers is replaced with, and returns the opset that this needs.
    pub(super) fn edit_dynamic(
        &self,
        replacements: &mut Vec<Replacement>,
        edits: &mut Edits<'a>,
        names: &mut Names,
        request: &QuantizeRequest,
        last: &Arc<Mutex<LastDecoded>>,
    ) -> Result<(TensorSummary, i64, Arc<Counter>), ModelError> {
        let by_row = self.has_scale_per_row()?;
        let form = self.integer_form(&self.readers, by_row);
        let Some(first) = self.readers.all.first() else {
            return Err(ModelError::constant(self.constant.name, "nothing reads it"));
        };
        let is_of_lstm = first.operator == Operator::Lstm;
        let scaled = if by_row || is_of_lstm { Scaled::Axis } else { Scaled::Tensor };
        let quantized = self.quantized(&form, scaled, self.scaled_axis(first, by_row), edits, request, last)?;
        let Quantized { elements, scales, summary, counter, .. } = quantized;
        let tensors = self.integer_tensors([elements, scales], is_of_lstm, form.scale_shape.clone(), names);
        let name = |index: usize| tensors.get(index).and_then(|tensor| tensor.name.clone()).unwrap_or_default();
        let [elements, scale, zero_point] = [0, 1, 2].map(name);
        // Names by the order of axes, and by the shape of scales: the readers of a weight share what is the same.
        let (mut turned, mut scales) = (None, HashMap::from([(form.scale_shape.clone(), scale.clone())]));
        for reader in &self.readers.all {
            let is_turned = reader.is_turned || is_of_lstm;
            let elements = match is_turned {
                true => turned.get_or_insert_with(|| self.transposed(&elements, edits, names)).clone(),
                false => elements.clone(),
            };
            let shape = self.scale_shape(reader, by_row);
            let scale = match scales.get(&shape) {
                Some(name) => name.clone(),
                None => {
                    let name = self.reshaped(&scale, &shape, edits, names);
                    scales.insert(shape, name.clone());
                    name
                }
            };
            replacements.push(Replacement {
                body: self.body,
                reader: *reader,
                rank: self.constant.shape.len(),
                by_row,
                elements,
                scale,
                zero_point: zero_point.clone(),
            });
        }
        self.readers.drop_between(edits);
        self.replace_constant(tensors, edits);
        let is_product =
            |reader: &Reader| matches!(reader.operator, Operator::MatMul | Operator::Gemm | Operator::Conv);
        // DynamicQuantizeLinear came with version 11; LSTM and Gather had their present meaning before.
        let needs = if self.readers.all.iter().any(is_product) { 11 } else { 7 };
        Ok((summary, needs, counter))
    }

    /// The tensors of elements and scales, and of zero points if LSTM reads them: no other operator needs those.
    fn integer_tensors(
        &self,
        [elements, scales]: [CastElements<'a>; 2],
        has_zero_points: bool,
        scale_shape: Vec<usize>,
        names: &mut Names,
    ) -> Vec<NewTensor<'a>> {
        let mut tensor = |suffix: &str, shape: Vec<usize>, home, elements| NewTensor {
            message: None,
            name: Some(names.fresh(format!("{}_{suffix}", self.constant.name))),
            shape,
            home,
            content: Content::Elements(elements),
        };
        let message = self.constant.message;
        let companion = message.map_or(Home::Model, Home::LargeLike);
        let elements = tensor("int8", self.constant.shape.clone(), Home::of(message), elements);
        let scales = tensor("scale", scale_shape.clone(), companion, scales);
        let mut tensors = vec![elements, scales];
        if has_zero_points {
            let len = scale_shape.iter().product();
            let zeros = CastElements::new(ElementSource::Owned(vec![0; len].into()), DataType::Int8, len);
            tensors.push(tensor("zero_point", scale_shape, companion, zeros));
        }
        tensors
    }

    /// The elements with their last two axes exchanged, by a Transpose that runtimes compute once.
    fn transposed(&self, name: &str, edits: &mut Edits<'a>, names: &mut Names) -> String {
        let output = names.fresh(format!("{name}_transposed"));
        let perm: &[i64] = if self.constant.shape.len() == 3 { &[0, 2, 1] } else { &[1, 0] };
        let node =
            NewNode::new("Transpose", names.fresh(format!("{output}_node")), vec![name.to_owned()], output.clone());
        let edit = edits.graphs.entry(self.graph).or_default();
        edit.first.push(node.with(NewAttribute::ints("perm", perm)));
        output
    }
}

/// What to know before onnxruntime runs products of integers.
pub(super) fn notes(weights: &[ChosenWeight<'_>], reduce_range: bool) -> Vec<String> {
    let has = |is_of: fn(Operator) -> bool| {
        let mut readers = weights.iter().flat_map(|one| &one.readers.all);
        readers.any(|reader| is_of(reader.operator))
    };
    let saturates = has(|operator| operator != Operator::Gather) && !reduce_range;
    let convolves = has(|operator| operator == Operator::Conv);
    let saturates = saturates.then_some(
        "on x86 processors without VNNI, onnxruntime's products of uint8 and int8 saturate, unless the range of weights \
         is reduced, or the session has the option session.x64quantprecision = 1",
    );
    let convolves = convolves.then_some(
        "onnxruntime's ConvInteger may take longer than Conv of floats (an exclude pattern keeps filters float)",
    );
    saturates.into_iter().chain(convolves).map(str::to_owned).collect()
}

/// Which weights must be kept because LSTM, which needs both of its matrices quantized, reads them with one that is
/// kept.
pub(super) fn lack_partners(weights: &[ChosenWeight<'_>]) -> Vec<bool> {
    let lstms = |one: &ChosenWeight<'_>| {
        let lstms = one.readers.all.iter().filter(|reader| reader.operator == Operator::Lstm);
        lstms.map(|reader| (one.body, reader.step)).collect::<Vec<_>>()
    };
    let lstms: Vec<_> = weights.iter().map(lstms).collect();
    let mut are_kept = vec![false; weights.len()];
    loop {
        let mut counts: HashMap<(usize, usize), usize> = HashMap::new();
        let quantized = lstms.iter().zip(&are_kept).filter(|(_, is_kept)| !**is_kept);
        quantized.flat_map(|(steps, _)| steps).for_each(|step| *counts.entry(*step).or_default() += 1);
        let is_kept = |steps: &Vec<_>| steps.iter().any(|step| counts.get(step).is_none_or(|&count| count < 2));
        let next: Vec<bool> = lstms.iter().map(is_kept).collect();
        if next == are_kept {
            return are_kept;
        }
        are_kept = next;
    }
}

/// Replaces every reader of the weights. Nodes of a graph that read one value share its quantized form.
pub(super) fn replace_readers<'a>(
    flows: &[Flow<'_, 'a>],
    mut replacements: Vec<Replacement>,
    edits: &mut Edits<'a>,
    names: &mut Names,
) {
    let step = |one: &Replacement| (one.body, one.reader.step);
    replacements.sort_by_key(|one| (step(one), one.reader.input));
    let mut inputs = HashMap::new();
    for group in replacements.chunk_by(|one, other| step(one) == step(other)) {
        let flow = &flows[group[0].body];
        let at = &flow.steps[group[0].reader.step];
        let nodes = match (group[0].reader.operator, group) {
            (Operator::Lstm, [weight, recurrent]) => vec![lstm(at, weight, recurrent)],
            (Operator::Gather, [table, ..]) => gather(at, table, names),
            (_, [weight, ..]) => product(at, weight, &mut inputs, edits, names),
            (_, []) => continue,
        };
        edits.import_microsoft |= nodes.iter().any(|node| node.domain == MICROSOFT);
        replace(at, nodes, edits);
    }
}

/// DynamicQuantizeLSTM in place of LSTM.
fn lstm<'a>(step: &Step<'_, 'a>, weight: &Replacement, recurrent: &Replacement) -> NewNode<'a> {
    let node = step.node;
    let mut inputs = vec![input(node, 0), weight.elements.clone(), recurrent.elements.clone()];
    inputs.extend((3..8).map(|index| input(node, index)));
    inputs.extend([weight, recurrent].into_iter().flat_map(|one| [one.scale.clone(), one.zero_point.clone()]));
    let attributes = node.attributes.iter().filter(|attribute| attribute.name != "layout");
    NewNode {
        name: node.name.to_owned(),
        op_type: "DynamicQuantizeLSTM".to_owned(),
        domain: MICROSOFT.to_owned(),
        inputs,
        outputs: node.outputs.iter().map(|&output| output.to_owned()).collect(),
        attributes: attributes.map(|attribute| NewAttribute(attribute.message.to_vec())).collect(),
        value: None,
    }
}

/// Gather of int8, and of scales if each row has one, and the product of both.
fn gather<'a>(step: &Step<'_, 'a>, table: &Replacement, names: &mut Names) -> Vec<NewNode<'a>> {
    let output = output(step.node);
    let rows = |of: &str, end: &str, names: &mut Names| {
        let rows = names.fresh(format!("{output}_{end}"));
        let name = names.fresh(format!("{rows}_gather"));
        NewNode::new("Gather", name, vec![of.to_owned(), input(step.node, 1)], rows)
    };
    let mut nodes = vec![rows(&table.elements, "int8", names)];
    let mut scale = table.scale.clone();
    if table.by_row {
        nodes.push(rows(&table.scale, "scale", names));
        scale = nodes[1].outputs[0].clone();
    }
    let elements = nodes[0].outputs[0].clone();
    nodes.extend(scaled(elements, scale, output, step, names));
    nodes
}

/// The values by which an input is quantized: elements, scale and zero point; by the graph and the input.
type Inputs = HashMap<(usize, Id), [String; 3]>;

/// A product of integers in place of MatMul, Gemm or Conv.
fn product<'a>(
    step: &Step<'_, 'a>,
    weight: &Replacement,
    inputs: &mut Inputs,
    edits: &mut Edits<'a>,
    names: &mut Names,
) -> Vec<NewNode<'a>> {
    let (node, mut nodes) = (step.node, Vec::new());
    let key = step.inputs.first().copied().flatten().map(|input| (step.graph.id, input));
    let known = key.and_then(|key| inputs.get(&key).cloned());
    let [elements, scale, zero_point] = known.unwrap_or_else(|| {
        let x = input(node, 0);
        let outputs = ["uint8", "scale", "zero_point"].map(|end| names.fresh(format!("{x}_{end}")));
        let quantize = names.fresh(format!("{x}_quantize"));
        let quantize = NewNode::new("DynamicQuantizeLinear", quantize, vec![x], String::new());
        nodes.push(NewNode { outputs: outputs.to_vec(), ..quantize });
        inputs.extend(key.map(|key| (key, outputs.clone())));
        outputs
    });
    let output = output(node);
    let integers = names.fresh(format!("{output}_int32"));
    let operands = vec![elements, weight.elements.clone(), zero_point];
    let is_conv = weight.reader.operator == Operator::Conv;
    let op_type = if is_conv { "ConvInteger" } else { "MatMulInteger" };
    let mut integer = NewNode::new(op_type, node.name.to_owned(), operands, integers.clone());
    if is_conv {
        integer.attributes = node.attributes.iter().map(|one| NewAttribute(one.message.to_vec())).collect();
    }
    nodes.push(integer);
    let both = names.fresh(format!("{output}_scale"));
    let name = names.fresh(format!("{both}_product"));
    nodes.push(NewNode::new("Mul", name, vec![scale, weight.scale.clone()], both.clone()));
    let mut bias = input(node, 2);
    if is_conv && !bias.is_empty() {
        let shape = (0..weight.rank).map(|axis| if axis == 1 { -1 } else { 1 }).collect::<Vec<i64>>();
        let reshape = reshape(&bias, &shape, step.graph.id, edits, names);
        bias = reshape.outputs[0].clone();
        nodes.push(reshape);
    }
    let (product, add) = with_bias(bias, output, names);
    nodes.extend(scaled(integers, both, product, step, names));
    nodes.extend(add);
    nodes
}

/// Integers as floats, times a scale.
fn scaled<'a>(
    integers: String,
    scale: String,
    output: String,
    step: &Step<'_, 'a>,
    names: &mut Names,
) -> [NewNode<'a>; 2] {
    let float = names.fresh(format!("{integers}_float"));
    let [cast, multiply] = ["cast", "scaled"].map(|end| names.fresh(format!("{integers}_{end}")));
    let cast = NewNode::cast(cast, integers, float.clone(), DataType::Float, step.graph.opset.unwrap_or(i64::MAX));
    [cast, NewNode::new("Mul", multiply, vec![float, scale], output)]
}
