//! Which tensors of a checkpoint are a weight together, by their names, compared with their types and shapes and with
//! what the configuration claims.

use super::changes::{changes_weight, check_changes};
use super::claims::Claims;
use super::companions::{is_calibration, is_leftover, may_be_companion};
use super::config::Config;
use super::signs::first_sign;
use super::spec::{Finder, ZERO_POINTS, before};
use super::table::Layout;
use super::weight::Weight;
use crate::checkpoint::{Checkpoint, TensorRef};
use crate::error::FileError;
use crate::formats::error::{Invalid, InvalidKind};
use crate::formats::input::StoredTensor;
use crate::text::{Short, Wording};
use DataType::{Float4E2M1, Float6E2M3, Float6E3M2, Float8E4M3FN, Float8E5M2, Int8, Int32, Uint8, Uint32};
use onnx_cast::DataType;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// What a tensor of a quantized checkpoint is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// The elements of a weight.
    Elements(usize),
    /// Another part of a weight.
    Part(usize),
    /// A scale or a zero point of activations.
    Calibration,
    /// Of use only beside quantized weights.
    Leftover,
}

/// The quantized weights of a checkpoint, and the tensors that they are made of.
#[derive(Debug)]
pub(crate) struct Weights {
    /// The layout.
    pub(crate) layout: Layout,
    /// Whether the caller named it.
    pub(crate) is_named: bool,
    /// In the order of their elements.
    pub(crate) list: Vec<Arc<Weight>>,
    /// The tensors that are not kept as they are.
    pub(crate) roles: HashMap<TensorRef, Role>,
    /// Rows and columns of a block, where the configuration names them.
    pub(crate) block: Option<[usize; 2]>,
}

impl Weights {
    /// Finds the weights, and compares them with the claims.
    pub(crate) fn find(checkpoint: &Checkpoint, config: &Config) -> Result<Weights, FileError> {
        Weights::find_but(checkpoint, config, |_, _| false)
    }

    /// As [`Weights::find`], where elements without scales are no error if a function of name and length keeps them.
    pub(crate) fn find_but(
        checkpoint: &Checkpoint,
        config: &Config,
        keeps: impl Fn(&str, u64) -> bool,
    ) -> Result<Weights, FileError> {
        let has = |ending: &str| checkpoint.tensors().any(|(_, stored)| before(&stored.name, ending).is_some());
        let told = Layout::told(checkpoint)?;
        // A scale for each tensor or row means the same in every layout.
        let is_own = |claims: &Claims| claims.layers.values().any(|format| format.is_in_blocks());
        let own =
            told.as_ref().filter(|(_, claims)| is_own(claims) || claims.layers.is_empty()).map(|(layout, _)| *layout);
        let Some(layout) = config.layout.or(own).or_else(|| Layout::of_names(has)) else {
            return Err(checkpoint.error(None, no_layout(checkpoint)));
        };
        check_changes(checkpoint)?;
        let claims = match &told {
            Some((own, claims)) if *own == layout => claims,
            Some((own, claims)) if is_own(claims) => {
                let (own, layout) = (own.name(), layout.name());
                let what = format!("its weights are in the layout {own}, by their files, but the configuration or ");
                let rest = format!(" has {layout}: the scales would be read in another order (want the layout {own})");
                let what = Wording::from(what).field("layout", rest);
                return Err(checkpoint.error(None, Invalid::new(InvalidKind::Contradiction, what)));
            }
            _ => &config.claims,
        };
        let finder = Finder { checkpoint, claims, spec: layout.spec() };
        if config.layout.is_none() && layout != Layout::ComfyUi {
            finder.check_order_of_scales(layout)?;
        }
        let mut list = Vec::new();
        for (tensor, stored) in checkpoint.tensors() {
            let wrong = |error| checkpoint.error(Some(tensor), error);
            if let Some(weight) = finder.weight(tensor, stored)? {
                finder.compare(&weight).map_err(wrong)?;
                // The layers of a file name their types whatever the layout is.
                if let Some((_, told)) = told.as_ref().filter(|_| !config.claims.are_overruled) {
                    told.check_element(&weight, stored).map_err(wrong)?;
                }
                list.push(Arc::new(weight));
            }
        }
        let mut roles = HashMap::new();
        for (index, weight) in list.iter().enumerate() {
            roles.extend(weight.parts().map(|part| (part, Role::Part(index))));
            roles.insert(weight.codes.tensor, Role::Elements(index));
        }
        let modules: HashSet<&str> = list.iter().flat_map(|weight| modules_of(&weight.name)).collect();
        for (tensor, stored) in
            checkpoint.tensors().filter(|(tensor, _)| !roles.contains_key(tensor)).collect::<Vec<_>>()
        {
            let wrong = |error| checkpoint.error(Some(tensor), error);
            if let Some(role) = companion(&stored.name) {
                roles.insert(tensor, role);
            } else if !keeps(&stored.name, stored.len as u64) {
                finder.check_single(stored).and_then(|()| check_unread(stored, &modules, layout)).map_err(wrong)?;
            }
        }
        if list.is_empty() {
            let what = format!("no weights in the layout {} (is the checkpoint dequantized already? ", layout.name());
            let what = Wording::from(what).field("layout", " chooses another layout)");
            return Err(checkpoint.error(None, Invalid::new(InvalidKind::NoWeights, what)));
        }
        Ok(Weights { layout, is_named: claims.are_overruled, list, roles, block: claims.block })
    }

    /// The names of the scales and zero points of activations, in the order of the files.
    pub(crate) fn calibrations(&self, checkpoint: &Checkpoint) -> Vec<String> {
        let is_meant = |tensor: &TensorRef| self.roles.get(tensor) == Some(&Role::Calibration);
        let found = checkpoint.tensors().filter(|(tensor, _)| is_meant(tensor));
        found.map(|(_, stored)| stored.name.clone()).collect()
    }
}

/// A checkpoint whose layout neither the configuration nor names tell. Tensors that look quantized are named: their
/// configuration may be missing.
fn no_layout(checkpoint: &Checkpoint) -> Invalid {
    const KIND: InvalidKind = InvalidKind::NotQuantized;
    match first_sign(checkpoint) {
        Some((codes, companion, known)) => {
            let known = known.map_or_else(String::new, |known| format!(" of {known}"));
            let what = format!(
                "it looks like a quantized weight{known}, with `{}`, but no configuration names the layout (want \
                 its configuration, or a ",
                Short(companion)
            );
            Invalid::new(KIND, Wording::from(what).field("layout", ")")).of_tensor(codes)
        }
        None => Invalid::new(KIND, "no quantized weights, by the configuration and the names of tensors"),
    }
}

/// The module of a weight: its name without the last part. Experts in one tensor are a module of their own too.
fn modules_of(name: &str) -> impl Iterator<Item = &str> {
    let module = name.rsplit_once('.').map(|(module, _)| module);
    module.into_iter().chain(Some(name).filter(|name| !name.ends_with(".weight")))
}

/// Refuses tensors that may change a weight and that the layout does not read.
fn check_unread(stored: &StoredTensor, modules: &HashSet<&str>, layout: Layout) -> Result<(), Invalid> {
    if !may_be_companion(&stored.name, modules) {
        return Ok(());
    }
    let what =
        format!("the layout {} ignores it, but it may change the weight of its module (want another ", layout.name());
    let what = Wording::from(what).field("layout", ", or ").field("exclude", " to keep the tensor)");
    Err(Invalid::new(InvalidKind::Contradiction, what).of_tensor(&stored.name))
}

/// Refuses to quantize these modules if a tensor beside them may change their weights: readers of the output would
/// refuse it, or apply it.
pub(crate) fn check_beside(checkpoint: &Checkpoint, modules: &HashSet<&str>) -> Result<(), FileError> {
    for (tensor, stored) in checkpoint.tensors() {
        if changes_weight(&stored.name) || companion(&stored.name).is_none() && may_be_companion(&stored.name, modules)
        {
            let what = "it may change a weight that is to be quantized, as scales do: loaders of the output would \
                        refuse it (remove the tensor, or rename it)";
            let error = Invalid::new(InvalidKind::Contradiction, what).of_tensor(&stored.name);
            return Err(checkpoint.error(Some(tensor), error));
        }
    }
    Ok(())
}

/// What a tensor is that belongs to no weight, by its name.
fn companion(name: &str) -> Option<Role> {
    match name {
        _ if is_calibration(name) => Some(Role::Calibration),
        _ if is_leftover(name) => Some(Role::Leftover),
        _ => None,
    }
}

impl Finder<'_> {
    /// The weight whose elements a tensor holds; `None` where it holds something else.
    fn weight(&self, tensor: TensorRef, stored: &StoredTensor) -> Result<Option<Weight>, FileError> {
        let is_code = matches!(
            stored.data_type,
            Float8E4M3FN | Float8E5M2 | Float6E2M3 | Float6E3M2 | Float4E2M1 | Uint8 | Int8 | Int32 | Uint32
        );
        if !is_code && !self.spec.has_any_type {
            return Ok(None);
        }
        let found = self.spec.all_names().find_map(|pair| {
            let start = before(&stored.name, pair.elements)?;
            Some((pair, start, self.checkpoint.find(&format!("{start}{}", pair.scales))?))
        });
        let Some((pair, start, scales)) = found else { return Ok(None) };
        let name = format!("{start}{}", pair.values);
        self.describe(tensor, stored, scales, start, name)
    }

    /// Compares a weight with what the configuration claims.
    fn compare(&self, weight: &Weight) -> Result<(), Invalid> {
        if self.claims.are_overruled {
            return Ok(());
        }
        let found = weight.format();
        let layer = weight.name.strip_suffix(".weight").unwrap_or(&weight.name);
        let tensor = &self.checkpoint.stored(weight.codes.tensor).name;
        self.check_claimed_companions(weight, layer)?;
        let of_layer = self.claims.layers.get(layer);
        let claim = match of_layer {
            Some(claimed) if *claimed != found => claimed.to_string(),
            None if !self.claims.formats.is_empty() && !self.claims.formats.contains(&found) => {
                self.claims.claim.clone()
            }
            _ => return Ok(()),
        };
        let scales = self.checkpoint.stored(weight.scales.tensor);
        let shape = crate::text::ShapeText(&scales.shape);
        let found = format!("{found} (scales of {}, {shape})", scales.data_type);
        let what = format!("the configuration claims {claim}, and the tensor holds {found}");
        Err(Invalid::new(InvalidKind::Contradiction, what).of_tensor(tensor))
    }

    /// Refuses a weight without the zero points, or the order of groups, that the configuration claims: without them it
    /// would have other values.
    fn check_claimed_companions(&self, weight: &Weight, layer: &str) -> Result<(), Invalid> {
        let start = weight.name.strip_suffix("weight").map_or_else(|| format!("{layer}."), str::to_owned);
        let missing = |what: &str, setting: &str, ending: &str| {
            let tensor = &self.checkpoint.stored(weight.codes.tensor).name;
            let what = format!("{what} ({setting} in the configuration)");
            Err(Invalid::missing(tensor, &what, &format!("{start}{ending}")))
        };
        let zero_points = self.spec.columns.map_or(ZERO_POINTS, |columns| columns.zero_points);
        match self.claims.want_zero_points(weight.format(), layer) {
            Some(setting) if weight.zero_points.is_none() => {
                return missing("the tensor of zero points", setting, zero_points);
            }
            _ => {}
        }
        let order = self.spec.columns.and_then(|columns| columns.groups).filter(|_| self.claims.has_order);
        let has_one_group = weight.matrix()[1] <= weight.scales.block[1];
        match order {
            Some(order) if !has_one_group && self.checkpoint.find(&format!("{start}{order}")).is_none() => {
                missing("the group of each column", "`desc_act` is true", order)
            }
            _ => Ok(()),
        }
    }

    /// Refuses elements without scales and scales without elements.
    fn check_single(&self, stored: &StoredTensor) -> Result<(), Invalid> {
        let name = &stored.name;
        for pair in self.spec.all_names() {
            let want = |start: &str, ending: &str| format!("{start}{ending}");
            let is_small_float = matches!(stored.data_type, Float8E4M3FN | Float8E5M2 | Float4E2M1);
            // No model has weights of bytes without scales.
            let is_packed = matches!(stored.data_type, Uint8 | Int8 | Int32 | Uint32) && stored.shape.len() > 1;
            let has_scales = |start: &str| self.checkpoint.find(&want(start, pair.scales)).is_some();
            let start = before(name, pair.elements);
            if let Some(start) = start.filter(|start| is_small_float || is_packed && !has_scales(start)) {
                let (data_type, want) = (stored.data_type, want(start, pair.scales));
                let what = Wording::from(format!("{data_type} elements without scales (want `{}`; ", Short(&want)));
                let what = what.field("exclude", " keeps the tensor as it is)");
                return Err(Invalid::new(InvalidKind::Missing, what).of_tensor(name));
            }
        }
        match self.spec.elements_of(name) {
            Some(elements) => {
                let what = format!("scales without a weight (want `{}`)", Short(&elements));
                Err(Invalid::new(InvalidKind::Missing, what).of_tensor(name))
            }
            None => Ok(()),
        }
    }
}
