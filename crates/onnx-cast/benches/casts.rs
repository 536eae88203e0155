//! Casts that `onnx-cast bench`, which measures casts in memory, leaves out: strings both ways, tensors of 16 elements,
//! and a few pairs in cache. Each result is compared with the portable backend's before it is timed.
//!
//! `cargo bench -p onnx-cast -- strings`

use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main, measurement::WallTime};
use onnx_cast::{Backend, Cast, CastOptions, DataType, Element, Plan, Strings, Tensor, TensorView, cast_slice};
use std::hint::black_box;

/// Texts of one run: few enough to stay in the L2 cache, many enough that the branch predictor cannot memorise them.
const STRINGS: usize = 1 << 16;

/// Elements of the numeric pairs in cache.
const ELEMENTS: usize = 16 << 10;

const SMALL: usize = 16;

/// Pseudo-random 64-bit words.
fn random(count: usize) -> impl Iterator<Item = u64> {
    let mut state = 0u64;
    (0..count).map(move |_| {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    })
}

/// A double from -8 to 8 that uses every bit of the significand.
fn uniform(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1u64 << 49) as f64 - 8.0
}

fn plan(from: DataType, to: DataType, backend: Option<Backend>) -> Plan {
    let options = CastOptions::new().threads(1).backend(backend);
    Cast::new(to, &options).and_then(|cast| cast.plan(from)).expect("Cast-28 takes the pair")
}

fn tensor<T: Element>(elements: impl Iterator<Item = T>) -> Tensor {
    let elements: Vec<T> = elements.collect();
    Tensor::from_slice(vec![elements.len()], &elements).expect("one dimension")
}

/// Times a tensor to strings and back, after checking that the bits are the same.
fn both_ways(group: &mut BenchmarkGroup<'_, WallTime>, name: &str, numbers: &Tensor) {
    let data_type = numbers.data_type();
    let (print, parse) = (plan(data_type, DataType::String, None), plan(DataType::String, data_type, None));
    let texts = print.run(&numbers.view()).expect("every number has a text");
    let back = parse.run(&texts.view()).expect("texts of numbers");
    assert_eq!(back.bytes(), numbers.bytes(), "{name}");

    group.throughput(Throughput::Elements(numbers.len() as u64));
    let mut strings = Strings::new();
    group.bench_function(format!("{name} -> string"), |bencher| {
        bencher.iter(|| print.run_strings_into(black_box(&numbers.view()), &mut strings));
    });
    let mut bytes = vec![0; numbers.bytes().map_or(0, <[u8]>::len)];
    group.bench_function(format!("string -> {name}"), |bencher| {
        bencher.iter(|| parse.run_into(black_box(&texts.view()), black_box(&mut bytes)));
    });
}

fn strings(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("strings");
    let floats = || random(STRINGS).map(|bits| uniform(bits) as f32);
    both_ways(&mut group, "float", &tensor(floats()));
    both_ways(&mut group, "double", &tensor(random(STRINGS).map(uniform)));
    both_ways(&mut group, "int64", &tensor(random(STRINGS).map(|bits| bits as i64)));
    // All exponents are equally likely: texts of up to 47 and 327 characters, most of them zeros.
    let float_bits = random(2 * STRINGS).map(|bits| f32::from_bits(bits as u32)).filter(|x| x.is_finite());
    both_ways(&mut group, "float of any exponent", &tensor(float_bits.take(STRINGS)));
    let double_bits = random(2 * STRINGS).map(f64::from_bits).filter(|x| x.is_finite());
    both_ways(&mut group, "double of any exponent", &tensor(double_bits.take(STRINGS)));
    group.finish();
}

/// The pairs that are timed in cache and with 16 elements.
#[rustfmt::skip]
const PAIRS: [(DataType, DataType); 7] = {
    use DataType::*;
    [
        (Float, Float16), (Float16, Float), (Float, BFloat16), (Float, Float8E4M3FN), (Float8E4M3FN, Float),
        (Float, Float4E2M1), (Int64, Int32),
    ]
};

/// Checks a pair and then times it on `elements` elements.
fn pair(group: &mut BenchmarkGroup<'_, WallTime>, from: DataType, to: DataType, elements: usize) {
    let numbers = tensor(random(elements).map(|bits| uniform(bits) as f32));
    let source = plan(DataType::Float, from, None).run(&numbers.view()).expect("numbers");
    let fast = plan(from, to, None);
    let portable = Backend::by_name("portable").expect("there on every machine");
    let mut out = vec![0; to.byte_len(elements).expect("a length that fits")];
    fast.run_into(&source.view(), &mut out).expect("numbers");
    let scalar = plan(from, to, Some(portable)).run(&source.view()).expect("numbers");
    assert_eq!(scalar.bytes(), Some(&out[..]), "{from} -> {to}");

    group.throughput(Throughput::Bytes((source.bytes().map_or(0, <[u8]>::len) + out.len()) as u64));
    group.bench_function(format!("{from} -> {to}"), |bencher| {
        bencher.iter(|| fast.run_into(black_box(&source.view()), black_box(&mut out)));
    });
}

fn cache(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("cache");
    for (from, to) in PAIRS {
        pair(&mut group, from, to, ELEMENTS);
    }
    group.finish();
}

fn small(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("small");
    for (from, to) in PAIRS {
        pair(&mut group, from, to, SMALL);
    }
    // These include everything that precedes the run of a plan.
    let floats: [f32; SMALL] = std::array::from_fn(|i| i as f32 - 7.5);
    let mut halves = [onnx_cast::Float16::default(); SMALL];
    let options = CastOptions::default();
    group.bench_function("cast_slice, float -> float16", |bencher| {
        bencher.iter(|| cast_slice(black_box(&floats), black_box(&mut halves), &options));
    });
    let numbers = tensor(floats.into_iter());
    let (cast, mut out) = (Cast::new(DataType::Float16, &options).expect("Cast-28 takes the type"), [0; 2 * SMALL]);
    group.bench_function("Cast::plan and Plan::run_into, float -> float16", |bencher| {
        bencher.iter(|| {
            let view = TensorView::new(DataType::Float, black_box(&[SMALL]), numbers.bytes().unwrap_or_default())?;
            cast.plan(DataType::Float)?.run_into(&view, black_box(&mut out))
        });
    });
    group.finish();
}

criterion_group!(benches, strings, cache, small);
criterion_main!(benches);
