//! Weights whose words hold an element of each part of the tensor: HQQ and BitNet.
//!
//! The parts follow each other through the whole tensor, so that a stretch of a part is the same bits of words that
//! follow each other.

use super::TensorBytes;
use super::arithmetic::rounding::widen;
use super::arithmetic::{Arithmetic, Packing};
use crate::formats::strided::columns::Columns;
use crate::io::memory::resize;
use crate::layouts::weight::{Parts, Weight};
use crate::level::level;
use crate::pipeline::{PipelineError, Scratch};
use fearless_simd::dispatch;
use onnx_cast::DataType;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

/// Elements that are computed at once where each has a scale: so few that the numbers stay in the nearest cache.
const FEW: usize = 1 << 10;

/// Bytes of words that are cached, so that each of the parts that a word has need not read it again.
const CACHED: usize = 32 << 20;

/// A weight, and where its scales and zero points are.
#[derive(Debug)]
pub(super) struct Parted<'a> {
    parts: Parts,
    weight: Arc<Weight>,
    arithmetic: Arithmetic,
    scales: TensorBytes<'a>,
    zeros: Option<TensorBytes<'a>>,
    /// Rows of scales and of zero points that have one for each column: every row of elements needs them again.
    rows: Option<Box<[Columns; 2]>>,
    /// Words wider than a byte, of which there are more bytes than elements.
    words: Mutex<Option<Arc<Vec<u8>>>>,
}

impl<'a> Parted<'a> {
    pub(super) fn new(
        weight: &Arc<Weight>,
        parts: Parts,
        to: DataType,
        scales: TensorBytes<'a>,
        zeros: Option<TensorBytes<'a>>,
    ) -> Parted<'a> {
        let Parts { bits, formula, offset, .. } = parts;
        let owner = weight.owner_type.unwrap_or(DataType::Float);
        let block = weight.scales.block[1].max(1);
        let looks_up = bits <= 4 && block > 1;
        let entries = looks_up.then(|| std::array::from_fn(|code| code as f32 - f32::from(offset)));
        let arithmetic = Arithmetic { formula, packing: Packing::Bytes, entries, offset, owner, to, block };
        let rows = (weight.scales.block[0] > 1 && block == 1).then(|| {
            let size = weight.scales.data_type.byte_len(1).unwrap_or(1);
            Box::new([(); 2].map(|()| Columns::new(weight.grid(), size)))
        });
        Parted { parts, weight: Arc::clone(weight), arithmetic, scales, zeros, rows, words: Mutex::default() }
    }

    /// Frees what was read: nothing of it is needed again.
    pub(super) fn forget(&self) {
        self.rows.iter().flat_map(|both| both.iter()).for_each(Columns::forget);
        *self.words.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Computes values, from one on.
    pub(super) fn compute(
        &self,
        elements: TensorBytes<'_>,
        start: usize,
        scratch: &mut Scratch,
        out: &mut [u8],
    ) -> Result<(), PipelineError> {
        let size = self.arithmetic.to.byte_len(1).unwrap_or(1);
        let end = start + out.len() / size;
        self.unpack(elements, start..end, scratch)?;
        let [_, columns] = self.weight.matrix();
        // Where a row is one block, or rows are not, scales follow each other as the elements do.
        let ([down, _], across) = (self.weight.scales.block, self.arithmetic.block);
        let columns = if down == 1 { self.weight.len() } else { columns };
        let (across_all, most) = (columns.div_ceil(across), if across == 1 { FEW } else { usize::MAX });
        let (mut at, mut out) = (start, out);
        let (mut scales, mut zeros) = (Vec::new(), Vec::new());
        while at < end {
            let (row, column) = (at / columns, at % columns);
            let stop = end.min((row + 1) * columns).min(at.saturating_add(most));
            let blocks = column / across..(stop - row * columns).div_ceil(across);
            let first = row / down * across_all + blocks.start;
            scales.resize(blocks.len(), 0.0);
            zeros.resize(blocks.len(), 0.0);
            self.numbers(0, self.scales, first, &mut scales, scratch)?;
            self.zeros.map_or(Ok(()), |place| self.numbers(1, place, first, &mut zeros, scratch))?;
            let (now, later) = std::mem::take(&mut out).split_at_mut((stop - at) * size);
            let codes = &scratch.codes[at - start..stop - start];
            self.arithmetic.run(column % across, codes, [&scales, &zeros], now);
            (at, out) = (stop, later);
        }
        Ok(())
    }

    /// Scales (0) or zero points (1) of some blocks.
    fn numbers(
        &self,
        which: usize,
        place: TensorBytes<'_>,
        first: usize,
        numbers: &mut [f32],
        scratch: &mut Scratch,
    ) -> Result<(), PipelineError> {
        let data_type = self.weight.scales.data_type;
        let size = data_type.byte_len(1).unwrap_or(1);
        let Some(rows) = &self.rows else {
            place.read(first * size, numbers.len() * size, &mut scratch.scales)?;
            widen(data_type, &scratch.scales, numbers);
            return Ok(());
        };
        let across = self.weight.grid()[1];
        let (row, begin, end) = (first / across, first % across, first % across + numbers.len());
        let mut column = begin;
        while column < end {
            let slab = rows[which].slab(0, [row, column], &mut |at, bytes| place.read_into(at, bytes))?;
            let bytes = slab.row([row, column], end);
            widen(data_type, bytes, &mut numbers[column - begin..]);
            column += bytes.len() / size;
        }
        Ok(())
    }

    /// All words, if these are to be cached.
    fn words(&self, elements: TensorBytes<'_>) -> Result<Option<Arc<Vec<u8>>>, PipelineError> {
        let Parts { word, len, .. } = self.parts;
        if word == 1 || len.saturating_mul(word) > CACHED {
            return Ok(None);
        }
        let mut cached = self.words.lock().unwrap_or_else(PoisonError::into_inner);
        if cached.is_none() {
            let mut words = Vec::new();
            elements.read(0, len * word, &mut words)?;
            *cached = Some(Arc::new(words));
        }
        Ok(cached.clone())
    }

    /// Unpacks elements, one to a byte.
    fn unpack(
        &self,
        elements: TensorBytes<'_>,
        range: Range<usize>,
        scratch: &mut Scratch,
    ) -> Result<(), PipelineError> {
        let Parts { bits, word, len, .. } = self.parts;
        let cached = self.words(elements)?;
        let Scratch { elements: read, codes, .. } = scratch;
        resize(codes, range.len()).ok_or_else(PipelineError::out_of_memory)?;
        let mask = ((1u32 << bits) - 1) as u8;
        let (mut at, mut codes) = (range.start, &mut codes[..]);
        while at < range.end {
            let (part, place) = (at / len, at % len);
            let count = (len - place).min(range.end - at);
            let words = match &cached {
                Some(words) => &words[place * word..][..count * word],
                None => {
                    elements.read(place * word, count * word, read)?;
                    &read[..]
                }
            };
            let (now, later) = std::mem::take(&mut codes).split_at_mut(count);
            let shift = self.parts.shift(part);
            dispatch!(level(), _simd => if word == 1 {
                now.iter_mut().zip(words).for_each(|(code, byte)| *code = byte >> shift & mask);
            } else {
                let words = words.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word));
                now.iter_mut().zip(words).for_each(|(code, word)| *code = (word >> shift) as u8 & mask);
            });
            (at, codes) = (at + count, later);
        }
        Ok(())
    }
}
