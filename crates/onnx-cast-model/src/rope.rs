//! A message that is about to be written: stretches of the input, new bytes, and elements that are cast on their way.
//! Its length is known before its first byte is written, as the lengths of messages within messages must be. The
//! pipeline writes it, by one task for each piece.

use onnx_cast::DataType;
use onnx_cast_file::__private::memory::zeros;
use onnx_cast_file::__private::outline::{Backing, Outline};
use onnx_cast_file::__private::pipeline::{self, Chain, Compute, Decode, InMemory, Step, Task, Transform};
use onnx_cast_file::__private::{Counter, Items, ParsedData, pb, wire};
use onnx_cast_file::{InputFile, ReadAt, StoredValues};
use std::fmt;
use std::io;
use std::ops::{ControlFlow, Range};
use std::sync::{Arc, Mutex, PoisonError};

/// The elements of a tensor, and the casts on their way to the output.
#[derive(Clone, Debug)]
pub(crate) struct CastElements<'a> {
    pub(crate) stored: ElementSource<'a>,
    /// The type of what is stored.
    pub(crate) from: DataType,
    /// Number of elements.
    pub(crate) len: usize,
    /// The casts, in their order.
    pub(crate) plans: Chain,
    /// Counts the values and what becomes of them.
    pub(crate) counter: Option<Arc<Counter>>,
}

#[derive(Clone, Debug)]
pub(crate) enum ElementSource<'a> {
    /// In the model, as the library wants them, from this byte on.
    Model(Backing<'a>, u64),
    /// The same in a file of external data.
    File(&'a Arc<InputFile>, u64),
    /// A TensorProto that stores them in typed fields. They are decoded when they are written, one tensor at a time.
    Message(Message<'a>),
    /// Computed already.
    Owned(Arc<[u8]>),
    /// Computed while they are written.
    Computed(Computed<'a>),
}

/// What computes elements.
#[derive(Clone)]
pub(crate) struct Computed<'a>(pub(crate) Arc<dyn Compute + 'a>);

impl fmt::Debug for Computed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Computed")
    }
}

/// A tensor that is decoded when it is read, and read at any place. The one that was read last is kept for all of a
/// model's.
#[derive(Debug)]
struct Decoded<'a> {
    message: Message<'a>,
    last: Arc<Mutex<LastDecoded>>,
}

/// The place of a tensor's message in memory, and its elements.
pub(crate) type LastDecoded = Option<(usize, Arc<Vec<u8>>)>;

impl ReadAt for Decoded<'_> {
    fn read_at(&self, at: u64, bytes: &mut [u8]) -> io::Result<usize> {
        let key = self.message.message.as_ptr().addr();
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let decoded = match &*last {
            Some((known, decoded)) if *known == key => Arc::clone(decoded),
            _ => {
                *last = None;
                let decoded = Arc::new(self.message.decode()?);
                *last = Some((key, Arc::clone(&decoded)));
                decoded
            }
        };
        drop(last);
        decoded.read_at(at, bytes)
    }
}

/// A TensorProto whose elements are in typed fields.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message<'a> {
    pub(crate) outline: &'a Outline<'a>,
    pub(crate) message: &'a [u8],
}

impl Decode for Message<'_> {
    fn decode(&self) -> io::Result<Vec<u8>> {
        let whole = self.outline.whole(self.message).map_err(|error| error.error)?;
        match pb::parse(&whole).map_err(|error| io::Error::other(error.to_string()))?.data {
            ParsedData::Bytes(bytes) => Ok(bytes.into_owned()),
            ParsedData::Strings(_) => Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

/// Bytes of a model as a task reads them.
fn part(backing: Backing<'_>, at: u64, len: u64) -> pipeline::TaskInput<'_> {
    match backing {
        Backing::File(file) => pipeline::TaskInput::File(file, at),
        Backing::Memory(bytes) => {
            let left = usize::try_from(at).ok().and_then(|at| bytes.get(at..)).unwrap_or_default();
            let len = usize::try_from(len).unwrap_or(usize::MAX).min(left.len());
            pipeline::TaskInput::Memory(&left[..len])
        }
    }
}

impl<'a> CastElements<'a> {
    /// Elements as they are stored.
    pub(crate) fn new(stored: ElementSource<'a>, from: DataType, len: usize) -> Self {
        CastElements { stored, from, len, plans: Chain(Vec::new()), counter: None }
    }

    /// The type that is written.
    pub(crate) fn data_type(&self) -> DataType {
        self.plans.0.last().map_or(self.from, Step::target_type)
    }

    /// Bytes that are written; `None` where there can be no such tensor.
    pub(crate) fn byte_len(&self) -> Option<u64> {
        self.data_type().byte_len(self.len).map(|len| len as u64)
    }

    /// The same elements, cast once more.
    pub(crate) fn then(&self, step: Step) -> CastElements<'a> {
        let mut next = self.clone();
        next.plans.0.push(step);
        next
    }

    /// The task that writes the elements to a place.
    pub(crate) fn task(&self, to: u64) -> Task<'_> {
        let len = self.from.byte_len(self.len).unwrap_or(0) as u64;
        let elements = match &self.stored {
            ElementSource::Model(backing, at) => part(*backing, *at, len),
            ElementSource::File(file, at) => pipeline::TaskInput::File(file, *at),
            ElementSource::Message(message) => pipeline::TaskInput::Decoded(message),
            ElementSource::Owned(bytes) => pipeline::TaskInput::Memory(bytes),
            ElementSource::Computed(computed) => pipeline::TaskInput::Computed(&*computed.0, 0),
        };
        let transform = match &self.plans.0[..] {
            [] => None,
            [step] => Some(step as &dyn Transform),
            _ => Some(&self.plans as &dyn Transform),
        };
        let counter = self.counter.as_deref();
        Task { transform, counter, to, ..Task::keeping(elements, self.len, self.from, Items::PLAIN) }
    }

    /// The elements as they are stored, to be read at any place; `None` where they are computed.
    pub(crate) fn values(&self, last: &Arc<Mutex<LastDecoded>>) -> Option<StoredValues<'a>> {
        let len = self.from.byte_len(self.len)? as u64;
        Some(match &self.stored {
            ElementSource::Model(backing, at) => match part(*backing, *at, len) {
                pipeline::TaskInput::Memory(bytes) => StoredValues::Memory(bytes),
                pipeline::TaskInput::File(file, at) => StoredValues::File(file, at),
                _ => return None,
            },
            ElementSource::File(file, at) => StoredValues::File(file, *at),
            ElementSource::Message(message) => {
                StoredValues::Other(Arc::new(Decoded { message: *message, last: Arc::clone(last) }))
            }
            ElementSource::Owned(bytes) => StoredValues::Other(Arc::new(bytes.to_vec())),
            ElementSource::Computed(_) => return None,
        })
    }

    /// All elements in memory; `None` where they cannot be read or cast.
    pub(crate) fn read(&self) -> Option<Vec<u8>> {
        let memory = InMemory(Mutex::new(zeros(usize::try_from(self.byte_len()?).ok()?)?));
        pipeline::run(&[self.task(0)], Some(1), &memory, &|_| ControlFlow::Continue(())).ok()?;
        Some(memory.0.into_inner().unwrap_or_else(PoisonError::into_inner))
    }
}

#[derive(Debug)]
enum Piece<'a> {
    /// A stretch of the model that was read.
    Kept(Range<u64>),
    New(Vec<u8>),
    Elements(CastElements<'a>),
}

#[derive(Debug)]
pub(crate) struct Rope<'a> {
    outline: &'a Outline<'a>,
    pieces: Vec<Piece<'a>>,
    len: u64,
}

impl<'a> Rope<'a> {
    /// An empty message, some of which may be stretches of a model.
    pub(crate) fn new(outline: &'a Outline<'a>) -> Self {
        Rope { outline, pieces: Vec::new(), len: 0 }
    }

    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Appends a stretch of the model, which neighbours join.
    pub(crate) fn keep(&mut self, span: &'a [u8]) {
        let Some(range) = self.outline.place(span) else { return self.push(span) }; // not of this model
        self.len += range.end - range.start;
        match self.pieces.last_mut() {
            Some(Piece::Kept(last)) if last.end == range.start => last.end = range.end,
            _ => self.pieces.push(Piece::Kept(range)),
        }
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.len += bytes.len() as u64;
        match self.pieces.last_mut() {
            Some(Piece::New(last)) => last.extend_from_slice(bytes),
            _ => self.pieces.push(Piece::New(bytes.to_vec())),
        }
    }

    /// Appends a field that holds bytes.
    pub(crate) fn put_bytes(&mut self, number: u32, bytes: &[u8]) {
        let mut key = Vec::with_capacity(10);
        wire::put_len(&mut key, number, bytes.len() as u64);
        self.push(&key);
        self.push(bytes);
    }

    /// Appends a field that holds an integer.
    pub(crate) fn put_int(&mut self, number: u32, value: u64) {
        let mut field = Vec::with_capacity(12);
        wire::put_int(&mut field, number, value);
        self.push(&field);
    }

    /// Appends a field that holds a message.
    pub(crate) fn put(&mut self, number: u32, message: Rope<'a>) {
        let mut key = Vec::with_capacity(10);
        wire::put_len(&mut key, number, message.len);
        self.push(&key);
        self.len += message.len;
        for piece in message.pieces {
            match (self.pieces.last_mut(), piece) {
                (Some(Piece::New(last)), Piece::New(bytes)) => last.extend_from_slice(&bytes),
                (_, piece) => self.pieces.push(piece),
            }
        }
    }

    /// Appends a field that holds elements, which are `len` bytes.
    pub(crate) fn put_elements(&mut self, number: u32, elements: CastElements<'a>, len: u64) {
        let mut key = Vec::with_capacity(10);
        wire::put_len(&mut key, number, len);
        self.push(&key);
        self.len += len;
        self.pieces.push(Piece::Elements(elements));
    }

    /// The tasks that write the message.
    pub(crate) fn tasks(&self) -> Vec<Task<'_>> {
        let mut at = 0;
        let mut tasks = Vec::with_capacity(self.pieces.len());
        for piece in &self.pieces {
            let (task, len) = match piece {
                Piece::Kept(range) => {
                    let len = range.end - range.start;
                    // A message is not longer than a size of this machine: it is below 2 GiB.
                    let task = Task::copying(part(self.outline.backing, range.start, len), len as usize, at);
                    (task, len)
                }
                Piece::New(bytes) => {
                    (Task::copying(pipeline::TaskInput::Memory(bytes), bytes.len(), at), bytes.len() as u64)
                }
                Piece::Elements(elements) => (elements.task(at), elements.byte_len().unwrap_or(0)),
            };
            tasks.push(task);
            at += len;
        }
        tasks
    }
}
