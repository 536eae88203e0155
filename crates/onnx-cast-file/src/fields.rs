//! Requests as plain data. A front end passes options as JSON, each under its name, and the request sets its fields from
//! them. So an option has one name, one kind and one default everywhere: those of the request.

use crate::counts::Loss;
use crate::formats::format::Format;
use crate::io::progress::Watch;
use crate::layouts::{Activations, Layout, QuantizedFormat, WeightFormat};
use crate::loaders::Loader;
use crate::quantize::ModelForm;
use crate::report::CandidateFormat;
use crate::selection::{Pattern, Rule, Selection, SourceType};
use crate::shard_size::ShardSize;
use crate::text::Wording;
use onnx_cast::scaled::ScaleRule;
use onnx_cast::{CastOptions, DataType, RoundMode};
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::fmt::Display;
use std::str::FromStr;

/// A field of a request: an option, or a part that has several.
pub trait Field {
    /// Sets the option `name`, if this field, whose own name is `own`, is that option or contains it; otherwise `None`.
    fn set(&mut self, own: &'static str, name: &str, value: &Value) -> Option<Result<(), Wording>>;

    /// Adds the names of the options.
    fn names(&self, own: &'static str, names: &mut Vec<&'static str>);
}

/// A request with options in place of its defaults. An option that is `null` keeps the default.
///
/// # Errors
/// Where the request lacks an option, or the value does not fit it. The text names the option.
pub fn with_options<R: Field>(mut request: R, options: &Map<String, Value>) -> Result<R, Wording> {
    for (name, value) in options.iter().filter(|(_, value)| !value.is_null()) {
        request.set("", name, value).unwrap_or_else(|| Err(format!("`{name}` is not an option here").into()))?;
    }
    Ok(request)
}

/// The names of all options of a request, each once.
pub fn options_of(request: &impl Field) -> Vec<&'static str> {
    let mut names = Vec::new();
    request.names("", &mut names);
    names.sort_unstable();
    names.dedup();
    names
}

/// The value of an option.
pub trait FromJson: Sized {
    /// The value that JSON has.
    ///
    /// # Errors
    /// Where it is not of the kind, or out of range: the text follows the option's name.
    fn from_json(value: &Value) -> Result<Self, String>;
}

impl<T: FromJson> Field for T {
    fn set(&mut self, own: &'static str, name: &str, value: &Value) -> Option<Result<(), Wording>> {
        let found = (own == name).then(|| T::from_json(value))?;
        let wrong = |what| Wording::default().field(own, what);
        Some(found.map(|value| *self = value).map_err(wrong))
    }

    fn names(&self, own: &'static str, names: &mut Vec<&'static str>) {
        names.push(own);
    }
}

/// Implements [`Field`] for a struct of several options, or for a field that is not an option.
macro_rules! part {
    ($kind:ty $(where $t:ident)?: $($field:ident),*) => {
        impl $(<$t: FromJson + FromStr<Err: Display>>)? Field for $kind {
            fn set(&mut self, _: &'static str, _name: &str, _value: &Value) -> Option<Result<(), Wording>> {
                $(
                    if let Some(done) = self.$field.set(stringify!($field), _name, _value) {
                        return Some(done);
                    }
                )*
                None
            }

            fn names(&self, _: &'static str, _names: &mut Vec<&'static str>) {
                $(_names.push(stringify!($field));)*
            }
        }
    };
}
part!(Selection<T> where T: to, include, exclude, rules, min_elements);
part!(CastOptions: opset, saturate, round_mode, threads);
part!(Option<Watch>:);
part!(Option<&'static str>:);

impl<T: FromJson> FromJson for Option<T> {
    fn from_json(value: &Value) -> Result<Self, String> {
        if value.is_null() { Ok(None) } else { T::from_json(value).map(Some) }
    }
}

/// One value stands for a list of it.
impl<T: FromJson> FromJson for Vec<T> {
    fn from_json(value: &Value) -> Result<Self, String> {
        match value {
            Value::Array(values) => values.iter().map(T::from_json).collect(),
            one => Ok(vec![T::from_json(one)?]),
        }
    }
}

impl<T: FromJson> FromJson for HashMap<String, T> {
    fn from_json(value: &Value) -> Result<Self, String> {
        let entries = value.as_object().ok_or(" is not an object with names")?;
        entries.iter().map(|(name, value)| Ok((name.clone(), T::from_json(value)?))).collect()
    }
}

impl FromJson for bool {
    fn from_json(value: &Value) -> Result<Self, String> {
        Ok(value.as_bool().ok_or(" is neither true nor false")?)
    }
}

impl FromJson for i64 {
    fn from_json(value: &Value) -> Result<Self, String> {
        Ok(value.as_i64().ok_or(" is not an integer")?)
    }
}

impl FromJson for u64 {
    fn from_json(value: &Value) -> Result<Self, String> {
        let below = || value.as_i64().map(|number| format!(" is {number} (want 0 or more)"));
        value.as_u64().ok_or_else(|| below().unwrap_or_else(|| " is not an integer".to_owned()))
    }
}

impl FromJson for usize {
    fn from_json(value: &Value) -> Result<Self, String> {
        usize::try_from(u64::from_json(value)?).map_err(|_| format!(" is {value}, too large for this machine"))
    }
}

impl FromJson for f64 {
    /// JSON has neither infinities nor NaN: they are texts.
    fn from_json(value: &Value) -> Result<Self, String> {
        let number = value.as_f64().or_else(|| value.as_str()?.parse().ok());
        Ok(number.ok_or(" is not a number")?)
    }
}

impl FromJson for f32 {
    fn from_json(value: &Value) -> Result<Self, String> {
        f64::from_json(value).map(|number| number as f32)
    }
}

impl<T: FromJson, const N: usize> FromJson for [T; N] {
    fn from_json(value: &Value) -> Result<Self, String> {
        let wrong = |_| format!(" is not a list of {N} values");
        Vec::from_json(value)?.try_into().map_err(wrong)
    }
}

impl FromJson for String {
    fn from_json(value: &Value) -> Result<Self, String> {
        Ok(value.as_str().ok_or(" is not a text")?.to_owned())
    }
}

/// What a text stands for.
///
/// # Errors
/// Where the value is not a text, or the text is not known.
#[doc(hidden)]
pub fn parsed<T: FromStr<Err: Display>>(value: &Value) -> Result<T, String> {
    String::from_json(value)?.parse().map_err(|error| format!(": {error}"))
}

/// Values that are written as text.
#[doc(hidden)]
#[macro_export]
macro_rules! text_values {
    ($($kind:ty),*) => {$(
        impl $crate::__private::FromJson for $kind {
            fn from_json(value: &serde_json::Value) -> Result<Self, String> {
                $crate::__private::parsed(value)
            }
        }
    )*};
}
text_values!(
    Activations,
    CandidateFormat,
    DataType,
    Format,
    Layout,
    Loader,
    Loss,
    ModelForm,
    Pattern,
    QuantizedFormat,
    RoundMode,
    ScaleRule,
    WeightFormat
);

/// A string with a unit, or a number of bytes.
impl FromJson for ShardSize {
    fn from_json(value: &Value) -> Result<Self, String> {
        match value.as_number() {
            Some(number) => number.to_string().parse().map_err(|error| format!(": {error}")),
            None => parsed(value),
        }
    }
}

/// A type or `PATTERN=TYPE` as a text, or the pattern and the type.
impl FromJson for SourceType {
    fn from_json(value: &Value) -> Result<Self, String> {
        match value.as_array().map(Vec::as_slice) {
            None => parsed(value),
            Some([pattern, data_type]) => {
                Ok(SourceType { pattern: Some(parsed(pattern)?), data_type: parsed(data_type)? })
            }
            Some(_) => Err(" has an item that is neither a type nor a pattern and a type".to_owned()),
        }
    }
}

/// `PATTERN=TYPE` as a text, or the pattern and the type, which may be `null`.
impl<T: FromJson + FromStr<Err: Display>> FromJson for Rule<T> {
    fn from_json(value: &Value) -> Result<Self, String> {
        match value.as_array().map(Vec::as_slice) {
            None => parsed(value),
            Some([pattern, to]) => Ok(Rule { pattern: parsed(pattern)?, to: Option::from_json(to)? }),
            Some(_) => Err(" has a rule that is not a pattern and a type".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CastRequest, QuantizeRequest};
    use serde_json::json;

    fn with<R: Field>(request: R, options: Value) -> Result<R, String> {
        with_options(request, options.as_object().expect("an object")).map_err(|wording| wording.to_string())
    }

    #[test]
    fn options_reach_the_part_that_has_them() {
        let options = json!({
            "to": "f16", "include": "a.*", "rules": [["*.b", null], "*.c=bf16"], "min_elements": 7, "opset": 19,
            "saturate": false, "threads": 3, "copy_others": false, "force": true, "external_threshold": 9,
            "shape": [2, 3], "losses": true, "fail_on": ["nan"], "round_mode": null, "shard_size": "5MB",
        });
        let request = with(CastRequest::default(), options).expect("all of them are options");
        assert_eq!(request.selection.to, Some(DataType::Float16));
        assert_eq!(request.selection.rules, ["*.b=keep", "*.c=bfloat16"].map(|rule| rule.parse().expect("a rule")));
        assert_eq!((request.selection.min_elements, request.options.opset), (Some(7), 19));
        assert_eq!((request.options.threads, request.run.threads), (Some(3), Some(3)), "both parts have it");
        assert_eq!((request.run.copy_others, request.run.write.force, request.run.losses), (false, true, true));
        assert_eq!(request.run.shard_size.map(ShardSize::bytes), Some(5_000_000));
        assert_eq!((request.model.storage.external_threshold, request.raw.shape), (Some(9), Some(vec![2, 3])));
        let named = options_of(&CastRequest::default());
        assert!(["to", "threads", "npy_plain", "in_format"].iter().all(|name| named.contains(name)), "{named:?}");
        assert!(!named.contains(&"watch") && !named.contains(&"run"), "{named:?}");
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (options, want) in [
            (json!({ "typo": 1 }), "`typo` is not an option here"),
            (json!({ "run": {} }), "`run` is not an option here"),
            (json!({ "watch": 1 }), "`watch` is not an option here"),
            (json!({ "losses": "yes" }), "`losses` is neither true nor false"),
            (json!({ "min_elements": -1 }), "`min_elements` is -1 (want 0 or more)"),
            (json!({ "min_elements": 1.5 }), "`min_elements` is not an integer"),
            (
                json!({ "scale_rule": "nope" }),
                "`scale_rule`: scale rule `nope` is not known (want floor, rceil, ceil, even)",
            ),
            (json!({ "shard_size": 0 }), "`shard_size`: `0` holds no tensor (want 1 byte or more)"),
            (json!({ "include": [3] }), "`include` is not a text"),
            (json!({ "rules": [["a"]] }), "`rules` has a rule that is not a pattern and a type"),
        ] {
            assert_eq!(with(QuantizeRequest::default(), options).expect_err(want), want);
        }
    }
}
