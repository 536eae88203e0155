//! A kernel over a whole tensor: split over threads, and, where the output is larger than the caches, cast piece by
//! piece into a scratch block from which non-temporal stores stream it out.
//!
//! A non-temporal store does not read the line it overwrites, which an ordinary one must; but it wants whole aligned
//! lines, one after the other, and a kernel that does not write so. So kernels store plainly into a few KiB that stay in
//! the nearest cache, and one routine per instruction set streams.

use super::Kernel;
use crate::arch::{Backend, with_default_float_environment};
use crate::element::DataType;
use crate::scalar::Rules;

/// Copies `src` over `dst`, which is as long, past the caches, and asks for the lines of `ahead` to be brought near.
///
/// # Safety
/// The processor has the instructions that the backend is compiled for.
pub(crate) type Stream = unsafe fn(src: &[u8], dst: &mut [u8], ahead: &[u8]);

/// Casts that touch this much are streamed: more than the last cache holds on the machines measured (32 MiB), so the
/// output would not stay, and would push everything else out.
const STREAM_BYTES: usize = 40 << 20;

/// Bytes of the scratch block. Measured on 64 MiB copies: 2 and 4 KiB 61 GB/s, 8 KiB 49, 32 KiB 39; memcpy 50.
const SCRATCH: usize = 2 << 10;

/// Source bytes of a piece at most, where the target is much narrower.
const SOURCE: usize = 4 << 10;

/// How far ahead of a piece the source is fetched: the processor's own prefetching stops at a page's end, and this is
/// two pages on. With it, double to float went from 37 to 56 GB/s.
const AHEAD: usize = 8 << 10;

/// Elements at whose multiples a tensor may be cut: whole bytes of every type, and whole cache lines of those of a byte
/// or more.
const GRAIN: usize = 256;

/// A kernel with what it needs, for one pair of types.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job {
    kernel: Kernel,
    stream: Option<Stream>,
    rules: Rules,
    from_bits: usize,
    to_bits: usize,
}

impl Job {
    /// The cast between two numeric types on a backend; `None` for other types.
    pub(crate) fn new(from: DataType, to: DataType, rules: Rules, backend: Backend) -> Option<Job> {
        let kernel = backend.table().get(from, to)?;
        Some(Job { kernel, stream: backend.stream(), rules, from_bits: from.bits()?, to_bits: to.bits()? })
    }

    /// Casts `len` elements, whose bytes are all of `src` and `dst`.
    pub(crate) fn run(&self, src: &[u8], dst: &mut [u8], len: usize) {
        debug_assert_eq!(src.len(), (len * self.from_bits).div_ceil(8));
        debug_assert_eq!(dst.len(), (len * self.to_bits).div_ceil(8));
        with_default_float_environment(|| match self.stream {
            Some(stream) if src.len() + dst.len() >= STREAM_BYTES => self.run_streamed(stream, src, dst, len),
            _ => self.call(src, dst, len),
        });
    }

    fn call(&self, src: &[u8], dst: &mut [u8], len: usize) {
        // SAFETY: the kernel is from the table of a backend, and `Backend` values are only made of rows that are
        // available here; the lengths are those of `len` elements.
        unsafe { (self.kernel)(src, dst, len, &self.rules) }
    }

    fn run_streamed(&self, stream: Stream, mut src: &[u8], mut dst: &mut [u8], mut len: usize) {
        #[repr(align(64))]
        struct Scratch([u8; SCRATCH]);
        let mut scratch = Scratch([0; SCRATCH]);
        let piece = (SCRATCH * 8 / self.to_bits).min(SOURCE * 8 / self.from_bits) / GRAIN * GRAIN;
        while len > 0 {
            let piece = piece.min(len);
            let (from, from_rest) = src.split_at((piece * self.from_bits).div_ceil(8));
            let (to, to_rest) = std::mem::take(&mut dst).split_at_mut((piece * self.to_bits).div_ceil(8));
            let block = &mut scratch.0[..to.len()];
            let ahead = src.get(AHEAD..AHEAD + from.len()).unwrap_or_default();
            self.call(from, block, piece);
            // SAFETY: as for the kernel, of the same backend; the lengths are equal.
            unsafe { stream(block, to, ahead) };
            (src, dst, len) = (from_rest, to_rest, len - piece);
        }
    }
}
