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
use std::path::{Component, Path, PathBuf};

/// Whether files of outputs may be there already. A host takes each output once: what is about earlier ones is left out
/// of its modules.
pub(crate) const HAS_OUTPUTS: bool = cfg!(not(all(target_family = "wasm", target_os = "unknown")));

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

/// Where a path leads, of a file that may be missing: paths that lead to one place are one file. Missing folders count
/// as those that will be made: `new/..` is the folder that `new` will be in.
pub fn place_of(path: &Path) -> PathBuf {
    let mut place = if path.has_root() { PathBuf::new() } else { canonicalize(".").unwrap_or_default() };
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                place.pop();
            }
            part => place.push(part),
        }
        // Links are followed before what comes behind them.
        place = canonicalize(&place).unwrap_or(place);
    }
    place
}

/// Whether two paths are those of one folder or file.
pub fn is_same(first: &Path, second: &Path) -> bool {
    place_of(first) == place_of(second)
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

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_to_one_place_whatever_will_be_made() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |path: &str| folder.path().join(path);
        std::fs::create_dir_all(at("in/deep")).expect("folders");
        std::os::unix::fs::symlink(at("in/deep"), at("link")).expect("a link");
        for same in
            ["in", "./in", "in/../in", "new/../in", "new/other/../../in", "in/new/..", "link/..", "link/new/../.."]
        {
            assert!(is_same(&at(same), &at("in")), "{same}");
        }
        for other in ["in/new", "new/in", "new/../../in", "link", "link/../.."] {
            assert!(!is_same(&at(other), &at("in")), "{other}");
        }
        assert_eq!(place_of(Path::new("missing/../there")), canonicalize(".").expect("a folder").join("there"));
        assert!(is_same(&at("missing"), &at("new/../missing")));
    }
}
