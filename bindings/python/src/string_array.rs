//! The texts of arrays of numpy's `StringDType`, copied by numpy's C functions. A Python object for each text took
//! three quarters of the time of reading numbers.
//!
//! numpy stores short texts in the elements and others in an arena that belongs to the dtype. `NpyString_load` finds
//! either while the caller holds the arena's lock. The interpreter's lock is not needed.
#![allow(unsafe_code)]

use crate::error::{Refusal, of_cast};
use numpy::npyffi::{self, NPY_ARRAY_ALIGNED, npy_packed_static_string, npy_static_string, npy_string_allocator};
use numpy::{PyArrayDescr, PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use onnx_cast::tensor::{Strings, TensorError};
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyCapsule, PyCapsuleMethods, PyString, PyType};
use std::ffi::{c_int, c_void};
use std::marker::PhantomData;
use std::ops::Range;
use std::ptr;

type Load =
    unsafe extern "C" fn(*mut npy_string_allocator, *const npy_packed_static_string, *mut npy_static_string) -> c_int;
type Acquire = unsafe extern "C" fn(*const c_void) -> *mut npy_string_allocator;
type Release = unsafe extern "C" fn(*mut npy_string_allocator);

/// numpy's functions for texts, as its header `__multiarray_api.h` declares them.
#[derive(Clone, Copy)]
struct Functions {
    load: Load,
    acquire: Acquire,
    release: Release,
}

/// Their places in numpy's table of functions, from numpy 2.0 on.
const LOAD: usize = 313;
const ACQUIRE: usize = 316;
const RELEASE: usize = 318;

impl Functions {
    fn of_numpy(py: Python<'_>) -> PyResult<Self> {
        static FUNCTIONS: PyOnceLock<Functions> = PyOnceLock::new();
        FUNCTIONS.get_or_try_init(py, || Functions::look_up(py)).copied()
    }

    fn look_up(py: Python<'_>) -> PyResult<Self> {
        if !npyffi::is_numpy_2(py) {
            return Err(PyRuntimeError::new_err("StringDType requires numpy 2.0 or newer"));
        }
        let table = py.import("numpy._core.multiarray")?.getattr("_ARRAY_API")?.cast_into::<PyCapsule>()?;
        let table = table.pointer_checked(None)?.cast::<*const c_void>();
        // SAFETY: the capsule points at numpy's static table of functions. It has these places since numpy 2.0, because
        // numpy only appends to it. numpy's header gives the functions there these signatures. An empty place is null,
        // which is `None`.
        let functions = unsafe {
            let load = table.add(LOAD).cast::<Option<Load>>().read();
            let acquire = table.add(ACQUIRE).cast::<Option<Acquire>>().read();
            let release = table.add(RELEASE).cast::<Option<Release>>().read();
            load.zip(acquire).zip(release)
        };
        let ((load, acquire), release) =
            functions.ok_or_else(|| PyRuntimeError::new_err("numpy's table of C functions lacks StringDType"))?;
        Ok(Functions { load, acquire, release })
    }
}

/// Whether the type is numpy's `StringDType`.
pub(crate) fn is_string_dtype(dtype: &Bound<'_, PyArrayDescr>) -> PyResult<bool> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    dtype.is_instance(CLASS.import(dtype.py(), "numpy.dtypes", "StringDType")?)
}

/// An array of `StringDType`, held while this is: C-contiguous and aligned.
pub(crate) struct StringArray<'py> {
    array: Bound<'py, PyUntypedArray>,
    dtype: Bound<'py, PyArrayDescr>,
    functions: Functions,
    /// The text of a missing element: the `na_object` if it is a text, and the empty text if there is no `na_object`.
    missing: Option<Vec<u8>>,
}

impl<'py> StringArray<'py> {
    /// The array itself where its elements lie one after the other, and a copy where they do not.
    pub(crate) fn of(array: &Bound<'py, PyUntypedArray>) -> PyResult<Self> {
        let py = array.py();
        // SAFETY: the pointer is to a live array.
        let flags = unsafe { (*npyffi::_PyArray_GET_ITEM_DATA(array.as_array_ptr())).flags };
        let array = if array.is_c_contiguous() && flags & NPY_ARRAY_ALIGNED != 0 {
            array.clone()
        } else {
            array.call_method1(intern!(py, "copy"), (intern!(py, "C"),))?.cast_into()?
        };
        let dtype = array.dtype();
        if !is_string_dtype(&dtype)? {
            return Err(PyTypeError::new_err(format!("x is of dtype {dtype} (want StringDType)")));
        }
        let missing = match dtype.getattr_opt(intern!(py, "na_object"))? {
            None => Some(Vec::new()),
            Some(object) => match object.cast::<PyString>() {
                Ok(text) => Some(text.to_cow()?.as_bytes().to_vec()),
                Err(_) => None,
            },
        };
        Ok(StringArray { array, dtype, functions: Functions::of_numpy(py)?, missing })
    }

    /// The dimensions.
    pub(crate) fn shape(&self) -> &[usize] {
        self.array.shape()
    }

    /// The texts in C order, to be read with or without the interpreter's lock.
    pub(crate) fn texts(&self) -> Texts<'_> {
        // SAFETY: the pointer is to a live array.
        let data = unsafe { (*npyffi::_PyArray_GET_ITEM_DATA(self.array.as_array_ptr())).data };
        Texts {
            data: data.cast_const().cast(),
            len: self.array.len(),
            item_size: self.dtype.itemsize(),
            dtype: self.dtype.as_dtype_ptr().cast_const().cast(),
            functions: self.functions,
            missing: self.missing.as_deref(),
            array: PhantomData,
        }
    }

    /// All texts.
    ///
    /// # Errors
    /// As [`Texts::read`].
    pub(crate) fn strings(&self) -> PyResult<Strings> {
        let texts = self.texts();
        let made = Strings::try_with_capacity(self.array.len(), 0);
        let mut strings = made.map_err(of_cast)?;
        let read = self.array.py().detach(|| texts.read(0..texts.len, &mut strings));
        read.map_err(|error| self.error(error))?;
        Ok(strings)
    }

    /// A text that cannot be read, as Python's exception.
    pub(crate) fn error(&self, unreadable: Unreadable) -> PyErr {
        let index = match unreadable {
            Unreadable::Missing(index) => index,
            Unreadable::Refused(index) => {
                return PyRuntimeError::new_err(format!("element {index}: numpy cannot read its text"));
            }
            Unreadable::Memory(error) => return of_cast(error),
        };
        let object = self.dtype.getattr(intern!(self.dtype.py(), "na_object")).and_then(|object| object.repr());
        let object = object.map_or_else(|_| "na_object".to_owned(), |text| text.to_string());
        let text = format_args!("element {index} is missing: it is {object} (want a text)");
        Refusal::new(text).or_parameter("x").element(index).into()
    }
}

/// Why texts could not be read.
pub(crate) enum Unreadable {
    /// This element is missing.
    Missing(usize),
    /// numpy cannot read the text of this element.
    Refused(usize),
    /// There is too little memory.
    Memory(TensorError),
}

/// The texts of an array that lives as long as `'a`.
pub(crate) struct Texts<'a> {
    data: *const u8,
    len: usize,
    item_size: usize,
    dtype: *const c_void,
    functions: Functions,
    missing: Option<&'a [u8]>,
    array: PhantomData<&'a ()>,
}

// SAFETY: the pointers are valid while the `StringArray` is borrowed. `read` is all that threads can share. It reads
// elements under the lock of the dtype's arena, which numpy lets any thread take, also without the interpreter's lock.
unsafe impl Sync for Texts<'_> {}

impl Texts<'_> {
    /// The number of texts.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Appends the texts of a range of elements. The arena's lock is held meanwhile. Callers give up the interpreter's
    /// lock first: a thread that waits for the arena with it can deadlock with numpy (its issue 31682, Python 3.12 and
    /// older).
    ///
    /// # Errors
    /// The first element that has no text, whose text numpy cannot read, or for whose text there is no memory.
    pub(crate) fn read(&self, range: Range<usize>, strings: &mut Strings) -> Result<(), Unreadable> {
        let range = range.start..range.end.min(self.len);
        let arena = Arena::lock(self);
        for index in range {
            let mut text = npy_static_string { size: 0, buf: ptr::null() };
            // SAFETY: the array is C-contiguous and aligned and `index` is below its length, so the element starts
            // `index * item_size` bytes from its data. The arena belongs to its dtype and is locked.
            let status = unsafe {
                (self.functions.load)(arena.allocator, self.data.add(index * self.item_size).cast(), &mut text)
            };
            let text = match (status, self.missing) {
                (0, _) if text.size == 0 => &[],
                // SAFETY: numpy found a text of `size` bytes at `buf`. It stays there while the arena is locked.
                (0, _) => unsafe { std::slice::from_raw_parts(text.buf.cast(), text.size) },
                (1, Some(missing)) => missing,
                (1, None) => return Err(Unreadable::Missing(index)),
                _ => return Err(Unreadable::Refused(index)),
            };
            strings.try_push(text).map_err(Unreadable::Memory)?;
        }
        Ok(())
    }
}

/// A dtype's arena, locked while this is.
struct Arena {
    functions: Functions,
    allocator: *mut npy_string_allocator,
}

impl Arena {
    /// Locks the arena of an array of texts.
    fn lock(texts: &Texts<'_>) -> Self {
        let functions = texts.functions;
        // SAFETY: the dtype is a live `StringDType`, as `StringArray::of` checked. The function waits for the lock.
        Arena { functions, allocator: unsafe { (functions.acquire)(texts.dtype) } }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: `lock` acquired the allocator, and this releases it once.
        unsafe { (self.functions.release)(self.allocator) };
    }
}
