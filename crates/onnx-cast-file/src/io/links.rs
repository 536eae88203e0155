//! Which symbolic links are followed. A folder from elsewhere may hold links to any file of this machine, so of the
//! files that a folder or a model names, a link is read only if it stays in the folder, or leads to a file of the cache
//! that the folder is a part of. Nothing is written through a link that nobody named.

use crate::io::error::IoError;
use crate::io::fs::{self, folder_of};
use std::io;
use std::path::{Path, PathBuf};

/// The folders of huggingface_hub's cache: a repository has files under their hashes in `blobs`, and in
/// `snapshots/REVISION` links to them under their names.
const BLOBS: &str = "blobs";
const SNAPSHOTS: &str = "snapshots";

/// The file that a path in a folder leads to; `None` where a link leads out of the folder, and not to a file of the
/// cache that the folder is in.
///
/// # Errors
/// Where one of them cannot be found.
pub fn resolved(folder: &Path, path: &Path) -> io::Result<Option<PathBuf>> {
    let (folder, target) = (fs::canonicalize(folder)?, fs::canonicalize(path)?);
    Ok((target.starts_with(&folder) || is_blob_of(&folder, &target)).then_some(target))
}

/// Refuses to read a file of a folder that is a link out of it. What cannot be found is left to the one that opens it.
///
/// # Errors
/// Where it is such a link.
pub fn check_read(path: &Path) -> Result<(), IoError> {
    check_read_within(folder_of(path), path)
}

/// As [`check_read`], of a file in a folder or in one within it.
///
/// # Errors
/// As [`check_read`].
pub fn check_read_within(folder: &Path, path: &Path) -> Result<(), IoError> {
    match resolved(folder, path) {
        Ok(None) => {
            let what = "a symlink out of the folder, which is not followed (put the file itself there)";
            Err(IoError::new(path, "read", io::Error::new(io::ErrorKind::InvalidInput, what)))
        }
        _ => Ok(()),
    }
}

/// Refuses to write a file under a name that nobody gave, such as that of a part of a checkpoint, if a link is there.
///
/// # Errors
/// Where there is a link.
pub fn check_write(path: &Path) -> Result<(), IoError> {
    let is_link = fs::symlink_metadata(path).is_ok_and(|there| there.is_symlink());
    if is_link {
        Err(refused(path, "a symlink, which is not written through (remove it, or name another output)"))
    } else {
        Ok(())
    }
}

/// Refuses to write through a link to a file of a cache, whose name is its hash and which others share. A browser has
/// no links.
#[cfg(not(all(target_family = "wasm", target_os = "unknown")))]
pub(crate) fn check_target(path: &Path, target: &Path) -> Result<(), IoError> {
    let is_link = fs::symlink_metadata(path).is_ok_and(|there| there.is_symlink());
    let blobs = target.parent().filter(|blobs| blobs.ends_with(BLOBS));
    match blobs.and_then(Path::parent).filter(|repository| is_link && fs::is_dir(&repository.join(SNAPSHOTS))) {
        Some(_) => Err(refused(path, "a symlink to a file of a cache, which is never changed (name another output)")),
        None => Ok(()),
    }
}

fn refused(path: &Path, what: &'static str) -> IoError {
    IoError::new(path, "write", io::Error::new(io::ErrorKind::InvalidInput, what))
}

/// Whether a file is one of the cache that has the folder as a snapshot, or within one.
fn is_blob_of(folder: &Path, target: &Path) -> bool {
    let Some(blobs) = target.parent().filter(|blobs| blobs.ends_with(BLOBS)) else { return false };
    let within = blobs.parent().and_then(|repository| folder.strip_prefix(repository.join(SNAPSHOTS)).ok());
    within.is_some_and(|within| within.components().next().is_some())
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::fs::{create_dir_all, write};
    use std::os::unix::fs::symlink;

    #[test]
    fn only_links_within_a_folder_or_into_its_cache_are_followed() {
        let root = tempfile::tempdir().expect("a folder");
        let at = |path: &str| root.path().join(path);
        for folder in ["repo/blobs", "repo/snapshots/main/onnx", "other/blobs", "other/snapshots/main"] {
            create_dir_all(at(folder)).expect("a folder");
        }
        for file in ["repo/blobs/ab12", "other/blobs/ab12", "repo/refs", "repo/snapshots/main/plain", "secret"] {
            write(at(file), file).expect("a file");
        }
        for (target, link, follows) in [
            ("../../blobs/ab12", "repo/snapshots/main/a", true),
            ("../../../blobs/ab12", "repo/snapshots/main/onnx/b", true),
            ("plain", "repo/snapshots/main/c", true),
            ("a", "repo/snapshots/main/d", true),
            ("../../refs", "repo/snapshots/main/e", false),
            ("../../../other/blobs/ab12", "repo/snapshots/main/f", false),
            ("../../../secret", "repo/snapshots/main/g", false),
            ("../plain", "repo/snapshots/main/onnx/h", false),
            // Only a snapshot has blobs of its own.
            ("blobs/ab12", "repo/i", true),
            ("../repo/blobs/ab12", "other/j", false),
            ("../blobs/ab12", "repo/snapshots/k", false),
        ] {
            symlink(target, at(link)).expect("a link");
            assert_eq!(check_read(&at(link)).is_ok(), follows, "{link}");
            assert!(check_write(&at(link)).is_err(), "{link}");
        }
        assert!(check_read(&at("repo/none")).is_ok() && check_write(&at("repo/none")).is_ok());
        let target = |path: &str| fs::canonicalize(at(path)).expect("a file");
        assert!(check_target(&at("repo/snapshots/main/a"), &target("repo/blobs/ab12")).is_err());
        assert!(check_target(&at("repo/snapshots/main/c"), &target("repo/snapshots/main/plain")).is_ok());
        assert!(check_target(&at("repo/blobs/ab12"), &target("repo/blobs/ab12")).is_ok());
    }
}
