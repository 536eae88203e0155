//! The threads that large casts are split over: rayon's global pool, which a forked child does not have. There the
//! threads are gone and a caller that gives them work waits forever, so a child gets a pool of its own at its first
//! large cast. Callers may limit them.

use crate::error::{Refusal, Value};
use pyo3::exceptions::{PyOSError, PyTypeError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyBool;
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Forks between the process that loaded the module and this one.
static FORKS: AtomicUsize = AtomicUsize::new(0);

/// The pools of children, by their number of forks: a child never looks at one that its parent may have been making.
/// Children of children beyond these make a pool for each cast.
static POOLS: [OnceLock<ThreadPool>; 16] = [const { OnceLock::new() }; 16];

/// Tells that this process is a forked child. Called by Python in the child, before anything else runs there.
#[pyfunction]
pub(crate) fn after_fork() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// Runs work where the current pool has its threads.
pub(crate) fn with_threads<R: Send>(work: impl FnOnce() -> R + Send) -> PyResult<R> {
    let forks = FORKS.load(Ordering::Relaxed);
    if forks == 0 {
        return Ok(work());
    }
    let place = POOLS.get(forks - 1);
    if let Some(pool) = place.and_then(OnceLock::get) {
        return Ok(pool.install(work));
    }
    let made = ThreadPoolBuilder::new().build();
    let pool = made.map_err(|error| PyOSError::new_err(format!("no threads to cast with: {error}")))?;
    match place {
        Some(place) => Ok(place.get_or_init(|| pool).install(work)),
        None => Ok(pool.install(work)),
    }
}

/// A whole number, which may be one of numpy's or another object's `__index__`, cut to 64 bits: what is beyond them is
/// out of every range here.
pub(crate) fn whole(value: &Bound<'_, PyAny>, name: &str) -> PyResult<i64> {
    let number = match value.is_instance_of::<PyBool>() {
        true => None,
        false => value.call_method0(intern!(value.py(), "__index__")).ok(),
    };
    let Some(number) = number else {
        return Err(PyTypeError::new_err(format!("{name} is {} (want an integer)", value.repr()?)));
    };
    number.extract().or_else(|_| Ok(if number.lt(0)? { i64::MIN } else { i64::MAX }))
}

/// Threads at most.
pub(crate) fn threads_of(threads: Option<&Bound<'_, PyAny>>) -> PyResult<Option<usize>> {
    match threads.map(|threads| whole(threads, "threads")).transpose()? {
        Some(threads) if threads < 1 => {
            let refusal = Refusal::new(format_args!("{threads} threads (want 1 or more)")).or_parameter("threads");
            Err(refusal.value(Value::Number(threads)).into())
        }
        threads => Ok(threads.and_then(|threads| usize::try_from(threads).ok())),
    }
}
