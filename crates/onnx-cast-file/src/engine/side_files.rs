//! The other files of a checkpoint's folder: configurations, tokenizers, licences, and the index. Libraries that load a
//! checkpoint want them in its folder, so that a job from folder to folder copies them.

use super::open::Opened;
use super::{Frame, OutputFile, OutputPlan};
use crate::error::FileError;
use crate::formats::checkpoint::index_of;
use crate::formats::existing::Existing;
use crate::formats::format::Format;
use crate::formats::input::Input;
use crate::io::AtomicFile;
use crate::io::atomic::create_folder;
use crate::io::fs::{self, File, is_same};
use crate::io::links;
use crate::io::positional::{InputFile, PositionedReader};
use crate::layouts::{Layout, is_configuration, quantized_config, read_configuration};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// The configuration that names the type of the weights, and says how they are quantized.
pub(crate) const CONFIG: &str = "config.json";

/// What names the checkpoints in the folders of a pipeline of diffusers, and of a model of sentence-transformers.
pub(crate) const PIPELINE: &str = "model_index.json";
pub(crate) const MODULES: &str = "modules.json";

/// Extensions of weights in any format: those that are cast, and others, which are not what the output holds.
const WEIGHTS: &[&str] =
    &["safetensors", "bin", "pt", "pth", "ckpt", "gguf", "ggml", "h5", "msgpack", "ot", "onnx", "onnx_data", "npz"];

/// Levels of folders within folders whose files are copied.
const MOST_WITHIN: usize = 4;

/// The other files of a folder that is written.
#[derive(Default)]
pub(crate) struct SideFiles {
    /// The folder that they are in, and whether all of its files are meant, weights too.
    folder: PathBuf,
    is_whole: bool,
    /// Files that are copied as they are, from the folder and from those within it.
    pub(super) copied: Vec<PathBuf>,
    /// What is not copied, each with the reason.
    pub(super) left_out: Vec<(String, String)>,
    /// Files that are written.
    pub(crate) texts: Vec<Text>,
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
    /// The files beside the weights of a folder, and in the folders within it, in the order of their names: neither
    /// hidden ones, nor weights, nor their indices, nor folders that hold weights. None if the input is not a folder,
    /// or if the output is that folder. All of them can be read.
    pub(crate) fn of(opened: &Opened, output: &Path) -> Result<SideFiles, FileError> {
        let folder = opened.folder();
        if !fs::is_dir(folder) || is_same(folder, output) {
            return Ok(SideFiles::default());
        }
        let own: Vec<&Path> = opened.checkpoint.files.iter().map(Input::path).collect();
        SideFiles::around(folder, output, &own)
    }

    /// The same of a folder, but for these files and folders.
    pub(crate) fn around(folder: &Path, output: &Path, own: &[&Path]) -> Result<SideFiles, FileError> {
        let mut all = SideFiles { folder: folder.to_owned(), ..SideFiles::default() };
        all.add(folder, output, own, MOST_WITHIN)?;
        all.copied.sort();
        all.left_out.sort();
        all.count = all.copied.len();
        Ok(all)
    }

    /// All files of a folder, weights too, except for these folders.
    pub(crate) fn whole(folder: &Path, own: &[&Path]) -> Result<SideFiles, FileError> {
        let mut all = SideFiles { folder: folder.to_owned(), is_whole: true, ..SideFiles::default() };
        all.add(folder, folder, own, MOST_WITHIN)?;
        all.count = all.copied.len();
        Ok(all)
    }

    /// How many files are copied.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// What is not copied, each with the reason.
    pub(crate) fn left_out(&self) -> &[(String, String)] {
        &self.left_out
    }

    /// Adds the files of a folder, and of so many levels of folders within it.
    fn add(&mut self, folder: &Path, output: &Path, own: &[&Path], levels: usize) -> Result<(), FileError> {
        for path in fs::entries(folder).map_err(|error| FileError::io(folder, "read", error))? {
            let name = lower_name(&path);
            let is_other = name.starts_with('.') || !self.is_whole && is_index(&name);
            if is_other || own.contains(&&*path) || is_same(&path, output) {
                continue;
            }
            let leave_out = |all: &mut SideFiles, reason: &str| {
                let within = path.strip_prefix(&all.folder).unwrap_or(&path);
                all.left_out.push((within.to_string_lossy().into_owned(), reason.to_owned()));
            };
            if is_folder(&path) {
                if levels == 0 {
                    leave_out(self, "a folder nested too deep");
                } else if !self.is_whole && holds_weights(&path, levels) {
                    leave_out(self, "a folder with weights of its own: do it separately");
                } else {
                    self.add(&path, output, own, levels - 1)?;
                }
            } else if fs::is_dir(&path) {
                leave_out(self, "a link to a folder");
            } else if !self.is_whole && is_weights(&name) {
                leave_out(self, "other weights");
            } else if fs::is_file(&path) {
                links::check_read_within(&self.folder, &path)?;
                File::open(&path).map_err(|error| FileError::io(&path, "open", error))?;
                // What a failed download left is worth no copy.
                if is_configuration(&name) {
                    read_configuration(&path)?;
                }
                self.copied.push(path);
            }
        }
        Ok(())
    }

    /// Whether the configuration is written.
    pub(crate) fn has_config(&self) -> bool {
        self.texts.iter().any(|text| text.path.ends_with(CONFIG))
    }

    /// Where they go.
    pub(crate) fn targets(&self, folder: &Path) -> impl Iterator<Item = PathBuf> {
        let copied = self.copied.iter().map(|path| self.target(path, folder));
        self.texts.iter().map(|text| text.path.clone()).chain(copied)
    }

    /// Where a file goes.
    fn target(&self, path: &Path, folder: &Path) -> PathBuf {
        folder.join(path.strip_prefix(&self.folder).unwrap_or(path))
    }

    /// The place of a file of the folder itself.
    fn position(&self, name: &str) -> Option<usize> {
        let wanted = self.folder.join(name);
        self.copied.iter().position(|path| *path == wanted)
    }

    /// Leaves out a file.
    pub(crate) fn remove(&mut self, name: &str) -> Option<PathBuf> {
        let place = self.position(name)?;
        self.count -= 1;
        Some(self.copied.remove(place))
    }

    /// Rewrites the configuration, where there is one: it no longer counts as copied.
    pub(crate) fn rewrite_config(
        &mut self,
        folder: &Path,
        rewrite: impl FnOnce(&Path) -> Result<String, FileError>,
    ) -> Result<(), FileError> {
        self.rewrite(CONFIG, folder, rewrite)
    }

    /// Rewrites a file, where there is one: it no longer counts as copied.
    fn rewrite(
        &mut self,
        name: &str,
        folder: &Path,
        rewrite: impl FnOnce(&Path) -> Result<String, FileError>,
    ) -> Result<(), FileError> {
        let Some(path) = self.remove(name) else { return Ok(()) };
        let text = rewrite(&path)?;
        self.texts.push(Text { path: folder.join(name), text, of: Some(path) });
        Ok(())
    }

    /// Leaves out the files that describe quantized weights, and rewrites those that describe a model too.
    pub(crate) fn remove_descriptions(&mut self, folder: &Path) -> Result<(), FileError> {
        for (_, file) in Layout::own_files() {
            if file.has_model {
                self.rewrite(file.name, folder, |path| quantized_config(path, None))?;
            } else {
                self.remove(file.name);
            }
        }
        Ok(())
    }

    /// Changes a little in a copy of the configuration, where there is one and it can be changed.
    pub(crate) fn edit_config(&mut self, folder: &Path, edit: impl FnOnce(&Path) -> Option<String>) {
        let Some(place) = self.position(CONFIG) else { return };
        let Some(text) = edit(&self.copied[place]) else { return };
        let of = Some(self.copied.remove(place));
        self.texts.push(Text { path: folder.join(CONFIG), text, of });
    }

    /// The names of those that somebody edited since the output was complete. They are written last: in an output that
    /// is not complete, one with other content is an error.
    pub(crate) fn check_continued(&self, folder: &Path, is_complete: bool) -> Result<Vec<String>, FileError> {
        let found = self.differing(folder)?;
        match found.first() {
            Some(first) if !is_complete => Err(Existing::differs(first).into()),
            _ => Ok(found.iter().map(|path| name_of(path)).collect()),
        }
    }

    /// The files that are there with other content than theirs.
    fn differing(&self, folder: &Path) -> Result<Vec<PathBuf>, FileError> {
        let is_other = |text: &&Text| fs::is_file(&text.path) && !holds(&text.path, &text.text);
        let mut found: Vec<PathBuf> = self.texts.iter().filter(is_other).map(|text| text.path.clone()).collect();
        for path in &self.copied {
            let target = self.target(path, folder);
            if let Ok(there) = InputFile::open(&target)
                && !is_equal(&InputFile::open(path)?, &there).map_err(|error| FileError::io(&target, "read", error))?
            {
                found.push(target);
            }
        }
        Ok(found)
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
            read_configuration(&path)?;
            self.texts.extend(edit(&path).map(|text| Text { path: path.clone(), text, of: Some(path) }));
        }
        Ok(())
    }
}

impl OutputPlan<'_> {
    /// Writes the other files, and the index.
    pub(super) fn finish(&self) -> Result<(), FileError> {
        let existing = self.options.existing(self.opened.path(), Format::Safetensors);
        if let Some(folder) = &self.opened.outputs.folder {
            self.side_files.copy_to(folder, existing)?;
        }
        let weights = self.opened.checkpoint.files.first().map(|input| &input.file);
        for Text { path, text, of } in &self.side_files.texts {
            if self.opened.in_place && holds(path, text) {
                continue;
            }
            let of = of.as_deref().map(InputFile::open).transpose()?;
            write_text(path, text, of.as_ref().or(weights), existing)?;
        }
        // The index comes last: where it is, the checkpoint is complete.
        if let Some((path, text)) = self.index() {
            write_text(path, &text, weights, existing)?;
        }
        Ok(())
    }

    /// The path and the text of the index.
    fn index(&self) -> Option<(&Path, String)> {
        let path = self.index.as_ref()?;
        let names: Vec<String> = self.files.iter().map(|file| name_of(&file.path)).collect();
        let tensors: Vec<(&str, &str)> = self
            .files
            .iter()
            .zip(&names)
            .flat_map(|(file, name)| file.rows.iter().map(move |row| (&*row.summary.name, &**name)))
            .collect();
        let total_size = self.rows().map(|row| row.summary.bytes_after).sum();
        let same = self.opened.index.as_ref().and_then(|index| index.of_same_tensors(&tensors, total_size));
        Some((path, same.unwrap_or_else(|| index_of(&tensors, total_size))))
    }

    /// Checks an output that is continued, and returns the names of the files that stay though they were edited. Weights
    /// of the right length and header are compared when their turn comes.
    pub(super) fn check_continued(&self, frames: &[Frame]) -> Result<Vec<String>, FileError> {
        let existing = self.options.existing(self.opened.path(), Format::Safetensors);
        if !existing.only_adds() {
            return Ok(Vec::new());
        }
        let is_other = |(file, frame): &(&OutputFile<'_>, &Frame)| {
            InputFile::open(&file.path).is_ok_and(|there| {
                let has_head = || there.prefix(frame.0.len()).is_ok_and(|head| head == frame.0);
                there.len() != file.len(frame) || !has_head()
            })
        };
        if let Some((file, _)) = self.files.iter().zip(frames).find(is_other) {
            return Err(Existing::differs(&file.path).into());
        }
        if let Some((path, text)) = self.index()
            && fs::is_file(path)
            && !holds(path, &text)
        {
            return Err(Existing::differs(path).into());
        }
        let is_complete = self.files.iter().all(|file| fs::is_file(&file.path));
        let Some(folder) = &self.opened.outputs.folder else { return Ok(Vec::new()) };
        self.side_files.check_continued(folder, is_complete)
    }
}

/// Whether a file holds a text.
fn holds(path: &Path, text: &str) -> bool {
    fs::read_to_string(path).is_ok_and(|there| there == *text)
}

/// Writes a text that is made of a file, unless a job that only adds finds one.
pub(super) fn write_text(path: &Path, text: &str, of: Option<&InputFile>, existing: Existing) -> Result<(), FileError> {
    if existing.only_adds() && fs::is_file(path) {
        return Ok(());
    }
    let mut out = AtomicFile::create(path, existing.replaces())?;
    of.map_or(Ok(()), |of| out.as_private_as(of))?;
    out.write_all(text.as_bytes()).map_err(|error| FileError::io(path, "write", error))?;
    Ok(out.commit()?)
}

impl SideFiles {
    /// Copies files to a folder, each of which appears there whole or not at all, unless a job that only adds finds one.
    pub(crate) fn copy_to(&self, folder: &Path, existing: Existing) -> Result<(), FileError> {
        for path in &self.copied {
            let target = self.target(path, folder);
            if existing.only_adds() && fs::is_file(&target) {
                continue;
            }
            let source = InputFile::open(path)?;
            create_folder(&target)?;
            let mut out = AtomicFile::create(&target, existing.replaces())?;
            out.as_private_as(&source)?;
            let copied = io::copy(&mut PositionedReader::new(&source), &mut out);
            copied.map_err(|error| FileError::io(&target, "write", error))?;
            out.commit()?;
        }
        Ok(())
    }
}

pub(crate) fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

pub(super) fn lower_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase()
}

pub(super) fn is_index(name: &str) -> bool {
    name.contains(".index.") && name.ends_with(".json")
}

/// Whether a file holds weights, by its name in small letters.
pub(super) fn is_weights(name: &str) -> bool {
    WEIGHTS.iter().any(|end| name.strip_suffix(end).is_some_and(|start| start.ends_with('.')))
}

/// Whether a path is a folder, and no link to one: a link may lead back.
fn is_folder(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir())
}

/// Whether weights are in a folder, or within so many levels of folders in it.
pub(crate) fn holds_weights(folder: &Path, levels: usize) -> bool {
    let is_found = |path: &PathBuf| {
        if is_folder(path) { levels > 0 && holds_weights(path, levels - 1) } else { is_weights(&lower_name(path)) }
    };
    fs::entries(folder).is_ok_and(|entries| entries.iter().any(is_found))
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
