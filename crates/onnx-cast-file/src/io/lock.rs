//! Outputs of several files, which must not mix with those of another process: a lock on their folder. The system lifts
//! it when the process ends, so nothing is left behind. Windows does not lock folders, and some network file systems do
//! not: there, nothing is locked.

use crate::io::error::IoError;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long a lock is waited for that others hold only for a few renames, and how often it is tried.
const PATIENCE: Duration = Duration::from_secs(20);
const PERIOD: Duration = Duration::from_millis(2);

/// A folder in which no other job writes files that belong together, until this is dropped.
#[derive(Debug)]
pub struct FolderLock {
    #[expect(dead_code, reason = "held until it is dropped")]
    held: Option<std::fs::File>,
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

    fn within(folder: &Path, patience: Duration) -> Result<FolderLock, IoError> {
        if cfg!(not(unix)) {
            return Ok(FolderLock { held: None });
        }
        // A folder that cannot be read cannot be locked, and may still take files.
        let Ok(opened) = std::fs::File::open(folder) else { return Ok(FolderLock { held: None }) };
        let start = Instant::now();
        loop {
            match opened.try_lock() {
                Ok(()) => return Ok(FolderLock { held: Some(opened) }),
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
        let error = FolderLock::take(folder.path()).expect_err("held").to_string();
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
