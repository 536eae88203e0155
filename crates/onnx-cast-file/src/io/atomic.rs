//! Writing a file all at once or not at all.

use crate::io::error::IoError;
pub use crate::io::fs::folder_of;
use crate::io::links;
use crate::io::positional::{InputFile, is_stream};
use std::fs::{self, File};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};
use tempfile::TempPath;

/// A file that appears under its name only when it is complete: written beside its target, flushed to the disk, then
/// renamed. Dropped before [`AtomicFile::commit`], it leaves nothing behind and the target as it was.
///
/// Where the system has files without a name (Linux, most of its file systems), it has none until then, so that nothing
/// is left behind even where the process is killed; but in the moment between two system calls, if it replaces a file.
///
/// A target that is a symbolic link stays one: the file that it leads to is replaced, unless it is one of a cache. A
/// target that exists keeps its permissions and, where the system lets this process give files away, its owner.
#[derive(Debug)]
pub struct AtomicFile {
    path: PathBuf,
    /// What it will replace; `None` of the standard output, a pipe or a device.
    target: Option<PathBuf>,
    file: io::BufWriter<File>,
    /// Its name meanwhile, where it has one.
    temporary: Option<Temporary>,
    /// Whether it may replace a file.
    replace: bool,
    /// There was nothing at the target.
    is_new: bool,
}

impl AtomicFile {
    /// Starts a file at `path`. With `replace` it replaces a file there; without, it replaces nothing, not even what
    /// appears at `path` before [`AtomicFile::commit`].
    ///
    /// # Errors
    /// Where `path` is a folder, is occupied and not to be replaced, or may not be written to, or its folder takes no
    /// file.
    pub fn create(path: impl AsRef<Path>, replace: bool) -> Result<AtomicFile, IoError> {
        Self::start(path.as_ref(), replace, unnamed)
    }

    /// Starts a file; `unnamed` makes one without a name, where the system has such files.
    fn start(path: &Path, replace: bool, unnamed: fn(&Path) -> Option<File>) -> Result<AtomicFile, IoError> {
        if occupant(path) == Occupant::Stream {
            return Self::stream(path);
        }
        let refuse = |error| IoError::new(path, "write", error);
        if !replace && fs::symlink_metadata(path).is_ok_and(|there| !there.is_dir()) {
            return Err(occupied(path));
        }
        let (target, old) = target_of(path)?;
        let folder = folder_of(&target);
        let (file, temporary) = match unnamed(folder) {
            Some(file) => (file, None),
            None => {
                let (file, temporary) = named(folder).map_err(refuse)?;
                (file, Some(temporary))
            }
        };
        let is_new = old.is_none();
        if let Some(old) = old {
            inherit(&file, &old).map_err(refuse)?;
        }
        let (path, target, file) = (path.to_owned(), Some(target), buffered(file));
        Ok(AtomicFile { path, target, file, temporary, replace, is_new })
    }

    /// Goes on with a file that others have written under a temporary name, in the folder of `path`.
    pub fn resume(path: &Path, temporary: &Path) -> Result<AtomicFile, IoError> {
        let refuse = |error| IoError::new(temporary, "write", error);
        let (target, old) = target_of(path)?;
        let file = fs::OpenOptions::new().read(true).write(true).open(temporary).map_err(refuse)?;
        let is_new = old.is_none();
        if let Some(old) = old {
            inherit(&file, &old).map_err(refuse)?;
        }
        let name = TempPath::try_from_path(temporary).map_err(refuse)?;
        names().push(name.to_path_buf());
        let (temporary, replace) = (Some(Temporary(Some(name))), true);
        let (path, target, file) = (path.to_owned(), Some(target), buffered(file));
        Ok(AtomicFile { path, target, file, temporary, replace, is_new })
    }

    /// Starts a file that goes to the standard output (`-`), a pipe or a device when it is complete.
    fn stream(path: &Path) -> Result<AtomicFile, IoError> {
        let file = tempfile::tempfile().map_err(|error| IoError::new(path, "write", error))?;
        let (path, file) = (path.to_owned(), buffered(file));
        Ok(AtomicFile { path, target: None, file, temporary: None, replace: false, is_new: false })
    }

    /// Keeps a new file as private as the file that it is made of. A file that replaces another has the
    /// permissions of that.
    ///
    /// # Errors
    /// Where the system refuses.
    pub fn as_private_as(&self, input: &InputFile) -> Result<(), IoError> {
        let Some(input) = input.file().filter(|_| self.is_new && !is_stream(input.path())) else { return Ok(()) };
        restrict(self.file.get_ref(), input).map_err(|error| IoError::new(&self.path, "write", error))
    }

    /// Writes in order and to the file, for callers that seek back in it.
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

    /// Writes everything to the disk, so that little is left for [`AtomicFile::commit`] to fail at.
    pub fn sync(&mut self) -> Result<(), IoError> {
        let synced = self.file.flush().and_then(|()| self.file.get_ref().sync_all());
        synced.map_err(|error| IoError::new(&self.path, "write", error))
    }

    /// Writes everything to the disk and gives the file its name.
    ///
    /// # Errors
    /// Where the disk is full, the rename is refused, or another process has created a file that must not be replaced;
    /// the target is then as it was.
    pub fn commit(mut self) -> Result<(), IoError> {
        let Some(target) = self.target.take() else { return self.print() };
        self.sync()?;
        let refuse = |error: io::Error| match error.kind() {
            io::ErrorKind::AlreadyExists if !self.replace => occupied(&self.path),
            _ => IoError::new(&self.path, "write", error),
        };
        let mut names = names();
        let renamed = match self.temporary.take() {
            Some(temporary) => temporary.persist(&target, self.replace, &mut names),
            // A file that replaces none needs no other name first.
            None => match name_as(self.file.get_ref(), &target) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && self.replace => {
                    name(self.file.get_ref(), folder_of(&target)).and_then(|named| rename_over(named, &target))
                }
                named => named,
            },
        };
        drop(names);
        renamed.map_err(refuse)?;
        sync_folder(&target);
        Ok(())
    }

    fn print(mut self) -> Result<(), IoError> {
        let printed = self.file.flush().and_then(|()| {
            let mut out: Box<dyn Write> = match is_stream(&self.path) {
                true => Box::new(io::stdout().lock()),
                false => Box::new(fs::OpenOptions::new().write(true).open(&self.path)?),
            };
            let mut file = self.file.get_ref();
            file.seek(SeekFrom::Start(0))?;
            io::copy(&mut file, &mut out)?;
            out.flush()
        });
        printed.map_err(|error| IoError::new(&self.path, "write", error))
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

/// A new file as others had it: its permissions, and its owner, which only the superuser can give.
fn inherit(file: &File, old: &fs::Metadata) -> io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::{MetadataExt, fchown};
        let new = file.metadata()?;
        if (new.uid(), new.gid()) != (old.uid(), old.gid()) {
            // Not allowed is the rule for others: the file is then theirs, as a new one is.
            let _ = fchown(file, Some(old.uid()), Some(old.gid()));
        }
    }
    file.set_permissions(old.permissions())
}

/// Takes from group and others what another file does not give them.
#[cfg(unix)]
fn restrict(file: &File, other: &File) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let (mode, other) = (file.metadata()?.permissions().mode(), other.metadata()?.permissions().mode());
    let allowed = mode & (other | 0o700);
    if allowed & 0o777 == mode & 0o777 { Ok(()) } else { file.set_permissions(fs::Permissions::from_mode(allowed)) }
}

#[cfg(not(unix))]
fn restrict(_: &File, _: &File) -> io::Result<()> {
    Ok(())
}

/// Gives the content of a file to another one too, at once: by a link, or a copy where the file system has no links.
pub fn link_over(source: &Path, target: &Path) -> Result<(), IoError> {
    let failed = |error| IoError::new(target, "write", error);
    let target = fs::canonicalize(target).map_err(failed)?;
    let permissions = fs::metadata(&target).map_err(failed)?.permissions();
    let names = names();
    if let Ok(linked) = naming().make_in(folder_of(&target), |path| fs::hard_link(source, path)) {
        let renamed =
            fs::set_permissions(source, permissions).and_then(|()| rename_over(linked.into_temp_path(), &target));
        renamed.map_err(failed)?;
        sync_folder(&target);
        return Ok(());
    }
    drop(names);
    let mut copy = AtomicFile::create(&target, true)?;
    File::open(source).and_then(|mut source| io::copy(&mut source, &mut copy)).map_err(failed)?;
    copy.commit()
}

/// What exists at the path of an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Occupant {
    Nothing,
    /// The standard output (`-`), a pipe or a device: nothing there is replaced.
    Stream,
    EmptyFolder,
    Folder,
    /// A file, or a symlink to nothing.
    File,
}

/// Looks at the path of an output. Symlinks are followed.
pub(crate) fn occupant(path: &Path) -> Occupant {
    match fs::metadata(path) {
        _ if is_stream(path) => Occupant::Stream,
        Ok(there) if there.is_file() => Occupant::File,
        Ok(there) if !there.is_dir() => Occupant::Stream,
        Ok(_) if fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none()) => Occupant::EmptyFolder,
        Ok(_) => Occupant::Folder,
        Err(_) if fs::symlink_metadata(path).is_ok() => Occupant::File,
        Err(_) => Occupant::Nothing,
    }
}

/// A file that appeared after the rule for outputs was checked, or beside an output that nobody named.
fn occupied(path: &Path) -> IoError {
    let what = "another process has created it meanwhile (name another output)";
    IoError::new(path, "write", io::Error::new(io::ErrorKind::AlreadyExists, what))
}

/// The file that will be replaced, which must be one that may be, and what is there.
pub(crate) fn target_of(path: &Path) -> Result<(PathBuf, Option<fs::Metadata>), IoError> {
    let refuse = |error| IoError::new(path, "write", error);
    // A link that leads nowhere, or a new name, is its own target.
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    links::check_target(path, &target)?;
    let old = match fs::metadata(&target) {
        Ok(metadata) => Some(metadata),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        // In the same words as where the system finds it out later ([`folder_error`]).
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => return Err(refuse(error.kind().into())),
        Err(error) => return Err(refuse(error)),
    };
    if let Some(old) = &old {
        if old.is_dir() {
            return Err(refuse(io::ErrorKind::IsADirectory.into()));
        }
        if !old.is_file() {
            return Err(refuse(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")));
        }
        // A rename would replace a file that is write-protected, which is not what its owner asked for.
        fs::OpenOptions::new().write(true).open(&target).map_err(refuse)?;
    }
    Ok((target, old))
}

fn buffered(file: File) -> io::BufWriter<File> {
    io::BufWriter::with_capacity(1 << 18, file)
}

/// Creates the folder that a file is to be in. The new folders reach the disk with those that contain them: a file in
/// a folder that a power failure takes away would be lost, too.
pub fn create_folder(file: &Path) -> Result<(), IoError> {
    let (folder, missing) = (folder_of(file), missing_folders(file));
    fs::create_dir_all(folder).map_err(|error| IoError::new(folder, "make the folder", error))?;
    missing.iter().for_each(|made| sync_folder(made));
    Ok(())
}

/// Creates the output folder. A new folder is restricted to the permissions of the input folder.
pub(crate) fn create_output_folder(folder: &Path, input: &Path) -> Result<(), IoError> {
    let is_new = fs::symlink_metadata(folder).is_err();
    create_folder(&folder.join("x"))?;
    if cfg!(unix) && is_new && input.is_dir() {
        let restricted = File::open(folder).and_then(|made| restrict(&made, &File::open(input)?));
        restricted.map_err(|error| IoError::new(folder, "make the folder", error))?;
    }
    Ok(())
}

/// The folders that are missing of the path to a file's folder, the innermost first.
fn missing_folders(file: &Path) -> Vec<PathBuf> {
    let folders = folder_of(file).ancestors().take_while(|folder| !folder.as_os_str().is_empty());
    folders.take_while(|folder| fs::symlink_metadata(folder).is_err()).map(Path::to_owned).collect()
}

/// The folders that a job makes: they go again where it fails, as far as they are empty then.
#[derive(Default)]
pub(crate) struct NewFolders(Vec<PathBuf>);

impl NewFolders {
    /// Those that are missing of the path to a file's folder.
    pub(crate) fn of(file: &Path) -> NewFolders {
        NewFolders(missing_folders(file))
    }

    /// The job has not failed.
    pub(crate) fn keep(mut self) {
        self.0.clear();
    }
}

impl Drop for NewFolders {
    fn drop(&mut self) {
        // A folder with something in it stays, and so do those around it.
        let _ = self.0.iter().try_for_each(fs::remove_dir);
    }
}

/// The temporary files that have names now. Nothing is named, renamed or removed without it.
static NAMES: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn names() -> MutexGuard<'static, Vec<PathBuf>> {
    NAMES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Held while files that belong together get their names.
static TOGETHER: RwLock<()> = RwLock::new(());

/// Gives files that belong together their names: a process that a signal ends with [`end_without_traces`] ends before
/// the first has its name, or after the last. Not to be called by what it calls.
pub fn together<R>(commit: impl FnOnce() -> R) -> R {
    let _held = TOGETHER.read().unwrap_or_else(PoisonError::into_inner);
    commit()
}

/// For a process that a signal is about to end: removes the temporary files of all outputs that are not complete, and
/// calls `end`. Until that returns, which it need not, no output appears and no temporary file is made.
pub fn end_without_traces(end: impl FnOnce()) {
    let _ended = TOGETHER.write().unwrap_or_else(PoisonError::into_inner);
    let names = names();
    // What cannot be removed stays: the error cannot be reported any more.
    names.iter().for_each(|path| drop(fs::remove_file(path)));
    end();
}

/// A temporary file's name, which is removed when this is dropped.
#[derive(Debug)]
struct Temporary(Option<TempPath>);

impl Temporary {
    fn persist(mut self, target: &Path, replace: bool, names: &mut Vec<PathBuf>) -> io::Result<()> {
        let Some(path) = self.0.take() else { return Ok(()) };
        names.retain(|name| *name != *path);
        if replace { rename_over(path, target) } else { Ok(path.persist_noclobber(target)?) }
    }
}

/// Gives a temporary file the name of a target, which it replaces. Not by `persist`, which on Windows refuses a target
/// that is open, as the input of a cast in place is.
fn rename_over(path: TempPath, target: &Path) -> io::Result<()> {
    let path = path.keep()?;
    // What cannot be removed stays: the rename's error says more.
    fs::rename(&path, target).inspect_err(|_| drop(fs::remove_file(&path)))
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if let Some(path) = self.0.take() {
            names().retain(|name| *name != *path);
        }
    }
}

/// A file with a temporary name in a folder.
fn named(folder: &Path) -> io::Result<(File, Temporary)> {
    #[cfg_attr(not(unix), expect(unused_mut, reason = "there are no modes"))]
    let mut builder = naming();
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(NEW_FILE_MODE));
    let mut names = names();
    let (file, path) = builder.tempfile_in(folder).map_err(|error| folder_error(folder, &error))?.into_parts();
    names.push(path.to_path_buf());
    Ok((file, Temporary(Some(path))))
}

/// How temporary files are named.
fn naming() -> tempfile::Builder<'static, 'static> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".onnx-cast-").suffix(".tmp");
    builder
}

/// What a plain `File::create` asks for; the umask cuts it.
#[cfg(unix)]
const NEW_FILE_MODE: u32 = 0o666;

/// A file without a name in a folder; `None` where the system does not have them, or no way to name one later.
#[cfg(target_os = "linux")]
fn unnamed(folder: &Path) -> Option<File> {
    use rustix::fs::{Mode, OFlags, open};
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let file = File::from(open(folder, flags, Mode::from_raw_mode(NEW_FILE_MODE)).ok()?);
    fs::symlink_metadata(link_to(&file)).is_ok().then_some(file)
}

#[cfg(not(target_os = "linux"))]
fn unnamed(_: &Path) -> Option<File> {
    None
}

/// Where the system shows an open file.
#[cfg(target_os = "linux")]
fn link_to(file: &File) -> PathBuf {
    use std::os::fd::AsRawFd;
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// Gives an unnamed file a name that no file has.
#[cfg(target_os = "linux")]
fn name_as(file: &File, path: &Path) -> io::Result<()> {
    use rustix::fs::{AtFlags, CWD, linkat};
    Ok(linkat(CWD, link_to(file), CWD, path, AtFlags::SYMLINK_FOLLOW)?)
}

#[cfg(not(target_os = "linux"))]
fn name_as(_: &File, _: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Gives an unnamed file a temporary name, so that it can be renamed over another, which naming alone cannot do.
fn name(file: &File, folder: &Path) -> io::Result<TempPath> {
    Ok(naming().make_in(folder, |path| name_as(file, path))?.into_temp_path())
}

/// Writes the folder of a path to the disk, and with it the names that were given and removed there. The data of a file
/// is safe either way, so a system that cannot do this is no failure.
pub(crate) fn sync_folder(target: &Path) {
    if cfg!(unix) {
        let _ = File::open(folder_of(target)).and_then(|folder| folder.sync_all());
    }
}

/// What the system said, without what was put around it.
fn of_system(error: &io::Error) -> io::Error {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(code) = error.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error) {
            return io::Error::from_raw_os_error(code);
        }
        // An error in the custom form does not name what is in it as its source, but that one's source.
        let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        cause = inner.map(|inner| inner as &(dyn std::error::Error + 'static)).or_else(|| error.source());
    }
    error.kind().into()
}

/// Why no file can be made in a folder, without the temporary file's path, which means nothing to a user.
fn folder_error(folder: &Path, error: &io::Error) -> io::Error {
    match fs::metadata(folder) {
        Err(error) => error,
        Ok(metadata) if !metadata.is_dir() => io::ErrorKind::NotADirectory.into(),
        Ok(_) => of_system(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Held by tests with temporary names: one of them removes those of the whole process.
    static HAS_NAMES: Mutex<()> = Mutex::new(());

    /// A kind alone would be "uncategorized error", of those that the standard library has no name for.
    #[cfg(target_os = "linux")]
    #[test]
    fn an_error_of_the_system_keeps_its_words() {
        #[derive(Debug)]
        struct Around(io::Error);
        impl std::fmt::Display for Around {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "{} at path \"/tmp/.tmpXYZ\"", self.0)
            }
        }
        impl std::error::Error for Around {
            fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
                Some(&self.0)
            }
        }
        let around = |code| {
            let inner = io::Error::from_raw_os_error(code);
            io::Error::new(inner.kind(), Around(inner))
        };
        let here = Path::new(".");
        assert_eq!(folder_error(here, &around(5)).to_string(), "Input/output error (os error 5)");
        assert_eq!(folder_error(here, &around(13)).to_string(), "Permission denied (os error 13)");
        assert_eq!(folder_error(here, &io::ErrorKind::StorageFull.into()).to_string(), "no storage space");
    }

    /// A file that appears while another is written stays, whether the other has a temporary name or none.
    #[test]
    fn a_file_that_appears_meanwhile_is_not_replaced() {
        let _names = HAS_NAMES.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("x");
        for with_name in [false, true] {
            let mut file = AtomicFile::create(&path, false).expect("nothing is there");
            if with_name {
                let (inner, temporary) = named(folder.path()).expect("a temporary file");
                (file.file, file.temporary) = (buffered(inner), Some(temporary));
            }
            file.write_all(b"new").expect("written");
            fs::write(&path, "old").expect("another file");
            let error = file.commit().expect_err("it exists").to_string();
            let want = "x: cannot write: another process has created it meanwhile (name another output)";
            assert!(error.ends_with(want), "{error}");
            assert_eq!(AtomicFile::create(&path, false).expect_err("it exists").to_string(), error);
            assert_eq!(fs::read(&path).expect("a file"), b"old");
            assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1);
            fs::remove_file(&path).expect("removed");
        }
        let mut file = AtomicFile::create(&path, false).expect("nothing is there");
        file.write_all(b"new").and_then(|()| file.commit().map_err(|error| error.error)).expect("written");
        assert_eq!(fs::read(&path).expect("a file"), b"new");
    }

    /// What systems without unnamed files do, forced on those that have them.
    #[test]
    fn a_file_with_a_temporary_name_is_as_atomic_as_one_without() {
        let _names = HAS_NAMES.lock().unwrap_or_else(PoisonError::into_inner);
        for unnamed in [unnamed, |_: &Path| None] as [fn(&Path) -> Option<File>; 2] {
            let folder = tempfile::tempdir().expect("a folder");
            let (path, list) = (folder.path().join("x"), || fs::read_dir(folder.path()).expect("a folder").count());
            let start = |replace| AtomicFile::start(&path, replace, unnamed);

            let mut dropped = start(true).expect("a file");
            dropped.write_all(b"half").expect("written");
            assert!(!path.exists());
            drop(dropped);
            assert_eq!(list(), 0);

            for content in [&b"first"[..], b"second"] {
                let mut file = start(true).expect("a file");
                file.write_all(content).and_then(|()| file.commit().map_err(|error| error.error)).expect("written");
                assert_eq!((fs::read(&path).expect("a file"), list()), (content.to_vec(), 1));
            }
            assert!(start(false).is_err());
            assert_eq!(list(), 1);
            check_permissions_and_links(&path, unnamed);
        }
    }

    /// A replaced file keeps its mode, and a link to it stays one; a new file has the mode that a plain one gets.
    #[cfg(unix)]
    fn check_permissions_and_links(path: &Path, unnamed: fn(&Path) -> Option<File>) {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let mode = |path: &Path| fs::metadata(path).expect("a file").permissions().mode() & 0o777;
        let write = |path: &Path| {
            let mut file = AtomicFile::start(path, true, unnamed).expect("a file");
            file.write_all(b"new").and_then(|()| file.commit().map_err(|error| error.error)).expect("written");
        };
        let (plain, new, link) = (path.with_extension("a"), path.with_extension("b"), path.with_extension("c"));
        fs::write(&plain, "").expect("a plain file");
        write(&new);
        assert_eq!(mode(&new), mode(&plain));
        fs::set_permissions(path, fs::Permissions::from_mode(0o640)).expect("a mode");
        symlink(path, &link).expect("a link");
        write(&link);
        assert!(fs::symlink_metadata(&link).expect("a link").is_symlink());
        assert_eq!((mode(path), fs::read(path).expect("a file")), (0o640, b"new".to_vec()));
    }

    #[cfg(not(unix))]
    fn check_permissions_and_links(_: &Path, _: fn(&Path) -> Option<File>) {}

    #[test]
    fn files_that_belong_together_appear_before_the_end_or_not_at_all() {
        let _names = HAS_NAMES.lock().unwrap_or_else(PoisonError::into_inner);
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            together(|| {
                scope.spawn(|| end_without_traces(|| sender.send("ended").expect("it is received")));
                // Long enough for an end that does not wait.
                std::thread::sleep(std::time::Duration::from_millis(100));
                assert!(receiver.try_recv().is_err(), "the end waits");
            });
            assert_eq!(receiver.recv(), Ok("ended"));
        });
    }

    #[test]
    fn who_is_ended_leaves_no_name() {
        let _names = HAS_NAMES.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = tempfile::tempdir().expect("a folder");
        let list = || fs::read_dir(folder.path()).expect("a folder").count();
        let start = || named(folder.path()).expect("a temporary file");
        // A file is closed before its name is removed, as in `AtomicFile`: Windows may keep the name until then.
        let (first, (_open, second), (_, third)) = (start(), start(), start());
        assert_eq!(list(), 3);
        drop(first);
        assert_eq!(list(), 2);
        let target = folder.path().join("x");
        second.persist(&target, true, &mut names()).expect("renamed");
        let mut called = false;
        end_without_traces(|| {
            called = true;
            assert!(NAMES.try_lock().is_err());
        });
        assert!(called && target.exists());
        assert_eq!(list(), 1);
        drop(third);
        assert!(names().iter().all(|name| name.parent() != Some(folder.path())));
    }
}
