//! A float format as constants: how wide it is, where its exponent is biased, and what its top codes mean.
//!
//! Every float type of ONNX is one row of these constants (in its file under `element/`), and rounding, widening,
//! printing of tables and the command's `explain` are written once, over the row. Only `float8e8m0`, which has neither
//! sign nor significand, has rules of its own (`scalar/e8m0.rs`).

/// What a float format does with not-a-number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Nan {
    /// The format is finite only.
    None,
    /// IEEE 754: every code above infinity, of either sign.
    AboveInfinity,
    /// Only the all-ones magnitude, of either sign (`S.1111.111`).
    AllOnes,
    /// One code, without a sign: the one that minus zero would have.
    MinusZero,
    /// One code: all ones (a format without a sign).
    Top,
}

/// A binary float format: sign, exponent and significand fields, from the top bit down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FloatFormat {
    /// Width of a code in bits.
    pub bits: u32,
    /// Width of the exponent field.
    pub exponent_bits: u32,
    /// Width of the stored significand field (without the implicit bit).
    pub significand_bits: u32,
    /// A code with exponent field `e > 0` has the exponent `e - bias`.
    pub bias: i32,
    /// Whether there is a sign bit.
    pub signed: bool,
    /// Whether the format tells -0 from 0.
    pub negative_zero: bool,
    /// Whether there are infinities (exponent all ones, significand zero).
    pub infinity: bool,
    /// How not-a-number is written.
    pub nan: Nan,
}

impl FloatFormat {
    /// An IEEE 754 interchange format, or one built like it.
    pub const fn ieee(exponent_bits: u32, significand_bits: u32) -> Self {
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

    /// "FNUZ": finite, unsigned zero, NaN where -0 would be, and a bias one larger than IEEE 754's.
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

    /// The exponent alone, as a scale: powers of two, no sign, no zero.
    pub const fn exponent_only(exponent_bits: u32) -> Self {
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

    /// All bits of a code set.
    pub const fn code_mask(&self) -> u64 {
        u64::MAX >> (64 - self.bits)
    }

    /// The sign bit of a code, or 0 where the format has none.
    pub const fn sign_bit(&self) -> u64 {
        if self.signed { 1 << (self.bits - 1) } else { 0 }
    }

    /// The code of the largest finite number.
    pub const fn max_code(&self) -> u64 {
        let magnitude = self.code_mask() & !self.sign_bit();
        match self.nan {
            Nan::None | Nan::MinusZero => magnitude,
            Nan::AllOnes | Nan::Top => magnitude - 1,
            Nan::AboveInfinity => self.infinity_code() - 1,
        }
    }

    /// The code of +infinity where the format has one: exponent all ones, significand zero.
    pub const fn infinity_code(&self) -> u64 {
        ((1 << self.exponent_bits) - 1) << self.significand_bits
    }

    /// The code of the smallest normal number.
    pub const fn min_normal_code(&self) -> u64 {
        if self.signed { 1 << self.significand_bits } else { 0 }
    }

    /// The code of the difference between 1 and the next larger number, 2^-significand_bits.
    pub const fn epsilon_code(&self) -> u64 {
        let field = self.bias - self.significand_bits as i32;
        if field > 0 {
            (field as u64) << self.significand_bits
        } else {
            // Below the smallest normal number, 2^(1 - bias): in units of 2^(1 - bias - significand_bits).
            1 << (self.bias - 1)
        }
    }

    /// The code of the smallest subnormal number, where the format has subnormals.
    pub const fn min_subnormal_code(&self) -> Option<u64> {
        if self.significand_bits > 0 { Some(1) } else { None }
    }

    /// The code that a cast writes for NaN (of positive sign, where NaN has one), if the format has NaN.
    pub const fn nan_code(&self) -> Option<u64> {
        match self.nan {
            Nan::None => None,
            Nan::AboveInfinity => Some(self.infinity_code() | 1 << (self.significand_bits - 1)),
            Nan::AllOnes | Nan::Top => Some(self.code_mask() & !self.sign_bit()),
            Nan::MinusZero => Some(self.sign_bit()),
        }
    }

    /// Whether NaN carries a sign.
    pub const fn nan_is_signed(&self) -> bool {
        matches!(self.nan, Nan::AboveInfinity | Nan::AllOnes)
    }

    /// Whether `code` is NaN.
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
