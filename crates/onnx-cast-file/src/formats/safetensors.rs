//! `.safetensors`: named tensors behind a JSON header that gives each one's type, shape and place.
//!
//! The header is read here and not by the safetensors crate, which keeps neither the order of the metadata nor tells
//! which tensor is wrong. Whatever that crate refuses is refused here, which a test holds; so are names that stand
//! twice, of which it takes one. Types have the
//! format's names: [`type_name`]. A tensor of a type narrower than a byte must fill whole bytes.

use crate::formats::error::{Invalid, InvalidKind};
use crate::formats::limits::{MAX_HEADER, METADATA};
use crate::text::{Count, ShapeText, Short};
use onnx_cast::{DataType, TensorView};
use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};
use std::collections::HashSet;
use std::fmt;
use std::ops::Range;

/// The format's name for a type; `None` where it has none (string, the integers of 2 and 4 bits, complex128).
pub fn type_name(data_type: DataType) -> Option<&'static str> {
    data_type.interchange().safetensors
}

/// One tensor of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// Its type.
    pub data_type: DataType,
    /// Its shape.
    pub shape: Vec<usize>,
    /// Where it starts, in bytes behind the header.
    pub(crate) start: u64,
    /// Where it ends.
    pub(crate) end: u64,
}

/// Bytes of the header's length, which come first.
pub(crate) const PREFIX: usize = 8;

/// Where the header's text stands, by the first [`PREFIX`] bytes of a file and its length. The data follows it.
pub(crate) fn header_place(bytes: &[u8], file: u64) -> Result<Range<usize>, Invalid> {
    let wrong = |what| Invalid::new(InvalidKind::Syntax, what);
    let short = || wrong(format!("a .safetensors file of {} (want 8 or more)", Count(file, "byte")));
    let len = bytes.first_chunk().ok_or_else(short)?;
    let len = u64::from_le_bytes(*len);
    if len > MAX_HEADER {
        return Err(header_too_large(len));
    }
    let end = usize::try_from(len).ok().and_then(|len| len.checked_add(PREFIX)).filter(|&end| end as u64 <= file);
    Ok(PREFIX..end.ok_or_else(|| wrong(format!("a header of {} in a file of {file}", Count(len, "byte"))))?)
}

fn header_too_large(len: u64) -> Invalid {
    Invalid::new(InvalidKind::Size, format!("a header of {len} bytes (want at most {MAX_HEADER})"))
}

/// What a header says: all of a file but the elements.
#[derive(Clone, Debug)]
pub(crate) struct FileHead {
    /// In the order of the data.
    pub(crate) entries: Vec<Entry>,
    pub(crate) metadata: Option<Vec<(String, String)>>,
}

impl FileHead {
    /// Reads the header's text, and checks all of it against the length of the data.
    pub(crate) fn parse(text: &[u8], data: u64) -> Result<FileHead, Invalid> {
        // A JSON reader does not look at the bytes of what it skips.
        let wrong =
            |error: &dyn fmt::Display| Invalid::new(InvalidKind::Syntax, format!("the header is not valid: {error}"));
        let text = str::from_utf8(text).map_err(|error| wrong(&error))?;
        let header: Header = serde_json::from_str(text).map_err(|error| wrong(&error))?;
        let mut raw = header.tensors;
        // In the order of the data; tensors of no bytes keep the header's among each other.
        raw.sort_by_key(|(_, entry)| entry.data_offsets);
        let mut at = 0;
        let mut entries = Vec::with_capacity(raw.len());
        for (name, raw) in raw {
            let entry = raw.check(name, at, data)?;
            at = entry.end;
            entries.push(entry);
        }
        if at != data {
            let what = format!("{} of data, but the tensors take {at}", Count(data, "byte"));
            return Err(Invalid::new(InvalidKind::Size, what));
        }
        Ok(FileHead { entries, metadata: header.metadata })
    }
}

/// A tensor to be written: name, type, shape.
pub(crate) type Planned<'a> = (&'a str, DataType, &'a [usize]);

/// Length and text of the header of a file with these tensors, their data in this order.
///
/// # Errors
/// Where the format has no name for a type, elements do not fill whole bytes, or the header would be too large.
pub(crate) fn header(metadata: Option<&[(String, String)]>, tensors: &[Planned<'_>]) -> Result<Vec<u8>, Invalid> {
    // Names are escaped by serde_json; everything else is plain.
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let mut parts = Vec::with_capacity(tensors.len() + 1);
    if let Some(metadata) = metadata {
        let pairs: Vec<String> =
            metadata.iter().map(|(key, value)| format!("{}:{}", quoted(key), quoted(value))).collect();
        parts.push(format!("\"{METADATA}\":{{{}}}", pairs.join(",")));
    }
    let mut start = 0u64;
    for &(name, data_type, shape) in tensors {
        let len = check(name, data_type, shape)?;
        let too_large = || Invalid::too_large(data_type, shape).of_tensor(name);
        let end = start.checked_add(len as u64).ok_or_else(too_large)?;
        let dims: Vec<String> = shape.iter().map(usize::to_string).collect();
        parts.push(format!(
            "{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{start},{end}]}}",
            quoted(name),
            type_name(data_type).unwrap_or_default(),
            dims.join(",")
        ));
        start = end;
    }
    let mut text = format!("{{{}}}", parts.join(",")).into_bytes();
    text.resize(text.len().next_multiple_of(8), b' ');
    let len = text.len() as u64;
    if len > MAX_HEADER {
        return Err(header_too_large(len));
    }
    let mut out = len.to_le_bytes().to_vec();
    out.append(&mut text);
    Ok(out)
}

/// Whether the format can hold a tensor, and the bytes that it takes.
pub(crate) fn check(name: &str, data_type: DataType, shape: &[usize]) -> Result<usize, Invalid> {
    if name == METADATA {
        let what = format!("a tensor in a .safetensors file cannot have the name `{METADATA}`");
        return Err(Invalid::new(InvalidKind::Name, what));
    }
    if type_name(data_type).is_none() {
        return Err(no_name(name, data_type));
    }
    let len =
        onnx_cast::tensor::element_count(shape).and_then(|elements| Some((elements, data_type.byte_len(elements)?)));
    let too_large = || Invalid::too_large(data_type, shape).of_tensor(name);
    let (elements, bytes) = len.ok_or_else(too_large)?;
    if !(elements % 8 * data_type.bits().unwrap_or(8)).is_multiple_of(8) {
        let what = Count(elements, "element");
        let what = format!("{what} of {data_type} (the .safetensors format requires whole bytes)");
        return Err(Invalid::new(InvalidKind::Size, what).of_tensor(name));
    }
    Ok(bytes)
}

/// The error for a type that the format has no name for; the tensor is empty where it is any.
pub(crate) fn no_name(tensor: &str, data_type: DataType) -> Invalid {
    let what = format!("the .safetensors format has no name for {data_type}");
    Invalid::new(InvalidKind::Type, what).of_tensor(tensor)
}

/// The bytes of a file with these tensors.
///
/// # Errors
/// Where the format has no name for a type, or elements do not fill whole bytes.
pub fn write(metadata: Option<&[(String, String)]>, tensors: &[(&str, TensorView<'_>)]) -> Result<Vec<u8>, Invalid> {
    let planned: Vec<Planned<'_>> =
        tensors.iter().map(|(name, tensor)| (*name, tensor.data_type(), tensor.shape())).collect();
    let mut out = header(metadata, &planned)?;
    tensors.iter().for_each(|(_, tensor)| out.extend_from_slice(tensor.bytes().unwrap_or_default()));
    Ok(out)
}

/// The header as it stands in the file.
struct Header {
    metadata: Option<Vec<(String, String)>>,
    tensors: Vec<(String, RawEntry)>,
}

#[derive(serde::Deserialize)]
struct RawEntry {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: (u64, u64),
}

impl RawEntry {
    fn check(self, tensor: String, want: u64, data: u64) -> Result<Entry, Invalid> {
        let known = DataType::ALL.iter().find(|data_type| type_name(**data_type) == Some(&*self.dtype));
        let Some(&data_type) = known else {
            let what = format!("ONNX has no type `{}`", Short(&self.dtype));
            return Err(Invalid::new(InvalidKind::Type, what).of_tensor(&tensor));
        };
        let (start, end) = self.data_offsets;
        if start != want || end < start || end > data {
            let wanted = format!("(want to start at {want}, and to end within the {} of data)", Count(data, "byte"));
            let what = format!("data_offsets {start} to {end} {wanted}");
            return Err(Invalid::new(InvalidKind::Size, what).of_tensor(&tensor));
        }
        let shape = self.shape;
        let want = check(&tensor, data_type, &shape)?;
        if end - start != want as u64 {
            let got = Count(end - start, "byte");
            let what = format!("{got} for {} {data_type} (want {want})", ShapeText(&shape));
            return Err(Invalid::new(InvalidKind::Size, what).of_tensor(&tensor));
        }
        Ok(Entry { name: tensor, data_type, shape, start, end })
    }
}

impl<'de> Deserialize<'de> for Header {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct HeaderVisitor;

        impl<'de> Visitor<'de> for HeaderVisitor {
            type Value = Header;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of tensors")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Header, A::Error> {
                let mut header = Header { metadata: None, tensors: Vec::new() };
                let mut seen = HashSet::new();
                while let Some(name) = map.next_key::<String>()? {
                    if !seen.insert(name.clone()) {
                        return Err(de::Error::custom(format_args!("`{}` appears twice", Short(&name))));
                    }
                    if name == METADATA {
                        header.metadata = map.next_value::<Option<Pairs>>()?.map(|pairs| pairs.0);
                    } else {
                        header.tensors.push((name, map.next_value()?));
                    }
                }
                Ok(header)
            }
        }

        deserializer.deserialize_map(HeaderVisitor)
    }
}

/// An object of strings, in order.
pub(crate) struct Pairs(pub(crate) Vec<(String, String)>);

impl<'de> Deserialize<'de> for Pairs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct PairsVisitor;

        impl<'de> Visitor<'de> for PairsVisitor {
            type Value = Pairs;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of strings")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Pairs(pairs))
            }
        }

        deserializer.deserialize_map(PairsVisitor)
    }
}
