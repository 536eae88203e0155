//! A node's operator: its attributes, read once, and a cast from onnxruntime's input to its output.

use crate::abi::{KernelContext, KernelInfo, StatusPointer, Value};
use crate::api::{Api, Failure};
use crate::tensors::sizes;
use onnx_cast::ops::{Attribute, AttributeValue};
use onnx_cast::ops::{OpError, OpErrorKind, Operator};
use onnx_cast::scaled::{DequantizeLinear, QuantizeLinear};
use onnx_cast::tensor::Strings;
use onnx_cast::{BitCast, Cast, CastLike, CastOptions, DataType, NEWEST_OPSET, Plan, TensorView};
use std::ffi::{CString, c_void};
use std::ptr;

/// A node.
pub(crate) struct Kernel {
    api: Api,
    which: Which,
}

enum Which {
    Cast(Cast),
    CastLike(CastLike),
    BitCast(BitCast),
    Quantize(QuantizeLinear),
    Dequantize(DequantizeLinear),
}

/// An input of a scaled cast.
struct Operand {
    value: *const Value,
    data_type: DataType,
    shape: Vec<usize>,
}

impl Kernel {
    /// The node's operator, at the opset of ONNX that its attribute `opset` names, the newest where it has none.
    ///
    /// # Safety
    /// The pointer is onnxruntime's.
    pub(crate) unsafe fn new(api: Api, operator: Operator, info: *const KernelInfo) -> Result<Kernel, Failure> {
        // SAFETY: promised.
        let (opset, to, saturate, round_mode) = unsafe {
            (
                api.int(info, c"opset")?,
                api.int(info, c"to")?,
                api.int(info, c"saturate")?,
                api.text(info, c"round_mode")?,
            )
        };
        let opset = opset.unwrap_or(NEWEST_OPSET);
        let to = || {
            let number = to.ok_or_else(|| Failure::node("attribute `to` is missing"))?;
            let unknown = || OpError::from(OpErrorKind::TypeNumber { operator, number });
            Ok::<_, Failure>(DataType::from_onnx(number).ok_or_else(unknown)?)
        };
        let saturate = saturate.map(|value| value != 0);
        let round_mode = round_mode.map(|word| word.parse()).transpose().map_err(OpError::from)?;
        let options = CastOptions::new().opset(opset).saturate(saturate).round_mode(round_mode);
        let which = match operator {
            Operator::Cast => Which::Cast(Cast::new(to()?, &options)?),
            Operator::CastLike => Which::CastLike(CastLike::new(&options)?),
            Operator::BitCast => Which::BitCast(BitCast::new(to()?, opset)?),
            Operator::QuantizeLinear => {
                // SAFETY: promised.
                let attributes = unsafe { ints(api, operator, info) }?;
                Which::Quantize(QuantizeLinear::from_node(opset, &attributes)?)
            }
            Operator::DequantizeLinear => {
                // SAFETY: promised.
                let attributes = unsafe { ints(api, operator, info) }?;
                Which::Dequantize(DequantizeLinear::from_node(opset, &attributes)?)
            }
            _ => return Err(Failure::node("an operator that is unknown")),
        };
        Ok(Kernel { api, which })
    }

    /// # Safety
    /// The pointer is onnxruntime's.
    unsafe fn run(&self, context: *mut KernelContext) -> Result<(), Failure> {
        let api = self.api;
        // SAFETY: promised: the inputs are there until the kernel has run.
        unsafe {
            let input = self.input(context, 0)?;
            let (from, dims) = api.of_value(input)?;
            let plan = match &self.which {
                Which::Cast(cast) => cast.plan(from)?,
                Which::CastLike(cast) => cast.plan(from, api.of_value(self.input(context, 1)?)?.0)?,
                Which::BitCast(cast) => cast.plan(from)?,
                Which::Quantize(_) | Which::Dequantize(_) => return self.run_scaled(context),
            };
            let to = plan.target_type();
            let output = self.output(context, &dims, to)?;
            let shape = sizes(&dims)?;
            match (from, to) {
                (DataType::String, DataType::String) => self.api.fill(output, &self.api.strings(input, &shape)?),
                (DataType::String, _) => {
                    let strings = self.api.strings(input, &shape)?;
                    let bytes = self.api.bytes(output, to, &shape)?;
                    Ok(plan.run_into_uninit(&TensorView::strings(&shape, strings.view())?, bytes).map(drop)?)
                }
                (_, DataType::String) => {
                    let mut strings = Strings::new();
                    plan.run_strings_into(&self.api.view(input, from, &shape)?, &mut strings)?;
                    self.api.fill(output, &strings)
                }
                _ => self.cast(&plan, input, output, &shape),
            }
        }
    }

    /// # Safety
    /// The pointer is onnxruntime's.
    unsafe fn run_scaled(&self, context: *mut KernelContext) -> Result<(), Failure> {
        // SAFETY: promised: the inputs are there until the kernel has run.
        unsafe {
            let (x, scale) = (self.operand(context, 0)?, self.operand(context, 1)?);
            let (Some(x), Some(scale)) = (x, scale) else { return Err(Failure::run("an input is missing")) };
            let zero_point = self.operand(context, 2)?;
            let zero_type = zero_point.as_ref().map(|operand| operand.data_type);
            let plan = match &self.which {
                Which::Quantize(quantize) => quantize.plan(x.data_type, scale.data_type, zero_type)?,
                Which::Dequantize(dequantize) => dequantize.plan(x.data_type, scale.data_type, zero_type)?,
                _ => return Err(Failure::run("not a scaled cast")),
            };
            let dims: Vec<_> = x.shape.iter().map(|&size| size as i64).collect();
            let output = self.output(context, &dims, plan.target_type())?;
            let bytes = self.api.bytes(output, plan.target_type(), &x.shape)?;
            let (x, scale) = (self.operand_view(&x)?, self.operand_view(&scale)?);
            let zero_point = zero_point.as_ref().map(|operand| self.operand_view(operand)).transpose()?;
            Ok(plan.run_into_uninit(&x, &scale, zero_point.as_ref(), bytes).map(drop)?)
        }
    }

    /// # Safety
    /// As `run`, of whose values the operand is.
    unsafe fn operand_view<'a>(&self, operand: &'a Operand) -> Result<TensorView<'a>, Failure> {
        // SAFETY: promised.
        unsafe { self.api.view(operand.value, operand.data_type, &operand.shape) }
    }

    /// An input of a scaled cast; `None` where it is missing.
    ///
    /// # Safety
    /// As `run`.
    unsafe fn operand(&self, context: *mut KernelContext, index: usize) -> Result<Option<Operand>, Failure> {
        // SAFETY: promised.
        unsafe {
            let value = self.input(context, index)?;
            if value.is_null() {
                return Ok(None);
            }
            let (data_type, dims) = self.api.of_value(value)?;
            Ok(Some(Operand { value, data_type, shape: sizes(&dims)? }))
        }
    }

    /// The output, which is of a type.
    ///
    /// # Safety
    /// As `run`.
    unsafe fn output(&self, context: *mut KernelContext, dims: &[i64], want: DataType) -> Result<*mut Value, Failure> {
        let mut output = ptr::null_mut();
        // SAFETY: promised.
        let (got, _) = unsafe {
            self.api.check(self.api.KernelContext_GetOutput(context, 0, dims.as_ptr(), dims.len(), &mut output))?;
            self.api.of_value(output)?
        };
        if got == want {
            return Ok(output);
        }
        Err(Failure::run(format_args!("an output of {got} for a cast to {want}")))
    }

    /// # Safety
    /// As `run`, of whose values these are.
    unsafe fn cast(
        &self,
        plan: &Plan,
        input: *const Value,
        output: *mut Value,
        shape: &[usize],
    ) -> Result<(), Failure> {
        // SAFETY: promised.
        unsafe {
            let view = self.api.view(input, plan.source_type(), shape)?;
            let bytes = self.api.bytes(output, plan.target_type(), shape)?;
            Ok(plan.run_into_uninit(&view, bytes).map(drop)?)
        }
    }

    /// # Safety
    /// As `run`.
    unsafe fn input(&self, context: *mut KernelContext, index: usize) -> Result<*const Value, Failure> {
        let mut value = ptr::null();
        // SAFETY: promised.
        self.api.check(unsafe { self.api.KernelContext_GetInput(context, index, &mut value) })?;
        Ok(value)
    }
}

/// The attributes that a node has of a scaled cast's, all of which are of kind INT.
///
/// # Safety
/// The pointer is onnxruntime's.
unsafe fn ints(api: Api, operator: Operator, info: *const KernelInfo) -> Result<Vec<Attribute<'static>>, Failure> {
    let mut found = Vec::new();
    for &(name, _) in operator.attributes() {
        let c_name = CString::new(name).unwrap_or_default();
        // SAFETY: promised.
        if let Some(value) = unsafe { api.int(info, &c_name) }? {
            found.push(Attribute { name, value: AttributeValue::Int(value) });
        }
    }
    Ok(found)
}

/// Runs a node.
pub(crate) unsafe extern "system" fn compute(kernel: *mut c_void, context: *mut KernelContext) -> StatusPointer {
    // SAFETY: onnxruntime's promise: the kernel is one that was made for it, which several threads may run.
    let kernel = unsafe { &*kernel.cast_const().cast::<Kernel>() };
    // SAFETY: onnxruntime's promise.
    kernel.api.status(|| unsafe { kernel.run(context) })
}
