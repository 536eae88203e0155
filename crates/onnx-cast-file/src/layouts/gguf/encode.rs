//! From values to blocks of GGUF, as the gguf package computes them: every quotient, product and sum rounded once, in
//! its order, with the scale that elements are divided by in float, not in float16.
//!
//! Blocks with a value that is infinite or NaN become NaN as a whole: the package gives codes that depend on the
//! processor. Its MXFP4 gives the scale of a block below 2^-125 the code modulo 256; here that is the least scale.

use super::float4::MxFp4;
use crate::formats::gguf::BlockCoding;
use crate::level::level;
use fearless_simd::dispatch;

/// Values of a block of the types that are written.
pub(crate) const BLOCK: usize = 32;

/// Encodes whole blocks of floats. Whether a block has a scale, or a value, that is not finite.
pub(crate) fn encode(coding: BlockCoding, values: &[u8], out: &mut [u8]) -> bool {
    let level = level();
    match coding {
        BlockCoding::Q4_0 => dispatch!(level, _simd => each(&symmetric::<4, 18>, values, out)),
        BlockCoding::Q4_1 => dispatch!(level, _simd => each(&asymmetric::<4, 20>, values, out)),
        BlockCoding::Q5_0 => dispatch!(level, _simd => each(&symmetric::<5, 22>, values, out)),
        BlockCoding::Q5_1 => dispatch!(level, _simd => each(&asymmetric::<5, 24>, values, out)),
        BlockCoding::Q8_0 => dispatch!(level, _simd => each(&q8_0, values, out)),
        BlockCoding::MxFp4 => dispatch!(level, _simd => each(&mxfp4, values, out)),
        // Unreachable: `GgufFormat` has no other.
        _ => true,
    }
}

/// Encodes blocks by a function for one of finite values, which says whether its scale is finite.
#[inline(always)]
fn each<const BYTES: usize>(
    encode: &impl Fn(&[f32; BLOCK], &mut [u8; BYTES]) -> bool,
    values: &[u8],
    out: &mut [u8],
) -> bool {
    let mut are_finite = true;
    let blocks = values.as_chunks::<4>().0.as_chunks::<BLOCK>().0;
    for (values, block) in blocks.iter().zip(out.as_chunks_mut::<BYTES>().0) {
        let values = values.map(f32::from_le_bytes);
        if values.iter().all(|value| value.is_finite()) {
            are_finite &= encode(&values, block);
        } else {
            // A scale of NaN: of float8e8m0, which is one byte before 16, or of float16.
            *block = [0; BYTES];
            if BYTES == 17 {
                block[0] = 0xff
            } else {
                block[1] = 0x7e
            }
            are_finite = false;
        }
    }
    !are_finite
}

#[inline(always)]
fn greatest_magnitude(values: &[f32; BLOCK]) -> f32 {
    values.iter().fold(0.0, |most: f32, value| most.max(value.abs()))
}

/// What values are multiplied by for a scale. Where the reciprocal is infinite all codes become 0.
#[inline(always)]
fn reciprocal(d: f32) -> f32 {
    let reciprocal = 1.0 / d;
    match d {
        0.0 => 0.0,
        _ if reciprocal.is_finite() => reciprocal,
        _ => f32::NAN,
    }
}

/// Writes codes of 4 or 5 bits behind `before` bytes of scales: the fifth bits, then the others in halves.
#[inline(always)]
fn pack<const BITS: u32>(codes: &[u8; BLOCK], before: usize, block: &mut [u8]) {
    let mut at = before;
    if BITS == 5 {
        let high = codes.iter().enumerate().fold(0, |high, (index, code)| high | u32::from(code >> 4) << index);
        block[at..at + 4].copy_from_slice(&high.to_le_bytes());
        at += 4;
    }
    let (low, high) = codes.split_at(BLOCK / 2);
    for ((byte, low), high) in block[at..].iter_mut().zip(low).zip(high) {
        *byte = low & 15 | high << 4;
    }
}

/// Q4_0 and Q5_0: the first value with the largest magnitude gets code 0.
#[inline(always)]
fn symmetric<const BITS: u32, const BYTES: usize>(values: &[f32; BLOCK], block: &mut [u8; BYTES]) -> bool {
    let middle = (1 << (BITS - 1)) as f32;
    let most = greatest_magnitude(values);
    let amax = values.iter().copied().find(|value| value.abs() == most).unwrap_or(0.0);
    let d = amax / -middle;
    let by = reciprocal(d);
    let codes = values.map(|value| ((value * by + (middle + 0.5)) as u8).min((1 << BITS) - 1));
    let scale = half_bits(d);
    block[..2].copy_from_slice(&scale.to_le_bytes());
    pack::<BITS>(&codes, 2, block);
    is_finite(scale)
}

/// Q4_1 and Q5_1: codes cover the range from min to max. If min or max is 0, the last zero determines its sign.
#[inline(always)]
fn asymmetric<const BITS: u32, const BYTES: usize>(values: &[f32; BLOCK], block: &mut [u8; BYTES]) -> bool {
    let amax = values.iter().copied().fold(values[0], |most, value| if value >= most { value } else { most });
    let least = values.iter().copied().fold(values[0], |most, value| if value <= most { value } else { most });
    let d = (amax - least) / ((1 << BITS) - 1) as f32;
    let by = reciprocal(d);
    let codes = values.map(|value| (((value - least) * by + 0.5) as u8).min((1 << BITS) - 1));
    let [scale, least] = [d, least].map(half_bits);
    block[..2].copy_from_slice(&scale.to_le_bytes());
    block[2..4].copy_from_slice(&least.to_le_bytes());
    pack::<BITS>(&codes, 4, block);
    is_finite(scale) && is_finite(least)
}

/// Q8_0: ties away from zero.
#[inline(always)]
fn q8_0(values: &[f32; BLOCK], block: &mut [u8; 34]) -> bool {
    let d = greatest_magnitude(values) / 127.0;
    let by = reciprocal(d);
    let scale = half_bits(d);
    block[..2].copy_from_slice(&scale.to_le_bytes());
    for (byte, value) in block[2..].iter_mut().zip(values) {
        *byte = (value * by).round() as i8 as u8;
    }
    is_finite(scale)
}

/// MXFP4: the scale is derived from amax. Each value is rounded to the nearest element, with ties towards zero. Zeros
/// lose their sign.
#[inline(always)]
fn mxfp4(values: &[f32; BLOCK], block: &mut [u8; 17]) -> bool {
    let most = greatest_magnitude(values);
    let scale = if most == 0.0 { 0 } else { (floor_of_log2(most) + 125).max(0) as u8 };
    block[0] = scale;
    let d = MxFp4::half_scale(block);
    let bounds = [0.5, 1.5, 2.5, 3.5, 5.0, 7.0, 10.0].map(|bound: f32| bound * d);
    let codes = values.map(|value| {
        let code = bounds.iter().map(|bound| u8::from(value.abs() > *bound)).sum::<u8>();
        if code == 0 { 0 } else { code | u8::from(value < 0.0) << 3 }
    });
    pack::<4>(&codes, 1, block);
    true
}

/// The exponent of a number as its logarithm, rounded to a float, has it: just below a power of two it is that of the
/// power.
#[inline(always)]
fn floor_of_log2(value: f32) -> i32 {
    const NEAR: u32 = 0x007f_ff00;
    let bits = value.to_bits();
    if bits >= 1 << 23 && bits & 0x007f_ffff < NEAR {
        return (bits >> 23) as i32 - 127;
    }
    // Rounded twice, but no logarithm of a float is so near a half of a unit that it shows.
    (f64::from(value).log2() as f32).floor() as i32
}

fn is_finite(half: u16) -> bool {
    half & 0x7fff < 0x7c00
}

/// The bits of the nearest float16, of two the even one.
#[inline(always)]
fn half_bits(value: f32) -> u16 {
    /// 2^-14 and 2^16: the normal numbers of float16, and those that round beyond.
    const NORMAL: u32 = 113 << 23;
    const BEYOND: u32 = 143 << 23;
    let bits = value.to_bits();
    let magnitude = match bits & 0x7fff_ffff {
        // A unit of 0.5 is 2^-24, that of subnormal numbers.
        small @ 0..NORMAL => (f32::from_bits(small) + 0.5).to_bits() - 0.5f32.to_bits(),
        normal @ NORMAL..BEYOND => (normal - (112 << 23) + 0xfff + (normal >> 13 & 1)) >> 13,
        BEYOND..=0x7f80_0000 => 0x7c00,
        _ => 0x7e00,
    };
    (bits >> 16) as u16 & 0x8000 | magnitude as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnx_cast::types::Float16;

    #[test]
    fn scales_are_rounded_as_casts_are() {
        let mut bits = 0u32;
        while bits < 0x7f80_0000 {
            for bits in [bits, bits ^ 1 << 31] {
                let value = f32::from_bits(bits);
                assert_eq!(half_bits(value), Float16::from_f32(value).to_bits(), "{bits:#010x}");
            }
            // Ties, and a step beside them, of every exponent.
            bits += if bits & 0xfff == 0xfff || bits & 0xfff == 0 { 1 } else { 0xffe };
        }
        assert_eq!(half_bits(f32::NAN) & 0x7fff, 0x7e00);
    }

    #[test]
    fn exponents_are_those_of_a_rounded_logarithm() {
        for (below, exponent, want) in [(1, 2, 1), (1, 4, 4), (2, 4, 3), (1, -5, -5), (2, -5, -5), (3, -5, -6)] {
            let value = f32::from_bits(((exponent + 127) as u32) << 23);
            let value = f32::from_bits(value.to_bits() - below);
            assert_eq!(floor_of_log2(value), want, "{below} units below 2^{exponent}");
        }
        assert_eq!([1.0, 1.5, 0.75, 1e-40, f32::MAX].map(floor_of_log2), [0, 0, -1, -133, 128]);
    }
}
