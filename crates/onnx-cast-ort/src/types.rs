//! onnxruntime's numbers of element types. They are ONNX's up to float4e2m1 (23), and go on in an order of their own.

use onnx_cast::{DataType, Kind};
use std::ffi::c_int;

/// The types from 24 on, as onnxruntime 1.31 has them. It has no float6.
const LATER: [(c_int, DataType); 3] = [(24, DataType::Uint2), (25, DataType::Int2), (26, DataType::Float8E8M0)];

/// The largest number that an onnxruntime has, by its version ("1.31.1"). Of those before 1.31, with which the numbers were
/// compared, only what all of them have is used: everything up to float8.
pub(crate) fn newest_number(version: &str) -> c_int {
    let mut parts = version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    let version = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
    if version >= (1, 31) { 26 } else { 20 }
}

/// The type of onnxruntime's number, which has some for complex types, but no tensors of them.
pub(crate) fn type_of(number: c_int) -> Option<DataType> {
    let data_type = match number {
        ..=23 => DataType::from_onnx(number.into()),
        _ => LATER.iter().find(|row| row.0 == number).map(|row| row.1),
    };
    data_type.filter(|data_type| data_type.info().kind != Kind::Complex)
}

/// onnxruntime's number of a type.
pub(crate) fn number_of(data_type: DataType) -> Option<c_int> {
    match data_type.onnx() {
        number @ ..=23 => Some(number),
        _ => LATER.iter().find(|row| row.1 == data_type).map(|row| row.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_types_are_one_to_one() {
        for number in (1..=26).filter(|number| ![14, 15].contains(number)) {
            assert_eq!(type_of(number).and_then(number_of), Some(number));
        }
        assert_eq!([0, 14, 15, 27, -1].map(type_of), [None; 5]);
        assert_eq!([DataType::Float6E2M3, DataType::Float6E3M2].map(number_of), [None; 2]);
    }

    #[test]
    fn versions() {
        assert_eq!(["1.31.1", "1.32.0", "2.0.0"].map(newest_number), [26; 3]);
        assert_eq!(["1.30.2", "1.4.0", "", "x.y"].map(newest_number), [20; 4]);
    }
}
