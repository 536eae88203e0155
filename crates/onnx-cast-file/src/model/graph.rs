//! A model from its bytes: the graph's nodes resolved to operators, so that whatever cannot run is told before anything
//! does.

use super::{Model, ModelError, Node, Operation, ValueDecl};
use crate::error::Short;
use crate::pb;
use crate::proto::onnx::{attribute, function, graph, model, node, opset, value_info};
use crate::proto::wire::{self, Fields, Value, WireError};
use onnx_cast::ops::{Attribute, AttributeValue, Dim};
use onnx_cast::{BitCast, Cast, CastLike, DataType, NEWEST_OPSET, Operator, Strings, Tensor, TensorError};
use std::collections::{HashMap, HashSet};

pub(super) fn read(bytes: &[u8]) -> Result<Model, ModelError> {
    let mut graphs = Vec::new();
    let mut imported = None;
    let mut ir_version = 0;
    for field in Fields::new(bytes) {
        let field = field?;
        match (field.number, field.value) {
            (model::IR_VERSION, Value::Varint(version)) => ir_version = version,
            (model::GRAPH, Value::Bytes(graph)) => graphs.push(graph),
            (model::OPSET_IMPORT, Value::Bytes(import)) => {
                if let Some(second) = default_opset(import)? {
                    match imported {
                        Some(first) if first != second => return Err(ModelError::TwoOpsets { first, second }),
                        _ => imported = Some(second),
                    }
                }
            }
            (model::FUNCTIONS, Value::Bytes(message)) => {
                let (name, domain) = (text(message, function::NAME)?, text(message, function::DOMAIN)?);
                return Err(ModelError::Function { name, domain });
            }
            _ => {}
        }
    }
    let [graph] = graphs[..] else { return Err(ModelError::Graphs { count: graphs.len() }) };
    // Models from before there were opsets (IR version 3) mean the first one.
    let opset = imported.or((ir_version < 3).then_some(1)).ok_or(ModelError::NoOpset)?;
    if !(1..=NEWEST_OPSET).contains(&opset) {
        return Err(ModelError::Opset { opset });
    }
    let mut model = read_graph(graph, opset)?;
    // What evaluates a model takes none that those refuse which list and rewrite it, although it reads less of it.
    crate::rewrite::check(bytes)?;
    // Before version 4 every initializer had to be an input too: that is no default to be replaced, but a constant.
    if ir_version < 4 {
        model.inputs.retain(|input| !model.initializers.contains_key(&input.name));
    }
    Ok(model)
}

/// The opset of an import, where it is of ONNX's default domain.
pub(crate) fn default_opset(import: &[u8]) -> Result<Option<i64>, ModelError> {
    let domain = text(import, opset::DOMAIN)?;
    let version = last(import, opset::VERSION, as_int)?;
    Ok(is_default(&domain).then_some(version.unwrap_or(0)))
}

/// Whether a domain is ONNX's own, which has two spellings.
pub(crate) fn is_default(domain: &str) -> bool {
    matches!(domain, "" | "ai.onnx")
}

fn read_graph(message: &[u8], opset: i64) -> Result<Model, ModelError> {
    let (mut inputs, mut outputs, mut nodes) = (Vec::new(), Vec::new(), Vec::new());
    let mut initializers = HashMap::new();
    for field in Fields::new(message) {
        let field = field?;
        let Value::Bytes(bytes) = field.value else { continue };
        match field.number {
            graph::NODE => nodes.push(read_node(bytes, nodes.len(), opset)?),
            graph::INPUT => inputs.push(read_declaration("input", bytes)?),
            graph::OUTPUT => outputs.push(read_declaration("output", bytes)?),
            graph::INITIALIZER => {
                let tensor = pb::read(bytes);
                let tensor = tensor.map_err(|error| ModelError::Tensor { place: "initializer".to_owned(), error })?;
                if initializers.contains_key(&tensor.name) {
                    return Err(ModelError::Twice { name: tensor.name });
                }
                initializers.insert(tensor.name, tensor.tensor);
            }
            graph::SPARSE_INITIALIZER => return Err(ModelError::Sparse),
            _ => {}
        }
    }
    let model = Model { opset, inputs, outputs, initializers, nodes };
    check_order(&model)?;
    Ok(model)
}

/// Whether every value is given once, before it is read.
fn check_order(model: &Model) -> Result<(), ModelError> {
    let mut known: HashSet<&str> = HashSet::new();
    for input in &model.inputs {
        if !known.insert(&input.name) {
            return Err(ModelError::Twice { name: input.name.clone() });
        }
    }
    // An initializer may stand for an input's default, so it may have the name of one.
    known.extend(model.initializers.keys().map(String::as_str));
    for node in &model.nodes {
        if let Some(name) = node.inputs.iter().find(|name| !known.contains(name.as_str())) {
            return Err(ModelError::NoValue { reader: node.label.clone(), name: name.clone() });
        }
        if !known.insert(&node.output) {
            return Err(ModelError::Twice { name: node.output.clone() });
        }
    }
    match model.outputs.iter().find(|output| !known.contains(output.name.as_str())) {
        Some(output) => Err(ModelError::NoValue { reader: "output".to_owned(), name: output.name.clone() }),
        None => Ok(()),
    }
}

fn read_declaration(kind: &'static str, message: &[u8]) -> Result<ValueDecl, ModelError> {
    let name = text(message, value_info::NAME)?;
    let mut declaration = ValueDecl { name, data_type: None, shape: None };
    let Some(of_type) = last(message, value_info::TYPE, as_bytes)? else { return Ok(declaration) };
    let wrong = |what: String| ModelError::Declaration { kind, name: declaration.name.clone(), what };
    let mut tensor_type = None;
    for field in Fields::new(of_type) {
        const DENOTATION: u32 = 6;
        match field? {
            wire::Field { number: value_info::TENSOR_TYPE, value: Value::Bytes(bytes), .. } => {
                tensor_type = Some(bytes)
            }
            wire::Field { number: DENOTATION, .. } => {}
            // Sequences, maps, optionals, sparse tensors.
            _ => return Err(wrong("is not a tensor".to_owned())),
        }
    }
    let Some(tensor_type) = tensor_type else { return Ok(declaration) };
    let number = last(tensor_type, value_info::ELEM_TYPE, as_int)?.unwrap_or(0);
    let data_type = match number {
        0 => return Err(wrong("the element type is UNDEFINED".to_owned())),
        number => DataType::from_onnx(number).ok_or_else(|| wrong(format!("{number} is no element type")))?,
    };
    if let Some(shape) = last(tensor_type, value_info::SHAPE, as_bytes)? {
        let mut dims = Vec::new();
        for field in Fields::new(shape) {
            let field = field?;
            if let (value_info::DIM, Value::Bytes(dim)) = (field.number, field.value) {
                dims.push(read_dim(dim)?);
            }
        }
        declaration.shape = Some(dims);
    }
    declaration.data_type = Some(data_type);
    Ok(declaration)
}

fn read_dim(message: &[u8]) -> Result<Dim, ModelError> {
    if let Some(value) = last(message, value_info::DIM_VALUE, as_int)? {
        // Some exporters write -1 for "not known".
        return Ok(u64::try_from(value).map_or(Dim::Unknown, Dim::Known));
    }
    let name = text(message, value_info::DIM_PARAM)?;
    Ok(if name.is_empty() { Dim::Unknown } else { Dim::Symbol(name) })
}

fn read_node(message: &[u8], index: usize, opset: i64) -> Result<Node, ModelError> {
    let (name, op_type) = (text(message, node::NAME)?, text(message, node::OP_TYPE)?);
    let domain = text(message, node::DOMAIN)?;
    let label = label(&name, index, &op_type);
    let (mut inputs, mut outputs, mut attributes) = (Vec::new(), Vec::new(), Vec::new());
    for field in Fields::new(message) {
        let field = field?;
        let Value::Bytes(bytes) = field.value else { continue };
        match field.number {
            node::INPUT => inputs.push(utf8(bytes)?.to_owned()),
            node::OUTPUT => outputs.push(utf8(bytes)?.to_owned()),
            node::ATTRIBUTE => attributes.push(AttributeProto::read(bytes)?),
            _ => {}
        }
    }
    if !is_default(&domain) {
        return Err(ModelError::Operator { node: label, op_type, domain });
    }
    let wrong = |error| ModelError::Attributes { node: label.clone(), error };
    let lent: Vec<Attribute<'_>> = attributes.iter().map(AttributeProto::lend).collect();
    let (operation, want) = match op_type.as_str() {
        "Cast" => (Operation::Cast(Cast::from_node(opset, &lent).map_err(wrong)?), 1),
        "CastLike" => (Operation::CastLike(CastLike::from_node(opset, &lent).map_err(wrong)?), 2),
        "BitCast" => (Operation::BitCast(BitCast::from_node(opset, &lent).map_err(wrong)?), 1),
        "Constant" => (Operation::Constant(read_constant(&label, &attributes, opset)?), 0),
        "Identity" => match attributes.first() {
            None => (Operation::Identity, 1),
            Some(first) => {
                let what = format!("Identity has no attribute `{}`", Short(first.name));
                return Err(ModelError::Constant { node: label, what });
            }
        },
        _ => return Err(ModelError::Operator { node: label, op_type, domain: String::new() }),
    };
    // Trailing empty names stand for inputs that are left out.
    let got = inputs.iter().rposition(|name| !name.is_empty()).map_or(0, |last| last + 1);
    inputs.truncate(got);
    if got != want {
        return Err(ModelError::InputCount { node: label, got, want });
    }
    let [output] = &outputs[..] else { return Err(ModelError::OutputCount { node: label, got: outputs.len() }) };
    Ok(Node { label, operation, inputs, output: output.clone() })
}

/// A node as errors name it.
pub(crate) fn label(name: &str, index: usize, op_type: &str) -> String {
    if name.is_empty() {
        format!("node {index} ({})", Short(op_type))
    } else {
        format!("node `{}` ({})", Short(name), Short(op_type))
    }
}

/// An attribute as it stands in the model.
pub(crate) struct AttributeProto<'a> {
    name: &'a str,
    kind: u64,
    message: &'a [u8],
}

impl<'a> AttributeProto<'a> {
    pub(crate) fn read(message: &'a [u8]) -> Result<Self, ModelError> {
        use attribute::kind;
        let name = last(message, attribute::NAME, as_bytes)?.map_or(Ok(""), utf8)?;
        let declared = last(message, attribute::TYPE, as_varint)?;
        // Models from before the field `type` (IR version 1) tell the kind by the field that is set.
        let mut set = kind::UNDEFINED;
        for field in Fields::new(message) {
            set = match field?.number {
                attribute::F => kind::FLOAT,
                attribute::I => kind::INT,
                attribute::S => kind::STRING,
                attribute::T => kind::TENSOR,
                attribute::FLOATS => kind::FLOATS,
                attribute::INTS => kind::INTS,
                attribute::STRINGS => kind::STRINGS,
                // A reference to an attribute of the function around: there is none.
                attribute::REF_ATTR_NAME => u64::MAX,
                _ => set,
            };
        }
        let kind = if set == u64::MAX { set } else { declared.filter(|&kind| kind != 0).unwrap_or(set) };
        Ok(AttributeProto { name, kind, message })
    }

    pub(crate) fn lend(&self) -> Attribute<'a> {
        let value = match self.kind {
            attribute::kind::INT => AttributeValue::Int(self.int()),
            attribute::kind::STRING => AttributeValue::String(self.bytes(attribute::S)),
            _ => AttributeValue::Other,
        };
        Attribute { name: self.name, value }
    }

    /// A field that is not there has the value 0.
    fn int(&self) -> i64 {
        last(self.message, attribute::I, as_int).ok().flatten().unwrap_or(0)
    }

    fn bytes(&self, number: u32) -> &'a [u8] {
        last(self.message, number, as_bytes).ok().flatten().unwrap_or_default()
    }
}

/// The first version of Constant, or of Identity, that has a type, by the schemas of ONNX: every type comes with the
/// version that brought it to CastLike, bfloat16 with 13, and those that there were from the start with the first, but
/// that Constant-1 is for floats alone.
pub(crate) fn since(constant: bool, data_type: DataType) -> Option<i64> {
    let first = match data_type {
        DataType::Float | DataType::Double | DataType::Float16 => 1,
        _ if constant => 9,
        _ => 1,
    };
    match data_type {
        DataType::BFloat16 => Some(13),
        DataType::Complex64 | DataType::Complex128 => Some(first),
        _ => Operator::CastLike.since(data_type).map(|since| if since == 15 { first } else { since }),
    }
}

/// The newest version of Constant, or of Identity, at an opset.
pub(crate) fn version(constant: bool, opset: i64) -> i64 {
    const CONSTANT: &[i64] = &[1, 9, 11, 12, 13, 19, 21, 23, 24, 25];
    const IDENTITY: &[i64] = &[1, 13, 14, 16, 19, 21, 23, 24, 25];
    let versions = if constant { CONSTANT } else { IDENTITY };
    versions.iter().rev().copied().find(|&version| version <= opset).unwrap_or(1)
}

fn read_constant(label: &str, attributes: &[AttributeProto<'_>], opset: i64) -> Result<Tensor, ModelError> {
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
    let wrong = |what| ModelError::Constant { node: label.to_owned(), what };
    let version = version(true, opset);
    let [value] = attributes else {
        return Err(wrong(format!("{} attributes (want one, the value)", attributes.len())));
    };
    let name = Short(value.name);
    let Some((_, kind, since)) = VALUES.iter().find(|(known, ..)| *known == value.name) else {
        return Err(wrong(match value.name {
            "sparse_value" => "sparse_value is not supported".to_owned(),
            _ => format!("Constant-{version} has no attribute `{name}`"),
        }));
    };
    if *since > version {
        return Err(wrong(format!(
            "Constant-{version} has no attribute `{name}` (Constant-{since} is the first that has it)"
        )));
    }
    if *kind != value.kind {
        return Err(wrong(format!("attribute `{name}` is of the wrong kind")));
    }
    let message = value.message;
    let tensor = match *kind {
        kind::TENSOR => {
            let tensor = pb::read(value.bytes(attribute::T));
            tensor.map_err(|error| ModelError::Tensor { place: label.to_owned(), error })?.tensor
        }
        kind::FLOAT => {
            let float = last(message, attribute::F, as_word)?.map_or(0.0, f32::from_le_bytes);
            checked(label, Tensor::from_slice(vec![], &[float]))?
        }
        kind::INT => checked(label, Tensor::from_slice(vec![], &[value.int()]))?,
        kind::STRING => {
            let string = value.bytes(attribute::S);
            checked(label, Tensor::strings(vec![], [string].iter().collect()))?
        }
        kind::FLOATS => {
            let floats = wire::fixed32s(message, attribute::FLOATS);
            let floats = floats.map(|word| word.map(f32::from_le_bytes)).collect::<Result<Vec<_>, _>>()?;
            checked(label, Tensor::from_slice(vec![floats.len()], &floats))?
        }
        kind::INTS => {
            let ints = wire::varints(message, attribute::INTS);
            let ints = ints.map(|int| int.map(|int| int as i64)).collect::<Result<Vec<_>, _>>()?;
            checked(label, Tensor::from_slice(vec![ints.len()], &ints))?
        }
        _ => {
            let mut strings = Strings::new();
            for field in Fields::new(message) {
                let field = field?;
                if let (attribute::STRINGS, Value::Bytes(string)) = (field.number, field.value) {
                    strings.push(string);
                }
            }
            checked(label, Tensor::strings(vec![strings.view().len()], strings))?
        }
    };
    let data_type = tensor.data_type();
    let first = self::since(true, data_type);
    if first.is_none_or(|first| first > version) {
        let (node, operator) = (label.to_owned(), "Constant");
        return Err(ModelError::Type { node, operator, version, data_type, since: first });
    }
    Ok(tensor)
}

fn checked(label: &str, tensor: Result<Tensor, TensorError>) -> Result<Tensor, ModelError> {
    tensor.map_err(|error| ModelError::Cast { node: label.to_owned(), error: error.into() })
}

/// The last value of a field, which is the one that counts.
pub(crate) fn last<'a, T>(
    message: &'a [u8],
    number: u32,
    take: fn(Value<'a>) -> Option<T>,
) -> Result<Option<T>, WireError> {
    let mut found = None;
    for field in Fields::new(message) {
        let field = field?;
        if field.number == number {
            found = take(field.value).or(found);
        }
    }
    Ok(found)
}

pub(crate) fn as_bytes(value: Value<'_>) -> Option<&[u8]> {
    if let Value::Bytes(bytes) = value { Some(bytes) } else { None }
}

pub(crate) fn as_varint(value: Value<'_>) -> Option<u64> {
    if let Value::Varint(value) = value { Some(value) } else { None }
}

pub(crate) fn as_int(value: Value<'_>) -> Option<i64> {
    as_varint(value).map(|value| value as i64)
}

pub(crate) fn as_word(value: Value<'_>) -> Option<[u8; 4]> {
    if let Value::Fixed32(word) = value { Some(word) } else { None }
}

pub(crate) fn utf8(bytes: &[u8]) -> Result<&str, ModelError> {
    std::str::from_utf8(bytes).map_err(|_| ModelError::Name)
}

/// A field of text; empty where it is not there.
pub(crate) fn text(message: &[u8], number: u32) -> Result<String, ModelError> {
    Ok(utf8(last(message, number, as_bytes)?.unwrap_or_default())?.to_owned())
}
