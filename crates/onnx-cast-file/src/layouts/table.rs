//! The list of layouts, and the constants that their files share. Each file specifies the layout of one owner: its
//! tensor names, how it reads and stores weights, and how it reads and writes configurations. Other modules should not
//! name a layout.

mod bitnet;
mod bitsandbytes;
mod comfyui;
mod compressed_tensors;
mod deepseek;
mod fbgemm;
mod gemma;
mod gguf;
mod gpt_oss;
mod gptq;
mod hqq;
mod mlx;
mod modelopt;
mod plain;
mod quanto;
mod quark;
mod releases;
mod torchao;

use super::describe::scaled;
use super::format::{Activations, Granularity, QuantizedFormat};
use super::spec::{Configuration, Experts, GlobalScaleOf, Held, LayoutSpec, Loaders, Names, OwnFile, Scales};
use super::written::{Arithmetic, Order};
use crate::formats::format::Format;
use crate::text::Short;
use onnx_cast::DataType;
use onnx_cast::scaled::{BlockFormat, Recipe};
use serde_json::{Map, Value};
use std::str::FromStr;

macro_rules! layouts {
    ($($(#[$doc:meta])* $layout:ident = $spec:path,)*) => {
        /// The layout of a checkpoint's quantized weights, named after its owner (see docs/quantized.md).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Layout {
            $($(#[$doc])* $layout,)*
        }

        const SPECS: &[(Layout, LayoutSpec)] = &[$((Layout::$layout, $spec)),*];
    };
}

layouts! {
    /// float8e4m3fn in blocks of rows and columns, whose scales are factors (DeepSeek, Qwen), and experts in
    /// float4e2m1.
    DeepSeek = deepseek::SPEC,
    /// Experts in float4e2m1 with blocks of 32, transposed.
    GptOss = gpt_oss::SPEC,
    /// Any format of compressed-tensors (llm-compressor).
    CompressedTensors = compressed_tensors::SPEC,
    /// FP8, NVFP4, MXFP4, MXFP8 and 4-bit integers, as exported by ModelOpt.
    ModelOpt = modelopt::SPEC,
    /// float8e4m3fn with a scale per row.
    Fbgemm = fbgemm::SPEC,
    /// float4e2m1 with blocks of 32, NVFP4, float8e4m3fn with a scale per tensor, row or block, int8 with a scale per
    /// tensor or row, and 4-bit integers (AMD's Quark).
    Quark = quark::SPEC,
    /// float8 and int8 with a scale per tensor or row, and NVFP4 and MXFP8 with scales in cuBLAS's order.
    ComfyUi = comfyui::SPEC,
    /// Elements and scales in their own types, without a configuration.
    Plain = plain::SPEC,
    /// The blocks of `.gguf` files, for llama.cpp.
    Gguf = gguf::SPEC,
    /// NF4 and FP4 in blocks of the flattened weight, and int8 with a scale per row.
    BitsAndBytes = bitsandbytes::SPEC,
    /// Integers with a scale and a bias per group, MXFP4, MXFP8 and NVFP4.
    Mlx = mlx::SPEC,
    /// Integers packed in words down the columns, with zero points (GPTQ, GPTQModel, AutoRound).
    Gptq = gptq::GPTQ,
    /// 4-bit integers with eight columns per word, and with zero points (AutoAWQ).
    Awq = gptq::AWQ,
    /// float8e4m3fn with a scale per tensor, under Mistral's own names.
    Mistral = releases::MISTRAL,
    /// Experts in float4e2m1 with blocks of 32, under OpenAI's own names.
    OpenAi = releases::OPENAI,
    /// Integers of 1 to 8 bits with float zero points; a byte holds elements of different parts of the weight (HQQ).
    Hqq = hqq::SPEC,
    /// Weights of torchao, as stored in its safetensors files.
    TorchAo = torchao::SPEC,
    /// int8 and float8 with a scale per row, and int4 and int2 in groups (optimum-quanto).
    Quanto = quanto::SPEC,
    /// The values -1, 0 and 1, four per byte, with one scale (transformers' BitNet).
    BitNet = bitnet::SPEC,
    /// Integers of 2, 4 and 8 bits, packed in bytes, with one or more scales per row (Gemma, trained quantized).
    Gemma = gemma::SPEC,
}

impl FromStr for Layout {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let known = || Layout::ALL.iter().map(|(_, name)| *name).collect::<Vec<_>>().join(", ");
        let found = Layout::ALL.iter().find(|(_, known)| *known == name).map(|(layout, _)| *layout);
        found.ok_or_else(|| format!("`{}` is not a layout (want {})", Short(name), known()))
    }
}

impl Layout {
    /// Names of the layouts that `quantize` writes.
    pub fn written() -> impl Iterator<Item = &'static str> {
        Layout::ALL.iter().filter(|(layout, _)| !layout.spec().held.is_empty()).map(|(_, name)| *name)
    }

    /// All layouts, with their names.
    pub const ALL: &'static [(Layout, &'static str)] = &{
        let mut all = [(Layout::Plain, ""); SPECS.len()];
        let mut index = 0;
        while index < all.len() {
            let (layout, spec) = &SPECS[index];
            all[index] = (*layout, spec.name);
            index += 1;
        }
        all
    };

    /// Default layout of `quantize`.
    pub(crate) const DEFAULT: Layout = Layout::CompressedTensors;

    /// Whether `quantize` writes the layout to `.safetensors` files.
    #[doc(hidden)]
    pub fn is_written_to_safetensors(self) -> bool {
        let spec = self.spec();
        spec.file == Format::Safetensors && !spec.held.is_empty()
    }

    /// Returns the layout of a format if exactly one layout supports it, and if that layout has its own file format.
    pub(crate) fn only_of(to: QuantizedFormat) -> Option<Layout> {
        let mut holding = SPECS.iter().filter(|(_, row)| row.held.iter().any(|held| held.formats.contains(&to)));
        let (layout, row) = holding.next()?;
        (row.file != Format::Safetensors && holding.next().is_none()).then_some(*layout)
    }

    /// The name, as used by `--layout`.
    pub fn name(self) -> &'static str {
        self.spec().name
    }

    pub(crate) fn spec(self) -> &'static LayoutSpec {
        &SPECS[self as usize].1
    }

    /// Returns the layout with this `quant_method`, or, if the method is empty, the layout that is identified by one of
    /// the keys.
    pub(super) fn of_configuration(method: &str, keys: &Map<String, Value>) -> Option<Layout> {
        let method = gptq::packing_of(method, keys).unwrap_or(method);
        let names = |known: &str| match known.strip_suffix('*') {
            Some(start) => method.starts_with(start),
            None => method == known,
        };
        let is_meant = |configuration: &Configuration| match method {
            "" => configuration.key.is_some_and(|key| keys.contains_key(key)),
            _ => configuration.methods.iter().any(|known| names(known)),
        };
        // Search from the end, because ModelOpt also writes the key of compressed-tensors.
        let mut rows = SPECS.iter().rev();
        rows.find(|(_, row)| row.configuration.as_ref().is_some_and(is_meant)).map(|(layout, _)| *layout)
    }

    /// Returns the layout that tensor names identify unambiguously.
    pub(super) fn of_names(has: impl Fn(&str) -> bool) -> Option<Layout> {
        let found = SPECS.iter().find(|(_, row)| row.signs.iter().any(|sign| has(sign)));
        // Scales per tensor or row have the same meaning in every layout.
        found.map(|(layout, _)| *layout).or_else(|| has("weight_scale").then_some(Layout::DEFAULT))
    }

    /// Returns the configuration files of layouts, apart from `config.json`.
    pub(crate) fn own_files() -> impl Iterator<Item = (Layout, &'static OwnFile)> {
        let files = |row: &'static LayoutSpec| row.configuration.as_ref().map_or(&[][..], |found| found.own_files);
        SPECS.iter().flat_map(move |(layout, row)| files(row).iter().map(|file| (*layout, file)))
    }

    /// Returns the keys that only occur in descriptions of quantized weights.
    pub(super) fn keys() -> impl Iterator<Item = &'static str> {
        let own = SPECS.iter().filter_map(|(_, row)| row.configuration.as_ref()?.key);
        std::iter::once("quant_method").chain(own)
    }
}

pub(crate) use comfyui::{layers_of, without_layers};

/// Unsupported layouts: prefixes of `quant_method`, each with the reason.
pub(super) const UNREAD: &[(&str, &str)] = &[
    ("eetq", "EETQ's int8 is in the order of one kind of GPU"),
    ("fp_quant", "FP-Quant rotates weights"),
    ("exl", "ExLlama's codes are rotated, and stored in the order of its kernels"),
    ("nunchaku", "nunchaku's tensors are in the order of its kernels, with low-rank factors"),
    ("svdquant", "SVDQuant adds low-rank factors to the weights"),
    ("aqlm", "AQLM's codes are indices into a codebook of vectors"),
    ("quip", "QuIP rotates weights"),
    ("higgs", "HIGGS rotates weights"),
    ("vptq", "VPTQ's codes are indices into a codebook of vectors"),
    ("spqr", "SpQR stores outliers separately"),
];

const MXFP4: QuantizedFormat = QuantizedFormat::Block(BlockFormat::MxFp4);
const NVFP4: QuantizedFormat = QuantizedFormat::Block(BlockFormat::NvFp4);
const MXFP6: QuantizedFormat = QuantizedFormat::Block(BlockFormat::MxFp6E2M3);
const MXFP8: QuantizedFormat = QuantizedFormat::Block(BlockFormat::MxFp8);
const FP8: QuantizedFormat = QuantizedFormat::Elements(DataType::Float8E4M3FN);
const INT8: QuantizedFormat = QuantizedFormat::Elements(DataType::Int8);
const INT4: QuantizedFormat = QuantizedFormat::Elements(DataType::Int4);
/// Formats that only the plain layout supports.
const OTHER_BLOCKS: [QuantizedFormat; 3] = [
    QuantizedFormat::Block(BlockFormat::MxFp6E3M2),
    QuantizedFormat::Block(BlockFormat::MxFp8E5M2),
    QuantizedFormat::Block(BlockFormat::MxInt8),
];
const FP8_E5M2: QuantizedFormat = QuantizedFormat::Elements(DataType::Float8E5M2);

const TENSOR: Scales = Scales::One(Granularity::Tensor);
const ROWS_OR_COLUMNS: Scales = Scales::One(Granularity::Row);
const SQUARES: Scales = Scales::One(Granularity::Block([128, 128]));

/// Names of loaders. The supported formats were taken from the sources of vLLM 0.33.0, SGLang 0.5.23, transformers
/// 5.24.0 and ComfyUI.
const VLLM: &str = "vLLM";
const SGLANG: &str = "SGLang";
const TRANSFORMERS: &str = "transformers";
const COMFYUI: &str = "ComfyUI";
/// This library, the only loader of the plain layout.
const OWN: &str = "onnx-cast";

const ALL_THREE: Loaders = Loaders::Are(&[VLLM, SGLANG, TRANSFORMERS]);

const KEPT: &[Activations] = &[Activations::Kept];
const KEPT_OR_STATIC: &[Activations] = &[Activations::Kept, Activations::Static];
const DYNAMIC: &[Activations] = &[Activations::Dynamic];

const fn held(
    formats: &'static [QuantizedFormat],
    scales: &'static [Scales],
    loaders: Loaders,
    activations: &'static [Activations],
) -> Held {
    Held { formats, scales, loaders, activations, experts: &[] }
}

const fn names(elements: &'static str, scales: &'static str, values: &'static str) -> Names {
    Names { elements, scales, values }
}

const WEIGHT: Names = names("weight", "weight_scale", "weight");

/// Default specification: elements in bytes with float scales, as in most layouts.
const BASE: LayoutSpec = LayoutSpec {
    name: "",
    signs: &[],
    names: &[WEIGHT],
    experts: None,
    configuration: None,
    describe: scaled,
    beside: &[],
    has_any_type: false,
    own_key: None,
    has_axis_of_blocks: false,
    told: None,
    held: &[],
    tensor_scale: &[1],
    has_column_of_scales: true,
    has_axes_between: false,
    has_short_columns: true,
    calibration: None,
    global: GlobalScaleOf { ending: "_2", is_own: false, divides: false, shape: &[] },
    has_tiles: false,
    is_typed: false,
    packs_integers: false,
    keeps_scale_type: false,
    arithmetic: Arithmetic { recipe: Recipe::ModelOpt, in_weight_type: false },
    marker: None,
    has_large_blocks: false,
    has_other_bytes: false,
    has_mxint8: false,
    counts_scales: false,
    file: Format::Safetensors,
    columns: None,
};

/// Default specification of experts: quantized like matrices.
const AS_MATRICES: Experts =
    Experts { names: &[], order: Order::Same, by_default: true, only: None, have_scales_of_columns: false };
