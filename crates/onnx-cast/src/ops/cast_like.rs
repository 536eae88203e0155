//! ONNX `CastLike`: Cast to the type of a second input.

use super::cast::Settings;
use super::node::{Attribute, Attributes};
use super::{CastError, CastOptions, OpError, Operator, Plan, ValueInfo};
use crate::arch::Backend;
use crate::element::DataType;
use crate::tensor::{Strings, Tensor, TensorView};
use std::mem::MaybeUninit;

/// ONNX `CastLike`: the elements of a tensor as the type of another tensor, whose values do not matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CastLike {
    settings: Settings,
}

impl CastLike {
    /// The operator.
    ///
    /// # Errors
    /// Where the opset has no CastLike, or its version lacks an attribute that is given.
    pub fn new(options: &CastOptions) -> Result<Self, OpError> {
        Ok(CastLike { settings: Settings::new(Operator::CastLike, options)? })
    }

    /// The operator of a node in a model that imports `opset` of ONNX's default domain.
    ///
    /// # Errors
    /// Where the opset has no CastLike, or an attribute is unknown to its version, of the wrong kind, or given twice.
    pub fn from_node(opset: i64, attributes: &[Attribute<'_>]) -> Result<Self, OpError> {
        let operator = Operator::CastLike;
        let version = operator.version_at(opset)?;
        let list = Attributes::new(operator, version, attributes)?;
        Ok(CastLike { settings: Settings::from_attributes(operator, version, &list)? })
    }

    /// The same operator on one backend, which never changes a result.
    pub fn with_backend(mut self, backend: Backend) -> Self {
        self.settings.backend = Some(backend);
        self
    }

    /// The same operator on so many threads at most, as [`CastOptions::threads`].
    pub fn with_threads(mut self, threads: usize) -> Self {
        self.settings.threads = Some(threads);
        self
    }

    /// The operator's version.
    pub fn version(&self) -> i64 {
        self.settings.version
    }

    /// Resolves the cast for inputs of two types, to run it many times.
    ///
    /// # Errors
    /// Where the version does not take one of the types.
    pub fn plan(&self, from: DataType, target: DataType) -> Result<Plan, OpError> {
        self.settings.plan(from, target)
    }

    /// What is known of the output: the type of `target`, the shape of `input`.
    ///
    /// # Errors
    /// Where the version does not take one of the types.
    pub fn infer(&self, input: &ValueInfo, target: &ValueInfo) -> Result<ValueInfo, OpError> {
        self.settings.check_type(input.data_type)?;
        self.settings.check_type(target.data_type)?;
        Ok(ValueInfo { data_type: target.data_type, shape: input.shape.clone() })
    }

    /// Casts to a new tensor of the type `target`.
    ///
    /// # Errors
    /// Where the version does not take one of the types, the result does not fit in memory, or a string element is not
    /// a number of the target type.
    pub fn run(&self, input: &TensorView<'_>, target: DataType) -> Result<Tensor, CastError> {
        self.plan(input.data_type(), target)?.run(input)
    }

    /// Casts into `out`, which must have exactly the bytes of the result.
    ///
    /// # Errors
    /// As [`CastLike::run`], and where `out` is of another size or `target` is string.
    pub fn run_into(&self, input: &TensorView<'_>, target: DataType, out: &mut [u8]) -> Result<(), CastError> {
        self.plan(input.data_type(), target)?.run_into(input, out)
    }

    /// As [`CastLike::run_into`], into memory that need not be initialised: it returns `out`, all of it written.
    ///
    /// # Errors
    /// As [`CastLike::run_into`].
    pub fn run_into_uninit<'o>(
        &self,
        input: &TensorView<'_>,
        target: DataType,
        out: &'o mut [MaybeUninit<u8>],
    ) -> Result<&'o mut [u8], CastError> {
        self.plan(input.data_type(), target)?.run_into_uninit(input, out)
    }

    /// Casts to strings, in place of those that `out` holds.
    ///
    /// # Errors
    /// Where the version does not take the input's type.
    pub fn run_strings_into(&self, input: &TensorView<'_>, out: &mut Strings) -> Result<(), CastError> {
        self.plan(input.data_type(), DataType::String)?.run_strings_into(input, out)
    }
}
