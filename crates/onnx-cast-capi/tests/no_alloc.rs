//! Do the functions of the C interface that are documented not to allocate really not allocate? Tests plans and
//! one-shot operators between types other than string, and from strings.

use onnx_cast_capi::*;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ptr;

/// The system's allocator, which counts for each thread how often it is asked for memory.
struct Counting;

thread_local! {
    static REQUESTS: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call is passed to the system allocator unchanged (also by the trait's default `realloc` and
// `alloc_zeroed`); the counter does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // A thread at its end has no counter any more, and no test to count for.
        let _ = REQUESTS.try_with(|requests| requests.set(requests.get() + 1));
        // SAFETY: the caller's promise, passed on.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise, passed on.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// How often `f` asks for memory on this thread.
fn requests(f: impl FnOnce() -> i32) -> (usize, i32) {
    let before = REQUESTS.get();
    let result = f();
    (REQUESTS.get() - before, result)
}

/// The elements of a tensor that fits every cache, and of one that is worth another thread, were there one to use.
const COUNTS: [usize; 3] = [1, 16, 300_000];

/// Every type that casts between numbers take.
fn numeric() -> impl Iterator<Item = i32> + Clone {
    onnx_cast::DataType::NUMERIC.iter().map(|data_type| data_type.onnx())
}

#[test]
fn running_a_plan() {
    let src = vec![0x35u8; 8 * COUNTS[2]];
    let mut dst = vec![0u8; 8 * COUNTS[2]];
    let options = onnx_cast_options { threads: 1, ..Default::default() };
    for (from, to) in numeric().flat_map(|from| numeric().map(move |to| (from, to))) {
        let mut plan = ptr::null_mut();
        // SAFETY: the pointers are to values of this function's.
        assert_eq!(unsafe { onnx_cast_plan_cast(from, to, &options, &mut plan) }, 0);
        for count in COUNTS {
            // Of the large tensors a few are enough.
            if count > 1000 && from != onnx_cast_type::ONNX_CAST_FLOAT as i32 {
                continue;
            }
            // SAFETY: no type takes more than 8 bytes an element.
            let run =
                || unsafe { onnx_cast_plan_run(plan, src.as_ptr().cast(), count, dst.as_mut_ptr().cast(), dst.len()) };
            assert_eq!(requests(run), (0, 0), "{count} elements from {from} to {to}");
        }
        // SAFETY: the plan is not used any more.
        unsafe { onnx_cast_plan_free(plan) };
    }
}

#[test]
fn an_operator_for_one_call() {
    let src = [0x35u8; 8 * 16];
    let mut dst = [0u8; 8 * 16];
    let [float, int32] = [onnx_cast_type::ONNX_CAST_FLOAT as i32, onnx_cast_type::ONNX_CAST_INT32 as i32];
    let options = onnx_cast_options { opset: 26, saturate: 2, round_mode: 3, ..Default::default() };
    let mut cast = |operator: unsafe extern "C" fn(_, _, _, _, _, _, _) -> _, options: *const onnx_cast_options| {
        // SAFETY: 16 elements of up to 8 bytes.
        unsafe { operator(float, src.as_ptr().cast(), 16, int32, dst.as_mut_ptr().cast(), 64, options) }
    };
    // The first cast of a program chooses the backend, and reads an environment variable to do so.
    assert_eq!(cast(onnx_cast_cast, ptr::null()), 0);
    for options in [ptr::null(), &raw const options] {
        assert_eq!(requests(|| cast(onnx_cast_cast, options)), (0, 0));
        assert_eq!(requests(|| cast(onnx_cast_cast_like, options)), (0, 0));
    }
    assert_eq!(requests(|| cast(onnx_cast_bit_cast, ptr::null())), (0, 0));
}

#[test]
fn running_a_scaled_plan() {
    const SHAPE: [usize; 2] = [3000, 100];
    let tensor = |data: &[u8], shape: &'static [usize]| onnx_cast_tensor {
        data: data.as_ptr().cast(),
        shape: shape.as_ptr(),
        rank: shape.len(),
        ..Default::default()
    };
    let [float, int8] = [onnx_cast_type::ONNX_CAST_FLOAT as i32, onnx_cast_type::ONNX_CAST_INT8 as i32];
    let (src, zeros) = (vec![0x35u8; 4 * 300_000], vec![0u8; 12_000]);
    let mut dst = vec![0u8; 4 * 300_000];
    let given = onnx_cast_scaled_options { threads: 1, axis_given: 1, ..Default::default() };
    let blocks = onnx_cast_scaled_options { axis: 1, block_size: 32, ..given };
    for (options, shape) in [(given, &[][..]), (given, &[3000][..]), (blocks, &[3000, 4][..])] {
        let (scale, zero_point) = (tensor(&src, shape), tensor(&zeros, shape));
        let (mut quantize, mut dequantize) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: the pointers are to values of this function's.
        unsafe {
            assert_eq!(onnx_cast_scaled_plan_quantize(float, float, int8, &options, &mut quantize), 0);
            assert_eq!(onnx_cast_scaled_plan_dequantize(int8, float, &options, &mut dequantize), 0);
        }
        for plan in [quantize, dequantize] {
            let x = tensor(&src, &SHAPE);
            // SAFETY: neither type takes more than 4 bytes an element.
            let run = || unsafe {
                onnx_cast_scaled_plan_run(plan, &x, &scale, &zero_point, dst.as_mut_ptr().cast(), dst.len())
            };
            assert_eq!(requests(run), (0, 0), "scales of {shape:?}");
            // SAFETY: the plan is not used any more.
            unsafe { onnx_cast_scaled_plan_free(plan) };
        }
    }
}

#[test]
fn block_formats() {
    let options = onnx_cast_block_options { threads: 1, ..Default::default() };
    let float = onnx_cast_type::ONNX_CAST_FLOAT as i32;
    let (src, mut back) = (vec![0x35u8; 4 * 96_000], vec![0u8; 4 * 96_000]);
    let (mut elements, mut scales, mut global) = (vec![0u8; 96_000], vec![0u8; 6000], 0f32);
    // Rows of whole blocks, and others.
    for (format, shape) in (1..=7).flat_map(|format| [[1000, 96], [3000, 31]].map(|shape| (format, shape))) {
        let data = src.as_ptr().cast();
        let x = onnx_cast_tensor { data, shape: shape.as_ptr(), rank: 2, ..Default::default() };
        // SAFETY: the pointers are to values of this function's; no format takes more than these bytes.
        let quantize = || unsafe {
            let (elements, scales) = (elements.as_mut_ptr().cast(), scales.as_mut_ptr().cast());
            onnx_cast_block_quantize(format, float, &x, elements, 96_000, scales, 6000, &mut global, &options)
        };
        assert_eq!(requests(quantize), (0, 0), "to format {format}");
        let quantized = onnx_cast_tensor { data: elements.as_ptr().cast(), ..x };
        // SAFETY: as above.
        let dequantize = || unsafe {
            let (scales, back) = (scales.as_ptr().cast(), back.as_mut_ptr().cast());
            onnx_cast_block_dequantize(format, &quantized, scales, global, float, back, 4 * 96_000, &options)
        };
        assert_eq!(requests(dequantize), (0, 0), "from format {format}");
    }
}

#[test]
fn plans_of_strings() {
    let offsets = [0u64, 3, 6];
    let (offsets_, text) = (offsets.as_ptr(), c"1.5-2e".as_ptr());
    let src = onnx_cast_strings { offsets: offsets_, count: 2, bytes: text, byte_count: 6, ..Default::default() };
    let good = onnx_cast_strings { bytes: c"1.5-21".as_ptr(), ..src };
    let string = onnx_cast_type::ONNX_CAST_STRING as i32;
    let (mut parse, mut copy) = (ptr::null_mut(), ptr::null_mut());
    let (mut dst, mut bytes, mut ends) = ([0u8; 8], [0; 6], [0; 3]);
    let (offsets_, text) = (ends.as_mut_ptr(), bytes.as_mut_ptr());
    let mut out = onnx_cast_string_buffer { offsets: offsets_, bytes: text, room: 6, ..Default::default() };
    // SAFETY: the pointers are to values of this function's, of the sizes given.
    unsafe {
        assert_eq!(onnx_cast_plan_cast(string, onnx_cast_type::ONNX_CAST_FLOAT as i32, ptr::null(), &mut parse), 0);
        assert_eq!(onnx_cast_plan_cast(string, string, ptr::null(), &mut copy), 0);
        assert_eq!(requests(|| onnx_cast_plan_run_from_strings(parse, &good, dst.as_mut_ptr().cast(), 8)), (0, 0));
        assert_eq!(requests(|| onnx_cast_plan_run_strings_to_strings(copy, &src, &mut out)), (0, 0));
        // An error has a text, which is memory.
        let (count, result) = requests(|| onnx_cast_plan_run_from_strings(parse, &src, dst.as_mut_ptr().cast(), 8));
        assert!(count > 0 && result == onnx_cast_status::ONNX_CAST_NOT_A_NUMBER as i32);
        onnx_cast_plan_free(parse);
        onnx_cast_plan_free(copy);
    }
    assert_eq!((out.needed, bytes.map(|byte| byte as u8), ends), (6, *b"1.5-2e", offsets));
}
