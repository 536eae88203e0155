//! Checks whether a loader would read a checkpoint, as far as the loader's own rules determine this.

use crate::checkpoint::{Checkpoint, Configuration};
use crate::collection::Collection;
use crate::engine::{OutputPlan, OutputTensor, Source};
use crate::error::FileError;
use crate::formats::checkpoint::locate;
use crate::formats::error::InvalidKind;
use crate::formats::format::Format;
use crate::formats::input::{Input, Location, StoredTensor};
use crate::formats::source::Items;
use crate::io::fs;
use crate::io::positional::{InputFile, ReadAt};
use crate::layouts::{
    Activations, Granularity, Group, Layout, Model, ModuleName, QuantizedFormat, Weight, Weights, form_of,
};
use crate::loaders::{Loader, Rules};
use crate::text::Count;
use onnx_cast::__private::DefaultEnvironment;
use onnx_cast::scaled::BlockFormat;
use std::collections::{BTreeMap, HashMap};
use std::io;
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
/// quantized modules with quantization and all others without, and join only modules of the same format. Every module
/// must have the settings that the configuration gives its group. In a folder of several checkpoints, each is compared,
/// and modules have the name of its folder before their own.
///
/// # Errors
/// If a file cannot be read. Invalid quantized weights are reported as problems, not as errors.
pub fn check(path: impl AsRef<Path>, loader: Loader) -> Result<Loading, FileError> {
    let _environment = DefaultEnvironment::enter();
    let path = path.as_ref();
    let Some(all) = Collection::find(path)? else {
        return compare(&Checkpoint::located(path, &locate(path)?)?, loader);
    };
    let mut whole = Loading { loader, version: loader.version(), read: 0, problems: Vec::new(), undecided: Vec::new() };
    let mut undecided = BTreeMap::<String, usize>::new();
    for member in all.checkpoints() {
        let found = compare(&Checkpoint::located(member.path(), &locate(member.path())?)?, loader)?;
        whole.read += found.read;
        whole.problems.extend(found.problems.into_iter().map(|(name, reason)| (member.name_of(&name), reason)));
        found.undecided.into_iter().for_each(|(reason, count)| *undecided.entry(reason).or_default() += count);
    }
    whole.undecided = undecided.into_iter().collect();
    Ok(whole)
}

fn compare(checkpoint: &Checkpoint, loader: Loader) -> Result<Loading, FileError> {
    let model = checkpoint.model()?;
    let mut checked = Checked {
        read: 0,
        problems: Vec::new(),
        undecided: BTreeMap::new(),
        loader,
        rules: model.rules_of(loader),
        kept: Vec::new(),
        groups: Vec::new(),
    };
    let config = checkpoint.config(None);
    let found = config.and_then(|config| Ok((Weights::find(checkpoint, &config)?, config)));
    match found {
        // Without a description, a loader builds every module plain.
        Ok((weights, _)) if weights.layout.spec().configuration.is_some() && checkpoint.claim().is_none() => {
            let reason = "no configuration says that its weights are quantized".to_owned();
            checked.problems.push((String::new(), reason));
        }
        Ok((weights, config)) => {
            checked.kept = config.kept_modules(weights.layout);
            checked.groups = config.groups(weights.layout);
            checked.checkpoint(checkpoint, &weights, &model)?;
        }
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
    line(layout, |loader| check(output, loader))
}

/// Summarizes the same of an output that is planned: a folder that a dry run shows, or tensors in memory, where only
/// problems are reported because callers show notes as warnings. Scales that are measured later are not compared.
pub(crate) fn planned_note(plan: &OutputPlan<'_>, layout: Layout) -> Option<String> {
    let of_folder = plan.options.dry_run && plan.opened.outputs.folder.is_some();
    let of_memory = matches!(plan.opened.checkpoint.configuration, Configuration::Text(Some(_)));
    if !fs::HAS_OUTPUTS || !of_folder && !of_memory {
        return None;
    }
    let (mut tensors, mut known, mut end) = (Vec::new(), Vec::new(), 0);
    for OutputTensor { summary, source, .. } in plan.files.iter().flat_map(|file| &file.rows) {
        if let Source::Bytes(bytes) = source {
            known.push((end, bytes.clone()));
        }
        tensors.push(StoredTensor {
            name: summary.name.clone(),
            data_type: summary.to,
            shape: summary.shape.clone(),
            len: summary.shape.iter().product(),
            place: Location::File(end, Items::PLAIN),
        });
        end += summary.bytes_after;
    }
    let input = Input {
        file: InputFile::other(&plan.opened.input, end, PlannedBytes(known)),
        format: Format::Safetensors,
        tensors,
        metadata: None,
        message: None,
        members: Vec::new(),
        left_out: Vec::new(),
    };
    let config = plan.opened.checkpoint.config_with(plan.configuration.as_ref()).ok()?;
    let checkpoint = Checkpoint::with(vec![input], Configuration::Text(Some(config)));
    let text = line(layout, |loader| compare(&checkpoint, loader))?;
    (!of_memory || text.contains(WOULD_NOT)).then_some(text)
}

/// Words of the line about a loader that does not read everything.
const WOULD_NOT: &str = "would not read";

/// The bytes of planned tensors that are known already, each with its offset. All others are read as zeros.
#[derive(Debug)]
struct PlannedBytes(Vec<(u64, Vec<u8>)>);

impl ReadAt for PlannedBytes {
    fn read_at(&self, at: u64, bytes: &mut [u8]) -> io::Result<usize> {
        bytes.fill(0);
        let index = self.0.partition_point(|(start, _)| *start <= at);
        if let Some((start, known)) = index.checked_sub(1).and_then(|index| self.0.get(index)) {
            let skipped = usize::try_from(at - start).unwrap_or(usize::MAX);
            let known = known.get(skipped..).unwrap_or_default();
            let len = known.len().min(bytes.len());
            bytes[..len].copy_from_slice(&known[..len]);
        }
        Ok(bytes.len())
    }
}

/// Writes the line about the loaders of a layout.
fn line(layout: Layout, check: impl Fn(Loader) -> Result<Loading, FileError>) -> Option<String> {
    let loaders = Loader::ALL.iter().filter(|(_, name, _)| layout.has_loader(name));
    let found = loaders.filter_map(|(loader, ..)| check(*loader).ok());
    let found: Vec<Loading> = found.filter(|found| found.read > 0 || !found.problems.is_empty()).collect();
    let named = |found: &Loading| format!("{} {}", found.loader.name(), found.version);
    let (whole, broken): (Vec<&Loading>, Vec<&Loading>) = found.iter().partition(|found| found.problems.is_empty());
    let lines = broken.iter().map(|found| {
        let (count, reason) = (Count(found.problems.len(), "module"), &found.problems[0].1);
        format!("{} {WOULD_NOT} {count}: {reason}", named(found))
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
    /// Modules that the configuration lists as not quantized.
    kept: Vec<ModuleName>,
    groups: Vec<Group>,
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
    fn checkpoint(&mut self, checkpoint: &Checkpoint, weights: &Weights, model: &Model) -> Result<(), FileError> {
        let by_module: HashMap<&str, &Weight> =
            weights.list.iter().map(|weight| (module_of(&weight.name), &**weight)).collect();
        let mut modules: Vec<&str> = by_module.keys().copied().collect();
        for (tensor, stored) in checkpoint.tensors() {
            if !weights.roles.contains_key(&tensor) && stored.shape.len() == 2 && stored.name.ends_with(".weight") {
                modules.push(module_of(&stored.name));
            }
        }
        modules.sort_unstable();
        for module in model.missing(&modules) {
            self.problem(&module, "the model has this module, and the checkpoint lacks it");
        }
        let mut joints: HashMap<String, (&str, Joint)> = HashMap::new();
        let mut experts: HashMap<&str, (&str, Joint)> = HashMap::new();
        let joined = self.rules.as_ref().map(|rules| rules.joined(modules.iter().copied())).unwrap_or_default();
        for module in &modules {
            let weight = by_module.get(module).copied();
            match weight {
                Some(_) if self.is_kept(module) => {
                    self.problem(module, "it is quantized, and the configuration lists it as not quantized");
                }
                Some(weight) => self.quantized(module, weight, weights, checkpoint),
                None => self.plain(module, weights.layout),
            }
            let form = weight.and_then(|weight| form_of(weight, weights.block, true).ok());
            if let Some((layer, _)) = module.split_once(".experts.") {
                let (other, first) = experts.entry(layer).or_insert((module, Joint { form, global: None }));
                if first.form != form {
                    let reason = format!("its layer's experts are loaded together, and `{other}` has another format");
                    self.problem(module, reason);
                    continue;
                }
            }
            let Some(group) = joined.group(module) else { continue };
            let has_global = form.is_some_and(|(to, _)| to == QuantizedFormat::Block(BlockFormat::NvFp4));
            let global = weight.and_then(|weight| weight.scales.global).filter(|_| has_global);
            let joint = Joint { form, global: global.map(|global| checkpoint.bytes(global)).transpose()? };
            match joints.get(group) {
                None => drop(joints.insert(group.clone(), (module, joint))),
                Some((_, first)) if *first == joint => {}
                Some((other, first)) => {
                    let what = if first.form == joint.form { "global scale" } else { "format" };
                    let reason = format!("{} joins it with `{other}`, which has another {what}", self.loader.name());
                    self.problem(module, reason);
                }
            }
        }
        Ok(())
    }

    fn quantized(&mut self, module: &str, weight: &Weight, weights: &Weights, checkpoint: &Checkpoint) {
        let (loader, layout) = (self.loader.name(), weights.layout);
        let is_packed = checkpoint.stored(weight.codes.tensor).name != weight.name;
        let form = form_of(weight, weights.block, true).ok();
        if let Some(problem) = self.contradiction(module, weight, is_packed, (layout, form), checkpoint) {
            return self.problem(module, problem);
        }
        if module.contains(".experts.") || weight.values.len() > 2 {
            return self.expert(module, weight, (layout, form));
        }
        let has_no_weight = is_packed || weight.element_type().bits().is_some_and(|bits| bits < 8);
        let loaders = form.and_then(|(to, granularity)| layout.loaders_of(to, granularity));
        let rules = self.rules.as_ref();
        let problem = match (loaders, form) {
            (Some(loaders), Some(form)) if !loaders.contains(&loader) => {
                Some(format!("{loader} does not load {} in the layout {}", name_of(form), layout.name()))
            }
            _ if rules.is_some_and(|rules| rules.plain(module).is_some()) => {
                Some(format!("{loader} builds it without quantization"))
            }
            _ if has_no_weight && rules.is_some_and(|rules| rules.opened(module).is_some()) => {
                Some(format!("{loader} reads its weight itself, which is packed"))
            }
            _ => None,
        };
        match (problem, loaders, rules) {
            (Some(problem), ..) => self.problem(module, problem),
            (None, None, _) => self.count(format!("weights in the layout {}", layout.name())),
            (None, _, None) => self.count(format!("modules of a model that {loader}'s table lacks")),
            (None, _, Some(rules)) if rules.is_quantized(module) == Some(true) => self.read += 1,
            (None, ..) => self.count(format!("quantized modules that {loader}'s table lacks")),
        }
    }

    /// Compares a module with experts. Every loader merges experts in its own way, and not all formats of other modules
    /// apply to them.
    fn expert(
        &mut self,
        module: &str,
        weight: &Weight,
        (layout, form): (Layout, Option<(QuantizedFormat, Granularity)>),
    ) {
        let loader = self.loader.name();
        let is_single = weight.values.len() == 2;
        if self.loader == Loader::Transformers
            && is_single
            && self.rules.as_ref().is_some_and(|rules| !rules.is_single_expert(module))
        {
            return self.problem(module, "transformers reads the experts of this model from one tensor");
        }
        let known = form.filter(|_| is_single).zip(self.rules.as_ref());
        let known = known.and_then(|(form, _)| Some((form, layout.experts_of(form.0, form.1, loader)?)));
        let group = self.groups.iter().find(|group| group.contains(module));
        match (known, group.and_then(|group| group.activations)) {
            (Some((form, [])), _) => {
                let (form, layout) = (name_of(form), layout.name());
                self.problem(module, format!("{loader} does not load experts of {form} in the layout {layout}"));
            }
            (Some((_, known)), Some(activations)) if known.contains(&activations) => self.read += 1,
            (Some((form, known)), Some(activations)) => {
                self.problem(module, unsupported(loader, &format!("experts of {}", name_of(form)), known, activations));
            }
            _ => self.count("experts".to_owned()),
        }
    }

    /// Compares a quantized module with the settings of its group in the configuration. Returns a contradiction, or
    /// what the loader does not support.
    fn contradiction(
        &self,
        module: &str,
        weight: &Weight,
        is_packed: bool,
        (layout, form): (Layout, Option<(QuantizedFormat, Granularity)>),
        checkpoint: &Checkpoint,
    ) -> Option<String> {
        if self.groups.is_empty() {
            return None;
        }
        let Some(group) = self.groups.iter().find(|group| group.contains(module)) else {
            return Some("it is quantized, and no group of the configuration targets it".to_owned());
        };
        if let Some(contradiction) = group.contradiction(weight, is_packed) {
            return Some(contradiction);
        }
        let (activations, form) = (group.activations?, form?);
        let known = layout.activations_of(form.0, form.1);
        if self.loader != Loader::Transformers && !known.is_empty() && !known.contains(&activations) {
            return Some(unsupported(self.loader.name(), &name_of(form), &known, activations));
        }
        let scale = layout.spec().calibration.as_ref().and_then(|calibration| match form.0 {
            QuantizedFormat::Block(BlockFormat::NvFp4) => calibration.nvfp4.map(|(name, _)| name),
            _ => Some(calibration.input),
        });
        let scale = scale.filter(|_| activations == Activations::Static && weight.values.len() == 2)?;
        checkpoint.find(&format!("{module}.{scale}")).is_none().then(|| {
            format!("its activations have a scale in the checkpoint, by the configuration, and `{scale}` is missing")
        })
    }

    fn plain(&mut self, module: &str, layout: Layout) {
        let loader = self.loader.name();
        let is_targeted = self.groups.is_empty() || self.groups.iter().any(|group| group.contains(module));
        let is_listed = !is_targeted || self.is_kept(module);
        let is_quantized = self.rules.as_ref().map(|rules| match rules.plain(module) {
            Some(_) => Some(false),
            None => rules.is_quantized(module),
        });
        match is_quantized {
            _ if is_listed || !layout.is_joined() => self.read += 1,
            None => self.count(format!("modules of a model that {loader}'s table lacks")),
            Some(Some(true)) => {
                let reason = format!("it is plain, and {loader} expects it quantized (no list of kept modules has it)");
                self.problem(module, reason);
            }
            Some(Some(false)) => self.read += 1,
            Some(None) => self.count(format!("plain modules that {loader}'s table lacks")),
        }
    }

    fn is_kept(&self, module: &str) -> bool {
        self.kept.iter().any(|entry| entry.matches(module))
    }

    fn problem(&mut self, module: &str, reason: impl Into<String>) {
        self.problems.push((module.to_owned(), reason.into()));
    }

    fn count(&mut self, reason: String) {
        *self.undecided.entry(reason).or_default() += 1;
    }
}

fn unsupported(loader: &str, what: &str, known: &[Activations], activations: Activations) -> String {
    let want = known.iter().map(|known| known.name()).collect::<Vec<_>>().join(" or ");
    format!("{loader} loads {what} with activations {want}, not {activations}")
}

fn name_of((to, granularity): (QuantizedFormat, Granularity)) -> String {
    match to {
        QuantizedFormat::Elements(_) => format!("{to}/{granularity}"),
        _ => to.to_string(),
    }
}

fn module_of(name: &str) -> &str {
    name.strip_suffix(".weight").unwrap_or(name)
}
