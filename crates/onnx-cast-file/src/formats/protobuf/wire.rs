//! The wire format: a message is a sequence of fields, each a key (number and kind) and a value.
//!
//! [`Fields`] walks over a message, or its outline, without allocating. Every length is checked against the message
//! before it is used; groups, which ONNX does not use, are stepped over with a bounded depth.

use crate::text::Count;
use thiserror::Error;

/// Bytes that are not a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum WireError {
    /// The bytes end inside a field.
    #[error("the bytes end inside a field")]
    Truncated,
    /// A length that is larger than what is left of the message.
    #[error("a field claims {}, with {left} left", Count(*claimed, "byte"))]
    Length {
        /// Bytes claimed.
        claimed: u64,
        /// Bytes left.
        left: usize,
    },
    /// An integer of more than ten bytes.
    #[error("an integer is longer than 64 bits")]
    Varint,
    /// A field number of 0 or above 2^29 - 1.
    #[error("a field has the number {number}, which no field may have")]
    Number {
        /// The number.
        number: u64,
    },
    /// A kind of value that does not exist.
    #[error("a field has the wire type {kind}, which does not exist")]
    Kind {
        /// The wire type.
        kind: u8,
    },
    /// Groups that do not pair, or too deep.
    #[error("groups do not balance")]
    Group,
}

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FieldValue<'a> {
    /// An integer.
    Varint(u64),
    /// A word of 64 bits.
    Fixed64([u8; 8]),
    /// Bytes: a message, a text, packed numbers.
    Bytes(&'a [u8]),
    /// A word of 32 bits.
    Fixed32([u8; 4]),
    /// A group, which is skipped.
    Group,
    /// This many bytes that an outline leaves in the file. No file has such a field.
    Left(u64),
}

/// A field of a message.
#[derive(Clone, Copy, Debug)]
pub struct Field<'a> {
    /// The number of the field.
    pub number: u32,
    /// The value.
    pub value: FieldValue<'a>,
    /// Key and value as they stand in the message.
    pub span: &'a [u8],
}

/// The fields of a message in order.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a> {
    left: &'a [u8],
}

const VARINT: u8 = 0;
const FIXED64: u8 = 1;
const BYTES: u8 = 2;
const GROUP_START: u8 = 3;
const GROUP_END: u8 = 4;
const FIXED32: u8 = 5;
/// The bits of a key that mark bytes as left in the file: a wire type that does not exist.
pub(in crate::formats) const LEFT: u8 = 7;

/// Bytes of the smallest value that an outline leaves in the file.
pub const LARGE: u64 = 4096;

/// Groups within groups; the usual limit of protobuf readers.
const MAX_DEPTH: u32 = 100;

impl<'a> Fields<'a> {
    /// The fields of a message.
    pub fn new(message: &'a [u8]) -> Self {
        Fields { left: message }
    }

    fn read(&mut self) -> Result<Field<'a>, WireError> {
        let start = self.left;
        let (number, kind) = key(&mut self.left)?;
        let value = match kind {
            GROUP_START => {
                self.skip_group(number)?;
                FieldValue::Group
            }
            GROUP_END => return Err(WireError::Group),
            LEFT => match varint(&mut self.left)? {
                len @ LARGE.. => FieldValue::Left(len),
                _ => return Err(WireError::Kind { kind }),
            },
            _ => value(&mut self.left, kind)?,
        };
        Ok(Field { number, value, span: &start[..start.len() - self.left.len()] })
    }

    /// Steps over the rest of group `number`.
    fn skip_group(&mut self, number: u32) -> Result<(), WireError> {
        let mut open = [0; MAX_DEPTH as usize];
        open[0] = number;
        let mut depth = 1;
        while depth > 0 {
            let (number, kind) = key(&mut self.left)?;
            match kind {
                GROUP_START => {
                    *open.get_mut(depth).ok_or(WireError::Group)? = number;
                    depth += 1;
                }
                GROUP_END if open[depth - 1] == number => depth -= 1,
                GROUP_END => return Err(WireError::Group),
                _ => {
                    value(&mut self.left, kind)?;
                }
            }
        }
        Ok(())
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<Field<'a>, WireError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left.is_empty() {
            return None;
        }
        let field = self.read();
        if field.is_err() {
            self.left = &[];
        }
        Some(field)
    }
}

/// A field, by its first bytes.
pub(super) struct FieldHead {
    pub(super) number: u32,
    /// Whether its value is bytes.
    pub(super) bytes: bool,
    /// Bytes in front of the value.
    pub(super) start: usize,
    /// Bytes that the value has, or claims.
    pub(super) len: u64,
}

impl FieldHead {
    /// More than key and length of any field take.
    pub(super) const MOST: usize = 20;

    /// `None` where it is a group.
    pub(super) fn read(mut bytes: &[u8]) -> Result<Option<FieldHead>, WireError> {
        let all = bytes.len();
        let (number, kind) = key(&mut bytes)?;
        let (start, len) = match kind {
            BYTES => {
                let len = varint(&mut bytes)?;
                (all - bytes.len(), len)
            }
            GROUP_START => return Ok(None),
            GROUP_END => return Err(WireError::Group),
            _ => {
                let start = all - bytes.len();
                value(&mut bytes, kind)?;
                (start, (all - bytes.len() - start) as u64)
            }
        };
        Ok(Some(FieldHead { number, bytes: kind == BYTES, start, len }))
    }
}

fn key(bytes: &mut &[u8]) -> Result<(u32, u8), WireError> {
    let key = varint(bytes)?;
    let number = key >> 3;
    match u32::try_from(number) {
        Ok(small @ 1..=0x1fff_ffff) => Ok((small, (key & 7) as u8)),
        _ => Err(WireError::Number { number }),
    }
}

fn value<'a>(bytes: &mut &'a [u8], kind: u8) -> Result<FieldValue<'a>, WireError> {
    match kind {
        VARINT => varint(bytes).map(FieldValue::Varint),
        FIXED64 => fixed(bytes).map(FieldValue::Fixed64),
        BYTES => {
            let claimed = varint(bytes)?;
            let left = bytes.len();
            let len = usize::try_from(claimed).ok().filter(|&len| len <= left);
            let (value, rest) = bytes.split_at(len.ok_or(WireError::Length { claimed, left })?);
            *bytes = rest;
            Ok(FieldValue::Bytes(value))
        }
        FIXED32 => fixed(bytes).map(FieldValue::Fixed32),
        kind => Err(WireError::Kind { kind }),
    }
}

fn fixed<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N], WireError> {
    let (value, rest) = bytes.split_first_chunk::<N>().ok_or(WireError::Truncated)?;
    *bytes = rest;
    Ok(*value)
}

/// Takes an integer of seven bits a byte, low ones first, from the front of `bytes`.
pub fn varint(bytes: &mut &[u8]) -> Result<u64, WireError> {
    let mut result = 0;
    for (i, &byte) in bytes.iter().enumerate().take(10) {
        // Of the tenth byte only one bit is left to fill; the others are dropped, as protobuf's own readers do.
        result |= u64::from(byte & 0x7f).wrapping_shl(7 * i as u32);
        if byte < 0x80 {
            *bytes = &bytes[i + 1..];
            return Ok(result);
        }
    }
    Err(if bytes.len() < 10 { WireError::Truncated } else { WireError::Varint })
}

/// The numbers of a repeated field, packed or one to a field, or both, in order.
pub struct Numbers<'a, T> {
    fields: Fields<'a>,
    number: u32,
    packed: &'a [u8],
    take: fn(&mut &'a [u8]) -> Result<T, WireError>,
    single: fn(FieldValue<'a>) -> Option<T>,
}

impl<'a, T> Numbers<'a, T> {
    fn step(&mut self) -> Result<Option<T>, WireError> {
        loop {
            if !self.packed.is_empty() {
                return (self.take)(&mut self.packed).map(Some);
            }
            let Some(field) = self.fields.next().transpose()? else { return Ok(None) };
            if field.number == self.number {
                if let FieldValue::Bytes(packed) = field.value {
                    self.packed = packed;
                } else if let Some(value) = (self.single)(field.value) {
                    return Ok(Some(value));
                }
                // A value of another kind is an unknown field, by protobuf's rules.
            }
        }
    }
}

impl<T> Iterator for Numbers<'_, T> {
    type Item = Result<T, WireError>;

    fn next(&mut self) -> Option<Self::Item> {
        let item = self.step();
        if item.is_err() {
            (self.packed, self.fields) = (&[], Fields::new(&[]));
        }
        item.transpose()
    }
}

/// The integers of field `number` of a message.
pub fn varints(message: &[u8], number: u32) -> Numbers<'_, u64> {
    Numbers { fields: Fields::new(message), number, packed: &[], take: varint, single: FieldValue::varint }
}

/// The 32-bit words of field `number` of a message.
pub fn fixed32s(message: &[u8], number: u32) -> Numbers<'_, [u8; 4]> {
    Numbers { fields: Fields::new(message), number, packed: &[], take: fixed, single: FieldValue::word }
}

/// The 64-bit words of field `number` of a message.
pub fn fixed64s(message: &[u8], number: u32) -> Numbers<'_, [u8; 8]> {
    let single = |value: FieldValue<'_>| if let FieldValue::Fixed64(value) = value { Some(value) } else { None };
    Numbers { fields: Fields::new(message), number, packed: &[], take: fixed, single }
}

/// The bytes of every field of a number that holds bytes.
pub fn all_bytes(message: &[u8], number: u32) -> impl Iterator<Item = Result<&[u8], WireError>> {
    Fields::new(message).filter_map(move |field| match field {
        Ok(Field { number: found, value: FieldValue::Bytes(bytes), .. }) => (found == number).then_some(Ok(bytes)),
        Ok(_) => None,
        Err(error) => Some(Err(error)),
    })
}

/// The last value of a field, which is the one that counts.
pub fn last<'a, T>(
    message: &'a [u8],
    number: u32,
    take: fn(FieldValue<'a>) -> Option<T>,
) -> Result<Option<T>, WireError> {
    let mut found = None;
    for field in Fields::new(message) {
        let field = field?;
        if field.number == number {
            found = take(field.value).or(found);
        }
    }
    Ok(found)
}

impl<'a> FieldValue<'a> {
    /// The bytes of a value that is bytes.
    pub fn bytes(self) -> Option<&'a [u8]> {
        if let FieldValue::Bytes(bytes) = self { Some(bytes) } else { None }
    }

    /// The integer of a value that is one.
    pub fn varint(self) -> Option<u64> {
        if let FieldValue::Varint(value) = self { Some(value) } else { None }
    }

    /// The same integer with a sign.
    pub fn int(self) -> Option<i64> {
        self.varint().map(|value| value as i64)
    }

    /// The word of a value of 32 bits.
    pub fn word(self) -> Option<[u8; 4]> {
        if let FieldValue::Fixed32(word) = self { Some(word) } else { None }
    }
}

/// Appends an integer.
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a field that holds an integer.
pub fn put_int(out: &mut Vec<u8>, number: u32, value: u64) {
    put_varint(out, u64::from(number) << 3 | u64::from(VARINT));
    put_varint(out, value);
}

/// Appends the key and the length of a field that holds bytes.
pub fn put_len(out: &mut Vec<u8>, number: u32, len: u64) {
    put_varint(out, u64::from(number) << 3 | u64::from(BYTES));
    put_varint(out, len);
}

/// Appends a field that holds bytes.
pub fn put_bytes(out: &mut Vec<u8>, number: u32, bytes: &[u8]) {
    put_len(out, number, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(bytes: &[u8]) -> Result<Vec<(u32, FieldValue<'_>)>, WireError> {
        Fields::new(bytes).map(|field| field.map(|field| (field.number, field.value))).collect()
    }

    #[test]
    fn fields_of_each_kind() {
        let mut bytes = Vec::new();
        put_int(&mut bytes, 1, u64::MAX);
        put_bytes(&mut bytes, 2, b"ab");
        bytes.extend([3 << 3 | 5, 1, 2, 3, 4, 4 << 3 | 1, 1, 2, 3, 4, 5, 6, 7, 8]);
        let want = vec![
            (1, FieldValue::Varint(u64::MAX)),
            (2, FieldValue::Bytes(b"ab")),
            (3, FieldValue::Fixed32([1, 2, 3, 4])),
            (4, FieldValue::Fixed64([1, 2, 3, 4, 5, 6, 7, 8])),
        ];
        assert_eq!(all(&bytes), Ok(want));
        let spans: usize = Fields::new(&bytes).map(|field| field.map_or(0, |field| field.span.len())).sum();
        assert_eq!(spans, bytes.len());
    }

    #[test]
    fn hostile_bytes() {
        assert_eq!(all(&[0x08]), Err(WireError::Truncated));
        assert_eq!(all(&[0x08, 0x80]), Err(WireError::Truncated));
        assert_eq!(all(&[0xff; 11]), Err(WireError::Varint));
        assert_eq!(all(&[0x00, 0x00]), Err(WireError::Number { number: 0 }));
        assert_eq!(all(&[0x0a, 0x02, 0x00]), Err(WireError::Length { claimed: 2, left: 1 }));
        let huge = [0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        assert_eq!(all(&huge), Err(WireError::Length { claimed: u64::MAX, left: 0 }));
        assert_eq!(all(&[0x0e]), Err(WireError::Kind { kind: 6 }));
        assert_eq!(all(&[0x0d, 1, 2, 3]), Err(WireError::Truncated));
    }

    #[test]
    fn groups_are_stepped_over() {
        assert_eq!(
            all(&[0x0b, 0x10, 0x01, 0x13, 0x14, 0x0c, 0x18, 0x05]),
            Ok(vec![(1, FieldValue::Group), (3, FieldValue::Varint(5))])
        );
        assert_eq!(all(&[0x0b, 0x14]), Err(WireError::Group));
        assert_eq!(all(&[0x0c]), Err(WireError::Group));
        assert_eq!(all(&[0x0b]), Err(WireError::Truncated));
        assert_eq!(all(&[0x0b; 200]), Err(WireError::Group));
    }

    #[test]
    fn numbers_packed_and_not() {
        let bytes = [0x08, 0x01, 0x0a, 0x03, 0x02, 0x80, 0x01, 0x10, 0x07, 0x08, 0x03];
        let got: Result<Vec<u64>, _> = varints(&bytes, 1).collect();
        assert_eq!(got, Ok(vec![1, 2, 128, 3]));
        let cut: Result<Vec<u64>, _> = varints(&[0x0a, 0x01, 0x80], 1).collect();
        assert_eq!(cut, Err(WireError::Truncated));
    }
}
