//! Which matrices are weights of Linear layers, and why others are kept. Loaders replace the Linear layers of a model,
//! and read everything else as it is. The name of a tensor tells the kind of its layer and, where a name has several
//! meanings, the configuration.

use crate::layouts::Model;
use crate::loaders::{self, Loader, Rules};
use onnx_cast::DataType;
use std::collections::HashSet;
use std::fmt;

/// Why a matrix is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    Adapter,
    Ahead,
    Convolution,
    Embedding,
    Float,
    Head,
    Norm,
    Outside,
    /// A loader builds the module without quantization.
    Plain(Loader),
    /// A loader's own code reads the weight, so it must not be packed.
    Opened(Loader),
    Router,
    Tower,
    Transposed,
    /// Without the name of a weight.
    Name,
    /// Experts in one tensor, for which the layout has no names.
    Experts,
    /// Several matrices in one tensor, whose name is not that of experts.
    Stacked,
    /// A matrix that llama.cpp reads as floats.
    LlamaCpp,
    /// A matrix in a layout of experts alone.
    Layout,
    /// Left out by `include` or `exclude`.
    Excluded,
    /// Kept by a rule.
    Rule,
    /// Of too few elements.
    Small,
    /// Without elements.
    Empty,
    /// Of a type that weights are not quantized from.
    Type(DataType),
    /// What the layout wants of its shape.
    Shape(String),
    /// The name of the matrix that loaders join with it, and that is kept.
    Joined(String),
}

impl Why {
    /// Whether the summary names each such matrix. Most people expect these to be quantized; the others are only
    /// counted.
    pub(crate) fn is_named(&self) -> bool {
        matches!(self, Why::Shape(_) | Why::Joined(_) | Why::Experts | Why::Stacked | Why::Type(_))
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Why::Adapter => "factor of LoRA",
            Why::Ahead => "multi-token prediction",
            Why::Convolution => "convolution",
            Why::Embedding => "embedding",
            Why::Float => "kept in float by its model",
            Why::Head => "output head",
            Why::Norm => "norm",
            Why::Outside => "outside the layers",
            Why::Router => "router",
            Why::Tower => "vision, audio or projector",
            Why::Transposed => "stored transposed (Conv1D)",
            Why::Name => "not named `weight`",
            Why::Experts => "experts in one tensor",
            Why::Stacked => "matrices in one tensor",
            Why::LlamaCpp => "llama.cpp reads it as floats",
            Why::Layout => "no experts",
            Why::Excluded => "excluded",
            Why::Rule => "kept by a rule",
            Why::Small => "too few elements",
            Why::Empty => "no elements",
            Why::Plain(loader) => return write!(f, "{} has it unquantized", loader.name()),
            Why::Opened(loader) => return write!(f, "{} needs it unpacked", loader.name()),
            Why::Type(data_type) => return write!(f, "{data_type}: want float, float16 or bfloat16"),
            Why::Shape(want) => return write!(f, "want {want}"),
            Why::Joined(other) => return write!(f, "joined with `{other}`, which is kept"),
        })
    }
}

/// Matrices that are kept for a reason.
struct KeepRule {
    why: Why,
    names: Names,
    /// The types of models in which the names mean this; any if empty.
    models: &'static [&'static str],
}

/// Names in lower case, as parts of a module's path.
enum Names {
    /// The last part that is not a number is one of these.
    Last(&'static [&'static str]),
    /// It contains one of these.
    LastHas(&'static [&'static str]),
    LastBegins(&'static [&'static str]),
    /// Any part contains one of these, or begins with one.
    AnyHas(&'static [&'static str]),
    AnyBegins(&'static [&'static str]),
    /// A part before the first number is one of these, or contains one.
    Before {
        are: &'static [&'static str],
        have: &'static [&'static str],
    },
    /// All.
    All,
}

const fn rule(why: Why, names: Names) -> KeepRule {
    KeepRule { why, names, models: &[] }
}

const fn rule_of(models: &'static [&'static str], why: Why, names: Names) -> KeepRule {
    KeepRule { why, names, models }
}

/// Output layers, which have no layer's number before them.
const HEADS: &[&str] = &[
    "lm_head",
    "lm_heads",
    "embed_out",
    "output",
    "output_layer",
    "head",
    "heads",
    "proj_out",
    "lm_loss",
    "output_projection",
    "codec_head",
    "ctc_head",
    "text_lm_head",
    "generator_lm_head",
    "vocab_projector",
    "classifier",
    "score",
    "qa_outputs",
    "decoder",
];

/// Rules for keeping a matrix, by the names in its path. The first matching rule determines the reason. `Linears::why`
/// then applies further criteria, such as whether the matrix is outside the layers.
const RULES: &[KeepRule] = &[
    rule(Why::Adapter, Names::AnyBegins(&["lora_"])),
    rule(Why::Ahead, Names::AnyBegins(&["mtp"])),
    rule(Why::Embedding, Names::LastHas(&["emb"])),
    rule(
        Why::Embedding,
        Names::Last(&[
            "shared",
            "wte",
            "wpe",
            "relative_attention_bias",
            "codebook",
            "reference_points",
            "mask_tokens",
            "pe_k",
        ]),
    ),
    rule(Why::Router, Names::Last(&["gate", "wg"])),
    rule(Why::Router, Names::AnyHas(&["router", "shared_expert_gate"])),
    rule(Why::Norm, Names::AnyHas(&["norm"])),
    rule(
        Why::Tower,
        Names::Before {
            are: &["vit", "vpm", "apm", "sam_model", "merger", "connector", "aligner"],
            have: &["vision", "visual", "audio", "speech", "sound", "projector", "resampler"],
        },
    ),
    // Of detectors, which share them between decoder and output.
    rule(Why::Head, Names::AnyBegins(&["bbox_embed", "class_embed", "enc_bbox_head", "enc_score_head"])),
    rule(Why::Convolution, Names::LastBegins(&["conv"])),
    rule(Why::Float, Names::Last(&["in_proj_a", "in_proj_b", "in_proj_ba"])),
    // Its layers quantize their weights themselves.
    rule_of(&["ibert"], Why::Float, Names::All),
];

/// The path of a module.
struct Path {
    parts: Vec<String>,
    /// The place of the last part that is not a number.
    last: usize,
    /// How many parts come before the first number.
    before: usize,
}

impl Path {
    fn of(module: &str) -> Path {
        let parts: Vec<String> = module.split('.').map(str::to_ascii_lowercase).collect();
        let is_name = |part: &String| !is_number(part);
        let last = parts.iter().rposition(is_name).unwrap_or(0);
        let before = parts.iter().position(|part| is_number(part)).unwrap_or(parts.len());
        Path { parts, last, before }
    }

    fn last(&self) -> &str {
        &self.parts[self.last]
    }

    /// Whether the number of a layer comes before the name.
    fn is_in_layer(&self) -> bool {
        self.before < self.last
    }
}

impl Names {
    fn match_path(&self, path: &Path) -> bool {
        let last = path.last();
        let any = |test: &dyn Fn(&str) -> bool| path.parts.iter().any(|part| test(part));
        match self {
            Names::Last(names) => names.contains(&last),
            Names::LastHas(names) => names.iter().any(|name| last.contains(name)),
            Names::LastBegins(names) => names.iter().any(|name| last.starts_with(name)),
            Names::AnyHas(names) => any(&|part| names.iter().any(|name| part.contains(name))),
            Names::AnyBegins(_) | Names::Before { .. } => self.part(path).is_some(),
            Names::All => true,
        }
    }

    /// Returns the index of the first matching part of the path, for rules about a part of the model.
    fn part(&self, path: &Path) -> Option<usize> {
        match self {
            Names::Before { are, have } => path.parts[..path.before]
                .iter()
                .position(|part| are.contains(&part.as_str()) || have.iter().any(|name| part.contains(name))),
            Names::AnyBegins(names) => {
                path.parts.iter().position(|part| names.iter().any(|name| part.starts_with(name)))
            }
            _ => None,
        }
    }
}

pub(super) fn is_number(part: &str) -> bool {
    !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit())
}

/// What the names of a checkpoint's matrices say together.
pub(crate) struct Linears<'m> {
    pub(super) model: &'m Model,
    pub(super) rules: Rules,
    /// Whether layers have numbers.
    has_layers: bool,
    /// Whether something else than images and sound is in the layers.
    has_text: bool,
    /// Layers that predict further tokens, with a point behind their names.
    ahead: HashSet<String>,
    /// Whether matrices lie transposed that no configuration tells of.
    is_transposed: bool,
}

impl<'m> Linears<'m> {
    /// Of the floats of a checkpoint, by names and shapes.
    pub(crate) fn of<'n>(model: &'m Model, tensors: &[(&'n str, &'n [usize])]) -> Linears<'m> {
        let ahead = tensors.iter().filter_map(|(name, _)| name.strip_suffix("eh_proj.weight"));
        let mut linears = Linears {
            model,
            rules: model.rules(),
            has_layers: false,
            has_text: true,
            ahead: ahead.map(str::to_owned).collect(),
            is_transposed: is_transposed(tensors),
        };
        let matrices = tensors.iter().filter(|(_, shape)| shape.len() == 2);
        let paths: Vec<Path> = matrices.filter_map(|(name, _)| Some(Path::of(module_of(name)?))).collect();
        linears.has_layers = paths.iter().any(Path::is_in_layer);
        linears.has_text = paths.iter().any(|path| path.is_in_layer() && linears.rule_of(path).is_none());
        linears
    }

    /// Why a matrix is kept, by its name; `None` if it is the weight of a Linear layer. Whether elements have another
    /// name than the weight depends on the layout.
    pub(crate) fn why(&self, name: &str, is_packed: bool) -> Option<Why> {
        let Some(module) = module_of(name) else { return Some(Why::Name) };
        if self.ahead.iter().any(|layer| name.starts_with(layer)) {
            return Some(Why::Ahead);
        }
        let path = Path::of(module);
        if self.rules.is_transposed(path.last()) || self.is_transposed && loaders::is_conv1d(path.last()) {
            return Some(Why::Transposed);
        }
        if let Some(rule) = self.rule_of(&path) {
            return Some(rule.why.clone());
        }
        if self.rules.is_float(module) {
            return Some(Why::Float);
        }
        if let Some(loader) = self.rules.plain(module) {
            return Some(Why::Plain(loader));
        }
        if let Some(loader) = self.rules.opened(module).filter(|_| is_packed) {
            return Some(Why::Opened(loader));
        }
        if !path.is_in_layer() && HEADS.contains(&path.last()) {
            return Some(Why::Head);
        }
        (self.has_layers && !path.is_in_layer()).then_some(Why::Outside)
    }

    fn rule_of(&self, path: &Path) -> Option<&'static KeepRule> {
        let is_meant = |rule: &&KeepRule| {
            (rule.models.is_empty() || self.model.is_any(rule.models))
                && (rule.why != Why::Tower || self.has_text)
                && rule.names.match_path(path)
        };
        RULES.iter().find(is_meant)
    }

    /// The part of a module's path under which a whole part of the model is kept, and whether loaders rename it with
    /// what comes before it.
    pub(super) fn whole_part<'n>(&self, module: &'n str) -> Option<(&'n str, bool)> {
        let path = Path::of(module);
        let is_meant = |rule: &&KeepRule| rule.why == Why::Tower && self.has_text || rule.why == Why::Head;
        let places = RULES.iter().filter(is_meant).filter_map(|rule| Some((rule.names.part(&path)?, rule)));
        let (place, rule) = places.min_by_key(|(place, _)| *place)?;
        Some((module.split('.').nth(place)?, rule.why == Why::Tower))
    }
}

/// Whether a bias beside a layer of GPT-2's names is as long as its rows, not as its columns are.
fn is_transposed(tensors: &[(&str, &[usize])]) -> bool {
    let biases: HashSet<(&str, usize)> = tensors
        .iter()
        .filter_map(|(name, shape)| {
            Some((name.strip_suffix(".bias")?, *<&[usize; 1]>::try_from(*shape).ok()?.first()?))
        })
        .collect();
    tensors.iter().any(|(name, shape)| match (name.strip_suffix(".weight"), *shape) {
        (Some(module), &[rows, columns]) if rows != columns => {
            loaders::is_conv1d(module.rsplit('.').next().unwrap_or(module)) && biases.contains(&(module, columns))
        }
        _ => false,
    })
}

/// The name of the module whose weight a tensor is.
pub(super) fn module_of(name: &str) -> Option<&str> {
    if name == "weight" { Some("") } else { name.strip_suffix(".weight") }
}
