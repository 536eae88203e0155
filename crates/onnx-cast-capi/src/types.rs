//! The element types: their numbers, names, sizes and what they are.

use crate::abi::type_name;
use crate::edge::{Failure, byte_len, give, give_known, static_text, status, type_of, versioned};
use onnx_cast::DataType;
use onnx_cast::types::{Kind, Nan};
use std::ffi::{c_char, c_int};

/// The element types, by ONNX's numbers (TensorProto.DataType). Functions take and give them as int32_t.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum onnx_cast_type {
    /// IEEE 754 binary32.
    ONNX_CAST_FLOAT = 1,
    /// Unsigned 8-bit integer.
    ONNX_CAST_UINT8 = 2,
    /// Signed 8-bit integer.
    ONNX_CAST_INT8 = 3,
    /// Unsigned 16-bit integer.
    ONNX_CAST_UINT16 = 4,
    /// Signed 16-bit integer.
    ONNX_CAST_INT16 = 5,
    /// Signed 32-bit integer.
    ONNX_CAST_INT32 = 6,
    /// Signed 64-bit integer.
    ONNX_CAST_INT64 = 7,
    /// UTF-8 text.
    ONNX_CAST_STRING = 8,
    /// One byte: 0 is false, anything else true.
    ONNX_CAST_BOOL = 9,
    /// IEEE 754 binary16.
    ONNX_CAST_FLOAT16 = 10,
    /// IEEE 754 binary64.
    ONNX_CAST_DOUBLE = 11,
    /// Unsigned 32-bit integer.
    ONNX_CAST_UINT32 = 12,
    /// Unsigned 64-bit integer.
    ONNX_CAST_UINT64 = 13,
    /// Two floats; BitCast only.
    ONNX_CAST_COMPLEX64 = 14,
    /// Two doubles; BitCast only.
    ONNX_CAST_COMPLEX128 = 15,
    /// The upper half of a binary32.
    ONNX_CAST_BFLOAT16 = 16,
    /// 4 exponent bits, 3 of significand, no infinity, largest 448.
    ONNX_CAST_FLOAT8E4M3FN = 17,
    /// 4 exponent bits, 3 of significand, no infinity, one zero, largest 240.
    ONNX_CAST_FLOAT8E4M3FNUZ = 18,
    /// 5 exponent bits, 2 of significand, with infinities, largest 57344.
    ONNX_CAST_FLOAT8E5M2 = 19,
    /// 5 exponent bits, 2 of significand, no infinity, one zero, largest 57344.
    ONNX_CAST_FLOAT8E5M2FNUZ = 20,
    /// Unsigned 4-bit integer; two to a byte, the first in the low bits.
    ONNX_CAST_UINT4 = 21,
    /// Signed 4-bit integer; two to a byte, the first in the low bits.
    ONNX_CAST_INT4 = 22,
    /// 2 exponent bits, 1 of significand, largest 6; two to a byte, the first in the low bits.
    ONNX_CAST_FLOAT4E2M1 = 23,
    /// 8 exponent bits: the powers of two from 2^-127 to 2^127, and NaN.
    ONNX_CAST_FLOAT8E8M0 = 24,
    /// Unsigned 2-bit integer; four to a byte, the first in the low bits.
    ONNX_CAST_UINT2 = 25,
    /// Signed 2-bit integer; four to a byte, the first in the low bits.
    ONNX_CAST_INT2 = 26,
    /// 2 exponent bits, 3 of significand, largest 7.5; four to three bytes, low bits first.
    ONNX_CAST_FLOAT6E2M3 = 27,
    /// 3 exponent bits, 2 of significand, largest 28; four to three bytes, low bits first.
    ONNX_CAST_FLOAT6E3M2 = 28,
}

/// What kind of thing an element is.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum onnx_cast_kind {
    /// A binary float.
    ONNX_CAST_KIND_FLOAT = 1,
    /// A two's complement integer.
    ONNX_CAST_KIND_INT = 2,
    /// An unsigned integer.
    ONNX_CAST_KIND_UINT = 3,
    /// A truth value.
    ONNX_CAST_KIND_BOOL = 4,
    /// UTF-8 text.
    ONNX_CAST_KIND_STRING = 5,
    /// Two floats.
    ONNX_CAST_KIND_COMPLEX = 6,
}

/// What a type is. Start from ONNX_CAST_TYPE_FACTS_INIT; later versions may have more fields at the end.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct onnx_cast_type_facts {
    /// sizeof(onnx_cast_type_facts), which the caller sets: nothing beyond is written. Fields that the library does not
    /// know become 0.
    pub size: usize,
    /// ONNX's name, such as "float8e4m3fn". The text is never freed.
    pub name: *const c_char,
    /// Width in bits; 0 for strings.
    pub bits: u32,
    /// An onnx_cast_kind.
    pub kind: i32,
    /// The first version of Cast that takes the type; 0 where none does.
    pub cast_since: u32,
    /// The first version of CastLike that takes the type; 0 where none does.
    pub cast_like_since: u32,
    /// The first version of BitCast that takes the type; 0 where none does.
    pub bit_cast_since: u32,
    /// Of a float: width of the exponent field. 0 for other kinds, as all fields below.
    pub exponent_bits: u32,
    /// Of a float: width of the significand field, without the implicit bit.
    pub significand_bits: u32,
    /// Of a float: a code with the exponent field e > 0 has the exponent e - bias.
    pub bias: i32,
    /// Of a float: whether there is a sign bit.
    pub has_sign: bool,
    /// Of a float: whether -0 is another code than 0.
    pub has_negative_zero: bool,
    /// Of a float: whether there are infinities.
    pub has_infinity: bool,
    /// Of a float: whether there is NaN.
    pub has_nan: bool,
}

versioned!(onnx_cast_type_facts { has_sign });

impl onnx_cast_type_facts {
    fn of(data_type: DataType, size: usize) -> Self {
        let info = data_type.info();
        let kind = match info.kind {
            Kind::Float(_) => onnx_cast_kind::ONNX_CAST_KIND_FLOAT as i32,
            Kind::Int => onnx_cast_kind::ONNX_CAST_KIND_INT as i32,
            Kind::Uint => onnx_cast_kind::ONNX_CAST_KIND_UINT as i32,
            Kind::Bool => onnx_cast_kind::ONNX_CAST_KIND_BOOL as i32,
            Kind::String => onnx_cast_kind::ONNX_CAST_KIND_STRING as i32,
            Kind::Complex => onnx_cast_kind::ONNX_CAST_KIND_COMPLEX as i32,
            // A kind that the library got later, which this ABI has no number for.
            _ => 0,
        };
        let format = data_type.float_format();
        let since = |version: Option<i64>| version.and_then(|version| u32::try_from(version).ok()).unwrap_or(0);
        onnx_cast_type_facts {
            size,
            name: type_name(data_type),
            bits: info.bits,
            kind,
            cast_since: since(info.cast_since),
            cast_like_since: since(info.cast_like_since),
            bit_cast_since: since(info.bit_cast_since),
            exponent_bits: format.map_or(0, |format| format.exponent_bits),
            significand_bits: format.map_or(0, |format| format.significand_bits),
            bias: format.map_or(0, |format| format.bias),
            has_sign: format.is_some_and(|format| format.signed),
            has_negative_zero: format.is_some_and(|format| format.negative_zero),
            has_infinity: format.is_some_and(|format| format.infinity),
            has_nan: format.is_some_and(|format| format.nan != Nan::None),
        }
    }
}

/// The name of a type, such as "float8e4m3fn", or null for a number that is none's. The text is never freed.
#[unsafe(no_mangle)]
pub extern "C" fn onnx_cast_type_name(data_type: i32) -> *const c_char {
    DataType::from_onnx(data_type.into()).map_or(std::ptr::null(), type_name)
}

/// The type of a name: ONNX's, or one of many others ("bf16", "FLOAT8E4M3FN", "fp4"), in any case.
///
/// name: ends with a zero byte.
/// data_type: takes the type.
///
/// # Safety
/// As the parameters say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onnx_cast_type_by_name(name: *const c_char, data_type: *mut i32) -> c_int {
    status(|| {
        // SAFETY: the caller's promise.
        let name = unsafe { static_text(name) }.ok_or_else(|| Failure::invalid("name is null"))?;
        let found: DataType = name.to_string_lossy().parse().map_err(Failure::invalid)?;
        // SAFETY: the caller's promise.
        unsafe { give(data_type, "data_type", || found.onnx()) }
    })
}

/// What a type is.
///
/// data_type: an onnx_cast_type.
/// facts: takes the facts; its field size is set by the caller.
///
/// # Safety
/// As the parameters say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onnx_cast_type_get_facts(data_type: i32, facts: *mut onnx_cast_type_facts) -> c_int {
    status(|| {
        let data_type = type_of(data_type)?;
        // SAFETY: `facts` is null, or has as many bytes as its field `size` states.
        unsafe { give_known(facts, "facts", |size| onnx_cast_type_facts::of(data_type, size)) }
    })
}

/// How many bytes so many elements of a type take, packed.
///
/// data_type: an onnx_cast_type, but not string, whose elements have no size.
/// count: the number of elements.
/// bytes: takes the number of bytes; ONNX_CAST_OVERFLOW where it does not fit in memory.
///
/// # Safety
/// As the parameters say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onnx_cast_byte_size(data_type: i32, count: usize, bytes: *mut usize) -> c_int {
    status(|| {
        let size = byte_len(type_of(data_type)?, count)?;
        // SAFETY: the caller's promise.
        unsafe { give(bytes, "bytes", || size) }
    })
}
