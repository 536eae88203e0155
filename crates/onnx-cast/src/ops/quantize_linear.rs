//! ONNX `QuantizeLinear`.

use super::scaled::{ScaledPlan, ScaledSettings, scaled_operator};
use super::{Attribute, CastError, NEWEST_OPSET, OpError, Operator, ValueInfo, option_setters};
use crate::arch::Backend;
use crate::element::DataType;
use crate::tensor::{Tensor, TensorView};

/// The attributes of QuantizeLinear, the opset, and how to run it.
///
/// ```
/// use onnx_cast::DataType;
/// use onnx_cast::scaled::QuantizeOptions;
///
/// let options = QuantizeOptions::new().axis(-1).block_size(32).output_dtype(DataType::Float4E2M1);
/// assert_eq!(options.block_size, 32);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QuantizeOptions {
    /// The opset of the model, which selects the operator's version. The default is [`NEWEST_OPSET`].
    pub opset: i64,
    /// The axis of a scale with one dimension, or of the blocks; negative from the end. `None` is 1.
    pub axis: Option<i64>,
    /// Elements of a block on the axis; 0, the default, for none.
    pub block_size: usize,
    /// Whether a value beyond the largest number of a float type becomes that. `None` is true.
    pub saturate: Option<bool>,
    /// The type that quotients are rounded to; `None` is the scale's type, or float where that is float8e8m0 or int32.
    pub precision: Option<DataType>,
    /// The type of the result; `None` is the zero point's, and uint8 without one.
    pub output_dtype: Option<DataType>,
    /// The backend; `None` is the fastest. It never changes a result.
    pub backend: Option<Backend>,
    /// The most threads; `None` is all of the current pool.
    pub threads: Option<usize>,
}

impl Default for QuantizeOptions {
    fn default() -> Self {
        QuantizeOptions::new()
    }
}

impl QuantizeOptions {
    /// The newest opset with the attributes' defaults.
    pub const fn new() -> Self {
        QuantizeOptions {
            opset: NEWEST_OPSET,
            axis: None,
            block_size: 0,
            saturate: None,
            precision: None,
            output_dtype: None,
            backend: None,
            threads: None,
        }
    }

    /// Sets [`QuantizeOptions::opset`].
    pub const fn opset(mut self, opset: i64) -> Self {
        self.opset = opset;
        self
    }

    /// Sets [`QuantizeOptions::block_size`].
    pub const fn block_size(mut self, block_size: usize) -> Self {
        self.block_size = block_size;
        self
    }

    option_setters! {
        /// Sets [`QuantizeOptions::axis`].
        axis: i64;
        /// Sets [`QuantizeOptions::saturate`].
        saturate: bool;
        /// Sets [`QuantizeOptions::precision`].
        precision: DataType;
        /// Sets [`QuantizeOptions::output_dtype`].
        output_dtype: DataType;
        /// Sets [`QuantizeOptions::backend`].
        backend: Backend;
        /// Sets [`QuantizeOptions::threads`].
        threads: usize;
    }
}

/// ONNX `QuantizeLinear`: `y = saturate(round(x / scale) + zero_point)`.
///
/// The quotient is rounded once, to the precision. For integers it is then rounded to the nearest integer, ties to
/// even, the zero point is added, and the sum is saturated; NaN gives the lowest. For floats it is cast as the newest
/// Cast does.
///
/// ```
/// use onnx_cast::{DataType, TensorView};
/// use onnx_cast::scaled::{QuantizeLinear, QuantizeOptions};
///
/// let x = [0.3f32, -1.0, 2.5, 1000.0];
/// let x = TensorView::from_slice(&[2, 2], &x)?;
/// let scale = [0.1f32, 10.0];
/// let scale = TensorView::from_slice(&[2], &scale)?;
/// let options = QuantizeOptions::new().axis(0).output_dtype(DataType::Int8);
/// let y = QuantizeLinear::new(&options)?.run(&x, &scale, None)?;
/// assert_eq!(y.to_vec::<i8>(), Some(vec![3, -10, 0, 100]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuantizeLinear {
    settings: ScaledSettings,
}

impl QuantizeLinear {
    /// The operator, with the attributes of `options`.
    ///
    /// # Errors
    /// Fails if the opset has no QuantizeLinear, or if its version does not have an attribute that is not at its
    /// default.
    pub fn new(options: &QuantizeOptions) -> Result<Self, OpError> {
        let operator = Operator::QuantizeLinear;
        let version = operator.version_at(options.opset)?;
        let set = [
            // A default is what a version without the attribute does.
            ("axis", options.axis.is_some_and(|axis| axis != 1)),
            ("block_size", options.block_size > 0),
            ("saturate", options.saturate == Some(false)),
            ("precision", options.precision.is_some()),
            ("output_dtype", options.output_dtype.is_some()),
        ];
        for (name, _) in set.into_iter().filter(|(_, is_set)| *is_set) {
            operator.check_attribute(version, name)?;
        }
        Ok(QuantizeLinear {
            settings: ScaledSettings {
                operator,
                version,
                axis: options.axis.unwrap_or(1),
                block_size: options.block_size,
                output_dtype: options.output_dtype,
                precision: options.precision,
                saturate: options.saturate.unwrap_or(true),
                backend: options.backend,
                threads: options.threads,
            },
        })
    }
}

scaled_operator!(QuantizeLinear);
