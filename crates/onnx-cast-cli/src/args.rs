//! The arguments, in the sections that help shows: input, what to cast, how, output. Prose is in the manual (`docs/`).

mod common;
mod explain;
mod help;
#[cfg(test)]
mod page;
mod parsers;
mod precision;
mod quantized;
mod upgrade;

use crate::pairs::{Op, Pairs};
use clap::{Args as ClapArgs, Parser, Subcommand};
use onnx_cast::scaled::ScaleRule;
use onnx_cast::{CastOptions, NEWEST_OPSET, RoundMode};
use onnx_cast_file::{CandidateFormat, Format, Granularity, Layout, Loader, Loss, Pattern, Rule, SourceType};
use parsers::{CandidateParser, RoundModeParser, SourceTypeParser, positive, tolerance};
use std::path::PathBuf;

pub(crate) use common::{
    Common, FileArgs, ForceArgs, JobArgs, LossArgs, ModelArgs, NameArgs, NpyArgs, SelectionArgs, StorageArgs, WriteArgs,
};
pub(crate) use explain::{BlockArgs, ExplainArgs, ScalingArgs};
pub(crate) use help::{command, with_other_command, with_other_names};
pub(crate) use precision::{ConvertArgs, RecordArgs};
pub(crate) use quantized::{DequantizeArgs, QuantizeArgs, TranscodeArgs};
pub(crate) use upgrade::UpgradeArgs;

/// What `--isa` takes for the list of backends.
pub(crate) const LIST: &str = "list";

/// Elements of a pair where none are named: beyond every cache, also of the narrow types.
pub(crate) const ELEMENTS: usize = 16 << 20;

const INPUT: &str = "Input";
const WHAT: &str = "What to cast";
const HOW: &str = "How";
pub(crate) const OUTPUT: &str = "Output";

/// Arguments whose paths others follow from.
pub(crate) const FILES: &str = "files";
pub(crate) const OUT_DIR: &str = "out_dir";
pub(crate) const EXTERNAL_DATA: &str = "external_data";

/// ONNX's Cast, CastLike and BitCast on tensor files and models, every bit right
#[derive(Debug, Parser)]
#[command(
    name = "onnx-cast",
    version,
    arg_required_else_help = true,
    max_term_width = help::COLUMNS,
    after_help = "\
Exit codes: 0 done, 1 a difference (diff), a problem (check) or a loss
(--fail-on), 2 an error.
Outputs are complete or unchanged. `onnx-cast COMMAND --help` has examples, and
`onnx-cast man COMMAND` prints a page of the manual.",
    after_long_help = "\
Examples:
  # every weight, rounded once
  onnx-cast cast model.safetensors small.safetensors --to bfloat16
  # one value, bit by bit
  onnx-cast explain 0.3 --from float --to float8e4m3fn
  # the element types
  onnx-cast types

Exit codes: 0 done, 1 a difference (diff), a problem (check) or a loss
(--fail-on), 2 an error.
Outputs are complete or unchanged. `onnx-cast COMMAND --help` has examples, and
`onnx-cast man COMMAND` prints a page of the manual."
)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Cast the tensors of files to another type
    Cast(CastArgs),
    /// Read the bits of tensors as another type of the same width
    #[command(name = "bitcast")]
    BitCast(BitCastArgs),
    /// Read quantized weights (FP8, NVFP4, GPTQ, ...) as plain ones
    Dequantize(DequantizeArgs),
    /// Quantize weights (MXFP4, NVFP4, FP8, integers) for loaders
    Quantize(QuantizeArgs),
    /// Write quantized weights in another layout, bit for bit
    Transcode(TranscodeArgs),
    /// Convert a model to compute in float16, bfloat16 or float
    Convert(ConvertArgs),
    /// Add outputs that give each value's range, for `convert`
    Record(RecordArgs),
    /// Compute the Casts of constants; remove those without effect
    Fold(FoldArgs),
    /// Raise or lower the opset; rewrite nodes whose operators changed
    Upgrade(UpgradeArgs),
    /// Evaluate a model of casts, constants and Identity nodes
    Run(RunArgs),
    /// List the tensors of a file or model, with statistics
    Info(InfoArgs),
    /// Compare the tensors of two files or models
    Diff(DiffArgs),
    /// Say whether a loader would read a quantized checkpoint
    Check(CheckArgs),
    /// Show what casts to several types would lose, by tensor
    Report(ReportArgs),
    /// List the element types: codes, ranges, special values
    #[command(after_long_help = "\
Examples:
  onnx-cast types
  onnx-cast types --json | jq '.types[] | select(.bits == 8) | .name'")]
    Types,
    /// Explain the cast of one value: bits, rule, neighbours, error
    Explain(ExplainArgs),
    /// Measure how fast pairs of types are cast, against memcpy
    Bench(BenchArgs),
    /// Print a completion script for a shell
    #[command(after_long_help = "\
Examples:
  onnx-cast completions bash > ~/.local/share/bash-completion/completions/onnx-cast
  onnx-cast completions zsh > ~/.zfunc/_onnx-cast
  onnx-cast completions fish > ~/.config/fish/completions/onnx-cast.fish")]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print a page of the manual, in the format of man
    #[command(after_long_help = "\
Examples:
  onnx-cast man > ~/.local/share/man/man1/onnx-cast.1
  onnx-cast man cast > ~/.local/share/man/man1/onnx-cast-cast.1
  onnx-cast man cast | man -l -")]
    Man {
        /// The command; by default the page of onnx-cast itself
        command: Option<String>,
    },
}

#[derive(Debug, ClapArgs)]
#[command(
    override_usage = "onnx-cast cast [OPTIONS] --to <TYPE> IN OUT\n       onnx-cast cast [OPTIONS] --to <TYPE> IN... --out-dir <DIR>",
    after_long_help = "\
Examples:
  onnx-cast cast model.safetensors small.safetensors --to bfloat16
  onnx-cast cast x.pb y.pb --to float8e4m3fn --saturate false
  onnx-cast cast x.npy x.pb --to float16                     from one format to another
  onnx-cast cast scales.npy scales.npy --to float8e8m0 --round-mode nearest
  onnx-cast cast e4m3.npy y.npy --from float8e4m3fn --to float    an .npy of V1 or u1 items
  onnx-cast cast x.pb y.pb --to int4 --opset 21              by the rules of an older opset
  onnx-cast cast in.safetensors out.safetensors --to bf16 --exclude '*norm*' --min-elements 4096
  onnx-cast cast in.safetensors out.safetensors --to bf16 --rule '*_proj.weight=float8e4m3fn' --dry-run
  onnx-cast cast in.safetensors out.safetensors --to float16 --fail-on overflow,nan
  onnx-cast cast x.npz y.npz --to float16 --losses           every floating array, and what it lost
  onnx-cast cast x.bin y.npy --from float --shape 64,768 --to bf16     raw bytes
  cat x.npy | onnx-cast cast - - --to float16 > y.npy
  onnx-cast cast a.safetensors b.safetensors --to bf16 --out-dir small
  onnx-cast cast llama/ llama-bf16/ --to bf16 --resume       a checkpoint in several files, or the rest of one
  onnx-cast cast model.onnx small.onnx --to float16          every large weight of a model
  onnx-cast cast model.onnx small.onnx --to float8e4m3fn --raise-opset --external-data small.bin"
)]
pub(crate) struct CastArgs {
    #[command(flatten)]
    pub(crate) files: FileArgs,
    #[command(flatten)]
    pub(crate) selection: SelectionArgs,
    #[command(flatten)]
    pub(crate) attributes: Attributes,
    /// Raise a model's opset if the target needs it, and every operator keeps its meaning
    #[arg(long, help_heading = HOW)]
    pub(crate) raise_opset: bool,
    #[command(flatten)]
    pub(crate) job: JobArgs,
    #[command(flatten)]
    pub(crate) npy: NpyArgs,
    #[command(flatten)]
    pub(crate) losses: LossArgs,
    #[command(flatten)]
    pub(crate) storage: StorageArgs,
}

#[derive(Debug, ClapArgs)]
#[command(
    override_usage = "onnx-cast bitcast [OPTIONS] --to <TYPE> IN OUT\n       onnx-cast bitcast [OPTIONS] --to <TYPE> IN... --out-dir <DIR>",
    after_long_help = "\
Examples:
  onnx-cast bitcast x.pb bits.pb --to uint16                 the bits of a float16 or bfloat16 tensor
  onnx-cast bitcast codes.npy x.pb --to float8e4m3fn         bytes that are float8 codes
  onnx-cast bitcast model.safetensors bits.safetensors --to uint32    every tensor of that width"
)]
pub(crate) struct BitCastArgs {
    #[command(flatten)]
    pub(crate) files: FileArgs,
    #[command(flatten)]
    pub(crate) selection: SelectionArgs,
    /// The opset, which selects the operator's version
    #[arg(long, value_name = "N", default_value_t = NEWEST_OPSET, help_heading = HOW)]
    pub(crate) opset: i64,
    #[command(flatten)]
    pub(crate) job: JobArgs,
    #[command(flatten)]
    pub(crate) npy: NpyArgs,
}

#[derive(Debug, ClapArgs)]
#[command(after_long_help = "\
Examples:
  onnx-cast fold model.onnx folded.onnx
  onnx-cast fold small.onnx model.onnx                       undo `cast`: the rounded weights in their old type
  onnx-cast fold model.onnx model.onnx --external-data weights.bin
  onnx-cast fold model.onnx folded.onnx --exclude 'lm_head*' --dry-run
  onnx-cast fold int8.onnx plain.onnx --dequantize           quantized weights, too")]
pub(crate) struct FoldArgs {
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    #[command(flatten)]
    pub(crate) names: NameArgs,
    /// Also compute DequantizeLinear of constants: quantized weights become plain, and larger
    #[arg(long, help_heading = WHAT)]
    pub(crate) dequantize: bool,
    /// Print whether each Cast would be computed, removed or joined, and write nothing
    #[arg(short = 'n', long, help_heading = HOW)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) write: WriteArgs,
}

#[derive(Debug, ClapArgs)]
#[command(after_long_help = "\
Examples:
  onnx-cast run model.onnx --input x=x.pb --output y=y.pb
  onnx-cast run model.onnx --input x.npy --output y.npy      a model of one input and one output
  onnx-cast run model.onnx --input a=a.pb --input b=b.npy --output y=y.npy --output z=z.pb

Either all outputs are written or none. A model with another operator is refused, and the error names it.")]
pub(crate) struct RunArgs {
    /// The model
    #[arg(value_name = "MODEL.onnx", help_heading = INPUT)]
    pub(crate) model: PathBuf,
    /// An input and the file it is read from; NAME= is optional if the model has one input
    #[arg(long = "input", value_name = "NAME=FILE", help_heading = INPUT)]
    pub(crate) inputs: Vec<String>,
    /// An output and the file it is written to; NAME= is optional if the model has one output
    #[arg(long = "output", value_name = "NAME=FILE", required = true, help_heading = OUTPUT)]
    pub(crate) outputs: Vec<String>,
    /// In .npy, write types that numpy lacks as the unsigned integers of their bits
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) npy_plain: bool,
    #[command(flatten)]
    pub(crate) force: ForceArgs,
}

#[derive(Debug, ClapArgs)]
#[command(after_long_help = "\
Examples:
  onnx-cast info model.safetensors
  onnx-cast info model.onnx                                  constants, Casts and opsets
  onnx-cast info model.onnx --types                          the type of every value, too
  onnx-cast info llama/ --stats                              minimum, maximum, mean, zeros, NaN and infinities
  onnx-cast info llama/ --include '*.q_proj.*'
  onnx-cast info llama-nvfp4/                                formats, blocks and bits of quantized weights, too
  onnx-cast info x.npz --json | jq '.tensors[].name'")]
pub(crate) struct InfoArgs {
    #[command(flatten)]
    pub(crate) file: ReadArgs,
    #[command(flatten)]
    pub(crate) names: NameArgs,
    /// Read all values, and print their statistics
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) stats: bool,
    /// Print every value of a model with its type, inferred from the operators
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) types: bool,
}

/// A file that is only read.
#[derive(Debug, ClapArgs)]
pub(crate) struct ReadArgs {
    /// The file: .pb, .npy, .npz, .safetensors or .onnx, - for standard input, or the index or folder of several files
    #[arg(value_name = "FILE", help_heading = INPUT)]
    pub(crate) path: PathBuf,
    /// The type of elements, if the file does not store it: TYPE of all, or PATTERN=TYPE of the tensors whose names match
    #[arg(long, value_name = "TYPE", value_parser = SourceTypeParser, hide_possible_values = true)]
    #[arg(help_heading = INPUT)]
    pub(crate) from: Vec<SourceType>,
    /// The format of standard input, instead of the one from its first bytes: pb, npy, npz, safetensors, pt, bin
    #[arg(long, value_name = "FORMAT", value_parser = str::parse::<Format>, help_heading = INPUT)]
    pub(crate) in_format: Option<Format>,
}

#[derive(Debug, ClapArgs)]
#[command(after_long_help = "\
Examples:
  onnx-cast diff a.safetensors b.safetensors
  onnx-cast diff x.npy x.pb --tolerance 1e-6                 tolerate this difference between numbers
  onnx-cast diff a.onnx b.onnx --exclude '*bias'             two models
  onnx-cast diff model-nvfp4/ model/ --values --tolerance 0.01    a quantized checkpoint and its source

Tensors are compared by name: type, shape and values, bit by bit, or with --tolerance as numbers. Formats may differ.
Of two models nodes, opsets, inputs and outputs are compared too, except with --values.
Exit codes: 0 the same, 1 a difference, 2 an error.")]
pub(crate) struct DiffArgs {
    /// The first file: as for info
    #[arg(value_name = "A", help_heading = INPUT)]
    pub(crate) first: PathBuf,
    /// The other file
    #[arg(value_name = "B", help_heading = INPUT)]
    pub(crate) second: PathBuf,
    /// The format of standard input, instead of the one from its first bytes: pb, npy, npz, safetensors
    #[arg(long, value_name = "FORMAT", value_parser = str::parse::<Format>, help_heading = INPUT)]
    pub(crate) in_format: Option<Format>,
    #[command(flatten)]
    pub(crate) names: NameArgs,
    /// The largest difference between two numbers
    #[arg(long, value_name = "X", value_parser = tolerance, help_heading = HOW)]
    pub(crate) tolerance: Option<f64>,
    /// Compare quantized weights by their values, whatever their layouts, and numbers whatever their types
    #[arg(long, help_heading = HOW)]
    pub(crate) values: bool,
}

#[derive(Debug, ClapArgs)]
#[command(after_long_help = "\
Examples:
  onnx-cast check llama-nvfp4/ --loader vllm
  onnx-cast check llama-nvfp4/ --loader sglang --json | jq '.problems[].name'

The rules come from the loader's own sources. What they do not decide is counted.
Exit codes: 0 no problem, 1 weights that would not be read, or wrongly, 2 an error.")]
pub(crate) struct CheckArgs {
    /// The checkpoint: a folder, an index or a .safetensors file
    #[arg(value_name = "FILE", help_heading = INPUT)]
    pub(crate) path: PathBuf,
    /// The loader: vllm, sglang, transformers
    #[arg(long, value_name = "LOADER", value_parser = str::parse::<Loader>, help_heading = HOW)]
    pub(crate) loader: Loader,
}

#[derive(Debug, ClapArgs)]
#[command(after_long_help = "\
Examples:
  onnx-cast report model.safetensors --to float16,bfloat16,float8e4m3fn
  onnx-cast report model.onnx --to float8e4m3fn,float8e5m2 --html report.html
  onnx-cast report llama/ --to bf16 --include '*_proj.weight' --top 0
  onnx-cast report llama/ --to mxfp4,nvfp4,int4/32,float8e4m3fn/128x128 --include '*_proj.weight'
  onnx-cast report x.npz --to float16 --json | jq '.tensors[].candidates[].verdict'")]
pub(crate) struct ReportArgs {
    #[command(flatten)]
    pub(crate) file: ReadArgs,
    /// The candidates: a type, as cast --to takes it (int8 is a cast without scales); a block format such as mxfp4 or
    /// nvfp4; or float8e4m3fn, float8e5m2, int8 or int4 with scales, as quantize --to: int4/32 (a block),
    /// float8e4m3fn/128x128, int8/row, float8e4m3fn/tensor
    #[arg(long, value_name = "TYPE,..", value_parser = CandidateParser, hide_possible_values = true)]
    #[arg(value_delimiter = ',', required = true, help_heading = WHAT)]
    pub(crate) to: Vec<CandidateFormat>,
    #[command(flatten)]
    pub(crate) names: NameArgs,
    /// Leave out tensors of fewer elements (default for models: 256)
    #[arg(long, value_name = "N", help_heading = WHAT)]
    pub(crate) min_elements: Option<u64>,
    #[command(flatten)]
    pub(crate) attributes: Attributes,
    /// The rule for MX scales: floor (default), rceil, ceil, even
    #[arg(long, value_name = "RULE", help_heading = HOW)]
    pub(crate) scale_rule: Option<ScaleRule>,
    /// The layout whose scales are used, as for quantize --layout (default: compressed-tensors)
    #[arg(long, value_name = "NAME", value_parser = str::parse::<Layout>, help_heading = HOW)]
    pub(crate) layout: Option<Layout>,
    /// Rows of each type's table, the worst first (default: 20); 0 for all
    #[arg(long, value_name = "N", help_heading = OUTPUT)]
    pub(crate) top: Option<usize>,
    /// Also write a self-contained page with plots of each tensor
    #[arg(long, value_name = "OUT.html", help_heading = OUTPUT)]
    pub(crate) html: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) force: ForceArgs,
}

#[derive(Debug, ClapArgs)]
#[command(after_long_help = "\
Examples:
  onnx-cast bench                                            the most common pairs
  onnx-cast bench --pairs all --threads 2                    every pair, which takes minutes
  onnx-cast bench --pairs float:float8e4m3fn,float16:int4 --elements 16384
  onnx-cast bench --op quantize                              x / scale: by tensor, by row, in blocks of 32
  onnx-cast bench --pairs float:int8/row,int4/32:float16     one row each, with scales
  onnx-cast bench --isa portable --json
  onnx-cast bench --isa                                      the instruction sets to choose from

GB/s are bytes read and written per second, by one thread unless --threads is given; ratio is to memcpy of as many
bytes by as many threads. Scales are floats, and their bytes count.")]
pub(crate) struct BenchArgs {
    /// The operation: cast (default), quantize (QuantizeLinear) or dequantize (DequantizeLinear)
    #[arg(long, value_name = "OP", value_enum, hide_possible_values = true, help_heading = WHAT)]
    pub(crate) op: Option<Op>,
    /// What has a scale in pairs that do not name it: tensor, row (of a matrix), or a block of a row, as 32; by default
    /// these three
    #[arg(long, value_name = "G,..", value_delimiter = ',', help_heading = WHAT)]
    pub(crate) granularity: Vec<Granularity>,
    /// The pairs, as FROM:TO, or all; with scales as float:int8/row (quantize) or int4/32:float16 (dequantize)
    #[arg(long, value_name = "A:B,..|all", help_heading = WHAT)]
    pub(crate) pairs: Option<Pairs>,
    /// Elements of each tensor (default: 16777216); takes four times their bytes of memory
    #[arg(long, value_name = "N", value_parser = positive, help_heading = WHAT)]
    pub(crate) elements: Option<usize>,
    /// The instruction set; without a name, or with `list`, print those of this machine
    #[arg(long, value_name = "NAME", num_args = 0..=1, default_missing_value = LIST, help_heading = HOW)]
    pub(crate) isa: Option<String>,
}

/// Opset and attributes of Cast. What the opset's version does not have is an error.
#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct Attributes {
    /// The opset, which selects the operator's version; by default the newest
    #[arg(long, value_name = "N", help_heading = HOW)]
    pub(crate) opset: Option<i64>,
    /// Whether overflow in float8 gives the largest value (default: true; Cast-19 on)
    #[arg(long, value_name = "true|false", action = clap::ArgAction::Set, hide_possible_values = true, help_heading = HOW)]
    pub(crate) saturate: Option<bool>,
    /// The same as --saturate false
    #[arg(long, conflicts_with = "saturate", help_heading = HOW)]
    pub(crate) no_saturate: bool,
    /// The rounding of float8e8m0 (default: up; Cast-24 on)
    #[arg(long, value_name = "up|down|nearest", value_parser = RoundModeParser, hide_possible_values = true)]
    #[arg(help_heading = HOW)]
    pub(crate) round_mode: Option<RoundMode>,
}

impl Attributes {
    pub(crate) fn options(&self) -> CastOptions {
        let options = CastOptions::new().opset(self.opset.unwrap_or(NEWEST_OPSET)).round_mode(self.round_mode);
        options.saturate(self.saturate())
    }

    /// What is said of overflow in float8.
    pub(crate) fn saturate(&self) -> Option<bool> {
        if self.no_saturate { Some(false) } else { self.saturate }
    }
}

#[cfg(test)]
mod tests {
    use super::{Args, help, page};
    use clap::{Arg, Command, CommandFactory};
    use std::fmt::Write;

    /// The options of every command, one a line. A test of the Python package compares its functions with this list.
    #[test]
    fn the_list_of_options_is_up_to_date() {
        let mut all = Args::command();
        all.build();
        let mut list = String::new();
        let name = |arg: &Arg| match (arg.get_long(), arg.get_value_names()) {
            (Some(long), _) => format!("--{long}"),
            (None, Some([name, ..])) => name.to_string(),
            (None, _) => arg.get_id().to_string(),
        };
        for command in all.get_subcommands().filter(|command| command.get_name() != "help") {
            let of_command = |command: &Command| command.get_arguments().map(name).collect::<Vec<_>>();
            for arg in of_command(command).iter().filter(|arg| !["--help", "--version"].contains(&arg.as_str())) {
                writeln!(list, "{} {arg}", command.get_name()).expect("a String takes everything");
            }
        }
        compare("tests/data/options.txt", &list);
    }

    /// Fails where a file of this crate is not what is wanted, or writes it where that is asked for.
    fn compare(path: &str, want: &str) {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
        if std::env::var_os("UPDATE_OPTIONS").is_some() {
            std::fs::write(&path, want).expect("the file is written");
        }
        let known = std::fs::read_to_string(&path).unwrap_or_default().replace("\r\n", "\n");
        assert!(
            known == want,
            "{}: not up to date: UPDATE_OPTIONS=1 cargo test -p onnx-cast-cli --lib",
            path.display()
        );
    }

    #[test]
    fn the_page_of_the_command_is_up_to_date() {
        let mut all = Args::command();
        all.build();
        compare("../../docs/command.md", &page::of_commands(&all));
    }

    /// The examples of the help name commands and options that exist.
    #[test]
    fn the_examples_of_the_help_are_parsed() {
        let mut count = 0;
        for command in Args::command().get_subcommands() {
            for line in help::examples(command).0.lines() {
                // Behind several spaces stands what the example shows.
                let line = line.split("   ").next().unwrap_or_default();
                for part in line.split(" | ").filter(|part| part.starts_with("onnx-cast ")) {
                    let words = part.split(" > ").next().unwrap_or_default().split_whitespace();
                    let words = words.map(|word| word.trim_matches('\''));
                    if let Err(error) = Args::command().try_get_matches_from(words) {
                        panic!("{part}: {error}");
                    }
                    count += 1;
                }
            }
        }
        assert!(count > 50, "{count} examples");
    }
}
