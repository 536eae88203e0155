//! Lets `cargo build` link the native module on macOS, as maturin does, and keeps it mapped: onnxruntime unloads a
//! library of execution providers when it is unregistered, even where sessions that use it still live.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    pyo3_build_config::add_extension_module_link_args();
    if !matches!(std::env::var("CARGO_CFG_TARGET_OS").as_deref(), Ok("macos" | "ios" | "windows")) {
        println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    }
}
