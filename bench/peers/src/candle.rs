//! candle: `Tensor::to_dtype`, which makes a tensor for each result.

use crate::Work;
use candle_core::{DType, Device, Tensor};
use onnx_cast::DataType;
use std::hint::black_box;

pub(crate) fn cast(work: Work<'_>) -> Option<f64> {
    // That one does not return: float8 0.7.0 searches some values for a leading bit that they have not.
    if (work.from, work.to) == (DataType::Float8E4M3FN, DataType::Double) {
        return None;
    }
    // To the type it has, a tensor is only handed on.
    let (from, to) = (dtype(work.from)?, dtype(work.to).filter(|_| work.from != work.to)?);
    let src = Tensor::from_raw_buffer(work.src, from, &[work.elements], &Device::Cpu).ok()?;
    let result = src.to_dtype(to).ok()?;
    if work.repeat == 0 {
        result.write_bytes(&mut { work.dst }).ok()?;
    }
    drop(result);
    Some(Work::time(work.repeat, || drop(black_box(black_box(&src).to_dtype(to)))))
}

fn dtype(data_type: DataType) -> Option<DType> {
    Some(match data_type {
        DataType::Uint8 => DType::U8,
        DataType::Uint32 => DType::U32,
        DataType::Int16 => DType::I16,
        DataType::Int32 => DType::I32,
        DataType::Int64 => DType::I64,
        DataType::BFloat16 => DType::BF16,
        DataType::Float16 => DType::F16,
        DataType::Float => DType::F32,
        DataType::Double => DType::F64,
        DataType::Float8E4M3FN => DType::F8E4M3,
        _ => return None,
    })
}
