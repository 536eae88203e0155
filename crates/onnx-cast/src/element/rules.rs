//! The codes that a cast writes for overflow, infinity and NaN. `saturate`, `round_mode` and the operator's version are
//! resolved to these codes once, so no kernel depends on versions.

use super::{DataType, NUMBERS};
use crate::error::Short;
use crate::format::FloatFormat;
use alloc::borrow::ToOwned;
use alloc::string::String;
use core::fmt;
use core::str::FromStr;

/// How a value between two powers of two is rounded to `float8e8m0` (attribute `round_mode`, from version 24).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RoundMode {
    /// The smallest power of two not below the value.
    #[default]
    Up,
    /// The largest power of two not above the value.
    Down,
    /// The nearer power of two; the upper one at a tie.
    Nearest,
}

impl RoundMode {
    /// Every mode.
    pub const ALL: &'static [RoundMode] = &[RoundMode::Up, RoundMode::Down, RoundMode::Nearest];

    /// ONNX's name of the mode: `up`, `down` or `nearest`.
    pub const fn name(self) -> &'static str {
        match self {
            RoundMode::Up => "up",
            RoundMode::Down => "down",
            RoundMode::Nearest => "nearest",
        }
    }
}

impl fmt::Display for RoundMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for RoundMode {
    type Err = UnknownRoundMode;

    /// Parses ONNX's name, `up`, `down` or `nearest`, in lower case.
    ///
    /// ```
    /// use onnx_cast::RoundMode;
    ///
    /// assert_eq!("nearest".parse(), Ok(RoundMode::Nearest));
    /// assert!("Up".parse::<RoundMode>().is_err());
    /// ```
    fn from_str(word: &str) -> Result<Self, UnknownRoundMode> {
        let known = RoundMode::ALL.iter().copied().find(|mode| mode.name() == word);
        known.ok_or_else(|| UnknownRoundMode { word: word.to_owned() })
    }
}

/// A name that is not a rounding mode of ONNX.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnknownRoundMode {
    /// The name, as given.
    pub word: String,
}

impl fmt::Display for UnknownRoundMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "round_mode `{}` is not known (want up, down or nearest)", Short(&self.word))
    }
}

impl core::error::Error for UnknownRoundMode {}

/// The first version with the rules of all later ones.
const UNCHANGED_SINCE: i64 = 24;

/// The codes that one cast writes for overflow, infinity and NaN in its target type. Only float targets of 8 bits or
/// fewer use them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Magnitude code for a finite value beyond the largest.
    pub(crate) overflow: u8,
    /// Magnitude code for an infinity.
    pub(crate) infinity: u8,
    /// Code for NaN. The sign is added where the format's NaN has one.
    pub(crate) nan: u8,
    /// `float8e8m0`: code for zero, negative values and values below 2^-127.
    pub(crate) underflow: u8,
    /// `float8e8m0`: the rounding.
    pub(crate) round_mode: RoundMode,
}

impl Rules {
    /// The rules of a target that uses none.
    pub(crate) const NONE: Rules = Rules { overflow: 0, infinity: 0, nan: 0, underflow: 0, round_mode: RoundMode::Up };

    /// The rules of a cast to `to` in the newest version, with its default attributes.
    pub(crate) const fn newest(to: DataType) -> Rules {
        Rules::new(to, i64::MAX, true, RoundMode::Up)
    }

    /// [`Rules::newest`] of a type that is known at run time.
    #[inline]
    pub(crate) fn default_of(to: DataType) -> Rules {
        /// By the type's number. To resolve the rules anew takes longer than a cast of 16 elements.
        static RULES: [Rules; NUMBERS] = {
            let mut rules = [Rules::NONE; NUMBERS];
            let mut i = 0;
            while i < DataType::ALL.len() {
                rules[DataType::ALL[i] as usize] = Rules::newest(DataType::ALL[i]);
                i += 1;
            }
            rules
        };
        RULES[to as usize]
    }

    /// As [`Rules::new`]; the defaults of a version since which they have not changed are looked up.
    #[inline]
    pub(crate) fn resolve(to: DataType, version: i64, saturate: bool, round_mode: RoundMode) -> Rules {
        if version >= UNCHANGED_SINCE && saturate && round_mode == RoundMode::Up {
            return Rules::default_of(to);
        }
        Rules::new(to, version, saturate, round_mode)
    }

    /// The rules of a cast to `to` in a version of Cast or CastLike. (Where both operators have the version, they
    /// agree.)
    ///
    /// ```
    /// use onnx_cast::scalar::{Rules, cast_one};
    /// use onnx_cast::{DataType, RoundMode};
    /// use onnx_cast::types::Float8E4M3FN;
    ///
    /// let saturating = Rules::new(DataType::Float8E4M3FN, 28, true, RoundMode::Up);
    /// let not_saturating = Rules::new(DataType::Float8E4M3FN, 28, false, RoundMode::Up);
    /// assert_eq!(cast_one::<f32, Float8E4M3FN>(1000.0, &saturating).to_bits(), 0x7e); // 448
    /// assert_eq!(cast_one::<f32, Float8E4M3FN>(1000.0, &not_saturating).to_bits(), 0x7f); // NaN
    /// ```
    pub const fn new(to: DataType, version: i64, saturate: bool, round_mode: RoundMode) -> Rules {
        let none = Rules { round_mode, ..Rules::NONE };
        let Some(format) = to.float_format() else { return none };
        if format.bits > 8 {
            return none;
        }
        let max = format.max_code() as u8;
        match format.nan_code() {
            // Finite formats saturate whatever the attribute is. NaN becomes -0, except in version 23, where it becomes
            // the largest.
            None => {
                let nan = if version == 23 { max } else { format.sign_bit() as u8 };
                Rules { overflow: max, infinity: max, nan, ..none }
            }
            Some(nan) => {
                let nan = nan as u8;
                let beyond = if format.infinity { format.infinity_code() as u8 } else { nan };
                let top = if saturate { max } else { beyond };
                // In versions 19 to 23, ONNX's tables map infinity to NaN for the FNUZ types even with `saturate`.
                let unsigned_zero = format.signed && !format.negative_zero;
                let infinity = if unsigned_zero && version < UNCHANGED_SINCE { nan } else { top };
                let underflow = if saturate { 0 } else { nan };
                Rules { overflow: top, infinity, nan, underflow, round_mode }
            }
        }
    }

    /// The number that every larger one is cast to: that of the code for overflow, as if the format went on there.
    pub(crate) fn highest(&self, format: FloatFormat) -> f32 {
        const SIGNIFICAND: u32 = f32::MANTISSA_DIGITS - 1;
        let rebias = (127 - format.bias) as u32;
        f32::from_bits((u32::from(self.overflow) << (SIGNIFICAND - format.significand_bits)) + (rebias << SIGNIFICAND))
    }
}
