//! Edits `config.json` when weights change: the type as which libraries load them (`torch_dtype`, or `dtype` in newer
//! versions of transformers), and the description of quantized weights. Everything else is kept byte for byte.

use super::config::{QUANTIZATION, not_an_object, read};
use super::json;
use super::table::Layout;
use crate::error::FileError;
use onnx_cast::DataType;
use serde_json::Value;
use std::borrow::Cow;
use std::path::Path;

/// DeepSeek-V4's key for the format of its experts. vLLM and transformers choose the class of the expert modules by
/// this key. In vLLM the default is `fp4`, and the key is only read if `quant_method` is `fp8`
/// (deepseek_v4/quant_config.py).
const EXPERTS: &str = "expert_dtype";

/// Prefix of the `model_type` of models with this key.
const WITH_EXPERTS: &str = "deepseek_v4";

/// New values of the keys that depend on the weights, in the configuration and in those of its parts.
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

/// Returns the contents of `config.json` for plain weights. The type is `None` if torch does not compute in it.
pub(crate) fn plain_config(path: &Path, data_type: Option<&str>) -> Result<String, FileError> {
    of_file(path, Storage { data_type, quantization: None })
}

/// Returns the contents of `config.json` for quantized weights. `quantization` is `None` if the layout has no
/// description.
pub(crate) fn quantized_config(path: &Path, quantization: Option<&Value>) -> Result<String, FileError> {
    of_file(path, Storage { data_type: None, quantization })
}

fn of_file(path: &Path, storage: Storage<'_>) -> Result<String, FileError> {
    let text = read(path)?.unwrap_or_else(|| "{}".to_owned());
    storage.edit(&text, true).map_err(|error| not_an_object(path, error))
}

impl Storage<'_> {
    /// Returns the value of `expert_dtype`.
    fn experts(&self) -> Option<&'static str> {
        self.quantization.filter(|quantization| quantization["quant_method"] == "fp8").map(|_| "fp8")
    }

    fn edit(&self, text: &str, is_whole: bool) -> Result<String, serde_json::Error> {
        let is_own = |key: &str, value: &str| Layout::own_keys().any(|(_, own)| own == key) && value.starts_with('{');
        let is_removed = |key: &str, value: &str| QUANTIZATION.contains(&key) || key == EXPERTS || is_own(key, value);
        let mut added = Vec::new();
        if is_whole {
            let pairs = json::pairs(text)?;
            let keys = pairs.iter().filter(|(key, value)| !is_removed(key, value)).map(|(key, _)| &**key);
            if let Some(data_type) = self.data_type.filter(|_| is_missing(keys)) {
                added.push((TYPE_KEYS[0], Value::from(data_type).to_string()));
            }
            let has_experts = pairs.iter().any(|(key, value)| key == EXPERTS || is_of_v4(key, value));
            let experts = self.experts().filter(|_| has_experts);
            added.extend(experts.map(|experts| (EXPERTS, Value::from(experts).to_string())));
            let indented = |value: &Value| format!("{value:#}").replace('\n', "\n  ");
            added.extend(self.quantization.map(|value| (QUANTIZATION[0], indented(value))));
        }
        let edit = |key: &str, value| {
            let part = Storage { data_type: self.data_type.filter(|_| key == "text_config"), ..*self };
            Ok(Some(match self.data_type {
                _ if is_removed(key, value) => return Ok(None),
                Some(data_type) if is_type(key, value) => Value::from(data_type).to_string().into(),
                // Parts of a model may specify their own type.
                _ if key == "text_config" && value.starts_with('{') => part.edit(value, false)?.into(),
                _ if key.ends_with("_config") && describes_weights(value) => part.edit(value, false)?.into(),
                _ => Cow::Borrowed(value),
            }))
        };
        json::edit(text, edit, &added)
    }
}

/// Returns whether a key, or a key nested in its value, shows that the model uses [`EXPERTS`].
fn is_of_v4(key: &str, value: &str) -> bool {
    match key {
        "model_type" => value.trim_matches('"').starts_with(WITH_EXPERTS),
        _ if value.starts_with('{') => json::pairs(value)
            .is_ok_and(|pairs| pairs.iter().any(|(key, value)| key == EXPERTS || is_of_v4(key, value))),
        _ => false,
    }
}

/// Returns whether a part of the configuration has its own keys that describe weights.
fn describes_weights(part: &str) -> bool {
    let is_meant = |key: &str| QUANTIZATION.contains(&key) || key == EXPERTS;
    part.starts_with('{') && json::pairs(part).is_ok_and(|pairs| pairs.iter().any(|(key, _)| is_meant(key)))
}

/// The keys of the type.
const TYPE_KEYS: [&str; 2] = ["torch_dtype", "dtype"];

/// Returns whether a key belongs to a part of the model, which may have its own type: `text_config`, `vision_config`.
fn is_part(key: &str) -> bool {
    key.ends_with("_config") && key != "quantization_config"
}

/// A key of diffusers, whose configurations do not specify a type.
const DIFFUSERS: &str = "_class_name";

/// Keys of transformers. Layers of sentence-transformers also have configurations, but these specify no type, and their
/// classes reject unknown keys.
const TRANSFORMERS: [&str; 2] = ["model_type", "architectures"];

/// Returns torch's name for a type that models compute in, as used in configurations.
pub(crate) fn torch_name(data_type: DataType) -> Option<&'static str> {
    match data_type {
        DataType::Float => Some("float32"),
        DataType::Double => Some("float64"),
        DataType::Float16 | DataType::BFloat16 => Some(data_type.name()),
        _ => None,
    }
}

/// Returns whether a configuration with these keys lacks the type.
fn is_missing<'k>(mut keys: impl Iterator<Item = &'k str>) -> bool {
    keys.all(|key| !TYPE_KEYS.contains(&key) && key != DIFFUSERS)
}

/// Returns whether the value of a key is torch's name of the type.
fn is_type(key: &str, value: &str) -> bool {
    TYPE_KEYS.contains(&key) && value.starts_with('"')
}

/// Returns the configuration with this type. The type is added to a configuration of transformers that lacks it.
/// Returns `None` if the string is not a JSON object.
pub(crate) fn with_torch_dtype(text: &str, name: &str) -> Option<String> {
    let pairs = json::pairs(text).ok()?;
    let mut keys = pairs.iter().map(|(key, _)| key.as_str());
    let lacks_type = keys.clone().any(|key| TRANSFORMERS.contains(&key)) && is_missing(keys.by_ref());
    let added = [(TYPE_KEYS[0], Value::from(name).to_string())];
    let edit = |key: &str, value| {
        let new = match key {
            _ if is_type(key, value) => Some(Value::from(name).to_string()),
            _ if is_part(key) && has_type(value) => with_torch_dtype(value, name),
            _ => None,
        };
        Ok(Some(new.map_or(Cow::Borrowed(value), Cow::Owned)))
    };
    json::edit(text, edit, if lacks_type { &added } else { &[] }).ok()
}

/// Returns whether a part of a configuration specifies its type.
fn has_type(part: &str) -> bool {
    let pairs = if part.starts_with('{') { json::pairs(part).unwrap_or_default() } else { Vec::new() };
    !is_missing(pairs.iter().map(|(key, _)| key.as_str()))
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
  "text_config": {"dtype": "float16", "eps": 1e-05}
}"#;
        let plain = |text: &str| Storage { data_type: Some("float16"), quantization: None }.edit(text, true);
        let unnamed = |text: &str| Storage { data_type: None, quantization: None }.edit(text, true);
        assert_eq!(plain(text).expect("an object"), want);
        assert_eq!(unnamed("{\"quantization_config\": 1}").expect("an object"), "{}");
        let added = plain("{\"a\": 1}").expect("an object");
        assert_eq!(added, "{\"a\": 1, \"torch_dtype\": \"float16\"}");
        assert_eq!(plain("{}").expect("an object"), "{\n  \"torch_dtype\": \"float16\"\n}");
        assert!(unnamed("[]").is_err());
    }

    /// Tests each key of the table, at the top level and in a part of the model, for plain and for quantized weights.
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
            let text = Storage { data_type, quantization }.edit(&old.to_string(), true).expect("an object");
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
        // Models do not compute in float8, and torch has another name for it.
        assert_eq!(rewritten(&old, None, None), want("bfloat16", &[]));
        let (fp8, other) = (json!({"quant_method": "fp8"}), json!({"quant_method": "compressed-tensors"}));
        let experts = ("expert_dtype", json!("fp8"));
        let quantized = want("bfloat16", &[experts.clone(), ("quantization_config", fp8.clone())]);
        assert_eq!(rewritten(&old, None, Some(&fp8)), quantized);
        assert_eq!(rewritten(&old, None, Some(&other)), want("bfloat16", &[("quantization_config", other.clone())]));
        // The key is added because vLLM's default is `fp4`. Other models do not use it.
        let plain = want("bfloat16", &[]);
        assert_eq!(rewritten(&plain, None, Some(&fp8)), quantized);
        let llama = json!({"model_type": "llama"});
        let described = json!({"model_type": "llama", "quantization_config": fp8});
        assert_eq!(rewritten(&llama, None, Some(&fp8)), described);
    }

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
