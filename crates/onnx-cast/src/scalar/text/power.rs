//! The powers of ten by which printing and reading multiply, 128 bits each, computed at compile time.

/// The lowest and highest exponents. 19 digits times 10^-342 can still round to a nonzero double, and the smallest
/// double times 10^324 has the digits of its shortest text.
pub(super) const LOWEST: i32 = -342;
const HIGHEST: i32 = 324;
const COUNT: usize = (HIGHEST - LOWEST + 1) as usize;

static POWERS: [u128; COUNT] = powers();

/// `10^exponent / 2^(floor_log2(exponent) - 127)`, rounded up to an integer, with the top bit set. Exact for exponents
/// from 0 to 55; otherwise too large by less than 1.
#[inline(always)]
pub(super) fn power_of_ten(exponent: i32) -> u128 {
    POWERS[(exponent - LOWEST) as usize]
}

/// The exponent of the highest bit of `10^exponent`, for any exponent in the table.
#[inline(always)]
pub(super) const fn floor_log2(exponent: i32) -> i32 {
    /// log2(10) * 2^32
    const LOG2_10: i64 = 14_267_572_527;
    ((exponent as i64 * LOG2_10) >> 32) as i32
}

/// 256 bits with the top bit set, least significant word first, and whether nonzero bits below them were dropped.
struct Wide {
    words: [u64; 4],
    cut: bool,
}

impl Wide {
    const ONE: Wide = Wide { words: [0, 0, 0, 1 << 63], cut: false };

    /// Five times this, shifted so that the top bit is set.
    const fn times_5(self) -> Wide {
        let mut words = [0u64; 5];
        let mut carry = 0u128;
        let mut i = 0;
        while i < 4 {
            carry += self.words[i] as u128 * 5;
            words[i] = carry as u64;
            carry >>= 64;
            i += 1;
        }
        words[4] = carry as u64;
        // The product has two or three bits more: shift those out.
        let more = 64 - words[4].leading_zeros();
        let cut = self.cut || words[0] & ((1 << more) - 1) != 0;
        let mut shifted = [0; 4];
        let mut i = 0;
        while i < 4 {
            shifted[i] = words[i] >> more | words[i + 1] << (64 - more);
            i += 1;
        }
        Wide { words: shifted, cut }
    }

    /// A fifth of this, shifted so that the top bit is set.
    const fn fifth(self) -> Wide {
        let mut words = [0u64; 4];
        let mut remainder = 0u128;
        let mut i = 4;
        while i > 0 {
            i -= 1;
            remainder = remainder << 64 | self.words[i] as u128;
            words[i] = (remainder / 5) as u64;
            remainder %= 5;
        }
        // The quotient has two or three bits fewer: continue the division for those.
        let fewer = words[3].leading_zeros();
        remainder <<= fewer;
        let mut shifted = [0; 4];
        shifted[0] = words[0] << fewer | (remainder / 5) as u64;
        let mut i = 1;
        while i < 4 {
            shifted[i] = words[i] << fewer | words[i - 1] >> (64 - fewer);
            i += 1;
        }
        Wide { words: shifted, cut: true }
    }

    /// The upper half, rounded up.
    const fn upper(&self) -> u128 {
        let exact = self.words[0] == 0 && self.words[1] == 0 && !self.cut;
        ((self.words[3] as u128) << 64 | self.words[2] as u128) + if exact { 0 } else { 1 }
    }
}

/// Multiplies and divides by 5, starting at 1; the factors of 2 are in the exponent. The errors of truncation to 256
/// bits stay far below the upper 128, as the test below checks.
const fn powers() -> [u128; COUNT] {
    let mut powers = [0; COUNT];
    let mut wide = Wide::ONE;
    let mut exponent = 0;
    while exponent <= HIGHEST {
        powers[(exponent - LOWEST) as usize] = wide.upper();
        wide = wide.times_5();
        exponent += 1;
    }
    let mut wide = Wide::ONE;
    let mut exponent = -1;
    while exponent >= LOWEST {
        wide = wide.fifth();
        powers[(exponent - LOWEST) as usize] = wide.upper();
        exponent -= 1;
    }
    powers
}

#[cfg(test)]
mod tests {
    use super::*;
    use num_bigint::BigUint;

    #[test]
    fn every_power_is_exact_or_the_next_above() {
        for exponent in LOWEST..=HIGHEST {
            let power = power_of_ten(exponent);
            assert_eq!(power >> 127, 1, "10^{exponent}");
            // power * 2^shift = 10^exponent, with negative exponents moved to the other side.
            let shift = floor_log2(exponent) - 127;
            let side = |ten: i32, two: i32| BigUint::from(10u32).pow(ten.max(0) as u32) << two.max(0);
            let (scale, want) = (side(-exponent, shift), side(exponent, -shift));
            assert!(BigUint::from(power) * &scale >= want, "10^{exponent} is too small");
            assert!(BigUint::from(power - 1) * &scale < want, "10^{exponent} is too large");
            assert_eq!(BigUint::from(power) * &scale == want, (0..=55).contains(&exponent), "10^{exponent}");
        }
    }
}
