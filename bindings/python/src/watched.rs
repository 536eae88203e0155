//! Work in a thread of its own, while the caller's thread tells Python how far it is and heeds Ctrl-C.

use crate::error::refused;
use onnx_cast_file::Watch;
use pyo3::prelude::*;
use std::ops::ControlFlow;
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

/// What tells a state how far the work is, and ends the work where the state says so.
pub(crate) fn watch(state: &Arc<State>) -> Watch {
    let told = Arc::clone(state);
    Watch::stopping(move |done, total| {
        told.total.store(total, Ordering::Relaxed);
        told.done.fetch_max(done, Ordering::Relaxed);
        if told.stop.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
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
