//! Weights whose owners have arithmetic of their own: bitsandbytes, MLX and torchao.
//!
//! Blocks follow each other through the whole tensor, whatever its rows, each with a scale, so that a part needs only
//! the scales of its blocks. bitsandbytes multiplies an entry of a table, or an integer, by the scale. MLX and torchao
//! multiply an integer, round to the type of the scales, add a bias and round again. The loops are compiled for several
//! instruction sets, of which `level` names one.
//!
//! Of 4 bits or fewer, a block has at most 16 different values: these are computed, and each element looks its own up.

pub(super) mod rounding;

use super::{TensorBytes, scale_size};
use crate::io::memory::resize;
use crate::layouts::columns::Columns;
use crate::layouts::packed_ints::Stream;
use crate::layouts::weight::{Coding, Grid, Nested, Weight};
use crate::level::level;
use crate::pipeline::{PipelineError, Scratch};
use fearless_simd::{Bytes, Simd, SimdBase, dispatch, u8x16, u8x32};
use onnx_cast::DataType;
use onnx_cast::scalar::with_default_float_environment;
use rounding::{number, read_numbers, store, with_rounding};

/// The quotient by 127 as bitsandbytes has it: a factor of float.
const OF_127: f32 = 7.874_016e-3;

/// Elements that are computed at once; a multiple of what fills whole bytes.
const PART: usize = 32;

/// Bytes of codes that a step reads, whatever it needs of them.
const WINDOW: usize = Stream::WINDOW;

/// Elements whose values are computed at once, one by one: so few that they stay in the nearest cache.
const MANY: usize = 8 * PART;

/// Values of a block that are looked up, and blocks whose values are computed at once.
const ENTRIES: usize = 16;
const TABLES: usize = 16;
/// The codes of the entries.
const CODES: [f32; ENTRIES] = [0., 1., 2., 3., 4., 5., 6., 7., 8., 9., 10., 11., 12., 13., 14., 15.];
/// The same, signed.
const SIGNED: [f32; ENTRIES] = [0., 1., 2., 3., 4., 5., 6., 7., -8., -7., -6., -5., -4., -3., -2., -1.];

/// A weight, and where its scales and biases are.
#[derive(Debug)]
pub(super) struct Coded<'a> {
    coding: Coding,
    weight: &'a Weight,
    to: DataType,
    /// The type that values are rounded to first.
    owner: DataType,
    scales: TensorBytes<'a>,
    biases: Option<TensorBytes<'a>>,
    nested: Option<(&'a Nested, TensorBytes<'a>)>,
    /// Scales and biases whose rows and columns are exchanged.
    exchanged: Option<Box<[Columns; 2]>>,
}

impl<'a> Coded<'a> {
    pub(super) fn new(
        weight: &'a Weight,
        coding: Coding,
        to: DataType,
        scales: TensorBytes<'a>,
        biases: Option<TensorBytes<'a>>,
        nested: Option<TensorBytes<'a>>,
    ) -> Coded<'a> {
        let owner = weight.owner_type.unwrap_or(DataType::Float);
        let nested = weight.nested.as_ref().zip(nested);
        let exchanged = (weight.grid_order == Grid::Exchanged).then(|| {
            let [rows, groups] = weight.grid();
            Box::new([(); 2].map(|()| Columns::new([groups, rows], scale_size(weight))))
        });
        Coded { coding, weight, to, owner, scales, biases, nested, exchanged }
    }

    /// Frees what was read: nothing of it is needed again.
    pub(super) fn forget(&self) {
        self.exchanged.iter().flat_map(|both| both.iter()).for_each(Columns::forget);
    }

    /// Elements of a block.
    fn block(&self) -> usize {
        self.weight.block[1].max(1)
    }

    /// Computes values, from one on.
    pub(super) fn compute(
        &self,
        elements: TensorBytes<'_>,
        start: usize,
        scratch: &mut Scratch,
        out: &mut [u8],
    ) -> Result<(), PipelineError> {
        let size = self.to.byte_len(1).unwrap_or(1);
        let (bits, step) = (self.coding.bits(), self.coding.step());
        let end = start + out.len() / size;
        let (first, stop) = (start / step * step, end.next_multiple_of(step));
        elements.read(first / 8 * bits + first % 8 * bits / 8, (stop - first) * bits / 8, &mut scratch.elements)?;
        let blocks = first / self.block()..stop.div_ceil(self.block());
        let scales = self.numbers(blocks.start, blocks.len(), scratch)?;
        let biases = match self.biases {
            Some(place) => self.read(1, place, blocks.start, blocks.len(), scratch)?,
            None => Vec::new(),
        };
        let is_whole = (first, stop) == (start, end);
        if !is_whole {
            resize(&mut scratch.results, (stop - first) * size).ok_or_else(PipelineError::out_of_memory)?;
        }
        let values = if is_whole { &mut *out } else { &mut scratch.results[..] };
        let (coding, owner, to, block) = (self.coding, self.owner, self.to, self.block());
        // A code is less than 256, and an entry is 1 at most.
        let is_small =
            |(at, scale): (usize, &f32)| scale.abs() * 256.0 + biases.get(at).map_or(0.0, |b| b.abs()) < 65504.0;
        let is_small = owner == DataType::Float16 && scales.iter().enumerate().all(is_small);
        let work = Work { coding, owner, to, size, block, is_small, stream: Stream::new(bits as u32) };
        let (codes, level) = (&scratch.elements[..], level());
        with_default_float_environment(
            || dispatch!(level, simd => work.run(simd, first, codes, (&scales, &biases), values)),
        );
        if !is_whole {
            out.copy_from_slice(&scratch.results[(start - first) * size..][..out.len()]);
        }
        Ok(())
    }

    /// Scales (0) or biases (1) of some blocks.
    fn read(
        &self,
        which: usize,
        place: TensorBytes<'_>,
        first: usize,
        count: usize,
        scratch: &mut Scratch,
    ) -> Result<Vec<f32>, PipelineError> {
        let data_type = self.weight.scale_type;
        let Some(exchanged) = &self.exchanged else { return read_numbers(data_type, place, first, count, scratch) };
        let bytes = &mut scratch.scales;
        resize(bytes, count * scale_size(self.weight)).ok_or_else(PipelineError::out_of_memory)?;
        exchanged[which].read(first, bytes, |at, bytes| place.read_into(at, bytes))?;
        Ok((0..count).map(|index| number(data_type, bytes, index)).collect())
    }

    /// The scales of some blocks.
    fn numbers(&self, first: usize, count: usize, scratch: &mut Scratch) -> Result<Vec<f32>, PipelineError> {
        let Some((nested, place)) = self.nested else {
            return self.read(0, self.scales, first, count, scratch);
        };
        self.scales.read(first, count, &mut scratch.scales)?;
        let begin = first / nested.block;
        place.read(4 * begin, 4 * ((first + count).div_ceil(nested.block) - begin), &mut scratch.zero_points)?;
        let scales = scratch.scales.iter().zip(first..).map(|(code, index)| {
            let scale = number(DataType::Float, &scratch.zero_points, index / nested.block - begin);
            nested.map[usize::from(*code)] * scale + nested.offset
        });
        Ok(scales.collect())
    }
}

/// What the loops are told.
struct Work {
    coding: Coding,
    owner: DataType,
    to: DataType,
    /// Bytes of a result.
    size: usize,
    block: usize,
    /// Whether no value reaches what is not finite in float16.
    is_small: bool,
    stream: Stream,
}

impl Work {
    /// Computes the values of codes, the first of which is this element.
    #[inline(always)]
    fn run<S: Simd>(&self, simd: S, first: usize, codes: &[u8], scales: (&[f32], &[f32]), out: &mut [u8]) {
        match self.coding {
            Coding::Table(_) | Coding::Int4 | Coding::Affine { bits: 0..=4 } => {
                self.by_tables(simd, first, codes, scales, out)
            }
            Coding::Int8 | Coding::Affine { .. } => self.one_by_one(simd, first, codes, scales, out),
        }
    }

    /// Looks up values in tables of those that a block has, of which some are computed together.
    #[inline(always)]
    fn by_tables<S: Simd>(&self, simd: S, first: usize, codes: &[u8], scales: (&[f32], &[f32]), out: &mut [u8]) {
        let (scales, biases) = scales;
        let (bytes, mut tables) = (PART * self.coding.bits() / 8, [0; ENTRIES * 4 * TABLES]);
        let (mut at, mut codes, mut out) = (first, codes, out);
        for (index, scales) in scales.chunks(TABLES).enumerate() {
            self.tables(scales, biases.get(index * TABLES..).unwrap_or_default(), &mut tables);
            for table in tables.chunks_exact(ENTRIES * self.size).take(scales.len()) {
                let planes = Planes::new(simd, self.size, table);
                let count = (self.block - at % self.block).min(out.len() / self.size);
                let (now, behind) = std::mem::take(&mut out).split_at_mut(count * self.size);
                for (index, now) in now.chunks_mut(PART * self.size).enumerate() {
                    planes.look_up(self.unpack(simd, &codes[index * bytes..]), now);
                }
                (at, codes, out) = (at + count, &codes[count * self.coding.bits() / 8..], behind);
            }
        }
    }

    /// The values of all codes in some blocks, in the type of the results.
    #[inline(always)]
    fn tables(&self, scales: &[f32], biases: &[f32], out: &mut [u8]) {
        let mut values = [0.0; ENTRIES * TABLES];
        with_rounding!(self, |round| {
            let blocks = values.as_chunks_mut::<ENTRIES>().0.iter_mut().zip(scales);
            match self.coding {
                Coding::Table(table) => blocks.for_each(|(values, scale)| {
                    let entries = values.iter_mut().zip(table.entries());
                    entries.for_each(|(value, entry)| *value = round(entry * scale));
                }),
                _ => blocks.zip(biases).for_each(|((values, scale), bias)| {
                    let codes = values.iter_mut().zip(if self.coding == Coding::Int4 { SIGNED } else { CODES });
                    codes.for_each(|(value, code)| *value = round(round(code * scale) + bias));
                }),
            }
        });
        store(self.to, &values[..ENTRIES * scales.len()], out);
    }

    /// Computes a value for each code.
    #[inline(always)]
    fn one_by_one<S: Simd>(&self, simd: S, first: usize, codes: &[u8], scales: (&[f32], &[f32]), out: &mut [u8]) {
        let (bits, mut unpacked) = (self.coding.bits(), [0; MANY]);
        let (mut at, mut rest) = (first, codes);
        for out in out.chunks_mut(MANY * self.size) {
            let count = out.len() / self.size;
            let codes = if bits == 8 {
                &rest[..count]
            } else {
                for (index, codes) in unpacked.as_chunks_mut::<PART>().0.iter_mut().enumerate() {
                    let packed = rest.get(index * PART * bits / 8..).unwrap_or_default();
                    *codes = self.unpack(simd, packed).into();
                }
                &unpacked[..count]
            };
            self.products(at, first / self.block, codes, scales, out);
            (at, rest) = (at + count, &rest[count * bits / 8..]);
        }
    }

    /// The values of codes from an element on, in the type of the results. The first scale is that of this block.
    #[inline(always)]
    fn products(&self, at: usize, first: usize, codes: &[u8], (scales, biases): (&[f32], &[f32]), out: &mut [u8]) {
        let mut values = [0.0; MANY];
        with_rounding!(self, |round| {
            let (mut at, mut codes, mut rest) = (at, codes, &mut values[..]);
            while !codes.is_empty() {
                let count = (self.block - at % self.block).min(codes.len());
                let (these, later) = codes.split_at(count);
                let (now, behind) = std::mem::take(&mut rest).split_at_mut(count);
                let (scale, values) = (scales[at / self.block - first], now.iter_mut().zip(these));
                if self.coding == Coding::Int8 {
                    values.for_each(|(value, code)| *value = round(f32::from(*code as i8) * scale * OF_127));
                } else {
                    let bias = biases[at / self.block - first];
                    values.for_each(|(value, code)| *value = round(round(f32::from(*code) * scale) + bias));
                }
                (at, codes, rest) = (at + count, later, behind);
            }
        });
        store(self.to, &values[..codes.len()], out);
    }

    /// The codes of a part, one to a byte. Those behind them are read, where there are any, but not used.
    #[inline(always)]
    fn unpack<S: Simd>(&self, simd: S, codes: &[u8]) -> u8x32<S> {
        let mut padded = [0; WINDOW];
        let codes = match codes.first_chunk::<WINDOW>() {
            Some(codes) => codes,
            None => {
                padded[..codes.len()].copy_from_slice(codes);
                &padded
            }
        };
        let bytes = u8x16::from_slice(simd, &codes[..16]);
        let (first, second) = match self.coding {
            Coding::Table(_) => (bytes >> 4, bytes & 15),
            Coding::Int4 | Coding::Affine { bits: 4 } => (bytes & 15, bytes >> 4),
            Coding::Affine { bits: 2 } => {
                let halves = simd.zip_low_u8x16(bytes & 15, bytes >> 4);
                (halves & 3, halves >> 2)
            }
            Coding::Int8 | Coding::Affine { .. } => return self.stream.unpack(simd, codes),
        };
        let (low, high) = simd.interleave_u8x16(first, second);
        simd.combine_u8x16(low, high)
    }
}

/// The bytes of 16 entries of two or four bytes, those of each place together.
pub(super) struct Planes<S: Simd> {
    simd: S,
    size: usize,
    planes: [u8x32<S>; 4],
}

impl<S: Simd> Planes<S> {
    #[inline(always)]
    pub(super) fn new(simd: S, size: usize, entries: &[u8]) -> Planes<S> {
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
    pub(super) fn look_up(&self, codes: u8x32<S>, out: &mut [u8]) {
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
