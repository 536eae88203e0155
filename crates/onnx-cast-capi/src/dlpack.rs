//! DLPack: input tensors of other libraries (`input.rs`), new result tensors (`output.rs`), and their types. The
//! structs are those of DLPack's ABI 1, from the crate `dlpark`.

mod input;
mod output;

use crate::edge::{Failure, give, reference, status};
use crate::options::onnx_cast_options;
use crate::plan::{onnx_cast_plan, resolve};
use dlpark::ffi::{DLDataTypeCode, DLManagedTensorVersioned};
use input::Input;
use onnx_cast::ops::Operator;
use onnx_cast::{DataType, Plan, TensorView};
use std::ffi::c_int;

#[cfg(target_endian = "big")]
const NATIVE_IS_LITTLE: bool = false;
#[cfg(target_endian = "little")]
const NATIVE_IS_LITTLE: bool = true;

/// The type of a code and a width.
fn type_of_code(code: u8, bits: u8) -> Result<DataType, Failure> {
    let is_it = |data_type: &&DataType| {
        data_type.interchange().dlpack == Some(code) && data_type.bits() == Some(usize::from(bits))
    };
    DataType::ALL.iter().find(is_it).copied().ok_or_else(|| {
        Failure::unsupported(format_args!("DLPack's type code {code} of {bits} bits is not an element type of ONNX"))
    })
}

/// The code and the width of a type.
fn code_of_type(data_type: DataType) -> Result<(DLDataTypeCode, u8), Failure> {
    let bits = data_type.bits().and_then(|bits| u8::try_from(bits).ok());
    let code = data_type.interchange().dlpack.map(DLDataTypeCode);
    code.zip(bits).ok_or_else(|| Failure::unsupported(format_args!("DLPack has no {data_type}")))
}

/// Runs a plan on a tensor, and gives the result to the caller.
fn run(plan: &Plan, input: &Input<'_>) -> Result<Box<output::Output>, Failure> {
    let view = TensorView::new(input.data_type, &input.shape, &input.bytes)?;
    output::Output::new(plan.target_type(), &input.shape, |bytes| Ok(plan.run_into(&view, bytes)?))
}

/// The onnx_cast_type of a type of DLPack's.
///
/// code, bits: the fields of a DLDataType.
/// data_type: takes the type.
///
/// # Safety
/// As the parameters say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onnx_cast_type_of_dlpack(code: u8, bits: u8, data_type: *mut i32) -> c_int {
    status(|| {
        let found = type_of_code(code, bits)?;
        // SAFETY: the caller's promise.
        unsafe { give(data_type, "data_type", || found.onnx()) }
    })
}

/// ONNX's Cast of a DLPack tensor to a new one.
///
/// src: a tensor of DLPack 1 in the host's memory (kDLCPU, kDLCUDAHost, kDLROCMHost), of any strides; elements narrower
///     than a byte are packed without gaps, or one in a byte, as its flags specify. Lanes become an additional last
///     dimension. The caller keeps ownership.
/// to: the onnx_cast_type to cast to, not string.
/// options: how to cast, or null for the defaults.
/// result: takes a new tensor: packed, without gaps, aligned to 256 bytes. The caller calls its deleter. Not written
///     where the function fails.
///
/// # Safety
/// As the parameters say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onnx_cast_dlpack(
    src: *const DLManagedTensorVersioned,
    to: i32,
    options: *const onnx_cast_options,
    result: *mut *mut DLManagedTensorVersioned,
) -> c_int {
    status(|| {
        // SAFETY: the caller's promise.
        unsafe {
            let input = Input::new(reference(src, "src")?)?;
            let plan = resolve(Operator::Cast, input.data_type.onnx(), to, options)?;
            let made = run(&plan, &input)?;
            give(result, "result", || made.into_managed())
        }
    })
}

/// Runs a plan on a DLPack tensor, as onnx_cast_dlpack does.
///
/// # Safety
/// As the parameters say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onnx_cast_plan_run_dlpack(
    plan: *const onnx_cast_plan,
    src: *const DLManagedTensorVersioned,
    result: *mut *mut DLManagedTensorVersioned,
) -> c_int {
    status(|| {
        // SAFETY: the caller's promise.
        unsafe {
            let made = run(&reference(plan, "plan")?.0, &Input::new(reference(src, "src")?)?)?;
            give(result, "result", || made.into_managed())
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_types_are_one_to_one() {
        for &data_type in DataType::ALL {
            let Some(code) = data_type.interchange().dlpack else {
                assert!(code_of_type(data_type).is_err(), "{data_type}");
                continue;
            };
            let (found, bits) = code_of_type(data_type).expect("a code");
            assert_eq!((found.0, Some(usize::from(bits))), (code, data_type.bits()), "{data_type}");
            assert_eq!(type_of_code(code, bits).ok(), Some(data_type), "{data_type}");
        }
    }

    #[test]
    fn the_codes_are_those_of_dlpack() {
        use DLDataTypeCode as Code;
        use DataType::*;
        let rows = [
            (&[Int2, Int4, Int8, Int16, Int32, Int64][..], Code::INT),
            (&[Uint2, Uint4, Uint8, Uint16, Uint32, Uint64], Code::UINT),
            (&[Float16, Float, Double], Code::FLOAT),
            (&[BFloat16], Code::BFLOAT),
            (&[Complex64, Complex128], Code::COMPLEX),
            (&[Bool], Code::BOOL),
            (&[Float8E4M3FN], Code::FLOAT8_E4M3FN),
            (&[Float8E4M3FNUZ], Code::FLOAT8_E4M3FNUZ),
            (&[Float8E5M2], Code::FLOAT8_E5M2),
            (&[Float8E5M2FNUZ], Code::FLOAT8_E5M2FNUZ),
            (&[Float8E8M0], Code::FLOAT8_E8M0FNU),
            (&[Float6E2M3], Code::FLOAT6_E2M3FN),
            (&[Float6E3M2], Code::FLOAT6_E3M2FN),
            (&[Float4E2M1], Code::FLOAT4_E2M1FN),
        ];
        for (types, code) in rows {
            for data_type in types {
                assert_eq!(data_type.interchange().dlpack, Some(code.0), "{data_type}");
            }
        }
    }
}
