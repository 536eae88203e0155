//! Checkpoints that `torch.save` wrote: a pickle that describes tensors, and storages with their elements. Since torch
//! 1.6 the file has been a zip archive with the members `data.pkl`, `data/KEY` and `byteorder`. Older files are a
//! sequence of pickles (a magic number, a version, system information, the object, the keys of the storages) followed
//! by the storages. Each storage begins with its number of elements.
//!
//! `pickle.rs` reads the pickle without executing anything. This module names each tensor by its path of keys, as state
//! dictionaries do, and locates its elements in the file without loading them.

mod call;
mod pickle;
mod values;

use crate::formats::error::{FormatError, Invalid, InvalidKind};
use crate::formats::format::{Format, TORCH_BEGINNING as BEGINNING, TORCH_PICKLE as PICKLE};
use crate::formats::limits::MAX_HEADER;
use crate::formats::npz::{self, Member};
use crate::formats::strided::Strided;
use crate::io::fs;
use crate::io::positional::InputFile;
use crate::text::{Count, ShapeText, Short, named};
use onnx_cast::DataType;
use onnx_cast::tensor::element_count;
use pickle::{Bytes, MAX_VALUES};
use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::Arc;
use values::{Id, Value, Values, View};

/// Keys under which a training checkpoint stores its weights, next to other entries such as the optimizer's state.
const WEIGHTS: [&str; 4] = ["state_dict", "model_state_dict", "model", "module"];
/// Attributes in which a module stores its parameters, buffers and submodules.
const MODULE: [&str; 3] = ["_parameters", "_buffers", "_modules"];
/// Attribute with the names of the buffers that state dictionaries omit.
const NOT_SAVED: &str = "_non_persistent_buffers_set";
/// Prefix of TorchScript class names. The state of a TorchScript object contains only its attributes.
const SCRIPT: &str = "__torch__.";

/// Max nesting depth of containers, and max number of dimensions of a tensor.
const MAX_DEPTH: usize = 64;
/// Tensors may share or repeat elements. The total size of all tensors is limited to this multiple of the file size
/// plus 1 GiB, far above what any real model needs.
const MAX_REPEATED: u64 = 64;
const GIB: u64 = 1 << 30;

/// A tensor of a file.
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) data_type: DataType,
    pub(crate) shape: Vec<usize>,
    /// Number of elements.
    pub(crate) len: usize,
    pub(crate) place: Place,
}

/// Location of a tensor's elements.
pub(crate) enum Place {
    /// The tensor has no elements.
    Nowhere,
    /// Contiguous elements at this offset in the file.
    At(u64),
    /// Elements from this offset on in another file: a view, or a decompressed archive. Tensors with the same elements
    /// share it.
    In(Arc<InputFile>, u64),
}

/// The tensors of a file, and the names of its other values, each with the reason why it is skipped.
pub(crate) type Contents = (Vec<Entry>, Vec<(String, String)>);

/// Reads the tensors of a file of either form, without their elements.
pub(crate) fn read(file: &InputFile) -> Result<Contents, FormatError> {
    let beginning = file.prefix(2 * BEGINNING)?;
    if beginning.starts_with(b"PK") {
        return read_archive(file);
    }
    if Format::by_content(&beginning) == Some(Format::Torch) {
        return read_old(file);
    }
    let is_tar = beginning.get(257..262) == Some(b"ustar");
    let what = match (is_tar, beginning.starts_with(b"\x80")) {
        (true, _) => "a tar archive, as torch 0.1 wrote it (load it with an old torch and save it again)",
        (_, true) => "a pickle that torch.save did not write (save the tensors by torch.save)",
        _ => "not a file of torch.save (want a zip archive, or a pickle that begins with torch's magic number)",
    };
    Err(FormatError::invalid(file.path(), Invalid::new(InvalidKind::Syntax, what)))
}

/// Offset and number of bytes of each storage or archive member, by name.
type Places<'n> = HashMap<&'n str, (u64, u64)>;

fn read_archive(file: &InputFile) -> Result<Contents, FormatError> {
    let invalid = |kind, what: String| FormatError::invalid(file.path(), Invalid::new(kind, what));
    let members = npz::entries(file)?;
    let unpacked =
        if members.iter().any(|member| member.place().is_none()) { Some(unpack(file, &members)?) } else { None };
    let (source, mut end) = (unpacked.as_ref().unwrap_or(file), 0);
    let place = |member: &Member| {
        let at = end;
        end += member.len;
        (if unpacked.is_some() { at } else { member.place().unwrap_or(at) }, member.len)
    };
    let places = members.iter().map(place).collect::<Vec<_>>();
    let members: Places<'_> = members.iter().map(|member| &*member.file_name).zip(places).collect();
    let is_pickle = |name: &&&str| name.strip_suffix(PICKLE).is_some_and(|folder| folder.matches('/').count() <= 1);
    let what = "a zip archive without data.pkl, so not one of torch.save (name arrays .npz, or raw bytes .raw)";
    let pickle =
        members.keys().filter(is_pickle).min().ok_or_else(|| invalid(InvalidKind::Missing, what.to_owned()))?;
    let folder = pickle.strip_suffix(PICKLE).unwrap_or_default();
    let is_big = match members.get(&*format!("{folder}byteorder")) {
        Some(&(at, len)) => match &source.read(at, len.min(16))?[..] {
            b"little" => false,
            b"big" => true,
            other => {
                let what = format!("byteorder `{}` (want little or big)", Short(&String::from_utf8_lossy(other)));
                return Err(invalid(InvalidKind::Value, what));
            }
        },
        // Older files lack this member, and were only written on little-endian machines.
        None => false,
    };
    let (at, len) = members[pickle];
    let (values, root) = pickle::read(&mut Bytes::new(source, at, at + len))?;
    let reader = Reader { file, unpacked: unpacked.clone().map(Arc::new), values: &values, is_big };
    reader.contents(root, &|key| members.get(&*format!("{folder}data/{key}")).copied())
}

/// Decompresses an archive into a temporary file that contains its members one after the other. torch.save never
/// compresses, but other programs that repack archives do.
fn unpack(file: &InputFile, members: &[Member]) -> Result<InputFile, FormatError> {
    let failed = |error| FormatError::io(file.path(), "read", error);
    let mut out = fs::tempfile().map_err(failed)?;
    for member in members {
        member.with_elements(file, |reader| io::copy(reader, &mut out).map(drop).map_err(failed))?;
    }
    InputFile::temporary(file.path(), out).map_err(failed)
}

fn read_old(file: &InputFile) -> Result<Contents, FormatError> {
    let mut bytes = Bytes::new(file, 0, file.len());
    // Skip the magic number, the version and the system information. Elements are always little endian.
    for _ in 0..3 {
        pickle::read(&mut bytes)?;
    }
    let (values, root) = pickle::read(&mut bytes)?;
    let (keys, list) = pickle::read(&mut bytes)?;
    // Bytes per element of each storage.
    let sizes: Places<'_> = values
        .all()
        .iter()
        .filter_map(|value| match value {
            Value::Storage(storage) => Some((values.text(storage.key)?, (storage.size as u64, 0))),
            _ => None,
        })
        .collect();
    let mut places = Places::new();
    let mut at = bytes.at;
    for key in keys.items(list).unwrap_or_default() {
        let key = keys.text(*key).unwrap_or_default();
        // The element size of an unreferenced storage is unknown, so neither it nor any later storage can be located.
        let Some(&(size, _)) = sizes.get(key) else { break };
        let place = || {
            let start = at.checked_add(8).filter(|&start| start <= file.len())?;
            let count = u64::from_le_bytes(*file.read(at, 8).ok()?.first_chunk()?);
            let end = count.checked_mul(size)?.checked_add(start).filter(|&end| end <= file.len())?;
            Some((start, end))
        };
        let what = || format!("storage `{}` is not in the file, which may be truncated", Short(key));
        let (start, end) =
            place().ok_or_else(|| FormatError::invalid(file.path(), Invalid::new(InvalidKind::Size, what())))?;
        at = end;
        places.insert(key, (start, end - start));
    }
    let reader = Reader { file, unpacked: None, values: &values, is_big: false };
    reader.contents(root, &|key| places.get(key).copied())
}

/// Returns the offset and the number of bytes of a storage.
type FindStorage<'f> = dyn Fn(&str) -> Option<(u64, u64)> + 'f;

/// Views by offset, type, shape and strides.
type Views = HashMap<(u64, DataType, Vec<u64>, Vec<u64>), Arc<InputFile>>;

struct Reader<'f> {
    file: &'f InputFile,
    /// The members of the archive, if they are compressed in `file`.
    unpacked: Option<Arc<InputFile>>,
    values: &'f Values,
    is_big: bool,
}

impl Reader<'_> {
    fn invalid(&self, error: Invalid) -> FormatError {
        FormatError::invalid(self.file.path(), error)
    }

    fn contents(&self, root: Id, find: &FindStorage<'_>) -> Result<Contents, FormatError> {
        let mut found = Found::of(self.values, root).map_err(|error| self.invalid(error))?;
        if let [(name, _)] = &mut found.tensors[..]
            && name.is_empty()
        {
            // A tensor outside of any container has no key, so it is named after the file.
            *name = self.file.path().file_stem().unwrap_or_default().to_string_lossy().into_owned();
        }
        if found.tensors.is_empty() && !found.left_out.is_empty() {
            let what = format!("no tensors in this file, but {}", named(&found.left_out));
            return Err(self.invalid(Invalid::new(InvalidKind::NoWeights, what)));
        }
        let mut names = HashSet::new();
        let (mut bytes, mut views) = (0u64, Views::new());
        let mut tensors = Vec::with_capacity(found.tensors.len());
        for (name, view) in &found.tensors {
            if !names.insert(name) {
                return Err(self.invalid(Invalid::twice(name)));
            }
            let entry = self.entry(name, view, find, &mut views)?;
            bytes = bytes.saturating_add(entry.data_type.byte_len(entry.len).unwrap_or(usize::MAX) as u64);
            tensors.push(entry);
        }
        let limit = self.file.len().saturating_mul(MAX_REPEATED).saturating_add(GIB);
        if bytes > limit {
            let what = format!("tensors of {bytes} bytes that share the elements of a file of {}", self.file.len());
            return Err(self.invalid(Invalid::new(InvalidKind::Size, format!("{what} (want at most {limit})"))));
        }
        Ok((tensors, found.left_out))
    }

    fn entry(&self, name: &str, view: &View, find: &FindStorage<'_>, views: &mut Views) -> Result<Entry, FormatError> {
        let wrong = |kind, what: String| self.invalid(Invalid::new(kind, what).of_tensor(name));
        let data_type = view.data_type;
        let sizes = self.values.sizes(view.shape).zip(self.values.sizes(view.strides));
        let sizes = sizes.filter(|(shape, strides)| shape.len() == strides.len() && shape.len() <= MAX_DEPTH);
        let Some((items, strides)) = sizes else {
            let what = format!("no valid shape and strides (want at most {MAX_DEPTH} dimensions, none negative)");
            return Err(wrong(InvalidKind::Size, what));
        };
        let mut shape: Vec<usize> = items.iter().map(|&dim| usize::try_from(dim).unwrap_or(usize::MAX)).collect();
        let too_large = |shape: &[usize]| self.invalid(Invalid::too_large(data_type, shape).of_tensor(name));
        // Float4 is stored in pairs, and each pair is an item.
        let item = if data_type == DataType::Float4E2M1 {
            let last = shape.last_mut().ok_or_else(|| wrong(InvalidKind::Size, "a scalar of pairs".to_owned()))?;
            *last = last.saturating_mul(2);
            1
        } else {
            data_type.byte_len(1).unwrap_or(1)
        };
        let len = element_count(&shape).filter(|&len| data_type.byte_len(len).is_some());
        let len = len.ok_or_else(|| too_large(&shape))?;
        let entry = |place| Entry { name: name.to_owned(), data_type, shape: shape.clone(), len, place };
        if len == 0 {
            return Ok(entry(Place::Nowhere));
        }
        let Value::Storage(storage) = self.values.get(view.storage) else { return Err(too_large(&shape)) };
        let key = self.values.text(storage.key).unwrap_or_default();
        let (at, there) = find(key)
            .ok_or_else(|| wrong(InvalidKind::Missing, format!("storage `{}` is not in the file", Short(key))))?;
        // The storage may itself be a view of another storage; its offset counts its own elements.
        let first = storage.offset.checked_mul(storage.size as u64);
        let first = first.and_then(|first| view.offset.checked_mul(item as u64)?.checked_add(first));
        let last = items
            .iter()
            .zip(&strides)
            .try_fold(0, |sum: u64, (dim, stride)| sum.checked_add((dim - 1).checked_mul(*stride)?));
        let end = last.and_then(|last| last.checked_add(1)?.checked_mul(item as u64)?.checked_add(first?));
        let (Some(first), Some(_)) = (first, end.filter(|&end| end <= there)) else {
            let (shape, there) = (ShapeText(&shape), Count(there, "byte"));
            let what = format!("{shape} {data_type} is not within storage `{}` of {there}", Short(key));
            return Err(wrong(InvalidKind::Size, what));
        };
        let is_complex = matches!(data_type, DataType::Complex64 | DataType::Complex128);
        let swap = if self.is_big { item / if is_complex { 2 } else { 1 } } else { 1 };
        let at = at + first;
        if swap <= 1 && Strided::is_contiguous(&items, &strides) {
            return Ok(entry(self.unpacked.clone().map_or(Place::At(at), |file| Place::In(file, at))));
        }
        let key = (at, data_type, items, strides);
        if let Some(view) = views.get(&key) {
            return Ok(entry(Place::In(Arc::clone(view), 0)));
        }
        let file = self.unpacked.as_deref().unwrap_or(self.file).clone();
        let view = Strided::new(file, at, item, swap, &key.2, &key.3).into_file();
        let view = Arc::new(view.ok_or_else(|| too_large(&shape))?);
        views.insert(key, Arc::clone(&view));
        Ok(entry(Place::In(view, 0)))
    }
}

/// The tensors that are reachable from a value, by name, and the skipped values, each with a reason.
#[derive(Default)]
struct Found {
    tensors: Vec<(String, View)>,
    left_out: Vec<(String, String)>,
    /// Number of visits. Even a small pickle can cause many, as values may be shared.
    visited: usize,
    /// Total bytes of the names.
    bytes: u64,
    /// Whether the visited values belong to a module.
    is_in_module: bool,
}

/// Contents of a value.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Holds {
    Nothing,
    /// Objects of unsupported classes.
    Objects,
    Tensors,
}

/// Reasons for skipping a plain value, and a container of plain values.
const NO_TENSOR: &str = "not a tensor";
const NO_TENSORS: &str = "without tensors";

impl Found {
    fn of(values: &Values, mut root: Id) -> Result<Found, Invalid> {
        /// Max number of dictionaries around the weights, such as a trainer's around a library's.
        const MAX_AROUND: usize = 3;
        let mut left_out = Vec::new();
        for _ in 0..MAX_AROUND {
            let Value::Dict(pairs) = values.get(root) else { break };
            let has_tensors = |id| Found::within(values, id, "").map_or(true, |found| !found.tensors.is_empty());
            let weights = WEIGHTS.into_iter().find_map(|key| {
                let weights = values.entry(root, key)?;
                let is_tensor = matches!(values.get(weights), Value::Tensor(_));
                (!is_tensor && has_tensors(weights)).then_some((key, weights))
            });
            let Some((key, weights)) = weights else { break };
            for &(name, value) in pairs.iter().filter(|(_, value)| *value != weights) {
                let name = key_of(values, name).unwrap_or_default();
                let other = Found::within(values, value, &name)?;
                match other.tensors.len() {
                    0 => left_out.extend(other.left_out),
                    count => left_out.push((name, format!("{} beside `{key}`", Count(count, "tensor")))),
                }
            }
            root = weights;
        }
        let mut found = Found::within(values, root, "")?;
        found.left_out.append(&mut left_out);
        // Messages show only the first few, so the least important ones, plain values, go last.
        let is_plain = |(_, why): &(String, String)| why == NO_TENSOR || why == NO_TENSORS;
        let (plain, first): (Vec<_>, Vec<_>) = found.left_out.into_iter().partition(is_plain);
        Ok(Found { left_out: [first, plain].concat(), ..found })
    }

    fn within(values: &Values, id: Id, name: &str) -> Result<Found, Invalid> {
        let mut found = Found::default();
        found.visit(values, id, &mut name.to_owned(), 0)?;
        Ok(found)
    }

    fn visit(&mut self, values: &Values, id: Id, name: &mut String, depth: usize) -> Result<Holds, Invalid> {
        self.visited += 1;
        if self.visited > MAX_VALUES || self.bytes > MAX_HEADER {
            let what = format!("values shared too often (want at most {MAX_VALUES} in all)");
            return Err(Invalid::new(InvalidKind::Size, what));
        }
        if depth > MAX_DEPTH {
            // A list may contain itself.
            return Ok(self.leave_out(name, format!("more than {MAX_DEPTH} levels deep"), Holds::Objects));
        }
        match values.get(id) {
            Value::Tensor(view) => {
                self.bytes += name.len() as u64;
                self.tensors.push((name.clone(), *view));
                Ok(Holds::Tensors)
            }
            Value::Dict(pairs) => {
                let parts = pairs.iter().map(|&(key, value)| (key_of(values, key), value));
                self.visit_parts(values, parts, name, depth)
            }
            Value::Tuple(items) | Value::List(items) => {
                let parts = items.iter().enumerate().map(|(index, &item)| (Some(index.to_string()), item));
                self.visit_parts(values, parts, name, depth)
            }
            Value::Object(class, state) => {
                let class = values.global(*class).unwrap_or_default();
                if let Some(holds) = self.visit_module(values, class, *state, name, depth)? {
                    return Ok(holds);
                }
                Ok(self.leave_out(name, format!("`{}` is not read", Short(class)), Holds::Objects))
            }
            Value::Storage(_) => Ok(self.leave_out(name, "a storage without a shape".to_owned(), Holds::Objects)),
            Value::Plain | Value::Int(_) | Value::Text(_) | Value::Global(_) => {
                Ok(self.leave_out(name, NO_TENSOR.to_owned(), Holds::Nothing))
            }
        }
    }

    fn leave_out(&mut self, name: &str, reason: String, holds: Holds) -> Holds {
        self.bytes += name.len() as u64;
        self.left_out.push((name.to_owned(), reason));
        holds
    }

    /// Visits the parts of a container, by key. A container without tensors is reported as a single skipped value,
    /// apart from the objects in it.
    fn visit_parts(
        &mut self,
        values: &Values,
        parts: impl Iterator<Item = (Option<String>, Id)>,
        name: &mut String,
        depth: usize,
    ) -> Result<Holds, Invalid> {
        let (first, len) = (self.left_out.len(), name.len());
        let mut holds = Holds::Nothing;
        for (key, part) in parts {
            *name += if len > 0 { "." } else { "" };
            *name += key.as_deref().unwrap_or("?");
            holds = holds.max(match key {
                Some(_) => self.visit(values, part, name, depth + 1)?,
                None => self.leave_out(
                    name,
                    "under a key that is neither a string nor an integer".to_owned(),
                    Holds::Objects,
                ),
            });
            name.truncate(len);
        }
        if holds < Holds::Tensors && len > 0 {
            let objects = self.left_out.split_off(first);
            self.left_out.extend(objects.into_iter().filter(|(_, why)| why != NO_TENSOR && why != NO_TENSORS));
            if self.left_out.len() == first {
                self.leave_out(name, NO_TENSORS.to_owned(), holds);
            }
        }
        Ok(holds)
    }

    /// Visits the tensors of a module, under their names in its state dictionary. Returns `None` if the object is not a
    /// module.
    fn visit_module(
        &mut self,
        values: &Values,
        class: &str,
        state: Option<Id>,
        name: &mut String,
        depth: usize,
    ) -> Result<Option<Holds>, Invalid> {
        let Some(state) = state else { return Ok(None) };
        let mut dicts: Vec<Id> = MODULE.iter().filter_map(|key| values.entry(state, key)).collect();
        if class.starts_with(SCRIPT) {
            dicts = vec![state];
        }
        if dicts.is_empty() {
            return Ok(None);
        }
        let unsaved = values.entry(state, NOT_SAVED).and_then(|set| values.items(set)).unwrap_or_default();
        let is_saved = |key: Id| unsaved.iter().all(|other| values.text(*other) != values.text(key));
        let has_parts = |value: Id| matches!(values.get(value), Value::Tensor(_) | Value::Dict(_) | Value::Object(..));
        let mut parts = Vec::new();
        for dict in dicts {
            let Value::Dict(pairs) = values.get(dict) else { continue };
            let pairs = pairs.iter().filter(|(key, value)| has_parts(*value) && is_saved(*key));
            parts.extend(pairs.map(|&(key, value)| (key_of(values, key), value)));
        }
        let is_outer = !std::mem::replace(&mut self.is_in_module, true);
        let first = self.left_out.len();
        let holds = self.visit_parts(values, parts.into_iter(), name, depth)?;
        // Layers without parameters are not reported.
        let others = self.left_out.split_off(first);
        self.left_out.extend(others.into_iter().filter(|(_, why)| why != NO_TENSORS));
        if is_outer {
            self.is_in_module = false;
            let name = if name.is_empty() { class } else { name }.to_owned();
            self.leave_out(&name, "all but its parameters and buffers".to_owned(), holds);
        }
        Ok(Some(holds))
    }
}

/// Converts a key to the form in which it appears in tensor names; `None` if it is neither a string nor an integer.
fn key_of(values: &Values, key: Id) -> Option<String> {
    match values.get(key) {
        Value::Text(text) => Some(text.clone()),
        Value::Int(value) => Some(value.to_string()),
        _ => None,
    }
}
