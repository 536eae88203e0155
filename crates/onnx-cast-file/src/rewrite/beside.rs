//! What stands beside the weights of a folder that is written: other files, configurations, and the index.

use super::Rewrite;
use crate::error::FileError;
use crate::formats::checkpoint::Index;
use crate::io::fs;
use crate::others::{self, CONFIG, write_text};
use std::path::{Path, PathBuf};

/// What stands beside the weights of a folder.
#[derive(Default)]
pub(crate) struct Beside {
    /// Files that are copied as they are.
    pub(crate) copied: Vec<PathBuf>,
    /// Texts that are written, with their paths.
    pub(crate) texts: Vec<(PathBuf, String)>,
    /// The configuration, where a run goes on and finds another one than it would write: it keeps what others changed.
    kept: Option<String>,
}

impl Beside {
    /// Of files that are copied.
    pub(crate) fn of(copied: Vec<PathBuf>) -> Beside {
        Beside { copied, ..Beside::default() }
    }

    /// The file of a name, which is then not copied.
    pub(crate) fn take(&mut self, name: &str) -> Option<PathBuf> {
        let place = self.copied.iter().position(|path| path.file_name().is_some_and(|file| file == name))?;
        Some(self.copied.remove(place))
    }

    /// Rewrites the configuration, where there is one. Going on with a run, the one that is there is rewritten.
    pub(crate) fn configure(
        &mut self,
        folder: &Path,
        resume: bool,
        rewrite: impl Fn(&Path) -> Result<String, FileError>,
    ) -> Result<(), FileError> {
        let Some(path) = self.take(CONFIG) else { return Ok(()) };
        let (target, mut text) = (folder.join(CONFIG), rewrite(&path)?);
        if resume && fs::read_to_string(&target).is_ok_and(|there| there != text) {
            let own = rewrite(&target)?;
            self.kept = (own != text).then(|| CONFIG.to_owned());
            text = own;
        }
        self.texts.push((target, text));
        Ok(())
    }
}

impl Rewrite<'_> {
    /// Writes what stands beside the weights, and returns the names of what was there with another content and stays.
    pub(super) fn finish(&self) -> Result<Vec<String>, FileError> {
        let mut kept: Vec<String> = self.beside.kept.iter().cloned().collect();
        let no_clobber = self.settings.write.no_clobber;
        if let Some(folder) = &self.places.folder {
            kept.extend(others::copy(&self.beside.copied, folder, no_clobber, self.settings.resume)?);
        }
        let input = self.checkpoint.files.first().map(|input| &input.file);
        for (path, text) in &self.beside.texts {
            write_text(path, text, input, no_clobber)?;
        }
        // The index comes last: where it is, the checkpoint is complete.
        if let Some(index) = &self.places.index {
            write_text(index, &self.index_text(), input, no_clobber)?;
        }
        Ok(kept)
    }

    fn index_text(&self) -> String {
        let rows = self.files.iter().flat_map(|file| {
            let name = file.output.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            file.rows.iter().map(move |row| (&*row.summary.name, name))
        });
        let total = self.files.iter().flat_map(|file| &file.rows).map(|row| row.summary.bytes_after).sum();
        Index::of_tensors(rows, total)
    }
}
