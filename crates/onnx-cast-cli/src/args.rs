//! The arguments, and the help that teaches them.

use crate::pairs::Pairs;
use clap::builder::{PossibleValue, TypedValueParser};
use clap::{Args as ClapArgs, Parser, Subcommand};
use onnx_cast::{CastOptions, DataType, NEWEST_OPSET, RoundMode};
use onnx_cast_file::{Loss, Pattern, Rule};
use std::ffi::OsStr;
use std::path::PathBuf;

/// What `--isa` takes for the list of backends.
pub(crate) const LIST: &str = "list";

/// Elements of a pair where none are named: beyond every cache, also of the narrow types.
pub(crate) const ELEMENTS: usize = 16 << 20;

/// ONNX's Cast, CastLike and BitCast on tensor files and models, every bit right.
#[derive(Debug, Parser)]
#[command(
    name = "onnx-cast",
    version,
    arg_required_else_help = true,
    max_term_width = 100,
    after_help = "\
Examples:
  onnx-cast cast model.safetensors small.safetensors --to bfloat16     every weight, rounded once
  onnx-cast explain 0.3 --from float --to float8e4m3fn                 one value, bit by bit
  onnx-cast types                                                      the element types

`onnx-cast help COMMAND` has more examples for each command.
Exit codes: 0 done; 1 `diff` found a difference, or `--fail-on` a loss; 2 an error. With 1 and 2 nothing is written."
)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Cast the tensors of a file to another type
    Cast(CastArgs),
    /// Read the bits of a file's tensors as another type of the same width
    #[command(name = "bitcast")]
    BitCast(BitCastArgs),
    /// Compute the Casts of a model's constants, and remove those that change nothing
    Fold(FoldArgs),
    /// Evaluate a model of Cast, CastLike, BitCast, Constant and Identity nodes
    Run(RunArgs),
    /// List the tensors of a file or model, and what their values are like
    Info(InfoArgs),
    /// Compare the tensors of two files or models
    Diff(DiffArgs),
    /// Show what casts to several types would lose, tensor by tensor, before any is done
    Report(SurveyArgs),
    /// List the element types: codes, widths, ranges, special values, operator versions
    Types(TypesArgs),
    /// Show what a cast makes of one value: bits, rule, neighbours, error
    Explain(ExplainArgs),
    /// Measure how fast pairs of types are cast, beside memcpy
    Bench(BenchArgs),
    /// Print a completion script for a shell
    #[command(after_help = "\
Examples:
  onnx-cast completions bash > ~/.local/share/bash-completion/completions/onnx-cast
  onnx-cast completions zsh > ~/.zfunc/_onnx-cast
  onnx-cast completions fish > ~/.config/fish/completions/onnx-cast.fish")]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  onnx-cast cast model.safetensors small.safetensors --to bfloat16
  onnx-cast cast x.pb y.pb --to float8e4m3fn --saturate false
  onnx-cast cast x.npy x.pb --to float16                     from one format to another
  onnx-cast cast scales.npy scales.npy --to float8e8m0 --round-mode nearest
  onnx-cast cast e4m3.npy y.npy --from float8e4m3fn --to float    an .npy of V1 or u1 items
  onnx-cast cast x.pb y.pb --to int4 --opset 21              by the rules of an older opset
  onnx-cast cast in.safetensors out.safetensors --to bf16 --exclude '*norm*' --min-size 4096
  onnx-cast cast in.safetensors out.safetensors --to bf16 --rule '*_proj.weight=float8e4m3fn' --dry-run
  onnx-cast cast in.safetensors out.safetensors --to float16 --fail-on overflow,nan
  onnx-cast cast x.npz y.npz --to float16                    every floating array
  onnx-cast cast x.bin y.npy --from float --shape 64,768 --to bf16     raw bytes
  cat x.npy | onnx-cast cast - - --to float16 > y.npy
  onnx-cast cast llama/ llama-bf16/ --to bf16 --resume       a checkpoint in several files, or the rest of one
  onnx-cast cast model.onnx small.onnx --to float16          every large weight of a model
  onnx-cast cast model.onnx small.onnx --to float8e4m3fn --raise-opset --external-data small.bin

The extension tells the format: .pb (ONNX TensorProto), .npy, .npz, .safetensors, .bin and .raw (raw little-endian elements, as \
with --shape whatever the extension; only .raw may begin as another format does). Of a .safetensors or .npz file every tensor \
of a floating type is cast (to an integer type, every tensor), and the rest and the metadata are kept; otherwise a file \
holds one tensor, and IN and OUT may differ in format. Of a model (.onnx) every floating constant of 256 elements or more is stored in the new type, and a \
Cast gives it back in its own, so that the model takes and gives what it did. OUT may be IN. On an error OUT is as it was \
before.")]
pub(crate) struct CastArgs {
    #[command(flatten)]
    pub(crate) files: FileArgs,
    #[command(flatten)]
    pub(crate) selection: SelectionArgs,
    #[command(flatten)]
    pub(crate) attributes: Attributes,
    /// Raise a model's opset where the target needs it, if every operator means the same in the newer one
    #[arg(long)]
    pub(crate) raise_opset: bool,
    #[command(flatten)]
    pub(crate) storage: StorageArgs,
    #[command(flatten)]
    pub(crate) report: ReportArgs,
}

/// Which tensors of a file, and to which types.
#[derive(Debug, ClapArgs)]
pub(crate) struct SelectionArgs {
    /// The target type; with rules it may be left out, and what no rule names is kept
    #[arg(long, value_name = "TYPE", value_parser = TypeParser, hide_possible_values = true)]
    #[arg(required_unless_present_any = ["rule", "rules"])]
    pub(crate) to: Option<DataType>,
    /// Only the tensors whose names match: a glob over the whole name, or `re:` and a regular expression
    #[arg(long, value_name = "PATTERN")]
    pub(crate) include: Vec<Pattern>,
    /// Not the tensors whose names match
    #[arg(long, value_name = "PATTERN")]
    pub(crate) exclude: Vec<Pattern>,
    /// The type of the tensors whose names match, or `keep`; of several rules the last that matches
    #[arg(long, value_name = "PATTERN=TYPE")]
    pub(crate) rule: Vec<Rule>,
    /// A file of rules, one a line, before those of --rule
    #[arg(long, value_name = "FILE")]
    pub(crate) rules: Option<PathBuf>,
    /// Keep tensors of fewer elements; of models 256 unless said otherwise
    #[arg(long, alias = "min-elements", value_name = "N")]
    pub(crate) min_size: Option<u64>,
}

/// What is said, and how.
#[derive(Debug, ClapArgs)]
pub(crate) struct ReportArgs {
    /// Print what would become of each tensor, and write nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Say for each tensor how many values overflowed, were saturated, became zero or subnormal, or were NaN, and the
    /// largest error
    #[arg(long)]
    pub(crate) stats: bool,
    /// Write nothing and exit with 1 where values are lost so: overflow (or saturated), underflow (to zero), subnormal, nan
    #[arg(long, value_name = "LOSS,..", value_delimiter = ',')]
    pub(crate) fail_on: Vec<Loss>,
    /// Print what was done, or would be, as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Where a model's elements go.
#[derive(Debug, ClapArgs)]
pub(crate) struct StorageArgs {
    /// Put a model's elements into this file beside OUT; models of more than 2 GiB do so by themselves, into OUT.data
    #[arg(long, value_name = "FILE")]
    pub(crate) external_data: Option<String>,
    /// Keep tensors of fewer bytes inside the model; 1024 unless said otherwise
    #[arg(long, value_name = "BYTES")]
    pub(crate) external_threshold: Option<u64>,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  onnx-cast fold model.onnx folded.onnx
  onnx-cast fold small.onnx model.onnx                       undo `cast`: the rounded weights in their old type
  onnx-cast fold model.onnx model.onnx --external-data weights.bin
  onnx-cast fold model.onnx folded.onnx --exclude 'lm_head*' --dry-run

Casts, CastLikes and BitCasts of constants become constants; those to the type that their input has are removed; of two \
in a row the second reads what the first does where no value could tell. Constants that nothing reads after that are \
removed. The model takes and gives the same, bit for bit. OUT may be IN. On an error OUT is as it was before.")]
pub(crate) struct FoldArgs {
    /// The model
    #[arg(value_name = "IN.onnx")]
    pub(crate) input: PathBuf,
    /// The model to write
    #[arg(value_name = "OUT.onnx")]
    pub(crate) output: PathBuf,
    /// Only Casts that give values whose names match: a glob over the whole name, or `re:` and a regular expression
    #[arg(long, value_name = "PATTERN")]
    pub(crate) include: Vec<Pattern>,
    /// Not Casts that give values whose names match
    #[arg(long, value_name = "PATTERN")]
    pub(crate) exclude: Vec<Pattern>,
    #[command(flatten)]
    pub(crate) storage: StorageArgs,
    /// Print what would become of each Cast, and write nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print what was done, or would be, as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Say nothing when all goes well
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  onnx-cast bitcast x.pb bits.pb --to uint16                 the bits of a float16 or bfloat16 tensor
  onnx-cast bitcast codes.npy x.pb --to float8e4m3fn         bytes that are float8 codes
  onnx-cast bitcast model.safetensors bits.safetensors --to uint32

The two types must be of the same width. Of a .safetensors file every tensor whose elements have the \
target's width is reinterpreted, and the rest and the metadata are kept.")]
pub(crate) struct BitCastArgs {
    #[command(flatten)]
    pub(crate) files: FileArgs,
    #[command(flatten)]
    pub(crate) selection: SelectionArgs,
    /// The opset, whose version of the operator decides
    #[arg(long, value_name = "N", default_value_t = NEWEST_OPSET)]
    pub(crate) opset: i64,
    #[command(flatten)]
    pub(crate) report: ReportArgs,
}

/// From a file to a file.
#[derive(Debug, ClapArgs)]
pub(crate) struct FileArgs {
    /// The file to read: .pb, .npy, .npz, .safetensors, raw bytes (.bin), - for the standard input, a model to cast (.onnx); of a checkpoint in several files the index
    /// (*.safetensors.index.json) or the folder
    #[arg(value_name = "IN")]
    pub(crate) input: PathBuf,
    /// The file to write: .pb, .npy, .npz, .safetensors, .bin, - for the standard output, or of a model, .onnx; of a checkpoint in several files an index or a
    /// folder
    #[arg(value_name = "OUT")]
    pub(crate) output: PathBuf,
    /// What raw bytes are, or an .npy file holds whose items do not tell it (V1, u1, u2); another file must hold this type
    #[arg(long, value_name = "TYPE", value_parser = TypeParser, hide_possible_values = true)]
    pub(crate) from: Option<DataType>,
    /// The shape of raw bytes, as 2,3; --from tells their type
    #[arg(long, value_name = "N,N", value_delimiter = ',', requires = "from")]
    pub(crate) shape: Option<Vec<usize>>,
    /// In .npy and .npz, write types that numpy lacks as the unsigned integers of their bits
    #[arg(long)]
    pub(crate) npy_plain: bool,
    /// Go on with a run that was interrupted: files that hold already what they should are left alone
    #[arg(long)]
    pub(crate) resume: bool,
    /// Of a folder, do not copy the other files: configuration, tokenizer and so on
    #[arg(long)]
    pub(crate) no_copy_others: bool,
    /// Say nothing when all goes well
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  onnx-cast run model.onnx --input x=x.pb --output y=y.pb
  onnx-cast run model.onnx --input x.npy --output y.npy      a model of one input and one output
  onnx-cast run model.onnx --input a=a.pb --input b=b.npy --output y=y.npy --output z=z.pb

The model is evaluated by the rules of the opset that it imports. Files are .pb, .npy or .safetensors, of one \
tensor each. Either all outputs are written or none. A model with another operator is refused, and the error names it.")]
pub(crate) struct RunArgs {
    /// The model
    #[arg(value_name = "MODEL.onnx")]
    pub(crate) model: PathBuf,
    /// An input and the file it is read from; NAME= may be left out where the model has one input
    #[arg(long = "input", value_name = "NAME=FILE")]
    pub(crate) inputs: Vec<String>,
    /// An output and the file it is written to; NAME= may be left out where the model has one output
    #[arg(long = "output", value_name = "NAME=FILE", required = true)]
    pub(crate) outputs: Vec<String>,
    /// In .npy, write types that numpy lacks as the unsigned integers of their bits
    #[arg(long)]
    pub(crate) npy_plain: bool,
    /// Say nothing when all goes well
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  onnx-cast info model.safetensors
  onnx-cast info model.onnx                                  constants, Casts and opsets
  onnx-cast info llama/ --stats                              minimum, maximum, mean, zeros, NaN and infinities
  onnx-cast info x.npz --json | jq '.tensors[].name'")]
pub(crate) struct InfoArgs {
    /// The file: .pb, .npy, .npz, .safetensors or .onnx, - for the standard input, or index or folder of several files
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// What elements are that do not tell their type
    #[arg(long, value_name = "TYPE", value_parser = TypeParser, hide_possible_values = true)]
    pub(crate) from: Option<DataType>,
    /// Read all values, and say what they are like
    #[arg(long)]
    pub(crate) stats: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  onnx-cast diff a.safetensors b.safetensors
  onnx-cast diff x.npy x.pb --tolerance 1e-6
  onnx-cast diff a.onnx b.onnx                               the constants of two models

Tensors are compared by name: type, shape and values, bit by bit, or with --tolerance as numbers. Formats may differ. \
Exit codes: 0 the same, 1 a difference, 2 an error.")]
pub(crate) struct DiffArgs {
    /// The one file: as for info
    #[arg(value_name = "A")]
    pub(crate) first: PathBuf,
    /// The other file
    #[arg(value_name = "B")]
    pub(crate) second: PathBuf,
    /// How far two numbers may be apart
    #[arg(long, value_name = "X", value_parser = tolerance)]
    pub(crate) tolerance: Option<f64>,
    /// Print nothing: the exit code tells
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  onnx-cast report model.safetensors --to float16,bfloat16,float8e4m3fn
  onnx-cast report model.onnx --to float8e4m3fn,float8e5m2 --html report.html
  onnx-cast report llama/ --to bf16 --include '*_proj.weight' --top 0
  onnx-cast report x.npz --to float16 --json | jq '.tensors[].candidates[].verdict'

Every tensor that `cast` would cast is read once. SNR is the ratio of signal to noise, beyond the share of values that overflow or \
are saturated, zero that of those that become zero, subn that of normal values that become subnormal, error the mean \
relative error; the last two numbers are the smallest and the largest magnitude. Verdicts: exact: every value is kept; fine: none \
beyond, at most 0.1% to zero, 30 dB or more; care: at most 0.1% beyond, at most 1% to zero, 20 dB or more; poor: worse, or \
NaN in a type that has none.")]
pub(crate) struct SurveyArgs {
    /// The file: .pb, .npy, .npz, .safetensors or .onnx, - for the standard input, or index or folder of several files
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// The candidate types
    #[arg(long, value_name = "TYPE,..", value_parser = TypeParser, hide_possible_values = true, value_delimiter = ',', required = true)]
    pub(crate) to: Vec<DataType>,
    /// What elements are that do not tell their type
    #[arg(long, value_name = "TYPE", value_parser = TypeParser, hide_possible_values = true)]
    pub(crate) from: Option<DataType>,
    /// Only the tensors whose names match: a glob over the whole name, or `re:` and a regular expression
    #[arg(long, value_name = "PATTERN")]
    pub(crate) include: Vec<Pattern>,
    /// Not the tensors whose names match
    #[arg(long, value_name = "PATTERN")]
    pub(crate) exclude: Vec<Pattern>,
    /// Leave out tensors of fewer elements; of models 256 unless said otherwise
    #[arg(long, value_name = "N")]
    pub(crate) min_size: Option<u64>,
    #[command(flatten)]
    pub(crate) attributes: Attributes,
    /// Rows of each type's table, the worst first; 0 for all
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) top: usize,
    /// Print JSON, histograms included
    #[arg(long)]
    pub(crate) json: bool,
    /// Also write a page with plots of each tensor, which needs nothing but itself
    #[arg(long, value_name = "OUT.html")]
    pub(crate) html: Option<PathBuf>,
    /// Say nothing of how far the work is
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

fn tolerance(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number >= 0.0 => Ok(number),
        Ok(_) => Err("want 0 or more".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  onnx-cast types
  onnx-cast types --json | jq '.types[] | select(.bits == 8) | .name'")]
pub(crate) struct TypesArgs {
    /// Print JSON, with every digit of every limit
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  onnx-cast explain 0.3 --to float8e4m3fn --from float     a float's 0.3, field by field
  onnx-cast explain 0.3 --to float8e4m3fn                  the decimal 0.3 itself, rounded once
  onnx-cast explain 0x3f80 --from bfloat16 --to float16    a bit pattern
  onnx-cast explain -inf --from float --to float8e5m2 --saturate false
  onnx-cast explain 3 --from float --to float8e8m0 --round-mode down
  onnx-cast explain 1e9 --from double --to int16 --json
  onnx-cast explain 0.3 --from float --all                 in every type, side by side
  onnx-cast explain 0.3 --to float8e4m3fn --html page.html also as a page

Without --from, VALUE is cast as a string is: rounded once from the decimal text (Cast-9 and newer; \
before, as a double). With --from, a decimal VALUE is first read as that type, which a note says where it changes the value.")]
pub(crate) struct ExplainArgs {
    /// A decimal number, inf or nan; with --from also its bits, as 0x3f80 or 0b101
    #[arg(allow_hyphen_values = true)]
    pub(crate) value: String,
    /// The source type
    #[arg(long, value_name = "TYPE", value_parser = TypeParser, hide_possible_values = true)]
    pub(crate) from: Option<DataType>,
    /// The target type
    #[arg(long, value_name = "TYPE", value_parser = TypeParser, hide_possible_values = true)]
    #[arg(required_unless_present = "all")]
    pub(crate) to: Option<DataType>,
    #[command(flatten)]
    pub(crate) attributes: Attributes,
    /// Show the value in every type, side by side
    #[arg(long, conflicts_with_all = ["to", "json"])]
    pub(crate) all: bool,
    /// Print JSON, with every digit
    #[arg(long)]
    pub(crate) json: bool,
    /// Also write a page that shows it, which needs nothing but itself
    #[arg(long, value_name = "OUT.html")]
    pub(crate) html: Option<PathBuf>,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  onnx-cast bench                                            the pairs that people cast most
  onnx-cast bench --pairs all --threads 2                    every pair, which takes minutes
  onnx-cast bench --pairs float:float8e4m3fn,float16:int4 --elements 16384
  onnx-cast bench --isa portable --json
  onnx-cast bench --isa                                      the instruction sets to choose from

GB/s are bytes read and written a second, one thread unless told otherwise; ratio is to memcpy of as many \
bytes by as many threads, measured in turn with the cast. Results are compared with the scalar cast first. \
Of several rounds the median is shown; on a machine that does something else too, none of it means much.")]
pub(crate) struct BenchArgs {
    /// The pairs, as FROM:TO, or all
    #[arg(long, value_name = "A:B,..|all")]
    pub(crate) pairs: Option<Pairs>,
    /// Elements of each tensor; memory for four times their bytes is needed
    #[arg(long, value_name = "N", default_value_t = ELEMENTS, value_parser = positive)]
    pub(crate) elements: usize,
    /// Threads, of the cast and of memcpy
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = positive)]
    pub(crate) threads: usize,
    /// The instruction set to use; without a name, or with `list`, those of this machine are listed
    #[arg(long, value_name = "NAME", num_args = 0..=1, default_missing_value = LIST)]
    pub(crate) isa: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

fn positive(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("want 1 or more".to_owned()),
        Ok(number) => Ok(number),
        Err(error) => Err(format!("{error}")),
    }
}

/// Opset and attributes of Cast. What the opset's version does not have is an error.
#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct Attributes {
    /// The opset, whose version of the operator decides; the newest unless said otherwise
    #[arg(long, value_name = "N")]
    pub(crate) opset: Option<i64>,
    /// Whether a float8 target takes its largest value in place of overflow; true unless said otherwise (Cast-19 on)
    #[arg(long, value_name = "true|false", action = clap::ArgAction::Set, hide_possible_values = true)]
    pub(crate) saturate: Option<bool>,
    /// How float8e8m0 rounds; up unless said otherwise (Cast-24 on)
    #[arg(long, value_name = "up|down|nearest", value_parser = RoundModeParser, hide_possible_values = true)]
    pub(crate) round_mode: Option<RoundMode>,
}

impl Attributes {
    pub(crate) fn options(&self) -> CastOptions {
        CastOptions::new().opset(self.opset.unwrap_or(NEWEST_OPSET)).saturate(self.saturate).round_mode(self.round_mode)
    }
}

/// A parser that takes all that `FromStr` takes, and offers the names to completions.
macro_rules! name_parser {
    ($name:ident, $ty:ty, $all:expr) => {
        #[derive(Clone, Debug)]
        struct $name;

        impl TypedValueParser for $name {
            type Value = $ty;

            fn parse_ref(
                &self,
                command: &clap::Command,
                arg: Option<&clap::Arg>,
                value: &OsStr,
            ) -> Result<$ty, clap::Error> {
                let parse = |text: &str| text.parse::<$ty>();
                TypedValueParser::parse_ref(&parse, command, arg, value)
            }

            fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
                Some(Box::new($all.iter().map(|value| PossibleValue::new(value.name()))))
            }
        }
    };
}
name_parser!(TypeParser, DataType, DataType::ALL);
name_parser!(RoundModeParser, RoundMode, RoundMode::ALL);
