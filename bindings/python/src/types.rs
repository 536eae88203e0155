//! numpy's types and ONNX's: which stands for which, and the library's type table as Python values.

use crate::error::{Refusal, Value, of_name, refused};
use numpy::{PyArrayDescr, PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use onnx_cast::ops::Operator;
use onnx_cast::types::{FloatFormat, Kind};
use onnx_cast::{Cast, CastOptions, DataType, TensorView};
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;
use std::ffi::c_int;

/// What Python registers when the package is loaded.
struct Registered {
    /// numpy's number of a type, which is unique within a process.
    inputs: Vec<(c_int, DataType)>,
    /// The type of results, by ONNX's number.
    outputs: Vec<Option<Py<PyArrayDescr>>>,
    /// Runs an operator on what is not an array of numbers.
    others: Py<PyAny>,
    /// Makes the operator for a target and attributes.
    make: Py<PyAny>,
}

static REGISTERED: PyOnceLock<Registered> = PyOnceLock::new();

fn registered(py: Python<'_>) -> PyResult<&Registered> {
    REGISTERED.get(py).ok_or_else(|| PyRuntimeError::new_err("onnx_cast is not loaded"))
}

/// Registers numpy's types, each with ONNX's number, the first of a number for results; the function that runs an
/// operator on what is not an array of numbers; and the one that makes operators.
#[pyfunction]
pub(crate) fn setup(
    py: Python<'_>,
    dtypes: Vec<(Bound<'_, PyArrayDescr>, i64)>,
    others: Py<PyAny>,
    make: Py<PyAny>,
) -> PyResult<()> {
    let mut table = Registered { inputs: Vec::new(), outputs: Vec::new(), others, make };
    let last = DataType::ALL.iter().map(|known| known.onnx()).max().unwrap_or_default();
    table.outputs.resize_with(last as usize + 1, || None);
    for (dtype, number) in dtypes {
        let data_type = number_to_type(number)?;
        table.inputs.push((dtype.num(), data_type));
        table.outputs[data_type as usize].get_or_insert(dtype.unbind());
    }
    // Loaded a second time into the same process, the first registration holds: the types are the same.
    let _ = REGISTERED.set(py, table);
    Ok(())
}

/// ONNX's type of a numpy type, in any byte order.
pub(crate) fn type_of(dtype: &Bound<'_, PyArrayDescr>) -> PyResult<Option<DataType>> {
    let number = dtype.num();
    Ok(registered(dtype.py())?.inputs.iter().find(|(known, _)| *known == number).map(|(_, data_type)| *data_type))
}

/// numpy's type for results.
pub(crate) fn dtype_of<'py>(py: Python<'py>, data_type: DataType) -> PyResult<&'py Bound<'py, PyArrayDescr>> {
    let dtype = registered(py)?.outputs.get(data_type as usize).and_then(Option::as_ref);
    dtype.map(|dtype| dtype.bind(py)).ok_or_else(|| PyTypeError::new_err(format!("numpy has no type for {data_type}")))
}

/// The function that takes what is not an array of numbers.
pub(crate) fn others<'py>(py: Python<'py>) -> PyResult<&'py Bound<'py, PyAny>> {
    Ok(registered(py)?.others.bind(py))
}

/// The function that makes operators.
pub(crate) fn make<'py>(py: Python<'py>) -> PyResult<&'py Bound<'py, PyAny>> {
    Ok(registered(py)?.make.bind(py))
}

/// The type with ONNX's number.
pub(crate) fn number_to_type(number: i64) -> PyResult<DataType> {
    DataType::from_onnx(number).ok_or_else(|| {
        let known = DataType::onnx_numbers();
        let text = format_args!("{number} is not an element type of ONNX's (want a TensorProto.DataType from {known})");
        Refusal::new(text).or_parameter("to").value(Value::Number(number)).into()
    })
}

/// ONNX's number of the type with a name, as the library takes names.
#[pyfunction]
pub(crate) fn number(name: &str) -> PyResult<i32> {
    name.parse().map(DataType::onnx).map_err(|error| of_name(error, "to", name))
}

/// ONNX's number of an array's type, where it is a type of numbers.
#[pyfunction]
pub(crate) fn data_type(array: &Bound<'_, PyUntypedArray>) -> PyResult<Option<i32>> {
    Ok(type_of(&array.dtype())?.map(DataType::onnx))
}

/// The type table: a dictionary for each type, in the order of ONNX's numbers.
#[pyfunction]
pub(crate) fn types(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyDict>>> {
    DataType::ALL.iter().map(|data_type| row(py, *data_type)).collect()
}

fn row(py: Python<'_>, data_type: DataType) -> PyResult<Bound<'_, PyDict>> {
    let info = data_type.info();
    let row = PyDict::new(py);
    row.set_item("name", info.name)?;
    row.set_item("aliases", info.aliases)?;
    row.set_item("number", data_type.onnx())?;
    row.set_item("bits", data_type.bits())?;
    let since = PyDict::new(py);
    for operator in Operator::ALL {
        since.set_item(operator.name(), operator.since(data_type))?;
    }
    row.set_item("since", since)?;
    let names = data_type.interchange();
    row.set_item("numpy", names.numpy)?;
    row.set_item("ml_dtypes", names.ml_dtypes)?;
    row.set_item("onnxruntime", names.onnxruntime)?;
    let kind = match info.kind {
        Kind::Float(format) => {
            float_row(&row, data_type, &format)?;
            "float"
        }
        Kind::Int => {
            let top = 1i128 << (info.bits - 1);
            row.set_item("min", -top)?;
            row.set_item("max", top - 1)?;
            "int"
        }
        Kind::Uint => {
            row.set_item("min", 0)?;
            row.set_item("max", (1i128 << info.bits) - 1)?;
            "uint"
        }
        Kind::Bool => "bool",
        Kind::String => "string",
        Kind::Complex => "complex",
        _ => return Err(PyRuntimeError::new_err(format!("{data_type} has a kind that Python does not know"))),
    };
    row.set_item("kind", kind)?;
    Ok(row)
}

fn float_row(row: &Bound<'_, PyDict>, data_type: DataType, format: &FloatFormat) -> PyResult<()> {
    let value = |code| value_of(data_type, code);
    let max = value(format.max_code())?;
    row.set_item("max", max)?;
    row.set_item("min", if format.signed { -max } else { value(0)? })?;
    row.set_item("smallest_normal", value(format.min_normal_code())?)?;
    row.set_item("smallest_subnormal", format.min_subnormal_code().map(value).transpose()?)?;
    row.set_item("exponent_bits", format.exponent_bits)?;
    row.set_item("significand_bits", format.significand_bits)?;
    row.set_item("bias", format.bias)?;
    row.set_item("signed", format.signed)?;
    row.set_item("infinity", format.infinity)?;
    row.set_item("negative_zero", format.negative_zero)?;
    row.set_item("nan", format.nan_code().is_some())
}

/// The value of a code: every float type casts to double without loss.
fn value_of(data_type: DataType, code: u64) -> PyResult<f64> {
    let bytes = code.to_le_bytes();
    let bytes = &bytes[..data_type.byte_len(1).unwrap_or(0)];
    let view = TensorView::new(data_type, &[], bytes).map_err(refused)?;
    let mut out = [0; 8];
    let cast = Cast::new(DataType::Double, &CastOptions::default()).map_err(refused)?;
    cast.run_into(&view, &mut out).map_err(refused)?;
    Ok(f64::from_le_bytes(out))
}
