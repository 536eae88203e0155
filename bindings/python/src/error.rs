//! What the library refuses, as one exception class. Objects of a kind that nothing takes are `TypeError`, and what
//! the system refuses is `OSError`, with its number: a missing file is `FileNotFoundError`.

use onnx_cast_file::{FileError, FormatError, IoError};
use onnx_cast_model::Error;
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::{PyErr, create_exception};
use std::fmt::Display;
use std::io;
use std::path::Path;

create_exception!(
    onnx_cast,
    CastError,
    PyValueError,
    "A cast that cannot be done; the text says what, where, and what is expected."
);

/// An error, with its text.
pub(crate) fn refused(error: impl Display) -> PyErr {
    CastError::new_err(error.to_string())
}

/// An error of a job on files, in Python's words: fields of requests are parameters.
pub(crate) fn in_words(error: impl Into<Error>) -> PyErr {
    match error.into() {
        Error::File { error: FileError::Format(FormatError::Io(error)) } => {
            let IoError { path, error: cause, .. } = &error;
            system(path, cause).unwrap_or_else(|| refused(&error))
        }
        error => refused(error.wording().with(|field| format!("`{}`", if field == "from" { "dtype" } else { field }))),
    }
}

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
        io::ErrorKind::AlreadyExists => 17,
        _ => return None,
    };
    Some(PyOSError::new_err((number, text, name)))
}
