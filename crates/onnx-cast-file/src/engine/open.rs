//! What a rewriting starts from: the files of the input, opened once, and where those of the output go.

use crate::checkpoint::Checkpoint;
use crate::error::FileError;
use crate::formats::checkpoint::{self, Index, JobId, Located};
use crate::formats::error::FormatError;
use crate::formats::folder::{is_cache, name_ends, written_name};
use crate::formats::format::Format;
use crate::formats::input::Input;
use crate::io::atomic::folder_of;
use crate::io::fs::{self, HAS_OUTPUTS, is_same};
use crate::io::positional::is_stream;
use crate::layouts::gguf_names;
use crate::request::RunOptions;
use crate::text::{PathText, Wording};
use std::path::{Path, PathBuf};

/// An input whose files are open, and where what is made of it goes.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) checkpoint: Checkpoint,
    pub(crate) index: Option<Index>,
    pub(crate) outputs: OutputPaths,
    /// The path that names the input.
    pub(crate) input: PathBuf,
    /// Whether the output's folder is the input's.
    pub(crate) in_place: bool,
    /// The job, if it may work in place.
    pub(crate) job: Option<JobId>,
    /// Whether names and scales have been checked by the process that planned the work.
    pub(crate) is_checked: bool,
}

/// Opens a checkpoint that is written to another folder.
pub(crate) fn open(input: &Path, output: &Path, run: &RunOptions) -> Result<Opened, FileError> {
    let located = checkpoint::locate(input)?;
    let opened = Opened::located(input, output, &located, (None, run))?;
    if opened.in_place {
        // Its configuration, and files that the new checkpoint lacks, would speak of the old one.
        let what = "the folder of the input (want another: its configuration and its other weights would not fit)";
        return Err(FormatError::request(output, what).into());
    }
    Ok(opened)
}

/// Opens a checkpoint that is written to one file, of whatever format.
pub(crate) fn open_to_file(input: &Path, output: &Path) -> Result<Opened, FileError> {
    let located = checkpoint::locate(input)?;
    let index = match &located {
        Located::Index(path) => Some(Index::read(path)?),
        _ => None,
    };
    let files = Checkpoint::open(input, &located, index.as_ref())?.files;
    Ok(Opened::of(input, files, OutputPaths { single: Some(output.to_owned()), ..OutputPaths::default() }))
}

/// Opens a checkpoint for a job that may write to the input's own folder, and that continues an interrupted run there.
/// Returns `None` if the path is a single file that is not divided into shards.
pub(crate) fn open_folder(
    input: &Path,
    output: &Path,
    job: JobId,
    run: &RunOptions,
) -> Result<Option<Opened>, FileError> {
    let in_place = HAS_OUTPUTS && is_same(folder_named(input), folder_named(output));
    let is_checkpoint = |format| matches!(format, Format::Safetensors | Format::Torch);
    let is_divided = run.shard_size.is_some() && Format::of_input(input).is_ok_and(is_checkpoint);
    match checkpoint::locate_or_go_on(input, in_place)? {
        Located::File if is_stream(input) || !is_divided => Ok(None),
        located => Opened::located(input, output, &located, (in_place.then_some(job), run)).map(Some),
    }
}

impl Opened {
    fn located(
        input: &Path,
        output: &Path,
        located: &Located,
        (job, run): (Option<JobId>, &RunOptions),
    ) -> Result<Opened, FileError> {
        let index = match located {
            Located::Index(path) => Some(Index::read_or_go_on(path, job.as_ref())?),
            _ => None,
        };
        let checkpoint = Checkpoint::open(input, located, index.as_ref())?;
        let outputs = match run.shard_size {
            Some(_) => OutputPaths::of_shards(located, output)?,
            None => OutputPaths::of(located, index.as_ref(), output)?,
        };
        if let Some(folder) = outputs.folder.as_ref().filter(|folder| is_cache(folder)) {
            // Its files are hashes and links: weights beside them belong to no snapshot.
            let what = "the folder of a cache of huggingface_hub, which is never changed (name another output)";
            return Err(FormatError::request(folder, what).into());
        }
        let folder = index.as_ref().map_or_else(|| checkpoint.folder(), Index::folder);
        let in_place = outputs.folder.as_ref().is_some_and(|output| is_same(output, folder));
        if in_place && checkpoint.files.iter().any(|file| file.format == Format::Torch) {
            let what = "the folder of the input, whose weights are pickled and stay as they are (name another output)";
            return Err(FormatError::request(folder, what).into());
        }
        if in_place && run.shard_size.is_some() {
            let what = Wording::from("the folder of the input (want another: ");
            return Err(FileError::request(output, what.field("shard_size", " divides its files anew)")));
        }
        Ok(Opened { checkpoint, index, outputs, input: input.to_owned(), in_place, job, is_checked: false })
    }

    /// Creates an input from open files of any format.
    pub(crate) fn of(input: &Path, files: Vec<Input>, outputs: OutputPaths) -> Opened {
        Opened::with(Checkpoint::of(input, files), input, outputs)
    }

    /// Creates an input from an open checkpoint that is not written in place.
    pub(crate) fn with(checkpoint: Checkpoint, input: &Path, outputs: OutputPaths) -> Opened {
        let input = input.to_owned();
        Opened { checkpoint, index: None, outputs, input, in_place: false, job: None, is_checked: false }
    }

    /// The folder whose other files belong to the weights: that which names the input, or the snapshot in it; the path
    /// of the input where that is a file.
    pub(crate) fn folder(&self) -> &Path {
        if fs::is_dir(&self.input) { self.checkpoint.folder() } else { &self.input }
    }

    /// Returns the prefix of the names of shards.
    pub(super) fn stem(&self) -> String {
        let file = self.checkpoint.files.first().filter(|_| fs::is_dir(&self.input)).map(Input::path);
        let named = self.index.as_ref().map(Index::path).or(file);
        let name = named.map(written_name).unwrap_or_default();
        let stem = name.strip_suffix(".index.json").unwrap_or(&name).strip_suffix(".safetensors");
        let stem = stem.map(|stem| stem.strip_suffix("-00001-of-00001").unwrap_or(stem));
        stem.filter(|stem| !stem.is_empty()).unwrap_or("model").to_owned()
    }

    /// What errors about the whole input name: the index, or the one file.
    pub(crate) fn path(&self) -> &Path {
        let file = || self.checkpoint.files.first().map_or(&*self.input, Input::path);
        self.index.as_ref().map_or_else(file, Index::path)
    }
}

/// Where the output's files are. By default the caller tells each.
#[derive(Debug, Default)]
pub(crate) struct OutputPaths {
    /// The folder, where the output is one.
    pub(crate) folder: Option<PathBuf>,
    /// Whether that folder was named, and not an index in it.
    pub(crate) is_named: bool,
    /// The one file, where the output is one.
    pub(crate) single: Option<PathBuf>,
    /// The index, where the output has one.
    pub(crate) index: Option<PathBuf>,
    /// The format of the one file, unless it is `.safetensors`.
    pub(crate) format: Option<Format>,
}

impl OutputPaths {
    fn of(located: &Located, index: Option<&Index>, output: &Path) -> Result<OutputPaths, FileError> {
        Ok(match (located, index) {
            (Located::Index(_), Some(index)) => {
                let path = index.output(output)?;
                let (folder, is_named) = (Some(folder_of(&path).to_owned()), path != output);
                if is_named {
                    check_folder(output, None)?;
                }
                OutputPaths { folder, is_named, index: Some(path), ..OutputPaths::default() }
            }
            (Located::InFolder(file), _) => {
                check_folder(output, Some(file))?;
                OutputPaths { folder: Some(output.to_owned()), is_named: true, ..OutputPaths::default() }
            }
            _ => {
                let format = format_of_output(output)?;
                if format != Format::Safetensors {
                    return Err(FormatError::format(output, "a checkpoint", format, "want .safetensors").into());
                }
                OutputPaths { single: Some(output.to_owned()), ..OutputPaths::default() }
            }
        })
    }

    /// Returns the paths of an output that is divided into shards.
    fn of_shards(located: &Located, output: &Path) -> Result<OutputPaths, FileError> {
        let is_file = fs::is_file(output) || Format::from_path(output).is_ok() || name_ends(output, ".index.json");
        if is_file && !fs::is_dir(output) {
            let what =
                Wording::from("a file (want a folder: ").field("shard_size", " divides what is written into files)");
            return Err(FileError::request(output, what));
        }
        let file = match located {
            Located::InFolder(file) => Some(&**file),
            _ => None,
        };
        check_folder(output, file)?;
        Ok(OutputPaths { folder: Some(output.to_owned()), is_named: true, ..OutputPaths::default() })
    }

    /// The format of all files.
    pub(crate) fn format(&self) -> Format {
        self.format.unwrap_or(Format::Safetensors)
    }

    /// The output of a file of the input.
    pub(crate) fn file(&self, input: &Path) -> PathBuf {
        let name = written_name(input);
        match (&self.single, &self.index, &self.folder) {
            (Some(single), ..) => single.clone(),
            (_, Some(index), _) => index.with_file_name(name),
            (.., folder) => folder.clone().unwrap_or_default().join(name),
        }
    }
}

/// The format of what is written for a checkpoint; standard output and devices get `.safetensors`.
pub(crate) fn format_of_output(output: &Path) -> Result<Format, FormatError> {
    if is_stream(output) || Format::is_of_device(output) { Ok(Format::Safetensors) } else { Format::from_path(output) }
}

/// Extensions that no folder gets either: they are those of files beside weights, or of weights in other formats.
const OTHER_FILES: &[&str] = &["json"];

/// Refuses standard output and the name of a file where a folder is written; the input may be a folder with one file.
pub(crate) fn check_folder(output: &Path, file: Option<&Path>) -> Result<(), FormatError> {
    if is_stream(output) {
        return Err(FormatError::request(output, "a checkpoint in a folder cannot be streamed (name a folder)"));
    }
    let extension = output.extension().map(|extension| extension.to_string_lossy().to_ascii_lowercase());
    let is_other = || extension.as_deref().is_some_and(|extension| OTHER_FILES.contains(&extension));
    let what = match Format::from_path(output) {
        _ if fs::is_dir(output) => return Ok(()),
        Ok(Format::Gguf) => {
            format!(
                "a folder becomes a .gguf file only by `quantize`, whose weights are in one of the types {} (want one of \
                 these, or a folder as output)",
                gguf_names()
            )
        }
        Err(_) if !is_other() => return Ok(()),
        _ => {
            let or_file = file.map(|file| format!(", or the file {} as input", PathText(file))).unwrap_or_default();
            let extension = extension.unwrap_or_default();
            format!("the output of a folder is a folder (want a name without .{extension}{or_file})")
        }
    };
    Err(FormatError::request(output, what))
}

/// The folder of a checkpoint that is named by itself or by its index.
fn folder_named(path: &Path) -> &Path {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    if name.ends_with(".index.json") && !fs::is_dir(path) { folder_of(path) } else { path }
}
