//! The powers of ten that printing and reading multiply by, as 128 bits each, made by the compiler.

/// The lowest and the highest exponent: 19 digits times 10^-342 is the least that is not zero as a double, and the least
/// double times 10^324 has the digits that its shortest text needs.
pub(super) const LOWEST: i32 = -342;
const HIGHEST: i32 = 324;
const COUNT: usize = (HIGHEST - LOWEST + 1) as usize;

static POWERS: [u128; COUNT] = powers();

/// `10^exponent / 2^(floor_log2(exponent) - 127)`, rounded up to an integer: the top bit is set. Exact for exponents from
/// 0 to 55, and otherwise too large by less than 1.
#[inline(always)]
pub(super) fn power_of_ten(exponent: i32) -> u128 {
    POWERS[(exponent - LOWEST) as usize]
}

/// The exponent of the highest bit of `10^exponent`, for any exponent of the table.
#[inline(always)]
pub(super) const fn floor_log2(exponent: i32) -> i32 {
    /// log2(10) * 2^32
    const LOG2_10: i64 = 14_267_572_527;
    ((exponent as i64 * LOG2_10) >> 32) as i32
}

/// 256 bits, the least significant word first, of which the top one is set, and whether bits below them were cut.
struct Wide {
    words: [u64; 4],
    cut: bool,
}

impl Wide {
    const ONE: Wide = Wide { words: [0, 0, 0, 1 << 63], cut: false };

    /// The bits of five times this.
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
        // Two or three bits more than before: shift as many out.
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

    /// The bits of a fifth of this.
    const fn fifth(self) -> Wide {
        let mut words = [0u64; 4];
        let mut rest = 0u128;
        let mut i = 4;
        while i > 0 {
            i -= 1;
            rest = rest << 64 | self.words[i] as u128;
            words[i] = (rest / 5) as u64;
            rest %= 5;
        }
        // Two or three bits fewer than before: the division goes on for as many.
        let fewer = words[3].leading_zeros();
        rest <<= fewer;
        let mut shifted = [0; 4];
        shifted[0] = words[0] << fewer | (rest / 5) as u64;
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

/// From 1 upwards and downwards, one factor of 5 at a time; the factors of 2 are in the exponent. What is cut from 256
/// bits in all these steps is far from the upper 128, as the test below checks.
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
            // power * 2^shift = 10^exponent, with what is negative on the other side.
            let shift = floor_log2(exponent) - 127;
            let side = |ten: i32, two: i32| BigUint::from(10u32).pow(ten.max(0) as u32) << two.max(0);
            let (scale, want) = (side(-exponent, shift), side(exponent, -shift));
            assert!(BigUint::from(power) * &scale >= want, "10^{exponent} is too small");
            assert!(BigUint::from(power - 1) * &scale < want, "10^{exponent} is too large");
            assert_eq!(BigUint::from(power) * &scale == want, (0..=55).contains(&exponent), "10^{exponent}");
        }
    }
}
