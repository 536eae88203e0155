//! Sources of 16 bits or more: widened to lanes that hold them, converted there, packed.
//!
//! Targets of 32 bits or fewer are made 16 at a time in double words, those of 64 bits 8 at a time in quad words.

use super::lanes::*;
use super::small_float::{RuleLanes, small_float_codes};
use crate::arch::kinds::{is_float, is_integer, is_signed, is_small_float};
use crate::element::{DataType, Element, Kind};
use crate::packed::bits;
use core::arch::x86_64::*;

pub(super) const TOWARD_ZERO: i32 = _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC;
const NEAREST: i32 = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;

/// Casts 64 elements.
///
/// # Safety
/// The bytes of 64 elements of `S` can be read from `src`, those of `D` written to `dst`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512cd,avx512vbmi,avx512vbmi2,avx2,f16c,fma,bmi2")]
pub(super) unsafe fn step<S: Element, D: Element>(src: *const u8, dst: *mut u8, rules: &RuleLanes) {
    let size = const { bits::<S>() / 8 };
    let signed = const { is_signed::<D>() };
    // SAFETY: part `i` of 16 elements begins at byte 16 * i * size, of 8 at 8 * i * size; the stores fill 64 elements.
    unsafe {
        if const { bits::<S>() == bits::<D>() && is_integer::<S>() && is_integer::<D>() } {
            for i in 0..size {
                store(dst.add(64 * i), load(src.add(64 * i)));
            }
            return;
        }
        if const { matches!(D::DATA_TYPE, DataType::Float16) } {
            for i in 0..4 {
                let half = _mm512_cvt_roundps_ph::<NEAREST>(float_lanes::<S>(src.add(16 * i * size)));
                store_half(dst.add(32 * i), half);
            }
            return;
        }
        if const { bits::<D>() == 64 } {
            for i in 0..8 {
                store(dst.add(64 * i), quad_words::<S, D>(src.add(8 * i * size)));
            }
            return;
        }
        if const { bits::<S>() == 64 && bits::<D>() == 32 && !(is_integer::<S>() && is_integer::<D>()) } {
            // As the conversions leave them: joining two halves before they are stored takes longer than storing both.
            for i in 0..8 {
                store_half(dst.add(32 * i), halved::<S, D>(src.add(64 * i)));
            }
            return;
        }
        if const { is_integer::<D>() && bits::<D>() == 16 && is_float::<S>() } {
            for i in 0..2 {
                let src = src.add(32 * i * size);
                let (low, high) = (truncated::<S, D>(src), truncated::<S, D>(src.add(16 * size)));
                let words = if signed { _mm512_packs_epi32(low, high) } else { _mm512_packus_epi32(low, high) };
                store(dst.add(64 * i), in_order_of_halves(words));
            }
            return;
        }
        if const { bits::<S>() == 16 && is_float::<S>() && matches!(D::DATA_TYPE, DataType::Bool) } {
            // Of integers this is faster in the caches too, but slower by a quarter beyond them.
            let not_zero = |src| _mm512_test_epi16_mask(load(src), _mm512_set1_epi16(i16::MAX));
            let (low, high) = (not_zero(src), not_zero(src.add(64)));
            store(dst, _mm512_maskz_mov_epi8(_mm512_kunpackd(high.into(), low.into()), _mm512_set1_epi8(1)));
            return;
        }
        if const { is_small_float::<D>() } {
            let codes = small_float_codes::<S, D>(src, rules);
            store_codes(const { bits::<D>() }, dst, codes);
            return;
        }
        let words: [__m512i; 4] = [
            double_words::<S, D>(src),
            double_words::<S, D>(src.add(16 * size)),
            double_words::<S, D>(src.add(32 * size)),
            double_words::<S, D>(src.add(48 * size)),
        ];
        match const { bits::<D>() } {
            32 => words.into_iter().enumerate().for_each(|(i, v)| store(dst.add(64 * i), v)),
            16 => {
                store(dst, low_words(words[0], words[1]));
                store(dst.add(64), low_words(words[2], words[3]));
            }
            8 => store(dst, low_bytes(words)),
            bits => {
                let codes = _mm512_and_si512(low_bytes(words), _mm512_set1_epi8((1 << bits) - 1));
                store_codes(bits, dst, codes);
            }
        }
    }
}

/// 16 elements as floats. What `f32` does not hold (double, integers of 32 and 64 bits) is rounded to odd: cut toward
/// zero, and where that lost anything the lowest bit set. Rounding once more to 22 bits or fewer then gives what
/// rounding the value itself would have.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) unsafe fn float_lanes<S: Element>(src: *const u8) -> __m512 {
    let odd = |value: __m512i, inexact: __mmask16| _mm512_castsi512_ps(with_lowest_bit(value, inexact));
    // SAFETY: each arm reads 16 elements.
    unsafe {
        match S::DATA_TYPE {
            DataType::Float => _mm512_castsi512_ps(load(src)),
            DataType::Float16 => _mm512_cvtph_ps(load_half(src)),
            DataType::BFloat16 => _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(load_half(src)))),
            DataType::Int16 => _mm512_cvtepi32_ps(_mm512_cvtepi16_epi32(load_half(src))),
            DataType::Uint16 => _mm512_cvtepi32_ps(_mm512_cvtepu16_epi32(load_half(src))),
            DataType::Int32 => {
                let value = load(src);
                let cut = _mm512_cvt_roundepi32_ps::<TOWARD_ZERO>(value);
                odd(_mm512_castps_si512(cut), _mm512_cmpneq_epi32_mask(_mm512_cvttps_epi32(cut), value))
            }
            DataType::Uint32 => {
                let value = load(src);
                let cut = _mm512_cvt_roundepu32_ps::<TOWARD_ZERO>(value);
                odd(_mm512_castps_si512(cut), _mm512_cmpneq_epi32_mask(_mm512_cvttps_epu32(cut), value))
            }
            DataType::Double => {
                let part = |src: *const u8| {
                    let value = _mm512_castsi512_pd(load(src));
                    let cut = _mm512_cvt_roundpd_ps::<TOWARD_ZERO>(value);
                    let lost = _mm512_cmp_pd_mask::<_CMP_NEQ_UQ>(_mm512_cvtps_pd(cut), value);
                    (_mm256_castps_si256(cut), lost)
                };
                let (low, high) = (part(src), part(src.add(64)));
                odd(join(low.0, high.0), _mm512_kunpackb(high.1.into(), low.1.into()))
            }
            DataType::Int64 => {
                let part = |src: *const u8| {
                    let value = load(src);
                    let cut = _mm512_cvt_roundepi64_ps::<TOWARD_ZERO>(value);
                    (_mm256_castps_si256(cut), _mm512_cmpneq_epi64_mask(_mm512_cvttps_epi64(cut), value))
                };
                let (low, high) = (part(src), part(src.add(64)));
                odd(join(low.0, high.0), _mm512_kunpackb(high.1.into(), low.1.into()))
            }
            _ => {
                let part = |src: *const u8| {
                    let value = load(src);
                    let cut = _mm512_cvt_roundepu64_ps::<TOWARD_ZERO>(value);
                    (_mm256_castps_si256(cut), _mm512_cmpneq_epi64_mask(_mm512_cvttps_epu64(cut), value))
                };
                let (low, high) = (part(src), part(src.add(64)));
                odd(join(low.0, high.0), _mm512_kunpackb(high.1.into(), low.1.into()))
            }
        }
    }
}

/// Sets the lowest bit where the mask is. Of the intrinsic the compiler makes three instructions: the mask as a vector, a
/// shift of it, and an or.
#[inline]
#[target_feature(enable = "avx512f")]
fn with_lowest_bit(mut value: __m512i, mask: __mmask16) -> __m512i {
    let one = _mm512_set1_epi32(1);
    // SAFETY: one instruction on registers, which this function's features have.
    unsafe {
        core::arch::asm!(
            "vpord {value}{{{mask}}}, {value}, {one}",
            value = inout(zmm_reg) value,
            mask = in(kreg) mask,
            one = in(zmm_reg) one,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    value
}

/// 16 integers cut to their low 32 bits, or extended to them.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn integer_lanes<S: Element>(src: *const u8) -> __m512i {
    // SAFETY: each arm reads 16 elements.
    unsafe {
        match S::DATA_TYPE {
            DataType::Int16 => _mm512_cvtepi16_epi32(load_half(src)),
            DataType::Uint16 => _mm512_cvtepu16_epi32(load_half(src)),
            DataType::Int32 | DataType::Uint32 => load(src),
            _ => low_double_words(load(src), load(src.add(64))),
        }
    }
}

/// Casts 16 elements to an integer or bool, to `float` or to `bfloat16`, in the low bits of each double word; above an element of fewer than
/// 8 bits may stand anything.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512cd")]
unsafe fn double_words<S: Element, D: Element>(src: *const u8) -> __m512i {
    // SAFETY: 16 elements of S are read.
    unsafe {
        match D::DATA_TYPE.info().kind {
            Kind::Float(_) if matches!(D::DATA_TYPE, DataType::Float) => to_float::<S>(src),
            Kind::Float(_) => to_bfloat16::<S>(float_lanes::<S>(src)),
            Kind::Bool => to_bool::<S>(src),
            _ if const { is_integer::<S>() } => integer_lanes::<S>(src),
            _ if matches!(S::DATA_TYPE, DataType::Double) => {
                join(double_to_integer::<D>(src), double_to_integer::<D>(src.add(64)))
            }
            _ => float_to_integer::<D>(float_lanes::<S>(src)),
        }
    }
}

/// To `float` from 32 bits or fewer: rounded to nearest even, once.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn to_float<S: Element>(src: *const u8) -> __m512i {
    // SAFETY: each arm reads 16 elements.
    unsafe {
        match S::DATA_TYPE {
            DataType::Int32 => _mm512_castps_si512(_mm512_cvt_roundepi32_ps::<NEAREST>(load(src))),
            DataType::Uint32 => _mm512_castps_si512(_mm512_cvt_roundepu32_ps::<NEAREST>(load(src))),
            DataType::BFloat16 => {
                let value = float_lanes::<S>(src);
                let bits = _mm512_castps_si512(value);
                // A NaN comes out quiet.
                let nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(value, value);
                _mm512_mask_or_epi32(bits, nan, bits, _mm512_set1_epi32(0x40_0000))
            }
            _ => _mm512_castps_si512(float_lanes::<S>(src)),
        }
    }
}

/// 16 floats that were elements of `S` as bfloat16, in the low bits of each double word.
#[inline]
#[target_feature(enable = "avx512f")]
fn to_bfloat16<S: Element>(value: __m512) -> __m512i {
    let bits = _mm512_castps_si512(value);
    let odd = _mm512_and_si512(_mm512_srli_epi32::<16>(bits), _mm512_set1_epi32(1));
    let rounded = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
    if const { !is_float::<S>() } {
        return _mm512_srli_epi32::<16>(rounded);
    }
    let nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(value, value);
    let kept = _mm512_mask_or_epi32(rounded, nan, bits, _mm512_set1_epi32(0x40_0000));
    _mm512_srli_epi32::<16>(kept)
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn to_bool<S: Element>(src: *const u8) -> __m512i {
    // The sign of a float does not matter, of an integer it does.
    let one = _mm512_set1_epi32(1);
    let mask = if const { is_integer::<S>() } { -1 } else { i64::MAX };
    // SAFETY: 16 elements are read.
    unsafe {
        let not_zero = match const { bits::<S>() } {
            16 => {
                let value = _mm512_cvtepu16_epi32(load_half(src));
                _mm512_test_epi32_mask(value, _mm512_set1_epi32((mask >> 48) as i32 & 0xffff))
            }
            32 => _mm512_test_epi32_mask(load(src), _mm512_set1_epi32((mask >> 32) as i32)),
            _ => {
                let part = |src| _mm512_test_epi64_mask(load(src), _mm512_set1_epi64(mask));
                _mm512_kunpackb(part(src.add(64)).into(), part(src).into())
            }
        };
        _mm512_maskz_mov_epi32(not_zero, one)
    }
}

/// The range of an integer type of 8 or 16 bits.
const fn range<D: Element>() -> (i32, i32) {
    match D::DATA_TYPE {
        DataType::Int8 => (i8::MIN as i32, i8::MAX as i32),
        DataType::Int16 => (i16::MIN as i32, i16::MAX as i32),
        DataType::Uint8 => (0, u8::MAX as i32),
        _ => (0, u16::MAX as i32),
    }
}

/// Toward zero, saturating, NaN to 0; for 4 and 2 bits to nearest even, of which the low bits are kept.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn float_to_integer<D: Element>(value: __m512) -> __m512i {
    match (D::DATA_TYPE, const { bits::<D>() }) {
        // Beyond 2^31 a float's low bits are zeros, as are those of the value that an overflow gives.
        (_, 2 | 4) => _mm512_cvt_roundps_epi32::<NEAREST>(value),
        (DataType::Int32, _) => {
            let number = _mm512_cmp_ps_mask::<_CMP_ORD_Q>(value, value);
            let beyond = _mm512_cmp_ps_mask::<_CMP_GE_OQ>(value, _mm512_set1_ps(2147483648.0));
            // An overflow gives the smallest integer, which is right on the negative side.
            let cut = _mm512_maskz_cvttps_epi32(number, value);
            _mm512_mask_mov_epi32(cut, beyond, _mm512_set1_epi32(i32::MAX))
        }
        // The maximum of NaN and zero is the second operand. An overflow gives all ones.
        (DataType::Uint32, _) => _mm512_cvttps_epu32(_mm512_max_ps(value, _mm512_setzero_ps())),
        _ => {
            let (low, high) = const { range::<D>() };
            let clamped = |value| _mm512_min_ps(value, _mm512_set1_ps(high as f32));
            if low == 0 {
                return _mm512_cvttps_epi32(clamped(_mm512_max_ps(value, _mm512_setzero_ps())));
            }
            let number = _mm512_cmp_ps_mask::<_CMP_ORD_Q>(value, value);
            _mm512_maskz_cvttps_epi32(number, clamped(_mm512_max_ps(value, _mm512_set1_ps(low as f32))))
        }
    }
}

/// Casts 16 floats to an integer of 16 bits, in double words whose lower end is left to packing with saturation.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn truncated<S: Element, D: Element>(src: *const u8) -> __m512i {
    // SAFETY: 16 elements of S are read.
    unsafe {
        if const { matches!(S::DATA_TYPE, DataType::Double) } {
            return join(double_to_integer::<D>(src), double_to_integer::<D>(src.add(64)));
        }
        let value = float_lanes::<S>(src);
        // The minimum of a number and NaN is the second operand, of which the conversion makes the smallest integer.
        let within = _mm512_min_ps(_mm512_set1_ps(const { range::<D>().1 } as f32), value);
        if const { is_signed::<D>() } {
            _mm512_maskz_cvttps_epi32(_mm512_cmp_ps_mask::<_CMP_ORD_Q>(value, value), within)
        } else {
            _mm512_cvttps_epi32(within)
        }
    }
}

/// Casts 8 elements of 64 bits to 32, where one of the two types is a float.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512vl")]
unsafe fn halved<S: Element, D: Element>(src: *const u8) -> __m256i {
    // SAFETY: 8 elements of S are read.
    unsafe {
        match (S::DATA_TYPE, D::DATA_TYPE) {
            (DataType::Int64, _) => _mm256_castps_si256(_mm512_cvt_roundepi64_ps::<NEAREST>(load(src))),
            (DataType::Uint64, _) => _mm256_castps_si256(_mm512_cvt_roundepu64_ps::<NEAREST>(load(src))),
            (_, DataType::Float) => {
                _mm256_castps_si256(_mm512_cvt_roundpd_ps::<NEAREST>(_mm512_castsi512_pd(load(src))))
            }
            _ => double_to_integer::<D>(src),
        }
    }
}

/// As [`float_to_integer`], from 8 doubles.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512vl")]
unsafe fn double_to_integer<D: Element>(src: *const u8) -> __m256i {
    // SAFETY: 8 doubles are read.
    let value = _mm512_castsi512_pd(unsafe { load(src) });
    match (D::DATA_TYPE, const { bits::<D>() }) {
        (_, 2 | 4) => _mm512_cvtepi64_epi32(_mm512_cvt_roundpd_epi64::<NEAREST>(value)),
        (DataType::Int32, _) => {
            let number = _mm512_cmp_pd_mask::<_CMP_ORD_Q>(value, value);
            _mm512_maskz_cvttpd_epi32(number, _mm512_min_pd(value, _mm512_set1_pd(2147483647.0)))
        }
        (DataType::Uint32, _) => _mm512_cvttpd_epu32(_mm512_max_pd(value, _mm512_setzero_pd())),
        _ => {
            let (low, high) = const { range::<D>() };
            let clamped = |value| _mm512_min_pd(value, _mm512_set1_pd(high.into()));
            if low == 0 {
                return _mm512_cvttpd_epi32(clamped(_mm512_max_pd(value, _mm512_setzero_pd())));
            }
            let number = _mm512_cmp_pd_mask::<_CMP_ORD_Q>(value, value);
            _mm512_maskz_cvttpd_epi32(number, clamped(_mm512_max_pd(value, _mm512_set1_pd(low.into()))))
        }
    }
}

/// Casts 8 elements to a type of 64 bits.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn quad_words<S: Element, D: Element>(src: *const u8) -> __m512i {
    // SAFETY: 8 elements of S are read.
    unsafe {
        if const { is_integer::<S>() } {
            let (signed, to_double) = const { (is_signed::<S>(), matches!(D::DATA_TYPE, DataType::Double)) };
            if const { bits::<S>() == 64 } {
                let value = load(src);
                return match (to_double, signed) {
                    (true, true) => _mm512_castpd_si512(_mm512_cvt_roundepi64_pd::<NEAREST>(value)),
                    (true, false) => _mm512_castpd_si512(_mm512_cvt_roundepu64_pd::<NEAREST>(value)),
                    _ => value,
                };
            }
            let half = match (const { bits::<S>() }, signed) {
                (16, true) => _mm256_cvtepi16_epi32(load_quarter(src)),
                (16, false) => _mm256_cvtepu16_epi32(load_quarter(src)),
                _ => load_half(src),
            };
            return match (to_double, signed) {
                (true, true) => _mm512_castpd_si512(_mm512_cvtepi32_pd(half)),
                (true, false) => _mm512_castpd_si512(_mm512_cvtepu32_pd(half)),
                (false, true) => _mm512_cvtepi32_epi64(half),
                (false, false) => _mm512_cvtepu32_epi64(half),
            };
        }
        if const { matches!(S::DATA_TYPE, DataType::Double) } {
            let value = _mm512_castsi512_pd(load(src));
            return match D::DATA_TYPE {
                DataType::Int64 => {
                    let number = _mm512_cmp_pd_mask::<_CMP_ORD_Q>(value, value);
                    let beyond = _mm512_cmp_pd_mask::<_CMP_GE_OQ>(value, _mm512_set1_pd(9223372036854775808.0));
                    let cut = _mm512_maskz_cvttpd_epi64(number, value);
                    _mm512_mask_mov_epi64(cut, beyond, _mm512_set1_epi64(i64::MAX))
                }
                DataType::Uint64 => _mm512_cvttpd_epu64(_mm512_max_pd(value, _mm512_setzero_pd())),
                _ => _mm512_castpd_si512(value),
            };
        }
        let value = match S::DATA_TYPE {
            DataType::Float16 => _mm256_cvtph_ps(load_quarter(src)),
            DataType::BFloat16 => {
                _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(load_quarter(src))))
            }
            _ => _mm256_castsi256_ps(load_half(src)),
        };
        match D::DATA_TYPE {
            DataType::Int64 => {
                let number = _mm256_cmp_ps_mask::<_CMP_ORD_Q>(value, value);
                let beyond = _mm256_cmp_ps_mask::<_CMP_GE_OQ>(value, _mm256_set1_ps(9223372036854775808.0));
                let cut = _mm512_maskz_cvttps_epi64(number, value);
                _mm512_mask_mov_epi64(cut, beyond, _mm512_set1_epi64(i64::MAX))
            }
            DataType::Uint64 => _mm512_cvttps_epu64(_mm256_max_ps(value, _mm256_setzero_ps())),
            _ => _mm512_castpd_si512(_mm512_cvtps_pd(value)),
        }
    }
}
