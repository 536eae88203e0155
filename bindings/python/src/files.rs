//! Files, and models in memory: requests come as dictionaries whose keys are the command's options, and results go back
//! as the objects that the command prints as JSON.

use crate::error::{in_words, refused};
use crate::options::Options;
use crate::watched::{State, watched};
use onnx_cast_file::{FileError, Loader, Summary};
use onnx_cast_model::{Error, ModelBytes, ModelSource};
use onnx_cast_report::{
    cast_json, convert_json, diff_json, fold_json, info_json, loading_json, record_json, upgrade_json,
};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;
use pythonize::pythonize;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What is read, as Python passes it: the path of a file, or a serialized ModelProto and the folder of its external data.
#[derive(FromPyObject)]
pub(crate) enum Given {
    Memory(PyBackedBytes, Option<PathBuf>),
    #[pyo3(transparent)]
    File(PathBuf),
}

/// The same, for the library.
pub(crate) enum Read {
    File(PathBuf),
    Memory(ModelBytes),
}

impl From<Given> for Read {
    fn from(given: Given) -> Self {
        match given {
            Given::File(path) => Read::File(path),
            Given::Memory(bytes, folder) => Read::Memory(ModelBytes::new(bytes, folder.as_deref())),
        }
    }
}

impl Read {
    pub(crate) fn source(&self) -> ModelSource<'_> {
        match self {
            Read::File(path) => ModelSource::File(path),
            Read::Memory(model) => ModelSource::Memory(model),
        }
    }

    /// What summaries call it.
    fn name(&self) -> &Path {
        match self {
            Read::File(path) => path,
            Read::Memory(_) => Path::new("model"),
        }
    }
}

/// JSON as objects of Python's.
pub(crate) fn object<'py>(py: Python<'py>, json: &Value) -> PyResult<Bound<'py, PyAny>> {
    Ok(pythonize(py, json)?)
}

/// A model that was made in memory.
type Made<'py> = Option<Bound<'py, PyBytes>>;

/// The bytes of a model, where it has no path to go to.
fn made<'py>(py: Python<'py>, bytes: &[u8], output: Option<&Path>, dry_run: bool) -> Made<'py> {
    (output.is_none() && !dry_run).then(|| PyBytes::new(py, bytes))
}

/// Does a job that makes a file of another: `cast`, `bit_cast`, `dequantize`, `quantize` or `transcode`. Returns the
/// model, where that has no path to go to, the summary, and what was lost that must not be.
#[pyfunction]
pub(crate) fn write_file<'py>(
    py: Python<'py>,
    job: &str,
    input: Given,
    output: Option<PathBuf>,
    options: Options,
    progress: Option<Py<PyAny>>,
) -> PyResult<(Made<'py>, Bound<'py, PyAny>, Option<String>)> {
    let (state, input) = (Arc::default(), Read::from(input));
    let work = work(job, &input, output.as_deref(), &options, &state)?;
    let done = watched(py, &state, progress, work)?;
    let json = |done: &Summary| {
        let output = output.as_deref().unwrap_or(input.name());
        object(py, &cast_json(input.name(), output, options.dry_run(), done))
    };
    match done {
        Ok((bytes, done)) => Ok((made(py, &bytes, output.as_deref(), options.dry_run()), json(&done)?, None)),
        Err(error) => match &error {
            Error::File { error: loss @ FileError::Loss { summary, .. } } => {
                Ok((None, json(summary)?, Some(loss.to_string())))
            }
            _ => Err(in_words(error)),
        },
    }
}

type Work<'a> = Box<dyn FnOnce() -> Result<(Vec<u8>, Summary), Error> + Send + 'a>;

fn work<'a>(
    job: &str,
    input: &'a Read,
    output: Option<&'a Path>,
    options: &Options,
    state: &Arc<State>,
) -> PyResult<Work<'a>> {
    macro_rules! job {
        ($request:ident, $of_file:ident $(, $of_model:ident)?) => {{
            let request = options.$request(state)?;
            match (input, output) {
                (Read::File(input), Some(output)) => {
                    Box::new(move || Ok((Vec::new(), onnx_cast_model::$of_file(input, output, &request)?)))
                }
                $((Read::Memory(_), _) => {
                    Box::new(move || onnx_cast_model::$of_model(input.source(), output, &request))
                })?
                _ => return Err(refused(format_args!("{job} takes no model (want the path of a file of tensors)"))),
            }
        }};
    }
    Ok(match job {
        "cast" => job!(cast, cast, cast_of),
        "bit_cast" => job!(bit_cast, bit_cast),
        "dequantize" => job!(dequantize, dequantize, dequantize_of),
        "quantize" => job!(quantize, quantize, quantize_of),
        "transcode" => job!(transcode, transcode),
        _ => return Err(refused(format_args!("unknown job {job}"))),
    })
}

/// Lists the tensors of a file.
#[pyfunction]
pub(crate) fn info<'py>(
    py: Python<'py>,
    input: Given,
    options: Options,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let (state, input) = (Arc::default(), Read::from(input));
    let request = options.inspect(&state)?;
    let found = watched(py, &state, progress, || match &input {
        Read::File(path) => onnx_cast_model::inspect(path, &request),
        Read::Memory(_) => onnx_cast_model::inspect_of(input.source(), &request),
    })?;
    object(py, &info_json(&found.map_err(in_words)?))
}

/// Says what a loader would do with a checkpoint.
#[pyfunction]
pub(crate) fn check<'py>(py: Python<'py>, path: PathBuf, loader: &str) -> PyResult<Bound<'py, PyAny>> {
    let loader: Loader = loader.parse().map_err(refused)?;
    let found = py.detach(|| onnx_cast_file::check(&path, loader)).map_err(in_words)?;
    object(py, &loading_json(&found))
}

/// Compares the tensors of two files.
#[pyfunction]
pub(crate) fn diff<'py>(
    py: Python<'py>,
    a: Given,
    b: Given,
    options: Options,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let (state, a, b) = (Arc::default(), Read::from(a), Read::from(b));
    let request = options.diff(&state)?;
    let found = watched(py, &state, progress, || onnx_cast_model::diff_of([a.source(), b.source()], &request))?;
    object(py, &diff_json(a.name(), b.name(), &found.map_err(in_words)?))
}

/// A function that makes a model of another, and returns it, where it has no path to go to, and the summary.
macro_rules! model_job {
    ($(#[$doc:meta])* $name:ident, $run:ident, $json:ident) => {
        $(#[$doc])*
        #[pyfunction]
        pub(crate) fn $name<'py>(
            py: Python<'py>,
            input: Given,
            output: Option<PathBuf>,
            options: Options,
            progress: Option<Py<PyAny>>,
        ) -> PyResult<(Made<'py>, Bound<'py, PyAny>)> {
            let (state, input) = (Arc::default(), Read::from(input));
            let request = options.$name(&state)?;
            let (to, dry_run) = (output.as_deref(), request.run.dry_run);
            let done = watched(py, &state, progress, || onnx_cast_model::$run(input.source(), to, &request))?;
            let (bytes, done) = done.map_err(in_words)?;
            let done = $json(input.name(), to.unwrap_or(input.name()), dry_run, &done);
            Ok((made(py, &bytes, to, dry_run), object(py, &done)?))
        }
    };
}
model_job!(
    /// Folds the Casts of a model's constants and removes those that change nothing. Returns the model, where it has no
    /// path to go to, and the summary.
    fold,
    fold_of,
    fold_json
);
model_job!(
    /// Changes the opset of a model. Returns the model, where it has no path to go to, and the summary.
    upgrade,
    upgrade_of,
    upgrade_json
);
model_job!(
    /// Adds outputs to a model that give the ranges of its values. Returns the model, where it has no path to go to, and
    /// the summary.
    record,
    record_of,
    record_json
);
model_job!(
    /// Converts a model to compute in a narrow type. Returns the model, where it has no path to go to, and the summary.
    convert,
    convert_of,
    convert_json
);
