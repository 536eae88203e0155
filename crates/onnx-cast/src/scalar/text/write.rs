//! Writes numbers as plain decimal text to a buffer with room for the longest, so that stores can have a fixed size
//! even where the text is shorter.

use super::digits::{ZEROS, split_8, split_16};
use super::shortest::Decimal;

/// Room for any number: `-0.`, up to 323 zeros and up to 17 digits of a double, and the bytes that a store may write
/// past the text.
pub(super) const ROOM: usize = 384;

/// Writes an integer, given as sign and magnitude. Returns the length of the text.
#[inline(always)]
pub(super) fn write_integer(out: &mut [u8; ROOM], negative: bool, magnitude: u64) -> usize {
    const EIGHT: u64 = 100_000_000;
    const SIXTEEN: u64 = EIGHT * EIGHT;
    out[0] = b'-';
    let at = usize::from(negative);
    if magnitude < EIGHT {
        return at + write_leading(out, at, split_8(magnitude as u32));
    }
    if magnitude < SIXTEEN {
        let end = at + write_leading(out, at, split_8((magnitude / EIGHT) as u32));
        store(out, end, split_8((magnitude % EIGHT) as u32) | ZEROS);
        return end + 8;
    }
    let end = at + write_leading(out, at, split_8((magnitude / SIXTEEN) as u32));
    store_16(out, end, split_16(magnitude % SIXTEEN) | u128::from(ZEROS) << 64 | u128::from(ZEROS));
    end + 16
}

/// Writes eight digits without leading zeros, but at least one digit. Returns how many are written.
#[inline(always)]
fn write_leading(out: &mut [u8; ROOM], at: usize, digits: u64) -> usize {
    // Treat the last digit as nonzero.
    let zeros = (digits | 1 << 56).trailing_zeros() / 8;
    store(out, at, (digits | ZEROS) >> (8 * zeros));
    8 - zeros as usize
}

/// A number prepared for writing: at most 17 digits, and the position of the point.
#[derive(Clone, Copy, Default)]
pub(super) struct Digits {
    /// The first 16 digits as characters, in memory order, padded with characters `0`.
    text: u128,
    /// The last possible digit, after 8 or 16 others.
    last: u8,
    /// The number of digits without trailing zeros.
    count: u8,
    /// The position of the point relative to the first digit. If positive, it is the number of digits before the point.
    point: i16,
    negative: bool,
}

impl Digits {
    /// The digits of a word of at most 8 characters.
    #[inline(always)]
    pub(super) fn word(negative: bool, word: &[u8]) -> Digits {
        let mut text = [b'0'; 16];
        text[..word.len()].copy_from_slice(word);
        let count = word.len() as u8;
        Digits { text: u128::from_le_bytes(text), last: b'0', count, point: count.into(), negative }
    }

    /// The digits of a nonzero decimal of at most `LONGEST` digits, 9 or 17.
    #[inline(always)]
    pub(super) fn new<const LONGEST: usize>(negative: bool, decimal: Decimal) -> Digits {
        const { assert!(LONGEST == 9 || LONGEST == 17) };
        let limit = const { 10u64.pow(LONGEST as u32 - 1) };
        // Scale to exactly `LONGEST` digits. Whether up to two are missing is unpredictable, so there is no branch for
        // those; only subnormals lack more.
        let Decimal { mut digits, exponent } = decimal;
        let mut point = exponent + LONGEST as i32;
        while digits < limit / 100 {
            digits *= 10;
            point -= 1;
        }
        let (short, shorter) = (digits < limit, digits < limit / 10);
        digits *= if short { 10 } else { 1 };
        digits *= if shorter { 10 } else { 1 };
        let point = (point - i32::from(short) - i32::from(shorter)) as i16;
        let upper = digits / 10;
        let last = digits - 10 * upper;
        let (text, trailing_zeros) = if LONGEST == 9 {
            let values = split_8(upper as u32);
            let later = values >> 8 | last << 56;
            (u128::from(values | ZEROS) | u128::from(ZEROS) << 64, later.swap_bytes().trailing_zeros())
        } else {
            let values = split_16(upper);
            let zeros = u128::from(ZEROS) << 64 | u128::from(ZEROS);
            let later = values >> 8 | u128::from(last) << 120;
            (values | zeros, later.swap_bytes().trailing_zeros())
        };
        let count = LONGEST as u8 - trailing_zeros as u8 / 8;
        Digits { text, last: b'0' + last as u8, count, point, negative }
    }

    /// Writes the number as plain decimal over characters `0`, and leaves characters `0` after it. Returns the length.
    #[inline(always)]
    pub(super) fn write<const LONGEST: usize>(&self, out: &mut [u8; ROOM]) -> usize {
        let (text, count, point) = (self.text, usize::from(self.count), i32::from(self.point));
        // The point is before the first digit, as in `0.00ddd`, after the last, as in `ddd000`, or among them. The case
        // is unpredictable, so there is no branch: write the digits, then those after the point again.
        let zeros = if point <= 0 { 2 + point.unsigned_abs() as usize } else { 0 };
        let before = point.max(0) as usize;
        let inside = before != 0 && before < count;
        let at = usize::from(self.negative);
        let cut = if inside { before } else { 0 };
        let start = at + zeros + usize::from(inside);
        let end = at + zeros + before.max(count + usize::from(inside));
        out[0] = b'-';
        out[at] = b'0';
        if LONGEST == 9 {
            store(out, at + zeros, text as u64);
            store(out, start + cut, (text as u64).unbounded_shr(8 * cut as u32));
        } else {
            store_16(out, at + zeros, text);
            store_16(out, start + cut, text.unbounded_shr(8 * cut as u32));
        }
        out[if before < count { at + before.max(1) } else { end }] = b'.';
        out[start + LONGEST - 1] = self.last;
        out[end..end + 32].copy_from_slice(&[b'0'; 32]);
        end
    }
}

#[inline(always)]
fn store(out: &mut [u8; ROOM], at: usize, word: u64) {
    out[at..at + 8].copy_from_slice(&word.to_le_bytes());
}

#[inline(always)]
fn store_16(out: &mut [u8; ROOM], at: usize, word: u128) {
    out[at..at + 16].copy_from_slice(&word.to_le_bytes());
}
