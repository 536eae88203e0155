//! Floats of 8 bits or fewer, from sources of 16 bits or more: 16 at a time in words, whatever the source.
//!
//! Words have no shifts by lanes here; a multiplication by a power of two is one.

use super::lanes::*;
use super::widen::float_lanes;
use crate::arch::kinds::{is_integer, is_small_float, lane_format, small_format};
use crate::element::{DataType, Element, Kind};
use crate::format::{FloatFormat, Nan};
use crate::packed::bits;
use crate::scalar::{RoundMode, Rules};
use core::arch::x86_64::*;

/// [`Rules`] as lanes of 16 bits.
#[derive(Clone, Copy)]
pub(super) struct RuleLanes {
    /// The largest code that a finite value gets. An overflow that is not the largest number is the code after it, in
    /// every format, so the smaller of a code and this is the rule for overflow.
    overflow: __m256i,
    nan: __m256i,
    /// Whether infinity is written as NaN, which in the types without -0 depends on the operator's version.
    infinity_is_nan: bool,
    underflow: __m256i,
    /// One, which the compiler does not know to be one: it would turn the cheap minimum with it into a comparison.
    one: __m256i,
    /// What is added below the exponent before float8e8m0 cuts there.
    power_bias: __m256i,
}

impl RuleLanes {
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn new(rules: &Rules) -> Self {
        let lanes = |code: u8| _mm256_set1_epi16(code.into());
        RuleLanes {
            overflow: lanes(rules.overflow),
            nan: lanes(rules.nan),
            infinity_is_nan: rules.infinity == rules.nan,
            underflow: lanes(rules.underflow),
            one: _mm256_set1_epi16(std::hint::black_box(1)),
            power_bias: lanes(match rules.round_mode {
                RoundMode::Up => 0x7f,
                RoundMode::Down => 0,
                RoundMode::Nearest => 0x40,
            }),
        }
    }
}

/// Whether an infinity must be told from a finite value beyond `f32`: both are infinite once a double is in lanes of
/// `f32`. Only old versions of the operators ask for it, and only of the types without -0.
pub(super) fn tells_infinity<S: Element, D: Element>(rules: &Rules) -> bool {
    let unsigned_zero = const { is_small_float::<D>() && !small_format::<D>().negative_zero };
    matches!(S::DATA_TYPE, DataType::Double) && unsigned_zero && rules.infinity != rules.overflow
}

/// Casts 16 elements to a float of 8 bits or fewer, one in the low byte of each word; in order from floats of 16 bits,
/// else the halves of two vectors of eight in turn.
///
/// Whatever the source, 16 bits of a bfloat16 rounded to odd are enough: the target has at most 4 bits of precision, and
/// the last bit says that there was more. So everything but float16, which has bits enough itself, comes through that.
#[inline]
#[target_feature(enable = "avx2,f16c,fma")]
pub(super) unsafe fn small_float_codes<S: Element, D: Element>(src: *const u8, rules: &RuleLanes) -> __m256i {
    // SAFETY: 16 elements of S are read.
    unsafe {
        if const { matches!(D::DATA_TYPE, DataType::Float8E8M0) } {
            let value = odd_bfloat16_lanes::<S, false>(src, rules);
            let codes = to_power(value, rules);
            return if const { matches!(S::DATA_TYPE, DataType::Float16) } { in_order_of_halves(codes) } else { codes };
        }
        if const { matches!(S::DATA_TYPE, DataType::Float16) } {
            return to_small_float::<S, D>(load(src), rules);
        }
        to_small_float::<S, D>(odd_bfloat16_lanes::<S, true>(src, rules), rules)
    }
}

/// 16 elements as bfloat16, rounded to odd; `SMALL` as in [`float_lanes`].
#[inline]
#[target_feature(enable = "avx2,f16c,fma")]
unsafe fn odd_bfloat16_lanes<S: Element, const SMALL: bool>(src: *const u8, rules: &RuleLanes) -> __m256i {
    // SAFETY: 16 elements of S are read.
    unsafe {
        if const { matches!(S::DATA_TYPE, DataType::BFloat16) } {
            return load(src);
        }
        let low = _mm256_castps_si256(float_lanes::<S, SMALL>(src));
        let high = _mm256_castps_si256(float_lanes::<S, SMALL>(src.add(const { bits::<S>() })));
        let upper = _mm256_packus_epi32(_mm256_srli_epi32::<16>(low), _mm256_srli_epi32::<16>(high));
        let zero = _mm256_setzero_si256();
        let lower = _mm256_packus_epi32(
            _mm256_blend_epi16::<0b1010_1010>(low, zero),
            _mm256_blend_epi16::<0b1010_1010>(high, zero),
        );
        _mm256_or_si256(upper, _mm256_min_epu16(lower, rules.one))
    }
}

/// How a 16-bit float is rounded to a small one.
///
/// A target's normal number is the magnitude with its exponent moved, and the significand's last bits rounded away. A
/// subnormal one is the significand with its implicit bit, shifted right by how far its exponent is below the normal
/// ones, which is a multiplication by a power of two from a table. The wrong one of the two results is always the
/// smaller.
struct Rounding {
    /// What the exponents differ by, in the magnitude.
    rebias: i16,
    subnormals: Subnormals,
    /// The first exponent field of the table: everything rounds to zero there, as it does below.
    first: i16,
    /// By exponent field, 16 of them from `first` on: 2^(significand bits + 1) and right shifted; 0 for normal numbers.
    factor: [u8; 16],
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Subnormals {
    /// The source has none: integers, whose smallest is 1, normal in every format.
    None,
    /// They are subnormal in the source too, and have the same exponent.
    Same,
    /// The source's subnormals have half the target's exponent: doubled, they are of its scale.
    Doubled,
    /// They are normal in the source.
    Shifted,
}

impl Rounding {
    const fn new(from: &FloatFormat, to: &FloatFormat, whole: bool) -> Self {
        let difference = from.bias - to.bias;
        let subnormals = match difference {
            _ if whole => Subnormals::None,
            0 => Subnormals::Same,
            -1 => Subnormals::Doubled,
            _ => Subnormals::Shifted,
        };
        let significand_bits = to.significand_bits as i32;
        // At `2 + significand bits` below the smallest normal exponent a value is under half of the last place.
        let first = if difference > significand_bits + 1 { difference - significand_bits - 1 } else { 0 };
        let mut factor = [0; 16];
        let mut i = 0;
        while i < 16 {
            let below = 1 + difference - (first + i);
            if 1 <= below && below <= significand_bits + 1 {
                factor[i as usize] = 1 << (significand_bits + 1 - below);
            }
            i += 1;
        }
        Rounding {
            rebias: (difference << from.significand_bits) as i16,
            subnormals,
            first: (first << from.significand_bits) as i16,
            factor,
        }
    }
}

/// To a float of 8 bits or fewer other than float8e8m0, from 16-bit floats that hold elements of `S`: float16, or else
/// bfloat16 rounded to odd.
#[inline]
#[target_feature(enable = "avx2")]
fn to_small_float<S: Element, D: Element>(value: __m256i, rules: &RuleLanes) -> __m256i {
    let format = const { small_format::<D>() };
    let source = const { lane_format::<S>() };
    let rounding = const { &Rounding::new(&lane_format::<S>(), &small_format::<D>(), is_integer::<S>()) };
    let lanes = |value: u32| _mm256_set1_epi16(value as i16);
    let width = source.significand_bits;
    let magnitude = if const { matches!(S::DATA_TYPE.info().kind, Kind::Uint) } {
        value
    } else {
        _mm256_and_si256(value, lanes(0x7fff))
    };
    // To nearest even: half of the last place, less one where that is even.
    let half_of = |value: __m256i, shift: u32, less: i16| {
        let odd = _mm256_and_si256(_mm256_srl_epi16(value, _mm_cvtsi32_si128(shift as i32)), lanes(1));
        let half = (1i16 << (shift - 1)) - 1 - less;
        _mm256_add_epi16(_mm256_add_epi16(value, _mm256_set1_epi16(half)), odd)
    };
    let shift = width - format.significand_bits;
    let count = _mm_cvtsi32_si128(shift as i32);
    let code = match rounding.subnormals {
        Subnormals::Same => _mm256_srl_epi16(half_of(magnitude, shift, 0), count),
        Subnormals::Doubled => {
            let scaled = _mm256_add_epi16(magnitude, _mm256_min_epu16(magnitude, lanes(1 << width)));
            _mm256_srl_epi16(half_of(scaled, shift, 0), count)
        }
        Subnormals::None => {
            let normal = _mm256_sra_epi16(half_of(magnitude, shift, rounding.rebias), count);
            _mm256_max_epi16(normal, _mm256_setzero_si256())
        }
        Subnormals::Shifted => {
            let normal = _mm256_sra_epi16(half_of(magnitude, shift, rounding.rebias), count);
            let fraction = _mm256_and_si256(value, lanes((1 << width) - 1));
            let significand = _mm256_or_si256(fraction, lanes(1 << width));
            let field = _mm256_subs_epu16(magnitude, _mm256_set1_epi16(rounding.first));
            // The byte above the field's is 0, and so is what it looks up.
            let field = _mm256_srl_epi16(field, _mm_cvtsi32_si128(width as i32));
            let factor = _mm256_shuffle_epi8(twice(&rounding.factor), field);
            let scaled = _mm256_mullo_epi16(significand, factor);
            let subnormal = _mm256_srl_epi16(half_of(scaled, width + 1, 0), _mm_cvtsi32_si128(width as i32 + 1));
            _mm256_max_epi16(normal, subnormal)
        }
    };
    let code = _mm256_min_epu16(code, rules.overflow);
    if const { matches!(S::DATA_TYPE.info().kind, Kind::Uint) } {
        return code;
    }
    // Where the format has no -0, a code of 0 takes no sign: its negative has no top bit.
    let unsigned_zero = !format.negative_zero;
    let signed =
        if unsigned_zero { _mm256_and_si256(value, _mm256_sub_epi16(_mm256_setzero_si256(), code)) } else { value };
    let sign = _mm256_and_si256(
        _mm256_srl_epi16(signed, _mm_cvtsi32_si128(16 - format.bits as i32)),
        lanes(format.sign_bit() as u32),
    );
    if const { is_integer::<S>() } {
        return _mm256_or_si256(code, sign);
    }
    let infinity = source.infinity_code() as u32;
    let numbers = if unsigned_zero && rules.infinity_is_nan { lanes(infinity - 1) } else { lanes(infinity) };
    let nan = _mm256_cmpgt_epi16(magnitude, numbers);
    if matches!(format.nan, Nan::AllOnes | Nan::AboveInfinity) {
        return _mm256_or_si256(_mm256_blendv_epi8(code, rules.nan, nan), sign);
    }
    _mm256_blendv_epi8(_mm256_or_si256(code, sign), rules.nan, nan)
}

/// To float8e8m0, from bfloat16 rounded to odd: the exponent, after the bias of the rounding mode is added below it.
#[inline]
#[target_feature(enable = "avx2")]
fn to_power(value: __m256i, rules: &RuleLanes) -> __m256i {
    let lanes = |value: u32| _mm256_set1_epi16(value as i16);
    // From 2^-127 to 2^-126 a bfloat16 is subnormal: its bits, moved up by one, are those of an exponent field of 0
    // with the implicit bit above it, which goes.
    let subnormal = _mm256_cmpgt_epi16(lanes(0x0080), value);
    let doubled = _mm256_and_si256(subnormal, _mm256_sub_epi16(value, lanes(0x0080)));
    let from_power = _mm256_add_epi16(value, doubled);
    let code = _mm256_srli_epi16::<7>(_mm256_add_epi16(from_power, rules.power_bias));
    let beyond = _mm256_cmpgt_epi16(value, lanes(0x7f00));
    let code = _mm256_blendv_epi8(code, rules.overflow, beyond);
    // As signed integers, the bits of negative floats are below those of every other.
    let below = _mm256_cmpgt_epi16(lanes(0x0040), value);
    let code = _mm256_blendv_epi8(code, rules.underflow, below);
    let nan = _mm256_cmpgt_epi16(_mm256_and_si256(value, lanes(0x7fff)), lanes(0x7f80));
    _mm256_blendv_epi8(code, lanes(0xff), nan)
}
