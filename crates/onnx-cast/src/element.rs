//! The type table: one row for every element type of ONNX that a cast can meet, and the Rust type of each.
//!
//! Names, codes, widths and the first operator versions are defined only here. The command's listing, the checks of the
//! operators, the kernel table and the tests derive from them. A type that is not a Rust primitive is a newtype over
//! its bit pattern, in its own file under `element/`.

use alloc::format;
use alloc::string::String;
use alloc::string::ToString;
use alloc::vec::Vec;
mod bit_pattern;
#[cfg(feature = "bytemuck")]
mod bytemuck_traits;
mod class;
mod convert;
mod float4;
mod float6;
mod float8;
mod half;
mod int2;
mod int4;
mod interchange;
mod names;
mod primitive;
mod rules;
#[cfg(feature = "serde")]
mod serde_traits;
mod slice;

use crate::format::FloatFormat;

/// The element types that are not Rust primitives. The crate exports all of them.
pub(crate) mod newtypes {
    pub use super::{float4::*, float6::*, float8::*, half::*, int2::*, int4::*};
}

pub use bit_pattern::{Element, Word};
pub(crate) use bit_pattern::{Sealed, bit_pattern_type, float_constants};
pub(crate) use class::{Class, class};
pub(crate) use convert::{Narrow, Widen};
pub use interchange::Interchange;
pub use names::{UnknownType, nearest};
pub(crate) use newtypes::*;
pub use rules::{RoundMode, Rules, UnknownRoundMode};
pub(crate) use slice::{bytes_of, bytes_of_mut, elements_of};

/// The kind of an element type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// A binary float of this format.
    Float(FloatFormat),
    /// A two's complement integer.
    Int,
    /// An unsigned integer.
    Uint,
    /// A truth value, one byte: zero is false, any other byte true.
    Bool,
    /// UTF-8 text.
    String,
    /// A pair of floats; BitCast only.
    Complex,
}

/// One row of the type table.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct TypeInfo {
    /// The type that the row describes.
    pub data_type: DataType,
    /// ONNX's name, as in the operators' type constraints: `float8e4m3fn`.
    pub name: &'static str,
    /// Other names that [`str::parse`] accepts, in lower case; it ignores case, `_` and `-`.
    pub aliases: &'static [&'static str],
    /// Width in bits; 0 for strings.
    pub bits: u32,
    /// The kind of element.
    pub kind: Kind,
    /// The first version of Cast that supports it.
    pub cast_since: Option<i64>,
    /// The first version of CastLike that supports it.
    pub cast_like_since: Option<i64>,
    /// The first version of BitCast that supports it.
    pub bit_cast_since: Option<i64>,
}

macro_rules! type_table {
    ($($(#[$doc:meta])* $variant:ident = $code:literal, $name:literal, $aliases:expr, $bits:literal, $kind:expr,
       $cast:expr, $cast_like:expr, $bit_cast:expr;)*) => {
        /// The element type of a tensor, with ONNX's `TensorProto.DataType` number as its discriminant.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        #[non_exhaustive]
        pub enum DataType {
            $($(#[$doc])* $variant = $code,)*
        }

        const ROWS: &[TypeInfo] = &[$(TypeInfo {
            data_type: DataType::$variant,
            name: $name,
            aliases: &$aliases,
            bits: $bits,
            kind: $kind,
            cast_since: $cast,
            cast_like_since: $cast_like,
            bit_cast_since: $bit_cast,
        },)*];

        impl DataType {
            /// Every type, in the order of ONNX's numbers.
            pub const ALL: &'static [DataType] = &[$(DataType::$variant,)*];
        }
    };
}

const BINARY32: FloatFormat = FloatFormat::ieee(8, 23);
const BINARY64: FloatFormat = FloatFormat::ieee(11, 52);

// Columns: number, name, aliases, bits, kind, first version of Cast, CastLike, BitCast. The rows are in the order of
// the numbers, which may have gaps.
type_table! {
    /// IEEE 754 binary32.
    Float = 1, "float", ["f32", "fp32", "float32", "single"], 32, Kind::Float(BINARY32), Some(1), Some(15), Some(26);
    /// Unsigned 8-bit integer.
    Uint8 = 2, "uint8", [], 8, Kind::Uint, Some(1), Some(15), Some(26);
    /// Signed 8-bit integer.
    Int8 = 3, "int8", [], 8, Kind::Int, Some(1), Some(15), Some(26);
    /// Unsigned 16-bit integer.
    Uint16 = 4, "uint16", ["u16"], 16, Kind::Uint, Some(1), Some(15), Some(26);
    /// Signed 16-bit integer.
    Int16 = 5, "int16", ["i16"], 16, Kind::Int, Some(1), Some(15), Some(26);
    /// Signed 32-bit integer.
    Int32 = 6, "int32", ["i32"], 32, Kind::Int, Some(1), Some(15), Some(26);
    /// Signed 64-bit integer.
    Int64 = 7, "int64", ["i64"], 64, Kind::Int, Some(1), Some(15), Some(26);
    /// UTF-8 text.
    String = 8, "string", ["str", "utf8"], 0, Kind::String, Some(9), Some(15), None;
    /// One byte: zero is false, any other value true.
    Bool = 9, "bool", ["boolean"], 8, Kind::Bool, Some(1), Some(15), Some(26);
    /// IEEE 754 binary16.
    Float16 = 10, "float16", ["f16", "fp16", "half"], 16, Kind::Float(Float16::FORMAT), Some(1), Some(15), Some(26);
    /// IEEE 754 binary64.
    Double = 11, "double", ["f64", "fp64", "float64"], 64, Kind::Float(BINARY64), Some(1), Some(15), Some(26);
    /// Unsigned 32-bit integer.
    Uint32 = 12, "uint32", ["u32"], 32, Kind::Uint, Some(1), Some(15), Some(26);
    /// Unsigned 64-bit integer.
    Uint64 = 13, "uint64", ["u64"], 64, Kind::Uint, Some(1), Some(15), Some(26);
    /// Two floats; BitCast only.
    Complex64 = 14, "complex64", ["c64"], 64, Kind::Complex, None, None, Some(26);
    /// Two doubles; BitCast only.
    Complex128 = 15, "complex128", ["c128"], 128, Kind::Complex, None, None, Some(26);
    /// The upper half of a binary32: 8 exponent bits, 7 of significand.
    BFloat16 = 16, "bfloat16", ["bf16"], 16, Kind::Float(BFloat16::FORMAT), Some(13), Some(15), Some(26);
    /// 4 exponent bits, 3 of significand, no infinity, largest 448.
    Float8E4M3FN = 17, "float8e4m3fn", ["f8e4m3fn", "fp8e4m3fn", "e4m3fn", "f8e4m3", "e4m3"], 8,
        Kind::Float(Float8E4M3FN::FORMAT), Some(19), Some(19), Some(26);
    /// 4 exponent bits, 3 of significand, no infinity, one zero, largest 240.
    Float8E4M3FNUZ = 18, "float8e4m3fnuz", ["f8e4m3fnuz", "fp8e4m3fnuz", "e4m3fnuz"], 8,
        Kind::Float(Float8E4M3FNUZ::FORMAT), Some(19), Some(19), Some(26);
    /// 5 exponent bits, 2 of significand, with infinities, largest 57344.
    Float8E5M2 = 19, "float8e5m2", ["f8e5m2", "fp8e5m2", "e5m2"], 8,
        Kind::Float(Float8E5M2::FORMAT), Some(19), Some(19), Some(26);
    /// 5 exponent bits, 2 of significand, no infinity, one zero, largest 57344.
    Float8E5M2FNUZ = 20, "float8e5m2fnuz", ["f8e5m2fnuz", "fp8e5m2fnuz", "e5m2fnuz"], 8,
        Kind::Float(Float8E5M2FNUZ::FORMAT), Some(19), Some(19), Some(26);
    /// Unsigned 4-bit integer, two to a byte, the first in the low bits.
    Uint4 = 21, "uint4", [], 4, Kind::Uint, Some(21), Some(21), Some(26);
    /// Signed 4-bit integer, two to a byte, the first in the low bits.
    Int4 = 22, "int4", [], 4, Kind::Int, Some(21), Some(21), Some(26);
    /// 2 exponent bits, 1 of significand, finite only, largest 6; two to a byte, the first in the low bits.
    Float4E2M1 = 23, "float4e2m1", ["f4e2m1", "fp4e2m1", "e2m1", "fp4", "float4e2m1fn", "e2m1fn"], 4,
        Kind::Float(Float4E2M1::FORMAT), Some(23), Some(23), Some(26);
    /// Only 8 exponent bits: the powers of two from 2^-127 to 2^127, and NaN.
    Float8E8M0 = 24, "float8e8m0", ["f8e8m0", "fp8e8m0", "e8m0", "float8e8m0fnu", "f8e8m0fnu", "e8m0fnu"], 8,
        Kind::Float(Float8E8M0::FORMAT), Some(24), Some(24), Some(26);
    /// Unsigned 2-bit integer, four to a byte, the first in the low bits.
    Uint2 = 25, "uint2", [], 2, Kind::Uint, Some(25), Some(25), Some(26);
    /// Signed 2-bit integer, four to a byte, the first in the low bits.
    Int2 = 26, "int2", [], 2, Kind::Int, Some(25), Some(25), Some(26);
    /// 2 exponent bits, 3 of significand, finite only, largest 7.5; four to three bytes, low bits first.
    Float6E2M3 = 27, "float6e2m3", ["f6e2m3", "fp6e2m3", "e2m3", "float6e2m3fn", "e2m3fn"], 6,
        Kind::Float(Float6E2M3::FORMAT), Some(28), None, None;
    /// 3 exponent bits, 2 of significand, finite only, largest 28; four to three bytes, low bits first.
    Float6E3M2 = 28, "float6e3m2", ["f6e3m2", "fp6e3m2", "e3m2", "float6e3m2fn", "e3m2fn"], 6,
        Kind::Float(Float6E3M2::FORMAT), Some(28), None, None;
}

/// How many numbers there are up to the largest of a type, 0 included: the length of a table by number.
pub(crate) const NUMBERS: usize = DataType::ALL[DataType::ALL.len() - 1] as usize + 1;

/// The rows by number. A number between those of two types has a row that nothing reads: `DataType` has no such value.
static TABLE: [TypeInfo; NUMBERS] = {
    let mut table = [ROWS[0]; NUMBERS];
    let (mut i, mut last) = (0, 0);
    while i < ROWS.len() {
        let number = ROWS[i].data_type as usize;
        assert!(number > last, "the rows of `type_table!` are in the order of ONNX's numbers, from 1");
        (table[number], last) = (ROWS[i], number);
        i += 1;
    }
    table
};

/// The types by number.
static BY_NUMBER: [Option<DataType>; NUMBERS] = {
    let mut types = [None; NUMBERS];
    let mut i = 0;
    while i < DataType::ALL.len() {
        types[DataType::ALL[i] as usize] = Some(DataType::ALL[i]);
        i += 1;
    }
    types
};

/// Length of [`DataType::NUMERIC`].
const NUMERIC_COUNT: usize = {
    let (mut i, mut n) = (0, 0);
    while i < DataType::ALL.len() {
        n += DataType::ALL[i].is_numeric() as usize;
        i += 1;
    }
    n
};

impl DataType {
    /// The types of numbers and bool that Cast supports: all but string and complex, in the order of ONNX's numbers.
    /// The kernel table is indexed by the position in this list.
    pub const NUMERIC: &'static [DataType] = &{
        let mut list = [DataType::Float; NUMERIC_COUNT];
        let (mut i, mut n) = (0, 0);
        while i < DataType::ALL.len() {
            if DataType::ALL[i].is_numeric() {
                list[n] = DataType::ALL[i];
                n += 1;
            }
            i += 1;
        }
        list
    };

    /// The row of the type table.
    #[inline]
    pub const fn info(self) -> &'static TypeInfo {
        &TABLE[self as usize]
    }

    /// The type with this `TensorProto.DataType` number; `None` for 0 (UNDEFINED) and for numbers that ONNX does not
    /// define.
    ///
    /// ```
    /// use onnx_cast::DataType;
    ///
    /// assert_eq!(DataType::from_onnx(16), Some(DataType::BFloat16));
    /// assert_eq!(DataType::from_onnx(0), None);
    /// ```
    pub const fn from_onnx(code: i64) -> Option<DataType> {
        if code >= 0 && code < NUMBERS as i64 { BY_NUMBER[code as usize] } else { None }
    }

    /// The numbers that ONNX has for types, in words for an error.
    ///
    /// ```
    /// use onnx_cast::DataType;
    ///
    /// assert!(DataType::onnx_numbers().starts_with("1 to "));
    /// ```
    pub fn onnx_numbers() -> String {
        runs(DataType::ALL.iter().map(|data_type| data_type.onnx()))
    }

    /// The `TensorProto.DataType` number.
    pub const fn onnx(self) -> i32 {
        self as i32
    }

    /// ONNX's name: `float8e4m3fn`.
    pub const fn name(self) -> &'static str {
        self.info().name
    }

    /// Width of a packed element in bits; `None` for strings.
    #[inline]
    pub const fn bits(self) -> Option<usize> {
        match self.info().bits {
            0 => None,
            bits => Some(bits as usize),
        }
    }

    /// The number of bytes that `len` packed elements take; `None` for strings, or where it does not fit `usize`.
    ///
    /// ```
    /// use onnx_cast::DataType;
    ///
    /// assert_eq!(DataType::Float.byte_len(3), Some(12));
    /// assert_eq!(DataType::Int4.byte_len(3), Some(2));
    /// assert_eq!(DataType::Float6E2M3.byte_len(4), Some(3));
    /// assert_eq!(DataType::Double.byte_len(usize::MAX), None);
    /// ```
    #[inline]
    pub const fn byte_len(self, len: usize) -> Option<usize> {
        let Some(bits) = self.bits() else { return None };
        if bits >= 8 {
            return len.checked_mul(bits / 8);
        }
        Some(byte_len_of(len, bits))
    }

    /// The float format, for float types.
    pub const fn float_format(self) -> Option<FloatFormat> {
        match self.info().kind {
            Kind::Float(format) => Some(format),
            _ => None,
        }
    }

    /// Whether this is a float type, of any width.
    pub const fn is_float(self) -> bool {
        matches!(self.info().kind, Kind::Float(_))
    }

    /// Whether this type is neither string nor complex: a number, or bool.
    #[inline]
    pub const fn is_numeric(self) -> bool {
        !matches!(self.info().kind, Kind::String | Kind::Complex)
    }

    /// Whether elements are narrower than a byte, and therefore packed.
    pub const fn is_packed(self) -> bool {
        self.info().bits > 0 && self.info().bits < 8
    }

    /// Whether Cast's attribute `saturate` affects casts to this type. That holds for float types of 8 bits: they have
    /// NaN or infinity for a value beyond the largest.
    ///
    /// ```
    /// use onnx_cast::DataType;
    ///
    /// assert!(DataType::Float8E5M2.obeys_saturate() && DataType::Float8E8M0.obeys_saturate());
    /// assert!(!DataType::Float16.obeys_saturate() && !DataType::Float4E2M1.obeys_saturate());
    /// ```
    pub const fn obeys_saturate(self) -> bool {
        match self.float_format() {
            Some(format) => format.bits <= 8 && format.nan_code().is_some(),
            None => false,
        }
    }

    /// Whether Cast's attribute `round_mode` affects casts to this type. That holds for float types without a
    /// significand, which round between powers of two.
    ///
    /// ```
    /// use onnx_cast::DataType;
    ///
    /// assert!(DataType::Float8E8M0.obeys_round_mode());
    /// assert!(!DataType::Float8E4M3FN.obeys_round_mode());
    /// ```
    pub const fn obeys_round_mode(self) -> bool {
        match self.float_format() {
            Some(format) => format.significand_bits == 0,
            None => false,
        }
    }

    /// Position in [`DataType::NUMERIC`].
    pub(crate) const fn numeric_index(self) -> Option<usize> {
        /// Indexed by the type's number. Searching the list took longer than a cast of 16 elements.
        const INDICES: [Option<usize>; NUMBERS] = {
            let mut indices = [None; NUMBERS];
            let mut i = 0;
            while i < DataType::NUMERIC.len() {
                indices[DataType::NUMERIC[i] as usize] = Some(i);
                i += 1;
            }
            indices
        };
        INDICES[self as usize]
    }
}

/// Increasing numbers in words: `1 to 3, 5`.
fn runs(numbers: impl Iterator<Item = i32>) -> String {
    let mut runs: Vec<[i32; 2]> = Vec::new();
    for number in numbers {
        match runs.last_mut() {
            Some([_, last]) if *last + 1 == number => *last = number,
            _ => runs.push([number; 2]),
        }
    }
    let words = |[first, last]: [i32; 2]| if first < last { format!("{first} to {last}") } else { first.to_string() };
    runs.into_iter().map(words).collect::<Vec<_>>().join(", ")
}

/// Bytes of `len` elements of `bits` bits, for a length that is known to fit `usize`. Their number of bits need not fit
/// it where `usize` has 32 bits.
#[inline(always)]
pub(crate) const fn byte_len_of(len: usize, bits: usize) -> usize {
    // 8 elements are exactly `bits` bytes: multiply by groups of 8, so that no intermediate value overflows.
    if bits >= 8 { len * (bits / 8) } else { len / 8 * bits + (len % 8 * bits).div_ceil(8) }
}

/// Elements of `bits` bits that end before a byte. As in [`byte_len_of`], no intermediate value overflows.
#[inline(always)]
pub(crate) const fn elements_before(byte: usize, bits: usize) -> usize {
    byte / bits * 8 + byte % bits * 8 / bits
}

/// Calls a macro with the Rust types of [`DataType::NUMERIC`], in that order, after any other tokens given. This is the
/// only list of the Rust types. Exported for this crate's own tests.
#[doc(hidden)]
#[macro_export]
macro_rules! with_numeric_types {
    ($callback:ident $($before:tt)*) => {
        $callback! {
            $($before)*
            f32 u8 i8 u16 i16 i32 i64 bool Float16 f64 u32 u64 BFloat16 Float8E4M3FN Float8E4M3FNUZ Float8E5M2
            Float8E5M2FNUZ Uint4 Int4 Float4E2M1 Float8E8M0 Uint2 Int2 Float6E2M3 Float6E3M2
        }
    };
}
pub(crate) use with_numeric_types;

/// Fails to compile if `with_numeric_types` lacks a numeric type or lists one out of order.
macro_rules! check_order {
    ($($ty:ty)*) => {
        const _: () = {
            let types = [$(<$ty as Element>::DATA_TYPE),*];
            assert!(types.len() == NUMERIC_COUNT, "with_numeric_types lacks a numeric type");
            let mut i = 0;
            while i < types.len() {
                assert!(types[i] as u8 == DataType::NUMERIC[i] as u8, "with_numeric_types has another order");
                i += 1;
            }
        };
    };
}
with_numeric_types!(check_order);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_words_show_gaps() {
        let words = |numbers: &[i32]| runs(numbers.iter().copied());
        assert_eq!(words(&[1, 2, 3, 5, 7, 8]), "1 to 3, 5, 7 to 8");
        assert_eq!((words(&[4]), words(&[])), ("4".to_owned(), String::new()));
        assert!((0..2 * NUMBERS as i64).all(|number| {
            DataType::from_onnx(number).map(DataType::onnx).is_none_or(|known| i64::from(known) == number)
        }));
        assert_eq!(DataType::from_onnx(NUMBERS as i64), None);
        assert_eq!(DataType::from_onnx(-1), None);
        for data_type in DataType::ALL {
            assert_eq!(data_type.info().data_type, *data_type);
            assert_eq!(DataType::from_onnx(data_type.onnx().into()), Some(*data_type), "{data_type}");
        }
    }

    /// On a 32-bit machine, the number of bits in half a gigabyte does not fit `usize`.
    #[test]
    fn the_bits_of_a_tensor_need_not_fit_in_a_size() {
        assert_eq!(byte_len_of(usize::MAX / 8, 64), usize::MAX / 8 * 8);
        assert_eq!(byte_len_of(usize::MAX, 8), usize::MAX);
        assert_eq!(byte_len_of(usize::MAX, 4), usize::MAX / 2 + 1);
        assert_eq!(byte_len_of(usize::MAX - 1, 6), usize::MAX / 4 * 3 + 2);
        assert_eq!(byte_len_of(5, 6), 4);
        // And back; the eighth part of all bytes has more bits than fit.
        for bits in [2, 4, 6, 8, 16, 32, 64] {
            for elements in [0, 8, 24, (usize::MAX / 64) & !7] {
                assert_eq!(elements_before(byte_len_of(elements, bits), bits), elements, "{bits} bits");
            }
        }
        assert_eq!(elements_before(usize::MAX, 8), usize::MAX);
        assert_eq!([0, 1, 2, 3].map(|byte| elements_before(byte, 6)), [0, 1, 2, 4]);
    }
}
