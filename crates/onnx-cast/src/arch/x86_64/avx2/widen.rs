//! Elements widened to lanes: of `f32` or `f64`, with what those do not hold left in the last bit, or of 32-bit integers.

use super::lanes::*;
use crate::arch::kinds::is_small_float;
use crate::element::{DataType, Element};
use core::arch::x86_64::*;

/// 8 integers of 32 bits or fewer, extended to them; or, of 64 bits, the low ones.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn integer_lanes<S: Element>(src: *const u8) -> __m256i {
    // SAFETY: each arm reads 8 elements.
    unsafe {
        match S::DATA_TYPE {
            DataType::Int8 => _mm256_cvtepi8_epi32(load_quarter(src)),
            DataType::Uint8 => _mm256_cvtepu8_epi32(load_quarter(src)),
            DataType::Bool => _mm256_cvtepu8_epi32(_mm_min_epu8(load_quarter(src), _mm_set1_epi8(1))),
            DataType::Int16 => _mm256_cvtepi16_epi32(load_half(src)),
            DataType::Uint16 => _mm256_cvtepu16_epi32(load_half(src)),
            DataType::Int32 | DataType::Uint32 => load(src),
            _ => low_double_words(load(src), load(src.add(32))),
        }
    }
}

/// 8 elements as floats. What `f32` does not hold (double, integers of 32 and 64 bits) keeps 14 bits or more, the last
/// of which says whether there was more below. Rounding once more to 12 bits or fewer then gives what rounding the
/// value itself would have.
///
/// `SMALL` targets, float16 and narrower, have nothing above 2^16, so an integer may also be cut off at 2^20.
#[inline]
#[target_feature(enable = "avx2,f16c,fma")]
pub(super) unsafe fn float_lanes<S: Element, const SMALL: bool>(src: *const u8) -> __m256 {
    let limit = _mm256_set1_epi32(1 << 20);
    let within = |value| {
        let above = _mm256_max_epi32(value, _mm256_set1_epi32(-(1 << 20)));
        _mm256_cvtepi32_ps(_mm256_min_epi32(above, limit))
    };
    // SAFETY: each arm reads 8 elements.
    unsafe {
        match S::DATA_TYPE {
            DataType::Float => _mm256_castsi256_ps(load(src)),
            DataType::Float16 => _mm256_cvtph_ps(load_half(src)),
            DataType::BFloat16 => _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(load_half(src)))),
            _ if const { is_small_float::<S>() } => float8_lanes::<S>(load_quarter(src)),
            DataType::Int32 if SMALL => within(load(src)),
            DataType::Uint32 if SMALL => _mm256_cvtepi32_ps(_mm256_min_epu32(load(src), limit)),
            DataType::Int32 => {
                let value = load(src);
                let large = _mm256_cmpgt_epi32(_mm256_abs_epi32(value), _mm256_set1_epi32(0xff_ffff));
                // The magnitude of the smallest integer counts as negative; it is a power of two.
                _mm256_cvtepi32_ps(_mm256_blendv_epi8(value, odd_double_words(value), large))
            }
            DataType::Uint32 => {
                let value = load(src);
                let small = _mm256_cmpeq_epi32(_mm256_srli_epi32::<24>(value), _mm256_setzero_si256());
                unsigned_to_float(_mm256_blendv_epi8(odd_double_words(value), value, small))
            }
            DataType::Int64 if SMALL => {
                let (a, b) = (load(src), load(src.add(32)));
                let (low, high) = (low_double_words(a, b), high_double_words(a, b));
                let fits = _mm256_cmpeq_epi32(high, _mm256_srai_epi32::<31>(low));
                let ends = _mm256_xor_si256(_mm256_srai_epi32::<31>(high), _mm256_set1_epi32(i32::MAX));
                within(_mm256_blendv_epi8(ends, low, fits))
            }
            DataType::Uint64 if SMALL => {
                let (a, b) = (load(src), load(src.add(32)));
                let (low, high) = (low_double_words(a, b), high_double_words(a, b));
                let fits = _mm256_cmpeq_epi32(high, _mm256_setzero_si256());
                _mm256_cvtepi32_ps(_mm256_blendv_epi8(limit, _mm256_min_epu32(low, limit), fits))
            }
            DataType::Int64 | DataType::Uint64 => {
                let part = |src| odd_float(odd_double::<S>(load(src)));
                _mm256_set_m128(part(src.add(32)), part(src))
            }
            DataType::Double => {
                let part = |src| odd_float(_mm256_castsi256_pd(load(src)));
                _mm256_set_m128(part(src.add(32)), part(src))
            }
            _ => _mm256_cvtepi32_ps(integer_lanes::<S>(src)),
        }
    }
}

/// 8 floats of 8 bits as `f32`, NaN quiet. What is subnormal is left to the conversion of float16 where that has the
/// format's exponents, because a product with it is slow on some processors.
#[inline]
#[target_feature(enable = "avx2,f16c")]
fn float8_lanes<S: Element>(codes: __m128i) -> __m256 {
    let code = _mm_cvtepu8_epi16(codes);
    let wide = _mm256_cvtepu8_epi32(codes);
    let is_wide = |code: i32| _mm256_cmpeq_epi32(wide, _mm256_set1_epi32(code));
    match S::DATA_TYPE {
        // The upper half of a float16.
        DataType::Float8E5M2 => _mm256_cvtph_ps(_mm_slli_epi16::<8>(code)),
        DataType::Float8E4M3FN | DataType::Float8E4M3FNUZ => {
            // With its fields in float16's places a code means a number that is too small by a power of two.
            let fnuz = matches!(S::DATA_TYPE, DataType::Float8E4M3FNUZ);
            let magnitude = _mm_and_si128(code, _mm_set1_epi16(0x7f));
            let is_nan = if fnuz {
                _mm_cmpeq_epi16(code, _mm_set1_epi16(0x80))
            } else {
                _mm_cmpeq_epi16(magnitude, _mm_set1_epi16(0x7f))
            };
            let number = _mm_blendv_epi8(_mm_slli_epi16::<7>(magnitude), _mm_set1_epi16(0x7e00), is_nan);
            let sign = _mm_and_si128(_mm_slli_epi16::<8>(code), _mm_set1_epi16(i16::MIN));
            let scale = const { if matches!(S::DATA_TYPE, DataType::Float8E4M3FNUZ) { 128.0 } else { 256.0 } };
            _mm256_mul_ps(_mm256_cvtph_ps(_mm_or_si128(number, sign)), _mm256_set1_ps(scale))
        }
        DataType::Float8E5M2FNUZ => {
            // Its largest exponent is that of float16's infinity. A subnormal one gets a leading 1, which is taken off again.
            let magnitude = _mm256_slli_epi32::<21>(_mm256_and_si256(wide, _mm256_set1_epi32(0x7f)));
            let normal = _mm256_add_epi32(magnitude, _mm256_set1_epi32((127 - 16) << 23));
            let smallest = _mm256_set1_epi32(1 << 23);
            let one_more = _mm256_castsi256_ps(_mm256_add_epi32(normal, smallest));
            let one = _mm256_castsi256_ps(_mm256_set1_epi32((127 - 15) << 23));
            let subnormal = _mm256_castps_si256(_mm256_sub_ps(one_more, one));
            let number = _mm256_blendv_epi8(normal, subnormal, _mm256_cmpgt_epi32(smallest, magnitude));
            let number = _mm256_blendv_epi8(number, _mm256_set1_epi32(0x7fc0_0000), is_wide(0x80));
            let sign = _mm256_and_si256(_mm256_slli_epi32::<24>(wide), _mm256_set1_epi32(i32::MIN));
            _mm256_castsi256_ps(_mm256_or_si256(number, sign))
        }
        // float8e8m0: the exponent itself. 2^-127 is a subnormal float.
        _ => {
            let half = _mm256_set1_epi32(1 << 22);
            let power = _mm256_max_epu32(_mm256_slli_epi32::<23>(wide), half);
            _mm256_castsi256_ps(_mm256_or_si256(power, _mm256_and_si256(is_wide(0xff), half)))
        }
    }
}

/// Integers of more than 24 bits cut to 24 bits at least, of which the last is set where anything was lost.
#[inline]
#[target_feature(enable = "avx2")]
fn odd_double_words(value: __m256i) -> __m256i {
    let dropped = _mm256_set1_epi32(0xff);
    let carried = _mm256_add_epi32(_mm256_and_si256(value, dropped), dropped);
    _mm256_andnot_si256(dropped, _mm256_or_si256(value, carried))
}

/// Doubles to floats by way of 14 bits, of which the last is set where anything was lost: those `f32` holds, its
/// subnormals too, as far as they are not below half of bfloat16's smallest.
#[inline]
#[target_feature(enable = "avx2")]
fn odd_float(value: __m256d) -> __m128 {
    let dropped = _mm256_set1_epi64x((1 << 39) - 1);
    let bits = _mm256_castpd_si256(value);
    let carried = _mm256_add_epi64(_mm256_and_si256(bits, dropped), dropped);
    let cut = _mm256_andnot_si256(dropped, _mm256_or_si256(bits, carried));
    _mm256_cvtpd_ps(_mm256_castsi256_pd(cut))
}

/// 4 integers of 64 bits as doubles, rounded to nearest: the high and the low half as the significands of doubles whose
/// last place is 2^32 and 1, so that only their sum is rounded.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn long_to_double<S: Element>(value: __m256i) -> __m256d {
    let unit = _mm256_set1_epi64x(0x4330_0000_0000_0000);
    let low = _mm256_castsi256_pd(_mm256_blend_epi32::<0b1010_1010>(value, unit));
    let high = _mm256_srli_epi64::<32>(value);
    let (high, units) = if matches!(S::DATA_TYPE, DataType::Int64) {
        // 2^84 + 2^63, and with 2^52 what is too much in both together.
        let high = _mm256_xor_si256(high, _mm256_set1_epi64x(0x4530_0000_8000_0000));
        (high, _mm256_set1_epi64x(0x4530_0000_8010_0000))
    } else {
        let high = _mm256_or_si256(high, _mm256_set1_epi64x(0x4530_0000_0000_0000));
        (high, _mm256_set1_epi64x(0x4530_0000_0010_0000))
    };
    _mm256_add_pd(_mm256_sub_pd(_mm256_castsi256_pd(high), _mm256_castsi256_pd(units)), low)
}

/// 4 integers of 64 bits as doubles, rounded to odd.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn odd_double<S: Element>(value: __m256i) -> __m256d {
    let dropped = _mm256_set1_epi64x(0x7ff);
    let carried = _mm256_add_epi64(_mm256_and_si256(value, dropped), dropped);
    let cut = _mm256_andnot_si256(dropped, _mm256_or_si256(value, carried));
    let magnitude = if matches!(S::DATA_TYPE, DataType::Int64) {
        // From -2^52 to 2^52 all bits fit.
        _mm256_add_epi64(value, _mm256_set1_epi64x(1 << 52))
    } else {
        value
    };
    let fits = _mm256_cmpeq_epi64(_mm256_srli_epi64::<53>(magnitude), _mm256_setzero_si256());
    long_to_double::<S>(_mm256_blendv_epi8(cut, value, fits))
}

/// Rounded to nearest: 16 bits of it are exact in floats, and so are those times 2^16, so that only the sum is rounded.
#[inline]
#[target_feature(enable = "avx2,fma")]
pub(super) fn unsigned_to_float(value: __m256i) -> __m256 {
    let high = _mm256_cvtepi32_ps(_mm256_srli_epi32::<16>(value));
    let low = _mm256_cvtepi32_ps(_mm256_blend_epi16::<0b1010_1010>(value, _mm256_setzero_si256()));
    _mm256_fmadd_ps(high, _mm256_set1_ps(65536.0), low)
}
