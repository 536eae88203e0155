//! What a call through the C interface costs: 16 elements, by a plan, by an operator for one call, and with options. The
//! functions are called through pointers, as a program in C calls those of a shared library.
//!
//! `cargo bench -p onnx-cast-capi`

use criterion::{Criterion, criterion_group, criterion_main};
use onnx_cast_capi::*;
use std::ffi::{c_int, c_void};
use std::hint::black_box;
use std::ptr;

const COUNT: usize = 16;

type Run = unsafe extern "C" fn(*const onnx_cast_plan, *const c_void, usize, *mut c_void, usize) -> c_int;
type Cast = unsafe extern "C" fn(i32, *const c_void, usize, i32, *mut c_void, usize, *const onnx_cast_options) -> c_int;

/// The pairs that are timed.
#[rustfmt::skip]
const PAIRS: [(&str, onnx_cast_type, onnx_cast_type); 6] = {
    use onnx_cast_type::*;
    [
        ("float -> float16", ONNX_CAST_FLOAT, ONNX_CAST_FLOAT16),
        ("float16 -> float", ONNX_CAST_FLOAT16, ONNX_CAST_FLOAT),
        ("float -> bfloat16", ONNX_CAST_FLOAT, ONNX_CAST_BFLOAT16),
        ("float -> float8e4m3fn", ONNX_CAST_FLOAT, ONNX_CAST_FLOAT8E4M3FN),
        ("float -> float4e2m1", ONNX_CAST_FLOAT, ONNX_CAST_FLOAT4E2M1),
        ("int64 -> int32", ONNX_CAST_INT64, ONNX_CAST_INT32),
    ]
};

fn overhead(criterion: &mut Criterion) {
    let run: Run = black_box(onnx_cast_plan_run);
    let cast: Cast = black_box(onnx_cast_cast);
    let src: [f64; COUNT] = std::array::from_fn(|i| i as f64 - 7.5);
    let src = src.as_ptr().cast::<c_void>();
    let mut dst = [0u64; COUNT];
    let (dst, room) = (dst.as_mut_ptr().cast::<c_void>(), size_of_val(&dst));
    let options = onnx_cast_options { opset: 25, saturate: 1, threads: 1, ..Default::default() };
    let mut group = criterion.benchmark_group("16 elements");
    for (name, from, to) in PAIRS {
        let (from, to) = (from as i32, to as i32);
        let mut plan = ptr::null_mut();
        // SAFETY: 16 elements of up to 8 bytes on both sides, and a plan that is freed when all is done.
        unsafe {
            assert_eq!(onnx_cast_plan_cast(from, to, ptr::null(), &mut plan), 0);
            assert_eq!(run(plan, src, COUNT, dst, room), 0);
            group.bench_function(format!("plan, {name}"), |bencher| {
                bencher.iter(|| run(black_box(plan), black_box(src), black_box(COUNT), black_box(dst), room));
            });
            group.bench_function(format!("call, {name}"), |bencher| {
                bencher.iter(|| cast(black_box(from), black_box(src), COUNT, black_box(to), dst, room, ptr::null()));
            });
            group.bench_function(format!("call with options, {name}"), |bencher| {
                bencher.iter(|| cast(black_box(from), black_box(src), COUNT, black_box(to), dst, room, &options));
            });
            onnx_cast_plan_free(plan);
        }
    }
    group.finish();
}

criterion_group!(benches, overhead);
criterion_main!(benches);
