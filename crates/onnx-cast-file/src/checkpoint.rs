//! The open files of a checkpoint, and the location of its configuration.

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
    /// The files, in the order of the index, if there is one.
    pub(crate) files: Vec<Input>,
    /// Location of the configuration.
    pub(crate) configuration: Configuration,
    places: HashMap<String, TensorRef>,
}

/// Reference to a tensor of a checkpoint: the index of its file, and its index in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct TensorRef {
    pub(crate) file: usize,
    pub(crate) tensor: usize,
}

/// Location of a checkpoint's configuration.
#[derive(Clone, Debug)]
pub(crate) enum Configuration {
    /// A folder with `config.json` and the layouts' own configuration files.
    Folder(PathBuf),
    /// A JSON string, if any, for tensors in memory.
    Text(Option<String>),
}

impl Checkpoint {
    /// Opens the files that a path was resolved to, and checks them against the index.
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

    /// Reads the index, if there is one, and opens the files.
    pub(crate) fn located(path: &Path, located: &Located) -> Result<Checkpoint, FormatError> {
        let index = match located {
            Located::Index(path) => Some(Index::read(path)?),
            _ => None,
        };
        Checkpoint::open(path, located, index.as_ref())
    }

    /// Creates a checkpoint from open files. `input` is the path that the user specified.
    pub(crate) fn of(input: &Path, files: Vec<Input>) -> Checkpoint {
        // The standard input has no folder. In particular, its folder is not the current one.
        let file = files.first().filter(|_| !is_stream(input));
        let folder = file.map_or(input, |file| folder_of(file.path())).to_owned();
        Checkpoint::with(files, Configuration::Folder(folder))
    }

    /// Creates a checkpoint from open files and the location of its configuration.
    pub(crate) fn with(files: Vec<Input>, configuration: Configuration) -> Checkpoint {
        let mut places = HashMap::new();
        for (file, input) in files.iter().enumerate() {
            for (tensor, stored) in input.tensors.iter().enumerate() {
                places.insert(stored.name.clone(), TensorRef { file, tensor });
            }
        }
        Checkpoint { files, configuration, places }
    }

    /// Returns whether all files hold weights: `.safetensors` files, or those of `torch.save`.
    pub(crate) fn holds_weights(&self) -> bool {
        self.files.iter().all(|file| matches!(file.format, Format::Safetensors | Format::Torch))
    }

    /// Returns the folder of the files and the configuration; empty for tensors in memory.
    pub(crate) fn folder(&self) -> &Path {
        match &self.configuration {
            Configuration::Folder(folder) => folder,
            Configuration::Text(_) => Path::new(""),
        }
    }

    /// Finds a tensor by name.
    pub(crate) fn find(&self, name: &str) -> Option<TensorRef> {
        self.places.get(name).copied()
    }

    /// Returns the header of a tensor.
    pub(crate) fn stored(&self, tensor: TensorRef) -> &StoredTensor {
        &self.files[tensor.file].tensors[tensor.tensor]
    }

    /// Returns the file that holds a tensor's elements, and their offset.
    pub(crate) fn place(&self, tensor: TensorRef) -> (&InputFile, u64) {
        let file = &self.files[tensor.file];
        match &file.tensors[tensor.tensor].place {
            Location::File(at, _) => (&file.file, *at),
            Location::Other(file, at, _) => (file, *at),
            // The tensor has no elements.
            _ => (&file.file, file.file.len()),
        }
    }

    /// Returns all tensors, in the order of the files.
    pub(crate) fn tensors(&self) -> impl Iterator<Item = (TensorRef, &StoredTensor)> + Clone {
        self.files.iter().enumerate().flat_map(|(file, input)| {
            let stored = move |(tensor, stored)| (TensorRef { file, tensor }, stored);
            input.tensors.iter().enumerate().map(stored)
        })
    }

    /// Returns the number of bytes of a tensor.
    pub(crate) fn byte_len(&self, tensor: TensorRef) -> u64 {
        let stored = self.stored(tensor);
        stored.data_type.byte_len(stored.len).unwrap_or(0) as u64
    }

    /// Reads all bytes of a tensor, which must be small.
    pub(crate) fn bytes(&self, tensor: TensorRef) -> Result<Vec<u8>, FormatError> {
        let (file, at) = self.place(tensor);
        let stored = self.stored(tensor);
        let len = stored.data_type.byte_len(stored.len).unwrap_or(usize::MAX);
        Ok(file.read(at, len as u64)?)
    }

    /// Creates an error about a tensor's file, or about the first file.
    pub(crate) fn error(&self, tensor: Option<TensorRef>, error: Invalid) -> FileError {
        let file = self.files.get(tensor.map_or(0, |tensor| tensor.file));
        FileError::invalid(file.map_or(Path::new(""), |file| file.path()), error)
    }

    /// Creates an error about an invalid value in a tensor.
    pub(crate) fn value_error(&self, tensor: TensorRef, what: impl Into<Wording>) -> FileError {
        let error = Invalid::new(InvalidKind::Value, what).of_tensor(&self.stored(tensor).name);
        self.error(Some(tensor), error)
    }
}
