//! The IQ and TQ types: elements of one to four bits, in groups of 4 or 8 that are rows of a table, the grid of the
//! type, with signs of their own; ternary elements; and elements that are indices of 16 values.
//!
//! Every value has at most 24 significant bits before it is rounded, so that the order of the products does not matter.

use super::simple::halves;
use super::{Coding, PART, half, part, special_of};

/// The grids one after the other: a row is 16 bits, of which each element takes 2 (rows of 8) or 4 (rows of 4), the
/// first the lowest. `scripts/generate/gguf_grids.py` writes the file.
static GRIDS: &[u8] = include_bytes!("grids.bin");

/// The rows of a grid that begins behind so many others.
const fn rows<const N: usize>(before: usize) -> [u16; N] {
    let mut rows = [0; N];
    let mut row = 0;
    while row < N {
        let at = 2 * (before + row);
        rows[row] = u16::from_le_bytes([GRIDS[at], GRIDS[at + 1]]);
        row += 1;
    }
    rows
}

static IQ2_XXS: [u16; 256] = rows(0);
static IQ2_XS: [u16; 512] = rows(256);
static IQ2_S: [u16; 1024] = rows(768);
static IQ3_XXS: [u16; 256] = rows(1792);
static IQ3_S: [u16; 512] = rows(2048);
static IQ1: [u16; 2048] = rows(2560);
const _: () = assert!(GRIDS.len() == 2 * 4608);

/// Writes the values of four groups of 8 elements: the magnitudes of a group, and its signs, of which a set bit is
/// minus, by its index.
#[inline(always)]
fn signed(values: &mut [f32; PART], group: impl Fn(usize) -> ([u32; 8], u8), scale: impl Fn(usize) -> f32) {
    for (index, values) in values.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        let (magnitudes, signs) = group(index);
        let scale = scale(index);
        for (bit, (value, magnitude)) in values.iter_mut().zip(magnitudes).enumerate() {
            let sign = (u32::from(signs) << (31 - bit)) & (1 << 31);
            *value = f32::from_bits((scale * magnitude as i32 as f32).to_bits() ^ sign);
        }
    }
}

/// The magnitudes of a row of two bits an element: 8, 25 and 43.
#[inline(always)]
fn of_two_bits(row: u16) -> [u32; 8] {
    elements(row).map(|code| 8 + 17 * code + (code >> 1))
}

/// The elements of a row of two bits each.
#[inline(always)]
fn elements(row: u16) -> [u32; 8] {
    std::array::from_fn(|index| u32::from(row) >> (2 * index) & 3)
}

/// The elements of two rows of four bits each.
#[inline(always)]
fn elements_of_two(rows: [u16; 2]) -> [u32; 8] {
    let rows = u32::from(rows[0]) | u32::from(rows[1]) << 16;
    std::array::from_fn(|index| rows >> (4 * index) & 7)
}

/// The signs of 8 elements that seven bits tell: the number of minuses is even.
#[inline(always)]
fn even_signs(bits: u32) -> u8 {
    let bits = bits as u8 & 127;
    bits | (bits.count_ones() as u8) << 7
}

/// Half of the scales that four bits tell, from 0.5 to 15.5.
#[inline(always)]
fn scale_of(d: f32, code: u32) -> f32 {
    d * (0.5 + code as f32)
}

/// A nibble of a byte, by its index.
#[inline(always)]
fn nibble(byte: u8, index: usize) -> u32 {
    u32::from(byte) >> (4 * (index & 1)) & 15
}

#[inline(always)]
fn word(block: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(part(block, at))
}

#[inline(always)]
fn short(block: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(part(block, at))
}

pub(super) struct Iq2Xxs;

impl Coding<66> for Iq2Xxs {
    #[inline(always)]
    fn decode(&self, block: &[u8; 66], index: usize, values: &mut [f32; PART]) {
        let (rows, rest) = (part::<4>(block, 2 + 8 * index), word(block, 6 + 8 * index));
        let scale = scale_of(half(block, 0), rest >> 28) * 0.25;
        let group = |at: usize| (of_two_bits(IQ2_XXS[usize::from(rows[at])]), even_signs(rest >> (7 * at)));
        signed(values, group, |_| scale);
    }

    #[inline(always)]
    fn special(&self, block: &[u8; 66]) -> Option<f32> {
        special_of([half(block, 0)])
    }
}

pub(super) struct Iq2Xs;

impl Coding<74> for Iq2Xs {
    #[inline(always)]
    fn decode(&self, block: &[u8; 74], index: usize, values: &mut [f32; PART]) {
        let d = half(block, 0) * 0.25;
        let scales = block[66 + index];
        let group = |at: usize| {
            let code = short(block, 2 + 8 * index + 2 * at);
            (of_two_bits(IQ2_XS[usize::from(code & 511)]), even_signs(u32::from(code >> 9)))
        };
        signed(values, group, |at| scale_of(d, nibble(scales, at / 2)));
    }

    #[inline(always)]
    fn special(&self, block: &[u8; 74]) -> Option<f32> {
        special_of([half(block, 0)])
    }
}

pub(super) struct Iq2S;

impl Coding<82> for Iq2S {
    #[inline(always)]
    fn decode(&self, block: &[u8; 82], index: usize, values: &mut [f32; PART]) {
        let d = half(block, 0) * 0.25;
        let (rows, signs) = (part::<4>(block, 2 + 4 * index), part::<4>(block, 34 + 4 * index));
        let (highs, scales) = (block[66 + index], block[74 + index]);
        let group = |at: usize| {
            let high = u16::from(highs >> (2 * at) & 3);
            (of_two_bits(IQ2_S[usize::from(u16::from(rows[at]) | high << 8)]), signs[at])
        };
        signed(values, group, |at| scale_of(d, nibble(scales, at / 2)));
    }

    #[inline(always)]
    fn special(&self, block: &[u8; 82]) -> Option<f32> {
        special_of([half(block, 0)])
    }
}

pub(super) struct Iq3Xxs;

impl Coding<98> for Iq3Xxs {
    #[inline(always)]
    fn decode(&self, block: &[u8; 98], index: usize, values: &mut [f32; PART]) {
        let (rows, rest) = (part::<8>(block, 2 + 8 * index), word(block, 66 + 4 * index));
        let scale = scale_of(half(block, 0), rest >> 28) * 0.5;
        let group = |at: usize| {
            let rows = [rows[2 * at], rows[2 * at + 1]].map(|row| IQ3_XXS[usize::from(row)]);
            // 4, 12, 20 to 52, and 62.
            let magnitudes = elements_of_two(rows).map(|code| 4 + 8 * code + 2 * ((code + 1) >> 3));
            (magnitudes, even_signs(rest >> (7 * at)))
        };
        signed(values, group, |_| scale);
    }

    #[inline(always)]
    fn special(&self, block: &[u8; 98]) -> Option<f32> {
        special_of([half(block, 0)])
    }
}

pub(super) struct Iq3S;

impl Coding<110> for Iq3S {
    #[inline(always)]
    fn decode(&self, block: &[u8; 110], index: usize, values: &mut [f32; PART]) {
        let (rows, signs) = (part::<8>(block, 2 + 8 * index), part::<4>(block, 74 + 4 * index));
        let highs = block[66 + index];
        let scale = half(block, 0) * (1 + 2 * nibble(block[106 + index / 2], index)) as f32;
        let group = |at: usize| {
            let row = |which: usize| {
                let high = u16::from(highs >> which & 1);
                IQ3_S[usize::from(u16::from(rows[which]) | high << 8)]
            };
            (elements_of_two([row(2 * at), row(2 * at + 1)]).map(|code| 1 + 2 * code), signs[at])
        };
        signed(values, group, |_| scale);
    }

    #[inline(always)]
    fn special(&self, block: &[u8; 110]) -> Option<f32> {
        special_of([half(block, 0)])
    }
}

/// Writes the values of four groups of 8 elements of -1, 0 and 1, to all of which an eighth is added, or from which it
/// is taken: the index of a group's row, whether it is taken, and the scale.
#[inline(always)]
fn ternary(values: &mut [f32; PART], group: impl Fn(usize) -> (u16, bool, f32)) {
    for (index, values) in values.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        let (row, is_less, scale) = group(index);
        // Eighths, from those of -1.
        let least = if is_less { -9 } else { -7 };
        let scale = scale * 0.125;
        for (value, code) in values.iter_mut().zip(elements(IQ1[usize::from(row & 2047)])) {
            *value = scale * (8 * code as i32 + least) as f32;
        }
    }
}

pub(super) struct Iq1S;

impl Coding<50> for Iq1S {
    #[inline(always)]
    fn decode(&self, block: &[u8; 50], index: usize, values: &mut [f32; PART]) {
        let (rows, rest) = (part::<4>(block, 2 + 4 * index), short(block, 34 + 2 * index));
        let scale = half(block, 0) * f32::from(2 * (rest >> 12 & 7) + 1);
        ternary(values, |at| (u16::from(rows[at]) | (rest >> (3 * at) & 7) << 8, rest >> 15 != 0, scale));
    }

    #[inline(always)]
    fn special(&self, block: &[u8; 50]) -> Option<f32> {
        special_of([half(block, 0)])
    }
}

pub(super) struct Iq1M;

impl Iq1M {
    /// The scale of the block: four bits of each of four words.
    #[inline(always)]
    fn scale(block: &[u8; 56]) -> f32 {
        let bits = (0..4).fold(0, |bits, at| bits | short(block, 48 + 2 * at) >> 12 << (4 * at));
        half(&bits.to_le_bytes(), 0)
    }
}

impl Coding<56> for Iq1M {
    #[inline(always)]
    fn decode(&self, block: &[u8; 56], index: usize, values: &mut [f32; PART]) {
        let d = Iq1M::scale(block);
        let (rows, highs) = (part::<4>(block, 4 * index), part::<2>(block, 32 + 2 * index));
        let scales = short(block, 48 + index / 2 * 2) >> (index % 2 * 6);
        ternary(values, |at| {
            let high = nibble(highs[at / 2], at) as u16;
            let scale = d * f32::from(2 * (scales >> (at / 2 * 3) & 7) + 1);
            (u16::from(rows[at]) | (high & 7) << 8, high & 8 != 0, scale)
        });
    }

    #[inline(always)]
    fn special(&self, block: &[u8; 56]) -> Option<f32> {
        special_of([Iq1M::scale(block)])
    }
}

/// What the codes of IQ4_NL and IQ4_XS stand for.
static IQ4: [f32; 16] =
    [-127.0, -104.0, -83.0, -65.0, -49.0, -35.0, -22.0, -10.0, 1.0, 13.0, 25.0, 38.0, 53.0, 69.0, 89.0, 113.0];

pub(super) struct Iq4Nl;

impl Coding<18> for Iq4Nl {
    #[inline(always)]
    fn decode(&self, block: &[u8; 18], _: usize, values: &mut [f32; PART]) {
        let d = half(block, 0);
        halves(part(block, 2), values, |code, _| d * IQ4[usize::from(code & 15)]);
    }

    #[inline(always)]
    fn special(&self, block: &[u8; 18]) -> Option<f32> {
        special_of([half(block, 0)])
    }
}

pub(super) struct Iq4Xs;

impl Coding<136> for Iq4Xs {
    #[inline(always)]
    fn decode(&self, block: &[u8; 136], index: usize, values: &mut [f32; PART]) {
        let high = short(block, 2) >> (2 * index) & 3;
        let scale = nibble(block[4 + index / 2], index) as i16 + 16 * high as i16 - 32;
        let scale = half(block, 0) * f32::from(scale);
        halves(part(block, 8 + 16 * index), values, |code, _| scale * IQ4[usize::from(code & 15)]);
    }

    #[inline(always)]
    fn special(&self, block: &[u8; 136]) -> Option<f32> {
        special_of([half(block, 0)])
    }
}

pub(super) struct Tq1;

impl Tq1 {
    /// The digit of each byte that a power of three brings to the front, less one: bytes are fractions in base three.
    #[inline(always)]
    fn digits<const N: usize>(bytes: [u8; N], power: u8, scale: f32, values: &mut [f32]) {
        for (value, byte) in values.iter_mut().zip(bytes) {
            let digit = (u16::from(byte.wrapping_mul(power)) * 3) >> 8;
            *value = scale * f32::from(digit as i16 - 1);
        }
    }
}

impl Coding<54> for Tq1 {
    #[inline(always)]
    fn decode(&self, block: &[u8; 54], index: usize, values: &mut [f32; PART]) {
        const POWERS: [u8; 5] = [1, 3, 9, 27, 81];
        let d = half(block, 52);
        // 32 bytes have five digits each, and so have 16, and 4 have four.
        if let Some(&power) = POWERS.get(index) {
            return Tq1::digits(part::<32>(block, 0), power, d, values);
        }
        let middle = part::<16>(block, 32);
        for (which, values) in values.as_chunks_mut::<16>().0.iter_mut().enumerate() {
            match POWERS.get(2 * (index - 5) + which) {
                Some(&power) => Tq1::digits(middle, power, d, values),
                None => {
                    for (values, power) in values.as_chunks_mut::<4>().0.iter_mut().zip(POWERS) {
                        Tq1::digits(part::<4>(block, 48), power, d, values);
                    }
                }
            }
        }
    }

    #[inline(always)]
    fn special(&self, block: &[u8; 54]) -> Option<f32> {
        special_of([half(block, 52)])
    }
}

pub(super) struct Tq2;

impl Coding<66> for Tq2 {
    #[inline(always)]
    fn decode(&self, block: &[u8; 66], index: usize, values: &mut [f32; PART]) {
        let d = half(block, 64);
        let shift = index % 4 * 2;
        for (value, code) in values.iter_mut().zip(part::<32>(block, index / 4 * 32)) {
            *value = d * f32::from((code >> shift & 3) as i8 - 1);
        }
    }

    #[inline(always)]
    fn special(&self, block: &[u8; 66]) -> Option<f32> {
        special_of([half(block, 64)])
    }
}
