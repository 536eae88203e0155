//! A scaled cast resolved for its types: QuantizeLinear or DequantizeLinear as one plan.

mod blocks;
pub(super) mod layout;
pub(super) mod tiles;

pub use blocks::{BlockPlan, GlobalScale};

use super::execute::{Span, as_bytes, as_uninit, assume_written, check_len, execute, new_tensor};
use super::node::Attributes;
use super::{CastError, Dim, OpError, Operator, Role, ValueInfo};
use crate::arch::Backend;
use crate::element::{Class, DataType};
use crate::kernel::StoreHint;
use crate::packed::{clear_padding, code};
use crate::scalar::scaled::Precision;
use crate::scalar::{RoundMode, Rules, with_default_float_environment};
use crate::tensor::{Tensor, TensorView};
use layout::Layout;
use std::mem::MaybeUninit;
use tiles::{Adjust, Job, Operand};

/// Which way a scaled cast goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Quantize,
    Dequantize,
}

/// A resolved QuantizeLinear or DequantizeLinear. It is small and `Copy`.
///
/// ```
/// use onnx_cast::{DataType, QuantizeLinear, QuantizeOptions, TensorView};
///
/// let options = QuantizeOptions::new().output_dtype(DataType::Int8);
/// let plan = QuantizeLinear::new(&options)?.plan(DataType::Float, DataType::Float, None)?;
/// let mut out = [0; 3];
/// let scale = [0.5f32];
/// let scale = TensorView::from_slice(&[], &scale)?;
/// plan.run_into(&TensorView::from_slice(&[3], &[1.0f32, -0.75, 100.0])?, &scale, None, &mut out)?;
/// assert_eq!(out.map(|byte| byte as i8), [2, -2, 127]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ScaledPlan {
    direction: Direction,
    from: DataType,
    scale: DataType,
    zero_point: Option<DataType>,
    to: DataType,
    precision: Precision,
    rules: Rules,
    /// The lowest and the highest result, of integers.
    range: [f32; 2],
    axis: i64,
    block_size: usize,
    backend: Option<Backend>,
    threads: Option<usize>,
}

impl ScaledPlan {
    /// A plan by scales of a block format: float quotients, or products, that saturate.
    pub(super) fn of_blocks(
        direction: Direction,
        from: DataType,
        to: DataType,
        range: Option<[f32; 2]>,
        backend: Option<Backend>,
        threads: Option<usize>,
    ) -> ScaledPlan {
        ScaledPlan {
            direction,
            from,
            scale: DataType::Float,
            zero_point: None,
            to,
            precision: Precision::Float,
            rules: Rules::newest(to),
            range: range.unwrap_or_else(|| ScaledPlan::range(to)),
            axis: -1,
            block_size: 0,
            backend,
            threads,
        }
    }

    /// The same plan on at most so many threads; `None` is all of the current pool.
    pub fn with_threads(mut self, threads: Option<usize>) -> Self {
        self.threads = threads;
        self
    }

    /// The type of the input.
    pub fn source_type(&self) -> DataType {
        self.from
    }

    /// The type of the scale.
    pub fn scale_type(&self) -> DataType {
        self.scale
    }

    /// The type of the zero point; `None` if the plan was made without one.
    pub fn zero_point_type(&self) -> Option<DataType> {
        self.zero_point
    }

    /// The type of the quantized elements, which is that of a zero point.
    pub fn quantized_type(&self) -> DataType {
        match self.direction {
            Direction::Quantize => self.to,
            Direction::Dequantize => self.from,
        }
    }

    /// The type of the result.
    pub fn target_type(&self) -> DataType {
        self.to
    }

    /// Whether quotients go by `f64`: a value or a scale has more bits than `f32`, or the quotient of `f32` would be
    /// rounded to the precision a second time. (Of significands of 11 bits or fewer, it tells every quotient from the
    /// middle of two results.)
    fn is_wide(&self) -> bool {
        let is_short = |data_type: DataType| data_type.info().bits <= 16;
        [self.from, self.scale].contains(&DataType::Int32)
            || self.precision != Precision::Float && !(is_short(self.from) && is_short(self.scale))
    }

    /// As [`ScaledPlan::run_into_uninit`], of checked operands.
    pub(super) fn execute<'o>(
        &self,
        job: &Job<'_>,
        src: &[u8],
        len: usize,
        out: &'o mut [MaybeUninit<u8>],
    ) -> &'o mut [u8] {
        let bits = [self.from.info().bits as usize, self.to.info().bits as usize];
        let backend = self.backend.unwrap_or_else(Backend::best);
        execute(Span { src, dst: &mut *out, len }, bits, self.threads, |span, hint| {
            // Parts begin at whole bytes.
            let start = (span.src.as_ptr() as usize - src.as_ptr() as usize) * 8 / bits[0];
            let dst = as_bytes(span.dst);
            with_default_float_environment(|| job.run(backend, start, span.src, dst, span.len, hint));
        });
        // SAFETY: a job writes every byte of each span, and the spans make up `out`.
        let out = unsafe { assume_written(out) };
        clear_padding(self.to, len, out);
        out
    }

    /// The lowest and the highest number of an integer type.
    pub(super) fn range(data_type: DataType) -> [f32; 2] {
        match Class::of(data_type) {
            Some(Class::Int { bits, signed: true }) => {
                [-((1u64 << (bits - 1)) as f32), ((1u64 << (bits - 1)) - 1) as f32]
            }
            Some(Class::Int { bits, signed: false }) if bits <= 16 => [0.0, ((1u32 << bits) - 1) as f32],
            _ => [0.0, 0.0],
        }
    }

    /// Casts a tensor into `out`, which must have exactly the bytes of the result. `scale` and `zero_point` have the
    /// same shape: none or `[1]` for the tensor, the size of the axis, or that of the input with an element for each
    /// block on the axis. Only errors allocate, for their text.
    ///
    /// # Errors
    /// Fails if a type is not the plan's, if the shapes do not fit, if the zero point of a float or of int32 is not 0,
    /// or if `out` has another size.
    pub fn run_into(
        &self,
        x: &TensorView<'_>,
        scale: &TensorView<'_>,
        zero_point: Option<&TensorView<'_>>,
        out: &mut [u8],
    ) -> Result<(), CastError> {
        self.run_into_uninit(x, scale, zero_point, as_uninit(out)).map(drop)
    }

    /// As [`ScaledPlan::run_into`], into memory that need not be initialised. Returns `out`, every byte of which is
    /// written.
    ///
    /// # Errors
    /// As [`ScaledPlan::run_into`].
    pub fn run_into_uninit<'o>(
        &self,
        x: &TensorView<'_>,
        scale: &TensorView<'_>,
        zero_point: Option<&TensorView<'_>>,
        out: &'o mut [MaybeUninit<u8>],
    ) -> Result<&'o mut [u8], CastError> {
        check_type(x, self.from)?;
        let bound = self.bind(x.shape(), scale, zero_point)?;
        let len = x.len();
        check_len(self.to, Some(len), out.len(), x.shape())?;
        Ok(self.execute(&bound.job, x.bytes().unwrap_or_default(), len, out))
    }

    /// The plan with its scale and zero point, for tensors of a shape; it can cast such a tensor part by part.
    ///
    /// # Errors
    /// As [`ScaledPlan::run_into`], but for the input and the output.
    pub fn bind<'a>(
        &'a self,
        shape: &[usize],
        scale: &TensorView<'a>,
        zero_point: Option<&TensorView<'a>>,
    ) -> Result<BoundScaledPlan<'a>, CastError> {
        let layout = Layout::new(shape, scale.shape(), self.axis, self.block_size)?;
        self.bind_layout(shape, layout, scale, zero_point, Adjust::None)
    }

    /// As [`ScaledPlan::bind`], with scales that lie in any way.
    fn bind_layout<'a>(
        &'a self,
        shape: &[usize],
        layout: Layout,
        scale: &TensorView<'a>,
        zero_point: Option<&TensorView<'a>>,
        adjust: Adjust,
    ) -> Result<BoundScaledPlan<'a>, CastError> {
        check_type(scale, self.scale)?;
        let zero_point = match zero_point {
            None => None,
            Some(view) => {
                // Of an operator that was planned without a zero point, it has the type of the quantized elements.
                check_type(view, self.zero_point.unwrap_or(self.quantized_type()))?;
                self.check_zero_point(view, scale)?
            }
        };
        let scale = Operand { data_type: self.scale, bytes: scale.bytes().unwrap_or_default(), adjust };
        let elements = shape.iter().fold(1, |len: usize, &dim| len.saturating_mul(dim));
        Ok(BoundScaledPlan { job: Job { plan: self, layout, scale, zero_point }, elements })
    }

    /// Casts a tensor to a new one of the same shape.
    ///
    /// # Errors
    /// As [`ScaledPlan::run_into`], and if the result does not fit in memory.
    pub fn run(
        &self,
        x: &TensorView<'_>,
        scale: &TensorView<'_>,
        zero_point: Option<&TensorView<'_>>,
    ) -> Result<Tensor, CastError> {
        new_tensor(self.to, x.shape(), |out| self.run_into_uninit(x, scale, zero_point, out).map(drop))
    }

    /// The zero points to subtract or add: `None` where all must be 0, and are, and change nothing.
    fn check_zero_point<'a>(
        &self,
        zero_point: &TensorView<'a>,
        scale: &TensorView<'_>,
    ) -> Result<Option<Operand<'a>>, CastError> {
        let is_single = |shape: &[usize]| shape.is_empty() || shape == [1];
        if zero_point.shape() != scale.shape() && !(is_single(zero_point.shape()) && is_single(scale.shape())) {
            let (zero_point, scale) = (zero_point.shape().to_vec(), scale.shape().to_vec());
            return Err(OpError::ZeroPointShape { zero_point, scale }.into());
        }
        let (data_type, bytes) = (zero_point.data_type(), zero_point.bytes().unwrap_or_default());
        let first_other = match Class::of(data_type) {
            Some(Class::Int { bits: ..=16, .. }) => return Ok(Some(Operand::new(data_type, bytes))),
            Some(Class::SmallFloat(format)) => {
                let is_zero = |code: u64| code & !format.sign_bit() == 0 && !format.is_nan(code);
                (0..zero_point.len()).find(|&i| !is_zero(code(bytes, i, data_type).into()))
            }
            _ => bytes.iter().position(|&byte| byte != 0).map(|byte| byte * 8 / data_type.info().bits as usize),
        };
        match first_other {
            Some(index) => Err(CastError::ZeroPoint { data_type, index }),
            // ONNX's cases add it to quotients, so that -0 becomes 0. For floats of 8 bits neither ONNX's evaluator nor
            // onnxruntime does.
            None if data_type.is_packed() && self.direction == Direction::Quantize => {
                Ok(Some(Operand::new(data_type, bytes)))
            }
            None => Ok(None),
        }
    }
}

/// A [`ScaledPlan`] with its scale and zero point.
pub struct BoundScaledPlan<'a> {
    job: Job<'a>,
    /// Elements of the tensor.
    elements: usize,
}

impl BoundScaledPlan<'_> {
    /// Casts `len` elements of a tensor, the first of which is the tensor's element `start`, on this thread. Where
    /// elements are packed, the part begins at a whole byte.
    ///
    /// ```
    /// use onnx_cast::{DataType, DequantizeLinear, DequantizeOptions, TensorView};
    ///
    /// let plan = DequantizeLinear::new(&DequantizeOptions::new())?.plan(DataType::Int8, DataType::Float, None)?;
    /// let scale = [1.0f32, 10.0, 100.0];
    /// let bound = plan.bind(&[2, 3], &TensorView::from_slice(&[3], &scale)?, None)?;
    /// let mut out = [0; 8];
    /// bound.run_part(2, 2, &[3, 4], &mut out)?;
    /// assert_eq!(out[..4], 300f32.to_le_bytes());
    /// assert_eq!(out[4..], 4f32.to_le_bytes());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Fails if the tensor does not have these elements, or if the bytes are not theirs.
    pub fn run_part(&self, start: usize, len: usize, elements: &[u8], out: &mut [u8]) -> Result<(), CastError> {
        let plan = self.job.plan;
        if start.checked_add(len).is_none_or(|end| end > self.elements) {
            return Err(CastError::Part { start, len, elements: self.elements });
        }
        for (data_type, got) in [(plan.from, elements.len()), (plan.to, out.len())] {
            check_len(data_type, Some(len), got, &[len])?;
        }
        let backend = plan.backend.unwrap_or_else(Backend::best);
        let hint = StoreHint::Temporal;
        with_default_float_environment(|| self.job.run(backend, start, elements, out, len, hint));
        clear_padding(plan.to, len, out);
        Ok(())
    }
}

/// Checks the type of an input.
fn check_type(view: &TensorView<'_>, want: DataType) -> Result<(), CastError> {
    let got = view.data_type();
    if got == want { Ok(()) } else { Err(CastError::InputType { got, want }) }
}

/// What both operators have: their version and the options that are not about types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ScaledSettings {
    pub(super) operator: Operator,
    pub(super) version: i64,
    pub(super) axis: i64,
    pub(super) block_size: usize,
    pub(super) output_dtype: Option<DataType>,
    pub(super) precision: Option<DataType>,
    pub(super) saturate: bool,
    pub(super) backend: Option<Backend>,
    pub(super) threads: Option<usize>,
}

impl ScaledSettings {
    /// The settings of a node's attributes.
    pub(super) fn from_attributes(
        operator: Operator,
        opset: i64,
        list: &[super::Attribute<'_>],
    ) -> Result<Self, OpError> {
        let version = operator.version_at(opset)?;
        let list = Attributes::new(operator, version, list)?;
        let data_type = |name: &'static str| match list.int(name)? {
            None | Some(0) => Ok(None),
            Some(number) => match DataType::from_onnx(number) {
                Some(data_type) => Ok(Some(data_type)),
                None => Err(OpError::AttributeType { operator, name, number }),
            },
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
    pub(super) fn plan(
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
            return Err(OpError::TypesDiffer { operator, version, name: "y_scale", got: scale, want: x });
        }
        let to = if is_quantize {
            match (zero_point, self.output_dtype) {
                (Some(got), Some(want)) if got != want => {
                    return Err(OpError::TypesDiffer { operator, version, name: "y_zero_point", got, want });
                }
                (zero_point, output) => zero_point.or(output).unwrap_or(DataType::Uint8),
            }
        } else {
            if let Some(got) = zero_point.filter(|&zero_point| zero_point != x) {
                return Err(OpError::TypesDiffer { operator, version, name: "x_zero_point", got, want: x });
            }
            match self.output_dtype {
                Some(output) => output,
                None if scale == DataType::Float8E8M0 => return Err(OpError::MissingOutputType { version }),
                None => scale,
            }
        };
        operator.check_role(version, y_role, to)?;
        let default = Precision::of(scale).unwrap_or(Precision::Float);
        let precision = match self.precision {
            None => default,
            Some(data_type) => Precision::of(data_type).ok_or(OpError::Precision { version, data_type })?,
        };
        Ok(ScaledPlan {
            direction: if is_quantize { Direction::Quantize } else { Direction::Dequantize },
            from: x,
            scale,
            zero_point,
            to,
            precision,
            rules: Rules::new(to, i64::MAX, self.saturate, RoundMode::Up),
            range: ScaledPlan::range(to),
            axis: self.axis,
            block_size: self.block_size,
            backend: self.backend,
            threads: self.threads,
        })
    }

    /// The type and shape of the output.
    pub(super) fn infer(
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
            Layout::new(&shape, &scale, plan.axis, plan.block_size)?;
        }
        Ok(ValueInfo { data_type: plan.to, shape: x.shape.clone() })
    }
}

/// The attribute `block_size`.
fn block_size(operator: Operator, block_size: i64) -> Result<usize, OpError> {
    usize::try_from(block_size).map_err(|_| OpError::BlockSize { operator, block_size })
}

/// Implements what QuantizeLinear and DequantizeLinear have in common.
macro_rules! scaled_operator {
    ($operator:ident) => {
        impl $operator {
            /// The operator of a node in a model that imports `opset` of ONNX's default domain.
            ///
            /// ```
            #[doc = concat!("use onnx_cast::", stringify!($operator), ";")]
            /// use onnx_cast::ops::{Attribute, AttributeValue};
            ///
            /// let axis = Attribute { name: "axis", value: AttributeValue::Int(0) };
            #[doc = concat!("assert_eq!(", stringify!($operator), "::from_node(20, &[axis])?.version(), 19);")]
            #[doc = concat!("assert!(", stringify!($operator), "::from_node(12, &[axis]).is_err());")]
            /// # Ok::<(), onnx_cast::OpError>(())
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
pub(super) use scaled_operator;
