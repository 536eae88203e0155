//! The last 24 characters of a text in two SSE2 registers.

use super::{MAX_LENGTH, WINDOW};
use core::arch::x86_64::*;

/// The 24 bytes from index `n` on are a mask of the last `n` bytes.
static ENDS: [u8; 2 * MAX_LENGTH] = {
    let mut ends = [0; 2 * MAX_LENGTH];
    let mut i = MAX_LENGTH;
    while i < ends.len() {
        ends[i] = 0xff;
        i += 1;
    }
    ends
};

/// Eight bytes and the sixteen after them.
#[derive(Clone, Copy)]
struct Pair(__m128i, __m128i);

/// As [`super::digits`].
#[inline(always)]
pub(super) fn digits<const POINT: bool>(window: &[u8; WINDOW], length: usize) -> Option<([u64; 3], usize)> {
    // SAFETY: every x86-64 processor has SSE2.
    unsafe { digits_sse2::<POINT>(window, length) }
}

#[target_feature(enable = "sse2")]
#[inline]
fn digits_sse2<const POINT: bool>(window: &[u8; WINDOW], length: usize) -> Option<([u64; 3], usize)> {
    let mut text = load(window, 1)?;
    let (mut count, mut behind) = (length, 0);
    if POINT {
        let point = _mm_set1_epi8(b'.' as i8);
        let points = |half| _mm_movemask_epi8(_mm_cmpeq_epi8(half, point)) as u32;
        // The first of the 24 characters is bit 8 and the last is bit 31; bit 7 means that there is no point.
        let point = (points(text.1) << 16 | points(text.0) << 8 | 0x80).leading_zeros() as usize;
        let has_point = point < length;
        // The characters before the point move up by one, over the point.
        let stay = load(&ENDS, if has_point { point } else { MAX_LENGTH })?;
        let moved = load(window, 0)?;
        let blend = |stay, a, b| _mm_or_si128(_mm_and_si128(stay, a), _mm_andnot_si128(stay, b));
        text = Pair(blend(stay.0, text.0, moved.0), blend(stay.1, text.1, moved.1));
        count -= usize::from(has_point);
        behind = if has_point { point } else { 0 };
    }
    let ends = load(&ENDS, count)?;
    let zero = _mm_set1_epi8(b'0' as i8);
    let high = _mm_and_si128(_mm_sub_epi8(text.0, zero), ends.0);
    let low = _mm_and_si128(_mm_sub_epi8(text.1, zero), ends.1);
    let nine = _mm_set1_epi8(9);
    let largest = _mm_max_epu8(_mm_max_epu8(high, low), nine);
    if count == 0 || _mm_movemask_epi8(_mm_cmpeq_epi8(largest, nine)) != 0xffff {
        return None;
    }
    // Join digits to pairs, fours and eights; the first of a pair is in the lower byte.
    let pairs = |digits| {
        let first = _mm_and_si128(digits, _mm_set1_epi16(0xff));
        _mm_add_epi16(_mm_mullo_epi16(first, _mm_set1_epi16(10)), _mm_srli_epi16(digits, 8))
    };
    let fours = |digits| _mm_madd_epi16(pairs(digits), _mm_set1_epi32(1 << 16 | 100));
    let fours = _mm_packs_epi32(fours(high), fours(low));
    let eights = _mm_madd_epi16(fours, _mm_set1_epi32(1 << 16 | 10_000));
    let high = _mm_cvtsi128_si64(eights) as u64;
    let low = _mm_cvtsi128_si64(_mm_unpackhi_epi64(eights, eights)) as u64;
    Some(([high & 0xffff_ffff, low & 0xffff_ffff, low >> 32], behind))
}

/// The 24 bytes from index `at` on.
#[target_feature(enable = "sse2")]
#[inline]
fn load(bytes: &[u8], at: usize) -> Option<Pair> {
    let (eight, sixteen) = bytes.get(at..at + MAX_LENGTH)?.split_at(8);
    // SAFETY: the slices have the 8 and 16 bytes that are read; the loads need no alignment.
    Some(unsafe { Pair(_mm_loadl_epi64(eight.as_ptr().cast()), _mm_loadu_si128(sixteen.as_ptr().cast())) })
}
