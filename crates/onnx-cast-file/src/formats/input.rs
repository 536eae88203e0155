//! A file of tensors, opened: its header, and where the elements are. They stay in the file, except those that are read
//! as a whole: strings, Fortran order, the fields of a TensorProto other than `raw_data`.

use crate::formats::error::{FormatError, Invalid, InvalidKind};
use crate::formats::foreign::{refuse_foreign, refuse_foreign_to_raw};
use crate::formats::format::{Format, TORCH_BEGINNING};
use crate::formats::gguf::{self, BlockCoding, Blocks, Held};
use crate::formats::npy::{self, Array, StringError};
use crate::formats::npz::{self, Member};
use crate::formats::pb::{self, Storage};
use crate::formats::protobuf::wire::FieldValue;
use crate::formats::safetensors::{self, Entry, FileHead};
use crate::formats::source::{Items, ParsedData, ParsedTensor};
use crate::formats::strided::Strided;
use crate::formats::torch::{self, Place};
use crate::io::fs;
use crate::io::memory::room_for;
use crate::io::positional::{InputFile, PositionedReader, is_stream};
use crate::selection::{SourceType, check_matched};
use crate::text::{Count, ShapeText, Wording};
use onnx_cast::tensor::{Strings, TensorErrorKind, element_count};
use onnx_cast::{CastError, DataType};
use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

/// A file of tensors.
#[derive(Debug)]
pub struct Input {
    /// The file.
    pub file: InputFile,
    /// Its format.
    pub format: Format,
    /// In the order of the file.
    pub tensors: Vec<StoredTensor>,
    /// Of `.safetensors`; of `.gguf` the architecture.
    pub metadata: Option<Vec<(String, String)>>,
    /// The TensorProto that a `.pb` file is, its elements left out.
    pub message: Option<Vec<u8>>,
    /// The members of an `.npz` file, one for each tensor.
    pub members: Vec<Member>,
    /// Names of the values that are missing from `tensors`, each with the reason: the checkpoint's index lists another
    /// file for the tensor, or the value is not a tensor.
    pub left_out: Vec<(String, String)>,
}

/// What the caller says of an input.
#[derive(Clone, Copy, Debug, Default)]
pub struct Given<'a> {
    /// Element types, where the file does not tell them; those that it does tell must be these.
    pub from: &'a [SourceType],
    /// The shape of raw bytes.
    pub shape: Option<&'a [usize]>,
}

/// A tensor of a file.
#[derive(Debug)]
pub struct StoredTensor {
    /// The name; empty where the format has none.
    pub name: String,
    /// The element type.
    pub data_type: DataType,
    /// The shape.
    pub shape: Vec<usize>,
    /// Number of elements.
    pub len: usize,
    /// Where the elements are.
    pub place: Location,
}

/// Where elements are.
#[derive(Debug)]
pub enum Location {
    /// In the file, from this byte on.
    File(u64, Items),
    /// In another file, from this byte on: a temporary one, or external data of a model.
    Other(Arc<InputFile>, u64, Items),
    /// In fields of a TensorProto that is these bytes of the file: place and length. Read when they are wanted.
    Message(u64, u64),
    /// In a member of the archive that the file is.
    Member(Member, Items),
    /// In Fortran order, in a member of the archive that the file is; the last is the size of an item.
    Fortran(Member, Items, usize),
    /// In an array that is read only where its values are asked for.
    Array(Box<WholeArray>),
    /// In the file, in blocks with their scales; they stand for floats.
    Blocks(Blocks),
    /// Here, as this library has them.
    Memory(Vec<u8>),
    /// Here.
    Strings(Strings),
}

/// An array of strings, or a foreign one: of a type that ONNX lacks.
#[derive(Debug)]
pub struct WholeArray {
    member: Option<Member>,
    /// Where its items are in a file that is not an archive.
    start: u64,
    /// Bytes of its items.
    bytes: u64,
    array: Array,
}

/// numpy writes headers of a few hundred bytes at most; a longer one is not a header of a real
/// array.
const MAX_NPY_HEADER: usize = 1 << 20;

impl Input {
    /// Opens a file, or with `-` the standard input; the content tells the format where it is not given.
    pub fn open(path: &Path, format: Option<Format>, given: &Given<'_>) -> Result<Input, FormatError> {
        let file = if is_stream(path) { InputFile::standard_input()? } else { InputFile::open(path)? };
        Input::of(file, format, given)
    }

    /// As [`Input::open`], of a file that is open, or of bytes instead of one.
    pub fn of(file: InputFile, format: Option<Format>, given: &Given<'_>) -> Result<Input, FormatError> {
        if given.shape.is_none() && format != Some(Format::Raw) {
            refuse_foreign(&file, format)?;
        }
        let path = file.path();
        let format = match format {
            Some(format) => format,
            None if given.shape.is_some() => Format::Raw,
            None => Format::by_content(&file.prefix(TORCH_BEGINNING)?).ok_or_else(|| {
                let what = Wording::from("neither .npy, .npz, .safetensors, .pt nor .gguf by its first bytes (")
                    .field("in_format", " names another format, as pb, and ");
                FormatError::request(path, what.field("from", " the type of raw bytes)"))
            })?,
        };
        if let (Some(_), true) = (given.shape, format != Format::Raw) {
            let what = format!("{format} files tell their shape (a shape is for raw bytes)");
            return Err(FormatError::request(path, what));
        }
        let (tensors, members) = match format {
            Format::Safetensors => return open_safetensors(file),
            Format::TensorProto => return open_pb(file),
            Format::Gguf => return open_gguf(file),
            #[cfg(feature = "read-torch")]
            Format::Torch => return open_torch(file),
            #[cfg(not(feature = "read-torch"))]
            Format::Torch => {
                let what = "this build cannot read checkpoints of torch.save (the command and the Python package can)";
                return Err(FormatError::request(path, what));
            }
            Format::Npy => (vec![open_npy(&file, given.from)?], Vec::new()),
            Format::Npz => open_npz(&file, given.from)?,
            Format::Raw => (vec![open_raw(&file, given)?], Vec::new()),
            Format::Onnx => {
                return Err(FormatError::format(path, "reading one tensor", format, "it is a model"));
            }
        };
        let input = Input { file, format, tensors, metadata: None, message: None, members, left_out: Vec::new() };
        input.check_patterns(given.from)?;
        Ok(input)
    }

    /// Refuses a pattern of a given type that matches no tensor.
    fn check_patterns(&self, from: &[SourceType]) -> Result<(), FormatError> {
        let names: Vec<&str> = self.tensors.iter().map(|stored| &*stored.name).collect();
        let patterns = from.iter().filter_map(|given| given.pattern.as_ref());
        check_matched("from", patterns, &names).map_err(|error| FormatError::invalid(self.path(), error.into()))
    }

    /// Compares the types of all tensors with those that the caller gave.
    ///
    /// # Errors
    /// Where a type is another, or a pattern matches no tensor.
    pub(crate) fn check_types(&self, from: &[SourceType]) -> Result<(), FormatError> {
        self.check_patterns(from)?;
        self.tensors.iter().try_for_each(|stored| check_type(self.path(), stored, from))
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// The tensor of a file of one.
    pub fn single(self, what: &'static str, from: &[SourceType]) -> Result<Input, FormatError> {
        if self.tensors.len() != 1 {
            return Err(FormatError::not_one(self.path(), self.tensors.len(), what));
        }
        self.check_types(from)?;
        Ok(self)
    }

    /// A tensor of the file that could not be cast.
    pub fn cast_error(&self, tensor: &str, error: CastError) -> FormatError {
        FormatError::cast(self.path(), tensor, error)
    }

    /// Returns the names of the companions of NVFP4 weights in a `.gguf` file, which dequantized weights do not need.
    pub(crate) fn companions(&self) -> HashSet<String> {
        let is_nvfp4 = |stored: &&StoredTensor| match &stored.place {
            Location::Blocks(blocks) => matches!(blocks.kind.held, Held::Blocks(BlockCoding::NvFp4, _)),
            _ => false,
        };
        self.tensors.iter().filter(is_nvfp4).flat_map(|stored| gguf::companions_of(&stored.name)).collect()
    }

    /// The elements of a TensorProto within the file.
    pub fn decode(&self, stored: &StoredTensor, at: u64, len: u64) -> Result<Vec<u8>, FormatError> {
        let message = self.file.read(at, len)?;
        let source = pb::parse(&message).map_err(|error| FormatError::invalid(self.path(), error))?;
        match source.data {
            ParsedData::Bytes(bytes) if Some(bytes.len()) == stored.data_type.byte_len(stored.len) => {
                Ok(bytes.into_owned())
            }
            _ => {
                let changed = io::Error::new(io::ErrorKind::InvalidData, "it changed while it was read");
                Err(FormatError::io(self.path(), "read", changed))
            }
        }
    }

    /// The elements of a tensor in Fortran order, viewed in C order; `None` of any other. If they are compressed, they
    /// are in a temporary file in a folder.
    pub(crate) fn in_c_order(&self, index: usize, folder: &Path) -> Result<Option<(InputFile, Items)>, FormatError> {
        let Some(stored) = self.tensors.get(index) else { return Ok(None) };
        let (member, at, items, size) = match &stored.place {
            Location::Fortran(member, items, size) => (Some(member), 0, *items, *size),
            Location::Array(whole) => match whole.array.fortran_items() {
                Some(size) => (whole.member.as_ref(), whole.start, Items::PLAIN, size),
                None => return Ok(None),
            },
            _ => return Ok(None),
        };
        let Some(member) = member else {
            return Ok(fortran(&self.file, at, &stored.shape, size).map(|view| (view, items)));
        };
        let failed = |error| FormatError::io(self.path(), "read", error);
        // Elements that are not compressed are read where they are, once their checksum fits.
        let mut file = if member.place().is_none() { Some(fs::tempfile_in(folder).map_err(failed)?) } else { None };
        member.with_elements(&self.file, |reader| {
            let copied = match &mut file {
                Some(file) => io::copy(reader, file),
                None => io::copy(reader, &mut io::sink()),
            };
            copied.map(drop).map_err(failed)
        })?;
        let file = file.map(|file| InputFile::temporary(self.path(), file)).transpose().map_err(failed)?;
        let (file, at) = (file.as_ref().unwrap_or(&self.file), member.place().unwrap_or(0));
        Ok(fortran(file, at, &stored.shape, size).map(|view| (view, items)))
    }

    /// Passes the strings of a tensor to a function, which asks for one after another. Anything else has none.
    ///
    /// # Errors
    /// Where the file cannot be read, or holds an invalid string.
    pub(crate) fn with_strings(
        &self,
        index: usize,
        read: &mut dyn FnMut(&mut NextString<'_>) -> Result<(), FormatError>,
    ) -> Result<(), FormatError> {
        let Some(stored) = self.tensors.get(index) else { return Ok(()) };
        let failed = |error| match error {
            StringError::Invalid(error) => FormatError::invalid(self.path(), error.of_tensor(&stored.name)),
            StringError::Read(error) => FormatError::io(self.path(), "read", error),
        };
        match &stored.place {
            Location::Strings(strings) => {
                let view = strings.view();
                let mut all = view.iter();
                read(&mut || Ok(all.next().map(<[u8]>::to_vec)))
            }
            Location::Array(whole) => {
                whole.check_read(self.path(), &stored.name)?;
                let mut each = |items: &mut dyn Read| {
                    let mut strings = whole.array.strings(items);
                    read(&mut || strings.next().map_err(failed))
                };
                if let Some((file, _)) = self.in_c_order(index, &fs::temp_dir())? {
                    return each(&mut PositionedReader::new(&file));
                }
                self.with_items(index, &mut |items| each(items))
            }
            _ => Ok(()),
        }
    }

    /// Passes the items of a whole array to a function.
    fn with_items(
        &self,
        index: usize,
        read: &mut dyn FnMut(&mut (dyn Read + Send)) -> Result<(), FormatError>,
    ) -> Result<(), FormatError> {
        match self.tensors.get(index).map(|stored| &stored.place) {
            Some(Location::Array(whole)) => match &whole.member {
                Some(member) => member.with_elements(&self.file, |items| read(items)),
                None => read(&mut PositionedReader::from(&self.file, whole.start).take(whole.bytes)),
            },
            _ => Ok(()),
        }
    }

    /// Whether two whole arrays of one length have the same bytes.
    pub(crate) fn has_items_of(&self, index: usize, (other, j): (&Input, usize)) -> Result<bool, FormatError> {
        let mut same = true;
        self.with_items(index, &mut |ours| {
            other.with_items(j, &mut |theirs| {
                let failed = |input: &Input, error| FormatError::io(input.path(), "read", error);
                let (mut first, mut second) = ([0; 8192], [0; 8192]);
                loop {
                    let len = ours.read(&mut first).map_err(|error| failed(self, error))?;
                    if len == 0 {
                        return Ok(());
                    }
                    theirs.read_exact(&mut second[..len]).map_err(|error| failed(other, error))?;
                    same &= first[..len] == second[..len];
                }
            })
        })?;
        Ok(same)
    }

    /// All strings of a tensor.
    ///
    /// # Errors
    /// As [`Input::with_strings`], and where there is no memory for them.
    pub(crate) fn strings(&self, index: usize) -> Result<Strings, FormatError> {
        let (mut strings, mut bytes, mut room) = (Strings::new(), 0, 0);
        self.with_strings(index, &mut |next| {
            while let Some(string) = next()? {
                // `push` ends the process if there is no memory. Its vectors at most double.
                bytes += string.len() + size_of::<u64>();
                if bytes > room {
                    room = 2 * bytes;
                    room_for(2 * room).map_err(|error| FormatError::io(self.path(), "read", error))?;
                }
                strings.push(&string);
            }
            Ok(())
        })?;
        Ok(strings)
    }

    /// A tensor with all of its elements, which are then no longer here if they were.
    pub fn take(&mut self, index: usize) -> Result<ParsedTensor<'static>, FormatError> {
        let place = match self.tensors.get(index).map(|stored| &stored.place) {
            Some(Location::Array(_)) => Some(Location::Strings(self.strings(index)?)),
            Some(Location::Fortran(..)) => {
                let ordered = self.in_c_order(index, &fs::temp_dir())?;
                ordered.map(|(file, items)| Location::Other(Arc::new(file), 0, items))
            }
            _ => None,
        };
        if let (Some(stored), Some(place)) = (self.tensors.get_mut(index), place) {
            stored.place = place;
        }
        let Some(stored) = self.tensors.get_mut(index) else {
            return Err(FormatError::not_one(self.path(), index, "this"));
        };
        let (name, data_type, shape) = (stored.name.clone(), stored.data_type, stored.shape.clone());
        let too_large = || {
            let error = TensorErrorKind::TooLarge { data_type, shape: shape.clone() };
            FormatError::cast(self.file.path(), &name, error.into())
        };
        let len = |items: Items| items.byte_len(data_type, stored.len).map(|len| len as u64).ok_or_else(too_large);
        let (mut bytes, items) = match std::mem::replace(&mut stored.place, Location::Memory(Vec::new())) {
            Location::Memory(bytes) => (bytes, Items::PLAIN),
            Location::Strings(strings) => {
                return Ok(ParsedTensor { data: ParsedData::Strings(strings), name, data_type, shape });
            }
            Location::File(at, items) => (self.file.read(at, len(items)?)?, items),
            Location::Blocks(blocks) => {
                let what = format!("{} is quantized (dequantize it first)", blocks.kind.name);
                let error = Invalid::new(InvalidKind::Type, what).of_tensor(&name);
                return Err(FormatError::invalid(self.file.path(), error));
            }
            Location::Other(file, at, items) => (file.read(at, len(items)?)?, items),
            Location::Member(member, items) => {
                let mut bytes = Vec::new();
                member.with_elements(&self.file, |reader| {
                    let read = reader.read_to_end(&mut bytes);
                    read.map(drop).map_err(|error| FormatError::io(self.file.path(), "read", error))
                })?;
                (bytes, items)
            }
            // Unreachable: replaced above; models use another reader.
            Location::Fortran(..) | Location::Message(..) | Location::Array(_) => return Err(too_large()),
        };
        let mut packed = Vec::new();
        items.decode(data_type, stored.len, &mut bytes, &mut packed).ok_or_else(too_large)?;
        let bytes = if items.unpacked { packed } else { bytes };
        Ok(ParsedTensor { data: ParsedData::Bytes(Cow::Owned(bytes)), name, data_type, shape })
    }
}

/// Asks for the next string, until there is none.
pub(crate) type NextString<'r> = dyn FnMut() -> Result<Option<Vec<u8>>, FormatError> + 'r;

/// Compares the type of a tensor with the one that the caller gave.
pub(crate) fn check_type(path: &Path, stored: &StoredTensor, from: &[SourceType]) -> Result<(), FormatError> {
    match SourceType::of(from, &stored.name) {
        Some(want) if want != stored.data_type => {
            let what = format!("{}, not {want} as asked", stored.data_type);
            Err(FormatError::invalid(path, Invalid::new(InvalidKind::Type, what).of_tensor(&stored.name)))
        }
        _ => Ok(()),
    }
}

impl WholeArray {
    /// Refuses to read the elements of a foreign array.
    pub(crate) fn check_read(&self, path: &Path, tensor: &str) -> Result<(), FormatError> {
        match self.array.foreign() {
            Some((_, why)) => Err(FormatError::invalid(path, why.clone().of_tensor(tensor))),
            None => Ok(()),
        }
    }
}

impl StoredTensor {
    /// Bytes of the elements, packed as ONNX packs them; of strings, the bytes of their text, or of their items in an
    /// array; of blocks, theirs.
    pub fn bytes(&self) -> u64 {
        match &self.place {
            Location::Blocks(blocks) => blocks.kind.byte_len(self.len).unwrap_or(0),
            _ => self.work(),
        }
    }

    /// Bytes of the elements as they are worked on: as [`StoredTensor::bytes`], but of blocks the values.
    pub(crate) fn work(&self) -> u64 {
        let len = match &self.place {
            Location::Strings(strings) => Some(strings.view().bytes().len()),
            Location::Array(whole) => return whole.bytes,
            _ => self.data_type.byte_len(self.len),
        };
        len.unwrap_or(0) as u64
    }

    /// The type that numpy has for the elements of an array, and why they are not read, if ONNX lacks that type.
    pub(crate) fn foreign(&self) -> Option<(&str, &Invalid)> {
        match &self.place {
            Location::Array(whole) => whole.array.foreign(),
            _ => None,
        }
    }

    /// The name of the type of blocks, where the elements stand in such.
    pub fn block_type(&self) -> Option<&'static str> {
        match &self.place {
            Location::Blocks(blocks) => Some(blocks.kind.name),
            _ => None,
        }
    }

    /// Of a tensor that has been read.
    fn of(source: ParsedTensor<'_>, len: usize) -> StoredTensor {
        let place = match source.data {
            ParsedData::Bytes(bytes) => Location::Memory(bytes.into_owned()),
            ParsedData::Strings(strings) => Location::Strings(strings),
        };
        StoredTensor { name: source.name, data_type: source.data_type, shape: source.shape, len, place }
    }
}

fn open_safetensors(file: InputFile) -> Result<Input, FormatError> {
    let wrong = |error| FormatError::invalid(file.path(), error);
    let place = safetensors::header_place(&file.prefix(safetensors::PREFIX)?, file.len()).map_err(wrong)?;
    let header = file.read(place.start as u64, place.len() as u64)?;
    let start = place.end as u64;
    let FileHead { entries, metadata } = FileHead::parse(&header, file.len() - start).map_err(wrong)?;
    let stored = |entry: Entry| StoredTensor {
        // The header's check has counted them.
        len: element_count(&entry.shape).unwrap_or(0),
        place: Location::File(start + entry.start, Items::PLAIN),
        name: entry.name,
        data_type: entry.data_type,
        shape: entry.shape,
    };
    let tensors = entries.into_iter().map(stored).collect();
    Ok(Input {
        file,
        format: Format::Safetensors,
        tensors,
        metadata,
        message: None,
        members: Vec::new(),
        left_out: Vec::new(),
    })
}

fn open_gguf(file: InputFile) -> Result<Input, FormatError> {
    let gguf::FileHead { entries, metadata, .. } = gguf::FileHead::read(&file)?;
    let stored = |entry: gguf::Entry| {
        let gguf::Entry { name, shape, kind, id, len, at, scales } = entry;
        let (data_type, place) = match kind.held {
            Held::Plain(data_type) => (data_type, Location::File(at, Items::PLAIN)),
            Held::Blocks(..) | Held::Unread => (DataType::Float, Location::Blocks(Blocks { at, kind, id, scales })),
        };
        StoredTensor { name, data_type, shape, len, place }
    };
    let tensors = entries.into_iter().map(stored).collect();
    Ok(Input {
        file,
        format: Format::Gguf,
        tensors,
        metadata: Some(metadata),
        message: None,
        members: Vec::new(),
        left_out: Vec::new(),
    })
}

fn open_torch(file: InputFile) -> Result<Input, FormatError> {
    let (entries, left_out) = torch::read(&file)?;
    let stored = |torch::Entry { name, data_type, shape, len, place }| {
        let place = match place {
            Place::Nowhere => Location::Memory(Vec::new()),
            Place::At(at) => Location::File(at, Items::PLAIN),
            Place::In(file, at) => Location::Other(file, at, Items::PLAIN),
        };
        StoredTensor { name, data_type, shape, len, place }
    };
    let tensors = entries.into_iter().map(stored).collect();
    // Libraries expect this entry in .safetensors files.
    let metadata = Some(vec![("format".to_owned(), "pt".to_owned())]);
    Ok(Input { file, format: Format::Torch, tensors, metadata, message: None, members: Vec::new(), left_out })
}

/// Views the items of an array in Fortran order, which begin at `at`, in C order; `None` if their size overflows.
fn fortran(file: &InputFile, at: u64, shape: &[usize], size: usize) -> Option<InputFile> {
    let shape: Vec<u64> = shape.iter().map(|&dim| dim as u64).collect();
    let stride = |stride: &mut u64, dim: &u64| Some(std::mem::replace(stride, stride.saturating_mul(*dim)));
    let strides: Vec<u64> = shape.iter().scan(1, stride).collect();
    Strided::new(file.clone(), at, size, 1, &shape, &strides).into_file()
}

fn open_npy(file: &InputFile, from: &[SourceType]) -> Result<StoredTensor, FormatError> {
    let array = ArrayIn { file, name: "", member: None, len: file.len() };
    array.open(&mut PositionedReader::new(file), SourceType::of(from, ""))
}

fn open_npz(file: &InputFile, from: &[SourceType]) -> Result<(Vec<StoredTensor>, Vec<Member>), FormatError> {
    let stored = |member: &Member| {
        let Some(name) = member.array_name() else {
            let (array, member, bytes) = (Array::none(), Some(member.clone()), member.len);
            let name = member.as_ref().map_or(String::new(), |member| member.file_name.clone());
            let place = Location::Array(Box::new(WholeArray { member, start: 0, bytes, array }));
            return Ok(StoredTensor { name, data_type: DataType::String, shape: Vec::new(), len: 1, place });
        };
        let array = ArrayIn { file, name, member: Some(member), len: member.len };
        member.with_array(file, |reader| array.open(reader, SourceType::of(from, name)))
    };
    let members = npz::members(file)?;
    Ok((members.iter().map(stored).collect::<Result<_, _>>()?, members))
}

/// An array of `len` bytes in a file.
struct ArrayIn<'a> {
    file: &'a InputFile,
    name: &'a str,
    member: Option<&'a Member>,
    len: u64,
}

impl ArrayIn<'_> {
    /// Reads the header.
    fn open(&self, reader: &mut dyn Read, from: Option<DataType>) -> Result<StoredTensor, FormatError> {
        let wrong = |error: Invalid| FormatError::invalid(self.file.path(), error.of_tensor(self.name));
        let mut read = |len: u64, bytes: &mut Vec<u8>| {
            // What is there is read, and nothing allocated for what is not.
            let read = reader.take(len).read_to_end(bytes);
            read.map(drop).map_err(|error| FormatError::io(self.file.path(), "read", error))
        };
        let mut header = Vec::new();
        read(npy::PREFIX as u64, &mut header)?;
        let place = npy::header_place(&header).map_err(wrong)?;
        let start = place.end as u64;
        if start > self.len {
            return Err(wrong(npy::truncated()));
        }
        if place.len() > MAX_NPY_HEADER {
            return Err(wrong(npy::invalid_header("more than 1 MiB of it")));
        }
        // No header is empty: a version 1 file is longer than the prefix, or has none.
        read(start.saturating_sub(header.len() as u64), &mut header)?;
        let text = header.get(place).ok_or_else(|| wrong(npy::truncated()))?;
        let bytes = self.len - start;
        let array = Array::parse(text, bytes, from).map_err(|mut error| {
            if self.member.is_some() && from.is_some() && error.kind == InvalidKind::Type {
                error.what = error.what.then(" (").field("from", " PATTERN=TYPE gives the type of some arrays alone)");
            }
            wrong(error)
        })?;
        let (name, data_type, shape, len) = (self.name.to_owned(), array.data_type(), array.shape.clone(), array.len);
        let member = self.member.map(|member| member.clone().starting_at(start));
        let at = if member.is_some() { 0 } else { start };
        let place = match (array.items(), array.fortran_items(), member) {
            (Some(items), Some(size), Some(member)) => Location::Fortran(member, items, size),
            (Some(items), Some(size), None) => {
                let view = fortran(self.file, start, &shape, size);
                let view = view.ok_or_else(|| wrong(Invalid::too_large(data_type, &shape)))?;
                Location::Other(Arc::new(view), 0, items)
            }
            (Some(items), None, Some(member)) => Location::Member(member, items),
            (Some(items), None, None) => Location::File(start, items),
            (None, _, member) => Location::Array(Box::new(WholeArray { member, start: at, bytes, array })),
        };
        Ok(StoredTensor { name, data_type, shape, len, place })
    }
}

fn open_raw(file: &InputFile, given: &Given<'_>) -> Result<StoredTensor, FormatError> {
    let path = file.path();
    refuse_foreign_to_raw(file)?;
    let data_type = SourceType::of(given.from, "").ok_or_else(|| {
        let what = Wording::from("raw bytes have no element type (");
        FormatError::request(path, what.field("from", " gives it)"))
    })?;
    let wrong = |of: &dyn fmt::Display, want: &dyn fmt::Display| {
        let what = format!("{} of {of} (want {want})", Count(file.len(), "byte"));
        FormatError::invalid(path, Invalid::new(InvalidKind::Size, what))
    };
    let bits = data_type.bits().ok_or_else(|| wrong(&data_type, &"numbers"))? as u64;
    let shape = match given.shape {
        Some(shape) => shape.to_vec(),
        None => {
            let least = (1..=bits).find(|bytes| (8 * bytes).is_multiple_of(bits)).unwrap_or(bits);
            let len = file.len().checked_mul(8).filter(|all| all.is_multiple_of(bits)).map(|all| all / bits);
            let uneven = || wrong(&data_type, &format_args!("a multiple of {least}"));
            vec![len.and_then(|len| usize::try_from(len).ok()).ok_or_else(uneven)?]
        }
    };
    let too_large = || FormatError::invalid(path, Invalid::too_large(data_type, &shape));
    let len = element_count(&shape).ok_or_else(too_large)?;
    let want = data_type.byte_len(len).ok_or_else(too_large)?;
    if want as u64 != file.len() {
        return Err(wrong(&format_args!("{} {data_type}", ShapeText(&shape)), &want));
    }
    Ok(StoredTensor { name: String::new(), data_type, shape, len, place: Location::File(0, Items::PLAIN) })
}

fn open_pb(file: InputFile) -> Result<Input, FormatError> {
    let wrong = |error| FormatError::invalid(file.path(), error);
    let outline = pb::outline(&file)?;
    let (name, head, storage) = pb::checked(&outline.bytes).map_err(wrong)?;
    let left = match storage {
        Storage::Bytes(Some(field)) if matches!(field.value, FieldValue::Left(_)) => outline.value_at(&field),
        _ => None,
    };
    let stored = match left {
        Some(at) => {
            let place = Location::File(at, Items::PLAIN);
            StoredTensor { name, data_type: head.data_type, len: head.len, shape: head.shape, place }
        }
        None => StoredTensor::of(pb::parse(&outline.bytes).map_err(wrong)?, head.len),
    };
    let message = Some(outline.bytes);
    Ok(Input {
        file,
        format: Format::TensorProto,
        tensors: vec![stored],
        metadata: None,
        message,
        members: Vec::new(),
        left_out: Vec::new(),
    })
}
