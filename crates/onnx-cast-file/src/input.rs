//! A file of tensors, opened: what its header says, and where the elements stand. They are left in the file, but for
//! those that only come out of it as a whole: strings, Fortran order, the fields of a TensorProto other than `raw_data`.

use crate::error::FileError;
use crate::format::Format;
use crate::npy::{self, Array, NpyError};
use crate::pb::{self, Outline};
use crate::positional::InputFile;
use crate::safetensors::{self, Entry, Head};
use crate::source::{Items, Source, SourceData};
use onnx_cast::{CastError, DataType, Strings, TensorError, element_count};
use std::borrow::Cow;
use std::path::Path;

/// A file of tensors.
#[derive(Debug)]
pub(crate) struct Input {
    pub(crate) file: InputFile,
    pub(crate) format: Format,
    /// In the order of the file.
    pub(crate) tensors: Vec<Stored>,
    /// Of `.safetensors`.
    pub(crate) metadata: Option<Vec<(String, String)>>,
    /// The TensorProto that a `.pb` file is, its elements left out.
    pub(crate) message: Option<Vec<u8>>,
}

/// A tensor of a file.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) name: String,
    pub(crate) data_type: DataType,
    pub(crate) shape: Vec<usize>,
    /// Number of elements.
    pub(crate) len: usize,
    pub(crate) place: Place,
}

/// Where elements are.
#[derive(Debug)]
pub(crate) enum Place {
    /// In the file, from this byte on.
    File(u64, Items),
    /// Here, as this library has them.
    Memory(Vec<u8>),
    /// Here.
    Strings(Strings),
}

/// The most that numpy's own writer makes of a header is a few hundred bytes; more than this is nobody's shape.
const MAX_NPY_HEADER: usize = 1 << 20;

impl Input {
    /// Opens a file; `from` is the type of a `.npy` file's elements where the file does not tell it, and must be that of
    /// the tensor of any other file of one.
    pub(crate) fn open(path: &Path, format: Format, from: Option<DataType>) -> Result<Input, FileError> {
        if format == Format::Onnx {
            let (what, hint) = ("reading one tensor", "it is a model");
            return Err(FileError::Format { path: path.to_owned(), what, format, hint });
        }
        let file = InputFile::open(path)?;
        match format {
            Format::Safetensors => open_safetensors(file),
            Format::Npy => {
                let stored = open_npy(&file, from)?;
                Ok(Input { file, format, tensors: vec![stored], metadata: None, message: None })
            }
            Format::TensorProto | Format::Onnx => open_pb(file),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        self.file.path()
    }

    /// The tensor of a file of one.
    pub(crate) fn single(mut self, what: &'static str, from: Option<DataType>) -> Result<Input, FileError> {
        if self.tensors.len() != 1 {
            return Err(FileError::TensorCount { path: self.path().to_owned(), count: self.tensors.len(), what });
        }
        if let Some(stored) = self.tensors.first_mut() {
            check_type(self.file.path(), stored, from)?;
        }
        Ok(self)
    }

    pub(crate) fn cast_error(&self, tensor: &str, error: CastError) -> FileError {
        FileError::cast(self.path(), tensor, error)
    }

    /// A tensor with all of its elements, which are then no longer here if they were.
    pub(crate) fn take(&mut self, index: usize) -> Result<Source<'static>, FileError> {
        let Some(stored) = self.tensors.get_mut(index) else {
            return Err(FileError::TensorCount { path: self.path().to_owned(), count: index, what: "this" });
        };
        let (name, data_type, shape) = (stored.name.clone(), stored.data_type, stored.shape.clone());
        let data = match std::mem::replace(&mut stored.place, Place::Memory(Vec::new())) {
            Place::Memory(bytes) => SourceData::Bytes(Cow::Owned(bytes)),
            Place::Strings(strings) => SourceData::Strings(strings),
            Place::File(at, items) => {
                let too_large = || {
                    let error = TensorError::TooLarge { data_type, shape: shape.clone() };
                    FileError::cast(self.file.path(), &name, error.into())
                };
                let len = items.byte_len(data_type, stored.len).ok_or_else(too_large)?;
                let mut bytes = self.file.read(at, len as u64)?;
                let mut packed = Vec::new();
                items.decode(data_type, stored.len, &mut bytes, &mut packed).ok_or_else(too_large)?;
                SourceData::Bytes(Cow::Owned(if items.unpacked { packed } else { bytes }))
            }
        };
        Ok(Source { name, data_type, shape, data })
    }
}

/// Holds the type that the caller gave against the file's.
pub(crate) fn check_type(path: &Path, stored: &Stored, want: Option<DataType>) -> Result<(), FileError> {
    match want {
        Some(want) if want != stored.data_type => {
            let (path, tensor, got) = (path.to_owned(), stored.name.clone(), stored.data_type);
            Err(FileError::InputType { path, tensor, got, want })
        }
        _ => Ok(()),
    }
}

impl Stored {
    /// Of a tensor that has been read.
    fn of(source: Source<'_>, len: usize) -> Stored {
        let place = match source.data {
            SourceData::Bytes(bytes) => Place::Memory(bytes.into_owned()),
            SourceData::Strings(strings) => Place::Strings(strings),
        };
        Stored { name: source.name, data_type: source.data_type, shape: source.shape, len, place }
    }
}

fn open_safetensors(file: InputFile) -> Result<Input, FileError> {
    let wrong = |error| FileError::safetensors(file.path(), error);
    let place = safetensors::header_place(&file.prefix(safetensors::PREFIX)?, file.len()).map_err(wrong)?;
    let header = file.read(place.start as u64, place.len() as u64)?;
    let start = place.end as u64;
    let Head { entries, metadata } = Head::parse(&header, file.len() - start).map_err(wrong)?;
    let stored = |entry: Entry| Stored {
        // The header's check has counted them.
        len: element_count(&entry.shape).unwrap_or(0),
        place: Place::File(start + entry.start, Items::PLAIN),
        name: entry.name,
        data_type: entry.data_type,
        shape: entry.shape,
    };
    let tensors = entries.into_iter().map(stored).collect();
    Ok(Input { file, format: Format::Safetensors, tensors, metadata, message: None })
}

fn open_npy(file: &InputFile, from: Option<DataType>) -> Result<Stored, FileError> {
    let wrong = |error| FileError::npy(file.path(), error);
    let place = npy::header_place(&file.prefix(npy::PREFIX)?).map_err(wrong)?;
    let start = place.end as u64;
    if start > file.len() {
        return Err(wrong(NpyError::Truncated));
    }
    if place.len() > MAX_NPY_HEADER {
        return Err(wrong(NpyError::Header { what: "more than 1 MiB of it" }));
    }
    let header = file.read(place.start as u64, place.len() as u64)?;
    let body = file.len() - start;
    let array = Array::parse(&header, body, from).map_err(wrong)?;
    if let Some(items) = array.items() {
        let data_type = array.data_type();
        let Array { shape, len, .. } = array;
        return Ok(Stored { name: String::new(), data_type, shape, len, place: Place::File(start, items) });
    }
    let bytes = file.read(start, body)?;
    let data = array.decode(Cow::Owned(bytes)).map_err(wrong)?;
    let (data_type, len) = (array.data_type(), array.len);
    Ok(Stored::of(Source { name: String::new(), data_type, shape: array.shape, data }, len))
}

fn open_pb(file: InputFile) -> Result<Input, FileError> {
    let wrong = |error| FileError::pb(file.path(), error);
    let Outline { message, raw } = pb::outline(&file)?;
    let stored = match raw {
        Some((at, len)) => {
            let (name, head) = pb::head_of_outline(&message, len).map_err(wrong)?;
            let place = Place::File(at, Items::PLAIN);
            Stored { name, data_type: head.data_type, len: head.len, shape: head.shape, place }
        }
        None => {
            let source = pb::parse(&message).map_err(wrong)?;
            let len = element_count(&source.shape).unwrap_or(0);
            Stored::of(source, len)
        }
    };
    Ok(Input { file, format: Format::TensorProto, tensors: vec![stored], metadata: None, message: Some(message) })
}
