//! Numbers from an array of texts. A block of texts is copied from numpy's memory and then read, so that the copies
//! stay in the nearest caches.

use crate::error::of_cast;
use crate::string_array::{StringArray, Unreadable};
use onnx_cast::ops::CastErrorKind;
use onnx_cast::packing::unpack_into_uninit;
use onnx_cast::tensor::Strings;
use onnx_cast::{CastError, Plan, TensorView};
use pyo3::prelude::*;
use std::mem::MaybeUninit;

/// Texts in a block: a multiple of 8, so that a block ends at a byte in every type.
const BLOCK: usize = 4096;

/// Texts between checks for an interrupt of Python: some hundredths of a second. A multiple of [`BLOCK`].
const STRETCH: usize = 1 << 20;

enum Stop {
    Text(Unreadable),
    Number(CastError),
}

/// Writes the numbers of the texts to all of `out`. Types narrower than a byte take a byte for each element unless
/// `packed`. Other Python threads run meanwhile.
///
/// # Errors
/// If an element has no text, if its text is not a number, or if Python was interrupted. A part of `out` is written
/// then.
pub(crate) fn parse(
    py: Python<'_>,
    plan: &Plan,
    array: &StringArray<'_>,
    out: &mut [MaybeUninit<u8>],
    packed: bool,
) -> PyResult<()> {
    let texts = array.texts();
    let spread = plan.target_type().is_packed() && !packed;
    let size = |len| if spread { len } else { plan.target_type().byte_len(len).unwrap_or(0) };
    let mut strings = Strings::try_with_capacity(BLOCK.min(texts.len()), 0).map_err(of_cast)?;
    let mut rest = out;
    let mut block = |from: usize, len: usize| {
        strings.clear();
        texts.read(from..from + len, &mut strings).map_err(Stop::Text)?;
        let (out, behind) = std::mem::take(&mut rest).split_at_mut(size(len));
        rest = behind;
        read(plan, &strings, out, spread).map_err(|error| Stop::Number(in_array(error, from)))
    };
    for start in (0..texts.len()).step_by(STRETCH) {
        let end = texts.len().min(start + STRETCH);
        let done = py.detach(|| (start..end).step_by(BLOCK).try_for_each(|from| block(from, BLOCK.min(end - from))));
        done.map_err(|stop| match stop {
            Stop::Text(error) => array.error(error),
            Stop::Number(error) => of_cast(error),
        })?;
        py.check_signals()?;
    }
    Ok(())
}

/// Reads the texts of a block.
fn read(plan: &Plan, strings: &Strings, out: &mut [MaybeUninit<u8>], spread: bool) -> Result<(), CastError> {
    let shape = [strings.view().len()];
    let view = TensorView::strings(&shape, strings.view())?;
    if !spread {
        return plan.run_into_uninit(&view, out).map(drop);
    }
    let mut packed = [MaybeUninit::uninit(); BLOCK];
    let packed = &mut packed[..plan.target_type().byte_len(view.len()).unwrap_or(0)];
    let packed = plan.run_into_uninit(&view, packed)?;
    // The lengths fit: both are those of `view`.
    let _ = unpack_into_uninit(plan.target_type(), packed, out);
    Ok(())
}

/// The error of a block with the index of its element in the array. The block starts at element `start`.
pub(crate) fn in_array(error: CastError, start: usize) -> CastError {
    let mut kind = error.into_kind();
    if let CastErrorKind::Text { index, .. } = &mut kind {
        *index += start;
    }
    kind.into()
}
