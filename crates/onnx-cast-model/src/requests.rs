//! The jobs, for files of any kind: what a path means, and which options a kind of file has, is decided here. A model's
//! constants are its tensors.

use crate::contents::{self, ModelInfo};
use crate::dequantize::dequantize_model;
use crate::error::Error;
use crate::quantize::quantize_model;
use crate::weights::{MIN_SIZE, cast_constants};
use onnx_cast::{CastOptions, DataType};
use onnx_cast_file::formats::input::Input;
use onnx_cast_file::{
    BitCastRequest, CastRequest, DequantizeRequest, DiffRequest, Difference, FileInfo, Format, InspectRequest,
    QuantizeRequest, Report, ReportRequest, Storage, Summary, TranscodeRequest,
};
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

/// Whether a path is that of a model, by its extension.
pub fn is_model(path: &Path) -> bool {
    matches!(Format::from_path(path), Ok(Format::Onnx))
}

/// Casts a file, as [`onnx_cast_file::cast_file`], or a model to a model.
///
/// Of a model the selected constants are cast, in its graph, the graphs within it and its functions: initializers, and
/// the values of Constant nodes. Each is stored in its target type under a new name, and a Cast gives the old name in
/// the old type, so that nothing that reads it sees a difference except in its values. A constant of its target type,
/// and one that such a Cast follows already, stays as it is, so casting twice gives the same bytes.
///
/// # Errors
/// Where a file cannot be read or written, the input is not valid, or a tensor cannot be cast.
pub fn cast(input: impl AsRef<Path>, output: impl AsRef<Path>, request: &CastRequest) -> Result<Summary, Error> {
    let (input, output) = (input.as_ref(), output.as_ref());
    if is_model(input) && is_model(output) {
        check_of_model(input, request)?;
        return cast_constants(input, output, request, &|| {});
    }
    check_of_file(input, request)?;
    Ok(onnx_cast_file::cast_file(input, output, request)?)
}

/// As [`onnx_cast_file::bit_cast_file`].
///
/// # Errors
/// As there, and where the input is a model.
pub fn bit_cast(input: impl AsRef<Path>, output: impl AsRef<Path>, request: &BitCastRequest) -> Result<Summary, Error> {
    Ok(onnx_cast_file::bit_cast_file(input, output, request)?)
}

/// Quantizes a checkpoint, as [`onnx_cast_file::quantize_file`], or the weights of a model, each of which is followed
/// by a DequantizeLinear; NVFP4 by two.
///
/// # Errors
/// Where a file cannot be read or written, the input is not valid, or a weight does not fit the format.
pub fn quantize(
    input: impl AsRef<Path>,
    output: impl AsRef<Path>,
    request: &QuantizeRequest,
) -> Result<Summary, Error> {
    let (input, output) = (input.as_ref(), output.as_ref());
    if is_model(input) && is_model(output) {
        const COUNTED: &str = "is for checkpoints (`report` shows what a model's weights would lose)";
        let given = [
            ("layout", request.layout.is_some(), "is for checkpoints (.safetensors)"),
            ("resume", request.resume, "is for checkpoints of several files (a model is written whole or not at all)"),
            ("losses", request.count, COUNTED),
            ("fail_on", !request.fail_on.is_empty(), COUNTED),
        ];
        refuse(input, &given)?;
        return quantize_model(input, output, request);
    }
    refuse(input, &of_models(request.raise_opset, &request.storage))?;
    Ok(onnx_cast_file::quantize_file(input, output, request)?)
}

/// Dequantizes a checkpoint, as [`onnx_cast_file::dequantize_file`], or a model: what its DequantizeLinears give of
/// constants becomes constants of the same names and types.
///
/// # Errors
/// Where a file cannot be read or written, the input is not valid, or a weight of a model is of another type than the
/// target.
pub fn dequantize(
    input: impl AsRef<Path>,
    output: impl AsRef<Path>,
    request: &DequantizeRequest,
) -> Result<Summary, Error> {
    let (input, output) = (input.as_ref(), output.as_ref());
    if is_model(input) && is_model(output) {
        const FILES: &str = "is for checkpoints (.safetensors, .gguf)";
        const COUNTED: &str = "is for checkpoints: the weights of a model are not rounded again";
        let given = [
            ("scheme", request.scheme.is_some(), FILES),
            ("resume", request.resume, FILES),
            ("losses", request.count, COUNTED),
            ("fail_on", !request.fail_on.is_empty(), COUNTED),
        ];
        refuse(input, &given)?;
        return dequantize_model(input, output, request);
    }
    Ok(onnx_cast_file::dequantize_file(input, output, request)?)
}

/// As [`onnx_cast_file::transcode_file`].
///
/// # Errors
/// As there.
pub fn transcode(
    input: impl AsRef<Path>,
    output: impl AsRef<Path>,
    request: &TranscodeRequest,
) -> Result<Summary, Error> {
    Ok(onnx_cast_file::transcode_file(input, output, request)?)
}

/// Refuses what only other files than models have a use for.
fn check_of_model(path: &Path, request: &CastRequest) -> Result<(), Error> {
    const OPSET: &str = "is not for models, which import their own (raise_opset raises it where the target needs that)";
    let given = [
        ("opset", request.options.opset != CastOptions::default().opset, OPSET),
        ("from", request.from.is_some(), "is not for models, whose constants have types"),
        ("shape", request.shape.is_some(), "is not for models, whose constants have shapes"),
        ("npy_plain", request.write.npy_plain, "is for .npy"),
        ("resume", request.resume, "is for checkpoints of several files (a model is written whole or not at all)"),
    ];
    refuse(path, &given)
}

/// Refuses what only models have a use for.
fn check_of_file(path: &Path, request: &CastRequest) -> Result<(), Error> {
    refuse(path, &of_models(request.raise_opset, &request.storage))
}

/// The options that only models have a use for.
fn of_models(raise_opset: bool, storage: &Storage) -> [(&'static str, bool, &'static str); 3] {
    const MODELS: &str = "is for models (.onnx to .onnx)";
    [
        ("raise_opset", raise_opset, MODELS),
        ("external_data", storage.external_data.is_some(), MODELS),
        ("external_threshold", storage.threshold.is_some(), MODELS),
    ]
}

fn refuse(path: &Path, given: &[(&'static str, bool, &'static str)]) -> Result<(), Error> {
    match given.iter().find(|(_, given, _)| *given) {
        Some((option, _, reason)) => Err(Error::option(path, option, reason)),
        None => Ok(()),
    }
}

fn open(path: &Path, from: Option<DataType>) -> Result<Input, Error> {
    if is_model(path) { Ok(contents::open(path, false)?.0) } else { Ok(onnx_cast_file::open(path, from)?) }
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
            refuse(path, &[("types", request.types, "is for models (.onnx)")])?;
            return Ok(onnx_cast_file::open(path, request.from)?);
        }
        let (input, info) = contents::open(path, request.types)?;
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
    let min_size = request.min_size.or(is_model(path.as_ref()).then_some(MIN_SIZE));
    let request = ReportRequest { min_size, ..request.clone() };
    onnx_cast_file::report_with(path.as_ref(), &request, |path| open(path, request.from))
}
