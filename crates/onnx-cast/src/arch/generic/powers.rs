//! Casts from floats of 16 and 32 bits to `float8e8m0` under the default rules, which round up and saturate. The result
//! is the exponent of the smallest power of two that is not below the value. Other rules use
//! [`small_float::power_code`](super::small_float::power_code), which takes twice the instructions.
//!
//! A code is 0 up to 2^-127, 254 from 2^127 on, and 255 for NaN.
//!
//! Every `unsafe fn` here has two conditions: the processor has the instructions of `L`, and the bytes of a step's
//! elements of `S` can be read from `src`.
#![allow(unsafe_op_in_unsafe_fn, reason = "each line is a method of `Lanes`, which has no other conditions")]

use super::step::{Walk, parts, walk};
use super::wide::f32_lanes;
use crate::element::{Class, Element, Float8E8M0, class};
use crate::kernel::Task;
use crate::kernel::lanes::Lanes;

/// The code of NaN.
const NAN: u64 = 0xff;

/// Whether a pair is cast here under the default rules. Small backends ([`Lanes::IS_SMALL`]) omit it.
pub(super) const fn applies<L: Lanes, S: Element, D: Element>() -> bool {
    matches!(class::<S>(), Class::F32 | Class::F16 | Class::BF16) && matches!(class::<D>(), Class::E8M0) && !L::IS_SMALL
}

/// Casts the elements of a task.
///
/// # Safety
/// The conditions of [`crate::kernel::Kernel`], for the instructions of `L`.
#[inline(always)]
pub(super) unsafe fn cast<L: Lanes, S: Element>(task: &Task<'_>) {
    walk::<L>(
        task,
        Walk::of::<S, Float8E8M0>(),
        #[inline(always)]
        |src, dst, _| L::store(dst, codes::<L, S>(src)),
    );
}

/// The codes of a step's elements, one to a byte.
#[inline(always)]
unsafe fn codes<L: Lanes, S: Element>(src: *const u8) -> L::V {
    if const { matches!(class::<S>(), Class::BF16) } {
        return L::low_halves::<16>([code::<L, 16>(L::load(src)), code::<L, 16>(L::load(src.add(L::BYTES)))]);
    }
    L::low_bytes(parts!(i => code::<L, 32>(f32_lanes::<L, S>(src, i))))
}

/// The codes of `f32` values, of which each lane holds the upper `W` bits.
#[inline(always)]
unsafe fn code<L: Lanes, const W: usize>(value: L::V) -> L::V {
    let lanes = |value: u32| L::splat::<W>((value >> (32 - W)).into());
    let raised = L::add::<W>(L::min_u::<W>(value, lanes(0x7f00_0000)), lanes(0x007f_ffff));
    let code = if W == 16 { L::shr::<W, 7>(raised) } else { L::shr::<W, 23>(raised) };
    // As signed integers, the bits of negative floats are below those of every other. 2^-127 is subnormal.
    let code = L::select::<W>(L::gt::<W>(value, lanes(0x0040_0000)), code, L::splat::<W>(0));
    let is_nan =
        if W == 16 { L::gt::<W>(L::and(value, lanes(0x7fff_ffff)), lanes(0x7f80_0000)) } else { L::is_nan_f32(value) };
    L::select::<W>(is_nan, L::splat::<W>(NAN), code)
}
