//! The cast of one file: the fate of each tensor, and the work by the pipeline.

use super::Work;
use crate::counts::{Alarms, Counter, Counters, alarms_of_strings, count_strings};
use crate::error::FileError;
use crate::formats::error::FormatError;
use crate::formats::format::Format;
use crate::formats::input::{Input, Place, Stored, check_type};
use crate::formats::npz;
use crate::formats::output::Output;
use crate::formats::safetensors;
use crate::formats::source::{Items, byte_len};
use crate::io::positional::InputFile;
use crate::io::progress::Meter;
use crate::opened::of_stored;
use crate::pipeline::{self, Elements, InPlace, Nowhere, Same, Sink, Task, Transform, Trouble};
use crate::replaced;
use crate::request::CastRequest;
use crate::summary::{Summary, TensorSummary};
use onnx_cast::{DataType, Plan, Tensor, TensorError};
use std::path::Path;
use std::sync::Mutex;

/// What stands before and behind the elements of a file.
pub(crate) type Frame = (Vec<u8>, Vec<u8>);

/// A file whose every tensor's fate is decided.
pub(crate) struct Job<'a> {
    pub(crate) input: Input,
    pub(super) sink: Output<'a>,
    /// Threads at most.
    threads: Option<usize>,
    /// The cast of each tensor; `None` keeps it.
    plans: Vec<Option<Plan>>,
    /// What counts for each tensor that is cast: everything where that is asked for, otherwise alarms.
    counters: Vec<Option<Counter>>,
}

impl<'a> Job<'a> {
    pub(crate) fn new(
        mut input: Input,
        sink: Output<'a>,
        request: &CastRequest,
        work: &Work<'_>,
    ) -> Result<Self, FileError> {
        let plans = if input.format.holds_many() && sink.format.holds_many() {
            plans_of_many(&input, request, work)?
        } else {
            input = input.single("another format", request.from)?;
            vec![plan_of_one(&mut input, &sink, request, work)?]
        };
        let mut counters = Counters::new(request.counts());
        let counter = |plan: &Option<Plan>| {
            let plan = plan.filter(|_| work.is_cast())?;
            counters.of(plan.source_type(), plan.target_type())
        };
        let counters = plans.iter().map(counter).collect();
        Ok(Job { input, sink, threads: request.options.threads, plans, counters })
    }

    /// Refuses to replace what seems to be another input.
    pub(super) fn check_output(&self, rows: &[TensorSummary], request: &CastRequest) -> Result<(), FileError> {
        replaced::check_file(&self.input.file, self.sink.path, self.sink.format, rows, &[], &request.write)
    }

    pub(super) fn has_strings(&self) -> bool {
        let text = |plan: &Option<Plan>| plan.is_some_and(|plan| plan.target_type() == DataType::String);
        self.rows().any(|(stored, plan)| stored.data_type == DataType::String || text(plan))
    }

    /// What is to be done, and what stands before and behind the elements.
    pub(crate) fn plan(&self) -> Result<(Summary, Frame), FileError> {
        let tensors = self.rows().map(|(stored, plan)| summary(stored, plan)).collect::<Result<_, _>>();
        let tensors = tensors.map_err(|(name, error)| self.input.cast_error(&name, error.into()))?;
        let summary = Summary::new(tensors);
        let frame = self.frame(&summary)?;
        Ok((summary, frame))
    }

    /// Writes the output, which `ready` is called for before it gets its name.
    pub(super) fn run(
        &self,
        request: &CastRequest,
        meter: &Meter<'_>,
        ready: &dyn Fn() -> Result<(), FileError>,
    ) -> Result<Summary, FileError> {
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
        out.as_private_as(&self.input.file)?;
        if self.sink.format == Format::Npz {
            self.write_archive(&summary, &mut out, meter)?;
        } else {
            self.pass(&summary, &frame, &InPlace(out.file()), meter)?;
        }
        self.counted(&mut summary, request)?;
        if self.sink.path != Path::new("-") {
            out.sync()?;
        }
        ready()?;
        out.commit()?;
        Ok(summary)
    }

    /// Notes what was counted, and fails where that is too much.
    fn counted(&self, summary: &mut Summary, request: &CastRequest) -> Result<(), FileError> {
        for (row, counter) in summary.tensors.iter_mut().zip(&self.counters) {
            counter.iter().for_each(|counter| row.note(counter));
        }
        FileError::check_losses(summary, self.input.path(), &request.fail_on)
    }

    /// Casts what is counted, and writes nothing.
    pub(super) fn rehearse(&self, request: &CastRequest, meter: &Meter<'_>) -> Result<Summary, FileError> {
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

    /// How long the output is.
    pub(crate) fn end(&self, summary: &Summary, frame: &Frame) -> u64 {
        self.places(summary, frame).last().copied().unwrap_or(0) + frame.1.len() as u64
    }

    /// Where each tensor goes in the output, and behind the last.
    fn places(&self, summary: &Summary, frame: &Frame) -> Vec<u64> {
        let mut at = frame.0.len() as u64;
        let mut places = vec![at];
        for ((stored, _), row) in self.rows().zip(&summary.tensors) {
            at += if self.sink.unpacks() && row.to.is_packed() { stored.len as u64 } else { row.bytes_after };
            places.push(at);
        }
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
    pub(super) fn pass_member(
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

    pub(super) fn rows(&self) -> impl Iterator<Item = (&Stored, &Option<Plan>)> {
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
            return Ok((header.map_err(|error| self.sink.invalid(error))?, Vec::new()));
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

    pub(super) fn task<'t>(&'t self, index: usize, stored: &'t Stored, plan: &'t Option<Plan>, to: u64) -> Task<'t> {
        // What is streamed has its elements put in; the others never come here.
        let empty = || Task::keeping(Elements::Memory(&[]), stored.len, stored.data_type, Items::PLAIN);
        let transform = plan.as_ref().map(|plan| plan as &dyn Transform);
        let counter = self.counters.get(index).and_then(Option::as_ref);
        let unpacks = self.sink.unpacks();
        Task { transform, unpacks, to, counter, ..of_stored(&self.input, stored).unwrap_or_else(empty) }
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
    pub(super) fn run_strings(&mut self, request: &CastRequest) -> Result<Summary, FileError> {
        let source = self.input.take(0)?;
        let wrong = |error| FileError::cast(self.input.path(), &source.name, error);
        let view = source.view().map_err(|error| wrong(error.into()))?;
        let plan = self.plans.first().copied().flatten();
        let result = plan.map(|plan| plan.run(&view)).transpose().map_err(wrong)?;
        let result = result.as_ref().map_or(view, Tensor::view);
        let counted = request.counts() && plan.is_some();
        let counts =
            counted.then(|| count_strings(&view, &result)).transpose().map_err(wrong)?.map(|(counts, _)| counts);
        let alarms = match &counts {
            Some(counts) => Some(Alarms::from(counts)),
            None => plan.map(|_| alarms_of_strings(&view, &result)).transpose().map_err(wrong)?,
        };
        let row = TensorSummary {
            from: view.data_type(),
            to: result.data_type(),
            bytes_before: byte_len(&view),
            bytes_after: byte_len(&result),
            cast: plan.is_some(),
            counts,
            alarms,
            name: source.name.clone(),
            shape: source.shape.clone(),
        };
        let summary = Summary::new(vec![row]);
        FileError::check_losses(&summary, self.input.path(), &request.fail_on)?;
        if !request.dry_run {
            let mut out = self.sink.create()?;
            out.as_private_as(&self.input.file)?;
            self.sink.write(&mut out, &source.name, &result, self.message())?;
            out.commit()?;
        }
        Ok(summary)
    }
}

/// The cast of the tensor of a file of one.
fn plan_of_one(
    input: &mut Input,
    sink: &Output<'_>,
    request: &CastRequest,
    work: &Work<'_>,
) -> Result<Option<Plan>, FileError> {
    let stem = input.path().file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let Some(stored) = input.tensors.first_mut() else { return Ok(None) };
    if sink.format.holds_many() && stored.name.is_empty() {
        // The format asks for a name; the file's is the best that there is.
        stored.name = stem;
    }
    let to = request.selection.target_of_one(&stored.name, stored.len as u64);
    let plan = to.map(|to| (work.plan)(stored.data_type, to)).transpose();
    plan.map_err(|error| FileError::cast(input.file.path(), &stored.name, error.into()))
}

/// The casts from several tensors to several.
fn plans_of_many(input: &Input, request: &CastRequest, work: &Work<'_>) -> Result<Vec<Option<Plan>>, FileError> {
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
    Ok(plans)
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
        alarms: None,
    })
}
