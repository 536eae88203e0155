//! `.pb`: one ONNX `TensorProto`.
//!
//! Reading takes every storage field that ONNX allows for a type (onnx.proto, `TensorProto`); writing uses `raw_data`,
//! or `string_data` for strings. Where a file is cast, all fields that do not describe the elements stay as they are,
//! those that are unknown here too.

mod entries;

use crate::formats::error::{FormatError, Invalid, InvalidKind};
use crate::formats::limits::MAX_RANK;
use crate::formats::protobuf::onnx::tensor as field;
use crate::formats::protobuf::outline::{Backing, Outline, OutlineError, Schema};
use crate::formats::protobuf::wire::{self, Field, FieldValue, Fields, WireError};
use crate::formats::source::{ParsedData, ParsedTensor};
use crate::io::positional::InputFile;
use crate::text::{Count, ShapeText};
use entries::Entries;
use onnx_cast::DataType;
use onnx_cast::tensor::element_count;
use onnx_cast::types::Kind;
use std::borrow::Cow;

/// The limit that every protobuf reader has: a message's size is a signed 32-bit integer.
pub const MAX_MESSAGE: u64 = i32::MAX as u64;

/// The storage fields, with their names.
const STORAGE: [(u32, &str); 7] = [
    (field::FLOAT_DATA, "float_data"),
    (field::INT32_DATA, "int32_data"),
    (field::STRING_DATA, "string_data"),
    (field::INT64_DATA, "int64_data"),
    (field::RAW_DATA, "raw_data"),
    (field::DOUBLE_DATA, "double_data"),
    (field::UINT64_DATA, "uint64_data"),
];

/// The field that holds elements of a type, besides `raw_data`.
const fn typed_field(data_type: DataType) -> u32 {
    let info = data_type.info();
    match (info.kind, info.bits) {
        (Kind::Float(_), 32) | (Kind::Complex, 64) => field::FLOAT_DATA,
        (Kind::Float(_), 64) | (Kind::Complex, 128) => field::DOUBLE_DATA,
        (Kind::Int, 64) => field::INT64_DATA,
        (Kind::Uint, 32 | 64) => field::UINT64_DATA,
        (Kind::String, _) => field::STRING_DATA,
        // Everything narrower, and int32 itself.
        _ => field::INT32_DATA,
    }
}

fn field_name(number: u32) -> &'static str {
    STORAGE.iter().find(|(storage, _)| *storage == number).map_or("?", |(_, name)| *name)
}

pub(crate) fn check_size(name: &str, bytes: u64) -> Result<(), Invalid> {
    if bytes <= MAX_MESSAGE {
        return Ok(());
    }
    Err(message_size(bytes).of_tensor(name))
}

fn message_size(bytes: u64) -> Invalid {
    let what = format!("{bytes} bytes of elements exceed the limit of a protobuf message (2 GiB)");
    Invalid::new(InvalidKind::Size, what)
}

/// Reads a tensor; its elements are borrowed where they are `raw_data`.
pub fn parse(message: &[u8]) -> Result<ParsedTensor<'_>, Invalid> {
    let (name, head, storage) = checked(message)?;
    let data = match (storage, &head.stored) {
        (Storage::Bytes(field), _) => match field.map(|field| field.value) {
            None => Ok(ParsedData::Bytes(Cow::Borrowed(&[]))),
            Some(FieldValue::Bytes(raw)) => Ok(ParsedData::Bytes(Cow::Borrowed(raw))),
            Some(_) => Err(WireError::Kind { kind: wire::LEFT }.into()),
        },
        (Storage::Encoded, stored) => {
            let field = stored.map_or(typed_field(head.data_type), |(field, _)| field.number);
            Entries { message, field, data_type: head.data_type, shape: &head.shape, len: head.len }.read()
        }
    };
    match data {
        Ok(data) => Ok(ParsedTensor { name, data_type: head.data_type, shape: head.shape, data }),
        Err(error) => Err(error.of_tensor(&name)),
    }
}

/// Reads a message whose name is known, so that every error can tell it.
fn named<T>(message: &[u8], read: impl FnOnce(String) -> Result<T, Invalid>) -> Result<T, Invalid> {
    let name = name(message);
    let tensor = name.as_deref().unwrap_or_default().to_owned();
    name.and_then(read).map_err(|error| error.of_tensor(&tensor))
}

fn name(message: &[u8]) -> Result<String, Invalid> {
    let mut name = Ok(String::new());
    for field in Fields::new(message).map_while(Result::ok) {
        if let (field::NAME, FieldValue::Bytes(bytes)) = (field.number, field.value) {
            name = std::str::from_utf8(bytes)
                .map(str::to_owned)
                .map_err(|_| Invalid::new(InvalidKind::Name, "the name is not UTF-8"));
        }
    }
    name
}

/// What the outline of a `.pb` leaves in the file.
const RAW: Schema = Schema { messages: &[], left: &[field::RAW_DATA] };

/// Reads a TensorProto, but leaves large `raw_data` where it is. What is not a message is refused where that shows,
/// before the rest is read.
pub(crate) fn outline(file: &InputFile) -> Result<Outline<'_>, FormatError> {
    let mut outline = Outline::new(Backing::File(file));
    match outline.fill(&RAW) {
        Ok(()) => Ok(outline),
        Err(OutlineError::Io(error)) => Err(error.into()),
        Err(OutlineError::Wire(error)) => {
            let tensor = name(&outline.bytes).unwrap_or_default();
            Err(FormatError::invalid(file.path(), Invalid::from(error).of_tensor(&tensor)))
        }
    }
}

/// The name of a tensor, what it says of its elements, and how they are stored: in this message.
pub(crate) fn checked(message: &[u8]) -> Result<(String, TensorHead<'_>, Storage<'_>), Invalid> {
    named(message, |name| {
        if message.is_empty() {
            return Err(Invalid::new(InvalidKind::Syntax, "empty (want a TensorProto)"));
        }
        let head = head(message)?;
        if head.external {
            return Err(external());
        }
        let (data_type, typed) = (head.data_type, typed_field(head.data_type));
        let field = head.stored.map_or(typed, |(field, _)| field.number);
        if field != typed && (field != field::RAW_DATA || data_type == DataType::String) {
            return Err(wrong_field(field, data_type));
        }
        let storage = head.storage()?;
        Ok((name, head, storage))
    })
}

fn external() -> Invalid {
    let what = "the elements are in another file (external data), which is not supported";
    Invalid::new(InvalidKind::Unsupported, what)
}

fn several_fields(first: u32, second: u32) -> Invalid {
    Invalid::new(InvalidKind::Syntax, format!("elements in both {} and {}", field_name(first), field_name(second)))
}

/// The error for a storage field that is not for a type.
fn wrong_field(field: u32, data_type: DataType) -> Invalid {
    let raw = if data_type == DataType::String { "" } else { "raw_data or " };
    let (field, want) = (field_name(field), field_name(typed_field(data_type)));
    Invalid::new(InvalidKind::Type, format!("{field} for elements of {data_type} (want {raw}{want})"))
}

/// What a TensorProto says of its elements, without them.
#[derive(Debug)]
pub struct TensorHead<'a> {
    /// The element type.
    pub data_type: DataType,
    /// The shape.
    pub shape: Vec<usize>,
    /// Number of elements.
    pub len: usize,
    /// Whether they are in another file.
    pub external: bool,
    /// The last field of those that hold elements, and whether it is the only one.
    stored: Option<(Field<'a>, bool)>,
}

/// How a TensorProto stores its elements.
pub enum Storage<'a> {
    /// As the library wants them, in the value of this field; `None` of no elements.
    Bytes(Option<Field<'a>>),
    /// In fields of numbers or strings, to be decoded.
    Encoded,
}

impl<'a> TensorHead<'a> {
    /// How the elements are stored. Bytes are checked to be as many as type and shape ask for.
    pub fn storage(&self) -> Result<Storage<'a>, Invalid> {
        let len = |field: &Field<'_>| match field.value {
            FieldValue::Bytes(bytes) => bytes.len() as u64,
            FieldValue::Left(len) => len,
            _ => 0,
        };
        let encoded = match self.stored {
            _ if self.data_type == DataType::String => true,
            None => false,
            Some((field, _)) if field.number == field::RAW_DATA => false,
            // Little-endian words in one packed field, as most writers have float_data.
            Some((field, only)) => {
                let words = matches!(field.number, field::FLOAT_DATA | field::DOUBLE_DATA);
                let want = self.data_type.byte_len(self.len).map(|want| want as u64);
                let packed = only && matches!(field.value, FieldValue::Bytes(_) | FieldValue::Left(_));
                !(words && packed && field.number == typed_field(self.data_type) && want == Some(len(&field)))
            }
        };
        if encoded {
            return Ok(Storage::Encoded);
        }
        let field = self.stored.map(|(field, _)| field);
        self.check_raw(field.as_ref().map_or(0, len))?;
        Ok(Storage::Bytes(field))
    }

    /// Checks the length of `raw_data`.
    fn check_raw(&self, len: u64) -> Result<(), Invalid> {
        let (data_type, shape) = (self.data_type, ShapeText(&self.shape));
        let want = data_type.byte_len(self.len).ok_or_else(|| Invalid::too_large(data_type, &self.shape))?;
        if want as u64 == len {
            return Ok(());
        }
        let what = format!("{} of raw_data for {shape} {data_type} (want {want})", Count(len, "byte"));
        Err(Invalid::new(InvalidKind::Size, what))
    }
}

/// Reads all but the elements, of a message or its outline.
pub fn head(message: &[u8]) -> Result<TensorHead<'_>, Invalid> {
    let mut data_type = 0;
    let mut location = 0;
    let mut stored: Option<(Field<'_>, bool)> = None;
    for field in Fields::new(message) {
        let field = field?;
        match (field.number, field.value) {
            // An enum is an int32 in two's complement of 64 bits.
            (field::DATA_TYPE, FieldValue::Varint(value)) => data_type = value as i64,
            (field::DATA_LOCATION, FieldValue::Varint(value)) => location = value,
            (field::SEGMENT, FieldValue::Bytes(_)) => {
                let what = "a segment of a tensor, which is not supported";
                return Err(Invalid::new(InvalidKind::Unsupported, what));
            }
            (number, value) if is_storage(number) => {
                // An empty field is one that is not set; but a string may well be empty.
                let empty = matches!(value, FieldValue::Bytes([])) && number != field::STRING_DATA;
                stored = match stored {
                    Some((first, _)) if first.number == number => Some((field, false)),
                    Some((first, _)) if !empty => return Err(several_fields(first.number, number)),
                    None if !empty => Some((field, true)),
                    _ => stored,
                };
            }
            _ => {}
        }
    }
    let wrong_type = || {
        let what = match data_type {
            0 => "data_type is UNDEFINED".to_owned(),
            _ => format!("data_type is {data_type}, which is not an element type (want {})", DataType::onnx_numbers()),
        };
        Invalid::new(InvalidKind::Type, what)
    };
    let data_type = DataType::from_onnx(data_type).ok_or_else(wrong_type)?;
    let shape = dims(message)?;
    let external = match location {
        0 => false,
        1 => true,
        number => {
            let what = format!("data_location is {number}, which ONNX does not have");
            return Err(Invalid::new(InvalidKind::Value, what));
        }
    };
    let len = element_count(&shape).ok_or_else(|| Invalid::too_large(data_type, &shape))?;
    Ok(TensorHead { data_type, shape, len, external, stored })
}

/// Whether a field holds elements.
pub fn is_storage(number: u32) -> bool {
    STORAGE.iter().any(|(storage, _)| *storage == number)
}

fn dims(message: &[u8]) -> Result<Vec<usize>, Invalid> {
    let mut shape = Vec::new();
    for (index, dim) in wire::varints(message, field::DIMS).enumerate() {
        let dim = dim? as i64;
        if index == MAX_RANK {
            return Err(Invalid::new(InvalidKind::Unsupported, format!("more than {MAX_RANK} dimensions")));
        }
        let wrong = |_| {
            let why = if dim < 0 { "" } else { ", too large for this machine" };
            Invalid::new(InvalidKind::Size, format!("dimension {index} is {dim}{why}"))
        };
        shape.push(usize::try_from(dim).map_err(wrong)?);
    }
    Ok(shape)
}

/// Everything of a TensorProto but type and elements: fields with their numbers, to be written in the order of these.
pub(crate) struct OtherFields<'a>(Vec<(u32, Cow<'a, [u8]>)>);

impl<'a> OtherFields<'a> {
    /// Of a new tensor.
    pub(crate) fn new(name: &str, shape: &[usize]) -> Self {
        let mut dims = Vec::new();
        // One to a field, not packed: what onnx.proto (proto2) says, and so what other writers give.
        shape.iter().for_each(|&dim| wire::put_int(&mut dims, field::DIMS, dim as u64));
        let mut fields = vec![(field::DIMS, Cow::Owned(dims))];
        if !name.is_empty() {
            let mut bytes = Vec::new();
            wire::put_bytes(&mut bytes, field::NAME, name.as_bytes());
            fields.push((field::NAME, Cow::Owned(bytes)));
        }
        OtherFields(fields)
    }

    /// Of a TensorProto that has been read: all its fields, unknown ones too, but those that say what the elements are.
    pub(crate) fn of(message: &'a [u8]) -> Result<Self, WireError> {
        const REPLACED: [u32; 3] = [field::DATA_TYPE, field::EXTERNAL_DATA, field::DATA_LOCATION];
        let mut fields = Vec::new();
        for field in Fields::new(message) {
            let field = field?;
            if !is_storage(field.number) && !REPLACED.contains(&field.number) {
                fields.push((field.number, Cow::Borrowed(field.span)));
            }
        }
        Ok(OtherFields(fields))
    }

    fn add(mut self, number: u32, bytes: Vec<u8>) -> Self {
        self.0.push((number, Cow::Owned(bytes)));
        self
    }

    fn add_type(self, data_type: DataType) -> Self {
        let mut bytes = Vec::new();
        wire::put_int(&mut bytes, field::DATA_TYPE, data_type.onnx() as u64);
        self.add(field::DATA_TYPE, bytes)
    }

    /// The fields in order; the sort is stable, so that those of one number keep theirs.
    fn sorted(mut self) -> Vec<(u32, Cow<'a, [u8]>)> {
        self.0.sort_by_key(|(number, _)| *number);
        self.0
    }
}

/// What stands before and behind `len` bytes of elements.
pub(crate) fn raw_message(
    frame: OtherFields<'_>,
    data_type: DataType,
    len: u64,
) -> Result<(Vec<u8>, Vec<u8>), Invalid> {
    let mut key = Vec::new();
    wire::put_len(&mut key, field::RAW_DATA, len);
    let (mut head, mut tail) = (Vec::new(), Vec::new());
    for (number, bytes) in frame.add_type(data_type).add(field::RAW_DATA, key).sorted() {
        let part = if number <= field::RAW_DATA { &mut head } else { &mut tail };
        part.extend_from_slice(&bytes);
    }
    // A size that overflows is too large whatever it is.
    if len.saturating_add((head.len() + tail.len()) as u64) > MAX_MESSAGE {
        return Err(message_size(len));
    }
    Ok((head, tail))
}

/// A TensorProto of strings.
pub(crate) fn string_message<'s>(frame: OtherFields<'_>, strings: impl Iterator<Item = &'s [u8]>) -> Vec<u8> {
    let mut data = Vec::new();
    strings.for_each(|string| wire::put_bytes(&mut data, field::STRING_DATA, string));
    let fields = frame.add_type(DataType::String).add(field::STRING_DATA, data).sorted();
    fields.iter().flat_map(|(_, bytes)| bytes.iter().copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_of_more_than_2_gib_is_refused() {
        let head = |len| raw_message(OtherFields::new("w", &[len as usize]), DataType::Uint8, len);
        let (before, after) = head(1 << 30).expect("a message");
        assert!(after.is_empty());
        assert!(head(MAX_MESSAGE - before.len() as u64).is_ok());
        for len in [MAX_MESSAGE - before.len() as u64 + 1, MAX_MESSAGE, u64::MAX] {
            assert_eq!(head(len), Err(message_size(len)));
        }
    }
}
