//! Elements from files to a file, in constant memory: workers take chunks in order, and each reads its chunk, casts it in
//! buffers of its own and writes it, so that reading, casting and writing overlap.

use crate::positional::InputFile;
use crate::source::{Items, resize};
use onnx_cast::{CastError, DataType, Plan, TensorError, TensorView, unpack};
use std::io;
use std::num::NonZero;
use std::ops::ControlFlow;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

/// The elements of a tensor, and what becomes of them.
pub(crate) struct Task<'a> {
    pub(crate) elements: Elements<'a>,
    /// Number of elements.
    pub(crate) len: usize,
    /// Their type in the input.
    pub(crate) from: DataType,
    /// How the input has them.
    pub(crate) items: Items,
    /// The cast; `None` keeps them. Neither of its types is string.
    pub(crate) plan: Option<Plan>,
    /// Whether elements narrower than a byte are written one to a byte.
    pub(crate) unpacks: bool,
    /// Where they go in the output.
    pub(crate) to: u64,
}

/// Where elements are read.
#[derive(Clone, Copy)]
pub(crate) enum Elements<'a> {
    /// In a file, from this byte on.
    File(&'a InputFile, u64),
    Memory(&'a [u8]),
}

/// What takes the output, chunk by chunk, each at its place.
pub(crate) trait Sink: Sync {
    fn put(&self, at: u64, bytes: &[u8]) -> io::Result<()>;
}

/// What went wrong.
#[derive(Debug)]
pub(crate) enum Trouble {
    Read(io::Error),
    Write(io::Error),
    Cast(CastError),
    /// Whoever is told how far the work is has ended it.
    Stopped,
}

/// What is told while the work goes on: bytes of the input that are done. It may end the work.
pub(crate) type Progress<'a> = &'a (dyn Fn(u64) -> ControlFlow<()> + Sync);

/// Elements of a chunk: a multiple of 8, so that chunks of packed types are whole bytes; of floats 1 MiB, which with the
/// result stays in the caches between reading, casting and writing.
const CHUNK: usize = 1 << 18;

/// Threads at most. A file is written by one at a time, so that more only wait; and each has its buffers.
const MOST_THREADS: usize = 8;

/// Bytes for which another thread is worth starting.
const THREAD_BYTES: u64 = 4 << 20;

/// Does the tasks, in order but for what threads do at the same time. An error tells its task.
pub(crate) fn run(tasks: &[Task<'_>], sink: &dyn Sink, progress: Progress<'_>) -> Result<(), (usize, Trouble)> {
    let bytes: u64 =
        tasks.iter().filter_map(|task| task.items.byte_len(task.from, task.len)).map(|len| len as u64).sum();
    let cores = thread::available_parallelism().map_or(1, NonZero::get).min(MOST_THREADS);
    let threads = cores.min(usize::try_from(bytes / THREAD_BYTES).unwrap_or(cores)).max(1);
    let flow = Flow { tasks, sink, progress, queue: Mutex::new(Queue::default()) };
    if threads == 1 {
        flow.work();
    } else {
        thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(|| flow.work()))));
    }
    let queue = flow.queue.into_inner().unwrap_or_else(PoisonError::into_inner);
    queue.failed.map_or(Ok(()), Err)
}

struct Flow<'a> {
    tasks: &'a [Task<'a>],
    sink: &'a dyn Sink,
    progress: Progress<'a>,
    queue: Mutex<Queue>,
}

/// What is next, and what went wrong first.
#[derive(Default)]
struct Queue {
    task: usize,
    element: usize,
    failed: Option<(usize, Trouble)>,
}

/// A stretch of a task.
struct Chunk {
    task: usize,
    element: usize,
    len: usize,
}

/// A worker's memory.
#[derive(Default)]
struct Buffers {
    items: Vec<u8>,
    packed: Vec<u8>,
    result: Vec<u8>,
    unpacked: Vec<u8>,
}

impl Flow<'_> {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        let mut buffers = Buffers::default();
        while let Some(chunk) = self.next() {
            let done = self.tasks[chunk.task].cast(&chunk, self.sink, &mut buffers);
            let told = done.and_then(|bytes| match (self.progress)(bytes) {
                ControlFlow::Continue(()) => Ok(()),
                ControlFlow::Break(()) => Err(Trouble::Stopped),
            });
            if let Err(trouble) = told {
                let mut queue = self.queue();
                // Of several, the first in the file: which of the threads is faster is chance.
                if queue.failed.as_ref().is_none_or(|(task, _)| chunk.task < *task) {
                    queue.failed = Some((chunk.task, trouble));
                }
            }
        }
    }

    fn next(&self) -> Option<Chunk> {
        let mut queue = self.queue();
        if queue.failed.is_some() {
            return None;
        }
        loop {
            let task = self.tasks.get(queue.task)?;
            if queue.element < task.len {
                let chunk =
                    Chunk { task: queue.task, element: queue.element, len: CHUNK.min(task.len - queue.element) };
                queue.element += chunk.len;
                return Some(chunk);
            }
            queue.task += 1;
            queue.element = 0;
        }
    }
}

impl Task<'_> {
    /// Reads, casts and writes a chunk; returns the bytes read.
    fn cast(&self, chunk: &Chunk, sink: &dyn Sink, buffers: &mut Buffers) -> Result<u64, Trouble> {
        let Buffers { items, packed, result, unpacked } = buffers;
        let start = self.fit(self.items.byte_len(self.from, chunk.element))?;
        let len = self.fit(self.items.byte_len(self.from, chunk.len))?;
        let mut elements = match self.elements {
            Elements::Memory(bytes) => bytes.get(start..start + len).unwrap_or_default(),
            Elements::File(file, at) => {
                self.fit(resize(items, len))?;
                file.read_at(at + start as u64, items).map_err(Trouble::Read)?;
                self.fit(self.items.decode(self.from, chunk.len, items, packed))?;
                if self.items.unpacked { &packed[..] } else { &items[..] }
            }
        };
        let mut to = self.from;
        if let Some(plan) = &self.plan {
            to = plan.to();
            let shape = [chunk.len];
            let view = TensorView::new(self.from, &shape, elements).map_err(|error| Trouble::Cast(error.into()))?;
            self.fit(to.byte_len(chunk.len).and_then(|len| resize(result, len)))?;
            plan.run_into(&view, result).map_err(Trouble::Cast)?;
            elements = result;
        }
        let written = Items { swap: 1, unpacked: self.unpacks && to.is_packed() };
        if written.unpacked {
            self.fit(resize(unpacked, chunk.len).and_then(|()| unpack(to, elements, unpacked)))?;
            elements = unpacked;
        }
        let offset = self.fit(written.byte_len(to, chunk.element))?;
        sink.put(self.to + offset as u64, elements).map_err(Trouble::Write)?;
        Ok(len as u64)
    }

    /// A size, or memory, that there must be.
    fn fit<T>(&self, size: Option<T>) -> Result<T, Trouble> {
        let too_large = || TensorError::TooLarge { data_type: self.from, shape: vec![self.len] };
        size.ok_or_else(|| Trouble::Cast(too_large().into()))
    }
}
