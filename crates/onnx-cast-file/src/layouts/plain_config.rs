//! A configuration without what it says of quantization, or with something else there. Everything else keeps its text.

use super::config::{QUANTIZATION, not_an_object, read};
use super::json;
use super::table::Layout;
use super::torch_dtype::is_missing;
use crate::error::FileError;
use serde_json::Value;
use std::path::Path;

/// DeepSeek-V4's key for the format of its experts. vLLM and transformers build the modules of experts by it. vLLM takes
/// a missing key for `fp4`, and reads the key only beside `quant_method: fp8` (deepseek_v4/quant_config.py).
const EXPERTS: &str = "expert_dtype";

/// The models that have the key.
const WITH_EXPERTS: &str = "deepseek_v4";

/// Which keys follow the weights, in the configuration and in those of its parts.
///
/// | key | value |
/// |-|-|
/// | `torch_dtype`, `dtype` | torch's name of the type of plain weights, if models compute in it |
/// | `quantization_config`, `compression_config`, a layout's own key | the description of quantized weights |
/// | `expert_dtype` | `fp8` beside a description with `quant_method: fp8` |
#[derive(Clone, Copy)]
struct Storage<'a> {
    data_type: Option<&'a str>,
    quantization: Option<&'a Value>,
}

/// The text of `config.json` for plain weights. The type is `None` if torch does not compute in it.
pub(crate) fn plain_config(path: &Path, data_type: Option<&str>) -> Result<String, FileError> {
    of_file(path, Storage { data_type, quantization: None })
}

/// The text of `config.json` for quantized weights, or for those that no configuration describes.
pub(crate) fn quantized_config(path: &Path, quantization: Option<&Value>) -> Result<String, FileError> {
    of_file(path, Storage { data_type: None, quantization })
}

fn of_file(path: &Path, storage: Storage<'_>) -> Result<String, FileError> {
    let text = read(path)?.unwrap_or_else(|| "{}".to_owned());
    storage.rewrite(&text, true).map_err(|error| not_an_object(path, error))
}

impl Storage<'_> {
    /// The value of `expert_dtype`.
    fn experts(&self) -> Option<&'static str> {
        self.quantization.filter(|quantization| quantization["quant_method"] == "fp8").map(|_| "fp8")
    }

    fn rewrite(&self, text: &str, is_whole: bool) -> Result<String, serde_json::Error> {
        let pairs = json::pairs(text)?.into_iter().map(|(key, value)| (key, value.to_owned()));
        let mut pairs: Vec<(String, String)> = pairs.collect();
        let has_experts = is_whole && pairs.iter().any(|(key, value)| key == EXPERTS || is_of_v4(key, value));
        let is_own = |key: &str, value: &str| Layout::own_keys().any(|(_, own)| own == key) && value.starts_with('{');
        pairs.retain(|(key, value)| !QUANTIZATION.contains(&&**key) && key != EXPERTS && !is_own(key, value));
        for (key, value) in &mut pairs {
            match (&**key, self.data_type) {
                ("torch_dtype" | "dtype", Some(data_type)) if value.starts_with('"') => {
                    *value = Value::from(data_type).to_string();
                }
                // Of models with several parts, which name the type once at least.
                ("text_config", _) if value.starts_with('{') => {
                    *value = self.rewrite(value, false)?.replace('\n', "\n  ");
                }
                (part, _) if part.ends_with("_config") && describes_weights(value) => {
                    let storage = Storage { data_type: None, ..*self };
                    *value = storage.rewrite(value, false)?.replace('\n', "\n  ");
                }
                _ => {}
            }
        }
        if let Some(data_type) = self.data_type.filter(|_| is_whole && is_missing(pairs.iter().map(|(key, _)| &**key)))
        {
            pairs.push(("torch_dtype".to_owned(), Value::from(data_type).to_string()));
        }
        if let Some(experts) = self.experts().filter(|_| has_experts) {
            pairs.push((EXPERTS.to_owned(), Value::from(experts).to_string()));
        }
        if let Some(quantization) = self.quantization.filter(|_| is_whole) {
            pairs.push((QUANTIZATION[0].to_owned(), format!("{quantization:#}").replace('\n', "\n  ")));
        }
        Ok(join(&pairs))
    }
}

/// Whether a key tells, by itself or in an object, that the model has the key of DeepSeek-V4.
fn is_of_v4(key: &str, value: &str) -> bool {
    match key {
        "model_type" => value.trim_matches('"').starts_with(WITH_EXPERTS),
        _ if value.starts_with('{') => json::pairs(value)
            .is_ok_and(|pairs| pairs.iter().any(|(key, value)| key == EXPERTS || is_of_v4(key, value))),
        _ => false,
    }
}

/// Whether a part of the configuration has keys of its own that describe weights.
fn describes_weights(part: &str) -> bool {
    let is_meant = |key: &str| QUANTIZATION.contains(&key) || key == EXPERTS;
    part.starts_with('{') && json::pairs(part).is_ok_and(|pairs| pairs.iter().any(|(key, _)| is_meant(key)))
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
    use serde_json::json;

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
        let plain = |text: &str| Storage { data_type: Some("float16"), quantization: None }.rewrite(text, true);
        let unnamed = |text: &str| Storage { data_type: None, quantization: None }.rewrite(text, true);
        assert_eq!(plain(text).expect("an object"), want);
        assert_eq!(unnamed("{\"quantization_config\": 1}").expect("an object"), "{}");
        let added = plain("{\"a\": 1}").expect("an object");
        assert_eq!(added, "{\n  \"a\": 1,\n  \"torch_dtype\": \"float16\"\n}");
        assert!(unnamed("[]").is_err());
    }

    /// Each key of the table, at the top and in a part of the model, beside plain and quantized weights.
    #[test]
    fn every_key_that_describes_weights_follows_them() {
        let old = json!({
            "model_type": "deepseek_v4", "expert_dtype": "fp4", "dtype": "bfloat16", "quantization": {"bits": 4},
            "quantization_config": {"quant_method": "fp8", "expert_dtype": "fp4", "scale_fmt": "ue8m0"},
            "text_config": {"dtype": "bfloat16", "expert_dtype": "fp4", "quantization_config": {}},
            "llm_config": {"compression_config": {}, "dtype": "bfloat16", "a": 1},
            "vision_config": {"dtype": "float32"},
        });
        let rewritten = |old: &Value, data_type, quantization: Option<&Value>| -> Value {
            let text = Storage { data_type, quantization }.rewrite(&old.to_string(), true).expect("an object");
            serde_json::from_str(&text).expect("JSON")
        };
        let want = |dtype: &str, added: &[(&str, Value)]| {
            let mut want = json!({
                "model_type": "deepseek_v4", "dtype": dtype, "text_config": {"dtype": dtype},
                "llm_config": {"dtype": "bfloat16", "a": 1}, "vision_config": {"dtype": "float32"},
            });
            added.iter().for_each(|(key, value)| want[*key] = value.clone());
            want
        };
        assert_eq!(rewritten(&old, Some("float16"), None), want("float16", &[]));
        // A type that models do not compute in, float8: torch has another name for it, and no model of it.
        assert_eq!(rewritten(&old, None, None), want("bfloat16", &[]));
        let (fp8, other) = (json!({"quant_method": "fp8"}), json!({"quant_method": "compressed-tensors"}));
        let experts = ("expert_dtype", json!("fp8"));
        let quantized = want("bfloat16", &[experts.clone(), ("quantization_config", fp8.clone())]);
        assert_eq!(rewritten(&old, None, Some(&fp8)), quantized);
        assert_eq!(rewritten(&old, None, Some(&other)), want("bfloat16", &[("quantization_config", other.clone())]));
        // vLLM takes a missing key for `fp4`. Other models do not have it.
        let plain = want("bfloat16", &[]);
        assert_eq!(rewritten(&plain, None, Some(&fp8)), quantized);
        let llama = json!({"model_type": "llama"});
        let described = json!({"model_type": "llama", "quantization_config": fp8});
        assert_eq!(rewritten(&llama, None, Some(&fp8)), described);
    }
}
