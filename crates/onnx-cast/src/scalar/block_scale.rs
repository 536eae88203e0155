//! The scales of block formats: a block's is found from its largest magnitude. This is the specification of MX and
//! NVFP4; elements are quotients as those of QuantizeLinear ([`super::scaled`]).

use super::scaled::is_moderate;
use super::widen_code;
use crate::element::DataType;
use crate::error::Short;
use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

/// A type of elements with a scale for each block of them.
///
/// ```
/// use onnx_cast::DataType;
/// use onnx_cast::scaled::BlockFormat;
///
/// let format: BlockFormat = "mxfp4".parse()?;
/// assert_eq!((format.element(), format.scale(), format.block()), (DataType::Float4E2M1, DataType::Float8E8M0, 32));
/// # Ok::<(), onnx_cast::scaled::UnknownFormat>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BlockFormat {
    /// MXFP8 with float8e4m3fn.
    MxFp8,
    /// MXFP8 with float8e5m2.
    MxFp8E5M2,
    /// MXFP6 with float6e2m3.
    MxFp6E2M3,
    /// MXFP6 with float6e3m2.
    MxFp6E3M2,
    /// MXFP4: float4e2m1.
    MxFp4,
    /// MXINT8: int8, whose elements count 64ths.
    MxInt8,
    /// NVFP4: float4e2m1.
    NvFp4,
}

impl BlockFormat {
    /// Every format.
    pub const ALL: &'static [BlockFormat] = &[
        BlockFormat::MxFp8,
        BlockFormat::MxFp8E5M2,
        BlockFormat::MxFp6E2M3,
        BlockFormat::MxFp6E3M2,
        BlockFormat::MxFp4,
        BlockFormat::MxInt8,
        BlockFormat::NvFp4,
    ];

    /// Its name: `mxfp4`.
    pub const fn name(self) -> &'static str {
        match self {
            BlockFormat::MxFp8 => "mxfp8",
            BlockFormat::MxFp8E5M2 => "mxfp8e5m2",
            BlockFormat::MxFp6E2M3 => "mxfp6e2m3",
            BlockFormat::MxFp6E3M2 => "mxfp6e3m2",
            BlockFormat::MxFp4 => "mxfp4",
            BlockFormat::MxInt8 => "mxint8",
            BlockFormat::NvFp4 => "nvfp4",
        }
    }

    /// The type of an element.
    pub const fn element(self) -> DataType {
        match self {
            BlockFormat::MxFp8 => DataType::Float8E4M3FN,
            BlockFormat::MxFp8E5M2 => DataType::Float8E5M2,
            BlockFormat::MxFp6E2M3 => DataType::Float6E2M3,
            BlockFormat::MxFp6E3M2 => DataType::Float6E3M2,
            BlockFormat::MxFp4 | BlockFormat::NvFp4 => DataType::Float4E2M1,
            BlockFormat::MxInt8 => DataType::Int8,
        }
    }

    /// The type of a block's scale.
    pub const fn scale(self) -> DataType {
        match self {
            BlockFormat::NvFp4 => DataType::Float8E4M3FN,
            _ => DataType::Float8E8M0,
        }
    }

    /// Elements of a block.
    pub const fn block(self) -> usize {
        match self {
            BlockFormat::NvFp4 => 16,
            _ => 32,
        }
    }

    /// The code of a NaN scale.
    pub(crate) const fn nan(self) -> u8 {
        match self {
            BlockFormat::NvFp4 => 0x7f,
            _ => 0xff,
        }
    }

    /// The largest value of an element, and the bits of its significand.
    fn largest(self) -> (f32, u32) {
        match self.element().float_format() {
            Some(format) => (widen_code(format, format.max_code() as u32), format.significand_bits),
            None => (INT8_MAX * INT8_UNIT, 6),
        }
    }
}

/// How the scale of an MX block, a power of two, is derived from the block's largest magnitude A. `emax` is the
/// exponent of the element's largest value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ScaleRule {
    /// `floor(log2 A) - emax`, the default: the OCP text, torchao, oneDNN, llama.cpp.
    #[default]
    Floor,
    /// `ceil(log2(A / max))`: cuBLAS, Transformer Engine, ModelOpt.
    Rceil,
    /// `ceil(log2 A) - emax`: torchao.
    Ceil,
    /// `floor(log2 A) - emax` after A is rounded half up to the element's significand: torchao, Quark.
    Even,
}

/// Whose arithmetic gives the scales of NVFP4.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Recipe {
    /// ModelOpt's, the default: the global scale is a factor.
    #[default]
    ModelOpt,
    /// torchao's: likewise, with other roundings.
    TorchAo,
    /// compressed-tensors': the global scale is a divisor.
    CompressedTensors,
}

/// Implements the names of an enum.
macro_rules! names {
    ($($ty:ident, $what:literal: $($variant:ident $name:literal),*;)*) => {$(
        impl $ty {
            /// Every one.
            pub const ALL: &'static [$ty] = &[$($ty::$variant),*];

            /// Its name.
            pub const fn name(self) -> &'static str {
                match self {
                    $($ty::$variant => $name,)*
                }
            }
        }

        parse!($ty, $what);
    )*};
}

macro_rules! parse {
    ($ty:ident, $what:literal) => {
        impl fmt::Display for $ty {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.name())
            }
        }

        impl FromStr for $ty {
            type Err = UnknownFormat;

            fn from_str(name: &str) -> Result<Self, UnknownFormat> {
                let known = $ty::ALL.iter().copied().find(|one| one.name() == name);
                let names = || $ty::ALL.iter().map(|one| one.name()).collect();
                known.ok_or_else(|| UnknownFormat { what: $what, name: name.to_owned(), known: names() })
            }
        }
    };
}

names! {
    ScaleRule, "scale rule": Floor "floor", Rceil "rceil", Ceil "ceil", Even "even";
    Recipe, "recipe": ModelOpt "modelopt", TorchAo "torchao", CompressedTensors "compressed-tensors";
}
parse!(BlockFormat, "block format");

/// A name that is not a block format, a rule or a recipe.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnknownFormat {
    what: &'static str,
    name: String,
    known: Vec<&'static str>,
}

impl fmt::Display for UnknownFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} `{}` is not known (want {})", self.what, Short(&self.name), self.known.join(", "))
    }
}

impl core::error::Error for UnknownFormat {}

/// An element of MXINT8 counts 64ths.
pub(crate) const INT8_UNIT: f32 = 1.0 / 64.0;

/// The largest element of MXINT8; the smallest is its negative.
pub(crate) const INT8_MAX: f32 = 127.0;

/// The largest float4e2m1 and the largest float8e4m3fn.
const E2M1_MAX: f32 = 6.0;
const E4M3_MAX: f32 = 448.0;

/// The least positive float8e4m3fn, 2^-9, and the least normal one, 2^-6.
const LEAST_E4M3: f32 = 1.0 / 512.0;
const LEAST_NORMAL_E4M3: f32 = 1.0 / 64.0;

/// How an MX format finds the power of two of a block.
pub(crate) struct PowerOfTwo {
    rule: ScaleRule,
    /// The exponent of an element's largest value, and the fraction of its significand, as a float's.
    exponent: i32,
    fraction: u32,
    significand_bits: u32,
    /// What the power is multiplied with to give the divisor: a power of two.
    unit: f32,
}

impl PowerOfTwo {
    /// The code of a block that is not finite.
    pub(crate) const NAN: u8 = 0xff;
    const FRACTION: u32 = f32::MANTISSA_DIGITS - 1;
    const FRACTION_MASK: u32 = (1 << PowerOfTwo::FRACTION) - 1;

    pub(crate) fn new(format: BlockFormat, rule: ScaleRule) -> Self {
        let (largest, significand_bits) = format.largest();
        let bits = largest.to_bits();
        let (exponent, fraction) = ((bits >> PowerOfTwo::FRACTION) as i32 - 127, bits & PowerOfTwo::FRACTION_MASK);
        let unit = if format == BlockFormat::MxInt8 { INT8_UNIT } else { 1.0 };
        PowerOfTwo { rule, exponent, fraction, significand_bits, unit }
    }

    /// Finds the scales of blocks from the bits of their largest magnitudes: codes, and the factors that elements are
    /// multiplied by. If a block is not finite, its code is NaN. Its factor is then 1, as that of a block of zeros.
    /// Returns whether each factor [`is_moderate`]; others may be infinite.
    #[inline(always)]
    pub(crate) fn scales(&self, amax: &[u32], codes: &mut [u8], factors: &mut [[u8; 4]]) -> bool {
        const INFINITY: u32 = f32::INFINITY.to_bits();
        // What is added to the fraction, and carries into the exponent where the power is the next one.
        let carry = match self.rule {
            ScaleRule::Floor => 0,
            ScaleRule::Ceil => PowerOfTwo::FRACTION_MASK,
            ScaleRule::Rceil => PowerOfTwo::FRACTION_MASK - self.fraction,
            ScaleRule::Even => 1 << (PowerOfTwo::FRACTION - 1 - self.significand_bits),
        };
        let mut are_moderate = true;
        for ((bits, code), factor) in amax.iter().zip(codes).zip(factors) {
            // From 2^-127 on a subnormal number has its exponent one place lower; below, the scale is the least anyway.
            let is_subnormal = *bits >> PowerOfTwo::FRACTION == 0;
            let (normal, bias) = if is_subnormal { (*bits << 1, 128) } else { (*bits, 127) };
            let log = ((normal + carry) >> PowerOfTwo::FRACTION) as i32 - bias;
            let found = (log - self.exponent).clamp(-127, 127) + 127;
            let is_nan = *bits >= INFINITY;
            *code = if is_nan { PowerOfTwo::NAN } else { found as u8 };
            let power = PowerOfTwo::power(254 - found as u32) * (1.0 / self.unit);
            let number = if is_nan | (*bits == 0) { 1.0 } else { power };
            are_moderate &= is_moderate(number);
            *factor = number.to_le_bytes();
        }
        are_moderate
    }

    /// What elements are divided by, from the code of their block: 1 where that is not finite.
    pub(crate) fn divisor(&self, code: u8) -> f32 {
        if code == PowerOfTwo::NAN { 1.0 } else { PowerOfTwo::power(code.into()) * self.unit }
    }

    /// 2 to the power of a code less 127.
    #[inline(always)]
    fn power(code: u32) -> f32 {
        let subnormal = 1 << (PowerOfTwo::FRACTION - 1);
        f32::from_bits(if code == 0 { subnormal } else { code << PowerOfTwo::FRACTION })
    }
}

impl Recipe {
    /// The scale of a tensor of NVFP4, from its largest finite magnitude.
    pub(crate) fn global_scale(self, amax: f32) -> f32 {
        let max = E2M1_MAX * E4M3_MAX;
        match self {
            Recipe::CompressedTensors => {
                let divisor = 1.0 / amax * max;
                if divisor.is_finite() { divisor } else { 1.0 }
            }
            _ if amax == 0.0 => 1.0,
            _ => amax / max,
        }
    }

    /// The number from which the scale of an NVFP4 block is computed: the largest magnitude itself, which is finite, or
    /// for compressed-tensors its quotient, which the caller rounds to the type of the values.
    #[inline(always)]
    pub(crate) fn rounded_first(self, amax: f32) -> f32 {
        if self == Recipe::CompressedTensors { amax / E2M1_MAX } else { amax }
    }

    /// The scale before it is narrowed, from that and the scale of the tensor. Every operation is rounded to float, in
    /// the default float environment.
    #[inline(always)]
    pub(crate) fn wide_scale(self, amax: f32, global: f32) -> f32 {
        match self {
            Recipe::ModelOpt => match amax / (E2M1_MAX * global) {
                quotient if amax == 0.0 || quotient == 0.0 => 1.0,
                quotient => quotient.clamp(LEAST_E4M3, E4M3_MAX),
            },
            Recipe::TorchAo if amax == 0.0 => LEAST_NORMAL_E4M3,
            Recipe::TorchAo => (amax / E2M1_MAX / global).clamp(LEAST_NORMAL_E4M3, E4M3_MAX),
            Recipe::CompressedTensors => global * amax,
        }
    }

    /// What a narrowed scale of 0 is replaced by, as a code of float8e4m3fn.
    pub(crate) const fn code_for_zero(self) -> u8 {
        match self {
            // 0.125.
            Recipe::CompressedTensors => 0x20,
            Recipe::ModelOpt | Recipe::TorchAo => 0,
        }
    }

    /// What elements are divided by, or by torchao's recipe multiplied with, from the narrowed scale.
    #[inline(always)]
    pub(crate) fn factor(self, scale: f32, global: f32) -> f32 {
        match self {
            Recipe::ModelOpt => scale * global,
            Recipe::TorchAo => 1.0 / global / scale,
            Recipe::CompressedTensors => scale / global,
        }
    }
}
