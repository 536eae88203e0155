//! Elements that stand one in a byte, in its low bits, as Python's array libraries hold 2-, 4- and 6-bit types: packed as
//! ONNX packs them, and unpacked, at the speed of casts. Of 2 and 4 bits both are casts, from and to uint8, which keep the
//! low bits. To 6 bits every cast from a type of 8 rounds; there eight elements move at once in a word.

use crate::arch::Backend;
use crate::element::DataType;
use crate::kernel::Job;
use crate::packed;
use crate::scalar::{RoundMode, Rules};

/// Packs elements that stand one in a byte. The upper bits of each byte are ignored. Returns `None` where the type is not
/// packed or the lengths do not fit.
pub fn pack(data_type: DataType, elements: &[u8], bytes: &mut [u8]) -> Option<()> {
    let Some(code) = code(data_type) else {
        return pack_sixes(data_type, elements, bytes);
    };
    if data_type.byte_len(elements.len())? != bytes.len() {
        return None;
    }
    cast(DataType::Uint8, code).run(elements, bytes, elements.len());
    Some(())
}

/// Unpacks elements to one in a byte, the upper bits zero. Returns `None` where the type is not packed or the lengths
/// do not fit.
pub fn unpack(data_type: DataType, bytes: &[u8], elements: &mut [u8]) -> Option<()> {
    let Some(code) = code(data_type) else {
        return unpack_sixes(data_type, bytes, elements);
    };
    if data_type.byte_len(elements.len())? != bytes.len() {
        return None;
    }
    let len = elements.len();
    cast(code, DataType::Uint8).run(bytes, elements, len);
    Some(())
}

/// The unsigned integer whose bits an element of 2 or 4 bits has.
fn code(data_type: DataType) -> Option<DataType> {
    match data_type.bits() {
        Some(2) => Some(DataType::Uint2),
        Some(4) => Some(DataType::Uint4),
        _ => None,
    }
}

/// By the caller's thread: who packs large tensors does it in parts.
fn cast(from: DataType, to: DataType) -> Job {
    // Integers to integers know no rules.
    let rules = Rules::new(to, 1, true, RoundMode::Up);
    Job::cast(from, to, rules, Backend::best(), Some(1))
}

/// Elements of 6 bits in a word, one in a byte; packed they are six bytes.
const WORD: usize = 8;
const PACKED: usize = 6;

fn pack_sixes(data_type: DataType, elements: &[u8], bytes: &mut [u8]) -> Option<()> {
    let (words, rest) = elements.as_chunks::<WORD>();
    let (to_words, to_rest) = bytes.split_at_mut_checked(words.len() * PACKED)?;
    packed::pack(data_type, rest, to_rest)?;
    for (word, six) in words.iter().zip(to_words.as_chunks_mut::<PACKED>().0) {
        // Neighbours are pushed together: pairs of 12 bits, fours of 24, all 48.
        let word = u64::from_le_bytes(*word);
        let pairs = word & 0x003f_003f_003f_003f | (word & 0x3f00_3f00_3f00_3f00) >> 2;
        let fours = pairs & 0x0000_0fff_0000_0fff | (pairs & 0x0fff_0000_0fff_0000) >> 4;
        let all = fours & 0x00ff_ffff | fours >> 32 << 24;
        six.copy_from_slice(&all.to_le_bytes()[..PACKED]);
    }
    Some(())
}

fn unpack_sixes(data_type: DataType, bytes: &[u8], elements: &mut [u8]) -> Option<()> {
    let (to_words, to_rest) = elements.as_chunks_mut::<WORD>();
    let (words, rest) = bytes.split_at_checked(to_words.len() * PACKED)?;
    packed::unpack(data_type, rest, to_rest)?;
    for (six, word) in words.as_chunks::<PACKED>().0.iter().zip(to_words) {
        let [a, b, c, d, e, f] = *six;
        let all = u64::from_le_bytes([a, b, c, d, e, f, 0, 0]);
        let fours = all & 0x00ff_ffff | all >> 24 << 32;
        let pairs = fours & 0x0000_0fff_0000_0fff | (fours & 0x00ff_f000_00ff_f000) << 4;
        *word = (pairs & 0x003f_003f_003f_003f | (pairs & 0x0fc0_0fc0_0fc0_0fc0) << 2).to_le_bytes();
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TYPES: [DataType; 3] = [DataType::Int2, DataType::Float4E2M1, DataType::Float6E3M2];

    #[test]
    fn every_length_is_packed_and_unpacked_as_element_by_element() {
        for data_type in TYPES {
            for len in (0..300).chain([4096, 100_003]) {
                // Every byte: the bits above an element's are nobody's.
                let elements: Vec<u8> = (0..len).map(|i| (i * 167 + i / 256) as u8).collect();
                let mut want = vec![0; data_type.byte_len(len).expect("a length in memory")];
                packed::pack(data_type, &elements, &mut want).expect("lengths that fit");
                let mut got = vec![0xa5; want.len()];
                pack(data_type, &elements, &mut got).expect("lengths that fit");
                assert_eq!(got, want, "{data_type} x {len}, packed");

                let bytes = with_padding(data_type, len, &elements);
                let (mut want, mut got) = (vec![0xa5; len], vec![0xa5; len]);
                packed::unpack(data_type, &bytes, &mut want).expect("lengths that fit");
                unpack(data_type, &bytes, &mut got).expect("lengths that fit");
                assert_eq!(got, want, "{data_type} x {len}, unpacked");
            }
        }
    }

    /// Packed bytes with set bits in the padding.
    fn with_padding(data_type: DataType, len: usize, elements: &[u8]) -> Vec<u8> {
        let bytes = data_type.byte_len(len).expect("a length in memory");
        elements[..bytes].iter().map(|byte| byte ^ 0xff).collect()
    }

    #[test]
    fn lengths_that_do_not_fit_are_refused() {
        for data_type in TYPES {
            let right = data_type.byte_len(20).expect("a length in memory");
            for wrong in [0, right - 1, right + 1] {
                assert_eq!(pack(data_type, &[0; 20], &mut vec![0; wrong]), None, "{data_type}: {wrong} bytes");
                assert_eq!(unpack(data_type, &vec![0; wrong], &mut [0; 20]), None, "{data_type}: {wrong} bytes");
            }
        }
        assert_eq!(pack(DataType::Uint8, &[0; 8], &mut [0; 8]), None);
        assert_eq!(unpack(DataType::Float, &[0; 8], &mut [0; 2]), None);
    }
}
