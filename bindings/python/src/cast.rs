//! The function `cast`, here and not in Python so that small arrays do not pay for what they do not use.

use crate::operator::Operator;
use crate::types::make;
use numpy::PyArrayDescr;
use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyDict, PyInt, PyString, PyType};
use std::convert::Infallible;

/// Operators by the arguments that they were made of: a target, or with options a tuple.
static KNOWN: PyOnceLock<Py<PyDict>> = PyOnceLock::new();

/// Maximum number of cached operators. There are fewer targets, but more ways to write their names.
const KNOWN_LIMIT: usize = 1024;

/// The elements of ``x`` as another type, as ONNX's Cast gives them: rounded once, from the exact value.
///
/// Parameters
/// ----------
/// x : array, scalar or tensor
///     A numpy array of any strides and byte order, a numpy scalar, a torch or JAX tensor in the host's memory, another
///     object with DLPack or the buffer protocol, or an ``onnx.TensorProto``.
/// to : To
///     A name (``"bfloat16"``, ``"float8_e4m3fn"``, ``"fp4"``), a dtype of numpy, ml_dtypes or torch, or the number of
///     an ``onnx.TensorProto.DataType``.
/// saturate : bool
///     Whether overflow in float8 gives the largest value.
/// round_mode : {"up", "down", "nearest"}
///     How the target float8e8m0 rounds.
/// opset : int, optional
///     The opset whose version of the operator decides; the newest where it is not given.
/// out : array, optional
///     An array for the result: of its type and shape, C-contiguous, writeable, and not in the memory of ``x``.
/// threads : int, optional
///     Threads at most, which never changes a result.
/// packed : bool
///     Give ONNX's bytes in place of elements, as a one-dimensional array of uint8: types narrower than a byte are
///     packed in it, from the low bits up.
///
/// Returns
/// -------
/// array, scalar or tensor
///     Of the kind of ``x``; for other objects, such as buffers, a numpy array.
///
/// Raises
/// ------
/// CastError
///     What the operator refuses.
/// TypeError
///     Kinds of objects that cannot be cast.
///
/// Examples
/// --------
/// >>> onnx_cast.cast(np.array([1.0, -0.3, 1000.0], np.float32), "float8e4m3fn")
/// array([1, -0.3125, 448], dtype='float8_e4m3fn')
#[pyfunction]
#[pyo3(
    signature = (x, to, *, saturate = Given(None), round_mode = Given(None), opset = None, out = None, threads = None, packed = false),
    text_signature = "(x, to, *, saturate=True, round_mode='up', opset=None, out=None, threads=None, packed=False)"
)]
#[expect(clippy::too_many_arguments, reason = "they are the keywords of the Python function")]
pub(crate) fn cast<'py>(
    py: Python<'py>,
    x: &Bound<'py, PyAny>,
    to: &Bound<'py, PyAny>,
    saturate: Given<'py>,
    round_mode: Given<'py>,
    opset: Option<&Bound<'py, PyAny>>,
    out: Option<&Bound<'py, PyAny>>,
    threads: Option<&Bound<'py, PyAny>>,
    packed: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let options = Options { saturate: saturate.0.as_ref(), round_mode: round_mode.0.as_ref(), opset, threads };
    let operator = operator(py, to, &options)?;
    Operator::run(&operator, x, out, packed, false)
}

/// An option that may be omitted. Unlike an `Option`, it keeps a `None` that the caller passes, which is refused.
pub(crate) struct Given<'py>(Option<Bound<'py, PyAny>>);

impl<'py> FromPyObject<'_, 'py> for Given<'py> {
    type Error = Infallible;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> Result<Self, Infallible> {
        Ok(Given(Some(object.to_owned())))
    }
}

/// The options of a cast that are attributes of its operator.
struct Options<'a, 'py> {
    saturate: Option<&'a Bound<'py, PyAny>>,
    round_mode: Option<&'a Bound<'py, PyAny>>,
    opset: Option<&'a Bound<'py, PyAny>>,
    threads: Option<&'a Bound<'py, PyAny>>,
}

impl Options<'_, '_> {
    fn is_default(&self) -> bool {
        self.saturate.is_none() && self.round_mode.is_none() && self.opset.is_none() && self.threads.is_none()
    }

    /// Whether every option is of the kind that it should be. Those of other kinds may be equal: 1, 1.0 and True are.
    fn are_distinct(&self) -> bool {
        let is_int = |option: Option<&Bound<'_, PyAny>>| option.is_none_or(|one| one.is_exact_instance_of::<PyInt>());
        self.saturate.is_none_or(|one| one.is_exact_instance_of::<PyBool>())
            && self.round_mode.is_none_or(|one| one.is_exact_instance_of::<PyString>())
            && is_int(self.opset)
            && is_int(self.threads)
    }
}

/// The operator for a target and options.
fn operator<'py>(
    py: Python<'py>,
    to: &Bound<'py, PyAny>,
    options: &Options<'_, 'py>,
) -> PyResult<Bound<'py, Operator>> {
    let known = KNOWN.get_or_init(py, || PyDict::new(py).unbind()).bind(py);
    let &Options { saturate, round_mode, opset, threads } = options;
    let key = match options.is_default() {
        true => to.clone(),
        false => (to, saturate, round_mode, opset, threads).into_pyobject(py)?.into_any(),
    };
    let are_distinct = options.are_distinct();
    if are_distinct && let Ok(Some(operator)) = known.get_item(&key) {
        return Ok(operator.cast_into()?);
    }
    check_target(to)?;
    let truth = true.into_pyobject(py)?.to_owned().into_any();
    let up = intern!(py, "up").clone().into_any();
    let attributes = (saturate.unwrap_or(&truth), round_mode.unwrap_or(&up));
    let made = make(py)?.call1((intern!(py, "Cast"), to, attributes.0, attributes.1, opset, threads))?;
    // Of these kinds none is equal to one of another.
    let is_distinct =
        to.is_exact_instance_of::<PyString>() || to.is_instance_of::<PyType>() || to.cast::<PyArrayDescr>().is_ok();
    if is_distinct && are_distinct && known.len() < KNOWN_LIMIT {
        known.set_item(key, &made)?;
    }
    Ok(made.cast_into()?)
}

/// Targets are looked up, so they must be of a kind that can be.
fn check_target(to: &Bound<'_, PyAny>) -> PyResult<()> {
    to.hash().map(|_| ()).map_err(|_| {
        let kind = to.get_type().name().map_or_else(|_| "this type".to_owned(), |name| name.to_string());
        PyTypeError::new_err(format!(
            "to is of type {kind} (want a name, a dtype or a number of onnx.TensorProto.DataType)"
        ))
    })
}
