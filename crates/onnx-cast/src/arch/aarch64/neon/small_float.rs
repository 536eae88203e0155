//! Floats of 8 bits or fewer, in lanes of 16 bits.
//!
//! Whatever the source, 16 bits of a bfloat16 rounded to odd are enough: the target has at most 4 bits of precision, and
//! the last bit says that there was more. So everything but float16, which has bits enough itself, comes through that.

use super::lanes::*;
use crate::arch::kinds::{is_integer, lane_format, small_format};
use crate::element::{Element, Kind};
use crate::format::Nan;
use crate::scalar::{RoundMode, Rules};
use core::arch::aarch64::*;

/// 8 floats as bfloat16, rounded to odd.
#[inline]
#[target_feature(enable = "neon")]
pub(super) fn odd_bfloat16(value: [float32x4_t; 2]) -> uint16x8_t {
    let bits = value.each(|value| vreinterpretq_u32_f32(value));
    vorrq_u16(high_words(bits), vminq_u16(low_words(bits), vdupq_n_u16(1)))
}

/// To nearest, ties to even, shifted by `count`, which is negative: to the right. A rounding shift takes a tie up, so
/// where the last place is even, one less is rounded.
#[inline]
#[target_feature(enable = "neon")]
fn nearest(value: uint16x8_t, count: int16x8_t) -> uint16x8_t {
    let even = vbicq_u16(vdupq_n_u16(1), vshlq_u16(value, count));
    vrshlq_u16(vqsubq_u16(value, even), count)
}

/// The magnitudes of 16-bit floats that hold elements of `S`, as codes of `D`; what is too large is above the largest.
///
/// A target's normal number is the magnitude with its exponent moved, and the significand's last bits rounded away. A
/// subnormal one loses a bit more for each step of its exponent below the normal ones.
#[inline]
#[target_feature(enable = "neon")]
fn codes<S: Element, D: Element>(magnitude: uint16x8_t) -> uint16x8_t {
    let (from, to) = const { (lane_format::<S>(), small_format::<D>()) };
    let difference = from.bias - to.bias;
    let shift = from.significand_bits as i16 - to.significand_bits as i16;
    let (whole, width) = (vdupq_n_s16(-shift), from.significand_bits as i16);
    match difference {
        // An integer's magnitude is 0, or 1 or more, which is normal in every format.
        _ if is_integer::<S>() => nearest(vqsubq_u16(magnitude, vdupq_n_u16((difference as u16) << width)), whole),
        // The subnormals of both have the same scale.
        0 => nearest(magnitude, whole),
        // The source's subnormals have half the scale of the target's: doubled, they have it, and an exponent field of
        // 1, one more than it had, is as much as the significand's implicit bit.
        -1 => nearest(vaddq_u16(magnitude, vminq_u16(magnitude, vdupq_n_u16(1 << width))), whole),
        // The target's subnormals are normal in the source; the source's are far below half of the smallest.
        _ => {
            let first = difference + 1;
            let field = vshlq_u16(magnitude, vdupq_n_s16(-width));
            let above = vqsubq_u16(field, vdupq_n_u16(first as u16));
            let significand = vbslq_u16(vdupq_n_u16((1 << width) - 1), magnitude, vdupq_n_u16(1 << width));
            // The count is the lower byte: what is below -128 is a large one to the left, of which 0 is left as well.
            let below = vsubq_u16(field, vdupq_n_u16(first as u16));
            let count = vsubq_s16(vreinterpretq_s16_u16(vsubq_u16(below, above)), vdupq_n_s16(shift));
            let exponent = vshlq_u16(above, vdupq_n_s16(to.significand_bits as i16));
            vaddq_u16(nearest(significand, count), exponent)
        }
    }
}

/// To a float of 8 bits or fewer other than float8e8m0, from 16-bit floats that hold elements of `S`: float16, or else
/// bfloat16 rounded to odd.
#[inline]
#[target_feature(enable = "neon")]
pub(super) fn narrow<S: Element, D: Element>(value: [uint16x8_t; 2], rules: &Rules) -> uint8x16_t {
    let (source, format) = const { (lane_format::<S>(), small_format::<D>()) };
    let magnitude = value.each(|value| vandq_u16(value, vdupq_n_u16(0x7fff)));
    let [low, high] = magnitude.each(|magnitude| codes::<S, D>(magnitude));
    // The largest code that a finite value gets. An overflow that is not the largest number is the code after it, in
    // every format, so the smaller of a code and this is the rule for overflow.
    let code = vminq_u8(vqmovn_high_u16(vqmovn_u16(low), high), vdupq_n_u8(rules.overflow));
    if matches!(S::DATA_TYPE.info().kind, Kind::Uint) {
        return code;
    }
    let top = vshlq_u8(high_bytes(value), vdupq_n_s8(format.bits as i8 - 8));
    let sign = vandq_u8(top, vdupq_n_u8(format.sign_bit() as u8));
    // Where the format has no -0, a code of 0 takes no sign.
    let sign = if format.negative_zero { sign } else { vandq_u8(sign, vtstq_u8(code, code)) };
    let signed = vorrq_u8(code, sign);
    if is_integer::<S>() {
        return signed;
    }
    // Whether infinity is written as NaN depends, in the types without -0, on the operator's version.
    let infinity = source.infinity_code() as u16;
    let nan_for_infinity = !format.negative_zero && rules.infinity == rules.nan;
    let numbers = if nan_for_infinity { infinity - 1 } else { infinity };
    let is_nan = low_bytes(magnitude.each(|magnitude| vcgtq_u16(magnitude, vdupq_n_u16(numbers))));
    let nan = vdupq_n_u8(rules.nan);
    let nan = if matches!(format.nan, Nan::AllOnes | Nan::AboveInfinity) { vorrq_u8(nan, sign) } else { nan };
    vbslq_u8(is_nan, nan, signed)
}

/// To float8e8m0, from bfloat16 rounded to odd: the exponent, after the bias of the rounding mode is added below it.
#[inline]
#[target_feature(enable = "neon")]
pub(super) fn to_power(value: [uint16x8_t; 2], rules: &Rules) -> uint8x16_t {
    let lanes = |code: u16| vdupq_n_u16(code);
    let bias = match rules.round_mode {
        RoundMode::Up => 0x7f,
        RoundMode::Down => 0,
        RoundMode::Nearest => 0x40,
    };
    low_bytes(value.each(|value| {
        // From 2^-127 to 2^-126 a bfloat16 is subnormal: its bits, moved up by one, are those of an exponent field of 0
        // with the implicit bit above it, which goes.
        let subnormal = vcltq_u16(value, lanes(0x0080));
        let doubled = vandq_u16(subnormal, vsubq_u16(value, lanes(0x0080)));
        let code = vshrq_n_u16::<7>(vaddq_u16(vaddq_u16(value, doubled), lanes(bias)));
        let code = vbslq_u16(vcgtq_u16(value, lanes(0x7f00)), lanes(rules.overflow.into()), code);
        // As signed integers, the bits of negative floats are below those of every other.
        let below = vcltq_s16(vreinterpretq_s16_u16(value), vdupq_n_s16(0x0040));
        let code = vbslq_u16(below, lanes(rules.underflow.into()), code);
        let is_nan = vcgtq_u16(vandq_u16(value, lanes(0x7fff)), lanes(0x7f80));
        vbslq_u16(is_nan, lanes(0xff), code)
    }))
}
