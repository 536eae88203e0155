//! What can go wrong where a model is converted to compute in a narrow type.

use onnx_cast::DataType;
use onnx_cast_file::text::Short;
use thiserror::Error;

/// A model that cannot be converted as it was asked for.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConvertError {
    /// A type that no model can be converted to.
    #[error("models are converted to float16 or bfloat16{}, not to {to}", if *emulate { ", or emulated in a float8 type" } else { "" })]
    Type {
        /// The type.
        to: DataType,
        /// Whether the model was to be emulated.
        emulate: bool,
    },
    /// An input or output that is to have a type that it cannot have.
    #[error("`{}` {}", Short(name), match known {
        true => format!("is a floating-point input or output, which cannot be {data_type} here"),
        false => "is not a floating-point input or output of the model".to_owned(),
    })]
    Interface {
        /// The input or output.
        name: String,
        /// The type.
        data_type: DataType,
        /// Whether there is such an input or output.
        known: bool,
    },
    /// Constants that would overflow or vanish, and whose readers have to stay float.
    #[error("constants overflow or vanish in the narrow type")]
    Lost,
    /// A value or node that is not there.
    #[error("no floating-point value and no node that computes with floats is named `{}`", Short(name))]
    Name {
        /// The name.
        name: String,
    },
}
