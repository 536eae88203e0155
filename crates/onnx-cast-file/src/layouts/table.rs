//! The layouts of quantized checkpoints, one row for each: the names, shapes and types of tensors, what configurations
//! say, and which formats are written. Everything else reads the rows.
//!
//! A configuration that is more than a few constants has a file beside the rows, which reads and writes it.

mod bitsandbytes;
mod comfyui;
mod compressed_tensors;
mod deepseek;
mod fbgemm;
mod gemma;
mod gptq;
mod mlx;
mod modelopt;
mod quark;
mod releases;
mod torch;

use super::format::{Activations, Granularity, OF_GGUF, QuantizedFormat};
use super::spec::{
    Calibration, Composition, Configuration, Experts, GlobalScaleOf, Held, LayoutSpec, Loaders, Names, OwnFile, Scales,
};
use super::weight::WeightFormat;
use super::written::{Arithmetic, Order};
use crate::formats::format::Format;
use crate::text::Short;
use onnx_cast::DataType;
use onnx_cast::scaled::{BlockFormat, Recipe};
use serde_json::{Map, Value, json};
use std::str::FromStr;

/// The layout of a checkpoint's weights, by its owner: see docs/quantized.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Layout {
    /// float8e4m3fn in blocks of rows and columns with multipliers (DeepSeek, Qwen), and experts in float4e2m1.
    DeepSeek,
    /// Experts in float4e2m1 with blocks of 32, transposed.
    GptOss,
    /// Any format of compressed-tensors (llm-compressor).
    CompressedTensors,
    /// FP8, NVFP4, MXFP4, MXFP8 and integers of 4 bits as ModelOpt exports them.
    ModelOpt,
    /// float8e4m3fn with a scale for each row.
    Fbgemm,
    /// float4e2m1 with blocks of 32, NVFP4, float8e4m3fn with a scale for each tensor, row or block, int8 with one for
    /// each tensor or row, integers of 4 bits.
    Quark,
    /// float8 and int8 with a scale for each tensor or row, NVFP4 and MXFP8 with scales in cuBLAS's order.
    ComfyUi,
    /// Elements and scales in their own types, without a configuration.
    Plain,
    /// The blocks of `.gguf` files, for llama.cpp.
    Gguf,
    /// NF4 and FP4 in blocks of the flattened weight, and int8 with a scale for each row.
    BitsAndBytes,
    /// Integers with a scale and a bias for each group, MXFP4, MXFP8 and NVFP4.
    Mlx,
    /// Integers in words down the columns, with zero points (GPTQ, GPTQModel, AutoRound).
    Gptq,
    /// Integers of 4 bits, eight columns in a word, with zero points (AutoAWQ).
    Awq,
    /// float8e4m3fn with a scale for each tensor, under Mistral's own names.
    Mistral,
    /// Experts in float4e2m1 with blocks of 32, under OpenAI's own names.
    OpenAi,
    /// Integers of 1 to 8 bits, the halves of a weight in one byte, with zero points of float (HQQ).
    Hqq,
    /// int8 and float8 of torchao, as its safetensors have them.
    TorchAo,
    /// int8 and float8 with a scale for each row (optimum-quanto).
    Quanto,
    /// -1, 0 and 1, four in a byte, with one scale (transformers' BitNet).
    BitNet,
    /// Integers of 2, 4 and 8 bits in bytes, with a scale for each row (Gemma, trained quantized).
    Gemma,
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
    /// The names of those that `quantize` writes.
    pub fn written() -> impl Iterator<Item = &'static str> {
        Layout::ALL.iter().filter(|(layout, _)| !layout.row().held.is_empty()).map(|(_, name)| *name)
    }

    /// All, with their names.
    pub const ALL: &'static [(Layout, &'static str)] = &{
        let mut all = [(Layout::Plain, ""); ROWS.len()];
        let mut index = 0;
        while index < all.len() {
            let (layout, row) = &ROWS[index];
            assert!(*layout as usize == index);
            all[index] = (*layout, row.name);
            index += 1;
        }
        all
    };

    /// The layout of checkpoints that are quantized without a wish for another.
    pub(crate) const DEFAULT: Layout = Layout::CompressedTensors;

    /// Whether `quantize` writes it, in `.safetensors` files.
    #[doc(hidden)]
    pub fn is_written_to_safetensors(self) -> bool {
        let row = self.row();
        row.file == Format::Safetensors && !row.held.is_empty()
    }

    /// The layout of files of their own, where no other has a format.
    pub(crate) fn only_of(to: QuantizedFormat) -> Option<Layout> {
        let mut holding = ROWS.iter().filter(|(_, row)| row.held.iter().any(|held| held.formats.contains(&to)));
        let (layout, row) = holding.next()?;
        (row.file != Format::Safetensors && holding.next().is_none()).then_some(*layout)
    }

    /// The name, as `--layout` takes it.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    pub(crate) fn row(self) -> &'static LayoutSpec {
        &ROWS[self as usize].1
    }

    /// The layout that configurations call so, or that has such a key where they name none.
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
        // From the last: ModelOpt writes the key of compressed-tensors too.
        let mut rows = ROWS.iter().rev();
        rows.find(|(_, row)| row.configuration.as_ref().is_some_and(is_meant)).map(|(layout, _)| *layout)
    }

    /// The layout that names of tensors leave no doubt of.
    pub(super) fn of_names(has: impl Fn(&str) -> bool) -> Option<Layout> {
        let found = ROWS.iter().find(|(_, row)| row.signs.iter().any(|sign| has(sign)));
        // A scale for each tensor or row means the same in every layout.
        found.map(|(layout, _)| *layout).or_else(|| has("weight_scale").then_some(Layout::DEFAULT))
    }

    /// The files that hold a configuration of a layout, apart from `config.json`.
    pub(crate) fn own_files() -> impl Iterator<Item = (Layout, &'static OwnFile)> {
        let files = |row: &'static LayoutSpec| row.configuration.as_ref().map_or(&[][..], |found| found.own_files);
        ROWS.iter().flat_map(move |(layout, row)| files(row).iter().map(|file| (*layout, file)))
    }

    /// Keys that only the description of quantized weights has.
    pub(super) fn keys() -> impl Iterator<Item = &'static str> {
        let own = ROWS.iter().filter_map(|(_, row)| row.configuration.as_ref()?.key);
        std::iter::once("quant_method").chain(own)
    }
}

/// Both matrices of experts.
pub(super) const EXPERTS: [&str; 2] = ["gate_up_proj", "down_proj"];

/// The endings of other tensors of a weight.
pub(crate) const ZERO_POINTS: &str = "weight_zero_point";
pub(crate) const GROUPS: &str = "weight_g_idx";
pub(crate) const SHAPE: &str = "weight_shape";
/// A layer's format in JSON, of ComfyUI.
pub(super) const COMFY_QUANT: &str = "comfy_quant";
pub(crate) use comfyui::without_layers;
pub(super) use torch::UNREAD;

const MXFP4: QuantizedFormat = QuantizedFormat::Block(BlockFormat::MxFp4);
const NVFP4: QuantizedFormat = QuantizedFormat::Block(BlockFormat::NvFp4);
const MXFP6: QuantizedFormat = QuantizedFormat::Block(BlockFormat::MxFp6E2M3);
const MXFP8: QuantizedFormat = QuantizedFormat::Block(BlockFormat::MxFp8);
const FP8: QuantizedFormat = QuantizedFormat::Elements(DataType::Float8E4M3FN);
const INT8: QuantizedFormat = QuantizedFormat::Elements(DataType::Int8);
const INT4: QuantizedFormat = QuantizedFormat::Elements(DataType::Int4);
/// Formats that only the plain layout has.
const OTHER_BLOCKS: [QuantizedFormat; 3] = [
    QuantizedFormat::Block(BlockFormat::MxFp6E3M2),
    QuantizedFormat::Block(BlockFormat::MxFp8E5M2),
    QuantizedFormat::Block(BlockFormat::MxInt8),
];
const FP8_E5M2: QuantizedFormat = QuantizedFormat::Elements(DataType::Float8E5M2);

const TENSOR: Scales = Scales::One(Granularity::Tensor);
const ROWS_OR_COLUMNS: Scales = Scales::One(Granularity::Row);
const SQUARES: Scales = Scales::One(Granularity::Block([128, 128]));

/// Loaders, by the sources of vLLM 0.33.0, SGLang 0.5.23, transformers 5.24.0 and ComfyUI.
const VLLM: &str = "vLLM";
const SGLANG: &str = "SGLang";
const TRANSFORMERS: &str = "transformers";
const COMFYUI: &str = "ComfyUI";
/// This library: the layout is its own.
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
    Held { formats, scales, loaders, activations }
}

const fn names(elements: &'static str, scales: &'static str, values: &'static str) -> Names {
    Names { elements, scales, values }
}

const WEIGHT: Names = names("weight", "weight_scale", "weight");

/// A layout of elements in bytes with scales of float, as most are.
const BASE: LayoutSpec = LayoutSpec {
    name: "",
    signs: &[],
    names: &[WEIGHT],
    experts: None,
    configuration: None,
    composition: Composition::Scaled,
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

/// Experts that are quantized as matrices are.
const AS_MATRICES: Experts =
    Experts { names: &[], order: Order::Same, by_default: true, only: None, have_scales_of_columns: false };

const ROWS: [(Layout, LayoutSpec); 20] = [
    (Layout::DeepSeek, deepseek::ROW),
    (
        Layout::GptOss,
        LayoutSpec {
            name: "gpt-oss",
            signs: &["gate_up_proj_blocks"],
            names: &[],
            experts: Some(Experts {
                names: &[names("_blocks", "_scales", "")],
                order: Order::Exchanged,
                ..AS_MATRICES
            }),
            configuration: Some(Configuration {
                methods: &["mxfp4"],
                claims: |claims, _| claims.add(&[WeightFormat::MxFp4], "mxfp4"),
                write: Some(|_, kept| json!({ "modules_to_not_convert": kept, "quant_method": "mxfp4" })),
                ..Configuration::BASE
            }),
            held: &[held(&[MXFP4], &[], ALL_THREE, KEPT)],
            has_axis_of_blocks: true,
            ..BASE
        },
    ),
    (
        Layout::CompressedTensors,
        LayoutSpec {
            name: "compressed-tensors",
            signs: &["weight_packed"],
            names: &[names("weight_packed", "weight_scale", "weight"), WEIGHT],
            configuration: Some(compressed_tensors::CONFIGURATION),
            beside: &[ZERO_POINTS, GROUPS, SHAPE],
            held: &[
                held(&[NVFP4], &[], ALL_THREE, KEPT_OR_STATIC),
                // SGLang reads experts of MXFP4 alone.
                held(&[MXFP4, MXFP8], &[], Loaders::Are(&[VLLM, TRANSFORMERS]), KEPT),
                held(&[MXFP6], &[], Loaders::Are(&[TRANSFORMERS]), KEPT),
                // Where activations stay, SGLang has no blocks.
                held(&[FP8], &[ROWS_OR_COLUMNS, TENSOR], ALL_THREE, compressed_tensors::FLOAT8),
                held(&[FP8], &[Scales::Blocks], ALL_THREE, compressed_tensors::FLOAT8_BLOCKS),
                held(&[INT8], &[ROWS_OR_COLUMNS], ALL_THREE, compressed_tensors::INT8),
                held(&[INT8], &[Scales::Groups], ALL_THREE, KEPT),
                // vLLM and SGLang have one scale for the weights only where activations are quantized.
                held(&[INT8], &[TENSOR], ALL_THREE, compressed_tensors::INT8_TENSOR),
                held(
                    &[INT4],
                    &[Scales::One(Granularity::Block([1, 32])), ROWS_OR_COLUMNS, Scales::Groups],
                    ALL_THREE,
                    KEPT,
                ),
                held(&[INT4], &[TENSOR], Loaders::Are(&[TRANSFORMERS]), KEPT),
            ],
            calibration: Some(Calibration {
                input: "input_scale",
                nvfp4: Some(("input_global_scale", true)),
                cache: Some(["k_scale", "v_scale"]),
            }),
            global: GlobalScaleOf { ending: "weight_global_scale", is_own: true, divides: true, shape: &[1] },
            packs_integers: true,
            keeps_scale_type: true,
            arithmetic: Arithmetic { recipe: Recipe::CompressedTensors, in_weight_type: true },
            counts_scales: true,
            ..BASE
        },
    ),
    (
        Layout::ModelOpt,
        LayoutSpec {
            name: "modelopt",
            signs: &["weight_scale_2"],
            experts: Some(Experts {
                names: &[
                    names(EXPERTS[0], "gate_up_proj_weight_scale", EXPERTS[0]),
                    names(EXPERTS[1], "down_proj_weight_scale", EXPERTS[1]),
                ],
                order: Order::Down,
                only: Some((
                    &[
                        held(&[NVFP4], &[], modelopt::LOADERS, KEPT_OR_STATIC),
                        held(&[FP8], &[TENSOR], modelopt::LOADERS, modelopt::CALIBRATED),
                    ],
                    "experts in one tensor have nvfp4, or float8e4m3fn with a scale for the tensor",
                )),
                ..AS_MATRICES
            }),
            configuration: Some(modelopt::CONFIGURATION),
            held: &[
                held(
                    &[MXFP4],
                    &[],
                    Loaders::None("vLLM and SGLang refuse it (want the layout compressed-tensors or quark)"),
                    KEPT,
                ),
                held(&[NVFP4], &[], modelopt::LOADERS, KEPT_OR_STATIC),
                held(&[MXFP8], &[], modelopt::LOADERS, DYNAMIC),
                held(&[FP8], &[ROWS_OR_COLUMNS, SQUARES], Loaders::Are(&[VLLM]), DYNAMIC),
                held(&[FP8], &[TENSOR], modelopt::LOADERS, modelopt::CALIBRATED),
            ],
            tensor_scale: &[],
            has_column_of_scales: false,
            has_axes_between: true,
            has_short_columns: false,
            calibration: Some(Calibration {
                input: "input_scale",
                nvfp4: Some(("input_scale", false)),
                cache: Some(["k_proj.k_scale", "v_proj.v_scale"]),
            }),
            ..BASE
        },
    ),
    (Layout::Fbgemm, fbgemm::FBGEMM),
    (
        Layout::Quark,
        LayoutSpec {
            name: "quark",
            configuration: Some(quark::CONFIGURATION),
            beside: &[ZERO_POINTS],
            held: &[
                // SGLang wants activations of float4 beside it.
                held(&[MXFP4], &[], Loaders::Are(&[VLLM, TRANSFORMERS]), KEPT),
                held(&[FP8], &[TENSOR, ROWS_OR_COLUMNS], ALL_THREE, quark::FLOAT8),
            ],
            columns: Some(quark::WORDS),
            has_large_blocks: true,
            tensor_scale: &[],
            has_column_of_scales: false,
            calibration: Some(Calibration { input: "input_scale", nvfp4: None, cache: None }),
            ..BASE
        },
    ),
    (Layout::ComfyUi, comfyui::ROW),
    (
        Layout::Plain,
        LayoutSpec {
            name: "plain",
            beside: &[ZERO_POINTS],
            held: &[
                held(&[MXFP4, NVFP4, MXFP6, MXFP8], &[], Loaders::Are(&[OWN]), KEPT_OR_STATIC),
                held(&OTHER_BLOCKS, &[], Loaders::Are(&[OWN]), KEPT),
                // No configuration tells the size of blocks: their number in a row has to.
                held(
                    &[FP8, FP8_E5M2, INT8],
                    &[ROWS_OR_COLUMNS, TENSOR, Scales::Groups],
                    Loaders::Are(&[OWN]),
                    KEPT_OR_STATIC,
                ),
            ],
            calibration: Some(Calibration {
                input: "input_scale",
                nvfp4: Some(("input_scale", false)),
                cache: Some(["k_scale", "v_scale"]),
            }),
            is_typed: true,
            keeps_scale_type: true,
            has_mxint8: true,
            counts_scales: true,
            ..BASE
        },
    ),
    (
        Layout::Gguf,
        LayoutSpec {
            name: "gguf",
            names: &[],
            held: &[held(&OF_GGUF, &[], Loaders::Are(&["llama.cpp"]), KEPT)],
            file: Format::Gguf,
            ..BASE
        },
    ),
    (Layout::BitsAndBytes, bitsandbytes::ROW),
    (Layout::Mlx, mlx::ROW),
    (Layout::Gptq, gptq::GPTQ),
    (Layout::Awq, gptq::AWQ),
    (Layout::Mistral, releases::MISTRAL),
    (Layout::OpenAi, releases::OPENAI),
    (Layout::Hqq, torch::HQQ),
    (Layout::TorchAo, torch::TORCHAO),
    (Layout::Quanto, torch::QUANTO),
    (Layout::BitNet, torch::BITNET),
    (Layout::Gemma, gemma::ROW),
];
