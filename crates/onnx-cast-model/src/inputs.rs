//! Files of any format, models among them, looked at: the requests of `onnx-cast-file`, with a model's constants as its
//! tensors.

use crate::contents::{self, ModelInfo};
use crate::error::Error;
use onnx_cast::DataType;
use onnx_cast_file::formats::input::Input;
use onnx_cast_file::{DiffRequest, Difference, FileInfo, Format, InspectRequest, Report, ReportRequest};
use std::cell::RefCell;
use std::path::Path;

/// What a file holds.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Inspection {
    /// The file and its tensors; of a model, its constants.
    pub file: FileInfo,
    /// What a model is beside its constants.
    pub model: Option<ModelInfo>,
}

fn is_model(path: &Path) -> bool {
    matches!(Format::from_path(path), Ok(Format::Onnx))
}

fn open(path: &Path, from: Option<DataType>) -> Result<Input, Error> {
    if is_model(path) { Ok(contents::open(path)?.0) } else { Ok(onnx_cast_file::open(path, from)?) }
}

/// Lists the tensors of a file, of a model (its constants, those of graphs within others under their paths), of a
/// checkpoint in several files, or of the standard input (`-`).
///
/// # Errors
/// Where a file cannot be read or is not valid.
pub fn inspect(path: impl AsRef<Path>, request: &InspectRequest) -> Result<Inspection, Error> {
    let model = RefCell::new(None);
    let open = |path: &Path| {
        if !is_model(path) {
            return Ok(onnx_cast_file::open(path, request.from)?);
        }
        let (input, info) = contents::open(path)?;
        model.replace(Some(info));
        Ok::<Input, Error>(input)
    };
    let file = onnx_cast_file::inspect_with(path.as_ref(), request, open)?;
    Ok(Inspection { file, model: model.into_inner() })
}

/// As [`onnx_cast_file::diff`], of models too, whose constants are compared.
///
/// # Errors
/// Where a file cannot be read or is not valid.
pub fn diff(
    first: impl AsRef<Path>,
    second: impl AsRef<Path>,
    request: &DiffRequest,
) -> Result<Vec<(String, Difference)>, Error> {
    onnx_cast_file::diff_with(first.as_ref(), second.as_ref(), request, |path| open(path, None))
}

/// As [`onnx_cast_file::report`], of models too, whose constants are cast.
///
/// # Errors
/// Where a file cannot be read or is not valid, or a candidate is not a type of numbers.
pub fn report(path: impl AsRef<Path>, request: &ReportRequest) -> Result<Report, Error> {
    onnx_cast_file::report_with(path.as_ref(), request, |path| open(path, request.from))
}
