//! numpy arrays as bytes: the only place where the memory of Python's objects is touched.
#![allow(unsafe_code)]

use crate::error::Refusal;
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
use std::mem::MaybeUninit;
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
        let refused = |text: String| PyErr::from(Refusal::new(text).or_parameter("out"));
        let Ok(array) = array.cast::<PyUntypedArray>() else {
            return Err(PyTypeError::new_err(format!("out is a {} (want a numpy array)", array.get_type().name()?)));
        };
        if array.cast_exact::<PyUntypedArray>().is_err() && is_masked(array)? {
            return Err(PyTypeError::new_err("out is a masked array, whose mask a cast would not set (want out.data)"));
        }
        let dtype = array.dtype();
        if type_of(&dtype)? != Some(data_type) {
            let want = dtype_of(py, data_type)?;
            return Err(refused(format!("out is of dtype {dtype} (want {want}, for {data_type})")));
        }
        if array.shape() != shape {
            let want = PyTuple::new(py, shape)?;
            return Err(refused(format!("out is of shape {} (want {want})", PyTuple::new(py, array.shape())?)));
        }
        if !array.is_c_contiguous() || dtype.is_native_byteorder() == Some(false) {
            return Err(refused(
                "out is not contiguous in C order and native byte order (want that, to avoid a copy)".to_owned(),
            ));
        }
        // SAFETY: the pointer is to a live array.
        if unsafe { (*npyffi::_PyArray_GET_ITEM_DATA(array.as_array_ptr())).flags } & NPY_ARRAY_WRITEABLE == 0 {
            return Err(refused("out is read-only".to_owned()));
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

    /// The bytes of the elements, to be written. Those of a new array are not initialised. `None` if `source` overlaps
    /// them.
    pub(crate) fn bytes_mut<'a>(&'a mut self, source: &[u8]) -> Option<&'a mut [MaybeUninit<u8>]> {
        let (data, len) = self.place();
        let (start, from) = (data as usize, source.as_ptr() as usize);
        if len > 0 && !source.is_empty() && start < from + source.len() && from < start + len {
            return None;
        }
        // SAFETY: as in `bytes`; the array is writeable (new, or checked in `out`), and `source`, the only other slice
        // that its user holds, lies elsewhere.
        Some(unsafe { std::slice::from_raw_parts_mut(data.cast(), len) })
    }
}

/// The elements of an array in C order, which are copied in tiles where the array is not contiguous.
pub(crate) enum Source<'py> {
    Contiguous(Contiguous<'py>),
    /// `swapped` is the width of the numbers that are in the other byte order; 0 where none is.
    Strided {
        array: Bound<'py, PyUntypedArray>,
        swapped: usize,
    },
}

impl<'py> Source<'py> {
    /// The elements of an array, which are copied first where they share memory with one of `outs`.
    pub(crate) fn of<'a>(
        array: &Bound<'py, PyUntypedArray>,
        outs: impl Iterator<Item = &'a Bound<'py, PyAny>>,
    ) -> PyResult<Self>
    where
        'py: 'a,
    {
        let dtype = array.dtype();
        let is_swapped = dtype.is_native_byteorder() == Some(false);
        if array.is_c_contiguous() && !is_swapped || array.is_empty() {
            return Ok(Source::Contiguous(Contiguous::of(array)?));
        }
        static SHARE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        for out in outs {
            if SHARE.import(array.py(), "numpy", "may_share_memory")?.call1((array, out))?.is_truthy()? {
                return Ok(Source::Contiguous(Contiguous::of(array)?));
            }
        }
        // Elements of complex types are two numbers.
        let parts = if dtype.kind() == b'c' { 2 } else { 1 };
        Ok(Source::Strided { array: array.clone(), swapped: if is_swapped { dtype.itemsize() / parts } else { 0 } })
    }

    pub(crate) fn shape(&self) -> &[usize] {
        match self {
            Source::Contiguous(array) => array.shape(),
            Source::Strided { array, .. } => array.shape(),
        }
    }

    pub(crate) fn elements(&self) -> Elements<'_> {
        match self {
            Source::Contiguous(array) => Elements::Bytes(array.bytes()),
            Source::Strided { array, swapped } => {
                let width = array.dtype().itemsize();
                // SAFETY: the pointer is to a live array.
                let data = unsafe { (*npyffi::_PyArray_GET_ITEM_DATA(array.as_array_ptr())).data }.cast::<u8>();
                // A single element has an axis here, whose stride does not matter.
                let (shape, strides) =
                    if array.ndim() == 0 { (&[1][..], &[0][..]) } else { (array.shape(), array.strides()) };
                Elements::Strided(Strided {
                    data,
                    shape,
                    strides,
                    width,
                    swapped: *swapped,
                    begin: 0,
                    len: array.len(),
                })
            }
        }
    }
}

/// Elements in C order.
#[derive(Clone, Copy)]
pub(crate) enum Elements<'a> {
    Bytes(&'a [u8]),
    Strided(Strided<'a>),
}

impl<'a> Elements<'a> {
    /// Bytes of the elements.
    pub(crate) fn byte_len(&self) -> usize {
        match self {
            Elements::Bytes(bytes) => bytes.len(),
            Elements::Strided(strided) => strided.len * strided.width,
        }
    }

    /// The bytes where they lie one after the other; else nothing.
    pub(crate) fn bytes(&self) -> &'a [u8] {
        match self {
            Elements::Bytes(bytes) => bytes,
            Elements::Strided(_) => &[],
        }
    }

    /// The elements one after the other: themselves, or copied to `buffer`.
    pub(crate) fn gathered<'b>(self, buffer: &'b mut Vec<u8>) -> Elements<'b>
    where
        'a: 'b,
    {
        match self {
            Elements::Bytes(bytes) => Elements::Bytes(bytes),
            Elements::Strided(strided) => {
                strided.copy(buffer);
                Elements::Bytes(buffer)
            }
        }
    }

    /// The elements in the first `at` bytes, and those behind.
    pub(crate) fn split_at(self, at: usize) -> (Self, Self) {
        match self {
            Elements::Bytes(bytes) => {
                let (low, high) = bytes.split_at(at);
                (Elements::Bytes(low), Elements::Bytes(high))
            }
            Elements::Strided(strided) => {
                let at = (at / strided.width).min(strided.len);
                let high = Strided { begin: strided.begin + at, len: strided.len - at, ..strided };
                (Elements::Strided(Strided { len: at, ..strided }), Elements::Strided(high))
            }
        }
    }
}

/// `len` elements of an array, from `begin` on in C order, wherever they lie and in whatever byte order.
#[derive(Clone, Copy)]
pub(crate) struct Strided<'a> {
    data: *const u8,
    shape: &'a [usize],
    strides: &'a [isize],
    width: usize,
    swapped: usize,
    begin: usize,
    len: usize,
}

// SAFETY: the memory is only read, and the array is held by the `Source` that lent it.
unsafe impl Send for Strided<'_> {}
// SAFETY: as above.
unsafe impl Sync for Strided<'_> {}

/// Rows that are copied together where their elements are nearer to each other than those of a row: eight lines of a
/// cache at a time, which any nearest cache holds though they are a power of two apart.
const ROWS: usize = 8;

impl Strided<'_> {
    /// Copies the elements to `out`, one after the other in native byte order.
    pub(crate) fn copy(&self, out: &mut Vec<u8>) {
        out.clear();
        out.resize(self.len * self.width, 0);
        match self.width {
            1 => self.copy_words(out, |word: [u8; 1]| word),
            2 => self.copy_words(out, |word: [u8; 2]| u16::from_ne_bytes(word).swap_bytes().to_ne_bytes()),
            4 => self.copy_words(out, |word: [u8; 4]| u32::from_ne_bytes(word).swap_bytes().to_ne_bytes()),
            // Complex types, whose two numbers keep their order.
            8 if self.swapped == 4 => self
                .copy_words(out, |word: [u8; 8]| u64::from_ne_bytes(word).swap_bytes().rotate_left(32).to_ne_bytes()),
            8 => self.copy_words(out, |word: [u8; 8]| u64::from_ne_bytes(word).swap_bytes().to_ne_bytes()),
            _ => self
                .copy_words(out, |word: [u8; 16]| u128::from_ne_bytes(word).swap_bytes().rotate_left(64).to_ne_bytes()),
        }
    }

    fn copy_words<const N: usize>(&self, out: &mut [u8], swapped: impl Fn([u8; N]) -> [u8; N]) {
        let (out, _) = out.as_chunks_mut::<N>();
        let (axis, columns) = (self.shape.len() - 1, self.shape[self.shape.len() - 1]);
        let rows = if axis > 0 { self.shape[axis - 1] } else { 1 };
        let row_stride = if axis > 0 { self.strides[axis - 1] } else { 0 };
        let stride = self.strides[axis];
        let (mut done, end) = (0, out.len());
        while done < end {
            let (row, column) = ((self.begin + done) / columns, (self.begin + done) % columns);
            let is_whole = column == 0 && end - done >= columns;
            let count = if is_whole { ((end - done) / columns).min(rows - row % rows).min(ROWS) } else { 1 };
            let width = if is_whole { columns } else { (columns - column).min(end - done) };
            let tile = &mut out[done..done + count * width];
            let first = self.offset(row) + column as isize * stride;
            let word = |i: usize, j: usize| {
                // SAFETY: `row + i` and `column + j` are within the shape, so the element is the array's, whose memory
                // is held and initialised. Whether another thread of the caller's writes there is as in
                // `Contiguous::bytes`.
                unsafe {
                    self.data.offset(first + i as isize * row_stride + j as isize * stride).cast::<[u8; N]>().read()
                }
            };
            // The nearer elements first.
            if count == 1 || stride.unsigned_abs() <= row_stride.unsigned_abs() {
                for (i, row) in tile.chunks_exact_mut(width).enumerate() {
                    row.iter_mut().enumerate().for_each(|(j, out)| *out = word(i, j));
                }
            } else {
                for j in 0..width {
                    for i in 0..count {
                        tile[i * width + j] = word(i, j);
                    }
                }
            }
            done += count * width;
        }
        if self.swapped > 0 {
            out.iter_mut().for_each(|word| *word = swapped(*word));
        }
    }

    /// Where a row begins, in bytes from the first element.
    fn offset(&self, row: usize) -> isize {
        let outer = self.shape.len() - 1;
        let axes = self.shape[..outer].iter().zip(&self.strides[..outer]).rev();
        axes.fold((0, row), |(offset, row), (len, stride)| (offset + (row % len) as isize * stride, row / len)).0
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

/// Copies bytes to the memory of results, which has the same length.
pub(crate) fn copy(bytes: &[u8], out: &mut [MaybeUninit<u8>]) {
    out.iter_mut().zip(bytes).for_each(|(out, byte)| *out = MaybeUninit::new(*byte));
}

/// The refusal of an `out` that shares memory with `x`.
pub(crate) fn overlap() -> PyErr {
    Refusal::new("out overlaps x in memory (want an array of its own)").or_parameter("out").into()
}
