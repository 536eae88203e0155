//! Values of blocks whose owners have arithmetic of their own: each operation is rounded to the owner's type.
//!
//! Of 4 bits or fewer, a block has at most 16 different values: these are computed, and each element looks its own up.
//! The loops are compiled for several instruction sets, of which `level` names one. They take slices, because a closure
//! that has vectors, or `map` of an array, would be a call of what is not compiled for the instruction set.

pub(super) mod rounding;

use crate::layouts::packed_ints::Stream;
use crate::layouts::weight::Formula;
use crate::level::level;
use fearless_simd::{Bytes, Simd, SimdBase, dispatch, u8x16, u8x32};
use onnx_cast::__private::with_default_float_environment;
use onnx_cast::DataType;
use rounding::{Rounding, store, with_rounding};

/// The quotient by 127 as bitsandbytes has it: a factor of float.
const OF_127: f32 = 7.874_016e-3;

/// Elements that are looked up at once; a multiple of what fills whole bytes.
const PART: usize = 32;

/// Bytes of codes that a step reads, whatever it needs of them.
const WINDOW: usize = Stream::WINDOW;

/// Elements whose values are computed at once, one by one: so few that they stay in the nearest cache.
const MANY: usize = 8 * PART;

/// Values of a block that are looked up, and blocks whose values are computed at once.
pub(super) const ENTRIES: usize = 16;
const TABLES: usize = 16;

/// How values come of codes, scales and zero points.
#[derive(Debug)]
pub(super) struct Arithmetic {
    pub(super) formula: Formula,
    pub(super) packing: Packing,
    /// What each code of at most 4 bits stands for, where values are looked up.
    pub(super) entries: Option<[f32; ENTRIES]>,
    /// What other codes are more than the elements.
    pub(super) offset: u8,
    /// The type that each operation is rounded to, and that of the results.
    pub(super) owner: DataType,
    pub(super) to: DataType,
    /// Elements of a block.
    pub(super) block: usize,
}

/// How codes are packed.
#[derive(Debug)]
pub(super) enum Packing {
    /// One to a byte.
    Bytes,
    /// Two in a byte, the even one in the upper half.
    HighFirst,
    /// Two in a byte, the even one in the lower half.
    LowFirst,
    /// Four in a byte, low bits first.
    Quarters,
    /// In a stream of bits.
    Stream(Stream),
}

impl Packing {
    /// Bits of a code.
    fn bits(&self) -> usize {
        match self {
            Packing::Bytes => 8,
            Packing::HighFirst | Packing::LowFirst => 4,
            Packing::Quarters => 2,
            Packing::Stream(stream) => stream.bits(),
        }
    }

    /// The codes of a part, one to a byte. Those behind them are read, where there are any, but not used.
    #[inline(always)]
    fn unpack<S: Simd>(&self, simd: S, packed: &[u8]) -> u8x32<S> {
        let mut padded = [0; WINDOW];
        let packed = match packed.first_chunk::<WINDOW>() {
            Some(packed) => packed,
            None => {
                padded[..packed.len()].copy_from_slice(packed);
                &padded
            }
        };
        let bytes = u8x16::from_slice(simd, &packed[..16]);
        let (first, second) = match self {
            Packing::Bytes => return u8x32::from_slice(simd, &packed[..32]),
            Packing::HighFirst => (bytes >> 4, bytes & 15),
            Packing::LowFirst => (bytes & 15, bytes >> 4),
            Packing::Quarters => {
                let halves = simd.zip_low_u8x16(bytes & 15, bytes >> 4);
                (halves & 3, halves >> 2)
            }
            Packing::Stream(stream) => return stream.unpack(simd, packed),
        };
        let (low, high) = simd.interleave_u8x16(first, second);
        simd.combine_u8x16(low, high)
    }
}

impl Arithmetic {
    /// Computes the values of codes, the first of which is so many elements behind the beginning of the first block.
    /// Each block has a scale and a zero point.
    pub(super) fn run(&self, ahead: usize, codes: &[u8], numbers: [&[f32]; 2], out: &mut [u8]) {
        let level = level();
        with_default_float_environment(|| {
            dispatch!(level, simd => match &self.entries {
                Some(entries) => self.by_tables(simd, entries, ahead, codes, numbers, out),
                None => self.one_by_one(simd, ahead, codes, numbers, out),
            });
        });
    }

    /// Bytes of a result.
    #[inline(always)]
    fn size(&self) -> usize {
        if self.to == DataType::Float { 4 } else { 2 }
    }

    /// How operations are rounded.
    #[inline(always)]
    fn rounding(&self, [scales, zeros]: [&[f32]; 2]) -> Rounding {
        // Codes are less than 256, so `amax` bounds the magnitude of a result. The limit leaves room for rounding below
        // float16's max of 65504. The fold compares each value, because `max` would ignore NaN, which must not count as
        // small.
        let factor = |scale: f32| if scale.abs() < 1.0 { 1.0 } else { scale.abs() };
        let amax = |scale: f32, zero: f32| (256.0 + zero.abs()) * factor(scale);
        let pairs = scales.iter().zip(zeros);
        let is_small = || pairs.fold(true, |all, (scale, zero)| all & (amax(*scale, *zero) < 60000.0));
        Rounding::of(self.owner, self.formula != Formula::Quotient && self.owner == DataType::Float16 && is_small())
    }

    /// Looks up values in tables of those that a block has, of which some are computed together.
    #[inline(always)]
    fn by_tables<S: Simd>(
        &self,
        simd: S,
        entries: &[f32; ENTRIES],
        ahead: usize,
        codes: &[u8],
        [scales, zeros]: [&[f32]; 2],
        out: &mut [u8],
    ) {
        let (bits, size, rounding) = (self.packing.bits(), self.size(), self.rounding([scales, zeros]));
        let (mut values, mut tables) = ([0.0; ENTRIES * TABLES], [0; ENTRIES * 4 * TABLES]);
        let (mut ahead, mut codes, mut out) = (ahead, codes, out);
        for (scales, zeros) in scales.chunks(TABLES).zip(zeros.chunks(TABLES)) {
            let values = &mut values[..ENTRIES * scales.len()];
            values.as_chunks_mut().0.iter_mut().for_each(|values| *values = *entries);
            self.apply(rounding, [0, ENTRIES], values, [scales, zeros]);
            store(self.to, values, &mut tables);
            for table in tables.chunks_exact(ENTRIES * size).take(scales.len()) {
                let planes = Planes::new(simd, size, table);
                let count = (self.block - ahead).min(out.len() / size);
                let (now, behind) = std::mem::take(&mut out).split_at_mut(count * size);
                for (index, now) in now.chunks_mut(PART * size).enumerate() {
                    planes.look_up(self.packing.unpack(simd, &codes[index * PART * bits / 8..]), now);
                }
                (ahead, codes, out) = (0, &codes[count * bits / 8..], behind);
            }
        }
    }

    /// Computes a value for each code.
    #[inline(always)]
    fn one_by_one<S: Simd>(&self, simd: S, ahead: usize, codes: &[u8], [scales, zeros]: [&[f32]; 2], out: &mut [u8]) {
        let (bits, size, rounding) = (self.packing.bits(), self.size(), self.rounding([scales, zeros]));
        let (mut unpacked, mut values) = ([0; MANY], [0.0; MANY]);
        let (mut at, mut packed) = (ahead, codes);
        for out in out.chunks_mut(MANY * size) {
            let values = &mut values[..out.len() / size];
            let codes = if bits == 8 {
                packed
            } else {
                for (index, codes) in unpacked.as_chunks_mut::<PART>().0.iter_mut().enumerate() {
                    let packed = packed.get(index * PART * bits / 8..).unwrap_or_default();
                    *codes = self.packing.unpack(simd, packed).into();
                }
                &unpacked
            };
            let elements = values.iter_mut().zip(codes);
            if self.formula == Formula::Of127 {
                elements.for_each(|(value, code)| *value = f32::from(*code as i8));
            } else {
                let offset = f32::from(self.offset);
                elements.for_each(|(value, code)| *value = f32::from(*code) - offset);
            }
            let block = at / self.block;
            self.apply(rounding, [at % self.block, self.block], values, [&scales[block..], &zeros[block..]]);
            store(self.to, values, out);
            (at, packed) = (at + values.len(), &packed[values.len() * bits / 8..]);
        }
    }

    /// Makes values of elements, the first of which is so many elements behind the beginning of a block of so many.
    #[inline(always)]
    fn apply(&self, rounding: Rounding, place: [usize; 2], values: &mut [f32], numbers: [&[f32]; 2]) {
        with_rounding!(rounding, |round| match self.formula {
            Formula::Difference =>
                each(place, values, numbers, |element, scale, zero| round(round(element - zero) * scale)),
            Formula::Quotient => each(place, values, numbers, |element, scale, _| round(element / scale)),
            Formula::Product => each(place, values, numbers, |element, scale, _| round(element * scale)),
            Formula::Of127 => each(place, values, numbers, |element, scale, _| round(element * scale * OF_127)),
            Formula::ProductLess =>
                each(place, values, numbers, |element, scale, zero| round(round(element * scale) - zero)),
            Formula::ProductMore =>
                each(place, values, numbers, |element, scale, bias| round(round(element * scale) + bias)),
        });
    }
}

/// Makes a value of each element by the numbers of its block.
#[inline(always)]
fn each(
    [ahead, block]: [usize; 2],
    values: &mut [f32],
    [scales, zeros]: [&[f32]; 2],
    value: impl Fn(f32, f32, f32) -> f32,
) {
    let mut numbers = scales.iter().zip(zeros);
    if block == 1 {
        return values.iter_mut().zip(numbers).for_each(|(one, (scale, zero))| *one = value(*one, *scale, *zero));
    }
    let (mut ahead, mut rest) = (ahead, values);
    while let Some((scale, zero)) = numbers.next().filter(|_| !rest.is_empty()) {
        let count = (block - ahead).min(rest.len());
        let (now, behind) = std::mem::take(&mut rest).split_at_mut(count);
        // A table has as many: so the loop is of vectors alone.
        let (many, few) = now.as_chunks_mut::<ENTRIES>();
        many.iter_mut().for_each(|many| many.iter_mut().for_each(|one| *one = value(*one, *scale, *zero)));
        few.iter_mut().for_each(|one| *one = value(*one, *scale, *zero));
        (ahead, rest) = (0, behind);
    }
}

/// The bytes of 16 entries of two or four bytes, those of each place together.
struct Planes<S: Simd> {
    simd: S,
    size: usize,
    planes: [u8x32<S>; 4],
}

impl<S: Simd> Planes<S> {
    #[inline(always)]
    fn new(simd: S, size: usize, entries: &[u8]) -> Planes<S> {
        let first = u8x16::from_slice(simd, &entries[..16]);
        let second = u8x16::from_slice(simd, &entries[16..32]);
        let (even, odd) = (simd.unzip_low_u8x16(first, second), simd.unzip_high_u8x16(first, second));
        if size == 2 {
            let (low, high) = (u8x32::block_splat(even), u8x32::block_splat(odd));
            return Planes { simd, size, planes: [low, high, low, high] };
        }
        let third = u8x16::from_slice(simd, &entries[32..48]);
        let fourth = u8x16::from_slice(simd, &entries[48..64]);
        let (even_too, odd_too) = (simd.unzip_low_u8x16(third, fourth), simd.unzip_high_u8x16(third, fourth));
        let planes = [
            u8x32::block_splat(simd.unzip_low_u8x16(even, even_too)),
            u8x32::block_splat(simd.unzip_low_u8x16(odd, odd_too)),
            u8x32::block_splat(simd.unzip_high_u8x16(even, even_too)),
            u8x32::block_splat(simd.unzip_high_u8x16(odd, odd_too)),
        ];
        Planes { simd, size, planes }
    }

    /// The bytes of a place and of the next of each code's entry, which alternate.
    #[inline(always)]
    fn pairs(&self, codes: u8x32<S>, at: usize) -> (u8x32<S>, u8x32<S>) {
        let low = self.simd.swizzle_dyn_within_blocks_u8x32(self.planes[at], codes);
        let high = self.simd.swizzle_dyn_within_blocks_u8x32(self.planes[at + 1], codes);
        self.simd.interleave_u8x32(low, high)
    }

    /// Writes the entry of each code, of which all are below 16.
    #[inline(always)]
    fn look_up(&self, codes: u8x32<S>, out: &mut [u8]) {
        let mut all = [0; 4 * PART];
        let whole = out.len() == PART * self.size;
        let to = if whole { &mut *out } else { &mut all[..PART * self.size] };
        let (first, second) = self.pairs(codes, 0);
        if self.size == 2 {
            first.store_slice(&mut to[..32]);
            second.store_slice(&mut to[32..64]);
        } else {
            let (third, fourth) = self.pairs(codes, 2);
            let (low, high) = self.simd.interleave_u16x16(first.bitcast(), third.bitcast());
            low.to_bytes().store_slice(&mut to[..32]);
            high.to_bytes().store_slice(&mut to[32..64]);
            let (low, high) = self.simd.interleave_u16x16(second.bitcast(), fourth.bitcast());
            low.to_bytes().store_slice(&mut to[64..96]);
            high.to_bytes().store_slice(&mut to[96..128]);
        }
        if !whole {
            let len = out.len();
            out.copy_from_slice(&all[..len]);
        }
    }
}
