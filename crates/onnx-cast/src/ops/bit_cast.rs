//! ONNX `BitCast`: the same bits as another type of the same width.

use super::node::{Attribute, Attributes};
use super::{CastError, OpError, OpErrorKind, Operator, Plan, ValueInfo};
use crate::arch::Backend;
use crate::element::DataType;
use crate::tensor::{Tensor, TensorView};
use core::mem::MaybeUninit;

/// ONNX `BitCast`: the bytes of a tensor as another type of the same width. Only padding bits change, to zero.
///
/// ```
/// use onnx_cast::{BitCast, DataType, Tensor};
///
/// let floats = Tensor::from_slice(vec![2], &[1.0f32, -0.0])?;
/// let bits = BitCast::new(DataType::Uint32, 26)?.run(&floats.view())?;
/// assert_eq!(bits.to_vec::<u32>(), Some(vec![0x3f80_0000, 0x8000_0000]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BitCast {
    to: DataType,
    version: i64,
    backend: Option<Backend>,
    threads: Option<usize>,
}

impl BitCast {
    /// The operator with the target `to`.
    ///
    /// # Errors
    /// Fails if the opset has no BitCast, or its version does not support the type.
    pub fn new(to: DataType, opset: i64) -> Result<Self, OpError> {
        let version = Operator::BitCast.version_at(opset)?;
        Operator::BitCast.check_type(version, to)?;
        Ok(BitCast { to, version, backend: None, threads: None })
    }

    /// The operator of a node in a model that imports `opset` of ONNX's default domain.
    ///
    /// ```
    /// use onnx_cast::ops::{Attribute, AttributeValue};
    /// use onnx_cast::{BitCast, DataType};
    ///
    /// let to = Attribute { name: "to", value: AttributeValue::Int(12) };
    /// assert_eq!(BitCast::from_node(26, &[to])?.target_type(), DataType::Uint32);
    /// # Ok::<(), onnx_cast::ops::OpError>(())
    /// ```
    ///
    /// # Errors
    /// Fails if the opset has no BitCast, if `to` is missing or not a type that the version supports, or if an
    /// attribute is unknown to the version, of the wrong kind, or given twice.
    pub fn from_node(opset: i64, attributes: &[Attribute<'_>]) -> Result<Self, OpError> {
        let operator = Operator::BitCast;
        let version = operator.version_at(opset)?;
        let list = Attributes::new(operator, version, attributes)?;
        let number = list.int("to")?.ok_or(OpErrorKind::MissingTo { operator, version })?;
        let to = DataType::from_onnx(number).ok_or(OpErrorKind::TypeNumber { operator, number })?;
        operator.check_type(version, to)?;
        Ok(BitCast { to, version, backend: None, threads: None })
    }

    /// The same operator on another backend, which never changes a result; see
    /// [`CastOptions::backend`](crate::CastOptions::backend).
    #[must_use]
    pub fn backend(mut self, backend: impl Into<Option<Backend>>) -> Self {
        self.backend = backend.into();
        self
    }

    /// The same operator on at most so many threads; see [`CastOptions::threads`](crate::CastOptions::threads).
    #[must_use]
    pub fn threads(mut self, threads: impl Into<Option<usize>>) -> Self {
        self.threads = threads.into();
        self
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
    /// Fails if the version does not support the type, or if the widths differ.
    pub fn plan(&self, from: DataType) -> Result<Plan, OpError> {
        Operator::BitCast.check_type(self.version, from)?;
        if from.bits() != self.to.bits() {
            return Err(OpErrorKind::BitWidth { from, to: self.to }.into());
        }
        Ok(Plan::bit_cast(from, self.to, self.backend.unwrap_or_else(Backend::best), self.threads))
    }

    /// The type and shape of the output: the target type and the input's shape.
    ///
    /// ```
    /// use onnx_cast::ops::{Dim, ValueInfo};
    /// use onnx_cast::{BitCast, DataType};
    ///
    /// let shape = Some(vec![Dim::Symbol("batch".into()), Dim::Known(4)]);
    /// let input = ValueInfo { data_type: DataType::Float, shape };
    /// let output = BitCast::new(DataType::Int32, 26)?.infer(&input)?;
    /// assert_eq!(output, ValueInfo { data_type: DataType::Int32, ..input });
    /// # Ok::<(), onnx_cast::ops::OpError>(())
    /// ```
    ///
    /// # Errors
    /// As [`BitCast::plan`].
    pub fn infer(&self, input: &ValueInfo) -> Result<ValueInfo, OpError> {
        self.plan(input.data_type)?;
        Ok(ValueInfo { data_type: self.to, shape: input.shape.clone() })
    }

    /// Copies the bits to a new tensor.
    ///
    /// # Errors
    /// As [`BitCast::plan`], and if the result does not fit in memory.
    pub fn run(&self, input: &TensorView<'_>) -> Result<Tensor, CastError> {
        self.plan(input.data_type())?.run(input)
    }

    /// Reinterprets the tensor in its own memory, without a copy.
    ///
    /// ```
    /// use onnx_cast::{BitCast, DataType, Tensor};
    /// use onnx_cast::types::Float16;
    ///
    /// let halves = Tensor::from_slice(vec![2], &[1.0, -2.0].map(Float16::from_f32))?;
    /// let bits = BitCast::new(DataType::Int16, 26)?.run_owned(halves)?;
    /// assert_eq!(bits.to_vec::<i16>(), Some(vec![0x3c00, -0x4000]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`BitCast::plan`].
    pub fn run_owned(&self, input: Tensor) -> Result<Tensor, CastError> {
        self.plan(input.data_type())?.run_owned(input)
    }

    /// Copies the bits to `out`, which must be as long as the input's bytes.
    ///
    /// # Errors
    /// As [`BitCast::plan`], and if `out` has another size.
    pub fn run_into(&self, input: &TensorView<'_>, out: &mut [u8]) -> Result<(), CastError> {
        self.plan(input.data_type())?.run_into(input, out)
    }

    /// As [`BitCast::run_into`], into memory that need not be initialised. Returns `out`, every byte of which is
    /// written.
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
