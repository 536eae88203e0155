//! The crate `half`: its conversions of slices.

use crate::Work;
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use onnx_cast::DataType;
use std::hint::black_box;

pub(crate) fn cast(work: Work<'_>) -> Option<f64> {
    use DataType::{BFloat16, Double, Float, Float16};
    let run = match (work.from, work.to) {
        (Float, Float16) => slices::<f32, f16>(work, |src, dst| dst.convert_from_f32_slice(src)),
        (Float, BFloat16) => slices::<f32, bf16>(work, |src, dst| dst.convert_from_f32_slice(src)),
        (Double, Float16) => slices::<f64, f16>(work, |src, dst| dst.convert_from_f64_slice(src)),
        (Double, BFloat16) => slices::<f64, bf16>(work, |src, dst| dst.convert_from_f64_slice(src)),
        (Float16, Float) => slices::<f16, f32>(work, |src, dst| src.convert_to_f32_slice(dst)),
        (BFloat16, Float) => slices::<bf16, f32>(work, |src, dst| src.convert_to_f32_slice(dst)),
        (Float16, Double) => slices::<f16, f64>(work, |src, dst| src.convert_to_f64_slice(dst)),
        (BFloat16, Double) => slices::<bf16, f64>(work, |src, dst| src.convert_to_f64_slice(dst)),
        _ => return None,
    };
    Some(run)
}

fn slices<S, D>(work: Work<'_>, mut convert: impl FnMut(&[S], &mut [D])) -> f64 {
    // SAFETY: both are plain numbers, of which every bit pattern is one.
    let ((before, src, _), (rest, dst, _)) = unsafe { (work.src.align_to::<S>(), work.dst.align_to_mut::<D>()) };
    assert!(before.is_empty() && rest.is_empty(), "buffers are aligned");
    Work::time(work.repeat, || convert(black_box(src), black_box(&mut *dst)))
}
