//! One file of the output, or a part of it, written by a process that plans all of them.

use super::replacement::Replacement;
use super::{Check, Frame, OutputFile, OutputPlan};
use crate::checkpoint::TensorRef;
use crate::error::FileError;
use crate::formats::existing::Existing;
use crate::io::atomic::{create_folder, target_of};
use crate::io::fs::{self, File};
use crate::io::positional::InputFile;
use crate::io::progress::Meter;
use crate::pipeline::{Amax, InPlace, Same, Sink, Task, TaskInput};
use crate::summary::TensorSummary;
use crate::text::Count;
use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A file of a checkpoint, and what is to become of it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Shard {
    /// The file.
    pub input: PathBuf,
    /// Where the result goes.
    pub output: PathBuf,
    /// Its tensors, in the order of the output.
    pub tensors: Vec<TensorSummary>,
}

/// A part of a file: the elements are cut into so many stretches of about one length. A tensor that is computed from
/// several others is not cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Part {
    /// Which it is, from 0 on.
    pub index: usize,
    /// How many there are.
    pub of: usize,
}

impl Part {
    /// All of a file.
    pub const WHOLE: Part = Part { index: 0, of: 1 };

    /// Where a tensor of `len` elements is cut, `before` of all `total` elements being in front of it: whole bytes of
    /// every type. The end of a part is the start of the next.
    fn cut(self, index: usize, total: u64, before: u64, len: usize) -> usize {
        let at = u128::from(total) * index as u128 / self.of.max(1) as u128;
        let at = at.saturating_sub(u128::from(before)).min(len as u128) as usize;
        at.checked_next_multiple_of(8).map_or(len, |at| at.min(len))
    }

    /// What the part has of the tasks of a file.
    fn of_tasks<'t>(self, tasks: Vec<Task<'t>>) -> Vec<Task<'t>> {
        let total = tasks.iter().map(|task| task.len as u64).sum();
        let mut before = 0;
        let part = |task: Task<'t>| {
            let len = task.len;
            let cut = |index| self.cut(index, total, before, len);
            let (start, end) = (cut(self.index), cut(self.index.saturating_add(1)));
            before += len as u64;
            match task.elements {
                TaskInput::File(..) | TaskInput::Memory(_) => task.slice(start..end),
                // It is in the part that has its first element.
                _ => Task { len: if start == 0 && end > 0 { len } else { 0 }, ..task },
            }
        };
        tasks.into_iter().map(part).collect()
    }
}

impl OutputPlan<'_> {
    /// The files of the output.
    pub(crate) fn shards(self) -> Result<Vec<Shard>, FileError> {
        self.check_names()?;
        self.check_outputs()?;
        self.check_continued(&self.files.iter().map(|file| self.frame(file)).collect::<Result<Vec<_>, _>>()?)?;
        self.check_scales()?;
        let shard = |file: &OutputFile<'_>| {
            let tensors = file.rows.iter().map(|row| row.summary.clone()).collect();
            Shard { input: self.source(file).path().to_owned(), output: file.path.clone(), tensors }
        };
        Ok(self.files.iter().map(shard).collect())
    }

    /// Makes a file with the header and the length of one of the output.
    pub(crate) fn lay_out(self, index: usize, temporary: &Path) -> Result<(), FileError> {
        let file = self.file(index)?;
        create_folder(&file.path)?;
        target_of(&file.path)?;
        let frame = self.frame(file)?;
        let made = File::create(temporary).and_then(|out| put_frame(&out, file, &frame));
        made.map_err(|error| FileError::io(temporary, "write", error))
    }

    /// Writes a part of a file into one that was laid out, or a whole file over whatever is there.
    pub(crate) fn write_part(self, index: usize, part: Part, temporary: &Path) -> Result<(), FileError> {
        let file = self.file(index)?;
        target_of(&file.path)?;
        let failed = |error| FileError::io(temporary, "write", error);
        let out = File::options().write(true).open(temporary).map_err(failed)?;
        let frame = self.frame(file)?;
        let (len, want) = (out.metadata().map_err(failed)?.len(), file.len(&frame));
        if part.of <= 1 {
            put_frame(&out, file, &frame).map_err(failed)?;
        } else if len != want {
            let what = format!("it has {} (want {want}: it was laid out for another job)", Count(len, "byte"));
            return Err(failed(io::Error::new(io::ErrorKind::InvalidData, what)));
        }
        self.pass_part(index, file, &frame, part, &InPlace(&out))?;
        out.sync_data().map_err(failed)
    }

    /// Whether a file holds already what a part of it would be; the first part answers for the header. It is an error
    /// that a file with other content is not replaced.
    pub(crate) fn part_is_there(self, index: usize, part: Part) -> Result<bool, FileError> {
        let file = self.file(index)?;
        if !fs::is_file(&file.path) {
            return Ok(false);
        }
        let Ok(there) = InputFile::open(&file.path) else { return Ok(false) };
        let (frame, sink) = (self.frame(file)?, Same::new(&there));
        let is_there = there.len() == file.len(&frame)
            && (part.index > 0 || sink.put(0, &frame.0).is_ok())
            && self.pass_part(index, file, &frame, part, &sink).is_ok();
        if !is_there && self.existing(file).only_adds() {
            return Err(Existing::differs(&file.path).into());
        }
        Ok(is_there)
    }

    /// Writes the other files of the folder and the index, and returns how many other files were copied.
    pub(crate) fn write_side_files(self) -> Result<usize, FileError> {
        // Without `force` the folder was empty, or is continued.
        let mut replacement = if self.options.write.force { self.check_outputs()? } else { Replacement::default() };
        replacement.retire()?;
        self.finish()?;
        replacement.finish()?;
        Ok(self.side_files.count)
    }

    /// Moves a part of the elements, once the weights are checked and the scales known.
    fn pass_part(
        &self,
        index: usize,
        file: &OutputFile<'_>,
        (head, _): &Frame,
        part: Part,
        sink: &dyn Sink,
    ) -> Result<(), FileError> {
        let tasks = part.of_tasks(self.tasks(file, head.len() as u64));
        let own: HashSet<TensorRef> = file.rows.iter().map(|row| row.tensor).collect();
        let checks: Vec<&Check<'_>> = self.checks.iter().filter(|check| own.contains(&check.tensor)).collect();
        let checked: u64 = checks.iter().map(|check| check.task().bytes()).sum();
        let meter = Meter::new(self.options.watch.as_ref(), checked + tasks.iter().map(Task::bytes).sum::<u64>());
        self.check(&checks, &meter)?;
        self.measure(&self.measured_for(index), &meter)?;
        self.flow(file, &tasks, sink, &meter)
    }

    fn file(&self, index: usize) -> Result<&OutputFile<'_>, FileError> {
        let missing = || {
            let what = format!("the checkpoint has no file {index} (it has {})", self.files.len());
            FileError::io(self.opened.path(), "find", io::Error::new(io::ErrorKind::InvalidInput, what))
        };
        self.files.get(index).ok_or_else(missing)
    }

    /// What has to be measured for a file: its own tensors, and those elsewhere that share a scale with them.
    fn measured_for(&self, index: usize) -> Vec<(TensorRef, Arc<Amax>)> {
        let rows = self.files.get(index).map_or(&[][..], |file| &file.rows);
        let own: HashSet<TensorRef> = rows.iter().map(|row| row.tensor).collect();
        let mine = self.measured.iter().filter(|(tensor, _)| own.contains(tensor));
        let shared: HashSet<*const Amax> = mine.map(|(_, amax)| Arc::as_ptr(amax)).collect();
        self.measured.iter().filter(|(_, amax)| shared.contains(&Arc::as_ptr(amax))).cloned().collect()
    }
}

/// Gives a file its header and its length. A `.safetensors` file ends with its elements.
fn put_frame(out: &File, file: &OutputFile<'_>, frame: &Frame) -> io::Result<()> {
    InPlace(out).put(0, &frame.0)?;
    out.set_len(file.len(frame))
}
