//! The global scale of NVFP4, which one layout multiplies by, and another divides by.

use super::Count;
use crate::error::FileError;
use crate::io::memory::resize;
use crate::layouts::{Checkpoint, Values, Weight};
use crate::pipeline::{Compute, Scratch, Trouble};
use onnx_cast::{DataType, GlobalScale};
use std::io;

/// A global scale as a layout has it.
pub(super) enum Global<'a> {
    /// As it is stored.
    Kept,
    /// The reciprocal, and what counts the values that it changes: it may differ in its last bit.
    Inverted(f32, Count<'a>),
}

/// The global scale of a weight for a layout that divides by it, or multiplies.
pub(super) fn global_as<'a>(checkpoint: &'a Checkpoint, weight: &'a Weight, divides: bool) -> Option<Global<'a>> {
    let (value, changed) = match (*weight.globals.first()?, divides) {
        (GlobalScale::Factor(_), false) | (GlobalScale::Divisor(_), true) => return Some(Global::Kept),
        (GlobalScale::Factor(factor), true) => (1.0 / factor, GlobalScale::Divisor(1.0 / factor)),
        (GlobalScale::Divisor(divisor), false) => (1.0 / divisor, GlobalScale::Factor(1.0 / divisor)),
    };
    let other = Weight { globals: vec![changed], ..weight.clone() };
    let count = move || compare(checkpoint, weight, &other).map_err(|trouble| in_file(checkpoint, weight, trouble));
    Some(Global::Inverted(value, Box::new(count)))
}

/// How many bfloat16 values of two weights differ.
fn compare(checkpoint: &Checkpoint, weight: &Weight, other: &Weight) -> Result<u64, Trouble> {
    let no_room = || Trouble::Read(io::ErrorKind::OutOfMemory.into());
    let old = Values::new(checkpoint, weight, DataType::BFloat16)?;
    let new = Values::new(checkpoint, other, DataType::BFloat16)?;
    let (mut scratch, mut before, mut after) = (Scratch::default(), Vec::new(), Vec::new());
    let (mut at, mut changes) = (0, 0);
    while at < weight.len() {
        let len = old.chunk().min(weight.len() - at);
        resize(&mut before, 2 * len).and_then(|()| resize(&mut after, 2 * len)).ok_or_else(no_room)?;
        old.compute(at, len, &mut scratch, &mut before)?;
        new.compute(at, len, &mut scratch, &mut after)?;
        let pairs = before.as_chunks::<2>().0.iter().zip(after.as_chunks::<2>().0);
        changes += pairs.filter(|(before, after)| before != after).count() as u64;
        at += len;
    }
    Ok(changes)
}

/// What went wrong with a weight as an error of its file.
pub(super) fn in_file(checkpoint: &Checkpoint, weight: &Weight, trouble: Trouble) -> FileError {
    let path = checkpoint.files[weight.tensor.file].path();
    FileError::moving(trouble, path, path, &weight.name)
}
