//! A model as a tree of graphs, for rewriting: every node, constant and declaration with the bytes it stands in. Names
//! and elements are borrowed; nothing is resolved, and no operator is refused.

use crate::error::ModelError;
use crate::messages::{attribute, function, graph, model, node, opset, sparse, value_info};
use attribute::kind;
use onnx_cast::ops::{self, AttributeValue};
use onnx_cast::{DataType, NEWEST_OPSET};
use onnx_cast_file::formats::protobuf::onnx::tensor;
use onnx_cast_file::formats::protobuf::wire::{Fields, Value, last};
use onnx_cast_file::text::Short;
use std::collections::{HashMap, HashSet};

/// Graphs within graphs. Protocol buffer readers stop at 100 messages within messages, of which a graph takes three.
const MAX_DEPTH: usize = 32;

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
    pub(crate) nodes: Vec<Node<'a>>,
    pub(crate) initializers: Vec<Named<'a>>,
    pub(crate) inputs: Vec<Declared<'a>>,
    pub(crate) outputs: Vec<Declared<'a>>,
    pub(crate) value_info: Vec<Declared<'a>>,
    /// Names of sparse initializers.
    pub(crate) sparse: Vec<&'a str>,
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
    /// Whether it stands for an attribute of the function around.
    pub(crate) refers: bool,
    pub(crate) graphs: Vec<Graph<'a>>,
}

impl<'a> Node<'a> {
    /// Whether this is an operator of ONNX's own domain.
    pub(crate) fn is(&self, op_type: &str) -> bool {
        self.op_type == op_type && is_default(self.domain)
    }

    /// Its operator, if that casts.
    pub(crate) fn casting(&self) -> Option<&'static str> {
        ["Cast", "CastLike", "BitCast"].into_iter().find(|operator| self.is(operator))
    }

    /// The type that the attribute `to` tells, if it does.
    pub(crate) fn target(&self) -> Option<DataType> {
        let to = self.attribute("to").filter(|to| !to.refers)?;
        last(to.message, attribute::I, Value::int).ok()?.and_then(DataType::from_onnx)
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
    /// The attribute as the operators want it.
    pub(crate) fn lend(&self) -> ops::Attribute<'a> {
        let value = match self.kind {
            _ if self.refers => AttributeValue::Other,
            // A field that is not there has the value 0, or no bytes.
            kind::INT => AttributeValue::Int(last(self.message, attribute::I, Value::int).ok().flatten().unwrap_or(0)),
            kind::STRING => {
                let bytes = last(self.message, attribute::S, Value::bytes).ok().flatten();
                AttributeValue::String(bytes.unwrap_or_default())
            }
            _ => AttributeValue::Other,
        };
        ops::Attribute { name: self.name, value }
    }
}

impl<'a> Graph<'a> {
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
}

impl<'a> Document<'a> {
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Self, ModelError> {
        let (mut graphs, mut functions) = (Vec::new(), Vec::new());
        let (mut opset, mut ir_version, mut training) = (None, 0, false);
        for field in Fields::new(bytes) {
            let field = field?;
            match (field.number, field.value) {
                (model::IR_VERSION, Value::Varint(version)) => ir_version = version,
                (model::GRAPH, Value::Bytes(graph)) => graphs.push(graph),
                (model::FUNCTIONS, Value::Bytes(function)) => functions.push(function),
                (model::TRAINING_INFO, Value::Bytes(_)) => training = true,
                (model::OPSET_IMPORT, Value::Bytes(import)) => merge(&mut opset, default_opset(import)?)?,
                _ => {}
            }
        }
        let [graph] = graphs[..] else { return Err(ModelError::Graphs { count: graphs.len() }) };
        // Models from before there were opsets (IR version 3) mean the first one.
        let opset = opset.or((ir_version < 3).then_some(1));
        let mut reader = Reader { next: 0 };
        let graph = reader.graph(graph, opset, 0)?;
        let functions = functions.into_iter().map(|message| reader.function(message)).collect::<Result<_, _>>()?;
        Ok(Document { bytes, ir_version, opset, training, graph, functions })
    }

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
                if let (sparse::VALUES | sparse::INDICES, Value::Bytes(part)) = (field.number, field.value) {
                    tensors.push((part, true));
                }
            }
            Ok::<(), ModelError>(())
        };
        for graph in self.graphs() {
            tensors.extend(graph.initializers.iter().map(|named| (named.message, false)));
            if !graph.sparse.is_empty() {
                for field in Fields::new(graph.message) {
                    let field = field?;
                    if let (graph::SPARSE_INITIALIZER, Value::Bytes(message)) = (field.number, field.value) {
                        sparse_parts(message, &mut tensors)?;
                    }
                }
            }
            for attribute in graph.nodes.iter().flat_map(|node| &node.attributes) {
                for field in Fields::new(attribute.message) {
                    let field = field?;
                    match (field.number, field.value) {
                        (attribute::T | attribute::TENSORS, Value::Bytes(message)) => tensors.push((message, false)),
                        (attribute::SPARSE_TENSOR | attribute::SPARSE_TENSORS, Value::Bytes(message)) => {
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

/// Takes an import of ONNX's own domain, of which there is one.
fn merge(opset: &mut Option<i64>, import: Option<i64>) -> Result<(), ModelError> {
    match (*opset, import) {
        (Some(first), Some(second)) if first != second => Err(ModelError::TwoOpsets { first, second }),
        (_, Some(opset)) if !(1..=NEWEST_OPSET).contains(&opset) => Err(ModelError::Opset { opset }),
        (_, import) => {
            *opset = import.or(*opset);
            Ok(())
        }
    }
}

struct Reader {
    /// The next graph's number.
    next: usize,
}

impl Reader {
    fn start<'a>(&mut self, message: &'a [u8], is_function: bool, opset: Option<i64>) -> Graph<'a> {
        let id = self.next;
        self.next += 1;
        let (nodes, initializers, sparse) = (Vec::new(), Vec::new(), Vec::new());
        let (inputs, outputs, value_info) = (Vec::new(), Vec::new(), Vec::new());
        Graph { id, message, is_function, opset, nodes, initializers, inputs, outputs, value_info, sparse }
    }

    fn graph<'a>(&mut self, message: &'a [u8], opset: Option<i64>, depth: usize) -> Result<Graph<'a>, ModelError> {
        if depth == MAX_DEPTH {
            return Err(ModelError::Depth { limit: MAX_DEPTH });
        }
        let mut graph = self.start(message, false, opset);
        for field in Fields::new(message) {
            let field = field?;
            let Value::Bytes(bytes) = field.value else { continue };
            match field.number {
                graph::NODE => graph.nodes.push(self.node(bytes, opset, depth)?),
                graph::INITIALIZER => {
                    let name = name(bytes, tensor::NAME)?;
                    graph.initializers.push(Named { name, message: bytes });
                }
                graph::INPUT => graph.inputs.push(declared(bytes)?),
                graph::OUTPUT => graph.outputs.push(declared(bytes)?),
                graph::VALUE_INFO => graph.value_info.push(declared(bytes)?),
                graph::SPARSE_INITIALIZER => {
                    let values = last(bytes, sparse::VALUES, Value::bytes)?.unwrap_or_default();
                    graph.sparse.push(name(values, tensor::NAME)?);
                }
                _ => {}
            }
        }
        Ok(graph)
    }

    fn function<'a>(&mut self, message: &'a [u8]) -> Result<Graph<'a>, ModelError> {
        let mut opset = None;
        for field in Fields::new(message) {
            let field = field?;
            if let (function::OPSET_IMPORT, Value::Bytes(import)) = (field.number, field.value) {
                merge(&mut opset, default_opset(import)?)?;
            }
        }
        let mut graph = self.start(message, true, opset);
        for field in Fields::new(message) {
            let field = field?;
            let Value::Bytes(bytes) = field.value else { continue };
            match field.number {
                function::NODE => graph.nodes.push(self.node(bytes, opset, 0)?),
                function::INPUT => graph.inputs.push(Declared { name: utf8(bytes)?, message: &[], data_type: None }),
                function::OUTPUT => graph.outputs.push(Declared { name: utf8(bytes)?, message: &[], data_type: None }),
                function::VALUE_INFO => graph.value_info.push(declared(bytes)?),
                _ => {}
            }
        }
        Ok(graph)
    }

    fn node<'a>(&mut self, message: &'a [u8], opset: Option<i64>, depth: usize) -> Result<Node<'a>, ModelError> {
        let mut node = Node { name: "", op_type: "", domain: "", inputs: vec![], outputs: vec![], attributes: vec![] };
        for field in Fields::new(message) {
            let field = field?;
            let Value::Bytes(bytes) = field.value else { continue };
            match field.number {
                node::INPUT => node.inputs.push(utf8(bytes)?),
                node::OUTPUT => node.outputs.push(utf8(bytes)?),
                node::NAME => node.name = utf8(bytes)?,
                node::OP_TYPE => node.op_type = utf8(bytes)?,
                node::DOMAIN => node.domain = utf8(bytes)?,
                node::ATTRIBUTE => node.attributes.push(self.attribute(bytes, opset, depth)?),
                _ => {}
            }
        }
        Ok(node)
    }

    fn attribute<'a>(
        &mut self,
        message: &'a [u8],
        opset: Option<i64>,
        depth: usize,
    ) -> Result<Attribute<'a>, ModelError> {
        let mut attribute = Attribute { name: "", message, kind: kind::UNDEFINED, refers: false, graphs: Vec::new() };
        let (mut tensors, mut single, mut declared) = (0, 0, kind::UNDEFINED);
        for field in Fields::new(message) {
            let field = field?;
            // Models from before the field `type` (IR version 1) tell the kind by the field that is set.
            attribute.kind = match field.number {
                attribute::F => kind::FLOAT,
                attribute::I => kind::INT,
                attribute::S => kind::STRING,
                attribute::T => kind::TENSOR,
                attribute::FLOATS => kind::FLOATS,
                attribute::INTS => kind::INTS,
                attribute::STRINGS => kind::STRINGS,
                _ => attribute.kind,
            };
            if let (attribute::TYPE, Value::Varint(kind)) = (field.number, field.value) {
                declared = kind;
            }
            let Value::Bytes(bytes) = field.value else { continue };
            match field.number {
                attribute::NAME => attribute.name = utf8(bytes)?,
                attribute::REF_ATTR_NAME => attribute.refers = true,
                attribute::G | attribute::GRAPHS => {
                    single += usize::from(field.number == attribute::G);
                    attribute.graphs.push(self.graph(bytes, opset, depth + 1)?);
                }
                attribute::T => tensors += 1,
                _ => {}
            }
        }
        // By protobuf's rules the two would be one message, joined. Nobody writes that.
        if tensors > 1 || single > 1 {
            return Err(ModelError::Repeated { attribute: attribute.name.to_owned() });
        }
        if declared != kind::UNDEFINED {
            attribute.kind = declared;
        }
        Ok(attribute)
    }
}

/// The opset of an import, where it is of ONNX's default domain.
pub(crate) fn default_opset(import: &[u8]) -> Result<Option<i64>, ModelError> {
    let domain = text(import, opset::DOMAIN)?;
    let version = last(import, opset::VERSION, Value::int)?;
    Ok(is_default(&domain).then_some(version.unwrap_or(0)))
}

/// Whether a domain is ONNX's own, which has two spellings.
pub(crate) fn is_default(domain: &str) -> bool {
    matches!(domain, "" | "ai.onnx")
}

pub(crate) fn utf8(bytes: &[u8]) -> Result<&str, ModelError> {
    std::str::from_utf8(bytes).map_err(|_| ModelError::Name)
}

/// A field of text; empty where it is not there.
pub(crate) fn text(message: &[u8], number: u32) -> Result<String, ModelError> {
    Ok(name(message, number)?.to_owned())
}

fn name(message: &[u8], number: u32) -> Result<&str, ModelError> {
    utf8(last(message, number, Value::bytes)?.unwrap_or_default())
}

/// A ValueInfoProto. Types that are not known here are none: they are not this crate's to check.
fn declared(message: &[u8]) -> Result<Declared<'_>, ModelError> {
    let name = name(message, value_info::NAME)?;
    let of_type = last(message, value_info::TYPE, Value::bytes)?.unwrap_or_default();
    let tensor_type = last(of_type, value_info::TENSOR_TYPE, Value::bytes)?.unwrap_or_default();
    let data_type = last(tensor_type, value_info::ELEM_TYPE, Value::int)?.and_then(DataType::from_onnx);
    Ok(Declared { name, message, data_type })
}

/// Who reads a value, in a body and the graphs within it.
#[derive(Default)]
pub(crate) struct Readers<'a> {
    pub(crate) count: usize,
    /// The output of a Cast that reads it, and the Cast's target.
    pub(crate) cast: Option<(&'a str, DataType)>,
}

/// The readers of every value of a body, by name. Of two values of one name, which branches may have, the readers are
/// counted together.
pub(crate) fn readers<'a>(body: &Graph<'a>) -> Result<HashMap<&'a str, Readers<'a>>, ModelError> {
    let mut readers: HashMap<&'a str, Readers<'a>> = HashMap::new();
    for graph in body.every() {
        for output in &graph.outputs {
            readers.entry(output.name).or_default().count += 1;
        }
        for node in &graph.nodes {
            for input in &node.inputs {
                let reader = readers.entry(input).or_default();
                reader.count += 1;
                if node.is("Cast")
                    && let (Some(output), Some(to)) = (node.output(), node.attribute("to"))
                    && let Some(to) = last(to.message, attribute::I, Value::varint)?
                {
                    reader.cast = DataType::from_onnx(to as i64).map(|to| (output, to));
                }
            }
        }
    }
    Ok(readers)
}
