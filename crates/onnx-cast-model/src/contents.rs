//! What a model holds: its constants, as the tensors of an [`Input`], so that they are listed and compared as those of
//! any other file, and its Casts. Elements stay where they are.

use crate::constant::{Constant, ConstantValue};
use crate::error::{Error, ModelError};
use crate::external::Files;
use crate::graph::values::{Id, Step};
use crate::messages::{function, model, opset, sparse};
use crate::paths::{self, segment};
use crate::rewrite;
use crate::rope;
use crate::source::ModelSource;
use crate::tree::{Document, Graph, Names, Node, text};
use crate::types::Typing;
use crate::types::agreed::AgreedBody;
use onnx_cast::DataType;
use onnx_cast_file::__private::onnx::{entry, tensor};
use onnx_cast_file::__private::wire::{FieldValue, Fields, last};
use onnx_cast_file::__private::{Input, Items, Location, ParsedData, StoredTensor};
use onnx_cast_file::Format;
use std::collections::HashMap;
use std::sync::Arc;

/// What a model is, beside its constants.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ModelInfo {
    /// The version of the model format.
    pub ir_version: u64,
    /// The domains that are imported, as they are spelled there (ONNX's own is empty), and their versions.
    pub opsets: Vec<(String, i64)>,
    /// The Casts, in the order of the model.
    pub casts: Vec<CastInfo>,
    /// Every value and its type, where they are asked for.
    pub types: Option<Vec<ValueInfo>>,
}

/// A value of a model and its type.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ValueInfo {
    /// Its name.
    pub name: String,
    /// `float`, `sequence(float)`, `optional(float)`, `map(int64,float)`, `sparse(float)`; none where nothing tells it.
    pub of_type: Option<String>,
    /// The graph by its path; empty for the main graph. That of a function that is called with several combinations of
    /// types has a number from the second one on: `domain:name#2`.
    pub graph: String,
}

/// A Cast, a CastLike or a BitCast of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CastInfo {
    /// The node's name, or where it has none, its output's.
    pub node: String,
    /// The operator.
    pub operator: &'static str,
    /// The type that is cast, where the model tells it.
    pub from: Option<DataType>,
    /// The type that it is cast to, likewise.
    pub to: Option<DataType>,
    /// The graph by its path; empty for the main graph.
    pub graph: String,
}

/// Opens a model as a file of the constants in it; with `types`, the types of its values are inferred.
pub(crate) fn open(source: ModelSource<'_>, types: bool) -> Result<(Input, ModelInfo), Error> {
    let file = source.file()?;
    let (tensors, metadata, info) = rewrite::open(source.backing(&file), |document, files| {
        survey(document, files, types).map_err(|error| Error::model(source.path(), error))
    })?;
    Ok((
        Input {
            file,
            format: Format::Onnx,
            tensors,
            metadata: Some(metadata),
            message: None,
            members: Vec::new(),
            left_out: Vec::new(),
        },
        info,
    ))
}

#[expect(clippy::type_complexity, reason = "the parts of an `Input`")]
fn survey<'a>(
    document: &Document<'a>,
    files: &'a Files<'a>,
    types: bool,
) -> Result<(Vec<StoredTensor>, Vec<(String, String)>, ModelInfo), ModelError> {
    let (opsets, metadata) = imports(document.bytes)?;
    let mut survey =
        Survey { files, names: Names::default(), paths: HashMap::new(), tensors: Vec::new(), casts: Vec::new() };
    survey.document(document)?;
    let has_casts = document.graphs().iter().flat_map(|graph| &graph.nodes).any(|node| casting(node).is_some());
    let mut values = None;
    if types || has_casts {
        let typing = Typing::of_all(document)?;
        values = types.then(|| survey.value_types(document, &typing));
        let agreed = typing.agreed(document);
        document.bodies().filter_map(|body| agreed.get(&body.id)).for_each(|body| survey.casts(body));
    }
    let Survey { tensors, casts, .. } = survey;
    Ok((tensors, metadata, ModelInfo { ir_version: document.ir_version, opsets, casts, types: values }))
}

/// The opsets that a model imports, and its metadata.
#[expect(clippy::type_complexity, reason = "two lists of pairs")]
pub(crate) fn imports(message: &[u8]) -> Result<(Vec<(String, i64)>, Vec<(String, String)>), ModelError> {
    let (mut opsets, mut metadata) = (Vec::new(), Vec::new());
    for field in Fields::new(message) {
        let field = field?;
        match (field.number, field.value) {
            (model::OPSET_IMPORT, FieldValue::Bytes(import)) => {
                opsets.push((
                    text(import, opset::DOMAIN)?.to_owned(),
                    last(import, opset::VERSION, FieldValue::int)?.unwrap_or(0),
                ));
            }
            (model::METADATA_PROPS, FieldValue::Bytes(pair)) => {
                metadata.push((text(pair, entry::KEY)?.to_owned(), text(pair, entry::VALUE)?.to_owned()));
            }
            _ => {}
        }
    }
    Ok((opsets, metadata))
}

struct Survey<'a> {
    files: &'a Files<'a>,
    /// Names of constants, no two of which are the same.
    names: Names,
    /// The path of each graph, by its number.
    paths: HashMap<usize, String>,
    tensors: Vec<StoredTensor>,
    casts: Vec<CastInfo>,
}

impl<'a> Survey<'a> {
    fn document(&mut self, document: &Document<'a>) -> Result<(), ModelError> {
        self.graph(&document.graph, String::new())?;
        for body in &document.functions {
            let [domain, name] = [function::DOMAIN, function::NAME].map(|number| text(body.message, number));
            let (domain, name) = (domain?, name?);
            let path = if domain.is_empty() { segment(name) } else { segment(&format!("{domain}:{name}")) };
            self.graph(body, path)?;
        }
        Ok(())
    }

    /// Lists the constants of a graph, and of those within it.
    fn graph(&mut self, graph: &Graph<'a>, path: String) -> Result<(), ModelError> {
        for named in &graph.initializers {
            self.constant(&path, Constant::of_tensor(named.name, named.message, self.files)?)?;
        }
        for message in graph.sparse_initializers() {
            let message = message?;
            let values = last(message, sparse::VALUES, FieldValue::bytes)?.unwrap_or_default();
            self.sparse(&within(&path, text(values, tensor::NAME)?), message)?;
        }
        for (index, node) in graph.nodes.iter().enumerate() {
            self.node(&path, node)?;
            for attribute in &node.attributes {
                for (place, inner) in attribute.graphs.iter().enumerate() {
                    let number = if attribute.graphs.len() > 1 { format!("[{place}]") } else { String::new() };
                    let named =
                        if node.name.is_empty() { format!("{}_{index}", node.op_type) } else { node.name.into() };
                    let inside = format!("{}/{}{number}", segment(&named), segment(attribute.name));
                    self.graph(inner, paths::inside(&path, &inside))?;
                }
            }
        }
        self.paths.insert(graph.id, path);
        Ok(())
    }

    /// Lists the value of a Constant node.
    fn node(&mut self, path: &str, node: &Node<'a>) -> Result<(), ModelError> {
        if let Some(constant) = Constant::of_node(node, self.files)? {
            return self.constant(path, constant);
        }
        match ConstantValue::of_node(node)? {
            Some((name, ConstantValue::Strings(shape, strings))) => {
                let len = strings.view().len();
                self.push(within(path, name), DataType::String, shape, len, Location::Strings(strings));
                Ok(())
            }
            Some((name, ConstantValue::Sparse(message))) => self.sparse(&within(path, name), message),
            _ => Ok(()),
        }
    }

    /// Lists the two tensors that a sparse one consists of.
    fn sparse(&mut self, name: &str, message: &'a [u8]) -> Result<(), ModelError> {
        for (number, part) in [(sparse::VALUES, "values"), (sparse::INDICES, "indices")] {
            if let Some(tensor) = last(message, number, FieldValue::bytes)? {
                self.constant(name, Constant::of_tensor(part, tensor, self.files)?)?;
            }
        }
        Ok(())
    }

    fn constant(&mut self, path: &str, constant: Constant<'a>) -> Result<(), ModelError> {
        let Constant { name, message, data_type, shape, len, elements } = constant;
        let place = match (elements, message) {
            (Some(elements), _) => self.place(elements.stored),
            (None, message) => self.files.tensor(message.unwrap_or_default(), |source| match source.data {
                ParsedData::Strings(strings) => Location::Strings(strings),
                ParsedData::Bytes(bytes) => Location::Memory(bytes.into_owned()),
            })?,
        };
        self.push(within(path, name), data_type, shape, len, place);
        Ok(())
    }

    fn place(&self, stored: rope::ElementSource<'a>) -> Location {
        match stored {
            rope::ElementSource::File(file, at) => Location::Other(Arc::clone(file), at, Items::PLAIN),
            rope::ElementSource::Model(_, at) => Location::File(at, Items::PLAIN),
            rope::ElementSource::Message(message) => match self.files.outline.place(message.message) {
                Some(place) => Location::Message(place.start, place.end - place.start),
                None => Location::Memory(Vec::new()),
            },
            rope::ElementSource::Owned(bytes) => Location::Memory(bytes.to_vec()),
            // Only what is written is computed.
            rope::ElementSource::Computed(_) => Location::Memory(Vec::new()),
        }
    }

    fn push(&mut self, name: String, data_type: DataType, shape: Vec<usize>, len: usize, place: Location) {
        self.tensors.push(StoredTensor { name: self.names.fresh(name), data_type, shape, len, place });
    }

    /// Every value and its type, of what runs when the model does.
    fn value_types(&self, document: &Document<'a>, typing: &Typing<'_, 'a>) -> Vec<ValueInfo> {
        let (mut all, mut typed) = (Vec::new(), HashMap::new());
        for body in &typing.bodies[..typing.called] {
            let times: &mut usize = typed.entry(body.function).or_default();
            *times += 1;
            // The path of a graph within a function starts with the function's.
            let function = body.function.map(|place| document.functions[place].id);
            let start = function.and_then(|id| self.paths.get(&id)).map_or(0, String::len);
            for (value, of_type) in body.flow.values.iter().zip(&body.types) {
                let mut graph = self.paths.get(&value.graph).cloned().unwrap_or_default();
                if *times > 1 {
                    graph.insert_str(start, &format!("#{times}"));
                }
                let of_type = of_type.as_ref().map(ToString::to_string);
                all.push(ValueInfo { name: value.name.to_owned(), of_type, graph });
            }
        }
        all
    }

    /// Lists the Casts of a body.
    fn casts(&mut self, body: &AgreedBody<'_, 'a>) {
        let type_of = |ids: &[Option<Id>]| body.types[ids.first().copied().flatten()?];
        for Step { node, graph, inputs, outputs, .. } in &body.flow.steps {
            let Some(operator) = casting(node) else { continue };
            let name = if node.name.is_empty() { node.output().unwrap_or_default() } else { node.name };
            let graph = self.paths.get(&graph.id).cloned().unwrap_or_default();
            let to = type_of(outputs).or_else(|| node.target());
            self.casts.push(CastInfo { node: name.to_owned(), operator, from: type_of(inputs), to, graph });
        }
    }
}

/// The operator of a Cast, a CastLike or a BitCast.
fn casting(node: &Node<'_>) -> Option<&'static str> {
    node.casting().filter(|_| !node.is_scaled())
}

/// The name of a constant of a graph.
fn within(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}/{name}") }
}
