//! What stays float, and the reason that is told: one small graph for each rule, and beside it one that looks alike and
//! needs no more than its narrow type. `scripts/checks/precision_sensitive.py` has such graphs run.

mod facts;
mod sums;

use super::*;
use crate::source::ModelBytes;
use testkit::proto::{Message, model, node, tensor};

const FLOAT: i64 = 1;

fn convert_bytes(model: &[u8], request: &ConvertRequest) -> Result<(Vec<u8>, ConvertSummary), Error> {
    convert_of(ModelSource::Memory(&ModelBytes::new(model.to_vec(), None)), None, request)
}

fn constant(name: &str, shape: &[i64], values: &[f32]) -> Message {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    let value = Message::new().bytes(1, "value").message(5, tensor(shape, FLOAT, &bytes)).int(20, 4);
    node("Constant", &[], name, vec![value])
}

fn scalar(name: &str, value: f32) -> Message {
    constant(name, &[], &[value])
}

/// A weight of six rows and columns, more than the rule for few takes.
fn weight() -> Message {
    constant("w", &[6, 6], &[0.5; 36])
}

fn plain(operator: &str, inputs: &[&str], output: &str) -> Message {
    node(operator, inputs, output, vec![])
}

/// What decided each node that stays float, by operator, and whether the others are narrow.
fn kept(nodes: Vec<Message>, to: DataType) -> Vec<(String, String)> {
    kept_by(&model(22, nodes, &[("x", FLOAT), ("z", FLOAT)], &[("y", FLOAT)]), &ConvertRequest::new(to))
}

fn kept_by(model: &[u8], request: &ConvertRequest) -> Vec<(String, String)> {
    let (once, summary) = convert_bytes(model, request).expect("converted");
    let (twice, _) = convert_bytes(&once, request).expect("converted again");
    assert_eq!(once, twice, "converted again");
    let wide = summary.nodes.into_iter().filter(|node| !node.low && node.why.starts_with("sensitive: "));
    wide.map(|node| (node.operator, node.why["sensitive: ".len()..].to_owned())).collect()
}

/// Checks that operators stay float, in their order, each for a reason that begins with the same words.
fn stays(nodes: Vec<Message>, to: DataType, operators: &[&str], why: &str) {
    let kept = kept(nodes, to);
    let found: Vec<_> = kept.iter().map(|(operator, _)| operator.as_str()).collect();
    assert_eq!(found, operators, "{to}: {kept:?}");
    assert!(kept.iter().all(|(_, reason)| reason.starts_with(why)), "{to}: {kept:?}");
}

const BOTH: [DataType; 2] = [DataType::Float16, DataType::BFloat16];

/// Something narrow before what is looked at and behind it.
fn between(mut nodes: Vec<Message>) -> Vec<Message> {
    nodes.insert(0, weight());
    nodes.insert(1, plain("MatMul", &["x", "w"], "h0"));
    nodes.insert(2, plain("MatMul", &["h0", "w"], "h"));
    nodes.push(plain("MatMul", &["r", "w"], "y"));
    nodes
}

#[test]
fn exponentials_that_meet_others() {
    let ratio = |before: &str| {
        vec![
            plain(before, &["h"], "b"),
            plain("Exp", &["b"], "e"),
            scalar("one", 1.0),
            plain("Add", &["e", "one"], "d"),
            plain("Div", &["e", "d"], "r"),
        ]
    };
    let why = "an exponential that may overflow of node";
    stays(between(ratio("Relu")), DataType::Float16, &["Exp", "Add", "Div"], why);
    // bfloat16 has the range of float, and a sigmoid is at most one.
    stays(between(ratio("Relu")), DataType::BFloat16, &[], "");
    stays(between(ratio("Sigmoid")), DataType::Float16, &[], "");
    // A box's size: an exponential that is scaled.
    stays(between(vec![plain("Exp", &["h"], "e"), plain("Mul", &["e", "h"], "r")]), DataType::Float16, &[], "");
}

#[test]
fn what_a_logarithm_reads() {
    let nodes = || {
        between(vec![
            plain("Sigmoid", &["h"], "s"),
            scalar("one", 1.0),
            plain("Sub", &["one", "s"], "c"),
            plain("Log", &["c"], "r"),
        ])
    };
    BOTH.iter().for_each(|&to| stays(nodes(), to, &["Sigmoid", "Sub", "Log"], "a logarithm"));
}

/// The logit of a probability that a comparison and a Where clamp, as torch exports it: the limit is one in 16 bits.
#[test]
fn a_choice_before_a_logarithm() {
    let nodes = || {
        between(vec![
            plain("Sigmoid", &["h"], "s"),
            scalar("most", 0.999999),
            plain("Less", &["s", "most"], "below"),
            plain("Where", &["below", "s", "most"], "p"),
            scalar("one", 1.0),
            plain("Sub", &["one", "p"], "c"),
            plain("Div", &["p", "c"], "odds"),
            plain("Log", &["odds"], "r"),
        ])
    };
    let operators = ["Sigmoid", "Less", "Where", "Sub", "Div", "Log"];
    BOTH.iter().for_each(|&to| stays(nodes(), to, &operators, "a logarithm"));
}

/// Inverse functions, kept from an end of their domain by a factor that is one in 16 bits.
#[test]
fn what_an_inverse_function_reads() {
    for (to, operator) in BOTH.into_iter().zip(["Acos", "Atanh"]) {
        let factor = scalar("k", 0.9999);
        let nodes =
            vec![plain("Tanh", &["h"], "t"), factor, plain("Mul", &["t", "k"], "a"), plain(operator, &["a"], "r")];
        stays(between(nodes), to, &["Tanh", "Mul", operator], "steep at the ends of its domain");
    }
}

#[test]
fn angles_of_what_is_not_rounded() {
    for to in BOTH {
        let why = "an angle of node";
        // Of an input, by a product, and by few numbers.
        let nodes = vec![scalar("k", 30.0), plain("Mul", &["z", "k"], "a"), plain("Sin", &["a"], "r")];
        stays(between(nodes), to, &["Mul", "Sin"], why);
        let nodes = vec![plain("MatMul", &["z", "w"], "a"), plain("Cos", &["a"], "r")];
        stays(between(nodes), to, &["MatMul", "Cos"], why);
        // What a product of a product gives is rounded, whatever adds a small bias.
        let nodes = |bias: f32| {
            vec![
                scalar("b", bias),
                plain("Add", &["h", "b"], "a"),
                plain("Cos", &["a"], "c"),
                plain("Relu", &["c"], "r"),
            ]
        };
        stays(between(nodes(0.5)), to, &[], "");
        stays(between(nodes(1000.0)), to, &["Add", "Cos"], why);
        // What is bounded.
        let nodes = vec![plain("Tanh", &["z"], "t"), plain("Sin", &["t"], "r")];
        stays(between(nodes), to, &[], "");
    }
}

#[test]
fn angles_across_functions_and_branches() {
    let why = "an angle of node";
    let body = Message::new().bytes(1, "F").bytes(4, "a").bytes(5, "b");
    let body = body.message(7, plain("Sin", &["a"], "s")).message(7, plain("Relu", &["s"], "b"));
    let body = body.message(9, Message::new().int(2, 22)).bytes(10, "local");
    let call = |input: &str| plain("F", &[input], "r").bytes(7, "local");
    for (input, operators) in [("a", &["Mul", "Sin"][..]), ("h", &[])] {
        let nodes = between(vec![scalar("k", 30.0), plain("Mul", &["z", "k"], "a"), call(input)]);
        let bytes = model(22, nodes, &[("x", FLOAT), ("z", FLOAT)], &[("y", FLOAT)]);
        // Fields of one message may stand anywhere.
        let more = Message::new().message(8, Message::new().bytes(1, "local").int(2, 1)).message(25, body.clone());
        let bytes = [bytes, more.into_bytes()].concat();
        let kept = kept_by(&bytes, &ConvertRequest::new(DataType::BFloat16));
        let found: Vec<_> = kept.iter().filter(|(_, reason)| reason.starts_with(why)).map(|(one, _)| one).collect();
        assert_eq!(found, operators, "{kept:?}");
    }
}

/// Edges of bins, which the last digits of an input are on one side of or the other.
#[test]
fn comparisons_of_what_is_exact() {
    let nodes = |of: &str| {
        vec![
            scalar("edge", 0.7),
            plain("Transpose", &[of], "t"),
            plain("Less", &["t", "edge"], "l"),
            plain("Where", &["l", "h", "h0"], "r"),
        ]
    };
    for to in BOTH {
        let why = "the last digits of exact values of node";
        stays(between(nodes("z")), to, &["Transpose", "Less"], why);
        stays(between(nodes("h")), to, &[], "");
        // A normalization by a part of the mean, and one by half of it.
        let normalized = |deviation: f32| {
            let numbers = vec![scalar("mean", 4.0), scalar("deviation", deviation)];
            let nodes = vec![plain("Sub", &["z", "mean"], "c"), plain("Div", &["c", "deviation"], "n")];
            between([numbers, nodes, vec![plain("Relu", &["n"], "r")]].concat())
        };
        stays(normalized(0.25), to, &["Sub"], why);
        stays(normalized(2.0), to, &[], "");
    }
}

#[test]
fn coordinates() {
    for to in BOTH {
        // Places that are a constant, and offsets that are rounded.
        let grid = constant("places", &[1, 6, 6, 2], &[0.5; 72]);
        let nodes = vec![grid, plain("Add", &["places", "h"], "g"), plain("GridSample", &["h", "g"], "s")];
        let nodes = between([nodes, vec![plain("Relu", &["s"], "r")]].concat());
        let kept = kept(nodes, to);
        assert_eq!(kept.iter().map(|(one, _)| one.as_str()).collect::<Vec<_>>(), ["Add", "GridSample"], "{kept:?}");
        assert!(kept.iter().all(|(_, reason)| reason.starts_with("coordinates of node")), "{kept:?}");
    }
}

/// A Loop whose state goes through steps, of as many rounds as an input or a constant tells.
fn rounds(steps: Vec<Message>, constant_rounds: Option<i64>) -> Vec<u8> {
    let declared = |name: &str, of_type: i64| {
        let of_type = Message::new().message(1, Message::new().int(1, of_type));
        Message::new().bytes(1, name).message(2, of_type)
    };
    let mut body = steps.into_iter().fold(Message::new().bytes(2, "body"), |body, step| body.message(1, step));
    body = body.message(1, plain("Identity", &["go"], "on"));
    for (name, of_type) in [("i", 7), ("go", 9), ("state", FLOAT)] {
        body = body.message(11, declared(name, of_type));
    }
    body = body.message(12, declared("on", 9)).message(12, declared("next", FLOAT));
    let body = Message::new().bytes(1, "body").message(6, body).int(20, 5);
    let count = tensor(&[], 7, &constant_rounds.unwrap_or(0).to_le_bytes()).bytes(8, "count");
    let looping = node("Loop", &[if constant_rounds.is_some() { "count" } else { "n" }, "", "h"], "r", vec![body]);
    let nodes = between(vec![scalar("old", 0.5), scalar("slow", 0.999), looping]);
    let graph = nodes.into_iter().fold(Message::new().bytes(2, "g"), |graph, node| graph.message(1, node));
    let graph = graph.message(5, count).message(11, declared("x", FLOAT)).message(11, declared("n", 7));
    let graph = graph.message(12, declared("y", FLOAT));
    Message::new().int(1, 10).message(7, graph).message(8, Message::new().int(2, 22)).into_bytes()
}

#[test]
fn states_that_are_added_to() {
    let add = || vec![plain("Add", &["h", "state"], "next")];
    let slowly = || {
        vec![plain("Mul", &["state", "slow"], "s"), plain("Identity", &["s"], "t"), plain("Add", &["t", "h"], "next")]
    };
    let forgets = |by: &str| vec![plain("Mul", &[by, "state"], "s"), plain("Add", &["s", "h"], "next")];
    let gated = [vec![plain("Sigmoid", &["h"], "gate")], forgets("gate")].concat();
    let slow_gate = [
        vec![
            plain("Neg", &["h"], "m"),
            plain("Relu", &["m"], "q"),
            plain("Neg", &["q"], "n"),
            plain("Exp", &["n"], "e"),
        ],
        forgets("e"),
    ]
    .concat();
    let anew =
        vec![plain("MatMul", &["state", "w"], "m"), plain("Add", &["m", "h"], "a"), plain("Tanh", &["a"], "next")];
    for to in BOTH {
        for (steps, rounds_of, operators) in [
            (add(), None, &["Add"][..]),
            (add(), Some(5000), &["Add"]),
            (add(), Some(3), &[]),
            (slowly(), None, &["Mul", "Identity", "Add"]),
            (slow_gate.clone(), None, &["Exp", "Mul", "Add"]),
            (forgets("old"), None, &[]),
            (gated.clone(), None, &[]),
            (anew.clone(), None, &[]),
        ] {
            let kept = kept_by(&rounds(steps, rounds_of), &ConvertRequest::new(to));
            let found: Vec<_> = kept.iter().map(|(operator, _)| operator.as_str()).collect();
            assert_eq!(found, operators, "{to}: {kept:?}");
            assert!(kept.iter().all(|(_, why)| why.starts_with("a sum over the rounds of a loop of node")), "{kept:?}");
        }
    }
}

/// A mask that is computed in float, and cast on its way: its lowest number becomes one that the type has.
#[test]
fn a_mask_is_finite_where_it_is_cast() {
    let nodes = || {
        between(vec![
            scalar("lowest", f32::MIN),
            scalar("one", 1.0),
            plain("Sub", &["one", "z"], "hidden"),
            plain("Mul", &["hidden", "lowest"], "bias"),
            plain("Add", &["h", "bias"], "masked"),
            plain("Softmax", &["masked"], "r"),
        ])
    };
    let bytes = model(22, nodes(), &[("x", FLOAT), ("z", FLOAT)], &[("y", FLOAT)]);
    let holds = |made: &[u8], number: f32| made.windows(4).any(|word| word == number.to_le_bytes());
    for (to, half) in [(DataType::Float16, -32752.0), (DataType::BFloat16, -f32::from_bits(0x7eff_0000))] {
        // As a whole in float, it is what it was.
        let (made, _) = convert_bytes(&bytes, &ConvertRequest::new(to)).expect("converted");
        assert!(holds(&made, f32::MIN) && !holds(&made, half), "{to}");
        for emulate in [false, true] {
            let keep = vec![
                Keep::None,
                Keep::Nodes("Sub".parse().expect("a pattern")),
                Keep::Nodes("Mul".parse().expect("a pattern")),
            ];
            let request = ConvertRequest { emulate, keep, ..ConvertRequest::new(to) };
            let (made, _) = convert_bytes(&bytes, &request).expect("converted");
            assert!(!holds(&made, f32::MIN) && holds(&made, half), "{to}, emulated: {emulate}");
            assert_eq!(convert_bytes(&made, &request).expect("converted again").0, made, "{to}, emulated: {emulate}");
        }
    }
}

#[test]
fn nothing_is_kept_where_none_is_wanted() {
    let nodes = between(vec![plain("Exp", &["z"], "e"), plain("Sin", &["e"], "s"), plain("Softmax", &["s"], "r")]);
    let bytes = model(22, nodes, &[("x", FLOAT), ("z", FLOAT)], &[("y", FLOAT)]);
    for to in BOTH {
        assert!(!kept_by(&bytes, &ConvertRequest::new(to)).is_empty(), "{to}");
        assert_eq!(kept_by(&bytes, &ConvertRequest { keep: vec![Keep::None], ..ConvertRequest::new(to) }), [], "{to}");
    }
}

/// Means over axes of declared sizes, of bounded and unbounded values.
#[test]
fn means_over_many_elements() {
    let declared = |name: &str, sizes: &[i64]| {
        let shape = sizes.iter().fold(Message::new(), |shape, &size| shape.message(1, Message::new().int(1, size)));
        let of_type = Message::new().message(1, Message::new().int(1, FLOAT).message(2, shape));
        Message::new().bytes(1, name).message(2, of_type)
    };
    let axes = |axes: &[i64]| {
        let bytes: Vec<u8> = axes.iter().flat_map(|axis| axis.to_le_bytes()).collect();
        tensor(&[axes.len() as i64], 7, &bytes).bytes(8, "axes")
    };
    for (before, over, is_kept) in [
        ("Relu", &[-1, -2][..], true),
        ("Relu", &[1], false),
        ("Relu", &[], true),
        // A list without an axis stands for all of them.
        ("Relu", &[9], true),
        // A sum of 9,216 numbers of magnitude at most 1 cannot overflow.
        ("Tanh", &[-1, -2], false),
    ] {
        let mut inputs = vec!["a"];
        inputs.extend((!over.is_empty()).then_some("axes"));
        let nodes = between(vec![plain(before, &["h"], "a"), plain("ReduceMean", &inputs, "r")]);
        let graph = nodes.into_iter().fold(Message::new().bytes(2, "g"), |graph, node| graph.message(1, node));
        let listed = if over == [9] { &[][..] } else { over };
        let graph =
            graph.message(5, axes(listed)).message(11, declared("x", &[2, 6])).message(12, declared("y", &[2, 6]));
        let graph = graph.message(13, declared("a", &[2, 8, 96, 96]));
        let bytes = Message::new().int(1, 10).message(7, graph).message(8, Message::new().int(2, 22)).into_bytes();
        let kept = kept_by(&bytes, &ConvertRequest::new(DataType::Float16));
        let kept: Vec<_> = kept.iter().map(|(_, why)| why.as_str()).collect();
        assert_eq!(kept == ["a sum of many terms"], is_kept, "{before} {over:?}: {kept:?}");
        assert_eq!(kept.is_empty(), !is_kept, "{before} {over:?}: {kept:?}");
    }
}

/// Operators that add up squares or exponentials inside are sensitive: in some versions, by an attribute, or unless
/// recorded ranges bound the sum.
#[test]
fn sums_inside_of_operators() {
    let int = |name: &str, value: i64| Message::new().bytes(1, name).int(3, value).int(20, 2);
    let kept_at = |opset: i64, operator: &str, inputs: &[&str], attributes: Vec<Message>, range: Option<f32>| {
        let nodes = between(vec![node(operator, inputs, "r", attributes)]);
        let model = model(opset, nodes, &[("x", FLOAT), ("z", FLOAT)], &[("y", FLOAT)]);
        let mut request = ConvertRequest::new(DataType::Float16);
        request.ranges.extend(range.map(|range| (inputs[0].to_owned(), range)));
        kept_by(&model, &request).into_iter().map(|(_, why)| why).collect::<Vec<_>>()
    };
    let (squares, mean) = (vec!["squares added up".to_owned()], vec!["a mean of squares".to_owned()]);
    let lrn = || vec![int("size", 5)];
    assert_eq!(kept_at(13, "LRN", &["h"], lrn(), None), squares);
    // With a margin of 4, 28 has 5 * 112^2 = 62720, and 29 has 67280.
    assert_eq!(kept_at(13, "LRN", &["h"], lrn(), Some(28.0)), [""; 0]);
    assert_eq!(kept_at(13, "LRN", &["h"], lrn(), Some(29.0)), squares);
    for operator in ["LpPool", "GlobalLpPool"] {
        assert_eq!(kept_at(22, operator, &["h"], vec![], None), ["a norm"], "{operator}");
    }
    // A window of 2 x 3: with the margin, 6 * 100^2 = 60000, and 6 * 104^2 = 64896; 6 * 108^2 overflows.
    let window = || vec![Message::new().bytes(1, "kernel_shape").int(8, 2).int(8, 3).int(20, 7)];
    assert_eq!(kept_at(22, "LpPool", &["h"], window(), Some(26.0)), [""; 0]);
    assert_eq!(kept_at(22, "LpPool", &["h"], window(), Some(27.0)), ["a norm"]);
    // The sum of the mean: with the margin, 6 * 4 * 2700 = 64800 fits; more overflows.
    let many = ["a sum of many terms"];
    assert_eq!(kept_at(22, "AveragePool", &["h"], window(), Some(2700.0)), [""; 0]);
    assert_eq!(kept_at(22, "AveragePool", &["h"], window(), Some(2800.0)), many);
    assert_eq!(kept_at(22, "AveragePool", &["h"], window(), None), [""; 0]);
    let large = vec![Message::new().bytes(1, "kernel_shape").int(8, 90).int(8, 90).int(20, 7)];
    assert_eq!(kept_at(22, "AveragePool", &["h"], large, None), many);
    let inputs = ["h", "z", "z"];
    assert_eq!(kept_at(18, "GroupNormalization", &inputs, vec![], None), mean);
    for (opset, operator) in [(21, "GroupNormalization"), (17, "LayerNormalization"), (23, "RMSNormalization")] {
        let inputs = if operator == "RMSNormalization" { &inputs[..2] } else { &inputs };
        assert_eq!(kept_at(opset, operator, inputs, vec![], None), [""; 0], "{operator}");
        assert_eq!(kept_at(opset, operator, inputs, vec![int("stash_type", 10)], None), mean, "{operator}");
    }
    let inputs = ["h", "z", "z", "z", "z"];
    assert_eq!(kept_at(15, "BatchNormalization", &inputs, vec![], None), [""; 0]);
    assert_eq!(kept_at(15, "BatchNormalization", &inputs, vec![int("training_mode", 1)], None), mean);
    let exponential = ["an exponential that may overflow"];
    assert_eq!(kept_at(22, "Softplus", &["h"], vec![], None), exponential);
    assert_eq!(kept_at(22, "Softplus", &["h"], vec![], Some(3.0)), exponential);
    assert_eq!(kept_at(22, "Softplus", &["h"], vec![], Some(2.5)), [""; 0]);
}
