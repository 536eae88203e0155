//! The K-quants: blocks of 256, whose parts have scales of 4 to 8 bits, which have scales of their own.

use super::{Coding, PART, half, in_halves, part, special_of};

pub(super) struct Q2K;

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

pub(super) struct Q3K;

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

pub(super) struct Q4K;

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

pub(super) struct Q5K;

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

pub(super) struct Q6K;

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
pub(super) struct Q8K;

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
