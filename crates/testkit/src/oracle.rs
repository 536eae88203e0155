//! Cast of one element, number to number.
//!
//! [`cast_bits`] is the definition: exact values, search and comparison. [`Direct`] is the same rules over a quicker
//! arithmetic, for checks by the billion; only the choice of the rounded value differs between the two.

use crate::exact::{MAX_POWER_CODE, Magnitude, Number, decode, decode_exact};
use crate::types::{CAST_VERSIONS, FloatLayout, Kind, Specials, Ty};

/// How a value between two powers of two becomes float8e8m0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RoundMode {
    /// The next power not below.
    Up,
    /// The next power not above.
    Down,
    /// The nearer power, a tie to the upper.
    Nearest,
}

impl RoundMode {
    /// All three.
    pub const ALL: [RoundMode; 3] = [RoundMode::Up, RoundMode::Down, RoundMode::Nearest];

    /// ONNX's word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Down => "down",
            Self::Nearest => "nearest",
        }
    }
}

/// What besides the value and the two types decides a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rules {
    /// The version of the operator (of Cast or CastLike).
    pub opset_version: u32,
    /// The attribute `saturate`.
    pub saturate: bool,
    /// The attribute `round_mode`.
    pub round_mode: RoundMode,
}

impl Default for Rules {
    /// Cast-28 with its default attributes.
    fn default() -> Self {
        Self { opset_version: 28, saturate: true, round_mode: RoundMode::Up }
    }
}

impl Rules {
    /// Every version of Cast that takes both types, with every setting of the attributes that the version has.
    pub fn every(from: Ty, to: Ty) -> Vec<Rules> {
        let (Some(a), Some(b)) = (from.cast_since(), to.cast_since()) else {
            return Vec::new();
        };
        let mut out = Vec::new();
        for opset_version in CAST_VERSIONS.into_iter().filter(|&v| v >= a.max(b)) {
            for saturate in [true, false] {
                for round_mode in RoundMode::ALL {
                    let rules = Rules { opset_version, saturate, round_mode };
                    if (saturate || opset_version >= 19) && (round_mode == RoundMode::Up || opset_version >= 24) {
                        out.push(rules);
                    }
                }
            }
        }
        out
    }

    /// The settings of [`every`](Self::every) that can make a difference: of those with one behaviour, the one of the
    /// newest version, `saturate` and `up`.
    pub fn distinct(from: Ty, to: Ty) -> Vec<Rules> {
        let matters = |rules: &Rules| {
            let versioned = match to {
                Ty::Float8E4M3FNUZ | Ty::Float8E5M2FNUZ => rules.opset_version <= 23,
                Ty::Float4E2M1 => rules.opset_version <= 23,
                _ => false,
            };
            (versioned, rules.saturate || !to.obeys_saturate(), (to == Ty::Float8E8M0).then_some(rules.round_mode))
        };
        let mut seen = Vec::new();
        let mut out = Vec::new();
        // Newest version first; within a version `every` begins with the defaults.
        let mut every = Self::every(from, to);
        every.sort_by_key(|rules| std::cmp::Reverse(rules.opset_version));
        for rules in every {
            let key = matters(&rules);
            if !seen.contains(&key) {
                seen.push(key);
                out.push(rules);
            }
        }
        out
    }
}

/// Casts one element. The bits are in the low bits of `bits` and of the result; what lies above is ignored and zero.
///
/// # Panics
/// If a type is string or complex; on no bits of the others.
pub fn cast_bits(from: Ty, to: Ty, bits: u64, rules: &Rules) -> u64 {
    if from == to && from != Ty::Bool {
        return bits & from.mask();
    }
    let number = decode_exact(from, bits);
    if let (Kind::Int { .. }, Kind::Int { .. }) = (from.kind(), to.kind()) {
        // An integer keeps its value modulo 2^bits.
        let Number::Finite { negative, magnitude } = number else { unreachable!("integers are finite") };
        let value = magnitude.significand as i128 * if negative { -1 } else { 1 };
        return value.rem_euclid(1 << to.bits()) as u64;
    }
    encode(to, number, rules)
}

/// [`cast_bits`] by quotient and remainder: some nanoseconds instead of some hundred.
#[derive(Clone, Copy, Debug)]
pub struct Direct {
    from: Ty,
    to: Ty,
    rules: Rules,
}

impl Direct {
    /// A cast between two numeric types.
    ///
    /// # Panics
    /// If a type is string or complex.
    pub fn new(from: Ty, to: Ty, rules: &Rules) -> Self {
        assert!(from.is_numeric() && to.is_numeric(), "{} to {} is not numeric", from.name(), to.name());
        Self { from, to, rules: *rules }
    }

    /// Casts one element.
    #[inline]
    pub fn cast(&self, bits: u64) -> u64 {
        quick(self.from, self.to, bits, &self.rules)
    }

    /// Casts many elements, one per entry.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn cast_all(&self, bits: &[u64], out: &mut [u64]) {
        assert_eq!(bits.len(), out.len(), "as many results as elements");
        self.fill_from(out, |i| bits[i]);
    }

    /// Casts `first`, `first + 1`, ... into `out`.
    pub fn cast_range(&self, first: u64, out: &mut [u64]) {
        self.fill_from(out, |i| first.wrapping_add(i as u64));
    }

    fn fill_from(&self, out: &mut [u64], bits: impl Fn(usize) -> u64) {
        // For the sources with many values, a loop for each pair: constant types fold the decisions about them away.
        macro_rules! loops {
            ($($from:ident)*) => {
                match self.from {
                    $(Ty::$from => loops!(@to $from Float Double Float16 Bfloat16 Float8E4M3FN Float8E4M3FNUZ Float8E5M2
                        Float8E5M2FNUZ Float8E8M0 Float6E2M3 Float6E3M2 Float4E2M1 Int2 Int4 Int8 Int16 Int32 Int64
                        Uint2 Uint4 Uint8 Uint16 Uint32 Uint64 Bool),)*
                    _ => out.iter_mut().enumerate().for_each(|(i, out)| *out = self.cast(bits(i))),
                }
            };
            (@to $from:ident $($to:ident)*) => {
                match self.to {
                    $(Ty::$to => out.iter_mut().enumerate().for_each(|(i, out)| {
                        *out = quick(Ty::$from, Ty::$to, bits(i), &self.rules);
                    }),)*
                    // A target that is not in the list takes longer, and gives the same.
                    _ => out.iter_mut().enumerate().for_each(|(i, out)| *out = self.cast(bits(i))),
                }
            };
        }
        loops!(Float Double Int32 Uint32 Int64 Uint64)
    }
}

#[inline(always)]
fn quick(from: Ty, to: Ty, bits: u64, rules: &Rules) -> u64 {
    if from == to && from != Ty::Bool {
        return bits & from.mask();
    }
    if let (Kind::Int { signed }, Kind::Int { .. }) = (from.kind(), to.kind()) {
        let above = 64 - from.bits();
        let extended = if signed { ((bits << above) as i64 >> above) as u64 } else { bits & from.mask() };
        return extended & to.mask();
    }
    encode(to, decode(from, bits), rules)
}

/// The code of a number in a numeric type; integers to integers are not meant to come here, as they wrap.
#[inline(always)]
pub(crate) fn encode<M: Magnitude>(to: Ty, number: Number<M>, rules: &Rules) -> u64 {
    match to.kind() {
        Kind::Float(layout) => encode_float(to, &layout, number, rules),
        Kind::PowerOfTwo => encode_power(number, rules),
        Kind::Int { signed } => encode_integer(to, signed, number),
        Kind::Bool => match number {
            Number::Finite { magnitude, .. } => u64::from(!magnitude.is_zero()),
            _ => 1,
        },
        Kind::String | Kind::Complex => panic!("{} is not a numeric type", to.name()),
    }
}

#[inline(always)]
fn encode_float<M: Magnitude>(to: Ty, layout: &FloatLayout, number: Number<M>, rules: &Rules) -> u64 {
    let fnuz = layout.specials == Specials::MinusZeroIsNan;
    let sign = if number.negative() { layout.sign_bit() } else { 0 };
    // What an infinity and a finite value past the largest become where the format does not saturate.
    let overflow = match layout.specials {
        Specials::Ieee => sign | (layout.max_code() + 1),
        Specials::LastIsNan => sign | (layout.max_code() + 1),
        Specials::MinusZeroIsNan => layout.sign_bit(),
        Specials::AllFinite => sign | layout.max_code(),
    };
    let saturates = to.obeys_saturate() && rules.saturate;
    match number {
        Number::NaN { payload, .. } => match layout.specials {
            // The quiet bit alone in float8e5m2; elsewhere with as much of the payload as there is room for.
            Specials::Ieee => {
                let quiet = 1 << (layout.significand_bits - 1);
                let kept = if to.is_float8() { 0 } else { payload >> (65 - layout.significand_bits) };
                sign | (layout.max_code() + 1) | quiet | kept
            }
            Specials::LastIsNan => sign | (layout.max_code() + 1),
            Specials::MinusZeroIsNan => layout.sign_bit(),
            Specials::AllFinite if to == Ty::Float4E2M1 && rules.opset_version <= 23 => layout.max_code(),
            Specials::AllFinite => layout.sign_bit(),
        },
        Number::Infinity { .. } if fnuz && rules.opset_version <= 23 => layout.sign_bit(),
        Number::Infinity { .. } => {
            if saturates {
                sign | layout.max_code()
            } else {
                overflow
            }
        }
        Number::Finite { magnitude, .. } => match magnitude.nearest_code(layout) {
            0 if fnuz => 0,
            code if code <= layout.max_code() => sign | code,
            _ if saturates => sign | layout.max_code(),
            _ => overflow,
        },
    }
}

#[inline(always)]
fn encode_power<M: Magnitude>(number: Number<M>, rules: &Rules) -> u64 {
    const NAN: u64 = 0xff;
    let saturated = |code| if rules.saturate { code } else { NAN };
    match number {
        Number::NaN { .. } => NAN,
        Number::Infinity { negative: false } => saturated(MAX_POWER_CODE),
        Number::Infinity { negative: true } | Number::Finite { negative: true, .. } => saturated(0),
        Number::Finite { magnitude, .. } => {
            let place = magnitude.power_position();
            match place.floor {
                None => saturated(0),
                Some(code) if place.exact => code,
                Some(MAX_POWER_CODE) => saturated(MAX_POWER_CODE),
                Some(code) => match rules.round_mode {
                    RoundMode::Up => code + 1,
                    RoundMode::Down => code,
                    RoundMode::Nearest => code + u64::from(place.half.is_ge()),
                },
            }
        }
    }
}

#[inline(always)]
fn encode_integer<M: Magnitude>(to: Ty, signed: bool, number: Number<M>) -> u64 {
    let with_sign = |negative: bool, value: u64| (if negative { value.wrapping_neg() } else { value }) & to.mask();
    let limit = |negative: bool| match (signed, negative) {
        (true, true) => to.mask() / 2 + 1,
        (true, false) => to.mask() / 2,
        (false, true) => 0,
        (false, false) => to.mask(),
    };
    let narrow = to.bits() < 8;
    match number {
        Number::NaN { .. } => 0,
        Number::Infinity { .. } if narrow => 0,
        Number::Infinity { negative } => with_sign(negative, limit(negative)),
        Number::Finite { negative, magnitude } if narrow => with_sign(negative, magnitude.nearest_integer_low_bits()),
        Number::Finite { negative, magnitude } => with_sign(negative, magnitude.integer_part_up_to(limit(negative))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generators::{every, near_ties, random, random_scaled, special};

    #[track_caller]
    fn compare(from: Ty, to: Ty, values: &[u64]) {
        for rules in Rules::distinct(from, to) {
            let direct = Direct::new(from, to, &rules);
            let mut all = vec![0; values.len()];
            direct.cast_all(values, &mut all);
            for (&bits, got) in values.iter().zip(all) {
                let want = cast_bits(from, to, bits, &rules);
                assert_eq!(got, want, "{} {bits:#x} to {} {rules:?}", from.name(), to.name());
                assert_eq!(direct.cast(bits), want);
                assert_eq!(want & !to.mask(), 0);
            }
        }
    }

    #[test]
    fn direct_casts_every_narrow_value_as_the_definition() {
        for from in Ty::NUMERIC.into_iter().filter(|ty| ty.bits() <= 16) {
            for to in Ty::NUMERIC {
                compare(from, to, &every(from));
            }
        }
    }

    #[test]
    fn direct_casts_dangerous_wide_values_as_the_definition() {
        for from in Ty::NUMERIC.into_iter().filter(|ty| ty.bits() > 16) {
            let mut common = special(from);
            common.extend(random(from, 3000, 22));
            common.extend(random_scaled(from, 3000, 23));
            for to in Ty::NUMERIC {
                compare(from, to, &common);
                compare(from, to, &near_ties(from, to, 10_000, 21));
            }
        }
    }

    #[test]
    fn settings() {
        assert_eq!(Rules::every(Ty::Float, Ty::Float16).len(), 4 + 3 * 2 + 3 * 6);
        assert_eq!(Rules::distinct(Ty::Float, Ty::Float16), [Rules::default()]);
        assert_eq!(Rules::distinct(Ty::Float, Ty::Float8E8M0).len(), 6);
        assert_eq!(Rules::distinct(Ty::Float, Ty::Float8E4M3FN).len(), 2);
        assert_eq!(Rules::distinct(Ty::Float, Ty::Float8E4M3FNUZ).len(), 4);
        assert_eq!(Rules::distinct(Ty::Float6E2M3, Ty::Float8E4M3FNUZ).len(), 2);
        assert_eq!(Rules::distinct(Ty::Float, Ty::Float4E2M1).len(), 2);
    }
}
