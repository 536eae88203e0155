//! Elements from files to a file, in constant memory: workers take chunks in order, and each reads its chunk, casts it in
//! buffers of its own and writes it, so that reading, casting and writing overlap.

use crate::counts::{Counter, Sides};
use crate::positional::InputFile;
use crate::room::room_for_a_thread;
use crate::source::{Items, resize};
use onnx_cast::{CastError, DataType, Plan, TensorError, TensorView, unpack};
use std::io::{self, Read, Write};
use std::num::NonZero;
use std::ops::{ControlFlow, Range};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
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
    /// What counts the values and what became of them.
    pub(crate) counter: Option<&'a Counter>,
}

/// Where elements are read.
#[derive(Clone, Copy)]
pub(crate) enum Elements<'a> {
    /// In a file, from this byte on.
    File(&'a InputFile, u64),
    Memory(&'a [u8]),
    /// In order from here on.
    Stream(&'a Mutex<dyn Read + Send + 'a>),
}

/// What takes the output, chunk by chunk, each at its place.
pub(crate) trait Sink: Sync {
    fn put(&self, at: u64, bytes: &[u8]) -> io::Result<()>;

    /// Nothing more will come: nobody need wait for it.
    fn abort(&self) {}
}

/// A sink over what is written in order. Chunks wait for those before them.
pub(crate) struct Ordered<W> {
    state: Mutex<OrderedState<W>>,
    changed: Condvar,
}

struct OrderedState<W> {
    at: u64,
    aborted: bool,
    out: W,
}

impl<W> Ordered<W> {
    pub(crate) fn new(out: W) -> Self {
        Ordered { state: Mutex::new(OrderedState { at: 0, aborted: false, out }), changed: Condvar::new() }
    }
}

impl<W: Write + Send> Sink for Ordered<W> {
    fn put(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        while state.at != at && !state.aborted {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.aborted {
            return Err(io::ErrorKind::Interrupted.into());
        }
        state.out.write_all(bytes)?;
        state.at += bytes.len() as u64;
        self.changed.notify_all();
        Ok(())
    }

    fn abort(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).aborted = true;
        self.changed.notify_all();
    }
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

/// Does the tasks, in order but for what threads, `most` of them, do at the same time. An error tells its task.
pub(crate) fn run(
    tasks: &[Task<'_>],
    most: Option<usize>,
    sink: &dyn Sink,
    progress: Progress<'_>,
) -> Result<(), (usize, Trouble)> {
    let bytes: u64 = tasks.iter().map(Task::bytes).sum();
    let worth = usize::try_from(bytes / THREAD_BYTES).unwrap_or(usize::MAX).min(most.unwrap_or(MOST_THREADS));
    // The system's answer takes longer than a small tensor, as it comes from several of its files.
    let cores = || thread::available_parallelism().map_or(1, NonZero::get);
    let threads = if worth < 2 { 1 } else { worth.min(cores()) };
    let flow = Flow { tasks, sink, progress, queue: Mutex::new(Queue::default()) };
    if threads == 1 {
        flow.work();
    } else {
        thread::scope(|scope| {
            let start =
                |_| room_for_a_thread().is_ok() && thread::Builder::new().spawn_scoped(scope, || flow.work()).is_ok();
            let started = (0..threads).map(start).filter(|&started| started).count();
            // The system has no thread to give where memory is short: then this one does the work.
            if started == 0 {
                flow.work();
            }
        });
    }
    let queue = flow.queue.into_inner().unwrap_or_else(PoisonError::into_inner);
    queue.failed.map_or(Ok(()), Err)
}

struct Flow<'a, 't> {
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
    sides: Sides,
}

impl Flow<'_, '_> {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        let mut buffers = Buffers::default();
        while let Some(chunk) = self.next(&mut buffers) {
            let done = self.tasks[chunk.task].cast(&chunk, self.sink, &mut buffers);
            let told = done.and_then(|bytes| match (self.progress)(bytes) {
                ControlFlow::Continue(()) => Ok(()),
                ControlFlow::Break(()) => Err(Trouble::Stopped),
            });
            if let Err(trouble) = told {
                self.fail(&mut self.queue(), chunk.task, trouble);
            }
        }
    }

    fn fail(&self, queue: &mut Queue, task: usize, trouble: Trouble) {
        // The first of several: those after it may come of it.
        if queue.failed.is_none() {
            queue.failed = Some((task, trouble));
        }
        self.sink.abort();
    }

    /// The next chunk; of a stream, its items are read, which must be in order.
    fn next(&self, buffers: &mut Buffers) -> Option<Chunk> {
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
                if let Elements::Stream(stream) = task.elements
                    && let Err(trouble) = task.read_next(&chunk, stream, &mut buffers.items)
                {
                    self.fail(&mut queue, chunk.task, trouble);
                    return None;
                }
                return Some(chunk);
            }
            queue.task += 1;
            queue.element = 0;
        }
    }
}

impl<'a> Task<'a> {
    /// The task that keeps elements as they are.
    pub(crate) fn keeping(elements: Elements<'a>, len: usize, from: DataType, items: Items) -> Self {
        Task { elements, len, from, items, plan: None, unpacks: false, to: 0, counter: None }
    }

    /// Some of the elements, from one that starts a byte on; none of a stream, which cannot be begun but at its start.
    pub(crate) fn slice(mut self, range: Range<usize>) -> Self {
        let skipped = |items: Items, data_type| items.byte_len(data_type, range.start).unwrap_or(0);
        let start = skipped(self.items, self.from);
        self.len = range.len();
        match &mut self.elements {
            Elements::File(_, at) => *at += start as u64,
            Elements::Memory(bytes) => *bytes = bytes.get(start..).unwrap_or_default(),
            Elements::Stream(_) => self.len = 0,
        }
        let to = self.plan.map_or(self.from, |plan| plan.target_type());
        self.to += skipped(Items { swap: 1, unpacked: self.unpacks && to.is_packed() }, to) as u64;
        self
    }

    /// Bytes that are read.
    pub(crate) fn bytes(&self) -> u64 {
        self.items.byte_len(self.from, self.len).unwrap_or(0) as u64
    }

    /// Reads, casts and writes a chunk; returns the bytes read.
    fn cast(&self, chunk: &Chunk, sink: &dyn Sink, buffers: &mut Buffers) -> Result<u64, Trouble> {
        let Buffers { items, packed, result, unpacked, sides } = buffers;
        let start = self.fit(self.items.byte_len(self.from, chunk.element))?;
        let len = self.fit(self.items.byte_len(self.from, chunk.len))?;
        let mut elements = match self.elements {
            Elements::Memory(bytes) => bytes.get(start..start + len).unwrap_or_default(),
            Elements::File(..) | Elements::Stream(_) => {
                if let Elements::File(file, at) = self.elements {
                    self.fit(resize(items, len))?;
                    file.read_at(at + start as u64, items).map_err(Trouble::Read)?;
                }
                self.fit(self.items.decode(self.from, chunk.len, items, packed))?;
                if self.items.unpacked { &packed[..] } else { &items[..] }
            }
        };
        let mut to = self.from;
        if let Some(plan) = &self.plan {
            to = plan.target_type();
            let shape = [chunk.len];
            let view = TensorView::new(self.from, &shape, elements).map_err(|error| Trouble::Cast(error.into()))?;
            self.fit(to.byte_len(chunk.len).and_then(|len| resize(result, len)))?;
            plan.run_into(&view, result).map_err(Trouble::Cast)?;
            if let Some(counter) = self.counter {
                counter.add(elements, result, chunk.len, sides).map_err(Trouble::Cast)?;
            }
            elements = result;
        }
        let written = Items { swap: 1, unpacked: self.unpacks && to.is_packed() };
        if written.unpacked {
            self.fit(resize(unpacked, chunk.len).and_then(|()| unpack(to, elements, unpacked).ok()))?;
            elements = unpacked;
        }
        let offset = self.fit(written.byte_len(to, chunk.element))?;
        sink.put(self.to + offset as u64, elements).map_err(Trouble::Write)?;
        Ok(len as u64)
    }

    /// Reads the items of a chunk from where a stream stands.
    fn read_next(
        &self,
        chunk: &Chunk,
        stream: &Mutex<dyn Read + Send + '_>,
        items: &mut Vec<u8>,
    ) -> Result<(), Trouble> {
        let len = self.items.byte_len(self.from, chunk.len);
        self.fit(len.and_then(|len| resize(items, len)))?;
        let read = stream.lock().unwrap_or_else(PoisonError::into_inner).read_exact(items);
        read.map_err(|error| {
            Trouble::Read(match error.kind() {
                io::ErrorKind::UnexpectedEof => io::Error::new(error.kind(), "it ends before its elements do"),
                _ => error,
            })
        })
    }

    /// A size, or memory, that there must be.
    fn fit<T>(&self, size: Option<T>) -> Result<T, Trouble> {
        let too_large = || TensorError::TooLarge { data_type: self.from, shape: vec![self.len] };
        size.ok_or_else(|| Trouble::Cast(too_large().into()))
    }
}
