//! Checkpoints cast in parts, for whoever spreads them over processes.

use crate::error::refused;
use crate::files::{Options, State, watched};
use onnx_cast_file::CastRequest;
use onnx_cast_file::parts::{self, Part, Shard};
use onnx_cast_report::tensors_json;
use pyo3::prelude::*;
use std::path::PathBuf;
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
    let planned = py.detach(|| parts::shards(&input, &output, &request)).map_err(refused)?;
    let plain = |shard: Shard| (shard.input, shard.output, tensors_json(&shard.tensors).to_string());
    Ok(planned.into_iter().map(plain).collect())
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
    py.detach(|| parts::lay_out(&input, &output, &temporary, &request)).map_err(refused)
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
    watched(py, &state, None, || parts::cast_part(&input, &temporary, part, &request))?.map_err(refused)
}

/// Whether a file has a part already.
#[pyfunction]
pub(crate) fn part_is_there(py: Python<'_>, output: PathBuf, task: Task) -> PyResult<bool> {
    let state = Arc::default();
    let (input, part, request) = task.of(&state)?;
    watched(py, &state, None, || parts::part_is_there(&input, &output, part, &request))?.map_err(refused)
}

/// Gives a file whose parts are all cast its name.
#[pyfunction]
pub(crate) fn name_whole(py: Python<'_>, temporary: PathBuf, output: PathBuf) -> PyResult<()> {
    py.detach(|| parts::name_whole(&temporary, &output)).map_err(refused)
}

/// Copies the other files of a checkpoint's folder.
#[pyfunction]
pub(crate) fn copy_others(py: Python<'_>, input: PathBuf, output: PathBuf) -> PyResult<usize> {
    py.detach(|| parts::copy_others(&input, &output)).map_err(refused)
}

/// Writes the index.
#[pyfunction]
pub(crate) fn write_index(py: Python<'_>, input: PathBuf, output: PathBuf, total_size: u64) -> PyResult<()> {
    py.detach(|| parts::write_index(&input, &output, total_size)).map_err(refused)
}
