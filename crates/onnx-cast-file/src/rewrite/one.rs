//! One file of the output, written by a process that plans all of them.

use super::{Greatest, Rewrite, Rewritten};
use crate::cast::shards::Shard;
use crate::error::FileError;
use crate::io::atomic::{create_folder, target_of};
use crate::io::fs::{self, File};
use crate::io::progress::Meter;
use crate::layouts::TensorRef;
use crate::pipeline::InPlace;
use std::collections::HashSet;
use std::io;
use std::path::Path;
use std::sync::Arc;

impl Rewrite<'_> {
    /// The files of the output.
    pub(crate) fn shards(self) -> Result<Vec<Shard>, FileError> {
        self.check_names()?;
        let shard = |file: &Rewritten<'_>| {
            file.header()?;
            let input = file.rows.first().map_or(0, |row| row.tensor.file);
            let input = self.checkpoint.files[input].path().to_owned();
            let tensors = file.rows.iter().map(|row| row.summary.clone()).collect();
            Ok(Shard { input, output: file.output.clone(), tensors })
        };
        self.files.iter().map(shard).collect()
    }

    /// Writes a file over one that is there under a temporary name.
    pub(crate) fn write_one(self, index: usize, temporary: &Path) -> Result<(), FileError> {
        let file = self.one(index)?;
        target_of(&file.output)?;
        self.check(file)?;
        let failed = |error| FileError::io(temporary, "write", error);
        let out = File::options().write(true).open(temporary).map_err(failed)?;
        let header = file.header()?;
        out.set_len(file.len(&header)).map_err(failed)?;
        let meter = Meter::new(self.settings.watch, file.len(&header));
        self.measure(&self.measured_for(index), &meter)?;
        self.pass(file, &header, &InPlace(&out), &meter)?;
        out.sync_data().map_err(failed)
    }

    /// Whether a file is there already.
    pub(crate) fn one_is_there(self, index: usize) -> Result<bool, FileError> {
        let file = self.one(index)?;
        if !fs::is_file(&file.output) {
            return Ok(false);
        }
        self.check(file)?;
        let header = file.header()?;
        let meter = Meter::new(self.settings.watch, file.len(&header));
        self.measure(&self.measured_for(index), &meter)?;
        Ok(self.is_there(file, &header, &meter))
    }

    /// Writes what stands beside the weights, and returns how many other files were copied.
    pub(crate) fn write_beside(self) -> Result<usize, FileError> {
        // There is no folder yet where the index names no file.
        let paths = self.places.index.iter().chain(self.beside.texts.iter().map(|(path, _)| path));
        paths.into_iter().try_for_each(|path| create_folder(path))?;
        self.finish()?;
        Ok(self.beside.copied.len())
    }

    /// Compares the weights of a file.
    fn check(&self, file: &Rewritten<'_>) -> Result<(), FileError> {
        let own: HashSet<TensorRef> = file.rows.iter().map(|row| row.tensor).collect();
        let mut checks = self.checks.iter().filter(|check| own.contains(&check.tensor));
        checks.try_for_each(|check| (check.run)())
    }

    fn one(&self, index: usize) -> Result<&Rewritten<'_>, FileError> {
        let missing = || {
            let path = self.checkpoint.files.first().map_or(Path::new(""), |file| file.path());
            let what = format!("the checkpoint has no file {index} (it has {})", self.files.len());
            FileError::io(path, "find", io::Error::new(io::ErrorKind::InvalidInput, what))
        };
        self.files.get(index).ok_or_else(missing)
    }

    /// What has to be measured for a file: its own tensors, and those elsewhere that share a scale with them.
    fn measured_for(&self, index: usize) -> Vec<(TensorRef, Arc<Greatest>)> {
        let rows = self.files.get(index).map_or(&[][..], |file| &file.rows);
        let own: HashSet<TensorRef> = rows.iter().map(|row| row.tensor).collect();
        let mine = self.measured.iter().filter(|(tensor, _)| own.contains(tensor));
        let shared: HashSet<*const Greatest> = mine.map(|(_, greatest)| Arc::as_ptr(greatest)).collect();
        self.measured.iter().filter(|(_, greatest)| shared.contains(&Arc::as_ptr(greatest))).cloned().collect()
    }
}
