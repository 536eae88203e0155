//! The arguments of `convert` and `record`.

use super::parsers::PrecisionParser;
use super::{HOW, ModelArgs, NameArgs, OUTPUT, Pattern, WHAT, WriteArgs};
use clap::Args as ClapArgs;
use onnx_cast::DataType;
use onnx_cast_model::{Interface, Keep};
use std::path::PathBuf;

#[derive(Debug, ClapArgs)]
#[command(after_long_help = "\
Examples:
  onnx-cast convert model.onnx half.onnx --to float16
  onnx-cast convert model.onnx bf16.onnx --to bfloat16 --raise-opset
  onnx-cast convert model.onnx half.onnx --to float16 --io low           inputs and outputs, too
  onnx-cast convert model.onnx half.onnx --to float16 --io mask=float --io low
  onnx-cast convert model.onnx half.onnx --to float16 --keep 'decoder/*' --keep Softmax
  onnx-cast convert model.onnx half.onnx --to float16 --ranges ranges.npz    the results of `record`
  onnx-cast convert model.onnx half.onnx --to float16 --html page.html   a page of nodes, Casts and ranges
  onnx-cast convert model.onnx half.onnx --to float16 --dry-run          each node, its type and the reason
  onnx-cast convert model.onnx half.onnx --to float16 --explain /layers.0/Add
  onnx-cast convert model.onnx rounded.onnx --to float16 --emulate       see the rounding in any runtime
  onnx-cast convert half.onnx wide.onnx --to float                       a model of 16 bits, in float again

Inputs and outputs keep their types. Shapes, positions and lengths stay float, and what is sensitive: softmax, norms,
logarithms, masks, angles, coordinates, sums over many rounds. The manual's page is docs/precision.md.")]
pub(crate) struct ConvertArgs {
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    /// float16, bfloat16 or float; with --emulate float16, bfloat16 or a float8 type
    #[arg(long, value_name = "TYPE", value_parser = PrecisionParser, hide_possible_values = true, help_heading = WHAT)]
    pub(crate) to: DataType,
    /// The model's inputs and outputs: `keep` (their types, the default), `low` (the new type), or NAME=TYPE
    #[arg(long, value_name = "keep|low|NAME=TYPE", value_parser = port, help_heading = WHAT)]
    pub(crate) io: Vec<Port>,
    /// What stays float: operators or names of nodes (a glob); `sensitive` (default); `none`: keep nothing in float for
    /// precision
    #[arg(long, value_name = "OPTYPE|GLOB|sensitive|none", value_parser = keep, help_heading = WHAT)]
    pub(crate) keep: Vec<Keep>,
    /// Operators, or names of nodes (a glob), that get the new type even if that takes more Casts
    #[arg(long, value_name = "GLOB", help_heading = WHAT)]
    pub(crate) low: Vec<Pattern>,
    /// Raise the model's opset to one whose operators support the type
    #[arg(long, help_heading = HOW)]
    pub(crate) raise_opset: bool,
    /// The magnitudes of values, from `record` or AutoCast (.npz or .json): values that would overflow stay
    /// float
    #[arg(long, value_name = "FILE", help_heading = WHAT)]
    pub(crate) ranges: Option<PathBuf>,
    /// The factor by which magnitudes may exceed those of --ranges
    #[arg(long, value_name = "X", default_value_t = 4.0, help_heading = WHAT)]
    pub(crate) margin: f32,
    /// Write a float model that rounds its values like the converted one, for any runtime
    #[arg(long, help_heading = HOW)]
    pub(crate) emulate: bool,
    /// Print the type of a value or node and the reason, and write nothing
    #[arg(long, value_name = "NAME", help_heading = HOW)]
    pub(crate) explain: Vec<String>,
    /// Print the type of each node and the reason, and write nothing
    #[arg(short = 'n', long, help_heading = HOW)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) write: WriteArgs,
    /// Also write a self-contained page that draws the nodes, their types and the reasons (not by --dry-run)
    #[arg(long, value_name = "OUT.html", help_heading = OUTPUT)]
    pub(crate) html: Option<PathBuf>,
}

#[derive(Debug, ClapArgs)]
#[command(after_long_help = "\
Examples:
  onnx-cast record model.onnx recorded.onnx
  onnx-cast record model.onnx recorded.onnx --include '/decoder/*'       values, by name
  onnx-cast record model.onnx recorded.onnx --dry-run                    the values, and their outputs
  onnx-cast convert model.onnx half.onnx --to float16 --ranges ranges.npz    what the outputs gave

For each floating-point value NAME the model gets an output onnx_cast_record/NAME of five floats: the largest magnitude,
the least magnitude other than zero, the largest value, the least value, and how many are NaN. Run it in any runtime on
your own inputs, save the outputs (numpy.savez), and hand the file to `convert --ranges`.")]
pub(crate) struct RecordArgs {
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    #[command(flatten)]
    pub(crate) names: NameArgs,
    /// Print what would be recorded, and write nothing
    #[arg(short = 'n', long, help_heading = HOW)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) write: WriteArgs,
}

/// What `--io` tells.
#[derive(Clone, Debug)]
pub(crate) enum Port {
    Keep,
    Low,
    Named(String, DataType),
}

fn port(text: &str) -> Result<Port, String> {
    match text {
        "keep" => return Ok(Port::Keep),
        "low" => return Ok(Port::Low),
        _ => {}
    }
    let (name, data_type) = text.rsplit_once('=').ok_or("want keep, low or NAME=TYPE")?;
    if let "keep" | "low" = data_type {
        return Err(format!(
            "`{data_type}` is for all inputs and outputs, and stands alone (want a type, such as {name}=float16)"
        ));
    }
    let data_type = data_type.parse().map_err(|error: onnx_cast::types::UnknownType| error.to_string())?;
    Ok(Port::Named(name.to_owned(), data_type))
}

fn keep(text: &str) -> Result<Keep, String> {
    text.parse().map_err(|error: onnx_cast_file::SelectionError| error.to_string())
}

impl ConvertArgs {
    /// The types of inputs and outputs; of `keep` and `low` the last counts.
    pub(crate) fn interface(&self) -> Interface {
        let mut interface = Interface::default();
        for port in &self.io {
            match port {
                Port::Keep => interface.low = false,
                Port::Low => interface.low = true,
                Port::Named(name, data_type) => interface.named.push((name.clone(), *data_type)),
            }
        }
        interface
    }
}
