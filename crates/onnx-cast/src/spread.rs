//! Elements one in a byte, in its low bits, as Python's array libraries hold 2-, 4- and 6-bit types: packed as ONNX packs
//! them, and unpacked, at the speed of casts. For 2 and 4 bits both are casts, from and to uint8, which keep the low bits.
//! For 6 bits, where a cast would round, eight elements move at once in a 64-bit word.

use crate::arch::Backend;
use crate::element::DataType;
use crate::ops::Plan;
use crate::packed;
use crate::scalar::{RoundMode, Rules};
use crate::tensor::TensorView;
use std::fmt;

/// Bytes and elements that do not belong together.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PackError {
    /// A type whose elements are not packed.
    NotPacked {
        /// The type.
        data_type: DataType,
    },
    /// Another number of bytes than the elements take.
    ByteLen {
        /// The element type.
        data_type: DataType,
        /// Number of elements.
        elements: usize,
        /// Bytes given.
        got: usize,
        /// Bytes that so many elements take; `None` where that does not fit `usize`, or the type is string.
        want: Option<usize>,
    },
}

impl fmt::Display for PackError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PackError::NotPacked { data_type } => {
                write!(f, "{data_type} is not packed (want a type of 2, 4 or 6 bits)")
            }
            PackError::ByteLen { data_type, elements, got, want: Some(want) } => {
                write!(f, "{got} bytes for {elements} packed {data_type} (want {want})")
            }
            PackError::ByteLen { data_type, elements, got, want: None } => {
                write!(f, "{got} bytes for {elements} {data_type}, which no number of bytes holds")
            }
        }
    }
}

impl std::error::Error for PackError {}

/// Checks that `bytes` are those of so many elements of a type.
fn check_len(data_type: DataType, elements: usize, bytes: &[u8]) -> Result<(), PackError> {
    let (got, want) = (bytes.len(), data_type.byte_len(elements));
    if want == Some(got) { Ok(()) } else { Err(PackError::ByteLen { data_type, elements, got, want }) }
}

fn check(data_type: DataType, elements: usize, bytes: &[u8]) -> Result<(), PackError> {
    if !data_type.is_packed() {
        return Err(PackError::NotPacked { data_type });
    }
    check_len(data_type, elements, bytes)
}

/// Packs elements that stand one in a byte. The upper bits of each byte are ignored, and the padding is zero.
///
/// ```
/// use onnx_cast::{DataType, pack};
///
/// let mut bytes = [0; 2];
/// pack(DataType::Int4, &[0x1, 0xf, 0x7], &mut bytes)?;
/// assert_eq!(bytes, [0xf1, 0x07]);
/// assert_eq!(
///     pack(DataType::Int4, &[0; 5], &mut bytes).unwrap_err().to_string(),
///     "2 bytes for 5 packed int4 (want 3)"
/// );
/// # Ok::<(), onnx_cast::PackError>(())
/// ```
///
/// # Errors
/// Where the type is not packed, or `bytes` has another length than the elements take.
pub fn pack(data_type: DataType, elements: &[u8], bytes: &mut [u8]) -> Result<(), PackError> {
    check(data_type, elements.len(), bytes)?;
    match code(data_type) {
        Some(code) => cast(DataType::Uint8, code, elements.len(), elements, bytes),
        None => pack_sixes(elements, bytes),
    }
    Ok(())
}

/// Unpacks elements to one in a byte, the upper bits zero.
///
/// ```
/// use onnx_cast::{DataType, unpack};
///
/// let mut elements = [0; 3];
/// unpack(DataType::Int4, &[0xf1, 0x07], &mut elements)?;
/// assert_eq!(elements, [0x1, 0xf, 0x7]);
/// # Ok::<(), onnx_cast::PackError>(())
/// ```
///
/// # Errors
/// Where the type is not packed, or `bytes` has another length than the elements take.
pub fn unpack(data_type: DataType, bytes: &[u8], elements: &mut [u8]) -> Result<(), PackError> {
    check(data_type, elements.len(), bytes)?;
    match code(data_type) {
        Some(code) => cast(code, DataType::Uint8, elements.len(), bytes, elements),
        None => unpack_sixes(bytes, elements),
    }
    Ok(())
}

/// Zeroes the padding behind the last of `len` elements. Types of 8 bits and more have none.
///
/// ```
/// use onnx_cast::{DataType, clear_padding};
///
/// let mut bytes = [0x21, 0xf3];
/// clear_padding(DataType::Uint4, 3, &mut bytes)?;
/// assert_eq!(bytes, [0x21, 0x03]);
/// # Ok::<(), onnx_cast::PackError>(())
/// ```
///
/// # Errors
/// Where `bytes` has another length than the elements take, as it has for strings.
pub fn clear_padding(data_type: DataType, len: usize, bytes: &mut [u8]) -> Result<(), PackError> {
    check_len(data_type, len, bytes)?;
    packed::clear_padding(data_type, len, bytes);
    Ok(())
}

/// The unsigned integer whose bits an element of 2 or 4 bits has.
fn code(data_type: DataType) -> Option<DataType> {
    match data_type.bits() {
        Some(2) => Some(DataType::Uint2),
        Some(4) => Some(DataType::Uint4),
        _ => None,
    }
}

/// Casts integers on the caller's thread: callers split large tensors themselves.
fn cast(from: DataType, to: DataType, len: usize, src: &[u8], dst: &mut [u8]) {
    // A cast between integers depends on no rule.
    let rules = Rules::new(to, 1, true, RoundMode::Up);
    let plan = Plan::cast(from, to, rules, Backend::best(), Some(1));
    let done = TensorView::new(from, &[len], src).is_ok_and(|view| plan.run_into(&view, dst).is_ok());
    debug_assert!(done, "the lengths were checked");
}

/// Elements of 6 bits in a word, one in a byte; packed they are six bytes.
const WORD: usize = 8;
const PACKED: usize = 6;

fn pack_sixes(elements: &[u8], bytes: &mut [u8]) {
    let (words, tail) = elements.as_chunks::<WORD>();
    let (to_words, to_tail) = bytes.split_at_mut(words.len() * PACKED);
    packed::pack_elements(6, tail, to_tail);
    for (word, six) in words.iter().zip(to_words.as_chunks_mut::<PACKED>().0) {
        // Neighbours are pushed together: pairs of 12 bits, fours of 24, all 48.
        let word = u64::from_le_bytes(*word);
        let pairs = word & 0x003f_003f_003f_003f | (word & 0x3f00_3f00_3f00_3f00) >> 2;
        let fours = pairs & 0x0000_0fff_0000_0fff | (pairs & 0x0fff_0000_0fff_0000) >> 4;
        let all = fours & 0x00ff_ffff | fours >> 32 << 24;
        six.copy_from_slice(&all.to_le_bytes()[..PACKED]);
    }
}

fn unpack_sixes(bytes: &[u8], elements: &mut [u8]) {
    let (to_words, to_tail) = elements.as_chunks_mut::<WORD>();
    let (words, tail) = bytes.split_at(to_words.len() * PACKED);
    packed::unpack_elements(6, tail, to_tail);
    for (six, word) in words.as_chunks::<PACKED>().0.iter().zip(to_words) {
        let [a, b, c, d, e, f] = *six;
        let all = u64::from_le_bytes([a, b, c, d, e, f, 0, 0]);
        let fours = all & 0x00ff_ffff | all >> 24 << 32;
        let pairs = fours & 0x0000_0fff_0000_0fff | (fours & 0x00ff_f000_00ff_f000) << 4;
        *word = (pairs & 0x003f_003f_003f_003f | (pairs & 0x0fc0_0fc0_0fc0_0fc0) << 2).to_le_bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TYPES: [DataType; 3] = [DataType::Int2, DataType::Float4E2M1, DataType::Float6E3M2];

    #[test]
    fn every_length_is_packed_and_unpacked_as_element_by_element() {
        for data_type in TYPES {
            for len in (0..300).chain([4096, 100_003]) {
                // Every byte: the bits above an element's are ignored.
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
            let want = data_type.byte_len(20).expect("a length in memory");
            for got in [0, want - 1, want + 1] {
                let error = Err(PackError::ByteLen { data_type, elements: 20, got, want: Some(want) });
                assert_eq!(pack(data_type, &[0; 20], &mut vec![0; got]), error, "{data_type}: {got} bytes");
                assert_eq!(unpack(data_type, &vec![0; got], &mut [0; 20]), error, "{data_type}: {got} bytes");
                assert_eq!(clear_padding(data_type, 20, &mut vec![0; got]), error, "{data_type}: {got} bytes");
            }
        }
        let not_packed = |data_type| Err(PackError::NotPacked { data_type });
        assert_eq!(pack(DataType::Uint8, &[0; 8], &mut [0; 8]), not_packed(DataType::Uint8));
        assert_eq!(unpack(DataType::Float, &[0; 8], &mut [0; 2]), not_packed(DataType::Float));
        assert_eq!(clear_padding(DataType::Float, 2, &mut [0; 8]), Ok(()));
        let string = PackError::ByteLen { data_type: DataType::String, elements: 2, got: 8, want: None };
        assert_eq!(clear_padding(DataType::String, 2, &mut [0; 8]), Err(string));
    }
}
