//! A new tensor for another library: one piece of memory for the elements, one for the rest, and a deleter for both.

use super::code_of_type;
use crate::edge::{Failure, byte_len};
use dlpark::DlpackFlags;
use dlpark::ffi::{DLDataType, DLDevice, DLDeviceType, DLManagedTensorVersioned, DLPackVersion, DLTensor};
use onnx_cast::DataType;
use onnx_cast::tensor::element_count;
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::{self, NonNull};

/// Where DLPack wants elements to start.
const ALIGNMENT: usize = 256;

/// The version of DLPack whose types these are.
const VERSION: DLPackVersion = DLPackVersion { major: 1, minor: 1 };

/// Memory for elements; none where there are no bytes.
#[derive(Debug)]
struct Memory {
    start: Option<NonNull<u8>>,
    layout: Layout,
}

impl Memory {
    fn new(bytes: usize) -> Result<Memory, Failure> {
        let layout = Layout::from_size_align(bytes, ALIGNMENT).map_err(|_| Failure::out_of_memory(bytes))?;
        if bytes == 0 {
            return Ok(Memory { start: None, layout });
        }
        // SAFETY: the layout's size is not 0.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or_else(|| Failure::out_of_memory(bytes))?;
        Ok(Memory { start: Some(start), layout })
    }

    fn bytes(&mut self) -> &mut [u8] {
        match self.start {
            None => &mut [],
            // SAFETY: so many bytes, all of them set, which are this value's own.
            Some(start) => unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), self.layout.size()) },
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if let Some(start) = self.start {
            // SAFETY: from `alloc_zeroed` with this layout, and freed once.
            unsafe { dealloc(start.as_ptr(), self.layout) };
        }
    }
}

/// What a tensor's `manager_ctx` leads to: everything that the deleter frees.
#[derive(Debug)]
pub(super) struct Output {
    managed: DLManagedTensorVersioned,
    shape: Vec<i64>,
    strides: Vec<i64>,
    memory: Memory,
}

impl Output {
    /// A tensor of a type and a shape, whose bytes are filled.
    pub(super) fn new(
        data_type: DataType,
        shape: &[usize],
        fill: impl FnOnce(&mut [u8]) -> Result<(), Failure>,
    ) -> Result<Box<Output>, Failure> {
        let (code, bits) = code_of_type(data_type)?;
        let count = element_count(shape).ok_or_else(|| Failure::overflow("the tensor does not fit in memory"))?;
        let mut memory = Memory::new(byte_len(data_type, count)?)?;
        fill(memory.bytes())?;
        // Of a tensor without elements, dimensions may have any product.
        let strides = shape.iter().rev().scan(1i64, |next, &dim| {
            let stride = *next;
            *next = next.saturating_mul(dim as i64);
            Some(stride)
        });
        let mut strides: Vec<i64> = strides.collect();
        strides.reverse();
        let dl_tensor = DLTensor {
            data: ptr::null_mut(),
            device: DLDevice { device_type: DLDeviceType::CPU, device_id: 0 },
            ndim: i32::try_from(shape.len()).map_err(|_| Failure::overflow("too many dimensions"))?,
            dtype: DLDataType { code, bits, lanes: 1 },
            shape: ptr::null_mut(),
            strides: ptr::null_mut(),
            byte_offset: 0,
        };
        let flags = DlpackFlags::IS_COPIED;
        let managed = DLManagedTensorVersioned {
            version: VERSION,
            manager_ctx: ptr::null_mut(),
            deleter: Some(delete),
            flags,
            dl_tensor,
        };
        let shape = shape.iter().map(|&dim| dim as i64).collect();
        Ok(Box::new(Output { managed, shape, strides, memory }))
    }

    /// The tensor, which is the caller's from here on: its deleter frees all.
    pub(super) fn into_managed(self: Box<Self>) -> *mut DLManagedTensorVersioned {
        let output = Box::into_raw(self);
        // SAFETY: the box's value, to which no other reference exists; the vectors stay where they are.
        unsafe {
            (*output).managed.manager_ctx = output.cast();
            (*output).managed.dl_tensor.data =
                (*output).memory.start.map_or(ptr::null_mut(), |start| start.as_ptr().cast());
            (*output).managed.dl_tensor.shape = (*output).shape.as_mut_ptr();
            (*output).managed.dl_tensor.strides = (*output).strides.as_mut_ptr();
            &raw mut (*output).managed
        }
    }
}

/// Frees a tensor with all that it has.
unsafe extern "C" fn delete(managed: *mut DLManagedTensorVersioned) {
    if managed.is_null() {
        return;
    }
    // SAFETY: DLPack has the deleter called once, with the tensor it belongs to, whose context is the box.
    drop(unsafe { Box::from_raw((*managed).manager_ctx.cast::<Output>()) });
}
