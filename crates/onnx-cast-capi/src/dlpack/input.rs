//! A tensor of another library's, as ONNX's bytes: those that it has, where its elements lie one after the other, and a
//! copy where they do not.

use super::{NATIVE_IS_LITTLE, type_of_code};
use crate::edge::{Failure, byte_len, read};
use dlpark::DlpackFlags;
use dlpark::ffi::{DLDeviceType, DLManagedTensorVersioned, DLPACK_MAJOR_VERSION, DLTensor};
use onnx_cast::DataType;
use onnx_cast::tensor::element_count;
use std::borrow::Cow;

/// A tensor in C order, packed.
#[derive(Debug)]
pub(super) struct Input<'a> {
    pub(super) data_type: DataType,
    pub(super) shape: Vec<usize>,
    pub(super) bytes: Cow<'a, [u8]>,
}

impl Input<'_> {
    /// # Safety
    /// The tensor is as DLPack describes it, and stays so while it is used.
    pub(super) unsafe fn new(managed: &DLManagedTensorVersioned) -> Result<Self, Failure> {
        let version = managed.version;
        if version.major != DLPACK_MAJOR_VERSION {
            let text =
                format_args!("a tensor of DLPack {}.{} (want {DLPACK_MAJOR_VERSION})", version.major, version.minor);
            return Err(Failure::unsupported(text));
        }
        if !NATIVE_IS_LITTLE {
            return Err(Failure::unsupported("DLPack tensors on a big-endian machine are unsupported"));
        }
        let tensor = &managed.dl_tensor;
        let device = tensor.device.device_type;
        if ![DLDeviceType::CPU, DLDeviceType::CUDAHOST, DLDeviceType::ROCMHOST].contains(&device) {
            let text = format_args!("a tensor on DLPack's device {} (want the host's memory)", device.0);
            return Err(Failure::unsupported(text));
        }
        let data_type = type_of_code(tensor.dtype.code.0, tensor.dtype.bits)?;
        // SAFETY: promised.
        let (mut shape, strides) = unsafe { (shape_of(tensor)?, strides_of(tensor)?) };
        let lanes = usize::from(tensor.dtype.lanes);
        let too_large = || Failure::overflow(format_args!("{data_type} of shape {shape:?} does not fit in memory"));
        let places = element_count(&shape).ok_or_else(too_large)?;
        let count = places.checked_mul(lanes).ok_or_else(too_large)?;
        let padded = data_type.is_packed() && managed.flags.contains(DlpackFlags::IS_SUBBYTE_TYPE_PADDED);
        // How a place lies in memory: as so many bytes, or as bits.
        let stored = if padded { DataType::Uint8 } else { data_type };
        let whole = byte_len(stored, count)?;
        // SAFETY: promised.
        let bytes = unsafe {
            let start = start_of(tensor, whole)?;
            match strides.filter(|strides| !is_compact(&shape, strides)) {
                None => Cow::Borrowed(read(start, whole, "src->dl_tensor.data")?),
                Some(strides) => {
                    let bits = stored.info().bits as usize * lanes;
                    if !bits.is_multiple_of(8) {
                        let text =
                            format_args!("{data_type} with strides that leave gaps (want them packed in C order)");
                        return Err(Failure::unsupported(text));
                    }
                    Cow::Owned(gather(start, &shape, &strides, bits / 8, whole)?)
                }
            }
        };
        if lanes != 1 {
            shape.push(lanes);
        }
        let bytes = if padded { Cow::Owned(packed(data_type, &bytes)?) } else { bytes };
        Ok(Input { data_type, shape, bytes })
    }
}

/// # Safety
/// As `Input::new`.
unsafe fn shape_of(tensor: &DLTensor) -> Result<Vec<usize>, Failure> {
    let dims = usize::try_from(tensor.ndim)
        .map_err(|_| Failure::invalid(format_args!("a tensor of {} dimensions", tensor.ndim)))?;
    // SAFETY: promised.
    let shape = unsafe { read(tensor.shape, dims, "src->dl_tensor.shape") }?;
    let dim = |&dim: &i64| usize::try_from(dim).map_err(|_| Failure::invalid(format_args!("a dimension of {dim}")));
    shape.iter().map(dim).collect()
}

/// Distances between neighbours in elements; `None` where the tensor leaves them out, because there are no gaps.
///
/// # Safety
/// As `Input::new`.
unsafe fn strides_of(tensor: &DLTensor) -> Result<Option<Vec<i64>>, Failure> {
    if tensor.strides.is_null() {
        return Ok(None);
    }
    // SAFETY: promised; `shape_of` has seen that the number of dimensions is one.
    Ok(Some(unsafe { read(tensor.strides, tensor.ndim as usize, "src->dl_tensor.strides") }?.to_vec()))
}

/// The first element; where there are no bytes, the pointer may be anything.
///
/// # Safety
/// As `Input::new`.
unsafe fn start_of(tensor: &DLTensor, bytes: usize) -> Result<*const u8, Failure> {
    let data = tensor.data.cast_const().cast::<u8>();
    if bytes == 0 {
        return Ok(std::ptr::null());
    }
    if data.is_null() {
        return Err(Failure::invalid("src->dl_tensor.data is null"));
    }
    let offset = usize::try_from(tensor.byte_offset).map_err(|_| Failure::overflow("byte_offset does not fit"))?;
    // SAFETY: DLPack has the offset within the tensor's memory.
    Ok(unsafe { data.add(offset) })
}

/// Whether elements are in C order without gaps. The stride of a dimension of one element does not matter, and without
/// elements no stride matters.
fn is_compact(shape: &[usize], strides: &[i64]) -> bool {
    let mut next = 1usize;
    for (&dim, &stride) in shape.iter().zip(strides).rev() {
        if dim == 0 {
            return true;
        }
        if dim != 1 && usize::try_from(stride) != Ok(next) {
            return false;
        }
        // Their product is the number of elements, which fits.
        next = next.wrapping_mul(dim);
    }
    true
}

/// The places of a tensor, each of so many bytes, in C order.
///
/// # Safety
/// From `start` on, each place of the shape can be read at its strides.
unsafe fn gather(
    start: *const u8,
    shape: &[usize],
    strides: &[i64],
    place: usize,
    whole: usize,
) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(whole).map_err(|_| Failure::out_of_memory(whole))?;
    let mut index = vec![0usize; shape.len()];
    while bytes.len() < whole {
        // Places that can be read are less than `isize::MAX` bytes away, so that nothing here wraps.
        let at = |(&i, &stride): (&usize, &i64)| (i as isize).wrapping_mul(stride as isize);
        let elements = index.iter().zip(strides).map(at).fold(0, isize::wrapping_add);
        // SAFETY: a place of the tensor.
        let bytes_there = unsafe {
            let from = start.offset(elements.wrapping_mul(place as isize));
            std::slice::from_raw_parts(from, place)
        };
        bytes.extend_from_slice(bytes_there);
        for (i, &dim) in index.iter_mut().zip(shape).rev() {
            *i += 1;
            if *i < dim {
                break;
            }
            *i = 0;
        }
    }
    Ok(bytes)
}

/// Elements that stand one in a byte, packed.
fn packed(data_type: DataType, elements: &[u8]) -> Result<Vec<u8>, Failure> {
    let len = byte_len(data_type, elements.len())?;
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(len).map_err(|_| Failure::out_of_memory(len))?;
    bytes.resize(len, 0);
    onnx_cast::packing::pack(data_type, elements, &mut bytes).map_err(Failure::unsupported)?;
    Ok(bytes)
}
