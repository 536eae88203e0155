//! The jobs, for files of any kind: what a path means, and which options a kind of file has, is decided here. A model's
//! constants are its tensors.

use crate::compare;
use crate::contents::{self, ModelInfo};
use crate::dequantize::dequantize_constants;
use crate::error::Error;
use crate::quantize::quantize_weights;
use crate::source::ModelSource;
use crate::weights::{MIN_SIZE, cast_constants};
use onnx_cast::__private::DefaultEnvironment;
use onnx_cast::CastOptions;
use onnx_cast_file::__private::{Input, check_scale_rule, diff_collections, diff_opened, is_stream, open, open_all};
use onnx_cast_file::{
    BitCastRequest, CastRequest, DequantizeRequest, DiffRequest, Difference, FileError, FileInfo, Format, Ignored,
    InspectRequest, ModelForm, QuantizeRequest, Report, ReportRequest, RunOptions, Summary, TranscodeRequest, Wording,
    check_names,
};
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

impl From<FileInfo> for Inspection {
    fn from(file: FileInfo) -> Inspection {
        Inspection { file, model: None }
    }
}

/// Why a model's constants get no type.
const TYPED: &str = "is not for models, whose constants have types";
/// Why a model has no layout, nor what belongs to one.
const CHECKPOINTS: &str = "is for checkpoints (.safetensors)";
/// Why a model has no format to choose.
const PIPES: &str = "is for standard input and output (-), which are no models";

/// Whether a path is that of a model, by its extension.
pub fn is_model(path: &Path) -> bool {
    matches!(Format::from_path(path), Ok(Format::Onnx))
}

/// Whether a job reads and writes a model: IN has the extension of a model, and OUT has it too or is a device.
///
/// # Errors
/// If one of the two is a model and the other is a standard stream.
pub fn is_of_models(input: &Path, output: &Path) -> Result<bool, Error> {
    let _environment = DefaultEnvironment::enter();
    let [from, to] = [input, output].map(is_model);
    if let Some((stream, _)) = [(input, to), (output, from)].into_iter().find(|(path, of)| *of && is_stream(path)) {
        return Err(FileError::request(stream, "models are not streamed (name an .onnx file)").into());
    }
    Ok(from && (to || Format::is_of_device(output)))
}

/// As [`is_of_models`], of jobs on files of all kinds, whose input tells the kind.
fn is_of_models_or_tensors(input: &Path, output: &Path) -> Result<bool, Error> {
    let is_of_models = is_of_models(input, output)?;
    if is_model(input) && !is_of_models {
        return Err(FileError::request(input, "a model becomes a model (want an output named .onnx)").into());
    }
    Ok(is_of_models)
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
    let _environment = DefaultEnvironment::enter();
    let (input, output) = (input.as_ref(), output.as_ref());
    if is_of_models_or_tensors(input, output)? {
        return cast_model(input, output, request);
    }
    Ok(onnx_cast_file::cast_file(input, output, request)?)
}

/// As [`cast`], of a model to a model, whatever they are called.
///
/// # Errors
/// As [`cast`].
pub fn cast_model(input: impl AsRef<Path>, output: impl AsRef<Path>, request: &CastRequest) -> Result<Summary, Error> {
    let _environment = DefaultEnvironment::enter();
    Ok(cast_of(ModelSource::File(input.as_ref()), Some(output.as_ref()), request)?.1)
}

/// As [`cast_model`], of a model that may be in memory. Without an output its bytes are given back, of a dry run none.
///
/// # Errors
/// As [`cast`].
pub fn cast_of(
    source: ModelSource<'_>,
    output: Option<&Path>,
    request: &CastRequest,
) -> Result<(Vec<u8>, Summary), Error> {
    let _environment = DefaultEnvironment::enter();
    let fields = [
        ("from", !request.raw.from.is_empty(), TYPED),
        ("shape", request.raw.shape.is_some(), "is not for models, whose constants have shapes"),
        ("in_format", request.raw.in_format.is_some(), PIPES),
        ("out_format", request.raw.out_format.is_some(), PIPES),
    ];
    request.selection.check_given(source.path())?;
    request.run.refuse_shards(source.path())?;
    FileError::refuse(source.path(), &fields)?;
    let mut ignored = ignored_of_model(&request.run);
    ignored.extend(request.ignored_attributes());
    if request.options.opset != CastOptions::default().opset {
        let what = Wording::default().field("opset", " is not for models, which import their own (");
        let what = what.field("raise_opset", " raises it where the target needs that)");
        return Err(FileError::request(source.path(), what).into());
    }
    let (bytes, done) = cast_constants(source, output, request, &|| {})?;
    Ok((bytes, done.ignoring(ignored)))
}

/// The options that have no effect on a model.
fn ignored_of_model(run: &RunOptions) -> Vec<Ignored> {
    Ignored::of(&[
        ("npy_plain", run.write.npy_plain, "is for .npy"),
        ("copy_others", !run.copy_others, "is for folders"),
        ("resume", run.resume, "is for checkpoints of several files (a model is written whole or not at all)"),
    ])
}

/// As [`onnx_cast_file::bit_cast_file`].
///
/// # Errors
/// As there, and where the input is a model.
pub fn bit_cast(input: impl AsRef<Path>, output: impl AsRef<Path>, request: &BitCastRequest) -> Result<Summary, Error> {
    let _environment = DefaultEnvironment::enter();
    Ok(onnx_cast_file::bit_cast_file(input, output, request)?)
}

/// Quantizes a checkpoint, as [`onnx_cast_file::quantize_file`], or the weights of a model, each of which is followed
/// by a DequantizeLinear (NVFP4 by two), or read by other operators: see [`ModelForm`].
///
/// # Errors
/// Where a file cannot be read or written, the input is not valid, or a weight does not fit the format.
pub fn quantize(
    input: impl AsRef<Path>,
    output: impl AsRef<Path>,
    request: &QuantizeRequest,
) -> Result<Summary, Error> {
    let _environment = DefaultEnvironment::enter();
    let (input, output) = (input.as_ref(), output.as_ref());
    if is_of_models_or_tensors(input, output)? {
        return quantize_model(input, output, request);
    }
    Ok(onnx_cast_file::quantize_file(input, output, request)?)
}

/// As [`quantize`], of a model to a model, whatever they are called.
///
/// # Errors
/// As [`quantize`].
pub fn quantize_model(
    input: impl AsRef<Path>,
    output: impl AsRef<Path>,
    request: &QuantizeRequest,
) -> Result<Summary, Error> {
    let _environment = DefaultEnvironment::enter();
    Ok(quantize_of(ModelSource::File(input.as_ref()), Some(output.as_ref()), request)?.1)
}

/// As [`quantize_model`], of a model that may be in memory. Without an output its bytes are given back, of a dry run
/// none.
///
/// # Errors
/// As [`quantize`].
pub fn quantize_of(
    source: ModelSource<'_>,
    output: Option<&Path>,
    request: &QuantizeRequest,
) -> Result<(Vec<u8>, Summary), Error> {
    let _environment = DefaultEnvironment::enter();
    let fields = [
        ("layout", request.layout.is_some(), CHECKPOINTS),
        ("activations", request.activations.is_some(), CHECKPOINTS),
        (
            "zero_points",
            request.zero_points && request.form != ModelForm::MatMulNBits,
            "is for weights that MatMulNBits reads (other operators have symmetric scales here)",
        ),
        (
            "reduce_range",
            request.reduce_range && request.form != ModelForm::Dynamic,
            "is for products of integers (the form dynamic)",
        ),
    ];
    FileError::refuse(source.path(), &fields)?;
    request.run.refuse_shards(source.path())?;
    check_scale_rule(source.path(), request.scale_rule, request.selection.targets())?;
    let (bytes, done) = quantize_weights(source, output, request)?;
    Ok((bytes, done.ignoring(ignored_of_model(&request.run))))
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
    let _environment = DefaultEnvironment::enter();
    let (input, output) = (input.as_ref(), output.as_ref());
    if is_of_models_or_tensors(input, output)? {
        return Ok(dequantize_of(ModelSource::File(input), Some(output), request)?.1);
    }
    Ok(onnx_cast_file::dequantize_file(input, output, request)?)
}

/// As [`dequantize`], of a model that may be in memory. Without an output its bytes are given back, of a dry run none.
///
/// # Errors
/// As [`dequantize`].
pub fn dequantize_of(
    source: ModelSource<'_>,
    output: Option<&Path>,
    request: &DequantizeRequest,
) -> Result<(Vec<u8>, Summary), Error> {
    let _environment = DefaultEnvironment::enter();
    const FILES: &str = "is for checkpoints (.safetensors, .gguf)";
    const COUNTED: &str = "is for checkpoints (the weights of a model are not rounded again)";
    request.selection.check_given(source.path())?;
    FileError::refuse(source.path(), &[("layout", request.layout.is_some(), FILES)])?;
    request.run.refuse_shards(source.path())?;
    let mut ignored = ignored_of_model(&request.run);
    ignored.extend(Ignored::of(&[
        ("allow_nan", request.allow_nan, "is for checkpoints (ONNX's operators take scales that are NaN)"),
        ("losses", request.run.losses, COUNTED),
        ("fail_on", !request.run.fail_on.is_empty(), COUNTED),
    ]));
    let (bytes, done) = dequantize_constants(source, output, request)?;
    Ok((bytes, done.ignoring(ignored)))
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
    let _environment = DefaultEnvironment::enter();
    Ok(onnx_cast_file::transcode_file(input, output, request)?)
}

/// Every file that a path stands for, or a model in memory.
fn opened(source: ModelSource<'_>, in_format: Option<Format>) -> Result<Vec<Input>, Error> {
    let model = |source: ModelSource<'_>| -> Result<Input, Error> { Ok(contents::open(source, false)?.0) };
    let file = |path: &Path| match is_model(path) {
        true => model(ModelSource::File(path)),
        false => Ok(open(path, &[], in_format)?),
    };
    match source {
        ModelSource::File(path) => open_all(path, file),
        ModelSource::Memory(_) => Ok(vec![model(source)?]),
    }
}

/// Lists the tensors of a file, of a model (its constants, those of graphs within others under their paths), of a
/// checkpoint in several files, or of the standard input (`-`).
///
/// # Errors
/// Where a file cannot be read or is not valid.
pub fn inspect(path: impl AsRef<Path>, request: &InspectRequest) -> Result<Inspection, Error> {
    let _environment = DefaultEnvironment::enter();
    if is_model(path.as_ref()) {
        return inspect_model(path, request);
    }
    Ok(onnx_cast_file::inspect(path, request)?.into())
}

/// As [`inspect`], of a model, whatever it is called.
///
/// # Errors
/// As [`inspect`].
pub fn inspect_model(path: impl AsRef<Path>, request: &InspectRequest) -> Result<Inspection, Error> {
    let _environment = DefaultEnvironment::enter();
    inspect_of(ModelSource::File(path.as_ref()), request)
}

/// As [`inspect_model`], of a model that may be in memory.
///
/// # Errors
/// As [`inspect`].
pub fn inspect_of(source: ModelSource<'_>, request: &InspectRequest) -> Result<Inspection, Error> {
    let _environment = DefaultEnvironment::enter();
    let fields = [("from", !request.from.is_empty(), TYPED), ("in_format", request.in_format.is_some(), PIPES)];
    FileError::refuse(source.path(), &fields)?;
    let (input, model) = contents::open(source, request.types)?;
    let names = input.tensors.iter().map(|stored| &*stored.name);
    check_names(&request.include, &request.exclude, names)
        .map_err(|error| Error::model(source.path(), error.into()))?;
    let file = onnx_cast_file::__private::inspect_opened(vec![input], request)?;
    Ok(Inspection { file, model: Some(model) })
}

/// As [`onnx_cast_file::diff`], for models too. Their constants are compared as tensors, and, unless values alone are
/// compared, their nodes, opsets, inputs and outputs as well: [`Difference::Node`].
///
/// # Errors
/// Where a file cannot be read or is not valid.
pub fn diff(
    first: impl AsRef<Path>,
    second: impl AsRef<Path>,
    request: &DiffRequest,
) -> Result<Vec<(String, Difference)>, Error> {
    let _environment = DefaultEnvironment::enter();
    diff_of([ModelSource::File(first.as_ref()), ModelSource::File(second.as_ref())], request)
}

/// As [`diff`], of files of any kind, and models in memory.
///
/// # Errors
/// As [`diff`].
pub fn diff_of(sources: [ModelSource<'_>; 2], request: &DiffRequest) -> Result<Vec<(String, Difference)>, Error> {
    let _environment = DefaultEnvironment::enter();
    if let [ModelSource::File(first), ModelSource::File(second)] = sources
        && let Some(found) = diff_collections([first, second], request)?
    {
        return Ok(found);
    }
    let paths = sources.map(ModelSource::path);
    request.refuse_streams(paths)?;
    let inputs = [opened(sources[0], request.in_format)?, opened(sources[1], request.in_format)?];
    let mut found = diff_opened(paths, inputs, request)?;
    let is_of_models = sources.iter().all(|source| match source {
        ModelSource::File(path) => is_model(path),
        ModelSource::Memory(_) => true,
    });
    if is_of_models && !request.values {
        found.extend(compare::nodes(sources, request)?);
    }
    Ok(found)
}

/// As [`onnx_cast_file::report`], of models too, whose constants are cast.
///
/// # Errors
/// Where a file cannot be read or is not valid, or a candidate is not a type of numbers.
pub fn report(path: impl AsRef<Path>, request: &ReportRequest) -> Result<Report, Error> {
    let _environment = DefaultEnvironment::enter();
    if is_model(path.as_ref()) {
        return report_model(path, request);
    }
    Ok(onnx_cast_file::report(path, request)?)
}

/// As [`report`], of a model, whatever it is called.
///
/// # Errors
/// As [`report`].
pub fn report_model(path: impl AsRef<Path>, request: &ReportRequest) -> Result<Report, Error> {
    let _environment = DefaultEnvironment::enter();
    report_of(ModelSource::File(path.as_ref()), request)
}

/// As [`report_model`], of a model that may be in memory.
///
/// # Errors
/// As [`report`].
pub fn report_of(source: ModelSource<'_>, request: &ReportRequest) -> Result<Report, Error> {
    let _environment = DefaultEnvironment::enter();
    let fields = [
        ("from", !request.from.is_empty(), TYPED),
        ("in_format", request.in_format.is_some(), PIPES),
        ("layout", request.layout.is_some(), CHECKPOINTS),
    ];
    FileError::refuse(source.path(), &fields)?;
    let request = request.clone().min_elements(request.min_elements.or(Some(MIN_SIZE)));
    let (input, _) = contents::open(source, false)?;
    Ok(onnx_cast_file::__private::report_opened(&[input], &request)?)
}
