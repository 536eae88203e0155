//! A model that can be evaluated, from its tree: the nodes resolved to operators, so that an operator that cannot run
//! is reported before any runs.

use super::{Model, Node, Operation, ValueDecl};
use crate::constant::ConstantValue;
use crate::contents::imports;
use crate::error::{ModelError, ModelErrorKind};
use crate::messages::{attribute, function, value_info};
use crate::tree::{self, Document, Graph, text};
use crate::types::schemas::Schema;
use onnx_cast::__private::Count;
use onnx_cast::ops::OpError;
use onnx_cast::ops::{Attribute, Dim};
use onnx_cast::scaled::{DequantizeLinear, DynamicQuantizeLinear, QuantizeLinear};
use onnx_cast::tensor::TensorError;
use onnx_cast::{BitCast, Cast, CastError, CastLike, DataType, Tensor};
use onnx_cast_file::__private::outline::{Outline, OutlineError};
use onnx_cast_file::__private::wire::{Field, FieldValue, Fields, all_bytes, last};
use onnx_cast_file::__private::{Short, pb};
use onnx_cast_file::NamedTensor;
use std::collections::{HashMap, HashSet};

pub(super) fn read(outline: Result<Outline<'_>, OutlineError>) -> Result<Model, ModelError> {
    let outline = &outline?;
    let document = Document::parse(&outline.bytes)?;
    // `run` takes no model that the other commands refuse, although it reads less of it.
    document.tensors()?;
    imports(document.bytes)?;
    if let Some(body) = document.functions.first() {
        let (name, domain) = (text(body.message, function::NAME)?, text(body.message, function::DOMAIN)?);
        let what = format!("function `{}{}`: functions are not supported", prefix(domain), Short(name));
        return Err(ModelError::new(ModelErrorKind::Unsupported, what).named(name));
    }
    let mut model = read_graph(outline, &document.graph, document.opset.ok_or_else(ModelError::no_opset)?)?;
    // Before version 4 every initializer had to be an input too. Such an input is a constant, not a default value.
    if document.ir_version < 4 {
        model.inputs.retain(|input| !model.initializers.contains_key(&input.name));
    }
    Ok(model)
}

fn read_graph(outline: &Outline<'_>, graph: &Graph<'_>, opset: i64) -> Result<Model, ModelError> {
    if !graph.sparse.is_empty() {
        return Err(ModelError::new(ModelErrorKind::Unsupported, "sparse initializers are not supported"));
    }
    let inputs = graph.inputs.iter().map(|input| read_declaration("input", input.message)).collect::<Result<_, _>>()?;
    let outputs =
        graph.outputs.iter().map(|output| read_declaration("output", output.message)).collect::<Result<_, _>>()?;
    let mut initializers = HashMap::new();
    for named in &graph.initializers {
        let tensor = read_tensor(outline, "initializer", named.message)?;
        if initializers.contains_key(&tensor.name) {
            return Err(ModelError::twice(&tensor.name));
        }
        initializers.insert(tensor.name, tensor.tensor);
    }
    let nodes = graph.nodes.iter().enumerate().map(|(index, node)| read_node(outline, node, index, opset));
    let model = Model { opset, inputs, outputs, initializers, nodes: nodes.collect::<Result<_, _>>()? };
    check_order(&model)?;
    Ok(model)
}

/// The tensor of a TensorProto, which errors name by its place.
fn read_tensor(outline: &Outline<'_>, place: &str, message: &[u8]) -> Result<NamedTensor, ModelError> {
    let message = outline.whole(message).map_err(ModelError::unread)?;
    let source = pb::parse(&message).map_err(|error| ModelError::tensor(place, error))?;
    source.into_named().map_err(|error| ModelError::node(place, CastError::from(error)))
}

/// Whether every value is given once, before it is read.
fn check_order(model: &Model) -> Result<(), ModelError> {
    let mut known: HashSet<&str> = HashSet::new();
    for input in &model.inputs {
        if !known.insert(&input.name) {
            return Err(ModelError::twice(&input.name));
        }
    }
    // An initializer may stand for an input's default, so it may have the name of one.
    known.extend(model.initializers.keys().map(String::as_str));
    for node in &model.nodes {
        if let Some(name) = node.inputs.iter().find(|name| !known.contains(name.as_str())) {
            return Err(ModelError::no_value(&node.label, name));
        }
        for output in node.outputs.iter().filter(|output| !output.is_empty() || node.outputs.len() == 1) {
            if !known.insert(output) {
                return Err(ModelError::twice(output));
            }
        }
    }
    match model.outputs.iter().find(|output| !known.contains(output.name.as_str())) {
        Some(output) => Err(ModelError::no_value("output", &output.name)),
        None => Ok(()),
    }
}

fn read_declaration(kind: &'static str, message: &[u8]) -> Result<ValueDecl, ModelError> {
    let name = text(message, value_info::NAME)?.to_owned();
    let mut declaration = ValueDecl { name, data_type: None, shape: None };
    let Some(of_type) = last(message, value_info::TYPE, FieldValue::bytes)? else { return Ok(declaration) };
    let wrong = |what: String| {
        let what = format!("{kind} `{}`: {what}", Short(&declaration.name));
        ModelError::new(ModelErrorKind::Value, what).named(&declaration.name)
    };
    let mut tensor_type = None;
    for field in Fields::new(of_type) {
        const DENOTATION: u32 = 6;
        match field? {
            Field { number: value_info::TENSOR_TYPE, value: FieldValue::Bytes(bytes), .. } => tensor_type = Some(bytes),
            Field { number: DENOTATION, .. } => {}
            // Sequences, maps, optionals, sparse tensors.
            _ => return Err(wrong("is not a tensor".to_owned())),
        }
    }
    let Some(tensor_type) = tensor_type else { return Ok(declaration) };
    let number = last(tensor_type, value_info::ELEM_TYPE, FieldValue::int)?.unwrap_or(0);
    let data_type = match number {
        0 => return Err(wrong("the element type is UNDEFINED".to_owned())),
        number => DataType::from_onnx(number).ok_or_else(|| wrong(format!("{number} is not an element type")))?,
    };
    if let Some(shape) = last(tensor_type, value_info::SHAPE, FieldValue::bytes)? {
        let dims = all_bytes(shape, value_info::DIM).map(|dim| read_dim(dim?));
        declaration.shape = Some(dims.collect::<Result<_, _>>()?);
    }
    declaration.data_type = Some(data_type);
    Ok(declaration)
}

fn read_dim(message: &[u8]) -> Result<Dim, ModelError> {
    if let Some(value) = last(message, value_info::DIM_VALUE, FieldValue::int)? {
        // Some exporters write -1 for "not known".
        return Ok(u64::try_from(value).map_or(Dim::Unknown, Dim::Known));
    }
    let name = text(message, value_info::DIM_PARAM)?;
    Ok(if name.is_empty() { Dim::Unknown } else { Dim::Symbol(name.to_owned()) })
}

fn read_node(outline: &Outline<'_>, node: &tree::Node<'_>, index: usize, opset: i64) -> Result<Node, ModelError> {
    let label = node.label(index);
    if !tree::is_default(node.domain) {
        return Err(unsupported(&label, node));
    }
    let wrong = |error: OpError| ModelError::node(&label, error);
    let lent: Vec<Attribute<'_>> = node.attributes.iter().map(tree::Attribute::lend).collect();
    // The operation, how many inputs it needs, and how many it can have; likewise outputs.
    let (operation, inputs, outputs) = match node.op_type {
        "Cast" => (Operation::Cast(Cast::from_node(opset, &lent).map_err(wrong)?), 1..=1, 1),
        "CastLike" => (Operation::CastLike(CastLike::from_node(opset, &lent).map_err(wrong)?), 2..=2, 1),
        "BitCast" => (Operation::BitCast(BitCast::from_node(opset, &lent).map_err(wrong)?), 1..=1, 1),
        "QuantizeLinear" => {
            (Operation::QuantizeLinear(QuantizeLinear::from_node(opset, &lent).map_err(wrong)?), 2..=3, 1)
        }
        "DequantizeLinear" => {
            (Operation::DequantizeLinear(DequantizeLinear::from_node(opset, &lent).map_err(wrong)?), 2..=3, 1)
        }
        "DynamicQuantizeLinear" => {
            let operator = DynamicQuantizeLinear::from_node(opset, &lent).map_err(wrong)?;
            (Operation::DynamicQuantizeLinear(operator), 1..=1, 3)
        }
        "Constant" => (Operation::Constant(read_constant(outline, &label, &node.attributes, opset)?), 0..=0, 1),
        "Identity" => match node.attributes.first() {
            None => (Operation::Identity, 1..=1, 1),
            Some(first) => {
                let what = format!("Identity has no attribute `{}`", Short(first.name));
                return Err(ModelError::node(&label, what));
            }
        },
        _ => return Err(unsupported(&label, node)),
    };
    // Trailing empty names stand for inputs that are left out.
    let got = node.inputs.iter().rposition(|name| !name.is_empty()).map_or(0, |last| last + 1);
    if !inputs.contains(&got) {
        return Err(ModelError::node(&label, format_args!("{} (want {})", Count(got, "input"), inputs.end())));
    }
    if node.outputs.len() != outputs {
        let got = Count(node.outputs.len(), "output");
        return Err(ModelError::node(&label, format_args!("{got} (want {outputs})")));
    }
    let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    Ok(Node { label, operation, inputs: names(&node.inputs[..got]), outputs: names(&node.outputs) })
}

fn unsupported(label: &str, node: &tree::Node<'_>) -> ModelError {
    let what = format!(
        "operator `{}{}` is not supported (want Cast, CastLike, BitCast, QuantizeLinear, DequantizeLinear, \
         DynamicQuantizeLinear, Constant or Identity)",
        if tree::is_default(node.domain) { String::new() } else { prefix(node.domain) },
        Short(node.op_type)
    );
    ModelError::at(ModelErrorKind::Unsupported, label, what)
}

/// `ai.onnx.ml.`, or nothing for ONNX's own domain.
fn prefix(domain: &str) -> String {
    if domain.is_empty() { String::new() } else { format!("{}.", Short(domain)) }
}

/// The value of a Constant node, checked against the operator's version.
fn read_constant(
    outline: &Outline<'_>,
    label: &str,
    attributes: &[tree::Attribute<'_>],
    opset: i64,
) -> Result<Tensor, ModelError> {
    use attribute::kind;
    // Name, kind, first version.
    const VALUES: [(&str, u64, i64); 7] = [
        ("value", kind::TENSOR, 1),
        ("value_float", kind::FLOAT, 12),
        ("value_floats", kind::FLOATS, 12),
        ("value_int", kind::INT, 12),
        ("value_ints", kind::INTS, 12),
        ("value_string", kind::STRING, 12),
        ("value_strings", kind::STRINGS, 12),
    ];
    let wrong = |what: String| ModelError::node(label, what);
    let version = Schema::of("", "Constant", opset).map_or(1, |schema| schema.since);
    let [value] = attributes else {
        return Err(wrong(format!("{} attributes (want one, the value)", attributes.len())));
    };
    let name = Short(value.name);
    let Some((_, kind, first)) = VALUES.iter().find(|(known, ..)| *known == value.name) else {
        return Err(wrong(match value.name {
            "sparse_value" => "sparse_value is not supported".to_owned(),
            _ => format!("Constant-{version} has no attribute `{name}`"),
        }));
    };
    if *first > version {
        return Err(wrong(format!(
            "Constant-{version} has no attribute `{name}` (Constant-{first} is the first that has it)"
        )));
    }
    if *kind != value.kind {
        return Err(wrong(format!("attribute `{name}` is of the wrong kind")));
    }
    let checked =
        |tensor: Result<Tensor, TensorError>| tensor.map_err(|error| ModelError::node(label, CastError::from(error)));
    let tensor = match ConstantValue::of(value)? {
        Some(ConstantValue::Tensor(message)) => read_tensor(outline, label, message)?.tensor,
        Some(ConstantValue::Numbers(data_type, shape, bytes)) => checked(Tensor::new(data_type, shape, bytes))?,
        Some(ConstantValue::Strings(shape, strings)) => checked(Tensor::strings(shape, strings))?,
        // A value that is not there is an empty message.
        Some(ConstantValue::Sparse(_)) | None => read_tensor(outline, label, &[])?.tensor,
    };
    let data_type = tensor.data_type();
    let first = Schema::first_giving("Constant", data_type);
    if first.is_none_or(|first| first > version) {
        return Err(ModelError::wrong_type(label, "Constant", version, data_type, first));
    }
    Ok(tensor)
}
