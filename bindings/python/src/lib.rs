//! The native module of the Python package `onnx_cast`.
//!
//! Python decides what an object is and what the result is to be (`python/onnx_cast/`); here are numpy arrays of
//! numbers and of texts, lists of texts, and files. All arithmetic is the library's. `unsafe` stands in `array.rs` and
//! `string_array.rs` alone.
#![deny(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::too_many_lines, clippy::disallowed_methods))]

mod array;
mod blocks;
mod cast;
mod error;
mod files;
mod job;
mod layouts;
mod operator;
mod options;
mod parse;
mod parts;
mod pool;
mod report;
mod scaled;
mod stats;
mod string_array;
mod text;
mod types;
mod watched;

// Only for what onnxruntime looks for in a library of custom operators, which this one is too: `RegisterCustomOps`.
use onnx_cast_ort as _;

#[pyo3::pymodule(gil_used = false)]
mod _native {
    use pyo3::exceptions::PyRuntimeError;
    use pyo3::panic::PanicException;
    use pyo3::prelude::*;

    #[pymodule_export]
    #[allow(non_upper_case_globals, reason = "the name that Python gives it")]
    const __version__: &str = env!("CARGO_PKG_VERSION");
    #[pymodule_export]
    use super::blocks::{dequantize_blocks, quantize_blocks};
    #[pymodule_export]
    use super::cast::cast;
    #[pymodule_export]
    use super::files::{check, convert, diff, fold, info, record, upgrade, write_file};
    #[pymodule_export]
    use super::job::{pack, unpack};
    #[pymodule_export]
    use super::layouts::{quantized_tensors, rewrite_tensors};
    #[pymodule_export]
    use super::operator::{Operator, infer_scaled};
    #[pymodule_export]
    use super::parts::{lay_out, name_whole, part_is_there, plan_files, write_part, write_side_files};
    #[pymodule_export]
    use super::report::{Found, check_output, report_arrays, report_file, write_text};
    #[pymodule_export]
    use super::scaled::dynamic_scale;
    #[pymodule_export]
    use super::stats::{count, count_strings, count_texts};
    #[pymodule_export]
    use super::types::{data_type, number, setup, types};

    /// `CastError` is Python's own class, so that it has attributes with every version of Python.
    ///
    /// `PanicException`, which pyo3 raises where a function panics, becomes a `RuntimeError`. By default it derives from
    /// `BaseException` alone, so `except Exception` misses it, and a server or a notebook ends.
    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        let py = module.py();
        let panic = py.get_type::<PanicException>();
        panic.setattr("__bases__", (py.get_type::<PyRuntimeError>(),))?;
        module.add("PanicException", panic)?;
        module.add("CastError", py.get_type::<super::error::CastError>())
    }
}
