//! Work in a thread of its own, while the caller's thread tells Python how far it is and heeds Ctrl-C.

use crate::error::refused;
use onnx_cast_file::{Watch, room_for_a_thread};
use pyo3::prelude::*;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{TryRecvError, channel};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::thread::{self, Thread};
use std::time::Duration;

/// How often Python is asked whether it was interrupted, and told how far the work is.
const PERIOD: Duration = Duration::from_millis(50);

/// How far the work is, as the two threads see it.
#[derive(Default)]
pub(crate) struct State {
    done: AtomicU64,
    total: AtomicU64,
    stop: AtomicBool,
    /// The caller's thread, where it is to be told when all is done.
    caller: OnceLock<Thread>,
    /// What it has told Python.
    told: Mutex<u64>,
    has_told: Condvar,
}

impl State {
    /// Waits until Python knows that all is done: what it raises then still keeps the output as it was.
    fn wait_for(&self, done: u64) {
        let Some(caller) = self.caller.get() else { return };
        caller.unpark();
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let waits = |told: &mut u64| *told < done && !self.stop.load(Ordering::Relaxed);
        drop(self.has_told.wait_while(told, waits).unwrap_or_else(PoisonError::into_inner));
    }

    /// Notes what Python was told.
    fn note(&self, done: u64) {
        *self.told.lock().unwrap_or_else(PoisonError::into_inner) = done;
        self.has_told.notify_all();
    }
}

/// What tells a state how far the work is, and ends the work where the state says so.
pub(crate) fn watch(state: &Arc<State>) -> Watch {
    let told = Arc::clone(state);
    Watch::stopping(move |done, total| {
        told.total.store(total, Ordering::Relaxed);
        told.done.fetch_max(done, Ordering::Relaxed);
        if done >= total {
            told.wait_for(done);
        }
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
    let (caller, has_progress) = (&thread::current(), progress.is_some());
    // Taken by the thread that runs the work.
    let work = Mutex::new(Some(work));
    let run = &|| work.lock().unwrap_or_else(PoisonError::into_inner).take().map(|work| work());
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
        thread::scope(|scope| {
            let (sender, receiver) = channel();
            let worker = move || {
                if has_progress {
                    // A state is for one work.
                    let _ = state.caller.set(caller.clone());
                }
                // The receiver lives until the thread is done.
                drop(sender.send(run()));
                caller.unpark();
            };
            let is_started = room_for_a_thread().is_ok() && thread::Builder::new().spawn_scoped(scope, worker).is_ok();
            if !is_started {
                // The system has no thread to give. Python hears of the work, and can interrupt it, at its end.
                let result = run();
                return (result, Python::attach(|py| tell(py, &mut 0)).err());
            }
            let (mut last, mut raised) = (0, None);
            loop {
                thread::park_timeout(PERIOD);
                let received = receiver.try_recv();
                if raised.is_none()
                    && let Err(error) = Python::attach(|py| tell(py, &mut last))
                {
                    raised = Some(error);
                    state.stop.store(true, Ordering::Relaxed);
                }
                state.note(last);
                match received {
                    Ok(result) => return (result, raised),
                    Err(TryRecvError::Empty) => {}
                    Err(TryRecvError::Disconnected) => return (None, raised),
                }
            }
        })
    });
    match (raised, result) {
        (Some(error), _) => Err(error),
        (None, Some(result)) => Ok(result),
        (None, None) => Err(refused("the worker thread ended without a result")),
    }
}
