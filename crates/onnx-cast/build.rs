//! Chooses the vector backends to compile: `cfg(simd = "...")` names their architecture.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(simd, values(none(), \"x86_64\", \"aarch64\", \"wasm32\"))");
    let variable = |name| env::var(name).unwrap_or_default();
    let arch = variable("CARGO_CFG_TARGET_ARCH");
    let has_vectors = match arch.as_str() {
        "x86_64" | "aarch64" => true,
        "wasm32" => variable("CARGO_CFG_TARGET_FEATURE").split(',').any(|feature| feature == "simd128"),
        _ => false,
    };
    // Kernels of vectors consist of functions of one instruction that are always inlined. Without optimisation they
    // take the compiler 20 GB of memory, and are slow.
    if has_vectors && variable("OPT_LEVEL") != "0" {
        println!("cargo::rustc-cfg=simd");
        println!("cargo::rustc-cfg=simd=\"{arch}\"");
    }
}
