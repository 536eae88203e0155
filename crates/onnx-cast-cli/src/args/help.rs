//! The help as a terminal shows it: commands in groups, and nothing wider than 80 columns.

use super::Args;
use clap::builder::UnknownArgumentValueParser;
use clap::error::{ContextKind, ContextValue};
use clap::{Arg, Command, CommandFactory};
use std::fmt::Write;

/// Columns that a terminal has at least.
pub(super) const COLUMNS: usize = 80;

/// The commands by what they work on, in the order of the help.
const GROUPS: [(&str, &[&str]); 5] = [
    ("Tensors and checkpoints", &["cast", "bitcast", "info", "diff", "report"]),
    ("Quantized weights", &["quantize", "dequantize", "transcode", "check"]),
    ("Models", &["convert", "record", "fold", "upgrade", "run"]),
    ("Types and values", &["types", "explain", "bench"]),
    ("The shell", &["completions", "man", "help"]),
];

/// Options under the names that other tools and earlier versions give them: the commands, the name, and what to use.
const OTHER_NAMES: [(&[&str], &str, &str); 14] = [
    (&["dequantize"], "scheme", "--layout"),
    (&["transcode"], "scheme", "--from-layout"),
    (&["cast", "convert", "dequantize", "quantize"], "dtype", "--to TYPE"),
    (&["cast", "convert", "dequantize", "quantize"], "precision", "--to TYPE"),
    (&["cast", "dequantize", "quantize"], "ignore", "--exclude PATTERN"),
    (&["convert"], "ignore", "--keep GLOB"),
    (&["convert"], "exclude", "--keep GLOB"),
    (&["convert"], "op-block-list", "--keep OPTYPE"),
    (&["convert"], "node-block-list", "--keep GLOB"),
    (&["convert"], "keep-io-types", "--io keep"),
    (&["upgrade"], "target-opset", "--opset"),
    (&["quantize"], "group-size", "--to int4/128"),
    (&["quantize"], "block-size", "--to int4/128"),
    (&["quantize"], "scheme", "--to FORMAT"),
];

/// Commands from IN to OUT, which other tools have as `-o` or `--output`.
const WITH_OUTPUT: [&str; 9] =
    ["cast", "bitcast", "quantize", "dequantize", "transcode", "convert", "record", "fold", "upgrade"];

/// Commands under the names that other tools give them, and what to use.
const OTHER_COMMANDS: [(&str, &str); 2] = [("compare", "diff"), ("inspect", "info")];

/// An error about an unknown command, which suggests the one of another name.
pub(crate) fn with_other_command(mut error: clap::Error) -> clap::Error {
    let given = error.get(ContextKind::InvalidSubcommand).map(ToString::to_string);
    let found = OTHER_COMMANDS.iter().find(|(other, _)| given.as_deref() == Some(*other));
    if let Some((_, command)) = found {
        error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(vec![(*command).to_owned()]));
    }
    error
}

/// The same command, whose errors about options with other names suggest the right ones.
pub(crate) fn with_other_names(all: Command) -> Command {
    // A negative number is a wrong value, not an unknown option.
    let takes_numbers = |arg: Arg| {
        let takes = arg.get_long().is_some() && arg.get_action().takes_values();
        if takes { arg.allow_negative_numbers(true) } else { arg }
    };
    let all = all.mut_args(takes_numbers).mut_subcommands(|command| command.mut_args(takes_numbers));
    let all = WITH_OUTPUT.iter().fold(all, |all, name| {
        let arg = Arg::new("other-output").short('o').long("output").value_name("OUT").hide(true);
        let arg = arg.value_parser(UnknownArgumentValueParser::suggest("OUT follows IN, without an option"));
        all.mut_subcommand(name, |command| command.arg(arg))
    });
    OTHER_NAMES.iter().fold(all, |all, (commands, other, right)| {
        commands.iter().fold(all, |all, name| {
            let arg = Arg::new(*other).long(*other).value_name("NAME").hide(true);
            let arg = arg.num_args(0..=1).default_missing_value("");
            let arg = arg.value_parser(UnknownArgumentValueParser::suggest_arg(*right));
            all.mut_subcommand(name, |command| command.arg(arg))
        })
    })
}

/// The command that parses the arguments and prints the help.
pub(crate) fn command() -> Command {
    let all = Args::command();
    let mut template = "{before-help}{about-with-newline}\n{usage-heading} {usage}\n".to_owned();
    let width = all.get_subcommands().map(|command| command.get_name().len()).max().unwrap_or_default();
    for (heading, names) in GROUPS {
        write!(template, "\n{heading}:\n").expect("a String takes everything");
        for name in names {
            let about = match all.find_subcommand(name).and_then(Command::get_about) {
                Some(about) => about.to_string(),
                None => "Print this message, or the help of a command".to_owned(),
            };
            let text = wrapped(&about, COLUMNS - width - 4).join(&format!("\n{:1$}", "", width + 4));
            writeln!(template, "  {name:width$}  {text}").expect("a String takes everything");
        }
    }
    template += "\nOptions:\n{options}{after-help}";
    let names: Vec<String> = all.get_subcommands().map(|command| command.get_name().to_owned()).collect();
    names.iter().fold(all.help_template(template), |all, name| all.mut_subcommand(name, with_examples))
}

/// The examples of a command's help, and what follows them.
pub(super) fn examples(command: &Command) -> (String, String) {
    let text = command.get_after_long_help().map(ToString::to_string).unwrap_or_default();
    let mut examples = String::new();
    let mut notes = String::new();
    let mut is_example = false;
    for line in text.lines() {
        if line == "Examples:" {
            is_example = true;
        } else if is_example && line.starts_with("  ") {
            examples += line.trim_start();
            examples.push('\n');
        } else {
            is_example = false;
            notes += line;
            notes.push('\n');
        }
    }
    (examples, notes.trim().to_owned())
}

/// A command whose examples fit the columns: what one shows stands above it, and long ones go on in the next line.
fn with_examples(command: Command) -> Command {
    let (lines, notes) = examples(&command);
    let mut text = String::from("Examples:\n");
    for line in lines.lines() {
        let (example, note) = line.split_once("   ").unwrap_or((line, ""));
        if !note.is_empty() {
            writeln!(text, "  # {}", note.trim()).expect("a String takes everything");
        }
        writeln!(text, "  {}", broken(example.trim_end())).expect("a String takes everything");
    }
    if !notes.is_empty() {
        // The lines of the source are longer than a terminal's.
        writeln!(text, "\n{}", notes.replace('\n', " ")).expect("a String takes everything");
    }
    command.after_long_help(text.trim_end().to_owned())
}

/// A line of a shell, broken before options where it is longer than the columns.
fn broken(line: &str) -> String {
    let mut text = String::new();
    let mut length = 2;
    for (index, part) in line.split(" --").enumerate() {
        let part = if index == 0 { part.to_owned() } else { format!("--{part}") };
        // Two columns for what joins this line to the next.
        if length + 1 + part.len() > COLUMNS - 2 {
            text += " \\\n    ";
            length = 4;
        } else if index > 0 {
            text.push(' ');
            length += 1;
        }
        length += part.len();
        text += &part;
    }
    text
}

/// The words of a text in lines of so many columns.
fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let last = lines.last_mut().expect("a line");
        if last.is_empty() {
            *last += word;
        } else if last.len() + 1 + word.len() <= columns {
            write!(last, " {word}").expect("a String takes everything");
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}
