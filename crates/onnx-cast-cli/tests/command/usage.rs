//! Arguments, help, exit codes, completions, pipes.

use crate::common::{command, done, refused, run, stderr, stdout};
use std::io::Read;
use std::process::{Command, Stdio};

#[test]
fn help_and_version_are_no_errors() {
    for line in ["--help", "-h", "help", "--version", "types --help", "explain --help", "help completions"] {
        let text = done(&run(line));
        assert!(!text.is_empty(), "{line}");
    }
    assert_eq!(done(&run("--version")), format!("onnx-cast {}\n", env!("CARGO_PKG_VERSION")));
}

/// Every command's help has an example of the command itself.
#[test]
fn help_teaches_by_example() {
    let overview = done(&run("--help"));
    let commands: Vec<&str> = overview
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .collect();
    assert!(commands.contains(&"explain"), "{commands:?}");
    for name in commands {
        let help = done(&run(&format!("{name} --help")));
        assert!(help.contains("Examples:\n") && help.contains(&format!("  onnx-cast {name}")), "{name}: {help}");
        assert!(help.lines().all(|line| line.chars().count() <= 120), "{name}: {help}");
    }
}

#[test]
fn nothing_asked_prints_help_and_is_an_error() {
    let output = command([""; 0]).output().expect("the command runs");
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(stdout(&output), "");
    assert!(stderr(&output).contains("Commands:"));
}

#[test]
fn mistakes_in_the_arguments() {
    for (line, message) in [
        ("frobnicate", "unrecognized subcommand 'frobnicate'"),
        ("types --bogus", "unexpected argument '--bogus' found"),
        ("explain 1", "the following required arguments were not provided:"),
        (
            "explain 1 --to float --round-mode sideways",
            "invalid value 'sideways' for '--round-mode <up|down|nearest>': round_mode `sideways` is not known (want up, \
             down or nearest)",
        ),
        ("explain 1 --to float --saturate maybe", "invalid value 'maybe' for '--saturate <true|false>'"),
        ("explain 1 --to float --opset new", "invalid value 'new' for '--opset <N>': invalid digit found in string"),
    ] {
        assert_eq!(refused(&run(line)), message, "{line}");
    }
    let unknown = refused(&run("explain 1 --to something"));
    let start =
        "invalid value 'something' for '--to <TYPE>': `something` is not an element type (want one of float, uint8";
    assert!(unknown.starts_with(start), "{unknown}");
}

#[test]
fn aliases_name_types() {
    for name in ["float8e4m3fn", "FLOAT8E4M3FN", "f8_e4m3fn", "E4M3FN"] {
        let text = done(&run(&format!("explain 1 --to {name}")));
        assert!(text.contains("result   float8e4m3fn 1  0x38"), "{name}: {text}");
    }
    for option in ["--to i4", "--rule w=i4"] {
        let said = refused(&run(&format!("cast x.npy y.npy {option}")));
        assert!(said.ends_with("`i4` may mean int4, and to numpy means int32 (want one of these)"), "{said}");
    }
}

#[test]
fn completions_name_the_commands_and_types() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = done(&run(&format!("completions {shell}")));
        assert!(script.contains("explain"), "{shell}");
    }
    assert!(done(&run("completions bash")).contains("float8e4m3fnuz"));
}

/// A reader that has seen enough is not an error, and nothing is said about it.
#[test]
fn a_closed_pipe_is_quiet() {
    let mut child = Command::new(assert_cmd::cargo::cargo_bin!("onnx-cast"))
        .args(["completions", "zsh"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command runs");
    drop(child.stdout.take());
    let status = child.wait().expect("it ends");
    let mut said = String::new();
    child.stderr.take().expect("a pipe").read_to_string(&mut said).expect("UTF-8");
    assert_eq!((status.code(), said.as_str()), (Some(0), ""));
}
