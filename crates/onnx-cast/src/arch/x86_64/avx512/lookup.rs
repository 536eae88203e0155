//! Sources of 8 bits or fewer: a table with an entry for each code, looked up in registers.
//!
//! A target of `k` bytes has `k` planes, each the byte at one place of all the entries. A plane of 256 entries is four
//! vectors, two of which one permutation covers; up to 64 entries are one. The planes' bytes are then interleaved. The
//! tables come from the scalar cast.

use super::lanes::*;
use super::{STEP, steps};
use crate::arch::entries::{self, MOST as ENTRIES, Tables};
use crate::arch::portable;
use crate::element::{DataType, Element};
use crate::kernel::{Kernel, Store};
use crate::packed::{bits, clear_padding};
use crate::scalar::Rules;
use core::arch::x86_64::*;

/// The entries of a table, plane by plane. For a source of fewer than 8 bits the first 64 entries are its codes,
/// repeated, so that the bits above an index do not matter.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Planes([[u8; ENTRIES]; 8]);

static TABLES: Tables<Planes> = Tables::new();

/// The bits of a result where bytes of two or four elements are looked up as they are, without unpacking them.
const fn whole_bytes(from_bits: usize, to_bits: usize) -> Option<usize> {
    match (from_bits, to_bits) {
        (2 | 4, 2 | 4) => Some(8 / from_bits * to_bits),
        _ => None,
    }
}

/// Makes the table of a pair.
fn planes(from: DataType, to: DataType, kernel: Kernel, rules: &Rules) -> Planes {
    let whole_bytes = whole_bytes(from.info().bits as usize, to.info().bits as usize).is_some();
    let entries = if whole_bytes { entries::of_bytes } else { entries::of_codes }(from, to, kernel, rules);
    Planes(std::array::from_fn(|plane| entries.map(|entry| (entry >> (8 * plane)) as u8)))
}

/// Casts from a type of 8 bits or fewer.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512cd,avx512vbmi,avx512vbmi2,avx2,f16c,fma,bmi2")]
pub(super) fn run<S: Element, D: Element>(src: &[u8], dst: &mut [u8], len: usize, rules: &Rules, how: Store) {
    let make = |kernel| planes(S::DATA_TYPE, D::DATA_TYPE, kernel, rules);
    if let Some(table) = TABLES.kept::<S, D>(rules) {
        look_up(const { bits::<S>() }, D::DATA_TYPE, src, dst, len, how, table);
    } else if let Some(table) = TABLES.make::<S, D>(rules, len, STEP, make) {
        look_up(const { bits::<S>() }, D::DATA_TYPE, src, dst, len, how, &table);
    } else {
        portable::cast::<S, D>(src, dst, len, rules);
    }
}

/// Chooses the loop by the widths, which are all that it depends on (and by whether the target is a wide float, whose
/// low bytes are zeros): a few loops serve the 350 pairs.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512cd,avx512vbmi,avx512vbmi2,avx2,f16c,fma,bmi2")]
fn look_up(from_bits: usize, to: DataType, src: &[u8], dst: &mut [u8], len: usize, how: Store, planes: &Planes) {
    use crate::element::{Float6E2M3, Uint2, Uint4};
    if let Some(bits) = whole_bytes(from_bits, to.info().bits as usize) {
        // Two bytes for one, but of a last one that is not full perhaps only the first.
        let whole = if bits == 16 { dst.len() / 2 } else { src.len() };
        let (from, from_rest) = src.split_at(whole);
        let (to_whole, to_rest) = dst.split_at_mut(if bits == 16 { 2 * whole } else { dst.len() });
        match bits {
            4 => look_up_pair::<u8, Uint4>(from, to_whole, whole, how, planes),
            8 => look_up_pair::<u8, u8>(from, to_whole, whole, how, planes),
            _ => look_up_pair::<u8, u16>(from, to_whole, whole, how, planes),
        }
        if let ([to], [from]) = (to_rest, from_rest) {
            *to = planes.0[0][usize::from(*from)];
        }
        clear_padding(to, len, dst);
        return;
    }
    match from_bits {
        2 => look_up_from::<Uint2>(to, src, dst, len, how, planes),
        4 => look_up_from::<Uint4>(to, src, dst, len, how, planes),
        6 => look_up_from::<Float6E2M3>(to, src, dst, len, how, planes),
        _ => look_up_from::<u8>(to, src, dst, len, how, planes),
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512cd,avx512vbmi,avx512vbmi2,avx2,f16c,fma,bmi2")]
fn look_up_from<S: Element>(to: DataType, src: &[u8], dst: &mut [u8], len: usize, how: Store, planes: &Planes) {
    use crate::element::{Float6E2M3, Uint2, Uint4};
    match (to, to.info().bits) {
        (DataType::Float, _) => look_up_pair::<S, f32>(src, dst, len, how, planes),
        (DataType::Double, _) => look_up_pair::<S, f64>(src, dst, len, how, planes),
        (_, 2) => look_up_pair::<S, Uint2>(src, dst, len, how, planes),
        (_, 4) => look_up_pair::<S, Uint4>(src, dst, len, how, planes),
        (_, 6) => look_up_pair::<S, Float6E2M3>(src, dst, len, how, planes),
        (_, 8) => look_up_pair::<S, u8>(src, dst, len, how, planes),
        (_, 16) => look_up_pair::<S, u16>(src, dst, len, how, planes),
        (_, 32) => look_up_pair::<S, u32>(src, dst, len, how, planes),
        _ => look_up_pair::<S, u64>(src, dst, len, how, planes),
    }
}

/// The loop; `S` and `D` stand for their widths.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512cd,avx512vbmi,avx512vbmi2,avx2,f16c,fma,bmi2")]
fn look_up_pair<S: Element, D: Element>(src: &[u8], dst: &mut [u8], len: usize, how: Store, planes: &Planes) {
    let planes = Vectors(planes);
    // SAFETY: `steps` hands out pointers to the bytes of 64 elements.
    steps::<S, D>(src, dst, len, how, |src, dst| unsafe {
        let index = load_codes(const { bits::<S>() }, src);
        if const { bits::<S>() == 8 } {
            step::<true, D>(index, dst, &planes);
        } else {
            step::<false, D>(index, dst, &planes);
        }
    });
}

/// Bytes of an element of the target, as it stands in the table.
const fn width<D: Element>() -> usize {
    bits::<D>().div_ceil(8)
}

/// The planes as vectors: four for each. Only borrowed: the loops keep in registers what they need and has room there,
/// where copying all of them would cost as much as casting a few hundred elements.
#[derive(Clone, Copy)]
struct Vectors<'a>(&'a Planes);

impl Vectors<'_> {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi")]
    fn get(&self, plane: usize, part: usize) -> __m512i {
        bytes(&self.0.0[plane].as_chunks::<64>().0[part])
    }

    /// The same planes, of which the compiler does not know that they are: it would keep all of eight planes in
    /// registers that there are not, and so copy them to the stack for every call.
    #[inline]
    fn hidden(self) -> Self {
        let mut planes: *const Planes = self.0;
        // SAFETY: no instruction is executed.
        unsafe { std::arch::asm!("/* {0} */", inout(reg) planes, options(nostack, preserves_flags)) };
        // SAFETY: it is the pointer that went in.
        Vectors(unsafe { &*planes })
    }

    /// The bytes of one plane at 64 indices.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi")]
    fn bytes<const WIDE: bool>(&self, plane: usize, index: __m512i) -> __m512i {
        if !WIDE {
            return _mm512_permutexvar_epi8(index, self.get(plane, 0));
        }
        let low = _mm512_permutex2var_epi8(self.get(plane, 0), index, self.get(plane, 1));
        let high = _mm512_permutex2var_epi8(self.get(plane, 2), index, self.get(plane, 3));
        _mm512_mask_blend_epi8(_mm512_movepi8_mask(index), low, high)
    }
}

/// The first plane that is not zero in every entry: the values of 8 bits leave the low bytes of wide floats empty.
const fn first_plane<D: Element>() -> usize {
    match D::DATA_TYPE {
        DataType::Float => 2,
        DataType::Double => 5,
        _ => 0,
    }
}

/// Looks up 64 elements and stores them.
///
/// # Safety
/// The bytes of 64 elements of `D` can be written.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi")]
unsafe fn step<const WIDE: bool, D: Element>(index: __m512i, dst: *mut u8, planes: &Vectors<'_>) {
    // Interleaving works within 16-byte lanes, so the indices are first put where each result will want them.
    let index = match const { width::<D>() } {
        2 => _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7), index),
        4 => {
            let transpose = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
            _mm512_permutexvar_epi32(transpose, index)
        }
        8 => {
            const TRANSPOSE: [u16; 32] = {
                let mut table = [0; 32];
                let mut i = 0;
                while i < 32 {
                    table[i] = (i % 8 * 4 + i / 8) as u16;
                    i += 1;
                }
                table
            };
            // SAFETY: the array is 64 bytes.
            _mm512_permutexvar_epi16(unsafe { load(TRANSPOSE.as_ptr().cast()) }, index)
        }
        _ => index,
    };
    let planes = if const { width::<D>() - first_plane::<D>() > 4 } { planes.hidden() } else { *planes };
    let plane = |place: usize| {
        if place < const { first_plane::<D>() } { _mm512_setzero_si512() } else { planes.bytes::<WIDE>(place, index) }
    };
    // Words of two planes, then double words of two of those, then quad words: the lower half of each lane, the upper.
    let words = |place: usize| {
        let (low, high) = (plane(place), plane(place + 1));
        [_mm512_unpacklo_epi8(low, high), _mm512_unpackhi_epi8(low, high)]
    };
    let double_words = |place: usize| {
        let (low, high) = (words(place), words(place + 2));
        [
            _mm512_unpacklo_epi16(low[0], high[0]),
            _mm512_unpackhi_epi16(low[0], high[0]),
            _mm512_unpacklo_epi16(low[1], high[1]),
            _mm512_unpackhi_epi16(low[1], high[1]),
        ]
    };
    // SAFETY: 64 elements of `D` are as many vectors as each arm stores.
    unsafe {
        match const { width::<D>() } {
            1 => store_codes(const { bits::<D>() }, dst, plane(0)),
            2 => words(0).into_iter().enumerate().for_each(|(i, v)| store(dst.add(64 * i), v)),
            4 => double_words(0).into_iter().enumerate().for_each(|(i, v)| store(dst.add(64 * i), v)),
            _ => {
                let (low, high) = (double_words(0), double_words(4));
                for i in 0..4 {
                    store(dst.add(128 * i), _mm512_unpacklo_epi32(low[i], high[i]));
                    store(dst.add(128 * i + 64), _mm512_unpackhi_epi32(low[i], high[i]));
                }
            }
        }
    }
}
