//! Floats of 8 bits or fewer, from sources of 16 bits or more: in 16-bit lanes, whatever the source.
//!
//! float8 rounds by tables over the exponent, the finite types of 6 and 4 bits are looked up by magnitude, float8e8m0 is
//! the exponent itself; integers have tables of their own ([`super::integer`]).

use super::convert::{TOWARD_ZERO, float_lanes};
use super::integer::{self, ByInteger};
use super::lanes::*;
use crate::arch::kinds::{is_integer, lane_format, small_format};
use crate::element::{DataType, Element};
use crate::format::FloatFormat;
use crate::packed::bits;
use crate::scalar::{RoundMode, Rules};
use core::arch::x86_64::*;

/// [`Rules`] as lanes of 16 bits.
#[derive(Clone, Copy)]
pub(super) struct RuleLanes {
    /// The largest code that a finite value gets. An overflow that is not the largest number is the code after it, in
    /// every format, so the smaller of a code and this is the rule for overflow.
    pub(super) overflow: __m512i,
    nan: __m512i,
    /// Whether infinity is written as NaN, which in the types without -0 depends on the operator's version.
    infinity_is_nan: bool,
    underflow: __m512i,
    /// One, which the compiler does not know to be one: it would turn the cheap minimum with it into a comparison.
    pub(super) one: __m512i,
    /// What is added below the exponent before float8e8m0 cuts there.
    power_bias: __m512i,
}

impl RuleLanes {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    pub(super) fn new(rules: &Rules) -> Self {
        let lanes = |code: u8| _mm512_set1_epi16(code.into());
        RuleLanes {
            overflow: lanes(rules.overflow),
            nan: lanes(rules.nan),
            infinity_is_nan: rules.infinity == rules.nan,
            underflow: lanes(rules.underflow),
            one: _mm512_set1_epi16(std::hint::black_box(1)),
            power_bias: lanes(match rules.round_mode {
                RoundMode::Up => 0x7f,
                RoundMode::Down => 0,
                RoundMode::Nearest => 0x40,
            }),
        }
    }
}

/// Casts 64 elements to a float of 8 bits or fewer, one a byte.
///
/// Whatever the source, 16 bits of a bfloat16 rounded to odd are enough: the target has at most 4 bits of precision, and
/// the last bit says that there was more. So everything but float16, which has bits enough itself, comes through that.
/// Two vectors of 32 words go side by side, each step for both: one after the other, a vector waits for itself.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi")]
pub(super) unsafe fn small_float_codes<S: Element, D: Element>(src: *const u8, rules: &RuleLanes) -> __m512i {
    let half_way = const { 32 * bits::<S>() / 8 };
    let format = const { small_format::<D>() };
    if const { is_integer::<S>() && !matches!(D::DATA_TYPE, DataType::Float8E8M0) } {
        // SAFETY: 64 elements of S are read.
        return unsafe {
            integer::to_small_float::<S>(format, const { &ByInteger::new(&small_format::<D>()) }, src, rules)
        };
    }
    // SAFETY: 64 elements of S are read.
    let lanes = unsafe {
        if const { matches!(S::DATA_TYPE, DataType::Float16) && !matches!(D::DATA_TYPE, DataType::Float8E8M0) } {
            [load(src), load(src.add(half_way))]
        } else {
            [odd_bfloat16_lanes::<S, D>(src, rules), odd_bfloat16_lanes::<S, D>(src.add(half_way), rules)]
        }
    };
    let source = const { lane_format::<S>() };
    if const { matches!(D::DATA_TYPE, DataType::Float8E8M0) } {
        let codes = to_power(lanes, rules);
        low_bytes_of_words(codes[0], codes[1])
    } else if const { bits::<D>() < 8 } {
        let table = const { &ByMagnitude::new(&lane_format::<S>(), &small_format::<D>()) };
        to_finite_float(format, source, table, lanes, rules)
    } else {
        let tables = const { &ByExponent::new(&lane_format::<S>(), &small_format::<D>()) };
        let codes = to_float8(format, source, tables, lanes, rules);
        low_bytes_of_words(codes[0], codes[1])
    }
}

/// The same step for both of two vectors.
#[inline(always)]
pub(super) fn both<T, R>([a, b]: [T; 2], step: impl Fn(T) -> R) -> [R; 2] {
    [step(a), step(b)]
}

/// The same step for both of two pairs.
#[inline(always)]
pub(super) fn both_pairs<T, U, R>([a, b]: [T; 2], [c, d]: [U; 2], step: impl Fn(T, U) -> R) -> [R; 2] {
    [step(a, c), step(b, d)]
}

/// 32 elements as bfloat16, rounded to odd, for a target `D`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn odd_bfloat16_lanes<S: Element, D: Element>(src: *const u8, rules: &RuleLanes) -> __m512i {
    // SAFETY: 32 elements of S are read.
    unsafe {
        if const { matches!(S::DATA_TYPE, DataType::BFloat16) } {
            return load(src);
        }
        let part = |src| {
            if const { matches!(S::DATA_TYPE, DataType::Double) && !matches!(D::DATA_TYPE, DataType::Float8E8M0) } {
                float_lanes_of_normal_doubles(src)
            } else {
                _mm512_castps_si512(float_lanes::<S>(src))
            }
        };
        let (low, high) = (part(src), part(src.add(const { 2 * bits::<S>() })));
        let lost = _mm512_min_epu16(low_words(low, high), rules.one);
        _mm512_or_si512(high_words(low, high), lost)
    }
}

/// 16 doubles as floats, rounded to odd where `float` has normal numbers: the bits that it has no place for are gathered
/// into the lowest that it has, and then the conversion is exact. Below 2^-126 it rounds, but to the targets that this
/// is for, those are all zero; and beyond the largest it stays there, so that only an infinity is one.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
unsafe fn float_lanes_of_normal_doubles(src: *const u8) -> __m512i {
    const LAST: i64 = 1 << 29;
    let part = |src| {
        // SAFETY: 8 of the 16 doubles are read.
        let value = unsafe { load(src) };
        let rest = _mm512_and_si512(value, _mm512_set1_epi64(LAST - 1));
        // Where any of them is set, adding all ones below the last place carries into it.
        let more = _mm512_add_epi64(rest, _mm512_set1_epi64(LAST - 1));
        // value & !(LAST - 1) | more & LAST, by the truth table of (value, more, LAST) and then of the low bits.
        let gathered = _mm512_ternarylogic_epi64::<0xf8>(value, more, _mm512_set1_epi64(LAST));
        let gathered = _mm512_andnot_si512(_mm512_set1_epi64(LAST - 1), gathered);
        _mm256_castps_si256(_mm512_cvt_roundpd_ps::<TOWARD_ZERO>(_mm512_castsi512_pd(gathered)))
    };
    join(part(src), part(src.wrapping_add(64)))
}

/// What rounding needs to know of each exponent of the source, 64 of them from `first` on.
#[repr(align(64))]
struct ByExponent {
    /// The first exponent field of the tables: 0 where they hold all of the source's; else one at which everything
    /// rounds to zero, as it does below.
    first: u16,
    /// How many bits of the significand go.
    shift: [u16; 64],
    /// One less than half of the last place that stays.
    half: [u16; 64],
    /// The code's exponent field, less the bit that the significand brings.
    base: [u16; 64],
    /// What to take from a magnitude to have its significand, with the implicit bit where there is one.
    exponent: [u16; 64],
}

impl ByExponent {
    const fn new(from: &FloatFormat, to: &FloatFormat) -> Self {
        // At `2 + significand bits` below the smallest normal exponent a value is under half of the last place.
        let zero = from.bias - to.bias - 1 - to.significand_bits as i32;
        let first = if from.exponent_bits <= 5 || zero < 0 { 0 } else { zero };
        let (mut shift, mut half, mut base, mut exponent) = ([0; 64], [0; 64], [0; 64], [0; 64]);
        let mut i = 0;
        while i < 64 {
            // The exponents of a subnormal source and of the smallest normal one are the same.
            let field = first + i as i32;
            let target = if field == 0 { 1 } else { field } - from.bias + to.bias;
            // Below 1 the target is subnormal. A subnormal source, without its implicit bit, counts in the target's
            // subnormals too: it ends where they, or the first binade above them, whose step is the same, do.
            let counts = target < 1 || field == 0;
            let below = if counts { 1 - target } else { 0 };
            let lost = from.significand_bits as i32 - to.significand_bits as i32 + below;
            let most = from.significand_bits as i32 + 2;
            let lost = if lost > most { most } else { lost };
            shift[i] = lost as u16;
            half[i] = (1 << (lost - 1)) - 1;
            base[i] = if counts { 0 } else { ((target - 1) << to.significand_bits) as u16 };
            exponent[i] = if field == 0 { 0 } else { ((field - 1) << from.significand_bits) as u16 };
            i += 1;
        }
        ByExponent { first: first as u16, shift, half, base, exponent }
    }

    /// The entries of a table at 32 indices below 64.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    fn at(table: &[u16; 64], index: __m512i) -> __m512i {
        // SAFETY: the array is 128 bytes.
        let (low, high) = unsafe { (load(table.as_ptr().cast()), load(table.as_ptr().add(32).cast())) };
        _mm512_permutex2var_epi16(low, index, high)
    }
}

/// To a float8 other than float8e8m0, from 16-bit floats.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn to_float8(
    format: FloatFormat,
    source: FloatFormat,
    tables: &ByExponent,
    value: [__m512i; 2],
    rules: &RuleLanes,
) -> [__m512i; 2] {
    let lanes = |value: u32| _mm512_set1_epi16(value as i16);
    let width = source.significand_bits;
    let shift_by_width = |x| _mm512_srl_epi16(x, _mm_cvtsi32_si128(width as i32));
    let magnitude = both(value, |x| _mm512_and_si512(x, lanes(0x7fff)));
    let (index, significand) = if source.exponent_bits <= 5 {
        let index = both(magnitude, shift_by_width);
        let exponent = both(index, |i| ByExponent::at(&tables.exponent, i));
        (index, both_pairs(magnitude, exponent, |m, e| _mm512_sub_epi16(m, e)))
    } else {
        // Of 256 exponents, those below the tables round to zero and those above overflow, as their ends do.
        let first = u32::from(tables.first) << width;
        let last = (first + (64 << width) - 1).min(0x7fff);
        let within = both(magnitude, |m| _mm512_max_epu16(m, lanes(first)));
        let within = both(within, |m| _mm512_min_epu16(m, lanes(last)));
        let within = both(within, |m| _mm512_sub_epi16(m, lanes(first)));
        let index = both(within, shift_by_width);
        // Subnormals are below the tables, so the implicit bit is there.
        let fraction = both(value, |x| _mm512_and_si512(x, lanes((1 << width) - 1)));
        (index, both(fraction, |f| _mm512_or_si512(f, lanes(1 << width))))
    };
    let shift = both(index, |i| ByExponent::at(&tables.shift, i));
    // Below 16 anyway, but so the compiler knows, and leaves the shift as it is.
    let shift = both(shift, |s| _mm512_and_si512(s, lanes(15)));
    let half = both(index, |i| ByExponent::at(&tables.half, i));
    let base = both(index, |i| ByExponent::at(&tables.base, i));
    let odd = both_pairs(significand, shift, |x, s| _mm512_srlv_epi16(x, s));
    let odd = both(odd, |x| _mm512_and_si512(x, lanes(1)));
    let rounded = both_pairs(significand, half, |x, h| _mm512_add_epi16(x, h));
    let rounded = both_pairs(rounded, odd, |x, o| _mm512_add_epi16(x, o));
    let code = both_pairs(rounded, shift, |x, s| _mm512_srlv_epi16(x, s));
    let code = both_pairs(code, base, |x, b| _mm512_add_epi16(x, b));
    let code = both(code, |c| _mm512_min_epu16(c, rules.overflow));
    // Where the format has no -0, a code of 0 takes no sign: its negative has no top bit.
    let unsigned_zero = !format.negative_zero;
    let signed = both_pairs(value, code, |x, c| {
        if unsigned_zero { _mm512_and_si512(x, _mm512_sub_epi16(_mm512_setzero_si512(), c)) } else { x }
    });
    let sign = both(signed, |x| _mm512_and_si512(_mm512_srli_epi16::<8>(x), lanes(0x80)));
    let infinity = source.infinity_code() as u32;
    let numbers = if unsigned_zero && rules.infinity_is_nan { lanes(infinity - 1) } else { lanes(infinity) };
    let nan = both(magnitude, |m| _mm512_cmpgt_epu16_mask(m, numbers));
    if unsigned_zero {
        let code = both_pairs(code, sign, |c, s| _mm512_or_si512(c, s));
        both_pairs(code, nan, |c, n| _mm512_mask_mov_epi16(c, n, rules.nan))
    } else {
        let code = both_pairs(code, nan, |c, n| _mm512_mask_mov_epi16(c, n, rules.nan));
        both_pairs(code, sign, |c, s| _mm512_or_si512(c, s))
    }
}

/// The codes of a finite format of 6 bits or fewer, by the magnitude: from the tie below the smallest subnormal on, by
/// exponent, as many bits of the significand as decide, and whether there is more below.
#[repr(align(64))]
struct ByMagnitude {
    codes: [u8; 256],
    /// The magnitude at which the table begins. Below it everything rounds to zero, as it itself does.
    first: u16,
    /// How many bits of the magnitude are below the ones that decide.
    shift: u32,
    /// Entries that are in use.
    entries: usize,
}

impl ByMagnitude {
    const fn new(from: &FloatFormat, to: &FloatFormat) -> Self {
        let tie = from.bias - to.bias - to.significand_bits as i32;
        let first = (tie << from.significand_bits) as u16;
        let shift = from.significand_bits - to.significand_bits - 1;
        // Eight exponents of 8 entries each, or 256: the last of them is beyond the largest number either way.
        let entries = if to.significand_bits == 1 { 64 } else { 256 };
        let mut codes = [0; 256];
        let mut i = 0;
        while i < entries {
            let magnitude = first as u32 + ((i as u32 >> 1) << shift);
            let field = (magnitude >> from.significand_bits) as i32;
            let fraction = magnitude & ((1 << from.significand_bits) - 1);
            // Twice the significand, and one more where there is something below.
            let significand = (fraction | 1 << from.significand_bits) << 1 | (i as u32 & 1);
            let target = field - from.bias + to.bias;
            let below = if target < 1 { 1 - target } else { 0 };
            let lost = from.significand_bits as i32 - to.significand_bits as i32 + below + 1;
            let odd = significand >> lost & 1;
            let rounded = (significand + (1 << (lost - 1)) - 1 + odd) >> lost;
            let base = if target < 1 { 0 } else { (target as u32 - 1) << to.significand_bits };
            let largest = to.max_code() as u32;
            codes[i] = if rounded + base > largest { largest } else { rounded + base } as u8;
            i += 1;
        }
        ByMagnitude { codes, first, shift, entries }
    }
}

/// To a finite float of 6 or 4 bits, one a byte, from 16-bit floats.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn to_finite_float(
    format: FloatFormat,
    source: FloatFormat,
    table: &ByMagnitude,
    value: [__m512i; 2],
    rules: &RuleLanes,
) -> __m512i {
    let lanes = |value: u32| _mm512_set1_epi16(value as i16);
    let first = u32::from(table.first);
    let last = ((table.entries as u32 / 2) << table.shift) - 1;
    let magnitude = both(value, |x| _mm512_and_si512(x, lanes(0x7fff)));
    let from_first = both(magnitude, |m| _mm512_sub_epi16(_mm512_max_epu16(m, lanes(first)), lanes(first)));
    let within = both(from_first, |m| _mm512_min_epu16(m, lanes(last)));
    let more = both(within, |m| _mm512_and_si512(m, lanes((1 << table.shift) - 1)));
    let more = both(more, |m| _mm512_min_epu16(m, rules.one));
    let deciding = both(within, |m| _mm512_srl_epi16(m, _mm_cvtsi32_si128(table.shift as i32 - 1)));
    // The bits that decide but for the lowest, which says whether there is more: deciding & !1 | more.
    let index = both_pairs(deciding, more, |d, m| _mm512_ternarylogic_epi32::<0xf2>(m, lanes(1), d));
    let index = low_bytes_of_words(index[0], index[1]);
    let part = |i: usize| {
        // SAFETY: the table is 256 bytes, of which this is one of four parts.
        unsafe { load(table.codes.as_ptr().add(64 * i)) }
    };
    let code = if table.entries == 64 {
        _mm512_permutexvar_epi8(index, part(0))
    } else {
        let low = _mm512_permutex2var_epi8(part(0), index, part(1));
        let high = _mm512_permutex2var_epi8(part(2), index, part(3));
        _mm512_mask_blend_epi8(_mm512_movepi8_mask(index), low, high)
    };
    let upper = high_bytes_of_words(value[0], value[1]);
    let shifted = _mm512_srl_epi16(upper, _mm_cvtsi32_si128(8 - format.bits as i32));
    let code = _mm512_or_si512(code, _mm512_and_si512(shifted, _mm512_set1_epi8(format.sign_bit() as i8)));
    let nan = both(magnitude, |m| _mm512_cmpgt_epu16_mask(m, lanes(source.infinity_code() as u32)));
    let nan = u64::from(nan[1]) << 32 | u64::from(nan[0]);
    _mm512_mask_mov_epi8(code, nan, low_bytes_of_words(rules.nan, rules.nan))
}

/// To float8e8m0, from bfloat16 rounded to odd: the exponent, after the bias of the rounding mode is added below it.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn to_power(value: [__m512i; 2], rules: &RuleLanes) -> [__m512i; 2] {
    let lanes = |value: u32| _mm512_set1_epi16(value as i16);
    // From 2^-127 to 2^-126 a bfloat16 is subnormal: its bits, moved up by one, are those of an exponent field of 0
    // with the implicit bit above it, which goes.
    let subnormal = both(value, |x| _mm512_cmplt_epi16_mask(x, lanes(0x0080)));
    let doubled = both(value, |x| _mm512_add_epi16(x, x));
    let moved = both_pairs(doubled, subnormal, |d, s| (d, s));
    let from_power = both_pairs(value, moved, |x, (d, s)| _mm512_mask_sub_epi16(x, s, d, lanes(0x0080)));
    let code = both(from_power, |x| _mm512_srli_epi16::<7>(_mm512_add_epi16(x, rules.power_bias)));
    let beyond = both(value, |x| _mm512_cmpgt_epi16_mask(x, lanes(0x7f00)));
    let code = both_pairs(code, beyond, |c, k| _mm512_mask_mov_epi16(c, k, rules.overflow));
    // As signed integers, the bits of negative floats are below those of every other.
    let below = both(value, |x| _mm512_cmplt_epi16_mask(x, lanes(0x0040)));
    let code = both_pairs(code, below, |c, k| _mm512_mask_mov_epi16(c, k, rules.underflow));
    let nan = both(value, |x| _mm512_cmpgt_epu16_mask(_mm512_and_si512(x, lanes(0x7fff)), lanes(0x7f80)));
    both_pairs(code, nan, |c, k| _mm512_mask_mov_epi16(c, k, lanes(0xff)))
}
