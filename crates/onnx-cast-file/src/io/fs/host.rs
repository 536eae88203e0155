//! Files that the host lends, under the names of `std::fs`: a browser has no file system, but files that a person
//! drops.
//!
//! Only what this crate and the models' crate call is here. There is one thread.

use std::fmt;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

/// What the host does for this crate. Paths are texts with `/` between names.
pub trait Host: Send + Sync {
    /// The number and the length of a file that can be read; `None` if missing.
    fn open(&self, path: &str) -> Option<(u32, u64)>;
    /// Reads bytes from a place, and returns how many.
    fn read(&self, file: u32, at: u64, bytes: &mut [u8]) -> io::Result<usize>;
    /// The names in a folder, one a line; `None` where there is no folder.
    fn list(&self, folder: &str) -> Option<String>;
    /// Starts an output, and returns its number.
    fn create(&self, path: &str) -> io::Result<u32>;
    /// Writes bytes at a place.
    fn write(&self, file: u32, at: u64, bytes: &[u8]) -> io::Result<()>;
    /// Ends an output, which is kept or dropped.
    fn close(&self, file: u32, keep: bool) -> io::Result<()>;
}

static HOST: OnceLock<&'static dyn Host> = OnceLock::new();

/// Names the host; a second call does nothing.
pub fn set_host(host: &'static dyn Host) {
    let _ = HOST.set(host);
}

fn host() -> io::Result<&'static dyn Host> {
    HOST.get().copied().ok_or_else(|| io::ErrorKind::Unsupported.into())
}

fn text(path: &Path) -> io::Result<&str> {
    path.to_str().ok_or_else(|| io::ErrorKind::InvalidFilename.into())
}

/// A file: one that the host lends, one that it takes, or one in memory.
pub struct File {
    kind: Kind,
    /// Where the next bytes in order are read or written.
    at: u64,
}

enum Kind {
    Input { file: u32, len: u64 },
    Output { file: u32 },
    Memory(Mutex<Vec<u8>>),
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("File(..)")
    }
}

/// A file in memory, as the temporary files of a system.
pub fn tempfile() -> io::Result<File> {
    Ok(File { kind: Kind::Memory(Mutex::default()), at: 0 })
}

/// As [`tempfile`], which has no folder.
pub fn tempfile_in(_: &Path) -> io::Result<File> {
    tempfile()
}

impl File {
    /// Opens a file that the host lends.
    pub fn open(path: impl AsRef<Path>) -> io::Result<File> {
        let path = path.as_ref();
        match host()?.open(text(path)?) {
            Some((file, len)) => Ok(File { kind: Kind::Input { file, len }, at: 0 }),
            None if is_folder(path) => Err(io::ErrorKind::IsADirectory.into()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Starts an output.
    pub fn create(path: impl AsRef<Path>) -> io::Result<File> {
        Ok(File { kind: Kind::Output { file: host()?.create(text(path.as_ref())?)? }, at: 0 })
    }

    /// How a file is to be opened. An output that was begun cannot be gone on with.
    pub fn options() -> OpenOptions {
        OpenOptions
    }

    /// What is known of it.
    pub fn metadata(&self) -> io::Result<Metadata> {
        let len = match &self.kind {
            Kind::Input { len, .. } => *len,
            Kind::Output { .. } => 0,
            Kind::Memory(bytes) => bytes.lock().unwrap_or_else(PoisonError::into_inner).len() as u64,
        };
        Ok(Metadata { len: Some(len) })
    }

    /// Nothing is known of the disk.
    pub fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    /// An output has the length of what is written to it.
    pub fn set_len(&self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Ends an output, which is kept or dropped.
    pub(in crate::io) fn close(&self, keep: bool) -> io::Result<()> {
        match self.kind {
            Kind::Output { file } => host()?.close(file, keep),
            _ => Ok(()),
        }
    }

    /// Reads some bytes from a place.
    pub(in crate::io) fn read_some(&self, at: u64, bytes: &mut [u8]) -> io::Result<usize> {
        match &self.kind {
            Kind::Input { file, .. } => host()?.read(*file, at, bytes),
            Kind::Output { .. } => Err(io::ErrorKind::Unsupported.into()),
            Kind::Memory(held) => {
                let held = held.lock().unwrap_or_else(PoisonError::into_inner);
                let left = usize::try_from(at).ok().and_then(|at| held.get(at..)).unwrap_or_default();
                let len = left.len().min(bytes.len());
                bytes[..len].copy_from_slice(&left[..len]);
                Ok(len)
            }
        }
    }

    /// Writes all of `bytes` at a place.
    pub(in crate::io) fn write_all_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        match &self.kind {
            Kind::Input { .. } => Err(io::ErrorKind::PermissionDenied.into()),
            Kind::Output { file } => host()?.write(*file, at, bytes),
            Kind::Memory(held) => {
                let mut held = held.lock().unwrap_or_else(PoisonError::into_inner);
                let end = at.checked_add(bytes.len() as u64).and_then(|end| usize::try_from(end).ok());
                let end = end.ok_or(io::ErrorKind::OutOfMemory)?;
                let more = end.saturating_sub(held.len());
                held.try_reserve(more).map_err(|_| io::ErrorKind::OutOfMemory)?;
                if more > 0 {
                    held.resize(end, 0);
                }
                held[end - bytes.len()..end].copy_from_slice(bytes);
                Ok(())
            }
        }
    }
}

impl Read for File {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let len = self.read_some(self.at, bytes)?;
        self.at += len as u64;
        Ok(len)
    }
}

impl Write for File {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_all_at(self.at, bytes)?;
        self.at += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for File {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
            SeekFrom::End(by) => self.metadata()?.len().checked_add_signed(by),
        };
        self.at = at.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}

/// As `std::fs::OpenOptions`.
#[derive(Debug)]
pub struct OpenOptions;

impl OpenOptions {
    /// Whether it is to be written.
    pub fn write(&mut self, _: bool) -> &mut Self {
        self
    }

    /// Refused: an output is written in one go.
    pub fn open(&self, _: impl AsRef<Path>) -> io::Result<File> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// As `std::fs::Metadata`.
#[derive(Debug)]
pub struct Metadata {
    /// The length; `None` of a folder.
    len: Option<u64>,
}

#[expect(clippy::len_without_is_empty, reason = "as std::fs has it")]
impl Metadata {
    /// The length.
    pub fn len(&self) -> u64 {
        self.len.unwrap_or(0)
    }

    /// Whether it is a file.
    pub fn is_file(&self) -> bool {
        self.len.is_some()
    }

    /// Whether it is a folder.
    pub fn is_dir(&self) -> bool {
        self.len.is_none()
    }

    /// There are no links.
    pub fn is_symlink(&self) -> bool {
        false
    }
}

fn is_folder(path: &Path) -> bool {
    host().ok().zip(text(path).ok()).is_some_and(|(host, path)| host.list(path).is_some())
}

/// What is known of a path.
pub fn metadata(path: impl AsRef<Path>) -> io::Result<Metadata> {
    let path = path.as_ref();
    match host()?.open(text(path)?) {
        Some((_, len)) => Ok(Metadata { len: Some(len) }),
        None if is_folder(path) => Ok(Metadata { len: None }),
        None => Err(io::ErrorKind::NotFound.into()),
    }
}

/// As [`metadata`]: there are no links.
pub fn symlink_metadata(path: impl AsRef<Path>) -> io::Result<Metadata> {
    metadata(path)
}

/// The path without `.`, where there is something: there are no links, and callers refuse `..`.
pub fn canonicalize(path: impl AsRef<Path>) -> io::Result<PathBuf> {
    let path: PathBuf = path.as_ref().components().filter(|part| part.as_os_str() != ".").collect();
    metadata(&path).map(|_| path)
}

/// A name in a folder.
#[derive(Debug)]
pub struct DirEntry(PathBuf);

impl DirEntry {
    /// Its path.
    pub fn path(&self) -> PathBuf {
        self.0.clone()
    }
}

/// The names in a folder.
pub fn read_dir(path: impl AsRef<Path>) -> io::Result<impl Iterator<Item = io::Result<DirEntry>>> {
    let path = path.as_ref();
    let names = host()?.list(text(path)?).ok_or(io::ErrorKind::NotFound)?;
    let entries: Vec<_> = names.lines().map(|name| Ok(DirEntry(path.join(name)))).collect();
    Ok(entries.into_iter())
}

/// All of a file of text.
pub fn read_to_string(path: impl AsRef<Path>) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.read_to_string(&mut text)?;
    Ok(text)
}

/// Refused: what the host lends is not removed.
pub fn remove_file(_: impl AsRef<Path>) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Refused: folders are the host's.
pub fn remove_dir(_: impl AsRef<Path>) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Folders are made with their files.
pub fn create_dir_all(_: impl AsRef<Path>) -> io::Result<()> {
    Ok(())
}
