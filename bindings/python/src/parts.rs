//! Checkpoints written in parts, for callers that spread them over processes.

use crate::error::in_words;
use crate::files::object;
use crate::options::Options;
use crate::watched::watched;
use onnx_cast_file::FileError;
use onnx_cast_file::parts::{self, FileJob, Part};
use onnx_cast_report::tensors_json;
use pyo3::prelude::*;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A job on a checkpoint: its name, input, output, options and threads at most.
#[derive(FromPyObject)]
pub(crate) struct Job(String, PathBuf, PathBuf, Options, usize);

impl Job {
    /// Runs a function with the job, while this thread heeds Ctrl-C.
    fn run<R: Send>(
        self,
        py: Python<'_>,
        work: impl FnOnce(&Path, &Path, FileJob<'_>) -> Result<R, FileError> + Send,
    ) -> PyResult<R> {
        let Job(name, input, output, options, threads) = self;
        let (state, threads) = (Arc::default(), Some(threads.max(1)));
        let done = match &*name {
            "cast" => {
                let mut request = options.cast(&state)?;
                request.run.threads = threads;
                watched(py, &state, None, || work(&input, &output, FileJob::Cast(&request)))
            }
            "dequantize" => {
                let mut request = options.dequantize(&state)?;
                request.run.threads = threads;
                watched(py, &state, None, || work(&input, &output, FileJob::Dequantize(&request)))
            }
            "transcode" => {
                let mut request = options.transcode(&state)?;
                request.run.threads = threads;
                watched(py, &state, None, || work(&input, &output, FileJob::Transcode(&request)))
            }
            _ => {
                let mut request = options.quantize(&state)?;
                request.run.threads = threads;
                watched(py, &state, None, || work(&input, &output, FileJob::Quantize(&request)))
            }
        };
        done?.map_err(in_words)
    }
}

/// A part of a file of a job: the index of the file, the index of the part, how many parts there are, and the job.
#[derive(FromPyObject)]
pub(crate) struct Task(usize, usize, usize, Job);

/// The files of a job: input, output, tensors.
#[pyfunction]
pub(crate) fn plan_files<'py>(py: Python<'py>, job: Job) -> PyResult<Vec<(PathBuf, PathBuf, Bound<'py, PyAny>)>> {
    let shards = job.run(py, parts::files)?;
    shards.into_iter().map(|one| Ok((one.input, one.output, object(py, &tensors_json(&one.tensors))?))).collect()
}

/// Makes the file that takes the parts.
#[pyfunction]
pub(crate) fn lay_out(py: Python<'_>, temporary: PathBuf, index: usize, job: Job) -> PyResult<()> {
    job.run(py, |input, output, job| parts::lay_out(input, output, index, &temporary, job))
}

/// Writes a part into a file that was laid out, or a whole file over any.
#[pyfunction]
pub(crate) fn write_part(py: Python<'_>, temporary: PathBuf, task: Task) -> PyResult<()> {
    let Task(file, index, of, job) = task;
    let part = Part { index, of };
    job.run(py, |input, output, job| parts::write_part(input, output, file, part, &temporary, job))
}

/// Whether a file has a part already.
#[pyfunction]
pub(crate) fn part_is_there(py: Python<'_>, task: Task) -> PyResult<bool> {
    let Task(file, index, of, job) = task;
    job.run(py, |input, output, job| parts::part_is_there(input, output, file, Part { index, of }, job))
}

/// Gives a file whose parts are all written its name.
#[pyfunction]
pub(crate) fn name_whole(py: Python<'_>, temporary: PathBuf, output: PathBuf) -> PyResult<()> {
    py.detach(|| parts::name_whole(&temporary, &output)).map_err(in_words)
}

/// Writes the other files of a job, the index last.
#[pyfunction]
pub(crate) fn write_side_files(py: Python<'_>, job: Job) -> PyResult<usize> {
    job.run(py, parts::write_side_files)
}
