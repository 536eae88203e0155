//! The element types that Constant and Identity take, by version.

use onnx_cast::{DataType, Operator};

/// The first version of Constant, or of Identity, that has a type, by the schemas of ONNX: every type comes with the
/// version that brought it to CastLike, bfloat16 with 13, and those that there were from the start with the first, but
/// that Constant-1 is for floats alone.
pub(crate) fn since(constant: bool, data_type: DataType) -> Option<i64> {
    let first = match data_type {
        DataType::Float | DataType::Double | DataType::Float16 => 1,
        _ if constant => 9,
        _ => 1,
    };
    match data_type {
        DataType::BFloat16 => Some(13),
        DataType::Complex64 | DataType::Complex128 => Some(first),
        _ => Operator::CastLike.since(data_type).map(|since| if since == 15 { first } else { since }),
    }
}

/// The newest version of Constant, or of Identity, at an opset.
pub(crate) fn version(constant: bool, opset: i64) -> i64 {
    const CONSTANT: &[i64] = &[1, 9, 11, 12, 13, 19, 21, 23, 24, 25];
    const IDENTITY: &[i64] = &[1, 13, 14, 16, 19, 21, 23, 24, 25];
    let versions = if constant { CONSTANT } else { IDENTITY };
    versions.iter().rev().copied().find(|&version| version <= opset).unwrap_or(1)
}
