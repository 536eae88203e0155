//! Weights of MXFP4 as NVFP4, or as float8e4m3fn in blocks of rows and columns: where the powers of two of their blocks
//! do not lie too far apart.

use super::changes::Count;
use crate::checkpoint::Checkpoint;
use crate::io::memory::resize;
use crate::io::positional::InputFile;
use crate::layouts::Weight;
use crate::pipeline::{Compute, PipelineError, Scratch};
use DataType::{Float, Float4E2M1, Float8E4M3FN, Float8E8M0};
use onnx_cast::scaled::BlockPlan;
use onnx_cast::{CastError, DataType, TensorView};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Columns of a block of MXFP4.
const BLOCK: usize = 32;
/// Rows and columns of a block of float8.
const FLOAT8_BLOCK: usize = 128;
/// The exponent of the largest scale of NVFP4 that is a power of two, and of the least.
const LARGEST_SCALE: i32 = 8;
const LEAST_SCALE: i32 = -9;
/// A block's largest element, 6, is stored as 6 * 2^6 = 384, below the 448 that float8e4m3fn has.
const FLOAT8_SHIFT: i32 = 6;

/// A weight of MXFP4 in a file.
pub(super) struct MxFp4<'a> {
    elements: (&'a InputFile, u64),
    scales: (&'a InputFile, u64),
    /// Rows of a matrix, and its columns.
    shape: [usize; 2],
    /// Elements of all matrices.
    len: usize,
    /// How many blocks that are not all zero have each scale, once [`ScaleCounts`] has been computed.
    counts: [AtomicU64; 256],
}

impl<'a> MxFp4<'a> {
    pub(super) fn new(checkpoint: &'a Checkpoint, weight: &Weight) -> MxFp4<'a> {
        let (elements, scales) = (checkpoint.place(weight.codes.tensor), checkpoint.place(weight.scales.tensor));
        let counts = [const { AtomicU64::new(0) }; 256];
        MxFp4 { elements, scales, shape: weight.matrix(), len: weight.len(), counts }
    }

    /// How many scales a row has.
    fn across(&self) -> usize {
        self.shape[1] / BLOCK
    }

    /// How many scales a row has as float8.
    fn float8_across(&self) -> usize {
        self.shape[1].div_ceil(FLOAT8_BLOCK)
    }

    /// Reads rows: their elements and their scales.
    fn read(&self, row: usize, rows: usize, scratch: &mut Scratch) -> Result<(), PipelineError> {
        let [_, columns] = self.shape;
        resize(&mut scratch.elements, rows * columns / 2).ok_or_else(PipelineError::out_of_memory)?;
        resize(&mut scratch.scales, rows * self.across()).ok_or_else(PipelineError::out_of_memory)?;
        let (file, at) = self.elements;
        file.read_at(at + (row * columns / 2) as u64, &mut scratch.elements).map_err(PipelineError::Read)?;
        let (file, at) = self.scales;
        file.read_at(at + (row * self.across()) as u64, &mut scratch.scales).map_err(PipelineError::Read)
    }

    /// Computes the float8 scales of the rows in `scratch`, which form one row of float8 blocks. Each scale is derived
    /// from the largest exponent in its block. MXFP4 blocks of zeros are ignored.
    fn float8_scales(&self, scratch: &Scratch) -> Vec<u8> {
        let mut amax = vec![None; self.float8_across()];
        for (index, (block, code)) in scratch.elements.chunks_exact(BLOCK / 2).zip(&scratch.scales).enumerate() {
            if !is_zero(block) {
                let amax = &mut amax[index % self.across() * BLOCK / FLOAT8_BLOCK];
                *amax = (*amax).max(Some(exponent(*code)));
            }
        }
        let scale = |amax: Option<i32>| amax.map_or(1.0, |amax| 2f64.powi(amax - FLOAT8_SHIFT) as f32);
        amax.into_iter().flat_map(|amax| scale(amax).to_le_bytes()).collect()
    }

    /// Returns the largest exponent of the weight, or 0 if all elements are 0.
    fn amax(&self) -> i32 {
        let amax = (0u8..=255).rev().find(|code| self.counts[usize::from(*code)].load(Ordering::Relaxed) > 0);
        amax.map_or(0, exponent)
    }

    /// The global scale of NVFP4, or what is divided by. The largest scale becomes the largest power of two of
    /// float8e4m3fn.
    fn global(&self, divides: bool) -> f32 {
        let global = 2f64.powi(self.amax() - LARGEST_SCALE) as f32;
        if divides { 1.0 / global } else { global }
    }
}

/// Whether all elements of a block are zero, of either sign.
fn is_zero(block: &[u8]) -> bool {
    block.iter().all(|byte| byte & 0x77 == 0)
}

/// Counts the scales of a weight; those too small for one of float8e4m3fn change their blocks.
pub(super) struct ScaleCounts<'a>(pub(super) Arc<MxFp4<'a>>);

impl Compute for ScaleCounts<'_> {
    /// Reads bytes of elements; parts begin with a block.
    fn compute(&self, start: usize, len: usize, scratch: &mut Scratch, out: &mut [u8]) -> Result<(), PipelineError> {
        const BYTES: usize = BLOCK / 2;
        let MxFp4 { elements, scales, counts, .. } = &*self.0;
        resize(&mut scratch.scales, len / BYTES).ok_or_else(PipelineError::out_of_memory)?;
        elements.0.read_at(elements.1 + start as u64, out).map_err(PipelineError::Read)?;
        scales.0.read_at(scales.1 + (start / BYTES) as u64, &mut scratch.scales).map_err(PipelineError::Read)?;
        let mut found = [0; 256];
        let blocks = out.chunks_exact(BYTES).zip(&scratch.scales);
        blocks.filter(|(block, _)| !is_zero(block)).for_each(|(_, code)| found[usize::from(*code)] += 1);
        counts.iter().zip(found).for_each(|(count, found)| _ = count.fetch_add(found, Ordering::Relaxed));
        Ok(())
    }
}

impl Count for ScaleCounts<'_> {
    fn elements(&self) -> (DataType, usize) {
        (DataType::Uint8, self.0.len / 2)
    }

    fn count(&self) -> u64 {
        let least = self.0.amax() - LARGEST_SCALE + LEAST_SCALE;
        let lost = self.0.counts.iter().zip(0u8..=255).filter(|(_, code)| exponent(*code) < least);
        lost.map(|(count, _)| count.load(Ordering::Relaxed)).sum()
    }
}

/// The exponent of a scale of float8e8m0.
fn exponent(code: u8) -> i32 {
    i32::from(code) - 127
}

/// The bytes of the elements, as they are.
pub(super) struct Bytes<'a>(pub(super) Arc<MxFp4<'a>>);

impl Compute for Bytes<'_> {
    fn compute(&self, start: usize, _: usize, _: &mut Scratch, out: &mut [u8]) -> Result<(), PipelineError> {
        let (file, at) = self.0.elements;
        file.read_at(at + start as u64, out).map_err(PipelineError::Read)
    }
}

/// The scales of NVFP4, two for each.
pub(super) struct NvFp4Scales<'a>(pub(super) Arc<MxFp4<'a>>);

impl Compute for NvFp4Scales<'_> {
    fn compute(&self, start: usize, len: usize, scratch: &mut Scratch, out: &mut [u8]) -> Result<(), PipelineError> {
        let first = start / 2;
        let count = (start + len).div_ceil(2) - first;
        resize(&mut scratch.scales, count).ok_or_else(PipelineError::out_of_memory)?;
        let (file, at) = self.0.scales;
        file.read_at(at + first as u64, &mut scratch.scales).map_err(PipelineError::Read)?;
        let amax = self.0.amax();
        for (index, code) in (start..).zip(out.iter_mut()) {
            // A block of zeros may have any scale, so a scale out of range is only theirs.
            let power = exponent(scratch.scales[index / 2 - first]) - amax + LARGEST_SCALE;
            let power = power.clamp(LEAST_SCALE, LARGEST_SCALE);
            // Below 2^-6 powers of two are subnormal.
            *code = if power >= -6 { ((power + 7) as u8) << 3 } else { 1 << (power - LEAST_SCALE) };
        }
        Ok(())
    }
}

/// The global scale of NVFP4, or what is divided by.
pub(super) struct NvFp4Global<'a> {
    pub(super) weight: Arc<MxFp4<'a>>,
    pub(super) divides: bool,
}

impl Compute for NvFp4Global<'_> {
    fn compute(&self, _: usize, _: usize, _: &mut Scratch, out: &mut [u8]) -> Result<(), PipelineError> {
        out.copy_from_slice(&self.weight.global(self.divides).to_le_bytes());
        Ok(())
    }
}

/// The scales of float8 blocks, as float.
pub(super) struct Float8Scales<'a>(pub(super) Arc<MxFp4<'a>>);

impl Compute for Float8Scales<'_> {
    fn compute(&self, start: usize, len: usize, scratch: &mut Scratch, out: &mut [u8]) -> Result<(), PipelineError> {
        let ([rows, _], across) = (self.0.shape, self.0.float8_across());
        let (mut at, end, mut out) = (start, start + len, out);
        while at < end {
            let (band, first) = (at / across, at % across);
            let row = band * FLOAT8_BLOCK;
            self.0.read(row, FLOAT8_BLOCK.min(rows - row), scratch)?;
            let count = (across - first).min(end - at);
            let (part, behind) = out.split_at_mut(4 * count);
            part.copy_from_slice(&self.0.float8_scales(scratch)[4 * first..4 * (first + count)]);
            (at, out) = (at + count, behind);
        }
        Ok(())
    }

    fn chunk(&self) -> usize {
        8 * self.0.float8_across().max(1)
    }
}

/// The elements as float8e4m3fn in blocks of rows and columns. The weight is one matrix.
pub(super) struct ToFloat8<'a>(pub(super) Arc<MxFp4<'a>>);

impl ToFloat8<'_> {
    /// Computes rows of a row of blocks: as float, and as float8. Returns their scales.
    fn rows(&self, row: usize, rows: usize, scratch: &mut Scratch, out: &mut [u8]) -> Result<Vec<u8>, PipelineError> {
        let [_, columns] = self.0.shape;
        self.0.read(row, rows, scratch)?;
        let bytes = self.0.float8_scales(scratch);
        let Scratch { elements, scales, results, .. } = scratch;
        resize(results, 4 * rows * columns).ok_or_else(PipelineError::out_of_memory)?;
        let (shape, grid) = ([rows, columns], [rows, columns / BLOCK]);
        let mut run = || -> Result<(), CastError> {
            let plan = BlockPlan::dequantize(Float4E2M1, Float8E8M0, Float, [1, BLOCK])?;
            let scales = TensorView::new(Float8E8M0, &grid, scales)?;
            plan.bind(&shape, &scales, None)?.run_part(0, rows * columns, elements, results)?;
            let grid = [1, columns.div_ceil(FLOAT8_BLOCK)];
            let plan = BlockPlan::quantize(Float, Float, Float8E4M3FN, [FLOAT8_BLOCK, FLOAT8_BLOCK])?;
            let scales = TensorView::new(Float, &grid, &bytes)?;
            plan.bind(&shape, &scales, None)?.run_part(0, rows * columns, results, out)
        };
        run().map_err(PipelineError::Cast)?;
        Ok(bytes)
    }
}

/// Counts values that differ when they are read back from float8.
pub(super) struct Float8Changes<'a> {
    to: ToFloat8<'a>,
    changes: AtomicU64,
}

impl<'a> Float8Changes<'a> {
    pub(super) fn new(weight: Arc<MxFp4<'a>>) -> Self {
        Float8Changes { to: ToFloat8(weight), changes: AtomicU64::new(0) }
    }
}

impl Compute for Float8Changes<'_> {
    /// Parts begin with a row of blocks.
    fn compute(&self, start: usize, len: usize, scratch: &mut Scratch, out: &mut [u8]) -> Result<(), PipelineError> {
        let [rows, columns] = self.to.0.shape;
        let mut changes = 0;
        let bands = out[..len].chunks_mut(FLOAT8_BLOCK * columns.max(1));
        for (row, codes) in (start / columns.max(1)..rows).step_by(FLOAT8_BLOCK).zip(bands) {
            let (count, len) = (codes.len() / columns, codes.len());
            let bytes = self.to.rows(row, count, scratch, codes)?;
            let mut back = std::mem::take(&mut scratch.codes);
            resize(&mut back, 4 * len).ok_or_else(PipelineError::out_of_memory)?;
            let mut run = || -> Result<(), CastError> {
                let grid = [1, columns.div_ceil(FLOAT8_BLOCK)];
                let plan = BlockPlan::dequantize(Float8E4M3FN, Float, Float, [FLOAT8_BLOCK, FLOAT8_BLOCK])?;
                let scales = TensorView::new(Float, &grid, &bytes)?;
                plan.bind(&[count, columns], &scales, None)?.run_part(0, len, codes, &mut back)
            };
            run().map_err(PipelineError::Cast)?;
            let pairs = back.as_chunks::<4>().0.iter().zip(scratch.results.as_chunks::<4>().0);
            changes += pairs.filter(|(back, value)| back != value).count() as u64;
            scratch.codes = back;
        }
        self.changes.fetch_add(changes, Ordering::Relaxed);
        Ok(())
    }

    fn chunk(&self) -> usize {
        self.to.chunk()
    }
}

impl Count for Float8Changes<'_> {
    fn elements(&self) -> (DataType, usize) {
        (Float8E4M3FN, self.to.0.len)
    }

    fn count(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }
}

impl Compute for ToFloat8<'_> {
    fn compute(&self, start: usize, len: usize, scratch: &mut Scratch, out: &mut [u8]) -> Result<(), PipelineError> {
        let [rows, columns] = self.0.shape;
        let (mut at, end, mut out) = (start, start + len, out);
        while at < end {
            let row = at / columns / FLOAT8_BLOCK * FLOAT8_BLOCK;
            let count = FLOAT8_BLOCK.min(rows - row);
            let (first, stop) = (row * columns, end.min((row + count) * columns));
            let mut codes = std::mem::take(&mut scratch.codes);
            resize(&mut codes, count * columns).ok_or_else(PipelineError::out_of_memory)?;
            self.rows(row, count, scratch, &mut codes)?;
            let (part, behind) = out.split_at_mut(stop - at);
            part.copy_from_slice(&codes[at - first..stop - first]);
            scratch.codes = codes;
            (at, out) = (stop, behind);
        }
        Ok(())
    }

    fn chunk(&self) -> usize {
        let band = FLOAT8_BLOCK * self.0.shape[1];
        (1usize << 18).div_ceil(band.max(1)) * band
    }
}
