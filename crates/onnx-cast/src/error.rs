//! What can go wrong, as enums with fields. The texts are lower case, without a full stop, and say what was expected, so
//! that a caller can put the tensor's or the file's name in front of them.

use crate::element::DataType;
use crate::ops::Operator;
use std::fmt;

/// A shape as people read it: `2x3`, or `scalar`.
pub(crate) struct ShapeText<'a>(pub(crate) &'a [usize]);

impl fmt::Display for ShapeText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("scalar");
        }
        for (i, dim) in self.0.iter().enumerate() {
            write!(f, "{}{dim}", if i == 0 { "" } else { "x" })?;
        }
        Ok(())
    }
}

/// Text for an error message: what cannot be printed is escaped, and past 64 characters it is cut.
pub(crate) fn shorten(text: &str) -> String {
    const LIMIT: usize = 64;
    let mut out: String = text.chars().take(LIMIT).flat_map(char::escape_debug).collect();
    if text.chars().nth(LIMIT).is_some() {
        out.push_str("...");
    }
    out
}

/// A tensor whose parts do not fit together.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TensorError {
    /// The number of elements, or of bytes, does not fit the address space.
    TooLarge {
        /// The element type.
        data_type: DataType,
        /// The shape.
        shape: Vec<usize>,
    },
    /// The bytes are not as many as type and shape ask for.
    ByteLen {
        /// The element type.
        data_type: DataType,
        /// The shape.
        shape: Vec<usize>,
        /// Bytes that there are.
        got: usize,
        /// Bytes that type and shape ask for.
        want: usize,
    },
    /// The strings are not as many as the shape asks for.
    StringCount {
        /// The shape.
        shape: Vec<usize>,
        /// Strings that there are.
        got: usize,
        /// Strings that the shape asks for.
        want: usize,
    },
    /// String offsets that do not start at 0, decrease, or do not end with the bytes.
    StringOffsets {
        /// Index of the first offset that is wrong.
        index: usize,
    },
    /// String data for a type that is not string.
    NotString {
        /// The element type.
        data_type: DataType,
    },
    /// Bytes for the type string, whose data is offsets and bytes.
    NotBytes,
}

impl fmt::Display for TensorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TensorError::TooLarge { data_type, shape } => {
                write!(f, "a {data_type} tensor of shape {} does not fit in memory", ShapeText(shape))
            }
            TensorError::ByteLen { data_type, shape, got, want } => {
                write!(f, "{got} bytes for {} {data_type} (want {want})", ShapeText(shape))
            }
            TensorError::StringCount { shape, got, want } => {
                write!(f, "{got} strings for shape {} (want {want})", ShapeText(shape))
            }
            TensorError::StringOffsets { index } => {
                write!(f, "string offset {index} is out of order (offsets start at 0, rise, and end with the bytes)")
            }
            TensorError::NotString { data_type } => write!(f, "string data for a {data_type} tensor"),
            TensorError::NotBytes => f.write_str("a string tensor's data is offsets and bytes, not bytes alone"),
        }
    }
}

impl std::error::Error for TensorError {}

/// A string that is not a number of the target type.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ParseError {
    /// Not a decimal number (nor, for float types, `inf` or `nan`; for bool, `true` or `false`).
    NotANumber,
    /// A number that the integer type does not hold.
    OutOfRange,
    /// `inf` or `nan`, which no integer type holds.
    NotFinite,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ParseError::NotANumber => "is not a number",
            ParseError::OutOfRange => "is out of range",
            ParseError::NotFinite => "has no integer value",
        })
    }
}

impl std::error::Error for ParseError {}

/// An operator that cannot be built or that does not take a type.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OpError {
    /// The opset has no such operator, or is newer than the newest known.
    Opset {
        /// The operator.
        operator: Operator,
        /// The opset asked for.
        opset: i64,
    },
    /// A type outside the operator version's list.
    Type {
        /// The operator.
        operator: Operator,
        /// The operator's version.
        version: i64,
        /// The type.
        data_type: DataType,
        /// The first version that takes it, if one does.
        since: Option<i64>,
    },
    /// A type number that ONNX does not have, or UNDEFINED.
    TypeNumber {
        /// The operator.
        operator: Operator,
        /// The number.
        number: i64,
    },
    /// A `to` of Cast-1 that names no type.
    TypeName {
        /// The name, as given.
        name: String,
    },
    /// An attribute that the version does not have.
    UnknownAttribute {
        /// The operator.
        operator: Operator,
        /// The operator's version.
        version: i64,
        /// The attribute's name.
        name: String,
        /// The first version that has it, if one does.
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
        /// The kind wanted: `INT` or `STRING`.
        want: &'static str,
    },
    /// The same attribute twice.
    DuplicateAttribute {
        /// The operator.
        operator: Operator,
        /// The attribute's name.
        name: String,
    },
    /// No `to`.
    MissingTo {
        /// The operator.
        operator: Operator,
        /// The operator's version.
        version: i64,
    },
    /// A `round_mode` that is not a word of ONNX's.
    RoundMode {
        /// The word, as given.
        word: String,
    },
    /// BitCast between types of different widths.
    BitWidth {
        /// The input's type.
        from: DataType,
        /// The target.
        to: DataType,
    },
}

impl fmt::Display for OpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpError::Opset { operator, opset } => write!(
                f,
                "opset {opset} has no {operator} known here (want {} to {})",
                operator.versions()[0],
                crate::ops::NEWEST_OPSET
            ),
            OpError::Type { operator, version, data_type, since } => {
                write!(f, "{operator}-{version} does not take {data_type} (")?;
                match since {
                    Some(since) => write!(f, "{operator}-{since} is the first that does)"),
                    None => write!(f, "no version of {operator} does)"),
                }
            }
            OpError::TypeNumber { operator, number } => {
                write!(f, "{operator}: `to` is {number}, which is no element type (want 1 to {})", DataType::ALL.len())
            }
            OpError::TypeName { name } => {
                write!(f, "Cast-1: `to` is `{}`, which names no element type (want one like `FLOAT16`)", shorten(name))
            }
            OpError::UnknownAttribute { operator, version, name, since } => {
                write!(f, "{operator}-{version} has no attribute `{}`", shorten(name))?;
                match since {
                    Some(since) => write!(f, " ({operator}-{since} is the first that has it)"),
                    None => Ok(()),
                }
            }
            OpError::AttributeKind { operator, version, name, want } => {
                write!(f, "{operator}-{version}: attribute `{name}` is not of kind {want}")
            }
            OpError::DuplicateAttribute { operator, name } => {
                write!(f, "{operator}: attribute `{}` is given twice", shorten(name))
            }
            OpError::MissingTo { operator, version } => write!(f, "{operator}-{version}: attribute `to` is missing"),
            OpError::RoundMode { word } => {
                write!(f, "round_mode `{}` is not known (want up, down or nearest)", shorten(word))
            }
            OpError::BitWidth { from, to } => write!(
                f,
                "BitCast from {from} ({} bits) to {to} ({} bits): the widths differ",
                from.info().bits,
                to.info().bits
            ),
        }
    }
}

impl std::error::Error for OpError {}

/// A cast that could not be done.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CastError {
    /// The operator cannot be built or does not take the type.
    Op(OpError),
    /// The result's type and shape do not make a tensor (its size overflows).
    Tensor(TensorError),
    /// An input of another type than the plan was made for.
    InputType {
        /// The input's type.
        got: DataType,
        /// The plan's.
        want: DataType,
    },
    /// An output buffer of the wrong size.
    OutputLen {
        /// The target type.
        data_type: DataType,
        /// Number of elements.
        elements: usize,
        /// Bytes, or elements for typed slices, that the buffer has.
        got: usize,
        /// What it must have.
        want: usize,
    },
    /// An output that does not hold the target's type: bytes for strings, or strings for numbers.
    OutputKind {
        /// The target type.
        data_type: DataType,
    },
    /// A string element that is not a number of the target type.
    Text {
        /// Index of the element in the flattened tensor.
        index: usize,
        /// The element, shortened past 64 characters.
        text: String,
        /// The target type.
        to: DataType,
        /// What is wrong with it.
        source: ParseError,
    },
    /// A backend that this machine does not have.
    Backend {
        /// Its name.
        name: String,
    },
}

impl fmt::Display for CastError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CastError::Op(error) => error.fmt(f),
            CastError::Tensor(error) => error.fmt(f),
            CastError::InputType { got, want } => write!(f, "an input of {got} for a cast planned from {want}"),
            CastError::OutputLen { data_type, elements, got, want } => {
                write!(f, "an output of {got} for {elements} {data_type} (want {want})")
            }
            CastError::OutputKind { data_type } => write!(f, "an output that does not hold {data_type}"),
            CastError::Text { index, text, to, source } => write!(f, "element {index}: \"{text}\" {source} (to {to})"),
            CastError::Backend { name } => {
                write!(f, "no backend `{}` on this machine (want one of", shorten(name))?;
                for backend in crate::arch::available() {
                    write!(f, " {}", backend.name())?;
                }
                f.write_str(")")
            }
        }
    }
}

impl std::error::Error for CastError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            CastError::Op(error) => Some(error),
            CastError::Tensor(error) => Some(error),
            CastError::Text { source, .. } => Some(source),
            _ => None,
        }
    }
}

impl From<OpError> for CastError {
    fn from(error: OpError) -> Self {
        CastError::Op(error)
    }
}

impl From<TensorError> for CastError {
    fn from(error: TensorError) -> Self {
        CastError::Tensor(error)
    }
}
