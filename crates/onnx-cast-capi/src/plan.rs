//! Plans: an operator resolved for two types, to run many times. The functions that resolve an operator for one call
//! run their plan through this module too.

use crate::edge::{Failure, Span, apart, byte_len, give, read, reference, room, status, type_of, write};
use crate::options::onnx_cast_options;
use onnx_cast::ops::Operator;
use onnx_cast::{BitCast, Cast, CastLike, Plan};
use std::ffi::{c_int, c_void};

/// An operator with its attributes, resolved for two types. It does not change, and any number of threads may run it at
/// once.
pub struct onnx_cast_plan(pub(crate) Plan);

/// Resolves an operator. Always inlined, as are [`run`] and what they check: a plan that is returned through memory is
/// read back in vectors before its fields are written. That took a quarter of a call with 16 elements.
///
/// # Safety
/// As `onnx_cast_options::resolve`.
#[inline(always)]
pub(crate) unsafe fn resolve(
    operator: Operator,
    from: i32,
    to: i32,
    options: *const onnx_cast_options,
) -> Result<Plan, Failure> {
    let (from, to) = (type_of(from)?, type_of(to)?);
    // SAFETY: promised.
    let options = unsafe { onnx_cast_options::resolve(options) }?;
    Ok(match operator {
        Operator::Cast => Cast::new(to, &options)?.plan(from)?,
        Operator::CastLike => CastLike::new(&options)?.plan(from, to)?,
        Operator::BitCast if options.saturate.is_some() || options.round_mode.is_some() => {
            return Err(Failure::unsupported("BitCast has neither saturate nor round_mode"));
        }
        Operator::BitCast => {
            BitCast::new(to, options.opset)?.backend(options.backend).threads(options.threads).plan(from)?
        }
        _ => return Err(Failure::unsupported(format_args!("{operator} is unsupported in this interface"))),
    })
}

/// Runs a plan between two types that are not string.
///
/// # Safety
/// `src` leads to `count` elements, and `dst` to `dst_bytes` bytes that nothing else uses.
#[inline(always)]
pub(crate) unsafe fn run(
    plan: &Plan,
    src: *const c_void,
    count: usize,
    dst: *mut c_void,
    dst_bytes: usize,
) -> Result<(), Failure> {
    let (read_bytes, written_bytes) = (byte_len(plan.source_type(), count)?, byte_len(plan.target_type(), count)?);
    room("dst", dst_bytes, written_bytes)?;
    // SAFETY: promised.
    let src = unsafe { read(src.cast::<u8>(), read_bytes, "src") }?;
    apart(Span::new("dst", dst, written_bytes), &[Span::new("src", src.as_ptr(), read_bytes)])?;
    // SAFETY: promised, and they do not overlap.
    let dst = unsafe { write(dst.cast::<u8>(), written_bytes, "dst") }?;
    // SAFETY: these are their bytes, which those of string are not: `byte_len` refuses it.
    unsafe { plan.run_counted(src, count, dst) };
    Ok(())
}

/// Resolves an operator and gives it to the caller.
///
/// # Safety
/// As the functions below.
unsafe fn make(
    operator: Operator,
    from: i32,
    to: i32,
    options: *const onnx_cast_options,
    plan: *mut *mut onnx_cast_plan,
) -> c_int {
    status(|| {
        // SAFETY: promised.
        unsafe {
            let made = resolve(operator, from, to, options)?;
            give(plan, "plan", || Box::into_raw(Box::new(onnx_cast_plan(made))))
        }
    })
}

/// Resolves ONNX's Cast for two types.
///
/// from, to: each an onnx_cast_type, string among them.
/// options: how to cast, or null for the defaults. Nothing of it is used after the call.
/// plan: takes the plan, to be freed with onnx_cast_plan_free. Not written where the function fails.
///
/// # Safety
/// As the parameters say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onnx_cast_plan_cast(
    from: i32,
    to: i32,
    options: *const onnx_cast_options,
    plan: *mut *mut onnx_cast_plan,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { make(Operator::Cast, from, to, options, plan) }
}

/// Resolves ONNX's CastLike for two types, of which the second is that of the operator's second input. CastLike has
/// versions of its own: it starts with opset 15, and takes neither float6.
///
/// The parameters are those of onnx_cast_plan_cast.
///
/// # Safety
/// As the parameters say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onnx_cast_plan_cast_like(
    from: i32,
    like: i32,
    options: *const onnx_cast_options,
    plan: *mut *mut onnx_cast_plan,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { make(Operator::CastLike, from, like, options, plan) }
}

/// Resolves ONNX's BitCast for two types of the same width.
///
/// The parameters are those of onnx_cast_plan_cast; BitCast has neither saturate nor round_mode.
///
/// # Safety
/// As the parameters say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onnx_cast_plan_bit_cast(
    from: i32,
    to: i32,
    options: *const onnx_cast_options,
    plan: *mut *mut onnx_cast_plan,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { make(Operator::BitCast, from, to, options, plan) }
}

/// Frees a plan.
///
/// plan: one of the plans of this library, which nothing uses any more, or null, which is nothing to free.
///
/// # Safety
/// As the parameters say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onnx_cast_plan_free(plan: *mut onnx_cast_plan) {
    if !plan.is_null() {
        // SAFETY: it is a box of `make`, whose only owner the caller is.
        drop(unsafe { Box::from_raw(plan) });
    }
}

/// Runs a plan between two types that are not string. Allocates nothing and takes no lock, but where a large tensor is
/// handed to other threads.
///
/// plan: one of the plans of this library.
/// src: count elements of the plan's source type: little endian, packed, of any alignment. May be null if count is 0.
/// count: the number of elements.
/// dst: takes count elements of the plan's target type, packed, the padding of the last byte 0. No part of src.
/// dst_bytes: the bytes that dst has room for: as many as onnx_cast_byte_size says, or more, which stay as they are.
///
/// # Safety
/// As the parameters say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onnx_cast_plan_run(
    plan: *const onnx_cast_plan,
    src: *const c_void,
    count: usize,
    dst: *mut c_void,
    dst_bytes: usize,
) -> c_int {
    status(|| {
        // SAFETY: the caller's promise.
        unsafe { run(&reference(plan, "plan")?.0, src, count, dst, dst_bytes) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CString;

    /// A plan's `Debug` text has the address of its kernel. From a type to itself both operators copy.
    #[test]
    fn bit_cast_runs_on_the_backend_of_its_options() {
        for backend in onnx_cast::backend::available() {
            let name = CString::new(backend.name()).expect("no zero byte");
            let options = onnx_cast_options { backend: name.as_ptr(), ..Default::default() };
            let plan = |operator| {
                // SAFETY: `options` and the name outlive the call.
                unsafe { resolve(operator, 1, 1, &options) }.ok().map(|plan| format!("{plan:?}"))
            };
            assert!(plan(Operator::Cast).is_some());
            assert_eq!(plan(Operator::BitCast), plan(Operator::Cast), "{backend:?}");
        }
    }
}
