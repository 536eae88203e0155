//! The numbers of an array of texts, read in blocks that stay in the nearest caches: texts are copied from numpy's memory,
//! then read.

use crate::error::refused;
use crate::string_array::{StringArray, Unreadable};
use onnx_cast::{CastError, Plan, Strings, TensorView};
use pyo3::prelude::*;

/// Texts of a block: a multiple of 8, so that blocks are whole bytes of every type.
const BLOCK: usize = 4096;

/// Texts after which the interpreter is asked whether it was interrupted: some hundredths of a second. A multiple of
/// [`BLOCK`].
const STRETCH: usize = 1 << 20;

enum Stop {
    Text(Unreadable),
    Number(CastError),
}

/// Reads the texts as numbers into all of `out`: as ONNX packs them, or those narrower than a byte one in a byte.
/// Other Python threads run meanwhile.
///
/// # Errors
/// Where an element has no text, or one that is no number, or Python was interrupted: a part is written then.
pub(crate) fn parse(
    py: Python<'_>,
    plan: &Plan,
    array: &StringArray<'_>,
    out: &mut [u8],
    packed: bool,
) -> PyResult<()> {
    let texts = array.texts();
    let spread = plan.to().is_packed() && !packed;
    let size = |len| if spread { len } else { plan.to().byte_len(len).unwrap_or(0) };
    let mut strings = Strings::with_capacity(BLOCK.min(texts.len()), 0);
    let mut rest = out;
    let mut block = |from: usize, len: usize| {
        strings.clear();
        texts.read(from..from + len, &mut strings).map_err(Stop::Text)?;
        let (out, behind) = std::mem::take(&mut rest).split_at_mut(size(len));
        rest = behind;
        read(plan, &strings, out, spread).map_err(|error| Stop::Number(behind_others(error, from)))
    };
    for start in (0..texts.len()).step_by(STRETCH) {
        let end = texts.len().min(start + STRETCH);
        let done = py.detach(|| (start..end).step_by(BLOCK).try_for_each(|from| block(from, BLOCK.min(end - from))));
        done.map_err(|stop| match stop {
            Stop::Text(error) => array.error(error),
            Stop::Number(error) => refused(error),
        })?;
        py.check_signals()?;
    }
    Ok(())
}

/// Reads the texts of a block.
fn read(plan: &Plan, strings: &Strings, out: &mut [u8], spread: bool) -> Result<(), CastError> {
    let shape = [strings.view().len()];
    let view = TensorView::strings(&shape, strings.view())?;
    if !spread {
        return plan.run_into(&view, out);
    }
    let mut packed = [0; BLOCK];
    let packed = &mut packed[..plan.to().byte_len(view.len()).unwrap_or(0)];
    plan.run_into(&view, packed)?;
    onnx_cast::unpack(plan.to(), packed, out);
    Ok(())
}

/// The error of a block as that of the array, in which `before` elements stand before the block's.
fn behind_others(mut error: CastError, before: usize) -> CastError {
    if let CastError::Text { index, .. } = &mut error {
        *index += before;
    }
    error
}
