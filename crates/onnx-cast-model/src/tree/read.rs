//! A model's tree from its bytes.

use super::{Attribute, Declared, Document, Graph, Named, Node, Signature};
use crate::error::{ModelError, ModelErrorKind};
use crate::messages::{attribute, function, graph, model, node, opset, sparse, value_info};
use attribute::kind;
use onnx_cast::{DataType, NEWEST_OPSET};
use onnx_cast_file::__private::Short;
use onnx_cast_file::__private::onnx::tensor;
use onnx_cast_file::__private::wire::{FieldValue, Fields, all_bytes, last};
use std::rc::Rc;

/// Graphs within graphs. Protocol buffer readers stop at 100 messages within messages, of which a graph takes three.
const MAX_DEPTH: usize = 32;

impl<'a> Document<'a> {
    /// Reads the outline of a model.
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Self, ModelError> {
        let (mut graphs, mut functions) = (Vec::new(), Vec::new());
        let (mut opset, mut ir_version, mut training) = (None, 0, false);
        for field in Fields::new(bytes) {
            let field = field?;
            match (field.number, field.value) {
                (model::IR_VERSION, FieldValue::Varint(version)) => ir_version = version,
                (model::GRAPH, FieldValue::Bytes(graph)) => graphs.push(graph),
                (model::FUNCTIONS, FieldValue::Bytes(function)) => functions.push(function),
                (model::TRAINING_INFO, FieldValue::Bytes(_) | FieldValue::Left(_)) => training = true,
                (model::OPSET_IMPORT, FieldValue::Bytes(import)) => merge(&mut opset, default_opset(import)?)?,
                _ => {}
            }
        }
        let [graph] = graphs[..] else {
            return Err(ModelError::syntax(format_args!("{} graphs (want 1)", graphs.len())));
        };
        // Models from before there were opsets (IR version 3) mean the first one.
        let opset = opset.or((ir_version < 3).then_some(1));
        let mut reader = Reader { next: 0 };
        let opsets = Opsets { opset, imports: imports(bytes, model::OPSET_IMPORT)? };
        let graph = reader.graph(graph, &opsets, 0)?;
        let functions = functions.into_iter().map(|message| reader.function(message)).collect::<Result<_, _>>()?;
        Ok(Document { bytes, ir_version, opset, training, graph, functions })
    }
}

/// Takes an import of ONNX's own domain, of which there is one.
fn merge(opset: &mut Option<i64>, import: Option<i64>) -> Result<(), ModelError> {
    let refuse = |what| Err(ModelError::new(ModelErrorKind::Opset, what));
    match (*opset, import) {
        (Some(first), Some(second)) if first != second => {
            refuse(format!("the model imports two opsets of ONNX's default domain, {first} and {second}"))
        }
        (_, Some(opset)) if !(1..=NEWEST_OPSET).contains(&opset) => {
            refuse(format!("the model imports opset {opset}, which is unknown (want 1 to {NEWEST_OPSET})"))
        }
        (_, import) => {
            *opset = import.or(*opset);
            Ok(())
        }
    }
}

/// The opsets that are in force in a body.
struct Opsets<'a> {
    /// That of ONNX's own domain.
    opset: Option<i64>,
    imports: Rc<[(&'a str, i64)]>,
}

struct Reader {
    /// The next graph's number.
    next: usize,
}

/// Every import of a model or a function.
fn imports(message: &[u8], number: u32) -> Result<Rc<[(&str, i64)]>, ModelError> {
    let mut imports = Vec::new();
    for import in all_bytes(message, number) {
        let import = import?;
        imports.push((text(import, opset::DOMAIN)?, last(import, opset::VERSION, FieldValue::int)?.unwrap_or(0)));
    }
    Ok(imports.into())
}

/// A ValueInfoProto. Types that are not known here are none: they are not this crate's to check.
fn declared(message: &[u8]) -> Result<Declared<'_>, ModelError> {
    let name = text(message, value_info::NAME)?;
    let of_type = last(message, value_info::TYPE, FieldValue::bytes)?.unwrap_or_default();
    let tensor_type = last(of_type, value_info::TENSOR_TYPE, FieldValue::bytes)?.unwrap_or_default();
    let data_type = last(tensor_type, value_info::ELEM_TYPE, FieldValue::int)?.and_then(DataType::from_onnx);
    Ok(Declared { name, message, data_type })
}

/// A value that a function declares.
fn named(name: &[u8]) -> Result<Declared<'_>, ModelError> {
    Ok(Declared { name: utf8(name)?, message: &[], data_type: None })
}

impl Reader {
    fn start<'a>(&mut self, message: &'a [u8], is_function: bool, opsets: &Opsets<'a>) -> Graph<'a> {
        let id = self.next;
        self.next += 1;
        let (nodes, initializers, sparse) = (Vec::new(), Vec::new(), Vec::new());
        let (inputs, outputs, value_info) = (Vec::new(), Vec::new(), Vec::new());
        let (opset, imports, signature) = (opsets.opset, Rc::clone(&opsets.imports), None);
        Graph {
            id,
            message,
            is_function,
            opset,
            imports,
            signature,
            nodes,
            initializers,
            inputs,
            outputs,
            value_info,
            sparse,
        }
    }

    fn graph<'a>(&mut self, message: &'a [u8], opsets: &Opsets<'a>, depth: usize) -> Result<Graph<'a>, ModelError> {
        if depth == MAX_DEPTH {
            let what = format!("graphs nested more than {MAX_DEPTH} deep");
            return Err(ModelError::new(ModelErrorKind::Size, what));
        }
        let mut graph = self.start(message, false, opsets);
        for field in Fields::new(message) {
            let field = field?;
            let FieldValue::Bytes(bytes) = field.value else { continue };
            match field.number {
                graph::NODE => graph.nodes.push(self.node(bytes, opsets, depth)?),
                graph::INITIALIZER => {
                    let name = text(bytes, tensor::NAME)?;
                    graph.initializers.push(Named { name, message: bytes });
                }
                graph::INPUT => graph.inputs.push(declared(bytes)?),
                graph::OUTPUT => graph.outputs.push(declared(bytes)?),
                graph::VALUE_INFO => graph.value_info.push(declared(bytes)?),
                graph::SPARSE_INITIALIZER => {
                    let values = last(bytes, sparse::VALUES, FieldValue::bytes)?.unwrap_or_default();
                    graph.sparse.push(text(values, tensor::NAME)?);
                }
                _ => {}
            }
        }
        Ok(graph)
    }

    fn function<'a>(&mut self, message: &'a [u8]) -> Result<Graph<'a>, ModelError> {
        let mut opset = None;
        for import in all_bytes(message, function::OPSET_IMPORT) {
            merge(&mut opset, default_opset(import?)?)?;
        }
        let opsets = Opsets { opset, imports: imports(message, function::OPSET_IMPORT)? };
        let mut graph = self.start(message, true, &opsets);
        let mut signature = Signature { domain: "", name: "", overload: "", defaults: Vec::new() };
        for field in Fields::new(message) {
            let field = field?;
            let FieldValue::Bytes(bytes) = field.value else { continue };
            match field.number {
                function::NODE => graph.nodes.push(self.node(bytes, &opsets, 0)?),
                function::INPUT => graph.inputs.push(named(bytes)?),
                function::OUTPUT => graph.outputs.push(named(bytes)?),
                function::VALUE_INFO => graph.value_info.push(declared(bytes)?),
                function::NAME => signature.name = utf8(bytes)?,
                function::DOMAIN => signature.domain = utf8(bytes)?,
                function::OVERLOAD => signature.overload = utf8(bytes)?,
                function::ATTRIBUTE_PROTO => signature.defaults.push(self.attribute(bytes, &opsets, 0)?),
                _ => {}
            }
        }
        graph.signature = Some(signature);
        Ok(graph)
    }

    fn node<'a>(&mut self, message: &'a [u8], opsets: &Opsets<'a>, depth: usize) -> Result<Node<'a>, ModelError> {
        let (inputs, outputs, attributes) = (Vec::new(), Vec::new(), Vec::new());
        let mut node = Node { name: "", op_type: "", domain: "", overload: "", inputs, outputs, attributes };
        for field in Fields::new(message) {
            let field = field?;
            let FieldValue::Bytes(bytes) = field.value else { continue };
            match field.number {
                node::INPUT => node.inputs.push(utf8(bytes)?),
                node::OUTPUT => node.outputs.push(utf8(bytes)?),
                node::NAME => node.name = utf8(bytes)?,
                node::OP_TYPE => node.op_type = utf8(bytes)?,
                node::DOMAIN => node.domain = utf8(bytes)?,
                node::OVERLOAD => node.overload = utf8(bytes)?,
                node::ATTRIBUTE => node.attributes.push(self.attribute(bytes, opsets, depth)?),
                _ => {}
            }
        }
        Ok(node)
    }

    fn attribute<'a>(
        &mut self,
        message: &'a [u8],
        opsets: &Opsets<'a>,
        depth: usize,
    ) -> Result<Attribute<'a>, ModelError> {
        let (refers, referred, graphs) = (false, None, Vec::new());
        let mut attribute = Attribute { name: "", message, kind: kind::UNDEFINED, refers, referred, graphs };
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
            if let (attribute::TYPE, FieldValue::Varint(kind)) = (field.number, field.value) {
                declared = kind;
            }
            let FieldValue::Bytes(bytes) = field.value else { continue };
            match field.number {
                attribute::NAME => attribute.name = utf8(bytes)?,
                attribute::REF_ATTR_NAME => {
                    (attribute.refers, attribute.referred) = (true, Some(utf8(bytes)?));
                }
                attribute::G | attribute::GRAPHS => {
                    single += usize::from(field.number == attribute::G);
                    attribute.graphs.push(self.graph(bytes, opsets, depth + 1)?);
                }
                attribute::T => tensors += 1,
                _ => {}
            }
        }
        // By protobuf's rules the two would be joined to one message. No known writer does that.
        if tensors > 1 || single > 1 {
            let what = format!("attribute `{}` has its value twice", Short(attribute.name));
            return Err(ModelError::syntax(what).named(attribute.name));
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
    let version = last(import, opset::VERSION, FieldValue::int)?;
    Ok(is_default(domain).then_some(version.unwrap_or(0)))
}

/// Whether a domain is ONNX's own, which has two spellings.
pub(crate) fn is_default(domain: &str) -> bool {
    matches!(domain, "" | "ai.onnx")
}

/// A field of text; empty where it is not there.
pub(crate) fn text(message: &[u8], number: u32) -> Result<&str, ModelError> {
    utf8(last(message, number, FieldValue::bytes)?.unwrap_or_default())
}

pub(crate) fn utf8(bytes: &[u8]) -> Result<&str, ModelError> {
    std::str::from_utf8(bytes).map_err(|_| ModelError::syntax("a name is not UTF-8"))
}
