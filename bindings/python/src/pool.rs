//! The threads that large casts are split over: rayon's global pool, which a forked child does not have. There the
//! threads are gone and a caller that gives them work waits forever, so a child gets a pool of its own at its first
//! large cast.

use pyo3::exceptions::PyOSError;
use pyo3::{PyResult, pyfunction};
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
