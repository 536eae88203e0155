//! ONNX `DynamicQuantizeLinear`.

use super::extremes::{Skip, extremes};
use super::node::Attributes;
use super::{Attribute, CastError, NEWEST_OPSET, OpError, Operator, QuantizeLinear, QuantizeOptions, Role, ValueInfo};
use crate::arch::Backend;
use crate::element::DataType;
use crate::scalar::scaled::linear_scale;
use crate::scalar::with_default_float_environment;
use crate::tensor::{Tensor, TensorView};
use alloc::vec::Vec;

/// ONNX `DynamicQuantizeLinear`: quantizes floats to uint8 by a scale and a zero point that it finds.
///
/// ```
/// use onnx_cast::TensorView;
/// use onnx_cast::scaled::DynamicQuantizeLinear;
///
/// let x = [0.0f32, 2.0, -3.0, -2.5, 1.34, 0.5];
/// let found = DynamicQuantizeLinear::new(28)?.run(&TensorView::from_slice(&[6], &x)?)?;
/// assert_eq!(found.y.to_vec::<u8>(), Some(vec![153, 255, 0, 26, 221, 179]));
/// assert_eq!((found.scale, found.zero_point), (0.019607844, 153));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DynamicQuantizeLinear {
    version: i64,
    backend: Option<Backend>,
    threads: Option<usize>,
}

/// The outputs of DynamicQuantizeLinear.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct DynamicallyQuantized {
    /// The quantized elements: uint8, of the input's shape.
    pub y: Tensor,
    /// The scale.
    pub scale: f32,
    /// The zero point.
    pub zero_point: u8,
}

impl DynamicQuantizeLinear {
    /// The operator of an opset.
    ///
    /// # Errors
    /// Fails if the opset has no DynamicQuantizeLinear.
    pub fn new(opset: i64) -> Result<Self, OpError> {
        let version = Operator::DynamicQuantizeLinear.version_at(opset)?;
        Ok(DynamicQuantizeLinear { version, backend: None, threads: None })
    }

    /// The operator of a node, which has no attributes.
    ///
    /// # Errors
    /// Fails if the opset has no DynamicQuantizeLinear, or if there is an attribute.
    pub fn from_node(opset: i64, attributes: &[Attribute<'_>]) -> Result<Self, OpError> {
        let operator = DynamicQuantizeLinear::new(opset)?;
        Attributes::new(Operator::DynamicQuantizeLinear, operator.version, attributes)?;
        Ok(operator)
    }

    /// The same operator on another backend, which never changes a result; see
    /// [`CastOptions::backend`](crate::CastOptions::backend).
    #[must_use]
    pub fn backend(mut self, backend: impl Into<Option<Backend>>) -> Self {
        self.backend = backend.into();
        self
    }

    /// The same operator on at most so many threads; see [`CastOptions::threads`](crate::CastOptions::threads).
    #[must_use]
    pub fn threads(mut self, threads: impl Into<Option<usize>>) -> Self {
        self.threads = threads.into();
        self
    }

    /// The operator's version.
    pub fn version(&self) -> i64 {
        self.version
    }

    /// The types and shapes of the outputs: elements, scale and zero point.
    ///
    /// # Errors
    /// Fails if the input is not float.
    pub fn infer(&self, x: &ValueInfo) -> Result<[ValueInfo; 3], OpError> {
        Operator::DynamicQuantizeLinear.check_role(self.version, Role::Values, x.data_type)?;
        let scalar = |data_type| ValueInfo { data_type, shape: Some(Vec::new()) };
        let y = ValueInfo { data_type: DataType::Uint8, shape: x.shape.clone() };
        Ok([y, scalar(DataType::Float), scalar(DataType::Uint8)])
    }

    /// The scale and the zero point of a tensor, by ONNX's formulas in float, each operation rounded once. NaN is
    /// passed over. If every element is 0, or there is none, they are 1 and 0.
    ///
    /// # Errors
    /// Fails if the input is not float.
    pub fn scale(&self, x: &TensorView<'_>) -> Result<(f32, u8), OpError> {
        let extremes = self.extremes(x)?;
        let (scale, zero_point) = with_default_float_environment(|| linear_scale(extremes, [0.0, 255.0]));
        Ok((scale, zero_point as u8))
    }

    /// The lowest and the greatest of a tensor's elements and 0, on which alone the scale depends: that of a tensor in
    /// parts is that of the parts' extremes. NaN is passed over.
    ///
    /// # Errors
    /// Fails if the input is not float.
    pub fn extremes(&self, x: &TensorView<'_>) -> Result<[f32; 2], OpError> {
        Operator::DynamicQuantizeLinear.check_role(self.version, Role::Values, x.data_type())?;
        Ok(extremes(x, Skip::Nan, self.backend, self.threads))
    }

    /// Quantizes a tensor.
    ///
    /// # Errors
    /// Fails if the input is not float, or if the result does not fit in memory.
    pub fn run(&self, x: &TensorView<'_>) -> Result<DynamicallyQuantized, CastError> {
        let (scale, zero_point) = self.scale(x)?;
        let (scales, zero_points) = ([scale], [zero_point]);
        let options = QuantizeOptions::new().opset(NEWEST_OPSET).backend(self.backend).threads(self.threads);
        let scale_view = TensorView::from_slice(&[], &scales)?;
        let y =
            QuantizeLinear::new(&options)?.run(x, &scale_view, Some(&TensorView::from_slice(&[], &zero_points)?))?;
        Ok(DynamicallyQuantized { y, scale, zero_point })
    }
}
