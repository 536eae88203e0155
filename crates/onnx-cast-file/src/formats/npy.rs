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
//! that the caller must tell which, as for the plain unsigned integers. `S` and `U` are strings; trailing NULs are
//! padding. Structured types, objects (pickles), dates and long doubles are refused.

mod header;

use crate::formats::error::{Invalid, InvalidKind};
use crate::formats::fortran::to_c_order;
use crate::formats::source::Items;
use crate::io::memory::zeros;
use crate::io::positional::InputFile;
use crate::text::{Count, ShapeText, Short};
use header::Header;
use onnx_cast::DataType;
use onnx_cast::tensor::{Strings, StringsView, element_count};
use std::ops::Range;
use std::path::Path;

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
        let Header { descr, fortran_order, shape } = Header::parse(header)?;
        let item = Item::parse(&descr, as_type)?;
        let too_large = || Invalid::too_large(&descr, &shape);
        let len = element_count(&shape).ok_or_else(too_large)?;
        let want = len.checked_mul(item.size).ok_or_else(too_large)?;
        if body != want as u64 {
            let (shape, descr) = (ShapeText(&shape), Short(&descr));
            let what = format!("{} after the header for {shape} `{descr}` (want {want})", Count(body, "byte"));
            return Err(Invalid::new(InvalidKind::Size, what));
        }
        if item.size == 0 && len > 0 {
            // Strings of no characters: as many as the header claims, with no byte to show for it.
            return Err(refused(&descr, "have no bytes"));
        }
        let fortran_order = fortran_order && shape.iter().filter(|&&dim| dim > 1).count() > 1;
        Ok(Array { shape, len, descr, item, fortran_order })
    }

    pub(crate) fn data_type(&self) -> DataType {
        match self.item.kind {
            ItemKind::Element(data_type) => data_type,
            ItemKind::Bytes | ItemKind::Unicode => DataType::String,
        }
    }

    /// How the items stand in the file, where any stretch of them can be read by itself: not strings.
    pub(crate) fn items(&self) -> Option<Items> {
        let swap = if self.item.big_endian { self.item.word } else { 1 };
        match self.item.kind {
            ItemKind::Element(data_type) => Some(Items { swap, unpacked: data_type.is_packed() }),
            ItemKind::Bytes | ItemKind::Unicode => None,
        }
    }

    /// Bytes of an item, where the first index moves fastest and that makes a difference.
    pub(crate) fn fortran_items(&self) -> Option<usize> {
        (self.fortran_order && self.len > 0).then_some(self.item.size)
    }

    /// The strings, from all the items.
    pub(crate) fn strings(&self, mut body: Vec<u8>) -> Result<Strings, Invalid> {
        let size = self.item.size;
        let too_large = || Invalid::too_large(&self.descr, &self.shape);
        if self.fortran_items().is_some() {
            let mut ordered = zeros(body.len()).ok_or_else(too_large)?;
            let source = InputFile::other(Path::new(""), body.len() as u64, body);
            let write = |at: u64, row: &[u8]| {
                ordered[at as usize..][..row.len()].copy_from_slice(row);
                Ok(())
            };
            to_c_order(&source, 0, &self.shape, size, write).map_err(|_| too_large())?;
            body = ordered;
        }
        if self.item.big_endian && self.item.word > 1 {
            body.chunks_exact_mut(self.item.word).for_each(<[u8]>::reverse);
        }
        match self.item.kind {
            ItemKind::Unicode => decode_utf32(&body, size),
            _ => Ok(body.chunks_exact(size.max(1)).map(|item| trim(item, 1)).collect()),
        }
    }
}

/// An item without the zeros at its end, in whole units.
fn trim(mut item: &[u8], unit: usize) -> &[u8] {
    while let Some(start) = item.len().checked_sub(unit)
        && item[start..].iter().all(|&byte| byte == 0)
    {
        item = &item[..start];
    }
    item
}

fn decode_utf32(body: &[u8], size: usize) -> Result<Strings, Invalid> {
    let mut strings = Strings::new();
    let mut text = String::new();
    for (index, item) in body.chunks_exact(size.max(4)).enumerate() {
        text.clear();
        let (words, _) = trim(item, 4).as_chunks::<4>();
        for &word in words {
            let code = u32::from_le_bytes(word);
            let wrong =
                || Invalid::new(InvalidKind::Value, format!("element {index}: {code:#x} is not a Unicode character"));
            text.push(char::from_u32(code).ok_or_else(wrong)?);
        }
        strings.push(text.as_bytes());
    }
    Ok(strings)
}

#[derive(Debug)]
enum ItemKind {
    Element(DataType),
    Bytes,
    Unicode,
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
    fn parse(descr: &str, as_type: Option<DataType>) -> Result<Item, Invalid> {
        let refuse = |why| Err(refused(descr, why));
        let mut name = descr;
        let order = match descr.as_bytes() {
            [order @ (b'<' | b'>' | b'|' | b'='), ..] => {
                name = &descr[1..];
                *order
            }
            _ => b'|',
        };
        let big_endian = order == b'>';
        let item = |kind, size, word| Item { kind, size, word, big_endian };
        let named = DataType::ALL.iter().find(|data_type| data_type.interchange().numpy == Some(name));
        let item = if let Some(data_type) = named {
            let size = data_type.bits().unwrap_or(0) / 8;
            let complex = matches!(data_type, DataType::Complex64 | DataType::Complex128);
            item(ItemKind::Element(*data_type), size, if complex { size / 2 } else { size })
        } else {
            let (Some(letter), digits) = (name.chars().next(), name.get(1..).unwrap_or_default()) else {
                return refuse("have no type");
            };
            let number: Option<usize> = digits.parse().ok().filter(|_| digits.bytes().all(|b| b.is_ascii_digit()));
            match (letter, number) {
                ('V', Some(1)) if as_type.is_none() => {
                    let what = "may be any type of 8 bits or fewer (";
                    let mut error = refused(descr, what);
                    error.kind = InvalidKind::Ambiguous;
                    error.what = error.what.field("from", " gives the type, such as float8e4m3fn)");
                    return Err(error);
                }
                // The caller's type, which is checked below.
                ('V', Some(1)) => item(ItemKind::Element(DataType::Uint8), 1, 1),
                ('V', Some(2)) if as_type.is_none() => item(ItemKind::Element(DataType::BFloat16), 2, 1),
                ('V', Some(2)) => item(ItemKind::Element(DataType::Uint16), 2, 1),
                ('f', Some(1)) => item(ItemKind::Element(DataType::Float8E5M2), 1, 1),
                ('S' | 'a', Some(size)) => item(ItemKind::Bytes, size, 1),
                ('U', Some(chars)) => match chars.checked_mul(4) {
                    Some(size) => item(ItemKind::Unicode, size, 4),
                    None => return refuse("are too large"),
                },
                ('V', _) => return refuse("are bytes of a type that ONNX lacks"),
                ('O', _) => return refuse("are Python objects, which are unsupported"),
                ('M' | 'm', _) => return refuse("are dates, which ONNX has no type for"),
                ('f' | 'c' | 'g', _) => return refuse("are floats of a width that ONNX lacks"),
                _ => return refuse("have a type that ONNX lacks"),
            }
        };
        let Some(want) = as_type else { return Ok(item) };
        match item.kind {
            ItemKind::Element(DataType::Uint8 | DataType::Uint16)
                if !numpy_has(want) && want.bits().is_some_and(|bits| bits.div_ceil(8) == item.size) =>
            {
                Ok(Item { kind: ItemKind::Element(want), ..item })
            }
            ItemKind::Element(data_type) if data_type == want && !name.starts_with('V') => Ok(item),
            ItemKind::Bytes | ItemKind::Unicode if want == DataType::String => Ok(item),
            _ => Err(refused(descr, &format!("are not {want}"))),
        }
    }
}
