//! Checks whether a loader would read a checkpoint, as far as the loader's own rules determine this.

use crate::checkpoint::Checkpoint;
use crate::error::FileError;
use crate::formats::checkpoint::locate;
use crate::formats::error::InvalidKind;
use crate::glob::{Regex, to_regex};
use crate::io::fs;
use crate::layouts::{Granularity, Layout, QUANTIZATION, QuantizedFormat, Weight, Weights, config_of_folder, form_of};
use crate::loaders::{Loader, Rules};
use crate::text::Count;
use onnx_cast::__private::DefaultEnvironment;
use onnx_cast::scaled::BlockFormat;
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

/// Result of comparing a checkpoint with the rules of a loader.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Loading {
    /// The loader.
    pub loader: Loader,
    /// The release of the loader whose rules are used.
    pub version: &'static str,
    /// Number of modules that the loader reads correctly.
    pub read: usize,
    /// Modules or tensors that the loader would reject or misread, each with the reason.
    pub problems: Vec<(String, String)>,
    /// Number of modules that the rules do not decide, for each reason.
    pub undecided: Vec<(String, usize)>,
}

/// Compares a checkpoint with the rules of a loader. The loader must support the layout and the formats, build the
/// quantized modules with quantization and all others without, and join only modules of the same format.
///
/// # Errors
/// If a file cannot be read. Invalid quantized weights are reported as problems, not as errors.
pub fn check(path: impl AsRef<Path>, loader: Loader) -> Result<Loading, FileError> {
    let _environment = DefaultEnvironment::enter();
    let path = path.as_ref();
    let checkpoint = Checkpoint::located(path, &locate(path)?)?;
    let mut checked = Checked {
        read: 0,
        problems: Vec::new(),
        undecided: BTreeMap::new(),
        loader,
        rules: checkpoint.model()?.rules_of(loader),
    };
    let found = checkpoint.config(None).and_then(|config| Weights::find(&checkpoint, &config));
    match found {
        // Without a description, a loader builds every module plain.
        Ok(weights) if weights.layout.spec().configuration.is_some() && checkpoint.claim().is_none() => {
            let reason = "no configuration says that its weights are quantized".to_owned();
            checked.problems.push((String::new(), reason));
        }
        Ok(weights) => checked.checkpoint(&checkpoint, &weights)?,
        Err(error) if error.kind() == Some(InvalidKind::NotQuantized) => {
            let plain = checkpoint.tensors().filter(|(_, stored)| stored.shape.len() == 2).count();
            checked.undecided.insert("not quantized".to_owned(), plain);
        }
        Err(error) if error.kind().is_some() => checked.problems.push((String::new(), error.to_string())),
        Err(error) => return Err(error),
    }
    let Checked { read, problems, undecided, .. } = checked;
    let undecided = undecided.into_iter().filter(|(_, count)| *count > 0).collect();
    Ok(Loading { loader, version: loader.version(), read, problems, undecided })
}

/// Summarizes in one line whether the loaders of a layout would read a written checkpoint; `None` if their tables
/// decide nothing about it.
pub(crate) fn note(output: &Path, layout: Layout) -> Option<String> {
    if !fs::HAS_OUTPUTS || !fs::is_dir(output) {
        return None;
    }
    let loaders = Loader::ALL.iter().filter(|(_, name, _)| layout.has_loader(name));
    let found = loaders.filter_map(|(loader, ..)| check(output, *loader).ok());
    let found: Vec<Loading> = found.filter(|found| found.read > 0 || !found.problems.is_empty()).collect();
    let named = |found: &Loading| format!("{} {}", found.loader.name(), found.version);
    let (whole, broken): (Vec<&Loading>, Vec<&Loading>) = found.iter().partition(|found| found.problems.is_empty());
    let lines = broken.iter().map(|found| {
        let (count, reason) = (Count(found.problems.len(), "module"), &found.problems[0].1);
        format!("{} would not read {count}: {reason}", named(found))
    });
    let names = whole.iter().map(|found| named(found)).collect::<Vec<_>>().join(", ");
    let lines =
        lines.chain((!names.is_empty()).then(|| format!("{names} would read every module that the rules decide")));
    let text = lines.collect::<Vec<_>>().join("; ");
    (!text.is_empty()).then(|| format!("{text} (`check` has the details)"))
}

struct Checked {
    loader: Loader,
    /// `None` for a model that the loader's table lacks.
    rules: Option<Rules>,
    read: usize,
    problems: Vec<(String, String)>,
    undecided: BTreeMap<String, usize>,
}

/// Properties that must be equal for all modules of a joined group.
#[derive(PartialEq)]
struct Joint {
    form: Option<(QuantizedFormat, Granularity)>,
    global: Option<Vec<u8>>,
}

impl Checked {
    fn checkpoint(&mut self, checkpoint: &Checkpoint, weights: &Weights) -> Result<(), FileError> {
        let kept = kept_modules(checkpoint)?;
        let by_module: HashMap<&str, &Weight> =
            weights.list.iter().map(|weight| (module_of(&weight.name), &**weight)).collect();
        let mut modules: Vec<&str> = by_module.keys().copied().collect();
        for (tensor, stored) in checkpoint.tensors() {
            if !weights.roles.contains_key(&tensor) && stored.shape.len() == 2 && stored.name.ends_with(".weight") {
                modules.push(module_of(&stored.name));
            }
        }
        modules.sort_unstable();
        let mut joints: HashMap<String, (&str, Joint)> = HashMap::new();
        let joined = self.rules.as_ref().map(|rules| rules.joined(modules.iter().copied())).unwrap_or_default();
        for module in &modules {
            let weight = by_module.get(module).copied();
            match weight {
                Some(_) if kept.iter().any(|entry| names(entry, module)) => {
                    let reason = "it is quantized, and the configuration lists it as not quantized".to_owned();
                    self.problems.push(((*module).to_owned(), reason));
                }
                Some(weight) => self.quantized(module, weight, weights, checkpoint),
                None => self.plain(module, weights.layout, &kept),
            }
            let Some(group) = joined.group(module) else { continue };
            let form = weight.and_then(|weight| form_of(weight, weights.block, true).ok());
            let has_global = form.is_some_and(|(to, _)| to == QuantizedFormat::Block(BlockFormat::NvFp4));
            let global = weight.and_then(|weight| weight.scales.global).filter(|_| has_global);
            let joint = Joint { form, global: global.map(|global| checkpoint.bytes(global)).transpose()? };
            match joints.get(group) {
                None => drop(joints.insert(group.clone(), (module, joint))),
                Some((_, first)) if *first == joint => {}
                Some((other, first)) => {
                    let what = if first.form == joint.form { "global scale" } else { "format" };
                    let reason = format!("{} joins it with `{other}`, which has another {what}", self.loader.name());
                    self.problems.push(((*module).to_owned(), reason));
                }
            }
        }
        Ok(())
    }

    fn quantized(&mut self, module: &str, weight: &Weight, weights: &Weights, checkpoint: &Checkpoint) {
        // Every loader merges experts in its own way, and not all formats of other modules apply to them.
        if module.contains(".experts.") || weight.values.len() > 2 {
            return self.count("experts".to_owned());
        }
        let (loader, layout) = (self.loader.name(), weights.layout);
        let is_packed = checkpoint.stored(weight.codes.tensor).name != weight.name
            || weight.element_type().bits().is_some_and(|bits| bits < 8);
        let form = form_of(weight, weights.block, true).ok();
        let loaders = form.and_then(|(to, granularity)| layout.loaders_of(to, granularity));
        let rules = self.rules.as_ref();
        let problem = match (loaders, form) {
            (Some(loaders), Some((to, granularity))) if !loaders.contains(&loader) => {
                let to = match to {
                    QuantizedFormat::Elements(_) => format!("{to}/{granularity}"),
                    _ => to.to_string(),
                };
                Some(format!("{loader} does not load {to} in the layout {}", layout.name()))
            }
            _ if rules.is_some_and(|rules| rules.plain(module).is_some()) => {
                Some(format!("{loader} builds it without quantization"))
            }
            _ if is_packed && rules.is_some_and(|rules| rules.opened(module).is_some()) => {
                Some(format!("{loader} reads its weight itself, which is packed"))
            }
            _ => None,
        };
        match (problem, loaders, rules) {
            (Some(problem), ..) => self.problems.push((module.to_owned(), problem)),
            (None, None, _) => self.count(format!("weights in the layout {}", layout.name())),
            (None, _, None) => self.count(format!("modules of a model that {loader}'s table lacks")),
            (None, _, Some(rules)) if rules.is_quantized(module) == Some(true) => self.read += 1,
            (None, ..) => self.count(format!("quantized modules that {loader}'s table lacks")),
        }
    }

    fn plain(&mut self, module: &str, layout: Layout, kept: &[String]) {
        let loader = self.loader.name();
        let is_listed = kept.iter().any(|entry| names(entry, module));
        let is_quantized = self.rules.as_ref().map(|rules| match rules.plain(module) {
            Some(_) => Some(false),
            None => rules.is_quantized(module),
        });
        match is_quantized {
            _ if is_listed || !layout.is_joined() => self.read += 1,
            None => self.count(format!("modules of a model that {loader}'s table lacks")),
            Some(Some(true)) => {
                let reason = format!("it is plain, and {loader} expects it quantized (no list of kept modules has it)");
                self.problems.push((module.to_owned(), reason));
            }
            Some(Some(false)) => self.read += 1,
            Some(None) => self.count(format!("plain modules that {loader}'s table lacks")),
        }
    }

    fn count(&mut self, reason: String) {
        *self.undecided.entry(reason).or_default() += 1;
    }
}

fn module_of(name: &str) -> &str {
    name.strip_suffix(".weight").unwrap_or(name)
}

/// Returns the entries of the configuration's lists of modules that are not quantized.
fn kept_modules(checkpoint: &Checkpoint) -> Result<Vec<String>, FileError> {
    let Some(config) = config_of_folder(checkpoint.folder())? else { return Ok(Vec::new()) };
    let keys = ["ignore", "modules_to_not_convert", "exclude_modules", "ignored_layers", "exclude"];
    let found = QUANTIZATION.iter().filter_map(|key| config.get(*key));
    let lists = found.flat_map(|found| keys.iter().filter_map(|key| found.get(*key)?.as_array()));
    Ok(lists.flatten().filter_map(Value::as_str).map(str::to_owned).collect())
}

/// Returns whether an entry of [`kept_modules`] matches a module. An entry is a regular expression after `re:`, a glob
/// pattern, or the first or last names of a module's path.
fn names(entry: &str, module: &str) -> bool {
    let is_match = |expression: &str| Regex::new(expression).is_ok_and(|expression| expression.is_match(module));
    match entry.strip_prefix("re:") {
        Some(expression) => is_match(&format!("^(?:{expression})")),
        None if entry.contains(['*', '[']) => to_regex(entry).is_ok_and(|expression| is_match(&expression)),
        None => {
            let (module, entry) = (format!(".{module}."), format!(".{entry}."));
            module.ends_with(&entry) || module.starts_with(&entry)
        }
    }
}
