//! The element types that are Rust primitives.

use super::{DataType, Element, Sealed};

macro_rules! float {
    ($($float:ty, $data_type:ident, $bits:ty;)*) => {$(
        // SAFETY: a float has the size and alignment of the integer of its width, and every pattern is valid.
        unsafe impl Sealed for $float {}
        impl Element for $float {
            const DATA_TYPE: DataType = DataType::$data_type;
            type Bits = $bits;
            #[inline(always)]
            fn from_bits(bits: $bits) -> Self {
                <$float>::from_bits(bits)
            }
            #[inline(always)]
            fn to_bits(self) -> $bits {
                <$float>::to_bits(self)
            }
        }
    )*};
}
float! {
    f32, Float, u32;
    f64, Double, u64;
}

macro_rules! integer {
    ($($int:ty, $data_type:ident, $bits:ty;)*) => {$(
        // SAFETY: an integer has the layout of the unsigned integer of its width, and every pattern is valid.
        unsafe impl Sealed for $int {}
        impl Element for $int {
            const DATA_TYPE: DataType = DataType::$data_type;
            type Bits = $bits;
            #[inline(always)]
            fn from_bits(bits: $bits) -> Self {
                bits as $int
            }
            #[inline(always)]
            fn to_bits(self) -> $bits {
                self as $bits
            }
        }
    )*};
}
integer! {
    i8, Int8, u8;
    i16, Int16, u16;
    i32, Int32, u32;
    i64, Int64, u64;
    u8, Uint8, u8;
    u16, Uint16, u16;
    u32, Uint32, u32;
    u64, Uint64, u64;
}

// SAFETY: a bool has the size and alignment of u8, and 0 and 1, the only values of `to_bits`, are valid.
unsafe impl Sealed for bool {}

impl Element for bool {
    const DATA_TYPE: DataType = DataType::Bool;
    type Bits = u8;
    #[inline(always)]
    fn from_bits(bits: u8) -> Self {
        bits != 0
    }
    #[inline(always)]
    fn to_bits(self) -> u8 {
        self as u8
    }
}
