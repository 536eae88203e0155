//! Block formats: elements of 8 bits or fewer in blocks along the last axis, each with a scale that is found from its
//! greatest magnitude. MX has a power of two for 32 elements; NVFP4 a float8e4m3fn for 16, and a float for the tensor.

use super::CastError;
use super::execute::{as_bytes, as_uninit, parts_for, vec_of};
use super::scaled::layout::Layout;
use super::scaled::tiles::{Adjust, Job, Operand, floats};
use super::scaled::{Direction, ScaledPlan};
use crate::arch::Backend;
use crate::element::{BFloat16, DataType, Float4E2M1, Float8E4M3FN, Float8E8M0, Float16, byte_len_of};
use crate::error::shorten;
use crate::kernel::StoreHint;
use crate::kernel::scale::Scales;
use crate::packed::clear;
use crate::scalar::{Narrow, Rules, Widen, with_default_float_environment};
use crate::tensor::{Tensor, TensorError, TensorView, element_count};
use std::fmt;
use std::mem::MaybeUninit;
use std::str::FromStr;

/// A type of elements with a scale for each block of them.
///
/// ```
/// use onnx_cast::{BlockFormat, DataType};
///
/// let format: BlockFormat = "mxfp4".parse()?;
/// assert_eq!((format.element(), format.scale(), format.block()), (DataType::Float4E2M1, DataType::Float8E8M0, 32));
/// # Ok::<(), onnx_cast::UnknownFormat>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BlockFormat {
    /// MXFP8 with float8e4m3fn.
    MxFp8,
    /// MXFP8 with float8e5m2.
    MxFp8E5M2,
    /// MXFP6 with float6e2m3.
    MxFp6E2M3,
    /// MXFP6 with float6e3m2.
    MxFp6E3M2,
    /// MXFP4: float4e2m1.
    MxFp4,
    /// MXINT8: int8, whose elements count 64ths.
    MxInt8,
    /// NVFP4: float4e2m1.
    NvFp4,
}

impl BlockFormat {
    /// Every format.
    pub const ALL: &'static [BlockFormat] = &[
        BlockFormat::MxFp8,
        BlockFormat::MxFp8E5M2,
        BlockFormat::MxFp6E2M3,
        BlockFormat::MxFp6E3M2,
        BlockFormat::MxFp4,
        BlockFormat::MxInt8,
        BlockFormat::NvFp4,
    ];

    /// Its name: `mxfp4`.
    pub const fn name(self) -> &'static str {
        match self {
            BlockFormat::MxFp8 => "mxfp8",
            BlockFormat::MxFp8E5M2 => "mxfp8e5m2",
            BlockFormat::MxFp6E2M3 => "mxfp6e2m3",
            BlockFormat::MxFp6E3M2 => "mxfp6e3m2",
            BlockFormat::MxFp4 => "mxfp4",
            BlockFormat::MxInt8 => "mxint8",
            BlockFormat::NvFp4 => "nvfp4",
        }
    }

    /// The type of an element.
    pub const fn element(self) -> DataType {
        match self {
            BlockFormat::MxFp8 => DataType::Float8E4M3FN,
            BlockFormat::MxFp8E5M2 => DataType::Float8E5M2,
            BlockFormat::MxFp6E2M3 => DataType::Float6E2M3,
            BlockFormat::MxFp6E3M2 => DataType::Float6E3M2,
            BlockFormat::MxFp4 | BlockFormat::NvFp4 => DataType::Float4E2M1,
            BlockFormat::MxInt8 => DataType::Int8,
        }
    }

    /// The type of a block's scale.
    pub const fn scale(self) -> DataType {
        match self {
            BlockFormat::NvFp4 => DataType::Float8E4M3FN,
            _ => DataType::Float8E8M0,
        }
    }

    /// Elements of a block.
    pub const fn block(self) -> usize {
        match self {
            BlockFormat::NvFp4 => 16,
            _ => 32,
        }
    }

    /// How many scales a tensor of a shape has: one for each block of the last axis. `None` where that overflows.
    ///
    /// ```
    /// # use onnx_cast::BlockFormat;
    /// assert_eq!(BlockFormat::MxFp4.scale_count(&[3, 40]), Some(6));
    /// ```
    pub fn scale_count(self, shape: &[usize]) -> Option<usize> {
        match shape.split_last() {
            None => Some(1),
            Some((_, _)) if shape.contains(&0) => Some(0),
            Some((last, outer)) => element_count(outer)?.checked_mul(last.div_ceil(self.block())),
        }
    }

    /// Significand bits and exponent of an element's largest value, and the significand of that, as a double's fraction.
    fn largest(self) -> (u32, i32, u64) {
        const FRACTION: u32 = f64::MANTISSA_DIGITS - 1;
        let Some(format) = self.element().float_format() else {
            // MXINT8: 127/64.
            return (6, 0, 63 << (FRACTION - 6));
        };
        let max = format.max_code();
        let field = max >> format.significand_bits;
        let fraction = max & ((1 << format.significand_bits) - 1);
        (format.significand_bits, field as i32 - format.bias, fraction << (FRACTION - format.significand_bits))
    }
}

/// How the greatest magnitude A of a block gives the power of two that is its scale in MX. `emax` is the exponent of the
/// element's largest value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ScaleRule {
    /// `floor(log2 A) - emax`: the OCP text, torchao, oneDNN, llama.cpp.
    #[default]
    Floor,
    /// `ceil(log2(A / max))`: cuBLAS, Transformer Engine, ModelOpt.
    Rceil,
    /// `ceil(log2 A) - emax`: torchao.
    Ceil,
    /// `floor(log2 A) - emax` after A is rounded half up to the element's significand: torchao, Quark.
    Even,
}

/// Whose arithmetic gives the scales of NVFP4.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Recipe {
    /// ModelOpt's: the global scale is a factor.
    #[default]
    ModelOpt,
    /// torchao's: likewise, with other roundings.
    TorchAo,
    /// compressed-tensors': the global scale is a divisor.
    CompressedTensors,
}

/// Implements the names of an enum.
macro_rules! names {
    ($($ty:ident, $what:literal: $($variant:ident $name:literal),*;)*) => {$(
        impl $ty {
            /// Every one.
            pub const ALL: &'static [$ty] = &[$($ty::$variant),*];

            /// Its name.
            pub const fn name(self) -> &'static str {
                match self {
                    $($ty::$variant => $name,)*
                }
            }
        }

        parse!($ty, $what);
    )*};
}

macro_rules! parse {
    ($ty:ident, $what:literal) => {
        impl fmt::Display for $ty {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.name())
            }
        }

        impl FromStr for $ty {
            type Err = UnknownFormat;

            fn from_str(name: &str) -> Result<Self, UnknownFormat> {
                let known = $ty::ALL.iter().copied().find(|one| one.name() == name);
                let names = || $ty::ALL.iter().map(|one| one.name()).collect();
                known.ok_or_else(|| UnknownFormat { what: $what, name: name.to_owned(), known: names() })
            }
        }
    };
}

names! {
    ScaleRule, "scale rule": Floor "floor", Rceil "rceil", Ceil "ceil", Even "even";
    Recipe, "recipe": ModelOpt "modelopt", TorchAo "torchao", CompressedTensors "compressed-tensors";
}
parse!(BlockFormat, "block format");

/// A name that is not a block format, a rule or a recipe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownFormat {
    what: &'static str,
    name: String,
    known: Vec<&'static str>,
}

impl fmt::Display for UnknownFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} `{}` is not known (want {})", self.what, shorten(&self.name), self.known.join(", "))
    }
}

impl std::error::Error for UnknownFormat {}

/// Quantizes to a block format.
///
/// The elements are `x / scale`, rounded once to nearest even and saturated. A block with NaN or infinity has the scale
/// NaN and elements of 0. The last block of a row may be short.
///
/// ```
/// use onnx_cast::{BlockFormat, BlockQuantize, DataType, TensorView};
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
                return Err(CastError::InputType { got, want });
            }
        }
        let want = scale_shape(elements.shape(), format.block());
        if scales.shape() != want {
            let (input, scale) = (elements.shape().to_vec(), scales.shape().to_vec());
            return Err(super::OpError::ScaleShape { input, scale, axis: -1, block_size: format.block() }.into());
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
            dequantize.run_into_uninit(&self.elements.view(), scales, self.global_scale, out)
        })
    }
}

/// Dequantizes from a block format: elements times scales, rounded to float, and then to the type.
///
/// ```
/// use onnx_cast::{BlockDequantize, BlockFormat, DataType, TensorView};
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

    /// Sets the backend, which never changes a result.
    pub fn backend(mut self, backend: impl Into<Option<Backend>>) -> Self {
        self.backend = backend.into();
        self
    }

    /// Sets the most threads.
    pub fn threads(mut self, threads: impl Into<Option<usize>>) -> Self {
        self.threads = threads.into();
        self
    }

    /// Dequantizes into `out`, which has the bytes of the result. `scales` has a code for each block of the last axis
    /// ([`BlockFormat::scale_count`]), and NVFP4 a scale of the tensor, 1 if it is `None`. Only errors allocate.
    ///
    /// # Errors
    /// Fails if the elements are not the format's, if the result is not of float, float16 or bfloat16, or if `scales` or
    /// `out` has another size.
    pub fn run_into(
        &self,
        elements: &TensorView<'_>,
        scales: &[u8],
        global_scale: Option<f32>,
        out: &mut [u8],
    ) -> Result<(), CastError> {
        self.run_into_uninit(elements, scales, global_scale, as_uninit(out))
    }

    fn run_into_uninit(
        &self,
        elements: &TensorView<'_>,
        scales: &[u8],
        global_scale: Option<f32>,
        out: &mut [MaybeUninit<u8>],
    ) -> Result<(), CastError> {
        let (format, from) = (self.format, elements.data_type());
        super::Operator::DequantizeLinear.check_role(super::NEWEST_OPSET, super::Role::Values, self.to)?;
        if from != format.element() {
            return Err(CastError::InputType { got: from, want: format.element() });
        }
        check_len(format.scale(), format.scale_count(elements.shape()), scales.len(), elements)?;
        check_len(self.to, Some(elements.len()), out.len(), elements)?;
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
        let job = Job { plan: &plan, layout: layout(row, format.block()), scale, zero_point: None };
        plan.execute(&job, elements.bytes().unwrap_or_default(), elements.len(), out);
        Ok(())
    }
}

/// Checks the size of a buffer of so many elements, of a tensor's shape.
fn check_len(
    data_type: DataType,
    elements: Option<usize>,
    got: usize,
    tensor: &TensorView<'_>,
) -> Result<(), CastError> {
    match elements.and_then(|elements| Some((elements, data_type.byte_len(elements)?))) {
        Some((_, want)) if want == got => Ok(()),
        Some((elements, want)) => Err(CastError::OutputLen { data_type, elements, got, want }),
        None => Err(TensorError::TooLarge { data_type, shape: tensor.shape().to_vec() }.into()),
    }
}

/// An element of MXINT8 counts 64ths.
const INT8_UNIT: f32 = 1.0 / 64.0;

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

/// A tensor whose bytes `fill` writes.
fn new_tensor(
    data_type: DataType,
    shape: &[usize],
    fill: impl FnOnce(&mut [MaybeUninit<u8>]) -> Result<(), CastError>,
) -> Result<Tensor, CastError> {
    let too_large = || TensorError::TooLarge { data_type, shape: shape.to_vec() };
    let len = element_count(shape).and_then(|len| data_type.byte_len(len)).ok_or_else(too_large)?;
    let bytes = vec_of(len, fill).ok_or_else(too_large)??;
    Ok(Tensor::new(data_type, shape.to_vec(), bytes)?)
}

impl BlockQuantize {
    /// Quantizes by the format's default rule.
    pub const fn new(format: BlockFormat) -> Self {
        let (rule, recipe) = (ScaleRule::Floor, Recipe::ModelOpt);
        BlockQuantize { format, rule, recipe, backend: None, threads: None }
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

    /// Sets the backend, which never changes a result.
    pub fn backend(mut self, backend: impl Into<Option<Backend>>) -> Self {
        self.backend = backend.into();
        self
    }

    /// Sets the most threads.
    pub fn threads(mut self, threads: impl Into<Option<usize>>) -> Self {
        self.threads = threads.into();
        self
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
            let fill = |out: &mut [MaybeUninit<u8>]| {
                quantizer.run(x, out, scales);
                Ok(())
            };
            elements = Some(new_tensor(format.element(), x.shape(), fill)?);
            Ok(())
        })?;
        // The closure returned no error, so it set the elements.
        let elements = elements.ok_or(TensorError::TooLarge { data_type: format.element(), shape })?;
        Ok(BlockScaled { format, recipe: self.recipe, elements, scales, global_scale: quantizer.global_scale() })
    }

    /// As [`BlockQuantize::run`], into the caller's memory: the bytes of the elements, and a code for each block of the
    /// last axis ([`BlockFormat::scale_count`]). Returns the scale of the tensor, of NVFP4. Allocates where the last axis
    /// is not a multiple of a block.
    ///
    /// # Errors
    /// Fails if the type is another one, or if a buffer has another size.
    pub fn run_into(
        &self,
        x: &TensorView<'_>,
        elements: &mut [u8],
        scales: &mut [u8],
    ) -> Result<Option<f32>, CastError> {
        let (format, quantizer) = (self.format, self.quantizer(x)?);
        check_len(format.element(), Some(x.len()), elements.len(), x)?;
        check_len(format.scale(), format.scale_count(x.shape()), scales.len(), x)?;
        quantizer.run(x, as_uninit(elements), as_uninit(scales));
        Ok(quantizer.global_scale())
    }

    /// A tensor's quantizer: its type is checked, and its greatest magnitude known where the format needs it.
    fn quantizer(&self, x: &TensorView<'_>) -> Result<Quantizer<'_>, CastError> {
        let from = x.data_type();
        super::Operator::DequantizeLinear.check_role(super::NEWEST_OPSET, super::Role::Values, from)?;
        let backend = self.backend.unwrap_or_else(Backend::best);
        let global = match self.format {
            BlockFormat::NvFp4 => self.global(greatest_finite(backend, from, x.bytes().unwrap_or_default())),
            _ => 1.0,
        };
        Ok(Quantizer { quantize: self, from, backend, global, largest: self.format.largest() })
    }

    /// The scale of a tensor of NVFP4, from its greatest magnitude.
    fn global(&self, greatest: f32) -> f32 {
        match self.recipe {
            Recipe::CompressedTensors => {
                let divisor = 1.0 / greatest * (Float4E2M1::MAX.to_f32() * Float8E4M3FN::MAX.to_f32());
                if divisor.is_finite() { divisor } else { 1.0 }
            }
            _ if greatest == 0.0 => 1.0,
            _ => greatest / (Float4E2M1::MAX.to_f32() * Float8E4M3FN::MAX.to_f32()),
        }
    }
}

/// A tensor on its way to a block format.
struct Quantizer<'a> {
    quantize: &'a BlockQuantize,
    from: DataType,
    backend: Backend,
    global: f32,
    /// [`BlockFormat::largest`].
    largest: (u32, i32, u64),
}

/// A block's scale: its code, and what its elements are divided by; by torchao's recipe, multiplied with.
struct Found {
    code: u8,
    factor: f32,
}

/// Elements that are quantized at a time: their blocks' scales are found while they are in the nearest cache.
const PART: usize = 2048;

impl Quantizer<'_> {
    /// The scale of a block, from the bits of its greatest magnitude.
    fn scale(&self, greatest: u32) -> Found {
        let format = self.quantize.format;
        let a = f32::from_bits(greatest);
        if !a.is_finite() {
            let code = if format == BlockFormat::NvFp4 { 0x7f } else { 0xff };
            return Found { code, factor: 1.0 };
        }
        if format == BlockFormat::NvFp4 {
            return self.nvfp4_scale(a);
        }
        const FRACTION: u32 = f64::MANTISSA_DIGITS - 1;
        let (significand_bits, emax, max_fraction) = self.largest;
        let bits = f64::from(a).to_bits();
        let fraction = bits & ((1 << FRACTION) - 1);
        let exponent = |bits: u64| (bits >> FRACTION) as i32 - 1023;
        let log = match self.quantize.rule {
            ScaleRule::Floor => exponent(bits),
            ScaleRule::Ceil => exponent(bits) + i32::from(fraction != 0),
            ScaleRule::Rceil => exponent(bits) + i32::from(fraction > max_fraction),
            ScaleRule::Even => exponent(bits + (1 << (FRACTION - 1 - significand_bits))),
        };
        let code = ((log - emax).clamp(-127, 127) + 127) as u8;
        let power = Float8E8M0::from_bits(code).to_f32_round_to_odd();
        Found { code, factor: if format == BlockFormat::MxInt8 { power * INT8_UNIT } else { power } }
    }

    /// The scale of a block of NVFP4. Every operation is rounded to float.
    fn nvfp4_scale(&self, a: f32) -> Found {
        const MAX: f32 = 448.0;
        let g = self.global;
        let six = Float4E2M1::MAX.to_f32();
        // The callers have set the default float environment.
        let scale = |value: f32| -> Float8E4M3FN { Narrow::from_f32(value, &Rules::newest(DataType::Float8E4M3FN)) };
        let float = |code: Float8E4M3FN| code.to_f32_round_to_odd();
        match self.quantize.recipe {
            Recipe::ModelOpt => {
                let quotient = a / (six * g);
                let value = if a == 0.0 || quotient == 0.0 { 1.0 } else { quotient.clamp(2f32.powi(-9), MAX) };
                let b = scale(value);
                Found { code: b.to_bits(), factor: float(b) * g }
            }
            Recipe::TorchAo => {
                let least = 2f32.powi(-6);
                let b = scale(if a == 0.0 { least } else { (a / six / g).clamp(least, MAX) });
                Found { code: b.to_bits(), factor: 1.0 / g / float(b) }
            }
            Recipe::CompressedTensors => {
                let in_its_type = match self.from {
                    DataType::Float16 => Float16::from_f32(a / six).to_f32(),
                    DataType::BFloat16 => BFloat16::from_f32(a / six).to_f32(),
                    _ => a / six,
                };
                let b = scale(g * in_its_type);
                let b = if b.to_bits() == 0 { scale(0.125) } else { b };
                Found { code: b.to_bits(), factor: float(b) / g }
            }
        }
    }

    /// The plan of the elements, once the scales are known.
    fn plan(&self) -> ScaledPlan {
        let quantize = self.quantize;
        let is_product = quantize.format == BlockFormat::NvFp4 && quantize.recipe == Recipe::TorchAo;
        let direction = if is_product { Direction::Dequantize } else { Direction::Quantize };
        let range = (quantize.format == BlockFormat::MxInt8).then_some([-127.0, 127.0]);
        ScaledPlan::of_blocks(direction, self.from, quantize.format.element(), range, quantize.backend, Some(1))
    }

    /// The scale of the tensor, of NVFP4.
    fn global_scale(&self) -> Option<f32> {
        (self.quantize.format == BlockFormat::NvFp4).then_some(self.global)
    }

    /// Quantizes a tensor.
    fn run(&self, x: &TensorView<'_>, elements: &mut [MaybeUninit<u8>], scales: &mut [MaybeUninit<u8>]) {
        let (src, len) = (x.bytes().unwrap_or_default(), x.len());
        let row = x.shape().last().copied().unwrap_or(1);
        let (block, plan) = (self.quantize.format.block(), self.plan());
        let part = Part { src, elements: as_bytes(elements), scales: as_bytes(scales), len };
        if row.is_multiple_of(block) {
            let parts = parts_for(src.len() + part.elements.len(), self.quantize.threads);
            return self.fork(part, &plan, parts);
        }
        // Rows end within blocks, and packed rows within bytes: first all scales, then all elements.
        let width = self.from.info().bits as usize / 8;
        let mut factors = Vec::with_capacity(4 * part.scales.len());
        let blocks = src.chunks(row.max(1) * width).flat_map(|row| row.chunks(block * width));
        let mut bad = Vec::new();
        with_default_float_environment(|| {
            for (i, (block, code)) in blocks.zip(part.scales.iter_mut()).enumerate() {
                let found = self.scale(greatest(self.backend, self.from, block, PART, &mut [[0; 4]]).sum());
                *code = found.code;
                factors.extend(found.factor.to_le_bytes());
                if self.is_nan(found.code) {
                    bad.push(i);
                }
            }
        });
        let scale = Operand::new(DataType::Float, &factors);
        let job = Job { plan: &plan, layout: layout(row, block), scale, zero_point: None };
        plan.execute(&job, src, len, as_uninit(part.elements));
        let blocks_in_row = row.div_ceil(block);
        for i in bad {
            let begin = i / blocks_in_row * row + i % blocks_in_row * block;
            let end = (begin + block).min((i / blocks_in_row + 1) * row);
            clear(part.elements, begin..end, self.quantize.format.element());
        }
    }

    fn is_nan(&self, code: u8) -> bool {
        code == if self.quantize.format == BlockFormat::NvFp4 { 0x7f } else { 0xff }
    }

    /// Quantizes whole blocks on several threads.
    fn fork(&self, part: Part<'_>, plan: &ScaledPlan, parts: usize) {
        #[cfg(feature = "threads")]
        if parts > 1 {
            let low = (part.len / parts * (parts / 2)).next_multiple_of(PART).min(part.len);
            let (low, high) = part.split(low, self);
            rayon::join(|| self.fork(low, plan, parts / 2), || self.fork(high, plan, parts - parts / 2));
            return;
        }
        let _ = parts;
        with_default_float_environment(|| {
            let mut rest = part;
            while rest.len > PART {
                let (now, later) = rest.split(PART, self);
                self.part(now, plan);
                rest = later;
            }
            self.part(rest, plan);
        });
    }

    /// Quantizes a few whole blocks: their scales, and then their elements, which are still in the nearest cache.
    fn part(&self, part: Part<'_>, plan: &ScaledPlan) {
        const BLOCKS: usize = PART / 16;
        let block = self.quantize.format.block();
        let mut most = [[0; 4]; BLOCKS];
        let most = greatest(self.backend, self.from, part.src, block, &mut most);
        let mut factors = [0; 4 * BLOCKS];
        let mut has_nan = false;
        for ((factor, code), most) in factors.as_chunks_mut::<4>().0.iter_mut().zip(&mut *part.scales).zip(most) {
            let found = self.scale(most);
            (*factor, *code) = (found.factor.to_le_bytes(), found.code);
            has_nan |= self.is_nan(found.code);
        }
        let scale = Operand::new(DataType::Float, &factors[..4 * part.scales.len()]);
        let job = Job { plan, layout: layout(part.len, block), scale, zero_point: None };
        job.run(self.backend, 0, part.src, part.elements, part.len, StoreHint::Temporal);
        if has_nan {
            for (i, _) in part.scales.iter().enumerate().filter(|(_, code)| self.is_nan(**code)) {
                clear(part.elements, i * block..(i + 1) * block, self.quantize.format.element());
            }
        }
    }
}

/// Whole blocks of a tensor, and where their elements and scales go.
struct Part<'a> {
    src: &'a [u8],
    elements: &'a mut [u8],
    scales: &'a mut [u8],
    len: usize,
}

impl<'a> Part<'a> {
    /// Splits at an element that begins a part.
    fn split(self, at: usize, quantizer: &Quantizer<'_>) -> (Part<'a>, Part<'a>) {
        let format = quantizer.quantize.format;
        let (src, src_high) = self.src.split_at(byte_len_of(at, quantizer.from.info().bits as usize));
        let (elements, high) = self.elements.split_at_mut(byte_len_of(at, format.element().info().bits as usize));
        let (scales, scales_high) = self.scales.split_at_mut(at / format.block());
        let low = Part { src, elements, scales, len: at };
        (low, Part { src: src_high, elements: high, scales: scales_high, len: self.len - at })
    }
}

/// The greatest magnitudes of the blocks of at most a part, as bits of floats: NaN and infinity are above every number.
fn greatest<'a>(
    backend: Backend,
    from: DataType,
    src: &[u8],
    block: usize,
    most: &'a mut [[u8; 4]],
) -> impl Iterator<Item = u32> + use<'a> {
    let mut memory = [0; 4 * PART];
    let len = src.len() / (from.info().bits as usize / 8);
    let floats = floats(backend, from, src, &mut memory[..4 * len]);
    let most = &mut most[..len.div_ceil(block)];
    let scales = Scales { first: block, run: block, scales: &[], zero_points: None, range: [0.0; 2] };
    // SAFETY: a `Backend` exists only if this machine can run it.
    unsafe { (backend.table().scale.greatest)(floats, most.as_flattened_mut(), &scales) };
    most.iter().map(|bits| u32::from_le_bytes(*bits))
}

/// The greatest finite magnitude of a tensor.
fn greatest_finite(backend: Backend, from: DataType, src: &[u8]) -> f32 {
    let width = from.info().bits as usize / 8;
    let mut finite = 0f32;
    for src in src.chunks(PART * width) {
        // Where a part has NaN or infinity, its elements are asked one by one.
        for block in [PART, 1] {
            let mut most = [[0; 4]; PART];
            let mut is_finite = true;
            for value in greatest(backend, from, src, block, &mut most).map(f32::from_bits) {
                is_finite &= value.is_finite();
                finite = finite.max(if value.is_finite() { value } else { 0.0 });
            }
            if is_finite {
                break;
            }
        }
    }
    finite
}
