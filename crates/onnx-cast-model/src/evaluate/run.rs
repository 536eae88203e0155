//! A model, evaluated. A value lives until its last reader, which may take its memory.

use super::{Model, Node, Operation, ValueDecl};
use crate::error::{ModelError, ModelErrorKind};
use crate::types::schemas::Schema;
use onnx_cast::ops::Dim;
use onnx_cast::{CastError, Tensor, TensorView};
use onnx_cast_file::__private::{ShapeText, Short};
use onnx_cast_file::NamedTensor;
use std::collections::HashMap;

/// A value of the graph: the model's own, or computed.
enum Held<'a> {
    Model(&'a Tensor),
    Computed(Tensor),
}

impl Held<'_> {
    fn view(&self) -> TensorView<'_> {
        match self {
            Held::Model(tensor) => tensor.view(),
            Held::Computed(tensor) => tensor.view(),
        }
    }

    fn into_tensor(self) -> Tensor {
        match self {
            Held::Model(tensor) => tensor.clone(),
            Held::Computed(tensor) => tensor,
        }
    }
}

/// The values at hand, each with the number of readers to come.
struct Environment<'a> {
    held: HashMap<&'a str, Held<'a>>,
    readers: HashMap<&'a str, usize>,
}

impl<'a> Environment<'a> {
    fn new(model: &'a Model) -> Self {
        let mut readers = HashMap::new();
        let read = model.nodes.iter().flat_map(|node| &node.inputs);
        for name in read.chain(model.outputs.iter().map(|output| &output.name)) {
            *readers.entry(name.as_str()).or_insert(0) += 1;
        }
        Environment { held: HashMap::new(), readers }
    }

    fn put(&mut self, name: &'a str, value: Held<'a>) {
        if self.readers.contains_key(name) {
            self.held.insert(name, value);
        }
    }

    /// The value for one of its readers: the memory itself for the last one.
    fn take(&mut self, reader: &str, name: &'a str) -> Result<Held<'a>, ModelError> {
        let missing = || ModelError::no_value(reader, name);
        let left = self.readers.get_mut(name).ok_or_else(missing)?;
        *left = left.saturating_sub(1);
        if *left == 0 {
            return self.held.remove(name).ok_or_else(missing);
        }
        Ok(match self.held.get(name).ok_or_else(missing)? {
            Held::Model(tensor) => Held::Model(tensor),
            Held::Computed(tensor) => Held::Computed(tensor.clone()),
        })
    }
}

pub(crate) fn run(model: &Model, inputs: Vec<NamedTensor>) -> Result<Vec<NamedTensor>, ModelError> {
    let mut values = Environment::new(model);
    for (name, tensor) in &model.initializers {
        values.put(name, Held::Model(tensor));
    }
    let mut given: HashMap<String, Tensor> = HashMap::new();
    for NamedTensor { name, tensor } in inputs {
        if !model.inputs.iter().any(|input| input.name == name) {
            let what = format!("the model has no input `{}` (it has {})", Short(&name), names(&model.inputs));
            return Err(ModelError::new(ModelErrorKind::Value, what).named(&name));
        }
        if given.contains_key(&name) {
            return Err(ModelError::twice(&name));
        }
        given.insert(name, tensor);
    }
    for input in &model.inputs {
        match given.remove(&input.name) {
            Some(tensor) => {
                check("input", input, &tensor.view())?;
                values.put(&input.name, Held::Computed(tensor));
            }
            None if model.initializers.contains_key(&input.name) => {}
            None => {
                let what = format!("input `{}` is missing", Short(&input.name));
                return Err(ModelError::new(ModelErrorKind::MissingInput, what).named(&input.name));
            }
        }
    }
    for node in &model.nodes {
        let results = evaluate(model, node, &mut values)?;
        for (name, result) in node.outputs.iter().zip(results) {
            values.put(name, result);
        }
    }
    let mut outputs = Vec::with_capacity(model.outputs.len());
    for output in &model.outputs {
        let tensor = values.take("output", &output.name)?.into_tensor();
        check("output", output, &tensor.view())?;
        outputs.push(NamedTensor { name: output.name.clone(), tensor });
    }
    Ok(outputs)
}

fn evaluate<'a>(model: &'a Model, node: &'a Node, values: &mut Environment<'a>) -> Result<Vec<Held<'a>>, ModelError> {
    let failed = |error: CastError| ModelError::node(&node.label, error);
    let mut input = |index: usize| {
        let name = node.inputs.get(index).map_or("", String::as_str);
        values.take(&node.label, name)
    };
    let tensor = match &node.operation {
        Operation::Constant(tensor) => return Ok(vec![Held::Model(tensor)]),
        Operation::Identity => {
            let value = input(0)?;
            let data_type = value.view().data_type();
            let version = Schema::of("", "Identity", model.opset).map_or(1, |schema| schema.since);
            let since = Schema::first_giving("Identity", data_type);
            if since.is_none_or(|since| since > version) {
                return Err(ModelError::wrong_type(&node.label, "Identity", version, data_type, since));
            }
            return Ok(vec![value]);
        }
        Operation::Cast(cast) => match input(0)? {
            Held::Model(tensor) => cast.run(&tensor.view()),
            Held::Computed(tensor) => cast.run_owned(tensor),
        },
        Operation::BitCast(cast) => match input(0)? {
            Held::Model(tensor) => cast.run(&tensor.view()),
            Held::Computed(tensor) => cast.run_owned(tensor),
        },
        Operation::CastLike(cast) => {
            let value = input(0)?;
            let target = input(1)?.view().data_type();
            cast.run(&value.view(), target)
        }
        Operation::QuantizeLinear(operator) => {
            let (x, scale) = (input(0)?, input(1)?);
            let zero_point = (node.inputs.len() > 2).then(|| input(2)).transpose()?;
            operator.run(&x.view(), &scale.view(), zero_point.as_ref().map(Held::view).as_ref())
        }
        Operation::DequantizeLinear(operator) => {
            let (x, scale) = (input(0)?, input(1)?);
            let zero_point = (node.inputs.len() > 2).then(|| input(2)).transpose()?;
            operator.run(&x.view(), &scale.view(), zero_point.as_ref().map(Held::view).as_ref())
        }
        Operation::DynamicQuantizeLinear(operator) => {
            let found = operator.run(&input(0)?.view()).map_err(failed)?;
            let scale = Tensor::from_slice(Vec::new(), &[found.scale]).map_err(|error| failed(error.into()))?;
            let zero_point =
                Tensor::from_slice(Vec::new(), &[found.zero_point]).map_err(|error| failed(error.into()))?;
            return Ok(vec![Held::Computed(found.y), Held::Computed(scale), Held::Computed(zero_point)]);
        }
    };
    Ok(vec![Held::Computed(tensor.map_err(failed)?)])
}

/// Holds a value against its declaration.
fn check(kind: &'static str, declared: &ValueDecl, value: &TensorView<'_>) -> Result<(), ModelError> {
    let wrong = |what: String| {
        let what = format!("{kind} `{}`: {what}", Short(&declared.name));
        Err(ModelError::new(ModelErrorKind::Value, what).named(&declared.name))
    };
    let got = value.data_type();
    if let Some(want) = declared.data_type
        && want != got
    {
        return wrong(format!("{got} where the model declares {want}"));
    }
    let Some(want) = &declared.shape else { return Ok(()) };
    let shape = value.shape();
    let fits = |(dim, &got): (&Dim, &usize)| !matches!(dim, Dim::Known(known) if *known != got as u64);
    if want.len() != shape.len() || !want.iter().zip(shape).all(fits) {
        let want: Vec<String> = want.iter().map(dim_text).collect();
        return wrong(format!("shape {} where the model declares {}", ShapeText(shape), ShapeText(&want)));
    }
    Ok(())
}

/// A dimension as it is declared.
fn dim_text(dim: &Dim) -> String {
    match dim {
        Dim::Known(dim) => dim.to_string(),
        Dim::Symbol(name) => Short(name).to_string(),
        _ => "?".to_owned(),
    }
}

/// The inputs of a model, or `none`.
fn names(inputs: &[ValueDecl]) -> String {
    const LIMIT: usize = 16;
    let mut names: Vec<String> = inputs.iter().take(LIMIT).map(|input| format!("`{}`", Short(&input.name))).collect();
    names.extend((inputs.len() > LIMIT).then(|| "...".to_owned()));
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
