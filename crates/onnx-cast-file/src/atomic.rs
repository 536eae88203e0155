//! Writing a file all at once or not at all.

use crate::error::FileError;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// A file that appears under its name only when it is complete: written beside its target, flushed to the disk, then
/// renamed. Dropped before [`AtomicFile::commit`], it leaves nothing behind and the target as it was.
///
/// A target that is a symbolic link stays one: the file that it leads to is replaced. A target that exists keeps its
/// permissions.
#[derive(Debug)]
pub struct AtomicFile {
    path: PathBuf,
    target: PathBuf,
    file: io::BufWriter<NamedTempFile>,
}

impl AtomicFile {
    /// Starts a file that will replace `path`.
    ///
    /// # Errors
    /// Where `path` is something other than a file, may not be written to, or its folder takes no file.
    pub fn create(path: impl AsRef<Path>) -> Result<AtomicFile, FileError> {
        let path = path.as_ref();
        let refuse = |error| FileError::io(path, "write", error);
        // A link that leads nowhere, or a new name, is its own target.
        let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let old = match fs::metadata(&target) {
            Ok(metadata) => Some(metadata),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(refuse(error)),
        };
        if let Some(old) = &old {
            if old.is_dir() {
                return Err(refuse(io::ErrorKind::IsADirectory.into()));
            }
            if !old.is_file() {
                return Err(refuse(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")));
            }
            // A rename would replace a file that nobody may write to, which is not what its owner asked for.
            fs::OpenOptions::new().write(true).open(&target).map_err(refuse)?;
        }
        let folder = match target.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let mut builder = tempfile::Builder::new();
        builder.prefix(".onnx-cast-").suffix(".tmp");
        #[cfg(unix)]
        builder.permissions(old.as_ref().map_or_else(new_file_permissions, fs::Metadata::permissions));
        let file = builder.tempfile_in(folder).map_err(|error| refuse(folder_error(folder, &error)))?;
        if let Some(old) = old {
            // The umask has cut what the builder asked for.
            file.as_file().set_permissions(old.permissions()).map_err(refuse)?;
        }
        Ok(AtomicFile { path: path.to_owned(), target, file: io::BufWriter::with_capacity(1 << 18, file) })
    }

    /// The path that the file will have.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes everything to the disk, so that little is left for [`AtomicFile::commit`] to fail at.
    pub(crate) fn sync(&mut self) -> Result<(), FileError> {
        let synced = self.file.flush().and_then(|()| self.file.get_ref().as_file().sync_all());
        synced.map_err(|error| FileError::io(&self.path, "write", error))
    }

    /// Puts the file in its place.
    ///
    /// # Errors
    /// Where the disk is full or the rename is refused; the target is then as it was.
    pub fn commit(self) -> Result<(), FileError> {
        let path = self.path;
        let refuse = |error| FileError::io(&path, "write", error);
        let file = self.file.into_inner().map_err(|error| refuse(error.into_error()))?;
        file.as_file().sync_all().map_err(refuse)?;
        file.persist(&self.target).map_err(|error| refuse(error.error))?;
        sync_folder(&self.target);
        Ok(())
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

/// What a plain `File::create` asks for; the umask cuts it.
#[cfg(unix)]
fn new_file_permissions() -> fs::Permissions {
    use std::os::unix::fs::PermissionsExt;
    fs::Permissions::from_mode(0o666)
}

/// The rename itself reaches the disk with its folder. The data is safe either way, so a system that cannot do this is
/// no failure.
fn sync_folder(target: &Path) {
    if cfg!(unix) {
        let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let _ = fs::File::open(folder).and_then(|folder| folder.sync_all());
    }
}

/// Why no file can be made in a folder, without the temporary file's path, which means nothing to a user.
fn folder_error(folder: &Path, error: &io::Error) -> io::Error {
    match fs::metadata(folder) {
        Err(error) => error,
        Ok(metadata) if !metadata.is_dir() => io::ErrorKind::NotADirectory.into(),
        Ok(_) => error.kind().into(),
    }
}
