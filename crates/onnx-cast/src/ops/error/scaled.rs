//! The texts of the errors of operators with a scale.

use super::OpErrorKind;
use crate::element::DataType;
use core::fmt;

impl OpErrorKind {
    /// The texts of the errors of operators with a scale.
    pub(super) fn fmt_scaled(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpErrorKind::RoleType { operator, version, role, data_type, since } => {
                write!(f, "{operator}-{version} does not take {data_type} as {role} (")?;
                match since {
                    Some(since) => write!(f, "{operator}-{since} is the first that does)"),
                    None => write!(f, "no version of {operator} does)"),
                }
            }
            OpErrorKind::TypesDiffer { operator, version, name, got, want } => {
                write!(f, "{operator}-{version}: `{name}` is {got}, where {want} is needed")
            }
            OpErrorKind::AttributeType { operator, name, number } => {
                let known = DataType::onnx_numbers();
                write!(f, "{operator}: `{name}` is {number}, which is not an element type (want {known})")
            }
            OpErrorKind::Precision { version, data_type } => {
                write!(f, "QuantizeLinear-{version}: `precision` is {data_type} (want float, float16 or bfloat16)")
            }
            OpErrorKind::MissingOutputType { version } => write!(
                f,
                "DequantizeLinear-{version}: a scale of float8e8m0 needs the attribute `output_dtype` (float, float16 \
                 or bfloat16)"
            ),
            OpErrorKind::Symmetry { data_type, is_asymmetric: true } => {
                write!(f, "asymmetric scales for {data_type} (want an integer type, or symmetric scales)")
            }
            OpErrorKind::Symmetry { data_type, is_asymmetric: false } => {
                write!(f, "symmetric scales for {data_type}, which has no negative numbers (want asymmetric ones)")
            }
            OpErrorKind::BlockSize { operator, block_size } => {
                write!(f, "{operator}: `block_size` is {block_size} (want 0 (no blocks) or a positive size)")
            }
            OpErrorKind::Axis { axis, rank } => {
                write!(f, "`axis` is {axis} for an input ")?;
                match rank {
                    0 => f.write_str("without dimensions (want a scale of one element)"),
                    1 => f.write_str("of 1 dimension (want -1 or 0)"),
                    _ => write!(f, "of {rank} dimensions (want -{rank} to {})", rank - 1),
                }
            }
            OpErrorKind::ValueType { data_type } => {
                write!(f, "values of {data_type} (want float, float16 or bfloat16)")
            }
            OpErrorKind::ScaleType { data_type } => {
                write!(f, "a scale of {data_type} (want float, float16, bfloat16, float8e8m0 or float8e4m3fn)")
            }
            OpErrorKind::ScaleRule { format, .. } => {
                write!(f, "a scale rule is for MX, whose scales are powers of two: {format} has a recipe")
            }
            OpErrorKind::Recipe { format, .. } => write!(f, "a recipe is for nvfp4: {format} has a scale rule"),
            _ => self.fmt_shape(f),
        }
    }

    /// The texts of those about shapes.
    fn fmt_shape(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpErrorKind::ScalarScale { operator, version, scale } => write!(
                f,
                "{operator}-{version}: a scale of shape {scale:?} (want one element; {operator}-13 is the first that \
                 has a scale for each element of an axis)"
            ),
            OpErrorKind::ScaleShape { input, scale, axis, block_size: 0 } => write!(
                f,
                "a scale of shape {scale:?} for an input of shape {input:?} (want one element, or one for each of \
                 axis {axis})"
            ),
            OpErrorKind::ScaleShape { input, scale, axis, block_size } => write!(
                f,
                "a scale of shape {scale:?} for an input of shape {input:?} in blocks of {block_size} on axis {axis} \
                 (want the input's shape with an element for each block)"
            ),
            OpErrorKind::BlockScaleShape { input, scale, block: [rows, columns] } => write!(
                f,
                "a scale of shape {scale:?} for an input of shape {input:?} in blocks of {rows}x{columns} (want the \
                 input's shape with an element for each block of the last two axes)"
            ),
            OpErrorKind::ZeroPointShape { zero_point, scale } => {
                write!(f, "a zero point of shape {zero_point:?} beside a scale of shape {scale:?} (want the same)")
            }
            // `fmt` writes the others.
            _ => fmt::Debug::fmt(self, f),
        }
    }
}
