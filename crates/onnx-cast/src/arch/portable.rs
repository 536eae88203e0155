//! The backend for every machine: the scalar cast in blocks, vectorised as far as the compiler does it.

use crate::element::{BFloat16, DataType, Element};
use crate::kernel::lookup_tables::{self, KeptOrMade};
use crate::kernel::scale::scale_kernels;
use crate::kernel::{Context, Isa, KernelTable, staged};
use crate::packed::{Out, bits, byte_len, pack_elements, unpack_elements, written};
use core::mem::MaybeUninit;

pub(crate) static TABLE: KernelTable = KernelTable::new::<Portable>();

struct Portable;

/// Elements that are looked up at a time: a multiple of 8, so that a block of every type is whole bytes.
const BLOCK: usize = 256;

/// Calls `f` with the bytes of each block and its length.
#[inline(always)]
fn blocks<S: Element, D: Element>(src: &[u8], dst: &mut Out, len: usize, mut f: impl FnMut(&[u8], &mut Out, usize)) {
    let src = src.chunks(const { byte_len::<S>(BLOCK) });
    let dst = dst.chunks_mut(const { byte_len::<D>(BLOCK) });
    for ((src, dst), begin) in src.zip(dst).zip((0..len).step_by(BLOCK)) {
        f(src, dst, BLOCK.min(len - begin));
    }
}

/// The codes of a block, one to a byte.
#[inline(always)]
fn codes<'a, S: Element>(src: &'a [u8], unpacked: &'a mut [MaybeUninit<u8>; BLOCK], len: usize) -> &'a [u8] {
    if bits::<S>() == 8 {
        return src;
    }
    let unpacked = &mut unpacked[..len];
    unpack_elements(bits::<S>(), src, unpacked);
    // SAFETY: the line above wrote every byte.
    unsafe { written(unpacked) }
}

// SAFETY: tables are made with the scalar cast, and `staged::run` is the scalar cast in a loop; both write every byte.
unsafe impl Isa for Portable {
    const LOOKS_UP_16: bool = true;
    const SCALES: bool = false;
    scale_kernels! { fuses: false, fence: () }

    unsafe fn cast<S: Element, D: Element>(src: &[u8], dst: &mut Out, len: usize, context: &Context) {
        cast::<S, D>(src, dst, len, context);
    }

    unsafe fn look_up<S: Element, D: Element>(src: &[u8], dst: &mut Out, len: usize, context: &Context) {
        let table = KeptOrMade::new(context);
        let [low, high] = &table.planes;
        blocks::<S, D>(src, dst, len, |src, dst, len| {
            let (mut unpacked, mut results) = ([MaybeUninit::new(0); BLOCK], [MaybeUninit::new(0); BLOCK]);
            let codes = codes::<S>(src, &mut unpacked, len);
            if bits::<D>() == 16 {
                for (result, &code) in dst.as_chunks_mut().0.iter_mut().zip(codes) {
                    *result = [low[usize::from(code)], high[usize::from(code)]].map(MaybeUninit::new);
                }
            } else {
                let results = if bits::<D>() == 8 { &mut *dst } else { &mut results[..len] };
                for (result, &code) in results.iter_mut().zip(codes) {
                    *result = MaybeUninit::new(low[usize::from(code)]);
                }
            }
            if bits::<D>() < 8 {
                // SAFETY: the array is initialised.
                pack_elements(bits::<D>(), unsafe { written(&mut results[..len]) }, dst);
            }
        });
    }

    unsafe fn widen<S: Element, D: Element>(src: &[u8], dst: &mut Out, len: usize, context: &Context) {
        let hub = lookup_tables::hub(context.from, D::DATA_TYPE, false);
        let table = KeptOrMade::new(&Context::plain(context.from, hub));
        let [low, high] = &table.planes;
        blocks::<S, D>(src, dst, len, |src, dst, len| {
            let (mut unpacked, mut values) = ([MaybeUninit::new(0); BLOCK], [0; 2 * BLOCK]);
            let codes = codes::<S>(src, &mut unpacked, len);
            // The upper 16 bits of a float are a bfloat16.
            if matches!(hub, DataType::BFloat16 | DataType::Float) {
                for (value, &code) in values.as_chunks_mut().0.iter_mut().zip(codes) {
                    *value = [low[usize::from(code)], high[usize::from(code)]];
                }
                staged::run::<BFloat16, D>(&values[..2 * len], dst, len, &context.rules);
            } else {
                for (value, &code) in values.iter_mut().zip(codes) {
                    *value = low[usize::from(code)];
                }
                let values = &values[..len];
                match hub {
                    DataType::Uint8 => staged::run::<u8, D>(values, dst, len, &context.rules),
                    DataType::Int8 => staged::run::<i8, D>(values, dst, len, &context.rules),
                    other => unreachable!("values do not go by way of {other}"),
                }
            }
        });
    }

    unsafe fn pack<D: Element>(src: &[u8], dst: &mut Out, _: usize, _: &Context) {
        pack_elements(bits::<D>(), src, dst);
    }

    unsafe fn unpack<S: Element>(src: &[u8], dst: &mut Out, _: usize, _: &Context) {
        unpack_elements(bits::<S>(), src, dst);
    }
}

/// Casts a source that is not looked up; for backends too to which this is the best kernel.
pub(crate) fn cast<S: Element, D: Element>(src: &[u8], dst: &mut Out, len: usize, context: &Context) {
    staged::run::<S, D>(src, dst, len, &context.rules);
}
