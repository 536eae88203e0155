//! Calls of onnxruntime: its functions as methods, its failures as errors, and our errors and panics as its failures.

use crate::abi::{
    ApiBase, CustomOp, Domain, KernelContext, KernelInfo, OpAttribute, SessionOptions, ShapeContext, Status,
    StatusPointer, Table, TensorInfo, Value, value, with_entries,
};
use crate::types::type_of;
use onnx_cast::ops::OpError;
use onnx_cast::tensor::TensorError;
use onnx_cast::{CastError, DataType};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

/// Why something fails, as onnxruntime is told.
#[derive(Debug)]
pub(crate) struct Failure {
    code: c_int,
    text: String,
}

impl Failure {
    /// The node is wrong.
    pub(crate) fn node(text: impl Display) -> Failure {
        Failure { code: value::INVALID_ARGUMENT, text: text.to_string() }
    }

    /// What fails otherwise.
    pub(crate) fn run(text: impl Display) -> Failure {
        Failure { code: value::FAIL, text: text.to_string() }
    }

    /// The same as the failure of an argument.
    pub(crate) fn into_argument(self) -> Failure {
        Failure { code: value::INVALID_ARGUMENT, ..self }
    }
}

impl From<OpError> for Failure {
    fn from(error: OpError) -> Self {
        Failure::node(error)
    }
}

impl From<CastError> for Failure {
    fn from(error: CastError) -> Self {
        Failure::run(error)
    }
}

impl From<TensorError> for Failure {
    fn from(error: TensorError) -> Self {
        Failure::run(error)
    }
}

/// The table of functions.
#[derive(Clone, Copy)]
pub(crate) struct Api(*const Table);

// SAFETY: the table is onnxruntime's own, which is there while it is, never changes, and is for all threads.
unsafe impl Send for Api {}
// SAFETY: as above.
unsafe impl Sync for Api {}

/// Defines the entries of a table as methods of a type that has a pointer to it in its field 0.
macro_rules! methods {
    ($table:ty; $($index:literal $name:ident($($parameter:ident: $kind:ty),*) -> $result:ty;)*) => {
        #[allow(non_snake_case, clippy::too_many_arguments, reason = "the names and parameters are onnxruntime's")]
        impl $table {
            $(
                /// # Safety
                /// As onnxruntime's documentation of the function says.
                pub(crate) unsafe fn $name(self, $($parameter: $kind),*) -> $result {
                    type Function = unsafe extern "system" fn($($kind),*) -> $result;
                    // SAFETY: the table of this version has a function of this type at this place.
                    let function = unsafe { std::mem::transmute::<*const std::ffi::c_void, Function>((*self.0)[$index]) };
                    // SAFETY: the caller's promise.
                    unsafe { function($($parameter),*) }
                }
            )*
        }
    };
}
pub(crate) use methods;
with_entries!(methods Api);

impl Api {
    /// onnxruntime's table; `None` if it does not provide this version. Of an older version than the functions here
    /// require, only `status` may be used.
    ///
    /// # Safety
    /// The pointer is onnxruntime's.
    pub(crate) unsafe fn new(base: *const ApiBase, version: u32) -> Option<Api> {
        // SAFETY: promised.
        let table = unsafe { ((*base).get_api)(version) };
        (!table.is_null()).then_some(Api(table))
    }

    /// The table that onnxruntime gives to a kernel.
    ///
    /// # Safety
    /// The pointer is onnxruntime's, of the version that the operator names.
    pub(crate) unsafe fn of_table(table: *const Table) -> Api {
        Api(table)
    }

    /// The table's address, which tells one onnxruntime from another.
    pub(crate) fn table(self) -> *const Table {
        self.0
    }

    /// An error of what a call returns.
    pub(crate) fn check(self, status: StatusPointer) -> Result<(), Failure> {
        if status.is_null() {
            return Ok(());
        }
        // SAFETY: a status that a function of the table gave, whose text is there until it is released.
        let text = unsafe {
            let text = CStr::from_ptr(self.GetErrorMessage(status)).to_string_lossy().into_owned();
            self.ReleaseStatus(status);
            text
        };
        Err(Failure::run(text))
    }

    /// Runs what onnxruntime calls, and tells it how that ends. A panic ends here.
    pub(crate) fn status(self, work: impl FnOnce() -> Result<(), Failure>) -> StatusPointer {
        let failure = match catch_unwind(AssertUnwindSafe(work)) {
            Ok(Ok(())) => return ptr::null_mut(),
            Ok(Err(failure)) => failure,
            Err(panic) => {
                let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
                Failure::run(format_args!("a bug in onnx-cast: {}", text.unwrap_or("no text")))
            }
        };
        let text = CString::new(failure.text.replace('\0', "")).unwrap_or_default();
        // SAFETY: the text ends with a zero; onnxruntime copies it.
        unsafe { self.CreateStatus(failure.code, text.as_ptr()) }
    }

    /// The INT attribute of a node; `None` if missing.
    ///
    /// # Safety
    /// The pointer is onnxruntime's.
    pub(crate) unsafe fn int(self, info: *const KernelInfo, name: &CStr) -> Result<Option<i64>, Failure> {
        let mut value = 0;
        // SAFETY: promised; the value is written where there is one.
        let found = self.check(unsafe { self.KernelInfoGetAttribute_int64(info, name.as_ptr(), &mut value) });
        if found.is_ok() {
            return Ok(Some(value));
        }
        // SAFETY: promised.
        let text = unsafe { self.text_size(info, name) };
        if text.is_some() { Err(wrong_kind(name, "INT")) } else { Ok(None) }
    }

    /// The STRING attribute of a node; `None` if missing.
    ///
    /// # Safety
    /// The pointer is onnxruntime's.
    pub(crate) unsafe fn text(self, info: *const KernelInfo, name: &CStr) -> Result<Option<String>, Failure> {
        // SAFETY: promised.
        let Some(mut size) = (unsafe { self.text_size(info, name) }) else {
            let mut value = 0;
            // SAFETY: promised.
            let int = self.check(unsafe { self.KernelInfoGetAttribute_int64(info, name.as_ptr(), &mut value) });
            return if int.is_ok() { Err(wrong_kind(name, "STRING")) } else { Ok(None) };
        };
        let mut bytes = vec![0u8; size];
        let room = bytes.as_mut_ptr().cast::<c_char>();
        // SAFETY: promised; there is room for as many bytes as there are, with the zero at the end.
        self.check(unsafe { self.KernelInfoGetAttribute_string(info, name.as_ptr(), room, &mut size) })?;
        let text = CStr::from_bytes_until_nul(&bytes).unwrap_or_default();
        Ok(Some(text.to_string_lossy().into_owned()))
    }

    /// Bytes of a STRING attribute with the zero at its end.
    ///
    /// # Safety
    /// The pointer is onnxruntime's.
    unsafe fn text_size(self, info: *const KernelInfo, name: &CStr) -> Option<usize> {
        let mut size = 0;
        // SAFETY: promised; without room the size is asked for.
        let asked = unsafe { self.KernelInfoGetAttribute_string(info, name.as_ptr(), ptr::null_mut(), &mut size) };
        self.check(asked).ok().map(|()| size)
    }

    /// The type and the dimensions of a tensor, of which onnxruntime may have negative ones before it knows them.
    ///
    /// # Safety
    /// The pointer is onnxruntime's.
    pub(crate) unsafe fn type_and_dims(self, info: *const TensorInfo) -> Result<(DataType, Vec<i64>), Failure> {
        let (mut number, mut count) = (0, 0);
        // SAFETY: promised; the dimensions have as much room as they need.
        unsafe {
            self.check(self.GetTensorElementType(info, &mut number))?;
            self.check(self.GetDimensionsCount(info, &mut count))?;
            let mut dims = vec![0i64; count];
            self.check(self.GetDimensions(info, dims.as_mut_ptr(), count))?;
            let data_type = type_of(number);
            let unknown = || Failure::node(format_args!("a tensor of onnxruntime's type {number}, which is unknown"));
            Ok((data_type.ok_or_else(unknown)?, dims))
        }
    }

    /// The type and the dimensions of a value.
    ///
    /// # Safety
    /// The pointer is onnxruntime's.
    pub(crate) unsafe fn of_value(self, value: *const Value) -> Result<(DataType, Vec<i64>), Failure> {
        let mut info = ptr::null_mut();
        // SAFETY: promised; what is given is released.
        unsafe {
            self.check(self.GetTensorTypeAndShape(value, &mut info))?;
            let result = self.type_and_dims(info);
            self.ReleaseTensorTypeAndShapeInfo(info);
            result
        }
    }
}

pub(crate) fn wrong_kind(name: &CStr, want: &str) -> Failure {
    Failure::node(format_args!("attribute `{}` is not of kind {want}", name.to_string_lossy()))
}
