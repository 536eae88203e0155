//! What a Rust type must have to represent an element type, and the macros that declare such types over their bits.

use super::{DataType, Narrow, Widen};
use core::fmt;

mod sealed {
    /// Keeps the list of element types closed, and guarantees the layout that typed slices rely on.
    ///
    /// # Safety
    /// The type has the layout of its `Bits`: the same size and alignment and no padding. Its bytes are the bit
    /// pattern, and every pattern that `to_bits` can return is valid.
    pub unsafe trait Sealed {}
}
pub(crate) use sealed::Sealed;

/// A Rust type that represents one element type of ONNX by its bit pattern.
///
/// Implemented for `f32`, `f64`, the integers from 8 to 64 bits, `bool`, and the newtypes of this crate. Sealed,
/// because ONNX defines the list of types.
///
/// ```
/// use onnx_cast::types::{Element, Float8E5M2};
///
/// fn exponent_field<T: Element<Bits = u8>>(element: T) -> u8 {
///     let format = T::DATA_TYPE.float_format().expect("a float type");
///     (element.to_bits() >> format.significand_bits) & ((1 << format.exponent_bits) - 1)
/// }
/// assert_eq!(exponent_field(Float8E5M2::from_f32(1.0)), 15);
/// ```
pub trait Element:
    Copy + Default + fmt::Debug + fmt::Display + PartialEq + PartialOrd + Send + Sync + Widen + Narrow + Sealed + 'static
{
    /// The ONNX type.
    const DATA_TYPE: DataType;
    /// An unsigned integer that holds the bit pattern: 8, 16, 32 or 64 bits.
    type Bits: Word;
    /// The element with this bit pattern; bits above the element's width are ignored.
    fn from_bits(bits: Self::Bits) -> Self;
    /// The bit pattern, zero above the element's width.
    fn to_bits(self) -> Self::Bits;
}

/// The unsigned integers that hold bit patterns.
#[doc(hidden)]
pub trait Word: Copy + Default + Send + Sync + Sealed + 'static {
    /// Bytes of a word, in little-endian order.
    type Bytes: AsRef<[u8]> + for<'a> TryFrom<&'a [u8]>;
    /// From little-endian bytes.
    fn from_le(bytes: Self::Bytes) -> Self;
    /// To little-endian bytes.
    fn to_le(self) -> Self::Bytes;
    /// Zero-extended to 64 bits.
    fn to_u64(self) -> u64;
    /// Truncates to the low bits.
    fn from_u64(bits: u64) -> Self;
}

macro_rules! word {
    ($($word:ty),*) => {$(
        impl Word for $word {
            type Bytes = [u8; size_of::<$word>()];
            #[inline(always)]
            fn from_le(bytes: Self::Bytes) -> Self {
                <$word>::from_le_bytes(bytes)
            }
            #[inline(always)]
            fn to_le(self) -> Self::Bytes {
                self.to_le_bytes()
            }
            #[inline(always)]
            fn to_u64(self) -> u64 {
                self as u64
            }
            #[inline(always)]
            fn from_u64(bits: u64) -> Self {
                bits as $word
            }
        }
    )*};
}
word!(u8, u16, u32, u64);

/// Declares a newtype over a bit pattern, its [`Element`] row, and its traits of optional crates. The mask, which keeps
/// the element's own bits, is only for elements narrower than the pattern.
macro_rules! bit_pattern_type {
    ($(#[$doc:meta])* $name:ident, $bits:ident) => {
        crate::element::bit_pattern_type! { @masked $(#[$doc])* $name, $bits, $bits::MAX }
        #[cfg(feature = "bytemuck")]
        crate::element::bytemuck_traits::plain!($name);
    };
    ($(#[$doc:meta])* $name:ident, $bits:ident, $mask:literal) => {
        crate::element::bit_pattern_type! { @masked $(#[$doc])* $name, $bits, $mask }
        #[cfg(feature = "bytemuck")]
        crate::element::bytemuck_traits::checked!($name);
    };
    (@masked $(#[$doc:meta])* $name:ident, $bits:ident, $mask:expr) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Default)]
        #[repr(transparent)]
        pub struct $name($bits);

        // The mask must match the width in the type table.
        const _: () = {
            let bits = crate::element::DataType::$name.info().bits;
            assert!($mask as u64 == u64::MAX >> (64 - bits), "the mask does not match the width of the type");
        };

        impl $name {
            /// The element with this bit pattern; bits above the element's width are ignored.
            pub const fn from_bits(bits: $bits) -> Self {
                $name(bits & $mask)
            }

            /// The bit pattern, zero above the element's width.
            pub const fn to_bits(self) -> $bits {
                self.0
            }
        }

        // SAFETY: `repr(transparent)` over its `Bits`.
        unsafe impl crate::element::Sealed for $name {}

        impl crate::element::Element for $name {
            const DATA_TYPE: crate::element::DataType = crate::element::DataType::$name;
            type Bits = $bits;
            #[inline(always)]
            fn from_bits(bits: $bits) -> Self {
                $name(bits & $mask)
            }
            #[inline(always)]
            fn to_bits(self) -> $bits {
                self.0
            }
        }

        #[cfg(feature = "serde")]
        crate::element::serde_traits::by_bits!($name, $bits);
    };
}
pub(crate) use bit_pattern_type;

/// Declares the constants of a float newtype, from its format. ZERO, NAN and INFINITY are listed where the format has
/// them.
macro_rules! float_constants {
    ($name:ident, $bits:ty, $format:expr, $($special:ident)+) => {
        impl $name {
            /// The format's constants.
            pub const FORMAT: crate::format::FloatFormat = $format;

            /// The largest finite value.
            pub const MAX: Self = $name(Self::FORMAT.max_code() as $bits);

            /// The lowest finite value: the negated largest, or the smallest of a format without a sign.
            pub const MIN: Self = $name(if Self::FORMAT.signed {
                (Self::FORMAT.sign_bit() | Self::FORMAT.max_code()) as $bits
            } else {
                0
            });

            /// The smallest positive normal value.
            pub const MIN_POSITIVE: Self = $name(Self::FORMAT.min_normal_code() as $bits);

            /// The difference between 1 and the next larger value.
            pub const EPSILON: Self = $name(Self::FORMAT.epsilon_code() as $bits);

            /// 1, with the exponent field `bias` and no fraction.
            pub const ONE: Self = $name((Self::FORMAT.bias as $bits) << Self::FORMAT.significand_bits);
        }
        $(crate::element::float_constants!(@$special $name, $bits);)+
        const _: () = {
            let format = $name::FORMAT;
            let specials = format.signed as usize + format.nan_code().is_some() as usize + format.infinity as usize;
            assert!([$(stringify!($special)),+].len() == specials, "list ZERO, NAN and INFINITY where they exist");
        };
    };
    (@ZERO $name:ident, $bits:ty) => {
        impl $name {
            /// Positive zero.
            pub const ZERO: Self = $name(0);
        }
        const _: () = assert!($name::FORMAT.signed, "a format without a sign has no zero");
    };
    (@NAN $name:ident, $bits:ty) => {
        impl $name {
            /// The NaN that casts write.
            pub const NAN: Self = $name(Self::FORMAT.nan_code().expect("the format has no NaN") as $bits);
        }
    };
    (@INFINITY $name:ident, $bits:ty) => {
        impl $name {
            /// Positive infinity.
            pub const INFINITY: Self = $name(Self::FORMAT.infinity_code() as $bits);
        }
        const _: () = assert!($name::FORMAT.infinity, "the format has no infinity");
    };
}
pub(crate) use float_constants;
