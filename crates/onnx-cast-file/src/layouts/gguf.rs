//! The values of GGUF's blocks, in float, as the gguf package computes them: every product, sum and scale of a scale
//! rounded once, in its order.
//!
//! A block holds its elements and their scales, and blocks follow each other, so that a part of a tensor is read by
//! itself. Each coding is a function from the bytes of a block to its values, in loops of fixed lengths that the
//! compiler vectorises; they are compiled for several instruction sets, of which `dispatch` takes the processor's.
//!
//! Where gguf reads a bit pattern otherwise than the text of its format, the text decides: code 8 of float4e2m1 is -0
//! (gguf: 0), the scale 0xFF of float8e8m0 is NaN (gguf: 2^128), and so is 0x7F of float8e4m3fn (gguf: 0).

use crate::formats::error::FormatError;
use crate::formats::gguf::{BlockCoding, Blocks, GgufError, Held};
use crate::io::memory::resize;
use crate::io::positional::InputFile;
use crate::pipeline::{Compute, Scratch, Trouble};
use fearless_simd::{Level, dispatch};
use onnx_cast::element_count;
use onnx_cast::scalar::with_default_float_environment;
use std::io;

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
            let error = GgufError::Unread { tensor: tensor.to_owned(), kind: blocks.kind.name };
            return Err(FormatError::invalid(file.path(), error));
        };
        let matrix = element_count(&shape[shape.len().saturating_sub(2)..]).unwrap_or(0);
        Ok(BlockValues { file, blocks, coding, tensor, matrix, allow_nan })
    }

    /// Decodes blocks, the first of which has this index.
    fn decode(&self, first: usize, blocks: &[u8], out: &mut [u8]) -> Result<(), Trouble> {
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
                let error = GgufError::NanScale { tensor: self.tensor.to_owned(), block: (at + index) as u64 };
                return Err(Trouble::Read(io::Error::new(io::ErrorKind::InvalidData, error)));
            }
            (at, blocks, out) = (at + count, behind, rest);
        }
        Ok(())
    }
}

impl Compute for BlockValues<'_> {
    fn compute(&self, start: usize, len: usize, scratch: &mut Scratch, out: &mut [u8]) -> Result<(), Trouble> {
        let no_room = || Trouble::Read(io::ErrorKind::OutOfMemory.into());
        let (elements, bytes) = (self.blocks.kind.elements, self.blocks.kind.bytes);
        let (first, end) = (start / elements, (start + len).div_ceil(elements));
        let Scratch { elements: stored, results, .. } = scratch;
        resize(stored, (end - first) * bytes).ok_or_else(no_room)?;
        self.file.read_at(self.blocks.at + (first * bytes) as u64, stored).map_err(Trouble::Read)?;
        if start == first * elements && start + len == end * elements {
            return self.decode(first, stored, out);
        }
        resize(results, (end - first) * elements * 4).ok_or_else(no_room)?;
        self.decode(first, stored, results)?;
        out.copy_from_slice(&results[(start - first * elements) * 4..][..len * 4]);
        Ok(())
    }
}

/// Decodes whole blocks. The index of the first with a scale that is NaN, if there is one.
fn decode(coding: BlockCoding, blocks: &[u8], scale: Option<f32>, out: &mut [u8]) -> Option<usize> {
    let level = Level::new();
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

/// Writes the values of a block of 32 whose lower halves of bytes come first: `value` takes the code, and the index.
#[inline(always)]
fn halves(codes: [u8; 16], values: &mut [f32; 32], value: impl Fn(u8, usize) -> f32) {
    for (index, code) in codes.into_iter().enumerate() {
        values[index] = value(code & 15, index);
    }
    for (index, code) in codes.into_iter().enumerate() {
        values[16 + index] = value(code >> 4, 16 + index);
    }
}

/// The halves of 32 values with their codes, which are together while they are unpacked: vectors are as long.
#[inline(always)]
fn in_halves<'a>(
    values: &'a mut [f32; 32],
    codes: &'a [u8; 32],
) -> impl Iterator<Item = (usize, (&'a mut [f32; 16], &'a [u8; 16]))> {
    values.as_chunks_mut().0.iter_mut().zip(codes.as_chunks().0).enumerate()
}

/// 16 where a bit of a mask is set, else 0.
#[inline(always)]
fn fifth(mask: u32, index: usize) -> u8 {
    if mask & (1 << index) == 0 { 0 } else { 16 }
}

struct Q4_0;

impl Coding<18> for Q4_0 {
    #[inline(always)]
    fn decode(&self, block: &[u8; 18], _: usize, values: &mut [f32; PART]) {
        let d = half(block, 0);
        halves(part(block, 2), values, |code, _| d * f32::from(code as i8 - 8));
    }

    #[inline(always)]
    fn special(&self, block: &[u8; 18]) -> Option<f32> {
        special_of([half(block, 0)])
    }
}

struct Q4_1;

impl Coding<20> for Q4_1 {
    #[inline(always)]
    fn decode(&self, block: &[u8; 20], _: usize, values: &mut [f32; PART]) {
        let (d, m) = (half(block, 0), half(block, 2));
        halves(part(block, 4), values, |code, _| d * f32::from(code) + m);
    }

    #[inline(always)]
    fn special(&self, block: &[u8; 20]) -> Option<f32> {
        special_of([half(block, 0), half(block, 2)])
    }
}

struct Q5_0;

impl Coding<22> for Q5_0 {
    #[inline(always)]
    fn decode(&self, block: &[u8; 22], _: usize, values: &mut [f32; PART]) {
        let (d, high) = (half(block, 0), u32::from_le_bytes(part(block, 2)));
        halves(part(block, 6), values, |code, index| d * f32::from((code | fifth(high, index)) as i8 - 16));
    }

    #[inline(always)]
    fn special(&self, block: &[u8; 22]) -> Option<f32> {
        special_of([half(block, 0)])
    }
}

struct Q5_1;

impl Coding<24> for Q5_1 {
    #[inline(always)]
    fn decode(&self, block: &[u8; 24], _: usize, values: &mut [f32; PART]) {
        let (d, m, high) = (half(block, 0), half(block, 2), u32::from_le_bytes(part(block, 4)));
        halves(part(block, 8), values, |code, index| d * f32::from(code | fifth(high, index)) + m);
    }

    #[inline(always)]
    fn special(&self, block: &[u8; 24]) -> Option<f32> {
        special_of([half(block, 0), half(block, 2)])
    }
}

struct Q8_0;

impl Coding<34> for Q8_0 {
    #[inline(always)]
    fn decode(&self, block: &[u8; 34], _: usize, values: &mut [f32; PART]) {
        let d = half(block, 0);
        for (value, code) in values.iter_mut().zip(part::<32>(block, 2)) {
            *value = f32::from(code as i8) * d;
        }
    }

    #[inline(always)]
    fn special(&self, block: &[u8; 34]) -> Option<f32> {
        special_of([half(block, 0)])
    }
}

struct Q2K;

impl Coding<84> for Q2K {
    #[inline(always)]
    fn decode(&self, block: &[u8; 84], index: usize, values: &mut [f32; PART]) {
        let (d, min) = (half(block, 80), half(block, 82));
        // 128 elements take 32 bytes, 32 elements two bits of each.
        let shift = index % 4 * 2;
        let codes = part::<32>(block, 16 + index / 4 * 32).map(|code| code >> shift & 3);
        for (which, (values, codes)) in in_halves(values, &codes) {
            let scales = block[2 * index + which];
            let (scale, min) = (d * f32::from(scales & 15), min * f32::from(scales >> 4));
            values.iter_mut().zip(codes).for_each(|(value, code)| *value = scale * f32::from(*code) - min);
        }
    }

    #[inline(always)]
    fn special(&self, block: &[u8; 84]) -> Option<f32> {
        special_of([half(block, 80), half(block, 82)])
    }
}

struct Q3K;

impl Coding<110> for Q3K {
    #[inline(always)]
    fn decode(&self, block: &[u8; 110], index: usize, values: &mut [f32; PART]) {
        let d = half(block, 108);
        let highs = part::<32>(block, 0);
        let shift = index % 4 * 2;
        let mut codes = part::<32>(block, 32 + index / 4 * 32);
        for (code, high) in codes.iter_mut().zip(highs) {
            *code = *code >> shift & 3 | (high >> index & 1) << 2;
        }
        for (which, (values, codes)) in in_halves(values, &codes) {
            // Of 6 bits, 4 are in one of 8 bytes and 2 in one of 4.
            let at = 2 * index + which;
            let low = block[96 + at % 8] >> (at / 8 * 4) & 15;
            let high = block[104 + at % 4] >> (at / 4 * 2) & 3;
            let scale = d * f32::from((low | high << 4) as i8 - 32);
            // 4 is taken away where the third bit is not set.
            values.iter_mut().zip(codes).for_each(|(value, code)| *value = scale * f32::from(*code as i8 - 4));
        }
    }

    #[inline(always)]
    fn special(&self, block: &[u8; 110]) -> Option<f32> {
        special_of([half(block, 108)])
    }
}

/// Scale and minimum of a part of Q4_K or Q5_K, in 12 bytes: of the first four parts 6 bits of a byte each, of the
/// others 4 bits of the last bytes and the upper 2 of the first ones.
#[inline(always)]
fn scale_and_min(block: &[u8], index: usize) -> (f32, f32) {
    let scales = part::<12>(block, 4);
    let (scale, min) = if index < 4 {
        (scales[index] & 63, scales[4 + index] & 63)
    } else {
        let both = scales[4 + index];
        (both & 15 | scales[index - 4] >> 2 & 48, both >> 4 | scales[index] >> 2 & 48)
    };
    (half(block, 0) * f32::from(scale), half(block, 2) * f32::from(min))
}

struct Q4K;

impl Coding<144> for Q4K {
    #[inline(always)]
    fn decode(&self, block: &[u8; 144], index: usize, values: &mut [f32; PART]) {
        let (scale, min) = scale_and_min(block, index);
        let shift = index % 2 * 4;
        for (value, code) in values.iter_mut().zip(part::<32>(block, 16 + index / 2 * 32)) {
            *value = scale * f32::from(code >> shift & 15) - min;
        }
    }

    #[inline(always)]
    fn special(&self, block: &[u8; 144]) -> Option<f32> {
        special_of([half(block, 0), half(block, 2)])
    }
}

struct Q5K;

impl Coding<176> for Q5K {
    #[inline(always)]
    fn decode(&self, block: &[u8; 176], index: usize, values: &mut [f32; PART]) {
        let highs = part::<32>(block, 16);
        let (scale, min) = scale_and_min(block, index);
        let shift = index % 2 * 4;
        let codes = part::<32>(block, 48 + index / 2 * 32);
        for ((value, code), high) in values.iter_mut().zip(codes).zip(highs) {
            *value = scale * f32::from(code >> shift & 15 | (high >> index & 1) << 4) - min;
        }
    }

    #[inline(always)]
    fn special(&self, block: &[u8; 176]) -> Option<f32> {
        special_of([half(block, 0), half(block, 2)])
    }
}

struct Q6K;

impl Coding<210> for Q6K {
    #[inline(always)]
    fn decode(&self, block: &[u8; 210], index: usize, values: &mut [f32; PART]) {
        let d = half(block, 208);
        // 128 elements take 64 bytes for their low 4 bits and 32 for their high 2.
        let mut codes = part::<32>(block, index / 4 * 64 + index % 2 * 32);
        let highs = part::<32>(block, 128 + index / 4 * 32);
        let (low_shift, high_shift) = (index % 4 / 2 * 4, index % 4 * 2);
        for (code, high) in codes.iter_mut().zip(highs) {
            *code = *code >> low_shift & 15 | (high >> high_shift & 3) << 4;
        }
        for (which, (values, codes)) in in_halves(values, &codes) {
            let scale = d * f32::from(block[192 + 2 * index + which] as i8);
            values.iter_mut().zip(codes).for_each(|(value, code)| *value = scale * f32::from(*code as i8 - 32));
        }
    }

    #[inline(always)]
    fn special(&self, block: &[u8; 210]) -> Option<f32> {
        special_of([half(block, 208)])
    }
}

/// The sums of its elements, which come last, are for products of blocks.
struct Q8K;

impl Coding<292> for Q8K {
    #[inline(always)]
    fn decode(&self, block: &[u8; 292], index: usize, values: &mut [f32; PART]) {
        let d = f32::from_le_bytes(part(block, 0));
        for (value, code) in values.iter_mut().zip(part::<PART>(block, 4 + index * PART)) {
            *value = d * f32::from(code as i8);
        }
    }

    #[inline(always)]
    fn special(&self, block: &[u8; 292]) -> Option<f32> {
        special_of([f32::from_le_bytes(part(block, 0))])
    }
}

/// The value of a code of float4e2m1, for a scale of half the value. Twice the magnitudes are 0, 1, 2, 3, 4, 6, 8, 12:
/// sums of comparisons are vectors where a look-up is not.
#[inline(always)]
fn e2m1(half_scale: f32, code: u8) -> f32 {
    let code_of = code & 7;
    let twice = code_of + u8::from(code_of > 4) + u8::from(code_of > 5) + 3 * u8::from(code_of > 6);
    f32::from_bits((half_scale * f32::from(twice)).to_bits() ^ u32::from(code & 8) << 28)
}

struct MxFp4;

impl MxFp4 {
    /// Half of a scale of float8e8m0: a power of two.
    #[inline(always)]
    fn half_scale(block: &[u8; 17]) -> f32 {
        match u32::from(block[0]) {
            255 => f32::NAN,
            // The least two are subnormal.
            code @ (0 | 1) => f32::from_bits(1 << (21 + code)),
            code => f32::from_bits((code - 1) << 23),
        }
    }
}

impl Coding<17> for MxFp4 {
    #[inline(always)]
    fn decode(&self, block: &[u8; 17], _: usize, values: &mut [f32; PART]) {
        let d = MxFp4::half_scale(block);
        halves(part(block, 1), values, |code, _| e2m1(d, code));
    }

    #[inline(always)]
    fn special(&self, block: &[u8; 17]) -> Option<f32> {
        special_of([MxFp4::half_scale(block)])
    }
}

/// With the scale of the tensor or the matrix: it and a block's scale are multiplied first.
struct NvFp4(Option<f32>);

/// Half of what each code of float8e4m3fn stands for; its sign is passed over.
static HALF_SCALES: [f32; 256] = {
    let mut scales = [0.0; 256];
    let mut code = 0;
    while code < scales.len() {
        let bits = code as u32 & 0x7f;
        scales[code] = match bits {
            _ if code == 0x7f => f32::NAN,
            // Subnormal: multiples of 2^-9.
            0..8 => bits as f32 * (1.0 / 1024.0),
            // The exponent's bias is 7, and 127 in a float; one less for the half.
            _ => f32::from_bits((bits << 20) + (119 << 23)),
        };
        code += 1;
    }
    scales
};

impl NvFp4 {
    /// Half of a scale, times the tensor's.
    #[inline(always)]
    fn half_scale(&self, code: u8) -> f32 {
        let scale = HALF_SCALES[usize::from(code)];
        self.0.map_or(scale, |global| scale * global)
    }
}

impl Coding<36> for NvFp4 {
    #[inline(always)]
    fn decode(&self, block: &[u8; 36], index: usize, values: &mut [f32; PART]) {
        let mut codes = [0; PART];
        let bytes = part::<16>(block, 4 + index * 16);
        for (codes, bytes) in codes.as_chunks_mut::<16>().0.iter_mut().zip(bytes.as_chunks::<8>().0) {
            let (low, high) = codes.split_at_mut(8);
            low.iter_mut().zip(bytes).for_each(|(code, byte)| *code = byte & 15);
            high.iter_mut().zip(bytes).for_each(|(code, byte)| *code = byte >> 4);
        }
        for (which, (values, codes)) in in_halves(values, &codes) {
            let d = self.half_scale(block[2 * index + which]);
            values.iter_mut().zip(codes).for_each(|(value, code)| *value = e2m1(d, *code));
        }
    }

    #[inline(always)]
    fn special(&self, block: &[u8; 36]) -> Option<f32> {
        special_of(part::<4>(block, 0).map(|code| self.half_scale(code)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnx_cast::Float16;

    #[test]
    fn scales_are_the_casts_of_their_types() {
        for bits in 0..=u16::MAX {
            let (got, want) = (half(&bits.to_le_bytes(), 0), Float16::from_bits(bits).to_f32());
            assert!(got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan(), "{bits:#06x}: {got}, not {want}");
        }
        for code in 0..=u8::MAX {
            let got = 2.0 * NvFp4(None).half_scale(code);
            let want = onnx_cast::Float8E4M3FN::from_bits(code & 0x7f).to_f32();
            let want = if code == 0xff { 480.0 } else { want };
            assert!(got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan(), "{code:#04x}: {got}, not {want}");
            let got = 2.0 * MxFp4::half_scale(&[code; 17]);
            let want = onnx_cast::Float8E8M0::from_bits(code).to_f32();
            assert!(got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan(), "{code:#04x}: {got}, not {want}");
        }
    }

    #[test]
    fn elements_of_float4e2m1() {
        for code in 0..16 {
            let want = onnx_cast::Float4E2M1::from_bits(code).to_f32();
            assert_eq!(e2m1(0.5, code).to_bits(), want.to_bits(), "{code}");
        }
    }
}
