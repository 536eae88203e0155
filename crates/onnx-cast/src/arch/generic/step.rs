//! The walk over a tensor in steps. What does not fill a step goes through the same step on a copy, so that there is no
//! second formula for the ends.

use crate::element::Element;
use crate::kernel::StoreHint;
use crate::kernel::lanes::{Lanes, step_bytes};
use crate::packed::{bits, byte_len, clear_padding};
use core::mem::MaybeUninit;

/// Bytes of a cache line.
pub(super) const LINE: usize = 64;

/// How far ahead the source is fetched. The processor's own prefetching stops at the end of a page; this is two pages
/// on.
const AHEAD: usize = 8 << 10;

/// Bytes of the widest step of any backend: 64 elements of 64 bits.
const MOST_BYTES: usize = 64 * 8;

/// What a step reads or writes where that is not the tensor itself.
#[repr(align(64))]
struct Block(MaybeUninit<[u8; MOST_BYTES]>);

/// How many elements stand before the first that begins a cache line of `dst`; `None` where no element that begins a
/// byte of the source does.
#[inline]
fn elements_before_line<S: Element, D: Element>(dst: &[u8]) -> Option<usize> {
    // Not `align_offset`, which may also say that it does not know.
    let bits_before = dst.as_ptr().addr().wrapping_neg() % LINE * 8;
    let count = bits_before / const { bits::<D>() };
    let is_whole = bits_before.is_multiple_of(const { bits::<D>() });
    (is_whole && (count * const { bits::<S>() }).is_multiple_of(8)).then_some(count)
}

/// Asks for lines of the source to be brought near, in a cast whose results pass the caches by.
///
/// From 64 bits, a step's own lines are asked for in the order in which they lie: the processor's prefetching has to
/// see lines in order, and the compiler loads those of a wide step in any. And lines [`AHEAD`] are, so that memory does
/// not wait while a step computes; but for such steps that compute little, whose many loads keep enough requests open.
#[inline(always)]
unsafe fn fetch<L: Lanes, S: Element, D: Element>(src: *const u8) {
    let len = step_bytes::<L>(const { bits::<S>() });
    let is_wide = const { bits::<S>() > 32 };
    let computes = const { bits::<D>() <= 16 && (S::DATA_TYPE.is_float() || D::DATA_TYPE.is_float()) };
    for line in (0..len).step_by(LINE) {
        // SAFETY: a prefetch is a hint and accepts any address.
        unsafe {
            if is_wide {
                L::prefetch(src.wrapping_add(line));
            }
            if !is_wide || computes {
                L::prefetch(src.wrapping_add(AHEAD + line));
            }
        }
    }
}

/// Stores a block of `len` bytes, complete lines, with non-temporal stores.
#[inline(always)]
unsafe fn stream<L: Lanes>(block: *const u8, to: *mut u8, len: usize) {
    for at in (0..len).step_by(L::BYTES) {
        // SAFETY: the caller's: both have `len` bytes, which is a multiple of a vector's, and `to` begins a line.
        unsafe { L::stream(to.add(at), L::load(block.add(at))) };
    }
}

/// What a cast reads and writes: the bytes of `len` elements of each type, and where results go.
pub(crate) struct Task<'a> {
    pub(crate) src: &'a [u8],
    pub(crate) dst: &'a mut [u8],
    pub(crate) len: usize,
    pub(crate) hint: StoreHint,
}

/// Calls `step` with the source and the target of as many elements as a vector has bytes, until all `len` are cast.
///
/// Where results are to pass the caches by, steps write to a block in the nearest cache, and from there whole lines are
/// stored, a few at a time: the processor has few buffers for such stores, and the next step runs while they wait.
///
/// # Safety
/// The processor has the instructions of `L`. `src` and `dst` have the bytes of `len` elements of `S` and `D`. `step`
/// may be called with pointers to a step's bytes of each, and writes all of the target's.
#[inline(always)]
pub(crate) unsafe fn steps<L: Lanes, S: Element, D: Element>(task: Task<'_>, step: impl Fn(*const u8, *mut u8)) {
    let Task { src, dst, len, hint } = task;
    let (src_step, dst_step) = (step_bytes::<L>(const { bits::<S>() }), step_bytes::<L>(const { bits::<D>() }));
    // Steps until their results fill whole lines.
    let steps_of_lines = LINE / LINE.min(1 << dst_step.trailing_zeros());
    let head = if L::STREAMS && hint == StoreHint::NonTemporal { elements_before_line::<S, D>(dst) } else { None };
    let line_step = steps_of_lines * L::BYTES;
    // What is cast into the caches next, and what comes after that.
    let mut near = head.unwrap_or(len).min(len);
    let mut rest = len - near;
    let (mut from, mut to) = (src.as_ptr(), dst.as_mut_ptr());
    let (mut source, mut target) = (Block(MaybeUninit::uninit()), Block(MaybeUninit::uninit()));
    let (source, target) = (source.0.as_mut_ptr().cast::<u8>(), target.0.as_mut_ptr().cast::<u8>());
    // SAFETY: `from` and `to` advance by the bytes of the elements that were cast, and a step is given the tensors' own
    // bytes only where as many elements are left; else blocks, which are larger than any step's bytes. Streamed steps
    // begin at a line, and a vector divides it.
    unsafe {
        while near + rest > 0 {
            while near >= L::BYTES {
                step(from, to);
                (from, to, near) = (from.add(src_step), to.add(dst_step), near - L::BYTES);
            }
            // Steps that write to a block: a short one, or as many as fill lines. Each call is a copy in machine code.
            let is_short = near > 0;
            if !is_short && rest < line_step {
                (near, rest) = (rest, 0);
                continue;
            }
            let (steps, count) = if is_short { (1, near) } else { (steps_of_lines, L::BYTES) };
            for place in 0..steps {
                let step_from = if is_short {
                    L::copy_padded(from, source, byte_len::<S>(count), src_step);
                    source.cast_const()
                } else {
                    fetch::<L, S, D>(from);
                    from
                };
                step(step_from, target.add(place * dst_step));
                from = from.add(byte_len::<S>(count));
            }
            let written = steps * byte_len::<D>(count);
            if is_short {
                L::copy_few(target, to, written);
                near = 0;
            } else {
                stream::<L>(target, to, written);
                rest -= line_step;
            }
            to = to.add(written);
        }
        if head.is_some() {
            L::fence();
        }
    }
    if const { bits::<D>() < 8 } {
        // The source's own padding may hold anything.
        clear_padding(D::DATA_TYPE, len, dst);
    }
}

/// The four quarters of a step, each by its place. (Not `array::from_fn`, which the compiler does not always inline.)
#[rustfmt::skip]
macro_rules! parts {
    ($i:ident => $value:expr) => {
        [{ let $i = 0; $value }, { let $i = 1; $value }, { let $i = 2; $value }, { let $i = 3; $value }]
    };
}
pub(super) use parts;

/// The same step for both of two vectors.
#[rustfmt::skip]
macro_rules! both {
    ($pair:expr, $one:ident => $value:expr) => {{
        let [a, b] = $pair;
        [{ let $one = a; $value }, { let $one = b; $value }]
    }};
}
pub(super) use both;
