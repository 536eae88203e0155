//! Does every backend equal the scalar cast, bit for bit? Tests every pair and setting on every backend of this
//! machine: every length around the vector widths, every misalignment, beside memory that must be neither read nor
//! written, under every setting of the floating-point control register, and with tensors larger than the cache.

use onnx_cast::backend::{self, Backend, StoreHint};
use onnx_cast::{Cast, CastOptions, DataType, Plan, TensorView};
use testkit::generators::Rng;
use testkit::library::cases::{self, Case};
use testkit::library::{data_type, options, scalar};
use testkit::packing::packed_len;
use testkit::{Rules, Ty};

#[test]
fn the_rust_types_are_all() {
    assert_eq!(scalar::rust_types(), DataType::NUMERIC);
}

#[test]
fn every_length_at_every_alignment() {
    let casts = cases::every_length_at_every_alignment();
    println!("{casts} casts compared");
}

#[cfg(any(target_arch = "x86", target_arch = "x86_64", target_arch = "aarch64"))]
#[test]
fn the_control_register_changes_nothing_and_stays() {
    let casts = cases::every_setting_of_the_control_register();
    println!("{casts} casts compared");
}

/// Large tensors take other paths than small ones: several threads and, above the size of the caches, non-temporal
/// stores. The path depends only on the widths, so the largest tensors are tested for one pair of each combination of
/// widths.
#[test]
fn large_tensors_are_cast_as_small_ones() {
    /// Bytes of source and result together: above the limits for threads and for non-temporal stores.
    const LARGE: usize = 5 << 20;
    const NON_TEMPORAL: usize = 25 << 20;
    let mut rng = Rng::new(52);
    let mut widths = Vec::new();
    let mut dst = Vec::new();
    for from in Ty::NUMERIC {
        for to in Ty::NUMERIC {
            let case = Case::new(from, to, Rules::distinct(from, to)[0]);
            let new = from != to && !widths.contains(&(from.bits(), to.bits()));
            let (bytes, threads) = if new { (NON_TEMPORAL, &[1, 2, 3, 5][..]) } else { (LARGE, &[5][..]) };
            if new {
                widths.push((from.bits(), to.bits()));
            }
            let len = bytes * 8 / (from.bits() + to.bits()) as usize / case.count * case.count + case.count / 2 + 3;
            // The case's values are repeated, and so are the results.
            let src = case.source.repeat(len.div_ceil(case.count));
            let src = &src[..packed_len(from, len)];
            for backend in backend::available() {
                for &threads in threads {
                    let plan = Cast::new(data_type(to), &options(&case.rules, backend)).expect("a type of Cast");
                    let plan = plan.with_threads(threads).plan(data_type(from)).expect("a type of Cast");
                    let at = rng.below(64) as usize;
                    dst.clear();
                    dst.resize(at + packed_len(to, len) + 64, 0xa5);
                    let (before, rest) = dst.split_at_mut(at);
                    let (result, behind) = rest.split_at_mut(packed_len(to, len));
                    five_threads().install(|| case.run(&plan, len, src, result));
                    let how =
                        |nth| format!("{backend:?}, {threads} threads, {len} elements to byte {at}, repetition {nth}");
                    for (nth, result) in result.chunks(case.expected.len()).enumerate() {
                        case.check(0, case.count.min(len - nth * case.count), result, || how(nth));
                    }
                    let intact = before.iter().chain(&*behind).all(|&byte| byte == 0xa5);
                    assert!(intact, "{} -> {}, {}: bytes beside the result", from.name(), to.name(), how(0));
                }
            }
        }
    }
}

/// The plan of every pair of numeric types on every backend, by the newest version's rules.
fn for_every_plan(check: impl Fn(Backend, &Plan)) {
    for backend in backend::available() {
        for &to in DataType::NUMERIC {
            let cast = Cast::new(to, &CastOptions::new().backend(backend).threads(1)).expect("a type of Cast");
            for &from in DataType::NUMERIC {
                check(backend, &cast.plan(from).expect("a type of Cast"));
            }
        }
    }
}

/// Pseudo-random bytes with a long period.
fn noise(len: usize) -> Vec<u8> {
    let mut rng = Rng::new(8);
    std::iter::repeat_with(|| rng.next_u64() as u8).take(len).collect()
}

fn bytes_of(data_type: DataType, len: usize) -> usize {
    data_type.byte_len(len).expect("few elements")
}

/// Casts `len` elements of any bits.
fn run(plan: &Plan, len: usize, noise: &[u8], dst: &mut [u8]) {
    let (from, shape) = (plan.source_type(), [len]);
    let source = TensorView::new(from, &shape, &noise[..bytes_of(from, len)]).expect("the bytes of its elements");
    plan.run_into(&source, dst).expect("a result of its length");
}

/// What is done once for a long tensor, such as making a table, gives what its parts give.
#[test]
fn a_tensor_is_cast_as_its_parts() {
    const LEN: usize = 4096 + 77;
    const PART: usize = 64; // whole bytes of any type
    let noise = noise(LEN * 8);
    for_every_plan(|backend, plan| {
        let (from, to) = (plan.source_type(), plan.target_type());
        let (mut tensor, mut parts) = (vec![0; bytes_of(to, LEN)], vec![0; bytes_of(to, LEN)]);
        run(plan, LEN, &noise, &mut tensor);
        let cut = parts.chunks_mut(bytes_of(to, PART)).zip(noise.chunks(bytes_of(from, PART)));
        for ((dst, src), begin) in cut.zip((0..).step_by(PART)) {
            run(plan, PART.min(LEN - begin), src, dst);
        }
        assert_eq!(tensor, parts, "{backend:?}, {from} -> {to}");
    });
}

/// By default only tensors that exceed the caches are stored non-temporally, so tests of tensors can try few of them.
/// Here every pair stores so, at many lengths, to every place in a cache line.
#[test]
fn non_temporal_stores_write_what_others_write() {
    const LEN: usize = 200;
    let noise = noise(LEN * 8);
    for_every_plan(|backend, plan| {
        let (from, to) = (plan.source_type(), plan.target_type());
        let temporal = plan.store_hint(StoreHint::Temporal);
        let non_temporal = plan.store_hint(StoreHint::NonTemporal);
        for len in (0..LEN).step_by(7).chain([64, 128, 192]) {
            let bytes = bytes_of(to, len);
            let mut expected = vec![0; bytes];
            run(&temporal, len, &noise, &mut expected);
            let mut result = vec![0x5a; bytes + 2 * 64];
            for at in 0..64 {
                result.fill(0x5a);
                run(&non_temporal, len, &noise, &mut result[at..at + bytes]);
                let what = || format!("{backend:?}, {from} -> {to}, {len} elements, {at} bytes in");
                assert_eq!(result[at..at + bytes], expected, "{}", what());
                let beside = result[..at].iter().chain(&result[at + bytes..]);
                assert!(beside.copied().all(|byte| byte == 0x5a), "{}: bytes beside the result", what());
            }
        }
    });
}

/// A pool that may have more threads than the machine has processors.
fn five_threads() -> &'static rayon::ThreadPool {
    static POOL: std::sync::LazyLock<rayon::ThreadPool> =
        std::sync::LazyLock::new(|| rayon::ThreadPoolBuilder::new().num_threads(5).build().expect("five threads"));
    &POOL
}
