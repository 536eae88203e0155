//! What is written where runtimes are particular: layer normalization of plain operators, sparse constants, emulated
//! models. `scripts/checks/precision.py` has onnxruntime load and run what is converted.

use super::*;
use crate::source::ModelBytes;
use onnx_cast::{Cast, CastOptions, TensorView};
use onnx_cast_file::__private::{ParsedData, pb};
use testkit::proto::{Message, model, node, tensor};

const FLOAT: i64 = 1;

/// The bytes of a converted model.
fn converted(model: &[u8], request: &ConvertRequest) -> Vec<u8> {
    convert_bytes(model, request).expect("converted")
}

fn convert_bytes(model: &[u8], request: &ConvertRequest) -> Result<Vec<u8>, Error> {
    let model = ModelBytes::new(model.to_vec(), None);
    Ok(convert_of(ModelSource::Memory(&model), None, request)?.0)
}

/// Every node of the main graph as `operator inputs > outputs`.
fn nodes(model: &[u8]) -> Vec<String> {
    let document = Document::parse(model).expect("a model");
    let row = |node: &crate::tree::Node<'_>| {
        format!("{} {} > {}", node.op_type, node.inputs.join(","), node.outputs.join(","))
    };
    document.graph.nodes.iter().map(row).collect()
}

fn float_constant(name: &str, value: f32) -> Message {
    let value = tensor(&[], FLOAT, &value.to_le_bytes());
    node("Constant", &[], name, vec![Message::new().bytes(1, "value").message(5, value).int(20, 4)])
}

fn vector(name: &str) -> Message {
    let value = tensor(&[2], FLOAT, &[1f32, 0.5].map(f32::to_le_bytes).concat());
    node("Constant", &[], name, vec![Message::new().bytes(1, "value").message(5, value).int(20, 4)])
}

fn matrix(name: &str) -> Message {
    let value = tensor(&[2, 2], FLOAT, &[1f32, 0.5, -2.0, 4.0].map(f32::to_le_bytes).concat());
    node("Constant", &[], name, vec![Message::new().bytes(1, "value").message(5, value).int(20, 4)])
}

/// The nodes of a normalization of `x`, as `y`.
fn norm(x: &str, y: &str) -> Vec<Message> {
    let axis = || vec![Message::new().bytes(1, "axes").int(8, -1).int(20, 7)];
    vec![
        float_constant("two", 2.0),
        float_constant("epsilon", 1e-5),
        vector("gamma"),
        vector("beta"),
        node("ReduceMean", &[x], "mean", axis()),
        node("Sub", &[x, "mean"], "difference", vec![]),
        node("Pow", &["difference", "two"], "square", vec![]),
        node("ReduceMean", &["square"], "variance", axis()),
        node("Add", &["variance", "epsilon"], "sum", vec![]),
        node("Sqrt", &["sum"], "deviation", vec![]),
        node("Div", &["difference", "deviation"], "quotient", vec![]),
        node("Mul", &["quotient", "gamma"], "scaled", vec![]),
        node("Add", &["scaled", "beta"], y, vec![]),
    ]
}

/// A normalization with matrix products before and behind it, or one of them.
fn layer(before: bool, behind: bool) -> Vec<u8> {
    let mut nodes = vec![matrix("w")];
    if before {
        nodes.push(node("MatMul", &["x", "w"], "h", vec![]));
    }
    nodes.extend(norm(if before { "h" } else { "x" }, if behind { "l" } else { "y" }));
    if behind {
        nodes.push(node("MatMul", &["l", "w"], "y", vec![]));
    }
    model(17, nodes, &[("x", FLOAT)], &[("y", FLOAT)])
}

/// The type of the fused operator's input, of its scale and of its bias, as onnxruntime finds them, if it fuses.
fn fused(model: &[u8]) -> Option<[String; 3]> {
    let document = Document::parse(model).expect("a model");
    let typing = Typing::of(&document).expect("types");
    let body = &typing.bodies[0];
    let of_type = |id: Option<Id>| body.types[id.expect("a value")].clone().expect("a type").to_string();
    let step =
        |op_type: &str, from: usize| (from..body.flow.steps.len()).find(|&at| body.flow.steps[at].node.is(op_type));
    let steps = &body.flow.steps;
    let reader = |step: usize| {
        let id = steps[step].outputs[0].expect("an output");
        let [read] = body.flow.values[id].reads.iter().collect::<Vec<_>>()[..] else { panic!("one reader") };
        read.step
    };
    let division = step("Div", 0).expect("a quotient");
    let mut scale = reader(division);
    if steps[scale].node.is("Cast") {
        scale = reader(scale);
    }
    let bias = reader(scale);
    if !steps[scale].node.is("Mul") || !steps[bias].node.is("Add") {
        return None;
    }
    let input = steps[step("ReduceMean", 0).expect("a mean")].inputs[0].expect("an input");
    let value = &body.flow.values[input];
    let before = match value.origin {
        Origin::Node(step, 0) if steps[step].node.is("Cast") && value.reads.len() == 2 && value.outputs == 0 => {
            steps[step].inputs[0]
        }
        _ => Some(input),
    };
    Some([of_type(before), of_type(steps[scale].inputs[1]), of_type(steps[bias].inputs[1])])
}

#[test]
fn a_fused_normalization_is_of_one_type() {
    let all = |of_type: &str| Some([of_type, of_type, of_type].map(String::from));
    let keep: Vec<Keep> = ["sensitive", "Mul", "Add"].map(|one| one.parse().expect("a pattern")).into();
    let plain = ConvertRequest::new(DataType::Float16);
    let kept = ConvertRequest { keep: keep.clone(), ..plain.clone() };
    let low = ConvertRequest { low: vec!["Mul".parse().expect("a pattern")], ..plain.clone() };
    let emulated = ConvertRequest { emulate: true, ..plain.clone() };
    let rounded = ConvertRequest { emulate: true, keep, ..ConvertRequest::new(DataType::BFloat16) };
    let cases = [
        (layer(true, true), &plain, all("float16")),
        (layer(false, true), &plain, all("float")),
        (layer(true, false), &plain, all("float")),
        (layer(true, true), &kept, all("float")),
        (layer(true, false), &kept, all("float")),
        (layer(false, true), &low, None),
        (layer(true, false), &emulated, all("float")),
        (layer(true, false), &rounded, all("float")),
    ];
    for (index, (model, request, want)) in cases.into_iter().enumerate() {
        let once = converted(&model, request);
        assert_eq!(fused(&once), want, "{index}: {:#?}", nodes(&once));
        assert_eq!(converted(&once, request), once, "{index}: converted again");
    }
}

/// A normalization whose Cast is outside a function, and one whose float input others read, too.
#[test]
fn a_cast_that_is_read_elsewhere_too_is_not_taken_away() {
    let mut shared = vec![matrix("w"), node("MatMul", &["x", "w"], "h", vec![]), node("Softmax", &["h"], "p", vec![])];
    shared.extend(norm("h", "l"));
    shared.extend([node("MatMul", &["l", "w"], "m", vec![]), node("Add", &["m", "p"], "y", vec![])]);
    let shared = model(17, shared, &[("x", FLOAT)], &[("y", FLOAT)]);
    let once = converted(&shared, &ConvertRequest::new(DataType::Float16));
    // The input of the mean is read three times, so that its Cast stays, and so does float.
    let rows = nodes(&once);
    assert!(rows.contains(&"Mul quotient,gamma > scaled".to_owned()), "{rows:#?}");
    assert!(rows.contains(&"Cast l > l_float16".to_owned()), "{rows:#?}");
    assert!(!rows.iter().any(|row| row.starts_with("Sum ")), "{rows:#?}");
}

fn sparse(name: &str) -> Message {
    let values = tensor(&[2], FLOAT, &[1f32, 2.0].map(f32::to_le_bytes).concat()).bytes(8, name);
    let indices = tensor(&[2], 7, &[0i64, 3].map(i64::to_le_bytes).concat());
    Message::new().message(1, values).message(2, indices).int(3, 2).int(3, 2)
}

#[test]
fn sparse_constants_stay_float_behind_a_cast() {
    let value = Message::new().bytes(1, "sparse_value").message(22, sparse("")).int(20, 11);
    let product = || node("MatMul", &["x", "s"], "y", vec![]);
    let constant = model(17, vec![node("Constant", &[], "s", vec![value]), product()], &[("x", 1)], &[("y", 1)]);
    let declared = |name: &str| {
        let of_type = Message::new().message(1, Message::new().int(1, FLOAT));
        Message::new().bytes(1, name).message(2, of_type)
    };
    let graph =
        Message::new().message(1, product()).bytes(2, "g").message(11, declared("x")).message(12, declared("y"));
    let graph = graph.message(15, sparse("s"));
    let import = Message::new().int(2, 17);
    let initializer = Message::new().int(1, 8).message(7, graph).message(8, import).into_bytes();
    for (model, first) in [(constant, 1), (initializer, 0)] {
        let rows = nodes(&converted(&model, &ConvertRequest::new(DataType::Float16)));
        assert!(rows[first..].contains(&"Cast s > s_float16".to_owned()), "{rows:#?}");
        assert!(rows.contains(&"MatMul x_float16,s_float16 > y_float16".to_owned()), "{rows:#?}");
    }
}

#[test]
fn an_emulated_model_is_emulated_once() {
    let mask = tensor(&[1], FLOAT, &f32::MIN.to_le_bytes());
    let value = Message::new().bytes(1, "value").message(5, mask).int(20, 4);
    let nodes_of = vec![
        matrix("w"),
        node("MatMul", &["x", "w"], "h", vec![]),
        node("Shape", &["h"], "shape", vec![]),
        node("ConstantOfShape", &["shape"], "mask", vec![value]),
        node("Add", &["h", "mask"], "a", vec![]),
        node("Softmax", &["a"], "p", vec![]),
        node("MatMul", &["p", "w"], "y", vec![]),
    ];
    let model = model(17, nodes_of, &[("x", FLOAT)], &[("y", FLOAT)]);
    for to in [DataType::Float16, DataType::BFloat16] {
        for interface in [Interface::default(), Interface { low: true, named: Vec::new() }] {
            let keep = vec![Keep::None];
            let request = ConvertRequest { emulate: true, keep, io: interface, ..ConvertRequest::new(to) };
            let once = converted(&model, &request);
            assert!(nodes(&once).iter().any(|row| row.starts_with("Cast ")), "{to}");
            assert_eq!(nodes(&converted(&once, &request)), nodes(&once), "{to}");
            assert_eq!(converted(&once, &request), once, "{to}");
        }
    }
}

#[test]
fn an_emulated_output_keeps_its_name() {
    let nodes_of = vec![matrix("w"), node("MatMul", &["x", "w"], "h", vec![]), node("Exp", &["h"], "y", vec![])];
    let model = model(17, nodes_of, &[("x", FLOAT)], &[("y", FLOAT)]);
    let interface = Interface { low: true, named: Vec::new() };
    let keep = vec![Keep::Nodes(Pattern::from_str("Exp").expect("a pattern"))];
    let request = ConvertRequest { emulate: true, keep, io: interface, ..ConvertRequest::new(DataType::Float16) };
    let once = converted(&model, &request);
    let document = Document::parse(&once).expect("a model");
    let names: Vec<_> = document.graph.outputs.iter().map(|output| output.name).collect();
    assert_eq!(names, ["y"], "{:#?}", nodes(&once));
    assert!(nodes(&once).contains(&"Exp h > y_exact".to_owned()), "{:#?}", nodes(&once));
    assert_eq!(converted(&once, &request), once);
}

/// The number that a ConstantOfShape gives.
fn fill(model: &[u8]) -> f32 {
    let document = Document::parse(model).expect("a model");
    let node = document.graph.nodes.iter().find(|node| node.is("ConstantOfShape")).expect("the node");
    let value = node.attribute("value").expect("its number");
    let Ok(Some(crate::constant::ConstantValue::Tensor(message))) = crate::constant::ConstantValue::of(value) else {
        panic!("a tensor")
    };
    let source = pb::parse(message).expect("a tensor");
    let ParsedData::Bytes(bytes) = source.data else { panic!("numbers") };
    let view = TensorView::new(source.data_type, &[1], &bytes).expect("one number");
    let to_float = Cast::new(DataType::Float, &CastOptions::new()).expect("a Cast");
    to_float.run(&view).expect("cast").to_vec::<f32>().expect("floats")[0]
}

#[test]
fn a_mask_is_the_same_emulated() {
    // From opset 20 on, ConstantOfShape takes bfloat16.
    for (opset, to, number, want) in [
        (17, DataType::BFloat16, f32::MIN, -f32::from_bits(0x7eff_0000)),
        (20, DataType::BFloat16, f32::MIN, -f32::from_bits(0x7eff_0000)),
        (20, DataType::BFloat16, -1e9, -998_244_352.0),
        (17, DataType::Float16, f32::MIN, -32752.0),
        (17, DataType::Float16, -1e9, -32752.0),
        (17, DataType::Float16, 0.1, 0.099_975_586),
    ] {
        let value = tensor(&[1], FLOAT, &number.to_le_bytes());
        let value = Message::new().bytes(1, "value").message(5, value).int(20, 4);
        let nodes_of = vec![
            matrix("w"),
            node("MatMul", &["x", "w"], "h", vec![]),
            node("Shape", &["h"], "shape", vec![]),
            node("ConstantOfShape", &["shape"], "mask", vec![value]),
            node("Add", &["h", "mask"], "a", vec![]),
            node("Softmax", &["a"], "p", vec![]),
            node("MatMul", &["p", "w"], "y", vec![]),
        ];
        let model = model(opset, nodes_of, &[("x", FLOAT)], &[("y", FLOAT)]);
        for emulate in [false, true] {
            let request = ConvertRequest { emulate, keep: vec![Keep::None], ..ConvertRequest::new(to) };
            let got = fill(&converted(&model, &request));
            assert_eq!(got.to_bits(), want.to_bits(), "{number} in {to} at {opset}, emulated: {emulate}: {got}");
        }
    }
}

/// More than are looked at before they are written: what overflows then is kept float, emulated or not.
#[test]
fn a_large_constant_that_overflows_stays_float() {
    let count = 70_000;
    for (to, number) in [(DataType::Float16, 1e6f32), (DataType::BFloat16, f32::MIN)] {
        let value = tensor(&[1, count], FLOAT, &number.to_le_bytes().repeat(count as usize));
        let value = Message::new().bytes(1, "value").message(5, value).int(20, 4);
        let nodes_of = vec![
            node("Constant", &[], "large", vec![value]),
            node("Transpose", &["large"], "t", vec![]),
            node("MatMul", &["large", "t"], "m", vec![]),
            node("Min", &["m", "x"], "y", vec![]),
        ];
        let model = model(17, nodes_of, &[("x", FLOAT)], &[("y", FLOAT)]);
        for emulate in [false, true] {
            let once = converted(&model, &ConvertRequest { emulate, ..ConvertRequest::new(to) });
            let rows = nodes(&once);
            assert!(rows.contains(&"MatMul large,t > m".to_owned()), "{to}, emulated: {emulate}: {rows:#?}");
            assert!(once.windows(4 * 64).any(|bytes| bytes == number.to_le_bytes().repeat(64)), "{to}: {emulate}");
            let request = ConvertRequest {
                emulate,
                low: vec![Pattern::from_str("MatMul").expect("a pattern")],
                ..ConvertRequest::new(to)
            };
            let refused = convert_bytes(&model, &request).expect_err("refused").to_string();
            let want = format!(
                "constant `large` overflows or vanishes in {to}, and a node that a pattern makes narrow reads it"
            );
            assert!(refused.ends_with(&want), "{refused}");
        }
    }
}

/// A pattern of `low` that cannot have an effect is refused with the reason, as are `none` and `sensitive` together.
#[test]
fn patterns_without_an_effect_are_refused() {
    let nodes = vec![
        matrix("w"),
        node("MatMul", &["x", "w"], "h", vec![]),
        node("Softmax", &["h"], "p", vec![]),
        node("Bernoulli", &["p"], "r", vec![]),
        node("Shape", &["r"], "s", vec![]),
        node("Abs", &["s"], "t", vec![]),
        node("Reshape", &["r", "t"], "y", vec![]),
    ];
    let model = model(22, nodes, &[("x", FLOAT)], &[("y", FLOAT)]);
    let request = |keep: &[&str], low: &[&str]| {
        let keep = keep.iter().map(|text| text.parse().expect("a pattern")).collect();
        let low = low.iter().map(|text| text.parse().expect("a pattern")).collect();
        ConvertRequest::new(DataType::Float16).keep(keep).low(low)
    };
    for (keep, low, want) in [
        (
            &[][..],
            &["Bernoulli"][..],
            "`low` `Bernoulli` has no effect: `r` stays float: its operator or an attribute fixes",
        ),
        (&[], &["Softmax", "Abs"], "`low` `Abs` has no effect: `t` does not compute with floats"),
        (&["Soft*"], &["Softmax"], "`low` `Softmax` has no effect: `p` stays float: kept by the pattern Soft*"),
        (&["none", "sensitive"], &[], "`keep` takes `none` or `sensitive`, which contradict each other"),
    ] {
        let said = convert_bytes(&model, &request(keep, low)).expect_err(want).to_string();
        assert!(said.contains(want), "{said}");
    }
    for (keep, low) in [(&["none"][..], &["MatMul"][..]), (&["sensitive"], &["Softmax"]), (&[], &["re:Softmax|Abs"])] {
        let once = converted(&model, &request(keep, low));
        assert_eq!(converted(&once, &request(keep, low)), once, "{keep:?}, {low:?}");
    }
}

/// The summary says that no node became narrow, and why.
#[test]
fn a_model_without_a_narrow_node_is_said_to_be_so() {
    let said = |nodes: Vec<Message>, of_type: i64| {
        let model = ModelBytes::new(model(22, nodes, &[("x", of_type)], &[("y", of_type)]), None);
        let request = ConvertRequest::new(DataType::Float16);
        convert_of(ModelSource::Memory(&model), None, &request).expect("converted").1.nothing_narrow()
    };
    let softmax = || node("Softmax", &["x"], "h", vec![]);
    let why = "a sum of exponentials";
    let one = said(vec![node("Softmax", &["x"], "y", vec![])], FLOAT);
    assert_eq!(one, Some(format!("nothing became float16: the one node stays float: sensitive: {why}")));
    let two = said(vec![softmax(), node("Softmax", &["h"], "y", vec![])], FLOAT);
    assert_eq!(two, Some(format!("nothing became float16: 2 nodes stay float: sensitive: {why} (2)")));
    let other = said(vec![node("Abs", &["x"], "y", vec![])], 7);
    assert_eq!(other.as_deref(), Some("nothing became float16: no node computes with floats of another type"));
    assert_eq!(said(vec![matrix("w"), softmax(), node("MatMul", &["h", "w"], "y", vec![])], FLOAT), None);
}

/// A Cast to float behind a DequantizeLinear that gives float16 becomes one that changes nothing. onnxruntime removes
/// it, and would fuse the DequantizeLinear with the MatMul, whose types differ: a copy between keeps them apart.
#[test]
fn dequantized_values_are_kept_apart() {
    let int = |name: &str, value: i64| Message::new().bytes(1, name).int(3, value).int(20, 2);
    let codes = tensor(&[2, 2], 3, &[1, 2, 3, 4]);
    let codes = node("Constant", &[], "q", vec![Message::new().bytes(1, "value").message(5, codes).int(20, 4)]);
    let nodes_with = |between: Vec<Message>, w: &str| {
        let dequantize = node("DequantizeLinear", &["q", "s"], "d", vec![int("output_dtype", 10)]);
        let mut nodes = vec![codes.clone(), float_constant("s", 0.5), dequantize];
        nodes.extend(between);
        nodes.push(node("MatMul", &["x", w], "y", vec![]));
        model(23, nodes, &[("x", FLOAT)], &[("y", FLOAT)])
    };
    let cast = |from: &str| node("Cast", &[from], "w", vec![int("to", 1)]);
    let plain = nodes_with(vec![cast("d")], "w");
    let turned = nodes_with(vec![node("Transpose", &["d"], "t", vec![]), cast("t")], "w");
    for model in [plain, turned] {
        let request = ConvertRequest::new(DataType::Float16);
        let once = converted(&model, &request);
        let nodes = nodes(&once);
        for want in ["Sum w > w_copy", "MatMul x_float16,w_copy > y_float16"] {
            assert!(nodes.iter().any(|node| node == want), "{nodes:?}");
        }
        assert_eq!(converted(&once, &request), once);
        assert!(!nodes_have_sum(&converted(&model, &ConvertRequest::new(DataType::BFloat16))));
    }
}

fn nodes_have_sum(model: &[u8]) -> bool {
    nodes(model).iter().any(|node| node.starts_with("Sum "))
}

/// A pattern for everything leaves the Casts that a first conversion wrote alone.
#[test]
fn a_pattern_for_everything_adds_no_more_casts() {
    let low = vec![Pattern::from_str("*").expect("a pattern")];
    let request = ConvertRequest { low, ..ConvertRequest::new(DataType::Float16) };
    let nodes_of = vec![matrix("w"), node("MatMul", &["x", "w"], "h", vec![]), node("Relu", &["h"], "y", vec![])];
    let once = converted(&model(17, nodes_of, &[("x", FLOAT)], &[("y", FLOAT)]), &request);
    assert_eq!(converted(&once, &request), once);
}

/// A float16 or bfloat16 model becomes float, except for operators that draw random numbers.
#[test]
fn a_narrow_model_becomes_float_again() {
    let (half, bfloat) = (10, 16);
    for (of_type, one, float_one) in [(half, 0x3c00_u16, 1.0_f32), (bfloat, 0x3f80, 1.0)] {
        let value = tensor(&[2, 2], of_type, &one.to_le_bytes().repeat(4));
        let value = Message::new().bytes(1, "value").message(5, value).int(20, 4);
        let dtype = Message::new().bytes(1, "dtype").int(3, of_type).int(20, 2);
        let nodes_of = vec![
            node("Constant", &[], "w", vec![value]),
            node("MatMul", &["x", "w"], "h", vec![]),
            node("RandomUniformLike", &["h"], "r", vec![dtype]),
            node("Softmax", &["h"], "y", vec![]),
        ];
        let model = model(22, nodes_of, &[("x", of_type)], &[("y", of_type), ("r", of_type)]);
        let request = ConvertRequest::new(DataType::Float);
        let once = converted(&model, &request);
        let stored = float_one.to_le_bytes().repeat(4);
        assert!(once.windows(stored.len()).any(|bytes| bytes == stored), "{of_type}");
        assert!(nodes(&once).iter().any(|row| row.starts_with("Cast x > ")), "{of_type}: {:#?}", nodes(&once));
        assert_eq!(converted(&once, &request), once, "{of_type}");
        let low = ConvertRequest { io: Interface { low: true, named: Vec::new() }, ..request };
        let rows = nodes(&converted(&model, &low));
        assert!(rows.contains(&"MatMul x,w > h".to_owned()) && rows.contains(&"Softmax h > y".to_owned()), "{rows:#?}");
        // A conversion to the other 16-bit type and back keeps the value.
        let other = if of_type == half { DataType::BFloat16 } else { DataType::Float16 };
        let back = if of_type == half { DataType::Float16 } else { DataType::BFloat16 };
        let all = |to| ConvertRequest { keep: vec![Keep::None], ..ConvertRequest { to, ..low.clone() } };
        let there = converted(&model, &all(other));
        let again = nodes(&converted(&there, &all(back)));
        assert_eq!(again.iter().filter(|row| row.starts_with("MatMul x,w > h")).count(), 1, "{again:#?}");
    }
    let emulated = ConvertRequest { emulate: true, ..ConvertRequest::new(DataType::Float) };
    let refused = convert_bytes(&layer(true, true), &emulated).expect_err("refused").to_string();
    assert!(refused.ends_with("emulated in float16, bfloat16 or a float8 type, not to float"), "{refused}");
}
