//! The page of the manual that the help makes: docs/command.md.

use super::help::examples;
use clap::{Arg, Command};
use std::fmt::Write;

/// What the page says of itself.
const MADE: &str = "<!-- Made from the help: UPDATE_OPTIONS=1 cargo test -p onnx-cast-cli --lib -->";

/// What every command takes besides.
const COMMON: [&str; 7] = ["help", "version", "threads", "json", "quiet", "verbose", "color"];

/// The commands, in the order of the help.
fn commands(all: &Command) -> impl Iterator<Item = &Command> {
    all.get_subcommands().filter(|command| command.get_name() != "help")
}

/// An argument as it is typed: `--to <TYPE>`, `-q, --quiet`, `<FILE>...`.
fn typed(arg: &Arg) -> String {
    let values = arg.get_action().takes_values();
    let values = arg.get_value_names().filter(|_| values).unwrap_or_default();
    let values: String = values.iter().map(|value| format!(" <{value}>")).collect();
    match (arg.get_short(), arg.get_long()) {
        (Some(short), Some(long)) => format!("-{short}, --{long}{values}"),
        (None, Some(long)) => format!("--{long}{values}"),
        _ => values.trim_start().to_owned(),
    }
}

/// A text of the help in a cell of a table.
fn cell(text: impl ToString) -> String {
    let text = text.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
    // What stands between angle brackets would be HTML.
    text.replace('|', "\\|").replace('<', "&lt;").replace('*', "\\*")
}

/// docs/command.md: what each command does, its arguments by name, and examples.
pub(super) fn of_commands(all: &Command) -> String {
    let mut page = format!("# The command\n\n*For users of the command.*\n\n{MADE}\n\n");
    page += "`onnx-cast COMMAND --help` says what each option means, and `onnx-cast man COMMAND` prints that as a page of\n\
             the manual. Exit codes: 0 done; 1 `diff`, `check` or `--fail-on` found something; 2 an error. Every output is\n\
             complete or unchanged ([more](outputs.md#nothing-is-lost)). The tests parse the examples of this page but do\n\
             not run them.\n\n| command | does |\n|---|---|\n";
    for command in commands(all) {
        let name = command.get_name();
        writeln!(page, "| [`{name}`](#{name}) | {} |", cell(command.get_about().unwrap_or_default())).expect("text");
    }
    for command in commands(all) {
        writeln!(page, "\n## {}\n\n{}.\n", command.get_name(), command.get_about().unwrap_or_default()).expect("text");
        let usage = command.clone().render_usage().to_string();
        let usage = usage.trim_start_matches("Usage:").lines().map(str::trim).collect::<Vec<_>>().join("\n");
        writeln!(page, "```text\n{usage}\n```").expect("text");
        let own = command.get_arguments().filter(|arg| !COMMON.contains(&arg.get_id().as_str()));
        let options: Vec<String> =
            own.filter(|arg| arg.get_long().is_some()).map(|arg| format!("`{}`", typed(arg))).collect();
        if !options.is_empty() {
            writeln!(page, "\n{}", wrapped(&options.join(", "))).expect("text");
        }
        let (examples, notes) = examples(command);
        if !notes.is_empty() {
            writeln!(page, "\n```text\n{notes}\n```").expect("text");
        }
        if !examples.is_empty() {
            writeln!(page, "\n```text\n{examples}```").expect("text");
        }
    }
    page
}

/// A text in lines of 118 columns.
fn wrapped(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split(", ") {
        let last = lines.last_mut().expect("a line");
        if last.is_empty() {
            *last += word;
        } else if last.len() + word.len() < 116 {
            write!(last, ", {word}").expect("text");
        } else {
            last.push(',');
            lines.push(word.to_owned());
        }
    }
    lines.join("\n")
}
