//! ONNX `BitCast`: the same bits as another type of the same width.

use super::node::{Attribute, Attributes};
use super::{CastError, OpError, Operator, Plan, ValueInfo};
use crate::element::DataType;
use crate::tensor::{Tensor, TensorView};
use std::mem::MaybeUninit;

/// ONNX `BitCast`: the bytes of a tensor as another type of the same width. Only padding bits change, to zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BitCast {
    to: DataType,
    version: i64,
}

impl BitCast {
    /// The operator with the target `to`.
    ///
    /// # Errors
    /// Where the opset has no BitCast, or its version lacks the type.
    pub fn new(to: DataType, opset: i64) -> Result<Self, OpError> {
        let version = Operator::BitCast.version_at(opset)?;
        Operator::BitCast.check_type(version, to)?;
        Ok(BitCast { to, version })
    }

    /// The operator of a node in a model that imports `opset` of ONNX's default domain.
    ///
    /// # Errors
    /// Where the opset has no BitCast, `to` is missing or no type that the version takes, or an attribute is unknown to
    /// the version, of the wrong kind, or given twice.
    pub fn from_node(opset: i64, attributes: &[Attribute<'_>]) -> Result<Self, OpError> {
        let operator = Operator::BitCast;
        let version = operator.version_at(opset)?;
        let list = Attributes::new(operator, version, attributes)?;
        let number = list.int("to")?.ok_or(OpError::MissingTo { operator, version })?;
        let to = DataType::from_onnx(number).ok_or(OpError::TypeNumber { operator, number })?;
        operator.check_type(version, to)?;
        Ok(BitCast { to, version })
    }

    /// The target type.
    pub fn target_type(&self) -> DataType {
        self.to
    }

    /// The operator's version.
    pub fn version(&self) -> i64 {
        self.version
    }

    /// Resolves the operator for inputs of one type.
    ///
    /// # Errors
    /// Where the version does not take the type, or the widths differ.
    pub fn plan(&self, from: DataType) -> Result<Plan, OpError> {
        Operator::BitCast.check_type(self.version, from)?;
        if from.bits() != self.to.bits() {
            return Err(OpError::BitWidth { from, to: self.to });
        }
        Ok(Plan::bit_cast(from, self.to))
    }

    /// What is known of the output: the target type, the input's shape.
    ///
    /// # Errors
    /// As [`BitCast::plan`].
    pub fn infer(&self, input: &ValueInfo) -> Result<ValueInfo, OpError> {
        self.plan(input.data_type)?;
        Ok(ValueInfo { data_type: self.to, shape: input.shape.clone() })
    }

    /// The bits in a new tensor.
    ///
    /// # Errors
    /// As [`BitCast::plan`], and where the result does not fit in memory.
    pub fn run(&self, input: &TensorView<'_>) -> Result<Tensor, CastError> {
        self.plan(input.data_type())?.run(input)
    }

    /// The bits in the same memory, without a copy.
    ///
    /// # Errors
    /// As [`BitCast::plan`].
    pub fn run_owned(&self, input: Tensor) -> Result<Tensor, CastError> {
        self.plan(input.data_type())?.run_owned(input)
    }

    /// The bits in `out`, which must be as long as the input's bytes.
    ///
    /// # Errors
    /// As [`BitCast::plan`], and where `out` is of another size.
    pub fn run_into(&self, input: &TensorView<'_>, out: &mut [u8]) -> Result<(), CastError> {
        self.plan(input.data_type())?.run_into(input, out)
    }

    /// As [`BitCast::run_into`], into memory that need not be initialised: it returns `out`, all of it written.
    ///
    /// # Errors
    /// As [`BitCast::run_into`].
    pub fn run_into_uninit<'o>(
        &self,
        input: &TensorView<'_>,
        out: &'o mut [MaybeUninit<u8>],
    ) -> Result<&'o mut [u8], CastError> {
        self.plan(input.data_type())?.run_into_uninit(input, out)
    }
}
