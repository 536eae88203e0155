//! One table of bad requests (`crates/testkit/data/refused.json`), which Python and JavaScript refuse too, and of options
//! that have no effect, in the same words where an option has no name in them.

use crate::common::{command, refused, stderr, stdout};
use crate::files::Folder;
use crate::words::as_json;
use onnx_cast::{DataType, Tensor};
use onnx_cast_file::safetensors;
use serde_json::Value;
use std::path::Path;

/// The arguments of a row; none where the command has no such request.
fn arguments(row: &Value) -> Option<Vec<String>> {
    let is_ours = |list: &Value| list.as_array().is_some_and(|list| list.contains(&"command".into()));
    if !row.get("in").is_none_or(is_ours) {
        return None;
    }
    let text = |name: &str, default: &str| row[name].as_str().unwrap_or(default).to_owned();
    let (job, input) = (text("job", ""), text("input", "w.safetensors"));
    let mut line = match &*job {
        "cast" | "quantize" => vec![job, input, text("output", "out.safetensors")],
        "info" | "report" => vec![job, input],
        "diff" => vec![job, input, "w.safetensors".to_owned()],
        "value" => vec!["explain".to_owned(), "0.3".to_owned(), "--from=float".to_owned()],
        job => panic!("unknown job {job}"),
    };
    line.extend(row["to"].as_str().map(|to| format!("--to={to}")));
    for (name, value) in row["options"].as_object().into_iter().flatten() {
        let option = format!("--{}", name.replace('_', "-"));
        match value {
            // `--saturate` takes a value.
            Value::Bool(true) if name != "saturate" => line.push(option),
            Value::Array(list) => {
                line.extend(list.iter().map(|item| format!("{option}={}", item.as_str().expect("a pattern"))));
            }
            Value::String(text) => line.push(format!("{option}={text}")),
            value => line.push(format!("{option}={value}")),
        }
    }
    Some(line)
}

#[test]
fn bad_requests_are_refused() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testkit/data/refused.json");
    let table = std::fs::read_to_string(path).expect("the table");
    let table: Vec<Value> = serde_json::from_str(&table).expect("a table");
    let mut asked = 0;
    for row in &table {
        let Some(line) = arguments(row) else { continue };
        let folder = Folder::new();
        folder.write("w.safetensors", weights());
        folder.write("empty.safetensors", "");
        folder.write("w.txt", "");
        let before = folder.names();
        if row.get("ignored").is_some() {
            let json = line.iter().map(String::as_str).chain(["--json"]);
            let output = command(json).current_dir(folder.0.path()).output().expect("the command runs");
            assert_eq!(output.status.code(), Some(0), "{line:?}: {}", stderr(&output));
            let ignored = as_json(&output)["ignored"].as_array().cloned().unwrap_or_default();
            let options: Vec<Value> = ignored.iter().map(|one| one["option"].clone()).collect();
            assert_eq!(Value::from(options), row["ignored"], "{line:?}");
            asked += 1;
            continue;
        }
        let output = command(&line).current_dir(folder.0.path()).output().expect("the command runs");
        // An option is a field of the request.
        let said =
            stderr(&output).replace("--include", "`include`").replace("--exclude", "`exclude`").replace("--", "");
        assert_eq!((output.status.code(), stdout(&output)), (Some(2), String::new()), "{line:?}: {said}");
        let says = row["says"].as_str().or(row["says"]["command"].as_str()).expect("what is said");
        assert!(said.contains(says), "{line:?}: {said}");
        assert_eq!(folder.names(), before, "{line:?}");
        asked += 1;
    }
    assert!(asked > 50, "{asked} requests");
}

/// Fields of requests become options; the name of a tensor stays as it is, whatever it says.
#[test]
fn names_that_say_what_errors_say() {
    let name = "(`exclude` keeps `force`; `keep` `low` `--from gives.weight";
    let folder = Folder::new();
    let weight = zeros(&[4, 30]);
    folder.write("w.safetensors", safetensors::write(None, &[(name, weight.view())]).expect("bytes"));
    let error = refused(&folder.run("quantize w.safetensors out.safetensors --to mxfp4 --rule *keeps*=mxfp4"));
    let said = "shape 4x30 (want columns in blocks of 32 for mxfp4; --exclude keeps the tensor)";
    assert_eq!(error, format!("w.safetensors: tensor `{name}`: float of {said}"));
}

fn weights() -> Vec<u8> {
    let (weight, norm) = (zeros(&[4, 64]), zeros(&[4]));
    safetensors::write(None, &[("layer.0.weight", weight.view()), ("layer.0.norm", norm.view())]).expect("bytes")
}

fn zeros(shape: &[usize]) -> Tensor {
    Tensor::new(DataType::Float, shape.to_vec(), vec![0; 4 * shape.iter().product::<usize>()]).expect("zeros")
}
