//! External data: elements that a TensorProto has in another file (onnx.proto, `TensorProto.external_data`).
//!
//! A location is a path relative to the model's folder. It may not leave that folder, by its text or by a link, since a
//! model from elsewhere could then have any file of this machine copied into its output. In huggingface_hub's cache it
//! may be a link to one of the files that the cache has of the model's repository.

use crate::error::{ModelError, ModelErrorKind};
use crate::rope::{CastElements, ElementSource, Message};
use crate::source::IN_MEMORY;
use crate::tree::utf8;
use onnx_cast::__private::Count;
use onnx_cast::DataType;
use onnx_cast_file::__private::onnx::{entry, tensor};
use onnx_cast_file::__private::outline::{Backing, Outline};
use onnx_cast_file::__private::pb::{self, Storage};
use onnx_cast_file::__private::wire::{FieldValue, all_bytes, last};
use onnx_cast_file::__private::{ParsedTensor, Short, TensorText, folder_of, fs, links, refuse_foreign};
use onnx_cast_file::{Format, FormatError, InputFile, Invalid, IoError, Wording};
use std::collections::HashMap;
use std::fmt;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// The location of elements that are in the model that another one was made of. No file is named so.
pub(crate) const ITSELF: &str = "\0";

/// The entries of `external_data` that are read.
struct Reference {
    location: String,
    offset: u64,
    length: Option<u64>,
}

impl Reference {
    fn read(message: &[u8]) -> Result<Reference, ModelError> {
        let (mut location, mut offset, mut length) = (None, 0, None);
        for bytes in all_bytes(message, tensor::EXTERNAL_DATA) {
            let bytes = bytes?;
            let key = last(bytes, entry::KEY, FieldValue::bytes)?.unwrap_or_default();
            let value = utf8(last(bytes, entry::VALUE, FieldValue::bytes)?.unwrap_or_default())?;
            let number = |key| {
                let wrong = |_| refused(format!("{key} `{}` of external data is not a number", Short(value)));
                value.parse().map_err(wrong)
            };
            match key {
                b"location" => location = Some(value.to_owned()),
                b"offset" => offset = number("offset")?,
                b"length" => length = Some(number("length")?),
                _ => {}
            }
        }
        let location = location.ok_or_else(no_location)?;
        Ok(Reference { location, offset, length })
    }
}

/// A reference that is invalid, or that leads to no elements.
fn refused(what: impl Into<Wording>) -> ModelError {
    ModelError::new(ModelErrorKind::ExternalData, what)
}

fn no_location() -> ModelError {
    refused("external data without a location")
}

/// The same error, which names the tensor if it is about what that refers to.
fn of_tensor(error: ModelError, message: &[u8]) -> ModelError {
    if error.kind != ModelErrorKind::ExternalData {
        return error;
    }
    let name = tensor_name(message);
    ModelError { what: error.what.after(TensorText(&name)), name, ..error }
}

/// A tensor's name for an error.
pub(crate) fn tensor_name(message: &[u8]) -> String {
    let name = last(message, tensor::NAME, FieldValue::bytes).ok().flatten().unwrap_or_default();
    String::from_utf8_lossy(name).into_owned()
}

/// Where the elements of a model are: its own file, and its files of external data, each opened once.
pub(crate) struct Files<'a> {
    pub(crate) outline: &'a Outline<'a>,
    /// What a model refers to as itself, where that is another one: the model that it was made of.
    itself: Option<Backing<'a>>,
    by_location: HashMap<String, Arc<InputFile>>,
    /// Where they are, links resolved.
    pub(crate) paths: Vec<PathBuf>,
}

impl fmt::Debug for Files<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Files").field("paths", &self.paths).finish()
    }
}

impl<'a> Files<'a> {
    /// Opens every file that the tensors of a model refer to; each tensor is a message and whether it is a part of a
    /// sparse one. A model in memory has no folder, so it may not refer to other files.
    pub(crate) fn open(outline: &'a Outline<'a>, tensors: &[(&[u8], bool)]) -> Result<Self, ModelError> {
        let mut files = Files { outline, itself: None, by_location: HashMap::new(), paths: Vec::new() };
        for &(message, sparse) in tensors {
            if !is_external(message) {
                continue;
            }
            let opened = match outline.backing {
                Backing::Memory(_) => {
                    let what = Wording::from("its elements are in another file, and a model in memory has no folder (");
                    Err(refused(what.field("base_dir", " names it)")))
                }
                Backing::File(_) if sparse => Err(refused("a sparse tensor in external data, which is not supported")),
                Backing::File(model) => Reference::read(message)
                    .and_then(|reference| files.open_at(folder_of(model.path()), &reference.location)),
            };
            opened.map_err(|error| of_tensor(error, message))?;
        }
        Ok(files)
    }

    /// The same files, for a model that was made of theirs and refers to its elements.
    pub(crate) fn of_made(&self, outline: &'a Outline<'a>) -> Self {
        let (by_location, paths) = (self.by_location.clone(), self.paths.clone());
        Files { outline, itself: Some(self.outline.backing), by_location, paths }
    }

    /// The file that the model was read from, unless it is in memory.
    pub(crate) fn file(&self) -> Option<&'a InputFile> {
        match self.itself.unwrap_or(self.outline.backing) {
            Backing::File(file) => Some(file),
            Backing::Memory(_) => None,
        }
    }

    /// The path of that file; of a model in memory, what errors call it.
    pub(crate) fn path(&self) -> &'a Path {
        self.file().map_or(Path::new(IN_MEMORY), InputFile::path)
    }

    /// Refuses files that may be those of another model: one that has taken the place of this one meanwhile.
    pub(crate) fn check_current(&self) -> Result<(), IoError> {
        match self.file() {
            Some(model) if !self.paths.is_empty() && model.is_replaced() => {
                let what = "another process has replaced it meanwhile (run it again)";
                Err(IoError::new(model.path(), "read", io::Error::new(io::ErrorKind::Interrupted, what)))
            }
            _ => Ok(()),
        }
    }

    fn open_at(&mut self, folder: &Path, location: &str) -> Result<(), ModelError> {
        if self.by_location.contains_key(location) {
            return Ok(());
        }
        let at = |what: &str| refused(format!("external data at `{}`{what}", Short(location)));
        let relative = Path::new(location);
        let plain = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
        if !relative.components().all(plain) || !relative.components().any(|part| part != Component::CurDir) {
            return Err(at(" (want a path relative to the model's folder, without `..`)"));
        }
        let refuse = |error: io::Error| {
            let system = error.raw_os_error().map(|number| (folder.join(relative), number));
            ModelError { system, ..at(&format!(" cannot be read: {error}")) }
        };
        let Some(path) = links::resolved(folder, &folder.join(relative)).map_err(refuse)? else {
            return Err(at(", a symlink out of the model's folder (put the file itself beside the model)"));
        };
        if !fs::metadata(&path).map_err(refuse)?.is_file() {
            return Err(refuse(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")));
        }
        let file = InputFile::open(&path).map_err(|error| refuse(error.error))?;
        if let Err(FormatError::Invalid { error, .. }) = refuse_foreign(&file, Some(Format::Raw)) {
            return Err(at(&format!(" is {}", error.what)));
        }
        self.by_location.insert(location.to_owned(), Arc::new(file));
        if !self.paths.contains(&path) {
            self.paths.push(path);
        }
        Ok(())
    }

    /// The elements of a tensor, wherever they are. `None` for strings.
    pub(crate) fn elements(&'a self, message: &'a [u8]) -> Result<Option<CastElements<'a>>, ModelError> {
        let invalid = |error: Invalid| invalid(error.of_tensor(&tensor_name(message)));
        let head = pb::head(message).map_err(invalid)?;
        let (from, len) = (head.data_type, head.len);
        let stored = if head.external {
            self.external(message, &head).map_err(|error| of_tensor(error, message))?
        } else {
            match head.storage().map_err(invalid)? {
                _ if from == DataType::String => return Ok(None),
                Storage::Bytes(None) => ElementSource::Owned([].into()),
                Storage::Bytes(Some(field)) => match (self.outline.value_at(&field), field.value) {
                    (Some(at), _) => ElementSource::Model(self.outline.backing, at),
                    (None, value) => ElementSource::Owned(value.bytes().unwrap_or_default().into()),
                },
                Storage::Encoded => {
                    // Read once to know that it can be read, which is what the length that is written rests on.
                    self.tensor(message, |_| ())?;
                    ElementSource::Message(Message { outline: self.outline, message })
                }
            }
        };
        Ok(Some(CastElements::new(stored, from, len)))
    }

    /// Reads a tensor whole.
    pub(crate) fn tensor<R>(&self, message: &[u8], take: impl FnOnce(ParsedTensor<'_>) -> R) -> Result<R, ModelError> {
        let whole = self.outline.whole(message).map_err(ModelError::unread)?;
        pb::parse(&whole).map(take).map_err(invalid)
    }

    fn external(&'a self, message: &'a [u8], head: &pb::TensorHead<'_>) -> Result<ElementSource<'a>, ModelError> {
        let data_type = head.data_type;
        let want = data_type.byte_len(head.len).ok_or_else(|| refused("strings in external data"))? as u64;
        let Reference { location, offset, length } = Reference::read(message)?;
        if let Some(got) = length
            && got != want
        {
            let what = format!("{} of external data for {data_type} (type and shape want {want})", Count(got, "byte"));
            return Err(refused(what));
        }
        if let (Some(itself), ITSELF) = (self.itself, &*location) {
            return Ok(ElementSource::Model(itself, offset));
        }
        let file = self.by_location.get(&location).ok_or_else(no_location)?;
        let size = file.len();
        if offset.checked_add(want).is_none_or(|end| end > size) {
            let what = format!("has {} (want {want} from {offset} on)", Count(size, "byte"));
            return Err(refused(format!("external data at `{}` {what}", Short(&location))));
        }
        Ok(ElementSource::File(file, offset))
    }
}

fn invalid(error: Invalid) -> ModelError {
    ModelError::tensor("constant", error)
}

/// Whether a TensorProto has its elements in a file of their own, beside the model.
pub(crate) fn is_beside(message: &[u8]) -> bool {
    is_external(message) && Reference::read(message).is_ok_and(|reference| reference.location != ITSELF)
}

/// Whether a TensorProto has its elements elsewhere.
pub(crate) fn is_external(message: &[u8]) -> bool {
    last(message, tensor::DATA_LOCATION, FieldValue::varint).is_ok_and(|location| location == Some(1))
}
