//! Checkpoints cast in parts, for callers that spread them over processes.

use crate::error::in_words;
use crate::options::Options;
use crate::watched::{State, watched};
use onnx_cast_file::parts::{self, FileJob, Part, Shard};
use onnx_cast_file::{CastRequest, DequantizeRequest, FileError, QuantizeRequest, TranscodeRequest};
use onnx_cast_report::tensors_json;
use pyo3::prelude::*;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The files of a checkpoint: input, output, tensors as JSON.
#[pyfunction]
pub(crate) fn plan_shards(
    py: Python<'_>,
    input: PathBuf,
    output: PathBuf,
    options: Options,
) -> PyResult<Vec<(PathBuf, PathBuf, String)>> {
    let request = options.cast(&Arc::default())?;
    let planned = py.detach(|| parts::shards(&input, &output, &request)).map_err(in_words)?;
    Ok(planned.into_iter().map(plain).collect())
}

fn plain(shard: Shard) -> (PathBuf, PathBuf, String) {
    (shard.input, shard.output, tensors_json(&shard.tensors).to_string())
}

/// Makes the file that takes the parts.
#[pyfunction]
pub(crate) fn lay_out(
    py: Python<'_>,
    input: PathBuf,
    output: PathBuf,
    temporary: PathBuf,
    options: Options,
) -> PyResult<()> {
    let request = options.cast(&Arc::default())?;
    py.detach(|| parts::lay_out(&input, &output, &temporary, &request)).map_err(in_words)
}

/// A part of a cast: its file, its place among so many, how, and by how many threads at most.
#[derive(FromPyObject)]
pub(crate) struct Task(PathBuf, usize, usize, Options, usize);

impl Task {
    fn of(self, state: &Arc<State>) -> PyResult<(PathBuf, Part, CastRequest)> {
        let Task(input, index, of, options, threads) = self;
        let mut request = options.cast(state)?;
        request.options.threads = Some(threads.max(1));
        Ok((input, Part { index, of }, request))
    }
}

/// Casts a part into a file that was laid out.
#[pyfunction]
pub(crate) fn cast_part(py: Python<'_>, temporary: PathBuf, task: Task) -> PyResult<()> {
    let state = Arc::default();
    let (input, part, request) = task.of(&state)?;
    watched(py, &state, None, || parts::cast_part(&input, &temporary, part, &request))?.map_err(in_words)
}

/// Whether a file has a part already.
#[pyfunction]
pub(crate) fn part_is_there(py: Python<'_>, output: PathBuf, task: Task) -> PyResult<bool> {
    let state = Arc::default();
    let (input, part, request) = task.of(&state)?;
    watched(py, &state, None, || parts::part_is_there(&input, &output, part, &request))?.map_err(in_words)
}

/// Gives a file whose parts are all cast its name.
#[pyfunction]
pub(crate) fn name_whole(py: Python<'_>, temporary: PathBuf, output: PathBuf) -> PyResult<()> {
    py.detach(|| parts::name_whole(&temporary, &output)).map_err(in_words)
}

/// A job on a checkpoint of which each file is a task: its name, input, output, options and threads at most.
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
            "dequantize" => {
                let request = DequantizeRequest { threads, ..options.dequantize(&state)? };
                watched(py, &state, None, || work(&input, &output, FileJob::Dequantize(&request)))
            }
            "transcode" => {
                let request = TranscodeRequest { threads, ..options.transcode(&state)? };
                watched(py, &state, None, || work(&input, &output, FileJob::Transcode(&request)))
            }
            _ => {
                let request = QuantizeRequest { threads, ..options.quantize(&state)? };
                watched(py, &state, None, || work(&input, &output, FileJob::Quantize(&request)))
            }
        };
        done?.map_err(in_words)
    }
}

/// The files of a job: input, output, tensors as JSON.
#[pyfunction]
pub(crate) fn plan_files(py: Python<'_>, job: Job) -> PyResult<Vec<(PathBuf, PathBuf, String)>> {
    let planned = job.run(py, parts::files)?;
    Ok(planned.into_iter().map(plain).collect())
}

/// Writes a file of a job under a temporary name.
#[pyfunction]
pub(crate) fn write_one(py: Python<'_>, temporary: PathBuf, index: usize, job: Job) -> PyResult<()> {
    job.run(py, |input, output, job| parts::write_file(input, output, &temporary, index, job))
}

/// Whether a file of a job is there already.
#[pyfunction]
pub(crate) fn file_is_there(py: Python<'_>, index: usize, job: Job) -> PyResult<bool> {
    job.run(py, |input, output, job| parts::file_is_there(input, output, index, job))
}

/// Writes what stands beside the weights of a job, the index last.
#[pyfunction]
pub(crate) fn write_beside(py: Python<'_>, job: Job) -> PyResult<usize> {
    job.run(py, parts::write_beside)
}

/// Copies the other files of a checkpoint's folder.
#[pyfunction]
pub(crate) fn copy_others(py: Python<'_>, input: PathBuf, output: PathBuf) -> PyResult<usize> {
    py.detach(|| parts::copy_others(&input, &output)).map_err(in_words)
}

/// Writes the index.
#[pyfunction]
pub(crate) fn write_index(py: Python<'_>, input: PathBuf, output: PathBuf, total_size: u64) -> PyResult<()> {
    py.detach(|| parts::write_index(&input, &output, total_size)).map_err(in_words)
}
