//! The files of a checkpoint, each with its cast.

use super::{Job, Work};
use crate::error::FileError;
use crate::formats::checkpoint::Index;
use crate::formats::format::Format;
use crate::formats::input::{Given, Input};
use crate::formats::output::Output;
use crate::request::CastRequest;
use crate::summary::TensorSummary;
use std::path::{Path, PathBuf};

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

/// The files of an index, compared with it.
pub(crate) fn of_index(
    index: &Index,
    output: &Path,
    request: &CastRequest,
    work: &Work<'_>,
) -> Result<Vec<Shard>, FileError> {
    let output = index.output(output)?;
    let shard = |(shard, listed): &(String, _)| {
        let (planned, input) = planned(&index.file(shard)?, output.with_file_name(shard), request, work)?;
        index.check(shard, listed, &input)?;
        Ok(planned)
    };
    index.shards.iter().map(shard).collect()
}

pub(crate) fn planned(
    input: &Path,
    output: PathBuf,
    request: &CastRequest,
    work: &Work<'_>,
) -> Result<(Shard, Input), FileError> {
    let job = open(input, &output, request, work)?;
    let (summary, _) = job.plan()?;
    let file = job.input;
    Ok((Shard { input: input.to_owned(), output, tensors: summary.tensors }, file))
}

/// A file of a checkpoint, and the cast of it.
pub(crate) fn open<'a>(
    input: &Path,
    output: &'a Path,
    request: &'a CastRequest,
    work: &Work<'_>,
) -> Result<Job<'a>, FileError> {
    let input = Input::open(input, Some(Format::Safetensors), &Given::default())?;
    let sink = Output { path: output, format: Format::Safetensors, options: &request.write };
    Job::new(input, sink, request, work)
}
