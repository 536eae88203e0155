//! What onnxruntime's own processor kernels run, by its version, and where they give other values than ONNX defines.
//!
//! `scripts/checks/execution_provider.py` compares both tables with onnxruntime: each node that it runs itself is left
//! to it, each that it refuses is claimed, and values differ exactly where they are said to differ.

use super::host::OwnedAttribute;
use super::node::Node;
use onnx_cast::DataType;
use onnx_cast::ops::Operator;
use onnx_cast::ops::Role;
use onnx_cast::types::Kind;
use std::fmt;

/// A version of onnxruntime: major and minor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Release(u32, u32);

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

impl Release {
    /// Of a text as "1.31.1".
    pub(crate) fn of(version: &str) -> Release {
        let mut parts = version.split('.').map(|part| part.parse().unwrap_or(0));
        Release(parts.next().unwrap_or(0), parts.next().unwrap_or(0))
    }

    /// Whether the tables were compared with the release, or with one like it.
    pub(crate) fn is_known(self) -> bool {
        self <= Release::NEWEST
    }

    /// The newest that the tables know.
    pub(crate) const NEWEST: Release = Release::V1_32;
    /// The oldest that loads execution providers.
    const OLDEST: Release = Release(1, 23);
    const V1_24: Release = Release(1, 24);
    const V1_25: Release = Release(1, 25);
    const V1_27: Release = Release(1, 27);
    const V1_31: Release = Release(1, 31);
    const V1_32: Release = Release(1, 32);
}

/// The first release with kernels for a version of an operator.
fn has_version(operator: Operator, version: i64) -> Option<Release> {
    match (operator, version) {
        // Cast-1 names its target, which onnxruntime never ran.
        (Operator::Cast, 1) => None,
        (Operator::Cast, ..=23) => Some(Release::OLDEST),
        (Operator::Cast, 24 | 25) => Some(Release::V1_24),
        (Operator::Cast, 28) => Some(Release::V1_32),
        // CastLike becomes Cast.
        (Operator::CastLike, ..=23) => Some(Release::OLDEST),
        (Operator::CastLike, 24 | 25) => Some(Release::V1_24),
        (Operator::BitCast, 26) => Some(Release::V1_25),
        (Operator::QuantizeLinear, ..=21) => Some(Release::OLDEST),
        (Operator::QuantizeLinear, 23..=25) => Some(Release::V1_24),
        (Operator::DequantizeLinear, ..=23) => Some(Release::OLDEST),
        (Operator::DequantizeLinear, 24 | 25) => Some(Release::V1_24),
        (Operator::DynamicQuantizeLinear, 11) => Some(Release::OLDEST),
        _ => None,
    }
}

/// The first release whose kernels take a type.
fn has_type(operator: Operator, role: Option<Role>, data_type: DataType) -> Option<Release> {
    let (info, bits) = (data_type.info(), data_type.info().bits);
    match (operator, role) {
        (Operator::BitCast, _) => match info.kind {
            Kind::Float(_) if bits >= 16 => Some(Release::V1_25),
            Kind::Int | Kind::Uint if bits >= 8 => Some(Release::V1_25),
            _ => None,
        },
        (_, Some(Role::Values | Role::Scale)) => {
            matches!(data_type, DataType::Float | DataType::Float16).then_some(Release::OLDEST)
        }
        _ => match (info.kind, bits) {
            (Kind::Int | Kind::Uint, 2) => Some(Release::V1_24),
            (Kind::Float(_), ..=6) => None,
            // float8e8m0, which is a scale of the operators with one.
            (Kind::Float(format), _) if format.significand_bits == 0 => Some(Release::V1_27),
            _ => Some(Release::OLDEST),
        },
    }
}

/// Whether a release runs a node itself.
pub(crate) fn runs(release: Release, node: &Node) -> bool {
    let (Some(from), Some(to)) = (node.input_type(0), node.output_type()) else { return false };
    let scale = node.input_type(1);
    let (operator, values, quantized) = (node.operator, Some(Role::Values), Some(Role::Quantized));
    let types = match operator {
        Operator::QuantizeLinear => [has_type(operator, values, from), has_type(operator, quantized, to)],
        Operator::DequantizeLinear => [has_type(operator, quantized, from), has_type(operator, values, to)],
        _ => [has_type(operator, None, from), has_type(operator, None, to)],
    };
    let scale = match (operator, scale) {
        (Operator::QuantizeLinear | Operator::DequantizeLinear, Some(scale)) => {
            has_type(operator, Some(Role::Scale), scale)
        }
        _ => Some(Release::OLDEST),
    };
    // Before, the kernels failed where the result did not have the scale's type.
    let is_mixed = operator == Operator::DequantizeLinear && node.input_type(1) != Some(to);
    let mixed = Some(if is_mixed { Release::V1_31 } else { Release::OLDEST });
    let needed = [has_version(operator, node.version), types[0], types[1], scale, mixed];
    needed.iter().all(|first| first.is_some_and(|first| first <= release))
}

/// Whether onnxruntime gives other values for some inputs of a node that it runs. NaN of another sign or payload is the
/// same value.
pub(crate) fn is_inexact(release: Release, node: &Node) -> bool {
    let (Some(from), Some(to)) = (node.input_type(0), node.output_type()) else { return false };
    match node.operator {
        Operator::Cast | Operator::CastLike => ignores_round_mode(node, from, to) || is_inexact_cast(node, from, to),
        Operator::QuantizeLinear => is_inexact_quantize(release, node, from, to),
        _ => false,
    }
}

/// Before 1.32, quotients past int32 go wrong where the loop is not that of a tensor with one scale: in blocks, and
/// with scales for an axis to the types of 4 and 2 bits. Quotients by float16 are not rounded to float16, but since
/// 1.32 those of float16 from QuantizeLinear-23 on, and those in blocks to the types of 2 bits.
fn is_inexact_quantize(release: Release, node: &Node, from: DataType, to: DataType) -> bool {
    let is_newer = release >= Release::V1_32;
    let is_integer = matches!(to.info().kind, Kind::Int | Kind::Uint);
    let is_half = [Some(from), node.input_type(1)].contains(&Some(DataType::Float16));
    let in_blocks = node.int("block_size").unwrap_or(0) > 0;
    let is_rounded = is_newer && node.version >= 23 && (from == DataType::Float16 || in_blocks && to.info().bits == 2);
    is_half && !is_rounded
        || is_integer && !is_newer && (to.info().bits <= 4 || in_blocks)
        || drops_infinity(node, from, to)
}

/// The Cast that onnxruntime makes of a CastLike has the default `round_mode`. Of numbers up to 3 only a 3 shows that,
/// and not with `nearest`.
fn ignores_round_mode(node: &Node, from: DataType, to: DataType) -> bool {
    if node.operator != Operator::CastLike || !to.obeys_round_mode() {
        return false;
    }
    match node.attribute("round_mode") {
        Some(OwnedAttribute::String(word)) => match from {
            DataType::Bool | DataType::Int2 => false,
            DataType::Uint2 => word == b"down",
            _ => word != b"up",
        },
        _ => false,
    }
}

/// Without `saturate`, it gives wrong values from 480 up to 496 in float8e4m3fn, and from 61440 up to 65536 in
/// float8e5m2. Narrower types have no values there: both ranges begin at a number of four significant bits.
fn drops_infinity(node: &Node, from: DataType, to: DataType) -> bool {
    let bits_of_values = match from.info().kind {
        Kind::Float(format) if format.bits >= 16 => u32::MAX,
        Kind::Int => from.info().bits - 1,
        Kind::Uint => from.info().bits,
        _ => 0,
    };
    node.int("saturate") == Some(0)
        && match to {
            DataType::Float8E4M3FN => bits_of_values >= 9,
            DataType::Float8E5M2 => bits_of_values >= 16,
            _ => false,
        }
}

fn is_inexact_cast(node: &Node, from: DataType, to: DataType) -> bool {
    if from == to {
        return false;
    }
    let bits = from.info().bits;
    match (from.info().kind, to.info().kind) {
        // It rounds by way of double, and takes a part of a text for a number.
        (Kind::String, _) => true,
        // Exponents, and eight digits of a double. Texts of float8e4m3fn are short enough.
        (Kind::Float(_), Kind::String) => from != DataType::Float8E4M3FN,
        // Out of range, NaN, ties. Of the types whose values fit int16 it gets even NaN right.
        (Kind::Float(_), Kind::Int | Kind::Uint) => {
            to != DataType::Int16 || !matches!(from, DataType::Float8E4M3FN | DataType::Float8E4M3FNUZ)
        }
        // -0 is true, and the smallest value of float8e8m0 false.
        (Kind::Float(format), Kind::Bool) => format.bits <= 8 && (format.negative_zero || format.significand_bits == 0),
        (Kind::Float(source), Kind::Float(target)) => {
            // By way of float.
            (source.bits == 64 && target.bits <= 16)
                || drops_infinity(node, from, to)
                || loses_infinity(node, source.infinity, to)
        }
        // By way of float, whose integers are exact up to 2^24; the other narrow types end below that.
        (Kind::Int | Kind::Uint, Kind::Float(_)) => {
            (bits >= 32 && matches!(to, DataType::BFloat16 | DataType::Float8E8M0)) || drops_infinity(node, from, to)
        }
        _ => false,
    }
}

/// Before version 24, infinity is NaN in the FNUZ types, which it makes the largest value.
fn loses_infinity(node: &Node, has_infinity: bool, to: DataType) -> bool {
    let is_fnuz = matches!(to, DataType::Float8E4M3FNUZ | DataType::Float8E5M2FNUZ);
    is_fnuz && has_infinity && node.version < 24 && node.int("saturate") != Some(0)
}
