//! Narrowing to integers and bool. Integers keep the low bits; floats go toward zero and saturate, but to the 4- and
//! 2-bit types they go to the nearest even and keep the low bits, as ONNX's note on those types asks.

use super::{Narrow, Rules};
use crate::element::{Int2, Int4, Uint2, Uint4};

/// Defines a float's integer part as an integer of 32 bits or fewer: toward zero, saturating, NaN to 0. That is what `as`
/// says, and what other processors have an instruction for. x86's gives one integer for everything that does not fit, so
/// for `as` the compiler makes branches there, one element at a time.
macro_rules! truncate {
    ($name:ident, $float:ty, $int:ty, $lane:ty) => {
        #[inline(always)]
        fn $name(value: $float) -> $int {
            const LOW: $float = <$int>::MIN as $float;
            const TOP: $float = <$int>::MAX as $float;
            // The largest float that is not above the largest integer.
            const HIGH: $float = if TOP as i64 > <$int>::MAX as i64 { TOP.next_down() } else { TOP };
            if cfg!(not(any(target_arch = "x86", target_arch = "x86_64"))) {
                return value as $int;
            }
            // Where 0 is the lowest, NaN becomes it below, not being above it.
            let number = if const { LOW < 0.0 } && value.is_nan() { 0.0 } else { value };
            let above = if number > LOW { number } else { LOW };
            let within = if above < HIGH { above } else { HIGH };
            // SAFETY: `within` is a number between LOW and HIGH, which are values of `$int` and so of `$lane`.
            let integer = unsafe { within.to_int_unchecked::<$lane>() } as $int;
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
    // No vector instruction of most processors gives 64 bits.
    i64, |value| value as i64, |value| value as i64;
    u64, |value| value as u64, |value| value as u64;
}

/// Defines the low 8 bits of the integer nearest to a float, ties to even, for any magnitude; 0 for NaN and the
/// infinities. Right as to the lowest 4, which are all that is wanted.
macro_rules! nearest_low_bits {
    ($name:ident, $float:ty, $digits:literal) => {
        #[inline(always)]
        fn $name(value: $float) -> u8 {
            // A float from which on the lowest bit is 1, so that a sum with it is rounded to an integer.
            const UNIT: $float = (1u64 << ($digits - 1)) as $float;
            let magnitude = value.abs();
            // Less the nearest multiple of 16, which leaves 8 at most either way; every step but the rounding is exact.
            let sixteens = (magnitude / 16.0 + UNIT) - UNIT;
            let rest = magnitude - sixteens * 16.0;
            // In words of 32 bits from here on, of which a vector holds more.
            let low = (rest + 1.5 * UNIT).to_bits() as u32;
            let upper = (value.to_bits() >> const { 8 * size_of::<$float>() - 32 }) as u32;
            let limit = ((16.0 * UNIT).to_bits() >> const { 8 * size_of::<$float>() - 32 }) as u32;
            // From the limit on all integers are multiples of 16.
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
    // The bits, not a comparison: a processor told to read subnormals as zero would compare them equal to it.
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
