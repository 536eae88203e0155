//! Lists of texts, in and out.

use crate::error::{Refusal, of_cast};
use onnx_cast::tensor::Strings;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString};
use std::fmt;

/// Texts after which the interpreter is asked whether it was interrupted: some thousandths of a second.
const PIECE: usize = 1 << 16;

/// The texts of a list of str and bytes.
pub(crate) fn strings_of(texts: &Bound<'_, PyList>) -> PyResult<Strings> {
    let mut strings = Strings::try_with_capacity(texts.len(), 0).map_err(of_cast)?;
    for (index, text) in texts.iter().enumerate() {
        if index % PIECE == PIECE - 1 {
            texts.py().check_signals()?;
        }
        if let Ok(text) = text.cast::<PyString>() {
            let text = text.to_cow().map_err(|_| {
                of_element(index, format_args!("element {index} is not Unicode text: it has half of a surrogate pair"))
            })?;
            strings.try_push(text.as_bytes()).map_err(of_cast)?;
        } else if let Ok(bytes) = text.cast::<PyBytes>() {
            strings.try_push(bytes.as_bytes()).map_err(of_cast)?;
        } else {
            let kind = text.get_type().name()?;
            return Err(PyTypeError::new_err(format!("element {index} is of type {kind} (want str or bytes)")));
        }
    }
    Ok(strings)
}

/// A list of str.
pub(crate) fn list_of<'py>(py: Python<'py>, strings: &Strings) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    for (index, bytes) in strings.view().iter().enumerate() {
        if index % PIECE == PIECE - 1 {
            py.check_signals()?;
        }
        let text = std::str::from_utf8(bytes)
            .map_err(|error| of_element(index, format_args!("element {index} is not UTF-8 text: {error}")))?;
        // Not as a `&str`, for which pyo3 panics where memory is refused.
        list.append(PyString::from_bytes(py, text.as_bytes())?)?;
    }
    Ok(list)
}

/// An error of an element.
fn of_element(index: usize, text: fmt::Arguments<'_>) -> PyErr {
    Refusal::new(text).or_parameter("x").element(index).into()
}
