//! What a body tells of its values without being run: types and ranks as far as declarations and the plainest operators
//! tell them, the constants, and which values anything reads.

use crate::constant::Constant;
use crate::external::Files;
use crate::graph::values::{Flow, Id, Origin, Value};
use crate::messages::value_info;
use crate::tree::{Document, Graph, is_default};
use crate::types::value::ValueType;
use crate::types::{Body, Typing};
use onnx_cast::{Cast, CastOptions, DataType, Tensor};
use onnx_cast_file::engine::pb;
use onnx_cast_file::engine::wire::{self, all_bytes, last};
use std::collections::{HashMap, HashSet};

/// Operators whose outputs are of the type and the rank of their first input.
const LIKE_FIRST: &[&str] = &[
    "Abs",
    "Acos",
    "Acosh",
    "Asin",
    "Asinh",
    "Atan",
    "Atanh",
    "AveragePool",
    "BatchNormalization",
    "Ceil",
    "Celu",
    "Clip",
    "Concat",
    "Conv",
    "ConvTranspose",
    "Cos",
    "Cosh",
    "CumSum",
    "DepthToSpace",
    "Dropout",
    "Elu",
    "Erf",
    "Exp",
    "Floor",
    "GlobalAveragePool",
    "GlobalLpPool",
    "GlobalMaxPool",
    "GroupNormalization",
    "HardSigmoid",
    "HardSwish",
    "Hardmax",
    "Identity",
    "InstanceNormalization",
    "LRN",
    "LayerNormalization",
    "LeakyRelu",
    "Log",
    "LogSoftmax",
    "LpNormalization",
    "LpPool",
    "MaxPool",
    "MeanVarianceNormalization",
    "Mish",
    "Neg",
    "PRelu",
    "Pad",
    "Reciprocal",
    "Relu",
    "Resize",
    "Round",
    "Selu",
    "Shrink",
    "Sigmoid",
    "Sign",
    "Sin",
    "Sinh",
    "Slice",
    "Softmax",
    "Softplus",
    "Softsign",
    "SpaceToDepth",
    "Split",
    "Sqrt",
    "Tan",
    "Tanh",
    "ThresholdedRelu",
    "Tile",
    "TopK",
    "Transpose",
    "Trilu",
    "Upsample",
];

/// Operators whose first output is of the type of their first input alone.
const TYPE_OF_FIRST: &[&str] = &[
    "Add",
    "Compress",
    "Div",
    "Einsum",
    "Expand",
    "Flatten",
    "GRU",
    "Gather",
    "GatherElements",
    "GatherND",
    "Gemm",
    "LSTM",
    "MatMul",
    "Max",
    "MaxRoiPool",
    "Mean",
    "Min",
    "Mod",
    "Mul",
    "Pow",
    "RNN",
    "ReduceL1",
    "ReduceL2",
    "ReduceLogSum",
    "ReduceLogSumExp",
    "ReduceMax",
    "ReduceMean",
    "ReduceMin",
    "ReduceProd",
    "ReduceSum",
    "ReduceSumSquare",
    "Reshape",
    "ReverseSequence",
    "RoiAlign",
    "Scatter",
    "ScatterElements",
    "ScatterND",
    "Squeeze",
    "Sub",
    "Sum",
    "Unsqueeze",
];

/// What is known of the values of a body, by value: graphs within may give one name to values of different types and
/// ranks.
pub(super) struct BodyFacts<'t, 'a> {
    flow: Flow<'t, 'a>,
    /// The step of a node, by the number of its graph and its place there.
    steps: HashMap<(usize, usize), usize>,
    types: Vec<Option<DataType>>,
    ranks: Vec<Option<usize>>,
    /// Whether an initializer that is an input too may be replaced: from version 4 of the format on.
    inputs_replace: bool,
}

/// What is known where a node stands, of the values that it reads and gives.
#[derive(Clone, Copy)]
pub(super) struct At<'k, 't, 'a> {
    known: &'k BodyFacts<'t, 'a>,
    /// None of a node that the body does not have.
    step: Option<usize>,
}

impl<'t, 'a> BodyFacts<'t, 'a> {
    pub(super) fn of(document: &Document<'a>, body: &'t Graph<'a>) -> Self {
        let flow = Flow::of(body);
        let steps = flow.steps.iter().enumerate().map(|(at, step)| ((step.graph.id, step.index), at)).collect();
        let types = flow.values.iter().map(|value| value.data_type).collect();
        let ranks = declared_ranks(&flow);
        let mut known = BodyFacts { flow, steps, types, ranks, inputs_replace: document.ir_version >= 4 };
        known.infer(document);
        known
    }

    /// What inference by type tells, too: of a function, where it is the same for all of its calls.
    pub(super) fn with_types(document: &'t Document<'a>, body: &'t Graph<'a>, typing: Option<&Typing<'t, 'a>>) -> Self {
        let mut known = BodyFacts::of(document, body);
        let of_body = |typed: &&Body<'t, 'a>| {
            typed.function.map_or(&document.graph, |place| &document.functions[place]).id == body.id
        };
        let mut typed = typing.into_iter().flat_map(|typing| &typing.bodies).filter(of_body);
        let tensor = |of_type: &Option<ValueType>| match of_type {
            Some(ValueType::Tensor(data_type)) => Some(*data_type),
            _ => None,
        };
        // The values of one body have the same places in each.
        let Some(first) = typed.next() else { return known };
        let mut types: Vec<_> = first.types.iter().map(tensor).collect();
        for other in typed {
            for (agreed, of_type) in types.iter_mut().zip(&other.types) {
                *agreed = agreed.filter(|agreed| tensor(of_type) == Some(*agreed));
            }
        }
        for (known, inferred) in known.types.iter_mut().zip(types) {
            *known = known.or(inferred);
        }
        known
    }

    /// Facts about the values of a node.
    pub(super) fn at(&self, graph: usize, index: usize) -> At<'_, 't, 'a> {
        At { known: self, step: self.steps.get(&(graph, index)).copied() }
    }

    fn infer(&mut self, document: &Document<'_>) {
        let signatures = document.functions.iter().filter_map(|function| function.signature.as_ref());
        let own = signatures.filter(|signature| is_default(signature.domain)).map(|signature| signature.name);
        let functions: HashSet<&str> = own.collect();
        for step in &self.flow.steps {
            let node = step.node;
            if !is_default(node.domain) || functions.contains(node.op_type) {
                continue;
            }
            let first = step.inputs.first().copied().flatten();
            let like = LIKE_FIRST.contains(&node.op_type);
            let data_type = match node.op_type {
                "Cast" => node.target(),
                _ if like || TYPE_OF_FIRST.contains(&node.op_type) => first.and_then(|id| self.types[id]),
                _ => None,
            };
            let rank = match node.op_type {
                "Flatten" | "Gemm" => Some(2),
                _ if like || node.is("Cast") => first.and_then(|id| self.ranks[id]),
                _ => None,
            };
            let outputs = if node.is("Split") { &step.outputs[..] } else { step.outputs.get(..1).unwrap_or_default() };
            for &id in outputs.iter().flatten() {
                self.types[id] = self.types[id].or(data_type);
                self.ranks[id] = self.ranks[id].or(rank);
            }
        }
    }
}

/// The ranks that graphs declare, and those of initializers.
fn declared_ranks(flow: &Flow<'_, '_>) -> Vec<Option<usize>> {
    let mut declared: HashMap<(usize, &str), Option<usize>> = HashMap::new();
    for graph in flow.graphs.values() {
        for one in graph.inputs.iter().chain(&graph.outputs).chain(&graph.value_info) {
            let Some(rank) = rank(one.message) else { continue };
            // Of two that differ none is believed.
            let there = declared.entry((graph.id, one.name)).or_insert(Some(rank));
            *there = there.filter(|&there| there == rank);
        }
    }
    let rank_of = |value: &Value<'_>| {
        let initializer = match value.origin {
            Origin::Initializer(index, _) => {
                flow.graphs.get(&value.graph).and_then(|graph| graph.initializers.get(index))
            }
            _ => None,
        };
        let stored = initializer.and_then(|named| Some(pb::head(named.message).ok()?.shape.len()));
        stored.or_else(|| declared.get(&(value.graph, value.name)).copied().flatten())
    };
    flow.values.iter().map(rank_of).collect()
}

impl<'a> At<'_, '_, 'a> {
    /// The value that the node reads or gives by a name.
    fn value(self, name: &str) -> Option<Id> {
        let step = &self.known.flow.steps[self.step?];
        let among = |names: &[&str], ids: &[Option<Id>]| {
            let place = names.iter().position(|one| *one == name)?;
            ids.get(place).copied().flatten()
        };
        among(&step.node.inputs, &step.inputs).or_else(|| among(&step.node.outputs, &step.outputs))
    }

    pub(super) fn data_type(self, name: &str) -> Option<DataType> {
        self.known.types[self.value(name)?]
    }

    pub(super) fn rank(self, name: &str) -> Option<usize> {
        self.known.ranks[self.value(name)?]
    }

    /// Whether a node reads a value, or a graph gives it.
    pub(super) fn is_read(self, name: &str) -> bool {
        let flow = &self.known.flow;
        self.value(name).is_none_or(|id| !flow.is_unused(id)) || flow.is_unknown(name)
    }

    /// The elements of a constant of floats.
    pub(super) fn floats(self, name: &str, files: &'a Files<'a>) -> Option<Vec<f32>> {
        let flow = &self.known.flow;
        let value = &flow.values[self.value(name)?];
        let constant = match value.origin {
            Origin::Initializer(index, input) if input.is_none() || !self.known.inputs_replace => {
                let named = flow.graphs.get(&value.graph)?.initializers.get(index)?;
                Constant::of_tensor("", named.message, files).ok()?
            }
            Origin::Node(step, _) => Constant::of_node(flow.steps[step].node, files).ok()??,
            _ => return None,
        };
        let elements = constant.elements.filter(|elements| elements.len <= MOST_FLOATS)?;
        let tensor = Tensor::new(constant.data_type, constant.shape, elements.read()?).ok()?;
        let cast = Cast::new(DataType::Float, &CastOptions::new()).ok()?;
        cast.run(&tensor.view()).ok()?.to_vec::<f32>()
    }
}

/// Scales are one for each axis. A constant of more elements is something else.
const MOST_FLOATS: usize = 1024;

/// The rank that a ValueInfoProto tells.
fn rank(message: &[u8]) -> Option<usize> {
    let of_type = last(message, value_info::TYPE, wire::Value::bytes).ok()??;
    let tensor = last(of_type, value_info::TENSOR_TYPE, wire::Value::bytes).ok()??;
    let shape = last(tensor, value_info::SHAPE, wire::Value::bytes).ok()??;
    all_bytes(shape, value_info::DIM).try_fold(0, |count, dim| dim.ok().map(|_| count + 1))
}
