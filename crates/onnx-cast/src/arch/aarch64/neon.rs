//! NEON, which every AArch64 processor has but those without floats: 16 elements a step.
//!
//! Only what the first version of the architecture has is used: the types of half precision and bfloat16 that later
//! ones compute with would save little here, and would have to be asked for. There are no non-temporal stores: they
//! have no intrinsic, and the processors find out by themselves when lines are overwritten completely.

use crate::arch::generic::{self, Lanes, by_sign, by_width, extensions, inlined, isa, shifts};
use crate::element::Element;
use crate::kernel::{Context, KernelTable};
use core::arch::aarch64::*;
use core::arch::asm;

isa!(Neon, TABLE, Quad, "neon");

pub(crate) static TABLE: KernelTable = KernelTable::new::<Neon>();

/// Whether this machine has what the kernels are compiled for. NEON is part of every target with floats; lanes lie in
/// memory as ONNX's elements do where bytes are little endian.
pub(crate) fn is_available() -> bool {
    cfg!(all(target_feature = "neon", target_endian = "little"))
}

/// Vectors of 16 bytes.
#[derive(Clone, Copy)]
pub(crate) struct Quad;

type V = uint8x16_t;

inlined! {
    unsafe fn u16s(value: V) -> uint16x8_t { vreinterpretq_u16_u8(value) }
    unsafe fn u32s(value: V) -> uint32x4_t { vreinterpretq_u32_u8(value) }
    unsafe fn u64s(value: V) -> uint64x2_t { vreinterpretq_u64_u8(value) }
    unsafe fn i8s(value: V) -> int8x16_t { vreinterpretq_s8_u8(value) }
    unsafe fn i16s(value: V) -> int16x8_t { vreinterpretq_s16_u8(value) }
    unsafe fn i32s(value: V) -> int32x4_t { vreinterpretq_s32_u8(value) }
    unsafe fn i64s(value: V) -> int64x2_t { vreinterpretq_s64_u8(value) }
    unsafe fn f32s(value: V) -> float32x4_t { vreinterpretq_f32_u8(value) }
    unsafe fn f64s(value: V) -> float64x2_t { vreinterpretq_f64_u8(value) }
    unsafe fn of_u16(value: uint16x8_t) -> V { vreinterpretq_u8_u16(value) }
    unsafe fn of_u32(value: uint32x4_t) -> V { vreinterpretq_u8_u32(value) }
    unsafe fn of_u64(value: uint64x2_t) -> V { vreinterpretq_u8_u64(value) }
    unsafe fn of_i16(value: int16x8_t) -> V { vreinterpretq_u8_s16(value) }
    unsafe fn of_i32(value: int32x4_t) -> V { vreinterpretq_u8_s32(value) }
    unsafe fn of_i64(value: int64x2_t) -> V { vreinterpretq_u8_s64(value) }
    unsafe fn of_f32(value: float32x4_t) -> V { vreinterpretq_u8_f32(value) }
    unsafe fn of_f64(value: float64x2_t) -> V { vreinterpretq_u8_f64(value) }

    /// Loads 4 bytes, twice.
    unsafe fn load_4(src: *const u8) -> uint8x8_t {
        vreinterpret_u8_u32(vdup_n_u32(src.cast::<u32>().read_unaligned()))
    }

    /// Loads 2 bytes, four times.
    unsafe fn load_2(src: *const u8) -> uint8x8_t {
        vreinterpret_u8_u16(vdup_n_u16(src.cast::<u16>().read_unaligned()))
    }

    /// Bytes extended to words.
    unsafe fn words<const SIGNED: bool>(value: uint8x8_t) -> uint16x8_t {
        if SIGNED { vreinterpretq_u16_s16(vmovl_s8(vreinterpret_s8_u8(value))) } else { vmovl_u8(value) }
    }

    /// Words extended to 32 bits.
    unsafe fn double_words<const SIGNED: bool>(value: uint16x4_t) -> uint32x4_t {
        if SIGNED { vreinterpretq_u32_s32(vmovl_s16(vreinterpret_s16_u16(value))) } else { vmovl_u16(value) }
    }

    /// Lanes of 32 bits extended to 64.
    unsafe fn quad_words<const SIGNED: bool>(value: uint32x2_t) -> uint64x2_t {
        if SIGNED { vreinterpretq_u64_s64(vmovl_s32(vreinterpret_s32_u32(value))) } else { vmovl_u32(value) }
    }

    /// The lower of words extended to 64 bits.
    unsafe fn quad_words_of<const SIGNED: bool>(value: uint16x4_t) -> V {
        of_u64(quad_words::<SIGNED>(vget_low_u32(double_words::<SIGNED>(value))))
    }

    /// Four floats of half precision as floats. (Rust has the intrinsic, but not in every version that this crate
    /// supports.)
    unsafe fn widen_half(value: uint8x8_t) -> float32x4_t {
        let result: float32x4_t;
        asm!(
            "fcvtl {result:v}.4s, {value:v}.4h",
            value = in(vreg) value,
            result = out(vreg) result,
            options(pure, nomem, nostack, preserves_flags)
        );
        result
    }

    /// Eight floats in half precision, rounded to nearest even.
    unsafe fn narrow_half(low: float32x4_t, high: float32x4_t) -> uint16x8_t {
        let half: uint16x8_t;
        asm!(
            "fcvtn {half:v}.4h, {low:v}.4s",
            "fcvtn2 {half:v}.8h, {high:v}.4s",
            low = in(vreg) low,
            high = in(vreg) high,
            half = out(vreg) half,
            options(pure, nomem, nostack, preserves_flags)
        );
        half
    }

    /// Integers of 64 bits as doubles, rounded to nearest even.
    unsafe fn long_to_double<const SIGNED: bool>(value: V) -> float64x2_t {
        if SIGNED { vcvtq_f64_s64(i64s(value)) } else { vcvtq_f64_u64(u64s(value)) }
    }

    /// Integers of 64 bits as doubles, rounded to odd.
    unsafe fn odd_double<const SIGNED: bool>(value: V) -> float64x2_t {
        let dropped = vdupq_n_u64(0x7ff);
        let carried = vaddq_u64(vandq_u64(u64s(value), dropped), dropped);
        let cut = vbicq_u64(vorrq_u64(u64s(value), carried), dropped);
        // The magnitude of the smallest integer counts as negative; it is a power of two.
        let large = if SIGNED {
            vcgeq_s64(vabsq_s64(i64s(value)), vdupq_n_s64(1 << 53))
        } else {
            vcgeq_u64(u64s(value), vdupq_n_u64(1 << 53))
        };
        long_to_double::<SIGNED>(of_u64(vbslq_u64(large, cut, u64s(value))))
    }

    /// Doubles as floats, rounded to odd.
    unsafe fn odd_floats(low: float64x2_t, high: float64x2_t) -> V {
        of_f32(vcvtx_high_f32_f64(vcvtx_f32_f64(low), high))
    }

    /// Doubles as floats, rounded to nearest even.
    unsafe fn floats(low: float64x2_t, high: float64x2_t) -> V { of_f32(vcvt_high_f32_f64(vcvt_f32_f64(low), high)) }

    /// Integers of more than 24 bits cut to 24 bits at least, of which the last is set where anything was lost.
    unsafe fn odd_int(value: V) -> uint32x4_t {
        let dropped = vdupq_n_u32(0xff);
        let carried = vaddq_u32(vandq_u32(u32s(value), dropped), dropped);
        vbicq_u32(vorrq_u32(u32s(value), carried), dropped)
    }

    unsafe fn high_halves_of_words(a: V, b: V) -> V { of_u16(vuzp2q_u16(u16s(a), u16s(b))) }
}

/// A vector by the places of its bytes.
macro_rules! bytes {
    (|$index:ident| $byte:expr) => {{
        const BYTES: [u8; 16] = {
            let mut bytes = [0; 16];
            let mut $index = 0;
            while $index < 16 {
                bytes[$index] = ($byte) as u8;
                $index += 1;
            }
            bytes
        };
        vld1q_u8(BYTES.as_ptr())
    }};
}

/// A place in no table: what is looked up there is 0.
const NOWHERE: usize = 255;

// SAFETY: each method is what the intrinsics' documentation says of them, which `tests/kernels.rs` checks for every
// method by every kernel.
unsafe impl Lanes for Quad {
    type V = V;
    /// All bits of a lane, or none.
    type M = V;
    type Table<const N: usize> = [V; N];

    const BYTES: usize = 16;
    const WIDE_LOOK_UP: bool = true;
    const F64_OVERFLOWS: bool = false;
    const FUSES: bool = true;
    const STREAMS: bool = false;

    inlined! {
        unsafe fn load(src: *const u8) -> V { vld1q_u8(src) }
        unsafe fn store(dst: *mut u8, value: V) { vst1q_u8(dst, value) }
        unsafe fn stream(dst: *mut u8, value: V) { vst1q_u8(dst, value) }
        unsafe fn fence() {}
        unsafe fn prefetch(_address: *const u8) {}
        unsafe fn load_f16(src: *const u8) -> V { of_f32(widen_half(vld1_u8(src))) }
        unsafe fn and(a: V, b: V) -> V { vandq_u8(a, b) }
        unsafe fn or(a: V, b: V) -> V { vorrq_u8(a, b) }
        unsafe fn saturating_sub(a: V, b: V) -> V { of_u16(vqsubq_u16(u16s(a), u16s(b))) }
        unsafe fn plus_above(a: V, value: V, limit: V) -> V { vsubq_u8(a, vcgtq_u8(value, limit)) }
        unsafe fn add_f32(a: V, b: V) -> V { of_f32(vaddq_f32(f32s(a), f32s(b))) }
        unsafe fn mul_f32(a: V, b: V) -> V { of_f32(vmulq_f32(f32s(a), f32s(b))) }
        unsafe fn mul_add_f32(a: V, b: V, c: V) -> V { of_f32(vfmaq_f32(f32s(c), f32s(a), f32s(b))) }
        unsafe fn is_nan_f32(value: V) -> V { vmvnq_u8(of_u32(vceqq_f32(f32s(value), f32s(value)))) }
        unsafe fn min_f32(a: V, b: V) -> V { of_f32(vbslq_f32(vcltq_f32(f32s(a), f32s(b)), f32s(a), f32s(b))) }
        unsafe fn max_f32(a: V, b: V) -> V { of_f32(vbslq_f32(vcgtq_f32(f32s(a), f32s(b)), f32s(a), f32s(b))) }
        unsafe fn high_bytes(value: [V; 2]) -> V { vuzp2q_u8(value[0], value[1]) }
        unsafe fn low_bytes(value: [V; 4]) -> V {
            vuzp1q_u8(
                of_u16(vuzp1q_u16(u16s(value[0]), u16s(value[1]))), of_u16(vuzp1q_u16(u16s(value[2]), u16s(value[3])))
            )
        }
        unsafe fn narrow_top_bits(value: [V; 4]) -> V {
            vuzp2q_u8(high_halves_of_words(value[0], value[1]), high_halves_of_words(value[2], value[3]))
        }
        unsafe fn f32_to_f16(value: [V; 2]) -> V { of_u16(narrow_half(f32s(value[0]), f32s(value[1]))) }
        unsafe fn f32_to_f64(value: V) -> [V; 2] {
            [of_f64(vcvt_f64_f32(vget_low_f32(f32s(value)))), of_f64(vcvt_high_f64_f32(f32s(value)))]
        }
        unsafe fn f64_to_f32(value: [V; 2]) -> V { floats(f64s(value[0]), f64s(value[1])) }
        unsafe fn f64_to_f32_odd(value: [V; 2]) -> V { odd_floats(f64s(value[0]), f64s(value[1])) }
        // From 2^28 on a float's low bits are zeros, as are those of this limit and of what a negative overflow gives.
        // The greater number, where the other is NaN.
        unsafe fn round_to_int(value: V) -> V {
            of_i32(vcvtnq_s32_f32(vmaxnmq_f32(f32s(value), vdupq_n_f32(-2147483648.0))))
        }
        unsafe fn f32_to_low_bits(value: V) -> V {
            of_i32(vcvtnq_s32_f32(vminq_f32(f32s(value), vdupq_n_f32(268435456.0))))
        }
        unsafe fn f64_to_low_bits(value: [V; 2]) -> V {
            let limit = vdupq_n_f64(288230376151711744.0);
            let [a, b] = [vminq_f64(f64s(value[0]), limit), vminq_f64(f64s(value[1]), limit)];
            Self::low_halves::<64>([of_i64(vcvtnq_s64_f64(a)), of_i64(vcvtnq_s64_f64(b))])
        }
        unsafe fn zip_bytes(a: V, b: V) -> [V; 2] { [vzip1q_u8(a, b), vzip2q_u8(a, b)] }
    }

    by_width! {
        splat(value: u64) -> V: 8 => vdupq_n_u8(value as u8), 16 => of_u16(vdupq_n_u16(value as u16)),
            32 => of_u32(vdupq_n_u32(value as u32)), 64 => of_u64(vdupq_n_u64(value));
        add(a: V, b: V) -> V: 16 => of_u16(vaddq_u16(u16s(a), u16s(b))), 32 => of_u32(vaddq_u32(u32s(a), u32s(b)));
        sub(a: V, b: V) -> V: 8 => vsubq_u8(a, b), 16 => of_u16(vsubq_u16(u16s(a), u16s(b))), 32 => of_u32(vsubq_u32(u32s(a), u32s(b)));
        min_u(a: V, b: V) -> V: 8 => vminq_u8(a, b), 16 => of_u16(vminq_u16(u16s(a), u16s(b))),
            32 => of_u32(vminq_u32(u32s(a), u32s(b)));
        max_u(a: V, b: V) -> V: 8 => vmaxq_u8(a, b), 16 => of_u16(vmaxq_u16(u16s(a), u16s(b))),
            32 => of_u32(vmaxq_u32(u32s(a), u32s(b)));
        any(mask: V) -> bool: 32 => vmaxvq_u32(u32s(mask)) != 0;
        gt(a: V, b: V) -> V: 8 => vcgtq_s8(i8s(a), i8s(b)), 16 => of_u16(vcgtq_s16(i16s(a), i16s(b))),
            32 => of_u32(vcgtq_s32(i32s(a), i32s(b)));
        eq(a: V, b: V) -> V: 8 => vceqq_u8(a, b), 16 => of_u16(vceqq_u16(u16s(a), u16s(b))),
            32 => of_u32(vceqq_u32(u32s(a), u32s(b))), 64 => of_u64(vceqq_u64(u64s(a), u64s(b)));
        select(mask: V, a: V, b: V) -> V: 8 => vbslq_u8(mask, a, b), 16 => vbslq_u8(mask, a, b),
            32 => vbslq_u8(mask, a, b), 64 => vbslq_u8(mask, a, b);
        low_halves(value: [V; 2]) -> V: 16 => vuzp1q_u8(value[0], value[1]),
            32 => of_u16(vuzp1q_u16(u16s(value[0]), u16s(value[1]))),
            64 => of_u32(vuzp1q_u32(u32s(value[0]), u32s(value[1])));
        high_halves(value: [V; 2]) -> V: 32 => high_halves_of_words(value[0], value[1]),
            64 => of_u32(vuzp2q_u32(u32s(value[0]), u32s(value[1])));
    }

    by_sign! {
        saturate_to_16(value: [V; 2]) -> V: of_i16(vqmovn_high_s32(vqmovn_s32(i32s(value[0])), i32s(value[1]))),
            of_u16(vqmovun_high_s32(vqmovun_s32(i32s(value[0])), i32s(value[1])));
        saturate_to_8(value: [V; 4]) -> V: {
            let low = i16s(Self::saturate_to_16::<true>([value[0], value[1]]));
            vreinterpretq_u8_s8(vqmovn_high_s16(vqmovn_s16(low), i16s(Self::saturate_to_16::<true>([value[2], value[3]]))))
        }, {
            let low = i16s(Self::saturate_to_16::<true>([value[0], value[1]]));
            vqmovun_high_s16(vqmovun_s16(low), i16s(Self::saturate_to_16::<true>([value[2], value[3]])))
        };
        narrow_words(value: [V; 2]) -> V:
            vreinterpretq_u8_s8(vqmovn_high_s16(vqmovn_s16(i16s(value[0])), i16s(value[1]))),
            vqmovun_high_s16(vqmovun_s16(i16s(value[0])), i16s(value[1]));
        saturate_to_i32(value: [V; 2]) -> V: of_i32(vqmovn_high_s64(vqmovn_s64(i64s(value[0])), i64s(value[1]))), {
            let all = vqmovn_high_u64(vqmovn_u64(u64s(value[0])), u64s(value[1]));
            of_u32(vminq_u32(all, vdupq_n_u32(i32::MAX as u32)))
        };
        int_to_f32(value: V) -> V: of_f32(vcvtq_f32_s32(i32s(value))), of_f32(vcvtq_f32_u32(u32s(value)));
        int_to_f32_odd(value: V) -> V: {
            // The magnitude of the smallest integer counts as negative; it is a power of two.
            let large = vcgtq_s32(vabsq_s32(i32s(value)), vdupq_n_s32(0xff_ffff));
            Self::int_to_f32::<true>(of_u32(vbslq_u32(large, odd_int(value), u32s(value))))
        }, {
            let large = vcgtq_u32(u32s(value), vdupq_n_u32(0xff_ffff));
            Self::int_to_f32::<false>(of_u32(vbslq_u32(large, odd_int(value), u32s(value))))
        };
        int_to_f64(value: V) -> [V; 2]: [
            of_f64(long_to_double::<true>(of_u64(quad_words::<true>(vget_low_u32(u32s(value)))))),
            of_f64(long_to_double::<true>(of_u64(quad_words::<true>(vget_high_u32(u32s(value))))))
        ], [
            of_f64(long_to_double::<false>(of_u64(quad_words::<false>(vget_low_u32(u32s(value)))))),
            of_f64(long_to_double::<false>(of_u64(quad_words::<false>(vget_high_u32(u32s(value))))))
        ];
        long_to_f32(value: [V; 2]) -> V: floats(odd_double::<true>(value[0]), odd_double::<true>(value[1])),
            floats(odd_double::<false>(value[0]), odd_double::<false>(value[1]));
        long_to_f32_odd(value: [V; 2]) -> V: odd_floats(odd_double::<true>(value[0]), odd_double::<true>(value[1])),
            odd_floats(odd_double::<false>(value[0]), odd_double::<false>(value[1]));
        long_to_f64(value: V) -> V: of_f64(long_to_double::<true>(value)), of_f64(long_to_double::<false>(value));
        // The processor's conversions saturate, and make 0 of NaN.
        f32_to_int(value: V) -> V: of_i32(vcvtq_s32_f32(f32s(value))), of_u32(vcvtq_u32_f32(f32s(value)));
        f32_to_short(value: V) -> V: Self::f32_to_int::<true>(value), Self::f32_to_int::<true>(value);
        f64_to_int(value: [V; 2]) -> V: {
            let [a, b] = [vcvtq_s64_f64(f64s(value[0])), vcvtq_s64_f64(f64s(value[1]))];
            of_i32(vqmovn_high_s64(vqmovn_s64(a), b))
        }, {
            let [a, b] = [vcvtq_u64_f64(f64s(value[0])), vcvtq_u64_f64(f64s(value[1]))];
            of_u32(vqmovn_high_u64(vqmovn_u64(a), b))
        };
        f64_to_short(value: [V; 2]) -> V: Self::f64_to_int::<true>(value), Self::f64_to_int::<true>(value);
        f64_to_long(value: V) -> V: of_i64(vcvtq_s64_f64(f64s(value))), of_u64(vcvtq_u64_f64(f64s(value)));
    }

    shifts! {
        shl(value): of_u16(vshlq_u16(u16s(value), vdupq_n_s16(N as i16))),
            of_u32(vshlq_u32(u32s(value), vdupq_n_s32(N as i32)));
        shr(value): of_u16(vshlq_u16(u16s(value), vdupq_n_s16(-(N as i16)))),
            of_u32(vshlq_u32(u32s(value), vdupq_n_s32(-(N as i32))));
    }

    extensions! {
        src:
        8, 16: of_u16(words::<true>(vld1_u8(src))), of_u16(words::<false>(vld1_u8(src)));
        8, 32: of_u32(double_words::<true>(vget_low_u16(words::<true>(load_4(src))))),
            of_u32(double_words::<false>(vget_low_u16(words::<false>(load_4(src)))));
        8, 64: quad_words_of::<true>(vget_low_u16(words::<true>(load_2(src)))),
            quad_words_of::<false>(vget_low_u16(words::<false>(load_2(src))));
        16, 32: of_u32(double_words::<true>(vreinterpret_u16_u8(vld1_u8(src)))),
            of_u32(double_words::<false>(vreinterpret_u16_u8(vld1_u8(src))));
        16, 64: quad_words_of::<true>(vreinterpret_u16_u8(load_4(src))),
            quad_words_of::<false>(vreinterpret_u16_u8(load_4(src)));
        32, 64: of_u64(quad_words::<true>(vreinterpret_u32_u8(vld1_u8(src)))),
            of_u64(quad_words::<false>(vreinterpret_u32_u8(vld1_u8(src))));
    }

    #[inline(always)]
    unsafe fn load_codes<const BITS: usize>(src: *const u8) -> V {
        // SAFETY: the target has NEON (`is_available`), and `src` has the 2 * BITS bytes of a step. The loads need no
        // alignment.
        unsafe {
            match BITS {
                2 => {
                    let packed = vcombine_u8(load_4(src), load_4(src));
                    let down = i8s(bytes!(|i| 256 - 2 * (i % 4)));
                    vandq_u8(vshlq_u8(vqtbl1q_u8(packed, bytes!(|i| i / 4)), down), vdupq_n_u8(3))
                }
                4 => {
                    let packed = vld1_u8(src);
                    let (low, high) = (vand_u8(packed, vdup_n_u8(15)), vshr_n_u8::<4>(packed));
                    vcombine_u8(vzip1_u8(low, high), vzip2_u8(low, high))
                }
                6 => {
                    // Of four elements in three bytes, each is the upper bits of a byte, the lower ones of the next, or
                    // both.
                    let packed = vcombine_u8(vld1_u8(src), load_4(src.add(8)));
                    let first = bytes!(|i| i / 4 * 3 + [0, 0, 1, 2][i % 4]);
                    let second = bytes!(|i| [NOWHERE, i / 4 * 3 + 1, i / 4 * 3 + 2, NOWHERE][i % 4]);
                    let low = vshlq_u8(vqtbl1q_u8(packed, first), i8s(bytes!(|i| 256 - [0, 6, 4, 2][i % 4])));
                    let high = vshlq_u8(vqtbl1q_u8(packed, second), i8s(bytes!(|i| [0, 2, 4, 0][i % 4])));
                    vandq_u8(vorrq_u8(low, high), vdupq_n_u8(63))
                }
                _ => unreachable!("no codes of this width"),
            }
        }
    }

    #[inline(always)]
    unsafe fn store_codes<const BITS: usize>(dst: *mut u8, codes: V) {
        // SAFETY: the target has NEON (`is_available`), and `dst` has space for the 2 * BITS bytes of a step. The
        // stores need no alignment.
        unsafe {
            match BITS {
                2 => {
                    let pairs = vsliq_n_u8::<2>(vuzp1q_u8(codes, codes), vuzp2q_u8(codes, codes));
                    let fours = vsliq_n_u8::<4>(vuzp1q_u8(pairs, pairs), vuzp2q_u8(pairs, pairs));
                    dst.cast::<u32>().write_unaligned(vgetq_lane_u32::<0>(u32s(fours)));
                }
                4 => {
                    let pairs = vsliq_n_u8::<4>(vuzp1q_u8(codes, codes), vuzp2q_u8(codes, codes));
                    vst1_u8(dst, vget_low_u8(pairs));
                }
                6 => {
                    // Byte `i` of three is the rest of element `i` of four and the lower bits of the next.
                    let first = vqtbl1q_u8(codes, bytes!(|i| if i < 12 { i / 3 * 4 + i % 3 } else { NOWHERE }));
                    let second = vqtbl1q_u8(codes, bytes!(|i| if i < 12 { i / 3 * 4 + i % 3 + 1 } else { NOWHERE }));
                    let low = vshlq_u8(first, i8s(bytes!(|i| 256 - 2 * (i % 3))));
                    let packed = vorrq_u8(low, vshlq_u8(second, i8s(bytes!(|i| 6 - 2 * (i % 3)))));
                    vst1_u8(dst, vget_low_u8(packed));
                    dst.add(8).cast::<u32>().write_unaligned(vgetq_lane_u32::<2>(u32s(packed)));
                }
                _ => unreachable!("no codes of this width"),
            }
        }
    }

    #[inline(always)]
    unsafe fn store_upper_words(dst: *mut u8, words: [V; 2]) {
        // SAFETY: the target has NEON (`is_available`), and `dst` has space for the 64 bytes of the lanes of a step.
        unsafe {
            let zero = vdupq_n_u16(0);
            for (half, word) in words.into_iter().enumerate() {
                let pairs = [vzip1q_u16(zero, u16s(word)), vzip2q_u16(zero, u16s(word))];
                for (quarter, pair) in pairs.into_iter().enumerate() {
                    Self::store(dst.add(16 * (2 * half + quarter)), of_u16(pair));
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn table<const N: usize>(entries: &[u8; 256]) -> [V; N] {
        // SAFETY: the target has NEON (`is_available`). N is at most 16, so the 16 * N bytes that are loaded are within
        // `entries`.
        unsafe {
            let mut tables = [vld1q_u8(entries.as_ptr()); N];
            for (index, table) in tables.iter_mut().enumerate() {
                *table = vld1q_u8(entries.as_ptr().add(16 * index));
            }
            tables
        }
    }

    #[inline(always)]
    unsafe fn look_up<const N: usize>(table: &[V; N], index: V) -> V {
        // SAFETY: the target has NEON (`is_available`). The look-up accesses no memory but `table`.
        unsafe {
            match N {
                1 => return vqtbl1q_u8(table[0], index),
                2 => return vqtbl2q_u8(uint8x16x2_t(table[0], table[1]), index),
                _ => {}
            }
            let mut entry = vqtbl4q_u8(uint8x16x4_t(table[0], table[1], table[2], table[3]), index);
            let mut lowered = index;
            for four in table[4..].as_chunks::<4>().0 {
                // Indices that are in a table before this one wrap to far behind its end.
                lowered = vsubq_u8(lowered, vdupq_n_u8(64));
                entry = vqtbx4q_u8(entry, uint8x16x4_t(four[0], four[1], four[2], four[3]), lowered);
            }
            entry
        }
    }
}
