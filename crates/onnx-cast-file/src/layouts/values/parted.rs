//! Weights whose words hold an element of each part of the tensor: HQQ and BitNet.
//!
//! The parts follow each other through the whole tensor, so that a stretch of a part is the same bits of words that
//! follow each other. The loops are compiled for several instruction sets, as those of `coded` are.

use super::TensorBytes;
use super::coded::rounding::{read_numbers, round, store};
use crate::io::memory::resize;
use crate::layouts::weight::{Formula, Parts, Weight};
use crate::level::level;
use crate::pipeline::{PipelineError, Scratch};
use fearless_simd::{Simd, dispatch};
use onnx_cast::DataType;
use onnx_cast::scalar::with_default_float_environment;
use std::ops::Range;

/// Values that are computed at once.
const PART: usize = 32;

/// A weight, and where its scales and zero points are.
#[derive(Debug)]
pub(super) struct Parted<'a> {
    parts: Parts,
    weight: &'a Weight,
    to: DataType,
    /// The type that values are rounded to, as each of their operations is.
    owner: DataType,
    scales: TensorBytes<'a>,
    zeros: Option<TensorBytes<'a>>,
}

impl<'a> Parted<'a> {
    pub(super) fn new(
        weight: &'a Weight,
        parts: Parts,
        to: DataType,
        scales: TensorBytes<'a>,
        zeros: Option<TensorBytes<'a>>,
    ) -> Parted<'a> {
        let owner = weight.owner_type.unwrap_or(DataType::Float);
        Parted { parts, weight, to, owner, scales, zeros }
    }

    /// Computes values, from one on.
    pub(super) fn compute(
        &self,
        elements: TensorBytes<'_>,
        start: usize,
        scratch: &mut Scratch,
        out: &mut [u8],
    ) -> Result<(), PipelineError> {
        let size = self.to.byte_len(1).unwrap_or(1);
        let end = start + out.len() / size;
        self.unpack(elements, start..end, scratch)?;
        let [_, columns] = self.weight.matrix();
        // Where a row is one block, or rows are not, scales follow each other as the elements do.
        let ([down, across], is_flat) = (self.weight.block, self.weight.block[0] == 1);
        let columns = if is_flat { self.weight.len() } else { columns };
        let across_all = columns.div_ceil(across);
        let (mut at, mut out) = (start, out);
        while at < end {
            let (row, column) = (at / columns, at % columns);
            let stop = end.min((row + 1) * columns);
            let blocks = column / across..(stop - row * columns).div_ceil(across);
            let first = row / down * across_all + blocks.start;
            let mut numbers = |place| read_numbers(self.weight.scale_type, place, first, blocks.len(), scratch);
            let (scales, zeros) = (numbers(self.scales)?, self.zeros.map_or(Ok(Vec::new()), numbers)?);
            let (now, later) = std::mem::take(&mut out).split_at_mut((stop - at) * size);
            let codes = &scratch.codes[at - start..stop - start];
            let work = Work {
                formula: self.parts.formula,
                offset: self.parts.offset,
                owner: self.owner,
                to: self.to,
                size,
                across,
                skipped: column % across,
            };
            let level = level();
            with_default_float_environment(|| dispatch!(level, simd => work.run(simd, codes, &scales, &zeros, now)));
            (at, out) = (stop, later);
        }
        Ok(())
    }

    /// Unpacks elements, one to a byte.
    fn unpack(
        &self,
        elements: TensorBytes<'_>,
        range: Range<usize>,
        scratch: &mut Scratch,
    ) -> Result<(), PipelineError> {
        let Parts { bits, word, len, .. } = self.parts;
        let Scratch { elements: words, codes, .. } = scratch;
        resize(codes, range.len()).ok_or_else(PipelineError::out_of_memory)?;
        let mask = ((1u32 << bits) - 1) as u8;
        let (mut at, mut codes) = (range.start, &mut codes[..]);
        while at < range.end {
            let (part, place) = (at / len, at % len);
            let count = (len - place).min(range.end - at);
            elements.read(place * word, count * word, words)?;
            let (now, later) = std::mem::take(&mut codes).split_at_mut(count);
            let shift = self.parts.shift(part);
            if word == 1 {
                now.iter_mut().zip(&words[..]).for_each(|(code, byte)| *code = byte >> shift & mask);
            } else {
                let words = words.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word));
                now.iter_mut().zip(words).for_each(|(code, word)| *code = (word >> shift) as u8 & mask);
            }
            (at, codes) = (at + count, later);
        }
        Ok(())
    }
}

/// What the loops are told.
struct Work {
    formula: Formula,
    offset: u8,
    owner: DataType,
    to: DataType,
    /// Bytes of a result.
    size: usize,
    /// Columns of a block, and those of the first block before the first element.
    across: usize,
    skipped: usize,
}

impl Work {
    /// Computes the values of codes of one row.
    #[inline(always)]
    fn run<S: Simd>(&self, _: S, codes: &[u8], scales: &[f32], zeros: &[f32], out: &mut [u8]) {
        let (mut codes, mut out) = (codes, out);
        if self.across == 1 {
            let mut first = 0;
            for (codes, out) in codes.chunks(PART).zip(out.chunks_mut(PART * self.size)) {
                let mut values = [0.0; PART];
                for (index, (value, code)) in values.iter_mut().zip(codes).enumerate() {
                    let zero = zeros.get(first + index).copied().unwrap_or(0.0);
                    *value = self.value(*code, scales[first + index], zero);
                }
                store(self.to, &values[..codes.len()], out);
                first += codes.len();
            }
            return;
        }
        for (index, scale) in scales.iter().enumerate() {
            let zero = zeros.get(index).copied().unwrap_or(0.0);
            let skipped = if index == 0 { self.skipped } else { 0 };
            let count = (self.across - skipped).min(codes.len());
            let (these, codes_behind) = codes.split_at(count);
            let (now, behind) = out.split_at_mut(count * self.size);
            self.block(these, *scale, zero, now);
            (codes, out) = (codes_behind, behind);
        }
    }

    /// The values of a part of a block.
    #[inline(always)]
    fn block(&self, codes: &[u8], scale: f32, zero: f32, out: &mut [u8]) {
        for (codes, out) in codes.chunks(PART).zip(out.chunks_mut(PART * self.size)) {
            let mut values = [0.0; PART];
            values.iter_mut().zip(codes).for_each(|(value, code)| *value = self.value(*code, scale, zero));
            store(self.to, &values[..codes.len()], out);
        }
    }

    #[inline(always)]
    fn value(&self, code: u8, scale: f32, zero: f32) -> f32 {
        let element = f32::from(code) - f32::from(self.offset);
        let value = match self.formula {
            Formula::Difference => round(self.owner, element - zero) * scale,
            Formula::Quotient => element / scale,
            Formula::Product => element * scale,
            Formula::ProductLess => round(self.owner, element * scale) - zero,
        };
        round(self.owner, value)
    }
}
