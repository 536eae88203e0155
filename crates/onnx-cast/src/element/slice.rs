//! Typed slices as bytes. This module may use `unsafe`; it relies on the guarantees of [`Sealed`](super::Sealed).

use super::Element;

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
