//! The work on one tensor: where its elements are, what becomes of them, and where the results go.

use crate::counts::{Counter, Sides};
use crate::formats::source::Items;
use crate::io::memory::resize;
use crate::io::positional::InputFile;
use crate::pipeline::{Clamp, PipelineError, Sink};
use onnx_cast::packing::unpack;
use onnx_cast::scaled::ScaledPlan;
use onnx_cast::tensor::TensorErrorKind;
use onnx_cast::{CastError, DataType, Plan, Tensor, TensorView};
use std::io::{self, Read};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

/// The elements of a tensor, and what becomes of them.
#[derive(Clone)]
pub struct Task<'a> {
    /// Where the elements are.
    pub elements: TaskInput<'a>,
    /// Number of elements.
    pub len: usize,
    /// Their type in the input.
    pub from: DataType,
    /// How the input stores them.
    pub items: Items,
    /// What becomes of them; `None` keeps them.
    pub transform: Option<&'a dyn Transform>,
    /// Whether results narrower than a byte are written one to a byte.
    pub unpacks: bool,
    /// The place of the first result in the output.
    pub to: u64,
    /// The place of the tensor that is computed beside the elements: their scales.
    pub beside: u64,
    /// Counts the values and what becomes of them.
    pub counter: Option<&'a Counter>,
    /// Elements of a part, a multiple of 8, where parts have to end at certain elements.
    pub chunk: Option<usize>,
}

/// Where elements are.
#[derive(Clone, Copy)]
pub enum TaskInput<'a> {
    /// In a file, from this byte on.
    File(&'a InputFile, u64),
    /// In memory.
    Memory(&'a [u8]),
    /// In a stream, which is read in order.
    Stream(&'a Mutex<dyn Read + Send + 'a>),
    /// In a form that is decoded all at once, when the work reaches it.
    Decoded(&'a dyn Decode),
    /// Nowhere as they are: computed from other elements, from this element on.
    Computed(&'a dyn Compute, usize),
}

/// Elements that are decoded all at once.
pub trait Decode: Sync {
    /// The elements, packed and little endian.
    fn decode(&self) -> io::Result<Vec<u8>>;
}

/// Elements that are computed part by part, from places that the task does not know.
pub trait Compute: Sync {
    /// Computes `len` elements, the first of which is the tensor's element `start`, packed and little endian.
    fn compute(&self, start: usize, len: usize, scratch: &mut Scratch, out: &mut [u8]) -> Result<(), PipelineError>;

    /// The elements that are best computed at once: a multiple of 8.
    fn chunk(&self) -> usize {
        CHUNK
    }

    /// Those from one on, where parts have to end at certain elements. They end a byte, too.
    fn chunk_at(&self, _: usize) -> usize {
        self.chunk()
    }
}

/// A worker's memory for what it computes; its contents last for one call.
#[derive(Debug, Default)]
pub struct Scratch {
    /// Elements as they are read.
    pub elements: Vec<u8>,
    /// Elements in another form.
    pub codes: Vec<u8>,
    /// Scales.
    pub scales: Vec<u8>,
    /// Zero points.
    pub zero_points: Vec<u8>,
    /// Results in another order.
    pub results: Vec<u8>,
    /// What is computed beside the elements, each with its place in the tensor that [`Task::beside`] is for.
    pub beside: Vec<(u64, Vec<u8>)>,
    /// Where the results belong unless they follow each other: the place in the tensor and the bytes of each stretch.
    pub stretches: Vec<(u64, usize)>,
}

/// What becomes of elements on their way from input to output. Neither type is string.
pub trait Transform: Sync {
    /// The type of the results.
    fn target_type(&self) -> DataType;

    /// Transforms `len` elements, the first of which is the tensor's element `start`, into `result`, which has the
    /// length of the results.
    fn run(&self, start: usize, len: usize, elements: &[u8], result: &mut [u8]) -> Result<(), CastError>;
}

impl Transform for Plan {
    fn target_type(&self) -> DataType {
        Plan::target_type(self)
    }

    fn run(&self, _: usize, len: usize, elements: &[u8], result: &mut [u8]) -> Result<(), CastError> {
        self.run_into(&TensorView::new(self.source_type(), &[len], elements)?, result)
    }
}

/// A scaled cast of a tensor, with its scale and zero point.
#[derive(Clone, Debug)]
pub struct ScaledCast {
    /// The operator, resolved for its types.
    pub plan: ScaledPlan,
    /// The tensor's shape.
    pub shape: Vec<usize>,
    /// The scale.
    pub scale: Tensor,
    /// The zero point, where there is one.
    pub zero_point: Option<Tensor>,
    /// What counts the values that are lost, where that is to be counted.
    pub back: Option<ReadBack>,
}

/// Reads back as floats what a scaled cast gives, and compares them with what was cast.
#[derive(Clone, Debug)]
pub struct ReadBack {
    /// DequantizeLinear of the same scales.
    pub plan: ScaledPlan,
    /// Counts both sides.
    pub counter: Arc<Counter>,
}

impl ReadBack {
    /// Values that are read back at a time.
    const STEP: usize = 2048;

    fn count(&self, cast: &ScaledCast, start: usize, elements: &[u8], result: &[u8]) -> Result<(), CastError> {
        let zero_point = cast.zero_point.as_ref().map(Tensor::view);
        let bound = self.plan.bind(&cast.shape, &cast.scale.view(), zero_point.as_ref())?;
        let bytes = |data_type: DataType, len: usize| data_type.byte_len(len).unwrap_or(0).max(1);
        let [from, to] = [cast.plan.source_type(), cast.plan.target_type()];
        let (mut values, mut sides) = (vec![0; 4 * ReadBack::STEP], Sides::default());
        let parts = elements.chunks(bytes(from, ReadBack::STEP)).zip(result.chunks(bytes(to, ReadBack::STEP)));
        for ((elements, result), at) in parts.zip((start..).step_by(ReadBack::STEP)) {
            let len = elements.len() / bytes(from, 1);
            let values = &mut values[..4 * len];
            bound.run_part(at, len, result, values)?;
            self.counter.add(elements, values, len, &mut sides)?;
        }
        Ok(())
    }
}

impl Transform for ScaledCast {
    fn target_type(&self) -> DataType {
        self.plan.target_type()
    }

    fn run(&self, start: usize, len: usize, elements: &[u8], result: &mut [u8]) -> Result<(), CastError> {
        let zero_point = self.zero_point.as_ref().map(Tensor::view);
        let bound = self.plan.bind(&self.shape, &self.scale.view(), zero_point.as_ref())?;
        bound.run_part(start, len, elements, result)?;
        self.back.as_ref().map_or(Ok(()), |back| back.count(self, start, elements, result))
    }
}

/// One step of a chain.
#[derive(Clone, Debug)]
pub enum Step {
    /// A cast.
    Cast(Plan),
    /// A scaled cast.
    Scaled(Arc<ScaledCast>),
    /// Floats, clamped.
    Clamp(Arc<Clamp>),
}

impl Transform for Step {
    fn target_type(&self) -> DataType {
        match self {
            Step::Cast(plan) => plan.target_type(),
            Step::Scaled(scaled) => scaled.target_type(),
            Step::Clamp(clamp) => clamp.target_type(),
        }
    }

    fn run(&self, start: usize, len: usize, elements: &[u8], result: &mut [u8]) -> Result<(), CastError> {
        match self {
            Step::Cast(plan) => Transform::run(plan, start, len, elements, result),
            Step::Scaled(scaled) => scaled.run(start, len, elements, result),
            Step::Clamp(clamp) => clamp.run(start, len, elements, result),
        }
    }
}

/// Casts in a row, each from the type that the one before gives.
#[derive(Clone, Debug)]
pub struct Chain(pub Vec<Step>);

impl Transform for Chain {
    fn target_type(&self) -> DataType {
        self.0.last().map_or(DataType::Float, Step::target_type)
    }

    fn run(&self, start: usize, len: usize, elements: &[u8], result: &mut [u8]) -> Result<(), CastError> {
        let Some((last, before)) = self.0.split_last() else { return Ok(()) };
        let (mut from, mut to) = (Vec::new(), Vec::new());
        for (index, step) in before.iter().enumerate() {
            let data_type = step.target_type();
            let size = data_type.byte_len(len).and_then(|size| resize(&mut to, size));
            size.ok_or_else(|| TensorErrorKind::TooLarge { data_type, shape: vec![len] })?;
            step.run(start, len, if index == 0 { elements } else { &from }, &mut to)?;
            std::mem::swap(&mut from, &mut to);
        }
        last.run(start, len, if before.is_empty() { elements } else { &from }, result)
    }
}

/// Elements of a chunk: a multiple of 8, so that chunks of packed types are whole bytes. Of floats they are 1 MiB,
/// which with the result stays in the caches between reading, casting and writing.
pub(crate) const CHUNK: usize = 1 << 18;

/// Number of values to read at once: about one chunk, rounded to whole columns of `rows` values if these are not too
/// long.
pub(crate) fn columns_at_once(rows: usize) -> usize {
    let columns = [64, 32, 8].map(|count| rows.saturating_mul(count));
    let whole = columns.into_iter().find(|columns| (1..=4 * CHUNK).contains(columns));
    whole.map_or(CHUNK, |columns| CHUNK.div_ceil(columns) * columns)
}

/// A stretch of a task.
pub(super) struct Chunk {
    pub(super) task: usize,
    pub(super) element: usize,
    pub(super) len: usize,
    /// The elements of the whole task, where they were decoded.
    pub(super) decoded: Option<Arc<Vec<u8>>>,
}

/// A worker's memory.
#[derive(Default)]
pub(super) struct Buffers {
    pub(super) items: Vec<u8>,
    packed: Vec<u8>,
    result: Vec<u8>,
    unpacked: Vec<u8>,
    sides: Sides,
    scratch: Scratch,
}

impl<'a> Task<'a> {
    /// The task that keeps elements as they are.
    pub fn keeping(elements: TaskInput<'a>, len: usize, from: DataType, items: Items) -> Self {
        let (transform, counter, chunk) = (None, None, None);
        Task { elements, len, from, items, transform, unpacks: false, to: 0, beside: 0, counter, chunk }
    }

    /// The task that copies bytes to a place.
    pub fn copying(elements: TaskInput<'a>, len: usize, to: u64) -> Self {
        Task { to, ..Task::keeping(elements, len, DataType::Uint8, Items::PLAIN) }
    }

    /// Some of the elements, from one that starts a byte. Of a stream, which only starts at its beginning, and of
    /// elements that are decoded all at once there are none.
    pub fn slice(mut self, range: Range<usize>) -> Self {
        let skipped = |items: Items, data_type| items.byte_len(data_type, range.start).unwrap_or(0);
        let start = skipped(self.items, self.from);
        self.len = range.len();
        match &mut self.elements {
            TaskInput::File(_, at) => *at += start as u64,
            TaskInput::Memory(bytes) => *bytes = bytes.get(start..).unwrap_or_default(),
            TaskInput::Computed(_, first) => *first += range.start,
            TaskInput::Stream(_) | TaskInput::Decoded(_) => self.len = 0,
        }
        self.to += skipped(self.written(), self.target_type()) as u64;
        self
    }

    /// The most elements of a chunk that begins at one.
    pub(super) fn chunk_at(&self, element: usize) -> usize {
        match (self.chunk, self.elements) {
            (Some(chunk), _) => chunk,
            (None, TaskInput::Computed(source, first)) => source.chunk_at(first + element),
            (None, _) => CHUNK,
        }
    }

    /// Bytes that are read, or computed.
    pub fn bytes(&self) -> u64 {
        self.items.byte_len(self.from, self.len).unwrap_or(0) as u64
    }

    fn target_type(&self) -> DataType {
        self.transform.map_or(self.from, Transform::target_type)
    }

    /// How the results are written.
    fn written(&self) -> Items {
        Items { swap: 1, unpacked: self.unpacks && self.target_type().is_packed() }
    }

    /// Reads, transforms and writes a chunk; returns the bytes read.
    pub(super) fn run(&self, chunk: &Chunk, sink: &dyn Sink, buffers: &mut Buffers) -> Result<u64, PipelineError> {
        let Buffers { items, packed, result, unpacked, sides, scratch } = buffers;
        let start = self.fit(self.items.byte_len(self.from, chunk.element))?;
        let len = self.fit(self.items.byte_len(self.from, chunk.len))?;
        let part =
            |bytes: &'_ [u8]| -> Option<Range<usize>> { bytes.get(start..start + len).map(|_| start..start + len) };
        let mut elements = match self.elements {
            TaskInput::Memory(bytes) => &bytes[self.fit(part(bytes))?],
            TaskInput::Decoded(_) => {
                let bytes = chunk.decoded.as_deref().map(Vec::as_slice).unwrap_or_default();
                &bytes[self.fit(part(bytes))?]
            }
            TaskInput::Computed(source, first) => {
                self.fit(resize(items, len))?;
                source.compute(first + chunk.element, chunk.len, scratch, items)?;
                &items[..]
            }
            TaskInput::File(..) | TaskInput::Stream(_) => {
                if let TaskInput::File(file, at) = self.elements {
                    self.fit(resize(items, len))?;
                    file.read_at(at + start as u64, items).map_err(PipelineError::Read)?;
                }
                self.fit(self.items.decode(self.from, chunk.len, items, packed))?;
                if self.items.unpacked { &packed[..] } else { &items[..] }
            }
        };
        let to = self.target_type();
        if let Some(transform) = self.transform {
            self.fit(to.byte_len(chunk.len).and_then(|len| resize(result, len)))?;
            transform.run(chunk.element, chunk.len, elements, result).map_err(PipelineError::Cast)?;
            if let Some(counter) = self.counter {
                counter.add(elements, result, chunk.len, sides).map_err(PipelineError::Cast)?;
            }
            elements = result;
        }
        let written = self.written();
        if written.unpacked {
            self.fit(resize(unpacked, chunk.len).and_then(|()| unpack(to, elements, unpacked).ok()))?;
            elements = unpacked;
        }
        if scratch.stretches.is_empty() {
            let offset = self.fit(written.byte_len(to, chunk.element))?;
            sink.put(self.to + offset as u64, elements).map_err(PipelineError::Write)?;
        }
        for (at, len) in scratch.stretches.drain(..) {
            let (stretch, rest) = self.fit(elements.split_at_checked(len))?;
            sink.put(self.to + at, stretch).map_err(PipelineError::Write)?;
            elements = rest;
        }
        for (at, bytes) in scratch.beside.drain(..) {
            sink.put(self.beside + at, &bytes).map_err(PipelineError::Write)?;
        }
        Ok(len as u64)
    }

    /// Reads the items of a chunk from the present place of a stream.
    pub(super) fn read_next(
        &self,
        chunk: &Chunk,
        stream: &Mutex<dyn Read + Send + '_>,
        items: &mut Vec<u8>,
    ) -> Result<(), PipelineError> {
        let len = self.items.byte_len(self.from, chunk.len);
        self.fit(len.and_then(|len| resize(items, len)))?;
        let read = stream.lock().unwrap_or_else(PoisonError::into_inner).read_exact(items);
        read.map_err(|error| {
            PipelineError::Read(match error.kind() {
                io::ErrorKind::UnexpectedEof => io::Error::new(error.kind(), "it ends before its elements do"),
                _ => error,
            })
        })
    }

    /// Decodes all elements, and checks that they are as many as the task has.
    pub(super) fn decode(&self, source: &dyn Decode) -> Result<Vec<u8>, PipelineError> {
        let bytes = source.decode().map_err(PipelineError::Read)?;
        if bytes.len() as u64 == self.bytes() {
            return Ok(bytes);
        }
        Err(PipelineError::Read(io::Error::new(io::ErrorKind::InvalidData, "it changed while it was read")))
    }

    /// A size that must not overflow, or memory that must be there.
    fn fit<T>(&self, size: Option<T>) -> Result<T, PipelineError> {
        let too_large = || TensorErrorKind::TooLarge { data_type: self.from, shape: vec![self.len] };
        size.ok_or_else(|| PipelineError::Cast(too_large().into()))
    }
}
