//! The backend for every machine: loops over the scalar cast, which the compiler vectorises where it can.

use crate::element::{Class, Element, Word, class};
use crate::kernel::algorithm::Capabilities;
use crate::kernel::lookup_tables::KeptOrMade;
use crate::kernel::scale::scale_kernels;
use crate::kernel::{Context, Isa, KernelTable, Task};
use crate::packed::{Out, bits, byte_len, pack_elements, unpack_elements, word, written};
use core::mem::MaybeUninit;

pub(crate) static TABLE: KernelTable = KernelTable::new::<Portable>();

pub(crate) struct Portable;

/// Number of elements to unpack or pack at a time. It is a multiple of 8, so that a block of any type is whole bytes.
const BLOCK: usize = 256;

/// Calls `f` with the bytes of each block and its length.
///
/// # Safety
/// The target has the bytes of the task's elements, and nothing else accesses them.
#[inline(always)]
unsafe fn blocks<S: Element, D: Element>(task: &Task<'_>, mut f: impl FnMut(&[u8], &mut Out, usize)) {
    let src = task.src.chunks(const { byte_len::<S>(BLOCK) });
    // SAFETY: the caller promises the target.
    let dst = unsafe { task.target() }.chunks_mut(const { byte_len::<D>(BLOCK) });
    for ((src, dst), begin) in src.zip(dst).zip((0..task.len).step_by(BLOCK)) {
        f(src, dst, BLOCK.min(task.len - begin));
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

// SAFETY: the scalar cast builds the tables, and `each` calls it in a loop. The loops write every byte of the target.
unsafe impl Isa for Portable {
    const CAPABILITIES: Capabilities = Capabilities { converts_halves: false, looks_up_16: true, folds: false };
    const TABLE: &'static KernelTable = &TABLE;
    const SCALES: bool = false;
    scale_kernels! { fuses: false, fence: () }

    // Not inlined into the vector backends, which call it for rules that they do not implement.
    #[inline(never)]
    unsafe fn fused<S: Element, D: Element>(task: &Task<'_>, context: &Context) {
        let cast = |element: S| element.cast_to(&context.rules);
        let pack = |src: &[u8], dst: &mut Out, len| {
            let mut results = [MaybeUninit::new(0); BLOCK];
            let results = &mut results[..len];
            each::<S, D>(src, results, cast);
            // SAFETY: the array is initialised.
            pack_elements(bits::<D>(), unsafe { written(results) }, dst);
        };
        // SAFETY: the caller promises the bytes of the task's elements.
        unsafe {
            if const { is_widened_by_table::<S, D>() } {
                widen::<S>(task, context);
            } else if const { bits::<D>() >= 8 } {
                each::<S, D>(task.src, task.target(), cast);
            } else {
                blocks::<S, D>(task, pack);
            }
        }
    }

    unsafe fn to_odd_float<S: Element>(task: &Task<'_>, _: &Context) {
        // SAFETY: the caller promises the bytes of the task's elements.
        each::<S, f32>(task.src, unsafe { task.target() }, S::to_f32_round_to_odd);
    }

    unsafe fn look_up<S: Element, D: Element>(task: &Task<'_>, context: &Context) {
        let table = KeptOrMade::new(context);
        let [low, high] = &table.planes;
        let look_up = |src: &[u8], dst: &mut Out, len| {
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
        };
        // SAFETY: the caller promises the bytes of the task's elements.
        unsafe { blocks::<S, D>(task, look_up) };
    }

    unsafe fn pack<D: Element>(task: &Task<'_>, _: &Context) {
        // SAFETY: the caller promises the bytes of the task's elements.
        pack_elements(bits::<D>(), task.src, unsafe { task.target() });
    }

    unsafe fn unpack<S: Element>(task: &Task<'_>, _: &Context) {
        // SAFETY: the caller promises the bytes of the task's elements.
        unpack_elements(bits::<S>(), task.src, unsafe { task.target() });
    }
}

/// Whether a pair is widened by a table: to `float`, from a type of 8 bits or fewer other than 8-bit integers and bool.
const fn is_widened_by_table<S: Element, D: Element>() -> bool {
    matches!(class::<D>(), Class::F32)
        && matches!(class::<S>(), Class::SmallFloat(_) | Class::E8M0 | Class::Int { bits: 2 | 4, .. })
}

/// Widens codes of the width of `S` to `float` by a table of the upper 16 bits. The lower 16 bits are zero.
///
/// # Safety
/// The target has the bytes of the task's elements, and nothing else accesses them.
unsafe fn widen<S: Element>(task: &Task<'_>, context: &Context) {
    let table = KeptOrMade::new(context);
    let [low, high] = &table.planes;
    let widen = |src: &[u8], dst: &mut Out, len| {
        let mut unpacked = [MaybeUninit::new(0); BLOCK];
        let codes = codes::<S>(src, &mut unpacked, len);
        for (value, &code) in dst.as_chunks_mut().0.iter_mut().zip(codes) {
            *value = [0, 0, low[usize::from(code)], high[usize::from(code)]].map(MaybeUninit::new);
        }
    };
    // SAFETY: the caller promises the target.
    unsafe { blocks::<S, f32>(task, widen) };
}

/// Casts elements of 8 bits or more and stores each result in a word of its own, in a loop that the compiler can
/// vectorise. It is a function of its own so that the compiler knows that the slices do not overlap, and so that the
/// vector backends, which call the portable casts for rules that they do not implement, share it.
#[inline(never)]
fn each<S: Element, D: Element>(src: &[u8], dst: &mut Out, cast: impl Fn(S) -> D) {
    let elements = src.chunks_exact(const { size_of::<S::Bits>() });
    for (from, to) in elements.zip(dst.chunks_exact_mut(const { size_of::<D::Bits>() })) {
        let bytes = cast(S::from_bits(word(from))).to_bits().to_le();
        // SAFETY: the chunk and `bytes` both have the size of `D::Bits`.
        unsafe { to.as_mut_ptr().cast::<<D::Bits as Word>::Bytes>().write_unaligned(bytes) };
    }
}
