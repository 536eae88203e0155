//! How to cast: a struct that may grow at its end; its first field gives its size.

use crate::edge::{Failure, known, static_text, versioned};
use onnx_cast::backend::Backend;
use onnx_cast::{CastOptions, NEWEST_OPSET, RoundMode};
use std::ffi::c_char;
use std::ptr;

/// What an onnx_cast_options says of `saturate`, an attribute of Cast-19 and CastLike-19 and later versions.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum onnx_cast_saturate {
    /// The attribute is not given, which means that it is true.
    ONNX_CAST_SATURATE_DEFAULT = 0,
    /// Float8 targets take their largest value in place of overflow.
    ONNX_CAST_SATURATE_TRUE = 1,
    /// Float8 targets take an infinity, or NaN where they have none.
    ONNX_CAST_SATURATE_FALSE = 2,
}

/// What an onnx_cast_options says of `round_mode`, an attribute of Cast-24 and CastLike-24 and later versions.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum onnx_cast_round_mode {
    /// The attribute is not given, which means up.
    ONNX_CAST_ROUND_DEFAULT = 0,
    /// To float8e8m0: the next power of two that is not below the value.
    ONNX_CAST_ROUND_UP = 1,
    /// To float8e8m0: the next power of two that is not above the value.
    ONNX_CAST_ROUND_DOWN = 2,
    /// To float8e8m0: the nearer power of two, and the upper one at a tie.
    ONNX_CAST_ROUND_NEAREST = 3,
}

/// How to cast. Start from ONNX_CAST_OPTIONS_INIT, under which every field but size is 0 and means its default; later
/// versions may have more fields at the end. Where a function takes a pointer to options, null means all defaults.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct onnx_cast_options {
    /// sizeof(onnx_cast_options): the library reads no further, and later fields count as 0.
    /// Fields that the library does not know must be 0.
    pub size: usize,
    /// The opset, which decides the operator's version; 0 for the newest that is known.
    pub opset: i64,
    /// An onnx_cast_saturate.
    pub saturate: i32,
    /// An onnx_cast_round_mode.
    pub round_mode: i32,
    /// Threads at most: 1 for only the caller's, 0 for as many as the machine has. It never changes a result.
    pub threads: usize,
    /// The name of a backend, or null for the best of this machine; it never changes a result.
    pub backend: *const c_char,
}

versioned!(onnx_cast_options { threads });

impl Default for onnx_cast_options {
    fn default() -> Self {
        let size = size_of::<onnx_cast_options>();
        onnx_cast_options { size, opset: 0, saturate: 0, round_mode: 0, threads: 0, backend: ptr::null() }
    }
}

/// What an onnx_cast_saturate says.
#[inline]
pub(crate) fn saturate(given: i32) -> Result<Option<bool>, Failure> {
    match given {
        0 => Ok(None),
        1 => Ok(Some(true)),
        2 => Ok(Some(false)),
        other => Err(Failure::invalid(format_args!("saturate is {other} (want 0, 1 or 2)"))),
    }
}

/// The opset of an `opset` field.
#[inline]
pub(crate) fn opset(given: i64) -> i64 {
    if given == 0 { NEWEST_OPSET } else { given }
}

/// The backend of a name, or none for null.
///
/// # Safety
/// The pointer is null, or leads to bytes that end with a zero.
#[inline]
pub(crate) unsafe fn backend(name: *const c_char) -> Result<Option<Backend>, Failure> {
    // SAFETY: promised.
    match unsafe { static_text(name) } {
        None => Ok(None),
        Some(name) => Ok(Some(Backend::by_name(&name.to_string_lossy())?)),
    }
}

/// The most threads of a `threads` field.
#[inline]
pub(crate) fn threads(given: usize) -> Option<usize> {
    Some(given).filter(|&threads| threads > 0)
}

impl onnx_cast_options {
    /// The library's options.
    ///
    /// # Safety
    /// The pointer is null, or as many bytes as the first field says are readable, and the backend's name is null or
    /// ends with a zero byte.
    #[inline(always)]
    pub(crate) unsafe fn resolve(pointer: *const onnx_cast_options) -> Result<CastOptions, Failure> {
        if pointer.is_null() {
            return Ok(CastOptions::default());
        }
        // SAFETY: promised.
        let given = unsafe { known(pointer, "options") }?;
        let round_mode = match given.round_mode {
            0 => None,
            1 => Some(RoundMode::Up),
            2 => Some(RoundMode::Down),
            3 => Some(RoundMode::Nearest),
            other => return Err(Failure::invalid(format_args!("round_mode is {other} (want 0, 1, 2 or 3)"))),
        };
        let options = CastOptions::new().opset(opset(given.opset)).saturate(saturate(given.saturate)?);
        // SAFETY: promised.
        let backend = unsafe { backend(given.backend) }?;
        Ok(options.round_mode(round_mode).backend(backend).threads(threads(given.threads)))
    }
}
