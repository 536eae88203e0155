//! Block formats: MX and NVFP4, whose scales are found from the elements.

use crate::edge::{
    Failure, Span, apart, byte_len, check_pointer, give, known, read, room, status, type_of, versioned, write,
};
use crate::options::{backend, threads};
use crate::scaled::{Operand, onnx_cast_tensor, operand};
use onnx_cast::backend::Backend;
use onnx_cast::scaled::{BlockDequantize, BlockFormat, BlockQuantize, Recipe, ScaleRule};
use std::ffi::{c_char, c_int, c_void};
use std::ptr;

/// The block formats: elements in blocks along the last axis, each block with a scale of one byte. The last block of an
/// axis may be short.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum onnx_cast_block_format {
    /// 32 elements of float8e4m3fn, and a float8e8m0.
    ONNX_CAST_MXFP8 = 1,
    /// 32 elements of float8e5m2, and a float8e8m0.
    ONNX_CAST_MXFP8E5M2 = 2,
    /// 32 elements of float6e2m3, and a float8e8m0.
    ONNX_CAST_MXFP6E2M3 = 3,
    /// 32 elements of float6e3m2, and a float8e8m0.
    ONNX_CAST_MXFP6E3M2 = 4,
    /// 32 elements of float4e2m1, and a float8e8m0.
    ONNX_CAST_MXFP4 = 5,
    /// 32 elements of int8, which count 64ths, and a float8e8m0.
    ONNX_CAST_MXINT8 = 6,
    /// 16 elements of float4e2m1, and a float8e4m3fn; the tensor has a float too.
    ONNX_CAST_NVFP4 = 7,
}

/// How the greatest magnitude A of a block gives the power of two that is its scale in MX. emax is the exponent of the
/// element's largest value, max.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum onnx_cast_scale_rule {
    /// floor(log2 A) - emax, as the OCP text says.
    ONNX_CAST_RULE_FLOOR = 0,
    /// ceil(log2(A / max)).
    ONNX_CAST_RULE_RCEIL = 1,
    /// ceil(log2 A) - emax.
    ONNX_CAST_RULE_CEIL = 2,
    /// floor(log2 A) - emax, after A is rounded half up to the element's significand.
    ONNX_CAST_RULE_EVEN = 3,
}

/// Whose arithmetic gives the scales of NVFP4.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum onnx_cast_recipe {
    /// ModelOpt's: the scale of the tensor is a factor.
    ONNX_CAST_RECIPE_MODELOPT = 0,
    /// torchao's: likewise, with other roundings.
    ONNX_CAST_RECIPE_TORCHAO = 1,
    /// compressed-tensors': the scale of the tensor is a divisor.
    ONNX_CAST_RECIPE_COMPRESSED_TENSORS = 2,
}

/// How to quantize to a block format or dequantize from one. Start from ONNX_CAST_BLOCK_OPTIONS_INIT, under which every
/// field but size is 0 and means its default; later versions may have more fields at the end. Where a function takes a
/// pointer to options, null means all defaults.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct onnx_cast_block_options {
    /// sizeof(onnx_cast_block_options): the library reads no further, and later fields count as 0.
    /// Fields that the library does not know must be 0.
    pub size: usize,
    /// An onnx_cast_scale_rule, for quantizing to MX.
    pub rule: i32,
    /// An onnx_cast_recipe, for NVFP4.
    pub recipe: i32,
    /// Threads at most: 1 for only the caller's, 0 for as many as the machine has. It never changes a result.
    pub threads: usize,
    /// The name of a backend, or null for the best of this machine; it never changes a result.
    pub backend: *const c_char,
}

versioned!(onnx_cast_block_options { threads });

impl Default for onnx_cast_block_options {
    fn default() -> Self {
        let size = size_of::<onnx_cast_block_options>();
        onnx_cast_block_options { size, rule: 0, recipe: 0, threads: 0, backend: ptr::null() }
    }
}

/// The library's options.
struct Options {
    rule: ScaleRule,
    recipe: Recipe,
    threads: Option<usize>,
    backend: Option<Backend>,
}

impl onnx_cast_block_options {
    /// # Safety
    /// The pointer is null, or as many bytes as the first field says are readable, and the backend's name is null or
    /// ends with a zero byte.
    unsafe fn resolve(pointer: *const onnx_cast_block_options) -> Result<Options, Failure> {
        let given = if pointer.is_null() {
            onnx_cast_block_options::default()
        } else {
            // SAFETY: promised.
            unsafe { known(pointer, "options") }?
        };
        let rule = match given.rule {
            0 => ScaleRule::Floor,
            1 => ScaleRule::Rceil,
            2 => ScaleRule::Ceil,
            3 => ScaleRule::Even,
            other => return Err(Failure::invalid(format_args!("rule is {other} (want 0, 1, 2 or 3)"))),
        };
        let recipe = match given.recipe {
            0 => Recipe::ModelOpt,
            1 => Recipe::TorchAo,
            2 => Recipe::CompressedTensors,
            other => return Err(Failure::invalid(format_args!("recipe is {other} (want 0, 1 or 2)"))),
        };
        // SAFETY: promised.
        let backend = unsafe { backend(given.backend) }?;
        Ok(Options { rule, recipe, threads: threads(given.threads), backend })
    }
}

/// The format of a number.
fn format_of(number: i32) -> Result<BlockFormat, Failure> {
    Ok(match number {
        1 => BlockFormat::MxFp8,
        2 => BlockFormat::MxFp8E5M2,
        3 => BlockFormat::MxFp6E2M3,
        4 => BlockFormat::MxFp6E3M2,
        5 => BlockFormat::MxFp4,
        6 => BlockFormat::MxInt8,
        7 => BlockFormat::NvFp4,
        other => return Err(Failure::invalid(format_args!("{other} is not a block format (want 1 to 7)"))),
    })
}

/// Bytes of a tensor's scales.
fn scale_bytes(format: BlockFormat, shape: &[usize]) -> Result<usize, Failure> {
    let count = format.scale_count(shape);
    count.ok_or_else(|| Failure::overflow(format_args!("the scales of shape {shape:?} do not fit in memory")))
}

/// How many bytes a tensor's elements and scales take in a block format.
///
/// format: an onnx_cast_block_format.
/// shape, rank: the dimensions of the tensor; shape may be null if rank is 0.
/// element_bytes: takes the number of bytes of the elements, packed.
/// scales: takes the number of scales, of one byte each: those of the blocks of a row follow each other, row by row.
///
/// # Safety
/// As the parameters say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onnx_cast_block_sizes(
    format: i32,
    shape: *const usize,
    rank: usize,
    element_bytes: *mut usize,
    scales: *mut usize,
) -> c_int {
    status(|| {
        let format = format_of(format)?;
        // SAFETY: the caller's promise.
        let shape = unsafe { read(shape, rank, "shape") }?;
        let too_large = || Failure::overflow(format_args!("the elements of shape {shape:?} do not fit in memory"));
        let bytes = byte_len(format.element(), onnx_cast::tensor::element_count(shape).ok_or_else(too_large)?)?;
        let count = scale_bytes(format, shape)?;
        check_pointer(scales, 1, "scales")?;
        // SAFETY: the caller's promise.
        unsafe {
            give(element_bytes, "element_bytes", || bytes)?;
            give(scales, "scales", || count)
        }
    })
}

/// Quantizes a tensor to a block format. A block with NaN or infinity has the scale NaN and elements of 0. Allocates
/// only where the last axis is not a multiple of a block, and where a large tensor is handed to other threads.
///
/// format: an onnx_cast_block_format.
/// from: the onnx_cast_type of x: float, float16 or bfloat16.
/// x: the input.
/// elements: takes the elements, packed. No part of x, nor of scales.
/// element_bytes: the bytes that elements has room for: as many as onnx_cast_block_sizes says, or more.
/// scales: takes the scales. No part of x.
/// scale_bytes: the bytes that scales has room for: as many as onnx_cast_block_sizes says, or more.
/// global_scale: takes the scale of the tensor, which is 1 for MX; may be null for MX.
/// options: how to quantize, or null for the defaults.
///
/// # Safety
/// As the parameters say.
#[unsafe(no_mangle)]
#[allow(clippy::too_many_arguments, reason = "a buffer of C's is a pointer and a size")]
pub unsafe extern "C" fn onnx_cast_block_quantize(
    format: i32,
    from: i32,
    x: *const onnx_cast_tensor,
    elements: *mut c_void,
    element_bytes: usize,
    scales: *mut c_void,
    scale_bytes: usize,
    global_scale: *mut f32,
    options: *const onnx_cast_block_options,
) -> c_int {
    status(|| {
        let (format, from) = (format_of(format)?, type_of(from)?);
        // SAFETY: the caller's promise.
        let (options, x) =
            unsafe { (onnx_cast_block_options::resolve(options)?, operand(x, from, ["x", "x->data", "x->shape"])?) };
        let wants_global = format == BlockFormat::NvFp4 || !global_scale.is_null();
        let global = Span::new("global_scale", global_scale, if wants_global { size_of::<f32>() } else { 0 });
        let sizes = [byte_len(format.element(), x.view.len())?, self::scale_bytes(format, x.view.shape())?];
        room("elements", element_bytes, sizes[0])?;
        room("scales", scale_bytes, sizes[1])?;
        let written = [Span::new("elements", elements, sizes[0]), Span::new("scales", scales, sizes[1])];
        for span in written.into_iter().chain([global]) {
            apart(span, &x.spans)?;
        }
        apart(written[0], &[written[1], global])?;
        apart(written[1], &[global])?;
        check_pointer(global_scale, usize::from(wants_global), "global_scale")?;
        // SAFETY: the caller's promise, and they overlap with nothing.
        let (elements, scales) = unsafe {
            (write(elements.cast::<u8>(), sizes[0], "elements")?, write(scales.cast::<u8>(), sizes[1], "scales")?)
        };
        format.check_options(options.rule, options.recipe)?;
        let quantize = BlockQuantize::new(format).rule(options.rule).recipe(options.recipe);
        let quantize = quantize.backend(options.backend).threads(options.threads);
        let (_, _, found) = quantize.run_into_uninit(&x.view, elements, scales)?;
        if wants_global {
            // SAFETY: the caller's promise.
            unsafe { give(global_scale, "global_scale", || found.unwrap_or(1.0)) }?;
        }
        Ok(())
    })
}

/// Gives the values of a tensor in a block format: elements times scales, rounded to float, and then to the type.
/// Allocates nothing, but where a large tensor is handed to other threads.
///
/// format: an onnx_cast_block_format.
/// elements: the elements and the shape of the tensor.
/// scales: as many bytes as onnx_cast_block_sizes says. May be null if there are none.
/// global_scale: of NVFP4 the scale of the tensor, whose recipe options name; not used for MX.
/// to: the onnx_cast_type of the result: float, float16 or bfloat16.
/// dst: takes as many elements as the tensor has. No part of what is read.
/// dst_bytes: the bytes that dst has room for: as many as onnx_cast_byte_size says, or more, which stay as they are.
/// options: how to dequantize, or null for the defaults; its rule is not used.
///
/// # Safety
/// As the parameters say.
#[unsafe(no_mangle)]
#[allow(clippy::too_many_arguments, reason = "a buffer of C's is a pointer and a size")]
pub unsafe extern "C" fn onnx_cast_block_dequantize(
    format: i32,
    elements: *const onnx_cast_tensor,
    scales: *const c_void,
    global_scale: f32,
    to: i32,
    dst: *mut c_void,
    dst_bytes: usize,
    options: *const onnx_cast_block_options,
) -> c_int {
    status(|| {
        let (format, to) = (format_of(format)?, type_of(to)?);
        let names = ["elements", "elements->data", "elements->shape"];
        // SAFETY: the caller's promise.
        let (options, elements) =
            unsafe { (onnx_cast_block_options::resolve(options)?, operand(elements, format.element(), names)?) };
        let Operand { view, spans } = elements;
        let count = scale_bytes(format, view.shape())?;
        // SAFETY: the caller's promise.
        let scales = unsafe { read(scales.cast::<u8>(), count, "scales") }?;
        let bytes = byte_len(to, view.len())?;
        room("dst", dst_bytes, bytes)?;
        let [data, shape] = spans;
        apart(Span::new("dst", dst, bytes), &[data, shape, Span::new("scales", scales.as_ptr(), count)])?;
        // SAFETY: the caller's promise, and it overlaps with nothing that is read.
        let dst = unsafe { write(dst.cast::<u8>(), bytes, "dst") }?;
        // Any rule: options may be those that the tensor was quantized with.
        format.check_options(ScaleRule::default(), options.recipe)?;
        let dequantize = BlockDequantize::new(format, to).recipe(options.recipe);
        let dequantize = dequantize.backend(options.backend).threads(options.threads);
        Ok(dequantize.run_into_uninit(&view, scales, Some(global_scale), dst).map(drop)?)
    })
}
