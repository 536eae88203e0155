//! `.onnx` files, rewritten: constants stored in another type ([`cast_model`]), Casts of constants computed ([`fold_model`]).
//!
//! A model is read as a tree over its bytes (`tree.rs`), the work is a list of edits, and the output is a rope of
//! stretches of the input, new bytes and elements that are cast while they are written (`rope.rs`, `emit.rs`). So a model
//! of any size takes as much memory as its structure, and what no edit touches stays byte for byte.

mod cast;
mod emit;
mod external;
mod flow;
mod fold;
mod raise;
mod rope;
mod tree;

use crate::atomic::AtomicFile;
use crate::error::FileError;
use crate::mmap::Mapped;
use crate::model::ModelError;
use crate::pb::MAX_MESSAGE;
use emit::{Edits, Layout};
use external::Files;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write};
use std::path::{Component, Path, PathBuf};
use tree::Document;

pub use cast::{ModelCast, cast_model};
pub use external::ExternalProblem;
pub use fold::{FoldSummary, fold_model};

/// Where a model's elements go.
///
/// Left alone, elements stay where they were: in the model, or in a file of external data, which is then one file beside
/// the output, named as the output with `.data` behind it. A model that would be larger than a protobuf message may be
/// (2 GiB) gets such a file by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Storage {
    /// Put elements into this file, beside the model.
    pub external_data: Option<String>,
    /// Tensors of this many bytes or more go into the file, 1024 where it is not said.
    pub threshold: Option<u64>,
}

/// As other tools have it: what is smaller is not worth a place in another file.
const DEFAULT_THRESHOLD: u64 = 1024;

/// Reads a model, has it edited, and writes the result.
fn rewrite<T>(
    input: &Path,
    output: &Path,
    storage: &Storage,
    edit: impl for<'a> FnOnce(&Document<'a>, &'a Files) -> Result<(Edits<'a>, T), ModelError>,
) -> Result<T, FileError> {
    let invalid = |error| FileError::model(input, error);
    let bytes = Mapped::open(input)?;
    let document = Document::parse(&bytes).map_err(invalid)?;
    let files = Files::open(input, &document.tensors().map_err(invalid)?).map_err(invalid)?;
    let (edits, result) = edit(&document, &files).map_err(invalid)?;

    let location = location(output, storage)?;
    let given = storage.external_data.is_some() || (storage.threshold.is_some() && !files.paths.is_empty());
    let large = storage.threshold.unwrap_or(DEFAULT_THRESHOLD);
    let mut layout = Layout::new(&location, given.then_some(large));
    let mut message = emit::emit(&document, &files, &edits, &mut layout).map_err(invalid)?;
    if message.len() > MAX_MESSAGE && !given {
        layout = Layout::new(&location, Some(large));
        message = emit::emit(&document, &files, &edits, &mut layout).map_err(invalid)?;
    }
    if message.len() > MAX_MESSAGE {
        return Err(invalid(ModelError::MessageSize { bytes: message.len() }));
    }

    let mut data = match layout.data.is_empty() {
        true => None,
        false => Some(data_file(input, output, &location, &files)?),
    };
    let mut model = AtomicFile::create(output)?;
    if let Some(data) = &mut data {
        let path = data.path().to_owned();
        write_data(&layout, data).map_err(|error| FileError::io(&path, "write", error))?;
    }
    message.write(&mut model).map_err(|error| FileError::io(output, "write", error))?;
    // Both are on the disk before either takes its place, so that little is left between the two renames that can fail.
    model.sync()?;
    if let Some(data) = data {
        data.commit()?;
    }
    model.commit()?;
    Ok(result)
}

fn write_data(layout: &Layout<'_>, out: &mut AtomicFile) -> io::Result<()> {
    let mut end = 0;
    for (offset, elements) in &layout.data {
        io::copy(&mut io::Read::take(io::repeat(0), offset - end), out)?;
        elements.write(out)?;
        end = offset + elements.byte_len().unwrap_or(0);
    }
    out.flush()
}

/// The name of the file of external data.
fn location(output: &Path, storage: &Storage) -> Result<String, FileError> {
    let Some(name) = &storage.external_data else {
        let mut name = output.file_name().unwrap_or(OsStr::new("model.onnx")).to_string_lossy().into_owned();
        name.push_str(".data");
        return Ok(name);
    };
    let refuse = |what| FileError::model(output, ModelError::DataFile { name: name.clone(), what });
    let parts: Vec<_> = Path::new(name).components().collect();
    if !matches!(parts[..], [Component::Normal(part)] if part == name.as_str()) {
        return Err(refuse("it stands beside the model (want a file name without a folder)"));
    }
    if output.file_name() == Some(OsStr::new(name)) {
        return Err(refuse("it is the model's own name"));
    }
    Ok(name.clone())
}

/// Starts the file of external data, which must not replace another model's.
fn data_file(input: &Path, output: &Path, location: &str, files: &Files) -> Result<AtomicFile, FileError> {
    let path: PathBuf = output.with_file_name(location);
    let same = |a: &Path, b: &Path| fs::canonicalize(a).is_ok_and(|a| fs::canonicalize(b).is_ok_and(|b| a == b));
    let refuse = |what| Err(FileError::model(output, ModelError::DataFile { name: location.to_owned(), what }));
    if same(&path, input) {
        return refuse("it is the input (want another name)");
    }
    if files.paths.iter().any(|used| same(&path, used)) && !same(input, output) {
        return refuse("the input's own elements are there (say --external-data FILE for another name)");
    }
    AtomicFile::create(path)
}
