//! The arguments, and the help that teaches them.

use clap::builder::{PossibleValue, TypedValueParser};
use clap::{Args as ClapArgs, Parser, Subcommand};
use onnx_cast::{CastOptions, DataType, NEWEST_OPSET, RoundMode};
use std::ffi::OsStr;

/// ONNX's Cast, CastLike and BitCast on tensor files and models, every bit right.
#[derive(Debug, Parser)]
#[command(
    name = "onnx-cast",
    version,
    arg_required_else_help = true,
    max_term_width = 100,
    after_help = "\
Examples:
  onnx-cast explain 0.3 --to float8e4m3fn --from float    one value, bit by bit
  onnx-cast types                                         the 28 element types

`onnx-cast help COMMAND` has more examples for each command.
Exit codes: 0 done, 1 a comparison found a difference, 2 an error (nothing is written then)."
)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List the element types: codes, widths, ranges, special values, operator versions
    Types(TypesArgs),
    /// Show what a cast makes of one value: bits, rule, neighbours, error
    Explain(ExplainArgs),
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

Without --from, VALUE is cast as a string is: rounded once from the decimal text (Cast-9 and newer; before, as a
double). With --from, a decimal VALUE is first read as that type, which a note says where it changes the value.")]
pub(crate) struct ExplainArgs {
    /// A decimal number, inf or nan; with --from also its bits, as 0x3f80 or 0b101
    #[arg(allow_hyphen_values = true)]
    pub(crate) value: String,
    /// The source type
    #[arg(long, value_name = "TYPE", value_parser = TypeParser, hide_possible_values = true)]
    pub(crate) from: Option<DataType>,
    /// The target type
    #[arg(long, value_name = "TYPE", value_parser = TypeParser, hide_possible_values = true)]
    pub(crate) to: DataType,
    #[command(flatten)]
    pub(crate) attributes: Attributes,
    /// Print JSON, with every digit
    #[arg(long)]
    pub(crate) json: bool,
}

/// Opset and attributes of Cast. What the opset's version does not have is an error.
#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct Attributes {
    /// The opset, whose version of the operator decides
    #[arg(long, value_name = "N", default_value_t = i64::from(NEWEST_OPSET))]
    pub(crate) opset: i64,
    /// Whether a float8 target takes its largest value in place of overflow; true unless said otherwise (Cast-19 on)
    #[arg(long, value_name = "true|false", action = clap::ArgAction::Set, hide_possible_values = true)]
    pub(crate) saturate: Option<bool>,
    /// How float8e8m0 rounds; up unless said otherwise (Cast-24 on)
    #[arg(long, value_name = "up|down|nearest", value_parser = RoundModeParser, hide_possible_values = true)]
    pub(crate) round_mode: Option<RoundMode>,
}

impl Attributes {
    pub(crate) fn options(&self) -> CastOptions {
        CastOptions {
            opset: self.opset,
            saturate: self.saturate,
            round_mode: self.round_mode,
            ..CastOptions::default()
        }
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
