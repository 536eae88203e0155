//! `bytemuck`: newtypes of 8 and 16 bits are plain data. Narrower newtypes keep the upper bits of their byte zero, so
//! bytes are checked before they are cast to one.

use crate::element::*;

macro_rules! plain {
    ($($ty:ident)*) => {$(
        // SAFETY: the type is `repr(transparent)` over an integer, and every pattern is valid.
        unsafe impl bytemuck::Zeroable for $ty {}
        // SAFETY: as above.
        unsafe impl bytemuck::Pod for $ty {}
    )*};
}
plain!(Float16 BFloat16 Float8E4M3FN Float8E4M3FNUZ Float8E5M2 Float8E5M2FNUZ Float8E8M0);

macro_rules! checked {
    ($($ty:ident)*) => {$(
        // SAFETY: the type is `repr(transparent)` over u8, and 0 is valid.
        unsafe impl bytemuck::Zeroable for $ty {}
        // SAFETY: the type is `repr(transparent)` over u8, so it has no padding.
        unsafe impl bytemuck::NoUninit for $ty {}
        // SAFETY: a byte is valid if the bits above the element's width are zero, which `from_bits` ensures.
        unsafe impl bytemuck::CheckedBitPattern for $ty {
            type Bits = u8;
            fn is_valid_bit_pattern(bits: &u8) -> bool {
                $ty::from_bits(*bits).to_bits() == *bits
            }
        }
    )*};
}
checked!(Int4 Uint4 Int2 Uint2 Float4E2M1 Float6E2M3 Float6E3M2);
