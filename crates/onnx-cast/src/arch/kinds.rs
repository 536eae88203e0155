//! What the backends ask of a type to choose how it is cast: constants, by which each kernel is compiled for its pair.

use crate::element::{BFloat16, DataType, Element, Float4E2M1, Float16, Kind};
use crate::format::FloatFormat;
use crate::packed::bits;

/// Whether `T` is an integer; bool is none.
pub(crate) const fn is_integer<T: Element>() -> bool {
    matches!(T::DATA_TYPE.info().kind, Kind::Int | Kind::Uint)
}

/// Whether `T` is an integer with a sign.
pub(crate) const fn is_signed<T: Element>() -> bool {
    matches!(T::DATA_TYPE.info().kind, Kind::Int)
}

/// Whether `T` is a float type.
pub(crate) const fn is_float<T: Element>() -> bool {
    T::DATA_TYPE.is_float()
}

/// Whether `T` is this type.
pub(crate) const fn is<T: Element>(data_type: DataType) -> bool {
    T::DATA_TYPE as u8 == data_type as u8
}

/// Whether `T` is a float of 8 bits or fewer.
pub(crate) const fn is_small_float<T: Element>() -> bool {
    is_float::<T>() && bits::<T>() <= 8
}

/// The format of a small float type. Constants are computed for the other types too, though never used: they, and
/// float8e8m0, which has no significand, get the format of one that is small.
pub(crate) const fn small_format<T: Element>() -> FloatFormat {
    match T::DATA_TYPE.info().kind {
        Kind::Float(format) if is_small_float::<T>() && format.significand_bits > 0 => format,
        _ => Float4E2M1::FORMAT,
    }
}

/// The format of the 16-bit floats in which elements of `T` are narrowed to small ones.
pub(crate) const fn lane_format<T: Element>() -> FloatFormat {
    if is::<T>(DataType::Float16) { Float16::FORMAT } else { BFloat16::FORMAT }
}
