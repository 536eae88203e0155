//! Element types as numbers: conversion to and from `f32`, display and comparison. Floats compare by IEEE 754: 0 equals
//! -0, and NaN is not equal to any value. Compare `to_bits` to compare bit patterns.

use super::narrow::with_float_elements;
use super::{RoundMode, Rules, cast_one, e8m0, widen_code};
use crate::element::*;
use crate::format::{FloatFormat, Nan};
use core::cmp::Ordering;
use core::fmt;

/// Rank of a code in the order of the format's numbers, found with integers alone: a comparison of floats obeys the
/// control register, which a host may have set to read subnormals as zero. `None` for NaN.
#[inline]
const fn position(format: FloatFormat, code: u32) -> Option<i32> {
    if format.is_nan(code as u64) {
        return None;
    }
    let sign = format.sign_bit() as u32;
    let magnitude = (code & !sign) as i32;
    // 0 and -0 have the same place.
    Some(if code & sign == 0 { magnitude } else { -magnitude })
}

/// The rules of the newest Cast without saturation.
const fn unsaturated(to: DataType) -> Rules {
    Rules::new(to, i64::MAX, false, RoundMode::Up)
}

/// Rank of a code in IEEE 754's totalOrder.
#[inline]
const fn total_place(format: FloatFormat, code: u32) -> i32 {
    let sign = format.sign_bit() as u32;
    let magnitude = (code & !sign) as i32;
    match format.nan {
        _ if code & sign == 0 => magnitude,
        // The only NaN has the code of -0.
        Nan::MinusZero if magnitude == 0 => i32::MIN,
        _ => -1 - magnitude,
    }
}

/// Converts a quiet `f32` to a double with integers alone: the processor's conversion obeys the control register.
const fn to_double(value: f32) -> f64 {
    const SIGNIFICAND: u32 = f32::MANTISSA_DIGITS - 1;
    /// Significand bits that a double has and `f32` lacks.
    const EXTRA: u32 = f64::MANTISSA_DIGITS - f32::MANTISSA_DIGITS;
    let sign = ((value.to_bits() >> 31) as u64) << 63;
    let magnitude = (value.to_bits() & (u32::MAX >> 1)) as u64;
    let number = match magnitude >> SIGNIFICAND {
        // A subnormal is an integer times 2^-149. Zero stays zero.
        0 => (magnitude as f64).to_bits().saturating_sub(149 << (SIGNIFICAND + EXTRA)),
        // Infinity and NaN.
        0xff => (magnitude << EXTRA) + ((0x7ff - 0xff) << (SIGNIFICAND + EXTRA)),
        _ => (magnitude << EXTRA) + ((1023 - 127) << (SIGNIFICAND + EXTRA)),
    };
    f64::from_bits(sign | number)
}

macro_rules! float_value {
    ($($ty:ident, |$self:ident| $widened:expr;)*) => {$(
        impl $ty {
            /// The value, which `f32` represents exactly. NaN becomes quiet.
            ///
            /// ```
            #[doc = concat!("use onnx_cast::types::", stringify!($ty), ";")]
            ///
            #[doc = concat!("assert_eq!(", stringify!($ty), "::from_f32(1.0).to_f32(), 1.0);")]
            /// ```
            #[inline]
            pub const fn to_f32(self) -> f32 {
                let $self = self;
                $widened
            }

            /// The value as `f64`, exactly. NaN becomes quiet.
            ///
            /// ```
            #[doc = concat!("use onnx_cast::types::", stringify!($ty), ";")]
            ///
            #[doc = concat!("const ONE: f64 = ", stringify!($ty), "::ONE.to_f64();")]
            /// assert_eq!(ONE, 1.0);
            /// ```
            #[inline]
            pub const fn to_f64(self) -> f64 {
                to_double(self.to_f32())
            }

            /// Whether this is neither infinity nor NaN.
            #[inline]
            pub const fn is_finite(self) -> bool {
                let (format, code) = (Self::FORMAT, self.to_bits() as u64);
                !format.is_nan(code) && !(format.infinity && code & !format.sign_bit() == format.infinity_code())
            }

            /// The order of IEEE 754's totalOrder, as [`f32::total_cmp`]: -0 is below 0, and NaN is below or above all
            /// numbers by its sign. The only NaN of the FNUZ types has a negative sign.
            ///
            /// ```
            #[doc = concat!("use onnx_cast::types::", stringify!($ty), ";")]
            ///
            #[doc = concat!("let mut values = [", stringify!($ty), "::MAX, ", stringify!($ty), "::MIN];")]
            #[doc = concat!("values.sort_by(", stringify!($ty), "::total_cmp);")]
            #[doc = concat!("assert_eq!(values, [", stringify!($ty), "::MIN, ", stringify!($ty), "::MAX]);")]
            /// ```
            #[inline]
            pub fn total_cmp(&self, other: &Self) -> Ordering {
                let [a, b] = [self, other].map(|element| total_place(Self::FORMAT, element.to_bits().into()));
                a.cmp(&b)
            }

            /// Whether this is NaN.
            #[inline]
            pub const fn is_nan(self) -> bool {
                Self::FORMAT.is_nan(self.to_bits() as u64)
            }

            /// The nearest element, rounded once by the rules of ONNX's newest Cast with its default attributes: ties
            /// to even, and types of 8 bits or fewer saturate, so that infinity becomes the largest number.
            /// (`Float8E8M0` rounds up, and has neither zero nor negative values.)
            ///
            /// ```
            #[doc = concat!("use onnx_cast::types::", stringify!($ty), ";")]
            ///
            #[doc = concat!("let largest = ", stringify!($ty), "::MAX;")]
            #[doc = concat!("assert_eq!(", stringify!($ty), "::from_f32(largest.to_f32()), largest);")]
            /// ```
            #[inline]
            pub fn from_f32(value: f32) -> Self {
                cast_one(value, const { &Rules::newest(<$ty as Element>::DATA_TYPE) })
            }

            #[doc = concat!("As [`", stringify!($ty), "::from_f32`], rounded once from the exact double.")]
            #[inline]
            pub fn from_f64(value: f64) -> Self {
                cast_one(value, const { &Rules::newest(<$ty as Element>::DATA_TYPE) })
            }

            #[doc = concat!("As [`", stringify!($ty), "::from_f32`] with ONNX's attribute `saturate` = 0: what is too")]
            /// large becomes infinity, or NaN in a type without infinity. A type that has neither saturates all the
            /// same.
            #[inline]
            pub fn from_f32_unsaturated(value: f32) -> Self {
                cast_one(value, const { &unsaturated(<$ty as Element>::DATA_TYPE) })
            }

            #[doc = concat!("As [`", stringify!($ty), "::from_f32_unsaturated`], rounded once from the exact double.")]
            #[inline]
            pub fn from_f64_unsaturated(value: f64) -> Self {
                cast_one(value, const { &unsaturated(<$ty as Element>::DATA_TYPE) })
            }
        }

        impl PartialEq for $ty {
            #[inline]
            fn eq(&self, other: &Self) -> bool {
                self.partial_cmp(other) == Some(Ordering::Equal)
            }
        }

        impl PartialOrd for $ty {
            #[inline]
            fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
                let [a, b] = [self, other].map(|element| position(Self::FORMAT, element.to_bits().into()));
                Some(a?.cmp(&b?))
            }
        }

        impl fmt::Display for $ty {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.to_f32(), f)
            }
        }

        impl fmt::Debug for $ty {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.to_f32(), f)
            }
        }

        impl From<$ty> for f32 {
            fn from(value: $ty) -> f32 {
                value.to_f32()
            }
        }

        impl From<$ty> for f64 {
            fn from(value: $ty) -> f64 {
                value.to_f64()
            }
        }
    )*};
}
macro_rules! float_values {
    ($($ty:ident)*) => {
        float_value! {
            $($ty, |element| widen_code(Self::FORMAT, element.to_bits() as u32);)*
            Float8E8M0, |element| e8m0::widen(element);
        }
    };
}
with_float_elements!(float_values);

macro_rules! integer_value {
    ($($ty:ident)*) => {$(
        impl $ty {
            /// Zero.
            pub const ZERO: Self = Self::from_bits(0);

            /// One.
            pub const ONE: Self = Self::from_bits(1);

            /// The value, which `f32` represents exactly.
            ///
            /// ```
            #[doc = concat!("use onnx_cast::types::", stringify!($ty), ";")]
            ///
            #[doc = concat!("assert_eq!(", stringify!($ty), "::from_f32(1.0).to_f32(), 1.0);")]
            /// ```
            #[inline]
            pub const fn to_f32(self) -> f32 {
                self.value() as f32
            }

            /// The value as `f64`.
            #[inline]
            pub const fn to_f64(self) -> f64 {
                self.value() as f64
            }

            /// The element that ONNX's newest Cast gives: rounded to the nearest integer, ties to even, and then
            /// reduced to its low bits.
            ///
            /// ```
            #[doc = concat!("use onnx_cast::types::", stringify!($ty), ";")]
            ///
            #[doc = concat!("assert_eq!(", stringify!($ty), "::from_f32(0.5).value(), 0);")]
            #[doc = concat!("assert_eq!(", stringify!($ty), "::from_f32(1.4).value(), 1);")]
            /// ```
            #[inline]
            pub fn from_f32(value: f32) -> Self {
                cast_one(value, &Rules::NONE)
            }

            #[doc = concat!("As [`", stringify!($ty), "::from_f32`], from a double.")]
            #[inline]
            pub fn from_f64(value: f64) -> Self {
                cast_one(value, &Rules::NONE)
            }
        }

        impl Ord for $ty {
            #[inline]
            fn cmp(&self, other: &Self) -> Ordering {
                self.value().cmp(&other.value())
            }
        }

        impl PartialOrd for $ty {
            #[inline]
            fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
                Some(self.cmp(other))
            }
        }

        impl fmt::Display for $ty {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.value(), f)
            }
        }

        impl fmt::Debug for $ty {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.value(), f)
            }
        }
    )*};
}
integer_value!(Int4 Uint4 Int2 Uint2);
