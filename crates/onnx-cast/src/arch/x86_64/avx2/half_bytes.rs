//! Between types of 4 and 2 bits: half a byte, which is one element or two, is looked up as it is.

use super::lanes::*;
use super::steps;
use crate::kernel::Store;
use core::arch::x86_64::*;

/// Both halves of each byte.
#[inline]
#[target_feature(enable = "avx2")]
fn halves(value: __m256i) -> (__m256i, __m256i) {
    let half = _mm256_set1_epi8(15);
    (_mm256_and_si256(value, half), _mm256_and_si256(_mm256_srli_epi16::<4>(value), half))
}

/// As many bits on both sides; `entries` are those of half a byte.
#[target_feature(enable = "avx2,f16c,fma")]
pub(super) fn to_half_bytes(src: &[u8], dst: &mut [u8], how: Store, entries: &[u8]) {
    let entry: [u8; 16] = std::array::from_fn(|half| entries[half] & 15);
    let table = twice(&entry);
    // SAFETY: `steps` hands out pointers to 32 bytes.
    steps::<u8, u8>(src, dst, src.len(), how, |src, dst| unsafe {
        let (low, high) = halves(load(src));
        let (low, high) = (_mm256_shuffle_epi8(table, low), _mm256_shuffle_epi8(table, high));
        store(dst, _mm256_or_si256(low, _mm256_slli_epi16::<4>(high)));
    });
}

/// From 2 bits to 4: half a byte becomes a byte. `entries` are those of an element. What the source's padding becomes
/// is left in the target's.
#[target_feature(enable = "avx2,f16c,fma")]
pub(super) fn to_bytes(src: &[u8], dst: &mut [u8], how: Store, entries: &[u8]) {
    let entry: [u8; 16] = std::array::from_fn(|half| entries[half & 3] | entries[half >> 2] << 4);
    let table = twice(&entry);
    let whole = dst.len() / 2;
    let (dst, rest) = dst.split_at_mut(2 * whole);
    if let [rest] = rest {
        *rest = entry[usize::from(src[whole] & 15)];
    }
    // SAFETY: `steps` hands out pointers to 32 bytes and to twice as many.
    steps::<u8, u16>(&src[..whole], dst, whole, how, |src, dst| unsafe {
        // Interleaving takes from two vectors half by half.
        let (low, high) = halves(in_order_of_halves(load(src)));
        let (low, high) = (_mm256_shuffle_epi8(table, low), _mm256_shuffle_epi8(table, high));
        store(dst, _mm256_unpacklo_epi8(low, high));
        store(dst.add(32), _mm256_unpackhi_epi8(low, high));
    });
}

/// From 4 bits to 2: a byte becomes half of one. `entries` are those of an element. What the source's padding becomes is
/// left in the target's.
#[target_feature(enable = "avx2,f16c,fma")]
pub(super) fn of_bytes(src: &[u8], dst: &mut [u8], how: Store, entries: &[u8]) {
    let (low, high): ([u8; 16], [u8; 16]) =
        (std::array::from_fn(|half| entries[half] & 3), std::array::from_fn(|half| (entries[half] & 3) << 2));
    let half_byte = |byte: u8| low[usize::from(byte & 15)] | high[usize::from(byte >> 4)];
    let whole = src.len() / 2;
    let (src, src_rest) = src.split_at(2 * whole);
    let (dst, dst_rest) = dst.split_at_mut(whole);
    if let ([from], [to]) = (src_rest, dst_rest) {
        *to = half_byte(*from);
    }
    let (low, high) = (twice(&low), twice(&high));
    // SAFETY: `steps` hands out pointers to 64 bytes and to half as many.
    steps::<u16, u8>(src, dst, whole, how, |src, dst| unsafe {
        let part = |src| {
            let (first, second) = halves(load(src));
            let codes = _mm256_or_si256(_mm256_shuffle_epi8(low, first), _mm256_shuffle_epi8(high, second));
            _mm256_maddubs_epi16(codes, _mm256_set1_epi16(0x1001))
        };
        store(dst, in_order_of_halves(_mm256_packus_epi16(part(src), part(src.add(32)))));
    });
}
