//! A float format as constants: its width, its exponent bias, and the meaning of its top codes.
//!
//! Every float type of ONNX is one row of these constants (in its file under `element/`). Rounding, widening, the
//! printed tables and the command's `explain` are each written once, over the row. Only `float8e8m0`, which has neither
//! sign nor significand, has rules of its own (`scalar/e8m0.rs`).

/// How a float format encodes NaN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Nan {
    /// There is no NaN: the format is finite only.
    None,
    /// IEEE 754: every code above infinity, of either sign.
    AboveInfinity,
    /// Only the all-ones magnitude, of either sign (`S.1111.111`).
    AllOnes,
    /// One code without a sign: the sign bit alone, which would otherwise be -0.
    MinusZero,
    /// One code: all ones, in a format without a sign bit.
    Top,
}

/// A binary float format: sign, exponent and significand fields, from the top bit down.
///
/// ```
/// use onnx_cast::DataType;
/// use onnx_cast::types::FloatFormat;
///
/// assert_eq!(DataType::Float16.float_format(), Some(FloatFormat::ieee(5, 10)));
/// assert_eq!(DataType::Float8E4M3FN.float_format(), Some(FloatFormat::finite_with_nan(4, 3)));
/// assert_eq!(DataType::Float8E8M0.float_format(), Some(FloatFormat::exponent_only(8)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FloatFormat {
    /// Width of a code in bits.
    pub bits: u32,
    /// Width of the exponent field.
    pub exponent_bits: u32,
    /// Width of the stored significand field, without the implicit bit.
    pub significand_bits: u32,
    /// A code with exponent field `e > 0` has the exponent `e - bias`.
    pub bias: i32,
    /// Whether there is a sign bit.
    pub signed: bool,
    /// Whether the format has -0.
    pub negative_zero: bool,
    /// Whether there are infinities: exponent all ones, significand zero.
    pub infinity: bool,
    /// How NaN is encoded.
    pub nan: Nan,
}

impl FloatFormat {
    /// An IEEE 754 interchange format, or one with the same structure.
    ///
    /// # Panics
    /// If one of the fields has no bits, if the exponent has more than 30, or the format more than 64. The same holds
    /// for the formats below.
    pub const fn ieee(exponent_bits: u32, significand_bits: u32) -> Self {
        assert!(exponent_bits >= 1 && exponent_bits <= 30, "an exponent field has 1 to 30 bits");
        assert!(significand_bits >= 1 && significand_bits <= 63 - exponent_bits, "a float has 64 bits or fewer");
        FloatFormat {
            bits: 1 + exponent_bits + significand_bits,
            exponent_bits,
            significand_bits,
            bias: (1 << (exponent_bits - 1)) - 1,
            signed: true,
            negative_zero: true,
            infinity: true,
            nan: Nan::AboveInfinity,
        }
    }

    /// "FN": finite, with NaN where the magnitude is all ones.
    pub const fn finite_with_nan(exponent_bits: u32, significand_bits: u32) -> Self {
        FloatFormat { infinity: false, nan: Nan::AllOnes, ..Self::ieee(exponent_bits, significand_bits) }
    }

    /// "FNUZ": finite, unsigned zero, NaN in place of -0, and a bias one larger than IEEE 754's.
    pub const fn finite_unsigned_zero(exponent_bits: u32, significand_bits: u32) -> Self {
        FloatFormat {
            bias: 1 << (exponent_bits - 1),
            negative_zero: false,
            infinity: false,
            nan: Nan::MinusZero,
            ..Self::ieee(exponent_bits, significand_bits)
        }
    }

    /// Finite only: every code is a number.
    pub const fn finite(exponent_bits: u32, significand_bits: u32) -> Self {
        FloatFormat { infinity: false, nan: Nan::None, ..Self::ieee(exponent_bits, significand_bits) }
    }

    /// Only an exponent, for scales: powers of two, no sign, no zero.
    ///
    /// # Panics
    /// If the exponent has no bits, or more than 30.
    pub const fn exponent_only(exponent_bits: u32) -> Self {
        assert!(exponent_bits >= 1 && exponent_bits <= 30, "an exponent field has 1 to 30 bits");
        FloatFormat {
            bits: exponent_bits,
            exponent_bits,
            significand_bits: 0,
            bias: (1 << (exponent_bits - 1)) - 1,
            signed: false,
            negative_zero: false,
            infinity: false,
            nan: Nan::Top,
        }
    }

    /// A code with all its bits set.
    pub const fn code_mask(&self) -> u64 {
        u64::MAX >> (64 - self.bits)
    }

    /// The sign bit of a code, or 0 where the format has none.
    pub const fn sign_bit(&self) -> u64 {
        if self.signed { 1 << (self.bits - 1) } else { 0 }
    }

    /// The code of the largest finite number.
    ///
    /// ```
    /// use onnx_cast::types::{Float8E4M3FN, Float8E5M2};
    ///
    /// assert_eq!(Float8E4M3FN::FORMAT.max_code(), 0x7e); // 448; 0x7f is NaN
    /// assert_eq!(Float8E5M2::FORMAT.max_code(), 0x7b); // 57344; 0x7c is infinity
    /// ```
    pub const fn max_code(&self) -> u64 {
        let magnitude = self.code_mask() & !self.sign_bit();
        match self.nan {
            Nan::None | Nan::MinusZero => magnitude,
            Nan::AllOnes | Nan::Top => magnitude - 1,
            Nan::AboveInfinity => self.infinity_code() - 1,
        }
    }

    /// The code of +infinity, if the format has infinities: exponent all ones, significand zero. Formats without
    /// infinities use this code for a number or NaN.
    ///
    /// ```
    /// use onnx_cast::types::Float16;
    ///
    /// assert_eq!(Float16::FORMAT.infinity_code(), 0x7c00);
    /// ```
    pub const fn infinity_code(&self) -> u64 {
        ((1 << self.exponent_bits) - 1) << self.significand_bits
    }

    /// The code of the smallest normal number.
    ///
    /// ```
    /// use onnx_cast::types::Float16;
    ///
    /// assert_eq!(Float16::FORMAT.min_normal_code(), 0x0400); // 2^-14
    /// ```
    pub const fn min_normal_code(&self) -> u64 {
        if self.signed { 1 << self.significand_bits } else { 0 }
    }

    /// The code of the difference between 1 and the next larger number, 2^-significand_bits.
    ///
    /// ```
    /// use onnx_cast::types::Float8E4M3FN;
    ///
    /// assert_eq!(Float8E4M3FN::FORMAT.epsilon_code(), 0x20); // 0.125
    /// ```
    pub const fn epsilon_code(&self) -> u64 {
        let field = self.bias - self.significand_bits as i32;
        if field > 0 {
            (field as u64) << self.significand_bits
        } else {
            // A subnormal: 2^-significand_bits in units of the smallest subnormal, 2^(1 - bias - significand_bits).
            1 << (self.bias - 1)
        }
    }

    /// The code of the smallest subnormal number, if the format has subnormals.
    ///
    /// ```
    /// use onnx_cast::types::{Float8E5M2, Float8E8M0};
    ///
    /// assert_eq!(Float8E5M2::FORMAT.min_subnormal_code(), Some(1)); // 2^-16
    /// assert_eq!(Float8E8M0::FORMAT.min_subnormal_code(), None);
    /// ```
    pub const fn min_subnormal_code(&self) -> Option<u64> {
        if self.significand_bits > 0 { Some(1) } else { None }
    }

    /// The code that a cast writes for NaN, if the format has NaN; with a positive sign if NaN has one.
    ///
    /// ```
    /// use onnx_cast::types::{Float4E2M1, Float8E4M3FNUZ, Float16};
    ///
    /// assert_eq!(Float16::FORMAT.nan_code(), Some(0x7e00));
    /// assert_eq!(Float8E4M3FNUZ::FORMAT.nan_code(), Some(0x80));
    /// assert_eq!(Float4E2M1::FORMAT.nan_code(), None);
    /// ```
    pub const fn nan_code(&self) -> Option<u64> {
        match self.nan {
            Nan::None => None,
            Nan::AboveInfinity => Some(self.infinity_code() | 1 << (self.significand_bits - 1)),
            Nan::AllOnes | Nan::Top => Some(self.code_mask() & !self.sign_bit()),
            Nan::MinusZero => Some(self.sign_bit()),
        }
    }

    /// Whether NaN has a sign.
    ///
    /// ```
    /// use onnx_cast::types::{Float8E4M3FN, Float8E4M3FNUZ};
    ///
    /// assert!(Float8E4M3FN::FORMAT.nan_is_signed()); // 0x7f and 0xff
    /// assert!(!Float8E4M3FNUZ::FORMAT.nan_is_signed()); // 0x80
    /// ```
    pub const fn nan_is_signed(&self) -> bool {
        matches!(self.nan, Nan::AboveInfinity | Nan::AllOnes)
    }

    /// Whether `code` is NaN.
    ///
    /// ```
    /// use onnx_cast::types::Float8E5M2;
    ///
    /// let codes: Vec<u64> = (0..=0xff).filter(|&code| Float8E5M2::FORMAT.is_nan(code)).collect();
    /// assert_eq!(codes, [0x7d, 0x7e, 0x7f, 0xfd, 0xfe, 0xff]);
    /// ```
    pub const fn is_nan(&self, code: u64) -> bool {
        let magnitude = code & !self.sign_bit();
        match self.nan {
            Nan::None => false,
            Nan::AboveInfinity => magnitude > self.infinity_code(),
            Nan::AllOnes | Nan::Top => magnitude == self.code_mask() & !self.sign_bit(),
            Nan::MinusZero => code == self.sign_bit(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fields that would shift by less than nothing, or past the end of a code.
    #[test]
    fn fields_of_no_bits_or_too_many_are_refused() {
        for (exponent_bits, significand_bits) in [(0, 3), (31, 3), (5, 0), (30, 34), (8, u32::MAX)] {
            for make in [
                FloatFormat::ieee,
                FloatFormat::finite,
                FloatFormat::finite_with_nan,
                FloatFormat::finite_unsigned_zero,
            ] {
                let made = std::panic::catch_unwind(|| make(exponent_bits, significand_bits));
                assert!(made.is_err(), "{exponent_bits}, {significand_bits}");
            }
        }
        assert!(
            [0, 31, u32::MAX]
                .iter()
                .all(|bits| std::panic::catch_unwind(|| FloatFormat::exponent_only(*bits)).is_err())
        );
        assert_eq!((FloatFormat::ieee(11, 52).code_mask(), FloatFormat::ieee(1, 62).bits), (u64::MAX, 64));
    }
}
