//! What stands beside the weights of a checkpoint: configurations, tokenizers, licences. Libraries that load a
//! checkpoint want them in its folder, so that a cast from folder to folder copies them.

use crate::error::FileError;
use crate::io::AtomicFile;
use crate::io::fs::{self, File};
use crate::request::CastRequest;
use crate::summary::Summary;
use std::io;
use std::path::{Path, PathBuf};

/// Extensions of weights in any format: those that are cast, and others, which are not what the output holds.
const WEIGHTS: &[&str] =
    &["safetensors", "bin", "pt", "pth", "ckpt", "gguf", "ggml", "h5", "msgpack", "ot", "onnx", "onnx_data", "npz"];

/// The other files of a folder, and where they go.
pub(crate) struct Others<'a> {
    files: Vec<PathBuf>,
    folder: &'a Path,
    dry_run: bool,
    no_clobber: bool,
}

impl<'a> Others<'a> {
    pub(crate) fn of(input: &Path, folder: &'a Path, request: &CastRequest) -> Result<Self, FileError> {
        let files = if request.copy_others { files_beside(input, folder)? } else { Vec::new() };
        Ok(Others { files, folder, dry_run: request.dry_run, no_clobber: request.write.no_clobber })
    }

    /// Copies them when the weights are there.
    pub(crate) fn finish(self, done: Summary) -> Result<Summary, FileError> {
        if !self.dry_run {
            copy(&self.files, self.folder, self.no_clobber)?;
        }
        Ok(Summary { copied: self.files.len(), ..done })
    }
}

/// As [`beside`], where the input is a folder; otherwise none.
pub(crate) fn files_beside(input: &Path, output: &Path) -> Result<Vec<PathBuf>, FileError> {
    if fs::is_dir(input) { beside(input, output) } else { Ok(Vec::new()) }
}

/// The files beside the weights of a folder, in the order of their names: neither hidden files, nor weights, nor their
/// indices, nor folders. None where the output is the folder itself.
pub(crate) fn beside(folder: &Path, output: &Path) -> Result<Vec<PathBuf>, FileError> {
    if fs::canonicalize(folder).ok() == fs::canonicalize(output).ok() {
        return Ok(Vec::new());
    }
    let failed = |error| FileError::io(folder, "read", error);
    let mut files = Vec::new();
    for path in fs::entries(folder).map_err(failed)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
        let weights = name.ends_with(".index.json") || WEIGHTS.iter().any(|end| name.ends_with(&format!(".{end}")));
        if !name.starts_with('.') && !weights && fs::is_file(&path) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Copies files to a folder, each of which appears there whole or not at all.
pub(crate) fn copy(files: &[PathBuf], folder: &Path, no_clobber: bool) -> Result<(), FileError> {
    for path in files {
        let target = folder.join(path.file_name().unwrap_or_default());
        let mut source = File::open(path).map_err(|error| FileError::io(path, "open", error))?;
        let mut out = AtomicFile::create_with(&target, no_clobber)?;
        io::copy(&mut source, &mut out).map_err(|error| FileError::io(&target, "write", error))?;
        out.commit()?;
    }
    Ok(())
}
