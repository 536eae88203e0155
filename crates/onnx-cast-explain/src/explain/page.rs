//! An explanation as a page: the bits with their fields coloured, the number line between the neighbours, and the rule
//! that decided; or one value in every type, each of which opens.

use super::draw::{in_every_type, part};
use super::fields::{Field, fields};
use super::render::{error_text, exact_quotient, is_result, operator};
use super::{End, Explanation, Neighbour, Neighbours, Request, Scaled, Side};
use crate::error::Result;
use crate::html::{BASE_STYLE, fill};
use crate::value::{Element, hex};
use onnx_cast::__private::{DefaultEnvironment, Short};
use std::fmt::Write as _;

const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");

/// The page of one cast.
///
/// # Errors
/// Where the library does not cast a type that is shown.
pub fn page(explanation: &Explanation) -> Result<String> {
    let _environment = DefaultEnvironment::enter();
    let Explanation { source, result, .. } = explanation;
    let title = match &explanation.scaled {
        None => format!("{} to {}", written(source), result.data_type),
        Some(Scaled { value, scale, .. }) => {
            format!("{} to {} by a scale of {}", written(value), result.data_type, shown(scale))
        }
    };
    let mut body = String::new();
    for End { label, side: one, .. } in explanation.ends() {
        side(&mut body, label, one)?;
    }
    details(&mut body, explanation)?;
    Ok(document(&title, &body))
}

/// The page of one value in every type.
///
/// # Errors
/// Where the library does not cast a type that is shown.
pub fn page_of_all(request: &Request<'_>) -> Result<String> {
    let _environment = DefaultEnvironment::enter();
    let mut body = String::new();
    let mut title = request.value.to_owned();
    let (mut known, mut rows) = (false, String::new());
    for (to, explained) in in_every_type(request) {
        match explained {
            Ok(explanation) => {
                if !known {
                    title = written(&explanation.source);
                    side(&mut body, "source", &explanation.source)?;
                    known = true;
                }
                let Explanation { result, rule, .. } = &explanation;
                let (value, code) = (escaped(&shown(result)), code(result));
                write!(
                    rows,
                    "<details><summary><b>{to}</b><span>{value}{code}</span><span>{}</span></summary>",
                    rule.id
                )?;
                side(&mut rows, "result", result)?;
                details(&mut rows, &explanation)?;
                rows += "</details>\n";
            }
            Err(error) => {
                let why = escaped(&format!("{error:#}"));
                writeln!(rows, "<p class=\"none\"><b>{to}</b><span>{why}</span></p>")?;
            }
        }
    }
    write!(body, "<section class=\"types\" aria-label=\"Types\">{rows}</section>")?;
    Ok(document(&format!("{title} in every type"), &body))
}

pub(super) fn document(title: &str, body: &str) -> String {
    let title = escaped(title);
    let parts = [
        ("{{title}}", &title[..]),
        ("{{base-style}}", BASE_STYLE),
        ("{{style}}", STYLE),
        ("{{heading}}", &title),
        ("{{body}}", body),
    ];
    fill(PAGE, &parts)
}

/// Text that is not markup.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            _ => out.push(letter),
        }
    }
    out
}

fn written(side: &Side) -> String {
    format!("{} {}", side.data_type, shown(side))
}

fn shown(side: &Side) -> String {
    match &side.element {
        Element::Text(text) => format!("\"{}\"", Short(text)),
        Element::Code(_) => side.value.readable(),
    }
}

/// The bits of an element that has them.
fn code(side: &Side) -> String {
    match side.element {
        Element::Text(_) => String::new(),
        Element::Code(code) => format!(" <code>{}</code>", hex(side.data_type, code)),
    }
}

/// One end of the cast: its value, its bits, and what its fields say.
fn side(out: &mut String, label: &str, side: &Side) -> Result<()> {
    noted_side(out, label, side, "")
}

/// The same, with how the value is found.
pub(super) fn noted_side(out: &mut String, label: &str, side: &Side, note: &str) -> Result<()> {
    let value = escaped(&shown(side));
    let (kind, bits) = (side.data_type, code(side));
    write!(out, "<section class=\"side\"><h2><small>{label}</small> {kind} <span>{value}</span>{bits}</h2>")?;
    if !note.is_empty() {
        write!(out, "<p class=\"key\">{}</p>", escaped(note))?;
    }
    let Element::Code(code) = side.element else {
        *out += "</section>\n";
        return Ok(());
    };
    *out += "<div class=\"bits\">";
    let list = fields(kind, code)?;
    let is_bits = |field: &&Field| field.name != "value";
    for Field { name, bits, .. } in list.iter().filter(is_bits) {
        let class = if name.contains("bits") { "significand" } else { name };
        write!(out, "<span class=\"field {class}\"><span aria-hidden=\"true\">")?;
        bits.chars().for_each(|bit| *out += if bit == '1' { "<b>1</b>" } else { "<b>0</b>" });
        write!(out, "</span><small>{name}</small></span>")?;
    }
    *out += "</div><dl>";
    for Field { name, bits, meaning } in &list {
        write!(out, "<dt>{name}</dt><dd><code>{bits}</code> {}</dd>", escaped(meaning))?;
    }
    *out += "</dl></section>\n";
    Ok(())
}

/// The number line, the rule, the error and the notes.
fn details(out: &mut String, explanation: &Explanation) -> Result<()> {
    line(out, explanation)?;
    let Explanation { rule, notes, .. } = explanation;
    let text = escaped(&rule.text);
    write!(out, "<section class=\"rule\"><h2><small>rule</small> {text}</h2><dl>")?;
    if let Some(exact) = exact_quotient(explanation) {
        write!(out, "<dt>exact quotient</dt><dd>{exact}</dd>")?;
    }
    write!(out, "<dt>operator</dt><dd>{}</dd>", operator(explanation))?;
    write!(out, "<dt>error</dt><dd>{}</dd>", escaped(&error_text(explanation)))?;
    for note in notes {
        write!(out, "<dt>note</dt><dd>{}</dd>", escaped(note))?;
    }
    *out += "</dl></section>\n";
    Ok(())
}

fn line(out: &mut String, explanation: &Explanation) -> Result<()> {
    let Neighbours { below, above } = &explanation.neighbours;
    let ends: Vec<(&str, &Neighbour)> =
        [("below", below), ("above", above)].into_iter().filter_map(|(at, end)| Some((at, end.as_ref()?))).collect();
    if ends.is_empty() {
        return Ok(());
    }
    *out += "<section class=\"around\"><h2><small>number line</small></h2>";
    // Between two neighbours; a value that is one of the type's lies on itself.
    let exact = match &explanation.scaled {
        None => explanation.error.as_ref().is_some_and(|error| error.absolute.is_zero()),
        Some(_) => ["exact", "zero"].contains(&explanation.rule.id),
    };
    if let (Some(below), Some(above)) = (below, above)
        && let Some(place) = part(&below.distance, &above.distance)
    {
        let place = (100.0 * place).clamp(0.0, 100.0);
        let class = if exact { "value result" } else { "value" };
        let mut source = escaped(&shown(&explanation.source));
        if let Some(Scaled { zero_point: Some(zero_point), .. }) = &explanation.scaled {
            write!(source, " + {}", shown(zero_point))?;
        }
        let label = format!("{source} lies {place:.1}% of the way from the value below to the one above");
        write!(out, "<div class=\"line\" role=\"img\" aria-label=\"{label}\">")?;
        for (at, end) in &ends {
            let class = if is_result(end, explanation) { "end result" } else { "end" };
            write!(out, "<i class=\"{class} {at}\"></i>")?;
        }
        write!(out, "<i class=\"{class}\" style=\"left: {place:.2}%\"></i></div>")?;
        write!(out, "<div class=\"ends\"><span>{}</span>", escaped(&below.value.readable()))?;
        write!(out, "<span>{}</span></div>", escaped(&above.value.readable()))?;
        *out += "<p class=\"key\"><i class=\"value\"></i>the value <i class=\"end result\"></i>the result</p>";
    }
    *out += "<dl>";
    for (at, end) in ends {
        let code = end.code.map_or("out of range".to_owned(), |code| hex(explanation.result.data_type, code));
        let chosen = if is_result(end, explanation) { ", the result" } else { "" };
        let (value, distance) = (escaped(&end.value.readable()), end.distance.readable());
        write!(out, "<dt>{at}</dt><dd>{value} <code>{code}</code>, {distance} away{chosen}</dd>")?;
    }
    *out += "</dl></section>\n";
    Ok(())
}
