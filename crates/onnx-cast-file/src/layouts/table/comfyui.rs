//! What ComfyUI's files say of themselves: the format of each quantized layer, in a tensor `comfy_quant` beside its
//! weight or, for all layers, in the file's metadata.
//!
//! The metadata has precedence, as in ComfyUI (`convert_old_quants` of comfy/utils.py).

use super::{BASE, COMFY_QUANT, COMFYUI, FP8, KEPT_OR_STATIC, Layout, ROWS, TENSOR, WEIGHT, held, names};
use crate::checkpoint::Checkpoint;
use crate::error::FileError;
use crate::formats::error::{Invalid, InvalidKind};
use crate::layouts::claims::Claims;
use crate::layouts::spec::{Calibration, LayoutSpec, Loaders, before};
use crate::layouts::weight::WeightFormat;
use onnx_cast::DataType;
use serde_json::{Map, Value};

/// The key of the metadata.
pub(super) const METADATA: &str = "_quantization_metadata";

const READ: &str = "float8_e4m3fn, float8_e5m2, nvfp4, mxfp8 or int8_tensorwise";

pub(super) const ROW: LayoutSpec = LayoutSpec {
    name: "comfyui",
    signs: &["scaled_fp8", "scale_weight"],
    names: &[names("weight", "scale_weight", "weight"), WEIGHT],
    told: Some(told),
    beside: &[COMFY_QUANT],
    held: &[held(&[FP8], &[TENSOR], Loaders::Are(&[COMFYUI]), KEPT_OR_STATIC)],
    tensor_scale: &[],
    calibration: Some(Calibration { input: "scale_input", nvfp4: None, cache: None }),
    marker: Some("scaled_fp8"),
    ..BASE
};

impl Layout {
    /// The layout that the files of a checkpoint name themselves, and what they claim.
    pub(in crate::layouts) fn told(checkpoint: &Checkpoint) -> Result<Option<(Layout, Claims)>, FileError> {
        for (layout, row) in &ROWS {
            if let Some(claims) = row.told.map(|told| told(checkpoint)).transpose()?.flatten() {
                return Ok(Some((*layout, claims)));
            }
        }
        Ok(None)
    }
}

/// The format of each layer; `None` where no file tells one.
fn told(checkpoint: &Checkpoint) -> Result<Option<Claims>, FileError> {
    let (mut claims, mut is_told) = (Claims::default(), false);
    for (tensor, stored) in checkpoint.tensors() {
        let Some(layer) = before(&stored.name, COMFY_QUANT) else { continue };
        let format = format(&checkpoint.settings(tensor)?, || format!("tensor `{}`", stored.name));
        let format = format.map_err(|error| checkpoint.error(Some(tensor), error))?;
        claims.tell(layer.trim_end_matches('.'), format);
        is_told = true;
    }
    for file in &checkpoint.files {
        let wrong = |error| FileError::invalid(file.path(), error);
        for (_, text) in file.metadata.iter().flatten().filter(|(key, _)| key == METADATA) {
            let place = || format!("`{METADATA}` of the metadata");
            let parsed: Map<String, Value> = serde_json::from_str(text).map_err(|error| {
                wrong(Invalid::new(InvalidKind::Syntax, format!("{}: not settings in JSON: {error}", place())))
            })?;
            let layers = parsed.get("layers").and_then(Value::as_object);
            for (layer, settings) in layers.into_iter().flatten() {
                let settings = settings.as_object().cloned().unwrap_or_default();
                let format = format(&settings, || format!("layer `{layer}` in {}", place())).map_err(wrong)?;
                claims.tell(layer, format);
                is_told = true;
            }
        }
    }
    Ok(is_told.then_some(claims))
}

impl Claims {
    /// Adds the format of a layer and the type of its elements, where settings name them.
    fn tell(&mut self, layer: &str, told: Option<(WeightFormat, DataType)>) {
        let Some((format, element)) = told else { return };
        self.layers.insert(layer.to_owned(), format);
        self.elements.insert(layer.to_owned(), element);
    }
}

/// The format and the type of elements that settings name, if any; `place` is that of the settings.
fn format(
    settings: &Map<String, Value>,
    place: impl Fn() -> String,
) -> Result<Option<(WeightFormat, DataType)>, Invalid> {
    match settings.get("format").and_then(Value::as_str) {
        Some("float8_e4m3fn") => Ok(Some((WeightFormat::Fp8, DataType::Float8E4M3FN))),
        Some("float8_e5m2") => Ok(Some((WeightFormat::Fp8, DataType::Float8E5M2))),
        Some("nvfp4") => Ok(Some((WeightFormat::NvFp4, DataType::Float4E2M1))),
        Some("mxfp8") => Ok(Some((WeightFormat::MxFp8, DataType::Float8E4M3FN))),
        Some("int8_tensorwise") => Ok(Some((WeightFormat::Int(8), DataType::Int8))),
        Some(other) => {
            let what = format!("the format {}", crate::text::Short(other));
            Err(Invalid::variant(&place(), &what, READ))
        }
        None => Ok(None),
    }
}

/// The metadata of a file some of whose layers are plain: without these, or without the key where all are.
pub(crate) fn without_layers(
    metadata: Option<Vec<(String, String)>>,
    is_plain: impl Fn(&str) -> bool,
) -> Option<Vec<(String, String)>> {
    let mut pairs = metadata?;
    pairs.retain_mut(|(key, text)| {
        let parsed = if key == METADATA { serde_json::from_str::<Map<String, Value>>(text).ok() } else { None };
        let Some(mut parsed) = parsed else { return true };
        let Some(layers) = parsed.get_mut("layers").and_then(Value::as_object_mut) else { return true };
        let before = layers.len();
        layers.retain(|layer, _| !is_plain(layer));
        let is_left = !layers.is_empty();
        if layers.len() < before {
            *text = Value::Object(parsed).to_string();
        }
        is_left
    });
    Some(pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_that_are_plain_leave_the_metadata() {
        let text = r#"{"format_version":"1.0","layers":{"a":{"format":"nvfp4"},"b":{"format":"mxfp8"}}}"#;
        let all = || Some(vec![("format".to_owned(), "pt".to_owned()), (METADATA.to_owned(), text.to_owned())]);
        assert_eq!(without_layers(all(), |_| false), all());
        assert_eq!(without_layers(all(), |_| true), Some(vec![("format".to_owned(), "pt".to_owned())]));
        let left = without_layers(all(), |layer| layer == "a").expect("metadata");
        assert_eq!(left[1].1, r#"{"format_version":"1.0","layers":{"b":{"format":"mxfp8"}}}"#);
        assert_eq!(without_layers(None, |_| true), None);
    }
}
