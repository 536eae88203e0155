//! A model with its edits, as a message. What no edit touches is kept byte for byte; a message that is touched keeps
//! its other fields, unknown ones too, in their order.

mod layout;
mod tensor;

use crate::edits::{Edits, GraphEdit, GraphEdits, NewNode, NodeEdit};
use crate::error::ModelError;
use crate::external::Files;
use crate::messages::{attribute, function, graph, model, node, of_type, opset, value_info};
use crate::rope::Rope;
use crate::tree::{Attribute, Document, Graph, Node, default_opset};
use onnx_cast::DataType;
use onnx_cast_file::__private::wire::{self, Field, FieldValue, Fields};
use std::collections::HashMap;

pub(crate) use layout::Layout;

/// The model with its edits, as a message.
pub(crate) fn emit<'a>(
    document: &Document<'a>,
    files: &'a Files<'a>,
    edits: &Edits<'a>,
    layout: &mut Layout<'a>,
) -> Result<Rope<'a>, ModelError> {
    Emitter { files, edits, graphs: &edits.graphs, layout }.document(document)
}

struct Emitter<'a, 'e> {
    files: &'a Files<'a>,
    edits: &'e Edits<'a>,
    /// Those of the model, or of a copy of a function.
    graphs: &'e GraphEdits<'a>,
    layout: &'e mut Layout<'a>,
}

/// What becomes of a field.
enum FieldEdit<'a> {
    Kept,
    /// It holds this message now.
    Replaced(Rope<'a>),
    /// It is left out, or what stands in its place is written already.
    Gone,
}

impl<'a> From<Option<Rope<'a>>> for FieldEdit<'a> {
    fn from(message: Option<Rope<'a>>) -> Self {
        message.map_or(FieldEdit::Kept, FieldEdit::Replaced)
    }
}

impl<'a> Emitter<'a, '_> {
    fn rope(&self) -> Rope<'a> {
        Rope::new(self.files.outline)
    }

    /// Appends the fields of a message to a rope, each as a function decides; whether the rope differs from the
    /// message.
    fn walk(
        &mut self,
        mut rope: Rope<'a>,
        message: &'a [u8],
        mut fate: impl FnMut(&mut Self, &mut Rope<'a>, &Field<'a>) -> Result<FieldEdit<'a>, ModelError>,
    ) -> Result<(Rope<'a>, bool), ModelError> {
        let mut changed = rope.len() > 0;
        for field in Fields::new(message) {
            let field = field?;
            let fate = fate(self, &mut rope, &field)?;
            changed |= !matches!(fate, FieldEdit::Kept);
            match fate {
                FieldEdit::Kept => rope.keep(field.span),
                FieldEdit::Replaced(message) => rope.put(field.number, message),
                FieldEdit::Gone => {}
            }
        }
        Ok((rope, changed))
    }

    fn document(&mut self, document: &Document<'a>) -> Result<Rope<'a>, ModelError> {
        let mut functions = document.functions.iter().enumerate();
        let mut imported = false;
        let (mut rope, _) = self.walk(self.rope(), document.bytes, |this, rope, field| {
            let changed = match (field.number, field.value) {
                (model::IR_VERSION, FieldValue::Varint(_)) => {
                    let Some(version) = this.edits.ir_version else { return Ok(FieldEdit::Kept) };
                    rope.put_int(model::IR_VERSION, version);
                    return Ok(FieldEdit::Gone);
                }
                (model::GRAPH, FieldValue::Bytes(_)) => this.graph(&document.graph)?,
                (model::FUNCTIONS, FieldValue::Bytes(_)) => {
                    let Some((place, function)) = functions.next() else { return Ok(FieldEdit::Kept) };
                    let message = this.graph(function)?;
                    if !this.edits.copies.iter().any(|copy| copy.function == place) {
                        return Ok(message.into());
                    }
                    match message {
                        Some(message) => rope.put(model::FUNCTIONS, message),
                        None => rope.keep(field.span),
                    }
                    this.copies(place, function, rope)?;
                    return Ok(FieldEdit::Gone);
                }
                (model::OPSET_IMPORT, FieldValue::Bytes(import)) => {
                    imported = true;
                    this.import(import)?
                }
                _ => None,
            };
            Ok(changed.into())
        })?;
        // A model from before there were opsets gets its first import.
        if let (Some(version), false) = (self.edits.opset, imported) {
            let mut import = Vec::new();
            wire::put_int(&mut import, opset::VERSION, version as u64);
            rope.put_bytes(model::OPSET_IMPORT, &import);
        }
        if self.edits.import_microsoft {
            let mut import = Vec::new();
            wire::put_bytes(&mut import, opset::DOMAIN, b"com.microsoft");
            wire::put_int(&mut import, opset::VERSION, 1);
            rope.put_bytes(model::OPSET_IMPORT, &import);
        }
        Ok(rope)
    }

    /// The copies of a function. They stand behind it, before what calls them, as some readers want functions to.
    fn copies(&mut self, place: usize, function: &Graph<'a>, rope: &mut Rope<'a>) -> Result<(), ModelError> {
        for copy in self.edits.copies.iter().filter(|copy| copy.function == place) {
            self.graphs = &copy.graphs;
            let whole = match self.graph(function)? {
                Some(message) => message,
                None => self.walk(self.rope(), function.message, |_, _, _| Ok(FieldEdit::Kept))?.0,
            };
            // The last of a field counts.
            let mut name = Vec::new();
            wire::put_bytes(&mut name, function::NAME, copy.name.as_bytes());
            let mut message = whole;
            message.push(&name);
            rope.put(model::FUNCTIONS, message);
        }
        self.graphs = &self.edits.graphs;
        Ok(())
    }

    /// An import at its new version, where it has one.
    fn import(&mut self, import: &'a [u8]) -> Result<Option<Rope<'a>>, ModelError> {
        let (Some(version), Some(old)) = (self.edits.opset, default_opset(import)?) else { return Ok(None) };
        if version == old || (version < old && !self.edits.lowers) {
            return Ok(None);
        }
        let (mut rope, _) = self.walk(self.rope(), import, |_, _, field| {
            Ok(if field.number == opset::VERSION { FieldEdit::Gone } else { FieldEdit::Kept })
        })?;
        rope.put_int(opset::VERSION, version as u64);
        Ok(Some(rope))
    }

    /// The graph that the next field holds.
    fn next_graph<'t>(
        &mut self,
        graphs: &mut impl Iterator<Item = &'t Graph<'a>>,
    ) -> Result<Option<Rope<'a>>, ModelError>
    where
        'a: 't,
    {
        graphs.next().map_or(Ok(None), |graph| self.graph(graph))
    }

    fn graph(&mut self, tree: &Graph<'a>) -> Result<Option<Rope<'a>>, ModelError> {
        let edits = self.graphs;
        let nothing = GraphEdit::default();
        let edit = edits.get(&tree.id).unwrap_or(&nothing);
        let (node, value_info) = match tree.is_function {
            true => (function::NODE, function::VALUE_INFO),
            false => (graph::NODE, graph::VALUE_INFO),
        };
        let mut start = self.rope();
        if tree.nodes.is_empty() {
            self.new_nodes(&edit.first, node, &mut start)?;
        }
        let mut places: HashMap<u32, usize> = HashMap::new();
        let (mut rope, mut changed) = self.walk(start, tree.message, |this, rope, field| {
            let FieldValue::Bytes(bytes) = field.value else { return Ok(FieldEdit::Kept) };
            let place = places.entry(field.number).or_default();
            let at = *place;
            *place += 1;
            Ok(match field.number {
                number if number == node => this.nodes(tree, edit, at, rope, field)?,
                number if number == value_info => match edit.value_info.get(&at) {
                    Some(Some(data_type)) => FieldEdit::Replaced(this.declaration(bytes, None, *data_type)?),
                    Some(None) => FieldEdit::Gone,
                    None => FieldEdit::Kept,
                },
                function::OPSET_IMPORT if tree.is_function => this.import(bytes)?.into(),
                graph::INITIALIZER if !tree.is_function => match edit.initializers.get(&at) {
                    Some(Some(new)) => FieldEdit::Replaced(this.tensor(new)?),
                    Some(None) => FieldEdit::Gone,
                    None => this.kept(bytes, false)?.into(),
                },
                graph::INPUT if !tree.is_function => match edit.inputs.get(&at) {
                    Some(Some((name, data_type))) => {
                        FieldEdit::Replaced(this.declaration(bytes, Some(name), *data_type)?)
                    }
                    Some(None) => FieldEdit::Gone,
                    None => FieldEdit::Kept,
                },
                graph::OUTPUT if !tree.is_function => match edit.outputs.get(&at) {
                    Some((name, data_type)) => FieldEdit::Replaced(this.declaration(bytes, Some(name), *data_type)?),
                    None => FieldEdit::Kept,
                },
                _ => FieldEdit::Kept,
            })
        })?;
        for new in &edit.added_initializers {
            rope.put(graph::INITIALIZER, self.tensor(new)?);
            changed = true;
        }
        for output in &edit.added_outputs {
            rope.put_bytes(graph::OUTPUT, output);
            changed = true;
        }
        Ok(changed.then_some(rope))
    }

    /// The node at a place, between those that are new.
    fn nodes(
        &mut self,
        tree: &Graph<'a>,
        edit: &GraphEdit<'a>,
        at: usize,
        rope: &mut Rope<'a>,
        field: &Field<'a>,
    ) -> Result<FieldEdit<'a>, ModelError> {
        let (Some(node), FieldValue::Bytes(message)) = (tree.nodes.get(at), field.value) else {
            return Ok(FieldEdit::Gone);
        };
        let nothing = NodeEdit::default();
        let change = edit.nodes.get(&at).unwrap_or(&nothing);
        let first = if at == 0 { &edit.first[..] } else { &[] };
        self.new_nodes(first, field.number, rope)?;
        self.new_nodes(&change.before, field.number, rope)?;
        match &change.constant {
            _ if change.drop => {}
            Some((output, value)) => rope.put(field.number, self.constant(node, output, value)?),
            None => match self.node(node, message, change)? {
                Some(message) => rope.put(field.number, message),
                None if first.is_empty() && change.before.is_empty() && change.after.is_empty() => {
                    return Ok(FieldEdit::Kept);
                }
                None => rope.keep(field.span),
            },
        }
        self.new_nodes(&change.after, field.number, rope)?;
        Ok(FieldEdit::Gone)
    }

    /// Nodes that are new, in the field that holds nodes.
    fn new_nodes(&mut self, nodes: &[NewNode<'a>], number: u32, rope: &mut Rope<'a>) -> Result<(), ModelError> {
        for new in nodes {
            rope.put(number, self.new_node(new)?);
        }
        Ok(())
    }

    fn new_node(&mut self, new: &NewNode<'a>) -> Result<Rope<'a>, ModelError> {
        let mut message = self.rope();
        new.inputs.iter().for_each(|input| message.put_bytes(node::INPUT, input.as_bytes()));
        new.outputs.iter().for_each(|output| message.put_bytes(node::OUTPUT, output.as_bytes()));
        message.put_bytes(node::NAME, new.name.as_bytes());
        message.put_bytes(node::OP_TYPE, new.op_type.as_bytes());
        if !new.domain.is_empty() {
            message.put_bytes(node::DOMAIN, new.domain.as_bytes());
        }
        new.attributes.iter().for_each(|attribute| message.put_bytes(node::ATTRIBUTE, &attribute.0));
        if let Some(value) = &new.value {
            message.put(node::ATTRIBUTE, self.value_attribute(value)?);
        }
        Ok(message)
    }

    /// A ValueInfoProto of another element type, and of another name.
    fn declaration(
        &mut self,
        message: &'a [u8],
        name: Option<&str>,
        data_type: DataType,
    ) -> Result<Rope<'a>, ModelError> {
        let (rope, _) = self.walk(self.rope(), message, |this, rope, field| match (field.number, field.value) {
            (value_info::NAME, _) => {
                let Some(name) = name else { return Ok(FieldEdit::Kept) };
                rope.put_bytes(value_info::NAME, name.as_bytes());
                Ok(FieldEdit::Gone)
            }
            (value_info::TYPE, FieldValue::Bytes(of_type)) => {
                Ok(FieldEdit::Replaced(this.of_type(of_type, data_type)?))
            }
            _ => Ok(FieldEdit::Kept),
        })?;
        Ok(rope)
    }

    /// A TypeProto of another element type, also where it is of sequences or optionals.
    fn of_type(&mut self, message: &'a [u8], data_type: DataType) -> Result<Rope<'a>, ModelError> {
        let (rope, _) = self.walk(self.rope(), message, |this, _, field| {
            let is_tensor = field.number == of_type::TENSOR;
            if !is_tensor && !matches!(field.number, of_type::SEQUENCE | of_type::OPTIONAL) {
                return Ok(FieldEdit::Kept);
            }
            let (inner, _) = this.walk(this.rope(), field.value.bytes().unwrap_or_default(), |this, rope, field| {
                match field.value {
                    _ if field.number != of_type::ELEM_TYPE => return Ok(FieldEdit::Kept),
                    FieldValue::Bytes(inner) if !is_tensor => {
                        return Ok(FieldEdit::Replaced(this.of_type(inner, data_type)?));
                    }
                    _ => rope.put_int(of_type::ELEM_TYPE, data_type.onnx() as u64),
                }
                Ok(FieldEdit::Gone)
            })?;
            Ok(FieldEdit::Replaced(inner))
        })?;
        Ok(rope)
    }

    fn node(
        &mut self,
        tree: &Node<'a>,
        message: &'a [u8],
        edit: &NodeEdit<'a>,
    ) -> Result<Option<Rope<'a>>, ModelError> {
        let (mut inputs, mut outputs, mut attributes) = (0.., 0.., tree.attributes.iter().enumerate());
        let (mut rope, mut changed) = self.walk(self.rope(), message, |this, rope, field| {
            let name = match (field.number, field.value) {
                (node::INPUT, FieldValue::Bytes(_)) => {
                    let at = inputs.next().unwrap_or_default();
                    if edit.input_count.is_some_and(|count| at >= count) {
                        return Ok(FieldEdit::Gone);
                    }
                    edit.inputs.get(&at)
                }
                (node::OUTPUT, FieldValue::Bytes(_)) => outputs.next().and_then(|at| edit.outputs.get(&at)),
                (node::OP_TYPE, _) => edit.op_type.as_ref(),
                (node::ATTRIBUTE, FieldValue::Bytes(_)) => {
                    let Some((at, attribute)) = attributes.next() else { return Ok(FieldEdit::Kept) };
                    return Ok(match (&edit.value, edit.attributes.get(&at)) {
                        // The one attribute of a Constant is its value.
                        (Some(value), _) => FieldEdit::Replaced(this.value(attribute, value)?),
                        (_, Some(Some(new))) => {
                            rope.put_bytes(node::ATTRIBUTE, &new.0);
                            FieldEdit::Gone
                        }
                        (_, Some(None)) => FieldEdit::Gone,
                        _ => this.attribute(attribute, tree.is("Constant"))?.into(),
                    });
                }
                _ => None,
            };
            let Some(name) = name else { return Ok(FieldEdit::Kept) };
            rope.put_bytes(field.number, name.as_bytes());
            Ok(FieldEdit::Gone)
        })?;
        let last = edit.inputs.keys().copied().max().map_or(0, |last| last + 1);
        for place in tree.inputs.len()..last {
            rope.put_bytes(node::INPUT, edit.inputs.get(&place).map_or("", String::as_str).as_bytes());
            changed = true;
        }
        for output in &edit.added_outputs {
            rope.put_bytes(node::OUTPUT, output.as_bytes());
            changed = true;
        }
        for attribute in &edit.added_attributes {
            rope.put_bytes(node::ATTRIBUTE, &attribute.0);
            changed = true;
        }
        Ok(changed.then_some(rope))
    }

    fn attribute(&mut self, tree: &Attribute<'a>, constant: bool) -> Result<Option<Rope<'a>>, ModelError> {
        let mut graphs = tree.graphs.iter();
        let (rope, changed) = self.walk(self.rope(), tree.message, |this, _, field| {
            let message = match (field.number, field.value) {
                (attribute::G | attribute::GRAPHS, FieldValue::Bytes(_)) => this.next_graph(&mut graphs)?,
                // Of other nodes than Constant, readers expect no tensor elsewhere that was not there before.
                (attribute::T | attribute::TENSORS, FieldValue::Bytes(bytes)) => this.kept(bytes, !constant)?,
                _ => None,
            };
            Ok(message.into())
        })?;
        Ok(changed.then_some(rope))
    }
}
