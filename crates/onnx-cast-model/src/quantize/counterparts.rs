//! Operators that onnxruntime computes with quantized weights too: by counterparts that the other forms of `quantize`
//! write, or by fusing them with a DequantizeLinear.

use crate::graph::values::{Flow, Id, Step};
use crate::messages::attribute;
use crate::tree::{Node, is_default};
use crate::types::ranks::shape_of_constant;
use onnx_cast_file::__private::wire::{FieldValue, last};

/// An operator with a counterpart for quantized weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    MatMul,
    Gemm,
    Conv,
    Lstm,
    Gather,
}

impl Operator {
    /// The operator of a node whose counterpart would give the same, with the weight at this input.
    pub(super) fn of(step: &Step<'_, '_>, input: usize) -> Option<Operator> {
        let node = step.node;
        let is_plain_gemm = || {
            let has_bias = node.inputs.get(2).is_some_and(|bias| !bias.is_empty());
            // Gemm broadcasts its third input as Add does from version 7 on.
            int(node, "transA", 0) == 0
                && is_one(node, "alpha")
                && (!has_bias || is_one(node, "beta") && step.graph.opset.is_some_and(|opset| opset >= 7))
        };
        let is_known = is_default(node.domain) && !node.attributes.iter().any(|attribute| attribute.refers);
        match (node.op_type, input) {
            _ if !is_known => None,
            ("MatMul", 1) => Some(Operator::MatMul),
            ("Gemm", 1) if is_plain_gemm() => Some(Operator::Gemm),
            ("Conv", 1) => Some(Operator::Conv),
            ("LSTM", 1 | 2) if int(node, "layout", 0) == 0 => Some(Operator::Lstm),
            ("Gather", 0) if int(node, "axis", 0) == 0 => Some(Operator::Gather),
            _ => None,
        }
    }
}

/// Why a reader keeps a weight as it is.
pub(super) fn reason(node: &Node<'_>, input: usize) -> String {
    match (node.op_type, input) {
        ("MatMul" | "Gemm", 0) => format!("it is the left operand of {}", node.op_type),
        ("Gemm", 1) => "Gemm reads it with alpha, beta or transA".to_owned(),
        ("LSTM", 1 | 2) if int(node, "layout", 0) != 0 => "LSTM reads it with layout = 1".to_owned(),
        ("Gather", 0) => format!("Gather reads it along axis {}", int(node, "axis", 0)),
        (operator, _) => format!("{operator} reads it"),
    }
}

/// An attribute that holds an integer.
pub(super) fn int(node: &Node<'_>, name: &str, default: i64) -> i64 {
    node.attribute(name).map_or(default, |attribute| attribute.int())
}

/// Whether an attribute that holds a float is 1, its default.
fn is_one(node: &Node<'_>, name: &str) -> bool {
    node.attribute(name).is_none_or(|attribute| {
        let word = last(attribute.message, attribute::F, FieldValue::word).ok().flatten();
        word.map(f32::from_le_bytes) == Some(1.0)
    })
}

/// Whether onnxruntime makes MatMulNBits of a node and the DequantizeLinear of its right operand, a matrix, unless
/// [`is_clipped`]. `rank` tells the rank of a value.
pub(super) fn fuses(
    flow: &Flow<'_, '_>,
    rank: &impl Fn(Id) -> Option<usize>,
    step: &Step<'_, '_>,
    input: usize,
) -> bool {
    let value = |step: &Step<'_, '_>, input: usize| step.inputs.get(input).copied().flatten();
    let shape = |value: Id| shape_of_constant(flow, flow.source(value, |step| step.node.is("Identity")).0);
    let columns = value(step, 1).and_then(shape).and_then(|weight| weight.last().copied());
    // Gemm broadcasts its third input. MatMulNBits takes one number for each column.
    let is_by_column = |bias: Id| match shape(bias) {
        Some(shape) => columns.is_some_and(|columns| shape == [columns]),
        None => rank(bias) == Some(1),
    };
    match Operator::of(step, input) {
        Some(Operator::Gemm) => int(step.node, "transB", 0) == 0 && value(step, 2).is_none_or(is_by_column),
        // The MatMul of two matrices and an Add behind it become Gemm first.
        Some(Operator::MatMul) if value(step, 0).and_then(rank) == Some(2) => match only_reader(flow, step) {
            Some(add) if add.node.is("Add") => {
                let output = step.outputs.first().copied().flatten();
                let mut others = add.inputs.iter().flatten().filter(|&&other| Some(other) != output);
                match others.next() {
                    Some(&bias) if is_by_column(bias) => !is_clipped(flow, add),
                    Some(&bias) => rank(bias) != Some(2),
                    None => true,
                }
            }
            _ => true,
        },
        Some(Operator::MatMul) => true,
        _ => false,
    }
}

/// Whether a node gives its only result to a Relu or Clip, which gives it to one node. onnxruntime then looks for a
/// QuantizeLinear behind, and fuses nothing if it finds none.
pub(super) fn is_clipped(flow: &Flow<'_, '_>, step: &Step<'_, '_>) -> bool {
    let clip = only_reader(flow, step).filter(|clip| clip.node.is("Relu") || clip.node.is("Clip"));
    clip.is_some_and(|clip| only_reader(flow, clip).is_some())
}

/// The node that reads the first output of a node, if it is the only one, by way of Identity and Dropout, which
/// onnxruntime removes first.
fn only_reader<'f, 't, 'a>(flow: &'f Flow<'t, 'a>, mut step: &'f Step<'t, 'a>) -> Option<&'f Step<'t, 'a>> {
    loop {
        let value = &flow.values[step.outputs.first().copied().flatten()?];
        let mut reads = value.reads.iter();
        let (Some(read), None, 0) = (reads.next(), reads.next(), value.outputs) else { return None };
        step = flow.steps.get(read.step)?;
        if !step.node.is("Identity") && !step.node.is("Dropout") {
            return Some(step);
        }
    }
}
