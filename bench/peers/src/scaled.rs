//! The library's scaled casts, to be timed as its casts are.

use crate::{Work, known};
use onnx_cast::scaled::{
    BlockDequantize, BlockFormat, BlockQuantize, DequantizeLinear, DequantizeOptions, QuantizeLinear, QuantizeOptions,
    Recipe, ScaledPlan,
};
use onnx_cast::{DataType, TensorView};
use std::hint::black_box;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The float scale of a tensor of NVFP4, when it is dequantized. libraries.py has it too.
const GLOBAL: f32 = 0.5;

/// How scales lie, in the order of element_types.py: for the tensor, for each row, for each 32 elements of a row, or as
/// a block format has them.
#[derive(Clone, Copy)]
enum Scales {
    Tensor,
    Axis,
    Blocks,
    Format(BlockFormat),
}

impl Scales {
    fn from_number(number: u32) -> Option<Scales> {
        Some(match number {
            0 => Scales::Tensor,
            1 => Scales::Axis,
            2 => Scales::Blocks,
            3 => Scales::Format(BlockFormat::MxFp4),
            4 => Scales::Format(BlockFormat::NvFp4),
            _ => return None,
        })
    }

    /// Their shape, for so many rows and columns, and bytes.
    fn shape(self, rows: usize, columns: usize) -> (Vec<usize>, usize) {
        let (shape, width) = match self {
            Scales::Tensor => (vec![], 4),
            Scales::Axis => (vec![rows], 4),
            Scales::Blocks => (vec![rows, columns.div_ceil(32)], 4),
            Scales::Format(format) => (vec![rows, columns.div_ceil(format.block())], 1),
        };
        let bytes = shape.iter().product::<usize>() * width;
        (shape, bytes)
    }

    /// The operator's plan, of float scales.
    fn plan(self, work: &Work<'_>) -> Option<ScaledPlan> {
        let (axis, block) = match self {
            Scales::Axis => (0, 0),
            Scales::Blocks => (1, 32),
            _ => (1, 0),
        };
        if work.from == DataType::Float {
            let options = QuantizeOptions::new().axis(axis).block_size(block).threads(work.threads);
            QuantizeLinear::new(&options.output_dtype(work.to)).ok()?.plan(work.from, DataType::Float, None).ok()
        } else {
            let options = DequantizeOptions::new().axis(axis).block_size(block).threads(work.threads);
            DequantizeLinear::new(&options.output_dtype(work.to)).ok()?.plan(work.from, DataType::Float, None).ok()
        }
    }
}

/// The seconds of the work, of rows of so many elements.
fn ours(work: Work<'_>, scales: Scales, codes: &mut [u8], columns: usize) -> Option<f64> {
    let shape = [work.elements.checked_div(columns)?, columns];
    let (scale_shape, _) = scales.shape(shape[0], columns);
    let view = TensorView::new(work.from, &shape, work.src).ok()?;
    let mut whole = true;
    let seconds = match scales {
        Scales::Format(format) if work.to == format.element() => {
            let quantize = BlockQuantize::new(format).recipe(Recipe::TorchAo).threads(work.threads);
            Work::time(work.repeat, || {
                whole &= quantize.run_into(black_box(&view), black_box(&mut *work.dst), codes).is_ok();
            })
        }
        Scales::Format(format) => {
            let dequantize = BlockDequantize::new(format, work.to).threads(work.threads);
            let global = (format == BlockFormat::NvFp4).then_some(GLOBAL);
            Work::time(work.repeat, || {
                whole &= dequantize.run_into(black_box(&view), codes, global, black_box(&mut *work.dst)).is_ok();
            })
        }
        _ => {
            let plan = scales.plan(&work)?;
            let scale = TensorView::new(DataType::Float, &scale_shape, codes).ok()?;
            Work::time(work.repeat, || {
                whole &= plan.run_into(black_box(&view), &scale, None, black_box(&mut *work.dst)).is_ok();
            })
        }
    };
    whole.then_some(seconds)
}

/// The seconds of so many scaled casts, or -1: types by ONNX's numbers, scales by [`Scales`]'s.
///
/// # Safety
/// `src` points to the bytes of the elements, `dst` to room for the result, `scales` to the scales or to room for them;
/// no two overlap.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scaled_ours(
    from: i32,
    to: i32,
    kind: u32,
    threads: u32,
    src: *const u8,
    dst: *mut u8,
    scales: *mut u8,
    elements: usize,
    columns: usize,
    repeat: u32,
) -> f64 {
    let (Some((from, read)), Some((to, written))) = (known(from, elements), known(to, elements)) else { return -1.0 };
    let (Some(kind), Some(rows)) = (Scales::from_number(kind), elements.checked_div(columns)) else { return -1.0 };
    let (_, len) = kind.shape(rows, columns);
    // SAFETY: the caller's promise, the sizes being those of the types and of the scales.
    let (src, dst, scales) = unsafe {
        (
            std::slice::from_raw_parts(src, read),
            std::slice::from_raw_parts_mut(dst, written),
            std::slice::from_raw_parts_mut(scales, len),
        )
    };
    let work = Work { from, to, threads: threads.max(1) as usize, elements, src, dst, repeat };
    // What panics is not measured.
    catch_unwind(AssertUnwindSafe(|| ours(work, kind, scales, columns))).ok().flatten().unwrap_or(-1.0)
}
