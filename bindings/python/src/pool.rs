//! Numbers that Python passes: whole ones, and the maximum number of threads.

use crate::error::{Refusal, Value};
use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyBool;

/// A whole number, which may be one of numpy's or another object's `__index__`, cut to 64 bits: what is beyond them is
/// out of every range here.
pub(crate) fn whole(value: &Bound<'_, PyAny>, name: &str) -> PyResult<i64> {
    let number = match value.is_instance_of::<PyBool>() {
        true => None,
        false => value.call_method0(intern!(value.py(), "__index__")).ok(),
    };
    let Some(number) = number else {
        return Err(PyTypeError::new_err(format!("{name} is {} (want an integer)", value.repr()?)));
    };
    number.extract().or_else(|_| Ok(if number.lt(0)? { i64::MIN } else { i64::MAX }))
}

/// Threads at most.
pub(crate) fn threads_of(threads: Option<&Bound<'_, PyAny>>) -> PyResult<Option<usize>> {
    match threads.map(|threads| whole(threads, "threads")).transpose()? {
        Some(threads) if threads < 1 => {
            let refusal = Refusal::new(format_args!("{threads} threads (want 1 or more)")).or_parameter("threads");
            Err(refusal.value(Value::Number(threads)).into())
        }
        threads => Ok(threads.and_then(|threads| usize::try_from(threads).ok())),
    }
}
