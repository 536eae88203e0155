//! The generic loop of the portable backend: a block of elements at a time, so that the compiler can vectorise load,
//! cast and store each on its own; the rest one by one. Where a source has few codes and the tensor many elements, each code
//! is cast once, and looked up.

use crate::element::Word;
use crate::packed::{bits, byte_len, get, load, set, store};
use crate::scalar::{Narrow, Rules, Widen};

/// Elements in a block: a multiple of 8, so that a block of every type is whole bytes, and few enough to stay in
/// registers or at worst in the nearest cache.
const BLOCK: usize = 64;

/// Elements from which a source of 8 bits or fewer is looked up: a table of 256 is worth making.
const TABLE_WORTH: usize = 2048;

/// Casts `len` elements. `src` and `dst` hold exactly that many.
#[inline(always)]
pub(crate) fn run<S: Widen, D: Narrow>(src: &[u8], dst: &mut [u8], len: usize, rules: &Rules) {
    let whole = len - len % BLOCK;
    let (src_blocks, src_rest) = src.split_at(byte_len::<S>(whole));
    let (dst_blocks, dst_rest) = dst.split_at_mut(byte_len::<D>(whole));
    let blocks = src_blocks.chunks_exact(byte_len::<S>(BLOCK)).zip(dst_blocks.chunks_exact_mut(byte_len::<D>(BLOCK)));
    if const { bits::<S>() <= 8 } && len >= TABLE_WORTH {
        let mut table = [D::default(); 256];
        for (code, entry) in
            table.iter_mut().enumerate().take(const { if bits::<S>() < 8 { 1 << bits::<S>() } else { 256 } })
        {
            *entry = S::from_bits(S::Bits::from_u64(code as u64)).widen_to(rules);
        }
        blocks.for_each(|(from, to)| {
            block::<S, D>(from, to, |element| table[element.to_bits().to_u64() as usize & 0xff])
        });
    } else {
        blocks.for_each(|(from, to)| block::<S, D>(from, to, |element| element.widen_to(rules)));
    }
    dst_rest.fill(0);
    for index in 0..len - whole {
        set(dst_rest, index, get::<S>(src_rest, index).widen_to::<D>(rules));
    }
}

#[inline(always)]
fn block<S: Widen, D: Narrow>(src: &[u8], dst: &mut [u8], cast: impl Fn(S) -> D) {
    let elements: [S; BLOCK] = load(src);
    let mut out = [D::default(); BLOCK];
    for (result, element) in out.iter_mut().zip(elements) {
        *result = cast(element);
    }
    store(&out, dst);
}
