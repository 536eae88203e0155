//! A model that is there already where the output goes.

use crate::contents;
use crate::error::{Error, ModelError};
use crate::external::Files;
use crate::rewrite::{is_same, open};
use crate::tree::Document;
use onnx_cast::DataType;
use onnx_cast_file::engine::fs;
use onnx_cast_file::engine::outline::Backing;
use onnx_cast_file::{FileError, InputFile, TensorSummary, WriteOptions};
use std::path::Path;

/// Refuses to replace a model that seems to be another input ([`FileError::check_replaced`]). `plan` says what is to be
/// done, and is asked only where there is such a model.
pub(crate) fn check(
    (input, output): (&Path, &Path),
    write: &WriteOptions,
    plan: impl FnOnce() -> Result<Vec<TensorSummary>, ModelError>,
) -> Result<(), Error> {
    if write.force || write.no_clobber || !is_other(input, output) {
        return Ok(());
    }
    // What cannot be read is not an input.
    let Ok((there, _)) = contents::open(output, false) else { return Ok(()) };
    let types = there.tensors.iter().map(|stored| (&*stored.name, stored.data_type));
    let rows = plan().map_err(|error| Error::model(input, error))?;
    Ok(FileError::check_replaced(output, types, &rows, &[])?)
}

/// Whether there is something else than the input where the output goes.
fn is_other(input: &Path, output: &Path) -> bool {
    fs::is_file(output) && !is_same(input, output)
}

/// Refuses to replace a model that is not the result of an earlier run, as far as `is_result` tells.
pub(crate) fn check_model(
    (input, output): (&Path, &Path),
    write: &WriteOptions,
    is_result: impl for<'a> FnOnce(&Document<'a>, &'a Files<'a>) -> bool,
) -> Result<(), Error> {
    if write.force || write.no_clobber || !is_other(input, output) {
        return Ok(());
    }
    match with_model(output, is_result) {
        Some(false) => Err(Error::model(output, ModelError::other_model())),
        // What cannot be read is not an input.
        _ => Ok(()),
    }
}

/// Refuses to replace a model that has no constant and no Cast of a type narrower than float, which a model that was
/// converted has.
pub(crate) fn check_converted(input: &Path, output: &Path) -> Result<(), Error> {
    if !is_other(input, output) {
        return Ok(());
    }
    let Ok((there, model)) = contents::open(output, false) else { return Ok(()) };
    let is_low = |data_type: DataType| data_type.is_float() && data_type.bits() < DataType::Float.bits();
    let mut types =
        there.tensors.iter().map(|stored| stored.data_type).chain(model.casts.iter().filter_map(|cast| cast.to));
    if types.any(is_low) { Ok(()) } else { Err(Error::model(output, ModelError::other_model())) }
}

/// Looks at a model, if it can be read.
fn with_model<R>(path: &Path, look: impl for<'a> FnOnce(&Document<'a>, &'a Files<'a>) -> R) -> Option<R> {
    let file = InputFile::open(path).ok()?;
    open(Backing::File(&file), |document, files| Ok(look(document, files))).ok()
}
