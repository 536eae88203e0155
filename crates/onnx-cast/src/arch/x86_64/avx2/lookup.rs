//! Sources of 8 bits or fewer: a table with an entry for each code.
//!
//! A shuffle looks up 16 entries of a byte. More are taken 16 at a time, each shuffle with the difference to the
//! entries before: an index is lowered by 16 every time, and once it is negative the shuffle gives zero, so what is
//! left is the entry. A target of `k` bytes has `k` such planes, whose bytes are then interleaved. Where that is more
//! than a load and a store for each element, the entries are loaded as they are.
//!
//! The tables come from the scalar cast.

use super::lanes::*;
use super::{STEP, extend, half_bytes, steps};
use crate::arch::entries::{self, MOST as ENTRIES, Tables};
use crate::arch::portable;
use crate::element::{DataType, Element, Float6E2M3, Uint2, Uint4};
use crate::kernel::{Kernel, Store};
use crate::packed::{bits, clear_padding};
use crate::scalar::Rules;
use core::arch::x86_64::*;

/// Planes of the widest target that is looked up by planes.
const PLANES: usize = 4;

/// A byte of every entry, then the next of every entry.
pub(super) type Planes = [[u8; ENTRIES]; PLANES];

/// The entries of a pair, as the fastest loop for them wants them.
#[derive(Clone, Copy)]
#[repr(align(32))]
#[expect(clippy::large_enum_variant, reason = "they are kept in statics, so that nothing is allocated")]
enum Table {
    /// By planes.
    Planes(Planes),
    /// By planes, as a narrower type, which is extended.
    Extended(Planes),
    /// Those of the codes below 0x80, by planes; the others have the bits of `sign` besides, but that of 0x80, -0 or NaN,
    /// differs in those of `minus_zero` too.
    Signed { planes: [[u8; ENTRIES / 2]; 2], sign: [u8; 2], minus_zero: [u8; 2] },
    /// Those of the magnitudes of an integer, the largest of which stands for all that are larger; negative ones have the
    /// bits of `sign` besides, if there is a sign.
    Magnitudes { entries: [u8; ENTRIES / 2], sign: Option<u8> },
    /// Those of the lower half of the codes in the low four bits, those of the upper half above.
    Nibbles([u8; ENTRIES / 2]),
    /// Whole entries, of 64 bits.
    Rows([u64; ENTRIES]),
}

static TABLES: Tables<Table> = Tables::new();

impl Table {
    fn new(from: DataType, to: DataType, kernel: Kernel, rules: &Rules) -> Table {
        let entries = entries::of_pair(from, to, kernel, rules);
        let (from_bits, to_bits) = (from.info().bits, to.info().bits);
        let planes = |entry: u64| -> [u8; PLANES] { std::array::from_fn(|plane| (entry >> (8 * plane)) as u8) };
        if from_bits >= 6 && to_bits <= 4 {
            let half = 1 << (from_bits - 1);
            let pair = |code| (entries[code % half] | entries[code % half + half] << 4) as u8;
            return Table::Nibbles(std::array::from_fn(pair));
        }
        if extend::is_extended(from_bits, to) {
            let by_code = entries.map(|entry| planes(extend::narrowed(to, entry)));
            return Table::Extended(std::array::from_fn(|plane| by_code.map(|entry| entry[plane])));
        }
        let sign = entries[0x81] ^ entries[0x01];
        if from_bits == 8 && to_bits <= 16 && (1..0x80).all(|code| entries[code | 0x80] == entries[code] | sign) {
            let minus_zero = entries[0x80] ^ (entries[0] | sign);
            let planes = |entry: u64| [entry as u8, (entry >> 8) as u8];
            let by_code: [[u8; 2]; ENTRIES / 2] = std::array::from_fn(|code| planes(entries[code]));
            return Table::Signed {
                planes: std::array::from_fn(|plane| by_code.map(|entry| entry[plane])),
                sign: planes(sign),
                minus_zero: planes(minus_zero),
            };
        }
        if to_bits == 64 {
            return Table::Rows(entries);
        }
        if let Some(table) = Table::of_magnitudes(from, to, &entries) {
            return table;
        }
        let by_code = entries.map(planes);
        Table::Planes(std::array::from_fn(|plane| by_code.map(|entry| entry[plane])))
    }
}

impl Table {
    /// The table of an integer of 8 bits, where its magnitudes, up to the largest entry of the loop for the target, say
    /// all.
    fn of_magnitudes(from: DataType, to: DataType, entries: &[u64; ENTRIES]) -> Option<Table> {
        let most = match to.info().bits {
            6 => magnitudes_of::<Float6E2M3>(),
            8 => magnitudes_of::<u8>(),
            _ => return None,
        };
        let sign = entries[0xff] ^ entries[0x01];
        let (sign, is_right): (_, &dyn Fn(usize, u64) -> bool) = match from {
            DataType::Uint8 | DataType::Bool => (None, &|code, entry| entries[code] == entry),
            DataType::Int8 => (Some(sign as u8), &|code, entry| {
                code > 0x7f || entries[code] == entry && entries[0x100 - code] == entry | sign
            }),
            _ => return None,
        };
        let all = (1..0x100).all(|code| is_right(code, entries[code.min(most - 1)]));
        // The smallest integer has no positive one beside it.
        let smallest = sign.is_none_or(|sign| entries[0x80] == entries[most - 1] | u64::from(sign));
        (all && smallest).then(|| Table::Magnitudes { entries: std::array::from_fn(|code| entries[code] as u8), sign })
    }
}

/// Casts from a type of 8 bits or fewer.
#[target_feature(enable = "avx2,f16c,fma")]
pub(super) fn run<S: Element, D: Element>(src: &[u8], dst: &mut [u8], len: usize, rules: &Rules, how: Store) {
    let make = |kernel| Table::new(S::DATA_TYPE, D::DATA_TYPE, kernel, rules);
    if let Some(table) = TABLES.kept::<S, D>(rules) {
        look_up(const { bits::<S>() }, D::DATA_TYPE, src, dst, len, how, table);
    } else if let Some(table) = TABLES.make::<S, D>(rules, len, 2 * STEP, make) {
        look_up(const { bits::<S>() }, D::DATA_TYPE, src, dst, len, how, &table);
    } else {
        portable::cast::<S, D>(src, dst, len, rules);
    }
}

/// Chooses the loop by the table and the widths, which are all that it depends on (and by whether the target is
/// `float`, whose low bytes are zeros): a few loops serve all pairs.
#[target_feature(enable = "avx2,f16c,fma")]
fn look_up(from_bits: usize, to: DataType, src: &[u8], dst: &mut [u8], len: usize, how: Store, table: &Table) {
    match table {
        Table::Planes(planes) if from_bits <= 4 && to.info().bits <= 4 => {
            match (from_bits, to.info().bits) {
                (2, 4) => half_bytes::to_bytes(src, dst, how, &planes[0]),
                (4, 2) => half_bytes::of_bytes(src, dst, how, &planes[0]),
                _ => half_bytes::to_half_bytes(src, dst, how, &planes[0]),
            }
            clear_padding(to, len, dst);
        }
        Table::Planes(planes) => match from_bits {
            2 => look_up_packed::<Uint2, 1>(to, src, dst, len, how, planes),
            4 => look_up_packed::<Uint4, 1>(to, src, dst, len, how, planes),
            6 => look_up_packed::<Float6E2M3, 4>(to, src, dst, len, how, planes),
            _ => match to.info().bits {
                6 => look_up_byte::<Float6E2M3>(src, dst, len, how, planes),
                8 => look_up_byte::<u8>(src, dst, len, how, planes),
                _ => look_up_byte::<u16>(src, dst, len, how, planes),
            },
        },
        Table::Extended(planes) => extend::run(from_bits, to, src, dst, len, how, planes),
        Table::Signed { planes, sign, minus_zero } => match to.info().bits {
            6 => look_up_signed::<Float6E2M3>(src, dst, len, how, planes, sign, minus_zero),
            8 => look_up_signed::<u8>(src, dst, len, how, planes, sign, minus_zero),
            _ => look_up_signed::<u16>(src, dst, len, how, planes, sign, minus_zero),
        },
        Table::Magnitudes { entries, sign } => match to.info().bits {
            6 => look_up_magnitudes::<Float6E2M3, { magnitudes_of::<Float6E2M3>() / 16 }>(
                src, dst, len, how, entries, *sign,
            ),
            _ => look_up_magnitudes::<u8, { magnitudes_of::<u8>() / 16 }>(src, dst, len, how, entries, *sign),
        },
        Table::Nibbles(nibbles) => match (from_bits, to.info().bits) {
            (6, 2) => look_up_nibbles::<Float6E2M3, Uint2, 2>(src, dst, len, how, nibbles),
            (6, _) => look_up_nibbles::<Float6E2M3, Uint4, 2>(src, dst, len, how, nibbles),
            (_, 2) => look_up_nibbles::<u8, Uint2, 8>(src, dst, len, how, nibbles),
            _ => look_up_nibbles::<u8, Uint4, 8>(src, dst, len, how, nibbles),
        },
        Table::Rows(rows) => look_up_rows(src, dst, len, how, rows),
    }
}

/// From 6 bits or fewer to 16 or fewer, and to float; `S` and `D` stand for their widths.
#[target_feature(enable = "avx2,f16c,fma")]
fn look_up_packed<S: Element, const N: usize>(
    to: DataType,
    src: &[u8],
    dst: &mut [u8],
    len: usize,
    how: Store,
    planes: &Planes,
) {
    match (to, to.info().bits) {
        (DataType::Float, _) => look_up_pair::<S, f32, N>(src, dst, len, how, planes),
        (_, 6) => look_up_pair::<S, Float6E2M3, N>(src, dst, len, how, planes),
        (_, 8) => look_up_pair::<S, u8, N>(src, dst, len, how, planes),
        _ => look_up_pair::<S, u16, N>(src, dst, len, how, planes),
    }
}

#[target_feature(enable = "avx2,f16c,fma")]
fn look_up_pair<S: Element, D: Element, const N: usize>(
    src: &[u8],
    dst: &mut [u8],
    len: usize,
    how: Store,
    planes: &Planes,
) {
    let tables = planes.each_ref().map(|plane| Sixteens::<N>::new(plane));
    // SAFETY: `steps` hands out pointers to the bytes of 32 elements.
    steps::<S, D>(src, dst, len, how, |src, dst| unsafe {
        let index = spread::<D>(load_codes(const { bits::<S>() }, src));
        let lowered = lowered::<N>(index);
        interleave::<D>(dst, |plane| tables[plane].at(&lowered));
    });
}

/// From 8 bits to 16 or fewer: two halves of the table, of which one gives zero.
#[target_feature(enable = "avx2,f16c,fma")]
fn look_up_byte<D: Element>(src: &[u8], dst: &mut [u8], len: usize, how: Store, planes: &Planes) {
    let low = planes.each_ref().map(|plane| Sixteens::<8>::new(&plane[..ENTRIES / 2]));
    let high = planes.each_ref().map(|plane| Sixteens::<8>::new(&plane[ENTRIES / 2..]));
    // SAFETY: `steps` hands out pointers to the bytes of 32 elements.
    steps::<u8, D>(src, dst, len, how, |src, dst| unsafe {
        let index = spread::<D>(load(src));
        let other = lowered(_mm256_xor_si256(index, _mm256_set1_epi8(i8::MIN)));
        let index = lowered(index);
        interleave::<D>(dst, |plane| _mm256_xor_si256(low[plane].at(&index), high[plane].at(&other)));
    });
}

/// From 8 or 6 bits to 4 or 2; `S` and `D` stand for their widths.
#[target_feature(enable = "avx2,f16c,fma")]
fn look_up_nibbles<S: Element, D: Element, const N: usize>(
    src: &[u8],
    dst: &mut [u8],
    len: usize,
    how: Store,
    nibbles: &[u8; ENTRIES / 2],
) {
    let table = Sixteens::<N>::new(nibbles);
    // SAFETY: `steps` hands out pointers to the bytes of 32 elements.
    steps::<S, D>(src, dst, len, how, |src, dst| unsafe {
        let code = load_codes(const { bits::<S>() }, src);
        let pair = table.at(&lowered(_mm256_and_si256(code, _mm256_set1_epi8(const { 16 * N - 1 } as i8))));
        // The code's top bit, put where the choice is made by it.
        let upper = if const { bits::<S>() == 8 } { code } else { _mm256_slli_epi16::<2>(code) };
        let chosen = _mm256_blendv_epi8(pair, _mm256_srli_epi16::<4>(pair), upper);
        store_codes(const { bits::<D>() }, dst, _mm256_and_si256(chosen, _mm256_set1_epi8(15)));
    });
}

/// From 8 bits with a sign.
#[target_feature(enable = "avx2,f16c,fma")]
fn look_up_signed<D: Element>(
    src: &[u8],
    dst: &mut [u8],
    len: usize,
    how: Store,
    planes: &[[u8; ENTRIES / 2]; 2],
    sign: &[u8; 2],
    minus_zero: &[u8; 2],
) {
    let tables = planes.each_ref().map(|plane| Sixteens::<8>::new(plane));
    let signs = sign.map(|bits| _mm256_set1_epi8(bits as i8));
    let minus_zeros = minus_zero.map(|bits| _mm256_set1_epi8(bits as i8));
    // SAFETY: `steps` hands out pointers to the bytes of 32 elements.
    steps::<u8, D>(src, dst, len, how, |src, dst| unsafe {
        let index = spread::<D>(load(src));
        let top = _mm256_set1_epi8(i8::MIN);
        let is_negative = _mm256_cmpgt_epi8(_mm256_setzero_si256(), index);
        let is_minus_zero = _mm256_cmpeq_epi8(index, top);
        let lowered = lowered(_mm256_andnot_si256(top, index));
        interleave::<D>(dst, |plane| {
            let negative = _mm256_and_si256(is_negative, signs[plane]);
            let minus_zero = _mm256_and_si256(is_minus_zero, minus_zeros[plane]);
            _mm256_xor_si256(_mm256_or_si256(tables[plane].at(&lowered), negative), minus_zero)
        });
    });
}

/// Entries of magnitudes for targets of this width: what is larger than 31 is beyond any number of 6 bits.
const fn magnitudes_of<D: Element>() -> usize {
    if bits::<D>() == 6 { 32 } else { ENTRIES / 2 }
}

/// From an integer of 8 bits.
#[target_feature(enable = "avx2,f16c,fma")]
fn look_up_magnitudes<D: Element, const N: usize>(
    src: &[u8],
    dst: &mut [u8],
    len: usize,
    how: Store,
    entries: &[u8; ENTRIES / 2],
    sign: Option<u8>,
) {
    let table = Sixteens::<N>::new(entries);
    let signed = _mm256_set1_epi8(if sign.is_some() { -1 } else { 0 });
    let sign = _mm256_set1_epi8(sign.unwrap_or(0) as i8);
    // SAFETY: `steps` hands out pointers to the bytes of 32 elements.
    steps::<u8, D>(src, dst, len, how, |src, dst| unsafe {
        let value = load(src);
        let is_negative = _mm256_and_si256(_mm256_cmpgt_epi8(_mm256_setzero_si256(), value), signed);
        let magnitude = _mm256_blendv_epi8(value, _mm256_abs_epi8(value), is_negative);
        let index = _mm256_min_epu8(magnitude, _mm256_set1_epi8(const { 16 * N - 1 } as i8));
        let codes = _mm256_or_si256(table.at(&lowered(index)), _mm256_and_si256(is_negative, sign));
        store_codes(const { bits::<D>() }, dst, codes);
    });
}

/// From 8 bits to 64. Entries are stored together: where the block is read on, a vector's load waits if several stores
/// wrote it.
#[target_feature(enable = "avx2,f16c,fma")]
fn look_up_rows(src: &[u8], dst: &mut [u8], len: usize, how: Store, rows: &[u64; ENTRIES]) {
    // SAFETY: `steps` hands out pointers to the bytes of 32 elements.
    steps::<u8, u64>(src, dst, len, how, |src, dst| unsafe {
        for i in 0..STEP / 4 {
            let row = |at: usize| rows[usize::from(src.add(4 * i + at).read())] as i64;
            store(dst.add(32 * i), _mm256_setr_epi64x(row(0), row(1), row(2), row(3)));
        }
    });
}

/// 16 * `N` entries of a byte; each 16 but the first as what they differ from those before by.
#[derive(Clone, Copy)]
pub(super) struct Sixteens<const N: usize>([__m256i; N]);

impl<const N: usize> Sixteens<N> {
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn new(entries: &[u8]) -> Self {
        let (sixteens, _) = entries.as_chunks::<16>();
        let mut tables = [_mm256_setzero_si256(); N];
        let mut before = _mm256_setzero_si256();
        for (table, sixteen) in tables.iter_mut().zip(sixteens) {
            let entries = twice(sixteen);
            *table = _mm256_xor_si256(entries, before);
            before = entries;
        }
        Sixteens(tables)
    }

    /// The entries at 32 indices, which are given lowered by 16 times 0, 1, 2...
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn at(&self, lowered: &[__m256i; N]) -> __m256i {
        let mut found = _mm256_setzero_si256();
        for (table, index) in self.0.iter().zip(lowered) {
            found = _mm256_xor_si256(found, _mm256_shuffle_epi8(*table, *index));
        }
        found
    }
}

/// 32 indices less 16 times 0, 1, 2...; what is negative stays so.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn lowered<const N: usize>(index: __m256i) -> [__m256i; N] {
    let mut lowered = [index; N];
    for i in 1..N {
        lowered[i] = _mm256_subs_epi8(lowered[i - 1], _mm256_set1_epi8(16));
    }
    lowered
}

/// Bytes of an element of the target, as it stands in the table.
const fn width<D: Element>() -> usize {
    bits::<D>().div_ceil(8)
}

/// Puts 32 indices where interleaving, which works within 16 bytes, will want them.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn spread<D: Element>(index: __m256i) -> __m256i {
    match const { width::<D>() } {
        2 => in_order_of_halves(index),
        4 => _mm256_permutevar8x32_epi32(index, _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7)),
        _ => index,
    }
}

/// Interleaves the planes of 32 elements and stores them.
///
/// # Safety
/// The bytes of 32 elements of `D` can be written.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn interleave<D: Element>(dst: *mut u8, plane: impl Fn(usize) -> __m256i) {
    // The values of 8 bits leave the low bytes of a float empty.
    let first = const { if matches!(D::DATA_TYPE, DataType::Float) { 2 } else { 0 } };
    let plane = |place: usize| if place < first { _mm256_setzero_si256() } else { plane(place) };
    let words = |place: usize| {
        let (low, high) = (plane(place), plane(place + 1));
        [_mm256_unpacklo_epi8(low, high), _mm256_unpackhi_epi8(low, high)]
    };
    // SAFETY: 32 elements of `D` are as many vectors as each arm stores.
    unsafe {
        match const { width::<D>() } {
            1 => store_codes(const { bits::<D>() }, dst, plane(0)),
            2 => words(0).into_iter().enumerate().for_each(|(i, v)| store(dst.add(32 * i), v)),
            _ => {
                let (low, high) = (words(0), words(2));
                store(dst, _mm256_unpacklo_epi16(low[0], high[0]));
                store(dst.add(32), _mm256_unpackhi_epi16(low[0], high[0]));
                store(dst.add(64), _mm256_unpacklo_epi16(low[1], high[1]));
                store(dst.add(96), _mm256_unpackhi_epi16(low[1], high[1]));
            }
        }
    }
}
