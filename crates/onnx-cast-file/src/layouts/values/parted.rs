//! Weights whose words hold an element of each part of the tensor: HQQ and BitNet.
//!
//! The parts follow each other through the whole tensor, so that a stretch of a part is the same bits of words that
//! follow each other. The loops are compiled for several instruction sets, as those of `coded` are.

use super::TensorBytes;
use super::coded::Planes;
use super::coded::rounding::{read_numbers, store, with_rounding};
use crate::io::memory::resize;
use crate::layouts::weight::{Formula, Parts, Weight};
use crate::level::level;
use crate::pipeline::{PipelineError, Scratch};
use fearless_simd::{Simd, SimdBase, dispatch, u8x32};
use onnx_cast::DataType;
use onnx_cast::scalar::with_default_float_environment;
use std::ops::Range;

/// Values that are looked up at once, and that are computed at once.
const PART: usize = 32;
const MANY: usize = 256;

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
            let scales = numbers(self.scales)?;
            let zeros = self.zeros.map_or_else(|| Ok(vec![0.0; scales.len()]), numbers)?;
            // A code is less than 256. Rounding adds less than is left to the greatest number.
            let is_small = |(scale, zero): (&f32, &f32)| (256.0 + zero.abs()) * scale.abs().max(1.0) < 60000.0;
            let (now, later) = std::mem::take(&mut out).split_at_mut((stop - at) * size);
            let codes = &scratch.codes[at - start..stop - start];
            let work = Work {
                formula: self.parts.formula,
                offset: self.parts.offset,
                owner: self.owner,
                is_small: self.parts.formula != Formula::Quotient && scales.iter().zip(&zeros).all(is_small),
                to: self.to,
                size,
                across,
                skipped: column % across,
            };
            let (level, few) = (level(), self.parts.bits <= 4);
            with_default_float_environment(
                || dispatch!(level, simd => work.run(simd, few, codes, &scales, &zeros, now)),
            );
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
    /// Whether no value reaches what is not finite in float16.
    is_small: bool,
    to: DataType,
    /// Bytes of a result.
    size: usize,
    /// Columns of a block, and those of the first block before the first element.
    across: usize,
    skipped: usize,
}

impl Work {
    /// Computes the values of codes of one row. `few` tells that codes are below 16.
    #[inline(always)]
    fn run<S: Simd>(&self, simd: S, few: bool, codes: &[u8], scales: &[f32], zeros: &[f32], out: &mut [u8]) {
        if few && scales.len() == 1 {
            return self.by_table(simd, codes, scales, zeros, out);
        }
        let parts = codes.chunks(MANY).zip(out.chunks_mut(MANY * self.size));
        for (at, (codes, out)) in (self.skipped..).step_by(MANY).zip(parts) {
            let mut values = [0.0; MANY];
            self.values(at, codes, scales, zeros, &mut values);
            store(self.to, &values[..codes.len()], out);
        }
    }

    /// Looks up the values of codes of one block.
    #[inline(always)]
    fn by_table<S: Simd>(&self, simd: S, codes: &[u8], scales: &[f32], zeros: &[f32], out: &mut [u8]) {
        let (mut values, mut bytes) = ([0.0; 16], [0; 64]);
        for (code, value) in (0u8..).zip(&mut values) {
            let mut one = [0.0];
            self.values(0, &[code], scales, zeros, &mut one);
            [*value] = one;
        }
        store(self.to, &values, &mut bytes[..16 * self.size]);
        let planes = Planes::new(simd, self.size, &bytes);
        for (codes, out) in codes.chunks(PART).zip(out.chunks_mut(PART * self.size)) {
            let mut padded = [0; PART];
            let codes = codes.first_chunk().unwrap_or_else(|| {
                padded[..codes.len()].copy_from_slice(codes);
                &padded
            });
            planes.look_up(u8x32::from_slice(simd, codes), out);
        }
    }

    /// The values of codes, the first of which is at this place behind the beginning of the first block.
    #[inline(always)]
    fn values(&self, at: usize, codes: &[u8], scales: &[f32], zeros: &[f32], out: &mut [f32]) {
        with_rounding!(self, |round| match self.formula {
            Formula::Difference =>
                self.each(at, codes, scales, zeros, out, |element, scale, zero| round(round(element - zero) * scale)),
            Formula::Quotient => self.each(at, codes, scales, zeros, out, |element, scale, _| round(element / scale)),
            Formula::Product => self.each(at, codes, scales, zeros, out, |element, scale, _| round(element * scale)),
            Formula::ProductLess =>
                self.each(at, codes, scales, zeros, out, |element, scale, zero| round(round(element * scale) - zero)),
        });
    }

    /// Computes a value for each code by the numbers of its block.
    #[inline(always)]
    fn each(
        &self,
        at: usize,
        codes: &[u8],
        scales: &[f32],
        zeros: &[f32],
        out: &mut [f32],
        value: impl Fn(f32, f32, f32) -> f32,
    ) {
        let offset = f32::from(self.offset);
        if self.across == 1 {
            let numbers = scales[at..].iter().zip(&zeros[at..]);
            let all = out.iter_mut().zip(codes).zip(numbers);
            return all.for_each(|((out, code), (scale, zero))| *out = value(f32::from(*code) - offset, *scale, *zero));
        }
        let (mut at, mut codes, mut out) = (at, codes, out);
        while !codes.is_empty() {
            let count = (self.across - at % self.across).min(codes.len());
            let (these, later) = codes.split_at(count);
            let (now, behind) = out.split_at_mut(count);
            let (scale, zero) = (scales[at / self.across], zeros[at / self.across]);
            let all = now.iter_mut().zip(these);
            all.for_each(|(out, code)| *out = value(f32::from(*code) - offset, scale, zero));
            (at, codes, out) = (at + count, later, behind);
        }
    }
}
