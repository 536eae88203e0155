//! Loads, stores, packing and unpacking of 64 elements. Nothing here knows what an element means.

use core::arch::x86_64::*;

/// Loads 64 bytes.
///
/// # Safety
/// They can be read.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn load(src: *const u8) -> __m512i {
    // SAFETY: the caller's promise; no alignment is asked for.
    unsafe { _mm512_loadu_si512(src.cast()) }
}

/// Loads 32 bytes.
///
/// # Safety
/// They can be read.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn load_half(src: *const u8) -> __m256i {
    // SAFETY: the caller's promise; no alignment is asked for.
    unsafe { _mm256_loadu_si256(src.cast()) }
}

/// Loads 16 bytes.
///
/// # Safety
/// They can be read.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn load_quarter(src: *const u8) -> __m128i {
    // SAFETY: the caller's promise; no alignment is asked for.
    unsafe { _mm_loadu_si128(src.cast()) }
}

/// Stores 64 bytes.
///
/// # Safety
/// They can be written.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn store(dst: *mut u8, value: __m512i) {
    // SAFETY: the caller's promise; no alignment is asked for.
    unsafe { _mm512_storeu_si512(dst.cast(), value) }
}

/// Stores 32 bytes.
///
/// # Safety
/// They can be written.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn store_half(dst: *mut u8, value: __m256i) {
    // SAFETY: the caller's promise; no alignment is asked for.
    unsafe { _mm256_storeu_si256(dst.cast(), value) }
}

/// Stores 16 bytes.
///
/// # Safety
/// They can be written.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn store_quarter(dst: *mut u8, value: __m128i) {
    // SAFETY: the caller's promise; no alignment is asked for.
    unsafe { _mm_storeu_si128(dst.cast(), value) }
}

/// A vector of bytes from a table.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn bytes(table: &[u8; 64]) -> __m512i {
    // SAFETY: the array is 64 bytes.
    unsafe { load(table.as_ptr()) }
}

/// Every fourth byte of 128: the low bytes of two vectors of double words.
const EVERY_FOURTH: [u8; 64] = {
    let mut table = [0; 64];
    let mut i = 0;
    while i < 64 {
        table[i] = (i * 4 % 128) as u8;
        i += 1;
    }
    table
};

/// Every second of 128 bytes: the low bytes of two vectors of words.
const EVERY_SECOND_BYTE: [u8; 64] = {
    let mut table = [0; 64];
    let mut i = 0;
    while i < 64 {
        table[i] = 2 * i as u8;
        i += 1;
    }
    table
};

/// Three bytes of every four, for the first 48.
const THREE_OF_FOUR: [u8; 64] = {
    let mut table = [0; 64];
    let mut i = 0;
    while i < 48 {
        table[i] = (i / 3 * 4 + i % 3) as u8;
        i += 1;
    }
    table
};

/// Every second of 64 words: the low words of two vectors of double words.
const EVERY_SECOND: [u16; 32] = {
    let mut table = [0; 32];
    let mut i = 0;
    while i < 32 {
        table[i] = 2 * i as u16;
        i += 1;
    }
    table
};

/// Brings each `bits` bytes, which are eight elements, to the start of eight bytes of their own.
const fn spread(bits: usize) -> [u8; 64] {
    let mut table = [0; 64];
    let mut i = 0;
    while i < 64 {
        table[i] = (i / 8 * bits + if i % 8 < bits { i % 8 } else { 0 }) as u8;
        i += 1;
    }
    table
}

/// Where each of eight elements of `bits` bits begins in its eight bytes.
const fn bit_offsets(bits: usize) -> [u8; 64] {
    let mut table = [0; 64];
    let mut i = 0;
    while i < 64 {
        table[i] = (i % 8 * bits) as u8;
        i += 1;
    }
    table
}

/// The low bytes of 64 double words, in order.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
pub(super) fn low_bytes(words: [__m512i; 4]) -> __m512i {
    let index = bytes(&EVERY_FOURTH);
    let first = _mm512_permutex2var_epi8(words[0], index, words[1]);
    let second = _mm512_permutex2var_epi8(words[2], index, words[3]);
    // The index repeats, so the upper half of `second` holds its bytes too.
    _mm512_mask_blend_epi64(0xf0, first, second)
}

/// Puts in order what packing, which takes from two vectors quarter by quarter, has made of them.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn in_order_of_halves(value: __m512i) -> __m512i {
    _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7), value)
}

/// The low words of 32 double words, in order.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn low_words(a: __m512i, b: __m512i) -> __m512i {
    // SAFETY: the array is 64 bytes.
    let index = unsafe { load(EVERY_SECOND.as_ptr().cast()) };
    _mm512_permutex2var_epi16(a, index, b)
}

/// The high words of 32 double words, in order.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn high_words(a: __m512i, b: __m512i) -> __m512i {
    // SAFETY: the array is 64 bytes.
    let index = unsafe { load(EVERY_SECOND.as_ptr().cast()) };
    _mm512_permutex2var_epi16(a, _mm512_or_si512(index, _mm512_set1_epi16(1)), b)
}

/// The low bytes of 64 words, in order.
#[inline]
#[target_feature(enable = "avx512f,avx512vbmi")]
pub(super) fn low_bytes_of_words(a: __m512i, b: __m512i) -> __m512i {
    _mm512_permutex2var_epi8(a, bytes(&EVERY_SECOND_BYTE), b)
}

/// The high bytes of 64 words, in order.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
pub(super) fn high_bytes_of_words(a: __m512i, b: __m512i) -> __m512i {
    let index = _mm512_or_si512(bytes(&EVERY_SECOND_BYTE), _mm512_set1_epi8(1));
    _mm512_permutex2var_epi8(a, index, b)
}

/// The low double words of 16 quad words, in order.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn low_double_words(a: __m512i, b: __m512i) -> __m512i {
    let index = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    _mm512_permutex2var_epi32(a, index, b)
}

/// Two vectors of half the width as one.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
pub(super) fn join(low: __m256i, high: __m256i) -> __m512i {
    _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high)
}

/// Stores 64 elements of `bits` bits, 8 or fewer, that stand one in a byte with their upper bits zero.
///
/// # Safety
/// The `8 * bits` bytes can be written.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi")]
pub(super) unsafe fn store_codes(bits: usize, dst: *mut u8, codes: __m512i) {
    // SAFETY: each arm writes 8 * bits bytes, as promised.
    unsafe {
        match bits {
            2 => {
                let pairs = _mm512_maddubs_epi16(codes, _mm512_set1_epi16(0x0401));
                let fours = _mm512_madd_epi16(pairs, _mm512_set1_epi32(0x0010_0001));
                store_quarter(dst, _mm512_cvtepi32_epi8(fours));
            }
            4 => {
                let pairs = _mm512_maddubs_epi16(codes, _mm512_set1_epi16(0x1001));
                store_half(dst, _mm512_cvtepi16_epi8(pairs));
            }
            6 => {
                let pairs = _mm512_maddubs_epi16(codes, _mm512_set1_epi16(0x4001));
                let fours = _mm512_madd_epi16(pairs, _mm512_set1_epi32(0x1000_0001));
                let dense = _mm512_permutexvar_epi8(bytes(&THREE_OF_FOUR), fours);
                store_half(dst, _mm512_castsi512_si256(dense));
                store_quarter(dst.add(32), _mm512_extracti32x4_epi32::<2>(dense));
            }
            _ => store(dst, codes),
        }
    }
}

/// Loads 64 elements of `bits` bits, 8 or fewer, one to a byte, whose bits above the element's are those of its
/// neighbours.
///
/// # Safety
/// The `8 * bits` bytes can be read.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi")]
pub(super) unsafe fn load_codes(bits: usize, src: *const u8) -> __m512i {
    // SAFETY: each arm reads 8 * bits bytes, as promised.
    let (packed, spread, offsets) = unsafe {
        match bits {
            2 => (_mm512_castsi128_si512(load_quarter(src)), const { &spread(2) }, const { &bit_offsets(2) }),
            4 => (_mm512_castsi256_si512(load_half(src)), const { &spread(4) }, const { &bit_offsets(4) }),
            6 => {
                let low = _mm512_castsi256_si512(load_half(src));
                let packed = _mm512_inserti32x4::<2>(low, load_quarter(src.add(32)));
                (packed, const { &spread(6) }, const { &bit_offsets(6) })
            }
            _ => return load(src),
        }
    };
    // Eight elements are `bits` bytes: those go to eight bytes of their own, which are then cut at the bit offsets.
    _mm512_multishift_epi64_epi8(bytes(offsets), _mm512_permutexvar_epi8(bytes(spread), packed))
}
