//! Copying past the caches.

use core::arch::x86_64::*;

/// Copies with non-temporal stores, but for the bytes before the first whole line of `dst` and behind the last.
///
/// # Safety
/// The processor has AVX2.
#[target_feature(enable = "avx2")]
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
        let (from, to) = (from.as_ptr().cast::<__m256i>(), to.as_mut_ptr().cast::<__m256i>());
        // SAFETY: both are 64 bytes.
        let (low, high) = unsafe { (_mm256_loadu_si256(from), _mm256_loadu_si256(from.add(1))) };
        // SAFETY: as above, and `to` is aligned, because `head` bytes were cut off before it.
        unsafe { _mm256_stream_si256(to, low) };
        // SAFETY: as above.
        unsafe { _mm256_stream_si256(to.add(1), high) };
    }
    to_rest.copy_from_slice(from_rest);
}
