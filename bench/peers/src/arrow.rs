//! arrow: the cast kernel, which makes an array for each result.

use crate::Work;
use arrow_array::{ArrayRef, make_array};
use arrow_buffer::Buffer;
use arrow_cast::CastOptions;
use arrow_data::ArrayData;
use onnx_cast::DataType;
use std::hint::black_box;
use std::sync::Arc;

pub(crate) fn cast(work: Work<'_>) -> Option<f64> {
    // To the type it has, an array is only handed on.
    let (from, to) = (arrow(work.from)?, arrow(work.to).filter(|_| work.from != work.to)?);
    let src = array(&work, from)?;
    // The quicker of its two ways: a value out of range is an error in place of a null.
    let options = CastOptions { safe: false, ..CastOptions::default() };
    let result = arrow_cast::cast_with_options(&src, &to, &options).ok()?;
    if work.repeat == 0 {
        work.dst.copy_from_slice(result.to_data().buffers().first()?.get(..work.dst.len())?);
    }
    drop(result);
    Some(Work::time(work.repeat, || drop(black_box(arrow_cast::cast_with_options(black_box(&src), &to, &options)))))
}

/// The source, where it lies.
fn array(work: &Work<'_>, data_type: arrow_schema::DataType) -> Option<ArrayRef> {
    let start = std::ptr::NonNull::new(work.src.as_ptr().cast_mut())?;
    // SAFETY: the array does not outlive the work, and is only read.
    let buffer = unsafe { Buffer::from_custom_allocation(start, work.src.len(), Arc::new(())) };
    let data = ArrayData::builder(data_type).len(work.elements).add_buffer(buffer);
    data.build().ok().map(make_array)
}

fn arrow(data_type: DataType) -> Option<arrow_schema::DataType> {
    use arrow_schema::DataType as Arrow;
    Some(match data_type {
        DataType::Uint8 => Arrow::UInt8,
        DataType::Uint16 => Arrow::UInt16,
        DataType::Uint32 => Arrow::UInt32,
        DataType::Uint64 => Arrow::UInt64,
        DataType::Int8 => Arrow::Int8,
        DataType::Int16 => Arrow::Int16,
        DataType::Int32 => Arrow::Int32,
        DataType::Int64 => Arrow::Int64,
        DataType::Float16 => Arrow::Float16,
        DataType::Float => Arrow::Float32,
        DataType::Double => Arrow::Float64,
        _ => return None,
    })
}
