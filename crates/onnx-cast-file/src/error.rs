//! What can go wrong with a cast of files, or with a look at them. Every text starts with the file's path and names the
//! tensor; texts are complete, so no error here has a `source` that would say the same again.

use crate::counts::Loss;
use crate::formats::error::{FormatError, Invalid, InvalidKind};
use crate::io::error::IoError;
use crate::pipeline::PipelineError;
use crate::summary::{Summary, TensorSummary};
use crate::text::{PathText, TensorText, Wording};
use onnx_cast::ops::OpError;
use onnx_cast::{CastError, DataType};
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// A file that could not be read, cast or written.
#[derive(Debug, Error)]
#[error("{}", self.wording())]
#[non_exhaustive]
pub enum FileError {
    /// A file that could not be read or written, that is not valid, or that does not fit what was asked for.
    Format(FormatError),
    /// A cast that loses what the caller does not want to lose; nothing is written. `tensor` is the first with such a
    /// loss, `count` the number of its values, and `summary` what the cast would have done.
    #[allow(missing_docs)]
    Loss { path: PathBuf, tensor: String, loss: Loss, count: u64, to: DataType, summary: Box<Summary> },
    /// Options that no operator has, whatever the file.
    Operator(OpError),
    /// A candidate of a report that has no errors to report.
    Candidate(String),
    /// The caller's [`Watch`](crate::Watch) has ended the work. The output is as it was before.
    #[allow(missing_docs)]
    Stopped { path: PathBuf },
}

impl FileError {
    /// Which kind of error it is, if it is about what a file holds or what was asked of it.
    pub fn kind(&self) -> Option<InvalidKind> {
        match self {
            FileError::Format(FormatError::Invalid { error, .. }) => Some(error.kind),
            _ => None,
        }
    }

    /// The text, with fields of requests apart.
    pub fn wording(&self) -> Wording {
        match self {
            FileError::Format(error) => error.wording(),
            FileError::Loss { path, tensor, loss, count, to, summary } => {
                let values = if *count == 1 { "value" } else { "values" };
                let lossy = summary.tensors.iter().find(|row| row.name == *tensor);
                let done = match lossy.and_then(|row| row.quantized) {
                    Some(format) => format!("quantized to {format}"),
                    None => format!("cast to {to}"),
                };
                let what = format!("{loss} in {count} {values} {done} (nothing is written)");
                format!("{}: {}{what}", PathText(path), TensorText(tensor)).into()
            }
            FileError::Operator(error) => error.to_string().into(),
            FileError::Candidate(what) => what.as_str().into(),
            FileError::Stopped { path } => format!("{}: stopped before it was complete", PathText(path)).into(),
        }
    }

    /// The refusal of an action on a file.
    pub fn io(path: &Path, action: &'static str, error: io::Error) -> FileError {
        // A reader of blocks may have found a fault of the file, and not of the system.
        match error.downcast::<Invalid>() {
            Ok(invalid) => FileError::invalid(path, invalid),
            Err(error) => IoError::new(path, action, error).into(),
        }
    }

    /// Fails where a tensor of a cast has lost what none may.
    ///
    /// # Errors
    /// [`FileError::Loss`] with the first such tensor.
    pub fn check_losses(summary: &Summary, path: &Path, fail_on: &[Loss]) -> Result<(), FileError> {
        let lossy = summary.tensors.iter().find_map(|row| FileError::loss(row, fail_on).map(|loss| (row, loss)));
        let Some((row, (loss, count))) = lossy else { return Ok(()) };
        let (path, tensor, summary) = (path.to_owned(), row.name.clone(), Box::new(summary.clone()));
        Err(FileError::Loss { path, tensor, loss, count, to: row.to, summary })
    }

    /// What a tensor has lost that none may, and how many of its values.
    pub(crate) fn loss(row: &TensorSummary, fail_on: &[Loss]) -> Option<(Loss, u64)> {
        let counts = row.counts.as_ref()?;
        fail_on.iter().map(|loss| (*loss, loss.count(counts))).find(|(_, count)| *count > 0)
    }

    /// What went wrong where elements of a tensor were moved from a file to another.
    pub(crate) fn moving(error: PipelineError, input: &Path, output: &Path, tensor: &str) -> FileError {
        match error {
            PipelineError::Read(error) => FileError::io(input, "read", error),
            PipelineError::Write(error) => FileError::io(output, "write", error),
            PipelineError::Stopped => FileError::Stopped { path: output.to_owned() },
            PipelineError::Cast(error) => FileError::cast(input, tensor, error),
        }
    }

    /// The same error, with another field of the request in place of one.
    pub(crate) fn renamed(mut self, from: &str, to: &'static str) -> FileError {
        if let FileError::Format(FormatError::Invalid { error, .. }) = &mut self {
            error.what = std::mem::take(&mut error.what).renamed(from, to);
        }
        self
    }

    /// A request that a file does not fit.
    pub fn request(path: &Path, what: impl Into<Wording>) -> FileError {
        FormatError::request(path, what).into()
    }

    /// Refuses what a kind of file has no use for: of each field its name, whether it is given, and why it is refused.
    ///
    /// # Errors
    /// [`InvalidKind::Request`] with the first field that is given.
    pub fn refuse(path: &Path, fields: &[(&'static str, bool, &'static str)]) -> Result<(), FileError> {
        match fields.iter().find(|(_, given, _)| *given) {
            Some(&(field, _, reason)) => {
                let what = Wording::default().field(field, format!(" {reason}"));
                Err(FileError::request(path, what))
            }
            None => Ok(()),
        }
    }

    /// What is wrong with a file, or with what was asked of it.
    pub(crate) fn invalid(path: &Path, error: impl Into<Invalid>) -> FileError {
        FormatError::invalid(path, error.into()).into()
    }

    /// A cast from or to strings in a file of several tensors.
    pub(crate) fn strings(path: &Path, tensor: &str) -> FileError {
        let error = Invalid::new(InvalidKind::Type, "strings are cast only in a file of one tensor");
        FileError::invalid(path, error.of_tensor(tensor))
    }

    /// A tensor of a file that could not be cast.
    pub fn cast(path: &Path, tensor: &str, error: CastError) -> FileError {
        FormatError::cast(path, tensor, error).into()
    }
}

impl<E: Into<FormatError>> From<E> for FileError {
    fn from(error: E) -> Self {
        FileError::Format(error.into())
    }
}
