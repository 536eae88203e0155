//! Sources of 6 bits or fewer to integers of 16 bits or more and to double: looked up as int8 or bfloat16, which hold all
//! of them, and extended, since a table of wide entries takes a shuffle for each of their bytes.

use super::lanes::*;
use super::lookup::{Planes, Sixteens, interleave, lowered, spread};
use super::{STEP, steps};
use crate::element::{DataType, Element, Float6E2M3, Uint2, Uint4};
use crate::kernel::Store;
use crate::packed::bits;
use core::arch::x86_64::*;

/// Whether entries of this type are kept narrow.
pub(super) fn is_extended(from_bits: u32, to: DataType) -> bool {
    from_bits < 8 && (to == DataType::Double || !to.is_float() && to.info().bits >= 16)
}

/// An entry as int8, or for double as bfloat16.
pub(super) fn narrowed(to: DataType, entry: u64) -> u64 {
    if to == DataType::Double { u64::from((f64::from_bits(entry) as f32).to_bits() >> 16) } else { entry & 0xff }
}

/// Casts by the planes of [`narrowed`] entries.
#[target_feature(enable = "avx2,f16c,fma")]
pub(super) fn run(from_bits: usize, to: DataType, src: &[u8], dst: &mut [u8], len: usize, how: Store, planes: &Planes) {
    match from_bits {
        2 => to_width::<Uint2, 1>(to, src, dst, len, how, planes),
        4 => to_width::<Uint4, 1>(to, src, dst, len, how, planes),
        _ => to_width::<Float6E2M3, 4>(to, src, dst, len, how, planes),
    }
}

#[target_feature(enable = "avx2,f16c,fma")]
fn to_width<S: Element, const N: usize>(
    to: DataType,
    src: &[u8],
    dst: &mut [u8],
    len: usize,
    how: Store,
    planes: &Planes,
) {
    match (to, to.info().bits) {
        (DataType::Double, _) => to_double::<S, N>(src, dst, len, how, planes),
        (_, 16) => to_integer::<S, i16, N>(src, dst, len, how, planes),
        (_, 32) => to_integer::<S, i32, N>(src, dst, len, how, planes),
        _ => to_integer::<S, i64, N>(src, dst, len, how, planes),
    }
}

#[target_feature(enable = "avx2,f16c,fma")]
fn to_integer<S: Element, D: Element, const N: usize>(
    src: &[u8],
    dst: &mut [u8],
    len: usize,
    how: Store,
    planes: &Planes,
) {
    let table = Sixteens::<N>::new(&planes[0]);
    // SAFETY: `steps` hands out pointers to the bytes of 32 elements; a vector holds as many of D as it is made of.
    steps::<S, D>(src, dst, len, how, |src, dst| unsafe {
        let mut bytes = [0u8; STEP];
        let index = load_codes(const { bits::<S>() }, src);
        store(bytes.as_mut_ptr(), table.at(&lowered::<N>(index)));
        for (i, few) in bytes.chunks_exact(const { 256 / bits::<D>() }).enumerate() {
            let extended = match const { bits::<D>() } {
                16 => _mm256_cvtepi8_epi16(load_half(few.as_ptr())),
                32 => _mm256_cvtepi8_epi32(load_quarter(few.as_ptr())),
                _ => _mm256_cvtepi8_epi64(load_eighth(few.as_ptr())),
            };
            store(dst.add(32 * i), extended);
        }
    });
}

#[target_feature(enable = "avx2,f16c,fma")]
fn to_double<S: Element, const N: usize>(src: &[u8], dst: &mut [u8], len: usize, how: Store, planes: &Planes) {
    let tables = planes.each_ref().map(|plane| Sixteens::<N>::new(plane));
    // SAFETY: `steps` hands out pointers to the bytes of 32 elements; four of 2 bytes become a vector of doubles.
    steps::<S, f64>(src, dst, len, how, |src, dst| unsafe {
        let mut halves = [0u8; 2 * STEP];
        let lowered = lowered::<N>(spread::<u16>(load_codes(const { bits::<S>() }, src)));
        interleave::<u16>(halves.as_mut_ptr(), |plane| tables[plane].at(&lowered));
        for (i, four) in halves.chunks_exact(8).enumerate() {
            let float = _mm_slli_epi32::<16>(_mm_cvtepu16_epi32(load_quarter(four.as_ptr())));
            store(dst.add(32 * i), _mm256_castpd_si256(_mm256_cvtps_pd(_mm_castsi128_ps(float))));
        }
    });
}
