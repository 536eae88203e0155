//! Codings with one scale for a block of 32, and perhaps a minimum: Q4_0 to Q8_0.

use super::{Coding, PART, half, part, special_of};

/// Writes the values of a block of 32 whose lower halves of bytes come first: `value` takes the code, and the index.
#[inline(always)]
pub(super) fn halves(codes: [u8; 16], values: &mut [f32; 32], value: impl Fn(u8, usize) -> f32) {
    for (index, code) in codes.into_iter().enumerate() {
        values[index] = value(code & 15, index);
    }
    for (index, code) in codes.into_iter().enumerate() {
        values[16 + index] = value(code >> 4, 16 + index);
    }
}

/// 16 where a bit of a mask is set, else 0.
#[inline(always)]
fn fifth(mask: u32, index: usize) -> u8 {
    if mask & (1 << index) == 0 { 0 } else { 16 }
}

pub(super) struct Q4_0;

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

pub(super) struct Q4_1;

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

pub(super) struct Q5_0;

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

pub(super) struct Q5_1;

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

pub(super) struct Q8_0;

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
