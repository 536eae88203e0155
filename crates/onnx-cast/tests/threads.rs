//! Are the results the same when many threads cast at once? Tests the first casts of each pair, which build its look-up
//! tables, and large tensors that share one pool.

use onnx_cast::backend;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use testkit::library::cases::Case;
use testkit::packing::packed_len;
use testkit::{Rules, Ty};

const THREADS: usize = 64;

/// A pair's tables are built once per process, so its first casts race.
#[test]
fn the_first_casts_of_every_pair() {
    // The expected results come from the scalar cast, which has no tables.
    let cases: Vec<Case> = Ty::NUMERIC
        .into_iter()
        .flat_map(|from| Ty::NUMERIC.map(|to| Case::new(from, to, Rules::distinct(from, to)[0])))
        .collect();
    let (start, casts) = (Barrier::new(THREADS), AtomicU64::new(0));
    thread::scope(|scope| {
        for nth in 0..THREADS {
            let (start, casts, cases) = (&start, &casts, &cases);
            scope.spawn(move || {
                let mut dst = Vec::new();
                for case in cases {
                    let len = case.count.min(300 + nth);
                    let src = &case.source[..packed_len(case.from, len)];
                    start.wait();
                    for backend in backend::available() {
                        dst.clear();
                        dst.resize(packed_len(case.to, len), 0xa5);
                        case.run(&case.plan(backend), len, src, &mut dst);
                        case.check(0, len, &dst, || format!("{backend:?}, thread {nth} of {THREADS}"));
                        casts.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    println!("{} casts compared", casts.into_inner());
}

/// Tensors large enough to be split, from many threads outside the pool.
#[test]
fn large_tensors_that_share_the_pool() {
    const BYTES: usize = 3 << 20;
    let pairs = [(Ty::Float, Ty::Float8E4M3FN), (Ty::Bfloat16, Ty::Float), (Ty::Int4, Ty::Float16)];
    let pool = rayon::ThreadPoolBuilder::new().num_threads(4).build().expect("threads");
    let cases = pairs.map(|(from, to)| Case::new(from, to, Rules::default()));
    thread::scope(|scope| {
        for nth in 0..THREADS / 4 {
            let (case, pool) = (&cases[nth % cases.len()], &pool);
            scope.spawn(move || {
                let times = BYTES * 8 / ((case.from.bits() + case.to.bits()) as usize * case.count);
                let (len, src) = (times * case.count, case.source.repeat(times));
                let mut dst = vec![0xa5; packed_len(case.to, len)];
                for backend in backend::available() {
                    pool.install(|| case.run(&case.plan(backend), len, &src, &mut dst));
                    for (nth, part) in dst.chunks(case.expected.len()).enumerate() {
                        case.check(0, case.count, part, || format!("{backend:?}, {len} elements, repetition {nth}"));
                    }
                    dst.fill(0xa5);
                }
            });
        }
    });
}

/// With a 32-bit `usize`: a tensor of which each of two threads gets more bits than `usize` can count.
#[cfg(target_pointer_width = "32")]
#[test]
fn a_tensor_whose_bits_do_not_fit_in_a_size() {
    let case = Case::new(Ty::Float16, Ty::Int2, Rules::default());
    let times = (1 << 30) / case.source.len() + 1;
    let (len, src) = (times * case.count, case.source.repeat(times));
    let mut dst = vec![0xa5; times * case.expected.len()];
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().expect("threads");
    pool.install(|| case.run(&case.plan(onnx_cast::backend::Backend::best()), len, &src, &mut dst));
    for (nth, part) in dst.chunks(case.expected.len()).enumerate() {
        case.check(0, case.count, part, || format!("{len} elements, repetition {nth}"));
    }
}

/// The pool is created once per process, and a limit cannot be lifted, so this test runs itself again as a new process.
#[cfg(target_os = "linux")]
#[test]
fn a_system_without_threads_to_give() {
    use onnx_cast::{Cast, CastOptions, DataType, Tensor};
    use std::process::Command;
    const CHILD: &str = "ONNX_CAST_TEST_HAS_NO_THREADS";
    if std::env::var_os(CHILD).is_none() {
        let mut again = Command::new(std::env::current_exe().expect("this test has a path"));
        again.args(["--exact", "a_system_without_threads_to_give", "--nocapture"]).env(CHILD, "1");
        // A pool with too many threads for their stacks to fit.
        let output = again.env("RAYON_NUM_THREADS", "200").output().expect("the test runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && text.contains("as ever"), "{text}");
        return;
    }
    let floats = Tensor::from_slice(vec![1 << 20], &vec![1.5f32; 1 << 20]).expect("as many as in the shape");
    let cast = Cast::new(DataType::Float16, &CastOptions::default()).expect("a type of Cast");
    let mut halves = vec![0; 2 << 20];
    let status = std::fs::read_to_string("/proc/self/status").expect("the state of this process");
    let size = status.lines().find_map(|line| line.strip_prefix("VmSize:")).expect("its size");
    let size: u64 = size.trim().trim_end_matches(" kB").parse().expect("a number");
    // Memory for a few threads at most.
    let limit = (size << 10) + (16 << 20);
    let pid = std::process::id().to_string();
    let limit = format!("import resource; resource.prlimit({pid}, resource.RLIMIT_AS, ({limit}, {limit}))");
    assert!(Command::new("python3").args(["-c", &limit]).status().expect("python3 runs").success());
    cast.run_into(&floats.view(), &mut halves).expect("a cast without a pool");
    assert!(halves.chunks_exact(2).all(|half| half == [0, 0x3e]));
    println!("as ever");
}
