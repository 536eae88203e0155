//! `.onnx` files, rewritten: constants stored in another type ([`cast_model`]), Casts of constants computed ([`fold_model`]);
//! and listed, for `info` and `diff` (`survey.rs`).
//!
//! A model is read as a tree over its bytes (`tree.rs`), the work is a list of edits, and the output is a rope of
//! stretches of the input, new bytes and elements that are cast while they are written (`rope.rs`, `emit.rs`). So a model
//! of any size takes as much memory as its structure, and what no edit touches stays byte for byte.

mod cast;
mod emit;
mod exchange;
mod external;
mod flow;
mod fold;
mod raise;
mod rope;
mod survey;
mod tree;

use crate::atomic::AtomicFile;
use crate::error::FileError;
use crate::mmap::Mapped;
use crate::model::ModelError;
use crate::pb::MAX_MESSAGE;
use crate::watch::{Meter, Watch};
use emit::{Edits, Layout};
use exchange::{Exchange, free_name};
use external::Files;
use rope::Rope;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::{Component, Path};
use tree::Document;

pub use cast::{ModelCast, cast_model};
pub use external::ExternalProblem;
pub use fold::{FoldOutcome, FoldSummary, Folded, ModelFold, fold_model};
pub(crate) use survey::survey;
pub use survey::{CastInfo, ModelInfo};

/// Whether a model can be read by those that list and rewrite it.
pub(crate) fn check(bytes: &[u8]) -> Result<(), ModelError> {
    Document::parse(bytes)?.tensors()?;
    survey::imports(bytes).map(drop)
}

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

/// What all rewriting has in common.
struct Request<'r> {
    storage: &'r Storage,
    /// Write nothing, and tell what would be done.
    dry_run: bool,
    /// Go through the elements of a dry run too: something counts their values.
    counts: bool,
    watch: Option<&'r Watch>,
    /// Called whenever a file has changed under its name, for tests.
    step: &'r dyn Fn(),
}

/// Reads a model, has it edited, and writes the result, unless that is not wanted. What the edit returns is judged when
/// everything is written and before it takes its place.
fn rewrite<T, R>(
    input: &Path,
    output: &Path,
    request: &Request<'_>,
    edit: impl for<'a> FnOnce(&Document<'a>, &'a Files) -> Result<(Edits<'a>, T), ModelError>,
    judge: impl FnOnce(T) -> Result<R, FileError>,
) -> Result<R, FileError> {
    let invalid = |error| FileError::model(input, error);
    let bytes = Mapped::open(input)?;
    let document = Document::parse(&bytes).map_err(invalid)?;
    let files = Files::open(input, &document.tensors().map_err(invalid)?).map_err(invalid)?;
    let (edits, made) = edit(&document, &files).map_err(invalid)?;

    let location = location(output, request.storage)?;
    // Where a file of elements would be replaced, the new one first stands beside it.
    let place = output.with_file_name(&location);
    let meanwhile = (place.exists() && output.exists()).then(|| free_name(output, &location));
    let arranged = |location| arrange(&document, &files, &edits, location, request.storage, MAX_MESSAGE);
    let (message, layout) = arranged(&location).map_err(invalid)?;

    let done = |part: &[u8]| bytes.release(part);
    let failed = |path: &Path, error: io::Error| match error.get_ref().is_some_and(|error| error.is::<Stopped>()) {
        true => FileError::Stopped { path: output.to_owned() },
        false => FileError::io(path, "write", error),
    };
    if request.dry_run {
        if request.counts {
            let meter = Meter::new(request.watch, layout.len() + message.len());
            let mut nowhere = Metered { out: io::sink(), meter: &meter };
            let read = write_data(&layout, &mut nowhere, &done).and_then(|()| message.write(&mut nowhere, &done));
            read.map_err(|error| failed(output, error))?;
        }
        return judge(made);
    }
    let write_model = |message: &Rope<'_>, meter: &Meter<'_>| {
        let mut model = AtomicFile::create(output)?;
        message.write(&mut Metered { out: &mut model, meter }, &done).map_err(|error| failed(output, error))?;
        // All is on the disk before anything takes its place, so that little is left that can fail in between.
        model.sync()?;
        Ok(model)
    };
    if layout.data.is_empty() {
        let model = write_model(&message, &Meter::new(request.watch, message.len()))?;
        let result = judge(made)?;
        model.commit()?;
        return Ok(result);
    }

    check_place(input, output, &location, &files)?;
    let first = meanwhile.as_deref().map(arranged).transpose().map_err(invalid)?;
    let meter = Meter::new(
        request.watch,
        layout.len() + message.len() + first.as_ref().map_or(0, |(message, _)| message.len()),
    );
    let path = meanwhile.as_ref().map_or(place.clone(), |name| output.with_file_name(name));
    let mut data = AtomicFile::create(&path)?;
    write_data(&layout, &mut Metered { out: &mut data, meter: &meter }, &done).map_err(|error| failed(&path, error))?;
    data.sync()?;
    let model = write_model(&message, &meter)?;
    // What is written once more is not counted again.
    let result = judge(made)?;
    match first {
        None => {
            data.commit()?;
            model.commit()?;
        }
        Some((message, _)) => {
            let first = write_model(&message, &meter)?;
            Exchange { data, first, model, meanwhile: &path, place: &place }.run(request.step)?;
        }
    }
    Ok(result)
}

/// Tells a meter what is written.
struct Metered<'m, W> {
    out: W,
    meter: &'m Meter<'m>,
}

impl<W: Write> Write for Metered<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let len = self.out.write(bytes)?;
        match self.meter.add(len as u64) {
            ControlFlow::Continue(()) => Ok(len),
            ControlFlow::Break(()) => Err(io::Error::other(Stopped)),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Whoever is told how far the work is has ended it.
#[derive(Debug, thiserror::Error)]
#[error("stopped")]
struct Stopped;

/// The message, and what stands beside it: where there was something before, where the caller wants it, or where the
/// message would be larger than `limit` otherwise.
fn arrange<'a>(
    document: &Document<'a>,
    files: &'a Files,
    edits: &Edits<'a>,
    location: &'a str,
    storage: &Storage,
    limit: u64,
) -> Result<(Rope<'a>, Layout<'a>), ModelError> {
    let given = storage.external_data.is_some() || (storage.threshold.is_some() && !files.paths.is_empty());
    let large = storage.threshold.unwrap_or(DEFAULT_THRESHOLD);
    let mut layout = Layout::new(location, given.then_some(large));
    let mut message = emit::emit(document, files, edits, &mut layout)?;
    if message.len() > limit && !given {
        layout = Layout::new(location, Some(large));
        message = emit::emit(document, files, edits, &mut layout)?;
    }
    if message.len() > limit {
        return Err(ModelError::MessageSize { bytes: message.len() });
    }
    Ok((message, layout))
}

fn write_data(layout: &Layout<'_>, out: &mut impl Write, done: rope::Done<'_>) -> io::Result<()> {
    let mut end = 0;
    for (offset, elements) in &layout.data {
        io::copy(&mut io::Read::take(io::repeat(0), offset - end), out)?;
        elements.write(out, done)?;
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

/// Whether the file of external data may be written: it must not replace another model's.
fn check_place(input: &Path, output: &Path, location: &str, files: &Files) -> Result<(), FileError> {
    let path = output.with_file_name(location);
    let same = |a: &Path, b: &Path| fs::canonicalize(a).is_ok_and(|a| fs::canonicalize(b).is_ok_and(|b| a == b));
    let refuse = |what| Err(FileError::model(output, ModelError::DataFile { name: location.to_owned(), what }));
    if same(&path, input) {
        return refuse("it is the input (want another name)");
    }
    if files.paths.iter().any(|used| same(&path, used)) && !same(input, output) {
        return refuse("the input's own elements are there (say --external-data FILE for another name)");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::{onnx, wire};
    use onnx_cast::DataType;

    /// A model of initializers of as many elements, whose bytes are all 7.
    pub(super) fn model(data_type: DataType, sizes: &[usize]) -> Vec<u8> {
        let (mut graph, mut opset, mut model) = (Vec::new(), Vec::new(), Vec::new());
        for (index, &size) in sizes.iter().enumerate() {
            let mut tensor = Vec::new();
            wire::put_int(&mut tensor, onnx::tensor::DIMS, size as u64);
            wire::put_int(&mut tensor, onnx::tensor::DATA_TYPE, data_type.onnx() as u64);
            wire::put_bytes(&mut tensor, onnx::tensor::NAME, format!("w{index}").as_bytes());
            wire::put_bytes(&mut tensor, onnx::tensor::RAW_DATA, &vec![7; data_type.byte_len(size).expect("a size")]);
            wire::put_bytes(&mut graph, onnx::graph::INITIALIZER, &tensor);
        }
        wire::put_int(&mut opset, onnx::opset::VERSION, 21);
        wire::put_int(&mut model, onnx::model::IR_VERSION, 10);
        wire::put_bytes(&mut model, onnx::model::GRAPH, &graph);
        wire::put_bytes(&mut model, onnx::model::OPSET_IMPORT, &opset);
        model
    }

    #[test]
    fn what_is_too_large_for_a_message_goes_beside_it() {
        let bytes = model(DataType::Uint8, &[5000]);
        let document = Document::parse(&bytes).expect("a model");
        let files = Files::open(Path::new("m.onnx"), &[]).expect("no files");
        let arranged = |limit, threshold| {
            let storage = Storage { external_data: None, threshold };
            arrange(&document, &files, &Edits::default(), "m.data", &storage, limit)
        };
        let (message, layout) = arranged(bytes.len() as u64, None).expect("it fits");
        assert_eq!((message.len(), layout.data.len()), (bytes.len() as u64, 0));
        let (message, layout) = arranged(bytes.len() as u64 - 1, None).expect("it fits without the elements");
        assert!(message.len() < 200 && layout.data.len() == 1);
        let (mut out, mut data) = (Vec::new(), Vec::new());
        message.write(&mut out, &|_| {}).expect("written");
        layout.data[0].1.write(&mut data, &|_| {}).expect("written");
        assert_eq!((out.len() as u64, data), (message.len(), vec![7; 5000]));
        for (limit, threshold) in [(50, None), (1000, Some(5001))] {
            let error = arranged(limit, threshold).map(drop).expect_err("too large");
            assert!(matches!(error, ModelError::MessageSize { .. }), "{error}");
        }
    }
}
