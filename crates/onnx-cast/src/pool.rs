//! The threads that large casts are split over: rayon's current pool, and in a forked child one of its own. A child
//! does not have the threads of its parent, and a caller that gives work to their pool waits forever.

use rayon::{ThreadPool, ThreadPoolBuilder};
use std::error::Error;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A process that has asked for threads. It is never freed: a child still reads that of its parent.
struct Process {
    id: u32,
    /// The process that this one, or one between the two, was forked from; `None` in the first that asked.
    parent: Option<&'static Process>,
    /// Made at the first large cast. A child never touches that of its parent, which another thread may just have been
    /// making.
    pool: OnceLock<Pool>,
}

/// Where a process has its threads.
enum Pool {
    /// In rayon's global pool.
    Global,
    /// In a pool of a forked child.
    Own(ThreadPool),
    /// Nowhere: the system gives it none.
    None,
}

/// This process, or the one that it was forked from, where it has not asked yet.
static NEWEST: AtomicPtr<Process> = AtomicPtr::new(ptr::null_mut());

impl Process {
    fn current() -> &'static Process {
        // Only Unix forks. Other systems may have no numbers of processes. A child with the number of a parent that has
        // ended would be taken for it: systems give a number out again only after thousands of others.
        let id = if cfg!(unix) { std::process::id() } else { 0 };
        loop {
            let newest = NEWEST.load(Ordering::Acquire);
            // SAFETY: null, or a process that was made below and is never freed.
            let parent: Option<&'static Process> = unsafe { newest.as_ref() };
            if let Some(process) = parent.filter(|process| process.id == id) {
                return process;
            }
            let made = Box::into_raw(Box::new(Process { id, parent, pool: OnceLock::new() }));
            if NEWEST.compare_exchange(newest, made, Ordering::AcqRel, Ordering::Acquire).is_err() {
                // SAFETY: another thread was first, and no one has seen this one.
                drop(unsafe { Box::from_raw(made) });
            }
        }
    }

    fn pool(&self) -> &Pool {
        self.pool.get_or_init(|| match self.parent {
            // rayon makes its global pool on first use, and panics if it cannot.
            None => match ThreadPoolBuilder::new().build_global() {
                Ok(()) => Pool::Global,
                // The error for a pool that already exists is the only one without a source.
                Err(error) if error.source().is_none() => Pool::Global,
                Err(_) => Pool::None,
            },
            Some(_) => ThreadPoolBuilder::new().build().map_or(Pool::None, Pool::Own),
        })
    }
}

/// Where rayon's functions find the threads of this process.
enum Place {
    /// On any thread: in the pool of the caller's, or in the global pool.
    Anywhere,
    /// On the threads of a forked child's pool.
    In(&'static ThreadPool),
    /// The system gives this child no threads.
    Nowhere,
}

fn place() -> Place {
    if rayon::current_thread_index().is_some() {
        return Place::Anywhere;
    }
    let process = Process::current();
    if process.parent.is_none() {
        return Place::Anywhere;
    }
    match process.pool() {
        Pool::Own(pool) => Place::In(pool),
        Pool::Global | Pool::None => Place::Nowhere,
    }
}

/// The number of threads of the current pool; 1 if the system cannot start that.
pub(crate) fn current_threads() -> usize {
    if rayon::current_thread_index().is_some() {
        return rayon::current_num_threads();
    }
    match Process::current().pool() {
        Pool::Global => rayon::current_num_threads(),
        Pool::Own(pool) => pool.current_num_threads(),
        Pool::None => 1,
    }
}

/// Runs work that is split over two or more of [`current_threads`].
pub(crate) fn split<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    match place() {
        Place::In(pool) => pool.install(work),
        // Nowhere there are two.
        Place::Anywhere | Place::Nowhere => work(),
    }
}

/// Runs work that calls rayon's functions, on the caller's thread, and in a forked child on one of its pool. `None`:
/// the system gives the child no threads.
#[doc(hidden)]
pub fn with_threads<R: Send>(work: impl FnOnce() -> R + Send) -> Option<R> {
    match place() {
        Place::In(pool) => Some(pool.install(work)),
        Place::Anywhere => Some(work()),
        Place::Nowhere => None,
    }
}
