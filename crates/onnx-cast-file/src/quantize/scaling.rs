//! The arithmetic of quantized weights in each layout: how scales are computed, and how elements are divided by them.
//! `quantize` writes the results, and `report` predicts them.

use super::losses::Losses;
use crate::layouts::{Arithmetic, Granularity, Layout, QuantizedFormat};
use crate::pipeline::mark_nan;
use DataType::{BFloat16, Float16, Int4, Int8};
use onnx_cast::ops::OpError;
use onnx_cast::scaled::{
    BlockFormat, BlockPlan, BlockQuantize, GlobalScale, Recipe, ScaleRule, SymmetricScale, block_amax,
};
use onnx_cast::{CastError, DataType, Tensor, TensorView};

/// Method of quantization.
#[derive(Clone, Copy, Debug)]
pub(crate) enum How {
    /// Whole blocks of MX or NVFP4 are quantized in one step.
    Blocks(Blocks),
    /// Scales are computed first, and then elements are divided by them.
    Scaled(Scaling),
}

impl How {
    /// Creates the method for weights of type `from`.
    pub(crate) fn new(arithmetic: Arithmetic, to: QuantizedFormat, from: DataType, rule: ScaleRule) -> How {
        let data_type = match to {
            QuantizedFormat::Block(format) => return How::Blocks(Blocks::new(format, arithmetic.recipe, rule)),
            QuantizedFormat::Elements(_) | QuantizedFormat::Gguf(_) => to.element(),
        };
        let scale = SymmetricScale::new(data_type);
        if !arithmetic.in_weight_type {
            return How::Scaled(Scaling::Symmetric(scale));
        }
        let least = match from {
            BFloat16 => 2f32.powi(-7),
            Float16 => 2f32.powi(-10),
            _ => f32::EPSILON,
        };
        let scale = match data_type {
            Int4 => scale.max(7.5),
            Int8 => scale.max(127.5),
            _ => scale,
        };
        let scale = scale.scale_type(from).of_zeros(least).of_underflow(least).precision(from);
        How::Scaled(Scaling::Symmetric(scale))
    }

    /// Creates the method that a report predicts: that of the given or default layout, or of the plain layout if the
    /// former does not support the format.
    pub(crate) fn predicted(
        layout: Option<Layout>,
        to: QuantizedFormat,
        granularity: Option<Granularity>,
        from: DataType,
        rule: ScaleRule,
    ) -> How {
        let layout = layout.unwrap_or(Layout::DEFAULT);
        let has_such_weights = layout.granularity(to, granularity).is_ok();
        let layout = if has_such_weights { layout } else { Layout::Plain };
        How::new(layout.spec().arithmetic, to, from, rule)
    }

    /// Returns the type in which scales are computed.
    pub(crate) fn scale_type(&self) -> DataType {
        match self {
            How::Blocks(blocks) => blocks.format.scale(),
            How::Scaled(scaling) => scaling.scale_type(),
        }
    }
}

/// A block format, and the arithmetic of the layout's owner.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Blocks {
    pub(crate) format: BlockFormat,
    pub(crate) recipe: Recipe,
    pub(crate) quantize: BlockQuantize,
}

/// Value of one unit of an MXINT8 element.
const INT8_UNIT: f32 = 1.0 / 64.0;

impl Blocks {
    fn new(format: BlockFormat, recipe: Recipe, rule: ScaleRule) -> Blocks {
        Blocks { format, recipe, quantize: BlockQuantize::new(format).rule(rule).recipe(recipe).threads(1) }
    }

    /// Creates the plan that dequantizes blocks to float.
    pub(crate) fn back(&self, global: Option<f32>) -> Result<BlockPlan, OpError> {
        let Blocks { format, recipe, .. } = *self;
        let global = match global {
            Some(global) if recipe == Recipe::CompressedTensors => Some(GlobalScale::Divisor(global)),
            Some(global) => Some(GlobalScale::Factor(global)),
            None => (format == BlockFormat::MxInt8).then_some(GlobalScale::Factor(INT8_UNIT)),
        };
        let plan = BlockPlan::dequantize(format.element(), format.scale(), DataType::Float, [1, format.block()])?;
        Ok(plan.global_scale(global))
    }
}

/// Computes scales from the amax of each block.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Scaling {
    /// Scales in float, or in the weight's type.
    Symmetric(SymmetricScale),
    /// Scales of a block format, for ONNX's operators.
    Codes(BlockFormat, BlockQuantize),
}

impl Scaling {
    fn scale_type(&self) -> DataType {
        match self {
            Scaling::Symmetric(scale) => scale.data_type(),
            Scaling::Codes(format, _) => format.scale(),
        }
    }

    /// Computes the scales of blocks from their amax; `all` is the amax of the tensor.
    pub(crate) fn scales(&self, amax: &[f32], grid: &[usize], all: Option<f32>) -> Result<Tensor, CastError> {
        let (format, quantize) = match self {
            Scaling::Symmetric(scale) => return scale.scales(amax, grid),
            Scaling::Codes(format, quantize) => (*format, quantize.amax(all)),
        };
        let mut codes = quantize.scales(amax);
        if format == BlockFormat::MxInt8 {
            // Elements of MXINT8 count 64ths, but ONNX's int8 counts units, so scales are divided by 64.
            let finite = codes.iter_mut().filter(|code| **code != self.nan_scale());
            finite.for_each(|code| *code = code.saturating_sub(6));
        }
        Ok(Tensor::new(format.scale(), grid.to_vec(), codes)?)
    }

    /// Computes the amax of each block. For block formats, it is NaN if the block contains NaN or infinity. The search
    /// for these values is skipped if the data cannot contain any.
    pub(super) fn amax(&self, x: &TensorView<'_>, block: [usize; 2], losses: &Losses) -> Result<Vec<f32>, CastError> {
        let mut amax = block_amax(x, block)?;
        if matches!(self, Scaling::Codes(..)) && losses.are_in(x.data_type(), x.bytes().unwrap_or_default()) {
            mark_nan(&mut amax, x, block);
        }
        Ok(amax)
    }

    /// Returns the code of a NaN scale.
    pub(super) fn nan_scale(&self) -> u8 {
        if matches!(self, Scaling::Codes(BlockFormat::NvFp4, _)) { 0x7f } else { 0xff }
    }

    /// Returns whether any scale is NaN.
    pub(super) fn has_nan_scales(&self, scales: &[u8]) -> bool {
        matches!(self, Scaling::Codes(..)) && scales.contains(&self.nan_scale())
    }

    /// Creates two plans: one divides values by scales, the other multiplies elements by scales.
    pub(crate) fn plans(
        &self,
        [from, to]: [DataType; 2],
        block: [usize; 2],
        all: Option<f32>,
    ) -> Result<[BlockPlan; 2], OpError> {
        let (there, scale, global) = match self {
            Scaling::Symmetric(scale) => (scale.plan(from, to, block)?, scale.data_type(), None),
            Scaling::Codes(format, quantize) => {
                let global = quantize.global_scale(all.unwrap_or(0.0)).map(GlobalScale::Factor);
                (BlockPlan::quantize(from, format.scale(), to, block)?, format.scale(), global)
            }
        };
        let back = BlockPlan::dequantize(to, scale, DataType::Float, block)?;
        Ok([there, back].map(|plan| plan.global_scale(global)))
    }
}
