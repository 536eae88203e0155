//! `.onnx`: models of casts, scaled casts, Constant and Identity nodes, evaluated by the operators' versions at the
//! opset that the model imports. Every other operator, function, subgraph or sparse tensor is refused by name when the
//! model is read.

mod read;
mod run;

use crate::error::{Error, ModelError};
use crate::messages::MODEL;
use crate::source::ModelSource;
use onnx_cast::__private::DefaultEnvironment;
use onnx_cast::ops::Dim;
use onnx_cast::scaled::{DequantizeLinear, DynamicQuantizeLinear, QuantizeLinear};
use onnx_cast::{BitCast, Cast, CastLike, DataType, Tensor};
use onnx_cast_file::__private::outline::{Backing, Outline, OutlineError};
use onnx_cast_file::NamedTensor;
use std::collections::HashMap;
use std::path::Path;

/// A model that can be evaluated.
///
/// ```no_run
/// use onnx_cast_file::{NamedTensor, read_tensor};
/// use onnx_cast_model::Model;
///
/// let model = Model::read("model.onnx")?;
/// let tensor = read_tensor("x.npy")?.tensor;
/// for output in model.run(vec![NamedTensor { name: "x".into(), tensor }])? {
///     println!("{}: {}", output.name, output.tensor.data_type());
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Model {
    opset: i64,
    inputs: Vec<ValueDecl>,
    outputs: Vec<ValueDecl>,
    initializers: HashMap<String, Tensor>,
    nodes: Vec<Node>,
}

/// An input or output of a model as it is declared.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ValueDecl {
    /// Its name.
    pub name: String,
    /// Its element type, where it is declared.
    pub data_type: Option<DataType>,
    /// Its shape, where at least the number of dimensions is declared.
    pub shape: Option<Vec<Dim>>,
}

/// A node, ready to run.
#[derive(Clone, Debug)]
struct Node {
    /// As errors name it.
    label: String,
    operation: Operation,
    inputs: Vec<String>,
    /// Empty names stand for outputs that are left out.
    outputs: Vec<String>,
}

#[derive(Clone, Debug)]
enum Operation {
    Cast(Cast),
    CastLike(CastLike),
    BitCast(BitCast),
    QuantizeLinear(QuantizeLinear),
    DequantizeLinear(DequantizeLinear),
    DynamicQuantizeLinear(DynamicQuantizeLinear),
    Constant(Tensor),
    Identity,
}

impl Model {
    /// Reads a model from a file.
    ///
    /// # Errors
    /// Where the file cannot be read, is not a model, or holds something that is not evaluated here.
    pub fn read(path: impl AsRef<Path>) -> Result<Model, Error> {
        let _environment = DefaultEnvironment::enter();
        let path = path.as_ref();
        let file = ModelSource::File(path).file()?;
        match Outline::of(Backing::File(&file), &MODEL) {
            Err(OutlineError::Io(error)) => Err(error.into()),
            outline => read::read(outline).map_err(|error| Error::model(path, error)),
        }
    }

    /// Reads a model from the bytes of a `ModelProto`.
    ///
    /// # Errors
    /// Where the bytes are no model, or hold something that is not evaluated here.
    pub fn parse(bytes: &[u8]) -> Result<Model, ModelError> {
        let _environment = DefaultEnvironment::enter();
        read::read(Outline::of(Backing::Memory(bytes), &MODEL))
    }

    /// The opset that the model imports of ONNX's default domain.
    pub fn opset(&self) -> i64 {
        self.opset
    }

    /// The inputs, in the model's order. Before version 4 of the format an initializer had to be an input too; such a
    /// one is a constant, and not among these.
    pub fn inputs(&self) -> &[ValueDecl] {
        &self.inputs
    }

    /// The outputs, in the model's order.
    pub fn outputs(&self) -> &[ValueDecl] {
        &self.outputs
    }

    /// Evaluates the model; inputs are matched by name, outputs are in the model's order. An input that has an
    /// initializer may be left out.
    ///
    /// # Errors
    /// Where an input is missing, unknown, or of another type or shape than declared, or an operator fails.
    pub fn run(&self, inputs: Vec<NamedTensor>) -> Result<Vec<NamedTensor>, ModelError> {
        let _environment = DefaultEnvironment::enter();
        run::run(self, inputs)
    }
}
