//! Element types as numbers: conversion to and from `f32`, display and comparison. Floats compare by IEEE 754: 0 equals
//! -0, and NaN is not equal to any value. Compare `to_bits` to compare bit patterns.

use super::narrow::with_float_elements;
use super::{Rules, cast_one, e8m0, widen_code};
use crate::element::*;
use crate::format::FloatFormat;
use core::cmp::Ordering;
use core::fmt;

/// Orders the numbers of a format, by integers alone: a comparison of floats obeys the control register, which a host may
/// have set to read subnormals as zero. `None` for NaN.
#[inline]
const fn place(format: FloatFormat, code: u32) -> Option<i32> {
    if format.is_nan(code as u64) {
        return None;
    }
    let sign = format.sign_bit() as u32;
    let magnitude = (code & !sign) as i32;
    // 0 and -0 have the same place.
    Some(if code & sign == 0 { magnitude } else { -magnitude })
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

            /// Whether this is NaN.
            #[inline]
            pub const fn is_nan(self) -> bool {
                Self::FORMAT.is_nan(self.to_bits() as u64)
            }

            /// The nearest element, rounded once by the rules of ONNX's newest Cast with its default attributes: ties
            /// to even, and types of 8 bits or fewer saturate. (`Float8E8M0` rounds up, and has neither zero nor
            /// negative values.)
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
                let [a, b] = [self, other].map(|element| place(Self::FORMAT, element.to_bits().into()));
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
