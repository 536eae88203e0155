//! The three operators: versions, attributes, supported types, inference, and running them.

mod bit_cast;
mod cast;
mod cast_like;
mod error;
mod exact;
pub(crate) mod execute;
mod node;
mod plan;
mod strings;

use crate::element::DataType;
use std::fmt;

pub use bit_cast::BitCast;
pub use cast::{Cast, CastOptions, cast_slice, cast_slice_packed};
pub use cast_like::CastLike;
pub use error::{CastError, OpError};
pub use node::{Attribute, AttributeValue};
pub use plan::Plan;

/// The newest opset that this crate supports, and the default everywhere.
pub const NEWEST_OPSET: i64 = 28;

/// One of the three operators.
///
/// ```
/// use onnx_cast::{DataType, Operator};
///
/// assert_eq!(Operator::Cast.version_at(22), Ok(21));
/// assert_eq!(Operator::Cast.since(DataType::Int4), Some(21));
/// assert!(!Operator::CastLike.supports(25, DataType::Float6E2M3));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Operator {
    /// ONNX `Cast`.
    Cast,
    /// ONNX `CastLike`.
    CastLike,
    /// ONNX `BitCast`.
    BitCast,
}

impl Operator {
    /// All operators.
    pub const ALL: &'static [Operator] = &[Operator::Cast, Operator::CastLike, Operator::BitCast];

    /// ONNX's name of the operator.
    pub const fn name(self) -> &'static str {
        match self {
            Operator::Cast => "Cast",
            Operator::CastLike => "CastLike",
            Operator::BitCast => "BitCast",
        }
    }

    /// The versions, oldest first.
    pub const fn versions(self) -> &'static [i64] {
        match self {
            Operator::Cast => &[1, 6, 9, 13, 19, 21, 23, 24, 25, 28],
            Operator::CastLike => &[15, 19, 21, 23, 24, 25],
            Operator::BitCast => &[26],
        }
    }

    /// The version that an opset selects: the newest version not newer than the opset.
    ///
    /// # Errors
    /// Fails if the opset is older than the operator, or newer than [`NEWEST_OPSET`].
    #[inline]
    pub fn version_at(self, opset: i64) -> Result<i64, OpError> {
        let versions = self.versions().iter().rev();
        let version = versions.copied().find(|&version| version <= opset && opset <= NEWEST_OPSET);
        version.ok_or(OpError::Opset { operator: self, opset })
    }

    /// The first version that supports a type, as input and as output.
    #[inline]
    pub const fn since(self, data_type: DataType) -> Option<i64> {
        let info = data_type.info();
        match self {
            Operator::Cast => info.cast_since,
            Operator::CastLike => info.cast_like_since,
            Operator::BitCast => info.bit_cast_since,
        }
    }

    /// Whether a version supports a type.
    #[inline]
    pub fn supports(self, version: i64, data_type: DataType) -> bool {
        self.since(data_type).is_some_and(|since| since <= version)
    }

    /// The attributes, each with the first version that defines it.
    pub const fn attributes(self) -> &'static [(&'static str, i64)] {
        match self {
            Operator::Cast => &[("to", 1), ("saturate", 19), ("round_mode", 24)],
            Operator::CastLike => &[("saturate", 19), ("round_mode", 24)],
            Operator::BitCast => &[("to", 26)],
        }
    }

    #[inline]
    pub(crate) fn check_type(self, version: i64, data_type: DataType) -> Result<(), OpError> {
        if self.supports(version, data_type) {
            return Ok(());
        }
        Err(OpError::Type { operator: self, version, data_type, since: self.since(data_type) })
    }

    pub(crate) fn check_attribute(self, version: i64, name: &str) -> Result<(), OpError> {
        let since = self.attributes().iter().find(|(known, _)| *known == name).map(|(_, since)| *since);
        match since {
            Some(since) if since <= version => Ok(()),
            since => Err(OpError::UnknownAttribute { operator: self, version, name: name.to_owned(), since }),
        }
    }
}

impl fmt::Display for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A dimension as a model declares it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dim {
    /// A known size.
    Known(u64),
    /// A symbolic size; equal names have equal sizes.
    Symbol(String),
    /// An unknown size.
    Unknown,
}

/// The type and shape of a value before it is computed, as far as they are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueInfo {
    /// The element type.
    pub data_type: DataType,
    /// The dimensions; `None` if the rank is unknown.
    pub shape: Option<Vec<Dim>>,
}
