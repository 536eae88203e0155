//! Checkpoints whose tensors become other tensors: each file of the input gives a file of the output, in which tensors
//! are kept byte for byte, computed, or left out. `memory.rs` has the same for tensors in memory, `one.rs` for one file
//! of the output; `beside.rs` has the other files of a folder.

mod beside;
mod memory;
mod one;

pub(crate) use beside::Beside;
pub use memory::MadeTensors;

use crate::counts::{Counter, Loss};
use crate::error::FileError;
use crate::formats::checkpoint::{self, Index, Located};
use crate::formats::error::FormatError;
use crate::formats::format::Format;
use crate::formats::output::{Output, WriteOptions};
use crate::formats::safetensors;
use crate::formats::source::Items;
use crate::io::atomic::{AtomicFile, check_vacant, create_folder, folder_of};
use crate::io::fs;
use crate::io::positional::InputFile;
use crate::io::progress::{Meter, Watch};
use crate::layouts::{Checkpoint, LayoutError, TensorRef};
use crate::opened::of_stored;
use crate::pipeline::{self, Compute, Elements, InPlace, Nowhere, Same, Sink, Task, Transform, Trouble};
use crate::replaced::{Replacement, check_file};
use crate::summary::{Summary, TensorSummary};
use onnx_cast::{CastError, DataType, Plan, TensorView, element_count, greatest_magnitude};
use serde_json::Value;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// A tensor of the output.
pub(crate) struct Row<'a> {
    pub(crate) summary: TensorSummary,
    /// The tensor that it is made of.
    pub(crate) tensor: TensorRef,
    pub(crate) origin: Origin<'a>,
}

/// Where the elements of a tensor of the output come from.
pub(crate) enum Origin<'a> {
    /// From nowhere: in memory, tensors that are kept are not copied.
    Nowhere,
    /// From the tensor, as they are.
    Kept,
    Computed(Box<Computed<'a>>),
    /// The row before computes them beside its own.
    Beside,
    Bytes(Vec<u8>),
}

/// A tensor that is computed.
pub(crate) struct Computed<'a> {
    pub(crate) source: Box<dyn Compute + 'a>,
    /// The type that is computed.
    pub(crate) data_type: DataType,
    /// What becomes of that.
    pub(crate) cast: Option<Plan>,
    /// Counts what the cast loses.
    pub(crate) counter: Option<Arc<Counter>>,
}

/// What is compared before a weight is written.
pub(crate) struct Check<'a> {
    /// The elements of the weight.
    pub(crate) tensor: TensorRef,
    pub(crate) run: Box<dyn Fn() -> Result<(), FileError> + 'a>,
}

/// A checkpoint, and where another one that is made of it goes.
pub(crate) struct Opened<'p> {
    pub(crate) checkpoint: Checkpoint,
    pub(crate) places: Places,
    /// The path of the checkpoint.
    pub(crate) input: &'p Path,
    /// Whether the scales have been checked before.
    pub(crate) is_verified: bool,
}

/// Opens a checkpoint, and finds out where another one that is made of it goes.
pub(crate) fn open<'p>(input: &'p Path, output: &Path) -> Result<Opened<'p>, FileError> {
    let located = checkpoint::locate(input)?;
    let index = match &located {
        Located::Index(path) => Some(Index::read(path)?),
        _ => None,
    };
    let checkpoint = Checkpoint::open(input, &located, index.as_ref())?;
    let places = Places::of(&located, index.as_ref(), output)?;
    let is_same = |folder: &PathBuf| {
        let same = fs::canonicalize(folder).ok().zip(fs::canonicalize(checkpoint.folder(input)).ok());
        same.is_some_and(|(output, input)| output == input)
    };
    if places.folder.as_ref().is_some_and(is_same) {
        // Its configuration, and files that the new checkpoint lacks, would speak of the old one.
        return Err(FileError::layout(output, LayoutError::SameFolder));
    }
    Ok(Opened { checkpoint, places, input, is_verified: false })
}

/// Where the output's files are.
#[derive(Clone, Default)]
pub(crate) struct Places {
    /// The folder, where the output is one.
    pub(crate) folder: Option<PathBuf>,
    /// The one file, where the output is one.
    single: Option<PathBuf>,
    /// The index, where the output has one.
    index: Option<PathBuf>,
}

impl Places {
    fn of(located: &Located, index: Option<&Index>, output: &Path) -> Result<Places, FileError> {
        Ok(match (located, index) {
            (Located::Index(_), Some(index)) => {
                let path = index.output(output)?;
                Places { folder: Some(folder_of(&path).to_owned()), single: None, index: Some(path) }
            }
            (Located::InFolder(_), _) => Places { folder: Some(output.to_owned()), single: None, index: None },
            _ => {
                let format = Format::from_path(output)?;
                if format != Format::Safetensors {
                    let (path, what, hint) = (output.to_owned(), "a checkpoint", "want .safetensors");
                    return Err(FormatError::Format { path, what, format, hint }.into());
                }
                Places { folder: None, single: Some(output.to_owned()), index: None }
            }
        })
    }

    /// The output of a file of the input.
    pub(crate) fn file(&self, input: &Path) -> PathBuf {
        match (&self.single, &self.folder) {
            (Some(single), _) => single.clone(),
            (None, folder) => folder.clone().unwrap_or_default().join(input.file_name().unwrap_or_default()),
        }
    }
}

/// A file of the output.
pub(crate) struct Rewritten<'a> {
    pub(crate) output: PathBuf,
    pub(crate) metadata: Option<Vec<(String, String)>>,
    pub(crate) rows: Vec<Row<'a>>,
}

/// How a checkpoint is written.
pub(crate) struct Settings<'a> {
    pub(crate) threads: Option<usize>,
    pub(crate) write: WriteOptions,
    pub(crate) dry_run: bool,
    pub(crate) resume: bool,
    pub(crate) count: bool,
    pub(crate) fail_on: &'a [Loss],
    pub(crate) watch: Option<&'a Watch>,
}

/// A checkpoint of the output, all of it planned.
pub(crate) struct Rewrite<'a> {
    pub(crate) checkpoint: &'a Checkpoint,
    pub(crate) files: Vec<Rewritten<'a>>,
    /// Comparisons that come before everything else.
    pub(crate) checks: Vec<Check<'a>>,
    /// Tensors whose greatest magnitudes have to be known first.
    pub(crate) measured: Vec<(TensorRef, Arc<Greatest>)>,
    pub(crate) places: Places,
    pub(crate) beside: Beside,
    /// What `config.json` is to say of quantization.
    pub(crate) configuration: Option<Value>,
    pub(crate) settings: Settings<'a>,
}

impl Rewrite<'_> {
    /// Writes the output; on a dry run only what is to be counted is computed.
    pub(crate) fn run(self) -> Result<Summary, FileError> {
        self.check_names()?;
        let settings = &self.settings;
        let headers = self.files.iter().map(Rewritten::header).collect::<Result<Vec<_>, _>>()?;
        let mut summary = self.summary();
        summary.copied = self.beside.copied.len();
        let mut replacement = self.check_outputs()?;
        self.checks.iter().try_for_each(|check| (check.run)())?;
        // Files appear one by one, so that all of them have to be good before the first.
        let rehearses = !settings.fail_on.is_empty() || settings.dry_run && settings.count;
        let meter = self.meter(u64::from(rehearses) + u64::from(!settings.dry_run));
        if rehearses || !settings.dry_run {
            self.measure(&self.measured, &meter)?;
        }
        if rehearses {
            self.rehearse(&meter, &mut summary)?;
        }
        if settings.dry_run {
            return Ok(summary);
        }
        replacement.begin()?;
        for (file, header) in self.files.iter().zip(&headers) {
            create_folder(&file.output)?;
            let done = meter.done();
            file.reset();
            if settings.resume && self.is_there(file, header, &meter) {
                summary.already_there += 1;
                continue;
            }
            meter.back_to(done);
            file.reset();
            let mut out = AtomicFile::create_with(&file.output, settings.write.no_clobber)?;
            out.as_private_as(self.source(file))?;
            self.pass(file, header, &InPlace(out.file()), &meter)?;
            out.sync()?;
            replacement.give_way()?;
            out.commit()?;
        }
        self.note_counts(&mut summary)?;
        summary.kept_others = self.finish()?;
        Ok(summary)
    }

    /// Checks what is there where the output goes.
    fn check_outputs(&self) -> Result<Replacement, FileError> {
        for file in &self.files {
            let rows: Vec<TensorSummary> = file.rows.iter().map(|row| row.summary.clone()).collect();
            let made_of: Vec<&str> = file.rows.iter().map(|row| &*self.checkpoint.stored(row.tensor).name).collect();
            check_file(self.source(file), &file.output, Format::Safetensors, &rows, &made_of, &self.settings.write)?;
        }
        let Some(folder) = &self.places.folder else {
            let mut occupied = self.files.iter().filter(|_| self.settings.write.no_clobber);
            occupied.try_for_each(|file| check_vacant(&file.output))?;
            return Ok(Replacement::default());
        };
        let copied = self.beside.copied.iter().map(|path| folder.join(path.file_name().unwrap_or_default()));
        let texts = self.beside.texts.iter().map(|(path, _)| path.clone());
        let files: Vec<PathBuf> =
            self.files.iter().map(|file| file.output.clone()).chain(texts).chain(copied).collect();
        let input = self.checkpoint.files.first().map_or(Path::new(""), |file| folder_of(file.path()));
        Replacement::check((input, folder), &files, self.places.index.as_deref(), &self.settings.write)
    }

    /// The file of the input that a file of the output is made of.
    fn source(&self, file: &Rewritten<'_>) -> &InputFile {
        &self.checkpoint.files[file.rows.first().map_or(0, |row| row.tensor.file)].file
    }

    fn summary(&self) -> Summary {
        Summary::new(self.files.iter().flat_map(|file| &file.rows).map(|row| row.summary.clone()).collect())
    }

    /// What counts so many passes over the output, and the measurements.
    fn meter(&self, passes: u64) -> Meter<'_> {
        let written = |row: &Row<'_>| if row.is_nowhere() { 0 } else { row.summary.bytes_after };
        let bytes: u64 = self.files.iter().flat_map(|file| &file.rows).map(written).sum();
        let stored = |(tensor, _): &(TensorRef, _)| self.checkpoint.byte_len(*tensor);
        let measured: u64 = self.measured.iter().map(stored).sum();
        Meter::new(self.settings.watch, passes * bytes + measured)
    }

    /// Computes everything, writes nothing, and counts.
    fn rehearse(&self, meter: &Meter<'_>, summary: &mut Summary) -> Result<(), FileError> {
        self.files.iter().try_for_each(|file| self.pass(file, &[], &Nowhere, meter))?;
        self.note_counts(summary)
    }

    /// Refuses two tensors of one name, in whatever files.
    fn check_names(&self) -> Result<(), FileError> {
        let mut names = HashSet::new();
        for row in self.files.iter().flat_map(|file| &file.rows) {
            if !names.insert(&row.summary.name) {
                let error = LayoutError::Collision { tensor: row.summary.name.clone() };
                return Err(self.checkpoint.error(Some(row.tensor), error));
            }
        }
        Ok(())
    }

    fn note_counts(&self, summary: &mut Summary) -> Result<(), FileError> {
        let rows = self.files.iter().flat_map(|file| &file.rows);
        for (noted, row) in summary.tensors.iter_mut().zip(rows) {
            row.counter().iter().for_each(|counter| noted.note(counter));
        }
        let path = self.checkpoint.files.first().map_or(Path::new(""), |file| file.path());
        FileError::check_losses(summary, path, self.settings.fail_on)
    }

    /// Whether a file holds already what would be written.
    fn is_there(&self, file: &Rewritten<'_>, header: &[u8], meter: &Meter<'_>) -> bool {
        let Ok(there) = InputFile::open(&file.output) else { return false };
        there.len() == file.len(header) && self.pass(file, header, &Same(&there), meter).is_ok()
    }

    /// Hands the header and all elements of a file to a sink.
    fn pass(&self, file: &Rewritten<'_>, header: &[u8], sink: &dyn Sink, meter: &Meter<'_>) -> Result<(), FileError> {
        sink.put(0, header).map_err(|error| FileError::io(&file.output, "write", error))?;
        let mut at = header.len() as u64;
        let mut tasks = Vec::with_capacity(file.rows.len());
        for row in &file.rows {
            let behind = at + row.summary.bytes_after;
            tasks.push(Task { beside: behind, ..self.task(row, at) });
            at = behind;
        }
        let progress = |bytes| meter.add(bytes);
        pipeline::run(&tasks, self.settings.threads, sink, &progress)
            .map_err(|(task, trouble)| self.error(file, task, trouble))
    }

    fn task<'t>(&'t self, row: &'t Row<'_>, to: u64) -> Task<'t> {
        let input = &self.checkpoint.files[row.tensor.file];
        let stored = self.checkpoint.stored(row.tensor);
        let empty = || Task::keeping(Elements::Memory(&[]), 0, stored.data_type, Items::PLAIN);
        match &row.origin {
            Origin::Kept => Task { to, ..of_stored(input, stored).unwrap_or_else(empty) },
            Origin::Beside | Origin::Nowhere => empty(),
            Origin::Bytes(bytes) => Task::copying(Elements::Memory(bytes), bytes.len(), to),
            Origin::Computed(computed) => {
                let len = element_count(&row.summary.shape).unwrap_or(0);
                let transform = computed.cast.as_ref().map(|plan| plan as &dyn Transform);
                let elements = Elements::Computed(&*computed.source, 0);
                let counter = computed.counter.as_deref();
                Task { to, transform, counter, ..Task::keeping(elements, len, computed.data_type, Items::PLAIN) }
            }
        }
    }

    /// Finds the greatest magnitudes of tensors.
    fn measure(&self, measured: &[(TensorRef, Arc<Greatest>)], meter: &Meter<'_>) -> Result<(), FileError> {
        let tasks = measured.iter().filter_map(|(tensor, greatest)| {
            let task = of_stored(&self.checkpoint.files[tensor.file], self.checkpoint.stored(*tensor));
            task.map(|task| Task { transform: Some(&**greatest as &dyn Transform), ..task })
        });
        let tasks: Vec<Task<'_>> = tasks.collect();
        let progress = |bytes| meter.add(bytes);
        pipeline::run(&tasks, self.settings.threads, &Nowhere, &progress).map_err(|(task, trouble)| {
            let tensor = measured.get(task).map(|(tensor, _)| *tensor);
            let path = tensor.map_or(Path::new(""), |tensor| self.checkpoint.files[tensor.file].path());
            match trouble {
                Trouble::Read(error) | Trouble::Write(error) => FileError::io(path, "read", error),
                Trouble::Stopped => FileError::Stopped { path: path.to_owned() },
                Trouble::Cast(error) => FileError::cast(path, "", error),
            }
        })
    }

    fn error(&self, file: &Rewritten<'_>, task: usize, trouble: Trouble) -> FileError {
        let row = file.rows.get(task);
        let tensor = row.map(|row| row.tensor);
        let input = tensor.map_or(Path::new(""), |tensor| self.checkpoint.files[tensor.file].path());
        match trouble {
            Trouble::Read(error) => FileError::io(input, "read", error),
            Trouble::Write(error) => FileError::io(&file.output, "write", error),
            Trouble::Stopped => FileError::Stopped { path: file.output.clone() },
            Trouble::Cast(error) => FileError::cast(input, row.map_or("", |row| &row.summary.name), error),
        }
    }
}

impl Rewritten<'_> {
    fn header(&self) -> Result<Vec<u8>, FileError> {
        let rows = self.rows.iter().map(|row| (&*row.summary.name, row.summary.to, &*row.summary.shape));
        let options = WriteOptions::default();
        let sink = Output { path: &self.output, format: Format::Safetensors, options: &options };
        let header = safetensors::header(self.metadata.as_deref(), &rows.collect::<Vec<_>>());
        Ok(header.map_err(|error| sink.invalid(error))?)
    }

    /// Bytes of the file.
    fn len(&self, header: &[u8]) -> u64 {
        header.len() as u64 + self.rows.iter().map(|row| row.summary.bytes_after).sum::<u64>()
    }

    /// Forgets what was counted.
    fn reset(&self) {
        self.rows.iter().filter_map(Row::counter).for_each(Counter::reset);
    }
}

impl Row<'_> {
    /// A tensor that stays as it is.
    pub(crate) fn kept(checkpoint: &Checkpoint, tensor: TensorRef) -> Self {
        let stored = checkpoint.stored(tensor);
        let bytes = checkpoint.byte_len(tensor);
        let summary = TensorSummary::kept(&stored.name, stored.shape.clone(), stored.data_type, bytes);
        Row { summary, tensor, origin: Origin::Kept }
    }

    fn is_nowhere(&self) -> bool {
        matches!(self.origin, Origin::Nowhere)
    }

    fn counter(&self) -> Option<&Counter> {
        match &self.origin {
            Origin::Computed(computed) => computed.counter.as_deref(),
            _ => None,
        }
    }
}

/// The greatest finite magnitude of a tensor, once its elements have gone through this.
#[derive(Debug)]
pub(crate) struct Greatest {
    data_type: DataType,
    /// Of floats without a sign the bits have the order of the values.
    bits: AtomicU32,
}

impl Greatest {
    pub(crate) fn new(data_type: DataType) -> Greatest {
        Greatest { data_type, bits: AtomicU32::new(0) }
    }

    pub(crate) fn value(&self) -> f32 {
        f32::from_bits(self.bits.load(Ordering::Relaxed))
    }
}

impl Transform for Greatest {
    fn target_type(&self) -> DataType {
        self.data_type
    }

    fn run(&self, _: usize, len: usize, elements: &[u8], _: &mut [u8]) -> Result<(), CastError> {
        let found = greatest_magnitude(&TensorView::new(self.data_type, &[len], elements)?)?;
        self.bits.fetch_max(found.to_bits(), Ordering::Relaxed);
        Ok(())
    }
}
