//! Inputs that find faults: special values, every value, random bits, and values on and beside the points at which a
//! target's result changes. All are functions of their arguments: a seed, never the time.

use num_bigint::BigUint;

use crate::exact::{Dyadic, Magnitude, Quick, power_value};
use crate::strings::exact_decimal;
use crate::types::{FloatLayout, Kind, Ty};

/// SplitMix64: a counter put through a mixing function.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// A generator that gives the same numbers for the same seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// 64 random bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`, which must not be zero.
    #[inline]
    pub fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(end)) >> 64) as u64
    }

    /// A number of a random bit length, `bits` at most.
    #[inline]
    pub fn of_any_length(&mut self, bits: u32) -> u64 {
        let drop = 64 - bits + self.below(u64::from(bits) + 1) as u32;
        self.next_u64().checked_shr(drop).unwrap_or(0)
    }
}

/// Every bit pattern of a numeric type of 16 bits or fewer.
///
/// # Panics
/// If the type is wider or not numeric.
pub fn every(ty: Ty) -> Vec<u64> {
    assert!(ty.is_numeric() && ty.bits() <= 16, "{} has too many values to list", ty.name());
    (0..=ty.mask()).collect()
}

/// `count` uniformly random bit patterns.
pub fn random(ty: Ty, count: usize, seed: u64) -> Vec<u64> {
    let mut rng = Rng::new(seed);
    (0..count).map(|_| rng.next_u64() & ty.mask()).collect()
}

/// `count` random values of every scale that matters: integers of random bit length, floats whose exponent is within
/// the reach of the narrower formats (a uniformly random double is nearly always beyond all of them).
pub fn random_scaled(ty: Ty, count: usize, seed: u64) -> Vec<u64> {
    let mut rng = Rng::new(seed);
    (0..count).map(|_| scaled(ty, &mut rng)).collect()
}

fn scaled(ty: Ty, rng: &mut Rng) -> u64 {
    let Kind::Float(layout) = ty.kind() else {
        let value = rng.of_any_length(ty.bits());
        return (if rng.below(2) == 0 { value } else { value.wrapping_neg() }) & ty.mask();
    };
    let reach = match rng.below(4) {
        0 => 4,
        1 => 20,
        2 => 70,
        _ => 160,
    };
    let last = (layout.max_code() >> layout.significand_bits) as i64;
    let exponent = i64::from(layout.bias) + rng.below(2 * reach + 1) as i64 - reach as i64;
    let fraction = rng.next_u64() & ((1 << layout.significand_bits) - 1);
    let sign = if rng.below(2) == 0 { 0 } else { layout.sign_bit() };
    sign | ((exponent.clamp(0, last) as u64) << layout.significand_bits) | fraction
}

/// The last positive pattern of a type; those from 0 up to it are finite and rise in value.
fn last_positive(ty: Ty) -> u64 {
    match ty.kind() {
        Kind::Float(layout) => layout.max_code(),
        Kind::PowerOfTwo => 0xfe,
        Kind::Int { signed: true } => ty.mask() / 2,
        Kind::Int { signed: false } => ty.mask(),
        Kind::Bool => 1,
        Kind::String | Kind::Complex => panic!("{} is not a numeric type", ty.name()),
    }
}

fn positive_value(ty: Ty, pattern: u64) -> Dyadic {
    match ty.kind() {
        Kind::Float(layout) => layout.value(pattern),
        Kind::PowerOfTwo => power_value(pattern),
        _ => Dyadic::integer(pattern),
    }
}

fn half_above(layout: &FloatLayout, code: u64) -> Dyadic {
    Dyadic::midpoint(&layout.value(code), &layout.value(code + 1))
}

/// The magnitudes at which results in `to` change that no test should leave to chance: the ends of the range, of the
/// normal and of the subnormal numbers.
fn key_points(to: Ty) -> Vec<Dyadic> {
    match to.kind() {
        Kind::Float(layout) => {
            let (normal, max) = (1 << layout.significand_bits, layout.max_code());
            let codes = [0, 1, 2, normal - 2, normal - 1, normal, normal + 1, max - 2, max - 1, max];
            codes
                .iter()
                .flat_map(|&code| [half_above(&layout, code), layout.value(code), layout.value(code + 1)])
                .collect()
        }
        Kind::PowerOfTwo => {
            (-128..=128).flat_map(|e| [Dyadic::power_of_two(e), Dyadic { significand: 3, exponent: e - 1 }]).collect()
        }
        Kind::Int { .. } => {
            let bits = to.bits() as i32;
            let whole = (0..=64).flat_map(|e| {
                let power = 1u128 << e;
                [power - 1, power, power + 1].map(|significand| Dyadic { significand, exponent: 0 })
            });
            let halves =
                (0..16).chain([(1 << (bits - 1)) - 1, 1 << (bits - 1), (1 << bits) - 1]).flat_map(|n: i128| {
                    [2 * n - 1, 2 * n + 1].map(|twice| Dyadic { significand: twice.max(0) as u128, exponent: -1 })
                });
            whole.chain(halves).collect()
        }
        _ => vec![Dyadic::integer(0), Dyadic::integer(1)],
    }
}

/// A random magnitude at which results in `to` change, within the range of the source.
fn random_point(from: Ty, to: Ty, rng: &mut Rng) -> Dyadic {
    let whole = !matches!(from.kind(), Kind::Float(_) | Kind::PowerOfTwo);
    match to.kind() {
        Kind::Float(layout) => {
            let code_of = |pattern| {
                let Dyadic { significand, exponent } = positive_value(from, pattern);
                Quick { significand: significand as u64, exponent }.nearest_code(&layout).min(layout.max_code())
            };
            let (low, high) = (code_of(1), code_of(last_positive(from)));
            let mut code = low + rng.below(high - low + 1);
            // An integer lies on a point of the target's only where the target is coarser than integers; in a format
            // of many more exponents than that, few codes are.
            let coarse = layout.significand_bits as i32 + 1 + layout.bias;
            if whole && (coarse as u64) << layout.significand_bits < high {
                let first = (coarse as u64) << layout.significand_bits;
                code = first + rng.below(high - first + 1);
            }
            if rng.below(8) == 0 { layout.value(code) } else { half_above(&layout, code) }
        }
        Kind::PowerOfTwo => {
            let exponent = if whole { rng.below(64) as i32 } else { rng.below(257) as i32 - 129 };
            Dyadic { significand: 2 + u128::from(rng.below(2)), exponent: exponent - 1 }
        }
        Kind::Int { .. } if !whole => {
            let integer = u128::from(rng.of_any_length(64));
            Dyadic { significand: 2 * integer + u128::from(rng.below(2)), exponent: -1 }
        }
        Kind::Int { .. } => {
            let unit = 1u128 << rng.below(u64::from(to.bits()));
            Dyadic { significand: u128::from(rng.of_any_length(from.bits())) / unit * unit, exponent: 0 }
        }
        _ => Dyadic::integer(rng.below(2)),
    }
}

/// The source patterns about a magnitude: the last two not above it and the two above, with both signs.
fn around(from: Ty, point: &Dyadic, mut give: impl FnMut(u64)) {
    let last = last_positive(from);
    let at = point.greatest_not_above(last, |pattern| positive_value(from, pattern)).unwrap_or(0);
    for pattern in at.saturating_sub(1)..=at.saturating_add(2).min(last) {
        give(pattern);
        match from.kind() {
            Kind::Float(layout) => give(pattern | layout.sign_bit()),
            Kind::Int { signed: true } => give(pattern.wrapping_neg() & from.mask()),
            _ => {}
        }
    }
}

/// About `count` source values on and beside the points at which results in `to` change: the middle between two
/// neighbours, a value of the target itself, the ends of its range. For each point the source values at it or just
/// below, and just above, of both signs; the points that matter most come first.
///
/// # Panics
/// If a type is not numeric.
pub fn near_ties(from: Ty, to: Ty, count: usize, seed: u64) -> Vec<u64> {
    let mut out = Vec::with_capacity(count + 16);
    for point in key_points(to) {
        around(from, &point, |bits| out.push(bits));
    }
    let mut rng = Rng::new(seed);
    while out.len() < count {
        let point = random_point(from, to, &mut rng);
        around(from, &point, |bits| out.push(bits));
    }
    out.truncate(count);
    out
}

/// The values of a type that no test should leave to chance: zeros, ends of ranges, infinities, NaNs of all sorts,
/// powers of two and their neighbours, and the ends of every target's range. Every value if there are 2^8 or fewer.
///
/// # Panics
/// If the type is not numeric.
pub fn special(ty: Ty) -> Vec<u64> {
    if ty.bits() <= 8 {
        return every(ty);
    }
    let mut out = Vec::new();
    if let Kind::Float(layout) = ty.kind() {
        let (normal, max) = (1 << layout.significand_bits, layout.max_code());
        let quiet = max + 1 + normal / 2;
        let last = layout.sign_bit() - 1;
        let codes = [
            0,
            1,
            2,
            3,
            normal - 1,
            normal,
            normal + 1,
            max - 1,
            max,
            max + 1,
            max + 2,
            max + 3,
            quiet - 1,
            quiet,
            quiet + 1,
            quiet + normal / 4,
            last - 1,
            last,
        ];
        out.extend(codes.iter().flat_map(|&code| [code, code | layout.sign_bit()]));
    }
    for exponent in -160..=160 {
        for significand in [2, 3] {
            around(ty, &Dyadic { significand, exponent: exponent - 1 }, |bits| out.push(bits));
        }
    }
    if let Some((low, high)) = ty.int_range() {
        out.extend([low, low + 1, -1, 0, 1, high - 1, high].map(|value| value as u64 & ty.mask()));
    }
    for to in Ty::NUMERIC {
        for point in key_points(to) {
            around(ty, &point, |bits| out.push(bits));
        }
    }
    out.sort_unstable();
    out.dedup();
    out
}

/// About `count` decimal texts on, just below and just above the points at which results in `to` change, some with an
/// exponent and some without.
///
/// # Panics
/// If the type is not numeric.
pub fn near_tie_texts(to: Ty, count: usize, seed: u64) -> Vec<String> {
    let mut rng = Rng::new(seed);
    let mut points = key_points(to);
    // Three texts a point.
    while points.len() < count / 3 + 2 {
        points.push(random_point(if to == Ty::Double { to } else { Ty::Double }, to, &mut rng));
    }
    let mut out = Vec::with_capacity(count + 3);
    for point in points {
        if out.len() >= count {
            break;
        }
        let sign = ["", "-", "+"][rng.below(3) as usize];
        out.push(format!("{sign}{}", exact_decimal(&point)));
        // The point is digits / 10^after; a unit in a place further down is added and taken away.
        let after = (-point.exponent).max(0) as u32;
        let digits =
            (BigUint::from(point.significand) << point.exponent.max(0) as u32) * BigUint::from(5u32).pow(after);
        let further = 1 + rng.below(30) as u32;
        let digits = digits * BigUint::from(10u32).pow(further);
        let place = after + further;
        out.push(format!("{sign}{}e-{place}", &digits + 1u32));
        if digits.bits() > 0 {
            out.push(format!("{sign}{}E-{place}", &digits - 1u32));
        }
    }
    out.truncate(count);
    out
}

/// Texts at the edges of the grammar that are numbers.
pub const NUMBER_TEXTS: [&str; 44] = [
    "0",
    "-0",
    "+0",
    "1",
    "-1",
    "+5",
    "00012",
    "3.14",
    "1000",
    "5.",
    ".5",
    "-.5",
    "+5.e1",
    "1e-5",
    "1E8",
    "1e+3",
    "1e3",
    "100.5",
    "-100.5",
    " 7",
    "7 ",
    "\t7\r\n",
    "\x0c7",
    "0.0",
    "0e0",
    "0e999999999999999999999",
    "1e400",
    "-1e400",
    "1e-400",
    "1e999999999999999999999",
    "1e-999999999999999999999",
    "inf",
    "-inf",
    "+Inf",
    "INF",
    "infinity",
    "-Infinity",
    "INFINITY",
    "nan",
    "-nan",
    "+NaN",
    "NAN",
    "18446744073709551615",
    "-9223372036854775808",
];

/// Texts that are no numbers, nor true or false.
pub const NOT_NUMBERS: [&str; 48] = [
    "",
    " ",
    "\t\n",
    ".",
    "+",
    "-",
    "e",
    "E5",
    ".e5",
    "1e",
    "1e+",
    "1e-",
    "1e5.5",
    "1.2.3",
    "1..2",
    "--1",
    "+-1",
    "-+1",
    "- 1",
    "1 2",
    "1 e5",
    "Hello World!",
    "12abc",
    "0x10",
    "0b1",
    "1_000",
    "1,000",
    "1,5",
    "1f",
    "1d",
    "1L",
    "in",
    "infin",
    "infinit",
    "infinityy",
    "inf inity",
    "nan(1)",
    "nanq",
    "na",
    "\u{663}",
    "\u{ff11}",
    "\u{a0}1",
    "1\u{2003}",
    "\u{2212}1",
    "1\0",
    "\0",
    "\u{feff}1",
    "truefalse",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::{Rules, cast_bits};
    use crate::strings::cast_from_string;

    #[test]
    fn near_ties_straddle_the_change() {
        // Most neighbours in the list differ in their results, which random values do not.
        for from in [Ty::Double, Ty::Float, Ty::Int64, Ty::Uint64] {
            for to in [Ty::Float16, Ty::Bfloat16, Ty::Float8E4M3FN, Ty::Float8E5M2FNUZ, Ty::Float8E8M0] {
                let values = near_ties(from, to, 40_000, 3);
                assert_eq!(values.len(), 40_000);
                let results: Vec<u64> = values.iter().map(|&v| cast_bits(from, to, v, &Rules::default())).collect();
                let step = if matches!(from, Ty::Uint64) { 1 } else { 2 };
                let changes = results.windows(step + 1).filter(|w| w[0] != w[step]).count();
                assert!(changes > 5_000, "{} to {}: {changes}", from.name(), to.name());
            }
        }
    }

    #[test]
    fn special_values_hold_the_ends() {
        let doubles = special(Ty::Double);
        for value in
            [0.0, -0.0, 1.0, f64::MAX, f64::MIN_POSITIVE, f64::INFINITY, 65520.0, 464.0, 61440.0, 2f64.powi(-25)]
        {
            assert!(doubles.contains(&value.to_bits()), "{value}");
        }
        assert!(doubles.contains(&0x47ef_ffff_f000_0000), "the overflow threshold of float");
        assert!(doubles.contains(&0x7ff0_0000_0000_0001), "a signalling NaN");
        let ints = special(Ty::Int64);
        for value in [i64::MIN, i64::MAX, -1, 0, 1, 1 << 53, (1 << 53) + 1, 65520] {
            assert!(ints.contains(&(value as u64)), "{value}");
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_values() {
        assert_eq!(random_scaled(Ty::Double, 100, 7), random_scaled(Ty::Double, 100, 7));
        assert_ne!(random(Ty::Double, 100, 7), random(Ty::Double, 100, 8));
        assert_eq!(Rng::new(0).next_u64(), 0xe220_a839_7b1d_cdaf);
    }

    #[test]
    fn tie_texts_round_to_even_and_away_from_the_tie() {
        let texts = near_tie_texts(Ty::Float16, 300, 5);
        assert_eq!(texts.len(), 300);
        for text in texts {
            assert!(cast_from_string(&text, Ty::Float16, &Rules::default()).is_ok(), "{text}");
        }
    }
}
