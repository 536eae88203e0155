//! Outputs of several files, which must not mix with those of another process: a lock on their folder. The system lifts
//! it when the process ends, so nothing is left behind. Windows does not lock folders, and some network file systems do
//! not: there, nothing is locked.

use crate::io::error::IoError;
use crate::io::fs::place_of;
use std::cell::RefCell;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long a lock is waited for that others hold only for a few renames, and how often it is tried.
const PATIENCE: Duration = Duration::from_secs(20);
const PERIOD: Duration = Duration::from_millis(2);

thread_local! {
    /// The folders that a job of this thread has locked.
    static OWN: RefCell<Vec<PathBuf>> = const { RefCell::new(Vec::new()) };
}

/// A folder in which no other job writes files that belong together, until this is dropped. The jobs that it consists
/// of, on the same thread, may lock it again.
#[derive(Debug)]
pub struct FolderLock {
    /// The place of the folder, and what holds the system's lock.
    held: Option<(PathBuf, std::fs::File)>,
}

impl Drop for FolderLock {
    fn drop(&mut self) {
        if let Some((place, _)) = &self.held {
            OWN.with_borrow_mut(|own| own.retain(|held| held != place));
        }
    }
}

impl FolderLock {
    /// Locks a folder for a job.
    ///
    /// # Errors
    /// Where another job holds it.
    pub fn take(folder: &Path) -> Result<FolderLock, IoError> {
        Self::within(folder, Duration::ZERO)
    }

    /// Locks a folder for the moment in which files get their names.
    ///
    /// # Errors
    /// Where a job that takes longer holds it.
    pub fn wait(folder: &Path) -> Result<FolderLock, IoError> {
        Self::within(folder, PATIENCE)
    }

    /// Whether a job of this thread has locked a folder.
    pub(crate) fn is_own(folder: &Path) -> bool {
        let place = place_of(folder);
        OWN.with_borrow(|own| own.contains(&place))
    }

    fn within(folder: &Path, patience: Duration) -> Result<FolderLock, IoError> {
        if cfg!(not(unix)) || Self::is_own(folder) {
            return Ok(FolderLock { held: None });
        }
        // A folder that cannot be read cannot be locked, and may still take files.
        let Ok(opened) = std::fs::File::open(folder) else { return Ok(FolderLock { held: None }) };
        let start = Instant::now();
        loop {
            match opened.try_lock() {
                Ok(()) => {
                    let place = place_of(folder);
                    OWN.with_borrow_mut(|own| own.push(place.clone()));
                    return Ok(FolderLock { held: Some((place, opened)) });
                }
                Err(std::fs::TryLockError::Error(_)) => return Ok(FolderLock { held: None }),
                Err(std::fs::TryLockError::WouldBlock) if start.elapsed() < patience => std::thread::sleep(PERIOD),
                Err(std::fs::TryLockError::WouldBlock) => {
                    let what = "another job is writing to this folder (wait for it, or name another output)";
                    return Err(IoError::new(folder, "write", io::Error::new(io::ErrorKind::ResourceBusy, what)));
                }
            }
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn one_job_holds_a_folder_at_a_time() {
        let folder = tempfile::tempdir().expect("a folder");
        let held = FolderLock::take(folder.path()).expect("free");
        FolderLock::take(folder.path()).expect("held by this job");
        let other =
            || std::thread::scope(|scope| scope.spawn(|| FolderLock::take(folder.path())).join().expect("no panic"));
        let error = other().expect_err("held").to_string();
        assert!(
            error.ends_with("another job is writing to this folder (wait for it, or name another output)"),
            "{error}"
        );
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| FolderLock::wait(folder.path()).is_ok());
            drop(held);
            assert!(waits.join().expect("no panic"));
        });
        FolderLock::take(folder.path()).expect("free again");
        FolderLock::take(&folder.path().join("none")).expect("nothing to lock");
    }
}
