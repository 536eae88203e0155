//! A configuration without what it says of quantization, or with something else there. Everything else keeps its text.

use super::config::{QUANTIZATION, not_an_object, read};
use super::json;
use super::table::Layout;
use super::torch_dtype::is_missing;
use crate::error::FileError;
use serde_json::Value;
use std::path::Path;

/// The text of `config.json` for plain weights of a type.
pub(crate) fn plain_config(path: &Path, data_type: &str) -> Result<String, FileError> {
    of_file(path, Some(data_type), None)
}

/// The text of `config.json` for quantized weights, or for those that no configuration describes.
pub(crate) fn quantized_config(path: &Path, quantization: Option<&Value>) -> Result<String, FileError> {
    of_file(path, None, quantization)
}

fn of_file(path: &Path, data_type: Option<&str>, quantization: Option<&Value>) -> Result<String, FileError> {
    let text = read(path)?.unwrap_or_else(|| "{}".to_owned());
    rewrite(&text, data_type, quantization, true).map_err(|error| not_an_object(path, error))
}

fn rewrite(
    text: &str,
    data_type: Option<&str>,
    quantization: Option<&Value>,
    is_whole: bool,
) -> Result<String, serde_json::Error> {
    let pairs = json::pairs(text)?.into_iter().map(|(key, value)| (key, value.to_owned()));
    let mut pairs: Vec<(String, String)> = pairs.collect();
    let is_own = |key: &str, value: &str| Layout::own_keys().any(|(_, own)| own == key) && value.starts_with('{');
    pairs.retain(|(key, value)| !QUANTIZATION.contains(&&**key) && !is_own(key, value));
    for (key, value) in &mut pairs {
        match (&**key, data_type) {
            ("torch_dtype" | "dtype", Some(data_type)) if value.starts_with('"') => {
                *value = Value::from(data_type).to_string();
            }
            // Of models with several parts, which name the type once at least.
            ("text_config", _) if value.starts_with('{') => {
                *value = rewrite(value, data_type, None, false)?.replace('\n', "\n  ");
            }
            _ => {}
        }
    }
    if let Some(data_type) = data_type.filter(|_| is_whole && is_missing(pairs.iter().map(|(key, _)| &**key))) {
        pairs.push(("torch_dtype".to_owned(), Value::from(data_type).to_string()));
    }
    if let Some(quantization) = quantization {
        pairs.push((QUANTIZATION[0].to_owned(), format!("{quantization:#}").replace('\n', "\n  ")));
    }
    Ok(join(&pairs))
}

/// The text of an object.
fn join(pairs: &[(String, String)]) -> String {
    let line = |(key, value): &(String, String)| format!("  {}: {value}", Value::from(&**key));
    let lines: Vec<String> = pairs.iter().map(line).collect();
    if lines.is_empty() { "{}".to_owned() } else { format!("{{\n{}\n}}", lines.join(",\n")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_but_quantization_keeps_its_text() {
        let text = r#"{
  "rope_theta": 1e6,
  "time_step_limit": [0.0, Infinity],
  "quantization_config": {"quant_method": "fp8"},
  "torch_dtype": "float8_e4m3fn",
  "text_config": {"dtype": "bfloat16", "compression_config": {}, "eps": 1e-05}
}"#;
        let want = r#"{
  "rope_theta": 1e6,
  "time_step_limit": [0.0, Infinity],
  "torch_dtype": "float16",
  "text_config": {
    "dtype": "float16",
    "eps": 1e-05
  }
}"#;
        assert_eq!(rewrite(text, Some("float16"), None, true).expect("an object"), want);
        assert_eq!(rewrite("{\"quantization_config\": 1}", None, None, true).expect("an object"), "{}");
        let added = rewrite("{\"a\": 1}", Some("float16"), None, true).expect("an object");
        assert_eq!(added, "{\n  \"a\": 1,\n  \"torch_dtype\": \"float16\"\n}");
        assert!(rewrite("[]", None, None, true).is_err());
    }
}
