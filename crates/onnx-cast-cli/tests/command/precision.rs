//! `convert`: what stays float, and names that are not in the model. scripts/checks/precision.py has onnxruntime run
//! what is written.

use crate::common::done;
use crate::files::Folder;
use crate::ranges::weight;
use serde_json::Value;
use testkit::proto::{model, node};

const FLOAT: i64 = 1;

/// The logarithm of a spectrum: two products with constants, one of them negated, squared and added.
fn folder() -> Folder {
    let folder = Folder::new();
    let nodes = vec![
        weight(),
        node("MatMul", &["x", "w"], "r", vec![]).bytes(3, "real"),
        node("MatMul", &["x", "w"], "i", vec![]).bytes(3, "imaginary"),
        node("Neg", &["i"], "n", vec![]).bytes(3, "conjugate"),
        node("Mul", &["r", "r"], "rr", vec![]).bytes(3, "square"),
        node("Mul", &["n", "n"], "nn", vec![]).bytes(3, "other_square"),
        node("Add", &["rr", "nn"], "p", vec![]).bytes(3, "power"),
        node("Log", &["p"], "l", vec![]).bytes(3, "log"),
        node("MatMul", &["l", "w"], "m", vec![]).bytes(3, "mel"),
        node("Relu", &["m"], "y", vec![]).bytes(3, "relu"),
    ];
    folder.write("m.onnx", model(17, nodes, &[("x", FLOAT)], &[("y", FLOAT)]));
    folder
}

/// The nodes that become narrow.
fn low(folder: &Folder, options: &str) -> Vec<String> {
    let line = format!("convert m.onnx h.onnx --to float16 {options} --dry-run --json").replace("  ", " ");
    let told: Value = serde_json::from_str(&done(&folder.run(&line))).expect("JSON");
    let nodes = told["nodes"].as_array().expect("nodes").iter().filter(|node| node["type"] == "float16");
    nodes.map(|node| node["node"].as_str().expect("a name").to_owned()).collect()
}

/// Where one part of a spectrum were narrow, its logarithm would be as wrong as if both were.
#[test]
fn all_that_a_logarithm_reads_stays_float() {
    let folder = folder();
    assert_eq!(low(&folder, ""), ["mel", "relu"]);
    let plan = done(&folder.run("convert m.onnx h.onnx --to float16 --dry-run"));
    let row = plan.lines().find(|line| line.starts_with("conjugate ")).expect("the node");
    assert!(row.ends_with("sensitive: a logarithm"), "{row}");
}

#[test]
fn names_that_match_nothing_are_refused() {
    let folder = folder();
    let line = "convert m.onnx h.onnx --to float16";
    for (options, message) in [
        ("--keep Matmul", "m.onnx: --keep `Matmul` matches no node (did you mean `MatMul`?)"),
        ("--keep mel --keep conj?gat", "m.onnx: --keep `conj?gat` matches no node (did you mean `conjugate`?)"),
        ("--low sqare", "m.onnx: --low `sqare` matches no node (did you mean `square`?)"),
        ("--keep re:^decoder", "m.onnx: --keep `re:^decoder` matches no node"),
        ("--keep decoder/*", "m.onnx: --keep `decoder/*` matches no node"),
        ("--low Sofmax --emulate", "m.onnx: --low `Sofmax` matches no node"),
        ("--low conjugat --raise-opset", "m.onnx: --low `conjugat` matches no node (did you mean `conjugate`?)"),
        ("--io z=float16", "m.onnx: `z` is not a floating-point input or output of the model (did you mean `x`?)"),
        ("--io logits=float", "m.onnx: `logits` is not a floating-point input or output of the model"),
        ("--io x=bfloat16", "m.onnx: `x` is a floating-point input or output, which cannot be bfloat16 here"),
        (
            "--explain powr",
            "m.onnx: no floating-point value and no node that computes with floats is named `powr` (did you mean \
             `power`?)",
        ),
    ] {
        folder.refuses(&format!("{line} {options}"), message);
    }
    // Operators that do not compute with floats are there, too, and so are those of a part of the pattern.
    assert_eq!(low(&folder, "--keep Constant"), ["mel", "relu"]);
    assert_eq!(low(&folder, "--keep {Relu,Sofmax}"), ["mel"]);
    assert_eq!(low(&folder, "--low re:^conj --io y=float16"), ["conjugate", "mel", "relu"]);
}
