//! Copying past the caches.

use super::lanes::load;
use core::arch::x86_64::*;

/// Copies with non-temporal stores, but for the bytes before the first whole line of `dst` and behind the last.
///
/// # Safety
/// The processor has AVX-512F.
#[target_feature(enable = "avx512f")]
pub(crate) unsafe fn stream(src: &[u8], dst: &mut [u8], ahead: &[u8]) {
    const LINE: usize = 64;
    for line in ahead.chunks(LINE) {
        _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast());
    }
    let len = dst.len().min(src.len());
    let head = dst.as_ptr().align_offset(LINE).min(len);
    dst[..head].copy_from_slice(&src[..head]);
    let (src, dst) = (&src[head..len], &mut dst[head..len]);
    let (from, from_rest) = src.as_chunks::<LINE>();
    let (to, to_rest) = dst.as_chunks_mut::<LINE>();
    for (from, to) in from.iter().zip(to) {
        // SAFETY: both are 64 bytes, and `to` is aligned, because `head` bytes were cut off before it.
        unsafe { _mm512_stream_si512(to.as_mut_ptr().cast(), load(from.as_ptr())) };
    }
    to_rest.copy_from_slice(from_rest);
}
