//! The progress of the work on a file, for a caller that shows it or ends the work.

use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A function that is called, from any thread, with the bytes of input that are done and their total. Of a model, all
/// bytes that are copied or cast count; of other files, those of the elements.
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

    /// The same for a part of the work: the bytes before it, its own, and those of all parts. It may count in other units.
    pub(crate) fn part(&self, before: u64, own: u64, total: u64) -> Watch {
        let whole = self.clone();
        Watch::stopping(move |done, of| {
            let done = u128::from(own) * u128::from(done) / u128::from(of.max(1));
            (whole.0)(before + done as u64, total)
        })
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Watch(..)")
    }
}

/// Counts what is done, and tells a watch.
pub struct Meter<'a> {
    watch: Option<&'a Watch>,
    done: AtomicU64,
    total: u64,
}

impl<'a> Meter<'a> {
    /// Counts up to a total of bytes.
    pub fn new(watch: Option<&'a Watch>, total: u64) -> Self {
        Meter { watch, done: AtomicU64::new(0), total }
    }

    /// Counts bytes, and calls the watch.
    pub fn add(&self, bytes: u64) -> ControlFlow<()> {
        let done = self.done.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.watch.map_or(ControlFlow::Continue(()), |watch| (watch.0)(done.min(self.total), self.total))
    }

    /// Bytes that are done.
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Goes back to what was done before something that is to be done again.
    pub fn back_to(&self, done: u64) {
        self.done.store(done, Ordering::Relaxed);
    }
}
