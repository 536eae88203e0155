//! A block as text, as JSON and as a page.

use super::block::{Block, InBlock};
use super::draw::cut;
use super::fields::{Field, fields};
use super::page::{document, escaped, noted_side};
use super::render::side as json_side;
use super::{Error, Side};
use crate::decimal::Quotient;
use crate::error::Result;
use crate::value::{Element, hex};
use onnx_cast::__private::DefaultEnvironment;
use serde_json::json;
use std::fmt::Write as _;

/// Column at which what a line says begins.
const INDENT: usize = 9;

/// The columns of the table.
const HEADS: [&str; 5] = ["value", "quotient", "element", "back", "error"];

/// A table of the elements below the scale; lines have fewer than 80 columns.
///
/// # Errors
/// Where the library does not cast a type that is shown.
pub fn block_text(block: &Block) -> Result<String> {
    let _environment = DefaultEnvironment::enter();
    let mut out = String::new();
    writeln!(out, "{:INDENT$}{}", "format", about(block))?;
    writeln!(out, "{:INDENT$}{}", rule(block), block.how)?;
    for (label, side, note) in sides(block) {
        let (value, bits) = (side.value.readable(), code(side));
        writeln!(out, "{}", format!("{label:INDENT$}{} {value}  {bits}  {note}", side.data_type).trim_end())?;
        if let (Element::Code(code), "scale") = (&side.element, label) {
            for Field { name, bits, meaning } in fields(side.data_type, *code)? {
                writeln!(out, "{}", format!("{:INDENT$}  {name:12} {bits}  {meaning}", "").trim_end())?;
            }
        }
    }
    let [value, quotient, element, back, error] = heads(block);
    writeln!(out, "\n{value:>16} {quotient:>16} {element:>14} {back:>16} {error:>12}")?;
    for one in &block.elements {
        let [value, quotient, element, back, error] = row(one);
        let [value, quotient, back] = [value, quotient, back].map(|text| cut(&text, 16));
        writeln!(out, "{value:>16} {quotient:>16} {element:>14} {back:>16} {:>12}", cut(&error, 12))?;
    }
    for note in &block.notes {
        writeln!(out, "{:INDENT$}{note}", "note")?;
    }
    Ok(out)
}

/// Every number is a text with all its digits, as in the JSON of one value.
///
/// # Errors
/// Where the library does not cast a type that is shown.
pub fn block_json(block: &Block) -> Result<serde_json::Value> {
    let _environment = DefaultEnvironment::enter();
    let optional = |side: Option<&Side>| side.map(json_side).transpose();
    let elements = block.elements.iter().map(|one| {
        let error = |error: &Error| json!({ "absolute": error.absolute.exact(), "relative": error.relative });
        Ok(json!({
            "source": json_side(&one.value)?,
            "quotient": {
                "exact": one.exact.as_ref().map(Quotient::exact),
                "rounded": json_side(&one.quotient)?,
            },
            "result": json_side(&one.result)?,
            "back": json_side(&one.back)?,
            "error": one.error.as_ref().map(error),
        }))
    });
    let name = if block.global.is_some() { "recipe" } else { "scale_rule" };
    Ok(json!({
        "format": block.format.name(),
        name: block.how,
        "greatest": json_side(&block.greatest)?,
        "global_scale": optional(block.global.as_ref().map(|(side, _)| side))?,
        "scale": json_side(&block.scale)?,
        "formula": block.formula,
        (if block.is_factor { "factor" } else { "divisor" }): optional(block.divisor.as_ref())?,
        "elements": elements.collect::<Result<Vec<_>>>()?,
        "notes": block.notes,
    }))
}

/// The page of a block.
///
/// # Errors
/// Where the library does not cast a type that is shown.
pub fn block_page(block: &Block) -> Result<String> {
    let _environment = DefaultEnvironment::enter();
    let mut body = format!("<p class=\"key\">{}; {} {}</p>\n", about(block), rule(block), block.how);
    for (label, side, note) in sides(block) {
        noted_side(&mut body, label, side, note)?;
    }
    body += "<section><div class=\"scroll\"><table><thead><tr>";
    heads(block).iter().for_each(|head| body += &format!("<th scope=\"col\">{head}</th>"));
    body += "</tr></thead><tbody>";
    for one in &block.elements {
        body += "<tr>";
        // All digits show where the pointer rests: with them the last columns would not fit.
        let [value, quotient, element, back, error] = row(one);
        for (text, most) in [(value, 16), (quotient, 16), (element, 16), (back, 16), (error, 12)] {
            let shown = cut(&text, most);
            let title = if shown == text { String::new() } else { format!(" title=\"{}\"", escaped(&text)) };
            write!(body, "<td{title}>{}</td>", escaped(&shown))?;
        }
        body += "</tr>\n";
    }
    body += "</tbody></table></div></section>\n";
    for note in &block.notes {
        writeln!(body, "<p class=\"key\">{}</p>", escaped(note))?;
    }
    let count = block.elements.len();
    Ok(document(&format!("A block of {count} values in {}", block.format), &body))
}

fn about(block: &Block) -> String {
    let (element, scale) = (block.format.element(), block.format.scale());
    let of_tensor = if block.global.is_some() { ", float for the tensor" } else { "" };
    format!("{}: {element}, {scale} for {} values{of_tensor}", block.format, block.format.block())
}

fn rule(block: &Block) -> &'static str {
    if block.global.is_some() { "recipe" } else { "rule" }
}

/// What the elements share, with how it is found.
fn sides(block: &Block) -> Vec<(&'static str, &Side, &str)> {
    let mut sides = vec![("greatest", &block.greatest, "A")];
    sides.extend(block.global.as_ref().map(|(side, formula)| ("global", side, *formula)));
    sides.push(("scale", &block.scale, &*block.formula));
    let label = if block.is_factor { "factor" } else { "divisor" };
    sides.extend(block.divisor.as_ref().map(|side| (label, side, "of each value")));
    sides
}

fn heads(block: &Block) -> [&'static str; 5] {
    let [value, quotient, element, back, error] = HEADS;
    [value, if block.is_factor { "product" } else { quotient }, element, back, error]
}

fn code(side: &Side) -> String {
    match side.element {
        Element::Code(code) => hex(side.data_type, code),
        Element::Text(_) => String::new(),
    }
}

fn row(one: &InBlock) -> [String; 5] {
    let element = format!("{} {}", one.result.value.readable(), code(&one.result));
    let quotient = one.quotient.value.readable();
    let error = match &one.error {
        Some(error) if error.absolute.is_zero() => "none".to_owned(),
        Some(error) => error.absolute.readable(),
        None => "not a number".to_owned(),
    };
    [one.value.value.readable(), quotient, element, one.back.value.readable(), error]
}
