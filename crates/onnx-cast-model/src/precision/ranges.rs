//! Files of ranges: the largest magnitude of each value, as it was recorded.
//!
//! The content tells `.npz` from JSON. An array of an output of `record` holds its five numbers, once or for
//! several runs; another array of floats is a value itself. JSON is an object of names with numbers, with what statistics
//! call extremes, or with arrays. Of several numbers for a value the largest counts.

use crate::error::{Error, ModelError, ModelErrorKind};
use crate::graph::values::Flow;
use crate::record::{RECORD_PREFIX, RECORDED_NUMBERS};
use onnx_cast::__private::{Count, DefaultEnvironment};
use onnx_cast::{Cast, CastOptions, DataType, TensorView};
use onnx_cast_file::__private::{Given, Input, ShapeText, Short};
use onnx_cast_file::{Format, InputFile};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fmt::Display;
use std::path::Path;

/// What statistics call the largest value or magnitude of a tensor, and the least value.
const HIGHEST: [&str; 5] = ["max", "absmax", "max_val", "highest", "magnitude"];
const LOWEST: [&str; 3] = ["min", "min_val", "lowest"];

/// What is wanted of a value.
const WANTED: &str = "want a number, an object with `max`, or an array of numbers";

/// The largest magnitudes of values by name, from a file: `.npz` or JSON, of what the outputs of
/// [`record`](crate::record()) gave, of the values themselves, or of their extremes. The manual has the forms.
///
/// NaN within arrays is left out. A number that is NaN counts as infinite, since it tells nothing.
///
/// # Errors
/// Where the file cannot be read or is of another kind, or a value has no range that can be read.
pub fn read_ranges(path: impl AsRef<Path>) -> Result<HashMap<String, f32>, Error> {
    let _environment = DefaultEnvironment::enter();
    let path = path.as_ref();
    let file = InputFile::open(path)?;
    let mut ranges = Ranges::default();
    let prefix = file.prefix(16)?;
    let first = prefix.iter().find(|byte| !byte.is_ascii_whitespace() && !UTF8_MARK.contains(byte));
    match first {
        Some(b'{' | b'[') => {
            let text = std::fs::read_to_string(path);
            let text = text.map_err(|error| onnx_cast_file::FileError::io(path, "read", error))?;
            ranges.json(&text).map_err(|error| Error::model(path, error))?;
        }
        _ if prefix.starts_with(b"PK") => {
            let mut input = Input::of(file, Some(Format::Npz), &Given::default())?;
            for index in 0..input.tensors.len() {
                let source = input.take(index)?;
                let view = source.view().map_err(|error| input.cast_error(&source.name, error.into()))?;
                ranges.array(&source.name, &view).map_err(|error| Error::model(path, error))?;
            }
        }
        _ => {
            let what = "not a file of ranges (want .npz, or .json)";
            return Err(Error::model(path, ModelError::new(ModelErrorKind::Syntax, what)));
        }
    }
    Ok(ranges.0)
}

/// What may stand before a text in UTF-8.
const UTF8_MARK: [u8; 3] = [0xef, 0xbb, 0xbf];

/// How many names of ranges are none of a floating-point value of the model's own graph.
pub(super) fn unknown(ranges: &HashMap<String, f32>, main: &Flow<'_, '_>, is_float: impl Fn(usize) -> bool) -> usize {
    let values = main.values.iter().enumerate().filter(|(id, _)| is_float(*id));
    let names: HashSet<&str> = values.map(|(_, value)| value.name).collect();
    ranges.keys().filter(|name| !names.contains(name.as_str())).count()
}

/// The largest magnitudes by name.
#[derive(Debug, Default)]
struct Ranges(HashMap<String, f32>);

impl Ranges {
    fn add(&mut self, name: &str, magnitude: f32) {
        let magnitude = if magnitude.is_nan() { f32::INFINITY } else { magnitude.abs() };
        let name = name.strip_prefix(RECORD_PREFIX).unwrap_or(name);
        let known = self.0.entry(name.to_owned()).or_insert(magnitude);
        *known = known.max(magnitude);
    }

    /// An output of `record`, or a value itself; other arrays than of floats are left out.
    fn array(&mut self, name: &str, view: &TensorView<'_>) -> Result<(), ModelError> {
        let is_recorded = name.starts_with(RECORD_PREFIX);
        if is_recorded && view.shape().last() != Some(&RECORDED_NUMBERS) {
            let shape = ShapeText(view.shape());
            let what = format!("output `{}`: shape {shape} (want [5], or runs of it: [N,5])", Short(name));
            return Err(ModelError::new(ModelErrorKind::Ranges, what).named(name));
        }
        if !view.data_type().is_float() {
            return if is_recorded { Err(wrong(name, format!("{} (want float)", view.data_type()))) } else { Ok(()) };
        }
        let cast = |error: &dyn Display| wrong(name, error.to_string());
        let plan = Cast::new(DataType::Float, &CastOptions::new()).map_err(|error| cast(&error))?;
        let floats = plan.run(view).map_err(|error| cast(&error))?;
        self.numbers(name, &floats.to_vec::<f32>().unwrap_or_default())
    }

    /// The numbers of an array.
    fn numbers(&mut self, name: &str, numbers: &[f32]) -> Result<(), ModelError> {
        // `f32::max` ignores NaN. If all numbers are NaN, the result is NaN, which is not a valid range.
        let largest = |numbers: &mut dyn Iterator<Item = f32>| numbers.map(f32::abs).reduce(f32::max).unwrap_or(0.0);
        let magnitude = if name.starts_with(RECORD_PREFIX) {
            if !numbers.len().is_multiple_of(RECORDED_NUMBERS) {
                let (got, want) = (numbers.len(), RECORDED_NUMBERS);
                return Err(wrong(name, format!("{} (want {want}, or runs of {want})", Count(got, "number"))));
            }
            largest(&mut numbers.iter().step_by(RECORDED_NUMBERS).copied())
        } else {
            largest(&mut numbers.iter().copied())
        };
        self.add(name, magnitude);
        Ok(())
    }

    fn json(&mut self, text: &str) -> Result<(), ModelError> {
        let text = text.trim_start_matches('\u{feff}');
        let invalid = |error: serde_json::Error| not_json(error);
        match serde_json::from_str(&with_numbers(text)).map_err(invalid)? {
            Value::Object(fields) => fields.iter().try_for_each(|(name, value)| self.value(name, value)),
            other => Err(unexpected(&other, "an object of names and numbers")),
        }
    }

    fn value(&mut self, name: &str, value: &Value) -> Result<(), ModelError> {
        match value {
            Value::Object(fields) => self.extremes(name, fields),
            Value::Array(_) => {
                let mut numbers = Vec::new();
                flatten(name, value, &mut numbers)?;
                self.numbers(name, &numbers)
            }
            _ => {
                let number = number(value).ok_or_else(|| wrong(name, format!("{value} ({WANTED})")))?;
                self.add(name, number);
                Ok(())
            }
        }
    }

    /// The extremes of a value, by what they are called.
    fn extremes(&mut self, name: &str, fields: &Map<String, Value>) -> Result<(), ModelError> {
        if !HIGHEST.iter().any(|key| fields.contains_key(*key)) {
            return Err(wrong(name, format!("an object without {} ({WANTED})", HIGHEST.join(", "))));
        }
        for key in HIGHEST.iter().chain(&LOWEST) {
            let Some(value) = fields.get(*key) else { continue };
            let number = number(value).ok_or_else(|| wrong(name, format!("`{key}` is {value} (want a number)")))?;
            self.add(name, number);
        }
        Ok(())
    }
}

fn wrong(name: &str, what: String) -> ModelError {
    ModelError::new(ModelErrorKind::Ranges, format!("value `{}`: {what}", Short(name))).named(name)
}

fn unexpected(value: &Value, want: &str) -> ModelError {
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    };
    not_json(format_args!("{kind} (want {want})"))
}

fn not_json(what: impl Display) -> ModelError {
    ModelError::new(ModelErrorKind::Syntax, format!("not valid JSON: {what}"))
}

/// A number, or the text of one that JSON has no number for.
fn number(value: &Value) -> Option<f32> {
    match value {
        Value::Number(number) => number.as_f64().map(|number| number as f32),
        Value::String(text) => text.parse::<f32>().ok(),
        _ => None,
    }
}

/// The numbers of arrays within arrays.
fn flatten(name: &str, value: &Value, numbers: &mut Vec<f32>) -> Result<(), ModelError> {
    match value {
        Value::Array(inner) => inner.iter().try_for_each(|value| flatten(name, value, numbers)),
        other => {
            numbers.push(number(other).ok_or_else(|| wrong(name, format!("{other} in an array (want a number)")))?);
            Ok(())
        }
    }
}

/// JSON with the numbers that Python writes and JSON does not have, as texts: NaN, Infinity and -Infinity.
fn with_numbers(text: &str) -> Cow<'_, str> {
    let (mut changed, mut kept, mut within, mut at) = (String::new(), 0, false, 0);
    let bytes = text.as_bytes();
    while let Some(&byte) = bytes.get(at) {
        let word = match byte {
            b'"' => {
                within = !within;
                None
            }
            b'\\' if within => {
                at += 1;
                None
            }
            b'N' | b'I' | b'-' if !within => {
                ["NaN", "Infinity", "-Infinity"].into_iter().find(|word| bytes[at..].starts_with(word.as_bytes()))
            }
            _ => None,
        };
        at += 1;
        let Some(word) = word else { continue };
        changed.push_str(&text[kept..at - 1]);
        changed.push('"');
        changed.push_str(word);
        changed.push('"');
        at += word.len() - 1;
        kept = at;
    }
    if kept == 0 { Cow::Borrowed(text) } else { Cow::Owned(changed + &text[kept..]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_json(text: &str) -> Result<Vec<(String, f32)>, ModelError> {
        let mut ranges = Ranges::default();
        ranges.json(text)?;
        let mut list: Vec<_> = ranges.0.into_iter().collect();
        list.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(list)
    }

    #[test]
    fn forms_of_json() {
        let rows: [(&str, &[(&str, f32)]); 10] = [
            (
                r#"{"a": [NaN, NaN], "b": [NaN, 2], "onnx_cast_record/c": [NaN, 0, 0, 0, 9]}"#,
                &[("a", f32::INFINITY), ("b", 2.0), ("c", f32::INFINITY)],
            ),
            (r#"{"a": 3, "b": -2.5}"#, &[("a", 3.0), ("b", 2.5)]),
            (r#"{"a": {"max": 1, "min": -7, "nan": 0}}"#, &[("a", 7.0)]),
            (r#"{"a": {"absmax": 9, "min_val": -9, "max_val": 2}}"#, &[("a", 9.0)]),
            (r#"{"a": [[-4, 1], [3, 2]], "b": []}"#, &[("a", 4.0), ("b", 0.0)]),
            (r#"{"onnx_cast_record/a": [5, 1, 5, -9, 2], "a": 4}"#, &[("a", 5.0)]),
            (r#"{"onnx_cast_record/a": [[5, 1, 5, 1, 0], [8, 1, 2, -8, 0]]}"#, &[("a", 8.0)]),
            (
                "\u{feff}{\"a\": NaN, \"b\": -Infinity, \"N\\\"aN\": 1}",
                &[("N\"aN", 1.0), ("a", f32::INFINITY), ("b", f32::INFINITY)],
            ),
            (r#"{"a": "inf", "b": 1e300}"#, &[("a", f32::INFINITY), ("b", f32::INFINITY)]),
            ("{}", &[]),
        ];
        for (text, want) in rows {
            let want = want.iter().map(|&(name, range)| (name.to_owned(), range)).collect();
            assert_eq!(of_json(text), Ok(want), "{text}");
        }
    }

    #[test]
    fn what_is_no_range_is_named() {
        for (text, want) in [
            ("{", "not valid JSON: EOF while parsing an object at line 1 column 1"),
            ("3", "not valid JSON: a number (want an object of names and numbers)"),
            ("[3]", "not valid JSON: an array (want an object of names and numbers)"),
            (r#"{"a": null}"#, "value `a`: null (want a number, an object with `max`, or an array of numbers)"),
            (r#"{"a": [1, [true]]}"#, "value `a`: true in an array (want a number)"),
            (r#"{"a": {"max": "x"}}"#, "value `a`: `max` is \"x\" (want a number)"),
            (r#"{"onnx_cast_record/a": [1, 2, 3]}"#, "value `onnx_cast_record/a`: 3 numbers (want 5, or runs of 5)"),
            (r#"{"lst": [["r", []]]}"#, "value `lst`: \"r\" in an array (want a number)"),
        ] {
            assert_eq!(of_json(text).expect_err(text).to_string(), want);
        }
    }
}
