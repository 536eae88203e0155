//! The operators: versions, attributes, supported types, inference, and running them.

use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;
mod bit_cast;
mod block_scale;
mod buffers;
mod cast;
mod cast_like;
mod dequantize_linear;
mod dynamic_quantize_linear;
mod error;
mod exact;
mod extremes;
mod linear_scale;
mod node;
mod plan;
mod quantize_linear;
mod scaled;
mod strings;

use crate::element::{Class, DataType};
use core::fmt;

pub use crate::element::{RoundMode, UnknownRoundMode};
pub use crate::scalar::text::ParseError;
pub use bit_cast::BitCast;
pub use cast::{Cast, CastOptions, cast_slice, cast_slice_packed};
pub use cast_like::CastLike;
pub use error::{CastError, CastErrorKind, OpError, OpErrorKind};
pub use node::{Attribute, AttributeValue};
pub use plan::Plan;

/// What [`crate::scaled`] shows.
pub(crate) mod scaled_names {
    pub use super::block_scale::{BlockDequantize, BlockQuantize, BlockScaled, amax, block_amax};
    pub use super::dequantize_linear::{DequantizeLinear, DequantizeOptions};
    pub use super::dynamic_quantize_linear::{DynamicQuantizeLinear, DynamicallyQuantized};
    pub use super::linear_scale::{LinearScale, LinearlyScaled, SymmetricScale};
    pub use super::quantize_linear::{QuantizeLinear, QuantizeOptions};
    pub use super::scaled::{BlockPlan, BoundScaledPlan, GlobalScale, ScaledPlan};
    pub use crate::scalar::block_scale::{BlockFormat, Recipe, ScaleRule, UnknownFormat};
}
pub(crate) use scaled_names::{BlockPlan, QuantizeLinear, QuantizeOptions, ScaledPlan};

/// Defines methods that set an option from a value or an `Option`.
macro_rules! option_setters {
    ($($(#[$doc:meta])* $name:ident: $type:ty;)*) => {$(
        $(#[$doc])*
        pub fn $name(mut self, $name: impl Into<Option<$type>>) -> Self {
            self.$name = $name.into();
            self
        }
    )*};
}
use option_setters;

/// The newest opset that this crate supports, and the default everywhere.
pub const NEWEST_OPSET: i64 = 28;

/// One of the operators.
///
/// ```
/// use onnx_cast::DataType;
/// use onnx_cast::ops::Operator;
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
    /// ONNX `QuantizeLinear`.
    QuantizeLinear,
    /// ONNX `DequantizeLinear`.
    DequantizeLinear,
    /// ONNX `DynamicQuantizeLinear`.
    DynamicQuantizeLinear,
}

/// What a tensor is to an operator with a scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Role {
    /// The tensor with the values: the input of QuantizeLinear, the output of DequantizeLinear.
    Values,
    /// The tensor with the quantized elements, and the zero point.
    Quantized,
    /// The scale.
    Scale,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Role::Values => "values",
            Role::Quantized => "quantized elements",
            Role::Scale => "a scale",
        })
    }
}

impl Operator {
    /// All operators.
    pub const ALL: &'static [Operator] = &[
        Operator::Cast,
        Operator::CastLike,
        Operator::BitCast,
        Operator::QuantizeLinear,
        Operator::DequantizeLinear,
        Operator::DynamicQuantizeLinear,
    ];

    /// The operators without a scale.
    pub const CASTS: &'static [Operator] = &[Operator::Cast, Operator::CastLike, Operator::BitCast];

    /// ONNX's name of the operator.
    pub const fn name(self) -> &'static str {
        match self {
            Operator::Cast => "Cast",
            Operator::CastLike => "CastLike",
            Operator::BitCast => "BitCast",
            Operator::QuantizeLinear => "QuantizeLinear",
            Operator::DequantizeLinear => "DequantizeLinear",
            Operator::DynamicQuantizeLinear => "DynamicQuantizeLinear",
        }
    }

    /// The versions, oldest first.
    pub const fn versions(self) -> &'static [i64] {
        match self {
            Operator::Cast => &[1, 6, 9, 13, 19, 21, 23, 24, 25, 28],
            Operator::CastLike => &[15, 19, 21, 23, 24, 25],
            Operator::BitCast => &[26],
            Operator::QuantizeLinear | Operator::DequantizeLinear => &[10, 13, 19, 21, 23, 24, 25, 28],
            Operator::DynamicQuantizeLinear => &[11],
        }
    }

    /// The version that an opset selects: the newest version not newer than the opset.
    ///
    /// # Errors
    /// Fails if the opset is older than the operator, or newer than [`NEWEST_OPSET`].
    #[inline(always)]
    pub fn version_at(self, opset: i64) -> Result<i64, OpError> {
        let versions = self.versions().iter().rev();
        let version = versions.copied().find(|&version| version <= opset && opset <= NEWEST_OPSET);
        Ok(version.ok_or(OpErrorKind::Opset { operator: self, opset })?)
    }

    /// The first version that supports a type, as input and as output. For operators with a scale: as values or as
    /// quantized elements.
    #[inline]
    pub const fn since(self, data_type: DataType) -> Option<i64> {
        let info = data_type.info();
        match self {
            Operator::Cast => info.cast_since,
            Operator::CastLike => info.cast_like_since,
            Operator::BitCast => info.bit_cast_since,
            Operator::QuantizeLinear | Operator::DequantizeLinear | Operator::DynamicQuantizeLinear => {
                match (self.since_as(Role::Values, data_type), self.since_as(Role::Quantized, data_type)) {
                    (Some(values), Some(quantized)) if quantized < values => Some(quantized),
                    (None, quantized) => quantized,
                    (values, _) => values,
                }
            }
        }
    }

    /// The first version of an operator with a scale that supports a type in a role; `None` for other operators.
    ///
    /// ```
    /// use onnx_cast::ops::Role;
    /// use onnx_cast::DataType;
    /// use onnx_cast::ops::Operator;
    ///
    /// assert_eq!(Operator::QuantizeLinear.since_as(Role::Quantized, DataType::Float4E2M1), Some(23));
    /// assert_eq!(Operator::QuantizeLinear.since_as(Role::Scale, DataType::Float8E8M0), Some(24));
    /// assert_eq!(Operator::DequantizeLinear.since_as(Role::Values, DataType::Int32), None);
    /// ```
    pub const fn since_as(self, role: Role, data_type: DataType) -> Option<i64> {
        let is_quantize = matches!(self, Operator::QuantizeLinear);
        match self {
            Operator::Cast | Operator::CastLike | Operator::BitCast => return None,
            Operator::DynamicQuantizeLinear => {
                return match (role, data_type) {
                    (Role::Values | Role::Scale, DataType::Float) | (Role::Quantized, DataType::Uint8) => Some(11),
                    _ => None,
                };
            }
            Operator::QuantizeLinear | Operator::DequantizeLinear => {}
        }
        Some(match (role, data_type) {
            (Role::Values | Role::Scale, DataType::Float) => 10,
            (Role::Values | Role::Scale, DataType::Float16 | DataType::BFloat16) => 19,
            (Role::Values, DataType::Int32) if is_quantize => 10,
            (Role::Scale, DataType::Int32) if is_quantize => 19,
            (Role::Scale, DataType::Float8E8M0) => 24,
            (Role::Quantized, DataType::Int32) if !is_quantize => 10,
            (Role::Quantized, DataType::Int8 | DataType::Uint8) => 10,
            (Role::Quantized, DataType::Int16 | DataType::Uint16 | DataType::Int4 | DataType::Uint4) => 21,
            (Role::Quantized, DataType::Int2 | DataType::Uint2) => 25,
            // Floats of 8 bits and fewer came to these operators when they came to Cast.
            (Role::Quantized, _) => match Class::of(data_type) {
                Some(Class::SmallFloat(_)) => return data_type.info().cast_since,
                _ => return None,
            },
            _ => return None,
        })
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
            Operator::QuantizeLinear => {
                &[("axis", 13), ("saturate", 19), ("block_size", 21), ("output_dtype", 21), ("precision", 23)]
            }
            Operator::DequantizeLinear => &[("axis", 13), ("block_size", 21), ("output_dtype", 23)],
            Operator::DynamicQuantizeLinear => &[],
        }
    }

    #[inline(always)]
    pub(crate) fn check_type(self, version: i64, data_type: DataType) -> Result<(), OpError> {
        if self.supports(version, data_type) {
            return Ok(());
        }
        Err(OpErrorKind::Type { operator: self, version, data_type, since: self.since(data_type) }.into())
    }

    /// As [`Operator::check_type`], of an operator with a scale.
    pub(crate) fn check_role(self, version: i64, role: Role, data_type: DataType) -> Result<(), OpError> {
        let since = self.since_as(role, data_type);
        if since.is_some_and(|since| since <= version) {
            return Ok(());
        }
        Err(OpErrorKind::RoleType { operator: self, version, role, data_type, since }.into())
    }

    /// Whether a version defines an attribute.
    pub(crate) fn has_attribute(self, version: i64, name: &str) -> bool {
        self.attributes().iter().any(|(known, since)| *known == name && *since <= version)
    }

    pub(crate) fn check_attribute(self, version: i64, name: &str) -> Result<(), OpError> {
        let since = self.attributes().iter().find(|(known, _)| *known == name).map(|(_, since)| *since);
        match since {
            Some(since) if since <= version => Ok(()),
            since => {
                Err(OpErrorKind::UnknownAttribute { operator: self, version, name: name.to_owned(), since }.into())
            }
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
#[non_exhaustive]
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
