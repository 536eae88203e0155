//! The elements of a file on their way to a sink, by the pipeline.

use super::{Frame, OutputFile, OutputPlan, OutputTensor, Source};
use crate::error::FileError;
use crate::formats::format::Format;
use crate::formats::input::Location;
use crate::formats::npz;
use crate::formats::source::Items;
use crate::io::progress::Meter;
use crate::opened::of_stored;
use crate::pipeline::{self, Sink, Task, TaskInput, Transform};
use onnx_cast::DataType;
use onnx_cast::tensor::element_count;
use std::path::Path;
use std::slice;
use std::sync::Mutex;

impl OutputPlan<'_> {
    /// Hands a whole file to a sink.
    pub(super) fn pass(
        &self,
        file: &OutputFile<'_>,
        (head, tail): &Frame,
        sink: &dyn Sink,
        meter: &Meter<'_>,
    ) -> Result<(), FileError> {
        let failed = |error| FileError::io(&file.path, "write", error);
        sink.put(0, head).map_err(failed)?;
        self.flow(file, &self.tasks(file, head.len() as u64), sink, meter)?;
        let end = head.len() as u64 + file.elements();
        if tail.is_empty() { Ok(()) } else { sink.put(end, tail).map_err(failed) }
    }

    /// Does the tasks of a file. The members of an archive are read one by one.
    pub(super) fn flow(
        &self,
        file: &OutputFile<'_>,
        tasks: &[Task<'_>],
        sink: &dyn Sink,
        meter: &Meter<'_>,
    ) -> Result<(), FileError> {
        let source = self.source(file);
        if source.format != Format::Npz {
            return self.run_tasks(file, 0, tasks, sink, meter);
        }
        tasks.iter().enumerate().try_for_each(|(row, task)| self.flow_one(file, row, task, sink, meter))
    }

    /// Does the task of a tensor, which may be a member of an archive.
    pub(super) fn flow_one(
        &self,
        file: &OutputFile<'_>,
        row: usize,
        task: &Task<'_>,
        sink: &dyn Sink,
        meter: &Meter<'_>,
    ) -> Result<(), FileError> {
        let tensor = file.rows[row].tensor;
        let stored = self.checkpoint().stored(tensor);
        if let (Source::Array, Some(member)) = (&file.rows[row].source, self.source(file).members.get(tensor.tensor)) {
            if (task.len as u64) < member.len {
                return Ok(());
            }
            return member.with_array(&self.source(file).file, |reader| {
                let stream = Mutex::new(&mut *reader);
                let task = Task { elements: TaskInput::Stream(&stream), ..task.clone() };
                self.run_tasks(file, row, &[task], sink, meter)?;
                npz::finish(reader).map_err(|error| FileError::io(self.source(file).path(), "read", error))
            });
        }
        if matches!(stored.place, Location::Member(..) | Location::Fortran(..)) && task.len < stored.len {
            // It is left out of a rehearsal.
            return Ok(());
        }
        if let Location::Fortran(..) = stored.place {
            let ordered = self.source(file).in_c_order(tensor.tensor, &self.output(file).folder())?;
            let Some((view, items)) = ordered else { return Ok(()) };
            let task = Task { elements: TaskInput::File(&view, 0), items, ..task.clone() };
            return self.run_tasks(file, row, &[task], sink, meter);
        }
        let Location::Member(member, items) = &stored.place else {
            return self.run_tasks(file, row, slice::from_ref(task), sink, meter);
        };
        member.with_elements(&self.source(file).file, |reader| {
            let stream = Mutex::new(reader);
            let task = Task { elements: TaskInput::Stream(&stream), items: *items, ..task.clone() };
            self.run_tasks(file, row, &[task], sink, meter)
        })
    }

    /// Does tasks, the first of which is for this row.
    pub(super) fn run_tasks(
        &self,
        file: &OutputFile<'_>,
        first: usize,
        tasks: &[Task<'_>],
        sink: &dyn Sink,
        meter: &Meter<'_>,
    ) -> Result<(), FileError> {
        let progress = |bytes| meter.add(bytes);
        pipeline::run(tasks, self.options.threads, sink, &progress).map_err(|(task, error)| {
            let row = file.rows.get(first + task);
            let input = row.map_or(Path::new(""), |row| self.checkpoint().files[row.tensor.file].path());
            FileError::moving(error, input, &file.path, row.map_or("", |row| &row.summary.name))
        })
    }

    /// The tasks of a file, one for each row; its elements begin at a place.
    pub(super) fn tasks<'t>(&'t self, file: &'t OutputFile<'_>, mut at: u64) -> Vec<Task<'t>> {
        let unpacks = self.output(file).unpacks();
        let task = |row| {
            at = file.align(at);
            let behind = at + file.bytes(row);
            let task = Task { unpacks, beside: behind, ..self.task(row, at) };
            at = behind;
            task
        };
        file.rows.iter().map(task).collect()
    }

    fn task<'t>(&'t self, row: &'t OutputTensor<'_>, to: u64) -> Task<'t> {
        let input = &self.checkpoint().files[row.tensor.file];
        let stored = self.checkpoint().stored(row.tensor);
        let of_nothing = |len| Task::keeping(TaskInput::Memory(&[]), len, stored.data_type, Items::PLAIN);
        // Members of an archive have their elements put in.
        let of_stored = || Task { to, ..of_stored(input, stored).unwrap_or_else(|| of_nothing(stored.len)) };
        match &row.source {
            Source::Kept => of_stored(),
            Source::Array => {
                let len = usize::try_from(self.array_len(row)).unwrap_or(usize::MAX);
                Task::copying(TaskInput::File(&input.file, 0), len, to)
            }
            Source::Cast(plan, counter) => {
                Task { transform: Some(plan as &dyn Transform), counter: counter.as_deref(), ..of_stored() }
            }
            Source::WithPrevious | Source::NotCopied => of_nothing(0),
            Source::Bytes(bytes) => Task::copying(TaskInput::Memory(bytes), bytes.len(), to),
            Source::Encoded(source, _) => {
                let len = usize::try_from(row.summary.bytes_after).unwrap_or(usize::MAX);
                let elements = TaskInput::Computed(&**source, 0);
                Task { to, ..Task::keeping(elements, len, DataType::Uint8, Items::PLAIN) }
            }
            Source::Computed(computed) => {
                let len = element_count(&row.summary.shape).unwrap_or(0);
                let transform = computed.cast.as_ref().map(|plan| plan as &dyn Transform);
                let elements = TaskInput::Computed(&*computed.source, 0);
                let counter = computed.counter.as_deref();
                Task { to, transform, counter, ..Task::keeping(elements, len, computed.data_type, Items::PLAIN) }
            }
        }
    }
}
