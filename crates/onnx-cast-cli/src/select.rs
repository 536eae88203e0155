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
        let text = pattern.to_string();
        let near = names.clone().map(|name| (distance(&text, name), name)).min();
        match near.filter(|(distance, _)| *distance <= 1 + text.len() / 4 && !text.starts_with("re:")) {
            Some((_, name)) => {
                bail!("{option} `{}` matches no tensor (near is `{}`)", printable(&text), printable(name))
            }
            None => bail!("{option} `{}` matches no tensor (`onnx-cast info` lists them)", printable(&text)),
        }
    }
    Ok(())
}

/// How many letters of a glob have to change for it to match a name; `*` takes any.
fn distance(glob: &str, name: &str) -> usize {
    let name: Vec<char> = name.chars().collect();
    let mut row: Vec<usize> = (0..=name.len()).collect();
    for glob in glob.chars() {
        let mut before = row[0];
        row[0] += usize::from(glob != '*');
        for (place, &letter) in name.iter().enumerate() {
            let (above, left) = (row[place + 1], row[place]);
            row[place + 1] = match glob {
                '*' => above.min(left),
                _ => (before + usize::from(glob != letter && glob != '?')).min(above + 1).min(left + 1),
            };
            before = above;
        }
    }
    row[name.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_of_globs() {
        for (glob, name, want) in [
            ("a.weight", "a.weight", 0),
            ("*.weight", "layers.0.weight", 0),
            ("*.wieght", "layers.0.weight", 2),
            ("l?yers.*", "layers.0.weight", 0),
            ("*norm*", "layers.0.nrm", 1),
            ("", "abc", 3),
            ("abc", "", 3),
        ] {
            assert_eq!(distance(glob, name), want, "{glob} {name}");
        }
    }
}
