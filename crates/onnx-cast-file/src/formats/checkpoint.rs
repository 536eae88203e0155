//! Checkpoints in several `.safetensors` files: an index (`model.safetensors.index.json`) names the tensors and the
//! file of each. The files are cast one by one under their own names, and the index is written last, with nothing of it
//! changed but the total size. Files written by `torch.save`, and their index (`pytorch_model.bin.index.json`), are
//! renamed to the corresponding `.safetensors` names.

use crate::formats::error::{FormatError, Invalid, InvalidKind};
use crate::formats::folder::{self, Contents, TORCH_INDEX, UNFINISHED, name_ends, written_name};
use crate::formats::foreign::refuse_foreign_to_json;
use crate::formats::input::Input;
use crate::formats::limits::MAX_HEADER;
use crate::formats::safetensors::Pairs;
use crate::io::atomic::folder_of;
use crate::io::fs::{self, HAS_OUTPUTS};
use crate::io::links;
use crate::io::positional::InputFile;
use crate::text::Short;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::ops::Range;
use std::path::{Component, Path, PathBuf};

/// What an input path stands for.
pub(crate) enum Located {
    /// A file.
    File,
    /// A folder with this one file of tensors.
    InFolder(PathBuf),
    /// An index.
    Index(PathBuf),
}

/// The name that an index has while its checkpoint is cast in place.
pub(crate) fn unfinished(index: &Path) -> PathBuf {
    let mut name = index.as_os_str().to_owned();
    name.push(UNFINISHED);
    name.into()
}

/// Finds what is meant by a path.
pub(crate) fn locate(path: &Path) -> Result<Located, FormatError> {
    locate_or_go_on(path, false)
}

/// As [`locate`]; a job in place may finish what was interrupted.
pub(crate) fn locate_or_go_on(path: &Path, in_place: bool) -> Result<Located, FormatError> {
    if !fs::is_dir(path) {
        return Ok(if name_ends(path, ".index.json") { Located::Index(path.to_owned()) } else { Located::File });
    }
    match locate_in(path, in_place)? {
        Some(located) => Ok(located),
        // A snapshot itself is not a cache.
        None => match folder::snapshot(path)? {
            Some(snapshot) => {
                let located = locate_in(&snapshot, in_place)?;
                located.map_or_else(|| Err(FormatError::invalid(&snapshot, Contents::read(&snapshot)?.unclear())), Ok)
            }
            None => Err(FormatError::invalid(path, Contents::read(path)?.unclear())),
        },
    }
}

/// The weights in a folder; `None` if missing.
fn locate_in(path: &Path, in_place: bool) -> Result<Option<Located>, FormatError> {
    let mut contents = Contents::read(path)?;
    let Contents { indices, files, unfinished, .. } = &mut contents;
    match (&mut indices[..], &mut files[..]) {
        ([index], _) => {
            links::check_read(index)?;
            Ok(Some(Located::Index(std::mem::take(index))))
        }
        ([], _) if !unfinished.is_empty() => match unfinished.pop() {
            Some(index) if in_place && unfinished.is_empty() => Ok(Some(Located::Index(index))),
            _ => Err(FormatError::invalid(path, interrupted())),
        },
        ([], [file]) => {
            links::check_read(file)?;
            Ok(Some(Located::InFolder(std::mem::take(file))))
        }
        ([], []) => Ok(None),
        _ => Err(FormatError::invalid(path, contents.unclear())),
    }
}

/// What a job in place asks for, in words and in full. Only the same job can finish it: some files have what it makes
/// of them, and another one would make that of the rest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct JobId {
    pub(crate) words: String,
    pub(crate) request: String,
}

/// What is left of the index while a job in place replaces the files.
#[derive(Serialize, Deserialize)]
struct Unfinished<'a> {
    job: Cow<'a, JobId>,
    index: Cow<'a, str>,
}

fn interrupted() -> Invalid {
    Invalid::new(InvalidKind::Files, "a cast in place was interrupted here (run it again, and it is finished)")
}

/// Opens the files that a path stands for, without the stale copies in them.
pub(crate) fn open_all<E: From<FormatError>>(
    path: &Path,
    open: impl Fn(&Path) -> Result<Input, E>,
) -> Result<Vec<Input>, E> {
    match locate(path)? {
        Located::File => Ok(vec![open(path)?]),
        Located::InFolder(file) => Ok(vec![open(&file)?]),
        Located::Index(index) => {
            let index = Index::read(&index)?;
            let all = index.shards.iter().map(|(shard, listed)| {
                let mut input = open(&index.file(shard)?)?;
                index.leave_out_stale(shard, &mut input);
                index.check(shard, listed, &input)?;
                Ok(input)
            });
            all.collect()
        }
    }
}

/// An index, read and checked by itself.
#[derive(Debug)]
pub(crate) struct Index {
    path: PathBuf,
    text: String,
    /// Where the total size stands in the text.
    total: Option<Range<usize>>,
    /// Whether it is what an interrupted job in place left.
    pub(crate) is_unfinished: bool,
    /// The files in the order of the index, each with the names of its tensors.
    pub(crate) shards: Vec<(String, HashSet<String>)>,
}

/// Returns whether a string is a file name without a folder.
fn is_plain_name(name: &str) -> bool {
    let parts: Vec<Component<'_>> = Path::new(name).components().collect();
    matches!(parts[..], [Component::Normal(part)] if part == OsStr::new(name))
}

#[derive(Deserialize)]
struct Form<'a> {
    #[serde(borrow)]
    metadata: Option<&'a RawValue>,
    weight_map: Pairs,
}

#[derive(Deserialize)]
struct Metadata<'a> {
    #[serde(borrow)]
    total_size: Option<&'a RawValue>,
}

impl Index {
    /// Its file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn read(path: &Path) -> Result<Index, FormatError> {
        Self::read_or_go_on(path, None)
    }

    /// As [`Index::read`]; a job in place may finish itself.
    pub(crate) fn read_or_go_on(path: &Path, in_place: Option<&JobId>) -> Result<Index, FormatError> {
        let wrong = |kind, what| FormatError::invalid(path, Invalid::new(kind, what));
        let begun = Some(unfinished(path)).filter(|begun| HAS_OUTPUTS && fs::is_file(begun) && !fs::is_file(path));
        let file = InputFile::open(begun.as_deref().unwrap_or(path))?;
        if file.len() > MAX_HEADER {
            let what = format!("an index of {} bytes (want at most {MAX_HEADER})", file.len());
            return Err(wrong(InvalidKind::Size, what));
        }
        let invalid = |what: String| wrong(InvalidKind::Syntax, format!("the index is not valid: {what}"));
        let bytes = file.read(0, file.len())?;
        refuse_foreign_to_json(&file, &bytes)?;
        let mut text = String::from_utf8(bytes).map_err(|error| invalid(error.to_string()))?;
        if begun.is_some() {
            let Some(job) = in_place else { return Err(FormatError::invalid(path, interrupted())) };
            let left: Unfinished<'_> = serde_json::from_str(&text).map_err(|error| invalid(error.to_string()))?;
            if *left.job != *job {
                let what =
                    format!("another job in place, {}, was interrupted here (run it again first)", left.job.words);
                return Err(wrong(InvalidKind::Files, what));
            }
            text = left.index.into_owned();
        }
        if !text.trim_start().starts_with('{') {
            return Err(invalid("not an object (want one with `weight_map`)".to_owned()));
        }
        let form: Form<'_> = serde_json::from_str(&text).map_err(|error| invalid(error.to_string()))?;
        let mut total = None;
        if let Some(metadata) = form.metadata {
            // Metadata of another form has no total size, and stays as it is.
            let metadata: Option<Metadata<'_>> = serde_json::from_str(metadata.get()).ok();
            if let Some(size) = metadata.and_then(|metadata| metadata.total_size) {
                // The value is borrowed from the text.
                let start = size.get().as_ptr() as usize - text.as_ptr() as usize;
                total = Some(start..start + size.get().len());
            }
        }
        let mut shards: Vec<(String, HashSet<String>)> = Vec::new();
        let (mut places, mut seen) = (HashMap::new(), HashSet::new());
        for (tensor, file) in form.weight_map.0 {
            if !seen.insert(tensor.clone()) {
                let what = format!("tensor `{}` appears twice in weight_map", Short(&tensor));
                return Err(wrong(InvalidKind::Name, what));
            }
            let ending = if name_ends(path, TORCH_INDEX) { ".bin" } else { ".safetensors" };
            if !is_plain_name(&file) || !name_ends(Path::new(&file), ending) {
                let want = format!("(want the name of a {ending} file, without a folder)");
                let what = format!("weight_map names the file `{}` {want}", Short(&file));
                return Err(wrong(InvalidKind::Files, what));
            }
            let place = *places.entry(file.clone()).or_insert_with(|| {
                shards.push((file, HashSet::new()));
                shards.len() - 1
            });
            if let Some((_, tensors)) = shards.get_mut(place) {
                tensors.insert(tensor);
            }
        }
        if shards.is_empty() {
            return Err(wrong(InvalidKind::Files, "weight_map names no tensor".to_owned()));
        }
        Ok(Index { path: path.to_owned(), text, total, is_unfinished: begun.is_some(), shards })
    }

    /// What is left of it while this job replaces the files in place.
    pub(crate) fn to_unfinished(&self, job: &JobId) -> String {
        let left = Unfinished { job: Cow::Borrowed(job), index: Cow::Borrowed(&self.text) };
        serde_json::to_string(&left).unwrap_or_default()
    }

    /// The path of one of its files, which is in its folder, or in the cache that this is in.
    pub(crate) fn file(&self, name: &str) -> Result<PathBuf, FormatError> {
        let path = self.path.with_file_name(name);
        links::check_read(&path)?;
        Ok(path)
    }

    /// The folder of its files.
    pub(crate) fn folder(&self) -> &Path {
        folder_of(&self.path)
    }

    /// Removes the tensors of a file for which the index has another file: stale copies, which an overlay of newer
    /// weights leaves where they were.
    pub(crate) fn leave_out_stale(&self, file: &str, input: &mut Input) {
        let Some((_, listed)) = self.shards.iter().find(|(shard, _)| shard == file) else { return };
        let Input { tensors, left_out, .. } = input;
        tensors.retain(|stored| {
            let other = |(_, tensors): &&(String, HashSet<String>)| tensors.contains(&stored.name);
            let is_listed = listed.contains(&stored.name);
            let Some((other, _)) = self.shards.iter().find(other).filter(|_| !is_listed) else { return true };
            let reason = format!("a stale copy in {}, for the index has it in {}", Short(file), Short(other));
            left_out.push((stored.name.clone(), reason));
            false
        });
    }

    /// Compares a file without its stale copies with what the index says of it.
    pub(crate) fn check(&self, file: &str, listed: &HashSet<String>, input: &Input) -> Result<(), FormatError> {
        let wrong = |what| Err(FormatError::invalid(&self.path, Invalid::new(InvalidKind::Files, what)));
        let mut missing: HashSet<&str> = listed.iter().map(String::as_str).collect();
        for stored in &input.tensors {
            if !missing.remove(stored.name.as_str()) {
                return wrong(format!(
                    "tensor `{}` of {} is missing from weight_map",
                    Short(&stored.name),
                    Short(file)
                ));
            }
        }
        match missing.into_iter().min() {
            Some(tensor) => {
                wrong(format!("tensor `{}` is not in {}, where weight_map has it", Short(tensor), Short(file)))
            }
            None => Ok(()),
        }
    }

    /// Folder and index of an output that a path stands for.
    pub(crate) fn output(&self, path: &Path) -> Result<PathBuf, FormatError> {
        if name_ends(path, ".index.json") && !name_ends(path, TORCH_INDEX) {
            return Ok(path.to_owned());
        }
        if fs::is_file(path) || name_ends(path, ".safetensors") || name_ends(path, TORCH_INDEX) {
            let want = "(want a folder, or an index, *.safetensors.index.json)";
            let what = format!("one file, but the checkpoint has several {want}");
            return Err(FormatError::invalid(path, Invalid::new(InvalidKind::Files, what)));
        }
        Ok(path.join(written_name(&self.path)))
    }

    /// Returns the index with another total size, if it lists exactly these tensors, each with its file.
    pub(crate) fn of_same_tensors(&self, tensors: &[(&str, &str)], total_size: u64) -> Option<String> {
        let listed: HashMap<&str, &HashSet<String>> =
            self.shards.iter().map(|(file, tensors)| (&**file, tensors)).collect();
        let count: usize = listed.values().map(|tensors| tensors.len()).sum();
        let is_listed =
            |(tensor, file): &(&str, &str)| listed.get(file).is_some_and(|tensors| tensors.contains(*tensor));
        if tensors.len() != count || !tensors.iter().all(is_listed) {
            return None;
        }
        let mut text = self.text.clone();
        if let Some(total) = &self.total {
            text.replace_range(total.clone(), &total_size.to_string());
        }
        Some(text)
    }
}

/// Returns an index of these tensors, each with its file, and of this many bytes of elements.
pub(crate) fn index_of(tensors: &[(&str, &str)], total_size: u64) -> String {
    let map: serde_json::Map<String, serde_json::Value> =
        tensors.iter().map(|(tensor, file)| ((*tensor).to_owned(), (*file).into())).collect();
    let index = serde_json::json!({ "metadata": { "total_size": total_size }, "weight_map": map });
    format!("{index:#}\n")
}
