//! The README and the page of types say what the command does and what the library's table of types holds.

use crate::common::{command, done, run, tensors, types};
use onnx_cast::{DataType, Operator};
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn readme() -> String {
    std::fs::read_to_string(root().join("README.md")).expect("the README")
}

/// The first command, but for the folder that it writes to.
#[test]
fn the_first_command_works() {
    let readme = readme();
    let line = readme.lines().find_map(|line| line.strip_prefix("cargo run --release -p onnx-cast-cli -- "));
    let folder = tempfile::tempdir().expect("a folder");
    let words = line.expect("a command").split(' ').map(|word| match word.strip_prefix("/tmp/") {
        Some(name) => folder.path().join(name).into_os_string(),
        None => word.into(),
    });
    let output = command(words).current_dir(root()).output().expect("the command runs");
    done(&output);
    let bytes = std::fs::read(folder.path().join("weights.bf16.safetensors")).expect("the output");
    let types = types(&tensors(bytes));
    let count = |wanted| types.iter().filter(|(_, data_type)| *data_type == wanted).count();
    assert_eq!((count(DataType::BFloat16), count(DataType::Int64), types.len()), (6, 1, 7));
}

/// The commands of the table of jobs are commands, with options that they have.
#[test]
fn the_jobs_are_commands() {
    let readme = readme();
    let commands: Vec<&str> = readme.lines().filter_map(|line| line.split("| `onnx-cast ").nth(1)).collect();
    assert!(commands.len() >= 10, "{commands:?}");
    for line in commands {
        let line = line.split('`').next().expect("the end of a command");
        done(&run(&format!("{line} --help")));
    }
}

#[test]
fn the_types_are_the_table() {
    let page = std::fs::read_to_string(root().join("docs/types.md")).expect("the page of types");
    let rows: Vec<&str> = page.lines().skip_while(|line| !line.starts_with("| type |")).skip(2).collect();
    let number = |number: Option<i64>| number.map_or("-".to_owned(), |number| number.to_string());
    for (&data_type, row) in DataType::ALL.iter().zip(&rows) {
        let bits = number(data_type.bits().map(|bits| bits as i64));
        let mut want = format!("| {data_type} | {} | {bits} |", data_type.onnx());
        for operator in Operator::CASTS {
            want += &format!(" {} |", number(operator.since(data_type)));
        }
        assert!(row.starts_with(&want), "{row}\n{want}");
    }
    assert!(!rows[DataType::ALL.len()].starts_with('|'), "{}", rows[DataType::ALL.len()]);
}

/// Whatever follows a command that the pages show with its output is what the command prints.
#[test]
fn the_explanations_are_what_is_printed() {
    let page = std::fs::read_to_string(root().join("docs/explain.md")).expect("the page of explain");
    let commands: Vec<&str> = page
        .split("```sh\n")
        .skip(1)
        .filter(|block| block.split("```").nth(1).is_some_and(|between| between == "\n\n"))
        .filter_map(|block| block.lines().next()?.strip_prefix("onnx-cast "))
        .collect();
    assert_eq!(commands.len(), 3, "{commands:?}");
    for line in commands {
        let printed = done(&run(line));
        assert!(page.contains(&format!("onnx-cast {line}\n```\n\n```text\n{printed}```\n")), "{line}\n{printed}");
    }
}
