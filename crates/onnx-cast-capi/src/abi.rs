//! What a program may ask before anything else: the ABI's version, and what this build has.

use crate::edge::static_text;
use onnx_cast::DataType;
use onnx_cast::backend;
use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char, c_int};
use std::sync::LazyLock;

/// The version of the ABI that this header describes: its major number times 65536 and its minor number.
///
/// The major number is part of the shared library's name. It changes when a compiled program would break. The minor
/// number rises with every added function, constant, or field at the end of a struct.
///
/// Before version 1.0 of the library the major number is 0, and the minor number rises with every change.
pub const ONNX_CAST_ABI_VERSION: u32 = 0x0000_0001;

/// The version of the ABI that the library has, to be compared with ONNX_CAST_ABI_VERSION: the major numbers must be
/// equal, and the library's minor number must not be the smaller one. Where the major numbers are 0, the minor numbers
/// must be equal too.
#[unsafe(no_mangle)]
pub extern "C" fn onnx_cast_abi_version() -> u32 {
    ONNX_CAST_ABI_VERSION
}

/// The version of the library, such as "0.1.0". The text is never freed.
#[unsafe(no_mangle)]
pub extern "C" fn onnx_cast_version() -> *const c_char {
    const VERSION: &CStr = match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
        Ok(version) => version,
        Err(_) => panic!("a version has no zero byte"),
    };
    VERSION.as_ptr()
}

/// What can be asked of `onnx_cast_has_feature` besides the names of backends.
const FEATURES: &[&CStr] = &[
    c"scaled",
    c"blocks",
    c"strings",
    c"dlpack",
    c"threads",
    #[cfg(feature = "onnxruntime")]
    c"onnxruntime",
];

/// Whether the library has a feature: 1 or 0. Features are "scaled" (plans of QuantizeLinear and DequantizeLinear),
/// "blocks" (block formats), "strings", "dlpack", "threads", "onnxruntime" (the library can be registered as a library
/// of custom operators), and each backend that this machine can run. An unknown name gives 0.
///
/// name: ends with a zero byte, or is null, which is 0.
///
/// # Safety
/// As the parameters say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onnx_cast_has_feature(name: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    let Some(name) = (unsafe { static_text(name) }) else { return 0 };
    let mut named = BACKENDS.iter().map(CString::as_c_str).chain(FEATURES.iter().copied());
    named.any(|known| known == name).into()
}

/// The name of a backend that this machine can run, best first, or null where index is not below their number. The text
/// is never freed.
#[unsafe(no_mangle)]
pub extern "C" fn onnx_cast_backend_name(index: usize) -> *const c_char {
    BACKENDS.get(index).map_or(std::ptr::null(), |name| name.as_ptr())
}

static BACKENDS: LazyLock<Vec<CString>> =
    LazyLock::new(|| backend::available().filter_map(|backend| CString::new(backend.name()).ok()).collect());

/// The types' names as C has them.
pub(crate) fn type_name(data_type: DataType) -> *const c_char {
    static NAMES: LazyLock<BTreeMap<DataType, CString>> = LazyLock::new(|| {
        let named = |&data_type: &DataType| Some((data_type, CString::new(data_type.name()).ok()?));
        DataType::ALL.iter().filter_map(named).collect()
    });
    NAMES.get(&data_type).map_or(std::ptr::null(), |name| name.as_ptr())
}
