//! Keeps the native module mapped: onnxruntime unloads a library of execution providers when it is unregistered, even
//! where sessions that use it still live.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if !matches!(std::env::var("CARGO_CFG_TARGET_OS").as_deref(), Ok("macos" | "ios" | "windows")) {
        println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    }
}
