//! The pages of the manual that the help makes: docs/command.md and docs/options.md.

use super::help::examples;
use clap::{Arg, Command};
use std::collections::BTreeMap;
use std::fmt::Write;

/// What both pages say of themselves.
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

fn meaning(arg: &Arg) -> String {
    let help = arg.get_long_help().or(arg.get_help()).unwrap_or_default().to_string();
    // The first paragraph has no full stop, as the short help.
    cell(help.replacen("\n\n", ". ", 1))
}

/// docs/command.md: what each command does, its arguments by name, and examples.
pub(super) fn of_commands(all: &Command) -> String {
    let mut page = format!("# The command\n\n*For users of the command.*\n\n{MADE}\n\n");
    page += "`onnx-cast COMMAND --help` prints the same in a terminal, and `onnx-cast man COMMAND` a page of the manual.\n\
             [options.md](options.md) says what each option means. Exit codes: 0 done; 1 `diff` found a difference, or\n\
             `--fail-on` a loss; 2 an error. Every output is complete or unchanged ([more](outputs.md#nothing-is-lost)). The\n\
             tests parse the examples of this page but do not run them.\n\n| command | does |\n|---|---|\n";
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

/// docs/options.md: what each option means, and which commands take it.
pub(super) fn of_options(all: &Command) -> String {
    let mut page =
        format!("# Options of the command\n\n*For users of the command, to look up an option.*\n\n{MADE}\n\n");
    page += "What the options and arguments of [the commands](command.md) mean. Types are named as in\n\
             [types.md](types.md), with the aliases that `onnx-cast types` lists.\n";
    // By the heading, by the option, by its meaning: the commands.
    let mut found: BTreeMap<(usize, String), BTreeMap<String, Vec<&str>>> = BTreeMap::new();
    let headings = [super::INPUT, super::WHAT, super::HOW, super::OUTPUT];
    for command in commands(all) {
        for arg in command.get_arguments().filter(|arg| !["help", "version"].contains(&arg.get_id().as_str())) {
            let heading = arg.get_help_heading().and_then(|name| headings.iter().position(|it| *it == name));
            let key = (heading.unwrap_or(0), typed(arg));
            found.entry(key).or_default().entry(meaning(arg)).or_default().push(command.get_name());
        }
    }
    let all_commands = commands(all).count();
    for (number, heading) in headings.iter().enumerate() {
        writeln!(page, "\n## {heading}\n\n| argument | of | means |\n|---|---|---|").expect("text");
        for ((_, name), meanings) in found.iter().filter(|((of, _), _)| *of == number) {
            for (meaning, of) in meanings {
                let of = if of.len() == all_commands { "all".to_owned() } else { of.join(", ") };
                writeln!(page, "| `{}` | {of} | {meaning} |", name.replace('|', "\\|")).expect("text");
            }
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
