//! AVX2 with F16C and FMA (Haswell, Zen and later): 32 elements a step.
//!
//! AVX2 lacks conversions with a rounding of their own (values are rounded to odd before, so that the conversion is
//! exact), and those of 64-bit and of unsigned integers (joined from halves, or shifted by the exponent).

use crate::arch::generic::{self, Lanes, by_sign, by_width, extensions, inlined, isa, shifts};
use crate::element::Element;
use crate::kernel::{Context, KernelTable};
use core::arch::x86_64::*;

isa!(Avx2, TABLE, Ymm, "avx2,f16c,fma,bmi2");

pub(crate) static TABLE: KernelTable = KernelTable::new::<Avx2>();

/// Whether this machine has every instruction set that the kernels are compiled for.
pub(crate) fn is_available() -> bool {
    detected!("avx2", "f16c", "fma", "bmi2")
}

const NEAREST: i32 = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
const TOWARD_ZERO: i32 = _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC;
const DOWN: i32 = _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC;

/// Vectors of 32 bytes.
#[derive(Clone, Copy)]
pub(crate) struct Ymm;

type V = __m256i;

inlined! {
    /// Two vectors of half the width as one.
    unsafe fn join(low: __m128i, high: __m128i) -> V { _mm256_set_m128i(high, low) }
    /// The count of a shift.
    unsafe fn count(bits: u32) -> __m128i { _mm_cvtsi32_si128(bits as i32) }
    unsafe fn ps(value: V) -> __m256 { _mm256_castsi256_ps(value) }
    unsafe fn pd(value: V) -> __m256d { _mm256_castsi256_pd(value) }
    /// A vector that has these 16 bytes in both halves: shuffles of bytes look up within each.
    unsafe fn twice(table: &[u8; 16]) -> V { _mm256_broadcastsi128_si256(_mm_loadu_si128(table.as_ptr().cast())) }
    /// Puts in order the quarters of two vectors that an instruction has interleaved half by half.
    unsafe fn in_order_of_halves(value: V) -> V { _mm256_permute4x64_epi64::<0b11_01_10_00>(value) }

    /// Puts bytes in order that were packed twice half by half, from four vectors of lanes of 32 bits.
    unsafe fn in_order_of_quarters(value: V) -> V {
        _mm256_permutevar8x32_epi32(value, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7))
    }

    /// The high lanes of 32 bits of 8 lanes of 64, in order.
    unsafe fn high_lanes(a: V, b: V) -> V {
        in_order_of_halves(_mm256_castps_si256(_mm256_shuffle_ps::<0b11_01_11_01>(ps(a), ps(b))))
    }

    /// Integers of 64 bits, of which those with more than 53 significant ones lose the last 11, with the lowest of the
    /// others set where that loses anything: a double then holds them.
    unsafe fn odd_long<const SIGNED: bool>(value: V) -> V {
        let dropped = _mm256_set1_epi64x(0x7ff);
        let carried = _mm256_add_epi64(_mm256_and_si256(value, dropped), dropped);
        let cut = _mm256_andnot_si256(dropped, _mm256_or_si256(value, carried));
        // From -2^52 to 2^52 all bits fit.
        let magnitude = if SIGNED { _mm256_add_epi64(value, _mm256_set1_epi64x(1 << 52)) } else { value };
        let fits = _mm256_cmpeq_epi64(_mm256_srli_epi64::<53>(magnitude), _mm256_setzero_si256());
        _mm256_blendv_epi8(cut, value, fits)
    }

    /// 4 integers of 64 bits as doubles, rounded to nearest: the high and the low half as the significands of doubles
    /// whose last place is 2^32 and 1, so that only their sum is rounded.
    unsafe fn long_to_double<const SIGNED: bool>(value: V) -> __m256d {
        let unit = _mm256_set1_epi64x(0x4330_0000_0000_0000);
        let low = pd(_mm256_blend_epi32::<0b1010_1010>(value, unit));
        let high = _mm256_srli_epi64::<32>(value);
        // 2^84, plus 2^63 where that makes the sign's bit a number; and with 2^52 what is too much in both together.
        let (high, units) = if SIGNED {
            (_mm256_xor_si256(high, _mm256_set1_epi64x(0x4530_0000_8000_0000)), 0x4530_0000_8010_0000)
        } else {
            (_mm256_or_si256(high, _mm256_set1_epi64x(0x4530_0000_0000_0000)), 0x4530_0000_0010_0000)
        };
        _mm256_add_pd(_mm256_sub_pd(pd(high), pd(_mm256_set1_epi64x(units))), low)
    }

    /// Likewise, of integers that may lose their last bits first, as [`odd_long`] does it.
    unsafe fn odd_double<const SIGNED: bool>(value: V) -> __m256d {
        long_to_double::<SIGNED>(odd_long::<SIGNED>(value))
    }
    /// Doubles to floats by way of 14 bits, of which the last is set where anything was lost: those `f32` holds, its
    /// subnormals too, as far as they are not below half of bfloat16's smallest.
    unsafe fn odd_float(value: __m256d) -> __m128 {
        let dropped = _mm256_set1_epi64x((1 << 39) - 1);
        let bits = _mm256_castpd_si256(value);
        let carried = _mm256_add_epi64(_mm256_and_si256(bits, dropped), dropped);
        _mm256_cvtpd_ps(pd(_mm256_andnot_si256(dropped, _mm256_or_si256(bits, carried))))
    }

    /// Integers of 32 bits with more than 24 significant ones, cut to 24 at least, of which the last is set where
    /// anything was lost.
    unsafe fn odd_int(value: V) -> V {
        let dropped = _mm256_set1_epi32(0xff);
        let carried = _mm256_add_epi32(_mm256_and_si256(value, dropped), dropped);
        _mm256_andnot_si256(dropped, _mm256_or_si256(value, carried))
    }

    /// Two vectors of four floats as lanes.
    unsafe fn floats(low: __m128, high: __m128) -> V { _mm256_castps_si256(_mm256_set_m128(high, low)) }
    /// Numbers as they are, NaN as zero.
    unsafe fn number(value: __m256) -> __m256 { _mm256_and_ps(value, _mm256_cmp_ps::<_CMP_ORD_Q>(value, value)) }
    unsafe fn number_pd(value: __m256d) -> __m256d { _mm256_and_pd(value, _mm256_cmp_pd::<_CMP_ORD_Q>(value, value)) }

    /// 4 doubles to unsigned integers of 32 bits: the low half of the sum with a double whose last place is 1.
    unsafe fn double_to_uint(value: V) -> __m128i {
        // The maximum of NaN and zero is the second operand.
        let positive = _mm256_max_pd(pd(value), _mm256_setzero_pd());
        let whole = _mm256_round_pd::<TOWARD_ZERO>(_mm256_min_pd(positive, _mm256_set1_pd(4294967295.0)));
        let sum = _mm256_castpd_si256(_mm256_add_pd(whole, _mm256_set1_pd(4503599627370496.0)));
        let even = _mm256_permutevar8x32_epi32(sum, _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6));
        _mm256_castsi256_si128(even)
    }

    /// 4 doubles to the low four bits of the nearest integer.
    unsafe fn double_to_low_bits(value: V) -> __m128i {
        // The remainder by 16 is exact; that of infinity is NaN, for which the conversion gives zeros below the top.
        let nearest = _mm256_round_pd::<NEAREST>(pd(value));
        let sixteens = _mm256_round_pd::<DOWN>(_mm256_mul_pd(nearest, _mm256_set1_pd(1.0 / 16.0)));
        _mm256_cvttpd_epi32(_mm256_fnmadd_pd(sixteens, _mm256_set1_pd(16.0), nearest))
    }

    /// 4 doubles to integers of 64 bits: the significand, shifted by the exponent.
    unsafe fn double_to_long<const SIGNED: bool>(value: V) -> V {
        // Without a sign, what is negative or NaN is 0, the second operand.
        let value = if SIGNED { pd(value) } else { _mm256_max_pd(pd(value), _mm256_setzero_pd()) };
        let bits = _mm256_castpd_si256(value);
        let magnitude = if SIGNED { _mm256_and_si256(bits, _mm256_set1_epi64x(i64::MAX)) } else { bits };
        let fraction = _mm256_and_si256(bits, _mm256_set1_epi64x((1 << 52) - 1));
        let significand = _mm256_or_si256(fraction, _mm256_set1_epi64x(1 << 52));
        // A shift by 64 or more, and so one by a negative number, gives 0; of the two shifts one is right.
        let exponent = _mm256_srli_epi64::<52>(magnitude);
        let unit = _mm256_set1_epi64x(1023 + 52);
        let right = _mm256_srlv_epi64(significand, _mm256_sub_epi64(unit, exponent));
        let left = _mm256_sllv_epi64(significand, _mm256_sub_epi64(exponent, unit));
        let whole = _mm256_or_si256(right, left);
        if !SIGNED {
            let beyond = _mm256_cmp_pd::<_CMP_GE_OQ>(value, _mm256_set1_pd(18446744073709551616.0));
            return _mm256_or_si256(whole, _mm256_castpd_si256(beyond));
        }
        let sign = _mm256_cmpgt_epi64(_mm256_setzero_si256(), bits);
        let whole = _mm256_sub_epi64(_mm256_xor_si256(whole, sign), sign);
        let beyond = _mm256_cmpgt_epi64(magnitude, _mm256_set1_epi64x(((1023 + 63) << 52) - 1));
        let end = _mm256_xor_si256(sign, _mm256_set1_epi64x(i64::MAX));
        let is_number = _mm256_castpd_si256(_mm256_cmp_pd::<_CMP_ORD_Q>(value, value));
        _mm256_and_si256(_mm256_blendv_epi8(whole, end, beyond), is_number)
    }

    /// Converts 8 floats to 64-bit integers. Floats in the range of 32-bit integers are converted by one instruction.
    /// Others are rare, and so is NaN in casts to signed integers.
    unsafe fn float_to_long<const SIGNED: bool>(value: V) -> [V; 2] {
        // Without a sign, what is negative or NaN is 0, the second operand.
        let value = if SIGNED { value } else { _mm256_castps_si256(_mm256_max_ps(ps(value), _mm256_setzero_ps())) };
        let magnitude = _mm256_and_si256(value, _mm256_set1_epi32(i32::MAX));
        let beyond = _mm256_cmpgt_epi32(magnitude, _mm256_set1_epi32(0x4eff_ffff));
        if _mm256_testz_si256(beyond, beyond) == 0 {
            let [low, high] = Ymm::f32_to_f64(value);
            return [double_to_long::<SIGNED>(low), double_to_long::<SIGNED>(high)];
        }
        let ints = _mm256_cvttps_epi32(ps(value));
        let (low, high) = (_mm256_castsi256_si128(ints), _mm256_extracti128_si256::<1>(ints));
        [_mm256_cvtepi32_epi64(low), _mm256_cvtepi32_epi64(high)]
    }

    /// Indices of elements of 2 bits ([`Lanes::LEAVES_IN_PLACE`]), whose 8 bytes `indices` puts four times each: two of
    /// the four are moved down by a half.
    unsafe fn spread(src: *const u8, indices: V) -> V {
        let fours = _mm256_shuffle_epi8(_mm256_set1_epi64x(src.cast::<i64>().read_unaligned()), indices);
        let halves = _mm256_blend_epi16::<0b1010_1010>(fours, _mm256_srli_epi16::<4>(fours));
        _mm256_and_si256(halves, _mm256_set1_epi32(0x0c03_0c03))
    }

    /// What the first tables have at indices below 128, and nothing at others. Each table but the first has what its
    /// entries differ by from those before, because a shuffle gives 0 only where the index is negative: it is lowered
    /// by 16 from table to table, and stays below 0 once it is.
    unsafe fn look_up_sixteens(tables: &[V], index: V) -> V {
        let mut entry = _mm256_shuffle_epi8(tables[0], index);
        let mut lowered = index;
        for table in &tables[1..] {
            lowered = _mm256_subs_epi8(lowered, _mm256_set1_epi8(16));
            entry = _mm256_xor_si256(entry, _mm256_shuffle_epi8(*table, lowered));
        }
        entry
    }
}

// SAFETY: each method is what the intrinsics' documentation says of them, which `tests/kernels.rs` checks for every
// method by every kernel.
unsafe impl Lanes for Ymm {
    type V = V;
    /// All bits of a lane, or none.
    type M = V;
    type Table<const N: usize> = [V; N];

    const BYTES: usize = 32;
    const WIDE_LOOK_UP: bool = false;
    const ZERO_BEYOND: bool = true;
    const LEAVES_IN_PLACE: bool = true;
    const F64_OVERFLOWS: bool = true;
    const FUSES: bool = true;
    const STREAMS: bool = true;

    inlined! {
        unsafe fn load(src: *const u8) -> V { _mm256_loadu_si256(src.cast()) }
        unsafe fn store(dst: *mut u8, value: V) { _mm256_storeu_si256(dst.cast(), value) }
        unsafe fn stream(dst: *mut u8, value: V) { _mm256_stream_si256(dst.cast(), value) }
        unsafe fn fence() { _mm_sfence() }
        unsafe fn prefetch(address: *const u8) { _mm_prefetch::<_MM_HINT_T0>(address.cast()) }
        unsafe fn load_f16(src: *const u8) -> V { _mm256_castps_si256(_mm256_cvtph_ps(_mm_loadu_si128(src.cast()))) }
        unsafe fn and(a: V, b: V) -> V { _mm256_and_si256(a, b) }
        unsafe fn or(a: V, b: V) -> V { _mm256_or_si256(a, b) }
        unsafe fn select_by_top_bit(mask: V, a: V, b: V) -> V { _mm256_blendv_epi8(b, a, mask) }
        unsafe fn max_i8(a: V, b: V) -> V { _mm256_max_epi8(a, b) }
        unsafe fn look_up_nibble(table: &[V; 1], index: V) -> V { _mm256_shuffle_epi8(table[0], index) }
        unsafe fn look_up_nibble_or_zero(table: &[V; 1], index: V) -> V { _mm256_shuffle_epi8(table[0], index) }
        unsafe fn saturating_sub(a: V, b: V) -> V { _mm256_subs_epu16(a, b) }
        // A comparison gives -1, and there is one for "not above".
        unsafe fn plus_above(a: V, value: V, limit: V) -> V {
            let above = _mm256_add_epi8(a, _mm256_set1_epi8(1));
            _mm256_add_epi8(above, _mm256_cmpeq_epi8(_mm256_max_epu8(value, limit), limit))
        }
        unsafe fn add_f32(a: V, b: V) -> V { _mm256_castps_si256(_mm256_add_ps(ps(a), ps(b))) }
        unsafe fn mul_f32(a: V, b: V) -> V { _mm256_castps_si256(_mm256_mul_ps(ps(a), ps(b))) }
        unsafe fn mul_add_f32(a: V, b: V, c: V) -> V { _mm256_castps_si256(_mm256_fmadd_ps(ps(a), ps(b), ps(c))) }
        unsafe fn is_nan_f32(value: V) -> V { _mm256_castps_si256(_mm256_cmp_ps::<_CMP_UNORD_Q>(ps(value), ps(value))) }
        unsafe fn min_f32(a: V, b: V) -> V { _mm256_castps_si256(_mm256_min_ps(ps(a), ps(b))) }
        unsafe fn max_f32(a: V, b: V) -> V { _mm256_castps_si256(_mm256_max_ps(ps(a), ps(b))) }
        unsafe fn high_bytes(value: [V; 2]) -> V {
            in_order_of_halves(_mm256_packus_epi16(
                _mm256_srli_epi16::<8>(value[0]), _mm256_srli_epi16::<8>(value[1])
            ))
        }
        unsafe fn in_order_of_words(value: V) -> V { in_order_of_halves(value) }
        unsafe fn merge_words(low: V, high: V) -> V {
            _mm256_blend_epi16::<0b1010_1010>(low, _mm256_slli_epi32::<16>(high))
        }
        unsafe fn low_bytes(value: [V; 4]) -> V { in_order_of_quarters(Self::narrow_lanes(value)) }
        unsafe fn narrow_lanes(value: [V; 4]) -> V {
            let low = _mm256_set1_epi32(0xff);
            let first = _mm256_packus_epi32(Self::and(value[0], low), Self::and(value[1], low));
            let second = _mm256_packus_epi32(Self::and(value[2], low), Self::and(value[3], low));
            _mm256_packus_epi16(first, second)
        }
        // Saturation keeps the sign, the one bit that counts.
        unsafe fn narrow_top_bits(value: [V; 4]) -> V {
            _mm256_packs_epi16(
                _mm256_packs_epi32(value[0], value[1]), _mm256_packs_epi32(value[2], value[3])
            )
        }
        unsafe fn in_order_of_lanes(value: V) -> V { in_order_of_quarters(value) }
        unsafe fn f32_to_f16(value: [V; 2]) -> V {
            join(
                _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(ps(value[0])),
                _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(ps(value[1]))
            )
        }
        unsafe fn f32_to_f64(value: V) -> [V; 2] {
            [
                _mm256_castpd_si256(_mm256_cvtps_pd(_mm256_castps256_ps128(ps(value)))),
                _mm256_castpd_si256(_mm256_cvtps_pd(_mm256_extractf128_ps::<1>(ps(value))))
            ]
        }
        unsafe fn f64_to_f32(value: [V; 2]) -> V {
            floats(_mm256_cvtpd_ps(pd(value[0])), _mm256_cvtpd_ps(pd(value[1])))
        }
        unsafe fn f64_to_f32_odd(value: [V; 2]) -> V { floats(odd_float(pd(value[0])), odd_float(pd(value[1]))) }
        // From 2^31 on the conversion gives 2^31, whose low bits are zero as those of any float so large.
        unsafe fn f32_to_low_bits(value: V) -> V { _mm256_cvtps_epi32(ps(value)) }
        unsafe fn round_to_int(value: V) -> V { _mm256_cvtps_epi32(ps(value)) }
        unsafe fn f64_to_low_bits(value: [V; 2]) -> V {
            join(double_to_low_bits(value[0]), double_to_low_bits(value[1]))
        }
        unsafe fn zip_bytes(a: V, b: V) -> [V; 2] {
            let (low, high) = (_mm256_unpacklo_epi8(a, b), _mm256_unpackhi_epi8(a, b));
            [_mm256_permute2x128_si256::<0x20>(low, high), _mm256_permute2x128_si256::<0x31>(low, high)]
        }
    }

    by_width! {
        splat(value: u64) -> V: 8 => _mm256_set1_epi8(value as i8), 16 => _mm256_set1_epi16(value as i16),
            32 => _mm256_set1_epi32(value as i32), 64 => _mm256_set1_epi64x(value as i64);
        add(a: V, b: V) -> V: 16 => _mm256_add_epi16(a, b), 32 => _mm256_add_epi32(a, b);
        with_sign_of(a: V, b: V) -> V: 8 => _mm256_sign_epi8(a, b), 16 => _mm256_sign_epi16(a, b);
        sub(a: V, b: V) -> V: 8 => _mm256_sub_epi8(a, b), 16 => _mm256_sub_epi16(a, b), 32 => _mm256_sub_epi32(a, b);
        min_u(a: V, b: V) -> V: 8 => _mm256_min_epu8(a, b), 16 => _mm256_min_epu16(a, b), 32 => _mm256_min_epu32(a, b);
        max_u(a: V, b: V) -> V: 8 => _mm256_max_epu8(a, b), 16 => _mm256_max_epu16(a, b), 32 => _mm256_max_epu32(a, b);
        gt(a: V, b: V) -> V: 8 => _mm256_cmpgt_epi8(a, b), 16 => _mm256_cmpgt_epi16(a, b), 32 => _mm256_cmpgt_epi32(a, b);
        eq(a: V, b: V) -> V: 8 => _mm256_cmpeq_epi8(a, b), 16 => _mm256_cmpeq_epi16(a, b),
            32 => _mm256_cmpeq_epi32(a, b), 64 => _mm256_cmpeq_epi64(a, b);
        select(mask: V, a: V, b: V) -> V: 8 => _mm256_blendv_epi8(b, a, mask), 16 => _mm256_blendv_epi8(b, a, mask),
            32 => _mm256_blendv_epi8(b, a, mask), 64 => _mm256_blendv_epi8(b, a, mask);
        any(mask: V) -> bool: 32 => _mm256_testz_si256(mask, mask) == 0;
        low_halves(value: [V; 2]) -> V: 16 => {
            let low = _mm256_set1_epi16(0xff);
            in_order_of_halves(_mm256_packus_epi16(Self::and(value[0], low), Self::and(value[1], low)))
        }, 32 => {
            let ([a, b], zero) = (value, _mm256_setzero_si256());
            in_order_of_halves(_mm256_packus_epi32(
                _mm256_blend_epi16::<0b1010_1010>(a, zero), _mm256_blend_epi16::<0b1010_1010>(b, zero)
            ))
        }, 64 => {
            let lanes = _mm256_shuffle_ps::<0b10_00_10_00>(ps(value[0]), ps(value[1]));
            in_order_of_halves(_mm256_castps_si256(lanes))
        };
        high_halves(value: [V; 2]) -> V: 64 => high_lanes(value[0], value[1]),
            32 => in_order_of_halves(_mm256_packus_epi32(Self::shr::<32, 16>(value[0]), Self::shr::<32, 16>(value[1])));
    }

    by_sign! {
        saturate_to_16(value: [V; 2]) -> V: in_order_of_halves(_mm256_packs_epi32(value[0], value[1])),
            in_order_of_halves(_mm256_packus_epi32(value[0], value[1]));
        saturate_to_8(value: [V; 4]) -> V: in_order_of_quarters(_mm256_packs_epi16(
            _mm256_packs_epi32(value[0], value[1]), _mm256_packs_epi32(value[2], value[3])
        )), in_order_of_quarters(_mm256_packus_epi16(
            _mm256_packs_epi32(value[0], value[1]), _mm256_packs_epi32(value[2], value[3])
        ));
        narrow_words(value: [V; 2]) -> V: _mm256_packs_epi16(value[0], value[1]), _mm256_packus_epi16(value[0], value[1]);
        saturate_to_i32(value: [V; 2]) -> V: {
            let (low, high) = (Self::low_halves::<64>(value), high_lanes(value[0], value[1]));
            let fits = _mm256_cmpeq_epi32(high, _mm256_srai_epi32::<31>(low));
            let ends = _mm256_xor_si256(_mm256_srai_epi32::<31>(high), _mm256_set1_epi32(i32::MAX));
            _mm256_blendv_epi8(ends, low, fits)
        }, {
            let (low, high) = (Self::low_halves::<64>(value), high_lanes(value[0], value[1]));
            let limit = _mm256_set1_epi32(i32::MAX);
            let fits = _mm256_cmpeq_epi32(high, _mm256_setzero_si256());
            _mm256_blendv_epi8(limit, _mm256_min_epu32(low, limit), fits)
        };
        int_to_f32(value: V) -> V: _mm256_castps_si256(_mm256_cvtepi32_ps(value)), {
            // Halves of 16 bits are exact in floats, and so are the high ones times 2^16, so that only the sum is
            // rounded.
            let high = _mm256_cvtepi32_ps(_mm256_srli_epi32::<16>(value));
            let low = _mm256_cvtepi32_ps(_mm256_blend_epi16::<0b1010_1010>(value, _mm256_setzero_si256()));
            _mm256_castps_si256(_mm256_fmadd_ps(high, _mm256_set1_ps(65536.0), low))
        };
        int_to_f32_odd(value: V) -> V: {
            let large = _mm256_cmpgt_epi32(_mm256_abs_epi32(value), _mm256_set1_epi32(0xff_ffff));
            // The magnitude of the smallest integer counts as negative; it is a power of two.
            Self::int_to_f32::<true>(_mm256_blendv_epi8(value, odd_int(value), large))
        }, {
            let small = _mm256_cmpeq_epi32(_mm256_srli_epi32::<24>(value), _mm256_setzero_si256());
            Self::int_to_f32::<false>(_mm256_blendv_epi8(odd_int(value), value, small))
        };
        int_to_f64(value: V) -> [V; 2]: [
            _mm256_castpd_si256(_mm256_cvtepi32_pd(_mm256_castsi256_si128(value))),
            _mm256_castpd_si256(_mm256_cvtepi32_pd(_mm256_extracti128_si256::<1>(value)))
        ], [
            Self::long_to_f64::<false>(_mm256_cvtepu32_epi64(_mm256_castsi256_si128(value))),
            Self::long_to_f64::<false>(_mm256_cvtepu32_epi64(_mm256_extracti128_si256::<1>(value)))
        ];
        long_to_f32(value: [V; 2]) -> V:
            floats(_mm256_cvtpd_ps(odd_double::<true>(value[0])), _mm256_cvtpd_ps(odd_double::<true>(value[1]))),
            floats(_mm256_cvtpd_ps(odd_double::<false>(value[0])), _mm256_cvtpd_ps(odd_double::<false>(value[1])));
        long_to_f32_odd(value: [V; 2]) -> V:
            floats(odd_float(odd_double::<true>(value[0])), odd_float(odd_double::<true>(value[1]))),
            floats(odd_float(odd_double::<false>(value[0])), odd_float(odd_double::<false>(value[1])));
        long_to_f64(value: V) -> V: _mm256_castpd_si256(long_to_double::<true>(value)),
            _mm256_castpd_si256(long_to_double::<false>(value));
        f32_to_int(value: V) -> V: {
            // An overflow gives the smallest integer, which is right on the negative side.
            let beyond = _mm256_cmp_ps::<_CMP_GE_OQ>(ps(value), _mm256_set1_ps(2147483648.0));
            _mm256_xor_si256(_mm256_cvttps_epi32(number(ps(value))), _mm256_castps_si256(beyond))
        }, {
            // The maximum of NaN and zero is the second operand. From 2^31 on the conversion gives 2^31, and what is
            // above that is converted apart.
            let positive = _mm256_max_ps(ps(value), _mm256_setzero_ps());
            let low = _mm256_cvttps_epi32(positive);
            let high = _mm256_cvttps_epi32(_mm256_sub_ps(positive, _mm256_set1_ps(2147483648.0)));
            let beyond = _mm256_cmp_ps::<_CMP_GE_OQ>(positive, _mm256_set1_ps(4294967296.0));
            let high = Self::and(high, _mm256_srai_epi32::<31>(low));
            Self::or(Self::or(low, high), _mm256_castps_si256(beyond))
        };
        // The minimum of a number and NaN is the second operand, of which the conversion makes the smallest integer.
        f32_to_short(value: V) -> V:
            _mm256_cvttps_epi32(number(_mm256_min_ps(_mm256_set1_ps(1073741824.0), ps(value)))),
            _mm256_cvttps_epi32(_mm256_min_ps(_mm256_set1_ps(1073741824.0), ps(value)));
        f64_to_int(value: [V; 2]) -> V: {
            let max = _mm256_set1_pd(2147483647.0);
            let [a, b] = [_mm256_min_pd(max, pd(value[0])), _mm256_min_pd(max, pd(value[1]))];
            join(_mm256_cvttpd_epi32(number_pd(a)), _mm256_cvttpd_epi32(number_pd(b)))
        }, join(double_to_uint(value[0]), double_to_uint(value[1]));
        f64_to_short(value: [V; 2]) -> V: Self::f64_to_int::<true>(value), {
            let max = _mm256_set1_pd(2147483647.0);
            let [a, b] = [_mm256_min_pd(max, pd(value[0])), _mm256_min_pd(max, pd(value[1]))];
            join(_mm256_cvttpd_epi32(a), _mm256_cvttpd_epi32(b))
        };
        f32_to_long(value: V) -> [V; 2]: float_to_long::<true>(value), float_to_long::<false>(value);
        f64_to_long(value: V) -> V: double_to_long::<true>(value), double_to_long::<false>(value);
    }

    // The compiler makes of these the shifts by a constant.
    shifts! {
        shl(value): _mm256_sll_epi16(value, count(N)), _mm256_sll_epi32(value, count(N));
        shr(value): _mm256_srl_epi16(value, count(N)), _mm256_srl_epi32(value, count(N));
    }

    extensions! {
        src:
        8, 16: _mm256_cvtepi8_epi16(_mm_loadu_si128(src.cast())), _mm256_cvtepu8_epi16(_mm_loadu_si128(src.cast()));
        8, 32: _mm256_cvtepi8_epi32(_mm_loadl_epi64(src.cast())), _mm256_cvtepu8_epi32(_mm_loadl_epi64(src.cast()));
        8, 64: _mm256_cvtepi8_epi64(_mm_cvtsi32_si128(src.cast::<i32>().read_unaligned())),
            _mm256_cvtepu8_epi64(_mm_cvtsi32_si128(src.cast::<i32>().read_unaligned()));
        16, 32: _mm256_cvtepi16_epi32(_mm_loadu_si128(src.cast())), _mm256_cvtepu16_epi32(_mm_loadu_si128(src.cast()));
        16, 64: _mm256_cvtepi16_epi64(_mm_loadl_epi64(src.cast())), _mm256_cvtepu16_epi64(_mm_loadl_epi64(src.cast()));
        32, 64: _mm256_cvtepi32_epi64(_mm_loadu_si128(src.cast())), _mm256_cvtepu32_epi64(_mm_loadu_si128(src.cast()));
    }

    #[inline(always)]
    unsafe fn load_codes<const BITS: usize>(src: *const u8) -> V {
        // SAFETY: AVX2 was detected (`is_available`), and `src` has the 4 * BITS bytes of a step. The loads need no
        // alignment.
        unsafe {
            // Each byte, or three of them, is first given the word in which its elements are then moved apart.
            match BITS {
                2 => {
                    let fours = _mm256_cvtepu8_epi32(_mm_loadl_epi64(src.cast()));
                    let pairs = Self::or(fours, _mm256_slli_epi32::<12>(fours));
                    Self::and(Self::or(pairs, _mm256_slli_epi32::<6>(pairs)), _mm256_set1_epi8(3))
                }
                4 => {
                    let pairs = _mm256_cvtepu8_epi16(_mm_loadu_si128(src.cast()));
                    Self::and(Self::or(pairs, _mm256_slli_epi16::<4>(pairs)), _mm256_set1_epi8(15))
                }
                6 => {
                    // The upper half is loaded with the bytes before it that are there too.
                    let packed = join(_mm_loadu_si128(src.cast()), _mm_loadu_si128(src.add(8).cast()));
                    let indices = _mm256_setr_epi8(
                        0, 1, 1, 2, 3, 4, 4, 5, 6, 7, 7, 8, 9, 10, 10, 11, //
                        4, 5, 5, 6, 7, 8, 8, 9, 10, 11, 11, 12, 13, 14, 14, 15,
                    );
                    // Two elements in the low 12 bits of each word; adding the upper one thrice moves it a byte up.
                    let words =
                        _mm256_mullo_epi16(_mm256_shuffle_epi8(packed, indices), _mm256_set1_epi32(0x0001_0010));
                    let pairs = _mm256_srli_epi16::<4>(words);
                    let upper = Self::and(pairs, _mm256_set1_epi16(0x0fc0));
                    _mm256_add_epi16(pairs, _mm256_mullo_epi16(upper, _mm256_set1_epi16(3)))
                }
                _ => unreachable!("no codes of this width"),
            }
        }
    }

    #[inline(always)]
    unsafe fn load_indices<const BITS: usize>(src: *const u8) -> V {
        if BITS != 2 {
            // SAFETY: the caller promises that the processor has AVX2 and that the codes of a step can be read.
            return unsafe { Self::load_codes::<BITS>(src) };
        }
        // SAFETY: AVX2 was detected (`is_available`), and `src` has the 8 bytes of a step. The load needs no alignment.
        unsafe {
            let indices = _mm256_setr_epi8(
                0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, //
                4, 4, 4, 4, 5, 5, 5, 5, 6, 6, 6, 6, 7, 7, 7, 7,
            );
            spread(src, indices)
        }
    }

    #[inline(always)]
    unsafe fn look_up_words<const BITS: usize>([low, high]: [&[V; 1]; 2], src: *const u8) -> [V; 2] {
        // SAFETY: AVX2 was detected (`is_available`), and `src` has the 4 * BITS bytes of a step. The loads need no
        // alignment.
        unsafe {
            // The bytes are given the places that make of each half the results of two eights that are a vector apart.
            let index = match BITS {
                2 => {
                    let indices = _mm256_setr_epi8(
                        0, 0, 0, 0, 1, 1, 1, 1, 4, 4, 4, 4, 5, 5, 5, 5, //
                        2, 2, 2, 2, 3, 3, 3, 3, 6, 6, 6, 6, 7, 7, 7, 7,
                    );
                    spread(src, indices)
                }
                4 => {
                    let packed = _mm256_broadcastsi128_si256(_mm_loadu_si128(src.cast()));
                    let pairs = _mm256_shuffle_epi8(
                        packed,
                        _mm256_setr_epi8(
                            0, -1, 1, -1, 2, -1, 3, -1, 8, -1, 9, -1, 10, -1, 11, -1, //
                            4, -1, 5, -1, 6, -1, 7, -1, 12, -1, 13, -1, 14, -1, 15, -1,
                        ),
                    );
                    Self::and(Self::or(pairs, _mm256_slli_epi16::<4>(pairs)), _mm256_set1_epi8(15))
                }
                _ => unreachable!("no codes of this width"),
            };
            let (low, high) = (_mm256_shuffle_epi8(low[0], index), _mm256_shuffle_epi8(high[0], index));
            [_mm256_unpacklo_epi8(low, high), _mm256_unpackhi_epi8(low, high)]
        }
    }

    #[inline(always)]
    unsafe fn store_codes<const BITS: usize>(dst: *mut u8, codes: V) {
        // SAFETY: AVX2 was detected (`is_available`), and `dst` has space for the 4 * BITS bytes of a step. The stores
        // need no alignment.
        unsafe {
            match BITS {
                2 => {
                    let pairs = _mm256_maddubs_epi16(codes, _mm256_set1_epi16(0x0401));
                    let fours = _mm256_madd_epi16(pairs, _mm256_set1_epi32(0x0010_0001));
                    let low_bytes = twice(&[0, 4, 8, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
                    let halves = _mm256_shuffle_epi8(fours, low_bytes);
                    let (low, high) = (_mm256_castsi256_si128(halves), _mm256_extracti128_si256::<1>(halves));
                    _mm_storel_epi64(dst.cast(), _mm_unpacklo_epi32(low, high));
                }
                4 => {
                    let pairs = _mm256_maddubs_epi16(codes, _mm256_set1_epi16(0x1001));
                    let (low, high) = (_mm256_castsi256_si128(pairs), _mm256_extracti128_si256::<1>(pairs));
                    _mm_storeu_si128(dst.cast(), _mm_packus_epi16(low, high));
                }
                6 => {
                    let pairs = _mm256_maddubs_epi16(codes, _mm256_set1_epi16(0x4001));
                    let fours = _mm256_madd_epi16(pairs, _mm256_set1_epi32(0x1000_0001));
                    let three_of_four = twice(&[0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, 0, 0, 0, 0]);
                    let halves = _mm256_shuffle_epi8(fours, three_of_four);
                    let dense = _mm256_permutevar8x32_epi32(halves, _mm256_setr_epi32(0, 1, 2, 4, 5, 6, 0, 0));
                    _mm_storeu_si128(dst.cast(), _mm256_castsi256_si128(dense));
                    _mm_storel_epi64(dst.add(16).cast(), _mm256_extracti128_si256::<1>(dense));
                }
                _ => unreachable!("no codes of this width"),
            }
        }
    }

    #[inline(always)]
    unsafe fn table<const N: usize>(entries: &[u8; 256]) -> [V; N] {
        // SAFETY: AVX2 was detected (`is_available`). Each load is of one array of 16 bytes.
        unsafe {
            let sixteens = entries.as_chunks().0;
            let mut tables = [twice(&sixteens[0]); N];
            for index in 1..N {
                let table = twice(&sixteens[index]);
                // The tables of each half of 256 entries are apart.
                tables[index] = if index == 8 { table } else { _mm256_xor_si256(table, twice(&sixteens[index - 1])) };
            }
            tables
        }
    }

    #[inline(always)]
    unsafe fn look_up<const N: usize>(table: &[V; N], index: V) -> V {
        // SAFETY: AVX2 was detected (`is_available`). The look-up accesses no memory but `table`.
        unsafe {
            if N <= 8 {
                return look_up_sixteens(table, index);
            }
            let other = _mm256_xor_si256(index, _mm256_set1_epi8(i8::MIN));
            _mm256_xor_si256(look_up_sixteens(&table[..8], index), look_up_sixteens(&table[8..], other))
        }
    }
}
