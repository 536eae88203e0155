//! From file to file: what becomes of each tensor is decided first, then they are cast in chunks (`pipeline.rs`).

mod archive;
mod job;
pub(crate) mod shards;

use crate::error::FileError;
use crate::formats::checkpoint::{self, Index, Located};
use crate::formats::error::FormatError;
use crate::formats::format::Format;
use crate::formats::input::{Given, Input, Stored};
use crate::formats::output::Output;
use crate::formats::safetensors::{self, SafetensorsError};
use crate::io::atomic::{check_vacant, folder_of};
use crate::io::fs;
use crate::io::positional::InputFile;
use crate::io::progress::Meter;
use crate::layouts;
use crate::others::{Others, is_same};
use crate::replaced::{Replacement, check_file, folder_named};
use crate::request::{BitCastRequest, CastRequest};
use crate::summary::Summary;
use onnx_cast::{BitCast, Cast, DataType, OpError, Plan};
use std::path::{Path, PathBuf};

pub(crate) use job::{Frame, Job};

/// Casts a file: the tensor of a `.pb`, `.npy` or `.safetensors` file to another file of any of these formats; of a
/// `.safetensors` file to a `.safetensors` file every tensor that is selected, all others and the metadata kept.
///
/// The tensor of a file of one is cast whatever its type; names and sizes may still exclude it.
///
/// Input and output may be the same path. On any error the output is as it was before.
///
/// # Errors
/// Where a file cannot be read or written, the input is not valid, a tensor cannot be cast, the output's format has no
/// place for the result, or a field of the request is for models ([`FileError::Option`]).
pub fn cast_file(
    input: impl AsRef<Path>,
    output: impl AsRef<Path>,
    request: &CastRequest,
) -> Result<Summary, FileError> {
    let input = input.as_ref();
    request.storage.refuse_of_models(input, request.raise_opset)?;
    with_cast(request, |work| convert(input, output.as_ref(), request, work))
}

/// Does what is to be done with casts.
pub(crate) fn with_cast<R>(
    request: &CastRequest,
    run: impl FnOnce(&Work<'_>) -> Result<R, FileError>,
) -> Result<R, FileError> {
    // A chunk is cast by the thread that reads and writes it.
    let options = request.options.threads(1);
    let plan = |from, to| Cast::new(to, &options)?.plan(from);
    for to in request.selection.targets() {
        Cast::new(to, &options).map_err(FileError::Operator)?;
    }
    let select = |stored: &Stored| request.selection.target(&stored.name, stored.data_type, stored.len as u64);
    run(&Work { name: CAST, plan: &plan, select: &select, needs_one: false })
}

/// Reinterprets the bits of a file, as [`cast_file`] casts it; of a `.safetensors` file to a `.safetensors` file every
/// tensor that is selected by name and size and whose elements are as wide as the target's, all others kept.
///
/// # Errors
/// As [`cast_file`], and where no tensor is as wide as the target.
pub fn bit_cast_file(
    input: impl AsRef<Path>,
    output: impl AsRef<Path>,
    request: &BitCastRequest,
) -> Result<Summary, FileError> {
    let (request, opset) = (request.as_cast(), request.opset);
    for to in request.selection.targets() {
        BitCast::new(to, opset).map_err(FileError::Operator)?;
    }
    let plan = |from, to| BitCast::new(to, opset)?.plan(from);
    let select = |stored: &Stored| {
        let to = request.selection.target_of_one(&stored.name, stored.len as u64);
        to.filter(|to| to.bits() == stored.data_type.bits())
    };
    let work = Work { name: "bitcast", plan: &plan, select: &select, needs_one: true };
    convert(input.as_ref(), output.as_ref(), &request, &work)
}

/// The name of the work that notes the type of the weights in their configuration.
const CAST: &str = "cast";

/// What is to be done with a file.
pub(crate) struct Work<'a> {
    /// The command that does it.
    name: &'static str,
    /// The cast between two types.
    plan: &'a dyn Fn(DataType, DataType) -> Result<Plan, OpError>,
    /// The target of one of several tensors.
    select: &'a dyn Fn(&Stored) -> Option<DataType>,
    /// Whether it is an error that none is selected.
    needs_one: bool,
}

impl Work<'_> {
    /// Refuses to cast parts of quantized weights. Their bits may be reinterpreted.
    fn check(&self, path: &Path, summary: &Summary) -> Result<(), FileError> {
        if self.is_cast() { layouts::check_cast(path, &summary.tensors) } else { Ok(()) }
    }

    /// Whether values are cast, and not their bits reinterpreted.
    fn is_cast(&self) -> bool {
        self.name == "cast"
    }
}

fn convert(input: &Path, output: &Path, request: &CastRequest, work: &Work<'_>) -> Result<Summary, FileError> {
    if request.write.no_clobber {
        check_vacant(output)?;
    }
    let in_place = is_same(folder_named(input), folder_named(output));
    match checkpoint::locate_or_go_on(input, in_place)? {
        Located::File => convert_file(input, output, request, work),
        Located::InFolder(file) => {
            let others = Others::of(input, output, request, work.name == CAST)?;
            let target = output.join(file.file_name().unwrap_or_default());
            let files: Vec<PathBuf> = others.targets().chain([target.clone()]).collect();
            let mut replacement = Replacement::check((input, output), &files, None, &request.write)?;
            if !request.dry_run {
                replacement.begin()?;
            }
            others.finish(convert_file(&file, &target, request, work)?)
        }
        Located::Index(index) => {
            let index = Index::read_or_go_on(&index, in_place)?;
            let output = index.output(output)?;
            let others = Others::of(input, folder_of(&output), request, work.name == CAST)?;
            let shards = index.shards.iter().map(|(shard, _)| output.with_file_name(shard));
            let files: Vec<PathBuf> = others.targets().chain(shards).collect();
            let folders = (index.folder(), folder_of(&output));
            let mut replacement = Replacement::check(folders, &files, Some(&output), &request.write)?;
            let done = others.finish(convert_shards(&index, &output, request, work, &mut replacement)?)?;
            // The index comes last: where it is, the checkpoint is complete.
            if !request.dry_run {
                let total = done.tensors.iter().map(|row| row.bytes_after).sum();
                index.write(&output, total, request.write.no_clobber)?;
                replacement.finish();
            }
            Ok(done)
        }
    }
}

/// The format of a path; none of the standard input and output.
fn format_of(path: &Path) -> Result<Option<Format>, FileError> {
    if path == Path::new("-") { Ok(None) } else { Ok(Some(Format::from_path(path)?)) }
}

/// A checkpoint in several files: all of it is planned before the first is written.
fn convert_shards(
    index: &Index,
    output: &Path,
    request: &CastRequest,
    work: &Work<'_>,
    replacement: &mut Replacement,
) -> Result<Summary, FileError> {
    let each = Work { needs_one: false, ..*work };
    let mut shards = shards::of_index(index, output, request, &each)?;
    for shard in &shards {
        let input = InputFile::open(&shard.input)?;
        check_file(&input, &shard.output, Format::Safetensors, &shard.tensors, &[], &request.write)?;
    }
    let tensors = shards.iter_mut().flat_map(|shard| std::mem::take(&mut shard.tensors)).collect();
    let mut summary = Summary::new(tensors);
    work.check(index.path(), &summary)?;
    let names = summary.tensors.iter().map(|row| &*row.name);
    request.selection.check_names(names).map_err(FileError::unmatched(index.path()))?;
    if work.needs_one
        && summary.tensors.iter().all(|row| !row.cast)
        && let Some(shard) = shards.first()
    {
        shards::open(&shard.input, &shard.output, request, work)?;
    }
    // Files appear one by one, so that all of them have to be good before the first.
    let rehearses = !request.fail_on.is_empty() || (request.dry_run && request.counts());
    let passes = u64::from(rehearses) + u64::from(!request.dry_run);
    let meter = Meter::new(request.watch.as_ref(), passes * summary.bytes_before());
    if rehearses {
        let rehearse = |shard: &shards::Shard| {
            Ok(shards::open(&shard.input, &shard.output, request, &each)?.rehearse(request, &meter)?.tensors)
        };
        summary.tensors = shards.iter().map(rehearse).collect::<Result<Vec<_>, FileError>>()?.concat();
    }
    if request.dry_run {
        return Ok(summary);
    }
    replacement.begin()?;
    let mut tensors = Vec::with_capacity(summary.tensors.len());
    for shard in &shards {
        let job = shards::open(&shard.input, &shard.output, request, &each)?;
        let done = job.run(request, &meter, &|| replacement.give_way())?;
        summary.already_there += done.already_there;
        tensors.extend(done.tensors);
    }
    summary.tensors = tensors;
    Ok(summary)
}

fn convert_file(input: &Path, output: &Path, request: &CastRequest, work: &Work<'_>) -> Result<Summary, FileError> {
    let format = match request.shape {
        Some(_) => Some(Format::Raw),
        None if input == Path::new("-") => None,
        None => Some(Format::of_input(input)?),
    };
    let target = format_of(output)?;
    for (path, format, gguf) in [(input, format, "`dequantize` reads it"), (output, target, "it is only read")] {
        let hint = match format {
            Some(Format::Onnx) => "`run` evaluates a model",
            Some(Format::Gguf) => gguf,
            _ => continue,
        };
        if let (Some(format), path) = (format, path.to_owned()) {
            return Err(FormatError::Format { path, what: work.name, format, hint }.into());
        }
    }
    if target == Some(Format::Safetensors)
        && let Some(data_type) = request.selection.targets().find(|&to| safetensors::type_name(to).is_none())
    {
        let error = SafetensorsError::NoName { tensor: String::new(), data_type };
        return Err(FormatError::invalid(output, error).into());
    }
    let given = Given { from: request.from, shape: request.shape.as_deref() };
    let file = Input::open(input, format, &given)?;
    // The standard output gets the format of the input.
    let sink = Output { path: output, format: target.unwrap_or(file.format), options: &request.write };
    let mut job = Job::new(file, sink, request, work)?;
    let names = job.input.tensors.iter().map(|stored| &*stored.name);
    request.selection.check_names(names).map_err(FileError::unmatched(input))?;
    if !request.dry_run {
        job.input.settle(&job.sink.folder())?;
    } else if request.counts() {
        job.input.settle(&fs::temp_dir())?;
    }
    if job.has_strings() && !job.sink.format.holds_many() {
        // Only a file of one tensor has them.
        return job.run_strings(request);
    }
    let (summary, _) = job.plan()?;
    work.check(input, &summary)?;
    job.check_output(&summary.tensors, request)?;
    let meter = Meter::new(request.watch.as_ref(), summary.bytes_before());
    match (request.dry_run, request.counts()) {
        (true, false) => Ok(summary),
        (true, true) => job.rehearse(request, &meter),
        (false, _) => job.run(request, &meter, &|| Ok(())),
    }
}
