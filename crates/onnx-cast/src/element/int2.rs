//! The 2-bit integers.

use super::bit_pattern_type;

bit_pattern_type! {
    /// ONNX `int2`: two's complement, -2 to 1.
    #[derive(PartialEq, Eq, Hash)]
    Int2, u8, 0x03
}

impl Int2 {
    /// The smallest value.
    pub const MIN: Self = Int2(0x02);

    /// The largest value.
    pub const MAX: Self = Int2(0x01);

    /// The value, -2 to 1.
    pub const fn value(self) -> i8 {
        ((self.0 << 6) as i8) >> 6
    }
}

bit_pattern_type! {
    /// ONNX `uint2`: 0 to 3.
    #[derive(PartialEq, Eq, Hash)]
    Uint2, u8, 0x03
}

impl Uint2 {
    /// The smallest value.
    pub const MIN: Self = Uint2(0);

    /// The largest value.
    pub const MAX: Self = Uint2(0x03);

    /// The value, 0 to 3.
    pub const fn value(self) -> u8 {
        self.0
    }
}
