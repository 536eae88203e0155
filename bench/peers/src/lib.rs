//! The library and the Rust libraries that people would use in its place, behind one C interface, so that one process
//! can measure them and the Python packages in turn. The clock is here, beside the work: no call through Python counts.

mod arrow;
mod candle;
mod half_slices;
mod scaled;

use onnx_cast::{Cast, CastOptions, DataType, TensorView};
use rayon::prelude::*;
use std::hint::black_box;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

/// One cast, to be timed.
struct Work<'a> {
    from: DataType,
    to: DataType,
    threads: usize,
    elements: usize,
    src: &'a [u8],
    dst: &'a mut [u8],
    /// How often; 0 for once, without a clock, with the result left in `dst` whatever that takes.
    repeat: u32,
}

impl Work<'_> {
    /// Runs `cast` so often, and gives the seconds that it took.
    fn time(repeat: u32, mut cast: impl FnMut()) -> f64 {
        let start = Instant::now();
        for _ in 0..repeat.max(1) {
            cast();
        }
        start.elapsed().as_secs_f64()
    }
}

/// What a library does with the work: the seconds, or nothing where it lacks the pair.
type Run = fn(Work<'_>) -> Option<f64>;

fn ours(work: Work<'_>) -> Option<f64> {
    let options = CastOptions::new().threads(work.threads);
    let plan = Cast::new(work.to, &options).ok()?.plan(work.from).ok()?;
    let shape = [work.elements];
    let view = TensorView::new(work.from, &shape, work.src).ok()?;
    let mut whole = true;
    let seconds = Work::time(work.repeat, || {
        whole &= plan.run_into(black_box(&view), black_box(&mut *work.dst)).is_ok();
    });
    whole.then_some(seconds)
}

/// Copies as many bytes as the cast reads and writes together: half of them from `src`, half to `dst`, which are of one
/// size here.
fn memcpy(work: Work<'_>) -> Option<f64> {
    let Work { threads, src, dst, .. } = work;
    const LINE: usize = 64;
    let part = src.len().div_ceil(threads).next_multiple_of(LINE).max(LINE);
    Some(Work::time(work.repeat, || {
        let (src, dst) = (black_box(src), black_box(&mut *dst));
        if threads == 1 {
            dst.copy_from_slice(src);
        } else {
            dst.par_chunks_mut(part).zip(src.par_chunks(part)).for_each(|(to, from)| to.copy_from_slice(from));
        }
    }))
}

/// A numeric type by ONNX's number, and the bytes of so many elements.
fn known(number: i32, elements: usize) -> Option<(DataType, usize)> {
    let data_type = DataType::from_onnx(number.into()).filter(|data_type| data_type.is_numeric())?;
    Some((data_type, data_type.byte_len(elements)?))
}

/// The seconds that the library takes, or -1 where it lacks the pair.
///
/// # Safety
/// `src` points to the bytes of the elements, `dst` to room for the result, which do not overlap.
unsafe fn run(
    library: Run,
    (from, to): (i32, i32),
    threads: u32,
    (src, dst): (*const u8, *mut u8),
    elements: usize,
    repeat: u32,
) -> f64 {
    let (Some((from, read)), Some((to, written))) = (known(from, elements), known(to, elements)) else { return -1.0 };
    // SAFETY: the caller's promise, the sizes being those of the types.
    let (src, dst) = unsafe { (std::slice::from_raw_parts(src, read), std::slice::from_raw_parts_mut(dst, written)) };
    let work = Work { from, to, threads: threads.max(1) as usize, elements, src, dst, repeat };
    // A peer that panics lacks the pair; nothing that it leaves behind is looked at.
    catch_unwind(AssertUnwindSafe(|| library(work))).ok().flatten().unwrap_or(-1.0)
}

/// Exports each library under its name: `double NAME(int from, int to, unsigned threads, const void *src, void *dst,
/// size_t elements, unsigned repeat)`, types by ONNX's numbers.
macro_rules! export {
    ($($name:ident: $library:path;)*) => {$(
        /// The seconds of so many casts, or -1.
        ///
        /// # Safety
        /// As [`run`].
        #[unsafe(export_name = concat!("cast_", stringify!($name)))]
        pub unsafe extern "C" fn $name(
            from: i32,
            to: i32,
            threads: u32,
            src: *const u8,
            dst: *mut u8,
            elements: usize,
            repeat: u32,
        ) -> f64 {
            // SAFETY: the caller's promise.
            unsafe { run($library, (from, to), threads, (src, dst), elements, repeat) }
        }
    )*};
}

mod interface {
    use super::*;

    export! {
        ours: super::ours;
        memcpy: super::memcpy;
        half: half_slices::cast;
        candle: candle::cast;
        arrow: arrow::cast;
    }
}

/// Writes to each line of the memory, so that the caches hold nothing else.
///
/// # Safety
/// `bytes` points to `len` bytes that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn touch(bytes: *mut u8, len: usize) {
    // SAFETY: the caller's promise.
    let bytes = unsafe { std::slice::from_raw_parts_mut(bytes, len) };
    bytes.iter_mut().step_by(64).for_each(|byte| *byte = byte.wrapping_add(1));
}

/// The name of the backend in use, with a zero behind it.
#[unsafe(no_mangle)]
pub extern "C" fn backend(name: *mut u8, room: usize) -> usize {
    let text = onnx_cast::backend::Backend::best().name().as_bytes();
    let len = text.len().min(room);
    // SAFETY: no more than the room that the caller has.
    unsafe { std::ptr::copy_nonoverlapping(text.as_ptr(), name, len) };
    len
}
