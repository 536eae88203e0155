//! Are models evaluated, and the others refused by name?

use onnx_cast::tensor::TensorData;
use onnx_cast::{DataType, Tensor};
use onnx_cast_file::{
    DiffRequest, Difference, InspectRequest, NamedTensor, QuantizeRequest, RunOptions, WeightFormat, WriteOptions,
};
use onnx_cast_model::{
    ConvertRequest, FoldOutcome, FoldRequest, Model, ModelBytes, ModelSource, RecordRequest, UpgradeRequest, convert,
    diff_of, fold, fold_of, inspect, inspect_of, quantize, record, upgrade, upgrade_of,
};
use testkit::fixtures::{file, files};
use testkit::proto::{Message, int_attribute, node};

const MODELS: &str = include_str!("fixtures/models.txt");
/// Written by `scripts/generate/optimized_models.py`.
const OPTIMIZED: &str = include_str!("fixtures/optimized.txt");

fn model(name: &str) -> Model {
    Model::parse(&file(MODELS, name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn refusal(name: &str) -> String {
    Model::parse(&file(MODELS, name)).expect_err(name).to_string()
}

fn named(name: &str, tensor: Tensor) -> NamedTensor {
    NamedTensor { name: name.to_owned(), tensor }
}

fn floats(values: &[f32]) -> Tensor {
    Tensor::from_slice(vec![values.len()], values).expect("a tensor")
}

fn strings(tensor: &Tensor) -> Vec<String> {
    match tensor.clone().into_parts().2 {
        TensorData::Strings(strings) => {
            strings.view().iter().map(|string| String::from_utf8_lossy(string).into_owned()).collect()
        }
        _ => panic!("no strings"),
    }
}

#[test]
fn a_cast() {
    let model = model("cast");
    assert_eq!(model.opset(), 21);
    assert_eq!((model.inputs()[0].name.as_str(), model.inputs()[0].data_type), ("x", Some(DataType::Float)));
    assert_eq!((model.outputs()[0].name.as_str(), model.outputs()[0].data_type), ("y", Some(DataType::Float16)));
    let outputs = model.run(vec![named("x", floats(&[1.0, 65520.0]))]).expect("run");
    assert_eq!(outputs.len(), 1);
    assert_eq!((outputs[0].name.as_str(), outputs[0].tensor.data_type()), ("y", DataType::Float16));
    assert_eq!(outputs[0].tensor.bytes(), Some(&[0x00, 0x3c, 0x00, 0x7c][..]));
}

#[test]
fn every_operator() {
    let outputs = model("chain").run(vec![named("x", floats(&[1.0, 1000.0]))]).expect("run");
    let [y, same, z, x] = &outputs[..] else { panic!("{outputs:?}") };
    // saturate = 0: 1000 is NaN in float8e4m3fn.
    assert_eq!(same.tensor.bytes(), Some(&[0x38, 0x7f][..]));
    assert_eq!(y.tensor.bytes(), Some(&[0x00, 0x3c, 0x00, 0x7e][..]));
    assert_eq!(strings(&z.tensor), ["1.5", "-2"]);
    assert_eq!(x.tensor, floats(&[1.0, 1000.0]));

    let outputs = model("constants").run(vec![]).expect("run");
    let [float, floats_, int, ints, string, strings_] = &outputs[..] else { panic!("{outputs:?}") };
    assert_eq!((float.tensor.shape(), float.tensor.to_vec::<f32>()), (&[][..], Some(vec![1.5])));
    assert_eq!(floats_.tensor, floats(&[1.0, 2.0]));
    assert_eq!((int.tensor.shape(), int.tensor.to_vec::<i64>()), (&[][..], Some(vec![-3])));
    assert_eq!(ints.tensor.to_vec::<i64>(), Some(vec![-1, 1 << 40]));
    assert_eq!((string.tensor.shape(), strings(&string.tensor)), (&[][..], vec!["a".to_owned()]));
    assert_eq!(strings(&strings_.tensor), ["a", "", "b"]);

    let outputs = model("bit_cast").run(vec![named("x", floats(&[1.0, -0.0, 2.0]))]).expect("run");
    assert_eq!(outputs[0].tensor.to_vec::<i32>(), Some(vec![0x3f80_0000, i32::MIN, 0x4000_0000]));

    let outputs = model("cast_1").run(vec![named("x", floats(&[1.0, 2.0]))]).expect("run");
    assert_eq!(outputs[0].tensor.bytes(), Some(&[0x00, 0x3c, 0x00, 0x40][..]));
}

#[test]
fn an_input_with_an_initializer_may_be_left_out() {
    let model = model("default");
    let outputs = model.run(vec![]).expect("run");
    assert_eq!(outputs[0].tensor.bytes(), Some(&[0x00, 0x3e, 0x00, 0xc0][..]));
    let outputs = model.run(vec![named("scale", floats(&[1.0, 2.0]))]).expect("run");
    assert_eq!(outputs[0].tensor.bytes(), Some(&[0x00, 0x3c, 0x00, 0x40][..]));
    // The model is as it was.
    assert_eq!(model.run(vec![]).expect("run")[0].tensor.bytes(), Some(&[0x00, 0x3e, 0x00, 0xc0][..]));
}

/// A field of a message.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    [&[number << 3 | 2, bytes.len() as u8], bytes].concat()
}

/// The bytes of a model of this version of the format: `w`, an initializer and an input, is cast to float16, and `x`
/// is.
fn of_version(ir_version: u8) -> Vec<u8> {
    let cast = |input: &[u8], output: &[u8]| {
        let to = [field(1, b"to"), vec![3 << 3, DataType::Float16.onnx() as u8]].concat();
        field(1, &[field(1, input), field(2, output), field(4, b"Cast"), field(5, &to)].concat())
    };
    let float = field(2, &field(1, &[1 << 3, DataType::Float.onnx() as u8]));
    let input = |name: &[u8]| field(11, &[field(1, name), float.clone()].concat());
    let output = |name: &[u8]| field(12, &field(1, name));
    let ones = [vec![1 << 3, 1, 2 << 3, 1], field(8, b"w"), field(9, &1f32.to_le_bytes())].concat();
    let values = [input(b"w"), input(b"x"), field(5, &ones), output(b"v"), output(b"y")];
    let graph = [cast(b"w", b"v"), cast(b"x", b"y"), values.concat()].concat();
    [vec![1 << 3, ir_version], field(8, &[2 << 3, 9]), field(7, &graph)].concat()
}

/// Where the format asks for the input, it is not a default: `fold` computes its Cast, and takes the input along.
#[test]
fn an_initializer_of_an_old_model_is_a_constant() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, folded) = (folder.path().join("x.onnx"), folder.path().join("y.onnx"));
    for (ir_version, want, computed) in [(3, &["x"][..], 1), (4, &["w", "x"], 0)] {
        std::fs::write(&path, of_version(ir_version)).expect("written");
        let force = RunOptions::new().write(WriteOptions::default().force(true));
        let done = fold(&path, &folded, &FoldRequest::default().run(force)).expect("folded");
        assert_eq!(done.computed, computed, "version {ir_version}");
        for path in [&path, &folded] {
            let model = Model::read(path).expect("a model");
            let names: Vec<&str> = model.inputs().iter().map(|input| input.name.as_str()).collect();
            assert_eq!(names, want, "version {ir_version}");
            let half = |outputs: &[NamedTensor]| outputs[0].tensor.bytes().map(<[u8]>::to_vec);
            let x = || named("x", floats(&[2.0]));
            assert_eq!(half(&model.run(vec![x()]).expect("run")), Some(vec![0x00, 0x3c]));
            let given = model.run(vec![x(), named("w", floats(&[4.0]))]).map_err(|error| error.to_string());
            match ir_version {
                3 => assert_eq!(given.expect_err("a constant"), "the model has no input `w` (it has `x`)"),
                _ => assert_eq!(half(&given.expect("run")), Some(vec![0x00, 0x44])),
            }
        }
    }
}

/// What evaluates a model once took one with faults in what it does not read.
#[test]
fn a_field_number_that_no_field_has() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, folded) = (folder.path().join("x.onnx"), folder.path().join("y.onnx"));
    let constant = field(5, &[field(1, b"value_int"), vec![3 << 3, 7]].concat());
    let node = |more: &[u8]| field(1, &[&field(2, b"v"), &field(4, b"Constant"), &constant, more].concat());
    for (bad, number) in [(&[0, 0][..], 0u32), (&[0x80, 0x80, 0x80, 0x80, 0x10, 0], 1 << 29)] {
        let output = || field(12, &field(1, b"v"));
        let graphs = [
            // Beside the nodes, and in a declaration of a value, of its type, and in the metadata.
            ([node(&[]), output(), bad.to_vec()].concat(), vec![]),
            ([node(&[]), output(), field(13, bad)].concat(), vec![]),
            ([node(&[]), output(), field(13, &field(2, bad))].concat(), vec![]),
            ([node(&[]), output()].concat(), field(14, bad)),
            ([node(bad), output()].concat(), vec![]),
        ];
        for (graph, more) in graphs {
            let model = [vec![1 << 3, 10], field(8, &[2 << 3, 21]), field(7, &graph), more].concat();
            std::fs::write(&path, &model).expect("written");
            let want = format!("not a valid ONNX model: a field has the number {number}, which no field may have");
            assert_eq!(Model::parse(&model).map(drop).expect_err("refused").to_string(), want);
            let listed = inspect(&path, &InspectRequest::default()).map(drop).expect_err("refused").to_string();
            assert!(listed.ends_with(&want), "{listed}");
        }
        let in_graph = [node(&[]), output(), field(13, bad)].concat();
        std::fs::write(&path, [vec![1 << 3, 10], field(7, &in_graph)].concat()).expect("written");
        let refused = fold(&path, &folded, &FoldRequest::default()).map(drop).expect_err("refused").to_string();
        assert!(refused.contains(&format!("the number {number},")), "{refused}");
    }
}

#[test]
fn a_model_in_memory_is_one_of_a_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, out) = (folder.path().join("x.onnx"), folder.path().join("out.onnx"));
    std::fs::write(&path, file(MODELS, "subgraph")).expect("written");
    let memory = ModelBytes::new(file(MODELS, "subgraph"), None);
    let (source, request) = (ModelSource::Memory(&memory), UpgradeRequest::default().opset(Some(23)));
    let done = upgrade(&path, &out, &request).expect("raised");
    let (bytes, same) = upgrade_of(source, None, &request).expect("raised");
    assert_eq!((bytes, same), (std::fs::read(&out).expect("read"), done));
    let differences = diff_of([source, ModelSource::File(&out)], &DiffRequest::default()).expect("models");
    assert_eq!(differences, [("opset ai.onnx".to_owned(), Difference::Node("version".to_owned()))]);
    let planned = request.clone().run(RunOptions::new().dry_run(true));
    assert!(upgrade_of(source, None, &planned).expect("planned").0.is_empty());
    // The output would replace another model: one in memory is not a file, whatever its name.
    let refused = upgrade_of(source, Some(&path), &request).map(drop).expect_err("another model").to_string();
    assert!(refused.starts_with(&path.display().to_string()), "{refused}");
}

#[test]
fn types_of_values_are_listed() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("x.onnx");
    std::fs::write(&path, file(MODELS, "subgraph")).expect("written");
    let request = InspectRequest::default().types(true);
    let types = inspect(&path, &request).expect("a model").model.expect("a model").types.expect("types");
    let rows: Vec<_> =
        types.iter().map(|row| (row.name.as_str(), row.of_type.as_deref(), row.graph.as_str())).collect();
    let outputs: Vec<_> = rows.iter().filter(|row| row.0 == "y").collect();
    assert_eq!(outputs, [&("y", Some("float"), "")], "{rows:?}");
    assert!(inspect(&path, &InspectRequest::default()).expect("a model").model.expect("a model").types.is_none());
    let other = folder.path().join("x.safetensors");
    std::fs::write(&other, onnx_cast_file::safetensors::write(None, &[]).expect("bytes")).expect("written");
    let ignored = inspect(&other, &request).expect("a file without tensors").file.ignored;
    assert_eq!(ignored.iter().map(|one| one.option).collect::<Vec<_>>(), ["types"]);
}

#[test]
fn inputs_are_checked() {
    let model = model("cast");
    let error = |inputs| model.run(inputs).expect_err("refused").to_string();
    assert_eq!(error(vec![]), "input `x` is missing");
    assert_eq!(error(vec![named("w", floats(&[1.0]))]), "the model has no input `w` (it has `x`)");
    let twice = vec![named("x", floats(&[1.0, 2.0])), named("x", floats(&[1.0, 2.0]))];
    assert_eq!(error(twice), "`x` is given twice");
    let doubles = Tensor::from_slice(vec![2], &[1.0f64, 2.0]).expect("a tensor");
    assert_eq!(error(vec![named("x", doubles)]), "input `x`: double where the model declares float");
    assert_eq!(error(vec![named("x", floats(&[1.0; 3]))]), "input `x`: shape 3 where the model declares 2");
    let matrix = Tensor::from_slice(vec![1, 2], &[1.0f32, 2.0]).expect("a tensor");
    assert_eq!(error(vec![named("x", matrix)]), "input `x`: shape 1x2 where the model declares 2");
}

#[test]
fn what_is_not_evaluated_is_refused_by_name() {
    let supported = "(want Cast, CastLike, BitCast, QuantizeLinear, DequantizeLinear, DynamicQuantizeLinear, \
                     Constant or Identity)";
    for (name, want) in [
        ("add", format!("node `sum` (Add): operator `Add` is not supported {supported}")),
        ("domain", format!("node 0 (Cast): operator `com.example.Cast` is not supported {supported}")),
        ("subgraph", format!("node 0 (If): operator `If` is not supported {supported}")),
        ("function", "function `com.example.Twice`: functions are not supported".to_owned()),
        ("sparse", "sparse initializers are not supported".to_owned()),
        (
            "external",
            "initializer: tensor `scale`: the elements are in another file (external data), which is not supported"
                .to_owned(),
        ),
        ("no_opset", "the model imports no opset of ONNX's default domain".to_owned()),
        ("new_opset", "the model imports opset 99, which is unknown (want 1 to 28)".to_owned()),
        ("unordered", "node 0 (Identity): reads `y`, which no input, initializer or node before it gives".to_owned()),
        ("no_output", "output: reads `z`, which no input, initializer or node before it gives".to_owned()),
        ("twice", "`y` is given twice".to_owned()),
        ("missing_to", "node 0 (Cast): Cast-21: attribute `to` is missing".to_owned()),
        (
            "unknown_attribute",
            "node 0 (Cast): Cast-21 has no attribute `round_mode` (Cast-24 is the first that has it)".to_owned(),
        ),
        ("two_inputs", "node 0 (Cast): 2 inputs (want 1)".to_owned()),
        ("bit_cast_early", "node 0 (BitCast): opset 21 has no BitCast known here (want 26 to 28)".to_owned()),
        (
            "old_constant",
            "node 0 (Constant): Constant-11 has no attribute `value_float` (Constant-12 is the first that has it)"
                .to_owned(),
        ),
        ("two_values", "node 0 (Constant): 2 attributes (want one, the value)".to_owned()),
        ("sparse_value", "node 0 (Constant): sparse_value is not supported".to_owned()),
    ] {
        assert_eq!(refusal(name), want, "{name}");
    }
    let error = model("undeclared").run(vec![named("x", floats(&[1.0, 2.0]))]).expect_err("refused");
    assert_eq!(error.to_string(), "output `y`: float16 where the model declares float8e4m3fn");
    let halves = Tensor::new(DataType::BFloat16, vec![2], vec![0; 4]).expect("a tensor");
    let error = model("late_identity").run(vec![named("x", halves)]).expect_err("refused");
    assert_eq!(
        error.to_string(),
        "node 0 (Identity): Identity-1 does not take bfloat16 (version 13 is the first that does)"
    );
    assert_eq!(files(MODELS).len(), 26);
}

#[test]
fn what_is_no_model_is_refused() {
    let error = |bytes: &[u8]| Model::parse(bytes).expect_err("refused").to_string();
    assert_eq!(error(b""), "not a valid ONNX model: 0 graphs (want 1)");
    assert_eq!(error(b"Hello World!"), "not a valid ONNX model: groups do not balance");
    let cast = file(MODELS, "cast");
    assert_eq!(error(&cast.repeat(2)), "not a valid ONNX model: 2 graphs (want 1)");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("m.onnx");
    std::fs::write(&path, b"").expect("saved");
    let error = Model::read(&path).expect_err("refused").to_string();
    assert_eq!(error, format!("{}: not a valid ONNX model: 0 graphs (want 1)", path.display()));
}

/// Operators that onnxruntime's optimizer writes, some into ONNX's own domain, are known, and a sparse constant stays.
#[test]
fn models_of_operators_that_onnx_does_not_have() {
    for (name, computed, low, weights) in [("decoder", 17, 15, 7), ("sparse", 3, 0, 0)] {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |file: &str| folder.path().join(file);
        std::fs::write(path("in.onnx"), file(OPTIMIZED, name)).expect("saved");
        let request = UpgradeRequest::default().opset(Some(28));
        let raised = upgrade(path("in.onnx"), path("raised.onnx"), &request).expect(name);
        assert_eq!((raised.from, raised.to, raised.unknown), (11, 28, vec![]), "{name}");
        let request = ConvertRequest::new(DataType::Float16);
        let converted = convert(path("in.onnx"), path("half.onnx"), &request).expect(name);
        assert_eq!(converted.nodes.iter().filter(|node| node.low).count(), low, "{name}");
        let recorded = record(path("in.onnx"), path("recorded.onnx"), &RecordRequest::default()).expect(name);
        assert_eq!(recorded.values.len(), computed, "{name}");
        let mut request = QuantizeRequest::new("int4".parse::<WeightFormat>().expect("a format"));
        request.model.raise_opset = true;
        match quantize(path("in.onnx"), path("int4.onnx"), &request) {
            Ok(summary) => assert_eq!(summary.tensors.iter().filter(|row| row.cast).count(), weights),
            Err(error) => assert!(weights == 0 && error.to_string().contains("no weight to quantize"), "{error}"),
        }
    }
}

/// Types that nothing declares are inferred, and a declaration that is wrong is not believed.
#[test]
fn casts_fold_by_inferred_types() {
    const FLOAT: i64 = 1;
    const HALF: i64 = 10;
    let cast = |input: &str, output: &str, to| node("Cast", &[input], output, vec![int_attribute("to", to)]);
    let call = |input: &str, output: &str| node("F", &[input], output, vec![]).bytes(7, "own");
    let value = |name: &str, of_type| {
        let tensor = Message::new().message(1, Message::new().int(1, of_type));
        Message::new().bytes(1, name).message(2, tensor)
    };
    let body = [node("Neg", &["a"], "n", vec![]), cast("n", "b", FLOAT)];
    // Nodes, wrong declarations, and for each Cast the type that it reads and what becomes of it.
    let rows = [
        (vec![node("Neg", &["x"], "n", vec![]), cast("n", "y", FLOAT)], vec![], vec![(FLOAT, FoldOutcome::Removed)]),
        (
            vec![node("Neg", &["x"], "n", vec![]), cast("n", "h", HALF), cast("h", "y", FLOAT)],
            vec![value("n", HALF)],
            vec![(FLOAT, FoldOutcome::Kept), (HALF, FoldOutcome::Kept)],
        ),
        (vec![call("x", "y")], vec![], vec![(FLOAT, FoldOutcome::Removed)]),
        // Calls that differ leave the type of the function's value open.
        (
            vec![cast("x", "h", HALF), call("h", "z"), call("x", "y")],
            vec![],
            vec![(FLOAT, FoldOutcome::Kept), (0, FoldOutcome::Kept)],
        ),
    ];
    for (nodes, declared, casts) in rows {
        let is_call = nodes.len() != 2 && declared.is_empty();
        let graph = nodes.into_iter().fold(Message::new(), |graph, node| graph.message(1, node));
        let graph = declared.into_iter().fold(graph, |graph, value| graph.message(13, value));
        let graph = graph.message(11, value("x", FLOAT)).message(12, value("y", FLOAT));
        let own = || Message::new().bytes(1, "own").int(2, 1);
        let function = Message::new().bytes(1, "F").bytes(10, "own").bytes(4, "a").bytes(5, "b");
        let function = body.iter().fold(function, |function, node| function.message(7, node.clone()));
        let function = function.message(9, Message::new().int(2, 21)).message(9, own());
        let model = Message::new().int(1, 9).message(8, Message::new().int(2, 21)).message(8, own()).message(7, graph);
        let model = if is_call { model.message(25, function) } else { model };
        let bytes = ModelBytes::new(model.into_bytes(), None);
        let info = inspect_of(ModelSource::Memory(&bytes), &InspectRequest::default()).expect("info").model;
        let folded = fold_of(ModelSource::Memory(&bytes), None, &FoldRequest::default()).expect("folded").1.casts;
        let (types, outcomes): (Vec<_>, Vec<_>) =
            casts.into_iter().map(|(from, outcome)| (DataType::from_onnx(from), outcome)).unzip();
        assert_eq!(info.expect("a model").casts.iter().map(|cast| cast.from).collect::<Vec<_>>(), types);
        assert_eq!(folded.iter().map(|cast| cast.from).collect::<Vec<_>>(), types);
        assert_eq!(folded.iter().map(|cast| cast.outcome).collect::<Vec<_>>(), outcomes);
    }
}
