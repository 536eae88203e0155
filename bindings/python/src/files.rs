//! Files: requests come as dictionaries whose keys are the command's options, and results go back as the JSON that the
//! command prints.

use crate::error::{in_words, refused};
use crate::options::Options;
use crate::watched::{State, watched};
use onnx_cast_file::{FileError, Summary};
use onnx_cast_model::Error;
use onnx_cast_report::{cast_json, convert_json, diff_json, fold_json, info_json, record_json, upgrade_json};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Does a job that makes a file of another: `cast`, `bit_cast`, `dequantize`, `quantize` or `transcode`. Returns the
/// JSON, and what was lost that must not be.
#[pyfunction]
pub(crate) fn write_file(
    py: Python<'_>,
    job: &str,
    input: PathBuf,
    output: PathBuf,
    options: Options,
    progress: Option<Py<PyAny>>,
) -> PyResult<(String, Option<String>)> {
    let state = Arc::default();
    let work = work(job, &input, &output, &options, &state)?;
    let done = watched(py, &state, progress, work)?;
    finish(&input, &output, options.dry_run, done)
}

type Work<'a> = Box<dyn FnOnce() -> Result<Summary, Error> + Send + 'a>;

fn work<'a>(job: &str, input: &'a Path, output: &'a Path, options: &Options, state: &Arc<State>) -> PyResult<Work<'a>> {
    macro_rules! job {
        ($request:ident, $run:ident) => {{
            let request = options.$request(state)?;
            Box::new(move || onnx_cast_model::$run(input, output, &request))
        }};
    }
    Ok(match job {
        "cast" => job!(cast, cast),
        "bit_cast" => job!(bit_cast, bit_cast),
        "dequantize" => job!(dequantize, dequantize),
        "quantize" => job!(quantize, quantize),
        "transcode" => job!(transcode, transcode),
        _ => return Err(refused(format_args!("no job is called {job}"))),
    })
}

/// What was done as JSON, and the loss that must not be.
fn finish(
    input: &Path,
    output: &Path,
    dry_run: bool,
    done: Result<Summary, Error>,
) -> PyResult<(String, Option<String>)> {
    let json = |done: &Summary| cast_json(input, output, dry_run, done).to_string();
    done.map(|done| (json(&done), None)).or_else(|error| match &error {
        Error::File { error: loss @ FileError::Loss { summary, .. } } => Ok((json(summary), Some(loss.to_string()))),
        _ => Err(in_words(error)),
    })
}

/// Lists the tensors of a file. Returns the JSON.
#[pyfunction]
pub(crate) fn info(py: Python<'_>, path: PathBuf, options: Options, progress: Option<Py<PyAny>>) -> PyResult<String> {
    let state = Arc::default();
    let request = options.inspect(&state)?;
    let found = watched(py, &state, progress, || onnx_cast_model::inspect(&path, &request))?;
    found.map(|found| info_json(&found).to_string()).map_err(in_words)
}

/// Compares the tensors of two files. Returns the JSON.
#[pyfunction]
pub(crate) fn diff(
    py: Python<'_>,
    a: PathBuf,
    b: PathBuf,
    options: Options,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let state = Arc::default();
    let request = options.diff(&state)?;
    let found = watched(py, &state, progress, || onnx_cast_model::diff(&a, &b, &request))?;
    found.map(|found| diff_json(&a, &b, &found).to_string()).map_err(in_words)
}

/// A function that makes a model of another, and returns the JSON.
macro_rules! model_job {
    ($(#[$doc:meta])* $name:ident, $json:ident) => {
        $(#[$doc])*
        #[pyfunction]
        pub(crate) fn $name(
            py: Python<'_>,
            input: PathBuf,
            output: PathBuf,
            options: Options,
            progress: Option<Py<PyAny>>,
        ) -> PyResult<String> {
            let state = Arc::default();
            let request = options.$name(&state)?;
            let done = watched(py, &state, progress, || onnx_cast_model::$name(&input, &output, &request))?;
            done.map(|done| $json(&input, &output, request.run.dry_run, &done).to_string()).map_err(in_words)
        }
    };
}
model_job!(
    /// Folds the Casts of a model's constants and removes those that change nothing. Returns the JSON.
    fold,
    fold_json
);
model_job!(
    /// Raises the opset of a model. Returns the JSON.
    upgrade,
    upgrade_json
);
model_job!(
    /// Adds outputs to a model that give the ranges of its values. Returns the JSON.
    record,
    record_json
);
model_job!(
    /// Converts a model to compute in a narrow type. Returns the JSON.
    convert,
    convert_json
);

/// Converts a model in memory. Returns its bytes, of a dry run none, and the JSON.
#[pyfunction]
pub(crate) fn convert_bytes<'py>(
    py: Python<'py>,
    model: PyBackedBytes,
    options: Options,
    progress: Option<Py<PyAny>>,
) -> PyResult<(Bound<'py, PyBytes>, String)> {
    let state = Arc::default();
    let request = options.convert(&state)?;
    let done = watched(py, &state, progress, || onnx_cast_model::convert_bytes(&model, &request))?;
    let (bytes, done) = done.map_err(in_words)?;
    let name = Path::new("model");
    Ok((PyBytes::new(py, &bytes), convert_json(name, name, request.run.dry_run, &done).to_string()))
}
