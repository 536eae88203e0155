//! ONNX `CastLike`: Cast to the type of a second input.

use super::cast::Settings;
use super::node::{Attribute, Attributes};
use super::{CastError, CastOptions, OpError, Operator, Plan, ValueInfo};
use crate::arch::Backend;
use crate::element::DataType;
use crate::tensor::{Strings, Tensor, TensorView};
use core::mem::MaybeUninit;

/// ONNX `CastLike`: casts a tensor to the type of another tensor, whose values do not matter.
///
/// ```
/// use onnx_cast::{CastLike, CastOptions, DataType, TensorView};
///
/// let like = CastLike::new(&CastOptions::new().opset(25))?;
/// let target = TensorView::new(DataType::Float16, &[0], &[])?;
/// let halves = like.run(&TensorView::from_slice(&[2], &[1.0f32, -2.0])?, target.data_type())?;
/// assert_eq!(halves.bytes(), Some(&[0x00, 0x3c, 0x00, 0xc0][..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CastLike {
    settings: Settings,
}

impl CastLike {
    /// The operator, with the attributes of `options`.
    ///
    /// # Errors
    /// Fails if the opset has no CastLike, or if its version does not support an attribute that is set.
    pub fn new(options: &CastOptions) -> Result<Self, OpError> {
        Ok(CastLike { settings: Settings::new(Operator::CastLike, options)? })
    }

    /// The operator of a node in a model that imports `opset` of ONNX's default domain.
    ///
    /// ```
    /// use onnx_cast::CastLike;
    /// use onnx_cast::ops::{Attribute, AttributeValue};
    ///
    /// let saturate = Attribute { name: "saturate", value: AttributeValue::Int(0) };
    /// assert_eq!(CastLike::from_node(20, &[saturate])?.version(), 19);
    /// assert!(CastLike::from_node(18, &[saturate]).is_err());
    /// # Ok::<(), onnx_cast::ops::OpError>(())
    /// ```
    ///
    /// # Errors
    /// Fails if the opset has no CastLike, or if an attribute is unknown to its version, of the wrong kind, or given
    /// twice.
    pub fn from_node(opset: i64, attributes: &[Attribute<'_>]) -> Result<Self, OpError> {
        let operator = Operator::CastLike;
        let version = operator.version_at(opset)?;
        let list = Attributes::new(operator, version, attributes)?;
        Ok(CastLike { settings: Settings::from_attributes(operator, version, &list)? })
    }

    /// The same operator on the given backend, which never changes a result.
    pub fn with_backend(mut self, backend: Backend) -> Self {
        self.settings.backend = Some(backend);
        self
    }

    /// The same operator on at most `threads` threads; see [`CastOptions::threads`].
    pub fn with_threads(mut self, threads: usize) -> Self {
        self.settings.threads = Some(threads);
        self
    }

    /// The operator's version.
    pub fn version(&self) -> i64 {
        self.settings.version
    }

    /// Resolves the cast for inputs of two types; the plan can be run many times.
    ///
    /// # Errors
    /// Fails if the version does not support one of the types.
    pub fn plan(&self, from: DataType, target: DataType) -> Result<Plan, OpError> {
        self.settings.plan(from, target)
    }

    /// The type and shape of the output: the type of `target` and the shape of `input`.
    ///
    /// ```
    /// use onnx_cast::ops::{Dim, ValueInfo};
    /// use onnx_cast::{CastLike, CastOptions, DataType};
    ///
    /// let input = ValueInfo { data_type: DataType::Float, shape: Some(vec![Dim::Known(4)]) };
    /// let target = ValueInfo { data_type: DataType::Int8, shape: None };
    /// let output = CastLike::new(&CastOptions::new().opset(25))?.infer(&input, &target)?;
    /// assert_eq!(output, ValueInfo { data_type: DataType::Int8, ..input });
    /// # Ok::<(), onnx_cast::ops::OpError>(())
    /// ```
    ///
    /// # Errors
    /// Fails if the version does not support one of the types.
    pub fn infer(&self, input: &ValueInfo, target: &ValueInfo) -> Result<ValueInfo, OpError> {
        self.settings.check_type(input.data_type)?;
        self.settings.check_type(target.data_type)?;
        Ok(ValueInfo { data_type: target.data_type, shape: input.shape.clone() })
    }

    /// Casts to a new tensor of the type `target`.
    ///
    /// # Errors
    /// Fails if the version does not support one of the types, if the result does not fit in memory, or if a string
    /// element is not a number of the target type.
    pub fn run(&self, input: &TensorView<'_>, target: DataType) -> Result<Tensor, CastError> {
        self.plan(input.data_type(), target)?.run(input)
    }

    /// Casts into `out`, which must have exactly the bytes of the result.
    ///
    /// # Errors
    /// As [`CastLike::run`], and if `out` has another size or `target` is string.
    pub fn run_into(&self, input: &TensorView<'_>, target: DataType, out: &mut [u8]) -> Result<(), CastError> {
        self.plan(input.data_type(), target)?.run_into(input, out)
    }

    /// As [`CastLike::run_into`], into memory that need not be initialised. Returns `out`, every byte of which is
    /// written.
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

    /// Casts to strings, which replace those in `out`.
    ///
    /// ```
    /// use onnx_cast::{CastLike, CastOptions, TensorView};
    /// use onnx_cast::tensor::Strings;
    ///
    /// let like = CastLike::new(&CastOptions::new().opset(25))?;
    /// let mut strings = Strings::new();
    /// like.run_strings_into(&TensorView::from_slice(&[2], &[true, false])?, &mut strings)?;
    /// assert_eq!(strings, ["1", "0"].iter().collect());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Fails if the version does not support the input's type.
    pub fn run_strings_into(&self, input: &TensorView<'_>, out: &mut Strings) -> Result<(), CastError> {
        self.plan(input.data_type(), DataType::String)?.run_strings_into(input, out)
    }
}
