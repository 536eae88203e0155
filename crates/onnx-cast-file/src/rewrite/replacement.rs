//! What is there already where a checkpoint goes: other weights, links, an index of files that are replaced one by one.
//!
//! Two jobs would mix their files, so the folder is locked. The old index goes before the first file is replaced, and
//! the new one comes when all are: a folder whose job was interrupted has none, and nobody reads a mixture from it.

use crate::error::FileError;
use crate::formats::checkpoint::{is_weights, unfinished};
use crate::formats::error::{FormatError, Invalid, InvalidKind};
use crate::formats::format::Format;
use crate::formats::input::{Given, Input};
use crate::formats::output::WriteOptions;
use crate::io::atomic::{check_vacant, create_folder};
use crate::io::fs::{self, is_same};
use crate::io::links;
use crate::io::lock::FolderLock;
use crate::io::positional::{InputFile, is_stream};
use crate::layouts::Layout;
use crate::summary::TensorSummary;
use crate::text::{Short, Wording};
use std::cell::Cell;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

/// The folder that a checkpoint is written to; none where the output is one file.
#[derive(Default)]
pub(crate) struct Replacement {
    folder: Option<PathBuf>,
    index: Option<PathBuf>,
    in_place: bool,
    lock: Option<FolderLock>,
    has_given_way: Cell<bool>,
}

impl Replacement {
    /// Checks a folder in which these files and this index are to be written, in place or from those of another folder.
    pub(crate) fn check(
        folder: &Path,
        in_place: bool,
        files: &[PathBuf],
        index: Option<&Path>,
        write: &WriteOptions,
    ) -> Result<Replacement, FileError> {
        for path in files.iter().map(PathBuf::as_path).chain(index) {
            // The folders within are not named by anybody either.
            let mut within = path.ancestors().take_while(|within| *within != folder);
            within.try_for_each(links::check_write)?;
            if write.no_clobber {
                check_vacant(path)?;
            }
        }
        if !in_place && !write.force && fs::is_dir(folder) {
            let entries = fs::entries(folder).map_err(|error| FileError::io(folder, "read", error))?;
            let is_new =
                |name| files.iter().map(PathBuf::as_path).chain(index).any(|new| new.file_name() == Some(name));
            let mut names = entries.iter().filter_map(|entry| entry.file_name());
            let describes = |name: &OsStr| Layout::own_files().any(|(_, own)| name == own.name);
            let is_other = |name: &&OsStr| is_weights(Path::new(name)) || describes(name);
            if let Some(file) = names.find(|name| is_other(name) && !is_new(name)) {
                let what = if describes(file) { "the description of other weights," } else { "other weights, such as" };
                let file = file.to_string_lossy();
                let what = format!(
                    "it holds {what} {}, which would mix with the new ones (remove them, or name another folder; ",
                    Short(&file)
                );
                let what = Wording::from(what).field("force", " leaves them)");
                return Err(FormatError::invalid(folder, Invalid::new(InvalidKind::Files, what)).into());
            }
        }
        let (folder, index) = (Some(folder.to_owned()), index.map(Path::to_owned));
        Ok(Replacement { folder, index, in_place, ..Replacement::default() })
    }

    /// Makes the folder, and keeps other jobs out of it.
    pub(crate) fn begin(&mut self) -> Result<(), FileError> {
        if let Some(folder) = &self.folder {
            create_folder(&folder.join("x"))?;
            self.lock = Some(FolderLock::take(folder)?);
        }
        Ok(())
    }

    /// Takes the old index away, before a file gets its name. In place it gets another name: it tells how to go on.
    pub(crate) fn give_way(&self) -> Result<(), FileError> {
        let Some(index) = self.index.as_ref().filter(|_| !self.has_given_way.replace(true)) else { return Ok(()) };
        let gone = if self.in_place { fs::rename(index, unfinished(index)) } else { fs::remove_file(index) };
        match gone {
            // Outputs of a host replace nothing.
            Err(error) if !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::Unsupported) => {
                Err(FileError::io(index, "replace", error))
            }
            _ => Ok(()),
        }
    }

    /// The new index is there.
    pub(crate) fn finish(&self) {
        if let Some(index) = self.index.as_ref().filter(|_| self.in_place) {
            // Beside an index it means nothing, so it may stay.
            let _ = fs::remove_file(unfinished(index));
        }
    }
}

/// Refuses to replace a file that seems to be another input: see [`FileError::check_replaced`].
pub(crate) fn check_file(
    input: &InputFile,
    output: &Path,
    format: Format,
    rows: &[TensorSummary],
    made_of: &[&str],
    write: &WriteOptions,
) -> Result<(), FileError> {
    let is_there = !is_stream(output) && fs::is_file(output) && !is_same(input.path(), output);
    if !is_there || write.force || write.no_clobber {
        return Ok(());
    }
    if format == Format::Raw {
        // Bytes do not tell their type: as many as in the input are not those of the output.
        let len = fs::metadata(output).map_or(0, |there| there.len());
        let is_input = len == input.len() && rows.iter().any(|row| row.bytes_before == len && row.bytes_after != len);
        let there = rows.iter().filter(|_| is_input).map(|row| (&*row.name, row.from));
        return FileError::check_replaced(output, there, rows, made_of);
    }
    // What cannot be read is not an input.
    let Ok(there) = Input::open(output, Some(format), &Given::default()) else { return Ok(()) };
    let there = there.tensors.iter().map(|stored| (&*stored.name, stored.element_type()));
    FileError::check_replaced(output, there, rows, made_of)
}
