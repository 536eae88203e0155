//! AVX-512 with F, BW, DQ, VL, CD, VBMI and VBMI2 (Ice Lake, Zen 4 and later): 64 elements a step.

use crate::arch::generic::{self, Lanes, by_sign, by_width, extensions, inlined, isa, shifts};
use crate::element::Element;
use crate::kernel::{Context, KernelTable};
use core::arch::x86_64::*;

isa!(Avx512, TABLE, Zmm, "avx512f,avx512bw,avx512dq,avx512vl,avx512cd,avx512vbmi,avx512vbmi2,avx2,f16c,fma,bmi2");

pub(crate) static TABLE: KernelTable = KernelTable::new::<Avx512>();

/// Whether this machine has every instruction set that the kernels are compiled for.
pub(crate) fn is_available() -> bool {
    detected! {
        "avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512cd", "avx512vbmi", "avx512vbmi2", "avx2", "f16c", "fma",
        "bmi2"
    }
}

const TOWARD_ZERO: i32 = _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC;
const NEAREST: i32 = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
/// Of `vrangeps`: the one of less magnitude, with its sign cleared.
const MIN_MAGNITUDE: i32 = 0b1010;

/// Vectors of 64 bytes.
#[derive(Clone, Copy)]
pub(crate) struct Zmm;

/// The bytes of a vector, from a function of their places.
macro_rules! bytes {
    (|$index:ident| $byte:expr) => {{
        const BYTES: [u8; 64] = {
            let mut bytes = [0; 64];
            let mut $index = 0;
            while $index < 64 {
                bytes[$index] = ($byte) as u8;
                $index += 1;
            }
            bytes
        };
        _mm512_loadu_si512(BYTES.as_ptr().cast())
    }};
}

/// The same of two. (Not `array::map`, which the compiler does not always inline.)
#[inline(always)]
fn both<T, U>([a, b]: [T; 2], f: impl Fn(T) -> U) -> [U; 2] {
    [f(a), f(b)]
}

/// Functions of one instruction, with a constant, where a mask is. Of the intrinsics the compiler makes more: the mask
/// as a vector, and arithmetic with that.
macro_rules! masked {
    ($($(#[$doc:meta])* fn $name:ident($mask:ty): $instruction:literal, $constant:expr;)*) => {$(
        $(#[$doc])*
        #[inline]
        #[target_feature(enable = "avx512f,avx512bw")]
        fn $name(mut value: __m512i, mask: $mask) -> __m512i {
            // SAFETY: one instruction on registers, which this function's features have.
            unsafe {
                core::arch::asm!(
                    concat!($instruction, " {value}{{{mask}}}, {value}, {constant}"),
                    value = inout(zmm_reg) value,
                    mask = in(kreg) mask,
                    constant = in(zmm_reg) $constant,
                    options(pure, nomem, nostack, preserves_flags),
                );
            }
            value
        }
    )*};
}
masked! {
    /// Sets the lowest bit of lanes of 32.
    fn with_lowest_bit(u16): "vpord", _mm512_set1_epi32(1);
    /// Adds 1 to bytes.
    fn plus_one(u64): "vpaddb", _mm512_set1_epi8(1);
}

/// The bytes that the index names in each quarter, or zero where its top bit is set. From several intrinsics the
/// compiler would make permutations of two vectors.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn shuffled(mut bytes: V, index: V) -> V {
    // SAFETY: one instruction on registers, which this function's features have.
    unsafe {
        core::arch::asm!(
            "vpshufb {bytes}, {bytes}, {index}",
            bytes = inout(zmm_reg) bytes,
            index = in(zmm_reg) index,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    bytes
}

inlined! {
    unsafe fn ps(value: V) -> __m512 { _mm512_castsi512_ps(value) }

    unsafe fn si(value: __m512) -> V { _mm512_castps_si512(value) }

    /// Two vectors of half the width as one.
    unsafe fn join(low: __m256i, high: __m256i) -> __m512i {
        _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high)
    }

    /// The halves of a vector.
    unsafe fn halves(value: __m512i) -> [__m256i; 2] {
        [_mm512_castsi512_si256(value), _mm512_extracti64x4_epi64::<1>(value)]
    }

    /// 16 floats in two halves, cut toward zero from wider lanes; the lowest bit is set where that lost anything.
    unsafe fn odd_halves(low: (__m256, __mmask8), high: (__m256, __mmask8)) -> __m512i {
        let cut = join(_mm256_castps_si256(low.0), _mm256_castps_si256(high.0));
        with_lowest_bit(cut, u16::from(high.1) << 8 | u16::from(low.1))
    }

    /// 8 integers of 64 bits, cut to floats toward zero, and where that lost anything.
    unsafe fn cut_long<const SIGNED: bool>(value: __m512i) -> (__m256, __mmask8) {
        if SIGNED {
            let cut = _mm512_cvt_roundepi64_ps::<TOWARD_ZERO>(value);
            (cut, _mm512_cmpneq_epi64_mask(_mm512_cvttps_epi64(cut), value))
        } else {
            let cut = _mm512_cvt_roundepu64_ps::<TOWARD_ZERO>(value);
            (cut, _mm512_cmpneq_epi64_mask(_mm512_cvttps_epu64(cut), value))
        }
    }

    /// 8 doubles, cut to floats toward zero, and where that lost anything.
    unsafe fn cut_double(value: __m512i) -> (__m256, __mmask8) {
        let value = _mm512_castsi512_pd(value);
        let cut = _mm512_cvt_roundpd_ps::<TOWARD_ZERO>(value);
        (cut, _mm512_cmp_pd_mask::<_CMP_NEQ_UQ>(_mm512_cvtps_pd(cut), value))
    }

    /// 8 doubles as integers of 32 bits: toward zero, saturating, NaN to 0.
    unsafe fn double_to_int<const SIGNED: bool>(value: __m512i) -> __m256i {
        let value = _mm512_castsi512_pd(value);
        if SIGNED {
            // An overflow gives the smallest integer, which is right on the negative side.
            let is_number = _mm512_cmp_pd_mask::<_CMP_ORD_Q>(value, value);
            _mm512_maskz_cvttpd_epi32(is_number, _mm512_min_pd(value, _mm512_set1_pd(2147483647.0)))
        } else {
            // The maximum of NaN and zero is the second operand. An overflow gives all ones.
            _mm512_cvttpd_epu32(_mm512_max_pd(value, _mm512_setzero_pd()))
        }
    }

    /// The bytes at an index into two pairs of vectors.
    unsafe fn every_fourth(value: [V; 4], index: V) -> V {
        let first = _mm512_permutex2var_epi8(value[0], index, value[1]);
        let second = _mm512_permutex2var_epi8(value[2], index, value[3]);
        // The index repeats, so the upper half of `second` holds its bytes too.
        _mm512_mask_blend_epi64(0xf0, first, second)
    }

    /// Puts in order what packing, which takes from two vectors quarter by quarter, has made of them.
    unsafe fn in_order_of_halves(value: V) -> V {
        _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7), value)
    }

    /// The same for what was packed twice, from four vectors.
    unsafe fn in_order_of_quarters(value: V) -> V {
        let order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
        _mm512_permutexvar_epi32(order, value)
    }
}

/// The first `len` bytes of a vector, as a mask.
#[inline(always)]
fn first_bytes(len: usize) -> __mmask64 {
    if len >= 64 { __mmask64::MAX } else { (1 << len) - 1 }
}

type V = __m512i;

// SAFETY: each method is what the intrinsics' documentation says of them, which `tests/kernels.rs` and the unit tests
// of `arch` check for every method by every kernel.
unsafe impl Lanes for Zmm {
    type V = V;
    /// One bit for each lane, from the lowest up.
    type M = u64;
    type Table<const N: usize> = [V; 4];

    const BYTES: usize = 64;
    const WIDE_LOOK_UP: bool = true;
    const WRAPS: bool = true;
    const LEAVES_IN_PLACE: bool = true;
    const F64_OVERFLOWS: bool = false;
    const FUSES: bool = true;
    const STREAMS: bool = true;

    inlined! {
        unsafe fn load(src: *const u8) -> V { _mm512_loadu_si512(src.cast()) }
        unsafe fn store(dst: *mut u8, value: V) { _mm512_storeu_si512(dst.cast(), value) }
        unsafe fn stream(dst: *mut u8, value: V) { _mm512_stream_si512(dst.cast(), value) }
        unsafe fn fence() { _mm_sfence() }
        unsafe fn prefetch(address: *const u8) { _mm_prefetch::<_MM_HINT_T0>(address.cast()) }
        unsafe fn load_f16(src: *const u8) -> V { _mm512_castps_si512(_mm512_cvtph_ps(_mm256_loadu_si256(src.cast()))) }
        unsafe fn and(a: V, b: V) -> V { _mm512_and_si512(a, b) }
        unsafe fn or(a: V, b: V) -> V { _mm512_or_si512(a, b) }
        unsafe fn saturating_sub(a: V, b: V) -> V { _mm512_subs_epu16(a, b) }
        unsafe fn plus_above(a: V, value: V, limit: V) -> V { plus_one(a, _mm512_cmpgt_epu8_mask(value, limit)) }
        unsafe fn max_i8(a: V, b: V) -> V { _mm512_max_epi8(a, b) }
        unsafe fn add_f32(a: V, b: V) -> V { si(_mm512_add_ps(ps(a), ps(b))) }
        unsafe fn mul_f32(a: V, b: V) -> V { si(_mm512_mul_ps(ps(a), ps(b))) }
        unsafe fn mul_add_f32(a: V, b: V, c: V) -> V { si(_mm512_fmadd_ps(ps(a), ps(b), ps(c))) }
        unsafe fn is_nan_f32(value: V) -> u64 { _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(ps(value), ps(value)).into() }
        unsafe fn min_f32(a: V, b: V) -> V { si(_mm512_min_ps(ps(a), ps(b))) }
        unsafe fn max_f32(a: V, b: V) -> V { si(_mm512_max_ps(ps(a), ps(b))) }
        unsafe fn min_magnitude(value: V, limit: V) -> V { si(_mm512_range_ps::<MIN_MAGNITUDE>(ps(value), ps(limit))) }
        unsafe fn high_bytes(value: [V; 2]) -> V { _mm512_permutex2var_epi8(value[0], bytes!(|i| 2 * i + 1), value[1]) }
        unsafe fn in_order_of_words(value: V) -> V { in_order_of_halves(value) }
        unsafe fn merge_words(low: V, high: V) -> V {
            _mm512_mask_mov_epi16(low, 0xaaaa_aaaa, _mm512_slli_epi32::<16>(high))
        }
        unsafe fn low_bytes(value: [V; 4]) -> V { every_fourth(value, bytes!(|i| i * 4 % 128)) }
        // A permutation of two vectors is three instructions on Intel; these are one each. With a mask for each vector,
        // the masks would be loaded in each step, on the same port.
        unsafe fn narrow_lanes(value: [V; 4]) -> V {
            let low = [
                shuffled(value[0], bytes!(|i| if i % 16 / 4 == 0 { i % 4 * 4 } else { 0x80 })),
                shuffled(value[1], bytes!(|i| if i % 16 / 4 == 1 { i % 4 * 4 } else { 0x80 })),
                shuffled(value[2], bytes!(|i| if i % 16 / 4 == 2 { i % 4 * 4 } else { 0x80 })),
                shuffled(value[3], bytes!(|i| if i % 16 / 4 == 3 { i % 4 * 4 } else { 0x80 })),
            ];
            _mm512_or_si512(_mm512_ternarylogic_epi64::<0xfe>(low[0], low[1], low[2]), low[3])
        }
        // Saturation keeps the sign, the one bit that counts.
        unsafe fn narrow_top_bits(value: [V; 4]) -> V {
            _mm512_packs_epi16(
                _mm512_packs_epi32(value[0], value[1]), _mm512_packs_epi32(value[2], value[3])
            )
        }
        unsafe fn in_order_of_lanes(value: V) -> V { in_order_of_quarters(value) }
        unsafe fn f32_to_f16(value: [V; 2]) -> V {
            join(
                _mm512_cvt_roundps_ph::<NEAREST>(_mm512_castsi512_ps(value[0])),
                _mm512_cvt_roundps_ph::<NEAREST>(_mm512_castsi512_ps(value[1]))
            )
        }
        unsafe fn f32_to_f64(value: V) -> [V; 2] {
            both(
                halves(value),
                #[inline(always)] |half| _mm512_castpd_si512(_mm512_cvtps_pd(_mm256_castsi256_ps(half)))
            )
        }
        unsafe fn f64_to_f32(value: [V; 2]) -> V {
            let [low, high] = both(value, #[inline(always)] |half| _mm512_cvt_roundpd_ps::<NEAREST>(_mm512_castsi512_pd(half)));
            join(_mm256_castps_si256(low), _mm256_castps_si256(high))
        }
        unsafe fn f64_to_f32_odd(value: [V; 2]) -> V { odd_halves(cut_double(value[0]), cut_double(value[1])) }
        // From 2^31 on the conversion gives 2^31, whose low bits are zero as those of any float so large.
        unsafe fn f32_to_low_bits(value: V) -> V { _mm512_cvt_roundps_epi32::<NEAREST>(_mm512_castsi512_ps(value)) }
        unsafe fn round_to_int(value: V) -> V { _mm512_cvt_roundps_epi32::<NEAREST>(_mm512_castsi512_ps(value)) }
        // Half is rounded up, and then an even result is chosen where the rest was half.
        unsafe fn f32_to_bf16(value: [V; 2]) -> V {
            let up = both(value, #[inline(always)] |lanes| _mm512_add_epi32(lanes, _mm512_set1_epi32(0x8000)));
            let was_half = _mm512_testn_epi16_mask(Self::low_halves::<32>(up), _mm512_set1_epi16(-1));
            let rounded = Self::high_halves::<32>(up);
            _mm512_mask_sub_epi16(rounded, was_half, rounded, _mm512_and_si512(rounded, _mm512_set1_epi16(1)))
        }
        unsafe fn f64_to_low_bits(value: [V; 2]) -> V {
            Self::low_halves::<64>(both(
                value,
                #[inline(always)] |half| _mm512_cvt_roundpd_epi64::<NEAREST>(_mm512_castsi512_pd(half))
            ))
        }
        unsafe fn in_zip_order(value: V) -> V {
            _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7), value)
        }
        unsafe fn zip_bytes(a: V, b: V) -> [V; 2] { [_mm512_unpacklo_epi8(a, b), _mm512_unpackhi_epi8(a, b)] }
        // Whole vectors are written, as the step reads them: it would wait for narrower stores to reach the cache.
        unsafe fn copy_padded(src: *const u8, dst: *mut u8, len: usize, whole: usize) {
            for start in (0..whole).step_by(64) {
            let vector = if start < len {
                _mm512_maskz_loadu_epi8(first_bytes(len - start), src.add(start).cast())
            } else {
                _mm512_setzero_si512()
            };
            _mm512_storeu_si512(dst.add(start).cast(), vector);
        }
        }
        // Nothing behind the `whole` bytes is read: it may be uninitialised.
        unsafe fn copy_few(src: *const u8, dst: *mut u8, len: usize, whole: usize) {
            for start in (0..len).step_by(64) {
            let few = first_bytes(len - start);
            let vector = if whole.is_multiple_of(64) {
                _mm512_loadu_si512(src.add(start).cast())
            } else {
                _mm512_maskz_loadu_epi8(few, src.add(start).cast())
            };
            _mm512_mask_storeu_epi8(dst.add(start).cast(), few, vector);
        }
        }
    }

    by_width! {
        splat(value: u64) -> V: 8 => _mm512_set1_epi8(value as i8), 16 => _mm512_set1_epi16(value as i16),
            32 => _mm512_set1_epi32(value as i32), 64 => _mm512_set1_epi64(value as i64);
        add(a: V, b: V) -> V: 16 => _mm512_add_epi16(a, b), 32 => _mm512_add_epi32(a, b);
        sub(a: V, b: V) -> V: 8 => _mm512_sub_epi8(a, b), 16 => _mm512_sub_epi16(a, b), 32 => _mm512_sub_epi32(a, b);
        min_u(a: V, b: V) -> V: 8 => _mm512_min_epu8(a, b), 16 => _mm512_min_epu16(a, b), 32 => _mm512_min_epu32(a, b);
        max_u(a: V, b: V) -> V: 8 => _mm512_max_epu8(a, b), 16 => _mm512_max_epu16(a, b), 32 => _mm512_max_epu32(a, b);
        gt(a: V, b: V) -> u64: 8 => _mm512_cmpgt_epi8_mask(a, b), 16 => _mm512_cmpgt_epi16_mask(a, b).into(),
            32 => _mm512_cmpgt_epi32_mask(a, b).into();
        eq(a: V, b: V) -> u64: 8 => _mm512_cmpeq_epi8_mask(a, b), 16 => _mm512_cmpeq_epi16_mask(a, b).into(),
            32 => _mm512_cmpeq_epi32_mask(a, b).into(), 64 => _mm512_cmpeq_epi64_mask(a, b).into();
        select(mask: u64, a: V, b: V) -> V: 8 => _mm512_mask_mov_epi8(b, mask, a),
            16 => _mm512_mask_mov_epi16(b, mask as u32, a), 32 => _mm512_mask_mov_epi32(b, mask as u16, a),
            64 => _mm512_mask_mov_epi64(b, mask as u8, a);
        any(mask: u64) -> bool: 32 => mask as u16 != 0;
        low_halves(value: [V; 2]) -> V:
            16 => _mm512_permutex2var_epi8(value[0], bytes!(|i| 2 * i), value[1]),
            32 => _mm512_permutex2var_epi16(value[0], bytes!(|i| if i % 2 == 0 { i } else { 0 }), value[1]),
            64 => _mm512_permutex2var_epi32(value[0], bytes!(|i| if i % 4 == 0 { i / 2 } else { 0 }), value[1]);
        high_halves(value: [V; 2]) -> V:
            32 => _mm512_permutex2var_epi16(value[0], bytes!(|i| if i % 2 == 0 { i + 1 } else { 0 }), value[1]),
            64 => _mm512_permutex2var_epi32(value[0], bytes!(|i| if i % 4 == 0 { i / 2 + 1 } else { 0 }), value[1]);
    }

    by_sign! {
        saturate_to_16(value: [V; 2]) -> V: in_order_of_halves(_mm512_packs_epi32(value[0], value[1])),
            in_order_of_halves(_mm512_packus_epi32(value[0], value[1]));
        saturate_to_8(value: [V; 4]) -> V: in_order_of_quarters(_mm512_packs_epi16(
            _mm512_packs_epi32(value[0], value[1]), _mm512_packs_epi32(value[2], value[3])
        )), in_order_of_quarters(_mm512_packus_epi16(
            _mm512_packs_epi32(value[0], value[1]), _mm512_packs_epi32(value[2], value[3])
        ));
        narrow_words(value: [V; 2]) -> V: _mm512_packs_epi16(value[0], value[1]), _mm512_packus_epi16(value[0], value[1]);
        saturate_to_i32(value: [V; 2]) -> V: {
            let (low, high) = (_mm512_set1_epi64(i32::MIN.into()), _mm512_set1_epi64(i32::MAX.into()));
            Self::low_halves::<64>(both(value, #[inline(always)] |value| _mm512_max_epi64(_mm512_min_epi64(value, high), low)))
        }, Self::low_halves::<64>(both(value, #[inline(always)] |value| _mm512_min_epu64(value, _mm512_set1_epi64(i32::MAX.into()))));
        int_to_f32(value: V) -> V: _mm512_castps_si512(_mm512_cvt_roundepi32_ps::<NEAREST>(value)),
            _mm512_castps_si512(_mm512_cvt_roundepu32_ps::<NEAREST>(value));
        int_to_f32_odd(value: V) -> V: {
            let cut = _mm512_cvt_roundepi32_ps::<TOWARD_ZERO>(value);
            with_lowest_bit(_mm512_castps_si512(cut), _mm512_cmpneq_epi32_mask(_mm512_cvttps_epi32(cut), value))
        }, {
            let cut = _mm512_cvt_roundepu32_ps::<TOWARD_ZERO>(value);
            with_lowest_bit(_mm512_castps_si512(cut), _mm512_cmpneq_epi32_mask(_mm512_cvttps_epu32(cut), value))
        };
        int_to_f64(value: V) -> [V; 2]: both(halves(value), #[inline(always)] |half| _mm512_castpd_si512(_mm512_cvtepi32_pd(half))),
            both(halves(value), #[inline(always)] |half| _mm512_castpd_si512(_mm512_cvtepu32_pd(half)));
        long_to_f32(value: [V; 2]) -> V: {
            let [low, high] = both(value, #[inline(always)] |value| _mm256_castps_si256(_mm512_cvt_roundepi64_ps::<NEAREST>(value)));
            join(low, high)
        }, {
            let [low, high] = both(value, #[inline(always)] |value| _mm256_castps_si256(_mm512_cvt_roundepu64_ps::<NEAREST>(value)));
            join(low, high)
        };
        long_to_f32_odd(value: [V; 2]) -> V: odd_halves(cut_long::<true>(value[0]), cut_long::<true>(value[1])),
            odd_halves(cut_long::<false>(value[0]), cut_long::<false>(value[1]));
        long_to_f64(value: V) -> V: _mm512_castpd_si512(_mm512_cvt_roundepi64_pd::<NEAREST>(value)),
            _mm512_castpd_si512(_mm512_cvt_roundepu64_pd::<NEAREST>(value));
        f32_to_int(value: V) -> V: {
            let value = _mm512_castsi512_ps(value);
            let is_number = _mm512_cmp_ps_mask::<_CMP_ORD_Q>(value, value);
            let is_beyond = _mm512_cmp_ps_mask::<_CMP_GE_OQ>(value, _mm512_set1_ps(2147483648.0));
            // An overflow gives the smallest integer, which is right on the negative side.
            _mm512_mask_mov_epi32(_mm512_maskz_cvttps_epi32(is_number, value), is_beyond, _mm512_set1_epi32(i32::MAX))
        }, {
            // The maximum of NaN and zero is the second operand. An overflow gives all ones.
            _mm512_cvttps_epu32(_mm512_max_ps(_mm512_castsi512_ps(value), _mm512_setzero_ps()))
        };
        f32_to_short(value: V) -> V: {
            let value = _mm512_castsi512_ps(value);
            let is_number = _mm512_cmp_ps_mask::<_CMP_ORD_Q>(value, value);
            _mm512_maskz_cvttps_epi32(is_number, _mm512_min_ps(_mm512_set1_ps(1073741824.0), value))
        }, {
            // The minimum of a number and NaN is the second operand, of which the conversion makes the smallest
            // integer.
            _mm512_cvttps_epi32(_mm512_min_ps(_mm512_set1_ps(1073741824.0), _mm512_castsi512_ps(value)))
        };
        f64_to_int(value: [V; 2]) -> V: join(double_to_int::<true>(value[0]), double_to_int::<true>(value[1])),
            join(double_to_int::<false>(value[0]), double_to_int::<false>(value[1]));
        f64_to_short(value: [V; 2]) -> V: Self::f64_to_int::<true>(value), {
            // The minimum of a number and NaN is NaN, the second operand, which converts to the smallest integer.
            let [low, high] = both(value, #[inline(always)] |value| {
                _mm512_cvttpd_epi32(_mm512_min_pd(_mm512_set1_pd(2147483647.0), _mm512_castsi512_pd(value)))
            });
            join(low, high)
        };
        f64_to_long(value: V) -> V: {
            let value = _mm512_castsi512_pd(value);
            let is_number = _mm512_cmp_pd_mask::<_CMP_ORD_Q>(value, value);
            let is_beyond = _mm512_cmp_pd_mask::<_CMP_GE_OQ>(value, _mm512_set1_pd(9223372036854775808.0));
            _mm512_mask_mov_epi64(_mm512_maskz_cvttpd_epi64(is_number, value), is_beyond, _mm512_set1_epi64(i64::MAX))
        }, _mm512_cvttpd_epu64(_mm512_max_pd(_mm512_castsi512_pd(value), _mm512_setzero_pd()));
        f32_to_long(value: V) -> [V; 2]: {
            let is_number = _mm512_cmp_ps_mask::<_CMP_ORD_Q>(ps(value), ps(value));
            let is_beyond = _mm512_cmp_ps_mask::<_CMP_GE_OQ>(ps(value), _mm512_set1_ps(9223372036854775808.0));
            let [low, high] = both(halves(value), #[inline(always)] |half| _mm256_castsi256_ps(half));
            let low = _mm512_maskz_cvttps_epi64(is_number as u8, low);
            let high = _mm512_maskz_cvttps_epi64((is_number >> 8) as u8, high);
            let max = _mm512_set1_epi64(i64::MAX);
            [_mm512_mask_mov_epi64(low, is_beyond as u8, max), _mm512_mask_mov_epi64(high, (is_beyond >> 8) as u8, max)]
        }, both(halves(si(_mm512_max_ps(ps(value), _mm512_setzero_ps()))), #[inline(always)] |half| {
            _mm512_cvttps_epu64(_mm256_castsi256_ps(half))
        });
    }

    shifts! {
        shl(value): _mm512_slli_epi16::<N>(value), _mm512_slli_epi32::<N>(value);
        shr(value): _mm512_srli_epi16::<N>(value), _mm512_srli_epi32::<N>(value);
    }

    extensions! {
        src:
        8, 16: _mm512_cvtepi8_epi16(_mm256_loadu_si256(src.cast())),
            _mm512_cvtepu8_epi16(_mm256_loadu_si256(src.cast()));
        8, 32: _mm512_cvtepi8_epi32(_mm_loadu_si128(src.cast())), _mm512_cvtepu8_epi32(_mm_loadu_si128(src.cast()));
        8, 64: _mm512_cvtepi8_epi64(_mm_loadl_epi64(src.cast())), _mm512_cvtepu8_epi64(_mm_loadl_epi64(src.cast()));
        16, 32: _mm512_cvtepi16_epi32(_mm256_loadu_si256(src.cast())),
            _mm512_cvtepu16_epi32(_mm256_loadu_si256(src.cast()));
        16, 64: _mm512_cvtepi16_epi64(_mm_loadu_si128(src.cast())), _mm512_cvtepu16_epi64(_mm_loadu_si128(src.cast()));
        32, 64: _mm512_cvtepi32_epi64(_mm256_loadu_si256(src.cast())),
            _mm512_cvtepu32_epi64(_mm256_loadu_si256(src.cast()));
    }

    #[inline(always)]
    unsafe fn load_codes<const BITS: usize>(src: *const u8) -> V {
        // SAFETY: AVX-512 was detected (`is_available`), and `src` has the 8 * BITS bytes of a step. The loads need no
        // alignment.
        unsafe {
            let codes = if BITS == 2 {
                let packed = _mm512_castsi128_si512(_mm_loadu_si128(src.cast()));
                let apart = _mm512_permutexvar_epi8(bytes!(|i| i / 8 * 2 + i % 8 % 2), packed);
                _mm512_multishift_epi64_epi8(bytes!(|i| i % 8 * 2), apart)
            } else {
                Self::load_indices::<BITS>(src)
            };
            Self::and(codes, Self::splat::<8>((1 << BITS) - 1))
        }
    }

    #[inline(always)]
    unsafe fn look_up_words<const BITS: usize>(tables: [&[V; 4]; 2], src: *const u8) -> [V; 2] {
        // SAFETY: AVX-512 was detected (`is_available`), and `src` has the 8 * BITS bytes of a step. The loads need no
        // alignment.
        unsafe {
            // The first 32 entries: those of codes of 4 bits twice. Those of 2 bits are repeated, as often as they fit.
            let [low, high] = tables.map(|table| _mm512_cvtepu8_epi16(_mm512_castsi512_si256(table[0])));
            let entries = _mm512_or_si512(low, _mm512_slli_epi16::<8>(high));
            // Each byte is given the two of a word for each of its elements, so that a shift by fewer than 8 leaves the
            // element in the lowest bits. What stands above it is ignored.
            let (packed, entries, indices, shifts) = match BITS {
                2 => (
                    _mm512_castsi128_si512(_mm_loadu_si128(src.cast())),
                    _mm512_broadcastq_epi64(_mm512_castsi512_si128(entries)),
                    [bytes!(|i| i / 8), bytes!(|i| i / 8 + 8)],
                    _mm512_set1_epi64(0x0006_0004_0002_0000),
                ),
                4 => (
                    _mm512_castsi256_si512(_mm256_loadu_si256(src.cast())),
                    entries,
                    [bytes!(|i| i / 4), bytes!(|i| i / 4 + 16)],
                    _mm512_set1_epi32(0x0004_0000),
                ),
                _ => unreachable!("no codes of this width"),
            };
            both(
                indices,
                #[inline(always)]
                |indices| {
                    let moved = _mm512_srlv_epi16(_mm512_permutexvar_epi8(indices, packed), shifts);
                    _mm512_permutexvar_epi16(moved, entries)
                },
            )
        }
    }

    #[inline(always)]
    unsafe fn store_upper_words(dst: *mut u8, words: [V; 2]) {
        // SAFETY: AVX-512 was detected (`is_available`), and `dst` has space for the 256 bytes of the lanes of a step.
        unsafe {
            let index = bytes!(|i| if i % 2 == 0 { i / 4 } else { 0 });
            for part in 0..4 {
                let indices = _mm512_add_epi16(index, _mm512_set1_epi16((part * 16 % 32) as i16));
                let lanes = _mm512_maskz_permutexvar_epi16(0xaaaa_aaaa, indices, words[part / 2]);
                Self::store(dst.add(64 * part), lanes);
            }
        }
    }

    #[inline(always)]
    unsafe fn load_indices<const BITS: usize>(src: *const u8) -> V {
        // SAFETY: AVX-512 was detected (`is_available`), and `src` has the 8 * BITS bytes of a step. The loads need no
        // alignment.
        unsafe {
            // Intel has one port for permutations, and the cutting of 64 bits into bytes is one: shifts are not.
            match BITS {
                2 => {
                    let packed = _mm512_castsi128_si512(_mm_loadu_si128(src.cast()));
                    let fours = _mm512_permutexvar_epi8(bytes!(|i| i / 4), packed);
                    let halves = _mm512_srlv_epi16(fours, _mm512_set1_epi32(4 << 16));
                    _mm512_and_si512(halves, _mm512_set1_epi32(0x0c03_0c03))
                }
                4 => {
                    let pairs = _mm512_cvtepu8_epi16(_mm256_loadu_si256(src.cast()));
                    _mm512_or_si512(pairs, _mm512_slli_epi16::<4>(pairs))
                }
                6 => {
                    // Eight elements are six bytes: those go to eight bytes of their own, which are then cut at the
                    // elements. 48 bytes take two loads, and below two stores: one with a mask takes twice as long on
                    // Zen 5.
                    let low = _mm512_castsi256_si512(_mm256_loadu_si256(src.cast()));
                    let packed = _mm512_inserti32x4::<2>(low, _mm_loadu_si128(src.add(32).cast()));
                    let apart = _mm512_permutexvar_epi8(bytes!(|i| i / 8 * 6 + i % 8 % 6), packed);
                    _mm512_multishift_epi64_epi8(bytes!(|i| i % 8 * 6), apart)
                }
                _ => unreachable!("no codes of this width"),
            }
        }
    }

    #[inline(always)]
    unsafe fn store_codes<const BITS: usize>(dst: *mut u8, codes: V) {
        // SAFETY: AVX-512 was detected (`is_available`), and `dst` has space for the 8 * BITS bytes of a step. The
        // stores need no alignment.
        unsafe {
            // One permutation is less work than the conversion to narrower lanes, which is two.
            match BITS {
                2 => {
                    let pairs = _mm512_maddubs_epi16(codes, _mm512_set1_epi16(0x0401));
                    let fours = _mm512_madd_epi16(pairs, _mm512_set1_epi32(0x0010_0001));
                    let dense = _mm512_permutexvar_epi8(bytes!(|i| i % 16 * 4), fours);
                    _mm_storeu_si128(dst.cast(), _mm512_castsi512_si128(dense));
                }
                4 => {
                    let pairs = _mm512_maddubs_epi16(codes, _mm512_set1_epi16(0x1001));
                    let dense = _mm512_permutexvar_epi8(bytes!(|i| i % 32 * 2), pairs);
                    _mm256_storeu_si256(dst.cast(), _mm512_castsi512_si256(dense));
                }
                6 => {
                    let pairs = _mm512_maddubs_epi16(codes, _mm512_set1_epi16(0x4001));
                    let fours = _mm512_madd_epi16(pairs, _mm512_set1_epi32(0x1000_0001));
                    let three_of_four = bytes!(|i| if i < 48 { i / 3 * 4 + i % 3 } else { 0 });
                    let dense = _mm512_permutexvar_epi8(three_of_four, fours);
                    _mm256_storeu_si256(dst.cast(), _mm512_castsi512_si256(dense));
                    _mm_storeu_si128(dst.add(32).cast(), _mm512_extracti32x4_epi32::<2>(dense));
                }
                _ => unreachable!("no codes of this width"),
            }
        }
    }

    #[inline(always)]
    unsafe fn table<const N: usize>(entries: &[u8; 256]) -> [V; 4] {
        // SAFETY: AVX-512 was detected (`is_available`), and `entries` has the 256 bytes of four vectors. The loads
        // need no alignment.
        unsafe {
            let part = entries.as_ptr();
            [Self::load(part), Self::load(part.add(64)), Self::load(part.add(128)), Self::load(part.add(192))]
        }
    }

    #[inline(always)]
    unsafe fn look_up<const N: usize>(table: &[V; 4], index: V) -> V {
        // SAFETY: AVX-512 was detected (`is_available`). The look-up accesses no memory but `table`.
        unsafe {
            match N {
                1 | 2 | 4 => _mm512_permutexvar_epi8(index, table[0]),
                8 => _mm512_permutex2var_epi8(table[0], index, table[1]),
                16 => {
                    let low = _mm512_permutex2var_epi8(table[0], index, table[1]);
                    let high = _mm512_permutex2var_epi8(table[2], index, table[3]);
                    _mm512_mask_blend_epi8(_mm512_movepi8_mask(index), low, high)
                }
                _ => unreachable!("no table of so many vectors"),
            }
        }
    }
}
