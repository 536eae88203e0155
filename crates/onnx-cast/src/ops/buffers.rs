//! Inputs and outputs of operators: checks of types and lengths, and new tensors.

use super::{CastError, CastErrorKind};
use crate::element::DataType;
use crate::packed::Out;
use crate::tensor::{Tensor, TensorErrorKind, TensorView, element_count};
use alloc::vec::Vec;

/// A new tensor whose bytes `fill` writes, without writing zeros first.
pub(super) fn new_tensor(
    data_type: DataType,
    shape: &[usize],
    fill: impl FnOnce(&mut Out) -> Result<(), CastError>,
) -> Result<Tensor, CastError> {
    let too_large = || TensorErrorKind::TooLarge { data_type, shape: shape.to_vec() };
    let len = element_count(shape).and_then(|len| data_type.byte_len(len)).ok_or_else(too_large)?;
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(len).map_err(|_| too_large())?;
    fill(&mut bytes.spare_capacity_mut()[..len])?;
    // SAFETY: `fill` returned no error, so it wrote all `len` bytes.
    unsafe { bytes.set_len(len) };
    Ok(Tensor::new(data_type, shape.to_vec(), bytes)?)
}

/// Checks the type of an input.
#[inline(always)]
pub(super) fn check_type(view: &TensorView<'_>, want: DataType) -> Result<(), CastError> {
    let got = view.data_type();
    if got == want { Ok(()) } else { Err(CastErrorKind::InputType { got, want }.into()) }
}

/// Checks the length in bytes of a buffer for elements of a tensor of a shape. `elements` is `None` where their number
/// overflows.
pub(super) fn check_len(
    data_type: DataType,
    elements: Option<usize>,
    got: usize,
    shape: &[usize],
) -> Result<(), CastError> {
    match elements.and_then(|elements| Some((elements, data_type.byte_len(elements)?))) {
        Some((_, want)) if want == got => Ok(()),
        Some((elements, want)) => Err(CastErrorKind::OutputLen { data_type, elements, got, want }.into()),
        None => Err(TensorErrorKind::TooLarge { data_type, shape: shape.to_vec() }.into()),
    }
}
