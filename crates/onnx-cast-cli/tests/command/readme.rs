//! The README and the page of types say what the command does and what the library's table of types holds.

use crate::common::{command, done, run, tensors, types};
use onnx_cast::DataType;
use onnx_cast::ops::Operator;
use onnx_cast::ops::Role;
use onnx_cast::types::{FloatFormat, Kind, Nan};
use serde_json::Value;
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

/// What a type is, in the words of docs/types.md, where its row of the library's table says it.
fn meaning(data_type: DataType, largest: &str) -> Option<String> {
    match data_type.info().kind {
        Kind::Int => Some("two's complement integer".to_owned()),
        Kind::Uint => Some("unsigned integer".to_owned()),
        Kind::Float(format) if format.signed && format.bits <= 8 => {
            let specials = match format.nan {
                Nan::None => "finite only",
                Nan::AllOnes => "no infinity",
                Nan::MinusZero => "no infinity, no -0",
                Nan::AboveInfinity => "with infinities",
                _ => return None,
            };
            let (exponent, significand) = (format.exponent_bits, format.significand_bits);
            Some(format!("{exponent} + {significand}, {specials}, largest {largest}"))
        }
        _ => None,
    }
}

/// The rows of docs/types.md; `UPDATE_TYPES=1` writes those that the library's table says in full.
#[test]
fn the_types_are_the_table() {
    let path = root().join("docs/types.md");
    let page = std::fs::read_to_string(&path).expect("the page of types");
    let begin = page.find("| type |").expect("a table");
    let (before, table) = page.split_at(begin);
    let (table, after) = table.split_at(table.find("\n\n").expect("the end of the table"));
    let mut want: Vec<String> = table.lines().take(2).map(str::to_owned).collect();
    let listed = serde_json::from_str::<Value>(&done(&run("types --json"))).expect("JSON");
    let number = |number: Option<i64>| number.map_or("-".to_owned(), |number| number.to_string());
    for (&data_type, listed) in DataType::ALL.iter().zip(listed["types"].as_array().expect("a list")) {
        let bits = number(data_type.bits().map(|bits| bits as i64));
        let mut row = format!("| {data_type} | {} | {bits} |", data_type.onnx());
        for operator in Operator::CASTS {
            row += &format!(" {} |", number(operator.since(data_type)));
        }
        let by_hand = || {
            let row = table.lines().find(|line| line.starts_with(&format!("| {data_type} |")));
            row.and_then(|row| Some(row.strip_suffix(" |")?.rsplit_once("| ")?.1.to_owned()))
        };
        let meaning = meaning(data_type, listed["float"]["largest"]["value"].as_str().unwrap_or_default());
        let meaning =
            meaning.or_else(by_hand).unwrap_or_else(|| panic!("docs/types.md: a row that says what {row} is"));
        want.push(format!("{row} {meaning} |"));
    }
    if std::env::var_os("UPDATE_TYPES").is_some() {
        std::fs::write(&path, format!("{before}{}{after}", want.join("\n"))).expect("the page is written");
        return;
    }
    for (row, want) in table.lines().zip(&want) {
        assert_eq!(row, want, "docs/types.md: `bash scripts/update.sh` writes it");
    }
    assert_eq!(table.lines().count(), want.len(), "docs/types.md: `bash scripts/update.sh` writes it");
}

/// A page as one line, without the breaks of its lines.
fn words_of(page: &str) -> String {
    let text = std::fs::read_to_string(root().join("docs").join(page)).expect("a page");
    text.lines().collect::<Vec<_>>().join(" ")
}

/// Whether a list of words has one as it is.
fn names(list: &str, data_type: DataType) -> bool {
    list.split([' ', ',', ';', '*', '.']).any(|word| word == data_type.name())
}

/// The row of a table that begins with a version.
fn row_of<'a>(page: &'a str, version: &str) -> &'a str {
    let row = page.lines().find(|line| line.strip_prefix("| ").is_some_and(|line| line.starts_with(version)));
    row.unwrap_or_else(|| panic!("no row of version {version}"))
}

/// The pages of rules name each type that came after version 1, in the row of the version that brought it.
#[test]
fn the_versions_name_their_types() {
    let read = |page: &str| std::fs::read_to_string(root().join("docs").join(page)).expect("a page");
    let (semantics, scaled) = (read("semantics.md"), read("scaled-casts.md"));
    for &data_type in DataType::ALL {
        if let Some(since @ 9..) = Operator::Cast.since(data_type) {
            let row = row_of(&semantics, &format!("Cast-{since}"));
            assert!(names(row, data_type), "docs/semantics.md: {row} does not name {data_type}");
        }
        let has_cast = Operator::Cast.since(data_type).is_some();
        if has_cast != Operator::BitCast.supports(26, data_type) {
            let row = row_of(&semantics, "BitCast-26");
            assert!(names(row, data_type), "docs/semantics.md: {row} does not name {data_type}");
        }
        // Those of version 19 are the float8 of that time.
        if let Some(since @ (..=18 | 20..)) = Operator::QuantizeLinear.since_as(Role::Quantized, data_type) {
            let cell = row_of(&scaled, &format!("{since} |")).split('|').nth(2).expect("a cell");
            assert!(names(cell, data_type), "docs/scaled-casts.md: version {since}:{cell}does not name {data_type}");
        }
    }
}

/// The rules of semantics.md for floats of 8 bits or fewer name each type, and give its largest value.
#[test]
fn the_rules_of_small_floats_name_them() {
    let page = words_of("semantics.md");
    let listed = serde_json::from_str::<Value>(&done(&run("types --json"))).expect("JSON");
    for row in listed["types"].as_array().expect("a list") {
        let data_type: DataType = row["name"].as_str().and_then(|name| name.parse().ok()).expect("a type");
        let Some(FloatFormat { bits: ..=8, signed: true, nan, .. }) = data_type.float_format() else { continue };
        let rule = page.split("**To ").find(|rule| rule.split("**").next().is_some_and(|to| names(to, data_type)));
        let rule = rule.unwrap_or_else(|| panic!("docs/semantics.md: no heading of a rule names {data_type}"));
        let (heading, rest) = rule.split_once("**").expect("a heading");
        assert_eq!(rest.contains("neither infinity nor NaN"), nan == Nan::None, "docs/semantics.md: {data_type}");
        let place = heading.split(", ").position(|name| names(name, data_type)).expect("named");
        let numbers = rest.split_once('(').and_then(|(_, rest)| rest.split_once(')')).expect("the largest").0;
        let largest = numbers.split(", ").nth(place);
        let want = row["float"]["largest"]["value"].as_str();
        assert_eq!(largest, want, "docs/semantics.md: the largest {data_type}, at its place in ({numbers})");
    }
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
