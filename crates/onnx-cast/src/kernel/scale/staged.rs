//! Scaled casts in stages: blocks of elements are widened to `f32` by a kernel of Cast, scaled in the nearest cache,
//! and narrowed by another kernel.

use super::{CHUNK, Granularity, PendingLine, ScaleContext, Scales};
use crate::element::DataType;
use crate::kernel::{Context, Isa, KernelTable, Task};
use crate::packed::{Out, as_uninit, written};
use crate::scalar::scaled::Precision;
use core::mem::MaybeUninit;

/// Elements of a block: a whole number of chunks, and of bytes of any type.
const BLOCK: usize = 512;

/// Dequantizes in two stages, as a [`super::ScaledKernel`]: a kernel of Cast widens a block of codes to `float`, and
/// the kernel that dequantizes from `float` scales the block.
///
/// # Safety
/// The conditions of [`super::ScaledKernel`].
pub(in crate::kernel) unsafe fn dequantize<I: Isa>(
    task: &Task<'_>,
    context: &ScaleContext<'_>,
    mut pending: Option<&mut PendingLine>,
) {
    let Some(widen) = I::TABLE.cast(context.from, DataType::Float) else { unreachable!("codes are numbers") };
    let to_float = Context::plain(context.from, DataType::Float);
    let types = [context.from, context.to];
    let mut floats = [MaybeUninit::uninit(); 4 * BLOCK];
    for begin in (0..task.len).step_by(BLOCK) {
        let part = task.part(begin..task.len.min(begin + BLOCK), types);
        let floats = &mut floats[..4 * part.len];
        // The lengths of blocks and runs are powers of two: either a block is whole runs, or a run is whole blocks.
        let entries = match context.scales.granularity {
            Granularity::Tensor => 0,
            Granularity::Run(power) => begin >> power,
            Granularity::Element => begin,
        };
        let scales = Scales { begin: context.scales.begin + entries, ..context.scales };
        let context = ScaleContext { from: DataType::Float, scales, ..*context };
        // SAFETY: the caller promises that the processor has the instructions; the slices have the bytes of the part's
        // elements, which the kernel of Cast writes.
        unsafe {
            widen(&Task::new(part.src, floats, part.len), &to_float);
            I::dequantize::<f32>(&Task { src: written(floats), ..part }, &context, pending.as_deref_mut());
        }
    }
}

/// As [`super::ScaledKernel`], of the instructions of the table; results are stored in the caches.
///
/// # Safety
/// The conditions of [`super::ScaledKernel`].
#[cold]
#[inline(never)]
pub(crate) unsafe fn cast(table: &KernelTable, task: &Task<'_>, context: &ScaleContext<'_>) {
    let (from, to) = (context.from, context.to);
    let (mut floats, mut halves) = ([[0; 4]; BLOCK], [0; 2 * BLOCK]);
    let run = |context: &Context, src: &[u8], dst: &mut Out, len: usize| {
        let Some(kernel) = table.cast(context.from, context.to) else {
            unreachable!("a scaled cast has numeric types")
        };
        // SAFETY: the caller of `cast` promises that the processor has the instructions; the slices have the bytes of
        // `len` elements.
        unsafe { kernel(&Task::new(src, dst, len), context) };
    };
    for begin in (0..task.len).step_by(BLOCK) {
        let part = task.part(begin..task.len.min(begin + BLOCK), [from, to]);
        let len = part.len;
        let x = &mut floats[..len.next_multiple_of(CHUNK)];
        x[len..].fill([0; 4]);
        // SAFETY: the kernels of Cast write only initialised bytes. The caller promises that the processor has the
        // instructions, and that nothing else accesses the target.
        let dst = unsafe {
            run(&Context::plain(from, DataType::Float), part.src, as_uninit(x[..len].as_flattened_mut()), len);
            (table.scale.apply)(x, context, begin);
            if context.precision == Precision::Float16 {
                let (x, halves) = (x[..len].as_flattened_mut(), &mut halves[..2 * len]);
                run(&Context::plain(DataType::Float, DataType::Float16), x, as_uninit(halves), len);
                run(&Context::plain(DataType::Float16, DataType::Float), halves, as_uninit(x), len);
            }
            (table.scale.finish)(x, context, begin);
            part.target()
        };
        let hub = if to.is_float() { DataType::Float } else { DataType::Int32 };
        run(&Context { from: hub, to, rules: context.rules }, x[..len].as_flattened(), dst, len);
    }
}
