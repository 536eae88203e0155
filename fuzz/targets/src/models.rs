//! Models: read, listed, folded and their weights cast, and evaluated before and after.

mod build;

use crate::files::some_type;
use crate::scratch;
use arbitrary::Unstructured;
use build::Graph;
use onnx_cast::tensor::Strings;
use onnx_cast::types::Kind;
use onnx_cast::{Cast, CastOptions, DataType, Tensor};
use onnx_cast_file::{CastRequest, InspectRequest, ModelOptions, NamedTensor, Rule, Selection};
use onnx_cast_model::{
    ConvertRequest, FoldRequest, Model, ModelErrorKind, RecordRequest, UpgradeRequest, ValueDecl, cast, convert, fold,
    inspect, record, upgrade,
};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The elements that a model's inputs and outputs may have to be evaluated here.
const MOST_ELEMENTS: usize = 1 << 12;

/// A ModelProto.
pub fn model_proto(data: &[u8]) {
    scratch::clear();
    let path = scratch::write("x.onnx", data);
    let listed = inspect(&path, &crate::files::listed(None));
    let typed = inspect(&path, &InspectRequest::default().types(true));
    let before = Evaluated::of(data);
    if before.is_some() {
        listed.expect("a model that is evaluated");
        typed.expect("a model that is evaluated");
    }
    check_fold(&path, before.as_ref());
    check_upgrade(&path, before.as_ref());
    check_convert(&path);
    let _ = record(&path, scratch::output("recorded.onnx"), &RecordRequest::default());
    let to = some_type(data);
    let output = scratch::output("cast.onnx");
    // A rule casts constants of integers too.
    let rules = vec![Rule { pattern: "*".parse().expect("a pattern"), to: Some(to) }];
    let selection = Selection { rules, min_elements: Some(0), ..Selection::default() };
    if cast(&path, &output, &CastRequest::new(to).selection(selection).model(ModelOptions::default().raise_opset(true)))
        .is_ok()
        && let Some(before) = before
    {
        // The values are others; what there is, is not.
        let Some((after, _)) = before.raised(&fs::read(output).expect("what was written")) else { return };
        let outline = |outputs: &[NamedTensor]| {
            outputs.iter().map(|output| (output.name.clone(), output.tensor.data_type())).collect::<Vec<_>>()
        };
        assert_eq!(outline(&after), outline(&before.outputs), "cast to {to}");
    }
}

/// A graph of the operators that are evaluated, made from a plan.
pub fn graph(data: &[u8]) {
    scratch::clear();
    let mut data = Unstructured::new(data);
    let Ok(graph) = Graph::new(&mut data) else { return };
    let bytes = graph.encode();
    let Some(before) = Evaluated::of(&bytes) else { return };
    let path = scratch::write("x.onnx", &bytes);
    check_fold(&path, Some(&before));

    let Ok(&to) = data.choose(DataType::NUMERIC) else { return };
    let output = scratch::output("cast.onnx");
    let selection = Selection { min_elements: Some(0), ..Selection::new(to) };
    let request = CastRequest::new(to).selection(selection).model(ModelOptions::default().raise_opset(true));
    let Ok(summary) = cast(&path, &output, &request) else { return };
    // The same graph, its constants rounded first.
    let rounded: BTreeMap<&str, DataType> =
        summary.tensors.iter().filter(|row| row.cast).map(|row| (row.name.as_str(), row.to)).collect();
    let rounded = graph.with_constants(|name, tensor| match rounded.get(name) {
        Some(&to) => there_and_back(tensor, to),
        None => tensor.clone(),
    });
    let made = fs::read(&output).expect("what was written");
    let Some((got, _)) = before.raised(&made) else { return };
    let (want, _) = before.again(&rounded.encode());
    assert_same(&got, &want, &format!("constants cast to {to}"));
    check_fold(&output, Evaluated::of(&made).as_ref());
}

/// A tensor rounded to a type by way of the newest Cast: finite floats, which these are, round alike in all of them.
fn there_and_back(tensor: &Tensor, to: DataType) -> Tensor {
    let cast = |tensor: &Tensor, to| {
        let cast = Cast::new(to, &CastOptions::default()).expect("a type of Cast");
        cast.run(&tensor.view()).expect("numbers")
    };
    cast(&cast(tensor, to), tensor.data_type())
}

/// Folds a model, and evaluates what that gave.
fn check_fold(path: &Path, before: Option<&Evaluated>) {
    let output = scratch::output("folded.onnx");
    match (fold(path, &output, &FoldRequest::default()), before) {
        (Ok(_), Some(before)) => {
            let (after, names) = before.again(&fs::read(output).expect("what was written"));
            assert_eq!(names, before.names, "inputs and outputs");
            assert_same(&after, &before.outputs, "folded");
        }
        (Err(error), Some(_)) => panic!("evaluated, but not folded: {error}"),
        _ => {}
    }
}

/// Raises a model's opset, which changes no value.
fn check_upgrade(path: &Path, before: Option<&Evaluated>) {
    let output = scratch::output("upgraded.onnx");
    if let (Ok(_), Some(before)) = (upgrade(path, &output, &UpgradeRequest::default()), before) {
        let Some((after, names)) = before.raised(&fs::read(output).expect("what was written")) else { return };
        assert_eq!(names, before.names, "inputs and outputs");
        assert_same(&after, &before.outputs, "upgraded");
    }
}

/// Converts a model, and what that gives, which must not change any more.
fn check_convert(path: &Path) {
    for to in [DataType::Float16, DataType::BFloat16] {
        let (output, again) = (scratch::output("converted.onnx"), scratch::output("again.onnx"));
        let request = ConvertRequest::new(to).raise_opset(true);
        if convert(path, &output, &request).is_ok() {
            let request = ConvertRequest::new(to);
            convert(&output, &again, &request).expect("what was converted before");
            assert!(fs::read(output).ok() == fs::read(again).ok(), "converting to {to} again changes the model");
        }
    }
}

/// Holds values against each other. A quiet NaN that joined casts leave as it was may have another payload than one
/// that passed through them: so every NaN is the same here.
#[track_caller]
fn assert_same(got: &[NamedTensor], want: &[NamedTensor], what: &str) {
    let plain = |values: &[NamedTensor]| {
        let value = |value: &NamedTensor| (value.name.clone(), plain_nan(&value.tensor));
        values.iter().map(value).collect::<Vec<_>>()
    };
    assert_eq!(plain(got), plain(want), "{what}");
}

/// A tensor, each NaN in it the same.
fn plain_nan(tensor: &Tensor) -> Tensor {
    let data_type = tensor.data_type();
    let (Kind::Float(format), Some(bytes)) = (data_type.info().kind, tensor.bytes()) else { return tensor.clone() };
    let (Some(nan), true) = (format.nan_code(), data_type.bits().is_some_and(|bits| bits >= 8)) else {
        return tensor.clone();
    };
    let size = data_type.bits().unwrap_or(8) / 8;
    let mut plain = bytes.to_vec();
    for element in plain.chunks_exact_mut(size) {
        let bits = element.iter().rev().fold(0, |bits, &byte| bits << 8 | u64::from(byte));
        if format.is_nan(bits) {
            element.copy_from_slice(&nan.to_le_bytes()[..size]);
        }
    }
    Tensor::new(data_type, tensor.shape().to_vec(), plain).expect("as it was")
}

/// What raising an opset writes before a cast to a FNUZ type, whose rule for infinities changed.
const WRITTEN_BY_ADAPTERS: [&str; 2] = ["IsInf", "Where"];

/// A model that could be evaluated, with what it was given and what it gave.
struct Evaluated {
    inputs: Vec<NamedTensor>,
    outputs: Vec<NamedTensor>,
    names: [Vec<String>; 2],
}

impl Evaluated {
    /// Evaluates a model with values for those of its inputs that have none of their own.
    fn of(bytes: &[u8]) -> Option<Evaluated> {
        let model = Model::parse(bytes).ok()?;
        let mut inputs: Vec<NamedTensor> = Vec::new();
        loop {
            match model.run(inputs.clone()) {
                Ok(outputs) => return Some(Evaluated { inputs, outputs, names: names(&model) }),
                Err(error) if error.kind == ModelErrorKind::MissingInput => {
                    let declared = model.inputs().iter().find(|input| input.name == error.name)?;
                    inputs.push(NamedTensor { tensor: value(declared)?, name: error.name });
                }
                Err(_) => return None,
            }
        }
    }

    /// As [`Evaluated::again`], of a model whose opset was raised: where that took operators that are not evaluated
    /// here, there is nothing to compare.
    fn raised(&self, bytes: &[u8]) -> Option<(Vec<NamedTensor>, [Vec<String>; 2])> {
        match Model::parse(bytes) {
            Err(error)
                if WRITTEN_BY_ADAPTERS
                    .iter()
                    .any(|one| error.what.to_string().contains(&format!("operator `{one}` is not"))) =>
            {
                None
            }
            _ => Some(self.again(bytes)),
        }
    }

    /// Evaluates another model in the same way: what it gives, and the names of what it takes and gives.
    fn again(&self, bytes: &[u8]) -> (Vec<NamedTensor>, [Vec<String>; 2]) {
        let model = Model::parse(bytes).expect("a model, as it was before");
        let outputs = model.run(self.inputs.clone()).expect("evaluated, as it was before");
        (outputs, names(&model))
    }
}

fn names(model: &Model) -> [Vec<String>; 2] {
    [model.inputs(), model.outputs()].map(|values| values.iter().map(|value| value.name.clone()).collect())
}

/// A value for an input: numbers of every size, but no NaN.
fn value(declared: &ValueDecl) -> Option<Tensor> {
    let known = |dim: &onnx_cast::ops::Dim| match dim {
        onnx_cast::ops::Dim::Known(known) => usize::try_from(*known).ok(),
        _ => Some(2),
    };
    let shape = declared.shape.as_ref().map_or(Some(vec![3]), |dims| dims.iter().map(known).collect())?;
    let count = onnx_cast::tensor::element_count(&shape).filter(|&count| count <= MOST_ELEMENTS)?;
    filled(declared.data_type?, shape, (0..count).map(|index| (index * 37 % 101) as f32))
}

/// A tensor of these numbers, or of as many zeros where the type has no numbers.
fn filled(data_type: DataType, shape: Vec<usize>, numbers: impl Iterator<Item = f32>) -> Option<Tensor> {
    let numbers: Vec<f32> = numbers.collect();
    if data_type == DataType::String {
        return Tensor::strings(shape, numbers.iter().map(f32::to_string).collect::<Strings>()).ok();
    }
    if !data_type.is_numeric() {
        return Tensor::new(data_type, shape, vec![0; data_type.byte_len(numbers.len())?]).ok();
    }
    let numbers = Tensor::from_slice(shape, &numbers).ok()?;
    Cast::new(data_type, &CastOptions::default()).ok()?.run(&numbers.view()).ok()
}
