//! The operators as onnxruntime sees them: names, inputs, outputs, and what becomes of types and shapes.

use crate::abi::{
    API_VERSION, CustomOp, Domain, KernelInfo, SessionOptions, ShapeContext, StatusPointer, Table, value,
};
use crate::api::{Api, Failure, wrong_kind};
use crate::kernel::{Kernel, compute};
use crate::types::{number_of, type_of};
use onnx_cast::DataType;
use onnx_cast::ops::Operator;
use onnx_cast::ops::Role;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicPtr, Ordering};

/// The domain of the operators. Their names differ from ONNX's, because onnxruntime simplifies any two consecutive
/// nodes named Cast, whatever their domain, and so can drop a rounding.
const DOMAIN: &CStr = c"onnx-cast";

/// An operator for some types; onnxruntime hands the address of the first field back.
#[repr(C)]
struct Described {
    op: CustomOp,
    operator: Operator,
    /// onnxruntime's numbers of the types of the inputs, as many as the operator has.
    inputs: [c_int; 3],
    output: c_int,
}

/// The operators for all types of an onnxruntime. An operator that declares "any type" only accepts the types of an
/// older list, so each type is declared.
fn operators(newest_number: c_int) -> Vec<Described> {
    let types: Vec<_> = (1..=newest_number).filter_map(|number| Some((number, type_of(number)?))).collect();
    let mut all = Vec::new();
    for operator in Operator::CASTS.iter().copied() {
        let taken = || types.iter().filter(|(_, data_type)| operator.since(*data_type).is_some());
        for ((from, from_type), (to, to_type)) in taken().flat_map(|from| taken().map(move |to| (from, to))) {
            if operator != Operator::BitCast || from_type.bits() == to_type.bits() {
                let like = if operator == Operator::CastLike { *to } else { value::ANY_TYPE };
                all.push(described(operator, [*from, like, value::ANY_TYPE], *to));
            }
        }
    }
    for operator in [Operator::QuantizeLinear, Operator::DequantizeLinear] {
        let of = |role| types.iter().filter(move |(_, data_type)| operator.since_as(role, *data_type).is_some());
        for ((values, _), (quantized, _)) in of(Role::Values).flat_map(|x| of(Role::Quantized).map(move |y| (x, y))) {
            let is_quantize = operator == Operator::QuantizeLinear;
            let (x, y) = if is_quantize { (values, quantized) } else { (quantized, values) };
            all.extend(of(Role::Scale).map(|(scale, _)| described(operator, [*x, *scale, *quantized], *y)));
        }
    }
    all
}

fn described(operator: Operator, inputs: [c_int; 3], output: c_int) -> Described {
    let op = CustomOp {
        version: API_VERSION,
        CreateKernel: None,
        GetName: name_of,
        GetExecutionProviderType: on_the_processor,
        GetInputType: input_of,
        GetInputTypeCount: inputs_of,
        GetOutputType: output_of,
        GetOutputTypeCount: one_output,
        KernelCompute: None,
        KernelDestroy: destroy,
        GetInputCharacteristic: input_kind,
        GetOutputCharacteristic: required,
        GetInputMemoryType: default_memory,
        GetVariadicInputMinArity: None,
        GetVariadicInputHomogeneity: None,
        GetVariadicOutputMinArity: None,
        GetVariadicOutputHomogeneity: None,
        CreateKernelV2: create,
        KernelComputeV2: compute,
        InferOutputShapeFn: infer,
        GetStartVersion: first_version,
        GetEndVersion: last_version,
    };
    Described { op, operator, inputs, output }
}

/// # Safety
/// The pointer is to the first field of a [`Described`] that is there for ever.
unsafe fn of_op(op: *const CustomOp) -> &'static Described {
    // SAFETY: promised.
    unsafe { &*op.cast::<Described>() }
}

unsafe extern "system" fn name_of(op: *const CustomOp) -> *const c_char {
    // SAFETY: onnxruntime gives the pointer that it was given.
    match unsafe { of_op(op) }.operator {
        Operator::Cast => c"ExactCast",
        Operator::CastLike => c"ExactCastLike",
        Operator::BitCast => c"ExactBitCast",
        Operator::QuantizeLinear => c"ExactQuantizeLinear",
        Operator::DequantizeLinear => c"ExactDequantizeLinear",
        // Only the operators above are registered.
        _ => c"",
    }
    .as_ptr()
}

unsafe extern "system" fn inputs_of(op: *const CustomOp) -> usize {
    // SAFETY: as above.
    match unsafe { of_op(op) }.operator {
        Operator::QuantizeLinear | Operator::DequantizeLinear => 3,
        Operator::CastLike => 2,
        _ => 1,
    }
}

unsafe extern "system" fn on_the_processor(_: *const CustomOp) -> *const c_char {
    c"CPUExecutionProvider".as_ptr()
}

unsafe extern "system" fn input_of(op: *const CustomOp, index: usize) -> c_int {
    // SAFETY: as above.
    unsafe { of_op(op) }.inputs.get(index).copied().unwrap_or(value::ANY_TYPE)
}

unsafe extern "system" fn output_of(op: *const CustomOp, _: usize) -> c_int {
    // SAFETY: as above.
    unsafe { of_op(op) }.output
}

unsafe extern "system" fn one_output(_: *const CustomOp) -> usize {
    1
}

unsafe extern "system" fn required(_: *const CustomOp, _: usize) -> c_int {
    value::REQUIRED
}

unsafe extern "system" fn input_kind(_: *const CustomOp, index: usize) -> c_int {
    // Of a scaled cast the zero point.
    if index == 2 { value::OPTIONAL } else { value::REQUIRED }
}

unsafe extern "system" fn default_memory(_: *const CustomOp, _: usize) -> c_int {
    value::DEFAULT_MEMORY
}

unsafe extern "system" fn first_version(_: *const CustomOp) -> c_int {
    1
}

unsafe extern "system" fn last_version(_: *const CustomOp) -> c_int {
    c_int::MAX
}

/// The table that the last registration was done with: telling types is done without one being handed over.
static TABLE: AtomicPtr<Table> = AtomicPtr::new(ptr::null_mut());

/// The domain of each onnxruntime in the process, by the address of its table. Sessions refer to it until they are
/// released.
static DOMAINS: Mutex<Vec<(usize, usize)>> = Mutex::new(Vec::new());

/// Adds the operators to the options of a session.
///
/// # Safety
/// The pointers are onnxruntime's.
pub(crate) unsafe fn register(api: Api, newest_number: c_int, options: *mut SessionOptions) -> Result<(), Failure> {
    TABLE.store(api.table().cast_mut(), Ordering::Release);
    let mut domains = DOMAINS.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let known = domains.iter().find(|row| row.0 == api.table().addr()).map(|row| row.1 as *mut Domain);
    let domain = match known {
        Some(domain) => domain,
        None => {
            // SAFETY: promised.
            let domain = unsafe { make_domain(api, newest_number) }?;
            domains.push((api.table().addr(), domain as usize));
            domain
        }
    };
    // SAFETY: promised; the domain is there for ever.
    api.check(unsafe { api.AddCustomOpDomain(options, domain) })
}

/// # Safety
/// As `register`.
unsafe fn make_domain(api: Api, newest_number: c_int) -> Result<*mut Domain, Failure> {
    let operators: &'static [Described] = operators(newest_number).leak();
    let mut domain = ptr::null_mut();
    // SAFETY: the name ends with a zero; the operators are there for ever.
    unsafe {
        api.check(api.CreateCustomOpDomain(DOMAIN.as_ptr(), &mut domain))?;
        for described in operators {
            if let Err(failure) = api.check(api.CustomOpDomain_Add(domain, ptr::from_ref(described).cast())) {
                api.ReleaseCustomOpDomain(domain);
                return Err(failure);
            }
        }
    }
    Ok(domain)
}

unsafe extern "system" fn create(
    op: *const CustomOp,
    table: *const Table,
    info: *const KernelInfo,
    kernel: *mut *mut c_void,
) -> StatusPointer {
    // SAFETY: onnxruntime's promise.
    unsafe {
        let api = Api::of_table(table);
        api.status(|| {
            let made = Kernel::new(api, of_op(op).operator, info)?;
            kernel.write(Box::into_raw(Box::new(made)).cast());
            Ok(())
        })
    }
}

unsafe extern "system" fn destroy(kernel: *mut c_void) {
    if !kernel.is_null() {
        // SAFETY: from `create`, and destroyed once.
        drop(unsafe { Box::from_raw(kernel.cast::<Kernel>()) });
    }
}

/// Tells the type and the shape of the output.
unsafe extern "system" fn infer(op: *const CustomOp, context: *mut ShapeContext) -> StatusPointer {
    // SAFETY: onnxruntime asks after `register`.
    unsafe {
        let api = Api::of_table(TABLE.load(Ordering::Acquire));
        api.status(|| {
            let to = match of_op(op).operator {
                Operator::CastLike => input_type(api, context, 1)?,
                Operator::QuantizeLinear => match (input_type(api, context, 2), target(api, context, c"output_dtype")?)
                {
                    (Ok(zero_point), _) => zero_point,
                    // The zero point was left out.
                    (Err(_), output) => output.unwrap_or(DataType::Uint8),
                },
                Operator::DequantizeLinear => match target(api, context, c"output_dtype")? {
                    Some(output) => output,
                    None => input_type(api, context, 1)?,
                },
                _ => target(api, context, c"to")?.ok_or_else(|| Failure::node("attribute `to` is missing"))?,
            };
            set_output(api, context, to)
        })
    }
}

/// # Safety
/// The pointer is onnxruntime's.
unsafe fn input_type(api: Api, context: *mut ShapeContext, index: usize) -> Result<DataType, Failure> {
    let mut info = ptr::null_mut();
    // SAFETY: promised. What is known of an input stays the context's.
    unsafe {
        api.check(api.ShapeInferContext_GetInputTypeShape(context, index, &mut info))?;
        Ok(api.type_and_dims(info)?.0)
    }
}

/// The type that an attribute gives the number of; `None` if missing or 0.
///
/// # Safety
/// The pointer is onnxruntime's.
unsafe fn target(api: Api, context: *mut ShapeContext, name: &CStr) -> Result<Option<DataType>, Failure> {
    let (mut attribute, mut number, mut size) = (ptr::null(), 0i64, 0);
    // SAFETY: promised; there is room for an integer.
    unsafe {
        if api.check(api.ShapeInferContext_GetAttribute(context, name.as_ptr(), &mut attribute)).is_err() {
            return Ok(None);
        }
        let room = (&raw mut number).cast();
        let read = api.check(api.ReadOpAttr(attribute, value::INT, room, size_of::<i64>(), &mut size));
        read.map_err(|_| wrong_kind(name, "INT"))?;
    }
    let name = name.to_string_lossy();
    let unknown = || Failure::node(format_args!("`{name}` is {number}, which is not an element type"));
    if number == 0 { Ok(None) } else { DataType::from_onnx(number).map(Some).ok_or_else(unknown) }
}

/// The output has the first input's shape, as far as that is known.
///
/// # Safety
/// The pointer is onnxruntime's.
unsafe fn set_output(api: Api, context: *mut ShapeContext, to: DataType) -> Result<(), Failure> {
    let number = number_of(to).ok_or_else(|| Failure::node(format_args!("onnxruntime has no tensors of {to}")))?;
    let (mut input, mut output) = (ptr::null_mut(), ptr::null_mut());
    // SAFETY: promised. What is known of an input stays the context's; what is made is released.
    unsafe {
        api.check(api.ShapeInferContext_GetInputTypeShape(context, 0, &mut input))?;
        let (_, dims) = api.type_and_dims(input)?;
        let mut names = vec![ptr::null::<c_char>(); dims.len()];
        api.check(api.GetSymbolicDimensions(input, names.as_mut_ptr(), names.len()))?;
        api.check(api.CreateTensorTypeAndShapeInfo(&mut output))?;
        let told = api
            .check(api.SetTensorElementType(output, number))
            .and_then(|()| api.check(api.SetDimensions(output, dims.as_ptr(), dims.len())))
            .and_then(|()| api.check(api.SetSymbolicDimensions(output, names.as_mut_ptr(), names.len())))
            .and_then(|()| api.check(api.ShapeInferContext_SetOutputTypeShape(context, 0, output)));
        api.ReleaseTensorTypeAndShapeInfo(output);
        told
    }
}
