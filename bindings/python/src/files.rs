//! Files: the work is done by a thread of its own, while this one tells how far it is and heeds Ctrl-C.

use crate::error::refused;
use crate::types::number_to_type;
use onnx_cast::{CastOptions, NEWEST_OPSET};
use onnx_cast_file::{CastRequest, Pattern, Rule, Selection, Storage, TensorSummary, Watch, WriteOptions};
use onnx_cast_model::{Error, FoldRequest};
use pyo3::prelude::*;
use std::ops::ControlFlow;
use std::path::PathBuf;
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

/// A tensor, as Python has it: name, shape, number of the type before and after, bytes before and after, whether it is
/// cast.
pub(crate) type Row = (String, Vec<usize>, i32, i32, u64, u64, bool);

pub(crate) fn rows(tensors: Vec<TensorSummary>) -> Vec<Row> {
    let row = |TensorSummary { name, shape, from, to, bytes_before, bytes_after, cast, .. }| {
        (name, shape, from.onnx(), to.onnx(), bytes_before, bytes_after, cast)
    };
    tensors.into_iter().map(row).collect()
}

pub(crate) fn patterns(texts: Vec<String>) -> PyResult<Vec<Pattern>> {
    texts.iter().map(|text| text.parse().map_err(refused)).collect()
}

/// The opset and the operator's attributes, as Python has them.
pub(crate) type Attributes = (Option<i64>, Option<bool>, Option<String>);

pub(crate) fn options((opset, saturate, round_mode): Attributes) -> PyResult<CastOptions> {
    Ok(CastOptions::new()
        .opset(opset.unwrap_or(NEWEST_OPSET))
        .saturate(saturate)
        .round_mode(round_mode.map(|mode| mode.parse().map_err(refused)).transpose()?))
}

/// What to cast and how, as Python passes it: the target; the opset and attributes; patterns to include and to exclude;
/// rules (pairs of a pattern and a type, or `None` to keep the type); and the minimum number of elements.
#[derive(FromPyObject)]
pub(crate) struct Request(Option<i64>, Attributes, Vec<String>, Vec<String>, Vec<(String, Option<i64>)>, Option<u64>);

impl Request {
    /// The library's own, told of by a state.
    pub(crate) fn of(self, state: &Arc<State>) -> PyResult<CastRequest> {
        let Request(to, attributes, include, exclude, rules, min_size) = self;
        let rule = |(pattern, to): (String, Option<i64>)| {
            Ok(Rule { pattern: pattern.parse().map_err(refused)?, to: to.map(number_to_type).transpose()? })
        };
        Ok(CastRequest {
            selection: Selection {
                to: to.map(number_to_type).transpose()?,
                include: patterns(include)?,
                exclude: patterns(exclude)?,
                rules: rules.into_iter().map(rule).collect::<PyResult<_>>()?,
                min_size,
            },
            options: options(attributes)?,
            from: None,
            shape: None,
            write: WriteOptions::default(),
            dry_run: false,
            resume: false,
            copy_others: true,
            count: false,
            fail_on: Vec::new(),
            raise_opset: false,
            storage: Storage::default(),
            watch: Some(watch(state)),
        })
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

/// Casts a file to another, or stores constants of a model in another type. `modes`: whether to write nothing, to skip
/// outputs that exist, to copy the other files of a folder, and whether a model's opset may be raised.
#[pyfunction]
pub(crate) fn cast_file(
    py: Python<'_>,
    input: PathBuf,
    output: PathBuf,
    request: Request,
    dtype: Option<i64>,
    modes: (bool, bool, bool, bool),
    progress: Option<Py<PyAny>>,
) -> PyResult<Vec<Row>> {
    let state = Arc::new(State::default());
    let (dry_run, resume, copy_others, raise_opset) = modes;
    let from = dtype.map(number_to_type).transpose()?;
    let request = CastRequest { from, dry_run, resume, copy_others, raise_opset, ..request.of(&state)? };
    let work = || onnx_cast_model::cast(&input, &output, &request).map(|done| rows(done.tensors));
    watched(py, &state, progress, work)?.map_err(|error| match error {
        // The field has another name in Python.
        Error::Option { path, option: "from", reason } => refused(format_args!("{}: dtype {reason}", path.display())),
        error => refused(error),
    })
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

/// Folds the Casts of a model's constants and removes those that change nothing. Returns how many were folded, removed
/// and joined.
#[pyfunction]
pub(crate) fn fold(
    py: Python<'_>,
    input: PathBuf,
    output: PathBuf,
    progress: Option<Py<PyAny>>,
) -> PyResult<(usize, usize, usize)> {
    let state = Arc::new(State::default());
    let request = FoldRequest { watch: Some(watch(&state)), ..FoldRequest::default() };
    let done = watched(py, &state, progress, || onnx_cast_model::fold(&input, &output, &request))?;
    done.map(|done| (done.computed, done.removed, done.joined)).map_err(refused)
}
