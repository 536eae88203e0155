//! What onnxruntime's own processor kernels run, by its version, and where they give other values than ONNX defines.
//!
//! `scripts/checks/execution_provider.py` compares both tables with onnxruntime: each node that it runs itself is left
//! to it, each that it refuses is claimed, and values differ exactly where they are said to differ.

use super::host::OwnedAttribute;
use super::node::Node;
use onnx_cast::ops::Role;
use onnx_cast::{DataType, Kind, Operator};

/// A version of onnxruntime: major and minor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Release(u32, u32);

impl Release {
    /// Of a text as "1.31.1".
    pub(crate) fn of(version: &str) -> Release {
        let mut parts = version.split('.').map(|part| part.parse().unwrap_or(0));
        Release(parts.next().unwrap_or(0), parts.next().unwrap_or(0))
    }

    /// The oldest that loads execution providers.
    const OLDEST: Release = Release(1, 23);
    const V1_24: Release = Release(1, 24);
    const V1_25: Release = Release(1, 25);
    const V1_27: Release = Release(1, 27);
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
    let needed = [has_version(operator, node.version), types[0], types[1], scale];
    needed.iter().all(|first| first.is_some_and(|first| first <= release))
}

/// Whether onnxruntime gives other values for some inputs of a node that it runs. NaN of another sign or payload is the
/// same value.
pub(crate) fn is_inexact(node: &Node) -> bool {
    let (Some(from), Some(to)) = (node.input_type(0), node.output_type()) else { return false };
    match node.operator {
        Operator::Cast | Operator::CastLike => ignores_round_mode(node, to) || is_inexact_cast(node, from, to),
        // Quotients past int32, infinities, NaN; and quotients of float16, which it does not round to that.
        Operator::QuantizeLinear => {
            matches!(to.info().kind, Kind::Int | Kind::Uint) || from == DataType::Float16 || drops_infinity(node, to)
        }
        Operator::DynamicQuantizeLinear => true,
        _ => false,
    }
}

/// The Cast that onnxruntime makes of a CastLike has the default `round_mode`.
fn ignores_round_mode(node: &Node, to: DataType) -> bool {
    let is_other = |mode: &OwnedAttribute| !matches!(mode, OwnedAttribute::String(word) if word == b"up");
    node.operator == Operator::CastLike && to.obeys_round_mode() && node.attribute("round_mode").is_some_and(is_other)
}

/// Without `saturate`, values just beyond the largest of the formats with infinity, or with one NaN of each sign, go wrong.
fn drops_infinity(node: &Node, to: DataType) -> bool {
    node.int("saturate") == Some(0) && matches!(to, DataType::Float8E4M3FN | DataType::Float8E5M2)
}

fn is_inexact_cast(node: &Node, from: DataType, to: DataType) -> bool {
    let (source, target) = (from.info(), to.info());
    match (source.kind, target.kind) {
        _ if from == to => false,
        // It reads them by way of a double, and part of a text as a number.
        (Kind::String, _) => true,
        // Exponents, and eight digits of a double.
        (Kind::Float(_), Kind::String) => true,
        // Out of range, NaN, ties.
        (Kind::Float(_), Kind::Int | Kind::Uint) => true,
        // Zero of either sign is false, and no value of float8e8m0 is.
        (Kind::Float(format), Kind::Bool) => format.bits <= 8,
        // By way of float.
        (Kind::Float(_) | Kind::Int | Kind::Uint, Kind::Float(format)) => {
            (source.bits == 64 && format.bits <= 16)
                || drops_infinity(node, to)
                || (node.version < 24 && format.negative_zero)
        }
        _ => false,
    }
}
