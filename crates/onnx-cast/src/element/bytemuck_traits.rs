//! `bytemuck`: newtypes that use every bit of their pattern are plain data. Narrower newtypes keep the upper bits of
//! their byte zero, so bytes are checked before they are cast to one. `bit_pattern_type!` calls one of these macros.

macro_rules! plain {
    ($ty:ident) => {
        // SAFETY: the type is `repr(transparent)` over an integer, and 0 is valid.
        unsafe impl ::bytemuck::Zeroable for $ty {}
        // SAFETY: the type is `repr(transparent)` over an integer, and every pattern is valid.
        unsafe impl ::bytemuck::Pod for $ty {}
    };
}
pub(super) use plain;

macro_rules! checked {
    ($ty:ident) => {
        // SAFETY: the type is `repr(transparent)` over u8, and 0 is valid.
        unsafe impl ::bytemuck::Zeroable for $ty {}
        // SAFETY: the type is `repr(transparent)` over u8, so it has no padding.
        unsafe impl ::bytemuck::NoUninit for $ty {}
        // SAFETY: a byte is valid if the bits above the element's width are zero, which `from_bits` ensures.
        unsafe impl ::bytemuck::CheckedBitPattern for $ty {
            type Bits = u8;
            fn is_valid_bit_pattern(bits: &u8) -> bool {
                $ty::from_bits(*bits).to_bits() == *bits
            }
        }
    };
}
pub(super) use checked;
