//! Elements in bytes: little-endian words, and the packing of 2-, 4- and 6-bit types (the first element in the low
//! bits, 6-bit types four to three bytes).
//!
//! Packing belongs to load and store, never to rounding: everything here moves bit patterns.

use crate::element::{DataType, Element, Word};

/// Width of an element in bits.
pub(crate) const fn bits<T: Element>() -> usize {
    T::DATA_TYPE.info().bits as usize
}

/// Bytes of `len` elements; for lengths that are known to fit.
#[inline(always)]
pub(crate) const fn byte_len<T: Element>(len: usize) -> usize {
    if bits::<T>() >= 8 { len * (bits::<T>() / 8) } else { len / 8 * bits::<T>() + (len % 8 * bits::<T>()).div_ceil(8) }
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
    // A 6-bit element may lie across two bytes; the second one is only there if it does.
    let high = if bit % 8 + bits::<T>() > 8 { u16::from(bytes[bit / 8 + 1]) } else { 0 };
    T::from_bits(T::Bits::from_u64(u64::from((low | high << 8) >> (bit % 8))))
}

/// Writes element `index` of `bytes`. A packed element is added to bits that must be zero.
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

#[inline(always)]
fn word<W: Word>(bytes: &[u8]) -> W {
    match W::Bytes::try_from(bytes) {
        Ok(bytes) => W::from_le(bytes),
        // The slices above are cut to the word's size.
        Err(_) => unreachable!("a slice of another size than the word's"),
    }
}

/// Reads `N` elements, a multiple of 8, from exactly the bytes they take.
#[inline(always)]
pub(crate) fn load<T: Element, const N: usize>(bytes: &[u8]) -> [T; N] {
    let mut out = [T::default(); N];
    match bits::<T>() {
        2 => {
            for (byte, four) in bytes.iter().zip(out.chunks_exact_mut(4)) {
                for (i, element) in four.iter_mut().enumerate() {
                    *element = from_byte(byte >> (2 * i));
                }
            }
        }
        4 => {
            for (byte, two) in bytes.iter().zip(out.chunks_exact_mut(2)) {
                two[0] = from_byte(*byte);
                two[1] = from_byte(byte >> 4);
            }
        }
        6 => {
            for (three, four) in bytes.chunks_exact(3).zip(out.chunks_exact_mut(4)) {
                four[0] = from_byte(three[0]);
                four[1] = from_byte(three[0] >> 6 | three[1] << 2);
                four[2] = from_byte(three[1] >> 4 | three[2] << 4);
                four[3] = from_byte(three[2] >> 2);
            }
        }
        _ => {
            for (bytes, element) in bytes.chunks_exact(bits::<T>() / 8).zip(&mut out) {
                *element = T::from_bits(word(bytes));
            }
        }
    }
    out
}

/// Writes `N` elements, a multiple of 8, to exactly the bytes they take.
#[inline(always)]
pub(crate) fn store<T: Element, const N: usize>(elements: &[T; N], bytes: &mut [u8]) {
    match bits::<T>() {
        2 => {
            for (byte, four) in bytes.iter_mut().zip(elements.chunks_exact(4)) {
                *byte = to_byte(four[0]) | to_byte(four[1]) << 2 | to_byte(four[2]) << 4 | to_byte(four[3]) << 6;
            }
        }
        4 => {
            for (byte, two) in bytes.iter_mut().zip(elements.chunks_exact(2)) {
                *byte = to_byte(two[0]) | to_byte(two[1]) << 4;
            }
        }
        6 => {
            for (three, four) in bytes.chunks_exact_mut(3).zip(elements.chunks_exact(4)) {
                three[0] = to_byte(four[0]) | to_byte(four[1]) << 6;
                three[1] = to_byte(four[1]) >> 2 | to_byte(four[2]) << 4;
                three[2] = to_byte(four[2]) >> 4 | to_byte(four[3]) << 2;
            }
        }
        _ => {
            for (bytes, element) in bytes.chunks_exact_mut(bits::<T>() / 8).zip(elements) {
                bytes.copy_from_slice(element.to_bits().to_le().as_ref());
            }
        }
    }
}

#[inline(always)]
fn from_byte<T: Element>(byte: u8) -> T {
    T::from_bits(T::Bits::from_u64(u64::from(byte)))
}

#[inline(always)]
fn to_byte<T: Element>(element: T) -> u8 {
    element.to_bits().to_u64() as u8
}

/// The bits of the last byte that belong to elements, for `len` elements of the type; all of them where nothing is
/// padded.
fn last_byte_mask(data_type: DataType, len: usize) -> u8 {
    let bits = data_type.bits().unwrap_or(8);
    match len % 8 * bits % 8 {
        0 => u8::MAX,
        used => (1 << used) - 1,
    }
}

/// Zeroes the padding behind the last of `len` elements.
pub fn clear_padding(data_type: DataType, len: usize, bytes: &mut [u8]) {
    if let Some(last) = bytes.last_mut() {
        *last &= last_byte_mask(data_type, len);
    }
}

/// Packs elements that stand one in a byte, in its low bits, as Python's array libraries hold 2-, 4- and 6-bit types.
/// The upper bits of each byte are ignored. Returns `None` where the type is not packed or the lengths do not fit.
pub fn pack(data_type: DataType, elements: &[u8], bytes: &mut [u8]) -> Option<()> {
    if !data_type.is_packed() || data_type.byte_len(elements.len())? != bytes.len() {
        return None;
    }
    use crate::element::{Float6E2M3, Uint2, Uint4};
    bytes.fill(0);
    match data_type.bits()? {
        2 => elements.iter().enumerate().for_each(|(i, &e)| set(bytes, i, Uint2::from_bits(e))),
        4 => elements.iter().enumerate().for_each(|(i, &e)| set(bytes, i, Uint4::from_bits(e))),
        _ => elements.iter().enumerate().for_each(|(i, &e)| set(bytes, i, Float6E2M3::from_bits(e))),
    }
    Some(())
}

/// Unpacks elements to one in a byte, the upper bits zero. Returns `None` where the type is not packed or the lengths
/// do not fit.
pub fn unpack(data_type: DataType, bytes: &[u8], elements: &mut [u8]) -> Option<()> {
    if !data_type.is_packed() || data_type.byte_len(elements.len())? != bytes.len() {
        return None;
    }
    use crate::element::{Float6E2M3, Uint2, Uint4};
    match data_type.bits()? {
        2 => elements.iter_mut().enumerate().for_each(|(i, e)| *e = get::<Uint2>(bytes, i).to_bits()),
        4 => elements.iter_mut().enumerate().for_each(|(i, e)| *e = get::<Uint4>(bytes, i).to_bits()),
        _ => elements.iter_mut().enumerate().for_each(|(i, e)| *e = get::<Float6E2M3>(bytes, i).to_bits()),
    }
    Some(())
}
