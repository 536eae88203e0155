//! What a folder holds: the weights of a checkpoint, a cache of huggingface_hub with snapshots of one, or something
//! else, of which an error says what to name.

use crate::formats::error::{FormatError, Invalid, InvalidKind};
use crate::formats::format::Format;
use crate::io::fs::{self, File};
use crate::text::Short;
use std::ffi::OsStr;
use std::io::Read;
use std::path::{Component, Path, PathBuf};

pub(crate) const INDEX: &str = ".safetensors.index.json";
/// Suffix of the index of files that `torch.save` wrote.
pub(crate) const TORCH_INDEX: &str = ".bin.index.json";
/// Behind the name of an index: that of a checkpoint that is cast in place, some of whose files are replaced.
pub(crate) const UNFINISHED: &str = ".unfinished";

/// The beginning of names of Mistral's own files: the weights that are beside them, under other names.
const CONSOLIDATED: &str = "consolidated";
/// The folders of a cache.
const SNAPSHOTS: &str = "snapshots";
const REFERENCE: &str = "refs/main";
/// The beginning of the name of a model's folder in a cache of several.
const MODEL: &str = "models--";
/// Name prefixes of files of `torch.save` that contain training state instead of weights.
const TRAINING: [&str; 6] = ["training_args", "optimizer", "scheduler", "scaler", "rng_state", "random_states"];
/// Names that transformers gives to weights in files of `torch.save`, and in `.safetensors` files.
const PICKLED_MODEL: &str = "pytorch_model";
const MODEL_NAME: &str = "model";
/// Names that an error lists at most.
const LISTED: usize = 4;

pub(crate) fn name_ends(path: &Path, end: &str) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().to_ascii_lowercase().ends_with(end))
}

/// The index that a name is made of.
fn unfinished_of(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?.strip_suffix(UNFINISHED)?;
    name_ends(Path::new(name), INDEX).then(|| path.with_file_name(name))
}

/// The weights in a folder.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    pub(crate) indices: Vec<PathBuf>,
    pub(crate) files: Vec<PathBuf>,
    /// Indices of casts in place that were interrupted.
    pub(crate) unfinished: Vec<PathBuf>,
    /// Everything else.
    others: Vec<PathBuf>,
}

impl Contents {
    pub(crate) fn read(folder: &Path) -> Result<Contents, FormatError> {
        let mut all = Contents::default();
        let mut pickled = Contents::default();
        for entry in fs::entries(folder).map_err(|error| FormatError::io(folder, "read", error))? {
            if name_ends(&entry, INDEX) {
                all.indices.push(entry);
            } else if let Some(index) = unfinished_of(&entry) {
                all.unfinished.push(index);
            } else if name_ends(&entry, ".safetensors") {
                all.files.push(entry);
            } else if name_ends(&entry, TORCH_INDEX) {
                pickled.indices.push(entry);
            } else if is_pickled(&entry) {
                pickled.files.push(entry);
            } else {
                all.others.push(entry);
            }
        }
        // Like other libraries, prefer .safetensors files.
        if all.indices.is_empty() && all.files.is_empty() && all.unfinished.is_empty() {
            (all.indices, all.files) = (pickled.indices, pickled.files);
        }
        let is_own = |path: &PathBuf| !is_consolidated(path);
        if all.indices.iter().chain(&all.files).any(is_own) {
            all.indices.retain(is_own);
            all.files.retain(is_own);
        }
        for list in [&mut all.indices, &mut all.files, &mut all.others] {
            list.sort();
        }
        // diffusers keeps the same weights in other types beside them, as `model.fp16.safetensors`.
        let stem =
            |path: &PathBuf| path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        let is_variant = |path: &PathBuf, of: &PathBuf| path == of || stem(path).starts_with(&format!("{}.", stem(of)));
        let plain = all.files.iter().find(|plain| all.files.iter().all(|path| is_variant(path, plain))).cloned();
        if let Some(plain) = plain {
            all.files.retain(|path| *path == plain);
        }
        Ok(all)
    }

    /// What to do where the weights of a checkpoint cannot be told.
    pub(crate) fn unclear(&self) -> Invalid {
        let count = self.indices.len() + self.files.len();
        if count > 0 {
            let is_pickled = !self.indices.iter().any(|path| name_ends(path, INDEX))
                && !self.files.iter().any(|path| name_ends(path, ".safetensors"));
            let (index, kind) =
                if is_pickled { (TORCH_INDEX, "*.bin, *.pt, *.pth or *.ckpt") } else { (INDEX, "*.safetensors") };
            let numbers = format!("{} of *{index} and {} of {kind}", self.indices.len(), self.files.len());
            let names = list(&self.indices.iter().chain(&self.files).collect::<Vec<_>>());
            let is_part = |path: &PathBuf| path.file_stem().is_some_and(|stem| stem.to_string_lossy().contains("-of-"));
            let todo = if self.indices.is_empty() && self.files.iter().all(is_part) {
                "the index that belongs to them is missing"
            } else {
                "want one; name the file"
            };
            return files(format!("{numbers} in this folder, {names} ({todo})"));
        }
        let is_gguf = |path: &&PathBuf| name_ends(path, ".gguf") && fs::is_file(path);
        let ggufs: Vec<&PathBuf> = self.others.iter().filter(is_gguf).collect();
        let within: Vec<&PathBuf> = self.others.iter().filter(|path| has_weights(path)).collect();
        let models: Vec<&PathBuf> = self.others.iter().filter(|path| is_cached_model(path)).collect();
        let what = if !models.is_empty() {
            let (count, names) = (models.len(), list(&models));
            let noun = if count == 1 { "model" } else { "models" };
            format!("a cache of {count} {noun}, {names} (name one of these folders)")
        } else if !within.is_empty() {
            let names = list(&within);
            format!("no weights in this folder, but in its folders {names} (name one of them)")
        } else if !ggufs.is_empty() {
            format!("no .safetensors files in this folder, but {} (name the file)", list(&ggufs))
        } else {
            format!("0 of *{INDEX} and 0 of *.safetensors in this folder (want one; name the file)")
        };
        files(what)
    }
}

/// Returns whether a file contains weights that `torch.save` wrote, judging by its name and its first bytes.
fn is_pickled(path: &Path) -> bool {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    let format = Format::from_path(path);
    let is_training = TRAINING.iter().any(|start| stem.starts_with(start));
    !is_training
        && fs::is_file(path)
        && match format {
            Ok(Format::Torch) => true,
            // The name is sufficient: if a failed download left something else, opening the file reports that.
            Ok(Format::Raw) => stem.contains(PICKLED_MODEL) || Format::is_torch(path),
            _ => false,
        }
}

/// Returns the name of the output for an input file or index, which is a `.safetensors` name.
pub(crate) fn written_name(input: &Path) -> String {
    let name = input.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let stem = match Format::of_weights(input) {
        _ if name_ends(input, TORCH_INDEX) => name.get(..name.len() - TORCH_INDEX.len()).map(|stem| (stem, INDEX)),
        Format::Torch => name.rsplit_once('.').map(|(stem, _)| (stem, ".safetensors")),
        _ => None,
    };
    let Some((stem, ending)) = stem else { return name };
    let stem = stem.strip_prefix(PICKLED_MODEL).map_or(stem.to_owned(), |rest| format!("{MODEL_NAME}{rest}"));
    format!("{stem}{ending}")
}

/// Whether a file is one of Mistral's own, by its name.
fn is_consolidated(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(CONSOLIDATED))
}

/// Whether a path is the folder of a model in a cache.
fn is_cached_model(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(MODEL)) && fs::is_dir(path)
}

/// Whether a path is a folder with weights that are read. Links to folders are not followed.
pub(crate) fn has_weights(path: &Path) -> bool {
    let is_folder = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir());
    let is_weights = |entry: &PathBuf| name_ends(entry, ".safetensors") || is_pickled(entry);
    is_folder && fs::entries(path).is_ok_and(|entries| entries.iter().any(is_weights))
}

fn files(what: String) -> Invalid {
    Invalid::new(InvalidKind::Files, what)
}

/// The names of paths, as errors list them.
fn list(paths: &[&PathBuf]) -> String {
    let name = |path: &&PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        format!("`{}`", Short(&name))
    };
    let mut text = paths.iter().take(LISTED).map(name).collect::<Vec<_>>().join(", ");
    if paths.len() > LISTED {
        text += &format!(" and {} more", paths.len() - LISTED);
    }
    text
}

/// Whether a folder is the root of a repository in a cache, or that of its snapshots.
pub(crate) fn is_cache(folder: &Path) -> bool {
    !matches!(snapshot(folder), Ok(None))
}

/// The snapshot that is meant by the root of a repository in a cache, or by the folder of its snapshots: that of the
/// main branch, or the only one; `None` of any other folder.
pub(crate) fn snapshot(folder: &Path) -> Result<Option<PathBuf>, FormatError> {
    let is_inner = folder.file_name() == Some(OsStr::new(SNAPSHOTS));
    let (repository, snapshots) = match folder.parent() {
        Some(parent) if is_inner => (parent.to_owned(), folder.to_owned()),
        _ => (folder.to_owned(), folder.join(SNAPSHOTS)),
    };
    if !fs::is_dir(&snapshots) || !fs::is_dir(&repository.join("blobs")) && !fs::is_dir(&repository.join("refs")) {
        return Ok(None);
    }
    if let Some(revision) = main_revision(&repository.join(REFERENCE)) {
        let snapshot = snapshots.join(revision);
        if fs::is_dir(&snapshot) {
            return Ok(Some(snapshot));
        }
    }
    let entries = fs::entries(&snapshots).map_err(|error| FormatError::io(&snapshots, "read", error))?;
    let mut found: Vec<PathBuf> = entries.into_iter().filter(|entry| fs::is_dir(entry)).collect();
    found.sort();
    match found.len() {
        1 => Ok(found.pop()),
        0 => {
            Err(FormatError::invalid(folder, files("a cache without a snapshot (download the model again)".to_owned())))
        }
        count => {
            let what = format!(
                "a cache with {count} snapshots, {} (name one of these folders)",
                list(&found.iter().collect::<Vec<_>>())
            );
            Err(FormatError::invalid(folder, files(what)))
        }
    }
}

/// The revision that a reference names: one name, and no path.
fn main_revision(path: &Path) -> Option<String> {
    const MOST: u64 = 256;
    let mut text = String::new();
    File::open(path).ok()?.take(MOST).read_to_string(&mut text).ok()?;
    let name = text.trim();
    let mut parts = Path::new(name).components();
    let is_name =
        matches!((parts.next(), parts.next()), (Some(Component::Normal(part)), None) if part == OsStr::new(name));
    is_name.then(|| name.to_owned())
}
