//! Arguments that several commands share.

use super::parsers::{Shape, TypeParser, positive, shape};
use super::{HOW, INPUT, Loss, OUTPUT, Pattern, Rule, WHAT};
use clap::{Args as ClapArgs, ColorChoice};
use onnx_cast::DataType;
use std::path::PathBuf;

/// What every command takes.
#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct Common {
    /// Use at most N threads
    #[arg(long, global = true, value_name = "N", value_parser = positive, help_heading = HOW, display_order = 900)]
    pub(crate) threads: Option<usize>,
    /// Print JSON
    #[arg(long, global = true, help_heading = OUTPUT, display_order = 901)]
    pub(crate) json: bool,
    /// Print no summary and no progress
    #[arg(short, long, global = true, help_heading = OUTPUT, display_order = 902)]
    pub(crate) quiet: bool,
    /// Print more: each tensor, the backend and the threads
    #[arg(short, long, global = true, help_heading = OUTPUT, display_order = 903)]
    pub(crate) verbose: bool,
    /// Colours: auto (on a terminal, unless NO_COLOR is set), always, never
    #[arg(long, global = true, value_name = "WHEN", value_enum, default_value_t = ColorChoice::Auto)]
    #[arg(hide_default_value = true, hide_possible_values = true, help_heading = OUTPUT, display_order = 904)]
    pub(crate) color: ColorChoice,
}

/// From files to files.
#[derive(Debug, ClapArgs)]
pub(crate) struct FileArgs {
    /// The file to read and the file to write, which may be the same; with --out-dir, files to read
    ///
    /// The extension tells the format: .pb (ONNX TensorProto), .npy, .npz, .safetensors, .bin and .raw (raw
    /// little-endian elements; only .raw may begin as another format does), .onnx (a model). A checkpoint in several
    /// files is its index (*.safetensors.index.json) or its folder. - is the standard input or output.
    #[arg(value_name = "FILE", required = true, help_heading = INPUT)]
    pub(crate) files: Vec<PathBuf>,
    /// The type of raw bytes, or of an .npy file whose items do not tell it (V1, u1, u2); another file must hold this
    /// type
    #[arg(long, value_name = "TYPE", value_parser = TypeParser, hide_possible_values = true, help_heading = INPUT)]
    pub(crate) from: Option<DataType>,
    /// The shape of raw bytes, as 2,3 or 2x3; --from gives their type
    #[arg(long, value_name = "N,N", value_parser = shape, requires = "from", help_heading = INPUT)]
    pub(crate) shape: Option<Shape>,
}

/// How arrays are written.
#[derive(Debug, ClapArgs)]
pub(crate) struct NpyArgs {
    /// In .npy and .npz, write types that numpy lacks as the unsigned integers of their bits
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) npy_plain: bool,
}

/// Names of tensors, or of the values of a model.
#[derive(Debug, ClapArgs)]
pub(crate) struct NameArgs {
    /// Only what has a matching name: a glob over the whole name, or `re:` and a regular expression
    #[arg(long, value_name = "PATTERN", help_heading = WHAT)]
    pub(crate) include: Vec<Pattern>,
    /// Not what has a matching name
    #[arg(long, value_name = "PATTERN", help_heading = WHAT)]
    pub(crate) exclude: Vec<Pattern>,
}

/// Which tensors of a file, and to which types.
#[derive(Debug, ClapArgs)]
pub(crate) struct SelectionArgs {
    /// The target type; with rules it may be left out, and what no rule names is kept
    #[arg(long, value_name = "TYPE", value_parser = TypeParser, hide_possible_values = true)]
    #[arg(required_unless_present_any = ["rule", "rules_file"], help_heading = WHAT)]
    pub(crate) to: Option<DataType>,
    #[command(flatten)]
    pub(crate) names: NameArgs,
    /// The type of the tensors whose names match, or `keep`; of several rules the last that matches
    #[arg(long, value_name = "PATTERN=TYPE", help_heading = WHAT)]
    pub(crate) rule: Vec<Rule>,
    /// A file of rules, one a line, before those of --rule
    #[arg(long, value_name = "FILE", help_heading = WHAT)]
    pub(crate) rules_file: Option<PathBuf>,
    /// Keep tensors of fewer elements; of models 256 unless given
    #[arg(long, value_name = "N", help_heading = WHAT)]
    pub(crate) min_elements: Option<u64>,
}

/// How files are written.
#[derive(Debug, ClapArgs)]
pub(crate) struct JobArgs {
    /// Print what would become of each tensor, and write nothing; values are read where --losses or --fail-on counts
    /// them
    #[arg(long, help_heading = HOW)]
    pub(crate) dry_run: bool,
    /// Go on with a run that was interrupted: files that hold already what they should are left alone
    #[arg(long, conflicts_with = "no_clobber", help_heading = HOW)]
    pub(crate) resume: bool,
    /// Write each FILE under its own name into this folder
    #[arg(long, value_name = "DIR", help_heading = OUTPUT)]
    pub(crate) out_dir: Option<PathBuf>,
    /// Of a folder, do not copy the other files: configuration, tokenizer and so on
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) no_copy_others: bool,
    /// Do not replace files
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) no_clobber: bool,
    /// Replace an OUT that holds types of IN and none of the result, and so may be another input; leave other weights
    /// in an output folder
    #[arg(long, conflicts_with = "no_clobber", help_heading = OUTPUT)]
    pub(crate) force: bool,
}

/// Losses that are counted.
#[derive(Debug, ClapArgs)]
pub(crate) struct LossArgs {
    /// Write nothing and exit with 1 where values are lost so: overflow (or saturated), underflow (to zero), subnormal,
    /// nan
    #[arg(long, value_name = "LOSS,..", value_delimiter = ',', help_heading = HOW)]
    pub(crate) fail_on: Vec<Loss>,
    /// Print for each tensor how many values overflowed, saturated, became zero or subnormal, or were NaN, and the
    /// largest error
    #[arg(long, alias = "stats", help_heading = OUTPUT)]
    pub(crate) losses: bool,
}

/// From a model to a model.
#[derive(Debug, ClapArgs)]
pub(crate) struct ModelArgs {
    /// The model
    #[arg(value_name = "IN.onnx", help_heading = INPUT)]
    pub(crate) input: PathBuf,
    /// The model to write, which may be IN
    #[arg(value_name = "OUT.onnx", help_heading = INPUT)]
    pub(crate) output: PathBuf,
}

/// How a model is written.
#[derive(Debug, ClapArgs)]
pub(crate) struct WriteArgs {
    #[command(flatten)]
    pub(crate) storage: StorageArgs,
    /// Do not replace files
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) no_clobber: bool,
    /// Replace an OUT that is not the result of such a job, and so may be another input
    #[arg(long, conflicts_with = "no_clobber", help_heading = OUTPUT)]
    pub(crate) force: bool,
}

/// Where a model's elements go.
#[derive(Debug, ClapArgs)]
pub(crate) struct StorageArgs {
    /// Put a model's elements into this file beside OUT; models of more than 2 GiB do so by themselves, into OUT.data
    #[arg(long, value_name = "FILE", help_heading = OUTPUT)]
    pub(crate) external_data: Option<String>,
    /// Keep tensors of fewer bytes inside the model; 1024 unless given
    #[arg(long, value_name = "BYTES", help_heading = OUTPUT)]
    pub(crate) external_threshold: Option<u64>,
}
