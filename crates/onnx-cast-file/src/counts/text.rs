//! Texts beside the numbers that a cast made of them. They are compared exactly, digit by digit: a text may lie beyond
//! a limit, or beside a number, by less than a double can tell.

use super::{Alarms, Counter, Counts, Means};
use onnx_cast::{Cast, CastError, CastOptions, Data, DataType, StringsView, TensorView};
use std::cmp::Ordering;

/// A magnitude, `0.d1d2d3... * 10^point`. The first digit and the last are not zero; zero has none, and no point.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Decimal {
    digits: Vec<u8>,
    point: i64,
}

/// What the library takes as a number.
#[derive(Clone, Debug)]
enum Text {
    Nan,
    /// Infinity, or a truth value, as the double that it is.
    Word(f64),
    /// A magnitude, and the double next to the number.
    Number(Decimal, f64),
}

impl Decimal {
    /// Digits with a point among them, and an exponent.
    fn of(digits: &[u8], exponent: i64) -> Decimal {
        let whole = digits.iter().position(|&c| c == b'.').unwrap_or(digits.len());
        let mut digits: Vec<u8> = digits.iter().filter(|c| c.is_ascii_digit()).map(|c| c - b'0').collect();
        let zeros = digits.iter().position(|&digit| digit != 0).unwrap_or(digits.len());
        digits.drain(..zeros);
        digits.truncate(digits.iter().rposition(|&digit| digit != 0).map_or(0, |last| last + 1));
        let point = if digits.is_empty() { 0 } else { exponent.saturating_add(whole as i64 - zeros as i64) };
        Decimal { digits, point }
    }

    /// The exact magnitude of a finite double.
    fn of_double(value: f64) -> Decimal {
        let text = format!("{:.*e}", digits_of(value), value.abs());
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        Decimal::of(digits.as_bytes(), exponent.parse().unwrap_or(0))
    }

    /// The double next to it.
    fn double(&self) -> f64 {
        let digits: String = self.digits.iter().map(|digit| char::from(digit + b'0')).collect();
        // Far beyond doubles on either side; more digits than that would take an exponent that no parser reads.
        format!("0.{digits}0e{}", self.point.clamp(-1000, 1000)).parse().unwrap_or(0.0)
    }

    fn cmp(&self, other: &Decimal) -> Ordering {
        let zero = |one: &Decimal| one.digits.is_empty();
        if zero(self) && zero(other) {
            // The point of zero means nothing.
            return Ordering::Equal;
        }
        // Neither ends in zeros, so that the longer of two with the same beginning is the larger.
        zero(other).cmp(&zero(self)).then(self.point.cmp(&other.point)).then_with(|| self.digits.cmp(&other.digits))
    }

    /// The distance to another number of about the same size.
    fn distance(&self, other: &Decimal) -> f64 {
        let (large, small) = if self.cmp(other).is_lt() { (other, self) } else { (self, other) };
        let gap = (large.point - small.point).max(0) as usize;
        let len = large.digits.len().max(gap + small.digits.len());
        let mut digits = large.digits.clone();
        digits.resize(len, 0);
        let mut borrow = 0;
        for (place, digit) in digits.iter_mut().enumerate().rev() {
            let less = place.checked_sub(gap).and_then(|place| small.digits.get(place)).unwrap_or(&0) + borrow;
            borrow = u8::from(*digit < less);
            *digit = *digit + 10 * borrow - less;
        }
        let text: Vec<u8> = digits.iter().map(|digit| digit + b'0').collect();
        Decimal::of(&text, large.point - len as i64).double()
    }
}

/// As many significant digits as a finite double has at most: 767, and far fewer where its last bit is not so small.
fn digits_of(value: f64) -> usize {
    let (field, fraction) = ((value.to_bits() >> 52) & 0x7ff, value.to_bits() & ((1 << 52) - 1));
    let significand = if field == 0 { fraction } else { fraction | 1 << 52 };
    if significand == 0 {
        return 0;
    }
    let last = field.max(1) as i64 - 1075 + i64::from(significand.trailing_zeros());
    // The number is an odd integer times 2^last. Where that is a fraction, it has as many digits as the integer times
    // 5^-last: log10(5) is less than 0.7. An integer has at most one digit more than 0.302 of its bits, of log10(2).
    let bits = i64::from(u64::BITS - (significand >> significand.trailing_zeros()).leading_zeros());
    let (integer, fraction) = (bits + last.max(0), (-last).max(0));
    (integer * 302 / 1000 + fraction * 7 / 10 + 2).min(767) as usize
}

impl Text {
    /// Of a text that has been cast.
    fn of(text: &[u8]) -> Text {
        // C's white space, as the library takes it.
        let is_space = |c: &u8| matches!(c, b' ' | b'\t'..=b'\r');
        let start = text.iter().position(|c| !is_space(c)).unwrap_or(text.len());
        let end = text.iter().rposition(|c| !is_space(c)).map_or(start, |last| last + 1);
        let (sign, rest) = match &text[start..end] {
            [b'-', rest @ ..] => (-1.0, rest),
            [b'+', rest @ ..] | rest => (1.0, rest),
        };
        match rest.first().map(u8::to_ascii_lowercase) {
            Some(b'n') => return Text::Nan,
            Some(b'i') => return Text::Word(sign * f64::INFINITY),
            Some(b't') => return Text::Word(1.0),
            Some(b'f') => return Text::Word(0.0),
            _ => {}
        }
        let end = rest.iter().position(|c| matches!(c, b'e' | b'E')).unwrap_or(rest.len());
        let magnitude = Decimal::of(&rest[..end], exponent(rest.get(end + 1..).unwrap_or_default()));
        let double = sign * magnitude.double();
        Text::Number(magnitude, double)
    }
}

fn exponent(text: &[u8]) -> i64 {
    let (sign, digits) = match text {
        [b'-', digits @ ..] => (-1, digits),
        [b'+', digits @ ..] | digits => (1, digits),
    };
    sign * digits.iter().fold(0i64, |n, c| n.saturating_mul(10).saturating_add(i64::from(c - b'0')))
}

/// How far a number is from its result, which `exact` gives digit by digit.
fn distance(magnitude: &Decimal, number: f64, result: f64, exact: impl FnOnce() -> Decimal) -> f64 {
    // The double next to the text is off by 2^-53 of it at most, and exact where it is an integer of few digits.
    const NEAR: f64 = 1.0 / (1u64 << 26) as f64;
    let near = (number - result).abs();
    let few = magnitude.digits.len() as i64 <= magnitude.point && magnitude.point <= 15;
    let beyond_doubles = !(-400..=400).contains(&magnitude.point);
    if result == 0.0 || few || beyond_doubles || near >= number.abs() * NEAR {
        return near;
    }
    magnitude.distance(&exact())
}

/// Counts texts and their results. NaN and infinities have no error.
fn count(texts: StringsView<'_>, result: &TensorView<'_>) -> Result<(Counts, Means), CastError> {
    let (to, options) = (result.data_type(), CastOptions::new().threads(1));
    let float = to.float_format().is_some();
    let limits = Counter::new(DataType::Double, to)?.limits;
    let largest = Decimal::of_double(if float { limits.high } else { 0.0 });
    let doubles = Cast::new(DataType::Double, &options)?.run(result)?;
    // Integers of 64 bits are more than a double holds.
    let printed = if float { None } else { Some(Cast::new(DataType::String, &options)?.run(result)?) };
    let digits = |index| match printed.as_ref().map(|printed| printed.view().data()) {
        Some(Data::Strings(digits)) => digits.get(index).map(Text::of),
        _ => None,
    };
    let (words, _) = doubles.bytes().unwrap_or_default().as_chunks::<8>();
    let (mut counts, mut means) = (Counts { values: texts.len() as u64, ..Counts::default() }, Means::default());
    for (index, (text, word)) in texts.iter().zip(words).enumerate() {
        let result = f64::from_le_bytes(*word);
        let (magnitude, number) = match Text::of(text) {
            Text::Nan => {
                counts.nan += 1;
                continue;
            }
            Text::Word(word) => (None, word),
            Text::Number(magnitude, number) => (Some(magnitude), number),
        };
        // Of integers none is beyond: the cast refuses it.
        let is_beyond = |magnitude: &Decimal| float && magnitude.cmp(&largest).is_gt();
        let beyond = magnitude.as_ref().map_or(number.is_infinite(), is_beyond);
        let nonzero = magnitude.as_ref().is_some_and(|magnitude| !magnitude.digits.is_empty());
        counts.became_nan += u64::from(result.is_nan());
        counts.infinite += u64::from(magnitude.is_none() && number.is_infinite());
        if beyond && result.abs() == limits.high && result.is_sign_negative() == number.is_sign_negative() {
            counts.saturated += 1;
        } else if result.is_nan() || float && beyond && (result.is_finite() || magnitude.is_some()) {
            counts.overflowed += 1;
        } else if nonzero && result == 0.0 {
            counts.zero += 1;
        } else if nonzero && result.abs() < limits.min_normal {
            counts.subnormal += 1;
        }
        let Some(magnitude) = magnitude.filter(|_| result.is_finite()) else { continue };
        let error = distance(&magnitude, number, result, || match digits(index) {
            Some(Text::Number(magnitude, _)) => magnitude,
            _ => Decimal::of_double(result),
        });
        // What is zero to a double, and became zero, has lost all of itself.
        let relative = if nonzero && result == 0.0 { 1.0 } else { error / number.abs() };
        counts.see_error(error, relative);
        means.see_error(error, relative);
    }
    Ok((counts, means))
}

/// What a cast from or to strings does to the values of a tensor. What is printed reads as the same value again.
pub(crate) fn count_strings(tensor: &TensorView<'_>, result: &TensorView<'_>) -> Result<(Counts, Means), CastError> {
    match (tensor.data(), result.data()) {
        (Data::Strings(texts), Data::Bytes(_)) => count(texts, result),
        (Data::Strings(texts), Data::Strings(_)) => {
            Ok((Counts { values: texts.len() as u64, ..Counts::default() }, Means::default()))
        }
        (Data::Bytes(_), _) => {
            let plan = Cast::new(DataType::String, &CastOptions::new())?.plan(tensor.data_type())?;
            Counts::of(&plan, tensor)
        }
    }
}

/// As [`count_strings`], of [`Alarms`] alone. Texts are compared with their results only where one of these is NaN,
/// infinite, or the largest of its type.
pub(crate) fn alarms_of_strings(tensor: &TensorView<'_>, result: &TensorView<'_>) -> Result<Alarms, CastError> {
    let to = result.data_type();
    if to == DataType::String {
        // What is printed reads as the same value again.
        return Ok(Alarms::default());
    }
    if matches!(tensor.data(), Data::Strings(_)) {
        let limits = Counter::new(DataType::Double, to)?.limits;
        let doubles = Cast::new(DataType::Double, &CastOptions::new().threads(1))?.run(result)?;
        let (words, _) = doubles.bytes().unwrap_or_default().as_chunks::<8>();
        let is_inside = |value: f64| value < limits.high && value > limits.low;
        if to != DataType::Bool && words.iter().all(|word| is_inside(f64::from_le_bytes(*word))) {
            return Ok(Alarms::default());
        }
    }
    Ok(Alarms::from(&count_strings(tensor, result)?.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnx_cast::{Strings, Tensor};

    fn of<T: AsRef<[u8]>>(texts: &[T], to: DataType) -> Counts {
        let mut strings = Strings::new();
        texts.iter().for_each(|text| strings.push(text.as_ref()));
        let tensor = Tensor::strings(vec![texts.len()], strings).expect("texts");
        let plan = Cast::new(to, &CastOptions::new()).and_then(|cast| cast.plan(DataType::String)).expect("a cast");
        Counts::of(&plan, &tensor.view()).expect("counted").0
    }

    #[test]
    fn each_fate_of_a_text() {
        use DataType::{Bool, Double, Float8E4M3FN, Float16, Int4, Int8, Uint64};
        // Overflowed, saturated, zero, subnormal, NaN, infinite.
        for (text, to, want) in [
            ("65504", Float16, [0; 6]),
            ("65504.000000000000000000000001", Float16, [0, 1, 0, 0, 0, 0]),
            ("65520", Float16, [1, 0, 0, 0, 0, 0]),
            ("-1e400", Double, [1, 0, 0, 0, 0, 0]),
            ("-1e99999999999999999999", Float8E4M3FN, [0, 1, 0, 0, 0, 0]),
            ("1e-400", Double, [0, 0, 1, 0, 0, 0]),
            ("0e9", Double, [0; 6]),
            ("-.0", Float16, [0; 6]),
            (" \x0b+NaN\n", Float16, [0, 0, 0, 0, 1, 0]),
            ("-Infinity", Float16, [0, 0, 0, 0, 0, 1]),
            ("inf", Float8E4M3FN, [0, 1, 0, 0, 0, 1]),
            ("6e-8", Float16, [0, 0, 0, 1, 0, 0]),
            ("-0.9", Int8, [0, 0, 1, 0, 0, 0]),
            ("0.5", Int4, [0, 0, 1, 0, 0, 0]),
            ("18446744073709551615", Uint64, [0; 6]),
            ("TRUE", Bool, [0; 6]),
            ("inf", Bool, [0, 0, 0, 0, 0, 1]),
        ] {
            let Counts { overflowed, saturated, zero, subnormal, nan, infinite, .. } = of(&[text], to);
            assert_eq!([overflowed, saturated, zero, subnormal, nan, infinite], want, "{text} to {to}");
        }
    }

    #[test]
    fn errors_are_those_of_the_text() {
        use DataType::{Double, Float, Float16, Int64};
        for (text, to, error, relative) in [
            ("0.5", Float16, 0.0, 0.0),
            ("0.1", Double, 5.551115123125783e-18, 5.551115123125783e-17),
            ("9007199254740993", Double, 1.0, 1.0 / 9007199254740992.0),
            ("9223372036854775807.25", Int64, 0.25, 0.25 / 9223372036854775808.0),
            ("-16777217", Float, 1.0, 1.0 / 16777217.0),
            ("1.0000000000000000000000000000000000001", Float, 1e-37, 1e-37),
            ("1e-400", Double, 0.0, 1.0),
        ] {
            let found = of(&[text], to);
            assert_eq!(found.max_error.to_bits(), f64::to_bits(error), "{text} to {to}: {found:?}");
            assert_eq!(found.max_relative_error.to_bits(), f64::to_bits(relative), "{text} to {to}: {found:?}");
        }
    }

    /// No digit is cut off, and few are asked for.
    #[test]
    fn doubles_have_all_their_digits() {
        let mut state = 1u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state ^ state >> 29
        };
        let numbers = (0..64).flat_map(|shift| (0..100).map(move |_| shift)).map(|shift| random() >> shift << shift);
        let special = [0.0, 5e-324, f64::MIN_POSITIVE, f64::MAX, 0.1, 1.0, 448.0, f64::from(f32::MIN_POSITIVE)];
        for number in numbers.map(f64::from_bits).chain(special).filter(|number| number.is_finite()) {
            let text = format!("{:.766e}", number.abs());
            let (digits, exponent) = text.split_once('e').expect("an exponent");
            let want = Decimal::of(digits.as_bytes(), exponent.parse().expect("an exponent"));
            assert_eq!(Decimal::of_double(number), want, "{number:e}");
            assert!(want.digits.len() <= digits_of(number) + 1, "{number:e}");
        }
        assert!(digits_of(f64::from(0.1f32)) < 40, "{}", digits_of(f64::from(0.1f32)));
    }

    /// Every digit of a double counts as the double.
    #[test]
    fn exact_texts_count_as_their_numbers() {
        let mut state = 1u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            // From 2^-40 to 2^24, few of their digits zero.
            f64::from_bits((state & 0x800f_ffff_ffff_ffff) | (983 + (state >> 32) % 64) << 52)
        };
        let numbers: Vec<f64> = (0..2000).map(|_| random()).collect();
        let texts: Vec<String> = numbers.iter().map(|number| format!("{number:.766e}")).collect();
        let tensor = Tensor::from_slice(vec![numbers.len()], &numbers).expect("a tensor");
        for to in [DataType::Float, DataType::Float16, DataType::BFloat16, DataType::Float8E4M3FN, DataType::Double] {
            let plan = Cast::new(to, &CastOptions::new()).and_then(|cast| cast.plan(DataType::Double)).expect("a cast");
            let (want, _) = Counts::of(&plan, &tensor.view()).expect("counted");
            let got = of(&texts, to);
            for (got, want) in [(got.max_error, want.max_error), (got.max_relative_error, want.max_relative_error)] {
                assert!((got - want).abs() <= want * 1e-9, "{to}: {got}, want {want}");
            }
            let Counts { max_error, max_relative_error, .. } = want;
            assert_eq!(Counts { max_error, max_relative_error, ..got }, want, "{to}");
        }
    }
}
