//! One value quantized: the quotient, exactly and as rounded, what it becomes, and what comes back.
//!
//! The code and the value that comes back are the library's, from QuantizeLinear and DequantizeLinear. The exact
//! quotient is a fraction; what it rounds to is the library's as well, which reads it as a decimal text.

use super::rule::{Rule, Settings, find, rule};
use super::{
    Explanation, Neighbour, Neighbours, Request, Side, attribute_notes, error_between, neighbours, read_source,
};
use crate::decimal::{Decimal, Quotient};
use crate::error::{ExplainError, Result};
use crate::value::{Element, ExactValue, as_double, convert, element_of, tensor_of, value_of};
use onnx_cast::__private::Short;
use onnx_cast::ops::{CastErrorKind, Operator};
use onnx_cast::scaled::{DequantizeLinear, DequantizeOptions, QuantizeLinear, QuantizeOptions};
use onnx_cast::{Cast, CastError, CastOptions, DataType, RoundMode, Tensor};
use std::cmp::Ordering;

/// What is asked of QuantizeLinear.
#[derive(Clone, Copy, Debug)]
pub struct Scaling<'a> {
    /// The scale, written as a value is.
    pub scale: &'a str,
    /// Its type; that of the value where it is not given.
    pub scale_type: Option<DataType>,
    /// The zero point.
    pub zero_point: Option<&'a str>,
    /// The type that quotients are rounded to.
    pub precision: Option<DataType>,
}

/// What a scaled cast has beside a cast, which is that of the quotient.
#[derive(Debug)]
pub(crate) struct Scaled {
    pub(crate) value: Side,
    pub(crate) scale: Side,
    pub(crate) zero_point: Option<Side>,
    /// The exact quotient; `None` where it is not a number, infinite or zero.
    pub(crate) quotient: Option<Quotient>,
    /// The type that it is rounded to.
    pub(crate) precision: DataType,
    /// What DequantizeLinear gives for the result; `None` where it does not take the types.
    pub(crate) back: Option<Side>,
    pub(crate) back_version: i64,
}

/// The types that quotients are rounded to, and those of values and of a scale that both have.
pub(super) const FLOATS: [DataType; 3] = [DataType::Float, DataType::Float16, DataType::BFloat16];

/// A zero point, which the type must have: another one would shift every value.
fn zero_point_of(text: &str, to: DataType) -> Result<Side> {
    let mut notes = Vec::new();
    let side = read_source(text, to, &mut notes)?;
    if !notes.is_empty() {
        return Err(ExplainError::request(format_args!(
            "the zero point {} (want a number that {to} has)",
            notes.join(", ")
        )));
    }
    Ok(side)
}

pub(super) fn explain(request: &Request<'_>, scaling: Scaling<'_>) -> Result<Explanation> {
    let Request { to, options: CastOptions { opset, saturate, .. }, .. } = *request;
    let mut notes = Vec::new();
    let from = request.from.unwrap_or_else(|| {
        notes.push("without a source type VALUE is a float".to_owned());
        DataType::Float
    });
    let float_from = if FLOATS.contains(&from) { from } else { DataType::Float };
    let scale_type = scaling.scale_type.unwrap_or(float_from);
    let precision =
        scaling.precision.unwrap_or(if FLOATS.contains(&scale_type) { scale_type } else { DataType::Float });

    let version = Operator::QuantizeLinear.version_at(opset)?;
    let has_output = has_output_dtype(Operator::QuantizeLinear, version);
    // Before `output_dtype` only a zero point gives the type.
    let gives_type = !has_output && to != DataType::Uint8 && scaling.zero_point.is_none();
    if gives_type {
        notes.push(format!("QuantizeLinear-{version} has no output_dtype: a zero point of 0 gives the type"));
    }
    let output = (has_output && scaling.zero_point.is_none()).then_some(to);
    let quantize_options = QuantizeOptions::new().opset(opset).saturate(saturate).precision(scaling.precision);
    let zero_type = (gives_type || scaling.zero_point.is_some()).then_some(to);
    let plan = QuantizeLinear::new(&quantize_options.output_dtype(output))?.plan(from, scale_type, zero_type)?;

    let value = read_source(request.value, from, &mut notes)?;
    let scale = read_source(scaling.scale, scale_type, &mut notes)?;
    let zero_text = scaling.zero_point.or(gives_type.then_some("0"));
    let zero_point = zero_text.map(|text| zero_point_of(text, to)).transpose()?;
    let tensor = |side: &Side| tensor_of(side.data_type, &side.element);
    let (scale_tensor, zero_tensor) = (tensor(&scale)?, zero_point.as_ref().map(tensor).transpose()?);
    let zero_view = zero_tensor.as_ref().map(Tensor::view);
    let element = plan.run(&tensor(&value)?.view(), &scale_tensor.view(), zero_view.as_ref());
    let element = element_of(element.map_err(|error| plain_error(error, zero_text))?);
    let result = Side { data_type: to, value: value_of(to, &element)?, element };
    let (back, back_version) =
        back(opset, float_from, &tensor(&result)?, &scale_tensor, zero_tensor.as_ref(), &mut notes)?;
    let (quotient, source) = quotient(&value, &scale, precision)?;
    let saturate = saturate.unwrap_or(true);
    attribute_notes(request, &mut notes);
    let (neighbours, rule) = match to.float_format() {
        Some(_) => float(&source, &result, zero_point.as_ref(), saturate)?,
        None => integer(&source, &result, zero_point.as_ref())?,
    };
    let error = back.as_ref().and_then(|back| error_between(&value.value, &back.value));
    let scaled = Scaled { value, scale, zero_point, quotient, precision, back, back_version };
    Ok(Explanation {
        version,
        opset,
        saturate,
        round_mode: RoundMode::default(),
        source,
        result,
        rule,
        neighbours,
        error,
        notes,
        scaled: Some(scaled),
    })
}

/// A zero point that a float type does not have, as it was written.
fn plain_error(error: CastError, zero_text: Option<&str>) -> ExplainError {
    match (error.kind(), zero_text) {
        (CastErrorKind::ZeroPoint { data_type, .. }, Some(text)) => {
            ExplainError::request(format_args!("a zero point of {data_type} must be 0, and `{}` is not", Short(text)))
        }
        _ => error.into(),
    }
}

/// What DequantizeLinear gives for the result, with its version; nothing, and a note, where it does not take the types.
fn back(
    opset: i64,
    output: DataType,
    result: &Tensor,
    scale: &Tensor,
    zero_point: Option<&Tensor>,
    notes: &mut Vec<String>,
) -> Result<(Option<Side>, i64)> {
    let version = Operator::DequantizeLinear.version_at(opset)?;
    let output = has_output_dtype(Operator::DequantizeLinear, version).then_some(output);
    let dequantize = DequantizeLinear::new(&DequantizeOptions::new().opset(opset).output_dtype(output))?;
    let plan = dequantize.plan(result.data_type(), scale.data_type(), zero_point.map(Tensor::data_type));
    let plan = match plan {
        Ok(plan) => plan,
        Err(error) => {
            notes.push(format!("nothing comes back: {error}"));
            return Ok((None, version));
        }
    };
    let zero_point = zero_point.map(Tensor::view);
    let element = element_of(plan.run(&result.view(), &scale.view(), zero_point.as_ref())?);
    let data_type = plan.target_type();
    Ok((Some(Side { data_type, value: value_of(data_type, &element)?, element }), version))
}

/// Whether an operator's version has the attribute that names the type of the result.
fn has_output_dtype(operator: Operator, version: i64) -> bool {
    operator.attributes().iter().any(|&(name, since)| name == "output_dtype" && since <= version)
}

/// The exact quotient, where it is a number and not zero, and what it rounds to.
pub(super) fn quotient(value: &Side, scale: &Side, precision: DataType) -> Result<(Option<Quotient>, Side)> {
    let double = |side: &Side| as_double(side.data_type, &side.element);
    let (x, by) = (double(value)?, double(scale)?);
    // Doubles tell the special cases, signs included: the quotient of two values is far from the ends of their range.
    let special = x / by;
    let exact = match (value.value.number(), scale.value.number()) {
        (Some(part), Some(whole)) if special.is_finite() && special != 0.0 => Some(Quotient::new(part, whole)),
        _ => None,
    };
    let element = match &exact {
        Some(quotient) => convert(DataType::String, precision, &Element::Text(quotient.decimal().exact()))?,
        None => {
            // NaN keeps the sign of a value that is NaN, and else is positive.
            let nan = f64::NAN.copysign(if x.is_nan() { x } else { 1.0 });
            let special = if special.is_nan() { nan } else { special };
            convert(DataType::Double, precision, &Element::Code(special.to_bits()))?
        }
    };
    let source = Side { data_type: precision, value: value_of(precision, &element)?, element };
    Ok((exact, source))
}

/// The values around the quotient, and the rule: any opset's QuantizeLinear casts the quotient as the newest Cast does.
fn float(source: &Side, result: &Side, zero_point: Option<&Side>, saturate: bool) -> Result<(Neighbours, Rule)> {
    let (to, value) = (result.data_type, &source.value);
    let around = neighbours(to, value.number(), value.is_negative())?;
    let is_added = to.is_packed() && zero_point.is_some_and(|side| !side.value.is_negative());
    if is_added && value.is_negative() && value.number().is_some_and(Decimal::is_zero) {
        return Ok((around, rule("zero", "the zero point is added to the quotient: -0 becomes 0")?));
    }
    let version = Cast::new(to, &CastOptions::default())?.version();
    let settings = Settings { version, saturate, round_mode: RoundMode::default() };
    let mut rule = find(source, result, &around, settings)?;
    // The text of Cast, which rounds nothing before.
    rule.text = rule.text.replace("rounded once, from the exact value,", "the rounded quotient goes");
    Ok((around, rule))
}

/// The integers around the sum of quotient and zero point, and the rule. The quotient is rounded before the sum, which
/// decides ties.
fn integer(source: &Side, result: &Side, zero_point: Option<&Side>) -> Result<(Neighbours, Rule)> {
    let to = result.data_type;
    let nothing = Decimal::zero();
    let zero = zero_point.and_then(|side| side.value.number()).unwrap_or(&nothing);
    let quotient = match &source.value {
        ExactValue::Nan { .. } => {
            return Ok((Neighbours::default(), rule("nan-to-lowest", "NaN gives the lowest value")?));
        }
        ExactValue::Infinity { .. } => {
            let text = format!("an infinity gives the end of the range of {to}");
            return Ok((Neighbours::default(), rule("infinity-saturates", text)?));
        }
        ExactValue::Number { number, .. } => number,
    };
    let around = neighbours(to, Some(&(quotient + zero)), source.value.is_negative())?;
    let then = if zero.is_zero() { "" } else { ", to which the zero point is added" };
    let is_result = |neighbour: &&Neighbour| neighbour.value.number() == result.value.number();
    let is_even = |neighbour: &Neighbour| neighbour.value.number().is_some_and(|sum| (sum - zero).half().is_integer());
    let (Some(below), Some(above)) = (&around.below, &around.above) else {
        return Err(ExplainError::request(format_args!("{to} has no integers around {}", quotient.readable())));
    };
    let is_tie = below.distance == above.distance;
    let nearest = match below.distance.cmp(&above.distance) {
        Ordering::Less => below,
        Ordering::Greater => above,
        Ordering::Equal if is_even(below) => below,
        Ordering::Equal => above,
    };
    let rule = if quotient.is_integer() && result.value.number() == Some(&(quotient + zero)) {
        rule("exact", format!("the rounded quotient is an integer{then}"))
    } else if quotient.is_integer() || !is_result(&nearest) {
        rule("out-of-range-saturates", format!("out of range: the end of the range of {to}"))
    } else if is_tie {
        rule("tie-to-even", format!("halfway between two integers: the even one{then}"))
    } else {
        rule("nearest", format!("to the nearest integer{then}"))
    };
    Ok((around, rule?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::explain as explain_one;
    use crate::value::hex;
    use onnx_cast::ops::Role;

    fn of(x: f32, scale: f32, zero_point: Option<i64>, to: DataType, saturate: bool) -> Explanation {
        let bits = |value: f32| hex(DataType::Float, value.to_bits().into());
        let (value, scale, zero_point) = (bits(x), bits(scale), zero_point.map(|zero| zero.to_string()));
        let zero_point = zero_point.as_deref();
        let scaling = Scaling { scale: &scale, scale_type: None, zero_point, precision: None };
        let options = CastOptions::new().saturate(saturate);
        let from = Some(DataType::Float);
        explain_one(&Request { value: &value, from, to, options, scaling: Some(scaling) }).expect("an explanation")
    }

    /// Values and scales of many magnitudes, and those without an ordinary quotient.
    fn operands() -> impl Iterator<Item = (f32, f32)> {
        let special = [0.0, -0.0, f32::INFINITY, -f32::NAN, 1.0, -2.5, f32::MAX, f32::from_bits(1)];
        let spread = (0..400u32).map(|i| {
            let bits = i.wrapping_mul(0x9e37_79b1);
            (
                f32::from_bits(bits & 0x87ff_ffff | 0x3c00_0000),
                f32::from_bits(bits.swap_bytes() & 0x83ff_ffff | 0x3c00_0000),
            )
        });
        special.into_iter().flat_map(move |x| special.map(|scale| (x, scale))).chain(spread)
    }

    /// The quotient of the exact fraction is the processor's.
    #[test]
    fn quotients_are_rounded_once() {
        for (x, scale) in operands() {
            let explanation = of(x, scale, None, DataType::Int8, true);
            let want = x / scale;
            let want = if want.is_nan() { f32::NAN.copysign(if x.is_nan() { x } else { 1.0 }) } else { want };
            assert_eq!(explanation.source.element, Element::Code(want.to_bits().into()), "{x:e} / {scale:e}");
        }
    }

    /// The rule is found by comparison after the fact; here what it claims is compared with the result.
    #[test]
    fn the_rule_fits_the_result() {
        let quantized = |to: &&DataType| Operator::QuantizeLinear.since_as(Role::Quantized, **to).is_some();
        let types: Vec<DataType> = DataType::NUMERIC.iter().filter(quantized).copied().collect();
        assert!(types.len() >= 15, "{types:?}");
        for to in types {
            for (index, (x, scale)) in operands().enumerate() {
                let zero_point = [None, Some(0), Some(1)][if to.is_float() { index % 2 } else { index % 3 }];
                let explanation = of(x, scale, zero_point, to, index % 5 > 0);
                let case = format!("{x:e} / {scale:e} + {zero_point:?} to {to}: {}", explanation.rule.id);
                if !to.is_float() {
                    check_integer(&explanation, zero_point.unwrap_or(0) as f64, &case);
                }
                let is_exact = ["exact", "zero"].contains(&explanation.rule.id);
                let sum = explanation
                    .source
                    .value
                    .number()
                    .map(|number| number + &Decimal::from_f64(zero_point.unwrap_or(0) as f64));
                assert_eq!(is_exact, sum.is_some() && sum.as_ref() == explanation.result.value.number(), "{case}");
            }
        }
    }

    fn check_integer(explanation: &Explanation, zero_point: f64, case: &str) {
        let double = |side: &Side| as_double(side.data_type, &side.element).expect("a double");
        let (quotient, result) = (double(&explanation.source), double(&explanation.result));
        let sum = quotient.round_ties_even() + zero_point;
        let is_tie = quotient.fract().abs() == 0.5;
        let want = match explanation.rule.id {
            "nan-to-lowest" => quotient.is_nan(),
            "infinity-saturates" => quotient.is_infinite(),
            "out-of-range-saturates" => sum != result && (sum > result) == (result > 0.0),
            "exact" => sum == result && quotient.fract() == 0.0,
            "tie-to-even" => sum == result && is_tie,
            "nearest" => sum == result && !is_tie && quotient.fract() != 0.0,
            _ => false,
        };
        assert!(want, "{case}");
    }
}
