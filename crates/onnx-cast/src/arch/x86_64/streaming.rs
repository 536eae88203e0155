//! What streaming kernels share: where whole lines begin, and fetching the source early.

use crate::element::Element;
use crate::packed::{bits, byte_len};
use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};

/// Bytes of a cache line.
pub(super) const LINE: usize = 64;

/// How far ahead the source is fetched: the processor's own prefetching stops at a page's end, and this is two pages on.
const AHEAD: usize = 8 << 10;

/// How many elements are before the first at which `dst` is aligned to a line, or to what divides the bytes of a step
/// where that is less. `None` if no element that begins a byte of the source is.
#[inline]
pub(super) fn unaligned<S: Element, D: Element>(dst: &[u8], step: usize) -> Option<usize> {
    let unit = (1 << byte_len::<D>(step).trailing_zeros()).min(LINE);
    let bytes = dst.as_ptr().align_offset(unit);
    let count = bytes * 8 / const { bits::<D>() };
    let whole = count * const { bits::<D>() } == bytes * 8 && (count * const { bits::<S>() }).is_multiple_of(8);
    (whole && count < step).then_some(count)
}

/// Asks for lines of the source to be brought near, in the order in which they lie: those [`AHEAD`] where that helps, which
/// gains little on Zen 4, a third on Zen 5; and where reads outweigh writes, or a step has eight lines of them, those of
/// the step itself. There, requests ahead fill the few places for misses that the processor's own prefetching does
/// without (double to int4: 19 GB/s for 31), but it has to see the lines in order, and the compiler loads them in any.
#[inline]
#[target_feature(enable = "sse")]
pub(super) fn fetch<S: Element, D: Element>(src: &[u8]) {
    let ahead = if const { bits::<S>() > 32 || bits::<S>() > 2 * bits::<D>() } { 0 } else { AHEAD };
    for line in (0..src.len()).step_by(LINE) {
        // A wish about an address, which need not be one.
        _mm_prefetch::<_MM_HINT_T0>(src.as_ptr().wrapping_add(ahead + line).cast());
    }
}
