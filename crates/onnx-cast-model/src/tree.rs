//! A model as a tree of graphs, for rewriting: every node, constant and declaration with its bytes in the model's
//! outline. Nothing is resolved, and no operator is refused.

mod read;

use crate::error::ModelError;
use crate::messages::{attribute, graph, sparse};
use attribute::kind;
use onnx_cast::DataType;
use onnx_cast::ops::{self, AttributeValue};
use onnx_cast_file::__private::Short;
use onnx_cast_file::__private::wire::{FieldValue, Fields, WireError, all_bytes, last};
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

pub(crate) use read::{default_opset, is_default, text, utf8};

#[derive(Debug)]
pub(crate) struct Document<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) ir_version: u64,
    /// The opset of ONNX's own domain, if the model imports it.
    pub(crate) opset: Option<i64>,
    /// Whether there is training information, whose bindings name initializers.
    pub(crate) training: bool,
    pub(crate) graph: Graph<'a>,
    pub(crate) functions: Vec<Graph<'a>>,
}

/// A graph, or the body of a function.
#[derive(Debug)]
pub(crate) struct Graph<'a> {
    /// Tells graphs apart: numbered in the order in which they are read.
    pub(crate) id: usize,
    pub(crate) message: &'a [u8],
    pub(crate) is_function: bool,
    /// The opset of ONNX's own domain that is in force.
    pub(crate) opset: Option<i64>,
    /// Every domain that is imported, and its version; shared with the graphs within.
    pub(crate) imports: Rc<[(&'a str, i64)]>,
    /// What a function is called by, and with.
    pub(crate) signature: Option<Signature<'a>>,
    pub(crate) nodes: Vec<Node<'a>>,
    pub(crate) initializers: Vec<Named<'a>>,
    pub(crate) inputs: Vec<Declared<'a>>,
    pub(crate) outputs: Vec<Declared<'a>>,
    pub(crate) value_info: Vec<Declared<'a>>,
    /// Names of sparse initializers.
    pub(crate) sparse: Vec<&'a str>,
}

/// What a function is called by, and the attributes that it has defaults for.
#[derive(Debug)]
pub(crate) struct Signature<'a> {
    pub(crate) domain: &'a str,
    pub(crate) name: &'a str,
    pub(crate) overload: &'a str,
    pub(crate) defaults: Vec<Attribute<'a>>,
}

/// An initializer.
#[derive(Debug)]
pub(crate) struct Named<'a> {
    pub(crate) name: &'a str,
    pub(crate) message: &'a [u8],
}

/// An input, an output or a value that the graph declares.
#[derive(Debug)]
pub(crate) struct Declared<'a> {
    pub(crate) name: &'a str,
    /// The ValueInfoProto; empty in a function, which declares names alone.
    pub(crate) message: &'a [u8],
    pub(crate) data_type: Option<DataType>,
}

#[derive(Debug)]
pub(crate) struct Node<'a> {
    pub(crate) name: &'a str,
    pub(crate) op_type: &'a str,
    pub(crate) domain: &'a str,
    /// Which of the functions of that name it calls, where there are several.
    pub(crate) overload: &'a str,
    pub(crate) inputs: Vec<&'a str>,
    pub(crate) outputs: Vec<&'a str>,
    pub(crate) attributes: Vec<Attribute<'a>>,
}

#[derive(Debug)]
pub(crate) struct Attribute<'a> {
    pub(crate) name: &'a str,
    pub(crate) message: &'a [u8],
    /// Its kind (`AttributeProto.type`), or where that is not said, that of the field that is set.
    pub(crate) kind: u64,
    /// Whether it refers to an attribute of the enclosing function.
    pub(crate) refers: bool,
    /// The name of that attribute.
    pub(crate) referred: Option<&'a str>,
    pub(crate) graphs: Vec<Graph<'a>>,
}

impl<'a> Node<'a> {
    /// Whether this is an operator of ONNX's own domain.
    pub(crate) fn is(&self, op_type: &str) -> bool {
        self.op_type == op_type && is_default(self.domain)
    }

    /// Its operator, if that casts.
    pub(crate) fn casting(&self) -> Option<&'static str> {
        ["Cast", "CastLike", "BitCast", "QuantizeLinear", "DequantizeLinear"].into_iter().find(|one| self.is(one))
    }

    /// Whether it is a cast with a scale.
    pub(crate) fn is_scaled(&self) -> bool {
        self.is("QuantizeLinear") || self.is("DequantizeLinear")
    }

    /// The type that the attribute `to` tells, if it does.
    pub(crate) fn target(&self) -> Option<DataType> {
        let to = self.attribute("to").filter(|to| !to.refers)?;
        last(to.message, attribute::I, FieldValue::int).ok()?.and_then(DataType::from_onnx)
    }

    /// What patterns and decisions call it: its name, or where it has none, that of its first output.
    pub(crate) fn known_as(&self) -> &'a str {
        if self.name.is_empty() { self.outputs.first().copied().unwrap_or_default() } else { self.name }
    }

    /// The node as errors name it.
    pub(crate) fn label(&self, index: usize) -> String {
        if self.name.is_empty() {
            format!("node {index} ({})", Short(self.op_type))
        } else {
            format!("node `{}` ({})", Short(self.name), Short(self.op_type))
        }
    }

    pub(crate) fn attribute(&self, name: &str) -> Option<&Attribute<'a>> {
        self.attributes.iter().find(|attribute| attribute.name == name)
    }

    /// The attributes as the operators want them.
    pub(crate) fn lend(&self) -> Vec<ops::Attribute<'a>> {
        self.attributes.iter().map(Attribute::lend).collect()
    }

    pub(crate) fn graphs(&self) -> impl Iterator<Item = &Graph<'a>> {
        self.attributes.iter().flat_map(|attribute| &attribute.graphs)
    }

    /// The name of the value of a node that gives one.
    pub(crate) fn output(&self) -> Option<&'a str> {
        match self.outputs[..] {
            [output] if !output.is_empty() => Some(output),
            _ => None,
        }
    }
}

impl<'a> Attribute<'a> {
    /// The integer that it holds; 0 where it holds none.
    pub(crate) fn int(&self) -> i64 {
        last(self.message, attribute::I, FieldValue::int).ok().flatten().unwrap_or(0)
    }

    /// The attribute of the function around that it stands for.
    pub(crate) fn referred(&self) -> Option<&'a str> {
        self.referred
    }

    /// The attribute as the operators want it.
    pub(crate) fn lend(&self) -> ops::Attribute<'a> {
        let value = match self.kind {
            _ if self.refers => AttributeValue::Other,
            // A field that is not there has the value 0, or no bytes.
            kind::INT => {
                AttributeValue::Int(last(self.message, attribute::I, FieldValue::int).ok().flatten().unwrap_or(0))
            }
            kind::STRING => {
                let bytes = last(self.message, attribute::S, FieldValue::bytes).ok().flatten();
                AttributeValue::String(bytes.unwrap_or_default())
            }
            _ => AttributeValue::Other,
        };
        ops::Attribute { name: self.name, value }
    }
}

impl<'a> Graph<'a> {
    /// The opset of a domain that is in force. As in onnxruntime, a domain that is not imported, other than ONNX's own,
    /// is in force in its newest version.
    pub(crate) fn opset_of(&self, domain: &str) -> Option<i64> {
        if is_default(domain) {
            return self.opset;
        }
        let import = self.imports.iter().rfind(|(imported, _)| *imported == domain);
        Some(import.map_or(i64::MAX, |&(_, version)| version))
    }

    /// This graph and those within it.
    pub(crate) fn every(&self) -> Vec<&Graph<'a>> {
        let mut all = vec![self];
        let mut next = 0;
        while let Some(graph) = all.get(next).copied() {
            all.extend(graph.nodes.iter().flat_map(Node::graphs));
            next += 1;
        }
        all
    }

    /// The SparseTensorProtos among its initializers.
    pub(crate) fn sparse_initializers(&self) -> impl Iterator<Item = Result<&'a [u8], WireError>> + use<'a> {
        let message = if self.sparse.is_empty() { &[] } else { self.message };
        all_bytes(message, graph::SPARSE_INITIALIZER)
    }
}

impl<'a> Document<'a> {
    /// The main graph and the functions: what does not see each other's values.
    pub(crate) fn bodies(&self) -> impl Iterator<Item = &Graph<'a>> {
        std::iter::once(&self.graph).chain(&self.functions)
    }

    /// Every graph there is.
    pub(crate) fn graphs(&self) -> Vec<&Graph<'a>> {
        self.bodies().flat_map(Graph::every).collect()
    }

    /// Every name of a value or a node.
    pub(crate) fn names(&self) -> Names {
        let mut names = HashSet::new();
        for graph in self.graphs() {
            names.extend(graph.initializers.iter().map(|named| named.name.to_owned()));
            names.extend(graph.sparse.iter().map(|&name| name.to_owned()));
            let declared = graph.inputs.iter().chain(&graph.outputs).chain(&graph.value_info);
            names.extend(declared.map(|declared| declared.name.to_owned()));
            for node in &graph.nodes {
                names.insert(node.name.to_owned());
                names.extend(node.inputs.iter().chain(&node.outputs).map(|&name| name.to_owned()));
            }
        }
        Names { used: names, numbers: HashMap::new() }
    }

    /// Every TensorProto, those within sparse tensors included and marked.
    pub(crate) fn tensors(&self) -> Result<Vec<(&'a [u8], bool)>, ModelError> {
        let mut tensors = Vec::new();
        let sparse_parts = |message: &'a [u8], tensors: &mut Vec<_>| {
            for field in Fields::new(message) {
                let field = field?;
                if let (sparse::VALUES | sparse::INDICES, FieldValue::Bytes(part)) = (field.number, field.value) {
                    tensors.push((part, true));
                }
            }
            Ok::<(), WireError>(())
        };
        for graph in self.graphs() {
            tensors.extend(graph.initializers.iter().map(|named| (named.message, false)));
            for message in graph.sparse_initializers() {
                sparse_parts(message?, &mut tensors)?;
            }
            for attribute in graph.nodes.iter().flat_map(|node| &node.attributes) {
                for field in Fields::new(attribute.message) {
                    let field = field?;
                    match (field.number, field.value) {
                        (attribute::T | attribute::TENSORS, FieldValue::Bytes(message)) => {
                            tensors.push((message, false))
                        }
                        (attribute::SPARSE_TENSOR | attribute::SPARSE_TENSORS, FieldValue::Bytes(message)) => {
                            sparse_parts(message, &mut tensors)?;
                        }
                        _ => {}
                    }
                }
            }
        }
        Ok(tensors)
    }
}

/// The names in use, of which no new one may be.
#[derive(Default)]
pub(crate) struct Names {
    used: HashSet<String>,
    /// The last number behind a name, so that many constants of one name do not try them all.
    numbers: HashMap<String, usize>,
}

impl Names {
    /// `name`, or `name` and a number.
    pub(crate) fn fresh(&mut self, name: String) -> String {
        let mut fresh = name.clone();
        if self.used.contains(&fresh) {
            let number = self.numbers.entry(name.clone()).or_insert(1);
            while self.used.contains(&fresh) {
                *number += 1;
                fresh = format!("{name}_{number}");
            }
        }
        self.used.insert(fresh.clone());
        fresh
    }
}
