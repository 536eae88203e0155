//! Weights of MXFP4 as NVFP4, or as float8e4m3fn in blocks of rows and columns: where the powers of two of their blocks
//! do not lie too far apart.

use super::Count;
use super::global::in_file;
use crate::io::memory::resize;
use crate::io::positional::InputFile;
use crate::layouts::{Checkpoint, Weight};
use crate::pipeline::{Compute, Scratch, Trouble};
use DataType::{Float, Float4E2M1, Float8E4M3FN, Float8E8M0};
use onnx_cast::{BlockPlan, CastError, DataType, TensorView};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

/// Columns of a block of MXFP4.
const BLOCK: usize = 32;
/// Rows and columns of a block of float8.
const FLOAT8_BLOCK: usize = 128;
/// The exponent of the largest scale of NVFP4 that is a power of two, and of the least.
const LARGEST_SCALE: i32 = 8;
const LEAST_SCALE: i32 = -9;
/// A block's largest element, 6, is stored as 6 * 2^6 = 384, below the 448 that float8e4m3fn has.
const FLOAT8_SHIFT: i32 = 6;

fn no_room() -> Trouble {
    Trouble::Read(io::ErrorKind::OutOfMemory.into())
}

/// A weight of MXFP4 in a file, with the exponents of its scales once they are asked for.
pub(super) struct MxFp4<'a> {
    checkpoint: &'a Checkpoint,
    weight: &'a Weight,
    elements: (&'a InputFile, u64),
    scales: (&'a InputFile, u64),
    /// Rows of a matrix, and its columns.
    shape: [usize; 2],
    found: Mutex<Option<Arc<Exponents>>>,
}

impl<'a> MxFp4<'a> {
    pub(super) fn new(checkpoint: &'a Checkpoint, weight: &'a Weight) -> MxFp4<'a> {
        let (elements, scales) = (checkpoint.place(weight.tensor), checkpoint.place(weight.scales));
        MxFp4 { checkpoint, weight, elements, scales, shape: weight.matrix(), found: Mutex::new(None) }
    }

    /// How many scales a row has.
    fn across(&self) -> usize {
        self.shape[1] / BLOCK
    }

    /// Reads rows: their elements and their scales.
    fn read(&self, row: usize, rows: usize, scratch: &mut Scratch) -> Result<(), Trouble> {
        let [_, columns] = self.shape;
        resize(&mut scratch.elements, rows * columns / 2).ok_or_else(no_room)?;
        resize(&mut scratch.scales, rows * self.across()).ok_or_else(no_room)?;
        let (file, at) = self.elements;
        file.read_at(at + (row * columns / 2) as u64, &mut scratch.elements).map_err(Trouble::Read)?;
        let (file, at) = self.scales;
        file.read_at(at + (row * self.across()) as u64, &mut scratch.scales).map_err(Trouble::Read)
    }

    /// The exponents, which the first caller finds.
    fn found(&self) -> Result<Arc<Exponents>, Trouble> {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = found.as_ref() {
            return Ok(Arc::clone(found));
        }
        let read = Arc::new(Exponents::read(self)?);
        *found = Some(Arc::clone(&read));
        Ok(read)
    }

    /// Counts blocks whose scale is too small for one of float8e4m3fn.
    pub(super) fn lost_in_nvfp4(self: &Arc<Self>) -> Count<'a> {
        let weight = Arc::clone(self);
        Box::new(move || {
            let found = weight.found().map_err(|trouble| in_file(weight.checkpoint, weight.weight, trouble))?;
            Ok(found.lost_in_nvfp4())
        })
    }

    /// The global scale of NVFP4, or what is divided by. The largest scale becomes the largest power of two of
    /// float8e4m3fn.
    fn global(&self, divides: bool) -> Result<f32, Trouble> {
        let global = 2f64.powi(self.found()?.greatest() - LARGEST_SCALE) as f32;
        Ok(if divides { 1.0 / global } else { global })
    }
}

/// Exponents of the scales of a weight of MXFP4, of blocks that are not all zero.
struct Exponents {
    /// The greatest of each block of float8; `None` where all is zero.
    greatest: Vec<Option<i32>>,
    /// How many blocks of MXFP4 have each scale.
    counts: [u64; 256],
}

impl Exponents {
    fn read(weight: &MxFp4<'_>) -> Result<Exponents, Trouble> {
        let [rows, columns] = weight.shape;
        let across = columns.div_ceil(FLOAT8_BLOCK);
        let mut found = Exponents { greatest: Vec::new(), counts: [0; 256] };
        let mut scratch = Scratch::default();
        // Matrices stand one above the other. Those of experts do not become float8.
        let all = weight.weight.len() / columns.max(1);
        for (matrix, row) in (0..all)
            .step_by(rows.max(1))
            .flat_map(|matrix| (0..rows).step_by(FLOAT8_BLOCK).map(move |row| (matrix, row)))
        {
            weight.read(matrix + row, FLOAT8_BLOCK.min(rows - row), &mut scratch)?;
            let first = found.greatest.len();
            found.greatest.resize(first + across, None);
            for (index, block) in scratch.elements.chunks_exact(BLOCK / 2).enumerate() {
                if block.iter().any(|byte| byte & 0x77 != 0) {
                    let code = scratch.scales[index];
                    let greatest = &mut found.greatest[first + index % weight.across() * BLOCK / FLOAT8_BLOCK];
                    *greatest = (*greatest).max(Some(exponent(code)));
                    found.counts[usize::from(code)] += 1;
                }
            }
        }
        Ok(found)
    }

    /// The greatest exponent of the weight; 0 where all is zero.
    fn greatest(&self) -> i32 {
        self.greatest.iter().flatten().copied().max().unwrap_or(0)
    }

    fn lost_in_nvfp4(&self) -> u64 {
        let least = self.greatest() - LARGEST_SCALE + LEAST_SCALE;
        self.counts.iter().zip(0u8..=255).filter(|(_, code)| exponent(*code) < least).map(|(count, _)| count).sum()
    }

    /// The scales of float8 blocks in some rows of blocks.
    fn float8_scales(&self, blocks: std::ops::Range<usize>) -> Vec<u8> {
        let scale = |greatest: &Option<i32>| greatest.map_or(1.0, |greatest| 2f64.powi(greatest - FLOAT8_SHIFT) as f32);
        self.greatest[blocks].iter().flat_map(|greatest| scale(greatest).to_le_bytes()).collect()
    }
}

/// The exponent of a scale of float8e8m0.
fn exponent(code: u8) -> i32 {
    i32::from(code) - 127
}

/// The bytes of the elements, as they are.
pub(super) struct Bytes<'a>(pub(super) Arc<MxFp4<'a>>);

impl Compute for Bytes<'_> {
    fn compute(&self, start: usize, _: usize, _: &mut Scratch, out: &mut [u8]) -> Result<(), Trouble> {
        let (file, at) = self.0.elements;
        file.read_at(at + start as u64, out).map_err(Trouble::Read)
    }
}

/// The scales of NVFP4, two for each.
pub(super) struct NvFp4Scales<'a>(pub(super) Arc<MxFp4<'a>>);

impl Compute for NvFp4Scales<'_> {
    fn compute(&self, start: usize, len: usize, scratch: &mut Scratch, out: &mut [u8]) -> Result<(), Trouble> {
        let first = start / 2;
        let count = (start + len).div_ceil(2) - first;
        resize(&mut scratch.scales, count).ok_or_else(no_room)?;
        let (file, at) = self.0.scales;
        file.read_at(at + first as u64, &mut scratch.scales).map_err(Trouble::Read)?;
        let greatest = self.0.found()?.greatest();
        for (index, code) in (start..).zip(out.iter_mut()) {
            // A block of zeros may have any scale, so a scale out of range is only theirs.
            let power = exponent(scratch.scales[index / 2 - first]) - greatest + LARGEST_SCALE;
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
    fn compute(&self, _: usize, _: usize, _: &mut Scratch, out: &mut [u8]) -> Result<(), Trouble> {
        out.copy_from_slice(&self.weight.global(self.divides)?.to_le_bytes());
        Ok(())
    }
}

/// The scales of float8 blocks, as float.
pub(super) struct Float8Scales<'a>(pub(super) Arc<MxFp4<'a>>);

impl Compute for Float8Scales<'_> {
    fn compute(&self, start: usize, len: usize, _: &mut Scratch, out: &mut [u8]) -> Result<(), Trouble> {
        out.copy_from_slice(&self.0.found()?.float8_scales(start..start + len));
        Ok(())
    }
}

/// The elements as float8e4m3fn in blocks of rows and columns. The weight is one matrix.
pub(super) struct ToFloat8<'a>(pub(super) Arc<MxFp4<'a>>);

impl<'a> ToFloat8<'a> {
    /// The scales of a row of blocks.
    fn scales(&self, row: usize) -> Result<Vec<u8>, Trouble> {
        let across = self.0.shape[1].div_ceil(FLOAT8_BLOCK);
        let first = row / FLOAT8_BLOCK * across;
        Ok(self.0.found()?.float8_scales(first..first + across))
    }

    /// Computes rows of a row of blocks: as float, and as float8.
    fn rows(&self, row: usize, rows: usize, scratch: &mut Scratch, out: &mut [u8]) -> Result<(), Trouble> {
        let [_, columns] = self.0.shape;
        self.0.read(row, rows, scratch)?;
        let Scratch { elements, scales, results, .. } = scratch;
        resize(results, 4 * rows * columns).ok_or_else(no_room)?;
        let (shape, grid) = ([rows, columns], [rows, columns / BLOCK]);
        let bytes = self.scales(row)?;
        let mut run = || -> Result<(), CastError> {
            let plan = BlockPlan::dequantize(Float4E2M1, Float8E8M0, Float, [1, BLOCK])?;
            let scales = TensorView::new(Float8E8M0, &grid, scales)?;
            plan.bind(&shape, &scales, None)?.run_part(0, rows * columns, elements, results)?;
            let grid = [1, columns.div_ceil(FLOAT8_BLOCK)];
            let plan = BlockPlan::quantize(Float, Float, Float8E4M3FN, [FLOAT8_BLOCK, FLOAT8_BLOCK])?;
            let scales = TensorView::new(Float, &grid, &bytes)?;
            plan.bind(&shape, &scales, None)?.run_part(0, rows * columns, results, out)
        };
        run().map_err(Trouble::Cast)
    }

    /// Counts values that differ when they are read back.
    pub(super) fn changes(self) -> Count<'a> {
        let (checkpoint, weight) = (self.0.checkpoint, self.0.weight);
        Box::new(move || self.count_changes().map_err(|trouble| in_file(checkpoint, weight, trouble)))
    }

    fn count_changes(&self) -> Result<u64, Trouble> {
        let [rows, columns] = self.0.shape;
        let (mut scratch, mut codes, mut back, mut changes) = (Scratch::default(), Vec::new(), Vec::new(), 0);
        for row in (0..rows).step_by(FLOAT8_BLOCK) {
            let count = FLOAT8_BLOCK.min(rows - row);
            let len = count * columns;
            resize(&mut codes, len).and_then(|()| resize(&mut back, 4 * len)).ok_or_else(no_room)?;
            self.rows(row, count, &mut scratch, &mut codes)?;
            let bytes = self.scales(row)?;
            let mut run = || -> Result<(), CastError> {
                let grid = [1, columns.div_ceil(FLOAT8_BLOCK)];
                let plan = BlockPlan::dequantize(Float8E4M3FN, Float, Float, [FLOAT8_BLOCK, FLOAT8_BLOCK])?;
                let scales = TensorView::new(Float, &grid, &bytes)?;
                plan.bind(&[count, columns], &scales, None)?.run_part(0, len, &codes, &mut back)
            };
            run().map_err(Trouble::Cast)?;
            let pairs = back.as_chunks::<4>().0.iter().zip(scratch.results.as_chunks::<4>().0);
            changes += pairs.filter(|(back, value)| back != value).count() as u64;
        }
        Ok(changes)
    }
}

impl Compute for ToFloat8<'_> {
    fn compute(&self, start: usize, len: usize, scratch: &mut Scratch, out: &mut [u8]) -> Result<(), Trouble> {
        let [rows, columns] = self.0.shape;
        let (mut at, end, mut out) = (start, start + len, out);
        while at < end {
            let row = at / columns / FLOAT8_BLOCK * FLOAT8_BLOCK;
            let count = FLOAT8_BLOCK.min(rows - row);
            let (first, stop) = (row * columns, end.min((row + count) * columns));
            let mut codes = std::mem::take(&mut scratch.codes);
            resize(&mut codes, count * columns).ok_or_else(no_room)?;
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
