//! AVX-512 with F, BW, DQ, VL, CD, VBMI and VBMI2 (Ice Lake, Zen 4 and later): 64 elements a step, in registers from
//! load to store.
//!
//! Sources of 8 bits or fewer are table look-ups ([`lookup`]), but for integers to wider ones ([`extend`]). The others are
//! widened to 16 lanes of `f32` (rounded to odd where `f32` does not hold the value, so that the one real rounding comes
//! after), or stay integers, and are narrowed there ([`convert`]); floats of 8 bits or fewer are made in 16-bit lanes
//! ([`small_float`], [`integer`]). [`lanes`] packs and stores. The rest of a tensor that does not fill a step goes through
//! the same step on a scratch block.

mod convert;
mod extend;
mod integer;
mod lanes;
mod lookup;
mod small_float;
mod stream;

use super::streaming;
use crate::element::Element;
use crate::kernel::{Compose, Store, Table};
use crate::packed::{bits, byte_len};
use crate::scalar::{Narrow, Rules, Widen};
use core::arch::x86_64::_mm_sfence;
use core::mem::MaybeUninit;

pub(crate) use stream::copy;

pub(crate) static TABLE: Table = Table::composed::<Avx512>();

/// Elements in a step; 64 of any type are whole bytes.
const STEP: usize = 64;

/// Whether this machine has every instruction set that the kernels are compiled for.
pub(crate) fn is_available() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512cd")
        && is_x86_feature_detected!("avx512vbmi")
        && is_x86_feature_detected!("avx512vbmi2")
        && is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("f16c")
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("bmi2")
}

struct Avx512;

// SAFETY: every path casts as the scalar cast does, which the tests check for every pair on every length and, for the
// types of 32 bits or fewer, every value; and covers all of `dst`: whole steps, then the rest.
unsafe impl Compose for Avx512 {
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512cd,avx512vbmi,avx512vbmi2,avx2,f16c,fma,bmi2")]
    unsafe fn run<S: Widen, D: Narrow>(src: &[u8], dst: &mut [u8], len: usize, rules: &Rules, store: Store) {
        if const { extend::extends::<S, D>() } {
            extend::run::<S, D>(src, dst, len, store);
        } else if const { bits::<S>() <= 8 } {
            lookup::run::<S, D>(src, dst, len, rules, store);
        } else {
            let rules = small_float::RuleLanes::new(rules);
            // SAFETY: `steps` hands out pointers to the bytes of 64 elements.
            steps::<S, D>(src, dst, len, store, |src, dst| unsafe { convert::step::<S, D>(src, dst, &rules) });
        }
    }
}

/// Calls `step` with the source and target of each 64 elements, and for those that do not fill a step with a copy of
/// them, filled up with anything; so there is no second formula for the ends.
///
/// Where results are streamed, each step writes to a block in the nearest cache, and from there whole lines go past the
/// caches, a few at a time: the processor has room for few such stores, and the next step runs while those wait.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512cd,avx512vbmi,avx512vbmi2,avx2,f16c,fma,bmi2")]
fn steps<S: Element, D: Element>(
    mut src: &[u8],
    mut dst: &mut [u8],
    mut len: usize,
    store: Store,
    step: impl Fn(*const u8, *mut u8),
) {
    let (src_step, dst_step) = const { (byte_len::<S>(STEP), byte_len::<D>(STEP)) };
    let first = if store == Store::Streamed { streaming::unaligned::<S, D>(dst, STEP) } else { None };
    if first.is_none() {
        // Cut by elements, not by bytes: one less than a step may take as many bytes.
        let whole = len / STEP;
        let (from_steps, from) = src.split_at(whole * src_step);
        let (to_steps, to) = dst.split_at_mut(whole * dst_step);
        for (from, to) in from_steps.chunks_exact(src_step).zip(to_steps.chunks_exact_mut(dst_step)) {
            step(from.as_ptr(), to.as_mut_ptr());
        }
        (src, dst, len) = (from, to, len % STEP);
    }
    // Not a byte more is cleared than a step has: for a few elements that would take as long as the cast.
    let mut source = MaybeUninit::<[u8; STEP * 8]>::uninit();
    // SAFETY: a step of no type is longer than the array.
    unsafe { source.as_mut_ptr().cast::<u8>().write_bytes(0, src_step) };
    let mut block = stream::Block(MaybeUninit::uninit());
    // The elements before the first whole line, then steps, then what is left.
    let mut next = first.filter(|&first| first > 0).unwrap_or(STEP);
    while len > 0 {
        let count = next.min(len);
        next = STEP;
        let (from, from_rest) = src.split_at(byte_len::<S>(count));
        let (to, to_rest) = std::mem::take(&mut dst).split_at_mut(byte_len::<D>(count));
        if count == STEP {
            streaming::fetch::<S, D>(from);
            step(from.as_ptr(), block.0.as_mut_ptr().cast());
            // SAFETY: `to` is a step's bytes, and aligned to them or to a line, since the first elements were cut off
            // so that it is and steps take whole such pieces; only a streamed cast has whole steps here. The block's
            // first bytes are the step's.
            unsafe { stream::step::<D>(&block, to.as_mut_ptr()) };
        } else {
            // SAFETY: fewer elements than a step's are fewer bytes than the array's.
            unsafe { source.as_mut_ptr().cast::<u8>().copy_from_nonoverlapping(from.as_ptr(), from.len()) };
            step(source.as_ptr().cast(), block.0.as_mut_ptr().cast());
            // SAFETY: the step has written the bytes of more elements than these.
            unsafe { to.as_mut_ptr().copy_from_nonoverlapping(block.0.as_ptr().cast(), to.len()) };
            if const { bits::<D>() < 8 } {
                // The source's own padding may hold anything.
                crate::packed::clear_padding(D::DATA_TYPE, count, to);
            }
        }
        (src, dst, len) = (from_rest, to_rest, len - count);
    }
    if first.is_some() {
        _mm_sfence();
    }
}
