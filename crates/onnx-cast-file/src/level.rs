//! The instruction set of loops that are written here.

use fearless_simd::Level;
use onnx_cast::backend::Backend;

/// The best that the machine has, or less where [`backend::VARIABLE`](onnx_cast::backend::VARIABLE) asks the library
/// for less.
pub(crate) fn level() -> Level {
    match Backend::best().name() {
        "portable" => Level::baseline(),
        #[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
        "avx2" => Level::new().as_avx2().map_or(Level::new(), Level::Avx2),
        _ => Level::new(),
    }
}
