//! The scalar cast of bit patterns between types chosen at run time.

use onnx_cast::scalar::cast_one;
use onnx_cast::types::*;
use onnx_cast::{scalar, with_numeric_types};

/// The scalar cast of bit patterns, with the Rust types of the pair.
pub fn scalar_cast(from: DataType, to: DataType, rules: &scalar::Rules, values: &[u64]) -> Vec<u64> {
    fn cast<S: Element, D: Element>(values: &[u64], rules: &scalar::Rules) -> Vec<u64> {
        let one = |&bits: &u64| cast_one::<S, D>(S::from_bits(Word::from_u64(bits)), rules).to_bits().to_u64();
        values.iter().map(one).collect()
    }
    fn row<S: Element>(to: DataType, values: &[u64], rules: &scalar::Rules) -> Vec<u64> {
        macro_rules! columns {
            ($($target:ty)*) => {
                match to {
                    $(to if to == <$target>::DATA_TYPE => cast::<S, $target>(values, rules),)*
                    other => panic!("{other} is not in the list of Rust types"),
                }
            };
        }
        with_numeric_types!(columns)
    }
    macro_rules! rows {
        ($($source:ty)*) => {
            match from {
                $(from if from == <$source>::DATA_TYPE => row::<$source>(to, values, rules),)*
                other => panic!("{other} is not in the list of Rust types"),
            }
        };
    }
    with_numeric_types!(rows)
}

/// The ONNX types of the list of Rust types, in its order.
pub fn rust_types() -> Vec<DataType> {
    macro_rules! list {
        ($($ty:ty)*) => { vec![$(<$ty>::DATA_TYPE),*] };
    }
    let mut listed = with_numeric_types!(list);
    listed.sort();
    listed
}
