//! The scalar cast: the specification that every kernel of every backend must match bit for bit.
//!
//! A source is widened without loss to a hub: `f32`, `f64`, `i32`, `i64` or `u64`, whichever holds all its values. The
//! target narrows from the hub once. So each pair rounds once, from the exact value, and each type has one widening and
//! one narrowing instead of one conversion per pair. Strings are in [`text`].

pub(crate) mod block_scale;
mod e8m0;
mod float_environment;
mod fused;
mod integer;
mod narrow;
mod rules;
pub(crate) mod scaled;
pub mod text;
mod value;
mod widen;

use crate::element::{Element, Word};

#[doc(hidden)]
pub use float_environment::with_default as with_default_float_environment;
pub use narrow::FloatElement;
pub use rules::{RoundMode, Rules, UnknownRoundMode};
pub(crate) use widen::widen_code;

/// An element that can be cast from; every [`Element`] implements it.
#[doc(hidden)]
pub trait Widen: Element {
    /// Widens to the hub that suits `D`, then narrows to `D` by the rules of `D`.
    fn cast_to<D: Narrow>(self, rules: &Rules) -> D;

    /// The value as `f32`, *rounded to odd* where `f32` cannot represent it. Rounding the result to a float type of 16
    /// bits or fewer, other than `float8e8m0`, then gives the same as rounding the value itself.
    fn to_f32_round_to_odd(self) -> f32;
}

/// An element that can be cast to, from each hub; every [`Element`] implements it. Every method takes the exact source
/// value and rounds once.
#[doc(hidden)]
pub trait Narrow: Element {
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

/// Casts one element by the rules of the target type, from [`Rules::new`].
///
/// ```
/// use onnx_cast::scalar::{RoundMode, Rules, cast_one};
/// use onnx_cast::{DataType, Float8E4M3FN};
/// let rules = Rules::new(DataType::Float8E4M3FN, 24, true, RoundMode::Up);
/// let one: Float8E4M3FN = cast_one(1.0f64, &rules);
/// assert_eq!(one.to_bits(), 0x38);
/// ```
#[inline]
pub fn cast_one<S: Widen, D: Narrow>(value: S, rules: &Rules) -> D {
    // A cast to the same type keeps the bits, even of a signalling NaN. (A bool is already 0 or 1.)
    if S::DATA_TYPE as u8 == D::DATA_TYPE as u8 {
        return D::from_bits(Word::from_u64(value.to_bits().to_u64()));
    }
    with_default_float_environment(|| value.cast_to(rules))
}
