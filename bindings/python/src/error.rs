//! What the library refuses, as one exception class. Objects of a kind that nothing takes are `TypeError`, tensors that
//! do not fit in memory `MemoryError`, and what the system refuses is `OSError`, with its number: a missing file is
//! `FileNotFoundError`.

use onnx_cast::ops::OpErrorKind;
use onnx_cast::tensor::TensorErrorKind;
use onnx_cast_file::__private::PathText;
use onnx_cast_file::{FileError, FormatError, InvalidKind, IoError, Wording};
use onnx_cast_model::Error;
use pyo3::exceptions::{PyMemoryError, PyOSError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use pyo3::{PyTypeInfo, import_exception};
use serde_json::Map;
use std::cell::Cell;
use std::fmt::Display;
use std::io;
use std::path::Path;

import_exception!(onnx_cast._errors, CastError);

/// An error of the library, and what it is about: the attributes of `CastError`.
#[derive(Default)]
pub(crate) struct Refusal {
    text: String,
    parameter: Option<String>,
    tensor: Option<String>,
    element: Option<usize>,
    value: Option<Value>,
}

/// A value that is refused.
#[derive(IntoPyObject)]
pub(crate) enum Value {
    Number(i64),
    Text(String),
}

impl Refusal {
    /// An error of which no more than the text is known.
    pub(crate) fn new(text: impl Display) -> Self {
        Refusal { text: text.to_string(), ..Refusal::default() }
    }

    /// The same error, about a parameter unless it is known to be about another.
    pub(crate) fn or_parameter(mut self, name: &str) -> Self {
        self.parameter.get_or_insert_with(|| name.to_owned());
        self
    }

    /// The same error, about an element.
    pub(crate) fn element(self, index: usize) -> Self {
        Refusal { element: Some(index), ..self }
    }

    /// The same error, about a value.
    pub(crate) fn value(self, value: Value) -> Self {
        Refusal { value: Some(value), ..self }
    }

    /// An error of a cast.
    pub(crate) fn of_cast(error: impl Into<onnx_cast::CastError>) -> Self {
        let error = error.into();
        let refusal = Refusal::new(&error);
        match error.into_kind() {
            onnx_cast::ops::CastErrorKind::Op(error) => refusal.of_operator(error),
            onnx_cast::ops::CastErrorKind::Text { index, text, .. } => {
                refusal.or_parameter("x").element(index).value(Value::Text(text))
            }
            onnx_cast::ops::CastErrorKind::ZeroPoint { index, .. } => refusal.or_parameter("zero_point").element(index),
            _ => refusal,
        }
    }

    /// The attribute or the input of an operator that an error is about.
    fn of_operator(self, error: OpErrorKind) -> Self {
        let text = |name: &dyn Display| Some(Value::Text(name.to_string()));
        let (parameter, value) = match error {
            OpErrorKind::Opset { opset, .. } => ("opset".to_owned(), Some(Value::Number(opset))),
            OpErrorKind::TypeNumber { number, .. } => ("to".to_owned(), Some(Value::Number(number))),
            OpErrorKind::UnknownAttribute { name, .. } => (name, None),
            OpErrorKind::AttributeType { name, number, .. } => (name.to_owned(), Some(Value::Number(number))),
            OpErrorKind::RoundMode { word } => ("round_mode".to_owned(), Some(Value::Text(word))),
            OpErrorKind::Precision { data_type, .. } => ("precision".to_owned(), text(&data_type)),
            OpErrorKind::MissingOutputType { .. } => ("output_dtype".to_owned(), None),
            OpErrorKind::BlockSize { block_size, .. } => ("block_size".to_owned(), Some(Value::Number(block_size))),
            OpErrorKind::Axis { axis, .. } => ("axis".to_owned(), Some(Value::Number(axis))),
            OpErrorKind::BitWidth { to, .. } => ("to".to_owned(), text(&to)),
            OpErrorKind::ScalarScale { .. } | OpErrorKind::ScaleShape { .. } => ("scale".to_owned(), None),
            OpErrorKind::ScaleType { data_type } => ("scale".to_owned(), text(&data_type)),
            OpErrorKind::ScaleRule { rule, .. } => ("scale_rule".to_owned(), text(&rule)),
            OpErrorKind::Recipe { recipe, .. } => ("recipe".to_owned(), text(&recipe)),
            OpErrorKind::ZeroPointShape { .. } => ("zero_point".to_owned(), None),
            _ => return self,
        };
        Refusal { value, ..self.or_parameter(&parameter) }
    }

    /// A text that may name fields of requests, which are parameters.
    fn of_wording(wording: &Wording) -> Self {
        let field = Cell::new(None);
        let named = |name| {
            let parameter = parameter_of(name);
            field.set(field.get().or(Some(parameter)));
            format!("`{parameter}`")
        };
        let refusal = Refusal::new(wording.with(named));
        Refusal { parameter: field.get().map(str::to_owned), ..refusal }
    }

    /// An error of an option, with the value that is refused, if it is one.
    pub(crate) fn of_option(wording: &Wording, given: &Map<String, serde_json::Value>) -> Self {
        let refusal = Refusal::of_wording(wording);
        let field = refusal.parameter.as_deref().map_or("", |name| name.trim_end_matches('_'));
        let is_quoted =
            |item: &&serde_json::Value| item.as_str().is_some_and(|text| refusal.text.contains(&format!("`{text}`")));
        let value = given.get(field).and_then(|value| match value {
            // Of a list, the one that the text quotes.
            serde_json::Value::Array(items) => items.iter().find(is_quoted),
            one => Some(one),
        });
        let value = value.and_then(|value| match value {
            serde_json::Value::String(text) => Some(Value::Text(text.clone())),
            other => other.as_i64().map(Value::Number),
        });
        Refusal { value, ..refusal }
    }

    /// An error of a job on files.
    fn of_job(error: Error) -> Self {
        let refusal = Refusal::of_wording(&error.wording());
        match error {
            Error::File { error: FileError::Format(FormatError::Cast { tensor, error, .. }) } => {
                let text = refusal.text;
                Refusal { text, parameter: None, tensor: Some(tensor), ..Refusal::of_cast(error) }
            }
            Error::File { error: FileError::Format(FormatError::Invalid { error, .. }) }
                if !error.tensor.is_empty() =>
            {
                Refusal { tensor: Some(error.tensor), ..refusal }
            }
            Error::File { error: FileError::Operator(error) } => refusal.of_operator(error.into_kind()),
            _ => refusal,
        }
    }
}

/// Python's name of a field of a request.
fn parameter_of(field: &'static str) -> &'static str {
    match field {
        "from" => "from_",
        field => field,
    }
}

impl From<Refusal> for PyErr {
    fn from(refusal: Refusal) -> PyErr {
        Python::attach(|py| refusal.raised(py).unwrap_or_else(|error| error))
    }
}

impl Refusal {
    /// The exception, or the one of making it.
    fn raised(self, py: Python<'_>) -> PyResult<PyErr> {
        let about = PyDict::new(py);
        about.set_item("parameter", self.parameter)?;
        about.set_item("tensor", self.tensor)?;
        about.set_item("element", self.element)?;
        about.set_item("value", self.value)?;
        Ok(PyErr::from_value(CastError::type_object(py).call((self.text,), Some(&about))?))
    }
}

/// An error of which no more than the text is known.
pub(crate) fn refused(error: impl Display) -> PyErr {
    Refusal::new(error).into()
}

/// The error of a name that a parameter gives.
pub(crate) fn of_name(error: impl Display, parameter: &str, name: &str) -> PyErr {
    Refusal::new(error).or_parameter(parameter).value(Value::Text(name.to_owned())).into()
}

/// An error of a cast.
pub(crate) fn of_cast(error: impl Into<onnx_cast::CastError>) -> PyErr {
    let error = error.into();
    match error.kind() {
        onnx_cast::ops::CastErrorKind::Tensor(TensorErrorKind::TooLarge { .. }) => {
            PyMemoryError::new_err(error.to_string())
        }
        _ => Refusal::of_cast(error).into(),
    }
}

/// An error of a job on files, in Python's words.
pub(crate) fn in_words(error: impl Into<Error>) -> PyErr {
    match error.into() {
        Error::File { error: FileError::Format(FormatError::Io(error)) } => {
            let IoError { path, error: cause, .. } = &error;
            system(path, cause).unwrap_or_else(|| refused(&error))
        }
        Error::File { error: FileError::Format(FormatError::Invalid { path, error }) }
            if error.kind == InvalidKind::Exists =>
        {
            let Refusal { text, .. } = Refusal::of_wording(&error.wording());
            PyOSError::new_err((EEXIST, text, path.into_os_string()))
        }
        Error::Model { path, error } => {
            let refused =
                error.system.as_ref().and_then(|(path, number)| system(path, &io::Error::from_raw_os_error(*number)));
            refused.unwrap_or_else(|| Refusal::of_job(Error::Model { path, error }).into())
        }
        error => Refusal::of_job(error).into(),
    }
}

/// The number of `FileExistsError`.
const EEXIST: i32 = 17;

/// What the system refused, as Python's own functions raise it; `None` where no number stands for it.
pub(crate) fn system(path: &Path, error: &io::Error) -> Option<PyErr> {
    let text = error.to_string();
    let name = path.as_os_str().to_owned();
    if let Some(number) = error.raw_os_error() {
        let text = text.strip_suffix(&format!(" (os error {number})")).unwrap_or(&text).to_owned();
        // On Windows the number is the system's own, from which Python finds `errno`.
        return Some(match cfg!(windows) {
            true => PyOSError::new_err((0, text, name, number)),
            false => PyOSError::new_err((number, text, name)),
        });
    }
    // The same numbers everywhere.
    let number = match error.kind() {
        io::ErrorKind::NotFound => 2,
        io::ErrorKind::AlreadyExists => EEXIST,
        io::ErrorKind::OutOfMemory => return Some(PyMemoryError::new_err(format!("{}: {text}", PathText(path)))),
        _ => return None,
    };
    Some(PyOSError::new_err((number, text, name)))
}
