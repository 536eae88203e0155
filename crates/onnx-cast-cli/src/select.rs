//! Which tensors are meant, from the arguments.

use crate::args::{NameArgs, SelectionArgs};
use anyhow::Result;
use onnx_cast_file::{Rule, Selection};

impl SelectionArgs {
    pub(crate) fn selection(&self) -> Result<Selection> {
        let mut rules = match &self.rules_file {
            Some(path) => Rule::read(path)?,
            None => Vec::new(),
        };
        rules.extend(self.rule.iter().cloned());
        let NameArgs { include, exclude } = &self.names;
        let min_elements = self.min_elements;
        Ok(Selection { to: self.to, include: include.clone(), exclude: exclude.clone(), rules, min_elements })
    }
}
