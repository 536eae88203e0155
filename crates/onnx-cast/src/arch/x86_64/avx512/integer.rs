//! Integers of 16 bits or more to floats of 8 bits or fewer with a sign: a table by the magnitude.
//!
//! The largest of these floats is 57344, so a magnitude of 16 bits says all; what does not fit is as good as 65535. Small
//! magnitudes index the table themselves. Larger ones need no more than their upper bits and whether there is anything
//! below, which is gathered in the last bit; where the table of the upper bits begins, an index has enough bits that
//! this one is below the bit that rounds.

use super::lanes::*;
use super::small_float::{RuleLanes, both, both_pairs};
use crate::element::{DataType, Element, Kind};
use crate::format::FloatFormat;
use crate::packed::bits;
use core::arch::x86_64::*;

/// The codes by magnitude, in up to three parts of 256.
#[repr(align(64))]
pub(super) struct ByInteger {
    /// By the magnitude itself; by its upper bits from 256 on; by its upper 8 bits from 4096 on.
    codes: [[u8; 256]; 3],
    /// How many parts there are.
    parts: usize,
    /// Entries of the first part, where it is the only one.
    entries: usize,
    /// How many bits of the magnitude are below the index of the second part.
    shift: u32,
}

impl ByInteger {
    pub(super) const fn new(to: &FloatFormat) -> Self {
        // The exponent of the largest number: beyond twice as much everything overflows.
        let top = (to.max_code() >> to.significand_bits) as i32 - to.bias + 1;
        let (parts, entries) = match top {
            ..=6 => (1, 64),
            7..=8 => (1, 256),
            9..=11 => (2, 256),
            _ => (3, 256),
        };
        let shift = to.significand_bits + if parts == 3 { 2 } else { 0 };
        let mut codes = [[0; 256]; 3];
        let mut part = 0;
        while part < parts {
            let below = [0, shift, 8][part];
            let mut i = 0;
            while i < 256 {
                // Twice the magnitude, and one more where something is gathered below.
                let double = if part == 0 { 2 * i as u32 } else { ((i as u32 & !1) << below) * 2 + (i as u32 & 1) };
                codes[part][i] = code(to, double);
                i += 1;
            }
            part += 1;
        }
        ByInteger { codes, parts, entries, shift }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    fn at(&self, part: usize, index: __m512i) -> __m512i {
        let vector = |i: usize| bytes(&self.codes[part].as_chunks::<64>().0[i]);
        if self.entries == 64 {
            return _mm512_permutexvar_epi8(index, vector(0));
        }
        let low = _mm512_permutex2var_epi8(vector(0), index, vector(1));
        let high = _mm512_permutex2var_epi8(vector(2), index, vector(3));
        _mm512_mask_blend_epi8(_mm512_movepi8_mask(index), low, high)
    }
}

/// The code of half of `double`, rounded to nearest even; the code after the largest where it overflows.
const fn code(to: &FloatFormat, double: u32) -> u8 {
    if double < 2 {
        return 0;
    }
    let exponent = double.ilog2() as i32 - 1;
    let lost = exponent + 1 - to.significand_bits as i32;
    let significand = if lost > 0 {
        let odd = double >> lost & 1;
        (double + (1 << (lost - 1)) - 1 + odd) >> lost
    } else {
        double << -lost
    };
    // No integer is subnormal in a type that holds 1 as a normal number, as they all do.
    let code = significand + (((exponent + to.bias - 1) as u32) << to.significand_bits);
    let beyond = to.max_code() as u32 + 1;
    if code > beyond { beyond as u8 } else { code as u8 }
}

/// Casts 64 elements to codes of `format`, one a byte.
///
/// # Safety
/// 64 elements of S, an integer of 16 bits or more, can be read.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi")]
pub(super) unsafe fn to_small_float<S: Element>(
    format: FloatFormat,
    table: &ByInteger,
    src: *const u8,
    rules: &RuleLanes,
) -> __m512i {
    let half_way = const { 32 * bits::<S>() / 8 };
    // SAFETY: 64 elements of S are read, 32 and 32.
    let parts = unsafe { [magnitudes::<S>(src), magnitudes::<S>(src.add(half_way))] };
    let magnitude = both(parts, |(magnitude, _)| magnitude);
    let lanes = |value: u16| _mm512_set1_epi16(value as i16);
    let first = both(magnitude, |m| _mm512_min_epu16(m, lanes(table.entries as u16 - 1)));
    let mut code = table.at(0, low_bytes_of_words(first[0], first[1]));
    if table.parts > 1 {
        let most = (256 << table.shift) - 1;
        let upper = |shift: u32, most: u16| {
            let within = both(magnitude, |m| _mm512_min_epu16(m, lanes(most)));
            let below = both(within, |m| _mm512_and_si512(m, lanes((1 << shift) - 1)));
            let more = both(below, |b| _mm512_min_epu16(b, rules.one));
            let shifted = both(within, |m| _mm512_srl_epi16(m, _mm_cvtsi32_si128(shift as i32)));
            let index = both_pairs(shifted, more, |s, m| _mm512_or_si512(s, m));
            low_bytes_of_words(index[0], index[1])
        };
        let high = high_bytes_of_words(magnitude[0], magnitude[1]);
        let from_256 = _mm512_test_epi8_mask(high, high);
        code = _mm512_mask_mov_epi8(code, from_256, table.at(1, upper(table.shift, most)));
        if table.parts > 2 {
            let from_4096 = _mm512_test_epi8_mask(high, _mm512_set1_epi8(0xf0u8 as i8));
            code = _mm512_mask_mov_epi8(code, from_4096, table.at(2, upper(8, u16::MAX)));
        }
    }
    let code = _mm512_min_epu8(code, low_bytes_of_words(rules.overflow, rules.overflow));
    if const { matches!(S::DATA_TYPE.info().kind, Kind::Uint) } {
        return code;
    }
    let signs = both(parts, |(_, sign)| sign);
    let sign = high_bytes_of_words(signs[0], signs[1]);
    let sign = _mm512_srl_epi16(sign, _mm_cvtsi32_si128(8 - format.bits as i32));
    _mm512_or_si512(code, _mm512_and_si512(sign, _mm512_set1_epi8(format.sign_bit() as i8)))
}

/// The magnitudes of 32 elements as unsigned words, 65535 for all beyond; and words whose top bits are the signs.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn magnitudes<S: Element>(src: *const u8) -> (__m512i, __m512i) {
    let most = _mm512_set1_epi32(0xffff);
    // SAFETY: 32 elements of S are read.
    unsafe {
        match S::DATA_TYPE {
            DataType::Uint16 => (load(src), load(src)),
            DataType::Int16 => (_mm512_abs_epi16(load(src)), load(src)),
            DataType::Uint32 => {
                let words = low_words(_mm512_min_epu32(load(src), most), _mm512_min_epu32(load(src.add(64)), most));
                (words, words)
            }
            DataType::Uint64 => {
                let most = _mm512_set1_epi64(0xffff);
                let part = |src: *const u8| {
                    let clamped = |src| _mm512_min_epu64(load(src), most);
                    low_double_words(clamped(src), clamped(src.add(64)))
                };
                let words = low_words(part(src), part(src.add(128)));
                (words, words)
            }
            _ => {
                let part = |src: *const u8| {
                    if const { bits::<S>() == 32 } {
                        return load(src);
                    }
                    let (low, high) = (_mm512_set1_epi64(-0xffff), _mm512_set1_epi64(0xffff));
                    let clamped = |src| _mm512_max_epi64(_mm512_min_epi64(load(src), high), low);
                    low_double_words(clamped(src), clamped(src.add(64)))
                };
                let values = [part(src), part(src.add(const { 16 * bits::<S>() / 8 }))];
                let magnitude = both(values, |v| _mm512_min_epu32(_mm512_abs_epi32(v), most));
                (low_words(magnitude[0], magnitude[1]), high_words(values[0], values[1]))
            }
        }
    }
}
