//! The file system: the system's; in WebAssembly without a system, the files that the host lends (`Host`).

#[cfg(all(target_family = "wasm", target_os = "unknown"))]
mod host;

#[cfg(all(target_family = "wasm", target_os = "unknown"))]
pub use host::*;
#[cfg(not(all(target_family = "wasm", target_os = "unknown")))]
pub use std::fs::*;
#[cfg(not(all(target_family = "wasm", target_os = "unknown")))]
pub use tempfile::{tempfile, tempfile_in};

use std::io;
use std::path::{Path, PathBuf};

/// The folder that a path is in.
pub fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Whether a path is that of a folder.
pub fn is_dir(path: &Path) -> bool {
    metadata(path).is_ok_and(|metadata| metadata.is_dir())
}

/// Whether a path is that of a file.
pub fn is_file(path: &Path) -> bool {
    metadata(path).is_ok_and(|metadata| metadata.is_file())
}

/// Where a path leads, of a file that need not be there yet: paths that lead to one place are one file.
pub fn place_of(path: &Path) -> PathBuf {
    let in_folder = || {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        Some(canonicalize(folder).ok()?.join(path.file_name()?))
    };
    canonicalize(path).ok().or_else(in_folder).unwrap_or_else(|| path.to_owned())
}

/// Where temporary files go.
pub fn temp_dir() -> PathBuf {
    // `std::env` panics where there is no system.
    if cfg!(all(target_family = "wasm", target_os = "unknown")) { PathBuf::new() } else { std::env::temp_dir() }
}

/// The paths in a folder, in any order.
///
/// # Errors
/// Where the folder cannot be read.
pub fn entries(folder: &Path) -> io::Result<Vec<PathBuf>> {
    read_dir(folder)?.map(|entry| Ok(entry?.path())).collect()
}
