//! NEON, which every AArch64 processor has but those without floats: 32 elements a step, in registers from load to store.
//!
//! Sources of 8 bits or fewer are table look-ups on the way to targets of 8 bits or fewer, and are first widened to
//! bfloat16 or int8 on the way to wider ones ([`lookup`]). The others are widened to lanes of `f32` or `f64` (rounded to
//! odd where those do not hold the value, so that the one real rounding comes after), or stay integers, and are narrowed
//! there ([`convert`]); floats of 8 bits or fewer are made in 16-bit lanes ([`small_float`]). [`lanes`] loads, packs and
//! stores. The rest of a tensor that does not fill a step goes through the same step on a scratch block.
//!
//! Only what the first version of the architecture has is used: the types of half precision and bfloat16 that later ones
//! compute with would save little here, and would have to be asked for. There are no non-temporal stores: they have no
//! intrinsic, and the processors find out by themselves when whole lines are overwritten.

mod convert;
mod lanes;
mod lookup;
mod small_float;

use crate::arch::kinds::is_float;
use crate::element::Element;
use crate::kernel::{Compose, Store, Table};
use crate::packed::{bits, byte_len, clear_padding};
use crate::scalar::{Narrow, Rules, Widen};

pub(crate) static TABLE: Table = Table::composed::<Neon>();

/// Elements in a step; 32 of any type are whole bytes.
const STEP: usize = 32;

/// Whether this machine has what the kernels are compiled for. NEON is part of every target with floats; lanes lie in
/// memory as ONNX's elements do where bytes are little endian.
pub(crate) fn is_available() -> bool {
    cfg!(all(target_feature = "neon", target_endian = "little"))
}

struct Neon;

// SAFETY: every path casts as the scalar cast does, which the tests check for every pair on every length and, for the
// types of 16 bits or fewer, every value; and covers all of `dst`: whole steps, then the rest.
unsafe impl Compose for Neon {
    #[target_feature(enable = "neon")]
    unsafe fn run<S: Widen, D: Narrow>(src: &[u8], dst: &mut [u8], len: usize, rules: &Rules, _: Store) {
        // A copy of which the compiler knows that nothing else writes to it, so that its lanes are made once.
        let rules = *rules;
        if const { bits::<S>() <= 8 && bits::<D>() <= 8 } {
            lookup::run::<S, D>(src, dst, len, &rules);
        } else if const { bits::<S>() < 8 || is_float::<S>() && bits::<S>() == 8 } {
            // SAFETY: `steps` hands out pointers to the bytes of 32 elements.
            steps::<S, D>(src, dst, len, |src, dst| unsafe { lookup::widened_step::<S, D>(src, dst, &rules) });
        } else {
            // SAFETY: as above.
            steps::<S, D>(src, dst, len, |src, dst| unsafe { convert::step::<S, D>(src, dst, &rules) });
        }
    }
}

/// Calls `step` with the source and target of each 32 elements, and for the rest with a copy of it, filled up with
/// zeros; so there is no second formula for the tail.
#[inline]
#[target_feature(enable = "neon")]
fn steps<S: Element, D: Element>(src: &[u8], dst: &mut [u8], len: usize, step: impl Fn(*const u8, *mut u8)) {
    let (src_step, dst_step) = const { (byte_len::<S>(STEP), byte_len::<D>(STEP)) };
    // Cut by elements, not by bytes: 31 elements of 4 bits take as many bytes as 32.
    let whole = len / STEP;
    let (from_steps, from) = src.split_at(whole * src_step);
    let (to_steps, to) = dst.split_at_mut(whole * dst_step);
    for (from, to) in from_steps.chunks_exact(src_step).zip(to_steps.chunks_exact_mut(dst_step)) {
        step(from.as_ptr(), to.as_mut_ptr());
    }
    if len.is_multiple_of(STEP) {
        return;
    }
    let mut source = [0u8; STEP * 8];
    let mut target = [0u8; STEP * 8];
    source[..from.len()].copy_from_slice(from);
    step(source.as_ptr(), target.as_mut_ptr());
    to.copy_from_slice(&target[..to.len()]);
    if const { bits::<D>() < 8 } {
        // The source's own padding may hold anything.
        clear_padding(D::DATA_TYPE, len, to);
    }
}
