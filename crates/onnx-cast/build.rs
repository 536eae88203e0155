//! Chooses the vector backends to compile: `cfg(simd = "...")` names their architecture. `cfg(threads)` says whether
//! casts are split over threads.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(simd, values(none(), \"x86_64\", \"aarch64\", \"wasm32\"))");
    println!("cargo::rustc-check-cfg=cfg(threads)");
    let variable = |name| env::var(name).unwrap_or_default();
    let arch = variable("CARGO_CFG_TARGET_ARCH");
    // WebAssembly without a system has no threads, and a module for browsers should not carry the pool.
    let is_bare_wasm = arch == "wasm32" && variable("CARGO_CFG_TARGET_OS") == "unknown";
    if !variable("CARGO_FEATURE_THREADS").is_empty() && !is_bare_wasm {
        println!("cargo::rustc-cfg=threads");
    }
    let has_vectors = match arch.as_str() {
        "x86_64" | "aarch64" => true,
        "wasm32" => variable("CARGO_CFG_TARGET_FEATURE").split(',').any(|feature| feature == "simd128"),
        _ => false,
    };
    // Kernels of vectors consist of functions of one instruction that are always inlined. Without optimisation they
    // take the compiler 20 GB of memory, and are slow.
    println!("cargo::rustc-check-cfg=cfg(optimized)");
    let is_optimized = variable("OPT_LEVEL") != "0";
    if is_optimized {
        // So do those over plain lanes in unit tests.
        println!("cargo::rustc-cfg=optimized");
    }
    if has_vectors && is_optimized {
        println!("cargo::rustc-cfg=simd");
        println!("cargo::rustc-cfg=simd=\"{arch}\"");
    }
}
