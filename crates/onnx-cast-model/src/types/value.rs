//! The type of a value: a tensor's element type, or a sequence, an optional or a map of types.

use crate::messages::of_type;
use onnx_cast::DataType;
use onnx_cast_file::__private::wire::{FieldValue, last};
use std::fmt;

/// Types within types that ONNX has uses for: optional(sequence(map)). Deeper ones are unknown, so that a chain of
/// nodes that each wrap what they read takes neither quadratic time nor a deep stack.
const MAX_DEPTH: usize = 4;

/// The type of a value, without its shape. Displayed as `float`, `sequence(float)`, `optional(sequence(float))`,
/// `map(int64,float)`, `sparse(float)`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ValueType {
    Tensor(DataType),
    Sparse(DataType),
    Sequence(Box<ValueType>),
    Optional(Box<ValueType>),
    Map(DataType, Box<ValueType>),
}

impl ValueType {
    /// A sequence of a type.
    pub(crate) fn sequence(self) -> Option<ValueType> {
        (self.depth() < MAX_DEPTH).then(|| ValueType::Sequence(Box::new(self)))
    }

    /// An optional of a type.
    pub(crate) fn optional(self) -> Option<ValueType> {
        (self.depth() < MAX_DEPTH).then(|| ValueType::Optional(Box::new(self)))
    }

    /// The type of a sequence's elements.
    pub(crate) fn element(&self) -> Option<&ValueType> {
        match self {
            ValueType::Sequence(element) => Some(element),
            _ => None,
        }
    }

    /// The type of tensors of floats, or of sequences or optionals of them, with another element type. A sparse tensor
    /// is read as a dense one.
    pub(crate) fn with_floats_as(&self, from: &[DataType], to: DataType) -> Option<ValueType> {
        match self {
            ValueType::Tensor(own) | ValueType::Sparse(own) if from.contains(own) => Some(ValueType::Tensor(to)),
            ValueType::Sequence(element) => element.with_floats_as(from, to)?.sequence(),
            ValueType::Optional(inner) => inner.with_floats_as(from, to)?.optional(),
            _ => None,
        }
    }

    /// The type in an optional; other types are their own.
    pub(crate) fn present(&self) -> &ValueType {
        match self {
            ValueType::Optional(inner) => inner,
            other => other,
        }
    }

    /// The element type of a tensor, dense or sparse.
    pub(crate) fn tensor(&self) -> Option<DataType> {
        match self {
            ValueType::Tensor(data_type) | ValueType::Sparse(data_type) => Some(*data_type),
            _ => None,
        }
    }

    /// The element type of the tensors that a value is or consists of; of a map, that of its values.
    #[allow(dead_code, reason = "for what changes types")]
    pub(crate) fn data_type(&self) -> DataType {
        let mut inner = self;
        loop {
            inner = match inner {
                ValueType::Tensor(data_type) | ValueType::Sparse(data_type) => return *data_type,
                ValueType::Sequence(inner) | ValueType::Optional(inner) | ValueType::Map(_, inner) => inner,
            }
        }
    }

    fn depth(&self) -> usize {
        let (mut inner, mut depth) = (self, 1);
        while let ValueType::Sequence(next) | ValueType::Optional(next) | ValueType::Map(_, next) = inner {
            (inner, depth) = (next, depth + 1);
        }
        depth
    }

    /// The type that a TypeProto tells, if it does.
    pub(crate) fn from_message(message: &[u8]) -> Option<ValueType> {
        ValueType::at_depth(message, 0)
    }

    fn at_depth(message: &[u8], depth: usize) -> Option<ValueType> {
        let bytes = |message, number| last(message, number, FieldValue::bytes).ok().flatten();
        let number =
            |message, field| last(message, field, FieldValue::int).ok().flatten().and_then(DataType::from_onnx);
        let inner =
            |message, field| (depth < MAX_DEPTH).then(|| ValueType::at_depth(bytes(message, field)?, depth + 1));
        if let Some(tensor) = bytes(message, of_type::TENSOR) {
            return number(tensor, of_type::ELEM_TYPE).map(ValueType::Tensor);
        }
        if let Some(sparse) = bytes(message, of_type::SPARSE_TENSOR) {
            return number(sparse, of_type::ELEM_TYPE).map(ValueType::Sparse);
        }
        if let Some(sequence) = bytes(message, of_type::SEQUENCE) {
            return inner(sequence, of_type::ELEM_TYPE)??.sequence();
        }
        if let Some(optional) = bytes(message, of_type::OPTIONAL) {
            return inner(optional, of_type::ELEM_TYPE)??.optional();
        }
        let map = bytes(message, of_type::MAP)?;
        let value = inner(map, of_type::VALUE_TYPE)??;
        Some(ValueType::Map(number(map, of_type::KEY_TYPE)?, Box::new(value)))
    }

    /// A type as it is displayed.
    pub(crate) fn parse(text: &str) -> Option<ValueType> {
        let Some((kind, inner)) = text.split_once('(') else {
            return Some(ValueType::Tensor(name(text)?));
        };
        let inner = inner.strip_suffix(')')?;
        match kind {
            "sparse" => Some(ValueType::Sparse(name(inner)?)),
            "sequence" => ValueType::parse(inner)?.sequence(),
            "optional" => ValueType::parse(inner)?.optional(),
            "map" => {
                let (key, value) = inner.split_once(',')?;
                Some(ValueType::Map(name(key)?, Box::new(ValueType::parse(value)?)))
            }
            _ => None,
        }
    }
}

/// The type of ONNX's name. The table has no other.
fn name(text: &str) -> Option<DataType> {
    DataType::ALL.iter().copied().find(|data_type| data_type.name() == text)
}

impl From<DataType> for ValueType {
    fn from(data_type: DataType) -> Self {
        ValueType::Tensor(data_type)
    }
}

impl fmt::Display for ValueType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ValueType::Tensor(data_type) => write!(f, "{data_type}"),
            ValueType::Sparse(data_type) => write!(f, "sparse({data_type})"),
            ValueType::Sequence(element) => write!(f, "sequence({element})"),
            ValueType::Optional(inner) => write!(f, "optional({inner})"),
            ValueType::Map(key, value) => write!(f, "map({key},{value})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::proto::Message;

    fn sequence(inner: Message) -> Message {
        Message::new().message(4, Message::new().message(1, inner))
    }

    #[test]
    fn types_are_read_from_messages_and_displayed() {
        let float = || Message::new().message(1, Message::new().int(1, 1));
        let map = Message::new().message(5, Message::new().int(1, 8).message(2, float()));
        let optional = Message::new().message(9, Message::new().message(1, sequence(float())));
        let rows = [
            (float(), "float"),
            (sequence(float()), "sequence(float)"),
            (optional, "optional(sequence(float))"),
            (sequence(map), "sequence(map(string,float))"),
            (Message::new().message(8, Message::new().int(1, 10)), "sparse(float16)"),
        ];
        for (message, text) in rows {
            let read = ValueType::from_message(&message.into_bytes()).expect(text);
            assert_eq!((read.to_string().as_str(), ValueType::parse(text)), (text, Some(read)));
        }
    }

    #[test]
    fn types_too_deep_are_unknown() {
        let mut message = Message::new().message(1, Message::new().int(1, 1));
        for _ in 0..10_000 {
            message = sequence(message);
        }
        assert_eq!(ValueType::from_message(&message.into_bytes()), None);
        let mut of_type = Some(ValueType::Tensor(DataType::Float));
        for _ in 0..10 {
            of_type = of_type.and_then(ValueType::sequence);
        }
        assert_eq!(of_type, None);
        assert_eq!(ValueType::parse("tensor(float)"), None);
        assert_eq!(ValueType::parse("sequence(float"), None);
    }
}
