//! Arguments that several commands share.

use super::parsers::{Shape, SourceTypeParser, TypeParser, positive, shape};
use super::{HOW, INPUT, Loss, OUTPUT, Pattern, Rule, WHAT};
use clap::{Args as ClapArgs, ColorChoice};
use onnx_cast::DataType;
use onnx_cast_file::{Existing, Format, RawInput, ShardSize, SourceType};
use std::path::PathBuf;

/// What every command takes.
#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct Common {
    /// Use at most N threads
    #[arg(short = 'j', long, global = true, value_name = "N", value_parser = positive, help_heading = HOW)]
    #[arg(display_order = 900)]
    pub(crate) threads: Option<usize>,
    /// Print JSON
    #[arg(long, global = true, help_heading = OUTPUT, display_order = 901)]
    pub(crate) json: bool,
    /// Print no summary and no progress; with --html, write only the page
    #[arg(short, long, global = true, help_heading = OUTPUT, display_order = 902)]
    pub(crate) quiet: bool,
    /// Print more: each tensor, the backend and the threads
    #[arg(short, long, global = true, help_heading = OUTPUT, display_order = 903)]
    pub(crate) verbose: bool,
    /// Colours: auto (on a terminal, unless NO_COLOR is set), always, never
    #[arg(long, global = true, value_name = "WHEN", value_enum, default_value_t = ColorChoice::Auto)]
    #[arg(hide_default_value = true, hide_possible_values = true, help_heading = OUTPUT, display_order = 904)]
    pub(crate) color: ColorChoice,
    /// The command that is given.
    #[arg(skip)]
    pub(crate) command: String,
}

/// From files to files.
#[derive(Debug, ClapArgs)]
pub(crate) struct FileArgs {
    /// The file to read and the file to write, which may be the same with --force; with --out-dir, files to read
    ///
    /// The extension selects the format: .pb (ONNX TensorProto), .npy, .npz, .safetensors, .bin and .raw (raw
    /// little-endian elements; only .raw may begin like another format), .onnx (a model). For a checkpoint in several
    /// files give its index (*.safetensors.index.json) or its folder. - is standard input or output.
    #[arg(value_name = "FILE", required = true, help_heading = INPUT)]
    pub(crate) files: Vec<PathBuf>,
    /// The type of raw bytes, or of arrays whose items do not name it (V1, u1, u2): TYPE of all, or PATTERN=TYPE of the
    /// arrays of an .npz file whose names match; other files must have this type
    #[arg(long, value_name = "TYPE", value_parser = SourceTypeParser, hide_possible_values = true)]
    #[arg(help_heading = INPUT)]
    pub(crate) from: Vec<SourceType>,
    /// The shape of raw bytes, as 2,3 or 2x3; --from gives their type
    #[arg(long, value_name = "N,N", value_parser = shape, requires = "from", help_heading = INPUT)]
    pub(crate) shape: Option<Shape>,
    /// The format of standard input, instead of the one from its first bytes: pb, npy, npz, safetensors, pt, bin
    #[arg(long, value_name = "FORMAT", value_parser = str::parse::<Format>, help_heading = INPUT)]
    pub(crate) in_format: Option<Format>,
}

impl FileArgs {
    pub(crate) fn raw(&self, npy: &NpyArgs) -> RawInput {
        let FileArgs { from, shape, in_format, .. } = self;
        let shape = shape.clone().map(|shape| shape.0);
        RawInput::default().from(from.clone()).shape(shape).in_format(*in_format).out_format(npy.out_format)
    }
}

/// How arrays are written, and what to standard output.
#[derive(Debug, ClapArgs)]
pub(crate) struct NpyArgs {
    /// In .npy and .npz, write types that numpy lacks as the unsigned integers of their bits
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) npy_plain: bool,
    /// The format of standard output: pb, npy, npz, safetensors, bin (by default that of the input)
    #[arg(long, value_name = "FORMAT", value_parser = str::parse::<Format>, help_heading = OUTPUT)]
    pub(crate) out_format: Option<Format>,
}

/// Names of tensors, or of the values of a model.
#[derive(Debug, ClapArgs)]
pub(crate) struct NameArgs {
    /// Only names that match: a glob over the whole name, or `re:` and a regular expression
    #[arg(long, value_name = "PATTERN", help_heading = WHAT)]
    pub(crate) include: Vec<Pattern>,
    /// Skip names that match
    #[arg(long, value_name = "PATTERN", help_heading = WHAT)]
    pub(crate) exclude: Vec<Pattern>,
}

/// Which tensors of a file, and to which types.
#[derive(Debug, ClapArgs)]
pub(crate) struct SelectionArgs {
    /// The target type; optional with rules, which then leave all other tensors as they are
    #[arg(long, value_name = "TYPE", value_parser = TypeParser, hide_possible_values = true)]
    #[arg(required_unless_present_any = ["rule", "rules_file"], help_heading = WHAT)]
    pub(crate) to: Option<DataType>,
    #[command(flatten)]
    pub(crate) names: NameArgs,
    /// The type of tensors whose names match, or `keep`; the last rule that matches decides
    #[arg(long, value_name = "PATTERN=TYPE", help_heading = WHAT)]
    pub(crate) rule: Vec<Rule>,
    /// A file of rules, one per line, which come before those of --rule
    #[arg(long, value_name = "FILE", help_heading = WHAT)]
    pub(crate) rules_file: Option<PathBuf>,
    /// Keep tensors of fewer elements (default for models: 256)
    #[arg(long, value_name = "N", help_heading = WHAT)]
    pub(crate) min_elements: Option<u64>,
}

/// What is done with an output that exists.
#[derive(Clone, Copy, Debug, ClapArgs)]
pub(crate) struct ForceArgs {
    /// Replace outputs that exist, and folders that are not empty; OUT may be IN, except for folders of quantized
    /// weights
    #[arg(short, long, help_heading = OUTPUT)]
    pub(crate) force: bool,
}

impl ForceArgs {
    pub(crate) fn existing(self) -> Existing {
        Existing::new(self.force)
    }
}

/// How files are written.
#[derive(Debug, ClapArgs)]
pub(crate) struct JobArgs {
    /// Print each tensor's types and sizes before and after, and write nothing; reads values only for --losses and
    /// --fail-on
    #[arg(short = 'n', long, help_heading = HOW)]
    pub(crate) dry_run: bool,
    /// Continue an interrupted run: write the files that are missing, and replace none without -f
    #[arg(long, help_heading = HOW)]
    pub(crate) resume: bool,
    /// Write each FILE under its own name into this folder
    #[arg(long, value_name = "DIR", help_heading = OUTPUT)]
    pub(crate) out_dir: Option<PathBuf>,
    /// Divide a checkpoint into files of at most this size, as 5GB, 500MB or 2GiB, with an index; OUT is a folder
    #[arg(long, value_name = "SIZE", help_heading = OUTPUT)]
    pub(crate) shard_size: Option<ShardSize>,
    /// Do not copy a folder's other files: configuration, tokenizer and so on
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) no_copy_others: bool,
    #[command(flatten)]
    pub(crate) force: ForceArgs,
}

/// Losses that are counted.
#[derive(Debug, ClapArgs)]
pub(crate) struct LossArgs {
    /// Write nothing and exit with 1 if any value is lost this way: overflow (or saturated), underflow (to zero),
    /// subnormal, nan
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
    #[command(flatten)]
    pub(crate) force: ForceArgs,
}

/// Where a model's elements go.
#[derive(Debug, ClapArgs)]
pub(crate) struct StorageArgs {
    /// Put a model's elements into this file beside OUT (default for models of more than 2 GiB: OUT.data)
    #[arg(long, value_name = "FILE", help_heading = OUTPUT)]
    pub(crate) external_data: Option<String>,
    /// Keep tensors of fewer bytes inside the model (default: 1024)
    #[arg(long, value_name = "BYTES", help_heading = OUTPUT)]
    pub(crate) external_threshold: Option<u64>,
}
