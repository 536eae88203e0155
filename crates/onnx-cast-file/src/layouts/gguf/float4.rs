//! MXFP4 and NVFP4: elements of float4e2m1, with scales of float8e8m0 or float8e4m3fn.

use super::simple::halves;
use super::{Coding, PART, in_halves, part, special_of};

/// The value of a code of float4e2m1, for a scale of half the value. Twice the magnitudes are 0, 1, 2, 3, 4, 6, 8, 12:
/// sums of comparisons are vectors where a look-up is not.
#[inline(always)]
pub(super) fn e2m1(half_scale: f32, code: u8) -> f32 {
    let code_of = code & 7;
    let twice = code_of + u8::from(code_of > 4) + u8::from(code_of > 5) + 3 * u8::from(code_of > 6);
    f32::from_bits((half_scale * f32::from(twice)).to_bits() ^ u32::from(code & 8) << 28)
}

pub(super) struct MxFp4;

impl MxFp4 {
    /// Half of a scale of float8e8m0: a power of two.
    #[inline(always)]
    pub(super) fn half_scale(block: &[u8; 17]) -> f32 {
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
pub(super) struct NvFp4(pub(super) Option<f32>);

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
    pub(super) fn half_scale(&self, code: u8) -> f32 {
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
