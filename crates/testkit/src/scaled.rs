//! One element of QuantizeLinear and of DequantizeLinear, and a tensor of DynamicQuantizeLinear.
//!
//! Quotients and products are exact and then rounded as the operators ask. NaN keeps the sign of the element that was
//! NaN. NaN that arises, from 0 / 0 or from a scale that is NaN, is positive. No NaN has a payload.
//!
//! [`quantize`] and [`dequantize`] are the definitions: ratios of big integers, search and comparison.
//! [`quantize_direct`] and [`dequantize_direct`] are the same rules over the quicker arithmetic of
//! [`Direct`](crate::Direct), for checks by the million; the tests compare the two.

use crate::exact::{Dyadic, Magnitude, Number, Quick, Ratio, decode};
use crate::oracle::{Rules, encode};
use crate::types::{Kind, TABLE, Ty};

/// The types of QuantizeLinear's first input.
pub const QUANTIZE_SOURCES: [Ty; 4] = [Ty::Float, Ty::Float16, Ty::Bfloat16, Ty::Int32];
/// The types of QuantizeLinear's scale.
pub const QUANTIZE_SCALES: [Ty; 5] = [Ty::Float, Ty::Float16, Ty::Bfloat16, Ty::Int32, Ty::Float8E8M0];
/// The types of DequantizeLinear's scale.
pub const DEQUANTIZE_SCALES: [Ty; 4] = [Ty::Float, Ty::Float16, Ty::Bfloat16, Ty::Float8E8M0];
/// The types that a quotient can be rounded to, which are also those of DequantizeLinear's output.
pub const FLOATS: [Ty; 3] = [Ty::Float, Ty::Float16, Ty::Bfloat16];
/// The types of QuantizeLinear's output: integers of 16 bits or fewer, and floats of 8 bits or fewer with a sign.
/// DequantizeLinear's first input has these and int32.
pub const QUANTIZED: [Ty; count_quantized()] = {
    let mut types = [Ty::Uint8; count_quantized()];
    let (mut i, mut count) = (0, 0);
    while i < TABLE.len() {
        if is_quantized(TABLE[i].ty) {
            types[count] = TABLE[i].ty;
            count += 1;
        }
        i += 1;
    }
    types
};

const fn is_quantized(ty: Ty) -> bool {
    match ty.kind() {
        Kind::Int { .. } => ty.bits() <= 16,
        Kind::Float(_) => ty.bits() <= 8,
        Kind::PowerOfTwo | Kind::Bool | Kind::String | Kind::Complex => false,
    }
}

const fn count_quantized() -> usize {
    let (mut i, mut count) = (0, 0);
    while i < TABLE.len() {
        count += is_quantized(TABLE[i].ty) as usize;
        i += 1;
    }
    count
}

/// The type that the quotient is rounded to where the attribute `precision` is absent.
pub fn default_precision(scale: Ty) -> Ty {
    if FLOATS.contains(&scale) { scale } else { Ty::Float }
}

/// One element of QuantizeLinear: `saturate(round(x / scale) + zero_point)`.
///
/// `x` and `scale` are a type and a bit pattern. `zero_point` is a value: 0 without any, and for floats.
/// `precision` is the type, one of [`FLOATS`], that the quotient is rounded to first. The result is a bit pattern of
/// `to`.
///
/// # Panics
/// If a type is string or complex.
pub fn quantize(x: (Ty, u64), scale: (Ty, u64), zero_point: i64, to: Ty, precision: Ty, saturate: bool) -> u64 {
    quantize_by::<Ratio>(x, scale, zero_point, to, precision, saturate)
}

/// [`quantize`] in some tens of nanoseconds instead of some microseconds.
pub fn quantize_direct(x: (Ty, u64), scale: (Ty, u64), zero_point: i64, to: Ty, precision: Ty, saturate: bool) -> u64 {
    quantize_by::<Quick>(x, scale, zero_point, to, precision, saturate)
}

/// Whether a quotient, rounded to the precision, is zero. A zero point of a float of 6 bits or fewer is added to it, so
/// that -0 becomes 0; all else is as without a zero point.
pub fn quotient_is_zero(x: (Ty, u64), scale: (Ty, u64), precision: Ty) -> bool {
    let quotient = rounded(precision, quotient::<Quick>(decode(x.0, x.1), decode(scale.0, scale.1)));
    matches!(quotient, Number::Finite { magnitude, .. } if magnitude.is_zero())
}

/// One element of DequantizeLinear: `(x - zero_point) * scale`.
///
/// `x` and `scale` are a type and a bit pattern. `zero_point` is a value: 0 without any, and for floats. The
/// result is a bit pattern of `to`, one of [`FLOATS`].
///
/// # Panics
/// If a type is string or complex.
pub fn dequantize(x: (Ty, u64), scale: (Ty, u64), zero_point: i64, to: Ty) -> u64 {
    dequantize_by::<Ratio>(x, scale, zero_point, to)
}

/// [`dequantize`] in some tens of nanoseconds instead of some microseconds.
pub fn dequantize_direct(x: (Ty, u64), scale: (Ty, u64), zero_point: i64, to: Ty) -> u64 {
    dequantize_by::<Quick>(x, scale, zero_point, to)
}

/// A magnitude that can be the result of a division or a multiplication.
pub(crate) trait Arithmetic: Magnitude + From<Quick> {
    /// `x / by`, of which `by` is not zero.
    fn quotient(x: Quick, by: Quick) -> Self;
    /// `x * by`. The product of the significands must fit 64 bits.
    fn product(x: Quick, by: Quick) -> Self;
}

impl From<Quick> for Ratio {
    fn from(value: Quick) -> Self {
        Dyadic { significand: value.significand.into(), exponent: value.exponent }.into()
    }
}

impl Arithmetic for Ratio {
    fn quotient(x: Quick, by: Quick) -> Self {
        let (x, by) = (Self::from(x), Self::from(by));
        Self { numerator: x.numerator * by.denominator, denominator: x.denominator * by.numerator }
    }

    fn product(x: Quick, by: Quick) -> Self {
        let (x, by) = (Self::from(x), Self::from(by));
        Self { numerator: x.numerator * by.numerator, denominator: x.denominator * by.denominator }
    }
}

impl Arithmetic for Quick {
    fn quotient(x: Quick, by: Quick) -> Self {
        if x.significand == 0 {
            return x;
        }
        // The quotient has 60 or 61 bits, more than any type it is rounded to. The bit behind them says whether
        // anything is left, so comparisons with half a unit come out as those of the exact quotient.
        let (x_zeros, by_zeros) = (x.significand.leading_zeros(), by.significand.leading_zeros());
        let (dividend, divisor) = (u128::from(x.significand << x_zeros) << 60, u128::from(by.significand << by_zeros));
        let (quotient, rest) = (dividend / divisor, dividend % divisor);
        Self {
            significand: (quotient as u64) << 1 | u64::from(rest != 0),
            exponent: (x.exponent - x_zeros as i32) - (by.exponent - by_zeros as i32) - 61,
        }
    }

    fn product(x: Quick, by: Quick) -> Self {
        Self { significand: x.significand * by.significand, exponent: x.exponent + by.exponent }
    }
}

/// NaN that no element was.
fn nan<M>() -> Number<M> {
    Number::NaN { negative: false, payload: 0 }
}

fn zero<M: Arithmetic>(negative: bool) -> Number<M> {
    Number::Finite { negative, magnitude: Quick { significand: 0, exponent: 0 }.into() }
}

/// `x / scale` as IEEE 754 divides, but exact.
fn quotient<M: Arithmetic>(x: Number<Quick>, scale: Number<Quick>) -> Number<M> {
    let negative = x.negative() != scale.negative();
    match (x, scale) {
        (Number::NaN { negative, .. }, _) => Number::NaN { negative, payload: 0 },
        (_, Number::NaN { .. }) | (Number::Infinity { .. }, Number::Infinity { .. }) => nan(),
        (Number::Infinity { .. }, _) => Number::Infinity { negative },
        (_, Number::Infinity { .. }) => zero(negative),
        (Number::Finite { magnitude: x, .. }, Number::Finite { magnitude: by, .. }) => {
            match (x.is_zero(), by.is_zero()) {
                (true, true) => nan(),
                (false, true) => Number::Infinity { negative },
                (_, false) => Number::Finite { negative, magnitude: M::quotient(x, by) },
            }
        }
    }
}

/// `x * scale` as IEEE 754 multiplies, but exact.
pub(crate) fn product<M: Arithmetic>(x: Number<Quick>, scale: Number<Quick>) -> Number<M> {
    let negative = x.negative() != scale.negative();
    match (x, scale) {
        (Number::NaN { negative, .. }, _) => Number::NaN { negative, payload: 0 },
        (_, Number::NaN { .. }) => nan(),
        (Number::Infinity { .. }, Number::Finite { magnitude, .. })
        | (Number::Finite { magnitude, .. }, Number::Infinity { .. })
            if magnitude.is_zero() =>
        {
            nan()
        }
        (Number::Infinity { .. }, _) | (_, Number::Infinity { .. }) => Number::Infinity { negative },
        (Number::Finite { magnitude: x, .. }, Number::Finite { magnitude: by, .. }) => {
            Number::Finite { negative, magnitude: M::product(x, by) }
        }
    }
}

/// Rounds a number to a type of floats, and gives what it is there.
pub(crate) fn rounded<M: Magnitude>(ty: Ty, number: Number<M>) -> Number<Quick> {
    decode(ty, encode(ty, number, &Rules::default()))
}

fn quantize_by<M: Arithmetic>(
    x: (Ty, u64),
    scale: (Ty, u64),
    zero_point: i64,
    to: Ty,
    precision: Ty,
    saturate: bool,
) -> u64 {
    let quotient = rounded(precision, quotient::<M>(decode(x.0, x.1), decode(scale.0, scale.1)));
    let Some((lowest, highest)) = to.int_range() else {
        return encode(to, quotient.map(M::from), &Rules { saturate, ..Rules::default() });
    };
    // Past every sum of a zero point and a limit, and far from the ends of i64.
    const FAR: u32 = 40;
    let sum = match quotient {
        Number::NaN { .. } => return lowest as u64 & to.mask(),
        Number::Finite { negative, magnitude } if magnitude.cmp_dyadic(&Dyadic::power_of_two(FAR as i32)).is_lt() => {
            let nearest = M::from(magnitude).nearest_integer_low_bits() as i64;
            zero_point + if negative { -nearest } else { nearest }
        }
        Number::Infinity { negative } | Number::Finite { negative, .. } => {
            if negative {
                -(1 << FAR)
            } else {
                1 << FAR
            }
        }
    };
    i128::from(sum).clamp(lowest, highest) as u64 & to.mask()
}

fn dequantize_by<M: Arithmetic>(x: (Ty, u64), scale: (Ty, u64), zero_point: i64, to: Ty) -> u64 {
    let mut difference = decode(x.0, x.1);
    if let (Some(_), Number::Finite { negative, magnitude }) = (x.0.int_range(), difference) {
        let value = magnitude.significand as i64 * if negative { -1 } else { 1 } - zero_point;
        difference =
            Number::Finite { negative: value < 0, magnitude: Quick { significand: value.unsigned_abs(), exponent: 0 } };
    }
    let difference = rounded(Ty::Float, difference.map(M::from));
    let product = rounded(Ty::Float, product::<M>(difference, decode(scale.0, scale.1)));
    encode(to, product.map(M::from), &Rules::default())
}

/// DynamicQuantizeLinear: the codes of uint8, the scale and the zero point.
///
/// Every step is rounded to float. Minimum and maximum pass over NaN and include 0. Where both are 0, the scale is 1.
pub fn dynamic_quantize(x: &[f32]) -> (Vec<u8>, f32, u8) {
    // `f32::min` and `f32::max` pass over NaN. Adding 0 makes -0 positive.
    let min = x.iter().fold(0.0, |min: f32, &x| min.min(x)) + 0.0;
    let max = x.iter().fold(0.0, |max: f32, &x| max.max(x)) + 0.0;
    let scale = if min == max { 1.0 } else { (max - min) / 255.0 };
    // -inf / inf is NaN: the least value that the formula has a limit for.
    let zero_point = if min == f32::NEG_INFINITY { 255.0 } else { 0.0 - min / scale };
    // The cast of NaN, which comes of 0 / 0, gives 0.
    let zero_point = zero_point.clamp(0.0, 255.0).round_ties_even() as u8;
    let bits = |value: f32| (Ty::Float, u64::from(value.to_bits()));
    let code = |&x: &f32| quantize(bits(x), bits(scale), zero_point.into(), Ty::Uint8, Ty::Float, true) as u8;
    (x.iter().map(code).collect(), scale, zero_point)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generators::{Rng, every, near_ties, random, random_scaled, special};

    fn float(value: f32) -> (Ty, u64) {
        (Ty::Float, value.to_bits().into())
    }

    #[track_caller]
    fn check(x: (Ty, u64), scale: (Ty, u64), zero_point: i64, to: Ty, want: u64) {
        for saturate in [true, false] {
            let got = quantize(x, scale, zero_point, to, default_precision(scale.0), saturate);
            assert_eq!(got, want, "{x:x?} / {scale:x?} + {zero_point} to {} {saturate}: {got:#x}", to.name());
        }
    }

    #[test]
    fn quotients_to_integers() {
        use Ty::*;
        let one = float(1.0);
        for (x, to, zero_point, want) in [
            (0.5, Int8, 0, 0),
            (1.5, Int8, 0, 2),
            (2.5, Int8, 0, 2),
            (-2.5, Int8, 0, 0xfe),
            // Rounded before the zero point is added: 2.5 + 1 is not a tie of the sum.
            (2.5, Int8, 1, 3),
            (-1e-30, Uint8, 7, 7),
            (127.5, Int8, 0, 0x7f),
            (-128.5, Int8, 0, 0x80),
            (300.0, Uint8, 0, 0xff),
            (-3.0, Uint8, 2, 0),
            (3e9, Int8, 0, 0x7f),
            (3e38, Int16, -32768, 0x7fff),
            (-3e38, Uint16, 65535, 0),
            (f32::INFINITY, Uint8, 3, 0xff),
            (f32::NEG_INFINITY, Uint8, 3, 0),
            (f32::INFINITY, Int4, 0, 7),
            (f32::NAN, Int8, 5, 0x80),
            (-f32::NAN, Uint8, 5, 0),
            (9.0, Int4, 0, 7),
            (-9.0, Int4, 0, 8),
            (9.0, Uint4, 8, 15),
            (2.0, Int2, 0, 1),
            (-9.0, Int2, 0, 2),
            (2.0, Uint2, 1, 3),
        ] {
            check(float(x), one, zero_point, to, want);
            // A negative scale, and one that is a power of two of another type.
            check(float(-x), float(-1.0), zero_point, to, want);
            check(float(x), (Float8E8M0, 127), zero_point, to, want);
        }
        check(float(0.500_000_06), one, 0, Uint8, 1);
        // A tie, which the product with 1 / 7 is not.
        check(float(45.5), float(7.0), 0, Uint8, 6);
        // 2.5 + 1.5e-7 is not a tie. x rounded to float first, 16777220, would make it one.
        check((Int32, 16_777_221), float(6_710_888.0), 0, Uint8, 3);
        check((Int32, 16_777_220), float(6_710_888.0), 0, Uint8, 2);
        check((Int32, (-7i32) as u32 as u64), (Int32, 2), 0, Int8, 0xfc);
        check((Int32, 1 << 31), (Int32, 0xffff_ffff), 0, Int16, 0x7fff);
    }

    #[test]
    fn quotients_are_rounded_to_the_precision_first() {
        use Ty::*;
        // 1.4993 is 1.5 in bfloat16 and 1.499 in float16.
        let x = float(1.4993);
        assert_eq!(quantize(x, float(1.0), 0, Int8, Bfloat16, true), 2);
        assert_eq!(quantize(x, float(1.0), 0, Int8, Float16, true), 1);
        // 70000 is infinity in float16. 1.0626 is 1.0625, a tie of float8e4m3fn, in bfloat16.
        assert_eq!(quantize(float(70000.0), float(1.0), 0, Float8E5M2, Float16, false), 0x7c);
        assert_eq!(quantize(float(1.0626), float(1.0), 0, Float8E4M3FN, Bfloat16, true), 0x38);
        assert_eq!(quantize(float(1.0626), float(1.0), 0, Float8E4M3FN, Float, true), 0x39);
        // 2^-149 / 2 is a tie between zero and the smallest subnormal.
        assert_eq!(quantize((Float, 1), float(2.0), 0, Float8E4M3FN, Float, true), 0);
        assert_eq!(default_precision(Int32), Float);
        assert_eq!(default_precision(Float8E8M0), Float);
        assert_eq!(default_precision(Bfloat16), Bfloat16);
    }

    #[test]
    fn quotients_to_floats() {
        use Ty::*;
        for (x, scale, to, saturated, not) in [
            (7.0, 2.0, Float4E2M1, 6, 6),
            (-0.0, 3.0, Float4E2M1, 8, 8),
            (-100.0, 0.5, Float4E2M1, 15, 15),
            (-100.0, 0.5, Float6E2M3, 0x3f, 0x3f),
            (1.0, 3.0, Float8E4M3FN, 0x2b, 0x2b),
            (1000.0, 1.0, Float8E4M3FN, 0x7e, 0x7f),
            (-1.0, 0.0, Float8E4M3FN, 0xfe, 0xff),
            (1.0, -0.0, Float8E5M2, 0xfb, 0xfc),
            (0.0, 0.0, Float8E5M2, 0x7e, 0x7e),
            (f32::INFINITY, -f32::INFINITY, Float8E4M3FN, 0x7f, 0x7f),
            (-1.0, -f32::NAN, Float8E4M3FN, 0x7f, 0x7f),
            (-f32::NAN, f32::NAN, Float8E4M3FN, 0xff, 0xff),
            (-5.0, f32::INFINITY, Float8E4M3FN, 0x80, 0x80),
            (-5.0, f32::INFINITY, Float8E4M3FNUZ, 0, 0),
            (f32::INFINITY, 2.0, Float8E5M2FNUZ, 0x7f, 0x80),
        ] {
            assert_eq!(quantize(float(x), float(scale), 0, to, Float, true), saturated, "{x} / {scale} {}", to.name());
            assert_eq!(quantize(float(x), float(scale), 0, to, Float, false), not, "{x} / {scale} {}", to.name());
        }
    }

    #[test]
    fn products() {
        use Ty::*;
        let bits = |value: f32| u64::from(value.to_bits());
        for (x, scale, zero_point, to, want) in [
            ((Uint8, 3), float(0.1), 128, Float, bits(-125.0 * 0.1)),
            ((Int4, 0xf), float(2.0), 7, Float, bits(-16.0)),
            // The difference is rounded to float: 2^24 + 1 becomes 2^24.
            ((Int32, 16_777_217), float(1.0), 0, Float, bits(16_777_216.0)),
            ((Int32, 0), float(-1.0), 0, Float, bits(-0.0)),
            ((Float4E2M1, 8), float(2.0), 0, Float, bits(-0.0)),
            ((Float4E2M1, 7), (Float8E8M0, 254), 0, Float, bits(f32::INFINITY)),
            ((Float8E5M2, 1), (Float8E8M0, 0), 0, Float, 1 << 6),
            ((Int8, 0x80), (Float8E8M0, 255), 0, Float, 0x7fc0_0000),
            ((Int8, 0), float(f32::INFINITY), 0, Bfloat16, 0x7fc0),
            ((Int8, 0), float(f32::NEG_INFINITY), 0, Float16, 0x7e00),
            ((Float8E4M3FN, 0xff), float(-f32::NAN), 0, Float, 0xffc0_0000),
            // A NaN of float8e5m2 that Cast would give a payload.
            ((Float8E5M2, 0x7d), float(-1.0), 0, Float, 0x7fc0_0000),
            ((Float8E4M3FNUZ, 0x80), float(1.0), 0, Float16, 0xfe00),
            ((Float8E5M2, 0xfc), float(-2.0), 0, Bfloat16, 0x7f80),
            // Rounded to float, then to the output: 65520 - 2^-10 rounds to 65520 first, the tie with infinity.
            ((Int32, 65535), float(0.999_771_1), 0, Float16, 0x7c00),
        ] {
            let got = dequantize(x, scale, zero_point, to);
            assert_eq!(got, want, "({x:x?} - {zero_point}) * {scale:x?} to {}: {got:#x}", to.name());
        }
    }

    #[test]
    fn dynamic() {
        const INF: f32 = f32::INFINITY;
        for (x, codes, scale, zero_point) in [
            (&[0.0f32, 2.0, -3.0, -2.5, 1.34, 0.5][..], &[153u8, 255, 0, 26, 221, 179][..], 5.0 / 255.0, 153),
            (&[-1.0, -2.1, -1.3, -2.5, -3.34, -4.0], &[191, 121, 172, 96, 42, 0], 4.0 / 255.0, 255),
            (&[1.0, 510.0], &[0, 255], 2.0, 0),
            (&[], &[], 1.0, 0),
            (&[0.0, -0.0, f32::NAN], &[0, 0, 0], 1.0, 0),
            (&[f32::NAN, 255.0, 7.0], &[0, 255, 7], 1.0, 0),
            (&[INF, 1.0, f32::NAN], &[0, 0, 0], INF, 0),
            (&[-INF, 1.0, -1.0], &[0, 255, 255], INF, 255),
            // The range overflows: every finite quotient is 0.
            (&[f32::MAX, -f32::MAX], &[0, 0], INF, 0),
            // The scale underflows to 0.
            (&[f32::from_bits(3), 0.0], &[255, 0], 0.0, 0),
            (&[-f32::from_bits(3), 0.0, f32::NAN], &[0, 0, 0], 0.0, 255),
        ] {
            let got = dynamic_quantize(x);
            assert_eq!((&got.0[..], got.1.to_bits(), got.2), (codes, scale.to_bits(), zero_point), "{x:?}");
        }
    }

    /// The direct path against the definition, on the values that decide: ties of the target times scales of all kinds.
    #[test]
    fn direct_quantizes_as_the_definition() {
        let mut rng = Rng::new(71);
        for scale_type in QUANTIZE_SCALES {
            let mut scales = special(scale_type);
            scales.extend(random(scale_type, 60, 72));
            scales.extend(random_scaled(scale_type, 120, 73));
            for (from, to) in QUANTIZE_SOURCES.into_iter().flat_map(|from| QUANTIZED.map(|to| (from, to))) {
                let mut values = special(from);
                values.extend(random(from, 100, 74));
                values.extend(random_scaled(from, 100, 75));
                values.extend(near_ties(from, to, 200, 76));
                for precision in FLOATS {
                    for _ in 0..150 {
                        let x = (from, values[rng.below(values.len() as u64) as usize]);
                        let scale = (scale_type, scales[rng.below(scales.len() as u64) as usize]);
                        let zero_point = to
                            .int_range()
                            .map_or(0, |(low, high)| low as i64 + rng.below((high - low) as u64 + 1) as i64);
                        for saturate in [true, false] {
                            let want = quantize(x, scale, zero_point, to, precision, saturate);
                            let got = quantize_direct(x, scale, zero_point, to, precision, saturate);
                            let (to, precision) = (to.name(), precision.name());
                            assert_eq!(
                                got, want,
                                "{x:x?} / {scale:x?} + {zero_point} to {to} by {precision} {saturate}"
                            );
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn direct_dequantizes_as_the_definition() {
        let mut rng = Rng::new(81);
        for scale_type in DEQUANTIZE_SCALES {
            let mut scales = special(scale_type);
            scales.extend(random(scale_type, 60, 82));
            scales.extend(random_scaled(scale_type, 120, 83));
            for from in QUANTIZED.into_iter().chain([Ty::Int32]) {
                let values = if from == Ty::Int32 { random_scaled(from, 1000, 84) } else { every(from) };
                for to in FLOATS {
                    for _ in 0..500 {
                        let x = (from, values[rng.below(values.len() as u64) as usize]);
                        let scale = (scale_type, scales[rng.below(scales.len() as u64) as usize]);
                        let zero_point = match from.int_range() {
                            Some((low, high)) if from != Ty::Int32 => {
                                low as i64 + rng.below((high - low) as u64 + 1) as i64
                            }
                            _ => 0,
                        };
                        let want = dequantize(x, scale, zero_point, to);
                        let got = dequantize_direct(x, scale, zero_point, to);
                        assert_eq!(got, want, "({x:x?} - {zero_point}) * {scale:x?} to {}", to.name());
                    }
                }
            }
        }
    }
}
