//! What the library refuses, as one exception class. Objects of a kind that nothing here takes are `TypeError`.

use onnx_cast_file::FileError;
use onnx_cast_model::Error;
use pyo3::exceptions::PyValueError;
use pyo3::{PyErr, create_exception};
use std::fmt::Display;

create_exception!(
    onnx_cast,
    CastError,
    PyValueError,
    "A cast that cannot be done; the text says what, where, and what is expected."
);

/// An error of the library's, with its text.
pub(crate) fn refused(error: impl Display) -> PyErr {
    CastError::new_err(error.to_string())
}

/// An error in Python's words, where fields of requests are parameters.
pub(crate) fn in_words(error: Error) -> PyErr {
    match error {
        Error::File { error: FileError::Option { path, option, reason } } => {
            let option = if option == "from" { "dtype" } else { option };
            refused(format_args!("{}: {option} {reason}", path.display()))
        }
        error => refused(error),
    }
}
