//! The last 24 characters of a text as three words, in portable Rust.

use super::{MAX_LENGTH, WINDOW};

const ONES: u64 = 0x0101_0101_0101_0101;
const TOPS: u64 = 0x80 * ONES;
const ZEROS: u64 = b'0' as u64 * ONES;

/// `ENDS[n]` is a mask of the last `n` bytes of three words.
static ENDS: [[u64; 3]; MAX_LENGTH + 1] = {
    let mut ends = [[0; 3]; MAX_LENGTH + 1];
    let mut count = 0;
    while count <= MAX_LENGTH {
        let mut byte = 0;
        while byte < count {
            ends[count][2 - byte / 8] |= 0xff << (8 * (byte % 8));
            byte += 1;
        }
        count += 1;
    }
    ends
};

/// As [`super::digits`].
#[inline(always)]
pub(super) fn digits<const POINT: bool>(window: &[u8; WINDOW], length: usize) -> Option<([u64; 3], usize)> {
    let mut words = [word(window, 1), word(window, 9), word(window, 17)];
    let (mut count, mut behind) = (length, 0);
    if POINT {
        let points = words.map(|word| lowest_match(word, b'.'));
        let point = match points {
            [_, _, point @ 0..8] => point,
            [_, point @ 0..8, _] => 8 + point,
            [point, _, _] => 16 + point,
        } as usize;
        if point < length {
            // The characters before the point move up by one, over the point.
            let moved = [word(window, 0), word(window, 8), word(window, 16)];
            words = core::array::from_fn(|i| words[i] & ENDS[point][i] | moved[i] & !ENDS[point][i]);
            (count, behind) = (length - 1, point);
        }
    }
    let ends = ENDS.get(count)?;
    let digits: [u64; 3] = core::array::from_fn(|i| (words[i] ^ ZEROS) & ends[i]);
    // The top bit is set where a value is more than 9, or its character is not ASCII.
    let wrong = digits.map(|digits| (digits.wrapping_add(0x76 * ONES) | digits) & TOPS);
    (count != 0 && wrong[0] | wrong[1] | wrong[2] == 0).then(|| (digits.map(join_8), behind))
}

/// The number of eight digits given as values, the first in the highest byte.
#[inline(always)]
fn join_8(digits: u64) -> u64 {
    let pairs = (digits >> 8 & 0x00ff_00ff_00ff_00ff) * 10 + (digits & 0x00ff_00ff_00ff_00ff);
    let fours = (pairs >> 16 & 0x0000_ffff_0000_ffff) * 100 + (pairs & 0x0000_ffff_0000_ffff);
    (fours >> 32) * 10_000 + (fours & 0xffff_ffff)
}

/// The index of the lowest byte equal to `byte`; 8 if none is.
#[inline(always)]
pub(super) fn lowest_match(word: u64, byte: u8) -> u32 {
    let zero_if_match = word ^ (u64::from(byte) * ONES);
    // A borrow can cause a false match, but only above a true one.
    (zero_if_match.wrapping_sub(ONES) & !zero_if_match & TOPS).trailing_zeros() / 8
}

/// Eight bytes as a word, the last in its lowest byte.
#[inline(always)]
fn word(window: &[u8; WINDOW], at: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&window[at..at + 8]);
    u64::from_be_bytes(bytes)
}
