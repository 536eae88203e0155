//! Are models evaluated, and the others refused by name?

mod common;

use common::{MODELS, file, files};
use onnx_cast::{DataType, Tensor, TensorData};
use onnx_cast_file::{Model, NamedTensor};

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
        TensorData::Bytes(_) => panic!("no strings"),
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
    let supported = "(want Cast, CastLike, BitCast, Constant or Identity)";
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
        ("new_opset", "the model imports opset 99, which is not known here (want 1 to 28)".to_owned()),
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
    assert_eq!(error(b"Hello World!"), "not a valid ONNX model: groups of fields do not pair");
    let cast = file(MODELS, "cast");
    assert_eq!(error(&cast.repeat(2)), "not a valid ONNX model: 2 graphs (want 1)");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("m.onnx");
    std::fs::write(&path, b"").expect("saved");
    let error = Model::read(&path).expect_err("refused").to_string();
    assert_eq!(error, format!("{}: not a valid ONNX model: 0 graphs (want 1)", path.display()));
}
