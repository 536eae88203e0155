//! The scalar cast of bit patterns between types that are known only when the program runs.
#![allow(dead_code, reason = "each program uses its own part")]

use onnx_cast::scalar::cast_one;
use onnx_cast::*;

/// The Rust types of the 25 numeric types.
macro_rules! numeric {
    ($callback:ident) => {
        $callback! {
            f32 f64 Float16 BFloat16 Float8E4M3FN Float8E4M3FNUZ Float8E5M2 Float8E5M2FNUZ Float8E8M0 Float6E2M3
            Float6E3M2 Float4E2M1 i8 i16 i32 i64 u8 u16 u32 u64 Int4 Int2 Uint4 Uint2 bool
        }
    };
}

/// The scalar cast of bit patterns, by the Rust types of the pair.
pub(crate) fn scalar_cast(from: DataType, to: DataType, rules: &scalar::Rules, values: &[u64]) -> Vec<u64> {
    fn cast<S: scalar::Widen, D: scalar::Narrow>(values: &[u64], rules: &scalar::Rules) -> Vec<u64> {
        let one = |&bits: &u64| cast_one::<S, D>(S::from_bits(Word::from_u64(bits)), rules).to_bits().to_u64();
        values.iter().map(one).collect()
    }
    fn row<S: scalar::Widen>(to: DataType, values: &[u64], rules: &scalar::Rules) -> Vec<u64> {
        macro_rules! columns {
            ($($target:ty)*) => {
                match to {
                    $(to if to == <$target>::DATA_TYPE => cast::<S, $target>(values, rules),)*
                    other => panic!("{other} is not in the list of Rust types"),
                }
            };
        }
        numeric!(columns)
    }
    macro_rules! rows {
        ($($source:ty)*) => {
            match from {
                $(from if from == <$source>::DATA_TYPE => row::<$source>(to, values, rules),)*
                other => panic!("{other} is not in the list of Rust types"),
            }
        };
    }
    numeric!(rows)
}

/// The ONNX types of that list, in the order of their numbers.
pub(crate) fn rust_types() -> Vec<DataType> {
    macro_rules! list {
        ($($ty:ty)*) => { vec![$(<$ty>::DATA_TYPE),*] };
    }
    let mut listed = numeric!(list);
    listed.sort();
    listed
}
