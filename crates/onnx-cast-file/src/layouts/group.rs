//! Settings that a configuration gives to a group of modules.

use super::format::Activations;
use super::weight::{Weight, WeightFormat};
use crate::glob::{Regex, to_regex};

/// Returns the names of the tensors of a weight that are stored in a format.
pub(super) type StoredNames = fn(&Weight, bool) -> &'static [&'static str];

/// Modules with the same settings. A setting that the configuration leaves open is `None`.
#[derive(Debug)]
pub(crate) struct Group {
    /// The modules; `None` for all modules that are not listed as kept.
    pub(super) targets: Option<Vec<ModuleName>>,
    pub(super) format: Option<WeightFormat>,
    /// Name of the format, and the names that the tensors of a weight imply.
    pub(super) stored_as: Option<(String, StoredNames)>,
    /// Rows and columns of a block; 0 stands for all.
    pub(super) block: Option<[usize; 2]>,
    pub(crate) activations: Option<Activations>,
}

impl Group {
    /// Returns whether the group contains a module.
    pub(crate) fn contains(&self, module: &str) -> bool {
        let is_meant = |target: &ModuleName| match target {
            ModuleName::Name(name) => name == module,
            expression => expression.matches(module),
        };
        self.targets.as_ref().is_none_or(|targets| targets.iter().any(is_meant))
    }

    /// Returns how a weight contradicts the group's settings, if it does. `is_packed` is whether the elements have
    /// another name than the weight.
    pub(crate) fn contradiction(&self, weight: &Weight, is_packed: bool) -> Option<String> {
        let found = weight.format();
        if let Some(format) = self.format.filter(|format| *format != found) {
            return Some(format!("its group in the configuration is {format}, and it holds {found}"));
        }
        if let Some((name, names_of)) = &self.stored_as {
            let names = names_of(weight, is_packed);
            if !names.is_empty() && !names.contains(&&**name) {
                let want = names.join(" or ");
                return Some(format!("`format` of its group is {name}, and its tensors are those of {want}"));
            }
        }
        let [rows, columns] = weight.matrix();
        let clamped = |[height, width]: [usize; 2]| {
            let size = |block: usize, all: usize| if block == 0 { all } else { block.min(all) };
            [size(height, rows), size(width, columns)]
        };
        let block = self.block.map(clamped).filter(|block| *block != clamped(weight.scales.block))?;
        let [[height, width], [down, across]] = [block, weight.scales.block];
        let what = "its group in the configuration has a scale for";
        Some(format!("{what} {height}x{width} elements, and it has one for {down}x{across}"))
    }
}

/// An entry of a configuration's list of modules.
#[derive(Debug)]
pub(crate) enum ModuleName {
    /// A regular expression after `re:`, or a glob pattern.
    Expression(Regex),
    /// The first or last names of a module's path.
    Name(String),
}

impl ModuleName {
    /// Parses an entry. An invalid expression matches no module.
    pub(crate) fn of(entry: &str) -> Option<ModuleName> {
        Some(match entry.strip_prefix("re:") {
            Some(expression) => ModuleName::Expression(Regex::new(&format!("^(?:{expression})")).ok()?),
            None if entry.contains(['*', '[']) => ModuleName::Expression(Regex::new(&to_regex(entry).ok()?).ok()?),
            None => ModuleName::Name(entry.to_owned()),
        })
    }

    /// Returns whether the entry matches a module.
    pub(crate) fn matches(&self, module: &str) -> bool {
        match self {
            ModuleName::Expression(expression) => expression.is_match(module),
            ModuleName::Name(name) => {
                let is_rest = |rest: Option<&str>, point: fn(&str) -> bool| rest.is_some_and(point);
                is_rest(module.strip_prefix(&**name), |rest| rest.is_empty() || rest.starts_with('.'))
                    || is_rest(module.strip_suffix(&**name), |rest| rest.is_empty() || rest.ends_with('.'))
            }
        }
    }
}
