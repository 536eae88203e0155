//! The errors of building an operator and of running it.

use alloc::string::String;
use alloc::vec::Vec;
mod scaled;

use super::{Operator, Role};
use crate::element::DataType;
use crate::element::UnknownRoundMode;
use crate::error::{Count, Short, boxed_error};
use crate::scalar::block_scale::{BlockFormat, Recipe, ScaleRule};
use crate::scalar::text::ParseError;
use crate::tensor::{TensorError, TensorErrorKind};
use core::fmt;

boxed_error! {
    /// An error of building an operator, or a type that it does not support.
    pub struct OpError of OpErrorKind;
}

boxed_error! {
    /// A cast that failed.
    pub struct CastError of CastErrorKind;
}

/// What is wrong with an operator, or with a type for it: the kinds of [`OpError`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OpErrorKind {
    /// The opset has no such operator, or is newer than [`NEWEST_OPSET`](crate::NEWEST_OPSET).
    Opset {
        /// The operator.
        operator: Operator,
        /// The opset that was requested.
        opset: i64,
    },
    /// A type that the operator's version does not support.
    Type {
        /// The operator.
        operator: Operator,
        /// The operator's version.
        version: i64,
        /// The type.
        data_type: DataType,
        /// The first version that supports it, if any does.
        since: Option<i64>,
    },
    /// A type number that ONNX does not define, or UNDEFINED.
    TypeNumber {
        /// The operator.
        operator: Operator,
        /// The number.
        number: i64,
    },
    /// A `to` of Cast-1 that does not name a type.
    TypeName {
        /// The name, as given.
        name: String,
    },
    /// An attribute that the version does not define.
    UnknownAttribute {
        /// The operator.
        operator: Operator,
        /// The operator's version.
        version: i64,
        /// The attribute's name.
        name: String,
        /// The first version that defines it, if any does.
        since: Option<i64>,
    },
    /// An attribute of the wrong kind.
    AttributeKind {
        /// The operator.
        operator: Operator,
        /// The operator's version.
        version: i64,
        /// The attribute's name.
        name: &'static str,
        /// The expected kind: `INT` or `STRING`.
        want: &'static str,
    },
    /// The same attribute twice.
    DuplicateAttribute {
        /// The operator.
        operator: Operator,
        /// The attribute's name.
        name: String,
    },
    /// The attribute `to` is missing.
    MissingTo {
        /// The operator.
        operator: Operator,
        /// The operator's version.
        version: i64,
    },
    /// A `round_mode` that ONNX does not define.
    RoundMode {
        /// The value, as given.
        word: String,
    },
    /// BitCast between types of different widths.
    BitWidth {
        /// The input's type.
        from: DataType,
        /// The target.
        to: DataType,
    },
    /// A type that a version of an operator with a scale does not support in its role.
    RoleType {
        /// The operator.
        operator: Operator,
        /// Its version.
        version: i64,
        /// What the tensor is to the operator.
        role: Role,
        /// The type.
        data_type: DataType,
        /// The first version that supports the type in this role, if any does.
        since: Option<i64>,
    },
    /// Two types that must be the same.
    TypesDiffer {
        /// The operator.
        operator: Operator,
        /// Its version.
        version: i64,
        /// ONNX's name of the input whose type is another one.
        name: &'static str,
        /// That type.
        got: DataType,
        /// The type that it must have.
        want: DataType,
    },
    /// An attribute that gives an element type, with a number that none has.
    AttributeType {
        /// The operator.
        operator: Operator,
        /// The attribute.
        name: &'static str,
        /// Its value.
        number: i64,
    },
    /// A `precision` that is not float, float16 or bfloat16.
    Precision {
        /// The version of QuantizeLinear.
        version: i64,
        /// The type.
        data_type: DataType,
    },
    /// A DequantizeLinear whose scale is float8e8m0, without `output_dtype`.
    MissingOutputType {
        /// The version of DequantizeLinear.
        version: i64,
    },
    /// Symmetric scales for integers without a sign, or asymmetric ones for floats.
    Symmetry {
        /// The type of the result.
        data_type: DataType,
        /// Whether the scales are asymmetric.
        is_asymmetric: bool,
    },
    /// A negative `block_size`.
    BlockSize {
        /// The operator.
        operator: Operator,
        /// The value.
        block_size: i64,
    },
    /// An `axis` that the input does not have.
    Axis {
        /// The value.
        axis: i64,
        /// The number of dimensions of the input.
        rank: usize,
    },
    /// A scale of more than one element, in a version that has one for the tensor.
    ScalarScale {
        /// The operator.
        operator: Operator,
        /// Its version.
        version: i64,
        /// The scale's shape.
        scale: Vec<usize>,
    },
    /// A scale whose shape does not fit the input's.
    ScaleShape {
        /// The input's shape.
        input: Vec<usize>,
        /// The scale's shape.
        scale: Vec<usize>,
        /// The attribute `axis`.
        axis: i64,
        /// The attribute `block_size`; 0 where there are no blocks.
        block_size: usize,
    },
    /// A scale whose shape does not fit the input's in blocks of rows and columns.
    BlockScaleShape {
        /// The input's shape.
        input: Vec<usize>,
        /// The scale's shape.
        scale: Vec<usize>,
        /// Rows and columns of a block.
        block: [usize; 2],
    },
    /// A type that the values of scaled casts outside ONNX's operators do not have.
    ValueType {
        /// The type.
        data_type: DataType,
    },
    /// A type that scales do not have.
    ScaleType {
        /// The type.
        data_type: DataType,
    },
    /// A scale rule of MX for another block format.
    ScaleRule {
        /// The rule.
        rule: ScaleRule,
        /// The format.
        format: BlockFormat,
    },
    /// A recipe of NVFP4 for another block format.
    Recipe {
        /// The recipe.
        recipe: Recipe,
        /// The format.
        format: BlockFormat,
    },
    /// A zero point whose shape is not the scale's.
    ZeroPointShape {
        /// The zero point's shape.
        zero_point: Vec<usize>,
        /// The scale's shape.
        scale: Vec<usize>,
    },
}

impl fmt::Display for OpErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpErrorKind::Opset { operator, opset } => write!(
                f,
                "opset {opset} has no {operator} known here (want {} to {})",
                operator.versions()[0],
                super::NEWEST_OPSET
            ),
            OpErrorKind::Type { operator, version, data_type, since } => {
                write!(f, "{operator}-{version} does not take {data_type} (")?;
                match since {
                    Some(since) => write!(f, "{operator}-{since} is the first that does)"),
                    None => write!(f, "no version of {operator} does)"),
                }
            }
            OpErrorKind::TypeNumber { operator, number } => {
                let known = DataType::onnx_numbers();
                write!(f, "{operator}: `to` is {number}, which is not an element type (want {known})")
            }
            OpErrorKind::TypeName { name } => {
                let name = Short(name);
                write!(f, "Cast-1: `to` is `{name}`, which does not name an element type (want one like `FLOAT16`)")
            }
            OpErrorKind::UnknownAttribute { operator, version, name, since } => {
                write!(f, "{operator}-{version} has no attribute `{}`", Short(name))?;
                match since {
                    Some(since) => write!(f, " ({operator}-{since} is the first that has it)"),
                    None => Ok(()),
                }
            }
            OpErrorKind::AttributeKind { operator, version, name, want } => {
                write!(f, "{operator}-{version}: attribute `{name}` is not of kind {want}")
            }
            OpErrorKind::DuplicateAttribute { operator, name } => {
                write!(f, "{operator}: attribute `{}` is given twice", Short(name))
            }
            OpErrorKind::MissingTo { operator, version } => {
                write!(f, "{operator}-{version}: attribute `to` is missing")
            }
            OpErrorKind::RoundMode { word } => {
                write!(f, "round_mode `{}` is not known (want up, down or nearest)", Short(word))
            }
            OpErrorKind::BitWidth { from, to } => write!(
                f,
                "BitCast from {from} ({} bits) to {to} ({} bits): the widths differ",
                from.info().bits,
                to.info().bits
            ),
            // Those of operators with a scale.
            _ => self.fmt_scaled(f),
        }
    }
}

/// Why a cast failed: the kinds of [`CastError`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CastErrorKind {
    /// The operator cannot be built or does not support the type.
    Op(OpErrorKind),
    /// A tensor cannot be built: its parts do not match, or its size overflows.
    Tensor(TensorErrorKind),
    /// An input whose type is not the plan's source type.
    InputType {
        /// The input's type.
        got: DataType,
        /// The plan's source type.
        want: DataType,
    },
    /// An output buffer of the wrong size.
    OutputLen {
        /// The target type.
        data_type: DataType,
        /// Number of elements.
        elements: usize,
        /// The length of the buffer: bytes, or elements for a typed slice.
        got: usize,
        /// The required length, in the same unit.
        want: usize,
    },
    /// An output that cannot hold the target type: bytes for strings, or strings for numbers.
    OutputKind {
        /// The target type.
        data_type: DataType,
    },
    /// A zero point of a float type or of int32 that is not 0.
    ZeroPoint {
        /// The zero point's type.
        data_type: DataType,
        /// Index of the element that is not 0.
        index: usize,
    },
    /// A part that a tensor does not have.
    Part {
        /// The first element of the part.
        start: usize,
        /// Elements of the part.
        len: usize,
        /// Elements of the tensor.
        elements: usize,
    },
    /// A string element that is not a number of the target type.
    Text {
        /// Index of the element in the flattened tensor.
        index: usize,
        /// The element, shortened past 64 characters.
        text: String,
        /// The target type.
        to: DataType,
        /// The cause. It is part of the error text.
        source: ParseError,
    },
}

impl fmt::Display for CastErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CastErrorKind::Op(error) => error.fmt(f),
            CastErrorKind::Tensor(error) => error.fmt(f),
            CastErrorKind::InputType { got, want } => write!(f, "an input of {got} for a cast planned from {want}"),
            CastErrorKind::OutputLen { data_type, elements, got, want } => {
                // A typed slice of a wider or packed type counts elements.
                let unit = if data_type.byte_len(*elements) == Some(*want) { "byte" } else { "element" };
                write!(f, "an output of {} for {elements} {data_type} (want {want})", Count(got, unit))
            }
            CastErrorKind::OutputKind { data_type } => write!(f, "an output that does not hold {data_type}"),
            CastErrorKind::ZeroPoint { data_type, index } => {
                write!(f, "element {index} of a zero point of {data_type} is not 0, as {data_type} requires")
            }
            CastErrorKind::Part { start, len, elements } => {
                write!(f, "{len} elements from element {start} on, of a tensor of {elements}")
            }
            CastErrorKind::Text { index, text, to, source } => {
                write!(f, "element {index}: \"{text}\" {source} (to {to})")
            }
        }
    }
}

impl From<OpErrorKind> for CastError {
    fn from(kind: OpErrorKind) -> Self {
        CastErrorKind::Op(kind).into()
    }
}

impl From<TensorErrorKind> for CastError {
    fn from(kind: TensorErrorKind) -> Self {
        CastErrorKind::Tensor(kind).into()
    }
}

impl From<OpError> for CastError {
    fn from(error: OpError) -> Self {
        error.into_kind().into()
    }
}

impl From<TensorError> for CastError {
    fn from(error: TensorError) -> Self {
        error.into_kind().into()
    }
}

impl From<UnknownRoundMode> for OpError {
    fn from(UnknownRoundMode { word }: UnknownRoundMode) -> Self {
        OpErrorKind::RoundMode { word }.into()
    }
}
