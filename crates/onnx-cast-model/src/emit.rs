//! A model with its edits, as a message. What no edit touches is kept byte for byte; a message that is touched keeps
//! its other fields, unknown ones too, in their order.

use crate::error::ModelError;
use crate::external::{Files, is_external, tensor_name};
use crate::messages::{attribute, function, graph, model, node, opset, value_info};
use crate::rope::{Base, Elements, Rope};
use crate::tree::{Attribute, Document, Graph, Node, default_opset};
use onnx_cast::DataType;
use onnx_cast_file::formats::pb;
use onnx_cast_file::formats::protobuf::onnx::{entry, tensor};
use onnx_cast_file::formats::protobuf::wire::{self, Fields, Value};
use onnx_cast_file::pipeline::Task;
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

/// A Cast.
#[derive(Debug)]
pub(crate) struct NewNode {
    pub(crate) name: String,
    pub(crate) input: String,
    pub(crate) output: String,
    pub(crate) to: DataType,
    /// By whose version `to` is written.
    pub(crate) opset: i64,
}

impl NewNode {
    fn put(&self, number: u32, rope: &mut Rope<'_>) {
        let mut message = Vec::new();
        wire::put_bytes(&mut message, node::INPUT, self.input.as_bytes());
        wire::put_bytes(&mut message, node::OUTPUT, self.output.as_bytes());
        wire::put_bytes(&mut message, node::NAME, self.name.as_bytes());
        wire::put_bytes(&mut message, node::OP_TYPE, b"Cast");
        let mut to = Vec::new();
        wire::put_bytes(&mut to, attribute::NAME, b"to");
        // Cast-1 takes the name of the type, every later one its number.
        if self.opset < 6 {
            wire::put_bytes(&mut to, attribute::S, self.to.name().to_ascii_uppercase().as_bytes());
            wire::put_int(&mut to, attribute::TYPE, attribute::kind::STRING);
        } else {
            wire::put_int(&mut to, attribute::I, self.to.onnx() as u64);
            wire::put_int(&mut to, attribute::TYPE, attribute::kind::INT);
        }
        wire::put_bytes(&mut message, node::ATTRIBUTE, &to);
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

/// Which elements stand in a file of their own, and where there.
#[derive(Debug)]
pub(crate) struct Layout<'a> {
    /// The file's name.
    location: &'a str,
    /// Elements of this many bytes or more; where there is no limit, those that stood in another file before.
    threshold: Option<u64>,
    /// What the file holds, in order, each at its offset.
    pub(crate) data: Vec<(u64, Elements<'a>)>,
    end: u64,
}

/// Where elements start: onnx.proto recommends a multiple of the page size, for readers that map the file.
const ALIGNMENT: u64 = 4096;

impl<'a> Layout<'a> {
    pub(crate) fn new(location: &'a str, threshold: Option<u64>) -> Self {
        Layout { location, threshold, data: Vec::new(), end: 0 }
    }

    /// The tasks that write the file.
    pub(crate) fn tasks(&self, base: Base<'a>) -> Vec<Task<'_>> {
        self.data.iter().map(|(offset, elements)| elements.task(base, *offset)).collect()
    }

    fn takes(&self, len: u64, was_external: bool) -> bool {
        len > 0 && self.threshold.map_or(was_external, |threshold| len >= threshold)
    }

    /// Gives elements a place; returns the fields that tell it.
    fn put(&mut self, elements: Elements<'a>, len: u64) -> Option<Vec<u8>> {
        let offset = self.end.checked_next_multiple_of(ALIGNMENT)?;
        self.end = offset.checked_add(len)?;
        self.data.push((offset, elements));
        let mut fields = Vec::new();
        let entries = [("location", self.location), ("offset", &offset.to_string()), ("length", &len.to_string())];
        for (key, value) in entries {
            let mut message = Vec::new();
            wire::put_bytes(&mut message, entry::KEY, key.as_bytes());
            wire::put_bytes(&mut message, entry::VALUE, value.as_bytes());
            wire::put_bytes(&mut fields, tensor::EXTERNAL_DATA, &message);
        }
        wire::put_int(&mut fields, tensor::DATA_LOCATION, 1);
        Some(fields)
    }
}

/// The model with its edits, as a message.
pub(crate) fn emit<'a>(
    document: &Document<'a>,
    files: &'a Files,
    edits: &Edits<'a>,
    layout: &mut Layout<'a>,
) -> Result<Rope<'a>, ModelError> {
    Emitter { base: document.bytes, files, edits, layout }.document(document)
}

struct Emitter<'a, 'e> {
    base: &'a [u8],
    files: &'a Files,
    edits: &'e Edits<'a>,
    layout: &'e mut Layout<'a>,
}

impl<'a> Emitter<'a, '_> {
    fn rope(&self) -> Rope<'a> {
        Rope::new(self.base)
    }

    fn document(&mut self, document: &Document<'a>) -> Result<Rope<'a>, ModelError> {
        let mut rope = self.rope();
        let mut functions = document.functions.iter();
        let mut imported = false;
        for field in Fields::new(document.bytes) {
            let field = field?;
            let changed = match (field.number, field.value) {
                (model::IR_VERSION, Value::Varint(old)) if self.edits.ir_version.is_some() => {
                    rope.put_int(model::IR_VERSION, self.edits.ir_version.unwrap_or(old));
                    continue;
                }
                (model::GRAPH, Value::Bytes(_)) => self.graph(&document.graph)?,
                (model::FUNCTIONS, Value::Bytes(_)) => match functions.next() {
                    Some(function) => self.graph(function)?,
                    None => None,
                },
                (model::OPSET_IMPORT, Value::Bytes(import)) => {
                    imported = true;
                    self.import(import)?
                }
                _ => None,
            };
            match changed {
                Some(message) => rope.put(field.number, message),
                None => rope.keep(field.span),
            }
        }
        // A model from before there were opsets gets its first import.
        if let (Some(version), false) = (self.edits.opset, imported) {
            let mut import = Vec::new();
            wire::put_int(&mut import, opset::VERSION, version as u64);
            rope.put_bytes(model::OPSET_IMPORT, &import);
        }
        Ok(rope)
    }

    /// An import at its new version, where it has one.
    fn import(&self, import: &'a [u8]) -> Result<Option<Rope<'a>>, ModelError> {
        let (Some(version), Some(old)) = (self.edits.opset, default_opset(import)?) else { return Ok(None) };
        if version <= old {
            return Ok(None);
        }
        let mut rope = self.rope();
        for field in Fields::new(import) {
            let field = field?;
            if field.number != opset::VERSION {
                rope.keep(field.span);
            }
        }
        rope.put_int(opset::VERSION, version as u64);
        Ok(Some(rope))
    }

    fn graph(&mut self, tree: &Graph<'a>) -> Result<Option<Rope<'a>>, ModelError> {
        let edits = self.edits;
        let nothing = GraphEdit::default();
        let edit = edits.graphs.get(&tree.id).unwrap_or(&nothing);
        let node_field = if tree.is_function { function::NODE } else { graph::NODE };
        let mut rope = self.rope();
        let mut changed = false;
        let mut place: HashMap<u32, usize> = HashMap::new();
        let mut started = false;
        if tree.nodes.is_empty() && !edit.first.is_empty() {
            edit.first.iter().for_each(|new| new.put(node_field, &mut rope));
            changed = true;
        }
        for field in Fields::new(tree.message) {
            let field = field?;
            let Value::Bytes(bytes) = field.value else {
                rope.keep(field.span);
                continue;
            };
            let index = place.entry(field.number).or_default();
            let at = *index;
            *index += 1;
            if field.number == node_field {
                if !started {
                    edit.first.iter().for_each(|new| new.put(node_field, &mut rope));
                    changed |= !edit.first.is_empty();
                    started = true;
                }
                let Some(node) = tree.nodes.get(at) else { continue };
                let node_edit = edit.nodes.get(&at);
                if node_edit.is_some_and(|edit| edit.drop) {
                    changed = true;
                } else if let Some((output, value)) = node_edit.and_then(|edit| edit.constant.as_ref()) {
                    let message = self.constant(node, output, value)?;
                    rope.put(field.number, message);
                    changed = true;
                } else {
                    match self.node(node, bytes, node_edit)? {
                        Some(message) => {
                            rope.put(field.number, message);
                            changed = true;
                        }
                        None => rope.keep(field.span),
                    }
                }
                if let Some(edit) = node_edit {
                    edit.after.iter().for_each(|new| new.put(node_field, &mut rope));
                    changed |= !edit.after.is_empty();
                }
                continue;
            }
            let message = match field.number {
                function::OPSET_IMPORT if tree.is_function => self.import(bytes)?,
                graph::INITIALIZER if !tree.is_function => match edit.initializers.get(&at) {
                    Some(None) => {
                        changed = true;
                        continue;
                    }
                    Some(Some(new)) => Some(self.tensor(new)?),
                    None => self.kept(bytes, false)?,
                },
                graph::INPUT if !tree.is_function => match edit.inputs.get(&at) {
                    Some(None) => {
                        changed = true;
                        continue;
                    }
                    Some(Some((name, data_type))) => Some(self.declaration(bytes, name, *data_type)?),
                    None => None,
                },
                graph::VALUE_INFO if !tree.is_function && edit.value_info.contains(&at) => {
                    changed = true;
                    continue;
                }
                function::VALUE_INFO if tree.is_function && edit.value_info.contains(&at) => {
                    changed = true;
                    continue;
                }
                _ => None,
            };
            match message {
                Some(message) => {
                    rope.put(field.number, message);
                    changed = true;
                }
                None => rope.keep(field.span),
            }
        }
        for new in &edit.added_initializers {
            let message = self.tensor(new)?;
            rope.put(graph::INITIALIZER, message);
            changed = true;
        }
        Ok(changed.then_some(rope))
    }

    /// A ValueInfoProto of another name and element type.
    fn declaration(&self, message: &'a [u8], name: &str, data_type: DataType) -> Result<Rope<'a>, ModelError> {
        let tensor_type = |rope: &mut Rope<'a>, message| {
            let elem_type = |rope: &mut Rope<'a>, _| {
                rope.put_int(value_info::ELEM_TYPE, data_type.onnx() as u64);
                Ok(())
            };
            rope.put(value_info::TENSOR_TYPE, self.replace(message, value_info::ELEM_TYPE, elem_type)?);
            Ok(())
        };
        let mut rope = self.rope();
        for field in Fields::new(message) {
            let field = field?;
            match (field.number, field.value) {
                (value_info::NAME, _) => rope.put_bytes(value_info::NAME, name.as_bytes()),
                (value_info::TYPE, Value::Bytes(of_type)) => {
                    rope.put(value_info::TYPE, self.replace(of_type, value_info::TENSOR_TYPE, tensor_type)?);
                }
                _ => rope.keep(field.span),
            }
        }
        Ok(rope)
    }

    /// A message with every field of a number replaced.
    fn replace(
        &self,
        message: &'a [u8],
        number: u32,
        with: impl Fn(&mut Rope<'a>, &'a [u8]) -> Result<(), ModelError>,
    ) -> Result<Rope<'a>, ModelError> {
        let mut rope = self.rope();
        for field in Fields::new(message) {
            let field = field?;
            if field.number == number {
                let bytes = if let Value::Bytes(bytes) = field.value { bytes } else { &[] };
                with(&mut rope, bytes)?;
            } else {
                rope.keep(field.span);
            }
        }
        Ok(rope)
    }

    fn node(
        &mut self,
        tree: &Node<'a>,
        message: &'a [u8],
        edit: Option<&NodeEdit<'a>>,
    ) -> Result<Option<Rope<'a>>, ModelError> {
        let nothing = NodeEdit::default();
        let edit = edit.unwrap_or(&nothing);
        let mut rope = self.rope();
        let mut changed = false;
        let (mut input, mut output, mut attributes) = (0, 0, tree.attributes.iter());
        for field in Fields::new(message) {
            let field = field?;
            let new = match (field.number, field.value) {
                (node::INPUT, Value::Bytes(_)) => {
                    input += 1;
                    edit.inputs.get(&(input - 1)).map(|name| (node::INPUT, name))
                }
                (node::OUTPUT, Value::Bytes(_)) => {
                    output += 1;
                    edit.outputs.get(&(output - 1)).map(|name| (node::OUTPUT, name))
                }
                (node::ATTRIBUTE, Value::Bytes(_)) => {
                    if let Some(attribute) = attributes.next() {
                        let message = match &edit.value {
                            // The one attribute of a Constant is its value.
                            Some(value) => Some(self.value(attribute, value)?),
                            None => self.attribute(attribute, tree.is("Constant"))?,
                        };
                        if let Some(message) = message {
                            rope.put(node::ATTRIBUTE, message);
                            changed = true;
                            continue;
                        }
                    }
                    None
                }
                _ => None,
            };
            match new {
                Some((number, name)) => {
                    rope.put_bytes(number, name.as_bytes());
                    changed = true;
                }
                None => rope.keep(field.span),
            }
        }
        Ok(changed.then_some(rope))
    }

    /// A Constant in place of another node, whose name and remarks it keeps.
    fn constant(&mut self, old: &Node<'a>, output: &str, value: &NewTensor<'a>) -> Result<Rope<'a>, ModelError> {
        let mut rope = self.rope();
        rope.put_bytes(node::OUTPUT, output.as_bytes());
        if !old.name.is_empty() {
            rope.put_bytes(node::NAME, old.name.as_bytes());
        }
        rope.put_bytes(node::OP_TYPE, b"Constant");
        let mut attribute = self.rope();
        attribute.put_bytes(attribute::NAME, b"value");
        let value = self.tensor(value)?;
        attribute.put(attribute::T, value);
        attribute.put_int(attribute::TYPE, attribute::kind::TENSOR);
        rope.put(node::ATTRIBUTE, attribute);
        Ok(rope)
    }

    /// The attribute `value` of a Constant, in place of whatever said its value.
    fn value(&mut self, old: &Attribute<'a>, value: &NewTensor<'a>) -> Result<Rope<'a>, ModelError> {
        const VALUES: [u32; 8] = [
            attribute::F,
            attribute::I,
            attribute::S,
            attribute::T,
            attribute::FLOATS,
            attribute::INTS,
            attribute::STRINGS,
            attribute::TYPE,
        ];
        let value = self.tensor(value)?;
        let mut rope = self.rope();
        let mut value = Some(value);
        for field in Fields::new(old.message) {
            let field = field?;
            if field.number == attribute::NAME {
                rope.put_bytes(attribute::NAME, b"value");
            } else if VALUES.contains(&field.number) {
                if let Some(value) = value.take() {
                    rope.put(attribute::T, value);
                    rope.put_int(attribute::TYPE, attribute::kind::TENSOR);
                }
            } else {
                rope.keep(field.span);
            }
        }
        Ok(rope)
    }

    fn attribute(&mut self, tree: &Attribute<'a>, constant: bool) -> Result<Option<Rope<'a>>, ModelError> {
        let mut rope = self.rope();
        let mut changed = false;
        let mut graphs = tree.graphs.iter();
        for field in Fields::new(tree.message) {
            let field = field?;
            let message = match (field.number, field.value) {
                (attribute::G | attribute::GRAPHS, Value::Bytes(_)) => match graphs.next() {
                    Some(graph) => self.graph(graph)?,
                    None => None,
                },
                // Of other nodes than Constant, readers expect no tensor elsewhere that was not there before.
                (attribute::T | attribute::TENSORS, Value::Bytes(bytes)) => self.kept(bytes, !constant)?,
                _ => None,
            };
            match message {
                Some(message) => {
                    rope.put(field.number, message);
                    changed = true;
                }
                None => rope.keep(field.span),
            }
        }
        Ok(changed.then_some(rope))
    }

    /// A tensor that is not edited, which may have to move into or out of the file of external data.
    fn kept(&mut self, message: &'a [u8], in_place: bool) -> Result<Option<Rope<'a>>, ModelError> {
        let external = is_external(message);
        if !external {
            // What is not understood stays as it is.
            let large = |head: pb::Head<'_>| {
                let len = head.data_type.byte_len(head.len)? as u64;
                Some(!in_place && self.layout.threshold.is_some() && self.layout.takes(len, false))
            };
            if !pb::head(message).ok().and_then(large).unwrap_or(false) {
                return Ok(None);
            }
        }
        let Some(elements) = self.files.elements(message)? else { return Ok(None) };
        let new = NewTensor { message: Some(message), name: None, shape: vec![], content: Content::Elements(elements) };
        self.tensor(&new).map(Some)
    }

    fn tensor(&mut self, new: &NewTensor<'a>) -> Result<Rope<'a>, ModelError> {
        let mut rope = self.rope();
        let was_external = new.message.is_some_and(is_external);
        let data_type = match &new.content {
            Content::Elements(elements) => elements.data_type(),
            Content::Strings(_) => DataType::String,
        };
        let mut elements = Some(match &new.content {
            Content::Strings(strings) => Data::Fields(strings.clone()),
            Content::Elements(elements) => {
                let too_large = || {
                    let tensor = new.name.clone().unwrap_or_else(|| new.message.map(tensor_name).unwrap_or_default());
                    let error = pb::PbError {
                        tensor,
                        problem: pb::PbProblem::TooLarge { data_type, shape: new.shape.clone() },
                    };
                    ModelError::Tensor { place: "constant".to_owned(), error }
                };
                let len = elements.byte_len().ok_or_else(too_large)?;
                if self.layout.takes(len, was_external) {
                    Data::Fields(self.layout.put(elements.clone(), len).ok_or_else(too_large)?)
                } else {
                    Data::Raw(elements.clone(), len)
                }
            }
        });
        let put_elements = |rope: &mut Rope<'a>, elements: Option<Data<'a>>| match elements {
            Some(Data::Fields(fields)) => rope.push(&fields),
            Some(Data::Raw(elements, len)) => rope.put_elements(tensor::RAW_DATA, elements, len),
            None => {}
        };
        let put_name = |rope: &mut Rope<'a>, name: &str| rope.put_bytes(tensor::NAME, name.as_bytes());
        let Some(message) = new.message else {
            new.shape.iter().for_each(|&dim| rope.put_int(tensor::DIMS, dim as u64));
            rope.put_int(tensor::DATA_TYPE, data_type.onnx() as u64);
            new.name.iter().for_each(|name| put_name(&mut rope, name));
            put_elements(&mut rope, elements.take());
            return Ok(rope);
        };
        let (mut name, mut typed) = (new.name.as_deref(), false);
        for field in Fields::new(message) {
            let field = field?;
            match field.number {
                tensor::DATA_TYPE => {
                    if !typed {
                        rope.put_int(tensor::DATA_TYPE, data_type.onnx() as u64);
                    }
                    typed = true;
                }
                tensor::NAME if new.name.is_some() => {
                    if let Some(name) = name.take() {
                        put_name(&mut rope, name);
                    }
                }
                number if is_elements(number) => put_elements(&mut rope, elements.take()),
                _ => rope.keep(field.span),
            }
        }
        name.iter().for_each(|name| put_name(&mut rope, name));
        put_elements(&mut rope, elements.take());
        Ok(rope)
    }
}

/// Elements as they stand in a TensorProto.
enum Data<'a> {
    Raw(Elements<'a>, u64),
    /// Fields that are ready: strings, or where the elements are.
    Fields(Vec<u8>),
}

fn is_elements(number: u32) -> bool {
    pb::is_storage(number) || matches!(number, tensor::EXTERNAL_DATA | tensor::DATA_LOCATION)
}
