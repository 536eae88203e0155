//! The threads that large casts are split over: rayon's current pool, and in a forked child one of its own. A child
//! does not have the threads of its parent, and a caller that gives work to their pool waits forever.

use rayon::{ThreadPool, ThreadPoolBuilder};
use std::error::Error;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// A process that has asked for threads. It is never freed: a child still reads that of its parent.
struct Process {
    id: u32,
    /// Whether this process was forked after the library was loaded. The threads of rayon's global pool may then be
    /// those of a parent.
    is_forked: bool,
    /// Made at the first large cast. A child never touches that of its parent, which another thread may just have been
    /// making.
    pool: OnceLock<Pool>,
}

/// The threads of a process.
enum Pool {
    /// Those of rayon's global pool.
    Global,
    /// Those of a forked child's own pool.
    Own(ThreadPool),
    /// The system starts none.
    None,
}

/// This process, or its nearest ancestor that has asked for threads.
static NEWEST: AtomicPtr<Process> = AtomicPtr::new(ptr::null_mut());

/// The process that loaded the library; 0 where that is not recorded. A program may use rayon's global pool, and fork,
/// before its first cast.
static LOADED_BY: AtomicU32 = AtomicU32::new(0);

/// Called by the system when it loads the program or the shared library.
#[cfg(all(unix, not(target_os = "aix")))]
#[used]
#[cfg_attr(target_vendor = "apple", unsafe(link_section = "__DATA,__mod_init_func"))]
#[cfg_attr(not(target_vendor = "apple"), unsafe(link_section = ".init_array"))]
static AT_LOAD: extern "C" fn() = {
    extern "C" fn record() {
        LOADED_BY.store(std::process::id(), Ordering::Relaxed);
    }
    record
};

impl Process {
    fn current() -> &'static Process {
        // Only Unix forks. Other systems may have no process ids. A child with the id of an ancestor that has ended
        // would be taken for it: systems use an id again only after thousands of others.
        let id = if cfg!(unix) { std::process::id() } else { 0 };
        loop {
            let newest = NEWEST.load(Ordering::Acquire);
            // SAFETY: null, or a process that was made below and is never freed.
            let ancestor: Option<&'static Process> = unsafe { newest.as_ref() };
            if let Some(process) = ancestor.filter(|process| process.id == id) {
                return process;
            }
            // The linker drops an object to which nothing refers, with the function that it would call.
            #[cfg(all(unix, not(target_os = "aix")))]
            std::hint::black_box(&AT_LOAD);
            let loaded_by = LOADED_BY.load(Ordering::Relaxed);
            let is_forked = ancestor.is_some() || loaded_by != 0 && loaded_by != id;
            let made = Box::into_raw(Box::new(Process { id, is_forked, pool: OnceLock::new() }));
            if NEWEST.compare_exchange(newest, made, Ordering::AcqRel, Ordering::Acquire).is_err() {
                // SAFETY: another thread was first, and no one has seen this one.
                drop(unsafe { Box::from_raw(made) });
            }
        }
    }

    fn pool(&self) -> &Pool {
        self.pool.get_or_init(|| match self.is_forked {
            // rayon makes its global pool on first use, and panics if it cannot.
            false => match ThreadPoolBuilder::new().build_global() {
                Ok(()) => Pool::Global,
                // The error for a pool that already exists is the only one without a source.
                Err(error) if error.source().is_none() => Pool::Global,
                Err(_) => Pool::None,
            },
            true => ThreadPoolBuilder::new().build().map_or(Pool::None, Pool::Own),
        })
    }
}

/// The number of threads of the current pool; 1 if the system cannot start that. Work calls rayon's functions only if
/// there are two or more: without a pool they panic.
pub fn current_threads() -> usize {
    if rayon::current_thread_index().is_some() {
        return rayon::current_num_threads();
    }
    match Process::current().pool() {
        Pool::Global => rayon::current_num_threads(),
        Pool::Own(pool) => pool.current_num_threads(),
        Pool::None => 1,
    }
}

/// Runs work that may be split over [`current_threads`]. It runs on the caller's thread or, in a forked child, on a
/// thread of the child's own pool if it has one.
pub fn with_threads<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    // A thread of a pool that the process was forked on does the work of the others too.
    if rayon::current_thread_index().is_none()
        && let process = Process::current()
        && process.is_forked
        && let Pool::Own(pool) = process.pool()
    {
        return pool.install(work);
    }
    work()
}
