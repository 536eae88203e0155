//! Sources of 8 bits or fewer: a table with an entry for each code.
//!
//! A shuffle looks up 16 entries of a byte. More are taken 16 at a time, each shuffle with the difference to the
//! entries before: an index is lowered by 16 every time, and once it is negative the shuffle gives zero, so what is
//! left is the entry. A target of `k` bytes has `k` such planes, whose bytes are then interleaved. Where that is more
//! than a load and a store for each element, the entries are loaded as they are.
//!
//! The tables come from the scalar cast.

use super::lanes::*;
use super::{STEP, steps};
use crate::arch::entries::{self, MOST as ENTRIES, Tables, half_bytes};
use crate::arch::portable;
use crate::element::{DataType, Element, Float6E2M3, Uint2, Uint4};
use crate::kernel::{Kernel, Store};
use crate::packed::{bits, clear_padding};
use crate::scalar::Rules;
use core::arch::x86_64::*;

/// Planes of the widest target that is looked up by planes.
const PLANES: usize = 4;

/// The entries of a pair, as the fastest loop for them wants them.
#[derive(Clone, Copy)]
#[repr(align(32))]
#[expect(clippy::large_enum_variant, reason = "they are kept in statics, so that nothing is allocated")]
enum Table {
    /// By planes.
    Planes([[u8; ENTRIES]; PLANES]),
    /// Those of the codes below 0x80, by planes; the others' differ from them in the bits of `sign`, but that of 0x80,
    /// -0 or NaN, differs in those of `minus_zero` too.
    Signed { planes: [[u8; ENTRIES / 2]; PLANES], sign: [u8; PLANES], minus_zero: [u8; PLANES] },
    /// Those of the lower half of the codes in the low four bits, those of the upper half above.
    Nibbles([u8; ENTRIES / 2]),
    /// Whole entries.
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
        let sign = entries[0x81] ^ entries[0x01];
        // Of the wide targets only float has two planes that are zero, which makes planes the faster way.
        let narrow = to_bits <= 16 || to == DataType::Float;
        if from_bits == 8 && narrow && (1..0x80).all(|code| entries[code | 0x80] == entries[code] ^ sign) {
            let minus_zero = entries[0x80] ^ entries[0] ^ sign;
            let by_code: [[u8; PLANES]; ENTRIES / 2] = std::array::from_fn(|code| planes(entries[code]));
            return Table::Signed {
                planes: std::array::from_fn(|plane| by_code.map(|entry| entry[plane])),
                sign: planes(sign),
                minus_zero: planes(minus_zero),
            };
        }
        if to_bits <= if from_bits == 8 { 8 } else { 32 } {
            let by_code = entries.map(planes);
            return Table::Planes(std::array::from_fn(|plane| by_code.map(|entry| entry[plane])));
        }
        Table::Rows(entries)
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
        Table::Planes(planes) if half_bytes(from_bits, to.info().bits as usize) => {
            look_up_half_bytes(src, dst, how, &planes[0]);
            clear_padding(to, len, dst);
        }
        Table::Planes(planes) => match from_bits {
            2 => look_up_packed::<Uint2, 1>(to, src, dst, len, how, planes),
            4 => look_up_packed::<Uint4, 1>(to, src, dst, len, how, planes),
            6 => look_up_packed::<Float6E2M3, 4>(to, src, dst, len, how, planes),
            _ => match to.info().bits {
                6 => look_up_byte::<Float6E2M3>(src, dst, len, how, &planes[0]),
                _ => look_up_byte::<u8>(src, dst, len, how, &planes[0]),
            },
        },
        Table::Signed { planes, sign, minus_zero } => match to.info().bits {
            6 => look_up_signed::<Float6E2M3>(src, dst, len, how, planes, sign, minus_zero),
            8 => look_up_signed::<u8>(src, dst, len, how, planes, sign, minus_zero),
            16 => look_up_signed::<u16>(src, dst, len, how, planes, sign, minus_zero),
            _ => look_up_signed::<f32>(src, dst, len, how, planes, sign, minus_zero),
        },
        Table::Nibbles(nibbles) => match (from_bits, to.info().bits) {
            (6, 2) => look_up_nibbles::<Float6E2M3, Uint2, 2>(src, dst, len, how, nibbles),
            (6, _) => look_up_nibbles::<Float6E2M3, Uint4, 2>(src, dst, len, how, nibbles),
            (_, 2) => look_up_nibbles::<u8, Uint2, 8>(src, dst, len, how, nibbles),
            _ => look_up_nibbles::<u8, Uint4, 8>(src, dst, len, how, nibbles),
        },
        Table::Rows(rows) => match (from_bits, to.info().bits) {
            (8, 16) => look_up_rows::<u16>(src, dst, len, how, rows),
            (8, 32) => look_up_rows::<u32>(src, dst, len, how, rows),
            (8, _) => look_up_rows::<u64>(src, dst, len, how, rows),
            (6, _) => look_up_packed_rows::<Float6E2M3>(src, dst, len, how, rows),
            (4, _) => look_up_packed_rows::<Uint4>(src, dst, len, how, rows),
            _ => look_up_packed_rows::<Uint2>(src, dst, len, how, rows),
        },
    }
}

/// Half a byte to half a byte.
#[target_feature(enable = "avx2,f16c,fma")]
fn look_up_half_bytes(src: &[u8], dst: &mut [u8], how: Store, plane: &[u8; ENTRIES]) {
    let half = _mm256_set1_epi8(15);
    let table = _mm256_and_si256(twice(&plane.as_chunks().0[0]), half);
    // SAFETY: `steps` hands out pointers to 32 bytes.
    steps::<u8, u8>(src, dst, src.len(), how, |src, dst| unsafe {
        let value = load(src);
        let low = _mm256_shuffle_epi8(table, _mm256_and_si256(value, half));
        let high = _mm256_shuffle_epi8(table, _mm256_and_si256(_mm256_srli_epi16::<4>(value), half));
        store(dst, _mm256_or_si256(low, _mm256_slli_epi16::<4>(high)));
    });
}

/// From 6 bits or fewer to 32 or fewer; `S` and `D` stand for their widths.
#[target_feature(enable = "avx2,f16c,fma")]
fn look_up_packed<S: Element, const N: usize>(
    to: DataType,
    src: &[u8],
    dst: &mut [u8],
    len: usize,
    how: Store,
    planes: &[[u8; ENTRIES]; PLANES],
) {
    match (to, to.info().bits) {
        (DataType::Float, _) => look_up_pair::<S, f32, N>(src, dst, len, how, planes),
        (_, 2) => look_up_pair::<S, Uint2, N>(src, dst, len, how, planes),
        (_, 4) => look_up_pair::<S, Uint4, N>(src, dst, len, how, planes),
        (_, 6) => look_up_pair::<S, Float6E2M3, N>(src, dst, len, how, planes),
        (_, 8) => look_up_pair::<S, u8, N>(src, dst, len, how, planes),
        (_, 16) => look_up_pair::<S, u16, N>(src, dst, len, how, planes),
        _ => look_up_pair::<S, u32, N>(src, dst, len, how, planes),
    }
}

#[target_feature(enable = "avx2,f16c,fma")]
fn look_up_pair<S: Element, D: Element, const N: usize>(
    src: &[u8],
    dst: &mut [u8],
    len: usize,
    how: Store,
    planes: &[[u8; ENTRIES]; PLANES],
) {
    let tables = planes.each_ref().map(|plane| Sixteens::<N>::new(plane));
    // SAFETY: `steps` hands out pointers to the bytes of 32 elements.
    steps::<S, D>(src, dst, len, how, |src, dst| unsafe {
        let index = spread::<D>(load_codes(const { bits::<S>() }, src));
        let lowered = lowered::<N>(index);
        interleave::<D>(dst, |plane| tables[plane].at(&lowered));
    });
}

/// From 8 bits to 8 or fewer: two halves of the table, of which one gives zero.
#[target_feature(enable = "avx2,f16c,fma")]
fn look_up_byte<D: Element>(src: &[u8], dst: &mut [u8], len: usize, how: Store, plane: &[u8; ENTRIES]) {
    let low = Sixteens::<8>::new(&plane[..ENTRIES / 2]);
    let high = Sixteens::<8>::new(&plane[ENTRIES / 2..]);
    // SAFETY: `steps` hands out pointers to the bytes of 32 elements.
    steps::<u8, D>(src, dst, len, how, |src, dst| unsafe {
        let index = load(src);
        let other = _mm256_xor_si256(index, _mm256_set1_epi8(i8::MIN));
        let codes = _mm256_xor_si256(low.at(&lowered(index)), high.at(&lowered(other)));
        store_codes(const { bits::<D>() }, dst, codes);
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
    planes: &[[u8; ENTRIES / 2]; PLANES],
    sign: &[u8; PLANES],
    minus_zero: &[u8; PLANES],
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
            _mm256_xor_si256(tables[plane].at(&lowered), _mm256_xor_si256(negative, minus_zero))
        });
    });
}

/// From 8 bits to the width of `D`.
#[target_feature(enable = "avx2,f16c,fma")]
fn look_up_rows<D: Element>(src: &[u8], dst: &mut [u8], len: usize, how: Store, rows: &[u64; ENTRIES]) {
    // SAFETY: `steps` hands out pointers to the bytes of 32 elements.
    steps::<u8, D>(src, dst, len, how, |src, dst| unsafe {
        for i in 0..STEP {
            let row = rows[usize::from(src.add(i).read())].to_le_bytes();
            dst.add(i * const { bits::<D>() / 8 }).copy_from_nonoverlapping(row.as_ptr(), const { bits::<D>() / 8 });
        }
    });
}

/// From fewer bits to 8 bytes; `S` stands for its width.
#[target_feature(enable = "avx2,f16c,fma")]
fn look_up_packed_rows<S: Element>(src: &[u8], dst: &mut [u8], len: usize, how: Store, rows: &[u64; ENTRIES]) {
    // SAFETY: `steps` hands out pointers to the bytes of 32 elements.
    steps::<S, u64>(src, dst, len, how, |src, dst| unsafe {
        let mut codes = [0u8; STEP];
        store(codes.as_mut_ptr(), load_codes(const { bits::<S>() }, src));
        for (i, &code) in codes.iter().enumerate() {
            dst.cast::<u64>().add(i).write_unaligned(rows[usize::from(code)]);
        }
    });
}

/// 16 * `N` entries of a byte; each 16 but the first as what they differ from those before by.
#[derive(Clone, Copy)]
struct Sixteens<const N: usize>([__m256i; N]);

impl<const N: usize> Sixteens<N> {
    #[inline]
    #[target_feature(enable = "avx2")]
    fn new(entries: &[u8]) -> Self {
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
    fn at(&self, lowered: &[__m256i; N]) -> __m256i {
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
fn lowered<const N: usize>(index: __m256i) -> [__m256i; N] {
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
fn spread<D: Element>(index: __m256i) -> __m256i {
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
unsafe fn interleave<D: Element>(dst: *mut u8, plane: impl Fn(usize) -> __m256i) {
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
