//! Strings to numbers and back.
//!
//! Printing is plain decimal with the fewest digits that read back as the same value, which is what the standard
//! library's `Display` writes; of two such texts that are equally near, the one whose last digit is even. Reading rounds
//! once, from the decimal text: the standard library rounds it to a double, and where that double could lie on a tie of
//! a narrower type, the text is compared with it exactly, digit by digit, and the double made odd on the side where the
//! text lies.

use super::{FloatElement, Narrow, Rules};
use crate::element::{Element, Float8E8M0, Int2, Int4, Uint2, Uint4};
use crate::error::ParseError;
use std::io::Write;

/// An element that prints as a string.
pub trait Print: Element {
    /// Appends the text.
    fn print(self, out: &mut Vec<u8>);
}

/// An element that can be read from a string.
pub trait Parse: Element {
    /// The element that `text` stands for. `rules` are those of the type.
    ///
    /// # Errors
    /// Where the text is no number of this type.
    fn parse(text: &[u8], rules: &Rules) -> Result<Self, ParseError>;
}

macro_rules! print_float {
    ($float:ty) => {
        impl Print for $float {
            fn print(self, out: &mut Vec<u8>) {
                if self.is_nan() {
                    out.extend_from_slice(b"NaN");
                    return;
                }
                if self.is_infinite() {
                    out.extend_from_slice(if self > 0.0 { b"INF" } else { b"-INF" });
                    return;
                }
                let start = out.len();
                // Writing to a Vec cannot fail.
                let _ = write!(out, "{self}");
                // Half way between two texts as short, `Display` takes the larger. Only fractions can lie there: a whole
                // number that ends in 5 and zeros has too few factors of 2 to be so large that fewer digits suffice.
                let Some(point) = out[start..].iter().position(|&c| c == b'.') else { return };
                let places = out.len() - start - point - 1;
                let last_is_odd = out.last().is_some_and(|digit| digit & 1 == 1);
                if !last_is_odd || lowest_exponent(self.into()) != -(places as i64 + 1) {
                    return;
                }
                // The lowest bit is worth 2^-(places + 1), so the exact decimal is one digit longer than the text, a 5.
                let exact = format!("{self:.*}", places + 1);
                let lower = &exact[..exact.len() - 1];
                if lower.as_bytes() != &out[start..] && lower.parse() == Ok(self) {
                    out.truncate(start);
                    out.extend_from_slice(lower.as_bytes());
                }
            }
        }
    };
}
print_float!(f32);
print_float!(f64);

/// The exponent of the lowest bit that is set in a finite value; that of the smallest subnormal for zero.
fn lowest_exponent(value: f64) -> i64 {
    const SIGNIFICAND: u32 = 52;
    let bits = value.to_bits();
    let field = (bits >> SIGNIFICAND & 0x7ff) as i64;
    // The implicit bit, set for subnormals too, is above every bit that counts.
    let zeros = (bits | 1 << SIGNIFICAND).trailing_zeros();
    field.max(1) - 1023 - i64::from(SIGNIFICAND) + i64::from(zeros)
}

impl Print for bool {
    fn print(self, out: &mut Vec<u8>) {
        out.push(if self { b'1' } else { b'0' });
    }
}

impl Print for Float8E8M0 {
    fn print(self, out: &mut Vec<u8>) {
        super::e8m0::widen(self).print(out);
    }
}

/// The narrower floats print as the `float` that has the same value.
impl<T: FloatElement> Print for T {
    fn print(self, out: &mut Vec<u8>) {
        use crate::element::Word;
        super::widen::widen_code(T::FORMAT, self.to_bits().to_u64() as u32).print(out);
    }
}

macro_rules! print_integer {
    ($($int:ty => $value:expr;)*) => {$(
        impl Print for $int {
            fn print(self, out: &mut Vec<u8>) {
                let _ = write!(out, "{}", $value(self));
            }
        }
    )*};
}
print_integer! {
    i8 => |x| x;
    i16 => |x| x;
    i32 => |x| x;
    i64 => |x| x;
    u8 => |x| x;
    u16 => |x| x;
    u32 => |x| x;
    u64 => |x| x;
    Int2 => Int2::value;
    Int4 => Int4::value;
    Uint2 => Uint2::value;
    Uint4 => Uint4::value;
}

/// A decimal number as its parts; the value is `0.d1d2d3... * 10^point`, with `digits` free of leading zeros.
struct Decimal<'a> {
    negative: bool,
    /// The text from the first digit that is not zero, with the point still in it.
    digits: &'a [u8],
    /// Where the point stands, counted from the first digit that is not zero. Saturates far beyond any type's range.
    point: i64,
}

impl Decimal<'_> {
    fn is_zero(&self) -> bool {
        self.digits.is_empty()
    }

    /// The digits from the first that is not zero.
    fn iter(&self) -> impl Iterator<Item = u8> {
        self.digits.iter().filter(|c| c.is_ascii_digit()).map(|c| c - b'0')
    }
}

/// What a string can stand for.
enum Text<'a> {
    Infinity { negative: bool },
    Nan { negative: bool },
    Number(Decimal<'a>),
}

/// Reads sign, digits, point, exponent; or infinity or NaN in any case. Nothing else is a number.
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
    // Before the point, the place counts the digits up to it; behind it, the zeros passed over, negatively.
    let place = if first < whole { (whole - first) as i64 } else { whole as i64 + 1 - first as i64 };
    Ok(Text::Number(Decimal { negative, digits: &digits[first..], point: place.saturating_add(exponent) }))
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
    // ASCII white space as C's isspace has it: the vertical tab too, which Rust's trim leaves.
    let is_space = |c: &u8| matches!(c, b' ' | b'\t'..=b'\r');
    let start = text.iter().position(|c| !is_space(c)).unwrap_or(text.len());
    let end = text.iter().rposition(|c| !is_space(c)).map_or(start, |last| last + 1);
    &text[start..end]
}

/// A finite text by the standard library's parser, which rounds once and takes everything that `scan` takes.
fn standard<T: std::str::FromStr>(text: &[u8], decimal: &Decimal<'_>) -> Result<T, ParseError> {
    /// That parser counts exponents up to 65536 and guesses beyond, which does not matter unless there are about as many
    /// digits to shift the point back.
    const LONG: usize = 1 << 15;
    if text.len() < LONG {
        return parse_utf8(text);
    }
    let sign = if decimal.negative { "-" } else { "" };
    let mut plain = format!("{sign}0.").into_bytes();
    plain.extend(decimal.iter().map(|digit| digit + b'0'));
    // No type reaches beyond 10^±400.
    let _ = write!(plain, "e{}", decimal.point.clamp(-1000, 1000));
    parse_utf8(&plain)
}

fn parse_utf8<T: std::str::FromStr>(text: &[u8]) -> Result<T, ParseError> {
    std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).ok_or(ParseError::NotANumber)
}

/// A text rounded to odd at double precision, ready to be rounded once more to 51 bits or fewer.
fn parse_odd(text: &[u8]) -> Result<f64, ParseError> {
    let text = trim(text);
    let decimal = match scan(text)? {
        Text::Infinity { negative } => return Ok(if negative { f64::NEG_INFINITY } else { f64::INFINITY }),
        Text::Nan { negative } => return Ok(if negative { -f64::NAN } else { f64::NAN }),
        Text::Number(decimal) => decimal,
    };
    let rounded: f64 = standard(text, &decimal)?;
    let magnitude = rounded.abs().to_bits();
    // A number too large or too small for a double is still a number, not infinity and not zero.
    let odd = if rounded.is_infinite() {
        f64::MAX.to_bits()
    } else if rounded == 0.0 {
        u64::from(!decimal.is_zero())
    } else if magnitude & 0xff_ffff_ffff != 0 {
        // No tie of a type of 24 bits of precision or fewer has these bits set, nor has one of its values: which side
        // of the double the text lies on cannot matter. (Subnormal doubles are far below every narrower type.)
        magnitude
    } else {
        match compare(&decimal, f64::from_bits(magnitude)) {
            std::cmp::Ordering::Less => (magnitude - 1) | 1,
            std::cmp::Ordering::Equal => magnitude,
            std::cmp::Ordering::Greater => magnitude | 1,
        }
    };
    let value = f64::from_bits(odd);
    Ok(if decimal.negative { -value } else { value })
}

/// Compares a decimal's magnitude, not zero, with a positive finite double, exactly.
fn compare(decimal: &Decimal<'_>, value: f64) -> std::cmp::Ordering {
    // A double has at most 767 significant decimal digits, so this is its exact expansion: d.ddd...e±x
    let exact = format!("{value:.766e}");
    let (digits, exponent) = exact.split_once('e').unwrap_or((&exact, "0"));
    let point = exponent.parse::<i64>().unwrap_or(0) + 1;
    let exact = digits.bytes().filter(u8::is_ascii_digit).map(|c| c - b'0');
    decimal.point.cmp(&point).then_with(|| {
        // Pad the shorter of the two with zeros.
        let length = decimal.digits.len().max(digits.len());
        let padded =
            |digits: &mut dyn Iterator<Item = u8>| digits.chain(std::iter::repeat(0)).take(length).collect::<Vec<u8>>();
        padded(&mut decimal.iter()).cmp(&padded(&mut exact.into_iter()))
    })
}

impl Parse for f32 {
    fn parse(text: &[u8], _: &Rules) -> Result<Self, ParseError> {
        parse_native(text)
    }
}

impl Parse for f64 {
    fn parse(text: &[u8], _: &Rules) -> Result<Self, ParseError> {
        parse_native(text)
    }
}

/// `f32` and `f64`, which the standard library reads with one rounding.
fn parse_native<T: std::str::FromStr>(text: &[u8]) -> Result<T, ParseError> {
    let text = trim(text);
    match scan(text)? {
        Text::Number(decimal) => standard(text, &decimal),
        Text::Infinity { .. } | Text::Nan { .. } => parse_utf8(text),
    }
}

impl Parse for Float8E8M0 {
    fn parse(text: &[u8], rules: &Rules) -> Result<Self, ParseError> {
        Ok(Narrow::from_f64(parse_odd(text)?, rules))
    }
}

impl<T: FloatElement> Parse for T {
    fn parse(text: &[u8], rules: &Rules) -> Result<Self, ParseError> {
        Ok(Narrow::from_f64(parse_odd(text)?, rules))
    }
}

impl Parse for bool {
    fn parse(text: &[u8], _: &Rules) -> Result<Self, ParseError> {
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
}

/// How a fraction is rounded away.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fraction {
    Truncate,
    NearestEven,
}

/// The integer that a text stands for.
fn parse_integer(text: &[u8], fraction: Fraction) -> Result<i128, ParseError> {
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
    for digit in decimal.iter().chain(std::iter::repeat(0)).take(whole) {
        magnitude = magnitude * 10 + i128::from(digit);
    }
    if fraction == Fraction::NearestEven {
        let mut rest = decimal.iter().skip(whole);
        let tenths = rest.next().unwrap_or(0);
        let more = rest.any(|digit| digit != 0);
        if tenths > 5 || (tenths == 5 && (more || magnitude & 1 == 1)) {
            magnitude += 1;
        }
    }
    Ok(if decimal.negative { -magnitude } else { magnitude })
}

macro_rules! parse_integer {
    ($($int:ty),*) => {$(
        impl Parse for $int {
            fn parse(text: &[u8], _: &Rules) -> Result<Self, ParseError> {
                parse_integer(text, Fraction::Truncate)?.try_into().map_err(|_| ParseError::OutOfRange)
            }
        }
    )*};
}
parse_integer!(i8, i16, i32, i64, u8, u16, u32, u64);

macro_rules! parse_narrow_integer {
    ($($int:ty, $min:literal, $max:literal;)*) => {$(
        impl Parse for $int {
            fn parse(text: &[u8], _: &Rules) -> Result<Self, ParseError> {
                match parse_integer(text, Fraction::NearestEven)? {
                    value @ $min..=$max => Ok(Element::from_bits(value as u8)),
                    _ => Err(ParseError::OutOfRange),
                }
            }
        }
    )*};
}
parse_narrow_integer! {
    Int4, -8, 7;
    Uint4, 0, 15;
    Int2, -2, 1;
    Uint2, 0, 3;
}
