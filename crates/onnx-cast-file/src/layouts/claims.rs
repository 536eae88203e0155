//! What a configuration claims of the weights. The tensors are compared with it.

use super::weight::{ColumnOrder, Weight, WeightFormat};
use crate::formats::error::{Invalid, InvalidKind};
use crate::formats::input::StoredTensor;
use crate::glob::Regex;
use onnx_cast::DataType;
use serde_json::Value;
use std::collections::HashMap;

/// The claims of a checkpoint's configuration.
#[derive(Clone, Debug, Default)]
pub(crate) struct Claims {
    /// Rows and columns of a block, where they are named.
    pub(crate) block: Option<[usize; 2]>,
    /// Other sizes of blocks, of single layers.
    pub(super) blocks: Vec<[usize; 2]>,
    /// Sizes of groups of columns.
    pub(super) groups: Vec<usize>,
    /// Formats of weights; empty where nothing is claimed.
    pub(super) formats: Vec<WeightFormat>,
    /// What the claim of formats says, for errors.
    pub(super) claim: String,
    /// Formats of single layers, by their names.
    pub(super) layers: HashMap<String, WeightFormat>,
    /// Types of the elements of single layers, where a layer's settings name its type.
    pub(super) elements: HashMap<String, DataType>,
    /// Of weights of a format, the settings of activations; `None` where these keep their type.
    pub(super) activations: Vec<(WeightFormat, Option<Value>)>,
    /// How keys and values are cached, where that is named.
    pub(crate) cache: Option<KeyValueCache>,
    /// How integers are packed, and in single layers; `None` there of what is not quantized.
    pub(super) packing: Option<Packing>,
    pub(super) packings: HashMap<String, Option<Packing>>,
    /// Rows of a layer's query, and of its key and its value, where the model is described.
    pub(super) heads: Option<[usize; 2]>,
    /// The size of the hidden states, where the model is described.
    pub(super) hidden: Option<usize>,
    /// The family of the model.
    pub(super) model_type: Option<String>,
    /// Whether the caller names the layout: the tensors decide, whatever formats are claimed.
    pub(super) are_overruled: bool,
    /// What zero points are more than what is stored, where that is told.
    pub(super) zero_offset: Option<u8>,
    /// How words hold columns of integers, where that is told.
    pub(super) order: Option<ColumnOrder>,
    /// Whether integers in words are signed.
    pub(super) is_signed: bool,
    /// Whether scales are factors where the layout has divisors.
    pub(super) are_factors: bool,
    /// Whether all zero points are the middle of the range.
    pub(super) is_symmetric: bool,
    /// Whether weights have no zero points, as groups of layers say it.
    pub(super) symmetry: Vec<Symmetry>,
    /// The setting by which all integers have zero points, for errors: "`sym` is false".
    pub(super) has_zero_points: Option<&'static str>,
    /// Whether the columns of all weights are assigned to groups by an index (act-order).
    pub(super) has_order: bool,
    /// Bits of integers: of layers by patterns that are found in their names, and of the others.
    pub(super) widths: Vec<(Regex, u32)>,
    pub(super) width: Option<u32>,
    /// What is not read here, and what is.
    pub(super) refused: Option<(String, &'static str)>,
}

/// What a group of layers says of zero points.
#[derive(Clone, Debug)]
pub(super) struct Symmetry {
    pub(super) format: WeightFormat,
    /// Names of layers, or of their kinds.
    pub(super) layers: Vec<String>,
    /// Where that is told.
    pub(super) is_symmetric: Option<bool>,
}

/// How keys and values are cached.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum KeyValueCache {
    /// As float8e4m3fn, with a scale for each tensor.
    Float8,
    /// Otherwise, in the words of a layout.
    Other(Value),
}

impl KeyValueCache {
    /// By the value of a configuration's key; `None` if the cache has the type of the model.
    pub(super) fn of(value: Option<&Value>) -> Option<KeyValueCache> {
        let value = value.filter(|value| !value.is_null())?;
        let is = |key: &str, want: Value| value.get(key) == Some(&want);
        let is_tensor = value.get("strategy").is_none_or(|strategy| strategy == "tensor");
        let is_static = !is("dynamic", true.into());
        let is_float8 =
            value == "FP8" || is("type", "float".into()) && is("num_bits", 8.into()) && is_tensor && is_static;
        Some(if is_float8 { KeyValueCache::Float8 } else { KeyValueCache::Other(value.clone()) })
    }
}

/// The width, the group and the mode of integers, as they are claimed.
#[derive(Clone, Debug)]
pub(crate) struct Packing {
    pub(super) bits: u64,
    pub(super) group: u64,
    pub(super) mode: String,
}

impl Claims {
    /// The settings of activations of weights of a format, where they are named and the same for all; the inner `None`
    /// where these keep their type.
    pub(crate) fn activations_of(&self, format: WeightFormat) -> Option<Option<&Value>> {
        let mut found = self.activations.iter().filter(|(known, _)| *known == format).map(|(_, settings)| settings);
        let first = found.next()?;
        found.all(|settings| settings == first).then_some(first.as_ref())
    }

    /// The setting by which weights of a format have zero points in this layer; in doubt they need not.
    pub(super) fn want_zero_points(&self, format: WeightFormat, layer: &str) -> Option<&'static str> {
        let of_groups = (self.symmetry_of(format, layer) == Some(false)).then_some("`symmetric` is false");
        of_groups.or_else(|| self.has_zero_points.filter(|_| format.bits().is_some()))
    }

    /// Whether weights of a format have no zero points in this layer; in doubt they may.
    pub(super) fn are_symmetric(&self, format: WeightFormat, layer: &str) -> bool {
        self.symmetry_of(format, layer) == Some(true)
    }

    /// What the group of a layer says of zero points, or all groups of a format.
    fn symmetry_of(&self, format: WeightFormat, layer: &str) -> Option<bool> {
        let mut of_format = self.symmetry.iter().filter(|group| group.format == format);
        let named = of_format.clone().find(|group| group.layers.iter().any(|name| name == layer));
        let first = named.or_else(|| of_format.next())?.is_symmetric;
        first.filter(|_| named.is_some() || of_format.all(|group| group.is_symmetric == first))
    }

    /// Refuses the checkpoint for something that the configuration says, and tells what is read.
    pub(super) fn refuse(&mut self, what: String, want: &'static str) {
        self.refused = Some((what, want));
    }

    /// Refuses a weight whose elements have another type than the settings of its layer name.
    pub(super) fn check_element(&self, weight: &Weight, stored: &StoredTensor) -> Result<(), Invalid> {
        let layer = weight.name.strip_suffix(".weight").unwrap_or(&weight.name);
        match (self.elements.get(layer), weight.element_type()) {
            (Some(claimed), found) if *claimed != found => {
                let what = format!("the settings of its layer name {claimed}, and the tensor holds {found}");
                Err(Invalid::new(InvalidKind::Contradiction, what).of_tensor(&stored.name))
            }
            _ => Ok(()),
        }
    }

    /// Adds formats, in the words of the configuration.
    pub(super) fn add(&mut self, formats: &[WeightFormat], claim: &str) {
        self.formats.extend(formats.iter().filter(|format| !self.formats.contains(format)).collect::<Vec<_>>());
        if !self.claim.contains(claim) {
            self.claim = [&*self.claim, claim].join(if self.claim.is_empty() { "" } else { " and " });
        }
    }
}

/// `[128, 128]`.
pub(super) fn pair(value: &Value) -> Option<[usize; 2]> {
    match &value.as_array()?[..] {
        [rows, columns] => {
            Some([rows.as_u64()?, columns.as_u64()?].map(|size| size as usize)).filter(|block| !block.contains(&0))
        }
        _ => None,
    }
}
