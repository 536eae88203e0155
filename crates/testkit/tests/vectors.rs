//! Results known beforehand, by bits: the cases in which casts of this kind are known to go wrong.

use testkit::{Direct, RoundMode, Rules, Ty, cast_bits, cast_from_string};

const DEFAULT: Rules = Rules { opset_version: 28, saturate: true, round_mode: RoundMode::Up };
const UNSATURATED: Rules = Rules { saturate: false, ..DEFAULT };

fn two(exponent: i32) -> f64 {
    2f64.powi(exponent)
}

#[track_caller]
fn check(from: Ty, bits: u64, to: Ty, rules: Rules, want: u64) {
    let got = cast_bits(from, to, bits, &rules);
    assert_eq!(got, want, "{} {bits:#x} -> {} {rules:?}: got {got:#x}, want {want:#x}", from.name(), to.name());
    let got = Direct::new(from, to, &rules).cast(bits);
    assert_eq!(got, want, "direct {} {bits:#x} -> {} {rules:?}: got {got:#x}", from.name(), to.name());
}

#[test]
fn double_rounds_once() {
    use Ty::*;
    for (value, to, want) in [
        (1.0 + two(-11) + two(-40), Float16, 0x3c01),
        (65519.999999999, Float16, 0x7bff),
        (65520.0, Float16, 0x7c00),
        (two(-25), Float16, 0x0000),
        (two(-25) * (1.0 + two(-50)), Float16, 0x0001),
        (1.0 + two(-8) + two(-40), Bfloat16, 0x3f81),
        (two(-134) * (1.0 + two(-50)), Bfloat16, 0x0001),
        (f64::from_bits(0x47ef_efff_ffff_ffff), Bfloat16, 0x7f7f),
        (f64::from_bits(0x47ef_f000_0000_0000), Bfloat16, 0x7f80),
        (1.0 + two(-4) + two(-40), Float8E4M3FN, 0x39),
        (1.0 + two(-3) + two(-40), Float8E5M2, 0x3d),
        (1.0 + two(-4) + two(-40), Float8E4M3FNUZ, 0x41),
        (two(-18) * (1.0 + two(-40)), Float8E5M2FNUZ, 0x01),
        (0.25 + two(-40), Float4E2M1, 0x1),
        (5.0 + two(-40), Float4E2M1, 0x7),
        (1.0 + two(-4) + two(-40), Float6E2M3, 0x09),
        (1.0 + two(-3) + two(-40), Float6E3M2, 0x0d),
    ] {
        check(Double, value.to_bits(), to, DEFAULT, want);
        let sign = 1 << (to.bits() - 1);
        let negative = if want == 0 && matches!(to, Float8E4M3FNUZ | Float8E5M2FNUZ) { 0 } else { want | sign };
        check(Double, (-value).to_bits(), to, DEFAULT, negative);
    }
}

#[test]
fn integers_round_once() {
    check(Ty::Int32, 1_077_936_129, Ty::Bfloat16, DEFAULT, 0x4e81);
    check(Ty::Int64, (1 << 40) + (1 << 32) + 1, Ty::Bfloat16, DEFAULT, 0x5381);
    check(Ty::Uint64, (1 << 63) + (1 << 39) + 1, Ty::Float, DEFAULT, 0x5f00_0001);
    check(Ty::Uint64, 65520, Ty::Float16, DEFAULT, 0x7c00);
    check(Ty::Int16, 200, Ty::Int8, DEFAULT, 0xc8);
}

#[test]
fn float8_overflow_without_saturation() {
    use Ty::*;
    for (value, to, want) in [
        (464.0, Float8E4M3FN, 0x7e),
        (464.01, Float8E4M3FN, 0x7f),
        (480.0, Float8E4M3FN, 0x7f),
        (495.0, Float8E4M3FN, 0x7f),
        (f32::INFINITY, Float8E4M3FN, 0x7f),
        (61439.0, Float8E5M2, 0x7b),
        (61440.0, Float8E5M2, 0x7c),
        (65504.0, Float8E5M2, 0x7c),
        (f32::INFINITY, Float8E5M2, 0x7c),
        (247.9, Float8E4M3FNUZ, 0x7f),
        (248.0, Float8E4M3FNUZ, 0x80),
        (f32::INFINITY, Float8E4M3FNUZ, 0x80),
        (61439.0, Float8E5M2FNUZ, 0x7f),
        (61440.0, Float8E5M2FNUZ, 0x80),
        (f32::INFINITY, Float8E5M2FNUZ, 0x80),
    ] {
        let negative = if want == 0x80 { 0x80 } else { want | 0x80 };
        for opset_version in [23, 28] {
            let rules = Rules { opset_version, ..UNSATURATED };
            check(Float, value.to_bits().into(), to, rules, want);
            check(Float, (-value).to_bits().into(), to, rules, negative);
        }
    }
}

#[test]
fn float8_infinity_and_nan() {
    use Ty::*;
    for (to, up, nan, minus_zero) in [
        (Float8E4M3FN, 0x7e, 0x7f, 0x80),
        (Float8E4M3FNUZ, 0x7f, 0x80, 0x00),
        (Float8E5M2, 0x7b, 0x7e, 0x80),
        (Float8E5M2FNUZ, 0x7f, 0x80, 0x00),
    ] {
        let fnuz = minus_zero == 0;
        for opset_version in [19, 21, 23, 24, 25, 28] {
            let rules = Rules { opset_version, ..DEFAULT };
            let old = fnuz && opset_version <= 23;
            check(Float, f32::INFINITY.to_bits().into(), to, rules, if old { 0x80 } else { up });
            check(Float, f32::NEG_INFINITY.to_bits().into(), to, rules, if old { 0x80 } else { up | 0x80 });
            check(Float, f32::MAX.to_bits().into(), to, rules, up);
            check(Float, f32::MIN.to_bits().into(), to, rules, up | 0x80);
            for rules in [rules, Rules { saturate: false, ..rules }] {
                for bits in [0x7fc0_0000, 0x7f80_0001, 0x7fff_ffff] {
                    check(Float, bits, to, rules, nan);
                    check(Float, bits | 1 << 31, to, rules, nan | 0x80);
                }
                check(Float, 1 << 31, to, rules, minus_zero);
                check(Float, 1 << 31 | 1, to, rules, minus_zero);
            }
        }
    }
}

#[test]
fn float4_and_float6_saturate_and_have_no_nan() {
    for (to, max, minus_zero) in
        [(Ty::Float4E2M1, 0x7, 0x8), (Ty::Float6E2M3, 0x1f, 0x20), (Ty::Float6E3M2, 0x1f, 0x20)]
    {
        for rules in [DEFAULT, UNSATURATED] {
            check(Ty::Float, f32::INFINITY.to_bits().into(), to, rules, max);
            check(Ty::Float, f32::NEG_INFINITY.to_bits().into(), to, rules, max | minus_zero);
            check(Ty::Double, 1e300f64.to_bits(), to, rules, max);
            check(Ty::Float, 0x7fc0_0000, to, rules, minus_zero);
            check(Ty::Float, 0xffc0_0000, to, rules, minus_zero);
            check(Ty::Float, 0x8000_0000, to, rules, minus_zero);
        }
    }
    let then = Rules { opset_version: 23, ..DEFAULT };
    check(Ty::Float, 0x7fc0_0000, Ty::Float4E2M1, then, 0x7);
    check(Ty::Float8E4M3FN, 0xff, Ty::Float4E2M1, then, 0x7);
    check(Ty::Float, 0x7fc0_0000, Ty::Float4E2M1, Rules { opset_version: 24, ..DEFAULT }, 0x8);
}

#[test]
fn to_bool() {
    check(Ty::Float8E4M3FN, 0x80, Ty::Bool, DEFAULT, 0);
    check(Ty::Float8E5M2, 0x80, Ty::Bool, DEFAULT, 0);
    check(Ty::Float8E4M3FNUZ, 0x80, Ty::Bool, DEFAULT, 1);
    check(Ty::Float8E8M0, 0x00, Ty::Bool, DEFAULT, 1);
    check(Ty::Double, 1, Ty::Bool, DEFAULT, 1);
    check(Ty::Double, 1 << 63, Ty::Bool, DEFAULT, 0);
    check(Ty::Float, 0x7fc0_0000, Ty::Bool, DEFAULT, 1);
    check(Ty::Bool, 0x40, Ty::Bool, DEFAULT, 1);
    check(Ty::Bool, 0x40, Ty::Float, DEFAULT, 0x3f80_0000);
}

#[test]
fn nan_stays_nan() {
    let nan = 0x7ff0_0000_0000_0001;
    for (to, want) in [
        (Ty::Float, 0x7fc0_0000),
        (Ty::Float16, 0x7e00),
        (Ty::Bfloat16, 0x7fc0),
        (Ty::Float8E4M3FN, 0x7f),
        (Ty::Float8E4M3FNUZ, 0x80),
        (Ty::Float8E5M2, 0x7e),
        (Ty::Float8E5M2FNUZ, 0x80),
        (Ty::Float8E8M0, 0xff),
    ] {
        check(Ty::Double, nan, to, DEFAULT, want);
    }
    check(Ty::Double, nan, Ty::Double, DEFAULT, nan);
    // The payload is cut from below and keeps its place below the quiet bit.
    check(Ty::Float, 0xffa0_2001, Ty::Float16, DEFAULT, 0xff01);
    check(Ty::Float16, 0x7d01, Ty::Float, DEFAULT, 0x7fe0_2000);
    check(Ty::Float, 0xff80_0001, Ty::Double, DEFAULT, 0xfff8_0000_2000_0000);
    check(Ty::Float8E5M2, 0x7d, Ty::Float16, DEFAULT, 0x7f00);
    check(Ty::Float8E4M3FN, 0xff, Ty::Float, DEFAULT, 0xffc0_0000);
    check(Ty::Float8E4M3FNUZ, 0x80, Ty::Float, DEFAULT, 0xffc0_0000);
    check(Ty::Float8E8M0, 0xff, Ty::Float, DEFAULT, 0x7fc0_0000);
}

#[test]
fn float_to_int4_and_int2() {
    for (value, want) in [
        (0.5f32, 0),
        (1.5, 2),
        (2.5, 2),
        (3.5, 4),
        (-0.5, 0),
        (-1.5, -2),
        (-2.5, -2),
        (8.0, -8),
        (-9.0, 7),
        (15.0, -1),
        (16.0, 0),
        (100.0, 4),
        (f32::INFINITY, 0),
        (f32::NAN, 0),
        (16777220.0, 4),
        (f32::MAX, 0),
    ] {
        let want = want as u64;
        check(Ty::Float, value.to_bits().into(), Ty::Int4, DEFAULT, want & 0xf);
        check(Ty::Float, value.to_bits().into(), Ty::Uint4, DEFAULT, want & 0xf);
        check(Ty::Float, value.to_bits().into(), Ty::Int2, DEFAULT, want & 0x3);
        check(Ty::Float, value.to_bits().into(), Ty::Uint2, DEFAULT, want & 0x3);
    }
    check(Ty::Double, (two(53) - 1.0).to_bits(), Ty::Int4, DEFAULT, 0xf);
    check(Ty::Double, (1.0 - two(53)).to_bits(), Ty::Int4, DEFAULT, 0x1);
}

#[test]
fn float_to_wider_integers() {
    for (value, to, want) in [
        (1.9, Ty::Int8, 1),
        (-1.9, Ty::Int8, 0xff),
        (127.9, Ty::Int8, 127),
        (128.0, Ty::Int8, 127),
        (-129.0, Ty::Int8, 0x80),
        (-1.0, Ty::Uint8, 0),
        (-0.9, Ty::Uint8, 0),
        (256.0, Ty::Uint8, 255),
        (f64::NAN, Ty::Int32, 0),
        (f64::INFINITY, Ty::Int64, i64::MAX as u64),
        (f64::NEG_INFINITY, Ty::Int64, 1 << 63),
        (f64::INFINITY, Ty::Uint64, u64::MAX),
        (9007199254740993.0, Ty::Int64, 9007199254740992),
        (1e19, Ty::Uint64, 10_000_000_000_000_000_000),
        (1e300, Ty::Uint32, 0xffff_ffff),
    ] {
        check(Ty::Double, value.to_bits(), to, DEFAULT, want);
    }
}

#[test]
fn float8e8m0() {
    let mode = |round_mode| Rules { round_mode, ..DEFAULT };
    let (up, down, nearest) = (mode(RoundMode::Up), mode(RoundMode::Down), mode(RoundMode::Nearest));
    let to = Ty::Float8E8M0;
    check(Ty::Double, (1.0 + two(-52)).to_bits(), to, up, 0x80);
    check(Ty::Int64, (1 << 24) + 1, to, up, 0x98);
    check(Ty::Uint64, (1 << 63) + 1, to, up, 0xbf);
    check(Ty::Int64, (1 << 31) - 1, to, down, 0x9d);
    check(Ty::Double, 1.5f64.to_bits(), to, nearest, 0x80);
    check(Ty::Double, 1.4999999999999998f64.to_bits(), to, nearest, 0x7f);
    let small = (1.1 * two(-127)) as f32;
    for (rules, want) in [(up, 1), (down, 0), (nearest, 0)] {
        check(Ty::Float, small.to_bits().into(), to, rules, want);
    }
    for rules in [up, down, nearest] {
        let unsaturated = Rules { saturate: false, ..rules };
        for (value, saturated) in [
            (0.0, 0x00),
            (-0.0, 0x00),
            (-1.0, 0x00),
            (f64::NEG_INFINITY, 0x00),
            (f64::INFINITY, 0xfe),
            (two(-127) * (1.0 - two(-53)), 0x00),
            (two(127) * (1.0 + two(-52)), 0xfe),
        ] {
            check(Ty::Double, value.to_bits(), to, rules, saturated);
            check(Ty::Double, value.to_bits(), to, unsaturated, 0xff);
        }
        for rules in [rules, unsaturated] {
            check(Ty::Double, two(-127).to_bits(), to, rules, 0x00);
            check(Ty::Double, two(127).to_bits(), to, rules, 0xfe);
            check(Ty::Double, f64::NAN.to_bits(), to, rules, 0xff);
        }
        check(Ty::Bool, 0, to, rules, 0x00);
        check(Ty::Bool, 0, to, unsaturated, 0xff);
        check(Ty::Int8, 0xff, to, unsaturated, 0xff);
        check(Ty::Bool, 1, to, unsaturated, 0x7f);
    }
}

#[test]
fn decimal_texts_round_once() {
    for (text, to, want) in [
        ("1.00000017881393432617187499", Ty::Float, 0x3f80_0001),
        ("1.00390626", Ty::Bfloat16, 0x3f81),
        ("1.06250000000001", Ty::Float8E4M3FN, 0x39),
        ("65519.999999999999999", Ty::Float16, 0x7bff),
        ("1.00048828126", Ty::Float16, 0x3c01),
        ("1e-310", Ty::Double, 0x0000_1268_8b70_e62b),
    ] {
        assert_eq!(cast_from_string(text, to, &DEFAULT), Ok(want), "{text}");
    }
}
