//! Sources of 16 bits or more, and integers of 8 bits to wider targets: widened to lanes that hold them, converted
//! there, packed.
//!
//! The instruction set has what the casts ask for: conversions to integers that go toward zero, saturate and make 0 of
//! NaN, those to the nearest even, narrowing with saturation, and doubles rounded to odd floats. What it has not are
//! conversions of 64-bit integers to floats other than doubles; they are rounded to odd doubles first.

use super::lanes::*;
use super::small_float;
use crate::arch::kinds::{is, is_float, is_integer, is_signed};
use crate::element::{DataType, Element};
use crate::packed::bits;
use crate::scalar::Rules;
use core::arch::aarch64::*;

/// Casts 32 elements.
///
/// # Safety
/// The bytes of 32 elements of `S` can be read from `src`, those of `D` written to `dst`.
#[inline]
#[target_feature(enable = "neon")]
pub(super) unsafe fn step<S: Element, D: Element>(src: *const u8, dst: *mut u8, rules: &Rules) {
    let size = const { bits::<S>() / 8 };
    // SAFETY: part `i` of 8 elements begins at byte `8 * i * size` of the source, and at byte `i * bits` of the target.
    unsafe {
        if const { bits::<D>() <= 8 } {
            let codes = [bytes::<S, D>(src, rules), bytes::<S, D>(src.add(16 * size), rules)];
            store_codes(const { bits::<D>() }, dst, codes);
            return;
        }
        for i in 0..4 {
            let (src, dst) = (src.add(8 * i * size), dst.add(i * const { bits::<D>() }));
            match const { bits::<D>() } {
                16 => store(dst, vreinterpretq_u8_u16(words::<S, D>(src))),
                32 => {
                    for (place, value) in double_words::<S, D>(src).into_iter().enumerate() {
                        store(dst.add(16 * place), vreinterpretq_u8_u32(value));
                    }
                }
                _ => {
                    for (place, value) in quad_words::<S, D>(src).into_iter().enumerate() {
                        store(dst.add(16 * place), vreinterpretq_u8_u64(value));
                    }
                }
            }
        }
    }
}

/// 16 elements of `S` as codes of a type of 8 bits or fewer.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn bytes<S: Element, D: Element>(src: *const u8, rules: &Rules) -> uint8x16_t {
    let low_bits = vdupq_n_u8(const { u8::MAX >> (8 - if bits::<D>() < 8 { bits::<D>() } else { 8 }) });
    // SAFETY: 16 elements of S are read.
    unsafe {
        let halves = [src, src.add(const { bits::<S>() })];
        if is::<D>(DataType::Bool) {
            return vandq_u8(low_bytes(halves.each(|src| not_zero::<S>(src))), vdupq_n_u8(1));
        }
        if is::<D>(DataType::Float8E8M0) {
            return small_float::to_power(halves.each(|src| odd_bfloat16::<S, false>(src)), rules);
        }
        if const { is_float::<D>() } {
            let lanes = if is::<S>(DataType::Float16) {
                halves.each(|src| load_words(src))
            } else {
                halves.each(|src| odd_bfloat16::<S, true>(src))
            };
            return small_float::narrow::<S, D>(lanes, rules);
        }
        let lanes = halves.each(|src| words::<S, D>(src));
        if const { is_float::<S>() && bits::<D>() == 8 } {
            return if const { is_signed::<D>() } {
                let [low, high] = lanes.each(|lanes| vreinterpretq_s16_u16(lanes));
                vreinterpretq_u8_s8(vqmovn_high_s16(vqmovn_s16(low), high))
            } else {
                vqmovn_high_u16(vqmovn_u16(lanes[0]), lanes[1])
            };
        }
        vandq_u8(low_bytes(lanes), low_bits)
    }
}

/// 8 elements of `S` as 16 bits: float16, bfloat16, integers of 16 bits, or what narrows to those of fewer.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn words<S: Element, D: Element>(src: *const u8) -> uint16x8_t {
    // SAFETY: 8 elements of S are read.
    unsafe {
        match D::DATA_TYPE {
            DataType::Float16 => narrow_half(float_lanes::<S, true>(src)),
            DataType::BFloat16 => to_bfloat16(float_lanes::<S, false>(src)),
            _ if const { is_float::<S>() && bits::<D>() >= 8 } => {
                let [low, high] = double_words::<S, D>(src);
                if const { is_signed::<D>() } {
                    let (low, high) = (vreinterpretq_s32_u32(low), vreinterpretq_s32_u32(high));
                    vreinterpretq_u16_s16(vqmovn_high_s32(vqmovn_s32(low), high))
                } else {
                    vqmovn_high_u32(vqmovn_u32(low), high)
                }
            }
            _ if const { bits::<S>() == 16 && !is_float::<S>() } => load_words(src),
            _ => low_words(double_words::<S, D>(src)),
        }
    }
}

/// 8 elements of `S` as 32 bits: float, integers of 32 bits, or what narrows to those of fewer.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn double_words<S: Element, D: Element>(src: *const u8) -> [uint32x4_t; 2] {
    // SAFETY: 8 elements of S are read.
    unsafe {
        if is::<D>(DataType::Float) {
            return to_float::<S>(src).each(|value| vreinterpretq_u32_f32(value));
        }
        if const { !is_float::<S>() } {
            return integer_lanes::<S>(src);
        }
        if is::<S>(DataType::Double) {
            let [a, b, c, d] = load_quad_words(src).each(|value| to_long::<D>(vreinterpretq_f64_u64(value)));
            if const { bits::<D>() < 8 } {
                return low_double_words([a, b, c, d]);
            }
            if const { is_signed::<D>() } {
                let [a, b, c, d] = [a, b, c, d].each(|value| vreinterpretq_s64_u64(value));
                return [vqmovn_high_s64(vqmovn_s64(a), b), vqmovn_high_s64(vqmovn_s64(c), d)]
                    .each(|value| vreinterpretq_u32_s32(value));
            }
            return [vqmovn_high_u64(vqmovn_u64(a), b), vqmovn_high_u64(vqmovn_u64(c), d)];
        }
        float_lanes::<S, false>(src).each(|value| to_integer::<D>(value))
    }
}

/// 8 elements of `S` as 64 bits: double and integers.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn quad_words<S: Element, D: Element>(src: *const u8) -> [uint64x2_t; 4] {
    let to_double = is::<D>(DataType::Double);
    // SAFETY: 8 elements of S are read.
    unsafe {
        if const { is_float::<S>() } {
            let value = if is::<S>(DataType::Double) {
                load_quad_words(src).each(|value| vreinterpretq_f64_u64(value))
            } else {
                let [low, high] = float_lanes::<S, false>(src);
                [
                    vcvt_f64_f32(vget_low_f32(low)),
                    vcvt_high_f64_f32(low),
                    vcvt_f64_f32(vget_low_f32(high)),
                    vcvt_high_f64_f32(high),
                ]
            };
            return value.each(|value| if to_double { vreinterpretq_u64_f64(value) } else { to_long::<D>(value) });
        }
        let value = long_lanes::<S>(src);
        if to_double { value.each(|value| vreinterpretq_u64_f64(long_to_double::<S>(value))) } else { value }
    }
}

/// 8 integers, or bools, extended to 32 bits; or, of 64 bits, the low ones.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn integer_lanes<S: Element>(src: *const u8) -> [uint32x4_t; 2] {
    // SAFETY: each arm reads 8 elements.
    unsafe {
        let words = match const { bits::<S>() } {
            8 => {
                let value = load_half(src);
                match S::DATA_TYPE {
                    DataType::Int8 => vreinterpretq_u16_s16(vmovl_s8(vreinterpret_s8_u8(value))),
                    DataType::Bool => vmovl_u8(vmin_u8(value, vdup_n_u8(1))),
                    _ => vmovl_u8(value),
                }
            }
            16 => load_words(src),
            32 => return load_double_words(src),
            _ => return low_double_words(load_quad_words(src)),
        };
        if const { is_signed::<S>() } {
            let words = vreinterpretq_s16_u16(words);
            [vmovl_s16(vget_low_s16(words)), vmovl_high_s16(words)].each(|value| vreinterpretq_u32_s32(value))
        } else {
            [vmovl_u16(vget_low_u16(words)), vmovl_high_u16(words)]
        }
    }
}

/// 8 integers, or bools, extended to 64 bits.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn long_lanes<S: Element>(src: *const u8) -> [uint64x2_t; 4] {
    // SAFETY: 8 elements are read.
    unsafe {
        if const { bits::<S>() == 64 } {
            return load_quad_words(src);
        }
        let [low, high] = integer_lanes::<S>(src);
        if const { is_signed::<S>() } {
            let (low, high) = (vreinterpretq_s32_u32(low), vreinterpretq_s32_u32(high));
            [vmovl_s32(vget_low_s32(low)), vmovl_high_s32(low), vmovl_s32(vget_low_s32(high)), vmovl_high_s32(high)]
                .each(|value| vreinterpretq_u64_s64(value))
        } else {
            [vmovl_u32(vget_low_u32(low)), vmovl_high_u32(low), vmovl_u32(vget_low_u32(high)), vmovl_high_u32(high)]
        }
    }
}

/// 8 elements as floats, of which those that `f32` does not hold (double, integers of 32 and 64 bits) are rounded to
/// odd: rounding once more to 22 bits or fewer then gives what rounding the value itself would have.
///
/// `SMALL` targets, float16 and narrower, have nothing above 2^16, so an integer may also be cut off at 2^20.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn float_lanes<S: Element, const SMALL: bool>(src: *const u8) -> [float32x4_t; 2] {
    // SAFETY: each arm reads 8 elements.
    unsafe {
        match S::DATA_TYPE {
            DataType::Float => load_double_words(src).each(|value| vreinterpretq_f32_u32(value)),
            DataType::Float16 => widen_half(load_words(src)),
            DataType::BFloat16 => {
                let value = load_words(src);
                [vshll_n_u16::<16>(vget_low_u16(value)), vshll_high_n_u16::<16>(value)]
                    .each(|value| vreinterpretq_f32_u32(value))
            }
            DataType::Double => odd_floats(load_quad_words(src).each(|value| vreinterpretq_f64_u64(value))),
            DataType::Int64 if SMALL => {
                let [a, b, c, d] = load_quad_words(src).each(|value| vreinterpretq_s64_u64(value));
                [vqmovn_high_s64(vqmovn_s64(a), b), vqmovn_high_s64(vqmovn_s64(c), d)].each(|value| within(value))
            }
            DataType::Uint64 if SMALL => {
                let [a, b, c, d] = load_quad_words(src);
                [vqmovn_high_u64(vqmovn_u64(a), b), vqmovn_high_u64(vqmovn_u64(c), d)].each(|value| up_to(value))
            }
            DataType::Int64 | DataType::Uint64 => odd_floats(load_quad_words(src).each(|value| odd_double::<S>(value))),
            DataType::Int32 if SMALL => integer_lanes::<S>(src).each(|value| within(vreinterpretq_s32_u32(value))),
            DataType::Uint32 if SMALL => integer_lanes::<S>(src).each(|value| up_to(value)),
            DataType::Int32 => integer_lanes::<S>(src).each(|value| {
                let magnitude = vabsq_s32(vreinterpretq_s32_u32(value));
                // The magnitude of the smallest integer counts as negative; it is a power of two.
                let large = vcgtq_s32(magnitude, vdupq_n_s32(0xff_ffff));
                vcvtq_f32_s32(vreinterpretq_s32_u32(vbslq_u32(large, odd_double_words(value), value)))
            }),
            DataType::Uint32 => integer_lanes::<S>(src).each(|value| {
                let large = vcgtq_u32(value, vdupq_n_u32(0xff_ffff));
                vcvtq_f32_u32(vbslq_u32(large, odd_double_words(value), value))
            }),
            _ => integer_lanes::<S>(src).each(|value| vcvtq_f32_s32(vreinterpretq_s32_u32(value))),
        }
    }
}

/// Integers as floats, cut off at 2^20.
#[inline]
#[target_feature(enable = "neon")]
fn within(value: int32x4_t) -> float32x4_t {
    let limit = vdupq_n_s32(1 << 20);
    vcvtq_f32_s32(vmaxq_s32(vminq_s32(value, limit), vnegq_s32(limit)))
}

/// Unsigned integers as floats, cut off at 2^20.
#[inline]
#[target_feature(enable = "neon")]
fn up_to(value: uint32x4_t) -> float32x4_t {
    vcvtq_f32_u32(vminq_u32(value, vdupq_n_u32(1 << 20)))
}

/// Integers of more than 24 bits cut to 24 bits at least, of which the last is set where anything was lost.
#[inline]
#[target_feature(enable = "neon")]
fn odd_double_words(value: uint32x4_t) -> uint32x4_t {
    let dropped = vdupq_n_u32(0xff);
    let carried = vaddq_u32(vandq_u32(value, dropped), dropped);
    vbicq_u32(vorrq_u32(value, carried), dropped)
}

/// Doubles as floats, rounded to odd.
#[inline]
#[target_feature(enable = "neon")]
fn odd_floats(value: [float64x2_t; 4]) -> [float32x4_t; 2] {
    let [a, b, c, d] = value;
    [vcvtx_high_f32_f64(vcvtx_f32_f64(a), b), vcvtx_high_f32_f64(vcvtx_f32_f64(c), d)]
}

/// Doubles as floats, rounded to nearest even.
#[inline]
#[target_feature(enable = "neon")]
fn nearest_floats(value: [float64x2_t; 4]) -> [float32x4_t; 2] {
    let [a, b, c, d] = value;
    [vcvt_high_f32_f64(vcvt_f32_f64(a), b), vcvt_high_f32_f64(vcvt_f32_f64(c), d)]
}

/// Integers of 64 bits as doubles, rounded to nearest even.
#[inline]
#[target_feature(enable = "neon")]
fn long_to_double<S: Element>(value: uint64x2_t) -> float64x2_t {
    if const { is_signed::<S>() } { vcvtq_f64_s64(vreinterpretq_s64_u64(value)) } else { vcvtq_f64_u64(value) }
}

/// Integers of 64 bits as doubles, rounded to odd.
#[inline]
#[target_feature(enable = "neon")]
fn odd_double<S: Element>(value: uint64x2_t) -> float64x2_t {
    let dropped = vdupq_n_u64(0x7ff);
    let carried = vaddq_u64(vandq_u64(value, dropped), dropped);
    let cut = vbicq_u64(vorrq_u64(value, carried), dropped);
    let large = if const { is_signed::<S>() } {
        // The magnitude of the smallest integer counts as negative; it is a power of two.
        vcgeq_s64(vabsq_s64(vreinterpretq_s64_u64(value)), vdupq_n_s64(1 << 53))
    } else {
        vcgeq_u64(value, vdupq_n_u64(1 << 53))
    };
    long_to_double::<S>(vbslq_u64(large, cut, value))
}

/// 8 elements to `float`: rounded to nearest even, once.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn to_float<S: Element>(src: *const u8) -> [float32x4_t; 2] {
    // SAFETY: each arm reads 8 elements.
    unsafe {
        match S::DATA_TYPE {
            DataType::Int32 => integer_lanes::<S>(src).each(|value| vcvtq_f32_s32(vreinterpretq_s32_u32(value))),
            DataType::Uint32 => integer_lanes::<S>(src).each(|value| vcvtq_f32_u32(value)),
            DataType::Int64 | DataType::Uint64 => {
                nearest_floats(load_quad_words(src).each(|value| odd_double::<S>(value)))
            }
            DataType::Double => nearest_floats(load_quad_words(src).each(|value| vreinterpretq_f64_u64(value))),
            // A NaN comes out quiet.
            DataType::BFloat16 => float_lanes::<S, false>(src).each(|value| {
                let bits = vreinterpretq_u32_f32(value);
                let quiet = vbicq_u32(vdupq_n_u32(0x40_0000), vceqq_f32(value, value));
                vreinterpretq_f32_u32(vorrq_u32(bits, quiet))
            }),
            _ => float_lanes::<S, false>(src),
        }
    }
}

#[inline]
#[target_feature(enable = "neon")]
fn to_bfloat16(value: [float32x4_t; 2]) -> uint16x8_t {
    high_words(value.each(|value| {
        let bits = vreinterpretq_u32_f32(value);
        let odd = vandq_u32(vshrq_n_u32::<16>(bits), vdupq_n_u32(1));
        let rounded = vaddq_u32(vaddq_u32(bits, vdupq_n_u32(0x7fff)), odd);
        let quiet = vorrq_u32(bits, vdupq_n_u32(0x40_0000));
        vbslq_u32(vceqq_f32(value, value), rounded, quiet)
    }))
}

/// 8 elements as bfloat16, rounded to odd; `SMALL` as in [`float_lanes`].
#[inline]
#[target_feature(enable = "neon")]
unsafe fn odd_bfloat16<S: Element, const SMALL: bool>(src: *const u8) -> uint16x8_t {
    // SAFETY: 8 elements are read.
    unsafe {
        if is::<S>(DataType::BFloat16) {
            return load_words(src);
        }
        small_float::odd_bfloat16(float_lanes::<S, SMALL>(src))
    }
}

/// All bits set in the words of 8 elements that are not zero.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn not_zero<S: Element>(src: *const u8) -> uint16x8_t {
    // The sign of a float does not matter, of an integer it does.
    let mask = if const { is_integer::<S>() } { u64::MAX } else { u64::MAX >> 1 };
    // SAFETY: 8 elements are read.
    unsafe {
        match const { bits::<S>() } {
            16 => vtstq_u16(load_words(src), vdupq_n_u16((mask >> 48) as u16)),
            32 => low_words(load_double_words(src).each(|value| vtstq_u32(value, vdupq_n_u32((mask >> 32) as u32)))),
            _ => low_words(low_double_words(load_quad_words(src).each(|value| vtstq_u64(value, vdupq_n_u64(mask))))),
        }
    }
}

/// Toward zero, saturating at the ends of 32 bits, NaN to 0; for 4 and 2 bits to nearest even, of which the low bits are
/// kept.
#[inline]
#[target_feature(enable = "neon")]
fn to_integer<D: Element>(value: float32x4_t) -> uint32x4_t {
    if const { bits::<D>() < 8 } {
        // From 2^28 on a float's low bits are zeros, as are those of this limit and of what a negative overflow gives.
        return vreinterpretq_u32_s32(vcvtnq_s32_f32(vminq_f32(value, vdupq_n_f32(268435456.0))));
    }
    if const { is_signed::<D>() } { vreinterpretq_u32_s32(vcvtq_s32_f32(value)) } else { vcvtq_u32_f32(value) }
}

/// As [`to_integer`], for doubles and 64 bits.
#[inline]
#[target_feature(enable = "neon")]
fn to_long<D: Element>(value: float64x2_t) -> uint64x2_t {
    if const { bits::<D>() < 8 } {
        return vreinterpretq_u64_s64(vcvtnq_s64_f64(vminq_f64(value, vdupq_n_f64(288230376151711744.0))));
    }
    if const { is_signed::<D>() } { vreinterpretq_u64_s64(vcvtq_s64_f64(value)) } else { vcvtq_u64_f64(value) }
}
