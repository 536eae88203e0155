//! Scales of activations in another layout: under its names, in its shapes, and as factors or divisors as it has them.

use crate::checkpoint::{Checkpoint, TensorRef};
use crate::engine::{OutputTensor, Source};
use crate::error::FileError;
use crate::formats::error::{Invalid, InvalidKind};
use crate::layouts::{Activations, Calibration, Layout, QuantizedFormat, Weight, WrittenWeight};
use crate::summary::TensorSummary;
use crate::text::Wording;
use DataType::{BFloat16, Float, Float16};
use onnx_cast::scaled::BlockFormat;
use onnx_cast::{Cast, CastOptions, DataType, TensorView};
use std::collections::HashMap;

/// What a scale of activations is for, by its name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind<'n> {
    /// The inputs of the weights of a module; the scale is a divisor or a factor.
    Inputs {
        module: &'n str,
        divides: bool,
    },
    /// The keys (0) or the values (1) that a module caches.
    Cache {
        module: &'n str,
        index: usize,
    },
    Other,
}

impl Kind<'_> {
    /// Of a tensor, in any layout.
    pub(super) fn of(name: &str) -> Kind<'_> {
        let (module, last) = name.rsplit_once('.').unwrap_or(("", name));
        let parent =
            |of: &str| module.rsplit_once('.').filter(|(_, last)| *last == of).map_or(module, |(parent, _)| parent);
        match last {
            "input_scale" | "scale_input" => Kind::Inputs { module, divides: false },
            "input_global_scale" => Kind::Inputs { module, divides: true },
            "k_scale" => Kind::Cache { module: parent("k_proj"), index: 0 },
            "v_scale" => Kind::Cache { module: parent("v_proj"), index: 1 },
            _ => Kind::Other,
        }
    }
}

/// A checkpoint on the way to a layout.
pub(super) struct Carrier<'a, 'w> {
    pub(super) checkpoint: &'a Checkpoint,
    pub(super) layout: Layout,
    /// What the weights become, and their places by their names.
    pub(super) written: &'w [WrittenWeight],
    pub(super) places: HashMap<&'w str, usize>,
}

impl<'a> Carrier<'a, '_> {
    /// The tensor that another layout has for a scale of activations.
    pub(super) fn row(&self, tensor: TensorRef) -> Result<OutputTensor<'a>, FileError> {
        let name = &*self.checkpoint.stored(tensor).name;
        let refuse = |reason| Err(self.refusal(tensor, reason));
        let spec = self.layout.spec();
        let Some(Calibration { input, nvfp4, cache }) = &spec.calibration else {
            return refuse("it has no scales of activations");
        };
        let below =
            |module: &str, end: &str| if module.is_empty() { end.to_owned() } else { format!("{module}.{end}") };
        match (Kind::of(name), cache) {
            (Kind::Cache { module, index }, Some(ends)) => self.made(tensor, below(module, ends[index]), false),
            (Kind::Inputs { module, divides }, _) => {
                let Some(&index) = self.places.get(&*below(module, "weight")) else {
                    return refuse("no quantized weight belongs to it");
                };
                let written = &self.written[index];
                if written.activations != Activations::Static {
                    return refuse("its loaders quantize these activations by other scales");
                }
                match (written.to == QuantizedFormat::Block(BlockFormat::NvFp4), nvfp4) {
                    (true, Some((end, wants))) => self.made(tensor, below(module, end), divides != *wants),
                    (false, _) => self.made(tensor, below(module, input), divides),
                    (true, None) => refuse("it has no scales of activations of NVFP4"),
                }
            }
            _ => refuse("it has no such scale"),
        }
    }

    /// The scale, or its reciprocal, under another name.
    fn made(&self, tensor: TensorRef, name: String, inverts: bool) -> Result<OutputTensor<'a>, FileError> {
        let (stored, spec) = (self.checkpoint.stored(tensor), self.layout.spec());
        if stored.len != 1 || !matches!(stored.data_type, Float | BFloat16 | Float16) {
            return Err(self.refusal(tensor, "it needs one number for the tensor"));
        }
        let keeps = spec.keeps_scale_type && !inverts;
        let to = if keeps { stored.data_type } else { Float };
        let bytes = self.checkpoint.bytes(tensor)?;
        let path = self.checkpoint.files[tensor.file].path();
        let wrong = |error| FileError::cast(path, &stored.name, error);
        let float = || {
            let cast = Cast::new(Float, &CastOptions::new().threads(1))?;
            Ok(cast.run(&TensorView::new(stored.data_type, &[1], &bytes)?)?.to_vec::<f32>())
        };
        let value = float().map_err(wrong)?.unwrap_or_default().first().copied().unwrap_or(f32::NAN);
        if !(value.is_finite() && value > 0.0) {
            return Err(self.refusal(tensor, "it needs a positive number"));
        }
        let value = if inverts { 1.0 / value } else { value };
        if !value.is_finite() {
            return Err(self.refusal(tensor, "its reciprocal is beyond the range of float"));
        }
        let bytes = if keeps { bytes } else { value.to_le_bytes().to_vec() };
        let shape = spec.shape_of_one().to_vec();
        let summary = TensorSummary::kept(&name, shape, stored.data_type, self.checkpoint.byte_len(tensor));
        let summary = TensorSummary { to, bytes_after: bytes.len() as u64, cast: true, ..summary };
        Ok(OutputTensor { summary, tensor, source: Source::Bytes(bytes) })
    }

    fn refusal(&self, tensor: TensorRef, reason: &'static str) -> FileError {
        let what = Wording::from(format!("{} cannot store it: {reason} (", self.layout.name()));
        let what = what.field("activations", " drops the calibrated scales of activations)");
        let error = Invalid::new(InvalidKind::Unsupported, what).of_tensor(&self.checkpoint.stored(tensor).name);
        self.checkpoint.error(Some(tensor), error)
    }
}

/// Whether a weight has a scale of its inputs.
pub(super) fn is_calibrated(checkpoint: &Checkpoint, weight: &Weight) -> bool {
    let Some(module) = weight.name.strip_suffix("weight") else {
        return checkpoint.find(&format!("{}_input_scale", weight.name)).is_some();
    };
    ["input_scale", "scale_input", "input_global_scale"]
        .iter()
        .any(|end| checkpoint.find(&format!("{module}{end}")).is_some())
}
