//! Stores past the caches.

use super::super::streaming::{self, LINE};
use super::STEP;
use super::lanes::{load, load_half, load_quarter};
use crate::element::Element;
use crate::packed::byte_len;
use core::arch::x86_64::*;
use core::mem::MaybeUninit;

/// What a step reads or writes, where that is not the tensors themselves.
#[repr(align(64))]
pub(super) struct Block(pub(super) MaybeUninit<[u8; STEP * 8]>);

impl Block {
    /// Fills in the bytes of fewer elements than a step's, and zeros up to `step` bytes. Whole vectors are written, as the
    /// step reads them: it would wait for narrower ones to be in the cache.
    ///
    /// # Safety
    /// `src` is no longer than `step`, nor that than the block.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    pub(super) unsafe fn fill(&mut self, src: &[u8], step: usize) {
        for start in (0..step).step_by(64) {
            let mask = first_bytes(src.len().saturating_sub(start));
            // SAFETY: the mask leaves out what is not in `src`; the block is of whole vectors.
            unsafe {
                let vector = _mm512_maskz_loadu_epi8(mask, src.as_ptr().wrapping_add(start).cast());
                _mm512_storeu_si512(self.0.as_mut_ptr().cast::<u8>().add(start).cast(), vector);
            }
        }
    }

    /// Copies the first bytes of the block.
    ///
    /// # Safety
    /// As many have been written.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    pub(super) unsafe fn copy_to(&self, dst: &mut [u8]) {
        for start in (0..dst.len()).step_by(64) {
            let mask = first_bytes(dst.len() - start);
            // SAFETY: the mask leaves out what is not in `dst`; the block is longer.
            unsafe {
                let vector = _mm512_loadu_si512(self.0.as_ptr().cast::<u8>().add(start).cast());
                _mm512_mask_storeu_epi8(dst.as_mut_ptr().add(start).cast(), mask, vector);
            }
        }
    }
}

/// A mask of as many bytes as a vector has of `len`.
#[inline]
fn first_bytes(len: usize) -> __mmask64 {
    if len >= 64 { __mmask64::MAX } else { (1 << len) - 1 }
}

/// Stores a step's results with non-temporal stores.
///
/// # Safety
/// `block` begins with the bytes of 64 elements of `D`, which can be written at `dst`. That is aligned to 64 bytes, or to the
/// largest power of two that divides them.
#[inline]
#[target_feature(enable = "avx512f,avx512vl")]
pub(super) unsafe fn step<D: Element>(block: &Block, dst: *mut u8) {
    let len = const { byte_len::<D>(STEP) };
    let part = if len.is_multiple_of(64) { 64 } else { 1 << len.trailing_zeros() };
    for start in (0..len).step_by(part) {
        // SAFETY: the part is within the block and the bytes at `dst`, and aligned as they are.
        unsafe {
            let (from, to) = (block.0.as_ptr().cast::<u8>().add(start), dst.add(start));
            match part {
                64 => _mm512_stream_si512(to.cast(), load(from)),
                32 => _mm256_stream_si256(to.cast(), load_half(from)),
                _ => _mm_stream_si128(to.cast(), load_quarter(from)),
            }
        }
    }
}

/// Copies with non-temporal stores, but for the bytes before the first whole line of `dst` and behind the last.
///
/// # Safety
/// The processor has AVX-512F.
#[target_feature(enable = "avx512f")]
pub(crate) unsafe fn copy(src: &[u8], dst: &mut [u8]) {
    let len = dst.len().min(src.len());
    let head = dst.as_ptr().align_offset(LINE).min(len);
    dst[..head].copy_from_slice(&src[..head]);
    let (src, dst) = (&src[head..len], &mut dst[head..len]);
    let (from, from_rest) = src.as_chunks::<LINE>();
    let (to, to_rest) = dst.as_chunks_mut::<LINE>();
    for (from, to) in from.iter().zip(to) {
        streaming::fetch::<u8, u8>(from);
        // SAFETY: both are 64 bytes, and `to` is aligned, because `head` bytes were cut off before it.
        unsafe { _mm512_stream_si512(to.as_mut_ptr().cast(), load(from.as_ptr())) };
    }
    to_rest.copy_from_slice(from_rest);
    streaming::fence();
}
