//! onnxruntime's tensors as the library's: their shapes, bytes and strings.

use crate::abi::Value;
use crate::api::{Api, Failure};
use onnx_cast::tensor::Strings;
use onnx_cast::{DataType, TensorView};
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr;

/// Sizes from onnxruntime's dimensions.
pub(crate) fn sizes(dims: &[i64]) -> Result<Vec<usize>, Failure> {
    let sizes = dims.iter().map(|&dim| usize::try_from(dim)).collect::<Result<_, _>>();
    sizes.map_err(|_| Failure::run("a tensor with a negative dimension"))
}

impl Api {
    /// Where the elements of a value are, and how many bytes they take.
    ///
    /// # Safety
    /// The value is a tensor of this type and shape, whose type is not string.
    unsafe fn memory(
        self,
        value: *const Value,
        data_type: DataType,
        shape: &[usize],
    ) -> Result<(*mut u8, usize), Failure> {
        let mut data = ptr::null_mut::<c_void>();
        // SAFETY: the caller's promise.
        self.check(unsafe { self.GetTensorMutableData(value, &mut data) })?;
        let count = onnx_cast::tensor::element_count(shape);
        let bytes = count.and_then(|count| data_type.byte_len(count)).filter(|&bytes| isize::try_from(bytes).is_ok());
        Ok((data.cast(), bytes.ok_or_else(|| Failure::run("a tensor that does not fit in memory"))?))
    }

    /// The elements of an input.
    ///
    /// # Safety
    /// As [`Api::memory`], and the value lives for `'a` and is not written meanwhile.
    pub(crate) unsafe fn view<'a>(
        self,
        value: *const Value,
        data_type: DataType,
        shape: &'a [usize],
    ) -> Result<TensorView<'a>, Failure> {
        // SAFETY: promised; onnxruntime packs elements as ONNX does, so these are the bytes of the shape.
        unsafe {
            let (data, len) = self.memory(value, data_type, shape)?;
            let bytes = if len == 0 { &[] } else { std::slice::from_raw_parts(data.cast_const(), len) };
            Ok(TensorView::new(data_type, shape, bytes)?)
        }
    }

    /// The memory of an output, which onnxruntime does not initialise.
    ///
    /// # Safety
    /// As [`Api::memory`], and the value is an output that lives for `'a`. onnxruntime gives an output memory of its
    /// own, because no operator here declares that it may reuse that of an input.
    pub(crate) unsafe fn bytes<'a>(
        self,
        value: *mut Value,
        data_type: DataType,
        shape: &[usize],
    ) -> Result<&'a mut [MaybeUninit<u8>], Failure> {
        // SAFETY: promised.
        unsafe {
            let (data, len) = self.memory(value, data_type, shape)?;
            Ok(if len == 0 { &mut [] } else { std::slice::from_raw_parts_mut(data.cast(), len) })
        }
    }

    /// The strings of an input.
    ///
    /// # Safety
    /// The value is a tensor of strings, of this shape.
    pub(crate) unsafe fn strings(self, value: *const Value, shape: &[usize]) -> Result<Strings, Failure> {
        let count = onnx_cast::tensor::element_count(shape).unwrap_or(0);
        let mut len = 0;
        // SAFETY: promised.
        self.check(unsafe { self.GetStringTensorDataLength(value, &mut len) })?;
        let (mut bytes, mut starts) = (vec![0u8; len], vec![0usize; count]);
        let room = bytes.as_mut_ptr().cast();
        // SAFETY: there is room for the bytes and where each string starts.
        self.check(unsafe { self.GetStringTensorContent(value, room, len, starts.as_mut_ptr(), count) })?;
        let mut strings = Strings::try_with_capacity(count, len).map_err(Failure::run)?;
        let ends = starts.iter().skip(1).copied().chain([len]);
        for (&start, end) in starts.iter().zip(ends) {
            strings.push(bytes.get(start..end).ok_or_else(|| Failure::run("strings out of order"))?);
        }
        Ok(strings)
    }

    /// Writes the strings of an output.
    ///
    /// # Safety
    /// The value is an output of as many strings.
    pub(crate) unsafe fn fill(self, value: *mut Value, strings: &Strings) -> Result<(), Failure> {
        for (index, string) in strings.view().iter().enumerate() {
            let mut room = ptr::null_mut();
            // SAFETY: promised; the room has the string's length.
            unsafe {
                self.check(self.GetResizedStringTensorElementBuffer(value, index, string.len(), &mut room))?;
                if !string.is_empty() {
                    room.cast::<u8>().copy_from_nonoverlapping(string.as_ptr(), string.len());
                }
            }
        }
        Ok(())
    }
}
