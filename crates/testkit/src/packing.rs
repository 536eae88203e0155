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
    match ty.bits() {
        8 => out.extend(elements.iter().map(|&bits| bits as u8)),
        16 => out.extend(elements.iter().flat_map(|&bits| (bits as u16).to_le_bytes())),
        32 => out.extend(elements.iter().flat_map(|&bits| (bits as u32).to_le_bytes())),
        64 => out.extend(elements.iter().flat_map(|&bits| bits.to_le_bytes())),
        width => {
            // Four elements of 2, 4 or 6 bits always end on a byte.
            for group in elements.chunks(4) {
                let joined = group.iter().rev().fold(0u64, |joined, &bits| (joined << width) | (bits & ty.mask()));
                out.extend(&joined.to_le_bytes()[..packed_len(ty, group.len())]);
            }
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
