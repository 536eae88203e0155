//! Rules of vLLM, SGLang and transformers for quantized checkpoints: which modules they join into one parameter, which
//! they build without quantization, and which must not be packed because the loader's own code reads their weights.
//!
//! The tables in `loaders/` are generated from the loaders' own sources (`scripts/loaders/tables.py`), and this module
//! adds nothing to them. An architecture that is missing from both vLLM's and SGLang's table gets the default of
//! [`Rules::of`].

mod structure;

pub(crate) use structure::Structure;

use crate::text::Short;
use serde::Deserialize;
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::str::FromStr;
use std::sync::OnceLock;

/// A loader of quantized checkpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Loader {
    /// vLLM.
    Vllm,
    /// SGLang.
    Sglang,
    /// transformers.
    Transformers,
}

impl FromStr for Loader {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Loader::ALL.iter().find(|(_, known, _)| known.to_lowercase() == name);
        found.map(|(loader, ..)| *loader).ok_or_else(|| format!("unknown loader `{}` (want {NAMES})", Short(name)))
    }
}

const NAMES: &str = "vllm, sglang or transformers";

impl Loader {
    pub(crate) const ALL: [(Loader, &'static str, &'static str); 3] = [
        (Loader::Vllm, "vLLM", include_str!("loaders/vllm.json")),
        (Loader::Sglang, "SGLang", include_str!("loaders/sglang.json")),
        (Loader::Transformers, "transformers", include_str!("loaders/transformers.json")),
    ];

    /// Returns the name, in its project's spelling.
    pub fn name(self) -> &'static str {
        Loader::ALL[self as usize].1
    }

    /// Returns the release from which the rules were generated.
    pub fn version(self) -> &'static str {
        &tables()[self as usize].1.version
    }
}

/// A generated file.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Table {
    version: String,
    models: Vec<Entry>,
    /// Modules that are plain in every architecture.
    default: Vec<String>,
}

/// Rules for some architectures (vLLM and SGLang) or model types (transformers).
#[derive(Default, Deserialize)]
#[serde(default)]
struct Entry {
    of: Vec<String>,
    joined: Vec<Vec<String>>,
    /// Modules that are built without quantization, by the last one or two names of their path.
    plain: Vec<String>,
    /// Modules that are built with quantization.
    quantized: Vec<String>,
    /// Modules that are built with or without quantization.
    both: Vec<String>,
    /// Modules whose `weight` the loader's own code reads.
    opened: Vec<String>,
    /// Parts of the names of modules that are kept in float.
    float: Vec<String>,
    /// Layers of class Conv1D, whose weights have the input axis first.
    transposed: Vec<String>,
    /// Architectures of these model types.
    classes: Vec<String>,
    /// The names of the gate, down and up projections of a single expert (vLLM and SGLang).
    experts: Value,
    /// Names of the projections of single experts, if transformers merges these into one tensor.
    singles: Vec<String>,
    /// Modules of class nn.Linear, which quantizers replace.
    linears: Vec<String>,
    /// Whether the configuration specifies the class of a part of the model, so that this entry may be incomplete.
    dynamic: bool,
}

fn tables() -> &'static [(Loader, Table)] {
    static TABLES: OnceLock<Vec<(Loader, Table)>> = OnceLock::new();
    TABLES.get_or_init(|| {
        // The unit tests parse every table, so an invalid table cannot be released.
        let read = |text| serde_json::from_str(text).unwrap_or_default();
        Loader::ALL.iter().map(|(loader, _, text)| (*loader, read(text))).collect()
    })
}

/// The rules for one model.
#[derive(Default)]
pub(crate) struct Rules {
    groups: Vec<&'static [String]>,
    /// Modules that a loader never quantizes, by name or by the last two names of their path.
    plain: HashMap<&'static str, Loader>,
    /// Modules that a loader cannot read if their weights are packed.
    opened: HashMap<&'static str, Loader>,
    float: HashSet<&'static str>,
    transposed: HashSet<&'static str>,
    /// Modules that are quantized, by name or by the last two names of their path.
    quantized: HashSet<&'static str>,
    both: HashSet<&'static str>,
    /// Names of the projections of single experts that transformers reads.
    singles: HashSet<&'static str>,
}

impl Rules {
    /// Returns the rules for a model with these model types and architectures. If no table contains the architectures,
    /// those of the model types are used. If these are unknown too, a default applies: modules are joined, or must not
    /// be packed, if the tables say so for at least two architectures. They are plain if every architecture in the
    /// tables that contains them builds them without quantization.
    pub(crate) fn of(kinds: &HashSet<String>, classes: &[String]) -> Rules {
        let mut rules = Rules::default();
        let mut of_kinds: Vec<&str> = Vec::new();
        for entry in entries(Loader::Transformers).filter(|entry| entry.of.iter().any(|kind| kinds.contains(kind))) {
            rules.add(Loader::Transformers, entry);
            of_kinds.extend(entry.classes.iter().map(String::as_str));
        }
        let is_known =
            rules.add_classes(&classes.iter().map(String::as_str).collect::<Vec<_>>()) || rules.add_classes(&of_kinds);
        if !is_known {
            rules.add_default();
        }
        rules
    }

    /// Returns the rules of one loader for a model; `None` if its table lacks the model.
    pub(crate) fn of_loader(loader: Loader, kinds: &HashSet<String>, classes: &[String]) -> Option<Rules> {
        let mut rules = Rules::default();
        let of_kinds =
            || entries(Loader::Transformers).filter(|entry| entry.of.iter().any(|kind| kinds.contains(kind)));
        let has = |entry: &Entry, classes: &[String]| entry.of.iter().any(|class| classes.contains(class));
        let found: Vec<&'static Entry> = match loader {
            Loader::Transformers => of_kinds().collect(),
            _ => entries(loader).filter(|entry| has(entry, classes)).collect(),
        };
        let found = match (found.is_empty(), loader) {
            (true, Loader::Vllm | Loader::Sglang) => {
                let classes: Vec<String> = of_kinds().flat_map(|entry| entry.classes.clone()).collect();
                entries(loader).filter(|entry| has(entry, &classes)).collect()
            }
            _ => found,
        };
        for &entry in &found {
            rules.add(loader, entry);
            rules.plain.extend(entry.plain.iter().map(|name| (&**name, loader)));
            rules.quantized.extend(entry.quantized.iter().chain(&entry.linears).map(String::as_str));
            rules.singles.extend(entry.singles.iter().map(String::as_str));
            rules.both.extend(entry.both.iter().map(String::as_str));
        }
        (!found.is_empty()).then_some(rules)
    }

    /// Returns whether a module is quantized unless the configuration lists it as kept; `None` if the rules do not say.
    pub(crate) fn is_quantized(&self, module: &str) -> Option<bool> {
        let names: Vec<&str> = names(module).collect();
        let path = names[names.len().saturating_sub(2)..].join(".");
        let last = names.last().copied().unwrap_or_default();
        let has = |all: &HashSet<&str>| all.contains(&*path) || all.contains(last);
        if has(&self.both) {
            return None;
        }
        has(&self.quantized).then_some(true)
    }

    /// Returns whether transformers reads a projection of a single expert.
    pub(crate) fn is_single_expert(&self, module: &str) -> bool {
        names(module).last().is_some_and(|last| self.singles.contains(last)) || self.is_quantized(module) == Some(true)
    }

    /// Adds the rules of architectures. Returns whether all parts of at least one of them are known.
    fn add_classes(&mut self, classes: &[&str]) -> bool {
        let mut is_known = false;
        for loader in [Loader::Vllm, Loader::Sglang] {
            for entry in entries(loader).filter(|entry| entry.of.iter().any(|class| classes.contains(&&**class))) {
                self.add(loader, entry);
                is_known |= !(entry.dynamic || entry.quantized.is_empty() && entry.joined.is_empty());
            }
        }
        is_known
    }

    fn add(&mut self, loader: Loader, entry: &'static Entry) {
        self.groups.extend(entry.joined.iter().map(Vec::as_slice));
        // If a loader never quantizes this model, its list of plain modules says nothing about other loaders.
        if !entry.quantized.is_empty() {
            self.plain.extend(entry.plain.iter().map(|name| (&**name, loader)));
        }
        self.opened.extend(entry.opened.iter().map(|name| (&**name, loader)));
        self.float.extend(entry.float.iter().map(String::as_str));
        self.transposed.extend(entry.transposed.iter().map(String::as_str));
    }

    fn add_default(&mut self) {
        type Modules = Vec<(&'static str, Loader)>;
        static DEFAULT: OnceLock<(Vec<&'static [String]>, Modules, Modules)> = OnceLock::new();
        let (groups, plain, opened) = DEFAULT.get_or_init(|| {
            let serving = [Loader::Vllm, Loader::Sglang];
            let mut counts = HashMap::<&'static [String], usize>::new();
            let mut opened = HashMap::<(&'static str, Loader), usize>::new();
            let mut quantized = HashSet::new();
            for (loader, entry) in serving.into_iter().flat_map(|one| entries(one).map(move |entry| (one, entry))) {
                entry.opened.iter().for_each(|name| *opened.entry((name, loader)).or_default() += entry.of.len());
                entry.joined.iter().for_each(|group| *counts.entry(group).or_default() += entry.of.len());
                quantized.extend(&entry.quantized);
            }
            let plain = |loader| tables()[loader as usize].1.default.iter().map(move |path| (path, loader));
            let plain = serving.into_iter().flat_map(plain).filter(|(path, _)| !quantized.contains(path));
            let groups = counts.into_iter().filter(|(_, count)| *count > 1).map(|(group, _)| group).collect();
            let opened = opened.into_iter().filter(|(_, count)| *count > 1).map(|(module, _)| module).collect();
            (groups, plain.map(|(path, loader)| (&**path, loader)).collect(), opened)
        });
        self.groups.extend(groups);
        self.plain.extend(plain.iter().copied());
        self.opened.extend(opened.iter().copied());
    }

    /// Returns the loader that builds a module without quantization, if any.
    pub(crate) fn plain(&self, module: &str) -> Option<Loader> {
        let names: Vec<&str> = names(module).collect();
        let found = |parts: &[&str]| self.plain.get(&*parts.join(".")).copied();
        let [.., last] = &names[..] else { return None };
        found(&names[names.len().saturating_sub(2)..]).or_else(|| found(&[last]))
    }

    /// Returns the loader whose own code reads the `weight` of a module, if any.
    pub(crate) fn opened(&self, module: &str) -> Option<Loader> {
        names(module).last().and_then(|last| self.opened.get(last)).copied()
    }

    /// Returns whether transformers keeps a module in float.
    pub(crate) fn is_float(&self, module: &str) -> bool {
        let path = format!(".{module}.weight.");
        self.float.iter().any(|name| path.contains(&format!(".{name}.")))
    }

    /// Whether a layer of this name is Conv1D.
    pub(crate) fn is_transposed(&self, layer: &str) -> bool {
        self.transposed.contains(layer)
    }

    /// Returns the groups into which loaders join these modules.
    pub(crate) fn joined<'n>(&self, modules: impl Iterator<Item = &'n str>) -> Joined {
        let mut siblings = HashMap::<&str, Vec<&str>>::new();
        for module in modules {
            let (parent, last) = module.rsplit_once('.').unwrap_or(("", module));
            siblings.entry(parent).or_default().push(last);
        }
        let mut of = HashMap::new();
        for (parent, mut names) in siblings {
            names.sort_unstable();
            names.dedup();
            // Groups that share a module are merged.
            let mut parts: Vec<Vec<&str>> = Vec::new();
            let groups = self.groups.iter().map(|group| group.iter().map(String::as_str).collect::<Vec<_>>());
            let pairs = if is_expert(parent) { gates_and_ups() } else { &[] };
            for group in groups.chain(pairs.iter().map(|pair| pair.to_vec())) {
                let mut part: Vec<&str> = names.iter().filter(|name| group.contains(name)).copied().collect();
                if part.len() < 2 {
                    continue;
                }
                let (shared, others): (Vec<_>, Vec<_>) =
                    parts.into_iter().partition(|other| other.iter().any(|name| part.contains(name)));
                part.extend(shared.into_iter().flatten());
                part.sort_unstable();
                part.dedup();
                parts = others;
                parts.push(part);
            }
            for part in parts {
                let group = format!("{parent}.{}", part.join("+"));
                let name = |last| if parent.is_empty() { last } else { format!("{parent}.{last}") };
                of.extend(part.iter().map(|last| (name((*last).to_owned()), group.clone())));
            }
        }
        Joined(of)
    }
}

/// Modules that loaders join into one parameter. They are quantized together or not at all, and share a per-tensor
/// scale.
#[derive(Default)]
pub(crate) struct Joined(HashMap<String, String>);

impl Joined {
    /// Returns the name of a module's group; `None` if the module is not joined.
    pub(crate) fn group(&self, module: &str) -> Option<&String> {
        self.0.get(module)
    }
}

fn entries(loader: Loader) -> impl Iterator<Item = &'static Entry> {
    tables()[loader as usize].1.models.iter()
}

/// Returns whether a path is that of a single expert, such as `mlp.experts.3`.
fn is_expert(path: &str) -> bool {
    let mut parts = path.rsplit('.');
    let is_index = parts.next().is_some_and(|last| last.bytes().all(|byte| byte.is_ascii_digit()));
    is_index && parts.next() == Some("experts")
}

/// Returns the names of the gate and up projections of experts in any model. Every loader that reads single experts
/// joins the two, and not every entry says how its checkpoints name them.
fn gates_and_ups() -> &'static [[&'static str; 2]] {
    static PAIRS: OnceLock<Vec<[&str; 2]>> = OnceLock::new();
    PAIRS.get_or_init(|| {
        let experts = [Loader::Vllm, Loader::Sglang].into_iter().flat_map(entries);
        let experts = experts.filter_map(|entry| entry.experts.as_array()).flatten();
        let pairs: HashSet<_> = experts.filter_map(|names| Some([names[0].as_str()?, names[2].as_str()?])).collect();
        pairs.into_iter().filter(|[gate, up]| gate != up && !up.is_empty()).collect()
    })
}

/// Whether a layer of this name is Conv1D in any model.
pub(crate) fn is_conv1d(layer: &str) -> bool {
    entries(Loader::Transformers).any(|entry| entry.transposed.iter().any(|name| name == layer))
}

/// Returns the Conv1D layers of a model type.
pub(crate) fn conv1d_of(kind: &str) -> &'static [String] {
    let mut entries = entries(Loader::Transformers).filter(|entry| entry.of.iter().any(|name| name == kind));
    entries.next().map_or(&[], |entry| &entry.transposed)
}

/// Splits a path into names, without the indices of layers and experts.
fn names(path: &str) -> impl Iterator<Item = &str> {
    path.split('.').filter(|part| !part.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(class: &str) -> Rules {
        Rules::of(&HashSet::new(), &[class.to_owned()])
    }

    fn groups(rules: &Rules, names: &[&str]) -> Vec<String> {
        let joined = rules.joined(names.iter().copied());
        let mut groups: Vec<String> = names.iter().filter_map(|name| joined.group(name)).cloned().collect();
        groups.dedup();
        groups
    }

    #[test]
    fn every_table_is_read() {
        for (loader, name, text) in Loader::ALL {
            let table: Table = serde_json::from_str(text).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(table.models.len() > 100, "{name} has {} entries", table.models.len());
            assert_eq!(entries(loader).count(), table.models.len());
        }
    }

    #[test]
    fn siblings_are_joined_as_the_architecture_says() {
        let all = ["q_proj", "k_proj", "v_proj", "o_proj", "g_proj", "b_proj", "f_a_proj", "f_b_proj"];
        let all = all.map(|name| format!("layers.0.self_attn.{name}"));
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        for (class, want) in [
            ("LlamaForCausalLM", "k_proj+q_proj+v_proj"),
            ("OlmoHybridForCausalLM", "g_proj+k_proj+q_proj+v_proj"),
            ("KimiLinearForCausalLM", "b_proj+f_a_proj+g_proj+k_proj+q_proj+v_proj"),
            ("Step5ForCausalLM", "g_proj+k_proj+q_proj+v_proj"),
        ] {
            assert_eq!(groups(&rules(class), &all), [format!("layers.0.self_attn.{want}")], "{class}");
        }
        // Experts are merged whatever the table says of their model.
        for class in ["MixtralForCausalLM", "GraniteMoeForCausalLM", "UnknownForCausalLM"] {
            let expert = ["w1", "w2", "w3"].map(|name| format!("layers.0.block_sparse_moe.experts.3.{name}"));
            let expert: Vec<&str> = expert.iter().map(String::as_str).collect();
            assert_eq!(groups(&rules(class), &expert), ["layers.0.block_sparse_moe.experts.3.w1+w3"], "{class}");
        }
        let index = ["a.q_proj", "a.index_q_proj", "a.index_k_proj", "b.q_proj"];
        let found = groups(&rules("MiniMaxM3SparseForCausalLM"), &index);
        assert_eq!(found, ["a.index_k_proj+index_q_proj+q_proj"]);
    }

    #[test]
    fn modules_without_quantization_are_plain() {
        for (class, module) in [
            ("DeepseekV32ForCausalLM", "model.layers.3.self_attn.indexer.wk"),
            ("GlmMoeDsaForCausalLM", "model.layers.3.self_attn.indexer.wk"),
            ("DeepseekV4ForCausalLM", "layers.3.attn.compressor.wkv"),
            ("DeepseekV4ForCausalLM", "layers.3.attn.indexer.compressor.wgate"),
            ("Glm5NextForCausalLM", "model.layers.3.self_attn.q_proj"),
            ("UnknownForCausalLM", "model.layers.3.self_attn.indexer.weights_proj"),
        ] {
            assert_eq!(rules(class).plain(module), Some(Loader::Vllm), "{class} {module}");
        }
        for (class, module) in [
            ("DeepseekV32ForCausalLM", "model.layers.3.self_attn.indexer.wq_b"),
            ("DeepseekV4ForCausalLM", "layers.3.attn.wkv"),
            ("LlamaForCausalLM", "model.layers.3.self_attn.q_proj"),
            ("UnknownForCausalLM", "model.layers.3.self_attn.q_proj"),
        ] {
            assert_eq!(rules(class).plain(module), None, "{class} {module}");
        }
    }

    #[test]
    fn modules_that_loaders_read_themselves_are_opened() {
        let kv_b = "model.layers.0.self_attn.kv_b_proj";
        for class in ["DeepseekV3ForCausalLM", "UnknownForCausalLM"] {
            assert_eq!(rules(class).opened(kv_b), Some(Loader::Sglang), "{class}");
        }
        assert_eq!(rules("LlamaForCausalLM").opened(kv_b), None);
        let falcon = Rules::of(&HashSet::from(["falcon".to_owned()]), &[]);
        assert_eq!(falcon.opened("h.0.self_attention.query_key_value"), Some(Loader::Transformers));
    }

    #[test]
    fn model_types_stand_in_for_architectures() {
        let rules = Rules::of(&HashSet::from(["kimi_linear".to_owned()]), &[]);
        assert_eq!(groups(&rules, &["a.q_proj", "a.f_a_proj"]), ["a.f_a_proj+q_proj"]);
    }
}
