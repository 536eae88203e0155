//! The arithmetic of scales in each layout: `quantize` writes what it gives, and `report` predicts it.

use crate::layouts::{Arithmetic, Granularity, Layout, QuantizedFormat};
use DataType::{BFloat16, Float16, Int4, Int8};
use onnx_cast::DataType;
use onnx_cast::scaled::{BlockFormat, Recipe, SymmetricScale};

/// How scales are found, and how elements are divided by them.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Numbers {
    /// MX and NVFP4.
    Blocks(BlockFormat, Recipe),
    /// Float8 and integers.
    Linear(SymmetricScale),
}

impl Numbers {
    /// For weights of a type.
    pub(crate) fn new(arithmetic: Arithmetic, to: QuantizedFormat, from: DataType) -> Numbers {
        let data_type = match to {
            QuantizedFormat::Block(format) => return Numbers::Blocks(format, arithmetic.recipe),
            QuantizedFormat::Elements(_) | QuantizedFormat::Gguf(_) => to.element(),
        };
        let scale = SymmetricScale::new(data_type);
        if !arithmetic.in_weight_type {
            return Numbers::Linear(scale);
        }
        let least = match from {
            BFloat16 => 2f32.powi(-7),
            Float16 => 2f32.powi(-10),
            _ => f32::EPSILON,
        };
        let scale = match data_type {
            Int4 => scale.most(7.5),
            Int8 => scale.most(127.5),
            _ => scale,
        };
        Numbers::Linear(scale.scale_type(from).of_zeros(least).of_underflow(least).precision(from))
    }

    /// What a report predicts: the numbers of a layout, or of the default one; the plain one's where it lacks such
    /// weights.
    pub(crate) fn predicted(
        layout: Option<Layout>,
        to: QuantizedFormat,
        granularity: Option<Granularity>,
        from: DataType,
    ) -> Numbers {
        let layout = layout.unwrap_or(Layout::DEFAULT);
        let has_such_weights = layout.granularity(to, granularity).is_ok();
        let layout = if has_such_weights { layout } else { Layout::Plain };
        Numbers::new(layout.spec().arithmetic, to, from)
    }

    /// The type that scales are computed in.
    pub(crate) fn scale_type(&self) -> DataType {
        match self {
            Numbers::Blocks(format, _) => format.scale(),
            Numbers::Linear(scale) => scale.data_type(),
        }
    }
}
