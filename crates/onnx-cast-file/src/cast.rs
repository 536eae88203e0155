//! From file to file: what becomes of each tensor is decided first, then they are cast in chunks (`pipeline.rs`).

use crate::counts::{Counter, count_strings};
use crate::error::FileError;
use crate::formats::checkpoint::{self, Index, Located};
use crate::formats::error::FormatError;
use crate::formats::format::Format;
use crate::formats::input::{Given, Input, Place, Stored, check_type};
use crate::formats::npz;
use crate::formats::output::Output;
use crate::formats::safetensors::{self, SafetensorsError};
use crate::formats::source::Items;
use crate::io::atomic::{create_folder, folder_of};
use crate::io::positional::InputFile;
use crate::io::progress::Meter;
use crate::others::Others;
use crate::pipeline::{self, Elements, InPlace, Nowhere, Same, Sink, Task, Transform, Trouble};
use crate::request::{BitCastRequest, CastRequest};
use crate::summary::{Summary, TensorSummary};
use onnx_cast::{BitCast, Cast, Data, DataType, OpError, Plan, Tensor, TensorError, TensorView};
use std::path::Path;
use std::sync::Mutex;

mod archive;
pub(crate) mod shards;

/// Casts a file: the tensor of a `.pb`, `.npy` or `.safetensors` file to another file of any of these formats; of a
/// `.safetensors` file to a `.safetensors` file every tensor that is selected, all others and the metadata kept.
///
/// The tensor of a file of one is cast whatever its type; names and sizes may still exclude it.
///
/// Input and output may be the same path. On any error the output is as it was before.
///
/// # Errors
/// Where a file cannot be read or written, the input is not valid, a tensor cannot be cast, or the output's format has
/// no place for the result.
pub fn cast_file(
    input: impl AsRef<Path>,
    output: impl AsRef<Path>,
    request: &CastRequest,
) -> Result<Summary, FileError> {
    with_cast(request, |work| convert(input.as_ref(), output.as_ref(), request, work))
}

/// Does what is to be done with casts.
pub(crate) fn with_cast<R>(
    request: &CastRequest,
    run: impl FnOnce(&Work<'_>) -> Result<R, FileError>,
) -> Result<R, FileError> {
    // A chunk is cast by the thread that reads and writes it.
    let options = request.options.threads(1);
    let plan = |from, to| Cast::new(to, &options)?.plan(from);
    for to in request.selection.targets() {
        Cast::new(to, &options).map_err(|error| FileError::Operator { error })?;
    }
    let select = |stored: &Stored| request.selection.target(&stored.name, stored.data_type, stored.len as u64);
    run(&Work { name: "cast", plan: &plan, select: &select, needs_one: false })
}

/// Reinterprets the bits of a file, as [`cast_file`] casts it; of a `.safetensors` file to a `.safetensors` file every
/// tensor that is selected by name and size and whose elements are as wide as the target's, all others kept.
///
/// # Errors
/// As [`cast_file`], and where no tensor is as wide as the target.
pub fn bit_cast_file(
    input: impl AsRef<Path>,
    output: impl AsRef<Path>,
    request: &BitCastRequest,
) -> Result<Summary, FileError> {
    let (request, opset) = (request.as_cast(), request.opset);
    for to in request.selection.targets() {
        BitCast::new(to, opset).map_err(|error| FileError::Operator { error })?;
    }
    let plan = |from, to| BitCast::new(to, opset)?.plan(from);
    let select = |stored: &Stored| {
        let to = request.selection.target_of_one(&stored.name, stored.len as u64);
        to.filter(|to| to.bits() == stored.data_type.bits())
    };
    let work = Work { name: "bitcast", plan: &plan, select: &select, needs_one: true };
    convert(input.as_ref(), output.as_ref(), &request, &work)
}

/// What is to be done with a file.
pub(crate) struct Work<'a> {
    /// The command that does it.
    name: &'static str,
    /// The cast between two types.
    plan: &'a dyn Fn(DataType, DataType) -> Result<Plan, OpError>,
    /// The target of one of several tensors.
    select: &'a dyn Fn(&Stored) -> Option<DataType>,
    /// Whether it is an error that none is selected.
    needs_one: bool,
}

fn convert(input: &Path, output: &Path, request: &CastRequest, work: &Work<'_>) -> Result<Summary, FileError> {
    match checkpoint::locate(input)? {
        Located::File => convert_file(input, output, request, work),
        Located::InFolder(file) => {
            let others = Others::of(input, output, request)?;
            let output = output.join(file.file_name().unwrap_or_default());
            if !request.dry_run {
                create_folder(&output)?;
            }
            others.finish(convert_file(&file, &output, request, work)?)
        }
        Located::Index(index) => {
            let index = Index::read(&index)?;
            let output = index.output(output)?;
            let others = Others::of(input, folder_of(&output), request)?;
            let done = others.finish(convert_shards(&index, &output, request, work)?)?;
            // The index comes last: where it is, the checkpoint is complete.
            if !request.dry_run {
                index.write(&output, done.tensors.iter().map(|row| row.bytes_after).sum())?;
            }
            Ok(done)
        }
    }
}

/// The format of a path; none of the standard input and output.
fn format_of(path: &Path) -> Result<Option<Format>, FileError> {
    if path == Path::new("-") { Ok(None) } else { Ok(Some(Format::from_path(path)?)) }
}

/// A checkpoint in several files: all of it is planned before the first is written.
fn convert_shards(index: &Index, output: &Path, request: &CastRequest, work: &Work<'_>) -> Result<Summary, FileError> {
    let each = Work { needs_one: false, ..*work };
    let mut shards = shards::of_index(index, output, request, &each)?;
    let tensors = shards.iter_mut().flat_map(|shard| std::mem::take(&mut shard.tensors)).collect();
    let mut summary = Summary { tensors, ..Summary::default() };
    if work.needs_one
        && summary.tensors.iter().all(|row| !row.cast)
        && let Some(shard) = shards.first()
    {
        shards::open(&shard.input, &shard.output, request, work)?;
    }
    // Files appear one by one, so that all of them have to be good before the first.
    let rehearses = !request.fail_on.is_empty() || (request.dry_run && request.counts());
    let passes = u64::from(rehearses) + u64::from(!request.dry_run);
    let meter = Meter::new(request.watch.as_ref(), passes * summary.bytes_before());
    if rehearses {
        let rehearse = |shard: &shards::Shard| {
            Ok(shards::open(&shard.input, &shard.output, request, &each)?.rehearse(request, &meter)?.tensors)
        };
        summary.tensors = shards.iter().map(rehearse).collect::<Result<Vec<_>, FileError>>()?.concat();
    }
    if request.dry_run {
        return Ok(summary);
    }
    create_folder(output)?;
    let mut tensors = Vec::with_capacity(summary.tensors.len());
    for shard in &shards {
        let done = shards::open(&shard.input, &shard.output, request, &each)?.run(request, &meter)?;
        summary.already_there += done.already_there;
        tensors.extend(done.tensors);
    }
    summary.tensors = tensors;
    Ok(summary)
}

fn convert_file(input: &Path, output: &Path, request: &CastRequest, work: &Work<'_>) -> Result<Summary, FileError> {
    let format = if request.shape.is_some() { Some(Format::Raw) } else { format_of(input)? };
    let target = format_of(output)?;
    let refuse = |path: &Path, format| {
        let hint = "`run` evaluates a model";
        FormatError::Format { path: path.to_owned(), what: work.name, format, hint }
    };
    for (path, format) in [(input, format), (output, target)] {
        if let Some(Format::Onnx) = format {
            return Err(refuse(path, Format::Onnx).into());
        }
    }
    if target == Some(Format::Safetensors)
        && let Some(data_type) = request.selection.targets().find(|&to| safetensors::type_name(to).is_none())
    {
        let error = SafetensorsError::NoName { tensor: String::new(), data_type };
        return Err(FormatError::safetensors(output, error).into());
    }
    let given = Given { from: request.from, shape: request.shape.as_deref() };
    let file = Input::open(input, format, &given)?;
    // The standard output gets the format of the input.
    let sink = Output { path: output, format: target.unwrap_or(file.format), options: &request.write };
    let mut job = Job::new(file, sink, request, work)?;
    if !request.dry_run {
        job.input.settle(&job.sink.folder())?;
    } else if request.counts() {
        job.input.settle(&std::env::temp_dir())?;
    }
    if job.has_strings() && !job.sink.format.holds_many() {
        // Only a file of one tensor has them.
        return job.run_strings(request);
    }
    let (summary, _) = job.plan()?;
    let meter = Meter::new(request.watch.as_ref(), summary.bytes_before());
    match (request.dry_run, request.counts()) {
        (true, false) => Ok(summary),
        (true, true) => job.rehearse(request, &meter),
        (false, _) => job.run(request, &meter),
    }
}

/// What stands before and behind the elements of a file.
pub(crate) type Frame = (Vec<u8>, Vec<u8>);

/// A file whose every tensor's fate is decided.
pub(crate) struct Job<'a> {
    pub(crate) input: Input,
    sink: Output<'a>,
    /// Threads at most.
    threads: Option<usize>,
    /// The cast of each tensor; `None` keeps it.
    plans: Vec<Option<Plan>>,
    /// What counts for each tensor, where that is asked for.
    counters: Vec<Option<Counter>>,
}

impl<'a> Job<'a> {
    pub(crate) fn new(
        input: Input,
        sink: Output<'a>,
        request: &CastRequest,
        work: &Work<'_>,
    ) -> Result<Self, FileError> {
        let mut job = Self::planned(input, sink, request, work)?;
        if request.counts() {
            let counter =
                |plan: &Option<Plan>| plan.and_then(|plan| Counter::new(plan.source_type(), plan.target_type()).ok());
            job.counters = job.plans.iter().map(counter).collect();
        }
        Ok(job)
    }

    fn planned(input: Input, sink: Output<'a>, request: &CastRequest, work: &Work<'_>) -> Result<Self, FileError> {
        if input.format.holds_many() && sink.format.holds_many() {
            return Self::every(input, sink, request, work);
        }
        let mut input = input.single("another format", request.from)?;
        let mut plans = Vec::with_capacity(1);
        let stem = input.path().file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if let [stored] = &mut input.tensors[..] {
            if sink.format.holds_many() && stored.name.is_empty() {
                // The format asks for a name; the file's is the best that there is.
                stored.name = stem;
            }
            let to = request.selection.target_of_one(&stored.name, stored.len as u64);
            let plan = to.map(|to| (work.plan)(stored.data_type, to)).transpose();
            let plan = plan.map_err(|error| FileError::cast(input.file.path(), &stored.name, error.into()))?;
            plans.push(plan);
        }
        Ok(Job { input, sink, threads: request.options.threads, plans, counters: Vec::new() })
    }

    /// From several tensors to several.
    fn every(input: Input, sink: Output<'a>, request: &CastRequest, work: &Work<'_>) -> Result<Self, FileError> {
        let plan = |stored: &Stored, to| {
            (work.plan)(stored.data_type, to).map_err(|error| input.cast_error(&stored.name, error.into()))
        };
        let mut plans = Vec::with_capacity(input.tensors.len());
        for stored in &input.tensors {
            let to = (work.select)(stored);
            if let Some(to) = to {
                check_type(input.path(), stored, request.from)?;
                if (to == DataType::String) != (stored.data_type == DataType::String) {
                    return Err(FileError::Strings { path: input.path().to_owned(), tensor: stored.name.clone() });
                }
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
        Ok(Job { input, sink, threads: request.options.threads, plans, counters: Vec::new() })
    }

    fn has_strings(&self) -> bool {
        let text = |plan: &Option<Plan>| plan.is_some_and(|plan| plan.target_type() == DataType::String);
        self.rows().any(|(stored, plan)| stored.data_type == DataType::String || text(plan))
    }

    /// What is to be done, and what stands before and behind the elements.
    pub(crate) fn plan(&self) -> Result<(Summary, Frame), FileError> {
        let tensors = self.rows().map(|(stored, plan)| summary(stored, plan)).collect::<Result<_, _>>();
        let tensors = tensors.map_err(|(name, error)| self.input.cast_error(&name, error.into()))?;
        let summary = Summary { tensors, ..Summary::default() };
        let frame = self.frame(&summary)?;
        Ok((summary, frame))
    }

    fn run(&self, request: &CastRequest, meter: &Meter<'_>) -> Result<Summary, FileError> {
        let (mut summary, frame) = self.plan()?;
        let before = meter.done();
        if request.resume && self.sink.format != Format::Npz && self.is_there(&summary, &frame, meter) {
            summary.already_there = 1;
            self.counted(&mut summary, request)?;
            return Ok(summary);
        }
        // What the comparison has counted until then is counted again.
        meter.back_to(before);
        self.counters.iter().flatten().for_each(Counter::reset);
        let mut out = self.sink.create()?;
        if self.sink.format == Format::Npz {
            self.write_archive(&summary, &mut out, meter)?;
        } else {
            self.pass(&summary, &frame, &InPlace(out.file()), meter)?;
        }
        self.counted(&mut summary, request)?;
        out.commit()?;
        Ok(summary)
    }

    /// Notes what was counted, and fails where that is too much.
    fn counted(&self, summary: &mut Summary, request: &CastRequest) -> Result<(), FileError> {
        for (row, counter) in summary.tensors.iter_mut().zip(&self.counters) {
            row.counts = counter.as_ref().map(Counter::total);
        }
        FileError::check_losses(summary, self.input.path(), &request.fail_on)
    }

    /// Casts what is counted, and writes nothing.
    fn rehearse(&self, request: &CastRequest, meter: &Meter<'_>) -> Result<Summary, FileError> {
        let (mut summary, frame) = self.plan()?;
        let mut archive = match self.input.format {
            Format::Npz => Some(npz::open(&self.input.file)?),
            _ => None,
        };
        let mut tasks = self.tasks(&summary, &frame);
        for (index, (task, row)) in tasks.iter_mut().zip(&summary.tensors).enumerate() {
            if task.counter.is_none() {
                task.len = 0;
                // Whether to stop is asked again with the next chunk.
                let _ = meter.add(row.bytes_before);
            } else if let Some(archive) = &mut archive {
                task.len = 0;
                self.pass_member(index, archive, 0, &Nowhere, meter)?;
            }
        }
        self.flow(0, &tasks, &Nowhere, meter)?;
        self.counted(&mut summary, request)?;
        Ok(summary)
    }

    /// Whether the output holds already what would be written.
    fn is_there(&self, summary: &Summary, frame: &Frame, meter: &Meter<'_>) -> bool {
        // Whatever goes wrong here is another reason to write the file, and is told there.
        let Ok(there) = InputFile::open(self.sink.path) else { return false };
        there.len() == self.end(summary, frame) && self.pass(summary, frame, &Same(&there), meter).is_ok()
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

    /// How long the output is.
    pub(crate) fn end(&self, summary: &Summary, frame: &Frame) -> u64 {
        self.ends(summary, frame).last().copied().unwrap_or(frame.0.len() as u64) + frame.1.len() as u64
    }

    /// Where each tensor goes in the output, and behind the last.
    fn places(&self, summary: &Summary, frame: &Frame) -> Vec<u64> {
        let mut places = vec![frame.0.len() as u64];
        places.extend(self.ends(summary, frame));
        places
    }

    /// What is to be done with each tensor of a file whose elements are not streamed.
    pub(crate) fn tasks(&self, summary: &Summary, frame: &Frame) -> Vec<Task<'_>> {
        let places = self.places(summary, frame);
        let task = |(index, ((stored, plan), at))| self.task(index, stored, plan, at);
        self.rows().zip(places).enumerate().map(task).collect()
    }

    /// Casts everything, to whatever takes it.
    fn pass(&self, summary: &Summary, frame: &Frame, sink: &dyn Sink, meter: &Meter<'_>) -> Result<(), FileError> {
        let (head, tail) = frame;
        let failed = |error| FileError::io(self.sink.path, "write", error);
        sink.put(0, head).map_err(failed)?;
        let places = self.places(summary, frame);
        if self.input.format == Format::Npz {
            let mut archive = npz::open(&self.input.file)?;
            for (index, &at) in places.iter().enumerate().take(self.plans.len()) {
                self.pass_member(index, &mut archive, at, sink, meter)?;
            }
        } else {
            self.flow(0, &self.tasks(summary, frame), sink, meter)?;
        }
        sink.put(places.last().copied().unwrap_or(0), tail).map_err(failed)
    }

    /// Does tasks, the first of which is for this tensor.
    pub(crate) fn flow(
        &self,
        first: usize,
        tasks: &[Task<'_>],
        sink: &dyn Sink,
        meter: &Meter<'_>,
    ) -> Result<(), FileError> {
        let progress = |bytes| meter.add(bytes);
        pipeline::run(tasks, self.threads, sink, &progress).map_err(|(task, trouble)| self.error(first + task, trouble))
    }

    /// Casts one tensor, which is in a member of an archive if the file is one.
    fn pass_member(
        &self,
        index: usize,
        archive: &mut npz::Archive<'_>,
        at: u64,
        sink: &dyn Sink,
        meter: &Meter<'_>,
    ) -> Result<(), FileError> {
        let (Some(stored), Some(plan)) = (self.input.tensors.get(index), self.plans.get(index)) else { return Ok(()) };
        let Place::Member(member, items) = &stored.place else {
            return self.flow(index, &[self.task(index, stored, plan, at)], sink, meter);
        };
        npz::with_elements(&self.input.file, archive, member, |reader| {
            let stream = Mutex::new(reader);
            let task =
                Task { elements: Elements::Stream(&stream), items: *items, ..self.task(index, stored, plan, at) };
            self.flow(index, &[task], sink, meter)
        })
    }

    fn rows(&self) -> impl Iterator<Item = (&Stored, &Option<Plan>)> {
        self.input.tensors.iter().zip(&self.plans)
    }

    /// What stands before and behind the elements.
    fn frame(&self, summary: &Summary) -> Result<Frame, FileError> {
        if self.sink.format == Format::Npz {
            return Ok((Vec::new(), Vec::new()));
        }
        if self.sink.format == Format::Safetensors {
            let list: Vec<safetensors::Planned<'_>> =
                summary.tensors.iter().map(|row| (&*row.name, row.to, &*row.shape)).collect();
            let header = safetensors::header(self.input.metadata.as_deref(), &list);
            return Ok((header.map_err(|error| self.sink.safetensors_error(error))?, Vec::new()));
        }
        match &summary.tensors[..] {
            [row] => Ok(self.sink.frame(&row.name, row.to, &row.shape, row.bytes_after, self.message())?),
            rows => {
                let (path, what) = (self.input.path().to_owned(), "another format");
                Err(FormatError::TensorCount { path, count: rows.len(), what }.into())
            }
        }
    }

    /// The TensorProto whose other fields are kept.
    fn message(&self) -> Option<&[u8]> {
        self.input.message.as_deref().filter(|_| self.sink.format == Format::TensorProto)
    }

    fn task<'t>(&'t self, index: usize, stored: &'t Stored, plan: &'t Option<Plan>, to: u64) -> Task<'t> {
        let (elements, items) = match &stored.place {
            Place::File(at, items) => (Elements::File(&self.input.file, *at), *items),
            Place::Other(file, at, items) => (Elements::File(file, *at), *items),
            Place::Memory(bytes) => (Elements::Memory(bytes), Items::PLAIN),
            // Those that are streamed have their elements put in; the others never come here.
            Place::Member(_, items) | Place::Fortran(_, _, items, _) => (Elements::Memory(&[]), *items),
            Place::Strings(_) | Place::Message(..) => (Elements::Memory(&[]), Items::PLAIN),
        };
        let unpacks = self.sink.unpacks();
        let transform = plan.as_ref().map(|plan| plan as &dyn Transform);
        let counter = self.counters.get(index).and_then(Option::as_ref);
        Task { elements, len: stored.len, from: stored.data_type, items, transform, unpacks, to, counter }
    }

    fn error(&self, task: usize, trouble: Trouble) -> FileError {
        match trouble {
            Trouble::Read(error) => FileError::io(self.input.path(), "read", error),
            Trouble::Write(error) => FileError::io(self.sink.path, "write", error),
            Trouble::Stopped => FileError::Stopped { path: self.sink.path.to_owned() },
            Trouble::Cast(error) => {
                let name = self.input.tensors.get(task).map_or("", |stored| stored.name.as_str());
                self.input.cast_error(name, error).into()
            }
        }
    }

    /// Strings have no fixed size, and an error in one must tell its index in the whole tensor.
    fn run_strings(&mut self, request: &CastRequest) -> Result<Summary, FileError> {
        let source = self.input.take(0)?;
        let wrong = |error| FileError::cast(self.input.path(), &source.name, error);
        let view = source.view().map_err(|error| wrong(error.into()))?;
        let plan = self.plans.first().copied().flatten();
        let result = plan.map(|plan| plan.run(&view)).transpose().map_err(wrong)?;
        let result = result.as_ref().map_or(view, Tensor::view);
        let counted = request.counts() && plan.is_some();
        let counts = counted.then(|| count_strings(&view, &result)).transpose().map_err(wrong)?;
        let size = |view: &TensorView<'_>| match view.data() {
            Data::Bytes(bytes) => bytes.len() as u64,
            Data::Strings(strings) => strings.bytes().len() as u64,
        };
        let row = TensorSummary {
            from: view.data_type(),
            to: result.data_type(),
            bytes_before: size(&view),
            bytes_after: size(&result),
            cast: plan.is_some(),
            counts: counts.map(|(counts, _)| counts),
            name: source.name.clone(),
            shape: source.shape.clone(),
        };
        let summary = Summary { tensors: vec![row], ..Summary::default() };
        FileError::check_losses(&summary, self.input.path(), &request.fail_on)?;
        if !request.dry_run {
            let mut out = self.sink.create()?;
            self.sink.write_with(&mut out, &source.name, &result, self.message())?;
            out.commit()?;
        }
        Ok(summary)
    }
}

/// What is done with a tensor that holds no strings; its name where its size overflows.
fn summary(stored: &Stored, plan: &Option<Plan>) -> Result<TensorSummary, (String, TensorError)> {
    let Stored { name, shape, data_type: from, len, .. } = stored;
    let to = plan.map_or(*from, |plan| plan.target_type());
    let bytes = |data_type: DataType| {
        if let Place::Strings(strings) = &stored.place {
            return Ok(strings.view().bytes().len() as u64);
        }
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
        counts: None,
    })
}
