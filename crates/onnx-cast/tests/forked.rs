//! Casts in forked children of a program that has threads in rayon's global pool, or forks on one of them.
#![cfg(all(unix, feature = "threads", not(miri)))]

use onnx_cast::{Cast, CastOptions, DataType, TensorView};
use rayon::prelude::*;
use std::process::Command;

unsafe extern "C" {
    fn fork() -> i32;
    fn waitpid(pid: i32, status: *mut i32, options: i32) -> i32;
    fn alarm(seconds: u32) -> u32;
    fn _exit(status: i32) -> !;
}

/// Set in the process that forks: the name of the case.
const CASE: &str = "ONNX_CAST_TEST_FORKS";

/// Elements whose cast is split over threads.
const LEN: usize = 1 << 20;

/// Whether a large cast on `threads` gives the expected halves.
fn casts(threads: Option<usize>) -> bool {
    let floats = vec![1.5f32; LEN];
    let cast = Cast::new(DataType::Float16, &CastOptions::new().threads(threads)).expect("a type of Cast");
    let tensor = cast.run(&TensorView::from_slice(&[LEN], &floats).expect("the shape's elements")).expect("memory");
    tensor.bytes().is_some_and(|bytes| bytes.as_chunks().0.iter().all(|half| *half == 0x3e00u16.to_le_bytes()))
}

/// Forks, and expects the child to end with status 0. A child that hangs ends by a signal.
fn child(work: impl Fn() -> bool) {
    // SAFETY: the child calls what it needs, and ends.
    let pid = unsafe { fork() };
    assert!(pid >= 0, "no child");
    if pid == 0 {
        // SAFETY: `alarm` and `_exit` have no preconditions.
        unsafe {
            alarm(120);
            let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
            _exit(i32::from(!done.unwrap_or(false)));
        }
    }
    let mut status = -1;
    // SAFETY: the status can be written.
    assert_eq!(unsafe { waitpid(pid, &mut status, 0) }, pid);
    assert_eq!(status, 0, "the status of the child; 14: it waited for threads that it does not have");
}

/// Runs this test as a process of its own, with four threads, and there the case.
fn in_a_process(name: &str, case: impl FnOnce()) {
    if std::env::var_os(CASE).is_some_and(|case| case == name) {
        return case();
    }
    let mut again = Command::new(std::env::current_exe().expect("this test has a path"));
    again.args(["--exact", name, "--nocapture"]).env(CASE, name).env("RAYON_NUM_THREADS", "4");
    let output = again.output().expect("the test runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

/// The program's own use of the global pool.
fn use_global_pool() {
    assert_eq!((0..1_000_000u64).into_par_iter().sum::<u64>(), 499_999_500_000);
}

#[test]
fn first_cast_of_a_child_whose_parent_used_the_global_pool() {
    in_a_process("first_cast_of_a_child_whose_parent_used_the_global_pool", || {
        use_global_pool();
        child(|| casts(None));
        child(|| casts(Some(2)));
        // A child of a child that has a pool of its own.
        child(|| {
            child(|| casts(None));
            let first = casts(None);
            child(|| casts(None));
            first
        });
        assert!(casts(None), "the parent casts as ever");
        child(|| casts(None));
    });
}

#[test]
fn cast_of_a_child_that_was_forked_on_a_thread_of_a_pool() {
    in_a_process("cast_of_a_child_that_was_forked_on_a_thread_of_a_pool", || {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build().expect("threads");
        pool.install(|| child(|| casts(None)));
        rayon::join(|| child(|| casts(None)), use_global_pool);
        // A pool that the child makes is its own.
        child(|| rayon::ThreadPoolBuilder::new().num_threads(2).build().expect("threads").install(|| casts(None)));
        pool.install(|| assert!(casts(None), "the parent casts as ever"));
    });
}
