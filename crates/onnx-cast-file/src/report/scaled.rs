//! A candidate with scales: a part of a tensor is quantized, as `quantize` does it, and each block of values is
//! dequantized when it is compared.
//!
//! Scales are found in the part itself, which therefore holds complete blocks. Where that would make parts too large,
//! and for the scale of a tensor, a first pass finds the greatest magnitudes of all blocks ([`Ahead`]).

use super::CandidateFormat;
use crate::quantize::Granularity;
use onnx_cast::{
    BlockFormat, BlockPlan, BlockQuantize, BoundScaledPlan, CastError, DataType, GlobalScale, OpError, ScaleRule,
    Tensor, TensorError, TensorView, element_count, greatest_magnitude, greatest_magnitudes,
};
use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// Elements of a part, unless units of blocks need more.
const PART: usize = 1 << 18;

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
    back: BlockPlan,
    /// What has to be known before the first part.
    ahead: Option<Ahead>,
}

/// How elements are quantized.
#[derive(Debug)]
enum How {
    /// To a block format.
    Blocks(BlockFormat, BlockQuantize),
    /// By scales of float, which make this number of the greatest magnitude.
    Linear(BlockPlan, f32),
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
    ) -> Result<Option<Scaled>, OpError> {
        let whole = element_count(shape).unwrap_or(0);
        let columns = if whole == 0 { 0 } else { shape.last().copied().unwrap_or(1) };
        let rows = whole.checked_div(columns).unwrap_or(0);
        let (shape, block) = match format {
            CandidateFormat::Bare(_) => return Ok(None),
            CandidateFormat::Block(format) => ([rows, columns], [1, format.block()]),
            CandidateFormat::Elements(_, Granularity::Tensor) => ([1, whole], [1, whole]),
            CandidateFormat::Elements(_, Granularity::Axis) => ([rows, columns], [1, columns]),
            CandidateFormat::Elements(_, Granularity::Block(block)) => ([rows, columns], block),
        };
        let block = block.map(|size| size.max(1));
        // Blocks that fill rows are rows themselves.
        let is_filled = block[0] == 1 && whole > 0 && shape[1].is_multiple_of(block[1]);
        let shape = if is_filled { [whole / block[1], block[1]] } else { shape };
        let element = format.element();
        let (how, scale, global) = match format {
            CandidateFormat::Block(format) => {
                let unit = (format == BlockFormat::MxInt8).then_some(GlobalScale::Factor(INT8_UNIT));
                (How::Blocks(format, BlockQuantize::new(format).rule(rule).threads(1)), format.scale(), unit)
            }
            _ => {
                let plan = BlockPlan::quantize(from, DataType::Float, element, block)?;
                (How::Linear(plan, largest(element)), DataType::Float, None)
            }
        };
        let back = BlockPlan::dequantize(element, scale, DataType::Float, block)?.global_scale(global);
        Ok(Some(Scaled { from, shape, block, how, element, back, ahead: None }))
    }

    /// Bytes of elements and scales, and of NVFP4's scale of the tensor.
    pub(super) fn bytes(&self) -> u64 {
        let [rows, columns] = self.shape;
        let elements = (rows * columns) as u64;
        let width = match self.how {
            How::Blocks(..) => 1,
            How::Linear(..) => 4,
        };
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
    pub(super) fn ahead(&self) -> Option<&Ahead> {
        self.ahead.as_ref()
    }

    /// Whether parts may end within blocks, because the scales are known ahead.
    pub(super) fn is_ahead(&self) -> bool {
        self.ahead.is_some() && !self.has_global()
    }

    fn has_global(&self) -> bool {
        matches!(self.how, How::Blocks(BlockFormat::NvFp4, _))
    }

    /// Elements after which a block ends, and every row of blocks with it.
    fn unit(&self) -> usize {
        let ([rows, columns], [down, across]) = (self.shape, self.block);
        if rows <= 1 { across } else { down.saturating_mul(columns) }
    }

    /// Quantizes a part of the tensor, which has whole blocks if they are not known ahead.
    pub(super) fn quantize(&self, start: usize, len: usize, src: &[u8]) -> Result<Quantized, CastError> {
        let size = self.element.byte_len(len);
        let too_large = || TensorError::TooLarge { data_type: self.element, shape: vec![len] };
        let mut codes = vec![0; size.ok_or_else(too_large)?];
        let local = match self.shape {
            [0 | 1, _] => [1, len],
            [_, columns] => [len / columns.max(1), columns],
        };
        match &self.how {
            How::Blocks(format, quantize) => {
                let quantize = quantize.greatest(self.ahead.as_ref().and_then(Ahead::first));
                let x = TensorView::new(self.from, &local, src)?;
                let mut scales = vec![0; format.scale_count(&local).ok_or_else(too_large)?];
                let global = quantize.run_into(&x, &mut codes, &mut scales)?;
                let grid = [local[0], local[1].div_ceil(self.block[1])];
                let scales = Tensor::new(format.scale(), grid.to_vec(), scales)?;
                let back = match global {
                    Some(global) => self.back.global_scale(Some(GlobalScale::Factor(global))),
                    None => self.back,
                };
                Ok(Quantized { codes, scales, back, shape: local, start: 0 })
            }
            How::Linear(plan, largest) => {
                let found;
                let (shape, start, greatest) = match &self.ahead {
                    Some(ahead) => (self.shape, start, ahead.values()),
                    None => {
                        found = greatest_magnitudes(&TensorView::new(self.from, &local, src)?, self.block)?;
                        (local, 0, &found[..])
                    }
                };
                let scale = |greatest: &f32| if greatest / largest == 0.0 { 1.0 } else { greatest / largest };
                let scales: Vec<f32> = greatest.iter().map(scale).collect();
                let grid = [shape[0].div_ceil(self.block[0]), shape[1].div_ceil(self.block[1])];
                let scales = Tensor::from_slice(grid.to_vec(), &scales)?;
                plan.bind(&shape, &scales.view(), None)?.run_part(start, len, src, &mut codes)?;
                Ok(Quantized { codes, scales, back: self.back, shape, start })
            }
        }
    }
}

impl Quantized {
    /// The part's values, which come back as float.
    pub(super) fn values(&self) -> Result<Values<'_>, CastError> {
        Ok(Values { quantized: self, bound: self.back.bind(&self.shape, &self.scales.view(), None)? })
    }
}

/// What comes back of a part.
pub(super) struct Values<'a> {
    quantized: &'a Quantized,
    bound: BoundScaledPlan<'a>,
}

impl Values<'_> {
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

/// The unit of MXINT8, whose elements count 64ths.
const INT8_UNIT: f32 = 1.0 / 64.0;

/// What the greatest magnitude becomes.
fn largest(element: DataType) -> f32 {
    match element {
        DataType::Float8E4M3FN => 448.0,
        DataType::Float8E5M2 => 57344.0,
        DataType::Int4 => 7.0,
        _ => 127.0,
    }
}

/// The greatest finite magnitudes of a tensor's blocks, found by a pass over the tensor.
#[derive(Debug)]
pub(super) struct Ahead {
    from: DataType,
    columns: usize,
    block: [usize; 2],
    /// Of floats without a sign the bits have the order of the values.
    bits: Vec<AtomicU32>,
    found: OnceLock<Vec<f32>>,
}

impl Ahead {
    fn of_blocks(scaled: &Scaled) -> Ahead {
        let bits = (0..scaled.blocks()).map(|_| AtomicU32::new(0)).collect();
        let (from, columns, block) = (scaled.from, scaled.columns(), scaled.block);
        Ahead { from, columns, block, bits, found: OnceLock::new() }
    }

    fn of_tensor(from: DataType, len: usize) -> Ahead {
        let (columns, block) = (len, [1, len.max(1)]);
        Ahead { from, columns, block, bits: vec![AtomicU32::new(0)], found: OnceLock::new() }
    }

    /// Those of all blocks, once the pass is done.
    fn values(&self) -> &[f32] {
        let value = |bits: &AtomicU32| f32::from_bits(bits.load(Ordering::Relaxed));
        self.found.get_or_init(|| self.bits.iter().map(value).collect())
    }

    /// That of the first block.
    fn first(&self) -> Option<f32> {
        self.values().first().copied()
    }

    fn raise(&self, block: usize, greatest: f32) {
        if let Some(bits) = self.bits.get(block) {
            bits.fetch_max(greatest.to_bits(), Ordering::Relaxed);
        }
    }

    /// Looks at a part of the tensor: at each row's end of the block that the part begins in, and then at its blocks.
    pub(super) fn see(&self, start: usize, len: usize, src: &[u8]) -> Result<(), CastError> {
        let [down, across] = self.block;
        let width = self.from.bits().unwrap_or(8) / 8;
        let bytes = |range: Range<usize>| src.get(range.start * width..range.end * width).unwrap_or_default();
        let mut done = 0;
        while done < len {
            let (row, column) = ((start + done) / self.columns, (start + done) % self.columns);
            let end = len.min(done + self.columns - column);
            let middle = end.min(done + across - column % across);
            let block = row / down * self.columns.div_ceil(across) + column / across;
            self.raise(block, greatest_magnitude(&TensorView::new(self.from, &[middle - done], bytes(done..middle))?)?);
            if middle < end {
                let x = [1, end - middle];
                let greatest = greatest_magnitudes(&TensorView::new(self.from, &x, bytes(middle..end))?, [1, across])?;
                (block + 1..).zip(greatest).for_each(|(block, greatest)| self.raise(block, greatest));
            }
            done = end;
        }
        Ok(())
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
        let is_linear = matches!(scaled.how, How::Linear(..));
        if wanted <= MOST || !is_linear {
            unit = wanted;
        } else {
            scaled.ahead = Some(Ahead::of_blocks(scaled));
        }
        if scaled.has_global() {
            globals.push(scaled);
        }
    }
    let size = PART.max(unit) / unit * unit;
    if size < len {
        globals.into_iter().for_each(|scaled| scaled.ahead = Some(Ahead::of_tensor(scaled.from, len)));
    }
    size
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}
