//! A model that is there already where the output goes.

use crate::contents;
use crate::error::{Error, ModelError};
use crate::external::Files;
use crate::rewrite::open_source;
use crate::source::ModelSource;
use crate::tree::Document;
use onnx_cast::DataType;
use onnx_cast_file::engine::fs::{self, is_same};
use onnx_cast_file::{FileError, TensorSummary, WriteOptions};
use std::path::Path;

/// Refuses to replace a model that seems to be another input ([`FileError::check_replaced`]). `plan` says what is to be
/// done, and is asked only where there is such a model.
pub(crate) fn check(
    (source, output): (ModelSource<'_>, Option<&Path>),
    write: &WriteOptions,
    plan: impl FnOnce() -> Result<Vec<TensorSummary>, ModelError>,
) -> Result<(), Error> {
    let Some(output) = other(source, output).filter(|_| !write.force && !write.no_clobber) else { return Ok(()) };
    // What cannot be read is not an input.
    let Ok((there, _)) = contents::open(ModelSource::File(output), false) else { return Ok(()) };
    let types = there.tensors.iter().map(|stored| (&*stored.name, stored.data_type));
    let rows = plan().map_err(|error| Error::model(source.path(), error))?;
    Ok(FileError::check_replaced(output, types, &rows, &[])?)
}

/// The output, where a file other than the input is there.
fn other<'p>(source: ModelSource<'_>, output: Option<&'p Path>) -> Option<&'p Path> {
    let is_input = |output: &Path| matches!(source, ModelSource::File(input) if is_same(input, output));
    output.filter(|output| fs::is_file(output) && !is_input(output))
}

/// Refuses to replace a model that is not the result of an earlier run, as far as `is_result` tells.
pub(crate) fn check_model(
    (source, output): (ModelSource<'_>, Option<&Path>),
    write: &WriteOptions,
    is_result: impl for<'a> FnOnce(&Document<'a>, &'a Files<'a>) -> bool,
) -> Result<(), Error> {
    let Some(output) = other(source, output).filter(|_| !write.force && !write.no_clobber) else { return Ok(()) };
    match with_model(output, is_result) {
        Some(false) => Err(Error::model(output, ModelError::other_model())),
        // What cannot be read is not an input.
        _ => Ok(()),
    }
}

/// Refuses to replace a model that has no constant and no Cast of a type narrower than float, which a model that was
/// converted has.
pub(crate) fn check_converted(source: ModelSource<'_>, output: Option<&Path>) -> Result<(), Error> {
    let Some(output) = other(source, output) else { return Ok(()) };
    let Ok((there, model)) = contents::open(ModelSource::File(output), false) else { return Ok(()) };
    let is_low = |data_type: DataType| data_type.is_float() && data_type.bits() < DataType::Float.bits();
    let mut types =
        there.tensors.iter().map(|stored| stored.data_type).chain(model.casts.iter().filter_map(|cast| cast.to));
    if types.any(is_low) { Ok(()) } else { Err(Error::model(output, ModelError::other_model())) }
}

/// Looks at a model, if it can be read.
fn with_model<R>(path: &Path, look: impl for<'a> FnOnce(&Document<'a>, &'a Files<'a>) -> R) -> Option<R> {
    open_source(ModelSource::File(path), |document, files| Ok(look(document, files))).ok()
}
