//! A model as a tree of graphs, for rewriting: every node, constant and declaration with the bytes it stands in. Names and
//! elements are borrowed; nothing is resolved, and no operator is refused.

use crate::model::ModelError;
use crate::model::graph::{AttributeProto, as_bytes, as_int, as_varint, default_opset, is_default, label, last, utf8};
use crate::proto::onnx::{attribute, function, graph, model, node, sparse, tensor, value_info};
use crate::proto::wire::{Fields, Value};
use onnx_cast::{DataType, NEWEST_OPSET, ops};
use std::collections::{HashMap, HashSet};

/// Graphs within graphs. Protocol buffer readers stop at 100 messages within messages, of which a graph takes three.
const MAX_DEPTH: usize = 32;

#[derive(Debug)]
pub(super) struct Document<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) ir_version: u64,
    /// The opset of ONNX's own domain, if the model imports it.
    pub(super) opset: Option<i64>,
    /// Whether there is training information, whose bindings name initializers.
    pub(super) training: bool,
    pub(super) graph: Graph<'a>,
    pub(super) functions: Vec<Graph<'a>>,
}

/// A graph, or the body of a function.
#[derive(Debug)]
pub(super) struct Graph<'a> {
    /// Tells graphs apart: numbered in the order in which they are read.
    pub(super) id: usize,
    pub(super) message: &'a [u8],
    pub(super) is_function: bool,
    /// The opset of ONNX's own domain that is in force.
    pub(super) opset: Option<i64>,
    pub(super) nodes: Vec<Node<'a>>,
    pub(super) initializers: Vec<Named<'a>>,
    pub(super) inputs: Vec<Declared<'a>>,
    pub(super) outputs: Vec<Declared<'a>>,
    pub(super) value_info: Vec<Declared<'a>>,
    /// Names of sparse initializers.
    pub(super) sparse: Vec<&'a str>,
}

/// An initializer.
#[derive(Debug)]
pub(super) struct Named<'a> {
    pub(super) name: &'a str,
    pub(super) message: &'a [u8],
}

/// An input, an output or a value that the graph declares.
#[derive(Debug)]
pub(super) struct Declared<'a> {
    pub(super) name: &'a str,
    pub(super) data_type: Option<DataType>,
}

#[derive(Debug)]
pub(super) struct Node<'a> {
    pub(super) name: &'a str,
    pub(super) op_type: &'a str,
    pub(super) domain: &'a str,
    pub(super) inputs: Vec<&'a str>,
    pub(super) outputs: Vec<&'a str>,
    pub(super) attributes: Vec<Attribute<'a>>,
}

#[derive(Debug)]
pub(super) struct Attribute<'a> {
    pub(super) name: &'a str,
    pub(super) message: &'a [u8],
    /// Whether it stands for an attribute of the function around.
    pub(super) refers: bool,
    pub(super) graphs: Vec<Graph<'a>>,
}

impl<'a> Node<'a> {
    /// Whether this is an operator of ONNX's own domain.
    pub(super) fn is(&self, op_type: &str) -> bool {
        self.op_type == op_type && is_default(self.domain)
    }

    /// Its operator, if that casts.
    pub(super) fn casting(&self) -> Option<&'static str> {
        ["Cast", "CastLike", "BitCast"].into_iter().find(|operator| self.is(operator))
    }

    /// The type that the attribute `to` tells, if it does.
    pub(super) fn target(&self) -> Option<DataType> {
        let to = self.attribute("to").filter(|to| !to.refers)?;
        last(to.message, attribute::I, as_int).ok()?.and_then(DataType::from_onnx)
    }

    pub(super) fn label(&self, index: usize) -> String {
        label(self.name, index, self.op_type)
    }

    pub(super) fn attribute(&self, name: &str) -> Option<&Attribute<'a>> {
        self.attributes.iter().find(|attribute| attribute.name == name)
    }

    /// The attributes as the operators want them.
    pub(super) fn lend(&self) -> Result<Vec<ops::Attribute<'a>>, ModelError> {
        self.attributes.iter().map(|one| Ok(AttributeProto::read(one.message)?.lend())).collect()
    }

    pub(super) fn graphs(&self) -> impl Iterator<Item = &Graph<'a>> {
        self.attributes.iter().flat_map(|attribute| &attribute.graphs)
    }

    /// The name of the value of a node that gives one.
    pub(super) fn output(&self) -> Option<&'a str> {
        match self.outputs[..] {
            [output] if !output.is_empty() => Some(output),
            _ => None,
        }
    }
}

impl<'a> Attribute<'a> {
    /// The attribute's tensor, where it has one.
    pub(super) fn tensor(&self) -> Result<Option<&'a [u8]>, ModelError> {
        if self.refers {
            return Ok(None);
        }
        Ok(last(self.message, attribute::T, as_bytes)?)
    }
}

impl<'a> Graph<'a> {
    /// This graph and those within it.
    pub(super) fn every(&self) -> Vec<&Graph<'a>> {
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
    pub(super) fn parse(bytes: &'a [u8]) -> Result<Self, ModelError> {
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
    pub(super) fn bodies(&self) -> impl Iterator<Item = &Graph<'a>> {
        std::iter::once(&self.graph).chain(&self.functions)
    }

    /// Every graph there is.
    pub(super) fn graphs(&self) -> Vec<&Graph<'a>> {
        self.bodies().flat_map(Graph::every).collect()
    }

    /// Every name of a value or a node.
    pub(super) fn names(&self) -> Names {
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
    pub(super) fn tensors(&self) -> Result<Vec<(&'a [u8], bool)>, ModelError> {
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
pub(super) struct Names {
    used: HashSet<String>,
    /// The last number behind a name, so that many constants of one name do not try them all.
    numbers: HashMap<String, usize>,
}

impl Names {
    /// `name`, or `name` and a number.
    pub(super) fn fresh(&mut self, name: String) -> String {
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
                    let values = last(bytes, sparse::VALUES, as_bytes)?.unwrap_or_default();
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
                function::INPUT => graph.inputs.push(Declared { name: utf8(bytes)?, data_type: None }),
                function::OUTPUT => graph.outputs.push(Declared { name: utf8(bytes)?, data_type: None }),
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
        let mut attribute = Attribute { name: "", message, refers: false, graphs: Vec::new() };
        let (mut tensors, mut single) = (0, 0);
        for field in Fields::new(message) {
            let field = field?;
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
        Ok(attribute)
    }
}

fn name(message: &[u8], number: u32) -> Result<&str, ModelError> {
    utf8(last(message, number, as_bytes)?.unwrap_or_default())
}

/// A ValueInfoProto. Types that are not known here are none: they are not this crate's to check.
fn declared(message: &[u8]) -> Result<Declared<'_>, ModelError> {
    let name = name(message, value_info::NAME)?;
    let of_type = last(message, value_info::TYPE, as_bytes)?.unwrap_or_default();
    let tensor_type = last(of_type, value_info::TENSOR_TYPE, as_bytes)?.unwrap_or_default();
    let data_type = last(tensor_type, value_info::ELEM_TYPE, as_int)?.and_then(DataType::from_onnx);
    Ok(Declared { name, data_type })
}

/// Who reads a value, in a body and the graphs within it.
#[derive(Default)]
pub(super) struct Readers<'a> {
    pub(super) count: usize,
    /// The output of a Cast that reads it, and the Cast's target.
    pub(super) cast: Option<(&'a str, DataType)>,
}

/// The readers of every value of a body, by name. Of two values of one name, which branches may have, the readers are
/// counted together.
pub(super) fn readers<'a>(body: &Graph<'a>) -> Result<HashMap<&'a str, Readers<'a>>, ModelError> {
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
                    && let Some(to) = last(to.message, attribute::I, as_varint)?
                {
                    reader.cast = DataType::from_onnx(to as i64).map(|to| (output, to));
                }
            }
        }
    }
    Ok(readers)
}
