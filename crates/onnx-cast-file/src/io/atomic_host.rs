//! Outputs that the host takes: each is handed over when it is complete, and dropped otherwise.

use crate::io::error::IoError;
pub use crate::io::fs::folder_of;
use crate::io::fs::{self, File};
use crate::io::positional::{InputFile, is_stream};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// A file that the host keeps only when it is complete.
#[derive(Debug)]
pub struct AtomicFile {
    path: PathBuf,
    file: io::BufWriter<File>,
    done: bool,
}

impl AtomicFile {
    /// Starts an output. The host replaces nothing.
    ///
    /// # Errors
    /// Where the host takes none.
    pub fn create(path: impl AsRef<Path>, _: bool) -> Result<AtomicFile, IoError> {
        let path = path.as_ref();
        if is_stream(path) {
            return Err(IoError::new(path, "write", io::ErrorKind::Unsupported.into()));
        }
        let file = File::create(path).map_err(|error| IoError::new(path, "write", error))?;
        Ok(AtomicFile { path: path.to_owned(), file: io::BufWriter::with_capacity(1 << 18, file), done: false })
    }

    /// Refused: there are no other processes to go on from.
    pub fn resume(path: &Path, _: &Path) -> Result<AtomicFile, IoError> {
        Err(IoError::new(path, "write", io::ErrorKind::Unsupported.into()))
    }

    /// The host keeps its files.
    ///
    /// # Errors
    /// Never.
    pub fn as_private_as(&self, _: &InputFile) -> Result<(), IoError> {
        Ok(())
    }

    /// Writes in order.
    pub fn writer(&mut self) -> &mut io::BufWriter<File> {
        &mut self.file
    }

    /// The path that the file will have.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file itself, to be written at places of it, if nothing is written in order.
    pub fn file(&self) -> &File {
        self.file.get_ref()
    }

    /// Hands everything that was written in order to the host.
    pub fn sync(&mut self) -> Result<(), IoError> {
        self.file.flush().map_err(|error| IoError::new(&self.path, "write", error))
    }

    /// Has the host keep the file.
    ///
    /// # Errors
    /// Where the host refuses.
    pub fn commit(mut self) -> Result<(), IoError> {
        self.sync()?;
        self.done = true;
        self.file.get_ref().close(true).map_err(|error| IoError::new(&self.path, "write", error))
    }
}

impl Drop for AtomicFile {
    fn drop(&mut self) {
        if !self.done {
            // What the host does not take back it drops with the job.
            let _ = self.file.get_ref().close(false);
        }
    }
}

impl Write for AtomicFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Refused: outputs have no links.
pub fn link_over(_: &Path, target: &Path) -> Result<(), IoError> {
    Err(IoError::new(target, "write", io::ErrorKind::Unsupported.into()))
}

/// What exists at the path of an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(dead_code, reason = "as elsewhere")]
pub(crate) enum Occupant {
    Nothing,
    Stream,
    EmptyFolder,
    Folder,
    File,
}

/// Outputs of a host replace nothing.
pub(crate) fn occupant(_: &Path) -> Occupant {
    Occupant::Nothing
}

/// The host keeps its files.
pub(crate) fn sync_folder(_: &Path) {}

/// The file that will be written, where nothing is there before.
pub(crate) fn target_of(path: &Path) -> Result<(PathBuf, Option<fs::Metadata>), IoError> {
    Ok((path.to_owned(), None))
}

/// Folders are made with their files.
pub fn create_folder(_: &Path) -> Result<(), IoError> {
    Ok(())
}

pub(crate) fn create_output_folder(_: &Path, _: &Path) -> Result<(), IoError> {
    Ok(())
}

/// A host makes its folders itself.
#[derive(Default)]
pub(crate) struct NewFolders;

impl NewFolders {
    pub(crate) fn of(_: &Path) -> NewFolders {
        NewFolders
    }

    pub(crate) fn keep(self) {}
}

/// No signal ends the work here.
pub fn together<R>(commit: impl FnOnce() -> R) -> R {
    commit()
}

/// No signal ends the work here.
pub fn end_without_traces(end: impl FnOnce()) {
    end();
}
