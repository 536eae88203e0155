//! The steps that all jobs on checkpoints share. A request of [`cast_file`](crate::cast_file),
//! [`dequantize_file`](crate::dequantize_file), [`quantize_file`](crate::quantize_file) or
//! [`transcode_file`](crate::transcode_file) opens its input and plans the output. The plan is a value: it is executed,
//! shown by a dry run, written in parts by several processes (`parts.rs`), or computed in memory (`in_memory.rs`).

use crate::collection::{Collection, Member, Outcome};
use crate::engine::{self, Opened, OutputPlan};
use crate::error::FileError;
use crate::request::RunOptions;
use crate::summary::Summary;
use std::path::Path;

/// A job that converts one checkpoint into another.
pub(crate) trait Job {
    /// Returns the options for running the job.
    fn options(&self) -> &RunOptions;

    /// Checks the request before anything is read.
    fn check(&self, input: &Path, output: &Path) -> Result<(), FileError>;

    /// Checks the request against all checkpoints of a collection.
    fn check_collection(&self, all: &Collection) -> Result<(), FileError>;

    /// Returns the job for one checkpoint of a collection, or the reason why the checkpoint is copied unchanged.
    fn for_member(&self, member: &Member, run: RunOptions) -> Result<Self, String>
    where
        Self: Sized;

    /// Opens the input, and determines the paths of the output.
    fn open(&self, input: &Path, output: &Path) -> Result<Opened, FileError> {
        engine::open(input, output, self.options())
    }

    /// Plans the output. This reads headers, the configuration and scales, and writes nothing.
    fn plan<'a>(&'a self, opened: &'a Opened) -> Result<OutputPlan<'a>, FileError>;

    /// Runs the job on one checkpoint.
    fn run_one(&self, input: &Path, output: &Path) -> Result<Summary, FileError> {
        self.plan(&self.open(input, output)?)?.run()
    }
}

/// Runs a job on a checkpoint, or on each checkpoint of a collection.
pub(crate) fn run<J: Job>(job: &J, input: &Path, output: &Path) -> Result<Summary, FileError> {
    job.check(input, output)?;
    let Some(all) = Collection::find(input)? else { return job.run_one(input, output) };
    job.check_collection(&all)?;
    all.run(output, job.options(), |member, output, run| match job.for_member(member, run) {
        Ok(job) => Outcome::of(job.run_one(member.path(), output)),
        Err(reason) => Ok(Outcome::Kept(reason)),
    })
}
