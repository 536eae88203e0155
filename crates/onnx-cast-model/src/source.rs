//! Where a model is read from: a file, or memory.

use crate::error::Error;
use onnx_cast_file::__private::outline::Backing;
use onnx_cast_file::__private::refuse_foreign;
use onnx_cast_file::{FileError, Format, InputFile, ReadAt};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What errors call a model in memory, in place of a path.
pub(crate) const IN_MEMORY: &str = "model";

/// A model that is read.
#[derive(Clone, Copy, Debug)]
pub enum ModelSource<'a> {
    /// A file.
    File(&'a Path),
    /// A serialized ModelProto.
    Memory(&'a ModelBytes),
}

/// A serialized ModelProto, instead of a file.
#[derive(Clone)]
pub struct ModelBytes {
    bytes: Arc<dyn AsRef<[u8]> + Send + Sync>,
    path: PathBuf,
    has_folder: bool,
}

impl ModelBytes {
    /// The bytes, and the folder of the files that have elements of the model. Without it all elements have to be among
    /// the bytes.
    pub fn new(bytes: impl AsRef<[u8]> + Send + Sync + 'static, folder: Option<&Path>) -> Self {
        let path = folder.map_or_else(|| IN_MEMORY.into(), |folder| folder.join(IN_MEMORY));
        ModelBytes { bytes: Arc::new(bytes), path, has_folder: folder.is_some() }
    }

    fn bytes(&self) -> &[u8] {
        (*self.bytes).as_ref()
    }

    /// The bytes as those of a file.
    pub(crate) fn file(&self) -> InputFile {
        InputFile::other(&self.path, self.bytes().len() as u64, self.clone())
    }
}

impl fmt::Debug for ModelBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelBytes").field("len", &self.bytes().len()).field("path", &self.path).finish()
    }
}

impl ReadAt for ModelBytes {
    fn read_at(&self, at: u64, bytes: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(at).ok().and_then(|at| self.bytes().get(at..)).unwrap_or_default();
        let len = left.len().min(bytes.len());
        bytes[..len].copy_from_slice(&left[..len]);
        Ok(len)
    }
}

impl<'a> ModelSource<'a> {
    /// Where the message is, of which `file` is the file.
    pub(crate) fn backing(self, file: &'a InputFile) -> Backing<'a> {
        match self {
            // It has no folder, so it may not refer to other files.
            ModelSource::Memory(model) if !model.has_folder => Backing::Memory(model.bytes()),
            _ => Backing::File(file),
        }
    }

    /// The path; of a model in memory, what errors call it.
    pub(crate) fn path(self) -> &'a Path {
        match self {
            ModelSource::File(path) => path,
            ModelSource::Memory(model) => &model.path,
        }
    }

    /// The file, or what takes its place.
    pub(crate) fn file(self) -> Result<InputFile, Error> {
        Ok(match self {
            ModelSource::File(path) => {
                let file = InputFile::open(path)?;
                refuse_foreign(&file, Some(Format::Onnx)).map_err(FileError::from)?;
                file
            }
            ModelSource::Memory(model) => model.file(),
        })
    }
}
