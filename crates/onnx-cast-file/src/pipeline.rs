//! The engine that moves elements from an input to an output, in constant memory. Workers take chunks in order. Each
//! reads its chunk, transforms it in its own buffers and hands it to the sink, so that reading, casting and writing
//! overlap. The engine knows no format: files, archives, models and reports describe their work as tasks.

mod amax;
mod clamp;
mod sinks;
mod task;

use crate::io::memory::room_for_a_thread;
use crate::pipeline::task::{Buffers, Chunk};
use onnx_cast::__private::DefaultEnvironment;
use onnx_cast::CastError;
use std::io;
use std::num::NonZero;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

pub use amax::Amax;
pub(crate) use amax::mark_nan;
pub use clamp::Clamp;
pub use sinks::{InMemory, InPlace, Nowhere, Sink};
pub(crate) use sinks::{InStretches, Ordered, Same};
pub(crate) use task::{CHUNK, columns_at_once};
pub use task::{Chain, Compute, Decode, ScaledCast, Scratch, Step, Task, TaskInput, Transform};

/// What went wrong.
#[derive(Debug)]
pub enum PipelineError {
    /// The input could not be read.
    Read(io::Error),
    /// The sink refused a chunk.
    Write(io::Error),
    /// A chunk could not be cast.
    Cast(CastError),
    /// The caller's progress function ended the work.
    Stopped,
}

impl From<io::Error> for PipelineError {
    fn from(error: io::Error) -> Self {
        PipelineError::Read(error)
    }
}

impl PipelineError {
    pub(crate) fn out_of_memory() -> PipelineError {
        PipelineError::Read(io::ErrorKind::OutOfMemory.into())
    }
}

/// A function that is called after every chunk with the bytes of input in it. It may end the work.
pub type Progress<'a> = &'a (dyn Fn(u64) -> ControlFlow<()> + Sync);

/// The default limit of threads. A file is written by one at a time, so more of them only wait, each with its buffers.
const DEFAULT_THREADS: usize = 8;

/// Bytes for which another thread is worth starting.
const THREAD_BYTES: u64 = 4 << 20;

/// Does the tasks in order, except for what up to `threads` threads do at the same time. An error names its task by its
/// index.
pub fn run(
    tasks: &[Task<'_>],
    threads: Option<usize>,
    sink: &dyn Sink,
    progress: Progress<'_>,
) -> Result<(), (usize, PipelineError)> {
    let bytes: u64 = tasks.iter().map(Task::bytes).sum();
    let worth = usize::try_from(bytes / THREAD_BYTES).unwrap_or(usize::MAX).min(threads.unwrap_or(DEFAULT_THREADS));
    // Asking the system takes longer than casting a small tensor, because it reads several files.
    let cores = || thread::available_parallelism().map_or(1, NonZero::get);
    let threads = if worth < 2 { 1 } else { worth.min(cores()) };
    let pipeline = Pipeline { tasks, sink, progress, queue: Mutex::new(Queue::default()) };
    if threads == 1 {
        pipeline.work();
    } else {
        thread::scope(|scope| {
            let start = |_| {
                room_for_a_thread().is_ok() && thread::Builder::new().spawn_scoped(scope, || pipeline.work()).is_ok()
            };
            let started = (0..threads).map(start).filter(|&started| started).count();
            // The system has no thread to give where memory is short: then this thread does the work.
            if started == 0 {
                pipeline.work();
            }
        });
    }
    let queue = pipeline.queue.into_inner().unwrap_or_else(PoisonError::into_inner);
    queue.failed.map_or(Ok(()), Err)
}

struct Pipeline<'a, 't> {
    tasks: &'a [Task<'t>],
    sink: &'a dyn Sink,
    progress: Progress<'a>,
    queue: Mutex<Queue>,
}

/// What is next, and what went wrong first.
#[derive(Default)]
struct Queue {
    task: usize,
    element: usize,
    /// The elements of the present task, where they had to be decoded all at once.
    decoded: Option<Arc<Vec<u8>>>,
    failed: Option<(usize, PipelineError)>,
}

/// Stops the other workers where one panics: they would wait for its chunk. The panic goes on when they have ended.
struct StopsOthers<'p, 'a, 't>(&'p Pipeline<'a, 't>);

impl Drop for StopsOthers<'_, '_, '_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.fail(&mut self.0.queue(), 0, PipelineError::Stopped);
        }
    }
}

impl Pipeline<'_, '_> {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        let _guard = StopsOthers(self);
        let _environment = DefaultEnvironment::enter();
        let mut buffers = Buffers::default();
        while let Some(chunk) = self.next(&mut buffers) {
            let done = self.tasks[chunk.task].run(&chunk, self.sink, &mut buffers);
            let told = done.and_then(|bytes| match (self.progress)(bytes) {
                ControlFlow::Continue(()) => Ok(()),
                ControlFlow::Break(()) => Err(PipelineError::Stopped),
            });
            if let Err(error) = told {
                self.fail(&mut self.queue(), chunk.task, error);
            }
        }
    }

    fn fail(&self, queue: &mut Queue, task: usize, error: PipelineError) {
        // Only the first is kept: the others may be its consequences.
        if queue.failed.is_none() {
            queue.failed = Some((task, error));
        }
        self.sink.abort();
    }

    /// The next chunk. What cannot be read at any place is read here, because here chunks are in order.
    fn next(&self, buffers: &mut Buffers) -> Option<Chunk> {
        let mut queue = self.queue();
        if queue.failed.is_some() {
            return None;
        }
        loop {
            let task = self.tasks.get(queue.task)?;
            if queue.element < task.len {
                let len = task.chunk_at(queue.element).min(task.len - queue.element);
                let mut chunk = Chunk { task: queue.task, element: queue.element, len, decoded: None };
                queue.element += chunk.len;
                let read = match task.elements {
                    TaskInput::Stream(stream) => task.read_next(&chunk, stream, &mut buffers.items),
                    TaskInput::Decoded(source) if chunk.element == 0 => {
                        task.decode(source).map(|bytes| queue.decoded = Some(Arc::new(bytes)))
                    }
                    _ => Ok(()),
                };
                if let Err(error) = read {
                    self.fail(&mut queue, chunk.task, error);
                    return None;
                }
                chunk.decoded.clone_from(&queue.decoded);
                return Some(chunk);
            }
            (queue.task, queue.element, queue.decoded) = (queue.task + 1, 0, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::source::Items;
    use onnx_cast::DataType;
    use std::sync::mpsc;

    /// An output in order, of which the first chunk panics when another waits for it.
    struct Panics<'a>(Ordered<&'a mut Vec<u8>>, mpsc::SyncSender<()>, Mutex<mpsc::Receiver<()>>);

    impl Sink for Panics<'_> {
        fn put(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
            if at == 0 {
                let others = self.2.lock().unwrap_or_else(PoisonError::into_inner);
                others.recv().expect("another worker");
                panic!("as a test wants it");
            }
            let _ = self.1.try_send(());
            self.0.put(at, bytes)
        }

        fn abort(&self) {
            self.0.abort();
        }
    }

    #[test]
    fn a_worker_that_panics_does_not_leave_the_others_waiting() {
        let (ended, end) = mpsc::channel();
        thread::spawn(move || {
            let bytes = vec![1; 8 * THREAD_BYTES as usize];
            let (sender, receiver) = mpsc::sync_channel(1);
            let mut out = Vec::new();
            let sink = Panics(Ordered::new(&mut out), sender, Mutex::new(receiver));
            let task = Task::keeping(TaskInput::Memory(&bytes), bytes.len(), DataType::Uint8, Items::PLAIN);
            let work = || run(&[task], Some(2), &sink, &|_| ControlFlow::Continue(()));
            let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
            let _ = ended.send(done.is_err());
        });
        // With one processor there is one worker, which waits for itself.
        if thread::available_parallelism().is_ok_and(|count| count.get() > 1) {
            assert_eq!(end.recv_timeout(std::time::Duration::from_secs(120)), Ok(true), "the work does not end");
        }
    }
}
