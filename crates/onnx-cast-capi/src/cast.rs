//! The operators for one call, between types that are not string.

use crate::edge::status;
use crate::options::onnx_cast_options;
use crate::plan::{resolve, run};
use onnx_cast::ops::Operator;
use std::ffi::{c_int, c_void};

/// ONNX's Cast: every element as another type, rounded once from the exact value.
///
/// from: the onnx_cast_type of the elements, not string.
/// src: count elements: little endian, packed, of any alignment. May be null where count is 0.
/// count: the number of elements.
/// to: the onnx_cast_type to cast to, not string.
/// dst: takes count elements, packed, the padding of the last byte 0. No part of src.
/// dst_bytes: the bytes that dst has room for: as many as onnx_cast_byte_size says, or more, which stay as they are.
/// options: how to cast, or null for the defaults.
///
/// # Safety
/// As the parameters say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onnx_cast_cast(
    from: i32,
    src: *const c_void,
    count: usize,
    to: i32,
    dst: *mut c_void,
    dst_bytes: usize,
    options: *const onnx_cast_options,
) -> c_int {
    // SAFETY: the caller's promise.
    status(|| unsafe { run(&resolve(Operator::Cast, from, to, options)?, src, count, dst, dst_bytes) })
}

/// ONNX's CastLike: Cast to the type of a second input, whose values do not matter. It has its own versions: it starts
/// with opset 15, and supports neither float6 type.
///
/// like: the onnx_cast_type of the second input, not string.
///
/// The other parameters are those of onnx_cast_cast.
///
/// # Safety
/// As the parameters say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onnx_cast_cast_like(
    from: i32,
    src: *const c_void,
    count: usize,
    like: i32,
    dst: *mut c_void,
    dst_bytes: usize,
    options: *const onnx_cast_options,
) -> c_int {
    // SAFETY: the caller's promise.
    status(|| unsafe { run(&resolve(Operator::CastLike, from, like, options)?, src, count, dst, dst_bytes) })
}

/// ONNX's BitCast: the same bits as another type of the same width. Only the padding of the last byte changes, to 0.
///
/// The parameters are those of onnx_cast_cast; BitCast has neither saturate nor round_mode.
///
/// # Safety
/// As the parameters say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onnx_cast_bit_cast(
    from: i32,
    src: *const c_void,
    count: usize,
    to: i32,
    dst: *mut c_void,
    dst_bytes: usize,
    options: *const onnx_cast_options,
) -> c_int {
    // SAFETY: the caller's promise.
    status(|| unsafe { run(&resolve(Operator::BitCast, from, to, options)?, src, count, dst, dst_bytes) })
}
