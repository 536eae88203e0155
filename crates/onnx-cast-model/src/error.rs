//! What can go wrong with a model. The texts of [`ModelError`] do not name the file; [`Error`] puts it in front.

use onnx_cast::DataType;
use onnx_cast_file::__private::outline::OutlineError;
use onnx_cast_file::__private::wire::WireError;
use onnx_cast_file::__private::{PathText, Short};
use onnx_cast_file::{FileError, Invalid, IoError, Unmatched, Wording};
use std::fmt::Display;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// A model, or another file, that could not be read, cast or written.
#[derive(Debug, Error)]
#[error("{}", self.wording())]
#[non_exhaustive]
pub enum Error {
    /// A file of tensors, or a file of any kind that the system refused.
    #[allow(missing_docs)]
    File { error: FileError },
    /// A model that is not valid, or that does not fit what is asked.
    #[allow(missing_docs)]
    Model { path: PathBuf, error: Box<ModelError> },
}

impl Error {
    pub(crate) fn model(path: &Path, error: ModelError) -> Error {
        Error::Model { path: path.to_owned(), error: Box::new(error) }
    }

    /// The text, with fields of requests apart.
    pub fn wording(&self) -> Wording {
        match self {
            Error::File { error } => error.wording(),
            Error::Model { path, error } => error.what.after(format_args!("{}: ", PathText(path))),
        }
    }
}

impl<E: Into<FileError>> From<E> for Error {
    fn from(error: E) -> Self {
        Error::File { error: error.into() }
    }
}

/// What is wrong with a model, with a file of ranges, or with a request for them.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{what}")]
#[non_exhaustive]
pub struct ModelError {
    /// Which kind of error it is.
    pub kind: ModelErrorKind,
    /// The node, value, tensor, function, pattern or location that it is about, if it is about one.
    pub name: String,
    /// What is wrong, and what is wanted, with the name.
    pub what: Wording,
    /// The file that the system refused, and its number for the reason, if that is what is wrong.
    pub system: Option<(PathBuf, i32)>,
}

/// Kinds of [`ModelError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ModelErrorKind {
    /// A file that the system no longer reads, such as one that was truncated.
    Io,
    /// Bytes that are not a model, or not a file of ranges.
    Syntax,
    /// A valid feature of models that is not supported here, such as an operator.
    Unsupported,
    /// An opset, or a version of the format, that is missing, unknown, too old or too new.
    Opset,
    /// A node that breaks the rules of its operator, or that fails on its inputs.
    Node,
    /// A constant that is invalid, or that cannot be cast or stored.
    Constant,
    /// Elements in another file that is missing, invalid or must not be written.
    ExternalData,
    /// A value that is missing, given twice, or of another type or shape than declared.
    Value,
    /// An input that was not given.
    MissingInput,
    /// Too large, or too deeply nested.
    Size,
    /// A recorded range that is invalid, or a model that was recorded before.
    Ranges,
    /// A request that does not fit the model.
    Request,
}

impl ModelError {
    pub(crate) fn new(kind: ModelErrorKind, what: impl Into<Wording>) -> ModelError {
        ModelError { kind, name: String::new(), what: what.into(), system: None }
    }

    /// An error whose text starts with what it is about.
    pub(crate) fn at(kind: ModelErrorKind, place: &str, what: impl Display) -> ModelError {
        ModelError::new(kind, format!("{place}: {what}")).named(place)
    }

    /// The same error, about something of this name.
    pub(crate) fn named(self, name: &str) -> ModelError {
        ModelError { name: name.to_owned(), ..self }
    }

    /// A node that breaks the rules of its operator, or that fails.
    pub(crate) fn node(label: &str, what: impl Display) -> ModelError {
        ModelError::at(ModelErrorKind::Node, label, what)
    }

    /// A constant that cannot be cast, or whose result cannot be stored.
    pub(crate) fn constant(name: &str, what: impl Display) -> ModelError {
        ModelError::new(ModelErrorKind::Constant, format!("constant `{}`: {what}", Short(name))).named(name)
    }

    /// A tensor that is not valid, which errors name by its place.
    pub(crate) fn tensor(place: &str, error: Invalid) -> ModelError {
        let name = error.tensor.clone();
        ModelError::at(ModelErrorKind::Constant, place, error).named(&name)
    }

    /// Bytes that are not a model.
    pub(crate) fn syntax(what: impl Display) -> ModelError {
        ModelError::new(ModelErrorKind::Syntax, format!("not a valid ONNX model: {what}"))
    }

    /// A model that was opened and can no longer be read.
    pub(crate) fn unread(error: IoError) -> ModelError {
        ModelError::new(ModelErrorKind::Io, format!("cannot read: {}", error.error))
    }

    pub(crate) fn no_opset() -> ModelError {
        ModelError::new(ModelErrorKind::Opset, "the model imports no opset of ONNX's default domain")
    }

    /// Training information, whose bindings name initializers.
    pub(crate) fn training() -> ModelError {
        let what = "the model has training information, which is not supported";
        ModelError::new(ModelErrorKind::Unsupported, what)
    }

    /// An opset without an operator for a type that a constant needs.
    pub(crate) fn needs_opset(
        name: &str,
        operator: &'static str,
        data_type: DataType,
        needs: i64,
        opset: i64,
    ) -> ModelError {
        let what = format!(
            "constant `{}`: {operator} takes {data_type} from opset {needs} on, and the model imports {opset} (",
            Short(name)
        );
        let what = Wording::from(what).field("raise_opset", " raises it)");
        ModelError::new(ModelErrorKind::Opset, what).named(name)
    }

    /// A value that is given twice.
    pub(crate) fn twice(name: &str) -> ModelError {
        ModelError::new(ModelErrorKind::Value, format!("`{}` is given twice", Short(name))).named(name)
    }

    /// A value that nothing gives before it is read.
    pub(crate) fn no_value(reader: &str, name: &str) -> ModelError {
        let what = format!("{reader}: reads `{}`, which no input, initializer or node before it gives", Short(name));
        ModelError::new(ModelErrorKind::Value, what).named(name)
    }

    /// An operator that does not take a type at the model's opset; `since` is the first version that does.
    pub(crate) fn wrong_type(
        node: &str,
        operator: &'static str,
        version: i64,
        data_type: DataType,
        since: Option<i64>,
    ) -> ModelError {
        let first = since.map_or(String::new(), |since| format!(" (version {since} is the first that does)"));
        ModelError::node(node, format_args!("{operator}-{version} does not take {data_type}{first}"))
    }

    /// A name of a request that the model does not have, and one of the model's that is near.
    pub(crate) fn unknown(what: impl Into<Wording>, name: &str, near: Option<&str>) -> ModelError {
        let near = near.map_or(String::new(), |near| format!(" (did you mean `{}`?)", Short(near)));
        ModelError::new(ModelErrorKind::Request, what.into().then(&near)).named(name)
    }
}

impl From<OutlineError> for ModelError {
    fn from(error: OutlineError) -> Self {
        match error {
            OutlineError::Io(error) => ModelError::unread(error),
            OutlineError::Wire(error) => error.into(),
        }
    }
}

impl From<Unmatched> for ModelError {
    fn from(error: Unmatched) -> Self {
        let name = error.pattern.clone();
        ModelError::new(ModelErrorKind::Request, Invalid::from(error).what).named(&name)
    }
}

impl From<WireError> for ModelError {
    fn from(error: WireError) -> Self {
        ModelError::syntax(error)
    }
}
