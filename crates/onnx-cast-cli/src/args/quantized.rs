//! Arguments about quantized checkpoints.

use super::common::{JobArgs, LossArgs, NameArgs, SelectionArgs, StorageArgs};
use super::parsers::{transcoded_layout, written_layout};
use super::{HOW, INPUT, WHAT};
use clap::Args as ClapArgs;
use onnx_cast::scaled::ScaleRule;
use onnx_cast_file::{Activations, Layout, ModelForm, QuantizedFormat, Rule, Selection, SelectionError, WeightFormat};
use std::path::PathBuf;

#[derive(Debug, ClapArgs)]
#[command(
    override_usage = "onnx-cast dequantize [OPTIONS] --to <TYPE> IN OUT\n       onnx-cast dequantize [OPTIONS] --to <TYPE> IN... --out-dir <DIR>",
    after_long_help = "\
Examples:
  onnx-cast dequantize DeepSeek-V3/ DeepSeek-V3-bf16/ --to bf16     a checkpoint in several files
  onnx-cast dequantize gpt-oss-20b/ gpt-oss-20b-bf16/ --to bf16
  onnx-cast dequantize model-fp8.safetensors model.safetensors --to float16 --layout comfyui
  onnx-cast dequantize model-Q4_K_M.gguf model.safetensors --to bf16
  onnx-cast dequantize small.onnx model.onnx --to float             the DequantizeLinears of constants
  onnx-cast dequantize in/ out/ --to bf16 --dry-run                 each tensor's types and sizes
  onnx-cast dequantize in/ out/ --to float16 --fail-on overflow     nothing is written if a weight overflows
  onnx-cast dequantize in/ out/ --to bf16 --resume                  continue an interrupted run"
)]
pub(crate) struct DequantizeArgs {
    /// The checkpoint to read and the one to write: .safetensors files, indices (*.safetensors.index.json) or folders;
    /// a .gguf file may be read; or models (.onnx); with --out-dir, those to read. - is standard input (.safetensors) or
    /// output
    #[arg(value_name = "FILE", required = true, help_heading = INPUT)]
    pub(crate) files: Vec<PathBuf>,
    /// The layout of the weights, instead of the one from the configuration and names: deepseek, gpt-oss,
    /// compressed-tensors, modelopt, fbgemm, quark, comfyui, plain, bitsandbytes, mlx, gptq, awq, mistral, openai, hqq,
    /// torchao, quanto, bitnet, gemma
    #[arg(long, value_name = "NAME", value_parser = str::parse::<Layout>, help_heading = INPUT)]
    pub(crate) layout: Option<Layout>,
    #[command(flatten)]
    pub(crate) selection: SelectionArgs,
    /// Accept scales that are NaN: their weights become NaN (by default an error)
    #[arg(long, help_heading = HOW)]
    pub(crate) allow_nan: bool,
    #[command(flatten)]
    pub(crate) job: JobArgs,
    #[command(flatten)]
    pub(crate) losses: LossArgs,
}

#[derive(Debug, ClapArgs)]
#[command(
    override_usage = "onnx-cast quantize [OPTIONS] --to <FORMAT> IN OUT\n       onnx-cast quantize [OPTIONS] --to <FORMAT> IN... --out-dir <DIR>",
    after_long_help = "\
Examples:
  onnx-cast quantize model/ model-nvfp4/ --to nvfp4                      for vLLM, in the layout of compressed-tensors
  onnx-cast quantize model/ model-fp8/ --to float8e4m3fn --layout deepseek     in blocks of 128x128
  onnx-cast quantize model/ model-w8a8/ --to int8 --activations dynamic        8 bits for weights and activations
  onnx-cast quantize model/ model-int4/ --to int4/128
  onnx-cast quantize model/ model-mxfp4/ --to mxfp4 --scale-rule even --exclude '*down_proj*'
  onnx-cast quantize model/ mixed/ --to nvfp4 --rule '*.self_attn.*=int8/row'
  onnx-cast quantize in.safetensors out.safetensors --to float8e4m3fn --layout comfyui
  onnx-cast quantize model/ model.gguf --to q8_0 --layout gguf           for llama.cpp
  onnx-cast quantize model.onnx small.onnx --to int4/32                  a DequantizeLinear after each weight
  onnx-cast quantize model.onnx fast.onnx --to int4 --form matmulnbits   for onnxruntime's MatMulNBits
  onnx-cast quantize model.onnx fast.onnx --to int8 --form dynamic       products of integers
  onnx-cast quantize model/ out/ --to nvfp4 --dry-run                    which tensors, and their sizes"
)]
pub(crate) struct QuantizeArgs {
    /// The checkpoint to read and the one to write: .safetensors files, indices (*.safetensors.index.json) or folders;
    /// or models (.onnx); with --out-dir, those to read. - is standard input (.safetensors) or output
    #[arg(value_name = "FILE", required = true, help_heading = INPUT)]
    pub(crate) files: Vec<PathBuf>,
    /// The format: mxfp4, mxfp6e2m3, mxfp6e3m2, mxfp8, mxfp8e5m2, mxint8, nvfp4, float8e4m3fn, float8e5m2, int8, int4;
    /// of the last four also with what has a scale: int4/32 (a block), float8e4m3fn/128x128, int8/row,
    /// float8e4m3fn/tensor (default: the layout's); in .gguf files q8_0, q5_1, q5_0, q4_1, q4_0, mxfp4, bfloat16, float16
    #[arg(long, value_name = "FORMAT", required_unless_present_any = ["rule", "rules_file"], help_heading = WHAT)]
    pub(crate) to: Option<WeightFormat>,
    #[command(flatten)]
    pub(crate) names: NameArgs,
    /// The format of tensors whose names match, or `keep`; the last rule that matches decides. A rule also quantizes
    /// tensors that are kept by default: embeddings, routers, output layers
    #[arg(long, value_name = "PATTERN=FORMAT", help_heading = WHAT)]
    pub(crate) rule: Vec<Rule<WeightFormat>>,
    /// A file of rules, one per line, which come before those of --rule
    #[arg(long, value_name = "FILE", help_heading = WHAT)]
    pub(crate) rules_file: Option<PathBuf>,
    /// Keep tensors of fewer elements
    #[arg(long, value_name = "N", help_heading = WHAT)]
    pub(crate) min_elements: Option<u64>,
    /// The layout: compressed-tensors (default), deepseek, modelopt, gpt-oss, fbgemm, quark, comfyui,
    /// plain, gguf
    #[arg(long, value_name = "NAME", value_parser = written_layout, help_heading = HOW)]
    pub(crate) layout: Option<Layout>,
    /// How loaders quantize activations in the layout compressed-tensors: dynamic (default for float8) or none (default
    /// for int8); other layouts have one choice
    #[arg(long, value_name = "WHAT", help_heading = HOW)]
    pub(crate) activations: Option<Activations>,
    /// The rule for MX scales: floor (default), rceil, ceil, even
    #[arg(long, value_name = "RULE", help_heading = HOW)]
    pub(crate) scale_rule: Option<ScaleRule>,
    /// The form of a model's weights: qdq (DequantizeLinear, the default), matmulnbits (onnxruntime's MatMulNBits and
    /// GatherBlockQuantized instead of MatMul, Gemm and Gather, for int4 and int8 in blocks), or dynamic (int8, with
    /// inputs that are quantized at run time: MatMulInteger, ConvInteger, DynamicQuantizeLSTM)
    #[arg(long, value_name = "FORM", default_value = "qdq", hide_default_value = true, help_heading = HOW)]
    pub(crate) form: ModelForm,
    /// With --form matmulnbits: a zero point for each block, for asymmetric ranges
    #[arg(long, help_heading = HOW)]
    pub(crate) zero_points: bool,
    /// With --form dynamic: weights of 7 bits, whose products do not saturate on x86 processors without VNNI
    #[arg(long, help_heading = HOW)]
    pub(crate) reduce_range: bool,
    /// Raise a model's opset if the format needs it, and every operator keeps its meaning
    #[arg(long, help_heading = HOW)]
    pub(crate) raise_opset: bool,
    #[command(flatten)]
    pub(crate) job: JobArgs,
    #[command(flatten)]
    pub(crate) storage: StorageArgs,
    #[command(flatten)]
    pub(crate) losses: LossArgs,
}

#[derive(Debug, ClapArgs)]
#[command(
    override_usage = "onnx-cast transcode [OPTIONS] --layout <NAME> IN OUT\n       onnx-cast transcode [OPTIONS] --layout <NAME> IN... --out-dir <DIR>",
    after_long_help = "\
Examples:
  onnx-cast transcode nvfp4-ct/ nvfp4/ --layout modelopt                    the same weights for other loaders
  onnx-cast transcode mxfp4/ mxfp4-as-nvfp4/ --layout compressed-tensors --to nvfp4
  onnx-cast transcode mxfp4/ fp8/ --layout deepseek --to float8e4m3fn       in blocks of 128x128

A weight that would change is an error: nothing is written. `dequantize` and `quantize` go from any layout to any."
)]
pub(crate) struct TranscodeArgs {
    /// The checkpoint to read and the one to write: .safetensors files, indices (*.safetensors.index.json) or folders;
    /// with --out-dir, those to read. - is standard input (.safetensors) or output
    #[arg(value_name = "FILE", required = true, help_heading = INPUT)]
    pub(crate) files: Vec<PathBuf>,
    /// The layout of IN, instead of the one from the configuration and names
    #[arg(long, value_name = "NAME", value_parser = str::parse::<Layout>, help_heading = INPUT)]
    pub(crate) from_layout: Option<Layout>,
    /// The layout of OUT: compressed-tensors, deepseek, modelopt, fbgemm, quark, comfyui, plain
    #[arg(long, value_name = "NAME", value_parser = transcoded_layout, help_heading = WHAT)]
    pub(crate) layout: Layout,
    /// The format of MXFP4 weights in OUT: nvfp4, or float8e4m3fn in blocks of 128x128
    #[arg(long, value_name = "FORMAT", help_heading = WHAT)]
    pub(crate) to: Option<QuantizedFormat>,
    /// How loaders quantize activations, dynamic or none: their scales in IN are dropped. By default they are kept,
    /// which is an error if the layout cannot hold them
    #[arg(long, value_name = "WHAT", help_heading = HOW)]
    pub(crate) activations: Option<Activations>,
    #[command(flatten)]
    pub(crate) job: JobArgs,
}

impl QuantizeArgs {
    pub(crate) fn selection(&self) -> Result<Selection<WeightFormat>, SelectionError> {
        let mut rules = self.rules_file.as_ref().map_or(Ok(Vec::new()), |path| Rule::read(path))?;
        rules.extend(self.rule.iter().cloned());
        let NameArgs { include, exclude } = &self.names;
        let (include, exclude) = (include.clone(), exclude.clone());
        Ok(Selection { to: self.to, include, exclude, rules, min_elements: self.min_elements })
    }
}
