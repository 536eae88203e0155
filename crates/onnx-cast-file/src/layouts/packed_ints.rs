//! Integers of 1 to 8 bits in words of 32, as compressed-tensors stores them: low bits first, half the range added.
//!
//! Where 32 is not a multiple of the bits, older files leave the upper bits of each word empty, and newer ones let an
//! integer straddle two words.

use super::encoding::Encoding;
use crate::formats::error::Invalid;
use crate::formats::input::StoredTensor;
use crate::level::level;
use fearless_simd::{Bytes, Simd, SimdBase, dispatch, u8x16, u8x32, u16x8, u16x16};
use onnx_cast::DataType;
use onnx_cast::packing::unpack;

/// Words that `len` integers take.
pub(super) fn words(len: usize, bits: u32, straddle: bool) -> usize {
    if straddle { (len as u128 * u128::from(bits)).div_ceil(32) as usize } else { len.div_ceil(32 / bits as usize) }
}

/// How a tensor of words holds a matrix: by the matrix's shape, if it is stored, and by the widths that are claimed.
pub(super) fn describe(
    stored: &StoredTensor,
    shape: Option<[usize; 2]>,
    claimed: &[u32],
) -> Result<(Encoding, Vec<usize>), Invalid> {
    let [rows, width] = stored.shape[..] else { return Err(stored.unfit("rows of words")) };
    let all: Vec<u32> = if claimed.is_empty() { vec![4, 8] } else { claimed.to_vec() };
    let mut widths = all.into_iter().filter(|bits| (1..=8).contains(bits));
    let Some([want_rows, columns]) = shape else {
        // Without a shape only a width by which words are full gives the number of columns.
        let bits = widths.find(|bits| 32 % bits == 0);
        let bits = bits.ok_or_else(|| stored.unfit("`weight_shape` beside it"))?;
        let columns = width.checked_mul(32 / bits as usize).ok_or_else(|| stored.unfit("fewer columns"))?;
        return Ok((Encoding::Words { bits, straddle: false }, vec![rows, columns]));
    };
    let fits = |bits: u32| {
        let straddles = [32 % bits != 0, false].into_iter().find(|&straddle| words(columns, bits, straddle) == width);
        straddles.filter(|_| want_rows == rows).map(|straddle| Encoding::Words { bits, straddle })
    };
    match widths.find_map(fits) {
        Some(elements) => Ok((elements, vec![rows, columns])),
        None => {
            let want = format!("words of integers of the configuration's width for {want_rows}x{columns}");
            Err(stored.unfit(want))
        }
    }
}

/// The integer at an index of a run of words, plus half its range.
fn code(words: &[u8], index: usize, bits: u32, straddle: bool) -> u8 {
    let (word, shift) = if straddle {
        (index * bits as usize / 32, (index * bits as usize % 32) as u32)
    } else {
        let each = 32 / bits as usize;
        (index / each, (index % each) as u32 * bits)
    };
    let word_at = |at: usize| words[at * 4..].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
    let next = if shift + bits > 32 { word_at(word + 1) } else { 0 };
    let both = u64::from(word_at(word)) | u64::from(next) << 32;
    (both >> shift) as u8 & (0xffu32 >> (8 - bits)) as u8
}

/// Unpacks integers of a row, the first of which has this index, each plus half its range.
pub(super) fn unpack_row(row: &[u8], first: usize, bits: u32, straddle: bool, codes: &mut [u8]) {
    let packed = match bits {
        8 => Some(DataType::Uint8),
        4 => Some(DataType::Uint4),
        2 => Some(DataType::Uint2),
        _ => None,
    };
    let start = first * bits as usize / 8;
    // Words without empty bits are packed as this library packs integers.
    if let Some(data_type) = packed.filter(|_| (first * bits as usize).is_multiple_of(8))
        && let Some(bytes) = data_type.byte_len(codes.len()).and_then(|len| row.get(start..start + len))
        && unpack(data_type, bytes, codes).is_ok()
    {
        return;
    }
    // Eight integers of a stream of bits begin a byte wherever their number in the row is a multiple of eight.
    let ahead = if straddle { first.wrapping_neg() % 8 } else { codes.len() }.min(codes.len());
    let (head, rest) = codes.split_at_mut(ahead);
    let mut at = (first + ahead) * bits as usize / 8;
    let from = row.get(at..).unwrap_or_default();
    let vectors = dispatch!(level(), simd => Stream::new(bits).unpack_all(simd, from, rest));
    at += vectors * bits as usize / 8;
    let (eights, tail) = rest[vectors..].as_chunks_mut::<8>();
    for codes in eights.iter_mut() {
        let packed = match row.get(at..).and_then(|row| row.first_chunk()) {
            Some(bytes) => u64::from_le_bytes(*bytes),
            None => {
                let mut bytes = [0; 8];
                bytes.iter_mut().zip(row.get(at..).unwrap_or_default()).for_each(|(byte, packed)| *byte = *packed);
                u64::from_le_bytes(bytes)
            }
        };
        *codes = spread(packed, bits).to_le_bytes();
        at += bits as usize;
    }
    let done = first + ahead + vectors + eights.len() * 8;
    let others = (first..).zip(head).chain((done..).zip(tail));
    others.for_each(|(index, unpacked)| *unpacked = code(row, index, bits, straddle));
}

/// Eight integers that follow each other in the low bits, each in a byte of its own: halves go apart, then their
/// halves.
#[inline(always)]
fn spread(packed: u64, bits: u32) -> u64 {
    // Each step moves the upper half of every field to the next field of so many bits.
    [(32, 1), (16, 1 << 32 | 1), (8, 1 << 48 | 1 << 32 | 1 << 16 | 1)].into_iter().fold(
        packed,
        |packed, (width, every)| {
            let full = bits * width / 8;
            let lower = every * ((1 << full) - 1);
            packed & lower | packed << (width - full) & lower << width
        },
    )
}

/// How vectors unpack integers of fewer than 8 bits from a stream of bits: eight begin a byte, and each is in two bytes
/// that follow each other. A product moves it to the upper of the two.
#[derive(Debug)]
pub(super) struct Stream {
    bits: u32,
    pairs: [u8; 16],
    factors: [u16; 8],
}

impl Stream {
    /// Bytes that are read for 32 integers, whatever their width.
    pub(super) const WINDOW: usize = 40;

    // Inlined into a loop, this would be computed in each of its rounds.
    #[inline(never)]
    pub(super) fn new(bits: u32) -> Stream {
        let bit = |index: usize| index * bits as usize;
        let mut pairs = [0; 16];
        for (index, pair) in pairs.as_chunks_mut().0.iter_mut().enumerate() {
            let byte = (bit(index) / 8) as u8;
            *pair = u16::from_le_bytes([byte, byte + 1]).to_ne_bytes();
        }
        Stream { bits, pairs, factors: std::array::from_fn(|index| 1 << (8 - bit(index) % 8)) }
    }

    /// Bits of an integer.
    pub(super) fn bits(&self) -> usize {
        self.bits as usize
    }

    /// Unpacks integers as far as whole windows go; returns how many.
    #[inline(always)]
    fn unpack_all<S: Simd>(&self, simd: S, packed: &[u8], codes: &mut [u8]) -> usize {
        let (mut packed, mut done) = (packed, 0);
        for codes in codes.as_chunks_mut::<32>().0 {
            let Some(window) = packed.first_chunk() else { break };
            *codes = self.unpack(simd, window).into();
            packed = &packed[4 * self.bits as usize..];
            done += 32;
        }
        done
    }

    /// Unpacks 32 integers, one to a byte.
    #[inline(always)]
    pub(super) fn unpack<S: Simd>(&self, simd: S, packed: &[u8; Stream::WINDOW]) -> u8x32<S> {
        let pairs = u8x32::block_splat(u8x16::from_slice(simd, &self.pairs));
        let factors = u16x16::block_splat(u16x8::from_slice(simd, &self.factors));
        let mask = (1 << self.bits) - 1;
        let mut sixteens = [factors; 2];
        for (index, sixteen) in sixteens.iter_mut().enumerate() {
            let first = 2 * index * self.bits as usize;
            let second = first + self.bits as usize;
            let first = u8x16::from_slice(simd, &packed[first..first + 16]);
            let second = u8x16::from_slice(simd, &packed[second..second + 16]);
            let bytes = simd.swizzle_dyn_within_blocks_u8x32(simd.combine_u8x16(first, second), pairs);
            *sixteen = ((bytes.bitcast::<u16x16<S>>() * factors) >> 8) & mask;
        }
        simd.narrow_u16x16(sixteens[0], sixteens[1])
    }
}

/// The integers at one place of several rows of words, of which `lines` has those of the words that hold the place, and
/// of the next.
pub(super) fn codes_across(lines: [&[u8]; 2], place: usize, bits: u32, codes: &mut [u8]) {
    let (shift, mask) = ((place * bits as usize % 32) as u32, (0xffu32 >> (8 - bits)) as u8);
    let [words, next] = lines.map(|line| line.as_chunks().0);
    dispatch!(level(), _simd => if shift + bits <= 32 {
        let words = words.iter().map(|word| u32::from_le_bytes(*word));
        codes.iter_mut().zip(words).for_each(|(code, word)| *code = (word >> shift) as u8 & mask);
    } else {
        let both = words.iter().zip(next).map(|(word, next)| [*word, *next].map(u32::from_le_bytes));
        codes.iter_mut().zip(both).for_each(|(code, [word, next])| {
            *code = (word >> shift | next << (32 - shift)) as u8 & mask;
        });
    });
}

/// Unpacks a column of words that runs down `columns` others: the integer of a row.
pub(super) fn code_down(words: &[u8], columns: usize, column: usize, row: usize, bits: u32, straddle: bool) -> u8 {
    let at = |word: usize| {
        let bytes = words.get((word * columns + column) * 4..).and_then(|bytes| bytes.first_chunk::<4>());
        bytes.copied().unwrap_or_default()
    };
    let word = if straddle { row * bits as usize / 32 } else { row / (32 / bits as usize) };
    let both = [at(word), at(word + 1)].concat();
    let inside = if straddle { row * bits as usize % 32 } else { row % (32 / bits as usize) * bits as usize };
    let both = both.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
    (both >> inside) as u8 & (0xffu32 >> (8 - bits)) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packs as the text of the format says, bit by bit.
    fn pack(values: &[u8], bits: u32, straddle: bool) -> Vec<u8> {
        let mut bytes = vec![0; 4 * words(values.len(), bits, straddle)];
        for (index, value) in values.iter().enumerate() {
            for bit in 0..bits as usize {
                let at = if straddle {
                    index * bits as usize + bit
                } else {
                    index / (32 / bits as usize) * 32 + index % (32 / bits as usize) * bits as usize + bit
                };
                bytes[at / 8] |= (value >> bit & 1) << (at % 8);
            }
        }
        bytes
    }

    #[test]
    fn every_width_reads_what_was_packed() {
        for bits in 1..=8 {
            for straddle in [false, true] {
                let values: Vec<u8> = (0..77u32).map(|i| (i * 37 % (1 << bits)) as u8).collect();
                let packed = pack(&values, bits, straddle);
                for first in [0, 3, 8, 40] {
                    let mut codes = vec![0; values.len() - first];
                    unpack_row(&packed, first, bits, straddle, &mut codes);
                    assert_eq!(codes, values[first..], "{bits} bits, straddling {straddle}, from {first}");
                }
                let down: Vec<u8> = (0..77).map(|row| code_down(&packed, 1, 0, row, bits, straddle)).collect();
                assert_eq!(down, values, "{bits} bits down, straddling {straddle}");
            }
        }
    }
}
