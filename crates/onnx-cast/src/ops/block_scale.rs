//! Block formats: elements of 8 bits or fewer in blocks along the last axis, each with a scale that is found from its
//! largest magnitude. MX has a power of two for 32 elements; NVFP4 a float8e4m3fn for 16, and a float for the tensor.

use alloc::vec;
use alloc::vec::Vec;
mod quantizer;

use super::buffers::{check_len, new_tensor};
use super::scaled::layout::Layout;
use super::scaled::tiles::{Adjust, BoundCast, Operand};
use super::scaled::{Direction, ScaledPlan, check_value_type};
use super::{CastError, CastErrorKind, OpError, OpErrorKind, option_setters};
use crate::arch::Backend;
use crate::element::DataType;
use crate::packed::{Out, as_uninit, written};
use crate::scalar::block_scale::{BlockFormat, INT8_UNIT, PowerOfTwo, Recipe, ScaleRule};
use crate::scalar::with_default_float_environment;
use crate::tensor::{Tensor, TensorErrorKind, TensorView, element_count};
use core::mem::MaybeUninit;
use quantizer::{BLOCKS, Quantizer, amax_of_runs, amax_of_tensor, finite_amax};

impl BlockFormat {
    /// How many scales a tensor of a shape has: one for each block of the last axis. `None` where that overflows.
    ///
    /// ```
    /// use onnx_cast::scaled::BlockFormat;
    /// assert_eq!(BlockFormat::MxFp4.scale_count(&[3, 40]), Some(6));
    /// ```
    pub fn scale_count(self, shape: &[usize]) -> Option<usize> {
        match shape.split_last() {
            None => Some(1),
            Some((_, _)) if shape.contains(&0) => Some(0),
            Some((last, outer)) => element_count(outer)?.checked_mul(last.div_ceil(self.block())),
        }
    }

    /// Checks that the format uses a scale rule and a recipe. Every format accepts the defaults.
    ///
    /// ```
    /// use onnx_cast::scaled::{BlockFormat, Recipe, ScaleRule};
    /// assert!(BlockFormat::MxFp4.check_options(ScaleRule::Even, Recipe::ModelOpt).is_ok());
    /// assert!(BlockFormat::NvFp4.check_options(ScaleRule::Even, Recipe::ModelOpt).is_err());
    /// ```
    ///
    /// # Errors
    /// Fails if NVFP4 gets a scale rule, or if another format gets a recipe.
    pub fn check_options(self, rule: ScaleRule, recipe: Recipe) -> Result<(), OpError> {
        match self {
            BlockFormat::NvFp4 if rule != ScaleRule::default() => {
                Err(OpErrorKind::ScaleRule { rule, format: self }.into())
            }
            BlockFormat::NvFp4 => Ok(()),
            _ if recipe != Recipe::default() => Err(OpErrorKind::Recipe { recipe, format: self }.into()),
            _ => Ok(()),
        }
    }
}

/// Quantizes to a block format.
///
/// The elements are `x / scale`, rounded once to nearest even and saturated. A block with NaN or infinity has the scale
/// NaN and elements of 0. The last block of a row may be short.
///
/// ```
/// use onnx_cast::{DataType, TensorView};
/// use onnx_cast::scaled::{BlockFormat, BlockQuantize};
///
/// let x: Vec<f32> = (0..64).map(|i| i as f32).collect();
/// let quantized = BlockQuantize::new(BlockFormat::MxFp4).run(&TensorView::from_slice(&[2, 32], &x)?)?;
/// assert_eq!(quantized.scales.bytes(), Some(&[127 + 2, 127 + 3][..])); // 4 and 8
/// let back = quantized.dequantize(DataType::Float)?.to_vec::<f32>().unwrap();
/// assert_eq!(back[..5], [0.0, 0.0, 2.0, 4.0, 4.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct BlockQuantize {
    format: BlockFormat,
    rule: ScaleRule,
    recipe: Recipe,
    amax: Option<f32>,
    backend: Option<Backend>,
    threads: Option<usize>,
}

/// A tensor in a block format.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct BlockScaled {
    /// The format.
    pub format: BlockFormat,
    /// Whose arithmetic made it, for NVFP4; it says what the global scale is.
    pub recipe: Recipe,
    /// The elements, of the tensor's shape.
    pub elements: Tensor,
    /// The scales: one for each block of the last axis.
    pub scales: Tensor,
    /// NVFP4: the scale of the tensor.
    pub global_scale: Option<f32>,
}

impl BlockScaled {
    /// A tensor from its parts.
    ///
    /// # Errors
    /// Fails if a type is not the format's, or if the scales are not one for each block of the last axis.
    pub fn new(
        format: BlockFormat,
        recipe: Recipe,
        elements: Tensor,
        scales: Tensor,
        global_scale: Option<f32>,
    ) -> Result<Self, CastError> {
        for (got, want) in [(elements.data_type(), format.element()), (scales.data_type(), format.scale())] {
            if got != want {
                return Err(CastErrorKind::InputType { got, want }.into());
            }
        }
        let want = scale_shape(elements.shape(), format.block());
        if scales.shape() != want {
            let (input, scale) = (elements.shape().to_vec(), scales.shape().to_vec());
            return Err(super::OpErrorKind::ScaleShape { input, scale, axis: -1, block_size: format.block() }.into());
        }
        Ok(BlockScaled { format, recipe, elements, scales, global_scale })
    }

    /// The values, as float, float16 or bfloat16: elements times scales, rounded to float, and then to the type.
    ///
    /// # Errors
    /// Fails if the type is another one, or if the result does not fit in memory.
    pub fn dequantize(&self, to: DataType) -> Result<Tensor, CastError> {
        let dequantize = BlockDequantize::new(self.format, to).recipe(self.recipe);
        let scales = self.scales.bytes().unwrap_or_default();
        new_tensor(to, self.elements.shape(), |out| {
            dequantize.run_into_uninit(&self.elements.view(), scales, self.global_scale, out).map(drop)
        })
    }
}

/// Dequantizes from a block format: elements times scales, rounded to float, and then to the type.
///
/// ```
/// use onnx_cast::{DataType, TensorView};
/// use onnx_cast::scaled::{BlockDequantize, BlockFormat};
///
/// // 1 and -6 of float4e2m1, by a scale of 2.
/// let elements = TensorView::new(DataType::Float4E2M1, &[2], &[0xf2])?;
/// let mut out = [0; 8];
/// BlockDequantize::new(BlockFormat::MxFp4, DataType::Float).run_into(&elements, &[128], None, &mut out)?;
/// assert_eq!(out[..4], 2f32.to_le_bytes());
/// assert_eq!(out[4..], (-12f32).to_le_bytes());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct BlockDequantize {
    format: BlockFormat,
    to: DataType,
    recipe: Recipe,
    backend: Option<Backend>,
    threads: Option<usize>,
}

impl BlockDequantize {
    /// Dequantizes to float, float16 or bfloat16.
    pub const fn new(format: BlockFormat, to: DataType) -> Self {
        BlockDequantize { format, to, recipe: Recipe::ModelOpt, backend: None, threads: None }
    }

    /// Sets whose arithmetic made the scales of NVFP4.
    pub const fn recipe(mut self, recipe: Recipe) -> Self {
        self.recipe = recipe;
        self
    }

    option_setters! {
        /// Sets the backend, which never changes a result.
        backend: Backend;
        /// Sets the most threads.
        threads: usize;
    }

    /// Dequantizes into `out`, which has the bytes of the result. `scales` has a code for each block of the last axis
    /// ([`BlockFormat::scale_count`]), and NVFP4 a scale of the tensor, 1 if it is `None`. Only errors allocate.
    ///
    /// # Errors
    /// Fails if the elements are not the format's, if the result is not of float, float16 or bfloat16, or if `scales`
    /// or `out` has another size.
    pub fn run_into(
        &self,
        elements: &TensorView<'_>,
        scales: &[u8],
        global_scale: Option<f32>,
        out: &mut [u8],
    ) -> Result<(), CastError> {
        // SAFETY: a cast writes only initialised bytes.
        self.run_into_uninit(elements, scales, global_scale, unsafe { as_uninit(out) }).map(drop)
    }

    /// As [`BlockDequantize::run_into`], into memory that need not be initialised. Returns `out`, every byte of which
    /// is written.
    ///
    /// # Errors
    /// As [`BlockDequantize::run_into`].
    pub fn run_into_uninit<'o>(
        &self,
        elements: &TensorView<'_>,
        scales: &[u8],
        global_scale: Option<f32>,
        out: &'o mut [MaybeUninit<u8>],
    ) -> Result<&'o mut [u8], CastError> {
        let (format, from) = (self.format, elements.data_type());
        check_value_type(self.to)?;
        if from != format.element() {
            return Err(CastErrorKind::InputType { got: from, want: format.element() }.into());
        }
        let count = format.scale_count(elements.shape());
        if count != Some(scales.len()) {
            // An error of an input, which names the shape of the scales.
            TensorView::new(format.scale(), &scale_shape(elements.shape(), format.block()), scales)?;
        }
        check_len(format.scale(), count, scales.len(), elements.shape())?;
        check_len(self.to, Some(elements.len()), out.len(), elements.shape())?;
        let plan = ScaledPlan::of_blocks(Direction::Dequantize, from, self.to, None, self.backend, self.threads);
        let global = global_scale.unwrap_or(1.0);
        let adjust = match (format, self.recipe) {
            (BlockFormat::MxInt8, _) => Adjust::Times(INT8_UNIT),
            (BlockFormat::NvFp4, Recipe::CompressedTensors) => Adjust::Over(global),
            (BlockFormat::NvFp4, _) => Adjust::Times(global),
            _ => Adjust::None,
        };
        let scale = Operand { data_type: format.scale(), bytes: scales, adjust };
        let row = elements.shape().last().copied().unwrap_or(1);
        let bound = BoundCast { plan: &plan, layout: layout(row, format.block()), scale, zero_point: None };
        Ok(plan.execute(&bound, elements.bytes().unwrap_or_default(), elements.len(), out))
    }
}

/// The largest finite magnitude of a tensor of float, float16 or bfloat16; 0 if there is none.
///
/// ```
/// use onnx_cast::TensorView;
/// use onnx_cast::scaled::amax;
///
/// let x = TensorView::from_slice(&[4], &[1.0f32, -3.0, f32::NEG_INFINITY, f32::NAN])?;
/// assert_eq!(amax(&x)?, 3.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Fails if the type is another one.
pub fn amax(x: &TensorView<'_>) -> Result<f32, CastError> {
    check_value_type(x.data_type())?;
    let bytes = x.bytes().unwrap_or_default();
    Ok(with_default_float_environment(|| finite_amax(Backend::best(), x.data_type(), bytes)))
}

/// The largest finite magnitude of each block of rows and columns of the last two axes, in the order that scales have;
/// 0 where there is none. `x` is of float, float16 or bfloat16.
///
/// ```
/// use onnx_cast::TensorView;
/// use onnx_cast::scaled::block_amax;
///
/// let x = TensorView::from_slice(&[2, 3], &[1.0f32, -2.0, 3.0, 4.0, 5.0, -6.0])?;
/// assert_eq!(block_amax(&x, [2, 2])?, [5.0, 6.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Fails if the type is another one, if the tensor has fewer than two axes, or if the result does not fit in memory.
pub fn block_amax(x: &TensorView<'_>, block: [usize; 2]) -> Result<Vec<f32>, CastError> {
    check_value_type(x.data_type())?;
    let shape = x.shape();
    let wrong = || super::OpErrorKind::BlockScaleShape { input: shape.to_vec(), scale: Vec::new(), block };
    let [ref outer @ .., rows, columns] = *shape else { return Err(wrong().into()) };
    if block.contains(&0) {
        return Err(wrong().into());
    }
    let grid = [rows.div_ceil(block[0]), columns.div_ceil(block[1])];
    let count = element_count(&[outer, &grid].concat());
    let mut amax_of_blocks = Vec::new();
    let there = count.and_then(|count| amax_of_blocks.try_reserve_exact(count).ok().map(|()| count));
    amax_of_blocks
        .resize(there.ok_or(TensorErrorKind::TooLarge { data_type: DataType::Float, shape: shape.to_vec() })?, 0.0);
    if x.is_empty() {
        return Ok(amax_of_blocks);
    }
    let (from, bytes) = (x.data_type(), x.bytes().unwrap_or_default());
    with_default_float_environment(|| {
        if block[0] == 1 && columns.is_multiple_of(block[1]) {
            // The runs of all rows are those of one.
            return amax_of_runs(from, bytes, block[1], &mut amax_of_blocks);
        }
        let width = from.info().bits as usize / 8;
        for (line, bytes) in bytes.chunks_exact(columns * width).enumerate() {
            let first = (line / rows * grid[0] + line % rows / block[0]) * grid[1];
            amax_of_runs(from, bytes, block[1], &mut amax_of_blocks[first..first + grid[1]]);
        }
    });
    Ok(amax_of_blocks)
}

/// The layout of scales for blocks along rows.
fn layout(row: usize, block: usize) -> Layout {
    Layout::rows_of_runs(row.max(1), block)
}

/// The shape of the scales: the last axis has one for each block.
fn scale_shape(shape: &[usize], block: usize) -> Vec<usize> {
    let mut shape = shape.to_vec();
    match shape.last_mut() {
        Some(last) => *last = last.div_ceil(block),
        None => shape.push(1),
    }
    shape
}

impl BlockQuantize {
    /// Quantizes by [`ScaleRule::Floor`] (MX) or [`Recipe::ModelOpt`] (NVFP4).
    pub const fn new(format: BlockFormat) -> Self {
        let (rule, recipe) = (ScaleRule::Floor, Recipe::ModelOpt);
        BlockQuantize { format, rule, recipe, amax: None, backend: None, threads: None }
    }

    /// Sets the rule for scales of MX.
    pub const fn rule(mut self, rule: ScaleRule) -> Self {
        self.rule = rule;
        self
    }

    /// Sets the recipe for scales of NVFP4.
    pub const fn recipe(mut self, recipe: Recipe) -> Self {
        self.recipe = recipe;
        self
    }

    option_setters! {
        /// Sets the largest finite magnitude of the whole tensor, for calls that quantize only a part of it. NVFP4
        /// derives the scale of the tensor from it. See [`amax`].
        amax: f32;
        /// Sets the backend, which never changes a result.
        backend: Backend;
        /// Sets the most threads.
        threads: usize;
    }

    /// NVFP4: the scale of a tensor with this largest finite magnitude.
    ///
    /// ```
    /// use onnx_cast::scaled::{BlockFormat, BlockQuantize};
    /// assert_eq!(BlockQuantize::new(BlockFormat::NvFp4).global_scale(2688.0), Some(1.0));
    /// ```
    pub fn global_scale(&self, amax: f32) -> Option<f32> {
        let global = || with_default_float_environment(|| self.recipe.global_scale(amax));
        (self.format == BlockFormat::NvFp4).then(global)
    }

    /// The codes of the scales of blocks of floats with these largest magnitudes.
    ///
    /// ```
    /// use onnx_cast::scaled::{BlockFormat, BlockQuantize};
    /// assert_eq!(BlockQuantize::new(BlockFormat::MxFp4).scales(&[31.0, 63.0]), [127 + 2, 127 + 3]);
    /// ```
    pub fn scales(&self, amax: &[f32]) -> Vec<u8> {
        let mut codes = vec![0; amax.len()];
        with_default_float_environment(|| {
            let all = self.amax.unwrap_or_else(|| amax.iter().copied().fold(0.0, f32::max));
            let quantizer = self.quantizer_of(DataType::Float, || all);
            for (amax, codes) in amax.chunks(BLOCKS).zip(codes.chunks_mut(BLOCKS)) {
                let (mut bits, mut factors) = ([0; BLOCKS], [[0; 4]; BLOCKS]);
                bits.iter_mut().zip(amax).for_each(|(bits, amax)| *bits = amax.to_bits());
                quantizer.scales(&bits[..codes.len()], codes, &mut factors[..codes.len()]);
            }
        });
        codes
    }

    /// Quantizes a tensor of float, float16 or bfloat16, in blocks along its last axis.
    ///
    /// # Errors
    /// Fails if the type is another one, or if the result does not fit in memory.
    pub fn run(&self, x: &TensorView<'_>) -> Result<BlockScaled, CastError> {
        let (format, quantizer) = (self.format, self.quantizer(x)?);
        let shape = scale_shape(x.shape(), format.block());
        let mut elements = None;
        let scales = new_tensor(format.scale(), &shape, |scales| {
            let fill = |out: &mut Out| {
                quantizer.run(x, out, scales);
                Ok(())
            };
            elements = Some(new_tensor(format.element(), x.shape(), fill)?);
            Ok(())
        })?;
        // The closure returned no error, so it set the elements.
        let elements = elements.ok_or(TensorErrorKind::TooLarge { data_type: format.element(), shape })?;
        Ok(BlockScaled { format, recipe: self.recipe, elements, scales, global_scale: quantizer.global_scale() })
    }

    /// As [`BlockQuantize::run`], into the caller's memory: the bytes of the elements, and a code for each block of the
    /// last axis ([`BlockFormat::scale_count`]). Returns the scale of the tensor, of NVFP4. Only errors allocate.
    ///
    /// # Errors
    /// Fails if the type is another one, or if a buffer has another size.
    pub fn run_into(
        &self,
        x: &TensorView<'_>,
        elements: &mut [u8],
        scales: &mut [u8],
    ) -> Result<Option<f32>, CastError> {
        // SAFETY: a cast writes only initialised bytes.
        let (_, _, global_scale) = unsafe { self.run_into_uninit(x, as_uninit(elements), as_uninit(scales)) }?;
        Ok(global_scale)
    }

    /// As [`BlockQuantize::run_into`], into memory that need not be initialised. Returns `elements` and `scales`, every
    /// byte of which is written, and the scale of the tensor.
    ///
    /// # Errors
    /// As [`BlockQuantize::run_into`].
    #[allow(clippy::type_complexity)]
    pub fn run_into_uninit<'e, 's>(
        &self,
        x: &TensorView<'_>,
        elements: &'e mut [MaybeUninit<u8>],
        scales: &'s mut [MaybeUninit<u8>],
    ) -> Result<(&'e mut [u8], &'s mut [u8], Option<f32>), CastError> {
        let (format, quantizer) = (self.format, self.quantizer(x)?);
        check_len(format.element(), Some(x.len()), elements.len(), x.shape())?;
        check_len(format.scale(), format.scale_count(x.shape()), scales.len(), x.shape())?;
        quantizer.run(x, elements, scales);
        // SAFETY: the quantizer writes every byte.
        let (elements, scales) = unsafe { (written(elements), written(scales)) };
        Ok((elements, scales, quantizer.global_scale()))
    }

    /// The quantizer of a tensor. Checks the type, and finds the largest magnitude if the format needs it.
    fn quantizer(&self, x: &TensorView<'_>) -> Result<Quantizer<'_>, CastError> {
        let from = x.data_type();
        check_value_type(from)?;
        let bytes = x.bytes().unwrap_or_default();
        let backend = self.backend.unwrap_or_else(Backend::best);
        let amax = || amax_of_tensor(backend, from, bytes, self.threads);
        Ok(self.quantizer_of(from, || self.amax.unwrap_or_else(amax)))
    }

    /// The quantizer of values of a type. Only NVFP4 needs their largest magnitude.
    fn quantizer_of(&self, from: DataType, amax: impl Fn() -> f32) -> Quantizer<'_> {
        let backend = self.backend.unwrap_or_else(Backend::best);
        let global = match self.format {
            BlockFormat::NvFp4 => with_default_float_environment(|| self.recipe.global_scale(amax())),
            _ => 1.0,
        };
        Quantizer { quantize: self, from, backend, global, power: PowerOfTwo::new(self.format, self.rule) }
    }
}
