//! Files: the work is done by a thread of its own, while this one tells how far it is and heeds Ctrl-C. Requests come
//! as dictionaries whose keys are the command's options, and results go back as the JSON that the command prints.

use crate::error::refused;
use crate::types::number_to_type;
use onnx_cast::{CastOptions, DataType, NEWEST_OPSET, ScaleRule};
use onnx_cast_file::{
    BitCastRequest, CandidateFormat, CastRequest, DequantizeRequest, DiffRequest, FileError, InspectRequest, Loss,
    Pattern, QuantizeRequest, ReportRequest, Rule, Scheme, Selection, Storage, Summary, TranscodeRequest, Watch,
    WriteOptions,
};
use onnx_cast_model::{ConvertRequest, Error, FoldRequest, RecordRequest, UpgradeRequest};
use onnx_cast_report::{cast_json, convert_json, diff_json, fold_json, info_json, record_json, upgrade_json};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// How often Python is asked whether it was interrupted, and told how far the work is.
const PERIOD: Duration = Duration::from_millis(50);

/// How far the work is, as the two threads see it.
#[derive(Default)]
pub(crate) struct State {
    done: AtomicU64,
    total: AtomicU64,
    stop: AtomicBool,
}

/// What to do with a file, as Python passes it: a dictionary whose keys are the command's options. What a job has no
/// option for is left out.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Options {
    #[pyo3(default)]
    to: Option<i64>,
    /// The candidates of a report.
    #[pyo3(default)]
    candidates: Vec<String>,
    include: Vec<String>,
    exclude: Vec<String>,
    /// Pairs of a pattern and a type, or `None` to keep the type.
    #[pyo3(default)]
    rules: Vec<(String, Option<i64>)>,
    #[pyo3(default)]
    rules_file: Option<PathBuf>,
    #[pyo3(default)]
    min_elements: Option<u64>,
    #[pyo3(default)]
    opset: Option<i64>,
    #[pyo3(default)]
    saturate: Option<bool>,
    #[pyo3(default)]
    round_mode: Option<String>,
    #[pyo3(default)]
    raise_opset: bool,
    #[pyo3(default)]
    from: Option<i64>,
    #[pyo3(default)]
    shape: Option<Vec<usize>>,
    #[pyo3(default)]
    dry_run: bool,
    #[pyo3(default)]
    resume: bool,
    #[pyo3(default)]
    no_clobber: bool,
    #[pyo3(default)]
    no_copy_others: bool,
    #[pyo3(default)]
    npy_plain: bool,
    #[pyo3(default)]
    losses: bool,
    #[pyo3(default)]
    fail_on: Vec<String>,
    #[pyo3(default)]
    external_data: Option<String>,
    #[pyo3(default)]
    external_threshold: Option<u64>,
    #[pyo3(default)]
    stats: bool,
    #[pyo3(default)]
    types: bool,
    /// The format of quantized weights, and pairs of a pattern and a format, or `None` to keep the tensor.
    #[pyo3(default)]
    format: Option<String>,
    #[pyo3(default)]
    format_rules: Vec<(String, Option<String>)>,
    /// The layout that quantized weights get.
    #[pyo3(default)]
    layout: Option<String>,
    #[pyo3(default)]
    scale: Option<String>,
    #[pyo3(default)]
    scale_rule: Option<String>,
    /// The layout of quantized weights; `None` where the checkpoint tells it.
    #[pyo3(default)]
    scheme: Option<String>,
    #[pyo3(default)]
    allow_nan: bool,
    /// Whether a model's inputs and outputs become narrow, and the types of those that do not follow the others.
    #[pyo3(default)]
    interface: (bool, Vec<(String, i64)>),
    #[pyo3(default)]
    keep: Vec<String>,
    #[pyo3(default)]
    low: Vec<String>,
    #[pyo3(default)]
    ranges: HashMap<String, f32>,
    /// A file of ranges.
    #[pyo3(default)]
    ranges_file: Option<PathBuf>,
    #[pyo3(default)]
    margin: Option<f32>,
    #[pyo3(default)]
    clamp: Option<[f32; 2]>,
    #[pyo3(default)]
    emulate: bool,
    #[pyo3(default)]
    explain: Vec<String>,
    #[pyo3(default)]
    tolerance: Option<f64>,
    #[pyo3(default)]
    values: bool,
    threads: Option<usize>,
}

fn parsed<T: FromStr<Err: std::fmt::Display>>(texts: &[String]) -> PyResult<Vec<T>> {
    texts.iter().map(|text| text.parse().map_err(refused)).collect()
}

fn type_of(number: Option<i64>) -> PyResult<Option<DataType>> {
    number.map(number_to_type).transpose()
}

impl Options {
    fn names(&self) -> PyResult<(Vec<Pattern>, Vec<Pattern>)> {
        Ok((parsed(&self.include)?, parsed(&self.exclude)?))
    }

    fn attributes(&self) -> PyResult<CastOptions> {
        Ok(CastOptions::new()
            .opset(self.opset.unwrap_or(NEWEST_OPSET))
            .saturate(self.saturate)
            .round_mode(self.round_mode.as_ref().map(|mode| mode.parse().map_err(refused)).transpose()?)
            .threads(self.threads))
    }

    fn selection(&self) -> PyResult<Selection> {
        let mut rules = self.rules_file.as_ref().map_or(Ok(Vec::new()), |path| Rule::read(path).map_err(refused))?;
        for (pattern, to) in &self.rules {
            rules.push(Rule { pattern: pattern.parse().map_err(refused)?, to: type_of(*to)? });
        }
        let (include, exclude) = self.names()?;
        Ok(Selection { to: type_of(self.to)?, include, exclude, rules, min_size: self.min_elements })
    }

    /// The layout that the input has, where it is given.
    pub(crate) fn scheme(&self) -> PyResult<Option<Scheme>> {
        self.scheme.as_deref().map(|name| scheme_of("scheme", name)).transpose()
    }

    fn storage(&self) -> Storage {
        Storage { external_data: self.external_data.clone(), threshold: self.external_threshold }
    }

    pub(crate) fn cast(&self, state: &Arc<State>) -> PyResult<CastRequest> {
        Ok(CastRequest {
            selection: self.selection()?,
            options: self.attributes()?,
            from: type_of(self.from)?,
            shape: self.shape.clone(),
            write: WriteOptions { npy_plain: self.npy_plain, no_clobber: self.no_clobber },
            dry_run: self.dry_run,
            resume: self.resume,
            copy_others: !self.no_copy_others,
            count: self.losses,
            fail_on: parsed::<Loss>(&self.fail_on)?,
            raise_opset: self.raise_opset,
            storage: self.storage(),
            watch: Some(watch(state)),
        })
    }

    fn bit_cast(&self, state: &Arc<State>) -> PyResult<BitCastRequest> {
        let CastRequest { selection, options, from, shape, write, dry_run, copy_others, resume, watch, .. } =
            self.cast(state)?;
        let CastOptions { opset, threads, .. } = options;
        Ok(BitCastRequest { selection, opset, threads, from, shape, write, dry_run, copy_others, resume, watch })
    }

    pub(crate) fn dequantize(&self, state: &Arc<State>) -> PyResult<DequantizeRequest> {
        let CastRequest { selection, options, write, dry_run, copy_others, resume, count, fail_on, watch, .. } =
            self.cast(state)?;
        let scheme = self.scheme()?;
        let &Options { allow_nan, .. } = self;
        let threads = options.threads;
        Ok(DequantizeRequest {
            selection,
            scheme,
            allow_nan,
            threads,
            write,
            dry_run,
            copy_others,
            resume,
            count,
            fail_on,
            watch,
        })
    }

    fn scale_rule(&self) -> PyResult<ScaleRule> {
        self.scale_rule.as_deref().map_or(Ok(ScaleRule::Floor), |rule| rule.parse().map_err(refused))
    }

    pub(crate) fn quantize(&self, state: &Arc<State>) -> PyResult<QuantizeRequest> {
        let request = self.cast(state)?;
        let CastRequest { options, write, dry_run, copy_others, resume, count, fail_on, .. } = request;
        let CastRequest { raise_opset, storage, watch, .. } = request;
        let mut rules = self.rules_file.as_ref().map_or(Ok(Vec::new()), |path| Rule::read(path).map_err(refused))?;
        for (pattern, to) in &self.format_rules {
            let to = to.as_deref().map(|to| to.parse().map_err(refused)).transpose()?;
            rules.push(Rule { pattern: pattern.parse().map_err(refused)?, to });
        }
        let to = self.format.as_deref().map(|to| to.parse().map_err(refused)).transpose()?;
        let (include, exclude) = self.names()?;
        let rule = self.scale_rule()?;
        Ok(QuantizeRequest {
            selection: Selection { to, include, exclude, rules, min_size: self.min_elements },
            layout: self.layout.as_deref().map(|name| scheme_of("layout", name)).transpose()?,
            granularity: self.scale.as_deref().map(|scale| scale.parse().map_err(refused)).transpose()?,
            rule,
            threads: options.threads,
            write,
            dry_run,
            copy_others,
            resume,
            count,
            fail_on,
            raise_opset,
            storage,
            watch,
        })
    }

    pub(crate) fn transcode(&self, state: &Arc<State>) -> PyResult<TranscodeRequest> {
        let CastRequest { options, write, dry_run, copy_others, resume, watch, .. } = self.cast(state)?;
        Ok(TranscodeRequest {
            layout: scheme_of("layout", self.layout.as_deref().unwrap_or_default())?,
            to: self.format.as_deref().map(|to| to.parse().map_err(refused)).transpose()?,
            scheme: self.scheme()?,
            threads: options.threads,
            write,
            dry_run,
            copy_others,
            resume,
            watch,
        })
    }

    fn fold(&self, state: &Arc<State>) -> PyResult<FoldRequest> {
        let (include, exclude) = self.names()?;
        let &Options { dry_run, no_clobber, threads, .. } = self;
        let (storage, watch) = (self.storage(), Some(watch(state)));
        let operator = None;
        Ok(FoldRequest { include, exclude, operator, dry_run, no_clobber, storage, threads, watch })
    }

    fn upgrade(&self, state: &Arc<State>) -> UpgradeRequest {
        let &Options { opset, dry_run, no_clobber, threads, .. } = self;
        let (storage, watch) = (self.storage(), Some(watch(state)));
        UpgradeRequest { opset, dry_run, no_clobber, storage, threads, watch }
    }

    fn record(&self, state: &Arc<State>) -> PyResult<RecordRequest> {
        let (include, exclude) = self.names()?;
        let &Options { dry_run, no_clobber, threads, .. } = self;
        let (storage, watch) = (self.storage(), Some(watch(state)));
        Ok(RecordRequest { include, exclude, dry_run, no_clobber, storage, threads, watch })
    }

    fn convert(&self, state: &Arc<State>) -> PyResult<ConvertRequest> {
        let mut request = ConvertRequest::new(type_of(self.to)?.unwrap_or(DataType::Float16));
        request.interface.low = self.interface.0;
        for (name, data_type) in &self.interface.1 {
            request.interface.named.push((name.clone(), number_to_type(*data_type)?));
        }
        request.keep = parsed(&self.keep)?;
        request.low = parsed(&self.low)?;
        request.ranges = match &self.ranges_file {
            Some(path) => onnx_cast_model::read_ranges(path).map_err(in_words)?,
            None => self.ranges.clone(),
        };
        request.raise_opset = self.raise_opset;
        request.margin = self.margin.unwrap_or(request.margin);
        request.clamp = self.clamp;
        request.emulate = self.emulate;
        request.explain.clone_from(&self.explain);
        request.dry_run = self.dry_run;
        request.no_clobber = self.no_clobber;
        request.storage = self.storage();
        request.threads = self.threads;
        request.watch = Some(watch(state));
        Ok(request)
    }

    fn inspect(&self, state: &Arc<State>) -> PyResult<InspectRequest> {
        let (include, exclude) = self.names()?;
        let (from, watch) = (type_of(self.from)?, Some(watch(state)));
        let &Options { stats: values, types, threads, .. } = self;
        Ok(InspectRequest { include, exclude, from, values, types, threads, watch })
    }

    fn diff(&self, state: &Arc<State>) -> PyResult<DiffRequest> {
        let (include, exclude) = self.names()?;
        let &Options { tolerance, values, threads, .. } = self;
        let watch = Some(watch(state));
        Ok(DiffRequest { include, exclude, tolerance, by_value: values, threads, watch })
    }

    pub(crate) fn report(&self, state: &Arc<State>) -> PyResult<ReportRequest> {
        let mut to: Vec<CandidateFormat> = Vec::new();
        for candidate in parsed(&self.candidates)? {
            if !to.contains(&candidate) {
                to.push(candidate);
            }
        }
        let (include, exclude) = self.names()?;
        let (options, from, watch) = (self.attributes()?, type_of(self.from)?, Some(watch(state)));
        let rule = self.scale_rule()?;
        Ok(ReportRequest { to, rule, include, exclude, min_size: self.min_elements, options, from, watch })
    }
}

/// The layout of a name.
fn scheme_of(parameter: &str, name: &str) -> PyResult<Scheme> {
    let known = || Scheme::ALL.iter().map(|(_, name)| *name).collect::<Vec<_>>().join(", ");
    let auto = if parameter == "scheme" { "auto, " } else { "" };
    let unknown = || refused(format_args!("{parameter} is `{name}` (want {auto}{})", known()));
    Scheme::from_name(name).ok_or_else(unknown)
}

/// An error in Python's words, where fields of requests are parameters.
fn in_words(error: Error) -> PyErr {
    match error {
        Error::Option { path, option, reason } => {
            let option = if option == "from" { "dtype" } else { option };
            refused(format_args!("{}: {option} {reason}", path.display()))
        }
        error => refused(error),
    }
}

/// What tells a state how far the work is, and ends the work where the state says so.
pub(crate) fn watch(state: &Arc<State>) -> Watch {
    let told = Arc::clone(state);
    Watch::stopping(move |done, total| {
        told.total.store(total, Ordering::Relaxed);
        told.done.fetch_max(done, Ordering::Relaxed);
        if told.stop.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })
}

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

/// Folds the Casts of a model's constants and removes those that change nothing. Returns the JSON.
#[pyfunction]
pub(crate) fn fold(
    py: Python<'_>,
    input: PathBuf,
    output: PathBuf,
    options: Options,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let state = Arc::default();
    let request = options.fold(&state)?;
    let done = watched(py, &state, progress, || onnx_cast_model::fold(&input, &output, &request))?;
    done.map(|done| fold_json(&input, &output, request.dry_run, &done).to_string()).map_err(in_words)
}

/// Raises the opset of a model. Returns the JSON.
#[pyfunction]
pub(crate) fn upgrade(
    py: Python<'_>,
    input: PathBuf,
    output: PathBuf,
    options: Options,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let state = Arc::default();
    let request = options.upgrade(&state);
    let done = watched(py, &state, progress, || onnx_cast_model::upgrade(&input, &output, &request))?;
    done.map(|done| upgrade_json(&input, &output, request.dry_run, &done).to_string()).map_err(in_words)
}

/// Adds outputs to a model that give the ranges of its values. Returns the JSON.
#[pyfunction]
pub(crate) fn record(
    py: Python<'_>,
    input: PathBuf,
    output: PathBuf,
    options: Options,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let state = Arc::default();
    let request = options.record(&state)?;
    let done = watched(py, &state, progress, || onnx_cast_model::record(&input, &output, &request))?;
    done.map(|done| record_json(&input, &output, request.dry_run, &done).to_string()).map_err(in_words)
}

/// Converts a model to compute in a narrow type. Returns the JSON.
#[pyfunction]
pub(crate) fn convert(
    py: Python<'_>,
    input: PathBuf,
    output: PathBuf,
    options: Options,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let state = Arc::default();
    let request = options.convert(&state)?;
    let done = watched(py, &state, progress, || onnx_cast_model::convert(&input, &output, &request))?;
    done.map(|done| convert_json(&input, &output, request.dry_run, &done).to_string()).map_err(in_words)
}

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
    Ok((PyBytes::new(py, &bytes), convert_json(name, name, request.dry_run, &done).to_string()))
}

/// Runs the work in a thread. If Python raises meanwhile, from a signal handler or from `progress`, the work stops and
/// the exception is returned.
pub(crate) fn watched<R: Send>(
    py: Python<'_>,
    state: &State,
    progress: Option<Py<PyAny>>,
    work: impl FnOnce() -> R + Send,
) -> PyResult<R> {
    let tell = |py: Python<'_>, last: &mut u64| {
        py.check_signals()?;
        let (done, total) = (state.done.load(Ordering::Relaxed), state.total.load(Ordering::Relaxed));
        match &progress {
            Some(progress) if done != *last => {
                *last = done;
                progress.call1(py, (done, total)).map(|_| ())
            }
            _ => Ok(()),
        }
    };
    let (result, raised) = py.detach(|| {
        std::thread::scope(|scope| {
            let (sender, receiver) = channel();
            // The receiver is there until the thread is done.
            scope.spawn(move || drop(sender.send(work())));
            let (mut last, mut raised) = (0, None);
            loop {
                let received = receiver.recv_timeout(PERIOD);
                if raised.is_none()
                    && let Err(error) = Python::attach(|py| tell(py, &mut last))
                {
                    raised = Some(error);
                    state.stop.store(true, Ordering::Relaxed);
                }
                match received {
                    Ok(result) => return (Some(result), raised),
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => return (None, raised),
                }
            }
        })
    });
    match (raised, result) {
        (Some(error), _) => Err(error),
        (None, Some(result)) => Ok(result),
        (None, None) => Err(refused("the thread that does the work has ended without a result")),
    }
}
