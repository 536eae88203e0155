//! The type of the weights in a configuration: `torch_dtype`, which newer versions of transformers call `dtype`.
//! Libraries load all weights as this type. Everything else keeps its text.

use super::json::{pairs, place_in};
use onnx_cast::DataType;
use std::ops::Range;

/// The keys of the type.
const KEYS: [&str; 2] = ["torch_dtype", "dtype"];

/// Whether a key is that of a model's part, which may have a type of its own: `text_config`, `vision_config`.
fn is_part(key: &str) -> bool {
    key.ends_with("_config") && key != "quantization_config"
}

/// A key of diffusers, whose configurations do not name a type.
const DIFFUSERS: &str = "_class_name";

/// Keys of transformers. Layers of sentence-transformers have configurations too, which name no type, and their classes
/// take no other keys than their own.
const TRANSFORMERS: [&str; 2] = ["model_type", "architectures"];

/// torch's name for a type that models compute in, as configurations have it.
pub(crate) fn torch_name(data_type: DataType) -> Option<&'static str> {
    match data_type {
        DataType::Float => Some("float32"),
        DataType::Double => Some("float64"),
        DataType::Float16 | DataType::BFloat16 => Some(data_type.name()),
        _ => None,
    }
}

/// Whether a configuration with these keys lacks the type.
pub(super) fn is_missing<'k>(mut keys: impl Iterator<Item = &'k str>) -> bool {
    keys.all(|key| !KEYS.contains(&key) && key != DIFFUSERS)
}

/// A configuration with this type, which is added to one of transformers where it is missing; `None` if the text is not
/// an object.
pub(crate) fn with_torch_dtype(text: &str, name: &str) -> Option<String> {
    let pairs = pairs(text).ok()?;
    let mut edits: Vec<(Range<usize>, String)> = Vec::new();
    for (key, value) in &pairs {
        let place = place_in(text, value);
        if KEYS.contains(&&**key) && value.starts_with('"') {
            edits.push((place, format!("\"{name}\"")));
        } else if is_part(key) && value.starts_with('{') && !is_missing(keys(value).iter().map(String::as_str)) {
            edits.push((place, with_torch_dtype(value, name)?));
        }
    }
    if let Some((_, value)) = pairs.last()
        && pairs.iter().any(|(key, _)| TRANSFORMERS.contains(&&**key))
        && is_missing(pairs.iter().map(|(key, _)| key.as_str()))
    {
        let end = place_in(text, value).end;
        edits.push((end..end, format!(",{}\"{}\": \"{name}\"", space_before_keys(text), KEYS[0])));
    }
    let mut text = text.to_owned();
    edits.into_iter().rev().for_each(|(place, new)| text.replace_range(place, &new));
    Some(text)
}

fn keys(object: &str) -> Vec<String> {
    pairs(object).map(|pairs| pairs.into_iter().map(|(key, _)| key).collect()).unwrap_or_default()
}

/// What stands between the brace and the first key.
fn space_before_keys(text: &str) -> &str {
    let inner = text.trim_start().strip_prefix('{').unwrap_or_default();
    let space = &inner[..inner.len() - inner.trim_start().len()];
    if space.is_empty() { " " } else { space }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_type_changes() {
        for (text, want) in [
            (
                r#"{"torch_dtype": "float32", "a": [1, {"torch_dtype": "x"}]}"#,
                r#"{"torch_dtype": "bfloat16", "a": [1, {"torch_dtype": "x"}]}"#,
            ),
            (
                "{\n    \"model_type\" : \"x\"\n}\n",
                "{\n    \"model_type\" : \"x\",\n    \"torch_dtype\": \"bfloat16\"\n}\n",
            ),
            (r#"{"architectures":[]}"#, r#"{"architectures":[], "torch_dtype": "bfloat16"}"#),
            (r#"{"in_features": 64, "bias": true}"#, r#"{"in_features": 64, "bias": true}"#),
            (r#"{"dtype":"float16"}"#, r#"{"dtype":"bfloat16"}"#),
            (
                r#"{"model_type": "x", "vision_config": {"dtype": "float32"}, "v": {"dtype": "float32"}}"#,
                r#"{"model_type": "x", "vision_config": {"dtype": "bfloat16"}, "v": {"dtype": "float32"}, "torch_dtype": "bfloat16"}"#,
            ),
            (
                r#"{"dtype": "float32", "quantization_config": {"dtype": "x"}, "a_config": {"b_config": {}}}"#,
                r#"{"dtype": "bfloat16", "quantization_config": {"dtype": "x"}, "a_config": {"b_config": {}}}"#,
            ),
            (r#"{"text_config": {"eps": 1}, "dtype": null}"#, r#"{"text_config": {"eps": 1}, "dtype": null}"#),
            (
                r#"{"model_type":"x","b":[NaN,-Infinity]}"#,
                r#"{"model_type":"x","b":[NaN,-Infinity], "torch_dtype": "bfloat16"}"#,
            ),
            (r#"{"_class_name": "UNet", "a": 1}"#, r#"{"_class_name": "UNet", "a": 1}"#),
            ("{}", "{}"),
        ] {
            assert_eq!(with_torch_dtype(text, "bfloat16").as_deref(), Some(want));
            assert_eq!(with_torch_dtype(want, "bfloat16").as_deref(), Some(want));
        }
        for text in ["", "mine", "[1]", "{\"a\": 1"] {
            assert_eq!(with_torch_dtype(text, "float16"), None);
        }
    }
}
