//! Typed slices as bytes. This module may use `unsafe`; it relies on the guarantees of [`Sealed`](super::Sealed).

use super::{DataType, Element};

/// The bytes of a slice, in native byte order; one element per byte where the type is packed.
pub(crate) fn bytes_of<T: Element>(slice: &[T]) -> &[u8] {
    // SAFETY: `Sealed` guarantees that `T` has no padding, so all `size_of_val` bytes are initialised. `u8` has
    // alignment 1. The result has the lifetime of the borrow.
    unsafe { core::slice::from_raw_parts(slice.as_ptr().cast(), size_of_val(slice)) }
}

/// As [`bytes_of`], mutable.
///
/// # Safety
/// The caller writes only patterns that [`Element::to_bits`] of `T` can return: 0 or 1 for `bool`, and zeros above the
/// width of a packed type.
pub(crate) unsafe fn bytes_of_mut<T: Element>(slice: &mut [T]) -> &mut [u8] {
    // SAFETY: as in `bytes_of`. The borrow is unique, and the caller writes only valid patterns of `T`.
    unsafe { core::slice::from_raw_parts_mut(slice.as_mut_ptr().cast(), size_of_val(slice)) }
}

/// Bytes in native byte order as elements of a type that is not packed. `None` if the bytes are not aligned for `T`,
/// are not whole elements, or are not all 0 or 1 for `bool`.
pub(crate) fn elements_of<T: Element>(bytes: &[u8]) -> Option<&[T]> {
    let is_bool = matches!(T::DATA_TYPE, DataType::Bool);
    if T::DATA_TYPE.is_packed() || is_bool && bytes.iter().any(|&byte| byte > 1) {
        return None;
    }
    if bytes.is_empty() {
        // The address of an empty slice is often not aligned.
        return Some(&[]);
    }
    let first = bytes.as_ptr().cast::<T>();
    if !first.is_aligned() || !bytes.len().is_multiple_of(size_of::<T>()) {
        return None;
    }
    // SAFETY: `first` is aligned and points to `bytes.len()` initialised bytes with the lifetime of the borrow. Every
    // pattern of an element of 8 bits or more is valid, other than of `bool`, whose bytes are checked above.
    Some(unsafe { core::slice::from_raw_parts(first, bytes.len() / size_of::<T>()) })
}
