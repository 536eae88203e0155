//! WebAssembly's vectors of 128 bits, where the module is compiled with them: 16 elements a step. No relaxed
//! instructions: results are the same on every engine. An engine may give any sign and payload to a NaN that a float
//! instruction makes, so NaN is built by integers here.
//!
//! There are no conversions between float16 and float, nor between floats and integers of 64 bits, and no shifts of
//! lanes by differing counts.

use crate::arch::generic::{self, Lanes, by_sign, by_width, extensions, inlined, isa, shifts};
use crate::element::Element;
use crate::kernel::{Context, KernelTable};
use core::arch::wasm32::*;

isa!(Simd128, TABLE, Vector, "simd128");

pub(crate) static TABLE: KernelTable = KernelTable::new::<Simd128>();

/// Whether this machine has what the kernels are compiled for: a module with vectors does not load where they are
/// lacking.
pub(crate) fn is_available() -> bool {
    true
}

/// Vectors of 16 bytes.
#[derive(Clone, Copy)]
pub(crate) struct Vector;

type V = v128;

/// The lanes of 32 bits that NaN of wider floats becomes: the sign, the upper bits of the payload, and quiet.
#[inline(always)]
fn narrow_nan(value: V) -> V {
    let sign = v128_and(u64x2_shr(value, 32), u64x2_splat(0x8000_0000));
    let payload = v128_and(u64x2_shr(value, 29), u64x2_splat(0x3f_ffff));
    v128_or(v128_or(sign, payload), u64x2_splat(0x7fc0_0000))
}

/// Two vectors of two lanes of 64 bits, of which the lower halves stay.
#[inline(always)]
fn low_lanes(a: V, b: V) -> V {
    i32x4_shuffle::<0, 2, 4, 6>(a, b)
}

/// The upper halves.
#[inline(always)]
fn high_lanes(a: V, b: V) -> V {
    i32x4_shuffle::<1, 3, 5, 7>(a, b)
}

/// Doubles as floats, rounded to nearest even, NaN by its bits.
#[inline(always)]
fn floats(a: V, b: V) -> V {
    let rounded = i64x2_shuffle::<0, 2>(f32x4_demote_f64x2_zero(a), f32x4_demote_f64x2_zero(b));
    let is_nan = low_lanes(f64x2_ne(a, a), f64x2_ne(b, b));
    v128_bitselect(low_lanes(narrow_nan(a), narrow_nan(b)), rounded, is_nan)
}

/// A double cut to 14 bits, of which the last is set where anything was lost; what is below all that `bfloat16` has may
/// then be rounded again. NaN is left to [`floats`].
#[inline(always)]
fn odd(value: V) -> V {
    let dropped = u64x2_splat((1 << 39) - 1);
    let carried = i64x2_add(v128_and(value, dropped), dropped);
    v128_bitselect(value, v128_andnot(v128_or(value, carried), dropped), f64x2_ne(value, value))
}

/// An integer of 64 bits as a double, rounded to odd: with more than 53 significant bits it loses the last 11, and the
/// lowest of the others is set where that loses anything.
#[inline(always)]
fn odd_double<const SIGNED: bool>(value: V) -> V {
    let dropped = u64x2_splat(0x7ff);
    let carried = i64x2_add(v128_and(value, dropped), dropped);
    let cut = v128_andnot(v128_or(value, carried), dropped);
    // From -2^52 to 2^52 all bits fit.
    let magnitude = if SIGNED { i64x2_add(value, u64x2_splat(1 << 52)) } else { value };
    let fits = i64x2_eq(u64x2_shr(magnitude, 53), u64x2_splat(0));
    double::<SIGNED>(v128_bitselect(value, cut, fits))
}

/// Integers of 64 bits as doubles, rounded to nearest even.
#[inline(always)]
fn double<const SIGNED: bool>(value: V) -> V {
    let (a, b) = (i64x2_extract_lane::<0>(value), i64x2_extract_lane::<1>(value));
    if SIGNED { f64x2(a as f64, b as f64) } else { f64x2(a as u64 as f64, b as u64 as f64) }
}

/// Integers of 64 bits as floats, rounded to nearest even.
#[inline(always)]
fn floats_of_longs<const SIGNED: bool>(a: V, b: V) -> V {
    let [a, b, c, d] = [
        i64x2_extract_lane::<0>(a),
        i64x2_extract_lane::<1>(a),
        i64x2_extract_lane::<0>(b),
        i64x2_extract_lane::<1>(b),
    ];
    if SIGNED {
        f32x4(a as f32, b as f32, c as f32, d as f32)
    } else {
        f32x4(a as u64 as f32, b as u64 as f32, c as u64 as f32, d as u64 as f32)
    }
}

/// Integers of 32 bits, of which those with more than 24 significant ones lose the last 8, with the lowest of the
/// others set where that loses anything.
#[inline(always)]
fn odd_int(value: V, is_large: V) -> V {
    let dropped = u32x4_splat(0xff);
    let carried = i32x4_add(v128_and(value, dropped), dropped);
    v128_bitselect(v128_andnot(v128_or(value, carried), dropped), value, is_large)
}

/// Four floats of half precision, in the low halves of lanes, as floats.
#[inline(always)]
fn widen_half(code: V) -> V {
    let magnitude = v128_and(code, u32x4_splat(0x7fff));
    // With its fields in the places of those of `f32`, and the exponent moved, a code is its number. A subnormal one, s
    // of 1024, is taken for (1 + s) * 2^-15, from which follows s * 2^-14 when what it lacks to 2^-14 is subtracted.
    let normal = i32x4_add(i32x4_shl(magnitude, 13), u32x4_splat((127 - 15) << 23));
    let min_normal = u32x4_splat((127 - 14) << 23);
    let number = f32x4_add(normal, f32x4_sub(i32x4_min(normal, min_normal), min_normal));
    let number = v128_or(number, i32x4_shl(v128_xor(code, magnitude), 16));
    let is_special = i32x4_gt(magnitude, u32x4_splat(0x7bff));
    if !v128_any_true(is_special) {
        return number;
    }
    // Infinity and NaN, which comes out quiet.
    let quiet = v128_and(i32x4_gt(magnitude, u32x4_splat(0x7c00)), u32x4_splat(0x40_0000));
    v128_or(number, v128_and(is_special, v128_or(quiet, u32x4_splat(0x7f80_0000))))
}

/// Four floats in half precision, extended by their signs, rounded to nearest even by an addition as small floats are
/// (`arch/generic/small_float.rs`). NaN gives infinity.
#[inline(always)]
fn narrow_half(value: V) -> V {
    // 2^16 rounds to infinity, and so does all that is larger.
    let within = i32x4_min(f32x4_abs(value), u32x4_splat((127 + 16) << 23));
    let min_normal = u32x4_splat((127 - 14) << 23);
    let exponent = i32x4_max(v128_and(within, u32x4_splat(0x7f80_0000)), min_normal);
    let power = i32x4_add(exponent, u32x4_splat(13 << 23));
    let rounded = i32x4_sub(f32x4_add(within, power), power);
    let number = i32x4_add(rounded, u32x4_shr(i32x4_sub(exponent, min_normal), 13));
    v128_or(number, v128_and(i32x4_shr(value, 16), i32x4_splat(-0x8000)))
}

/// Reads a little-endian word.
///
/// # Safety
/// Its bytes can be read.
#[inline(always)]
unsafe fn word<T>(src: *const u8) -> T {
    // SAFETY: the caller promises that the bytes of a `T` can be read.
    unsafe { src.cast::<T>().read_unaligned() }
}

/// Two bytes extended to lanes of 64 bits.
///
/// # Safety
/// They can be read.
#[inline(always)]
unsafe fn byte_pair<const SIGNED: bool>(src: *const u8) -> V {
    // SAFETY: the caller promises that three bytes can be read, of which these are two.
    let [a, b] = unsafe { word::<[u8; 2]>(src) };
    if SIGNED { i64x2((a as i8).into(), (b as i8).into()) } else { u64x2(a.into(), b.into()) }
}

// SAFETY: each method is what WebAssembly's specification says of its instructions, which `tests/kernels.rs` checks for
// every method by every kernel.
unsafe impl Lanes for Vector {
    type V = V;
    /// All bits of a lane, or none.
    type M = V;
    type Table<const N: usize> = [V; N];

    const BYTES: usize = 16;
    const WIDE_LOOK_UP: bool = false;
    const F64_OVERFLOWS: bool = true;
    const FUSES: bool = false;
    const STREAMS: bool = false;
    const IS_SMALL: bool = true;

    inlined! {
        unsafe fn load(src: *const u8) -> V { v128_load(src.cast()) }
        unsafe fn store(dst: *mut u8, value: V) { v128_store(dst.cast(), value) }
        unsafe fn stream(dst: *mut u8, value: V) { v128_store(dst.cast(), value) }
        unsafe fn fence() {}
        unsafe fn prefetch(_address: *const u8) {}
        unsafe fn load_f16(src: *const u8) -> V { widen_half(u32x4_load_extend_u16x4(src.cast())) }
        unsafe fn and(a: V, b: V) -> V { v128_and(a, b) }
        unsafe fn or(a: V, b: V) -> V { v128_or(a, b) }
        unsafe fn saturating_sub(a: V, b: V) -> V { u16x8_sub_sat(a, b) }
        unsafe fn plus_above(a: V, value: V, limit: V) -> V { i8x16_sub(a, u8x16_gt(value, limit)) }
        unsafe fn add_f32(a: V, b: V) -> V { f32x4_add(a, b) }
        unsafe fn mul_f32(a: V, b: V) -> V { f32x4_mul(a, b) }
        unsafe fn mul_add_f32(a: V, b: V, c: V) -> V { f32x4_add(f32x4_mul(a, b), c) }
        unsafe fn is_nan_f32(value: V) -> V { f32x4_ne(value, value) }
        unsafe fn min_f32(a: V, b: V) -> V { f32x4_pmin(b, a) }
        unsafe fn max_f32(a: V, b: V) -> V { f32x4_pmax(b, a) }
        unsafe fn high_bytes(value: [V; 2]) -> V {
            i8x16_shuffle::<1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31>(value[0], value[1])
        }
        unsafe fn low_bytes(value: [V; 4]) -> V {
            Self::low_halves::<16>([
                Self::low_halves::<32>([value[0], value[1]]), Self::low_halves::<32>([value[2], value[3]])
            ])
        }
        unsafe fn narrow_top_bits(value: [V; 4]) -> V {
            Self::high_bytes([
                Self::high_halves::<32>([value[0], value[1]]), Self::high_halves::<32>([value[2], value[3]])
            ])
        }
        unsafe fn f32_to_f16(value: [V; 2]) -> V {
            let halves = i16x8_narrow_i32x4(narrow_half(value[0]), narrow_half(value[1]));
            let [a, b] = value.map(|value| (value, f32x4_ne(value, value)));
            if !v128_any_true(v128_or(a.1, b.1)) { return halves; }
            // To infinity come the upper bits of the payload, and quiet.
            let quiet = |(value, nan)| v128_and(nan, v128_or(u32x4_shr(i32x4_shl(value, 9), 22), u32x4_splat(0x200)));
            v128_or(halves, i16x8_narrow_i32x4(quiet(a), quiet(b)))
        }
        unsafe fn f32_to_f64(value: V) -> [V; 2] {
            let widen = |half: V| {
                let bits = u64x2_extend_low_u32x4(half);
                let sign = i64x2_shl(v128_and(bits, u64x2_splat(0x8000_0000)), 32);
                let payload = i64x2_shl(v128_and(bits, u64x2_splat(0x3f_ffff)), 29);
                let nan = v128_or(v128_or(sign, payload), u64x2_splat(0x7ff8_0000_0000_0000));
                let number = f64x2_promote_low_f32x4(half);
                v128_bitselect(nan, number, f64x2_ne(number, number))
            };
            [widen(value), widen(i64x2_shuffle::<1, 1>(value, value))]
        }
        unsafe fn f64_to_f32(value: [V; 2]) -> V { floats(value[0], value[1]) }
        unsafe fn f64_to_f32_odd(value: [V; 2]) -> V { floats(odd(value[0]), odd(value[1])) }
        // From 2^28 on a float's low bits are zeros, as are those of this limit and of what a negative overflow gives.
        // The first of both, unless the other is greater.
        unsafe fn round_to_int(value: V) -> V {
            i32x4_trunc_sat_f32x4(f32x4_nearest(f32x4_pmax(f32x4_splat(-2147483648.0), value)))
        }
        unsafe fn f32_to_low_bits(value: V) -> V {
            i32x4_trunc_sat_f32x4(f32x4_nearest(f32x4_min(value, f32x4_splat(268435456.))))
        }
        unsafe fn f32_to_low_bytes(value: [V; 4]) -> V {
            let [a, b, c, d] = value.map(|value| f32x4_abs(value));
            let is_large = i32x4_gt(i32x4_max(i32x4_max(a, b), i32x4_max(c, d)), f32x4_splat(4194303.75));
            if v128_any_true(is_large) { return Self::low_bytes(value.map(|value| Self::f32_to_low_bits(value))); }
            // Below 2^22 a sum from 2^23 to 2^24 is rounded at the integer's last bit, and has its low ones.
            Self::low_bytes(value.map(|value| f32x4_add(value, f32x4_splat(12582912.0))))
        }
        unsafe fn f64_to_low_bits(value: [V; 2]) -> V {
            // The remainder by 16 is exact; that of infinity is NaN, for which the conversion gives 0.
            let rest = |value: V| {
                let nearest = f64x2_nearest(value);
                let sixteens = f64x2_floor(f64x2_mul(nearest, f64x2_splat(1.0 / 16.0)));
                i32x4_trunc_sat_f64x2_zero(f64x2_sub(nearest, f64x2_mul(sixteens, f64x2_splat(16.0))))
            };
            i64x2_shuffle::<0, 2>(rest(value[0]), rest(value[1]))
        }
        unsafe fn zip_bytes(a: V, b: V) -> [V; 2] {
            [
                i8x16_shuffle::<0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23>(a, b),
                i8x16_shuffle::<8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31>(a, b)
            ]
        }
    }

    by_width! {
        splat(value: u64) -> V: 8 => u8x16_splat(value as u8), 16 => u16x8_splat(value as u16),
            32 => u32x4_splat(value as u32), 64 => u64x2_splat(value);
        add(a: V, b: V) -> V: 16 => i16x8_add(a, b), 32 => i32x4_add(a, b);
        sub(a: V, b: V) -> V: 8 => i8x16_sub(a, b), 16 => i16x8_sub(a, b), 32 => i32x4_sub(a, b);
        min_u(a: V, b: V) -> V: 8 => u8x16_min(a, b), 16 => u16x8_min(a, b), 32 => u32x4_min(a, b);
        max_u(a: V, b: V) -> V: 8 => u8x16_max(a, b), 16 => u16x8_max(a, b), 32 => u32x4_max(a, b);
        any(mask: V) -> bool: 32 => v128_any_true(mask);
        gt(a: V, b: V) -> V: 8 => i8x16_gt(a, b), 16 => i16x8_gt(a, b), 32 => i32x4_gt(a, b);
        eq(a: V, b: V) -> V: 8 => i8x16_eq(a, b), 16 => i16x8_eq(a, b), 32 => i32x4_eq(a, b), 64 => i64x2_eq(a, b);
        select(mask: V, a: V, b: V) -> V: 8 => v128_bitselect(a, b, mask), 16 => v128_bitselect(a, b, mask),
            32 => v128_bitselect(a, b, mask), 64 => v128_bitselect(a, b, mask);
        low_halves(value: [V; 2]) -> V:
            16 => i8x16_shuffle::<0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30>(value[0], value[1]),
            32 => i16x8_shuffle::<0, 2, 4, 6, 8, 10, 12, 14>(value[0], value[1]),
            64 => low_lanes(value[0], value[1]);
        high_halves(value: [V; 2]) -> V:
            32 => i16x8_shuffle::<1, 3, 5, 7, 9, 11, 13, 15>(value[0], value[1]), 64 => high_lanes(value[0], value[1]);
    }

    by_sign! {
        saturate_to_16(value: [V; 2]) -> V: i16x8_narrow_i32x4(value[0], value[1]), u16x8_narrow_i32x4(value[0], value[1]);
        saturate_to_8(value: [V; 4]) -> V:
            i8x16_narrow_i16x8(i16x8_narrow_i32x4(value[0], value[1]), i16x8_narrow_i32x4(value[2], value[3])),
            u8x16_narrow_i16x8(i16x8_narrow_i32x4(value[0], value[1]), i16x8_narrow_i32x4(value[2], value[3]));
        narrow_words(value: [V; 2]) -> V: i8x16_narrow_i16x8(value[0], value[1]), u8x16_narrow_i16x8(value[0], value[1]);
        saturate_to_i32(value: [V; 2]) -> V: {
            let (low, high) = (low_lanes(value[0], value[1]), high_lanes(value[0], value[1]));
            let ends = v128_xor(i32x4_shr(high, 31), i32x4_splat(i32::MAX));
            v128_bitselect(low, ends, i32x4_eq(high, i32x4_shr(low, 31)))
        }, {
            let (low, high) = (low_lanes(value[0], value[1]), high_lanes(value[0], value[1]));
            let limit = i32x4_splat(i32::MAX);
            v128_bitselect(u32x4_min(low, limit), limit, i32x4_eq(high, i32x4_splat(0)))
        };
        int_to_f32(value: V) -> V: f32x4_convert_i32x4(value), f32x4_convert_u32x4(value);
        // The magnitude of the smallest integer counts as negative; it is a power of two.
        int_to_f32_odd(value: V) -> V:
            f32x4_convert_i32x4(odd_int(value, i32x4_gt(i32x4_abs(value), i32x4_splat(0xff_ffff)))),
            f32x4_convert_u32x4(odd_int(value, u32x4_gt(value, u32x4_splat(0xff_ffff))));
        int_to_f64(value: V) -> [V; 2]:
            [f64x2_convert_low_i32x4(value), f64x2_convert_low_i32x4(i64x2_shuffle::<1, 1>(value, value))],
            [f64x2_convert_low_u32x4(value), f64x2_convert_low_u32x4(i64x2_shuffle::<1, 1>(value, value))];
        long_to_f32(value: [V; 2]) -> V: floats_of_longs::<true>(value[0], value[1]),
            floats_of_longs::<false>(value[0], value[1]);
        long_to_f32_odd(value: [V; 2]) -> V: {
            floats(odd(odd_double::<true>(value[0])), odd(odd_double::<true>(value[1])))
        }, floats(odd(odd_double::<false>(value[0])), odd(odd_double::<false>(value[1])));
        long_to_f64(value: V) -> V: double::<true>(value), double::<false>(value);
        // These conversions saturate, and make 0 of NaN.
        f32_to_int(value: V) -> V: i32x4_trunc_sat_f32x4(value), u32x4_trunc_sat_f32x4(value);
        f32_to_short(value: V) -> V: i32x4_trunc_sat_f32x4(value), i32x4_trunc_sat_f32x4(value);
        f64_to_int(value: [V; 2]) -> V:
            i64x2_shuffle::<0, 2>(i32x4_trunc_sat_f64x2_zero(value[0]), i32x4_trunc_sat_f64x2_zero(value[1])),
            i64x2_shuffle::<0, 2>(u32x4_trunc_sat_f64x2_zero(value[0]), u32x4_trunc_sat_f64x2_zero(value[1]));
        f64_to_short(value: [V; 2]) -> V: Self::f64_to_int::<true>(value), Self::f64_to_int::<true>(value);
        f64_to_long(value: V) -> V:
            i64x2(f64x2_extract_lane::<0>(value) as i64, f64x2_extract_lane::<1>(value) as i64),
            u64x2(f64x2_extract_lane::<0>(value) as u64, f64x2_extract_lane::<1>(value) as u64);
    }

    shifts! {
        shl(value): i16x8_shl(value, N), i32x4_shl(value, N);
        shr(value): u16x8_shr(value, N), u32x4_shr(value, N);
    }

    extensions! {
        src:
        8, 16: i16x8_load_extend_i8x8(src.cast()), u16x8_load_extend_u8x8(src.cast());
        8, 32: i32x4_extend_low_i16x8(i16x8_extend_low_i8x16(u32x4_splat(word(src)))),
            u32x4_extend_low_u16x8(u16x8_extend_low_u8x16(u32x4_splat(word(src))));
        8, 64: byte_pair::<true>(src), byte_pair::<false>(src);
        16, 32: i32x4_load_extend_i16x4(src.cast()), u32x4_load_extend_u16x4(src.cast());
        16, 64: i64x2_extend_low_i32x4(i32x4_extend_low_i16x8(u32x4_splat(word(src)))),
            u64x2_extend_low_u32x4(u32x4_extend_low_u16x8(u32x4_splat(word(src))));
        32, 64: i64x2_load_extend_i32x2(src.cast()), u64x2_load_extend_u32x2(src.cast());
    }

    #[inline(always)]
    unsafe fn load_codes<const BITS: usize>(src: *const u8) -> V {
        // SAFETY: the module is compiled for simd128, and `src` has the 2 * BITS bytes of a step. The loads need no
        // alignment.
        unsafe {
            // Each byte, or three of them, is first given the word in which its elements are then moved apart.
            match BITS {
                2 => {
                    let fours = Self::load_extend::<8, 32, false>(src);
                    let pairs = v128_or(fours, i32x4_shl(fours, 12));
                    v128_and(v128_or(pairs, i32x4_shl(pairs, 6)), u8x16_splat(3))
                }
                4 => {
                    let pairs = u16x8_load_extend_u8x8(src.cast());
                    v128_and(v128_or(pairs, i16x8_shl(pairs, 4)), u8x16_splat(15))
                }
                6 => {
                    let packed = u64x2(word(src), word::<u32>(src.add(8)).into());
                    let fours =
                        i8x16_shuffle::<0, 1, 2, 16, 3, 4, 5, 16, 6, 7, 8, 16, 9, 10, 11, 16>(packed, u64x2_splat(0));
                    let high = v128_and(i32x4_shl(fours, 4), u32x4_splat(0x0fff_0000));
                    let pairs = v128_or(v128_and(fours, u32x4_splat(0x0fff)), high);
                    let high = v128_and(i16x8_shl(pairs, 2), u16x8_splat(0x3f00));
                    v128_or(v128_and(pairs, u16x8_splat(0x3f)), high)
                }
                _ => unreachable!("no codes of this width"),
            }
        }
    }

    #[inline(always)]
    unsafe fn store_codes<const BITS: usize>(dst: *mut u8, codes: V) {
        // SAFETY: the module is compiled for simd128, and `dst` has space for the 2 * BITS bytes of a step. The stores
        // need no alignment.
        unsafe {
            match BITS {
                2 => {
                    let pairs = v128_or(codes, u32x4_shr(codes, 6));
                    let fours = v128_or(pairs, u32x4_shr(pairs, 12));
                    let bytes = i8x16_shuffle::<0, 4, 8, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>(fours, fours);
                    v128_store32_lane::<0>(bytes, dst.cast());
                }
                4 => {
                    let pairs = v128_or(codes, u16x8_shr(codes, 4));
                    v128_store64_lane::<0>(Self::low_halves::<16>([pairs, pairs]), dst.cast());
                }
                6 => {
                    let high = v128_and(u16x8_shr(codes, 2), u16x8_splat(0x0fc0));
                    let pairs = v128_or(v128_and(codes, u16x8_splat(0x3f)), high);
                    let high = v128_and(u32x4_shr(pairs, 4), u32x4_splat(0xff_f000));
                    let fours = v128_or(v128_and(pairs, u32x4_splat(0x0fff)), high);
                    let bytes = i8x16_shuffle::<0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, 0, 0, 0, 0>(fours, fours);
                    v128_store64_lane::<0>(bytes, dst.cast());
                    v128_store32_lane::<2>(bytes, dst.add(8).cast());
                }
                _ => unreachable!("no codes of this width"),
            }
        }
    }

    #[inline(always)]
    unsafe fn table<const N: usize>(entries: &[u8; 256]) -> [V; N] {
        let mut tables = [u64x2_splat(0); N];
        for (table, sixteen) in tables.iter_mut().zip(entries.as_chunks::<16>().0) {
            // SAFETY: these are 16 bytes.
            *table = unsafe { v128_load(sixteen.as_ptr().cast()) };
        }
        tables
    }

    #[inline(always)]
    unsafe fn look_up<const N: usize>(table: &[V; N], index: V) -> V {
        let mut entry = u8x16_swizzle(table[0], index);
        let mut lowered = index;
        for sixteen in &table[1..] {
            // An index outside of its table gives 0.
            lowered = u8x16_sub(lowered, u8x16_splat(16));
            entry = v128_or(entry, u8x16_swizzle(*sixteen, lowered));
        }
        entry
    }
}
