//! Casts that `onnx-cast bench`, which measures casts in memory, leaves out: strings both ways, tensors of 16 elements,
//! and a few pairs in cache. Each result is compared with the portable backend's before it is timed.
//!
//! `cargo bench -p onnx-cast -- strings`

use onnx_cast::backend::Backend;
use onnx_cast::tensor::Strings;
use onnx_cast::types::Element;
use onnx_cast::{Cast, CastOptions, DataType, Plan, Tensor, TensorView, cast_slice};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Texts of one run: few enough to stay in the L2 cache, many enough that the branch predictor cannot memorise them.
const STRINGS: usize = 1 << 16;

/// Elements of the numeric pairs in cache.
const ELEMENTS: usize = 16 << 10;

const SMALL: usize = 16;

/// Samples of a benchmark, of which the median counts, and the time of each.
const SAMPLES: usize = 25;
const SAMPLE: Duration = Duration::from_millis(20);

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

/// Benchmarks under one heading. An argument of the program that does not start with `-` must occur in the names that run.
struct Group {
    name: &'static str,
    filter: Option<String>,
}

impl Group {
    fn new(name: &'static str) -> Group {
        Group { name, filter: std::env::args().skip(1).find(|argument| !argument.starts_with('-')) }
    }

    /// Prints the median time of a call, and how many of the `units` of work that is in a second.
    fn time<R>(&self, name: &str, (count, unit): (usize, &str), mut work: impl FnMut() -> R) {
        let name = format!("{}/{name}", self.name);
        if self.filter.as_ref().is_some_and(|filter| !name.contains(filter.as_str())) {
            return;
        }
        let mut seconds = |calls: u32| {
            let start = Instant::now();
            (0..calls).for_each(|_| drop(black_box(work())));
            start.elapsed().as_secs_f64()
        };
        let mut calls = 1;
        while seconds(calls) < SAMPLE.as_secs_f64() {
            calls *= 2;
        }
        let mut samples: [f64; SAMPLES] = std::array::from_fn(|_| seconds(calls) / f64::from(calls));
        samples.sort_by(f64::total_cmp);
        let median = samples[SAMPLES / 2];
        println!("{name:55} {:12.1} ns {:10.3} G {unit}/s", median * 1e9, count as f64 / median / 1e9);
    }
}

/// Times a tensor to strings and back, after checking that the bits are the same.
fn both_ways(group: &Group, name: &str, numbers: &Tensor) {
    let data_type = numbers.data_type();
    let (print, parse) = (plan(data_type, DataType::String, None), plan(DataType::String, data_type, None));
    let texts = print.run(&numbers.view()).expect("every number has a text");
    let back = parse.run(&texts.view()).expect("texts of numbers");
    assert_eq!(back.bytes(), numbers.bytes(), "{name}");

    let elements = (numbers.len(), "elements");
    let mut strings = Strings::new();
    group.time(&format!("{name} -> string"), elements, || {
        print.run_strings_into(black_box(&numbers.view()), &mut strings)
    });
    let mut bytes = vec![0; numbers.bytes().map_or(0, <[u8]>::len)];
    group.time(&format!("string -> {name}"), elements, || {
        parse.run_into(black_box(&texts.view()), black_box(&mut bytes))
    });
}

fn strings() {
    let group = Group::new("strings");
    let floats = || random(STRINGS).map(|bits| uniform(bits) as f32);
    both_ways(&group, "float", &tensor(floats()));
    both_ways(&group, "double", &tensor(random(STRINGS).map(uniform)));
    both_ways(&group, "int64", &tensor(random(STRINGS).map(|bits| bits as i64)));
    // All exponents are equally likely: texts of up to 47 and 327 characters, most of them zeros.
    let float_bits = random(2 * STRINGS).map(|bits| f32::from_bits(bits as u32)).filter(|x| x.is_finite());
    both_ways(&group, "float of any exponent", &tensor(float_bits.take(STRINGS)));
    let double_bits = random(2 * STRINGS).map(f64::from_bits).filter(|x| x.is_finite());
    both_ways(&group, "double of any exponent", &tensor(double_bits.take(STRINGS)));
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
fn pair(group: &Group, from: DataType, to: DataType, elements: usize) {
    let numbers = tensor(random(elements).map(|bits| uniform(bits) as f32));
    let source = plan(DataType::Float, from, None).run(&numbers.view()).expect("numbers");
    let fast = plan(from, to, None);
    let portable = Backend::by_name("portable").expect("there on every machine");
    let mut out = vec![0; to.byte_len(elements).expect("a length that fits")];
    fast.run_into(&source.view(), &mut out).expect("numbers");
    let scalar = plan(from, to, Some(portable)).run(&source.view()).expect("numbers");
    assert_eq!(scalar.bytes(), Some(&out[..]), "{from} -> {to}");

    let bytes = source.bytes().map_or(0, <[u8]>::len) + out.len();
    group.time(&format!("{from} -> {to}"), (bytes, "bytes"), || {
        fast.run_into(black_box(&source.view()), black_box(&mut out))
    });
}

fn cache() {
    let group = Group::new("cache");
    for (from, to) in PAIRS {
        pair(&group, from, to, ELEMENTS);
    }
}

fn small() {
    let group = Group::new("small");
    for (from, to) in PAIRS {
        pair(&group, from, to, SMALL);
    }
    // These include everything that precedes the run of a plan.
    let floats: [f32; SMALL] = std::array::from_fn(|i| i as f32 - 7.5);
    let mut halves = [onnx_cast::types::Float16::default(); SMALL];
    let options = CastOptions::default();
    let bytes = (6 * SMALL, "bytes");
    group.time("cast_slice, float -> float16", bytes, || {
        cast_slice(black_box(&floats), black_box(&mut halves), &options)
    });
    let numbers = tensor(floats.into_iter());
    let (cast, mut out) = (Cast::new(DataType::Float16, &options).expect("Cast-28 takes the type"), [0; 2 * SMALL]);
    group.time("Cast::plan and Plan::run_into, float -> float16", bytes, || {
        let view = TensorView::new(DataType::Float, black_box(&[SMALL]), numbers.bytes().unwrap_or_default())?;
        cast.plan(DataType::Float)?.run_into(&view, black_box(&mut out))
    });
}

fn main() {
    strings();
    cache();
    small();
}
