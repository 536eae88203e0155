//! Elements as bytes: little-endian words, and the packing of 2-, 4- and 6-bit types. The first element is in the low
//! bits; four 6-bit elements take three bytes.
//!
//! Packing belongs to load and store, never to rounding: everything here moves bit patterns.

use crate::element::{DataType, Element, Float6E2M3, Uint2, Uint4, Word, byte_len_of};
use core::mem::MaybeUninit;
use core::ops::Range;

/// Memory for results: writable, and perhaps never written before.
pub(crate) type Out = [MaybeUninit<u8>];

/// Initialised memory that results overwrite.
///
/// # Safety
/// Only initialised bytes are written through the result.
#[inline(always)]
pub(crate) unsafe fn as_uninit(bytes: &mut [u8]) -> &mut Out {
    // SAFETY: `MaybeUninit<u8>` has the layout of `u8`, and the caller writes only initialised bytes.
    unsafe { &mut *(core::ptr::from_mut(bytes) as *mut Out) }
}

/// Memory after it was written.
///
/// # Safety
/// Every element of `memory` is initialised.
#[inline(always)]
pub(crate) unsafe fn written<T>(memory: &mut [MaybeUninit<T>]) -> &mut [T] {
    // SAFETY: the caller guarantees initialised elements, and `MaybeUninit<T>` has the layout of `T`.
    unsafe { &mut *(core::ptr::from_mut(memory) as *mut [T]) }
}

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
    let (byte, bit) = position(index, bits::<T>());
    let low = u16::from(bytes[byte]);
    // A 6-bit element may span two bytes. The second byte exists only if it does.
    let high = if bit + bits::<T>() > 8 { u16::from(bytes[byte + 1]) } else { 0 };
    T::from_bits(T::Bits::from_u64(u64::from((low | high << 8) >> bit)))
}

/// The byte in which an element of `bits` bits, 8 or fewer, begins, and at which of its bits. 8 elements are `bits`
/// bytes: where `usize` has 32 bits, the bits of all elements before it need not fit.
#[inline(always)]
const fn position(index: usize, bits: usize) -> (usize, usize) {
    let bit = index % 8 * bits;
    (index / 8 * bits + bit / 8, bit % 8)
}

/// Sets elements of a type of 8 bits or fewer to code 0.
pub(crate) fn clear(bytes: &mut [u8], range: Range<usize>, data_type: DataType) {
    let bits = data_type.info().bits as usize;
    for index in range {
        let (byte, bit) = position(index, bits);
        let mask = (0xffu16 >> (8 - bits)) << bit;
        bytes[byte] &= !(mask as u8);
        if bit + bits > 8 {
            bytes[byte + 1] &= !((mask >> 8) as u8);
        }
    }
}

/// The code of an element of a type of 8 bits or fewer.
#[inline(always)]
pub(crate) fn code(bytes: &[u8], index: usize, data_type: DataType) -> u8 {
    match data_type.info().bits {
        2 => get::<Uint2>(bytes, index).to_bits(),
        4 => get::<Uint4>(bytes, index).to_bits(),
        6 => get::<Float6E2M3>(bytes, index).to_bits(),
        8 => bytes[index],
        bits => unreachable!("codes have 8 bits or fewer, and not {bits}"),
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
    let (byte, bit) = position(index, bits::<T>());
    let pattern = (value.to_bits().to_u64() as u16) << bit;
    bytes[byte] |= pattern as u8;
    if bit + bits::<T>() > 8 {
        bytes[byte + 1] |= (pattern >> 8) as u8;
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
    if !data_type.is_packed() {
        return;
    }
    // Without padding there is nothing to do, and to read a byte that a vector store has just written takes long.
    let mask = last_byte_mask(data_type, len);
    if mask != u8::MAX
        && let Some(last) = bytes.last_mut()
    {
        *last &= mask;
    }
}

/// Packs elements of `bits` bits. The lengths must match. Every byte of `bytes` is written.
#[inline(always)]
pub(crate) fn pack_elements(bits: usize, elements: &[u8], bytes: &mut Out) {
    match bits {
        2 => in_groups(elements, bytes, |four: [u8; 4]| {
            let pairs = gather(u32::from_le_bytes(four) & 0x0303_0303, 6, 0x0003_0003);
            [gather(pairs, 12, 0x0000_000f) as u8]
        }),
        4 => in_groups(elements, bytes, |two: [u8; 2]| {
            let two = u16::from_le_bytes(two) & 0x0f0f;
            [(two | two >> 4) as u8]
        }),
        6 => in_groups(elements, bytes, |four: [u8; 4]| {
            let pairs = gather(u32::from_le_bytes(four) & 0x3f3f_3f3f, 2, 0x003f_003f);
            let [low, middle, high, _] = gather(pairs, 4, 0x0000_0fff).to_le_bytes();
            [low, middle, high]
        }),
        _ => unreachable!("no element of {bits} bits is packed"),
    }
}

/// Unpacks elements of `bits` bits. The lengths must match. Every byte of `elements` is written.
#[inline(always)]
pub(crate) fn unpack_elements(bits: usize, bytes: &[u8], elements: &mut Out) {
    match bits {
        2 => in_groups(bytes, elements, |[byte]: [u8; 1]| {
            let pairs = spread(u32::from(byte), 12, 0x0000_000f);
            spread(pairs, 6, 0x0003_0003).to_le_bytes()
        }),
        4 => in_groups(bytes, elements, |[byte]: [u8; 1]| {
            let byte = u16::from(byte);
            ((byte | byte << 4) & 0x0f0f).to_le_bytes()
        }),
        6 => in_groups(bytes, elements, |[low, middle, high]: [u8; 3]| {
            let pairs = spread(u32::from_le_bytes([low, middle, high, 0]), 4, 0x0000_0fff);
            spread(pairs, 2, 0x003f_003f).to_le_bytes()
        }),
        _ => unreachable!("no element of {bits} bits is packed"),
    }
}

/// Maps groups of bytes to groups of bytes. An incomplete last group is padded with zeros, and its result is truncated.
#[inline(always)]
fn in_groups<const FROM: usize, const TO: usize>(from: &[u8], to: &mut Out, map: impl Fn([u8; FROM]) -> [u8; TO]) {
    let whole = (from.len() / FROM).min(to.len() / TO);
    let (from, from_rest) = from.split_at(whole * FROM);
    let (to, to_rest) = to.split_at_mut(whole * TO);
    for (from, to) in from.as_chunks().0.iter().zip(to.as_chunks_mut().0) {
        *to = map(*from).map(MaybeUninit::new);
    }
    if !from_rest.is_empty() {
        let mut last = [0; FROM];
        last[..from_rest.len()].copy_from_slice(from_rest);
        to_rest.iter_mut().zip(map(last)).for_each(|(to, byte)| *to = MaybeUninit::new(byte));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_those_of_all_bits_before() {
        for bits in [2, 4, 6, 8] {
            for index in 0..100 {
                assert_eq!(
                    position(index, bits),
                    (index * bits / 8, index * bits % 8),
                    "element {index} of {bits} bits"
                );
            }
            // Where `usize` has 32 bits, so do these elements.
            let (byte, bit) = position(usize::MAX, bits);
            assert_eq!((byte as u128 * 8 + bit as u128) / bits as u128, usize::MAX as u128);
        }
    }

    #[test]
    fn cleared_elements_are_zero_and_others_stay() {
        for data_type in [DataType::Int2, DataType::Uint4, DataType::Float6E3M2, DataType::Int8] {
            let len = 21;
            let bytes: Vec<u8> = (0..data_type.byte_len(len).expect("few elements")).map(|i| i as u8 ^ 0xe5).collect();
            for (start, end) in [(0, 21), (3, 4), (5, 14), (20, 21), (7, 7)] {
                let mut cleared = bytes.clone();
                clear(&mut cleared, start..end, data_type);
                for index in 0..len {
                    let was = if (start..end).contains(&index) { 0 } else { code(&bytes, index, data_type) };
                    assert_eq!(code(&cleared, index, data_type), was, "{data_type}, {start}..{end}, element {index}");
                }
            }
        }
    }
}
