//! Which tensors are meant, from the arguments.

use crate::args::SelectionArgs;
use anyhow::{Context, Result};
use onnx_cast_file::{Rule, Selection};
use std::fs;

impl SelectionArgs {
    /// The selection; tensors of fewer than `min_size` elements are kept unless the arguments say otherwise.
    pub(crate) fn selection(&self, min_size: u64) -> Result<Selection> {
        let mut rules = match &self.rules {
            Some(path) => {
                let text = fs::read_to_string(path).with_context(|| format!("{}: cannot read", path.display()))?;
                Rule::parse_lines(&text).with_context(|| path.display().to_string())?
            }
            None => Vec::new(),
        };
        rules.extend(self.rule.iter().cloned());
        Ok(Selection {
            to: self.to,
            include: self.include.clone(),
            exclude: self.exclude.clone(),
            rules,
            min_size: self.min_size.unwrap_or(min_size),
        })
    }
}
