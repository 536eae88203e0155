//! A layout: the names that it claims, how it describes weights, lays them out, and configures loaders.

use super::claims::{Claims, KeyValueCache};
use super::format::{Activations, Granularity, QuantizedFormat};
use super::weight::{ColumnOrder, Weight};
use super::written::{Arithmetic, Order, WrittenWeight};
use crate::checkpoint::Checkpoint;
use crate::error::FileError;
use crate::formats::format::Format;
use serde_json::{Map, Value};

/// Both matrices of experts.
pub(super) const EXPERTS: [&str; 2] = ["gate_up_proj", "down_proj"];

/// Name suffixes of other tensors of a weight.
pub(crate) const ZERO_POINTS: &str = "weight_zero_point";
pub(crate) const GROUPS: &str = "weight_g_idx";
pub(crate) const SHAPE: &str = "weight_shape";
/// A layer's format in JSON, of ComfyUI.
pub(super) const COMFY_QUANT: &str = "comfy_quant";

/// What is before an ending of a name.
pub(super) fn before<'n>(name: &'n str, ending: &str) -> Option<&'n str> {
    let start = name.strip_suffix(ending)?;
    (ending.starts_with('_') || start.is_empty() || start.ends_with('.')).then_some(start)
}

/// How names of elements and scales belong together: behind a common beginning, these endings. A plain ending begins
/// the name or follows a point.
#[derive(Clone, Copy)]
pub(crate) struct Names {
    pub(super) elements: &'static str,
    pub(super) scales: &'static str,
    /// The ending of the values.
    pub(super) values: &'static str,
}

impl Names {
    /// The names of elements and scales, by that of the values.
    pub(super) fn of_values(&self, name: &str) -> Option<(String, String)> {
        let start = name.strip_suffix(self.values)?;
        let is_meant = self.values.is_empty() || start.ends_with('.');
        is_meant.then(|| (format!("{start}{}", self.elements), format!("{start}{}", self.scales)))
    }
}

/// Describes a weight: reads the types and shapes of its tensors, which make `Weight` complete; `None` if they are no
/// weight. The text is the beginning of their names.
pub(super) type Describe = fn(&Finder<'_>, Weight, &str) -> Result<Option<Weight>, FileError>;

/// What a weight is found and described by.
pub(super) struct Finder<'a> {
    pub(super) checkpoint: &'a Checkpoint,
    pub(super) claims: &'a Claims,
    pub(super) spec: &'a LayoutSpec,
}

/// The claims of a checkpoint's own files; `None` where these claim nothing.
pub(super) type Told = fn(&Checkpoint) -> Result<Option<Claims>, FileError>;

/// What a layout holds.
pub(crate) struct LayoutSpec {
    pub(crate) name: &'static str,
    /// Endings of names that no other layout has.
    pub(super) signs: &'static [&'static str],
    /// The names of a matrix's tensors, first those that are written; empty where only experts are held.
    pub(super) names: &'static [Names],
    pub(super) experts: Option<Experts>,
    pub(crate) configuration: Option<Configuration>,
    /// Describes a weight by its tensors.
    pub(super) describe: Describe,
    /// Name suffixes of the companions that a weight may have besides its scales. The layout reads no others.
    pub(super) beside: &'static [&'static str],
    /// Whether codes may be stored in tensors of any type.
    pub(super) has_any_type: bool,
    /// The key of `config.json` that is as `quantization_config` in other layouts.
    pub(super) own_key: Option<&'static str>,
    /// Whether blocks are an axis of the elements, of 16 bytes each.
    pub(super) has_axis_of_blocks: bool,
    /// Reads what the files themselves say of layers.
    pub(super) told: Option<Told>,
    /// What is written.
    pub(super) held: &'static [Held],
    /// The shape of a scale for a tensor.
    pub(super) tensor_scale: &'static [usize],
    /// Whether scales of rows are a matrix of one column.
    pub(super) has_column_of_scales: bool,
    /// Whether scales of blocks of rows and columns have an axis of 1 behind each of these.
    pub(super) has_axes_between: bool,
    /// Whether loaders read blocks of several rows with fewer columns at the end of these.
    pub(super) has_short_columns: bool,
    /// The scales of activations that the layout has a place for.
    pub(crate) calibration: Option<Calibration>,
    pub(super) global: GlobalScaleOf,
    /// Whether block formats are stored as ComfyUI stores them: scales in tiles of 128x4, and of two elements in a byte
    /// the first in the upper half.
    pub(super) has_tiles: bool,
    /// Whether packed elements and scales have their own types, not those of bytes.
    pub(super) is_typed: bool,
    /// Whether integers are packed in words.
    pub(crate) packs_integers: bool,
    /// Whether a type of float scales that a weight has already may stay.
    pub(crate) keeps_scale_type: bool,
    pub(crate) arithmetic: Arithmetic,
    /// A tensor of two bytes by which readers know the layout.
    pub(crate) marker: Option<&'static str>,
    /// Whether float8 with scales of float8e8m0 may have the blocks of the configuration, and not only those of MX.
    pub(super) has_large_blocks: bool,
    /// Whether bytes beside scales may be something else than a weight.
    pub(super) has_other_bytes: bool,
    /// Whether int8 with scales of float8e8m0 is MXINT8, not two codes of float4e2m1 in a byte.
    pub(super) has_mxint8: bool,
    /// Whether the number of scales in a row gives the size of blocks that no configuration names.
    pub(super) counts_scales: bool,
    /// What weights are stored in. Another format than `.safetensors` has a writer of its own, and only `quantize` has
    /// it as a target.
    pub(crate) file: Format,
    /// Integers in words whose rows and columns are exchanged, where the layout has them.
    pub(super) columns: Option<ColumnsOfWords>,
}

impl LayoutSpec {
    /// The names of a weight's tensors, of experts too.
    pub(super) fn all_names(&self) -> impl Iterator<Item = &Names> {
        self.names.iter().chain(self.experts.iter().flat_map(|experts| experts.names))
    }

    /// The name of the elements that a tensor of this name would have scales for; `None` if it is no name of scales.
    /// `scale` is the name of many an ordinary tensor.
    pub(crate) fn elements_of(&self, scales: &str) -> Option<String> {
        let mut names = self.all_names().filter(|names| names.scales != "scale");
        names.find_map(|names| Some(format!("{}{}", before(scales, names.scales)?, names.elements)))
    }

    /// The shape of a scale for a tensor.
    pub(crate) fn shape_of_one(&self) -> &'static [usize] {
        self.tensor_scale
    }

    /// Whether elements of experts lie so.
    pub(super) fn lays_experts(&self, order: Order) -> bool {
        self.experts.as_ref().is_some_and(|experts| experts.order == order)
    }
}

/// Integers in words, of which the rows and columns of all tensors are exchanged.
#[derive(Clone, Copy)]
pub(crate) struct ColumnsOfWords {
    /// How words hold columns, unless the configuration says it.
    pub(super) order: ColumnOrder,
    /// Name suffix of the zero points.
    pub(super) zero_points: &'static str,
    /// Name suffix of the groups of columns, if the layout has them.
    pub(super) groups: Option<&'static str>,
    /// Whether the names are AutoGPTQ's, which several layouts have, for weights with outputs first.
    pub(super) is_auto_gptq: bool,
}

/// NVFP4's global scale.
pub(crate) struct GlobalScaleOf {
    /// What follows the name of the scales, or that of the module.
    pub(super) ending: &'static str,
    pub(super) is_own: bool,
    pub(super) divides: bool,
    pub(super) shape: &'static [usize],
}

impl GlobalScaleOf {
    /// The name, of a module, which ends in a point, and of scales.
    pub(super) fn name(&self, module: &str, scales: &str) -> String {
        format!("{}{}", if self.is_own { module } else { scales }, self.ending)
    }
}

/// Scales of activations, by the endings of their names.
pub(crate) struct Calibration {
    /// Behind the module of a weight of float8 or integers: a factor.
    pub(crate) input: &'static str,
    /// Behind that of a weight of NVFP4, and whether it is a divisor.
    pub(crate) nvfp4: Option<(&'static str, bool)>,
    /// Behind the module of an attention, of its keys and its values.
    pub(crate) cache: Option<[&'static str; 2]>,
}

/// Experts of a layer in one tensor of three axes.
pub(crate) struct Experts {
    pub(super) names: &'static [Names],
    /// How elements of block formats lie.
    pub(super) order: Order,
    /// Whether they are quantized unless a rule says otherwise.
    pub(super) by_default: bool,
    /// What they hold and how errors say it, where that is less than the layout does.
    pub(super) only: Option<(&'static [Held], &'static str)>,
    /// Whether scales are those of columns, which `down_proj` has along the last axis but one.
    pub(super) have_scales_of_columns: bool,
}

/// What describes weights, beside the names of modules that are kept.
pub(crate) type Write = fn(&[WrittenWeight], &[String]) -> Value;

/// What adds a cache of keys and values to a description.
pub(crate) type AddCache = fn(&mut Value, &KeyValueCache);

/// What configurations say.
pub(crate) struct Configuration {
    /// `quant_method`, or the `packing_format` of AutoRound; a star stands for any ending.
    pub(super) methods: &'static [&'static str],
    /// The key that tells the layout where `quant_method` is missing.
    pub(super) key: Option<&'static str>,
    /// How lists of kept modules name those that loaders rename.
    pub(crate) kept: KeptNames,
    /// Reads `quantization_config`.
    pub(super) claims: fn(&mut Claims, &Map<String, Value>),
    /// `quantization_config` for weights, beside the names of modules that are kept; of a layout that is written.
    pub(crate) write: Option<Write>,
    /// Adds what it says of a cache of keys and values.
    pub(crate) cache: Option<AddCache>,
    pub(crate) own_files: &'static [OwnFile],
}

impl Configuration {
    /// The usual values, of a configuration that nothing is read of or written to.
    pub(super) const BASE: Configuration = Configuration {
        methods: &[],
        key: None,
        kept: KeptNames::Parts,
        claims: |_, _| {},
        write: None,
        cache: None,
        own_files: &[],
    };
}

/// How a list of kept modules names those whose names loaders change: what comes before the name of a part of the
/// model, and the numbers of experts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeptNames {
    /// By regular expressions behind `re:`, which match from the beginning.
    Expressions,
    /// By patterns with stars.
    Globs,
    /// By both, for loaders that know one kind each: neither takes the other kind for a name.
    ExpressionsAndGlobs,
    /// By the name of the part alone, and by a regular expression.
    Parts,
}

impl KeptNames {
    pub(crate) fn has_expressions(self) -> bool {
        matches!(self, KeptNames::Expressions | KeptNames::ExpressionsAndGlobs)
    }
}

/// A file of a layout.
pub(crate) struct OwnFile {
    pub(crate) name: &'static str,
    /// The key of what `claims` reads; empty where that is the whole file.
    pub(super) key: &'static str,
    /// Whether it also describes the model: without quantization the rest stays.
    pub(crate) has_model: bool,
    /// What it holds, as of [`Configuration::write`].
    pub(crate) write: Option<Write>,
    /// As [`Configuration::cache`].
    pub(crate) cache: Option<AddCache>,
    /// Finds in what `quantization_config` and this file say, in this order, a key whose values contradict each other.
    pub(super) contradiction: Option<Contradiction>,
}

/// The key and the two values that contradict each other.
pub(super) type Contradiction = fn(&Map<String, Value>, &Map<String, Value>) -> Option<[String; 3]>;

/// Formats with the same choice of what has a scale, and the same loaders.
pub(crate) struct Held {
    pub(super) formats: &'static [QuantizedFormat],
    /// The first is the default; empty of MX and NVFP4, whose blocks are their own.
    pub(super) scales: &'static [Scales],
    pub(super) loaders: Loaders,
    /// What becomes of activations. The first that needs no data is the default.
    pub(super) activations: &'static [Activations],
}

/// The programs that load such weights.
#[derive(Clone, Copy)]
pub(super) enum Loaders {
    /// These, by their sources.
    Are(&'static [&'static str]),
    /// None, with the reason and what to write instead. They are read, and not written.
    None(&'static str),
}

impl Held {
    /// What becomes of activations: what is asked for, or the first that needs no data; `None` where the loaders have
    /// nothing like it.
    pub(super) fn choice(&self, asked: Option<Activations>) -> Option<Activations> {
        let is_meant = |known: &&Activations| match asked {
            Some(asked) => **known == asked,
            None => **known != Activations::Static,
        };
        self.activations.iter().find(is_meant).copied()
    }

    /// What has a scale if nothing else is asked for.
    pub(super) fn default(&self) -> Option<Granularity> {
        match self.scales.first() {
            Some(Scales::One(granularity)) => Some(*granularity),
            _ => None,
        }
    }

    pub(super) fn contains(&self, granularity: Granularity) -> bool {
        let is_own = self.scales.is_empty();
        is_own
            || self.scales.iter().any(|scales| match (scales, granularity) {
                (Scales::One(one), _) => *one == granularity,
                (Scales::Groups, Granularity::Block([rows, _])) => rows == 1,
                (Scales::Blocks, Granularity::Block([rows, _])) => rows != 1,
                _ => false,
            })
    }
}

/// What may have a scale.
pub(super) enum Scales {
    One(Granularity),
    /// Any number of columns of a row.
    Groups,
    /// Blocks of several rows.
    Blocks,
}
