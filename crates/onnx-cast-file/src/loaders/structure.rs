//! Modules that every layer of a model has. The table `structure.json` is generated from the model definitions of
//! transformers (`scripts/loaders/structure.py`), and only `check` uses it.

use super::names;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::OnceLock;

/// The generated file.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Table {
    models: Vec<Entry>,
}

/// Rules for some model types.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Entry {
    of: Vec<String>,
    /// Linear modules that a module of a name has in every configuration, for each class with this name.
    modules: HashMap<String, Vec<Vec<String>>>,
    /// Lists of layers, and the keys of the configuration with their lengths.
    lists: Vec<[String; 2]>,
}

fn table() -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    // The unit tests parse the table, so an invalid one cannot be released.
    TABLE.get_or_init(|| serde_json::from_str(include_str!("structure.json")).unwrap_or_default())
}

/// The structure of one model.
#[derive(Default)]
pub(crate) struct Structure {
    modules: HashMap<&'static str, Vec<BTreeSet<&'static str>>>,
    lists: Vec<&'static [String; 2]>,
}

impl Structure {
    /// Returns the structure of a model with these model types.
    pub(crate) fn of(kinds: &HashSet<String>) -> Structure {
        let mut structure = Structure::default();
        for entry in table().models.iter().filter(|entry| entry.of.iter().any(|kind| kinds.contains(kind))) {
            for (name, sets) in &entry.modules {
                let sets = sets.iter().map(|set| set.iter().map(String::as_str).collect());
                structure.modules.entry(name).or_default().extend(sets);
            }
            structure.lists.extend(&entry.lists);
        }
        structure
    }

    /// Returns the modules that are missing beside these linear modules, as far as the table says. `lengths` returns
    /// the lengths that the configuration and its parts have under a key.
    pub(crate) fn missing<'c>(&self, modules: &[&str], lengths: impl Fn(&str) -> &'c [usize]) -> Vec<String> {
        let (mut children, mut indices) =
            (BTreeMap::<&str, BTreeSet<&str>>::new(), BTreeMap::<&str, BTreeSet<usize>>::new());
        for module in modules {
            for (at, _) in module.match_indices('.') {
                let (parent, child) = (&module[..at], module[at + 1..].split('.').next().unwrap_or_default());
                children.entry(parent).or_default().insert(child);
                indices.entry(parent).or_default().extend(child.parse::<usize>());
            }
        }
        let mut missing = Vec::new();
        for (parent, children) in &children {
            let absent = self.missing_of(parent, children);
            missing.extend(absent.into_iter().flatten().map(|name| format!("{parent}.{name}")));
        }
        for [list, key] in &self.lists {
            let lengths = lengths(key);
            for (parent, found) in indices.iter().filter(|(parent, _)| parent.rsplit('.').next() == Some(list)) {
                let is_whole = |length: &usize| (0..*length).all(|index| found.contains(&index));
                // Several parts of a model may have lists of this name, of different lengths.
                let Some(length) = lengths.iter().filter(|length| **length > found.len()).min() else { continue };
                if !found.is_empty() && !lengths.iter().any(is_whole) {
                    let absent = (0..*length).filter(|index| !found.contains(index)).take(found.len() + 1);
                    missing.extend(absent.map(|index| format!("{parent}.{index}")));
                }
            }
        }
        missing.sort();
        missing.dedup();
        missing
    }

    /// Returns what a module lacks that has these children; `None` if it lacks nothing, or if the table does not say.
    fn missing_of(&self, module: &str, children: &BTreeSet<&str>) -> Option<Vec<&'static str>> {
        let sets = names(module).last().and_then(|name| self.modules.get(name))?;
        let common = |set: &&BTreeSet<&str>| set.intersection(children).count();
        let closest = sets.iter().max_by_key(common).filter(|set| common(set) > 0)?;
        // A checkpoint with other names stores the model in another form.
        let is_known = children.iter().all(|child| sets.iter().any(|set| set.contains(child)));
        let is_whole = sets.iter().any(|set| set.is_subset(children));
        (is_known && !is_whole).then(|| closest.iter().copied().filter(|name| !children.contains(name)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_read() {
        let table: Table = serde_json::from_str(include_str!("structure.json")).expect("a table");
        assert!(table.models.len() > 300, "{} entries", table.models.len());
    }
}
