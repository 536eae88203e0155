//! Scaled casts: ONNX's QuantizeLinear and DequantizeLinear, resolved for their types, to run many times.

use crate::edge::{
    Failure, Span, apart, byte_len, give, known, read, reference, room, status, type_of, versioned, write,
};
use crate::options::{backend, opset, saturate, threads};
use onnx_cast::scaled::{DequantizeLinear, DequantizeOptions, QuantizeLinear, QuantizeOptions, ScaledPlan};
use onnx_cast::tensor::element_count;
use onnx_cast::{DataType, TensorView};
use std::ffi::{c_char, c_int, c_void};
use std::ptr;

/// How to quantize or dequantize. Start from ONNX_CAST_SCALED_OPTIONS_INIT, under which every field but size is 0 and
/// means its default; later versions may have more fields at the end. Where a function takes a pointer to options, null
/// means all defaults.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct onnx_cast_scaled_options {
    /// sizeof(onnx_cast_scaled_options): the library reads no further, and later fields count as 0.
    /// Fields that the library does not know must be 0.
    pub size: usize,
    /// The opset, which decides the operator's version; 0 for the newest that is known.
    pub opset: i64,
    /// The axis of a scale with one dimension, or of the blocks; negative from the end. Only read if axis_given is 1,
    /// and 0 otherwise.
    pub axis: i64,
    /// The elements of a block on the axis; 0 for no blocks.
    pub block_size: usize,
    /// 1 if axis holds the axis; 0 for the attribute's default, the axis 1.
    pub axis_given: i32,
    /// An onnx_cast_saturate; of QuantizeLinear alone.
    pub saturate: i32,
    /// The onnx_cast_type that quotients are rounded to: float, float16 or bfloat16. 0 for that of the scale, or float
    /// where that is float8e8m0 or int32. Of QuantizeLinear alone.
    pub precision: i32,
    /// The onnx_cast_type of the result. 0 is for QuantizeLinear that of the zero point, or uint8 without one; for
    /// DequantizeLinear that of the scale.
    pub output_type: i32,
    /// Threads at most: 1 for only the caller's, 0 for as many as the machine has. It never changes a result.
    pub threads: usize,
    /// The name of a backend, or null for the best of this machine; it never changes a result.
    pub backend: *const c_char,
}

versioned!(onnx_cast_scaled_options { threads });

impl Default for onnx_cast_scaled_options {
    fn default() -> Self {
        onnx_cast_scaled_options {
            size: size_of::<onnx_cast_scaled_options>(),
            opset: 0,
            axis: 0,
            block_size: 0,
            axis_given: 0,
            saturate: 0,
            precision: 0,
            output_type: 0,
            threads: 0,
            backend: ptr::null(),
        }
    }
}

/// A tensor to be read, whose element type the plan has. Start from ONNX_CAST_TENSOR_INIT, a single element without
/// memory; later versions may have more fields at the end.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct onnx_cast_tensor {
    /// sizeof(onnx_cast_tensor): the library reads no further, and later fields count as 0.
    /// Fields that the library does not know must be 0.
    pub size: usize,
    /// The elements: little endian, packed, of any alignment. May be null if there are none.
    pub data: *const c_void,
    /// The dimensions, outermost first. May be null if rank is 0.
    pub shape: *const usize,
    /// The number of dimensions; 0 for a single element.
    pub rank: usize,
}

versioned!(onnx_cast_tensor {});

impl Default for onnx_cast_tensor {
    fn default() -> Self {
        onnx_cast_tensor { size: size_of::<onnx_cast_tensor>(), data: ptr::null(), shape: ptr::null(), rank: 0 }
    }
}

/// QuantizeLinear or DequantizeLinear with its attributes, resolved for its types. It does not change, and any number
/// of threads may run it at once.
pub struct onnx_cast_scaled_plan(ScaledPlan);

/// The type of a number, or none for 0.
fn type_or_none(number: i32) -> Result<Option<DataType>, Failure> {
    if number == 0 { Ok(None) } else { type_of(number).map(Some) }
}

impl onnx_cast_scaled_options {
    /// The library's options, those of DequantizeLinear among them.
    ///
    /// # Safety
    /// The pointer is null, or as many bytes as the first field says are readable, and the backend's name is null or
    /// ends with a zero byte.
    unsafe fn resolve(pointer: *const onnx_cast_scaled_options) -> Result<QuantizeOptions, Failure> {
        if pointer.is_null() {
            return Ok(QuantizeOptions::new());
        }
        // SAFETY: promised.
        let given = unsafe { known(pointer, "options") }?;
        let axis = match (given.axis_given, given.axis) {
            (1, axis) => Some(axis),
            (0, 0) => None,
            (0, axis) => return Err(Failure::invalid(format_args!("axis is {axis} and axis_given 0 (want 1)"))),
            (other, _) => return Err(Failure::invalid(format_args!("axis_given is {other} (want 0 or 1)"))),
        };
        let types = (type_or_none(given.precision)?, type_or_none(given.output_type)?);
        // SAFETY: promised.
        let backend = unsafe { backend(given.backend) }?;
        Ok(QuantizeOptions::new()
            .opset(opset(given.opset))
            .axis(axis)
            .block_size(given.block_size)
            .saturate(saturate(given.saturate)?)
            .precision(types.0)
            .output_dtype(types.1)
            .backend(backend)
            .threads(threads(given.threads)))
    }
}

/// The options of a DequantizeLinear.
fn to_dequantize(options: &QuantizeOptions) -> Result<DequantizeOptions, Failure> {
    if options.saturate.is_some() || options.precision.is_some() {
        return Err(Failure::unsupported("DequantizeLinear has neither saturate nor precision"));
    }
    Ok(DequantizeOptions::new()
        .opset(options.opset)
        .axis(options.axis)
        .block_size(options.block_size)
        .output_dtype(options.output_dtype)
        .backend(options.backend)
        .threads(options.threads))
}

/// Resolves ONNX's QuantizeLinear for the types of its inputs: y = saturate(round(x / scale) + zero point).
///
/// x: the onnx_cast_type of the values.
/// scale: the onnx_cast_type of the scale.
/// zero_point: the onnx_cast_type of the zero point, which is that of the result too. 0 if there is none, or if its
/// type is output_type.
/// options: how to quantize, or null for the defaults. Nothing of it is used after the call.
/// plan: takes the plan, to be freed with onnx_cast_scaled_plan_free. Not written where the function fails.
///
/// # Safety
/// As the parameters say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onnx_cast_scaled_plan_quantize(
    x: i32,
    scale: i32,
    zero_point: i32,
    options: *const onnx_cast_scaled_options,
    plan: *mut *mut onnx_cast_scaled_plan,
) -> c_int {
    status(|| {
        let (x, scale, zero_point) = (type_of(x)?, type_of(scale)?, type_or_none(zero_point)?);
        // SAFETY: the caller's promise.
        let options = unsafe { onnx_cast_scaled_options::resolve(options) }?;
        let made = QuantizeLinear::new(&options)?.plan(x, scale, zero_point)?;
        // SAFETY: the caller's promise.
        unsafe { give(plan, "plan", || Box::into_raw(Box::new(onnx_cast_scaled_plan(made)))) }
    })
}

/// Resolves ONNX's DequantizeLinear for the types of its inputs: y = (x - zero point) * scale.
///
/// x: the onnx_cast_type of the quantized elements, which is that of a zero point too.
/// scale: the onnx_cast_type of the scale.
/// options: how to dequantize, or null for the defaults. Nothing of it is used after the call. A scale of float8e8m0
/// needs output_type.
/// plan: takes the plan, to be freed with onnx_cast_scaled_plan_free. Not written where the function fails.
///
/// # Safety
/// As the parameters say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onnx_cast_scaled_plan_dequantize(
    x: i32,
    scale: i32,
    options: *const onnx_cast_scaled_options,
    plan: *mut *mut onnx_cast_scaled_plan,
) -> c_int {
    status(|| {
        let (x, scale) = (type_of(x)?, type_of(scale)?);
        // SAFETY: the caller's promise.
        let options = to_dequantize(&unsafe { onnx_cast_scaled_options::resolve(options) }?)?;
        let made = DequantizeLinear::new(&options)?.plan(x, scale, None)?;
        // SAFETY: the caller's promise.
        unsafe { give(plan, "plan", || Box::into_raw(Box::new(onnx_cast_scaled_plan(made)))) }
    })
}

/// Frees a plan.
///
/// plan: one of the scaled plans of this library, which nothing uses any more, or null, which is nothing to free.
///
/// # Safety
/// As the parameters say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onnx_cast_scaled_plan_free(plan: *mut onnx_cast_scaled_plan) {
    if !plan.is_null() {
        // SAFETY: it is a box of one of the functions above, whose only owner the caller is.
        drop(unsafe { Box::from_raw(plan) });
    }
}

/// The type of a plan's result.
///
/// plan: one of the scaled plans of this library.
/// data_type: takes the onnx_cast_type.
///
/// # Safety
/// As the parameters say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onnx_cast_scaled_plan_output_type(
    plan: *const onnx_cast_scaled_plan,
    data_type: *mut i32,
) -> c_int {
    status(|| {
        // SAFETY: the caller's promise.
        unsafe {
            let target = reference(plan, "plan")?.0.target_type();
            give(data_type, "data_type", || target.onnx())
        }
    })
}

/// A tensor of a caller's, and the memory that it is in.
pub(crate) struct Operand<'a> {
    pub(crate) view: TensorView<'a>,
    pub(crate) spans: [Span<'static>; 2],
}

/// The tensor that a pointer leads to. Always inlined: returned through memory, it took an eighth of a call with 16
/// elements.
///
/// `names` has those of the pointer, of its data and of its shape.
///
/// # Safety
/// The pointer is null, or leads to a tensor whose shape and elements can be read for as long as the operand is used.
#[inline(always)]
pub(crate) unsafe fn operand<'a>(
    tensor: *const onnx_cast_tensor,
    data_type: DataType,
    names: [&'static str; 3],
) -> Result<Operand<'a>, Failure> {
    let [name, data_name, shape_name] = names;
    // SAFETY: promised.
    let onnx_cast_tensor { size: _, data, shape, rank } = unsafe { known(tensor, name) }?;
    // SAFETY: promised.
    let dims = unsafe { read(shape, rank, shape_name) }?;
    let count = element_count(dims).ok_or_else(|| too_large(name))?;
    let bytes = byte_len(data_type, count)?;
    // SAFETY: promised.
    let elements = unsafe { read(data.cast::<u8>(), bytes, data_name) }?;
    let spans = [Span::new(data_name, data, bytes), Span::new(shape_name, shape, size_of_val(dims))];
    // SAFETY: the shape has so many elements.
    let view = unsafe { TensorView::of_counted(data_type, dims, count, elements) }?;
    Ok(Operand { view, spans })
}

#[cold]
fn too_large(name: &str) -> Failure {
    Failure::overflow(format_args!("the elements of {name} do not fit in memory"))
}

/// Runs a plan. Allocates nothing and takes no lock, but where a large tensor is handed to other threads.
///
/// The scale has no dimension or one element, for the tensor; or one dimension of the size of the axis; or, with a
/// block_size, the dimensions of x with an element for each block on the axis, of which the last may be short.
///
/// plan: one of the scaled plans of this library.
/// x: the input.
/// scale: the scale.
/// zero_point: the zero point, of the shape of the scale, or null for 0. That of int32 or of a float type must be 0.
/// dst: takes as many elements as x has of the plan's output type, packed, the padding of the last byte 0. No part of
/// the elements and shapes that are read.
/// dst_bytes: the bytes that dst has room for: as many as onnx_cast_byte_size says, or more, which stay as they are.
///
/// # Safety
/// As the parameters say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onnx_cast_scaled_plan_run(
    plan: *const onnx_cast_scaled_plan,
    x: *const onnx_cast_tensor,
    scale: *const onnx_cast_tensor,
    zero_point: *const onnx_cast_tensor,
    dst: *mut c_void,
    dst_bytes: usize,
) -> c_int {
    status(|| {
        // SAFETY: the caller's promise.
        let plan = unsafe { &reference(plan, "plan")?.0 };
        // SAFETY: the caller's promise.
        let (x, scale) = unsafe {
            (
                operand(x, plan.source_type(), ["x", "x->data", "x->shape"])?,
                operand(scale, plan.scale_type(), ["scale", "scale->data", "scale->shape"])?,
            )
        };
        let bytes = byte_len(plan.target_type(), x.view.len())?;
        room("dst", dst_bytes, bytes)?;
        let written = Span::new("dst", dst, bytes);
        apart(written, &x.spans)?;
        apart(written, &scale.spans)?;
        // Two calls: a zero point that may be there is an option in memory.
        if zero_point.is_null() {
            // SAFETY: the caller's promise, and it overlaps with nothing that is read.
            let out = unsafe { write(dst.cast::<u8>(), bytes, "dst") }?;
            return Ok(plan.run_into_uninit(&x.view, &scale.view, None, out).map(drop)?);
        }
        let names = ["zero_point", "zero_point->data", "zero_point->shape"];
        // SAFETY: the caller's promise.
        let zero_point = unsafe { operand(zero_point, plan.quantized_type(), names) }?;
        apart(written, &zero_point.spans)?;
        // SAFETY: as above.
        let out = unsafe { write(dst.cast::<u8>(), bytes, "dst") }?;
        Ok(plan.run_into_uninit(&x.view, &scale.view, Some(&zero_point.view), out).map(drop)?)
    })
}
