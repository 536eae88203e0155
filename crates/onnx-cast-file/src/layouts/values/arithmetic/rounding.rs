//! Rounding to float16 and bfloat16 in loops that the compiler vectorises: the casts of the library, for one value.

use crate::layouts::values::TensorBytes;
use crate::level::level;
use crate::pipeline::{PipelineError, Scratch};
use fearless_simd::dispatch;
use onnx_cast::DataType;

/// How values are rounded.
#[derive(Clone, Copy, Debug)]
pub(super) enum Rounding {
    /// To float16, of which no value is reached that is not finite.
    SmallFloat16,
    Float16,
    BFloat16,
    Float,
}

impl Rounding {
    /// That to a type. `is_small` tells that no value reaches what is not finite in float16.
    pub(super) fn of(data_type: DataType, is_small: bool) -> Rounding {
        match data_type {
            DataType::Float16 if is_small => Rounding::SmallFloat16,
            DataType::Float16 => Rounding::Float16,
            DataType::BFloat16 => Rounding::BFloat16,
            _ => Rounding::Float,
        }
    }
}

/// Runs loops with a rounding, which is chosen outside of them: so they are vectorised.
macro_rules! with_rounding {
    ($rounding:expr, |$round:ident| $loops:expr) => {{
        use $crate::layouts::values::arithmetic::rounding;
        match $rounding {
            Rounding::SmallFloat16 => {
                let $round = rounding::round_small_to_f16;
                $loops
            }
            Rounding::Float16 => {
                let $round = |value: f32| rounding::round(DataType::Float16, value);
                $loops
            }
            Rounding::BFloat16 => {
                let $round = |value: f32| rounding::round(DataType::BFloat16, value);
                $loops
            }
            Rounding::Float => {
                let $round = |value: f32| rounding::round(DataType::Float, value);
                $loops
            }
        }
    }};
}
pub(super) use with_rounding;

/// Rounds to a type, and widens again. What is NaN is the usual one.
#[inline(always)]
pub(super) fn round(data_type: DataType, value: f32) -> f32 {
    let value = if value.is_nan() { f32::NAN } else { value };
    match data_type {
        DataType::BFloat16 => f32::from_bits(u32::from(bf16_bits(value)) << 16),
        DataType::Float16 => round_to_f16(value),
        _ => value,
    }
}

/// Rounds to a value of float16, to nearest, ties to even: in float, with fewer steps than by way of the code.
#[inline(always)]
fn round_to_f16(value: f32) -> f32 {
    // The power of two of the unit stays finite for values that overflow anyway.
    let rounded = round_beside(value, (value.to_bits() & 0x7f80_0000).min(240 << 23));
    // From 2^16 on this overflows to the infinity.
    rounded * f32::from_bits((127 + 112) << 23) * f32::from_bits((127 - 112) << 23)
}

/// Rounds to a value of float16 what is certain not to overflow.
#[inline(always)]
pub(super) fn round_small_to_f16(value: f32) -> f32 {
    round_beside(value, value.to_bits() & 0x7f80_0000)
}

/// Rounds a value of this exponent. Beside 2^13 times its power of two, the last place of float is that of float16:
/// 2^-24 at least.
#[inline(always)]
fn round_beside(value: f32, exponent: u32) -> f32 {
    let sign = value.to_bits() & 0x8000_0000;
    let unit = f32::from_bits((exponent.max(113 << 23) + (13 << 23)) | sign);
    // The difference of equal numbers is a zero without the sign.
    f32::from_bits(((value + unit) - unit).to_bits() | sign)
}

/// The code of bfloat16, rounded to nearest, ties to even. NaN is the usual one.
#[inline(always)]
fn bf16_bits(value: f32) -> u16 {
    let bits = value.to_bits();
    ((bits + 0x7fff + (bits >> 16 & 1)) >> 16) as u16
}

/// The code of float16, rounded to nearest, ties to even. NaN is the usual one.
#[inline(always)]
fn f16_bits(value: f32) -> u16 {
    let bits = value.to_bits();
    let magnitude = bits & 0x7fff_ffff;
    // From 2^-14 on: the exponent's bias is 15 instead of 127. A carry may reach the infinity.
    let odd = magnitude >> 13 & 1;
    let normal = magnitude.wrapping_sub(112 << 23).wrapping_add(0xfff + odd) >> 13;
    // Below: multiples of 2^-24, which is the unit of the last place beside a half.
    let subnormal = (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0.5f32.to_bits());
    let finite = if magnitude < 113 << 23 { subnormal } else { normal.min(0x7c00) };
    let code = if magnitude > 0x7f80_0000 { 0x7e00 } else { finite };
    (code | bits >> 16 & 0x8000) as u16
}

/// The value of a code of float16.
#[inline(always)]
fn f16_value(code: u16) -> f32 {
    let (code, sign) = (u32::from(code & 0x7fff), u32::from(code & 0x8000) << 16);
    let subnormal = (code as i32 as f32 * (1.0 / (1 << 24) as f32)).to_bits();
    let normal = (code << 13) + (112 << 23);
    let special = code << 13 | 0x7f80_0000;
    let magnitude = if code < 0x400 {
        subnormal
    } else if code < 0x7c00 {
        normal
    } else {
        special
    };
    f32::from_bits(magnitude | sign)
}

/// Reads some numbers of a type, one after the other.
pub(in crate::layouts::values) fn read_numbers(
    data_type: DataType,
    place: TensorBytes<'_>,
    first: usize,
    count: usize,
    scratch: &mut Scratch,
) -> Result<Vec<f32>, PipelineError> {
    let size = data_type.byte_len(1).unwrap_or(1);
    place.read(first * size, count * size, &mut scratch.scales)?;
    Ok(numbers(data_type, &scratch.scales))
}

/// Numbers of a type, as float.
pub(in crate::layouts::values) fn numbers(data_type: DataType, bytes: &[u8]) -> Vec<f32> {
    let mut numbers = vec![0.0; bytes.len() / data_type.byte_len(1).unwrap_or(1)];
    widen(data_type, bytes, &mut numbers);
    numbers
}

/// Widens numbers of a type to float.
pub(in crate::layouts::values) fn widen(data_type: DataType, bytes: &[u8], numbers: &mut [f32]) {
    dispatch!(level(), _simd => load(data_type, bytes, numbers));
}

/// Reads values of a type.
#[inline(always)]
fn load(from: DataType, bytes: &[u8], values: &mut [f32]) {
    let halves = values.iter_mut().zip(bytes.as_chunks().0);
    match from {
        DataType::Float16 => halves.for_each(|(value, half)| *value = f16_value(u16::from_le_bytes(*half))),
        DataType::BFloat16 => {
            halves.for_each(|(value, half)| *value = f32::from_bits(u32::from(u16::from_le_bytes(*half)) << 16))
        }
        _ => {
            let words = values.iter_mut().zip(bytes.as_chunks().0);
            words.for_each(|(value, word)| *value = f32::from_le_bytes(*word));
        }
    }
}

/// Writes values in a type.
#[inline(always)]
pub(super) fn store(to: DataType, values: &[f32], out: &mut [u8]) {
    let halves = out.as_chunks_mut::<2>().0.iter_mut().zip(values);
    match to {
        DataType::Float16 => halves.for_each(|(out, value)| *out = f16_bits(*value).to_le_bytes()),
        DataType::BFloat16 => halves.for_each(|(out, value)| *out = bf16_bits(*value).to_le_bytes()),
        _ => {
            let words = out.as_chunks_mut::<4>().0.iter_mut().zip(values);
            words.for_each(|(out, value)| *out = value.to_le_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnx_cast::{Cast, CastOptions, TensorView};

    /// The library's cast of the low bytes of words, as words.
    fn cast(from: DataType, to: DataType, words: &[u32]) -> Vec<u32> {
        let width = |data_type: DataType| data_type.byte_len(1).expect("a width");
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()[..width(from)].to_vec()).collect();
        let shape = [words.len()];
        let source = TensorView::new(from, &shape, &bytes).expect("a tensor");
        let cast = Cast::new(to, &CastOptions::new()).expect("a cast").run(&source).expect("casts");
        let word = |bytes: &[u8]| {
            let mut word = [0; 4];
            word[..bytes.len()].copy_from_slice(bytes);
            u32::from_le_bytes(word)
        };
        cast.bytes().expect("numbers").chunks(width(to)).map(word).collect()
    }

    #[test]
    fn codes_are_those_of_the_library() {
        let edges = [0u32, 1, 0xfff, 0x1000, 0x1001, 0x1fff, 0x2000, 0x3000, 0x7fff, 0x8000, 0x8001, 0xffff];
        let words: Vec<u32> = (0..=0xffffu32).flat_map(|high| edges.map(|low| high << 16 | low)).collect();
        let codes = [DataType::Float16, DataType::BFloat16].map(|to| cast(DataType::Float, to, &words));
        for ((&bits, &half), &brain) in words.iter().zip(&codes[0]).zip(&codes[1]) {
            let value = f32::from_bits(bits);
            if value.is_nan() {
                assert_eq!((f16_bits(value) & 0x7fff, bf16_bits(round(DataType::BFloat16, value))), (0x7e00, 0x7fc0));
                continue;
            }
            assert_eq!(u32::from(f16_bits(value)), half, "float16 of {bits:#010x}");
            assert_eq!(u32::from(bf16_bits(value)), brain, "bfloat16 of {bits:#010x}");
            let (got, want) = (round(DataType::Float16, value), f16_value(half as u16));
            assert_eq!(got.to_bits(), want.to_bits(), "{bits:#010x} rounded to float16");
            if value.abs() < 65504.0 {
                assert_eq!(round_small_to_f16(value).to_bits(), want.to_bits(), "{bits:#010x} rounded to float16");
            }
        }
        let words: Vec<u32> = (0..=0xffff).collect();
        for (&code, want) in words.iter().zip(cast(DataType::Float16, DataType::Float, &words)) {
            let (got, want) = (f16_value(code as u16), f32::from_bits(want));
            assert!(got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan(), "{code:#06x}");
        }
    }
}
