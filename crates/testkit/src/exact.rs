//! Exact values and exact comparison, and the choice of a target's code by comparison alone.
//!
//! [`Magnitude`] is a value without its sign that can be compared with any `integer * 2^exponent`. That comparison is
//! all the rounding needs: the codes of a format rise with their values, so the neighbours of a value are found by
//! bisection over the codes, and the nearer one by comparing with the point half way between them.

use std::cmp::Ordering;

use num_bigint::BigUint;

pub use crate::dyadic::Dyadic;
use crate::types::{FloatLayout, Kind, Specials, Ty};

/// Where a value lies among the powers of two of float8e8m0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PowerPosition {
    /// The code of the greatest power not above the value; none if even the smallest is above it.
    pub floor: Option<u64>,
    /// The value against that power: equal or greater.
    pub exact: bool,
    /// The value against 1.5 times that power.
    pub half: Ordering,
}

/// Largest code of a finite float8e8m0.
pub const MAX_POWER_CODE: u64 = 254;

/// The value of a float8e8m0 code other than NaN.
pub const fn power_value(code: u64) -> Dyadic {
    Dyadic::power_of_two(code as i32 - 127)
}

/// A value without its sign.
pub trait Magnitude {
    /// Whether it is zero.
    fn is_zero(&self) -> bool;

    /// Compares it with a dyadic number.
    fn cmp_dyadic(&self, other: &Dyadic) -> Ordering;

    /// The low 64 bits of the nearest integer, ties to even.
    fn nearest_integer_low_bits(&self) -> u64;

    /// The greatest of `value(0) < value(1) < ... < value(last)` that is not above this one.
    fn greatest_not_above(&self, last: u64, value: impl Fn(u64) -> Dyadic) -> Option<u64> {
        if self.cmp_dyadic(&value(0)).is_lt() {
            return None;
        }
        let (mut low, mut high) = (0, last);
        while low < high {
            let middle = high - (high - low) / 2;
            if self.cmp_dyadic(&value(middle)).is_lt() {
                high = middle - 1;
            } else {
                low = middle;
            }
        }
        Some(low)
    }

    /// The code of the nearest value of a format, ties to the even code; `max_code() + 1` stands for all that is
    /// nearer to the value which would follow the largest one, were there more exponents.
    fn nearest_code(&self, layout: &FloatLayout) -> u64 {
        let beyond = layout.max_code() + 1;
        let below = self.greatest_not_above(beyond, |code| layout.value(code)).unwrap_or(0);
        if below == beyond {
            return beyond;
        }
        match self.cmp_dyadic(&Dyadic::midpoint(&layout.value(below), &layout.value(below + 1))) {
            Ordering::Less => below,
            Ordering::Equal => below + below % 2,
            Ordering::Greater => below + 1,
        }
    }

    /// Where it lies among the values of float8e8m0.
    fn power_position(&self) -> PowerPosition {
        let floor = self.greatest_not_above(MAX_POWER_CODE, power_value);
        let power = power_value(floor.unwrap_or(0));
        let half = Dyadic { significand: 3, exponent: power.exponent - 1 };
        PowerPosition { floor, exact: self.cmp_dyadic(&power).is_eq(), half: self.cmp_dyadic(&half) }
    }

    /// The integer part, or `limit` if that is less.
    fn integer_part_up_to(&self, limit: u64) -> u64 {
        self.greatest_not_above(limit, Dyadic::integer).unwrap_or(0)
    }
}

impl Magnitude for Dyadic {
    fn is_zero(&self) -> bool {
        self.significand == 0
    }

    fn cmp_dyadic(&self, other: &Dyadic) -> Ordering {
        self.cmp(other)
    }

    fn nearest_integer_low_bits(&self) -> u64 {
        Ratio::from(*self).nearest_integer().iter_u64_digits().next().unwrap_or(0)
    }
}

/// A ratio of two integers of any size; the denominator is not zero.
#[derive(Clone, Debug)]
pub struct Ratio {
    /// The numerator.
    pub numerator: BigUint,
    /// The denominator.
    pub denominator: BigUint,
}

impl From<Dyadic> for Ratio {
    fn from(value: Dyadic) -> Self {
        let up = value.exponent.max(0) as u32;
        let down = (-value.exponent).max(0) as u32;
        Self { numerator: BigUint::from(value.significand) << up, denominator: BigUint::from(1u32) << down }
    }
}

impl Ratio {
    /// The integer part.
    pub fn integer_part(&self) -> BigUint {
        &self.numerator / &self.denominator
    }

    /// The nearest integer, ties to even.
    pub fn nearest_integer(&self) -> BigUint {
        let down = self.integer_part();
        let rest = &self.numerator - &down * &self.denominator;
        match (rest * 2u32).cmp(&self.denominator) {
            Ordering::Less => down,
            Ordering::Equal if !down.bit(0) => down,
            _ => down + 1u32,
        }
    }
}

impl Magnitude for Ratio {
    fn is_zero(&self) -> bool {
        self.numerator.bits() == 0
    }

    fn cmp_dyadic(&self, other: &Dyadic) -> Ordering {
        if self.is_zero() || other.significand == 0 {
            return (!self.is_zero()).cmp(&(other.significand != 0));
        }
        // 2^(top - 1) < this < 2^(top + 1), which settles most comparisons without a product.
        let top = self.numerator.bits() as i64 - self.denominator.bits() as i64;
        let other_top = i64::from(other.top());
        if other_top > top {
            return Ordering::Less;
        }
        if other_top < top - 1 {
            return Ordering::Greater;
        }
        let other = Self::from(*other);
        (&self.numerator * &other.denominator).cmp(&(&other.numerator * &self.denominator))
    }

    fn nearest_integer_low_bits(&self) -> u64 {
        self.nearest_integer().iter_u64_digits().next().unwrap_or(0)
    }
}

/// A dyadic magnitude of 64 bits whose roundings are worked out from quotient and remainder instead of by search.
/// The tests hold it against the searching [`Dyadic`].
#[derive(Clone, Copy, Debug)]
pub struct Quick {
    /// The integer factor.
    pub significand: u64,
    /// The power of two.
    pub exponent: i32,
}

impl Quick {
    #[inline(always)]
    fn top(&self) -> i32 {
        self.exponent + 63 - self.significand.leading_zeros() as i32
    }

    /// Quotient by `2^unit`, and twice the remainder against `2^unit`. The quotient must fit 64 bits.
    #[inline(always)]
    fn divide(&self, unit: i32) -> (u64, Ordering) {
        let places = unit - self.exponent;
        if places <= 0 {
            return (self.significand << -places, Ordering::Less);
        }
        if places > 64 {
            // Less than 2^64 / 2^65.
            return (0, Ordering::Less);
        }
        let wide = u128::from(self.significand) << (64 - places);
        ((wide >> 64) as u64, (wide as u64).cmp(&(1 << 63)))
    }

    #[inline(always)]
    fn nearest_multiple(&self, unit: i32) -> u64 {
        let (quotient, rest) = self.divide(unit);
        match rest {
            Ordering::Less => quotient,
            Ordering::Equal => quotient + (quotient & 1),
            Ordering::Greater => quotient + 1,
        }
    }
}

impl Magnitude for Quick {
    #[inline(always)]
    fn is_zero(&self) -> bool {
        self.significand == 0
    }

    fn cmp_dyadic(&self, other: &Dyadic) -> Ordering {
        Dyadic { significand: self.significand.into(), exponent: self.exponent }.cmp(other)
    }

    #[inline(always)]
    fn nearest_integer_low_bits(&self) -> u64 {
        match self.exponent {
            64.. => 0,
            ..0 => self.nearest_multiple(0),
            up => self.significand << up,
        }
    }

    #[inline(always)]
    fn nearest_code(&self, layout: &FloatLayout) -> u64 {
        if self.is_zero() {
            return 0;
        }
        let beyond = layout.max_code() + 1;
        let width = layout.significand_bits as i32;
        let binade = self.top().max(1 - layout.bias);
        if binade + layout.bias >= (beyond >> width) as i32 + 2 {
            return beyond;
        }
        // In the lowest binade and below it the code is the multiple itself; each binade further adds 2^width codes
        // of which the multiple already counts one run. A carry into the next binade lands on its first code.
        let multiple = self.nearest_multiple(binade - width);
        let runs = (binade + layout.bias - 1) as u64;
        ((runs << width) + multiple).min(beyond)
    }

    #[inline(always)]
    fn power_position(&self) -> PowerPosition {
        let floor = self.top() + 127;
        if self.is_zero() || floor < 0 {
            return PowerPosition { floor: None, exact: false, half: Ordering::Less };
        }
        let aligned = self.significand << self.significand.leading_zeros();
        let (exact, half) = match floor {
            255.. => (false, Ordering::Greater),
            _ => (aligned == 1 << 63, aligned.cmp(&(3 << 62))),
        };
        PowerPosition { floor: Some((floor as u64).min(MAX_POWER_CODE)), exact, half }
    }

    #[inline(always)]
    fn integer_part_up_to(&self, limit: u64) -> u64 {
        if self.is_zero() || self.top() < 0 {
            0
        } else if self.top() >= 64 {
            limit
        } else {
            self.divide(0).0.min(limit)
        }
    }
}

/// A number with its sign and its class.
#[derive(Clone, Copy, Debug)]
pub enum Number<M> {
    /// Not a number. The payload is what follows the quiet bit, at the top of the 64 bits.
    NaN {
        /// The sign bit.
        negative: bool,
        /// The bits below the quiet bit, left-aligned.
        payload: u64,
    },
    /// An infinity.
    Infinity {
        /// The sign.
        negative: bool,
    },
    /// A finite number, -0 among them.
    Finite {
        /// The sign.
        negative: bool,
        /// The magnitude.
        magnitude: M,
    },
}

impl<M> Number<M> {
    /// The sign bit.
    pub fn negative(&self) -> bool {
        match self {
            Self::NaN { negative, .. } | Self::Infinity { negative } | Self::Finite { negative, .. } => *negative,
        }
    }

    /// The same number with another form of magnitude.
    #[inline(always)]
    pub fn map<N>(self, form: impl FnOnce(M) -> N) -> Number<N> {
        match self {
            Self::NaN { negative, payload } => Number::NaN { negative, payload },
            Self::Infinity { negative } => Number::Infinity { negative },
            Self::Finite { negative, magnitude } => Number::Finite { negative, magnitude: form(magnitude) },
        }
    }
}

/// The number that the low bits of `bits` stand for in a numeric type.
///
/// # Panics
/// If the type is string or complex.
#[inline(always)]
pub fn decode(ty: Ty, bits: u64) -> Number<Quick> {
    let bits = bits & ty.mask();
    match ty.kind() {
        Kind::Float(layout) => decode_float(&layout, bits),
        Kind::PowerOfTwo if bits == 0xff => Number::NaN { negative: false, payload: 0 },
        Kind::PowerOfTwo => {
            Number::Finite { negative: false, magnitude: Quick { significand: 1, exponent: bits as i32 - 127 } }
        }
        Kind::Int { signed } => {
            let negative = signed && bits >> (ty.bits() - 1) == 1;
            let significand = if negative { (ty.mask() - bits) + 1 } else { bits };
            Number::Finite { negative, magnitude: Quick { significand, exponent: 0 } }
        }
        Kind::Bool => {
            Number::Finite { negative: false, magnitude: Quick { significand: u64::from(bits != 0), exponent: 0 } }
        }
        Kind::String | Kind::Complex => panic!("{} is not a numeric type", ty.name()),
    }
}

#[inline(always)]
fn decode_float(layout: &FloatLayout, bits: u64) -> Number<Quick> {
    let negative = bits & layout.sign_bit() != 0;
    let code = bits & (layout.sign_bit() - 1);
    if layout.specials == Specials::MinusZeroIsNan && negative && code == 0 {
        return Number::NaN { negative, payload: 0 };
    }
    if code <= layout.max_code() {
        let Dyadic { significand, exponent } = layout.value(code);
        return Number::Finite { negative, magnitude: Quick { significand: significand as u64, exponent } };
    }
    match layout.infinity() {
        Some(infinity) if code == infinity => Number::Infinity { negative },
        // The shift drops the quiet bit.
        Some(_) => Number::NaN { negative, payload: code << (64 - layout.significand_bits) << 1 },
        None => Number::NaN { negative, payload: 0 },
    }
}

/// [`decode`], in the form whose casts go by search and comparison.
pub fn decode_exact(ty: Ty, bits: u64) -> Number<Dyadic> {
    decode(ty, bits).map(|quick| Dyadic { significand: quick.significand.into(), exponent: quick.exponent })
}
