//! Arguments about quantized checkpoints.

use super::common::{JobArgs, LossArgs, SelectionArgs};
use super::{HOW, INPUT};
use clap::Args as ClapArgs;
use onnx_cast_file::Scheme;
use std::path::PathBuf;

/// The layout that is to be told by the checkpoint itself.
const AUTO: &str = "auto";

#[derive(Debug, ClapArgs)]
#[command(
    override_usage = "onnx-cast dequantize [OPTIONS] --to <TYPE> IN OUT\n       onnx-cast dequantize [OPTIONS] --to <TYPE> IN... --out-dir <DIR>",
    after_long_help = "\
Examples:
  onnx-cast dequantize DeepSeek-V3/ DeepSeek-V3-bf16/ --to bf16     a checkpoint in several files
  onnx-cast dequantize gpt-oss-20b/ gpt-oss-20b-bf16/ --to bf16
  onnx-cast dequantize model-fp8.safetensors model.safetensors --to float16 --scheme comfyui
  onnx-cast dequantize in/ out/ --to bf16 --dry-run                 what would become of each tensor
  onnx-cast dequantize in/ out/ --to float16 --fail-on overflow     nothing is written where a weight overflows
  onnx-cast dequantize in/ out/ --to bf16 --resume                  go on with a run that was interrupted"
)]
pub(crate) struct DequantizeArgs {
    /// The checkpoint to read and the one to write: .safetensors files, indices (*.safetensors.index.json) or folders;
    /// with --out-dir, those to read
    #[arg(value_name = "FILE", required = true, help_heading = INPUT)]
    pub(crate) files: Vec<PathBuf>,
    /// The layout of the weights, where neither the configuration nor names tell it: auto, deepseek, gpt-oss,
    /// compressed-tensors, modelopt, fbgemm, quark, comfyui
    #[arg(long, value_name = "NAME", value_parser = scheme, default_value = AUTO, hide_default_value = true)]
    #[arg(help_heading = INPUT)]
    pub(crate) scheme: SchemeArg,
    #[command(flatten)]
    pub(crate) selection: SelectionArgs,
    /// Take scales that are NaN, whose weights become NaN; without it they are an error
    #[arg(long, help_heading = HOW)]
    pub(crate) allow_nan: bool,
    #[command(flatten)]
    pub(crate) job: JobArgs,
    #[command(flatten)]
    pub(crate) losses: LossArgs,
}

/// A layout; none of `auto`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SchemeArg(pub(crate) Option<Scheme>);

fn scheme(text: &str) -> Result<SchemeArg, String> {
    if text == AUTO {
        return Ok(SchemeArg(None));
    }
    let known = || Scheme::ALL.iter().map(|(_, name)| *name).collect::<Vec<_>>().join(", ");
    let found = Scheme::from_name(text);
    found.map(|scheme| SchemeArg(Some(scheme))).ok_or_else(|| format!("not a layout (want auto, {})", known()))
}
