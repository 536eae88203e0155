//! Specification of a layout: its tensor names, how it describes and stores weights, and how it configures loaders.

use super::claims::{Claims, KeyValueCache};
use super::format::{Activations, Granularity, QuantizedFormat};
use super::group::Group;
use super::weight::{ColumnOrder, Weight};
use super::written::{Arithmetic, Order, WrittenWeight};
use crate::checkpoint::Checkpoint;
use crate::error::FileError;
use crate::formats::format::Format;
use serde_json::{Map, Value};

/// Names of the two tensors with the experts of a layer.
pub(super) const EXPERTS: [&str; 2] = ["gate_up_proj", "down_proj"];

/// Name suffixes of companions of a weight.
pub(crate) const ZERO_POINTS: &str = "weight_zero_point";
pub(crate) const GROUPS: &str = "weight_g_idx";
pub(crate) const SHAPE: &str = "weight_shape";
/// Name suffix of ComfyUI's tensor with the format of a layer, in JSON.
pub(super) const COMFY_QUANT: &str = "comfy_quant";

/// Returns the part of a name before a suffix. The suffix must begin with an underscore, follow a point, or be the
/// whole name.
pub(super) fn before<'n>(name: &'n str, ending: &str) -> Option<&'n str> {
    let start = name.strip_suffix(ending)?;
    (ending.starts_with('_') || start.is_empty() || start.ends_with('.')).then_some(start)
}

/// Name suffixes of the elements and scales of a weight, which share a common prefix.
#[derive(Clone, Copy)]
pub(crate) struct Names {
    pub(super) elements: &'static str,
    pub(super) scales: &'static str,
    /// Name suffix of the dequantized weight.
    pub(super) values: &'static str,
}

impl Names {
    /// Returns the names of elements and scales, given the name of the dequantized weight.
    pub(super) fn of_values(&self, name: &str) -> Option<(String, String)> {
        let start = name.strip_suffix(self.values)?;
        let is_meant = self.values.is_empty() || start.ends_with('.');
        is_meant.then(|| (format!("{start}{}", self.elements), format!("{start}{}", self.scales)))
    }
}

/// Describes a weight: completes a `Weight` from the types and shapes of its tensors. Returns `None` if they are not a
/// weight. The string is the common prefix of their names.
pub(super) type Describe = fn(&Finder<'_>, Weight, &str) -> Result<Option<Weight>, FileError>;

/// Context for finding and describing weights.
pub(super) struct Finder<'a> {
    pub(super) checkpoint: &'a Checkpoint,
    pub(super) claims: &'a Claims,
    pub(super) spec: &'a LayoutSpec,
}

/// Reads the claims in a checkpoint's own files; `None` if there are none.
pub(super) type Told = fn(&Checkpoint) -> Result<Option<Claims>, FileError>;

/// Properties of a layout.
pub(crate) struct LayoutSpec {
    pub(crate) name: &'static str,
    /// Name suffixes that only this layout uses.
    pub(super) signs: &'static [&'static str],
    /// Names of the tensors of a matrix. The first entry is written. Empty if the layout only supports experts.
    pub(super) names: &'static [Names],
    pub(super) experts: Option<Experts>,
    pub(crate) configuration: Option<Configuration>,
    /// Describes a weight from its tensors.
    pub(super) describe: Describe,
    /// Name suffixes of the companions that a weight may have besides its scales. The layout reads no others.
    pub(super) beside: &'static [&'static str],
    /// Whether codes may be stored in tensors of any type.
    pub(super) has_any_type: bool,
    /// The layout's own key in `config.json`, in place of `quantization_config`.
    pub(super) own_key: Option<&'static str>,
    /// Whether the elements have an axis of blocks, with 16 bytes per block.
    pub(super) has_axis_of_blocks: bool,
    /// Reads the formats of layers from the files themselves.
    pub(super) told: Option<Told>,
    /// Formats that the layout is written with.
    pub(super) held: &'static [Held],
    /// Shape of a per-tensor scale.
    pub(super) tensor_scale: &'static [usize],
    /// Whether per-row scales are stored as a matrix of one column.
    pub(super) has_column_of_scales: bool,
    /// Whether the scales of blocks of rows and columns have an axis of size 1 after each of the two axes.
    pub(super) has_axes_between: bool,
    /// Whether loaders accept a last block with fewer columns, if blocks span several rows.
    pub(super) has_short_columns: bool,
    /// Names of the scales of activations, if the layout stores any.
    pub(crate) calibration: Option<Calibration>,
    pub(super) global: GlobalScaleOf,
    /// Whether block formats are stored as in ComfyUI: scales in tiles of 128x4, and the first of two elements in the
    /// upper half of a byte.
    pub(super) has_tiles: bool,
    /// Whether packed elements and scales are stored in their own types instead of byte types.
    pub(super) is_typed: bool,
    /// Whether integers are packed in words.
    pub(crate) packs_integers: bool,
    /// Whether float scales that a weight already has may keep their type.
    pub(crate) keeps_scale_type: bool,
    pub(crate) arithmetic: Arithmetic,
    /// Name of a tensor of two bytes by which readers recognize the layout.
    pub(crate) marker: Option<&'static str>,
    /// Whether float8 with float8e8m0 scales may use the block size of the configuration instead of MX's.
    pub(super) has_large_blocks: bool,
    /// Whether a byte tensor next to scales may be something other than a weight.
    pub(super) has_other_bytes: bool,
    /// Whether int8 with float8e8m0 scales is MXINT8. Otherwise each byte contains two codes of float4e2m1.
    pub(super) has_mxint8: bool,
    /// Whether the block size follows from the number of scales per row if no configuration specifies it.
    pub(super) counts_scales: bool,
    /// File format of the weights. A format other than `.safetensors` has its own writer, and only `quantize` can write
    /// it.
    pub(crate) file: Format,
    /// Layout of integers packed in transposed words, if supported.
    pub(super) columns: Option<ColumnsOfWords>,
}

impl LayoutSpec {
    /// Returns the names of the tensors of weights, including experts.
    pub(super) fn all_names(&self) -> impl Iterator<Item = &Names> {
        self.names.iter().chain(self.experts.iter().flat_map(|experts| experts.names))
    }

    /// Returns the name of the elements that a tensor with this name would scale; `None` if it is not a name of scales.
    /// The name `scale` is excluded, because many ordinary tensors have it.
    pub(crate) fn elements_of(&self, scales: &str) -> Option<String> {
        let mut names = self.all_names().filter(|names| names.scales != "scale");
        names.find_map(|names| Some(format!("{}{}", before(scales, names.scales)?, names.elements)))
    }

    /// Returns whether integers in bytes may have zero points.
    pub(crate) fn has_zero_points(&self) -> bool {
        self.beside.contains(&ZERO_POINTS)
    }

    /// Shape of a per-tensor scale.
    pub(crate) fn shape_of_one(&self) -> &'static [usize] {
        self.tensor_scale
    }

    /// Returns whether elements of experts are stored in this order.
    pub(super) fn lays_experts(&self, order: Order) -> bool {
        self.experts.as_ref().is_some_and(|experts| experts.order == order)
    }
}

/// Layout of integers packed in words, in which every tensor of a weight is transposed.
#[derive(Clone, Copy)]
pub(crate) struct ColumnsOfWords {
    /// Default order of columns in words, if the configuration does not specify it.
    pub(super) order: ColumnOrder,
    /// Name suffix of the zero points.
    pub(super) zero_points: &'static str,
    /// Name suffix of the tensor with the group of each column, if supported.
    pub(super) groups: Option<&'static str>,
    /// Whether the layout uses AutoGPTQ's names, which several layouts share, for weights with the output axis first.
    pub(super) is_auto_gptq: bool,
}

/// NVFP4's global scale.
pub(crate) struct GlobalScaleOf {
    /// Suffix after the name of the scales, or of the module if `is_own`.
    pub(super) ending: &'static str,
    pub(super) is_own: bool,
    pub(super) divides: bool,
    pub(super) shape: &'static [usize],
}

impl GlobalScaleOf {
    /// Returns the name of the global scale. `module` ends in a point.
    pub(super) fn name(&self, module: &str, scales: &str) -> String {
        format!("{}{}", if self.is_own { module } else { scales }, self.ending)
    }
}

/// Name suffixes of the scales of activations.
pub(crate) struct Calibration {
    /// Suffix after the module of a float8 or integer weight. This scale is a factor.
    pub(crate) input: &'static str,
    /// Suffix after the module of an NVFP4 weight, and whether this scale is a divisor.
    pub(crate) nvfp4: Option<(&'static str, bool)>,
    /// Suffixes after the module of an attention layer, for its keys and its values.
    pub(crate) cache: Option<[&'static str; 2]>,
}

/// Layout of experts, if those of a layer are stored in one three-dimensional tensor.
pub(crate) struct Experts {
    pub(super) names: &'static [Names],
    /// Order of the elements of block formats.
    pub(super) order: Order,
    /// Whether experts are quantized by default.
    pub(super) by_default: bool,
    /// Supported formats of experts, and their description in errors, if the layout supports more formats for matrices.
    pub(super) only: Option<(&'static [Held], &'static str)>,
    /// Whether experts have per-column scales, which `down_proj` stores along the second-to-last axis.
    pub(super) have_scales_of_columns: bool,
}

/// Creates the description of weights. The second argument lists the kept modules.
pub(crate) type Write = fn(&[WrittenWeight], &[String]) -> Value;

/// Adds a cache of keys and values to a description.
pub(crate) type AddCache = fn(&mut Value, &KeyValueCache);

/// Reads the groups of `quantization_config`.
pub(super) type ReadGroups = fn(&Map<String, Value>) -> Vec<Group>;

/// How a layout is configured in `config.json` and in its own files.
pub(crate) struct Configuration {
    /// Values of `quant_method`, or of AutoRound's `packing_format`. A trailing star matches any suffix.
    pub(super) methods: &'static [&'static str],
    /// Key that identifies the layout if `quant_method` is missing.
    pub(super) key: Option<&'static str>,
    /// Keys of the lists of kept modules that loaders know.
    pub(crate) lists: &'static [&'static str],
    /// Syntax of the list of kept modules, for modules that loaders rename.
    pub(crate) kept: KeptNames,
    /// Reads `quantization_config`.
    pub(super) claims: fn(&mut Claims, &Map<String, Value>),
    /// Reads the settings of groups of modules, if the configuration has any that are compared with each weight.
    pub(super) groups: Option<ReadGroups>,
    /// Creates `quantization_config` from the weights and the list of kept modules, if the layout can be written.
    pub(crate) write: Option<Write>,
    /// Adds the description of a cache of keys and values.
    pub(crate) cache: Option<AddCache>,
    pub(crate) own_files: &'static [OwnFile],
}

impl Configuration {
    /// Default values: nothing is read or written.
    pub(super) const BASE: Configuration = Configuration {
        methods: &[],
        key: None,
        lists: &["modules_to_not_convert"],
        kept: KeptNames::Parts,
        claims: |_, _| {},
        groups: None,
        write: None,
        cache: None,
        own_files: &[],
    };
}

/// Syntax of the entries for modules that loaders rename: loaders change the prefix of a part of the model, and the
/// indices of experts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeptNames {
    /// Regular expressions after `re:`, which match from the beginning of the name.
    Expressions,
    /// Glob patterns.
    Globs,
    /// Both, for loaders that support only one kind each and ignore the other.
    ExpressionsAndGlobs,
    /// The name of the part alone, and a regular expression.
    Parts,
}

impl KeptNames {
    pub(crate) fn has_expressions(self) -> bool {
        matches!(self, KeptNames::Expressions | KeptNames::ExpressionsAndGlobs)
    }
}

/// A configuration file of a layout's own.
pub(crate) struct OwnFile {
    pub(crate) name: &'static str,
    /// Key of the object that `claims` reads; empty if this is the whole file.
    pub(super) key: &'static str,
    /// Whether the file also describes the model, so that the rest of it is kept if the quantization is removed.
    pub(crate) has_model: bool,
    /// Creates the contents, like [`Configuration::write`].
    pub(crate) write: Option<Write>,
    /// Adds the description of a cache, like [`Configuration::cache`].
    pub(crate) cache: Option<AddCache>,
    /// Finds a key whose values in `quantization_config` and in this file contradict each other.
    pub(super) contradiction: Option<Contradiction>,
}

/// Returns the key and its two contradictory values.
pub(super) type Contradiction = fn(&Map<String, Value>, &Map<String, Value>) -> Option<[String; 3]>;

/// A set of formats with the same granularities, loaders and activations.
pub(crate) struct Held {
    pub(super) formats: &'static [QuantizedFormat],
    /// Supported granularities, of which the first is the default. Empty for MX and NVFP4, which have fixed blocks.
    pub(super) scales: &'static [Scales],
    pub(super) loaders: Loaders,
    /// Supported treatments of activations. The default is the first one that needs no calibration data.
    pub(super) activations: &'static [Activations],
    /// Loaders that were tried with experts, each a weight of its own, and the treatments of activations with which
    /// they load these: vLLM 0.32 (`scripts/proofs/vllm_loads.py`) and transformers 5.24
    /// (`scripts/checks/loaders/check.py`).
    pub(super) experts: &'static [(&'static str, &'static [Activations])],
}

/// Programs that load these formats.
#[derive(Clone, Copy)]
pub(super) enum Loaders {
    /// These programs, according to their source code.
    Are(&'static [&'static str]),
    /// No program. The string says why, and what to write instead. The formats can be read but not written.
    None(&'static str),
}

impl Held {
    /// Returns the same formats, with what is known of experts.
    pub(super) const fn experts(self, experts: &'static [(&'static str, &'static [Activations])]) -> Held {
        Held { experts, ..self }
    }

    /// Returns the requested treatment of activations, or by default the first one that needs no calibration data;
    /// `None` if the loaders do not support it.
    pub(super) fn choice(&self, asked: Option<Activations>) -> Option<Activations> {
        let is_meant = |known: &&Activations| match asked {
            Some(asked) => **known == asked,
            None => **known != Activations::Static,
        };
        self.activations.iter().find(is_meant).copied()
    }

    /// Returns the default granularity.
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

/// A supported granularity, or a family of them.
pub(super) enum Scales {
    One(Granularity),
    /// Groups of any number of columns within a row.
    Groups,
    /// Blocks of several rows.
    Blocks,
}
