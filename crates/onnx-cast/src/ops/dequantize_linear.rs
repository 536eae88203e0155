//! ONNX `DequantizeLinear`.

use super::scaled::{ScaledPlan, ScaledSettings, scaled_operator};
use super::{Attribute, CastError, NEWEST_OPSET, OpError, Operator, ValueInfo, option_setters};
use crate::arch::Backend;
use crate::element::DataType;
use crate::tensor::{Tensor, TensorView};

/// The attributes of DequantizeLinear, the opset, and how to run it.
///
/// ```
/// use onnx_cast::DataType;
/// use onnx_cast::scaled::DequantizeOptions;
///
/// let options = DequantizeOptions::new().axis(-1).block_size(32).output_dtype(DataType::BFloat16);
/// assert_eq!(options.block_size, 32);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DequantizeOptions {
    /// The opset of the model, which selects the operator's version. The default is [`NEWEST_OPSET`].
    pub opset: i64,
    /// The axis of a scale with one dimension, or of the blocks; negative from the end. `None` is 1.
    pub axis: Option<i64>,
    /// Elements of a block on the axis; 0, the default, for none.
    pub block_size: usize,
    /// The type of the result: float, float16 or bfloat16; `None` is the scale's.
    pub output_dtype: Option<DataType>,
    /// The backend; `None` is the fastest. It never changes a result.
    pub backend: Option<Backend>,
    /// The most threads; `None` is all of the current pool.
    pub threads: Option<usize>,
}

impl Default for DequantizeOptions {
    fn default() -> Self {
        DequantizeOptions::new()
    }
}

impl DequantizeOptions {
    /// The newest opset with the attributes' defaults.
    pub const fn new() -> Self {
        DequantizeOptions {
            opset: NEWEST_OPSET,
            axis: None,
            block_size: 0,
            output_dtype: None,
            backend: None,
            threads: None,
        }
    }

    /// Sets [`DequantizeOptions::opset`].
    pub const fn opset(mut self, opset: i64) -> Self {
        self.opset = opset;
        self
    }

    /// Sets [`DequantizeOptions::block_size`].
    pub const fn block_size(mut self, block_size: usize) -> Self {
        self.block_size = block_size;
        self
    }

    option_setters! {
        /// Sets [`DequantizeOptions::axis`].
        axis: i64;
        /// Sets [`DequantizeOptions::output_dtype`].
        output_dtype: DataType;
        /// Sets [`DequantizeOptions::backend`].
        backend: Backend;
        /// Sets [`DequantizeOptions::threads`].
        threads: usize;
    }
}

/// ONNX `DequantizeLinear`: `y = (x - zero_point) * scale`.
///
/// The difference is exact, the product is rounded once to float, and that is cast to the type of the result.
///
/// ```
/// use onnx_cast::TensorView;
/// use onnx_cast::scaled::{DequantizeLinear, DequantizeOptions};
///
/// let x = [3i8, -10, 0, 100];
/// let x = TensorView::from_slice(&[2, 2], &x)?;
/// let scale = [0.5f32, 10.0];
/// let scale = TensorView::from_slice(&[2], &scale)?;
/// let y = DequantizeLinear::new(&DequantizeOptions::new().axis(0))?.run(&x, &scale, None)?;
/// assert_eq!(y.to_vec::<f32>(), Some(vec![1.5, -5.0, 0.0, 1000.0]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DequantizeLinear {
    settings: ScaledSettings,
}

impl DequantizeLinear {
    /// The operator, with the attributes of `options`.
    ///
    /// # Errors
    /// Fails if the opset has no DequantizeLinear, or if its version does not have an attribute that is not at its
    /// default.
    pub fn new(options: &DequantizeOptions) -> Result<Self, OpError> {
        let operator = Operator::DequantizeLinear;
        let version = operator.version_at(options.opset)?;
        let set = [
            // A default is what a version without the attribute does.
            ("axis", options.axis.is_some_and(|axis| axis != 1)),
            ("block_size", options.block_size > 0),
            ("output_dtype", options.output_dtype.is_some()),
        ];
        for (name, _) in set.into_iter().filter(|(_, is_set)| *is_set) {
            operator.check_attribute(version, name)?;
        }
        Ok(DequantizeLinear {
            settings: ScaledSettings {
                operator,
                version,
                axis: options.axis.unwrap_or(1),
                block_size: options.block_size,
                output_dtype: options.output_dtype,
                precision: None,
                saturate: true,
                backend: options.backend,
                threads: options.threads,
            },
        })
    }
}

scaled_operator!(DequantizeLinear);
