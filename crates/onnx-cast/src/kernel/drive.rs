//! A kernel over a whole tensor: split over threads, and, where the output is larger than the caches, cast piece by
//! piece into a scratch block from which non-temporal stores stream it out.
//!
//! A non-temporal store does not read the line it overwrites, which an ordinary one must; but it wants whole aligned
//! lines, one after the other, and a kernel that does not write so. So kernels store plainly into a few KiB that stay in
//! the nearest cache, and one routine per instruction set streams.

use super::Kernel;
use crate::arch::{Backend, with_default_float_environment};
use crate::element::DataType;
use crate::scalar::{RoundMode, Rules};

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

/// Bytes read and written for which another thread is worth waking: measured with two threads, a cast of 1 MiB takes
/// about 10 microseconds alone, of which waking the other costs up to half.
#[cfg(feature = "threads")]
const THREAD_BYTES: usize = 1 << 20;

/// A cast between two types of whole or packed bytes, resolved: what to call, how to stream, on how many threads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job {
    /// What casts; `None` copies.
    kernel: Option<Kernel>,
    stream: Option<Stream>,
    rules: Rules,
    from_bits: usize,
    to_bits: usize,
    #[cfg_attr(not(feature = "threads"), expect(dead_code, reason = "there is only the caller's thread"))]
    threads: Option<usize>,
}

impl Job {
    /// The cast between two types other than string. The same type (but for bool, whose bytes other than 0 and 1 have
    /// to be read), and types that no kernel takes, are copied.
    pub(crate) fn cast(from: DataType, to: DataType, rules: Rules, backend: Backend, threads: Option<usize>) -> Job {
        let same = from == to && from != DataType::Bool;
        let kernel = if same { None } else { backend.table().get(from, to) };
        let (from_bits, to_bits) = (from.info().bits as usize, to.info().bits as usize);
        Job { kernel, stream: backend.stream(), rules, from_bits, to_bits, threads }
    }

    /// The bytes as they are.
    pub(crate) fn copy(data_type: DataType, backend: Backend) -> Job {
        let rules = Rules::new(data_type, 1, true, RoundMode::Up);
        let bits = data_type.info().bits as usize;
        Job { kernel: None, stream: backend.stream(), rules, from_bits: bits, to_bits: bits, threads: None }
    }

    /// Whether the bytes stay as they are.
    pub(crate) fn copies(&self) -> bool {
        self.kernel.is_none()
    }

    /// Casts `len` elements, whose bytes are all of `src` and `dst`.
    pub(crate) fn run(&self, src: &[u8], dst: &mut [u8], len: usize) {
        debug_assert_eq!(src.len(), (len * self.from_bits).div_ceil(8));
        debug_assert_eq!(dst.len(), (len * self.to_bits).div_ceil(8));
        let touched = src.len().saturating_add(dst.len());
        let stream = self.stream.filter(|_| touched >= STREAM_BYTES);
        #[cfg(feature = "threads")]
        if touched >= 2 * THREAD_BYTES && self.threads != Some(1) {
            let threads = rayon::current_num_threads();
            let parts = self.threads.map_or(threads, |most| most.min(threads)).min(touched / THREAD_BYTES);
            return self.split(stream, src, dst, len, parts);
        }
        self.run_part(stream, src, dst, len);
    }

    /// Halves the tensor until there are as many parts as wanted, each on whichever thread of the pool is free.
    #[cfg(feature = "threads")]
    fn split(&self, stream: Option<Stream>, src: &[u8], dst: &mut [u8], len: usize, parts: usize) {
        if parts < 2 {
            return self.run_part(stream, src, dst, len);
        }
        let low = (len / parts * (parts / 2)).next_multiple_of(GRAIN).min(len);
        let (src_low, src_high) = src.split_at((low * self.from_bits).div_ceil(8));
        let (dst_low, dst_high) = dst.split_at_mut((low * self.to_bits).div_ceil(8));
        rayon::join(
            || self.split(stream, src_low, dst_low, low, parts / 2),
            || self.split(stream, src_high, dst_high, len - low, parts - parts / 2),
        );
    }

    fn run_part(&self, stream: Option<Stream>, src: &[u8], dst: &mut [u8], len: usize) {
        with_default_float_environment(|| match stream {
            Some(stream) => self.run_streamed(stream, src, dst, len),
            None => self.call(src, dst, len),
        });
    }

    fn call(&self, src: &[u8], dst: &mut [u8], len: usize) {
        match self.kernel {
            // SAFETY: the kernel is from the table of a backend, and `Backend` values are only made of rows that are
            // available here; the lengths are those of `len` elements.
            Some(kernel) => unsafe { kernel(src, dst, len, &self.rules) },
            None => dst.copy_from_slice(src),
        }
    }

    fn run_streamed(&self, stream: Stream, mut src: &[u8], mut dst: &mut [u8], mut len: usize) {
        #[repr(align(64))]
        struct Scratch([u8; SCRATCH]);
        let mut scratch = Scratch([0; SCRATCH]);
        let piece = (SCRATCH * 8 / self.to_bits).min(SOURCE * 8 / self.from_bits) / GRAIN * GRAIN;
        // complex128 is wider than the scratch block has room for 256 of, but is only ever copied.
        let piece = piece.max(GRAIN);
        while len > 0 {
            let piece = piece.min(len);
            let (from, from_rest) = src.split_at((piece * self.from_bits).div_ceil(8));
            let (to, to_rest) = std::mem::take(&mut dst).split_at_mut((piece * self.to_bits).div_ceil(8));
            let ahead = src.get(AHEAD..AHEAD + from.len()).unwrap_or_default();
            let ready = if self.kernel.is_some() {
                let block = &mut scratch.0[..to.len()];
                self.call(from, block, piece);
                block
            } else {
                from
            };
            // SAFETY: the stream is of a backend that is available here.
            unsafe { stream(ready, to, ahead) };
            (src, dst, len) = (from_rest, to_rest, len - piece);
        }
    }
}
