//! Are values that overflow or are NaN told when a model's weights are cast or quantized, and do losses fail the work?

use onnx_cast::DataType;
use onnx_cast_file::{
    CastRequest, FileError, Loss, QuantizeRequest, QuantizedFormat, RunOptions, Summary, WriteOptions,
};
use onnx_cast_model::{ConvertRequest, Error, ModelBytes, ModelSource, cast, convert_of, quantize};
use std::fs;
use std::path::{Path, PathBuf};
use testkit::proto::{Message, model, node, tensor};

const ROWS: usize = 32;
const COLUMNS: usize = 32;

/// A model that multiplies by a weight, of ones but for some elements.
fn written(folder: &Path, elements: &[(usize, f32)]) -> (PathBuf, PathBuf) {
    let mut values = vec![1f32; ROWS * COLUMNS];
    elements.iter().for_each(|&(at, value)| values[at] = value);
    let raw: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    let weight = tensor(&[ROWS as i64, COLUMNS as i64], 1, &raw).bytes(8, "w");
    let declared = |name: &str| {
        let of_type = Message::new().message(1, Message::new().int(1, 1));
        Message::new().bytes(1, name).message(2, of_type)
    };
    let graph = Message::new().message(1, node("MatMul", &["x", "w"], "y", vec![])).bytes(2, "g").message(5, weight);
    let graph = graph.message(11, declared("x")).message(12, declared("y"));
    let bytes = Message::new().int(1, 13).message(7, graph).message(8, Message::new().int(2, 24)).into_bytes();
    let (input, output) = (folder.join("in.onnx"), folder.join("out.onnx"));
    fs::write(&input, bytes).expect("a file");
    (input, output)
}

/// What is said of a weight that is quantized.
fn quantized(to: &str, elements: &[(usize, f32)]) -> Option<String> {
    let folder = tempfile::tempdir().expect("a folder");
    let (input, output) = written(folder.path(), elements);
    let format: QuantizedFormat = to.parse().expect(to);
    let request = QuantizeRequest::new(format);
    let request = request.clone().run(request.run.clone().write(WriteOptions::default().force(true)));
    let summary: Summary = quantize(&input, &output, &request).unwrap_or_else(|error| panic!("{to}: {error}"));
    assert!(summary.tensors[0].alarms.is_some() && summary.tensors[0].counts.is_none(), "{to}");
    let dry = quantize(&input, &output, &request.clone().run(request.run.clone().dry_run(true))).expect("a plan");
    assert_eq!(dry.tensors[0].alarms, None, "{to}");
    // The same, counted in full.
    let counted = request.clone().run(request.run.clone().losses(true));
    for dry_run in [false, true] {
        let full =
            quantize(&input, &output, &counted.clone().run(counted.run.clone().dry_run(dry_run))).expect("counted");
        assert_eq!(full.tensors[0].counts.map(|counts| counts.values), Some((ROWS * COLUMNS) as u64), "{to}");
        assert_eq!(full.warning(), summary.warning(), "{to}");
    }
    summary.warning().map(|warning| warning.to_string())
}

#[test]
fn what_quantizing_spoils_is_told() {
    let is = |text: &str| Some(format!("{text} (first in tensor `w`)"));
    for to in ["int8", "int4", "float8e4m3fn", "mxfp4", "mxfp8", "nvfp4"] {
        assert_eq!(quantized(to, &[]), None, "{to}");
        assert_eq!(quantized(to, &[(0, 1000.0), (77, -3e-5)]), None, "{to}");
    }
    assert_eq!(quantized("int8", &[(5, f32::NAN), (40, f32::NAN)]), is("2 values were NaN"));
    assert_eq!(quantized("float8e4m3fn", &[(5, f32::NAN)]), is("1 value was NaN"));
    // The others of the block become NaN with it.
    for (to, others) in [("mxfp4", 31), ("nvfp4", 15)] {
        let want = format!("{others} values became NaN, 1 value was NaN");
        assert_eq!(quantized(to, &[(5, f32::NAN)]), is(&want), "{to}");
    }
    assert!(quantized("int8", &[(5, f32::INFINITY)]).is_some());
}

#[test]
fn losses_fail_with_nothing_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let (input, output) = written(folder.path(), &[(3, f32::NAN), (9, 1e6)]);
    let failed = |done: Result<Summary, Error>, want: Loss| match done {
        Err(Error::File { error: FileError::Loss { loss, tensor, .. } }) => {
            assert_eq!((loss, tensor.as_str()), (want, "w"));
            assert!(!output.exists(), "{want}");
        }
        other => panic!("{want}: {other:?}"),
    };
    for dry_run in [true, false] {
        let request = QuantizeRequest::new("int8".parse::<QuantizedFormat>().expect("a format"));
        failed(
            quantize(
                &input,
                &output,
                &request.clone().run(RunOptions::new().dry_run(dry_run).fail_on(vec![Loss::Nan])),
            ),
            Loss::Nan,
        );
        let request =
            CastRequest::new(DataType::Float16).run(RunOptions::new().dry_run(dry_run).fail_on(vec![Loss::Overflow]));
        failed(cast(&input, &output, &request), Loss::Overflow);
    }
    let request = QuantizeRequest::new("int8".parse::<QuantizedFormat>().expect("a format"));
    quantize(&input, &output, &request.run(RunOptions::new().fail_on(vec![Loss::Overflow]))).expect("no overflow");
}

#[test]
fn what_a_cast_loses_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let (input, output) = written(folder.path(), &[(3, 1e6), (4, -1e30), (9, f32::NAN)]);
    let force = RunOptions::new().write(WriteOptions::default().force(true));
    let request = CastRequest::new(DataType::Float16).run(force);
    let said = cast(&input, &output, &request).expect("cast").warning();
    assert_eq!(said, Some("2 values overflowed, 1 value was NaN (first in tensor `w`)".into()));
    let said =
        cast(&input, &output, &request.clone().run(request.run.clone().dry_run(true))).expect("a plan").warning();
    assert_eq!(said, None);
    let (input, output) = written(folder.path(), &[]);
    let done = cast(&input, &output, &request).expect("cast");
    assert_eq!((done.warning(), done.tensors[0].counts), (None, None));
}

/// A model without a constant to cast.
#[test]
fn nothing_is_told_of_what_is_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let (input, output) = (folder.path().join("in.onnx"), folder.path().join("out.onnx"));
    fs::write(&input, model(21, vec![node("Relu", &["x"], "y", vec![])], &[("x", 1)], &[("y", 1)])).expect("a file");
    let done = cast(&input, &output, &CastRequest::new(DataType::Float16)).expect("cast");
    assert_eq!((done.tensors.len(), done.warning()), (0, None));
}

/// Weights that are read in other ways than quantizing takes are kept, and named with the reason.
#[test]
fn weights_that_are_passed_over_are_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let (input, output) = (folder.path().join("in.onnx"), folder.path().join("out.onnx"));
    let raw = 0.5f32.to_le_bytes().repeat(ROWS * COLUMNS);
    let weight = |name: &str| tensor(&[ROWS as i64, COLUMNS as i64], 1, &raw).bytes(8, name);
    let value = Message::new().bytes(1, "value").message(5, weight("")).int(20, 4);
    let declared = |name: &str| {
        let of_type = Message::new().message(1, Message::new().int(1, 1));
        Message::new().bytes(1, name).message(2, of_type)
    };
    let write = |right: bool| {
        let mut nodes = vec![
            node("Constant", &[], "constant", vec![value.clone()]),
            node("Reshape", &["constant", "shape"], "a", vec![]),
            node("MatMul", &["x", "a"], "b", vec![]),
            node("Squeeze", &["squeezed"], "s", vec![]),
            node("MatMul", &["b", "s"], "c", vec![]),
            node("MatMul", &["c", "given"], "d", vec![]),
        ];
        nodes.extend(right.then(|| node("MatMul", &["d", "right"], "y", vec![])));
        let graph = nodes.into_iter().fold(Message::new().bytes(2, "g"), |graph, node| graph.message(1, node));
        let names = ["squeezed", "given", "right"];
        let graph = names.iter().fold(graph, |graph, name| graph.message(5, weight(name)));
        let graph = graph.message(11, declared("x")).message(11, declared("given"));
        let graph = graph.message(12, declared(if right { "y" } else { "d" }));
        let bytes = Message::new().int(1, 10).message(7, graph).message(8, Message::new().int(2, 21)).into_bytes();
        fs::write(&input, bytes).expect("a file");
    };
    let request = QuantizeRequest::new("int8".parse::<QuantizedFormat>().expect("a format"));
    let want = [
        ("constant", "Reshape is between it and MatMul"),
        ("squeezed", "Squeeze is between it and MatMul"),
        ("given", "an input, which callers may replace"),
    ];
    write(true);
    let done = quantize(&input, &output, &request).expect("quantized");
    fs::remove_file(&output).expect("removed");
    let want = want.map(|(name, reason)| (name.to_owned(), reason.to_owned()));
    assert_eq!(done.passed_over, want);
    assert_eq!(done.tensors.iter().filter(|row| row.cast).map(|row| row.name.as_str()).collect::<Vec<_>>(), ["right"]);
    write(false);
    let refused = quantize(&input, &output, &request).expect_err("nothing").to_string();
    let text = "every one is kept: `constant` (Reshape is between it and MatMul), `squeezed` (Squeeze is between it \
                and MatMul), `given` (an input, which callers may replace)";
    assert!(refused.ends_with(text), "{refused}");
}

/// A rule that names constants none of which can have its target would be ignored without a word.
#[test]
fn rules_that_no_constant_obeys_are_refused() {
    let constant = |name: &str, dims: &[i64], data_type: i64, bytes: usize| {
        let value = tensor(dims, data_type, &vec![0x3f; bytes]);
        node("Constant", &[], name, vec![Message::new().bytes(1, "value").message(5, value).int(20, 4)])
    };
    let nodes = vec![
        constant("w", &[32, 32], 1, 4096),
        constant("bias", &[32], 1, 128),
        constant("ids", &[32, 32], 7, 8192),
        node("MatMul", &["x", "w"], "h", vec![]),
        node("Add", &["h", "bias"], "y", vec![]),
    ];
    let folder = tempfile::tempdir().expect("a folder");
    let (input, output) = (folder.path().join("in.onnx"), folder.path().join("out.onnx"));
    fs::write(&input, model(21, nodes, &[("x", 1)], &[("y", 1)])).expect("written");
    let int8: QuantizedFormat = "int8".parse().expect("a format");
    let quantized = |rules: &[&str]| {
        let mut request = QuantizeRequest::new(int8);
        request.selection.rules = rules.iter().map(|rule| rule.parse().expect("a rule")).collect();
        quantize(&input, &output, &request.run(RunOptions::default().dry_run(true)))
    };
    let said = |error: Error| error.to_string().rsplit_once(".onnx: ").expect("a path").1.to_owned();
    for (name, what) in [("bias", "float of shape 32"), ("ids", "int64 of shape 32x32")] {
        let want = format!(
            "`rules` `{name}` has no effect: `{name}` is {what} (want a constant of floats with two axes or more that \
             is not an input, of 256 elements or more; `min_elements` allows fewer)"
        );
        assert_eq!(said(quantized(&[&format!("{name}=int8")]).expect_err(name)), want);
    }
    // What a later rule decides, and what is kept.
    for rules in [&["*=int8"][..], &["bias=int8", "bias=keep"], &["w=int8", "*s=keep"]] {
        quantized(rules).expect("quantized");
    }
    let mut request = CastRequest::new(DataType::Float16);
    request.selection.rules = vec!["bias=float16".parse().expect("a rule")];
    let request = request.run(RunOptions::default().dry_run(true));
    let want = "`rules` `bias` has no effect: `bias` is float of shape 32 (want a constant that is not an input, of 256 \
                elements or more; `min_elements` allows fewer)";
    assert_eq!(said(cast(&input, &output, &request).expect_err("a small constant")), want);
    let mut request = request;
    request.selection.min_elements = Some(1);
    cast(&input, &output, &request).expect("cast");
}

/// Constants whose codes and scales fit float16, and whose product may not.
#[test]
fn weights_that_are_computed_beyond_float16_keep_their_readers_float() {
    const FLOAT: i64 = 1;
    let int = |name: &str, value: i64| Message::new().bytes(1, name).int(3, value).int(20, 2);
    let constant = |name: &str, tensor: Message| {
        node("Constant", &[], name, vec![Message::new().bytes(1, "value").message(5, tensor).int(20, 4)])
    };
    let floats = |name: &str, dims: &[i64], values: &[f32]| {
        constant(name, tensor(dims, FLOAT, &values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>()))
    };
    let codes = |rows: [u8; 4]| constant("q", tensor(&[4, 4], 3, &rows.map(|row| [row; 4]).concat()));
    let large = |rows: usize| {
        let mut codes = vec![0; rows * 400];
        codes[0] = 127;
        constant("q", tensor(&[rows as i64, 400], 3, &codes))
    };
    let dequantized = |inputs: &[&str], attributes: Vec<Message>| node("DequantizeLinear", inputs, "w", attributes);
    let by = |codes: Message, scale: f32| vec![codes, floats("s", &[], &[scale]), dequantized(&["q", "s"], vec![])];
    let with_zero_point = |zero_point: u8| {
        let zero_point = constant("z", tensor(&[], 3, &[zero_point]));
        vec![codes([127; 4]), floats("s", &[], &[300.0]), zero_point, dequantized(&["q", "s", "z"], vec![])]
    };
    let by_rows = |rows: [u8; 4]| {
        let scales = floats("s", &[4], &[1.0, 1.0, 1.0, 600.0]);
        vec![codes(rows), scales, dequantized(&["q", "s"], vec![int("axis", 0)])]
    };
    let by_blocks = |rows: [u8; 4]| {
        let scales = floats("s", &[2, 4], &[1.0, 1.0, 1.0, 1.0, 1.0, 600.0, 1.0, 1.0]);
        vec![codes(rows), scales, dequantized(&["q", "s"], vec![int("axis", 0), int("block_size", 2)])]
    };
    let rounded = |value: f32, scale: f32| {
        let quantized = node("QuantizeLinear", &["c", "s"], "q", vec![]);
        let given = [floats("c", &[4, 4], &[value; 16]), floats("s", &[], &[scale])];
        [given.to_vec(), vec![quantized, dequantized(&["q", "s"], vec![])]].concat()
    };
    let product = |by: f32| {
        let cast = node("Cast", &["q"], "c", vec![int("to", FLOAT)]);
        vec![codes([100; 4]), cast, floats("s", &[], &[by]), node("Mul", &["c", "s"], "w", vec![])]
    };
    let transposed = |scale: f32| {
        let codes = [codes([127; 4]), node("Transpose", &["q"], "t", vec![])];
        [codes.to_vec(), vec![floats("s", &[], &[scale]), dequantized(&["t", "s"], vec![])]].concat()
    };
    let cases = [
        ("500", by(codes([127; 4]), 500.0), true),
        ("520", by(codes([127; 4]), 520.0), false),
        ("a zero point of 0", with_zero_point(0), true),
        ("a zero point of -128", with_zero_point(128), false),
        ("rows, of which the last is small", by_rows([127, 127, 127, 1]), true),
        ("rows", by_rows([127; 4]), false),
        ("blocks, of which one is small", by_blocks([127, 127, 1, 1]), true),
        ("blocks", by_blocks([1, 1, 1, 127]), false),
        ("quantized in the model", rounded(60000.0, 500.0), true),
        ("rounded up in the model", rounded(65500.0, 530.0), false),
        ("large", by(large(400), 510.0), true),
        ("large, beyond the type", by(large(400), 520.0), false),
        ("by a cast and a product", product(600.0), true),
        ("by a cast and a product, beyond the type", product(1000.0), false),
        ("transposed", transposed(500.0), true),
        ("transposed, beyond the type", transposed(520.0), false),
    ];
    for (what, mut nodes, is_narrow) in cases {
        nodes.push(node("MatMul", &["x", "w"], "y", vec![]));
        let model = ModelBytes::new(model(21, nodes, &[("x", FLOAT)], &[("y", FLOAT)]), None);
        for (to, is_narrow) in [(DataType::Float16, is_narrow), (DataType::BFloat16, true)] {
            let done = convert_of(ModelSource::Memory(&model), None, &ConvertRequest::new(to));
            let (_, summary) = done.unwrap_or_else(|error| panic!("{what}: {error}"));
            let product = summary.nodes.iter().find(|node| node.operator == "MatMul").expect("the product");
            assert_eq!(product.low, is_narrow, "{what}, {to}: {}", product.why);
            if !is_narrow {
                assert_eq!(product.why, "the constant `w` would overflow or vanish", "{what}");
            }
        }
    }
}
