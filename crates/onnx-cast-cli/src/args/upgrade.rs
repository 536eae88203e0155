//! The arguments of `upgrade`.

use super::{HOW, ModelArgs, WriteArgs};
use clap::Args as ClapArgs;
use onnx_cast_model::DEFAULT_OPSET;

#[derive(Debug, ClapArgs)]
#[command(after_long_help = "\
Examples:
  onnx-cast upgrade model.onnx model-21.onnx
  onnx-cast upgrade model.onnx model.onnx --opset 18
  onnx-cast upgrade model.onnx model-21.onnx --dry-run               which nodes would be rewritten, and how

By ONNX's rules every output keeps its bits; a runtime may compute a newer version of an operator in another order, as
onnxruntime does AveragePool from opset 19 on. A node that has no equivalent at the new opset is an error that names it.")]
pub(crate) struct UpgradeArgs {
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    /// The opset of the result
    #[arg(long, value_name = "N", default_value_t = DEFAULT_OPSET, help_heading = HOW)]
    pub(crate) opset: i64,
    /// Print which nodes would be rewritten, and write nothing
    #[arg(short = 'n', long, help_heading = HOW)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) write: WriteArgs,
}
