//! Casts to and from string, in exact decimal arithmetic.
//!
//! Text to number: the decimal becomes a ratio of two big integers, and the target's code is found by the same search
//! and comparison as for numbers. Number to text: the digits are looked for in the interval of reals that read back as
//! the value, shortest first.

use std::cmp::Ordering;

use num_bigint::BigUint;

use crate::exact::{Dyadic, Magnitude, Number, Ratio, decode_exact};
use crate::oracle::{Rules, encode};
use crate::types::{FloatLayout, Kind, Ty};

/// Why a text has no value in the target type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StringError {
    /// It is not a number by the grammar (nor `true` or `false`, to bool).
    NotANumber,
    /// It is a number, but out of the range of the integer type.
    OutOfRange,
    /// It is an infinity or NaN, which an integer type does not have.
    NotFinite,
}

/// A decimal number as written: `digits * 10^exponent`.
struct Decimal {
    digits: String,
    exponent: i64,
}

/// No boundary of any target lies outside `10^-NEVER_BEYOND .. 10^NEVER_BEYOND`: double ends near 1.8e308 and its
/// smallest subnormal is 4.9e-324.
const NEVER_BEYOND: i64 = 400;

/// More digits than any boundary has: a multiple of 2^-1075 that double can round at has some 770 at most.
const ENOUGH_DIGITS: usize = 1200;

impl Decimal {
    /// The value, or for a number too large, too small or too long to be worth writing out another one on the same
    /// side of every boundary.
    fn value(&self) -> Ratio {
        let ten = BigUint::from(10u32);
        let significant = self.digits.trim_start_matches('0');
        let trimmed = significant.trim_end_matches('0');
        let mut exponent = self.exponent.saturating_add((significant.len() - trimmed.len()) as i64);
        if trimmed.is_empty() {
            return Ratio { numerator: BigUint::ZERO, denominator: BigUint::from(1u32) };
        }
        let magnitude = exponent.saturating_add(trimmed.len() as i64);
        if magnitude > NEVER_BEYOND {
            return Ratio { numerator: ten.pow(NEVER_BEYOND as u32), denominator: BigUint::from(1u32) };
        }
        if magnitude < -NEVER_BEYOND {
            return Ratio { numerator: BigUint::from(1u32), denominator: ten.pow(NEVER_BEYOND as u32) };
        }
        let mut digits = trimmed.to_string();
        if digits.len() > ENOUGH_DIGITS {
            // What is cut off is not zero, as its last digit is not; a 1 in its place keeps the value off the point
            // that the kept digits name, and on the same side of it.
            exponent += (digits.len() - ENOUGH_DIGITS - 1) as i64;
            digits.truncate(ENOUGH_DIGITS);
            digits.push('1');
        }
        let digits: BigUint = digits.parse().expect("they are digits");
        if exponent >= 0 {
            Ratio { numerator: digits * ten.pow(exponent as u32), denominator: BigUint::from(1u32) }
        } else {
            Ratio { numerator: digits, denominator: ten.pow(exponent.unsigned_abs() as u32) }
        }
    }
}

/// Reads `[+-](digits[.digits]|.digits)[(e|E)[+-]digits]`, `inf`, `infinity` or `nan`, the words in any case and with
/// an optional sign. None if it is something else.
fn parse(text: &str) -> Option<Number<Decimal>> {
    let (negative, body) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    if ["inf", "infinity"].iter().any(|word| body.eq_ignore_ascii_case(word)) {
        return Some(Number::Infinity { negative });
    }
    if body.eq_ignore_ascii_case("nan") {
        return Some(Number::NaN { negative, payload: 0 });
    }
    let (mantissa, exponent) = match body.find(['e', 'E']) {
        Some(at) => (&body[..at], read_exponent(&body[at + 1..])?),
        None => (body, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    if digits.is_empty() || !digits.bytes().all(|c| c.is_ascii_digit()) {
        return None;
    }
    let exponent = exponent.saturating_sub(fraction.len() as i64);
    Some(Number::Finite { negative, magnitude: Decimal { digits, exponent } })
}

/// An exponent with its sign. One beyond 10^15 is cut to that: no text is long enough to make up for it.
fn read_exponent(text: &str) -> Option<i64> {
    let (negative, digits) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    if digits.is_empty() || !digits.bytes().all(|c| c.is_ascii_digit()) {
        return None;
    }
    let value = digits.bytes().fold(0i64, |value, c| (value * 10 + i64::from(c - b'0')).min(1_000_000_000_000_000));
    Some(if negative { -value } else { value })
}

/// Casts a string element to a numeric type.
///
/// White space around the number is that of ASCII: space, tab, line feed, vertical tab, form feed, carriage return.
///
/// # Errors
/// If the text is not a number, or one that an integer type cannot hold.
///
/// # Panics
/// If the target is string or complex.
pub fn cast_from_string(text: &str, to: Ty, rules: &Rules) -> Result<u64, StringError> {
    let text = text.trim_matches([' ', '\t', '\n', '\x0b', '\x0c', '\r']);
    if to == Ty::Bool {
        for (word, value) in [("true", 1), ("false", 0)] {
            if text.eq_ignore_ascii_case(word) {
                return Ok(value);
            }
        }
    }
    let number = parse(text).ok_or(StringError::NotANumber)?.map(|decimal| decimal.value());
    let Kind::Int { .. } = to.kind() else {
        return Ok(encode(to, number, rules));
    };
    let Number::Finite { negative, magnitude } = number else {
        return Err(StringError::NotFinite);
    };
    let integer = if to.bits() < 8 { magnitude.nearest_integer() } else { magnitude.integer_part() };
    let (low, high) = to.int_range().expect("it is an integer type");
    let value = i128::try_from(integer).map_err(|_| StringError::OutOfRange)? * if negative { -1 } else { 1 };
    if (low..=high).contains(&value) { Ok(value as u64 & to.mask()) } else { Err(StringError::OutOfRange) }
}

/// Casts a number to a string.
///
/// # Panics
/// If the type is string or complex.
pub fn cast_to_string(from: Ty, bits: u64) -> String {
    let number = decode_exact(from, bits);
    let sign = if number.negative() { "-" } else { "" };
    let magnitude = match number {
        Number::NaN { .. } => return "NaN".to_string(),
        Number::Infinity { .. } => return format!("{sign}INF"),
        Number::Finite { magnitude, .. } => magnitude,
    };
    if let Kind::Int { .. } | Kind::Bool = from.kind() {
        return format!("{sign}{}", magnitude.significand);
    }
    // float and all that is narrower print as the float of the same value, which always exists.
    let layout = match from {
        Ty::Double => Ty::Double.layout(),
        _ => Ty::Float.layout(),
    };
    format!("{sign}{}", shortest(&layout.expect("it is a float"), &magnitude))
}

/// The fewest digits that read back as the code of `value`, and of those with as few the nearest to it; of two that
/// are as near the one whose last digit is even.
fn shortest(layout: &FloatLayout, value: &Dyadic) -> String {
    if value.is_zero() {
        return "0".to_string();
    }
    let code = value.nearest_code(layout);
    // The reals that round to the code lie between these two, which belong to it if it is even.
    let low = Ratio::from(Dyadic::midpoint(&layout.value(code - 1), &layout.value(code)));
    let high = Dyadic::midpoint(&layout.value(code), &layout.value(code + 1));
    let (low, high) = (low, Ratio::from(high));
    let reads_back = |scaled: &BigUint, scale: &Ratio| {
        // scaled * 10^place, where scale = 10^place.
        let candidate = Ratio { numerator: scaled * &scale.numerator, denominator: scale.denominator.clone() };
        let inside = |order: Ordering| order.is_lt() || (code.is_multiple_of(2) && order.is_eq());
        inside(compare(&low, &candidate)) && inside(compare(&candidate, &high))
    };
    let value = Ratio::from(*value);
    let leading = leading_place(&value);
    for digits in 1.. {
        let place = leading - digits + 1;
        let scale = power_of_ten(place);
        // value / 10^place = numerator / denominator.
        let numerator = &value.numerator * &scale.denominator;
        let denominator = &value.denominator * &scale.numerator;
        let below = &numerator / &denominator;
        let rest = &numerator - &below * &denominator;
        let above = &below + 1u32;
        let prefer_above = match (&rest * 2u32).cmp(&denominator) {
            Ordering::Less => false,
            Ordering::Equal => below.bit(0),
            Ordering::Greater => true,
        };
        // The value lies inside the interval, so if any multiple of 10^place does, one of these two does.
        let order = if prefer_above { [above, below] } else { [below, above] };
        if let Some(found) = order.into_iter().find(|candidate| reads_back(candidate, &scale)) {
            return plain(&found.to_string(), place);
        }
    }
    unreachable!("enough digits give the value itself")
}

fn compare(a: &Ratio, b: &Ratio) -> Ordering {
    (&a.numerator * &b.denominator).cmp(&(&b.numerator * &a.denominator))
}

fn power_of_ten(place: i32) -> Ratio {
    let power = BigUint::from(10u32).pow(place.unsigned_abs());
    let one = BigUint::from(1u32);
    if place >= 0 { Ratio { numerator: power, denominator: one } } else { Ratio { numerator: one, denominator: power } }
}

/// The place of the first digit: the greatest `p` with `10^p <= value`.
fn leading_place(value: &Ratio) -> i32 {
    // log10(2) is a little above 0.30102; the guess is within one of the truth and is then put right by comparison.
    let bits = value.numerator.bits() as i64 - value.denominator.bits() as i64;
    let mut place = (bits * 30103 / 100_000) as i32 - 1;
    while compare(&power_of_ten(place + 1), value).is_le() {
        place += 1;
    }
    while compare(&power_of_ten(place), value).is_gt() {
        place -= 1;
    }
    place
}

/// `digits * 10^place` without an exponent.
fn plain(digits: &str, place: i32) -> String {
    if place >= 0 {
        return format!("{digits}{}", "0".repeat(place as usize));
    }
    let after = place.unsigned_abs() as usize;
    let padded = format!("{digits:0>width$}", width = after + 1);
    let (whole, fraction) = padded.split_at(padded.len() - after);
    let fraction = fraction.trim_end_matches('0');
    if fraction.is_empty() { whole.to_string() } else { format!("{whole}.{fraction}") }
}

/// The exact decimal digits of a dyadic number.
pub fn exact_decimal(value: &Dyadic) -> String {
    if value.exponent >= 0 {
        return (BigUint::from(value.significand) << value.exponent as u32).to_string();
    }
    // s / 2^k = s * 5^k / 10^k
    let after = value.exponent.unsigned_abs();
    plain(&(BigUint::from(value.significand) * BigUint::from(5u32).pow(after)).to_string(), value.exponent)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generators::{NOT_NUMBERS, NUMBER_TEXTS, Rng, every};
    use crate::oracle::RoundMode;

    fn read(text: &str, to: Ty) -> Result<u64, StringError> {
        cast_from_string(text, to, &Rules::default())
    }

    #[test]
    fn numbers_are_written_plain_and_shortest() {
        for (from, bits, text) in [
            (Ty::Float, u64::from(1f32.to_bits()), "1"),
            (Ty::Float, u64::from(1e8f32.to_bits()), "100000000"),
            (Ty::Float, u64::from(0.1f32.to_bits()), "0.1"),
            (Ty::Double, 0.1f64.to_bits(), "0.1"),
            (Ty::Double, (0.1f64 + 0.2).to_bits(), "0.30000000000000004"),
            (Ty::Double, 1e23f64.to_bits(), "100000000000000000000000"),
            (Ty::Double, 9007199254740993e3f64.to_bits(), "9007199254740993000"),
            // Half way between two shortest forms: the even digit.
            (Ty::Double, (2f64.powi(50) + 0.25).to_bits(), "1125899906842624.2"),
            (Ty::Double, (2f64.powi(50) + 0.75).to_bits(), "1125899906842624.8"),
            (Ty::Float, u64::from((2f32.powi(21) + 0.25).to_bits()), "2097152.2"),
            (Ty::Float, u64::from(f32::MAX.to_bits()), "340282350000000000000000000000000000000"),
            (Ty::Float16, 0x2e66, "0.099975586"),
            (Ty::Float16, 0x8000, "-0"),
            (Ty::Float16, 0x7c00, "INF"),
            (Ty::Bfloat16, 0xff80, "-INF"),
            (Ty::Double, 0xfff8_0000_0000_0000, "NaN"),
            (Ty::Float8E5M2FNUZ, 0x80, "NaN"),
            (Ty::Float8E4M3FN, 0x7e, "448"),
            (Ty::Float4E2M1, 0x9, "-0.5"),
            (Ty::Float8E8M0, 0x7e, "0.5"),
            (Ty::Int8, 0x80, "-128"),
            (Ty::Uint64, u64::MAX, "18446744073709551615"),
            (Ty::Int2, 0b11, "-1"),
            (Ty::Bool, 7, "1"),
            (Ty::Bool, 0, "0"),
        ] {
            assert_eq!(cast_to_string(from, bits), text, "{} {bits:#x}", from.name());
        }
    }

    #[test]
    fn decimals_round_once() {
        for (text, to, bits) in [
            ("1.00048828126", Ty::Float16, 0x3c01),
            ("1.00048828125", Ty::Float16, 0x3c00),
            ("1e-310", Ty::Double, 0x0000_1268_8B70_E62B),
            ("1e400", Ty::Double, 0x7ff0_0000_0000_0000),
            ("-1e400", Ty::Float, 0xff80_0000),
            ("1e999999999999999999999", Ty::Float16, 0x7c00),
            ("-1e-999999999999999999999", Ty::Float16, 0x8000),
            ("1.00000017881393432617187499", Ty::Float, 0x3f80_0001),
            ("1.00390626", Ty::Bfloat16, 0x3f81),
            ("1.06250000000001", Ty::Float8E4M3FN, 0x39),
            ("65519.999999999999999", Ty::Float16, 0x7bff),
            ("65520", Ty::Float16, 0x7c00),
            ("nan", Ty::Float, 0x7fc0_0000),
            ("-NaN", Ty::Float, 0xffc0_0000),
            ("+Infinity", Ty::Float, 0x7f80_0000),
            ("-inf", Ty::Float8E4M3FN, 0xfe),
            ("nan", Ty::Float4E2M1, 0x8),
            ("3", Ty::Float8E8M0, 0x81),
            ("0", Ty::Float8E8M0, 0x00),
            ("-0.0", Ty::Float, 0x8000_0000),
            ("-0", Ty::Float8E5M2FNUZ, 0),
            (" \t5.\n", Ty::Float, 0x40a0_0000),
            (".5", Ty::Float, 0x3f00_0000),
            ("100.5", Ty::Int8, 100),
            ("-128.9", Ty::Int8, 0x80),
            ("1e3", Ty::Uint16, 1000),
            ("+5", Ty::Int64, 5),
            ("00012", Ty::Int32, 12),
            ("-0.9", Ty::Uint8, 0),
            ("2.5", Ty::Int4, 2),
            ("-8.5", Ty::Int4, 8),
            ("18446744073709551615.5", Ty::Uint64, u64::MAX),
            ("-9223372036854775808", Ty::Int64, 1 << 63),
            ("TRUE", Ty::Bool, 1),
            ("False", Ty::Bool, 0),
            ("0e5", Ty::Bool, 0),
            ("1e-99999", Ty::Bool, 1),
            ("-0", Ty::Bool, 0),
        ] {
            assert_eq!(read(text, to), Ok(bits), "{text:?} to {}", to.name());
        }
    }

    #[test]
    fn what_is_no_number_is_an_error() {
        for text in NUMBER_TEXTS {
            assert!(read(text, Ty::Double).is_ok(), "{text:?}");
        }
        for text in NOT_NUMBERS.into_iter().chain(["e5", "true"]) {
            for to in [Ty::Float, Ty::Int32, Ty::Bool].into_iter().filter(|&to| (text, to) != ("true", Ty::Bool)) {
                assert_eq!(read(text, to), Err(StringError::NotANumber), "{text:?} to {}", to.name());
            }
        }
        for (text, to) in [
            ("128", Ty::Int8),
            ("-1", Ty::Uint8),
            ("7.5", Ty::Int4),
            ("1e999999999999", Ty::Int64),
            ("18446744073709551616", Ty::Uint64),
            ("-8.6", Ty::Int4),
            ("3.5", Ty::Uint2),
        ] {
            assert_eq!(read(text, to), Err(StringError::OutOfRange), "{text:?} to {}", to.name());
        }
        assert_eq!(read("inf", Ty::Int8), Err(StringError::NotFinite));
        assert_eq!(read("-nan", Ty::Uint2), Err(StringError::NotFinite));
    }

    #[test]
    fn long_texts_keep_their_value() {
        let zeros = "0".repeat(3000);
        let tie = "1.00048828125";
        assert_eq!(read(&format!("{tie}{zeros}"), Ty::Float16), Ok(0x3c00));
        assert_eq!(read(&format!("{tie}{zeros}1"), Ty::Float16), Ok(0x3c01));
        assert_eq!(read(&format!("0.{zeros}1e3001"), Ty::Float), Ok(0x3f80_0000));
        assert_eq!(read(&format!("1{zeros}e-3000"), Ty::Float), Ok(0x3f80_0000));
        assert_eq!(read(&format!("{zeros}7"), Ty::Int4), Ok(7));
    }

    #[test]
    fn agrees_with_the_standard_library_on_float_and_double() {
        let mut rng = Rng::new(1);
        for _ in 0..20_000 {
            let double = f64::from_bits(rng.next_u64());
            let single = f32::from_bits(rng.next_u64() as u32);
            if double.is_finite() {
                let text = cast_to_string(Ty::Double, double.to_bits());
                assert_eq!(text.parse::<f64>().unwrap().to_bits(), double.to_bits());
                assert_eq!(text.len(), format!("{double}").len(), "{double}");
                assert_eq!(read(&text, Ty::Double), Ok(double.to_bits()), "{text}");
            }
            if single.is_finite() {
                let text = cast_to_string(Ty::Float, single.to_bits().into());
                assert_eq!(text.parse::<f32>().unwrap().to_bits(), single.to_bits());
                assert_eq!(text.len(), format!("{single}").len(), "{single}");
                assert_eq!(read(&text, Ty::Float), Ok(single.to_bits().into()), "{text}");
            }
            let digits = 1 + rng.below(25);
            let mantissa: String = (0..digits).map(|_| char::from(b'0' + rng.below(10) as u8)).collect();
            let text = format!("{mantissa}e{}", rng.below(700) as i64 - 360);
            assert_eq!(read(&text, Ty::Double), Ok(text.parse::<f64>().unwrap().to_bits()), "{text}");
            assert_eq!(read(&text, Ty::Float), Ok(text.parse::<f32>().unwrap().to_bits().into()), "{text}");
        }
    }

    #[test]
    fn every_value_of_a_narrow_type_reads_back() {
        for ty in Ty::NUMERIC.into_iter().filter(|ty| ty.bits() <= 16) {
            // The decimals of float8e8m0 are those of a float, some a little above the power of two: `up` would read
            // the next power, as it should.
            let rules = Rules { round_mode: RoundMode::Nearest, ..Rules::default() };
            for bits in every(ty) {
                let text = cast_to_string(ty, bits);
                match (ty.kind(), cast_from_string(&text, ty, &rules)) {
                    (Kind::Bool, got) => assert_eq!(got, Ok(u64::from(bits != 0))),
                    (_, Ok(got)) if text == "NaN" => assert_eq!(cast_to_string(ty, got), text),
                    (_, Ok(got)) if text.ends_with("INF") && ty.is_float8() => assert!(got & 0x7f == 0x7b, "{text}"),
                    (_, got) => assert_eq!(got, Ok(bits), "{} {bits:#x} {text}", ty.name()),
                }
            }
        }
    }

    #[test]
    fn exact_decimals() {
        assert_eq!(exact_decimal(&Dyadic { significand: 3, exponent: -2 }), "0.75");
        assert_eq!(exact_decimal(&Dyadic { significand: 3, exponent: 5 }), "96");
        assert_eq!(exact_decimal(&Dyadic::power_of_two(-24)), "0.000000059604644775390625");
    }
}
