//! The scalar cast: the specification that every kernel of every backend must match bit for bit.
//!
//! A source is widened without loss to a hub: `f32`, `f64`, `i32`, `i64` or `u64`, whichever holds all its values. The
//! target narrows from the hub once. So each pair rounds once, from the exact value, and each type has one widening and
//! one narrowing instead of one conversion per pair. Strings are in `text`.

pub(crate) mod block_scale;
mod e8m0;
pub(crate) mod float_environment;
mod fused;
mod integer;
mod narrow;
pub(crate) mod scaled;
pub(crate) mod text;
mod value;
mod widen;

use crate::element::{Element, Word};

pub use crate::element::Rules;
pub(crate) use crate::element::{Narrow, RoundMode, Widen};
pub(crate) use float_environment::{DefaultEnvironment, with_default as with_default_float_environment};
pub(crate) use narrow::FloatElement;
pub(crate) use widen::widen_code;

/// Casts one element by the rules of the target type, from [`Rules::new`].
///
/// ```
/// use onnx_cast::scalar::{Rules, cast_one};
/// use onnx_cast::{DataType, RoundMode};
/// use onnx_cast::types::Float8E4M3FN;
/// let rules = Rules::new(DataType::Float8E4M3FN, 24, true, RoundMode::Up);
/// let one: Float8E4M3FN = cast_one(1.0f64, &rules);
/// assert_eq!(one.to_bits(), 0x38);
/// ```
#[inline]
pub fn cast_one<S: Element, D: Element>(value: S, rules: &Rules) -> D {
    // A cast to the same type keeps the bits, even of a signalling NaN. (A bool is already 0 or 1.)
    if S::DATA_TYPE as u8 == D::DATA_TYPE as u8 {
        return D::from_bits(Word::from_u64(value.to_bits().to_u64()));
    }
    with_default_float_environment(|| value.cast_to(rules))
}
