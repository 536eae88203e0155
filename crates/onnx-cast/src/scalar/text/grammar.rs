//! The full grammar of numbers, and their values, rounded once. A number is a sign, digits, a point and an exponent, of
//! any length, or a word, with optional white space around it. The standard library rounds it to a double. Where that
//! double could be a tie of a narrower type, the text is compared with it exactly, digit by digit, and the double is
//! rounded to odd on the side of the text.

use super::ParseError;
use alloc::format;
use alloc::vec::Vec;

/// The parts of a decimal number. The value is `0.d1d2d3... * 10^point`; `digits` has no leading zeros.
struct Decimal<'a> {
    negative: bool,
    /// The text from the first nonzero digit on, including the point.
    digits: &'a [u8],
    /// The position of the point relative to the first nonzero digit. Saturates far beyond the range of any type.
    point: i64,
}

impl Decimal<'_> {
    fn is_zero(&self) -> bool {
        self.digits.is_empty()
    }

    /// The digits from the first nonzero digit on.
    fn iter(&self) -> impl Iterator<Item = u8> {
        self.digits.iter().filter(|c| c.is_ascii_digit()).map(|c| c - b'0')
    }
}

/// What a text can represent.
enum Text<'a> {
    Infinity { negative: bool },
    Nan { negative: bool },
    Number(Decimal<'a>),
}

/// Splits a number into sign, digits, point and exponent, or recognises infinity or NaN in any case. Other texts are
/// errors.
fn scan(text: &[u8]) -> Result<Text<'_>, ParseError> {
    let (negative, rest) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    if [&b"inf"[..], b"infinity"].iter().any(|word| rest.eq_ignore_ascii_case(word)) {
        return Ok(Text::Infinity { negative });
    }
    if rest.eq_ignore_ascii_case(b"nan") {
        return Ok(Text::Nan { negative });
    }
    let end = rest.iter().position(|c| matches!(c, b'e' | b'E')).unwrap_or(rest.len());
    let (digits, exponent) = rest.split_at(end);
    let whole = digits.iter().position(|&c| c == b'.').unwrap_or(digits.len());
    let fraction = digits.get(whole + 1..).unwrap_or_default();
    let all_digits = |part: &[u8]| part.iter().all(u8::is_ascii_digit);
    if whole + fraction.len() == 0 || !all_digits(&digits[..whole]) || !all_digits(fraction) {
        return Err(ParseError::NotANumber);
    }
    let exponent = match exponent {
        [] => 0,
        [_, rest @ ..] => scan_exponent(rest)?,
    };
    let first = digits.iter().position(|c| matches!(c, b'1'..=b'9')).unwrap_or(digits.len());
    // Positive: the number of digits before the point. Otherwise: minus the number of zeros after it.
    let point = if first < whole { (whole - first) as i64 } else { whole as i64 + 1 - first as i64 };
    Ok(Text::Number(Decimal { negative, digits: &digits[first..], point: point.saturating_add(exponent) }))
}

fn scan_exponent(text: &[u8]) -> Result<i64, ParseError> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(ParseError::NotANumber);
    }
    let magnitude = digits.iter().fold(0i64, |n, c| n.saturating_mul(10).saturating_add(i64::from(c - b'0')));
    Ok(if negative { -magnitude } else { magnitude })
}

fn trim(text: &[u8]) -> &[u8] {
    // ASCII white space as in C's `isspace`, which includes the vertical tab; Rust's `trim_ascii` does not.
    let is_space = |c: &u8| matches!(c, b' ' | b'\t'..=b'\r');
    let start = text.iter().position(|c| !is_space(c)).unwrap_or(text.len());
    let end = text.iter().rposition(|c| !is_space(c)).map_or(start, |last| last + 1);
    &text[start..end]
}

/// Parses a finite number with the standard library, which rounds once and accepts everything that `scan` accepts.
fn standard<T: core::str::FromStr>(text: &[u8], decimal: &Decimal<'_>) -> Result<T, ParseError> {
    /// The standard library's parser reads exponents up to 65536 and approximates larger ones. That matters only if
    /// about as many digits shift the point back, so long texts are normalised first.
    const LONG: usize = 1 << 15;
    if text.len() < LONG {
        return parse_utf8(text);
    }
    let sign = if decimal.negative { "-" } else { "" };
    let mut plain = format!("{sign}0.").into_bytes();
    plain.extend(decimal.iter().map(|digit| digit + b'0'));
    // Every type's range lies within 10^±400.
    plain.extend_from_slice(format!("e{}", decimal.point.clamp(-1000, 1000)).as_bytes());
    parse_utf8(&plain)
}

fn parse_utf8<T: core::str::FromStr>(text: &[u8]) -> Result<T, ParseError> {
    core::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).ok_or(ParseError::NotANumber)
}

/// The value of a text rounded to odd to double precision, so that a second rounding to 51 bits or fewer is exact.
pub(super) fn parse_odd(text: &[u8]) -> Result<f64, ParseError> {
    let text = trim(text);
    let decimal = match scan(text)? {
        Text::Infinity { negative } => return Ok(if negative { f64::NEG_INFINITY } else { f64::INFINITY }),
        Text::Nan { negative } => return Ok(if negative { -f64::NAN } else { f64::NAN }),
        Text::Number(decimal) => decimal,
    };
    let rounded: f64 = standard(text, &decimal)?;
    let magnitude = rounded.abs().to_bits();
    // A number too large for a double is still finite, and one too small is still not zero.
    let odd = if rounded.is_infinite() {
        f64::MAX.to_bits()
    } else if rounded == 0.0 {
        u64::from(!decimal.is_zero())
    } else if magnitude & 0xff_ffff_ffff != 0 {
        // Neither values nor ties of a type with 24 bits of precision or fewer have any of these bits set, so the
        // result does not depend on the side of the double on which the text lies. (Subnormal doubles are far below the
        // range of every narrower type.)
        magnitude
    } else {
        match compare(&decimal, f64::from_bits(magnitude)) {
            core::cmp::Ordering::Less => (magnitude - 1) | 1,
            core::cmp::Ordering::Equal => magnitude,
            core::cmp::Ordering::Greater => magnitude | 1,
        }
    };
    let value = f64::from_bits(odd);
    Ok(if decimal.negative { -value } else { value })
}

/// Compares a decimal's magnitude, not zero, with a positive finite double, exactly.
fn compare(decimal: &Decimal<'_>, value: f64) -> core::cmp::Ordering {
    // A double has at most 767 significant decimal digits, so this is its exact expansion, d.ddd...e±x.
    let exact = format!("{value:.766e}");
    let (digits, exponent) = exact.split_once('e').unwrap_or((&exact, "0"));
    let point = exponent.parse::<i64>().unwrap_or(0) + 1;
    let exact = digits.bytes().filter(u8::is_ascii_digit).map(|c| c - b'0');
    decimal.point.cmp(&point).then_with(|| {
        // Pad the shorter of the two with zeros.
        let length = decimal.digits.len().max(digits.len());
        let padded = |digits: &mut dyn Iterator<Item = u8>| {
            digits.chain(core::iter::repeat(0)).take(length).collect::<Vec<u8>>()
        };
        padded(&mut decimal.iter()).cmp(&padded(&mut exact.into_iter()))
    })
}

/// Parses `f32` and `f64`, which the standard library rounds once.
pub(super) fn parse_native<T: core::str::FromStr>(text: &[u8]) -> Result<T, ParseError> {
    let text = trim(text);
    match scan(text)? {
        Text::Number(decimal) => standard(text, &decimal),
        Text::Infinity { .. } | Text::Nan { .. } => parse_utf8(text),
    }
}

/// A bool: a number, which is true unless zero, or the word `true` or `false`.
pub(super) fn parse_bool(text: &[u8]) -> Result<bool, ParseError> {
    let text = trim(text);
    if text.eq_ignore_ascii_case(b"true") {
        return Ok(true);
    }
    if text.eq_ignore_ascii_case(b"false") {
        return Ok(false);
    }
    Ok(match scan(text)? {
        Text::Number(decimal) => !decimal.is_zero(),
        Text::Infinity { .. } | Text::Nan { .. } => true,
    })
}

/// How an integer target rounds a fraction.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Fraction {
    Truncate,
    NearestEven,
}

/// The integer that a text represents.
pub(super) fn parse_integer(text: &[u8], fraction: Fraction) -> Result<i128, ParseError> {
    let Text::Number(decimal) = scan(trim(text))? else { return Err(ParseError::NotFinite) };
    if decimal.is_zero() || decimal.point < 0 {
        return Ok(0);
    }
    // 2^64 has 20 digits.
    if decimal.point > 20 {
        return Err(ParseError::OutOfRange);
    }
    let whole = decimal.point as usize;
    let mut magnitude = 0i128;
    for digit in decimal.iter().chain(core::iter::repeat(0)).take(whole) {
        magnitude = magnitude * 10 + i128::from(digit);
    }
    if fraction == Fraction::NearestEven {
        let mut decimals = decimal.iter().skip(whole);
        let tenths = decimals.next().unwrap_or(0);
        let more = decimals.any(|digit| digit != 0);
        if tenths > 5 || (tenths == 5 && (more || magnitude & 1 == 1)) {
            magnitude += 1;
        }
    }
    Ok(if decimal.negative { -magnitude } else { magnitude })
}
