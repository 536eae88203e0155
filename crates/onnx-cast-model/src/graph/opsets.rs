//! The versions of ONNX's own operators, and the versions of the model format that opsets came with.
//!
//! The facts are the onnx package's own (`operators.txt`, written by `scripts/checks/onnx_operators.py`). What a
//! version means for a node of the one before stands in `upgrade/steps.rs`.

use std::collections::HashMap;
use std::sync::LazyLock;

const OPERATORS: &str = include_str!("operators.txt");
const IR_VERSIONS: &str = include_str!("ir_versions.txt");

/// The versions of every operator, by its name.
static VERSIONS: LazyLock<HashMap<&str, Vec<(i64, bool)>>> = LazyLock::new(|| {
    let line = |line: &'static str| {
        let (name, versions) = line.split_once(' ')?;
        let version = |text: &str| {
            let plain = text.strip_suffix('=');
            Some((plain.unwrap_or(text).parse().ok()?, plain.is_some()))
        };
        Some((name, versions.split(' ').map(version).collect::<Option<Vec<_>>>()?))
    };
    OPERATORS.lines().filter(|line| !line.starts_with('#')).filter_map(line).collect()
});

/// The version of the model format that an opset came with, and so those of its types.
pub(crate) fn ir_version(opset: i64) -> Option<u64> {
    IR_VERSIONS
        .lines()
        .filter_map(|line| line.split_once(' '))
        .find_map(|(known, ir_version)| if known.parse() == Ok(opset) { ir_version.parse().ok() } else { None })
}

/// The versions of an operator, each with whether it says the same as the one before but for more types.
pub(crate) fn versions(op_type: &str) -> Option<&'static [(i64, bool)]> {
    VERSIONS.get(op_type).map(Vec::as_slice)
}

/// Every operator and its versions.
#[cfg(test)]
pub(crate) fn operators() -> impl Iterator<Item = (&'static str, &'static [(i64, bool)])> {
    VERSIONS.iter().map(|(name, versions)| (*name, versions.as_slice()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changes() {
        assert_eq!(versions("Softmax"), Some(&[(1, false), (11, false), (13, false)][..]));
        assert_eq!(versions("Acos"), Some(&[(7, false), (22, true)][..]));
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
        let lines = OPERATORS.lines().filter(|line| !line.starts_with('#')).count();
        assert_eq!(operators().count(), lines);
        for (name, versions) in operators() {
            assert!(versions.is_sorted() && !versions[0].1, "{name}");
        }
    }
}
