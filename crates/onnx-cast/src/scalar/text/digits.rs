//! Eight decimal digits at a time: a 64-bit word holds them with the first in its lowest byte, as in memory, and a few
//! multiplications work on all eight at once.

/// '0' in every byte.
pub(super) const ZEROS: u64 = 0x3030_3030_3030_3030;

/// The digits of a number below 10^16, as values, not characters.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub(super) fn split_16(number: u64) -> u128 {
    let (high, low) = (number / 100_000_000, number % 100_000_000);
    u128::from(split_8(low as u32)) << 64 | u128::from(split_8(high as u32))
}

/// The digits of a number below 10^16, as values, not characters: [`split_8`] of both halves at once with SSE2. Calling
/// `split_8` twice took 6 ns longer.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) fn split_16(number: u64) -> u128 {
    // SAFETY: every x86-64 processor has SSE2.
    unsafe { split_16_sse2(number) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse2")]
#[inline]
fn split_16_sse2(number: u64) -> u128 {
    use core::arch::x86_64::*;
    let eights = _mm_set_epi64x((number % 100_000_000) as i64, (number / 100_000_000) as i64);
    // 2^45 / 10^4, rounded up.
    let upper = _mm_srli_epi64(_mm_mul_epu32(eights, _mm_set1_epi64x(0xd1b7_1759)), 45);
    let lower = _mm_sub_epi64(eights, _mm_mul_epu32(upper, _mm_set1_epi64x(10_000)));
    let fours = _mm_or_si128(upper, _mm_slli_epi64(lower, 32));
    // 2^19 / 100, rounded up.
    let upper = _mm_srli_epi16(_mm_mulhi_epu16(fours, _mm_set1_epi16(5243)), 3);
    let lower = _mm_sub_epi16(fours, _mm_mullo_epi16(upper, _mm_set1_epi16(100)));
    let pairs = _mm_or_si128(upper, _mm_slli_epi32(lower, 16));
    // 2^10 / 10, rounded up.
    let upper = _mm_srli_epi16(_mm_mullo_epi16(pairs, _mm_set1_epi16(103)), 10);
    let lower = _mm_sub_epi16(pairs, _mm_mullo_epi16(upper, _mm_set1_epi16(10)));
    let digits = _mm_or_si128(upper, _mm_slli_epi16(lower, 8));
    let (high, low) = (_mm_cvtsi128_si64(digits), _mm_cvtsi128_si64(_mm_unpackhi_epi64(digits, digits)));
    u128::from(low as u64) << 64 | u128::from(high as u64)
}

/// The eight digits of a number below 10^8, as values, not characters.
#[inline(always)]
pub(super) fn split_8(number: u32) -> u64 {
    // Split into fours, then pairs, then single digits. Each step divides the lanes by a multiplication and a shift,
    // which are exact for numbers this small, and moves the remainder into the lane above.
    let fours = u64::from(number / 10_000) | u64::from(number % 10_000) << 32;
    let hundreds = ((fours * 10_486) >> 20) & 0x7f_0000_007f;
    let pairs = hundreds | (fours - 100 * hundreds) << 16;
    let tens = ((pairs * 103) >> 10) & 0x000f_000f_000f_000f;
    tens | (pairs - 10 * tens) << 8
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digits(number: u64, count: usize) -> Vec<u8> {
        format!("{number:0count$}").bytes().map(|digit| digit - b'0').collect()
    }

    #[test]
    fn every_four_digits_in_each_place() {
        for four in 0..10_000u64 {
            for other in [0, 1, 4999, 9999, 9999 - four] {
                for eight in [four * 10_000 + other, other * 10_000 + four] {
                    assert_eq!(split_8(eight as u32).to_le_bytes()[..], digits(eight, 8), "{eight}");
                    for sixteen in [eight, eight * 100_000_000, eight * 100_000_000 + eight] {
                        assert_eq!(split_16(sixteen).to_le_bytes()[..], digits(sixteen, 16), "{sixteen}");
                    }
                }
            }
        }
    }
}
