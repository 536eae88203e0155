//! The fast path of reading: plain decimal text to digits and exponent, for texts of at most 24 significant characters,
//! which are read together whatever their number. All other texts are left to `grammar`.
//!
//! A text is the end of a slice that may begin earlier, as a string tensor's bytes do. So 24 bytes can be read even if
//! the text has fewer, and the bytes before it are masked.

#[cfg(target_arch = "x86_64")]
mod sse2;
#[cfg_attr(target_arch = "x86_64", cfg(test))]
mod words;

use super::shortest::Decimal;

/// The most characters that are read together.
const MAX_LENGTH: usize = 24;

/// One more: the characters before a point are read from where they would be without the point.
const WINDOW: usize = MAX_LENGTH + 1;

/// The sign (whether negative) and the decimal of `bytes[start..]`: an optional sign, digits with an optional point, an
/// optional exponent. `None` for any other text.
#[inline(always)]
pub(super) fn read(bytes: &[u8], start: usize) -> Option<(bool, Decimal)> {
    let (negative, start) = sign(bytes, start);
    let decimal = with_window(bytes, start, |bytes, start| {
        let length = bytes.len() - start;
        // In the texts read here, the letter of an exponent is among the last five characters.
        let end: &[u8; 5] = bytes.last_chunk()?;
        if end.iter().any(|letter| letter | 0x20 == b'e') && length > 1 {
            return scientific(bytes, start);
        }
        if length <= MAX_LENGTH { plain(bytes, length).or_else(|| long(bytes, start)) } else { long(bytes, start) }
    })?;
    Some((negative, decimal))
}

/// The sign (whether negative) and the integer of `bytes[start..]`: an optional sign and digits. `None` for any other
/// text.
#[inline(always)]
pub(super) fn read_whole(bytes: &[u8], start: usize) -> Option<(bool, u64)> {
    let (negative, start) = sign(bytes, start);
    with_window(bytes, start, |bytes, start| whole(bytes, bytes.len() - start)).map(|digits| (negative, digits))
}

/// Whether the first byte is a minus sign, and where the digits start.
#[inline(always)]
fn sign(bytes: &[u8], start: usize) -> (bool, usize) {
    let first = bytes.get(start).copied().unwrap_or(0);
    (first == b'-', start + usize::from(first == b'-' || first == b'+'))
}

/// Calls `call` with a slice of at least the window's size that ends with the same text.
#[inline(always)]
fn with_window<R>(bytes: &[u8], start: usize, call: impl Fn(&[u8], usize) -> Option<R>) -> Option<R> {
    if bytes.len() >= WINDOW {
        return call(bytes, start);
    }
    let text = &bytes[start..];
    let mut padded = [b'0'; WINDOW];
    let start = WINDOW - text.len();
    padded[start..].copy_from_slice(text);
    call(&padded, start)
}

/// The decimal of the last `length` bytes: digits with an optional point.
#[inline(always)]
fn plain(bytes: &[u8], length: usize) -> Option<Decimal> {
    let (parts, behind) = digits::<true>(bytes.last_chunk()?, length)?;
    Some(Decimal { digits: join(parts)?, exponent: -(behind as i32) })
}

/// The integer of the last `length` bytes: digits only.
#[inline(always)]
fn whole(bytes: &[u8], length: usize) -> Option<u64> {
    join(digits::<false>(bytes.last_chunk()?, length)?.0)
}

/// The last `length` bytes of the window as three numbers of eight digits, and, with `POINT`, the number of digits
/// after the point. `None` if there are no digits, or any other character.
#[inline(always)]
fn digits<const POINT: bool>(window: &[u8; WINDOW], length: usize) -> Option<([u64; 3], usize)> {
    #[cfg(target_arch = "x86_64")]
    return sse2::digits::<POINT>(window, length);
    #[cfg(not(target_arch = "x86_64"))]
    return words::digits::<POINT>(window, length);
}

#[inline(always)]
fn join([high, middle, low]: [u64; 3]) -> Option<u64> {
    high.checked_mul(10_000_000_000_000_000)?.checked_add(middle * 100_000_000 + low)
}

/// A mantissa, and an exponent of at most three digits.
#[inline(always)]
fn scientific(bytes: &[u8], start: usize) -> Option<Decimal> {
    let letter = bytes.iter().rposition(|letter| letter | 0x20 == b'e').filter(|&letter| letter >= start)?;
    let (mantissa, exponent) = bytes.split_at(letter);
    let (negative, first) = sign(exponent, 1);
    let digits = &exponent[first..];
    if digits.is_empty() || digits.len() > 3 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let magnitude = digits.iter().fold(0, |n, digit| 10 * n + i32::from(digit - b'0'));
    let length = mantissa.len() - start;
    if length > MAX_LENGTH {
        return None;
    }
    let mut decimal = with_window(mantissa, start, |bytes, _| plain(bytes, length))?;
    decimal.exponent += if negative { -magnitude } else { magnitude };
    Some(decimal)
}

/// Texts of more characters than are read together, all zeros but 19 digits: zeros after `0.`, or zeros at the end of
/// an integer.
#[inline(always)]
fn long(bytes: &[u8], start: usize) -> Option<Decimal> {
    /// This many digits always fit `u64`.
    const DIGITS: usize = 19;
    let length = bytes.len() - start;
    // The case is unpredictable, so there is no branch.
    let is_fraction = bytes[start..].starts_with(b"0.");
    if length < DIGITS + 2 * usize::from(is_fraction) {
        return None;
    }
    let end = if is_fraction { bytes.len() } else { start + DIGITS };
    let (from, to) = if is_fraction { (start + 2, bytes.len() - DIGITS) } else { (end, bytes.len()) };
    if !are_zeros(bytes, from, to) {
        return None;
    }
    let digits = with_window(&bytes[..end], end - DIGITS, |bytes, _| whole(bytes, DIGITS))?;
    let decimals = i32::try_from(length).ok()?;
    Some(Decimal { digits, exponent: if is_fraction { 2 - decimals } else { decimals - DIGITS as i32 } })
}

/// Whether the bytes `from..to` are characters `0`, and `to` is at least 32.
#[inline(always)]
fn are_zeros(bytes: &[u8], from: usize, to: usize) -> bool {
    const PIECE: usize = 32;
    let pieces = bytes[from..to].chunks_exact(PIECE);
    let tail = pieces.remainder().len();
    let mut all = true;
    for piece in pieces {
        all &= piece == [b'0'; PIECE];
    }
    // The last piece may overlap the ones before; bytes before the range are masked.
    let Some(end) = bytes[..to].last_chunk::<PIECE>() else { return false };
    let mut wrong = [0; PIECE];
    for i in 0..PIECE {
        wrong[i] = if i + tail >= PIECE { end[i] ^ b'0' } else { 0 };
    }
    all & (wrong == [0; PIECE])
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn registers_read_what_words_read() {
        let mut state = 7u64;
        let mut below = |limit: u64| {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            (state >> 33) % limit
        };
        let mut numbers = 0;
        for round in 0..200_000 {
            // Digits, with up to two points and sometimes any other byte.
            let mut window: [u8; WINDOW] = core::array::from_fn(|_| b'0' + below(10) as u8);
            for _ in 0..below(3) {
                window[below(WINDOW as u64) as usize] = b'.';
            }
            if round % 4 == 0 {
                window[below(WINDOW as u64) as usize] = below(256) as u8;
            }
            for length in 0..=MAX_LENGTH {
                let want = words::digits::<false>(&window, length);
                assert_eq!(sse2::digits::<false>(&window, length), want, "{window:?}, {length}");
                let want = words::digits::<true>(&window, length);
                assert_eq!(sse2::digits::<true>(&window, length), want, "{window:?}, {length}");
                numbers += usize::from(want.is_some());
            }
        }
        assert!(numbers > 1_000_000, "{numbers}");
    }
}
