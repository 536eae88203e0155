//! A constant of a model that is quantized: its values stay where they are, and what DequantizeLinear reads is computed
//! part by part.

use super::blocks::{ElementSource, GlobalScaleSource, ScaleSource};
use super::losses::Losses;
use super::scaling::{How, Scaling};
use super::values::StoredValues;
use super::weight::{Walk, Weight};
use crate::counts::Counter;
use crate::layouts::QuantizedFormat;
use crate::pipeline::{Amax, CHUNK, Compute};
use onnx_cast::DataType;
use onnx_cast::ops::OpError;
use onnx_cast::scaled::{BlockFormat, BlockQuantize, ScaleRule, SymmetricScale};
use std::fmt;
use std::sync::{Arc, OnceLock};

/// A constant, and how it is quantized.
#[derive(Clone, Debug)]
pub struct ConstantRequest<'a> {
    /// Where its values are.
    pub values: StoredValues<'a>,
    /// Their type: float, float16 or bfloat16. Scales of float8 and integers have it, too.
    pub from: DataType,
    /// The sizes before an axis, of the axis, and behind it.
    pub shape: [usize; 3],
    /// What it is quantized to.
    pub to: QuantizedFormat,
    /// What has a scale.
    pub scaled: Scaled,
    /// The rule for scales of MX.
    pub rule: ScaleRule,
    /// The largest element of an integer type, if it is not the largest of the type.
    pub max: Option<f32>,
    /// Whether all that is lost is counted, not only what overflows or is NaN.
    pub counts: bool,
}

/// What has a scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scaled {
    /// The tensor.
    Tensor,
    /// Each index of the axis.
    Axis,
    /// Each block of so many elements on the axis.
    Blocks(usize),
}

impl Scaled {
    /// The matrices that values of these sizes form, and the rows and columns of their blocks. Matrices whose blocks
    /// have one row are one matrix: a row of packed elements may end within a byte, a matrix may not.
    fn matrices(self, sizes: [usize; 3]) -> ([usize; 3], [usize; 2]) {
        let ([count, rows, columns], block) = self.split(sizes);
        match block {
            [1, _] if !matches!(self, Scaled::Axis) => ([1, count * rows, columns], block),
            _ => ([count, rows, columns], block),
        }
    }

    fn split(self, [outer, axis, inner]: [usize; 3]) -> ([usize; 3], [usize; 2]) {
        let all = outer * axis * inner;
        match self {
            Scaled::Tensor => ([1, 1, all], [1, all.max(1)]),
            Scaled::Axis if inner == 1 => ([1, outer, axis], [outer.max(1), 1]),
            Scaled::Axis => ([outer, axis, inner], [1, inner.max(1)]),
            Scaled::Blocks(size) if inner == 1 => ([1, outer, axis], [1, size.clamp(1, axis.max(1))]),
            Scaled::Blocks(size) => ([outer, axis, inner], [size.clamp(1, axis.max(1)), 1]),
        }
    }
}

/// The type of elements, what finds their scales, and the type of these.
fn scaling(to: QuantizedFormat, from: DataType, rule: ScaleRule, max: Option<f32>) -> (DataType, Scaling, DataType) {
    match to {
        QuantizedFormat::Block(format) => {
            let quantize = BlockQuantize::new(format).rule(rule).threads(1);
            (format.element(), Scaling::Codes(format, quantize), format.scale())
        }
        QuantizedFormat::Elements(_) | QuantizedFormat::Gguf(_) => {
            let element = to.element();
            let scale = symmetric(element, from);
            (element, Scaling::Symmetric(max.map_or(scale, |max| scale.max(max))), from)
        }
    }
}

/// How scales for elements of a type are computed. A scale that underflows becomes the smallest positive number in
/// float16, and the smallest normal number in bfloat16. The default, 1, would lose values that these scales keep.
fn symmetric(element: DataType, scale_type: DataType) -> SymmetricScale {
    let scale = SymmetricScale::new(element).scale_type(scale_type);
    match scale_type {
        DataType::Float16 => scale.of_underflow(2f32.powi(-24)),
        DataType::BFloat16 => scale.of_underflow(f32::MIN_POSITIVE),
        _ => scale,
    }
}

/// The tensors of a quantized constant.
pub struct QuantizedConstant<'a> {
    /// The elements, as the values lie.
    pub elements: Arc<dyn Compute + 'a>,
    /// The scales: one, one for each index of the axis, or one for each block of it.
    pub scales: Arc<dyn Compute + 'a>,
    /// Their type.
    pub scale_type: DataType,
    /// NVFP4's scale of the tensor.
    pub global: Option<Arc<dyn Compute + 'a>>,
    /// What a pass over the values has to find first.
    pub amax: Option<Arc<Amax>>,
    /// Counts what is lost while elements are computed.
    pub counter: Arc<Counter>,
}

impl fmt::Debug for QuantizedConstant<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QuantizedConstant").field("scale_type", &self.scale_type).finish_non_exhaustive()
    }
}

impl<'a> ConstantRequest<'a> {
    /// What computes the tensors.
    ///
    /// # Errors
    /// Where the types are not those of a quantized constant.
    pub fn quantized(self) -> Result<QuantizedConstant<'a>, OpError> {
        let ConstantRequest { values, from, shape: [outer, axis, inner], to, scaled, rule, max, counts } = self;
        let (element, scaling, scale_type) = scaling(to, from, rule, max);
        let (matrices, block) = scaled.matrices([outer, axis, inner]);
        let [_, _, columns] = matrices;
        let bits = element.bits().unwrap_or(8);
        let is_down = block[0] > 1;
        // Rows that end within bytes, and long rows that end within blocks, have their scales found first.
        let has_odd_rows = match scaled {
            Scaled::Blocks(_) if is_down => !(columns * bits).is_multiple_of(8),
            Scaled::Blocks(_) => !columns.is_multiple_of(block[1]) && columns > 4 * CHUNK,
            _ => false,
        };
        let is_ahead = !matches!(scaled, Scaled::Blocks(_)) || has_odd_rows;
        let amax = match to {
            _ if is_ahead => {
                let marks_nan = matches!(scaling, Scaling::Codes(..));
                Some(Arc::new(Amax::of_blocks(from, matrices, block).marks_nan(marks_nan)))
            }
            QuantizedFormat::Block(BlockFormat::NvFp4) => Some(Arc::new(Amax::of_all(from))),
            _ => None,
        };
        let losses = Losses::new(from, None, counts)?;
        let counter = losses.counter();
        let weight = Arc::new(Weight {
            values,
            from,
            matrices,
            walk: match scaled {
                Scaled::Blocks(_) if is_down && !has_odd_rows => Walk::Bands { pairs_rows: false },
                Scaled::Axis if is_down && bits == 8 && columns <= CHUNK => Walk::Columns,
                _ => Walk::Rows,
            },
            element,
            block,
            container: element,
            scale_type,
            how: How::Scaled(scaling),
            amax: amax.clone(),
            is_ahead,
            shares_scales: scaled == Scaled::Axis && outer > 1 && inner > 1,
            has_scales_beside: false,
            is_in_tiles: false,
            scales: OnceLock::new(),
            has_nan_scales: OnceLock::new(),
            losses,
        });
        let global = GlobalScaleSource { weight: Arc::clone(&weight) };
        let has_global = to == QuantizedFormat::Block(BlockFormat::NvFp4);
        Ok(QuantizedConstant {
            elements: Arc::new(ElementSource { weight: Arc::clone(&weight) }),
            scales: Arc::new(ScaleSource { weight, scaling }),
            scale_type,
            global: has_global.then(|| Arc::new(global) as Arc<dyn Compute + 'a>),
            amax,
            counter,
        })
    }
}
