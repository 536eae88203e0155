//! The generic loop of the portable backend: a block of elements at a time, so that the compiler can vectorise load,
//! cast and store each on its own; the rest one by one.

use crate::packed::{byte_len, get, load, set, store};
use crate::scalar::{Narrow, Rules, Widen};

/// Elements in a block: a multiple of 8, so that a block of every type is whole bytes, and few enough to stay in
/// registers or at worst in the nearest cache.
const BLOCK: usize = 64;

/// Casts `len` elements. `src` and `dst` hold exactly that many.
#[inline(always)]
pub(crate) fn run<S: Widen, D: Narrow>(src: &[u8], dst: &mut [u8], len: usize, rules: &Rules) {
    let whole = len - len % BLOCK;
    let (src_blocks, src_rest) = src.split_at(byte_len::<S>(whole));
    let (dst_blocks, dst_rest) = dst.split_at_mut(byte_len::<D>(whole));
    let blocks = src_blocks.chunks_exact(byte_len::<S>(BLOCK)).zip(dst_blocks.chunks_exact_mut(byte_len::<D>(BLOCK)));
    for (from, to) in blocks {
        let elements: [S; BLOCK] = load(from);
        let mut out = [D::default(); BLOCK];
        for (result, element) in out.iter_mut().zip(elements) {
            *result = element.widen_to(rules);
        }
        store(&out, to);
    }
    dst_rest.fill(0);
    for index in 0..len - whole {
        set(dst_rest, index, get::<S>(src_rest, index).widen_to::<D>(rules));
    }
}
