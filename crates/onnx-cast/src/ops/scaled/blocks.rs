//! Scaled casts by blocks of rows and columns, for which ONNX has no word and checkpoints have many.

use super::layout::Layout;
use super::tiles::Adjust;
use super::{BoundScaledPlan, Direction, ScaledPlan, check_type, check_value_type, new_tensor};
use crate::arch::Backend;
use crate::element::DataType;
use crate::ops::{CastError, NEWEST_OPSET, OpError, OpErrorKind, Operator, Role};
use crate::scalar::scaled::Precision;
use crate::tensor::{Tensor, TensorView};

/// The float of a tensor with which each scale of a block is combined, rounded to float.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum GlobalScale {
    /// Scales are multiplied by it, as ModelOpt's.
    Factor(f32),
    /// Scales are divided by it, as those of compressed-tensors.
    Divisor(f32),
}

impl GlobalScale {
    /// The float that is stored.
    pub fn value(self) -> f32 {
        let (GlobalScale::Factor(value) | GlobalScale::Divisor(value)) = self;
        value
    }

    /// Whether scales are divided by it.
    pub fn divides(self) -> bool {
        matches!(self, GlobalScale::Divisor(_))
    }
}

/// A scaled cast by a scale for each block of rows and columns of the last two axes, the last block of each may be
/// smaller. The arithmetic is that of QuantizeLinear and DequantizeLinear, with quotients and products in float.
///
/// ```
/// use onnx_cast::{DataType, TensorView};
/// use onnx_cast::scaled::BlockPlan;
///
/// // Three rows of two float8e4m3fn, and a scale for each two rows.
/// let plan = BlockPlan::dequantize(DataType::Float8E4M3FN, DataType::Float, DataType::Float, [2, 2])?;
/// let scale = [10.0f32, 100.0];
/// let bound = plan.bind(&[3, 2], &TensorView::from_slice(&[2, 1], &scale)?, None)?;
/// let mut out = [0; 8];
/// bound.run_part(3, 2, &[0x38, 0x40], &mut out)?;
/// assert_eq!(out[..4], 10f32.to_le_bytes());
/// assert_eq!(out[4..], 200f32.to_le_bytes());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct BlockPlan {
    plan: ScaledPlan,
    block: [usize; 2],
    global: Option<GlobalScale>,
}

impl BlockPlan {
    /// From elements of 16 bits or fewer, or int32, to float, float16 or bfloat16, by scales of a type.
    ///
    /// # Errors
    /// Fails if one of the types is another one.
    pub fn dequantize(from: DataType, scale: DataType, to: DataType, block: [usize; 2]) -> Result<BlockPlan, OpError> {
        let operator = Operator::DequantizeLinear;
        operator.check_role(NEWEST_OPSET, Role::Quantized, from)?;
        check_value_type(to)?;
        BlockPlan::new(Direction::Dequantize, from, scale, to, block)
    }

    /// From float, float16 or bfloat16 to elements of 16 bits or fewer, saturated, by scales of a type.
    ///
    /// # Errors
    /// Fails if one of the types is another one.
    pub fn quantize(from: DataType, scale: DataType, to: DataType, block: [usize; 2]) -> Result<BlockPlan, OpError> {
        let operator = Operator::QuantizeLinear;
        check_value_type(from)?;
        operator.check_role(NEWEST_OPSET, Role::Quantized, to)?;
        BlockPlan::new(Direction::Quantize, from, scale, to, block)
    }

    fn new(
        direction: Direction,
        from: DataType,
        scale: DataType,
        to: DataType,
        block: [usize; 2],
    ) -> Result<BlockPlan, OpError> {
        let is_scale = matches!(
            scale,
            DataType::Float | DataType::Float16 | DataType::BFloat16 | DataType::Float8E8M0 | DataType::Float8E4M3FN
        );
        if !is_scale {
            return Err(OpErrorKind::ScaleType { data_type: scale }.into());
        }
        let plan = ScaledPlan { scale, ..ScaledPlan::of_blocks(direction, from, to, None, None, None) };
        Ok(BlockPlan { plan, block, global: None })
    }

    /// Sets the global scale, with which each scale is combined first.
    pub fn global_scale(mut self, global: Option<GlobalScale>) -> Self {
        self.global = global;
        self
    }

    /// The same plan on another backend, which never changes a result; see
    /// [`CastOptions::backend`](crate::CastOptions::backend).
    #[must_use]
    pub fn backend(mut self, backend: impl Into<Option<Backend>>) -> Self {
        self.plan.backend = backend.into().unwrap_or_else(Backend::best);
        self.plan.kernel = self.plan.backend.table().scaled(self.plan.from, self.plan.to);
        self
    }

    /// The same plan on at most so many threads, of which [`BlockPlan::run`] makes use; see
    /// [`CastOptions::threads`](crate::CastOptions::threads).
    #[must_use]
    pub fn threads(mut self, threads: impl Into<Option<usize>>) -> Self {
        self.plan.threads = threads.into();
        self
    }

    /// Sets the type that quotients are rounded to first: float, which it is without this, float16 or bfloat16.
    ///
    /// # Errors
    /// Fails if the type is another one.
    pub fn precision(mut self, data_type: DataType) -> Result<Self, OpError> {
        let wrong = OpErrorKind::Precision { version: NEWEST_OPSET, data_type };
        self.plan.precision = Precision::of(data_type).ok_or(wrong)?;
        Ok(self)
    }

    /// The type of the input.
    pub fn source_type(&self) -> DataType {
        self.plan.source_type()
    }

    /// The type of the result.
    pub fn target_type(&self) -> DataType {
        self.plan.target_type()
    }

    /// The plan with the scales of a tensor, for a tensor of two dimensions or more; it can cast that part by part.
    ///
    /// # Errors
    /// Fails if the scales, or the zero points, are of another type, or not one for each block.
    pub fn bind<'a>(
        &'a self,
        shape: &[usize],
        scale: &TensorView<'a>,
        zero_point: Option<&TensorView<'a>>,
    ) -> Result<BoundScaledPlan<'a>, CastError> {
        let layout = Layout::of_blocks(shape, scale.shape(), self.block)?;
        let adjust = match self.global {
            None => Adjust::None,
            Some(GlobalScale::Factor(factor)) => Adjust::Times(factor),
            Some(GlobalScale::Divisor(divisor)) => Adjust::Over(divisor),
        };
        self.plan.bind_layout(shape, layout, scale, zero_point, adjust)
    }

    /// Casts a tensor of two dimensions or more to a new one of the same shape.
    ///
    /// ```
    /// use onnx_cast::{DataType, TensorView};
    /// use onnx_cast::scaled::BlockPlan;
    ///
    /// // Two rows of three int8, and a scale for each two columns of both rows.
    /// let plan = BlockPlan::dequantize(DataType::Int8, DataType::Float, DataType::Float, [2, 2])?;
    /// let (x, scale) = ([1i8, 2, 3, -4, -5, -6], [0.5f32, 10.0]);
    /// let (x, scale) = (TensorView::from_slice(&[2, 3], &x)?, TensorView::from_slice(&[1, 2], &scale)?);
    /// assert_eq!(plan.run(&x, &scale, None)?.to_vec::<f32>(), Some(vec![0.5, 1.0, 30.0, -2.0, -2.5, -60.0]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`BlockPlan::bind`], and if the input is of another type, or the result does not fit in memory.
    pub fn run(
        &self,
        x: &TensorView<'_>,
        scale: &TensorView<'_>,
        zero_point: Option<&TensorView<'_>>,
    ) -> Result<Tensor, CastError> {
        check_type(x, self.plan.from)?;
        let bound = self.bind(x.shape(), scale, zero_point)?.bound;
        new_tensor(self.plan.to, x.shape(), |out| {
            self.plan.execute(&bound, x.bytes().unwrap_or_default(), x.len(), out);
            Ok(())
        })
    }
}
