//! Stores past the caches.

use super::super::streaming::{self, LINE};
use super::STEP;
use crate::element::Element;
use crate::packed::byte_len;
use core::arch::x86_64::*;
use core::mem::MaybeUninit;

/// What a step reads or writes, where that is not the tensors themselves.
#[repr(align(32))]
pub(super) struct Block(pub(super) MaybeUninit<[u8; STEP * 8]>);

impl Block {
    /// Fills in the bytes of fewer elements than a step's, and zeros up to `step` bytes: not one more, for a few elements
    /// that would take as long as the cast.
    ///
    /// # Safety
    /// `src` is no longer than `step`, nor that than the block.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn fill(&mut self, src: &[u8], step: usize) {
        let block = self.0.as_mut_ptr().cast::<u8>();
        // SAFETY: the caller's.
        unsafe {
            block.write_bytes(0, step);
            block.copy_from_nonoverlapping(src.as_ptr(), src.len());
        }
    }

    /// Copies the first bytes of the block.
    ///
    /// # Safety
    /// As many have been written.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn copy_to(&self, dst: &mut [u8]) {
        // SAFETY: the caller's.
        unsafe { dst.as_mut_ptr().copy_from_nonoverlapping(self.0.as_ptr().cast(), dst.len()) };
    }
}

/// Stores a step's results with non-temporal stores.
///
/// # Safety
/// `block` begins with the bytes of 32 elements of `D`, which can be written at `dst`. That is aligned to 64 bytes, or to the
/// largest power of two that divides them.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn step<D: Element>(block: &Block, dst: *mut u8) {
    let len = const { byte_len::<D>(STEP) };
    let part = if len.is_multiple_of(32) { 32 } else { 1 << len.trailing_zeros() };
    for start in (0..len).step_by(part) {
        // SAFETY: the part is within the block and the bytes at `dst`, and aligned as they are.
        unsafe {
            let (from, to) = (block.0.as_ptr().cast::<u8>().add(start), dst.add(start));
            match part {
                32 => _mm256_stream_si256(to.cast(), _mm256_loadu_si256(from.cast())),
                16 => _mm_stream_si128(to.cast(), _mm_loadu_si128(from.cast())),
                _ => _mm_stream_si64(to.cast(), from.cast::<i64>().read_unaligned()),
            }
        }
    }
}

/// Copies with non-temporal stores, but for the bytes before the first whole line of `dst` and behind the last.
///
/// # Safety
/// The processor has AVX2.
#[target_feature(enable = "avx2")]
pub(crate) unsafe fn copy(src: &[u8], dst: &mut [u8]) {
    let len = dst.len().min(src.len());
    let head = dst.as_ptr().align_offset(LINE).min(len);
    dst[..head].copy_from_slice(&src[..head]);
    let (src, dst) = (&src[head..len], &mut dst[head..len]);
    let (from, from_rest) = src.as_chunks::<LINE>();
    let (to, to_rest) = dst.as_chunks_mut::<LINE>();
    for (from, to) in from.iter().zip(to) {
        streaming::fetch::<u8, u8>(from);
        let (from, to) = (from.as_ptr().cast::<__m256i>(), to.as_mut_ptr().cast::<__m256i>());
        // SAFETY: both are 64 bytes.
        let (low, high) = unsafe { (_mm256_loadu_si256(from), _mm256_loadu_si256(from.add(1))) };
        // SAFETY: as above, and `to` is aligned, because `head` bytes were cut off before it.
        unsafe { _mm256_stream_si256(to, low) };
        // SAFETY: as above.
        unsafe { _mm256_stream_si256(to.add(1), high) };
    }
    to_rest.copy_from_slice(from_rest);
    streaming::fence();
}
