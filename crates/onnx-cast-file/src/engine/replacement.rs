//! The folder of a checkpoint that may hold an earlier output.
//!
//! Two jobs would mix their files, so the folder is locked. Files are replaced one by one. So that nobody reads a
//! mixture, the old index and the old descriptions are retired before the first file gets its name, and the new index
//! comes when all files are complete: a folder whose job was interrupted has no index, and `resume` continues it. Other
//! weights of the earlier output are removed last.

use super::open::{Opened, OutputPaths};
use super::side_files::{CONFIG, MODULES, PIPELINE, is_index, is_weights, lower_name, name_of, write_text};
use crate::error::FileError;
use crate::formats::checkpoint::unfinished;
use crate::formats::error::{FormatError, Invalid, InvalidKind};
use crate::formats::existing::Existing;
use crate::formats::format::Format;
use crate::io::atomic::{Occupant, create_output_folder, occupant, sync_folder};
use crate::io::fs::{self, HAS_OUTPUTS, is_same};
use crate::io::links;
use crate::io::lock::FolderLock;
use crate::io::positional::InputFile;
use crate::layouts::Layout;
use crate::request::RunOptions;
use crate::text::{Short, Wording};
use std::io;
use std::path::{Path, PathBuf};

/// Other descriptions by which a folder is loaded: of an adapter, and of checkpoints in folders within.
const DESCRIPTIONS: [&str; 3] = ["adapter_config.json", PIPELINE, MODULES];

/// The files that a job writes to a folder.
pub(super) struct NewFiles {
    pub(super) weights: Vec<PathBuf>,
    pub(super) others: Vec<PathBuf>,
    pub(super) index: Option<PathBuf>,
}

impl NewFiles {
    fn all(&self) -> impl Iterator<Item = &Path> {
        self.weights.iter().chain(&self.others).chain(&self.index).map(PathBuf::as_path)
    }
}

/// What becomes of the files in the folder of a checkpoint; nothing where the output is one file.
#[derive(Default)]
pub(super) struct Replacement {
    /// The folder, and what is done with an earlier output in it.
    folder: Option<(PathBuf, Existing)>,
    /// Whether the folder itself was named as the output.
    is_named: bool,
    /// The index, and what is left of it while a job in place replaces the files.
    index_in_place: Option<(PathBuf, String)>,
    /// Files that are removed before the first new file gets its name.
    retired: Vec<PathBuf>,
    /// Files that are removed when the new output is complete.
    stale: Vec<PathBuf>,
    lock: Option<FolderLock>,
}

impl Replacement {
    /// Checks the folder of an output against the rule for outputs.
    pub(super) fn check(opened: &Opened, new: NewFiles, options: &RunOptions) -> Result<Replacement, FileError> {
        let &OutputPaths { folder: Some(ref folder), is_named, .. } = &opened.outputs else {
            return Ok(Replacement::default());
        };
        for path in new.all() {
            // The folders within are not named by anybody either.
            let mut within = path.ancestors().take_while(|within| within != folder);
            within.try_for_each(links::check_write)?;
        }
        let existing = options.existing(folder, Format::Safetensors);
        let existing = if opened.in_place { existing.in_place() } else { existing };
        if FolderLock::is_own(folder) {
            // It is a part of a larger output, which was checked as a whole.
        } else if is_named {
            existing.check_folder(folder)?;
        } else {
            new.all().try_for_each(|path| existing.check_file(path))?;
        }
        let is_input = |path: &Path| opened.checkpoint.files.iter().any(|input| is_same(input.path(), path));
        let is_new = |path: &Path| new.all().any(|new| new == path) || is_input(path);
        let stale = if is_named && !opened.in_place { stale(folder, existing, is_new)? } else { Vec::new() };
        let NewFiles { others, index, .. } = new;
        let left = opened.index.as_ref().zip(opened.job.as_ref()).filter(|_| HAS_OUTPUTS && opened.in_place);
        let left = left.map(|(index, job)| index.to_unfinished(job));
        let index_in_place = index.clone().zip(left);
        let retires = existing.replaces() && !opened.in_place;
        let retired = if retires { index.into_iter().chain(others).collect() } else { Vec::new() };
        let folder = Some((folder.clone(), existing));
        Ok(Replacement { folder, is_named, index_in_place, retired, stale, lock: None })
    }

    /// The names of the files that are removed when the new output is complete.
    pub(super) fn stale_names(&self) -> Vec<String> {
        self.stale.iter().map(|path| name_of(path)).collect()
    }

    /// Creates the folder, and keeps other jobs out of it. One that was complete before the lock is another output.
    pub(super) fn begin(&mut self, input: &Path) -> Result<(), FileError> {
        if let Some((folder, existing)) = &self.folder {
            create_output_folder(folder, input)?;
            let is_part = FolderLock::is_own(folder);
            self.lock = Some(FolderLock::take(folder)?);
            if self.is_named && !is_part {
                existing.check_folder(folder)?;
            }
        }
        Ok(())
    }

    /// Takes the old index and the old descriptions away before a file gets its name. In place, what is left of the
    /// index says how to continue.
    pub(super) fn retire(&mut self) -> Result<(), FileError> {
        if let Some((index, left)) = self.index_in_place.as_ref().filter(|(index, _)| fs::is_file(index)) {
            let of = InputFile::open(index)?;
            write_text(&unfinished(index), left, Some(&of), Existing::new(true))?;
            retire(index)?;
        }
        self.retired.drain(..).try_for_each(|path| retire(&path))
    }

    /// Removes what is left of the earlier output. The new one is complete.
    pub(super) fn finish(&self) -> Result<(), FileError> {
        if let Some((index, _)) = &self.index_in_place {
            // Beside an index it means nothing, so it may stay.
            let _ = fs::remove_file(unfinished(index));
        }
        self.stale.iter().try_for_each(|path| retire(path))
    }
}

/// Removes a file of an earlier output, if it is there.
pub(crate) fn retire(path: &Path) -> Result<(), FileError> {
    gone(path, fs::remove_file(path))
}

/// Has a name that is gone reach the disk before what follows.
fn gone(path: &Path, done: io::Result<()>) -> Result<(), FileError> {
    match done {
        Ok(()) => sync_folder(path),
        // Outputs of a host replace nothing.
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::Unsupported) => {}
        Err(error) => return Err(FileError::io(path, "replace", error)),
    }
    Ok(())
}

/// The files directly in a folder that describe an earlier output or hold its weights, and are not part of the new one.
///
/// # Errors
/// Where there are any, and the output is not replaced.
pub(crate) fn stale(
    folder: &Path,
    existing: Existing,
    is_new: impl Fn(&Path) -> bool,
) -> Result<Vec<PathBuf>, FileError> {
    if !HAS_OUTPUTS || occupant(folder) != Occupant::Folder {
        return Ok(Vec::new());
    }
    let mut found = fs::entries(folder).map_err(|error| FileError::io(folder, "read", error))?;
    found.retain(|path| {
        let name = lower_name(path);
        let describes =
            name == CONFIG || DESCRIPTIONS.contains(&&*name) || Layout::own_files().any(|(_, own)| name == own.name);
        let is_known = is_weights(&name) || is_index(&name) || describes;
        let is_folder = fs::symlink_metadata(path).is_ok_and(|there| there.is_dir());
        is_known && !name.starts_with('.') && !is_folder && !is_new(path)
    });
    found.sort();
    let Some(first) = found.first().filter(|_| !existing.replaces()) else { return Ok(found) };
    let name = name_of(first);
    let what =
        format!("it holds {}, which is not part of this output (remove it, name another folder, or ", Short(&name));
    let what = Wording::from(what).field("force", " to replace the folder)");
    Err(FormatError::invalid(folder, Invalid::new(InvalidKind::Exists, what)).into())
}
