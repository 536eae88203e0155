//! QuantizeLinear and DequantizeLinear with their scale and zero point, and the scale of DynamicQuantizeLinear.

use crate::array::{Contiguous, Source, copy, overlap};
use crate::error::of_cast;
use crate::job::{Conversion, ScaledPart, packed, reduce};
use crate::pool::threads_of;
use crate::types::type_of;
use numpy::{PyUntypedArray, PyUntypedArrayMethods};
use onnx_cast::__private::{with_default_float_environment, with_threads};
use onnx_cast::ops::{Attribute, OpError, ValueInfo};
use onnx_cast::scaled::{DequantizeLinear, DynamicQuantizeLinear, QuantizeLinear, ScaledPlan};
use onnx_cast::{DataType, NEWEST_OPSET, Tensor, TensorView};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use std::iter;

/// A scaled cast, but for the type of what it casts.
pub(crate) struct Scaled {
    operator: Direction,
    scale: Tensor,
    zero_point: Option<Tensor>,
    to: DataType,
}

pub(crate) enum Direction {
    Quantize(QuantizeLinear),
    Dequantize(DequantizeLinear),
}

impl Direction {
    /// QuantizeLinear or DequantizeLinear, with the attributes of a node.
    pub(crate) fn of_node(name: &str, opset: i64, attributes: &[Attribute<'_>]) -> PyResult<Self> {
        match name {
            "QuantizeLinear" => QuantizeLinear::from_node(opset, attributes).map(Direction::Quantize),
            _ => DequantizeLinear::from_node(opset, attributes).map(Direction::Dequantize),
        }
        .map_err(of_cast)
    }

    /// The type and shape of the result.
    pub(crate) fn infer(
        &self,
        x: &ValueInfo,
        scale: &ValueInfo,
        zero_point: Option<&ValueInfo>,
    ) -> Result<ValueInfo, OpError> {
        match self {
            Direction::Quantize(operator) => operator.infer(x, scale, zero_point),
            Direction::Dequantize(operator) => operator.infer(x, scale, zero_point),
        }
    }

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

impl Scaled {
    pub(crate) fn new(
        operator: Direction,
        scale: &Bound<'_, PyUntypedArray>,
        zero_point: Option<&Bound<'_, PyUntypedArray>>,
    ) -> PyResult<Self> {
        let scale = tensor(scale)?;
        let zero_point = zero_point.map(tensor).transpose()?;
        let zero_type = zero_point.as_ref().map(Tensor::data_type);
        // The type of the result does not depend on the input's; of the inputs' types every version takes one of these.
        let inputs = match operator {
            Direction::Quantize(_) => [DataType::Float, scale.data_type()],
            Direction::Dequantize(_) => [zero_type.unwrap_or(DataType::Int8); 2],
        };
        let plan = |input| operator.plan(input, scale.data_type(), zero_type);
        // Where neither will do, the first error is about the scale or the zero point, the second may be about the type
        // that was tried.
        let to = plan(inputs[0]).or_else(|error| plan(inputs[1]).map_err(|_| error)).map_err(of_cast)?.target_type();
        Ok(Scaled { operator, scale, zero_point, to })
    }

    pub(crate) fn target_type(&self) -> DataType {
        self.to
    }

    /// Calls a function with the cast of a tensor of a type and shape, on so many threads at most.
    pub(crate) fn with_conversion<R>(
        &self,
        (from, shape): (DataType, &[usize]),
        threads: Option<usize>,
        work: impl FnOnce(Conversion<'_>) -> PyResult<R>,
    ) -> PyResult<R> {
        let (scale, zero_point) = (self.scale.view(), self.zero_point.as_ref().map(Tensor::view));
        let zero_type = zero_point.as_ref().map(TensorView::data_type);
        let plan = self.operator.plan(from, scale.data_type(), zero_type).map_err(of_cast)?.threads(threads);
        let zero_point = zero_point.as_ref();
        // Checks the shapes, before anything of theirs is allocated.
        let bound = plan.bind(shape, &scale, zero_point).map_err(of_cast)?;
        let part = ScaledPart { plan: &plan, bound: &bound, shape, scale: &scale, zero_point, start: 0 };
        work(Conversion::Scaled(part))
    }
}

/// Scale and zero point of DynamicQuantizeLinear, as arrays without dimensions. They are arrays because narrowing a
/// Python number, which is a double, would depend on the float environment. Both depend only on the smallest and the
/// largest element, so the elements can be read in tiles.
#[pyfunction]
pub(crate) fn dynamic_scale<'py>(
    array: &Bound<'py, PyUntypedArray>,
    threads: Option<&Bound<'py, PyAny>>,
) -> PyResult<(Bound<'py, PyUntypedArray>, Bound<'py, PyUntypedArray>)> {
    let (data_type, threads) = (type_of_array(array)?, threads_of(threads)?);
    let operator = DynamicQuantizeLinear::new(NEWEST_OPSET).map_err(of_cast)?.threads(1);
    // Checks the type: float.
    operator.scale(&TensorView::new(data_type, &[0], &[]).map_err(of_cast)?).map_err(of_cast)?;
    let source = Source::of(array, iter::empty())?;
    let x = source.elements();
    let join = |[low, high]: [f32; 2], [other_low, other_high]: [f32; 2]| {
        with_default_float_environment(|| [low.min(other_low), high.max(other_high)])
    };
    let of_tile = |tile: &[u8]| {
        Ok(operator.extremes(&TensorView::new(DataType::Float, &[tile.len() / size_of::<f32>()], tile)?)?)
    };
    let find = || with_threads(|| reduce(x, size_of::<f32>(), threads, &of_tile, &join));
    let extremes = array.py().detach(find).map_err(of_cast)?;
    let (scale, zero_point) =
        operator.scale(&TensorView::from_slice(&[2], &extremes).map_err(of_cast)?).map_err(of_cast)?;
    let scalar = |data_type, bytes: &[u8]| -> PyResult<_> {
        let mut made = Contiguous::new(array.py(), data_type, &[])?;
        copy(bytes, made.bytes_mut(&[]).ok_or_else(overlap)?);
        Ok(made.into_array())
    };
    Ok((scalar(DataType::Float, &scale.to_ne_bytes())?, scalar(DataType::Uint8, &[zero_point])?))
}
