//! A `.safetensors` checkpoint cast in parts, by processes that share its folders: [`shards`] plans, each file is laid
//! out under a temporary name ([`lay_out`]), its parts are cast into it in any order ([`cast_part`]), it gets its name
//! ([`name_whole`]), and the index comes last ([`write_index`]).
//!
//! A part always writes the same bytes to the same place, so that it may be done again, or twice at once. The files are
//! those of [`cast_file`](crate::cast_file).
//!
//! Quantized checkpoints are written file by file ([`FileJob`]): [`files`] plans, [`write_file`] writes one under a
//! temporary name, and [`write_beside`] all else.

use crate::cast::shards::{of_index, open, planned};
use crate::cast::{Frame, Job, with_cast};
use crate::error::FileError;
use crate::formats::checkpoint::{self, Index, Located};
use crate::formats::error::FormatError;
use crate::formats::format::Format;
use crate::io::atomic::{AtomicFile, create_folder, folder_of, target_of};
use crate::io::fs::{self, File};
use crate::io::links;
use crate::io::positional::InputFile;
use crate::io::progress::Meter;
use crate::layouts::check_cast;
use crate::others;
use crate::pipeline::{InPlace, Same, Sink};
use crate::request::CastRequest;
use crate::summary::{Summary, TensorSummary};

mod files;

pub use crate::cast::shards::Shard;
pub use files::{FileJob, file_is_there, files, write_beside, write_file};
use std::io;
use std::path::Path;

/// A part of a cast: the elements are cut into so many stretches of about one length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Part {
    /// Which it is, from 0 on.
    pub index: usize,
    /// How many there are.
    pub of: usize,
}

impl Part {
    /// Where a tensor of `len` elements is cut, `before` of all `total` elements being in front of it: whole bytes of
    /// every type. The end of a part is the start of the next.
    fn cut(self, index: usize, total: u64, before: u64, len: usize) -> usize {
        let at = u128::from(total) * index as u128 / self.of.max(1) as u128;
        let at = at.saturating_sub(u128::from(before)).min(len as u128) as usize;
        at.checked_next_multiple_of(8).map_or(len, |at| at.min(len))
    }
}

/// The files of the checkpoint that a path stands for (an index, a folder, or a file), and what is to become of each.
/// All of it is checked, and nothing written.
///
/// # Errors
/// As [`cast_file`](crate::cast_file), and where a file is no `.safetensors` file.
pub fn shards(
    input: impl AsRef<Path>,
    output: impl AsRef<Path>,
    request: &CastRequest,
) -> Result<Vec<Shard>, FileError> {
    let (input, output) = (input.as_ref(), output.as_ref());
    with_cast(request, |work| match checkpoint::locate(input)? {
        Located::File => {
            check_format(input)?;
            check_format(output)?;
            checked(input, vec![planned(input, output.to_owned(), request, work)?.0], request)
        }
        Located::InFolder(file) => {
            let output = output.join(file.file_name().unwrap_or_default());
            checked(input, vec![planned(&file, output, request, work)?.0], request)
        }
        Located::Index(index) => checked(input, of_index(&Index::read(&index)?, output, request, work)?, request),
    })
}

/// The files, once every pattern of the request matches a tensor of one.
fn checked(input: &Path, shards: Vec<Shard>, request: &CastRequest) -> Result<Vec<Shard>, FileError> {
    let names = shards.iter().flat_map(|shard| &shard.tensors).map(|row| &*row.name);
    request.selection.check_names(names).map_err(FileError::unmatched(input))?;
    let rows: Vec<TensorSummary> = shards.iter().flat_map(|shard| shard.tensors.clone()).collect();
    check_cast(input, &rows)?;
    Ok(shards)
}

/// Does something with the cast of a file, once all of it is planned.
fn with_job<R>(
    input: &Path,
    output: &Path,
    request: &CastRequest,
    run: impl FnOnce(&Job<'_>, &Summary, &Frame) -> Result<R, FileError>,
) -> Result<R, FileError> {
    with_cast(request, |work| {
        let job = open(input, output, request, work)?;
        let (summary, frame) = job.plan()?;
        run(&job, &summary, &frame)
    })
}

fn check_format(path: &Path) -> Result<(), FileError> {
    match Format::from_path(path)? {
        Format::Safetensors => Ok(()),
        format => {
            let (path, what, hint) = (path.to_owned(), "a cast in parts", "it is for .safetensors");
            Err(FormatError::Format { path, what, format, hint }.into())
        }
    }
}

/// Makes the file that is to become `output`, with its header and its length, under a temporary name in the same
/// folder, whatever is there.
///
/// # Errors
/// Where the input is not as it should be, or the file cannot be written.
pub fn lay_out(input: &Path, output: &Path, temporary: &Path, request: &CastRequest) -> Result<(), FileError> {
    with_job(input, output, request, |job, summary, frame| {
        create_folder(output)?;
        target_of(output)?;
        let out = File::create(temporary).and_then(|out| {
            InPlace(&out).put(0, &frame.0)?;
            out.set_len(job.end(summary, frame))
        });
        out.map_err(|error| FileError::io(temporary, "write", error))
    })
}

/// Casts a part of a file into one that was laid out for it.
///
/// # Errors
/// Where a file cannot be read or written, or was not laid out for this cast.
pub fn cast_part(input: &Path, temporary: &Path, part: Part, request: &CastRequest) -> Result<(), FileError> {
    let failed = |error| FileError::io(temporary, "write", error);
    let out = File::options().write(true).open(temporary).map_err(failed)?;
    with_job(input, temporary, request, |job, summary, frame| {
        let (len, want) = (out.metadata().map_err(failed)?.len(), job.end(summary, frame));
        if len != want {
            let what = format!("it has {len} bytes (want {want}: it was laid out for another cast)");
            return Err(failed(io::Error::new(io::ErrorKind::InvalidData, what)));
        }
        job.pass_part(summary, frame, part, &InPlace(&out), request)?;
        out.sync_data().map_err(failed)
    })
}

/// Whether a file holds already what a part of a cast would write; the first part answers for the header.
///
/// # Errors
/// Where the input cannot be read or cast.
pub fn part_is_there(input: &Path, output: &Path, part: Part, request: &CastRequest) -> Result<bool, FileError> {
    let Ok(there) = InputFile::open(output) else { return Ok(false) };
    with_job(input, output, request, |job, summary, frame| {
        let sink = Same(&there);
        Ok(there.len() == job.end(summary, frame)
            && (part.index > 0 || sink.put(0, &frame.0).is_ok())
            && job.pass_part(summary, frame, part, &sink, request).is_ok())
    })
}

/// Gives a file that was laid out, and whose parts are all cast, its name.
///
/// # Errors
/// Where it is not there, the disk is full, or the name is refused.
pub fn name_whole(temporary: &Path, output: &Path) -> Result<(), FileError> {
    links::check_write(output)?;
    Ok(AtomicFile::resume(output, temporary)?.commit()?)
}

/// Copies the other files of a checkpoint's folder, as [`cast_file`](crate::cast_file) does, when all files of weights
/// are there, and returns how many; where the input is no folder there are none.
///
/// # Errors
/// Where a file cannot be read or written.
pub fn copy_others(input: &Path, output: &Path) -> Result<usize, FileError> {
    let (folder, weights) = match checkpoint::locate(input)? {
        Located::File => return Ok(0),
        Located::InFolder(file) => (output.to_owned(), vec![output.join(file.file_name().unwrap_or_default())]),
        Located::Index(index) => {
            let index = Index::read(&index)?;
            let path = index.output(output)?;
            let weights = index.shards.iter().map(|(shard, _)| path.with_file_name(shard)).collect();
            (folder_of(&path).to_owned(), weights)
        }
    };
    if !fs::is_dir(input) {
        return Ok(0);
    }
    let mut files = others::beside(input, &folder)?;
    files.iter().try_for_each(|path| links::check_write(&folder.join(path.file_name().unwrap_or_default())))?;
    create_folder(&folder.join("x"))?;
    let count = files.len();
    let config = files.iter().position(|path| path.ends_with(others::CONFIG)).map(|place| files.remove(place));
    others::copy(&files, &folder, false, false)?;
    config.map_or(Ok(()), |config| others::configure_as(&weights, &config, &folder))?;
    Ok(count)
}

/// Writes the index of a checkpoint with this many bytes of elements, when all of its files are there; of a checkpoint
/// that is one file there is none.
///
/// # Errors
/// Where the index cannot be read or written.
pub fn write_index(input: &Path, output: &Path, total_size: u64) -> Result<(), FileError> {
    match checkpoint::locate(input)? {
        Located::File | Located::InFolder(_) => Ok(()),
        Located::Index(index) => {
            let index = Index::read(&index)?;
            let output = index.output(output)?;
            // There is no folder yet where the index names no file.
            create_folder(&output)?;
            Ok(index.write(&output, total_size, false)?)
        }
    }
}

impl Job<'_> {
    /// Casts a part of the elements.
    fn pass_part(
        &self,
        summary: &Summary,
        frame: &Frame,
        part: Part,
        sink: &dyn Sink,
        request: &CastRequest,
    ) -> Result<(), FileError> {
        let total = self.input.tensors.iter().map(|stored| stored.len as u64).sum();
        let (mut before, mut bytes) = (0, 0);
        let mut tasks = Vec::with_capacity(summary.tensors.len());
        for task in self.tasks(summary, frame) {
            let len = task.len;
            let cut = |index| part.cut(index, total, before, len);
            let task = task.slice(cut(part.index)..cut(part.index.saturating_add(1)));
            bytes += task.bytes();
            before += len as u64;
            tasks.push(task);
        }
        self.flow(0, &tasks, sink, &Meter::new(request.watch.as_ref(), bytes))
    }
}
