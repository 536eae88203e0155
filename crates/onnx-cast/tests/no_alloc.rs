//! Does a cast allocate? A cast of numbers into the caller's memory never does, and a new tensor allocates only its
//! bytes and its shape. That holds on the caller's thread: the thread pool allocates a few queue entries to distribute
//! work.

use onnx_cast::backend;
use onnx_cast::types::{BFloat16, Float8E4M3FN, Float16};
use onnx_cast::{BitCast, Cast, CastLike, CastOptions, DataType, Tensor, TensorView, cast_slice};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator with a count of allocations and a limit of their size for each thread.
struct Counting;

thread_local! {
    static REQUESTS: Cell<usize> = const { Cell::new(0) };
    /// The largest allocation that is granted.
    static LARGEST: Cell<usize> = const { Cell::new(usize::MAX) };
}

fn is_refused(size: usize) -> bool {
    LARGEST.try_with(|largest| size > largest.get()).unwrap_or(false)
}

/// Calls `f` while this thread gets no allocation larger than this.
fn refusing<R>(largest: usize, f: impl FnOnce() -> R) -> R {
    LARGEST.set(largest);
    let result = f();
    LARGEST.set(usize::MAX);
    result
}

fn count() {
    // A thread that ends has already dropped its counter, and runs no test.
    let _ = REQUESTS.try_with(|requests| requests.set(requests.get() + 1));
}

// SAFETY: every call is refused, as an allocator may, or passed unchanged to the system's; counting does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        if is_refused(layout.size()) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller guarantees the same preconditions.
        unsafe { System.alloc(layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        if is_refused(layout.size()) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller guarantees the same preconditions.
        unsafe { System.alloc_zeroed(layout) }
    }
    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        if is_refused(size) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller guarantees the same preconditions.
        unsafe { System.realloc(memory, layout, size) }
    }
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller guarantees the same preconditions.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The number of allocations of `f` on this thread, and its result.
fn requests<R>(f: impl FnOnce() -> R) -> (usize, R) {
    let before = REQUESTS.get();
    let result = f();
    (REQUESTS.get() - before, result)
}

/// From no element to more than the cache holds.
const LENGTHS: [usize; 5] = [0, 1, 16, 1000, 3_000_001];

#[test]
fn a_cast_into_memory_of_the_callers() {
    let source = vec![0x3f; 8 * LENGTHS[4]];
    let mut out = vec![0; 8 * LENGTHS[4]];
    for backend in backend::available() {
        let options = CastOptions::new().backend(backend).threads(1);
        for &from in DataType::NUMERIC {
            for &to in DataType::NUMERIC {
                // Only some pairs are tested at the largest length, to save time.
                let some = from == DataType::Float || to == DataType::Float;
                for len in LENGTHS.into_iter().filter(|&len| some || len <= 1000) {
                    let shape = [len];
                    let source = &source[..from.byte_len(len).expect("a length that fits")];
                    let out = &mut out[..to.byte_len(len).expect("a length that fits")];
                    let (requests, result) = requests(|| {
                        let input = TensorView::new(from, &shape, source)?;
                        let cast = Cast::new(to, &options)?;
                        if len > 1000 { cast.plan(from)?.run_into(&input, out) } else { cast.run_into(&input, out) }
                    });
                    assert_eq!(result, Ok(()), "{len} {from} -> {to}");
                    assert_eq!(requests, 0, "{len} {from} -> {to} on {backend:?}");
                }
            }
        }
    }
}

#[test]
fn the_other_operators() {
    let weights = Tensor::from_slice(vec![4], &[1.0f32, 2.0, 3.0, 4.0]).expect("four floats");
    let mut out = [0; 16];
    let (requests, result) = requests(|| {
        CastLike::new(&CastOptions::new().opset(25))?.run_into(&weights.view(), DataType::Float16, &mut out[..8])?;
        BitCast::new(DataType::Int32, 26)?.run_into(&weights.view(), &mut out)
    });
    assert_eq!((requests, result), (0, Ok(())));
}

#[test]
fn slices() {
    let options = CastOptions::new().threads(1);
    // The first cast of the program reads an environment variable to choose the backend.
    cast_slice(&[1.0f32], &mut [0u8], &options).expect("one element");
    for len in LENGTHS {
        let floats = vec![1.5f32; len];
        let (mut halves, mut bytes) = (vec![Float16::default(); len], vec![Float8E4M3FN::default(); len]);
        let (mut doubles, mut truths) = (vec![0f64; len], vec![false; len]);
        let mut brains = vec![BFloat16::default(); len];
        let (requests, result) = requests(|| {
            cast_slice(&floats, &mut halves, &options)?;
            cast_slice(&halves, &mut brains, &options)?;
            cast_slice(&brains, &mut bytes, &options)?;
            cast_slice(&bytes, &mut doubles, &options)?;
            cast_slice(&doubles, &mut truths, &options)
        });
        assert_eq!((requests, result), (0, Ok(())), "{len} elements");
        assert!(doubles.iter().all(|double| double.to_bits() == 1.5f64.to_bits()) && truths.iter().all(|&truth| truth));
    }
}

#[test]
fn a_new_tensor_is_its_bytes_and_its_shape() {
    let options = CastOptions::new().threads(1);
    cast_slice(&[1.0f32], &mut [0u8], &options).expect("one element");
    for len in LENGTHS {
        let floats = Tensor::from_slice(vec![len], &vec![1.5f32; len]).expect("one dimension");
        let to_int8 = Cast::new(DataType::Int8, &options).expect("Cast-28");
        let (count, result) = requests(|| to_int8.run(&floats.view()));
        assert_eq!(result.map(|tensor| tensor.len()), Ok(len));
        assert!(count <= 2, "{count} requests for {len} elements");

        // A cast to the same type reuses the memory.
        let memory = floats.bytes().map(<[u8]>::as_ptr);
        let to_float = Cast::new(DataType::Float, &options).expect("Cast-28");
        let to_int32 = BitCast::new(DataType::Int32, 26).expect("BitCast-26");
        let (count, result) = requests(|| to_int32.run_owned(to_float.run_owned(floats)?));
        assert_eq!(result.map(|tensor| tensor.bytes().map(<[u8]>::as_ptr)), Ok(memory));
        assert_eq!(count, 0, "{len} elements");
    }
}

#[test]
fn scaled_casts_into_memory_of_the_callers() {
    use onnx_cast::scaled::{DequantizeLinear, DequantizeOptions, QuantizeLinear, QuantizeOptions};
    let x = vec![0.5f32; 12 * 1024];
    let (shape, scale_shape) = ([12, 1024], [12, 32]);
    let (scales, zeros) = (vec![0.25f32; 12 * 32], vec![3i8; 12 * 32]);
    let mut out = vec![0; 4 * x.len()];
    let (requests, result) = requests(|| {
        let x = TensorView::from_slice(&shape, &x)?;
        let scales = TensorView::from_slice(&scale_shape, &scales)?;
        let zeros = TensorView::from_slice(&scale_shape, &zeros)?;
        let quantize = QuantizeLinear::new(&QuantizeOptions::new().block_size(32).threads(1))?;
        let plan = quantize.plan(DataType::Float, DataType::Float, Some(DataType::Int8))?;
        let (codes, values) = out.split_at_mut(12 * 1024);
        plan.run_into(&x, &scales, Some(&zeros), codes)?;
        let dequantize = DequantizeLinear::new(&DequantizeOptions::new().block_size(32).threads(1))?;
        let plan = dequantize.plan(DataType::Int8, DataType::Float, Some(DataType::Int8))?;
        let codes = TensorView::new(DataType::Int8, &shape, codes)?;
        // Three quarters of the values fit what is left.
        let part = TensorView::new(DataType::Int8, &[9, 1024], &codes.bytes().unwrap_or_default()[..9 * 1024])?;
        let scales = TensorView::new(DataType::Float, &[9, 32], &scales.bytes().unwrap_or_default()[..9 * 32 * 4])?;
        let zeros = TensorView::new(DataType::Int8, &[9, 32], &zeros.bytes().unwrap_or_default()[..9 * 32])?;
        plan.run_into(&part, &scales, Some(&zeros), values)
    });
    assert_eq!((requests, result), (0, Ok(())));
}

/// Rows that are not whole blocks too.
#[test]
fn block_formats_into_memory_of_the_callers() {
    use onnx_cast::scaled::{BlockFormat, BlockQuantize};
    let x = vec![0.5f32; 100 * 96];
    let (mut elements, mut scales) = (vec![0; 100 * 96], vec![0; 100 * 96]);
    for format in BlockFormat::ALL {
        for columns in [1, 31, 33, 96] {
            let shape = [x.len() / columns, columns];
            let len = shape[0] * columns;
            let elements = &mut elements[..format.element().byte_len(len).expect("few elements")];
            let scales = &mut scales[..format.scale_count(&shape).expect("few scales")];
            let quantize = BlockQuantize::new(*format).threads(1);
            let run = || quantize.run_into(&TensorView::from_slice(&shape, &x[..len])?, elements, scales);
            let (requests, result) = requests(run);
            assert!(requests == 0 && result.is_ok(), "{format}, {columns} columns: {requests} requests, {result:?}");
        }
    }
}

/// Memory that is refused is an error, and not the end of the process.
#[test]
fn refused_memory() {
    use onnx_cast::scaled::{BlockFormat, BlockQuantize, LinearScale, block_amax};
    use onnx_cast::tensor::Strings;
    let x = Tensor::from_slice(vec![10_000, 31], &vec![0.1f32; 310_000]).expect("as many floats");
    let cast = |to| Cast::new(to, &CastOptions::new().threads(1)).expect("the newest");
    let printed = cast(DataType::String).run(&x.view()).expect("memory");
    // Room for errors and shapes, but not for anything in proportion to the tensor.
    let refused = |what: &str, result: &mut dyn FnMut() -> Option<String>| {
        let error = refusing(1 << 13, result);
        assert!(error.as_ref().is_some_and(|text| text.contains("does not fit in memory")), "{what}: {error:?}");
    };
    let text = |error: onnx_cast::CastError| error.to_string();
    let mut strings = Strings::new();
    refused("to texts", &mut || cast(DataType::String).run(&x.view()).err().map(text));
    let plan = cast(DataType::String).plan(DataType::Float).expect("floats are printed");
    refused("texts into a list", &mut || plan.run_strings_into(&x.view(), &mut strings).err().map(text));
    assert!(strings.view().is_empty(), "an error leaves no texts");
    let copy = cast(DataType::String).plan(DataType::String).expect("texts are copied");
    refused("copied texts", &mut || copy.run_strings_into(&printed.view(), &mut strings).err().map(text));
    assert!(strings.view().is_empty(), "an error leaves no texts");
    refused("from texts", &mut || cast(DataType::Float).run(&printed.view()).err().map(text));
    refused("a cast", &mut || cast(DataType::Float16).run(&x.view()).err().map(text));
    refused("blocks", &mut || BlockQuantize::new(BlockFormat::MxFp4).threads(1).run(&x.view()).err().map(text));
    refused("scales of rows", &mut || LinearScale::new(DataType::Int8).axis(0).run(&x.view()).err().map(text));
    refused("magnitudes", &mut || block_amax(&x.view(), [1, 31]).err().map(text));
}

/// The pool's queue entries show that the work was split, here of a copy of 32 MB.
#[cfg(feature = "threads")]
#[test]
fn bit_cast_obeys_its_threads() {
    let source = vec![0x3f; 32 << 20];
    let mut out = vec![0; 32 << 20];
    let input = TensorView::new(DataType::Float, &[8 << 20], &source).expect("8 Mi floats");
    let bit_cast = BitCast::new(DataType::Uint32, 26).expect("BitCast");
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().expect("threads");
    pool.install(|| {
        for (threads, splits) in [(Some(1), false), (None, true), (Some(2), true)] {
            let plan = bit_cast.threads(threads).plan(DataType::Float).expect("32 bits");
            let (requests, result) = requests(|| plan.run_into(&input, &mut out));
            assert_eq!((result, requests > 0), (Ok(()), splits), "{threads:?}");
            assert_eq!(out, source, "{threads:?}");
            out.fill(0);
        }
    });
}
