//! What can go wrong where a model is converted to compute in a narrow type.

use onnx_cast::DataType;
use onnx_cast_file::text::Short;
use std::fmt;
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
    #[error("`{}` is a floating-point input or output, which cannot be {data_type} here", Short(name))]
    Interface {
        /// The input or output.
        name: String,
        /// The type.
        data_type: DataType,
    },
    /// An input or output that the model does not have.
    #[error("`{}` is not a floating-point input or output of the model{}", Short(name), Near(near))]
    Port {
        /// The name.
        name: String,
        /// An input or output whose name is near.
        near: Option<String>,
    },
    /// A pattern for nodes that matches none.
    #[error("{option} `{}` matches no node{}", Short(pattern), Near(near))]
    Pattern {
        /// The field of the request that the pattern is in.
        option: &'static str,
        /// The pattern.
        pattern: String,
        /// A node's name or operator that is near.
        near: Option<String>,
    },
    /// A constant that would overflow or vanish, and whose readers are to be narrow.
    #[error("constant `{}` overflows or vanishes in {to}, and `low` wants a node narrow that reads it", Short(name))]
    Lost {
        /// The constant.
        name: String,
        /// The narrow type.
        to: DataType,
    },
    /// A value or node that is not there.
    #[error("no floating-point value and no node that computes with floats is named `{}`{}", Short(name), Near(near))]
    Name {
        /// The name.
        name: String,
        /// A value or node whose name is near.
        near: Option<String>,
    },
}

/// A name that is near to one that is not there.
struct Near<'a>(&'a Option<String>);

impl fmt::Display for Near<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(name) => write!(f, " (near is `{}`)", Short(name)),
            None => Ok(()),
        }
    }
}
