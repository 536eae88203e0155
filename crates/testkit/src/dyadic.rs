//! Exact numbers of the form `integer * 2^exponent`.

use std::cmp::Ordering;

/// `significand * 2^exponent`, exactly. The same value has many forms; compare with [`Dyadic::cmp`].
#[derive(Clone, Copy, Debug)]
pub struct Dyadic {
    /// The integer factor.
    pub significand: u128,
    /// The power of two.
    pub exponent: i32,
}

impl Dyadic {
    /// A whole number.
    pub const fn integer(value: u64) -> Self {
        Self { significand: value as u128, exponent: 0 }
    }

    /// `2^exponent`.
    pub const fn power_of_two(exponent: i32) -> Self {
        Self { significand: 1, exponent }
    }

    /// The exponent of the leading bit: the value is in `[2^top, 2^(top + 1))`. Of no meaning for zero.
    pub const fn top(&self) -> i32 {
        self.exponent + 127 - self.significand.leading_zeros() as i32
    }

    /// Compares two values.
    #[expect(clippy::should_implement_trait, reason = "equal values need not be identical")]
    pub fn cmp(&self, other: &Self) -> Ordering {
        match (self.significand == 0, other.significand == 0) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
            (false, false) => {
                let aligned = |v: &Self| v.significand << v.significand.leading_zeros();
                self.top().cmp(&other.top()).then_with(|| aligned(self).cmp(&aligned(other)))
            }
        }
    }

    /// The point half way between two neighbours of one format, whose exponents differ by one at most.
    pub fn midpoint(a: &Self, b: &Self) -> Self {
        let low = a.exponent.min(b.exponent);
        let aligned = |v: &Self| v.significand << (v.exponent - low);
        Self { significand: aligned(a) + aligned(b), exponent: low - 1 }
    }
}
