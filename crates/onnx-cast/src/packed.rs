//! Elements as bytes: little-endian words, and the packing of 2-, 4- and 6-bit types. The first element is in the low
//! bits; four 6-bit elements take three bytes.
//!
//! Packing belongs to load and store, never to rounding: everything here moves bit patterns.

use crate::element::{DataType, Element, Float6E2M3, Uint2, Uint4, Word, byte_len_of};
use std::ops::Range;

/// Width of an element in bits.
pub(crate) const fn bits<T: Element>() -> usize {
    T::DATA_TYPE.info().bits as usize
}

/// Bytes of `len` elements, for a length that is known to fit `usize`.
#[inline(always)]
pub(crate) const fn byte_len<T: Element>(len: usize) -> usize {
    byte_len_of(len, bits::<T>())
}

/// Element `index` of `bytes`.
#[inline(always)]
pub(crate) fn get<T: Element>(bytes: &[u8], index: usize) -> T {
    if bits::<T>() >= 8 {
        let size = bits::<T>() / 8;
        return T::from_bits(word(&bytes[index * size..(index + 1) * size]));
    }
    let bit = index * bits::<T>();
    let low = u16::from(bytes[bit / 8]);
    // A 6-bit element may span two bytes. The second byte exists only if it does.
    let high = if bit % 8 + bits::<T>() > 8 { u16::from(bytes[bit / 8 + 1]) } else { 0 };
    T::from_bits(T::Bits::from_u64(u64::from((low | high << 8) >> (bit % 8))))
}

/// Sets elements of a type to code 0.
pub(crate) fn clear(bytes: &mut [u8], range: Range<usize>, data_type: DataType) {
    let bits = data_type.info().bits as usize;
    for bit in range.start * bits..range.end * bits {
        bytes[bit / 8] &= !(1 << (bit % 8));
    }
}

/// The code of an element of a type of 8 bits or fewer.
#[inline(always)]
pub(crate) fn code(bytes: &[u8], index: usize, data_type: DataType) -> u8 {
    match data_type.info().bits {
        2 => get::<Uint2>(bytes, index).to_bits(),
        4 => get::<Uint4>(bytes, index).to_bits(),
        6 => get::<Float6E2M3>(bytes, index).to_bits(),
        _ => bytes[index],
    }
}

/// Writes element `index` of `bytes`. A packed element is combined by OR, so its bits must be zero before.
#[inline(always)]
pub(crate) fn set<T: Element>(bytes: &mut [u8], index: usize, value: T) {
    if bits::<T>() >= 8 {
        let size = bits::<T>() / 8;
        bytes[index * size..(index + 1) * size].copy_from_slice(value.to_bits().to_le().as_ref());
        return;
    }
    let bit = index * bits::<T>();
    let pattern = (value.to_bits().to_u64() as u16) << (bit % 8);
    bytes[bit / 8] |= pattern as u8;
    if bit % 8 + bits::<T>() > 8 {
        bytes[bit / 8 + 1] |= (pattern >> 8) as u8;
    }
}

/// The word stored in `bytes`, which has the word's size.
#[inline(always)]
pub(crate) fn word<W: Word>(bytes: &[u8]) -> W {
    match W::Bytes::try_from(bytes) {
        Ok(bytes) => W::from_le(bytes),
        // Callers pass slices of the word's size.
        Err(_) => unreachable!("a slice of another size than the word's"),
    }
}

/// The bits of the last byte that belong to elements, for `len` elements of the type; all bits where there is no
/// padding.
fn last_byte_mask(data_type: DataType, len: usize) -> u8 {
    let bits = data_type.bits().unwrap_or(8);
    match len % 8 * bits % 8 {
        0 => u8::MAX,
        used => (1 << used) - 1,
    }
}

/// Zeroes the padding after the last of `len` elements.
#[inline]
pub(crate) fn clear_padding(data_type: DataType, len: usize, bytes: &mut [u8]) {
    // Without padding there is nothing to do, and to read a byte that a vector store has just written takes long.
    if data_type.is_packed()
        && let Some(last) = bytes.last_mut()
    {
        *last &= last_byte_mask(data_type, len);
    }
}

/// Packs elements of `bits` bits. The lengths must match.
#[inline(always)]
pub(crate) fn pack_elements(bits: usize, elements: &[u8], bytes: &mut [u8]) {
    match bits {
        2 => in_groups(elements, bytes, |four: [u8; 4]| {
            let pairs = gather(u32::from_le_bytes(four) & 0x0303_0303, 6, 0x0003_0003);
            [gather(pairs, 12, 0x0000_000f) as u8]
        }),
        4 => in_groups(elements, bytes, |two: [u8; 2]| {
            let two = u16::from_le_bytes(two) & 0x0f0f;
            [(two | two >> 4) as u8]
        }),
        _ => in_groups(elements, bytes, |four: [u8; 4]| {
            let pairs = gather(u32::from_le_bytes(four) & 0x3f3f_3f3f, 2, 0x003f_003f);
            let [low, middle, high, _] = gather(pairs, 4, 0x0000_0fff).to_le_bytes();
            [low, middle, high]
        }),
    }
}

/// Unpacks elements of `bits` bits. The lengths must match.
#[inline(always)]
pub(crate) fn unpack_elements(bits: usize, bytes: &[u8], elements: &mut [u8]) {
    match bits {
        2 => in_groups(bytes, elements, |[byte]: [u8; 1]| {
            let pairs = spread(u32::from(byte), 12, 0x0000_000f);
            spread(pairs, 6, 0x0003_0003).to_le_bytes()
        }),
        4 => in_groups(bytes, elements, |[byte]: [u8; 1]| {
            let byte = u16::from(byte);
            ((byte | byte << 4) & 0x0f0f).to_le_bytes()
        }),
        _ => in_groups(bytes, elements, |[low, middle, high]: [u8; 3]| {
            let pairs = spread(u32::from_le_bytes([low, middle, high, 0]), 4, 0x0000_0fff);
            spread(pairs, 2, 0x003f_003f).to_le_bytes()
        }),
    }
}

/// Maps groups of bytes to groups of bytes. An incomplete last group is padded with zeros, and its result is truncated.
#[inline(always)]
fn in_groups<const FROM: usize, const TO: usize>(from: &[u8], to: &mut [u8], map: impl Fn([u8; FROM]) -> [u8; TO]) {
    let whole = (from.len() / FROM).min(to.len() / TO);
    let (from, from_rest) = from.split_at(whole * FROM);
    let (to, to_rest) = to.split_at_mut(whole * TO);
    for (from, to) in from.as_chunks().0.iter().zip(to.as_chunks_mut().0) {
        *to = map(*from);
    }
    if !from_rest.is_empty() {
        let mut last = [0; FROM];
        last[..from_rest.len()].copy_from_slice(from_rest);
        to_rest.copy_from_slice(&map(last)[..to_rest.len()]);
    }
}

/// Moves the bits outside `low` up by `gap` bits: one step from adjacent elements to one element per byte, for all
/// elements of a word at once.
#[inline(always)]
fn spread(word: u32, gap: u32, low: u32) -> u32 {
    word & low | (word & !low) << gap
}

/// The inverse of [`spread`].
#[inline(always)]
fn gather(word: u32, gap: u32, low: u32) -> u32 {
    word & low | (word & !low) >> gap
}
