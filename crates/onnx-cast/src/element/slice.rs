//! Typed slices as bytes and back: one of the named rooms of `unsafe`.

use super::{BFloat16, Element, Float8E4M3FN, Float8E4M3FNUZ, Float8E5M2, Float8E5M2FNUZ, Float8E8M0, Float16};

/// An element whose slice in memory is the tensor's own layout: a whole number of bytes, no padding, every bit pattern
/// valid.
///
/// # Safety
/// The type has no padding, an alignment not above its size, and is valid for every bit pattern that
/// [`Element::to_bits`] of it can give; for all but `bool` that is every pattern. Kernels write only such patterns.
pub unsafe trait PlainElement: Element {}

macro_rules! plain {
    ($($ty:ty),*) => {$(
        // SAFETY: a primitive number, or a `repr(transparent)` newtype of one that keeps all of its bits. `bool` is
        // written by casts to `bool` alone, which give 0 or 1.
        unsafe impl PlainElement for $ty {}
    )*};
}
plain!(f32, f64, i8, i16, i32, i64, u8, u16, u32, u64, bool);
plain!(Float16, BFloat16, Float8E4M3FN, Float8E4M3FNUZ, Float8E5M2, Float8E5M2FNUZ, Float8E8M0);

/// The bytes of a slice, in the machine's order.
pub(crate) fn bytes_of<T: PlainElement>(slice: &[T]) -> &[u8] {
    // SAFETY: `PlainElement` has no padding, so all `size_of_val` bytes are initialised; u8 has alignment 1; the
    // lifetime is the borrow's.
    unsafe { std::slice::from_raw_parts(slice.as_ptr().cast(), size_of_val(slice)) }
}

/// The bytes of a slice, in the machine's order, to be overwritten with patterns valid for `T`.
///
/// # Safety
/// What is written is valid for `T` (for `bool`: 0 or 1).
pub(crate) unsafe fn bytes_of_mut<T: PlainElement>(slice: &mut [T]) -> &mut [u8] {
    // SAFETY: as in `bytes_of`; the borrow is unique, and the caller writes only what `T` allows.
    unsafe { std::slice::from_raw_parts_mut(slice.as_mut_ptr().cast(), size_of_val(slice)) }
}
