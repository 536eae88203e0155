//! ComfyUI. Its files specify the format of each quantized layer, either in a tensor `comfy_quant` next to the weight,
//! or for all layers in the file's metadata.
//!
//! The metadata has precedence, as in ComfyUI (`convert_old_quants` in comfy/utils.py).
//!
//! Files with only float8 are written in the form that older versions read, with a marker tensor and scales named
//! `scale_weight`. Files with any other format get the metadata (`comfy/ops.py`, `comfy_kitchen/tensor`). The scales of
//! block formats are then stored in tiles as `weight_scale`, NVFP4's global scale as `weight_scale_2`, and int8 has one
//! scale per tensor or row.

use super::{
    BASE, COMFYUI, FP8, INT8, KEPT, KEPT_OR_STATIC, Layout, MXFP8, NVFP4, ROWS_OR_COLUMNS, SPECS, TENSOR, WEIGHT, held,
    names,
};
use crate::checkpoint::Checkpoint;
use crate::error::FileError;
use crate::formats::error::{Invalid, InvalidKind};
use crate::formats::input::StoredTensor;
use crate::layouts::claims::Claims;
use crate::layouts::describe::scaled;
use crate::layouts::format::QuantizedFormat;
use crate::layouts::spec::{COMFY_QUANT, Calibration, Finder, LayoutSpec, Loaders, before};
use crate::layouts::tiles::{fit_swizzled, tiles};
use crate::layouts::weight::{Encoding, Grid, Weight, WeightFormat};
use crate::layouts::written::WrittenWeight;
use crate::text::Wording;
use DataType::{Float4E2M1, Float8E4M3FN, Float8E8M0, Int8, Uint8};
use onnx_cast::DataType;
use serde_json::{Map, Value, json};

/// Key of the metadata.
pub(super) const METADATA: &str = "_quantization_metadata";

const READ: &str = "float8_e4m3fn, float8_e5m2, nvfp4, mxfp8 or int8_tensorwise";

pub(super) const SPEC: LayoutSpec = LayoutSpec {
    name: "comfyui",
    signs: &["scaled_fp8", "scale_weight"],
    names: &[names("weight", "scale_weight", "weight"), WEIGHT],
    told: Some(told),
    describe,
    beside: &[COMFY_QUANT],
    held: &[
        held(&[FP8], &[TENSOR], Loaders::Are(&[COMFYUI]), KEPT_OR_STATIC),
        held(&[NVFP4, MXFP8], &[], Loaders::Are(&[COMFYUI]), KEPT),
        held(&[INT8], &[ROWS_OR_COLUMNS, TENSOR], Loaders::Are(&[COMFYUI]), KEPT),
    ],
    has_tiles: true,
    tensor_scale: &[],
    calibration: Some(Calibration { input: "scale_input", nvfp4: None, cache: None }),
    marker: Some("scaled_fp8"),
    ..BASE
};

impl Layout {
    /// Returns the layout that the files of a checkpoint specify themselves, and their claims.
    pub(in crate::layouts) fn told(checkpoint: &Checkpoint) -> Result<Option<(Layout, Claims)>, FileError> {
        for (layout, row) in SPECS {
            if let Some(claims) = row.told.map(|told| told(checkpoint)).transpose()?.flatten() {
                return Ok(Some((*layout, claims)));
            }
        }
        Ok(None)
    }
}

impl Layout {
    /// Returns whether the files' metadata must specify the format of each layer, given the formats of the weights.
    pub(crate) fn describes_layers(self, mut formats: impl Iterator<Item = QuantizedFormat>) -> bool {
        self == Layout::ComfyUi && formats.any(|format| format != FP8)
    }
}

impl WrittenWeight {
    /// Returns the same weight with the tensor names of files whose metadata specifies the format of each layer.
    pub(crate) fn described_by_layer(mut self) -> WrittenWeight {
        self.scales = format!("{}.{}", self.module, WEIGHT.scales);
        self.global = self.global.map(|(_, shape)| (format!("{}_2", self.scales), shape));
        self
    }

    /// Returns ComfyUI's name for the format.
    fn told_format(&self) -> &'static str {
        match self.to {
            NVFP4 => "nvfp4",
            MXFP8 => "mxfp8",
            INT8 => "int8_tensorwise",
            _ => "float8_e4m3fn",
        }
    }
}

/// Returns the metadata with the format of each layer, if it is needed.
pub(crate) fn layers_of(layout: Layout, written: &[WrittenWeight]) -> Option<(String, String)> {
    let formats = written.iter().map(|weight| weight.to);
    layout.describes_layers(formats).then(|| {
        let layer = |weight: &WrittenWeight| (weight.module.clone(), json!({ "format": weight.told_format() }));
        let layers: Map<String, Value> = written.iter().map(layer).collect();
        (METADATA.to_owned(), json!({ "format_version": "1.0", "layers": layers }).to_string())
    })
}

/// Reads the format of each layer; `None` if no file specifies any.
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
    /// Adds the format of a layer and the type of its elements, if specified.
    fn tell(&mut self, layer: &str, told: Option<(WeightFormat, DataType)>) {
        let Some((format, element)) = told else { return };
        self.layers.insert(layer.to_owned(), format);
        self.elements.insert(layer.to_owned(), element);
    }
}

/// Reads the format and the type of elements from settings, if specified. `place` describes the location of the
/// settings for errors.
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

/// Removes the layers that are now plain from a file's metadata, and the key if no layer is left.
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

/// Describes a weight in the format that the file specifies. The scales of block formats are in cuBLAS's order.
fn describe(finder: &Finder<'_>, mut weight: Weight, start: &str) -> Result<Option<Weight>, FileError> {
    if !finder.read_told(&mut weight, start)? {
        return scaled(finder, weight, start);
    }
    let (checkpoint, tensor, scales) = (finder.checkpoint, weight.codes.tensor, weight.scales.tensor);
    finder.read_shape(&mut weight, checkpoint.stored(tensor)).map_err(|error| checkpoint.error(Some(tensor), error))?;
    finder.leave_out_padding(&mut weight, start);
    let fits = fit_swizzled(&weight, checkpoint.stored(scales), tiles);
    fits.map_err(|error| checkpoint.error(Some(scales), error))?;
    finder.with_companions(weight, start).map(Some)
}

impl Finder<'_> {
    /// Applies the specified format, and checks it against the types. Returns whether it is a block format.
    fn read_told(&self, weight: &mut Weight, start: &str) -> Result<bool, FileError> {
        let (stored, scale) =
            (self.checkpoint.stored(weight.codes.tensor), self.checkpoint.stored(weight.scales.tensor));
        let told = self.claims.layers.get(start.strip_suffix('.').unwrap_or(start)).copied();
        // Some files have lost their metadata. If the caller specifies the layout, the types determine the format.
        let told = told.or_else(|| self.claims.are_overruled.then(|| shown(stored, scale)).flatten());
        match (told, stored.data_type, scale.data_type) {
            (Some(WeightFormat::NvFp4), Uint8, Uint8 | Float8E4M3FN) => {
                (weight.codes.encoding, weight.scales.data_type, weight.scales.block) =
                    (Encoding::HighFirst, Float8E4M3FN, [1, 16]);
                (weight.scales.order, weight.scales.global) = (Grid::Tiles, Some(self.global(stored, scale, start)?));
                Ok(true)
            }
            (Some(WeightFormat::MxFp8), Float8E4M3FN, Uint8 | Float8E8M0) => {
                (weight.scales.order, weight.scales.data_type) = (Grid::Tiles, Float8E8M0);
                Ok(true)
            }
            (None, Uint8 | Int8 | Float4E2M1, _) => {
                let want = format!("{start}{COMFY_QUANT}");
                let error = Invalid::missing(&stored.name, "the format of the layer", &want);
                Err(self.checkpoint.error(Some(weight.codes.tensor), error))
            }
            (_, Uint8 | Float4E2M1, _) | (_, _, Uint8 | Float8E8M0 | Float8E4M3FN) => {
                let claim = told.map_or_else(|| "scales of float".to_owned(), |told| told.to_string());
                let found = format!("elements of {} with scales of {}", stored.data_type, scale.data_type);
                let what = format!("the configuration claims {claim}, and the tensor holds {found}");
                let error = Invalid::new(InvalidKind::Contradiction, what).of_tensor(&stored.name);
                Err(self.checkpoint.error(Some(weight.codes.tensor), error))
            }
            _ => Ok(false),
        }
    }

    /// Rejects a checkpoint that may be in this layout or in ComfyUI's, whose scales are in tiles. Both use the same
    /// tensor names, and nothing else identifies the layout. One weight whose shape of scales rules out tiles decides
    /// for all.
    pub(in crate::layouts) fn check_order_of_scales(&self, layout: Layout) -> Result<(), FileError> {
        let mut found = None;
        for (_, stored) in self.checkpoint.tensors() {
            let Some(start) = before(&stored.name, "weight") else { continue };
            let beside = |ending: &str| self.checkpoint.find(&format!("{start}{ending}"));
            let (Some(scales), [rows, width]) = (beside("weight_scale"), &stored.shape[..]) else { continue };
            let scale = self.checkpoint.stored(scales);
            let (columns, block) = match (stored.data_type, scale.data_type) {
                (Uint8, Float8E4M3FN) if beside("weight_scale_2").is_some() => (width.saturating_mul(2), 16),
                (Float8E4M3FN, Uint8) => (*width, 32),
                _ => continue,
            };
            let in_rows = [*rows, columns.div_ceil(block)];
            let in_tiles = rows.checked_next_multiple_of(128).zip(in_rows[1].checked_next_multiple_of(4));
            match (scale.shape == in_rows, in_tiles.is_some_and(|(down, across)| scale.shape == [down, across])) {
                (true, false) => return Ok(()),
                (fits_rows, true) => found = found.or(Some((scales, fits_rows))),
                (false, false) => {}
            }
        }
        let Some((scales, fits_rows)) = found else { return Ok(()) };
        let (own, tiled) = (layout.name(), Layout::ComfyUi.name());
        let what = match fits_rows {
            true => {
                let what = format!(
                    "{own} has these scales in rows and {tiled} in tiles of 128x4, which gives other values, and \
                     nothing in the file names the layout (want the "
                );
                let what = Wording::from(what).field("layout", format!(" {own} or the "));
                what.field("layout", format!(" {tiled})"))
            }
            false => {
                let what = format!("its shape fits tiles of 128x4, which {tiled} has, and not rows (want the ");
                Wording::from(what).field("layout", format!(" {tiled})"))
            }
        };
        let error = Invalid::new(InvalidKind::Ambiguous, what).of_tensor(&self.checkpoint.stored(scales).name);
        Err(self.checkpoint.error(Some(scales), error))
    }

    /// Removes ComfyUI's padding. ComfyUI pads the last block of rows with zeros, and crops the output of the layer.
    /// The true number of rows is that of the bias.
    fn leave_out_padding(&self, weight: &mut Weight, start: &str) {
        let bias = self.checkpoint.find(&format!("{start}bias")).map(|bias| self.checkpoint.stored(bias));
        if let (Some([rows]), [all, _]) = (bias.map(|bias| &bias.shape[..]), &weight.codes.shape[..])
            && rows.checked_next_multiple_of(weight.scales.block[1]) == Some(*all)
        {
            (weight.codes.shape[0], weight.values[0]) = (*rows, *rows);
        }
    }
}

/// Returns the format that the types of elements and scales imply in ComfyUI; `None` for float8 elements with float
/// scales.
fn shown(stored: &StoredTensor, scale: &StoredTensor) -> Option<WeightFormat> {
    match (stored.data_type, scale.data_type) {
        (Uint8, Uint8 | Float8E4M3FN) => Some(WeightFormat::NvFp4),
        (Float8E4M3FN, Uint8 | Float8E8M0) => Some(WeightFormat::MxFp8),
        (Int8, _) => Some(WeightFormat::Int(8)),
        _ => None,
    }
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
