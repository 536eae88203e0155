//! Converts 2-, 4- and 6-bit elements between one element per byte (in its low bits, as Python's array libraries store
//! them) and ONNX's packed layout, with the kernels' loads and stores.

use crate::arch::Backend;
use crate::element::DataType;
use crate::error::Count;
use crate::kernel::{Context, Kernel, Task};
use crate::packed::{self, Out, as_uninit, written};
use core::fmt;
use core::mem::MaybeUninit;

/// A buffer whose length or type does not suit the elements.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PackError {
    /// A type whose elements are not packed.
    NotPacked {
        /// The type.
        data_type: DataType,
    },
    /// A number of bytes other than the elements take.
    ByteLen {
        /// The element type.
        data_type: DataType,
        /// Number of elements.
        elements: usize,
        /// Bytes given.
        got: usize,
        /// Bytes that the elements take; `None` where that does not fit `usize`, or the type is string.
        want: Option<usize>,
    },
}

impl fmt::Display for PackError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PackError::NotPacked { data_type } => {
                write!(f, "{data_type} is not packed (want a type of 2, 4 or 6 bits)")
            }
            PackError::ByteLen { data_type, elements, got, want: Some(want) } => {
                write!(f, "{} for {elements} packed {data_type} (want {want})", Count(got, "byte"))
            }
            PackError::ByteLen { data_type, elements, got, want: None } => {
                let got = Count(got, "byte");
                write!(f, "{got} for {elements} {data_type} (their length is undefined or too large)")
            }
        }
    }
}

impl core::error::Error for PackError {}

/// Checks that packed elements take `got` bytes.
fn check_len(data_type: DataType, elements: usize, got: usize) -> Result<(), PackError> {
    let want = data_type.byte_len(elements);
    if want == Some(got) { Ok(()) } else { Err(PackError::ByteLen { data_type, elements, got, want }) }
}

fn check(data_type: DataType, elements: usize, bytes: usize) -> Result<(), PackError> {
    if !data_type.is_packed() {
        return Err(PackError::NotPacked { data_type });
    }
    check_len(data_type, elements, bytes)
}

/// Packs elements from one element per byte. The upper bits of each byte are ignored, and the padding is zero.
///
/// ```
/// use onnx_cast::DataType;
/// use onnx_cast::packing::pack;
///
/// let mut bytes = [0; 2];
/// pack(DataType::Int4, &[0x1, 0xf, 0x7], &mut bytes)?;
/// assert_eq!(bytes, [0xf1, 0x07]);
/// assert_eq!(
///     pack(DataType::Int4, &[0; 5], &mut bytes).unwrap_err().to_string(),
///     "2 bytes for 5 packed int4 (want 3)"
/// );
/// # Ok::<(), onnx_cast::packing::PackError>(())
/// ```
///
/// # Errors
/// Fails if the type is not packed, or if `bytes` does not have the length that the elements take.
pub fn pack(data_type: DataType, elements: &[u8], bytes: &mut [u8]) -> Result<(), PackError> {
    // SAFETY: packing writes only initialised bytes.
    pack_into_uninit(data_type, elements, unsafe { as_uninit(bytes) }).map(drop)
}

/// Like [`pack`], into memory that need not be initialised. Returns `bytes`, all of which is then written.
///
/// # Errors
/// Like [`pack`].
pub fn pack_into_uninit<'o>(
    data_type: DataType,
    elements: &[u8],
    bytes: &'o mut [MaybeUninit<u8>],
) -> Result<&'o mut [u8], PackError> {
    check(data_type, elements.len(), bytes.len())?;
    // SAFETY: the lengths were checked.
    Ok(unsafe { run(Backend::best().table().pack(data_type), data_type, elements.len(), elements, bytes) })
}

/// Unpacks elements to one element per byte. The upper bits are zero.
///
/// ```
/// use onnx_cast::DataType;
/// use onnx_cast::packing::unpack;
///
/// let mut elements = [0; 3];
/// unpack(DataType::Int4, &[0xf1, 0x07], &mut elements)?;
/// assert_eq!(elements, [0x1, 0xf, 0x7]);
/// # Ok::<(), onnx_cast::packing::PackError>(())
/// ```
///
/// # Errors
/// Fails if the type is not packed, or if `bytes` does not have the length that the elements take.
pub fn unpack(data_type: DataType, bytes: &[u8], elements: &mut [u8]) -> Result<(), PackError> {
    // SAFETY: unpacking writes only initialised bytes.
    unpack_into_uninit(data_type, bytes, unsafe { as_uninit(elements) }).map(drop)
}

/// Like [`unpack`], into memory that need not be initialised. Returns `elements`, all of which is then written.
///
/// # Errors
/// Like [`unpack`].
pub fn unpack_into_uninit<'o>(
    data_type: DataType,
    bytes: &[u8],
    elements: &'o mut [MaybeUninit<u8>],
) -> Result<&'o mut [u8], PackError> {
    let len = elements.len();
    check(data_type, len, bytes.len())?;
    // SAFETY: the lengths were checked.
    Ok(unsafe { run(Backend::best().table().unpack(data_type), data_type, len, bytes, elements) })
}

/// Zeroes the padding after the last of `len` elements. Types of 8 bits and more have no padding.
///
/// ```
/// use onnx_cast::DataType;
/// use onnx_cast::packing::clear_padding;
///
/// let mut bytes = [0x21, 0xf3];
/// clear_padding(DataType::Uint4, 3, &mut bytes)?;
/// assert_eq!(bytes, [0x21, 0x03]);
/// # Ok::<(), onnx_cast::packing::PackError>(())
/// ```
///
/// # Errors
/// Fails if `bytes` does not have the length that the elements take. It always fails for strings.
pub fn clear_padding(data_type: DataType, len: usize, bytes: &mut [u8]) -> Result<(), PackError> {
    check_len(data_type, len, bytes.len())?;
    packed::clear_padding(data_type, len, bytes);
    Ok(())
}

/// Runs a kernel that packs or unpacks, on the caller's thread; callers split large tensors themselves.
///
/// # Safety
/// `kernel` comes from the table of a [`Backend`] and packs or unpacks elements of `data_type`. `src` and `dst` have
/// the bytes of `len` elements.
unsafe fn run<'o>(
    kernel: Option<Kernel>,
    data_type: DataType,
    len: usize,
    src: &[u8],
    dst: &'o mut Out,
) -> &'o mut [u8] {
    let Some(kernel) = kernel else { unreachable!("every packed type has kernels that pack and unpack") };
    // SAFETY: `kernel`, `src` and `dst` are as `run` requires, and a kernel writes every byte of `dst`.
    unsafe {
        kernel(&Task::new(src, dst, len), &Context::plain(data_type, data_type));
        written(dst)
    }
}
