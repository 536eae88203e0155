//! A message that is about to be written: stretches of the input, new bytes, and elements that are cast as they are written.
//! Its length is known before its first byte is written, as the lengths of messages within messages must be.

use crate::pb;
use crate::proto::wire;
use crate::source::{SourceData, zeros};
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
}

#[derive(Clone, Debug)]
pub(super) enum Stored<'a> {
    /// Bytes as the library wants them, in the model or in a file of external data.
    Bytes(&'a [u8]),
    /// A TensorProto that stores them another way. They are decoded when they are written, one tensor at a time.
    Message(&'a [u8]),
    /// Computed already.
    Owned(Arc<[u8]>),
}

/// Elements in a chunk: a multiple of 8, so that chunks of packed types are whole bytes, and few enough for the caches.
const CHUNK: usize = 1 << 16;

impl<'a> Elements<'a> {
    /// The type that is written.
    pub(super) fn data_type(&self) -> DataType {
        self.plans.last().map_or(self.from, Plan::to)
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

    pub(super) fn write(&self, out: &mut impl Write) -> io::Result<()> {
        match &self.stored {
            Stored::Bytes(bytes) => self.write_bytes(bytes, out),
            Stored::Owned(bytes) => self.write_bytes(bytes, out),
            Stored::Message(message) => {
                let source = pb::parse(message).map_err(|error| io::Error::other(error.to_string()))?;
                match &source.data {
                    SourceData::Bytes(bytes) => self.write_bytes(bytes, out),
                    SourceData::Strings(_) => Err(io::ErrorKind::InvalidData.into()),
                }
            }
        }
    }

    fn write_bytes(&self, bytes: &[u8], out: &mut impl Write) -> io::Result<()> {
        if self.plans.is_empty() {
            return bytes.chunks(1 << 20).try_for_each(|chunk| out.write_all(chunk));
        }
        let size = |data_type: DataType, len| data_type.byte_len(len).ok_or(io::ErrorKind::InvalidData);
        let (mut chunk, mut next) = (Vec::new(), Vec::new());
        for start in (0..self.len).step_by(CHUNK) {
            let shape = [CHUNK.min(self.len - start)];
            let offset = size(self.from, start)?;
            let mut input = bytes.get(offset..offset + size(self.from, shape[0])?).ok_or(io::ErrorKind::InvalidData)?;
            for plan in &self.plans {
                let view = TensorView::new(plan.from(), &shape, input).map_err(io::Error::other)?;
                let want = size(plan.to(), shape[0])?;
                if next.len() < want {
                    next = zeros(want).ok_or(io::ErrorKind::OutOfMemory)?;
                }
                next.truncate(want);
                plan.run_into(&view, &mut next).map_err(io::Error::other)?;
                std::mem::swap(&mut chunk, &mut next);
                input = &chunk;
            }
            out.write_all(input)?;
        }
        Ok(())
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

    pub(super) fn write(&self, out: &mut impl Write) -> io::Result<()> {
        for piece in &self.pieces {
            match piece {
                Piece::Kept(range) => {
                    let bytes = self.base.get(range.clone()).unwrap_or_default();
                    bytes.chunks(1 << 20).try_for_each(|chunk| out.write_all(chunk))?;
                }
                Piece::New(bytes) => out.write_all(bytes)?,
                Piece::Elements(elements) => elements.write(out)?,
            }
        }
        Ok(())
    }
}
