//! The other files of a checkpoint's folder: configurations, tokenizers, licences, and the index. Libraries that load a
//! checkpoint want them in its folder, so that a job from folder to folder copies them.

use super::Rewrite;
use super::open::is_same;
use crate::error::FileError;
use crate::io::AtomicFile;
use crate::io::fs::{self, File};
use crate::io::links;
use crate::io::positional::{InputFile, PositionedReader};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// The configuration that names the type of the weights, and says how they are quantized.
pub(crate) const CONFIG: &str = "config.json";

/// Extensions of weights in any format: those that are cast, and others, which are not what the output holds.
const WEIGHTS: &[&str] =
    &["safetensors", "bin", "pt", "pth", "ckpt", "gguf", "ggml", "h5", "msgpack", "ot", "onnx", "onnx_data", "npz"];

/// The other files of a folder that is written.
#[derive(Default)]
pub(crate) struct SideFiles {
    /// Files that are copied as they are.
    pub(super) copied: Vec<PathBuf>,
    /// Files that are written.
    pub(crate) texts: Vec<Text>,
    /// The configuration, where a run goes on and finds another one than it would write: it keeps what others changed.
    kept: Option<String>,
    /// How many files are copied, the configuration among them where only its type changes.
    pub(super) count: usize,
}

/// A file that is written.
pub(crate) struct Text {
    pub(crate) path: PathBuf,
    pub(crate) text: String,
    /// The file that it is made of, if it is not made of the weights.
    pub(crate) of: Option<PathBuf>,
}

impl SideFiles {
    /// The files beside the weights of a folder, in the order of their names: neither hidden files, nor weights, nor
    /// their indices, nor folders. None where the input is no folder, or the output is that folder. All of them can be
    /// read.
    pub(crate) fn of(folder: &Path, output: &Path) -> Result<SideFiles, FileError> {
        if !fs::is_dir(folder) || is_same(folder, output) {
            return Ok(SideFiles::default());
        }
        let failed = |error| FileError::io(folder, "read", error);
        let mut files = Vec::new();
        for path in fs::entries(folder).map_err(failed)? {
            let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
            let weights = name.contains(".index.json") || WEIGHTS.iter().any(|end| name.ends_with(&format!(".{end}")));
            if !name.starts_with('.') && !weights && fs::is_file(&path) {
                links::check_read(&path)?;
                File::open(&path).map_err(|error| FileError::io(&path, "open", error))?;
                files.push(path);
            }
        }
        files.sort();
        Ok(SideFiles { count: files.len(), copied: files, ..SideFiles::default() })
    }

    /// Whether the configuration is written.
    pub(crate) fn has_config(&self) -> bool {
        self.texts.iter().any(|text| text.path.ends_with(CONFIG))
    }

    /// Where they go.
    pub(super) fn targets(&self, folder: &Path) -> impl Iterator<Item = PathBuf> {
        let copied = self.copied.iter().map(|path| target(path, folder));
        self.texts.iter().map(|text| text.path.clone()).chain(copied)
    }

    /// Leaves out a file.
    pub(crate) fn remove(&mut self, name: &str) -> Option<PathBuf> {
        let place = self.copied.iter().position(|path| path.ends_with(name))?;
        self.count -= 1;
        Some(self.copied.remove(place))
    }

    /// Rewrites the configuration, where there is one: it no longer counts as copied.
    pub(crate) fn rewrite_config(
        &mut self,
        folder: &Path,
        resume: bool,
        rewrite: impl Fn(&Path) -> Result<String, FileError>,
    ) -> Result<(), FileError> {
        let Some(path) = self.remove(CONFIG) else { return Ok(()) };
        let text = rewrite(&path)?;
        self.write_config(folder, path, text, resume, |there| rewrite(there).map(Some))
    }

    /// Changes a little in a copy of the configuration, where there is one and it can be changed.
    pub(crate) fn edit_config(
        &mut self,
        folder: &Path,
        resume: bool,
        edit: impl Fn(&Path) -> Option<String>,
    ) -> Result<(), FileError> {
        let Some(place) = self.copied.iter().position(|path| path.ends_with(CONFIG)) else { return Ok(()) };
        let Some(text) = edit(&self.copied[place]) else { return Ok(()) };
        let path = self.copied.remove(place);
        self.write_config(folder, path, text, resume, |there| Ok(edit(there)))
    }

    /// Going on with a run, the configuration that is there is rewritten.
    fn write_config(
        &mut self,
        folder: &Path,
        path: PathBuf,
        mut text: String,
        resume: bool,
        rewrite: impl Fn(&Path) -> Result<Option<String>, FileError>,
    ) -> Result<(), FileError> {
        let target = folder.join(CONFIG);
        if resume
            && fs::read_to_string(&target).is_ok_and(|there| there != text)
            && let Some(own) = rewrite(&target)?
        {
            self.kept = (own != text).then(|| CONFIG.to_owned());
            text = own;
        }
        self.texts.push(Text { path: target, text, of: Some(path) });
        Ok(())
    }

    /// Changes a configuration in its place.
    pub(crate) fn edit_in_place(
        &mut self,
        folder: &Path,
        edit: impl Fn(&Path) -> Option<String>,
    ) -> Result<(), FileError> {
        let path = folder.join(CONFIG);
        if fs::is_file(&path) {
            links::check_write(&path)?;
            self.texts.extend(edit(&path).map(|text| Text { path: path.clone(), text, of: Some(path) }));
        }
        Ok(())
    }
}

impl Rewrite<'_> {
    /// Writes the other files, and returns the names of those that were there with another content and stay.
    pub(super) fn finish(&self) -> Result<Vec<String>, FileError> {
        let mut kept = Vec::new();
        let (no_clobber, resume) = (self.options.write.no_clobber, self.options.resume);
        if let Some(folder) = &self.opened.places.folder {
            kept.extend(copy(&self.side_files.copied, folder, no_clobber, resume)?);
        }
        kept.extend(self.side_files.kept.clone());
        let weights = self.opened.checkpoint.files.first().map(|input| &input.file);
        for Text { path, text, of } in &self.side_files.texts {
            if (resume || self.opened.in_place) && fs::read_to_string(path).is_ok_and(|there| there == *text) {
                continue;
            }
            let of = of.as_deref().map(InputFile::open).transpose()?;
            write_text(path, text, of.as_ref().or(weights), no_clobber)?;
        }
        // The index comes last: where it is, the checkpoint is complete.
        if let (Some(path), Some(index)) = (&self.opened.places.index, &self.opened.index) {
            let file_name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let names: Vec<String> = self.files.iter().map(|file| file_name(&file.path)).collect();
            let tensors: Vec<(&str, &str)> = self
                .files
                .iter()
                .zip(&names)
                .flat_map(|(file, name)| file.rows.iter().map(move |row| (&*row.summary.name, &**name)))
                .collect();
            let total = self.rows().map(|row| row.summary.bytes_after).sum();
            write_text(path, &index.of_tensors(&tensors, total), weights, no_clobber)?;
        }
        Ok(kept)
    }
}

/// Writes a text that is made of a file.
fn write_text(path: &Path, text: &str, of: Option<&InputFile>, no_clobber: bool) -> Result<(), FileError> {
    let mut out = AtomicFile::create_with(path, no_clobber)?;
    of.map_or(Ok(()), |of| out.as_private_as(of))?;
    out.write_all(text.as_bytes()).map_err(|error| FileError::io(path, "write", error))?;
    Ok(out.commit()?)
}

fn target(path: &Path, folder: &Path) -> PathBuf {
    folder.join(path.file_name().unwrap_or_default())
}

/// Copies files to a folder, each of which appears there whole or not at all. Going on with a run, a file that is there
/// with another content is kept; these are returned by name.
fn copy(files: &[PathBuf], folder: &Path, no_clobber: bool, resume: bool) -> Result<Vec<String>, FileError> {
    let mut kept = Vec::new();
    for path in files {
        let target = target(path, folder);
        let source = InputFile::open(path)?;
        if resume && let Ok(there) = InputFile::open(&target) {
            if !is_equal(&source, &there).map_err(|error| FileError::io(&target, "read", error))? {
                kept.push(path.file_name().unwrap_or_default().to_string_lossy().into_owned());
            }
            continue;
        }
        let mut out = AtomicFile::create_with(&target, no_clobber)?;
        out.as_private_as(&source)?;
        let copied = io::copy(&mut PositionedReader::new(&source), &mut out);
        copied.map_err(|error| FileError::io(&target, "write", error))?;
        out.commit()?;
    }
    Ok(kept)
}

/// Whether two files hold the same bytes.
fn is_equal(first: &InputFile, second: &InputFile) -> io::Result<bool> {
    if first.len() != second.len() {
        return Ok(false);
    }
    let (mut one, mut other) = (PositionedReader::new(first), PositionedReader::new(second));
    let mut buffers = [[0; 1 << 13]; 2];
    loop {
        let [left, right] = &mut buffers;
        let len = one.read(left)?;
        other.read_exact(&mut right[..len])?;
        if left[..len] != right[..len] || len == 0 {
            return Ok(left[..len] == right[..len]);
        }
    }
}
