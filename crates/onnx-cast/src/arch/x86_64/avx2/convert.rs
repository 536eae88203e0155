//! Sources of 16 bits or more, and of 8 bits where that is quicker than a table: widened to lanes that hold them, converted
//! there, packed.
//!
//! Targets of 32 bits or fewer are made 8 at a time in double words, those of 64 bits 4 at a time in quad words.
//!
//! What AVX-512 has and this has not: conversions with a rounding of their own (values are cut to fewer bits before,
//! with the last one set where anything was lost, so that the conversion is exact), and conversions of 64-bit and of
//! unsigned integers (put together from halves, or shifted by the exponent).

use super::lanes::*;
use super::small_float::{RuleLanes, small_float_codes};
use super::widen::{float_lanes, integer_lanes, long_to_double, odd_double, unsigned_to_float};
use crate::arch::kinds::{is_integer, is_signed, is_small_float};
use crate::element::{DataType, Element, Kind};
use crate::packed::bits;
use core::arch::x86_64::*;

const NEAREST: i32 = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
const TOWARD_ZERO: i32 = _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC;
const DOWN: i32 = _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC;

/// Casts 32 elements.
///
/// # Safety
/// The bytes of 32 elements of `S` can be read from `src`, those of `D` written to `dst`.
#[inline]
#[target_feature(enable = "avx2,f16c,fma")]
pub(super) unsafe fn step<S: Element, D: Element>(src: *const u8, dst: *mut u8, rules: &RuleLanes) {
    let size = const { bits::<S>() / 8 };
    let (low_bits, signed) = const { (bits::<D>(), is_signed::<D>()) };
    // A float is cut off at the ends of the integers by the packing itself.
    let saturated = const { is_integer::<D>() && !is_integer::<S>() && bits::<D>() >= 8 } && signed;
    // SAFETY: part `i` of 8 elements begins at byte 8 * i * size, of 4 at 4 * i * size; the stores fill 32 elements.
    unsafe {
        if const { bits::<S>() == bits::<D>() && is_integer::<S>() && is_integer::<D>() } {
            for i in 0..size {
                store(dst.add(32 * i), load(src.add(32 * i)));
            }
            return;
        }
        if const { bits::<S>() == 8 && bits::<D>() < 8 } {
            // An integer's low bits.
            let value = load(src);
            let is_bool = const { matches!(S::DATA_TYPE, DataType::Bool) };
            let value = if is_bool { _mm256_min_epu8(value, _mm256_set1_epi8(1)) } else { value };
            let low = _mm256_set1_epi8((1 << low_bits) - 1);
            store_codes(low_bits, dst, _mm256_and_si256(value, low));
            return;
        }
        if const { matches!(D::DATA_TYPE, DataType::Float16) } {
            let half = |src| _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(float_lanes::<S, true>(src));
            for i in 0..2 {
                // Stored together: where the block is read on, a vector's load waits if two stores wrote it.
                let src = src.add(16 * i * size);
                store(dst.add(32 * i), join(half(src), half(src.add(8 * size))));
            }
            return;
        }
        if const { bits::<D>() == 64 } {
            for i in 0..8 {
                store(dst.add(32 * i), quad_words::<S, D>(src.add(4 * i * size)));
            }
            return;
        }
        if const { is_small_float::<D>() } {
            let low = small_float_codes::<S, D>(src, rules);
            let high = small_float_codes::<S, D>(src.add(16 * size), rules);
            let packed = _mm256_packus_epi16(low, high);
            let codes = if const { is_narrow_float::<S>() } {
                in_order_of_halves(packed)
            } else {
                in_order_of_quarters(packed)
            };
            store_codes(low_bits, dst, codes);
            return;
        }
        let words: [__m256i; 4] = [
            double_words::<S, D>(src),
            double_words::<S, D>(src.add(8 * size)),
            double_words::<S, D>(src.add(16 * size)),
            double_words::<S, D>(src.add(24 * size)),
        ];
        if low_bits == 32 {
            words.into_iter().enumerate().for_each(|(i, v)| store(dst.add(32 * i), v));
            return;
        }
        let pack = |low, high| if saturated { _mm256_packs_epi32(low, high) } else { _mm256_packus_epi32(low, high) };
        let (low, high) = (pack(words[0], words[1]), pack(words[2], words[3]));
        if low_bits == 16 {
            store(dst, in_order_of_halves(low));
            store(dst.add(32), in_order_of_halves(high));
            return;
        }
        let codes = if saturated { _mm256_packs_epi16(low, high) } else { _mm256_packus_epi16(low, high) };
        store_codes(low_bits, dst, in_order_of_quarters(codes));
    }
}

/// The float types of 16 bits.
const fn is_narrow_float<T: Element>() -> bool {
    matches!(T::DATA_TYPE, DataType::Float16 | DataType::BFloat16)
}

/// Casts 8 elements to an integer or bool, to `float` or to `bfloat16`, each in the low bits of a double word. Above
/// them is zero, or for an integer from a float, what packing with saturation makes the right end of its range.
#[inline]
#[target_feature(enable = "avx2,f16c,fma")]
unsafe fn double_words<S: Element, D: Element>(src: *const u8) -> __m256i {
    let low_bits =
        _mm256_set1_epi32(const { (u32::MAX >> (32 - if bits::<D>() < 32 { bits::<D>() } else { 32 })) as i32 });
    // SAFETY: 8 elements of S are read.
    unsafe {
        match D::DATA_TYPE.info().kind {
            Kind::Float(_) if matches!(D::DATA_TYPE, DataType::Float) => to_float::<S>(src),
            Kind::Float(_) => to_bfloat16(float_lanes::<S, false>(src)),
            Kind::Bool => to_bool::<S>(src),
            _ if const { is_integer::<S>() || matches!(S::DATA_TYPE, DataType::Bool) } => {
                if const { bits::<D>() == 32 } {
                    return integer_lanes::<S>(src);
                }
                _mm256_and_si256(integer_lanes::<S>(src), low_bits)
            }
            _ => {
                let value = if matches!(S::DATA_TYPE, DataType::Double) {
                    join(double_to_integer::<D>(src), double_to_integer::<D>(src.add(32)))
                } else {
                    float_to_integer::<D>(float_lanes::<S, false>(src))
                };
                if const { bits::<D>() < 8 } { _mm256_and_si256(value, low_bits) } else { value }
            }
        }
    }
}

/// To `float`: rounded to nearest even, once.
#[inline]
#[target_feature(enable = "avx2,f16c,fma")]
unsafe fn to_float<S: Element>(src: *const u8) -> __m256i {
    // SAFETY: each arm reads 8 elements.
    let value = unsafe {
        match S::DATA_TYPE {
            DataType::Int32 => _mm256_cvtepi32_ps(load(src)),
            DataType::Uint32 => unsigned_to_float(load(src)),
            DataType::Int64 | DataType::Uint64 => {
                let part = |src| _mm256_cvtpd_ps(odd_double::<S>(load(src)));
                _mm256_set_m128(part(src.add(32)), part(src))
            }
            DataType::Double => {
                let part = |src| _mm256_cvtpd_ps(_mm256_castsi256_pd(load(src)));
                _mm256_set_m128(part(src.add(32)), part(src))
            }
            DataType::BFloat16 => {
                // A NaN comes out quiet.
                let value = float_lanes::<S, false>(src);
                let quiet = _mm256_and_ps(nan_mask(value), _mm256_castsi256_ps(_mm256_set1_epi32(0x40_0000)));
                _mm256_or_ps(value, quiet)
            }
            _ => float_lanes::<S, false>(src),
        }
    };
    _mm256_castps_si256(value)
}

#[inline]
#[target_feature(enable = "avx2")]
fn nan_mask(value: __m256) -> __m256 {
    _mm256_cmp_ps::<_CMP_UNORD_Q>(value, value)
}

#[inline]
#[target_feature(enable = "avx2")]
fn to_bfloat16(value: __m256) -> __m256i {
    let bits = _mm256_castps_si256(value);
    let odd = _mm256_and_si256(_mm256_srli_epi32::<16>(bits), _mm256_set1_epi32(1));
    let rounded = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
    let quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x40_0000));
    let kept = _mm256_blendv_epi8(rounded, quiet, _mm256_castps_si256(nan_mask(value)));
    _mm256_srli_epi32::<16>(kept)
}

/// 1 where 8 elements are not zero.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn to_bool<S: Element>(src: *const u8) -> __m256i {
    // The sign of a float does not matter, of an integer it does.
    let mask = if const { is_integer::<S>() } { -1 } else { i64::MAX };
    let zero = _mm256_setzero_si256();
    // SAFETY: 8 elements are read.
    let is_zero = unsafe {
        match const { bits::<S>() } {
            16 => {
                let value = _mm256_cvtepu16_epi32(load_half(src));
                _mm256_cmpeq_epi32(_mm256_and_si256(value, _mm256_set1_epi32((mask >> 48) as i32 & 0xffff)), zero)
            }
            32 => _mm256_cmpeq_epi32(_mm256_and_si256(load(src), _mm256_set1_epi32((mask >> 32) as i32)), zero),
            _ => {
                let part = |src| _mm256_cmpeq_epi64(_mm256_and_si256(load(src), _mm256_set1_epi64x(mask)), zero);
                low_double_words(part(src), part(src.add(32)))
            }
        }
    };
    _mm256_add_epi32(is_zero, _mm256_set1_epi32(1))
}

/// The largest value of an integer type of 8 or 16 bits.
const fn largest<D: Element>() -> i32 {
    match D::DATA_TYPE {
        DataType::Int8 => i8::MAX as i32,
        DataType::Int16 => i16::MAX as i32,
        DataType::Uint8 => u8::MAX as i32,
        _ => u16::MAX as i32,
    }
}

/// Toward zero, saturating, NaN to 0; for 4 and 2 bits to nearest even, of which the low bits are kept. For 8 and 16
/// bits the lower end is left to the packing: what is below 32 bits gives their smallest.
#[inline]
#[target_feature(enable = "avx2")]
fn float_to_integer<D: Element>(value: __m256) -> __m256i {
    let number = |value: __m256| _mm256_and_ps(value, _mm256_cmp_ps::<_CMP_ORD_Q>(value, value));
    // The minimum of a number and NaN is the second operand.
    let at_most = |limit: f32, value: __m256| _mm256_min_ps(_mm256_set1_ps(limit), value);
    match (D::DATA_TYPE, const { bits::<D>() }) {
        // Beyond 2^31 a float's low bits are zeros, as are those of the value that an overflow gives.
        (_, 2 | 4) => _mm256_cvtps_epi32(value),
        (DataType::Int32, _) => {
            // An overflow gives the smallest integer, which is right on the negative side.
            let beyond = _mm256_cmp_ps::<_CMP_GE_OQ>(value, _mm256_set1_ps(2147483648.0));
            _mm256_xor_si256(_mm256_cvttps_epi32(number(value)), _mm256_castps_si256(beyond))
        }
        (DataType::Uint32, _) => {
            // The maximum of NaN and zero is the second operand. From 2^31 on the conversion gives 2^31, and what is
            // above that is converted apart.
            let positive = _mm256_max_ps(value, _mm256_setzero_ps());
            let low = _mm256_cvttps_epi32(positive);
            let high = _mm256_cvttps_epi32(_mm256_sub_ps(positive, _mm256_set1_ps(2147483648.0)));
            let beyond = _mm256_cmp_ps::<_CMP_GE_OQ>(value, _mm256_set1_ps(4294967296.0));
            let high = _mm256_and_si256(high, _mm256_srai_epi32::<31>(low));
            _mm256_or_si256(_mm256_or_si256(low, high), _mm256_castps_si256(beyond))
        }
        // NaN gives the smallest integer, which is packed as the lower end: 0.
        (DataType::Uint8 | DataType::Uint16, _) => _mm256_cvttps_epi32(at_most(const { largest::<D>() as f32 }, value)),
        _ => _mm256_cvttps_epi32(number(at_most(const { largest::<D>() as f32 }, value))),
    }
}

/// As [`float_to_integer`], from 4 doubles.
#[inline]
#[target_feature(enable = "avx2,fma")]
unsafe fn double_to_integer<D: Element>(src: *const u8) -> __m128i {
    // SAFETY: 4 doubles are read.
    let value = _mm256_castsi256_pd(unsafe { load(src) });
    let number = |value: __m256d| _mm256_and_pd(value, _mm256_cmp_pd::<_CMP_ORD_Q>(value, value));
    let at_most = |limit: f64, value: __m256d| _mm256_min_pd(_mm256_set1_pd(limit), value);
    match (D::DATA_TYPE, const { bits::<D>() }) {
        (_, 2 | 4) => {
            // The remainder by 16 is exact; that of infinity is NaN, for which the conversion gives zeros below the top.
            let nearest = _mm256_round_pd::<NEAREST>(value);
            let sixteens = _mm256_round_pd::<DOWN>(_mm256_mul_pd(nearest, _mm256_set1_pd(1.0 / 16.0)));
            _mm256_cvttpd_epi32(_mm256_fnmadd_pd(sixteens, _mm256_set1_pd(16.0), nearest))
        }
        (DataType::Int32, _) => _mm256_cvttpd_epi32(number(at_most(2147483647.0, value))),
        (DataType::Uint32, _) => {
            // As a double whose last place is 1: the low half is the integer.
            let positive = _mm256_min_pd(_mm256_max_pd(value, _mm256_setzero_pd()), _mm256_set1_pd(4294967295.0));
            let whole = _mm256_round_pd::<TOWARD_ZERO>(positive);
            let sum = _mm256_castpd_si256(_mm256_add_pd(whole, _mm256_set1_pd(4503599627370496.0)));
            let even = _mm256_permutevar8x32_epi32(sum, _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6));
            _mm256_castsi256_si128(even)
        }
        (DataType::Uint8 | DataType::Uint16, _) => _mm256_cvttpd_epi32(at_most(const { largest::<D>() as f64 }, value)),
        _ => _mm256_cvttpd_epi32(number(at_most(const { largest::<D>() as f64 }, value))),
    }
}

/// 4 doubles to integers of 64 bits: the significand, shifted by the exponent.
#[inline]
#[target_feature(enable = "avx2")]
fn double_to_long<D: Element>(value: __m256d) -> __m256i {
    let signed = matches!(D::DATA_TYPE, DataType::Int64);
    // Without a sign, what is negative or NaN is 0, the second operand.
    let value = if signed { value } else { _mm256_max_pd(value, _mm256_setzero_pd()) };
    let bits = _mm256_castpd_si256(value);
    let magnitude = if signed { _mm256_and_si256(bits, _mm256_set1_epi64x(i64::MAX)) } else { bits };
    let fraction = _mm256_and_si256(bits, _mm256_set1_epi64x((1 << 52) - 1));
    let significand = _mm256_or_si256(fraction, _mm256_set1_epi64x(1 << 52));
    // A shift by 64 or more, and so one by a negative number, gives 0; of the two shifts one is right.
    let exponent = _mm256_srli_epi64::<52>(magnitude);
    let unit = _mm256_set1_epi64x(1023 + 52);
    let right = _mm256_srlv_epi64(significand, _mm256_sub_epi64(unit, exponent));
    let left = _mm256_sllv_epi64(significand, _mm256_sub_epi64(exponent, unit));
    let whole = _mm256_or_si256(right, left);
    if !signed {
        let beyond = _mm256_cmp_pd::<_CMP_GE_OQ>(value, _mm256_set1_pd(18446744073709551616.0));
        return _mm256_or_si256(whole, _mm256_castpd_si256(beyond));
    }
    let sign = _mm256_cmpgt_epi64(_mm256_setzero_si256(), bits);
    let whole = _mm256_sub_epi64(_mm256_xor_si256(whole, sign), sign);
    let beyond = _mm256_cmpgt_epi64(magnitude, _mm256_set1_epi64x(((1023 + 63) << 52) - 1));
    let end = _mm256_xor_si256(sign, _mm256_set1_epi64x(i64::MAX));
    let number = _mm256_castpd_si256(_mm256_cmp_pd::<_CMP_ORD_Q>(value, value));
    _mm256_and_si256(_mm256_blendv_epi8(whole, end, beyond), number)
}

/// Casts 4 elements to a type of 64 bits.
#[inline]
#[target_feature(enable = "avx2,f16c,fma")]
unsafe fn quad_words<S: Element, D: Element>(src: *const u8) -> __m256i {
    let to_double = const { matches!(D::DATA_TYPE, DataType::Double) };
    // SAFETY: each arm reads 4 elements of S.
    unsafe {
        let value = match S::DATA_TYPE {
            DataType::Float => _mm256_cvtps_pd(_mm_castsi128_ps(load_half(src))),
            DataType::Float16 => _mm256_cvtps_pd(_mm_cvtph_ps(load_quarter(src))),
            DataType::BFloat16 => {
                let value = _mm_slli_epi32::<16>(_mm_cvtepu16_epi32(load_quarter(src)));
                _mm256_cvtps_pd(_mm_castsi128_ps(value))
            }
            DataType::Double => _mm256_castsi256_pd(load(src)),
            DataType::Int64 | DataType::Uint64 => {
                let value = load(src);
                return if to_double { _mm256_castpd_si256(long_to_double::<S>(value)) } else { value };
            }
            DataType::Uint32 => {
                // The low half of a double whose last place is 1.
                let value = _mm256_cvtepu32_epi64(load_half(src));
                if !to_double {
                    return value;
                }
                let unit = _mm256_set1_pd(4503599627370496.0);
                let sum = _mm256_or_si256(value, _mm256_castpd_si256(unit));
                return _mm256_castpd_si256(_mm256_sub_pd(_mm256_castsi256_pd(sum), unit));
            }
            _ => {
                let value = match S::DATA_TYPE {
                    DataType::Int8 => _mm_cvtepi8_epi32(load_eighth(src)),
                    DataType::Uint8 => _mm_cvtepu8_epi32(load_eighth(src)),
                    DataType::Bool => _mm_cvtepu8_epi32(_mm_min_epu8(load_eighth(src), _mm_set1_epi8(1))),
                    DataType::Int16 => _mm_cvtepi16_epi32(load_quarter(src)),
                    DataType::Uint16 => _mm_cvtepu16_epi32(load_quarter(src)),
                    _ => load_half(src),
                };
                if !to_double {
                    return _mm256_cvtepi32_epi64(value);
                }
                _mm256_cvtepi32_pd(value)
            }
        };
        if to_double { _mm256_castpd_si256(value) } else { double_to_long::<D>(value) }
    }
}
