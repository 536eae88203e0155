//! How far the work on a file is, for whoever wants to see it, or to end it.

use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A function that is told, from any thread, how many bytes are done, and of how many: of the elements that are read, and
/// where a model is written, of what is written.
#[derive(Clone)]
pub struct Watch(Arc<dyn Fn(u64, u64) -> ControlFlow<()> + Send + Sync>);

impl Watch {
    /// With this function.
    pub fn new(tell: impl Fn(u64, u64) + Send + Sync + 'static) -> Watch {
        Watch::stopping(move |done, total| {
            tell(done, total);
            ControlFlow::Continue(())
        })
    }

    /// With this function, which may also end the work: the output is then as it was before, and the call returns
    /// [`FileError::Stopped`](crate::FileError::Stopped).
    pub fn stopping(tell: impl Fn(u64, u64) -> ControlFlow<()> + Send + Sync + 'static) -> Watch {
        Watch(Arc::new(tell))
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Watch(..)")
    }
}

/// Counts what is done, and tells a watch.
pub(crate) struct Meter<'a> {
    watch: Option<&'a Watch>,
    done: AtomicU64,
    total: u64,
}

impl<'a> Meter<'a> {
    pub(crate) fn new(watch: Option<&'a Watch>, total: u64) -> Self {
        Meter { watch, done: AtomicU64::new(0), total }
    }

    pub(crate) fn add(&self, bytes: u64) -> ControlFlow<()> {
        let done = self.done.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.watch.map_or(ControlFlow::Continue(()), |watch| (watch.0)(done.min(self.total), self.total))
    }

    pub(crate) fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Goes back to what was done before something that is to be done again.
    pub(crate) fn back_to(&self, done: u64) {
        self.done.store(done, Ordering::Relaxed);
    }
}
