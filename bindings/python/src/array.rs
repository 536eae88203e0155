//! numpy arrays as bytes: the only place where the memory of Python's objects is touched.
#![allow(unsafe_code)]

use crate::error::refused;
use crate::types::{dtype_of, type_of};
use numpy::npyffi::{self, NPY_ARRAY_WRITEABLE, PY_ARRAY_API, npy_intp};
use numpy::{PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use onnx_cast::DataType;
use pyo3::PyTypeInfo;
use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple, PyType};
use std::ffi::c_int;
use std::ptr;

#[cfg(target_endian = "big")]
compile_error!("the Python package is for little-endian machines: it lends numpy's memory to the library as it is");

/// An array, with its elements one after the other in ONNX's byte order, whose memory is held while this is.
pub(crate) struct Contiguous<'py>(Bound<'py, PyUntypedArray>);

/// The first byte behind no elements: any address does.
static NOTHING: [u8; 0] = [];

impl<'py> Contiguous<'py> {
    /// The array itself where its elements lie so, and a copy where they do not.
    pub(crate) fn of(array: &Bound<'py, PyUntypedArray>) -> PyResult<Self> {
        let dtype = array.dtype();
        if array.is_c_contiguous() && dtype.is_native_byteorder() != Some(false) {
            return Ok(Contiguous(array.clone()));
        }
        let py = array.py();
        let options = PyDict::new(py);
        options.set_item(intern!(py, "order"), intern!(py, "C"))?;
        let native = dtype.call_method1(intern!(py, "newbyteorder"), ("=",))?;
        let copy = array.call_method(intern!(py, "astype"), (native,), Some(&options))?;
        Ok(Contiguous(copy.cast_into()?))
    }

    /// A new array for results, of the library's type, or of bytes alone.
    pub(crate) fn new(py: Python<'py>, data_type: DataType, shape: &[usize]) -> PyResult<Self> {
        let dtype = dtype_of(py, data_type)?;
        let dims = shape.as_ptr().cast_mut().cast::<npy_intp>();
        // SAFETY: the type is numpy's own; the call takes over one reference to the dtype and reads as many dimensions
        // as it is told of, which numpy holds as it holds lengths here (`usize` and `npy_intp` are of one width), and
        // checks. It returns a new reference, or null and an exception.
        unsafe {
            let kind = PyUntypedArray::type_object_raw(py);
            let dtype = dtype.clone().into_dtype_ptr();
            let (strides, data, base) = (ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
            let made =
                PY_ARRAY_API.PyArray_NewFromDescr(py, kind, dtype, shape.len() as c_int, dims, strides, data, 0, base);
            Ok(Contiguous(Bound::from_owned_ptr_or_err(py, made)?.cast_into_unchecked()))
        }
    }

    /// The caller's array for results, if it can take them: nothing is copied behind the caller's back.
    pub(crate) fn out(array: &Bound<'py, PyAny>, data_type: DataType, shape: &[usize]) -> PyResult<Self> {
        let py = array.py();
        let Ok(array) = array.cast::<PyUntypedArray>() else {
            return Err(PyTypeError::new_err(format!("out is a {} (want a numpy array)", array.get_type().name()?)));
        };
        if array.cast_exact::<PyUntypedArray>().is_err() && is_masked(array)? {
            return Err(PyTypeError::new_err("out is a masked array, whose mask a cast would not set (want out.data)"));
        }
        let dtype = array.dtype();
        if type_of(&dtype)? != Some(data_type) {
            let want = dtype_of(py, data_type)?;
            return Err(refused(format_args!("out is of dtype {dtype} (want {want}, for {data_type})")));
        }
        if array.shape() != shape {
            let want = PyTuple::new(py, shape)?;
            return Err(refused(format_args!("out is of shape {} (want {want})", PyTuple::new(py, array.shape())?)));
        }
        if !array.is_c_contiguous() || dtype.is_native_byteorder() == Some(false) {
            return Err(refused(format_args!(
                "out is not contiguous in C order and native byte order (want that, so that nothing is copied)"
            )));
        }
        // SAFETY: the pointer is to a live array.
        if unsafe { (*npyffi::_PyArray_GET_ITEM_DATA(array.as_array_ptr())).flags } & NPY_ARRAY_WRITEABLE == 0 {
            return Err(refused("out is read-only"));
        }
        Ok(Contiguous(array.clone()))
    }

    /// The dimensions.
    pub(crate) fn shape(&self) -> &[usize] {
        self.0.shape()
    }

    /// The array.
    pub(crate) fn into_array(self) -> Bound<'py, PyUntypedArray> {
        self.0
    }

    /// The bytes of the elements, for threads without the interpreter.
    pub(crate) fn hold(self) -> Held {
        let (data, len) = self.place();
        Held { data, len, _array: self.0.unbind() }
    }

    fn place(&self) -> (*mut u8, usize) {
        let len = self.0.len() * self.0.dtype().itemsize();
        // SAFETY: the pointer is to a live array.
        let data = unsafe { (*npyffi::_PyArray_GET_ITEM_DATA(self.0.as_array_ptr())).data }.cast::<u8>();
        // An array without elements may stand on any pointer, null too.
        if len == 0 { (NOTHING.as_ptr().cast_mut(), 0) } else { (data, len) }
    }

    /// The bytes of the elements.
    pub(crate) fn bytes(&self) -> &[u8] {
        let (data, len) = self.place();
        // SAFETY: the elements of a C-contiguous array are so many bytes from its data pointer on, initialised, and
        // stay while the array does, to which `self` holds a reference: numpy does not move the memory of an array that
        // others refer to. Whether another thread of the caller's writes there meanwhile is as with numpy's own
        // functions: the caller's race, over bytes of which every value is an element.
        unsafe { std::slice::from_raw_parts(data, len) }
    }

    /// The bytes of the elements, to be written. `None` where `source` lies in the same memory.
    pub(crate) fn bytes_mut<'a>(&'a mut self, source: &[u8]) -> Option<&'a mut [u8]> {
        let (data, len) = self.place();
        let (start, from) = (data as usize, source.as_ptr() as usize);
        if len > 0 && !source.is_empty() && start < from + source.len() && from < start + len {
            return None;
        }
        // SAFETY: as in `bytes`; the array is writeable (new, or checked in `out`), and `source`, the only other slice
        // that its user holds, lies elsewhere.
        Some(unsafe { std::slice::from_raw_parts_mut(data, len) })
    }
}

/// Whether an array has a mask.
fn is_masked(array: &Bound<'_, PyUntypedArray>) -> PyResult<bool> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    array.is_instance(CLASS.import(array.py(), "numpy.ma", "MaskedArray")?)
}

/// The memory of an array, which is held while this is.
pub(crate) struct Held {
    data: *const u8,
    len: usize,
    _array: Py<PyUntypedArray>,
}

// SAFETY: the memory is only read, its address stays the same, and any thread may drop the reference to the array.
unsafe impl Send for Held {}
// SAFETY: as above.
unsafe impl Sync for Held {}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: as in `Contiguous::bytes`: the pointer and the length are those of a contiguous array, which this
        // holds a reference to.
        unsafe { std::slice::from_raw_parts(self.data, self.len) }
    }
}
