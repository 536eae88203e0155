//! The errors of building a tensor.

use crate::element::DataType;
use crate::error::{Article, Count, ShapeText, boxed_error};
use alloc::vec::Vec;
use core::fmt;

boxed_error! {
    /// An error of building a tensor: its parts do not match.
    pub struct TensorError of TensorErrorKind;
}

/// Which parts of a tensor do not match: the kinds of [`TensorError`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TensorErrorKind {
    /// The number of elements, or of bytes, does not fit the address space.
    TooLarge {
        /// The element type.
        data_type: DataType,
        /// The shape.
        shape: Vec<usize>,
    },
    /// The number of bytes does not match type and shape.
    ByteLen {
        /// The element type.
        data_type: DataType,
        /// The shape.
        shape: Vec<usize>,
        /// Bytes given.
        got: usize,
        /// Bytes that type and shape require.
        want: usize,
    },
    /// The number of strings does not match the shape.
    StringCount {
        /// The shape.
        shape: Vec<usize>,
        /// Strings given.
        got: usize,
        /// Strings that the shape requires.
        want: usize,
    },
    /// String offsets that do not start at 0, that decrease, or that do not end at the number of bytes.
    StringOffsets {
        /// Index of the first wrong offset.
        index: usize,
    },
    /// Bytes alone for the type string, which needs offsets and bytes.
    NotBytes,
    /// A typed slice whose memory is not the tensor's bytes: its type is packed, or the machine is big-endian.
    SliceLayout {
        /// The element type.
        data_type: DataType,
    },
}

impl fmt::Display for TensorErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TensorErrorKind::TooLarge { data_type, shape } => {
                write!(f, "{} tensor of shape {} does not fit in memory", Article(data_type), ShapeText(shape))
            }
            TensorErrorKind::ByteLen { data_type, shape, got, want } => {
                write!(f, "{} for {} {data_type} (want {want})", Count(got, "byte"), ShapeText(shape))
            }
            TensorErrorKind::StringCount { shape, got, want } => {
                write!(f, "{} for shape {} (want {want})", Count(got, "string"), ShapeText(shape))
            }
            TensorErrorKind::StringOffsets { index } => {
                write!(f, "string offset {index} is out of order (offsets start at 0, rise, and end with the bytes)")
            }
            TensorErrorKind::SliceLayout { data_type } => {
                write!(f, "the memory of {} slice is not a tensor's bytes (want a copy)", Article(data_type))
            }
            TensorErrorKind::NotBytes => f.write_str("a string tensor's data is offsets and bytes, not bytes alone"),
        }
    }
}
