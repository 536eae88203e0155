//! Are values that overflow or are NaN told when a model's weights are cast or quantized, and do losses fail the work?

use onnx_cast::DataType;
use onnx_cast_file::{
    CastRequest, FileError, Loss, QuantizeRequest, QuantizedFormat, RunOptions, Summary, WriteOptions,
};
use onnx_cast_model::{Error, cast, quantize};
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
    for to in ["mxfp4", "nvfp4", "float8e4m3fn"] {
        assert_eq!(quantized(to, &[(5, f32::NAN)]), is("1 value was NaN"), "{to}");
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
