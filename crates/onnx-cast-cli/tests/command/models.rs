//! `cast` and `fold` of models: what onnxruntime cannot be asked, since it takes no such model.

use crate::common::{done, stderr};
use crate::files::Folder;
use crate::proto::{Message, int_attribute, model, node, tensor};
use onnx_cast_file::Model;

/// Folds a model; what the command says of it, without the time.
#[track_caller]
fn fold(bytes: &[u8]) -> (Vec<u8>, String) {
    let folder = Folder::new();
    folder.write("in.onnx", bytes);
    let output = folder.run("fold in.onnx out.onnx");
    assert_eq!(done(&output), "");
    let said = stderr(&output);
    let (said, _) = said.trim_end().rsplit_once(", ").expect("a time");
    let said = said.strip_prefix("in.onnx -> out.onnx: ").expect("the files").to_owned();
    (folder.read("out.onnx"), said)
}

const FLOAT: i64 = 1;
const FLOAT16: i64 = 10;
const DOUBLE: i64 = 11;

fn cast(input: &str, output: &str, to: i64) -> Message {
    node("Cast", &[input], output, vec![int_attribute("to", to)])
}

#[test]
fn what_is_folded_is_told() {
    let one = Message::new().bytes(1, "value").message(5, tensor(&[], FLOAT, &1.5f32.to_le_bytes())).int(20, 4);
    let nodes = vec![
        node("Constant", &[], "one", vec![one]),
        cast("one", "c", DOUBLE),
        cast("x", "wide", FLOAT),
        cast("wide", "y", DOUBLE),
    ];
    let (folded, said) = fold(&model(21, nodes, &[("x", FLOAT16)], &[("y", DOUBLE), ("c", DOUBLE)]));
    assert_eq!(said, "1 cast of a constant computed, 0 removed, 1 joined");
    let folded = Model::parse(&folded).expect("a model");
    let outputs = folded.outputs().iter().map(|output| output.name.as_str()).collect::<Vec<_>>();
    assert_eq!(outputs, ["y", "c"]);
}

/// A value of the branch has the name of what the first Cast reads, which the branch's Cast must not read then.
#[test]
fn a_name_that_a_branch_understands_otherwise() {
    let branch = |inner: &str| {
        let nodes = [node("Neg", &["a"], inner, vec![]), cast("a", "r", DOUBLE)];
        let graph = nodes.into_iter().fold(Message::new(), |graph, node| graph.message(1, node));
        graph.bytes(2, "branch").message(12, Message::new().bytes(1, "r"))
    };
    for (inner, want) in [("x", "0 joined"), ("other", "1 joined")] {
        let attribute = |name: &str| Message::new().bytes(1, name).message(6, branch(inner)).int(20, 5);
        let choice = vec![attribute("then_branch"), attribute("else_branch")];
        let nodes = vec![cast("x", "a", FLOAT), node("If", &["flag"], "y", choice)];
        let bytes = model(21, nodes, &[("x", FLOAT16), ("flag", 9)], &[("y", DOUBLE)]);
        let (folded, said) = fold(&bytes);
        let want = want.replace('1', "2");
        assert_eq!(said, format!("0 casts of constants computed, 0 removed, {want}"), "{inner}");
        assert_eq!(folded == bytes, inner == "x");
    }
}

/// Names that stand twice, values that come later, Casts of themselves: nothing is folded, and nothing is lost.
#[test]
fn graphs_that_are_not_valid_stay() {
    for nodes in [
        vec![cast("a", "a", FLOAT)],
        vec![cast("b", "a", FLOAT), cast("a", "b", FLOAT16)],
        vec![cast("a", "y", FLOAT), cast("x", "a", FLOAT16)],
        vec![cast("x", "a", FLOAT), cast("x", "a", DOUBLE), cast("a", "y", DOUBLE)],
        vec![cast("", "y", FLOAT)],
        vec![cast("x", "", FLOAT16)],
        vec![cast("x", "y", 99)],
        vec![node("Cast", &["x"], "y", vec![])],
        vec![node("Cast", &["x", "x"], "y", vec![int_attribute("to", FLOAT16)])],
        vec![node("CastLike", &["x"], "y", vec![])],
    ] {
        let bytes = model(21, nodes, &[("x", FLOAT16)], &[("y", FLOAT)]);
        let (folded, said) = fold(&bytes);
        assert_eq!(said, "0 casts of constants computed, 0 removed, 0 joined");
        assert_eq!(folded, bytes);
    }
}

#[test]
fn only_models_are_folded() {
    let folder = Folder::new();
    folder.refuses("fold x.npy out.onnx", "x.npy: fold takes a model (.onnx)");
    folder.refuses("fold x.onnx out.pb", "out.pb: fold takes a model (.onnx)");
    folder.refuses("fold x.onnx out.onnx", "x.onnx: cannot open: No such file or directory (os error 2)");
    folder.write("x.onnx", "Hello World!");
    folder.refuses("fold x.onnx out.onnx", "x.onnx: not a valid ONNX model: groups of fields do not pair");
}

#[test]
fn a_plan_writes_nothing() {
    let folder = Folder::new();
    let value = |size: usize| {
        let tensor = tensor(&[size as i64], FLOAT, &vec![0; 4 * size]);
        Message::new().bytes(1, "value").message(5, tensor).int(20, 4)
    };
    let nodes = vec![
        node("Constant", &[], "large", vec![value(256)]),
        node("Constant", &[], "small", vec![value(255)]),
        node("Identity", &["x"], "y", vec![]),
    ];
    folder.write("in.onnx", model(21, nodes, &[("x", FLOAT)], &[("y", FLOAT)]));
    assert_eq!(
        done(&folder.run("cast in.onnx out.onnx --to float16 --dry-run")),
        "tensor  from            to                    before         after\n\
         large   float           float16               1024 B         512 B\n\
         small   float           (kept)                1020 B        1020 B\n\
         total: 1 tensor (256 elements) cast, 1 tensor (255 elements) kept, 2044 B -> 1532 B\n"
    );
    let json = done(&folder.run("cast in.onnx out.onnx --to float16 --dry-run --json"));
    assert!(json.contains("\"to\": \"float16\"") && json.contains("\"dry_run\": true"), "{json}");
    assert_eq!(folder.names(), ["in.onnx"]);
    let refused = |line: &str, message: &str| folder.refuses(line, message);
    refused("cast in.onnx out.onnx --to float16 --resume", "in.onnx: --resume is for checkpoints of several files");
    refused(
        "cast in.onnx out.onnx --to float16 --opset 21",
        "in.onnx: a model tells its opset itself (--raise-opset raises it where the target needs that)",
    );
    refused(
        "cast in.onnx out.onnx --to float4e2m1",
        "in.onnx: constant `large`: Cast takes float4e2m1 from opset 23 on, and the model imports 21 (--raise-opset \
         raises it)",
    );
}

/// From before the format had opsets, there is nothing to raise.
#[test]
fn an_old_model_is_not_raised() {
    let folder = Folder::new();
    let tensor = tensor(&[256], FLOAT, &[0; 1024]).bytes(8, "w");
    let name = |name: &str| Message::new().bytes(1, name);
    let graph = Message::new().message(5, tensor).message(11, name("w")).message(12, name("w"));
    folder.write("in.onnx", Message::new().int(1, 2).message(7, graph).into_bytes());
    folder.refuses(
        "cast in.onnx out.onnx --to bfloat16 --raise-opset",
        "in.onnx: the opset cannot be raised to 13: the model is of version 2 of the format (want 3 or newer)",
    );
    done(&folder.run("cast in.onnx out.onnx --to float16 -q"));
}
