//! QuantizeLinear and DequantizeLinear with their scale and zero point, and the scale of DynamicQuantizeLinear.

use crate::array::Contiguous;
use crate::error::of_cast;
use crate::job::packed;
use crate::pool::with_threads;
use crate::types::type_of;
use numpy::{PyUntypedArray, PyUntypedArrayMethods};
use onnx_cast::ops::Attribute;
use onnx_cast::ops::OpError;
use onnx_cast::scaled::{DequantizeLinear, DynamicQuantizeLinear, QuantizeLinear, ScaledPlan};
use onnx_cast::{CastError, DataType, NEWEST_OPSET, Tensor, TensorView};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

/// A scaled cast, but for the type of what it casts.
pub(crate) struct Scaled {
    operator: Direction,
    scale: Tensor,
    zero_point: Option<Tensor>,
    to: DataType,
    threads: Option<usize>,
}

enum Direction {
    Quantize(QuantizeLinear),
    Dequantize(DequantizeLinear),
}

impl Direction {
    fn plan(&self, x: DataType, scale: DataType, zero_point: Option<DataType>) -> Result<ScaledPlan, OpError> {
        match self {
            Direction::Quantize(operator) => operator.plan(x, scale, zero_point),
            Direction::Dequantize(operator) => operator.plan(x, scale, zero_point),
        }
    }
}

/// The type of an array's elements.
pub(crate) fn type_of_array(array: &Bound<'_, PyUntypedArray>) -> PyResult<DataType> {
    let dtype = array.dtype();
    type_of(&dtype)?.ok_or_else(|| PyTypeError::new_err(format!("ONNX has no type for {dtype}")))
}

/// The elements of an array, in memory of their own.
fn tensor(array: &Bound<'_, PyUntypedArray>) -> PyResult<Tensor> {
    let data_type = type_of_array(array)?;
    let source = Contiguous::of(array)?;
    let bytes = packed(data_type, source.bytes(), array.len()).into_owned();
    Tensor::new(data_type, source.shape().to_vec(), bytes).map_err(of_cast)
}

/// Works on the elements of an array where they are, while other Python threads run.
fn with_elements<R: Send, E: Into<CastError> + Send>(
    array: &Bound<'_, PyUntypedArray>,
    work: impl FnOnce(&TensorView<'_>) -> Result<R, E> + Send,
) -> PyResult<R> {
    let (data_type, len) = (type_of_array(array)?, array.len());
    let source = Contiguous::of(array)?;
    let (shape, bytes) = (source.shape(), source.bytes());
    let with_view = || {
        let bytes = packed(data_type, bytes, len);
        TensorView::new(data_type, shape, &bytes).map(|view| work(&view))
    };
    array.py().detach(|| with_threads(with_view))?.map_err(of_cast)?.map_err(of_cast)
}

impl Scaled {
    pub(crate) fn new(
        name: &str,
        opset: i64,
        attributes: &[Attribute<'_>],
        scale: &Bound<'_, PyUntypedArray>,
        zero_point: Option<&Bound<'_, PyUntypedArray>>,
        threads: Option<usize>,
    ) -> PyResult<Self> {
        let scale = tensor(scale)?;
        let zero_point = zero_point.map(tensor).transpose()?;
        let zero_type = zero_point.as_ref().map(Tensor::data_type);
        // The type of the result does not depend on the input's; of the inputs' types every version takes one of these.
        let (operator, inputs) = match name {
            "QuantizeLinear" => {
                let operator = QuantizeLinear::from_node(opset, attributes).map_err(of_cast)?;
                (Direction::Quantize(operator), [DataType::Float, scale.data_type()])
            }
            _ => {
                let operator = DequantizeLinear::from_node(opset, attributes).map_err(of_cast)?;
                let input = zero_type.unwrap_or(DataType::Int8);
                (Direction::Dequantize(operator), [input, input])
            }
        };
        let plan = |input| operator.plan(input, scale.data_type(), zero_type);
        // Where neither will do, the first error is about the scale or the zero point, the second may be about the type
        // that was tried.
        let to = plan(inputs[0]).or_else(|error| plan(inputs[1]).map_err(|_| error)).map_err(of_cast)?.target_type();
        Ok(Scaled { operator, scale, zero_point, to, threads })
    }

    pub(crate) fn target_type(&self) -> DataType {
        self.to
    }

    pub(crate) fn plan(&self, from: DataType) -> PyResult<ScaledPlan> {
        let zero_point = self.zero_point.as_ref().map(Tensor::data_type);
        let plan = self.operator.plan(from, self.scale.data_type(), zero_point).map_err(of_cast)?;
        Ok(plan.with_threads(self.threads))
    }

    /// Casts a tensor to bytes; either may have elements narrower than a byte that stand one in a byte.
    pub(crate) fn run(
        &self,
        py: Python<'_>,
        plan: &ScaledPlan,
        (shape, src, src_spread): (&[usize], &[u8], bool),
        (dst, dst_spread): (&mut [u8], bool),
    ) -> PyResult<()> {
        let (from, to) = (plan.source_type(), plan.target_type());
        py.detach(|| {
            with_threads(|| -> Result<(), CastError> {
                let len = shape.iter().product();
                let src = if src_spread { packed(from, src, len) } else { src.into() };
                let x = TensorView::new(from, shape, &src)?;
                let zero_point = self.zero_point.as_ref().map(Tensor::view);
                if !dst_spread {
                    return plan.run_into(&x, &self.scale.view(), zero_point.as_ref(), dst);
                }
                let result = plan.run(&x, &self.scale.view(), zero_point.as_ref())?;
                // `dst` has a byte for each element.
                let _ = onnx_cast::packing::unpack(to, result.bytes().unwrap_or_default(), dst);
                Ok(())
            })
        })?
        .map_err(of_cast)
    }
}

/// The scale and the zero point that DynamicQuantizeLinear finds.
#[pyfunction]
pub(crate) fn dynamic_scale(array: &Bound<'_, PyUntypedArray>) -> PyResult<(f32, u8)> {
    let operator = DynamicQuantizeLinear::new(NEWEST_OPSET).map_err(of_cast)?;
    with_elements(array, |x| operator.scale(x))
}
