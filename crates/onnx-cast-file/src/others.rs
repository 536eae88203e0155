//! What stands beside the weights of a checkpoint: configurations, tokenizers, licences. Libraries that load a
//! checkpoint want them in its folder, so that a cast from folder to folder copies them. `config.json` names the type
//! of the weights, which a cast changes.

use crate::error::FileError;
use crate::formats::format::Format;
use crate::formats::input::{Given, Input, Stored};
use crate::io::AtomicFile;
use crate::io::fs::{self, File};
use crate::io::links;
use crate::io::positional::{InputFile, PositionedReader};
use crate::layouts;
use crate::request::CastRequest;
use crate::summary::{Summary, TensorSummary};
use onnx_cast::DataType;
use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// Extensions of weights in any format: those that are cast, and others, which are not what the output holds.
const WEIGHTS: &[&str] =
    &["safetensors", "bin", "pt", "pth", "ckpt", "gguf", "ggml", "h5", "msgpack", "ot", "onnx", "onnx_data", "npz"];

/// The configuration that names the type of the weights.
pub(crate) const CONFIG: &str = "config.json";

/// The other files of a folder, and where they go.
pub(crate) struct Others<'a> {
    files: Vec<PathBuf>,
    /// The configuration of a folder that is cast in place.
    own: Option<PathBuf>,
    folder: &'a Path,
    /// Whether the type of the weights is to be noted.
    casts: bool,
    dry_run: bool,
    no_clobber: bool,
    resume: bool,
}

impl<'a> Others<'a> {
    pub(crate) fn of(input: &Path, folder: &'a Path, request: &CastRequest, casts: bool) -> Result<Self, FileError> {
        let files = if request.copy_others { files_beside(input, folder)? } else { Vec::new() };
        let own = input.join(CONFIG);
        let is_own = casts && request.copy_others && is_same(input, folder) && fs::is_file(&own);
        if is_own {
            links::check_write(&own)?;
        }
        let (dry_run, no_clobber, resume) = (request.dry_run, request.write.no_clobber, request.resume);
        Ok(Others { files, own: is_own.then_some(own), folder, casts, dry_run, no_clobber, resume })
    }

    /// Where they go.
    pub(crate) fn targets(&self) -> impl Iterator<Item = PathBuf> {
        self.files.iter().map(|path| target(path, self.folder))
    }

    /// Copies them when the weights are there.
    pub(crate) fn finish(mut self, done: Summary) -> Result<Summary, FileError> {
        let copied = self.files.len();
        let mut kept = Vec::new();
        if !self.dry_run {
            let casts = self.casts && done.tensors.iter().any(|row| row.cast);
            let name = dominant(&done.tensors).filter(|_| casts).and_then(layouts::torch_name);
            let place = self.files.iter().position(|path| path.ends_with(CONFIG)).filter(|_| name.is_some());
            let config = place.map(|place| self.files.remove(place)).or_else(|| self.own.take());
            kept = copy(&self.files, self.folder, self.no_clobber, self.resume)?;
            if let (Some(config), Some(name)) = (config, name) {
                kept.extend(configure(&config, self.folder, name, self.no_clobber, self.resume)?);
            }
        }
        Ok(Summary { copied, kept_others: kept, ..done })
    }
}

/// Writes a configuration with the type of the weights. Returns its name where another one was there, and is kept.
fn configure(
    config: &Path,
    folder: &Path,
    name: &str,
    no_clobber: bool,
    resume: bool,
) -> Result<Option<String>, FileError> {
    let noted = |path: &Path| layouts::with_torch_dtype(&fs::read_to_string(path).ok()?, name);
    let target = target(config, folder);
    // What is not an object is copied as it is.
    let Some(mut text) = noted(config) else {
        return Ok(copy(&[config.to_owned()], folder, no_clobber, resume)?.pop());
    };
    let there = fs::read_to_string(&target).ok();
    let own = there.as_ref().filter(|there| resume && **there != text).and_then(|_| noted(&target));
    let kept = own.filter(|own| *own != text).map(|own| {
        text = own;
        CONFIG.to_owned()
    });
    if there.as_ref() != Some(&text) {
        write_text(&target, &text, Some(&InputFile::open(config)?), no_clobber)?;
    }
    Ok(kept)
}

/// Notes the type of the weights in files that are there in a configuration that is copied to their folder.
pub(crate) fn configure_as(weights: &[PathBuf], config: &Path, folder: &Path) -> Result<(), FileError> {
    let mut rows = Vec::new();
    for path in weights {
        let there = Input::open(path, Some(Format::Safetensors), &Given::default())?;
        let row = |stored: &Stored| TensorSummary::kept(&stored.name, stored.shape.clone(), stored.data_type, 0);
        rows.extend(there.tensors.iter().map(row));
    }
    match dominant(&rows).and_then(layouts::torch_name) {
        Some(name) => configure(config, folder, name, false, false).map(drop),
        None => copy(&[config.to_owned()], folder, false, false).map(drop),
    }
}

/// The type of most floating-point elements.
fn dominant(tensors: &[TensorSummary]) -> Option<DataType> {
    let mut elements: HashMap<DataType, u128> = HashMap::new();
    for row in tensors.iter().filter(|row| row.to.is_float()) {
        *elements.entry(row.to).or_default() += row.shape.iter().map(|&size| size as u128).product::<u128>();
    }
    elements.into_iter().max_by_key(|&(data_type, count)| (count, data_type.onnx())).map(|(data_type, _)| data_type)
}

/// Writes a text that is made of a file.
pub(crate) fn write_text(path: &Path, text: &str, of: Option<&InputFile>, no_clobber: bool) -> Result<(), FileError> {
    let mut out = AtomicFile::create_with(path, no_clobber)?;
    of.map_or(Ok(()), |of| out.as_private_as(of))?;
    out.write_all(text.as_bytes()).map_err(|error| FileError::io(path, "write", error))?;
    Ok(out.commit()?)
}

/// Whether two paths are those of one folder.
pub(crate) fn is_same(first: &Path, second: &Path) -> bool {
    fs::canonicalize(first).ok().zip(fs::canonicalize(second).ok()).is_some_and(|(first, second)| first == second)
}

fn target(path: &Path, folder: &Path) -> PathBuf {
    folder.join(path.file_name().unwrap_or_default())
}

/// As [`beside`], where the input is a folder; otherwise none.
pub(crate) fn files_beside(input: &Path, output: &Path) -> Result<Vec<PathBuf>, FileError> {
    if fs::is_dir(input) { beside(input, output) } else { Ok(Vec::new()) }
}

/// The files beside the weights of a folder, in the order of their names: neither hidden files, nor weights, nor their
/// indices, nor folders. None where the output is the folder itself. All of them can be read.
pub(crate) fn beside(folder: &Path, output: &Path) -> Result<Vec<PathBuf>, FileError> {
    if is_same(folder, output) {
        return Ok(Vec::new());
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
    Ok(files)
}

/// Copies files to a folder, each of which appears there whole or not at all. Going on with a run, a file that is there
/// with another content is kept; these are returned by name.
pub(crate) fn copy(files: &[PathBuf], folder: &Path, no_clobber: bool, resume: bool) -> Result<Vec<String>, FileError> {
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
