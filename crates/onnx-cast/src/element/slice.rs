//! Typed slices as bytes: one of the named rooms of `unsafe`. It rests on what [`Sealed`](super::Sealed) promises.

use super::Element;

/// The bytes of a slice, in the machine's byte order; one element in a byte where the type is packed.
pub(crate) fn bytes_of<T: Element>(slice: &[T]) -> &[u8] {
    // SAFETY: `Sealed` promises that `T` has no padding, so all `size_of_val` bytes are initialised; u8 has alignment 1;
    // the lifetime is the borrow's.
    unsafe { std::slice::from_raw_parts(slice.as_ptr().cast(), size_of_val(slice)) }
}

/// As [`bytes_of`], to be overwritten.
///
/// # Safety
/// The caller writes only patterns that [`Element::to_bits`] of `T` can return: 0 or 1 for `bool`, zeros above the width
/// of a packed type.
pub(crate) unsafe fn bytes_of_mut<T: Element>(slice: &mut [T]) -> &mut [u8] {
    // SAFETY: as in `bytes_of`; the borrow is unique, and the caller writes only what `T` allows.
    unsafe { std::slice::from_raw_parts_mut(slice.as_mut_ptr().cast(), size_of_val(slice)) }
}
