//! The oracle against rustc_apfloat, the compiler's own software floats: another author's rounding, overflow, NaN
//! handling, integer conversion and decimal parsing.
//!
//! Formats it lacks are given to it with one exponent bit more and no upper end in reach, which makes its result the
//! code before overflow; what becomes of a code past the largest is then a line of this file.

use rustc_apfloat::ieee::{BFloat, Double, Float8E4M3FN, Float8E5M2, Half, IeeeFloat, Semantics, Single};
use rustc_apfloat::{Float, FloatConvert, Round};
use testkit::exact::{Number, decode};
use testkit::generators::{NUMBER_TEXTS, near_tie_texts, near_ties, random, random_scaled, special};
use testkit::{Direct, Rules, Ty, cast_bits, cast_from_string};

/// `bits` of a format whose exponent field is one bit wider than the real one's and whose bias is `BIAS`.
struct Endless<const BITS: usize, const EXPONENT_BITS: usize, const BIAS: i32>;

impl<const BITS: usize, const EXPONENT_BITS: usize, const BIAS: i32> Semantics for Endless<BITS, EXPONENT_BITS, BIAS> {
    const BITS: usize = BITS + 1;
    const EXP_BITS: usize = EXPONENT_BITS + 1;
    const MIN_EXP: i32 = 1 - BIAS;
    const MAX_EXP: i32 = (1 << (EXPONENT_BITS + 1)) - 2 - BIAS;
}

type E4M3Fnuz = IeeeFloat<Endless<8, 4, 8>>;
type E5M2Fnuz = IeeeFloat<Endless<8, 5, 16>>;
type E2M3 = IeeeFloat<Endless<6, 2, 1>>;
type E3M2 = IeeeFloat<Endless<6, 3, 3>>;
type E2M1 = IeeeFloat<Endless<4, 2, 1>>;

const UNSATURATED: Rules = Rules { opset_version: 28, saturate: false, round_mode: testkit::RoundMode::Up };

/// The real format's code for a code of the endless one.
fn end(to: Ty, code: u128, negative: bool) -> u64 {
    let layout = to.layout().unwrap();
    let code = code as u64;
    match to {
        Ty::Float8E4M3FNUZ | Ty::Float8E5M2FNUZ if code > layout.max_code() => layout.sign_bit(),
        Ty::Float8E4M3FNUZ | Ty::Float8E5M2FNUZ if code == 0 => 0,
        _ => code.min(layout.max_code()) | if negative { layout.sign_bit() } else { 0 },
    }
}

/// Casts with the peer. None where its answer is not comparable: a NaN or an infinity to an endless format.
fn peer<F>(from: F, to: Ty) -> Option<u64>
where
    F: Float
        + FloatConvert<Half>
        + FloatConvert<BFloat>
        + FloatConvert<Single>
        + FloatConvert<Double>
        + FloatConvert<Float8E5M2>
        + FloatConvert<Float8E4M3FN>
        + FloatConvert<E4M3Fnuz>
        + FloatConvert<E5M2Fnuz>
        + FloatConvert<E2M3>
        + FloatConvert<E3M2>
        + FloatConvert<E2M1>,
{
    fn to_bits<F: FloatConvert<T>, T: Float>(from: F) -> u128 {
        from.convert(&mut false).value.to_bits()
    }
    fn endless<F: FloatConvert<T>, T: Float>(from: F, to: Ty) -> Option<u64> {
        if !from.is_finite() {
            return None;
        }
        // Past the end of even the wider exponent field: any code past the real end will do.
        let wide = from.abs().convert(&mut false).value;
        let code = if wide.is_finite() { wide.to_bits() } else { 1 << (to.bits() - 1) };
        Some(end(to, code, from.is_negative()))
    }
    Some(match to {
        Ty::Float16 => to_bits::<F, Half>(from) as u64,
        Ty::Bfloat16 => to_bits::<F, BFloat>(from) as u64,
        Ty::Float => to_bits::<F, Single>(from) as u64,
        Ty::Double => to_bits::<F, Double>(from) as u64,
        // Its NaN has a payload where the product writes one NaN a sign.
        Ty::Float8E5M2 if from.is_nan() => return None,
        Ty::Float8E5M2 => to_bits::<F, Float8E5M2>(from) as u64,
        Ty::Float8E4M3FN => to_bits::<F, Float8E4M3FN>(from) as u64,
        Ty::Float8E4M3FNUZ => return endless::<F, E4M3Fnuz>(from, to),
        Ty::Float8E5M2FNUZ => return endless::<F, E5M2Fnuz>(from, to),
        Ty::Float6E2M3 => return endless::<F, E2M3>(from, to),
        Ty::Float6E3M2 => return endless::<F, E3M2>(from, to),
        Ty::Float4E2M1 => return endless::<F, E2M1>(from, to),
        // Toward zero, saturating, NaN to 0. The narrower integers wrap here and saturate there.
        Ty::Int8 | Ty::Int16 | Ty::Int32 | Ty::Int64 => {
            from.to_i128_r(to.bits() as usize, Round::TowardZero, &mut false).value as u64 & to.mask()
        }
        Ty::Uint8 | Ty::Uint16 | Ty::Uint32 | Ty::Uint64 => {
            from.to_u128_r(to.bits() as usize, Round::TowardZero, &mut false).value as u64
        }
        _ => return None,
    })
}

fn values(from: Ty, to: Ty, count: usize) -> Vec<u64> {
    let mut values = special(from);
    values.extend(near_ties(from, to, count, 31));
    values.extend(random(from, count / 2, 32));
    values.extend(random_scaled(from, count / 2, 33));
    values
}

fn compare(from: Ty, values: impl Fn(Ty) -> Vec<u64>, cast: impl Fn(u64, Ty) -> Option<u64>) -> u64 {
    let mut compared = 0;
    for to in Ty::NUMERIC {
        let direct = Direct::new(from, to, &UNSATURATED);
        for bits in values(to) {
            if from == to {
                continue;
            }
            let Some(want) = cast(bits, to) else { continue };
            let got = cast_bits(from, to, bits, &UNSATURATED);
            assert_eq!(got, want, "{} {bits:#x} -> {}: got {got:#x}", from.name(), to.name());
            assert_eq!(direct.cast(bits), want, "direct {} {bits:#x} -> {}", from.name(), to.name());
            compared += 1;
        }
    }
    compared
}

#[test]
fn from_double() {
    let cast = |bits, to| peer(Double::from_bits(u128::from(bits)), to);
    assert!(compare(Ty::Double, |to| values(Ty::Double, to, 100_000), cast) > 3_500_000);
}

#[test]
fn from_float() {
    let cast = |bits, to| peer(Single::from_bits(u128::from(bits)), to);
    assert!(compare(Ty::Float, |to| values(Ty::Float, to, 50_000), cast) > 1_500_000);
}

#[test]
fn from_every_half_and_bfloat16() {
    let cast = |bits, to| peer(Half::from_bits(u128::from(bits)), to);
    assert!(compare(Ty::Float16, |_| (0..=0xffff).collect(), cast) > 1_000_000);
    let cast = |bits, to| peer(BFloat::from_bits(u128::from(bits)), to);
    assert!(compare(Ty::Bfloat16, |_| (0..=0xffff).collect(), cast) > 1_000_000);
}

#[test]
fn from_every_float8() {
    let cast = |bits, to| peer(Float8E5M2::from_bits(u128::from(bits)), to);
    assert!(compare(Ty::Float8E5M2, |_| (0..=0xff).collect(), cast) > 4_000);
    // It reads the significand of E4M3FN's NaN, all ones, as a payload, where the product has a NaN without one.
    let cast = |bits, to| {
        let value = Float8E4M3FN::from_bits(u128::from(bits));
        if value.is_nan() { None } else { peer(value, to) }
    };
    assert!(compare(Ty::Float8E4M3FN, |_| (0..=0xff).collect(), cast) > 4_000);
}

#[test]
fn from_integers() {
    fn integer<F: Float>(from: Ty, bits: u64) -> u128 {
        let Number::Finite { negative, magnitude } = decode(from, bits) else { unreachable!() };
        let value = i128::from(magnitude.significand) * if negative { -1 } else { 1 };
        F::from_i128(value).value.to_bits()
    }
    for from in [Ty::Int64, Ty::Uint64, Ty::Int32, Ty::Uint32, Ty::Int16, Ty::Uint16] {
        let cast = |bits, to| {
            Some(match to {
                Ty::Float16 => integer::<Half>(from, bits) as u64,
                Ty::Bfloat16 => integer::<BFloat>(from, bits) as u64,
                Ty::Float => integer::<Single>(from, bits) as u64,
                Ty::Double => integer::<Double>(from, bits) as u64,
                Ty::Float8E5M2 => integer::<Float8E5M2>(from, bits) as u64,
                Ty::Float8E4M3FN => integer::<Float8E4M3FN>(from, bits) as u64,
                _ => return None,
            })
        };
        let compared = compare(from, |to| values(from, to, 50_000), cast);
        assert!(compared > 500_000, "{}: {compared}", from.name());
    }
}

#[test]
fn from_text() {
    fn read<F: Float>(text: &str) -> Option<u64> {
        Some(F::from_str_r(text, Round::NearestTiesToEven).ok()?.value.to_bits() as u64)
    }
    let mut compared = 0;
    for to in [Ty::Float16, Ty::Bfloat16, Ty::Float, Ty::Double, Ty::Float8E5M2, Ty::Float8E4M3FN] {
        let mut texts = near_tie_texts(to, 30_000, 34);
        texts.extend(NUMBER_TEXTS.iter().filter(|text| !text.to_lowercase().contains('n')).map(|&t| t.to_string()));
        for text in texts {
            let trimmed = text.trim();
            let want = match to {
                Ty::Float16 => read::<Half>(trimmed),
                Ty::Bfloat16 => read::<BFloat>(trimmed),
                Ty::Float => read::<Single>(trimmed),
                Ty::Double => read::<Double>(trimmed),
                Ty::Float8E5M2 => read::<Float8E5M2>(trimmed),
                _ => read::<Float8E4M3FN>(trimmed),
            };
            let got = cast_from_string(&text, to, &UNSATURATED).ok();
            assert_eq!(got, want, "{text:?} to {}", to.name());
            compared += 1;
        }
    }
    assert!(compared > 150_000);
}
