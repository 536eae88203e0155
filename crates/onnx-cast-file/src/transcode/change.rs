//! A weight in another layout: the same elements under other names, or those of MXFP4 as NVFP4 or float8. That no value
//! changes is found out here, before anything is written.

use crate::error::FileError;
use crate::io::memory::resize;
use crate::io::positional::InputFile;
use crate::layouts::{Checkpoint, StoredAs, TensorRef, Values, Weight};
use crate::pipeline::{Compute, Scratch, Trouble};
use crate::quantize::layout::Chosen;
use crate::quantize::{Granularity, QuantizedFormat};
use crate::rewrite::{Computed, Origin, Row};
use crate::summary::TensorSummary;
use DataType::{Float, Float4E2M1, Float8E4M3FN, Float8E5M2, Float8E8M0};
use onnx_cast::{
    BlockFormat, BlockPlan, Cast, CastError, CastOptions, DataType, GlobalScale, TensorView, element_count,
};
use std::io;
use std::sync::Arc;

/// Why a weight is not transcoded.
pub(super) enum Problem {
    /// So many values would change.
    Changes(u64),
    File(FileError),
}

/// The format of a weight, and what has a scale; `None` of what is not transcoded. `block` is that of the
/// configuration, which may be larger than the weight.
pub(super) fn format_of(weight: &Weight, block: Option<[usize; 2]>) -> Option<(QuantizedFormat, Granularity)> {
    let StoredAs::Plain(element) = weight.elements else { return None };
    if weight.transposed || weight.values.len() != 2 || weight.zero_points.is_some() || weight.groups.is_some() {
        return None;
    }
    let is_format = |format: &&BlockFormat| {
        (format.element(), format.scale()) == (element, weight.scale_type) && weight.block == [1, format.block()]
    };
    if let Some(format) = BlockFormat::ALL.iter().find(is_format) {
        return Some((QuantizedFormat::Block(*format), Granularity::Block(weight.block)));
    }
    let [rows, columns] = weight.matrix();
    let inside = |block: &[usize; 2]| [block[0].min(rows.max(1)), block[1].min(columns.max(1))] == weight.block;
    let granularity = match weight.block {
        _ if block.as_ref().is_some_and(inside) => Granularity::Block(block?),
        block if block == [rows.max(1), columns.max(1)] => Granularity::Tensor,
        [1, block] if block == columns => Granularity::Axis,
        block => Granularity::Block(block),
    };
    matches!(element, Float8E4M3FN | Float8E5M2).then_some((QuantizedFormat::Elements(element), granularity))
}

/// The rows of a weight in another layout.
pub(super) fn rows<'a>(
    checkpoint: &'a Checkpoint,
    weight: &'a Weight,
    from: QuantizedFormat,
    chosen: &Chosen,
) -> Result<Vec<Row<'a>>, Problem> {
    let bits = |data_type: DataType| data_type.bits().unwrap_or(8);
    let element = match chosen.to {
        QuantizedFormat::Block(format) => format.element(),
        QuantizedFormat::Elements(data_type) => data_type,
    };
    let row = |name: &str, shape: Vec<usize>, to: DataType, tensor: TensorRef, origin: Origin<'a>| {
        let bytes_after = element_count(&shape).and_then(|len| to.byte_len(len)).unwrap_or(0) as u64;
        let bytes_before = checkpoint.byte_len(tensor);
        let from = checkpoint.stored(tensor).data_type;
        let kept = TensorSummary::kept(name, shape, from, bytes_before);
        Row { summary: TensorSummary { to, bytes_after, cast: true, ..kept }, tensor, origin }
    };
    let computed = |source: Box<dyn Compute + 'a>, data_type: DataType| {
        Origin::Computed(Box::new(Computed { source, data_type, cast: None, counter: None }))
    };
    let shape = chosen.elements_shape(bits(element));
    let elements = |origin| row(&chosen.elements, shape, chosen.container, weight.tensor, origin);
    let scales = |origin, container| {
        let shape = chosen.scales_shape();
        row(&chosen.scales, shape, container, weight.scales, origin)
    };
    if from == chosen.to {
        let stored = checkpoint.stored(weight.scales).data_type;
        let spread = Scales::new(checkpoint, weight, chosen);
        let container =
            if stored == DataType::BFloat16 && chosen.keeps_scale_type { stored } else { chosen.scale_container };
        let is_kept = spread.is_same_grid() && bits(stored) == bits(container);
        let origin = if is_kept { Origin::Kept } else { computed(Box::new(spread), container) };
        let mut all = vec![elements(Origin::Kept), scales(origin, container)];
        if let (Some(tensor), Some((name, shape)), Some(global)) =
            (weight.global, &chosen.global, weight.globals.first())
        {
            let bytes = global_as(checkpoint, weight, *global, chosen)?;
            all.push(row(name, shape.clone(), Float, tensor, Origin::Bytes(bytes.to_le_bytes().to_vec())));
        }
        return Ok(all);
    }
    let found = Arc::new(Exponents::read(checkpoint, weight)?);
    if let (QuantizedFormat::Block(_), Some((name, shape))) = (chosen.to, &chosen.global) {
        // The largest scale becomes the largest power of two of float8e4m3fn.
        let global = 2f64.powi(found.greatest() - LARGEST_SCALE) as f32;
        let global = if chosen.divides { 1.0 / global } else { global };
        let source = ToNvFp4 { weight: Source::new(checkpoint, weight), found: Arc::clone(&found) };
        return match found.lost_in_nvfp4() {
            0 => Ok(vec![
                elements(Origin::Kept),
                scales(computed(Box::new(source), Float8E4M3FN), Float8E4M3FN),
                row(name, shape.clone(), Float, weight.scales, Origin::Bytes(global.to_le_bytes().to_vec())),
            ]),
            blocks => Err(Problem::Changes(blocks)),
        };
    }
    let to_float8 = ToFloat8 { weight: Source::new(checkpoint, weight), found: Arc::clone(&found) };
    match to_float8.count_changes().map_err(|trouble| in_file(checkpoint, weight, trouble))? {
        0 => {
            let floats = found.float8_scales().into_iter().flat_map(f32::to_le_bytes).collect();
            let scales = scales(Origin::Bytes(floats), Float);
            Ok(vec![elements(computed(Box::new(to_float8), Float8E4M3FN)), scales])
        }
        values => Err(Problem::Changes(values)),
    }
}

fn in_file(checkpoint: &Checkpoint, weight: &Weight, trouble: Trouble) -> Problem {
    let path = checkpoint.files[weight.tensor.file].path();
    Problem::File(match trouble {
        Trouble::Read(error) | Trouble::Write(error) => FileError::io(path, "read", error),
        Trouble::Cast(error) => FileError::cast(path, &weight.name, error),
        Trouble::Stopped => FileError::Stopped { path: path.to_owned() },
    })
}

fn no_room() -> Trouble {
    Trouble::Read(io::ErrorKind::OutOfMemory.into())
}

/// The global scale as a layout has it. A reciprocal may differ in its last bit, so all values are compared.
fn global_as(checkpoint: &Checkpoint, weight: &Weight, global: GlobalScale, chosen: &Chosen) -> Result<f32, Problem> {
    let (value, changed) = match (global, chosen.divides) {
        (GlobalScale::Factor(factor), false) => return Ok(factor),
        (GlobalScale::Divisor(divisor), true) => return Ok(divisor),
        (GlobalScale::Factor(factor), true) => (1.0 / factor, GlobalScale::Divisor(1.0 / factor)),
        (GlobalScale::Divisor(divisor), false) => (1.0 / divisor, GlobalScale::Factor(1.0 / divisor)),
    };
    let other = Weight { globals: vec![changed], ..weight.clone() };
    let compare = || -> Result<u64, Trouble> {
        let old = Values::new(checkpoint, weight, DataType::BFloat16)?;
        let new = Values::new(checkpoint, &other, DataType::BFloat16)?;
        let (mut scratch, mut before, mut after) = (Scratch::default(), Vec::new(), Vec::new());
        let (mut at, mut changes) = (0, 0);
        while at < weight.len() {
            let len = old.chunk().min(weight.len() - at);
            resize(&mut before, 2 * len).and_then(|()| resize(&mut after, 2 * len)).ok_or_else(no_room)?;
            old.compute(at, len, &mut scratch, &mut before)?;
            new.compute(at, len, &mut scratch, &mut after)?;
            let pairs = before.as_chunks::<2>().0.iter().zip(after.as_chunks::<2>().0);
            changes += pairs.filter(|(before, after)| before != after).count() as u64;
            at += len;
        }
        Ok(changes)
    };
    match compare().map_err(|trouble| in_file(checkpoint, weight, trouble))? {
        0 => Ok(value),
        changes => Err(Problem::Changes(changes)),
    }
}

/// The scales of a weight for blocks as large, or smaller, in another type that holds them.
struct Scales<'a> {
    file: &'a InputFile,
    at: u64,
    from: DataType,
    /// How many scales a row has, before and after.
    across: [usize; 2],
    /// Blocks of the old grid in elements, and of the new.
    blocks: [[usize; 2]; 2],
    to: DataType,
    /// Whether the new grid is the old one.
    is_same: bool,
}

impl<'a> Scales<'a> {
    fn new(checkpoint: &'a Checkpoint, weight: &Weight, chosen: &Chosen) -> Scales<'a> {
        let (file, at) = checkpoint.place(weight.scales);
        let across = [weight.grid()[1], weight.matrix()[1].div_ceil(chosen.block[1])];
        let blocks = [weight.block, chosen.block];
        let [rows, columns] = weight.matrix();
        let is_same = weight.grid() == [rows.div_ceil(chosen.block[0]), columns.div_ceil(chosen.block[1])];
        Scales { file, at, from: weight.scale_type, across, blocks, to: chosen.scale_container, is_same }
    }

    fn is_same_grid(&self) -> bool {
        self.is_same
    }
}

impl Compute for Scales<'_> {
    fn compute(&self, start: usize, len: usize, scratch: &mut Scratch, out: &mut [u8]) -> Result<(), Trouble> {
        let size = self.from.byte_len(1).unwrap_or(1);
        resize(&mut scratch.scales, len * size).ok_or_else(no_room)?;
        let [old, new] = self.blocks;
        for (index, bytes) in (start..).zip(scratch.scales.chunks_exact_mut(size)) {
            let (row, column) = (index / self.across[1] * new[0], index % self.across[1] * new[1]);
            let place = row / old[0] * self.across[0] + column / old[1];
            self.file.read_at(self.at + (place * size) as u64, bytes).map_err(Trouble::Read)?;
        }
        cast(self.from, &scratch.scales, self.to, len, out).map_err(Trouble::Cast)
    }
}

/// Casts elements without loss.
fn cast(from: DataType, bytes: &[u8], to: DataType, len: usize, out: &mut [u8]) -> Result<(), CastError> {
    if from == to || to == DataType::Uint8 {
        out.copy_from_slice(bytes);
        return Ok(());
    }
    let plan = Cast::new(to, &CastOptions::new().threads(1))?.plan(from)?;
    plan.run_into(&TensorView::new(from, &[len], bytes)?, out)
}

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
struct Source<'a> {
    elements: (&'a InputFile, u64),
    scales: (&'a InputFile, u64),
    shape: [usize; 2],
}

impl<'a> Source<'a> {
    fn new(checkpoint: &'a Checkpoint, weight: &Weight) -> Source<'a> {
        let (elements, scales) = (checkpoint.place(weight.tensor), checkpoint.place(weight.scales));
        Source { elements, scales, shape: weight.matrix() }
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
}

/// Exponents of the scales of a weight of MXFP4, of blocks that are not all zero.
struct Exponents {
    /// The greatest of each block of float8; `None` where all is zero.
    greatest: Vec<Option<i32>>,
    /// How many blocks of MXFP4 have each scale.
    counts: [u64; 256],
}

impl Exponents {
    fn read(checkpoint: &Checkpoint, weight: &Weight) -> Result<Exponents, Problem> {
        let source = Source::new(checkpoint, weight);
        let [rows, columns] = source.shape;
        let across = columns.div_ceil(FLOAT8_BLOCK);
        let mut found = Exponents { greatest: Vec::new(), counts: [0; 256] };
        let mut scratch = Scratch::default();
        for row in (0..rows).step_by(FLOAT8_BLOCK) {
            let count = FLOAT8_BLOCK.min(rows - row);
            source.read(row, count, &mut scratch).map_err(|trouble| in_file(checkpoint, weight, trouble))?;
            let first = found.greatest.len();
            found.greatest.resize(first + across, None);
            for (index, block) in scratch.elements.chunks_exact(BLOCK / 2).enumerate() {
                if block.iter().any(|byte| byte & 0x77 != 0) {
                    let code = scratch.scales[index];
                    let greatest = &mut found.greatest[first + index % source.across() * BLOCK / FLOAT8_BLOCK];
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

    /// Blocks whose scale is too small for one of float8e4m3fn.
    fn lost_in_nvfp4(&self) -> u64 {
        let least = self.greatest() - LARGEST_SCALE + LEAST_SCALE;
        self.counts.iter().zip(0u8..=255).filter(|(_, code)| exponent(*code) < least).map(|(count, _)| count).sum()
    }

    /// The scales of float8 blocks.
    fn float8_scales(&self) -> Vec<f32> {
        let scale = |greatest: &Option<i32>| greatest.map_or(1.0, |greatest| 2f64.powi(greatest - FLOAT8_SHIFT) as f32);
        self.greatest.iter().map(scale).collect()
    }
}

/// The exponent of a scale of float8e8m0.
fn exponent(code: u8) -> i32 {
    i32::from(code) - 127
}

/// The scales of NVFP4 for a weight of MXFP4, two for each.
struct ToNvFp4<'a> {
    weight: Source<'a>,
    found: Arc<Exponents>,
}

impl Compute for ToNvFp4<'_> {
    fn compute(&self, start: usize, len: usize, scratch: &mut Scratch, out: &mut [u8]) -> Result<(), Trouble> {
        let first = start / 2;
        let count = (start + len).div_ceil(2) - first;
        resize(&mut scratch.scales, count).ok_or_else(no_room)?;
        let (file, at) = self.weight.scales;
        file.read_at(at + first as u64, &mut scratch.scales).map_err(Trouble::Read)?;
        let greatest = self.found.greatest();
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

/// A weight of MXFP4 as float8e4m3fn in blocks of rows and columns.
struct ToFloat8<'a> {
    weight: Source<'a>,
    found: Arc<Exponents>,
}

impl ToFloat8<'_> {
    /// Computes rows of a row of blocks: as float, and as float8.
    fn rows(&self, row: usize, rows: usize, scratch: &mut Scratch, out: &mut [u8]) -> Result<(), Trouble> {
        let [_, columns] = self.weight.shape;
        self.weight.read(row, rows, scratch)?;
        let Scratch { elements, scales, results, .. } = scratch;
        resize(results, 4 * rows * columns).ok_or_else(no_room)?;
        let (shape, grid) = ([rows, columns], [rows, columns / BLOCK]);
        let mut run = || -> Result<(), CastError> {
            let plan = BlockPlan::dequantize(Float4E2M1, Float8E8M0, Float, [1, BLOCK])?;
            let scales = TensorView::new(Float8E8M0, &grid, scales)?;
            plan.bind(&shape, &scales, None)?.run_part(0, rows * columns, elements, results)?;
            let (across, all) = (columns.div_ceil(FLOAT8_BLOCK), self.found.float8_scales());
            let block = &all[row / FLOAT8_BLOCK * across..][..across];
            let bytes: Vec<u8> = block.iter().flat_map(|scale| scale.to_le_bytes()).collect();
            let grid = [1, across];
            let plan = BlockPlan::quantize(Float, Float, Float8E4M3FN, [FLOAT8_BLOCK, FLOAT8_BLOCK])?;
            let scales = TensorView::new(Float, &grid, &bytes)?;
            plan.bind(&shape, &scales, None)?.run_part(0, rows * columns, results, out)
        };
        run().map_err(Trouble::Cast)
    }

    /// How many values differ when they are read back.
    fn count_changes(&self) -> Result<u64, Trouble> {
        let [rows, columns] = self.weight.shape;
        let (mut scratch, mut codes, mut back, mut changes) = (Scratch::default(), Vec::new(), Vec::new(), 0);
        let all = self.found.float8_scales();
        for row in (0..rows).step_by(FLOAT8_BLOCK) {
            let count = FLOAT8_BLOCK.min(rows - row);
            let len = count * columns;
            resize(&mut codes, len).and_then(|()| resize(&mut back, 4 * len)).ok_or_else(no_room)?;
            self.rows(row, count, &mut scratch, &mut codes)?;
            let across = columns.div_ceil(FLOAT8_BLOCK);
            let block = &all[row / FLOAT8_BLOCK * across..][..across];
            let bytes: Vec<u8> = block.iter().flat_map(|scale| scale.to_le_bytes()).collect();
            let mut run = || -> Result<(), CastError> {
                let grid = [1, across];
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
        let [rows, columns] = self.weight.shape;
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
        let band = FLOAT8_BLOCK * self.weight.shape[1];
        (1usize << 18).div_ceil(band.max(1)) * band
    }
}
