//! The quantized checkpoints of `data/checkpoints`, which are stored as archives, as folders.
//! `scripts/generate/checkpoint_archives.py` packs them.

use std::fs;
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, Cursor};
use std::path::{Path, PathBuf};

/// The paths in a folder, sorted.
fn entries(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let paths: io::Result<Vec<PathBuf>> = fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect();
    let mut paths = paths?;
    paths.sort();
    Ok(paths)
}

/// Unpacks the archives into a folder that appears only when it is complete. Its name has a hash of the archives, so
/// that later test runs find it, and find another one after a change.
fn unpack(temporary: &Path) -> io::Result<PathBuf> {
    let mut paths = entries(&Path::new(env!("CARGO_MANIFEST_DIR")).join("data/checkpoints"))?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "zip"));
    let archives = paths.iter().map(fs::read).collect::<io::Result<Vec<_>>>()?;
    let mut hasher = DefaultHasher::new();
    archives.iter().for_each(|bytes| hasher.write(bytes));
    let folder = temporary.join(format!("checkpoints-{:016x}", hasher.finish()));
    if folder.exists() {
        return Ok(folder);
    }
    // Several tests may do this at once, each under a name of its own; the first to finish gives the folder its name.
    let own = folder.with_extension(format!("{}-{:?}", std::process::id(), std::thread::current().id()));
    for bytes in archives {
        zip::ZipArchive::new(Cursor::new(bytes))?.extract(&own)?;
    }
    if let Err(error) = fs::rename(&own, &folder) {
        fs::remove_dir_all(&own)?;
        if !folder.exists() {
            return Err(error);
        }
    }
    Ok(folder)
}

/// A folder with a folder for each checkpoint, to be read only. It is in `temporary`, which is `CARGO_TARGET_TMPDIR`
/// in integration tests.
///
/// # Panics
/// Where the archives cannot be read or the files not be written.
pub fn folder(temporary: &str) -> PathBuf {
    unpack(Path::new(temporary)).unwrap_or_else(|error| panic!("the stored checkpoints in {temporary}: {error}"))
}

/// The folders of all checkpoints, sorted.
///
/// # Panics
/// As [`folder`] does, and where there are fewer than 20.
pub fn all(temporary: &str) -> Vec<PathBuf> {
    let found = entries(&folder(temporary)).expect("the checkpoints");
    assert!(found.len() > 20, "{found:?}");
    found
}
