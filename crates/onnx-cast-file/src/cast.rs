//! From file to file: what becomes of each tensor is decided first, then they are cast in chunks (`flow.rs`).

use crate::atomic::{AtomicFile, folder_of};
use crate::error::FileError;
use crate::flow::{self, Elements, Sink, Task, Trouble};
use crate::format::Format;
use crate::input::{Input, Place, Stored, check_type};
use crate::output::Output;
use crate::positional::{InputFile, write_at};
use crate::safetensors::{self, SafetensorsError};
use crate::selection::Selection;
use crate::sharded::{self, Index, Located};
use crate::source::{Items, zeros};
use crate::tensor::WriteOptions;
use onnx_cast::{BitCast, Cast, CastOptions, Data, DataType, OpError, Operator, Plan, Tensor, TensorError, TensorView};
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What to cast of a file, to what, and how.
#[derive(Clone, Debug)]
pub struct FileCast {
    /// Which tensors, and to which types.
    pub selection: Selection,
    /// The opset and the operator's attributes. BitCast takes the opset alone.
    pub options: CastOptions,
    /// The input's type, where a `.npy` file does not tell it. Elsewhere it must be the file's.
    pub from: Option<DataType>,
    /// How to write.
    pub write: WriteOptions,
    /// Find out what would be done, and write nothing.
    pub dry_run: bool,
    /// Leave files alone that hold already what would be written: their bytes are compared with what the cast gives.
    pub resume: bool,
    /// Who is told how far the work is.
    pub watch: Option<Watch>,
}

impl FileCast {
    /// To a type, with ONNX's defaults.
    pub fn new(to: DataType) -> Self {
        FileCast {
            selection: Selection::new(to),
            options: CastOptions::default(),
            from: None,
            write: WriteOptions::default(),
            dry_run: false,
            resume: false,
            watch: None,
        }
    }
}

/// A function that is told, from any thread, how many bytes of elements have been read, and of how many.
#[derive(Clone)]
pub struct Watch(Arc<dyn Fn(u64, u64) -> ControlFlow<()> + Send + Sync>);

impl Watch {
    /// With this function.
    pub fn new(tell: impl Fn(u64, u64) + Send + Sync + 'static) -> Watch {
        Watch::stopping(move |done, total| {
            tell(done, total);
            ControlFlow::Continue(())
        })
    }

    /// With this function, which may also end the work: the output is then as it was before, and the cast returns
    /// [`FileError::Stopped`].
    pub fn stopping(tell: impl Fn(u64, u64) -> ControlFlow<()> + Send + Sync + 'static) -> Watch {
        Watch(Arc::new(tell))
    }
}

/// How far the work is.
struct Meter<'a> {
    watch: Option<&'a Watch>,
    done: AtomicU64,
    total: u64,
}

impl<'a> Meter<'a> {
    fn new(request: &'a FileCast, summary: &Summary) -> Self {
        let total = summary.tensors.iter().map(|row| row.bytes_before).sum();
        Meter { watch: request.watch.as_ref(), done: AtomicU64::new(0), total }
    }

    fn add(&self, bytes: u64) -> ControlFlow<()> {
        let done = self.done.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.watch.map_or(ControlFlow::Continue(()), |watch| (watch.0)(done.min(self.total), self.total))
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Watch(..)")
    }
}

/// What was done with a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Summary {
    /// The tensors, in the order of the output file.
    pub tensors: Vec<TensorSummary>,
    /// Files that were there already, with the content that they were to get: see [`FileCast::resume`].
    pub already_there: usize,
}

/// What was done with a tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TensorSummary {
    /// Its name; empty where there is none.
    pub name: String,
    /// Its shape.
    pub shape: Vec<usize>,
    /// The type that it had.
    pub from: DataType,
    /// The type that it has.
    pub to: DataType,
    /// Bytes of its elements in the input, packed as ONNX packs them; of strings, the bytes of their text.
    pub bytes_before: u64,
    /// Bytes of its elements in the output.
    pub bytes_after: u64,
    /// Whether it was cast, or only kept.
    pub cast: bool,
}

/// Casts a file: the tensor of a `.pb`, `.npy` or `.safetensors` file to another file of any of these formats; of a
/// `.safetensors` file to a `.safetensors` file every tensor that is selected, all others and the metadata kept.
///
/// The tensor of a file of one is cast whatever its type; names and sizes may still exclude it.
///
/// Input and output may be the same path. On any error the output is as it was before.
///
/// # Errors
/// Where a file cannot be read or written, the input is not valid, a tensor cannot be cast, or the output's format has no
/// place for the result.
pub fn cast_file(input: impl AsRef<Path>, output: impl AsRef<Path>, request: &FileCast) -> Result<Summary, FileError> {
    // A chunk is cast by the thread that reads and writes it.
    let options = CastOptions { threads: Some(1), ..request.options };
    let plan = |from, to| Cast::new(to, &options)?.plan(from);
    for to in request.selection.targets() {
        Cast::new(to, &options).map_err(|error| FileError::Operator { error })?;
    }
    let select = |stored: &Stored| request.selection.target(&stored.name, stored.data_type, stored.len as u64);
    let work = Work { name: "cast", plan: &plan, select: &select, needs_one: false };
    convert(input.as_ref(), output.as_ref(), request, &work)
}

/// Reinterprets the bits of a file, as [`cast_file`] casts it; of a `.safetensors` file to a `.safetensors` file every
/// tensor that is selected by name and size and whose elements are as wide as the target's, all others kept.
///
/// # Errors
/// As [`cast_file`], where an attribute is given, which BitCast has none of, and where no tensor is as wide as the target.
pub fn bit_cast_file(
    input: impl AsRef<Path>,
    output: impl AsRef<Path>,
    request: &FileCast,
) -> Result<Summary, FileError> {
    let CastOptions { opset, saturate, round_mode, .. } = request.options;
    let operator = |error| FileError::Operator { error };
    for to in request.selection.targets() {
        let cast = BitCast::new(to, opset).map_err(operator)?;
        for (name, given) in [("saturate", saturate.is_some()), ("round_mode", round_mode.is_some())] {
            if given {
                let (operator, version, name) = (Operator::BitCast, cast.version(), name.to_owned());
                let error = OpError::UnknownAttribute { operator, version, name, since: None };
                return Err(FileError::Operator { error });
            }
        }
    }
    let plan = |from, to| BitCast::new(to, opset)?.plan(from);
    let select = |stored: &Stored| {
        let to = request.selection.target_of_one(&stored.name, stored.len as u64);
        to.filter(|to| to.bits() == stored.data_type.bits())
    };
    let work = Work { name: "bitcast", plan: &plan, select: &select, needs_one: true };
    convert(input.as_ref(), output.as_ref(), request, &work)
}

/// What is to be done with a file.
struct Work<'a> {
    /// The command that does it.
    name: &'static str,
    /// The cast between two types.
    plan: &'a dyn Fn(DataType, DataType) -> Result<Plan, OpError>,
    /// The target of one of several tensors.
    select: &'a dyn Fn(&Stored) -> Option<DataType>,
    /// Whether it is an error that none is selected.
    needs_one: bool,
}

fn convert(input: &Path, output: &Path, request: &FileCast, work: &Work<'_>) -> Result<Summary, FileError> {
    match sharded::locate(input)? {
        Located::File => convert_file(input, output, request, work),
        Located::InFolder(file) => {
            let output = output.join(file.file_name().unwrap_or_default());
            if !request.dry_run {
                create_folder(&output)?;
            }
            convert_file(&file, &output, request, work)
        }
        Located::Index(index) => convert_shards(&Index::read(&index)?, output, request, work),
    }
}

/// Makes the folder that a file is to be in.
fn create_folder(file: &Path) -> Result<(), FileError> {
    let folder = folder_of(file);
    fs::create_dir_all(folder).map_err(|error| FileError::io(folder, "make the folder", error))
}

/// A checkpoint in several files: all of it is planned before the first is written.
fn convert_shards(index: &Index, output: &Path, request: &FileCast, work: &Work<'_>) -> Result<Summary, FileError> {
    let output = index.output(output)?;
    let job = |shard: &str, target, needs_one| {
        let input = Input::open(&index.file(shard), Format::Safetensors, None)?;
        let sink = Output { path: target, format: Format::Safetensors, options: &request.write };
        Job::new(input, sink, request, &Work { needs_one, ..*work })
    };
    let targets: Vec<PathBuf> = index.shards.iter().map(|(shard, _)| output.with_file_name(shard)).collect();
    let mut summary = Summary::default();
    for ((shard, listed), target) in index.shards.iter().zip(&targets) {
        let job = job(shard, target, false)?;
        index.check(shard, listed, &job.input)?;
        let (planned, _) = job.plan()?;
        summary.tensors.extend(planned.tensors);
    }
    if work.needs_one
        && summary.tensors.iter().all(|row| !row.cast)
        && let (Some((shard, _)), Some(target)) = (index.shards.first(), targets.first())
    {
        job(shard, target, true)?;
    }
    if request.dry_run {
        return Ok(summary);
    }
    create_folder(&output)?;
    let meter = Meter::new(request, &summary);
    for ((shard, _), target) in index.shards.iter().zip(&targets) {
        let done = job(shard, target, false)?.run(request, &meter)?;
        summary.already_there += done.already_there;
    }
    index.write(&output, summary.tensors.iter().map(|row| row.bytes_after).sum())?;
    Ok(summary)
}

fn convert_file(input: &Path, output: &Path, request: &FileCast, work: &Work<'_>) -> Result<Summary, FileError> {
    let (format, target) = (Format::from_path(input)?, Format::from_path(output)?);
    let refuse = |path: &Path, format| {
        let hint = "`run` evaluates a model";
        FileError::Format { path: path.to_owned(), what: work.name, format, hint }
    };
    if format == Format::Onnx {
        return Err(refuse(input, format));
    }
    if target == Format::Onnx {
        return Err(refuse(output, target));
    }
    if target == Format::Safetensors
        && let Some(data_type) = request.selection.targets().find(|&to| safetensors::type_name(to).is_none())
    {
        let error = SafetensorsError::NoName { tensor: String::new(), data_type };
        return Err(FileError::safetensors(output, error));
    }
    let file = Input::open(input, format, request.from)?;
    let sink = Output { path: output, format: target, options: &request.write };
    let mut job = Job::new(file, sink, request, work)?;
    if job.has_strings() {
        // Only a file of one tensor has them.
        return job.run_strings(request);
    }
    let (summary, _) = job.plan()?;
    if request.dry_run {
        return Ok(summary);
    }
    job.run(request, &Meter::new(request, &summary))
}

/// What stands before and behind the elements of a file.
type Frame = (Vec<u8>, Vec<u8>);

/// A file whose every tensor's fate is decided.
struct Job<'a> {
    input: Input,
    sink: Output<'a>,
    /// The cast of each tensor; `None` keeps it.
    plans: Vec<Option<Plan>>,
}

impl<'a> Job<'a> {
    fn new(input: Input, sink: Output<'a>, request: &FileCast, work: &Work<'_>) -> Result<Self, FileError> {
        if input.format.holds_many() && sink.format.holds_many() {
            return Self::every(input, sink, request, work);
        }
        let mut input = input.single("another format", request.from)?;
        let mut plans = Vec::with_capacity(1);
        let stem = input.path().file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if let [stored] = &mut input.tensors[..] {
            if sink.format == Format::Safetensors && stored.name.is_empty() {
                // The format asks for a name; the file's is the best that there is.
                stored.name = stem;
            }
            let to = request.selection.target_of_one(&stored.name, stored.len as u64);
            let plan = to.map(|to| (work.plan)(stored.data_type, to)).transpose();
            let plan = plan.map_err(|error| FileError::cast(input.file.path(), &stored.name, error.into()))?;
            plans.push(plan);
        }
        Ok(Job { input, sink, plans })
    }

    /// From several tensors to several.
    fn every(input: Input, sink: Output<'a>, request: &FileCast, work: &Work<'_>) -> Result<Self, FileError> {
        let plan = |stored: &Stored, to| {
            (work.plan)(stored.data_type, to).map_err(|error| input.cast_error(&stored.name, error.into()))
        };
        let mut plans = Vec::with_capacity(input.tensors.len());
        for stored in &input.tensors {
            let to = (work.select)(stored);
            if to.is_some() {
                check_type(input.path(), stored, request.from)?;
            }
            plans.push(to.map(|to| plan(stored, to)).transpose()?);
        }
        if work.needs_one
            && plans.iter().all(Option::is_none)
            && let (Some(first), Some(to)) = (input.tensors.first(), request.selection.to)
        {
            // Every width differs: the operator's own error for the first tensor says so.
            plan(first, to)?;
        }
        Ok(Job { input, sink, plans })
    }

    fn has_strings(&self) -> bool {
        let text = |plan: &Option<Plan>| plan.is_some_and(|plan| plan.to() == DataType::String);
        self.rows().any(|(stored, plan)| stored.data_type == DataType::String || text(plan))
    }

    /// What is to be done, and what stands before and behind the elements.
    fn plan(&self) -> Result<(Summary, Frame), FileError> {
        let tensors = self.rows().map(|(stored, plan)| summary(stored, plan)).collect::<Result<_, _>>();
        let tensors = tensors.map_err(|(name, error)| self.input.cast_error(&name, error.into()))?;
        let summary = Summary { tensors, ..Summary::default() };
        let frame = self.frame(&summary)?;
        Ok((summary, frame))
    }

    fn run(&self, request: &FileCast, meter: &Meter<'_>) -> Result<Summary, FileError> {
        let (mut summary, frame) = self.plan()?;
        let before = meter.done.load(Ordering::Relaxed);
        if request.resume && self.is_there(&summary, &frame, meter) {
            summary.already_there = 1;
            return Ok(summary);
        }
        meter.done.store(before, Ordering::Relaxed);
        let out = AtomicFile::create(self.sink.path)?;
        self.pass(&summary, &frame, &InPlace(out.file()), meter)?;
        out.commit()?;
        Ok(summary)
    }

    /// Whether the output holds already what would be written.
    fn is_there(&self, summary: &Summary, frame: &Frame, meter: &Meter<'_>) -> bool {
        // Whatever goes wrong here is another reason to write the file, and is told there.
        let Ok(there) = InputFile::open(self.sink.path) else { return false };
        let end = self.ends(summary, frame).last().copied().unwrap_or(frame.0.len() as u64);
        there.len() == end + frame.1.len() as u64 && self.pass(summary, frame, &Same(&there), meter).is_ok()
    }

    /// Where each tensor ends in the output.
    fn ends(&self, summary: &Summary, frame: &Frame) -> Vec<u64> {
        let mut at = frame.0.len() as u64;
        let mut ends = Vec::with_capacity(summary.tensors.len());
        for ((stored, _), row) in self.rows().zip(&summary.tensors) {
            at += if self.sink.unpacks() && row.to.is_packed() { stored.len as u64 } else { row.bytes_after };
            ends.push(at);
        }
        ends
    }

    /// Casts everything, to whatever takes it.
    fn pass(&self, summary: &Summary, frame: &Frame, sink: &dyn Sink, meter: &Meter<'_>) -> Result<(), FileError> {
        let (head, tail) = frame;
        let mut at = head.len() as u64;
        let mut tasks = Vec::with_capacity(summary.tensors.len());
        for ((stored, plan), end) in self.rows().zip(self.ends(summary, frame)) {
            tasks.push(self.task(stored, plan, at));
            at = end;
        }
        let failed = |error| FileError::io(self.sink.path, "write", error);
        sink.put(0, head).map_err(failed)?;
        let progress = |bytes| meter.add(bytes);
        flow::run(&tasks, sink, &progress).map_err(|(task, trouble)| self.error(task, trouble))?;
        sink.put(at, tail).map_err(failed)
    }

    fn rows(&self) -> impl Iterator<Item = (&Stored, &Option<Plan>)> {
        self.input.tensors.iter().zip(&self.plans)
    }

    /// What stands before and behind the elements.
    fn frame(&self, summary: &Summary) -> Result<Frame, FileError> {
        if self.sink.format == Format::Safetensors {
            let list: Vec<safetensors::Planned<'_>> =
                summary.tensors.iter().map(|row| (&*row.name, row.to, &*row.shape)).collect();
            let header = safetensors::header(self.input.metadata.as_deref(), &list);
            return Ok((header.map_err(|error| self.sink.safetensors_error(error))?, Vec::new()));
        }
        match &summary.tensors[..] {
            [row] => self.sink.frame(&row.name, row.to, &row.shape, row.bytes_after, self.message()),
            rows => {
                let (path, what) = (self.input.path().to_owned(), "another format");
                Err(FileError::TensorCount { path, count: rows.len(), what })
            }
        }
    }

    /// The TensorProto whose other fields are kept.
    fn message(&self) -> Option<&[u8]> {
        self.input.message.as_deref().filter(|_| self.sink.format == Format::TensorProto)
    }

    fn task<'t>(&'t self, stored: &'t Stored, plan: &Option<Plan>, to: u64) -> Task<'t> {
        let (elements, items) = match &stored.place {
            Place::File(at, items) => (Elements::File(&self.input.file, *at), *items),
            Place::Memory(bytes) => (Elements::Memory(bytes), Items::PLAIN),
            Place::Strings(_) => (Elements::Memory(&[]), Items::PLAIN),
        };
        let unpacks = self.sink.unpacks();
        Task { elements, len: stored.len, from: stored.data_type, items, plan: *plan, unpacks, to }
    }

    fn error(&self, task: usize, trouble: Trouble) -> FileError {
        match trouble {
            Trouble::Read(error) => FileError::io(self.input.path(), "read", error),
            Trouble::Write(error) => FileError::io(self.sink.path, "write", error),
            Trouble::Stopped => FileError::Stopped { path: self.sink.path.to_owned() },
            Trouble::Cast(error) => {
                let name = self.input.tensors.get(task).map_or("", |stored| stored.name.as_str());
                self.input.cast_error(name, error)
            }
        }
    }

    /// Strings have no fixed size, and an error in one must tell its index in the whole tensor.
    fn run_strings(&mut self, request: &FileCast) -> Result<Summary, FileError> {
        let source = self.input.take(0)?;
        let wrong = |error| FileError::cast(self.input.path(), &source.name, error);
        let view = source.view().map_err(|error| wrong(error.into()))?;
        let plan = self.plans.first().copied().flatten();
        let result = plan.map(|plan| plan.run(&view)).transpose().map_err(wrong)?;
        let result = result.as_ref().map_or(view, Tensor::view);
        if !request.dry_run {
            let mut out = AtomicFile::create(self.sink.path)?;
            self.sink.write_with(&mut out, &source.name, &result, self.message())?;
            out.commit()?;
        }
        let size = |view: &TensorView<'_>| match view.data() {
            Data::Bytes(bytes) => bytes.len() as u64,
            Data::Strings(strings) => strings.bytes().len() as u64,
        };
        Ok(Summary {
            tensors: vec![TensorSummary {
                from: view.data_type(),
                to: result.data_type(),
                bytes_before: size(&view),
                bytes_after: size(&result),
                cast: plan.is_some(),
                name: source.name.clone(),
                shape: source.shape.clone(),
            }],
            ..Summary::default()
        })
    }
}

/// What is done with a tensor that holds no strings; its name where its size overflows.
fn summary(stored: &Stored, plan: &Option<Plan>) -> Result<TensorSummary, (String, TensorError)> {
    let Stored { name, shape, data_type: from, len, .. } = stored;
    let to = plan.map_or(*from, |plan| plan.to());
    let bytes = |data_type: DataType| {
        let len = data_type.byte_len(*len).map(|len| len as u64);
        len.ok_or_else(|| (name.clone(), TensorError::TooLarge { data_type, shape: shape.clone() }))
    };
    Ok(TensorSummary {
        name: name.clone(),
        shape: shape.clone(),
        from: *from,
        to,
        bytes_before: bytes(*from)?,
        bytes_after: bytes(to)?,
        cast: plan.is_some(),
    })
}

/// A file that is written at any place.
struct InPlace<'a>(&'a File);

impl Sink for InPlace<'_> {
    fn put(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        write_at(self.0, at, bytes)
    }
}

/// A file that is compared with what would be written to it.
struct Same<'a>(&'a InputFile);

impl Sink for Same<'_> {
    fn put(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let mut there = zeros(bytes.len()).ok_or(io::ErrorKind::OutOfMemory)?;
        self.0.read_at(at, &mut there)?;
        if there == bytes { Ok(()) } else { Err(io::ErrorKind::InvalidData.into()) }
    }
}
