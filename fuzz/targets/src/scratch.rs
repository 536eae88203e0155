//! The folder in which targets read and write files, one for the process: in memory, where the system has that, since
//! much of a run is files. A fuzzer that ends a process runs no destructors: it says in `TMPDIR` where the folder is to
//! be.

use arbitrary::{Result, Unstructured};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::{env, fs};

/// Where Linux has files in memory.
const MEMORY: &str = "/dev/shm";

/// The folder.
pub(crate) fn folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let told = env::var_os("TMPDIR").is_some() || !Path::new(MEMORY).is_dir();
        let folder = if told { tempfile::tempdir() } else { tempfile::tempdir_in(MEMORY) };
        folder.expect("a folder for temporary files").keep()
    })
}

/// Removes the folder: no target runs after this.
pub fn remove_folder() {
    fs::remove_dir_all(folder()).expect("the folder for temporary files");
}

/// The path of that name in the folder.
pub(crate) fn path(name: &str) -> PathBuf {
    folder().join(name)
}

/// The path of an output of that name. What an earlier input left there is removed.
pub(crate) fn output(name: &str) -> PathBuf {
    let path = path(name);
    let _ = fs::remove_file(&path);
    path
}

/// Writes a file, and gives its path.
pub(crate) fn write(name: &str, bytes: &[u8]) -> PathBuf {
    let path = path(name);
    fs::write(&path, bytes).expect("a file in the folder for temporary files");
    path
}

/// Writes files of some names into a folder of the folder: for each a byte for its name, two for a length, and its bytes.
/// Gives the paths.
pub(crate) fn lay_out(data: &[u8], below: &str, names: &[&str]) -> Result<Vec<PathBuf>> {
    let (mut data, mut paths) = (Unstructured::new(data), Vec::new());
    while !data.is_empty() {
        let name = *data.choose(names)?;
        let len = usize::from(data.arbitrary::<u16>()?).min(data.len());
        paths.push(write(&format!("{below}{name}"), data.bytes(len)?));
    }
    Ok(paths)
}

/// Every file below the folder by its path there, with its bytes.
pub(crate) fn files() -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut folders = vec![folder().to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).expect("the folder for temporary files") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder()).expect("it is below").to_owned();
                files.insert(name, fs::read(&path).expect("a file"));
            }
        }
    }
    files
}

/// Removes everything in the folder.
pub(crate) fn clear() {
    for entry in fs::read_dir(folder()).expect("the folder for temporary files") {
        let path = entry.expect("an entry").path();
        let removed = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        removed.expect("removed");
    }
}
