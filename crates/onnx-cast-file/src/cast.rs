//! Casts as rewritings: each selected tensor of the output is a cast of one of the input.

mod strings;

use crate::collection::{Collection, Outcome};
use crate::counts::Counters;
use crate::engine::{self, Opened, OutputFile, OutputPaths, OutputPlan, OutputTensor, SideFiles, Source};
use crate::error::FileError;
use crate::formats::checkpoint::Job;
use crate::formats::error::FormatError;
use crate::formats::format::{Format, GGUF_WRITER};
use crate::formats::input::{Given, Input, StoredTensor, check_type};
use crate::formats::output::Output;
use crate::formats::safetensors;
use crate::io::fs;
use crate::io::positional::is_stream;
use crate::layouts::{self, Checkpoint, TensorRef};
use crate::request::{BitCastRequest, CastRequest};
use crate::summary::{Summary, TensorSummary};
use crate::text::{Count, named};
use onnx_cast::__private::DefaultEnvironment;
use onnx_cast::ops::OpError;
use onnx_cast::tensor::{TensorError, TensorErrorKind};
use onnx_cast::{BitCast, Cast, DataType, Plan};
use std::collections::HashMap;
use std::path::Path;

/// Casts a file: the tensor of a `.pb`, `.npy` or `.safetensors` file to another file of any of these formats; of a
/// `.safetensors` file to a `.safetensors` file every tensor that is selected, all others and the metadata kept.
///
/// The tensor of a file of one is cast whatever its type; names and sizes may still exclude it.
///
/// Input and output may be the same path. On any error the output is as it was before.
///
/// # Errors
/// Where a file cannot be read or written, the input is not valid, a tensor cannot be cast, the output's format has no
/// place for the result, or a field of the request is for models.
pub fn cast_file(
    input: impl AsRef<Path>,
    output: impl AsRef<Path>,
    request: &CastRequest,
) -> Result<Summary, FileError> {
    let _environment = DefaultEnvironment::enter();
    let input = input.as_ref();
    let output = output.as_ref();
    request.selection.check_given(input)?;
    request.model.refuse(input)?;
    request.raw.refuse_formats(input, output)?;
    let Some(all) = Collection::find(input)? else { return cast_checkpoint(input, output, request) };
    let fields = [
        ("from", !request.raw.from.is_empty(), "is for raw bytes and .npy"),
        ("shape", request.raw.shape.is_some(), "is for raw bytes"),
    ];
    FileError::refuse(input, &fields)?;
    all.check_selection(&request.selection)?;
    all.run(output, &request.run, |member, output, run| {
        let request = request.clone().selection(member.selection(&request.selection)).run(run);
        Ok(Outcome::Written(cast_checkpoint(member.path(), output, &request)?))
    })
}

fn cast_checkpoint(input: &Path, output: &Path, request: &CastRequest) -> Result<Summary, FileError> {
    let done = with_cast(request, |work| convert(input, output, request, work))?;
    Ok(done.ignoring(request.model.ignored()).ignoring(request.ignored_attributes()))
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
    let select = |stored: &StoredTensor| request.selection.target(&stored.name, stored.data_type, stored.len as u64);
    run(&Work { name: "cast", plan: &plan, select: &select, is_cast: true })
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
    let _environment = DefaultEnvironment::enter();
    let (input, output) = (input.as_ref(), output.as_ref());
    request.raw.refuse_formats(input, output)?;
    let Some(all) = Collection::find(input)? else { return bit_cast_checkpoint(input, output, request) };
    all.check_selection(&request.selection)?;
    all.run(output, &request.run, |member, output, run| {
        let request = request.clone().selection(member.selection(&request.selection)).run(run);
        Ok(Outcome::Written(bit_cast_checkpoint(member.path(), output, &request)?))
    })
}

fn bit_cast_checkpoint(input: &Path, output: &Path, request: &BitCastRequest) -> Result<Summary, FileError> {
    let ignored = request.run.ignored_counts();
    let (request, opset) = (request.as_cast(), request.opset);
    for to in request.selection.targets() {
        BitCast::new(to, opset).map_err(FileError::Operator)?;
    }
    let plan = |from, to| BitCast::new(to, opset)?.plan(from);
    let select = |stored: &StoredTensor| {
        let to = request.selection.target_of_one(&stored.name, stored.len as u64);
        to.filter(|to| to.bits() == stored.data_type.bits())
    };
    let work = Work { name: "bitcast", plan: &plan, select: &select, is_cast: false };
    Ok(convert(input, output, &request, &work)?.ignoring(ignored))
}

/// What is to be done with a file.
pub(crate) struct Work<'a> {
    /// The command that does it.
    name: &'static str,
    /// The cast between two types.
    plan: &'a dyn Fn(DataType, DataType) -> Result<Plan, OpError>,
    /// The target of one of several tensors.
    select: &'a dyn Fn(&StoredTensor) -> Option<DataType>,
    /// Whether values are cast, and not their bits reinterpreted, which may be done with parts of quantized weights;
    /// then it is an error that no tensor is selected.
    is_cast: bool,
}

/// What tells a job from others that could be done in place.
pub(crate) fn job(name: &str, CastRequest { selection, options, .. }: &CastRequest) -> Job {
    let types: Vec<&str> = selection.targets().map(DataType::name).collect();
    let how = (selection, options.opset, options.saturate, options.round_mode);
    let request = if fs::HAS_OUTPUTS { format!("{how:?}") } else { String::new() };
    Job { words: format!("{name} to {}", types.join(", ")), request }
}

fn convert(input: &Path, output: &Path, request: &CastRequest, work: &Work<'_>) -> Result<Summary, FileError> {
    match engine::open_folder(input, output, &job(work.name, request))? {
        Some(opened) => plan(&opened, request, work, |rewrite| rewrite.run()),
        None => convert_file(input, output, request, work),
    }
}

/// Hands the casts of a checkpoint to a function that runs them.
pub(crate) fn plan<R>(
    opened: &Opened<'_>,
    request: &CastRequest,
    work: &Work<'_>,
    run: impl FnOnce(OutputPlan<'_>) -> Result<R, FileError>,
) -> Result<R, FileError> {
    let checkpoint = &opened.checkpoint;
    if let Some(first) = checkpoint.files.first() {
        check_safetensors(&opened.outputs.file(first.path()), request)?;
    }
    let mut planner = Planner::new(request, work);
    let casts = checkpoint.files.iter().map(|file| planner.of_many(file)).collect::<Result<Vec<_>, _>>()?;
    planner.check_any(checkpoint.files.first(), &casts.concat())?;
    let mut files = Vec::new();
    for (file, (input, casts)) in checkpoint.files.iter().zip(casts).enumerate() {
        files.push(OutputFile::of(opened, input, planner.rows(file, input, casts)?));
    }
    if !opened.is_checked {
        planner.check(opened, &files)?;
        let names = files.iter().flat_map(|file| &file.rows).map(|row| &*row.summary.name);
        request.selection.check_names(names).map_err(|error| FileError::invalid(opened.path(), error))?;
    }
    let side_files = side_files(opened, &files, request, work)?;
    let mut notes = planner.notes(&files, checkpoint);
    if opened.index.as_ref().is_some_and(|index| index.is_unfinished) {
        let what = "what was done before the interruption is not counted: values that overflowed there are not named";
        notes.push(what.to_owned());
    }
    run(OutputPlan { notes, side_files, ..OutputPlan::new(opened, files, &request.run) })
}

/// The other files of a folder, of which `config.json` names the type of the weights.
fn side_files(
    opened: &Opened<'_>,
    files: &[OutputFile<'_>],
    request: &CastRequest,
    work: &Work<'_>,
) -> Result<SideFiles, FileError> {
    let Some(folder) = opened.outputs.folder.as_ref().filter(|_| request.run.copies_others()) else {
        return Ok(SideFiles::default());
    };
    let mut side_files = SideFiles::of(opened, folder)?;
    let rows = files.iter().flat_map(|file| &file.rows).map(|row| &row.summary);
    let casts = work.is_cast && rows.clone().any(|row| row.cast);
    if let Some(name) = dominant(rows).filter(|_| casts).and_then(layouts::torch_name) {
        let edit = |path: &Path| layouts::with_torch_dtype(&fs::read_to_string(path).ok()?, name);
        if fs::HAS_OUTPUTS && opened.in_place {
            side_files.edit_in_place(folder, edit)?;
        } else {
            side_files.edit_config(folder, edit);
        }
    }
    Ok(side_files)
}

/// A note that recommends `quantize` if float matrices are cast to a narrow type without scales.
pub fn note_on_scales<'r>(rows: impl Iterator<Item = &'r TensorSummary>) -> Option<String> {
    let is_coarse = |to: DataType| !to.is_float() || to.bits() < Some(8);
    let is_matrix = |row: &&TensorSummary| row.from.is_float() && row.shape.len() > 1;
    let coarse: Vec<_> = rows.filter(is_matrix).filter(|row| row.cast && is_coarse(row.to)).collect();
    let (count, to) = (Count(coarse.len(), "float tensor"), coarse.first()?.to);
    Some(format!("{count} cast to {to} without scales, where small weights become 0 (`quantize` gives them scales)"))
}

/// The type of most floating-point elements.
fn dominant<'r>(tensors: impl Iterator<Item = &'r TensorSummary>) -> Option<DataType> {
    let mut elements: HashMap<DataType, u128> = HashMap::new();
    for row in tensors.filter(|row| row.to.is_float()) {
        *elements.entry(row.to).or_default() += row.shape.iter().map(|&size| size as u128).product::<u128>();
    }
    elements.into_iter().max_by_key(|&(data_type, count)| (count, data_type.onnx())).map(|(data_type, _)| data_type)
}

/// The format of an output; none of the standard output and of devices.
fn format_of(path: &Path) -> Result<Option<Format>, FileError> {
    if is_stream(path) || Format::is_of_device(path) { Ok(None) } else { Ok(Some(Format::from_path(path)?)) }
}

/// Refuses types that a `.safetensors` file has no name for.
fn check_safetensors(output: &Path, request: &CastRequest) -> Result<(), FileError> {
    match request.selection.targets().find(|&to| safetensors::type_name(to).is_none()) {
        Some(data_type) => Err(FormatError::invalid(output, safetensors::no_name("", data_type)).into()),
        None => Ok(()),
    }
}

/// Refuses models and `.gguf` files, each with what to do instead.
fn check_formats(files: [(&Path, Option<Format>, &'static str); 2], work: &Work<'_>) -> Result<(), FileError> {
    let [(_, from, _), (output, to, _)] = files;
    if to == Some(Format::Onnx) && from != to {
        let what = format!("tensors do not become a model (want {})", Format::tensors());
        return Err(FormatError::request(output, what).into());
    }
    for (path, format, gguf) in files {
        let hint = match format {
            Some(Format::Onnx) => "`run` evaluates a model",
            Some(Format::Gguf) => gguf,
            _ => continue,
        };
        if let Some(format) = format {
            return Err(FormatError::format(path, work.name, format, hint).into());
        }
    }
    Ok(())
}

fn convert_file(input: &Path, output: &Path, request: &CastRequest, work: &Work<'_>) -> Result<Summary, FileError> {
    let format = match (request.raw.in_format, &request.raw.shape) {
        (Some(format), _) => Some(format),
        (None, Some(_)) => Some(Format::Raw),
        (None, None) if is_stream(input) => None,
        (None, None) => Some(Format::of_input(input)?),
    };
    let target = request.raw.out_format.map_or_else(|| format_of(output), |format| Ok(Some(format)))?;
    check_formats([(input, format, "`dequantize` reads it"), (output, target, GGUF_WRITER)], work)?;
    if target == Some(Format::Safetensors) {
        check_safetensors(output, request)?;
    }
    let given = Given { from: &request.raw.from, shape: request.raw.shape.as_deref() };
    let mut file = Input::open(input, format, &given)?;
    // Without one of its own, the standard output gets the format of the input.
    let format = target.unwrap_or(file.format);
    let is_kept = |format| matches!(format, Format::Npy | Format::Npz);
    let keeps_arrays = is_kept(file.format) && is_kept(format);
    let mut planner = Planner { keeps_arrays, ..Planner::new(request, work) };
    let casts = if file.format.holds_many() && format.holds_many() {
        let casts = planner.of_many(&file)?;
        planner.check_any(Some(&file), &casts)?;
        casts
    } else {
        file = file.single("another format", &request.raw.from)?;
        vec![planner.of_one(&mut file, format)?]
    };
    let names = file.tensors.iter().map(|stored| &*stored.name);
    request.selection.check_names(names).map_err(|error| FileError::invalid(input, error))?;
    let sink = Output { path: output, format, options: &request.run.write };
    planner.check_foreign(&file, &casts)?;
    let copied = |index: &usize| planner.copies(&file.tensors[*index], casts[*index]);
    let settled: Vec<usize> = (0..casts.len()).filter(|index| !copied(index)).collect();
    if !request.run.dry_run {
        file.settle(&sink.folder(), settled.into_iter())?;
    } else if request.run.counts() {
        file.settle(&fs::temp_dir(), settled.into_iter())?;
    }
    let all_copied = file.tensors.iter().zip(&casts).all(|(stored, cast)| planner.copies(stored, *cast));
    if !all_copied && strings::are_in(&file, &casts) {
        match casts[..] {
            [cast] if !format.holds_many() => return strings::run(&mut file, cast, &sink, request),
            // Where both files hold many tensors, this was refused when the casts were chosen.
            [Some(cast)] if (cast.source_type() == DataType::String) != (cast.target_type() == DataType::String) => {
                let tensor = file.tensors.first().map(|stored| &*stored.name).unwrap_or_default();
                return Err(FileError::strings(output, tensor));
            }
            _ => {}
        }
    }
    let rows = planner.rows(0, &file, casts)?;
    let metadata = file.metadata.clone();
    let opened = Opened::of(input, vec![file], OutputPaths::default());
    let files = vec![OutputFile { path: output.to_owned(), format, metadata, head: None, rows }];
    planner.check(&opened, &files)?;
    let notes = planner.notes(&files, &opened.checkpoint);
    OutputPlan { notes, ..OutputPlan::new(&opened, files, &request.run) }.run()
}

/// Decides what becomes of each tensor.
struct Planner<'a> {
    request: &'a CastRequest,
    work: &'a Work<'a>,
    counters: Counters,
    /// Whether both files hold arrays, so that those that are not cast keep every byte.
    keeps_arrays: bool,
}

impl<'a> Planner<'a> {
    fn new(request: &'a CastRequest, work: &'a Work<'a>) -> Self {
        Planner { request, work, counters: Counters::new(request.run.counts()), keeps_arrays: false }
    }

    /// Whether an array keeps every byte, its header included.
    fn copies(&self, stored: &StoredTensor, cast: Option<Plan>) -> bool {
        // Plain unsigned integers are another array.
        let stays = !self.request.run.write.npy_plain || stored.data_type.interchange().numpy.is_some();
        self.keeps_arrays && cast.is_none() && (stays || stored.foreign().is_some())
    }

    /// Refuses foreign arrays in an output that cannot hold them.
    fn check_foreign(&self, input: &Input, casts: &[Option<Plan>]) -> Result<(), FileError> {
        let mut others = input.tensors.iter().zip(casts).filter(|(stored, cast)| !self.copies(stored, **cast));
        match others.find_map(|(stored, _)| Some((stored, stored.foreign()?))) {
            Some((stored, (_, why))) => Err(FileError::invalid(input.path(), why.clone().of_tensor(&stored.name))),
            None => Ok(()),
        }
    }

    /// Names the arrays that are kept because their elements cannot be read, and says of weights that lose nearly
    /// everything how they would not.
    fn notes(&self, files: &[OutputFile<'_>], checkpoint: &Checkpoint) -> Vec<String> {
        // A note is the same text in every front end, and names no field.
        let why = |stored: &StoredTensor| Some(stored.foreign()?.1.what.start().trim_end_matches(" (").to_owned());
        let reason = |stored: &StoredTensor| Some((stored.name.clone(), why(stored)?));
        let foreign: Vec<_> = checkpoint.tensors().filter_map(|(_, stored)| reason(stored)).collect();
        let kept = match &foreign[..] {
            [] => None,
            [(name, why)] if name.is_empty() => Some(format!("kept byte for byte: {why}")),
            all => Some(format!("{} kept byte for byte: {}", Count(all.len(), "tensor"), named(all))),
        };
        let rows = files.iter().filter(|file| self.work.is_cast && file.format == Format::Safetensors);
        let unscaled = note_on_scales(rows.flat_map(|file| &file.rows).map(|row| &row.summary));
        kept.into_iter().chain(unscaled).collect()
    }

    /// Refuses to cast parts of quantized weights.
    fn check(&self, opened: &Opened<'_>, files: &[OutputFile<'_>]) -> Result<(), FileError> {
        if !self.work.is_cast {
            return Ok(());
        }
        let rows = files.iter().flat_map(|file| &file.rows).map(|row| &row.summary);
        let to = |row: &TensorSummary| if row.cast { row.to } else { row.from };
        let tensors = rows.map(|row| ((&*row.name, row.from, row.shape.len()), to(row)));
        layouts::check_cast(opened.path(), &tensors.collect::<Vec<_>>())
    }

    /// The cast of the tensor of a file of one.
    fn of_one(&self, input: &mut Input, format: Format) -> Result<Option<Plan>, FileError> {
        let stem = input.path().file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let Some(stored) = input.tensors.first_mut() else { return Ok(None) };
        if format.holds_many() && stored.name.is_empty() {
            // The format asks for a name; the file's is the best that there is.
            stored.name = stem;
        }
        let to = self.request.selection.target_of_one(&stored.name, stored.len as u64);
        if let (Some(_), Some((_, why))) = (to, stored.foreign()) {
            return Err(FileError::invalid(input.file.path(), why.clone().of_tensor(&stored.name)));
        }
        let plan = to.map(|to| (self.work.plan)(stored.data_type, to)).transpose();
        plan.map_err(|error| FileError::cast(input.file.path(), &stored.name, error.into()))
    }

    /// The casts from several tensors to several.
    fn of_many(&self, input: &Input) -> Result<Vec<Option<Plan>>, FileError> {
        let plan = |stored: &StoredTensor| {
            if let Some((_, why)) = stored.foreign() {
                // A kept array needs no type. One that a pattern names is to be cast, which is an error.
                return match self.request.selection.names(&stored.name, stored.len as u64) {
                    true => Err(FileError::invalid(input.path(), why.clone().of_tensor(&stored.name))),
                    false => Ok(None),
                };
            }
            let Some(to) = (self.work.select)(stored) else { return Ok(None) };
            check_type(input.path(), stored, &self.request.raw.from)?;
            if (to == DataType::String) != (stored.data_type == DataType::String) {
                return Err(FileError::strings(input.path(), &stored.name));
            }
            self.plan(input, stored, to).map(Some)
        };
        input.tensors.iter().map(plan).collect()
    }

    fn plan(&self, input: &Input, stored: &StoredTensor, to: DataType) -> Result<Plan, FileError> {
        (self.work.plan)(stored.data_type, to).map_err(|error| input.cast_error(&stored.name, error.into()).into())
    }

    /// Of bits it is an error that no tensor is as wide as the target: the operator's own for the first tensor.
    fn check_any(&self, first: Option<&Input>, casts: &[Option<Plan>]) -> Result<(), FileError> {
        if !self.work.is_cast
            && casts.iter().all(Option::is_none)
            && let (Some(input), Some(to)) = (first, self.request.selection.to)
            && let Some(stored) = input.tensors.first()
        {
            self.plan(input, stored, to)?;
        }
        Ok(())
    }

    fn rows(
        &mut self,
        file: usize,
        input: &Input,
        casts: Vec<Option<Plan>>,
    ) -> Result<Vec<OutputTensor<'static>>, FileError> {
        let mut rows = Vec::with_capacity(casts.len());
        for (tensor, (stored, plan)) in input.tensors.iter().zip(casts).enumerate() {
            let summary = summary(stored, plan).map_err(|error| input.cast_error(&stored.name, error.into()))?;
            let counter = plan.filter(|_| self.work.is_cast);
            let counter = counter.and_then(|plan| self.counters.of(plan.source_type(), plan.target_type()));
            let source = match plan {
                Some(plan) => Source::Cast(plan, counter.map(Box::new)),
                None if self.copies(stored, plan) => Source::Array,
                None => Source::Kept,
            };
            rows.push(OutputTensor { summary, tensor: TensorRef { file, tensor }, source });
        }
        Ok(rows)
    }
}

/// What is done with a tensor that holds no strings.
fn summary(stored: &StoredTensor, plan: Option<Plan>) -> Result<TensorSummary, TensorError> {
    let StoredTensor { name, shape, data_type: from, len, .. } = stored;
    let to = plan.map_or(*from, |plan| plan.target_type());
    let bytes = |data_type: DataType| {
        if *from == DataType::String {
            return Ok(stored.bytes());
        }
        let len = data_type.byte_len(*len).map(|len| len as u64);
        len.ok_or_else(|| TensorErrorKind::TooLarge { data_type, shape: shape.clone() })
    };
    let descr = stored.foreign().map(|(descr, _)| descr.to_owned());
    let kept = TensorSummary { descr, ..TensorSummary::kept(name, shape.clone(), *from, bytes(*from)?) };
    Ok(TensorSummary { to, bytes_after: bytes(to)?, cast: plan.is_some(), ..kept })
}
