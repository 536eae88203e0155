//! Integers of 8 bits and bool to wider integers: extended by the instructions for it, which take fewer steps than a look-up.

use super::lanes::*;
use super::steps;
use crate::element::{DataType, Element};
use crate::kernel::Store;
use crate::packed::bits;
use core::arch::x86_64::*;

/// Whether a cast is such an extension.
pub(super) const fn extends<S: Element, D: Element>() -> bool {
    matches!(S::DATA_TYPE, DataType::Int8 | DataType::Uint8 | DataType::Bool)
        && matches!(
            D::DATA_TYPE,
            DataType::Int16
                | DataType::Uint16
                | DataType::Int32
                | DataType::Uint32
                | DataType::Int64
                | DataType::Uint64
        )
}

/// Extends; the sign goes into an unsigned target too, whose bits are the value's low ones.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512cd,avx512vbmi,avx512vbmi2,avx2,f16c,fma,bmi2")]
pub(super) fn run<S: Element, D: Element>(src: &[u8], dst: &mut [u8], len: usize, how: Store) {
    let is_signed = const { matches!(S::DATA_TYPE, DataType::Int8) };
    let is_bool = const { matches!(S::DATA_TYPE, DataType::Bool) };
    // SAFETY: `steps` hands out pointers to the bytes of 64 elements: as many parts as a vector holds results.
    steps::<S, D>(src, dst, len, how, |src, dst| unsafe {
        let count = const { 512 / bits::<D>() };
        for part in 0..64 / count {
            let (src, dst) = (src.add(part * count), dst.add(64 * part));
            let extended = match count {
                32 => {
                    let bytes = load_half(src);
                    let bytes = if is_bool { _mm256_min_epu8(bytes, _mm256_set1_epi8(1)) } else { bytes };
                    if is_signed { _mm512_cvtepi8_epi16(bytes) } else { _mm512_cvtepu8_epi16(bytes) }
                }
                _ => {
                    let bytes = if count == 16 { load_quarter(src) } else { _mm_loadl_epi64(src.cast()) };
                    let bytes = if is_bool { _mm_min_epu8(bytes, _mm_set1_epi8(1)) } else { bytes };
                    match (count, is_signed) {
                        (16, true) => _mm512_cvtepi8_epi32(bytes),
                        (16, false) => _mm512_cvtepu8_epi32(bytes),
                        (_, true) => _mm512_cvtepi8_epi64(bytes),
                        (_, false) => _mm512_cvtepu8_epi64(bytes),
                    }
                }
            };
            store(dst, extended);
        }
    });
}
