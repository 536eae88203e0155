//! Arguments about single values and blocks of values.

use super::parsers::{CandidateParser, TypeParser};
use super::{Attributes, ForceArgs, HOW, INPUT, OUTPUT, WHAT};
use clap::Args as ClapArgs;
use onnx_cast::DataType;
use onnx_cast::scaled::{Recipe, ScaleRule};
use onnx_cast_file::CandidateFormat;
use std::path::PathBuf;

#[derive(Debug, ClapArgs)]
#[command(after_long_help = "\
Examples:
  onnx-cast explain 0.3 --to float8e4m3fn --from float     a float's 0.3, field by field
  onnx-cast explain 0.3 --to float8e4m3fn                  the decimal 0.3 itself, rounded once
  onnx-cast explain 0x3f80 --from bfloat16 --to float16    a bit pattern
  onnx-cast explain -inf --from float --to float8e5m2 --saturate false
  onnx-cast explain 3 --from float --to float8e8m0 --round-mode down
  onnx-cast explain 1e9 --from double --to int16 --json
  onnx-cast explain 0.3 --from float --all                 in every type, side by side
  onnx-cast explain 0.3 --to float8e4m3fn --html page.html    also as a page
  onnx-cast explain 0.3 --to int8 --scale 0.05             QuantizeLinear, and DequantizeLinear back
  onnx-cast explain 0.3 --to uint8 --scale 0.05 --zero-point 128
  onnx-cast explain 0.3 --to float4e2m1 --scale 0x7d --scale-type float8e8m0
  onnx-cast explain 0.3 -1.7 0.01 5 --to mxfp4             a block: its scale, and each of its elements
  onnx-cast explain 0.3 -1.7 0.01 --to nvfp4 --global-scale 0.001 --recipe compressed-tensors")]
pub(crate) struct ExplainArgs {
    /// A decimal number, inf or nan; with --from also bits, such as 0x3f80 or 0b101
    #[arg(allow_hyphen_values = true, help_heading = INPUT)]
    pub(crate) value: String,
    /// The other values of a block, with --to mxfp4 or another block format; put -inf after --
    #[arg(allow_negative_numbers = true, help_heading = INPUT)]
    pub(crate) others: Vec<String>,
    /// The type of VALUE, to which a decimal is rounded first; by default VALUE is cast as a string (with --scale, as
    /// a float)
    #[arg(long, value_name = "TYPE", value_parser = TypeParser, hide_possible_values = true, help_heading = INPUT)]
    pub(crate) from: Option<DataType>,
    /// The target type; or a block format: mxfp4, mxfp6e2m3, mxfp6e3m2, mxfp8, mxfp8e5m2, mxint8, nvfp4
    #[arg(long, value_name = "TYPE", value_parser = CandidateParser, hide_possible_values = true)]
    #[arg(required_unless_present = "all", help_heading = WHAT)]
    pub(crate) to: Option<CandidateFormat>,
    /// Show the value in every type, side by side
    #[arg(long, conflicts_with = "to", help_heading = WHAT)]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) scaling: ScalingArgs,
    #[command(flatten)]
    pub(crate) block: BlockArgs,
    #[command(flatten)]
    pub(crate) attributes: Attributes,
    /// Also write a self-contained page
    #[arg(long, value_name = "OUT.html", help_heading = OUTPUT)]
    pub(crate) html: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) force: ForceArgs,
}

/// What QuantizeLinear has beside a cast.
#[derive(Debug, ClapArgs)]
pub(crate) struct ScalingArgs {
    /// Quantize by this scale, like QuantizeLinear, and dequantize to VALUE's type; a number or bits, like VALUE
    #[arg(long, value_name = "S", allow_hyphen_values = true, conflicts_with_all = ["all", "round_mode"])]
    #[arg(help_heading = WHAT)]
    pub(crate) scale: Option<String>,
    /// The type of S (default: VALUE's if that is float, float16 or bfloat16, else float)
    #[arg(long, value_name = "TYPE", value_parser = TypeParser, hide_possible_values = true, requires = "scale")]
    #[arg(conflicts_with = "all", help_heading = WHAT)]
    pub(crate) scale_type: Option<DataType>,
    /// The zero point, in the target type; a number or bits, like VALUE
    #[arg(long, value_name = "Z", allow_hyphen_values = true, requires = "scale")]
    #[arg(conflicts_with = "all", help_heading = WHAT)]
    pub(crate) zero_point: Option<String>,
    /// The type that the quotient is rounded to: float, float16 or bfloat16 (default: the scale's;
    /// QuantizeLinear-23 on)
    #[arg(long, value_name = "TYPE", value_parser = TypeParser, hide_possible_values = true, requires = "scale")]
    #[arg(conflicts_with = "all", help_heading = HOW)]
    pub(crate) precision: Option<DataType>,
}

/// How the scales of a block are found.
#[derive(Debug, ClapArgs)]
pub(crate) struct BlockArgs {
    /// The rule for the scale of an MX block: floor (default), rceil, ceil, even
    #[arg(long, value_name = "RULE", conflicts_with_all = ["all", "scale", "recipe"], help_heading = HOW)]
    pub(crate) scale_rule: Option<ScaleRule>,
    /// The owner's arithmetic for NVFP4: modelopt (default), torchao, compressed-tensors
    #[arg(long, value_name = "NAME", conflicts_with_all = ["all", "scale"], help_heading = HOW)]
    pub(crate) recipe: Option<Recipe>,
    /// NVFP4's scale of the tensor, as in the recipe; by default computed from the block alone
    #[arg(long, value_name = "G", allow_hyphen_values = true, conflicts_with_all = ["all", "scale", "scale_rule"])]
    #[arg(help_heading = HOW)]
    pub(crate) global_scale: Option<f32>,
}
