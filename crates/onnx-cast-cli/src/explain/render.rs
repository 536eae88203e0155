//! An explanation as text and as JSON.

use super::fields::{Field, fields};
use super::{Explanation, Neighbour, Neighbours, Side, integer_limits};
use crate::value::{Element, Value, hex};
use anyhow::Result;
use onnx_cast_file::text::Short;
use serde_json::{Map, json};
use std::fmt::Write as _;

/// Column at which what a line says begins.
const INDENT: usize = 9;

pub(crate) fn text(explanation: &Explanation) -> Result<String> {
    let Explanation { source, result, .. } = explanation;
    let mut out = String::new();
    for (label, side) in [("source", source), ("result", result)] {
        let value = side.value.readable();
        match &side.element {
            Element::Text(text) => writeln!(out, "{label:INDENT$}{} \"{}\"", side.data_type, Short(text))?,
            Element::Code(code) => {
                writeln!(out, "{label:INDENT$}{} {value}  {}", side.data_type, hex(side.data_type, *code))?;
                for Field { name, bits, meaning } in fields(side.data_type, *code)? {
                    let line = format!("{:INDENT$}  {name:12} {bits}  {meaning}", "");
                    writeln!(out, "{}", line.trim_end())?;
                }
            }
        }
    }
    writeln!(out, "{:INDENT$}{}", "rule", explanation.rule.text)?;
    writeln!(out, "{:INDENT$}Cast-{}{}", "", explanation.version, attributes(explanation))?;
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
    match (&explanation.error, &explanation.source.value, &explanation.result.value) {
        (Some(error), ..) if error.absolute.is_zero() => "none".to_owned(),
        (Some(error), ..) => {
            let relative = error.relative.as_ref().map_or(String::new(), |relative| format!(", relative {relative}"));
            format!("{}{relative}", error.absolute.readable())
        }
        (None, Value::Nan { .. }, Value::Nan { .. }) => "none".to_owned(),
        (None, Value::Infinity { negative: from }, Value::Infinity { negative: to }) if from == to => "none".to_owned(),
        (None, Value::Nan { .. }, _) | (None, _, Value::Nan { .. }) => "not a number".to_owned(),
        (None, ..) => "infinite".to_owned(),
    }
}

/// The attributes that had a say.
pub(super) fn attributes(explanation: &Explanation) -> String {
    let to = explanation.result.data_type;
    let mut text = String::new();
    if to.obeys_saturate() {
        let _ = write!(text, ", saturate {}", explanation.saturate);
    }
    if to.obeys_round_mode() {
        let _ = write!(text, ", round_mode {}", explanation.round_mode);
    }
    text
}

pub(super) fn is_result(neighbour: &Neighbour, explanation: &Explanation) -> bool {
    neighbour.value.number().is_some() && neighbour.value.number() == explanation.result.value.number()
}

/// Every number is a text with all its digits, for no JSON number holds them.
pub(crate) fn json(explanation: &Explanation) -> Result<serde_json::Value> {
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
    Ok(json!({
        "operator": "Cast",
        "version": explanation.version,
        "opset": explanation.opset,
        "saturate": explanation.saturate,
        "round_mode": explanation.round_mode.name(),
        "source": side(&explanation.source)?,
        "result": side(&explanation.result)?,
        "rule": { "id": explanation.rule.id, "text": explanation.rule.text },
        "below": neighbour(&explanation.neighbours.below),
        "above": neighbour(&explanation.neighbours.above),
        "error": explanation.error.as_ref().map(|error| json!({
            "absolute": error.absolute.exact(),
            "relative": error.relative,
        })),
        "notes": explanation.notes,
    }))
}

fn side(side: &Side) -> Result<serde_json::Value> {
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
