//! Facts that the dataflow follows through random chains of operators. A chain has one to four operators that arrange,
//! pick or update elements, each of them plain or in a branch, a loop or a function.

use super::*;
use crate::operators::{self, Flag};
use crate::types::schemas::{Arity, FormalType, Schema};
use testkit::generators::Rng;

const OPSET: i64 = 23;

/// The operators that pass on their first input, each with its other required inputs: `i` for integers, `b` for
/// booleans, `x` for floats.
fn handing_on() -> Vec<(&'static str, Vec<&'static str>)> {
    let mut found = Vec::new();
    for (domain, name, traits) in operators::all() {
        let hands_on = [Flag::Arranges, Flag::Picks, Flag::Updates].iter().any(|&flag| traits.is(flag));
        let Some(schema) = Schema::of(domain, name, OPSET).filter(|_| domain == "ai.onnx" && hands_on) else {
            continue;
        };
        let others = schema.inputs.iter().skip(1).filter(|formal| formal.arity == Arity::Single).map(|formal| {
            let FormalType::Variable(variable) = formal.of_type else { return Some("i") };
            let allowed = |data_type| schema.variables[variable].allowed.tensors(data_type);
            [(DataType::Float, "x"), (DataType::Int64, "i"), (DataType::Bool, "b")]
                .into_iter()
                .find(|one| allowed(one.0))
                .map(|one| one.1)
        });
        let takes_floats = matches!(schema.inputs[0].of_type, FormalType::Variable(variable)
            if schema.variables[variable].allowed.tensors(DataType::Float16));
        let gives_one = schema.outputs.len() == 1 && !["CastLike", "Cast"].contains(&name);
        found.extend(
            others.collect::<Option<Vec<_>>>().filter(|_| takes_floats && gives_one).map(|others| (name, others)),
        );
    }
    found.sort_unstable();
    found
}

fn declared(name: &str, of_type: i64) -> Message {
    let of_type = Message::new().message(1, Message::new().int(1, of_type));
    Message::new().bytes(1, name).message(2, of_type)
}

fn graph_of(nodes: Vec<Message>, inputs: &[(&str, i64)], outputs: &[(&str, i64)]) -> Message {
    let graph = nodes.into_iter().fold(Message::new().bytes(2, "within"), |graph, node| graph.message(1, node));
    let graph = inputs.iter().fold(graph, |graph, &(name, of_type)| graph.message(11, declared(name, of_type)));
    outputs.iter().fold(graph, |graph, &(name, of_type)| graph.message(12, declared(name, of_type)))
}

fn graph_attribute(name: &str, graph: Message) -> Message {
    Message::new().bytes(1, name).message(6, graph).int(20, 5)
}

/// A chain of operators from one value to another. Adds the functions that it calls to `functions`.
fn chain(random: &mut Rng, from: &str, to: &str, functions: &mut Vec<Message>) -> Vec<Message> {
    let all = handing_on();
    let length = 1 + random.below(4);
    let (mut nodes, mut at) = (Vec::new(), from.to_owned());
    for link in 0..length {
        let next = if link + 1 == length { to.to_owned() } else { format!("{to}_{link}") };
        let (operator, others) = &all[random.below(all.len() as u64) as usize];
        let step = |from: &str, to: &str| plain(operator, &[&[from], &others[..]].concat(), to);
        let inner = format!("{next}_inner");
        nodes.push(match random.below(4) {
            0 => {
                let branch = |name| graph_attribute(name, graph_of(vec![step(&at, &inner)], &[], &[(&inner, FLOAT)]));
                node("If", &["b"], &next, vec![branch("then_branch"), branch("else_branch")])
            }
            1 => {
                let (state, go) = (format!("{next}_state"), format!("{next}_go"));
                let steps = vec![step(&state, &inner), plain("Identity", &[&go], &format!("{go}_on"))];
                let inputs = [(&*format!("{next}_round"), 7), (&*go, 9), (&*state, FLOAT)];
                let body = graph_of(steps, &inputs, &[(&format!("{go}_on"), 9), (&inner, FLOAT)]);
                node("Loop", &["n", "", &at], &next, vec![graph_attribute("body", body)])
            }
            2 => {
                let name = format!("F{}", functions.len());
                let mut body = Message::new().bytes(1, &name).bytes(4, "a");
                body = others.iter().fold(body, |body, other| body.bytes(4, other));
                body = body.bytes(5, "z").message(7, step("a", "z")).message(9, Message::new().int(2, OPSET));
                functions.push(body.bytes(10, "local"));
                plain(&name, &[&[&*at], &others[..]].concat(), &next).bytes(7, "local")
            }
            _ => step(&at, &next),
        });
        at = next;
    }
    nodes
}

/// Converts a model that has a chain from `from` to `to`.
fn decided(
    seed: u64,
    [from, to]: [&str; 2],
    mut before: Vec<Message>,
    behind: Vec<Message>,
    outputs: &[(&str, i64)],
) -> ConvertSummary {
    let mut functions = Vec::new();
    before.extend(chain(&mut Rng::new(seed), from, to, &mut functions));
    before.extend(behind);
    let inputs = [("x", FLOAT), ("i", 7), ("n", 7), ("b", 9)];
    let bytes = model(OPSET, before, &inputs, outputs);
    let local = Message::new().message(8, Message::new().bytes(1, "local").int(2, 1));
    let more = functions.into_iter().fold(local, |more, function| more.message(25, function));
    let bytes = [bytes, more.into_bytes()].concat();
    let (_, summary) = convert_bytes(&bytes, &ConvertRequest::new(DataType::Float16)).expect("converted");
    summary
}

#[test]
fn values_that_become_integers_stay_float() {
    for seed in 0..300 {
        let before =
            vec![weight(), plain("MatMul", &["x", "w"], "h"), scalar("k", 1.5), plain("Mul", &["h", "k"], "m")];
        let cast = node("Cast", &["f"], "y", vec![Message::new().bytes(1, "to").int(3, 7).int(20, 2)]);
        let behind = vec![plain("Floor", &["c"], "f"), cast];
        let summary = decided(seed, ["m", "c"], before, behind, &[("y", 7)]);
        let of = |operator: &str| summary.nodes.iter().find(|node| node.operator == operator).expect("a node");
        for operator in ["Mul", "Floor"] {
            assert!(!of(operator).low, "{seed}: {:#?}", summary.nodes);
        }
        assert!(of("MatMul").low, "{seed}");
    }
}

#[test]
fn values_that_come_from_integers_stay_float() {
    for seed in 0..300 {
        let cast = node("Cast", &["i"], "f", vec![Message::new().bytes(1, "to").int(3, 1).int(20, 2)]);
        let behind = vec![plain("Sin", &["c"], "s"), weight(), plain("MatMul", &["s", "w"], "y")];
        let summary = decided(seed, ["f", "c"], vec![cast], behind, &[("y", FLOAT)]);
        let sine = summary.nodes.iter().find(|node| node.operator == "Sin").expect("a node");
        // Scatter mixes in elements that do not come from integers.
        let updates = summary.nodes.iter().any(|node| node.operator.starts_with("Scatter"));
        let why = "computes positions, lengths, shapes or indices";
        assert!(updates || (!sine.low && sine.why == why), "{seed}: {:#?}", summary.nodes);
    }
}

/// A mask of an attention operator is finite in the narrow type, and the operator stays narrow.
#[test]
fn attention_masks_become_narrow() {
    for seed in 0..300 {
        let before =
            vec![scalar("zero", 0.0), scalar("lowest", -3.4e38), plain("Where", &["b", "zero", "lowest"], "m")];
        let microsoft = |node: Message| node.bytes(7, "com.microsoft");
        let behind = vec![match seed % 3 {
            0 => plain("Attention", &["x", "x", "x", "c"], "y"),
            1 => microsoft(plain("MultiHeadAttention", &["x", "x", "x", "", "", "c"], "y")),
            _ => {
                let inputs = ["x", "x", "x", "", "", "s", "s", "", "", "", "c"];
                microsoft(plain("GroupQueryAttention", &inputs, "y"))
            }
        }];
        let summary = decided(seed, ["m", "c"], before, behind, &[("y", FLOAT)]);
        for operator in ["Where", "Attention"] {
            let mut nodes = summary.nodes.iter().filter(|node| node.operator.ends_with(operator));
            assert!(nodes.all(|node| node.low), "{seed}: {:#?}", summary.nodes);
        }
        assert!(summary.constants >= 2, "{seed}: {}", summary.constants);
    }
}

/// A mask with more elements than a small constant, such as a causal mask.
#[test]
fn large_masks_are_recognized() {
    let lowest: Vec<f32> = (0..300 * 300).map(|at| if at % 300 > at / 300 { f32::MIN } else { 0.0 }).collect();
    let mask = |behind: Message| vec![constant("c", &[300, 300], &lowest), behind];
    let bytes = |nodes| model(OPSET, nodes, &[("x", FLOAT)], &[("y", FLOAT)]);
    let attention = bytes(mask(plain("Attention", &["x", "x", "x", "c"], "y")));
    let (made, summary) = convert_bytes(&attention, &ConvertRequest::new(DataType::Float16)).expect("converted");
    assert!(summary.nodes.iter().all(|node| node.low), "{:#?}", summary.nodes);
    // Half of float16's lowest number is 0xf7ff.
    assert!(made.windows(8).any(|bytes| bytes == [0xff, 0xf7].repeat(4)));
    let products = vec![plain("MatMul", &["x", "c"], "y")];
    let product = bytes([mask(plain("Neg", &["c"], "n")), products].concat());
    let (_, summary) = convert_bytes(&product, &ConvertRequest::new(DataType::Float16)).expect("converted");
    assert!(summary.nodes.iter().all(|node| !node.low), "{:#?}", summary.nodes);
}

/// A type variable that does not support the narrow type, or that belongs to a state, leaves the others narrow.
#[test]
fn a_wide_type_variable_leaves_the_others_narrow() {
    let attention = ["h", "h", "h", "p", "p", "s", "s", "", "", "", "", "", "k", "k"];
    for (operator, inputs, outputs) in [
        ("LinearAttention", &["h", "h", "h", "z"][..], &["r", "n"][..]),
        ("GroupQueryAttention", &attention, &["r"]),
        ("GatedDeltaNet", &["h", "h", "h", "", "z", "z", "z"], &["r", "n"]),
        ("LinearAttentionGate", &["h", "z", "z"], &["r"]),
    ] {
        let operation = outputs[1..].iter().fold(plain(operator, inputs, "r"), |node, output| node.bytes(2, output));
        let operation = operation.bytes(7, "com.microsoft");
        let nodes = between(vec![scalar("k", 0.5), operation]);
        let inputs = [("x", FLOAT), ("z", FLOAT), ("p", 3), ("s", 6)];
        let results: Vec<_> = [("y", FLOAT)].into_iter().chain((outputs.len() > 1).then_some(("n", FLOAT))).collect();
        let bytes = model(OPSET, nodes, &inputs, &results);
        let request = ConvertRequest::new(DataType::Float16);
        let (made, summary) = convert_bytes(&bytes, &request).expect("converted");
        assert!(summary.nodes.iter().all(|node| node.low), "{operator}: {:#?}", summary.nodes);
        // One Cast for the input and one for the result; values that stay float need none.
        assert_eq!(summary.casts, 2, "{operator}: {:#?}", summary.values);
        assert_eq!(convert_bytes(&made, &request).expect("converted again").0, made, "{operator}");
    }
}

/// A weight is dequantized to the narrow type if DequantizeLinear supports it. A product that runtimes compute with
/// quantized codes stays float, because a Cast would prevent that.
#[test]
fn products_of_quantized_codes_stay_float() {
    let codes = |name: &str| {
        let value = tensor(&[6, 6], 3, &[5; 36]);
        node("Constant", &[], name, vec![Message::new().bytes(1, "value").message(5, value).int(20, 4)])
    };
    let zero = || {
        let value = tensor(&[], 3, &[0]);
        node("Constant", &[], "zero", vec![Message::new().bytes(1, "value").message(5, value).int(20, 4)])
    };
    let weights = || vec![codes("c"), scalar("s", 0.5), plain("DequantizeLinear", &["c", "s"], "d")];
    let activations = || {
        vec![
            zero(),
            plain("QuantizeLinear", &["x", "s", "zero"], "q"),
            plain("DequantizeLinear", &["q", "s", "zero"], "a"),
        ]
    };
    let product = |by: &str| vec![plain("MatMul", &[by, "d"], "m"), plain("Relu", &["m"], "y")];
    for (opset, nodes, casts, narrow) in [
        (23, [weights(), product("x")].concat(), 2, 3),
        (21, [weights(), product("x")].concat(), 2, 3),
        (13, [weights(), product("x")].concat(), 0, 0),
        (21, [weights(), activations(), product("a")].concat(), 0, 0),
        // A transposed weight.
        (21, [weights(), vec![plain("Transpose", &["d"], "t"), plain("MatMul", &["x", "t"], "y")]].concat(), 2, 3),
        (13, [weights(), vec![plain("Transpose", &["d"], "t"), plain("MatMul", &["x", "t"], "y")]].concat(), 0, 0),
    ] {
        let bytes = model(opset, nodes, &[("x", FLOAT)], &[("y", FLOAT)]);
        let request = ConvertRequest::new(DataType::Float16);
        let (made, summary) = convert_bytes(&bytes, &request).expect("converted");
        let count = summary.nodes.iter().filter(|node| node.low).count();
        assert_eq!((summary.casts, count), (casts, narrow), "{opset}: {:#?}", summary.nodes);
        assert_eq!(convert_bytes(&made, &request).expect("converted again").0, made, "{opset}");
    }
}

/// A number that hides elements from attention, and is read as a number elsewhere, stays itself there.
#[test]
fn a_number_shared_with_a_mask_keeps_its_value() {
    let numbers = || vec![scalar("zero", 0.0), scalar("lowest", -1e9)];
    let mask = || vec![plain("Where", &["b", "zero", "lowest"], "m"), plain("Attention", &["x", "x", "x", "m"], "y")];
    let inputs = [("x", FLOAT), ("b", 9)];
    let holds = |made: &[u8]| made.windows(4).any(|word| word == (-1e9_f32).to_le_bytes());
    let request = ConvertRequest::new(DataType::Float16);
    // A reader of the number, one of the mask, and the mask as an output.
    let other = vec![plain("Where", &["b", "x", "lowest"], "n")];
    let shared = model(OPSET, [numbers(), mask(), other].concat(), &inputs, &[("y", FLOAT), ("n", FLOAT)]);
    let (made, summary) = convert_bytes(&shared, &request).expect("converted");
    let of = |output: &str| summary.nodes.iter().find(|node| node.node == output).expect("a node").low;
    assert!(holds(&made) && of("y") && of("m") && !of("n"), "{:#?}", summary.nodes);
    assert_eq!(convert_bytes(&made, &request).expect("converted again").0, made);
    for (more, output) in [(vec![plain("Less", &["m", "zero"], "l")], ("l", 9)), (vec![], ("m", FLOAT))] {
        let read = model(OPSET, [numbers(), mask(), more].concat(), &inputs, &[("y", FLOAT), output]);
        let (made, _) = convert_bytes(&read, &request).expect("converted");
        assert!(holds(&made), "{output:?}");
        assert_eq!(convert_bytes(&made, &request).expect("converted again").0, made, "{output:?}");
    }
    // Likewise a number that ConstantOfShape repeats, for a mask that is an output too.
    let value = tensor(&[1], FLOAT, &(-1e9_f32).to_le_bytes());
    let fill =
        node("ConstantOfShape", &["i"], "lowest", vec![Message::new().bytes(1, "value").message(5, value).int(20, 4)]);
    let nodes = [vec![scalar("zero", 0.0), fill], mask()].concat();
    let inputs = [("x", FLOAT), ("b", 9), ("i", 7)];
    let filled = model(OPSET, nodes, &inputs, &[("y", FLOAT), ("m", FLOAT)]);
    let low = vec!["Attention".parse().expect("a pattern")];
    for request in [request.clone(), ConvertRequest { low, ..request }] {
        let (made, _) = convert_bytes(&filled, &request).expect("converted");
        assert!(holds(&made), "{:?}", request.low);
    }
}
