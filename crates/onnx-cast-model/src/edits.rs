//! What is to be done with a model, graph by graph. `emit.rs` writes the model with its edits.

use crate::external::is_beside;
use crate::messages::attribute;
use crate::rope::CastElements;
use onnx_cast::DataType;
use onnx_cast_file::__private::pipeline::{Amax, Task, Transform};
use onnx_cast_file::__private::wire;
use std::collections::HashMap;
use std::sync::Arc;

/// What is to be done with a model.
#[derive(Debug, Default)]
pub(crate) struct Edits<'a> {
    /// The new opset of ONNX's own domain, for the model and every function.
    pub(crate) opset: Option<i64>,
    /// Whether imports of a newer opset are lowered to it.
    pub(crate) lowers: bool,
    /// The new version of the model format.
    pub(crate) ir_version: Option<u64>,
    /// Whether the model gets an import of onnxruntime's operators.
    pub(crate) import_microsoft: bool,
    /// By the graph's number.
    pub(crate) graphs: GraphEdits<'a>,
    /// Functions to be written beside those that there are.
    pub(crate) copies: Vec<FunctionCopy<'a>>,
    /// Elements whose amax must be measured before anything is written.
    pub(crate) measured: Vec<(CastElements<'a>, Arc<Amax>)>,
}

impl Edits<'_> {
    /// Whether nothing is to be done.
    pub(crate) fn is_empty(&self) -> bool {
        self.opset.is_none() && self.ir_version.is_none() && self.graphs.is_empty() && self.copies.is_empty()
    }

    /// Returns the tasks that measure amax.
    pub(crate) fn measuring(&self) -> Vec<Task<'_>> {
        self.measured
            .iter()
            .map(|(elements, amax)| Task { transform: Some(&**amax as &dyn Transform), ..elements.task(0) })
            .collect()
    }
}

/// Edits by the graph's number.
pub(crate) type GraphEdits<'a> = HashMap<usize, GraphEdit<'a>>;

/// A function to be written once more, by another name and with edits of its own.
#[derive(Debug)]
pub(crate) struct FunctionCopy<'a> {
    /// Its place among the model's functions.
    pub(crate) function: usize,
    pub(crate) name: String,
    pub(crate) graphs: GraphEdits<'a>,
}

/// What is to be done with a graph. Numbers are places among what the graph has of a kind.
#[derive(Debug, Default)]
pub(crate) struct GraphEdit<'a> {
    /// Nodes to stand before all others.
    pub(crate) first: Vec<NewNode<'a>>,
    pub(crate) nodes: HashMap<usize, NodeEdit<'a>>,
    /// `None` removes.
    pub(crate) initializers: HashMap<usize, Option<NewTensor<'a>>>,
    pub(crate) added_initializers: Vec<NewTensor<'a>>,
    /// `None` removes; else a new name and type.
    pub(crate) inputs: HashMap<usize, Option<(String, DataType)>>,
    /// New names and types.
    pub(crate) outputs: HashMap<usize, (String, DataType)>,
    /// Outputs behind those that there are: ValueInfoProtos.
    pub(crate) added_outputs: Vec<Vec<u8>>,
    /// New types of declared values; `None` removes the declaration.
    pub(crate) value_info: HashMap<usize, Option<DataType>>,
}

#[derive(Debug, Default)]
pub(crate) struct NodeEdit<'a> {
    pub(crate) drop: bool,
    /// The name of another operator.
    pub(crate) op_type: Option<String>,
    /// New names, by place. OutputPaths behind the last input are added, those between left out.
    pub(crate) inputs: HashMap<usize, String>,
    pub(crate) outputs: HashMap<usize, String>,
    /// Outputs behind those that there are.
    pub(crate) added_outputs: Vec<String>,
    /// How many of its inputs stay, where some of the last do not.
    pub(crate) input_count: Option<usize>,
    /// New attributes, by place; `None` removes.
    pub(crate) attributes: HashMap<usize, Option<NewAttribute>>,
    pub(crate) added_attributes: Vec<NewAttribute>,
    /// The new value of a Constant.
    pub(crate) value: Option<NewTensor<'a>>,
    /// A Constant in place of the node.
    pub(crate) constant: Option<(String, NewTensor<'a>)>,
    /// Nodes to stand before it.
    pub(crate) before: Vec<NewNode<'a>>,
    /// Nodes to stand behind it.
    pub(crate) after: Vec<NewNode<'a>>,
}

/// A node to be written.
#[derive(Debug, Default)]
pub(crate) struct NewNode<'a> {
    pub(crate) name: String,
    pub(crate) op_type: String,
    /// ONNX's own where it is empty.
    pub(crate) domain: String,
    pub(crate) inputs: Vec<String>,
    pub(crate) outputs: Vec<String>,
    pub(crate) attributes: Vec<NewAttribute>,
    /// The value of a Constant.
    pub(crate) value: Option<NewTensor<'a>>,
}

impl NewNode<'_> {
    /// A node of ONNX's own domain without attributes.
    pub(crate) fn new(op_type: &str, name: String, inputs: Vec<String>, output: String) -> Self {
        NewNode { name, op_type: op_type.to_owned(), inputs, outputs: vec![output], ..NewNode::default() }
    }

    pub(crate) fn with(mut self, attribute: NewAttribute) -> Self {
        self.attributes.push(attribute);
        self
    }

    /// A Cast by the version of an opset.
    pub(crate) fn cast(name: String, input: String, output: String, to: DataType, opset: i64) -> Self {
        // Cast-1 takes the name of the type, every later one its number.
        let to = match opset {
            ..6 => NewAttribute::string("to", &to.name().to_ascii_uppercase()),
            _ => NewAttribute::int("to", to.onnx().into()),
        };
        Self::new("Cast", name, vec![input], output).with(to)
    }
}

/// An attribute to be written: an AttributeProto.
#[derive(Clone, Debug)]
pub(crate) struct NewAttribute(pub(crate) Vec<u8>);

impl NewAttribute {
    fn new(name: &str, kind: u64, put: impl FnOnce(&mut Vec<u8>)) -> Self {
        let mut message = Vec::new();
        wire::put_bytes(&mut message, attribute::NAME, name.as_bytes());
        put(&mut message);
        wire::put_int(&mut message, attribute::TYPE, kind);
        NewAttribute(message)
    }

    pub(crate) fn int(name: &str, value: i64) -> Self {
        Self::new(name, attribute::kind::INT, |message| wire::put_int(message, attribute::I, value as u64))
    }

    /// An attribute that holds a TensorProto.
    pub(crate) fn tensor(name: &str, tensor: &[u8]) -> Self {
        Self::new(name, attribute::kind::TENSOR, |message| wire::put_bytes(message, attribute::T, tensor))
    }

    pub(crate) fn ints(name: &str, values: &[i64]) -> Self {
        Self::new(name, attribute::kind::INTS, |message| {
            values.iter().for_each(|&value| wire::put_int(message, attribute::INTS, value as u64));
        })
    }

    #[cfg(test)]
    pub(crate) fn floats(name: &str, values: &[f32]) -> Self {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        Self::new(name, attribute::kind::FLOATS, |message| wire::put_bytes(message, attribute::FLOATS, &bytes))
    }

    pub(crate) fn float(name: &str, value: f32) -> Self {
        Self::new(name, attribute::kind::FLOAT, |message| {
            // A field of 32 bits has the wire type 5.
            wire::put_varint(message, u64::from(attribute::F) << 3 | 5);
            message.extend(value.to_le_bytes());
        })
    }

    pub(crate) fn string(name: &str, value: &str) -> Self {
        let value = value.as_bytes();
        Self::new(name, attribute::kind::STRING, |message| wire::put_bytes(message, attribute::S, value))
    }

    /// One that refers to an attribute of the enclosing function.
    pub(crate) fn reference(name: &str, kind: u64, to: &str) -> Self {
        let to = to.as_bytes();
        Self::new(name, kind, |message| wire::put_bytes(message, attribute::REF_ATTR_NAME, to))
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
    pub(crate) home: Home<'a>,
    pub(crate) content: Content<'a>,
}

impl NewTensor<'_> {
    /// Bytes of its elements.
    pub(crate) fn byte_len(&self) -> u64 {
        match &self.content {
            Content::Elements(elements) => elements.byte_len().unwrap_or(0),
            Content::Strings(fields) => fields.len() as u64,
        }
    }
}

/// Where the elements of a new tensor are stored, unless the request says otherwise.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Home<'a> {
    /// In the model.
    Model,
    /// In the model or in external data, like the elements of this TensorProto.
    Like(&'a [u8]),
    /// In external data if the elements of this TensorProto are, and the new tensor has at least
    /// [`DEFAULT_THRESHOLD`] bytes: scales and zero points.
    LargeLike(&'a [u8]),
}

/// Other tools, too, store smaller tensors in the model.
pub(crate) const DEFAULT_THRESHOLD: u64 = 1024;

impl<'a> Home<'a> {
    /// Like a constant that may have no TensorProto, which is then in the model.
    pub(crate) fn of(message: Option<&'a [u8]>) -> Self {
        message.map_or(Home::Model, Home::Like)
    }

    /// Whether a tensor of this many bytes is stored in external data.
    pub(crate) fn is_external(self, len: u64) -> bool {
        match self {
            Home::Model => false,
            Home::Like(message) => is_beside(message),
            Home::LargeLike(message) => len >= DEFAULT_THRESHOLD && is_beside(message),
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Content<'a> {
    Elements(CastElements<'a>),
    /// Strings, each a field.
    Strings(Vec<u8>),
}
