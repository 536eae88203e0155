//! Floats of 8 bits or fewer, from lanes of `f32`.
//!
//! A type with a significand is rounded by one addition. Beside a power of two whose last place is the last place that
//! the target keeps, the processor's addition rounds to that place, to nearest even, and leaves the rounded significand
//! in the low bits of the sum. The power follows the exponent of the value down to that of the smallest normal number,
//! so subnormal numbers come out by the same addition.
//!
//! Every `unsafe fn` here asks one thing of its caller: the processor has the instructions of `L`.
#![allow(unsafe_op_in_unsafe_fn, reason = "each line is a method of `Lanes`, which asks for no more")]

use super::step::{both, parts};
use crate::element::{Class, DataType, Element, class};
use crate::format::{FloatFormat, Nan};
use crate::kernel::lanes::Lanes;
use crate::packed::bits;
use crate::scalar::{RoundMode, Rules};

/// Bits of the significand of `f32`.
const SIGNIFICAND: u32 = 23;
const EXPONENT_BIAS: i32 = 127;
const INFINITY: u32 = f32::INFINITY.to_bits();
const MAGNITUDE: u32 = u32::MAX >> 1;
/// Infinity as `float16`.
const UPPER_INFINITY: u32 = 0x7c00;

/// [`Rules`] of a target as lanes of 32 bits; those of `float8e8m0` of as many bits as are narrowed.
#[derive(Clone, Copy)]
pub(crate) struct RuleLanes<L: Lanes> {
    /// The magnitude that rounds to the code for overflow; what is larger is cut to it.
    limit: L::V,
    /// The largest magnitude that is not written as NaN.
    last_number: L::V,
    nan: L::V,
    overflow: L::V,
    underflow: L::V,
    /// What is added below the exponent before `float8e8m0` cuts there.
    power_bias: L::V,
}

impl<L: Lanes> RuleLanes<L> {
    /// The magnitude that rounds to the code for overflow.
    #[inline(always)]
    pub(super) fn limit(&self) -> L::V {
        self.limit
    }

    /// # Safety
    /// The processor has the instructions of `L`.
    #[inline(always)]
    pub(crate) unsafe fn new<S: Element, D: Element>(rules: &Rules) -> Self {
        let (limit, last_number) = match const { class::<D>() } {
            Class::SmallFloat(format) => {
                let infinity = if const { is_upper_byte::<S, D>() } { UPPER_INFINITY } else { INFINITY };
                let is_nan = infinity_is_nan(format, rules);
                (rules.highest(format).to_bits(), infinity - u32::from(is_nan))
            }
            Class::F64 | Class::F32 | Class::F16 | Class::BF16 | Class::E8M0 | Class::Int { .. } | Class::Bool => {
                (0, 0)
            }
        };
        let power_bias = match rules.round_mode {
            RoundMode::Up => (1 << SIGNIFICAND) - 1,
            RoundMode::Down => 0,
            RoundMode::Nearest => 1 << (SIGNIFICAND - 1),
        };
        let lanes = |value: u32| match const { rule_width::<S, D>() } {
            8 => L::splat::<8>(value.into()),
            16 => L::splat::<16>(value.into()),
            32 => L::splat::<32>(value.into()),
            _ => unreachable!("no lanes of this width"),
        };
        RuleLanes {
            limit: L::splat::<32>(limit.into()),
            last_number: if const { is_upper_byte::<S, D>() } {
                L::splat::<16>(last_number.into())
            } else {
                L::splat::<32>(last_number.into())
            },
            nan: lanes(rules.nan.into()),
            overflow: lanes(rules.overflow.into()),
            underflow: lanes(rules.underflow.into()),
            power_bias: lanes(power_bias >> const { 32 - rule_width::<S, D>() }),
        }
    }
}

/// Whether the target is the upper byte of the source, rounded; in `float8e5m2fnuz`, of twice the value.
pub(crate) const fn is_upper_byte<S: Element, D: Element>() -> bool {
    matches!(class::<S>(), Class::F16) && matches!(D::DATA_TYPE, DataType::Float8E5M2 | DataType::Float8E5M2FNUZ)
}

/// The width of the lanes in which a pair is narrowed.
const fn rule_width<S: Element, D: Element>() -> usize {
    let is_upper_half = matches!(class::<S>(), Class::BF16) && matches!(class::<D>(), Class::E8M0);
    match (class::<S>(), class::<D>()) {
        _ if is_upper_byte::<S, D>() => 8,
        _ if is_upper_half => 16,
        _ => 32,
    }
}

/// Whether these rules need the portable kernel. [`codes`] does not implement one rule of old versions: NaN becomes the
/// largest number of a finite type, whatever its sign.
pub(crate) fn asks_for_scalar<D: Element>(rules: &Rules) -> bool {
    let is_finite = const { matches!(class::<D>(), Class::SmallFloat(FloatFormat { nan: Nan::None, .. })) };
    is_finite && rules.nan == rules.overflow
}

/// Lanes of `f32` as codes of a small float, one to a byte with the upper bits zero. The lanes may be rounded to odd;
/// the signs are the top bits of `top`'s bytes: in the order of the elements if `S` has 16 bits, else in that of
/// [`Lanes::narrow_lanes`].
#[inline(always)]
pub(crate) unsafe fn codes<L: Lanes, S: Element>(
    format: FloatFormat,
    value: [L::V; 4],
    top: L::V,
    rules: &RuleLanes<L>,
) -> L::V {
    let codes = parts!(i => {
        let magnitude = L::and(value[i], L::splat::<32>(MAGNITUDE.into()));
        let code = number_code::<L>(format, L::min_u::<32>(magnitude, rules.limit));
        L::select::<32>(L::gt::<32>(magnitude, rules.last_number), rules.nan, code)
    });
    let is_word = const { bits::<S>() == 16 };
    let code = if is_word { L::low_bytes(codes) } else { L::narrow_lanes(codes) };
    let code = with_sign::<L>(format, code, top);
    if is_word { code } else { L::in_order_of_lanes(code) }
}

/// As [`codes`], of positive multiples of the lanes: their magnitudes are given too, none of them above that of
/// overflow. Where `is_finite`, NaN and infinity may have any code.
#[inline(always)]
pub(super) unsafe fn scaled_codes<L: Lanes>(
    format: FloatFormat,
    value: [L::V; 4],
    within: [L::V; 4],
    rules: &RuleLanes<L>,
    is_finite: bool,
) -> L::V {
    let mut code = L::narrow_lanes(parts!(i => number_code::<L>(format, within[i])));
    if !is_finite {
        // NaN is rare, and a branch costs less than a selection for each vector.
        let magnitude = parts!(i => L::and(value[i], L::splat::<32>(MAGNITUDE.into())));
        let [low, high] = [0, 2].map(|i| L::max_u::<32>(magnitude[i], magnitude[i + 1]));
        if L::any::<32>(L::gt::<32>(L::max_u::<32>(low, high), rules.last_number)) {
            let is_nan = parts!(i => L::gt::<32>(magnitude[i], rules.last_number));
            let zero = L::splat::<32>(0);
            let nan = L::narrow_lanes(parts!(i => L::select::<32>(is_nan[i], rules.nan, zero)));
            let is_nan = L::narrow_lanes(parts!(i => L::select::<32>(is_nan[i], L::splat::<32>(0xff), zero)));
            code = L::select_by_top_bit(is_nan, nan, code);
        }
    }
    L::in_order_of_lanes(with_sign::<L>(format, code, L::narrow_top_bits(value)))
}

/// Whether infinity is written as NaN. Only in the types without -0 may it be while overflow is not.
pub(super) fn infinity_is_nan(format: FloatFormat, rules: &Rules) -> bool {
    !format.negative_zero && rules.infinity == rules.nan
}

/// The codes of magnitudes with the signs that are given in the top bits of bytes.
#[inline(always)]
pub(super) unsafe fn with_sign<L: Lanes>(format: FloatFormat, code: L::V, top: L::V) -> L::V {
    // The shifts are of 16-bit words. The mask clears the bits that come from the neighbouring byte.
    let shifted = match format.bits {
        8 => top,
        6 => L::shr::<16, 2>(top),
        4 => L::shr::<16, 4>(top),
        _ => unreachable!("no float of this width"),
    };
    let sign = L::and(shifted, L::splat::<8>(format.sign_bit()));
    if format.negative_zero {
        return L::or(code, sign);
    }
    let zero = L::splat::<8>(0);
    L::or(code, L::select::<8>(L::eq::<8>(code, zero), zero, sign))
}

/// The code of each magnitude up to the limit, in the low byte of its lane. The bytes above it are arbitrary.
#[inline(always)]
unsafe fn number_code<L: Lanes>(format: FloatFormat, within: L::V) -> L::V {
    let lanes = |value: u32| L::splat::<32>(value.into());
    let min_normal = ((EXPONENT_BIAS - format.bias + 1) as u32) << SIGNIFICAND;
    let dropped = SIGNIFICAND - format.significand_bits;
    // The code's exponent field is added from the power's own bits, as if it were biased as `f32`; this takes the
    // difference off. It is even, so that the addition breaks ties as it would without.
    let rebias = (min_normal >> dropped).wrapping_neg() & 0xff;
    let exponent = L::max_u::<32>(L::and(within, lanes(INFINITY)), lanes(min_normal));
    // A product of powers of two, but for the bias below them: exact, also where it is not fused.
    let sum = L::mul_add_f32(exponent, lanes(((EXPONENT_BIAS as u32 + dropped) << SIGNIFICAND) + rebias), within);
    let field = match format.significand_bits {
        1 => L::shr::<32, 22>(exponent),
        2 => L::shr::<32, 21>(exponent),
        3 => L::shr::<32, 20>(exponent),
        4 => L::shr::<32, 19>(exponent),
        _ => unreachable!("no significand of this width"),
    };
    L::add::<32>(sum, field)
}

/// `float16` as codes of a type for which [`is_upper_byte`].
#[inline(always)]
pub(crate) unsafe fn upper_bytes<L: Lanes>(format: FloatFormat, value: [L::V; 2], rules: &RuleLanes<L>) -> L::V {
    let words = |value: u16| L::splat::<16>(value.into());
    let magnitude = both!(value, value => L::and(value, words(0x7fff)));
    let code = both!(magnitude, magnitude => {
        // Twice a number has an exponent of 1 more, and twice a subnormal one its significand twice.
        let twice = L::add::<16>(magnitude, L::min_u::<16>(magnitude, words(0x400)));
        let moved = if format.bias == 15 { magnitude } else { twice };
        let odd = L::and(L::shr::<16, 8>(moved), words(1));
        L::shr::<16, 8>(L::add::<16>(L::add::<16>(moved, words(0x7f)), odd))
    });
    let is_nan = both!(magnitude, magnitude => {
        L::select::<16>(L::gt::<16>(magnitude, rules.last_number), words(0xffff), words(0))
    });
    // The code of NaN is above all others.
    let code = L::min_u::<8>(L::narrow_words::<false>(code), rules.overflow);
    let code = L::max_u::<8>(code, L::and(L::narrow_words::<true>(is_nan), rules.nan));
    L::in_order_of_words(with_sign::<L>(format, code, L::narrow_words::<true>(value)))
}

/// The upper `W` bits of `f32` as codes of `float8e8m0`, in the low byte of each lane with zeros above: the exponent,
/// after the bias of the rounding mode is added below it. The lanes may be rounded to odd.
#[inline(always)]
pub(crate) unsafe fn power_code<L: Lanes, const W: usize>(value: L::V, rules: &RuleLanes<L>) -> L::V {
    let lanes = |value: u32| L::splat::<W>((value >> (32 - W)).into());
    // From 2^-127 to 2^-126 the value is subnormal: its bits, moved up by one, are those of an exponent field of 0 with
    // the implicit bit above it, which goes. (Negative values are among these, and go below.)
    let min_normal = lanes(1 << SIGNIFICAND);
    let moved = L::sub::<W>(L::add::<W>(value, value), min_normal);
    let from_power = L::select::<W>(L::gt::<W>(min_normal, value), moved, value);
    let biased = L::add::<W>(from_power, rules.power_bias);
    let code = if W == 16 { L::shr::<W, 7>(biased) } else { L::shr::<W, 23>(biased) };
    let code = L::select::<W>(L::gt::<W>(value, lanes(0x7f00_0000)), rules.overflow, code);
    // As signed integers, the bits of negative floats are below those of every other.
    let code = L::select::<W>(L::gt::<W>(lanes(0x0040_0000), value), rules.underflow, code);
    let is_nan = L::gt::<W>(L::and(value, lanes(MAGNITUDE)), lanes(INFINITY));
    L::select::<W>(is_nan, L::splat::<W>(0xff), code)
}

/// Codes of a float of 8 bits, in lanes of 32 bits with zeros above, as `f32`; NaN comes out quiet.
#[inline(always)]
pub(crate) unsafe fn widen<L: Lanes>(format: FloatFormat, code: L::V) -> L::V {
    let lanes = |value: u32| L::splat::<32>(value.into());
    let magnitude = L::and(code, lanes(0x7f));
    // With its fields in the places of those of `f32`, and the exponent moved, a code is its number; a subnormal one
    // gets an implicit 1, which is subtracted.
    let moved = match format.significand_bits {
        1 => L::shl::<32, 22>(magnitude),
        2 => L::shl::<32, 21>(magnitude),
        3 => L::shl::<32, 20>(magnitude),
        4 => L::shl::<32, 19>(magnitude),
        _ => unreachable!("no significand of this width"),
    };
    let rebias = ((EXPONENT_BIAS - format.bias) as u32) << SIGNIFICAND;
    let normal = L::add::<32>(moved, lanes(rebias));
    let one = lanes(1 << SIGNIFICAND);
    let minus_one = lanes(1 << 31 | (rebias + (1 << SIGNIFICAND)));
    let subnormal = L::add_f32(L::add::<32>(normal, one), minus_one);
    let number = L::select::<32>(L::gt::<32>(one, moved), subnormal, normal);
    let quiet = lanes(0x7fc0_0000);
    let value = match format.nan {
        Nan::AllOnes | Nan::Top => L::select::<32>(L::eq::<32>(magnitude, lanes(0x7f)), quiet, number),
        Nan::MinusZero => L::select::<32>(L::eq::<32>(code, lanes(0x80)), quiet, number),
        Nan::None => number,
        Nan::AboveInfinity => unreachable!("float8e5m2 is widened as the upper byte of a float16"),
    };
    L::or(value, L::and(L::shl::<32, 24>(code), lanes(1 << 31)))
}

/// Formats that no type has: what the arms for them give shows only here until one does.
#[cfg(all(test, optimized))]
mod tests {
    use super::*;
    use crate::arch::plain::Plain;
    use crate::scalar::widen_code;

    type L = Plain<16, false>;

    const FORMATS: [FloatFormat; 4] = [
        FloatFormat::finite(3, 4),
        FloatFormat::finite_with_nan(3, 4),
        FloatFormat::finite_unsigned_zero(3, 4),
        FloatFormat { bias: 16, ..FloatFormat::finite(3, 4) },
    ];

    fn vector(lanes: [u32; 4]) -> <L as Lanes>::V {
        let mut value = [0; 16];
        for (bytes, lane) in value.as_chunks_mut().0.iter_mut().zip(lanes) {
            *bytes = lane.to_le_bytes();
        }
        value
    }

    #[test]
    fn codes_of_each_significand_are_widened() {
        let formats = [FloatFormat { bits: 8, bias: 31, ..FloatFormat::finite(6, 1) }, FloatFormat::finite(5, 2)];
        for format in FORMATS.into_iter().chain(formats) {
            for first in (0..256).step_by(4) {
                let codes = [0, 1, 2, 3].map(|lane| first + lane);
                // SAFETY: plain lanes need no instructions.
                let got = unsafe { widen::<L>(format, vector(codes)) };
                assert_eq!(got, vector(codes.map(|code| widen_code(format, code).to_bits())), "{first:#x}, {format:?}");
            }
        }
    }
}
