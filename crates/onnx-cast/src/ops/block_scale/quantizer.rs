//! Quantizes a tensor to a block format, a part at a time: the scales of its blocks, and then its elements, which are
//! still in the nearest cache.

use super::{BlockQuantize, layout};
use crate::arch::Backend;
use crate::element::{DataType, byte_len_of};
use crate::kernel::StoreHint;
use crate::kernel::scale::Scales;
use crate::ops::execute::{as_bytes, as_uninit, parts_for};
use crate::ops::scaled::tiles::{Job, Operand, floats};
use crate::ops::scaled::{Direction, ScaledPlan};
use crate::packed::clear;
use crate::scalar::block_scale::{BlockFormat, BlockScale, INT8_MAX, PowerOfTwo, Recipe};
use crate::scalar::with_default_float_environment;
use crate::tensor::TensorView;
use std::mem::MaybeUninit;

/// A tensor on its way to a block format.
pub(super) struct Quantizer<'a> {
    pub(super) quantize: &'a BlockQuantize,
    pub(super) from: DataType,
    pub(super) backend: Backend,
    /// NVFP4: the scale of the tensor.
    pub(super) global: f32,
    /// MX: how the scale of a block is found.
    pub(super) power: PowerOfTwo,
}

/// Elements that are quantized at a time: their blocks' scales are found while they are in the nearest cache.
const PART: usize = 2048;

impl Quantizer<'_> {
    /// The scale of a block, from the bits of its greatest magnitude.
    fn scale(&self, greatest: u32) -> BlockScale {
        let (format, greatest) = (self.quantize.format, f32::from_bits(greatest));
        if !greatest.is_finite() {
            return BlockScale { code: format.nan(), factor: 1.0 };
        }
        match format {
            BlockFormat::NvFp4 => self.quantize.recipe.block_scale(greatest, self.global, self.from),
            _ => self.power.scale(greatest),
        }
    }

    /// The plan of the elements, once the scales are known.
    fn plan(&self) -> ScaledPlan {
        let quantize = self.quantize;
        let is_product = quantize.format == BlockFormat::NvFp4 && quantize.recipe == Recipe::TorchAo;
        let direction = if is_product { Direction::Dequantize } else { Direction::Quantize };
        let range = (quantize.format == BlockFormat::MxInt8).then_some([-INT8_MAX, INT8_MAX]);
        ScaledPlan::of_blocks(direction, self.from, quantize.format.element(), range, quantize.backend, Some(1))
    }

    /// The scale of the tensor, of NVFP4.
    pub(super) fn global_scale(&self) -> Option<f32> {
        (self.quantize.format == BlockFormat::NvFp4).then_some(self.global)
    }

    /// Quantizes a tensor.
    pub(super) fn run(&self, x: &TensorView<'_>, elements: &mut [MaybeUninit<u8>], scales: &mut [MaybeUninit<u8>]) {
        let (src, len) = (x.bytes().unwrap_or_default(), x.len());
        let row = x.shape().last().copied().unwrap_or(1);
        let (block, plan) = (self.quantize.format.block(), self.plan());
        let part = Part { src, elements: as_bytes(elements), scales: as_bytes(scales), len };
        if row.is_multiple_of(block) {
            let parts = parts_for(src.len() + part.elements.len(), self.quantize.threads);
            return self.fork(part, &plan, parts);
        }
        // Rows end within blocks, and packed rows within bytes: first all scales, then all elements.
        let width = self.from.info().bits as usize / 8;
        let mut factors = Vec::with_capacity(4 * part.scales.len());
        let blocks = src.chunks(row.max(1) * width).flat_map(|row| row.chunks(block * width));
        let mut bad = Vec::new();
        with_default_float_environment(|| {
            for (i, (block, code)) in blocks.zip(part.scales.iter_mut()).enumerate() {
                let found = self.scale(greatest(self.backend, self.from, block, PART, &mut [[0; 4]]).sum());
                *code = found.code;
                factors.extend(found.factor.to_le_bytes());
                if self.is_nan(found.code) {
                    bad.push(i);
                }
            }
        });
        let scale = Operand::new(DataType::Float, &factors);
        let job = Job { plan: &plan, layout: layout(row, block), scale, zero_point: None };
        plan.execute(&job, src, len, as_uninit(part.elements));
        let blocks_in_row = row.div_ceil(block);
        for i in bad {
            let begin = i / blocks_in_row * row + i % blocks_in_row * block;
            let end = (begin + block).min((i / blocks_in_row + 1) * row);
            clear(part.elements, begin..end, self.quantize.format.element());
        }
    }

    fn is_nan(&self, code: u8) -> bool {
        code == self.quantize.format.nan()
    }

    /// Quantizes whole blocks on several threads.
    fn fork(&self, part: Part<'_>, plan: &ScaledPlan, parts: usize) {
        #[cfg(feature = "threads")]
        if parts > 1 {
            let low = (part.len / parts * (parts / 2)).next_multiple_of(PART).min(part.len);
            let (low, high) = part.split(low, self);
            rayon::join(|| self.fork(low, plan, parts / 2), || self.fork(high, plan, parts - parts / 2));
            return;
        }
        let _ = parts;
        with_default_float_environment(|| {
            let mut rest = part;
            while rest.len > PART {
                let (now, later) = rest.split(PART, self);
                self.part(now, plan);
                rest = later;
            }
            self.part(rest, plan);
        });
    }

    /// Quantizes a few whole blocks: their scales, and then their elements, which are still in the nearest cache.
    fn part(&self, part: Part<'_>, plan: &ScaledPlan) {
        const BLOCKS: usize = PART / 16;
        let block = self.quantize.format.block();
        let mut most = [[0; 4]; BLOCKS];
        let most = greatest(self.backend, self.from, part.src, block, &mut most);
        let mut factors = [0; 4 * BLOCKS];
        let mut has_nan = false;
        for ((factor, code), most) in factors.as_chunks_mut::<4>().0.iter_mut().zip(&mut *part.scales).zip(most) {
            let found = self.scale(most);
            (*factor, *code) = (found.factor.to_le_bytes(), found.code);
            has_nan |= self.is_nan(found.code);
        }
        let scale = Operand::new(DataType::Float, &factors[..4 * part.scales.len()]);
        let job = Job { plan, layout: layout(part.len, block), scale, zero_point: None };
        job.run(self.backend, 0, part.src, part.elements, part.len, StoreHint::Temporal);
        if has_nan {
            for (i, _) in part.scales.iter().enumerate().filter(|(_, code)| self.is_nan(**code)) {
                clear(part.elements, i * block..(i + 1) * block, self.quantize.format.element());
            }
        }
    }
}

/// Whole blocks of a tensor, and where their elements and scales go.
struct Part<'a> {
    src: &'a [u8],
    elements: &'a mut [u8],
    scales: &'a mut [u8],
    len: usize,
}

impl<'a> Part<'a> {
    /// Splits at an element that begins a part.
    fn split(self, at: usize, quantizer: &Quantizer<'_>) -> (Part<'a>, Part<'a>) {
        let format = quantizer.quantize.format;
        let (src, src_high) = self.src.split_at(byte_len_of(at, quantizer.from.info().bits as usize));
        let (elements, high) = self.elements.split_at_mut(byte_len_of(at, format.element().info().bits as usize));
        let (scales, scales_high) = self.scales.split_at_mut(at / format.block());
        let low = Part { src, elements, scales, len: at };
        (low, Part { src: src_high, elements: high, scales: scales_high, len: self.len - at })
    }
}

/// The greatest magnitudes of the blocks of at most a part, as bits of floats: NaN and infinity are above every number.
fn greatest<'a>(
    backend: Backend,
    from: DataType,
    src: &[u8],
    block: usize,
    most: &'a mut [[u8; 4]],
) -> impl Iterator<Item = u32> + use<'a> {
    let mut memory = [0; 4 * PART];
    let len = src.len() / (from.info().bits as usize / 8);
    let floats = floats(backend, from, src, &mut memory[..4 * len]);
    let most = &mut most[..len.div_ceil(block)];
    let scales = Scales { first: block, run: block, scales: &[], zero_points: None, range: [0.0; 2] };
    // SAFETY: a `Backend` exists only if this machine can run it.
    unsafe { (backend.table().scale.greatest)(floats, most.as_flattened_mut(), &scales) };
    most.iter().map(|bits| u32::from_le_bytes(*bits))
}

/// Raises limits to the greatest finite magnitudes of a row's runs of `run` elements.
pub(super) fn greatest_of_runs(from: DataType, row: &[u8], run: usize, limits: &mut [f32]) {
    let (backend, width) = (Backend::best(), from.info().bits as usize / 8);
    // A run that is longer than a part is seen part by part.
    let (piece, step) = (run.min(PART), if run < PART { PART / run * run } else { PART });
    let mut most = [[0; 4]; PART];
    for (bytes, begin) in row.chunks(step * width).zip((0..).step_by(step)) {
        // The kernel takes whole runs; the last of a row may be shorter.
        let (whole, short) = bytes.split_at(bytes.len() / (piece * width) * piece * width);
        for (bytes, begin, piece) in [(whole, begin, piece), (short, begin + whole.len() / width, PART)] {
            let found = greatest(backend, from, bytes, piece, &mut most);
            for (value, at) in found.map(f32::from_bits).zip((0..).step_by(piece)) {
                let limit = &mut limits[(begin + at) / run];
                let value = if value.is_finite() {
                    value
                } else {
                    greatest_finite(backend, from, &bytes[at * width..bytes.len().min((at + piece) * width)])
                };
                *limit = limit.max(value);
            }
        }
    }
}

/// The greatest finite magnitude of a tensor.
pub(super) fn greatest_finite(backend: Backend, from: DataType, src: &[u8]) -> f32 {
    let width = from.info().bits as usize / 8;
    let mut finite = 0f32;
    for src in src.chunks(PART * width) {
        // Where a part has NaN or infinity, its elements are asked one by one.
        for block in [PART, 1] {
            let mut most = [[0; 4]; PART];
            let mut is_finite = true;
            for value in greatest(backend, from, src, block, &mut most).map(f32::from_bits) {
                is_finite &= value.is_finite();
                finite = finite.max(if value.is_finite() { value } else { 0.0 });
            }
            if is_finite {
                break;
            }
        }
    }
    finite
}
