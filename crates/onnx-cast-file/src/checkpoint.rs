//! The files of a checkpoint, and where its configuration is.

use crate::error::FileError;
use crate::formats::checkpoint::{Index, Located};
use crate::formats::error::{FormatError, Invalid, InvalidKind};
use crate::formats::format::Format;
use crate::formats::input::{Given, Input, Location, StoredTensor};
use crate::io::atomic::folder_of;
use crate::io::positional::{InputFile, is_stream};
use crate::text::Wording;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// The files of a checkpoint, opened.
#[derive(Debug)]
pub(crate) struct Checkpoint {
    /// In the order of the index, if there is one.
    pub(crate) files: Vec<Input>,
    /// Where its configuration is.
    pub(crate) configuration: Configuration,
    places: HashMap<String, TensorRef>,
}

/// A tensor of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct TensorRef {
    pub(crate) file: usize,
    pub(crate) tensor: usize,
}

/// Where the configuration of a checkpoint is.
#[derive(Clone, Debug)]
pub(crate) enum Configuration {
    /// In the files of a folder: `config.json`, and those that layouts have of their own.
    Folder(PathBuf),
    /// In a text, if any, for tensors in memory.
    Text(Option<String>),
}

impl Checkpoint {
    /// Opens the files that a located path stands for, and compares them with the index.
    pub(crate) fn open(path: &Path, located: &Located, index: Option<&Index>) -> Result<Checkpoint, FormatError> {
        let open = |path: &Path| Input::open(path, Some(Format::of_weights(path)), &Given::default());
        let mut files = Vec::new();
        match (located, index) {
            (Located::Index(_), Some(index)) => {
                for (shard, listed) in &index.shards {
                    let mut input = open(&index.file(shard)?)?;
                    index.leave_out_stale(shard, &mut input);
                    index.check(shard, listed, &input)?;
                    files.push(input);
                }
            }
            (Located::InFolder(file), _) => files.push(open(file)?),
            _ => {
                let check = |format| match format {
                    Format::Safetensors | Format::Torch => Ok(()),
                    _ => Err(FormatError::format(path, "a checkpoint", format, "want .safetensors or .pt")),
                };
                if is_stream(path) {
                    let input = Input::open(path, None, &Given::default())?;
                    check(input.format)?;
                    files.push(input);
                } else {
                    check(Format::of_input(path)?)?;
                    files.push(open(path)?);
                }
            }
        }
        Ok(Checkpoint::of(path, files))
    }

    /// Opens what a path stands for, with the index where there is one.
    pub(crate) fn located(path: &Path, located: &Located) -> Result<Checkpoint, FormatError> {
        let index = match located {
            Located::Index(path) => Some(Index::read(path)?),
            _ => None,
        };
        Checkpoint::open(path, located, index.as_ref())
    }

    /// A checkpoint of open files. `input` is the path that names them.
    pub(crate) fn of(input: &Path, files: Vec<Input>) -> Checkpoint {
        // The standard input has no folder: not the current one.
        let file = files.first().filter(|_| !is_stream(input));
        let folder = file.map_or(input, |file| folder_of(file.path())).to_owned();
        Checkpoint::with(files, Configuration::Folder(folder))
    }

    /// A checkpoint of open files, with its configuration.
    pub(crate) fn with(files: Vec<Input>, configuration: Configuration) -> Checkpoint {
        let mut places = HashMap::new();
        for (file, input) in files.iter().enumerate() {
            for (tensor, stored) in input.tensors.iter().enumerate() {
                places.insert(stored.name.clone(), TensorRef { file, tensor });
            }
        }
        Checkpoint { files, configuration, places }
    }

    /// The folder of its files and its configuration; empty for tensors in memory.
    pub(crate) fn folder(&self) -> &Path {
        match &self.configuration {
            Configuration::Folder(folder) => folder,
            Configuration::Text(_) => Path::new(""),
        }
    }

    /// The tensor of a name.
    pub(crate) fn find(&self, name: &str) -> Option<TensorRef> {
        self.places.get(name).copied()
    }

    /// A tensor.
    pub(crate) fn stored(&self, tensor: TensorRef) -> &StoredTensor {
        &self.files[tensor.file].tensors[tensor.tensor]
    }

    /// The file of a tensor, and where its elements begin.
    pub(crate) fn place(&self, tensor: TensorRef) -> (&InputFile, u64) {
        let file = &self.files[tensor.file];
        match &file.tensors[tensor.tensor].place {
            Location::File(at, _) => (&file.file, *at),
            Location::Other(file, at, _) => (file, *at),
            // A tensor without elements.
            _ => (&file.file, file.file.len()),
        }
    }

    /// Every tensor, in the order of the files.
    pub(crate) fn tensors(&self) -> impl Iterator<Item = (TensorRef, &StoredTensor)> + Clone {
        self.files.iter().enumerate().flat_map(|(file, input)| {
            let stored = move |(tensor, stored)| (TensorRef { file, tensor }, stored);
            input.tensors.iter().enumerate().map(stored)
        })
    }

    /// Bytes of a tensor.
    pub(crate) fn byte_len(&self, tensor: TensorRef) -> u64 {
        let stored = self.stored(tensor);
        stored.data_type.byte_len(stored.len).unwrap_or(0) as u64
    }

    /// All bytes of a small tensor.
    pub(crate) fn bytes(&self, tensor: TensorRef) -> Result<Vec<u8>, FormatError> {
        let (file, at) = self.place(tensor);
        let stored = self.stored(tensor);
        let len = stored.data_type.byte_len(stored.len).unwrap_or(usize::MAX);
        Ok(file.read(at, len as u64)?)
    }

    /// What is wrong with a tensor's file, or with the first one.
    pub(crate) fn error(&self, tensor: Option<TensorRef>, error: Invalid) -> FileError {
        let file = self.files.get(tensor.map_or(0, |tensor| tensor.file));
        FileError::invalid(file.map_or(Path::new(""), |file| file.path()), error)
    }

    /// A value of a tensor that is not allowed.
    pub(crate) fn value_error(&self, tensor: TensorRef, what: impl Into<Wording>) -> FileError {
        let error = Invalid::new(InvalidKind::Value, what).of_tensor(&self.stored(tensor).name);
        self.error(Some(tensor), error)
    }
}
