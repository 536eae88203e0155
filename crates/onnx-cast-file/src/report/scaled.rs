//! A candidate with scales: a part of a tensor is quantized, as `quantize` does it, and each block of values is
//! dequantized when it is compared.
//!
//! Scales are found in the part itself, which therefore holds complete blocks. Where that would make parts too large,
//! and for the scale of a tensor, a first pass finds the largest magnitudes of all blocks ([`Amax`]).

use super::CandidateFormat;
use crate::layouts::{Granularity, Layout, QuantizedFormat};
use crate::pipeline::{Amax, CHUNK};
use crate::quantize::scaling::{Blocks, How};
use onnx_cast::ops::OpError;
use onnx_cast::scaled::{BlockFormat, BlockPlan, BoundScaledPlan, ScaleRule, block_amax};
use onnx_cast::tensor::{TensorErrorKind, element_count};
use onnx_cast::{CastError, DataType, Tensor, TensorView};
use std::sync::Arc;

/// The most elements of a part. Blocks beyond are known ahead.
const MOST: usize = 1 << 20;

/// A candidate with scales, of a tensor.
#[derive(Debug)]
pub(super) struct Scaled {
    from: DataType,
    /// Rows and columns of the tensor.
    shape: [usize; 2],
    /// Those of a block.
    pub(super) block: [usize; 2],
    how: How,
    element: DataType,
    /// Whether all elements have one scale.
    is_whole: bool,
    /// What has to be known before the first part.
    ahead: Option<Arc<Amax>>,
}

/// A quantized part.
pub(super) struct Quantized {
    codes: Vec<u8>,
    scales: Tensor,
    back: BlockPlan,
    /// The part of what the scales are for.
    shape: [usize; 2],
    start: usize,
}

impl Scaled {
    pub(super) fn new(
        from: DataType,
        shape: &[usize],
        format: CandidateFormat,
        rule: ScaleRule,
        layout: Option<Layout>,
    ) -> Result<Option<Scaled>, OpError> {
        let whole = element_count(shape).unwrap_or(0);
        let columns = if whole == 0 { 0 } else { shape.last().copied().unwrap_or(1) };
        let rows = whole.checked_div(columns).unwrap_or(0);
        let (shape, block) = match format {
            CandidateFormat::Bare(_) => return Ok(None),
            CandidateFormat::Block(format) => ([rows, columns], [1, format.block()]),
            CandidateFormat::Elements(_, Granularity::Tensor) => ([1, whole], [1, whole]),
            CandidateFormat::Elements(_, Granularity::Row) => ([rows, columns], [1, columns]),
            CandidateFormat::Elements(_, Granularity::Block(block)) => ([rows, columns], block),
        };
        let block = block.map(|size| size.max(1));
        // Blocks that fill rows are rows themselves.
        let is_filled = block[0] == 1 && whole > 0 && shape[1].is_multiple_of(block[1]);
        let shape = if is_filled { [whole / block[1], block[1]] } else { shape };
        let element = format.element();
        let (to, granularity) = match format {
            CandidateFormat::Block(format) => (QuantizedFormat::Block(format), None),
            CandidateFormat::Elements(element, granularity) => (QuantizedFormat::Elements(element), Some(granularity)),
            CandidateFormat::Bare(_) => return Ok(None),
        };
        let how = How::predicted(layout, to, granularity, from, rule);
        let is_whole = granularity == Some(Granularity::Tensor);
        Ok(Some(Scaled { from, shape, block, how, element, is_whole, ahead: None }))
    }

    /// Bytes of elements and scales, and of NVFP4's scale of the tensor.
    pub(super) fn bytes(&self) -> u64 {
        let [rows, columns] = self.shape;
        let elements = (rows * columns) as u64;
        let width = self.how.scale_type().bits().unwrap_or(8) as u64 / 8;
        let global = if self.has_global() { 4 } else { 0 };
        (elements * self.element.bits().unwrap_or(8) as u64).div_ceil(8) + self.blocks() as u64 * width + global
    }

    /// How many blocks there are.
    pub(super) fn blocks(&self) -> usize {
        let ([rows, columns], [down, across]) = (self.shape, self.block);
        if rows == 0 { 0 } else { rows.div_ceil(down) * columns.div_ceil(across) }
    }

    /// The length of rows, at whose ends blocks end.
    pub(super) fn columns(&self) -> usize {
        self.shape[1]
    }

    /// Whether there is a scale for less than the tensor.
    pub(super) fn has_blocks(&self) -> bool {
        self.blocks() > 1
    }

    /// What has to be known before the first part.
    pub(super) fn ahead(&self) -> Option<&Amax> {
        self.ahead.as_deref()
    }

    /// Whether parts may end within blocks, because the scales are known ahead.
    pub(super) fn is_ahead(&self) -> bool {
        self.ahead.is_some() && !self.has_global()
    }

    /// Shares the scale of the tensor with other tensors, all of which are seen before the first is quantized.
    pub(super) fn share_scale(&mut self, amax: &Arc<Amax>) {
        if self.has_scale_of_tensor() {
            self.ahead = Some(Arc::clone(amax));
        }
    }

    /// Whether there is a scale of the tensor: of its elements, or of NVFP4's scales.
    pub(super) fn has_scale_of_tensor(&self) -> bool {
        self.is_whole || self.has_global()
    }

    pub(super) fn has_global(&self) -> bool {
        matches!(self.how, How::Blocks(Blocks { format: BlockFormat::NvFp4, .. }))
    }

    /// Elements after which a block ends, and every row of blocks with it.
    fn unit(&self) -> usize {
        let ([rows, columns], [down, across]) = (self.shape, self.block);
        if rows <= 1 { across } else { down.saturating_mul(columns) }
    }

    /// Quantizes a part of the tensor, which has whole blocks if they are not known ahead.
    pub(super) fn quantize(&self, start: usize, len: usize, src: &[u8]) -> Result<Quantized, CastError> {
        let size = self.element.byte_len(len);
        let too_large = || TensorErrorKind::TooLarge { data_type: self.element, shape: vec![len] };
        let mut codes = vec![0; size.ok_or_else(too_large)?];
        let local = match self.shape {
            [0 | 1, _] => [1, len],
            [_, columns] => [len / columns.max(1), columns],
        };
        match &self.how {
            How::Blocks(blocks) => {
                let quantize = blocks.quantize.amax(self.ahead.as_ref().map(|ahead| ahead.most()));
                let x = TensorView::new(self.from, &local, src)?;
                let mut scales = vec![0; blocks.format.scale_count(&local).ok_or_else(too_large)?];
                let global = quantize.run_into(&x, &mut codes, &mut scales)?;
                let grid = [local[0], local[1].div_ceil(self.block[1])];
                let scales = Tensor::new(blocks.format.scale(), grid.to_vec(), scales)?;
                Ok(Quantized { codes, scales, back: blocks.back(global)?, shape: local, start: 0 })
            }
            How::Scaled(scaling) => {
                let found;
                let (shape, start, amax) = match &self.ahead {
                    Some(ahead) => (self.shape, start, ahead.values()),
                    None => {
                        found = block_amax(&TensorView::new(self.from, &local, src)?, self.block)?;
                        (local, 0, &found[..])
                    }
                };
                let grid = [shape[0].div_ceil(self.block[0]), shape[1].div_ceil(self.block[1])];
                let scales = scaling.scales(amax, &grid, None)?;
                let [plan, back] = scaling.plans([self.from, self.element], self.block, None)?;
                plan.bind(&shape, &scales.view(), None)?.run_part(start, len, src, &mut codes)?;
                Ok(Quantized { codes, scales, back, shape, start })
            }
        }
    }
}

impl Quantized {
    /// The part's values, which come back as float.
    pub(super) fn values(&self) -> Result<Dequantized<'_>, CastError> {
        Ok(Dequantized { quantized: self, bound: self.back.bind(&self.shape, &self.scales.view(), None)? })
    }
}

/// The values of a quantized part, as they are read back.
pub(super) struct Dequantized<'a> {
    quantized: &'a Quantized,
    bound: BoundScaledPlan<'a>,
}

impl Dequantized<'_> {
    /// Dequantizes some values, from one of the part that begins a byte.
    pub(super) fn run(&self, first: usize, len: usize, out: &mut Vec<u8>) -> Result<(), CastError> {
        let Quantized { codes, start, back, .. } = self.quantized;
        let from = back.source_type();
        let size = |len| from.byte_len(len).unwrap_or(0);
        out.resize(4 * len, 0);
        let codes = codes.get(size(first)..size(first) + size(len)).unwrap_or_default();
        self.bound.run_part(start + first, len, codes, out)
    }
}

/// The elements of a tensor's parts, with whole blocks of its candidates; or those know theirs ahead.
pub(super) fn part_size<'a>(candidates: impl Iterator<Item = &'a mut Scaled>, len: usize) -> usize {
    // Parts of packed elements are whole bytes.
    let mut unit = 8;
    let mut globals = Vec::new();
    for scaled in candidates {
        let common = scaled.unit() / gcd(unit, scaled.unit());
        let wanted = unit.saturating_mul(common).min(len.max(1));
        let is_linear = matches!(scaled.how, How::Scaled(_));
        if wanted <= MOST || !is_linear {
            unit = wanted;
        } else {
            let [rows, columns] = scaled.shape;
            scaled.ahead = Some(Arc::new(Amax::of_blocks(scaled.from, [1, rows, columns], scaled.block)));
        }
        if scaled.has_global() {
            globals.push(scaled);
        }
    }
    let size = CHUNK.max(unit) / unit * unit;
    if size < len {
        for scaled in globals {
            scaled.share_scale(&Arc::new(Amax::of_all(scaled.from)));
        }
    }
    size
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dequantize::DequantizeRequest;
    use crate::formats::source::NamedTensor;
    use crate::in_memory::{HeldTensor, TensorsInMemory, dequantize_tensors, quantize_tensors};
    use crate::quantize::QuantizeRequest;
    use onnx_cast::{Cast, CastOptions};

    /// Weights of several magnitudes, some zeros, a row of zeros, and one of tiny numbers.
    fn weights(shape: [usize; 2], from: DataType) -> Tensor {
        let mut state = 5u64;
        let values: Vec<f32> = (0..shape[0] * shape[1])
            .map(|index| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let value = (state >> 33) as f32 / 2f32.powi(30) - 1.0;
                match index / shape[1] % 8 {
                    3 => 0.0,
                    5 => value * 1e-7,
                    row => value * value * value * 2f32.powi(row as i32 - 3),
                }
            })
            .collect();
        let floats = Tensor::from_slice(shape.to_vec(), &values).expect("a tensor");
        let cast = Cast::new(from, &CastOptions::default()).expect("a cast");
        cast.run(&floats.view()).expect("cast")
    }

    /// What a report takes a tensor for, part by part.
    fn reported(x: &Tensor, to: CandidateFormat, layout: Option<Layout>, amax: Option<Arc<Amax>>) -> Vec<u32> {
        let (from, len) = (x.data_type(), x.len());
        let scaled = Scaled::new(from, x.shape(), to, ScaleRule::Floor, layout).expect("types of numbers");
        let mut scaled = scaled.expect("a scaled candidate");
        let size = part_size(std::iter::once(&mut scaled), len);
        if let Some(amax) = amax {
            scaled.share_scale(&amax);
        }
        let bytes = x.bytes().expect("numbers");
        let width = from.bits().expect("a width") / 8;
        let parts = || bytes.chunks(size * width).enumerate().map(|(index, part)| (index * size, part));
        if let Some(ahead) = scaled.ahead() {
            parts().for_each(|(start, part)| ahead.see(start, part.len() / width, part).expect("seen"));
        }
        let mut values = Vec::new();
        for (start, part) in parts() {
            let quantized = scaled.quantize(start, part.len() / width, part).expect("quantized");
            let mut out = Vec::new();
            quantized.values().expect("bound").run(0, part.len() / width, &mut out).expect("dequantized");
            values.extend(out.as_chunks::<4>().0.iter().map(|bits| u32::from_le_bytes(*bits)));
        }
        values
    }

    /// What comes back of tensors that are quantized, in a layout.
    fn written(tensors: &[(&str, &Tensor)], request: &QuantizeRequest) -> Option<Vec<Vec<u32>>> {
        let held = |name: &str, tensor: &Tensor| NamedTensor { name: name.to_owned(), tensor: tensor.clone() };
        let all = tensors.iter().map(|(name, tensor)| HeldTensor::from(held(name, tensor))).collect();
        let input = TensorsInMemory::new(all, None).expect("tensors");
        // A layout that has no such weights refuses them.
        let made = quantize_tensors(input, request).ok()?;
        let names = made.summary.tensors.iter().map(|row| row.name.clone());
        let all = names.zip(made.tensors).map(|(name, tensor)| HeldTensor::from(held(&name, &tensor.expect("made"))));
        let made = TensorsInMemory::new(all.collect(), made.quantization_config.as_deref()).expect("tensors");
        let layout = made_layout(request);
        let how = DequantizeRequest { layout: Some(layout), ..DequantizeRequest::new(DataType::Float) };
        let back = dequantize_tensors(made, &how).expect("dequantized");
        let bits = |tensor: &Tensor| tensor.to_vec::<f32>().expect("floats").into_iter().map(f32::to_bits).collect();
        let find = |name: &&str| back.summary.tensors.iter().position(|row| row.name == **name).expect("a weight");
        Some(tensors.iter().map(|(name, _)| bits(back.tensors[find(name)].as_ref().expect("made"))).collect())
    }

    fn made_layout(request: &QuantizeRequest) -> Layout {
        request.layout.unwrap_or(Layout::CompressedTensors)
    }

    #[test]
    fn a_report_has_the_bits_that_quantizing_writes() {
        let shapes = [[16, 256], [130, 5120], [8, 11008], [3, 32768], [96, 14336]];
        let granularities = [
            None,
            Some(Granularity::Tensor),
            Some(Granularity::Row),
            Some(Granularity::Block([1, 32])),
            Some(Granularity::Block([1, 128])),
            Some(Granularity::Block([128, 128])),
            Some(Granularity::Block([48, 80])),
        ];
        let layouts = Layout::ALL.iter().map(|(layout, _)| Some(*layout)).chain([None]);
        let mut compared = 0;
        let types = [DataType::Float, DataType::BFloat16, DataType::Float16];
        for (layout, from) in layouts.flat_map(|layout| types.map(|from| (layout, from))) {
            for (to, granularity) in
                QuantizedFormat::all().flat_map(|to| granularities.into_iter().map(move |one| (to, one)))
            {
                let candidate = match (to, granularity) {
                    (QuantizedFormat::Block(format), None) => CandidateFormat::Block(format),
                    (QuantizedFormat::Elements(element), Some(granularity)) => {
                        CandidateFormat::Elements(element, granularity)
                    }
                    _ => continue,
                };
                let request = QuantizeRequest { layout, ..QuantizeRequest::new(to.by(granularity)) };
                // A small tensor tells whether the layout has such weights; larger ones take turns.
                let turn = compared % (shapes.len() - 1) + 1;
                for shape in [shapes[0], shapes[turn]] {
                    let x = weights(shape, from);
                    let Some(want) = written(&[("m.weight", &x)], &request) else { break };
                    let got = reported(&x, candidate, layout, None);
                    let differ = got.iter().zip(&want[0]).position(|(got, want)| got != want);
                    assert_eq!(differ, None, "{from} of {shape:?} to {candidate} in {layout:?}");
                    assert_eq!(got.len(), want[0].len());
                    compared += 1;
                }
            }
        }
        assert!(compared > 150, "{compared}");
    }

    #[test]
    fn joined_matrices_share_the_scale_of_nvfp4() {
        let small = weights([16, 64], DataType::BFloat16);
        let large = Tensor::from_slice(vec![16, 64], &vec![1000.0f32; 16 * 64]).expect("a tensor");
        let large = Cast::new(DataType::BFloat16, &CastOptions::default()).expect("a cast").run(&large.view());
        let large = large.expect("cast");
        let request = QuantizeRequest::new(QuantizedFormat::Block(BlockFormat::NvFp4));
        let tensors = [("a.q_proj.weight", &small), ("a.k_proj.weight", &large)];
        let want = written(&tensors, &request).expect("quantized");
        let candidate = CandidateFormat::Block(BlockFormat::NvFp4);
        let both = Arc::new(Amax::of_all(DataType::BFloat16));
        for x in [&small, &large] {
            both.see(0, x.len(), x.bytes().expect("floats")).expect("seen");
        }
        assert_eq!(reported(&small, candidate, None, Some(both)), want[0]);
        assert_ne!(reported(&small, candidate, None, None), want[0]);
        // The report shares it by itself: its noise is that of what is written.
        let views: Vec<(&str, TensorView<'_>)> = tensors.iter().map(|(name, x)| (*name, x.view())).collect();
        let request = crate::ReportRequest { to: vec![candidate], ..crate::ReportRequest::default() };
        let report = crate::report_of(&views, &request).expect("a report");
        let source = Cast::new(DataType::Float, &CastOptions::default()).expect("a cast").run(&small.view());
        let source = source.expect("cast").to_vec::<f32>().expect("floats");
        let errors = source.iter().zip(&want[0]).map(|(x, y)| (x - f32::from_bits(*y)).abs());
        let most = f64::from(errors.fold(0f32, f32::max));
        assert_eq!(report.tensors[0].candidates[0].counts.max_error.to_bits(), most.to_bits());
    }
}
