//! Element bit patterns to tensor bytes and back: little endian, and the 2-, 4- and 6-bit types packed low bits first.

use crate::types::Ty;

/// Bytes of `count` elements: `ceil(count * bits / 8)`.
pub const fn packed_len(ty: Ty, count: usize) -> usize {
    (count * ty.bits() as usize).div_ceil(8)
}

/// The tensor bytes of elements given by their bit patterns; padding bits are zero. Complex types are not meant.
pub fn pack(ty: Ty, elements: &[u64]) -> Vec<u8> {
    let mut out = Vec::with_capacity(packed_len(ty, elements.len()));
    pack_into(ty, elements, &mut out);
    out
}

/// [`pack`], appended to what `out` holds. A sub-byte type begins a new byte.
pub fn pack_into(ty: Ty, elements: &[u64], out: &mut Vec<u8>) {
    let begin = out.len();
    out.resize(begin + packed_len(ty, elements.len()), 0);
    let bytes = &mut out[begin..];
    match ty.bits() {
        8 => bytes.iter_mut().zip(elements).for_each(|(byte, &bits)| *byte = bits as u8),
        16 => words(bytes, elements, |bits| (bits as u16).to_le_bytes()),
        32 => words(bytes, elements, |bits| (bits as u32).to_le_bytes()),
        64 => words(bytes, elements, u64::to_le_bytes),
        2 => groups::<2>(bytes, elements),
        4 => groups::<4>(bytes, elements),
        width => {
            assert_eq!(width, 6, "{} has elements of a width of their own", ty.name());
            groups::<6>(bytes, elements);
        }
    }
}

fn words<const N: usize>(bytes: &mut [u8], elements: &[u64], word: impl Fn(u64) -> [u8; N]) {
    bytes.chunks_exact_mut(N).zip(elements).for_each(|(bytes, &bits)| bytes.copy_from_slice(&word(bits)));
}

/// Four elements of `WIDTH` bits always end on a byte; fewer are at the end and are followed by zeros.
fn groups<const WIDTH: usize>(bytes: &mut [u8], elements: &[u64]) {
    for (group, bytes) in elements.chunks(4).zip(bytes.chunks_mut(WIDTH / 2)) {
        let mask = (1u64 << WIDTH) - 1;
        let joined = group.iter().rev().fold(0, |joined, &bits| joined << WIDTH | bits & mask);
        for (i, byte) in bytes.iter_mut().enumerate() {
            *byte = (joined >> (8 * i)) as u8;
        }
    }
}

/// The bit patterns of the first `count` elements. None if the bytes are not as many as they need.
pub fn unpack(ty: Ty, bytes: &[u8], count: usize) -> Option<Vec<u64>> {
    if bytes.len() != packed_len(ty, count) || !ty.is_numeric() {
        return None;
    }
    let width = ty.bits() as usize;
    if width >= 8 {
        let element = |le: &[u8]| le.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte));
        return Some(bytes.chunks_exact(width / 8).map(element).collect());
    }
    let bit = |at: usize| u64::from(bytes[at / 8] >> (at % 8) & 1);
    Some((0..count).map(|i| (0..width).rev().fold(0, |value, b| (value << 1) | bit(i * width + b))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generators::Rng;

    #[test]
    fn first_element_in_the_low_bits() {
        assert_eq!(pack(Ty::Int4, &[1, 2, 0xf]), [0x21, 0x0f]);
        assert_eq!(pack(Ty::Uint2, &[1, 2, 3, 0, 2]), [0b00_11_10_01, 0b10]);
        assert_eq!(pack(Ty::Float6E2M3, &[0b000001, 0b100010, 0b111111, 0b010101]), [0x81, 0xf8, 0x57]);
        assert_eq!(pack(Ty::Float6E3M2, &[0x3f]), [0x3f]);
        assert_eq!(pack(Ty::Float, &[0x3f80_0000]), [0, 0, 0x80, 0x3f]);
        assert_eq!(pack(Ty::Uint16, &[0x1234, 0x5678]), [0x34, 0x12, 0x78, 0x56]);
    }

    #[test]
    fn unpacks_what_it_packs() {
        let mut rng = Rng::new(2);
        for ty in Ty::NUMERIC {
            for count in 0..40 {
                let elements: Vec<u64> = (0..count).map(|_| rng.next_u64() & ty.mask()).collect();
                let bytes = pack(ty, &elements);
                assert_eq!(bytes.len(), packed_len(ty, count));
                assert_eq!(unpack(ty, &bytes, count), Some(elements), "{} x {count}", ty.name());
            }
        }
        assert_eq!(unpack(Ty::Int4, &[0, 0], 1), None);
    }
}
