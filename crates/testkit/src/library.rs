//! The library under test: the oracle's types and settings as the library's, casts on every backend, and the checks
//! that several programs make. Only this module and those below it use the library.

pub mod cases;
#[cfg(any(target_arch = "x86", target_arch = "x86_64", target_arch = "aarch64"))]
pub mod control_register;
pub mod guarded;
pub mod scalar;
pub mod values;

use crate::packing::{pack, unpack};
use crate::{Rules, Ty};
use onnx_cast::backend::Backend;
use onnx_cast::{Cast, CastOptions, DataType, Plan, RoundMode, TensorView};

/// The library's type for a type of the oracle.
pub fn data_type(ty: Ty) -> DataType {
    DataType::from_onnx(ty.code().into()).expect("a type number of ONNX's")
}

/// The options for the oracle's settings: the version as opset, and only the attributes that it defines.
pub fn options(rules: &Rules, backend: Backend) -> CastOptions {
    let round_mode = match rules.round_mode {
        crate::RoundMode::Up => RoundMode::Up,
        crate::RoundMode::Down => RoundMode::Down,
        crate::RoundMode::Nearest => RoundMode::Nearest,
    };
    CastOptions::new()
        .opset(rules.opset_version.into())
        .saturate((rules.opset_version >= 19).then_some(rules.saturate))
        .round_mode((rules.opset_version >= 24).then_some(round_mode))
        .backend(backend)
}

/// A cast planned on a backend.
pub fn plan(from: Ty, to: Ty, rules: &Rules, backend: Backend) -> Plan {
    let cast = Cast::new(data_type(to), &options(rules, backend)).expect("a version that takes the target");
    cast.plan(data_type(from)).expect("a version that takes the source")
}

/// Casts packed elements into `out`, which is overwritten.
pub fn run(plan: &Plan, count: usize, bytes: &[u8], out: &mut Vec<u8>) {
    out.clear();
    // Not zero, so that an unwritten byte is detected.
    out.resize(plan.target_type().byte_len(count).expect("a length that fits"), 0xa5);
    let shape = [count];
    let view = TensorView::new(plan.source_type(), &shape, bytes).expect("bytes of the right length");
    plan.run_into(&view, out).expect("a numeric cast");
}

/// Casts bit patterns and compares each with the expected one.
pub fn check(from: Ty, to: Ty, rules: &Rules, backend: Backend, values: &[u64], want: &[u64]) {
    let mut out = Vec::new();
    run(&plan(from, to, rules, backend), values.len(), &pack(from, values), &mut out);
    if out == pack(to, want) {
        return;
    }
    let got = unpack(to, &out, values.len()).expect("the bytes of the result");
    for ((value, got), want) in values.iter().zip(got).zip(want) {
        assert_eq!(
            got,
            *want,
            "{value:#x} {} -> {} on {backend:?}, {rules:?}: {got:#x}, want {want:#x}",
            from.name(),
            to.name()
        );
    }
    panic!("{} -> {} on {backend:?}, {rules:?}: the padding is not zero", from.name(), to.name());
}
