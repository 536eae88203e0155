//! AVX2 with F16C and FMA (Haswell, Zen and later): 32 elements a step, in registers from load to store.
//!
//! Sources of 8 bits or fewer are table look-ups ([`lookup`]; [`extend`] and [`half_bytes`] where less than the target's
//! bytes are looked up), but for those of 8 bits to most of what is as wide or wider, which are more quickly computed. The
//! others are widened to lanes of `f32` or `f64`, with what those do not hold left in the last bit, so that the one real
//! rounding comes after, or stay integers ([`widen`]), and are narrowed there ([`convert`]); floats of 8 bits or fewer are made
//! in 16-bit lanes ([`small_float`]). [`lanes`] packs and stores. The rest of a tensor that does not fill a step goes through
//! the same step on a scratch block.

mod convert;
mod extend;
mod half_bytes;
mod lanes;
mod lookup;
mod small_float;
mod stream;
mod widen;

use super::streaming;
use crate::arch::kinds::is_integer;
use crate::arch::portable;
use crate::element::{DataType, Element};
use crate::kernel::{Compose, Store, Table};
use crate::packed::bits;
use crate::scalar::{Narrow, Rules, Widen};

pub(crate) use stream::copy;

pub(crate) static TABLE: Table = Table::composed::<Avx2>();

/// Elements in a step; 32 of any type are whole bytes.
const STEP: usize = 32;

/// Whether this machine has every instruction set that the kernels are compiled for.
pub(crate) fn is_available() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("f16c") && is_x86_feature_detected!("fma")
}

struct Avx2;

/// Whether a pair is computed and not looked up.
const fn is_computed<S: Element, D: Element>() -> bool {
    match S::DATA_TYPE {
        _ if bits::<S>() > 8 => true,
        DataType::Int8 | DataType::Uint8 | DataType::Bool => bits::<D>() > 8 || is_integer::<D>() && bits::<D>() < 8,
        DataType::Float8E8M0 => matches!(bits::<D>(), 16 | 32),
        _ => bits::<S>() == 8 && (bits::<D>() == 32 || is_integer::<D>() && bits::<D>() == 16),
    }
}

// SAFETY: every path casts as the scalar cast does, which the tests check for every pair on every length and, for the
// types of 32 bits or fewer, every value; and covers all of `dst`: whole steps, then the rest.
unsafe impl Compose for Avx2 {
    #[target_feature(enable = "avx2,f16c,fma")]
    unsafe fn run<S: Widen, D: Narrow>(src: &[u8], dst: &mut [u8], len: usize, rules: &Rules, store: Store) {
        if const { !is_computed::<S, D>() } {
            lookup::run::<S, D>(src, dst, len, rules, store);
        } else if small_float::tells_infinity::<S, D>(rules) {
            portable::cast::<S, D>(src, dst, len, rules);
        } else {
            let rules = small_float::RuleLanes::new(rules);
            // SAFETY: `steps` hands out pointers to the bytes of 32 elements.
            steps::<S, D>(src, dst, len, store, |src, dst| unsafe { convert::step::<S, D>(src, dst, &rules) });
        }
    }
}

streaming::steps!("avx2,f16c,fma");
