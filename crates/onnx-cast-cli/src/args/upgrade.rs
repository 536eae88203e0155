//! The arguments of `upgrade`.

use super::{HOW, ModelArgs, WriteArgs};
use clap::Args as ClapArgs;

#[derive(Debug, ClapArgs)]
#[command(after_long_help = "\
Examples:
  onnx-cast upgrade model.onnx model-21.onnx
  onnx-cast upgrade model.onnx model.onnx --opset 18
  onnx-cast upgrade model.onnx model-21.onnx --dry-run               which nodes would be rewritten, and how
  onnx-cast upgrade model.onnx model-17.onnx --opset 17 --ir-version 8    for an older runtime

By ONNX's rules every output keeps its bits; a runtime may compute a newer version of an operator in another order, as
onnxruntime does AveragePool from opset 19 on. A node that has no equivalent at the new opset is an error that names it.
A lower opset, from 13 on, is written if every node means the same there.")]
pub(crate) struct UpgradeArgs {
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    /// The opset of the result, lower than the model's too (default: 21, or with --ir-version the model's own)
    #[arg(long, value_name = "N", help_heading = HOW)]
    pub(crate) opset: Option<i64>,
    /// The version of the model format, if the model uses nothing newer (default: at least the opset's)
    #[arg(long, value_name = "N", help_heading = HOW)]
    pub(crate) ir_version: Option<i64>,
    /// Print which nodes would be rewritten, and write nothing
    #[arg(short = 'n', long, help_heading = HOW)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) write: WriteArgs,
}
