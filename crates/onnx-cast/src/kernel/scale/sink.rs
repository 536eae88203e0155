//! Results on their way past the caches: steps write to memory in the nearest cache, and whole lines go on from there.

use super::{LINE, MOST_STEP_BYTES, Memory, STEPS};
use crate::kernel::lanes::Lanes;
use core::ptr;

/// Results that are not stored yet, at most a line of them. A line that one part of a tensor ends within is stored with
/// the next part: a store of half a line would read the other half from memory.
pub(crate) struct Sink {
    /// A line, and what steps write.
    memory: Memory<{ 2 * LINE + STEPS * MOST_STEP_BYTES }>,
    /// Bytes that are held, which end where the next result goes.
    held: usize,
}

impl Sink {
    /// One that holds nothing.
    pub(crate) fn new() -> Self {
        Sink { memory: Memory::new(), held: 0 }
    }

    /// Where the results for a place are to be written.
    #[inline(always)]
    pub(crate) fn place(&mut self, dst: *mut u8) -> *mut u8 {
        self.memory.start().wrapping_add(dst as usize % LINE)
    }

    /// Stores the lines that `len` more bytes for a place have filled.
    ///
    /// # Safety
    /// The bytes were written to where [`Sink::place`] said; they, and those that are held before them, can be written
    /// through `dst`, which therefore is not the pointer of a slice that begins there; the processor has the
    /// instructions of `L`.
    #[inline(always)]
    pub(crate) unsafe fn drain<L: Lanes>(&mut self, dst: *mut u8, len: usize) {
        let before = dst as usize % LINE;
        let (memory, lines) = (self.memory.start(), dst.wrapping_sub(before));
        let end = before + len;
        let mut at = 0;
        // SAFETY: the caller's. A line that is streamed is held in full, and a vector lies within it, aligned.
        unsafe {
            if self.held < before && end >= LINE {
                // The line in which the tensor begins.
                let first = before - self.held;
                ptr::copy_nonoverlapping(memory.add(first), lines.wrapping_add(first), LINE - first);
                at = LINE;
            }
            while at + LINE <= end {
                for vector in (at..at + LINE).step_by(L::BYTES) {
                    L::stream(lines.wrapping_add(vector), L::load(memory.add(vector)));
                }
                at += LINE;
            }
            if at == 0 {
                self.held += len;
                return;
            }
            self.held = end - at;
            // Not loads and stores: behind what is held, the line may be uninitialised.
            ptr::copy_nonoverlapping(memory.add(at), memory, LINE);
        }
    }

    /// Stores what is held, whose end is the place `dst`.
    ///
    /// # Safety
    /// As [`Sink::drain`].
    pub(crate) unsafe fn flush(&mut self, dst: *mut u8) {
        let first = (dst as usize % LINE).wrapping_sub(self.held);
        if self.held > 0 {
            // SAFETY: the caller's; what is held lies before `dst`, in one line.
            unsafe {
                ptr::copy_nonoverlapping(self.memory.start().wrapping_add(first), dst.sub(self.held), self.held);
            }
        }
        self.held = 0;
    }
}
