//! Which tensors are meant, from the arguments.

use crate::args::{NameArgs, SelectionArgs};
use anyhow::{Result, bail};
use onnx_cast_file::{Pattern, Rule, Selection};
use onnx_cast_report::printable;

impl SelectionArgs {
    pub(crate) fn selection(&self) -> Result<Selection> {
        let mut rules = match &self.rules_file {
            Some(path) => Rule::read(path)?,
            None => Vec::new(),
        };
        rules.extend(self.rule.iter().cloned());
        let NameArgs { include, exclude } = &self.names;
        let min_size = self.min_elements;
        Ok(Selection { to: self.to, include: include.clone(), exclude: exclude.clone(), rules, min_size })
    }

    /// The patterns that were typed, each with its option. Those of a file of rules may be meant for other checkpoints.
    pub(crate) fn patterns(&self) -> Vec<(&'static str, &Pattern)> {
        let mut patterns = self.names.patterns();
        patterns.extend(self.rule.iter().map(|rule| ("--rule", &rule.pattern)));
        patterns
    }
}

impl NameArgs {
    pub(crate) fn patterns(&self) -> Vec<(&'static str, &Pattern)> {
        let given = [("--include", &self.include), ("--exclude", &self.exclude)];
        given.into_iter().flat_map(|(option, list)| list.iter().map(move |pattern| (option, pattern))).collect()
    }
}

/// Refuses a pattern that matches no name: nothing would be cast by it, or all that it was to spare.
pub(crate) fn check<'n>(
    patterns: &[(&'static str, &Pattern)],
    names: impl Iterator<Item = &'n str> + Clone,
) -> Result<()> {
    for (option, pattern) in patterns {
        if names.clone().any(|name| pattern.matches(name)) {
            continue;
        }
        let text = printable(&pattern.to_string());
        match pattern.nearest(names.clone()) {
            Some(name) => bail!("{option} `{text}` matches no tensor (near is `{}`)", printable(name)),
            None => bail!("{option} `{text}` matches no tensor (`onnx-cast info` lists them)"),
        }
    }
    Ok(())
}
