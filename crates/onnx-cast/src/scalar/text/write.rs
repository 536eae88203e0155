//! Numbers as plain decimal text, into a buffer with room for the longest of them, so that a fixed number of bytes can be
//! stored where fewer count.

use super::digits::{ZEROS, split_8, split_16};
use super::shortest::Decimal;

/// Room for any number: `-0.` and 323 zeros before the last digit of a double, or 17 digits after fewer of them; and the
/// bytes by which a store may reach beyond the text.
pub(super) const ROOM: usize = 384;

/// Writes an integer, given as sign and magnitude; its length.
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

/// Writes eight digits without the zeros they lead with, but for the last; how many are left.
#[inline(always)]
fn write_leading(out: &mut [u8; ROOM], at: usize, digits: u64) -> usize {
    // The last digit's byte counts as not zero.
    let zeros = (digits | 1 << 56).trailing_zeros() / 8;
    store(out, at, (digits | ZEROS) >> (8 * zeros));
    8 - zeros as usize
}

/// A number taken apart for writing: at most 17 digits, and where the point stands among them.
#[derive(Clone, Copy, Default)]
pub(super) struct Digits {
    /// The first 16 as characters, in the order of memory, or fewer, and zeros behind them.
    text: u128,
    /// The last that could be, behind 8 or 16 others.
    last: u8,
    /// Digits that count.
    count: u8,
    /// Digits before the point, if it stands behind the first digit or later; the text goes on at least that far.
    point: i16,
    negative: bool,
}

impl Digits {
    /// A word of at most 8 characters.
    #[inline(always)]
    pub(super) fn word(negative: bool, word: &[u8]) -> Digits {
        let mut text = [b'0'; 16];
        text[..word.len()].copy_from_slice(word);
        let count = word.len() as u8;
        Digits { text: u128::from_le_bytes(text), last: b'0', count, point: count.into(), negative }
    }

    /// Of a decimal that is not zero and has at most `LONGEST` digits, 9 or 17.
    #[inline(always)]
    pub(super) fn new<const LONGEST: usize>(negative: bool, decimal: Decimal) -> Digits {
        const { assert!(LONGEST == 9 || LONGEST == 17) };
        let limit = const { 10u64.pow(LONGEST as u32 - 1) };
        // As many digits as can be, the first of them not zero. How many are missing, up to two, cannot be foreseen, so
        // there is no branch; more than two only subnormals lack.
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
        let most = digits / 10;
        let last = digits - 10 * most;
        let (text, trailing_zeros) = if LONGEST == 9 {
            let values = split_8(most as u32);
            let rest = values >> 8 | last << 56;
            (u128::from(values | ZEROS) | u128::from(ZEROS) << 64, rest.swap_bytes().trailing_zeros())
        } else {
            let values = split_16(most);
            let zeros = u128::from(ZEROS) << 64 | u128::from(ZEROS);
            let rest = values >> 8 | u128::from(last) << 120;
            (values | zeros, rest.swap_bytes().trailing_zeros())
        };
        let count = LONGEST as u8 - trailing_zeros as u8 / 8;
        Digits { text, last: b'0' + last as u8, count, point, negative }
    }

    /// Writes the number as plain decimal over zeros, which it leaves behind itself too; its length.
    #[inline(always)]
    pub(super) fn write<const LONGEST: usize>(&self, out: &mut [u8; ROOM]) -> usize {
        let (text, count, point) = (self.text, usize::from(self.count), i32::from(self.point));
        // A point before the first digit, as in `0.00ddd`, behind the last, as in `ddd000`, or among them: without a
        // branch, since which it is cannot be foreseen. The digits, then those behind the point once more.
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
