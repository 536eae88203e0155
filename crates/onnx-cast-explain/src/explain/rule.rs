//! Which rule of Cast decided: found by comparing the source, the result and the neighbours, never by rounding.

use super::{Neighbour, Neighbours, Side, integer_limits};
use crate::decimal::Decimal;
use crate::error::{ExplainError, Result};
use crate::value::{Element, ExactValue, value_of};
use num_bigint::BigInt;
use onnx_cast::types::{FloatFormat, Kind, Nan};
use onnx_cast::{DataType, RoundMode};

/// A rule: a word for machines, a sentence for people.
#[derive(Debug)]
pub(crate) struct Rule {
    pub(crate) id: &'static str,
    pub(crate) text: String,
}

#[derive(Clone, Copy)]
pub(crate) struct Settings {
    pub(crate) version: i64,
    pub(crate) saturate: bool,
    pub(crate) round_mode: RoundMode,
}

pub(super) fn rule(id: &'static str, text: impl Into<String>) -> Result<Rule> {
    Ok(Rule { id, text: text.into() })
}

pub(crate) fn find(source: &Side, result: &Side, around: &Neighbours, settings: Settings) -> Result<Rule> {
    let (from, to) = (source.data_type, result.data_type);
    match to.info().kind {
        _ if from == to && from != DataType::Bool => rule("same-type", "the same type: the bits stay as they are"),
        Kind::String => printed(source),
        Kind::Bool => truth(source),
        Kind::Float(_) if to.obeys_round_mode() => scale(source, result, around, settings),
        Kind::Float(format) => float(format, source, result, around, settings),
        Kind::Int | Kind::Uint if from.is_float() || from == DataType::String => integer(source, result, around),
        _ => low_bits(source, result),
    }
}

fn printed(source: &Side) -> Result<Rule> {
    match source.data_type.info().kind {
        Kind::Bool => rule("print-bool", "true prints as 1, false as 0"),
        Kind::Float(_) if source.value.number().is_none() => {
            rule("print-special", "what is not a finite number prints as NaN, INF or -INF")
        }
        Kind::Float(_) => {
            let read_as = if source.data_type == DataType::Double { "double" } else { "float" };
            rule(
                "print-shortest",
                format!("plain decimal, with the fewest digits that read back as the same {read_as}"),
            )
        }
        _ => rule("print-integer", "an integer prints as its decimal digits"),
    }
}

fn truth(source: &Side) -> Result<Rule> {
    match &source.value {
        ExactValue::Number { number, .. } if number.is_zero() => rule("zero-is-false", "zero of either sign is false"),
        ExactValue::Number { .. } => rule("nonzero-is-true", "every number but zero is true"),
        _ => rule("nonzero-is-true", "everything but zero is true, NaN and infinities too"),
    }
}

fn float(format: FloatFormat, source: &Side, result: &Side, around: &Neighbours, settings: Settings) -> Result<Rule> {
    let to = result.data_type;
    match &source.value {
        ExactValue::Nan { .. } => nan_to_float(format, to, settings),
        ExactValue::Infinity { .. } => match result.value {
            ExactValue::Infinity { .. } => rule("infinity", "infinity stays infinity"),
            ExactValue::Nan { .. } if settings.saturate => rule(
                "infinity-to-nan",
                format!(
                    "Cast-19 to Cast-23 turn an infinity to NaN in {to}, even where they saturate (Cast-24 on: its largest value)"
                ),
            ),
            ExactValue::Nan { .. } => {
                rule("infinity-to-nan", format!("saturate is false and {to} has no infinity: NaN"))
            }
            ExactValue::Number { .. } if format.nan == Nan::None => {
                rule("infinity-saturates", format!("{to} has neither infinity nor NaN: its largest value of that sign"))
            }
            ExactValue::Number { .. } => {
                rule("infinity-saturates", "saturate is true: an infinity gives the largest value of that sign")
            }
        },
        ExactValue::Number { number, .. } if number.is_zero() => {
            match (source.value.is_negative(), result.value.is_negative()) {
                (true, false) => rule("zero", format!("zero is exact; {to} has no -0")),
                _ => rule("zero", "zero is exact, and keeps its sign"),
            }
        }
        ExactValue::Number { number, .. } => match &result.value {
            ExactValue::Number { number: rounded, .. } if rounded == number => {
                let how = if is_subnormal(to, format, rounded)? { " (as a subnormal)" } else { "" };
                rule("exact", format!("{to} holds the value exactly{how}: nothing is rounded"))
            }
            ExactValue::Number { number: rounded, .. } if beyond(to, format, number)? => {
                let why = if format.nan == Nan::None {
                    format!("{to} has neither infinity nor NaN, so it always saturates:")
                } else {
                    "saturate is true:".to_owned()
                };
                rule(
                    "overflow-saturates",
                    format!("out of range, and {why} the largest of its sign, {}", rounded.readable()),
                )
            }
            ExactValue::Number { number: rounded, .. } => nearest(to, format, number, rounded, around),
            ExactValue::Infinity { .. } => {
                let why = if to.obeys_saturate() { "out of range and saturate is false" } else { "out of range" };
                rule("overflow-to-infinity", format!("{why}: rounded, it lies past the largest value: infinity"))
            }
            ExactValue::Nan { .. } => {
                rule("overflow-to-nan", format!("out of range, saturate is false, and {to} has no infinity: NaN"))
            }
        },
    }
}

fn nan_to_float(format: FloatFormat, to: DataType, settings: Settings) -> Result<Rule> {
    match format.nan {
        Nan::None if settings.version == 23 => {
            rule("nan-without-code", format!("{to} has no NaN: Cast-23 writes the largest value (Cast-24 on: -0)"))
        }
        Nan::None => rule("nan-without-code", format!("{to} has no NaN: -0 is written")),
        Nan::AboveInfinity if format.bits > 8 => {
            rule("nan", "NaN stays NaN: sign kept, quiet bit set, as much of the payload as fits")
        }
        Nan::AboveInfinity | Nan::AllOnes => {
            rule("nan", format!("NaN stays NaN, in the one code that {to} is given, sign kept"))
        }
        _ => rule("nan", format!("NaN stays NaN: {to} has one code for it")),
    }
}

/// Nearest, ties to even: which of the two it was, and why.
fn nearest(
    to: DataType,
    format: FloatFormat,
    number: &Decimal,
    rounded: &Decimal,
    around: &Neighbours,
) -> Result<Rule> {
    let tie = match (&around.below, &around.above) {
        (Some(below), Some(above)) => below.distance == above.distance,
        // At the last value, the tie is with the one that would come next.
        _ => half_step_past_largest(to, format)? == number.abs(),
    };
    let subnormal = is_subnormal(to, format, rounded)?;
    let (id, mut text) = match (rounded.is_zero(), tie) {
        (true, false) => ("underflow-to-zero", "underflow: nearer to zero than to the smallest subnormal".to_owned()),
        (true, true) => (
            "underflow-to-zero",
            "underflow: halfway between zero and the smallest subnormal, a tie that goes to even, zero".to_owned(),
        ),
        (false, true) => ("tie-to-even", "halfway between two values: the one whose last bit is 0".to_owned()),
        (false, false) => ("nearest", "rounded once, from the exact value, to the nearest".to_owned()),
    };
    if rounded.is_zero() && number.is_negative() {
        text += if format.negative_zero { "; the sign is kept" } else { "; the type has no -0" };
    }
    if subnormal {
        text += " (the result is subnormal)";
    }
    rule(id, text)
}

fn largest(to: DataType, format: FloatFormat) -> Result<Decimal> {
    let value = value_of(to, &Element::Code(format.max_code()))?;
    Ok(value.number().cloned().unwrap_or_else(Decimal::zero))
}

/// The largest value and half the step below it once more: from there on, rounding leads past the largest value (at the
/// point itself, where the largest code is odd).
fn half_step_past_largest(to: DataType, format: FloatFormat) -> Result<Decimal> {
    let largest = largest(to, format)?;
    let before = value_of(to, &Element::Code(format.max_code() - 1))?;
    let before = before.number().cloned().unwrap_or_else(Decimal::zero);
    // largest - (before - largest) / 2
    Ok(&largest - &(&before - &largest).half())
}

fn beyond(to: DataType, format: FloatFormat, number: &Decimal) -> Result<bool> {
    let limit = half_step_past_largest(to, format)?;
    let magnitude = number.abs();
    Ok(magnitude > limit || (magnitude == limit && format.max_code() % 2 == 1))
}

fn is_subnormal(to: DataType, format: FloatFormat, number: &Decimal) -> Result<bool> {
    let normal = value_of(to, &Element::Code(format.min_normal_code()))?;
    Ok(!number.is_zero() && normal.number().is_some_and(|normal| number.abs() < *normal))
}

/// `float8e8m0`.
fn scale(source: &Side, result: &Side, around: &Neighbours, settings: Settings) -> Result<Rule> {
    let Settings { saturate, round_mode, .. } = settings;
    let outcome = |low: bool| match (saturate, low) {
        (true, true) => "saturate is true: the smallest value, 2^-127",
        (true, false) => "saturate is true: the largest value, 2^127",
        (false, _) => "saturate is false: NaN",
    };
    let number = match &source.value {
        ExactValue::Nan { .. } => return rule("nan", "NaN stays NaN: float8e8m0 has one code for it"),
        ExactValue::Infinity { negative: false } => {
            return rule("infinity-saturates", format!("float8e8m0 has no infinity; {}", outcome(false)));
        }
        ExactValue::Infinity { negative: true } => {
            return rule("not-positive", format!("float8e8m0 has no negative values; {}", outcome(true)));
        }
        ExactValue::Number { number, .. } => number,
    };
    if number.is_zero() {
        return rule("not-positive", format!("float8e8m0 has no zero; {}", outcome(true)));
    }
    if number.is_negative() {
        return rule("not-positive", format!("float8e8m0 has no negative values; {}", outcome(true)));
    }
    if result.value.number() == Some(number) {
        return rule("exact", "a power of two, which float8e8m0 holds exactly");
    }
    match (&around.below, &around.above) {
        (None, _) => rule("underflow-saturates", format!("below the smallest value; {}", outcome(true))),
        (_, None) => rule("overflow-saturates", format!("above the largest value; {}", outcome(false))),
        (Some(below), Some(above)) => match round_mode {
            RoundMode::Up => rule("round-up", "round_mode is up: the next power of two that is not below"),
            RoundMode::Down => rule("round-down", "round_mode is down: the next power of two that is not above"),
            RoundMode::Nearest if below.distance == above.distance => {
                rule("tie-up", "round_mode is nearest: halfway between two powers of two, the upper one")
            }
            RoundMode::Nearest => rule("nearest", "round_mode is nearest: the nearer power of two"),
            _ => Err(ExplainError::request(format_args!("no words for round_mode {round_mode}"))),
        },
    }
}

/// From a float or a text to an integer.
fn integer(source: &Side, result: &Side, around: &Neighbours) -> Result<Rule> {
    let to = result.data_type;
    let narrow = to.is_packed();
    let number = match &source.value {
        ExactValue::Nan { .. } => return rule("nan-to-zero", "NaN gives 0"),
        ExactValue::Infinity { .. } if narrow => {
            return rule("infinity-to-zero", format!("an infinity gives 0 in {to}"));
        }
        ExactValue::Infinity { .. } => {
            return rule("infinity-saturates", format!("an infinity gives the end of the range of {to}"));
        }
        ExactValue::Number { number, .. } => number,
    };
    if result.value.number() == Some(number) {
        return rule("exact", format!("{to} holds the value exactly"));
    }
    let Some((smallest, largest)) = integer_limits(to)? else { return low_bits(source, result) };
    let whole = Decimal::from(number.floor()) == *number;
    if !narrow {
        let one = Decimal::from(BigInt::from(1));
        // Toward zero, the fraction is lost first: 127.9 is still 127 in int8, and -0.9 is still 0 in uint8.
        let out_of_range = if number.is_negative() { *number <= &smallest - &one } else { (number - &one) >= largest };
        if out_of_range {
            return rule("out-of-range-saturates", format!("out of range: the end of the range of {to}"));
        }
        return rule("toward-zero", "an integer keeps the whole part: toward zero");
    }
    let (Some(below), Some(above)) = (&around.below, &around.above) else { return low_bits(source, result) };
    let tie = below.distance == above.distance;
    let rounding = match (whole, tie) {
        (true, _) => "",
        (_, true) => "halfway between two integers: the even one; ",
        _ => "to the nearest integer; ",
    };
    let chosen = |neighbour: &Neighbour| neighbour.value.number() == result.value.number();
    if !whole && (chosen(below) || chosen(above)) {
        let id = if tie { "tie-to-even" } else { "nearest" };
        return rule(id, rounding.trim_end_matches("; "));
    }
    rule("wraps", format!("{rounding}out of range, {to} keeps the low {} bits", to.info().bits))
}

/// From an integer or bool to an integer.
fn low_bits(source: &Side, result: &Side) -> Result<Rule> {
    let (from, to) = (source.data_type, result.data_type);
    if from == DataType::Bool {
        return rule("bool", "true is 1, false is 0");
    }
    if source.value == result.value {
        return rule("exact", format!("{to} holds the value exactly"));
    }
    if from.info().bits == to.info().bits {
        return rule("wraps", format!("out of range: the same {} bits, read as {to}", to.info().bits));
    }
    if to.info().bits > from.info().bits {
        return rule("wraps", format!("out of range: the sign is extended to {} bits, read as {to}", to.info().bits));
    }
    rule("wraps", format!("out of range: {to} keeps the low {} bits", to.info().bits))
}
