//! Linear scales from the range of a tensor's values: per tensor, per axis or per block.

use alloc::vec;
use alloc::vec::Vec;
mod symmetric;

pub use symmetric::SymmetricScale;

use super::extremes::{Skip, extremes_of_scales};
use super::scaled::check_value_type;
use super::scaled::layout::Layout;
use super::{
    CastError, NEWEST_OPSET, OpError, OpErrorKind, Operator, QuantizeLinear, QuantizeOptions, Role, option_setters,
};
use crate::arch::Backend;
use crate::element::{DataType, Kind};
use crate::scalar::scaled::finite_linear_scale;
use crate::scalar::{DefaultEnvironment, Rules};
use crate::tensor::{Tensor, TensorErrorKind, TensorView, element_count};

/// Quantizes by scales that it finds from the largest magnitudes, or from the ranges, of the values.
///
/// Symmetric, the default: the scale is `amax / max`, in float, where `max` is the type's largest number and `amax` the
/// largest finite magnitude. Asymmetric, for integers: the range from the lowest to the highest finite value, 0
/// included, is mapped to the range of the type, with a zero point. Where all values are 0, the scale is 1. The scale
/// is finite: if a range is wider than the largest float, both ends are divided before they are subtracted.
///
/// ```
/// use onnx_cast::{DataType, TensorView};
/// use onnx_cast::scaled::LinearScale;
///
/// let x = [1.0f32, -2.54, 0.5, 25.4];
/// let found = LinearScale::new(DataType::Int8).axis(0).run(&TensorView::from_slice(&[2, 2], &x)?)?;
/// assert_eq!(found.scale.to_vec::<f32>(), Some(vec![0.02, 0.2]));
/// assert_eq!(found.y.to_vec::<i8>(), Some(vec![50, -127, 2, 127]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct LinearScale {
    to: DataType,
    axis: Option<i64>,
    block_size: usize,
    is_asymmetric: bool,
    backend: Option<Backend>,
    threads: Option<usize>,
}

/// A quantized tensor with the scales that were found.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct LinearlyScaled {
    /// The quantized elements, of the input's shape.
    pub y: Tensor,
    /// The scales: float, of the shape that QuantizeLinear takes.
    pub scale: Tensor,
    /// The zero points, of the same shape; `None` of symmetric scales.
    pub zero_point: Option<Tensor>,
}

impl LinearScale {
    /// One symmetric scale for the tensor.
    pub const fn new(to: DataType) -> Self {
        LinearScale { to, axis: None, block_size: 0, is_asymmetric: false, backend: None, threads: None }
    }

    /// A scale for each element of an axis; negative from the end.
    pub const fn axis(mut self, axis: i64) -> Self {
        self.axis = Some(axis);
        self
    }

    /// A scale for each block of so many elements on the axis, which is the last unless [`LinearScale::axis`] is set.
    pub const fn block_size(mut self, block_size: usize) -> Self {
        self.block_size = block_size;
        self
    }

    /// Finds zero points too.
    pub const fn asymmetric(mut self) -> Self {
        self.is_asymmetric = true;
        self
    }

    option_setters! {
        /// Sets the backend, which never changes a result.
        backend: Backend;
        /// Sets the most threads.
        threads: usize;
    }

    /// Quantizes a tensor of float, float16 or bfloat16.
    ///
    /// # Errors
    /// Fails if QuantizeLinear does not have one of the types, if the input has no such axis, if the type of the result
    /// has no sign and the scales are symmetric, or if it is a float and they are asymmetric.
    pub fn run(&self, x: &TensorView<'_>) -> Result<LinearlyScaled, CastError> {
        let _environment = DefaultEnvironment::enter();
        let operator = Operator::QuantizeLinear;
        operator.check_role(NEWEST_OPSET, Role::Quantized, self.to)?;
        check_value_type(x.data_type())?;
        let fits = match self.to.info().kind {
            Kind::Uint => self.is_asymmetric,
            Kind::Int => true,
            _ => !self.is_asymmetric,
        };
        if !fits {
            return Err(OpErrorKind::Symmetry { data_type: self.to, is_asymmetric: self.is_asymmetric }.into());
        }
        let axis = self.axis.unwrap_or(-1);
        let shape = self.scale_shape(x.shape(), axis)?;
        let layout = Layout::new(x.shape(), &shape, axis, self.block_size)?;
        let too_large = || TensorErrorKind::TooLarge { data_type: DataType::Float, shape: shape.clone() };
        let count = element_count(&shape).ok_or_else(too_large)?;
        let ranges = extremes_of_scales(x, layout, count, Skip::NotFinite, self.backend, self.threads);
        let ranges = ranges.ok_or_else(too_large)?;
        let (scale, zero_point) = if self.is_asymmetric {
            let range = super::ScaledPlan::range(self.to, &Rules::newest(self.to));
            let (mut scales, mut zeros) = (Vec::new(), Vec::new());
            scales.try_reserve_exact(count).map_err(|_| too_large())?;
            zeros.try_reserve_exact(count).map_err(|_| too_large())?;
            for found in ranges {
                let (scale, zero) = finite_linear_scale(found, range);
                scales.push(scale);
                zeros.push(zero);
            }
            let zeros = Tensor::from_slice(shape.clone(), &zeros)?;
            let zeros =
                super::Cast::new(self.to, &super::CastOptions::new().backend(self.backend).threads(self.threads))?
                    .run(&zeros.view())?;
            (Tensor::from_slice(shape, &scales)?, Some(zeros))
        } else {
            let mut amax = Vec::new();
            amax.try_reserve_exact(count).map_err(|_| too_large())?;
            amax.extend(ranges.into_iter().map(|[low, high]| high.max(-low)));
            (SymmetricScale::new(self.to).scales(&amax, &shape)?, None)
        };
        let options = QuantizeOptions::new().axis(axis).block_size(self.block_size).output_dtype(self.to);
        let options = options.backend(self.backend).threads(self.threads);
        // The scale is float, so quotients are.
        let zero_view = zero_point.as_ref().map(Tensor::view);
        let y = QuantizeLinear::new(&options)?.run(x, &scale.view(), zero_view.as_ref())?;
        Ok(LinearlyScaled { y, scale, zero_point })
    }

    /// The shape of the scales.
    fn scale_shape(&self, shape: &[usize], axis: i64) -> Result<Vec<usize>, OpError> {
        if self.axis.is_none() && self.block_size == 0 {
            return Ok(Vec::new());
        }
        let rank = shape.len();
        let index = if axis < 0 { axis + rank as i64 } else { axis };
        let index =
            usize::try_from(index).ok().filter(|&index| index < rank).ok_or(OpErrorKind::Axis { axis, rank })?;
        if self.block_size == 0 {
            return Ok(vec![shape[index]]);
        }
        let mut shape = shape.to_vec();
        shape[index] = shape[index].div_ceil(self.block_size);
        Ok(shape)
    }
}
