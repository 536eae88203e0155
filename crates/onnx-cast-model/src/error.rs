//! What can go wrong with a model. The texts of [`ModelError`] do not name the file; [`Error`] puts it in front.

mod convert;
pub(crate) mod external;
pub(crate) mod ranges;
mod words;

pub use convert::ConvertError;
use external::ExternalProblem;
use onnx_cast::ops::Dim;
use onnx_cast::{CastError, DataType, NEWEST_OPSET, OpError};
use onnx_cast_file::formats::protobuf::outline::OutlineError;
use onnx_cast_file::formats::protobuf::wire::WireError;
use onnx_cast_file::io::IoError;
use onnx_cast_file::text::{PathText, ShapeText, Short, TensorText};
use onnx_cast_file::{FileError, Invalid, Unmatched};
pub use ranges::RangesError;
use std::path::{Path, PathBuf};
use thiserror::Error;
use words::{declared, first_with, listed, names, prefix};

/// A model, or another file, that could not be read, cast or written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// A file of tensors, or a file of any kind that the system refused.
    #[error("{error}")]
    File {
        /// The file, and what is wrong.
        error: FileError,
    },
    /// A model that is not valid, or that cannot be evaluated.
    #[error("{}: {error}", PathText(path))]
    Model {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        error: Box<ModelError>,
    },
}

impl Error {
    pub(crate) fn model(path: &Path, error: ModelError) -> Error {
        Error::Model { path: path.to_owned(), error: Box::new(error) }
    }
}

impl<E: Into<FileError>> From<E> for Error {
    fn from(error: E) -> Self {
        Error::File { error: error.into() }
    }
}

/// A model that is not valid, or that cannot be evaluated.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ModelError {
    /// Not a protobuf message.
    #[error("not a valid ONNX model: {0}")]
    Wire(WireError),
    /// A file that the system no longer reads, as where it was cut short.
    #[error("cannot read: {error}")]
    Read {
        /// What the system says.
        error: String,
    },
    /// A pattern of a request that matches none of the names that it is for.
    #[error("{0}")]
    Unmatched(Unmatched),
    /// No graph, or several.
    #[error("not a valid ONNX model: {count} graphs (want 1)")]
    Graphs {
        /// How many there are.
        count: usize,
    },
    /// A name that is not UTF-8.
    #[error("not a valid ONNX model: a name is not UTF-8")]
    Name,
    /// No opset of the default domain.
    #[error("the model imports no opset of ONNX's default domain")]
    NoOpset,
    /// An opset of the default domain that is not known here.
    #[error("the model imports opset {opset}, which is not known here (want 1 to {NEWEST_OPSET})")]
    Opset {
        /// The opset.
        opset: i64,
    },
    /// Two opsets of the default domain.
    #[error("the model imports two opsets of ONNX's default domain, {first} and {second}")]
    TwoOpsets {
        /// One.
        first: i64,
        /// The other.
        second: i64,
    },
    /// An operator that is not evaluated here.
    #[error(
        "{node}: operator `{}{}` is not supported (want Cast, CastLike, BitCast, QuantizeLinear, DequantizeLinear, \
         DynamicQuantizeLinear, Constant or Identity)",
        prefix(domain),
        Short(op_type)
    )]
    Operator {
        /// The node.
        node: String,
        /// The operator.
        op_type: String,
        /// Its domain; empty for ONNX's own.
        domain: String,
    },
    /// A function of the model's own.
    #[error("function `{}{}`: functions are not supported", prefix(domain), Short(name))]
    Function {
        /// The function.
        name: String,
        /// Its domain.
        domain: String,
    },
    /// A sparse initializer.
    #[error("sparse initializers are not supported")]
    Sparse,
    /// An initializer or a constant that is not valid.
    #[error("{place}: {error}")]
    Tensor {
        /// `initializer`, or the node.
        place: String,
        /// What is wrong.
        error: Invalid,
    },
    /// An input or output that is not a tensor, or whose type does not exist.
    #[error("{kind} `{}`: {what}", Short(name))]
    Declaration {
        /// `input` or `output`.
        kind: &'static str,
        /// Its name.
        name: String,
        /// What is wrong.
        what: String,
    },
    /// A node with attributes or an opset that its operator does not have.
    #[error("{node}: {error}")]
    Attributes {
        /// The node.
        node: String,
        /// What is wrong.
        error: OpError,
    },
    /// A Constant whose attributes are not right.
    #[error("{node}: {what}")]
    Constant {
        /// The node.
        node: String,
        /// What is wrong.
        what: String,
    },
    /// A node with another number of inputs than its operator takes.
    #[error("{node}: {got} inputs (want {want})")]
    InputCount {
        /// The node.
        node: String,
        /// Inputs that there are.
        got: usize,
        /// Inputs that the operator takes.
        want: usize,
    },
    /// A node with another number of outputs than its operator has.
    #[error("{node}: {got} outputs (want {want})")]
    OutputCount {
        /// The node.
        node: String,
        /// Outputs that there are.
        got: usize,
        /// Outputs that the operator has.
        want: usize,
    },
    /// A value that nothing gives before it is read.
    #[error("{reader}: reads `{}`, which no input, initializer or node before it gives", Short(name))]
    NoValue {
        /// Who reads it.
        reader: String,
        /// The value.
        name: String,
    },
    /// A value that is given twice.
    #[error("`{}` is given twice", Short(name))]
    Twice {
        /// The value.
        name: String,
    },
    /// An input that was not given.
    #[error("input `{}` is missing", Short(name))]
    MissingInput {
        /// The input.
        name: String,
    },
    /// An input that the model does not have.
    #[error("the model has no input `{}` (it has {})", Short(name), names(inputs))]
    UnknownInput {
        /// The name that was given.
        name: String,
        /// The inputs of the model.
        inputs: Vec<String>,
    },
    /// An input or output of another type than declared.
    #[error("{kind} `{}`: {got} where the model declares {want}", Short(name))]
    ValueType {
        /// `input` or `output`.
        kind: &'static str,
        /// Its name.
        name: String,
        /// The type that it has.
        got: DataType,
        /// The type that is declared.
        want: DataType,
    },
    /// An input or output of another shape than declared.
    #[error("{kind} `{}`: shape {} where the model declares {}", Short(name), ShapeText(got), declared(want))]
    ValueShape {
        /// `input` or `output`.
        kind: &'static str,
        /// Its name.
        name: String,
        /// The shape that it has.
        got: Vec<usize>,
        /// The shape that is declared.
        want: Vec<Dim>,
    },
    /// An operator that does not take a type at the model's opset.
    #[error("{node}: {operator}-{version} does not take {data_type}{}", first_with(*since))]
    Type {
        /// The node.
        node: String,
        /// The operator.
        operator: &'static str,
        /// The version that the model's opset has.
        version: i64,
        /// The type.
        data_type: DataType,
        /// The first version that takes it, if one does.
        since: Option<i64>,
    },
    /// Graphs within graphs, deeper than any reader goes.
    #[error("graphs within graphs, more than {limit} deep")]
    Depth {
        /// How deep they may be.
        limit: usize,
    },
    /// A function that calls itself, or a function that does.
    #[error("function `{}` calls itself, or a function that calls itself", Short(function))]
    Recursion {
        /// The function.
        function: String,
    },
    /// Functions that call functions, deeper than any model needs.
    #[error("functions that call functions, more than {limit} deep")]
    CallDepth {
        /// How deep they may be.
        limit: usize,
    },
    /// Functions that are called with more combinations of types than any model has.
    #[error("functions are called with too many combinations of types")]
    Calls,
    /// An attribute whose one tensor or graph stands in it twice.
    #[error("not a valid ONNX model: attribute `{}` has its value twice", Short(attribute))]
    Repeated {
        /// The attribute.
        attribute: String,
    },
    /// A tensor whose elements are in another file, and cannot be had from there.
    #[error("{}{problem}", TensorText(tensor))]
    External {
        /// The tensor.
        tensor: String,
        /// What is wrong.
        problem: ExternalProblem,
    },
    /// Training information, whose bindings name initializers.
    #[error("the model has training information, which is not supported")]
    Training,
    /// A constant that cannot be cast, or whose result cannot be stored.
    #[error("constant `{}`: {what}", Short(name))]
    Uncast {
        /// The constant.
        name: String,
        /// Why.
        what: String,
    },
    /// An opset without a Cast between two types.
    #[error(
        "constant `{}`: {operator} takes {data_type} from opset {needs} on, and the model imports {opset} \
         (--raise-opset raises it)",
        Short(name)
    )]
    NeedsOpset {
        /// The constant.
        name: String,
        /// The operator.
        operator: &'static str,
        /// The type.
        data_type: DataType,
        /// The first opset with the types.
        needs: i64,
        /// The model's opset.
        opset: i64,
    },
    /// A conversion that cannot be done.
    #[error("{0}")]
    Convert(#[from] ConvertError),
    /// Ranges that cannot be recorded or read.
    #[error("{0}")]
    Ranges(#[from] RangesError),
    /// A model without weights to quantize.
    #[error(
        "no weight to quantize: no large float initializer is the right operand of MatMul or Gemm or the filter of Conv, \
         and no rule names another{}",
        if passed_over.is_empty() { String::new() } else { format!(" (passed over: {passed_over})") }
    )]
    NothingToQuantize {
        /// Weights that such operators read in other ways, each with the reason.
        passed_over: String,
    },
    /// A model in which nothing is to be dequantized.
    #[error("no weight to dequantize: no DequantizeLinear reads constants alone")]
    NothingToDequantize,
    /// A weight of a type that the request does not name.
    #[error(
        "weight `{}` is {data_type} in the model (want `to` {data_type}, not {wanted}: what reads it takes no other; \
         `onnx-cast cast` stores it in another type)",
        Short(name)
    )]
    OtherType {
        /// Its name.
        name: String,
        /// The type that the model gives it.
        data_type: DataType,
        /// The type of the request.
        wanted: DataType,
    },
    /// An opset to raise a model to that is not known here.
    #[error("opset {opset} is not known here (want 1 to {NEWEST_OPSET})")]
    TargetOpset {
        /// The opset.
        opset: i64,
    },
    /// A model of a newer opset than the one that it is to be raised to.
    #[error("the model imports opset {opset}, which is newer than {to}: an opset is raised, not lowered")]
    NewerOpset {
        /// The model's opset.
        opset: i64,
        /// The opset that is wanted.
        to: i64,
    },
    /// Nodes that cannot be written at a newer opset.
    #[error("the opset cannot be raised from {from} to {to}: {}", listed(nodes))]
    Raise {
        /// The model's opset.
        from: i64,
        /// The opset that is needed.
        to: i64,
        /// Each node, and the versions of its operator.
        nodes: Vec<String>,
    },
    /// A model from before there were opsets.
    #[error("the opset cannot be raised to {to}: the model is of version {ir_version} of the format (want 3 or newer)")]
    RaiseFormat {
        /// The version of the format.
        ir_version: u64,
        /// The opset that is needed.
        to: i64,
    },
    /// A model that is too large for a message although its elements are in a file of their own.
    #[error("{bytes} bytes besides the constants' elements are more than a protobuf message may hold (2 GiB)")]
    MessageSize {
        /// Bytes of the message.
        bytes: u64,
    },
    /// A model that is too large for a message, and in memory, where it has no other place.
    #[error("{bytes} bytes are more than a protobuf message may hold (2 GiB): such a model is converted file to file")]
    MemorySize {
        /// Bytes of the message.
        bytes: u64,
    },
    /// A file of external data that must not be written.
    #[error("external data `{}`: {what}", Short(name))]
    DataFile {
        /// The file's name.
        name: String,
        /// Why.
        what: &'static str,
    },
    /// An output that exists, and seems to be another input.
    #[error(
        "it exists, and an earlier run would have given another model, so it may be another input (name another \
         output, or give `force` to replace it)"
    )]
    OtherModel,
    /// A node that fails on its input.
    #[error("{node}: {error}")]
    Cast {
        /// The node.
        node: String,
        /// What is wrong.
        error: CastError,
    },
}

impl ModelError {
    /// A model that was opened and can no longer be read.
    pub(crate) fn unread(error: IoError) -> ModelError {
        ModelError::Read { error: error.error.to_string() }
    }
}

impl From<OutlineError> for ModelError {
    fn from(error: OutlineError) -> Self {
        match error {
            OutlineError::Io(error) => ModelError::unread(error),
            OutlineError::Wire(error) => ModelError::Wire(error),
        }
    }
}

impl From<Unmatched> for ModelError {
    fn from(error: Unmatched) -> Self {
        ModelError::Unmatched(error)
    }
}

impl From<WireError> for ModelError {
    fn from(error: WireError) -> Self {
        ModelError::Wire(error)
    }
}
