//! What QuantizeLinear and DequantizeLinear have in common: versions, attributes, types and inference.

use super::{Direction, ScaledPlan, check_zero_point_shape};
use crate::arch::Backend;
use crate::element::DataType;
use crate::ops::node::Attributes;
use crate::ops::{Attribute, Dim, OpError, OpErrorKind, Operator, Role, ValueInfo};
use crate::scalar::scaled::Precision;
use crate::scalar::{RoundMode, Rules};
use alloc::vec::Vec;

/// What both operators have: their version and the options that are not about types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ops) struct ScaledSettings {
    pub(in crate::ops) operator: Operator,
    pub(in crate::ops) version: i64,
    pub(in crate::ops) axis: i64,
    pub(in crate::ops) block_size: usize,
    pub(in crate::ops) output_dtype: Option<DataType>,
    pub(in crate::ops) precision: Option<DataType>,
    pub(in crate::ops) saturate: bool,
    pub(in crate::ops) backend: Option<Backend>,
    pub(in crate::ops) threads: Option<usize>,
}

impl ScaledSettings {
    /// The settings of a node's attributes.
    pub(in crate::ops) fn from_attributes(
        operator: Operator,
        opset: i64,
        list: &[Attribute<'_>],
    ) -> Result<Self, OpError> {
        let version = operator.version_at(opset)?;
        let list = Attributes::new(operator, version, list)?;
        let data_type = |name: &'static str| -> Result<Option<DataType>, OpError> {
            let number = list.int(name)?.filter(|&number| number != 0);
            let known =
                |number| DataType::from_onnx(number).ok_or(OpErrorKind::AttributeType { operator, name, number });
            Ok(number.map(known).transpose()?)
        };
        Ok(ScaledSettings {
            operator,
            version,
            axis: list.int("axis")?.unwrap_or(1),
            block_size: block_size(operator, list.int("block_size")?.unwrap_or(0))?,
            output_dtype: data_type("output_dtype")?,
            precision: data_type("precision")?,
            saturate: list.int("saturate")?.is_none_or(|value| value != 0),
            backend: None,
            threads: None,
        })
    }

    /// Resolves the types.
    pub(in crate::ops) fn plan(
        &self,
        x: DataType,
        scale: DataType,
        zero_point: Option<DataType>,
    ) -> Result<ScaledPlan, OpError> {
        let (operator, version) = (self.operator, self.version);
        let is_quantize = operator == Operator::QuantizeLinear;
        let (x_role, y_role) =
            if is_quantize { (Role::Values, Role::Quantized) } else { (Role::Quantized, Role::Values) };
        operator.check_role(version, x_role, x)?;
        operator.check_role(version, Role::Scale, scale)?;
        if is_quantize && (19..23).contains(&version) && scale != x {
            return Err(OpErrorKind::TypesDiffer { operator, version, name: "y_scale", got: scale, want: x }.into());
        }
        let to = if is_quantize {
            match (zero_point, self.output_dtype) {
                (Some(got), Some(want)) if got != want => {
                    return Err(OpErrorKind::TypesDiffer { operator, version, name: "y_zero_point", got, want }.into());
                }
                (zero_point, output) => zero_point.or(output).unwrap_or(DataType::Uint8),
            }
        } else {
            if let Some(got) = zero_point.filter(|&zero_point| zero_point != x) {
                return Err(OpErrorKind::TypesDiffer { operator, version, name: "x_zero_point", got, want: x }.into());
            }
            match self.output_dtype {
                Some(output) => output,
                None if scale == DataType::Float8E8M0 => return Err(OpErrorKind::MissingOutputType { version }.into()),
                None => scale,
            }
        };
        operator.check_role(version, y_role, to)?;
        let default = Precision::of(scale).unwrap_or(Precision::Float);
        let precision = match self.precision {
            None => default,
            Some(data_type) => Precision::of(data_type).ok_or(OpErrorKind::Precision { version, data_type })?,
        };
        let rules = Rules::resolve(to, i64::MAX, self.saturate, RoundMode::Up);
        let backend = self.backend.unwrap_or_else(Backend::best);
        let direction = if is_quantize { Direction::Quantize } else { Direction::Dequantize };
        Ok(ScaledPlan {
            direction,
            from: x,
            scale,
            zero_point,
            to,
            scaling: ScaledPlan::scaling(direction, x),
            precision,
            rules,
            range: ScaledPlan::range(to, &rules),
            is_finite: false,
            axis: self.axis,
            block_size: self.block_size,
            // The versions without the attribute `axis`.
            scalar_version: (!operator.has_attribute(version, "axis")).then_some(version),
            backend,
            kernel: backend.table().scaled(x, to),
            threads: self.threads,
        })
    }

    /// The type and shape of the output.
    pub(in crate::ops) fn infer(
        &self,
        x: &ValueInfo,
        scale: &ValueInfo,
        zero_point: Option<&ValueInfo>,
    ) -> Result<ValueInfo, OpError> {
        let plan = self.plan(x.data_type, scale.data_type, zero_point.map(|info| info.data_type))?;
        let known = |info: &ValueInfo| -> Option<Vec<usize>> {
            let known = |dim: &Dim| match dim {
                Dim::Known(size) => usize::try_from(*size).ok(),
                Dim::Symbol(_) | Dim::Unknown => None,
            };
            info.shape.as_ref()?.iter().map(known).collect()
        };
        if let (Some(shape), Some(scale)) = (known(x), known(scale)) {
            plan.layout(&shape, &scale)?;
            if let Some(zero_point) = zero_point.and_then(known) {
                check_zero_point_shape(&zero_point, &scale)?;
            }
        }
        Ok(ValueInfo { data_type: plan.to, shape: x.shape.clone() })
    }
}

/// The attribute `block_size`.
fn block_size(operator: Operator, block_size: i64) -> Result<usize, OpError> {
    Ok(usize::try_from(block_size).map_err(|_| OpErrorKind::BlockSize { operator, block_size })?)
}

/// Implements what QuantizeLinear and DequantizeLinear have in common.
macro_rules! scaled_operator {
    ($operator:ident) => {
        impl $operator {
            /// The operator of a node in a model that imports `opset` of ONNX's default domain.
            ///
            /// ```
            #[doc = concat!("use onnx_cast::scaled::", stringify!($operator), ";")]
            /// use onnx_cast::ops::{Attribute, AttributeValue};
            ///
            /// let axis = Attribute { name: "axis", value: AttributeValue::Int(0) };
            #[doc = concat!("assert_eq!(", stringify!($operator), "::from_node(20, &[axis])?.version(), 19);")]
            #[doc = concat!("assert!(", stringify!($operator), "::from_node(12, &[axis]).is_err());")]
            /// # Ok::<(), onnx_cast::ops::OpError>(())
            /// ```
            ///
            /// # Errors
            /// Fails if the opset does not have the operator, or if an attribute is unknown to its version, of the
            /// wrong kind, out of range or given twice.
            pub fn from_node(opset: i64, attributes: &[Attribute<'_>]) -> Result<Self, OpError> {
                let settings = ScaledSettings::from_attributes(Operator::$operator, opset, attributes)?;
                Ok($operator { settings })
            }

            /// The operator's version.
            pub fn version(&self) -> i64 {
                self.settings.version
            }

            /// Resolves the types of the inputs; the plan can be run many times.
            ///
            /// # Errors
            /// Fails if the version does not support one of the types, if the zero point's does not fit the others, or
            /// if nothing gives the type of the result.
            pub fn plan(
                &self,
                x: DataType,
                scale: DataType,
                zero_point: Option<DataType>,
            ) -> Result<ScaledPlan, OpError> {
                self.settings.plan(x, scale, zero_point)
            }

            /// The type and shape of the output.
            ///
            /// # Errors
            #[doc = concat!("As [`", stringify!($operator), "::plan`], and if known shapes do not fit.")]
            pub fn infer(
                &self,
                x: &ValueInfo,
                scale: &ValueInfo,
                zero_point: Option<&ValueInfo>,
            ) -> Result<ValueInfo, OpError> {
                self.settings.infer(x, scale, zero_point)
            }

            /// Casts to a new tensor. See [`ScaledPlan::run_into`] for the shapes.
            ///
            /// # Errors
            #[doc = concat!("As [`", stringify!($operator), "::plan`] and [`ScaledPlan::run`].")]
            pub fn run(
                &self,
                x: &TensorView<'_>,
                scale: &TensorView<'_>,
                zero_point: Option<&TensorView<'_>>,
            ) -> Result<Tensor, CastError> {
                let zero_type = zero_point.map(TensorView::data_type);
                self.plan(x.data_type(), scale.data_type(), zero_type)?.run(x, scale, zero_point)
            }
        }
    };
}
pub(in crate::ops) use scaled_operator;
