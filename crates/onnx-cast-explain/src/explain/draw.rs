//! An explanation as it is drawn on a terminal: the bits with their fields coloured, and the number line between the
//! neighbours with the place where the value falls; and one value in every type, side by side.

use super::fields::fields;
use super::{End, Explanation, Neighbours, Request, Side, explain};
use crate::decimal::Decimal;
use crate::error::Result;
use crate::value::{Element, hex};
use anstyle::{AnsiColor, Style};
use onnx_cast::__private::{DefaultEnvironment, Short};
use onnx_cast::DataType;
use std::fmt::Write as _;

/// Columns of the line between the neighbours.
const LINE: usize = 48;

/// Sign, exponent and significand, in this order.
const COLOURS: [AnsiColor; 3] = [AnsiColor::Red, AnsiColor::Yellow, AnsiColor::Cyan];

/// The drawing, which goes before the text.
///
/// # Errors
/// Where the library does not cast a type that is shown.
pub fn drawing(explanation: &Explanation) -> Result<String> {
    let _environment = DefaultEnvironment::enter();
    let mut out = String::new();
    for End { side, .. } in explanation.ends() {
        bits(&mut out, side)?;
    }
    line(&mut out, explanation);
    Ok(out)
}

fn bits(out: &mut String, side: &Side) -> Result<()> {
    let Element::Code(code) = side.element else { return Ok(()) };
    write!(out, "{:14} ", side.data_type.name())?;
    for field in fields(side.data_type, code)?.iter().filter(|field| field.bits.chars().all(|bit| bit.is_ascii_digit()))
    {
        let place = match field.name {
            "sign" => 0,
            "exponent" => 1,
            "significand" => 2,
            "bits" | "value bits" => 2,
            _ => continue,
        };
        let style = Style::new().fg_color(Some(COLOURS[place].into())).bold();
        write!(out, "{style}{}{style:#} ", field.bits)?;
    }
    writeln!(out, " {}", hex(side.data_type, code))?;
    Ok(())
}

/// The neighbours at the ends, the value between them, and the result marked.
fn line(out: &mut String, explanation: &Explanation) {
    let Neighbours { below: Some(below), above: Some(above) } = &explanation.neighbours else { return };
    let Some(part) = part(&below.distance, &above.distance) else { return };
    // Never on the neighbours themselves.
    let place = ((part * LINE as f64).round() as usize).clamp(1, LINE - 1);
    let ends = [below, above].map(|end| end.value.number() == explanation.result.value.number());
    let mark = |chosen: bool| if chosen { '@' } else { '|' };
    let marked: String = (0..=LINE)
        .map(|column| match column {
            0 => mark(ends[0]),
            LINE => mark(ends[1]),
            column if column == place => 'x',
            _ => '-',
        })
        .collect();
    let (low, high) = (below.value.readable(), above.value.readable());
    // A String takes everything.
    let _ = writeln!(out, "\n  {low}{:>1$}", high, (LINE + 1).saturating_sub(low.chars().count()));
    let style = Style::new().bold();
    let _ = writeln!(out, "  {style}{marked}{style:#}  x the value, @ the result\n");
}

/// How much of the way from one neighbour to the other lies before a value, by its distances from both.
pub(super) fn part(below: &Decimal, above: &Decimal) -> Option<f64> {
    let whole = below + above;
    if whole.is_zero() { None } else { crate::decimal::ratio(below, &whole).parse().ok() }
}

/// The value in every type that it can be cast to, or why it cannot.
pub(super) fn in_every_type(request: &Request<'_>) -> impl Iterator<Item = (DataType, Result<Explanation>)> {
    let types = DataType::NUMERIC.iter().chain(&[DataType::String]);
    types.map(|&to| (to, explain(&Request { to, ..*request })))
}

/// The value in every type that it can be cast to, one a line of fewer than 80 columns.
///
/// # Errors
/// Where the library does not cast a type that is shown.
pub fn all(request: &Request<'_>) -> Result<String> {
    let _environment = DefaultEnvironment::enter();
    let mut out = format!("{:14} {:18} {:22} rule\n", "type", "bits", "value");
    for (to, row) in in_every_type(request) {
        match row {
            Ok(Explanation { result, rule, .. }) => {
                let (code, value) = match &result.element {
                    Element::Code(code) => (hex(to, *code), result.value.readable()),
                    Element::Text(text) => (String::new(), format!("\"{}\"", Short(text))),
                };
                writeln!(out, "{:14} {code:18} {:22} {}", to.name(), cut(&value, 22), rule.id)?;
            }
            Err(error) => writeln!(out, "{:14} {:18} {}", to.name(), "", cut(&format!("{error:#}"), 45))?,
        }
    }
    Ok(out)
}

/// Every type that the value can be cast to, as JSON.
///
/// # Errors
/// Where the library does not cast a type that is shown.
pub fn all_json(request: &Request<'_>) -> Result<serde_json::Value> {
    let _environment = DefaultEnvironment::enter();
    let explained = in_every_type(request).filter_map(|(_, row)| row.ok());
    explained.map(|explanation| super::json(&explanation)).collect()
}

pub(super) fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width - 3).collect::<String>() + "..."
}
