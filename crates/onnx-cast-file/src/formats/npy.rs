//! `.npy`: one numpy array. Versions 1.0, 2.0 and 3.0 of the format, C and Fortran order, either byte order are read;
//! 1.0 (2.0 for a header that is longer), C order, little endian are written.
//!
//! | elements | `descr` written | a byte or item holds |
//! |---|---|---|
//! | float, double, float16, int8 ... uint64, bool, complex64, complex128 | numpy's own: `<f4`, `\|b1`, ... | the element |
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

use crate::formats::source::{Items, NamedTensor, Source, SourceData};
use crate::io::memory::zeros;
use onnx_cast::{Data, DataType, Strings, StringsView, TensorView, element_count, pack, unpack};
use std::borrow::Cow;
use std::ops::Range;

pub use crate::formats::error::npy::NpyError;

const MAGIC: &[u8; 6] = b"\x93NUMPY";

/// numpy has no array of more; bounds what a hostile file can make an error text hold.
const MAX_RANK: usize = 64;

/// Whether numpy has a name for a type.
fn numpy_has(data_type: DataType) -> bool {
    data_type == DataType::String || data_type.interchange().numpy.is_some()
}

/// Reads a tensor from the bytes of a `.npy` file; `as_type` where the file does not tell the element type.
///
/// # Errors
/// Where the bytes are not a `.npy` file, its parts do not fit together, or it holds what is no tensor of ONNX.
pub fn read(bytes: &[u8], as_type: Option<DataType>) -> Result<NamedTensor, NpyError> {
    let source = parse(bytes, as_type)?;
    let (descr, shape) = (source.data_type.to_string(), source.shape.clone());
    source.into_named().map_err(|_| NpyError::TooLarge { descr, shape })
}

/// The bytes of a `.npy` file; `plain` for unsigned integers where numpy has no name for the type.
///
/// # Errors
/// Where a string is not UTF-8 or ends in a NUL.
pub fn write(tensor: &TensorView<'_>, plain: bool) -> Result<Vec<u8>, NpyError> {
    let too_large = || NpyError::TooLarge { descr: tensor.data_type().to_string(), shape: tensor.shape().to_vec() };
    match tensor.data() {
        Data::Bytes(bytes) => {
            let mut out = header(tensor.data_type(), tensor.shape(), plain);
            if tensor.data_type().is_packed() {
                let mut elements = zeros(tensor.len()).ok_or_else(too_large)?;
                unpack(tensor.data_type(), bytes, &mut elements).map_err(|_| too_large())?;
                out.extend_from_slice(&elements);
            } else {
                out.extend_from_slice(bytes);
            }
            Ok(out)
        }
        Data::Strings(strings) => {
            let width = string_width("", strings)?;
            let mut out = string_header(width, tensor.shape());
            strings.iter().for_each(|string| put_string(&mut out, string, width));
            Ok(out)
        }
    }
}

/// The header of an array of any type but string.
pub(crate) fn header(data_type: DataType, shape: &[usize], plain: bool) -> Vec<u8> {
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
pub(crate) fn string_header(width: usize, shape: &[usize]) -> Vec<u8> {
    header_of(&format!("<U{width}"), shape)
}

fn header_of(descr: &str, shape: &[usize]) -> Vec<u8> {
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
    out
}

/// The most characters that a string has, at least 1, as numpy has it; checks that all of them can be written.
pub(crate) fn string_width(tensor: &str, strings: StringsView<'_>) -> Result<usize, NpyError> {
    let mut width = 1;
    for (index, string) in strings.iter().enumerate() {
        let tensor = || tensor.to_owned();
        let text = std::str::from_utf8(string).map_err(|_| NpyError::Utf8 { tensor: tensor(), index })?;
        if text.ends_with('\0') {
            return Err(NpyError::TrailingNul { tensor: tensor(), index });
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

/// Reads a tensor; its elements are borrowed where they are little endian, in C order, and not packed by ONNX.
pub(crate) fn parse(bytes: &[u8], as_type: Option<DataType>) -> Result<Source<'_>, NpyError> {
    let place = header_place(bytes)?;
    let (header, body) = bytes.split_at_checked(place.end).ok_or(NpyError::Truncated)?;
    let array = Array::parse(&header[place], body.len() as u64, as_type)?;
    let data = array.decode(Cow::Borrowed(body))?;
    Ok(Source { name: String::new(), data_type: array.data_type(), shape: array.shape, data })
}

/// Bytes that [`header_place`] needs: magic, version, and the longest length.
pub(crate) const PREFIX: usize = 12;

/// Where the header's text stands, by the first [`PREFIX`] bytes of a file or all that there are. The elements follow
/// it.
pub(crate) fn header_place(bytes: &[u8]) -> Result<Range<usize>, NpyError> {
    let rest = bytes.strip_prefix(MAGIC).ok_or(NpyError::Magic)?;
    let (&[major, minor], rest) = rest.split_first_chunk().ok_or(NpyError::Truncated)?;
    let place = match (major, minor) {
        (1, 0) => rest.first_chunk().map(|len| (10, usize::from(u16::from_le_bytes(*len)))),
        (2 | 3, 0) => {
            rest.first_chunk().map(|len| (12, usize::try_from(u32::from_le_bytes(*len)).unwrap_or(usize::MAX)))
        }
        _ => return Err(NpyError::Version { major, minor }),
    };
    let (start, len) = place.ok_or(NpyError::Truncated)?;
    Ok(start..start.checked_add(len).ok_or(NpyError::Truncated)?)
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
    /// By the header's text, held against the bytes that are behind it.
    pub(crate) fn parse(header: &[u8], body: u64, as_type: Option<DataType>) -> Result<Array, NpyError> {
        let Header { descr, fortran_order, shape } = Header::parse(header)?;
        let item = Item::parse(&descr, as_type)?;
        let too_large = || NpyError::TooLarge { descr: descr.clone(), shape: shape.clone() };
        let len = element_count(&shape).ok_or_else(too_large)?;
        let want = len.checked_mul(item.size).ok_or_else(too_large)?;
        if body != want as u64 {
            let got = usize::try_from(body).unwrap_or(usize::MAX);
            return Err(NpyError::Len { descr, shape, got, want });
        }
        if item.size == 0 && len > 0 {
            // Strings of no characters: as many as the header claims, with no byte to show for it.
            return Err(NpyError::Descr { descr, why: "have no bytes" });
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

    /// The elements, from all the items.
    pub(crate) fn decode<'a>(&self, mut body: Cow<'a, [u8]>) -> Result<SourceData<'a>, NpyError> {
        let Array { item, shape, len, .. } = self;
        let too_large = || NpyError::TooLarge { descr: self.descr.clone(), shape: shape.clone() };
        if self.fortran_order {
            body = Cow::Owned(to_c_order(&body, shape, item.size).ok_or_else(too_large)?);
        }
        if item.big_endian && item.word > 1 {
            body.to_mut().chunks_exact_mut(item.word).for_each(<[u8]>::reverse);
        }
        Ok(match item.kind {
            ItemKind::Element(data_type) if data_type.is_packed() => {
                let mut packed = data_type.byte_len(*len).and_then(zeros).ok_or_else(too_large)?;
                pack(data_type, &body, &mut packed).map_err(|_| too_large())?;
                SourceData::Bytes(Cow::Owned(packed))
            }
            ItemKind::Element(_) => SourceData::Bytes(body),
            ItemKind::Bytes => {
                let items = body.chunks_exact(item.size.max(1));
                SourceData::Strings(items.map(|item| trim(item, 1)).collect())
            }
            ItemKind::Unicode => SourceData::Strings(decode_utf32(&body, item.size)?),
        })
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

fn decode_utf32(body: &[u8], size: usize) -> Result<Strings, NpyError> {
    let mut strings = Strings::new();
    let mut text = String::new();
    for (index, item) in body.chunks_exact(size.max(4)).enumerate() {
        text.clear();
        let (words, _) = trim(item, 4).as_chunks::<4>();
        for &word in words {
            let code = u32::from_le_bytes(word);
            text.push(char::from_u32(code).ok_or(NpyError::Character { index, code })?);
        }
        strings.push(text.as_bytes());
    }
    Ok(strings)
}

/// Items in C order from items in Fortran order.
fn to_c_order(items: &[u8], shape: &[usize], size: usize) -> Option<Vec<u8>> {
    let mut out = zeros(items.len())?;
    // Bytes from one item to the next along each dimension, of the input.
    let mut strides = Vec::with_capacity(shape.len());
    let mut stride = size;
    for &dim in shape {
        strides.push(stride);
        stride = stride.saturating_mul(dim);
    }
    let mut index = vec![0; shape.len()];
    let mut at = 0;
    for item in out.chunks_exact_mut(size.max(1)) {
        item.copy_from_slice(items.get(at..at + size)?);
        for axis in (0..shape.len()).rev() {
            index[axis] += 1;
            at += strides[axis];
            if index[axis] < shape[axis] {
                break;
            }
            at -= strides[axis] * shape[axis];
            index[axis] = 0;
        }
    }
    Some(out)
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
    fn parse(descr: &str, as_type: Option<DataType>) -> Result<Item, NpyError> {
        let refuse = |why| Err(NpyError::Descr { descr: descr.to_owned(), why });
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
                return refuse("are of no type");
            };
            let number: Option<usize> = digits.parse().ok().filter(|_| digits.bytes().all(|b| b.is_ascii_digit()));
            match (letter, number) {
                ('V', Some(1)) if as_type.is_none() => {
                    let (descr, example) = (descr.to_owned(), DataType::Float8E4M3FN);
                    return Err(NpyError::Ambiguous { descr, bits: 8, example });
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
                ('V', _) => return refuse("are bytes of no type that ONNX has"),
                ('O', _) => return refuse("are Python objects, which are not read"),
                ('M' | 'm', _) => return refuse("are dates, which ONNX has no type for"),
                ('f' | 'c' | 'g', _) => return refuse("are floats of a width that ONNX does not have"),
                _ => return refuse("are of no type that ONNX has"),
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
            _ => Err(NpyError::AsType { descr: descr.to_owned(), want }),
        }
    }
}

/// The header's dictionary, a Python literal.
struct Header {
    descr: String,
    fortran_order: bool,
    shape: Vec<usize>,
}

const fn invalid(what: &'static str) -> NpyError {
    NpyError::Header { what }
}

impl Header {
    fn parse(text: &[u8]) -> Result<Header, NpyError> {
        let mut text = Literal { left: text };
        let (mut descr, mut fortran_order, mut shape) = (None, None, None);
        text.expect(b'{', "no dictionary")?;
        while !text.take(b'}') {
            let key = text.string()?;
            text.expect(b':', "no `:` behind a key")?;
            let twice = match key {
                b"descr" => descr.replace(text.descr()?).is_some(),
                b"fortran_order" => fortran_order.replace(text.truth()?).is_some(),
                b"shape" => shape.replace(text.shape()?).is_some(),
                _ => return Err(invalid("a key other than descr, fortran_order and shape")),
            };
            if twice {
                return Err(invalid("a key twice"));
            }
            if !text.take(b',') {
                text.expect(b'}', "the dictionary does not end")?;
                break;
            }
        }
        if text.peek().is_some() {
            return Err(invalid("text behind the dictionary"));
        }
        Ok(Header {
            descr: descr.ok_or(invalid("no descr"))?,
            fortran_order: fortran_order.ok_or(invalid("no fortran_order"))?,
            shape: shape.ok_or(invalid("no shape"))?,
        })
    }
}

/// A reader of the Python literals that a header may hold.
struct Literal<'a> {
    left: &'a [u8],
}

impl<'a> Literal<'a> {
    fn peek(&mut self) -> Option<u8> {
        self.left = self.left.trim_ascii_start();
        self.left.first().copied()
    }

    fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        if found {
            self.left = &self.left[1..];
        }
        found
    }

    fn expect(&mut self, byte: u8, what: &'static str) -> Result<(), NpyError> {
        if self.take(byte) { Ok(()) } else { Err(invalid(what)) }
    }

    fn string(&mut self) -> Result<&'a [u8], NpyError> {
        let error = invalid("a string is missing or does not end");
        let Some(quote @ (b'\'' | b'"')) = self.peek() else { return Err(error) };
        let rest = &self.left[1..];
        let end = rest.iter().position(|&byte| byte == quote).ok_or(error)?;
        let string = &rest[..end];
        if string.contains(&b'\\') {
            return Err(invalid("a string with a backslash"));
        }
        self.left = &rest[end + 1..];
        Ok(string)
    }

    fn descr(&mut self) -> Result<String, NpyError> {
        match self.peek() {
            Some(b'[' | b'(' | b'{') => {
                // The end of it is not looked for: the file is refused either way.
                Err(NpyError::Descr { descr: "[...]".to_owned(), why: "are structures, which are not read" })
            }
            _ => Ok(String::from_utf8_lossy(self.string()?).into_owned()),
        }
    }

    fn truth(&mut self) -> Result<bool, NpyError> {
        self.peek();
        for (word, value) in [("True", true), ("False", false)] {
            if let Some(rest) = self.left.strip_prefix(word.as_bytes()) {
                self.left = rest;
                return Ok(value);
            }
        }
        Err(invalid("fortran_order is not True or False"))
    }

    fn shape(&mut self) -> Result<Vec<usize>, NpyError> {
        let mut shape = Vec::new();
        self.expect(b'(', "shape is not a tuple")?;
        while !self.take(b')') {
            if shape.len() == MAX_RANK {
                return Err(invalid("more than 64 dimensions"));
            }
            shape.push(self.dim()?);
            if !self.take(b',') {
                // One number in parentheses is no tuple in Python, but what is meant is clear.
                self.expect(b')', "shape does not end")?;
                break;
            }
        }
        Ok(shape)
    }

    fn dim(&mut self) -> Result<usize, NpyError> {
        self.peek();
        let digits = self.left.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (number, rest) = self.left.split_at(digits);
        let number = std::str::from_utf8(number).ok().and_then(|number| number.parse().ok());
        let number = number.ok_or(invalid("a dimension is not a number of this machine's size"))?;
        // Python 2 wrote its long integers as `3L`.
        self.left = rest.strip_prefix(b"L").unwrap_or(rest);
        Ok(number)
    }
}
