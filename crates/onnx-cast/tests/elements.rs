//! Do element types behave as numbers? Their values and their rounding are those of the cast, they compare and print as
//! floats do, and their constants match the neighbouring values.

use onnx_cast::types::*;
use onnx_cast::{Cast, CastOptions, RoundMode, Tensor, with_float_elements};
use std::collections::BTreeSet;
use testkit::{Rules, Ty, cast_bits, generators};

macro_rules! for_floats {
    ($check:ident) => {
        with_float_elements!($check);
        $check!(Float8E8M0);
    };
}

#[test]
fn every_code_is_its_value() {
    macro_rules! check {
        ($($ty:ident)*) => {$({
            let format = $ty::FORMAT;
            let codes: Vec<$ty> = (0..1u32 << format.bits).map(|code| $ty::from_bits(code as _)).collect();
            let source = Tensor::from_slice(vec![codes.len()], &codes).expect("as many");
            let cast = Cast::new(DataType::Float, &CastOptions::new()).expect("Cast");
            let floats = cast.run(&source.view()).expect("a cast").to_vec::<f32>().expect("floats");
            for (code, float) in codes.iter().zip(&floats) {
                let bits = code.to_bits();
                assert_eq!(code.to_f32().to_bits(), float.to_bits(), "{} {bits:#x}", format.bits);
                assert_eq!(code.to_string(), float.to_string(), "{bits:#x}");
                assert_eq!(code == code, !float.is_nan(), "{bits:#x}");
                assert_eq!(code.is_nan(), float.is_nan(), "{bits:#x}");
                if !float.is_nan() && !float.is_infinite() {
                    assert_eq!($ty::from_f32(*float).to_bits(), bits, "{bits:#x}");
                }
                for other in codes.iter().step_by(1 + codes.len() / 64) {
                    assert_eq!(code.partial_cmp(other), float.partial_cmp(&other.to_f32()), "{bits:#x}");
                }
            }
        })*};
    }
    for_floats!(check);
}

/// Every code to double, and doubles of every kind to every type, against the oracle.
#[test]
fn conversions_from_and_to_doubles_are_exact() {
    let rules = |saturate| Rules { saturate, ..Rules::default() };
    macro_rules! check {
        (@from $ty:ident, $from:ident, $double:ident, $saturate:literal) => {
            let ty = Ty::from_code($ty::DATA_TYPE.onnx()).expect("a row");
            let source = Ty::from_code(<$double as Element>::DATA_TYPE.onnx()).expect("a row");
            let mut values = generators::special(source);
            values.extend(generators::near_ties(source, ty, 2000, 1));
            values.extend(generators::random_scaled(source, 2000, 2));
            for bits in values {
                let want = cast_bits(source, ty, bits, &rules($saturate));
                let got = $ty::$from($double::from_bits(bits as _)).to_bits();
                assert_eq!(u64::from(got), want, "{} {bits:#x}, {}", ty.name(), stringify!($from));
            }
        };
        (@to $ty:ident) => {
            check!(@from $ty, from_f64, f64, true);
            let ty = Ty::from_code($ty::DATA_TYPE.onnx()).expect("a row");
            for code in generators::every(ty) {
                let want = cast_bits(ty, Ty::Double, code, &Rules::default());
                let got = $ty::from_bits(code as _).to_f64().to_bits();
                assert_eq!(got, want, "{} {code:#x}", ty.name());
            }
        };
        ($($ty:ident)*) => {$({
            check!(@to $ty);
            check!(@from $ty, from_f64_unsaturated, f64, false);
            check!(@from $ty, from_f32_unsaturated, f32, false);
        })*};
    }
    for_floats!(check);
    macro_rules! integers {
        ($($ty:ident)*) => {$({
            check!(@to $ty);
            assert_eq!(($ty::ZERO.value(), $ty::ONE.value()), (0, 1));
        })*};
    }
    integers!(Int4 Uint4 Int2 Uint2);
    // Through a float the double would be a tie and round to 1.
    assert_eq!(Float8E4M3FN::from_f64(1.0625 + 1e-12).to_f64(), 1.125);
}

#[test]
fn total_order_and_finiteness_are_those_of_the_values() {
    macro_rules! check {
        ($($ty:ident)*) => {$({
            let format = $ty::FORMAT;
            let codes: Vec<$ty> = (0..1u32 << format.bits).map(|code| $ty::from_bits(code as _)).collect();
            let others = codes.iter().step_by(1 + codes.len() / 512);
            let others: Vec<&$ty> = others.chain([&$ty::MIN, &$ty::MAX]).collect();
            for code in &codes {
                let float = code.to_f32();
                assert_eq!(code.is_finite(), float.is_finite(), "{} {:#x}", $ty::DATA_TYPE, code.to_bits());
                for other in &others {
                    // `to_f32` makes every NaN quiet: of two with one sign, the magnitudes decide.
                    let both = [code, *other].map(|element| i32::from(element.to_bits() as u16));
                    let (one, two) = (float, other.to_f32());
                    let want = match one.is_nan() && two.is_nan() && one.is_sign_negative() == two.is_sign_negative() {
                        true if one.is_sign_negative() => both[1].cmp(&both[0]),
                        true => both[0].cmp(&both[1]),
                        false => one.total_cmp(&two),
                    };
                    assert_eq!(code.total_cmp(other), want, "{} {both:#x?}", $ty::DATA_TYPE);
                }
            }
        })*};
    }
    for_floats!(check);
}

/// A host may have set the control register to read subnormals as zero, to round elsewhere, or to trap.
#[cfg(any(target_arch = "x86", target_arch = "x86_64", target_arch = "aarch64"))]
#[test]
fn values_and_comparisons_ignore_the_control_register() {
    use testkit::library::control_register;
    macro_rules! check {
        ($($ty:ident)*) => {$({
            let count = 1u32 << $ty::FORMAT.bits;
            // All codes of 8 bits. Of 16 bits every 37th, and the subnormals next to zero.
            let codes: Vec<$ty> = (0..count)
                .filter(|code| count <= 256 || code % 37 == 0 || code % (count / 2) < 4)
                .map(|code| $ty::from_bits(code as _))
                .collect();
            let others: Vec<$ty> = codes.iter().copied().filter(|code| u32::from(code.to_bits()) % 64 < 4).collect();
            let found = || -> Vec<_> {
                let pairs = codes.iter().flat_map(|a| others.iter().map(move |b| (a, b)));
                pairs.map(|(a, b)| (a.to_f64().to_bits(), a.to_f32().to_bits(), a == b, a.partial_cmp(b), a.total_cmp(b))).collect()
            };
            let want = found();
            for setting in control_register::settings() {
                let mut got = Vec::new();
                control_register::with(setting, || got = found());
                assert!(got == want, "{}, {setting}", $ty::DATA_TYPE);
            }
        })*};
    }
    for_floats!(check);
}

#[test]
fn constants_are_those_of_the_format() {
    macro_rules! check {
        ($($ty:ident)*) => {$({
            let format = $ty::FORMAT;
            let codes = (0..1u32 << format.bits).map(|code| $ty::from_bits(code as _).to_f32());
            let finite: Vec<f32> = codes.filter(|value| value.is_finite()).collect();
            assert_eq!($ty::MAX.to_f32(), finite.iter().copied().fold(0.0, f32::max), "{}", $ty::DATA_TYPE);
            assert_eq!($ty::MIN.to_f32(), finite.iter().copied().fold(f32::INFINITY, f32::min), "{}", $ty::DATA_TYPE);
            assert_eq!($ty::ONE.to_f32(), 1.0, "{}", $ty::DATA_TYPE);
            let above = finite.iter().copied().filter(|&value| value > 1.0).fold(f32::INFINITY, f32::min);
            assert_eq!($ty::EPSILON.to_f32(), above - 1.0, "{}", $ty::DATA_TYPE);
            // Float8E8M0 has no subnormals, and its smallest value has an exponent field of 0.
            let smallest = if format.signed { 1 - format.bias } else { -format.bias };
            assert_eq!(f64::from($ty::MIN_POSITIVE.to_f32()), 2f64.powi(smallest), "{}", $ty::DATA_TYPE);
        })*};
    }
    for_floats!(check);
    // That the formats have these, and that no other format has more, is checked when the crate is compiled.
    let nans = [
        Float16::NAN.to_f32(),
        BFloat16::NAN.to_f32(),
        Float8E4M3FN::NAN.to_f32(),
        Float8E4M3FNUZ::NAN.to_f32(),
        Float8E5M2::NAN.to_f32(),
        Float8E5M2FNUZ::NAN.to_f32(),
        Float8E8M0::NAN.to_f32(),
    ];
    assert!(nans.iter().all(|nan| nan.is_nan()), "{nans:?}");
    let infinities = [Float16::INFINITY.to_f32(), BFloat16::INFINITY.to_f32(), Float8E5M2::INFINITY.to_f32()];
    assert_eq!(infinities, [f32::INFINITY; 3]);
    assert_eq!([Float4E2M1::ZERO.to_f32(), Float8E4M3FNUZ::ZERO.to_f32()].map(f32::to_bits), [0; 2]);
    assert_eq!((Float16::MAX.to_f32(), Float16::EPSILON.to_f32()), (65504.0, 2f32.powi(-10)));
    assert_eq!((BFloat16::MIN_POSITIVE.to_f32(), Float8E4M3FN::MAX.to_f32()), (f32::MIN_POSITIVE, 448.0));
}

#[test]
fn zeros_are_equal_and_nan_is_not() {
    let (zero, minus) = (Float16::from_f32(0.0), Float16::from_f32(-0.0));
    assert!(zero == minus && zero.to_bits() != minus.to_bits());
    let nan = BFloat16::from_f32(f32::NAN);
    assert!(nan != nan && nan.partial_cmp(&nan).is_none());
    assert_eq!(format!("{nan} {nan:?} {:?}", Float16::from_f32(1.0)), "NaN NaN 1.0");
}

#[test]
fn narrow_integers_are_their_values() {
    assert!(Int4::MIN < Int4::default() && Int4::default() < Int4::MAX);
    assert_eq!((Int4::MIN.value(), Int4::MAX.value(), Int2::MIN.value(), Int2::MAX.value()), (-8, 7, -2, 1));
    assert_eq!((Uint4::MAX.value(), Uint2::MAX.value(), Uint4::MIN.value(), Uint2::MIN.value()), (15, 3, 0, 0));
    assert_eq!(Int4::from_bits(15).to_string(), "-1");
    assert_eq!(Int4::from_f32(-2.5).to_f32(), -2.0);
    let all: BTreeSet<Int2> = (0..4).map(Int2::from_bits).collect();
    assert_eq!(all.iter().map(|element| element.value()).collect::<Vec<_>>(), [-2, -1, 0, 1]);
}

/// Do the facts match the casts? An attribute that a type obeys changes some result, and any other changes none.
#[test]
fn the_attributes_that_a_type_obeys_change_its_casts() {
    let values = [0.0, 0.7, 1.4, 1.6, -1.0, 1e-30, 1e9, f32::INFINITY, f32::NAN, 3e38];
    let source = Tensor::from_slice(vec![values.len()], &values).expect("as many");
    for &to in DataType::NUMERIC {
        let cast = |options: CastOptions| {
            Cast::new(to, &options).expect("Cast").run(&source.view()).expect("a cast").bytes().map(<[u8]>::to_vec)
        };
        let plain = cast(CastOptions::new());
        assert_eq!(cast(CastOptions::new().saturate(false)) != plain, to.obeys_saturate(), "saturate, {to}");
        let down = cast(CastOptions::new().round_mode(RoundMode::Down));
        assert_eq!(down != plain, to.obeys_round_mode(), "round_mode, {to}");
    }
}
