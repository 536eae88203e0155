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
use crate::kernel::{Compose, Store, Table};
use crate::packed::bits;
use crate::scalar::{Narrow, Rules, Widen};

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

streaming::steps!("avx512f,avx512bw,avx512dq,avx512vl,avx512cd,avx512vbmi,avx512vbmi2,avx2,f16c,fma,bmi2");
