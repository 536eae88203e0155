//! One cast of one value, taken apart: the bits, the neighbours, the rule that decided and the error. With a scale it
//! is QuantizeLinear, and DequantizeLinear back.
//!
//! The result is the library's. What is done here is to compare it, by exact decimals, with the values beside it, and
//! to name the rule that the comparison shows.

mod block;
mod block_views;
mod draw;
mod fields;
mod page;
mod render;
mod rule;
mod scaled;

use crate::decimal::{Decimal, ratio};
use crate::error::{ExplainError, Result};
use crate::value::{self, Element, ExactValue, apply, convert, hex, value_of};
use num_bigint::BigInt;
use onnx_cast::__private::{DefaultEnvironment, Short};
use onnx_cast::ops::{CastErrorKind, Operator};
use onnx_cast::types::{FloatFormat, Kind};
use onnx_cast::{Cast, CastOptions, DataType, RoundMode};
use rule::Rule;

pub use block::{Block, BlockRequest, explain as explain_block};
pub use block_views::{block_json, block_page, block_text};
pub use draw::{all, all_json, drawing};
pub use page::{page, page_of_all};
pub use render::{json, text};
pub(crate) use scaled::Scaled;
pub use scaled::Scaling;

/// What is asked.
#[derive(Debug)]
pub struct Request<'a> {
    /// A decimal number, `inf`, `nan`, or bits as `0x3f80` or `0b101`.
    pub value: &'a str,
    /// Its type; without one it is cast as a text, or with a scale as a float.
    pub from: Option<DataType>,
    /// The target.
    pub to: DataType,
    /// The opset and the operator's attributes.
    pub options: CastOptions,
    /// What QuantizeLinear has beside a cast, which without it is a Cast.
    pub scaling: Option<Scaling<'a>>,
}

/// One end of the cast.
#[derive(Debug)]
pub(crate) struct Side {
    pub(crate) data_type: DataType,
    pub(crate) element: Element,
    pub(crate) value: ExactValue,
}

/// A value of the target type beside the source's.
#[derive(Debug)]
pub(crate) struct Neighbour {
    pub(crate) value: ExactValue,
    /// The code; `None` where the integer lies outside the type's range.
    pub(crate) code: Option<u64>,
    pub(crate) distance: Decimal,
}

/// The neighbours: the nearest value of the target that is below the source's, the one that equals it, and the nearest
/// that is above.
#[derive(Debug, Default)]
pub(crate) struct Neighbours {
    pub(crate) below: Option<Neighbour>,
    pub(crate) above: Option<Neighbour>,
}

/// How far the result is from the source.
#[derive(Debug)]
pub(crate) struct Error {
    pub(crate) absolute: Decimal,
    /// To five digits; `None` for a source of zero.
    pub(crate) relative: Option<String>,
}

/// A cast of one value, taken apart.
#[derive(Debug)]
pub struct Explanation {
    pub(crate) version: i64,
    pub(crate) opset: i64,
    pub(crate) saturate: bool,
    pub(crate) round_mode: RoundMode,
    pub(crate) source: Side,
    pub(crate) result: Side,
    pub(crate) rule: Rule,
    pub(crate) neighbours: Neighbours,
    pub(crate) error: Option<Error>,
    pub(crate) notes: Vec<String>,
    /// Of QuantizeLinear, whose rounded quotient is the source.
    pub(crate) scaled: Option<Scaled>,
}

/// A side with its label.
pub(crate) struct End<'a> {
    pub(crate) label: &'static str,
    pub(crate) side: &'a Side,
    /// Whether the text shows its fields.
    pub(crate) has_fields: bool,
}

impl Explanation {
    /// The sides, in the order in which they come about.
    pub(crate) fn ends(&self) -> Vec<End<'_>> {
        let end = |label, side, has_fields| End { label, side, has_fields };
        let Some(Scaled { value, scale, zero_point, back, .. }) = &self.scaled else {
            return vec![end("source", &self.source, true), end("result", &self.result, true)];
        };
        let mut ends = vec![end("value", value, true), end("scale", scale, false)];
        ends.extend(zero_point.iter().map(|zero_point| end("zero", zero_point, false)));
        ends.extend([end("quotient", &self.source, true), end("result", &self.result, true)]);
        ends.extend(back.iter().map(|back| end("back", back, false)));
        ends
    }
}

/// How far one value is from another, where both are numbers.
fn error_between(before: &ExactValue, after: &ExactValue) -> Option<Error> {
    let (before, after) = (before.number()?, after.number()?);
    let absolute = (after - before).abs();
    let relative = (!before.is_zero()).then(|| ratio(&absolute, before));
    Some(Error { absolute, relative })
}

/// Takes the cast of one value apart.
///
/// # Errors
/// Where the value is not one of its type, or the operator's version does not take the types.
pub fn explain(request: &Request<'_>) -> Result<Explanation> {
    let _environment = DefaultEnvironment::enter();
    if let Some(scaling) = request.scaling {
        return scaled::explain(request, scaling);
    }
    let cast = Cast::new(request.to, &request.options)?;
    let mut notes = Vec::new();
    let from = source_type(request, cast.version(), &mut notes);
    let plan = cast.plan(from)?;
    let source = read_source(request.value, from, &mut notes)?;
    let element = apply(&plan, &source.element).map_err(|error| plain_error(error, request))?;
    let value = value_of(request.to, &element)?;
    let result = Side { data_type: request.to, element, value };

    let saturate = request.options.saturate.unwrap_or(true);
    let round_mode = request.options.round_mode.unwrap_or_default();
    attribute_notes(request, &mut notes);
    let neighbours = neighbours(request.to, source.value.number(), source.value.is_negative())?;
    let settings = rule::Settings { version: cast.version(), saturate, round_mode };
    let rule = rule::find(&source, &result, &neighbours, settings)?;
    let error = error_between(&source.value, &result.value);
    let opset = request.options.opset;
    Ok(Explanation {
        version: cast.version(),
        opset,
        saturate,
        round_mode,
        source,
        result,
        rule,
        neighbours,
        error,
        notes,
        scaled: None,
    })
}

/// The values of the target around a number; none of bool and string.
fn neighbours(to: DataType, number: Option<&Decimal>, negative: bool) -> Result<Neighbours> {
    match (number, to.info().kind) {
        (Some(number), Kind::Float(format)) => float_neighbours(to, format, number, negative),
        (Some(number), Kind::Int | Kind::Uint) => integer_neighbours(to, number),
        _ => Ok(Neighbours::default()),
    }
}

/// The type that the value is of: what the request says, else `string`, whose cast rounds once from the decimal text
/// itself; else, in versions that do not take strings, `double`.
fn source_type(request: &Request<'_>, version: i64, notes: &mut Vec<String>) -> DataType {
    if let Some(from) = request.from {
        return from;
    }
    if Operator::Cast.supports(version, DataType::String) {
        notes.push("without a source type the source is the decimal text itself, cast as a string is".to_owned());
        return DataType::String;
    }
    notes.push(format!("without a source type the source is a double, for Cast-{version} takes no strings"));
    DataType::Double
}

/// The element that VALUE names: bits, or text as the library reads it for that type.
fn read_source(text: &str, from: DataType, notes: &mut Vec<String>) -> Result<Side> {
    if from == DataType::String {
        let bits = bits_digits(text).is_some();
        if bits {
            return Err(ExplainError::request(format_args!(
                "bits like `{}` need a source type, which says whose they are",
                Short(text)
            )));
        }
        let value = ExactValue::from_text(text).map_err(|error| match error.cast() {
            Some(CastErrorKind::Text { text, .. }) => ExplainError::request(format_args!("`{text}` is not a number")),
            _ => error,
        })?;
        return Ok(Side { data_type: from, element: Element::Text(text.to_owned()), value });
    }
    if let Some((radix, digits)) = bits_digits(text) {
        let bits = from.bits().unwrap_or(0);
        let code = u64::from_str_radix(&digits, radix).ok().filter(|code| bits >= 64 || code >> bits == 0).ok_or_else(
            || ExplainError::request(format_args!("`{}` is not a bit pattern of {from} ({bits} bits)", Short(text))),
        )?;
        let element = Element::Code(code);
        let value = value_of(from, &element)?;
        return Ok(Side { data_type: from, element, value });
    }
    let written = Element::Text(text.to_owned());
    let element = convert(DataType::String, from, &written).map_err(|error| match error.cast() {
        Some(CastErrorKind::Text { text, source, .. }) => {
            ExplainError::request(format_args!("`{text}` {source} (as {from})"))
        }
        _ => error,
    })?;
    let value = value_of(from, &element)?;
    if let (Ok(written), Element::Code(code)) = (ExactValue::from_text(text), &element)
        && written.number() != value.number()
    {
        notes.push(format!("`{}` as {from} is {} ({})", Short(text), value.readable(), hex(from, *code)));
    }
    Ok(Side { data_type: from, element, value })
}

/// The radix and the digits of `0x3f80`, `0b1010` (underscores allowed).
fn bits_digits(text: &str) -> Option<(u32, String)> {
    let lower = text.to_ascii_lowercase();
    let (radix, digits) = match (lower.strip_prefix("0x"), lower.strip_prefix("0b")) {
        (Some(digits), _) => (16, digits),
        (_, Some(digits)) => (2, digits),
        _ => return None,
    };
    Some((radix, digits.replace('_', "")))
}

/// A string that has no result, without the index that a tensor's element would have.
fn plain_error(error: ExplainError, request: &Request<'_>) -> ExplainError {
    match error.cast() {
        Some(CastErrorKind::Text { text, to, source, .. }) => {
            let hint = match request.from {
                None => "; a string cast never wraps or saturates to an integer: give a source type for that",
                Some(_) => "",
            };
            ExplainError::request(format_args!("`{text}` {source} (to {to}){hint}"))
        }
        _ => error,
    }
}

/// The types that obey an attribute, as a list.
fn names_of(obeys: fn(DataType) -> bool) -> String {
    let names: Vec<&str> = DataType::ALL.iter().filter(|to| obeys(**to)).map(|to| to.name()).collect();
    names.join(", ")
}

/// Attributes that were given and change nothing.
fn attribute_notes(request: &Request<'_>, notes: &mut Vec<String>) {
    let to = request.to;
    if request.options.saturate.is_some() && !to.obeys_saturate() {
        notes.push(format!("saturate has no effect on {to}: it is for {}", names_of(DataType::obeys_saturate)));
    }
    if request.options.round_mode.is_some() && !to.obeys_round_mode() {
        notes.push(format!("round_mode has no effect on {to}: it is for {}", names_of(DataType::obeys_round_mode)));
    }
}

/// The values of a float type around a number. Codes of one sign are ordered as their values are, so a search by halves
/// finds the place, and each value asked for is the library's.
fn float_neighbours(to: DataType, format: FloatFormat, number: &Decimal, negative: bool) -> Result<Neighbours> {
    // Places on the number line: 0 for zero, n for the n-th code above it, -n for its negative. Without a sign, the
    // lowest code is the lowest value, and place and code agree too.
    let last = i128::from(format.max_code());
    let first = if format.signed { -last } else { 0 };
    let code_at = |place: i128| match place {
        0 if negative && format.negative_zero => format.sign_bit(),
        0.. => place as u64,
        _ => format.sign_bit() | place.unsigned_abs() as u64,
    };
    let value_at = |place: i128| value_of(to, &Element::Code(code_at(place)));
    let not_above =
        |place: i128| -> Result<bool> { Ok(value_at(place)?.number().is_some_and(|value| value <= number)) };
    // The first place whose value is above the number.
    let (mut low, mut high) = (first, last + 1);
    while low < high {
        let middle = (low + high).div_euclid(2);
        if not_above(middle)? {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    let neighbour = |place: i128| -> Result<Option<Neighbour>> {
        if place < first || place > last {
            return Ok(None);
        }
        let value = value_at(place)?;
        let distance = value.number().map(|value| (value - number).abs()).unwrap_or_else(Decimal::zero);
        Ok(Some(Neighbour { value, code: Some(code_at(place)), distance }))
    };
    let (mut below, above) = (neighbour(low - 1)?, neighbour(low)?);
    if below.as_ref().is_some_and(|below| below.distance.is_zero()) {
        below = neighbour(low - 2)?;
    }
    Ok(Neighbours { below, above })
}

/// The integers around a number, each with its code where the type holds it.
fn integer_neighbours(to: DataType, number: &Decimal) -> Result<Neighbours> {
    let floor = number.floor();
    let exact = Decimal::from(floor.clone()) == *number;
    let neighbour = |integer: BigInt| -> Result<Neighbour> {
        let text = Element::Text(integer.to_string());
        // Reading a string refuses what the type does not hold.
        let code = match convert(DataType::String, to, &text) {
            Ok(Element::Code(code)) => Some(code),
            _ => None,
        };
        let integer = Decimal::from(integer);
        let distance = (&integer - number).abs();
        Ok(Neighbour { value: ExactValue::Number { number: integer, minus_zero: false }, code, distance })
    };
    let below = neighbour(if exact { &floor - 1 } else { floor.clone() })?;
    let above = neighbour(&floor + 1)?;
    Ok(Neighbours { below: Some(below), above: Some(above) })
}

/// The range of an integer type, exactly.
pub(crate) fn integer_limits(data_type: DataType) -> Result<Option<(Decimal, Decimal)>> {
    let Some((smallest, largest)) = value::integer_range(data_type) else { return Ok(None) };
    let number = |code: u64| -> Result<Decimal> {
        let value = value_of(data_type, &Element::Code(code))?;
        value.number().cloned().ok_or_else(|| ExplainError::request("an integer type has a code that is not a number"))
    };
    Ok(Some((number(smallest)?, number(largest)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(code: u64, from: DataType, to: DataType, options: CastOptions) -> Explanation {
        let value = hex(from, code);
        explain(&Request { value: &value, from: Some(from), to, options, scaling: None }).expect("an explanation")
    }

    fn chosen<'a>(explanation: &'a Explanation, side: &'a Option<Neighbour>) -> Option<&'a Neighbour> {
        side.as_ref().filter(|side| side.value.number() == explanation.result.value.number())
    }

    /// The rule is found by comparison after the fact; here what it claims is compared with the result, for values in
    /// every part of the range of a source and every target.
    #[test]
    fn the_rule_fits_the_result() {
        for &to in DataType::NUMERIC {
            for saturate in [false, true] {
                for code in (0..=u64::from(u16::MAX)).step_by(331) {
                    let options = CastOptions::new().saturate(saturate);
                    let explanation = of(code, DataType::Float16, to, options);
                    check(&explanation, &format!("float16 {code:#06x} -> {to}, saturate {saturate}"));
                }
            }
        }
    }

    fn check(explanation: &Explanation, case: &str) {
        let Neighbours { below, above } = &explanation.neighbours;
        let distances = || Some((&below.as_ref()?.distance, &above.as_ref()?.distance));
        let code = match &explanation.result.element {
            Element::Code(code) => *code,
            Element::Text(text) => panic!("{case}: {text}"),
        };
        let (source, result) = (&explanation.source.value, &explanation.result.value);
        match explanation.rule.id {
            "exact" => assert_eq!(source, result, "{case}"),
            "nearest" | "underflow-to-zero" => {
                let nearer = match distances() {
                    Some((low, high)) if low < high => chosen(explanation, below),
                    Some((low, high)) if low > high => chosen(explanation, above),
                    Some(_) if explanation.rule.id == "underflow-to-zero" => return,
                    Some(_) => None,
                    None => chosen(explanation, below).or(chosen(explanation, above)),
                };
                assert!(nearer.is_some(), "{case}: {}", explanation.rule.text);
            }
            "tie-to-even" => {
                assert!(distances().is_none_or(|(low, high)| low == high), "{case}");
                assert_eq!(code & 1, 0, "{case}");
            }
            "toward-zero" => {
                let towards_zero = if source.is_negative() { above } else { below };
                assert!(chosen(explanation, towards_zero).is_some(), "{case}");
            }
            "overflow-to-infinity" => assert!(matches!(result, ExactValue::Infinity { .. }), "{case}"),
            "overflow-to-nan" | "infinity-to-nan" => assert!(matches!(result, ExactValue::Nan { .. }), "{case}"),
            "overflow-saturates" | "infinity-saturates" | "out-of-range-saturates" | "underflow-saturates" => {
                assert!(
                    below.is_none() || above.is_none() || explanation.result.data_type.float_format().is_none(),
                    "{case}"
                );
            }
            "wraps" => assert_ne!(source, result, "{case}"),
            _ => {}
        }
    }

    /// Float targets by the shortest way from each of their own values and the midpoints between them.
    #[test]
    fn own_values_are_exact() {
        for &to in DataType::NUMERIC {
            let Some(format) = to.float_format().filter(|format| format.bits <= 8) else { continue };
            for code in 0..=format.code_mask() {
                let double = value::as_double(to, &Element::Code(code)).expect("a double").to_bits();
                let explanation = of(double, DataType::Double, to, CastOptions::default());
                let id = explanation.rule.id;
                let expected = if format.is_nan(code) {
                    ["nan", "nan"]
                } else if explanation.source.value.number().is_some() {
                    ["exact", "zero"]
                } else {
                    ["infinity", "infinity-saturates"]
                };
                assert!(expected.contains(&id), "{to} {code:#x}: {id}");
            }
        }
    }
}
