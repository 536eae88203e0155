//! Names the shared library as programs that were linked with it will ask for it: by the major version of its ABI
//! (`abi.rs`). And keeps it mapped: onnxruntime unloads a library of execution providers when it is unregistered, even
//! where sessions that use it still live.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let soname = "-Wl,-soname,libonnx_cast.so.0";
    let install_name = "-Wl,-install_name,@rpath/libonnx_cast.0.dylib";
    match std::env::var("CARGO_CFG_TARGET_OS").as_deref() {
        Ok("macos" | "ios") => println!("cargo:rustc-cdylib-link-arg={install_name}"),
        Ok("windows") => {}
        _ => {
            println!("cargo:rustc-cdylib-link-arg={soname}");
            println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
        }
    }
}
