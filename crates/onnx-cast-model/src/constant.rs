//! The constants of a model, decoded in one place: initializers, and the values of Constant nodes.

use crate::error::ModelError;
use crate::external::Files;
use crate::graph::values::{Flow, Id, Origin};
use crate::messages::attribute;
use crate::rope::{CastElements, ElementSource};
use crate::tree::{Attribute, Graph, Node};
use onnx_cast::DataType;
use onnx_cast::tensor::Strings;
use onnx_cast_file::__private::pb;
use onnx_cast_file::__private::wire::{self, FieldValue, last};
use std::collections::HashMap;

/// A constant of the model.
pub(crate) struct Constant<'a> {
    pub(crate) name: &'a str,
    /// The TensorProto, where there is one.
    pub(crate) message: Option<&'a [u8]>,
    pub(crate) data_type: DataType,
    pub(crate) shape: Vec<usize>,
    pub(crate) len: usize,
    /// `None` for strings.
    pub(crate) elements: Option<CastElements<'a>>,
}

/// Where a constant is in its graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Site {
    /// An initializer, and the input of the same name.
    Initializer(usize, Option<usize>),
    Node(usize),
}

impl<'a> Constant<'a> {
    /// The constants of a graph, but for those of graphs within it.
    pub(crate) fn of_graph(graph: &Graph<'a>, files: &'a Files<'a>) -> Result<Vec<(Site, Self)>, ModelError> {
        let inputs: HashMap<&str, usize> = graph.inputs.iter().map(|input| input.name).zip(0..).collect();
        let initializers = graph.initializers.iter().enumerate().map(|(index, named)| {
            let constant = Constant::of_tensor(named.name, named.message, files)?;
            Ok((Site::Initializer(index, inputs.get(named.name).copied()), constant))
        });
        let nodes = graph.nodes.iter().enumerate().filter_map(|(index, node)| {
            let constant = Constant::of_node(node, files).transpose()?;
            Some(constant.map(|constant| (Site::Node(index), constant)))
        });
        initializers.chain(nodes).collect()
    }

    pub(crate) fn of_tensor(name: &'a str, message: &'a [u8], files: &'a Files<'a>) -> Result<Self, ModelError> {
        let elements = files.elements(message)?;
        let head = pb::head(message).map_err(|error| ModelError::tensor("constant", error.of_tensor(name)))?;
        let (data_type, shape, len) = (head.data_type, head.shape, head.len);
        Ok(Constant { name, message: Some(message), data_type, shape, len, elements })
    }

    /// The value of a Constant node that gives a tensor or numbers.
    pub(crate) fn of_node(node: &Node<'a>, files: &'a Files<'a>) -> Result<Option<Self>, ModelError> {
        let Some((name, value)) = ConstantValue::of_node(node)? else { return Ok(None) };
        Ok(match value {
            ConstantValue::Tensor(message) => Some(Constant::of_tensor(name, message, files)?),
            ConstantValue::Numbers(data_type, shape, bytes) => {
                let len = shape.first().copied().unwrap_or(1);
                let elements = CastElements::new(ElementSource::Owned(bytes.into()), data_type, len);
                Some(Constant { name, message: None, data_type, shape, len, elements: Some(elements) })
            }
            ConstantValue::Strings(..) | ConstantValue::Sparse(_) => None,
        })
    }

    /// The initializer, or the value of a Constant, that a value is; and whether it is an input too.
    pub(crate) fn of_value(
        flow: &Flow<'_, 'a>,
        id: Id,
        files: &'a Files<'a>,
    ) -> Result<Option<(Self, bool)>, ModelError> {
        let value = &flow.values[id];
        match value.origin {
            Origin::Initializer(index, input) => {
                let named = &flow.graphs[&value.graph].initializers[index];
                Ok(Some((Constant::of_tensor(named.name, named.message, files)?, input.is_some())))
            }
            Origin::Node(step, 0) => {
                Ok(Constant::of_node(flow.steps[step].node, files)?.map(|constant| (constant, false)))
            }
            _ => Ok(None),
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.data_type.byte_len(self.len).unwrap_or(0) as u64
    }
}

/// The value of a Constant node.
pub(crate) enum ConstantValue<'a> {
    /// A TensorProto.
    Tensor(&'a [u8]),
    /// Numbers: type, shape, and the elements as bytes.
    Numbers(DataType, Vec<usize>, Vec<u8>),
    Strings(Vec<usize>, Strings),
    /// A SparseTensorProto.
    Sparse(&'a [u8]),
}

impl<'a> ConstantValue<'a> {
    /// The value of a Constant node with one output and one attribute, and the name of the output.
    pub(crate) fn of_node(node: &Node<'a>) -> Result<Option<(&'a str, Self)>, ModelError> {
        let (true, Some(name), [value]) = (node.is("Constant"), node.output(), &node.attributes[..]) else {
            return Ok(None);
        };
        Ok(ConstantValue::of(value)?.map(|value| (name, value)))
    }

    /// The value in an attribute; `None` if missing, or it is that of a function's attribute.
    pub(crate) fn of(value: &Attribute<'a>) -> Result<Option<Self>, ModelError> {
        let message = value.message;
        Ok(match value.name {
            _ if value.refers => None,
            "value" => last(message, attribute::T, FieldValue::bytes)?.map(ConstantValue::Tensor),
            "sparse_value" => last(message, attribute::SPARSE_TENSOR, FieldValue::bytes)?.map(ConstantValue::Sparse),
            "value_float" => {
                let word = last(message, attribute::F, FieldValue::word)?.unwrap_or_default();
                Some(ConstantValue::Numbers(DataType::Float, vec![], word.to_vec()))
            }
            "value_int" => {
                let value = last(message, attribute::I, FieldValue::int)?.unwrap_or(0);
                Some(ConstantValue::Numbers(DataType::Int64, vec![], value.to_le_bytes().to_vec()))
            }
            "value_floats" => {
                let words = wire::fixed32s(message, attribute::FLOATS).collect::<Result<Vec<_>, _>>()?;
                Some(ConstantValue::Numbers(DataType::Float, vec![words.len()], words.concat()))
            }
            "value_ints" => {
                let words = wire::varints(message, attribute::INTS).map(|word| word.map(u64::to_le_bytes));
                let words = words.collect::<Result<Vec<_>, _>>()?;
                Some(ConstantValue::Numbers(DataType::Int64, vec![words.len()], words.concat()))
            }
            "value_string" => {
                let string = last(message, attribute::S, FieldValue::bytes)?.unwrap_or_default();
                Some(ConstantValue::Strings(vec![], [string].iter().collect()))
            }
            "value_strings" => {
                let strings = wire::all_bytes(message, attribute::STRINGS).collect::<Result<Vec<_>, _>>()?;
                Some(ConstantValue::Strings(vec![strings.len()], strings.into_iter().collect()))
            }
            _ => None,
        })
    }
}
