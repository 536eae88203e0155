//! What is to be done with a model, graph by graph. `emit.rs` writes the model with its edits.

use crate::messages::{attribute, node};
use crate::rope::{Elements, Rope};
use onnx_cast::DataType;
use onnx_cast_file::formats::protobuf::wire;
use std::collections::{HashMap, HashSet};

/// What is to be done with a model.
#[derive(Debug, Default)]
pub(crate) struct Edits<'a> {
    /// The new opset of ONNX's own domain, for the model and every function.
    pub(crate) opset: Option<i64>,
    /// The new version of the model format.
    pub(crate) ir_version: Option<u64>,
    /// By the graph's number.
    pub(crate) graphs: HashMap<usize, GraphEdit<'a>>,
}

/// What is to be done with a graph. Numbers are places among what the graph has of a kind.
#[derive(Debug, Default)]
pub(crate) struct GraphEdit<'a> {
    /// Nodes to stand before all others.
    pub(crate) first: Vec<NewNode>,
    pub(crate) nodes: HashMap<usize, NodeEdit<'a>>,
    /// `None` removes.
    pub(crate) initializers: HashMap<usize, Option<NewTensor<'a>>>,
    pub(crate) added_initializers: Vec<NewTensor<'a>>,
    /// `None` removes; else a new name and type.
    pub(crate) inputs: HashMap<usize, Option<(String, DataType)>>,
    /// Declarations of values that there are no more.
    pub(crate) value_info: HashSet<usize>,
}

#[derive(Debug, Default)]
pub(crate) struct NodeEdit<'a> {
    pub(crate) drop: bool,
    /// New names, by place.
    pub(crate) inputs: HashMap<usize, String>,
    pub(crate) outputs: HashMap<usize, String>,
    /// The new value of a Constant.
    pub(crate) value: Option<NewTensor<'a>>,
    /// A Constant in place of the node.
    pub(crate) constant: Option<(String, NewTensor<'a>)>,
    /// Nodes to stand behind it.
    pub(crate) after: Vec<NewNode>,
}

/// A node to be written, of one output.
#[derive(Debug)]
pub(crate) struct NewNode {
    pub(crate) name: String,
    pub(crate) inputs: Vec<String>,
    pub(crate) output: String,
    pub(crate) operator: NewOperator,
}

#[derive(Debug)]
pub(crate) enum NewOperator {
    /// By the version of an opset.
    Cast {
        to: DataType,
        opset: i64,
    },
    Dequantize {
        axis: i64,
        block_size: usize,
        output_dtype: Option<DataType>,
    },
}

impl NewOperator {
    /// The name, and the attributes that are not at their defaults, each as a message.
    fn parts(&self) -> (&'static str, Vec<Vec<u8>>) {
        let int = |name: &str, value: i64| {
            let mut message = Vec::new();
            wire::put_bytes(&mut message, attribute::NAME, name.as_bytes());
            wire::put_int(&mut message, attribute::I, value as u64);
            wire::put_int(&mut message, attribute::TYPE, attribute::kind::INT);
            message
        };
        match *self {
            // Cast-1 takes the name of the type, every later one its number.
            NewOperator::Cast { to, opset: ..6 } => {
                let mut message = Vec::new();
                wire::put_bytes(&mut message, attribute::NAME, b"to");
                wire::put_bytes(&mut message, attribute::S, to.name().to_ascii_uppercase().as_bytes());
                wire::put_int(&mut message, attribute::TYPE, attribute::kind::STRING);
                ("Cast", vec![message])
            }
            NewOperator::Cast { to, .. } => ("Cast", vec![int("to", to.onnx().into())]),
            NewOperator::Dequantize { axis, block_size, output_dtype } => {
                let axis = (axis != 1).then(|| int("axis", axis));
                let block_size = (block_size > 0).then(|| int("block_size", block_size as i64));
                let output_dtype = output_dtype.map(|data_type| int("output_dtype", data_type.onnx().into()));
                ("DequantizeLinear", [axis, block_size, output_dtype].into_iter().flatten().collect())
            }
        }
    }
}

impl NewNode {
    pub(crate) fn put(&self, number: u32, rope: &mut Rope<'_>) {
        let (operator, attributes) = self.operator.parts();
        let mut message = Vec::new();
        self.inputs.iter().for_each(|input| wire::put_bytes(&mut message, node::INPUT, input.as_bytes()));
        wire::put_bytes(&mut message, node::OUTPUT, self.output.as_bytes());
        wire::put_bytes(&mut message, node::NAME, self.name.as_bytes());
        wire::put_bytes(&mut message, node::OP_TYPE, operator.as_bytes());
        attributes.iter().for_each(|attribute| wire::put_bytes(&mut message, node::ATTRIBUTE, attribute));
        rope.put_bytes(number, &message);
    }
}

/// A tensor to be written.
#[derive(Clone, Debug)]
pub(crate) struct NewTensor<'a> {
    /// The TensorProto whose other fields are kept.
    pub(crate) message: Option<&'a [u8]>,
    /// A new name; none keeps the message's.
    pub(crate) name: Option<String>,
    /// The shape, where there is no message.
    pub(crate) shape: Vec<usize>,
    pub(crate) content: Content<'a>,
}

#[derive(Clone, Debug)]
pub(crate) enum Content<'a> {
    Elements(Elements<'a>),
    /// Strings, each a field.
    Strings(Vec<u8>),
}
