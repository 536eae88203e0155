//! Reading and writing at a place of a file, from any number of threads.
//!
//! No input is mapped: a file that another program cuts short is an error, where a map would end the process by a
//! signal; and what has been read does not count as memory of this process.

use crate::io::error::IoError;
use crate::io::fs::{self, File};
use crate::io::memory::{resize, zeros};
use std::fmt;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Whether a path is `-`, which stands for standard input or output.
pub fn is_stream(path: &Path) -> bool {
    path == Path::new("-")
}

/// Bytes that can be read at any place, from any number of threads.
pub trait ReadAt: Send + Sync + fmt::Debug {
    /// Reads some bytes from a place, and returns how many; 0 at the end.
    ///
    /// # Errors
    /// Where the bytes cannot be read.
    fn read_at(&self, at: u64, bytes: &mut [u8]) -> io::Result<usize>;
}

impl ReadAt for Vec<u8> {
    fn read_at(&self, at: u64, bytes: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(at).ok().and_then(|at| self.get(at..)).unwrap_or_default();
        let len = left.len().min(bytes.len());
        bytes[..len].copy_from_slice(&left[..len]);
        Ok(len)
    }
}

/// A file for reading, or another source of bytes. Clones share the open file.
#[derive(Clone, Debug)]
pub struct InputFile {
    path: PathBuf,
    source: Source,
    len: u64,
}

#[derive(Clone, Debug)]
enum Source {
    File(Arc<File>),
    Other(Arc<dyn ReadAt>),
}

impl InputFile {
    /// Opens a regular file.
    ///
    /// # Errors
    /// Where it cannot be opened, or is not a regular file.
    pub fn open(path: &Path) -> Result<InputFile, IoError> {
        let is_folder = || IoError::new(path, "read", io::ErrorKind::IsADirectory.into());
        let is_other = || {
            let what = "not a regular file (want one that can be read at any offset)";
            IoError::new(path, "read", io::Error::new(io::ErrorKind::InvalidInput, what))
        };
        // To open a FIFO is to wait for somebody to write to it.
        if fs::metadata(path).is_ok_and(|there| !there.is_file() && !there.is_dir()) {
            return Err(is_other());
        }
        let file = File::open(path).map_err(|error| match error.kind() {
            // Windows opens no folder.
            io::ErrorKind::PermissionDenied if fs::is_dir(path) => is_folder(),
            _ => IoError::new(path, "open", error),
        })?;
        let metadata = file.metadata().map_err(|error| IoError::new(path, "read", error))?;
        if metadata.is_dir() {
            return Err(is_folder());
        }
        if !metadata.is_file() {
            return Err(is_other());
        }
        Ok(InputFile { path: path.to_owned(), source: Source::File(Arc::new(file)), len: metadata.len() })
    }

    /// Whether another file has its path now, as where another process has replaced it.
    pub fn is_replaced(&self) -> bool {
        #[cfg(unix)]
        if let Source::File(file) = &self.source {
            use std::os::unix::fs::MetadataExt;
            let place = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
            return file.metadata().map(place).ok() != fs::metadata(&self.path).map(place).ok();
        }
        false
    }

    /// Standard input: its file, or a temporary file with its contents if it is not a file.
    pub fn standard_input() -> Result<InputFile, IoError> {
        let path = Path::new("-");
        if cfg!(unix)
            && let Ok(file) = InputFile::open(Path::new("/dev/stdin"))
        {
            return Ok(InputFile { path: path.to_owned(), ..file });
        }
        let failed = |error| IoError::new(path, "read", error);
        let mut file = fs::tempfile().map_err(failed)?;
        io::copy(&mut io::stdin().lock(), &mut file).map_err(failed)?;
        InputFile::temporary(path, file).map_err(failed)
    }

    /// A file of this program's own, that stands for another.
    pub fn temporary(path: &Path, file: File) -> io::Result<InputFile> {
        let len = file.metadata()?.len();
        Ok(InputFile { path: path.to_owned(), source: Source::File(Arc::new(file)), len })
    }

    /// `len` bytes that are no file. Errors name them by `path`.
    pub fn other(path: &Path, len: u64, source: impl ReadAt + 'static) -> InputFile {
        InputFile { path: path.to_owned(), source: Source::Other(Arc::new(source)), len }
    }

    /// The file, where these are the bytes of one.
    #[cfg(not(all(target_family = "wasm", target_os = "unknown")))]
    pub(super) fn file(&self) -> Option<&File> {
        match &self.source {
            Source::File(file) => Some(file),
            Source::Other(_) => None,
        }
    }

    fn read_some(&self, at: u64, bytes: &mut [u8]) -> io::Result<usize> {
        match &self.source {
            Source::File(file) => read_some(file, at, bytes),
            Source::Other(source) => source.read_at(at, bytes),
        }
    }

    /// The path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its length when it was opened.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether it had no bytes when it was opened.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Fills `bytes` from a place that is within the file.
    pub fn read_at(&self, at: u64, mut bytes: &mut [u8]) -> io::Result<()> {
        let mut from = at;
        while !bytes.is_empty() {
            match self.read_some(from, bytes) {
                Ok(0) => {
                    let len = self.len;
                    let what = format!("truncated at byte {from}: it had {len} bytes when it was opened");
                    return Err(io::Error::new(io::ErrorKind::UnexpectedEof, what));
                }
                Ok(len) => {
                    bytes = &mut bytes[len..];
                    from += len as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Bytes from a place, as many as the file has at least: nothing is allocated for a claim.
    pub fn read(&self, at: u64, len: u64) -> Result<Vec<u8>, IoError> {
        let failed = |error| IoError::new(&self.path, "read", error);
        if at.checked_add(len).is_none_or(|end| end > self.len) {
            return Err(failed(io::ErrorKind::UnexpectedEof.into()));
        }
        let bytes = usize::try_from(len).ok().and_then(zeros);
        let mut bytes = bytes.ok_or_else(|| failed(io::ErrorKind::OutOfMemory.into()))?;
        self.read_at(at, &mut bytes).map_err(failed)?;
        Ok(bytes)
    }

    /// Adds bytes from a place to others: as [`InputFile::read`], without another buffer.
    ///
    /// # Errors
    /// Where the file does not have them, or there is no memory.
    pub fn append(&self, at: u64, len: u64, to: &mut Vec<u8>) -> Result<(), IoError> {
        let failed = |error| IoError::new(&self.path, "read", error);
        if at.checked_add(len).is_none_or(|end| end > self.len) {
            return Err(failed(io::ErrorKind::UnexpectedEof.into()));
        }
        let start = to.len();
        let end = usize::try_from(len).ok().and_then(|len| start.checked_add(len));
        end.and_then(|end| resize(to, end)).ok_or_else(|| failed(io::ErrorKind::OutOfMemory.into()))?;
        self.read_at(at, &mut to[start..]).map_err(failed)
    }

    /// The first bytes, as many of `len` as there are.
    pub fn prefix(&self, len: usize) -> Result<Vec<u8>, IoError> {
        self.read(0, self.len.min(len as u64))
    }
}

/// A file that is read in order.
#[derive(Clone, Debug)]
pub(crate) struct PositionedReader<'a> {
    file: &'a InputFile,
    at: u64,
}

impl<'a> PositionedReader<'a> {
    /// A reader that starts at the first byte.
    pub(crate) fn new(file: &'a InputFile) -> Self {
        PositionedReader::from(file, 0)
    }

    /// A reader that starts at a place.
    pub(crate) fn from(file: &'a InputFile, at: u64) -> Self {
        PositionedReader { file, at }
    }
}

impl Read for PositionedReader<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let len = self.file.len.saturating_sub(self.at).min(bytes.len() as u64) as usize;
        self.file.read_at(self.at, &mut bytes[..len])?;
        self.at += len as u64;
        Ok(len)
    }
}

impl Seek for PositionedReader<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => self.file.len.checked_add_signed(by),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
        };
        self.at = at.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}

#[cfg(unix)]
fn read_some(file: &File, at: u64, bytes: &mut [u8]) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, bytes, at)
}

#[cfg(windows)]
fn read_some(file: &File, at: u64, bytes: &mut [u8]) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_read(file, bytes, at)
}

#[cfg(all(target_family = "wasm", target_os = "unknown"))]
fn read_some(file: &File, at: u64, bytes: &mut [u8]) -> io::Result<usize> {
    file.read_some(at, bytes)
}

/// Writes all of `bytes` at a place.
#[cfg(all(target_family = "wasm", target_os = "unknown"))]
pub(crate) fn write_at(file: &File, at: u64, bytes: &[u8]) -> io::Result<()> {
    file.write_all_at(at, bytes)
}

/// Writes all of `bytes` at a place.
#[cfg(unix)]
pub(crate) fn write_at(file: &File, at: u64, bytes: &[u8]) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, at)
}

/// Writes all of `bytes` at a place.
#[cfg(windows)]
pub(crate) fn write_at(file: &File, mut at: u64, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let len = std::os::windows::fs::FileExt::seek_write(file, bytes, at)?;
        if len == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        bytes = &bytes[len..];
        at += len as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_cut_short_is_an_error() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("x");
        std::fs::write(&path, [7; 100]).expect("written");
        let file = InputFile::open(&path).expect("opened");
        let mut bytes = [0; 60];
        file.read_at(40, &mut bytes).expect("read");
        assert_eq!(bytes, [7; 60]);
        File::options().write(true).open(&path).and_then(|file| file.set_len(90)).expect("cut");
        let error = file.read_at(40, &mut bytes).expect_err("cut short");
        assert_eq!(error.to_string(), "truncated at byte 90: it had 100 bytes when it was opened");
        assert!(file.read(80, 21).is_err() && file.read(u64::MAX, 2).is_err());
    }
}
