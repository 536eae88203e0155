//! What is tricky about types: functions, captured names, attributes, hostile models. `scripts/checks/value_types.py`
//! compares with ONNX's own inference.

use super::*;
use crate::tree::Document;
use testkit::fixtures::files;
use testkit::proto::{Message, int_attribute, node, tensor, typed};

const MODELS: &str = include_str!("../../tests/fixtures/models.txt");

fn declared(name: &str, data_type: i64) -> Message {
    let tensor_type = Message::new().int(1, data_type);
    Message::new().bytes(1, name).message(2, Message::new().message(1, tensor_type))
}

fn graph(inputs: &[(&str, i64)], nodes: Vec<Message>, outputs: &[&str]) -> Message {
    let graph = nodes.into_iter().fold(Message::new().bytes(2, "graph"), |graph, node| graph.message(1, node));
    let graph = inputs.iter().fold(graph, |graph, &(name, data_type)| graph.message(11, declared(name, data_type)));
    outputs.iter().fold(graph, |graph, &name| graph.message(12, Message::new().bytes(1, name)))
}

fn import(domain: &str, version: i64) -> Message {
    Message::new().bytes(1, domain).int(2, version)
}

fn model(graph: Message, functions: Vec<Message>) -> Vec<u8> {
    let model = Message::new().int(1, 10).message(7, graph).message(8, import("", 21)).message(8, import("f", 1));
    functions.into_iter().fold(model, |model, function| model.message(25, function)).into_bytes()
}

fn function(name: &str, inputs: &[&str], outputs: &[&str], nodes: Vec<Message>) -> Message {
    let message = Message::new().bytes(1, name).bytes(10, "f").message(9, import("", 21)).message(9, import("f", 1));
    let message = inputs.iter().fold(message, |message, name| message.bytes(4, name));
    let message = outputs.iter().fold(message, |message, name| message.bytes(5, name));
    nodes.into_iter().fold(message, |message, node| message.message(7, node))
}

fn call(name: &str, inputs: &[&str], output: &str, attributes: Vec<Message>) -> Message {
    node(name, inputs, output, attributes).bytes(7, "f")
}

/// An attribute that refers to one of the enclosing function.
fn refer(name: &str, to: &str) -> Message {
    Message::new().bytes(1, name).bytes(21, to).int(20, 2)
}

fn graph_attribute(name: &str, graph: Message) -> Message {
    Message::new().bytes(1, name).message(6, graph).int(20, 5)
}

/// `name: type` of every value of every body.
fn types(model: &[u8]) -> Vec<Vec<String>> {
    let document = Document::parse(model).expect("a model");
    let row = |(value, of_type): (&crate::graph::values::Value<'_>, &Option<ValueType>)| {
        format!("{}: {}", value.name, of_type.as_ref().map_or("?".to_owned(), ToString::to_string))
    };
    let body = |body: &Body<'_, '_>| body.flow.values.iter().zip(&body.types).map(row).collect();
    Typing::of(&document).expect("types").bodies.iter().map(body).collect()
}

fn error(model: &[u8]) -> String {
    Typing::of(&Document::parse(model).expect("a model")).expect_err("refused").to_string()
}

#[test]
fn a_function_is_typed_for_each_combination_of_types() {
    let double = function("Double", &["a"], &["b"], vec![node("Add", &["a", "a"], "b", vec![])]);
    let nodes = vec![
        call("Double", &["x"], "x2", vec![]),
        call("Double", &["h"], "h2", vec![]),
        call("Double", &["x2"], "x4", vec![]),
    ];
    let got = types(&model(graph(&[("x", 1), ("h", 10)], nodes, &["x4", "h2"]), vec![double]));
    assert_eq!(got[0], ["x: float", "h: float16", "x2: float", "h2: float16", "x4: float"]);
    assert_eq!(got[1..], [["a: float", "b: float"], ["a: float16", "b: float16"]]);
}

#[test]
fn attributes_that_refer_are_bound_by_each_call() {
    let cast = || node("Cast", &["a"], "b", vec![refer("to", "kind")]);
    let to = function("To", &["a"], &["b"], vec![cast()]).message(11, int_attribute("kind", 10));
    let through = function("Through", &["a"], &["b"], vec![call("To", &["a"], "b", vec![refer("kind", "outer")])]);
    let nodes = vec![
        call("To", &["x"], "default", vec![]),
        call("To", &["x"], "given", vec![int_attribute("kind", 11)]),
        call("Through", &["x"], "handed", vec![int_attribute("outer", 7)]),
        call("Through", &["x"], "missing", vec![]),
    ];
    let got = types(&model(graph(&[("x", 1)], nodes, &["handed"]), vec![through, to]));
    assert_eq!(got[0], ["x: float", "default: float16", "given: double", "handed: int64", "missing: float16"]);
    // `missing` runs the body of `default` once more.
    assert_eq!(got.len(), 6);
}

#[test]
fn an_attribute_that_decides_no_type_makes_no_body() {
    let softmax = node("Softmax", &["a"], "b", vec![refer("axis", "axis")]);
    let function = function("F", &["a"], &["b"], vec![softmax]);
    let nodes = (0..3).map(|axis| call("F", &["x"], &format!("y{axis}"), vec![int_attribute("axis", axis)])).collect();
    assert_eq!(types(&model(graph(&[("x", 1)], nodes, &["y0"]), vec![function])).len(), 2);
}

#[test]
fn functions_that_call_themselves_are_refused() {
    let a = function("A", &["a"], &["b"], vec![call("B", &["a"], "b", vec![])]);
    let b = function("B", &["a"], &["b"], vec![call("A", &["a"], "b", vec![])]);
    let main = graph(&[("x", 1)], vec![call("A", &["x"], "y", vec![])], &["y"]);
    assert_eq!(error(&model(main, vec![a, b])), "function `A` is recursive");
}

#[test]
fn calls_are_bounded_in_depth_and_number() {
    let chain = |count: usize, times: usize| {
        let called = |place: usize| {
            let calls = (0..times).map(|time| {
                let to = node("Cast", &["a"], &format!("c{time}"), vec![int_attribute("to", 1 + time as i64)]);
                [to, call(&format!("F{}", place + 1), &[&format!("c{time}"), "a"], &format!("o{time}"), vec![])]
            });
            let last = vec![node("Identity", &["a"], "o0", vec![])];
            let nodes = if place + 1 == count { last } else { calls.flatten().collect() };
            function(&format!("F{place}"), &["a", "b"], &["o0"], nodes)
        };
        let main = graph(&[("x", 1)], vec![call("F0", &["x", "x"], "y", vec![])], &["y"]);
        model(main, (0..count).map(called).collect())
    };
    assert_eq!(types(&chain(60, 1))[0], ["x: float", "y: float"]);
    assert_eq!(error(&chain(80, 1)), "calls of functions nested more than 64 deep");
    // Types of two inputs each: bodies are known by then.
    assert_eq!(types(&chain(12, 3))[0], ["x: float", "y: float"]);
}

#[test]
fn constants_and_branches() {
    let value = |message: Message| Message::new().bytes(1, "value").message(5, message).int(20, 4);
    let constant = |name: &str, attribute: Message| node("Constant", &[], name, vec![attribute]);
    let then = graph(&[], vec![node("Mul", &["x", "k"], "m", vec![])], &["m"]);
    let other = graph(&[], vec![constant("k", value(typed(&[0], 7))), node("Abs", &["k"], "n", vec![])], &["n"]);
    let branches = vec![graph_attribute("then_branch", then), graph_attribute("else_branch", other)];
    let nodes = vec![
        constant("k", value(tensor(&[1], 10, &[0, 60]))),
        constant("f", Message::new().bytes(1, "value_float").int(20, 1)),
        constant("s", Message::new().bytes(1, "value_strings").bytes(9, "a").int(20, 8)),
        node("If", &["c"], "y", branches),
        node("Other", &["y"], "z", vec![]),
    ];
    let got = types(&model(graph(&[("c", 9), ("x", 10)], nodes, &["z"]), vec![]));
    // The branch `else` has a `k` of its own; the operator is not known, and nothing declares what it gives.
    let want = [
        "c: bool",
        "x: float16",
        "k: float16",
        "f: float",
        "s: string",
        "m: float16",
        "k: int64",
        "n: int64",
        "y: float16",
        "z: ?",
    ];
    assert_eq!(got[0], want);
}

#[test]
fn what_a_loop_is_handed_counts() {
    // The body declares float, and is handed float16.
    let nodes = vec![node("Add", &["s", "x"], "s2", vec![]), node("Identity", &["go"], "go2", vec![])];
    let body = graph(&[("i", 7), ("go", 9), ("s", 1)], nodes, &["go2", "s2", "i"]);
    let looped = node("Loop", &["n", "", "x"], "last", vec![graph_attribute("body", body)]).bytes(2, "all");
    let got = types(&model(graph(&[("n", 7), ("x", 10)], vec![looped], &["last"]), vec![]));
    let want =
        ["n: int64", "x: float16", "i: int64", "go: bool", "s: float16", "s2: float16", "go2: bool", "last: float16"];
    assert_eq!((&got[0][..8], &*got[0][8]), (&want.map(String::from)[..], "all: int64"));
}

#[test]
fn statistics_have_the_type_that_is_stashed() {
    let norm = |stash: Vec<Message>, names: [&str; 3]| {
        let [first, mean, deviation] = names;
        node("LayerNormalization", &["x", "x"], first, stash).bytes(2, mean).bytes(2, deviation)
    };
    let nodes = vec![norm(vec![], ["a", "b", "c"]), norm(vec![int_attribute("stash_type", 16)], ["d", "e", ""])];
    let got = types(&model(graph(&[("x", 10)], nodes, &["a"]), vec![]));
    assert_eq!(got[0], ["x: float16", "a: float16", "b: float", "c: float", "d: float16", "e: bfloat16"]);
}

/// com.microsoft's QGemm gives what its zero point is of, else floats.
#[test]
fn a_quantized_product_has_the_type_of_its_zero_point() {
    let gemm = |inputs: &[&str], output: &str| node("QGemm", inputs, output, vec![]).bytes(7, "com.microsoft");
    let six = ["a", "s", "a", "a", "s", "a"];
    let nodes = vec![
        gemm(&[&six[..], &["", "s", "a"]].concat(), "quantized"),
        gemm(&[&six[..], &["", "s", "u"]].concat(), "unsigned"),
        gemm(&six, "plain"),
        node("Cast", &["quantized"], "c", vec![int_attribute("to", 1)]),
    ];
    let main = graph(&[("a", 3), ("u", 2), ("s", 1)], nodes, &["c"]);
    let model =
        Message::new().int(1, 10).message(7, main).message(8, import("", 21)).message(8, import("com.microsoft", 1));
    let got = types(&model.into_bytes());
    assert_eq!(got[0][3..], ["quantized: int8", "unsigned: uint8", "plain: float", "c: float"]);
}

#[test]
fn types_within_types_are_bounded() {
    let wrap = |place: usize| node("Optional", &[&format!("v{place}")], &format!("v{}", place + 1), vec![]);
    let got = types(&model(graph(&[("v0", 1)], (0..10_000).map(wrap).collect(), &["v1"]), vec![]));
    assert_eq!((got[0][2].as_str(), got[0][10_000].as_str()), ("v2: optional(optional(float))", "v10000: ?"));
}

#[test]
fn no_damage_to_a_model_makes_it_panic() {
    let read = |bytes: &[u8]| {
        drop(Document::parse(bytes).map(|document| Typing::of(&document).map(drop)));
    };
    for (_, mut file) in files(MODELS) {
        (0..file.len()).for_each(|len| read(&file[..len]));
        for bit in 0..file.len() * 8 {
            file[bit / 8] ^= 1 << (bit % 8);
            read(&file);
            file[bit / 8] ^= 1 << (bit % 8);
        }
    }
}
