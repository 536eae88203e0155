//! The one way from open files to written ones: each file of the input gives a file of the output, in which tensors are
//! kept byte for byte, cast, or computed. A job plans where every tensor comes from; everything else is here: headers,
//! checks of what is replaced, going on, losses, progress, and the other files of a folder (`side_files.rs`).
//! `pass.rs` moves the elements of a file. `memory.rs` has the same for tensors in memory, `part.rs` for a part of one
//! file, `archive.rs` writes archives.

mod archive;
mod measure;
mod memory;
mod open;
mod part;
mod pass;
mod replacement;
mod shards;
mod side_files;

pub use memory::MadeTensors;
pub(crate) use open::{Opened, OutputPaths, check_folder, format_of_output, open, open_folder, open_to_file};
pub use part::{Part, Shard};
pub(crate) use side_files::{MODULES, PIPELINE, SideFiles, Text, holds_weights, name_of};

use crate::checkpoint::{Checkpoint, TensorRef};
use crate::counts::Counter;
use crate::error::FileError;
use crate::formats::checkpoint::Index;
use crate::formats::error::{FormatError, Invalid, InvalidKind};
use crate::formats::existing::Existing;
use crate::formats::folder::Contents;
use crate::formats::format::Format;
use crate::formats::gguf::WRITTEN_ALIGNMENT;
use crate::formats::input::{Input, Location};
use crate::formats::npz;
use crate::formats::output::Output;
use crate::formats::safetensors;
use crate::formats::source::Items;
use crate::io::atomic::{NewFolders, Occupant, create_folder, folder_of, occupant, target_of};
use crate::io::fs::{self, HAS_OUTPUTS, is_same, place_of};
use crate::io::positional::{InputFile, is_stream};
use crate::io::progress::Meter;
use crate::layouts::{self, Scales};
use crate::pipeline::{self, Amax, Compute, InPlace, Nowhere, Same, Task, TaskInput};
use crate::request::RunOptions;
use crate::summary::{Ignored, Summary, TensorSummary};
use crate::text::{PathText, Short, named};
use onnx_cast::tensor::element_count;
use onnx_cast::{DataType, Plan};
use replacement::{NewFiles, Replacement};
pub(crate) use replacement::{retire, stale};
use serde_json::Value;
use side_files::CONFIG;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A tensor of the output.
pub(crate) struct OutputTensor<'a> {
    pub(crate) summary: TensorSummary,
    /// The tensor that it is made of.
    pub(crate) tensor: TensorRef,
    pub(crate) source: Source<'a>,
}

/// Where the elements of a tensor of the output come from.
pub(crate) enum Source<'a> {
    /// Not copied: the tensor is kept, and already in memory.
    NotCopied,
    /// The stored elements, unchanged.
    Kept,
    /// The bytes of the stored array, including its header.
    Array,
    /// The stored elements, cast. The counter counts losses; it is `None` if bits are reinterpreted.
    Cast(Plan, Option<Box<Counter>>),
    Computed(Box<Computed<'a>>),
    /// Encoded blocks of computed elements, each including its scale.
    Encoded(Box<dyn Compute + 'a>, Option<Arc<Counter>>),
    /// Part of the same computation as the previous tensor.
    WithPrevious,
    Bytes(Vec<u8>),
}

/// A tensor that is computed.
pub(crate) struct Computed<'a> {
    pub(crate) source: Box<dyn Compute + 'a>,
    /// The type that is computed.
    pub(crate) data_type: DataType,
    /// Cast that is applied to the computed elements.
    pub(crate) cast: Option<Plan>,
    /// Counts what the cast loses.
    pub(crate) counter: Option<Arc<Counter>>,
}

/// A check that runs before anything is written.
pub(crate) struct Check<'a> {
    /// The elements of the weight.
    pub(crate) tensor: TensorRef,
    /// Computes `len` elements of `data_type`. The elements are discarded; the source records its findings.
    pub(crate) source: Arc<dyn Compute + 'a>,
    pub(crate) data_type: DataType,
    pub(crate) len: usize,
    /// Returns the result after all elements have been computed.
    pub(crate) verdict: Box<dyn Fn() -> Result<(), FileError> + 'a>,
}

/// A file of the output.
pub(crate) struct OutputFile<'a> {
    pub(crate) path: PathBuf,
    pub(crate) format: Format,
    pub(crate) metadata: Option<Vec<(String, String)>>,
    /// The bytes before the elements, where the job writes them itself.
    pub(crate) head: Option<Vec<u8>>,
    pub(crate) rows: Vec<OutputTensor<'a>>,
}

/// An output, all of it planned.
pub(crate) struct OutputPlan<'a> {
    pub(crate) opened: &'a Opened,
    pub(crate) files: Vec<OutputFile<'a>>,
    /// The index, if the output has one.
    pub(crate) index: Option<PathBuf>,
    /// Scales that are searched for NaN before everything else, by the process that plans.
    pub(crate) scales: Scales,
    /// Comparisons that come before anything is written.
    pub(crate) checks: Vec<Check<'a>>,
    /// Tensors whose amax must be measured before writing.
    pub(crate) measured: Vec<(TensorRef, Arc<Amax>)>,
    pub(crate) side_files: SideFiles,
    /// What `config.json` is to say of quantization.
    pub(crate) configuration: Option<Value>,
    /// Scales and zero points of activations that are left out.
    pub(crate) dropped: Vec<String>,
    /// What the summary is to say of weights that are not quantized.
    pub(crate) passed_over: Vec<(String, String)>,
    /// Names of the values that the output cannot store, each with the reason.
    pub(crate) left_out: Vec<(String, String)>,
    /// What to know before the output is used.
    pub(crate) notes: Vec<String>,
    /// Options that have no effect.
    pub(crate) ignored: Vec<Ignored>,
    pub(crate) options: &'a RunOptions,
}

/// The rule for an existing output. A file that is its own input can only be replaced.
pub(crate) fn existing_of(input: &Path, output: &Path, existing: Existing) -> Existing {
    if is_same(input, output) { existing.in_place() } else { existing }
}

/// The bytes before and after the elements of a file.
type Frame = (Vec<u8>, Vec<u8>);

impl<'a> OutputPlan<'a> {
    /// Of these files alone.
    pub(crate) fn new(opened: &'a Opened, files: Vec<OutputFile<'a>>, options: &'a RunOptions) -> Self {
        let (checks, measured, dropped) = (Vec::new(), Vec::new(), Vec::new());
        let (passed_over, left_out, notes, ignored) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let (side_files, configuration) = (SideFiles::default(), None);
        OutputPlan {
            opened,
            files,
            index: opened.outputs.index.clone(),
            scales: Vec::new(),
            checks,
            measured,
            side_files,
            configuration,
            dropped,
            passed_over,
            left_out,
            notes,
            ignored,
            options,
        }
    }

    /// Writes the output; on a dry run only what is to be counted is computed.
    pub(crate) fn run(mut self) -> Result<Summary, FileError> {
        self.divide()?;
        self.check_names()?;
        let options = self.options;
        let frames = self.files.iter().map(|file| self.frame(file)).collect::<Result<Vec<_>, _>>()?;
        let mut summary = self.summary();
        summary.copied = self.side_files.count;
        summary.left_out.extend_from_slice(&self.side_files.left_out);
        let mut replacement = self.check_outputs()?;
        summary.kept_others = self.check_continued(&frames)?;
        summary.removed = replacement.stale_names();
        // Files appear one by one, so that all of them have to be good before the first.
        let fails = !options.fail_on.is_empty();
        let rehearses = if options.dry_run { options.counts() } else { fails && self.files.len() > 1 };
        self.check_scales()?;
        let meter = self.meter(rehearses, !options.dry_run);
        self.check(&self.checks.iter().collect::<Vec<_>>(), &meter)?;
        if rehearses || !options.dry_run {
            self.measure(&self.measured, &meter)?;
        }
        if rehearses {
            self.rehearse(&meter, &mut summary)?;
        }
        if options.dry_run {
            return Ok(summary);
        }
        let new_folders = self.new_folders();
        if let Err(error) = replacement.begin(&self.opened.input) {
            // They may be empty because another job is about to fill them.
            new_folders.keep();
            return Err(error);
        }
        let mut files: Vec<_> = self.files.iter().zip(&frames).collect();
        if options.resume {
            // Before anything is written it is known that what is there belongs to this output.
            files.sort_by_key(|(file, _)| !fs::is_file(&file.path));
        }
        for (file, frame) in files {
            if self.write(file, frame, &meter, &mut summary, &mut replacement)? {
                summary.already_there += 1;
            }
        }
        self.note_counts(&mut summary)?;
        self.finish()?;
        replacement.finish()?;
        new_folders.keep();
        Ok(summary)
    }

    /// The folders that the output needs, and that are missing.
    fn new_folders(&self) -> NewFolders {
        let folder = self.opened.outputs.folder.as_ref();
        folder.map_or_else(NewFolders::default, |folder| NewFolders::of(&folder.join("x")))
    }

    /// Writes a file, unless it is there already; then the result is true.
    fn write(
        &self,
        file: &OutputFile<'_>,
        frame: &Frame,
        meter: &Meter<'_>,
        summary: &mut Summary,
        replacement: &mut Replacement,
    ) -> Result<bool, FileError> {
        if self.opened.outputs.folder.is_some() {
            create_folder(&file.path)?;
        }
        let done = meter.done();
        file.reset();
        if self.options.can_resume(&file.path, file.format) && fs::is_file(&file.path) {
            if self.is_there(file, frame, meter)? {
                return Ok(true);
            }
            if self.existing(file).only_adds() {
                return Err(Existing::differs(&file.path).into());
            }
        }
        // What the comparison has counted until then is counted again.
        meter.back_to(done);
        file.reset();
        let mut out = self.output(file).create(self.existing(file))?;
        out.as_private_as(&self.source(file).file)?;
        if file.format == Format::Npz {
            self.write_archive(file, &mut out, meter)?;
        } else {
            self.pass(file, frame, &InPlace(out.file()), meter)?;
        }
        if self.files.len() == 1 {
            self.note_counts(summary)?;
        }
        if !is_stream(&file.path) {
            out.sync()?;
        }
        replacement.retire()?;
        out.commit()?;
        Ok(false)
    }

    /// Checks what exists where the output goes.
    fn check_outputs(&self) -> Result<Replacement, FileError> {
        self.check_other_indexes()?;
        let OutputPaths { folder: Some(folder), .. } = &self.opened.outputs else {
            for file in &self.files {
                self.existing(file).check_file(&file.path)?;
                if HAS_OUTPUTS && occupant(&file.path) == Occupant::File {
                    target_of(&file.path)?;
                }
            }
            return Ok(Replacement::default());
        };
        let weights = self.files.iter().map(|file| file.path.clone()).collect();
        let others = self.side_files.targets(folder).collect();
        Replacement::check(self.opened, NewFiles { weights, others, index: self.index.clone() }, self.options)
    }

    /// Refuses files under the names of parts of another checkpoint, whose index would be wrong. A folder that is named
    /// has no other index, or it is removed.
    fn check_other_indexes(&self) -> Result<(), FileError> {
        let is_alone = HAS_OUTPUTS && !self.opened.outputs.is_named;
        let Some(first) = self.files.first().filter(|file| is_alone && !is_stream(&file.path)) else { return Ok(()) };
        let Ok(contents) = Contents::read(folder_of(&place_of(&first.path))) else { return Ok(()) };
        let own = self.index.as_ref();
        for path in contents.indices.iter().filter(|path| own.is_none_or(|own| !is_same(own, path))) {
            // An index that cannot be read is nobody's.
            let Ok(index) = Index::read(path) else { continue };
            for file in &self.files {
                let name = name_of(&place_of(&file.path));
                let Some((_, listed)) = index.shards.iter().find(|(shard, _)| *shard == name) else { continue };
                let mut names = file.rows.iter().map(|row| &row.summary.name);
                if file.rows.len() != listed.len() || names.any(|name| !listed.contains(name)) {
                    let what = format!(
                        "{} lists other tensors for this file (name another output, or do the job with the checkpoint)",
                        PathText(path)
                    );
                    return Err(FileError::request(&file.path, what));
                }
            }
        }
        Ok(())
    }

    /// What is done with a file that exists.
    fn existing(&self, file: &OutputFile<'_>) -> Existing {
        existing_of(self.source(file).path(), &file.path, self.options.existing(&file.path, file.format))
    }

    fn checkpoint(&self) -> &'a Checkpoint {
        &self.opened.checkpoint
    }

    fn rows(&self) -> impl Iterator<Item = &OutputTensor<'a>> {
        self.files.iter().flat_map(|file| &file.rows)
    }

    /// The file of the input that a file of the output is made of.
    fn source(&self, file: &OutputFile<'_>) -> &'a Input {
        &self.checkpoint().files[file.rows.first().map_or(0, |row| row.tensor.file)]
    }

    /// The name in the input; a tensor without one has the name that it gets.
    fn made_of<'r>(&'r self, row: &'r OutputTensor<'_>) -> &'r str {
        let name = &*self.checkpoint().stored(row.tensor).name;
        if name.is_empty() { &row.summary.name } else { name }
    }

    /// Bytes of the array that a row is made of, with its header.
    fn array_len(&self, row: &OutputTensor<'_>) -> u64 {
        let input = &self.checkpoint().files[row.tensor.file];
        input.members.get(row.tensor.tensor).map_or(input.file.len(), |member| member.len)
    }

    fn output<'o>(&'o self, file: &'o OutputFile<'_>) -> Output<'o> {
        Output { path: &file.path, format: file.format, options: &self.options.write }
    }

    fn summary(&self) -> Summary {
        let tensors = self.rows().map(|row| row.summary.clone()).collect();
        let (dropped, passed_over, notes) = (self.dropped.clone(), self.passed_over.clone(), self.notes.clone());
        let of_files = self.checkpoint().files.iter().flat_map(|file| file.left_out.iter());
        let left_out = of_files.chain(&self.left_out).cloned().collect();
        let of_output = |file: &OutputFile<'_>| self.options.ignored_of_output(&file.path, file.format);
        let ignored = self.ignored.iter().copied().chain(self.files.iter().flat_map(of_output));
        let is_one = self.opened.outputs.folder.is_none();
        let copies = Ignored::of(&[("copy_others", is_one && !self.options.copy_others, "is for folders")]);
        let ignored = ignored.chain(copies);
        let notes = notes.into_iter().chain(self.stale_configuration()).chain(self.shared()).collect();
        Summary { dropped, passed_over, notes, left_out, ..Summary::new(tensors) }.ignoring(ignored)
    }

    /// Returns a note on tensors of pickled files that share elements, because every output stores the elements of each
    /// tensor separately.
    fn shared(&self) -> Option<String> {
        let mut shared = Vec::new();
        for file in self.checkpoint().files.iter().filter(|file| file.format == Format::Torch) {
            let mut places = HashMap::new();
            for stored in &file.tensors {
                let (other, at) = match &stored.place {
                    Location::File(at, _) => (None, at),
                    Location::Other(file, at, _) => (Some(Arc::as_ptr(file)), at),
                    _ => continue,
                };
                let first = *places.entry((other, at, &stored.shape)).or_insert(&stored.name);
                if *first != stored.name {
                    shared.push((stored.name.clone(), format!("those of {}", Short(first))));
                }
            }
        }
        (!shared.is_empty()).then(|| format!("shared elements are written for each tensor: {}", named(&shared)))
    }

    /// What to know where one file of a checkpoint is replaced, and not the configuration beside it.
    fn stale_configuration(&self) -> Option<String> {
        let Some([file]) = self.opened.outputs.folder.is_none().then_some(&self.files[..]) else { return None };
        let is_replaced = HAS_OUTPUTS && !is_stream(&file.path) && fs::is_file(&file.path);
        let config = is_replaced.then(|| place_of(&file.path).with_file_name(CONFIG))?;
        let text = fs::read_to_string(&config).ok()?;
        let is_stale = layouts::with_torch_dtype(&text, "").is_some_and(|new| new != text);
        is_stale.then(|| format!("{} is not changed, and may describe the weights of before", PathText(&config)))
    }

    /// What counts the checks, the measurements, a rehearsal, and the writing.
    fn meter(&self, rehearses: bool, writes: bool) -> Meter<'_> {
        let stored = |(tensor, _): &(TensorRef, _)| self.checkpoint().byte_len(*tensor);
        let measured: u64 = self.measured.iter().filter(|_| rehearses || writes).map(stored).sum();
        let rows = |file| {
            let work = |(row, task): (&OutputTensor<'_>, &Task<'_>)| {
                task.bytes() * (u64::from(rehearses && row.is_rehearsed()) + u64::from(writes))
            };
            let tasks = self.tasks(file, 0);
            file.rows.iter().zip(&tasks).map(work).sum::<u64>()
        };
        let checked: u64 = self.checks.iter().map(|check| check.task().bytes()).sum();
        Meter::new(self.options.watch.as_ref(), checked + measured + self.files.iter().map(rows).sum::<u64>())
    }

    /// Reads the scales.
    fn check_scales(&self) -> Result<(), FileError> {
        layouts::find_nan(self.checkpoint(), &self.scales, self.options.threads, self.options.watch.as_ref())
    }

    /// Does checks, each of which ends the work where it fails.
    fn check(&self, checks: &[&Check<'_>], meter: &Meter<'_>) -> Result<(), FileError> {
        for check in checks {
            let progress = |bytes| meter.add(bytes);
            let done = pipeline::run(&[check.task()], self.options.threads, &Nowhere, &progress);
            done.map_err(|(_, error)| {
                let stored = self.checkpoint().stored(check.tensor);
                let path = self.checkpoint().files[check.tensor.file].path();
                FileError::moving(error, path, path, &stored.name)
            })?;
            (check.verdict)()?;
        }
        Ok(())
    }

    /// Computes everything that may be lost, writes nothing, and counts.
    fn rehearse(&self, meter: &Meter<'_>, summary: &mut Summary) -> Result<(), FileError> {
        for file in &self.files {
            let mut tasks = self.tasks(file, 0);
            let kept = tasks.iter_mut().zip(&file.rows).filter(|(_, row)| !row.is_rehearsed());
            kept.for_each(|(task, _)| task.len = 0);
            self.flow(file, &tasks, &Nowhere, meter)?;
            self.note_counts(summary)?;
        }
        Ok(())
    }

    /// Refuses two tensors of one name, in whatever files.
    fn check_names(&self) -> Result<(), FileError> {
        let mut names = HashSet::new();
        for row in self.rows() {
            if !names.insert(&row.summary.name) {
                return Err(self.checkpoint().error(Some(row.tensor), Invalid::twice(&row.summary.name)));
            }
        }
        // Arrays `x` and `x.npy` of an archive would be the members `x.npy` and `x.npy.npy`.
        for file in self.files.iter().filter(|file| file.format == Format::Npz) {
            let shadows = |row: &&OutputTensor<'_>| {
                let short = row.summary.name.strip_suffix(".npy");
                short.is_some_and(|short| file.rows.iter().any(|row| row.summary.name == short))
            };
            // numpy reads the name of a member up to a NUL.
            if let Some(row) = file.rows.iter().find(|row| row.summary.name.contains('\0')) {
                let what = "numpy cannot read a name with NUL in an archive (want another name, or .safetensors)";
                let error = Invalid::new(InvalidKind::Name, what).of_tensor(&row.summary.name);
                return Err(FileError::invalid(&file.path, error));
            }
            if let Some(row) = file.rows.iter().find(shadows) {
                let what = npz::shadowed(&format!("{}.npy", row.summary.name));
                return Err(FileError::invalid(&file.path, Invalid::new(InvalidKind::Name, what)));
            }
        }
        Ok(())
    }

    /// Notes what was counted, and fails where that is too much.
    fn note_counts(&self, summary: &mut Summary) -> Result<(), FileError> {
        for (noted, row) in summary.tensors.iter_mut().zip(self.rows()) {
            row.counter().iter().for_each(|counter| noted.note(counter));
        }
        let is_lossy = |row: &TensorSummary| FileError::loss(row, &self.options.fail_on).is_some();
        let first = summary.tensors.iter().position(is_lossy).and_then(|place| self.rows().nth(place));
        let path = first.map_or(self.opened.path(), |row| self.checkpoint().files[row.tensor.file].path());
        FileError::check_losses(summary, path, &self.options.fail_on)
    }

    /// The bytes before and after the elements. The members of an archive have their own.
    fn frame(&self, file: &OutputFile<'_>) -> Result<Frame, FileError> {
        let output = self.output(file);
        if let (Format::Npy, [OutputTensor { source: Source::Array, .. }]) = (file.format, &file.rows[..]) {
            return Ok(Frame::default());
        }
        if let Some(head) = &file.head {
            // A reader may take what is behind the last tensor for a part of it.
            let end = file.elements();
            return Ok((head.clone(), vec![0; (file.align(end) - end) as usize]));
        }
        match (file.format, &file.rows[..]) {
            (Format::Npz, _) => Ok(Frame::default()),
            (Format::Safetensors, rows) => {
                let rows = rows.iter().map(|row| (&*row.summary.name, row.summary.to, &*row.summary.shape));
                let header = safetensors::header(file.metadata.as_deref(), &rows.collect::<Vec<_>>());
                Ok((header.map_err(|error| output.invalid(error))?, Vec::new()))
            }
            (format, [row]) => {
                // The TensorProto whose other fields are kept.
                let message = self.source(file).message.as_deref().filter(|_| format == Format::TensorProto);
                let TensorSummary { name, to, shape, bytes_after, .. } = &row.summary;
                Ok(output.frame(name, *to, shape, *bytes_after, message)?)
            }
            (_, rows) => Err(FormatError::not_one(self.source(file).path(), rows.len(), "another format").into()),
        }
    }

    /// Whether a file holds already what would be written.
    fn is_there(&self, file: &OutputFile<'_>, frame: &Frame, meter: &Meter<'_>) -> Result<bool, FileError> {
        let there = InputFile::open(&file.path)?;
        if there.len() != file.len(frame) {
            return Ok(false);
        }
        let sink = Same::new(&there);
        match self.pass(file, frame, &sink, meter) {
            Err(_) if sink.differs() => Ok(false),
            done => done.map(|()| true),
        }
    }
}

impl Check<'_> {
    fn task(&self) -> Task<'_> {
        Task::keeping(TaskInput::Computed(&*self.source, 0), self.len, self.data_type, Items::PLAIN)
    }
}

impl<'a> OutputFile<'a> {
    /// The file that a file of the input gives.
    pub(crate) fn of(opened: &Opened, input: &Input, rows: Vec<OutputTensor<'a>>) -> OutputFile<'a> {
        let (path, metadata) = (opened.outputs.file(input.path()), input.metadata.clone());
        OutputFile { path, format: opened.outputs.format(), metadata, head: None, rows }
    }

    /// Bytes that a row takes.
    fn bytes(&self, row: &OutputTensor<'_>) -> u64 {
        let TensorSummary { to, shape, bytes_after, .. } = &row.summary;
        let is_unpacked = matches!(self.format, Format::Npy | Format::Npz) && to.is_packed();
        if is_unpacked { element_count(shape).unwrap_or(0) as u64 } else { *bytes_after }
    }

    /// Where the elements behind a place begin.
    fn align(&self, at: u64) -> u64 {
        if self.format == Format::Gguf { at.next_multiple_of(WRITTEN_ALIGNMENT) } else { at }
    }

    /// Bytes of all elements, and of what is between them.
    fn elements(&self) -> u64 {
        self.rows.iter().fold(0, |at, row| self.align(at) + self.bytes(row))
    }

    /// Bytes of the file.
    fn len(&self, (head, tail): &Frame) -> u64 {
        head.len() as u64 + self.elements() + tail.len() as u64
    }

    /// Forgets what was counted.
    fn reset(&self) {
        self.rows.iter().filter_map(OutputTensor::counter).for_each(Counter::reset);
    }
}

impl OutputTensor<'_> {
    /// A tensor that stays as it is.
    pub(crate) fn kept(checkpoint: &Checkpoint, tensor: TensorRef) -> Self {
        let stored = checkpoint.stored(tensor);
        let bytes = checkpoint.byte_len(tensor);
        let summary = TensorSummary::kept(&stored.name, stored.shape.clone(), stored.data_type, bytes);
        OutputTensor { summary, tensor, source: Source::Kept }
    }

    /// Whether computing it shows what is lost, or that it cannot be computed.
    fn is_rehearsed(&self) -> bool {
        matches!(self.source, Source::Computed(_) | Source::Cast(_, Some(_)) | Source::Encoded(_, Some(_)))
    }

    fn counter(&self) -> Option<&Counter> {
        match &self.source {
            Source::Cast(_, counter) => counter.as_deref(),
            Source::Computed(computed) => computed.counter.as_deref(),
            Source::Encoded(_, counter) => counter.as_deref(),
            _ => None,
        }
    }
}
