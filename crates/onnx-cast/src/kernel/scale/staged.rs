//! Scaled casts in stages: blocks of elements are widened to `f32` by a kernel of Cast, scaled in the nearest cache,
//! and narrowed by another kernel.

use super::{Part, Stage};
use crate::element::{DataType, byte_len_of};
use crate::kernel::{Context, KernelTable, StoreHint};
use crate::scalar::scaled::Precision;
use core::slice;

/// Elements of a block: a whole number of chunks, and of bytes of any type.
const BLOCK: usize = 512;

/// As [`super::ScaledKernel`], of the instructions of the table; but results are not in the sink, which holds nothing.
///
/// # Safety
/// As there.
#[cold]
#[inline(never)]
pub(crate) unsafe fn cast(table: &KernelTable, part: Part<'_>, stage: &Stage<'_>) {
    let Context { from, to, .. } = stage.context;
    let widths = [from, to].map(|data_type| data_type.info().bits as usize);
    let (mut floats, mut halves) = ([[0; 4]; BLOCK], [0; 2 * BLOCK]);
    let temporal = Context { hint: StoreHint::Temporal, ..stage.context };
    let run = |context: &Context, src: &[u8], dst: &mut [u8], len: usize| {
        let kernel = if context.from == context.to { Some(table.copy()) } else { table.cast(context.from, context.to) };
        let Some(kernel) = kernel else { unreachable!("a stage has numeric types") };
        let len = if context.from == context.to { src.len() } else { len };
        // SAFETY: the caller's; the slices have the bytes of `len` elements, and a copy takes bytes.
        unsafe { kernel(src, dst, len, context) };
    };
    for begin in (0..part.len).step_by(BLOCK) {
        let len = BLOCK.min(part.len - begin);
        // SAFETY: the caller's: these are bytes of the part, which nothing else has in use.
        let (src, dst) = unsafe {
            let [src, dst] = widths.map(|bits| (byte_len_of(begin, bits), byte_len_of(len, bits)));
            (slice::from_raw_parts(part.src.add(src.0), src.1), slice::from_raw_parts_mut(part.dst.add(dst.0), dst.1))
        };
        let padded = &mut floats[..len.next_multiple_of(super::CHUNK)];
        padded[len..].fill([0; 4]);
        run(&Context::plain(from, DataType::Float), src, padded[..len].as_flattened_mut(), len);
        let x = &mut floats[..len.next_multiple_of(super::CHUNK)];
        // SAFETY: the caller's.
        unsafe {
            (table.scale.apply)(x, stage, begin);
            if stage.precision == Precision::Float16 {
                let (x, halves) = (x[..len].as_flattened_mut(), &mut halves[..2 * len]);
                run(&Context::plain(DataType::Float, DataType::Float16), x, halves, len);
                run(&Context::plain(DataType::Float16, DataType::Float), halves, x, len);
            }
            (table.scale.finish)(x, stage, begin);
        }
        let hub = if to.is_float() { DataType::Float } else { DataType::Int32 };
        run(&Context { from: hub, ..temporal }, x[..len].as_flattened(), dst, len);
    }
}
