//! The arithmetic of scales in each layout: `quantize` writes what it gives, and `report` predicts it.

use crate::layouts::{Arithmetic, Granularity, QuantizedFormat, Scheme};
use DataType::{BFloat16, Float, Float8E4M3FN, Float8E5M2, Float16, Int4, Int8};
use onnx_cast::{
    BlockFormat, BlockPlan, BlockQuantize, Cast, CastError, CastOptions, DataType, OpError, Recipe, ScaleRule, Tensor,
};

/// How scales are found, and how elements are divided by them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Numbers {
    /// The type that scales are computed in.
    pub(crate) scale_type: DataType,
    /// What the greatest magnitude of a block becomes.
    most: f32,
    /// The scale of a block of zeros.
    zero_scale: f32,
    /// The type that quotients are rounded to first.
    precision: DataType,
    /// Of NVFP4.
    pub(crate) recipe: Recipe,
}

impl Numbers {
    /// For weights of a type.
    pub(crate) fn new(arithmetic: Arithmetic, to: QuantizedFormat, from: DataType) -> Numbers {
        let recipe = arithmetic.recipe;
        let data_type = match to {
            QuantizedFormat::Block(format) => {
                let scale_type = format.scale();
                return Numbers { scale_type, most: 1.0, zero_scale: 1.0, precision: Float, recipe };
            }
            QuantizedFormat::Elements(_) | QuantizedFormat::Gguf(_) => to.element(),
        };
        let most = match data_type {
            Float8E4M3FN => 448.0,
            Float8E5M2 => 57344.0,
            Int4 => 7.0,
            _ => 127.0,
        };
        let plain = Numbers { scale_type: Float, most, zero_scale: 1.0, precision: Float, recipe };
        if !arithmetic.in_weight_type {
            return plain;
        }
        Numbers {
            scale_type: from,
            most: if matches!(data_type, Int4 | Int8) { most + 0.5 } else { most },
            zero_scale: match from {
                BFloat16 => 2f32.powi(-7),
                Float16 => 2f32.powi(-10),
                _ => f32::EPSILON,
            },
            precision: from,
            recipe,
        }
    }

    /// What a report predicts: the numbers of a layout, or of the default one; the plain one's where it lacks such
    /// weights.
    pub(crate) fn predicted(
        layout: Option<Scheme>,
        to: QuantizedFormat,
        granularity: Option<Granularity>,
        from: DataType,
    ) -> Numbers {
        let layout = layout.unwrap_or(Scheme::DEFAULT);
        let has_such_weights = layout.granularity(to, granularity).is_ok();
        let layout = if has_such_weights { layout } else { Scheme::Plain };
        Numbers::new(layout.row().arithmetic, to, from)
    }

    /// What quantizes to a block format.
    pub(crate) fn blocks(&self, format: BlockFormat, rule: ScaleRule) -> BlockQuantize {
        BlockQuantize::new(format).rule(rule).recipe(self.recipe).threads(1)
    }

    /// What divides elements by scales of float.
    pub(crate) fn plan(&self, from: DataType, to: DataType, block: [usize; 2]) -> Result<BlockPlan, OpError> {
        BlockPlan::quantize(from, self.scale_type, to, block)?.precision(self.precision)
    }

    /// Scales of blocks with these greatest magnitudes.
    pub(crate) fn scales(&self, greatest: &[f32], grid: &[usize]) -> Result<Tensor, CastError> {
        let scale = |greatest: &f32| match greatest / self.most {
            0.0 => self.zero_scale,
            scale => scale,
        };
        self.narrow(greatest.iter().map(scale).collect(), grid)
    }

    /// Scales in the type that the file has.
    fn narrow(&self, scales: Vec<f32>, shape: &[usize]) -> Result<Tensor, CastError> {
        let scales = Tensor::from_slice(shape.to_vec(), &scales)?;
        if self.scale_type == Float {
            return Ok(scales);
        }
        let cast = Cast::new(self.scale_type, &CastOptions::new().threads(1))?;
        let narrowed = cast.run(&scales.view())?;
        // A scale that underflows is written as that of zeros.
        let widened = Cast::new(Float, &CastOptions::new())?.run(&narrowed.view())?.to_vec::<f32>();
        let mut widened = widened.unwrap_or_default();
        if !widened.contains(&0.0) {
            return Ok(narrowed);
        }
        widened.iter_mut().filter(|scale| **scale == 0.0).for_each(|scale| *scale = self.zero_scale);
        cast.run(&Tensor::from_slice(shape.to_vec(), &widened)?.view())
    }
}
