//! Casts as rewritings: each selected tensor of the output is a cast of one of the input.

mod strings;

use crate::checkpoint::{Checkpoint, TensorRef};
use crate::collection::{Collection, Member};
use crate::counts::Counters;
use crate::engine::{self, Opened, OutputFile, OutputPaths, OutputPlan, OutputTensor, SideFiles, Source};
use crate::error::FileError;
use crate::formats::checkpoint::JobId;
use crate::formats::error::FormatError;
use crate::formats::format::{Format, GGUF_WRITER, TORCH_WRITER, UNSEEN, is_unseen};
use crate::formats::input::{Given, Input, StoredTensor, check_type};
use crate::formats::safetensors;
use crate::io::fs;
use crate::io::positional::is_stream;
use crate::job::{self, Job};
use crate::layouts;
use crate::request::{BitCastRequest, CastRequest, RunOptions};
use crate::summary::{Ignored, Summary, TensorSummary};
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
    job::run(&CastJob::new(request), input.as_ref(), output.as_ref())
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
    job::run(&CastJob::of_bits(request), input.as_ref(), output.as_ref())
}

/// A job that casts values, or reinterprets their bits.
pub(crate) struct CastJob {
    request: CastRequest,
    /// Whether values are cast, which is an error for parts of quantized weights. If bits are reinterpreted, it is an
    /// error if no tensor is selected.
    is_cast: bool,
}

impl CastJob {
    /// Creates a job that casts values.
    pub(crate) fn new(request: &CastRequest) -> CastJob {
        CastJob { request: request.clone(), is_cast: true }
    }

    /// Creates a job that reinterprets bits.
    fn of_bits(request: &BitCastRequest) -> CastJob {
        CastJob { request: request.as_cast(), is_cast: false }
    }

    /// Returns the command's name.
    fn name(&self) -> &'static str {
        if self.is_cast { "cast" } else { "bitcast" }
    }

    /// Returns an identifier that distinguishes the job from other in-place jobs.
    fn id(&self) -> JobId {
        let CastRequest { selection, options, .. } = &self.request;
        let types: Vec<&str> = selection.targets().map(DataType::name).collect();
        let how = (selection, options.opset, options.saturate, options.round_mode);
        let request = if fs::HAS_OUTPUTS { format!("{how:?}") } else { String::new() };
        JobId { words: format!("{} to {}", self.name(), types.join(", ")), request }
    }

    /// Creates the cast between two types. It is single-threaded, because each thread casts the chunks that it reads
    /// and writes.
    fn cast(&self, from: DataType, to: DataType) -> Result<Plan, OpError> {
        let options = self.request.options.threads(1);
        if self.is_cast { Cast::new(to, &options)?.plan(from) } else { BitCast::new(to, options.opset)?.plan(from) }
    }

    /// The target of one of several tensors.
    fn target(&self, stored: &StoredTensor) -> Option<DataType> {
        let (selection, len) = (&self.request.selection, stored.len as u64);
        if self.is_cast {
            return selection.target(&stored.name, stored.data_type, len);
        }
        let to = selection.target_of_one(&stored.name, len);
        to.filter(|to| to.bits() == stored.data_type.bits())
    }

    /// Returns the options that have no effect.
    fn ignored(&self) -> Vec<Ignored> {
        match self.is_cast {
            true => [self.request.model.ignored(), self.request.ignored_attributes()].concat(),
            false => self.request.run.ignored_counts(),
        }
    }
}

impl Job for CastJob {
    fn options(&self) -> &RunOptions {
        &self.request.run
    }

    fn check(&self, input: &Path, output: &Path) -> Result<(), FileError> {
        let CastRequest { selection, options, raw, model, .. } = &self.request;
        if self.is_cast {
            selection.check_given(input)?;
            model.refuse(input)?;
        }
        raw.refuse_formats(input, output)?;
        let mut targets = selection.targets();
        let check = |to| match self.is_cast {
            true => Cast::new(to, options).map(drop),
            false => BitCast::new(to, options.opset).map(drop),
        };
        targets.try_for_each(check).map_err(FileError::Operator)
    }

    fn check_collection(&self, all: &Collection) -> Result<(), FileError> {
        let fields = [
            ("from", !self.request.raw.from.is_empty(), "is for raw bytes and .npy"),
            ("shape", self.request.raw.shape.is_some(), "is for raw bytes"),
        ];
        FileError::refuse(all.root(), &fields)?;
        all.check_selection(&self.request.selection)
    }

    fn for_member(&self, member: &Member, run: RunOptions) -> Result<Self, String> {
        let request = self.request.clone().selection(member.selection(&self.request.selection)).run(run);
        Ok(CastJob { request, is_cast: self.is_cast })
    }

    /// Opens a checkpoint, whose files are written one by one, or a file of any format.
    fn open(&self, input: &Path, output: &Path) -> Result<Opened, FileError> {
        match engine::open_folder(input, output, self.id(), &self.request.run)? {
            Some(opened) => Ok(opened),
            None => self.open_file(input, output),
        }
    }

    fn plan<'a>(&'a self, opened: &'a Opened) -> Result<OutputPlan<'a>, FileError> {
        let (checkpoint, request) = (&opened.checkpoint, &self.request);
        let format = opened.outputs.format();
        if let Some(first) = checkpoint.files.first().filter(|_| format == Format::Safetensors) {
            check_safetensors(&opened.outputs.file(first.path()), request)?;
        }
        let is_array = |format| matches!(format, Format::Npy | Format::Npz);
        let keeps_arrays = is_array(format) && checkpoint.files.iter().all(|input| is_array(input.format));
        let mut planner = Planner { keeps_arrays, ..Planner::new(self) };
        let casts = match &checkpoint.files[..] {
            [input] if !(input.format.holds_many() && format.holds_many()) => vec![planner.of_one(opened, input)?],
            files => {
                let casts = files.iter().map(|file| planner.of_many(file)).collect::<Result<Vec<_>, _>>()?;
                planner.check_any(files.first(), &casts.concat())?;
                casts
            }
        };
        let mut files = Vec::new();
        for (file, (input, casts)) in checkpoint.files.iter().zip(casts).enumerate() {
            planner.check_foreign(input, &casts)?;
            files.push(OutputFile::of(opened, input, planner.rows(file, input, casts)?));
        }
        if !opened.is_checked {
            planner.check(opened, &files)?;
            let names = files.iter().flat_map(|file| &file.rows).map(|row| &*row.summary.name);
            request.selection.check_names(names).map_err(|error| FileError::invalid(opened.path(), error))?;
        }
        let side_files = self.side_files(opened, &files)?;
        let mut notes = planner.notes(&files, checkpoint);
        if opened.index.as_ref().is_some_and(|index| index.is_unfinished) {
            let what =
                "what was done before the interruption is not counted: values that overflowed there are not named";
            notes.push(what.to_owned());
        }
        Ok(OutputPlan { notes, side_files, ..OutputPlan::new(opened, files, &request.run) })
    }

    fn run_one(&self, input: &Path, output: &Path) -> Result<Summary, FileError> {
        let mut opened = self.open(input, output)?;
        let plan = self.plan(&opened)?;
        let done = match strings::cast_of(&plan) {
            Some(cast) => {
                drop(plan);
                strings::run(&mut opened, cast, &self.request)
            }
            None => plan.run(),
        };
        Ok(done?.ignoring(self.ignored()))
    }
}

impl CastJob {
    /// Returns the other files of a folder. `config.json` is edited, because it specifies the type of the weights.
    fn side_files(&self, opened: &Opened, files: &[OutputFile<'_>]) -> Result<SideFiles, FileError> {
        let Some(folder) = opened.outputs.folder.as_ref().filter(|_| self.request.run.copies_others()) else {
            return Ok(SideFiles::default());
        };
        let mut side_files = SideFiles::of(opened, folder)?;
        let rows = files.iter().flat_map(|file| &file.rows).map(|row| &row.summary);
        let casts = self.is_cast && rows.clone().any(|row| row.cast);
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

    /// Opens a file of any format.
    fn open_file(&self, input: &Path, output: &Path) -> Result<Opened, FileError> {
        self.request.run.refuse_shards(input)?;
        let raw = &self.request.raw;
        let format = match (raw.in_format, &raw.shape) {
            (Some(format), _) => Some(format),
            (None, Some(_)) => Some(Format::Raw),
            (None, None) if is_stream(input) => None,
            (None, None) => Some(Format::of_input(input)?),
        };
        let target = raw.out_format.map_or_else(|| format_of(output), |format| Ok(Some(format)))?;
        check_formats([(input, format, "`dequantize` reads it"), (output, target, GGUF_WRITER)], self.name())?;
        if target == Some(Format::Safetensors) {
            check_safetensors(output, &self.request)?;
        }
        let mut file = Input::open(input, format, &Given { from: &raw.from, shape: raw.shape.as_deref() })?;
        let format = output_format(&file, target, output)?;
        if !(file.format.holds_many() && format.holds_many()) {
            file = file.single("another format", &raw.from)?;
            if let Some(stored) =
                file.tensors.first_mut().filter(|stored| format.holds_many() && stored.name.is_empty())
            {
                // The format asks for a name; the file's is the best that there is.
                stored.name = input.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            }
        }
        let outputs = OutputPaths { single: Some(output.to_owned()), format: Some(format), ..OutputPaths::default() };
        Ok(Opened::of(input, vec![file], outputs))
    }
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

/// Returns the format of an output. If the output does not imply a format, it gets the input's, or `.safetensors` if
/// the input's format cannot be written.
fn output_format(input: &Input, target: Option<Format>, output: &Path) -> Result<Format, FileError> {
    let own = if input.format == Format::Torch { Format::Safetensors } else { input.format };
    let format = target.unwrap_or(own);
    if input.format == Format::Torch && format == Format::Raw && !is_stream(output) && !is_unseen(output) {
        let what = format!("raw bytes in the place of a checkpoint (want .safetensors, or .{UNSEEN})");
        return Err(FormatError::request(output, what).into());
    }
    Ok(format)
}

/// Refuses models and `.gguf` files, each with what to do instead.
fn check_formats(files: [(&Path, Option<Format>, &'static str); 2], job: &str) -> Result<(), FileError> {
    let [(_, from, _), (output, to, _)] = files;
    if to == Some(Format::Onnx) && from != to {
        let what = format!("tensors do not become a model (want {})", Format::tensors());
        return Err(FormatError::request(output, what).into());
    }
    if to == Some(Format::Torch) {
        return Err(FormatError::request(output, TORCH_WRITER).into());
    }
    for (path, format, gguf) in files {
        let hint = match format {
            Some(Format::Onnx) => "`run` evaluates a model",
            Some(Format::Gguf) => gguf,
            _ => continue,
        };
        if let Some(format) = format {
            return Err(FormatError::format(path, job, format, hint).into());
        }
    }
    Ok(())
}

/// Decides what becomes of each tensor.
struct Planner<'a> {
    job: &'a CastJob,
    counters: Counters,
    /// Whether both files hold arrays, so that those that are not cast keep every byte.
    keeps_arrays: bool,
}

impl<'a> Planner<'a> {
    fn new(job: &'a CastJob) -> Self {
        Planner { job, counters: Counters::new(job.request.run.counts()), keeps_arrays: false }
    }

    /// Whether an array keeps every byte, its header included.
    fn copies(&self, stored: &StoredTensor, cast: Option<Plan>) -> bool {
        // Plain unsigned integers are another array.
        let stays = !self.job.request.run.write.npy_plain || stored.data_type.interchange().numpy.is_some();
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
        let rows = files.iter().filter(|file| self.job.is_cast && file.format == Format::Safetensors);
        let unscaled = note_on_scales(rows.flat_map(|file| &file.rows).map(|row| &row.summary));
        kept.into_iter().chain(unscaled).collect()
    }

    /// Refuses to cast parts of quantized weights.
    fn check(&self, opened: &Opened, files: &[OutputFile<'_>]) -> Result<(), FileError> {
        if !self.job.is_cast {
            return Ok(());
        }
        let rows = files.iter().flat_map(|file| &file.rows).map(|row| &row.summary);
        let to = |row: &TensorSummary| if row.cast { row.to } else { row.from };
        let tensors = rows.map(|row| ((&*row.name, row.from, row.shape.len()), to(row)));
        layouts::check_cast(opened.path(), &tensors.collect::<Vec<_>>())
    }

    /// The cast of the tensor of a file of one, if there is a tensor.
    fn of_one(&self, opened: &Opened, input: &Input) -> Result<Vec<Option<Plan>>, FileError> {
        let Some(stored) = input.tensors.first() else { return Ok(Vec::new()) };
        let to = self.job.request.selection.target_of_one(&stored.name, stored.len as u64);
        if let (Some(_), Some((_, why))) = (to, stored.foreign()) {
            return Err(FileError::invalid(input.path(), why.clone().of_tensor(&stored.name)));
        }
        let plan = to.map(|to| self.job.cast(stored.data_type, to)).transpose();
        let plan = plan.map_err(|error| FileError::cast(input.path(), &stored.name, error.into()))?;
        let mixes = |to: DataType| (stored.data_type == DataType::String) != (to == DataType::String);
        if opened.outputs.format().holds_many() && to.is_some_and(mixes) {
            return Err(FileError::strings(&opened.outputs.file(input.path()), &stored.name));
        }
        Ok(vec![plan])
    }

    /// The casts from several tensors to several.
    fn of_many(&self, input: &Input) -> Result<Vec<Option<Plan>>, FileError> {
        let plan = |stored: &StoredTensor| {
            if let Some((_, why)) = stored.foreign() {
                // A kept array needs no type. One that a pattern names is to be cast, which is an error.
                return match self.job.request.selection.names(&stored.name, stored.len as u64) {
                    true => Err(FileError::invalid(input.path(), why.clone().of_tensor(&stored.name))),
                    false => Ok(None),
                };
            }
            let Some(to) = self.job.target(stored) else { return Ok(None) };
            check_type(input.path(), stored, &self.job.request.raw.from)?;
            if (to == DataType::String) != (stored.data_type == DataType::String) {
                return Err(FileError::strings(input.path(), &stored.name));
            }
            self.plan(input, stored, to).map(Some)
        };
        input.tensors.iter().map(plan).collect()
    }

    fn plan(&self, input: &Input, stored: &StoredTensor, to: DataType) -> Result<Plan, FileError> {
        self.job.cast(stored.data_type, to).map_err(|error| input.cast_error(&stored.name, error.into()).into())
    }

    /// Of bits it is an error that no tensor is as wide as the target: the operator's own for the first tensor.
    fn check_any(&self, first: Option<&Input>, casts: &[Option<Plan>]) -> Result<(), FileError> {
        if !self.job.is_cast
            && casts.iter().all(Option::is_none)
            && let (Some(input), Some(to)) = (first, self.job.request.selection.to)
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
            let counter = plan.filter(|_| self.job.is_cast);
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

/// Summarizes the cast of a tensor. The size of a result is unknown if the cast is from or to strings.
fn summary(stored: &StoredTensor, plan: Option<Plan>) -> Result<TensorSummary, TensorError> {
    let StoredTensor { name, shape, data_type: from, len, .. } = stored;
    let to = plan.map_or(*from, |plan| plan.target_type());
    let bytes = |data_type: DataType| {
        if [*from, data_type].contains(&DataType::String) {
            return Ok(stored.bytes());
        }
        let len = data_type.byte_len(*len).map(|len| len as u64);
        len.ok_or_else(|| TensorErrorKind::TooLarge { data_type, shape: shape.clone() })
    };
    let descr = stored.foreign().map(|(descr, _)| descr.to_owned());
    let kept = TensorSummary { descr, ..TensorSummary::kept(name, shape.clone(), *from, bytes(*from)?) };
    Ok(TensorSummary { to, bytes_after: bytes(to)?, cast: plan.is_some(), ..kept })
}
