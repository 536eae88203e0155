//! onnxruntime's numbers of element types, which the library's table has.

use onnx_cast::DataType;
use std::ffi::c_int;

/// The largest type number of an onnxruntime, by its version ("1.31.1"). The numbers were compared with 1.31. Of
/// earlier versions, only the types that all of them have are used: everything up to float8.
pub(crate) fn newest_number(version: &str) -> c_int {
    let mut parts = version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    let version = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
    if version >= (1, 31) { 26 } else { 20 }
}

/// The type of onnxruntime's number.
pub(crate) fn type_of(number: c_int) -> Option<DataType> {
    DataType::ALL.iter().find(|&&data_type| number_of(data_type) == Some(number)).copied()
}

/// onnxruntime's number of a type.
pub(crate) fn number_of(data_type: DataType) -> Option<c_int> {
    data_type.interchange().onnxruntime
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_types_are_one_to_one() {
        for &data_type in DataType::ALL {
            if let Some(number) = number_of(data_type) {
                assert_eq!(type_of(number), Some(data_type));
                assert!(number <= newest_number("1.31.1"), "{data_type} is newer than `newest_number` knows");
                assert!(number > 23 || number == data_type.onnx(), "{data_type}: onnxruntime's number is ONNX's");
            }
        }
        assert_eq!([0, 14, 15, -1].map(type_of), [None; 4]);
    }

    #[test]
    fn versions() {
        assert_eq!(["1.31.1", "1.32.0", "2.0.0"].map(newest_number), [26; 3]);
        assert_eq!(["1.30.2", "1.4.0", "", "x.y"].map(newest_number), [20; 4]);
    }
}
