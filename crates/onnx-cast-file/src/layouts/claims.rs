//! What a configuration claims of the weights. The tensors are compared with it.

use super::weight::WeightFormat;
use serde_json::Value;
use std::collections::HashMap;

/// The claims of a checkpoint's configuration.
#[derive(Clone, Debug, Default)]
pub(crate) struct Claims {
    /// Rows and columns of a block, where they are named.
    pub(crate) block: Option<[usize; 2]>,
    /// Sizes of groups of columns.
    pub(super) groups: Vec<usize>,
    /// Formats of weights; empty where nothing is claimed.
    pub(super) formats: Vec<WeightFormat>,
    /// What the claim of formats says, for errors.
    pub(super) claim: String,
    /// Formats of single layers, by their names.
    pub(super) layers: HashMap<String, WeightFormat>,
}

impl Claims {
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
