//! The versions of the model format that opsets came with (`ir_versions.txt`, written by
//! `scripts/checks/onnx_operators.py` from the onnx package).

const IR_VERSIONS: &str = include_str!("ir_versions.txt");

/// The version of the model format that an opset came with, and so those of its types.
pub(crate) fn ir_version(opset: i64) -> Option<u64> {
    IR_VERSIONS
        .lines()
        .filter_map(|line| line.split_once(' '))
        .find_map(|(known, ir_version)| if known.parse() == Ok(opset) { ir_version.parse().ok() } else { None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_opset_has_a_version_of_the_format() {
        let versions: Vec<_> = (1..=onnx_cast::NEWEST_OPSET).map(ir_version).collect();
        assert!(versions.iter().all(Option::is_some) && versions.is_sorted(), "{versions:?}");
        assert_eq!((ir_version(13), ir_version(19), ir_version(0)), (Some(7), Some(9), None));
    }
}
