//! `.pb`: one ONNX `TensorProto`.
//!
//! Reading takes every storage field that ONNX allows for a type (onnx.proto, `TensorProto`); writing uses `raw_data`,
//! or `string_data` for strings. Where a file is cast, all fields that do not describe the elements stay as they are,
//! those that are unknown here too.

mod entries;

use crate::formats::error::{FormatError, Invalid, InvalidKind};
use crate::formats::limits::MAX_RANK;
use crate::formats::protobuf::onnx::tensor as field;
use crate::formats::protobuf::wire::{self, FieldHead, Fields, Value, WireError};
use crate::formats::source::{Source, SourceData};
use crate::io::positional::InputFile;
use crate::text::ShapeText;
use entries::Entries;
use onnx_cast::{DataType, Kind, element_count};
use std::borrow::Cow;
use std::io;

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
    let what = format!("{bytes} bytes of elements are more than a protobuf message may hold (2 GiB)");
    Invalid::new(InvalidKind::Size, what)
}

/// Reads a tensor; its elements are borrowed where they are `raw_data`.
pub fn parse(message: &[u8]) -> Result<Source<'_>, Invalid> {
    named(message, |name| parse_named(name, message))
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
        if let (field::NAME, Value::Bytes(bytes)) = (field.number, field.value) {
            // Checked in a copy: the bytes of a mapped file may change between.
            name =
                String::from_utf8(bytes.to_vec()).map_err(|_| Invalid::new(InvalidKind::Name, "the name is not UTF-8"));
        }
    }
    name
}

/// A TensorProto in a file, with or without its elements.
pub(crate) struct Outline {
    /// The message, where `raw` stands without that field.
    pub(crate) message: Vec<u8>,
    /// Where `raw_data` is in the file, and its bytes, if it has many.
    pub(crate) raw: Option<(u64, u64)>,
}

/// Fewer bytes of `raw_data` are read with the rest; and this much is read at once while fields are looked for.
const MANY: u64 = 1 << 20;

/// Reads a TensorProto, but leaves large `raw_data` where it is. What is not a message is refused where that shows,
/// before the rest is read.
pub(crate) fn outline(file: &InputFile) -> Result<Outline, FormatError> {
    let (mut message, mut raw, mut at) = (Vec::new(), None, 0);
    let mut window = Vec::new();
    let mut window_start = 0;
    while at < file.len() {
        let ahead = window_start + window.len() as u64;
        if ahead < file.len() && ahead < at + FieldHead::MOST as u64 {
            (window, window_start) = (file.read(at, MANY.min(file.len() - at))?, at);
        }
        let head = window.get((at - window_start) as usize..).unwrap_or_default();
        let wrong = |error: WireError| {
            let tensor = name(&message).unwrap_or_default();
            FormatError::invalid(file.path(), Invalid::from(error).of_tensor(&tensor))
        };
        let start = &head[..head.len().min(FieldHead::MOST)];
        let Some(field) = FieldHead::read(start) else {
            match Fields::new(start).next() {
                Some(Err(error)) if start.len() == FieldHead::MOST && !FieldHead::is_group(start) => {
                    return Err(wrong(error));
                }
                // A group, or the end of the file: the reader of messages goes on.
                _ => break,
            }
        };
        let value = at + field.start as u64;
        let Some(end) = value.checked_add(field.len).filter(|&end| end <= file.len()) else {
            let left = usize::try_from(file.len().saturating_sub(value)).unwrap_or(usize::MAX);
            return Err(wrong(WireError::Length { claimed: field.len, left }));
        };
        if field.bytes && field.number == field::RAW_DATA && field.len >= MANY && raw.is_none() {
            raw = Some((value, field.len));
        } else if let Some(span) = usize::try_from(end - at).ok().and_then(|len| head.get(..len)) {
            let room = message.try_reserve(span.len());
            room.map_err(|_| FormatError::io(file.path(), "read", io::ErrorKind::OutOfMemory.into()))?;
            message.extend_from_slice(span);
        } else {
            file.append(at, end - at, &mut message)?;
        }
        at = end;
    }
    file.append(at, file.len() - at, &mut message)?;
    Ok(Outline { message, raw })
}

/// Name and head of a message whose `raw_data`, of `len` bytes, was left where it is.
pub(crate) fn head_of_outline(message: &[u8], len: u64) -> Result<(String, Head<'_>), Invalid> {
    named(message, |name| {
        let head = head(message)?;
        let data_type = head.data_type;
        if head.external {
            return Err(external());
        }
        if let Some(second) = head.stored {
            return Err(several_fields(field::RAW_DATA, second));
        }
        if data_type == DataType::String {
            return Err(wrong_field(field::RAW_DATA, data_type));
        }
        head.check_raw(len)?;
        Ok((name, head))
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
pub struct Head<'a> {
    /// The element type.
    pub data_type: DataType,
    /// The shape.
    pub shape: Vec<usize>,
    /// Number of elements.
    pub len: usize,
    /// Whether they are in another file.
    pub external: bool,
    /// `raw_data`; empty where they are elsewhere.
    raw: &'a [u8],
    /// The storage field that holds something.
    stored: Option<u32>,
}

impl<'a> Head<'a> {
    /// The elements where they lie as the library wants them: checked to be as many as type and shape ask for.
    pub fn raw(&self) -> Result<Option<&'a [u8]>, Invalid> {
        if self.data_type == DataType::String || self.stored.is_some_and(|field| field != field::RAW_DATA) {
            return Ok(None);
        }
        self.check_raw(self.raw.len() as u64)?;
        Ok(Some(self.raw))
    }

    /// Checks the length of `raw_data`.
    fn check_raw(&self, len: u64) -> Result<(), Invalid> {
        let (data_type, shape) = (self.data_type, ShapeText(&self.shape));
        let want = data_type.byte_len(self.len).ok_or_else(|| Invalid::too_large(data_type, &self.shape))?;
        if want as u64 == len {
            return Ok(());
        }
        let what = format!("{len} bytes of raw_data for {shape} {data_type} (want {want})");
        Err(Invalid::new(InvalidKind::Size, what))
    }
}

/// Reads all but the elements.
pub fn head(message: &[u8]) -> Result<Head<'_>, Invalid> {
    let mut data_type = 0;
    let mut location = 0;
    let mut raw: &[u8] = &[];
    let mut stored: Option<u32> = None;
    for field in Fields::new(message) {
        let field = field?;
        match (field.number, field.value) {
            // An enum is an int32 in two's complement of 64 bits.
            (field::DATA_TYPE, Value::Varint(value)) => data_type = value as i64,
            (field::DATA_LOCATION, Value::Varint(value)) => location = value,
            (field::SEGMENT, Value::Bytes(_)) => {
                let what = "a segment of a tensor, which is not supported";
                return Err(Invalid::new(InvalidKind::Unsupported, what));
            }
            (field::RAW_DATA, Value::Bytes(bytes)) => raw = bytes,
            _ => {}
        }
        // An empty field is one that is not set; but a string may well be empty.
        let empty = matches!(field.value, Value::Bytes([])) && field.number != field::STRING_DATA;
        if !empty && is_storage(field.number) {
            match stored {
                Some(first) if first != field.number => return Err(several_fields(first, field.number)),
                _ => stored = Some(field.number),
            }
        }
    }
    let wrong_type = || {
        let what = match data_type {
            0 => "data_type is UNDEFINED".to_owned(),
            _ => format!("data_type is {data_type}, which is not an element type (want 1 to {})", DataType::ALL.len()),
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
    Ok(Head { data_type, shape, len, external, raw, stored })
}

fn parse_named(name: String, message: &[u8]) -> Result<Source<'_>, Invalid> {
    if message.is_empty() {
        return Err(Invalid::new(InvalidKind::Syntax, "empty, where a TensorProto should be"));
    }
    let head = head(message)?;
    if head.external {
        return Err(external());
    }
    let (data_type, len) = (head.data_type, head.len);
    let typed = typed_field(data_type);
    let field = head.stored.unwrap_or(if data_type == DataType::String { typed } else { field::RAW_DATA });
    if field != typed && (field != field::RAW_DATA || data_type == DataType::String) {
        return Err(wrong_field(field, data_type));
    }
    let data = match head.raw()? {
        Some(raw) => SourceData::Bytes(Cow::Borrowed(raw)),
        None => Entries { message, field, data_type, shape: &head.shape, len }.read()?,
    };
    Ok(Source { name, data_type, shape: head.shape, data })
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
            let why = if dim < 0 { "" } else { ", more than a size of this machine holds" };
            Invalid::new(InvalidKind::Size, format!("dimension {index} is {dim}{why}"))
        };
        shape.push(usize::try_from(dim).map_err(wrong)?);
    }
    Ok(shape)
}

/// Everything of a TensorProto but type and elements: fields with their numbers, to be written in the order of these.
pub(crate) struct Frame<'a>(Vec<(u32, Cow<'a, [u8]>)>);

impl<'a> Frame<'a> {
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
        Frame(fields)
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
        Ok(Frame(fields))
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
pub(crate) fn raw_message(frame: Frame<'_>, data_type: DataType, len: u64) -> Result<(Vec<u8>, Vec<u8>), Invalid> {
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
pub(crate) fn string_message<'s>(frame: Frame<'_>, strings: impl Iterator<Item = &'s [u8]>) -> Vec<u8> {
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
        let head = |len| raw_message(Frame::new("w", &[len as usize]), DataType::Uint8, len);
        let (before, after) = head(1 << 30).expect("a message");
        assert!(after.is_empty());
        assert!(head(MAX_MESSAGE - before.len() as u64).is_ok());
        for len in [MAX_MESSAGE - before.len() as u64 + 1, MAX_MESSAGE, u64::MAX] {
            assert_eq!(head(len), Err(message_size(len)));
        }
    }
}
