//! Quantizes a tensor to a block format, a part at a time: the scales of its blocks, and then its elements, which are
//! still in the nearest cache.

mod rows;

use super::BlockQuantize;
use crate::arch::Backend;
use crate::element::{DataType, Float16, byte_len_of};
use crate::kernel::scale::ManyQuantities;
use crate::kernel::{StoreHint, Task};
use crate::ops::scaled::tiles::cast;
use crate::ops::scaled::{Direction, ScaledPlan};
use crate::packed::{Out, clear, written};
use crate::parts::{Divide, Elements, in_parts, parts_for};
use crate::scalar::block_scale::{BlockFormat, INT8_MAX, PowerOfTwo, Recipe};
use crate::scalar::with_default_float_environment;
use crate::tensor::TensorView;
use core::mem::MaybeUninit;
use rows::Rows;

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
const PART: usize = 4096;

/// The most blocks of a part.
pub(super) const BLOCKS: usize = PART / 16;

/// Scratch space for one part: the largest magnitude of each block, the factor by which its elements are multiplied or
/// divided, and the quantities that kernels derive from the factors.
struct Memory<'a> {
    amax: &'a mut [u32],
    factors: &'a mut [[u8; 4]],
    // Apart from the others: the compiler would fill it with them.
    quantities: &'a mut ManyQuantities,
}

/// The scales of some blocks.
pub(super) struct Found {
    /// Whether one of them is NaN.
    has_nan: bool,
    /// Whether elements are multiplied with what was found for their blocks, and not divided by it.
    multiplies: bool,
}

impl Quantizer<'_> {
    /// Finds the scales of blocks from the bits of their largest magnitudes: the codes, and the factors by which
    /// elements are multiplied or divided. The powers of two of MX multiply if they are far enough from the ends of the
    /// range.
    pub(super) fn scales(&self, amax: &[u32], codes: &mut [u8], factors: &mut [[u8; 4]]) -> Found {
        const INFINITY: u32 = f32::INFINITY.to_bits();
        let mut multiplies = self.quantize.recipe == Recipe::TorchAo;
        if self.quantize.format != BlockFormat::NvFp4 {
            // SAFETY: a `Backend` exists only if this machine can run it.
            multiplies = unsafe { (self.backend.table().scale.powers)(&self.power, amax, codes, factors) };
            if !multiplies {
                self.divisors(codes, factors);
            }
        } else {
            self.nv_scales(amax, codes, factors);
            // Magnitudes are below 2^31, and signed integers are compared by one instruction everywhere.
            if amax.iter().fold(false, |is_beyond, amax| is_beyond | (*amax as i32 >= INFINITY as i32)) {
                for ((_, code), factor) in
                    amax.iter().zip(&mut *codes).zip(factors).filter(|((amax, _), _)| **amax >= INFINITY)
                {
                    (*code, *factor) = (self.quantize.format.nan(), 1f32.to_le_bytes());
                }
            }
        }
        Found { has_nan: codes.iter().fold(false, |has_nan, code| has_nan | self.is_nan(*code)), multiplies }
    }

    /// Makes divisors of MX's factors.
    #[cold]
    fn divisors(&self, codes: &[u8], factors: &mut [[u8; 4]]) {
        // A factor of 1 is also that of a block of zeros, whatever its code.
        for (code, factor) in codes.iter().zip(factors).filter(|(_, factor)| **factor != 1f32.to_le_bytes()) {
            *factor = self.power.divisor(*code).to_le_bytes();
        }
    }

    /// Those of NVFP4.
    fn nv_scales(&self, amax: &[u32], codes: &mut [u8], factors: &mut [[u8; 4]]) {
        let (recipe, table) = (self.quantize.recipe, self.backend.table());
        for (amax, factor) in amax.iter().zip(&mut *factors) {
            *factor = recipe.rounded_first(f32::from_bits(*amax)).to_le_bytes();
        }
        if recipe == Recipe::CompressedTensors && self.from != DataType::Float {
            let narrow = &mut [0; 2 * BLOCKS][..2 * amax.len()];
            cast(self.backend, DataType::Float, factors.as_flattened(), self.from, narrow, amax.len());
            cast(self.backend, self.from, narrow, DataType::Float, factors.as_flattened_mut(), amax.len());
        }
        // SAFETY: a `Backend` exists only if this machine can run it.
        unsafe { (table.scale.wide_scales)(recipe, self.global, factors) };
        cast(self.backend, DataType::Float, factors.as_flattened(), DataType::Float8E4M3FN, codes, amax.len());
        if recipe.code_for_zero() != 0 {
            codes.iter_mut().filter(|code| **code == 0).for_each(|code| *code = recipe.code_for_zero());
        }
        cast(self.backend, DataType::Float8E4M3FN, codes, DataType::Float, factors.as_flattened_mut(), amax.len());
        // SAFETY: as above.
        unsafe { (table.scale.factors)(recipe, self.global, factors) };
    }

    /// The plans of the elements, once the scales are known: that which divides by them, and that which multiplies.
    fn plans(&self) -> [ScaledPlan; 2] {
        let (quantize, direction) = (self.quantize, Direction::Quantize);
        let range = (quantize.format == BlockFormat::MxInt8).then_some([-INT8_MAX, INT8_MAX]);
        // Blocks with NaN or infinity are cleared.
        let plan =
            ScaledPlan::of_blocks(direction, self.from, quantize.format.element(), range, quantize.backend, Some(1))
                .of_finite();
        [plan, plan.by_factors()]
    }

    /// The scale of the tensor, of NVFP4.
    pub(super) fn global_scale(&self) -> Option<f32> {
        (self.quantize.format == BlockFormat::NvFp4).then_some(self.global)
    }

    /// Quantizes a tensor; `elements` and `scales` have the bytes of the results.
    pub(super) fn run(&self, x: &TensorView<'_>, elements: &mut Out, scales: &mut Out) {
        let (src, len) = (x.bytes().unwrap_or_default(), x.len());
        let row = x.shape().last().copied().unwrap_or(1);
        let (block, plans) = (self.quantize.format.block(), self.plans());
        let touched = src.len() + elements.len();
        let (parts, hint) = (parts_for(touched, self.quantize.threads), StoreHint::of(touched));
        let work = Blocks { quantizer: self, row, src, elements, scales, start: 0, len };
        if row.is_multiple_of(block) {
            in_parts(work, parts, &|blocks| self.whole_blocks(blocks, &plans, hint), &|(), ()| ());
        } else {
            in_parts(work, parts, &|blocks| self.rows(blocks, &plans), &|(), ()| ());
        }
    }

    fn is_nan(&self, code: u8) -> bool {
        code == self.quantize.format.nan()
    }

    /// Quantizes whole blocks.
    fn whole_blocks(&self, blocks: Blocks<'_>, plans: &[ScaledPlan; 2], hint: StoreHint) {
        let Blocks { src, elements, scales, start, len, .. } = blocks;
        let width = self.from.info().bits as usize / 8;
        let src = &src[start * width..(start + len) * width];
        let (block, bits) = (self.quantize.format.block(), self.quantize.format.element().info().bits as usize);
        assert!(elements.len() == byte_len_of(len, bits) && scales.len() * block == len, "whole blocks");
        let src = src.chunks(PART * width);
        let elements = elements.chunks_mut(byte_len_of(PART, bits));
        let (mut amax, mut factors, mut quantities) = ([0; BLOCKS], [[0; 4]; BLOCKS], ManyQuantities::NEW);
        let mut memory = Memory { amax: &mut amax, factors: &mut factors, quantities: &mut quantities };
        with_default_float_environment(|| {
            for ((src, elements), scales) in src.zip(elements).zip(scales.chunks_mut(PART / block)) {
                self.part(src, elements, scales, plans, hint, &mut memory);
            }
            if hint == StoreHint::NonTemporal {
                // SAFETY: a `Backend` exists only if this machine can run it.
                unsafe { (self.backend.table().scale.fence)() };
            }
        });
    }

    /// Quantizes a few whole blocks: their scales, and then their elements, which are still in the nearest cache.
    fn part(
        &self,
        src: &[u8],
        elements: &mut Out,
        codes: &mut Out,
        plans: &[ScaledPlan; 2],
        hint: StoreHint,
        memory: &mut Memory<'_>,
    ) {
        let format = self.quantize.format;
        let (block, len) = (format.block(), codes.len() * format.block());
        codes.fill(MaybeUninit::new(0));
        // SAFETY: the line above wrote every byte.
        let codes = unsafe { written(codes) };
        let (amax, factors) = (&mut memory.amax[..codes.len()], &mut memory.factors[..codes.len()]);
        amax_of_blocks(self.backend, self.from, src, block, amax);
        let Found { has_nan, multiplies } = self.scales(amax, codes, factors);
        let hint = if has_nan { StoreHint::Temporal } else { hint };
        let task = Task { hint, ..Task::new(src, elements, len) };
        // SAFETY: `elements` is borrowed exclusively.
        unsafe { plans[usize::from(multiplies)].run_found(memory.quantities, factors, block, &task) };
        if has_nan {
            // SAFETY: the cast wrote every byte.
            let elements = unsafe { written(elements) };
            for (i, _) in codes.iter().enumerate().filter(|(_, code)| self.is_nan(**code)) {
                clear(elements, i * block..(i + 1) * block, format.element());
            }
        }
    }
}

/// The `len` elements of a tensor from `start` on, and the output for these elements and for the scales of the blocks
/// that begin among them. `src` is the whole tensor.
struct Blocks<'a> {
    quantizer: &'a Quantizer<'a>,
    /// Number of elements per row.
    row: usize,
    src: &'a [u8],
    elements: &'a mut Out,
    scales: &'a mut Out,
    start: usize,
    len: usize,
}

impl Divide for Blocks<'_> {
    fn elements(&self) -> usize {
        self.len
    }

    fn grain(&self) -> usize {
        PART
    }

    fn divide(self, at: usize) -> (Self, Self) {
        let Blocks { quantizer, row, src, elements, scales, start, len } = self;
        let format = quantizer.quantize.format;
        let rows = Rows { row, block: format.block() };
        let (low, high) = elements.split_at_mut(byte_len_of(at, format.element().info().bits as usize));
        let (scales, high_scales) = scales.split_at_mut(rows.blocks_before(start + at) - rows.blocks_before(start));
        (
            Blocks { quantizer, row, src, elements: low, scales, start, len: at },
            Blocks { quantizer, row, src, elements: high, scales: high_scales, start: start + at, len: len - at },
        )
    }
}

/// Finds the largest magnitude of each block, one per element of `amax`, as the bits of a float. NaN and infinity are
/// above every number.
fn amax_of_blocks(backend: Backend, from: DataType, src: &[u8], block: usize, amax: &mut [u32]) {
    let width = from.info().bits as usize / 8;
    // SAFETY: a `Backend` exists only if this machine can run it.
    unsafe { (backend.table().scale.amax)(src, width, block, amax) };
    match from {
        DataType::BFloat16 => amax.iter_mut().for_each(|amax| *amax <<= 16),
        DataType::Float16 => {
            amax.iter_mut().for_each(|amax| *amax = Float16::from_bits(*amax as u16).to_f32().to_bits());
        }
        _ => {}
    }
}

/// Raises each limit to the largest finite magnitude of its run of `run` elements in a row.
pub(super) fn amax_of_runs(from: DataType, row: &[u8], run: usize, limits: &mut [f32]) {
    /// Runs that are looked at together.
    const RUNS: usize = 128;
    let (backend, width) = (Backend::best(), from.info().bits as usize / 8);
    if run > PART {
        // Part by part, within each run: parts of the row would reach over the ends of runs.
        for (run, limit) in row.chunks(run.saturating_mul(width)).zip(limits) {
            *limit = limit.max(finite_amax(backend, from, run));
        }
        return;
    }
    let runs = (PART / run).min(RUNS);
    let mut amax = [0; RUNS];
    for (bytes, limits) in row.chunks(runs * run * width).zip(limits.chunks_mut(runs)) {
        // The kernel takes whole runs; the last of a row may be shorter.
        let (whole, short) = bytes.split_at(bytes.len() / (run * width) * run * width);
        let whole_runs = whole.len() / (run * width);
        amax_of_blocks(backend, from, whole, run, &mut amax[..whole_runs]);
        if !short.is_empty() {
            amax_of_blocks(backend, from, short, PART, &mut amax[whole_runs..=whole_runs]);
        }
        for ((value, bytes), limit) in amax.iter().zip(bytes.chunks(run * width)).zip(limits) {
            let value = f32::from_bits(*value);
            let value = if value.is_finite() { value } else { finite_amax(backend, from, bytes) };
            *limit = limit.max(value);
        }
    }
}

/// The largest finite magnitude of a tensor, found on at most `threads` threads.
pub(super) fn amax_of_tensor(backend: Backend, from: DataType, src: &[u8], threads: Option<usize>) -> f32 {
    let width = from.info().bits as usize / 8;
    let run = |Elements(elements): Elements| {
        let src = &src[elements.start * width..elements.end * width];
        with_default_float_environment(|| finite_amax(backend, from, src))
    };
    // Magnitudes have the same order as their bits, whose comparison does not depend on the thread's float environment.
    let join = |low: f32, high: f32| f32::from_bits(low.to_bits().max(high.to_bits()));
    in_parts(Elements(0..src.len() / width), parts_for(src.len(), threads), &run, &join)
}

/// The largest finite magnitude of a tensor.
pub(super) fn finite_amax(backend: Backend, from: DataType, src: &[u8]) -> f32 {
    let width = from.info().bits as usize / 8;
    let of_part = |part: &[u8]| {
        let mut amax = [0];
        amax_of_blocks(backend, from, part, PART, &mut amax);
        let value = f32::from_bits(amax[0]);
        if value.is_finite() { value } else { finite_amax_of_elements(backend, from, part) }
    };
    src.chunks(PART * width).map(of_part).fold(0.0, f32::max)
}

/// That of a part with NaN or infinity: its elements are asked one by one.
#[cold]
fn finite_amax_of_elements(backend: Backend, from: DataType, part: &[u8]) -> f32 {
    let mut each = [0; PART];
    amax_of_blocks(backend, from, part, 1, &mut each);
    each.into_iter().map(f32::from_bits).filter(|value| value.is_finite()).fold(0.0, f32::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::available;
    use crate::packed::as_uninit;

    /// Near the ends of the range too, where factors would be infinite.
    #[test]
    fn a_power_of_two_changes_the_scales_alone() {
        let x: Vec<f32> = (0..PART + 320).map(|i| (i * 37 % 251) as f32 - 125.375).collect();
        // By the exponents of the largest elements.
        let formats = BlockFormat::ALL.iter().zip([8, 15, 2, 4, 2, 0]);
        for (backend, (format, exponent)) in
            available().flat_map(|backend| formats.clone().map(move |of| (backend, of)))
        {
            let quantize = BlockQuantize::new(*format).backend(backend).threads(1);
            let of = |power: i32| {
                let factor = |power: i32| f32::from_bits(((power + 127) as u32) << 23);
                let scaled: Vec<f32> = x.iter().map(|x| x * factor(power / 2) * factor(power - power / 2)).collect();
                let mut elements = vec![0; byte_len_of(x.len(), format.element().info().bits as usize)];
                let mut scales = vec![0; x.len() / format.block()];
                let shape = [scaled.len()];
                let view = TensorView::from_slice(&shape, &scaled).expect("a shape");
                quantize.run_into(&view, &mut elements, &mut scales).expect("buffers that fit");
                (elements, scales)
            };
            let (elements, scales) = of(0);
            for power in [exponent - 133, -110, -70, -60, -50, 3, 50, 60, 70, 110, 121] {
                let moved: Vec<u8> = scales.iter().map(|code| (i32::from(*code) + power) as u8).collect();
                assert!(of(power) == (elements.clone(), moved), "{backend:?}, {format}, 2^{power}");
            }
        }
    }

    /// Parts whose results pass the caches by, from anywhere in a cache line on, with a block of NaN in one.
    #[test]
    fn parts_past_the_caches_are_those_within() {
        let len = 2 * PART + 320;
        let mut x: Vec<f32> = (0..len).map(|i| (i % 251) as f32 - 125.0).collect();
        x[PART + 70] = f32::NAN;
        let src: Vec<u8> = x.iter().flat_map(|x| x.to_le_bytes()).collect();
        for (backend, format) in available().flat_map(|backend| {
            [BlockFormat::MxFp8, BlockFormat::MxFp6E2M3, BlockFormat::NvFp4].map(|format| (backend, format))
        }) {
            let quantize = BlockQuantize::new(format);
            let power = PowerOfTwo::new(format, crate::scaled::ScaleRule::Floor);
            let quantizer = Quantizer { quantize: &quantize, from: DataType::Float, backend, global: 1.0, power };
            let plans = quantizer.plans();
            let bytes = format.element().byte_len(len).expect("few elements");
            let run = |hint, offset| {
                let (mut elements, mut scales) = (vec![0x5a; bytes + 192], vec![0; len / format.block()]);
                let begin = elements.as_ptr().addr().wrapping_neg() % 64 + offset;
                // SAFETY: a cast writes only initialised bytes.
                let (out, codes) = unsafe { (as_uninit(&mut elements[begin..begin + bytes]), as_uninit(&mut scales)) };
                let part =
                    Blocks { quantizer: &quantizer, row: len, src: &src, elements: out, scales: codes, start: 0, len };
                quantizer.whole_blocks(part, &plans, hint);
                let is_untouched = elements[..begin].iter().chain(&elements[begin + bytes..]).all(|byte| *byte == 0x5a);
                assert!(is_untouched, "{backend:?}, {format}, {offset}: bytes beside the result");
                (elements[begin..begin + bytes].to_vec(), scales)
            };
            let want = run(StoreHint::Temporal, 0);
            for offset in if cfg!(miri) { vec![24] } else { vec![0, 1, 24, 63] } {
                assert_eq!(run(StoreHint::NonTemporal, offset), want, "{backend:?}, {format}, {offset} bytes in");
            }
        }
    }
}
