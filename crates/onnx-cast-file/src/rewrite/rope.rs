//! A message that is about to be written: stretches of the input, new bytes, and elements that are cast as they are written.
//! Its length is known before its first byte is written, as the lengths of messages within messages must be.

use crate::counts::{Counter, Sides};
use crate::pb;
use crate::positional::InputFile;
use crate::proto::wire;
use crate::source::{SourceData, resize};
use onnx_cast::{DataType, Plan, TensorView};
use std::io::{self, Write};
use std::ops::Range;
use std::sync::Arc;

/// The elements of a tensor, and the casts on their way to the output.
#[derive(Clone, Debug)]
pub(super) struct Elements<'a> {
    pub(super) stored: Stored<'a>,
    /// The type of what is stored.
    pub(super) from: DataType,
    /// Number of elements.
    pub(super) len: usize,
    /// Each from the type that the one before gives.
    pub(super) plans: Vec<Plan>,
    /// What counts the values and what became of them.
    pub(super) counter: Option<Arc<Counter>>,
}

#[derive(Clone, Debug)]
pub(super) enum Stored<'a> {
    /// Bytes of the model, as the library wants them.
    Bytes(&'a [u8]),
    /// The same in a file of external data, from this byte on.
    File(&'a Arc<InputFile>, u64),
    /// A TensorProto that stores them another way. They are decoded when they are written, one tensor at a time.
    Message(&'a [u8]),
    /// Computed already.
    Owned(Arc<[u8]>),
}

/// Elements in a chunk: a multiple of 8, so that chunks of packed types are whole bytes, and few enough for the caches.
const CHUNK: usize = 1 << 16;

impl<'a> Elements<'a> {
    /// Elements as they are stored.
    pub(super) fn new(stored: Stored<'a>, from: DataType, len: usize) -> Self {
        Elements { stored, from, len, plans: Vec::new(), counter: None }
    }

    /// The type that is written.
    pub(super) fn data_type(&self) -> DataType {
        self.plans.last().map_or(self.from, Plan::target_type)
    }

    /// Bytes that are written; `None` where there can be no such tensor.
    pub(super) fn byte_len(&self) -> Option<u64> {
        self.data_type().byte_len(self.len).map(|len| len as u64)
    }

    /// The same elements, cast once more.
    pub(super) fn then(&self, plan: Plan) -> Elements<'a> {
        let mut next = self.clone();
        next.plans.push(plan);
        next
    }

    /// Writes the elements; `done` is told each stretch of the model that will not be read again.
    pub(super) fn write(&self, out: &mut impl Write, done: Done<'_>) -> io::Result<()> {
        match &self.stored {
            Stored::Bytes(bytes) => self.write_chunks(Chunks::Bytes(bytes), out, done),
            Stored::File(file, at) => self.write_chunks(Chunks::File(file, *at), out, &|_| {}),
            Stored::Owned(bytes) => self.write_chunks(Chunks::Bytes(bytes), out, &|_| {}),
            Stored::Message(message) => {
                let source = pb::parse(message).map_err(|error| io::Error::other(error.to_string()))?;
                match &source.data {
                    SourceData::Bytes(bytes) => self.write_chunks(Chunks::Bytes(bytes), out, &|_| {})?,
                    SourceData::Strings(_) => return Err(io::ErrorKind::InvalidData.into()),
                }
                done(message);
                Ok(())
            }
        }
    }

    fn write_chunks(&self, source: Chunks<'_>, out: &mut impl Write, done: Done<'_>) -> io::Result<()> {
        let size = |data_type: DataType, len| data_type.byte_len(len).ok_or(io::ErrorKind::InvalidData);
        let (mut read, mut cast, mut next) = (Vec::new(), Vec::new(), Vec::new());
        let mut sides = Sides::default();
        for start in (0..self.len).step_by(CHUNK) {
            let shape = [CHUNK.min(self.len - start)];
            let elements = source.get(size(self.from, start)?, size(self.from, shape[0])?, &mut read)?;
            let mut input = elements;
            for plan in &self.plans {
                let view = TensorView::new(plan.source_type(), &shape, input).map_err(io::Error::other)?;
                resize(&mut next, size(plan.target_type(), shape[0])?).ok_or(io::ErrorKind::OutOfMemory)?;
                plan.run_into(&view, &mut next).map_err(io::Error::other)?;
                std::mem::swap(&mut cast, &mut next);
                input = &cast;
            }
            if let Some(counter) = &self.counter {
                counter.add(elements, input, shape[0], &mut sides).map_err(io::Error::other)?;
            }
            out.write_all(input)?;
            done(elements);
        }
        Ok(())
    }
}

/// Takes what has been read.
pub(super) type Done<'a> = &'a dyn Fn(&[u8]);

/// Where elements are read.
enum Chunks<'a> {
    Bytes(&'a [u8]),
    File(&'a InputFile, u64),
}

impl Chunks<'_> {
    /// The bytes from `at` on, which stand in `buffer` where they had to be read.
    fn get<'b>(&'b self, at: usize, len: usize, buffer: &'b mut Vec<u8>) -> io::Result<&'b [u8]> {
        match self {
            Chunks::Bytes(bytes) => Ok(bytes.get(at..at + len).ok_or(io::ErrorKind::InvalidData)?),
            Chunks::File(file, start) => {
                resize(buffer, len).ok_or(io::ErrorKind::OutOfMemory)?;
                // Whoever writes takes this for a fault of the output, so that the text names the file.
                let refuse = |error: io::Error| {
                    io::Error::new(error.kind(), format!("cannot read {}: {error}", file.path().display()))
                };
                file.read_at(start + at as u64, buffer).map_err(refuse)?;
                Ok(buffer)
            }
        }
    }
}

#[derive(Debug)]
enum Piece<'a> {
    /// A stretch of the input.
    Kept(Range<usize>),
    New(Vec<u8>),
    Elements(Elements<'a>),
}

#[derive(Debug)]
pub(super) struct Rope<'a> {
    base: &'a [u8],
    pieces: Vec<Piece<'a>>,
    len: u64,
}

impl<'a> Rope<'a> {
    /// An empty message, some of which may be stretches of `base`.
    pub(super) fn new(base: &'a [u8]) -> Self {
        Rope { base, pieces: Vec::new(), len: 0 }
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Appends a stretch of the input, which neighbours join.
    pub(super) fn keep(&mut self, span: &'a [u8]) {
        let start = (span.as_ptr() as usize).wrapping_sub(self.base.as_ptr() as usize);
        let range = start..start.wrapping_add(span.len());
        if self.base.get(range.clone()).is_none() {
            return self.push(span); // not of this input
        }
        self.len += span.len() as u64;
        match self.pieces.last_mut() {
            Some(Piece::Kept(last)) if last.end == range.start => last.end = range.end,
            _ => self.pieces.push(Piece::Kept(range)),
        }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.len += bytes.len() as u64;
        match self.pieces.last_mut() {
            Some(Piece::New(last)) => last.extend_from_slice(bytes),
            _ => self.pieces.push(Piece::New(bytes.to_vec())),
        }
    }

    /// Appends a field that holds bytes.
    pub(super) fn put_bytes(&mut self, number: u32, bytes: &[u8]) {
        let mut key = Vec::with_capacity(10);
        wire::put_len(&mut key, number, bytes.len() as u64);
        self.push(&key);
        self.push(bytes);
    }

    /// Appends a field that holds an integer.
    pub(super) fn put_int(&mut self, number: u32, value: u64) {
        let mut field = Vec::with_capacity(12);
        wire::put_int(&mut field, number, value);
        self.push(&field);
    }

    /// Appends a field that holds a message.
    pub(super) fn put(&mut self, number: u32, message: Rope<'a>) {
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
    pub(super) fn put_elements(&mut self, number: u32, elements: Elements<'a>, len: u64) {
        let mut key = Vec::with_capacity(10);
        wire::put_len(&mut key, number, len);
        self.push(&key);
        self.len += len;
        self.pieces.push(Piece::Elements(elements));
    }

    /// Writes the message; `done` as in [`Elements::write`].
    pub(super) fn write(&self, out: &mut impl Write, done: Done<'_>) -> io::Result<()> {
        for piece in &self.pieces {
            match piece {
                Piece::Kept(range) => {
                    let bytes = self.base.get(range.clone()).unwrap_or_default();
                    for chunk in bytes.chunks(1 << 20) {
                        out.write_all(chunk)?;
                        done(chunk);
                    }
                }
                Piece::New(bytes) => out.write_all(bytes)?,
                Piece::Elements(elements) => elements.write(out, done)?,
            }
        }
        Ok(())
    }
}
