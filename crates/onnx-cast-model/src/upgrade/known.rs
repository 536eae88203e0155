//! What a body tells of its values without being run: types and ranks as far as declarations and the plainest operators
//! tell them, the constants, and which values anything reads.

use crate::constant::Constant;
use crate::external::Files;
use crate::messages::value_info;
use crate::tree::{Document, Graph, Node, is_default};
use onnx_cast::{Cast, CastOptions, DataType, Tensor};
use onnx_cast_file::formats::pb;
use onnx_cast_file::formats::protobuf::wire::{Value, all_bytes, last};
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

#[derive(Clone, Copy)]
enum Source<'t, 'a> {
    Tensor(&'a [u8]),
    Node(&'t Node<'a>),
}

/// What is known of the values of a body, by name. Of a name that two graphs give to different values, only that on
/// which they agree.
#[derive(Default)]
pub(super) struct Known<'t, 'a> {
    types: HashMap<&'a str, Option<DataType>>,
    ranks: HashMap<&'a str, Option<usize>>,
    constants: HashMap<&'a str, Option<Source<'t, 'a>>>,
    read: HashSet<&'a str>,
}

/// Notes a fact; `None` where there is another already.
fn note<'a, T: PartialEq>(facts: &mut HashMap<&'a str, Option<T>>, name: &'a str, fact: T) {
    match facts.get_mut(name) {
        None => drop(facts.insert(name, Some(fact))),
        Some(there) if *there == Some(fact) => {}
        Some(there) => *there = None,
    }
}

impl<'t, 'a> Known<'t, 'a> {
    pub(super) fn of(document: &Document<'a>, body: &'t Graph<'a>) -> Self {
        let mut known = Known::default();
        for graph in body.every() {
            known.declarations(document, graph);
        }
        for graph in body.every() {
            known.read.extend(graph.outputs.iter().map(|output| output.name));
            known.read.extend(graph.nodes.iter().flat_map(|node| node.inputs.iter().copied()));
        }
        known.infer(body);
        known
    }

    fn declarations(&mut self, document: &Document<'a>, graph: &'t Graph<'a>) {
        // From version 4 of the format on, an input's initializer may be replaced.
        let inputs: HashSet<&str> = match document.ir_version {
            4.. => graph.inputs.iter().map(|input| input.name).collect(),
            _ => HashSet::new(),
        };
        for declared in graph.inputs.iter().chain(&graph.outputs).chain(&graph.value_info) {
            if let Some(data_type) = declared.data_type {
                note(&mut self.types, declared.name, data_type);
            }
            if let Some(rank) = rank(declared.message) {
                note(&mut self.ranks, declared.name, rank);
            }
        }
        for named in &graph.initializers {
            if let Ok(head) = pb::head(named.message) {
                note(&mut self.types, named.name, head.data_type);
                note(&mut self.ranks, named.name, head.shape.len());
            }
            let source = Some(Source::Tensor(named.message)).filter(|_| !inputs.contains(named.name));
            self.constants.entry(named.name).and_modify(|there| *there = None).or_insert(source);
        }
        for node in &graph.nodes {
            let Some(name) = node.output() else { continue };
            let source = Some(Source::Node(node)).filter(|_| node.is("Constant"));
            self.constants.entry(name).and_modify(|there| *there = None).or_insert(source);
        }
    }

    fn infer(&mut self, graph: &Graph<'a>) {
        for node in &graph.nodes {
            for within in node.graphs() {
                self.infer(within);
            }
            let (true, Some(&output)) = (is_default(node.domain), node.outputs.first()) else { continue };
            let first = node.inputs.first().copied().unwrap_or_default();
            let like = LIKE_FIRST.contains(&node.op_type);
            let data_type = match node.op_type {
                "Cast" => node.target(),
                _ if like || TYPE_OF_FIRST.contains(&node.op_type) => self.data_type(first),
                _ => None,
            };
            let rank = match node.op_type {
                "Flatten" | "Gemm" => Some(2),
                "Cast" => self.rank(first),
                _ if like => self.rank(first),
                _ => None,
            };
            let outputs = if node.is("Split") { &node.outputs[..] } else { &[output] };
            for output in outputs {
                if let Some(data_type) = data_type {
                    self.types.entry(output).or_insert(Some(data_type));
                }
                if let Some(rank) = rank {
                    self.ranks.entry(output).or_insert(Some(rank));
                }
            }
        }
    }

    pub(super) fn data_type(&self, name: &str) -> Option<DataType> {
        self.types.get(name).copied().flatten()
    }

    pub(super) fn rank(&self, name: &str) -> Option<usize> {
        self.ranks.get(name).copied().flatten()
    }

    /// Whether a node reads a value, or a graph gives it.
    pub(super) fn is_read(&self, name: &str) -> bool {
        self.read.contains(name)
    }

    /// The elements of a constant of floats.
    pub(super) fn floats(&self, name: &str, files: &'a Files) -> Option<Vec<f32>> {
        let constant = match (*self.constants.get(name)?)? {
            Source::Tensor(message) => Constant::of_tensor("", message, files).ok()?,
            Source::Node(node) => Constant::of_node(node, files).ok()??,
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
    let of_type = last(message, value_info::TYPE, Value::bytes).ok()??;
    let tensor = last(of_type, value_info::TENSOR_TYPE, Value::bytes).ok()??;
    let shape = last(tensor, value_info::SHAPE, Value::bytes).ok()??;
    all_bytes(shape, value_info::DIM).try_fold(0, |count, dim| dim.ok().map(|_| count + 1))
}
