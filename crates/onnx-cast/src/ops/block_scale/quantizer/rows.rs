//! Quantizes a tensor whose rows are not whole blocks. Rows end within blocks, and packed rows within bytes, so parts
//! begin at any element that begins a byte: the block that a part begins in is also the last of the part before it. Its
//! scale is found twice, and stored once.

use super::{Blocks, Found, Quantizer, amax_of_blocks};
use crate::element::{DataType, byte_len_of};
use crate::kernel::Task;
use crate::ops::scaled::ScaledPlan;
use crate::ops::scaled::layout::Layout;
use crate::ops::scaled::tiles::{BoundCast, Operand};
use crate::packed::{Out, clear, clear_padding, written};
use crate::scalar::block_scale::{BlockFormat, Recipe};
use crate::scalar::with_default_float_environment;
use core::mem::MaybeUninit;
use core::ops::Range;

/// Elements that are quantized at a time. They end a byte of every type.
const PART: usize = 2048;

/// Blocks whose scales are found at a time.
const BATCH: usize = 64;

/// The longest block, in bytes.
const BLOCK: usize = 32 * 4;

/// Rows of elements, each cut into blocks. The last block of a row is shorter than the others.
#[derive(Clone, Copy)]
pub(super) struct Rows {
    /// Elements of a row.
    pub(super) row: usize,
    /// Elements of a block.
    pub(super) block: usize,
}

impl Rows {
    /// The block that has an element, and the end of its row.
    fn block_of(self, element: usize) -> (Range<usize>, usize) {
        let (row, column) = (element / self.row * self.row, element % self.row);
        let (begin, end) = (row + column / self.block * self.block, row + self.row);
        (begin..(begin + self.block).min(end), end)
    }

    /// The number of blocks that begin before an element.
    pub(super) fn blocks_before(self, element: usize) -> usize {
        element / self.row * self.row.div_ceil(self.block) + (element % self.row).div_ceil(self.block)
    }
}

/// Memory for a part.
struct Memory {
    /// Blocks, each padded with zeros.
    padded: [u8; BATCH * BLOCK],
    /// For each element, the factor or the divisor of its block.
    factors: [[u8; 4]; PART],
    /// Whether an element is in a block with NaN or infinity.
    is_bad: [bool; PART],
}

impl Quantizer<'_> {
    /// Quantizes elements of rows that are not whole blocks.
    pub(super) fn rows(&self, blocks: Blocks<'_>, plans: &[ScaledPlan; 2]) {
        let Blocks { row, src, elements, scales, start, len, .. } = blocks;
        let rows = Rows { row, block: self.quantize.format.block() };
        let bits = self.quantize.format.element().info().bits as usize;
        // Elements of all blocks are multiplied, or all are divided.
        let multiplies = self.quantize.format == BlockFormat::NvFp4 && self.quantize.recipe == Recipe::TorchAo;
        let plan = &plans[usize::from(multiplies)];
        let mut memory = Memory { padded: [0; BATCH * BLOCK], factors: [[0; 4]; PART], is_bad: [false; PART] };
        scales.fill(MaybeUninit::new(0));
        // SAFETY: the line above wrote every byte.
        let mut codes = unsafe { written(scales) };
        with_default_float_environment(|| {
            for (elements, begin) in elements.chunks_mut(byte_len_of(PART, bits)).zip((start..).step_by(PART)) {
                let part = begin..(begin + PART).min(start + len);
                let here = rows.blocks_before(part.end) - rows.blocks_before(part.start);
                let (of_part, others) = core::mem::take(&mut codes).split_at_mut(here);
                codes = others;
                let has_bad = self.scales_of_rows(rows, src, part.clone(), of_part, multiplies, &mut memory);
                let elements = self.cast_part(plan, src, part, elements, &memory);
                if has_bad {
                    for (index, is_bad) in memory.is_bad.iter_mut().enumerate().filter(|(_, is_bad)| **is_bad) {
                        clear(elements, index..index + 1, self.quantize.format.element());
                        *is_bad = false;
                    }
                }
            }
        });
        // SAFETY: the parts make up the elements, and every byte of each was written.
        clear_padding(self.quantize.format.element(), len, unsafe { written(elements) });
    }

    /// Finds the scales of a part's blocks: a code for each block that begins in the part, and what each element is
    /// multiplied with or divided by. Returns whether a block has NaN or infinity.
    fn scales_of_rows(
        &self,
        rows: Rows,
        src: &[u8],
        part: Range<usize>,
        codes: &mut [u8],
        multiplies: bool,
        memory: &mut Memory,
    ) -> bool {
        let width = self.from.info().bits as usize / 8;
        let mut codes = codes.iter_mut();
        let (mut next, mut row_end) = rows.block_of(part.start);
        let mut has_bad = false;
        while next.start < part.end {
            let mut batch = [const { 0..0 }; BATCH];
            let mut count = 0;
            let padded = memory.padded.chunks_exact_mut(rows.block * width);
            for (block, padded) in batch.iter_mut().zip(padded) {
                if next.start >= part.end {
                    break;
                }
                let (values, zeros) = padded.split_at_mut(next.len() * width);
                values.copy_from_slice(&src[next.start * width..next.end * width]);
                zeros.fill(0);
                *block = next.clone();
                if next.end == row_end {
                    row_end += rows.row;
                }
                next = next.end..(next.end + rows.block).min(row_end);
                count += 1;
            }
            let (mut amax, mut found, mut factors) = ([0; BATCH], [0; BATCH], [[0; 4]; BATCH]);
            let (amax, found, factors) = (&mut amax[..count], &mut found[..count], &mut factors[..count]);
            amax_of_blocks(self.backend, self.from, &memory.padded[..count * rows.block * width], rows.block, amax);
            let Found { has_nan, multiplies: are_factors } = self.scales(amax, found, factors);
            if are_factors && !multiplies {
                self.divisors(found, factors);
            }
            has_bad |= has_nan;
            for ((block, code), factor) in batch[..count].iter().zip(found).zip(factors) {
                // The block that the part begins in has its code from the part before.
                if block.start >= part.start
                    && let Some(out) = codes.next()
                {
                    *out = *code;
                }
                let here = block.start.max(part.start) - part.start..block.end.min(part.end) - part.start;
                memory.factors[here.clone()].fill(*factor);
                if self.is_nan(*code) {
                    memory.is_bad[here].fill(true);
                }
            }
        }
        has_bad
    }

    /// Casts the elements of a part by what was found for each. Returns the results.
    fn cast_part<'o>(
        &self,
        plan: &ScaledPlan,
        src: &[u8],
        part: Range<usize>,
        elements: &'o mut Out,
        memory: &Memory,
    ) -> &'o mut [u8] {
        let (width, len) = (self.from.info().bits as usize / 8, part.len());
        let scale = Operand::new(DataType::Float, memory.factors[..len].as_flattened());
        let bound = BoundCast { plan, layout: Layout::rows_of_runs(len, 1), scale, zero_point: None };
        let src = &src[part.start * width..part.end * width];
        // SAFETY: the cast has the target to itself, and writes every byte.
        unsafe {
            bound.run(0, &Task::new(src, elements, len));
            written(elements)
        }
    }
}
