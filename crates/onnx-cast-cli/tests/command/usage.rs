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

/// The commands of the overview, which has them in groups.
fn commands_of(overview: &str) -> Vec<&str> {
    let groups = overview.lines().skip_while(|line| !line.starts_with("Usage:")).skip(1);
    let groups = groups.take_while(|line| *line != "Options:");
    let lines = groups.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    lines.filter_map(|line| line.split_whitespace().next()).collect()
}

/// Every command is in the overview, its help has an example of it, and nothing is wider than a terminal.
#[test]
fn help_teaches_by_example() {
    let overview = done(&run("--help"));
    let commands = commands_of(&overview);
    let mut known: Vec<&str> =
        include_str!("../data/options.txt").lines().filter_map(|line| line.split(' ').next()).collect();
    known.push("help");
    known.dedup();
    let sorted = |mut names: Vec<_>| {
        names.sort_unstable();
        names
    };
    assert_eq!(sorted(commands.clone()), sorted(known));
    let is_narrow = |text: &str| text.lines().all(|line| line.chars().count() <= 80);
    for line in ["--help", "-h"] {
        let text = done(&run(line));
        assert!(is_narrow(&text), "{text}");
    }
    for name in commands.into_iter().filter(|name| *name != "help") {
        let help = done(&run(&format!("{name} --help")));
        assert!(help.contains("Examples:\n") && help.contains(&format!("  onnx-cast {name}")), "{name}: {help}");
        let short = done(&run(&format!("{name} -h")));
        assert!(is_narrow(&help) && is_narrow(&short), "{name}: {help}");
    }
}

/// Examples that are longer than a line go on in the next one as a shell reads it.
#[test]
fn examples_can_be_pasted() {
    let help = done(&run("cast --help"));
    let example =
        "  onnx-cast cast in.safetensors out.safetensors --to bf16 --exclude '*norm*' \\\n    --min-elements 4096\n";
    assert!(help.contains(example), "{help}");
    assert!(help.contains("  # from one format to another\n  onnx-cast cast x.npy x.pb --to float16\n"), "{help}");
}

#[test]
fn nothing_asked_prints_help_and_is_an_error() {
    let output = command([""; 0]).output().expect("the command runs");
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(stdout(&output), "");
    assert!(stderr(&output).contains("Tensors and checkpoints:"));
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

/// Options with the names that other tools give them suggest the right ones, and the help does not list them.
#[test]
fn other_names_of_options() {
    for (line, other, right) in [
        ("quantize in out --to int4 --group-size 128", "group-size", "--to int4/128"),
        ("cast in out --dtype float16", "dtype", "--to TYPE"),
        ("convert in.onnx out.onnx --precision float16", "precision", "--to TYPE"),
        ("quantize in out --to int4 --ignore lm_head", "ignore", "--exclude PATTERN"),
        ("convert in.onnx out.onnx --to float16 --keep-io-types", "keep-io-types", "--io keep"),
        ("convert in.onnx out.onnx --to float16 --op-block-list Exp", "op-block-list", "--keep OPTYPE"),
        ("convert in.onnx out.onnx --to float16 --exclude=Exp", "exclude", "--keep GLOB"),
        ("upgrade in.onnx out.onnx --target-opset 21", "target-opset", "--opset"),
    ] {
        let said = stderr(&run(line));
        assert!(said.contains(&format!("unexpected argument '--{other} [<NAME>]' found")), "{line}: {said}");
        assert!(said.contains(&format!("a similar argument exists: '{right}'")), "{line}: {said}");
    }
    for (line, present) in [
        ("dequantize x.safetensors y.safetensors --to float --scheme mlx", "--layout"),
        ("transcode x.safetensors y.safetensors --layout plain --scheme=mlx", "--from-layout"),
    ] {
        let said = stderr(&run(line));
        assert!(said.contains("unexpected argument '--scheme [<NAME>]' found"), "{line}: {said}");
        assert!(said.contains(&format!("a similar argument exists: '{present}'")), "{line}: {said}");
    }
    for line in ["dequantize --help", "transcode --help", "completions bash"] {
        assert!(!done(&run(line)).contains("scheme"), "{line}");
    }
}

#[test]
fn aliases_name_types() {
    for name in ["float8e4m3fn", "FLOAT8E4M3FN", "f8_e4m3fn", "E4M3FN"] {
        let text = done(&run(&format!("explain 1 --to {name}")));
        assert!(text.contains("result   float8e4m3fn 1  0x38"), "{name}: {text}");
    }
    for option in ["--to i4", "--rule w=i4"] {
        let said = refused(&run(&format!("cast x.npy y.npy {option}")));
        assert!(said.contains("`i4` may mean int4, and to numpy means int32 (want one of these)"), "{said}");
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

/// Bash sources the script and asks it what fits a line, as it does when the user presses the tab key.
#[cfg(unix)]
#[test]
fn bash_completes_commands_options_and_values() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("script"), done(&run("completions bash"))).expect("written");
    let ask = r#"
        source ./script
        set -- onnx-cast "$@"
        COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
        function=$(complete -p onnx-cast | sed 's/.*-F \([^ ]*\).*/\1/')
        "$function" onnx-cast "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
        printf '%s\n' "${COMPREPLY[@]}"
    "#;
    let complete = |line: &str| {
        let mut bash = Command::new("bash");
        bash.args(["--norc", "-c", ask, "bash"]).args(line.split(' ')).current_dir(folder.path());
        let output = bash.output().expect("bash runs");
        assert!(output.status.success() && output.stderr.is_empty(), "{line}: {}", stderr(&output));
        stdout(&output).split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    for (line, want) in [
        ("qu", &["quantize"][..]),
        ("cast --ro", &["--round-mode"]),
        ("cast --round-mode ne", &["nearest"]),
        ("cast --to float8e4", &["float8e4m3fn", "float8e4m3fnuz"]),
        ("cast x.npy y.npy --from uint1", &["uint16"]),
        ("info --st", &["--stats"]),
        ("completions fi", &["fish"]),
    ] {
        assert_eq!(complete(line), want, "{line}");
    }
    // Every command offers its options.
    let listed: std::collections::BTreeMap<&str, Vec<&str>> = include_str!("../data/options.txt")
        .lines()
        .filter_map(|line| line.split_once(" "))
        .filter(|(_, option)| option.starts_with("--"))
        .fold(std::collections::BTreeMap::new(), |mut all, (command, option)| {
            all.entry(command).or_insert_with(Vec::new).push(option);
            all
        });
    for (command, options) in listed {
        let offered = complete(&format!("{command} --"));
        let missing: Vec<_> = options.iter().filter(|option| !offered.iter().any(|one| one == *option)).collect();
        assert!(missing.is_empty(), "{command} lacks {missing:?}");
    }
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
