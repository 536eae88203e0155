//! The 4-bit integers.

use super::bit_pattern_type;

bit_pattern_type! {
    /// ONNX `int4`: two's complement, -8 to 7.
    #[derive(PartialEq, Eq, Hash)]
    Int4, u8, 0x0f
}

impl Int4 {
    /// The smallest value.
    pub const MIN: Self = Int4(0x08);

    /// The largest value.
    pub const MAX: Self = Int4(0x07);

    /// The value, -8 to 7.
    pub const fn value(self) -> i8 {
        ((self.0 << 4) as i8) >> 4
    }
}

bit_pattern_type! {
    /// ONNX `uint4`: 0 to 15.
    #[derive(PartialEq, Eq, Hash)]
    Uint4, u8, 0x0f
}

impl Uint4 {
    /// The smallest value.
    pub const MIN: Self = Uint4(0);

    /// The largest value.
    pub const MAX: Self = Uint4(0x0f);

    /// The value, 0 to 15.
    pub const fn value(self) -> u8 {
        self.0
    }
}
