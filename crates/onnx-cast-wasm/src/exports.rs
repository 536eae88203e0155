//! The functions that JavaScript calls. Each returns a number; where it is negative, the output slot has the text of an
//! error.
#![allow(unsafe_code)]

#[cfg(feature = "values")]
use crate::cast;
use crate::{Failure, Result, requests, slots};

fn status(result: Result<()>) -> i32 {
    match result {
        Ok(()) => 0,
        Err(Failure(text)) => {
            slots::put(slots::OUTPUT, text.into_bytes());
            -1
        }
    }
}

/// Gives a slot a length, and returns the address of its bytes; 0 where that fails.
// SAFETY: no other symbol of the module has this name, as of all functions below.
#[unsafe(no_mangle)]
extern "C" fn oc_reserve(slot: usize, len: usize) -> usize {
    slots::reserve(slot, len)
}

/// The address of a slot's bytes.
// SAFETY: the name is unique.
#[unsafe(no_mangle)]
extern "C" fn oc_address(slot: usize) -> usize {
    slots::address(slot)
}

/// The length of a slot.
// SAFETY: the name is unique.
#[unsafe(no_mangle)]
extern "C" fn oc_len(slot: usize) -> usize {
    slots::len(slot)
}

/// Gives the memory of all slots back.
// SAFETY: the name is unique.
#[unsafe(no_mangle)]
extern "C" fn oc_clear() {
    slots::clear();
}

/// Prepares a cast: see [`cast::plan`].
// SAFETY: the name is unique.
#[cfg(feature = "values")]
#[unsafe(no_mangle)]
extern "C" fn oc_plan(from: i32, to: i32, opset: i32, saturate: i32, round_mode: i32) -> i32 {
    status(cast::plan(from, to, opset.into(), saturate, round_mode))
}

/// Prepares a BitCast: see [`cast::plan_bits`].
// SAFETY: the name is unique.
#[cfg(feature = "values")]
#[unsafe(no_mangle)]
extern "C" fn oc_plan_bits(from: i32, to: i32, opset: i32) -> i32 {
    status(cast::plan_bits(from, to, opset.into()))
}

/// Casts elements: see [`cast::run`].
// SAFETY: the name is unique.
#[cfg(feature = "values")]
#[unsafe(no_mangle)]
extern "C" fn oc_run(len: usize) -> i32 {
    status(cast::run(len))
}

/// Answers a request: see [`requests::answer`].
// SAFETY: the name is unique.
#[unsafe(no_mangle)]
extern "C" fn oc_answer() -> i32 {
    #[cfg(feature = "lent")]
    onnx_cast_file::__private::fs::set_host(&crate::host::Lender);
    status(requests::answer())
}
