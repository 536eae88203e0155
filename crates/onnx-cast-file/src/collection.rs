//! Folders of several checkpoints that belong together: pipelines of diffusers, whose `model_index.json` names a folder
//! for each model, and models of sentence-transformers, whose `modules.json` does.
//!
//! Each folder with weights is a checkpoint with a configuration of its own, and a job does its work with each of them.
//! Tensors have the names of their folders before their own, as `transformer/proj.weight`; patterns match either name.
//! `write.rs` makes the output.

#[cfg_attr(all(target_family = "wasm", target_os = "unknown"), path = "collection/no_write.rs")]
mod write;

pub(crate) use write::Outcome;

use crate::checkpoint::Checkpoint;
use crate::engine::{MODULES, PIPELINE, holds_weights};
use crate::error::FileError;
use crate::formats::checkpoint::locate;
use crate::formats::error::{Invalid, InvalidKind};
use crate::formats::folder::{Contents, has_weights, snapshot};
use crate::io::fs;
use crate::layouts::{Layout, WeightFormat, Weights, read_configuration};
use crate::selection::{Pattern, Selection, Unmatched};
use crate::text::Short;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// The library whose models say in `config.json` how they are quantized in layouts that are written.
const TRANSFORMERS: &str = "transformers";

/// A folder of several checkpoints.
#[derive(Debug)]
pub(crate) struct Collection {
    root: PathBuf,
    members: Vec<Member>,
}

/// A folder with weights, or the root itself.
#[derive(Debug)]
pub(crate) struct Member {
    /// The name within the root; empty of the root.
    name: String,
    path: PathBuf,
    /// The library that loads it.
    library: String,
    /// Whether its weights are in `.safetensors` files.
    is_read: bool,
    /// The names of its tensors, and of its quantized weights.
    tensors: Vec<String>,
}

impl Collection {
    /// The checkpoints of a folder, or of the snapshot in a cache; `None` of every other path.
    pub(crate) fn find(path: &Path) -> Result<Option<Collection>, FileError> {
        if cfg!(all(target_family = "wasm", target_os = "unknown")) || !fs::is_dir(path) {
            return Ok(None);
        }
        // What is wrong with a cache is said where it is opened.
        let root = snapshot(path).ok().flatten().unwrap_or_else(|| path.to_owned());
        let members = match (configuration(&root.join(PIPELINE))?, configuration(&root.join(MODULES))?) {
            (Some(index), _) => of_pipeline(&root, &index)?,
            (None, Some(modules)) => of_modules(&root, &modules)?,
            (None, None) => return Ok(None),
        };
        if !members.iter().any(|member| member.is_read && !member.name.is_empty()) {
            return Ok(None);
        }
        let mut found = Collection { root, members };
        for member in found.members.iter_mut().filter(|member| member.is_read) {
            member.tensors = tensors(&member.path)?;
        }
        Ok(Some(found))
    }

    /// Returns the folder that contains all checkpoints.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The folders whose weights are read.
    pub(crate) fn checkpoints(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().filter(|member| member.is_read)
    }

    /// The folder of a name, if its weights are read.
    pub(crate) fn checkpoint(&self, name: &str) -> Option<&Member> {
        self.checkpoints().find(|member| member.name == name)
    }

    /// Refuses patterns that match no tensor of any folder.
    pub(crate) fn check_names(&self, include: &[Pattern], exclude: &[Pattern]) -> Result<(), FileError> {
        self.check("include", include.iter())?;
        self.check("exclude", exclude.iter())
    }

    /// As [`Collection::check_names`], of all patterns of a selection.
    pub(crate) fn check_selection<T>(&self, selection: &Selection<T>) -> Result<(), FileError> {
        self.check_names(&selection.include, &selection.exclude)?;
        self.check("rules", selection.rules.iter().map(|rule| &rule.pattern))
    }

    fn check<'p>(&self, field: &'static str, mut patterns: impl Iterator<Item = &'p Pattern>) -> Result<(), FileError> {
        let matches = |pattern: &Pattern| self.checkpoints().any(|member| member.matches(pattern));
        let Some(pattern) = patterns.find(|pattern| !pattern.is_optional() && !matches(pattern)) else {
            return Ok(());
        };
        let names = self.checkpoints().flat_map(|member| member.tensors.iter().map(|name| member.name_of(name)));
        let names: Vec<String> = names.collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        Err(FileError::invalid(&self.root, Unmatched::new(field, pattern, &names)))
    }

    /// Two collections; `None` of two paths that are none. One of each is an error.
    pub(crate) fn both(paths: [&Path; 2]) -> Result<Option<[Collection; 2]>, FileError> {
        let [first, second] = paths;
        match [Collection::find(first)?, Collection::find(second)?] {
            [Some(first), Some(second)] => Ok(Some([first, second])),
            [None, None] => Ok(None),
            [found, other] => {
                let path = if found.is_some() { first } else { second };
                let found = found.or(other);
                let names =
                    found.iter().flat_map(Collection::checkpoints).map(|member| format!("`{}`", member.label()));
                let what = format!(
                    "both a checkpoint and folders of others, {} (name one of these folders)",
                    names.collect::<Vec<_>>().join(", ")
                );
                Err(FileError::invalid(path, Invalid::new(InvalidKind::Files, what)))
            }
        }
    }
}

impl Member {
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The name, for people.
    fn label(&self) -> &str {
        if self.name.is_empty() { "." } else { &self.name }
    }

    /// The name of a tensor among those of all folders.
    pub(crate) fn name_of(&self, tensor: &str) -> String {
        if self.name.is_empty() { tensor.to_owned() } else { format!("{}/{tensor}", self.name) }
    }

    fn matches(&self, pattern: &Pattern) -> bool {
        let pattern = self.pattern(pattern);
        self.tensors.iter().any(|name| pattern.matches(name))
    }

    /// The pattern for the tensors of the folder, of which it may match none.
    fn pattern(&self, pattern: &Pattern) -> Pattern {
        pattern.clone().optional().within(&self.name)
    }

    /// Patterns for the tensors of the folder.
    pub(crate) fn patterns(&self, patterns: &[Pattern]) -> Vec<Pattern> {
        patterns.iter().map(|pattern| self.pattern(pattern)).collect()
    }

    /// What is selected of the folder.
    pub(crate) fn selection<T: Copy>(&self, selection: &Selection<T>) -> Selection<T> {
        let [include, exclude] = [&selection.include, &selection.exclude].map(|patterns| self.patterns(patterns));
        let mut rules = selection.rules.clone();
        rules.iter_mut().for_each(|rule| rule.pattern = self.pattern(&rule.pattern));
        Selection { include, exclude, rules, ..selection.clone() }
    }

    /// Whether the library of the folder loads weights of a format in a layout, or a pattern names the folder. Why it
    /// does not.
    pub(crate) fn takes(&self, layout: Layout, selection: &Selection<WeightFormat>) -> Result<(), String> {
        let rules = selection.rules.iter().filter(|rule| rule.to.is_some());
        let patterns = selection.include.iter().chain(rules.map(|rule| &rule.pattern));
        let names_folder = |pattern: &Pattern| {
            let within = self.pattern(pattern);
            self.tensors.iter().any(|name| within.matches(name) && !pattern.matches(name))
        };
        // A whole folder of sentence-transformers is also one that the servers load.
        let is_loaded = self.name.is_empty()
            || self.library == TRANSFORMERS
                && selection.targets().any(|to| layout.is_loaded_by(to.format, TRANSFORMERS));
        if is_loaded || patterns.into_iter().any(names_folder) {
            return Ok(());
        }
        Err(format!("{} does not load the layout {}", Short(&self.library), layout.name()))
    }
}

/// The folders of a pipeline, and the library of each, which stands before the class in the index.
fn of_pipeline(root: &Path, index: &Value) -> Result<Vec<Member>, FileError> {
    let mut members = Vec::new();
    for path in fs::entries(root).map_err(|error| FileError::io(root, "read", error))? {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let is_read = has_weights(&path);
        let library = index.get(&name).and_then(|entry| entry.get(0)?.as_str());
        // Other weights than those of the index are left out, and named.
        if !name.starts_with('.') && (is_read || library.is_some() && holds_weights(&path, 0)) {
            let library = library.unwrap_or("the pipeline").to_owned();
            members.push(Member { name, path, library, is_read, tensors: Vec::new() });
        }
    }
    members.sort_by(|first, second| first.name.cmp(&second.name));
    Ok(members)
}

/// The root, if it has weights, and the folders of modules.
fn of_modules(root: &Path, modules: &Value) -> Result<Vec<Member>, FileError> {
    let mut members = Vec::new();
    let contents = Contents::read(root)?;
    if !contents.indices.is_empty() || !contents.files.is_empty() {
        let library = TRANSFORMERS.to_owned();
        members.push(Member {
            name: String::new(),
            path: root.to_owned(),
            library,
            is_read: true,
            tensors: Vec::new(),
        });
    }
    for module in modules.as_array().into_iter().flatten() {
        let name = module.get("path").and_then(Value::as_str).unwrap_or_default();
        let kind = module.get("type").and_then(Value::as_str).unwrap_or_default();
        let path = root.join(name);
        if name.is_empty() || name.contains(['/', '\\', '.']) || !has_weights(&path) {
            continue;
        }
        let library = if kind.ends_with("Transformer") { TRANSFORMERS } else { "sentence-transformers" };
        let (name, library) = (name.to_owned(), library.to_owned());
        members.push(Member { name, path, library, is_read: true, tensors: Vec::new() });
    }
    Ok(members)
}

/// The value in a JSON file; `None` if the file does not exist.
fn configuration(path: &Path) -> Result<Option<Value>, FileError> {
    let Some(text) = read_configuration(path)? else { return Ok(None) };
    serde_json::from_str(&text)
        .map(Some)
        .map_err(|error| FileError::invalid(path, Invalid::new(InvalidKind::Syntax, format!("not JSON: {error}"))))
}

/// The names of the tensors of a checkpoint, and of its quantized weights.
fn tensors(path: &Path) -> Result<Vec<String>, FileError> {
    let located = locate(path)?;
    let checkpoint = Checkpoint::located(path, &located)?;
    let mut names: Vec<String> = checkpoint.tensors().map(|(_, stored)| stored.name.clone()).collect();
    // What contradicts itself is said by the job.
    let weights = checkpoint.config(None).and_then(|config| Weights::find(&checkpoint, &config));
    names.extend(weights.into_iter().flat_map(|weights| weights.list).map(|weight| weight.name.clone()));
    Ok(names)
}
