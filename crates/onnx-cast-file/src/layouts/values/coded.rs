//! Weights whose owners have arithmetic of their own: bitsandbytes and MLX.
//!
//! Blocks follow each other through the whole tensor, whatever its rows, each with a scale, so that a part needs only
//! the scales of its blocks. bitsandbytes multiplies an entry of a table, or an integer, by the scale. MLX multiplies
//! an integer, rounds to the type of the scales, adds a bias and rounds again. The loops are compiled for several
//! instruction sets, of which `dispatch` takes the processor's.
//!
//! Of 4 bits or fewer, a block has at most 16 different values: these are computed, and each element looks its own up.

pub(super) mod rounding;

use super::TensorBytes;
use crate::io::memory::resize;
use crate::layouts::weight::{Coding, Nested, Weight};
use crate::pipeline::{PipelineError, Scratch};
use fearless_simd::{Level, Simd, SimdBase, dispatch, u8x16};
use onnx_cast::DataType;
use onnx_cast::scalar::with_default_float_environment;
use rounding::{number, read_numbers, round, store};

/// The quotient by 127 as bitsandbytes has it: a factor of float.
const OF_127: f32 = 7.874_016e-3;

/// Elements that are computed at once; a multiple of what fills whole bytes.
const PART: usize = 32;

/// A weight, and where its scales and biases are.
#[derive(Debug)]
pub(super) struct Coded<'a> {
    coding: Coding,
    weight: &'a Weight,
    to: DataType,
    /// The type that values are rounded to first.
    owner: DataType,
    scales: TensorBytes<'a>,
    biases: Option<TensorBytes<'a>>,
    nested: Option<(&'a Nested, TensorBytes<'a>)>,
}

impl<'a> Coded<'a> {
    pub(super) fn new(
        weight: &'a Weight,
        coding: Coding,
        to: DataType,
        scales: TensorBytes<'a>,
        biases: Option<TensorBytes<'a>>,
        nested: Option<TensorBytes<'a>>,
    ) -> Coded<'a> {
        let owner = weight.owner_type.unwrap_or(DataType::Float);
        let nested = weight.nested.as_ref().zip(nested);
        Coded { coding, weight, to, owner, scales, biases, nested }
    }

    /// Elements of a block.
    fn block(&self) -> usize {
        self.weight.block[1].max(1)
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
        let (bits, step) = (self.coding.bits(), self.coding.step());
        let end = start + out.len() / size;
        let (first, stop) = (start / step * step, end.next_multiple_of(step));
        elements.read(first / 8 * bits + first % 8 * bits / 8, (stop - first) * bits / 8, &mut scratch.elements)?;
        let blocks = first / self.block()..stop.div_ceil(self.block());
        let scales = self.numbers(blocks.start, blocks.len(), scratch)?;
        let biases = match self.biases {
            Some(place) => read_numbers(self.weight.scale_type, place, blocks.start, blocks.len(), scratch)?,
            None => Vec::new(),
        };
        let is_whole = (first, stop) == (start, end);
        if !is_whole {
            resize(&mut scratch.results, (stop - first) * size).ok_or_else(PipelineError::out_of_memory)?;
        }
        let values = if is_whole { &mut *out } else { &mut scratch.results[..] };
        let work = Work { coding: self.coding, owner: self.owner, to: self.to, size, block: self.block() };
        let (codes, level) = (&scratch.elements[..], Level::new());
        with_default_float_environment(
            || dispatch!(level, simd => work.run(simd, first, codes, (&scales, &biases), values)),
        );
        if !is_whole {
            out.copy_from_slice(&scratch.results[(start - first) * size..][..out.len()]);
        }
        Ok(())
    }

    /// The scales of some blocks.
    fn numbers(&self, first: usize, count: usize, scratch: &mut Scratch) -> Result<Vec<f32>, PipelineError> {
        let Some((nested, place)) = self.nested else {
            return read_numbers(self.weight.scale_type, self.scales, first, count, scratch);
        };
        self.scales.read(first, count, &mut scratch.scales)?;
        let begin = first / nested.block;
        place.read(4 * begin, 4 * ((first + count).div_ceil(nested.block) - begin), &mut scratch.zero_points)?;
        let scales = scratch.scales.iter().zip(first..).map(|(code, index)| {
            let scale = number(DataType::Float, &scratch.zero_points, index / nested.block - begin);
            nested.map[usize::from(*code)] * scale + nested.offset
        });
        Ok(scales.collect())
    }
}

/// What the loops are told.
struct Work {
    coding: Coding,
    owner: DataType,
    to: DataType,
    /// Bytes of a result.
    size: usize,
    block: usize,
}

impl Work {
    /// Computes the values of codes, the first of which is this element.
    #[inline(always)]
    fn run<S: Simd>(&self, simd: S, first: usize, codes: &[u8], scales: (&[f32], &[f32]), out: &mut [u8]) {
        let (bits, blocks) = (self.coding.bits(), first / self.block);
        let (mut at, mut codes, mut out) = (first, codes, out);
        while !out.is_empty() {
            let index = at / self.block;
            let count = (self.block - at % self.block).min(out.len() / self.size);
            let (these, codes_behind) = codes.split_at(count * bits / 8);
            let (values, behind) = out.split_at_mut(count * self.size);
            let (scale, bias) = (scales.0[index - blocks], scales.1.get(index - blocks).copied().unwrap_or(0.0));
            self.block(simd, these, scale, bias, values);
            (at, codes, out) = (at + count, codes_behind, behind);
        }
    }

    /// The values of a part of a block.
    #[inline(always)]
    fn block<S: Simd>(&self, simd: S, codes: &[u8], scale: f32, bias: f32, out: &mut [u8]) {
        let bits = self.coding.bits();
        const CODES: [f32; 16] = [0., 1., 2., 3., 4., 5., 6., 7., 8., 9., 10., 11., 12., 13., 14., 15.];
        let entries = match self.coding {
            Coding::Table(table) => Some(table.entries().map(|entry| entry * scale)),
            Coding::Affine { bits: 0..=4 } => Some(self.affine(CODES, scale, bias)),
            _ => None,
        };
        let entries = entries.map(|entries| {
            let entries = self.rounded(entries);
            let mut bytes = [0; 64];
            store(self.to, &entries, &mut bytes[..16 * self.size]);
            bytes
        });
        let parts = codes.chunks(PART * bits / 8).zip(out.chunks_mut(PART * self.size));
        for (codes, out) in parts {
            let mut unpacked = [0; PART];
            self.unpack(codes, &mut unpacked);
            match &entries {
                Some(entries) => self.look_up(simd, entries, &unpacked, out),
                None => {
                    let mut values = [0.0; PART];
                    match self.coding {
                        Coding::Int8 => {
                            let codes = values.iter_mut().zip(unpacked);
                            codes.for_each(|(value, code)| *value = f32::from(code as i8) * scale * OF_127);
                        }
                        _ => values = self.affine(unpacked.map(f32::from), scale, bias),
                    }
                    values = self.rounded(values);
                    store(self.to, &values[..out.len() / self.size], out);
                }
            }
        }
    }

    /// Products with the scale, rounded to the owner's type, plus the bias. The type is chosen outside the loop, which is
    /// vectorised so.
    #[inline(always)]
    fn affine<const N: usize>(&self, codes: [f32; N], scale: f32, bias: f32) -> [f32; N] {
        match self.owner {
            DataType::Float16 => codes.map(|code| round(DataType::Float16, code * scale) + bias),
            DataType::BFloat16 => codes.map(|code| round(DataType::BFloat16, code * scale) + bias),
            _ => codes.map(|code| round(DataType::Float, code * scale) + bias),
        }
    }

    /// Values rounded to the owner's type.
    #[inline(always)]
    fn rounded<const N: usize>(&self, values: [f32; N]) -> [f32; N] {
        match self.owner {
            DataType::Float16 => values.map(|value| round(DataType::Float16, value)),
            DataType::BFloat16 => values.map(|value| round(DataType::BFloat16, value)),
            _ => values.map(|value| round(DataType::Float, value)),
        }
    }

    /// The codes of a part, one to a byte.
    #[inline(always)]
    fn unpack(&self, codes: &[u8], out: &mut [u8; PART]) {
        match self.coding {
            Coding::Int8 | Coding::Affine { bits: 8 } => out[..codes.len()].copy_from_slice(codes),
            Coding::Table(_) => {
                for (out, byte) in out.as_chunks_mut::<2>().0.iter_mut().zip(codes) {
                    *out = [byte >> 4, byte & 15];
                }
            }
            Coding::Affine { bits: 4 } => {
                for (out, byte) in out.as_chunks_mut::<2>().0.iter_mut().zip(codes) {
                    *out = [byte & 15, byte >> 4];
                }
            }
            Coding::Affine { bits: 2 } => {
                for (out, byte) in out.as_chunks_mut::<4>().0.iter_mut().zip(codes) {
                    *out = [byte & 3, byte >> 2 & 3, byte >> 4 & 3, byte >> 6];
                }
            }
            // Eight codes are in so many bytes.
            Coding::Affine { bits } => {
                for (out, bytes) in out.as_chunks_mut::<8>().0.iter_mut().zip(codes.chunks_exact(bits as usize)) {
                    let mut word = [0; 8];
                    word[..bytes.len()].copy_from_slice(bytes);
                    let word = u64::from_le_bytes(word);
                    for (index, out) in out.iter_mut().enumerate() {
                        *out = (word >> (index as u32 * bits)) as u8 & ((1u32 << bits) - 1) as u8;
                    }
                }
            }
        }
    }

    /// Writes the entry of each code, of which all are below 16.
    #[inline(always)]
    fn look_up<S: Simd>(&self, simd: S, entries: &[u8; 64], codes: &[u8; PART], out: &mut [u8]) {
        if self.size == 4 {
            let entries = entries.as_chunks::<4>().0;
            let out = out.as_chunks_mut::<4>().0.iter_mut().zip(codes);
            out.for_each(|(out, code)| *out = entries[usize::from(code & 15)]);
            return;
        }
        let mut planes = [[0; 16]; 2];
        for (index, entry) in entries.as_chunks::<2>().0.iter().take(16).enumerate() {
            [planes[0][index], planes[1][index]] = *entry;
        }
        let [low, high] = planes.map(|plane| u8x16::from_slice(simd, &plane));
        let mut all = [0; 2 * PART];
        for (codes, out) in codes.as_chunks::<16>().0.iter().zip(all.as_chunks_mut::<32>().0) {
            let codes = u8x16::from_slice(simd, codes);
            let (low, high) = (simd.swizzle_dyn_u8x16(low, codes), simd.swizzle_dyn_u8x16(high, codes));
            let (first, second) = out.split_at_mut(16);
            simd.zip_low_u8x16(low, high).store_slice(first);
            simd.zip_high_u8x16(low, high).store_slice(second);
        }
        match out.first_chunk_mut() {
            Some(out) => *out = all,
            None => out.copy_from_slice(&all[..out.len()]),
        }
    }
}
