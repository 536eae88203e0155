//! A model, rewritten. It is read as a tree over its bytes (`tree.rs`), the work is a list of edits, and the output is
//! a rope of stretches of the input, new bytes and elements that are cast while they are written (`rope.rs`,
//! `emit.rs`). So a model of any size takes as much memory as its structure, and what no edit touches stays byte for
//! byte.

use crate::edits::{DEFAULT_THRESHOLD, Edits};
use crate::emit::{Layout, emit};
use crate::error::{Error, ModelError, ModelErrorKind};
use crate::exchange::{Exchange, free_name};
use crate::external::Files;
use crate::messages::MODEL;
use crate::rope::Rope;
use crate::source::{IN_MEMORY, ModelSource};
use crate::tree::Document;
use onnx_cast_file::__private::fs::is_same;
use onnx_cast_file::__private::memory::zeros;
use onnx_cast_file::__private::outline::{Backing, Outline, OutlineError};
use onnx_cast_file::__private::pb::MAX_MESSAGE;
use onnx_cast_file::__private::pipeline::{self, InMemory, InPlace, Nowhere, PipelineError, Sink, Task};
use onnx_cast_file::__private::{FolderLock, Meter, Short, folder_of, fs, together};
use onnx_cast_file::{AtomicFile, Existing, FileError, Format, IoError, RunOptions, Storage, Watch, Wording};
use std::ffi::OsStr;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// What all rewriting has in common.
pub(crate) struct Request<'r> {
    pub(crate) storage: &'r Storage,
    /// Write nothing, and report what would be done.
    pub(crate) dry_run: bool,
    /// The rule for an existing output.
    pub(crate) existing: Existing,
    /// Read the elements of a dry run too, because their values are counted.
    pub(crate) counts: bool,
    /// Threads at most.
    pub(crate) threads: Option<usize>,
    pub(crate) watch: Option<&'r Watch>,
    /// Called whenever a file has changed under its name, for tests.
    pub(crate) step: &'r dyn Fn(),
}

impl<'r> Request<'r> {
    /// As a job runs, with elements in these places.
    pub(crate) fn of(run: &'r RunOptions, storage: &'r Storage) -> Self {
        let (dry_run, existing, threads) = (run.dry_run, Existing::new(run.write.force), run.threads);
        Request { dry_run, existing, threads, watch: run.watch.as_ref(), ..Request::new(storage) }
    }

    /// With elements in these places, and nothing else asked for.
    pub(crate) fn new(storage: &'r Storage) -> Self {
        let existing = Existing::new(false);
        Request { storage, dry_run: false, existing, counts: false, threads: None, watch: None, step: &|| {} }
    }
}

/// Refuses what models have no use for of how a job runs: they are written whole, and only some jobs count.
pub(crate) fn refuse_of_models(path: &Path, run: &RunOptions) -> Result<(), FileError> {
    const COUNTED: &str = "is for casts, `quantize` and `dequantize`";
    let fields = [
        ("npy_plain", run.write.npy_plain, "is for .npy"),
        ("resume", run.resume, "is for checkpoints of several files (a model is written whole or not at all)"),
        ("losses", run.losses, COUNTED),
        ("fail_on", !run.fail_on.is_empty(), COUNTED),
    ];
    run.refuse_shards(path)?;
    FileError::refuse(path, &fields)
}

/// Opens a model, and hands it to a function.
pub(crate) fn open<R>(
    backing: Backing<'_>,
    look: impl for<'a> FnOnce(&Document<'a>, &'a Files<'a>) -> Result<R, Error>,
) -> Result<R, Error> {
    let path = match backing {
        Backing::File(file) => file.path(),
        Backing::Memory(_) => Path::new(IN_MEMORY),
    };
    let invalid = |error| Error::model(path, error);
    let outline = match Outline::of(backing, &MODEL) {
        Err(OutlineError::Io(error)) => return Err(error.into()),
        outline => outline.map_err(|error| invalid(error.into()))?,
    };
    let document = Document::parse(&outline.bytes).map_err(invalid)?;
    let tensors = document.tensors().map_err(invalid)?;
    let files = Files::open(&outline, &tensors).map_err(invalid)?;
    files.check_current()?;
    look(&document, &files)
}

/// As [`open`], of a source.
pub(crate) fn open_source<R>(
    source: ModelSource<'_>,
    look: impl for<'a> FnOnce(&Document<'a>, &'a Files<'a>) -> Result<R, Error>,
) -> Result<R, Error> {
    open(source.backing(&source.file()?), look)
}

/// Hands a model with its edits to a function. It is in memory, and refers to the elements of the one that it was made
/// of.
pub(crate) fn edited<'a, R>(
    document: &Document<'a>,
    files: &'a Files<'a>,
    edits: &Edits<'a>,
    look: impl for<'b> FnOnce(&Document<'b>, &'b Files<'b>) -> Result<R, Error>,
) -> Result<R, Error> {
    let invalid = |error| Error::model(files.path(), error);
    let message = emit(document, files, edits, &mut Layout::references()).map_err(invalid)?;
    let writer = Writer { files, output: files.path(), threads: Some(1), meter: Meter::new(None, 0) };
    let bytes = writer.in_memory(&message)?;
    let outline = Outline::of(Backing::Memory(&bytes), &MODEL).map_err(|error| invalid(error.into()))?;
    let document = Document::parse(&outline.bytes).map_err(invalid)?;
    look(&document, &files.of_made(&outline))
}

/// Reads a model, has it edited, and writes the result, unless that is not wanted; without an output it is
/// given back. What the edit returns is judged when everything is written and before it takes its place.
pub(crate) fn rewrite<T, R>(
    source: ModelSource<'_>,
    output: Option<&Path>,
    request: &Request<'_>,
    edit: impl for<'a> FnOnce(&Document<'a>, &'a Files<'a>) -> Result<(Edits<'a>, T), ModelError>,
    judge: impl FnOnce(T) -> Result<R, Error>,
) -> Result<(Vec<u8>, R), Error> {
    check_output(output, request.existing)?;
    open_source(source, |document, files| rewrite_of((document, files), output, request, edit, judge))
}

/// As [`rewrite`], of a model that is open. Without an output it is given back, unless that is not wanted.
pub(crate) fn rewrite_of<'a, T, R>(
    (document, files): (&Document<'a>, &'a Files<'a>),
    output: Option<&Path>,
    request: &Request<'_>,
    edit: impl FnOnce(&Document<'a>, &'a Files<'a>) -> Result<(Edits<'a>, T), ModelError>,
    judge: impl FnOnce(T) -> Result<R, Error>,
) -> Result<(Vec<u8>, R), Error> {
    output.map_or(Ok(()), |output| check_apart(files, output))?;
    let (edits, made) = edit(document, files).map_err(|error| Error::model(files.path(), error))?;
    let Some(output) = output else {
        return Ok((write_in_memory(document, files, &edits, request)?, judge(made)?));
    };
    let written = write_edited(document, files, &edits, output, request)?;
    let result = judge(made)?;
    written.map_or(Ok(()), |written| written.commit(request))?;
    Ok((Vec::new(), result))
}

/// Writes a model with its edits into memory.
fn write_in_memory<'a>(
    document: &Document<'a>,
    files: &'a Files<'a>,
    edits: &Edits<'a>,
    request: &Request<'_>,
) -> Result<Vec<u8>, Error> {
    // No element is in another file.
    let message = emit(document, files, edits, &mut Layout::only("", u64::MAX));
    let message = message.map_err(|error| Error::model(files.path(), error))?;
    let (tasks, measuring) = (message.tasks(), edits.measuring());
    let meter = Meter::new(request.watch, total(&tasks) + total(&measuring));
    let writer = Writer { files, output: files.path(), threads: request.threads, meter };
    writer.run(&measuring, &Nowhere, files.path())?;
    if request.dry_run {
        writer.run(&tasks, &Nowhere, files.path())?;
        return Ok(Vec::new());
    }
    writer.in_memory(&message)
}

/// A model that is written, and has no name yet.
struct Written<'a> {
    writer: Writer<'a>,
    model: AtomicFile,
    /// Its file of elements, where that is, and where it is to be.
    data: Option<(AtomicFile, PathBuf, PathBuf)>,
    /// The model that refers to the elements where they are until the old ones can be replaced.
    first: Option<Rope<'a>>,
}

impl Written<'_> {
    /// Gives the files their names.
    fn commit(self, request: &Request<'_>) -> Result<(), Error> {
        let Written { writer, model, data, first } = self;
        let output = writer.output;
        let Some((data, path, place)) = data else { return Ok(model.commit()?) };
        // The two would mix with those of another process.
        let _locked = FolderLock::wait(folder_of(output))?;
        match first {
            Some(message) => {
                let first = writer.write(output, &message.tasks(), request.existing.replaces())?;
                together(|| Exchange { data, first, model, meanwhile: &path, place: &place }.run(request.step))?;
            }
            None => together(|| commit(data, model, output, &place, request.step))?,
        }
        Ok(())
    }
}

/// Writes a model with its edits; `None` of a dry run.
fn write_edited<'a>(
    document: &Document<'a>,
    files: &'a Files<'a>,
    edits: &Edits<'a>,
    output: &'a Path,
    request: &Request<'a>,
) -> Result<Option<Written<'a>>, Error> {
    let location = location(output, request.storage)?;
    let place = output.with_file_name(&location);
    let meanwhile = name_meanwhile(output, &place, &location);
    let arranged = |location: &str| {
        let arranged = arrange(document, files, edits, location, request.storage, MAX_MESSAGE);
        arranged.map_err(|error| Error::model(files.path(), error))
    };
    let (message, layout) = arranged(&location)?;
    if !layout.data.is_empty() {
        request.existing.check_file(&place).map_err(FileError::from)?;
        check_place(output, &location, files)?;
    }
    if request.dry_run && !request.counts {
        return Ok(None);
    }
    let first = meanwhile.as_deref().filter(|_| !layout.data.is_empty()).map(arranged).transpose()?;
    let (tasks, data, measuring) = (message.tasks(), layout.tasks(), edits.measuring());
    let again = if first.is_some() && !request.dry_run { total(&tasks) } else { 0 };
    let meter = Meter::new(request.watch, total(&tasks) + total(&data) + total(&measuring) + again);
    let &Request { existing, threads, .. } = request;
    let writer = Writer { files, output, threads, meter };
    writer.run(&measuring, &Nowhere, output)?;
    if request.dry_run {
        writer.run(&data, &Nowhere, output)?;
        writer.run(&tasks, &Nowhere, output)?;
        return Ok(None);
    }
    let path = meanwhile.as_ref().map_or(place.clone(), |name| output.with_file_name(name));
    let data = if data.is_empty() {
        None
    } else {
        // A name that is free is not taken from another process.
        Some((writer.write(&path, &data, existing.replaces() && meanwhile.is_none())?, path, place))
    };
    let model = writer.write(output, &tasks, existing.replaces())?;
    // What is written once more is not counted again.
    Ok(Some(Written { writer, model, data, first: first.map(|(message, _)| message) }))
}

/// Reads elements for what is counted of them, and writes nothing.
pub(crate) fn measure<'a>(files: &'a Files<'a>, tasks: &[Task<'_>], request: &Request<'_>) -> Result<(), Error> {
    let meter = Meter::new(request.watch, total(tasks));
    let writer = Writer { files, output: files.path(), threads: request.threads, meter };
    writer.run(tasks, &Nowhere, files.path())
}

/// The name beside its place that a new file of elements gets first, where one would be replaced.
fn name_meanwhile(output: &Path, place: &Path, location: &str) -> Option<String> {
    (fs::metadata(place).is_ok() && fs::metadata(output).is_ok()).then(|| free_name(output, location))
}

fn total(tasks: &[Task<'_>]) -> u64 {
    tasks.iter().map(Task::bytes).sum()
}

/// Checks the path of a model to write.
pub(crate) fn check_output(output: Option<&Path>, existing: Existing) -> Result<(), FileError> {
    let Some(output) = output else { return Ok(()) };
    if !matches!(Format::from_path(output), Ok(Format::Onnx)) && !Format::is_of_device(output) {
        return Err(FileError::request(output, "a model is written to a file whose name ends in .onnx"));
    }
    Ok(existing.check_file(output)?)
}

/// Refuses an output that holds elements of the input.
fn check_apart(files: &Files<'_>, output: &Path) -> Result<(), IoError> {
    if files.paths.iter().any(|used| is_same(used, output)) {
        let what = "the input has its elements there (name another output)";
        return Err(IoError::new(output, "write", io::Error::new(io::ErrorKind::InvalidInput, what)));
    }
    Ok(())
}

/// Gives a file of elements and its model their names, one of which at least is free.
fn commit(data: AtomicFile, model: AtomicFile, output: &Path, place: &Path, step: &dyn Fn()) -> Result<(), IoError> {
    let is_new = fs::symlink_metadata(place).is_err();
    if !is_new && fs::symlink_metadata(output).is_ok() {
        let what = "another process has written it meanwhile (run it again to replace that)";
        return Err(IoError::new(output, "write", io::Error::new(io::ErrorKind::AlreadyExists, what)));
    }
    data.commit()?;
    step();
    let named = model.commit();
    if named.is_err() && is_new {
        // The elements are of no use without their model. What cannot be removed stays.
        let _ = fs::remove_file(place);
    }
    step();
    named
}

/// Writes files by the pipeline.
struct Writer<'w> {
    files: &'w Files<'w>,
    output: &'w Path,
    threads: Option<usize>,
    meter: Meter<'w>,
}

impl Writer<'_> {
    /// A file with the results of tasks, complete and on the disk before it takes its place, so that little is left
    /// that can fail in between.
    fn write(&self, path: &Path, tasks: &[Task<'_>], replace: bool) -> Result<AtomicFile, Error> {
        let mut out = AtomicFile::create(path, replace)?;
        if let Some(input) = self.files.file() {
            out.as_private_as(input)?;
        }
        self.run(tasks, &InPlace(out.file()), path)?;
        out.sync()?;
        Ok(out)
    }

    /// A message as bytes.
    fn in_memory(&self, message: &Rope<'_>) -> Result<Vec<u8>, Error> {
        let path = self.output;
        if message.len() > MAX_MESSAGE {
            let what = format!(
                "{} bytes exceed the limit of a protobuf message (2 GiB; want a path for the output, beside which the \
                 elements go)",
                message.len()
            );
            return Err(Error::model(path, ModelError::new(ModelErrorKind::Size, what)));
        }
        let len = usize::try_from(message.len()).ok();
        let room = len.and_then(zeros).ok_or_else(|| IoError::new(path, "write", io::ErrorKind::OutOfMemory.into()))?;
        let memory = InMemory(Mutex::new(room));
        self.run(&message.tasks(), &memory, path)?;
        Ok(memory.0.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    /// Does tasks, whose results go to the file `path`.
    fn run(&self, tasks: &[Task<'_>], sink: &dyn Sink, path: &Path) -> Result<(), Error> {
        let done = pipeline::run(tasks, self.threads, sink, &|bytes| self.meter.add(bytes));
        done.map_err(|(task, error)| match error {
            PipelineError::Read(error) => {
                let read = match tasks[task].elements {
                    pipeline::TaskInput::File(file, _) => file.path(),
                    _ => self.files.path(),
                };
                IoError::new(read, "read", error).into()
            }
            PipelineError::Write(error) => IoError::new(path, "write", error).into(),
            PipelineError::Cast(error) => FileError::cast(self.files.path(), "", error).into(),
            PipelineError::Stopped => FileError::Stopped { path: self.output.to_owned() }.into(),
        })
    }
}

/// The message, and what stands beside it: where there was something before, where the caller wants it, or where the
/// message would be larger than `limit` otherwise.
fn arrange<'a>(
    document: &Document<'a>,
    files: &'a Files<'a>,
    edits: &Edits<'a>,
    location: &str,
    storage: &Storage,
    limit: u64,
) -> Result<(Rope<'a>, Layout<'a>), ModelError> {
    let given = storage.external_data.is_some() || (storage.external_threshold.is_some() && !files.paths.is_empty());
    let mut layout = match storage.external_threshold.filter(|_| given) {
        Some(threshold) => Layout::only(location, threshold),
        None => Layout::new(location, given.then_some(DEFAULT_THRESHOLD)),
    };
    let mut message = emit(document, files, edits, &mut layout)?;
    if message.len() > limit && !given {
        let threshold = storage.external_threshold.unwrap_or(DEFAULT_THRESHOLD);
        layout = Layout::new(location, Some(threshold));
        message = emit(document, files, edits, &mut layout)?;
    } else if storage.external_threshold.is_some() && !given {
        let what = Wording::default().field("external_threshold", " is for models with external data (");
        return Err(ModelError::new(ModelErrorKind::Request, what.field("external_data", " names its file)")));
    }
    if message.len() > limit {
        let bytes = message.len();
        let what =
            format!("{bytes} bytes besides the constants' elements exceed the limit of a protobuf message (2 GiB)");
        return Err(ModelError::new(ModelErrorKind::Size, what));
    }
    Ok((message, layout))
}

/// The name of the file of external data.
fn location(output: &Path, storage: &Storage) -> Result<String, Error> {
    let Some(name) = &storage.external_data else {
        let mut name = output.file_name().unwrap_or(OsStr::new("model.onnx")).to_string_lossy().into_owned();
        name.push_str(".data");
        return Ok(name);
    };
    let refuse = |what: &str| refused(output, name, what.into());
    let parts: Vec<_> = Path::new(name).components().collect();
    if !matches!(parts[..], [Component::Normal(part)] if part == name.as_str()) {
        return Err(refuse("it must be beside the model (want a file name without a folder)"));
    }
    if output.file_name() == Some(OsStr::new(name)) {
        return Err(refuse("it is the model's own name"));
    }
    Ok(name.clone())
}

/// A file of external data that must not be written.
fn refused(output: &Path, name: &str, what: Wording) -> Error {
    let what = what.after(format_args!("external data `{}`: ", Short(name)));
    Error::model(output, ModelError::new(ModelErrorKind::ExternalData, what).named(name))
}

/// Whether the file of external data may be written: it must not replace another model's.
fn check_place(output: &Path, location: &str, files: &Files<'_>) -> Result<(), Error> {
    let (input, path) = (files.path(), output.with_file_name(location));
    let refuse = |what| Err(refused(output, location, what));
    if Format::is_of_device(output) {
        return refuse("a device has no files beside it (name an .onnx file)".into());
    }
    if is_same(&path, input) {
        return refuse("it is the input (want another name)".into());
    }
    if fs::symlink_metadata(&path).is_ok_and(|there| there.is_symlink()) {
        return refuse("it is a symlink, which is not written through (want another name)".into());
    }
    if files.paths.iter().any(|used| is_same(&path, used)) && !is_same(input, output) {
        let what = Wording::from("the input's own elements are there (");
        return refuse(what.field("external_data", " gives another name)"));
    }
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::messages;
    use onnx_cast::DataType;
    use onnx_cast_file::__private::{onnx, wire};
    use std::ops::ControlFlow;

    /// A model of initializers of as many elements, whose bytes are all 7.
    pub(crate) fn model(data_type: DataType, sizes: &[usize]) -> Vec<u8> {
        let (mut graph, mut opset, mut model) = (Vec::new(), Vec::new(), Vec::new());
        for (index, &size) in sizes.iter().enumerate() {
            let mut tensor = Vec::new();
            wire::put_int(&mut tensor, onnx::tensor::DIMS, size as u64);
            wire::put_int(&mut tensor, onnx::tensor::DATA_TYPE, data_type.onnx() as u64);
            wire::put_bytes(&mut tensor, onnx::tensor::NAME, format!("w{index}").as_bytes());
            wire::put_bytes(&mut tensor, onnx::tensor::RAW_DATA, &vec![7; data_type.byte_len(size).expect("a size")]);
            wire::put_bytes(&mut graph, messages::graph::INITIALIZER, &tensor);
        }
        wire::put_int(&mut opset, messages::opset::VERSION, 21);
        wire::put_int(&mut model, messages::model::IR_VERSION, 10);
        wire::put_bytes(&mut model, messages::model::GRAPH, &graph);
        wire::put_bytes(&mut model, messages::model::OPSET_IMPORT, &opset);
        model
    }

    #[test]
    fn what_is_too_large_for_a_message_goes_beside_it() {
        let bytes = model(DataType::Uint8, &[5000]);
        let outline = Outline::of(Backing::Memory(&bytes), &MODEL).expect("an outline");
        let document = Document::parse(&outline.bytes).expect("a model");
        let files = Files::open(&outline, &[]).expect("no files");
        let arranged = |limit, threshold| {
            let storage = Storage::default().external_threshold(threshold);
            arrange(&document, &files, &Edits::default(), "m.data", &storage, limit)
        };
        let (message, layout) = arranged(bytes.len() as u64, None).expect("it fits");
        assert_eq!((message.len(), layout.data.len()), (bytes.len() as u64, 0));
        let (message, layout) = arranged(bytes.len() as u64 - 1, None).expect("it fits without the elements");
        assert!(message.len() < 200 && layout.data.len() == 1);
        let written = |tasks: &[Task<'_>], len: u64| {
            let out = InMemory(Mutex::new(vec![0; len as usize]));
            pipeline::run(tasks, None, &out, &|_| ControlFlow::Continue(())).expect("written");
            out.0.into_inner().expect("no panic")
        };
        let (out, data) = (written(&message.tasks(), message.len()), written(&layout.tasks(), 5000));
        assert!(Document::parse(&out).expect("a model").tensors().is_ok_and(|tensors| tensors.len() == 1));
        assert_eq!(data, vec![7; 5000]);
        for (limit, threshold) in [(50, None), (1000, Some(5001))] {
            let error = arranged(limit, threshold).map(drop).expect_err("too large");
            assert!(error.kind == ModelErrorKind::Size, "{error}");
        }
    }

    /// What another process may do to a model while it is read: one that is replaced is read as it was, and one that is
    /// cut short is an error.
    #[test]
    fn a_model_that_changes_meanwhile_does_not_mix() {
        let folder = tempfile::tempdir().expect("a folder");
        let [input, other, output] = ["m.onnx", "other.onnx", "out.onnx"].map(|name| folder.path().join(name));
        let bytes = model(DataType::Uint8, &[5000, 100]);
        let storage = Storage::default();
        let while_open = |change: &dyn Fn()| {
            std::fs::write(&input, &bytes).expect("written");
            let edit = |_: &Document<'_>, _: &Files<'_>| Ok((Edits::default(), change()));
            rewrite(
                ModelSource::File(&input),
                Some(&output),
                &Request::new(&storage),
                |document, files| edit(document, files),
                |()| Ok(()),
            )
        };
        let replace = || {
            std::fs::write(&other, model(DataType::Uint8, &[9000])).expect("written");
            std::fs::rename(&other, &input).expect("replaced");
        };
        while_open(&replace).expect("the old model");
        assert_eq!(std::fs::read(&output).expect("read"), bytes);
        std::fs::remove_file(&output).expect("removed");
        let cut = || std::fs::File::options().write(true).open(&input).expect("opened").set_len(300).expect("cut");
        let error = while_open(&cut).expect_err("the rest is gone").to_string();
        assert!(error.contains("m.onnx") && !output.exists(), "{error}");
    }
}
