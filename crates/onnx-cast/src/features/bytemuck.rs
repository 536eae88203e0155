//! `bytemuck`: newtypes of 8 and 16 bits are plain data. Those of fewer bits keep the upper bits of their byte zero, so
//! bytes become one only where they are checked.

use crate::element::*;

macro_rules! plain {
    ($($ty:ident)*) => {$(
        // SAFETY: `repr(transparent)` over an integer, of which every pattern is an element.
        unsafe impl bytemuck::Zeroable for $ty {}
        // SAFETY: as above.
        unsafe impl bytemuck::Pod for $ty {}
    )*};
}
plain!(Float16 BFloat16 Float8E4M3FN Float8E4M3FNUZ Float8E5M2 Float8E5M2FNUZ Float8E8M0);

macro_rules! checked {
    ($($ty:ident)*) => {$(
        // SAFETY: `repr(transparent)` over u8, of which 0 is an element.
        unsafe impl bytemuck::Zeroable for $ty {}
        // SAFETY: `repr(transparent)` over u8, so there is no padding.
        unsafe impl bytemuck::NoUninit for $ty {}
        // SAFETY: a byte is an element where the bits above its width are zero.
        unsafe impl bytemuck::CheckedBitPattern for $ty {
            type Bits = u8;
            fn is_valid_bit_pattern(bits: &u8) -> bool {
                $ty::from_bits(*bits).to_bits() == *bits
            }
        }
    )*};
}
checked!(Int4 Uint4 Int2 Uint2 Float4E2M1 Float6E2M3 Float6E3M2);
