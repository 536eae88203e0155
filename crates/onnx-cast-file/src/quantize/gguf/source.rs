//! The values of a tensor as llama.cpp has them: matrices of several tensors one above the other, rows in pairs, norms
//! plus one; and the blocks that they become.

use crate::counts::{Counter, Sides};
use crate::formats::gguf::{BlockCoding, GgufType};
use crate::io::memory::resize;
use crate::io::positional::InputFile;
use crate::layouts::{decode_blocks, encode_blocks};
use crate::pipeline::{CHUNK, Compute, PipelineError, Scratch, Transform};
use onnx_cast::__private::with_default_float_environment;
use onnx_cast::ops::OpError;
use onnx_cast::{Cast, CastOptions, DataType, Plan};
use std::io;
use std::sync::Arc;

/// Rows of a tensor, in the order in which they are written.
#[derive(Debug)]
pub(super) struct Rows<'a> {
    /// Where the elements of each part begin; all have as many.
    pub(super) parts: Vec<(&'a InputFile, u64)>,
    /// Elements of a part.
    pub(super) each: usize,
    pub(super) columns: usize,
    pub(super) data_type: DataType,
    /// Rows of a head, of which those of the second half come between those of the first.
    pub(super) head: Option<usize>,
}

impl Rows<'_> {
    fn bytes(&self, len: usize) -> usize {
        self.data_type.byte_len(len).unwrap_or(0)
    }

    /// Reads elements that follow each other.
    fn read(&self, start: usize, out: &mut [u8]) -> Result<(), PipelineError> {
        let (width, mut start, mut out) = (self.bytes(1).max(1), start, out);
        while !out.is_empty() {
            let Some((file, at)) = self.parts.get(start / self.each) else {
                return Err(PipelineError::Read(io::ErrorKind::UnexpectedEof.into()));
            };
            let len = (self.each - start % self.each).min(out.len() / width);
            let (now, rest) = out.split_at_mut(len * width);
            file.read_at(at + self.bytes(start % self.each) as u64, now).map_err(PipelineError::Read)?;
            (start, out) = (start + len, rest);
        }
        Ok(())
    }

    /// Reads elements in the order in which they are written.
    fn fill(&self, start: usize, len: usize, out: &mut [u8]) -> Result<(), PipelineError> {
        let Some(head) = self.head else { return self.read(start, out) };
        let (mut at, mut out) = (start, out);
        while at < start + len {
            let (row, column) = (at / self.columns, at % self.columns);
            let (first, within) = (row - row % head, row % head);
            // Row 2j + i of a head is row j of its half i.
            let from = first + within % 2 * (head / 2) + within / 2;
            let count = (self.columns - column).min(start + len - at);
            let (now, rest) = out.split_at_mut(self.bytes(count));
            self.read(from * self.columns + column, now)?;
            (at, out) = (at + count, rest);
        }
        Ok(())
    }
}

impl Compute for Rows<'_> {
    fn compute(&self, start: usize, len: usize, _: &mut Scratch, out: &mut [u8]) -> Result<(), PipelineError> {
        self.fill(start, len, out)
    }
}

/// The same as floats.
#[derive(Debug)]
pub(super) struct Floats<'a> {
    rows: Rows<'a>,
    widen: Plan,
    /// Rounds to the type of the elements what is added to them.
    round: Option<(Plan, Plan)>,
    adds_one: bool,
}

impl<'a> Floats<'a> {
    pub(super) fn new(rows: Rows<'a>, adds_one: bool) -> Result<Self, OpError> {
        let plan = |from, to| Cast::new(to, &CastOptions::new().threads(1))?.plan(from);
        let widen = plan(rows.data_type, DataType::Float)?;
        // The converter adds to float16 as it is, and to bfloat16 in float.
        let rounds = adds_one && rows.data_type == DataType::Float16;
        let round = rounds.then(|| plan(DataType::Float, DataType::Float16)).transpose()?.map(|round| (round, widen));
        Ok(Floats { rows, widen, round, adds_one })
    }

    /// Computes elements; what was read of them is left in `read`.
    fn fill(&self, start: usize, len: usize, read: &mut Vec<u8>, out: &mut [u8]) -> Result<(), PipelineError> {
        let cast = |plan: &Plan, from: &[u8], out: &mut [u8]| {
            Transform::run(plan, start, len, from, out).map_err(PipelineError::Cast)
        };
        resize(read, self.rows.bytes(len)).ok_or_else(PipelineError::out_of_memory)?;
        self.rows.fill(start, len, read)?;
        cast(&self.widen, read, out)?;
        if self.adds_one {
            for value in out.as_chunks_mut::<4>().0 {
                *value = (f32::from_le_bytes(*value) + 1.0).to_le_bytes();
            }
        }
        if let Some((narrow, widen)) = &self.round {
            let mut rounded = vec![0; self.rows.bytes(len)];
            cast(narrow, out, &mut rounded)?;
            cast(widen, &rounded, out)?;
        }
        Ok(())
    }
}

impl Compute for Floats<'_> {
    fn compute(&self, start: usize, len: usize, scratch: &mut Scratch, out: &mut [u8]) -> Result<(), PipelineError> {
        self.fill(start, len, &mut scratch.elements, out)
    }
}

/// What counts the values that a coding does not keep.
pub(super) fn counter(from: DataType, coding: BlockCoding, counts: bool) -> Result<Arc<Counter>, OpError> {
    Ok(Arc::new(match coding {
        BlockCoding::MxFp4 => Counter::of_quantized(from, counts)?,
        // Scales and minima are float16.
        _ => Counter::of_quantized_below(from, 65504.0, counts)?,
    }))
}

/// The bytes of their blocks.
#[derive(Debug)]
pub(super) struct EncodedBlocks<'a> {
    pub(super) floats: Floats<'a>,
    pub(super) kind: &'static GgufType,
    pub(super) coding: BlockCoding,
    /// Compares what the blocks stand for with what was there.
    pub(super) counter: Arc<Counter>,
}

impl EncodedBlocks<'_> {
    /// Encodes whole blocks.
    fn encode(&self, first: usize, scratch: &mut Scratch, out: &mut [u8]) -> Result<(), PipelineError> {
        let Scratch { elements, results, codes, .. } = scratch;
        let len = out.len() / self.kind.bytes * self.kind.elements;
        resize(results, 4 * len).ok_or_else(PipelineError::out_of_memory)?;
        self.floats.fill(first * self.kind.elements, len, elements, results)?;
        let is_special = with_default_float_environment(|| encode_blocks(self.coding, results, out));
        if is_special || self.counter.counts_everything() || self.counter.is_interested(elements, len) {
            resize(codes, 4 * len).ok_or_else(PipelineError::out_of_memory)?;
            with_default_float_environment(|| decode_blocks(self.coding, out, None, codes));
            self.counter.add(elements, codes, len, &mut Sides::default()).map_err(PipelineError::Cast)?;
        }
        Ok(())
    }
}

impl Compute for EncodedBlocks<'_> {
    fn compute(&self, start: usize, len: usize, scratch: &mut Scratch, out: &mut [u8]) -> Result<(), PipelineError> {
        let bytes = self.kind.bytes;
        let (first, end) = (start / bytes, (start + len).div_ceil(bytes));
        if start == first * bytes && start + len == end * bytes {
            return self.encode(first, scratch, out);
        }
        let mut blocks = vec![0; (end - first) * bytes];
        self.encode(first, scratch, &mut blocks)?;
        out.copy_from_slice(&blocks[start - first * bytes..][..len]);
        Ok(())
    }

    fn chunk(&self) -> usize {
        CHUNK / self.kind.elements * self.kind.bytes
    }
}

/// Blocks that stay as they are.
#[derive(Debug)]
pub(super) struct KeptBlocks<'a> {
    pub(super) file: &'a InputFile,
    pub(super) at: u64,
}

impl Compute for KeptBlocks<'_> {
    fn compute(&self, start: usize, _: usize, _: &mut Scratch, out: &mut [u8]) -> Result<(), PipelineError> {
        self.file.read_at(self.at + start as u64, out).map_err(PipelineError::Read)
    }
}
