//! Symmetric scales from the largest magnitude: the arithmetic that quantizers share, and the parameters in which they
//! differ.

use crate::element::DataType;
use crate::ops::{BlockPlan, Cast, CastError, CastOptions, OpError, ScaledPlan};
use crate::scalar::{DefaultEnvironment, Rules, widen_code};
use crate::tensor::{Tensor, TensorErrorKind};
use alloc::vec::Vec;

/// Defines how the scale of values is derived from their largest magnitude, and how the values are divided by it.
///
/// The scale is `amax / max`, in float. By default `max` is the largest number of the elements' type, scales are
/// float, and the scale is 1 for zeros and for values whose scale underflows to 0.
///
/// ```
/// use onnx_cast::DataType;
/// use onnx_cast::scaled::SymmetricScale;
///
/// let scale = SymmetricScale::new(DataType::Int8);
/// assert_eq!(scale.scales(&[2.54, 0.0], &[2])?.to_vec::<f32>(), Some(vec![0.02, 1.0]));
/// // The whole range of the integers, and the scale of zeros that keeps them zeros in a narrow type.
/// let scale = scale.max(127.5).of_zeros(f32::EPSILON);
/// assert_eq!(scale.scales(&[255.0, 0.0], &[2])?.to_vec::<f32>(), Some(vec![2.0, f32::EPSILON]));
/// # Ok::<(), onnx_cast::CastError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SymmetricScale {
    max: f32,
    data_type: DataType,
    of_zeros: f32,
    of_underflow: f32,
    precision: DataType,
}

impl SymmetricScale {
    /// For elements of a type.
    pub fn new(to: DataType) -> Self {
        let max = match to.float_format() {
            Some(format) => widen_code(format, format.max_code() as u32),
            None => ScaledPlan::range(to, &Rules::newest(to))[1],
        };
        let (data_type, precision) = (DataType::Float, DataType::Float);
        SymmetricScale { max, data_type, of_zeros: 1.0, of_underflow: 1.0, precision }
    }

    /// Sets the number that the largest magnitude becomes.
    pub const fn max(self, max: f32) -> Self {
        SymmetricScale { max, ..self }
    }

    /// Sets the type of scales: float, float16 or bfloat16.
    pub const fn scale_type(self, data_type: DataType) -> Self {
        SymmetricScale { data_type, ..self }
    }

    /// Sets the scale of zeros.
    pub const fn of_zeros(self, of_zeros: f32) -> Self {
        SymmetricScale { of_zeros, ..self }
    }

    /// Sets the scale of nonzero values whose computed scale underflows to 0.
    pub const fn of_underflow(self, of_underflow: f32) -> Self {
        SymmetricScale { of_underflow, ..self }
    }

    /// Sets the type that quotients are rounded to before they are rounded to elements: float, float16 or bfloat16.
    pub const fn precision(self, precision: DataType) -> Self {
        SymmetricScale { precision, ..self }
    }

    /// The type of scales.
    pub const fn data_type(&self) -> DataType {
        self.data_type
    }

    /// The scales of values with these largest magnitudes, as a tensor of a shape.
    ///
    /// # Errors
    /// Fails if the shape has another number of elements, or if the type of scales is not float, float16 or bfloat16.
    pub fn scales(&self, amax: &[f32], shape: &[usize]) -> Result<Tensor, CastError> {
        let _environment = DefaultEnvironment::enter();
        let scale = |&amax: &f32| match amax / self.max {
            0.0 if amax == 0.0 => self.of_zeros,
            0.0 => self.of_underflow,
            scale => scale,
        };
        let too_large = |_| TensorErrorKind::TooLarge { data_type: DataType::Float, shape: shape.to_vec() };
        let mut scales = Vec::new();
        scales.try_reserve_exact(amax.len()).map_err(too_large)?;
        scales.extend(amax.iter().map(scale));
        let scales = Tensor::from_slice(shape.to_vec(), &scales)?;
        if self.data_type == DataType::Float {
            return Ok(scales);
        }
        super::check_value_type(self.data_type)?;
        let options = CastOptions::new().threads(1);
        let narrow = Cast::new(self.data_type, &options)?;
        let narrowed = narrow.run(&scales.view())?;
        let widened = Cast::new(DataType::Float, &options)?.run(&narrowed.view())?;
        let mut widened = widened.to_vec::<f32>().unwrap_or_default();
        if !widened.contains(&0.0) {
            return Ok(narrowed);
        }
        widened.iter_mut().filter(|scale| **scale == 0.0).for_each(|scale| *scale = self.of_underflow);
        narrow.run(&Tensor::from_slice(shape.to_vec(), &widened)?.view())
    }

    /// What divides values by scales of blocks of rows and columns.
    ///
    /// # Errors
    /// As [`BlockPlan::quantize`] and [`BlockPlan::precision`].
    pub fn plan(&self, from: DataType, to: DataType, block: [usize; 2]) -> Result<BlockPlan, OpError> {
        BlockPlan::quantize(from, self.data_type, to, block)?.precision(self.precision)
    }
}
