//! Loads, stores, packing and unpacking of 32 elements. Nothing here knows what an element means.

use core::arch::x86_64::*;

/// Loads 32 bytes.
///
/// # Safety
/// They can be read.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn load(src: *const u8) -> __m256i {
    // SAFETY: the caller's promise; no alignment is asked for.
    unsafe { _mm256_loadu_si256(src.cast()) }
}

/// Loads 16 bytes.
///
/// # Safety
/// They can be read.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn load_half(src: *const u8) -> __m128i {
    // SAFETY: the caller's promise; no alignment is asked for.
    unsafe { _mm_loadu_si128(src.cast()) }
}

/// Loads 8 bytes; zeros stand above them.
///
/// # Safety
/// They can be read.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn load_quarter(src: *const u8) -> __m128i {
    // SAFETY: the caller's promise; no alignment is asked for.
    unsafe { _mm_loadl_epi64(src.cast()) }
}

/// Loads 4 bytes; zeros stand above them.
///
/// # Safety
/// They can be read.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn load_eighth(src: *const u8) -> __m128i {
    // SAFETY: the caller's promise; no alignment is asked for.
    _mm_cvtsi32_si128(unsafe { src.cast::<i32>().read_unaligned() })
}

/// Stores 32 bytes.
///
/// # Safety
/// They can be written.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn store(dst: *mut u8, value: __m256i) {
    // SAFETY: the caller's promise; no alignment is asked for.
    unsafe { _mm256_storeu_si256(dst.cast(), value) }
}

/// Stores 16 bytes.
///
/// # Safety
/// They can be written.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn store_half(dst: *mut u8, value: __m128i) {
    // SAFETY: the caller's promise; no alignment is asked for.
    unsafe { _mm_storeu_si128(dst.cast(), value) }
}

/// Stores the low 8 bytes.
///
/// # Safety
/// They can be written.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn store_quarter(dst: *mut u8, value: __m128i) {
    // SAFETY: the caller's promise; no alignment is asked for.
    unsafe { _mm_storel_epi64(dst.cast(), value) }
}

/// A vector that has these 16 bytes in both halves: shuffles of bytes look up within each.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn twice(table: &[u8; 16]) -> __m256i {
    // SAFETY: the array is 16 bytes.
    _mm256_broadcastsi128_si256(unsafe { load_half(table.as_ptr()) })
}

/// Two vectors of half the width as one.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn join(low: __m128i, high: __m128i) -> __m256i {
    _mm256_set_m128i(high, low)
}

/// The low double words of 8 quad words, in order.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn low_double_words(a: __m256i, b: __m256i) -> __m256i {
    let words = _mm256_shuffle_ps::<0b10_00_10_00>(_mm256_castsi256_ps(a), _mm256_castsi256_ps(b));
    in_order_of_halves(_mm256_castps_si256(words))
}

/// The high double words of 8 quad words, in order.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn high_double_words(a: __m256i, b: __m256i) -> __m256i {
    let words = _mm256_shuffle_ps::<0b11_01_11_01>(_mm256_castsi256_ps(a), _mm256_castsi256_ps(b));
    in_order_of_halves(_mm256_castps_si256(words))
}

/// Puts in order what an instruction that takes from two vectors half by half has made of them: the first vector's low
/// half, the second's, the first's high half, the second's.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn in_order_of_halves(value: __m256i) -> __m256i {
    _mm256_permute4x64_epi64::<0b11_01_10_00>(value)
}

/// Puts bytes in order that were packed twice half by half, from four vectors of double words.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn in_order_of_quarters(value: __m256i) -> __m256i {
    _mm256_permutevar8x32_epi32(value, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7))
}

/// Stores 32 elements of `bits` bits, 8 or fewer, that stand one in a byte with their upper bits zero.
///
/// # Safety
/// The `4 * bits` bytes can be written.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn store_codes(bits: usize, dst: *mut u8, codes: __m256i) {
    // SAFETY: each arm writes 4 * bits bytes, as promised.
    unsafe {
        match bits {
            2 => {
                let pairs = _mm256_maddubs_epi16(codes, _mm256_set1_epi16(0x0401));
                let fours = _mm256_madd_epi16(pairs, _mm256_set1_epi32(0x0010_0001));
                let low_bytes = twice(&[0, 4, 8, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
                let halves = _mm256_shuffle_epi8(fours, low_bytes);
                let (low, high) = (_mm256_castsi256_si128(halves), _mm256_extracti128_si256::<1>(halves));
                store_quarter(dst, _mm_unpacklo_epi32(low, high));
            }
            4 => {
                let pairs = _mm256_maddubs_epi16(codes, _mm256_set1_epi16(0x1001));
                let (low, high) = (_mm256_castsi256_si128(pairs), _mm256_extracti128_si256::<1>(pairs));
                store_half(dst, _mm_packus_epi16(low, high));
            }
            6 => {
                let pairs = _mm256_maddubs_epi16(codes, _mm256_set1_epi16(0x4001));
                let fours = _mm256_madd_epi16(pairs, _mm256_set1_epi32(0x1000_0001));
                let three_of_four = twice(&[0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, 0, 0, 0, 0]);
                let halves = _mm256_shuffle_epi8(fours, three_of_four);
                let dense = _mm256_permutevar8x32_epi32(halves, _mm256_setr_epi32(0, 1, 2, 4, 5, 6, 0, 0));
                store_half(dst, _mm256_castsi256_si128(dense));
                store_quarter(dst.add(16), _mm256_extracti128_si256::<1>(dense));
            }
            _ => store(dst, codes),
        }
    }
}

/// Loads 32 elements of `bits` bits, 8 or fewer, one to a byte, the upper bits zero.
///
/// # Safety
/// The `4 * bits` bytes can be read.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn load_codes(bits: usize, src: *const u8) -> __m256i {
    // Each byte, or three of them, is first given the word in which its elements are then moved apart.
    // SAFETY: each arm reads 4 * bits bytes, as promised.
    unsafe {
        match bits {
            2 => {
                let fours = _mm256_cvtepu8_epi32(load_quarter(src));
                let pairs = _mm256_or_si256(fours, _mm256_slli_epi32::<12>(fours));
                let codes = _mm256_or_si256(pairs, _mm256_slli_epi32::<6>(pairs));
                _mm256_and_si256(codes, _mm256_set1_epi8(3))
            }
            4 => {
                let pairs = _mm256_cvtepu8_epi16(load_half(src));
                let codes = _mm256_or_si256(pairs, _mm256_slli_epi16::<4>(pairs));
                _mm256_and_si256(codes, _mm256_set1_epi8(15))
            }
            6 => {
                // The upper half is loaded with the bytes before it that are there too.
                let packed = join(load_half(src), load_half(src.add(8)));
                let fours = _mm256_shuffle_epi8(
                    packed,
                    _mm256_setr_epi8(
                        0, 1, 2, -1, 3, 4, 5, -1, 6, 7, 8, -1, 9, 10, 11, -1, //
                        4, 5, 6, -1, 7, 8, 9, -1, 10, 11, 12, -1, 13, 14, 15, -1,
                    ),
                );
                let low = _mm256_and_si256(fours, _mm256_set1_epi32(0x0000_0fff));
                let high = _mm256_and_si256(_mm256_slli_epi32::<4>(fours), _mm256_set1_epi32(0x0fff_0000));
                let pairs = _mm256_or_si256(low, high);
                let low = _mm256_and_si256(pairs, _mm256_set1_epi16(0x003f));
                let high = _mm256_and_si256(_mm256_slli_epi16::<2>(pairs), _mm256_set1_epi16(0x3f00));
                _mm256_or_si256(low, high)
            }
            _ => load(src),
        }
    }
}
