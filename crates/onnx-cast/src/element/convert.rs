//! Operations that every element has besides access to its bits: casts from it and casts to it. `scalar` implements
//! both. The traits are public, as supertraits of [`Element`] have to be, but no other crate can name them.

use super::{Element, Rules};

/// What can be cast from.
pub trait Widen: Copy {
    /// Widens to the hub that suits `D`, then narrows to `D` by the rules of `D`.
    fn cast_to<D: Element>(self, rules: &Rules) -> D;

    /// The value as `f32`, *rounded to odd* where `f32` cannot represent it. Rounding the result to a float type of
    /// 16 bits or fewer, other than `float8e8m0`, then gives the same as rounding the value itself.
    fn to_f32_round_to_odd(self) -> f32;
}

/// What can be cast to, from each hub. Every method takes the exact source value and rounds once.
pub trait Narrow: Copy {
    /// Whether the target is an integer type that keeps the low bits of an integer source.
    const INT_WRAPS: bool;
    /// From a value that `f32` represents exactly.
    fn from_f32(value: f32, rules: &Rules) -> Self;
    /// From a value that `f64` represents exactly.
    fn from_f64(value: f64, rules: &Rules) -> Self;
    /// From a signed 32-bit integer.
    fn from_i32(value: i32, rules: &Rules) -> Self;
    /// From a signed 64-bit integer.
    fn from_i64(value: i64, rules: &Rules) -> Self;
    /// From an unsigned 64-bit integer.
    fn from_u64(value: u64, rules: &Rules) -> Self;
}
