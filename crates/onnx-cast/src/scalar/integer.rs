//! Narrowing to integers and bool. Integer sources keep the low bits. Float sources truncate toward zero and saturate;
//! to the 4- and 2-bit types they round to nearest, ties to even, and keep the low bits, as ONNX's note on those types
//! asks.

use super::{Narrow, Rules};
use crate::element::{Int2, Int4, Uint2, Uint4};

/// Defines a function from a float to an integer of 32 bits or fewer: toward zero, saturating, NaN to 0. `as` has the
/// same result, and most processors have an instruction for it. The x86 instruction returns one fixed integer for every
/// value out of range, so there the compiler turns `as` into branches and does not vectorise it.
macro_rules! truncate {
    ($name:ident, $float:ty, $int:ty, $lane:ty) => {
        #[inline(always)]
        fn $name(value: $float) -> $int {
            const LOW: $float = <$int>::MIN as $float;
            const TOP: $float = <$int>::MAX as $float;
            // The largest float not above the largest integer.
            const HIGH: $float = if TOP as i64 > <$int>::MAX as i64 { TOP.next_down() } else { TOP };
            if cfg!(not(any(target_arch = "x86", target_arch = "x86_64"))) {
                return value as $int;
            }
            // Where LOW is 0, the next comparison turns NaN into 0: NaN is not above LOW.
            let number = if const { LOW < 0.0 } && value.is_nan() { 0.0 } else { value };
            let above = if number > LOW { number } else { LOW };
            let clamped = if above < HIGH { above } else { HIGH };
            // SAFETY: `clamped` is a number between LOW and HIGH, which are values of `$int` and so of `$lane`.
            let integer = unsafe { clamped.to_int_unchecked::<$lane>() } as $int;
            if const { (HIGH as i64) < <$int>::MAX as i64 } && value > HIGH { <$int>::MAX } else { integer }
        }
    };
}

macro_rules! wide_integer {
    ($($int:ty, $from_f32:expr, $from_f64:expr;)*) => {$(
        impl Narrow for $int {
            const INT_WRAPS: bool = true;
            #[inline(always)]
            fn from_f32(value: f32, _: &Rules) -> Self {
                $from_f32(value)
            }
            #[inline(always)]
            fn from_f64(value: f64, _: &Rules) -> Self {
                $from_f64(value)
            }
            #[inline(always)]
            fn from_i32(value: i32, _: &Rules) -> Self {
                value as $int
            }
            #[inline(always)]
            fn from_i64(value: i64, _: &Rules) -> Self {
                value as $int
            }
            #[inline(always)]
            fn from_u64(value: u64, _: &Rules) -> Self {
                value as $int
            }
        }
    )*};
}
truncate!(f32_to_i8, f32, i8, i32);
truncate!(f64_to_i8, f64, i8, i32);
truncate!(f32_to_u8, f32, u8, i32);
truncate!(f64_to_u8, f64, u8, i32);
truncate!(f32_to_i16, f32, i16, i32);
truncate!(f64_to_i16, f64, i16, i32);
truncate!(f32_to_u16, f32, u16, i32);
truncate!(f64_to_u16, f64, u16, i32);
truncate!(f32_to_i32, f32, i32, i32);
truncate!(f64_to_i32, f64, i32, i32);
truncate!(f32_to_u32, f32, u32, u32);
truncate!(f64_to_u32, f64, u32, u32);
wide_integer! {
    i8, f32_to_i8, f64_to_i8;
    u8, f32_to_u8, f64_to_u8;
    i16, f32_to_i16, f64_to_i16;
    u16, f32_to_u16, f64_to_u16;
    i32, f32_to_i32, f64_to_i32;
    u32, f32_to_u32, f64_to_u32;
    // Most processors have no vector instruction for 64-bit results.
    i64, |value| value as i64, |value| value as i64;
    u64, |value| value as u64, |value| value as u64;
}

/// Defines a function from a float to the low bits of the nearest integer, ties to even, for any magnitude; 0 for NaN
/// and the infinities. Only the low 4 bits of the result are correct, and only those are used.
macro_rules! nearest_low_bits {
    ($name:ident, $float:ty, $digits:literal) => {
        #[inline(always)]
        fn $name(value: $float) -> u8 {
            // From this float on, the unit in the last place is 1, so a sum with it is rounded to an integer.
            const UNIT: $float = (1u64 << ($digits - 1)) as $float;
            let magnitude = value.abs();
            // Subtract the nearest multiple of 16, which leaves at most 8 on either side. Only the rounding step is
            // inexact.
            let sixteens = (magnitude / 16.0 + UNIT) - UNIT;
            let remainder = magnitude - sixteens * 16.0;
            // Continue in 32-bit words: a vector holds more of them.
            let low = (remainder + 1.5 * UNIT).to_bits() as u32;
            let upper = (value.to_bits() >> const { 8 * size_of::<$float>() - 32 }) as u32;
            let limit = ((16.0 * UNIT).to_bits() >> const { 8 * size_of::<$float>() - 32 }) as u32;
            // From the limit on, all floats are multiples of 16.
            let low = if upper & (u32::MAX >> 1) < limit { low } else { 0 };
            (if upper >> 31 == 0 { low } else { low.wrapping_neg() }) as u8
        }
    };
}
nearest_low_bits!(f32_low_bits, f32, 24);
nearest_low_bits!(f64_low_bits, f64, 53);

macro_rules! narrow_integer {
    ($($int:ty),*) => {$(
        impl Narrow for $int {
            const INT_WRAPS: bool = true;
            #[inline(always)]
            fn from_f32(value: f32, _: &Rules) -> Self {
                <$int>::from_bits(f32_low_bits(value))
            }
            #[inline(always)]
            fn from_f64(value: f64, _: &Rules) -> Self {
                <$int>::from_bits(f64_low_bits(value))
            }
            #[inline(always)]
            fn from_i32(value: i32, _: &Rules) -> Self {
                <$int>::from_bits(value as u8)
            }
            #[inline(always)]
            fn from_i64(value: i64, _: &Rules) -> Self {
                <$int>::from_bits(value as u8)
            }
            #[inline(always)]
            fn from_u64(value: u64, _: &Rules) -> Self {
                <$int>::from_bits(value as u8)
            }
        }
    )*};
}
narrow_integer!(Int4, Uint4, Int2, Uint2);

impl Narrow for bool {
    const INT_WRAPS: bool = true;
    // Test the bits instead of comparing: with DAZ set, a processor compares subnormals equal to zero.
    #[inline(always)]
    fn from_f32(value: f32, _: &Rules) -> Self {
        value.to_bits() << 1 != 0
    }
    #[inline(always)]
    fn from_f64(value: f64, _: &Rules) -> Self {
        value.to_bits() << 1 != 0
    }
    #[inline(always)]
    fn from_i32(value: i32, _: &Rules) -> Self {
        value != 0
    }
    #[inline(always)]
    fn from_i64(value: i64, _: &Rules) -> Self {
        value != 0
    }
    #[inline(always)]
    fn from_u64(value: u64, _: &Rules) -> Self {
        value != 0
    }
}
