//! The walk over a tensor in steps. What does not fill a step goes through the same step on a copy, so that there is no
//! second formula for the ends.

use crate::element::{Element, byte_len_of};
use crate::kernel::lanes::{Lanes, step_bytes};
use crate::kernel::scale::PendingLine;
use crate::kernel::{StoreHint, Task};
use crate::packed::{bits, clear_padding, written};
use core::hint::black_box;
use core::mem::MaybeUninit;

/// Bytes of a cache line.
const LINE: usize = 64;

/// How far ahead the source of a cast is fetched. The processor's own prefetching stops at the end of a page; this is
/// two pages on. On a Xeon of family 6, model 207, four to sixteen KiB differ by less than runs do.
const AHEAD: usize = 8 << 10;

/// Prefetch distance for scaled casts. If the cast also finds the scales, a part of 16 KiB of floats has already been
/// read for its largest magnitudes, so a shorter distance would fetch nothing new.
pub(super) const AHEAD_OF_SCALED: usize = 16 << 10;

/// Bytes of the widest step of any backend: 64 elements of 64 bits.
const MAX_STEP_BYTES: usize = 64 * 8;

/// Buffer that replaces the tensor's memory as the source or the target of steps, with a cache line in front of it.
#[repr(align(64))]
struct Block(MaybeUninit<[u8; LINE + MAX_STEP_BYTES]>);

/// Parameters of a walk. In kernels of one pair of types they are constants.
pub(super) struct Walk<'a> {
    /// Bits of an element of the source and of the target.
    pub(super) bits: [usize; 2],
    /// Whether a step computes so much that memory should not wait for it.
    pub(super) computes: bool,
    /// Prefetch distance in bytes for such steps.
    pub(super) ahead: usize,
    /// Every step begins at a multiple of this many elements.
    pub(super) chunk: usize,
    /// Results of the previous tile that do not fill a cache line, if the walk is over a tile.
    pub(super) pending: Option<&'a mut PendingLine>,
}

impl Walk<'_> {
    /// The parameters of a cast from `S` to `D`.
    #[inline(always)]
    pub(super) fn of<S: Element, D: Element>() -> Self {
        let widths = const { [bits::<S>(), bits::<D>()] };
        let computes = const { bits::<D>() <= 16 && (S::DATA_TYPE.is_float() || D::DATA_TYPE.is_float()) };
        Walk { bits: widths, computes, ahead: AHEAD, chunk: 1, pending: None }
    }
}

/// Number of elements to store normally before the first cache-line boundary of `dst`: 0 if no step can begin at that
/// boundary, and all elements if the rest does not fill lines. It is one function for all kernels because it runs once
/// in a cast of many elements. Its arguments are plain values, or every kernel would store them in memory first.
#[inline(never)]
fn elements_before_lines(
    dst: *const u8,
    len: usize,
    src_bits: usize,
    dst_bits: usize,
    chunk: usize,
    line_step: usize,
) -> usize {
    // Not `align_offset`, which may also say that it does not know.
    let bits_before = dst.addr().wrapping_neg() % LINE * 8;
    let count = bits_before / dst_bits;
    let can_begin = bits_before.is_multiple_of(dst_bits) && (count * src_bits).is_multiple_of(8);
    let before = if can_begin && count.is_multiple_of(chunk) { count } else { 0 };
    if len >= before + line_step { before } else { len }
}

/// Prefetches lines of the source in a cast whose results bypass the caches.
///
/// For elements of 64 bits, a step's own lines are prefetched in address order. The hardware prefetcher needs that
/// order, and the compiler loads the lines of a wide step in any order. Lines `ahead` bytes further are prefetched so
/// that memory does not wait while a step computes. Wide steps that compute little do not need this: their many loads
/// keep enough requests open.
#[inline(always)]
unsafe fn fetch<L: Lanes>(src: *const u8, bits: usize, computes: bool, ahead: usize) {
    let is_wide = bits > 32;
    for line in (0..step_bytes::<L>(bits)).step_by(LINE) {
        // SAFETY: a prefetch is a hint and accepts any address.
        unsafe {
            if is_wide {
                L::prefetch(src.wrapping_add(line));
            }
            if !is_wide || computes {
                L::prefetch(src.wrapping_add(ahead + line));
            }
        }
    }
}

/// Stores whole lines past the caches, from `to` on: the `pending` bytes in front of `results`, and then `len` bytes of
/// results. The last `pending` bytes do not fill a line and move to the front of `results`. Returns the address after
/// the last stored line. If `begins`, no results are pending: the target begins `pending` bytes into a line, and the
/// rest of that line is stored through the caches.
#[inline(always)]
unsafe fn store_lines<L: Lanes>(
    results: *mut u8,
    len: usize,
    mut to: *mut u8,
    pending: usize,
    begins: bool,
) -> *mut u8 {
    // SAFETY: `len` is a positive multiple of LINE, `pending` is less than LINE, and the block has a line before
    // `results`. `to` has space for the bytes that are stored. Streamed vectors are aligned: `to` is the start of a
    // line, or becomes one after the first `LINE - pending` bytes.
    unsafe {
        let (mut from, end) = (results.sub(pending), results.add(len - pending));
        if begins {
            L::copy_few(results, to, LINE - pending, LINE);
            (from, to) = (from.add(LINE), to.add(LINE - pending));
        }
        while from < end {
            L::stream(to, L::load(from));
            (from, to) = (from.add(L::BYTES), to.add(L::BYTES));
        }
        if pending > 0 {
            let (last, before) = (results.add(len - LINE), results.sub(LINE));
            (0..LINE).step_by(L::BYTES).for_each(|at| L::store(before.add(at), L::load(last.add(at))));
        }
    }
    to
}

/// Completes a cast to `D`: orders streamed results before later stores, and zeroes the padding of the last byte.
///
/// # Safety
/// The processor has the instructions of `L`, and all elements of the task were cast.
#[inline(always)]
pub(super) unsafe fn finish<L: Lanes, D: Element>(task: &Task<'_>) {
    // SAFETY: the caller promises the instructions, and that every byte of the target was written.
    unsafe {
        if L::STREAMS && task.hint == StoreHint::NonTemporal {
            L::fence();
        }
        if const { bits::<D>() < 8 } {
            // Padding of the source can have any bits.
            clear_padding(D::DATA_TYPE, task.len, written(task.target()));
        }
    }
}

/// Where a walk begins to store lines past the caches.
struct Start {
    /// Number of elements to store normally first.
    near: usize,
    /// Number of bytes of the cache line in front of the results.
    in_line: usize,
    /// The address of that line, if the previous tile left these bytes pending. They are then in front of the results
    /// in the block.
    line: Option<*mut u8>,
}

/// Finds the start of a walk.
///
/// # Safety
/// The processor has the instructions of `L`. A line of the block can be written, and the whole target of a walk.
#[inline(always)]
unsafe fn start<L: Lanes>(
    task: &Task<'_>,
    bits: [usize; 2],
    chunk: usize,
    line_step: usize,
    over: Option<&mut PendingLine>,
    block: *mut u8,
) -> Start {
    let (dst, len, hint) = (task.dst.cast::<u8>(), task.len, task.hint);
    if !L::STREAMS || hint == StoreHint::Temporal {
        return Start { near: len, in_line: 0, line: None };
    }
    // SAFETY: the caller promises that a line of the block and the target can be written; a prefetch is a hint and
    // accepts any address.
    unsafe {
        let Some(over) = over else {
            let near = elements_before_lines(dst, len, bits[0], bits[1], chunk, line_step);
            if near < len {
                // The line in which results end is stored through the caches. Until it is in them, later stores would
                // wait.
                L::prefetch(dst.wrapping_add(byte_len_of(len, bits[1])));
            }
            return Start { near, in_line: (dst.addr() + byte_len_of(near, bits[1])) % LINE, line: None };
        };
        // A line between two tiles is stored whole, so that steps need not begin with one.
        let near = if len >= line_step { 0 } else { len };
        let line = over.line_before(dst).filter(|_| near == 0);
        if line.is_some() {
            over.restore(block)
        } else {
            over.flush()
        }
        Start { near, in_line: dst.addr() % LINE, line }
    }
}

/// Calls `step` with the source and the target of a step's elements, and the index of the first, until all are cast.
///
/// If results bypass the caches, steps write to a block in the L1 cache, and whole lines are stored from there, a few
/// at a time: the processor has few buffers for such stores, and the next step runs while they wait. Results that do
/// not fill a line are kept in front of those of the next steps, and in [`Walk::pending`] for the next tile.
/// [`Lanes::fence`] orders the stores.
///
/// # Safety
/// The processor has the instructions of `L`. Source and target of the task have the bytes of its elements. `step` may
/// be called with pointers to a step's bytes of each, and writes all of the target's.
#[inline(always)]
pub(super) unsafe fn walk<L: Lanes>(
    task: &Task<'_>,
    Walk { bits, computes, ahead, chunk, pending: over }: Walk<'_>,
    step: impl Fn(*const u8, *mut u8, usize),
) {
    let &Task { src, dst, len, hint } = task;
    let dst = dst.cast::<u8>();
    let [src_step, dst_step] = [step_bytes::<L>(bits[0]), step_bytes::<L>(bits[1])];
    // Steps until their results fill whole lines.
    let steps_of_lines = LINE / LINE.min(1 << dst_step.trailing_zeros());
    let line_step = steps_of_lines * L::BYTES;
    let mut over = over.filter(|_| L::STREAMS && hint == StoreHint::NonTemporal);
    let (mut source, mut target) = (Block(MaybeUninit::uninit()), Block(MaybeUninit::uninit()));
    let (source, target) = (source.0.as_mut_ptr().cast::<u8>(), target.0.as_mut_ptr().cast::<u8>());
    let results = target.wrapping_add(LINE);
    // SAFETY: a line stands before the results of the block.
    let start = unsafe { start::<L>(task, bits, chunk, line_step, over.as_deref_mut(), target) };
    let Start { mut near, in_line: pending, line } = start;
    // Number of elements to store past the caches, after the `near` ones.
    let mut rest = len - near;
    let mut begins = pending > 0 && line.is_none();
    let mut index = 0;
    let (mut from, mut to) = (src.as_ptr(), line.unwrap_or(dst));
    // SAFETY: `from` and `to` advance by the bytes of the elements that were cast, and a step is given the tensors' own
    // bytes only where as many elements are left; else blocks, which hold any step's bytes. `pending` is below a line,
    // and a line stands before the results.
    unsafe {
        loop {
            while near >= L::BYTES {
                step(from, to, index);
                (from, to, near) = (from.add(src_step), to.add(dst_step), near - L::BYTES);
                index += L::BYTES;
            }
            // Steps that write to a block: a short one, or as many as fill lines. Each call is a copy in machine code.
            if near == 0 && (!L::STREAMS || rest == 0) {
                return;
            }
            let is_short = !L::STREAMS || near > 0;
            // What only streams need is computed here, and not ahead of every small cast.
            let pending = if is_short { 0 } else { black_box(pending) };
            for i in 0..if is_short { 1 } else { steps_of_lines } {
                let step_from = if is_short {
                    L::copy_padded(from, source, byte_len_of(near, bits[0]), src_step);
                    source.cast_const()
                } else {
                    fetch::<L>(from, bits[0], computes, ahead);
                    from
                };
                step(step_from, results.add(i * dst_step), index);
                let (bytes, count) = if is_short { (byte_len_of(near, bits[0]), near) } else { (src_step, L::BYTES) };
                (from, index) = (from.add(bytes), index + count);
            }
            if is_short {
                let written = byte_len_of(near, bits[1]);
                L::copy_few(results, to, written, dst_step);
                (to, near) = (to.add(written), 0);
            } else {
                to = store_lines::<L>(results, steps_of_lines * dst_step, to, pending, begins);
                (rest, begins) = (rest - line_step, false);
                if rest < line_step {
                    if let (Some(over), 0) = (&mut over, rest) {
                        return over.keep(target, pending, to);
                    }
                    L::copy_few(results.sub(pending), to, pending, LINE);
                    (to, near, rest) = (to.add(pending), rest, 0);
                }
            }
        }
    }
}

/// The four quarters of a step, each from its index. (Not `array::from_fn`, which the compiler does not always inline.)
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

#[cfg(all(test, any(optimized, miri)))]
mod tests {
    use super::*;
    use crate::arch::plain::Plain;

    /// Bytes beside the target.
    const MARGIN: usize = LINE;

    /// Walks over tiles that end at `ends`, with steps that copy elements of `bits` bits, into memory that nothing has
    /// written, `at` bytes into a line. The result must be the source, and the bytes beside it must stay.
    fn check<L: Lanes>(source: &[u8], bits: usize, at: usize, ends: &[usize], holds: bool) {
        let bytes = |len| byte_len_of(len, bits);
        let source = &source[..bytes(ends.last().copied().unwrap_or(0))];
        let mut memory = Vec::<MaybeUninit<u8>>::with_capacity(source.len() + 3 * MARGIN);
        // SAFETY: the elements need not be initialised.
        unsafe { memory.set_len(source.len() + 3 * MARGIN) };
        let start = memory.as_ptr().addr().wrapping_neg() % LINE + at;
        let target = start..start + source.len();
        memory[..target.start].fill(MaybeUninit::new(0x5a));
        memory[target.end..].fill(MaybeUninit::new(0x5a));
        let dst = memory.as_mut_ptr().cast::<u8>().wrapping_add(target.start);
        let mut pending = PendingLine::new(dst);
        let mut begin = 0;
        for &end in ends {
            let src = &source[bytes(begin)..bytes(end)];
            let dst = core::ptr::slice_from_raw_parts_mut(dst.wrapping_add(bytes(begin)).cast(), src.len());
            let task = &Task { src, dst, len: end - begin, hint: StoreHint::NonTemporal };
            // SAFETY: every machine runs the lanes, and the target has the bytes of all tiles.
            unsafe {
                let pending = holds.then_some(&mut pending);
                let parameters = Walk { bits: [bits; 2], computes: true, ahead: AHEAD, chunk: 1, pending };
                walk::<L>(task, parameters, |src, dst, _| {
                    dst.copy_from_nonoverlapping(src, step_bytes::<L>(bits));
                });
            }
            begin = end;
        }
        // SAFETY: the target can be written, and the walks wrote all else of it.
        let memory = unsafe {
            pending.flush();
            crate::packed::written(&mut memory)
        };
        let what = || format!("{bits} bits, {} lanes, {at} bytes in, tiles to {ends:?}, {holds}", L::BYTES);
        assert_eq!(memory[target.clone()], *source, "{}", what());
        let mut outside = memory[..target.start].iter().chain(&memory[target.end..]);
        assert!(outside.all(|byte| *byte == 0x5a), "{}: bytes beside the result", what());
    }

    /// Tests every offset in a cache line, with tiles that leave part of a line pending and with tiles that do not. In
    /// Miri, tests one offset and three widths: packed elements, elements whose steps are not a power of two in bytes,
    /// and elements of whole bytes.
    #[test]
    fn a_walk_writes_its_target_alone_and_reads_what_is_written() {
        for &bits in if cfg!(miri) { &[2, 6, 32][..] } else { &[2, 4, 6, 8, 16, 32, 64] } {
            let source: Vec<u8> = (0..byte_len_of(1280, bits)).map(|i| (i * 7 % 251) as u8).collect();
            for at in if cfg!(miri) { vec![3] } else { (0..LINE).collect() } {
                // Tiles of 256 elements are whole steps that fill lines, after which a line is pending.
                for ends in [&[256, 512, 528, 1003][..], &[8, 16, 1024, 1280], &[512, 1024, 1032], &[3]] {
                    for holds in [false, true] {
                        check::<Plain<16, false>>(&source, bits, at, ends, holds);
                        check::<Plain<64, true>>(&source, bits, at, ends, holds);
                    }
                }
            }
        }
    }
}
