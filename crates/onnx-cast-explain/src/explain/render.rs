//! An explanation as text and as JSON.

use super::fields::{Field, fields};
use super::{End, Explanation, Neighbour, Neighbours, Scaled, Side, integer_limits};
use crate::decimal::Quotient;
use crate::error::Result;
use crate::value::{Element, ExactValue, hex};
use onnx_cast::__private::{DefaultEnvironment, Short};
use serde_json::{Map, json};
use std::fmt::Write as _;

/// Column at which what a line says begins.
const INDENT: usize = 9;

/// The explanation for a terminal.
///
/// # Errors
/// Where the library does not cast a type that is shown.
pub fn text(explanation: &Explanation) -> Result<String> {
    let _environment = DefaultEnvironment::enter();
    let Explanation { source, result, .. } = explanation;
    let mut out = String::new();
    for End { label, side, has_fields } in explanation.ends() {
        if let Some(exact) = exact_quotient(explanation).filter(|_| label == "quotient") {
            writeln!(out, "{label:INDENT$}{exact}")?;
        }
        let label = if label == "quotient" && exact_quotient(explanation).is_some() { "" } else { label };
        let value = side.value.readable();
        match &side.element {
            Element::Text(text) => writeln!(out, "{label:INDENT$}{} \"{}\"", side.data_type, Short(text))?,
            Element::Code(code) => {
                writeln!(out, "{label:INDENT$}{} {value}  {}", side.data_type, hex(side.data_type, *code))?;
                for Field { name, bits, meaning } in fields(side.data_type, *code)?.iter().filter(|_| has_fields) {
                    let line = format!("{:INDENT$}  {name:12} {bits}  {meaning}", "");
                    writeln!(out, "{}", line.trim_end())?;
                }
            }
        }
    }
    writeln!(out, "{:INDENT$}{}", "rule", explanation.rule.text)?;
    writeln!(out, "{:INDENT$}{}", "", operator(explanation))?;
    let Neighbours { below, above } = &explanation.neighbours;
    let sides = [("below", below), ("above", above)];
    let inside = sides.iter().any(|(_, neighbour)| neighbour.as_ref().is_some_and(|n| n.code.is_some()));
    for (label, neighbour) in sides {
        let Some(neighbour) = neighbour.as_ref().filter(|_| inside) else { continue };
        let chosen = if is_result(neighbour, explanation) { "  <- the result" } else { "" };
        let code = neighbour.code.map_or("out of range".to_owned(), |code| hex(result.data_type, code));
        let distance = neighbour.distance.readable();
        writeln!(out, "{label:INDENT$}{}  {code}  at a distance of {distance}{chosen}", neighbour.value.readable())?;
    }
    if let (false, Some(_), Some((smallest, largest))) =
        (inside, source.value.number(), integer_limits(result.data_type)?)
    {
        writeln!(out, "{:INDENT$}{} to {}", "range", smallest.exact(), largest.exact())?;
    }
    writeln!(out, "{:INDENT$}{}", "error", error_text(explanation))?;
    for note in &explanation.notes {
        writeln!(out, "{:INDENT$}{note}", "note")?;
    }
    Ok(out)
}

pub(super) fn error_text(explanation: &Explanation) -> String {
    let (before, after) = match &explanation.scaled {
        None => (&explanation.source.value, &explanation.result.value),
        Some(Scaled { value, back: Some(back), .. }) => (&value.value, &back.value),
        Some(_) => return "unknown".to_owned(),
    };
    match (&explanation.error, before, after) {
        (Some(error), ..) if error.absolute.is_zero() => "none".to_owned(),
        (Some(error), ..) => {
            let relative = error.relative.as_ref().map_or(String::new(), |relative| format!(", relative {relative}"));
            format!("{}{relative}", error.absolute.readable())
        }
        (None, ExactValue::Nan { .. }, ExactValue::Nan { .. }) => "none".to_owned(),
        (None, ExactValue::Infinity { negative: from }, ExactValue::Infinity { negative: to }) if from == to => {
            "none".to_owned()
        }
        (None, ExactValue::Nan { .. }, _) | (None, _, ExactValue::Nan { .. }) => "not a number".to_owned(),
        (None, ..) => "infinite".to_owned(),
    }
}

/// The exact quotient, where it is a number and not zero; a fraction only where that is short.
pub(super) fn exact_quotient(explanation: &Explanation) -> Option<String> {
    const LONGEST: usize = 40;
    let quotient = explanation.scaled.as_ref()?.quotient.as_ref()?;
    let (readable, exact) = (quotient.decimal().readable(), quotient.exact());
    let fraction = exact.contains('/') && exact.len() <= LONGEST;
    Some(if fraction { format!("{readable}, exactly {exact}") } else { readable })
}

/// The operator, with the attributes that had a say.
pub(super) fn operator(explanation: &Explanation) -> String {
    let to = explanation.result.data_type;
    let version = explanation.version;
    let mut text = match &explanation.scaled {
        None => format!("Cast-{version}"),
        Some(Scaled { precision, .. }) => format!("QuantizeLinear-{version}, precision {precision}"),
    };
    if to.obeys_saturate() {
        let _ = write!(text, ", saturate {}", explanation.saturate);
    }
    if to.obeys_round_mode() {
        let _ = write!(text, ", round_mode {}", explanation.round_mode);
    }
    if let Some(Scaled { back: Some(_), back_version, .. }) = &explanation.scaled {
        let _ = write!(text, "; back by DequantizeLinear-{back_version}");
    }
    text
}

pub(super) fn is_result(neighbour: &Neighbour, explanation: &Explanation) -> bool {
    neighbour.value.number().is_some() && neighbour.value.number() == explanation.result.value.number()
}

/// Every number is a text with all its digits, for no JSON number holds them.
///
/// # Errors
/// Where the library does not cast a type that is shown.
pub fn json(explanation: &Explanation) -> Result<serde_json::Value> {
    let _environment = DefaultEnvironment::enter();
    let neighbour = |neighbour: &Option<Neighbour>| {
        neighbour.as_ref().map(|neighbour| {
            json!({
                "value": neighbour.value.exact(),
                "bits": neighbour.code.map(|code| hex(explanation.result.data_type, code)),
                "distance": neighbour.distance.exact(),
                "is_result": is_result(neighbour, explanation),
            })
        })
    };
    let mut object = Map::new();
    let mut set = |name: &str, value: serde_json::Value| object.insert(name.to_owned(), value);
    set("version", json!(explanation.version));
    set("opset", json!(explanation.opset));
    set("saturate", json!(explanation.saturate));
    match &explanation.scaled {
        None => {
            set("operator", json!("Cast"));
            set("round_mode", json!(explanation.round_mode.name()));
            set("source", side(&explanation.source)?);
        }
        Some(Scaled { value, scale, zero_point, quotient, precision, back, back_version }) => {
            let optional = |one: &Option<Side>| one.as_ref().map(side).transpose();
            set("operator", json!("QuantizeLinear"));
            set("precision", json!(precision.name()));
            set("source", side(value)?);
            set("scale", side(scale)?);
            set("zero_point", json!(optional(zero_point)?));
            let exact = quotient.as_ref().map(Quotient::exact);
            set("quotient", json!({ "exact": exact, "rounded": side(&explanation.source)? }));
            set("back", json!(optional(back)?));
            set("back_version", json!(back_version));
        }
    }
    set("result", side(&explanation.result)?);
    set("rule", json!({ "id": explanation.rule.id, "text": explanation.rule.text }));
    set("below", json!(neighbour(&explanation.neighbours.below)));
    set("above", json!(neighbour(&explanation.neighbours.above)));
    let error = explanation.error.as_ref();
    set("error", json!(error.map(|error| json!({ "absolute": error.absolute.exact(), "relative": error.relative }))));
    set("notes", json!(explanation.notes));
    Ok(serde_json::Value::Object(object))
}

pub(super) fn side(side: &Side) -> Result<serde_json::Value> {
    let mut object = Map::new();
    object.insert("type".to_owned(), json!(side.data_type.name()));
    object.insert("value".to_owned(), json!(side.value.exact()));
    match &side.element {
        Element::Text(text) => {
            object.insert("text".to_owned(), json!(text));
        }
        Element::Code(code) => {
            object.insert("bits".to_owned(), json!(hex(side.data_type, *code)));
            let list = fields(side.data_type, *code)?;
            let list: Vec<_> = list
                .iter()
                .map(|field| json!({ "name": field.name, "bits": field.bits, "meaning": field.meaning }))
                .collect();
            object.insert("fields".to_owned(), json!(list));
        }
    }
    Ok(serde_json::Value::Object(object))
}
