//! Casts in two stages. For each tile of elements, one kernel widens the elements to a hub type, and another kernel
//! narrows them to the target. The tile stays in the L1 cache.

use super::algorithm::{Algorithm, Hub};
use super::{Context, Isa, KernelTable, StoreHint, Task};
use crate::element::{DataType, byte_len_of};
use crate::packed::written;
use core::mem::MaybeUninit;

/// Number of elements per tile: a whole number of cache lines for every type.
const TILE: usize = 1024;

/// Number of bytes in a tile of the widest hub type.
const BYTES: usize = 4 * TILE;

/// Buffer for a tile of hub elements, aligned to a cache line.
#[repr(align(64))]
struct Tile([MaybeUninit<u8>; BYTES]);

/// Casts in two stages with the kernels of an instruction set.
///
/// # Safety
/// The conditions of [`super::Kernel`].
pub(super) unsafe fn cast<I: Isa>(task: &Task<'_>, context: &Context) {
    let Some(Algorithm::Staged(hub)) = Algorithm::of(context.from, context.to, I::CAPABILITIES) else {
        unreachable!("{} -> {} is not staged", context.from, context.to)
    };
    // SAFETY: the table belongs to the same instruction set. The caller promises that the processor has its
    // instructions and that the task has the bytes of its elements.
    unsafe { by_way_of(hub, I::TABLE, task, context) };
}

/// Casts through a hub type.
///
/// # Safety
/// The conditions of [`super::Kernel`], for the instructions of the table.
unsafe fn by_way_of(hub: Hub, table: &KernelTable, task: &Task<'_>, context: &Context) {
    let data_type = match hub {
        Hub::Float | Hub::OddFloat => DataType::Float,
        Hub::Int8 => DataType::Int8,
        Hub::Uint8 => DataType::Uint8,
    };
    let [src_bits, hub_bits, dst_bits] =
        [context.from, data_type, context.to].map(|data_type| data_type.info().bits as usize);
    // Stores past the caches are ordered after each tile. If results are narrower than the source, this costs more than
    // it saves.
    let hint = if dst_bits < src_bits { StoreHint::Temporal } else { task.hint };
    let (to_hub, from_hub) = (Context::plain(context.from, data_type), Context { from: data_type, ..*context });
    let (widen, to_hub) = match hub {
        // The rules of the target decide what values beyond the range of `float` become.
        Hub::OddFloat => (table.to_odd_float(context.from), Context { rules: context.rules, ..to_hub }),
        Hub::Float | Hub::Int8 | Hub::Uint8 => (table.cast(context.from, data_type), to_hub),
    };
    let (Some(widen), Some(narrow)) = (widen, table.cast(data_type, context.to)) else {
        unreachable!("both types are numeric, and `float` lacks values of the source")
    };
    let mut tile = Tile([MaybeUninit::uninit(); BYTES]);
    for begin in (0..task.len).step_by(TILE) {
        let part = task.part(begin..task.len.min(begin + TILE), [context.from, context.to]);
        let values = &mut tile.0[..byte_len_of(part.len, hub_bits)];
        // SAFETY: the caller promises that the processor has the instructions; the slices have the bytes of the part's
        // elements, and the first kernel writes every byte of `values`.
        unsafe {
            widen(&Task::new(part.src, values, part.len), &to_hub);
            narrow(&Task { src: written(values), hint, ..part }, &from_hub);
        }
    }
}
