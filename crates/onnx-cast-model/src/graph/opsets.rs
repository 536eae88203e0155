//! Whether a model means the same at a newer opset.
//!
//! The facts are the onnx package's own (`operators.txt`, written by `scripts/checks/onnx_operators.py`): the versions
//! of every operator of ONNX's domain, and which of them say the same as the one before but for more element types. An
//! operator means the same between two opsets if it has no version between them, or only such.

use crate::error::ModelError;
use crate::tree::{Document, Node, is_default};
use onnx_cast::{Cast, DataType};

const OPERATORS: &str = include_str!("operators.txt");
const IR_VERSIONS: &str = include_str!("ir_versions.txt");

/// The version of the model format that an opset came with, and so those of its types.
pub(crate) fn ir_version(opset: i64) -> Option<u64> {
    IR_VERSIONS
        .lines()
        .filter_map(|line| line.split_once(' '))
        .find_map(|(known, ir_version)| if known.parse() == Ok(opset) { ir_version.parse().ok() } else { None })
}

/// Refuses, by name, where a node may mean something else at opset `to`.
pub(crate) fn check(document: &Document<'_>, to: i64) -> Result<(), ModelError> {
    // Before version 3 of the format there were no opsets, and attributes need not tell their kind.
    if document.ir_version < 3 {
        return Err(ModelError::RaiseFormat { ir_version: document.ir_version, to });
    }
    let mut nodes = Vec::new();
    let mut from = document.opset.unwrap_or(to);
    for graph in document.graphs() {
        let Some(opset) = graph.opset.filter(|&opset| opset < to) else { continue };
        from = from.min(opset);
        for (index, node) in graph.nodes.iter().enumerate() {
            if is_default(node.domain)
                && let Some(why) = changes(node, opset, to)?
            {
                nodes.push(format!("{} {why}", node.label(index)));
            }
        }
    }
    if nodes.is_empty() { Ok(()) } else { Err(ModelError::Raise { from, to, nodes }) }
}

/// How a node's operator changes between two opsets.
fn changes(node: &Node<'_>, from: i64, to: i64) -> Result<Option<String>, ModelError> {
    let Some(versions) = versions(node.op_type) else {
        return Ok(Some("is no operator known here".to_owned()));
    };
    let Some((old, new)) = change(&versions, from, to) else { return Ok(None) };
    if node.is("Cast") && old >= 6 && casts_alike(node, from, to)? {
        return Ok(None);
    }
    Ok(Some(format!("is version {old} of its operator, which changes in version {new}")))
}

/// The version in force at the older opset, and the first one up to the newer that may mean something else.
fn change(versions: &[(i64, bool)], from: i64, to: i64) -> Option<(i64, i64)> {
    let old = versions.iter().rev().map(|&(version, _)| version).find(|&version| version <= from).unwrap_or(0);
    let new = versions.iter().find(|&&(version, same)| version > from && version <= to && !same)?;
    Some((old, new.0))
}

/// The versions of an operator, each with whether it says the same as the one before but for more types.
fn versions(op_type: &str) -> Option<Vec<(i64, bool)>> {
    let line = OPERATORS.lines().find_map(|line| line.strip_prefix(op_type)?.strip_prefix(' '))?;
    let version = |text: &str| {
        let plain = text.strip_suffix('=');
        Some((plain.unwrap_or(text).parse().ok()?, plain.is_some()))
    };
    line.split(' ').map(version).collect()
}

/// Whether a Cast follows the same rules at both opsets, by the library's word: most of its versions differ only in
/// what they take.
fn casts_alike(node: &Node<'_>, from: i64, to: i64) -> Result<bool, ModelError> {
    let attributes = node.lend();
    let (old, new) = (Cast::from_node(from, &attributes), Cast::from_node(to, &attributes));
    Ok(match (old, new) {
        (Ok(old), Ok(new)) => old.target_type() != DataType::String && old.rules() == new.rules(),
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changes() {
        let change = |op_type: &str, from, to| change(&versions(op_type).expect("an operator"), from, to);
        // No version between.
        assert_eq!(change("MatMul", 13, 28), None);
        // More types only.
        assert_eq!(change("MatMul", 9, 19), None);
        // Softmax-13 has another default axis, and means it for every axis.
        assert_eq!(change("Softmax", 11, 12), None);
        assert_eq!(change("Softmax", 11, 13), Some((11, 13)));
        assert_eq!(change("Squeeze", 11, 19), Some((11, 13)));
        assert!(versions("Softma").is_none());
        assert!(versions("NoSuchOperator").is_none());
    }

    #[test]
    fn every_opset_has_a_version_of_the_format() {
        let versions: Vec<_> = (1..=onnx_cast::NEWEST_OPSET).map(ir_version).collect();
        assert!(versions.iter().all(Option::is_some) && versions.is_sorted(), "{versions:?}");
        assert_eq!((ir_version(13), ir_version(19), ir_version(0)), (Some(7), Some(9), None));
    }

    #[test]
    fn every_line_reads() {
        for line in OPERATORS.lines().filter(|line| !line.starts_with('#')) {
            let (op_type, _) = line.split_once(' ').expect("a name and versions");
            let versions = versions(op_type).unwrap_or_else(|| panic!("{line}"));
            assert!(versions.is_sorted() && !versions[0].1, "{line}");
        }
    }
}
