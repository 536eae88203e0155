//! The walk over a tensor in steps. What does not fill a step goes through the same step on a copy, so that there is no
//! second formula for the ends.

use crate::element::{Element, byte_len_of};
use crate::kernel::StoreHint;
pub(crate) use crate::kernel::Task;
use crate::kernel::lanes::{Lanes, step_bytes};
use crate::kernel::scale::PendingLine;
use crate::packed::{bits, clear_padding};
use core::hint::black_box;
use core::mem::MaybeUninit;
use core::slice;

/// Bytes of a cache line.
const LINE: usize = 64;

/// How far ahead the source of a cast is fetched. The processor's own prefetching stops at the end of a page; this is
/// two pages on. On a Xeon of family 6, model 207, four to sixteen KiB differ by less than runs do.
const AHEAD: usize = 8 << 10;

/// Prefetch distance for scaled casts. If the cast also finds the scales, a part of 16 KiB of floats has already been
/// read for its largest magnitudes, so a shorter distance would fetch nothing new.
pub(super) const AHEAD_OF_SCALED: usize = 16 << 10;

/// Bytes of the widest step of any backend: 64 elements of 64 bits.
const MOST_BYTES: usize = 64 * 8;

/// What steps read or write where that is not the tensor itself, and a line before it.
#[repr(align(64))]
struct Block(MaybeUninit<[u8; LINE + MOST_BYTES]>);

/// The types of a cast as the walk sees them: constants in kernels of one pair.
#[derive(Clone, Copy)]
pub(super) struct Widths {
    /// Bits of an element of the source and of the target.
    pub(super) bits: [usize; 2],
    /// Whether a step computes so much that memory should not wait for it.
    pub(super) computes: bool,
    /// How many bytes ahead the source is then fetched.
    pub(super) ahead: usize,
    /// Steps begin at multiples of so many elements.
    pub(super) chunk: usize,
}

/// How many elements are cast into the caches before lines are stored past them: those before the first whole line of
/// `dst` if a step can begin there, else none; all if the others do not fill lines. (One function for all kernels: it
/// runs once in a cast of many elements.)
#[inline(never)]
fn elements_before_lines(dst: *const u8, len: usize, widths: Widths, line_step: usize) -> usize {
    let [src_bits, dst_bits] = widths.bits;
    // Not `align_offset`, which may also say that it does not know.
    let bits_before = dst.addr().wrapping_neg() % LINE * 8;
    let count = bits_before / dst_bits;
    let can_begin = bits_before.is_multiple_of(dst_bits) && (count * src_bits).is_multiple_of(8);
    let before = if can_begin && count.is_multiple_of(widths.chunk) { count } else { 0 };
    if len >= before + line_step { before } else { len }
}

/// Asks for lines of the source to be brought near, in a cast whose results pass the caches by.
///
/// From 64 bits, a step's own lines are asked for in the order in which they lie: the processor's prefetching has to
/// see lines in order, and the compiler loads those of a wide step in any. And lines ahead are, so that memory does not
/// wait while a step computes; but for such steps that compute little, whose many loads keep enough requests open.
#[inline(always)]
unsafe fn fetch<L: Lanes>(src: *const u8, Widths { bits, computes, ahead, .. }: Widths) {
    let is_wide = bits[0] > 32;
    for line in (0..step_bytes::<L>(bits[0])).step_by(LINE) {
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
    // SAFETY: the caller's: the results are whole lines, a line before them can be written too, and `to` has the bytes
    // that are stored. Streamed vectors are aligned: `to` begins a line, or does after the rest of the first.
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

/// Casts a tensor: calls `step` with the source and the target of as many elements as a vector has bytes, until all are
/// cast, and zeroes the padding of the last byte.
///
/// # Safety
/// As [`walk`], for elements of `S` and `D`.
#[inline(always)]
pub(crate) unsafe fn steps<L: Lanes, S: Element, D: Element>(task: Task<'_>, step: impl Fn(*const u8, *mut u8)) {
    let widths = const {
        let bits = [bits::<S>(), bits::<D>()];
        Widths {
            bits,
            computes: bits[1] <= 16 && (S::DATA_TYPE.is_float() || D::DATA_TYPE.is_float()),
            ahead: AHEAD,
            chunk: 1,
        }
    };
    // SAFETY: the caller promises that the task has the bytes of its elements and that `step` writes all of its
    // results; so the walk writes all bytes of the target.
    unsafe {
        walk::<L>(
            task,
            widths,
            None,
            #[inline(always)]
            |src, dst, _| step(src, dst),
        );
        if L::STREAMS && task.hint == StoreHint::NonTemporal {
            L::fence();
        }
        if const { bits::<D>() < 8 } {
            // The source's own padding may hold anything.
            let bytes = byte_len_of(task.len, bits::<D>());
            clear_padding(D::DATA_TYPE, task.len, slice::from_raw_parts_mut(task.dst, bytes));
        }
    }
}

/// Returns the number of elements that a walk first casts into the caches, the number of bytes in the line before the
/// results that fill it, and the address of that line if the previous tile left these bytes pending. The pending bytes
/// are then in front of the results in the block.
///
/// # Safety
/// The processor has the instructions of `L`. A line of the block can be written, and the whole target of a walk.
#[inline(always)]
unsafe fn begin<L: Lanes>(
    Task { dst, len, hint, .. }: Task<'_>,
    widths: Widths,
    line_step: usize,
    over: Option<&mut PendingLine>,
    block: *mut u8,
) -> (usize, usize, Option<*mut u8>) {
    if !L::STREAMS || hint == StoreHint::Temporal {
        return (len, 0, None);
    }
    // SAFETY: the caller promises that a line of the block and the target can be written; a prefetch is a hint and
    // accepts any address.
    unsafe {
        let Some(over) = over else {
            let near = elements_before_lines(dst, len, widths, line_step);
            if near < len {
                // The line in which results end is stored through the caches. Until it is in them, later stores would
                // wait.
                L::prefetch(dst.wrapping_add(byte_len_of(len, widths.bits[1])));
            }
            return (near, (dst.addr() + byte_len_of(near, widths.bits[1])) % LINE, None);
        };
        // A line between two tiles is stored whole, so that steps need not begin with one.
        let near = if len >= line_step { 0 } else { len };
        let line = over.line_before(dst).filter(|_| near == 0);
        if line.is_some() {
            over.restore(block)
        } else {
            over.flush()
        }
        (near, dst.addr() % LINE, line)
    }
}

/// Calls `step` with the source and the target of a step's elements, and the place of the first, until all are cast.
///
/// Where results are to pass the caches by, steps write to a block in the nearest cache, and from there whole lines are
/// stored, a few at a time: the processor has few buffers for such stores, and the next step runs while they wait.
/// Results that do not fill a line are kept in front of those of the next steps, and in `over` for the next tile.
/// [`Lanes::fence`] orders the stores.
///
/// # Safety
/// The processor has the instructions of `L`. `src` and `dst` have the bytes of `len` elements of these widths. `step`
/// may be called with pointers to a step's bytes of each, and writes all of the target's.
#[inline(always)]
pub(super) unsafe fn walk<L: Lanes>(
    task: Task<'_>,
    widths: Widths,
    over: Option<&mut PendingLine>,
    step: impl Fn(*const u8, *mut u8, usize),
) {
    let Task { src, dst, len, hint } = task;
    let bits = widths.bits;
    let [src_step, dst_step] = [step_bytes::<L>(bits[0]), step_bytes::<L>(bits[1])];
    // Steps until their results fill whole lines.
    let steps_of_lines = LINE / LINE.min(1 << dst_step.trailing_zeros());
    let line_step = steps_of_lines * L::BYTES;
    let mut over = over.filter(|_| L::STREAMS && hint == StoreHint::NonTemporal);
    let (mut source, mut target) = (Block(MaybeUninit::uninit()), Block(MaybeUninit::uninit()));
    let (source, target) = (source.0.as_mut_ptr().cast::<u8>(), target.0.as_mut_ptr().cast::<u8>());
    let results = target.wrapping_add(LINE);
    // SAFETY: a line stands before the results of the block.
    let (mut near, pending, line) = unsafe { begin::<L>(task, widths, line_step, over.as_deref_mut(), target) };
    // What is cast past the caches, after the elements that are near.
    let mut rest = len - near;
    let mut begins = pending > 0 && line.is_none();
    let mut place = 0;
    let (mut from, mut to) = (src.as_ptr(), line.unwrap_or(dst));
    // SAFETY: `from` and `to` advance by the bytes of the elements that were cast, and a step is given the tensors' own
    // bytes only where as many elements are left; else blocks, which hold any step's bytes. `pending` is below a line,
    // and a line stands before the results.
    unsafe {
        loop {
            while near >= L::BYTES {
                step(from, to, place);
                (from, to, near) = (from.add(src_step), to.add(dst_step), near - L::BYTES);
                place += L::BYTES;
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
                    fetch::<L>(from, widths);
                    from
                };
                step(step_from, results.add(i * dst_step), place);
                let (bytes, count) = if is_short { (byte_len_of(near, bits[0]), near) } else { (src_step, L::BYTES) };
                (from, place) = (from.add(bytes), place + count);
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

#[cfg(all(test, any(optimized, miri)))]
mod tests {
    use super::*;
    use crate::arch::plain::Plain;

    /// Bytes beside the target.
    const BESIDE: usize = LINE;

    /// Walks over tiles that end at `ends`, with steps that copy elements of `bits` bits, into memory that nothing has
    /// written, `at` bytes into a line. The result must be the source, and the bytes beside it must stay.
    fn check<L: Lanes>(source: &[u8], bits: usize, at: usize, ends: &[usize], holds: bool) {
        let bytes = |len| byte_len_of(len, bits);
        let source = &source[..bytes(ends.last().copied().unwrap_or(0))];
        let mut memory = Vec::<MaybeUninit<u8>>::with_capacity(source.len() + 3 * BESIDE);
        // SAFETY: the elements need not be initialised.
        unsafe { memory.set_len(source.len() + 3 * BESIDE) };
        let start = memory.as_ptr().addr().wrapping_neg() % LINE + at;
        let target = start..start + source.len();
        memory[..target.start].fill(MaybeUninit::new(0x5a));
        memory[target.end..].fill(MaybeUninit::new(0x5a));
        let dst = memory.as_mut_ptr().cast::<u8>().wrapping_add(target.start);
        let mut pending = PendingLine::new(dst);
        let widths = Widths { bits: [bits; 2], computes: true, ahead: AHEAD, chunk: 1 };
        let mut begin = 0;
        for &end in ends {
            let (src, dst) = (&source[bytes(begin)..bytes(end)], dst.wrapping_add(bytes(begin)));
            let task = Task { src, dst, len: end - begin, hint: StoreHint::NonTemporal };
            // SAFETY: every machine runs the lanes, and the target has the bytes of all tiles.
            unsafe {
                walk::<L>(task, widths, holds.then_some(&mut pending), |src, dst, _| {
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
        let mut beside = memory[..target.start].iter().chain(&memory[target.end..]);
        assert!(beside.all(|byte| *byte == 0x5a), "{}: bytes beside the result", what());
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
