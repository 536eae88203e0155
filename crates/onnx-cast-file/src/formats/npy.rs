//! `.npy`: one numpy array. Versions 1.0, 2.0 and 3.0 of the format, C and Fortran order, either byte order are read;
//! 1.0 (2.0 for a header that is longer), C order, little endian are written.
//!
//! | elements | `descr` written | a byte or item holds |
//! |---|---|---|
//! | float, double, float16, int8 ... uint64, bool, complex64/128 | numpy's own: `<f4`, `\|b1`, ... | the element |
//! | bfloat16 | `<V2` | the element |
//! | float8 (five types) | `<V1` | the element |
//! | float6, float4, int4, uint4, int2, uint2 | `<V1` | one element, in its low bits, the upper ones zero |
//! | string | `<Un`, n the most characters that a string has | UTF-32, padded with NULs |
//!
//! `<V2` and `<V1` are what numpy writes for an array of ml_dtypes, whose own types an `.npy` file cannot name; there
//! `np.load(path).view(ml_dtypes.float8_e4m3fn)` gives it back. One difference: for float8_e5m2 numpy writes `<f1`,
//! which `np.load` then refuses, so `<V1` is written here, and both are read. With the option `plain` these types are
//! written as `<u2` and `|u1`.
//!
//! On reading, `V2` is bfloat16 and `f1` float8e5m2, the only types that they stand for. `V1` stands for twelve, so
//! that the caller must tell which, as for the plain unsigned integers. Names of types are read too: `float32`, and those
//! of ml_dtypes, which `np.load` knows where that package is imported. `S` and `U` are strings; trailing NULs are
//! padding. Arrays of other types (structured types, objects, dates, long doubles) are foreign: their bytes are kept,
//! and their elements are never read.

mod header;

use crate::formats::error::{Invalid, InvalidKind};
use crate::formats::source::Items;
use crate::text::{Count, ShapeText, Short};
use header::Header;
use onnx_cast::DataType;
use onnx_cast::tensor::{StringsView, element_count};
use std::io::{self, Read};
use std::ops::Range;

const MAGIC: &[u8; 6] = b"\x93NUMPY";

/// Whether numpy has a name for a type.
fn numpy_has(data_type: DataType) -> bool {
    data_type == DataType::String || data_type.interchange().numpy.is_some()
}

/// The header of an array of any type but string.
///
/// # Errors
/// Where the shape has more dimensions than numpy reads.
pub(crate) fn header(data_type: DataType, shape: &[usize], plain: bool) -> Result<Vec<u8>, Invalid> {
    let wide = data_type.bits() == Some(16);
    let named = data_type.interchange().numpy;
    let name = named.unwrap_or(match (plain, wide) {
        (false, false) => "V1",
        (false, true) => "V2",
        (true, false) => "u1",
        (true, true) => "u2",
    });
    // A byte has no order, which numpy says by `|`; but for `V1` it writes `<`, as ml_dtypes asks.
    let order = if matches!(name, "i1" | "u1" | "b1") { '|' } else { '<' };
    header_of(&format!("{order}{name}"), shape)
}

/// The header of an array of strings, each of `width` characters.
pub(crate) fn string_header(width: usize, shape: &[usize]) -> Result<Vec<u8>, Invalid> {
    header_of(&format!("<U{width}"), shape)
}

/// The most dimensions that an array of numpy 2 has; older versions have 32. It also bounds what a hostile file can
/// make an error text hold.
const MAX_RANK: usize = 64;

/// Bytes of a `descr` that are held in memory.
const MAX_DESCR: usize = 4096;

fn header_of(descr: &str, shape: &[usize]) -> Result<Vec<u8>, Invalid> {
    if shape.len() > MAX_RANK {
        let rank = shape.len();
        let what =
            format!("{rank} dimensions, where numpy has at most {MAX_RANK} (reshape it, or write another format)");
        return Err(Invalid::new(InvalidKind::Unsupported, what));
    }
    let mut dims: String = shape.iter().map(|dim| format!("{dim}, ")).collect();
    // Python's tuples: `()`, `(2,)`, `(2, 3)`.
    dims.truncate(dims.len().saturating_sub(if shape.len() == 1 { 1 } else { 2 }));
    let mut text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({dims}), }}");
    // The elements start at a multiple of 64, the text ends in a line feed.
    let version_2 = 10 + text.len() + 64 > usize::from(u16::MAX);
    let prefix = if version_2 { 12 } else { 10 };
    let len = (prefix + text.len() + 1).next_multiple_of(64) - prefix;
    text.extend(std::iter::repeat_n(' ', len - 1 - text.len()));
    text.push('\n');
    let mut out = MAGIC.to_vec();
    if version_2 {
        out.extend_from_slice(&[2, 0]);
        out.extend_from_slice(&(len as u32).to_le_bytes());
    } else {
        out.extend_from_slice(&[1, 0]);
        out.extend_from_slice(&(len as u16).to_le_bytes());
    }
    out.extend_from_slice(text.as_bytes());
    Ok(out)
}

/// The most characters that a string has, at least 1, as numpy has it; checks that all of them can be written.
pub(crate) fn string_width(tensor: &str, strings: StringsView<'_>) -> Result<usize, Invalid> {
    let mut width = 1;
    for (index, string) in strings.iter().enumerate() {
        let wrong = |what| Invalid::new(InvalidKind::Value, format!("element {index}: {what}")).of_tensor(tensor);
        let text = std::str::from_utf8(string).map_err(|_| wrong("not UTF-8, which numpy's strings need"))?;
        if text.ends_with('\0') {
            return Err(wrong("ends in a NUL, which numpy would drop"));
        }
        width = width.max(text.chars().count());
    }
    Ok(width)
}

/// Appends a string of at most `width` characters, which [`string_width`] has checked.
pub(crate) fn put_string(out: &mut Vec<u8>, string: &[u8], width: usize) {
    let text = std::str::from_utf8(string).unwrap_or_default();
    let end = out.len() + 4 * width;
    text.chars().for_each(|c| out.extend_from_slice(&u32::from(c).to_le_bytes()));
    out.resize(end, 0);
}

/// Bytes that [`header_place`] needs: magic, version, and the longest length.
pub(crate) const PREFIX: usize = 12;

/// Where the header's text stands, by the first [`PREFIX`] bytes of a file or all that there are. The elements follow
/// it.
pub(crate) fn header_place(bytes: &[u8]) -> Result<Range<usize>, Invalid> {
    let rest = bytes.strip_prefix(MAGIC).ok_or_else(|| Invalid::new(InvalidKind::Syntax, "not a .npy file"))?;
    let (&[major, minor], rest) = rest.split_first_chunk().ok_or_else(truncated)?;
    let place = match (major, minor) {
        (1, 0) => rest.first_chunk().map(|len| (10, usize::from(u16::from_le_bytes(*len)))),
        (2 | 3, 0) => {
            rest.first_chunk().map(|len| (12, usize::try_from(u32::from_le_bytes(*len)).unwrap_or(usize::MAX)))
        }
        _ => {
            let what = format!("version {major}.{minor} of the .npy format is unknown (want 1.0, 2.0 or 3.0)");
            return Err(Invalid::new(InvalidKind::Unsupported, what));
        }
    };
    let (start, len) = place.ok_or_else(truncated)?;
    Ok(start..start.checked_add(len).ok_or_else(truncated)?)
}

pub(crate) fn truncated() -> Invalid {
    Invalid::new(InvalidKind::Syntax, "the file ends inside the header")
}

pub(crate) fn invalid_header(what: &str) -> Invalid {
    Invalid::new(InvalidKind::Syntax, format!("the header is not valid: {what}"))
}

/// An element type that is not read.
fn refused(descr: &str, why: &str) -> Invalid {
    Invalid::new(InvalidKind::Type, format!("elements of `{}` {why}", Short(descr)))
}

/// What a header says of the elements behind it.
#[derive(Debug)]
pub(crate) struct Array {
    pub(crate) shape: Vec<usize>,
    /// Number of elements.
    pub(crate) len: usize,
    descr: String,
    item: Item,
    /// Whether the first index moves fastest, where that makes a difference.
    fortran_order: bool,
}

impl Array {
    /// By the header's text, compared with the bytes that are behind it.
    pub(crate) fn parse(header: &[u8], body: u64, as_type: Option<DataType>) -> Result<Array, Invalid> {
        let Header { mut descr, fortran_order, shape } = Header::parse(header)?;
        let item = Item::parse(&descr, as_type)?;
        if descr.len() > MAX_DESCR {
            // It is shown, and compared. In an archive, a long one takes less than a thousandth of its length.
            let end = (0..=MAX_DESCR).rev().find(|&end| descr.is_char_boundary(end));
            descr.truncate(end.unwrap_or(0));
        }
        let too_large = || Invalid::too_large(Short(&descr), &shape);
        let len = element_count(&shape).ok_or_else(too_large)?;
        if let ItemKind::Foreign(_) = item.kind {
            // Pickles have any length.
            return Ok(Array { shape, len, descr, item, fortran_order: false });
        }
        let want = len.checked_mul(item.size).ok_or_else(too_large)?;
        if body != want as u64 {
            let (shape, descr) = (ShapeText(&shape), Short(&descr));
            let what = format!("{} after the header for {shape} `{descr}` (want {want})", Count(body, "byte"));
            return Err(Invalid::new(InvalidKind::Size, what));
        }
        if item.size == 0 && len > 0 {
            // Strings of no characters: as many as the header claims, with no byte to show for it.
            let item = Item { kind: ItemKind::Foreign(refused(&descr, "have no bytes")), ..item };
            return Ok(Array { shape, len, descr, item, fortran_order: false });
        }
        let fortran_order = fortran_order && shape.iter().filter(|&&dim| dim > 1).count() > 1;
        Ok(Array { shape, len, descr, item, fortran_order })
    }

    pub(crate) fn data_type(&self) -> DataType {
        match self.item.kind {
            ItemKind::Element(data_type) => data_type,
            ItemKind::Bytes | ItemKind::Unicode | ItemKind::Foreign(_) => DataType::String,
        }
    }

    /// The array that a member is which is none: its bytes are kept.
    pub(crate) fn none() -> Array {
        let why = Invalid::new(InvalidKind::Name, "not an array (want a name that ends in .npy)");
        let item = Item { kind: ItemKind::Foreign(why), size: 1, word: 1, big_endian: false };
        Array { shape: Vec::new(), len: 1, descr: "(no array)".to_owned(), item, fortran_order: false }
    }

    /// The element type as the header names it, and why its elements are not read, of a type that ONNX lacks.
    pub(crate) fn foreign(&self) -> Option<(&str, &Invalid)> {
        match &self.item.kind {
            ItemKind::Foreign(why) => Some((&self.descr, why)),
            _ => None,
        }
    }

    /// How the items stand in the file, where any stretch of them can be read by itself: not strings.
    pub(crate) fn items(&self) -> Option<Items> {
        let swap = if self.item.big_endian { self.item.word } else { 1 };
        match self.item.kind {
            ItemKind::Element(data_type) => Some(Items { swap, unpacked: data_type.is_packed() }),
            ItemKind::Bytes | ItemKind::Unicode | ItemKind::Foreign(_) => None,
        }
    }

    /// Bytes of an item, where the first index moves fastest and that makes a difference.
    pub(crate) fn fortran_items(&self) -> Option<usize> {
        (self.fortran_order && self.len > 0).then_some(self.item.size)
    }

    /// Reads strings item by item from the items in C order.
    pub(crate) fn strings<'r>(&self, items: &'r mut (dyn Read + 'r)) -> StringItems<'r> {
        let Item { kind, size, big_endian, .. } = &self.item;
        let unit = if matches!(kind, ItemKind::Unicode) { 4 } else { 1 };
        StringItems { items, unit, size: *size, big_endian: *big_endian, index: 0, len: self.len }
    }
}

/// The strings of an array, one after another. The padding at the end of an item takes no memory.
pub(crate) struct StringItems<'r> {
    items: &'r mut (dyn Read + 'r),
    /// Bytes of a character.
    unit: usize,
    /// Bytes of an item.
    size: usize,
    big_endian: bool,
    index: usize,
    len: usize,
}

/// Why a string cannot be read.
pub(crate) enum StringError {
    Read(io::Error),
    Invalid(Invalid),
}

impl StringItems<'_> {
    /// The next string.
    pub(crate) fn next(&mut self) -> Result<Option<Vec<u8>>, StringError> {
        if self.index == self.len {
            return Ok(None);
        }
        let (mut text, mut zeros, mut left) = (Vec::new(), 0, self.size);
        let mut buffer = [0; 4096];
        while left > 0 {
            let part = &mut buffer[..left.min(4096)];
            self.items.read_exact(part).map_err(StringError::Read)?;
            left -= part.len();
            for unit in part.chunks_exact_mut(self.unit) {
                if unit.iter().all(|&byte| byte == 0) {
                    zeros += 1;
                    continue;
                }
                let room = text.try_reserve(zeros + 4);
                room.map_err(|_| StringError::Read(io::ErrorKind::OutOfMemory.into()))?;
                text.resize(text.len() + std::mem::take(&mut zeros), 0);
                if self.big_endian {
                    unit.reverse();
                }
                match <[u8; 4]>::try_from(&*unit).map(u32::from_le_bytes) {
                    Ok(code) => self.push(code, &mut text)?,
                    Err(_) => text.extend_from_slice(unit),
                }
            }
        }
        self.index += 1;
        Ok(Some(text))
    }

    fn push(&self, code: u32, text: &mut Vec<u8>) -> Result<(), StringError> {
        let wrong = || {
            let what = format!("element {}: {code:#x} is not a Unicode character", self.index);
            StringError::Invalid(Invalid::new(InvalidKind::Value, what))
        };
        let c = char::from_u32(code).ok_or_else(wrong)?;
        text.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
        Ok(())
    }
}

#[derive(Debug)]
enum ItemKind {
    Element(DataType),
    Bytes,
    Unicode,
    /// A type that ONNX lacks, or that the file leaves open, with the reason why elements are not read.
    Foreign(Invalid),
}

/// What an item is and how it stands in the file.
#[derive(Debug)]
struct Item {
    kind: ItemKind,
    /// Bytes of an item.
    size: usize,
    /// Bytes of the words that byte order applies to.
    word: usize,
    big_endian: bool,
}

impl Item {
    /// The items that a `descr` names. Without a type of the caller, an unknown `descr` is foreign and no error.
    fn parse(descr: &str, as_type: Option<DataType>) -> Result<Item, Invalid> {
        let (order, name) = match descr.as_bytes() {
            [order @ (b'<' | b'>' | b'|' | b'='), ..] => (*order, &descr[1..]),
            _ => (b'|', descr),
        };
        let big_endian = order == b'>';
        let item = |kind, size, word| Item { kind, size, word, big_endian };
        let of = |data_type: DataType| {
            let size = data_type.bits().unwrap_or(0).div_ceil(8);
            let complex = matches!(data_type, DataType::Complex64 | DataType::Complex128);
            item(ItemKind::Element(data_type), size, if complex { size / 2 } else { size })
        };
        let found = match known(name) {
            Some(data_type) => of(data_type),
            None => match (sized(name), as_type) {
                // Any type of the caller's of this width.
                (Some(('V', 1)), Some(_)) => item(ItemKind::Element(DataType::Uint8), 1, 1),
                (Some(('V', 2)), Some(_)) => item(ItemKind::Element(DataType::Uint16), 2, 1),
                (Some(('V', 2)), None) => item(ItemKind::Element(DataType::BFloat16), 2, 1),
                (Some(('S' | 'a', size)), _) => item(ItemKind::Bytes, size, 1),
                (Some(('U', chars)), _) if chars <= usize::MAX / 4 => item(ItemKind::Unicode, 4 * chars, 4),
                (_, None) => item(ItemKind::Foreign(why_foreign(descr, name)), 0, 1),
                (_, Some(_)) => return Err(why_foreign(descr, name)),
            },
        };
        let Some(want) = as_type else { return Ok(found) };
        match found.kind {
            ItemKind::Element(DataType::Uint8 | DataType::Uint16)
                if !numpy_has(want) && want.bits().is_some_and(|bits| bits.div_ceil(8) == found.size) =>
            {
                Ok(Item { kind: ItemKind::Element(want), ..found })
            }
            ItemKind::Element(data_type) if data_type == want && !name.starts_with('V') => Ok(found),
            ItemKind::Bytes | ItemKind::Unicode if want == DataType::String => Ok(found),
            _ => Err(refused(descr, &format!("are not {want}"))),
        }
    }
}

/// The type that a name of numpy or ml_dtypes stands for, without a byte order.
fn known(name: &str) -> Option<DataType> {
    // What an old version of ml_dtypes wrote for it.
    const E5M2: &str = "f1";
    let named = |data_type: &DataType| {
        let other = data_type.interchange();
        other.numpy == Some(name) || other.ml_dtypes == Some(name) || numpy_name(*data_type) == Some(name)
    };
    let found = DataType::ALL.iter().copied().find(named);
    found.or((name == E5M2).then_some(DataType::Float8E5M2))
}

/// numpy's name of a type that it has.
fn numpy_name(data_type: DataType) -> Option<&'static str> {
    match data_type {
        DataType::Float => Some("float32"),
        DataType::Double => Some("float64"),
        DataType::String => None,
        _ => data_type.interchange().numpy.map(|_| data_type.name()),
    }
}

/// The letter and the number of a `descr` such as `V3`.
fn sized(name: &str) -> Option<(char, usize)> {
    let (letter, digits) = (name.chars().next()?, name.get(1..)?);
    let number = digits.parse().ok().filter(|_| digits.bytes().all(|byte| byte.is_ascii_digit()))?;
    Some((letter, number))
}

/// Why elements are not read.
fn why_foreign(descr: &str, name: &str) -> Invalid {
    let why = match (name.chars().next(), sized(name)) {
        (_, Some(('V', 1))) => {
            let mut error = refused(descr, "may be any type of 8 bits or fewer (");
            error.kind = InvalidKind::Ambiguous;
            error.what = error.what.field("from", " gives the type, such as float8e4m3fn)");
            return error;
        }
        (None, _) => "have no type",
        (Some('[' | '(' | '{'), _) => "are structures, which are not read",
        (_, Some(('U', _))) => "are too large",
        (_, Some(('V', _))) => "are bytes of a type that ONNX lacks",
        (Some('O'), _) => "are Python objects, which are unsupported",
        (Some('M' | 'm'), _) => "are dates, which ONNX has no type for",
        (_, Some(('f' | 'c' | 'g', _))) => "are floats of a width that ONNX lacks",
        _ => "have a type that ONNX lacks",
    };
    refused(descr, why)
}
