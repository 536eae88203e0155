//! `.gguf`: the tensors of a model for llama.cpp, behind a header of metadata and of names, shapes, types and offsets.
//! `write.rs` has the header of a file that is written.
//!
//! The format is defined by docs/gguf.md of ggml; types are in `types.rs`. Dimensions stand in reversed order: the
//! first is that of a row. The metadata (the tokenizer, mostly) is passed over, but for the architecture and the
//! alignment. Nothing is allocated for a claim: a count is compared with the bytes that are left, and names have a
//! limit.

mod shapes;
mod types;
mod write;

use crate::formats::error::{FormatError, Invalid, InvalidKind};
use crate::formats::format::{Format, GGUF_MAGIC};
use crate::formats::limits::MAX_HEADER;
use crate::io::positional::{InputFile, PositionedReader};
use crate::text::{Count, ShapeText, Short};
use onnx_cast::DataType;
use onnx_cast::tensor::element_count;
use std::collections::{HashMap, HashSet};
use std::io::{BufReader, Read};
use std::ops::Range;
use std::path::Path;

pub(crate) use types::UNKNOWN as UNKNOWN_TYPE;
pub(crate) use types::{BlockCoding, GgufType, Held};
pub(crate) use write::{ALIGNMENT as WRITTEN_ALIGNMENT, Described, Metadata, MetadataValue, header};

/// The extension of a scale beside a weight, in place of `.weight`.
const SCALE: &str = ".scale";
/// That of the scale of activations.
const INPUT_SCALE: &str = ".input_scale";
const WEIGHT: &str = ".weight";

/// The most bytes of a key, and of a name.
const MAX_NAME: u64 = (1 << 16) - 1;
/// The most dimensions of a tensor.
const MAX_DIMS: u32 = 4;
/// The alignment of a file that does not tell it.
const ALIGNMENT: u32 = 32;

const ARCHITECTURE: &str = "general.architecture";
const ALIGNMENT_KEY: &str = "general.alignment";

/// Types of metadata.
const UINT32: u32 = 4;
const INT32: u32 = 5;
const FLOAT32: u32 = 6;
const STRING: u32 = 8;
const ARRAY: u32 = 9;

/// A tensor of a file.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) shape: Vec<usize>,
    pub(crate) kind: &'static GgufType,
    /// The number of the type in the file.
    pub(crate) id: u32,
    /// Number of elements.
    pub(crate) len: usize,
    /// Where it begins in the file.
    pub(crate) at: u64,
    /// The scales that its blocks are multiplied by: none, one, or one for each matrix.
    pub(crate) scales: Vec<f32>,
}

/// What a header says.
#[derive(Debug)]
pub(crate) struct FileHead {
    /// In the order of the header.
    pub(crate) entries: Vec<Entry>,
    pub(crate) metadata: Vec<(String, String)>,
    /// Where the entries of the metadata are in the file, with their keys.
    pub(crate) places: Vec<(String, Range<u64>)>,
}

/// Blocks of a tensor in a file.
#[derive(Debug)]
pub struct Blocks {
    /// Where they begin.
    pub at: u64,
    /// Their type.
    pub kind: &'static GgufType,
    /// Its number in the file.
    pub id: u32,
    /// What all values are multiplied by: nothing, one scale, or one for each matrix.
    pub scales: Vec<f32>,
}

impl Blocks {
    /// The name of their type; its number where it has none.
    pub(crate) fn type_name(&self) -> String {
        if *self.kind == types::UNKNOWN { format!("type {}", self.id) } else { self.kind.name.to_owned() }
    }
}

/// Names of the tensors that belong to a weight of NVFP4: its scale, and the scale of the activations, which dequantized
/// weights have no use for. llama.cpp replaces `.weight` by the suffix, other programs append it.
pub(crate) fn companions_of(weight: &str) -> impl Iterator<Item = String> {
    let [scales, inputs] = [SCALE, INPUT_SCALE].map(|suffix| names_of(weight, suffix));
    scales.chain(inputs)
}

fn names_of(weight: &str, suffix: &str) -> impl Iterator<Item = String> {
    [weight.strip_suffix(WEIGHT), Some(weight)].into_iter().flatten().map(move |stem| format!("{stem}{suffix}"))
}

/// Whether a path is that of a `.gguf` file: by its extension, or where that stands for no format, by its content.
pub(crate) fn is_meant(path: &Path) -> bool {
    match Format::from_path(path) {
        Ok(format) => format == Format::Gguf,
        Err(_) => {
            let beginning = InputFile::open(path).ok().and_then(|file| file.prefix(16).ok());
            beginning.is_some_and(|bytes| Format::by_content(&bytes) == Some(Format::Gguf))
        }
    }
}

impl FileHead {
    /// Reads the header of a file, and checks all of it against the file's length.
    pub(crate) fn read(file: &InputFile) -> Result<FileHead, FormatError> {
        let mut reader = Reader::new(file);
        let wrong = |kind, what| Err(FormatError::invalid(file.path(), Invalid::new(kind, what)));
        let unsupported = |what| wrong(InvalidKind::Unsupported, what);
        if file.prefix(GGUF_MAGIC.len())? != GGUF_MAGIC {
            return wrong(InvalidKind::Syntax, "it does not begin with `GGUF`".to_owned());
        }
        reader.skip(GGUF_MAGIC.len() as u64, "a magic number")?;
        let version = u32::from_le_bytes(reader.take("a version")?);
        match version {
            2 | 3 => {}
            _ if matches!(version.swap_bytes(), 1..=3) => {
                return unsupported("a big-endian file (only little-endian ones are read)".to_owned());
            }
            got => return unsupported(format!("version {got} (want 2 or 3)")),
        }
        // A tensor has at least a name's length, a number of dimensions, a type and an offset; an entry of the metadata
        // a key's length, a type and a value.
        let tensors = reader.count("tensors", 24)?;
        let entries = reader.count("entries of metadata", 13)?;
        let mut head = FileHead { entries: Vec::new(), metadata: Vec::new(), places: Vec::new() };
        let mut alignment = ALIGNMENT;
        let (mut keys, mut shapes) = (HashSet::new(), HashMap::new());
        for _ in 0..entries {
            let begin = reader.at;
            let key = reader.name("a key")?;
            let kind = u32::from_le_bytes(reader.take("a type")?);
            match &*key {
                ALIGNMENT_KEY if kind == UINT32 => {
                    alignment = u32::from_le_bytes(reader.take("an alignment")?);
                    if !alignment.is_power_of_two() {
                        let what = format!("an alignment of {alignment} (want a power of two)");
                        return wrong(InvalidKind::Value, what);
                    }
                }
                ARCHITECTURE if kind == STRING => {
                    head.metadata.push((key.clone(), reader.name("an architecture")?));
                }
                ALIGNMENT_KEY => return Err(reader.wrong_value(&key, kind, "uint32")),
                _ => match key.strip_prefix(shapes::SHAPE_BEFORE) {
                    Some(tensor) => drop(shapes.insert(tensor.to_owned(), reader.shape(&key, kind)?)),
                    None => reader.skip_value(&key, kind)?,
                },
            }
            if !keys.insert(key.clone()) {
                return wrong(InvalidKind::Name, format!("metadata `{}` appears twice", Short(&key)));
            }
            head.places.push((key, begin..reader.at));
        }
        let mut raw = Vec::new();
        for index in 0..tensors {
            raw.push(reader.tensor(index)?);
        }
        let start = reader.at.next_multiple_of(alignment.into());
        head.entries =
            place(raw, start, file.len(), alignment).map_err(|error| FormatError::invalid(file.path(), error))?;
        head.read_scales(file)?;
        head.restore_shapes(&shapes).map_err(|error| FormatError::invalid(file.path(), error))?;
        Ok(head)
    }

    /// Reads the scales beside weights of NVFP4.
    fn read_scales(&mut self, file: &InputFile) -> Result<(), FormatError> {
        let places: HashMap<&str, usize> =
            self.entries.iter().enumerate().map(|(index, entry)| (&*entry.name, index)).collect();
        let mut found = Vec::new();
        let wrong = |scale: &Entry, kind, what: String| {
            Err(FormatError::invalid(file.path(), Invalid::new(kind, what).of_tensor(&scale.name)))
        };
        for (index, weight) in self.entries.iter().enumerate().filter(|(_, entry)| entry.is_nvfp4()) {
            let mut scales = names_of(&weight.name, SCALE).filter_map(|name| places.get(&*name).copied());
            let (first, second) = (scales.next(), scales.next());
            if let (Some(first), Some(second)) = (first, second) {
                let (other, weight) = (Short(&self.entries[first].name), Short(&weight.name));
                let what = format!("a second scale of `{weight}`, beside `{other}` (want one of them)");
                return wrong(&self.entries[second], InvalidKind::Ambiguous, what);
            }
            found.extend(first.map(|scale| (index, scale)));
        }
        if let Some(scale) = self.lost_scale(&places) {
            let what = "the scale of a weight that the file lacks, or that is not NVFP4 (want the weight beside it)";
            return wrong(scale, InvalidKind::Missing, what.to_owned());
        }
        for (weight, scale) in found {
            let Entry { shape, kind, len, at, .. } = &self.entries[scale];
            let weight_shape = &self.entries[weight].shape;
            let outer = weight_shape.len().saturating_sub(2);
            let matrices = element_count(&weight_shape[..outer]).unwrap_or(0);
            if kind.held != Held::Plain(DataType::Float) || *len != 1 && *len != matrices {
                let data_type = kind.like();
                let (shape, weight) = (ShapeText(shape), Short(&self.entries[weight].name));
                let want = "(want float, one element or one for each matrix)";
                let what = format!("{shape} {data_type} as the scale of `{weight}` {want}");
                return wrong(&self.entries[scale], InvalidKind::Type, what);
            }
            let bytes = file.read(*at, 4 * *len as u64)?;
            self.entries[weight].scales = bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
        }
        Ok(())
    }

    /// A scale that belongs to no weight of NVFP4. Other programs write `x.weight.scale` for nothing else. `x.scale` is
    /// the name of many tensors, so it is a lost scale only if it has one element, there is no `x.weight` of any type,
    /// and the file has weights of NVFP4.
    fn lost_scale(&self, places: &HashMap<&str, usize>) -> Option<&Entry> {
        let has_nvfp4 = self.entries.iter().any(Entry::is_nvfp4);
        let is_lost = |entry: &&Entry| {
            let Some(stem) = entry.name.strip_suffix(SCALE) else { return false };
            match places.get(stem) {
                Some(&weight) => stem.ends_with(WEIGHT) && !self.entries[weight].is_nvfp4(),
                None if stem.ends_with(WEIGHT) => true,
                None => has_nvfp4 && entry.len == 1 && !places.contains_key(&*format!("{stem}{WEIGHT}")),
            }
        };
        self.entries.iter().find(is_lost)
    }
}

impl Entry {
    fn is_nvfp4(&self) -> bool {
        matches!(self.kind.held, Held::Blocks(BlockCoding::NvFp4, _))
    }
}

/// A tensor as the header has it.
struct RawEntry {
    name: String,
    /// The first is that of a row.
    dims: Vec<u64>,
    id: u32,
    offset: u64,
}

impl RawEntry {
    /// Type, shape and number of elements.
    fn describe(&self) -> Result<(&'static GgufType, Vec<usize>, usize, u64), Invalid> {
        let wrong = |kind, what| Invalid::new(kind, what).of_tensor(&self.name);
        // The others can be read all the same: each tensor has a place of its own.
        let kind = GgufType::of_id(self.id).unwrap_or(&types::UNKNOWN);
        let columns = self.dims.first().copied().unwrap_or(1);
        if !columns.is_multiple_of(kind.elements as u64) {
            let (kind, block) = (kind.name, kind.elements);
            let want = format!("(want a multiple of {block})");
            let what = format!("rows of {} are not whole blocks of {kind} {want}", Count(columns, "element"));
            return Err(wrong(InvalidKind::Size, what));
        }
        let shape: Vec<usize> = self.dims.iter().rev().map(|&dim| usize::try_from(dim).unwrap_or(usize::MAX)).collect();
        let len = element_count(&shape).and_then(|len| Some((len, kind.byte_len(len)?)));
        // The values are floats.
        let sizes = len.filter(|&(len, _)| DataType::Float.byte_len(len).is_some());
        match sizes {
            Some((len, bytes)) => Ok((kind, shape, len, bytes)),
            None => Err(Invalid::too_large(kind.name, &shape).of_tensor(&self.name)),
        }
    }
}

/// Checks where tensors are: at the alignment, within the data, none over another.
fn place(raw: Vec<RawEntry>, start: u64, file: u64, alignment: u32) -> Result<Vec<Entry>, Invalid> {
    let data = file.saturating_sub(start);
    let mut names = HashSet::new();
    let mut entries = Vec::with_capacity(raw.len());
    let mut ranges = Vec::with_capacity(raw.len());
    for entry in &raw {
        if !names.insert(&*entry.name) {
            let what = format!("tensor `{}` appears twice", Short(&entry.name));
            return Err(Invalid::new(InvalidKind::Name, what));
        }
        let (kind, shape, len, bytes) = entry.describe()?;
        let offset = entry.offset;
        let wrong = |what| Invalid::new(InvalidKind::Size, what).of_tensor(&entry.name);
        if !offset.is_multiple_of(alignment.into()) {
            return Err(wrong(format!("offset {offset} is not a multiple of the alignment {alignment}")));
        }
        let end = offset.checked_add(bytes).filter(|&end| end <= data);
        let end =
            end.ok_or_else(|| wrong(format!("{} at offset {offset} of {data} bytes of data", Count(bytes, "byte"))))?;
        ranges.push((offset, end, &*entry.name));
        let (name, id, at, scales) = (entry.name.clone(), entry.id, start + offset, Vec::new());
        entries.push(Entry { name, shape, kind, id, len, at, scales });
    }
    // Tensors of no bytes share nothing.
    ranges.retain(|(start, end, _)| start < end);
    ranges.sort_unstable();
    for pair in ranges.windows(2) {
        let [(_, end, other), (offset, _, tensor)] = pair else { continue };
        if offset < end {
            let (tensor, other) = (Short(tensor), Short(other));
            let what = format!("tensor `{tensor}` begins at offset {offset}, within `{other}`, which ends at {end}");
            return Err(Invalid::new(InvalidKind::Size, what));
        }
    }
    Ok(entries)
}

/// The header, read in order.
struct Reader<'a> {
    file: &'a InputFile,
    bytes: BufReader<PositionedReader<'a>>,
    at: u64,
}

impl<'a> Reader<'a> {
    fn new(file: &'a InputFile) -> Self {
        Reader { file, bytes: BufReader::with_capacity(1 << 16, PositionedReader::new(file)), at: 0 }
    }

    fn wrong(&self, kind: InvalidKind, what: String) -> FormatError {
        FormatError::invalid(self.file.path(), Invalid::new(kind, what))
    }

    fn wrong_value(&self, key: &str, got: u32, want: &str) -> FormatError {
        self.wrong(InvalidKind::Type, format!("metadata `{}`: a value of type {got} (want {want})", Short(key)))
    }

    /// Makes sure that so many bytes are there, and notes that they are read.
    fn advance(&mut self, bytes: u64, what: &'static str) -> Result<(), FormatError> {
        let (at, len) = (self.at, self.file.len());
        match at.checked_add(bytes).filter(|&end| end <= len) {
            Some(end) if end > MAX_HEADER => {
                Err(self.wrong(InvalidKind::Size, format!("a header of more than {MAX_HEADER} bytes")))
            }
            Some(end) => {
                self.at = end;
                Ok(())
            }
            None => {
                let what = format!("{what} of {} at byte {at} of a file of {len}", Count(bytes, "byte"));
                Err(self.wrong(InvalidKind::Syntax, what))
            }
        }
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), FormatError> {
        self.bytes.read_exact(bytes).map_err(|error| FormatError::io(self.file.path(), "read", error))
    }

    fn take<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], FormatError> {
        self.advance(N as u64, what)?;
        let mut bytes = [0; N];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    fn skip(&mut self, bytes: u64, what: &'static str) -> Result<(), FormatError> {
        self.advance(bytes, what)?;
        // The limit of a header fits.
        let skipped = self.bytes.seek_relative(bytes as i64);
        skipped.map_err(|error| FormatError::io(self.file.path(), "read", error))
    }

    /// A number of things, each of which has at least so many bytes.
    fn count(&mut self, what: &'static str, least: u64) -> Result<u64, FormatError> {
        let count = u64::from_le_bytes(self.take("a number")?);
        let len = self.file.len();
        if count > (len - self.at) / least {
            let what = format!("the number of {what} is {count}, in a file of {}", Count(len, "byte"));
            return Err(self.wrong(InvalidKind::Size, what));
        }
        Ok(count)
    }

    /// A key, a name, or a short string.
    fn name(&mut self, what: &'static str) -> Result<String, FormatError> {
        let len = u64::from_le_bytes(self.take("a length")?);
        let at = self.at;
        if len > MAX_NAME {
            let what = format!("{what} of {len} bytes at byte {at} (want at most {MAX_NAME})");
            return Err(self.wrong(InvalidKind::Size, what));
        }
        self.advance(len, what)?;
        let mut bytes = vec![0; len as usize];
        self.fill(&mut bytes)?;
        let wrong = |_| self.wrong(InvalidKind::Name, format!("{what} at byte {at} is not UTF-8"));
        String::from_utf8(bytes).map_err(wrong)
    }

    fn skip_value(&mut self, key: &str, kind: u32) -> Result<(), FormatError> {
        const VALUE: &str = "a value";
        match (size_of_value(kind), kind) {
            (Some(size), _) => self.skip(size, VALUE),
            (None, STRING) => self.skip_string(),
            (None, ARRAY) => {
                let kind = u32::from_le_bytes(self.take("a type")?);
                match (size_of_value(kind), kind) {
                    (Some(size), _) => {
                        let count = self.count("values", size)?;
                        self.skip(count * size, "an array")
                    }
                    (None, STRING) => (0..self.count("strings", 8)?).try_for_each(|_| self.skip_string()),
                    (None, got) => Err(self.wrong_value(key, got, "an array of numbers or strings")),
                }
            }
            (None, got) => Err(self.wrong_value(key, got, "0 to 12")),
        }
    }

    fn skip_string(&mut self) -> Result<(), FormatError> {
        let len = u64::from_le_bytes(self.take("a length")?);
        self.skip(len, "a string")
    }

    fn tensor(&mut self, index: u64) -> Result<RawEntry, FormatError> {
        let name = self.name("a tensor's name")?;
        if name.is_empty() {
            return Err(self.wrong(InvalidKind::Name, format!("tensor {index} has no name")));
        }
        let rank = u32::from_le_bytes(self.take("a number of dimensions")?);
        if rank > MAX_DIMS {
            let what = format!("{rank} dimensions (want at most {MAX_DIMS})");
            let error = Invalid::new(InvalidKind::Unsupported, what).of_tensor(&name);
            return Err(FormatError::invalid(self.file.path(), error));
        }
        let mut dims = Vec::with_capacity(rank as usize);
        for _ in 0..rank {
            dims.push(u64::from_le_bytes(self.take("a dimension")?));
        }
        let id = u32::from_le_bytes(self.take("a type")?);
        let offset = u64::from_le_bytes(self.take("an offset")?);
        Ok(RawEntry { name, dims, id, offset })
    }
}

/// Bytes of a value of metadata, where all of a type have the same.
fn size_of_value(kind: u32) -> Option<u64> {
    match kind {
        // uint8, int8, bool
        0 | 1 | 7 => Some(1),
        // uint16, int16
        2 | 3 => Some(2),
        // uint32, int32, float32
        UINT32 | INT32 | FLOAT32 => Some(4),
        // uint64, int64, float64
        10..=12 => Some(8),
        _ => None,
    }
}
