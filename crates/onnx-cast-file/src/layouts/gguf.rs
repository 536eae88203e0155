//! The values of GGUF's blocks, in float, as the gguf package computes them: every product, sum and scale of a scale
//! rounded once, in its order.
//!
//! A block holds its elements and their scales, and blocks follow each other, so that a part of a tensor is read by
//! itself. Each coding is a function from the bytes of a block to its values, in loops of fixed lengths that the
//! compiler vectorises; they are compiled for several instruction sets, of which `dispatch` takes the processor's.
//!
//! Where gguf reads a bit pattern otherwise than the text of its format, the text decides: code 8 of float4e2m1 is -0
//! (gguf: 0), the scale 0xFF of float8e8m0 is NaN (gguf: 2^128), and so is 0x7F of float8e4m3fn (gguf: 0).

mod encode;
mod float4;
mod grids;
mod k_quants;
mod simple;

use crate::formats::error::{FormatError, Invalid, InvalidKind};
use crate::formats::gguf::{BlockCoding, Blocks, Held};
use crate::io::memory::resize;
use crate::io::positional::InputFile;
use crate::level::level;
use crate::pipeline::{Compute, PipelineError, Scratch};
use crate::text::Wording;
use fearless_simd::dispatch;
use float4::{MxFp4, NvFp4};
use grids::{Iq1M, Iq1S, Iq2S, Iq2Xs, Iq2Xxs, Iq3S, Iq3Xxs, Iq4Nl, Iq4Xs, Tq1, Tq2};
use k_quants::{Q2K, Q3K, Q4K, Q5K, Q6K, Q8K};
use onnx_cast::__private::with_default_float_environment;
use onnx_cast::tensor::element_count;
use simple::{Q4_0, Q4_1, Q5_0, Q5_1, Q8_0};
use std::io;

pub(crate) use encode::{BLOCK, encode};

/// The values of a tensor of blocks, as float.
#[derive(Debug)]
pub(crate) struct BlockValues<'a> {
    file: &'a InputFile,
    blocks: &'a Blocks,
    coding: BlockCoding,
    /// For errors.
    tensor: &'a str,
    /// Elements of a matrix, each of which has a scale, if all do.
    matrix: usize,
    allow_nan: bool,
}

impl<'a> BlockValues<'a> {
    /// # Errors
    /// Where the blocks are of a type that is not read.
    pub(crate) fn new(
        file: &'a InputFile,
        blocks: &'a Blocks,
        tensor: &'a str,
        shape: &[usize],
        allow_nan: bool,
    ) -> Result<Self, FormatError> {
        let Held::Blocks(coding, _) = blocks.kind.held else {
            let what = Wording::from(format!("{} is unsupported (", blocks.type_name()));
            let what = what.field("exclude", " leaves the tensor out)");
            let error = Invalid::new(InvalidKind::Unsupported, what).of_tensor(tensor);
            return Err(FormatError::invalid(file.path(), error));
        };
        let matrix = element_count(&shape[shape.len().saturating_sub(2)..]).unwrap_or(0);
        Ok(BlockValues { file, blocks, coding, tensor, matrix, allow_nan })
    }

    /// Decodes blocks, the first of which has this index.
    fn decode(&self, first: usize, blocks: &[u8], out: &mut [u8]) -> Result<(), PipelineError> {
        let kind = self.blocks.kind;
        let (mut at, mut blocks, mut out) = (first, blocks, out);
        while !blocks.is_empty() {
            // Blocks with one scale, where there is one.
            let each = self.matrix / kind.elements;
            let (scale, count) = match self.blocks.scales[..] {
                [] => (None, usize::MAX),
                [scale] => (Some(scale), usize::MAX),
                _ => (self.blocks.scales.get(at / each.max(1)).copied(), each - at % each.max(1)),
            };
            let count = count.min(blocks.len() / kind.bytes);
            let (these, behind) = blocks.split_at(count * kind.bytes);
            let (values, rest) = std::mem::take(&mut out).split_at_mut(count * kind.elements * 4);
            let found = with_default_float_environment(|| decode(self.coding, these, scale, values));
            if let (Some(index), false) = (found, self.allow_nan) {
                let block = at + index;
                let what = Wording::from(format!("a scale of block {block} is NaN ("));
                let what = what.field("allow_nan", " gives NaN for its elements)");
                let error = Invalid::new(InvalidKind::Value, what).of_tensor(self.tensor);
                return Err(PipelineError::Read(io::Error::new(io::ErrorKind::InvalidData, error)));
            }
            (at, blocks, out) = (at + count, behind, rest);
        }
        Ok(())
    }
}

impl Compute for BlockValues<'_> {
    fn compute(&self, start: usize, len: usize, scratch: &mut Scratch, out: &mut [u8]) -> Result<(), PipelineError> {
        let (elements, bytes) = (self.blocks.kind.elements, self.blocks.kind.bytes);
        let (first, end) = (start / elements, (start + len).div_ceil(elements));
        let Scratch { elements: stored, results, .. } = scratch;
        resize(stored, (end - first) * bytes).ok_or_else(PipelineError::out_of_memory)?;
        self.file.read_at(self.blocks.at + (first * bytes) as u64, stored).map_err(PipelineError::Read)?;
        if start == first * elements && start + len == end * elements {
            return self.decode(first, stored, out);
        }
        resize(results, (end - first) * elements * 4).ok_or_else(PipelineError::out_of_memory)?;
        self.decode(first, stored, results)?;
        out.copy_from_slice(&results[(start - first * elements) * 4..][..len * 4]);
        Ok(())
    }
}

/// Decodes whole blocks, all of which are multiplied by a scale. The index of the first with a scale that is NaN, if
/// there is one.
pub(crate) fn decode(coding: BlockCoding, blocks: &[u8], scale: Option<f32>, out: &mut [u8]) -> Option<usize> {
    let level = level();
    match coding {
        BlockCoding::Q4_0 => dispatch!(level, _simd => each::<_, _, 32>(&Q4_0, blocks, out)),
        BlockCoding::Q4_1 => dispatch!(level, _simd => each::<_, _, 32>(&Q4_1, blocks, out)),
        BlockCoding::Q5_0 => dispatch!(level, _simd => each::<_, _, 32>(&Q5_0, blocks, out)),
        BlockCoding::Q5_1 => dispatch!(level, _simd => each::<_, _, 32>(&Q5_1, blocks, out)),
        BlockCoding::Q8_0 => dispatch!(level, _simd => each::<_, _, 32>(&Q8_0, blocks, out)),
        BlockCoding::Q2K => dispatch!(level, _simd => each::<_, _, 256>(&Q2K, blocks, out)),
        BlockCoding::Q3K => dispatch!(level, _simd => each::<_, _, 256>(&Q3K, blocks, out)),
        BlockCoding::Q4K => dispatch!(level, _simd => each::<_, _, 256>(&Q4K, blocks, out)),
        BlockCoding::Q5K => dispatch!(level, _simd => each::<_, _, 256>(&Q5K, blocks, out)),
        BlockCoding::Q6K => dispatch!(level, _simd => each::<_, _, 256>(&Q6K, blocks, out)),
        BlockCoding::Q8K => dispatch!(level, _simd => each::<_, _, 256>(&Q8K, blocks, out)),
        BlockCoding::MxFp4 => dispatch!(level, _simd => each::<_, _, 32>(&MxFp4, blocks, out)),
        BlockCoding::NvFp4 => dispatch!(level, _simd => each::<_, _, 64>(&NvFp4(scale), blocks, out)),
        BlockCoding::Iq2Xxs => dispatch!(level, _simd => each::<_, _, 256>(&Iq2Xxs, blocks, out)),
        BlockCoding::Iq2Xs => dispatch!(level, _simd => each::<_, _, 256>(&Iq2Xs, blocks, out)),
        BlockCoding::Iq2S => dispatch!(level, _simd => each::<_, _, 256>(&Iq2S, blocks, out)),
        BlockCoding::Iq3Xxs => dispatch!(level, _simd => each::<_, _, 256>(&Iq3Xxs, blocks, out)),
        BlockCoding::Iq3S => dispatch!(level, _simd => each::<_, _, 256>(&Iq3S, blocks, out)),
        BlockCoding::Iq1S => dispatch!(level, _simd => each::<_, _, 256>(&Iq1S, blocks, out)),
        BlockCoding::Iq1M => dispatch!(level, _simd => each::<_, _, 256>(&Iq1M, blocks, out)),
        BlockCoding::Iq4Nl => dispatch!(level, _simd => each::<_, _, 32>(&Iq4Nl, blocks, out)),
        BlockCoding::Iq4Xs => dispatch!(level, _simd => each::<_, _, 256>(&Iq4Xs, blocks, out)),
        BlockCoding::Tq1 => dispatch!(level, _simd => each::<_, _, 256>(&Tq1, blocks, out)),
        BlockCoding::Tq2 => dispatch!(level, _simd => each::<_, _, 256>(&Tq2, blocks, out)),
    }
}

/// Values that are decoded at once.
const PART: usize = 32;

/// A coding of blocks of so many bytes.
trait Coding<const BYTES: usize> {
    /// Decodes a part of the values of a block.
    fn decode(&self, block: &[u8; BYTES], index: usize, values: &mut [f32; PART]);

    /// A scale that is infinite or NaN, if the block has one; NaN before infinite.
    fn special(&self, block: &[u8; BYTES]) -> Option<f32>;
}

#[inline(always)]
fn each<C: Coding<BYTES>, const BYTES: usize, const LEN: usize>(
    coding: &C,
    blocks: &[u8],
    out: &mut [u8],
) -> Option<usize> {
    let mut nan = None;
    let out = out.as_chunks_mut::<4>().0.as_chunks_mut::<LEN>().0;
    for (index, (block, out)) in blocks.as_chunks().0.iter().zip(out).enumerate() {
        let special = coding.special(block);
        if special.is_some_and(f32::is_nan) {
            nan = nan.or(Some(index));
        }
        for (part, out) in out.as_chunks_mut::<PART>().0.iter_mut().enumerate() {
            let mut values = [0.0; PART];
            coding.decode(block, part, &mut values);
            if special.is_some() {
                // What is NaN by a scale is positive, whatever the processor makes of it.
                values.iter_mut().filter(|value| value.is_nan()).for_each(|value| *value = f32::NAN);
            }
            for (out, value) in out.iter_mut().zip(values) {
                *out = value.to_le_bytes();
            }
        }
    }
    nan
}

/// A float16 at a place of a block. The library's cast is for many at once; a call for each block takes as long as the
/// block.
#[inline(always)]
fn half(block: &[u8], at: usize) -> f32 {
    let bits = u32::from(u16::from_le_bytes([block[at], block[at + 1]]));
    let magnitude = match bits & 0x7fff {
        // Subnormal: multiples of 2^-24.
        low @ 0..0x400 => (low as f32 * (1.0 / (1 << 24) as f32)).to_bits(),
        // The exponent's bias is 15, and 127 in a float.
        normal @ 0x400..0x7c00 => (normal << 13) + (112 << 23),
        special => special << 13 | f32::INFINITY.to_bits(),
    };
    f32::from_bits(magnitude | bits >> 15 << 31)
}

/// The first NaN of scales, or else the first infinity.
#[inline(always)]
fn special_of<const N: usize>(scales: [f32; N]) -> Option<f32> {
    if scales.iter().all(|scale| scale.is_finite()) {
        return None;
    }
    let nan = scales.into_iter().find(|scale| scale.is_nan());
    nan.or(scales.into_iter().find(|scale| scale.is_infinite()))
}

/// A part of a block.
#[inline(always)]
fn part<const N: usize>(block: &[u8], at: usize) -> [u8; N] {
    block[at..].first_chunk().copied().unwrap_or([0; N])
}

/// The halves of 32 values with their codes, which are together while they are unpacked: vectors are as long.
#[inline(always)]
fn in_halves<'a>(
    values: &'a mut [f32; 32],
    codes: &'a [u8; 32],
) -> impl Iterator<Item = (usize, (&'a mut [f32; 16], &'a [u8; 16]))> {
    values.as_chunks_mut().0.iter_mut().zip(codes.as_chunks().0).enumerate()
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnx_cast::types::Float16;

    #[test]
    fn scales_are_the_casts_of_their_types() {
        for bits in 0..=u16::MAX {
            let (got, want) = (half(&bits.to_le_bytes(), 0), Float16::from_bits(bits).to_f32());
            assert!(got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan(), "{bits:#06x}: {got}, not {want}");
        }
        for code in 0..=u8::MAX {
            let got = 2.0 * NvFp4(None).half_scale(code);
            let want = onnx_cast::types::Float8E4M3FN::from_bits(code & 0x7f).to_f32();
            let want = if code == 0xff { 480.0 } else { want };
            assert!(got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan(), "{code:#04x}: {got}, not {want}");
            let got = 2.0 * MxFp4::half_scale(&[code; 17]);
            let want = onnx_cast::types::Float8E8M0::from_bits(code).to_f32();
            assert!(got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan(), "{code:#04x}: {got}, not {want}");
        }
    }

    #[test]
    fn elements_of_float4e2m1() {
        for code in 0..16 {
            let want = onnx_cast::types::Float4E2M1::from_bits(code).to_f32();
            assert_eq!(float4::e2m1(0.5, code).to_bits(), want.to_bits(), "{code}");
        }
    }
}
