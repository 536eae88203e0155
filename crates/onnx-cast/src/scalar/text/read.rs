//! Plain decimal text to digits and exponent, for the texts that most are: at most 24 characters that matter, which are
//! read together whatever their number is. Anything else is left to the grammar in full.
//!
//! A text is the end of a slice that may begin before it, as a string tensor's bytes do: so its last 24 bytes can be read
//! though it has fewer, and those before it masked.

#[cfg(target_arch = "x86_64")]
mod sse2;
#[cfg_attr(target_arch = "x86_64", cfg(test))]
mod words;

use super::shortest::Decimal;

/// Most characters that are read together.
const MOST: usize = 24;

/// One more, since the characters before a point are read from where they would stand without it.
const WINDOW: usize = MOST + 1;

/// The decimal, with its sign, that `bytes[start..]` is, or `None`: a sign, digits with a point or none, an exponent or
/// none.
#[inline(always)]
pub(super) fn read(bytes: &[u8], start: usize) -> Option<(bool, Decimal)> {
    let (negative, start) = sign(bytes, start);
    let decimal = with_window(bytes, start, |bytes, start| {
        let length = bytes.len() - start;
        // The letter of an exponent stands among the last five characters of a text that is read here.
        let end: &[u8; 5] = bytes.last_chunk()?;
        if end.iter().any(|letter| letter | 0x20 == b'e') && length > 1 {
            return scientific(bytes, start);
        }
        if length <= MOST { plain(bytes, length).or_else(|| long(bytes, start)) } else { long(bytes, start) }
    })?;
    Some((negative, decimal))
}

/// The digits, with their sign, that `bytes[start..]` is, or `None`.
#[inline(always)]
pub(super) fn read_whole(bytes: &[u8], start: usize) -> Option<(bool, u64)> {
    let (negative, start) = sign(bytes, start);
    with_window(bytes, start, |bytes, start| whole(bytes, bytes.len() - start)).map(|digits| (negative, digits))
}

/// Whether the first byte is a minus, and where the digits start.
#[inline(always)]
fn sign(bytes: &[u8], start: usize) -> (bool, usize) {
    let first = bytes.get(start).copied().unwrap_or(0);
    (first == b'-', start + usize::from(first == b'-' || first == b'+'))
}

/// Calls with a slice of the window's size or more, which ends with the same text.
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

/// The last `length` bytes, all digits but for a point or none.
#[inline(always)]
fn plain(bytes: &[u8], length: usize) -> Option<Decimal> {
    let (parts, behind) = digits::<true>(bytes.last_chunk()?, length)?;
    Some(Decimal { digits: join(parts)?, exponent: -(behind as i32) })
}

/// The last `length` bytes, all digits.
#[inline(always)]
fn whole(bytes: &[u8], length: usize) -> Option<u64> {
    join(digits::<false>(bytes.last_chunk()?, length)?.0)
}

/// The last `length` bytes of the window as three numbers of eight digits, and how many of them stand behind the point,
/// if there may be one. `None` where there are no digits or something else than them.
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
    if length > MOST {
        return None;
    }
    let mut decimal = with_window(mantissa, start, |bytes, _| plain(bytes, length))?;
    decimal.exponent += if negative { -magnitude } else { magnitude };
    Some(decimal)
}

/// More characters than can be read together, but zeros all except 19: behind the point, or before the end without one.
#[inline(always)]
fn long(bytes: &[u8], start: usize) -> Option<Decimal> {
    /// So many digits always fit.
    const DIGITS: usize = 19;
    let length = bytes.len() - start;
    // Which of the two it is cannot be foreseen, so there is no branch.
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
    let places = i32::try_from(length).ok()?;
    Some(Decimal { digits, exponent: if is_fraction { 2 - places } else { places - DIGITS as i32 } })
}

/// Whether these bytes are zeros, and 32 of any kind stand before the last of them.
#[inline(always)]
fn are_zeros(bytes: &[u8], from: usize, to: usize) -> bool {
    const PIECE: usize = 32;
    let pieces = bytes[from..to].chunks_exact(PIECE);
    let rest = pieces.remainder().len();
    let mut all = true;
    for piece in pieces {
        all &= piece == [b'0'; PIECE];
    }
    // The end may be seen twice, and with it what stands before.
    let Some(end) = bytes[..to].last_chunk::<PIECE>() else { return false };
    let mut wrong = [0; PIECE];
    for i in 0..PIECE {
        wrong[i] = if i + rest >= PIECE { end[i] ^ b'0' } else { 0 };
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
            // Digits, points here and there, and now and then any byte.
            let mut window: [u8; WINDOW] = std::array::from_fn(|_| b'0' + below(10) as u8);
            for _ in 0..below(3) {
                window[below(WINDOW as u64) as usize] = b'.';
            }
            if round % 4 == 0 {
                window[below(WINDOW as u64) as usize] = below(256) as u8;
            }
            for length in 0..=MOST {
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
