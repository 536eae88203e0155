//! What the backends of this architecture share: the walk over a tensor in steps, with results left in the caches or
//! streamed past them.

use crate::arch::kinds::is_float;
use crate::element::Element;
use crate::packed::{bits, byte_len};
use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch, _mm_sfence};

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

/// Ends a run of stores past the caches: other threads see them before whatever is stored from here on.
#[inline]
#[target_feature(enable = "sse")]
pub(super) fn fence() {
    // SAFETY: it takes nothing.
    #[allow(unused_unsafe)]
    unsafe {
        _mm_sfence();
    }
}

/// Asks for lines of the source to be brought near.
///
/// Those of the step itself, in the order in which they lie, where reads outweigh writes or a step has eight lines of them: the
/// processor's own prefetching has to see lines in order, and the compiler loads a wide step's in any. And those
/// [`AHEAD`], so that memory does not wait while a step computes; but for steps with so many loads that compute little,
/// between integers or to 32 bits and more, which have enough to ask for.
#[inline]
#[target_feature(enable = "sse")]
pub(super) fn fetch<S: Element, D: Element>(src: &[u8]) {
    let ask = |ahead: usize| {
        for line in (0..src.len()).step_by(LINE) {
            // SAFETY: a wish about an address, which need not be one. Only in older Rust is it unsafe, as the fence is.
            #[allow(unused_unsafe)]
            unsafe {
                _mm_prefetch::<_MM_HINT_T0>(src.as_ptr().wrapping_add(ahead + line).cast());
            }
        }
    };
    let reads = const { bits::<S>() > 32 || bits::<S>() > 2 * bits::<D>() };
    if reads {
        ask(0);
    }
    if !reads || const { bits::<D>() <= 16 && (is_float::<S>() || is_float::<D>()) } {
        ask(AHEAD);
    }
}

/// Defines `steps`, the walk over a tensor, in a backend with these features: functions are only inlined into others with
/// the same ones, so each backend needs its own.
macro_rules! steps {
    ($features:literal) => {
        /// Calls `step` with the source and target of each [`STEP`] elements, and for those that do not fill a step with
        /// a copy of them, filled up with anything; so there is no second formula for the ends.
        ///
        /// Where results are streamed, each step writes to a block in the nearest cache, and from there whole lines go
        /// past the caches, a few at a time: the processor has room for few such stores, and the next step runs while
        /// those wait.
        #[inline]
        #[target_feature(enable = $features)]
        fn steps<S: crate::element::Element, D: crate::element::Element>(
            mut src: &[u8],
            mut dst: &mut [u8],
            mut len: usize,
            store: crate::kernel::Store,
            step: impl Fn(*const u8, *mut u8),
        ) {
            use crate::arch::x86_64::streaming::{fence, fetch, unaligned};
            use crate::kernel::Store;
            use crate::packed::{bits, byte_len, clear_padding};
            use core::mem::MaybeUninit;

            let (src_step, dst_step) = const { (byte_len::<S>(STEP), byte_len::<D>(STEP)) };
            let first = if store == Store::Streamed { unaligned::<S, D>(dst, STEP) } else { None };
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
            let mut source = stream::Block(MaybeUninit::uninit());
            let mut block = stream::Block(MaybeUninit::uninit());
            // The elements before the first whole line, then steps, then what is left.
            let mut next = first.filter(|&first| first > 0).unwrap_or(STEP);
            while len > 0 {
                let count = next.min(len);
                next = STEP;
                let (from, from_rest) = src.split_at(byte_len::<S>(count));
                let (to, to_rest) = std::mem::take(&mut dst).split_at_mut(byte_len::<D>(count));
                if count == STEP {
                    fetch::<S, D>(from);
                    step(from.as_ptr(), block.0.as_mut_ptr().cast());
                    // SAFETY: `to` is a step's bytes, and aligned to them or to a line, since the first elements were cut
                    // off so that it is and steps take whole such pieces; only a streamed cast has whole steps here. The
                    // block's first bytes are the step's.
                    unsafe { stream::step::<D>(&block, to.as_mut_ptr()) };
                } else {
                    // SAFETY: fewer elements than a step's are fewer bytes than a block's; the step has written to
                    // `block` the bytes of more elements than `to` has.
                    unsafe {
                        source.fill(from, src_step);
                        step(source.0.as_ptr().cast(), block.0.as_mut_ptr().cast());
                        block.copy_to(to);
                    }
                    if const { bits::<D>() < 8 } {
                        // The source's own padding may hold anything.
                        clear_padding(D::DATA_TYPE, count, to);
                    }
                }
                (src, dst, len) = (from_rest, to_rest, len - count);
            }
            if first.is_some() {
                fence();
            }
        }
    };
}
pub(super) use steps;
