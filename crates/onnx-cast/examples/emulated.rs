//! The checks of `tests/kernels.rs` and `tests/exhaustive.rs` as a single-threaded program for emulated processors.
//! `scripts/proofs/emulated.sh` builds and runs it. It stops at the first difference.

use std::time::Instant;
use testkit::library::{cases, values};

fn main() {
    let backends: Vec<&str> = onnx_cast::backend::available().map(|backend| backend.name()).collect();
    let order = if cfg!(target_endian = "big") { "big" } else { "little" };
    println!("{}, {order} endian; backends: {}", std::env::consts::ARCH, backends.join(", "));
    stage("casts at every length and alignment", cases::every_length_at_every_alignment);
    #[cfg(any(target_arch = "x86", target_arch = "x86_64", target_arch = "aarch64"))]
    stage("casts under every setting of the control register", cases::every_setting_of_the_control_register);
    stage("values of sources of 16 bits or fewer: all", values::every_value_of_16_bits_or_fewer);
    stage("values of wider sources", values::ties_specials_and_random_values_of_wider_sources);
    println!("no differences");
}

/// Runs a check, which returns the number of its comparisons.
fn stage(what: &str, check: impl FnOnce() -> u64) {
    let start = Instant::now();
    let compared = check();
    println!("{compared} {what}: equal ({:.0} s)", start.elapsed().as_secs_f64());
}
