//! Values of arguments. A parser of names takes all that `FromStr` takes, and offers the names to completions.

use clap::builder::{PossibleValue, TypedValueParser};
use onnx_cast::scaled::BlockFormat;
use onnx_cast::{DataType, RoundMode};
use onnx_cast_file::__private::Short;
use onnx_cast_file::{CandidateFormat, Layout, SourceType};
use std::ffi::OsStr;

fn data_type(text: &str) -> Result<DataType, String> {
    text.parse().map_err(|error: onnx_cast::types::UnknownType| error.to_string())
}

/// A type that `convert` takes.
fn precision(text: &str) -> Result<DataType, String> {
    let want = "want float16, bfloat16 or float; with --emulate float16, bfloat16, float8e4m3fn or float8e5m2";
    text.parse().map_err(|_| format!("`{}` is not a precision of models ({want})", Short(text)))
}

/// A layout that `quantize` writes.
pub(super) fn written_layout(text: &str) -> Result<Layout, String> {
    layout_of(text, |_| true)
}

/// A layout that `transcode` writes.
pub(super) fn transcoded_layout(text: &str) -> Result<Layout, String> {
    layout_of(text, |name| name != "gguf")
}

fn layout_of(text: &str, is_meant: fn(&str) -> bool) -> Result<Layout, String> {
    let known = || Layout::written().filter(|name| is_meant(name)).collect::<Vec<_>>().join(", ");
    text.parse().map_err(|_: String| format!("`{}` is not a layout (want {})", Short(text), known()))
}

/// A type, a block format, or a type and what has a scale.
fn candidate(text: &str) -> Result<CandidateFormat, String> {
    if text.contains('/') || text.parse::<BlockFormat>().is_ok() {
        return text.parse();
    }
    data_type(text).map(CandidateFormat::Bare).map_err(|error| {
        match onnx_cast::__private::nearest(&text.to_ascii_lowercase(), block_formats()) {
            Some(name) => format!("`{text}` is not an element type (did you mean `{name}`?)"),
            None => error,
        }
    })
}

fn round_mode(text: &str) -> Result<RoundMode, String> {
    text.parse().map_err(|error: onnx_cast::ops::UnknownRoundMode| error.to_string())
}

macro_rules! name_parser {
    ($name:ident, $ty:ty, $parse:path, $names:expr) => {
        #[derive(Clone, Debug)]
        pub(super) struct $name;

        impl TypedValueParser for $name {
            type Value = $ty;

            fn parse_ref(
                &self,
                command: &clap::Command,
                arg: Option<&clap::Arg>,
                value: &OsStr,
            ) -> Result<$ty, clap::Error> {
                TypedValueParser::parse_ref(&$parse, command, arg, value)
            }

            fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
                Some(Box::new($names.map(PossibleValue::new)))
            }
        }
    };
}
name_parser!(TypeParser, DataType, data_type, types());
name_parser!(PrecisionParser, DataType, precision, types());
name_parser!(SourceTypeParser, SourceType, str::parse::<SourceType>, types());
name_parser!(RoundModeParser, RoundMode, round_mode, RoundMode::ALL.iter().map(|mode| mode.name()));
name_parser!(CandidateParser, CandidateFormat, candidate, types().chain(block_formats()));

fn types() -> impl Iterator<Item = &'static str> {
    DataType::ALL.iter().map(|data_type| data_type.name())
}

fn block_formats() -> impl Iterator<Item = &'static str> {
    BlockFormat::ALL.iter().map(|format| format.name())
}

pub(super) fn tolerance(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number >= 0.0 => Ok(number),
        Ok(_) => Err("want 0 or more".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

pub(super) fn positive(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("want 1 or more".to_owned()),
        Ok(number) => Ok(number),
        Err(error) => Err(format!("{error}")),
    }
}

/// A shape, as people write it and as it is printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shape(pub(crate) Vec<usize>);

pub(super) fn shape(text: &str) -> Result<Shape, String> {
    if text == "scalar" {
        return Ok(Shape(Vec::new()));
    }
    let dim = |dim: &str| {
        let number = dim.trim().parse();
        number.map_err(|error: std::num::ParseIntError| format!("`{dim}`: {error} (want a shape, as 2,3 or 2x3)"))
    };
    text.split([',', 'x']).map(dim).collect::<Result<_, _>>().map(Shape)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_read_as_they_are_printed() {
        for (text, want) in [("2,3", &[2, 3][..]), ("64x32", &[64, 32]), ("7", &[7]), ("scalar", &[]), ("0x5", &[0, 5])]
        {
            assert_eq!(shape(text), Ok(Shape(want.to_vec())), "{text}");
        }
        for text in ["", "2,", "x2", "-1", "2*3", "1e3", "99999999999999999999"] {
            assert!(shape(text).is_err(), "{text}");
        }
    }
}
